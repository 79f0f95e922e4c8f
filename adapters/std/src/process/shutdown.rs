//! Shutdown of a server process by steps.
//!
//! spec: LIFE-017, STDIO-020

use core::fmt;
use core::time::Duration;
use std::process::ExitStatus;
use std::thread;

use mcp_proto::Instant;

use super::{Child, ChildIo, ProcessStatus};
use crate::Clock;
use crate::io::Duplex;
use crate::poll::Interest;

/// Timeouts of the steps of a [`Shutdown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownTimeouts {
    /// From closed stdin to `SIGTERM`; 5 s by default.
    pub exit: Duration,
    /// From `SIGTERM` to `SIGKILL`; 5 s by default. Systems without signals skip this step.
    pub terminate: Duration,
    /// From `SIGKILL` until a process stuck in the kernel is abandoned; 5 s by default.
    pub kill: Duration,
    /// Upper bound of each of the above once the server process has exited and others of its group have not; 1 s by
    /// default.
    pub stragglers: Duration,
}

impl ShutdownTimeouts {
    /// Sends `SIGKILL` without waiting.
    pub const IMMEDIATE: Self = Self {
        exit: Duration::ZERO,
        terminate: Duration::ZERO,
        kill: DEFAULT_STAGE_TIMEOUT,
        stragglers: DEFAULT_STRAGGLER_TIMEOUT,
    };

    /// Returns timeouts with the same `wait` for the end of input and for `SIGTERM`.
    #[must_use]
    pub fn uniform(wait: Duration) -> Self {
        Self { exit: wait, terminate: wait, ..Self::default() }
    }
}

impl Default for ShutdownTimeouts {
    fn default() -> Self {
        Self {
            exit: DEFAULT_STAGE_TIMEOUT,
            terminate: DEFAULT_STAGE_TIMEOUT,
            kill: DEFAULT_STAGE_TIMEOUT,
            stragglers: DEFAULT_STRAGGLER_TIMEOUT,
        }
    }
}

/// A server that is being shut down; see [`Child::begin_shutdown`].
///
/// ```no_run
/// # use mcp_std::Clock;
/// # use mcp_std::process::{Program, ShutdownStep, ShutdownTimeouts};
/// let clock = Clock::start();
/// let child = Program::new("my-server").spawn()?;
/// let mut shutdown = child.begin_shutdown(None, ShutdownTimeouts::default(), clock.now());
/// let report = loop {
///     match shutdown.poll(clock.now()) {
///         ShutdownStep::Wait(until) => std::thread::sleep(clock.until(until)), // or wait for other events too
///         ShutdownStep::Done(report) => break report,
///     }
/// };
/// # Ok::<(), mcp_std::process::SpawnError>(())
/// ```
#[derive(Debug)]
pub struct Shutdown {
    /// The stream with closed stdin; `None` once stdout has ended, or if the caller reads it.
    io: Option<ChildIo>,
    child: Child,
    timeouts: ShutdownTimeouts,
    stage: ShutdownStage,
    /// Start of the stage; it ends at `stage_deadline`.
    stage_started_at: Instant,
    stage_deadline: Instant,
    /// Stage and status of the exit of the server process itself.
    exit: Option<(ShutdownStage, Option<ExitStatus>)>,
    /// Whether a stage was started after the exit.
    had_stragglers: bool,
    /// Result for all later polls.
    report: Option<ShutdownReport>,
}

/// Next step of a [`Shutdown`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ShutdownStep {
    /// Poll again at this instant, or earlier if the server's pipes are readable.
    Wait(Instant),
    /// The shutdown is done.
    Done(ShutdownReport),
}

/// Stage of a shutdown in which the server process exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownStage {
    /// The process exited by itself, or after its stdin was closed.
    Exited,
    /// The process exited after `SIGTERM`.
    Terminated,
    /// The process exited after `SIGKILL`.
    Killed,
}

/// Result of a shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Stage in which the server process exited.
    pub stage: ShutdownStage,
    /// Exit status. `None` if it was collected elsewhere, or if `SIGKILL` did not end the process in time (a thread
    /// then waits for it).
    pub status: Option<ExitStatus>,
    /// Whether other processes of the group outlived the server and were signalled.
    pub had_stragglers: bool,
    /// End of the server's stderr, if it was captured.
    pub stderr_tail: String,
}

impl Shutdown {
    pub(super) fn new(
        child: Child,
        mut io: Option<ChildIo>,
        timeouts: ShutdownTimeouts,
        now: Instant,
    ) -> Self {
        if let Some(io) = &mut io {
            // Closing a pipe cannot fail.
            let _ = io.shutdown_write();
        }
        let stage_deadline = now + timeouts.exit;
        Self {
            io,
            child,
            timeouts,
            stage: ShutdownStage::Exited,
            stage_started_at: now,
            stage_deadline,
            exit: None,
            had_stragglers: false,
            report: None,
        }
    }

    /// Takes the steps that are due.
    ///
    /// It never waits. It reads and discards what the server still writes, unless the caller kept the stream.
    /// Polling again after the end returns the same report.
    pub fn poll(&mut self, now: Instant) -> ShutdownStep {
        if let Some(done) = &self.report {
            return ShutdownStep::Done(done.clone());
        }
        self.drain();
        if let (None, ProcessStatus::Exited(status)) = (self.exit, self.child.process.status()) {
            self.exit = Some((self.stage, status));
            // Only others of its group are left, and they get less time.
            self.stage_deadline = self.stage_deadline.min(now + self.timeouts.stragglers);
        }
        let mut gone = self.exit.is_some() && self.child.process.is_gone();
        // Several stages may be due at once. Each one has a later deadline, and the last one returns.
        while !gone && now >= self.stage_deadline {
            if self.stage == ShutdownStage::Killed {
                return self.finish();
            }
            self.advance(now);
            gone = self.exit.is_some() && self.child.process.is_gone();
        }
        if gone {
            return self.finish();
        }
        // The exit of a process makes no handle ready, so it is polled: soon at first, later after an eighth of the
        // stage's duration so far.
        let pause = now.saturating_duration_since(self.stage_started_at) / 8;
        ShutdownStep::Wait(self.stage_deadline.min(now + pause.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)))
    }

    /// Takes the steps and waits between them until the server is gone.
    ///
    /// `clock` must be the one whose instant `begin_shutdown` was given.
    pub fn run(mut self, clock: Clock) -> ShutdownReport {
        loop {
            let until = match self.poll(clock.now()) {
                ShutdownStep::Done(report) => return report,
                ShutdownStep::Wait(until) => clock.until(until),
            };
            let Some(io) = &mut self.io else {
                thread::sleep(until);
                continue;
            };
            // `poll` reads the bytes.
            if io.wait(Interest::READ, Some(until)).is_err() {
                self.io = None;
            }
        }
    }

    /// Returns the stream while stdout is open; bytes read from it are not discarded.
    pub fn io_mut(&mut self) -> Option<&mut ChildIo> {
        self.io.as_mut()
    }

    /// Starts the next stage.
    fn advance(&mut self, now: Instant) {
        let process = &mut self.child.process;
        let wait = if self.stage == ShutdownStage::Exited && process.terminate() {
            self.stage = ShutdownStage::Terminated;
            self.timeouts.terminate
        } else {
            process.kill();
            self.stage = ShutdownStage::Killed;
            self.timeouts.kill
        };
        self.stage_started_at = now;
        self.stage_deadline = now + wait;
        if self.exit.is_some() {
            self.had_stragglers = true;
            self.stage_deadline = self.stage_deadline.min(now + self.timeouts.stragglers);
        }
    }

    fn finish(&mut self) -> ShutdownStep {
        let (stage, status) = self.exit.unwrap_or((ShutdownStage::Killed, None));
        let report = ShutdownReport {
            stage,
            status,
            had_stragglers: self.had_stragglers,
            stderr_tail: self.child.stderr_tail(),
        };
        self.io = None;
        self.report = Some(report.clone());
        ShutdownStep::Done(report)
    }

    /// Reads and discards a bounded amount of output.
    fn drain(&mut self) {
        if let Some(stderr) = self.child.captured_stderr() {
            stderr.drain();
        }
        let Some(io) = &mut self.io else { return };
        let mut buf = [0; 8 * 1024];
        for _ in 0..MAX_DRAIN_BYTES / buf.len() {
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

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage {
            ShutdownStage::Exited => "ended by itself",
            ShutdownStage::Terminated => "ended after SIGTERM",
            ShutdownStage::Killed => "had to be killed",
        })?;
        match self.status {
            Some(status) => write!(f, " ({status})"),
            None => Ok(()),
        }
    }
}

/// Default timeout of each stage.
const DEFAULT_STAGE_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_STRAGGLER_TIMEOUT: Duration = Duration::from_secs(1);
/// Bounds of the pause between two checks of a process.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(32);
/// Bytes of stdout that one poll discards at most.
const MAX_DRAIN_BYTES: usize = 256 * 1024;
