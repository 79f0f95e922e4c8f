//! Model Context Protocol servers and clients as plain futures, on smol or any other executor
//!
//! The protocol is [`mcp_proto`]'s, processes and byte streams are [`mcp_std`]'s; this crate waits for them by
//! [`async-io`](async_io), whose reactor runs under any executor. It spawns no task: whoever awaits one of its futures
//! drives it. `mcp-blocking` has the same surface as plain calls, `mcp-threads` for many threads at once.

#![forbid(unsafe_code)]

extern crate alloc;

mod handler;
#[cfg(feature = "http")]
mod http;
mod io;
mod nudge;
mod router;
mod running;
mod server;
#[cfg(unix)]
mod stdio;
mod timer;

pub use handler::{Cx, Handler};
#[cfg(feature = "http")]
pub use http::{HttpServer, serve_http};
pub use mcp_proto::server::{Call, NoAnswer};
pub use mcp_std::Error;
pub use mcp_std::serve::{Answered, Failure};
#[cfg(feature = "validate")]
pub use mcp_std::validate;
pub use router::{Later, Router};
#[cfg(unix)]
pub use server::serve_stdio;
pub use server::{Handle, Server, serve};
#[cfg(unix)]
pub use stdio::Stdio;
