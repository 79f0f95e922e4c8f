//! The other end of an adapter under test: a state machine of the core on a socket that does not block.

use core::time::Duration;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use crate::Clock;
use mcp_proto::Instant;
use mcp_proto::pipe::Pipe;

/// Time of each wait of a check. Test machines are slow, so only an adapter that hangs reaches it.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Pause when nothing moves; a test may waste it.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Peer<P: Pipe> {
    pub(super) pipe: P,
    pub(super) stream: TcpStream,
    clock: Clock,
    /// Most bytes of one write, so that the adapter reads pieces.
    pub(super) cut: usize,
    /// Whether it reads; output of the adapter has no way otherwise.
    pub(super) reads: bool,
    is_over: bool,
}

impl<P: Pipe> Peer<P> {
    pub(super) fn new(stream: TcpStream, make: impl FnOnce(Instant) -> P) -> Self {
        stream.set_nonblocking(true).expect("a socket that does not block");
        stream.set_nodelay(true).expect("a socket without delay");
        let clock = Clock::start();
        let pipe = make(clock.now());
        Self { pipe, stream, clock, cut: usize::MAX, reads: true, is_over: false }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Does what can be done now, and passes each event to `handle`. Returns whether something has moved.
    pub(super) fn turn(&mut self, mut handle: impl FnMut(&mut P, Instant, P::Event)) -> bool {
        let (now, mut moved) = (self.now(), false);
        self.pipe.handle_timeout(now);
        let mut buffer = [0; 16 << 10];
        if self.reads && !self.is_over && self.pipe.wants_input() {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(count @ 1..) => {
                    self.pipe.handle_input(now, buffer.get(..count).unwrap_or_default());
                    moved = true;
                }
                // The adapter has closed the stream, in order or not.
                Ok(0) | Err(_) => {
                    self.pipe.handle_eof(now);
                    (self.is_over, moved) = (true, true);
                }
            }
        }
        while let Some(event) = self.pipe.poll_event(now) {
            handle(&mut self.pipe, now, event);
            moved = true;
        }
        let output = self.pipe.transmit();
        let piece = output.get(..output.len().min(self.cut)).unwrap_or_default();
        let written = match self.stream.write(piece) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => output.len(),
        };
        self.pipe.consume(written);
        moved || written > 0
    }

    /// Takes turns until `is_done`.
    ///
    /// # Panics
    ///
    /// If that takes longer than [`DEADLINE`].
    #[track_caller]
    pub(super) fn run_until(
        &mut self,
        what: &str,
        mut handle: impl FnMut(&mut P, Instant, P::Event),
        mut is_done: impl FnMut(&mut P) -> bool,
    ) {
        let end = self.now() + DEADLINE;
        while !is_done(&mut self.pipe) {
            assert!(self.now() < end, "in vain for {DEADLINE:?}: {what}");
            if !self.turn(&mut handle) {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
