//! What handlers may return, made into results.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Display;

use serde::Serialize;

use crate::json::EncodeError;
use crate::model::{
    CallToolResult, CompleteResult, Content, GetPromptResult, PromptMessage, ReadResourceResult,
    ResourceContents,
};
use crate::raw::RawJson;
use crate::rpc::RpcError;

/// Why there is no result
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoResult {
    /// The call is answered with an error
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The result cannot be written as JSON; that is for the author of the handler to know
    #[error("the result cannot be written: {0}")]
    Encode(#[from] EncodeError),
}

impl NoResult {
    /// What the client is told
    #[must_use]
    pub fn rpc(self) -> RpcError {
        match self {
            Self::Rpc(error) => error,
            Self::Encode(_) => RpcError::internal("the result cannot be written as JSON"),
        }
    }
}

/// What a tool's handler may return
///
/// Text, numbers and booleans become a text; a content block or several stand as they are; [`Json`] becomes a structured
/// result, given as text too (TOOL-014); `()` says nothing. An `Err` becomes a result that says to the model what went
/// wrong (TOOL-023), unless it is an [`RpcError`]: that is the answer to the call.
pub trait IntoToolResult {
    /// Makes the result
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult>;

    /// The schema of structured results, if the type has one
    #[must_use]
    fn output_schema() -> Option<RawJson>
    where
        Self: Sized,
    {
        None
    }
}

impl IntoToolResult for CallToolResult<'_> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(self.into_owned())
    }
}

impl IntoToolResult for Content<'_> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::new(self.into_owned()))
    }
}

impl IntoToolResult for Vec<Content<'_>> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::content(self.into_iter().map(Content::into_owned).collect()))
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::content(Vec::new()))
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::text(self))
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::text(String::from(self)))
    }
}

impl IntoToolResult for Cow<'_, str> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::text(self.into_owned()))
    }
}

macro_rules! as_text {
    ($($type:ty)*) => {$(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
                Ok(CallToolResult::text(self.to_string()))
            }
        }
    )*};
}

as_text!(bool char i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

impl<T: IntoToolResult, E: Display + 'static> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => match (&error as &dyn Any).downcast_ref::<RpcError>() {
                Some(rpc) => Err(rpc.clone().into()),
                None => Ok(CallToolResult::error(error.to_string())),
            },
        }
    }

    fn output_schema() -> Option<RawJson> {
        T::output_schema()
    }
}

/// A value as a structured result
///
/// Until 2025-11-25 it has to be a JSON object; other values go out as text there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Ok(CallToolResult::structured(RawJson::encode(&self.0)?))
    }
}

/// What a resource's handler may return
///
/// A `String` becomes text, bytes become a blob (RES-020), both with the URI that was asked for and the media type that
/// is registered; `None` says that there is no such resource (RES-017). An `Err` is an internal error with its message,
/// unless it is an [`RpcError`].
pub trait IntoReadResult {
    /// Makes the result for a URI
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult>;
}

fn contents(
    contents: ResourceContents<'static>,
    mime_type: Option<&str>,
) -> Result<ReadResourceResult<'static>, NoResult> {
    let mime_type = mime_type.map(|m| Cow::Owned(String::from(m)));
    let contents = match contents {
        ResourceContents::Text(text) => {
            ResourceContents::Text(crate::model::TextResourceContents { mime_type, ..text })
        }
        ResourceContents::Blob(blob) => {
            ResourceContents::Blob(crate::model::BlobResourceContents { mime_type, ..blob })
        }
    };
    Ok(ReadResourceResult::new([contents]))
}

impl IntoReadResult for ReadResourceResult<'_> {
    fn into_read_result(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult<'static>, NoResult> {
        Ok(self.into_owned())
    }
}

impl IntoReadResult for Vec<ResourceContents<'_>> {
    fn into_read_result(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult<'static>, NoResult> {
        Ok(ReadResourceResult::new(self).into_owned())
    }
}

impl IntoReadResult for String {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        contents(ResourceContents::text(uri.to_string(), self), mime)
    }
}

impl IntoReadResult for &str {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        String::from(self).into_read_result(uri, mime)
    }
}

#[cfg(feature = "base64")]
impl IntoReadResult for &[u8] {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        contents(ResourceContents::blob_bytes(String::from(uri), self), mime)
    }
}

#[cfg(feature = "base64")]
impl IntoReadResult for Vec<u8> {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        self.as_slice().into_read_result(uri, mime)
    }
}

#[cfg(feature = "base64")]
impl IntoReadResult for bytes::Bytes {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        self.as_ref().into_read_result(uri, mime)
    }
}

impl<T: IntoReadResult> IntoReadResult for Option<T> {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        self.ok_or_else(|| RpcError::resource_not_found(uri))?.into_read_result(uri, mime)
    }
}

impl<T: IntoReadResult, E: Display + 'static> IntoReadResult for Result<T, E> {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, NoResult> {
        self.map_err(|e| rpc(&e))?.into_read_result(uri, mime)
    }
}

/// What a prompt's handler may return
///
/// A text is what the user says; a message or several stand as they are. An `Err` is an internal error with its message,
/// unless it is an [`RpcError`].
pub trait IntoPromptResult {
    /// Makes the result
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult>;
}

impl IntoPromptResult for GetPromptResult<'_> {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult> {
        Ok(self.into_owned())
    }
}

impl IntoPromptResult for Vec<PromptMessage<'_>> {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult> {
        Ok(GetPromptResult::new(self).into_owned())
    }
}

impl IntoPromptResult for PromptMessage<'_> {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult> {
        Ok(GetPromptResult::new([self]).into_owned())
    }
}

impl IntoPromptResult for String {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult> {
        Ok(GetPromptResult::new([PromptMessage::user(Content::text(self))]))
    }
}

impl IntoPromptResult for &str {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult> {
        String::from(self).into_prompt_result()
    }
}

impl<T: IntoPromptResult, E: Display + 'static> IntoPromptResult for Result<T, E> {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, NoResult> {
        self.map_err(|e| rpc(&e))?.into_prompt_result()
    }
}

/// What a completion's handler may return: values, the likeliest first; more than a hundred are cut off (COMP-004)
pub trait IntoCompletion {
    /// Makes the result
    fn into_completion(self) -> Result<CompleteResult, NoResult>;
}

impl IntoCompletion for CompleteResult {
    fn into_completion(mut self) -> Result<CompleteResult, NoResult> {
        self.completion.cut();
        Ok(self)
    }
}

impl<S: Into<String>> IntoCompletion for Vec<S> {
    fn into_completion(self) -> Result<CompleteResult, NoResult> {
        Ok(CompleteResult::first(self.into_iter().map(Into::into).collect()))
    }
}

impl<T: IntoCompletion, E: Display + 'static> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<CompleteResult, NoResult> {
        self.map_err(|e| rpc(&e))?.into_completion()
    }
}

/// Those of `all` that what was typed begins, and then those that it stands in, whatever the case (COMP-005)
pub fn suggest<'a>(all: impl IntoIterator<Item = &'a str>, typed: &str) -> Vec<String> {
    let typed = typed.to_lowercase();
    let (mut begin, mut hold) = (Vec::new(), Vec::new());
    for word in all {
        match word.to_lowercase().find(&typed) {
            Some(0) => begin.push(String::from(word)),
            Some(_) => hold.push(String::from(word)),
            None => {}
        }
    }
    begin.append(&mut hold);
    begin
}

fn rpc<E: Display + 'static>(error: &E) -> RpcError {
    match (error as &dyn Any).downcast_ref::<RpcError>() {
        Some(rpc) => rpc.clone(),
        None => RpcError::internal(format!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool<T: IntoToolResult>(value: T) -> String {
        match value.into_tool_result() {
            Ok(result) => serde_json::to_string(&result).expect("JSON"),
            Err(none) => none.rpc().to_string(),
        }
    }

    // covers: TOOL-013, TOOL-014, TOOL-023
    #[test]
    fn what_tools_return() {
        let text = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
        assert_eq!(tool("a"), text("a"));
        assert_eq!(tool(String::from("a")), text("a"));
        assert_eq!((tool(42), tool(1.5), tool(true)), (text("42"), text("1.5"), text("true")));
        assert_eq!(tool(()), r#"{"content":[]}"#);
        assert_eq!(tool(Content::text("a")), text("a"));
        assert_eq!(tool(alloc::vec![Content::text("a")]), text("a"));
        assert_eq!(tool(Ok::<_, String>(3)), text("3"));
        let failed = r#"{"content":[{"type":"text","text":"no luck"}],"isError":true}"#;
        assert_eq!(tool(Err::<u8, _>("no luck")), failed);
        assert_eq!(tool(Err::<u8, _>(RpcError::invalid_params("bad"))), "bad (code -32602)");
        let sum = tool(Json([("sum", 3)].into_iter().collect::<alloc::collections::BTreeMap<_, _>>()));
        assert_eq!(
            sum,
            r#"{"content":[{"type":"text","text":"{\"sum\":3}"}],"structuredContent":{"sum":3}}"#
        );
        let unwritable = tool(Json(alloc::collections::BTreeMap::from([(alloc::vec![1], 2)])));
        assert_eq!(unwritable, "the result cannot be written as JSON (code -32603)");
    }

    // covers: RES-017, RES-020
    #[test]
    fn what_resources_return() {
        let read = |result: Result<ReadResourceResult<'_>, NoResult>| match result {
            Ok(result) => serde_json::to_string(&result).expect("JSON"),
            Err(none) => none.rpc().to_string(),
        };
        let text = "text".into_read_result("a:b", Some("text/plain"));
        assert_eq!(read(text), r#"{"contents":[{"uri":"a:b","text":"text","mimeType":"text/plain"}]}"#);
        #[cfg(feature = "base64")]
        {
            let blob = alloc::vec![0u8, 255].into_read_result("a:b", None);
            assert_eq!(read(blob), r#"{"contents":[{"uri":"a:b","blob":"AP8="}]}"#);
        }
        assert!(read(None::<String>.into_read_result("a:b", None)).starts_with("resource not found"));
        assert_eq!(read(Err::<String, _>("disk").into_read_result("a:b", None)), "disk (code -32603)");
    }

    // covers: PROMPT-006, COMP-004, COMP-005
    #[test]
    fn what_prompts_and_completions_return() {
        let result = "hi".into_prompt_result().expect("a result");
        let text = serde_json::to_string(&result).expect("JSON");
        assert_eq!(text, r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}"#);
        assert!(Err::<String, _>("x").into_prompt_result().is_err());
        let words = suggest(["green", "Red", "shred", "blue"], "re");
        assert_eq!(words, ["Red", "green", "shred"]);
        assert_eq!(words.into_completion().expect("a result").completion.total, Some(3));
    }
}
