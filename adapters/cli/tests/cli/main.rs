//! `mcp-probe` as people run it: a process with arguments, two outputs and an exit code

extern crate alloc;

mod answers;
mod asks;
mod demo;
mod everything;
mod failures;
mod steps;
#[cfg(unix)]
mod strangers;
mod support;
