//! The loop's step: bytes from a stream into a pipe and back, and time that passes
//!
//! Client and server run the same three moves, over and over, in this order: take events until there are none,
//! [`write`](Drive::write) (again if anything went: room in the outbox may let more input be decoded), then
//! [`wait`](Drive::wait). Reading and writing are always offered together, so that two ends with full pipes
//! cannot wait for each other.

use alloc::boxed::Box;
use core::time::Duration;
use std::io::{self, ErrorKind};

use crate::{Clock, Duplex, Interest, Outlook, is_peer_gone};
use mcp_proto::Instant;
use mcp_proto::pipe::Pipe;

/// What is known of a stream, and the buffer that it is read through
#[derive(Debug)]
pub struct Drive {
    clock: Clock,
    /// When something was last waited for or read
    now: Instant,
    scratch: Box<[u8]>,
    /// The peer has not ended its direction
    reading: bool,
    /// Our direction works
    writing: bool,
    /// When reading ends although the peer keeps its direction open: it has left the other one
    reading_ends: Option<Instant>,
    error: Option<io::Error>,
    /// Little memory is left to the pipe while nothing happens, to save a system call per turn
    relaxed: bool,
    /// That may have become too much
    heavy: bool,
    /// Looks for messages in what is read, as long as somebody wants to know
    pub opening: Option<Opening>,
}

impl Default for Drive {
    fn default() -> Self {
        Self::new()
    }
}

impl Drive {
    /// Nothing is known yet
    pub fn new() -> Self {
        Self {
            clock: Clock::start(),
            now: Instant::ZERO,
            scratch: vec![0; SCRATCH].into(),
            reading: true,
            writing: true,
            reading_ends: None,
            error: None,
            relaxed: false,
            heavy: false,
            opening: None,
        }
    }

    /// Lets a blocking stream wait in `read` alone while nothing but giving back a few buffers is due
    ///
    /// For one connection per process, where a hundred kilobytes make no difference.
    pub const fn relax(&mut self) {
        self.relaxed = true;
    }

    /// The time as of the last look at the clock; cheap
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Looks at the clock
    pub fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    /// What time of day the clock's instants are
    #[cfg(feature = "crypto")]
    pub fn anchor(&self) -> mcp_proto::Anchor {
        self.clock.anchor()
    }

    /// How long ago the last look at the clock was, without being one
    pub fn since_tick(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.now)
    }

    /// Whether nobody takes what we write
    pub const fn is_cut_off(&self) -> bool {
        !self.writing
    }

    /// Whether nothing more is read: the peer has ended its direction
    pub const fn is_at_end(&self) -> bool {
        !self.reading
    }

    /// What broke the stream, if it was not the peer who left; told once
    pub const fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub fn write<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex) -> bool {
        let mut moved = false;
        loop {
            let bytes = pipe.transmit();
            if bytes.is_empty() {
                break;
            }
            self.heavy |= bytes.len() > SCRATCH;
            if !self.writing {
                // Nobody will ever read it.
                let all = bytes.len();
                pipe.consume(all);
                continue;
            }
            match io.write(bytes) {
                Ok(0) => break,
                Ok(n) => {
                    pipe.consume(n);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.writing = false;
                    // What the peer said before it left is still there to be read.
                    self.reading_ends = Some(self.tick() + LAST_LOOK);
                    self.note(error);
                }
            }
        }
        moved
    }

    /// Waits until something can be read (if `reads`) or written, a deadline of the pipe's passes, or `until`; then
    /// reads once, and lets deadlines pass
    pub fn wait<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex, reads: bool, until: Option<Instant>) {
        let interest = self.interest(pipe, reads);
        let deadline = until.into_iter().chain(self.due(pipe)).min();
        match io.wait(interest, deadline.map(|at| self.clock.until(at))) {
            Ok(ready) if ready.readable && interest.read => self.read(pipe, io),
            Ok(_) => _ = self.tick(),
            Err(error) => {
                self.note(error);
                self.writing = false;
                self.end(pipe);
            }
        }
        self.pass(pipe, deadline);
    }

    /// As [`wait`](Self::wait), for a loop that has waited by itself: reads once if it found that something is there, and
    /// lets deadlines pass
    pub fn step<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex, readable: bool) {
        let deadline = self.due(pipe);
        if readable && self.interest(pipe, true).read {
            self.read(pipe, io);
        } else {
            self.tick();
        }
        self.pass(pipe, deadline);
    }

    /// Lets what is due by now pass, which was to be by `deadline`
    fn pass<P: Pipe>(&mut self, pipe: &mut P, deadline: Option<Instant>) {
        if self.reading_ends.is_some_and(|at| at <= self.now) {
            self.end(pipe);
        }
        if deadline.is_some_and(|at| at <= self.now) {
            pipe.handle_timeout(self.now);
            // Nothing is left to be given back.
            self.heavy &= pipe.poll_timeout() != pipe.poll_punctual();
        }
    }

    /// What is waited for, if anything may be read
    pub fn interest<P: Pipe>(&self, pipe: &P, reads: bool) -> Interest {
        Interest {
            read: reads && self.reading && pipe.wants_input(),
            write: self.writing && !pipe.transmit().is_empty(),
        }
    }

    /// When a wait ends by itself
    pub fn due<P: Pipe>(&self, pipe: &mut P) -> Option<Instant> {
        let due = if self.relaxed && !self.heavy { pipe.poll_punctual() } else { pipe.poll_timeout() };
        due.into_iter().chain(self.reading_ends).min()
    }

    /// What [`wait`](Self::wait) would wait for, for a loop that has other things to wait for besides
    pub fn outlook<'io, P: Pipe>(&self, pipe: &mut P, io: &'io dyn Duplex, reads: bool) -> Outlook<'io> {
        let timeout = self.due(pipe).map(|at| self.clock.until(at));
        #[cfg(unix)]
        return Outlook::new(io.descriptors(), self.interest(pipe, reads), timeout);
        #[cfg(not(unix))]
        {
            let _ = (io, reads);
            Outlook::blind(timeout)
        }
    }

    fn read<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex) {
        let outcome = io.read(&mut self.scratch);
        // Looked at after the read, which may have done the waiting.
        let now = self.tick();
        match outcome {
            Ok(0) => self.end(pipe),
            Ok(n) => {
                self.heavy |= n == self.scratch.len();
                let bytes = self.scratch.get(..n).unwrap_or_default();
                if let Some(opening) = &mut self.opening {
                    opening.read(bytes);
                }
                pipe.handle_input(now, bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                self.note(error);
                self.end(pipe);
            }
        }
    }

    fn end<P: Pipe>(&mut self, pipe: &mut P) {
        self.reading_ends = None;
        if core::mem::take(&mut self.reading) {
            pipe.handle_eof(self.now);
        }
    }

    /// A peer that leaves ends the stream and is no failure
    fn note(&mut self, error: io::Error) {
        if !is_peer_gone(&error) {
            self.error.get_or_insert(error);
        }
    }
}

/// Counts the lines that may be messages, for the time before a connection is ready: most of them are no events
#[derive(Debug, Default)]
pub struct Opening {
    lines: u64,
    /// The line so far is more than white space
    begun: bool,
    /// It begins as a message does
    candidate: bool,
}

impl Opening {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => {
                    self.lines += u64::from(self.candidate);
                    (self.begun, self.candidate) = (false, false);
                }
                b' ' | b'\t' | b'\r' => {}
                byte if !self.begun => {
                    self.begun = true;
                    self.candidate = matches!(byte, b'{' | b'[');
                }
                _ => {}
            }
        }
    }

    /// Takes back a line that proved to be no message
    pub fn is_noise(&mut self, line: &str) {
        if line.trim_start().starts_with(['{', '[']) {
            self.lines = self.lines.saturating_sub(1);
        }
    }

    /// Whether any line so far may have been a message
    pub const fn any_message(&self) -> bool {
        self.lines > 0
    }
}

/// Bytes of one read: what a pipe holds on Linux
const SCRATCH: usize = 64 << 10;
/// How long a peer that no longer reads is listened to
const LAST_LOOK: Duration = Duration::from_secs(1);
