//! Servers of `mcp-threads` over HTTP. Tests of several shards are in `shards.rs`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/crowds.rs"]
mod crowds;
#[path = "../../suites/protected.rs"]
mod protected;
#[path = "../../suites/http.rs"]
mod suite;
mod support;

use support::adapter;
