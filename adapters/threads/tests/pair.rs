//! A blocking client and a server of `mcp-threads`, in two threads, in both eras.

extern crate alloc;

#[path = "../../suites/pair.rs"]
mod suite;
mod support;

use std::thread::{self, JoinHandle};

use mcp_blocking::{Client, Error};
use mcp_proto::Era;
use support::{Tools, adapter, client_config, server_config, version_set};

/// Repetitions of ten bytes in a large message. Three of them together are no more than a client queues.
const LARGE_REPEATS: usize = 300_000;

/// Connects a client to a server over a stream that holds `capacity` bytes in each direction.
fn pair(era: Era, capacity: usize, tools: Tools) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::io::memory_pair(capacity);
    let server = thread::spawn(move || mcp_threads::serve(server_config(), near, tools));
    let client = Client::connect(client_config(version_set(era)), far).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}
