//! A server on stdin and stdout, on the core alone: for `wasm32-wasip1`, and for any other system of std.
//!
//! Reads block. So the deadlines of the engine are met with the next input, and while a call of `wait` is open, the server
//! sleeps until it is due instead of reading.

#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_proto::{Instant, VersionSet};
use mcp_wasm_server::ToolServer;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stdio: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| io::Error::other(format!("the host gives no entropy: {error}")))?;
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let begun = std::time::Instant::now();
    let now = || Instant::ZERO + begun.elapsed();

    let mut server = ToolServer::new(now(), VersionSet::ALL, secret, unix_seconds);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut buffer = [0; 4096];
    loop {
        while !server.transmit().is_empty() {
            let written = output.write(server.transmit())?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            server.consume(written);
            server.resume();
        }
        output.flush()?;
        if server.is_drained() {
            return Ok(());
        }
        if let Some(due) = server.poll_wait() {
            std::thread::sleep(due.saturating_duration_since(now()));
        } else if server.wants_input() {
            match input.read(&mut buffer) {
                Ok(0) => server.handle_eof(now()),
                Ok(length) => server.handle_input(now(), &buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        } else if let Some(due) = server.poll_timeout() {
            // After the end of the input only deadlines are left: the grace period of open calls.
            std::thread::sleep(due.saturating_duration_since(now()));
        } else {
            return Ok(());
        }
        server.handle_timeout(now());
    }
}
