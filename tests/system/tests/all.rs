//! Tests with processes, sockets and peers that others wrote. The feature `every-peer` adds those that take minutes.

#![cfg_attr(
    not(feature = "every-peer"),
    allow(dead_code, reason = "only the other tests use the rest of the helpers")
)]

extern crate alloc;

mod authorization;
#[cfg(feature = "every-peer")]
mod conformance;
// Builds all adapters again.
#[cfg(feature = "every-peer")]
mod diagnostics;
mod dpop_both_ends;
mod hosted_server;
mod interop;
mod json_schema_suite;
mod node;
mod peers;
mod run;
#[cfg(feature = "every-peer")]
mod soak;
