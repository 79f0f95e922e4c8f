//! MCP over HTTP, exchange by exchange, whoever speaks HTTP.

pub mod client;
pub mod fields;
pub mod params;
pub mod server;
