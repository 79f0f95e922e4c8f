//! A router and a client of callbacks, of futures

#![cfg(unix)]

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "../../blocking/tests/shared/talk.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;
