//! Types that many messages share: implementation, icons, annotations, pagination, empty parameters and results.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::completion::{CompleteParams, CompleteResult};
use super::lifecycle::ClientCapabilities;
use super::map::Map;
use super::message::message;
use super::notifications::LoggingLevel;
use super::prompts::{GetPromptParams, GetPromptResult, Prompt};
use super::resources::{ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate};
use super::string_enum::string_enum;
use super::tasks::{CancelTaskParams, GetTaskParams, GetTaskPayloadParams, Task, UpdateTaskParams};
use super::tools::{CallToolParams, CallToolResult, Tool};
use crate::ascii::AsciiCaseExt as _;
use crate::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION, SERVER_INFO,
    SUBSCRIPTION_ID,
};
use crate::methods::{self, EntryKind};
use crate::raw::RawJson;
use crate::rpc::RequestId;

/// Position of the next page of a list: opaque, neither read nor changed by the client (PAGE-005).
///
/// An empty cursor is a cursor too: presence decides, not content (PAGE-007).
pub type Cursor = String;

/// Token that ties progress to a request: a string or an integer (PROG-003).
pub type ProgressToken = RequestId;

string_enum! {
    /// Sender of a message (CONT-005). An unknown word is kept when read, and never sent.
    Role never "$never::`role`" {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }

    /// Kind of a result (since 2026-07-28; BASE-026).
    ResultType {
        /// The request is complete; the meaning of a missing `resultType`.
        Complete = "complete",
        /// The server has input requests ([`InputRequiredResult`](super::InputRequiredResult); MRTR-004).
        InputRequired = "input_required",
        /// The request has become a task ([`Task`](super::Task); TASK-107).
        Task = "task",
    }

    /// Parties that may receive a cached result (since 2026-07-28; CACHE-003).
    CacheScope {
        /// Any party (CACHE-013).
        Public = "public",
        /// The party that requested it (CACHE-012).
        Private = "private",
    }

    /// Background that an icon was drawn for.
    IconTheme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

message! {
    /// Name and version of a client or server.
    ///
    /// Self-reported: do not base security decisions or behaviour on it (META-019).
    Implementation {
        /// Name for programs (META-035).
        name: String = "name",
        /// Version of the implementation, in any form.
        version: String = "version",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description (since 2025-11-25).
        opt description: String = "description",
        /// URL with more information (since 2025-11-25).
        opt website_url: String = "websiteUrl",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
    }

    /// An icon (since 2025-11-25; META-027).
    ///
    /// Untrusted: read META-030 and the rules after it before showing one. [`Icon::is_safe`] checks the scheme.
    Icon {
        /// An `https:`, `http:` or `data:` URI; an icon with another scheme is kept when read, and never sent.
        src: String as IconSource = "src",
    } {
        /// Media type, for a source that reports none or a wrong one.
        opt mime_type: String = "mimeType",
        /// Sizes: `48x48`, or `any` for a scalable one; empty for any size.
        list sizes: Vec<String> = "sizes",
        /// Background that it is made for; `None` for any.
        opt theme: IconTheme = "theme",
    }

    /// Audience and importance of a value (CONT-004).
    Annotations {} {
        /// Audience; `None` for everybody.
        hint audience: Vec<Role> = "audience",
        /// Importance from 0 (optional) to 1 (required); another number is kept when read, and never sent.
        hint priority: f64 as PriorityValue = "priority",
        /// Time of the last change, ISO 8601 (since 2025-06-18).
        hint last_modified: String = "lastModified",
    }

    /// Parameters of a method without any of its own.
    ///
    /// These are `server/discover`, `ping`, `roots/list`, and the notifications without content.
    EmptyParams {} {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of a list method (PAGE-008).
    PaginatedParams {} {
        /// Cursor from the previous page; `None` for the first page.
        opt cursor: Cursor = "cursor",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Member `task` of a request that is to become a task (2025-11-25 only; TASK-008).
    TaskMetadata {} {
        /// Requested time from creation to expiry, in milliseconds; the receiver may choose another (TASK-016).
        opt ttl: u64 as Integer = "ttl",
    }

    /// A result without content.
    EmptyResult {} {
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }
}

impl Icon {
    /// Returns whether the source has a permitted scheme: `https:`, `http:` or `data:` (META-027).
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        super::codec::is_icon_source(&self.src)
    }

    /// Returns whether an icon may be fetched from the scheme of its source: `https:` or `data:` (META-031).
    #[must_use]
    pub fn is_safe(&self) -> bool {
        let scheme = self.src.split(':').next().unwrap_or_default();
        scheme.len() < self.src.len() && (scheme.eq_ignore_case("https") || scheme.eq_ignore_case("data"))
    }
}

// Request ids and progress tokens as members of messages.

/// Writes the id as it was received, in the peer's spelling (BASE-008).
impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        match text.parse() {
            Ok(int) => serializer.serialize_i64(int),
            // A string with its quotes, or an integer in another spelling.
            Err(_) => RawJson::trusted(text.into()).serialize(serializer),
        }
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::int(id)
    }
}

/// Works with JSON text only, like [`RawJson`].
impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &RawValue = Deserialize::deserialize(deserializer)?;
        Self::from_json(raw.get().as_bytes(), usize::MAX)
            .ok_or_else(|| de::Error::custom("expected a string or a 64-bit integer"))
    }
}

// Typed views of `_meta` (META).
//
// Messages carry `_meta` as JSON, because most of it only passes through (META-008). These types read the keys of the
// protocol from it with `RawJson::parse`, and keep all other keys in `extra`.

message! {
    /// `_meta` of a request.
    ///
    /// The engines write it. An application adds its own keys with
    /// [`CallOptions::with_meta`](crate::CallOptions::with_meta).
    RequestMeta {} {
        /// Token for progress notifications (PROG-001).
        opt progress_token: ProgressToken = PROGRESS_TOKEN,
        /// Revision of the request (since 2026-07-28, required there; META-009).
        opt protocol_version: String = PROTOCOL_VERSION,
        /// Capabilities of the client (since 2026-07-28, required there; META-010).
        opt client_capabilities: ClientCapabilities = CLIENT_CAPABILITIES,
        /// Name and version of the client (since 2026-07-28; META-011).
        opt client_info: Implementation = CLIENT_INFO,
        /// Lowest level of the log messages for this request (since 2026-07-28; META-012, LOG-007).
        opt log_level: LoggingLevel = LOG_LEVEL,
    }

    /// `_meta` of a result.
    ResultMeta {} {
        /// Name and version of the server (since 2026-07-28; META-018).
        opt server_info: Implementation = SERVER_INFO,
        /// Id of the request that opened the subscription which ends here (since 2026-07-28; SUB-014).
        opt subscription_id: RequestId = SUBSCRIPTION_ID,
    }

    /// `_meta` of a notification.
    NotificationMeta {} {
        /// Id of the request that opened the subscription (since 2026-07-28; META-020).
        opt subscription_id: RequestId = SUBSCRIPTION_ID,
    }

    /// Trace context in any `_meta` (since 2026-07-28; META-021, META-022).
    ///
    /// Passed through unchanged; the tracing library checks its syntax.
    TraceContext {} {
        /// Parent span (W3C Trace Context).
        opt traceparent: String = "traceparent",
        /// Vendor-specific trace data (W3C Trace Context).
        opt tracestate: String = "tracestate",
        /// Application-specific trace data (W3C Baggage).
        opt baggage: String = "baggage",
    }
}

// Links from parameters to their method and result type, and from list entries to their list.

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

// Conversion of borrowed values to owned ones.

/// A value that can be converted to one that borrows nothing.
pub trait IntoStatic {
    /// The type that borrows nothing.
    type Owned;
    /// Copies what is borrowed.
    fn into_static(self) -> Self::Owned;
}

macro_rules! static_types {
    ($($type:ty)*) => {$(
        impl IntoStatic for $type {
            type Owned = Self;
            fn into_static(self) -> Self {
                self
            }
        }
    )*};
}
static_types!(String bool f64 i64 u64 RawJson RequestId);

impl IntoStatic for Cow<'_, str> {
    type Owned = Cow<'static, str>;
    fn into_static(self) -> Cow<'static, str> {
        Cow::Owned(self.into_owned())
    }
}

impl<T: IntoStatic> IntoStatic for Option<T> {
    type Owned = Option<T::Owned>;
    fn into_static(self) -> Self::Owned {
        self.map(T::into_static)
    }
}

impl<T: IntoStatic> IntoStatic for Vec<T> {
    type Owned = Vec<T::Owned>;
    fn into_static(self) -> Self::Owned {
        self.into_iter().map(T::into_static).collect()
    }
}

impl<T: IntoStatic> IntoStatic for Box<T> {
    type Owned = Box<T::Owned>;
    fn into_static(self) -> Self::Owned {
        Box::new((*self).into_static())
    }
}

impl<V: IntoStatic> IntoStatic for Map<V> {
    type Owned = Map<V::Owned>;
    fn into_static(self) -> Self::Owned {
        self.map(V::into_static)
    }
}

#[cfg(test)]
mod request_tests {
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

#[cfg(test)]
mod meta_tests {
    use super::super::test_support::assert_round_trip;
    use super::*;
    use crate::raw::RawJson;

    // covers: META-008, META-009, META-010, META-011, META-012, META-018, META-020, META-021
    #[test]
    fn meta_views_read_protocol_keys_and_keep_others() {
        let meta = RawJson::new(
            r#"{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"00-1",
                "io.modelcontextprotocol/clientCapabilities":{"roots":{}},"x.example/y":1,
                "io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},
                "io.modelcontextprotocol/logLevel":"loud"}"#,
        )
        .expect("JSON");
        let request: RequestMeta = meta.parse().expect("a view");
        assert_eq!(request.protocol_version.as_deref(), Some("2026-07-28"));
        assert!(request.client_capabilities.as_ref().is_some_and(|c| c.roots.is_some()));
        assert_eq!(request.log_level, Some("loud".into()));
        assert_eq!(request.extra.len(), 2);
        assert_round_trip(&request);
        let trace: TraceContext = meta.parse().expect("a view");
        assert_eq!((trace.traceparent.as_deref(), trace.extra.len()), (Some("00-1"), 6));
        assert_round_trip(&TraceContext::new().traceparent("a").tracestate("b").baggage("c"));
        assert_round_trip(&NotificationMeta::new().subscription_id(RequestId::int(1)));
        assert_round_trip(
            &ResultMeta::new().server_info(Implementation::new("n", "1")).subscription_id(RequestId::int(1)),
        );
    }
}

#[cfg(test)]
mod tests {

    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: META-026, META-027, META-031, META-035
    #[test]
    fn implementation_with_icons_round_trips() {
        let icon = Icon::new("https://x.example/i.png")
            .mime_type("image/png")
            .sizes(["48x48".into()])
            .theme(IconTheme::Dark);
        let info = Implementation::new("n", "1")
            .title("N")
            .description("d")
            .website_url("https://x.example")
            .icons([icon.clone(), Icon::new("data:image/png;base64,aa")]);
        assert_round_trip(&info);
        assert!(icon.is_safe() && info.icons[1].is_safe());
        for unsafe_uri in ["javascript:alert(1)", "file:///x", "http://x.example/", "https", "ws://x"] {
            assert!(!Icon::new(unsafe_uri).is_safe(), "{unsafe_uri}");
        }
        assert_missing::<Implementation>(r#"{"name":"n"}"#, "version");
        assert_missing::<Icon>("{}", "src");
    }

    // covers: CONT-004
    #[test]
    fn annotations_keep_numbers_and_unknown_roles() {
        assert_round_trip(
            &Annotations::new()
                .audience([Role::User, "tool".into()])
                .priority(0.5)
                .last_modified("2025-01-01"),
        );
        let text = serde_json::to_string(&Annotations::new().priority(1.0)).expect("JSON");
        assert_eq!(text, r#"{"priority":1}"#, "a whole number has no fraction");
        assert!(serde_json::to_string(&Annotations::new().priority(f64::NAN)).is_err());
    }

    // covers: CONT-004
    #[test]
    fn annotation_that_cannot_be_read_costs_itself() {
        let text = r#"{"priority":"high","audience":"user","lastModified":"2025-01-01","x":1}"#;
        let read: Annotations = serde_json::from_str(text).expect("annotations");
        assert_eq!(
            (read.priority, &read.audience, read.last_modified.as_deref()),
            (None, &None, Some("2025-01-01"))
        );
        assert_eq!(read.extra.len(), 1);
        assert!(
            serde_json::from_str::<Annotations>(r#"{"priority":1,"priority":1}"#).is_err(),
            "named twice"
        );
    }

    // covers: PAGE-007, PAGE-008
    #[test]
    fn empty_cursor_is_kept() {
        assert_round_trip(&PaginatedParams::new().cursor(""));
        assert_round_trip(&EmptyParams::new().meta(RawJson::new(r#"{"a":null}"#).expect("JSON")));
        assert_round_trip(&EmptyResult::new().result_type("x/odd"));
        let page: PaginatedParams = serde_json::from_str(r#"{"cursor":null}"#).expect("a page");
        assert_eq!(page.cursor, None, "null is read as absent");
    }
}
