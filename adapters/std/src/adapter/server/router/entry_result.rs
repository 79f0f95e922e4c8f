//! Results of handlers, and how calls are completed with them.

use mcp_proto::model::{CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult};
use mcp_proto::router::{CallTarget, HandlerError, ResourceTarget};
use mcp_proto::{EncodeError, RawJson, RpcError};

use crate::adapter::server::cx::{Answered, CallCx, RunningCall};
use crate::adapter::server::handler::HandlerFailure;

/// Result of the handler of an entry, by the kind of the entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EntryResult {
    /// Result of a tool.
    Tool(CallToolResult<'static>),
    /// Contents of a resource.
    Resource(ReadResourceResult<'static>),
    /// Messages of a prompt.
    Prompt(GetPromptResult<'static>),
    /// Suggestions for an argument or a variable.
    Completion(CompleteResult),
}

impl EntryResult {
    /// Returns the result as JSON, in the form of the newest revision.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a part of it cannot be expressed as JSON.
    pub fn encode(&self) -> Result<RawJson, EncodeError> {
        match self {
            Self::Tool(result) => RawJson::encode(result),
            Self::Resource(result) => RawJson::encode(result),
            Self::Prompt(result) => RawJson::encode(result),
            Self::Completion(result) => RawJson::encode(result),
        }
    }

    /// Returns the size as JSON in bytes, if it can be expressed as JSON.
    pub(in crate::adapter::server) fn encoded_len(&self) -> Option<usize> {
        self.encode().ok().map(|json| json.as_bytes().len())
    }
}

/// Outcome of the handler of an entry.
pub type HandlerResult = Result<EntryResult, HandlerError>;

/// Completes a call with the outcome of its handler. Returns the answer and whether it reports a tool failure.
///
/// # Errors
///
/// The error for the client: the handler failed, its result violates a schema, or it cannot be sent.
pub(super) fn complete<B: RunningCall>(
    cx: &mut CallCx<B>,
    target: &CallTarget<'_>,
    result: HandlerResult,
) -> Result<(Answered, bool), RpcError> {
    match (target, result) {
        (CallTarget::Tool(target), Ok(EntryResult::Tool(result))) => {
            if let Err(violation) = target.check(&result) {
                let error = violation.to_rpc_error();
                cx.record_failure(HandlerFailure::InvalidToolOutput(violation));
                return Err(error);
            }
            Ok((cx.complete(&result)?, result.is_failure()))
        }
        (CallTarget::Resource(target), Ok(EntryResult::Resource(mut result))) => {
            complete_read(target, &mut result);
            Ok((cx.complete(&result)?, false))
        }
        (CallTarget::Prompt(_), Ok(EntryResult::Prompt(result))) => Ok((cx.complete(&result)?, false)),
        (CallTarget::Completion(_), Ok(EntryResult::Completion(result))) => {
            Ok((cx.complete(&result)?, false))
        }
        (_, Ok(_)) => Err(misrouted_error()),
        (target, Err(error)) => {
            record_error(cx, &error);
            if !matches!(target, CallTarget::Tool(_)) {
                return Err(error.into_rpc_error());
            }
            Ok((cx.complete(&error.into_result()?)?, true))
        }
    }
}

/// Adds the cache hint of the resource and the metadata of a page if the result has none; a result that depends on its caller
/// is not public.
fn complete_read(target: &ResourceTarget<'_>, result: &mut ReadResourceResult<'_>) {
    target.complete_page(result);
    if let Some(hint) = target.cache.filter(|_| result.ttl_ms.is_none() && result.cache_scope.is_none()) {
        result.ttl_ms = Some(hint.ttl_ms());
        result.cache_scope = Some(hint.scope());
    }
    target.limit_sharing(result);
}

/// Records what the client is not told about an error.
fn record_error<B: RunningCall>(cx: &mut CallCx<B>, error: &HandlerError) {
    match error {
        HandlerError::Encode(error) => cx.record_failure(HandlerFailure::Encode(error.clone())),
        HandlerError::Failed(failure) if failure.has_causes() => {
            cx.record_failure(HandlerFailure::Failed(failure.clone()));
        }
        _ => {}
    }
}

/// Returns the error for a call that reached a handler of another kind.
pub(super) fn misrouted_error() -> RpcError {
    RpcError::internal("this handler is for something else")
}
