//! `mcp-probe bridge` between the two generations of the TypeScript SDK: the older client, on stdio and in the older era,
//! with the newer server, over HTTP and in the newer era; and the reverse

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::hosted::Hosted;
use crate::peers::{node, node_ready, package, probe};
use crate::run::{DEADLINE, Done, command, run, say};
use crate::their_clients::{check_session, performed};
use crate::{LEGACY, MODERN};

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

/// A program of the newer or older SDK, by its script
fn script(name: &str) -> Command {
    let mut command = command(["node", name]);
    command.current_dir(node());
    command
}

fn talk_file() -> PathBuf {
    package().join("peers").join("talk.json")
}

fn talk() -> Value {
    serde_json::from_slice(&fs::read(talk_file()).expect("a file of ours")).expect("JSON")
}

fn log(name: &str) -> PathBuf {
    env::temp_dir().join(format!("mcp-interop-bridge-{}-{name}.log", std::process::id()))
}

/// The steps of a session: calls, progress, a cancellation, errors, an orderly end
#[test]
fn the_older_client_uses_the_newer_server() {
    if !node_ready() {
        return;
    }
    let log = log("session");
    let mut server = script("server-v2.mjs");
    server.args(["--era", "modern", "--http", "0", "--log"]).arg(&log);
    let server = Hosted::start(server);
    let mut client = script("client-v1.mjs");
    client.arg("--").arg(probe()).args(["bridge", &server.url]);
    let steps = performed(client);
    let progress = check_session(&steps, "legacy", LEGACY);
    let count = steps.len();
    // The call that was cancelled was cancelled at the server.
    let noted = fs::read_to_string(&log).unwrap_or_default();
    assert!(noted.contains("aborted"), "{noted}\n{server}");
    server.end();
    let _ = fs::remove_file(&log);
    say(&format!(
        "interop, TypeScript 1 legacy stdio, bridge, TypeScript 2 modern HTTP: {count} steps, {progress}"
    ));
}

/// What both generations can say to each other, with a bridge between them
struct Conversation {
    /// What the client speaks, and the server
    client: &'static str,
    server: &'static str,
    lines: Vec<Value>,
    done: Done,
    noted: String,
    parts: &'static str,
}

const PARTS: &str = "answers,logs,news";
/// Where both sides are of the older era: what is answered, and what is never
const OLD_PARTS: [&str; 2] = ["answers,gate,logs,news", "time-out"];
/// How long a server waits for answers in the part `time-out`
const TIME_OUT_MS: &str = "2500";

impl Conversation {
    /// The older client, on stdio
    fn of_the_older_client() -> Self {
        let log = log("modern");
        let mut server = script("talk-server.mjs");
        server.arg(talk_file()).args(["--sdk", "2", "--era", "modern", "--http", "0", "--log"]).arg(&log);
        let server = Hosted::start(server);
        let mut client = script("talk-client.mjs");
        client.arg(talk_file()).args(["--sdk", "1", "--era", "legacy", "--part", PARTS, "--"]);
        client.arg(probe()).args(["bridge", &server.url]);
        let done = run(client, DEADLINE).expect("the client starts").ok();
        server.end();
        Self::read("legacy", "modern", PARTS, done, &log)
    }

    /// The newer client, over HTTP
    fn of_the_newer_client() -> Self {
        let log = log("legacy");
        let mut bridge = Command::new(probe());
        bridge.args(["bridge", "--http", "127.0.0.1:0", "--", "node"]).arg(node().join("talk-server.mjs"));
        bridge.arg(talk_file()).args(words(&["--sdk", "1", "--era", "legacy", "--log"])).arg(&log);
        let bridge = Hosted::start(bridge);
        let mut client = script("talk-client.mjs");
        client.arg(talk_file()).args(["--sdk", "2", "--era", "modern", "--part", PARTS, "--", &bridge.url]);
        let done = run(client, DEADLINE).expect("the client starts").ok();
        bridge.end();
        Self::read("modern", "legacy", PARTS, done, &log)
    }

    /// The older generation on both sides: the transport alone differs
    fn of_one_generation(parts: &'static str) -> Self {
        let log = log(parts);
        let mut server = script("talk-server.mjs");
        server.arg(talk_file()).args(["--sdk", "1", "--era", "legacy", "--http", "0"]);
        if parts == "time-out" {
            server.args(["--time-out", TIME_OUT_MS]);
        }
        server.arg("--log").arg(&log);
        let server = Hosted::start(server);
        let mut client = script("talk-client.mjs");
        client.arg(talk_file()).args(["--sdk", "1", "--era", "legacy", "--part", parts, "--"]);
        client.arg(probe()).args(["bridge", &server.url]);
        let done = run(client, DEADLINE).expect("the client starts").ok();
        server.end();
        Self::read("legacy", "legacy", parts, done, &log)
    }

    fn read(
        client: &'static str,
        server: &'static str,
        parts: &'static str,
        done: Done,
        log: &PathBuf,
    ) -> Self {
        let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}: {done}"));
        let lines = done.stdout.lines().map(line).collect();
        let noted = fs::read_to_string(log).unwrap_or_default();
        let _ = fs::remove_file(log);
        Self { client, server, lines, done, noted, parts }
    }

    #[track_caller]
    fn holds(&self, good: bool, line: &Value) {
        assert!(good, "{line}\n{}\n-- noted:\n{}", self.done, self.noted);
    }

    /// Every step went as it would without a bridge; how many there were
    fn check(&self) -> usize {
        let talk = talk();
        let steps: Vec<&Value> =
            self.parts.split(',').flat_map(|part| talk["steps"][part].as_array().expect("a part")).collect();
        let [negotiated, lines @ .., end] = &*self.lines else { panic!("too little: {}", self.done) };
        let revision = if self.client == "modern" { MODERN } else { LEGACY };
        assert_eq!(negotiated["version"], revision, "{}", self.done);
        assert_eq!(end["step"], "end", "{}", self.done);
        assert_ne!(end.get("by-itself"), Some(&json!(false)), "the bridge had to be ended: {}", self.done);
        assert_eq!(lines.len(), steps.len(), "{}", self.done);
        for (step, line) in steps.iter().zip(lines) {
            assert_eq!(step["step"], line["step"], "{}", self.done);
            self.check_step(&talk, step, line);
        }
        lines.len()
    }

    fn check_step(&self, talk: &Value, step: &Value, line: &Value) {
        let is_modern = self.client == "modern";
        if line["cannot"] == true {
            // This revision has no such news.
            return self.holds(is_modern && step["step"] == "roots changed", line);
        }
        if let Some(asked) = step["asked"].as_array() {
            self.holds(line["asked"].as_array().map(Vec::len) == Some(asked.len()), line);
            for key in asked {
                let mut question = talk["questions"][key.as_str().expect("a key")].clone();
                // One side does not have it.
                let params = question.get_mut("params").and_then(Value::as_object_mut);
                params.map(|params| params.remove("elicitationId"));
                let asked = line["asked"].as_array().expect("questions");
                self.holds(asked.iter().any(|asked| fits(asked, &question)), line);
            }
        }
        if let Some(said) = step.get("said") {
            self.holds(fits(&line["result"]["said"], said), line);
            self.holds(line["result"]["rounds"] == step["rounds"].as_u64().unwrap_or(1), line);
        } else if step["refused"] == true {
            // Where one of the two is modern, the call has ended with it.
            let one_era = self.client == self.server;
            let error = if one_era { &line["result"]["refused"] } else { &line["error"] };
            self.holds(error["code"] == -1, line);
            self.holds(error["message"].as_str().is_some_and(|text| text.contains("not today")), line);
        } else if step["timed-out"] == true {
            self.holds(line["result"]["timed-out"] == true && line["aborted"] == 1, line);
        } else if step["page-first"] == true {
            self.holds(line["error"]["code"] == -32042, line);
        } else if step["given-up"] == true {
            self.holds(line["gave-up"].is_string() && line["aborted"] == 1, line);
        } else if step["unfit"] == true {
            // Passed on as it is: the server judges it.
            let refused = line["result"]["refused"].is_object();
            self.holds(refused == (self.server == "legacy"), line);
        } else if step.get("tool").is_some() {
            self.holds(line["result"] == json!({}), line);
        }
        if let Some(count) = step["logs"].as_u64().or_else(|| step["logs"][self.client].as_u64()) {
            let all = talk["logs"].as_array().expect("logs");
            let wanted = &all[all.len() - usize::try_from(count).expect("few")..];
            self.holds(line["logs"] == json!(wanted), line);
        }
        if let Some(news) = step.get("news") {
            self.holds(line["news"] == *news.get(self.client).unwrap_or(news), line);
        }
        if let (Some(honoured), Some(wanted)) = (line.get("honoured"), step.get("subscribe")) {
            self.holds(honoured == wanted, line);
        }
        if let Some(odd) = line.get("odd") {
            self.holds(*odd == json!([]), line);
        }
    }
}

/// Whether `actual` has all that `wanted` has
fn fits(actual: &Value, wanted: &Value) -> bool {
    match (actual, wanted) {
        (Value::Object(actual), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| actual.get(name).is_some_and(|actual| fits(actual, wanted)))
        }
        (Value::Array(actual), Value::Array(wanted)) => {
            actual.len() == wanted.len() && actual.iter().zip(wanted).all(|(a, w)| fits(a, w))
        }
        _ => actual == wanted,
    }
}

#[test]
fn the_older_client_is_asked_and_told_by_the_newer_server() {
    if !node_ready() {
        return;
    }
    let count = Conversation::of_the_older_client().check();
    say(&format!("interop, TypeScript 1 legacy stdio, bridge, TypeScript 2 modern HTTP: {PARTS} {count}"));
}

#[test]
fn the_older_client_is_asked_and_told_by_a_server_of_its_age() {
    if !node_ready() {
        return;
    }
    for parts in OLD_PARTS {
        let count = Conversation::of_one_generation(parts).check();
        say(&format!("interop, TypeScript 1 stdio, bridge, TypeScript 1 HTTP: {parts} {count}"));
    }
}

#[test]
fn the_newer_client_is_asked_and_told_by_the_older_server() {
    if !node_ready() {
        return;
    }
    let conversation = Conversation::of_the_newer_client();
    let count = conversation.check();
    say(&format!("interop, TypeScript 2 modern HTTP, bridge, TypeScript 1 legacy stdio: {PARTS} {count}"));
}
