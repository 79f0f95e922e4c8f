//! The program `mcp-probe`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_probe::main()
}
