//! Helpers of the tests: those of asynchronous adapters, and the knobs of the shared suites.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

pub mod adapter;
#[path = "../../../suites/async_support.rs"]
mod async_support;

pub use async_support::*;
