//! Readiness of many sockets by `epoll`: Linux only, refused elsewhere.

#[cfg(target_os = "linux")]
use core::mem::MaybeUninit;
use std::io;
use std::net::TcpStream;

#[cfg(target_os = "linux")]
use rustix::event::epoll;

/// A set of sockets, each with a number.
#[derive(Debug)]
pub struct Epoll {
    #[cfg(target_os = "linux")]
    fd: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Epoll {
    /// Returns an empty set.
    ///
    /// # Errors
    ///
    /// Those of `epoll_create`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a socket, to wait until it is readable.
    ///
    /// # Errors
    ///
    /// Those of `epoll_ctl`.
    pub fn add(&self, stream: impl std::os::fd::AsFd, number: usize) -> io::Result<()> {
        Ok(epoll::add(&self.fd, stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?)
    }

    /// Waits for at most `millis` ms, or without limit, and stores the numbers of the readable sockets in `ready`.
    ///
    /// # Errors
    ///
    /// Those of `epoll_wait`.
    pub fn wait(&self, millis: Option<u32>, ready: &mut Vec<usize>) -> io::Result<()> {
        let timeout = millis.map(|millis| rustix::event::Timespec {
            tv_sec: i64::from(millis / 1_000),
            tv_nsec: i64::from(millis % 1_000) * 1_000_000,
        });
        ready.clear();
        let mut events = [const { MaybeUninit::uninit() }; 256];
        match epoll::wait(&self.fd, &mut events, timeout.as_ref()) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| {
                let number = event.data.u64();
                number as usize
            })),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl Epoll {
    /// Always fails.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Always fails.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn add<S>(&self, _: S, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Always fails.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn wait(&self, _: Option<u32>, _: &mut Vec<usize>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Writes all bytes to a non-blocking socket. It retries while the socket is full.
///
/// # Errors
///
/// Those of the socket.
pub fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
