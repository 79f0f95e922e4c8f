//! MCP over HTTP, exchange by exchange, whoever speaks HTTP.

pub mod client;
pub mod fields;
pub mod params;
mod record;
pub mod server;

pub use record::HeadRecord;
