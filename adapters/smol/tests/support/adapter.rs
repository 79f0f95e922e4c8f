//! The knobs of the shared suites for `mcp-smol`.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of it")]

#[path = "../../../suites/async_adapter.rs"]
mod async_adapter;

use core::time::Duration;
use std::os::unix::net::UnixStream;

pub(crate) use async_adapter::*;
pub(crate) use futures_lite::future::yield_now;
pub(crate) use futures_lite::{AsyncRead, AsyncWrite};
pub(crate) use mcp_smol as package;
pub(crate) use mcp_smol::on_terminate;
pub(crate) use mcp_smol::{Router, SendRouter, Smol as Runtime, block_on};
/// Runs a future on the reactor, as any executor may.
pub(crate) use smol::block_on as block_on_reactor;
use smol::{Async, Timer};

/// The example server of the package on stdin and stdout.
pub(crate) const EXAMPLE: &str = "echo_smol";

/// A Unix stream of the runtime.
pub(crate) type AsyncStream = Async<UnixStream>;

/// Gives a stream to the runtime.
pub(crate) fn async_stream(stream: UnixStream) -> AsyncStream {
    Async::new(stream).expect("a stream")
}

pub(crate) async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}

/// Does nothing: timers and streams are usable on every thread.
pub(crate) fn enter() -> impl Sized {}

/// Implements the stream traits of the runtime for a [`TestStream`](super::TestStream).
macro_rules! impl_stream {
    ($type:ty) => {
        impl futures_lite::AsyncRead for $type {
            fn poll_read(
                self: core::pin::Pin<&mut Self>,
                cx: &mut core::task::Context<'_>,
                buffer: &mut [u8],
            ) -> core::task::Poll<std::io::Result<usize>> {
                crate::support::TestStream::poll_read(self.get_mut(), cx, buffer)
            }
        }

        impl futures_lite::AsyncWrite for $type {
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

            fn poll_close(
                self: core::pin::Pin<&mut Self>,
                cx: &mut core::task::Context<'_>,
            ) -> core::task::Poll<std::io::Result<()>> {
                crate::support::TestStream::poll_close(self.get_mut(), cx)
            }
        }
    };
}
pub(crate) use impl_stream;
