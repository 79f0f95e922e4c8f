//! The floor as a server process: `bench-floor` on stdin and stdout, `bench-floor http PORT` over HTTP.

use std::io;
use std::net::TcpListener;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next().and_then(|port| port.parse().ok())) {
        (None, _) => stdio(),
        (Some("http"), Some(port)) => mcp_benches::floor_http::serve(TcpListener::bind(("127.0.0.1", port))?),
        _ => Err(io::Error::other("usage: bench-floor [http PORT]")),
    }
}

/// Serves without the buffers and locks of `std::io`.
#[cfg(unix)]
fn stdio() -> io::Result<()> {
    use std::fs::File;
    use std::os::fd::AsFd;

    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    mcp_benches::floor::serve(input, output)
}

#[cfg(not(unix))]
fn stdio() -> io::Result<()> {
    mcp_benches::floor::serve(io::stdin().lock(), io::stdout().lock())
}
