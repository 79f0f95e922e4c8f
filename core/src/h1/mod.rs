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
mod eviction;
mod fields;
mod framing;
mod limits;
mod read_buffer;
pub mod server;
mod status;
mod table;
#[cfg(test)]
mod table_tests;
mod trim;

pub use connection::Connection;
pub use error::{ConnectionFault, Reason, WriteError};
pub use eviction::{Eviction, EvictionClass};
pub use framing::Framing;
pub use limits::HttpLimits;

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
        let fields::FastParse::Parsed(read, _) = look else { return None };
        Some(read.ok()?.0)
    }
}
