//! The floor over HTTP: one thread, `epoll`, `httparse`, [`answer`], one write per answer.
//!
//! It does only what the requests of the benches need: sessions are numbers, streams never end, and nothing is checked.

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use memchr::memmem;

use crate::epoll::{Epoll, write_all};
use crate::floor::answer;

/// Number of the listener in the set of sockets.
const LISTENER: usize = usize::MAX;

const OPENED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

struct FloorConnection {
    stream: TcpStream,
    /// A request that has not arrived completely.
    buffered: Vec<u8>,
    /// Notification of a change, as a chunk; empty for a connection that has not subscribed.
    change_chunk: Vec<u8>,
}

struct FloorServer {
    epoll: Epoll,
    listener: TcpListener,
    connections: Vec<Option<FloorConnection>>,
    free: Vec<usize>,
    sessions: HashSet<u64>,
    piece: Vec<u8>,
    body: Vec<u8>,
    out: Vec<u8>,
}

/// The relevant parts of a request.
struct ParsedRequest {
    /// Length of head and body in bytes.
    total_len: usize,
    head_len: usize,
    is_get: bool,
    is_listen: bool,
    session: Option<u64>,
}

/// Serves without end.
///
/// # Errors
///
/// Those of the listener and of `epoll`.
pub fn serve(listener: TcpListener) -> io::Result<()> {
    let epoll = Epoll::new()?;
    listener.set_nonblocking(true)?;
    epoll.add(&listener, LISTENER)?;
    let (peers, free, sessions) = (Vec::new(), Vec::new(), HashSet::new());
    let (piece, body, out) = (vec![0; 64 << 10], Vec::new(), Vec::new());
    let mut floor = FloorServer { epoll, listener, connections: peers, free, sessions, piece, body, out };
    let mut ready = Vec::new();
    loop {
        floor.epoll.wait(None, &mut ready)?;
        for number in &ready {
            match *number {
                LISTENER => floor.accept()?,
                number => {
                    if floor.read(number).is_err() {
                        floor.connections[number] = None;
                        floor.free.push(number);
                    }
                }
            }
        }
    }
}

impl FloorServer {
    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let number = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            self.epoll.add(&stream, number)?;
            self.connections[number] =
                Some(FloorConnection { stream, buffered: Vec::new(), change_chunk: Vec::new() });
        }
        Ok(())
    }

    /// Reads once and answers the complete requests. An error ends the connection.
    fn read(&mut self, number: usize) -> io::Result<()> {
        let Some(peer) = &mut self.connections[number] else { return Ok(()) };
        let read = match (&peer.stream).read(&mut self.piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let direct = peer.buffered.is_empty();
        if !direct {
            peer.buffered.extend_from_slice(&self.piece[..read]);
        }
        let data = if direct { &self.piece[..read] } else { &peer.buffered };
        let Some(parsed) = parse_request(data).filter(|parsed| parsed.total_len <= data.len()) else {
            if direct {
                peer.buffered.extend_from_slice(&self.piece[..read]);
            }
            return Ok(());
        };
        self.out.clear();
        let line = &data[parsed.head_len..parsed.total_len];
        if parsed.session.is_some_and(|session| !self.sessions.contains(&session)) {
            self.out.extend_from_slice(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        } else if parsed.is_get || parsed.is_listen {
            let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
            peer.change_chunk = format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
            self.out.extend_from_slice(OPENED);
            if parsed.is_listen {
                let event =
                    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"}\n\n";
                write!(self.out, "{:x}\r\n{event}\r\n", event.len())?;
            }
        } else {
            self.body.clear();
            let changes = memmem::find(line, b"\"name\":\"change\"").is_some();
            let begins = memmem::find(line, b"\"method\":\"initialize\"").is_some();
            if answer(line, &mut self.body) {
                self.body.pop();
                self.out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
                if begins {
                    // Spread over the range like random ids, but predictable.
                    let session = (self.sessions.len() as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    self.sessions.insert(session);
                    write!(self.out, "mcp-session-id: {session:016x}\r\n")?;
                }
                write!(self.out, "content-length: {}\r\n\r\n", self.body.len())?;
                self.out.extend_from_slice(&self.body);
            } else {
                self.out.extend_from_slice(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
            }
            if changes {
                for peer in self.connections.iter().flatten().filter(|peer| !peer.change_chunk.is_empty()) {
                    // A closed connection is noticed when it is read.
                    let _ = write_all(&peer.stream, &peer.change_chunk);
                }
            }
        }
        let Some(peer) = &mut self.connections[number] else { return Ok(()) };
        peer.buffered = Vec::new();
        write_all(&peer.stream, &self.out)
    }
}

/// Parses the head of a request, if it has arrived completely.
fn parse_request(data: &[u8]) -> Option<ParsedRequest> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(head)) = request.parse(data) else { return None };
    let get = request.method == Some("GET");
    let mut parsed =
        ParsedRequest { total_len: head, head_len: head, is_get: get, is_listen: false, session: None };
    for field in &*request.headers {
        let value = core::str::from_utf8(field.value).unwrap_or_default();
        if field.name.eq_ignore_ascii_case("content-length") {
            parsed.total_len = head + value.parse::<usize>().ok()?;
        } else if field.name.eq_ignore_ascii_case("mcp-session-id") {
            parsed.session = Some(u64::from_str_radix(value, 16).unwrap_or(0));
        } else if field.name.eq_ignore_ascii_case("mcp-method") {
            parsed.is_listen = value == "subscriptions/listen";
        }
    }
    Some(parsed)
}
