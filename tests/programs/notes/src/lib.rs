//! An example server: notes in an SQLite database, served by `mcp-blocking`, `mcp-threads` and `mcp-smol`.
//!
//! - [`store`]: the database, with errors by `thiserror`. It knows nothing of MCP.
//! - [`entries`]: tools, a resource, a template, a prompt and completions, written once for all adapters.
//! - [`news`]: a thread that tells subscribers what has changed, also if another process changed it.
//! - [`blocking`], [`threads`], [`smol`]: the server on each adapter, over stdio and HTTP.

#![forbid(unsafe_code)]
// A program that uses no deprecated feature gets no warning: neither from macros nor from generic code.
#![deny(deprecated)]

pub mod blocking;
pub mod entries;
pub mod news;
pub mod smol;
pub mod store;
pub mod threads;
