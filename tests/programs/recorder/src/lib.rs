//! Records the clients of an MCP server over HTTP.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use mcp_proto::http::Url;
use mcp_proto_trace::io::{Recording, serve_http};
use mcp_proto_trace::{Header, Mask, Recorder};
use mcp_std::Clock;

/// Records to this file what clients of the returned address and the server at `url` say to each other.
pub fn record(url: &Url, trace: &Path) -> io::Result<SocketAddr> {
    let header = Header::new("mcp-recorder", 0);
    let recorder = Recorder::new(File::create(trace)?, header, Mask::default(), 1 << 20)?;
    let recording =
        Recording::new(recorder, Clock::start(), |failure| eprintln!("no more is recorded: {failure:?}"));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, url) = (listener.local_addr()?, url.clone());
    thread::spawn(move || serve_http(&listener, &url, &Arc::new(recording), "mcp-recorder"));
    Ok(address)
}
