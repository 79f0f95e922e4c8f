//! Model Context Protocol servers and clients on tokio.
//!
//! # A server
//!
//! A [`Router`] dispatches calls to `async` closures by name. The schema of a tool's arguments comes from a Rust type
//! (feature `schemars`):
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_tokio::{Cx, Router, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), mcp_tokio::Error> {
//!     let mut router = Router::new("calculator", "1.0.0");
//!     router.tool("add", async |_: &mut Cx, Add { a, b }: Add| a + b).description("Adds two numbers");
//!     router.serve_stdio().await
//! }
//! ```
//!
//! The documentation of [`router::Router`] lists each kind of entry ([tools](router::Router::tool),
//! [resources](router::Router::resource), [templates](router::Router::resource_template),
//! [prompts](router::Router::prompt), [completions](router::Router::completion)), [shared
//! state](router::Router#state-of-handlers) and the [errors of handlers](router::Router#errors-of-handlers).
//! [`RouterUpdates`] adds and removes entries while the server runs.
//!
//! The futures of this crate run in a tokio runtime with its I/O and time drivers (`enable_all`), of one or of several
//! threads, which watches their sockets and pipes; a client and a server stay with the runtime that polled them first.
//! Deadlines follow the clock of the system: do not pause that of tokio, but test on [virtual time](testing). They spawn no
//! task, unless a router is wrapped in [`Spawned`]: the task that awaits one drives it, and
//! `tokio::spawn` moves it to a task of its own. Handlers run concurrently inside the future of their server. A handler
//! that computes for a long time without awaiting, or blocks, delays its server: move such work away with [`unblock`], or add
//! the tool by [`tool_blocking`](router::Router::tool_blocking). [`Spawned`] runs each call in a task of its own, on all threads of
//! the runtime. The future of a cancelled call is dropped.
//!
//! `mcp-smol` offers the same API under any executor, `mcp-threads` with a pool of workers, `mcp-blocking` as blocking
//! calls. The crate page of `mcp-blocking` explains what all have in common. The [guide] has first programs, and the way from
//! rmcp.
//!
//! # A client
//!
//! ```no_run
//! use mcp_tokio::{Client, Program, Stderr};
//!
//! # async fn example() -> Result<(), mcp_tokio::Error> {
//! let client = Client::spawn(Program::new("my-server").arg("--stdio").stderr(Stderr::Capture)).await?;
//! let greeting = serde_json::json!({"name": "you"});
//! let (tools, result) = tokio::join!(client.list_tools(), client.call_tool("greet", &greeting));
//! println!("{} {:?}", tools?.len(), result?.content[0].as_text());
//! // Returns how the server
//! // process ended.
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is a handle that tasks share: of the tasks that await it, one drives the connection for all. Spawn
//! `Client::run` to drive it between calls. Dropping the future of a call cancels the call at the server. An
//! [`AsyncClientHandler`] answers the server's requests with futures, which the driving task polls.
//!
//! # Layers around calls
//!
//! A layer is an asynchronous function around all requests of a client, which may look, refuse, rewrite, try again, time,
//! record, or answer without a call. The first one is the outermost, and a condition restricts a layer to a method or a tool.
//! [`Retry`] is a layer for requests that only read.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_tokio::Error> {
//! use mcp_tokio::mcp_proto::RawJson;
//! use mcp_tokio::mcp_proto::client::Config;
//! use mcp_tokio::mcp_proto::model::Tool;
//! use mcp_tokio::{Client, Cx, Retry, Router};
//!
//! let (near, far) = tokio::io::duplex(1 << 14);
//! let mut router = Router::new("greeter", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).expect("JSON");
//! let greet = async |_: &mut Cx, person: serde_json::Value| format!("Hello, {}!", person["name"]);
//! router.tool_with(Tool::new("greet", schema), greet);
//!
//! let options = Client::options(Config::new("guest", "1.0"))
//!     .layer(|request, next| async move {
//!         let method = request.method().to_owned();
//!         let result = next.run(request).await;
//!         eprintln!("{method}: {}", if result.is_ok() { "done" } else { "failed" });
//!         result
//!     })
//!     .layer(|mut request, next| async move {
//!         if request.is_tool("greet") {
//!             request.set_arguments(RawJson::new(r#"{"name":"you"}"#).expect("JSON"))?;
//!         }
//!         next.run(request).await
//!     })
//!     .retry(Retry::new());
//! let greeting = async {
//!     let client = options.connect(far).await?;
//!     let result = client.call_tool("greet", &serde_json::json!({"name": "my full name"})).await?;
//!     assert_eq!(result.content[0].as_text(), Some("Hello, \"you\"!"));
//!     client.close().await
//! };
//! let (served, greeted) = tokio::join!(router.serve(near), greeting);
//! served.and(greeted.map(drop))
//! # }
//! ```
//!
//! [The page of the options](mcp_runtime::client::Options#layers) says what passes through layers.
//!
//! # HTTP
//!
//! [`HttpServer`] serves all connections in one future. Its shards add threads, each with an engine and a runtime of its
//! own. On a runtime of several threads, spawn that future: a worker then both waits for the sockets and serves them. The thread
//! that calls `block_on`, as `main` does, is no worker, and another thread has to wake it for each request. That doubles the cost
//! of a small one.
//!
#![cfg_attr(all(feature = "http", feature = "schemars"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "http", feature = "schemars")), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use mcp_tokio::mcp_proto::http::server::Config;
//! use mcp_tokio::{Cx, HttpServer, Router};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), mcp_tokio::Error> {
//! let mut router = Router::new("clock", "1.0");
//! router.tool("time", async |_: &mut Cx, (): ()| "noon").description("Returns the time of day");
//! let server = HttpServer::bind("127.0.0.1:8080", router.config()?, Config::new(), router)?;
//! let handle = server.handle();
//! let serving = tokio::spawn(server.run());
//! // When the program ends:
//! handle.shutdown(Duration::from_secs(5));
//! serving.await.expect("the server does not panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! TLS works as in `mcp-blocking` (feature `tls`).
//!
//! # Sockets and serial lines
//!
//! A client reaches a server that reads and writes one message per line at `tcp://HOST:PORT`, `unix:PATH` or `serial:DEVICE:BAUD` by
//! `Client::options(config).connect_to(address.parse()?)`. A server serves the connections of an address by [`StreamServer`],
//! each on a thread of its own that runs one future, and a [`SerialPort`] as a `ByteStream` by [`serve`]:
//!
//! ```no_run
//! # #[cfg(unix)] {
//! use mcp_tokio::{ByteStream, Router, Server, StreamServer};
//!
//! let listener = StreamServer::bind(&"tcp://127.0.0.1:7000".parse()?)?.max_connections(8);
//! listener.run(|socket, connection| {
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     runtime.block_on(async {
//!         // One for each
//!         // connection, on its
//!         // thread.
//!         let router = Router::new("clock", "1.0.0");
//!         let server = Server::new(router.config()?, ByteStream::new(socket)?, router);
//!         connection.shut_down(server.handle());
//!         server.run().await
//!     })
//! })?;
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A client that sends no line within 30 s is disconnected. When all places are taken, a new client gets the place of a silent or
//! idle one ([`StreamServer::max_idle_time`]), or is disconnected at once.
//!
//! To serve many connections by one runtime, accept sockets with a listener of tokio and [`serve`] each in a task; the application
//! then bounds the tasks and their time.
//!
//! Such a stream has no encryption, no authorization, and no check of who connects. Bind it to `127.0.0.1` or a Unix socket unless
//! everybody who can reach the address may use the server.
//!
//! # Input in the middle of a call
//!
//! `Cx::elicit_as`, `Cx::elicit_url`, `Cx::sample` and `Cx::list_roots` ask the client for input. They are not futures.
//! While the answer is missing they return an error that the handler passes on with `?`. When the answer has arrived,
//! the handler runs again from its beginning.
//!
//! # Tests of a server
//!
//! `mcp_blocking::testing::pair` connects a client to a router in memory, on virtual time: see [`testing`].
//!
//! # A server without a router
//!
//! [`serve_stdio`], [`serve`] and `serve_http` take any `async` closure or [`Handler`] that answers all requests.
//! [`serve`] works on any stream with `AsyncRead` and `AsyncWrite` of tokio.
//!
//! # Guarantees
//!
//! - Two peers with full pipes never deadlock: a peer that writes continues to read.
//! - At most [`max_running`](generic::Server::max_running) handlers run at a time, more calls wait within
//!   [`Limits`](mcp_proto::Limits), and then reading pauses. A busy server yields to the other tasks of its runtime.
//! - The future of a call is dropped as soon as the call is cancelled or its client disconnects.
//! - A handler that panics causes an internal error response. The server continues.
//! - At the end of its input a server answers the calls received before it, within
//!   [`Limits::eof_grace_period`](mcp_proto::Limits), and returns.
//! - A handler is polled where its server is, or in a task of its own ([`Spawned`]): task-locals and spans around the server are the same
//!   for all clients, and a task of its own has none. What one client's handler sets is never seen by that of another one.
//! - Memory stays within [`Limits`](mcp_proto::Limits), whatever the peer sends.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `anyhow` | no | an `RpcError` inside an `anyhow::Error` that a handler returns answers the call |
//! | `auth` | no | authorization of clients: the module `auth`; enables `http` |
//! | `auth-server` | no | validators of the access tokens of a protected server: the module [`token`]; enables `auth` |
//! | `http` | yes | servers and clients over HTTP; server cards (SEP-2127) and `server.json`: the module `cards` |
//! | `schemars` | no | JSON Schemas of Rust types: arguments of tools, `Cx::elicit_as` |
//! | `signals` | no | `on_terminate`, a callback for `SIGTERM` and `SIGINT` that can shut a server down (Unix) |
//! | `tls` | no | HTTP over TLS by `rustls`: `https` URLs, `Options::tls`, `HttpServer::tls`, the module `tls` |
//! | `tasks` | no | tools that run as tasks (`Router::tasks`, `ServerTasks`), and clients that follow tasks |
//! | `shared-sessions` | no | sessions that [several processes serve](mcp_runtime::server::SharedSessions), in a store |
//! | `skills` | no | [`Router`] serves folders of skills, [`Client`] reads their files verified |
//! | `validate` | no | [`Router`] and [`Client`] validate tool arguments and results; the module `schema` |
//!
//! # Platforms
//!
//! Servers on byte streams and stdio, and `Client::connect`, work wherever tokio does, the rest on Unix only. The
//! page of [`mcp-std`](https://docs.rs/mcp-std#platforms) has the table.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod adapter_router;
#[cfg(unix)]
mod byte_stream;
mod client;
#[cfg(unix)]
mod fd_watch;
#[cfg(any(doc, doctest))]
#[cfg_attr(
    not(all(feature = "http", feature = "schemars")),
    allow(rustdoc::broken_intra_doc_links, reason = "some pages link to items of these features")
)]
pub mod guide;
mod runtime;
mod server;
mod spawned;
#[cfg(unix)]
mod stdio;
#[cfg(not(unix))]
#[path = "stdio_other.rs"]
mod stdio;
pub mod testing;
mod unblock;

pub use adapter_router::{LocalRouter, Router, RouterUpdates};
#[cfg(unix)]
pub use byte_stream::ByteStream;
pub use client::{Client, Connecting, Options, PendingCall, Run, RunWith, SharedBackend};
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
pub use mcp_runtime::client::{AsyncCalls, ClientHandler, ClientNext, ClientRequest};
#[doc(inline)]
pub use mcp_runtime::runtime::client::{AsyncClientHandler, async_handler};
#[doc(inline)]
#[cfg(feature = "tasks")]
pub use mcp_runtime::server::ServerTasks;
pub use mcp_runtime::server::layers;
pub use mcp_runtime::server::router;
pub use mcp_runtime::server::{
    Answered, AsyncCx as Cx, AsyncHandler as Handler, Attachments, Cx as BlockingCx, Handle, HandlerFailure,
};
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
pub use mcp_std::io::{InvalidStreamAddress, SerialConfig, SerialPort, Socket, StreamAddress};
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
pub use runtime::Tokio;
pub use server::serve_stdio;
#[cfg(feature = "http")]
pub use server::{HttpServer, serve_http};
pub use server::{Server, serve};
pub use spawned::Spawned;
pub use stdio::Stdio;
pub use unblock::unblock;

/// The types behind [`Client`], [`Server`] and their like, with all methods. They are generic over the runtime, which is
/// the same for all types of this crate.
pub mod generic {
    #[doc(inline)]
    pub use mcp_runtime::runtime::client::{Client, Connecting, PendingCall, Run, RunWith, SharedBackend};
    #[cfg(feature = "http")]
    #[doc(inline)]
    pub use mcp_runtime::runtime::http::HttpServer;
    #[doc(inline)]
    pub use mcp_runtime::runtime::server::Server;
}

#[cfg(all(doctest, unix, feature = "schemars"))]
#[doc = include_str!("../README.md")]
struct Readme;
