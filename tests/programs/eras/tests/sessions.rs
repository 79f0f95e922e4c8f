//! A server over HTTP without sessions: what is left out is refused.

use std::sync::Arc;

use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::{self, Connection, Server};
use mcp_proto::server::{Config, Event};
use mcp_proto::{Capabilities, Capability, Entropy, Instant, RawJson};

fn server(http: server::Config) -> Server {
    let config = Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools));
    Server::new(Arc::new(config), Arc::new(http), Entropy::new([7; 32], 1))
}

/// Passes one request to a server and returns its response. Calls are answered with `{}`.
fn exchange(server: &mut Server, method: &str, path: &str, fields: &str, body: &str) -> String {
    let now = Instant::from_micros(1);
    let mut connection = Connection::new(now, HttpLimits::default());
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}");
    connection.handle_input(now, format!("{head}\r\n{body}").as_bytes());
    connection.drive(now, server);
    while let Some(event) = server.poll_event(now) {
        if let server::Event::Server(Event::Call(call)) = event {
            server.engine().complete_raw(now, call.id(), &RawJson::empty_object()).expect("an open call");
        }
    }
    while server.poll_ready(now).is_some() {}
    connection.drive(now, server);
    String::from_utf8(connection.transmit().to_vec()).expect("UTF-8")
}

const POST: &str = concat!(
    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
    "MCP-Protocol-Version: 2025-11-25\r\n"
);

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#
);

const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

/// Returns the session id of a response.
fn session_of(response: &str) -> Option<&str> {
    response.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: "))
}

#[test]
fn server_without_sessions_serves_each_legacy_request_alone() {
    let mut server = server(server::Config::new());
    let response = exchange(&mut server, "POST", "/mcp", POST, INITIALIZE);
    assert!(response.starts_with("HTTP/1.1 200 ") && response.contains(r#""2025-11-25""#), "{response}");
    assert_eq!((session_of(&response), server.session_count()), (None, 0));
    let response = exchange(&mut server, "POST", "/mcp", POST, LIST);
    assert!(
        response.starts_with("HTTP/1.1 200 ") && response.ends_with(r#""id":2,"result":{}}"#),
        "{response}"
    );
    for method in ["GET", "DELETE"] {
        let response = exchange(&mut server, method, "/mcp", "Accept: text/event-stream\r\n", "");
        assert!(response.starts_with("HTTP/1.1 405 ") && response.contains("Allow: POST\r\n"), "{response}");
    }
}

#[test]
fn server_without_sessions_has_no_http_sse() {
    #[expect(deprecated, reason = "tested until its removal")]
    let mut server = server(server::Config::new().http_sse("/sse", "/messages"));
    for (method, path) in [("GET", "/sse"), ("POST", "/messages")] {
        let response = exchange(&mut server, method, path, POST, "");
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    }
}
