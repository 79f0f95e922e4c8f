//! Search in place of lists: the tools of all upstreams behind two, `search` and `call`.
//!
//! Catalogues are read when an upstream has been started, and again when it tells that its tools have changed. A search ranks what the
//! policy lets its client see. What `call` names is relayed as if the client had called it.

mod answers;
mod bridge;
mod catalogue;
mod gateway;
mod ranking;
mod words;

pub(crate) use answers::ToolSearch;
pub use bridge::search_server_config;
pub(crate) use catalogue::Catalogue;
pub use gateway::{SearchSize, search_gateway_config};
#[cfg(test)]
pub(crate) use ranking::{Document, rank};
#[cfg(test)]
pub(crate) use words::words;
