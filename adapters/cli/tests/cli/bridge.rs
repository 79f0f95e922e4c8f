//! `bridge`: our client and our server with a bridge between them, in every combination of eras and transports

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::http::Serving;
use crate::support::{Done, PROBE, probe};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// `mcp-probe ARGS -- mcp-probe bridge BRIDGE`
fn through(args: &[&str], bridge: &[&str]) -> Done {
    probe(&[args, &["--", PROBE, "bridge"], bridge].concat())
}

/// Something of every kind, by a client that is told where its server is
fn uses(ask: &dyn Fn(&[&str]) -> Done, client: &str) {
    let era = ["--era", client];
    let done = ask(&[&["inspect", "--json"], &era[..]].concat()).ok();
    let seen = done.json();
    assert_eq!((&seen["era"], &seen["server"]["name"]), (&client.into(), &"mcp-probe".into()), "{done}");
    assert!(seen["tools"].as_array().is_some_and(|tools| tools.len() > 10), "{done}");
    let done = ask(&[&["call", "count", "--args", r#"{"to":3}"#], &era[..]].concat()).ok();
    done.says(&["counted to 3"]).complains(&["progress 1/3", "progress 3/3"]);
    let guest =
        ["call", "sign", "--answer", r#"guest={"name":"Ada"}"#, "--answer", r#"elicit={"name":"Ada"}"#];
    ask(&[&guest, &era[..]].concat()).ok().says(&["Hello, Ada!"]);
    ask(&[&["read", "test://static-text"], &era[..]].concat()).ok();
    ask(&[&["complete", "prompt:travel_plan", "country", "n"], &era[..]].concat()).ok().says(&["norway"]);
    let logs = ["call", "test_logging_tool", "--log", "info"];
    ask(&[&logs, &era[..]].concat()).ok().complains(&["log: info"]);
    let follow = ["listen", "clock://running", "--count", "2", "--for", "30s"];
    let told = ask(&[&follow, &era[..]].concat()).ok().says(&["as many changes as were wanted"]);
    assert_eq!(told.stdout.matches("changed    clock://running").count(), 2, "{told}");
    ask(&[&["call", "fail"], &era[..]].concat()).code(1);
}

#[test]
fn a_client_on_stdio_reaches_a_server_over_http() {
    for server in ERAS {
        let serving = Serving::new(&["--everything", "--era", server]);
        for client in ERAS {
            uses(&|args| through(args, &[&serving.url]), client);
        }
    }
}

#[test]
fn a_client_over_http_reaches_a_server_on_stdio() {
    for server in ERAS {
        let bridge = Serving::bridge(&["--", PROBE, "serve", "--everything", "--era", server]);
        for client in ERAS {
            uses(&|args| probe(&[args, &[&bridge.url]].concat()), client);
        }
    }
}

#[test]
fn eras_meet_on_one_transport() {
    for (client, server) in [("legacy", "modern"), ("modern", "legacy")] {
        uses(&|args| through(args, &["--", PROBE, "serve", "--everything", "--era", server]), client);
        let serving = Serving::new(&["--everything", "--era", server]);
        let bridge = Serving::bridge(&[&serving.url]);
        uses(&|args| probe(&[args, &[&bridge.url]].concat()), client);
    }
}

#[test]
fn clients_may_be_held_to_an_era() {
    let done =
        through(&["inspect", "--json"], &["--client-era", "legacy", "--", PROBE, "serve", "--era", "modern"]);
    assert_eq!(done.ok().json()["era"], "legacy");
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let begin = |args: &[&str]| {
        let mut child = Command::new(PROBE)
            .arg("bridge")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        child.stdin.as_mut().expect("piped").write_all(ping).expect("read");
        child.wait_with_output().expect("it ends")
    };
    let done = begin(&["http://127.0.0.1:9/mcp"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(3) && said.contains("127.0.0.1:9"), "{said}");
    let done = begin(&["--", "/nowhere/at/all"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(3) && said.contains("/nowhere/at/all"), "{said}");
    // What is wrong with the command line.
    probe(&["bridge", "--bearer", "x", "--http", "127.0.0.1:0", "--", "true"])
        .code(2)
        .complains(&["--bearer"]);
    probe(&["bridge"]).code(2);
    probe(&["bridge", "--http", "nonsense", "--", "true"]).code(3).complains(&["cannot listen at nonsense"]);
    // Nobody is there, so nothing is to be done.
    probe(&["bridge", "http://127.0.0.1:9/mcp"]).ok();
}

/// A bridge on stdio, a line at a time
struct Talk {
    child: std::process::Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Talk {
    fn new(bridge: &[&str]) -> Self {
        let mut child = Command::new(PROBE)
            .arg("bridge")
            .args(bridge)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut talk = Self { child, lines };
        talk.say(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#);
        assert!(talk.hear().contains("\"serverInfo\""));
        talk.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        talk
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("UTF-8");
        line
    }

    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), said)
    }
}

#[test]
fn a_server_that_dies_fails_the_calls_in_work_and_the_bridge() {
    let mut talk = Talk::new(&["--era", "legacy", "--", "sh", "-c", DIES, PROBE]);
    talk.say(
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#,
    );
    let error = talk.hear();
    assert!(error.contains("\"id\":2") && error.contains("the server behind the bridge is gone"), "{error}");
    let (code, said) = talk.end();
    assert!(code == Some(3) && said.contains("ended in the middle of the session"), "{code:?} {said}");
}

#[test]
fn a_server_that_dies_ends_a_bridge_over_http_too() {
    let mut bridge = Serving::bridge(&["--era", "legacy", "--", "sh", "-c", DIES, PROBE]);
    let done = probe(&["call", "echo", "--args", r#"{"text":"x"}"#, "--era", "modern", &bridge.url]).code(1);
    done.complains(&["the server behind the bridge is gone"]);
    assert_eq!(bridge.code(), Some(3));
}

#[test]
fn what_was_asked_before_the_end_is_answered_and_the_server_ends_too() {
    let mut talk = Talk::new(&["--", PROBE, "serve", "--era", "modern"]);
    talk.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":2,"delay_ms":100}}}"#);
    drop(talk.child.stdin.take());
    let answer = talk.hear();
    assert!(answer.contains("counted to 2"), "{answer}");
    let begun = Instant::now();
    let (code, said) = talk.end();
    assert_eq!((code, &*said), (Some(0), ""));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_bridge_that_waits_works_on_nothing() {
    let bridge = Serving::bridge(&["--", PROBE, "serve"]);
    probe(&["ping", &bridge.url]).ok();
    let Some(before) = bridge.spent() else { return };
    std::thread::sleep(Duration::from_secs(1));
    let after = bridge.spent().expect("it runs");
    assert!(after - before <= 5, "{before} {after}");
}

/// Answers the handshake by our own server, and dies of the first call
const DIES: &str = "{ for i in 1 2; do read -r l; printf '%s\\n' \"$l\"; done; read -r l; kill -9 $$; } | \"$0\" serve --era legacy";
