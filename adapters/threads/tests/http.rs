//! Servers of `mcp-threads` over HTTP. Tests of several shards are in `shards.rs`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/crowds.rs"]
mod crowds;
#[path = "../../suites/protected.rs"]
mod protected;
#[path = "../../suites/request_in_view.rs"]
mod request_in_view;
#[path = "../../suites/http.rs"]
mod suite;
mod support;
#[path = "../../suites/visibility.rs"]
mod visibility;

use support::adapter;
