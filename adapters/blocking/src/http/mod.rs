//! HTTP on one thread: a server and its connections, a client and its own

mod client;
mod peers;
mod server;

pub(crate) use client::Exchanges;
pub use server::{HttpServer, serve_http};
