//! A `tools/list` of a thousand tools, written and read: ours beside `serde_json` with the same structs.

use core::hint::black_box;

use mcp_proto::RawJson;
use mcp_proto::model::{ListToolsResult, Tool, ToolAnnotations};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Scenario;

/// How many tools there are
pub(super) const MANY: usize = 1_000;

/// Tools as servers describe them
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

/// The same as JSON
pub(super) fn plain_tools(count: usize) -> String {
    serde_json::to_string(&ListToolsResult::new(tools(count))).expect("JSON")
}

/// A list as somebody would declare it who has serde and no other revision: no unknown members, nothing shaped
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

/// Reads the list into typed messages
pub struct ReadList(RawJson);

/// Reads it into plain structs
pub struct FloorReadList(String);

/// Writes the typed messages, in the shape of the newest revision
pub struct WriteList(ListToolsResult);

/// Writes the plain structs
pub struct FloorWriteList(PlainList);

impl ReadList {
    /// With a thousand tools
    #[must_use]
    #[allow(clippy::new_without_default, reason = "nothing that anybody would take for a default")]
    pub fn new() -> Self {
        Self(RawJson::new(plain_tools(MANY)).expect("JSON"))
    }
}

impl FloorReadList {
    /// With a thousand tools
    #[must_use]
    #[allow(clippy::new_without_default, reason = "nothing that anybody would take for a default")]
    pub fn new() -> Self {
        Self(plain_tools(MANY))
    }
}

impl WriteList {
    /// With a thousand tools
    #[must_use]
    #[allow(clippy::new_without_default, reason = "nothing that anybody would take for a default")]
    pub fn new() -> Self {
        Self(ListToolsResult::new(tools(MANY)))
    }
}

impl FloorWriteList {
    /// With a thousand tools
    #[must_use]
    #[allow(clippy::new_without_default, reason = "nothing that anybody would take for a default")]
    pub fn new() -> Self {
        Self(serde_json::from_str(&plain_tools(MANY)).expect("a list"))
    }
}

impl Scenario for ReadList {
    fn op(&mut self) {
        let list: ListToolsResult = black_box(&self.0).parse().expect("a list");
        assert_eq!(black_box(list).tools.len(), MANY);
    }
}

impl Scenario for FloorReadList {
    fn op(&mut self) {
        let list: PlainList = serde_json::from_str(black_box(&self.0)).expect("a list");
        assert_eq!(black_box(list).tools.len(), MANY);
    }
}

impl Scenario for WriteList {
    fn op(&mut self) {
        let text = mcp_proto::model::encode_for(mcp_proto::Version::V2026_07_28, black_box(&self.0));
        black_box(text).expect("JSON");
    }
}

impl Scenario for FloorWriteList {
    fn op(&mut self) {
        black_box(serde_json::to_vec(black_box(&self.0))).expect("JSON");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_read_and_write_the_same() {
        let text = plain_tools(3);
        let plain: PlainList = serde_json::from_str(&text).expect("a list");
        assert_eq!(serde_json::to_string(&plain).expect("JSON"), text);
        let ours =
            mcp_proto::model::encode_for(mcp_proto::Version::V2026_07_28, &ListToolsResult::new(tools(3)));
        assert_eq!(ours.expect("JSON").as_str(), text);
    }
}
