//! HTTP servers of `mcp-smol` over TLS.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_tls.rs"]
mod suite;
mod support;

use support::adapter;
