//! HTTP/1.1 for both roles, over heads read by `httparse`; knows nothing of MCP.
//!
//! [`server::Connection`] and [`client::Connection`] are state machines without I/O: bytes that were read and deadlines
//! that passed go in, events and bytes to write come out. They keep to the contract of this crate: nothing panics, how
//! the input was cut changes nothing, all memory is bounded by [`Limits`], and `now` never goes back.
//!
//! They are strict, because not every recipient of a message may read a doubtful one in the same way (RFC 9112, 11).
//! What is no HTTP to the letter, or leaves open where a message ends, is a [`Fault`]: the connection is over, nothing
//! of the message at fault is ever delivered as complete, and a server says why in a last response. What is refused
//! though the RFCs would let a recipient put up with it: a line that ends without a carriage return, a second
//! `Content-Length` even if equal, transfer codings other than `chunked`, a fragment in a request target, an absolute
//! target that differs from `Host`, an empty `Host`, more than one empty line before a request.
//!
//! One exchange at a time: what a client has sent beyond the request at hand waits, bounded, until the response has
//! ended.
//!
//! ```
//! use mcp_proto::Instant;
//! use mcp_proto::h1::{Limits, client, server};
//! use mcp_proto::head::{BodySize, Fields};
//!
//! let now = Instant::from_micros(1);
//! let mut client = client::Connection::new(now, Limits::default());
//! let mut server = server::Connection::new(now, Limits::default());
//!
//! client.request(now, "POST", "/echo", "localhost:80", &Fields::new(), BodySize::Exact(5)).unwrap();
//! client.body(b"hello").unwrap();
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
//!             server.body(&body).unwrap();
//!             server.end(now).unwrap();
//!         }
//!         server::Event::Gone | server::Event::Fault(_) => unreachable!(),
//!     }
//! }
//! assert_eq!(server.transmit(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
//! client.handle_input(now, server.transmit());
//! let status = client.poll_event(now, |response| response.status);
//! assert!(matches!(status, Some(client::Event::Head(200))));
//! ```

mod body;
pub mod client;
mod error;
mod fields;
mod inbox;
mod keep;
mod limits;
pub mod server;
mod status;

pub use body::Framing;
pub use error::{Fault, Reason, Refused};
pub use limits::Limits;

/// Heads of requests alone, for `mcp-benches`
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Heads {
    inbox: inbox::Inbox,
    limits: Limits,
}

impl Heads {
    /// Keeps a head
    pub fn keep(&mut self, head: &[u8]) {
        self.inbox.push(head);
    }

    /// Reads it, as a connection does that has it in one piece, and lends it; none when it was refused
    pub fn read<R>(&self, on_head: impl FnOnce(crate::head::Request<'_>) -> R) -> Option<R> {
        let look = fields::look(self.inbox.bytes(), &self.limits, |request, _| on_head(request));
        let fields::Look::Read(read, _) = look else { return None };
        Some(read.ok()?.0)
    }
}
