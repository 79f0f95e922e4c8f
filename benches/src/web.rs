//! As much of HTTP as it takes to load a server with requests: bytes out, bytes in, no more checks than that the answer is
//! the one that is due

use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::wire::{Era, INITIALIZE, INITIALIZED};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A server process that listens at a port of ours
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts `command`, in which `{port}` stands for the port; waits until it listens, for a minute at most
    pub fn start(command: &[String]) -> Outcome<Self> {
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

    /// Its process
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A new connection
    pub fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.address)
    }
}

impl Drop for Server {
    /// Ends it by a signal that it may handle, so that tools that count have their say
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

/// One connection to a server
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    held: Vec<u8>,
}

/// A whole answer
#[derive(Debug)]
pub struct Reply<'a> {
    /// The status
    pub status: u16,
    /// `Mcp-Session-Id`
    pub session: Option<&'a str>,
    /// The body, in pieces if it came so
    pub body: &'a [u8],
    /// Bytes of head and body
    pub len: usize,
}

impl Connection {
    fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, held: Vec::new() })
    }

    /// The socket
    #[must_use]
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The head of a request at `/mcp`; `len` is the length of the body
    #[must_use]
    pub fn head(&self, method: &str, fields: &[(&str, &str)], len: usize) -> Vec<u8> {
        let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: {}\r\n", self.address);
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

    /// A request with its body
    #[must_use]
    pub fn post(&self, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        [&self.head("POST", fields, body.len()), body].concat()
    }

    /// Writes a request and waits for its whole answer, for a minute at most
    pub fn exchange(&mut self, request: &[u8]) -> Outcome<Reply<'_>> {
        self.write(request)?;
        self.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        self.held.clear();
        loop {
            self.read()?;
            if parse(&self.held)?.is_some() {
                break;
            }
        }
        Ok(parse(&self.held)?.ok_or("no answer")?)
    }

    /// Writes a request whose answer is not waited for
    pub fn write(&mut self, request: &[u8]) -> Outcome<()> {
        Ok((&self.stream).write_all(request)?)
    }

    /// Reads until `accept` likes what has come
    pub fn read_until(&mut self, accept: impl Fn(&[u8]) -> bool) -> Outcome<()> {
        self.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        self.held.clear();
        while !accept(&self.held) {
            self.read()?;
        }
        self.held = Vec::new();
        Ok(())
    }

    fn read(&mut self) -> Outcome<()> {
        let mut piece = [0; 16 << 10];
        match (&self.stream).read(&mut piece)? {
            0 => Err(format!("the server closed after {}", String::from_utf8_lossy(&self.held)).into()),
            n => {
                self.held.extend_from_slice(&piece[..n]);
                Ok(())
            }
        }
    }

    /// Opens a legacy session: its id
    pub fn initialize(&mut self) -> Outcome<String> {
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

    /// The fields of a request, in a session if there is one
    #[must_use]
    pub fn fields<'a>(era: Era, session: &'a str, method: &'a str, name: &'a str) -> Vec<(&'a str, &'a str)> {
        match era {
            Era::Legacy => vec![("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session)],
            Era::Modern => {
                let mut fields = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
                if !name.is_empty() {
                    fields.push(("Mcp-Name", name));
                }
                fields
            }
        }
    }
}

/// The answer that `bytes` begin with, if it is there in whole
pub fn parse(bytes: &[u8]) -> io::Result<Option<Reply<'_>>> {
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
        (true, _) => match chunks(&bytes[begin..]).map_err(bad)? {
            Some(len) => begin + len,
            None => return Ok(None),
        },
        (false, Some(length)) => begin + length,
        (false, None) if matches!(status, 202 | 204) => begin,
        (false, None) => return Err(bad("an answer without length")),
    };
    Ok(bytes.get(begin..end).map(|body| Reply { status, session, body, len: end }))
}

/// How long a body in chunks is, once its end is there
fn chunks(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
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
    fn answers_end_where_they_say() {
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
