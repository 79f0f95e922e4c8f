//! `tools/list` and `tools/call` (TOOL).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::de::{self, Deserialize, Error as _};

use super::Extra;
use super::base::{CacheScope, Cursor, Icon, ResultType, TaskMetadata};
use super::content::{Content, ContentBlocks};
use super::input::InputResponses;
use super::message::message;
use super::string_enum::string_enum;
use crate::json::check_and_read;
use crate::raw::RawJson;
use crate::rpc::clip;

string_enum! {
    /// Support for calling a tool as a task (2025-11-25 only).
    TaskSupport {
        /// Not permitted; the meaning of a missing value.
        Forbidden = "forbidden",
        /// Permitted.
        Optional = "optional",
        /// Required.
        Required = "required",
    }
}

message! {
    /// A tool of a server (TOOL-006).
    Tool by shape_name {
        /// Name for programs, unique within the server: 1 to 128 of `A-Za-z0-9_.-` (TOOL-028).
        name: String = "name",
        /// JSON Schema of the arguments; its root is of type `object` (TOOL-007).
        input_schema: RawJson as Object = "inputSchema",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description for a model.
        opt description: String = "description",
        /// JSON Schema of structured results (since 2025-06-18; TOOL-015).
        ///
        /// Until 2025-11-25 its root is of type `object`; a schema with another root is left out there (TOOL-009).
        opt output_schema: RawJson as Object = "outputSchema",
        /// Hints about the behaviour (since 2025-03-26).
        hint annotations: ToolAnnotations = "annotations",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
        /// Ways in which it may be called (2025-11-25 only).
        opt execution: Box<ToolExecution> = "execution",
        /// Metadata (since 2025-06-18).
        opt meta: RawJson as Object = "_meta",
    }

    /// Hints about a tool (since 2025-03-26); untrusted unless the server is trusted (TOOL-026).
    ///
    /// The methods named `is_…` apply the defaults (TOOL-027).
    ToolAnnotations {} {
        /// Name for display; [`Tool::title`](struct@Tool) takes precedence (META-035).
        hint title: String = "title",
        /// It changes nothing.
        hint read_only_hint: bool = "readOnlyHint",
        /// It may destroy data; without meaning for a read-only tool.
        hint destructive_hint: bool = "destructiveHint",
        /// A second call with the same arguments has no further effect; without meaning for a read-only tool.
        hint idempotent_hint: bool = "idempotentHint",
        /// It interacts with external systems.
        hint open_world_hint: bool = "openWorldHint",
    }

    /// Ways in which a tool may be called (2025-11-25 only).
    ToolExecution {} {
        /// Support for calls as a task.
        opt task_support: TaskSupport = "taskSupport",
    }

    /// Result of `tools/list`: one page (TOOL-005).
    ListToolsResult {
        /// The tools, in an order that is stable while the list does not change (TOOL-004).
        tools: Vec<Tool> as List = "tools",
    } {
        /// Cursor of the next page; absent on the last page (PAGE-003, PAGE-004).
        opt next_cursor: Cursor = "nextCursor",
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `tools/call` (TOOL-010).
    CallToolParams<'a> {
        /// Name of the tool.
        name: Cow<'a, str> as CowStr = "name",
    } {
        /// Arguments: a JSON object; `None` counts as an empty one.
        opt arguments: RawJson as Object = "arguments",
        /// Input responses (since 2026-07-28; TOOL-012); a client's engine adds them.
        opt input_responses: InputResponses<'a> = "inputResponses",
        /// `requestState` that came with the input requests (since 2026-07-28; TOOL-012).
        opt request_state: Cow<'a, str> as CowStr = "requestState",
        /// Request to run the call as a task (2025-11-25 only; TASK-008, TOOL-011).
        opt task: TaskMetadata = "task",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `tools/call` (TOOL-013).
    CallToolResult<'a> by shape_name {
        /// Content blocks, possibly none; the member is required (TOOL-037).
        content: ContentBlocks<'a> = "content",
    } {
        /// The result as a value (since 2025-06-18).
        ///
        /// Any JSON value since 2026-07-28, an object before. A revision that cannot carry the value gets it as a text
        /// block, unless there is a text block already.
        any structured_content: RawJson = "structuredContent",
        /// Whether the tool failed, for the reason in `content`; absent means no.
        opt is_error: bool = "isError",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }
}

impl CallToolResult<'static> {
    /// Reads a result. `structuredContent` without `content`, which is required (TOOL-037), counts as one with empty content:
    /// a client reports it by [`Diagnostic::MissingContent`](crate::Diagnostic::MissingContent).
    ///
    /// # Errors
    ///
    /// An error of `serde_json` if it is no result of a tool.
    pub fn from_result(result: &RawJson) -> Result<Self, serde_json::Error> {
        if !lacks_content(result) {
            return result.parse::<CallToolResult<'_>>().map(CallToolResult::into_owned);
        }
        let mut members: Extra = result.parse()?;
        members.insert("content", RawJson::trusted(Bytes::from_static(b"[]")));
        let result = RawJson::encode(&members).map_err(serde_json::Error::custom)?;
        result.parse::<CallToolResult<'_>>().map(CallToolResult::into_owned)
    }
}

/// Returns whether a result of a tool has `structuredContent` and no `content`.
#[must_use]
pub fn lacks_content(result: &RawJson) -> bool {
    result.member("content").is_none() && result.member("structuredContent").is_some()
}

impl Tool {
    /// Returns the name for display: `title`, the title of the annotations, or the name (META-035).
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|a| a.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }

    fn shape_name(&self) -> &'static str {
        // A schema without `object` at its root does not fit the older revisions.
        let fits =
            |schema: &RawJson| schema.member("type").is_some_and(|kind| kind.as_bytes() == b"\"object\"");
        if self.output_schema.as_ref().is_none_or(fits) { "$mcp::Tool" } else { "$mcp::Tool+value" }
    }
}

impl ToolAnnotations {
    /// Returns whether the tool changes nothing (default no).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only_hint.unwrap_or(false)
    }

    /// Returns whether the tool may destroy data (default yes).
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.destructive_hint.unwrap_or(true)
    }

    /// Returns whether a repeated call has no further effect (default no).
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.is_read_only() || self.idempotent_hint.unwrap_or(false)
    }

    /// Returns whether the tool interacts with external systems (default yes).
    #[must_use]
    pub fn is_open_world(&self) -> bool {
        self.open_world_hint.unwrap_or(true)
    }
}

impl<'a> CallToolResult<'a> {
    /// Creates a result with one text block; allocates nothing.
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Content::text(text))
    }

    /// Creates a result with any number of blocks.
    #[must_use]
    pub fn content(content: Vec<Content<'a>>) -> Self {
        Self::new(content)
    }

    /// Creates a structured result, with its text for peers without structured results (TOOL-014).
    #[must_use]
    pub fn structured(value: RawJson) -> Self {
        Self::text(String::from(value.as_str())).structured_content(value)
    }

    /// Creates a failure; the text is for the model, which may try again (TOOL-023).
    #[must_use]
    pub fn error(text: impl Into<Cow<'a, str>>) -> Self {
        Self::text(text).is_error(true)
    }

    /// Returns whether the tool reports a failure.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.is_error.unwrap_or(false)
    }

    /// Reads the structured result as `T`, which may borrow from it.
    ///
    /// Without a structured result (in an older revision, for example) a single text block is read as JSON: servers
    /// send the structured result as text too (TOOL-014).
    ///
    /// # Errors
    ///
    /// The tool failed ([`is_failure`](Self::is_failure)), there is neither form of the result, or it does not match
    /// `T`.
    pub fn parse_structured<'s, T: Deserialize<'s>>(&'s self) -> Result<T, serde_json::Error> {
        let only_text = || match &self.content[..] {
            [Content::Text(only)] => Some(&*only.text),
            _ => None,
        };
        if self.is_failure() {
            let reason = self.content.first().and_then(Content::as_text).unwrap_or_default();
            return Err(de::Error::custom(format_args!("the tool failed: {}", clip(reason))));
        }
        match (&self.structured_content, only_text()) {
            (Some(value), _) => value.parse(),
            (None, Some(text)) => check_and_read(text),
            (None, None) => Err(de::Error::custom("there is no structured result")),
        }
    }

    fn shape_name(&self) -> &'static str {
        match &self.structured_content {
            None => "$mcp::CallToolResult",
            Some(value) if value.is_object() => "$mcp::CallToolResult+object",
            Some(_) => "$mcp::CallToolResult+value",
        }
    }
}

#[cfg(test)]
mod tests;
