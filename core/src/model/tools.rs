//! `tools/list` and `tools/call` (TOOL).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::raw::RawJson;

/// A tool that a server offers (TOOL-006)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Name for programs, unique within the server (TOOL-028)
    pub name: String,
    /// Name for people (since 2025-06-18)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for a model to read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments; its root is of type `object` (TOOL-007)
    pub input_schema: RawJson,
    /// JSON Schema of structured results (since 2025-06-18)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// Hints about what it does (since 2025-03-26)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
}

impl Tool {
    /// A tool with the members that every revision wants
    #[must_use]
    pub fn new(name: impl Into<String>, input_schema: RawJson) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
        }
    }

    /// Says what the tool does
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Says what its structured results look like
    #[must_use]
    pub fn output_schema(mut self, schema: RawJson) -> Self {
        self.output_schema = Some(schema);
        self
    }
}

/// Hints about a tool; untrusted unless the server is trusted (TOOL-026)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Name for people
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing (taken as false when absent; TOOL-027)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something (taken as true when absent)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more (taken as false when absent)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with things outside the server (taken as true when absent)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// The result of `tools/list`: one page
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListToolsResult {
    /// The tools, in an order that does not change while they do not (TOOL-004)
    pub tools: Vec<Tool>,
    /// Where the next page begins; absent on the last (PAGE-003, PAGE-004)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl ListToolsResult {
    /// All tools on one page
    #[must_use]
    pub const fn new(tools: Vec<Tool>) -> Self {
        Self { tools, next_cursor: None }
    }
}

/// The result of `tools/call` (TOOL-013)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult<'a> {
    /// What the tool says
    #[serde(borrow)]
    pub content: Blocks<'a>,
    /// The same as a value (since 2025-06-18)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<RawJson>,
    /// The tool failed, and `content` says why
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_error: bool,
}

impl<'a> CallToolResult<'a> {
    /// One block of text; allocates nothing
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { content: Blocks::One([Content::text(text)]), structured_content: None, is_error: false }
    }

    /// Several blocks, or none
    #[must_use]
    pub const fn content(content: Vec<Content<'a>>) -> Self {
        Self { content: Blocks::Many(content), structured_content: None, is_error: false }
    }

    /// A structured result, given as text too for peers that do not know structured results (TOOL-014)
    #[must_use]
    pub fn structured(value: RawJson) -> Self {
        let text = Content::text(String::from(value.as_str()));
        Self { content: Blocks::One([text]), structured_content: Some(value), is_error: false }
    }

    /// The tool failed: the text is for the model, which may try again (TOOL-023)
    #[must_use]
    pub fn error(text: impl Into<Cow<'a, str>>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// Content blocks: the one that most results have stands without an allocation
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks<'a> {
    /// Exactly one
    One([Content<'a>; 1]),
    /// Any number
    Many(Vec<Content<'a>>),
}

impl<'a> core::ops::Deref for Blocks<'a> {
    type Target = [Content<'a>];

    fn deref(&self) -> &[Content<'a>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl Serialize for Blocks<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.len()))?;
        for block in &**self {
            seq.serialize_element(block)?;
        }
        seq.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::Many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TOOL-013, TOOL-014
    #[test]
    fn results_are_written_as_the_schema_wants_them_and_read_back() {
        let text = serde_json::to_string(&CallToolResult::text("hi")).expect("JSON");
        assert_eq!(text, r#"{"content":[{"type":"text","text":"hi"}]}"#);
        let error = serde_json::to_string(&CallToolResult::error("no")).expect("JSON");
        assert_eq!(error, r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
        let sum = CallToolResult::structured(RawJson::new(r#"{"sum":42}"#).expect("JSON"));
        let written = serde_json::to_string(&sum).expect("JSON");
        let back: CallToolResult<'_> = serde_json::from_str(&written).expect("a result");
        assert_eq!(back.content[0].as_text(), Some(r#"{"sum":42}"#));
        assert_eq!(back.structured_content, sum.structured_content);
        let odd: CallToolResult<'_> =
            serde_json::from_str(r#"{"content":[{"type":"new","x":1}],"more":2}"#).expect("a result");
        assert!(matches!(&odd.content[0], Content::Other(raw) if raw.as_str() == r#"{"type":"new","x":1}"#));
    }
}
