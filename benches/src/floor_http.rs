//! The floor over HTTP: one thread, `epoll`, `httparse`, `answer`, one write for each answer.
//!
//! As little of HTTP and of its transport as gives the right answers to the requests of the benches: sessions are numbers,
//! streams are never ended, nothing is checked.

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use memchr::memmem;

use crate::epoll::{Epoll, write_all};
use crate::floor::answer;

/// The listener, among the numbers of sockets
const LISTENER: usize = usize::MAX;

const OPENED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

struct Peer {
    stream: TcpStream,
    /// A request that is not there in whole
    held: Vec<u8>,
    /// What it is told when something has changed, as a chunk; empty for those who are told nothing
    news: Vec<u8>,
}

struct Floor {
    epoll: Epoll,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    sessions: HashSet<u64>,
    piece: Vec<u8>,
    body: Vec<u8>,
    out: Vec<u8>,
}

/// What a request wants
struct Asked {
    /// Bytes of head and body
    len: usize,
    head: usize,
    get: bool,
    listens: bool,
    session: Option<u64>,
}

/// Serves for ever
pub fn serve(listener: TcpListener) -> io::Result<()> {
    let epoll = Epoll::new()?;
    listener.set_nonblocking(true)?;
    epoll.add(&listener, LISTENER)?;
    let (peers, free, sessions) = (Vec::new(), Vec::new(), HashSet::new());
    let (piece, body, out) = (vec![0; 64 << 10], Vec::new(), Vec::new());
    let mut floor = Floor { epoll, listener, peers, free, sessions, piece, body, out };
    let mut ready = Vec::new();
    loop {
        floor.epoll.wait(None, &mut ready)?;
        for number in &ready {
            match *number {
                LISTENER => floor.accept()?,
                number => {
                    if floor.read(number).is_err() {
                        floor.peers[number] = None;
                        floor.free.push(number);
                    }
                }
            }
        }
    }
}

impl Floor {
    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let number = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            self.epoll.add(&stream, number)?;
            self.peers[number] = Some(Peer { stream, held: Vec::new(), news: Vec::new() });
        }
        Ok(())
    }

    /// Reads once and answers what is there; an error is the end of the connection
    fn read(&mut self, number: usize) -> io::Result<()> {
        let Some(peer) = &mut self.peers[number] else { return Ok(()) };
        let read = match (&peer.stream).read(&mut self.piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let direct = peer.held.is_empty();
        if !direct {
            peer.held.extend_from_slice(&self.piece[..read]);
        }
        let data = if direct { &self.piece[..read] } else { &peer.held };
        let Some(asked) = asked(data).filter(|asked| asked.len <= data.len()) else {
            if direct {
                peer.held.extend_from_slice(&self.piece[..read]);
            }
            return Ok(());
        };
        self.out.clear();
        let line = &data[asked.head..asked.len];
        if asked.session.is_some_and(|session| !self.sessions.contains(&session)) {
            self.out.extend_from_slice(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        } else if asked.get || asked.listens {
            let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
            peer.news = format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
            self.out.extend_from_slice(OPENED);
            if asked.listens {
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
                    // Far from each other, as ids that cannot be guessed are; these can.
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
                for peer in self.peers.iter().flatten().filter(|peer| !peer.news.is_empty()) {
                    // Who is gone is noticed when it is read.
                    let _ = write_all(&peer.stream, &peer.news);
                }
            }
        }
        let Some(peer) = &mut self.peers[number] else { return Ok(()) };
        peer.held = Vec::new();
        write_all(&peer.stream, &self.out)
    }
}

/// Reads the head of a request, if it is there in whole
fn asked(data: &[u8]) -> Option<Asked> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(head)) = request.parse(data) else { return None };
    let get = request.method == Some("GET");
    let mut asked = Asked { len: head, head, get, listens: false, session: None };
    for field in &*request.headers {
        let value = core::str::from_utf8(field.value).unwrap_or_default();
        if field.name.eq_ignore_ascii_case("content-length") {
            asked.len = head + value.parse::<usize>().ok()?;
        } else if field.name.eq_ignore_ascii_case("mcp-session-id") {
            asked.session = Some(u64::from_str_radix(value, 16).unwrap_or(0));
        } else if field.name.eq_ignore_ascii_case("mcp-method") {
            asked.listens = value == "subscriptions/listen";
        }
    }
    Some(asked)
}
