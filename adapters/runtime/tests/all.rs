//! Tests of `mcp-runtime` from outside.

extern crate alloc;

mod dispatcher;
