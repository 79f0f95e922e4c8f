//! Servers of `mcp-threads` in a hostile environment: the program starts itself as each, so it has its own `main`.

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
