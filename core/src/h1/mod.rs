//! HTTP/1.1 for both roles, with heads parsed by `httparse`; independent of MCP.
//!
//! [`server::Connection`] and [`client::Connection`] are state machines without I/O. Received bytes and passed
//! deadlines go in; events and bytes to write come out. They follow the contract of this crate (DESIGN-26):
//!
//! - Nothing panics.
//! - The cutting of the input never changes the output.
//! - [`HttpLimits`] bounds all memory.
//! - `now` never goes back.
//!
//! Both are strict, because two recipients may read an ambiguous message in different ways (RFC 9112, 11). A message
//! that violates the syntax, or that does not say clearly where it ends, is a [`ConnectionFault`]. The connection is
//! then over, no part of that message is delivered as complete, and a server reports the reason in a last response.
//! These inputs are refused although the RFCs allow a recipient to tolerate them:
//!
//! - a line that ends without a carriage return
//! - a second `Content-Length`, even if equal
//! - transfer codings other than `chunked`
//! - a fragment in a request target
//! - an absolute target that differs from `Host`
//! - an empty `Host`
//! - more than one empty line before a request
//!
//! A connection carries one exchange at a time. Pipelined requests wait in a bounded buffer until the current response
//! has ended.
//!
//! ```
//! use mcp_proto::Instant;
//! use mcp_proto::h1::{HttpLimits, client, server};
//! use mcp_proto::head::{BodySize, Fields};
//!
//! let now = Instant::from_micros(1);
//! let mut client = client::Connection::new(now, HttpLimits::default());
//! let mut server = server::Connection::new(now, HttpLimits::default());
//!
//! client.request(now, "POST", "/echo", "localhost:80", &Fields::new(), BodySize::Exact(5)).unwrap();
//! client.write_body(b"hello").unwrap();
//! client.end(now).unwrap();
//! server.handle_input(now, client.transmit());
//! client.consume(client.transmit().len());
//!
//! let mut body = Vec::new();
//! while let Some(event) = server.poll_event(now, |request, _| request.target.to_owned()) {
//!     match event {
//!         server::Event::Head(target) => assert_eq!(target, "/echo"),
//!         server::Event::Body(piece) => body.extend_from_slice(&piece),
//!         server::Event::End => {
//!             server.respond(now, 200, &Fields::new(), BodySize::Exact(body.len() as u64)).unwrap();
//!             server.write_body(&body).unwrap();
//!             server.end(now).unwrap();
//!         }
//!         server::Event::ClientGone | server::Event::Fault(_) => unreachable!(),
//!     }
//! }
//! assert_eq!(server.transmit(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
//! client.handle_input(now, server.transmit());
//! let status = client.poll_event(now, |response| response.status);
//! assert!(matches!(status, Some(client::Event::Head(200))));
//! ```

mod body;
pub mod client;
mod connection;
mod error;
#[cfg(test)]
mod exhaustive_tests;
mod fields;
mod read_buffer;
pub mod server;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

pub use body::Framing;
pub use connection::{Connection, Eviction, EvictionClass};
pub use error::{ConnectionFault, Reason, WriteError};

use core::time::Duration;

/// A parser of request heads without a connection, for `mcp-benches`.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct HeadParser {
    inbox: read_buffer::ReadBuffer,
    limits: HttpLimits,
}

impl HeadParser {
    /// Stores the bytes of a head.
    pub fn load(&mut self, head: &[u8]) {
        self.inbox.push(head);
    }

    /// Parses the stored head as a connection does with a head received in one piece.
    ///
    /// Lends the head to `on_head`. Returns `None` if the head is refused.
    pub fn parse<R>(&self, on_head: impl FnOnce(crate::head::RequestHead<'_>) -> R) -> Option<R> {
        let look =
            fields::parse_request_fast(self.inbox.bytes(), &self.limits, |request, _| on_head(request));
        let fields::FastParse::Parsed(read, ..) = look else { return None };
        Some(read)
    }
}

// The limits of an HTTP/1.1 connection.

/// Limits on the memory and time that a peer can claim on one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Bytes of a head with its start line, and of the trailers of a chunked body (default 64 KiB).
    ///
    /// Reached: 431, or 414 if the request line alone is longer.
    pub max_head: usize,
    /// Fields of a head, and of the trailers (default 100; at most 128).
    ///
    /// Reached: 431.
    pub max_fields: usize,
    /// Bytes of a body (default 16 MiB; `u64::MAX` leaves the limit to the caller).
    ///
    /// Reached: 413. A request that announces more is refused before its head is delivered.
    pub max_body: u64,
    /// Bytes of chunk extensions in one body (default 4 KiB).
    ///
    /// Reached: 400.
    pub max_extensions: usize,
    /// 1xx responses to one request (default 16).
    ///
    /// Reached: [`Reason::TooManyInterim`].
    pub max_interim: u8,
    /// Buffered bytes at which `wants_input` becomes false (default 64 KiB; at least `max_head`).
    ///
    /// Input that is passed in while `wants_input` is true is buffered whole. A caller that reads at most this many
    /// bytes at a time therefore bounds the buffer at twice this value.
    pub max_buffered: usize,
    /// Longest request body that is read and dropped after an early response (default 64 KiB).
    ///
    /// Reached: the connection is closed after the response.
    pub max_drain: u64,
    /// Time from the first byte of a head to its last (default 10 s).
    ///
    /// Reached: 408.
    pub head_timeout: Duration,
    /// Longest pause within a body (default 30 s).
    ///
    /// A client applies this to bodies of a known length only, because a stream may pause. Reached: 408.
    pub body_idle_timeout: Duration,
    /// Time from the head of a request to the end of its body (default 5 min).
    ///
    /// Reached: 408.
    pub body_timeout: Duration,
    /// Time that a connection stays open without a request (default 60 s).
    ///
    /// Reached: the connection is closed.
    pub keep_alive: Duration,
    /// Longest pause while input is read and dropped after the last response (default 2 s; ten times this in all).
    ///
    /// [`max_linger`](Self::max_linger) bounds the bytes.
    ///
    /// A client that is still sending may not have read the response; closing at once could discard it (RFC 9112, 9.6).
    pub drain_timeout: Duration,
    /// Bytes that are read and dropped after the last response (default 32 MiB).
    ///
    /// Reached: the connection is closed, although the client is still sending.
    pub max_linger: u64,
    /// Bytes per second that a client must send of a request, or take of a response, to keep its connection while
    /// another client waits for a permit (default 500; 0 is no minimum; SEC-018).
    ///
    /// It has no effect while there is room: see [`Eviction`].
    pub min_rate: u32,
    /// Idle time after which empty buffers are freed (default 1 s).
    pub idle_trim: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_head: 64 << 10,
            max_fields: 100,
            max_body: 16 << 20,
            max_extensions: 4 << 10,
            max_interim: 16,
            max_buffered: 64 << 10,
            max_drain: 64 << 10,
            head_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(300),
            keep_alive: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(2),
            max_linger: 32 << 20,
            min_rate: 500,
            idle_trim: Duration::from_secs(1),
        }
    }
}

impl HttpLimits {
    /// Returns limits for a small device: about 8 KiB for one connection.
    #[must_use]
    pub fn small() -> Self {
        Self {
            max_head: 2 << 10,
            max_fields: 32,
            max_body: 8 << 10,
            max_extensions: 64,
            max_buffered: 2 << 10,
            max_drain: 2 << 10,
            max_linger: 64 << 10,
            ..Self::default()
        }
    }

    /// Returns the number of buffered bytes at which reading pauses.
    fn buffer_limit(&self) -> usize {
        self.max_buffered.max(self.max_head)
    }
}
