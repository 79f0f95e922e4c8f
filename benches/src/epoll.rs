//! Waiting for many sockets: Linux only, refused elsewhere

#[cfg(target_os = "linux")]
use core::mem::MaybeUninit;
use std::io;
use std::net::TcpStream;

#[cfg(target_os = "linux")]
use rustix::event::epoll;

/// Sockets that are waited for, each by a number
#[derive(Debug)]
pub struct Epoll {
    #[cfg(target_os = "linux")]
    fd: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Epoll {
    /// None yet
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Waits for something to read from `stream`, too
    pub fn add(&self, stream: impl std::os::fd::AsFd, number: usize) -> io::Result<()> {
        Ok(epoll::add(&self.fd, stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?)
    }

    /// Waits for at most `millis` ms, for ever if there are none; `ready` are then those that can be read
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
    /// Refused
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Refused
    pub fn add<S>(&self, _: S, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Refused
    pub fn wait(&self, _: Option<u32>, _: &mut Vec<usize>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Writes all of it to a socket that does not block, which has room unless its reader sleeps
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
