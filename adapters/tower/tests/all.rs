//! Tests of `mcp-tower` without sockets.

extern crate alloc;

mod client;
mod limits;
mod protected;
mod service;
mod streams;
mod support;
