//! Through nginx: streams arrive as they are written, a client that hangs up is noticed, instances take turns

use alloc::collections::BTreeSet;
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use serde_json::{Value, json};

use crate::MODERN;
use crate::hosted::{Hosted, until_noted};
use crate::peers::{node, node_ready, probe};
use crate::proxy::{Proxy, nginx_ready};
use crate::run::{DEADLINE, say};
use crate::talk::{Pair, Sdk, Wire};

/// A server that counts: ours, and one of theirs, which shows that it is the proxy that is well set up
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counting {
    Ours,
    Theirs,
}

impl Counting {
    const BOTH: [Self; 2] = [Self::Theirs, Self::Ours];

    /// `log`: what theirs notes in it only it can see
    fn start(self, log: &Path) -> Hosted {
        let mut command = match self {
            Self::Ours => Command::new(probe()),
            Self::Theirs => Command::new("node"),
        };
        match self {
            Self::Ours => command.args(["serve", "--http", "127.0.0.1:0"]),
            Self::Theirs => command.arg(node().join("server-v2.mjs")).args(["--http", "0", "--log"]).arg(log),
        };
        Hosted::start(command)
    }
}

/// A request of the modern era, and the events or lines of its answer as they come.
struct Exchange {
    lines: BufReader<TcpStream>,
    head: String,
}

impl Exchange {
    fn post(url: &str, method: &str, name: Option<&str>, params: Value) -> Self {
        let mut params = params;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "by hand", "version": "1"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let rest = url.strip_prefix("http://").expect("http");
        let (host, path) = rest.split_once('/').expect("a path");
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

    /// The next message, and none at the end; the chunks of its lines are those of the events here.
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

fn count(url: &str, to: u32, delay_ms: u32) -> Exchange {
    let params = json!({
        "name": "count", "arguments": {"to": to, "delay_ms": delay_ms}, "_meta": {"progressToken": "p"},
    });
    Exchange::post(url, "tools/call", Some("count"), params)
}

#[test]
fn streams_pass_as_they_are_written() {
    if !nginx_ready() || !node_ready() {
        return;
    }
    for who in Counting::BOTH {
        let log = env::temp_dir().join(format!("mcp-interop-proxy-stream-{}.log", std::process::id()));
        let server = who.start(&log);
        let proxy = Proxy::start(&[&server.url]);
        let begun = Instant::now();
        let mut exchange = count(&proxy.url, 5, 300);
        assert!(
            exchange.head.to_lowercase().contains("content-type: text/event-stream"),
            "{}",
            exchange.head
        );
        let mut arrived = Vec::new();
        let mut last = None;
        while let Some(message) = exchange.next() {
            arrived.push(begun.elapsed());
            last = Some(message);
        }
        let last = last.expect("an answer");
        assert_eq!((arrived.len(), &last["id"]), (6, &json!(1)), "{last}");
        // Held back, all would come at once.
        let apart = arrived[5] - arrived[0];
        assert!(apart > Duration::from_millis(900), "{arrived:?}");
        // What has no length and no chunks would be held back but for this.
        let passed = proxy.passed(1);
        assert!(passed[0].starts_with("POST 200 no "), "{passed:?}");
        let _ = fs::remove_file(&log);
        say(&format!(
            "interop, nginx, {who:?}: five events and the result of one call came over {apart:.1?}"
        ));
    }
}

#[test]
fn a_client_that_hangs_up_is_noticed() {
    if !nginx_ready() || !node_ready() {
        return;
    }
    for who in Counting::BOTH {
        let log = env::temp_dir().join(format!("mcp-interop-proxy-hang-up-{}.log", std::process::id()));
        let server = who.start(&log);
        let proxy = Proxy::start(&[&server.url]);
        let mut exchange = count(&proxy.url, 1_000, 100);
        assert_eq!(exchange.next().expect("progress")["method"], "notifications/progress");
        let hung_up = Instant::now();
        drop(exchange);
        if who == Counting::Theirs {
            assert!(until_noted(&log, |noted| noted.contains("aborted")), "{}", server.said());
        }
        // It is free for others, long before the call would have been done.
        let mut exchange = count(&proxy.url, 1, 1);
        while let Some(message) = exchange.next() {
            assert!(message.get("error").is_none(), "{message}");
        }
        let noticed = hung_up.elapsed();
        assert!(noticed < Duration::from_secs(20), "{who:?}: {noticed:?}");
        let _ = fs::remove_file(&log);
        say(&format!("interop, nginx, {who:?}: a client that hung up was noticed after {noticed:.1?}"));
    }
}

#[test]
fn instances_take_turns() {
    if !nginx_ready() || !node_ready() {
        return;
    }
    for who in Counting::BOTH {
        let log = env::temp_dir().join(format!("mcp-interop-proxy-turns-{}.log", std::process::id()));
        let servers = [who.start(&log), who.start(&log)];
        let proxy = Proxy::start(&[&servers[0].url, &servers[1].url]);
        for number in 0..6 {
            let text = format!("call {number}");
            let params = json!({"name": "echo", "arguments": {"text": text}});
            let mut exchange = Exchange::post(&proxy.url, "tools/call", Some("echo"), params);
            let answer = exchange.next().expect("an answer");
            assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
        }
        drop(servers);
        let passed = proxy.passed(6);
        let by: BTreeSet<_> = passed.iter().map(|line| line.rsplit(' ').next()).collect();
        assert_eq!((passed.len(), by.len()), (6, 2), "{passed:?}");
        let _ = fs::remove_file(&log);
    }
}

#[test]
fn whole_conversations_pass() {
    if !nginx_ready() {
        return;
    }
    // Forms in many rounds, each of which is answered by the other instance; and a session with all that it is told.
    for client in [Sdk::Typescript2, Sdk::Python] {
        Pair::over(Wire::Proxy, client, Sdk::Ours, "modern").talks_through_a_proxy();
    }
    for client in [Sdk::Typescript1, Sdk::Python] {
        Pair::over(Wire::Proxy, client, Sdk::Ours, "legacy").talks_through_a_proxy();
    }
}
