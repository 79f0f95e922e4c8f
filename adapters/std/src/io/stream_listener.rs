//! Listeners for byte streams: TCP and Unix domain sockets.

use core::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::io::{Listener, Socket, StreamAddress, is_peer_gone, retry_on_interrupt};

/// A listener for byte streams that never blocks.
#[derive(Debug)]
pub struct StreamListener(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(Listener),
    Unix(UnixListener, SocketFile),
}

impl StreamListener {
    /// Listens at a TCP or Unix address; with port 0 the system chooses a port.
    ///
    /// Only the user of this process can connect to a Unix socket: the file has the permissions 0600, which the program
    /// may change. It is removed when the listener is dropped. A file that another process left behind is replaced if it
    /// is a socket that refuses connections.
    ///
    /// # Errors
    ///
    /// - `AddrInUse`: another process listens there, or the path is a file of another kind.
    /// - `InvalidInput`: the address is a serial line, which has no connections.
    /// - Otherwise the error of the operating system. Each text names the address.
    pub fn bind(address: &StreamAddress) -> io::Result<Self> {
        let bound = match address {
            StreamAddress::Tcp(authority) => Listener::bind(&**authority).map(Kind::Tcp),
            StreamAddress::Unix(path) => {
                let named = |error: io::Error| {
                    io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
                };
                bind_unix(path).map(|(listener, file)| Kind::Unix(listener, file)).map_err(named)
            }
            StreamAddress::Serial(_) => {
                let why = format!("cannot listen at {address}: a serial line has no connections");
                Err(io::Error::new(ErrorKind::InvalidInput, why))
            }
        };
        bound.map(Self)
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn address(&self) -> io::Result<StreamAddress> {
        Ok(match &self.0 {
            Kind::Tcp(listener) => StreamAddress::Tcp(listener.address()?.to_string()),
            Kind::Unix(_, file) => StreamAddress::Unix(file.path.clone()),
        })
    }

    /// Returns whether other machines can reach the address.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn is_reachable_from_outside(&self) -> io::Result<bool> {
        match &self.0 {
            Kind::Tcp(listener) => Ok(!listener.address()?.ip().to_canonical().is_loopback()),
            Kind::Unix(..) => Ok(false),
        }
    }

    /// Accepts the next connection; `None` if none is waiting.
    ///
    /// TCP connections probe a silent client (keep-alive), so that one that vanished is noticed after about two minutes.
    ///
    /// # Errors
    ///
    /// The error of the operating system. [`is_resource_exhausted`](crate::io::is_resource_exhausted) detects errors that
    /// pass when connections are closed.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let listener = match &self.0 {
            Kind::Tcp(listener) => {
                let accepted = listener.accept()?.map(|(socket, _)| socket);
                return Ok(accepted.inspect(Socket::probe_silent_peer));
            }
            Kind::Unix(listener, _) => listener,
        };
        loop {
            match retry_on_interrupt(|| listener.accept()) {
                Ok((stream, _)) => return Socket::unix(stream).map(Some),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_peer_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for StreamListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// The file of a Unix socket, removed when it is dropped unless another file has taken its place.
struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl fmt::Debug for SocketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // It may be in a folder that can no longer be changed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the device and inode of a file, without following a link.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    match try_bind_unix(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale_socket(path)?;
            try_bind_unix(path)
        }
        outcome => outcome,
    }
}

fn try_bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = unix_socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path) };
    // Connections are refused until `listen`, so none is made with other permissions.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok((listener, file))
}

/// Removes the file of a socket that refuses connections, because its listener is gone.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(ErrorKind::AddrInUse, why));
    let found = identity(path);
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => return in_use("there is a file that is no socket"),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(path) {
        Ok(_) => in_use("another process listens there"),
        // Another process may have replaced it meanwhile.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && identity(path) == found => {
            fs::remove_file(path)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => in_use(&format!("there is a socket that cannot be asked ({error})")),
    }
}

#[cfg(not(target_vendor = "apple"))]
fn unix_socket() -> io::Result<OwnedFd> {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

#[cfg(target_vendor = "apple")]
fn unix_socket() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Connections that may wait to be accepted, if the system allows as many.
const BACKLOG: i32 = 128;
