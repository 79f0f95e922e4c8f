//! Bytes of a stream, within deadlines.

use std::io::{self, ErrorKind};
use std::time::Instant;

use mcp_std::io::{Duplex, Interest};

/// The outcome of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Bytes,
    /// The end of the stream, which may be a failure.
    End,
    TimedOut,
}

/// Writes all bytes.
///
/// # Errors
///
/// Fails if the stream does, or at the deadline.
pub(crate) fn write_all(io: &mut impl Duplex, bytes: &[u8], until: Instant) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        match io.write(left) {
            Ok(n) => left = &left[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let time = until.saturating_duration_since(Instant::now());
                if time.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                io.wait(Interest::WRITE, Some(time))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for bytes and appends them to the buffer.
pub(crate) fn read_more(io: &mut impl Duplex, buffer: &mut Vec<u8>, until: Instant) -> Came {
    let mut chunk = [0; 64 * 1024];
    loop {
        let time = until.saturating_duration_since(Instant::now());
        if time.is_zero() {
            return Came::TimedOut;
        }
        match io.wait(Interest::READ, Some(time)).and_then(|_| io.read(&mut chunk)) {
            Ok(n @ 1..) => {
                buffer.extend_from_slice(&chunk[..n]);
                return Came::Bytes;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => return Came::End,
        }
    }
}
