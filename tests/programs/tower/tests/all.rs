//! `mcp-tower` in axum and in hyper, clients over HTTP clients of the application, events, and the official conformance suite.

extern crate alloc;

mod client;
mod conformance;
mod events;
mod http2;
mod mount;
mod serve;

// The files of the conformance tests, which name each other by the root of the program.
#[path = "../../../system/tests/conformance/evaluation.rs"]
mod evaluation;
#[path = "../../../system/tests/node.rs"]
mod node;
#[path = "../../../system/tests/peers.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod peers;
#[path = "../../../system/tests/run.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod run;
#[path = "../../../system/tests/conformance/sets.rs"]
mod sets;
#[path = "../../../system/tests/conformance/suite.rs"]
#[expect(dead_code, reason = "only the tests of clients use the rest")]
mod suite;
