//! What the modern era wants of each request and of each answer

use serde_json::{Value, json};

use super::report::Report;
use super::rules;
use super::stream::kind;
use super::talk::{Answer, Failed};

/// The key of `_meta` under which servers introduce themselves
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What each request has in `_meta`
pub(super) fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "mcp-probe", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Looks at what all answers have in common
pub(super) fn judge(report: &Report, method: &str, answer: &Answer) {
    let place = format!("`{method}`");
    if let Answer::Error(failed) = answer {
        return judge_code(report, &place, failed);
    }
    let Some(result) = answer.result() else { return };
    match &result["resultType"] {
        Value::String(kind) if kind == "complete" => {}
        Value::String(kind) if kind == "input_required" => return,
        Value::Null => report.add(rules::RESULT_TYPE, &place, "there is no `resultType`"),
        other => report.add(rules::RESULT_TYPE, &place, format!("`resultType` is {other}")),
    }
    if CACHED.contains(&method) {
        match &result["ttlMs"] {
            Value::Null => report.add(rules::CACHE_HINTS, &place, "there is no `ttlMs`"),
            ttl if ttl.is_u64() => {}
            other => report.add(rules::CACHE_HINTS, &place, format!("`ttlMs` is {other}")),
        }
        match &result["cacheScope"] {
            Value::Null => report.add(rules::CACHE_HINTS, &place, "there is no `cacheScope`"),
            scope if scope == "public" || scope == "private" => {}
            other => report.add(rules::CACHE_HINTS, &place, format!("`cacheScope` is {other}")),
        }
    }
    let info = &result["_meta"][SERVER_INFO];
    if info.is_null() {
        report.add(rules::SERVER_INFO, &place, format!("there is no `{SERVER_INFO}` in `_meta`"));
    } else if !(info["name"].is_string() && info["version"].is_string()) {
        let what = format!("`{SERVER_INFO}` has no `name` and `version` ({})", kind(info));
        report.add(rules::SERVER_INFO, &place, what);
    }
}

fn judge_code(report: &Report, place: &str, failed: &Failed) {
    let why = match failed.code {
        -32002 => "is of the legacy era",
        -32042 => "is of 2025-11-25 only",
        -32022..=-32020 => return,
        -32099..=-32020 => "is reserved for the specification",
        _ => return,
    };
    report.add(rules::RESERVED_CODE, place, format!("{} {why}", failed.text()));
}

/// Whose results can be cached
const CACHED: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];
