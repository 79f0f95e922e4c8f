//! Calls whose results are read as types, by a client that many threads share

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "../../blocking/tests/shared/typed.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;
