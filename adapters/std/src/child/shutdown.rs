//! The end of a server, by steps
//!
//! spec: LIFE-017, STDIO-020

use core::fmt;
use core::time::Duration;
use std::process::ExitStatus;
use std::thread;

use mcp_proto::Instant;

use super::{Child, ChildIo, Life};
use crate::{Clock, Duplex, Interest};

/// How long each step of a [`Shutdown`] is given before the next one
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After stdin was closed, before `SIGTERM`; 5 s by default
    pub exit: Duration,
    /// After `SIGTERM`, before `SIGKILL`; 5 s by default. Systems without signals skip this step
    pub terminate: Duration,
    /// After `SIGKILL`, before giving up on a process that is stuck in the kernel; 5 s by default
    pub kill: Duration,
    /// At most this for each of the above, once the server process has ended and others of its group have
    /// not; 1 s by default
    pub stragglers: Duration,
}

impl Patience {
    /// No waiting before `SIGKILL`
    pub const NONE: Self =
        Self { exit: Duration::ZERO, terminate: Duration::ZERO, kill: STEP, stragglers: STRAGGLERS };

    /// The same wait for the end of input and for `SIGTERM`
    #[must_use]
    pub fn each(wait: Duration) -> Self {
        Self { exit: wait, terminate: wait, ..Self::default() }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { exit: STEP, terminate: STEP, kill: STEP, stragglers: STRAGGLERS }
    }
}

/// A server on its way out; see [`Child::begin_shutdown`]
///
/// ```no_run
/// # use mcp_std::{Clock, child::{Patience, Program, Step}};
/// let clock = Clock::start();
/// let child = Program::new("my-server").spawn()?;
/// let mut shutdown = child.begin_shutdown(None, Patience::default(), clock.now());
/// let ended = loop {
///     match shutdown.poll(clock.now()) {
///         Step::Wait(until) => std::thread::sleep(clock.until(until)), // or wait for something useful
///         Step::Done(ended) => break ended,
///     }
/// };
/// # Ok::<(), mcp_std::child::SpawnError>(())
/// ```
#[derive(Debug)]
pub struct Shutdown {
    /// Stdin closed; `None` once stdout has ended, or if the caller reads it
    io: Option<ChildIo>,
    child: Child,
    patience: Patience,
    step: How,
    /// When the step began; the next one begins at `next_at`
    since: Instant,
    next_at: Instant,
    /// How the server process itself ended, once it has
    ended: Option<(How, Option<ExitStatus>)>,
    /// A step was taken after that
    stragglers: bool,
    /// What to answer from now on
    done: Option<Ended>,
}

/// What a [`Shutdown`] wants next
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// To be polled again at this instant, or earlier if the server's pipes have something to read
    Wait(Instant),
    /// Nothing: it is over
    Done(Ended),
}

/// How far the steps had to go
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It ended by itself, or when its stdin was closed
    Exited,
    /// It ended after `SIGTERM`
    Terminated,
    /// It ended after `SIGKILL`
    Killed,
}

/// A server's end
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// What it took to end the server process
    pub how: How,
    /// Its exit status; `None` when somebody else collected it, or when not even `SIGKILL` ended it in time
    /// (a thread then waits for it)
    pub status: Option<ExitStatus>,
    /// Whether other processes of its group outlived it and had to be signalled
    pub stragglers: bool,
    /// The end of its stderr, if that was captured
    pub last_words: String,
}

impl Shutdown {
    pub(super) fn new(child: Child, mut io: Option<ChildIo>, patience: Patience, now: Instant) -> Self {
        if let Some(io) = &mut io {
            // Closing a pipe has nothing to fail with.
            let _ = io.shutdown_write();
        }
        let next_at = now + patience.exit;
        Self {
            io,
            child,
            patience,
            step: How::Exited,
            since: now,
            next_at,
            ended: None,
            stragglers: false,
            done: None,
        }
    }

    /// Takes the steps that are due
    ///
    /// Never waits. Reads and forgets what the server still writes, unless the caller kept its stream.
    /// Polling again when it is done gives the same answer.
    pub fn poll(&mut self, now: Instant) -> Step {
        if let Some(done) = &self.done {
            return Step::Done(done.clone());
        }
        self.drain();
        if let (None, Life::Ended(status)) = (self.ended, self.child.process.life()) {
            self.ended = Some((self.step, status));
            self.next_at = self.next_at.min(now + self.patience.stragglers);
        }
        let mut gone = self.ended.is_some() && self.child.process.is_gone();
        while !gone && now >= self.next_at {
            if self.step == How::Killed {
                return self.finish();
            }
            self.advance(now);
            gone = self.ended.is_some() && self.child.process.is_gone();
        }
        if gone {
            return self.finish();
        }
        // A process that ends sends nothing that a poll of handles could see, so it is looked at: soon at
        // first, and later at an eighth of the time that the step took so far.
        let pause = now.saturating_duration_since(self.since) / 8;
        Step::Wait(self.next_at.min(now + pause.clamp(SHORTEST, LONGEST)))
    }

    /// Takes the steps by itself until the server is gone; `clock` must be the one that `begin_shutdown` was
    /// given
    pub fn run(mut self, clock: Clock) -> Ended {
        loop {
            let until = match self.poll(clock.now()) {
                Step::Done(ended) => return ended,
                Step::Wait(until) => clock.until(until),
            };
            let Some(io) = &mut self.io else {
                thread::sleep(until);
                continue;
            };
            // What there is, `poll` reads.
            if io.wait(Interest::READ, Some(until)).is_err() {
                self.io = None;
            }
        }
    }

    /// The server's stream, while its stdout is open: what is read here is not forgotten
    pub fn io_mut(&mut self) -> Option<&mut ChildIo> {
        self.io.as_mut()
    }

    /// Goes on to the next step
    fn advance(&mut self, now: Instant) {
        let process = &mut self.child.process;
        let wait = if self.step == How::Exited && process.terminate() {
            self.step = How::Terminated;
            self.patience.terminate
        } else {
            process.kill();
            self.step = How::Killed;
            self.patience.kill
        };
        self.since = now;
        self.next_at = now + wait;
        if self.ended.is_some() {
            self.stragglers = true;
            self.next_at = self.next_at.min(now + self.patience.stragglers);
        }
    }

    fn finish(&mut self) -> Step {
        let (how, status) = self.ended.unwrap_or((How::Killed, None));
        let ended = Ended { how, status, stragglers: self.stragglers, last_words: self.child.last_words() };
        self.io = None;
        self.done = Some(ended.clone());
        Step::Done(ended)
    }

    /// Reads and forgets, a bounded amount
    fn drain(&mut self) {
        if let Some(stderr) = self.child.captured_stderr() {
            stderr.drain();
        }
        let Some(io) = &mut self.io else { return };
        let mut buf = [0; 8 * 1024];
        for _ in 0..DRAIN / buf.len() {
            match io.read(&mut buf) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => {
                    self.io = None;
                    return;
                }
            }
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.how {
            How::Exited => "ended by itself",
            How::Terminated => "ended when asked to",
            How::Killed => "had to be killed",
        })?;
        match self.status {
            Some(status) => write!(f, " ({status})"),
            None => Ok(()),
        }
    }
}

/// Default wait of each step
const STEP: Duration = Duration::from_secs(5);
const STRAGGLERS: Duration = Duration::from_secs(1);
/// Between two looks at a process
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(32);
/// Bytes of stdout that one poll forgets at most
const DRAIN: usize = 256 * 1024;
