//! Byte streams, server processes, waiting, TLS and schema validation for programs that use `mcp-proto` on `std`.
//!
//! The core does no I/O. This crate holds the I/O that the adapters `mcp-blocking`, `mcp-threads`, `mcp-smol` and `mcp-tokio`
//! share. It knows no message, method or error code of the protocol (DESIGN-24). Programs usually depend on one
//! adapter, which re-exports what they need. What is above byte streams is in other crates: routers, clients and their loops in
//! `mcp-runtime`, authorization in `mcp-auth`, skills in `mcp-extensions`.
//!
//! | module | content |
//! |---|---|
//! | [`io`] | byte streams ([`io::Duplex`]): stdio, sockets, serial lines, memory, and any reader with a writer |
//! | [`process`] | server processes: start, stream, shutdown; termination signals |
//! | `http_client` | single HTTP requests: lookup, connection, TLS, exchange (feature `http`) |
//! | `tls` | HTTP over TLS by `rustls`: roots of a client, certificate of a server (feature `tls`) |
//! | `schema` | validation of values against JSON Schemas (feature `validate`) |
//! | `json_file` | JSON files that people write (feature `json-files`) |
//! | [`session_store`] | sessions of a server that several processes serve |
//! | [`task_store`] | tasks of a server that outlive its process |
//! | [`durable_file`] | files that are replaced as a whole, and locks between processes |
//! | [`poll`] | waiting for descriptors, and ending such a wait from another thread |
//! | [`sync`] | queues, wakers and pools that event loops share with other threads and tasks |
//! | [`testing`] | suites for an adapter or a store of your own |
//! | [`entropy`] | secrets from the operating system, and nonces |
//! | [`memory`] | how much a server holds for its peers on this machine |
//!
//! [`Clock`] turns the system's monotonic clock into instants of the core. [`NetStream`] is a socket, or TLS over one. [`catch`]
//! returns the panic of a handler as a value.
//!
//! # Semantic versioning
//!
//! What an adapter exports is covered, with all its methods. The modules [`poll`], [`sync`], [`durable_file`] and `http_client`,
//! [`io::interleave_families`], [`io::known_addresses`], [`io::resolve_host`], [`io::Socket::has_input`] and [`io::SocketControl`] are for adapters alone, and
//! may change in any release; each adapter depends on this crate by an exact version (`=`).
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `http` | module `http_client` |
//! | `json-files` | module `json_file` |
//! | `signals` | [`process`]: reactions to `SIGTERM` and `SIGINT` (Unix) |
//! | `tls` | HTTP over TLS, by `rustls` with `ring` |
//! | `validate` | JSON Schema validation, by `jsonschema` |
//!
//! # Platforms
//!
//! Of this crate and of the adapters:
//!
//! | | Linux | macOS, the BSDs | Windows |
//! |---|---|---|---|
//! | stdin and stdout ([`io::Stdio`]) | one `poll(2)` per wait | one `poll(2)` per wait | two threads |
//! | servers on stdio with `mcp-smol`, `mcp-tokio` | yes | yes | threads of `blocking` or of tokio |
//! | clients of processes | yes | yes | two threads each, a third for [captured stderr](process::Stderr); not with `mcp-smol`, `mcp-tokio` |
//! | [end of a server process](process) | its group: SIGTERM, then SIGKILL | the same | its job is killed |
//! | stdout guard ([`io::Stdio::guarded`]) | yes | yes | no |
//! | [sockets](io::Socket) of the application | TCP, Unix | TCP, Unix | TCP |
//! | clients at a [`io::StreamAddress`] | TCP, Unix, serial | TCP, Unix, serial | TCP, not with `mcp-smol`, `mcp-tokio` |
//! | servers at one ([`io::StreamListener`]) | TCP, Unix; serial by [`io::SerialPort`] | TCP, Unix, serial | `Unsupported` |
//! | HTTP servers ([`io::Listener`]) and clients | `epoll` | `polling` (`kqueue`: macOS, the BSDs) | `polling` (AFD); not with `mcp-smol`, `mcp-tokio` |
//! | authorization (`mcp-auth`) | yes | yes | yes |
//! | shards pinned to cores | yes | no effect | no effect |
//! | `on_terminate`, `hangup_flag` (feature `signals`) | yes | yes | no |
//!
//! By `kqueue` (macOS, the BSDs) a disconnect of a client is noticed only in a direction that is waited for. Solaris and illumos have
//! no HTTP, as event ports have no level-triggered readiness. On Unix systems without `epoll` and `kqueue` this crate does not compile.
//!
//! `StreamServer` of `mcp-blocking` and `mcp-threads` has a thread for each connection. Where the table names no other
//! thread, this crate and `mcp-blocking` start only short-lived ones, which resolve host names
//! and flush stdout, and one for the feature `signals`. `mcp-smol` and `mcp-tokio` resolve the names of HTTP servers, and run
//! handlers that block, on the threads of their runtime for such work; `mcp-smol` also reads and writes files there that
//! are stdin or stdout. `.ci/run` tests on Linux, and type-checks for
//! `x86_64-apple-darwin` and `x86_64-pc-windows-gnu`. `.ci/full` tests `polling` on Linux, and Windows under Wine.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Needed by jobs of Windows (`process::job`), and by the selector of systems without `epoll` (`poll::selector::portable`).
#![cfg_attr(all(target_os = "linux", not(any(test, mcp_portable))), forbid(unsafe_code))]
#![cfg_attr(not(all(target_os = "linux", not(any(test, mcp_portable)))), deny(unsafe_code))]

extern crate alloc;

mod catch;
mod clock;
#[cfg(any(feature = "json-files", feature = "validate"))]
mod distinct_members;
pub mod durable_file;
pub mod entropy;
#[cfg(test)]
mod folder_in_tests;
#[cfg(all(test, feature = "validate"))]
mod fuzz_tests;
#[cfg(feature = "http")]
pub mod http_client;
pub mod io;
#[cfg(feature = "json-files")]
pub mod json_file;
pub mod memory;
mod net_stream;
pub mod poll;
pub mod process;
#[cfg(feature = "validate")]
pub mod schema;
pub mod session_store;
pub mod sync;
pub mod task_store;
/// Suites for programs that drive the core, and for stores.
pub mod testing {
    pub mod adapter;
    mod peer;
    pub mod session_store;
}
#[cfg(feature = "tls")]
pub mod tls;

pub use catch::{Panic, catch, catch_async};
pub use clock::Clock;
pub use net_stream::NetStream;
