//! Calls whose results are read as types, by a client of futures

#![cfg(unix)]

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "../../blocking/tests/shared/typed.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;
