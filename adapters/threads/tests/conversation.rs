//! A router and a client with callbacks, on threads.

extern crate alloc;

#[path = "../../suites/conversation.rs"]
mod suite;
mod support;

use support::adapter;
