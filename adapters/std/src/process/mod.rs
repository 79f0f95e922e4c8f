//! Server processes: start, byte stream, and shutdown.
//!
//! A [`Program`] describes what to start. The resulting [`Child`] owns the process. It also owns the process group (Unix)
//! or the job (Windows), with everything that the server starts in turn: a wrapper such as `npx` leaves the real server
//! behind if only the wrapper is killed. A [`ChildIo`] is the byte stream. Shutdown has three steps, each with a timeout:
//! closed stdin,
//! `SIGTERM`, `SIGKILL`. They run in one call ([`Child::shutdown`]) or step by step in a loop
//! ([`Child::begin_shutdown`]).
//!
//! On Unix a program that starts servers has one more child, from the first server to its end: a shell, `mcp-std guard`, that ends the
//! servers which are left when the program is gone, even by `SIGKILL`. They have two seconds after the end of their input, and two
//! more after `SIGTERM`. Without `/bin/sh` there is none.
//!
//! ```no_run
//! use mcp_std::io::{Duplex, Interest};
//! use mcp_std::process::Program;
//!
//! let mut child = Program::new("my-server").arg("--stdio").spawn()?;
//! let mut io = child.take_io()?;
//! io.write(b"hello\n")?;
//! io.wait(Interest::READ, None)?;
//! # let _ = io.read(&mut [0; 100])?;
//! let report = child.shutdown(Some(io), Default::default());
//! println!("{report}");
//! # std::io::Result::Ok(())
//! ```

use core::fmt;
use core::time::Duration;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, ExitStatus};
use std::thread;
use std::time::Instant as StdInstant;

use mcp_proto::Instant;

use group::Process;

#[cfg(unix)]
mod group;
#[cfg(windows)]
#[path = "group_windows.rs"]
mod group;
#[cfg(not(any(unix, windows)))]
#[path = "group_other.rs"]
mod group;
#[cfg(unix)]
mod guard;
#[cfg(windows)]
mod job;
#[cfg(unix)]
mod pipes;
#[cfg(not(unix))]
#[path = "pipes_other.rs"]
mod pipes;
mod program;
#[cfg(any(windows, test))]
mod search;
mod shutdown;
#[cfg(all(unix, feature = "signals"))]
mod signals;
mod stderr;
#[cfg(target_os = "linux")]
mod zombies;

pub use pipes::ChildIo;
pub use program::{Launch, Program, Stderr, StderrLineHandler};
pub use shutdown::{Shutdown, ShutdownReport, ShutdownStage, ShutdownStep, ShutdownTimeouts};
#[cfg(all(unix, feature = "signals"))]
pub use signals::{TerminationSignal, hangup_flag, on_signal, on_terminate};
pub use stderr::CapturedStderr;

/// A running server process, and the process group that it leads (Unix) or the job that it is in (Windows).
///
/// Dropping it closes the pipes that were not taken and kills the group within a second. Processes that left the
/// group (`setsid`) are not reached; none can leave a job. A server that exited stays a zombie until this value is dropped or
/// shut down, so that its process id is not given to another process.
///
/// A server also ends with this process, even if that is killed, aborts, or forgets this value: a job at once, a group within four
/// seconds. On Unix a shell (`/bin/sh`) beside this process sees to that from the first server on; where there is none, only the
/// end of its input tells the server.
#[derive(Debug)]
pub struct Child {
    /// `None` once taken.
    pipes: Option<(ChildStdin, ChildStdout)>,
    stderr: Option<CapturedStderr>,
    process: Process,
}

impl Child {
    fn new(mut process: Process, lines: Option<StderrLineHandler>) -> io::Result<Self> {
        let pipes = process.child.stdin.take().zip(process.child.stdout.take());
        let stderr = process.child.stderr.take().map(|pipe| CapturedStderr::new(pipe, lines)).transpose()?;
        Ok(Self { pipes, stderr, process })
    }

    /// Returns the process id of the server; on Unix also the id of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Takes the stdin and stdout of the server as one byte stream.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if they were already taken. Otherwise the error of the operating system about setting them up.
    pub fn take_io(&mut self) -> io::Result<ChildIo> {
        let (stdin, stdout) = self.take_pipes().ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "the pipes of this server process were already taken")
        })?;
        ChildIo::new(stdin, stdout, self.stderr.clone())
    }

    /// Takes the pipes as they are, in blocking mode, for adapters with a wait of their own.
    ///
    /// Returns `None` if they were already taken. Captured stderr is then read only through
    /// [`captured_stderr`](Self::captured_stderr).
    pub fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.pipes.take()
    }

    /// Returns the stderr of the server, if it is captured.
    #[must_use]
    pub fn captured_stderr(&self) -> Option<&CapturedStderr> {
        self.stderr.as_ref()
    }

    /// Returns the end of the server's stderr; empty unless it is captured.
    ///
    /// See [`CapturedStderr::stderr_tail`].
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        self.stderr.as_ref().map(CapturedStderr::stderr_tail).unwrap_or_default()
    }

    /// Returns whether the server process itself has exited, and with which status.
    pub fn status(&mut self) -> ProcessStatus {
        self.process.status()
    }

    /// Waits until the server process itself has exited, at most for `timeout`.
    ///
    /// Call it after the end of stdout, when the status is about to be known. Its pipes are not read meanwhile.
    pub fn wait_timeout(&mut self, timeout: Duration) -> ProcessStatus {
        let (started, mut pause) = (StdInstant::now(), Duration::from_micros(100));
        loop {
            let status = self.process.status();
            let left = timeout.saturating_sub(started.elapsed());
            if status != ProcessStatus::Running || left.is_zero() {
                return status;
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Shuts the server down by steps, and returns when it is gone.
    ///
    /// `io` is the stream, if it was taken. Its stdin is closed first. Remaining stdout is read and discarded, so
    /// that the server can finish writing. The call takes at most the sum of `timeouts`, and usually as long as the
    /// server takes to notice the end of its input.
    pub fn shutdown(self, io: Option<ChildIo>, timeouts: ShutdownTimeouts) -> ShutdownReport {
        let clock = crate::Clock::start();
        self.begin_shutdown(io, timeouts, clock.now()).run(clock)
    }

    /// Begins a shutdown by steps that the caller's loop drives.
    ///
    /// It works like [`shutdown`](Self::shutdown). `io` may be `None` if the caller has closed the server's stdin
    /// and reads its stdout itself. Dropping the [`Shutdown`] before it is done kills the group.
    pub fn begin_shutdown(
        mut self,
        io: Option<ChildIo>,
        timeouts: ShutdownTimeouts,
        now: Instant,
    ) -> Shutdown {
        let io = io.or_else(|| self.take_io().ok());
        Shutdown::new(self, io, timeouts, now)
    }
}

/// Ends all server processes that this process has started, with `SIGTERM` to their groups.
///
/// Groups that are left after `timeout` get `SIGKILL`. It is meant for a process that ends because of a signal
/// (`on_signal`): its servers would keep running if they ignore the end of their input. No server can be started from
/// now on. Do not call it in a signal handler. It has no effect on systems other than Unix.
pub fn terminate_all(timeout: Duration) {
    group::terminate_all(timeout);
}

/// Whether a process is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessStatus {
    /// The process is running.
    Running,
    /// The process has exited. The status is `None` if it was collected elsewhere, as when `SIGCHLD` is ignored.
    Exited(Option<ExitStatus>),
}

#[cfg(not(unix))]
impl ProcessStatus {
    /// Returns the status of a process, which is collected if it has exited.
    fn of(child: &mut std::process::Child) -> Self {
        match child.try_wait() {
            Ok(None) => Self::Running,
            Ok(status) => Self::Exited(status),
            Err(_) => Self::Exited(None),
        }
    }
}

// Errors of starting a server process.

/// Error of starting a server process.
///
/// `Display` names the program, what happened, and what to do.
#[derive(Debug)]
pub struct SpawnError {
    program: String,
    kind: SpawnErrorKind,
    directory: Option<String>,
    source: io::Error,
}

/// Reason why a server process did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// Another error of the operating system, which is the source.
    Other,
    /// The working directory does not exist or is not a directory.
    Directory,
    /// The program exists but cannot run on this machine.
    NotExecutable,
    /// The program was not found.
    NotFound,
    /// The file is not a program, or this process may not run it.
    NotPermitted,
    /// The program is a batch file (Windows), and an argument could not be passed to it unchanged: the shell that runs it
    /// would take a part of it for a command.
    UnsafeArgument,
    /// The hook given to [`before_spawn`](Program::before_spawn) refused the start.
    Refused,
}

impl SpawnError {
    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> SpawnErrorKind {
        self.kind
    }

    /// Returns the program as it was given.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    fn refused(program: &OsStr, source: io::Error) -> Self {
        Self::new(program, SpawnErrorKind::Refused, None, source)
    }

    /// Creates the error and finds its kind.
    ///
    /// `file` is what was started in place of `program`.
    fn from_os(program: &OsStr, file: &OsStr, directory: Option<&Path>, source: io::Error) -> Self {
        // The same error codes stand for the program, its directory and its interpreter; the file system tells which.
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Self::new(program, SpawnErrorKind::Directory, Some(directory), source);
        }
        let kind = match source.kind() {
            ErrorKind::NotFound if is_file(file) => SpawnErrorKind::NotExecutable,
            ErrorKind::NotFound => SpawnErrorKind::NotFound,
            ErrorKind::PermissionDenied => SpawnErrorKind::NotPermitted,
            #[cfg(windows)]
            ErrorKind::InvalidInput if search::is_batch_file(Path::new(file)) => {
                SpawnErrorKind::UnsafeArgument
            }
            _ if is_format_error(&source) => SpawnErrorKind::NotExecutable,
            _ => SpawnErrorKind::Other,
        };
        Self::new(program, kind, None, source)
    }

    fn new(program: &OsStr, kind: SpawnErrorKind, directory: Option<&Path>, source: io::Error) -> Self {
        let directory = directory.map(|directory| directory.display().to_string());
        Self { program: program.to_string_lossy().into_owned(), kind, directory, source }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `{:?}` escapes control characters, as the name may come from an untrusted configuration file.
        write!(f, "cannot start {:?}: ", self.program)?;
        match self.kind {
            SpawnErrorKind::Other => write!(f, "{}", self.source),
            SpawnErrorKind::Directory => write!(
                f,
                "its working directory {:?} does not exist or is not a directory; create it or choose another",
                self.directory.as_deref().unwrap_or_default()
            ),
            SpawnErrorKind::NotExecutable => f.write_str(
                "the file exists but cannot run here; was it built for this kind of machine? If it is a \
                 script, is the interpreter in its first line (#!) installed?",
            ),
            SpawnErrorKind::NotFound => {
                f.write_str("no such program; is it installed and on PATH? Otherwise give its full path")
            }
            SpawnErrorKind::NotPermitted => f.write_str(
                "permission denied; is it a program and not a directory, is it executable (chmod +x), and can you enter \
                 its working directory?",
            ),
            SpawnErrorKind::UnsafeArgument => f.write_str(
                "it is a batch file, and an argument has characters that its shell could take for a command; start the \
                 program behind it instead, for example node with the path of its script",
            ),
            SpawnErrorKind::Refused => write!(f, "refused by the before_spawn hook: {}", self.source),
        }
    }
}

impl core::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self.kind {
            // `Display` already contains these two sources.
            SpawnErrorKind::Other | SpawnErrorKind::Refused => None,
            _ => Some(&self.source),
        }
    }
}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

/// Returns whether `program` is the path of a file; a bare name is searched on `PATH` instead.
fn is_file(program: &OsStr) -> bool {
    let path = Path::new(program);
    path.components().count() > 1 && path.is_file()
}

/// Returns whether `error` is "exec format error", which the standard library does not name.
fn is_format_error(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error());
    // ERROR_BAD_EXE_FORMAT
    #[cfg(not(unix))]
    return cfg!(windows) && error.raw_os_error() == Some(193);
}
