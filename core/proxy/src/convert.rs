//! Conversion of parameters, results and errors between the revisions of both sides.

use alloc::borrow::Cow;

use mcp_proto::client::TypedEntries;
use mcp_proto::meta::is_unreserved_key;
use mcp_proto::model::{
    CallToolResult, CompleteParams, CompleteResult, CompletionReference, Extra, GetPromptResult, ListItem,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt,
    ReadResourceResult, Resource, ResourceTemplate, Tool, encode_for,
};
use mcp_proto::rpc::code;
use mcp_proto::server::PreparedResult;
use mcp_proto::{CallError, Diagnostic, EntryKind, Era, MemberEdit, RawJson, RpcError, UseError, Version};
use serde::Serialize;

use crate::relayed_call::Delivery;

/// Parameters of a call, as they are sent to the server.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum RelayedParams<'a> {
    /// Of a tool without other parameters.
    Tool {
        name: Cow<'a, str>,
        arguments: RawJson,
    },
    Any(RawJson),
}

impl RelayedParams<'_> {
    /// Returns the name and the arguments of the parameters of a tool.
    pub(super) fn tool(&self) -> Option<(String, RawJson)> {
        match self {
            Self::Tool { name, arguments } => Some((name.to_string(), arguments.clone())),
            Self::Any(params) => {
                let arguments = params.member("arguments").unwrap_or_else(RawJson::empty_object);
                Some((params.member("name")?.string()?, arguments))
            }
        }
    }
}

/// Converts the parameters of a call for a server that speaks `to`. Members that the engines write are removed, and `prefix` from
/// the name of a tool or prompt.
///
/// # Errors
///
/// Returns the error to answer the call with.
pub(super) fn convert_params<'a>(
    delivery: &'a Delivery,
    to: Version,
    prefix: Option<&str>,
) -> Result<RelayedParams<'a>, RpcError> {
    let wrong = |error: &dyn core::fmt::Display| RpcError::invalid_params(format!("`params`: {error}"));
    let Delivery { call, params: replaced, .. } = delivery;
    if call.method() == "completion/complete" {
        let mut params: CompleteParams<'_> = match replaced {
            Some(params) => params.parse().map_err(|error| wrong(&error))?,
            None => call.parse()?,
        };
        params.meta = None;
        if let (CompletionReference::Prompt(prompt), Some(prefix)) = (&mut params.reference, prefix) {
            if let Some(name) = prompt.name.strip_prefix(prefix) {
                prompt.name = name.to_owned().into();
            }
        }
        return encode_for(to, &params).map(RelayedParams::Any).map_err(|error| wrong(&error));
    }
    let named = prefix.filter(|_| matches!(call.method(), "tools/call" | "prompts/get"));
    if let (None, Some(arguments), Ok(tool)) = (replaced, call.sole_arguments(), call.tool_call()) {
        let own = named.and_then(|prefix| tool.name.strip_prefix(prefix)).map(str::to_owned);
        return Ok(RelayedParams::Tool { name: own.map_or(tool.name, Cow::Owned), arguments });
    }
    // In other methods some names belong to the application.
    let has_retries = matches!(call.method(), "tools/call" | "prompts/get" | "resources/read");
    let of_engine = |name: &str| match name {
        "_meta" => true,
        "inputResponses" | "requestState" | "task" => has_retries,
        _ => false,
    };
    let given = replaced.clone().or_else(|| call.params()).unwrap_or_else(RawJson::empty_object);
    let edited = given.edit_members(|name, value| match (name, named) {
        _ if of_engine(name) => MemberEdit::Drop,
        ("name", Some(prefix)) => {
            without_prefix(&value, prefix).map_or(MemberEdit::Keep, MemberEdit::Replace)
        }
        _ => MemberEdit::Keep,
    });
    edited.map(RelayedParams::Any).ok_or_else(|| wrong(&"not an object, or a member occurs twice"))
}

fn without_prefix(name: &RawJson, prefix: &str) -> Option<RawJson> {
    RawJson::encode(name.string()?.strip_prefix(prefix)?).ok()
}

/// Returns the parameters of a request that the server sent, without members that its engine wrote.
pub(super) fn request_params(params: Option<&RawJson>) -> Extra {
    let mut params: Extra = params.and_then(|params| params.parse().ok()).unwrap_or_default();
    if let Some(meta) = params.remove("_meta").as_ref().and_then(application_meta) {
        params.insert("_meta", meta);
    }
    params
}

/// Returns an object in which a member has this value; `None` if it is no object, or if there is no value.
pub(super) fn with_member(object: &RawJson, member: &str, value: Option<RawJson>) -> Option<RawJson> {
    let mut members: Extra = object.parse().ok()?;
    members.insert(member, value?);
    RawJson::encode(&members).ok()
}

/// Returns the application's keys of a `_meta` object, or `None` if it has none.
pub(super) fn application_meta(meta: &RawJson) -> Option<RawJson> {
    meta.retain_members(is_unreserved_key).filter(|free| free.as_bytes() != b"{}")
}

/// A result that can be sent to the client.
#[derive(Debug)]
pub(super) enum ConvertedResult {
    /// The result as the server wrote it.
    Unchanged(RawJson),
    Rewritten(PreparedResult),
}

/// Converts the result of a call from a server that speaks `from` for a client that speaks `to`.
///
/// An entry of a list that cannot be read is left out, with one of `diagnostics`.
///
/// # Errors
///
/// Returns an error if the result cannot be read or written in the other revision.
pub(super) fn convert_result(
    method: &str,
    result: &RawJson,
    from: Version,
    to: Version,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<ConvertedResult, RpcError> {
    macro_rules! rewritten {
        ($type:ty) => {
            rewritten!($type, result.parse())
        };
        ($type:ty, entries: $entry:ty) => {
            rewritten!(
                $type,
                result.parse().or_else(|error| {
                    let readable = without_unreadable_entries::<$entry>(result, from, diagnostics);
                    readable.map_or(Err(error), |readable| readable.parse())
                })
            )
        };
        ($type:ty, $parsed:expr) => {{
            let mut value: $type = $parsed.map_err(|error| unreadable_result_error(&error))?;
            value.result_type = None;
            value.meta = value.meta.as_ref().and_then(application_meta);
            PreparedResult::new(to, &value)
                .map(ConvertedResult::Rewritten)
                .map_err(|error| unreadable_result_error(&error))
        }};
    }
    if from != to && method == "tools/call" && from.min(to) >= Version::V2025_11_25 {
        // These revisions differ in `structuredContent` alone. A result that is written unlike the schema is read, to be mended or
        // refused.
        let (mut has_content, mut is_plain) = (false, !result.as_str().contains("null"));
        let kept = without_engine_members(result, |name, value| match name {
            "content" => has_content = value.as_str().starts_with('['),
            "structuredContent" => is_plain &= value.is_object(),
            "isError" => is_plain &= matches!(value.as_str(), "true" | "false"),
            _ => {}
        });
        if has_content && is_plain {
            return kept.map(ConvertedResult::Unchanged);
        }
    }
    match method {
        _ if from == to => {}
        "tools/call" => return rewritten!(CallToolResult<'_>),
        "tools/list" => return rewritten!(ListToolsResult, entries: Tool),
        "resources/read" => return rewritten!(ReadResourceResult<'_>),
        "resources/list" => return rewritten!(ListResourcesResult, entries: Resource),
        "resources/templates/list" => {
            return rewritten!(ListResourceTemplatesResult, entries: ResourceTemplate);
        }
        "prompts/get" => return rewritten!(GetPromptResult<'_>),
        "prompts/list" => return rewritten!(ListPromptsResult, entries: Prompt),
        "completion/complete" => return rewritten!(CompleteResult),
        _ => {}
    }
    without_engine_members(result, |_, _| {}).map(ConvertedResult::Unchanged)
}

/// Returns the result without `resultType` and the keys of the protocol in `_meta`, which the other engine adds. `see` gets the
/// members.
fn without_engine_members(
    result: &RawJson,
    mut see: impl FnMut(&str, &RawJson),
) -> Result<RawJson, RpcError> {
    let kept = result.edit_members(|name, value| {
        see(name, &value);
        match name {
            "resultType" => MemberEdit::Drop,
            "_meta" => application_meta(&value).map_or(MemberEdit::Drop, MemberEdit::Replace),
            _ => MemberEdit::Keep,
        }
    });
    kept.ok_or_else(|| unreadable_result_error(&"not an object, or a member occurs twice"))
}

/// Returns the result of a list without the entries that cannot be read.
fn without_unreadable_entries<T: ListItem>(
    result: &RawJson,
    version: Version,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<RawJson> {
    let list = T::KIND.list_member();
    let entries = result.member(list)?.elements()?;
    let readable = readable_entries::<T>(entries, version, version, diagnostics);
    with_member(result, list, RawJson::encode(&readable).ok())
}

/// Returns the entries of a list from a server that speaks `from` in the form of the revision `to`.
///
/// Entries that cannot be read or written are left out, those that cannot be read with one of `diagnostics`.
pub(super) fn convert_entries(
    kind: EntryKind,
    result: &RawJson,
    from: Version,
    to: Version,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<RawJson> {
    let entries = result.member(kind.list_member()).and_then(|list| list.elements()).unwrap_or_default();
    match kind {
        EntryKind::Tool => readable_entries::<Tool>(entries, from, to, diagnostics),
        EntryKind::Prompt => readable_entries::<Prompt>(entries, from, to, diagnostics),
        EntryKind::Resource => readable_entries::<Resource>(entries, from, to, diagnostics),
        EntryKind::ResourceTemplate => readable_entries::<ResourceTemplate>(entries, from, to, diagnostics),
        _ => entries,
    }
}

/// Reads entries also if both revisions are the same: a client that is strict would refuse the entries of all upstreams.
fn readable_entries<T: ListItem>(
    entries: Vec<RawJson>,
    from: Version,
    to: Version,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<RawJson> {
    let read = TypedEntries::<T>::read(&entries);
    let are_all_readable = read.diagnostics.is_empty();
    diagnostics.extend(read.diagnostics);
    if from == to {
        let is_readable = |entry: &RawJson| are_all_readable || entry.parse::<T>().is_ok();
        return entries.into_iter().filter(is_readable).collect();
    }
    read.entries.iter().filter_map(|entry| encode_for(to, entry).ok()).collect()
}

/// Converts an error of the server to the form of the client's revision, where the engine cannot know what was meant.
pub(super) fn convert_error(mut error: RpcError, method: &str, from: Version, to: Version) -> RpcError {
    let names_resource = || error.data.as_ref().is_some_and(|data| data.member("uri").is_some());
    error.code = match error.code {
        // ERR-010, RES-016: the eras have different codes for a resource that is not there.
        code::INVALID_PARAMS
            if from.era() == Era::Modern && method == "resources/read" && names_resource() =>
        {
            code::RESOURCE_NOT_FOUND
        }
        // ERR-003: the codes of implementations, and those of drafts.
        -32_019..=-32_000 if to.era() == Era::Modern && error.code != code::RESOURCE_NOT_FOUND => {
            code::INTERNAL_ERROR
        }
        code => code,
    };
    error
}

/// Returns the beginning of a reason: at most 256 characters.
pub(super) fn clip(reason: &str) -> String {
    reason.chars().take(256).collect()
}

/// Returns whether an error says that a server does not know a resource, or has none at all.
pub(super) fn is_unknown(error: &RpcError) -> bool {
    matches!(error.released_code(), code::RESOURCE_NOT_FOUND | code::METHOD_NOT_FOUND)
        || error.as_resource_not_found().is_some()
}

/// Returns the error for a result that cannot be passed on.
pub(super) fn unreadable_result_error(reason: &dyn core::fmt::Display) -> RpcError {
    RpcError::internal(format!("the server's answer cannot be passed on: {reason}"))
}

/// Returns the error for a call that could not be sent to the server.
pub(super) fn refused_call_error(reason: &UseError, method: &str) -> RpcError {
    match reason {
        UseError::MissingPeerCapability(_) | UseError::ReservedMethod(_) => {
            RpcError::method_not_found(method)
        }
        UseError::NotInVersion { feature: what, version } => {
            RpcError::invalid_request(format!("the server speaks {version}, which does not have `{what}`"))
        }
        UseError::Encode(_) => RpcError::invalid_params(format!("cannot be passed on: {reason}")),
        other => RpcError::internal(format!("cannot be passed on: {other}")),
    }
}

/// Returns the error for one side when the call at the other side failed.
pub(super) fn failed_call_error(error: &CallError) -> RpcError {
    match error {
        // These errors concern the connection between the bridge and the server, not the client.
        CallError::Rpc(error)
            if error.as_unsupported_version().is_some()
                || matches!(
                    error.released_code(),
                    code::HEADER_MISMATCH | code::UNSUPPORTED_PROTOCOL_VERSION
                ) =>
        {
            RpcError::internal(format!("the server refused the bridge: {error}"))
        }
        CallError::Rpc(error) | CallError::InputRefused(error) => error.clone(),
        CallError::Refused(why) => refused_call_error(why, "that method"),
        CallError::Closed(fault) => crate::relay::server_gone_error(fault),
        other => RpcError::internal(format!("beyond the bridge: {other}")),
    }
}
