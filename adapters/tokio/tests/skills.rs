//! Skills, from a folder of a server to verified files, with `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/skills.rs"]
mod suite;
mod support;

use support::adapter;
