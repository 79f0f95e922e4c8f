//! Every message of the hand-made flows is read through the model and written again as it was, in full and in the
//! shape of its revision: a message that is valid in a revision has nothing to lose there.
//!
//! The two flows of tasks are read by envelope only, since tasks are not typed.

extern crate alloc;

use alloc::collections::BTreeSet;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use mcp_proto::model::*;
use mcp_proto::{EncodeError, RawJson, RequestId, RpcError, Version};
use serde::Serialize;
use serde_json::{Map as Object, Value, json};

struct Line {
    flow: String,
    place: String,
    version: Version,
    /// From the client to the server
    up: bool,
    message: Value,
    /// It is wrong on purpose
    wrong: bool,
}

fn lines() -> Vec<Line> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut paths: Vec<_> =
        fs::read_dir(dir).expect("the flows").map(|e| e.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let flow = path.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
        let text = fs::read_to_string(&path).expect("a flow");
        let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for (index, line) in all.iter().enumerate() {
            let Some(message) = line.get("msg") else { continue };
            let version =
                line.get("rev").unwrap_or_else(|| &all[0]["revision"]).as_str().and_then(Version::from_name);
            // A batch is its members.
            let members = message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]);
            for message in members {
                found.push(Line {
                    flow: flow.clone(),
                    place: format!("{flow}:{}", index + 1),
                    version: version.expect("a revision"),
                    up: line["dir"] == "c2s",
                    message,
                    wrong: line.get("invalid").is_some() || line.get("t").is_none(),
                });
            }
        }
    }
    found
}

/// Numbers by value, not by spelling
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), plain(v))).collect::<Object<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("JSON")
}

fn parsed(json: &RawJson) -> Value {
    plain(&serde_json::from_str(json.as_str()).expect("JSON"))
}

/// What became of a part of a message
#[derive(Default)]
struct Told {
    /// Types that were read
    types: BTreeSet<&'static str>,
    messages: usize,
}

impl Told {
    fn again<T: Serialize>(&mut self, line: &Line, name: &'static str, part: &Value, read: T) {
        let place = &line.place;
        assert_eq!(parsed(&RawJson::encode(&read).expect("JSON")), plain(part), "{place}: {name}");
        match encode_for(line.version, &read) {
            Ok(shaped) => assert_eq!(parsed(&shaped), plain(part), "{place}: {name} loses nothing"),
            // The flows show what a modern server makes of legacy methods.
            Err(EncodeError::NotInVersion { .. }) => {
                assert_eq!(line.version, Version::V2026_07_28, "{place}")
            }
            Err(other) => panic!("{place}: {other}"),
        }
        self.types.insert(name);
    }
}

macro_rules! again {
    ($told:ident $line:ident $part:ident $type:ident $(<$life:lifetime>)?) => {{
        let text = raw($part);
        let read: $type $(<$life>)? = text.parse().unwrap_or_else(|e| panic!("{}: {e}", $line.place));
        $told.again($line, stringify!($type), $part, read);
    }};
}

fn params(told: &mut Told, line: &Line, method: &str, part: &Value) {
    match method {
        "initialize" => again!(told line part InitializeParams),
        "server/discover" | "ping" | "roots/list" | "notifications/initialized" => {
            again!(told line part EmptyParams)
        }
        "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
            again!(told line part PaginatedParams)
        }
        "tools/call" => again!(told line part CallToolParams<'_>),
        "resources/read" => again!(told line part ReadResourceParams<'_>),
        "resources/subscribe" | "resources/unsubscribe" => again!(told line part SubscribeParams),
        "prompts/get" => again!(told line part GetPromptParams<'_>),
        "completion/complete" => again!(told line part CompleteParams<'_>),
        "logging/setLevel" => again!(told line part SetLevelParams),
        "subscriptions/listen" => again!(told line part SubscriptionsListenParams),
        "sampling/createMessage" => again!(told line part CreateMessageParams<'_>),
        "elicitation/create" => again!(told line part ElicitParams),
        "notifications/cancelled" => again!(told line part CancelledParams),
        "notifications/progress" => again!(told line part ProgressParams),
        "notifications/message" => again!(told line part LoggingMessageParams),
        "notifications/resources/updated" => again!(told line part ResourceUpdatedParams),
        "notifications/elicitation/complete" => again!(told line part ElicitationCompleteParams),
        "notifications/subscriptions/acknowledged" => again!(told line part SubscriptionsAcknowledgedParams),
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/roots/list_changed" => again!(told line part EmptyParams),
        other => panic!("{}: {other} has no type", line.place),
    }
    if let Some(meta) = part.get("_meta") {
        if method.starts_with("notifications/") {
            again!(told line meta NotificationMeta);
        } else {
            again!(told line meta RequestMeta);
        }
        again!(told line meta TraceContext);
    }
}

fn result(told: &mut Told, line: &Line, method: &str, part: &Value) {
    if part["resultType"] == "input_required" {
        return again!(told line part InputRequiredResult<'_>);
    }
    match method {
        "initialize" => again!(told line part InitializeResult),
        "server/discover" => again!(told line part DiscoverResult),
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            again!(told line part EmptyResult)
        }
        "tools/list" => again!(told line part ListToolsResult),
        "resources/list" => again!(told line part ListResourcesResult),
        "resources/templates/list" => again!(told line part ListResourceTemplatesResult),
        "prompts/list" => again!(told line part ListPromptsResult),
        "tools/call" => again!(told line part CallToolResult<'_>),
        "resources/read" => again!(told line part ReadResourceResult<'_>),
        "prompts/get" => again!(told line part GetPromptResult<'_>),
        "completion/complete" => again!(told line part CompleteResult),
        "subscriptions/listen" => again!(told line part SubscriptionsListenResult),
        "roots/list" => again!(told line part ListRootsResult),
        "sampling/createMessage" => again!(told line part CreateMessageResult<'_>),
        "elicitation/create" => again!(told line part ElicitResult),
        other => panic!("{}: {other} has no type", line.place),
    }
    if let Some(meta) = part.get("_meta") {
        again!(told line meta ResultMeta);
    }
}

fn error(told: &mut Told, line: &Line, part: &Value) {
    let (Some(code), Some(data)) = (part["code"].as_i64(), part.get("data")) else { return };
    let error = RpcError::new(code, "m").with_data(raw(data));
    match code {
        -32002 | -32602 => told.again(line, "ResourceNotFound", data, error.as_resource_not_found()),
        -32021 => {
            told.again(line, "MissingRequiredClientCapability", data, error.as_missing_client_capability())
        }
        -32022 => told.again(line, "UnsupportedProtocolVersion", data, error.as_unsupported_version()),
        -32020 => {} // Free (DEC-006).
        -32042 => told.again(line, "UrlElicitationRequired", data, error.as_url_elicitation_required()),
        other => panic!("{}: data of {other} has no type", line.place),
    }
}

/// The members around what the model types: `jsonrpc`, `id`, `method`, and at most one of the others
fn envelope(line: &Line) {
    let members = line.message.as_object().expect("an object");
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    assert!(members.keys().all(|name| known.contains(&&**name)), "{}", line.place);
    if let Some(id) = members.get("id") {
        let read: RequestId = raw(id).parse().unwrap_or_else(|e| panic!("{}: {e}", line.place));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), id.to_string(), "{}", line.place);
    }
}

// covers: BASE-008, BASE-010, META-001, META-008, CONT-001, TOOL-005, TOOL-010, TOOL-013, RES-003, RES-004, RES-005, PROMPT-003, PROMPT-004, COMP-002, COMP-004, LOG-003, SAMP-004, SAMP-005, ELIC-009, ELIC-016, ELIC-018, ELIC-030, ROOT-002, MRTR-006, MRTR-018, SUB-002, CACHE-001
#[test]
fn every_message_is_read_and_written_again() {
    let mut told = Told::default();
    let mut asked: HashMap<(String, bool, String), String> = HashMap::new();
    let lines = lines();
    for line in lines.iter().filter(|line| !line.wrong) {
        envelope(line);
        told.messages += 1;
        let message = &line.message;
        let id = message.get("id").map(ToString::to_string).unwrap_or_default();
        let tasks = line.flow.contains("tasks");
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            asked.insert((line.flow.clone(), line.up, id), method.into());
            if let Some(part) = message.get("params").filter(|_| !tasks) {
                params(&mut told, line, method, part);
            }
        } else if let Some(part) = message.get("result") {
            let method = asked.get(&(line.flow.clone(), !line.up, id));
            if let Some(method) = method.filter(|_| !tasks) {
                result(&mut told, line, method, part);
            }
        } else if !tasks {
            error(&mut told, line, &message["error"]);
        }
    }
    assert_eq!(told.messages, 310, "flows got lost");
    assert_eq!(told.types.len(), 42, "{:?}", told.types);
}

/// What is wrong on purpose is a matter of the revision or of the envelope, not of the types
// covers: LOG-010, META-014
#[test]
fn what_is_wrong_on_purpose_is_read_too() {
    let mut seen = 0;
    for line in lines().iter().filter(|line| line.wrong) {
        let Some(meta) = line.message.pointer("/params/_meta") else { continue };
        let meta: RequestMeta = raw(meta).parse().unwrap_or_else(|e| panic!("{}: {e}", line.place));
        let odd_level = meta.log_level.as_ref().is_some_and(|level| level.severity().is_none());
        assert!(odd_level || meta.client_capabilities.is_none(), "{}", line.place);
        seen += 1;
    }
    assert_eq!(seen, 2);
}
