//! Helpers of the tests of asynchronous adapters: those of all adapters, streams, and servers on a thread.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

#[path = "support.rs"]
mod common;
#[path = "script.rs"]
mod script;
#[path = "tools.rs"]
mod tools;

pub use common::*;
pub use script::ScriptedStream;
pub use tools::Tools;

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use mcp_proto::server;
use mcp_runtime::runtime::PollStream as _;

use super::adapter;
use super::adapter::{
    AsyncStream, Error, Handle, Handler, Runtime, Server, async_stream, block_on_reactor, impl_stream,
};

/// A byte stream of a test. [`impl_stream`] implements the stream traits of the runtime for it.
pub trait TestStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TestStream for ScriptedStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.pauses() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.read_piece(buffer))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.record_write(bytes))
    }
}

impl_stream!(ScriptedStream);

/// Reads once from a stream of the runtime.
pub async fn read_some(stream: &mut AsyncStream, buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| Runtime::poll_read(stream, cx, buffer)).await
}

/// A server on a thread, and the client end of its stream. Reads and writes fail after [`DEADLINE`].
pub struct StreamTestServer {
    pub stream: UnixStream,
    pub handle: Handle,
    pub thread: JoinHandle<Result<(), Error>>,
    reader: BufReader<UnixStream>,
}

impl StreamTestServer {
    pub fn new(config: server::Config, handler: impl Handler + Send + 'static) -> Self {
        Self::with_options(config, handler, |server| server)
    }

    pub fn with_options<H: Handler + Send + 'static>(
        config: server::Config,
        handler: H,
        more: impl FnOnce(Server<AsyncStream, H>) -> Server<AsyncStream, H>,
    ) -> Self {
        let (near, stream) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let server = more(Server::new(config, async_stream(near), handler));
        let handle = server.handle();
        let thread = thread::spawn(move || block_on_reactor(server.run()));
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut served = Self { stream, handle, thread, reader };
        served.send(INITIALIZE);
        assert_eq!(served.read_line()["id"], 0);
        served
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Reads the next line from the server.
    pub fn read_line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Ends the input and waits for the end of the server.
    pub fn finish(self) -> Result<(), Error> {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let outcome = self.thread.join().unwrap();
        drop(self.stream);
        outcome
    }
}
