//! A minimal HTTP client that loads a server with requests. It only checks that the answer is the expected one.

use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::wire::{INITIALIZE, INITIALIZED, WireEra};

type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A server process that listens on a local port.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts `command`, in which `{port}` stands for the port, and waits until it listens.
    ///
    /// # Errors
    ///
    /// If the command is empty or does not start, or if it does not listen within a minute.
    pub fn start(command: &[String]) -> BenchResult<Self> {
        let [program, args @ ..] = command else { return Err("no server given".into()) };
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let port = address.port().to_string();
        let args = args.iter().map(|arg| arg.replace("{port}", &port));
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.try_wait()? {
                return Err(format!("{program} ended with {status}").into());
            }
            if begun.elapsed() > Duration::from_secs(60) {
                let _ = child.kill();
                return Err(format!("{program} does not listen at {address}").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { child, address })
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub fn connect(&self) -> BenchResult<Connection> {
        Ok(Connection::new(TcpStream::connect(self.address)?, self.address)?)
    }

    /// Opens a connection from the `nth` of many loopback addresses, each of which has ports of its own: those of one address
    /// suffice for some 28,000 connections. Only Linux has more than one.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub fn connect_from(&self, nth: u8) -> BenchResult<Connection> {
        #[cfg(target_os = "linux")]
        let stream = {
            use core::net::{Ipv4Addr, SocketAddrV4};

            use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, nth), 0))?;
            connect(&socket, &self.address)?;
            TcpStream::from(socket)
        };
        #[cfg(not(target_os = "linux"))]
        let stream = {
            _ = nth;
            TcpStream::connect(self.address)?
        };
        Ok(Connection::new(stream, self.address)?)
    }
}

impl Drop for Server {
    /// Ends the process by a signal that it may handle, so that measuring tools can print their results.
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            for _ in 0..1_000 {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    buffered: Vec<u8>,
}

/// A complete response.
#[derive(Debug)]
pub struct ResponseView<'a> {
    /// Status.
    pub status: u16,
    /// `Mcp-Session-Id`.
    pub session: Option<&'a str>,
    /// Body; chunked if it was sent so.
    pub body: &'a [u8],
    /// Length of head and body in bytes.
    pub len: usize,
}

impl Connection {
    fn new(stream: TcpStream, address: SocketAddr) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, buffered: Vec::new() })
    }

    /// Returns the socket.
    #[must_use]
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the head of a request to the path in `MCP_BENCH_PATH`, or `/mcp`; `len` is the length of the body.
    #[must_use]
    pub fn head(&self, method: &str, fields: &[(&str, &str)], len: usize) -> Vec<u8> {
        let path = std::env::var("MCP_BENCH_PATH").unwrap_or_else(|_| "/mcp".to_owned());
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        if method == "GET" {
            head += "Accept: text/event-stream\r\n";
        } else {
            head += "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
            head += &format!("Content-Length: {len}\r\n");
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        (head + "\r\n").into_bytes()
    }

    /// Returns a request with its body.
    #[must_use]
    pub fn post(&self, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        [&self.head("POST", fields, body.len()), body].concat()
    }

    /// Writes a request and waits for its complete response, for at most a minute.
    ///
    /// # Errors
    ///
    /// Those of the socket, or if the response is malformed or incomplete.
    pub fn exchange(&mut self, request: &[u8]) -> BenchResult<ResponseView<'_>> {
        self.write(request)?;
        self.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        self.buffered.clear();
        loop {
            self.read()?;
            if parse(&self.buffered)?.is_some() {
                break;
            }
        }
        Ok(parse(&self.buffered)?.ok_or("no answer")?)
    }

    /// Writes a request without waiting for its response.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub fn write(&mut self, request: &[u8]) -> BenchResult<()> {
        Ok((&self.stream).write_all(request)?)
    }

    /// Reads until `accept` returns `true` for the received bytes.
    ///
    /// # Errors
    ///
    /// Those of the socket, or if the server closes before.
    pub fn read_until(&mut self, accept: impl Fn(&[u8]) -> bool) -> BenchResult<()> {
        self.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        self.buffered.clear();
        while !accept(&self.buffered) {
            self.read()?;
        }
        self.buffered = Vec::new();
        Ok(())
    }

    fn read(&mut self) -> BenchResult<()> {
        let mut piece = [0; 16 << 10];
        match (&self.stream).read(&mut piece)? {
            0 => Err(format!("the server closed after {}", String::from_utf8_lossy(&self.buffered)).into()),
            n => {
                self.buffered.extend_from_slice(&piece[..n]);
                Ok(())
            }
        }
    }

    /// Opens a legacy session and returns its id.
    ///
    /// # Errors
    ///
    /// Those of [`exchange`](Self::exchange), or if the response has no session id.
    pub fn initialize(&mut self) -> BenchResult<String> {
        let request = self.post(&[], INITIALIZE);
        let reply = self.exchange(&request)?;
        let Some(session) = reply.session.filter(|_| reply.status == 200) else {
            return Err(format!("no session: {}", String::from_utf8_lossy(reply.body)).into());
        };
        let session = session.to_owned();
        let fields = [("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", &session)];
        let request = self.post(&fields, INITIALIZED);
        let status = self.exchange(&request)?.status;
        if status == 202 { Ok(session) } else { Err(format!("not initialized: {status}").into()) }
    }

    /// Returns the fields of a request, in a session if there is one.
    #[must_use]
    pub fn request_fields<'a>(
        era: WireEra,
        session: &'a str,
        method: &'a str,
        name: &'a str,
    ) -> Vec<(&'a str, &'a str)> {
        match era {
            WireEra::Legacy => vec![("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session)],
            WireEra::Modern => {
                let mut fields = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
                if !name.is_empty() {
                    fields.push(("Mcp-Name", name));
                }
                fields
            }
        }
    }
}

/// Parses the response at the start of `bytes`; returns `None` if it is incomplete.
///
/// # Errors
///
/// `InvalidData` if the response is malformed or has no length.
pub fn parse(bytes: &[u8]) -> io::Result<Option<ResponseView<'_>>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(begin) = head.parse(bytes).map_err(|e| bad(&e.to_string()))? else {
        return Ok(None);
    };
    let status = head.code.unwrap_or(0);
    let (mut length, mut chunked, mut session) = (None::<usize>, false, None);
    for field in &*head.headers {
        let value = core::str::from_utf8(field.value).unwrap_or_default();
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => length = value.parse().ok(),
            14 if field.name.eq_ignore_ascii_case("mcp-session-id") => session = Some(value),
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => chunked = value == "chunked",
            _ => {}
        }
    }
    let end = match (chunked, length) {
        (true, _) => match chunked_len(&bytes[begin..]).map_err(bad)? {
            Some(len) => begin + len,
            None => return Ok(None),
        },
        (false, Some(length)) => begin + length,
        (false, None) if matches!(status, 202 | 204) => begin,
        (false, None) => return Err(bad("a response without a length")),
    };
    Ok(bytes.get(begin..end).map(|body| ResponseView { status, session, body, len: end }))
}

/// Returns the length of a chunked body, or `None` if it is incomplete.
fn chunked_len(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    let mut at = 0;
    loop {
        let Some(end) = memchr::memmem::find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let size = core::str::from_utf8(&bytes[at..at + end]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size.split(';').next()?.trim(), 16).ok());
        let size = size.ok_or("no chunk")?;
        at += end + 2 + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_finds_end_of_response() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nMcp-Session-Id: a\r\n\r\n{}HTTP";
        let pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        for (bytes, len) in [(&plain[..], plain.len() - 4), (&pieces[..], pieces.len())] {
            let reply = parse(bytes).expect("HTTP").expect("whole");
            assert_eq!((reply.status, reply.len), (200, len));
            for cut in 0..len {
                assert!(parse(&bytes[..cut]).expect("HTTP").is_none());
            }
        }
        assert_eq!(parse(plain).expect("HTTP").expect("whole").session, Some("a"));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
