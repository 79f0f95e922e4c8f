//! The server of `mcp-wasm-server` as the role of a module.

use mcp_proto::{Instant, VersionSet};
use mcp_wasm_server::ToolServer;

/// Also the functions of `client::Role`: the module calls either.
pub(crate) type Role = ToolServer;

#[cfg(feature = "ask")]
pub(crate) fn open(now: Instant, versions: VersionSet, entropy: [u8; 32], unix_seconds: u64) -> Role {
    Role::new(now, versions, entropy, unix_seconds)
}

// Nothing is sealed. The entropy is required all the same, so that all modules have one interface.
#[cfg(not(feature = "ask"))]
pub(crate) fn open(now: Instant, versions: VersionSet, _: [u8; 32], _: u64) -> Role {
    Role::new(now, versions)
}
