//! The knobs of the shared suites for `mcp-blocking`.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of it")]

#[path = "../../../suites/blocking_adapter.rs"]
mod blocking_adapter;

use core::time::Duration;

pub(crate) use blocking_adapter::*;
pub(crate) use mcp_blocking::HttpServer;
#[cfg(unix)]
pub(crate) use mcp_blocking::on_terminate;
pub(crate) use mcp_blocking::{
    Answered, Call, Client, Cx, Error, Handle, Handler, HandlerFailure, Options, Router, Server,
    serve as serve_handler, serve_stdio,
};

/// Whether callbacks run apart from the loop, so that the next one may begin before the last one has ended.
pub(crate) const RUNS_IN_BACKGROUND: bool = false;

/// Whether a handler runs while another one of the same connection waits.
pub(crate) const HANDLERS_OVERLAP: bool = false;

/// Whether a handler that hangs stops all others.
pub(crate) const IS_SINGLE_THREADED: bool = true;

/// Implements [`Handler`] by methods that all take `&self`, as the other adapters want them.
macro_rules! impl_handler {
    ($type:ty {
        $(fn $name:ident(& $self:ident $($arguments:tt)*) $(-> $result:ty)? $body:block)*
    }) => {
        impl mcp_blocking::Handler for $type {
            $(fn $name(&mut $self $($arguments)*) $(-> $result)? $body)*
        }
    };
}
pub(crate) use impl_handler;

/// Record of the sleeping handler of `testing.rs` when its call is cancelled.
pub(crate) const SLEEP_CANCELLED: &str = "false";

/// Makes a test server of a handler.
macro_rules! test_server {
    ($config:expr, $handler:expr) => {
        mcp_blocking::testing::Server::new($config, $handler)
    };
}
pub(crate) use test_server;

/// Record of the handler of [`super::Tools`] when its call is cancelled by the client.
pub(crate) const CANCELLED_BY_CLIENT: &str = "true true true";
/// Its record when the exchange of its call is closed.
pub(crate) const CANCELLED_BY_CLOSE: &str = "true true false";

/// Dispatches what arrived for the client, and waits up to a millisecond if nothing did.
pub(crate) fn poll_client(client: &mut Client) {
    client.poll(Duration::from_millis(1)).expect("a connection");
}

/// Runs a server to its end, which must leave no connection.
#[cfg(feature = "http")]
pub(crate) fn run_http<H: Handler>(mut server: HttpServer<H>) -> Result<(), Error> {
    while server.poll(Duration::from_millis(20))? {}
    assert_eq!(server.connections(), 0);
    Ok(())
}

/// Returns the same server: this adapter has no shards.
#[cfg(feature = "http")]
pub(crate) fn with_two_shards<H: Handler>(server: HttpServer<H>) -> HttpServer<H> {
    server
}
