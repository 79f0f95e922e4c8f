//! HTTP on one thread: a server and its connections

mod peers;
mod server;

pub use server::{HttpServer, serve_http};
