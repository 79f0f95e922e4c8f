//! A blocking client and a server of `mcp-tokio`, in two threads, in both eras.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_pair.rs"]
mod async_suite;
#[path = "../../suites/pair.rs"]
mod suite;
mod support;

use async_suite::{LARGE_REPEATS, pair};
use support::adapter;
