//! The knobs of the shared suites for `mcp-tokio`.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of it")]

#[path = "../../../suites/async_adapter.rs"]
mod async_adapter;

use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

pub(crate) use async_adapter::*;
pub(crate) use block_on as block_on_reactor;
pub(crate) use mcp_tokio as package;
pub(crate) use mcp_tokio::on_terminate;
pub(crate) use mcp_tokio::{LocalRouter as Router, Router as SendRouter, Tokio as Runtime};
pub(crate) use tokio::io::{AsyncRead, AsyncWrite};
pub(crate) use tokio::task::yield_now;
pub(crate) use tokio::time::sleep;

/// The example server of the package on stdin and stdout.
pub(crate) const EXAMPLE: &str = "echo_tokio";

/// A Unix stream of the runtime.
pub(crate) type AsyncStream = tokio::net::UnixStream;

/// Runs a future in the runtime that all tests of a program share.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    })
}

/// Makes timers and sockets of the runtime usable on this thread, which does not run it.
pub(crate) fn enter() -> tokio::runtime::EnterGuard<'static> {
    runtime().enter()
}

/// Gives a stream to the runtime.
pub(crate) fn async_stream(stream: UnixStream) -> AsyncStream {
    let _entered = enter();
    stream.set_nonblocking(true).expect("a socket");
    AsyncStream::from_std(stream).expect("a stream")
}

/// Implements the stream traits of the runtime for a [`TestStream`](super::TestStream).
macro_rules! impl_stream {
    ($type:ty) => {
        impl tokio::io::AsyncRead for $type {
            fn poll_read(
                self: core::pin::Pin<&mut Self>,
                cx: &mut core::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> core::task::Poll<std::io::Result<()>> {
                let unfilled = buffer.initialize_unfilled();
                let read =
                    core::task::ready!(crate::support::TestStream::poll_read(self.get_mut(), cx, unfilled))?;
                buffer.advance(read);
                core::task::Poll::Ready(Ok(()))
            }
        }

        impl tokio::io::AsyncWrite for $type {
            fn poll_write(
                self: core::pin::Pin<&mut Self>,
                cx: &mut core::task::Context<'_>,
                bytes: &[u8],
            ) -> core::task::Poll<std::io::Result<usize>> {
                crate::support::TestStream::poll_write(self.get_mut(), cx, bytes)
            }

            fn poll_flush(
                self: core::pin::Pin<&mut Self>,
                _: &mut core::task::Context<'_>,
            ) -> core::task::Poll<std::io::Result<()>> {
                core::task::Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                self: core::pin::Pin<&mut Self>,
                cx: &mut core::task::Context<'_>,
            ) -> core::task::Poll<std::io::Result<()>> {
                crate::support::TestStream::poll_close(self.get_mut(), cx)
            }
        }
    };
}
pub(crate) use impl_stream;
