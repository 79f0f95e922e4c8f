//! What the std adapters of `mcp-proto` share
//!
//! The core reads no clock, draws no randomness and touches no handle; on a machine with `std` somebody must.
//! This crate is that somebody, once for all adapters: a [`Clock`], [`entropy`], byte streams that can wait
//! for both directions at once ([`Duplex`] and its implementations), server processes ([`child`]), the guard
//! that keeps a stray `println!` out of the stream ([`guard_stdout`]), [`catch`] for handlers that panic, and a
//! [cache](SharedCache) that clients can share.
//!
//! [`drive`], [`serve`] and [`client`] are what lies between a loop and the engines of the core, whoever turns the loop:
//! handlers and what they can do, connections, the end of things. They are for adapters; programs use those.
//!
//! It knows no protocol: no message, method or error code is named here. It moves bytes and minds processes.
//!
//! | to talk over | use |
//! |---|---|
//! | this process' stdin and stdout | [`Stdio`] |
//! | a server process that we start | [`child::Program`], then [`child::ChildIo`] |
//! | a TCP or Unix socket | [`Socket`] |
//! | many sockets, on one thread | [`Listener`], [`Selector`] |
//! | anything with `Read` and `Write` | [`Threaded`] |
//! | a test in the same process | [`memory_pair`] |
//!
//! With the feature `tls` (off by default) HTTP is spoken over TLS, too: `tls::ClientTls` and `tls::ServerTls`. With
//! `validate` (off by default) there is `validate::Schemas` besides, which checks values against JSON
//! Schemas for a [`Router`](mcp_proto::router::Router).
//!
//! With the feature `signals` (off by default, Unix) there are `on_terminate`, for servers that are told to stop by `SIGTERM`
//! or `SIGINT`, and `on_signal`, for clients, which have servers that they have started end with them.
//!
//! # Platforms
//!
//! On Unix every wait is one `poll(2)`, or for many sockets on Linux one of `epoll`; no thread is started. Where pipes
//! cannot be polled (Windows), the same types run two threads per stream behind the same interface; [`Listener`],
//! [`Selector`] and [`Socket::connect`] are refused as unsupported there. Process groups, `SIGTERM` and the stdout guard
//! exist on Unix only; the items say so.

#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(unix)]
mod alarm;
mod cache;
mod catch;
pub mod child;
pub mod client;
mod clock;
mod cores;
pub mod drive;
mod duplex;
pub mod entropy;
mod error;
pub mod held;
#[cfg(unix)]
mod here;
pub mod inbox;
mod memory;
#[cfg(unix)]
mod net;
#[cfg(not(unix))]
#[path = "net_other.rs"]
mod net;
mod newest;
pub mod nudge;
mod outlook;
#[cfg(unix)]
mod readiness;
#[cfg(unix)]
mod selector;
pub mod serve;
#[cfg(all(unix, feature = "signals"))]
mod signals;
mod socket;
#[cfg(unix)]
mod stdio;
#[cfg(not(unix))]
#[path = "stdio_other.rs"]
mod stdio;
#[cfg(unix)]
mod stdout_guard;
mod threaded;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "http")]
mod transport;
#[cfg(feature = "validate")]
pub mod validate;
#[cfg(feature = "validate")]
mod validate_bounds;
#[cfg(all(test, feature = "validate"))]
mod validate_steps;
#[cfg(unix)]
mod waits;

pub use cache::SharedCache;
pub use catch::{Panic, catch};
pub use clock::Clock;
pub use cores::Cores;
#[cfg(unix)]
pub use duplex::Descriptors;
pub use duplex::{Duplex, HungUp, Interest, Ready, is_peer_gone};
pub use error::{BadResult, Closed, Error};
#[cfg(unix)]
pub use here::{here, run_here, spot};
pub use memory::{MemoryEnd, memory_pair};
#[cfg(not(unix))]
pub use net::Selector;
pub use net::{Listener, is_exhausted};
pub use newest::Newest;
pub use outlook::Outlook;
#[cfg(unix)]
pub use selector::Selector;
#[cfg(all(unix, feature = "signals"))]
pub use signals::{Ending, on_signal, on_terminate};
pub use socket::Socket;
pub use stdio::Stdio;
#[cfg(unix)]
pub use stdout_guard::{StdoutGuard, guard_stdout};
pub use threaded::Threaded;
#[cfg(feature = "http")]
pub use transport::Transport;
#[cfg(unix)]
pub use waits::Waits;
