//! Guards that keep other input and output of the program out of a stream on stdin and stdout.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Instant;

/// Saves the real stdout and points handle 1 to stderr.
///
/// From then on `println!`, C libraries that print, and processes with inherited stdout write to stderr. Only the
/// holder of the guard reaches the real stdout. Output that was buffered before still goes to the real stdout.
///
/// # Errors
///
/// `AlreadyExists` while another guard exists: the second one would take stderr for the real stdout. Otherwise the
/// error of the operating system about duplicating handles.
///
/// ```no_run
/// use std::fs::File;
/// use std::io::Write;
/// use std::os::fd::AsFd;
///
/// let guard = mcp_std::io::guard_stdout()?;
/// println!("this is on stderr");
/// File::from(guard.as_fd().try_clone_to_owned()?).write_all(b"this is on stdout\n")?;
/// # std::io::Result::Ok(())
/// ```
pub fn guard_stdout() -> io::Result<StdoutGuard> {
    if ACTIVE.swap(true, Ordering::AcqRel) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "stdout is already guarded"));
    }
    redirect()
        .map(|stdout| StdoutGuard { saved: Some(stdout) })
        .inspect_err(|_| ACTIVE.store(false, Ordering::Release))
}

/// Holds the real stdout and restores handle 1 when dropped.
///
/// If another thread holds the lock of stdout for more than 200 ms, handle 1 stays on stderr.
#[derive(Debug)]
pub struct StdoutGuard {
    /// `None` after [`release`](StdoutGuard::release).
    saved: Option<OwnedFd>,
}

impl StdoutGuard {
    /// Closes the real stdout for good: handle 1 stays on stderr, even after the guard is dropped.
    ///
    /// It ends a stream in an orderly way: the peer sees the end only when the last copy of the handle is closed.
    pub fn release(&mut self) {
        self.saved = None;
    }
}

/// The real stdout, or stderr after [`release`](StdoutGuard::release).
impl AsFd for StdoutGuard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.saved {
            Some(stdout) => stdout.as_fd(),
            None => rustix::stdio::stderr(),
        }
    }
}

impl Drop for StdoutGuard {
    fn drop(&mut self) {
        if let Some(stdout) = self.saved.take() {
            // Flush first, or an unfinished line would appear on the real stdout. On failure the program continues with
            // stdout on stderr.
            if flush_with_timeout() {
                let _ = rustix::stdio::dup2_stdout(stdout);
            }
        }
        ACTIVE.store(false, Ordering::Release);
    }
}

/// Saves the real stdin, points handle 0 to `/dev/null`, and restores it when dropped.
///
/// Neither this process nor a child process can then take bytes of the stream.
#[derive(Debug)]
pub(crate) struct StdinGuard {
    saved: OwnedFd,
}

impl StdinGuard {
    pub(crate) fn new() -> io::Result<Self> {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Self { saved: stdin })
    }
}

impl AsFd for StdinGuard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.saved.as_fd()
    }
}

impl Drop for StdinGuard {
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stdin(&self.saved);
    }
}

/// Flushes stdout and returns whether that finished within [`FLUSH_TIMEOUT`].
///
/// Another thread may hold the lock of stdout while it prints to a peer that does not read.
fn flush_with_timeout() -> bool {
    let (done, waiting) = (Arc::new(AtomicBool::new(false)), thread::current());
    let finished = done.clone();
    let flush = move || {
        let _ = io::stdout().flush();
        finished.store(true, Ordering::Release);
        waiting.unpark();
    };
    match thread::Builder::new().name("mcp-flush".into()).spawn(flush) {
        Ok(_) => {
            let started = Instant::now();
            while !done.load(Ordering::Acquire) {
                let Some(left) = FLUSH_TIMEOUT.checked_sub(started.elapsed()) else { return false };
                thread::park_timeout(left);
            }
            true
        }
        // No thread is available.
        Err(_) => io::stdout().flush().is_ok(),
    }
}

fn redirect() -> io::Result<OwnedFd> {
    io::stdout().flush()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(stdout)
}

/// Longest time to flush buffered output.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);
/// Whether a guard exists; global, because handle 1 belongs to the whole process.
static ACTIVE: AtomicBool = AtomicBool::new(false);
