//! Servers that misbehave, for the tests: `odd_server MODE`

use core::time::Duration;
use std::io::{self, BufRead, Write};
use std::process::exit;
use std::thread;

use mcp_blocking::{Call, Cx, serve_stdio};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability};
use serde_json::{Value, json};

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match &*mode {
        // Knows only what was there before 2026, and ends at anything else.
        "exits-on-unknown" => {
            by_hand(|line| match line.method() {
                "server/discover" => {
                    eprintln!("unknown method: server/discover");
                    exit(3)
                }
                _ => line.answer(),
            });
        }
        // The same, whatever it is asked.
        "exits-on-anything" => by_hand(|_| {
            eprintln!("cannot read the configuration");
            exit(4)
        }),
        "silent" => by_hand(|_| {}),
        "banner" => {
            println!("Welcome to the \u{1b}[31modd\u{1b}[0m server 1.0\n");
            well();
        }
        "prints" => {
            let config = Config::new("odd", "1").capabilities(Capabilities::new().with(Capability::Tools));
            done(serve_stdio(config, |cx: &mut Cx<'_>, _: &Call| {
                println!("a stray line of the handler's");
                cx.complete(&CallToolResult::text("ok"))
            }));
        }
        "floods-stderr" => {
            flood();
            let config = Config::new("odd", "1").capabilities(Capabilities::new().with(Capability::Tools));
            done(serve_stdio(config, |cx: &mut Cx<'_>, _: &Call| {
                flood();
                cx.complete(&CallToolResult::text("ok"))
            }));
        }
        "dies-mid-line" => by_hand(|line| match line.method() {
            "tools/call" => {
                eprintln!("starting\nout of \u{1b}[2Jluck");
                say(r#"{"jsonrpc":"2.0","id":"#);
                exit(7)
            }
            _ => line.answer(),
        }),
        "ignores-eof" => {
            well();
            thread::sleep(FOREVER);
        }
        "never-reads" => by_hand(|line| {
            line.answer();
            if line.method() == "notifications/initialized" {
                thread::sleep(FOREVER);
            }
        }),
        "leaves-politely" => by_hand(|line| match line.method() {
            "tools/call" => exit(0),
            _ => line.answer(),
        }),
        "garbage" => {
            for n in 0..10 {
                println!("%PDF-1.{n} \u{202e}this is no protocol");
            }
            by_hand(|_| println!("still none"));
        }
        "asks" => by_hand(|line| {
            line.answer();
            if line.method() == "notifications/initialized" {
                say("{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n");
            }
            if line.0.get("result").is_some() || line.0.get("error").is_some() {
                say(&format!(
                    "{}\n",
                    json!({"jsonrpc": "2.0", "method": "notifications/heard", "params": {"heard": line.0}})
                ));
            }
        }),
        other => panic!("there is no mode {other:?}"),
    }
}

/// A server with one tool that behaves
fn well() {
    let config = Config::new("odd", "1").capabilities(Capabilities::new().with(Capability::Tools));
    done(serve_stdio(config, |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("ok"))));
}

fn done(outcome: Result<(), mcp_blocking::Error>) {
    if let Err(error) = outcome {
        eprintln!("{error}");
        exit(1);
    }
}

/// More than a pipe holds, several times over
fn flood() {
    let line = [b'!'; 1023];
    let mut stderr = io::stderr().lock();
    for _ in 0..1_000 {
        let _ = stderr.write_all(&line).and_then(|()| stderr.write_all(b"\n"));
    }
}

fn say(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// A message, read the way in which somebody would who had an hour
struct Line(Value);

impl Line {
    fn method(&self) -> &str {
        self.0["method"].as_str().unwrap_or_default()
    }

    /// What a small legacy server says to it
    fn answer(&self) {
        let id = &self.0["id"];
        if id.is_null() || self.method().is_empty() {
            return;
        }
        let answer = match self.method() {
            "initialize" => json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            }}),
            "tools/call" => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "ok"}]}})
            }
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}),
        };
        say(&format!("{answer}\n"));
    }
}

/// Reads line after line; what is no JSON ends it with a status of its own
fn by_hand(mut handle: impl FnMut(&Line)) {
    for line in io::stdin().lock().lines() {
        let Ok(value) = serde_json::from_str(&line.unwrap_or_default()) else { exit(99) };
        handle(&Line(value));
    }
}

const FOREVER: Duration = Duration::from_secs(100_000);
