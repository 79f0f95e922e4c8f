//! Parameters, results and errors, as the other side's revision has them

use mcp_proto::meta::is_free_key;
use mcp_proto::model::{
    CallToolResult, CompleteParams, CompleteResult, Extra, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ReadResourceResult, encode_for,
};
use mcp_proto::rpc::code;
use mcp_proto::server::{Call, Prepared};
use mcp_proto::{CallError, RawJson, RpcError, UseError, Version};

/// The parameters of a call, for a server that speaks `to`: without what the engines say of it
pub(super) fn params(call: &Call, to: Version) -> Result<RawJson, RpcError> {
    let wrong = |error: &dyn core::fmt::Display| RpcError::invalid_params(format!("`params`: {error}"));
    if call.method() == "completion/complete" {
        let mut params: CompleteParams<'_> = call.parse()?;
        params.meta = None;
        return encode_for(to, &params).map_err(|error| wrong(&error));
    }
    let mut params: Extra = call.parse()?;
    params.remove("_meta");
    // Elsewhere these are the application's.
    if matches!(call.method(), "tools/call" | "prompts/get" | "resources/read") {
        for engines in ["inputResponses", "requestState", "task"] {
            params.remove(engines);
        }
    }
    RawJson::encode(&params).map_err(|error| wrong(&error))
}

/// The parameters of a request of the server's own: without what its engine says of it
pub(super) fn theirs(params: Option<&RawJson>) -> Extra {
    let mut params: Extra = params.and_then(|params| params.parse().ok()).unwrap_or_default();
    if let Some(meta) = params.remove("_meta").as_ref().and_then(free) {
        params.insert("_meta", meta);
    }
    params
}

/// Whether a method is about tasks, which are of one connection: no client begins any behind the bridge
pub(super) fn is_task(method: &str) -> bool {
    method.starts_with("tasks/")
}

/// What is said to such a request
pub(super) fn no_tasks() -> RpcError {
    let mut error = RpcError::method_not_found("tasks/*");
    error.message = "tasks do not pass the bridge: calls are made without them".into();
    error
}

/// What of a `_meta` object is the application's; none when nothing is
pub(super) fn free(meta: &RawJson) -> Option<RawJson> {
    let all: Extra = meta.parse().ok()?;
    let free: Extra = all.into_iter().filter(|(key, _)| is_free_key(key)).collect();
    if free.is_empty() { None } else { RawJson::encode(&free).ok() }
}

/// A result that can be sent
#[derive(Debug)]
pub(super) enum Shaped {
    /// As the server wrote it
    AsItIs(RawJson),
    Anew(Prepared),
}

/// The result of a call, from a server that speaks `from`, for a client that speaks `to`
pub(super) fn result(method: &str, result: &RawJson, from: Version, to: Version) -> Result<Shaped, RpcError> {
    macro_rules! anew {
        ($type:ty) => {{
            let mut value: $type = result.parse().map_err(|error| unreadable(&error))?;
            value.result_type = None;
            value.meta = value.meta.as_ref().and_then(free);
            Prepared::new(to, &value).map(Shaped::Anew).map_err(|error| unreadable(&error))
        }};
    }
    match method {
        _ if from == to => {}
        "tools/call" => return anew!(CallToolResult<'_>),
        "tools/list" => return anew!(ListToolsResult),
        "resources/read" => return anew!(ReadResourceResult<'_>),
        "resources/list" => return anew!(ListResourcesResult),
        "resources/templates/list" => return anew!(ListResourceTemplatesResult),
        "prompts/get" => return anew!(GetPromptResult<'_>),
        "prompts/list" => return anew!(ListPromptsResult),
        "completion/complete" => return anew!(CompleteResult),
        _ => {}
    }
    // What it is, and who says it, is added by the engine.
    let theirs = |name: &str| result.member(name).is_some();
    if !theirs("_meta") && !theirs("resultType") {
        return Ok(Shaped::AsItIs(result.clone()));
    }
    let mut members: Extra = result.parse().map_err(|error| unreadable(&error))?;
    members.remove("resultType");
    if let Some(meta) = members.remove("_meta").as_ref().and_then(free) {
        members.insert("_meta", meta);
    }
    RawJson::encode(&members).map(Shaped::AsItIs).map_err(|error| unreadable(&error))
}

/// What a client is told of a result that cannot be passed on
pub(super) fn unreadable(why: &dyn core::fmt::Display) -> RpcError {
    RpcError::internal(format!("the server's answer cannot be passed on: {why}"))
}

/// What a client is told when its call did not even go out
pub(super) fn refused(why: &UseError, method: &str) -> RpcError {
    match why {
        UseError::PeerLacks(_) | UseError::NotYours(_) => RpcError::method_not_found(method),
        UseError::NotInVersion { what, version } => {
            RpcError::invalid_request(format!("the server speaks {version}, which does not have `{what}`"))
        }
        UseError::Encode(_) => RpcError::invalid_params(format!("cannot be passed on: {why}")),
        other => RpcError::internal(format!("cannot be passed on: {other}")),
    }
}

/// What one side is told when the other did not answer with a result
pub(super) fn failed(error: &CallError) -> RpcError {
    match error {
        // These are about the way between the bridge and the server.
        CallError::Rpc(error)
            if matches!(error.code, code::HEADER_MISMATCH | code::UNSUPPORTED_PROTOCOL_VERSION) =>
        {
            RpcError::internal(format!("the server refused the bridge: {error}"))
        }
        CallError::Rpc(error) | CallError::InputRefused(error) => error.clone(),
        CallError::Refused(why) => refused(why, "that method"),
        CallError::Closed(fault) => super::relay::gone(fault),
        other => RpcError::internal(format!("beyond the bridge: {other}")),
    }
}
