//! MCP servers on devices: the bindings of [`mcp_proto`] over `embedded-io` and `smoltcp`, polled by the loop of the
//! program.
//!
//! `no_std` with `alloc`: the program brings an allocator and a clock. Nothing here allocates by itself, so the memory of a
//! server is that of [`Limits`](mcp_proto::Limits), and a reading turn takes 128 bytes of stack.
//!
//! [`serial::SerialServer`] is a server on a UART or another byte stream, and `http::HttpServer` (feature `smoltcp`) one over
//! HTTP. The application implements [`Application`]: it gets the events of the server with the engine, and answers. What
//! takes long is kept by its [`CallId`](mcp_proto::CallId) and answered later, from [`Application::poll`].
//!
//! `core/docs/porting.md` in the repository describes what a new device needs, and
//! `adapters/embedded/firmware` is a complete program for a Cortex-M4, which the tests run in QEMU.

#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(feature = "smoltcp")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod application;
#[cfg(feature = "smoltcp")]
pub mod http;
pub mod serial;
mod turn;

pub use application::Application;
pub use turn::Turn;
