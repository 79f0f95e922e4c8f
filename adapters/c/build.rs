//! Names the version of the binary interface in the shared library, where the linker has a place for it.

use std::env;

/// `MCP_ABI_VERSION` of `src/lib.rs`; a test in `tests/programs/c` compares both.
const ABI_VERSION: u32 = 1;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmcp.so.{ABI_VERSION}");
    }
}
