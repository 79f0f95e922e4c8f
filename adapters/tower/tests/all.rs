//! Tests of `mcp-tower` without sockets.

extern crate alloc;

mod client;
mod context;
mod limits;
mod protected;
mod service;
mod sessions;
mod streams;
mod support;
mod webhook;
