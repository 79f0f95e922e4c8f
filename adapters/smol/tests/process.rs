//! A server of `mcp-smol` as a process, with each kind of stdin and stdout.
