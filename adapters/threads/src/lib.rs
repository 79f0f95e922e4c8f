//! Model Context Protocol servers and clients on threads: handlers on a pool of workers, calls from any thread.
//!
//! # A server
//!
//! A [`Router`] dispatches calls to closures by name. The schema of a tool's arguments comes from a Rust type (feature
//! `schemars`):
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use mcp_threads::{Progress, Router, ok, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Count {
//!     to: u32,
//! }
//!
//! fn main() -> Result<(), mcp_threads::Error> {
//!     let mut router = Router::new("counter", "1.0.0");
//!     router.tool("count", |cx, Count { to }: Count| {
//!         for n in 0..to {
//!             // Fails if the
//!             // call was
//!             // cancelled.
//!             cx.sleep(Duration::from_millis(100))?;
//!             cx.progress(Progress::new(f64::from(n)))?;
//!         }
//!         ok(to)
//!     }).description("Counts for a while");
//!     router.serve_stdio()
//! }
//! ```
//!
//! The documentation of [`router::Router`] has an example of each kind of entry ([tools](router::Router::tool),
//! [resources](router::Router::resource), [templates](router::Router::resource_template),
//! [prompts](router::Router::prompt), [completions](router::Router::completion)), of [shared
//! state](router::Router#state-of-handlers) and of the [errors of handlers](router::Router#errors-of-handlers).
//! [`RouterUpdates`] adds and removes entries while the server runs. A function over
//! [`router::RegisterFunctions`] registers entries on the router of any adapter. The server
//! `tests/programs/notes` in the repository uses all of it with a database.
//!
//! [`mcp_proto`] implements the protocol, and `mcp-std` implements byte streams and processes. The threads of this
//! crate move the bytes between them. `mcp-blocking` offers the same API on one thread, `mcp-tokio` and `mcp-smol` with futures. The
//! crate page of `mcp-blocking` explains what all three have in common. The [guide] has first programs.
//!
//! # Running handlers
//!
//! One thread reads and writes. Handlers run on [workers](Server::workers), several at a time, so closures are `Fn`,
//! `Send` and `Sync`. A handler may block: it delays neither other handlers nor reading and writing. A handler that
//! never returns occupies its worker until the process ends; call [`Cx::checkpoint`], [`Cx::sleep`] or [`Cx::progress`]
//! with `?` to stop when the call was cancelled.
//!
//! Waking a worker costs more than a handler that takes a few microseconds. While there are many calls and their handlers
//! take 20 µs at most, [`Server::run`] and `HttpServer::run` run them on the thread that reads and writes. If one takes
//! longer after all, another thread reads and writes within 2 ms, and handlers run on workers until it has returned and they
//! are fast again.
//!
//! Handlers share state by [`Arc`](std::sync::Arc) and [`Mutex`](std::sync::Mutex):
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use mcp_threads::mcp_proto::{RawJson, model::{Resource, Tool}};
//! use mcp_threads::Router;
//!
//! let log = Arc::new(Mutex::new(Vec::<String>::new()));
//! let mut router = Router::new("ship", "1.0");
//! let entries = log.clone();
//! router.resource(Resource::new("ship://log", "log"), move |_, _| entries.lock().unwrap().join("\n"));
//! let note = Tool::new("note", RawJson::new(r#"{"type":"object"}"#)?).description("Writes the arguments to the log");
//! router.tool_with(note, move |_, entry: serde_json::Value| log.lock().unwrap().push(entry.to_string()));
//! # router.check().unwrap();
//! # Ok::<(), mcp_threads::mcp_proto::InvalidJson>(())
//! ```
//!
//! # News from another thread
//!
//! A [`Handle`] sends commands to a running server from any thread: publish a change, use the engine, shut down.
//! Subscribers are told of a published change.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mcp_threads::mcp_proto::{Change, model::Resource};
//! use mcp_threads::{Router, Server};
//!
//! let mut router = Router::new("harbour", "1.0");
//! router.resource(Resource::new("harbour://tide", "tide"), |_, _| "high");
//! router.subscriptions(|uri, subscribed| eprintln!("{uri} has subscribers: {subscribed}"));
//! let mut server = Server::stdio(router.config()?, router)?;
//! let handle = server.handle()?;
//! std::thread::spawn(move || {
//!     while handle.publish(&Change::Resource("harbour://tide".into())).is_ok() {
//!         std::thread::sleep(Duration::from_secs(60));
//!     }
//! });
//! server.run()?;
//! # Ok::<(), mcp_threads::Error>(())
//! ```
//!
//! # A client
//!
//! A [`Client`] is a handle that any thread may call and clone. Each call waits for its own answer only. Callbacks of
//! the [`ClientHandler`] run in order on a thread of their own, so they may wait for a user.
//!
//! ```no_run
//! use mcp_threads::{Client, Program};
//!
//! let client = Client::spawn(Program::new("my-server").arg("--stdio"))?;
//! std::thread::scope(|scope| {
//!     for n in 0..8 {
//!         let client = &client;
//!         scope.spawn(move || client.call_tool("count", &serde_json::json!({ "to": n })));
//!     }
//! });
//! client.close()?;
//! # Ok::<(), mcp_threads::Error>(())
//! ```
//!
//! Layers surround the requests of a client, as in `mcp-blocking`: [`Options::layer`] adds a function, [`Retry`] is one.
//! It runs on the thread that makes the call, so several may run at a time.
//!
//! # HTTP
//!
//! [`Router::serve_http`](Router) serves HTTP with one thread for all connections. `HttpServer` offers more: several
//! threads (*shards*) with independent engines, limits of connections, and a [`Handle`].
//!
#![cfg_attr(all(feature = "http", feature = "schemars"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "http", feature = "schemars")), doc = "```ignore")]
//! use core::time::Duration;
//!
//! use mcp_threads::mcp_proto::http::server::Config;
//! use mcp_threads::{HttpServer, Router};
//!
//! let mut router = Router::new("clock", "1.0");
//! router.tool("time", |_, (): ()| "noon").description("Returns the time of day");
//! let mut server = HttpServer::bind("127.0.0.1:8080", router.config()?, Config::new(), router)?.shards(2);
//! let handle = server.handle()?;
//! // A callback of `on_terminate`
//! // (feature `signals`) calls
//! // `handle.shutdown`.
//! # let _ = (handle, Duration::ZERO);
//! server.run()?;
//! # Ok::<(), mcp_threads::Error>(())
//! ```
//!
//! `HttpServer::pin_shards` keeps each shard on one core. TLS works as in `mcp-blocking` (feature `tls`).
//!
//! # Sockets and serial lines
//!
//! A client reaches a server that reads and writes one message per line at `tcp://HOST:PORT`, `unix:PATH` or `serial:DEVICE:BAUD` by
//! `Client::options(config).connect_to(address.parse()?)`. A server serves the connections of an address by [`StreamServer`], each
//! on a thread of its own, or a [`SerialPort`] by [`serve`]:
//!
//! ```no_run
//! # #[cfg(unix)] {
//! use mcp_threads::{Router, Server, StreamServer};
//!
//! let listener = StreamServer::bind(&"tcp://127.0.0.1:7000".parse()?)?.max_connections(8);
//! listener.run(|socket, connection| {
//!     // One for each connection,
//!     // on its thread.
//!     let router = Router::new("clock", "1.0.0");
//!     let mut server = Server::new(router.config()?, socket, router);
//!     connection.shut_down(server.handle()?);
//!     server.run()
//! })?;
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A client that sends no line within 30 s is disconnected. When all places are taken, a new client gets the place of a silent or
//! idle one ([`StreamServer::max_idle_time`]), or is disconnected at once.
//!
//! Such a stream has no encryption, no authorization, and no check of who connects. Bind it to `127.0.0.1` or a Unix socket unless
//! everybody who can reach the address may use the server.
//!
//! # Input in the middle of a call
//!
//! [`Cx::elicit_as`](Cx::elicit), [`Cx::elicit_url`], [`Cx::sample`] and [`Cx::list_roots`] ask the client for input.
//! While the answer is missing they return an error that the handler passes on with `?`. When the answer has arrived,
//! the handler runs again from its beginning. The worker is free in the meantime.
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_threads::mcp_proto::model::ElicitOutcome;
//! use mcp_threads::{Cx, Router, RpcError, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Stay {
//!     /// Name of the boat
//!     boat: String,
//!     nights: u8,
//! }
//!
//! fn book(cx: &mut Cx<'_>, (): ()) -> Result<String, RpcError> {
//!     match cx.elicit_as::<Stay>("stay", "Which boat, and for how long?")? {
//!         ElicitOutcome::Accepted(stay) => Ok(format!("{}: {} nights", stay.boat, stay.nights)),
//!         ElicitOutcome::Declined | ElicitOutcome::Cancelled => Ok("not booked".to_owned()),
//!     }
//! }
//!
//! fn main() -> Result<(), mcp_threads::Error> {
//!     let mut router = Router::new("harbour", "1.0.0");
//!     router.tool("book", book).description("Books a berth");
//!     router.serve_stdio()
//! }
//! ```
//!
//! A client answers in its [`ClientHandler`], as shown on the crate page of `mcp-blocking`.
//!
//! # Tests of a server
//!
//! `mcp_blocking::testing::pair` connects a client to a router in memory, on virtual time: see [`testing`].
//!
//! # A server without a router
//!
//! [`serve_stdio`], [`serve`] and `serve_http` take any closure or [`Handler`] that answers all requests. [`Server`]
//! sets the number of workers and gives access to the loop.
//!
//! ```no_run
//! use mcp_threads::mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
//! use mcp_threads::mcp_proto::{Capabilities, Capability, RawJson, server::Config};
//! use mcp_threads::{Call, Cx, RpcError, serve_stdio};
//!
//! fn main() -> Result<(), mcp_threads::Error> {
//!     let config = Config::new("files", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
//!     let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//!     let tools = ListToolsResult::new(vec![Tool::new("count", schema).description("Counts for a while")]);
//!
//!     serve_stdio(config, move |cx: &mut Cx<'_>, call: &Call| match call.method() {
//!         "tools/list" => cx.complete(&tools),
//!         "tools/call" => {
//!             // On a worker:
//!             // other calls are
//!             // answered
//!             // meanwhile.
//!             for _ in 0..10 {
//!                 cx.sleep(std::time::Duration::from_millis(100))?;
//!             }
//!             cx.complete(&CallToolResult::text("10"))
//!         }
//!         other => Err(RpcError::method_not_found(other)),
//!     })
//! }
//! ```
//!
//! # Guarantees
//!
//! - A handler delays no other handler (while a worker is free), nor reading and writing: not at all if it runs on a worker,
//!   and for about 2 ms if those before it were so fast that it does not. When the server ends, a handler that has not
//!   returned is left behind.
//! - At most as many handlers run as there are workers. At most
//!   [`Limits::max_waiting_requests`](mcp_proto::Limits) calls and [`max_waiting_bytes`](mcp_proto::Limits) bytes wait;
//!   beyond that, reading pauses.
//! - Answers are sent in the order in which they become ready. Several ready answers are written together.
//! - A cancelled call is not started, or its handler learns of it from [`Cx::checkpoint`], [`Cx::sleep`] and
//!   [`Cx::progress`].
//! - A handler that panics causes an internal error response. Its worker continues.
//! - At the end of its input, or after [`Handle::shutdown`], a server answers the calls received before it within the
//!   grace period, and returns.
//! - A handler runs on one thread from its beginning to its end. Threads are used again: what a handler leaves in a thread-local, a
//!   handler of another client finds. Set it anew, or keep what belongs to a request in its [values](Cx::extension).
//! - Memory stays within [`Limits`](mcp_proto::Limits), whatever the peer sends.
//!
//! # Platforms
//!
//! Linux, macOS and the BSDs have everything; Windows has no servers at the address of a byte stream. On macOS and the BSDs
//! (not run) a disconnect of a client over HTTP is noticed only in a direction that is waited for, as `kqueue` reports no other. The
//! page of [`mcp-std`](https://docs.rs/mcp-std#platforms) has the table.
//!
//! # Features
//!
//! The same as in `mcp-blocking`: `http` (default), `anyhow`, `auth`, `auth-server`, `schemars`, `shared-sessions`, `signals`,
//! `skills`, `tasks`, `tls`, `validate`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod adapter_router;
mod client;
#[cfg(any(doc, doctest))]
pub mod guide;
mod handler;
#[cfg(feature = "http")]
mod http;
mod relay;
mod server;
pub mod testing;
mod worker_pool;

pub use adapter_router::{Router, RouterUpdates, Threads};
pub use client::{Client, LoopBackend, PendingCall};
pub use handler::Handler;
#[cfg(feature = "http")]
pub use http::{HttpServer, serve_http};
#[cfg(feature = "auth")]
#[doc(inline)]
pub use mcp_auth::client as auth;
#[cfg(feature = "http")]
pub use mcp_auth::token;
#[cfg(feature = "http")]
pub use mcp_extensions::cards;
pub use mcp_extensions::{pins, skills};
pub use mcp_proto;
#[cfg(feature = "schemars")]
pub use mcp_proto::router::schema::{Typed, schemars};
pub use mcp_proto::router::{Json, ok};
pub use mcp_proto::server::{Call, InputError};
pub use mcp_proto::{Progress, RpcError};
pub use mcp_runtime::client::{BlockingCalls, BlockingClientNext, ClientHandler, ClientRequest};
#[doc(inline)]
#[cfg(feature = "tasks")]
pub use mcp_runtime::server::ServerTasks;
pub use mcp_runtime::server::layers;
pub use mcp_runtime::server::router;
pub use mcp_runtime::server::{Answered, Attachments, Cx, Handle, HandlerFailure};
#[doc(inline)]
#[cfg(feature = "shared-sessions")]
pub use mcp_runtime::server::{SessionKeys, SharedSessions};
#[cfg(unix)]
pub use mcp_runtime::server::{StreamConnection, StreamServer, StreamServerHandle};
pub use mcp_runtime::{
    ConnectionClosed, Error, OutputSchemaViolation, RateLimit, Retry, SharedCache, SharedCompleter,
};
#[cfg(feature = "http")]
pub use mcp_std::io::raise_descriptor_limit;
pub use mcp_std::io::{
    InvalidStreamAddress, MemoryEnd, SerialConfig, SerialPort, Socket, Stdio, StreamAddress, memory_pair,
};
#[cfg(all(unix, feature = "signals"))]
pub use mcp_std::process::on_terminate;
pub use mcp_std::process::{Program, ShutdownReport, ShutdownStage, ShutdownTimeouts, Stderr};
#[cfg(feature = "validate")]
pub use mcp_std::schema;
#[cfg(feature = "shared-sessions")]
pub use mcp_std::session_store;
pub use mcp_std::task_store;
#[cfg(feature = "tls")]
pub use mcp_std::tls;
pub use server::{Server, serve, serve_stdio};

/// Options of a [`Client`] before it connects.
pub type Options = mcp_runtime::client::Options<Client>;

#[cfg(all(doctest, feature = "schemars"))]
#[doc = include_str!("../README.md")]
struct Readme;
