//! The hand-made flows of `tests/transcripts`, replayed against the server and the client, message by message.
//!
//! Ids and progress tokens are translated, since each side chooses its own. `at_client` and `at_server` omit input
//! requests, log messages and changes; `client_flows` has them. Messages with a model type are parsed and encoded by
//! it.

mod at_client;
mod at_server;
mod client_flows;
mod tasks;

use mcp_proto::{Capabilities, Capability, Implementation, RawJson, Version};
use mcp_tests::harness::build::{discover_result, raw, result_response};
use serde_json::{Map, Value, json};

/// One step of a flow.
pub(crate) struct TranscriptStep {
    /// True for messages from the client to the server.
    is_from_client: bool,
    message: Value,
    /// True if the message arrives too late to count.
    is_ignored: bool,
}

/// Returns true for messages that these replays omit, and for batches, which this client never sends.
fn is_left_out(message: &Value) -> bool {
    const UNSUPPORTED_METHODS: [&str; 7] = [
        "elicitation/create",
        "notifications/message",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/roots/list_changed",
        "roots/list",
        "sampling/createMessage",
    ];
    message.is_array()
        || message["method"].as_str().is_some_and(|method| UNSUPPORTED_METHODS.contains(&method))
}

/// Parses a flow without the omitted messages and their answers.
pub(crate) fn parse_flow(text: &str) -> Vec<TranscriptStep> {
    let mut steps: Vec<TranscriptStep> = Vec::new();
    let mut left_out: Vec<Value> = Vec::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let Some(message) = line.get("msg") else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        if is_left_out(message) {
            left_out.extend(message.get("id").cloned());
            continue;
        }
        if method.is_empty() && line["dir"] == "c2s" && left_out.contains(&message["id"]) {
            continue;
        }
        let ignored = line["ignored"] == true;
        steps.push(TranscriptStep {
            is_from_client: line["dir"] == "c2s",
            message: message.clone(),
            is_ignored: ignored,
        });
    }
    assert!(steps.len() > 4, "a flow");
    steps
}

pub(crate) const PLAIN_2024_11_05: &str =
    include_str!("../../transcripts/2024-11-05-stdio-handshake-tool-progress-cancel.jsonl");
pub(crate) const FULL_2025_11_25: &str =
    include_str!("../../transcripts/2025-11-25-stdio-full-session.jsonl");
pub(crate) const DISCOVER_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-stdio-discover-call-progress.jsonl");
pub(crate) const CANCEL_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-cancel-and-logging.jsonl");
pub(crate) const ERRORS_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-version-and-meta-errors.jsonl");
/// Completes a modern flow that starts in the middle with a discover request and its result.
pub(crate) fn with_discovery(mut steps: Vec<TranscriptStep>) -> Vec<TranscriptStep> {
    let mut request = steps[0].message.clone();
    request["id"] = json!("before");
    request["method"] = json!("server/discover");
    let mut answer =
        discover_result(&["2026-07-28"], json!({"resources": {}, "prompts": {}, "completions": {}}));
    answer["_meta"] = steps[1].message["result"]["_meta"].clone();
    (answer["ttlMs"], answer["cacheScope"]) = (json!(3_600_000), json!("public"));
    let answer = result_response(&request, answer);
    let step = |up, message| TranscriptStep { is_from_client: up, message, is_ignored: false };
    steps.splice(0..0, [step(true, request), step(false, answer)]);
    steps
}

pub(crate) const RESOURCES_2024_11_05: &str =
    include_str!("../../transcripts/2024-11-05-resources-roots-sampling-logging.jsonl");
pub(crate) const STRUCTURED_2025_06_18: &str =
    include_str!("../../transcripts/2025-06-18-structured-output-elicitation.jsonl");
pub(crate) const PAGES_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-caching-pagination.jsonl");
pub(crate) const ONE_PROCESS: &str = include_str!("../../transcripts/dual-era-server-one-process.jsonl");
pub(crate) const FALLBACK: &str = include_str!("../../transcripts/dual-era-client-stdio-fallback.jsonl");

/// Names that the flow uses, with those of the side under test.
#[derive(Default)]
pub(crate) struct IdMap(Vec<(Value, Value)>);

impl IdMap {
    pub(crate) fn insert(&mut self, flow_name: &Value, local: &Value) {
        self.0.push((flow_name.clone(), local.clone()));
    }

    /// Returns `message` with the names of the side under test.
    pub(crate) fn translate(&self, message: &Value) -> Value {
        let mut message = message.clone();
        for pointer in ["/id", "/params/requestId", "/params/progressToken", "/params/_meta/progressToken"] {
            let Some(name) = message.pointer_mut(pointer) else { continue };
            if let Some((_, local)) = self.0.iter().rev().find(|(flow_name, _)| flow_name == name) {
                *name = local.clone();
            }
        }
        message
    }
}

/// Normalizes a message for comparison: numbers by value, no empty params, capabilities by name alone, and errors
/// without their message.
pub(crate) fn normalize(message: &Value) -> Value {
    let mut message = normalize_numbers(message);
    for pointer in ["/params/capabilities", "/result/capabilities"] {
        if let Some(Value::Object(members)) = message.pointer_mut(pointer) {
            members.values_mut().for_each(|value| *value = json!({}));
        }
    }
    let members = message.as_object_mut().expect("an object");
    if members.get("params") == Some(&json!({})) {
        members.remove("params");
    }
    if let Some(Value::Object(error)) = members.get_mut("error") {
        error.remove("message");
    }
    message
}

fn normalize_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normalize_numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), normalize_numbers(v))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Parses the identity that a flow gives to one side.
pub(crate) fn parse_identity(info_json: &Value) -> Implementation {
    let text = |name: &str| info_json[name].as_str().map(str::to_owned);
    let mut info = Implementation::new(text("name").expect("a name"), text("version").expect("a version"));
    info.title = text("title");
    info.description = text("description");
    info.website_url = text("websiteUrl");
    info.icons = info_json.get("icons").map_or_else(Vec::new, |icons| raw(icons).parse().expect("icons"));
    info
}

/// Parses the capabilities that a flow gives to one side.
#[expect(deprecated, reason = "tested until its removal")]
pub(crate) fn parse_capabilities(flow_capabilities: &Value) -> Capabilities {
    let known = [
        ("tools", Capability::Tools),
        ("resources", Capability::ResourceSubscriptions),
        ("prompts", Capability::Prompts),
        ("completions", Capability::Completions),
        ("logging", Capability::Logging),
        ("roots", Capability::Roots),
        ("sampling", Capability::Sampling),
        ("elicitation", Capability::Elicitation),
    ];
    let mut capabilities = Capabilities::new();
    for (name, value) in flow_capabilities.as_object().expect("an object") {
        capabilities = match known.iter().find(|(known, _)| known == name) {
            Some((_, capability)) => capabilities.with(*capability),
            None => capabilities.with_member(name.clone(), raw(value), Version::V2024_11_05),
        };
    }
    capabilities
}

/// Converts optional JSON to `RawJson`.
pub(crate) fn optional_json(value: Option<&Value>) -> Option<RawJson> {
    value.map(raw)
}

/// Evaluates `$use` with the JSON parsed as the type of its method, or with the JSON itself if no type is listed.
macro_rules! typed {
    ($method:expr, $json:expr, |$read:ident| $use:expr, $($name:literal $type:ident $(<$life:lifetime>)?;)*) => {{
        let text = mcp_tests::harness::build::raw($json);
        match $method {
            $( $name => {
                let read: $type $(<$life>)? = text.parse().unwrap_or_else(|e| panic!("{}: {e}", $method));
                let $read = &read;
                $use
            } )*
            _ => {
                let $read = $json;
                $use
            }
        }
    }};
}

pub(crate) use at_server::complete;
pub(crate) use typed;
