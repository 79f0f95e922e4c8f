//! Helpers of the tests: those of all adapters, scripted streams, and servers on a thread.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

pub mod adapter;
#[path = "../../../suites/support.rs"]
mod common;
#[path = "../../../suites/script.rs"]
mod script;
#[path = "../../../suites/tools.rs"]
mod tools;

pub use common::*;
pub use script::ScriptedStream;
pub use tools::Tools;

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use mcp_proto::server;
use mcp_tokio::{Error, Handle, Handler, Server};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

impl AsyncRead for ScriptedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.pauses() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = self.read_piece(buf.initialize_unfilled())?;
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ScriptedStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.record_write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
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
        more: impl FnOnce(Server<tokio::net::UnixStream, H>) -> Server<tokio::net::UnixStream, H>,
    ) -> Self {
        let (near, stream) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let server = more(Server::new(config, adapter::async_stream(near), handler));
        let handle = server.handle();
        let thread = thread::spawn(move || adapter::block_on(server.run()));
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
