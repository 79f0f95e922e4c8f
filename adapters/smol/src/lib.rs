//! Model Context Protocol servers and clients as plain futures, on smol or any other executor
//!
//! The protocol is [`mcp_proto`]'s, processes and byte streams are [`mcp_std`]'s; this crate waits for them by
//! [`async-io`](async_io), whose reactor runs under any executor. It spawns nothing: whoever awaits one of its futures
//! drives it (only [shards](HttpServer::shards) beyond the first have threads of their own); [`block_on`](block_on()) is the cheapest way to await one. `mcp-blocking` has the same surface as plain calls,
//! `mcp-threads` for many threads at once.
//!
//! # A server
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
//! use mcp_proto::{Capabilities, Capability, RawJson, RpcError, server::Config};
//! use mcp_smol::{Answered, Call, Cx, serve_stdio};
//!
//! fn main() -> Result<(), mcp_smol::Error> {
//!     let config = Config::new("greeter", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
//!     let schema = RawJson::new(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#).unwrap();
//!     let tools = ListToolsResult::new(vec![Tool::new("greet", schema).description("Says hello")]);
//!
//!     mcp_smol::block_on(serve_stdio(config, async |cx: &mut Cx<'_>, call: &Call| match call.method() {
//!         "tools/list" => cx.complete(&tools),
//!         "tools/call" => greet(cx, call).await,
//!         other => Err(RpcError::method_not_found(other)),
//!     }))
//! }
//!
//! async fn greet(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
//!     #[derive(serde::Deserialize)]
//!     struct Greet<'a> {
//!         name: std::borrow::Cow<'a, str>,
//!     }
//!     let greet: Greet<'_> = call.tool()?.parse()?;
//!     cx.sleep(Duration::from_millis(100)).await?; // others are answered meanwhile
//!     cx.complete(&CallToolResult::text(format!("Hello, {}!", greet.name)))
//! }
//! ```
//!
//! [`serve`] does the same on anything with `AsyncRead` and `AsyncWrite`, [`serve_http`] and [`HttpServer`] for many clients
//! over HTTP, on one thread or on [several](HttpServer::shards),
//! [`Router`] is a server made of async closures, and [`Handler`] is for servers that want to know more than
//! their calls. [`Server`] and [`HttpServer`] give a [`Handle`], which shuts them down, tells of changes and reaches the
//! engine from any thread.
//!
//! ```no_run
//! # #[cfg(feature = "http")] {
//! use core::time::Duration;
//! use mcp_proto::{http, model::Tool};
//! use mcp_smol::{Cx, HttpServer, Router};
//!
//! let mut router = Router::new("clock", "1.0");
//! let schema = mcp_proto::RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("time", schema), async |_: &mut Cx<'_>, _: serde_json::Value| "noon");
//! let (config, http) = (router.config()?, http::server::Config::new());
//! let server = HttpServer::bind("127.0.0.1:8080", config, http, router)?;
//! let handle = server.handle();
//! // With the feature `signals`: mcp_smol::on_terminate(move || handle.shutdown(Duration::from_secs(5)))?;
//! # let _ = (handle, Duration::ZERO);
//! mcp_smol::block_on(server.run())?;
//! # }
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! Handlers run at the same time, inside of the server's future: what they hold need not be `Send`, and if it is, the
//! server's future is. A handler that works for long without waiting holds up its server; that is for a thread, such as
//! `blocking::unblock` gives.
//!
//! # A client
//!
//! ```no_run
//! use mcp_smol::{Client, Program, Stderr};
//!
//! # mcp_smol::block_on(async {
//! let client = Client::spawn(Program::new("my-server").arg("--stdio").stderr(Stderr::Capture)).await?;
//! let (tools, answer) = futures_lite::future::zip(
//!     client.list_tools(),
//!     client.call_tool("greet", &serde_json::json!({"name": "you"})),
//! )
//! .await;
//! println!("{} {:?}", tools?.len(), answer?.content[0].as_text());
//! client.close().await?; // and how the server ended
//! # Ok::<(), mcp_smol::Error>(())
//! # })?;
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! A [`Client`] is a handle that tasks share: whoever awaits drives for all. [`Client::run`] is for the time between
//! calls, and dropping the future of a call cancels it at the server. What a server asks in its turn (its user, a model) is
//! answered by an [`AsyncClientHandler`], whose futures whoever drives polls, too.
//!
//! # What holds
//!
//! - Two ends with full pipes do not wait for each other: whoever writes goes on reading.
//! - Deadlines pass by one timer, which is set anew only for an earlier one.
//! - A future is polled when it was woken, and no other with it. So many run at a time as
//!   [`max_running`](Server::max_running) says, more calls wait within [`Limits`](mcp_proto::Limits), and then reading
//!   pauses. A server gives way to other futures of its executor now and then, however busy its handlers are.
//! - The future of a call that is cancelled, or whose client is gone, is dropped at once. One that never ends costs its
//!   place.
//! - Requests that are read together are answered in one write, unless their handlers are slow.
//! - A server that reads the end of its input answers what came before, as far as it can within
//!   [`Limits::eof_grace`](mcp_proto::Limits), and returns. A client that left is noticed, and is no error.
//! - A handler that panics answers with an internal error, and nothing else breaks.
//! - Memory stays within [`Limits`](mcp_proto::Limits), whatever the peer does.
//!
//! # Features
//!
//! | feature | default | what it turns on |
//! |---|---|---|
//! | `base64` | yes | resources that are bytes |
//! | `crypto` | yes | the feature of that name in `mcp-proto`: what handlers ask for in the modern era is sealed between two rounds |
//! | `http` | yes | servers over HTTP; turns on `crypto` |
//! | `schemars` | no | schemas of Rust types: `Router::tool` |
//! | `signals` | no | `on_terminate`, which has a server shut down when the process is told to end (Unix) |
//! | `tls` | no | HTTP over TLS, by `rustls`: `HttpServer::tls`, the module `tls` |
//! | `validate` | no | arguments and results of tools checked against their schemas by [`Router`], unless it is told otherwise ([`Router::no_validator`]); the module `validate` |
//!
//! # Platforms
//!
//! [`serve`] works wherever `async-io` does. Stdin and stdout are watched on Unix. Over HTTP, the reactor watches all
//! connections at once on Linux; on other Unix systems the server looks after them every ten milliseconds.

#![forbid(unsafe_code)]

extern crate alloc;

// What a server needs is generic, or `#[inline]`, or in mcp-std: so programs that only serve have none of this crate's objects
// linked in. Those hold the client, too, and while the linker drops code that is not called, it keeps the tables for unwinding
// it: 35 KB. One function that is called from outside and compiled here is enough to bring all of them back.

mod block_on;
mod client;
mod handler;
#[cfg(feature = "http")]
mod http;
mod io;
mod memory;
mod router;
mod running;
mod server;
#[cfg(unix)]
mod stdio;
pub mod testing;
mod timer;

pub use block_on::block_on;
pub use client::{AsyncClientHandler, Client, Connecting, Pending, Run, RunWith, asynchronous};
pub use handler::{Cx, Handler};
#[cfg(feature = "http")]
pub use http::{HttpServer, serve_http};
pub use mcp_proto::server::{Call, NoAnswer};
pub use mcp_std::child::{Program, Stderr};
pub use mcp_std::client::ClientHandler;
#[cfg(all(unix, feature = "signals"))]
pub use mcp_std::on_terminate;
pub use mcp_std::serve::{Answered, Failure, Handle};
#[cfg(feature = "tls")]
pub use mcp_std::tls;
#[cfg(feature = "validate")]
pub use mcp_std::validate;
pub use mcp_std::{BadResult, Closed, Error, SharedCache};
pub use memory::{MemoryEnd, memory_pair};
pub use router::{Later, Router};
#[cfg(unix)]
pub use server::serve_stdio;
pub use server::{Server, serve};
#[cfg(unix)]
pub use stdio::Stdio;

/// A client that is about to connect: see [`Options`](mcp_std::client::Options)
pub type Options = mcp_std::client::Options<Client>;
