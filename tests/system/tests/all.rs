//! Tests with processes, sockets and peers that others wrote.

extern crate alloc;

mod authorization;
mod conformance;
mod diagnostics;
mod dpop_both_ends;
mod hosted_server;
mod interop;
mod json_schema_suite;
mod node;
mod peers;
mod run;
mod soak;
