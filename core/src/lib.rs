#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]
//! The Model Context Protocol as a state machine: client and server, every released revision, no I/O.
//!
//! MCP is JSON-RPC 2.0 between AI applications (the *clients*) and tool providers (the *servers*). This crate holds
//! the whole protocol and nothing else: bytes, time and entropy go in; bytes, events and deadlines come out. It spawns
//! nothing, blocks on nothing, reads no clock and prints nothing, so it runs in any runtime or none. It is `no_std`
//! (with `alloc`) and has no `unsafe`.
//!
//! # The contract
//!
//! A [`pipe::Server`] or [`pipe::Client`] speaks over any byte stream. Whoever drives one does this, in a loop:
//!
//! 1. hand over what was read ([`handle_input`](pipe::Pipe::handle_input), [`handle_eof`](pipe::Pipe::handle_eof)),
//!    deadlines that passed ([`handle_timeout`](pipe::Pipe::handle_timeout)), and commands (`engine().complete(…)`,
//!    `engine().call(…)`), in any number and order;
//! 2. take events until there are none ([`poll_event`](pipe::Pipe::poll_event)): decoding happens here, a bounded
//!    amount per call;
//! 3. write [`transmit`](pipe::Pipe::transmit) and say how much of it went ([`consume`](pipe::Pipe::consume));
//! 4. wait for bytes (if [`wants_input`](pipe::Pipe::wants_input)), for room to write, for a command of your own, or
//!    for [`poll_timeout`](pipe::Pipe::poll_timeout).
//!
//! What holds whatever the peer sends and the caller does:
//!
//! - How the input was cut never changes what comes out; equal inputs give equal outputs, byte for byte.
//! - Nothing panics; memory and work stay within [`Limits`], and each limit has a stated outcome.
//! - A misbehaving peer is an answer on the wire or an event, never an `Err`. There are three kinds of error that
//!   are never mixed up: [`Fault`] (the connection is over), [`CallError`] (one call of ours failed), [`UseError`]
//!   (a command was refused and nothing changed).
//! - Every call ends exactly once. Keys ([`CallId`], [`CallKey`]) go stale and never hit another call.
//! - `now` never goes back; an older one counts as the last one seen.
//!
//! ```
//! use std::sync::Arc;
//! use mcp_proto::model::CallToolResult;
//! use mcp_proto::pipe::{Pipe, Server};
//! use mcp_proto::server::{Config, Event};
//! use mcp_proto::{Capabilities, Capability, Instant, RpcError};
//!
//! #[derive(serde::Deserialize)]
//! struct Echo<'a> {
//!     text: &'a str, // borrowed from the message that it came in
//! }
//!
//! let config = Config::new("echo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
//! let mut server = Server::new(Arc::new(config), Instant::ZERO);
//! let now = Instant::from_micros(1); // the caller's clock
//!
//! // What a client wrote, in two pieces.
//! let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},
//!     "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
//! let line: Vec<u8> = request.iter().copied().filter(|b| *b != b'\n').chain([b'\n']).collect();
//! server.handle_input(now, &line[..50]);
//! server.handle_input(now, &line[50..]);
//!
//! while let Some(event) = server.poll_event(now) {
//!     if let Event::Call(call) = event {
//!         let answer = call.tool().and_then(|tool| match &*tool.name {
//!             "echo" => tool.parse::<Echo>(),
//!             other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
//!         });
//!         match answer {
//!             Ok(echo) => server.engine().complete(now, call.id(), &CallToolResult::text(echo.text)),
//!             Err(error) => server.engine().fail(now, call.id(), &error),
//!         }
//!         .expect("the call was not answered before");
//!     }
//! }
//! let written = String::from_utf8(server.transmit().to_vec()).unwrap();
//! assert!(written.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]"#));
//! server.consume(written.len());
//! ```
//!
//! # Two eras
//!
//! | | legacy: 2024-11-05 … 2025-11-25 | modern: 2026-07-28 |
//! |---|---|---|
//! | opening | `initialize`, then a session | none; `server/discover` tells what there is |
//! | version, identity, capabilities | once per session | in the `_meta` of each request |
//! | a server needs input for a call | it sends requests of its own | it says so instead of a result, and the client calls again |
//! | a client follows changes | `resources/subscribe`, news of lists unasked | a request that stays open, `subscriptions/listen` |
//! | log messages | by the level of the session | by the level in each request |
//!
//! Both sides speak both by default and can be pinned ([`VersionSet`]); an application need not know which is in use.
//! A client asks with `server/discover` and falls back to `initialize`; what it found out can be stored
//! ([`client::Verdict`]). A server answers each request in the era that it is made in, both on one stream if need be.
//!
//! # What cannot be hidden
//!
//! An application can be written without knowing the era; what it is told is the same, but for this.
//!
#![doc = include_str!("eras.md")]
//!
//! No cancellation reaches a handler between two rounds: nobody works on the call then, in either era.
//!
//! What a revision lacks altogether, such as forms before 2025-06-18, web pages and tools for models before 2025-11-25,
//! is refused with a typed error before anything is sent ([`UseError`]).
//!
//! # Layers
//!
//! Each is usable without those above it: [`frame::line`] cuts a byte stream into messages, [`frame::sse`] an event stream
//! into events; [`server::Engine`] and [`client::Engine`] take and give whole messages, over whatever carries them;
//! [`pipe`] joins the two for byte streams. [`RawJson`] is how payloads pass through: cut out of the message, not copied.
//!
//! # Features
//!
//! | feature | default | what it turns on |
//! |---|---|---|
//! | `base64` | yes | results that are made of bytes: `router::IntoReadResult` for `Vec<u8>`, blobs and pictures |
//! | `http` | yes | [`h1`] and [`http`]; turns on `crypto` |
//! | `schemars` | no | schemas of Rust types: `router::schema` |
//! | `crypto` | yes | `Entropy`: session ids; [`seal`]: state that a client keeps (HMAC-SHA-256 by RustCrypto); turns on `base64` |

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ascii;
#[doc(hidden)]
pub mod bench;
mod budget;
mod calls;
mod change;
pub mod client;
mod deadlines;
mod diagnostic;
#[cfg(feature = "crypto")]
mod entropy;
mod error;
pub mod frame;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "http")]
pub mod h1;
pub mod head;
#[cfg(feature = "http")]
pub mod http;
mod identity;
mod json;
mod limits;
pub mod meta;
pub mod model;
mod outbox;
pub mod pipe;
mod raw;
pub mod router;
pub mod rpc;
#[cfg(feature = "crypto")]
pub mod seal;
pub mod server;
mod shape;
mod slab;
pub mod tap;
mod time;
mod uri;
mod validate;
mod version;
mod vocab;

pub use calls::inbound::{CallId, Progress, Sent};
pub use calls::outbound::{CallKey, CallOptions};
pub use change::Change;
pub use diagnostic::Diagnostic;
#[cfg(feature = "crypto")]
pub use entropy::Entropy;
pub use error::{AuthChallenge, CallError, Fault, HttpAnswer, HttpError, UseError};
pub use identity::{Capabilities, Implementation};
pub use json::EncodeError;
pub use limits::Limits;
pub use outbox::Outbox;
pub use raw::{InvalidJson, RawJson};
pub use rpc::envelope::Malformed;
pub use rpc::{RequestId, RpcError};
pub use tap::ChannelId;
pub use time::{Anchor, Instant};
pub use version::{Era, Version, VersionSet};
pub use vocab::Capability;
