//! Work of a handler that may block.

use crate::{BlockingCx, Cx, Smol};

/// Runs `work`, which may block, on a thread of the package `blocking`, and returns its value.
///
/// The server goes on meanwhile. The context of `work` is that of the call: it reports progress, asks for input, and
/// notices a cancellation. If the call is cancelled, the future of its handler is dropped; `work` goes on to its end,
/// which [`checkpoint`](BlockingCx::checkpoint) tells it to reach soon, and its value is dropped. Until then the call counts
/// as one of those that run at a time. A panic of `work` continues in the handler.
///
/// A tool whose whole handler may block is added by [`tool_blocking`](crate::router::Router::tool_blocking).
///
/// ```
/// use mcp_smol::mcp_proto::model::Resource;
/// use mcp_smol::mcp_proto::router::ResourceTarget;
/// use mcp_smol::{Cx, Router, unblock};
///
/// let mut router = Router::new("host", "1.0");
/// router.resource(Resource::new("host://name", "name"), async |cx: &mut Cx, _: &ResourceTarget<'_>| {
///     unblock(cx, |_| std::fs::read_to_string("/etc/hostname")).await
/// });
/// # router.check().unwrap();
/// ```
pub async fn unblock<T: Send + 'static>(
    cx: &mut Cx,
    work: impl FnOnce(&mut BlockingCx<'_>) -> T + Send + 'static,
) -> T {
    cx.run_blocking::<Smol, T>(work).await
}
