//! MCP over HTTP at the level of exchanges, independent of the HTTP implementation.

#[cfg(feature = "client")]
pub mod client;
pub mod params;
mod record;
#[cfg(feature = "server")]
pub mod server;

pub use crate::fields;
pub use record::HeadRecord;
