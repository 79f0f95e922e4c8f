//! This process' stdin and stdout as one stream, on Unix
//!
//! The difficulty is that these handles are not ours: their open file description is shared with whoever
//! started us (and with a terminal, perhaps with a shell), so `O_NONBLOCK` must not be set on them; it would
//! break the others. So each kind of output gets its own way of writing without ever blocking on a full pipe:
//!
//! | stdout is | way |
//! |---|---|
//! | a pipe, on Linux | a description of our own, by re-opening `/proc/self/fd/N`, non-blocking |
//! | a socket (Node starts servers with those) | `send` with `MSG_DONTWAIT` |
//! | a regular file, a block device | plain writes: they do not wait for a peer |
//! | anything else, or `/proc` is not there | after `poll` said so, at most [`CHUNK`] bytes |
//!
//! Reading needs no such care: a blocking read after `poll`, or a blocking read alone when nothing else is
//! wanted. Who wants to read first and wait then ([`Stdio::never_block`]) gets the same ways of reading.

use core::task::Waker;
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::alarm::Alarm;
use crate::duplex::{Descriptors, Duplex, HungUp, Interest, Ready, uninterrupted};
use crate::readiness::{Handles, hung_up};
use crate::stdout_guard::{StdinGuard, StdoutGuard, guard_stdout};

/// The standard input and output of this process
///
/// It reads the handle itself, not through [`std::io::stdin`]: what a program has read there before may have
/// taken more off the pipe than it showed. At the end of input, `read` returns 0 and writing goes on: `printf
/// … | server` gets its answers.
#[derive(Debug)]
pub struct Stdio {
    input: File,
    reading: Reading,
    /// `None` after the end was written
    output: Option<Output>,
    /// Whether `output` came from handle 1, which has to be closed too to end the stream
    own_stdout: bool,
    alarm: Alarm,
    /// Last, so that the handles are given back last
    guards: Option<(StdinGuard, StdoutGuard)>,
}

impl Stdio {
    /// Opens stdin and stdout as they are; whatever else prints to stdout prints into the stream
    ///
    /// # Errors
    ///
    /// When the handles cannot be duplicated or looked at.
    pub fn open() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self { own_stdout: true, ..Self::from_fds(input, output)? })
    }

    /// Opens stdin and stdout and takes both away from the rest of the program
    ///
    /// What it prints to stdout goes to stderr instead ([`guard_stdout`]), and where it reads stdin, or
    /// starts a process that would inherit stdin, there is `/dev/null`. Dropping this gives both back.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open) and [`guard_stdout`].
    pub fn guarded() -> io::Result<Self> {
        // Stdout first: of two guards at once, the second fails here, before anything is changed.
        let stdout = guard_stdout()?;
        let stdin = StdinGuard::new()?;
        let input = stdin.as_fd().try_clone_to_owned()?;
        let output = stdout.as_fd().try_clone_to_owned()?;
        Ok(Self { guards: Some((stdin, stdout)), ..Self::from_fds(input, output)? })
    }

    /// Takes any two handles that may be shared with other processes (inherited ones, for example)
    ///
    /// # Errors
    ///
    /// When the handles cannot be looked at.
    pub fn from_fds(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let free = rustix::fs::fcntl_getfl(&input)?.contains(OFlags::NONBLOCK);
        let reading = if free { Reading::Free } else { Reading::Blocking };
        let output = Some(Output::new(output)?);
        let (input, alarm) = (input.into(), Alarm::default());
        Ok(Self { input, reading, output, own_stdout: false, alarm, guards: None })
    }

    /// Has `read` never wait from now on, so that it can be tried before anything is waited for
    ///
    /// Nobody with whom stdin is shared notices. On a terminal or another device, and on named pipes, each `read`
    /// without a `wait` before it costs a `poll(2)`; should somebody else read there too, it may still wait.
    ///
    /// # Errors
    ///
    /// When stdin cannot be looked at.
    pub fn never_block(&mut self) -> io::Result<()> {
        if self.reading != Reading::Blocking {
            return Ok(());
        }
        self.reading = match FileType::from_raw_mode(rustix::fs::fstat(&self.input)?.st_mode) {
            FileType::RegularFile | FileType::BlockDevice => Reading::Free,
            FileType::Socket => Reading::Socket,
            FileType::Fifo => match reopen_to_read(&self.input) {
                Some(own) => {
                    self.input = own.into();
                    Reading::Free
                }
                None => Reading::Polled { ready: false },
            },
            _ => Reading::Polled { ready: false },
        };
        Ok(())
    }
}

/// How stdin is read
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// A read waits by itself, so a wait for reading alone may be left to it
    Blocking,
    /// Non-blocking, or never blocking
    Free,
    /// Non-blocking by a flag of each call
    Socket,
    /// Only when `poll` called it ready
    Polled { ready: bool },
}

impl Duplex for Stdio {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let outcome = match &mut self.reading {
            Reading::Blocking | Reading::Free => self.input.read(buf),
            Reading::Socket => {
                let outcome = rustix::net::recv(&self.input, buf, RecvFlags::DONTWAIT);
                outcome.map(|(n, _)| n).map_err(io::Error::from)
            }
            Reading::Polled { ready } => {
                if !core::mem::take(ready) {
                    let now = Handles { read: Some(self.input.as_fd()), ..Handles::default() };
                    if !now.wait(Some(Duration::ZERO))?.read {
                        return Err(ErrorKind::WouldBlock.into());
                    }
                }
                self.input.read(buf)
            }
        };
        match outcome {
            // A signal while a read waits: back to the loop, which may have been meant.
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(ErrorKind::WouldBlock.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Perhaps somebody set the shared description to non-blocking. From now on it is polled, or we
                // would spin.
                if self.reading == Reading::Blocking {
                    self.reading = Reading::Free;
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
        interest.check(timeout, || self.alarm.bell().is_some())?;
        let read_alone = interest == Interest::READ && timeout.is_none();
        if read_alone && self.reading == Reading::Blocking && !self.alarm.is_armed() {
            return Ok(Ready { readable: true, writable: false });
        }
        let write = self.output.as_ref().filter(|_| interest.write);
        if interest.write && write.is_none() {
            return Ok(Ready { readable: false, writable: true });
        }
        let found = Handles {
            read: interest.read.then(|| self.input.as_fd()),
            write: write.map(|output| output.handle.as_fd()),
            aside: None,
            bell: self.alarm.bell(),
        }
        .wait(timeout)?;
        if let (true, Reading::Polled { ready }) = (found.read, &mut self.reading) {
            *ready = true;
        }
        if let (true, Some(Output { way: Way::Chunks { ready }, .. })) = (found.write, &mut self.output) {
            *ready = true;
        }
        Ok(Ready { readable: found.read, writable: found.write })
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.alarm.waker()
    }

    /// Reads are to be tried when the reactor says that there is something, or after
    /// [`never_block`](Self::never_block)
    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors {
            read: Some(self.input.as_fd()),
            write: self.output.as_ref().map(|output| output.handle.as_fd()),
            aside: None,
        }
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        hung_up(self.input.as_fd(), self.output.as_ref().map(|output| output.handle.as_fd()))
    }

    /// For stdout itself, without the guard, this also points the process' handle 1 to `/dev/null`: the peer
    /// sees the end only when every copy is closed
    fn shutdown_write(&mut self) -> io::Result<()> {
        if self.output.take().is_some() && self.own_stdout {
            io::stdout().flush()?;
            rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
        }
        if let Some((_, stdout)) = &mut self.guards {
            stdout.give_up();
        }
        Ok(())
    }
}

impl Stdio {
    fn output(&mut self) -> io::Result<&mut Output> {
        self.output.as_mut().ok_or_else(|| ErrorKind::BrokenPipe.into())
    }
}

/// An output handle and how to write to it without getting stuck
#[derive(Debug)]
struct Output {
    handle: File,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// Non-blocking, or never blocking: write what there is
    Free,
    /// Non-blocking by a flag of each call
    Socket,
    /// At most [`CHUNK`] bytes each time that `poll` called it ready
    Chunks { ready: bool },
}

impl Output {
    fn new(handle: OwnedFd) -> io::Result<Self> {
        let (handle, way) = match FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode) {
            FileType::RegularFile | FileType::BlockDevice => (handle, Way::Free),
            FileType::Socket => (handle, Way::Socket),
            FileType::Fifo => match reopen(&handle, OFlags::WRONLY) {
                Some(own) => (own, Way::Free),
                None => (handle, Way::Chunks { ready: false }),
            },
            _ => (handle, Way::Chunks { ready: false }),
        };
        Ok(Self { handle: handle.into(), way })
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(first) = parts.iter().find(|part| !part.is_empty()) else { return Ok(0) };
        match &mut self.way {
            Way::Free if parts.len() == 1 => uninterrupted(|| self.handle.write(first)),
            Way::Free => uninterrupted(|| self.handle.write_vectored(parts)),
            Way::Socket => uninterrupted(|| {
                let flags = SendFlags::DONTWAIT;
                let mut control = rustix::net::SendAncillaryBuffer::default();
                Ok(rustix::net::sendmsg(&self.handle, parts, &mut control, flags)?)
            }),
            Way::Chunks { ready } => {
                if !core::mem::take(ready) {
                    let now = Handles { write: Some(self.handle.as_fd()), ..Handles::default() };
                    if !now.wait(Some(Duration::ZERO))?.write {
                        return Err(ErrorKind::WouldBlock.into());
                    }
                }
                uninterrupted(|| self.handle.write(&first[..first.len().min(CHUNK)]))
            }
        }
    }
}

/// Opens the pipe behind `handle` again, as a description that only we hold
///
/// `None` where that cannot be done: no `/proc`, a pipe made by another user, a peer that is gone.
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

/// The same for reading, and for pipes without a name alone: of one with a name that nobody writes to any more, `poll`
/// does not tell the end through a new description
fn reopen_to_read(handle: &impl AsRawFd) -> Option<OwnedFd> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok()?;
    let anonymous = name.to_string_lossy().starts_with("pipe:");
    anonymous.then(|| reopen(handle, OFlags::RDONLY)).flatten()
}

/// What a pipe that `poll` calls writable takes without blocking: a page on Linux, `_POSIX_PIPE_BUF`
/// elsewhere
const CHUNK: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Pipes that cannot be opened again, as on systems without `/proc`: no piece blocks, so neither end
    /// hangs
    #[test]
    fn full_pipes_in_pieces() {
        let ((r1, w1), (r2, w2)) = (rustix::pipe::pipe().unwrap(), rustix::pipe::pipe().unwrap());
        let end = |input: OwnedFd, output: OwnedFd| {
            let way = Way::Chunks { ready: false };
            let output = Some(Output { handle: output.into(), way });
            Stdio {
                input: input.into(),
                reading: Reading::Blocking,
                output,
                own_stdout: false,
                alarm: Alarm::default(),
                guards: None,
            }
        };
        let (near, far) = (end(r1, w2), end(r2, w1));
        let exchange = |mut io: Stdio| {
            let (mut left, mut received, mut buf) = (TOTAL, 0, [0; 10_000]);
            while left > 0 || received < TOTAL {
                let interest = Interest { read: received < TOTAL, write: left > 0 };
                let ready = io.wait(interest, Some(Duration::from_secs(60))).unwrap();
                assert!(!ready.is_empty(), "nothing moves");
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
        assert_eq!(exchange(near), TOTAL);
        assert_eq!(other.join().unwrap(), TOTAL);
    }

    const TOTAL: usize = 3_000_000;
}
