//! Calls whose results are read as types, with callbacks on the thread of whoever calls

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "shared/typed.rs"]
mod shared;
mod support;
