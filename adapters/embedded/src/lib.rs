//! MCP servers on devices: the bindings of [`mcp_proto`] over `embedded-io`, `embedded-io-async` and `smoltcp`.
//!
//! `no_std` with `alloc`: the program brings an allocator, a clock, and for HTTP a source of entropy. Nothing here
//! allocates by itself, so the memory of a server is that of [`Limits`](mcp_proto::Limits).
//!
//! | module | drives |
//! |---|---|
//! | [`serial`] | a server on a UART or another byte stream, polled: `embedded_io` |
//! | `serial_async` (feature `async`) | the same as a future: `embedded_io_async` |
//! | `http` (features `http`, `smoltcp`) | HTTP/1.1 connections over any sockets, or over those of `smoltcp` |
//!
//! The application implements [`Application`]: it gets the events of the server with the engine, and answers. What takes
//! long is kept by its [`CallId`](mcp_proto::CallId) and answered later, from [`Application::poll`]. It is not told which
//! transport a call came by.
//!
//! `core/docs/porting.md` in the repository describes what a new device needs, and
//! `adapters/embedded/firmware` is a complete program for a Cortex-M4, which the tests run in QEMU.

#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(test)]
extern crate std;

mod application;
#[cfg(feature = "http")]
pub mod http;
pub mod serial;
#[cfg(feature = "async")]
pub mod serial_async;
mod turn;

pub use application::Application;
pub use turn::Turn;
