//! `mcp-probe` as people run it: a process with arguments, two outputs and an exit code

mod answers;
mod demo;
mod everything;
mod failures;
#[cfg(unix)]
mod strangers;
mod support;
