//! MCP over HTTP at the level of exchanges, independent of the HTTP implementation.

pub mod client;
pub mod params;
mod record;
pub mod server;

pub use crate::fields;
pub use record::HeadRecord;
