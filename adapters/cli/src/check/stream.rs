//! Lines from a server: what they are, and whether they may be there

use mcp_proto::{Era, RawJson, Version};
use serde_json::Value;

use super::report::{Report, clip};
use super::rules;
use super::talk::{Answer, Failed};

/// What a line holds
pub(super) enum Message {
    Answer {
        id: Value,
        answer: Answer,
    },
    /// An error without an id, or with null for one
    Loose(Failed),
    /// A result with null for an id
    LooseResult,
    Request {
        id: Value,
        method: String,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// Nothing that is of use
    Nothing,
}

/// The messages of a line: one, several in a batch, or none
pub(super) fn messages(report: &Report, version: Version, line: &[u8]) -> Vec<Message> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    let (line, marked) = match line.strip_prefix("\u{feff}".as_bytes()) {
        Some(line) => (line, true),
        None => (line, false),
    };
    if marked {
        report.add_said(rules::NOT_UTF8, "a byte order mark");
    }
    if core::str::from_utf8(line).is_err() {
        let what = format!("a line that is no UTF-8: {}", clip(&String::from_utf8_lossy(line), SHOWN));
        report.add_said(rules::NOT_UTF8, what);
        return vec![Message::Nothing];
    }
    let Ok(raw) = RawJson::new(line.to_vec()) else {
        return vec![noise(report, line)];
    };
    let Some(elements) = raw.elements() else {
        return vec![message(report, &raw)];
    };
    if version != Version::V2025_03_26 {
        report.add_said(rules::SENT_BATCH, format!("a batch: {}", clip(raw.as_str(), SHOWN)));
    }
    elements.iter().map(|element| message(report, element)).collect()
}

fn noise(report: &Report, line: &[u8]) -> Message {
    if report.count(rules::NOISE) < NOISE {
        let what = format!("a line that is no message: {}", clip(&String::from_utf8_lossy(line), SHOWN));
        report.add_said(rules::NOISE, what);
    }
    Message::Nothing
}

fn message(report: &Report, raw: &RawJson) -> Message {
    let value: Value = raw.parse().unwrap_or_default();
    let members = ["jsonrpc", "method", "result", "error"];
    if !members.iter().any(|name| value.get(name).is_some()) {
        return noise(report, raw.as_bytes());
    }
    let malformed = |why: &str| {
        let what = format!("{why}: {}", clip(raw.as_str(), SHOWN));
        report.add_said(rules::MALFORMED, what);
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
                malformed("`params` is no object");
            }
            match id {
                None => Message::Notification { method, params: value["params"].clone() },
                Some(Value::Null) => {
                    malformed("a request with null for an id");
                    Message::Nothing
                }
                Some(id) => Message::Request { id: id.clone(), method },
            }
        }
        (None, Some(result), None) => {
            let id = match id {
                Some(Value::Null) => return Message::LooseResult,
                Some(id) => id,
                None => {
                    malformed("a result without an id");
                    return Message::Nothing;
                }
            };
            let answer = match raw.member("result") {
                Some(result) if result.is_object() => Answer::Result(result),
                _ => {
                    malformed(&format!("a result that is no object ({})", kind(result)));
                    Answer::None
                }
            };
            Message::Answer { id: id.clone(), answer }
        }
        (None, None, Some(error)) => {
            let failed = failed(error, id.is_some());
            if failed.is_none() {
                malformed("an error without an integer `code` and a string `message`");
            }
            match (id.filter(|id| !id.is_null()), failed) {
                (Some(id), failed) => {
                    Message::Answer { id: id.clone(), answer: failed.map_or(Answer::None, Answer::Error) }
                }
                (None, Some(failed)) => Message::Loose(failed),
                (None, None) => Message::Nothing,
            }
        }
        _ => {
            malformed("neither a request nor a notification nor a response");
            match id.filter(|id| !id.is_null()) {
                Some(id) => Message::Answer { id: id.clone(), answer: Answer::None },
                None => Message::Nothing,
            }
        }
    }
}

fn failed(error: &Value, has_id: bool) -> Option<Failed> {
    Some(Failed {
        code: error.get("code")?.as_i64()?,
        message: error.get("message")?.as_str()?.to_owned(),
        data: error.get("data").cloned().unwrap_or_default(),
        has_id,
    })
}

/// What kind of value it is
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A request from the server, which is told that we have no capabilities
pub(super) fn judge_request(report: &Report, version: Version, method: &str) {
    let modern = version.era() == Era::Modern;
    if modern || method != "ping" {
        let why = if modern { "which no server sends any more" } else { "which we did not declare" };
        report.add_said(rules::SERVER_REQUEST, format!("a request `{method}`, {why}"));
    }
}

/// A notification from the server, which was asked for none
pub(super) fn judge_notification(report: &Report, version: Version, capabilities: &Value, method: &str) {
    let modern = version.era() == Era::Modern;
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
    report.add_said(rules::UNASKED_NOTIFICATION, format!("`{method}` was sent {why}"));
}

/// Lines of noise that are shown
const NOISE: usize = 5;
/// Characters of a line that are shown
const SHOWN: usize = 160;
