//! A server by hand: what it says is exactly what the test says

use std::thread::JoinHandle;

use mcp_proto::Era;
use mcp_proto::client::Config;
use mcp_std::{Duplex, Interest};
use serde_json::{Value, json};

use crate::adapter::{Client, Options, connect};
use crate::support::{only, speaks};

/// What comes of a request: a result or an error, and what is said besides, before it
pub(crate) struct Reply {
    pub(crate) before: Vec<Value>,
    pub(crate) outcome: Result<Value, i64>,
}

impl From<Value> for Reply {
    fn from(result: Value) -> Self {
        Self { before: Vec::new(), outcome: Ok(result) }
    }
}

impl From<i64> for Reply {
    fn from(code: i64) -> Self {
        Self { before: Vec::new(), outcome: Err(code) }
    }
}

pub(crate) fn news(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A client of one era and a server that answers requests, other than those of the handshake, as `answer` says; what it
/// says besides belongs to the subscription, once there is one
pub(crate) fn by_hand(
    era: Era,
    options: impl FnOnce(Options) -> Options,
    answer: impl FnMut(&str, &Value) -> Reply + Send + 'static,
) -> (Client, JoinHandle<()>) {
    by_hand_as(speaks(only(era)), options, answer)
}

/// The same for a client of another configuration
pub(crate) fn by_hand_as(
    config: Config,
    options: impl FnOnce(Options) -> Options,
    answer: impl FnMut(&str, &Value) -> Reply + Send + 'static,
) -> (Client, JoinHandle<()>) {
    connect(options(Client::options(config)), move |mut near| run(&mut *near, answer))
}

fn run(near: &mut dyn Duplex, mut answer: impl FnMut(&str, &Value) -> Reply) {
    let capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
    });
    let info = json!({"name": "by hand", "version": "1"});
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    let mut subscription = Value::Null;
    loop {
        near.wait(Interest::READ, None).expect("a stream");
        let n = near.read(&mut buffer).expect("a stream");
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
                let acknowledged = news("notifications/subscriptions/acknowledged", &params);
                write(near, format!("{acknowledged}\n").as_bytes());
                continue;
            }
            let reply = match message["method"].as_str().expect("a method") {
                "server/discover" => Reply::from(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": info},
                })),
                "initialize" => Reply::from(json!({
                    "protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info,
                })),
                method => answer(method, &params),
            };
            let mut messages = reply.before;
            for news in messages.iter_mut().filter(|_| subscription.is_object()) {
                news["params"]["_meta"] = subscription.clone();
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

fn write(near: &mut dyn Duplex, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        near.wait(Interest::WRITE, None).expect("a stream");
        // The client may have left.
        let Ok(n) = near.write(bytes) else { return };
        bytes = &bytes[n..];
    }
}
