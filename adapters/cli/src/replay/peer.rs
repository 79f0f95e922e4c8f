//! A trace is played against a program that runs.

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::time::Instant;

use mcp_proto_trace::{Playback, RecordedServer, Replayed};
use mcp_std::io::{Duplex, Interest, is_peer_gone};

/// Time after the last message in which what was not recorded is heard.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Longest line, in bytes.
const MAX_LINE: usize = 64 << 20;

/// Plays a trace until all was said, or the peer has ended. What does not come within `timeout` is given up.
///
/// # Errors
///
/// Fails if the peer cannot be read from or written to.
pub(super) fn play(
    io: &mut impl Duplex,
    mut playback: Playback<'_>,
    timeout: Duration,
) -> io::Result<Replayed> {
    let mut lines = Lines { io, buffer: Vec::new() };
    let mut is_gone = false;
    while !is_gone {
        while let Some(bytes) = playback.poll_output() {
            is_gone |= !lines.send(&bytes, timeout)?;
        }
        let (is_done, patience) = match playback.is_done() {
            true => (true, LAST_WORDS.min(timeout)),
            false => (false, timeout),
        };
        match lines.next(Some(patience))? {
            Heard::Line(line) => playback.handle_line(&line),
            Heard::Nothing if is_done => break,
            Heard::Nothing => playback.give_up(),
            Heard::End => is_gone = true,
        }
    }
    while !playback.is_done() {
        // What was to be sent after the end is lost, and what was to be heard is a difference.
        while playback.poll_output().is_some() {}
        playback.give_up();
    }
    Ok(playback.finish())
}

/// Answers the requests of a client from a trace, until the client has ended. Returns how many were answered.
///
/// # Errors
///
/// Fails if the client cannot be read from or written to.
pub(super) fn answer(
    io: &mut impl Duplex,
    mut server: RecordedServer,
    timeout: Duration,
) -> io::Result<usize> {
    let mut lines = Lines { io, buffer: Vec::new() };
    let mut count = 0;
    loop {
        match lines.next(None)? {
            Heard::Line(line) => {
                let answers = server.handle_line(&line);
                count += usize::from(!answers.is_empty());
                for answer in answers {
                    if !lines.send(format!("{answer}\n").as_bytes(), timeout)? {
                        return Ok(count);
                    }
                }
            }
            Heard::Nothing => {}
            Heard::End => return Ok(count),
        }
    }
}

/// What a wait for a line has brought.
enum Heard {
    Line(Vec<u8>),
    /// No line in time.
    Nothing,
    End,
}

/// A byte stream, cut into lines.
struct Lines<'s, D> {
    io: &'s mut D,
    buffer: Vec<u8>,
}

impl<D: Duplex> Lines<'_, D> {
    /// Writes bytes. Returns false if the peer is gone, or takes none for too long.
    fn send(&mut self, mut bytes: &[u8], timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout;
        while !bytes.is_empty() {
            match self.io.write(bytes) {
                Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    self.io.wait(Interest::WRITE, Some(left))?;
                }
                Err(error) if is_peer_gone(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Waits for a line, at most for `timeout`.
    fn next(&mut self, timeout: Option<Duration>) -> io::Result<Heard> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut searched = 0;
        loop {
            let unsearched = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(searched + at + 1);
                let mut line = core::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Heard::Line(line));
            }
            searched = self.buffer.len();
            if searched > MAX_LINE {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    format!("a line is longer than {MAX_LINE} bytes"),
                ));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Heard::Nothing);
            }
            self.io.wait(Interest::READ, left)?;
            let mut chunk = [0; 16 << 10];
            match self.io.read(&mut chunk) {
                Ok(0) => return Ok(Heard::End),
                Ok(length) => self.buffer.extend_from_slice(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if is_peer_gone(&error) => return Ok(Heard::End),
                Err(error) => return Err(error),
            }
        }
    }
}
