//! Servers of `mcp-smol` over HTTP.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_http.rs"]
mod async_suite;
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
