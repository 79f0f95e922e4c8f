//! The C library: its header, programs in C with two compilers, under valgrind and the address sanitizer, and peers.

extern crate alloc;

mod build;
mod examples;
mod header;
mod install;
mod misuse;
mod own_client;
#[path = "../../../../system/tests/peers.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod peers;
mod posix;
#[path = "../../../../system/tests/run.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod run;
mod sdk_clients;

use std::path::PathBuf;

/// Returns the folder of the package `mcp-c`.
fn adapter() -> PathBuf {
    ["..", "..", "..", "adapters", "c"]
        .iter()
        .fold(env!("CARGO_MANIFEST_DIR").into(), |path: PathBuf, part| path.join(part))
}
