//! A server whose answers the test scripts.

use std::thread::JoinHandle;

use mcp_proto::Era;
use mcp_proto::client::Config;
use mcp_std::io::{Duplex, Interest, is_peer_gone};
use serde_json::{Value, json};

use crate::adapter::{Client, Options, connect};
use crate::support::{client_config, version_set};

/// The answer to a request: notifications, then a result or an error code.
pub(crate) struct ScriptedReply {
    pub(crate) notifications: Vec<Value>,
    pub(crate) outcome: Result<Value, i64>,
}

impl From<Value> for ScriptedReply {
    fn from(result: Value) -> Self {
        Self { notifications: Vec::new(), outcome: Ok(result) }
    }
}

impl From<i64> for ScriptedReply {
    fn from(code: i64) -> Self {
        Self { notifications: Vec::new(), outcome: Err(code) }
    }
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Connects a client of one era to a scripted server.
///
/// The server answers the handshake and `subscriptions/listen` itself, all other requests by `answer`. Once there is a
/// subscription, notifications belong to it.
pub(crate) fn connect_scripted(
    era: Era,
    options: impl FnOnce(Options) -> Options,
    answer: impl FnMut(&str, &Value) -> ScriptedReply + Send + 'static,
) -> (Client, JoinHandle<()>) {
    connect_scripted_with(client_config(version_set(era)), options, answer)
}

/// Connects a client with its own configuration to a scripted server; see [`connect_scripted`].
pub(crate) fn connect_scripted_with(
    config: Config,
    options: impl FnOnce(Options) -> Options,
    answer: impl FnMut(&str, &Value) -> ScriptedReply + Send + 'static,
) -> (Client, JoinHandle<()>) {
    connect(options(Client::options(config)), move |mut near| serve_script(&mut *near, answer))
}

fn serve_script(near: &mut dyn Duplex, mut answer: impl FnMut(&str, &Value) -> ScriptedReply) {
    let capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}},
    });
    let info = json!({"name": "by hand", "version": "1"});
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    let mut subscription = Value::Null;
    loop {
        let n = read(near, &mut buffer);
        if n == 0 {
            return;
        }
        input.extend_from_slice(&buffer[..n]);
        while let Some(end) = input.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let message: Value = serde_json::from_slice(&line).expect("a message");
            let Some(id) = message.get("id") else { continue };
            let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
            if message["method"] == "subscriptions/listen" {
                subscription = json!({"io.modelcontextprotocol/subscriptionId": id});
                let params = json!({"notifications": params["notifications"], "_meta": subscription});
                let acknowledged = notification("notifications/subscriptions/acknowledged", &params);
                write(near, format!("{acknowledged}\n").as_bytes());
                continue;
            }
            let reply = match message["method"].as_str().expect("a method") {
                "server/discover" => ScriptedReply::from(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": info},
                })),
                "initialize" => ScriptedReply::from(json!({
                    "protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info,
                })),
                method => answer(method, &params),
            };
            let mut messages = reply.notifications;
            for notification in messages.iter_mut().filter(|_| subscription.is_object()) {
                notification["params"]["_meta"] = subscription.clone();
            }
            messages.push(match reply.outcome {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err(code) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}),
            });
            for message in messages {
                write(near, format!("{message}\n").as_bytes());
            }
        }
    }
}

/// Waits for bytes, and reads them. 0 bytes are the end: a client may also go without reading all replies.
pub(crate) fn read(near: &mut dyn Duplex, buffer: &mut [u8]) -> usize {
    near.wait(Interest::READ, None).expect("a stream");
    match near.read(buffer) {
        Err(error) if is_peer_gone(&error) => 0,
        read => read.expect("a stream"),
    }
}

/// Writes, unless the client has gone.
pub(crate) fn write(near: &mut dyn Duplex, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        near.wait(Interest::WRITE, None).expect("a stream");
        let Ok(n) = near.write(bytes) else { return };
        bytes = &bytes[n..];
    }
}
