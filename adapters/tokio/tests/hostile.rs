//! Servers of `mcp-tokio` as processes in a hostile environment.

#[cfg(target_os = "linux")]
extern crate alloc;

#[cfg(target_os = "linux")]
#[path = "../../suites/hostile.rs"]
mod suite;
#[cfg(target_os = "linux")]
mod support;

#[cfg(target_os = "linux")]
use support::adapter;

fn main() {
    #[cfg(target_os = "linux")]
    suite::main();
}
