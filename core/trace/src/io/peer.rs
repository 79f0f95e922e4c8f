//! A trace is played against a program that runs.

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::time::Instant;

use mcp_std::io::{Duplex, Interest, is_peer_gone};

use crate::{Playback, RecordedServer, Replayed};

/// Time after the last message in which what was not recorded is heard.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Longest line, in bytes.
const MAX_LINE: usize = 64 << 20;

/// Plays a trace until all was said, or the peer has ended. What does not come within `timeout` is given up.
///
/// # Errors
///
/// Fails if the peer cannot be read from or written to.
pub fn play(io: &mut impl Duplex, mut playback: Playback<'_>, timeout: Duration) -> io::Result<Replayed> {
    let mut lines = Lines { io, buffer: Vec::new(), searched: 0 };
    let mut is_gone = false;
    // What is waited for, and until when: a peer that talks of other things gains no time by it.
    let mut waits = (playback.awaited(), Instant::now() + timeout);
    while !is_gone {
        while let Some(bytes) = playback.poll_output() {
            is_gone |= !lines.send(&bytes, timeout)?;
        }
        let is_done = playback.is_done();
        if waits.0 != playback.awaited() {
            let patience = if is_done { LAST_WORDS.min(timeout) } else { timeout };
            waits = (playback.awaited(), Instant::now() + patience);
        }
        match lines.next(Some(waits.1))? {
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
pub fn answer(io: &mut impl Duplex, mut server: RecordedServer, timeout: Duration) -> io::Result<usize> {
    let mut lines = Lines { io, buffer: Vec::new(), searched: 0 };
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
    /// Number of bytes of `buffer` that hold no line end.
    searched: usize,
}

impl<D: Duplex> Lines<'_, D> {
    /// Writes bytes, and reads meanwhile: a peer that answers may not read before its answer is taken. Returns false if the
    /// peer is gone, or takes none for too long.
    fn send(&mut self, mut bytes: &[u8], timeout: Duration) -> io::Result<bool> {
        let mut until = Instant::now() + timeout;
        while !bytes.is_empty() {
            match self.io.write(bytes) {
                Ok(length) => {
                    bytes = bytes.get(length..).unwrap_or_default();
                    until = Instant::now() + timeout;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    let has_room = self.buffer.len() <= MAX_LINE;
                    let ready = self.io.wait(Interest { read: has_room, write: true }, Some(left))?;
                    if ready.readable && has_room && !self.read()? {
                        return Ok(false);
                    }
                }
                Err(error) if is_peer_gone(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads what is there. Returns false at the end.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 << 10];
        match self.io.read(&mut chunk) {
            Ok(0) => Ok(false),
            Ok(length) => {
                self.buffer.extend_from_slice(chunk.get(..length).unwrap_or_default());
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) if is_peer_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for a line, at most until then.
    fn next(&mut self, until: Option<Instant>) -> io::Result<Heard> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.searched + at + 1);
                let mut line = core::mem::replace(&mut self.buffer, rest);
                line.pop();
                self.searched = 0;
                return Ok(Heard::Line(line));
            }
            self.searched = self.buffer.len();
            if self.searched > MAX_LINE {
                let reason = format!("a line is longer than {MAX_LINE} bytes");
                return Err(io::Error::new(ErrorKind::InvalidData, reason));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Heard::Nothing);
            }
            self.io.wait(Interest::READ, left)?;
            if !self.read()? {
                return Ok(Heard::End);
            }
        }
    }
}
