//! Limit of the size of results.

use alloc::format;
use core::ops::ControlFlow;

use mcp_proto::RpcError;
use mcp_proto::model::CallToolResult;

use crate::adapter::server::cx::Cx;
use crate::adapter::server::router::{EntryRequest, EntryResult, HandlerResult, Interceptor};

/// Limits the size of results.
///
/// A result beyond it is replaced: a tool fails with a text that names the limit, so that its model can ask for less; other
/// calls get an internal error. The size is that of the result as JSON, without the message around it. It is found by encoding
/// the result, which costs as much again as sending it.
///
/// Errors are not limited.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, Router};
/// use mcp_std::adapter::server::layers::ResultSizeLimit;
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// router.intercept(ResultSizeLimit::new(100_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ResultSizeLimit(usize);

impl ResultSizeLimit {
    /// Creates a limit in bytes.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }
}

impl Interceptor for ResultSizeLimit {
    type State = ();

    fn before(&self, _: &mut Cx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult> {
        ControlFlow::Continue(())
    }

    fn after(&self, _: &mut Cx<'_>, _: &EntryRequest<'_>, (): (), result: HandlerResult) -> HandlerResult {
        let result = result?;
        // A result that cannot be encoded is reported when it is sent.
        let Some(size) = result.encoded_len().filter(|size| *size > self.0) else { return Ok(result) };
        let message = format!("the result has {size} bytes, and the limit is {}", self.0);
        match result {
            EntryResult::Tool(_) => Ok(EntryResult::Tool(CallToolResult::error(message))),
            _ => Err(RpcError::internal(message).into()),
        }
    }
}
