//! Parses lines from a server and checks whether their messages are allowed.

use mcp_proto::{DeprecatedFeature, Era, RawJson, Version};
use serde_json::Value;

use super::conversation::{CheckAnswer, ErrorAnswer};
use super::exposure;
use super::report::{CheckReport, clip};
use super::rules::rules_of;

rules_of! {
    RULES
    NOISE "stdout-noise" Error [Spec] ["STDIO-005"]
        "stdout contains only messages"
        "write logs to stderr"
    FLOOD "flood" Error [Spec Hosted] ["STDIO-005" "STDIO-012"]
        "stdout is not flooded with unsolicited output"
        "write messages only when there is one to send, each on a line of bounded length"
    NOT_UTF8 "not-utf8" Error [Spec Hosted] ["BASE-002" "STDIO-004"]
        "messages are UTF-8 without a byte order mark"
        "write UTF-8 without a byte order mark to stdout"
    MALFORMED "malformed-message" Error [Spec Hosted] ["BASE-001" "BASE-009" "BASE-010" "BASE-011" "BASE-017"]
        "each message is a JSON-RPC 2.0 request, notification or response"
        "write messages as JSON-RPC 2.0 defines them"
    SENT_BATCH "sent-batch" Error [Spec Hosted] ["BATCH-004"]
        "no batches are sent in revisions without them"
        "send each message on a line of its own"
    STRAY_ANSWER "stray-answer" Error [Spec Hosted] ["BASE-008"]
        "each request is answered once, and nothing else is answered"
        "repeat the id of the request, and answer it once"
    ID_CHANGED "id-changed" Error [Spec Hosted] ["BASE-008"]
        "an answer repeats the id of its request, with its type"
        "keep ids as they are: 7 and \"7\" are different"
    NOTIFICATION_ANSWERED "notification-answered" Error [Spec Hosted] ["BASE-016"]
        "notifications are not answered"
        "ignore unknown notifications"
    SERVER_REQUEST "server-request" Error [Spec Hosted] ["LIFE-011" "BASE-019"]
        "a server sends no requests that the client did not declare, and none at all in the modern era"
        "check the client's capabilities before sending it a request"
    UNASKED_NOTIFICATION "unasked-notification" Error [Spec Hosted]
        ["LOG-001" "LOG-007" "TOOL-020" "RES-028" "PROG-010" "SUB-003"]
        "notifications are sent only if they are declared, and requested where that is required"
        "declare the capability, and wait until the client requests it"
}

/// A message in a line.
pub(super) enum ServerMessage {
    Answer {
        id: Value,
        answer: CheckAnswer,
    },
    /// An error without an id, or with a null id.
    ErrorWithoutId(ErrorAnswer),
    /// A result with a null id.
    ResultWithoutId,
    Request {
        id: Value,
        method: String,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// An unusable line or message; the report says why.
    Unusable,
}

/// Parses the messages of a line: one, several in a batch, or none.
pub(super) fn parse_line(report: &CheckReport, version: Version, line: &[u8]) -> Vec<ServerMessage> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    let (line, marked) = match line.strip_prefix("\u{feff}".as_bytes()) {
        Some(line) => (line, true),
        None => (line, false),
    };
    if marked {
        report.add_unsolicited(NOT_UTF8, "a byte order mark");
    }
    if core::str::from_utf8(line).is_err() {
        let what =
            format!("a line that is not UTF-8: {}", clip(&String::from_utf8_lossy(line), MAX_SHOWN_CHARS));
        report.add_unsolicited(NOT_UTF8, what);
        return vec![ServerMessage::Unusable];
    }
    let Ok(raw) = RawJson::new(line.to_vec()) else {
        return vec![report_noise(report, line)];
    };
    let Some(elements) = raw.elements() else {
        return vec![parse_message(report, &raw)];
    };
    if version != Version::V2025_03_26 {
        report.add_unsolicited(SENT_BATCH, format!("a batch: {}", clip(raw.as_str(), MAX_SHOWN_CHARS)));
    }
    elements.iter().map(|element| parse_message(report, element)).collect()
}

fn report_noise(report: &CheckReport, line: &[u8]) -> ServerMessage {
    if report.count(NOISE) < MAX_NOISE_LINES {
        let what = format!(
            "a line that is not a message: {}",
            clip(&String::from_utf8_lossy(line), MAX_SHOWN_CHARS)
        );
        report.add_unsolicited(NOISE, what);
    }
    ServerMessage::Unusable
}

fn parse_message(report: &CheckReport, raw: &RawJson) -> ServerMessage {
    let value: Value = raw.parse().unwrap_or_default();
    let members = ["jsonrpc", "method", "result", "error"];
    if !members.iter().any(|name| value.get(name).is_some()) {
        return report_noise(report, raw.as_bytes());
    }
    let malformed = |reason: &str| {
        let what = format!("{reason}: {}", clip(raw.as_str(), MAX_SHOWN_CHARS));
        report.add_unsolicited(MALFORMED, what);
    };
    if value["jsonrpc"] != "2.0" {
        malformed("`jsonrpc` is not \"2.0\"");
    }
    let id = value.get("id");
    let bad_id = id.is_some_and(|id| !(id.is_string() || id.is_i64() || id.is_u64() || id.is_null()));
    if bad_id {
        malformed("an id that is neither a string nor an integer");
    }
    match (value.get("method"), value.get("result"), value.get("error")) {
        (Some(Value::String(method)), None, None) => {
            let method = method.clone();
            if value.get("params").is_some_and(|params| !params.is_object()) {
                malformed("`params` is not an object");
            }
            match id {
                None => ServerMessage::Notification { method, params: value["params"].clone() },
                Some(Value::Null) => {
                    malformed("a request with a null id");
                    ServerMessage::Unusable
                }
                Some(id) => {
                    note_input_request(report, &method, &value["params"]);
                    ServerMessage::Request { id: id.clone(), method }
                }
            }
        }
        (None, Some(result), None) => {
            let id = match id {
                Some(Value::Null) => return ServerMessage::ResultWithoutId,
                Some(id) => id,
                None => {
                    malformed("a result without an id");
                    return ServerMessage::Unusable;
                }
            };
            let answer = match raw.member("result") {
                Some(result) if result.is_object() => CheckAnswer::Result(result),
                _ => {
                    malformed(&format!("a result that is not an object ({})", value_kind(result)));
                    CheckAnswer::None
                }
            };
            ServerMessage::Answer { id: id.clone(), answer }
        }
        (None, None, Some(error)) => {
            exposure::check_error(report, error);
            let failed = parse_error_answer(error, id.is_some());
            if failed.is_none() {
                malformed("an error without an integer `code` and a string `message`");
            }
            match (id.filter(|id| !id.is_null()), failed) {
                (Some(id), failed) => ServerMessage::Answer {
                    id: id.clone(),
                    answer: failed.map_or(CheckAnswer::None, CheckAnswer::Error),
                },
                (None, Some(failed)) => ServerMessage::ErrorWithoutId(failed),
                (None, None) => ServerMessage::Unusable,
            }
        }
        _ => {
            malformed("neither a request nor a notification nor a response");
            match id.filter(|id| !id.is_null()) {
                Some(id) => ServerMessage::Answer { id: id.clone(), answer: CheckAnswer::None },
                None => ServerMessage::Unusable,
            }
        }
    }
}

fn parse_error_answer(error: &Value, has_id: bool) -> Option<ErrorAnswer> {
    Some(ErrorAnswer {
        code: error.get("code")?.as_i64()?,
        message: error.get("message")?.as_str()?.to_owned(),
        data: error.get("data").cloned().unwrap_or_default(),
        has_id,
    })
}

/// Names the JSON type of a value.
pub(super) const fn value_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Notes the deprecated features that an input request uses.
pub(super) fn note_input_request(report: &CheckReport, method: &str, params: &Value) {
    match method {
        "roots/list" => report.add_deprecated(DeprecatedFeature::Roots),
        "sampling/createMessage" => {
            report.add_deprecated(DeprecatedFeature::Sampling);
            if matches!(params["includeContext"].as_str(), Some("thisServer" | "allServers")) {
                report.add_deprecated(DeprecatedFeature::IncludeContext);
            }
        }
        _ => {}
    }
}

/// Reports a request from the server, which is not allowed because the checker declares no capabilities.
pub(super) fn check_request(report: &CheckReport, version: Version, method: &str) {
    let modern = version.era() == Era::Modern;
    if modern || method != "ping" {
        let why =
            if modern { "which modern servers must not send" } else { "which the client did not declare" };
        report.add_unsolicited(SERVER_REQUEST, format!("a request `{method}`, {why}"));
    }
}

/// Reports a notification from the server that was not requested or declared.
pub(super) fn check_notification(report: &CheckReport, version: Version, capabilities: &Value, method: &str) {
    let modern = version.era() == Era::Modern;
    if method == "notifications/message" {
        report.add_deprecated(DeprecatedFeature::Logging);
    }
    let why = match method {
        "notifications/message" if modern => "though no request had a `logLevel`",
        "notifications/message" if capabilities["logging"].is_null() && !capabilities.is_null() => {
            "without the capability `logging`"
        }
        "notifications/progress" => "though no request had a `progressToken`",
        "notifications/resources/updated" => "though nothing was subscribed to",
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed" => {
            let family = method.split('/').nth(1).unwrap_or_default();
            if modern {
                "though nothing was subscribed to"
            } else if capabilities[family]["listChanged"] != true && !capabilities.is_null() {
                "without the capability `listChanged`"
            } else {
                return;
            }
        }
        _ => return,
    };
    report.add_unsolicited(UNASKED_NOTIFICATION, format!("`{method}` was sent {why}"));
}

/// Maximum number of noise lines that are reported.
const MAX_NOISE_LINES: usize = 5;
/// Maximum number of characters shown of a line.
const MAX_SHOWN_CHARS: usize = 160;
