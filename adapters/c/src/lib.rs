//! The Model Context Protocol as a C library.
//!
//! This crate makes `libmcp.so` and `libmcp.a`, with the header [`include/mcp.h`](https://github.com/mcp-proto/mcp-proto/blob/main/adapters/c/include/mcp.h). Programs in C and
//! in languages that call C use these; programs in Rust use `mcp-proto` or one of its adapters. The
//! [README](https://github.com/mcp-proto/mcp-proto/tree/main/adapters/c) has examples.
//!
//! A client or a server is a state machine on a byte stream, `mcp_proto::pipe`, behind an opaque handle. It does no I/O,
//! reads no clock and starts no thread. The caller runs this loop:
//!
//! ```text
//!   mcp_…_handle_input, mcp_…_handle_eof, mcp_…_handle_timeout, and commands, in any number and order
//!     → mcp_…_poll_event until it returns MCP_DONE
//!     → write the bytes of mcp_…_transmit, mcp_…_consume those that were written, until it returns MCP_DONE
//!     → wait for input (if mcp_…_wants_input), room to write, or the time of mcp_…_poll_timeout
//! ```
//!
//! Structured values are JSON text. Time is a number of microseconds.
//!
//! # Rules
//!
//! The functions check what can be checked: null pointers, alignment, lengths, sizes of structures, UTF-8, JSON, ids that have
//! ended, and the order. A handle of the other role is noticed, and so are two threads on one handle
//! ([`MCP_ERROR_BUSY`](mcp_status::MCP_ERROR_BUSY)). A panic stays inside (unless Rust was told to abort), and poisons the
//! handle. The caller promises what cannot be checked:
//!
//! - A pointer is null, or points to memory of its type that the function may read or write. It does not change meanwhile. The same
//!   holds for the `len` bytes of a slice, and for the `size` bytes of a structure that begins with its size.
//! - A handle was made by this library, and was not freed. Two threads may hold it, and one of them frees it after the other
//!   has let it go.
//! - A slice from this library is read as long as the function that stored it says, and written to never.
//!
//! Nothing that one side allocates is freed by the other.
//!
//! # Stability
//!
//! [`MCP_ABI_VERSION`] rises when a program that was compiled before would not work. New functions, statuses, kinds of
//! events and flags do not raise it: ignore events that you do not know. `mcp_config` and `mcp_call_options` begin with
//! their size and may grow.

#![allow(non_camel_case_types, reason = "names of C")]
#![allow(clippy::missing_safety_doc, reason = "the rules above hold for all functions")]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

use core::ffi::c_char;

mod client;
mod config;
mod event;
mod handle;
mod json;
mod server;
mod slice;
mod status;
mod stream;
#[cfg(test)]
mod tests;

pub use client::*;
pub use config::*;
pub use event::*;
pub use json::*;
pub use server::*;
pub use slice::mcp_slice;
pub use status::{mcp_status, mcp_status_text};

/// Version of the binary interface that the header describes. Compare it with `mcp_abi_version()`.
pub const MCP_ABI_VERSION: u32 = 1;

/// Returns the version of the binary interface of the library that runs.
#[unsafe(no_mangle)]
pub extern "C" fn mcp_abi_version() -> u32 {
    MCP_ABI_VERSION
}

/// Returns the version of the library, `0.1.0` for example. It is static and ends with NUL.
#[unsafe(no_mangle)]
pub extern "C" fn mcp_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
