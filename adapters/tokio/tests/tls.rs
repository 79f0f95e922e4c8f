//! HTTP servers of `mcp-tokio` over TLS.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_tls.rs"]
mod suite;
mod support;

use support::adapter;
