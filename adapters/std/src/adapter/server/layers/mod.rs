//! Layers for routers of every flavour: limits, time-outs, redaction, and an audit log.
//!
//! Each is an [`Interceptor`](super::router::Interceptor):
//!
//! ```
//! # use mcp_std::adapter::server::router::{Functions, Router};
//! use std::time::Duration;
//! use mcp_proto::EntryKind;
//! use mcp_proto::model::{Resource, ResourceTemplate};
//! use mcp_std::adapter::server::layers::{AuditLog, CallKey, ConcurrencyLimit, RateLimit, Redaction, Timeout};
//!
//! let mut router = Router::<Functions<()>>::new("harbour", "1.0");
//! router.resource(Resource::new("harbour://log", "log"), |_, _| "all quiet");
//! router
//!     .intercept(AuditLog::new(|record| println!("{record:?}"))) // the first is the outermost
//!     .intercept(RateLimit::new(100, Duration::from_secs(60)))
//!     .intercept(ConcurrencyLimit::new(4).key(CallKey::CLIENT))
//!     .intercept(Redaction::new().member("password"))
//!     .intercept_entry(EntryKind::Resource, "harbour://log", Timeout::new(Duration::from_secs(5)));
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
mod call_key;
mod concurrency_limit;
mod rate_limit;
mod redaction;
mod result_size_limit;
mod timeout;

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use mcp_proto::model::CallToolResult;
use mcp_proto::router::CallTarget;
use mcp_proto::{RawJson, RpcError};

pub use audit_log::{AuditLog, AuditOutcome, AuditRecord, PendingRecord};
pub use call_key::CallKey;
pub use concurrency_limit::{ConcurrencyLimit, RunningPlace};
pub use rate_limit::RateLimit;
pub use redaction::Redaction;
pub use result_size_limit::ResultSizeLimit;
pub use timeout::Timeout;

use super::router::{EntryRequest, EntryResult, HandlerResult};

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
