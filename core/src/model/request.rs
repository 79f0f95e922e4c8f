//! Links from parameters to their method and result type, and from list entries to their list.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::base::EmptyResult;
use super::completion::{CompleteParams, CompleteResult};
use super::into_static::IntoStatic;
use super::prompts::{GetPromptParams, GetPromptResult, Prompt};
use super::resources::{ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate};
use super::tasks::{CancelTaskParams, GetTaskParams, GetTaskPayloadParams, Task, UpdateTaskParams};
use super::tools::{CallToolParams, CallToolResult, Tool};
use crate::methods::{self, EntryKind};
use crate::raw::RawJson;

/// Parameters of a method, with its name and its result type.
///
/// A client needs it for a typed call:
///
/// ```
/// use mcp_proto::client::{Config, Engine};
/// use mcp_proto::model::{ReadResourceParams, RequestParams};
/// use mcp_proto::{CallKey, CallOptions, Instant, RawJson, UseError};
///
/// fn call<R: RequestParams>(engine: &mut Engine, now: Instant, params: &R) -> Result<CallKey, UseError> {
///     engine.call(now, R::METHOD, params, &CallOptions::new())
/// }
///
/// // … and when the result has arrived:
/// let result = RawJson::new(r#"{"contents":[{"uri":"note://1","text":"buy milk"}]}"#)?;
/// let read = ReadResourceParams::read(&result)?;
/// assert_eq!(read.contents[0].uri(), "note://1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RequestParams: Serialize {
    /// Name of the method.
    const METHOD: &'static str;
    /// Type of the result; borrows nothing.
    type Result;

    /// Reads a result.
    ///
    /// # Errors
    ///
    /// An error that names the missing or wrong member by its path.
    fn read(result: &RawJson) -> Result<Self::Result, serde_json::Error>;
}

macro_rules! requests {
    ($($params:ident $method:ident $result:ty, $owned:ty;)*) => {$(
        impl RequestParams for $params<'_> {
            const METHOD: &'static str = methods::$method;
            type Result = $owned;
            fn read(result: &RawJson) -> Result<Self::Result, serde_json::Error> {
                result.parse::<$result>().map(IntoStatic::into_static)
            }
        }
    )*};
}
requests! {
    CallToolParams TOOLS_CALL CallToolResult<'_>, CallToolResult<'static>;
    ReadResourceParams RESOURCES_READ ReadResourceResult<'_>, ReadResourceResult<'static>;
    GetPromptParams PROMPTS_GET GetPromptResult<'_>, GetPromptResult<'static>;
    CompleteParams COMPLETE CompleteResult, CompleteResult;
    GetTaskParams TASKS_GET Task<'_>, Task<'static>;
    GetTaskPayloadParams TASKS_RESULT CallToolResult<'_>, CallToolResult<'static>;
    CancelTaskParams TASKS_CANCEL EmptyResult, EmptyResult;
    UpdateTaskParams TASKS_UPDATE EmptyResult, EmptyResult;
}

/// Entry of a list.
pub trait ListItem: Serialize + DeserializeOwned {
    /// The list that it belongs to.
    const KIND: EntryKind;
}

impl ListItem for Tool {
    const KIND: EntryKind = EntryKind::Tool;
}
impl ListItem for Resource {
    const KIND: EntryKind = EntryKind::Resource;
}
impl ListItem for ResourceTemplate {
    const KIND: EntryKind = EntryKind::ResourceTemplate;
}
impl ListItem for Prompt {
    const KIND: EntryKind = EntryKind::Prompt;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn why<R: RequestParams>(text: &'static str) -> String {
        let read = R::read(&RawJson::new(text).expect("JSON"));
        read.err().map_or_else(String::new, |error| error.to_string())
    }

    // covers: TOOL-013, TOOL-037, RES-005, RES-006, PROMPT-004, PROMPT-006, COMP-004
    #[test]
    fn result_error_names_path() {
        for (text, path) in [
            ("[]", "invalid type: sequence"),
            ("{}", "missing field `content`"),
            (r#"{"content":{}}"#, "`content`: "),
            (r#"{"content":[{"type":"text","text":1}]}"#, "`content.text`: "),
            (r#"{"content":[{"text":"x"}]}"#, "`content`: missing field `type`"),
            (r#"{"content":[],"isError":"no"}"#, "`isError`: "),
            (r#"{"content":[],"content":[]}"#, "duplicate field `content`"),
            (r#"{"content":[],"resultType":1}"#, "`resultType`: "),
        ] {
            let why = why::<CallToolParams<'_>>(text);
            assert!(why.starts_with(path), "{text}: {why}");
        }
        for (text, path) in [
            (r#"{"contents":[{"text":"x"}]}"#, "`contents`: missing field `uri`"),
            (r#"{"contents":[{"uri":"a:b"}]}"#, "`contents`: "),
            (r#"{"contents":[],"ttlMs":"5"}"#, "`ttlMs`: "),
        ] {
            let why = why::<ReadResourceParams<'_>>(text);
            assert!(why.starts_with(path), "{text}: {why}");
        }
        let text = r#"{"messages":[{"role":"user","content":{"type":"text"}}]}"#;
        assert!(why::<GetPromptParams<'_>>(text).starts_with("`messages.content`: missing field `text`"));
        let text = r#"{"completion":{"values":["a",1]}}"#;
        assert!(why::<CompleteParams<'_>>(text).starts_with("`completion.values`: "));
        assert_eq!(why::<CompleteParams<'_>>(r#"{"completion":{"values":[]},"new":1}"#), "");
    }

    #[test]
    fn request_params_name_known_methods() {
        fn exists<R: RequestParams>() -> bool {
            methods::request_rule(R::METHOD).is_some()
        }
        assert!(exists::<CallToolParams<'_>>() && exists::<ReadResourceParams<'_>>());
        assert!(exists::<GetPromptParams<'_>>() && exists::<CompleteParams<'_>>());
    }
}
