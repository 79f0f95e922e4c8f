//! A blocking client and a server of `mcp-smol`, in two threads, in both eras.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/pair.rs"]
mod suite;
mod support;

use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use async_io::Async;
use mcp_blocking::{Client, Error};
use mcp_proto::Era;
use mcp_std::io::Socket;
use support::{Tools, adapter, client_config, server_config, version_set};

/// Repetitions of ten bytes in a large message, which is more than a socket buffers.
const LARGE_REPEATS: usize = 1_000_000;

/// Connects a client to a server over a Unix stream, whose capacity the system chooses.
fn pair(era: Era, _capacity: usize, tools: Tools) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || adapter::serve_handler(server_config(), Async::new(near)?, tools));
    let client =
        Client::connect(client_config(version_set(era)), Socket::unix(far).unwrap()).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}
