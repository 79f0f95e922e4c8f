//! Work of a handler that may block.

use crate::{BlockingCx, Cx, Tower};

/// Runs `work`, which may block, on a thread of tokio for blocking tasks (feature `tokio`, in a runtime), or otherwise
/// one of its own; where there are no threads, the work runs at once, and returns its value.
///
/// The server goes on meanwhile. The context of `work` is that of the call: it reports progress, asks for input, and
/// notices a cancellation. If the call is cancelled, the future of its handler is dropped; `work` goes on to its end,
/// which [`checkpoint`](BlockingCx::checkpoint) tells it to reach soon, and its value is dropped. Until then the call counts
/// as one of those that run at a time. A panic of `work` continues in the handler.
///
/// A tool whose whole handler may block is added by [`tool_blocking`](crate::router::Router::tool_blocking).
///
/// ```
/// use mcp_tower::mcp_proto::model::Resource;
/// use mcp_tower::mcp_proto::router::ResourceTarget;
/// use mcp_tower::{Cx, Router, unblock};
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
    cx.run_blocking::<Tower, T>(work).await
}
