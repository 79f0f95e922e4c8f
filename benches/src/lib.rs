//! What `mcp-proto` costs, beside the floor: the least work that gives the same answers.
//!
//! The scenarios are plain structs with an `op` that does the work once, so that the instruction counter, the wall
//! clock benches and the heap counters all see the same code. The programs: `bench-work` does one scenario N times,
//! `bench-floor` is the floor as a server process, `bench-drive` calls server processes over pipes, `bench-http` over
//! HTTP, `bench-crowd` holds thousands of connections to them, `bench-serve` is such a server of ours, `bench-client` calls
//! them with our own clients. `measure` and `beside` run them all.

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
