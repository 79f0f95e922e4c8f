//! A server of `mcp-smol` as a process, with each kind of stdin and stdout.

#![cfg(target_os = "linux")]

extern crate alloc;

#[path = "../../suites/stdio_process.rs"]
mod suite;
mod support;

use support::adapter;
