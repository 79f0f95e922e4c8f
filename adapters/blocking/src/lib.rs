//! Model Context Protocol servers and clients in plain blocking code: one thread, one loop, no runtime.
//!
//! The [guide](guide) has a page for each feature of the protocol, with programs that run. This page is the overview.
//!
//! # A server
//!
//! A [`Router`] dispatches calls to closures by name. The schema of a tool's arguments comes from a Rust type (feature
//! `schemars`):
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_blocking::{Router, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_blocking::Error> {
//!     let mut router = Router::new("calculator", "1.0.0");
//!     router.tool("add", |_, Add { a, b }: Add| a + b).description("Adds two numbers");
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
//! [`mcp_proto`] implements the protocol, and `mcp-std` implements byte streams and processes. This crate moves the
//! bytes between them. I/O and handlers run only inside the calls that you make, on the calling thread. Other threads
//! exist for I/O on Windows, where pipes cannot be polled, and briefly to resolve host names and to flush stdout.
//! `mcp-threads` offers the same API with a pool of workers, `mcp-tokio` and `mcp-smol` with futures.
//!
//! # Running handlers
//!
//! Handlers run on the loop's thread, one at a time, so closures need not be `Send`: they are `Fn`, and keep what changes in cells. While a handler
//! runs, no other call and no connection makes progress. Three methods of [`Cx`] keep the loop moving:
//! [`progress`](Cx::progress), [`checkpoint`](Cx::checkpoint) and [`sleep`](Cx::sleep). They also return an error when
//! the call was cancelled, so a long handler that uses `?` on them ends early.
//!
//! Use `mcp-threads` if a handler may block: its handlers are `Fn + Send + Sync` and run in parallel on a bounded pool
//! of workers, and its HTTP server can use several threads. Use `mcp-tokio` or `mcp-smol` if handlers are `async`.
//!
//! Handlers share state by [`Rc`](std::rc::Rc) and [`RefCell`](core::cell::RefCell):
//!
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//!
//! use mcp_blocking::mcp_proto::{RawJson, model::{Resource, Tool}};
//! use mcp_blocking::Router;
//!
//! let log = Rc::new(RefCell::new(Vec::<String>::new()));
//! let mut router = Router::new("ship", "1.0");
//! let entries = log.clone();
//! router.resource(Resource::new("ship://log", "log"), move |_, _| entries.borrow().join("\n"));
//! let note = Tool::new("note", RawJson::new(r#"{"type":"object"}"#)?).description("Writes the arguments to the log");
//! router.tool_with(note, move |_, entry: serde_json::Value| log.borrow_mut().push(entry.to_string()));
//! # router.check().unwrap();
//! # Ok::<(), mcp_blocking::mcp_proto::InvalidJson>(())
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
//! use mcp_blocking::mcp_proto::{Change, model::Resource};
//! use mcp_blocking::{Router, Server};
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
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! # A client
//!
//! ```no_run
//! use mcp_blocking::{Client, Program, Stderr};
//!
//! let program = Program::new("my-server").arg("--stdio").stderr(Stderr::Capture);
//! let client = Client::spawn(program)?;
//! for tool in client.list_tools()? {
//!     println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//! }
//! let result = client.call_tool("greet", &serde_json::json!({"name": "you"}))?;
//! println!("{:?}", result.content[0].as_text());
//! // How the server process
//! // ended.
//! let report = client.close()?;
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! - [`Client::send`](BlockingCalls::send) makes any typed request, [`Client::request`](BlockingCalls::request) any request
//!   with an untyped result.
//! - [`Client::start`](BlockingCalls::start) and [`Client::wait`] run several calls at the same time.
//! - [`Client::poll`] handles messages of the server between calls.
//! - [`ClientHandler`] receives the requests and notifications of the server.
//!
//! # Layers around calls
//!
//! [`Options::layer`] adds a function around all requests of a client, which may look, refuse, rewrite, try again, time,
//! record, or answer without a call. The first one is the outermost, and a condition restricts a layer to a method or a tool.
//! [`Retry`] is a layer for requests that only read.
//!
#![cfg_attr(feature = "schemars", doc = "```")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_blocking::mcp_proto::RawJson;
//! use mcp_blocking::{Client, Retry, Router, schemars, testing};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Person {
//!     name: String,
//! }
//!
//! let mut router = Router::new("greeter", "1.0");
//! router.tool("greet", |_, person: Person| format!("Hello, {}!", person.name));
//!
//! let options = Client::options(mcp_blocking::mcp_proto::client::Config::new("guest", "1.0"))
//!     .layer(|request, next| {
//!         let (method, name) = (request.method().to_owned(), request.name());
//!         let result = next.run(request);
//!         eprintln!("{method} {name:?}: {}", if result.is_ok() { "done" } else { "failed" });
//!         result
//!     })
//!     .layer(|mut request, next| {
//!         if request.is_tool("greet") {
//!             request.set_arguments(RawJson::new(r#"{"name":"you"}"#).expect("JSON"))?;
//!         }
//!         next.run(request)
//!     })
//!     .retry(Retry::new());
//! let client = testing::pair(router, options)?;
//! let result = client.call_tool("greet", &serde_json::json!({"name": "my full name"}))?;
//! assert_eq!(result.content[0].as_text(), Some("Hello, you!"));
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! [The page of the options](mcp_runtime::client::Options#layers) says what passes through layers.
//!
//! # HTTP
//!
//! The same router serves Streamable HTTP in every revision on one path, and HTTP+SSE of 2024-11-05 if
//! [`Config::http_sse`](mcp_proto::http::server::Config::http_sse) is set. Requests with a foreign `Host` or `Origin`
//! are refused until [`Config`](mcp_proto::http::server::Config) allows them.
//!
#![cfg_attr(all(feature = "http", feature = "schemars"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "http", feature = "schemars")), doc = "```ignore")]
//! use mcp_blocking::Router;
//! use mcp_blocking::mcp_proto::http::server::Config;
//!
//! fn main() -> Result<(), mcp_blocking::Error> {
//!     let mut router = Router::new("clock", "1.0.0");
//!     router.tool("time", |_, (): ()| "noon").description("Returns the time of day");
//!     router.serve_http("127.0.0.1:8080", Config::new().path("/mcp"))
//! }
//! ```
//!
//! A client connects to a URL, and finds out which revision and transport the server speaks:
//!
//! ```no_run
//! # #[cfg(feature = "http")] {
//! use mcp_blocking::Client;
//!
//! let client = Client::connect_url("http://localhost:8080/mcp")?;
//! println!("{:?}", client.call_tool("time", &serde_json::json!({}))?.content[0].as_text());
//! client.close()?;
//! # }
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! One thread serves all connections and runs the handlers, so a slow handler delays every client.
//! `HttpServer` gives access to the loop, the limits of connections and a [`Handle`] for other threads.
//!
//! With the feature `tls` (`rustls` and `ring`, no OpenSSL) clients connect to `https` URLs. They check certificates
//! against the roots of the system and roots of your own:
//! `Client::options(…).tls(ClientTls::new().root_file("ca.pem")?)`. A server uses
//! `HttpServer::bind(…)?.tls(ServerTls::from_files("chain.pem", "key.pem")?)`. An idle connection with TLS holds about
//! 8 KiB more. A proxy in front of the server works as well.
//!
//! Under another HTTP stack (`hyper`, `axum`), use `mcp-tower`, which is a `tower` service. Where there is none, use
//! [`http::server::Server`](mcp_proto::http::server::Server) directly. It works on exchanges: pass the head of a request to
//! `open` and its body to `handle_body`, and take the response from `response` and `transmit`.
//!
//! # Sockets and serial lines
//!
//! A client reaches a server that reads and writes one message per line at `tcp://HOST:PORT`, `unix:PATH` or `serial:DEVICE:BAUD` by
//! `Client::options(config).connect_to(address.parse()?)`. A server serves the connections of an address by [`StreamServer`], each
//! on a thread of its own, or a [`SerialPort`] by [`serve`]:
//!
//! ```no_run
//! # #[cfg(unix)] {
//! use mcp_blocking::{Router, Server, StreamServer};
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
//! A handler may ask the client for input: [`Cx::elicit_as`](Cx::elicit) and [`Cx::elicit_url`] ask the user,
//! [`Cx::sample`] asks the model, and [`Cx::list_roots`] asks for directories. While the answer is missing, the method
//! returns an error that the handler passes on with `?`. When the answer has arrived, the handler runs again from its
//! beginning, and the method returns the answer. Code before the method therefore runs more than once.
//!
//! In legacy revisions the question is a request to the client. In 2026-07-28 it is an `input_required` result, and the
//! client repeats the call with the answer and with state that the server has sealed. The handler is the same for both.
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use mcp_blocking::mcp_proto::{Change, model::ElicitOutcome};
//! use mcp_blocking::{Cx, Router, RpcError, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Stay {
//!     /// Name of the boat
//!     boat: String,
//!     nights: u8,
//! }
//!
//! fn book(cx: &mut Cx<'_>, (): ()) -> Result<String, RpcError> {
//!     let answer = match cx.elicit_as::<Stay>("stay", "Which boat, and for how long?")? {
//!         ElicitOutcome::Accepted(stay) => format!("{}: {} nights", stay.boat, stay.nights),
//!         ElicitOutcome::Declined | ElicitOutcome::Cancelled => "not booked".to_owned(),
//!     };
//!     // Notifies subscribers.
//!     cx.publish(&Change::Resource("harbour://berths".into()));
//!     Ok(answer)
//! }
//!
//! fn main() -> Result<(), mcp_blocking::Error> {
//!     let mut router = Router::new("harbour", "1.0.0");
//!     router.tool("book", book).description("Books a berth");
//!     router.subscriptions(|uri, subscribed| eprintln!("{uri} has subscribers: {subscribed}"));
//!     router.serve_stdio()
//! }
//! ```
//!
//! A client declares what it can answer as capabilities, and answers in a [`ClientHandler`]:
//!
//! ```no_run
//! use mcp_blocking::mcp_proto::client::Config;
//! use mcp_blocking::mcp_proto::model::{ElicitParams, ElicitResult, SubscriptionFilter};
//! use mcp_blocking::mcp_proto::{Capabilities, Capability, Change};
//! use mcp_blocking::{Client, ClientHandler, Program, RpcError};
//!
//! struct User;
//!
//! impl ClientHandler for User {
//!     fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
//!         // Or `decline()`,
//!         // `cancel()`.
//!         Ok(ElicitResult::accept([("boat", "Aline".into()), ("nights", 3.into())]))
//!     }
//!
//!     fn changed(&self, change: &Change) {
//!         println!("{change:?}");
//!     }
//! }
//!
//! fn main() -> Result<(), mcp_blocking::Error> {
//!     let config = Config::new("sailor", "1.0.0").capabilities(Capabilities::new().with(Capability::Elicitation));
//!     let client = Client::options(config).handler(User).spawn(Program::new("harbour"))?;
//!     client.subscribe(&SubscriptionFilter::new().resource_subscriptions(["harbour://berths".into()]))?;
//!     println!("{:?}", client.call_tool("book", &serde_json::json!({}))?.content[0].as_text());
//!     Ok(())
//! }
//! ```
//!
//! # Tests of a server
//!
//! [`testing::pair`] connects a client to a router in the same thread, in memory. Time is virtual: a sleeping handler
//! costs no real time, and timeouts fire as they would in production. The router may also be one of `mcp_threads` or
//! `mcp_smol`.
//!
#![cfg_attr(feature = "schemars", doc = "```")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use mcp_blocking::mcp_proto::CallError;
//! use mcp_blocking::{Error, Router, ok, schemars, testing};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Brew {
//!     minutes: u64,
//! }
//!
//! let mut router = Router::new("kitchen", "1.0");
//! router.tool("brew", |cx, Brew { minutes }: Brew| {
//!     cx.sleep(Duration::from_secs(minutes * 60))?;
//!     ok("tea")
//! }).description("Makes tea");
//! let client = testing::pair(router, Default::default())?;
//! let error = client.call_tool("brew", &serde_json::json!({"minutes": 5})).unwrap_err();
//! // The default timeout is
//! // shorter.
//! assert!(matches!(error, Error::Call(CallError::TimedOut)));
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! # A server without a router
//!
//! [`serve_stdio`], [`serve`] and `serve_http` take any closure or [`Handler`] that answers all requests. [`Server`]
//! gives access to the loop.
//!
//! ```no_run
//! use mcp_blocking::mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
//! use mcp_blocking::mcp_proto::{Capabilities, Capability, RawJson, server::Config};
//! use mcp_blocking::{Answered, Call, Cx, RpcError, serve_stdio};
//!
//! #[derive(serde::Deserialize)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_blocking::Error> {
//!     let config = Config::new("calculator", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
//!     serve_stdio(config, handle)
//! }
//!
//! fn handle(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
//!     if call.method() == "tools/list" {
//!         let schema = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}"#;
//!         let add = Tool::new("add", RawJson::new(schema).expect("JSON")).description("Adds two numbers");
//!         return cx.complete(&ListToolsResult::new(vec![add]));
//!     }
//!     let tool = call.tool_call()?;
//!     match &*tool.name {
//!         "add" => {
//!             let Add { a, b } = tool.parse()?;
//!             cx.complete(&CallToolResult::text((a + b).to_string()))
//!         }
//!         other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
//!     }
//! }
//! ```
//!
//! The engine handles everything else: negotiation, pings, malformed messages, requests for capabilities that were not
//! declared, cancellation, rate limits and deadlines. A handler does not see the revision of the client;
//! `core/src/eras.md` in the repository lists the few differences that an application can notice.
//!
//! # Guarantees
//!
//! - Two peers with full pipes never deadlock: a peer that writes continues to read.
//! - Deadlines pass while this crate waits, in both roles.
//! - The answers to requests that were read together are written together, unless a handler is slow.
//! - At the end of its input a server answers the calls received before it, within
//!   [`Limits::eof_grace_period`](mcp_proto::Limits), and returns. A client that disconnects is noticed, and is not an
//!   error.
//! - A handler that panics causes an internal error response. The server continues.
//! - Cached lists and resources are requested again when the server announces a change, and not before
//!   ([`Options::no_cache`] turns the cache off).
//! - If a server process dies, the [error](Error) has its exit status and, with [`Stderr::Capture`], the end of its
//!   stderr. No server process outlives its [`Client`].
//! - Handlers run on the thread that serves, one at a time. Its thread-locals are theirs: what one leaves there, the next one finds.
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
//! With `validate`, [`Router::clear_validator`] and [`Options::no_validator`] turn validation off.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod adapter_router;
mod client;
// Documentation alone. Its programs run in `tests/system/src/guide.rs`, since they need other packages.
#[cfg(all(doc, not(doctest)))]
#[cfg_attr(
    not(all(feature = "auth", feature = "schemars", feature = "skills")),
    allow(rustdoc::broken_intra_doc_links, reason = "some pages link to items of these features")
)]
pub mod guide;
mod server;
pub mod testing;

pub use adapter_router::{Blocking, Router, RouterUpdates};
pub use client::{Client, LocalBackend};
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
#[cfg(feature = "http")]
#[doc(inline)]
pub use mcp_runtime::server::HttpServer;
#[doc(inline)]
pub use mcp_runtime::server::Server;
#[doc(inline)]
#[cfg(feature = "tasks")]
pub use mcp_runtime::server::ServerTasks;
pub use mcp_runtime::server::layers;
pub use mcp_runtime::server::router;
pub use mcp_runtime::server::{Answered, Attachments, Cx, Handle, Handler, HandlerFailure};
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
#[cfg(feature = "http")]
pub use server::serve_http;
pub use server::{serve, serve_stdio};

/// Options of a [`Client`] before it connects.
pub type Options = mcp_runtime::client::Options<Client>;

#[cfg(all(doctest, feature = "schemars"))]
#[doc = include_str!("../README.md")]
struct Readme;
