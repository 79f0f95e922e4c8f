//! Model Context Protocol servers and clients on threads: any thread calls, and none waits for another's answer
//!
//! The protocol is [`mcp_proto`]'s, processes and byte streams are [`mcp_std`]'s; this crate has threads of its own move
//! the bytes between them. `mcp-blocking` has the same surface with no thread at all, `mcp-smol` has it as futures.

#![forbid(unsafe_code)]

extern crate alloc;

mod client;

pub use client::{Client, Pending};
pub use mcp_std::child::{Program, Stderr};
pub use mcp_std::client::ClientHandler;
#[cfg(feature = "validate")]
pub use mcp_std::validate;
pub use mcp_std::{BadResult, Closed, Error, SharedCache};

/// A client that is about to connect: see [`Options`](mcp_std::client::Options)
pub type Options = mcp_std::client::Options<Client>;
