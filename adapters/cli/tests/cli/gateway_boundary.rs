//! Bounds between clients and servers of a `gateway`: the information that passes, and the number of calls of a server.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bridge::BridgeProcess;
use crate::config_file::TemporaryDirectory;
use crate::gateway::{file_of, has, over_http, program, wait_for_tools};
use crate::protected_server::get;
use crate::protection::Issuer;
use crate::recording_server::RecordingServer;
use crate::support::{ClosedAddress, PROBE};

#[test]
fn clients_are_told_the_kind_of_a_failure_and_the_log_the_rest() {
    let (directory, closed, refusing) =
        (TemporaryDirectory::new(), ClosedAddress::new(), RecordingServer::new(401));
    let shell = |script: &str| json!({"command": "sh", "args": ["-c", script, PROBE]});
    let servers = json!({
        "none": {"command": "/nowhere/at/all"},
        "chatty": shell("echo pin 1234"),
        "far": {"url": format!("http://{closed}/token-5678/mcp")},
        "shut": {"url": refusing.url},
        "hidden": {"command": "/nowhere/at/all", "hide": ["*"]},
        "stubborn": shell("\"$0\" serve --era legacy; exec sleep 60"),
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let mut gateway = BridgeProcess::start(&["gateway", "--era", "legacy", "--config", &file]);
    gateway.send_line(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let listed = loop {
        let message: Value = serde_json::from_str(&gateway.read_line()).expect("JSON");
        if message["id"] == 2 {
            break message["result"].clone();
        }
    };
    assert!(!listed["tools"].as_array().expect("tools").is_empty(), "{listed}");
    let missing = listed["_meta"]["io.github.mcp-proto/unavailable"].as_object().expect("names");
    let not_started = "its program does not start, or is no MCP server";
    for (name, why) in [
        ("none", not_started),
        ("chatty", not_started),
        ("far", "it cannot be reached"),
        (
            "shut",
            "the login is missing or has ended; `mcp-probe login` with the URL of the server, where it is connected from, logs in again",
        ),
    ] {
        let prefix = "the server behind the bridge cannot be started: ";
        let told = missing.get(name).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(told.strip_prefix(prefix).unwrap_or(told), why, "{name}: {listed}");
    }
    assert_eq!(missing.len(), 4, "{listed}");
    let (code, stderr) = gateway.close();
    assert_eq!(code, Some(0));
    for part in [
        "`none` cannot be started, and is tried again: cannot start \"/nowhere/at/all\"",
        "`hidden` cannot be started, and is tried again: cannot start \"/nowhere/at/all\"",
        "the first line on its stdout was \"pin 1234\"",
        "/token-5678/mcp",
        "`shut` cannot be started, and is tried again: ",
        "`stubborn`: the server did not end when its input was closed; SIGTERM ended it",
    ] {
        assert!(stderr.contains(part), "no {part:?}: {stderr}");
    }
}

#[test]
fn monitors_are_told_of_servers_that_clients_may_know() {
    let (directory, issuer) = (TemporaryDirectory::new(), Issuer::new());
    let servers = json!({
        "sound": program(&[]),
        "none": {"command": "/nowhere/at/all"},
        "hidden": {"command": "/nowhere/at/all", "hide": ["*"]},
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let wait_for = |url: &str, expected: &Value| {
        let url = format!("{}/health", url.strip_suffix("/mcp").expect("the endpoint"));
        let begun = Instant::now();
        loop {
            let (status, text) = get(&url);
            let body = text.split_once("\n\n").expect("a body").1;
            if status == 200 && serde_json::from_str::<Value>(body).ok().as_ref() == Some(expected) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let gateway = over_http(&file, &[]);
    let shown = json!([{"name": "none", "state": "failed"}, {"name": "sound", "state": "ready"}]);
    wait_for(&gateway.url, &json!({"status": "degraded", "servers": shown}));
    directory.write("mcp.json", &file_of(&json!({"sound": program(&[])})));
    wait_for(&gateway.url, &json!({"status": "ok", "servers": [{"name": "sound", "state": "ready"}]}));
    directory.write("mcp.json", &file_of(&json!({"none": {"command": "/nowhere/at/all"}})));
    wait_for(&gateway.url, &json!({"status": "down", "servers": [{"name": "none", "state": "failed"}]}));
    let gateway = over_http(&file, &["--protect", &issuer.0]);
    wait_for(&gateway.url, &json!({"status": "down"}));
}

#[test]
fn servers_with_several_clients_are_told_of_no_roots_and_no_sampling() {
    let directory = TemporaryDirectory::new();
    let first = directory.write("first", "");
    let script =
        r#"read -r l; printf '%s\n' "$l" > "$1"; { printf '%s\n' "$l"; cat; } | "$0" serve --era legacy"#;
    let one = json!({"command": "sh", "args": ["-c", script, PROBE, first.as_str()]});
    let file = directory.write("mcp.json", &file_of(&json!({"one": one})));
    let gateway = over_http(&file, &["--era", "legacy"]);
    wait_for_tools(&gateway.url, |tools| has(tools, "one_echo"));
    let initialize: Value =
        serde_json::from_str(&std::fs::read_to_string(&first).expect("a file")).expect("JSON");
    let capabilities = initialize["params"]["capabilities"].as_object().expect("capabilities");
    assert_eq!(capabilities.keys().collect::<Vec<_>>(), ["elicitation"], "{initialize}");
}

#[test]
fn server_without_a_limit_has_64_calls_at_a_time_and_lists_pass() {
    let directory = TemporaryDirectory::new();
    let file = directory.write("mcp.json", &file_of(&json!({"one": program(&["--runtime", "tokio"])})));
    let mut gateway = BridgeProcess::start(&["gateway", "--config", &file]);
    let mut send = |id: u32, method: &str, params: Value| {
        gateway
            .send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    };
    for id in 100..165 {
        let arguments = json!({"to": 100, "delay_ms": 600});
        send(id, "tools/call", json!({"name": "one_count", "arguments": arguments}));
    }
    send(2, "tools/list", json!({}));
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let message: Value = serde_json::from_str(&gateway.read_line()).expect("JSON");
        if message["id"].is_u64() {
            answers.push(message);
        }
    }
    let [refused, listed] = &answers[..] else { panic!("{answers:?}") };
    let why = "`one`: 64 calls are in flight, which is the limit of this server";
    assert!(refused["id"] == 164 && refused["error"]["message"] == why, "{refused}");
    assert!(listed["id"] == 2 && listed["result"]["tools"][0].is_object(), "{listed}");
    for id in 100..164 {
        let params = json!({"requestId": id});
        gateway.send_line(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string(),
        );
    }
    assert_eq!(gateway.close().0, Some(0));
}
