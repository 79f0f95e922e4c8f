//! Servers of `mcp-tokio` that the system terminates by a signal.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/signals.rs"]
mod suite;
mod support;

use mcp_tokio::on_terminate;
use support::adapter;
