//! A `tools/list` of a thousand tools, written and read, compared with `serde_json` on the same structs.

use core::hint::black_box;

use mcp_proto::RawJson;
use mcp_proto::model::{ListToolsResult, Tool, ToolAnnotations};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Scenario;

/// Number of tools.
pub(super) const LARGE_LIST: usize = 1_000;

/// Returns tools with typical descriptions.
pub(super) fn tools(count: usize) -> Vec<Tool> {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"Where"},"limit":{"type":"integer","minimum":1}},"required":["path"]}"#;
    let schema = RawJson::new(schema).expect("JSON");
    let tool = |i| {
        Tool::new(format!("tool_{i:04}"), schema.clone())
            .title(format!("Tool number {i}"))
            .description("Reads something from somewhere, and says what came of it")
            .annotations(ToolAnnotations::new().read_only_hint(true).open_world_hint(false))
    };
    (0..count).map(tool).collect()
}

/// Returns the list as JSON.
pub(super) fn plain_tools(count: usize) -> String {
    serde_json::to_string(&ListToolsResult::new(tools(count))).expect("JSON")
}

/// A list as plain serde structs declare it: no unknown members, one revision.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainList {
    tools: Vec<PlainTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<String>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainTool {
    name: String,
    input_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<PlainAnnotations>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    icons: Vec<PlainIcon>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Box<PlainExecution>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainAnnotations {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destructive_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotent_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_world_hint: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainExecution {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_support: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainIcon {
    src: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    theme: Option<String>,
}

/// Reading the list into typed messages.
pub struct ReadList(RawJson);

/// Reading the list into plain structs.
pub struct FloorReadList(String);

/// Writing the typed messages in the form of the newest revision.
pub struct WriteList(ListToolsResult);

/// Writing the plain structs.
pub struct FloorWriteList(PlainList);

impl ReadList {
    /// Returns the scenario with a thousand tools.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a thousand tools are not a default")]
    pub fn new() -> Self {
        Self(RawJson::new(plain_tools(LARGE_LIST)).expect("JSON"))
    }
}

impl FloorReadList {
    /// Returns the scenario with a thousand tools.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a thousand tools are not a default")]
    pub fn new() -> Self {
        Self(plain_tools(LARGE_LIST))
    }
}

impl WriteList {
    /// Returns the scenario with a thousand tools.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a thousand tools are not a default")]
    pub fn new() -> Self {
        Self(ListToolsResult::new(tools(LARGE_LIST)))
    }
}

impl FloorWriteList {
    /// Returns the scenario with a thousand tools.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a thousand tools are not a default")]
    pub fn new() -> Self {
        Self(serde_json::from_str(&plain_tools(LARGE_LIST)).expect("a list"))
    }
}

impl Scenario for ReadList {
    fn run_once(&mut self) {
        let list: ListToolsResult = black_box(&self.0).parse().expect("a list");
        assert_eq!(black_box(list).tools.len(), LARGE_LIST);
    }
}

impl Scenario for FloorReadList {
    fn run_once(&mut self) {
        let list: PlainList = serde_json::from_str(black_box(&self.0)).expect("a list");
        assert_eq!(black_box(list).tools.len(), LARGE_LIST);
    }
}

impl Scenario for WriteList {
    fn run_once(&mut self) {
        let text = mcp_proto::model::encode_for(mcp_proto::Version::V2026_07_28, black_box(&self.0));
        black_box(text).expect("JSON");
    }
}

impl Scenario for FloorWriteList {
    fn run_once(&mut self) {
        black_box(serde_json::to_vec(black_box(&self.0))).expect("JSON");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_and_plain_lists_have_equal_text() {
        let text = plain_tools(3);
        let plain: PlainList = serde_json::from_str(&text).expect("a list");
        assert_eq!(serde_json::to_string(&plain).expect("JSON"), text);
        let typed =
            mcp_proto::model::encode_for(mcp_proto::Version::V2026_07_28, &ListToolsResult::new(tools(3)));
        assert_eq!(typed.expect("JSON").as_str(), text);
    }
}
