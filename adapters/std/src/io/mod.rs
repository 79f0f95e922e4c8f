//! Byte streams: stdio, sockets, memory, and any reader with a writer.
//!
//! | to talk over | use |
//! |---|---|
//! | stdin and stdout of this process | [`Stdio`] |
//! | a TCP or Unix socket | [`Socket`], accepted by a [`Listener`] or [`StreamListener`] |
//! | a serial line | [`SerialPort`] |
//! | what a [`StreamAddress`] names | [`StreamAddress::connect`] |
//! | any `Read` with a `Write` | [`Threaded`] |
//! | a test in the same process | [`memory_pair`] |
//!
//! All of them implement [`Duplex`]. A stream to a server process is [`ChildIo`](crate::process::ChildIo).

mod memory;
#[cfg(any(unix, windows))]
mod net;
#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod serial;
mod socket;
#[cfg(unix)]
mod stdio;
#[cfg(unix)]
mod stdout_guard;
mod stream_address;
#[cfg(unix)]
mod stream_listener;
mod threaded;

use core::fmt;
use core::str::FromStr;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};
use std::path::PathBuf;

use memory::{MemoryPipe, MemoryPipes};
#[cfg(not(any(unix, windows)))]
use other::net;
#[cfg(not(unix))]
use other::{serial, stdio, stream_listener};
#[cfg(unix)]
use stdout_guard::StdinGuard;

#[cfg(unix)]
pub use crate::poll::Descriptors;
pub use crate::poll::{HungUp, Interest, Ready};
pub use memory::{MemoryEnd, memory_pair};
pub use net::{Listener, is_resource_exhausted};
#[cfg(any(unix, windows))]
pub use net::{OpenConnection, OpenConnections};
pub use serial::SerialPort;
pub use socket::Socket;
#[cfg(unix)]
pub use socket::SocketControl;
pub use stdio::Stdio;
#[cfg(unix)]
pub use stdout_guard::{StdoutGuard, guard_stdout};
pub use stream_address::{InvalidStreamAddress, StreamAddress};
pub use stream_address::{interleave_families, known_addresses, resolve_host};
pub use stream_listener::StreamListener;
pub use threaded::Threaded;

// The byte stream interface of an event loop.

/// A bidirectional byte stream that one thread at a time drives.
///
/// `read` and `write` do what is possible now, and return [`ErrorKind::WouldBlock`] if that is nothing. Only `wait`
/// blocks (for one exception see [`wait`](Self::wait)). A loop that always offers both directions cannot deadlock,
/// however full the pipes are:
///
/// ```
/// use std::io::{self, ErrorKind};
/// use mcp_std::io::{Duplex, Interest};
///
/// /// Sends `out` and reads until the peer ends its side.
/// fn exchange(io: &mut impl Duplex, mut out: &[u8]) -> io::Result<Vec<u8>> {
///     let (mut answer, mut buf) = (Vec::new(), [0; 4096]);
///     loop {
///         match io.write(out) {
///             Ok(n) => out = &out[n..],
///             Err(e) if e.kind() == ErrorKind::WouldBlock => {}
///             Err(e) => return Err(e),
///         }
///         let ready = io.wait(Interest { read: true, write: !out.is_empty() }, None)?;
///         if ready.readable {
///             match io.read(&mut buf) {
///                 Ok(0) => return Ok(answer),
///                 Ok(n) => answer.extend_from_slice(&buf[..n]),
///                 Err(e) if e.kind() == ErrorKind::WouldBlock => {}
///                 Err(e) => return Err(e),
///             }
///         }
///     }
/// }
///
/// let (mut near, mut far) = mcp_std::io::memory_pair(8);
/// far.write(b"hello")?;
/// far.shutdown_write()?;
/// assert_eq!(exchange(&mut near, b"hi")?, b"hello");
/// # io::Result::Ok(())
/// ```
///
/// Implementations handle interrupted system calls; `Interrupted` is never returned.
pub trait Duplex {
    /// Reads up to `buf.len()` bytes. `Ok(0)` for a non-empty `buf` is the end of the stream.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if no bytes are available now. Any other error ends the stream; [`is_peer_gone`] distinguishes
    /// a peer that disconnected from a real failure.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits now and returns the count, which is positive unless `bytes` is empty.
    ///
    /// It may be called without a `wait` before it, which is the fast path.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing fits now. Any other error ends this direction; [`is_peer_gone`] distinguishes a peer
    /// that disconnected from a real failure. Bytes of the peer can still be read after it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes several slices in order, as [`write`](Self::write) writes one.
    ///
    /// # Errors
    ///
    /// The same as [`write`](Self::write).
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match parts.iter().find(|part| !part.is_empty()) {
            Some(part) => self.write(part),
            None => Ok(0),
        }
    }

    /// Waits until a direction in `interest` is ready, or until `timeout` has passed (`None`: no limit).
    ///
    /// It may return early with nothing ready, after a signal or a wake of a [waker](Self::waker). It may report a
    /// direction as ready that is not. Callers loop. A direction that ended or failed is ready, and the next `read`
    /// or `write` reports it; remove it from `interest` after that. Bytes that the peer sent before it disconnected
    /// are readable first.
    ///
    /// With interest only in reading and no timeout, an implementation on a blocking handle may return immediately and
    /// leave the waiting to `read`. That saves a system call. It does not do so while a waker exists.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `interest` is empty, there is no timeout, and no waker was ever requested: such a wait
    /// would never return. Otherwise the error of the operating system.
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready>;

    /// Returns a waker that ends a [`wait`](Self::wait) early, from any thread.
    ///
    /// It ends the current wait, or the next one if none is running. Any number of wakes between two waits ends one
    /// wait. Memory written before the wake is visible after that wait. All wakers of a stream are clones of one, and
    /// they may outlive the stream. The first request allocates its resources: on Unix a descriptor, which is part of
    /// each later wait.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example if no descriptor is left. `Unsupported` if a wait cannot be
    /// ended; this is the default implementation.
    fn waker(&mut self) -> io::Result<Waker> {
        Err(io::Error::new(
            ErrorKind::Unsupported,
            "this stream has no waker: its wait cannot be ended from another thread",
        ))
    }

    /// Returns the descriptors to watch, for a loop that waits for several sources at once.
    ///
    /// The default implementation returns none, for streams that are not made of descriptors.
    #[cfg(unix)]
    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors::default()
    }

    /// Returns which directions the peer has closed, without reading, writing or waiting.
    ///
    /// It lets a loop that has paused reading notice a disconnected peer. Bytes that the peer sent before may still
    /// be readable. Streams that cannot tell report no closed direction.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    fn hung_up(&mut self) -> io::Result<HungUp> {
        Ok(HungUp::default())
    }

    /// Ends the outgoing direction: the peer reads the end of the stream after the bytes written. Reading continues.
    ///
    /// A later write fails with `BrokenPipe`. A second call does nothing.
    ///
    /// # Errors
    ///
    /// The error of the operating system. A peer that is already gone is not an error.
    fn shutdown_write(&mut self) -> io::Result<()>;

    /// Waits until the bytes accepted by `write` have left this process, at most for `timeout`.
    ///
    /// Only streams with a writing thread ([`Threaded`]) or with buffered records have work to
    /// do here. Call it before the process ends.
    ///
    /// # Errors
    ///
    /// `TimedOut` if bytes are left; the write error if there was one.
    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        let _ = timeout;
        Ok(())
    }
}

/// Returns whether `error` means that the peer has disconnected, and not that something failed here.
#[must_use]
pub fn is_peer_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof
    )
}

/// Repeats `call` while a signal interrupts it.
pub(crate) fn retry_on_interrupt<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Implements [`Duplex`] by that of a stream inside: the macro `$inner` calls a method of it.
macro_rules! forward_duplex {
    ($inner:ident: $($(#[$attribute:meta])* impl[$($generics:tt)*] $stream:ty)+) => {$(
        $(#[$attribute])*
        impl<$($generics)*> $crate::io::Duplex for $stream {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                $inner!(self, read(buf))
            }
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                $inner!(self, write(bytes))
            }
            fn write_vectored(&mut self, parts: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                $inner!(self, write_vectored(parts))
            }
            fn wait(
                &mut self,
                interest: $crate::poll::Interest,
                timeout: Option<core::time::Duration>,
            ) -> std::io::Result<$crate::poll::Ready> {
                $inner!(self, wait(interest, timeout))
            }
            fn waker(&mut self) -> std::io::Result<core::task::Waker> {
                $inner!(self, waker())
            }
            #[cfg(unix)]
            fn descriptors(&self) -> $crate::poll::Descriptors<'_> {
                $inner!(self, descriptors())
            }
            fn hung_up(&mut self) -> std::io::Result<$crate::poll::HungUp> {
                $inner!(self, hung_up())
            }
            fn shutdown_write(&mut self) -> std::io::Result<()> {
                $inner!(self, shutdown_write())
            }
            fn flush(&mut self, timeout: core::time::Duration) -> std::io::Result<()> {
                $inner!(self, flush(timeout))
            }
        }
    )+};
}
pub(crate) use forward_duplex;

macro_rules! target {
    ($self:ident, $($call:tt)*) => { (**$self).$($call)* };
}

forward_duplex!(target: impl[D: Duplex + ?Sized] &mut D impl[D: Duplex + ?Sized] Box<D>);

// The limit of open descriptors of this process.

/// Returns how many descriptors this process may have open; `None` if there is no limit, or none is known.
#[must_use]
pub fn descriptor_limit() -> Option<u64> {
    platform::limit()
}

/// Raises the number of descriptors that this process may have open as far as the system allows. Returns the new limit,
/// or `None` if there is none.
///
/// Most systems limit a process to 1,024 descriptors (macOS: 256) unless it asks for more. The library never changes
/// this by itself, because the limit is inherited by child processes, and some programs fail with large descriptors.
///
/// # Errors
///
/// The error of the operating system; [`Unsupported`](io::ErrorKind::Unsupported) outside of Unix.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    platform::raise()
}

#[cfg(unix)]
mod platform {
    use std::io;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    pub(super) fn limit() -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }

    pub(super) fn raise() -> io::Result<Option<u64>> {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current == maximum {
            return Ok(current);
        }
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        // macOS names no maximum, but allows no more than this.
        let raised = raised.or_else(|error| {
            let current = Some(MACOS_MAXIMUM).filter(|most| maximum.is_none_or(|maximum| *most <= maximum));
            let fallback = current.filter(|most| limit().is_some_and(|now| now < *most));
            fallback.map_or(Err(error), |most| {
                setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })
            })
        });
        raised?;
        Ok(limit())
    }

    /// `OPEN_MAX` of macOS.
    const MACOS_MAXIMUM: u64 = 10_240;
}

#[cfg(not(unix))]
mod platform {
    use std::io;

    pub(super) const fn limit() -> Option<u64> {
        None
    }

    pub(super) fn raise() -> io::Result<Option<u64>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

// Settings of serial lines.

/// Device and speed of a serial line.
///
/// As a text it is `DEVICE` or `DEVICE:BAUD`. A device whose name ends in `:` and digits needs the baud rate behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SerialConfig {
    /// Path of the terminal device, `/dev/ttyUSB0` for example.
    pub device: PathBuf,
    /// Bits per second in both directions.
    pub baud: u32,
}

impl SerialConfig {
    /// Baud rate of lines that name none.
    pub const DEFAULT_BAUD: u32 = 115_200;

    /// Creates the settings of a device with 115,200 baud.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into(), baud: Self::DEFAULT_BAUD }
    }
}

impl FromStr for SerialConfig {
    type Err = InvalidStreamAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (device, baud) = match text.rsplit_once(':').filter(|(_, baud)| is_number(baud)) {
            Some((device, baud)) => (device, baud.parse().unwrap_or(0)),
            None => (text, Self::DEFAULT_BAUD),
        };
        if device.is_empty() || device.contains('\0') {
            return Err(InvalidStreamAddress::new("the device is missing: write DEVICE[:BAUD]"));
        }
        if baud == 0 {
            return Err(InvalidStreamAddress::new(
                "the baud rate is invalid: write DEVICE:115200, for example",
            ));
        }
        Ok(Self { device: device.into(), baud })
    }
}

impl fmt::Display for SerialConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device.display(), self.baud)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baud_rate_is_what_stands_behind_the_last_colon() {
        for (text, device, baud) in [
            ("/dev/ttyS0", "/dev/ttyS0", 115_200),
            ("/dev/ttyS0:9600", "/dev/ttyS0", 9_600),
            (
                "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0-port0",
                "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0-port0",
                115_200,
            ),
            ("/dev/odd:1:300", "/dev/odd:1", 300),
        ] {
            assert_eq!(text.parse(), Ok(SerialConfig { device: device.into(), baud }), "{text}");
        }
    }
}
