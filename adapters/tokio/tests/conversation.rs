//! A router and a client with callbacks, as futures.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/conversation.rs"]
mod suite;
mod support;

use support::adapter;
