//! What `mcp-proto` costs, beside the floor: the least work that gives the same answers.
//!
//! The scenarios are plain structs with an `op` that does the work once, so that the instruction counter, the wall
//! clock benches and the heap counters all see the same code. The programs: `bench-work` does one scenario N times,
//! `bench-floor` is the floor as a server process, `bench-drive` calls server processes, `bench-client` calls them with
//! our own client. `measure` runs them all.

extern crate alloc;

pub mod floor;
pub mod heap;
pub mod lines;
pub mod process;
pub mod scenario;
pub mod wire;
