//! Limit of the time of a call.

use core::ops::ControlFlow;
use core::time::Duration;

use crate::adapter::server::cx::Cx;
use crate::adapter::server::router::{EntryRequest, HandlerResult, Interceptor};

/// Limits the time that the layers inside and the handler may take.
///
/// When it is over, a tool fails with a text that says so, and other calls get an internal error. The handler ends as
/// [`Interceptor::time_limit`] describes: a future is dropped, a function has to call `checkpoint`, `progress` or `sleep`.
///
/// The time begins again when the answer to a question arrives. The maximum age of a call
/// ([`Limits::max_call_age`](mcp_proto::Limits)) holds beside it, for all calls and the whole of a call.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, Router};
/// use std::time::Duration;
/// use mcp_std::adapter::server::layers::Timeout;
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// router.intercept(Timeout::new(Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timeout(Duration);

impl Timeout {
    /// Creates a limit.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self(limit)
    }
}

impl Interceptor for Timeout {
    type State = ();

    fn before(&self, _: &mut Cx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult> {
        ControlFlow::Continue(())
    }

    fn time_limit(&self, _: &EntryRequest<'_>) -> Option<Duration> {
        Some(self.0)
    }
}
