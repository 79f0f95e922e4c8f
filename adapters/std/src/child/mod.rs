//! Server processes: starting them, talking to them, and getting rid of them
//!
//! A [`Program`] says what to start. The [`Child`] that comes of it owns the process and, on Unix, the group
//! of everything that it starts in turn: wrappers such as `npx` leave the real server behind when only they
//! are killed. A [`ChildIo`] is the byte stream. The end goes by steps: stdin closed, then `SIGTERM`, then
//! `SIGKILL`, each after a wait, either in one call ([`Child::shutdown`]) or step by step in a loop
//! ([`Child::begin_shutdown`]).
//!
//! ```no_run
//! use mcp_std::{Duplex, Interest, child::Program};
//!
//! let mut child = Program::new("my-server").arg("--stdio").spawn()?;
//! let mut io = child.take_io()?;
//! io.write(b"hello\n")?;
//! io.wait(Interest::READ, None)?;
//! # let _ = io.read(&mut [0; 100])?;
//! let ended = child.shutdown(Some(io), Default::default());
//! println!("{ended}");
//! # std::io::Result::Ok(())
//! ```

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::process::{ChildStdin, ChildStdout, ExitStatus};
use std::thread;
use std::time::Instant as StdInstant;

use mcp_proto::Instant;

mod environment;
mod error;
#[cfg(unix)]
mod pipes;
#[cfg(not(unix))]
#[path = "pipes_other.rs"]
mod pipes;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "process_other.rs"]
mod process;
mod program;
mod shutdown;
mod stderr;
#[cfg(target_os = "linux")]
mod zombies;

pub use error::{SpawnError, SpawnErrorKind};
pub use pipes::ChildIo;
pub use program::{Launch, Program, Stderr, StderrLines};
pub use shutdown::{Ended, How, Patience, Shutdown, Step};
pub use stderr::CapturedStderr;

use process::Process;

/// A running server process, and on Unix the process group that it leads
///
/// Dropping it closes the pipes that were not taken and kills the group, without asking, within a second.
/// Processes that left the group (`setsid`) are out of reach. A server that ended by itself stays a zombie
/// until this is dropped or shut down: only that keeps its process number from being given to somebody else.
#[derive(Debug)]
pub struct Child {
    /// `None` once taken
    pipes: Option<(ChildStdin, ChildStdout)>,
    stderr: Option<CapturedStderr>,
    process: Process,
}

impl Child {
    fn new(mut process: Process, lines: Option<StderrLines>) -> io::Result<Self> {
        let pipes = process.child.stdin.take().zip(process.child.stdout.take());
        let stderr = process.child.stderr.take().map(|pipe| CapturedStderr::new(pipe, lines)).transpose()?;
        Ok(Self { pipes, stderr, process })
    }

    /// The process number of the server; on Unix also the number of its group
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Takes the server's stdin and stdout as a stream
    ///
    /// # Errors
    ///
    /// `InvalidInput` when they were taken already; otherwise what the operating system says about setting
    /// them up.
    pub fn take_io(&mut self) -> io::Result<ChildIo> {
        let (stdin, stdout) = self.take_pipes().ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "the pipes of this server have been taken already")
        })?;
        ChildIo::new(stdin, stdout, self.stderr.clone())
    }

    /// Takes the bare pipes, blocking as they come; for adapters that wait in their own way
    ///
    /// `None` when they were taken already. Nobody reads captured stderr then, except by
    /// [`captured_stderr`](Self::captured_stderr).
    pub fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.pipes.take()
    }

    /// The server's stderr, if it is captured
    #[must_use]
    pub fn captured_stderr(&self) -> Option<&CapturedStderr> {
        self.stderr.as_ref()
    }

    /// The end of what the server wrote to stderr; empty when that is not captured
    ///
    /// See [`CapturedStderr::last_words`].
    #[must_use]
    pub fn last_words(&self) -> String {
        self.stderr.as_ref().map(CapturedStderr::last_words).unwrap_or_default()
    }

    /// Whether the server process itself has ended, and how
    pub fn life(&mut self) -> Life {
        self.process.life()
    }

    /// Waits until the server process itself has ended, at most for `timeout`
    ///
    /// For the moment after the end of its stdout, when its status is about to be known. Nobody reads its
    /// pipes in the meantime.
    pub fn wait_ended(&mut self, timeout: Duration) -> Life {
        let (started, mut pause) = (StdInstant::now(), Duration::from_micros(100));
        loop {
            let life = self.process.life();
            let left = timeout.saturating_sub(started.elapsed());
            if life != Life::Running || left.is_zero() {
                return life;
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Ends the server by steps, and returns when it is gone
    ///
    /// `io` is the stream if it was taken: its stdin is closed first, and what still comes out of stdout is
    /// read and forgotten, so that a server can finish writing. Takes at most the sum of the waits in
    /// `patience`, and usually just as long as the server takes to notice the end of its input.
    pub fn shutdown(self, io: Option<ChildIo>, patience: Patience) -> Ended {
        let clock = crate::Clock::start();
        self.begin_shutdown(io, patience, clock.now()).run(clock)
    }

    /// Begins to end the server by steps, driven by the caller's loop
    ///
    /// As [`shutdown`](Self::shutdown), and `io` may be `None` if the caller has closed the server's stdin
    /// and reads its stdout itself. Dropping the [`Shutdown`] before it is done kills the group.
    pub fn begin_shutdown(mut self, io: Option<ChildIo>, patience: Patience, now: Instant) -> Shutdown {
        let io = io.or_else(|| self.take_io().ok());
        Shutdown::new(self, io, patience, now)
    }
}

/// Ends all servers that this process has started and nobody has ended yet, whoever owns them: with `SIGTERM` to their
/// groups, and with `SIGKILL` to those that are left after `patience`
///
/// For a process that is about to end because it is told to (`on_signal`): what it leaves behind would go on if it does
/// not care about the end of its input. No server is started from now on. Not for a signal handler itself. On Unix;
/// elsewhere nothing happens.
pub fn end_all(patience: Duration) {
    process::end_all(patience);
}

/// Whether a process runs
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs
    Running,
    /// It has ended; the status is `None` when somebody else collected it (a program that ignores `SIGCHLD`)
    Ended(Option<ExitStatus>),
}
