//! Messages as a peer would write them, and values for our own side.

use mcp_proto::{RawJson, Version};
use serde_json::{Value, json};

/// The `_meta` members of a modern request
#[must_use]
pub fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "harbor-client", "version": "0.3.0"},
    })
}

/// A modern request; `params` is an object, whose `_meta` is kept where it has one
#[must_use]
pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = legacy(id, method, params);
    let params = &mut request["params"];
    if !params.is_object() {
        *params = json!({});
    }
    if params.get("_meta").is_none() {
        params["_meta"] = modern_meta();
    }
    request
}

/// A modern request with these `_meta` members besides the usual ones; `null` takes one away
#[must_use]
pub fn modern_with(id: impl Into<Value>, method: &str, params: Value, extra: &Value) -> Value {
    let mut request = modern(id, method, params);
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

/// A request as legacy peers send it; `null` leaves `params` out
#[must_use]
pub fn legacy(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "id": id.into(), "method": method});
    if !params.is_null() {
        request["params"] = params;
    }
    request
}

/// A notification; `null` leaves `params` out
#[must_use]
pub fn note(method: &str, params: Value) -> Value {
    let mut notification = json!({"jsonrpc": "2.0", "method": method});
    if !params.is_null() {
        notification["params"] = params;
    }
    notification
}

/// A result that answers `request`
#[must_use]
pub fn result(request: &Value, result: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
    message["result"] = result;
    message
}

/// An error that answers `request`
#[must_use]
pub fn error(request: &Value, code: i64, message: &str, data: Value) -> Value {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data;
    }
    json!({"jsonrpc": "2.0", "id": request["id"], "error": error})
}

/// `initialize` of a peer that asks for `version`, which may be any text
#[must_use]
pub fn initialize(id: impl Into<Value>, version: &str) -> Value {
    let client = json!({"name": "harbor-client", "version": "0.3.0"});
    legacy(id, "initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}

/// The result of `initialize` of a server that settles on `version`
#[must_use]
pub fn initialized(version: &str, capabilities: Value) -> Value {
    let mut result = json!({"serverInfo": {"name": "tide-server", "version": "2.1.0"}});
    result["protocolVersion"] = version.into();
    result["capabilities"] = capabilities;
    result
}

/// The result of `server/discover` of a server that names `versions`
#[must_use]
pub fn discovery(versions: &[&str], capabilities: Value) -> Value {
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

/// `value` as our side takes it
///
/// # Panics
///
/// Never: a [`Value`] is valid JSON.
#[must_use]
pub fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("a value is JSON")
}

/// What our side handed out, to look at
///
/// # Panics
///
/// When it is no JSON.
#[must_use]
pub fn value(raw: &RawJson) -> Value {
    serde_json::from_slice(raw.as_bytes()).expect("JSON")
}

/// Every revision with a handshake, oldest first
pub const LEGACY: [Version; 4] =
    [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18, Version::V2025_11_25];
