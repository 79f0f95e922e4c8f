//! Addresses of byte streams, and connecting to them.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use crate::io::{Duplex, SerialConfig, SerialPort, Socket};

/// Address of a byte stream that carries one message per line.
///
/// | text | stream |
/// |---|---|
/// | `tcp://HOST:PORT` | a TCP connection; an IPv6 address stands in brackets |
/// | `unix:PATH` | a Unix domain socket |
/// | `serial:DEVICE`, `serial:DEVICE:BAUD` | a serial line ([`SerialConfig`]) |
///
/// Such a stream has neither encryption nor authorization, and nothing like the `Host` and `Origin` checks of HTTP:
/// everybody who can open it can use the server.
///
/// ```
/// use mcp_std::io::StreamAddress;
///
/// let address: StreamAddress = "tcp://board.example:7000".parse()?;
/// assert_eq!(address, StreamAddress::Tcp("board.example:7000".into()));
/// assert_eq!(address.to_string(), "tcp://board.example:7000");
/// assert!("tcp://board.example".parse::<StreamAddress>().is_err());
/// # Ok::<(), mcp_std::io::InvalidStreamAddress>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamAddress {
    /// Host and port of a TCP connection, `127.0.0.1:7000` for example.
    Tcp(String),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
    /// A serial line.
    Serial(SerialConfig),
}

/// Reason why a text is no [`StreamAddress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidStreamAddress(&'static str);

impl InvalidStreamAddress {
    pub(super) const fn new(why: &'static str) -> Self {
        Self(why)
    }
}

impl fmt::Display for InvalidStreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for InvalidStreamAddress {}

impl StreamAddress {
    /// Returns whether a text begins like an address of a TCP or Unix socket: with `tcp://` or `unix:`.
    ///
    /// Serial lines do not count, so that programs can take them from an option of their own.
    #[must_use]
    pub fn is_socket(text: &str) -> bool {
        strip_scheme(text, TCP).or_else(|| strip_scheme(text, UNIX)).is_some()
    }

    /// Opens the stream and waits until it is connected, at most for `timeout`.
    ///
    /// The addresses of a host name are tried in turn, alternating between IPv6 and IPv4; another thread resolves the
    /// name. TCP connections probe a silent peer (keep-alive), so that a peer that vanished is noticed after about two
    /// minutes. A serial line first gets an empty line: it ends a line of noise that the peer may have received, and is
    /// no message. Afterwards the stream has no reconnection: when it ends, connect again.
    ///
    /// # Errors
    ///
    /// The error of the operating system, with the address in its text; `TimedOut`; `Unsupported` for Unix sockets and
    /// serial lines outside of Unix.
    pub fn connect(&self, timeout: Duration) -> io::Result<Box<dyn Duplex + Send>> {
        let opened: io::Result<Box<dyn Duplex + Send>> = match self {
            Self::Tcp(authority) => connect_tcp(authority, timeout).map(|socket| Box::new(socket) as _),
            Self::Unix(path) => connect_unix(path).map(|socket| Box::new(socket) as _),
            Self::Serial(config) => open_serial(config).map(|port| Box::new(port) as _),
        };
        opened.map_err(|error| io::Error::new(error.kind(), format!("cannot connect to {self}: {error}")))
    }
}

impl FromStr for StreamAddress {
    type Err = InvalidStreamAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |why| Err(InvalidStreamAddress(why));
        if let Some(authority) = strip_scheme(text, TCP) {
            let Some((host, port)) = authority.rsplit_once(':') else {
                return invalid("the port is missing: write tcp://HOST:PORT");
            };
            let is_bracketed = host.starts_with('[') && host.ends_with(']');
            if host.is_empty() || host.contains(['/', '@', ' ']) || (host.contains(':') && !is_bracketed) {
                return invalid(
                    "the host is invalid: write tcp://HOST:PORT, and an IPv6 address in brackets",
                );
            }
            if port.parse::<u16>().is_err() || port.starts_with('+') {
                return invalid("the port must be a number up to 65535, with nothing behind it");
            }
            return Ok(Self::Tcp(authority.to_owned()));
        }
        if let Some(path) = strip_scheme(text, UNIX) {
            // `unix:///run/x` is the form of a URL for `unix:/run/x`.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.contains('\0') || (text.contains("//") && !path.starts_with('/')) {
                return invalid("the path of the socket is invalid: write unix:/path/to/socket");
            }
            return Ok(Self::Unix(path.into()));
        }
        match strip_scheme(text, SERIAL) {
            Some(line) => line.parse().map(Self::Serial),
            None => invalid("an address begins with tcp://, unix: or serial:"),
        }
    }
}

impl fmt::Display for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "{TCP}{authority}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
            Self::Serial(config) => write!(f, "{SERIAL}{config}"),
        }
    }
}

fn strip_scheme<'t>(text: &'t str, scheme: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Connects to the first address of a host that accepts, within `timeout` in total.
fn connect_tcp(authority: &str, timeout: Duration) -> io::Result<Socket> {
    let begun = Instant::now();
    let addresses = resolve(authority, timeout)?;
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in interleave_families(addresses.into_iter()) {
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(timed_out(timeout));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                let socket = Socket::tcp(stream)?;
                socket.probe_silent_peer();
                return Ok(socket);
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => last = timed_out(timeout),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the addresses of a host. A name server may take longer than `timeout`, so another thread asks it.
fn resolve(authority: &str, timeout: Duration) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let (Some(known), true) =
        (port.parse().ok().and_then(|port| known_addresses(name, port)), !name.contains('%'))
    {
        return Ok(known);
    }
    let (sender, receiver) = mpsc::channel();
    let authority = authority.to_owned();
    thread::Builder::new().name("mcp-std resolve".into()).spawn(move || {
        // Nobody receives it after the timeout.
        let _ = sender.send(authority.to_socket_addrs().map(Vec::from_iter));
    })?;
    match receiver.recv_timeout(timeout) {
        Ok(found) => found,
        Err(RecvTimeoutError::Timeout) => Err(timed_out(timeout)),
        Err(RecvTimeoutError::Disconnected) => Err(ErrorKind::Other.into()),
    }
}

fn timed_out(timeout: Duration) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("no answer within {} s", timeout.as_secs_f64()))
}

#[cfg(unix)]
fn connect_unix(path: &std::path::Path) -> io::Result<Socket> {
    std::os::unix::net::UnixStream::connect(path).and_then(Socket::unix).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => {
            io::Error::new(error.kind(), format!("nobody listens at this socket ({error})"))
        }
        _ => error,
    })
}

#[cfg(not(unix))]
fn connect_unix(_: &std::path::Path) -> io::Result<Socket> {
    Err(io::Error::new(ErrorKind::Unsupported, "this platform has no Unix domain sockets"))
}

/// Opens a serial line and ends a line of noise that the peer may have begun to read.
fn open_serial(config: &SerialConfig) -> io::Result<SerialPort> {
    let mut port = SerialPort::open(config)?;
    match port.write(b"\n") {
        Ok(_) => Ok(port),
        // The line is clogged, so the peer reads nothing now.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(port),
        Err(error) => Err(error),
    }
}

const TCP: &str = "tcp://";
const UNIX: &str = "unix:";
const SERIAL: &str = "serial:";

// The order in which the addresses of a name are tried.

/// Orders addresses so that IPv6 and IPv4 alternate, beginning with the family that the system prefers. If one family
/// is unreachable, the second attempt uses the other (RFC 8305, section 4).
pub fn interleave_families(addresses: impl Iterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut addresses = addresses.peekable();
    let is_ipv6 = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (mut own, mut other): (VecDeque<_>, VecDeque<_>) = addresses.partition(|a| a.is_ipv6() == is_ipv6);
    let mut all = VecDeque::new();
    while all.len() < MAX_ADDRESSES && !(own.is_empty() && other.is_empty()) {
        all.extend(own.pop_front());
        all.extend(other.pop_front());
    }
    all
}

/// Returns the addresses of a host that no name server is asked for: an IP address, `localhost`, and the names below it
/// (RFC 6761, 6.3), which are this machine whatever a name server says.
pub fn known_addresses(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some([SocketAddr::new(address, port)].into());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    is_localhost.then(|| loopback.map(|address| SocketAddr::new(address, port)).into())
}

/// Returns the addresses of a host: those that [are known](known_addresses), or what the system finds, which may block.
///
/// # Errors
///
/// The error of the system.
pub fn resolve_host(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    known_addresses(host, port).map_or_else(|| Ok((host, port).to_socket_addrs()?.collect()), Ok)
}

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;

#[cfg(test)]
mod addresses_tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known() {
        let of = |host: &str| {
            let found = known_addresses(host, 5)?;
            Some(found.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" "))
        };
        for name in ["localhost", "localhost.", "a.localhost", "a.b.localhost."] {
            assert_eq!(of(name).as_deref(), Some("127.0.0.1:5 [::1]:5"), "{name}");
        }
        assert_eq!(of("192.0.2.1").as_deref(), Some("192.0.2.1:5"));
        assert_eq!(of("fe80::1").as_deref(), Some("[fe80::1]:5"));
        for name in ["localhost.test", "notlocalhost", "", ".", "localhost.."] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn addresses_of_both_families_are_interleaved_and_bounded() {
        let of = |text: &[&str]| -> Vec<SocketAddr> { text.iter().map(|a| a.parse().unwrap()).collect() };
        let sorted = |text: &[&str]| Vec::from(interleave_families(of(text).into_iter()));
        let six = ["[::1]:1", "[::2]:1", "[::3]:1"];
        assert_eq!(sorted(&six), of(&six));
        assert_eq!(
            sorted(&[&six[..], &["1.1.1.1:1", "1.1.1.2:1"]].concat()),
            of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"])
        );
        assert_eq!(sorted(&["1.1.1.1:1", "[::1]:1"]), of(&["1.1.1.1:1", "[::1]:1"]));
        assert_eq!(sorted(&["1.1.1.1:1"; 100]).len(), MAX_ADDRESSES);
        assert!(sorted(&[]).is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn parse(text: &str) -> Result<StreamAddress, InvalidStreamAddress> {
        text.parse()
    }

    #[test]
    fn addresses_are_parsed_and_printed() {
        for (text, printed) in [
            ("tcp://127.0.0.1:7000", "tcp://127.0.0.1:7000"),
            ("TCP://board.local:1", "tcp://board.local:1"),
            ("tcp://[::1]:0", "tcp://[::1]:0"),
            ("unix:/run/mcp.sock", "unix:/run/mcp.sock"),
            ("unix:mcp.sock", "unix:mcp.sock"),
            ("unix:///run/mcp.sock", "unix:/run/mcp.sock"),
            ("serial:/dev/ttyUSB0", "serial:/dev/ttyUSB0:115200"),
            ("serial:/dev/ttyUSB0:9600", "serial:/dev/ttyUSB0:9600"),
        ] {
            let address = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(address.to_string(), printed);
            assert_eq!(parse(printed), Ok(address), "{printed}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "",
            "tcp:",
            "tcp://",
            "tcp://host",
            "tcp://:7000",
            "tcp://host:",
            "tcp://host:65536",
            "tcp://host:+1",
            "tcp://host:1/",
            "tcp://user@host:1",
            "tcp://::1:7000",
            "tcp://ho st:1",
            "unix:",
            "unix://",
            "unix://host/path",
            "unix:/a\0b",
            "serial:",
            "serial:/dev/x:0",
            "serial:/dev/x:99999999999",
            "http://127.0.0.1:1",
            "/run/mcp.sock",
        ] {
            assert!(parse(text).is_err(), "{text:?} is {:?}", parse(text));
        }
    }

    #[test]
    fn only_addresses_of_sockets_are_recognised() {
        assert!(StreamAddress::is_socket("tcp://h:1") && StreamAddress::is_socket("Unix:x"));
        for other in ["", "tcp:", "unix", "serial:/dev/x", "http://h", "a tcp://h:1", "ünix:x"] {
            assert!(!StreamAddress::is_socket(other), "{other}");
        }
    }

    #[test]
    fn refused_connection_names_the_address() {
        // Nobody can listen at a port that a connection has.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_far, free) = listener.accept().unwrap();
        let address = parse(&format!("tcp://{free}")).unwrap();
        let error = address.connect(Duration::from_secs(5)).err().expect("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().starts_with(&format!("cannot connect to tcp://{free}: ")), "{error}");
    }

    #[test]
    fn connection_to_localhost_tries_both_families() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["localhost", "127.0.0.1", "a.localhost"] {
            let mut near =
                parse(&format!("tcp://{host}:{port}")).unwrap().connect(Duration::from_secs(5)).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            assert_eq!(near.write(b"hello").unwrap(), 5);
            near.shutdown_write().unwrap();
            near.flush(Duration::from_secs(5)).unwrap();
            let mut text = String::new();
            far.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
        }
    }
}
