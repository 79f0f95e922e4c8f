//! What helps against a server that does not start or is not reached, for the diagnosis and for messages of programs.

mod start_fault;
mod tls_causes;

pub use start_fault::{HOME, StartFault, find_program};
pub use tls_causes::tls_cause;

/// Hint for a server that no connection reaches.
pub const UNREACHABLE: &str = "is the server running, and is this its host and port?";
/// Hint for a request that was refused for want of authorization, with the options of `mcp-probe`.
pub const BEARER: &str = "--bearer sends another token (env:NAME reads it from a variable, @PATH from a file); without \
                          it, `mcp-probe login` gets one; --header NAME:VALUE sends a key in another field";

/// Returns the hint for a server that no connection reaches, for this reason: the text of an error.
#[must_use]
pub fn unreachable(reason: &str) -> &'static str {
    tls_cause(reason).map_or(UNREACHABLE, |(_, fix)| fix)
}
