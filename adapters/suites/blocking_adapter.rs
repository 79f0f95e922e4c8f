//! Knobs of the shared suites, for adapters whose handlers, clients and servers block.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mcp_proto::RpcError;
use mcp_proto::server::Config;
use mcp_runtime::server::Cx;
pub(crate) use mcp_runtime::server::router::layer_fn;
use mcp_std::io::{Duplex, Stdio, memory_pair};

use super::{Client, Error, Handle, Handler, Options, Router, Server};

/// Makes a handler of a closure. The closure may use [`wait`].
macro_rules! handler {
    ($($closure:tt)*) => { $($closure)* };
}
pub(crate) use handler;

/// Declares a function that handlers call. Its body may use [`wait`].
macro_rules! handler_fn {
    ($($function:tt)*) => { $($function)* };
}
pub(crate) use handler_fn;

/// Waits for the outcome of an operation of the adapter. Valid in handlers only.
macro_rules! wait {
    ($operation:expr) => {
        $operation
    };
}
pub(crate) use wait;

/// As [`wait`], with all code of the operation inside of the function `$inside`.
macro_rules! wait_inside {
    ($inside:expr, $operation:expr) => {
        $inside(&mut || $operation)
    };
}
pub(crate) use wait_inside;

/// Makes a layer of a client, whose body may use [`wait`] and the clonable values that the list names.
macro_rules! client_layer {
    ([$($held:ident),*] |$request:ident, $next:ident| $body:block) => {
        move |$request, $next| {
            $(let $held = &$held;)*
            $body
        }
    };
}
pub(crate) use client_layer;

/// Runs a server or a client operation to its end. Valid outside of handlers.
macro_rules! run {
    ($operation:expr) => {
        $operation
    };
}
pub(crate) use run;

/// Runs a server to its end, as [`run`] does: this adapter has one way.
macro_rules! run_on_reactor {
    ($operation:expr) => {
        $operation
    };
}
pub(crate) use run_on_reactor;

/// Returns the client of the package.
macro_rules! inner_client {
    ($client:expr) => {
        &$client
    };
}
pub(crate) use inner_client;

/// The events of a client of the package, whose operations need [`run`].
macro_rules! events_client {
    ($client:expr) => {
        mcp_events::client::BlockingEventsClient::new($client)
    };
}
pub(crate) use events_client;

/// Waits for the next event of a follower.
macro_rules! next_event {
    ($follower:expr) => {
        $follower.next_event()
    };
}
pub(crate) use next_event;

/// Returns the handle of a server.
macro_rules! server_handle {
    ($server:expr) => {
        $server.handle().unwrap()
    };
}
pub(crate) use server_handle;

/// Receives from a channel, in a handler.
macro_rules! receive {
    ($cx:expr, $channel:expr) => {
        $channel.recv().unwrap()
    };
}
pub(crate) use receive;

/// Never returns, and does not notice a cancellation.
pub(crate) fn hang() -> ! {
    loop {
        thread::park();
    }
}

/// Sleeps until the call is cancelled.
///
/// # Errors
///
/// Returns the error of [`Cx::sleep`] when the call is cancelled.
pub(crate) fn sleep_until_cancelled(cx: &mut Cx) -> Result<(), RpcError> {
    loop {
        cx.sleep(core::time::Duration::from_secs(1))?;
    }
}

pub(crate) fn yield_now() {
    thread::yield_now();
}

pub(crate) fn make_stdio_server<H: Handler>(config: Config, handler: H) -> Server<Stdio, H> {
    Server::stdio(config, handler).unwrap()
}

/// Connects a client to a server that `serve` plays on a thread.
pub(crate) fn connect<T: Send + 'static>(
    options: Options,
    serve: impl FnOnce(Box<dyn Duplex>) -> T + Send + 'static,
) -> (Client, JoinHandle<T>) {
    let (near, far) = memory_pair(1 << 16);
    let serving = thread::spawn(move || serve(Box::new(near)));
    (options.connect(far).expect("a connection"), serving)
}

/// Connects a client to the server of a router on a thread.
pub(crate) fn serve(
    router: impl FnOnce() -> Router + Send + 'static,
    options: Options,
) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = memory_pair(1 << 14);
    let serving = thread::spawn(move || router().serve(near));
    (options.connect(far).expect("a connection"), serving)
}

/// Serves a router on a thread, with `config` instead of its own if given. Returns the client end of the stream.
pub(crate) fn serve_stream(
    router: impl FnOnce() -> Router + Send + 'static,
    config: Option<Config>,
) -> (Box<dyn Duplex>, JoinHandle<Result<(), Error>>) {
    let (near, far) = memory_pair(1 << 12);
    let serving = thread::spawn(move || match config {
        Some(config) => super::serve_handler(config, near, router()),
        None => router().serve(near),
    });
    (Box::new(far), serving)
}

/// Serves a handler on a thread. Returns the client end of the stream and a handle of the server.
pub(crate) fn serve_with_handle<H: Handler>(
    config: Config,
    make: impl FnOnce() -> H + Send + 'static,
) -> (Box<dyn Duplex>, Handle, JoinHandle<Result<(), Error>>) {
    let (near, far) = memory_pair(1 << 14);
    let (sender, receiver) = mpsc::channel();
    let serving = thread::spawn(move || {
        let mut server = Server::new(config, near, make());
        sender.send(server.handle()?).expect("a receiver");
        server.run()
    });
    (Box::new(far), receiver.recv().expect("a handle"), serving)
}
