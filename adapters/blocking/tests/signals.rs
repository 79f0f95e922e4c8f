//! Servers of `mcp-blocking` that the system terminates by a signal.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/signals.rs"]
mod suite;
mod support;

use mcp_blocking::on_terminate;
use support::adapter;
