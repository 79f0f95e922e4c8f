//! Builders of messages as a peer writes them, and of values for the tested side.

use mcp_proto::{RawJson, Version};
use serde_json::{Value, json};

/// Returns the `_meta` members of a modern request.
#[must_use]
pub fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "harbor-client", "version": "0.3.0"},
    })
}

/// Returns a modern request. `params` is an object, and its `_meta` is kept if present.
#[must_use]
pub fn modern_request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = legacy_request(id, method, params);
    let params = &mut request["params"];
    if !params.is_object() {
        *params = json!({});
    }
    if params.get("_meta").is_none() {
        params["_meta"] = modern_meta();
    }
    request
}

/// Returns a modern request with additional `_meta` members; `null` removes a member.
#[must_use]
pub fn modern_request_with(id: impl Into<Value>, method: &str, params: Value, extra: &Value) -> Value {
    let mut request = modern_request(id, method, params);
    if let (Some(extra), Some(meta)) = (extra.as_object(), request["params"]["_meta"].as_object_mut()) {
        for (name, value) in extra {
            if value.is_null() {
                meta.remove(name);
            } else {
                meta.insert(name.clone(), value.clone());
            }
        }
    }
    request
}

/// Returns a legacy request; `null` leaves `params` out.
#[must_use]
pub fn legacy_request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "id": id.into(), "method": method});
    if !params.is_null() {
        request["params"] = params;
    }
    request
}

/// Returns a notification; `null` leaves `params` out.
#[must_use]
pub fn notification(method: &str, params: Value) -> Value {
    let mut notification = json!({"jsonrpc": "2.0", "method": method});
    if !params.is_null() {
        notification["params"] = params;
    }
    notification
}

/// Returns a result response to `request`.
#[must_use]
pub fn result_response(request: &Value, result: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
    message["result"] = result;
    message
}

/// Returns an error response to `request`; `null` leaves `data` out.
#[must_use]
pub fn error_response(request: &Value, code: i64, message: &str, data: Value) -> Value {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data;
    }
    json!({"jsonrpc": "2.0", "id": request["id"], "error": error})
}

/// Returns an `initialize` request for `version`, which may be any text.
#[must_use]
pub fn initialize_request(id: impl Into<Value>, version: &str) -> Value {
    let client = json!({"name": "harbor-client", "version": "0.3.0"});
    legacy_request(
        id,
        "initialize",
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}),
    )
}

/// Returns the `initialize` result of a server that selects `version`.
#[must_use]
pub fn initialize_result(version: &str, capabilities: Value) -> Value {
    let mut result = json!({"serverInfo": {"name": "tide-server", "version": "2.1.0"}});
    result["protocolVersion"] = version.into();
    result["capabilities"] = capabilities;
    result
}

/// Returns the `server/discover` result of a server that supports `versions`.
#[must_use]
pub fn discover_result(versions: &[&str], capabilities: Value) -> Value {
    let mut result = json!({
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tide-server", "version": "2.1.0"}},
        "supportedVersions": versions,
        "ttlMs": 0,
        "cacheScope": "private",
    });
    result["capabilities"] = capabilities;
    result
}

/// Returns `value` as [`RawJson`].
///
/// # Panics
///
/// Never: a [`Value`] is valid JSON.
#[must_use]
pub fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("a value is JSON")
}

/// Returns a value of the tested side in parsed form.
///
/// # Panics
///
/// If it is not JSON.
#[must_use]
pub fn to_value(raw: &RawJson) -> Value {
    serde_json::from_slice(raw.as_bytes()).expect("JSON")
}

/// Every legacy revision, oldest first.
pub const LEGACY_VERSIONS: [Version; 4] =
    [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18, Version::V2025_11_25];
