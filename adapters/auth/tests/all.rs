//! Tests of `mcp-auth` from outside: a store that processes share, and refresh tokens in it.

extern crate alloc;

mod refresh_once;
mod support;
mod token_store;
