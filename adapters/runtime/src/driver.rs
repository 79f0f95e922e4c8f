//! Steps of the event loop of a byte stream: writing, waiting and reading.
//!
//! Client and server repeat the same three steps in this order:
//!
//! 1. Take events until there are none.
//! 2. [`write`](PipeDriver::write). If bytes were written, start again, as room in the outbox may let more input be
//!    decoded.
//! 3. [`wait`](PipeDriver::wait).
//!
//! A wait covers reading and writing together. Otherwise two peers that both fill the buffers between them would
//! deadlock.
//!
//! In this module, *pipe* means the binding to a byte stream ([`Pipe`]). A pipe of the operating system is an
//! *OS pipe*.

use alloc::boxed::Box;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::Instant;
use mcp_proto::pipe::Pipe;
use mcp_std::Clock;
use mcp_std::io::{Duplex, is_peer_gone};
use mcp_std::poll::{Interest, WaitRequest};

/// Driver of a byte stream: its clock, its read buffer, and which of its directions are open.
#[derive(Debug)]
pub struct PipeDriver {
    clock: Clock,
    /// Time of the last reading of the clock.
    now: Instant,
    read_buffer: Box<[u8]>,
    /// Whether input may still arrive. False after the end of the stream, after an error, and after `read_deadline`.
    is_read_open: bool,
    /// Whether output can still be written. False after an error.
    is_write_open: bool,
    /// Time at which reading ends even if the peer still sends. Set when writing has failed.
    read_deadline: Option<Instant>,
    error: Option<io::Error>,
    buffer_release: BufferRelease,
    /// Counter of input lines that may be messages; `None` where nothing needs the count.
    pub line_counter: Option<MessageLineCounter>,
}

/// When waits end to release the idle buffers of the pipe.
#[derive(Debug)]
enum BufferRelease {
    /// At the deadline of the pipe.
    OnTime,
    /// At that deadline only while the pipe may hold large buffers. This saves a system call per turn.
    Deferred { has_large_buffers: bool },
}

impl Default for PipeDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl BufferRelease {
    /// Records whether the pipe has got a large buffer.
    const fn note_large(&mut self, is_large: bool) {
        if let Self::Deferred { has_large_buffers } = self {
            *has_large_buffers |= is_large;
        }
    }
}

impl PipeDriver {
    /// Creates the state of a new stream.
    pub fn new() -> Self {
        Self {
            clock: Clock::start(),
            now: Instant::ZERO,
            read_buffer: vec![0; READ_BUFFER_BYTES].into(),
            is_read_open: true,
            is_write_open: true,
            read_deadline: None,
            error: None,
            buffer_release: BufferRelease::OnTime,
            line_counter: None,
        }
    }

    /// Excludes the release of small idle buffers from the deadlines of a wait.
    ///
    /// A blocking stream then waits in `read`, without another system call, unless there is another deadline. Use it
    /// for the only connection of a process, where a hundred kilobytes do not matter.
    pub const fn defer_buffer_release(&mut self) {
        self.buffer_release = BufferRelease::Deferred { has_large_buffers: false };
    }

    /// Returns the time of the last reading of the clock.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Reads the clock. The time is returned, and is [`now`](Self::now) until the next reading.
    pub fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    /// Returns the relation of the clock to Unix time.
    pub fn anchor(&self) -> mcp_proto::Anchor {
        self.clock.anchor()
    }

    /// Returns the duration since the last reading of the clock. [`now`](Self::now) does not change.
    pub fn since_tick(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.now)
    }

    /// Returns whether writing to the peer has failed.
    pub const fn is_write_closed(&self) -> bool {
        !self.is_write_open
    }

    /// Returns whether no more input arrives, because the stream has ended or failed.
    pub const fn is_read_closed(&self) -> bool {
        !self.is_read_open
    }

    /// Takes the error that broke the stream; `None` if the peer disconnected.
    pub const fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Writes the output of the pipe as far as possible. Returns whether bytes were written.
    pub fn write<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex) -> bool {
        let mut moved = false;
        loop {
            let bytes = pipe.transmit();
            if bytes.is_empty() {
                break;
            }
            self.buffer_release.note_large(bytes.len() > READ_BUFFER_BYTES);
            if !self.is_write_open {
                // No peer will ever read it.
                let len = bytes.len();
                pipe.consume(len);
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
                    self.is_write_open = false;
                    // Bytes that the peer sent before it disconnected are still readable.
                    self.read_deadline = Some(self.tick() + FINAL_READ_TIMEOUT);
                    self.record_error(error);
                }
            }
        }
        moved
    }

    /// Waits for I/O or a deadline, then reads once and processes due deadlines.
    ///
    /// The wait ends when bytes can be read (if `reads`) or written, at a deadline of the pipe, or at `until`.
    pub fn wait<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex, reads: bool, until: Option<Instant>) {
        self.hold_keep_alive(pipe, reads);
        let interest = self.interest(pipe, reads);
        let deadline = until.into_iter().chain(self.next_deadline(pipe)).min();
        match io.wait(interest, deadline.map(|at| self.clock.until(at))) {
            Ok(ready) if ready.readable && interest.read => self.read(pipe, io),
            Ok(_) => _ = self.tick(),
            Err(error) => {
                // A stream that cannot be waited for is not used any more, in either direction.
                self.record_error(error);
                self.is_write_open = false;
                self.close_read(pipe);
            }
        }
        self.process_deadlines(pipe, deadline);
    }

    /// Performs a turn without waiting, for a loop with a wait of its own.
    ///
    /// It reads once if `readable`, and processes due deadlines.
    pub fn step<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex, readable: bool) {
        let deadline = self.next_deadline(pipe);
        if readable && self.interest(pipe, true).read {
            self.read(pipe, io);
        } else {
            self.tick();
        }
        self.process_deadlines(pipe, deadline);
    }

    /// Processes what is due now, if `deadline` has passed.
    fn process_deadlines<P: Pipe>(&mut self, pipe: &mut P, deadline: Option<Instant>) {
        if self.read_deadline.is_some_and(|at| at <= self.now) {
            self.close_read(pipe);
        }
        if deadline.is_some_and(|at| at <= self.now) {
            pipe.handle_timeout(self.now);
            // `poll_timeout_without_trim` leaves out the release of buffers. Equal deadlines: no release is due before the rest.
            if let BufferRelease::Deferred { has_large_buffers } = &mut self.buffer_release {
                *has_large_buffers &= pipe.poll_timeout() != pipe.poll_timeout_without_trim();
            }
        }
    }

    /// Suspends the judgement of keep-alive pings while nothing is read.
    fn hold_keep_alive<P: Pipe>(&self, pipe: &mut P, reads: bool) {
        if !reads && self.is_read_open {
            pipe.hold_keep_alive(self.now);
        }
    }

    /// Returns the interest in the stream; reading only if `reads`.
    pub fn interest<P: Pipe>(&self, pipe: &P, reads: bool) -> Interest {
        Interest {
            read: reads && self.is_read_open && pipe.wants_input(),
            write: self.is_write_open && !pipe.transmit().is_empty(),
        }
    }

    /// Returns the deadline at which a wait ends. It includes the release of buffers, unless that is deferred.
    pub fn next_deadline<P: Pipe>(&self, pipe: &mut P) -> Option<Instant> {
        let pipe_deadline = match self.buffer_release {
            BufferRelease::Deferred { has_large_buffers: false } => pipe.poll_timeout_without_trim(),
            _ => pipe.poll_timeout(),
        };
        pipe_deadline.into_iter().chain(self.read_deadline).min()
    }

    /// Returns the request by which a loop with several sources waits as [`wait`](Self::wait) does.
    pub fn wait_request<'io, P: Pipe>(
        &self,
        pipe: &mut P,
        io: &'io dyn Duplex,
        reads: bool,
    ) -> WaitRequest<'io> {
        self.hold_keep_alive(pipe, reads);
        let timeout = self.next_deadline(pipe).map(|at| self.clock.until(at));
        #[cfg(unix)]
        return WaitRequest::new(io.descriptors(), self.interest(pipe, reads), timeout);
        #[cfg(not(unix))]
        {
            let _ = (io, reads);
            WaitRequest::unpollable(timeout)
        }
    }

    fn read<P: Pipe>(&mut self, pipe: &mut P, io: &mut dyn Duplex) {
        let outcome = io.read(&mut self.read_buffer);
        // The clock is read after the read, which may have waited.
        let now = self.tick();
        match outcome {
            Ok(0) => self.close_read(pipe),
            Ok(n) => {
                self.buffer_release.note_large(n == self.read_buffer.len());
                let bytes = self.read_buffer.get(..n).unwrap_or_default();
                if let Some(counter) = &mut self.line_counter {
                    counter.scan(bytes);
                }
                pipe.handle_input(now, bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                self.record_error(error);
                self.close_read(pipe);
            }
        }
    }

    fn close_read<P: Pipe>(&mut self, pipe: &mut P) {
        // Reading has ended, so this deadline must not end another wait.
        self.read_deadline = None;
        if core::mem::take(&mut self.is_read_open) {
            pipe.handle_eof(self.now);
        }
    }

    /// Records `error`, unless the peer disconnected.
    fn record_error(&mut self, error: io::Error) {
        if !is_peer_gone(&error) {
            self.error.get_or_insert(error);
        }
    }
}

/// Counter of input lines that may be messages.
///
/// A client uses it until its connection is ready. Until then most messages produce no event that could be counted.
#[derive(Debug, Default)]
pub struct MessageLineCounter {
    lines: u64,
    /// Whether the current line has more than white space.
    is_line_started: bool,
    /// Whether the current line starts like a message.
    is_candidate: bool,
}

impl MessageLineCounter {
    fn scan(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => {
                    self.lines += u64::from(self.is_candidate);
                    (self.is_line_started, self.is_candidate) = (false, false);
                }
                b' ' | b'\t' | b'\r' => {}
                byte if !self.is_line_started => {
                    self.is_line_started = true;
                    self.is_candidate = matches!(byte, b'{' | b'[');
                }
                _ => {}
            }
        }
    }

    /// Subtracts a line that was counted but turned out to be noise (not a message).
    pub fn discard_noise(&mut self, line: &str) {
        if line.trim_start().starts_with(['{', '[']) {
            self.lines = self.lines.saturating_sub(1);
        }
    }

    /// Returns whether any line so far may have been a message.
    pub const fn has_received_message(&self) -> bool {
        self.lines > 0
    }
}

/// Size of the read buffer: the capacity of an OS pipe on Linux.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// Duration for which reading continues after writing has failed.
const FINAL_READ_TIMEOUT: Duration = Duration::from_secs(1);
