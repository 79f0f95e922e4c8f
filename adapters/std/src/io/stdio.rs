//! Stdin and stdout of this process as one byte stream, on Unix.
//!
//! The open file descriptions of these handles are shared with the parent process, and perhaps with a terminal and its
//! shell. `O_NONBLOCK` on them would affect the other processes, so it is never set (DESIGN-23). Each kind of output
//! has its own way to write without blocking on a full pipe:
//!
//! | stdout is | method |
//! |---|---|
//! | a pipe, on Linux | a non-blocking description of its own, by re-opening `/proc/self/fd/N` |
//! | a socket (as Node starts servers) | `send` with `MSG_DONTWAIT` |
//! | a regular file or block device | plain writes, which do not wait for a peer |
//! | anything else, or without `/proc` | at most `MAX_CHUNK` bytes after `poll` reported it writable |
//!
//! Input is read with a blocking read after `poll`, or with only a blocking read if nothing else is wanted.
//! [`Stdio::set_read_nonblocking`] applies the methods above to input too.

use core::task::Waker;
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::io::{Duplex, retry_on_interrupt};
use crate::io::{StdinGuard, StdoutGuard, guard_stdout};
use crate::poll::HungUp;
use crate::poll::LazyNotifier;
use crate::poll::{Descriptors, Interest, Ready};
use crate::poll::{PollHandles, hung_up};

/// Stdin and stdout of this process.
///
/// Input is read from the handle, not through [`std::io::stdin`]. Bytes that the program buffered there are lost to
/// this stream. At the end of input `read` returns 0 and writing continues, so `printf … | server` gets its responses.
#[derive(Debug)]
pub struct Stdio {
    input: File,
    read_mode: ReadMode,
    /// `None` after the end was written.
    output: Option<StdoutWriter>,
    /// Whether `output` is a duplicate of handle 1, which must be closed too to end the stream.
    owns_stdout: bool,
    notifier: LazyNotifier,
    /// The last field, so that the handles are restored last.
    guards: Option<(StdinGuard, StdoutGuard)>,
}

impl Stdio {
    /// Opens stdin and stdout as they are; other output of the program to stdout mixes with the stream.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the handles cannot be duplicated or inspected.
    pub fn open() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self { owns_stdout: true, ..Self::from_fds(input, output)? })
    }

    /// Opens stdin and stdout, and takes both away from the rest of the program.
    ///
    /// Other output to stdout goes to stderr ([`guard_stdout`]). Other reads of stdin, and processes that would
    /// inherit it, get `/dev/null`. Dropping the stream restores both.
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open) and [`guard_stdout`].
    pub fn guarded() -> io::Result<Self> {
        // Stdout first: a second guard fails here, before anything has changed.
        let stdout = guard_stdout()?;
        let stdin = StdinGuard::new()?;
        let input = stdin.as_fd().try_clone_to_owned()?;
        let output = stdout.as_fd().try_clone_to_owned()?;
        Ok(Self { guards: Some((stdin, stdout)), ..Self::from_fds(input, output)? })
    }

    /// Creates a stream of two handles that may be shared with other processes, for example inherited ones.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the handles cannot be inspected.
    pub fn from_fds(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let nonblocking = rustix::fs::fcntl_getfl(&input)?.contains(OFlags::NONBLOCK);
        let read_mode = if nonblocking { ReadMode::Nonblocking } else { ReadMode::Blocking };
        let output = Some(StdoutWriter::new(output)?);
        let (input, notifier) = (input.into(), LazyNotifier::default());
        Ok(Self { input, read_mode, output, owns_stdout: false, notifier, guards: None })
    }

    /// Makes `read` non-blocking, so that it can be tried before a wait.
    ///
    /// Other processes that share stdin are not affected. On a terminal, another device or a named pipe, each `read`
    /// without a `wait` before it costs a `poll(2)`. If another process reads there too, it may still block.
    ///
    /// # Errors
    ///
    /// The error of the operating system if stdin cannot be inspected.
    pub fn set_read_nonblocking(&mut self) -> io::Result<()> {
        if self.read_mode != ReadMode::Blocking {
            return Ok(());
        }
        self.read_mode = match FileType::from_raw_mode(rustix::fs::fstat(&self.input)?.st_mode) {
            FileType::RegularFile | FileType::BlockDevice => ReadMode::Nonblocking,
            FileType::Socket => ReadMode::Socket,
            // The description of an inherited pipe is shared with other processes, so the pipe is opened again
            // (DESIGN-23).
            FileType::Fifo => match reopen_to_read(&self.input) {
                Some(reopened) => {
                    self.input = reopened.into();
                    ReadMode::Nonblocking
                }
                None => ReadMode::Polled { ready: false },
            },
            _ => ReadMode::Polled { ready: false },
        };
        Ok(())
    }
}

/// Method of reading stdin.
#[derive(Debug, PartialEq, Eq)]
enum ReadMode {
    /// A read blocks, so a wait only for reading may be left to it.
    Blocking,
    /// The handle is non-blocking, or never blocks.
    Nonblocking,
    /// Non-blocking by a flag of each call.
    Socket,
    /// Read only after `poll` reported it readable.
    Polled { ready: bool },
}

impl Duplex for Stdio {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let outcome = match &mut self.read_mode {
            ReadMode::Blocking | ReadMode::Nonblocking => self.input.read(buf),
            ReadMode::Socket => {
                let outcome = rustix::net::recv(&self.input, buf, RecvFlags::DONTWAIT);
                outcome.map(|(n, _)| n).map_err(io::Error::from)
            }
            ReadMode::Polled { ready } => {
                // One read for each report: a second one may block.
                if !core::mem::take(ready) {
                    let now = PollHandles { read: Some(self.input.as_fd()), ..PollHandles::default() };
                    if !now.wait(Some(Duration::ZERO))?.read {
                        return Err(ErrorKind::WouldBlock.into());
                    }
                }
                self.input.read(buf)
            }
        };
        match outcome {
            // A signal may be meant for the loop, so return to it.
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(ErrorKind::WouldBlock.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Another process may have made the shared description non-blocking; without polling this would spin.
                if self.read_mode == ReadMode::Blocking {
                    self.read_mode = ReadMode::Nonblocking;
                }
                Err(error)
            }
            outcome => outcome,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output()?.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.output()?.write(parts)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        interest.check(timeout, || self.notifier.notifier().is_some())?;
        let read_alone = interest == Interest::READ && timeout.is_none();
        // The read itself waits, which saves a call. No waker could end it, so there must be none.
        if read_alone && self.read_mode == ReadMode::Blocking && !self.notifier.is_armed() {
            return Ok(Ready { readable: true, writable: false });
        }
        let write = self.output.as_ref().filter(|_| interest.write);
        // A write fails at once, and the caller has to see that.
        if interest.write && write.is_none() {
            return Ok(Ready { readable: false, writable: true });
        }
        let found = PollHandles {
            read: interest.read.then(|| self.input.as_fd()),
            write: write.map(|output| output.handle.as_fd()),
            auxiliary: None,
            notifier: self.notifier.notifier(),
        }
        .wait(timeout)?;
        if let (true, ReadMode::Polled { ready }) = (found.read, &mut self.read_mode) {
            *ready = true;
        }
        if let (true, Some(StdoutWriter { mode: WriteMode::Chunks { ready }, .. })) =
            (found.write, &mut self.output)
        {
            *ready = true;
        }
        Ok(Ready { readable: found.read, writable: found.write })
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.notifier.waker()
    }

    /// The descriptors of both handles. Without [`set_read_nonblocking`](Self::set_read_nonblocking), read only
    /// after the reactor has reported readiness.
    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors {
            read: Some(self.input.as_fd()),
            write: self.output.as_ref().map(|output| output.handle.as_fd()),
            auxiliary: None,
        }
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        hung_up(self.input.as_fd(), self.output.as_ref().map(|output| output.handle.as_fd()))
    }

    /// Ends the outgoing direction. The peer sees the end when every copy of the handle is closed.
    ///
    /// For stdout itself, without the guard, this also points handle 1 of the process to `/dev/null`.
    fn shutdown_write(&mut self) -> io::Result<()> {
        if self.output.take().is_some() && self.owns_stdout {
            io::stdout().flush()?;
            rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
        }
        if let Some((_, stdout)) = &mut self.guards {
            stdout.release();
        }
        Ok(())
    }
}

impl Stdio {
    fn output(&mut self) -> io::Result<&mut StdoutWriter> {
        self.output.as_mut().ok_or_else(|| ErrorKind::BrokenPipe.into())
    }
}

/// An output handle and how to write to it without blocking.
#[derive(Debug)]
struct StdoutWriter {
    handle: File,
    mode: WriteMode,
}

#[derive(Debug)]
enum WriteMode {
    /// The handle is non-blocking, or never blocks: write everything.
    Nonblocking,
    /// Non-blocking by a flag of each call.
    Socket,
    /// At most [`MAX_CHUNK`] bytes each time that `poll` reported it writable.
    Chunks { ready: bool },
}

impl StdoutWriter {
    fn new(handle: OwnedFd) -> io::Result<Self> {
        let (handle, mode) = match FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode) {
            FileType::RegularFile | FileType::BlockDevice => (handle, WriteMode::Nonblocking),
            FileType::Socket => (handle, WriteMode::Socket),
            FileType::Fifo => match reopen(&handle, OFlags::WRONLY) {
                Some(reopened) => (reopened, WriteMode::Nonblocking),
                None => (handle, WriteMode::Chunks { ready: false }),
            },
            _ => (handle, WriteMode::Chunks { ready: false }),
        };
        Ok(Self { handle: handle.into(), mode })
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(first) = parts.iter().find(|part| !part.is_empty()) else { return Ok(0) };
        match &mut self.mode {
            WriteMode::Nonblocking if parts.len() == 1 => retry_on_interrupt(|| self.handle.write(first)),
            WriteMode::Nonblocking => retry_on_interrupt(|| self.handle.write_vectored(parts)),
            WriteMode::Socket => retry_on_interrupt(|| {
                let flags = SendFlags::DONTWAIT;
                let mut control = rustix::net::SendAncillaryBuffer::default();
                Ok(rustix::net::sendmsg(&self.handle, parts, &mut control, flags)?)
            }),
            WriteMode::Chunks { ready } => {
                if !core::mem::take(ready) {
                    let now = PollHandles { write: Some(self.handle.as_fd()), ..PollHandles::default() };
                    if !now.wait(Some(Duration::ZERO))?.write {
                        return Err(ErrorKind::WouldBlock.into());
                    }
                }
                retry_on_interrupt(|| self.handle.write(&first[..first.len().min(MAX_CHUNK)]))
            }
        }
    }
}

/// Opens the pipe behind `handle` again, as a description that is not shared.
///
/// Returns `None` if that is impossible: no `/proc`, a pipe of another user, or a disconnected peer.
#[cfg(target_os = "linux")]
fn reopen(handle: &impl AsRawFd, access: OFlags) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn reopen(_: &impl AsRawFd, _: OFlags) -> Option<OwnedFd> {
    None
}

/// Opens an anonymous pipe again for reading.
///
/// Named pipes are excluded: through a new description, `poll` does not report their end after the last writer closed.
fn reopen_to_read(handle: &impl AsRawFd) -> Option<OwnedFd> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok()?;
    let anonymous = name.to_string_lossy().starts_with("pipe:");
    anonymous.then(|| reopen(handle, OFlags::RDONLY)).flatten()
}

/// Bytes that a pipe accepts without blocking once `poll` reports it writable: a page on Linux, `_POSIX_PIPE_BUF`
/// elsewhere.
const MAX_CHUNK: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Simulates a system without `/proc`, where pipes cannot be opened again.
    #[test]
    fn full_pipes_written_in_chunks_do_not_deadlock() {
        let ((r1, w1), (r2, w2)) = (rustix::pipe::pipe().unwrap(), rustix::pipe::pipe().unwrap());
        let end = |input: OwnedFd, output: OwnedFd| {
            let mode = WriteMode::Chunks { ready: false };
            let output = Some(StdoutWriter { handle: output.into(), mode });
            Stdio {
                input: input.into(),
                read_mode: ReadMode::Blocking,
                output,
                owns_stdout: false,
                notifier: LazyNotifier::default(),
                guards: None,
            }
        };
        let (near, far) = (end(r1, w2), end(r2, w1));
        let exchange = |mut io: Stdio| {
            let (mut left, mut received, mut buf) = (TOTAL_BYTES, 0, [0; 10_000]);
            while left > 0 || received < TOTAL_BYTES {
                let interest = Interest { read: received < TOTAL_BYTES, write: left > 0 };
                let ready = io.wait(interest, Some(Duration::from_secs(60))).unwrap();
                assert!(!ready.is_empty(), "no progress within 60 s");
                if ready.writable {
                    left -= io.write(&[7; 20_000][..left.min(20_000)]).unwrap();
                }
                if ready.readable {
                    received += io.read(&mut buf).unwrap();
                }
            }
            received
        };
        let other = thread::spawn(move || exchange(far));
        assert_eq!(exchange(near), TOTAL_BYTES);
        assert_eq!(other.join().unwrap(), TOTAL_BYTES);
    }

    const TOTAL_BYTES: usize = 3_000_000;
}
