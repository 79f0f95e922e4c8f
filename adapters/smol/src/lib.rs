//! Model Context Protocol servers and clients as plain futures, on smol or any other executor.
//!
//! # A server
//!
//! A [`Router`] dispatches calls to `async` closures by name. The schema of a tool's arguments comes from a Rust type
//! (feature `schemars`):
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_smol::{Cx, Router, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_smol::Error> {
//!     let mut router = Router::new("calculator", "1.0.0");
//!     router.tool("add", async |_: &mut Cx, Add { a, b }: Add| a + b).description("Adds two numbers");
//!     mcp_smol::block_on(router.serve_stdio())
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
//! [`mcp_proto`] implements the protocol, and `mcp-std` implements byte streams and processes. This crate waits for
//! them with [`async-io`](async_io), whose reactor runs under any executor. It spawns no task: the task that awaits one
//! of its futures drives it, and [`block_on`](block_on()) is the cheapest way to await one. Only additional
//! [shards](#http) of an HTTP server have threads of their own. `mcp-blocking` offers the same API as blocking calls,
//! `mcp-threads` with a pool of workers. The crate page of `mcp-blocking` explains what all three have in common.
//! The [guide] has first programs.
//!
//! # Running handlers
//!
//! Handlers run concurrently inside the server's future. What they hold need not be `Send`; if it is, the server's
//! future is `Send`. A handler that computes for a long time without awaiting delays its server: move such work to a
//! thread by [`unblock`], as a handler that blocks must, or add the tool by
//! [`tool_blocking`](router::Router::tool_blocking). The future of a cancelled call is dropped.
//!
//! Handlers share state by [`Rc`](std::rc::Rc) and [`RefCell`](core::cell::RefCell). No borrow may last across an
//! `.await`, because other handlers run meanwhile.
//!
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//!
//! use mcp_smol::mcp_proto::{RawJson, model::{Resource, Tool}, router::ResourceTarget};
//! use mcp_smol::{Cx, Router};
//!
//! let log = Rc::new(RefCell::new(Vec::<String>::new()));
//! let mut router = Router::new("ship", "1.0");
//! let entries = log.clone();
//! let read = async move |_: &mut Cx, _: &ResourceTarget<'_>| entries.borrow().join("\n");
//! router.resource(Resource::new("ship://log", "log"), read);
//! let note = Tool::new("note", RawJson::new(r#"{"type":"object"}"#)?).description("Writes the arguments to the log");
//! router.tool_with(note, async move |_: &mut Cx, entry: serde_json::Value| {
//!     log.borrow_mut().push(entry.to_string());
//! });
//! # router.check().unwrap();
//! # Ok::<(), mcp_smol::mcp_proto::InvalidJson>(())
//! ```
//!
//! # News from another thread
//!
//! A [`Handle`] sends commands to a running server from any thread: publish a change, use the engine, shut down.
//! Subscribers are told of a published change.
//!
//! ```no_run
//! # #[cfg(unix)] {
//! use std::time::Duration;
//!
//! use mcp_smol::mcp_proto::{Change, model::Resource, router::ResourceTarget};
//! use mcp_smol::{Cx, Router, Server};
//!
//! let mut router = Router::new("harbour", "1.0");
//! let read = async |_: &mut Cx, _: &ResourceTarget<'_>| "high";
//! router.resource(Resource::new("harbour://tide", "tide"), read);
//! router.subscriptions(|uri, subscribed| eprintln!("{uri} has subscribers: {subscribed}"));
//! let server = Server::stdio(router.config()?, router)?;
//! let handle = server.handle();
//! std::thread::spawn(move || {
//!     while handle.publish(&Change::Resource("harbour://tide".into())).is_ok() {
//!         std::thread::sleep(Duration::from_secs(60));
//!     }
//! });
//! mcp_smol::block_on(server.run())?;
//! # }
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! # A client
//!
//! ```no_run
//! use mcp_smol::{Client, Program, Stderr};
//!
//! # mcp_smol::block_on(async {
//! let client = Client::spawn(Program::new("my-server").arg("--stdio").stderr(Stderr::Capture)).await?;
//! let (tools, result) = futures_lite::future::zip(
//!     client.list_tools(),
//!     client.call_tool("greet", &serde_json::json!({"name": "you"})),
//! )
//! .await;
//! println!("{} {:?}", tools?.len(), result?.content[0].as_text());
//! // Returns how the server
//! // process ended.
//! client.close().await?;
//! # Ok::<(), mcp_smol::Error>(())
//! # })?;
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! A [`Client`] is a handle that tasks share: of the tasks that await it, one drives the connection for all. Spawn
//! [`Client::run`] to drive it between calls. Dropping the future of a call cancels the call at the server. An
//! [`AsyncClientHandler`] answers the server's requests with futures, which the driving task polls.
//!
//! # Layers around calls
//!
//! A layer is an asynchronous function around all requests of a client, which may look, refuse, rewrite, try again, time,
//! record, or answer without a call. The first one is the outermost, and a condition restricts a layer to a method or a tool.
//! [`Retry`] is a layer for requests that only read.
//!
//! ```
//! use mcp_smol::mcp_proto::RawJson;
//! use mcp_smol::mcp_proto::client::Config;
//! use mcp_smol::mcp_proto::model::Tool;
//! use mcp_smol::{Client, Cx, Retry, Router, memory_pair};
//!
//! let (near, far) = memory_pair(1 << 14);
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
//! mcp_smol::block_on(async {
//!     let (served, greeted) = futures_lite::future::zip(router.serve(near), greeting).await;
//!     served.and(greeted.map(drop))
//! })?;
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! [The page of the options](mcp_runtime::client::Options#layers) says what passes through layers.
//!
//! # HTTP
//!
//! [`HttpServer`] serves all connections in one future. [`HttpServer::shards`] adds threads, each with an engine of its
//! own; [`HttpServer::shards_with`] builds a handler in each of them, because a [`Router`] cannot be shared.
//!
#![cfg_attr(all(feature = "http", feature = "schemars"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "http", feature = "schemars")), doc = "```ignore")]
//! use core::time::Duration;
//!
//! use mcp_smol::mcp_proto::http::server::Config;
//! use mcp_smol::{Cx, HttpServer, Router};
//!
//! let mut router = Router::new("clock", "1.0");
//! router.tool("time", async |_: &mut Cx, (): ()| "noon").description("Returns the time of day");
//! let server = HttpServer::bind("127.0.0.1:8080", router.config()?, Config::new(), router)?;
//! let handle = server.handle();
//! // A callback of `on_terminate`
//! // (feature `signals`) calls
//! // `handle.shutdown`.
//! # let _ = (handle, Duration::ZERO);
//! mcp_smol::block_on(server.run())?;
//! # Ok::<(), mcp_smol::Error>(())
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
//! use mcp_smol::{ByteStream, Router, Server, StreamServer, block_on};
//!
//! let listener = StreamServer::bind(&"tcp://127.0.0.1:7000".parse()?)?.max_connections(8);
//! listener.run(|socket, connection| {
//!     block_on(async {
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
//! To serve many connections by one thread, accept sockets with `async-io` (`Async<TcpStream>`) and [`serve`] each in a task; the
//! application then bounds the tasks and their time.
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
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_smol::mcp_proto::model::ElicitOutcome;
//! use mcp_smol::{Cx, Router, RpcError, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Stay {
//!     /// Name of the boat
//!     boat: String,
//!     nights: u8,
//! }
//!
//! async fn book(cx: &mut Cx, (): ()) -> Result<String, RpcError> {
//!     match cx.elicit_as::<Stay>("stay", "Which boat, and for how long?")? {
//!         ElicitOutcome::Accepted(stay) => Ok(format!("{}: {} nights", stay.boat, stay.nights)),
//!         ElicitOutcome::Declined | ElicitOutcome::Cancelled => Ok("not booked".to_owned()),
//!     }
//! }
//!
//! fn main() -> Result<(), mcp_smol::Error> {
//!     let mut router = Router::new("harbour", "1.0.0");
//!     router.tool("book", book).description("Books a berth");
//!     mcp_smol::block_on(router.serve_stdio())
//! }
//! ```
//!
//! # Tests of a server
//!
//! `mcp_blocking::testing::pair` connects a client to a router in memory, on virtual time: see [`testing`].
//!
//! # A server without a router
//!
//! [`serve_stdio`], [`serve`] and `serve_http` take any `async` closure or [`Handler`] that answers all requests.
//! [`serve`] works on any stream with `AsyncRead` and `AsyncWrite`.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mcp_smol::mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
//! use mcp_smol::mcp_proto::{Capabilities, Capability, RawJson, server::Config};
//! use mcp_smol::{Answered, Call, Cx, RpcError, serve_stdio};
//!
//! fn main() -> Result<(), mcp_smol::Error> {
//!     let config = Config::new("greeter", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
//!     let schema = RawJson::new(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#).unwrap();
//!     let tools = ListToolsResult::new(vec![Tool::new("greet", schema).description("Greets someone")]);
//!
//!     mcp_smol::block_on(serve_stdio(config, async |cx: &mut Cx, call: &Call| match call.method() {
//!         "tools/list" => cx.complete(&tools),
//!         "tools/call" => greet(cx, call).await,
//!         other => Err(RpcError::method_not_found(other)),
//!     }))
//! }
//!
//! async fn greet(cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
//!     #[derive(serde::Deserialize)]
//!     struct Greet<'a> {
//!         name: std::borrow::Cow<'a, str>,
//!     }
//!     let greet: Greet<'_> = call.tool_call()?.parse()?;
//!     // Other calls are answered
//!     // meanwhile.
//!     cx.sleep(Duration::from_millis(100)).await?;
//!     cx.complete(&CallToolResult::text(format!("Hello, {}!", greet.name)))
//! }
//! ```
//!
//! # Guarantees
//!
//! - Two peers with full pipes never deadlock: a peer that writes continues to read.
//! - One timer serves all deadlines of a connection or server. It is reset only for an earlier deadline.
//! - A future is polled only after it was woken. At most [`max_running`](Server::max_running) handlers run at a time,
//!   more calls wait within [`Limits`](mcp_proto::Limits), and then reading pauses. A busy server yields to the other
//!   futures of its executor.
//! - The future of a call is dropped as soon as the call is cancelled or its client disconnects. A future that never
//!   completes occupies its slot.
//! - The answers to requests that were read together are written together, unless a handler is slow.
//! - At the end of its input a server answers the calls received before it, within
//!   [`Limits::eof_grace_period`](mcp_proto::Limits), and returns. A client that disconnects is noticed, and is not an
//!   error.
//! - A handler that panics causes an internal error response. The server continues.
//! - A handler is polled where its server is: what surrounds that future (a span, a value of its task) is the same for all clients, and
//!   none of them is seen by the handlers of another one.
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
//! Servers on byte streams and stdio, and [`Client::connect`], work wherever `async-io` does, the rest on Unix only. The
//! page of [`mcp-std`](https://docs.rs/mcp-std#platforms) has the table.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod adapter_router;
// Code that servers use is generic or `#[inline]`, as the client is, so that programs link no object file of this crate that
// they do not need. The linker drops unused code but keeps its unwinding tables.

mod block_on;
#[cfg(unix)]
mod byte_stream;
mod client;
#[cfg(any(doc, doctest))]
#[cfg_attr(
    not(feature = "http"),
    allow(rustdoc::broken_intra_doc_links, reason = "some pages link to items of this feature")
)]
pub mod guide;
mod memory;
#[cfg(unix)]
mod reactor_watch;
mod runtime;
mod server;
#[cfg(all(target_os = "linux", not(mcp_portable)))]
mod stdio;
#[cfg(all(unix, any(not(target_os = "linux"), mcp_portable)))]
#[path = "stdio_unix.rs"]
mod stdio;
#[cfg(not(unix))]
#[path = "stdio_other.rs"]
mod stdio;
pub mod testing;
mod unblock;
#[cfg(any(not(target_os = "linux"), mcp_portable))]
mod unblocked_output;

pub use adapter_router::{Router, RouterUpdates, SendRouter};
pub use block_on::block_on;
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
pub use memory::{MemoryEnd, memory_pair};
pub use runtime::Smol;
pub use server::serve_stdio;
#[cfg(feature = "http")]
pub use server::{HttpServer, serve_http};
pub use server::{Server, serve};
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
