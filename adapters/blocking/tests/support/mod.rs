//! Helpers of the tests: those of all adapters, misbehaving servers, and scripted streams.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

pub mod adapter;
#[path = "../../../suites/support.rs"]
mod common;
#[path = "../../../suites/script.rs"]
mod script;
#[path = "../../../suites/tools.rs"]
mod tools;

pub use common::*;
pub use script::ScriptedStream;
pub use tools::Tools;

use core::time::Duration;
use std::io;
use std::thread::{self, JoinHandle};

use mcp_blocking::{Client, Error, Handler, Options, serve};
use mcp_proto::{Era, Limits, VersionSet, client};
use mcp_std::io::{Duplex, Interest, Ready};
use mcp_std::process::{Program, ShutdownTimeouts, Stderr};

/// Returns the example server that misbehaves as `mode` names.
pub fn odd_server(mode: &str) -> Program {
    Program::new(example("odd_server")).arg(mode).stderr(Stderr::Capture)
}

/// Returns client options with short shutdown timeouts, in which a busy machine ends a process all the same.
pub fn short_timeouts() -> Options {
    Client::options(client_config(VersionSet::ALL))
        .shutdown_timeouts(ShutdownTimeouts::uniform(Duration::from_secs(2)))
}

/// Returns a client configuration with short timeouts of the probe and the handshake.
pub fn short_client() -> client::Config {
    let mut limits = Limits::default();
    limits.probe_timeout = Duration::from_millis(100);
    limits.init_timeout = Duration::from_millis(300);
    client_config(VersionSet::ALL).limits(limits)
}

/// Connects a client to a server in two threads, over a stream that holds `capacity` bytes in each direction.
pub fn pair(
    era: Era,
    capacity: usize,
    handler: impl Handler + Send + 'static,
) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::io::memory_pair(capacity);
    let server = thread::spawn(move || serve(server_config(), near, handler));
    let client = Client::connect(client_config(version_set(era)), far).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}

impl Duplex for ScriptedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_piece(buffer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.record_write(bytes)
    }

    /// Takes the whole timeout if only time can end the wait.
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.count_wait();
        assert!(interest.read || interest.write || timeout.is_some(), "a wait without interest and timeout");
        if !interest.read && !interest.write {
            thread::sleep(timeout.unwrap_or_default());
        }
        Ok(Ready { readable: interest.read, writable: interest.write })
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}
