//! Byte streams, server processes, TLS and schema validation for programs that use `mcp-proto` on `std`.
//!
//! The core does no I/O. This crate holds the I/O that the adapters `mcp-blocking`, `mcp-threads` and `mcp-smol`
//! share. It knows no message, method or error code of the protocol (DESIGN-24). Programs usually depend on one
//! adapter, which re-exports what they need.
//!
//! | module | content |
//! |---|---|
//! | [`io`] | byte streams ([`io::Duplex`]): stdio, sockets, memory, and any reader with a writer |
//! | [`process`] | server processes: start, stream, shutdown; termination signals |
//! | `tls` | HTTP over TLS by `rustls`: roots of a client, certificate of a server (feature `tls`) |
//! | `schema` | validation of values against JSON Schemas (feature `validate`) |
//! | [`entropy`] | secrets from the operating system, and nonces |
//!
//! [`Clock`] turns the system's monotonic clock into instants of the core. [`SharedCache`] is a result cache for
//! several clients. [`catch`] returns the panic of a handler as a value.
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `http` | sockets of servers and clients over HTTP |
//! | `tls` | HTTP over TLS, by `rustls` with `ring` |
//! | `validate` | JSON Schema validation, by `jsonschema` |
//! | `signals` | [`process`]: reactions to `SIGTERM` and `SIGINT` (Unix) |
//! | `schemars`, `crypto`, `base64` | the features of these names in `mcp-proto` |
//!
//! # Platforms
//!
//! On Unix each wait is one `poll(2)`, or on Linux one `epoll_wait(2)` for many sockets. I/O needs no threads;
//! short-lived threads resolve host names and flush stdout, and the feature `signals` starts one. Where pipes cannot be
//! polled (Windows), the same types run two threads per stream; [`io::Listener`] and connecting sockets return
//! `Unsupported` there. Process groups, signals and the stdout guard exist on Unix only.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

#[doc(hidden)]
pub mod adapter;
mod cache;
mod catch;
mod clock;
pub mod entropy;
mod error;
pub mod io;
pub mod process;
#[cfg(feature = "validate")]
pub mod schema;
#[cfg(feature = "tls")]
pub mod tls;

pub use cache::SharedCache;
pub use catch::{Panic, catch};
pub use clock::Clock;
pub use error::{ConnectionClosed, Error, OutputSchemaViolation};
