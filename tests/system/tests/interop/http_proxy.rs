//! Servers behind nginx: events pass without delay, hang-ups are noticed, and instances take turns.

use alloc::collections::BTreeSet;
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use serde_json::{Value, json};

use crate::hosted_server::{HostedServer, wait_for_log};
use crate::interop::MODERN;
use crate::interop::conversation::{Implementation, ImplementationPair, InteropTransport};
use crate::interop::proxy::{NginxProxy, is_nginx_ready};
use crate::peers::{is_node_ready, node, probe};
use crate::run::{DEADLINE, print_line};

/// A server with the tool `count`: ours, and a reference that shows that the proxy is configured correctly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CountingServer {
    Own,
    Reference,
}

impl CountingServer {
    const BOTH: [Self; 2] = [Self::Reference, Self::Own];

    /// Starts the server. `log` is the file of events that only the reference can see.
    fn start(self, log: &Path) -> HostedServer {
        let mut command = match self {
            Self::Own => Command::new(probe()),
            Self::Reference => Command::new("node"),
        };
        match self {
            Self::Own => command.args(["serve", "--http", "127.0.0.1:0"]),
            Self::Reference => {
                command.arg(node().join("server-v2.mjs")).args(["--http", "0", "--log"]).arg(log)
            }
        };
        HostedServer::start(command)
    }
}

/// A modern request, and the messages of its response as they arrive.
struct StreamedExchange {
    lines: BufReader<TcpStream>,
    head: String,
}

impl StreamedExchange {
    fn post(url: &str, method: &str, name: Option<&str>, params: Value) -> Self {
        let mut params = params;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "by hand", "version": "1"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let authority = url.strip_prefix("http://").expect("http");
        let (host, path) = authority.split_once('/').expect("a path");
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\n\
             Mcp-Method: {method}\r\n{name}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(host).expect("the proxy listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a limit");
        stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).expect("a head") > 0, "cut: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        Self { lines, head }
    }

    /// Returns the next message, or `None` at the end. Chunk borders coincide with lines here.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("a line in time") == 0 {
                return None;
            }
            let text = line.strip_prefix("data:").unwrap_or(&line).trim();
            if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                return Some(message);
            }
        }
    }
}

fn count(url: &str, to: u32, delay_ms: u32) -> StreamedExchange {
    let params = json!({
        "name": "count", "arguments": {"to": to, "delay_ms": delay_ms}, "_meta": {"progressToken": "p"},
    });
    StreamedExchange::post(url, "tools/call", Some("count"), params)
}

#[test]
fn event_streams_pass_nginx_without_delay() {
    if !is_nginx_ready() || !is_node_ready() {
        return;
    }
    for server_kind in CountingServer::BOTH {
        let log = env::temp_dir().join(format!("mcp-interop-proxy-stream-{}.log", std::process::id()));
        let server = server_kind.start(&log);
        let proxy = NginxProxy::start(&[&server.url]);
        let start = Instant::now();
        let mut exchange = count(&proxy.url, 5, 300);
        assert!(
            exchange.head.to_lowercase().contains("content-type: text/event-stream"),
            "{}",
            exchange.head
        );
        let mut arrived = Vec::new();
        let mut last = None;
        while let Some(message) = exchange.next() {
            arrived.push(start.elapsed());
            last = Some(message);
        }
        let last = last.expect("an answer");
        assert_eq!((arrived.len(), &last["id"]), (6, &json!(1)), "{last}");
        // If the proxy buffered, all events would arrive at once.
        let span = arrived[5] - arrived[0];
        assert!(span > Duration::from_millis(900), "{arrived:?}");
        // nginx buffers a response without a length and without this field.
        let requests = proxy.wait_for_requests(1);
        assert!(requests[0].starts_with("POST 200 no "), "{requests:?}");
        let _ = fs::remove_file(&log);
        print_line(&format!(
            "interop, nginx, {server_kind:?}: five events and the result of one call arrived over {span:.1?}"
        ));
    }
}

#[test]
fn server_behind_nginx_notices_client_that_hangs_up() {
    if !is_nginx_ready() || !is_node_ready() {
        return;
    }
    for server_kind in CountingServer::BOTH {
        let log = env::temp_dir().join(format!("mcp-interop-proxy-hang-up-{}.log", std::process::id()));
        let server = server_kind.start(&log);
        let proxy = NginxProxy::start(&[&server.url]);
        let mut exchange = count(&proxy.url, 1_000, 100);
        assert_eq!(exchange.next().expect("progress")["method"], "notifications/progress");
        let hung_up = Instant::now();
        drop(exchange);
        if server_kind == CountingServer::Reference {
            assert!(wait_for_log(&log, |log_text| log_text.contains("aborted")), "{}", server.output());
        }
        // The server is free for others long before the call would have ended.
        let mut exchange = count(&proxy.url, 1, 1);
        while let Some(message) = exchange.next() {
            assert!(message.get("error").is_none(), "{message}");
        }
        let delay = hung_up.elapsed();
        assert!(delay < Duration::from_secs(20), "{server_kind:?}: {delay:?}");
        let _ = fs::remove_file(&log);
        print_line(&format!(
            "interop, nginx, {server_kind:?}: a client that hung up was noticed after {delay:.1?}"
        ));
    }
}

#[test]
fn instances_behind_nginx_take_turns() {
    if !is_nginx_ready() || !is_node_ready() {
        return;
    }
    for server_kind in CountingServer::BOTH {
        let log = env::temp_dir().join(format!("mcp-interop-proxy-turns-{}.log", std::process::id()));
        let servers = [server_kind.start(&log), server_kind.start(&log)];
        let proxy = NginxProxy::start(&[&servers[0].url, &servers[1].url]);
        for number in 0..6 {
            let text = format!("call {number}");
            let params = json!({"name": "echo", "arguments": {"text": text}});
            let mut exchange = StreamedExchange::post(&proxy.url, "tools/call", Some("echo"), params);
            let answer = exchange.next().expect("an answer");
            assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
        }
        drop(servers);
        let requests = proxy.wait_for_requests(6);
        let instances: BTreeSet<_> = requests.iter().map(|line| line.rsplit(' ').next()).collect();
        assert_eq!((requests.len(), instances.len()), (6, 2), "{requests:?}");
        let _ = fs::remove_file(&log);
    }
}

#[test]
fn conversations_pass_nginx() {
    if !is_nginx_ready() {
        return;
    }
    // Forms in many rounds, each answered by another instance; and a legacy session with all its notifications.
    for client in [Implementation::Typescript2, Implementation::Python] {
        ImplementationPair::with_transport(InteropTransport::Proxy, client, Implementation::Own, "modern")
            .assert_conversation_through_proxy();
    }
    for client in [Implementation::Typescript1, Implementation::Python] {
        ImplementationPair::with_transport(InteropTransport::Proxy, client, Implementation::Own, "legacy")
            .assert_conversation_through_proxy();
    }
}
