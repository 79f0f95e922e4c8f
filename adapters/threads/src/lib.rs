//! Model Context Protocol servers and clients on threads: any thread calls, and none waits for another's answer
//!
//! The protocol is [`mcp_proto`]'s, processes and byte streams are [`mcp_std`]'s; this crate has threads of its own move
//! the bytes between them. `mcp-blocking` has the same surface with no thread at all, `mcp-smol` has it as futures.
//!
//! # A server
//!
//! ```no_run
//! use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
//! use mcp_proto::{Capabilities, Capability, RawJson, RpcError, server::Config};
//! use mcp_threads::{Call, Cx, serve_stdio};
//!
//! fn main() -> Result<(), mcp_threads::Error> {
//!     let config = Config::new("files", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools));
//!     let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//!     let tools = ListToolsResult::new(vec![Tool::new("count", schema).description("Counts for a while")]);
//!
//!     serve_stdio(config, move |cx: &mut Cx<'_>, call: &Call| match call.method() {
//!         "tools/list" => cx.complete(&tools),
//!         "tools/call" => {
//!             // On a worker: others are answered meanwhile.
//!             for _ in 0..10 {
//!                 cx.sleep(std::time::Duration::from_millis(100))?; // an error when nobody waits any more
//!             }
//!             cx.complete(&CallToolResult::text("10"))
//!         }
//!         other => Err(RpcError::method_not_found(other)),
//!     })
//! }
//! ```
//!
//! One thread reads and writes; handlers run on [workers](Server::workers), several at a time, so they are `Fn`, `Send`
//! and `Sync`. [`Router`] is a server made of closures, [`serve`] does the same on any stream, [`Server`] says how many
//! workers there are and lets you hold the loop, and a [`Handle`] gives it commands from any thread. [`Handler`] is for
//! servers that want to know more than their calls.
//!
//! # Over HTTP
//!
//! [`serve_http`] and [`HttpServer`] serve the same handlers to many clients at once, on one thread or on
//! [several](HttpServer::shards).
//!
//! ```no_run
//! # #[cfg(feature = "http")] {
//! use core::time::Duration;
//! use mcp_proto::{http, model::Tool};
//! use mcp_threads::{HttpServer, Router};
//!
//! let mut router = Router::new("clock", "1.0");
//! let schema = mcp_proto::RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("time", schema), |_, _: serde_json::Value| "noon");
//! let (config, http) = (router.config()?, http::server::Config::new());
//! let mut server = HttpServer::bind("127.0.0.1:8080", config, http, router)?.shards(2);
//! let handle = server.handle()?;
//! // With the feature `signals`: mcp_threads::on_terminate(move || handle.shutdown(Duration::from_secs(5)))?;
//! # let _ = (handle, Duration::ZERO);
//! server.run()?;
//! # }
//! # Ok::<(), mcp_threads::Error>(())
//! ```
//!
//! # What holds
//!
//! - A handler holds up no other, and none holds up reading and writing. One that never returns costs its worker; when
//!   the server ends, it is left behind.
//! - No more handlers run than there are workers, and no more calls wait than
//!   [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits) let: beyond that, reading
//!   pauses.
//! - Answers leave in the order in which they are ready, and are written together where several are.
//! - A call that was cancelled is told so ([`Cx::checkpoint`], [`Cx::sleep`], [`Cx::progress`]), or is not begun.
//! - A handler that panics answers with an internal error, and its worker goes on.
//! - A server that reads the end of its input, or is [told to](Handle::shutdown), answers what came before within its
//!   time of grace, and returns.
//!
//! # Features
//!
//! Those of `mcp-blocking`: `base64`, `crypto`, `http`, `schemars`, `signals`, `tls`, `validate`.

#![forbid(unsafe_code)]

extern crate alloc;

mod client;
mod handler;
#[cfg(feature = "http")]
mod http;
mod pool;
mod router;
mod server;
pub mod testing;

pub use client::{Client, Pending};
pub use handler::Handler;
#[cfg(feature = "http")]
pub use http::{HttpServer, serve_http};
pub use mcp_proto::server::{Call, NoAnswer};
pub use mcp_std::child::{Program, Stderr};
pub use mcp_std::client::ClientHandler;
#[cfg(all(unix, feature = "signals"))]
pub use mcp_std::on_terminate;
pub use mcp_std::serve::{Answered, Cx, Failure, Handle};
#[cfg(feature = "tls")]
pub use mcp_std::tls;
#[cfg(feature = "validate")]
pub use mcp_std::validate;
pub use mcp_std::{BadResult, Closed, Error, MemoryEnd, SharedCache, memory_pair};
pub use router::{Later, Router};
pub use server::{Server, serve, serve_stdio};

/// A client that is about to connect: see [`Options`](mcp_std::client::Options)
pub type Options = mcp_std::client::Options<Client>;
