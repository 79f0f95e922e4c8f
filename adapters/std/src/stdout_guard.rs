//! Keeps stray prints out of a stream that runs over stdout

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Instant;

/// Puts the real stdout aside and points handle 1 to stderr
///
/// From then on a `println!`, a C library that prints, or a process started with inherited stdout writes to
/// stderr, and only the holder of the guard reaches the real stdout. What was printed before goes where it
/// was meant to go.
///
/// # Errors
///
/// `AlreadyExists` while another guard lives (two would take each other's stderr for the real stdout);
/// otherwise what the operating system says about duplicating handles.
///
/// ```no_run
/// use std::fs::File;
/// use std::io::Write;
/// use std::os::fd::AsFd;
///
/// let guard = mcp_std::guard_stdout()?;
/// println!("this is on stderr");
/// File::from(guard.as_fd().try_clone_to_owned()?).write_all(b"this is on stdout\n")?;
/// # std::io::Result::Ok(())
/// ```
pub fn guard_stdout() -> io::Result<StdoutGuard> {
    if ACTIVE.swap(true, Ordering::AcqRel) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "stdout is guarded already"));
    }
    redirect()
        .map(|kept| StdoutGuard { kept: Some(kept) })
        .inspect_err(|_| ACTIVE.store(false, Ordering::Release))
}

/// Holds the real stdout; dropping it puts handle 1 back, unless a thread of the program holds it and does not let go of
/// it: then it stays on stderr
#[derive(Debug)]
pub struct StdoutGuard {
    /// `None` once given up
    kept: Option<OwnedFd>,
}

impl StdoutGuard {
    /// Lets go of the real stdout for good: handle 1 stays on stderr, even after the guard is dropped
    ///
    /// For the orderly end of a stream, which the peer sees only when the last copy of the handle is closed.
    pub fn give_up(&mut self) {
        self.kept = None;
    }
}

/// The real stdout; after [`give_up`](StdoutGuard::give_up), stderr
impl AsFd for StdoutGuard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kept {
            Some(kept) => kept.as_fd(),
            None => rustix::stdio::stderr(),
        }
    }
}

impl Drop for StdoutGuard {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            // First what is still buffered, or a stray line without its newline would come out on the real
            // stdout. Neither step has anybody to report to; the program goes on with stdout on stderr.
            if flushed() {
                let _ = rustix::stdio::dup2_stdout(kept);
            }
        }
        ACTIVE.store(false, Ordering::Release);
    }
}

/// Puts the real stdin aside and points handle 0 to `/dev/null`, so that nothing else in this process, and no
/// process that it starts, eats bytes of the stream; gives it back when dropped
#[derive(Debug)]
pub(crate) struct StdinGuard {
    kept: OwnedFd,
}

impl StdinGuard {
    pub(crate) fn new() -> io::Result<Self> {
        let kept = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Self { kept })
    }
}

impl AsFd for StdinGuard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kept.as_fd()
    }
}

impl Drop for StdinGuard {
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stdin(&self.kept);
    }
}

/// Writes what is buffered, unless another thread holds stdout and does not let go of it: one that prints more than
/// anybody reads, say, for which nobody is to wait
fn flushed() -> bool {
    let (done, waiting) = (Arc::new(AtomicBool::new(false)), thread::current());
    let told = done.clone();
    let flush = move || {
        let _ = io::stdout().flush();
        told.store(true, Ordering::Release);
        waiting.unpark();
    };
    match thread::Builder::new().name("mcp-flush".into()).spawn(flush) {
        Ok(_) => {
            let begun = Instant::now();
            while !done.load(Ordering::Acquire) {
                let Some(left) = PATIENCE.checked_sub(begun.elapsed()) else { return false };
                thread::park_timeout(left);
            }
            true
        }
        // There is no thread left.
        Err(_) => io::stdout().flush().is_ok(),
    }
}

fn redirect() -> io::Result<OwnedFd> {
    io::stdout().flush()?;
    let kept = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(kept)
}

/// How long what was printed may take to leave
const PATIENCE: Duration = Duration::from_millis(200);
/// Handle 1 belongs to the whole process, so does this
static ACTIVE: AtomicBool = AtomicBool::new(false);
