//! Results that a client need not ask for again, by a client of futures

#![cfg(unix)]

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "../../blocking/tests/shared/cache.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;
