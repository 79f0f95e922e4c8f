//! `mcp-probe` as people run it: a process with arguments, two outputs and an exit code

extern crate alloc;

mod answering;
mod answers;
mod asks;
#[cfg(unix)]
mod bridge;
#[cfg(unix)]
mod check;
mod check_http;
mod conversations;
mod demo;
mod everything;
mod failures;
#[cfg(unix)]
mod fixture;
#[cfg(unix)]
mod http;
mod listen;
mod rounds;
#[cfg(unix)]
mod runtimes;
mod steps;
#[cfg(unix)]
mod strangers;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(all(unix, feature = "tls"))]
mod tls;
#[cfg(target_os = "linux")]
mod told;
