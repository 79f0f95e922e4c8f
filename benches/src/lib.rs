//! Cost of `mcp-proto`, compared with the floor: the least work that gives the same answers.
//!
//! A scenario is a plain struct whose `run_once` does the work once, so that instruction counts, wall-clock benches and
//! heap counters measure the same code. Programs: `bench-work` runs one scenario N times. `bench-floor` is the floor as
//! a server process. `bench-drive` calls server processes over pipes, `bench-http` over HTTP. `bench-crowd` holds
//! thousands of connections to them. `bench-serve` is a server of ours for that. `bench-client` calls them with our
//! clients. `measure` and `beside` run all of them.

extern crate alloc;

pub mod epoll;
pub mod floor;
pub mod floor_http;
pub mod heap;
pub mod lines;
pub mod process;
pub mod scenario;
pub mod web;
pub mod wire;
