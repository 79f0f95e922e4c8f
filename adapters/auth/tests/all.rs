//! Tests of `mcp-auth` from outside: a store that processes share.

mod support;
mod token_store;
