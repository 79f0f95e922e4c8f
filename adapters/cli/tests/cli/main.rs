//! `mcp-probe` as people run it: a process with arguments, two outputs and an exit code

extern crate alloc;

mod answers;
#[cfg(unix)]
mod check;
mod demo;
mod failures;
#[cfg(unix)]
mod fixture;
#[cfg(unix)]
mod strangers;
mod support;
