//! Servers of `mcp-smol` that the system terminates by a signal.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/signals.rs"]
mod suite;
mod support;

use mcp_smol::on_terminate;
use support::adapter;
