//! What the adapters of `mcp-proto` share above byte streams: routers, contexts, layers, clients, and their event loops.
//!
//! Programs usually depend on one adapter, which re-exports what they need under names of its own: `mcp_tokio::Cx`, for example,
//! is [`server::AsyncCx`], and `mcp_tokio::Options` is [`client::Options`]. This crate knows no message, method or error code of
//! the protocol (DESIGN-24).
//!
//! | module | content |
//! |---|---|
//! | [`server`] | handlers, their context, dispatching, HTTP connections and shards |
//! | [`server::router`] | routers: entries by name, with typed arguments |
//! | [`server::layers`] | layers of a router: limits, timeouts, a log |
//! | [`client`] | options and calls of a client, its callbacks and its connection |
//! | [`runtime`] | servers and clients as futures, over the runtime of an adapter |
//! | [`driver`] | one step of a byte stream's event loop |
//!
//! [`SharedCache`] is a result cache for several clients, and [`SharedCompleter`] completes texts while they are typed.
//! [`RateLimit`] limits how often a server is answered, and [`Retry`] repeats requests.
//!
//! # Semantic versioning
//!
//! What an adapter exports is covered, with all its methods: routers, contexts, layers, options, calls, errors. The parts of
//! loops (transports, backends, dispatchers, drivers, and the traits that an adapter implements) are for adapters alone, and may change in
//! any release; each adapter depends on this crate by an exact version (`=`).
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `auth` | authorization of clients, by `mcp-auth`; enables `http` |
//! | `http` | servers and clients over HTTP |
//! | `schemars` | JSON Schemas of Rust types |
//! | `shared-sessions` | sessions that several processes serve, in a store; seals are those of `chacha20poly1305` |
//! | `skills` | skills of a folder, and verified reads, by `mcp-extensions` |
//! | `tasks` | tasks of both roles |
//! | `tls` | HTTP over TLS, by `rustls` with `ring` |
//! | `validate` | JSON Schema validation, by `jsonschema` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod cache;
pub mod client;
pub mod driver;
mod error;
// Text alone; it takes no room in a program.
#[cfg(any(doc, doctest))]
pub mod guide;
mod inline_map;
pub mod runtime;
pub mod server;
mod token_rate;

pub use cache::SharedCache;
pub use client::{RateLimit, Retry, SharedCompleter};
pub use error::{ConnectionClosed, Error, OutputSchemaViolation};
