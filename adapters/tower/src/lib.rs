//! Model Context Protocol servers as a tower service.
//!
//! [`McpService`] is a [`tower_service::Service`] from [`http::Request`] to [`http::Response`], with any
//! [`http_body::Body`] as input and [`McpBody`] as output. All of MCP over HTTP works in it: both eras, event streams,
//! progress, input requests, subscriptions, sessions, resumption, authorization. It starts no threads, except
//! for what blocks: validators of tokens, stores of [tasks](task_store), and handlers that ask for it ([`unblock`]).
//!
//! ```
//! use http_body_util::{BodyExt as _, Full};
//! use mcp_tower::{Cx, McpService, Router};
//! use mcp_tower::mcp_proto::{RawJson, model::Tool};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut router = Router::new("greeter", "1.0.0");
//! let tool = Tool::new("greet", RawJson::new(r#"{"type":"object"}"#)?);
//! router.tool_with(tool, async |_: &mut Cx, _: serde_json::Value| "hello");
//! let service = McpService::new(router)?;
//!
//! // A web framework does the
//! // following. In axum,
//! // `route_service` mounts the
//! // service at a path.
//! # futures_lite::future::block_on(async {
//! let request = http::Request::post("/mcp").header("host", "localhost").body(Full::<bytes::Bytes>::default())?;
//! let response = service.handle(request).await?;
//! // Neither JSON nor anything.
//! assert_eq!(response.status(), 415);
//! let body = response.into_body().collect().await?.to_bytes();
//! # assert!(!body.is_empty());
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The [guide] has pages about axum, hyper and Workers.
//!
//! # Mounting
//!
//! The path of the request must be that of [`HttpConfig::path`] (`/mcp` by default). In axum, `route_service` keeps it;
//! `nest_service` removes it, so set `HttpConfig::new().path("/")` there. Public documents (metadata of a
//! [protected](HttpConfig::protected) server, server cards) have paths of their own: give each a `route_service` too, so that other
//! paths keep the 404 of the product. Requests whose `Host` or `Origin` is not of this machine get 403: allow names by
//! [`HttpConfig::allow_host`] and [`HttpConfig::allow_origin`]. HTTP+SSE (2024-11-05) tells clients the path for their messages as
//! [`HttpConfig`] has it, so do not nest it under a prefix. A request over HTTP/2 has the host in its authority.
//!
//! # Handlers
//!
//! A [`Router`] has `async` closures, whose futures are [`Send`] (see [`router::Router`] for all kinds of entries). That of
//! `mcp-tokio` is accepted as well. Nothing is locked while a handler runs. It may use what the runtime around it has, and call the
//! same service: such calls are nested in the poll of their
//! caller, and take a place of [`Builder::max_running`] besides it, so keep them few and shallow. A handler that computes for a long time
//! without awaiting, or blocks, holds up the task that polls it: move such work to a thread by [`unblock`]. A panic is caught and ends its call.
//!
//! A handler is polled in the context of its own request or in none, never in that of another one:
//!
//! - until its response begins, by the [`ResponseFuture`] of its request. Task-locals and spans of the layers around the service are there;
//! - then, on an event stream, by whatever [drives](McpService::run) the service, or if nothing does by the [`McpBody`]: task-locals of the
//!   layers are **absent**. So is the case for the run of a task, and for a call whose client has left.
//!
//! The span of the request is entered wherever its handler is polled (feature `tracing`). What else a handler is to know of its
//! request is a value of the request, as follows; it is there at all times. Token validators, taps and observers run wherever the
//! service is driven, and may depend on no context.
//!
//! # Requests in view
//!
//! Handlers see the path, the fields that [`HttpConfig::visible_fields`] names
//! (`cx.http().and_then(|request| request.field_text("user-agent"))`), and values that a layer in front has put into the extensions of the request, if [`Builder::extension`] names their types:
//!
//! ```
//! # use mcp_tower::mcp_proto::{RawJson, model::Tool};
//! # use mcp_tower::{Cx, McpService, Router};
//! /// A layer that knows users
//! /// puts it into
//! /// `request.extensions_mut()`.
//! #[derive(Clone)]
//! struct User(String);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut router = Router::new("greeter", "1.0.0");
//! # let tool = Tool::new("greet", RawJson::new(r#"{"type":"object"}"#)?);
//! router.tool_with(tool, async |cx: &mut Cx, _: serde_json::Value| match cx.extension() {
//!     Some(User(name)) => format!("hello {name}"),
//!     None => "hello".to_owned(),
//! });
//! let service = McpService::builder(router).extension::<User>().build()?;
//! # let _ = service;
//! # Ok(())
//! # }
//! ```
//!
//! An [`Identity`] among the extensions is the principal of the request, as if it came from a token: `cx.principal()` returns
//! it, sessions, tasks and sealed state are bound to it, and one that began a session is the only one that the session serves. The
//! [page about axum](guide::axum#a-product-with-users) has such a layer.
//!
//! # How it is driven
//!
//! Each poll of a [`ResponseFuture`] or an [`McpBody`] does the protocol's work that is there, its own and that of others, polls the
//! handlers of its own request, and wakes those whose output or handlers are next. So:
//!
//! - *Dropping* a future or a body before its end is a disconnect: a modern call is cancelled, and its handler's future
//!   is dropped. What it was woken for is passed on to another one that waits.
//! - *Back-pressure* comes from the body: it is filled when it is polled, from queues with the bounds of
//!   [`Limits`](mcp_proto::Limits). Requests beyond them get 503, and a body beyond `max_frame` 413.
//! - *Timers* are those of a [`Timer`]: of tokio (feature `tokio`) or of async-io (feature `async-io`), or your own. Without any,
//!   deadlines are met when something is polled.
//! - *Between requests*, when nothing is polled, nothing moves. Handlers without a response that polls them (of an event stream, of
//!   a legacy client that left and may come back, of HTTP+SSE, whose answers are on another stream, of a task) need a driver: [`McpService::run`], which you spawn. Without it, the
//!   service spawns one for as long as there are such handlers, where it is polled in tokio (feature `tokio`); elsewhere
//!   they wait.
//! - *Shutting down* is [`McpService::shutdown`]. Await it in the future that stops the web server, as the
//!   [README](https://github.com/mcp-proto/mcp-proto/tree/main/adapters/tower) shows. Not after the web server has ended: it waits for
//!   event streams, which only the shutdown of the service ends.
//! - *Threads* that poll at the same time share one engine, which is locked for short steps. [`Builder::shards`] makes several.
//!
//! # Authorization
//!
//! [`HttpConfig::protected`] names the authorization server, and [`Builder::validate_tokens`] sets what decides about access tokens:
//! a function, or with the feature `auth-server` a validator of [`token`]. Mount the service at
//! `/.well-known/oauth-protected-resource/mcp` as well (with the path of the endpoint at the end), so that clients find its metadata. A validator that answers at once runs within a poll of a request.
//! `tests/programs/library` in the repository is a complete program.
//!
//! # Workers
//!
//! The crate builds for `wasm32-unknown-unknown`. A host of that target has neither clock nor randomness that Rust knows:
//! set [`Builder::timer`] and [`Builder::secret`]. Keep the service for all requests of an isolate, or make one for each request
//! without sessions ([`HttpConfig::sessions`]`(false)`): the modern era needs none, and of the legacy revisions all requests
//! work that need no session. Sealed state needs the same keys in each
//! ([`Config::seal`](mcp_proto::server::Config)), and ids a secret that no other has. Validators of tokens must decide at once there.
//! Most such programs abort on a panic, so it is not caught. Handlers are [`Send`]: wrap futures of the host that are not.
//! `tests/targets/worker` in the repository is an example.
//!
//! # Clients
//!
//! [`connect`] makes a client of `mcp-tokio` or `mcp-smol` that sends its requests by an HTTP client of yours: that of hyper,
//! any other `tower` service, or a function around one such as `reqwest`.
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `tracing` (default) | handlers run in the spans of the layers around the service |
//! | `tokio`, `async-io` | timers |
//! | `events` | a service for deliveries of events to webhooks ([`WebhookService`]) |
//! | `schemars` | schemas of Rust types |
//! | `validate` | JSON Schema validation |
//! | `auth-server` | validators for JWTs and introspection ([`token`]), and the fetcher of their keys (`auth`) |
//! | `tls` | keys from authorization servers with `https`: without it only those of this machine are reached |
//! | `anyhow`, `shared-sessions`, `skills`, `tasks` | as in the other adapters |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod body;
mod client;
#[cfg(any(doc, doctest))]
pub mod guide;
mod handler;
mod request_view;
mod response_future;
mod service;
mod shard;
mod time;
mod unblock;
#[cfg(feature = "events")]
mod webhook;

pub use body::McpBody;
pub use client::{connect, connect_with};
#[cfg(feature = "auth-server")]
#[doc(inline)]
pub use mcp_auth::client as auth;
pub use mcp_auth::token;
#[cfg(feature = "events")]
pub use mcp_events as events;
pub use mcp_extensions::cards;
pub use mcp_extensions::{pins, skills};
pub use mcp_proto;
pub use mcp_proto::http::server::Config as HttpConfig;
#[cfg(feature = "schemars")]
pub use mcp_proto::router::schema::{Typed, schemars};
pub use mcp_proto::router::{Json, ok};
pub use mcp_proto::server::{Call, Identity, InputError};
pub use mcp_proto::{Progress, RpcError};
pub use mcp_runtime::Error;
#[doc(inline)]
#[cfg(feature = "tasks")]
pub use mcp_runtime::server::ServerTasks;
pub use mcp_runtime::server::layers;
pub use mcp_runtime::server::router;
pub use mcp_runtime::server::{Answered, AsyncCx as Cx, Cx as BlockingCx, HandlerFailure};
#[doc(inline)]
#[cfg(feature = "shared-sessions")]
pub use mcp_runtime::server::{SessionKeys, SharedSessions};
#[cfg(feature = "validate")]
pub use mcp_std::schema;
#[cfg(feature = "shared-sessions")]
pub use mcp_std::session_store;
use mcp_std::sync::{BlockingJob, BlockingPool, run_on_thread};
pub use mcp_std::task_store;
pub use response_future::ResponseFuture;
pub use service::{Builder, McpService, Run};
#[cfg(feature = "async-io")]
pub use time::AsyncIoTimer;
#[cfg(feature = "tokio")]
pub use time::TokioTimer;
pub use time::{Sleep, StdClock, Timer};
pub use unblock::unblock;
#[cfg(feature = "events")]
pub use webhook::WebhookService;

/// This adapter, in the type of its [`Router`].
#[derive(Clone, Copy, Debug)]
pub enum Tower {}

/// With the feature `tokio` and in a runtime, its threads for blocking tasks; otherwise a thread for each job.
impl BlockingPool for Tower {
    fn run_blocking(job: BlockingJob) {
        #[cfg(feature = "tokio")]
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            return drop(runtime.spawn_blocking(job));
        }
        run_on_thread(job);
    }
}

/// The entries of a server: async closures whose futures are `Send`.
pub type Router = router::Router<router::Futures<Tower, router::Shared>>;

/// Updates of a [`Router`] from inside its handlers.
pub type RouterUpdates = router::RouterUpdates<router::Futures<Tower, router::Shared>>;
