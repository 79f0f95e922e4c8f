//! `tools/list` and `tools/call` (TOOL).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{self, Deserialize};

use super::base::{CacheScope, Cursor, Icon, ResultType};
use super::content::{Blocks, Content};
use super::input::InputResponses;
use super::message::message;
use super::words::words;
use crate::raw::RawJson;
use crate::rpc::clip;

words! {
    /// Whether a tool may be called as a task (2025-11-25 only)
    TaskSupport {
        /// It must not; what a missing one means
        Forbidden = "forbidden",
        /// It may
        Optional = "optional",
        /// It must
        Required = "required",
    }
}

message! {
    /// A tool that a server offers (TOOL-006)
    Tool by form {
        /// Name for programs, unique within the server: 1 to 128 of `A-Za-z0-9_.-` (TOOL-028)
        name: String = "name",
        /// JSON Schema of the arguments; its root is of type `object` (TOOL-007)
        input_schema: RawJson as Object = "inputSchema",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: String = "title",
        /// What it does, for a model to read
        opt description: String = "description",
        /// JSON Schema of structured results (since 2025-06-18; TOOL-015)
        ///
        /// Until 2025-11-25 its root is of type `object`; another one is left out there (TOOL-009).
        opt output_schema: RawJson as Object = "outputSchema",
        /// Hints about what it does (since 2025-03-26)
        opt annotations: ToolAnnotations = "annotations",
        /// Pictures for it (since 2025-11-25; META-026)
        list icons: Vec<Icon> = "icons",
        /// How it may be called (2025-11-25 only)
        opt execution: Box<ToolExecution> = "execution",
        /// Metadata (since 2025-06-18)
        opt meta: RawJson as Object = "_meta",
    }

    /// Hints about a tool (since 2025-03-26); untrusted unless the server is trusted (TOOL-026)
    ///
    /// The methods named `is_…` fill in the defaults (TOOL-027).
    ToolAnnotations {} {
        /// Name for people; [`Tool::title`](struct@Tool) goes before it (META-035)
        opt title: String = "title",
        /// It changes nothing
        opt read_only_hint: bool = "readOnlyHint",
        /// It may destroy something; means nothing for a tool that changes nothing
        opt destructive_hint: bool = "destructiveHint",
        /// Calling it twice with the same arguments is the same as once; means nothing for a tool that changes nothing
        opt idempotent_hint: bool = "idempotentHint",
        /// It deals with the world outside
        opt open_world_hint: bool = "openWorldHint",
    }

    /// How a tool may be called (2025-11-25 only)
    ToolExecution {} {
        /// Whether it may be called as a task
        opt task_support: TaskSupport = "taskSupport",
    }

    /// The result of `tools/list`: one page (TOOL-005)
    ListToolsResult {
        /// The tools, in an order that does not change while they do not (TOOL-004)
        tools: Vec<Tool> as List = "tools",
    } {
        /// Where the next page begins; absent on the last (PAGE-003, PAGE-004)
        opt next_cursor: Cursor = "nextCursor",
        /// How long it may be kept, in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006)
        opt ttl_ms: i64 as Millis = "ttlMs",
        /// Who may be given it while it is kept (since 2026-07-28)
        opt cache_scope: CacheScope = "cacheScope",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `tools/call` (TOOL-010)
    CallToolParams<'a> {
        /// Which tool
        name: Cow<'a, str> as Text = "name",
    } {
        /// The arguments: a JSON object; none counts as an empty one
        opt arguments: RawJson as Object = "arguments",
        /// Answers to what the server asked for (since 2026-07-28; TOOL-012); a client's engine adds them
        opt input_responses: InputResponses<'a> = "inputResponses",
        /// The state that the server gave along with its questions (since 2026-07-28; TOOL-012)
        opt request_state: Cow<'a, str> as Text = "requestState",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `tools/call` (TOOL-013)
    CallToolResult<'a> by form {
        /// What the tool says, possibly nothing; must be there (TOOL-037)
        content: Blocks<'a> = "content",
    } {
        /// The same as a value (since 2025-06-18)
        ///
        /// Any JSON value since 2026-07-28, an object before. Where a revision has no such member, or none for such a
        /// value, it goes out as a text block unless there is one already.
        any structured_content: RawJson = "structuredContent",
        /// The tool failed, and `content` says why; absent means that it did not
        opt is_error: bool = "isError",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }
}

impl Tool {
    /// The name to show: `title`, the title of the annotations, or the name (META-035)
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|a| a.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }

    fn form(&self) -> &'static str {
        // What does not say `object` at its root does not fit the older revisions.
        let fits =
            |schema: &RawJson| schema.member("type").is_some_and(|kind| kind.as_bytes() == b"\"object\"");
        if self.output_schema.as_ref().is_none_or(fits) { "$mcp::Tool" } else { "$mcp::Tool+value" }
    }
}

impl ToolAnnotations {
    /// Whether it says that it changes nothing (default no)
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only_hint.unwrap_or(false)
    }

    /// Whether it may destroy something (default yes)
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.destructive_hint.unwrap_or(true)
    }

    /// Whether twice is the same as once (default no)
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.is_read_only() || self.idempotent_hint.unwrap_or(false)
    }

    /// Whether it deals with the world outside (default yes)
    #[must_use]
    pub fn is_open_world(&self) -> bool {
        self.open_world_hint.unwrap_or(true)
    }
}

impl<'a> CallToolResult<'a> {
    /// One block of text; allocates nothing
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Content::text(text))
    }

    /// Several blocks, or none
    #[must_use]
    pub fn content(content: Vec<Content<'a>>) -> Self {
        Self::new(content)
    }

    /// A structured result, given as text too for peers that do not know structured results (TOOL-014)
    #[must_use]
    pub fn structured(value: RawJson) -> Self {
        Self::text(String::from(value.as_str())).structured_content(value)
    }

    /// The tool failed: the text is for the model, which may try again (TOOL-023)
    #[must_use]
    pub fn error(text: impl Into<Cow<'a, str>>) -> Self {
        Self::text(text).is_error(true)
    }

    /// Whether the tool says that it failed
    #[must_use]
    pub fn failed(&self) -> bool {
        self.is_error.unwrap_or(false)
    }

    /// Reads the structured result as `T`, which may borrow from it
    ///
    /// Where there is none, because the revision has no such member for instance, the only block of text is read as
    /// JSON, as servers give structured results besides (TOOL-014).
    ///
    /// # Errors
    ///
    /// The tool failed ([`failed`](Self::failed)), there is neither, or it does not fit `T`.
    pub fn parse_structured<'s, T: Deserialize<'s>>(&'s self) -> Result<T, serde_json::Error> {
        let only_text = || match &self.content[..] {
            [Content::Text(only)] => Some(&*only.text),
            _ => None,
        };
        if self.failed() {
            let said = self.content.first().and_then(Content::as_text).unwrap_or_default();
            return Err(de::Error::custom(format_args!("the tool failed: {}", clip(said))));
        }
        match (&self.structured_content, only_text()) {
            (Some(value), _) => value.parse(),
            (None, Some(text)) => serde_json::from_str(text),
            (None, None) => Err(de::Error::custom("there is no structured result")),
        }
    }

    fn form(&self) -> &'static str {
        match &self.structured_content {
            None => "$mcp::CallToolResult",
            Some(value) if value.is_object() => "$mcp::CallToolResult+object",
            Some(_) => "$mcp::CallToolResult+value",
        }
    }
}

#[cfg(test)]
mod tests;
