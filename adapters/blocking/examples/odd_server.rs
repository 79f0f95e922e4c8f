//! Misbehaving servers for tests: `odd_server MODE`.

use core::time::Duration;
use std::io::{self, BufRead, Write};
use std::process::exit;
use std::thread;

use mcp_blocking::mcp_proto::model::CallToolResult;
use mcp_blocking::mcp_proto::server::Config;
use mcp_blocking::mcp_proto::{Capabilities, Capability};
use mcp_blocking::{Call, Cx, serve_stdio};
use serde_json::{Value, json};

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match &*mode {
        // A legacy server that exits on an unknown method.
        "exits-on-unknown" => {
            serve_manually(|line| match line.method() {
                "server/discover" => {
                    eprintln!("unknown method: server/discover");
                    exit(3)
                }
                _ => line.answer(),
            });
        }
        // Exits on any method.
        "exits-on-anything" => serve_manually(|_| {
            eprintln!("cannot read the configuration");
            exit(4)
        }),
        "silent" => serve_manually(|_| {}),
        "banner" => {
            println!("Welcome to the \u{1b}[31modd\u{1b}[0m server 1.0\n");
            serve_normally();
        }
        "prints" => {
            let config = Config::new("odd", "1").capabilities(Capabilities::new().with(Capability::Tools));
            report_and_exit(serve_stdio(config, |cx: &mut Cx<'_>, _: &Call| {
                println!("a stray line of the handler's");
                cx.complete(&CallToolResult::text("ok"))
            }));
        }
        "floods-stderr" => {
            flood();
            let config = Config::new("odd", "1").capabilities(Capabilities::new().with(Capability::Tools));
            report_and_exit(serve_stdio(config, |cx: &mut Cx<'_>, _: &Call| {
                flood();
                cx.complete(&CallToolResult::text("ok"))
            }));
        }
        "dies-mid-line" => serve_manually(|line| match line.method() {
            "tools/call" => {
                eprintln!("starting\nout of \u{1b}[2Jluck");
                print_message(r#"{"jsonrpc":"2.0","id":"#);
                exit(7)
            }
            _ => line.answer(),
        }),
        "ignores-eof" => {
            serve_normally();
            thread::sleep(FOREVER);
        }
        "reports-eof" => {
            serve_normally();
            eprintln!("end of input");
            thread::sleep(FOREVER);
        }
        "never-reads" => serve_manually(|line| {
            line.answer();
            if line.method() == "notifications/initialized" {
                thread::sleep(FOREVER);
            }
        }),
        "leaves-politely" => serve_manually(|line| match line.method() {
            "tools/call" => exit(0),
            _ => line.answer(),
        }),
        "garbage" => {
            for n in 0..10 {
                println!("%PDF-1.{n} \u{202e}this is no protocol");
            }
            serve_manually(|_| println!("still none"));
        }
        "asks" => serve_manually(|line| {
            line.answer();
            if line.method() == "notifications/initialized" {
                print_message("{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n");
            }
            if line.0.get("result").is_some() || line.0.get("error").is_some() {
                print_message(&format!(
                    "{}\n",
                    json!({"jsonrpc": "2.0", "method": "notifications/heard", "params": {"heard": line.0}})
                ));
            }
        }),
        other => panic!("unknown mode {other:?}"),
    }
}

/// Serves one tool correctly.
fn serve_normally() {
    let config = Config::new("odd", "1").capabilities(Capabilities::new().with(Capability::Tools));
    report_and_exit(serve_stdio(config, |cx: &mut Cx<'_>, _: &Call| {
        cx.complete(&CallToolResult::text("ok"))
    }));
}

fn report_and_exit(outcome: Result<(), mcp_blocking::Error>) {
    if let Err(error) = outcome {
        eprintln!("{error}");
        exit(1);
    }
}

/// Writes several times the capacity of a pipe to stderr.
fn flood() {
    let line = [b'!'; 1023];
    let mut stderr = io::stderr().lock();
    for _ in 0..1_000 {
        let _ = stderr.write_all(&line).and_then(|()| stderr.write_all(b"\n"));
    }
}

fn print_message(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// A message, parsed without the protocol crate.
struct IncomingMessage(Value);

impl IncomingMessage {
    fn method(&self) -> &str {
        self.0["method"].as_str().unwrap_or_default()
    }

    /// Sends the response of a minimal legacy server.
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
        print_message(&format!("{answer}\n"));
    }
}

/// Reads messages line by line. Exits with status 99 on invalid JSON.
fn serve_manually(mut handle: impl FnMut(&IncomingMessage)) {
    for line in io::stdin().lock().lines() {
        let Ok(value) = serde_json::from_str(&line.unwrap_or_default()) else { exit(99) };
        handle(&IncomingMessage(value));
    }
}

const FOREVER: Duration = Duration::from_secs(100_000);
