//! Which method parameters belong to, and what its result is read as.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::completion::{CompleteParams, CompleteResult};
use super::own::Own;
use super::prompts::{GetPromptParams, GetPromptResult, Prompt};
use super::resources::{ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate};
use super::tools::{CallToolParams, CallToolResult, Tool};
use crate::raw::RawJson;
use crate::vocab::{self, Kind};

/// Parameters that know their method, and how its result is read
///
/// What a client needs in order to make a typed call:
///
/// ```
/// use mcp_proto::client::{Config, Engine};
/// use mcp_proto::model::{ReadResourceParams, Request};
/// use mcp_proto::{CallKey, CallOptions, Instant, RawJson, UseError};
///
/// fn ask<R: Request>(engine: &mut Engine, now: Instant, params: &R) -> Result<CallKey, UseError> {
///     engine.call(now, R::METHOD, params, &CallOptions::new())
/// }
///
/// // … and when its outcome has come:
/// let result = RawJson::new(r#"{"contents":[{"uri":"note://1","text":"buy milk"}]}"#)?;
/// let read = ReadResourceParams::read(&result)?;
/// assert_eq!(read.contents[0].uri(), "note://1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Request: Serialize {
    /// The method
    const METHOD: &'static str;
    /// What its result is read as; borrows from nothing
    type Result;

    /// Reads a result
    ///
    /// # Errors
    ///
    /// Says which member is missing or of the wrong type, by its path.
    fn read(result: &RawJson) -> Result<Self::Result, serde_json::Error>;
}

macro_rules! requests {
    ($($params:ident $method:ident $result:ty, $owned:ty;)*) => {$(
        impl Request for $params<'_> {
            const METHOD: &'static str = vocab::$method;
            type Result = $owned;
            fn read(result: &RawJson) -> Result<Self::Result, serde_json::Error> {
                result.parse::<$result>().map(Own::own)
            }
        }
    )*};
}
requests! {
    CallToolParams TOOLS_CALL CallToolResult<'_>, CallToolResult<'static>;
    ReadResourceParams RESOURCES_READ ReadResourceResult<'_>, ReadResourceResult<'static>;
    GetPromptParams PROMPTS_GET GetPromptResult<'_>, GetPromptResult<'static>;
    CompleteParams COMPLETE CompleteResult, CompleteResult;
}

/// An entry of a list: it knows which list
pub trait Listed: Serialize + DeserializeOwned {
    /// The list that it stands in
    const KIND: Kind;
}

impl Listed for Tool {
    const KIND: Kind = Kind::Tool;
}
impl Listed for Resource {
    const KIND: Kind = Kind::Resource;
}
impl Listed for ResourceTemplate {
    const KIND: Kind = Kind::ResourceTemplate;
}
impl Listed for Prompt {
    const KIND: Kind = Kind::Prompt;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn why<R: Request>(text: &'static str) -> String {
        let read = R::read(&RawJson::new(text).expect("JSON"));
        read.err().map_or_else(String::new, |error| error.to_string())
    }

    // covers: TOOL-013, TOOL-037, RES-005, RES-006, PROMPT-004, PROMPT-006, COMP-004
    #[test]
    fn what_cannot_be_read_is_told_by_its_path() {
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
    fn methods_exist() {
        fn exists<R: Request>() -> bool {
            vocab::request(R::METHOD).is_some()
        }
        assert!(exists::<CallToolParams<'_>>() && exists::<ReadResourceParams<'_>>());
        assert!(exists::<GetPromptParams<'_>>() && exists::<CompleteParams<'_>>());
    }
}
