//! Results that a client need not ask for again, with callbacks on the thread of whoever calls

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "shared/cache.rs"]
mod shared;
mod support;
