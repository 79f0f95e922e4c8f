//! Helpers of the tests: those of all adapters, and the knobs of the shared suites.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

pub mod adapter;
#[path = "../../../suites/support.rs"]
mod common;
#[path = "../../../suites/tools.rs"]
mod tools;

pub use common::*;
pub use tools::Tools;
