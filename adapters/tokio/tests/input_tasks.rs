//! Questions of a handler that run as tasks of the client, with `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/input_tasks.rs"]
mod suite;
mod support;

use support::adapter;
