#![cfg_attr(docsrs, feature(doc_cfg))]
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
#![cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(
        dead_code,
        unnameable_types,
        unreachable_pub,
        unused_imports,
        reason = "one role does not use all that both share"
    )
)]
//! The Model Context Protocol as a sans-IO state machine: client and server, every released revision.
//!
//! MCP is JSON-RPC 2.0 between AI applications (*clients*) and tool providers (*servers*). This crate implements the
//! protocol and performs no I/O. The caller passes in bytes, time and entropy. The crate returns bytes, events and
//! deadlines. It spawns nothing, blocks on nothing, reads no clock and prints nothing, so it runs in any runtime or
//! without one. It is `no_std` (with `alloc`) and contains no `unsafe` code.
//!
//! Most programs use an adapter instead of this crate: `mcp-blocking` (one thread), `mcp-threads` (a pool of worker
//! threads) `mcp-tokio` or `mcp-smol` (futures). Use this crate directly to put MCP into an event loop of your own.
//!
//! # Driving a connection
//!
//! [`pipe::Server`] and [`pipe::Client`] speak MCP over a byte stream: stdio, a socket, a pipe. The caller drives
//! them in a loop. Each turn has four steps:
//!
//! 1. Pass in what happened, in any number and order: bytes that were read
//!    ([`handle_input`](pipe::Pipe::handle_input)), the end of the stream
//!    ([`handle_eof`](pipe::Pipe::handle_eof)), deadlines that passed
//!    ([`handle_timeout`](pipe::Pipe::handle_timeout)), and commands (`engine().complete(…)`, `engine().call(…)`).
//! 2. Call [`poll_event`](pipe::Pipe::poll_event) until it returns `None`. It decodes input, a bounded amount per call.
//! 3. Write the bytes of [`transmit`](pipe::Pipe::transmit), and report how many were written
//!    ([`consume`](pipe::Pipe::consume)).
//! 4. Wait for one of these: input (if [`wants_input`](pipe::Pipe::wants_input)), room to write, a command of the
//!    application, or the deadline of [`poll_timeout`](pipe::Pipe::poll_timeout).
//!
//! The HTTP bindings [`http::client`] and [`http::server`] follow the same contract for HTTP exchanges.
//! [`guide::contract`] has the loop in full and its rules. What breaks one of them panics in a debug build.
//!
//! # Guarantees
//!
//! These hold for every peer and every caller:
//!
//! - **Deterministic.** Equal inputs give equal outputs, byte for byte. The way in which the input was cut into pieces
//!   never changes the output.
//! - **Bounded.** Nothing that a peer sends panics. Memory and work stay within [`Limits`], and each limit documents what happens when it
//!   is reached.
//! - **Three separate errors.** [`Fault`]: the connection has ended. [`CallError`]: one outbound call failed.
//!   [`UseError`]: a command was refused and nothing changed. A misbehaving peer gets an error response or causes an
//!   event ([`Diagnostic`]). It never causes an `Err`.
//! - **One outcome per call.** Each call ends exactly once. A key ([`CallId`], [`CallKey`]) of a call that has ended is
//!   stale: it is refused, and never reaches another call.
//! - **Monotonic time.** An [`Instant`] older than the last one counts as the last one, and panics in a debug build.
//!
//! # Example
//!
//! A server with one tool, driven by hand:
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
//!     // Borrowed from the
//!     // received message.
//!     text: &'a str,
//! }
//!
//! let config = Config::new("echo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
//! let mut server = Server::new(Arc::new(config), Instant::ZERO);
//! // By the clock of the caller.
//! let now = Instant::from_micros(1);
//!
//! // The bytes that a client
//! // wrote, in two pieces.
//! let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},
//!     "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!     "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
//! let line: Vec<u8> = request.iter().copied().filter(|b| *b != b'\n').chain([b'\n']).collect();
//! server.handle_input(now, &line[..50]);
//! server.handle_input(now, &line[50..]);
//!
//! while let Some(event) = server.poll_event(now) {
//!     if let Event::Call(call) = event {
//!         let answer = call.tool_call().and_then(|tool| match &*tool.name {
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
//! The revisions of the protocol fall into two eras:
//!
//! | | legacy: 2024-11-05 to 2025-11-25 | modern: 2026-07-28 |
//! |---|---|---|
//! | opening | `initialize`, then a session | none; `server/discover` describes the server |
//! | version, identity, capabilities | once per session | in the `_meta` of each request |
//! | a server needs input | it sends a request | it answers `input_required`, and the client repeats the call |
//! | a client follows changes | `resources/subscribe`; list changes always | `subscriptions/listen` stays open |
//! | log messages | by the level of the session | by the level in each request |
//!
//! Both roles speak both eras by default and can be restricted to a [`VersionSet`]. A client sends `server/discover`
//! and falls back to `initialize`. It reports the era that it found, and the application may store it for the next
//! connection ([`client::KnownEra`]). A server answers each request in the era of that request. One byte stream may
//! carry both.
//!
//! # Differences between the eras
//!
//! The same application code works in both eras and sees the same events, except for these differences:
//!
#![doc = include_str!("eras.md")]
//!
//! In both eras, a handler sees no cancellation between two rounds of a call, because it is not running then.
//!
//! A feature that a revision lacks is refused with a [`UseError`] before anything is sent. Examples are forms before
//! 2025-06-18, and elicitation by URL and tools in sampling before 2025-11-25.
//!
//! # Layers
//!
//! Each layer can be used without those above it:
//!
//! | layer | what it does |
//! |---|---|
//! | [`router`] | finds tools, resources, prompts and completions by name, and serves their lists |
//! | [`pipe`], [`http`] | *bindings*: an engine on a byte stream, or on HTTP exchanges |
//! | [`server::Engine`], [`client::Engine`] | *engines*: take and produce whole messages, over any transport |
//! | [`model`] | typed messages of all revisions |
//! | [`frame::line`], [`frame::sse`], [`h1`] | cut a byte stream into messages, events or HTTP/1.1 exchanges |
//!
//! Payloads pass through all layers as [`RawJson`], a slice of the message that is not copied.
//!
//! # Features
//!
//! | feature | default | what it enables |
//! |---|---|---|
//! | `anyhow` | no | an `RpcError` inside an `anyhow::Error` of a handler of `router` answers the call |
//! | `auth` | yes | access tokens of a server over HTTP (`http::server::Config::protected`); enables `client` and `http`; the OAuth flow of a client is the package `mcp-oauth` |
//! | `client` | yes | the role of a client: [`client`], [`pipe::Client`], with `http` also [`http::client`] |
//! | `http` | yes | [`h1`] and [`http`], for both roles |
//! | `legacy` | yes | the revisions with a handshake; at least one of `legacy` and `modern` is needed |
//! | `modern` | yes | the revisions without a handshake |
//! | `observe` | yes | observers ([`observe`]), records of messages and of heads ([`tap`]); without it, none is called, and `Limits::tap_records` has no effect |
//! | `schemars` | no | schemas of Rust types: `router::schema` |
//! | `server` | yes | the role of a server: [`server`], [`router`], [`pipe::Server`], with `http` also [`http::server`] |
//! | `sessions` | yes | sessions of legacy clients over HTTP, their GET streams, resumption of event streams, and HTTP+SSE; without it, each request is independent, and changes have no way to a legacy client over HTTP, so leave out `subscriptions` too |
//! | `subscriptions` | yes | change notifications of a server; without it, their capabilities are not declared |
//! | `tasks` | yes | tasks of both roles, and questions that run as tasks of the client |
//!
//! Everything else is always there: the linker leaves out what a program does not call. The module [`draft`] (rules of drafts in place of the
//! released ones) follows documents that may still change, and may change in a minor release. Targets without compare-and-swap (Cortex-M0, RISC-V without A) need no feature, but a
//! critical section: see [`sync`].
//!
//! # Further reading
//!
//! The [guide] has pages about driving a state machine, the layers, the eras, transports of your own, devices, and questions
//! and answers. [`guide::troubleshooting`] explains each message of an error, and [`guide::security`] says which attacks are
//! prevented, and how.
//!
//! `core/docs/glossary.md` defines the terms, and `core/docs/decisions.md` explains the decisions that the code cites
//! as `DEC-nnn` and `DESIGN-nn`. `core/docs/deprecations.md` lists what the specification deprecates. Ids such as `LIFE-010` are requirements of the specification; they are listed in
//! `tests/spec-map.tsv`.

#[cfg(not(any(feature = "legacy", feature = "modern")))]
compile_error!(
    "`mcp-proto` needs at least one of its features `legacy` and `modern`; both are on by default"
);

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ascii;
mod budget;
mod built;
mod calls;
mod change;
#[cfg(feature = "client")]
pub mod client;
mod deadlines;
mod deprecation;
mod diagnostic;
pub mod draft;
mod driving;
mod entropy;
mod error;
#[cfg(test)]
mod exhaustive;
mod extensions;
#[cfg(feature = "http")]
pub mod fields;
pub mod frame;
#[cfg(any(doc, doctest))]
#[cfg_attr(
    not(all(feature = "auth", feature = "http")),
    allow(rustdoc::broken_intra_doc_links, reason = "some pages link to items of these features")
)]
pub mod guide;
#[cfg(feature = "http")]
pub mod h1;
pub mod head;
#[cfg(feature = "http")]
pub mod http;
mod identity;
#[doc(hidden)]
pub mod internals;
mod json;
mod limits;
mod listen_filter;
mod memory;
pub mod meta;
mod methods;
pub mod model;
#[cfg(feature = "http")]
mod network;
pub mod observe;
mod outbox;
pub mod pipe;
mod raw;
mod record;
#[cfg(feature = "server")]
pub mod router;
pub mod rpc;
mod scope;
pub mod seal;
#[cfg(feature = "server")]
pub mod server;
mod shape;
#[cfg(feature = "http")]
mod short_base64;
#[doc(hidden)]
pub mod slab;
pub mod sync;
pub mod tap;
mod tasks;
#[doc(hidden)]
pub mod testing;
mod time;
pub mod uri;
#[cfg(feature = "http")]
mod url;
mod validate;
mod version;

pub use calls::inbound::{CallId, Progress, SendStatus};
pub use calls::outbound::{CallKey, CallOptions};
pub use change::{Change, CustomList, CustomListError};
pub use deprecation::DeprecatedFeature;
pub use diagnostic::Diagnostic;
pub use entropy::Entropy;
pub use error::{AuthChallenge, AuthorizationError, CallError, Fault, HttpError, HttpResponse, UseError};
pub use extensions::Extensions;
pub use identity::{Capabilities, ExtensionError, Implementation};
pub use json::{CanonicalError, EncodeError};
pub use limits::{Limit, Limits};
pub use methods::{Capability, EntryKind};
pub use outbox::Outbox;
pub use raw::{InvalidJson, MemberEdit, RawJson};
pub use rpc::envelope::MalformedMessage;
pub use rpc::{RequestId, RpcError};
pub use scope::{ScopeError, Scopes};
pub use tap::ChannelId;
pub use time::{Anchor, Instant, TimeoutReason, iso_8601};
pub use version::{Era, Version, VersionSet};
