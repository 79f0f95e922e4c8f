//! What is the same on adapters whose clients and servers take a thread each

use std::thread::{self, JoinHandle};

use mcp_std::{Duplex, memory_pair};

use super::{Client, Error, Options, Router};

/// A handler, written as a closure that waits for nothing
macro_rules! handler {
    ($($closure:tt)*) => { $($closure)* };
}
pub(crate) use handler;

/// What comes by a channel, waited for in a handler
macro_rules! receive {
    ($cx:expr, $channel:expr) => {
        $channel.recv().unwrap()
    };
}
pub(crate) use receive;

/// A client, and a thread that plays its server
pub(crate) fn connect<T: Send + 'static>(
    options: Options,
    serve: impl FnOnce(Box<dyn Duplex>) -> T + Send + 'static,
) -> (Client, JoinHandle<T>) {
    let (near, far) = memory_pair(1 << 16);
    let serving = thread::spawn(move || serve(Box::new(near)));
    (options.connect(far).expect("a connection"), serving)
}

/// A client, and the server of a router in a thread
pub(crate) fn serve(
    router: impl FnOnce() -> Router + Send + 'static,
    options: Options,
) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = memory_pair(1 << 14);
    let serving = thread::spawn(move || router().serve(near));
    (options.connect(far).expect("a connection"), serving)
}
