//! `mcp-tower` in axum and in hyper, clients over HTTP clients of the application, and the official conformance suite.

extern crate alloc;

mod client;
mod conformance;
mod http2;
mod mount;
mod serve;

// The files of the conformance tests, which name each other by the root of the program.
#[path = "../../../conformance/evaluation.rs"]
mod evaluation;
#[path = "../../../conformance/node.rs"]
mod node;
#[path = "../../../interop/peers.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod peers;
#[path = "../../../interop/run.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod run;
#[path = "../../../conformance/sets.rs"]
mod sets;
#[path = "../../../conformance/suite.rs"]
#[expect(dead_code, reason = "only the tests of clients use the rest")]
mod suite;

/// Where the files of the server expect the steps of the tour, none of which is performed wrongly here.
#[path = "../../../../adapters/cli/src/demo/tour_step.rs"]
#[expect(dead_code, reason = "only the command line uses the rest")]
mod demo;
