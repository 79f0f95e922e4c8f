//! Model Context Protocol servers and clients in plain blocking code: one thread, one loop, no runtime
//!
//! The protocol is [`mcp_proto`]'s, processes and byte streams are [`mcp_std`]'s; this crate moves the bytes between
//! them. It starts no thread (where the system can wait for pipes: everywhere but on Windows) and does nothing behind
//! your back: everything happens inside of a call that you make.
//!
//! # A server
//!
//! ```no_run
//! use mcp_blocking::{Answered, Call, Cx, serve_stdio};
//! use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
//! use mcp_proto::{Capabilities, Capability, RawJson, RpcError, server::Config};
//!
//! fn main() -> Result<(), mcp_blocking::Error> {
//!     let config = Config::new("greeter", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
//!     let schema = RawJson::new(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#).unwrap();
//!     let tools = ListToolsResult::new(vec![Tool::new("greet", schema).description("Says hello")]);
//!
//!     serve_stdio(config, |cx: &mut Cx<'_>, call: &Call| match call.method() {
//!         "tools/list" => cx.complete(&tools),
//!         "tools/call" => greet(cx, call),
//!         other => Err(RpcError::method_not_found(other)),
//!     })
//! }
//!
//! fn greet(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
//!     #[derive(serde::Deserialize)]
//!     struct Greet<'a> {
//!         name: std::borrow::Cow<'a, str>,
//!     }
//!     let greet: Greet<'_> = call.tool()?.parse()?;
//!     cx.complete(&CallToolResult::text(format!("Hello, {}!", greet.name)))
//! }
//! ```
//!
//! [`serve`] does the same on any stream, [`Server`] lets you hold the loop, and [`Handler`] is for servers that want to
//! know more than their calls. A handler runs on the loop's thread: while it runs, nothing else moves, except when it
//! calls [`Cx::progress`], [`Cx::checkpoint`] or [`Cx::sleep`]. Calls that arrive in the meantime wait for it.
//!
//! # A client
//!
//! ```no_run
//! use mcp_blocking::{Client, Program, Stderr};
//!
//! let program = Program::new("my-server").arg("--stdio").stderr(Stderr::Capture);
//! let mut client = Client::spawn(program)?;
//! for tool in client.list_tools()? {
//!     println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//! }
//! let answer = client.call_tool("greet", &serde_json::json!({"name": "you"}))?;
//! println!("{:?}", answer.content[0].as_text());
//! let ended = client.close()?; // and how the server ended
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! [`Client::send`] makes any typed request, [`Client::request`] any at all with the result as it came.
//! [`Client::start`] and [`Client::wait`] are for several calls at once, [`Client::poll`] for the time between calls,
//! [`ClientHandler`] for what the server says and asks on its own account.
//!
//! # Over HTTP
//!
//! [`serve_http`] and [`HttpServer`] serve the same handlers to many clients at once, [`Client::connect_url`] talks to a
//! server that is there already; everything else is as it is on a stream.
//!
//! ```no_run
//! # #[cfg(feature = "http")] {
//! use mcp_blocking::Client;
//!
//! let mut client = Client::connect_url("http://127.0.0.1:8080/mcp")?;
//! println!("{}", client.peer().version);
//! # }
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! # Tests
//!
//! [`testing::pair`] is a client of a [`Router`] in the same thread, in memory, on virtual time: what a handler sleeps costs
//! nothing.
//!
//! # What holds
//!
//! - Two ends with full pipes do not wait for each other: whoever writes goes on reading.
//! - Time-outs pass while it waits, in both roles.
//! - Requests that are read together are answered in one write, unless their handlers are slow.
//! - A server that reads the end of its input answers what came before, as far as it can within
//!   [`Limits::eof_grace`](mcp_proto::Limits), and returns. A client that left is noticed, and is no error.
//! - A handler that panics answers with an internal error, and nothing else breaks.
//! - Lists and contents of resources are asked for again when their server says so, and not before
//!   ([`Options::no_cache`]).
//! - When a server process dies, the [error](Error) has its exit status and, if stderr is
//!   [captured](mcp_std::child::Stderr::Capture), its last words. No process outlives its [`Client`].
//! - Memory stays within [`Limits`](mcp_proto::Limits), whatever the peer does.
//!
//! # Features
//!
//! | feature | default | what it turns on |
//! |---|---|---|
//! | `base64` | yes | resources that are bytes |
//! | `crypto` | yes | the feature of that name in `mcp-proto`: what handlers ask for in the modern era is sealed between two rounds |
//! | `http` | yes | servers and clients over HTTP; turns on `crypto` |
//! | `schemars` | no | schemas of Rust types: `Router::tool` |
//! | `signals` | no | `on_terminate`, which has a server shut down when the process is told to end (Unix) |
//! | `tls` | no | HTTP over TLS, by `rustls`: `https` URLs, `Options::tls`, `HttpServer::tls`, the module `tls` |
//! | `validate` | no | arguments and results of tools checked against their schemas, by [`Router`] and [`Client`] alike, unless they are told otherwise ([`Router::no_validator`], [`Options::no_validator`]); the module `validate` |

#![forbid(unsafe_code)]

extern crate alloc;

mod client;
#[cfg(feature = "http")]
mod http;
mod router;
mod server;
pub mod testing;

pub use client::Client;
#[cfg(feature = "http")]
pub use http::serve_http;
pub use mcp_proto::server::{Call, NoAnswer};
pub use mcp_std::child::{Program, Stderr};
pub use mcp_std::client::ClientHandler;
#[cfg(all(unix, feature = "signals"))]
pub use mcp_std::on_terminate;
#[cfg(feature = "http")]
pub use mcp_std::serve::HttpServer;
pub use mcp_std::serve::{Answered, Cx, Failure, Handle, Handler, Server};
#[cfg(feature = "tls")]
pub use mcp_std::tls;
#[cfg(feature = "validate")]
pub use mcp_std::validate;
pub use mcp_std::{BadResult, Closed, Error, MemoryEnd, SharedCache, memory_pair};
pub use router::{Later, Router};
pub use server::{serve, serve_stdio};

/// A client that is about to connect: see [`Options`](mcp_std::client::Options)
pub type Options = mcp_std::client::Options<Client>;

/// The examples of the README, compiled
#[cfg(all(doctest, feature = "schemars"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
