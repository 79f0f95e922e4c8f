//! Rules of the modern era for every request and every answer.

use serde_json::{Value, json};

use super::conversation::{CheckAnswer, ErrorAnswer};
use super::messages::{note_input_request, value_kind};
use super::report::CheckReport;
use super::rules;

/// Key of `_meta` that holds the identity of the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Returns the `_meta` that every request needs.
pub(super) fn request_meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "mcp-probe", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Checks the common members of an answer.
pub(super) fn check_answer(report: &CheckReport, method: &str, answer: &CheckAnswer) {
    let location = format!("`{method}`");
    if let CheckAnswer::Error(failed) = answer {
        return check_error_code(report, method, failed);
    }
    let Some(result) = answer.result() else { return };
    match &result["resultType"] {
        Value::String(kind) if kind == "complete" => {}
        Value::String(kind) if kind == "input_required" => {
            for request in
                result["inputRequests"].as_object().into_iter().flat_map(|requests| requests.values())
            {
                let method = request["method"].as_str().unwrap_or_default();
                note_input_request(report, method, &request["params"]);
            }
            return;
        }
        Value::Null => report.add(rules::RESULT_TYPE, &location, "there is no `resultType`"),
        other => report.add(rules::RESULT_TYPE, &location, format!("`resultType` is {other}")),
    }
    if CACHEABLE_METHODS.contains(&method) {
        match &result["ttlMs"] {
            Value::Null => report.add(rules::CACHE_HINTS, &location, "there is no `ttlMs`"),
            ttl if ttl.is_u64() => {}
            other => report.add(rules::CACHE_HINTS, &location, format!("`ttlMs` is {other}")),
        }
        match &result["cacheScope"] {
            Value::Null => report.add(rules::CACHE_HINTS, &location, "there is no `cacheScope`"),
            scope if scope == "public" || scope == "private" => {}
            other => report.add(rules::CACHE_HINTS, &location, format!("`cacheScope` is {other}")),
        }
    }
    let info = &result["_meta"][SERVER_INFO];
    if info.is_null() {
        report.add(rules::SERVER_INFO, &location, format!("there is no `{SERVER_INFO}` in `_meta`"));
    } else if !(info["name"].is_string() && info["version"].is_string()) {
        let what =
            format!("`{SERVER_INFO}` is {} without the strings `name` and `version`", value_kind(info));
        report.add(rules::SERVER_INFO, &location, what);
    }
}

/// Reports an error code that the modern era does not define.
fn check_error_code(report: &CheckReport, method: &str, failed: &ErrorAnswer) {
    let reason = match failed.code {
        -32002 => "belongs to the legacy era",
        -32042 => "belongs to 2025-11-25 only",
        // The codes of this revision come before the reserved range, of which they are a part.
        -32022..=-32020 => return,
        // Those of SEP-3415.
        -32027..=-32023 if method.starts_with("events/") => return,
        -32099..=-32020 => "lies in the range that the specification reserves",
        _ => return,
    };
    report.add(rules::RESERVED_CODE, &format!("`{method}`"), format!("{} {reason}", failed.summary()));
}

/// Methods whose results can be cached.
const CACHEABLE_METHODS: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];
