//! Every message of the transcripts is read through the model and written again without loss: in full, and in the form
//! of its revision.
//!
//! The two transcripts of tasks are read by envelope only, because tasks are not typed.

use alloc::collections::BTreeSet;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use mcp_proto::model::*;
use mcp_proto::{EncodeError, RawJson, RequestId, RpcError, Version};
use serde::Serialize;
use serde_json::{Map as Object, Value, json};

struct TranscriptLine {
    transcript: String,
    location: String,
    version: Version,
    /// Whether the client sent it.
    is_from_client: bool,
    message: Value,
    /// Whether it is invalid on purpose.
    is_invalid: bool,
}

fn lines() -> Vec<TranscriptLine> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut paths: Vec<_> =
        fs::read_dir(dir).expect("the transcripts").map(|e| e.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let transcript = path.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
        let text = fs::read_to_string(&path).expect("a transcript");
        let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for (index, line) in all.iter().enumerate() {
            let Some(message) = line.get("msg") else { continue };
            let version =
                line.get("rev").unwrap_or_else(|| &all[0]["revision"]).as_str().and_then(Version::from_name);
            // The members of a batch count as messages of their own.
            let members = message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]);
            for message in members {
                found.push(TranscriptLine {
                    transcript: transcript.clone(),
                    location: format!("{transcript}:{}", index + 1),
                    version: version.expect("a revision"),
                    is_from_client: line["dir"] == "c2s",
                    message,
                    is_invalid: line.get("invalid").is_some() || line.get("t").is_none(),
                });
            }
        }
    }
    found
}

/// Returns `value` with all numbers as floating point, so that equal numbers compare equal.
fn normalize_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normalize_numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), normalize_numbers(v))).collect::<Object<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("JSON")
}

fn parsed(json: &RawJson) -> Value {
    normalize_numbers(&serde_json::from_str(json.as_str()).expect("JSON"))
}

/// Types and messages that were read.
#[derive(Default)]
struct RoundTripCounts {
    /// Types that were read.
    types: BTreeSet<&'static str>,
    messages: usize,
}

impl RoundTripCounts {
    fn round_trip<T: Serialize>(&mut self, line: &TranscriptLine, name: &'static str, part: &Value, read: T) {
        let location = &line.location;
        assert_eq!(
            parsed(&RawJson::encode(&read).expect("JSON")),
            normalize_numbers(part),
            "{location}: {name}"
        );
        match encode_for(line.version, &read) {
            Ok(shaped) => {
                let mut shaped = parsed(&shaped);
                // 2025-03-26 always has these two.
                for added in ["isError", "stopReason"].into_iter().filter(|m| part.get(m).is_none()) {
                    let members = shaped.as_object_mut().filter(|_| line.version == Version::V2025_03_26);
                    members.and_then(|members| members.remove(added));
                }
                assert_eq!(shaped, normalize_numbers(part), "{location}: {name} lost members")
            }
            // The transcripts show how a modern server answers legacy methods.
            Err(EncodeError::NotInVersion { .. }) => {
                assert_eq!(line.version, Version::V2026_07_28, "{location}")
            }
            Err(other) => panic!("{location}: {other}"),
        }
        self.types.insert(name);
    }
}

macro_rules! round_trip {
    ($counts:ident $line:ident $part:ident $type:ident $(<$life:lifetime>)?) => {{
        let text = raw($part);
        let read: $type $(<$life>)? = text.parse().unwrap_or_else(|e| panic!("{}: {e}", $line.location));
        $counts.round_trip($line, stringify!($type), $part, read);
    }};
}

fn check_params(counts: &mut RoundTripCounts, line: &TranscriptLine, method: &str, part: &Value) {
    match method {
        "initialize" => round_trip!(counts line part InitializeParams),
        "server/discover" | "ping" | "roots/list" | "notifications/initialized" => {
            round_trip!(counts line part EmptyParams)
        }
        "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
            round_trip!(counts line part PaginatedParams)
        }
        "tools/call" => round_trip!(counts line part CallToolParams<'_>),
        "resources/read" => round_trip!(counts line part ReadResourceParams<'_>),
        "resources/subscribe" | "resources/unsubscribe" => round_trip!(counts line part SubscribeParams),
        "prompts/get" => round_trip!(counts line part GetPromptParams<'_>),
        "completion/complete" => round_trip!(counts line part CompleteParams<'_>),
        "logging/setLevel" => round_trip!(counts line part SetLevelParams),
        "subscriptions/listen" => round_trip!(counts line part SubscriptionsListenParams),
        "sampling/createMessage" => round_trip!(counts line part CreateMessageParams<'_>),
        "elicitation/create" => round_trip!(counts line part ElicitParams),
        "notifications/cancelled" => round_trip!(counts line part CancelledParams),
        "notifications/progress" => round_trip!(counts line part ProgressParams),
        "notifications/message" => round_trip!(counts line part LoggingMessageParams),
        "notifications/resources/updated" => round_trip!(counts line part ResourceUpdatedParams),
        "notifications/elicitation/complete" => round_trip!(counts line part ElicitationCompleteParams),
        "notifications/subscriptions/acknowledged" => {
            round_trip!(counts line part SubscriptionsAcknowledgedParams)
        }
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/roots/list_changed" => round_trip!(counts line part EmptyParams),
        other => panic!("{}: no type for {other}", line.location),
    }
    if let Some(meta) = part.get("_meta") {
        if method.starts_with("notifications/") {
            round_trip!(counts line meta NotificationMeta);
        } else {
            round_trip!(counts line meta RequestMeta);
        }
        round_trip!(counts line meta TraceContext);
    }
}

fn check_result(counts: &mut RoundTripCounts, line: &TranscriptLine, method: &str, part: &Value) {
    if part["resultType"] == "input_required" {
        return round_trip!(counts line part InputRequiredResult<'_>);
    }
    match method {
        "initialize" => round_trip!(counts line part InitializeResult),
        "server/discover" => round_trip!(counts line part DiscoverResult),
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            round_trip!(counts line part EmptyResult)
        }
        "tools/list" => round_trip!(counts line part ListToolsResult),
        "resources/list" => round_trip!(counts line part ListResourcesResult),
        "resources/templates/list" => round_trip!(counts line part ListResourceTemplatesResult),
        "prompts/list" => round_trip!(counts line part ListPromptsResult),
        "tools/call" => round_trip!(counts line part CallToolResult<'_>),
        "resources/read" => round_trip!(counts line part ReadResourceResult<'_>),
        "prompts/get" => round_trip!(counts line part GetPromptResult<'_>),
        "completion/complete" => round_trip!(counts line part CompleteResult),
        "subscriptions/listen" => round_trip!(counts line part SubscriptionsListenResult),
        "roots/list" => round_trip!(counts line part ListRootsResult),
        "sampling/createMessage" => round_trip!(counts line part CreateMessageResult<'_>),
        "elicitation/create" => round_trip!(counts line part ElicitResult),
        other => panic!("{}: no type for {other}", line.location),
    }
    if let Some(meta) = part.get("_meta") {
        round_trip!(counts line meta ResultMeta);
    }
}

fn check_error(counts: &mut RoundTripCounts, line: &TranscriptLine, part: &Value) {
    let (Some(code), Some(data)) = (part["code"].as_i64(), part.get("data")) else { return };
    let error = RpcError::new(code, "m").with_data(raw(data));
    match code {
        -32002 | -32602 => counts.round_trip(line, "ResourceNotFound", data, error.as_resource_not_found()),
        -32021 => counts.round_trip(
            line,
            "MissingRequiredClientCapability",
            data,
            error.as_missing_client_capability(),
        ),
        -32022 => counts.round_trip(line, "UnsupportedProtocolVersion", data, error.as_unsupported_version()),
        -32020 => {} // Any data is valid (DEC-006).
        -32042 => {
            counts.round_trip(line, "UrlElicitationRequired", data, error.as_url_elicitation_required())
        }
        other => panic!("{}: no type for the data of {other}", line.location),
    }
}

/// Checks the members outside the model: `jsonrpc`, `id`, `method`, and at most one of the others.
fn check_envelope(line: &TranscriptLine) {
    let members = line.message.as_object().expect("an object");
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    assert!(members.keys().all(|name| known.contains(&&**name)), "{}", line.location);
    if let Some(id) = members.get("id") {
        let read: RequestId = raw(id).parse().unwrap_or_else(|e| panic!("{}: {e}", line.location));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), id.to_string(), "{}", line.location);
    }
}

// covers: BASE-008, BASE-010, META-001, META-008, CONT-001, TOOL-005, TOOL-010, TOOL-013, RES-003, RES-004, RES-005, PROMPT-003, PROMPT-004, COMP-002, COMP-004, LOG-003, SAMP-004, SAMP-005, ELIC-009, ELIC-016, ELIC-018, ELIC-030, ROOT-002, MRTR-006, MRTR-018, SUB-002, CACHE-001
#[test]
fn every_message_survives_a_round_trip() {
    let mut counts = RoundTripCounts::default();
    let mut methods: HashMap<(String, bool, String), String> = HashMap::new();
    let lines = lines();
    for line in lines.iter().filter(|line| !line.is_invalid) {
        check_envelope(line);
        counts.messages += 1;
        let message = &line.message;
        let id = message.get("id").map(ToString::to_string).unwrap_or_default();
        let tasks = line.transcript.contains("tasks");
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            methods.insert((line.transcript.clone(), line.is_from_client, id), method.into());
            if let Some(part) = message.get("params").filter(|_| !tasks) {
                check_params(&mut counts, line, method, part);
            }
        } else if let Some(part) = message.get("result") {
            let method = methods.get(&(line.transcript.clone(), !line.is_from_client, id));
            if let Some(method) = method.filter(|_| !tasks) {
                check_result(&mut counts, line, method, part);
            }
        } else if !tasks {
            check_error(&mut counts, line, &message["error"]);
        }
    }
    assert_eq!(counts.messages, 310, "the number of messages changed");
    assert_eq!(counts.types.len(), 42, "{:?}", counts.types);
}

/// A message that is invalid on purpose is invalid for its revision or its envelope, not for its types.
// covers: LOG-010, META-014
#[test]
fn messages_invalid_on_purpose_are_readable() {
    let mut seen = 0;
    for line in lines().iter().filter(|line| line.is_invalid) {
        let Some(meta) = line.message.pointer("/params/_meta") else { continue };
        let meta: RequestMeta = raw(meta).parse().unwrap_or_else(|e| panic!("{}: {e}", line.location));
        let is_unknown_level = meta.log_level.as_ref().is_some_and(|level| level.severity().is_none());
        assert!(is_unknown_level || meta.client_capabilities.is_none(), "{}", line.location);
        seen += 1;
    }
    assert_eq!(seen, 2);
}
