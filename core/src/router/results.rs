//! Conversions from return values of handlers to results.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::error::Error;
use core::fmt::{self, Display};

use serde::Serialize;

use crate::json::EncodeError;
use crate::model::{
    CallToolResult, CompleteResult, Content, GetPromptResult, PromptMessage, ReadResourceResult,
    ResourceContents,
};
use crate::raw::RawJson;
use crate::rpc::RpcError;

/// Outcome of a handler that has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The call is answered with this error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The result cannot be encoded as JSON. Clients see only an internal error, since this is a bug of the handler.
    #[error("the result cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    /// The handler returned an error of its own.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl HandlerError {
    /// Returns the error that the client receives for a call of anything but a tool.
    #[must_use]
    pub fn into_rpc_error(self) -> RpcError {
        match self {
            Self::Rpc(error) => error,
            Self::Encode(_) => RpcError::internal("the result cannot be written as JSON"),
            Self::Failed(failure) => RpcError::internal(failure.message),
        }
    }

    /// Returns the result of a tool that failed (TOOL-023).
    ///
    /// # Errors
    ///
    /// The error that the client receives instead.
    pub fn into_result(self) -> Result<CallToolResult<'static>, RpcError> {
        match self {
            Self::Failed(failure) => Ok(CallToolResult::error(failure.message)),
            other => Err(other.into_rpc_error()),
        }
    }
}

/// An error of a handler, as text.
///
/// The client receives its message alone. Its causes are for the author of the handler, because they may contain what a
/// client must not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    /// Messages of the error and of all its causes; `None` if there is no cause.
    chain: Option<String>,
}

impl Failure {
    /// Reads an error and its causes.
    #[must_use]
    pub fn new(error: &(dyn Error + 'static)) -> Self {
        let message = error.to_string();
        let mut chain = None;
        let mut cause = error.source();
        while let Some(next) = cause {
            chain = Some(match chain {
                None => format!("{message}: {next}"),
                Some(before) => format!("{before}: {next}"),
            });
            cause = next.source();
        }
        Self { message, chain }
    }

    /// Returns the message of the error, without its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the failure with another message for the client. Its causes are kept.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Returns whether the error has causes that the client does not read.
    #[must_use]
    pub const fn has_causes(&self) -> bool {
        self.chain.is_some()
    }
}

/// The messages of the error and of its causes, separated by `: `.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.chain.as_deref().unwrap_or(&self.message))
    }
}

impl Error for Failure {}

/// An error that a handler may return: text, a type that implements `Error`, `Box<dyn Error + Send + Sync>`, or
/// `anyhow::Error`.
///
/// An [`RpcError`] answers the call. With the feature `anyhow` this is also true of one inside an `anyhow::Error`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler",
    label = "a handler returns this error",
    note = "use a type that implements `Error + Send + Sync`, text, `Box<dyn Error + Send + Sync>` or `anyhow::Error`"
)]
pub trait IntoHandlerError {
    /// Converts the error.
    fn into_handler_error(self) -> HandlerError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>> + 'static> IntoHandlerError for E {
    fn into_handler_error(self) -> HandlerError {
        #[cfg(feature = "anyhow")]
        if let Some(error) = (&self as &dyn core::any::Any).downcast_ref::<anyhow::Error>() {
            return match error.downcast_ref::<RpcError>() {
                Some(rpc) => rpc.clone().into(),
                None => Failure::new(error.as_ref()).into(),
            };
        }
        to_handler_error(self.into())
    }
}

fn to_handler_error(error: Box<dyn Error + Send + Sync>) -> HandlerError {
    match error.downcast::<RpcError>() {
        Ok(rpc) => (*rpc).into(),
        Err(error) => Failure::new(&*error).into(),
    }
}

/// Returns `Ok(value)` with an error of any type: the end of a handler that is a closure and leaves by `?`.
///
/// `?` converts errors, so the compiler cannot infer the type of an error that a closure does not name. Here it is
/// `Box<dyn Error + Send + Sync>`, into which `?` converts an [`RpcError`], the errors of other libraries, and text; the
/// client gets what it would get without the box. A function that names its return type ends in `Ok`, and with `anyhow` a
/// closure ends in `anyhow::Ok`.
///
/// ```
/// use mcp_proto::router::{IntoToolResult, ok};
///
/// let double = |text: &str| ok(2 * text.trim().parse::<i64>()?);
/// assert_eq!(double("21").into_tool_result()?.content[0].as_text(), Some("42"));
/// # Ok::<(), mcp_proto::router::HandlerError>(())
/// ```
#[expect(clippy::missing_errors_doc, reason = "it returns none")]
pub fn ok<T>(value: T) -> Result<T, Box<dyn Error + Send + Sync>> {
    Ok(value)
}

/// Conversion of the return value of a tool handler into a result.
///
/// - Text, numbers and booleans become one text block.
/// - A content block, or a vector of them, is used as it is.
/// - [`Json`] becomes a structured result, repeated as text (TOOL-014).
/// - `()` becomes an empty result.
/// - `Err` becomes a result that tells the model what went wrong ([`HandlerError::into_result`]). An [`RpcError`]
///   answers the call instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    label = "the handler returns `{Self}`",
    note = "wrap a value that implements `Serialize` in `Json`, or in `Typed` to declare its schema as well: `Typed(value)`",
    note = "text, numbers, booleans, `()`, `Content` and `CallToolResult` are results as they are, also within `Result`"
)]
pub trait IntoToolResult {
    /// Converts the value.
    ///
    /// # Errors
    ///
    /// - [`HandlerError::Rpc`]: the value is an [`RpcError`].
    /// - [`HandlerError::Failed`]: the value is another error.
    /// - [`HandlerError::Encode`]: the value cannot be encoded as JSON.
    fn into_tool_result(self) -> Result<CallToolResult<'static>, HandlerError>;

    /// Returns the schema of structured results, if the type has one.
    #[must_use]
    fn output_schema() -> Option<RawJson>
    where
        Self: Sized,
    {
        None
    }
}

macro_rules! tool_result {
    ($type:ty, $self:ident => $result:expr) => {
        impl IntoToolResult for $type {
            fn into_tool_result($self) -> Result<CallToolResult<'static>, HandlerError> {
                Ok($result)
            }
        }
    };
}

tool_result!(CallToolResult<'_>, self => self.into_owned());
tool_result!(Content<'_>, self => CallToolResult::new(self.into_owned()));
tool_result!(Vec<Content<'_>>, self => CallToolResult::content(self.into_iter().map(Content::into_owned).collect()));
tool_result!((), self => CallToolResult::content(Vec::new()));
tool_result!(String, self => CallToolResult::text(self));
tool_result!(&str, self => CallToolResult::text(String::from(self)));
tool_result!(Cow<'_, str>, self => CallToolResult::text(self.into_owned()));

macro_rules! text_result {
    ($($type:ty)*) => {
        $(tool_result!($type, self => CallToolResult::text(self.to_string()));)*
    };
}

text_result!(bool char i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

impl<T: IntoToolResult, E: IntoHandlerError> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, HandlerError> {
        self.map_err(E::into_handler_error)?.into_tool_result()
    }

    fn output_schema() -> Option<RawJson> {
        T::output_schema()
    }
}

/// A structured result.
///
/// Up to 2025-11-25 a structured result has to be a JSON object; other values are sent as text in these revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, HandlerError> {
        Ok(CallToolResult::structured(RawJson::encode(&self.0)?))
    }
}

/// Conversion of the return value of a resource handler into a result.
///
/// - A `String` becomes text and bytes become a blob (RES-020), with the requested URI and the registered media type.
/// - `None` becomes the error "resource not found" (RES-017).
/// - `Err` becomes an internal error with its message. An [`RpcError`] is sent as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the content of a resource",
    label = "the handler returns `{Self}`",
    note = "use text, bytes, `Option` of them, `Vec<ResourceContents>` or `ReadResourceResult`, also within `Result`"
)]
pub trait IntoReadResult {
    /// Converts the value into the content of the resource `uri`.
    ///
    /// # Errors
    ///
    /// [`HandlerError::Rpc`] or [`HandlerError::Failed`] if the value is an error or `None`.
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, HandlerError>;
}

fn read_result(
    contents: ResourceContents<'static>,
    mime_type: Option<&str>,
) -> Result<ReadResourceResult<'static>, HandlerError> {
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

macro_rules! content {
    ($type:ty, ($self:ident, $uri:pat, $mime_type:pat) => $result:expr) => {
        impl IntoReadResult for $type {
            fn into_read_result(
                $self,
                $uri: &str,
                $mime_type: Option<&str>,
            ) -> Result<ReadResourceResult<'static>, HandlerError> {
                $result
            }
        }
    };
}

content!(ReadResourceResult<'_>, (self, _, _) => Ok(self.into_owned()));
content!(Vec<ResourceContents<'_>>, (self, _, _) => Ok(ReadResourceResult::new(self).into_owned()));
content!(String, (self, uri, mime) => read_result(ResourceContents::text(uri.to_string(), self), mime));
content!(&str, (self, uri, mime) => String::from(self).into_read_result(uri, mime));
content!(&[u8], (self, uri, mime) => read_result(ResourceContents::blob_bytes(String::from(uri), self), mime));
content!(Vec<u8>, (self, uri, mime) => self.as_slice().into_read_result(uri, mime));
content!(bytes::Bytes, (self, uri, mime) => self.as_ref().into_read_result(uri, mime));

impl<T: IntoReadResult> IntoReadResult for Option<T> {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, HandlerError> {
        self.ok_or_else(|| RpcError::resource_not_found(uri))?.into_read_result(uri, mime)
    }
}

impl<T: IntoReadResult, E: IntoHandlerError> IntoReadResult for Result<T, E> {
    fn into_read_result(
        self,
        uri: &str,
        mime: Option<&str>,
    ) -> Result<ReadResourceResult<'static>, HandlerError> {
        self.map_err(E::into_handler_error)?.into_read_result(uri, mime)
    }
}

/// Conversion of the return value of a prompt handler into a result.
///
/// - A text becomes one message of the user.
/// - A message, or a vector of them, is used as it is.
/// - `Err` becomes an internal error with its message. An [`RpcError`] is sent as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a prompt",
    label = "the handler returns `{Self}`",
    note = "use text, `PromptMessage`, `Vec<PromptMessage>` or `GetPromptResult`, also within `Result`"
)]
pub trait IntoPromptResult {
    /// Converts the value.
    ///
    /// # Errors
    ///
    /// [`HandlerError::Rpc`] or [`HandlerError::Failed`] if the value is an error.
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, HandlerError>;
}

macro_rules! prompt_result {
    ($type:ty, $self:ident => $result:expr) => {
        impl IntoPromptResult for $type {
            fn into_prompt_result($self) -> Result<GetPromptResult<'static>, HandlerError> {
                Ok($result)
            }
        }
    };
}

prompt_result!(GetPromptResult<'_>, self => self.into_owned());
prompt_result!(Vec<PromptMessage<'_>>, self => GetPromptResult::new(self).into_owned());
prompt_result!(PromptMessage<'_>, self => GetPromptResult::new([self]).into_owned());
prompt_result!(String, self => GetPromptResult::new([PromptMessage::user(Content::text(self))]));
prompt_result!(&str, self => GetPromptResult::new([PromptMessage::user(Content::text(self.to_string()))]));

impl<T: IntoPromptResult, E: IntoHandlerError> IntoPromptResult for Result<T, E> {
    fn into_prompt_result(self) -> Result<GetPromptResult<'static>, HandlerError> {
        self.map_err(E::into_handler_error)?.into_prompt_result()
    }
}

/// Conversion of the return value of a completion handler into a result.
///
/// Values are in order of relevance; those beyond the first hundred are cut off (COMP-004).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a completion",
    label = "the handler returns `{Self}`",
    note = "use `Vec` of text or `CompleteResult`, also within `Result`"
)]
pub trait IntoCompletion {
    /// Converts the value.
    ///
    /// # Errors
    ///
    /// [`HandlerError::Rpc`] or [`HandlerError::Failed`] if the value is an error.
    fn into_completion(self) -> Result<CompleteResult, HandlerError>;
}

impl IntoCompletion for CompleteResult {
    fn into_completion(mut self) -> Result<CompleteResult, HandlerError> {
        self.completion.truncate();
        Ok(self)
    }
}

impl<S: Into<String>> IntoCompletion for Vec<S> {
    fn into_completion(self) -> Result<CompleteResult, HandlerError> {
        Ok(CompleteResult::from_suggestions(self.into_iter().map(Into::into).collect()))
    }
}

impl<T: IntoCompletion, E: IntoHandlerError> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<CompleteResult, HandlerError> {
        self.map_err(E::into_handler_error)?.into_completion()
    }
}

/// Returns the words that begin with `typed`, then those that contain it, ignoring case (COMP-005).
pub fn suggest<'a>(all: impl IntoIterator<Item = &'a str>, typed: &str) -> Vec<String> {
    let typed = typed.to_lowercase();
    let (mut begin, mut contain) = (Vec::new(), Vec::new());
    for word in all {
        match word.to_lowercase().find(&typed) {
            Some(0) => begin.push(String::from(word)),
            Some(_) => contain.push(String::from(word)),
            None => {}
        }
    }
    begin.append(&mut contain);
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool<T: IntoToolResult>(value: T) -> String {
        match value.into_tool_result().or_else(HandlerError::into_result) {
            Ok(result) => serde_json::to_string(&result).expect("JSON"),
            Err(error) => error.to_string(),
        }
    }

    // covers: TOOL-013, TOOL-014, TOOL-023
    #[test]
    fn tool_return_values_convert_to_results() {
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
        let unencodable = tool(Json(alloc::collections::BTreeMap::from([(alloc::vec![1], 2)])));
        assert_eq!(unencodable, "the result cannot be written as JSON (code -32603)");
    }

    #[derive(Debug, thiserror::Error)]
    enum StoreError {
        #[error("no plan")]
        Plan(#[source] core::num::ParseIntError),
        #[error("refused")]
        Refused(#[source] RpcError),
    }

    // covers: TOOL-023
    #[test]
    fn handler_error_keeps_causes_apart_from_the_message() {
        let parse = "x".parse::<u8>().expect_err("not a number");
        let Err(HandlerError::Failed(failure)) = Err::<(), _>(StoreError::Plan(parse)).into_tool_result()
        else {
            panic!("a failure")
        };
        assert_eq!((failure.message(), failure.has_causes()), ("no plan", true));
        assert_eq!(failure.to_string(), "no plan: invalid digit found in string");
        assert_eq!(tool(Err::<u8, _>(StoreError::Plan("x".parse::<u8>().expect_err("not a number")))), {
            r#"{"content":[{"type":"text","text":"no plan"}],"isError":true}"#
        });
        assert!(matches!("text".into_handler_error(), HandlerError::Failed(text) if !text.has_causes()));
        // An error that was caused by the error of another peer is not the error of this call.
        let refused = StoreError::Refused(RpcError::invalid_params("bad")).into_handler_error();
        assert!(matches!(refused, HandlerError::Failed(_)));
        let boxed: Box<dyn Error + Send + Sync> = RpcError::invalid_params("bad").into();
        assert_eq!(tool(Err::<u8, _>(boxed)), "bad (code -32602)");
    }

    // covers: TOOL-023
    #[test]
    fn closure_that_ends_in_ok_gives_each_error_as_it_is() {
        let failed =
            |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":true}}"#);
        let handler = |which: u8| {
            match which {
                0 => Err(RpcError::invalid_params("bad"))?,
                1 => Err("no luck")?,
                2 => _ = "x".parse::<u8>()?,
                3 => Err(StoreError::Plan("x".parse::<u8>().expect_err("not a number")))?,
                _ => {}
            }
            ok("fine")
        };
        assert_eq!(tool(handler(0)), "bad (code -32602)");
        assert_eq!(tool(handler(1)), failed("no luck"));
        assert_eq!(tool(handler(2)), failed("invalid digit found in string"));
        assert_eq!(tool(handler(3)), failed("no plan"));
        assert_eq!(tool(handler(4)), r#"{"content":[{"type":"text","text":"fine"}]}"#);
    }

    #[cfg(feature = "anyhow")]
    #[test]
    fn rpc_error_inside_anyhow_answers_the_call() {
        use anyhow::Context as _;
        let bad = || Err::<u8, _>(RpcError::invalid_params("bad"));
        assert_eq!(tool(bad().map_err(anyhow::Error::from)), "bad (code -32602)");
        assert_eq!(tool(bad().context("outer")), "bad (code -32602)");
        let failed = "x".parse::<u8>().context("no plan");
        let Err(HandlerError::Failed(failure)) = failed.into_tool_result() else { panic!("a failure") };
        assert_eq!(
            (failure.message(), &*failure.to_string()),
            ("no plan", "no plan: invalid digit found in string")
        );
    }

    // covers: RES-017, RES-020
    #[test]
    fn resource_return_values_convert_to_contents() {
        let read = |result: Result<ReadResourceResult<'_>, HandlerError>| match result {
            Ok(result) => serde_json::to_string(&result).expect("JSON"),
            Err(error) => error.into_rpc_error().to_string(),
        };
        let text = "text".into_read_result("a:b", Some("text/plain"));
        assert_eq!(read(text), r#"{"contents":[{"uri":"a:b","text":"text","mimeType":"text/plain"}]}"#);
        {
            let blob = alloc::vec![0u8, 255].into_read_result("a:b", None);
            assert_eq!(read(blob), r#"{"contents":[{"uri":"a:b","blob":"AP8="}]}"#);
        }
        assert!(read(None::<String>.into_read_result("a:b", None)).starts_with("resource not found"));
        assert_eq!(read(Err::<String, _>("disk").into_read_result("a:b", None)), "disk (code -32603)");
    }

    // covers: PROMPT-006, COMP-004, COMP-005
    #[test]
    fn prompt_and_completion_return_values_convert_to_results() {
        let result = "hi".into_prompt_result().expect("a result");
        let text = serde_json::to_string(&result).expect("JSON");
        assert_eq!(text, r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}"#);
        assert!(Err::<String, _>("x").into_prompt_result().is_err());
        let words = suggest(["green", "Red", "shred", "blue"], "re");
        assert_eq!(words, ["Red", "green", "shred"]);
        assert_eq!(words.into_completion().expect("a result").completion.total, Some(3));
    }

    // covers: RES-020, PROMPT-006, COMP-004
    #[test]
    fn all_forms_of_a_value_convert_alike() {
        let blob = || [0u8, 255].as_slice().into_read_result("a:b", Some("a/b"));
        let expected = blob().expect("a result");
        let text = serde_json::to_string(&expected).expect("JSON");
        assert_eq!(text, r#"{"contents":[{"uri":"a:b","blob":"AP8=","mimeType":"a/b"}]}"#);
        let contents = expected.contents.clone();
        for result in [
            bytes::Bytes::from_static(&[0, 255]).into_read_result("a:b", Some("a/b")),
            Ok::<_, String>(Some(alloc::vec![0u8, 255])).into_read_result("a:b", Some("a/b")),
            // What is a result already has its own URI and type.
            expected.clone().into_read_result("c:d", None),
            contents.into_read_result("c:d", None),
        ] {
            assert_eq!(result, Ok(expected.clone()));
        }
        let prompt = "hi".into_prompt_result().expect("a result");
        let message = || PromptMessage::user(Content::text("hi"));
        for result in [
            message().into_prompt_result(),
            alloc::vec![message()].into_prompt_result(),
            prompt.clone().into_prompt_result(),
            Ok::<_, String>(String::from("hi")).into_prompt_result(),
        ] {
            assert_eq!(result, Ok(prompt.clone()));
        }
        let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        let mut uncut = CompleteResult::from_suggestions(Vec::new());
        uncut.completion.values.clone_from(&many);
        for completion in [uncut.into_completion(), Ok::<_, String>(many).into_completion()] {
            assert_eq!(completion.expect("a result").completion.values.len(), 100);
        }
        assert!(Err::<Vec<String>, _>("x").into_completion().is_err());
        let failure = Failure::new(&fmt::Error).with_message("no");
        assert_eq!((failure.message(), &*failure.to_string()), ("no", "no"));
    }
}
