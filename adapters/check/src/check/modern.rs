//! Rules of the modern era for every request and every answer.

use serde_json::Value;

use super::conversation::{CheckAnswer, ErrorAnswer};
use super::messages::{note_input_request, value_kind};
use super::report::CheckReport;
use super::rules::rules_of;

rules_of! {
    RULES
    RESULT_TYPE "result-type" Error [Spec Hosted] ["BASE-026" "BASE-027"]
        "each modern result has a `resultType`"
        "add `\"resultType\":\"complete\"`"
    CACHE_HINTS "cache-hints" Error [Spec Hosted] ["CACHE-001" "CACHE-002" "CACHE-003"]
        "results that can be cached have `ttlMs`, an integer of at least 0, and `cacheScope`, `public` or `private`"
        "add both; 0 and `private` are always valid"
    CACHE_SCOPE "cache-scope" Error [Spec Hosted] Mcp10 ["CACHE-017"]
        "all pages of a list have the same `cacheScope`"
        "choose one `cacheScope` for the whole list"
    SERVER_INFO "server-info" Warning [Spec Hosted] ["META-018"]
        "each modern result has the name and the version of the server in its `_meta`"
        "add `io.modelcontextprotocol/serverInfo`"
    REMOVED_METHOD "removed-method" Error [Spec Hosted] ["LIFE-024" "PING-006"]
        "modern requests for methods that were removed get -32601"
        "refuse `ping` in modern requests"
    RESERVED_CODE "reserved-code" Error [Spec Hosted] ["ERR-005" "ERR-009"]
        "no error code is used that modern revisions reserve or have removed"
        "use the codes of the specification, or others outside of -32768..-32000"
}

/// Key of `_meta` that holds the identity of the server.
const INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

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
        Value::Null => report.add(RESULT_TYPE, &location, "there is no `resultType`"),
        other => report.add(RESULT_TYPE, &location, format!("`resultType` is {other}")),
    }
    if CACHEABLE_METHODS.contains(&method) {
        match &result["ttlMs"] {
            Value::Null => report.add(CACHE_HINTS, &location, "there is no `ttlMs`"),
            ttl if ttl.is_u64() => {}
            other => report.add(CACHE_HINTS, &location, format!("`ttlMs` is {other}")),
        }
        match &result["cacheScope"] {
            Value::Null => report.add(CACHE_HINTS, &location, "there is no `cacheScope`"),
            scope if scope == "public" || scope == "private" => {}
            other => report.add(CACHE_HINTS, &location, format!("`cacheScope` is {other}")),
        }
    }
    let info = &result["_meta"][INFO_KEY];
    if info.is_null() {
        report.add(SERVER_INFO, &location, format!("there is no `{INFO_KEY}` in `_meta`"));
    } else if !(info["name"].is_string() && info["version"].is_string()) {
        let what = format!("`{INFO_KEY}` is {} without the strings `name` and `version`", value_kind(info));
        report.add(SERVER_INFO, &location, what);
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
    report.add(RESERVED_CODE, &format!("`{method}`"), format!("{} {reason}", failed.summary()));
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
