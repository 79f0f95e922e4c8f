//! The bindings under hostile peers: silent ones, and those that never read or never end an exchange.

use std::sync::Arc;
use std::time::Duration;

use mcp_proto::client::{self, KnownEra};
use mcp_proto::server::{self, Engine};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Instant, VersionSet};
use mcp_websocket::client::Client;
use mcp_websocket::server::Server;
use serde_json::{Value, json};

const NOW: Instant = Instant::ZERO;

fn config() -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    server::Config::new("server", "1").capabilities(capabilities)
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize(id: u32, version: &str) -> Value {
    let client = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": client});
    request(id, "initialize", &params)
}

fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, &params)
}

#[test]
fn connection_of_a_silent_client_is_closed() {
    let keep_alive = Duration::from_secs(10);
    let mut server = Server::new(Engine::new(Arc::new(config().keep_alive_ping(keep_alive, 0))));
    let id = server.accept(NOW);
    server.handle_frame(NOW, id, &format!("1 {}", initialize(1, "2025-11-25"))).expect("a frame");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    server.handle_frame(NOW, id, &format!("2 {initialized}")).expect("a frame");
    let mut now = NOW;
    for _ in 0..4 {
        while server.poll_frame(now, id).is_some() {}
        assert!(now > NOW + keep_alive || !server.is_closed(id));
        now = now + keep_alive;
        server.engine().handle_timeout(now);
    }
    assert!(server.is_closed(id));
}

#[test]
fn client_that_reads_nothing_fills_no_queue() {
    let mut server = Server::new(Engine::new(Arc::new(config())));
    let (id, other) = (server.accept(NOW), server.accept(NOW));
    let mut lengths = Vec::new();
    for n in 1..=1_000 {
        let message = modern(n, "tools/call", json!({"name": "t"}));
        server.handle_frame(NOW, id, &format!("{n} {message}")).expect("a frame");
        server.handle_frame(NOW, id, &n.to_string()).expect("a frame");
        while server.engine().poll_event(NOW).is_some() {}
        assert_eq!(server.poll_frame(NOW, other), None);
        lengths.push(format!("{server:?}").len());
    }
    assert!(lengths[999] < lengths[9] + 1_000, "{} {}", lengths[9], lengths[999]);
}

#[test]
fn call_that_a_server_never_answers_is_repeated_once() {
    let mut client =
        Client::new(Arc::new(client::Config::new("client", "1").known_era(KnownEra::Modern)), NOW);
    let frame = client.poll_frame().expect("a request");
    let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"});
    let (number, message) = frame.split_once(' ').expect("a message");
    let id = serde_json::from_str::<Value>(message).expect("JSON")["id"].clone();
    client.handle_frame(NOW, &format!("{number} {}", json!({"jsonrpc": "2.0", "id": id, "result": result})));
    client.handle_frame(NOW, number);
    client.engine().call_tool(NOW, "t", &json!({}), &CallOptions::new().idempotent()).expect("room");
    let mut sent = 0;
    while let Some(frame) = client.poll_frame().filter(|_| sent < 100) {
        sent += 1;
        client.handle_frame(NOW, frame.split_once(' ').expect("a message").0);
    }
    assert_eq!(sent, 2);
    let outcome = std::iter::from_fn(|| client.engine().poll_event(NOW)).last();
    assert!(matches!(outcome, Some(client::Event::Done { outcome: Err(CallError::Transport { .. }), .. })));
}

#[test]
fn exchanges_that_a_server_never_ends_do_not_accumulate() {
    let config = client::Config::new("client", "1").versions(VersionSet::LEGACY);
    let mut client = Client::new(Arc::new(config), NOW);
    let frame = client.poll_frame().expect("a request");
    let id = serde_json::from_str::<Value>(frame.split_once(' ').expect("a message").1).expect("JSON")["id"]
        .clone();
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    client.handle_frame(NOW, &format!("1 {}", json!({"jsonrpc": "2.0", "id": id, "result": result})));
    for n in 0..1_000 {
        client.handle_frame(NOW, &format!("0 {}", request(n, "ping", &json!({}))));
        while client.poll_frame().is_some() {}
        let key = client.engine().call_tool(NOW, "t", &json!({}), &CallOptions::new()).expect("room");
        while client.poll_frame().is_some() {}
        client.engine().cancel(NOW, key, None).expect("open");
        while client.poll_frame().is_some() {}
    }
    assert!(client.open_exchanges() <= 1, "{}", client.open_exchanges());
}
