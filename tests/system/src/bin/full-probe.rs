//! `mcp-probe` with all features.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_probe::main()
}
