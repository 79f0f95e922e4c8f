//! Layers for routers of every flavour: limits, time-outs, redaction, and an audit log.
//!
//! Each is an [`Interceptor`]:
//!
//! ```
//! # use mcp_runtime::server::router::{Functions, Local, Router};
//! use std::time::Duration;
//! use mcp_proto::EntryKind;
//! use mcp_proto::model::{Resource, ResourceTemplate};
//! use mcp_runtime::server::layers::{AuditLog, CallKey, ConcurrencyLimit, RateLimit, Redaction, Timeout};
//!
//! let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
//! router.resource(Resource::new("harbour://log", "log"), |_, _| "all quiet");
//! router
//!     .layer(AuditLog::new(|record| println!("{record:?}"))) // the first is the outermost
//!     .layer(RateLimit::new(100, Duration::from_secs(60)))
//!     .layer(ConcurrencyLimit::new(4).key(CallKey::CLIENT))
//!     .layer(Redaction::new().member("password"))
//!     .layer_entry(EntryKind::Resource, "harbour://log", Timeout::new(Duration::from_secs(5)));
//! router.check().unwrap();
//! ```
//!
//! # Rate limits of the specification
//!
//! Servers have to limit the rate of calls of tools and of completions (TOOL-032, COMP-010): that is a [`RateLimit`].
//! Log messages and progress should be limited, too (LOG-011, PROG-013): [`Limits::progress_rate`] limits both. Sampling and elicitation are limited by the client (SAMP-021, ELIC-045). A call that
//! asks counts in the rate limit of its server once for each time that it is delivered.
//!
//! [`Limits::progress_rate`]: mcp_proto::Limits::progress_rate

mod audit_log;
mod rate_limit;
#[cfg(feature = "shared-sessions")]
mod shared_rate;

use alloc::format;
use alloc::string::String;
use core::ops::ControlFlow;
use core::time::Duration;

use mcp_proto::model::CallToolResult;
use mcp_proto::router::CallTarget;
use mcp_proto::{RawJson, RpcError};

use super::cx::Cx;
use super::router::{EntryRequest, EntryResult, HandlerResult, Interceptor};

pub use audit_log::{AuditLog, AuditOutcome, AuditRecord, PendingRecord, Redaction};
pub use rate_limit::{CallKey, ConcurrencyLimit, RateLimit, RunningPlace};

/// Error code of a call beyond a limit: the HTTP status of the same meaning. Codes of applications lie outside
/// -32768..=-32000 (ERR-014).
pub const TOO_MANY_REQUESTS: i64 = 429;

/// Returns the outcome of a call beyond a limit.
///
/// A tool fails with `message`, so that its model knows what to do. Other calls get the error [`TOO_MANY_REQUESTS`].
/// `retryAfterMs`, in `_meta` of the result or in `data` of the error, is for programs.
fn refusal(request: &EntryRequest<'_>, message: String, retry_after: Option<Duration>) -> HandlerResult {
    let retry_after = retry_after.and_then(|after| {
        let millis = after.as_micros().div_ceil(1000);
        RawJson::new(format!("{{\"retryAfterMs\":{millis}}}")).ok()
    });
    if matches!(request.target(), CallTarget::Tool(_)) {
        let mut result = CallToolResult::error(message);
        result.meta = retry_after;
        return Ok(EntryResult::Tool(result));
    }
    let error = RpcError::new(TOO_MANY_REQUESTS, message);
    Err(match retry_after {
        Some(data) => error.with_data(data).into(),
        None => error.into(),
    })
}

// Limit of the size of results.

/// Limits the size of results.
///
/// A result beyond it is replaced: a tool fails with a text that names the limit, so that its model can ask for less; other
/// calls get an internal error. The size is that of the result as JSON, without the message around it. It is found by encoding
/// the result, which costs as much again as sending it.
///
/// Errors are not limited.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use mcp_runtime::server::layers::ResultSizeLimit;
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.layer(ResultSizeLimit::new(100_000));
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

// Limit of the time of a call.

/// Limits the time that the layers inside and the handler may take.
///
/// When it is over, a tool fails with a text that says so, and other calls get an internal error. The handler ends as
/// [`Interceptor::time_limit`] describes: a future is dropped, a function has to call `checkpoint`, `progress` or `sleep`.
///
/// The time begins again when the answer to a question arrives. The maximum age of a call
/// ([`Limits::max_call_age`](mcp_proto::Limits)) holds beside it, for all calls and the whole of a call.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use std::time::Duration;
/// use mcp_runtime::server::layers::Timeout;
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.layer(Timeout::new(Duration::from_secs(30)));
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
