//! Results that a client need not ask for again, by a client that many threads share

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "../../blocking/tests/shared/cache.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;
