//! `mcp-probe bridge` between the two generations of the TypeScript SDK.
//!
//! The older client on stdio, in the legacy era, talks to the newer server over HTTP, in the modern era; and the
//! reverse.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::hosted_server::HostedServer;
use crate::interop::sdk_clients::{check_session, parse_steps};
use crate::interop::{LEGACY, MODERN};
use crate::peers::{is_node_ready, node, peers, probe, probe_client};
use crate::run::{DEADLINE, ProcessOutput, command, print_line, run};

fn to_os_strings(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

/// Returns the command that runs a script of one of the SDKs.
fn script(name: &str) -> Command {
    let mut command = command(["node", name]);
    command.current_dir(node());
    command
}

fn conversation_file() -> PathBuf {
    peers().join("talk.json")
}

fn conversation() -> Value {
    serde_json::from_slice(&fs::read(conversation_file()).expect("a file of this repository")).expect("JSON")
}

fn log_path(name: &str) -> PathBuf {
    env::temp_dir().join(format!("mcp-interop-bridge-{}-{name}.log", std::process::id()))
}

/// The steps of a session: calls, progress, a cancellation, errors, and an orderly end.
#[test]
fn bridge_runs_session_of_legacy_client_with_modern_server() {
    if !is_node_ready() {
        return;
    }
    let log = log_path("session");
    let mut server = script("server-v2.mjs");
    server.args(["--era", "modern", "--http", "0", "--log"]).arg(&log);
    let server = HostedServer::start(server);
    let mut client = script("client-v1.mjs");
    client.arg("--").arg(probe()).args(["bridge", &server.url]);
    let steps = parse_steps(client);
    let progress = check_session(&steps, "legacy", LEGACY);
    let count = steps.len();
    // The cancellation has reached the server.
    let server_log = fs::read_to_string(&log).unwrap_or_default();
    assert!(server_log.contains("aborted"), "{server_log}\n{server}");
    server.stop();
    let _ = fs::remove_file(&log);
    print_line(&format!(
        "interop, TypeScript 1 legacy stdio, bridge, TypeScript 2 modern HTTP: {count} steps, {progress}"
    ));
}

/// That SDK reads messages that come together at once, and loses progress before its result.
#[test]
fn legacy_client_behind_a_bridge_sees_all_progress_of_twenty_calls() {
    if !is_node_ready() {
        return;
    }
    let mut server = script("server-v2.mjs");
    server.args(["--era", "modern", "--http", "0"]);
    let server = HostedServer::start(server);
    let program = probe().to_str().expect("UTF-8");
    for behind in [&["--", program, "serve", "--era", "legacy"][..], &[&server.url]] {
        let seen = || {
            let mut client = script("progress-client.mjs");
            client.args(["20", "3", "--", program, "bridge"]).args(behind);
            run(client, DEADLINE).expect("the client starts").assert_success().json()
        };
        // On a busy machine the client itself may come late to the progress. Without the bridge no twenty calls have all of it.
        assert!((0..5).any(|_| seen() == json!(vec![[1, 2, 3]; 20])), "{behind:?}");
    }
    server.stop();
}

/// A conversation between both generations through the bridge.
struct BridgedConversation {
    /// Eras of the client and of the server.
    client: &'static str,
    server: &'static str,
    lines: Vec<Value>,
    output: ProcessOutput,
    server_log: String,
    parts: &'static str,
}

const PARTS: &str = "answers,logs,news";
/// Parts for a pair of legacy peers: steps that are answered, and a step that times out.
const LEGACY_PARTS: [&str; 2] = ["answers,gate,logs,news", "time-out"];
/// Time that a server waits for input responses in the part `time-out`.
const TIME_OUT_MS: &str = "2500";

impl BridgedConversation {
    /// Runs the older client on stdio against the newer server.
    fn run_legacy_client() -> Self {
        let log = log_path("modern");
        let mut server = script("talk-server.mjs");
        server
            .arg(conversation_file())
            .args(["--sdk", "2", "--era", "modern", "--http", "0", "--log"])
            .arg(&log);
        let server = HostedServer::start(server);
        let mut client = script("talk-client.mjs");
        client.arg(conversation_file()).args(["--sdk", "1", "--era", "legacy", "--part", PARTS, "--"]);
        client.arg(probe()).args(["bridge", &server.url]);
        let output = run(client, DEADLINE).expect("the client starts").assert_success();
        server.stop();
        Self::read("legacy", "modern", PARTS, output, &log)
    }

    /// Runs the newer client over HTTP against the older server.
    fn run_modern_client() -> Self {
        let log = log_path("legacy");
        let mut bridge = probe_client();
        bridge.args(["bridge", "--http", "127.0.0.1:0", "--", "node"]).arg(node().join("talk-server.mjs"));
        bridge
            .arg(conversation_file())
            .args(to_os_strings(&["--sdk", "1", "--era", "legacy", "--log"]))
            .arg(&log);
        let bridge = HostedServer::start(bridge);
        let mut client = script("talk-client.mjs");
        client.arg(conversation_file()).args([
            "--sdk",
            "2",
            "--era",
            "modern",
            "--part",
            PARTS,
            "--",
            &bridge.url,
        ]);
        let output = run(client, DEADLINE).expect("the client starts").assert_success();
        bridge.stop();
        Self::read("modern", "legacy", PARTS, output, &log)
    }

    /// Runs the older generation on both sides: only the transport differs.
    fn run_legacy_pair(parts: &'static str) -> Self {
        let log = log_path(parts);
        let mut server = script("talk-server.mjs");
        server.arg(conversation_file()).args(["--sdk", "1", "--era", "legacy", "--http", "0"]);
        if parts == "time-out" {
            server.args(["--time-out", TIME_OUT_MS]);
        }
        server.arg("--log").arg(&log);
        let server = HostedServer::start(server);
        let mut client = script("talk-client.mjs");
        client.arg(conversation_file()).args(["--sdk", "1", "--era", "legacy", "--part", parts, "--"]);
        client.arg(probe()).args(["bridge", &server.url]);
        let output = run(client, DEADLINE).expect("the client starts").assert_success();
        server.stop();
        Self::read("legacy", "legacy", parts, output, &log)
    }

    fn read(
        client: &'static str,
        server: &'static str,
        parts: &'static str,
        output: ProcessOutput,
        log: &PathBuf,
    ) -> Self {
        let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}: {output}"));
        let lines = output.stdout.lines().map(line).collect();
        let server_log = fs::read_to_string(log).unwrap_or_default();
        let _ = fs::remove_file(log);
        Self { client, server, lines, output, server_log, parts }
    }

    #[track_caller]
    fn check_condition(&self, condition: bool, line: &Value) {
        assert!(condition, "{line}\n{}\n-- server log:\n{}", self.output, self.server_log);
    }

    /// Checks that every step has the outcome that it has without a bridge; returns the number of steps.
    fn check(&self) -> usize {
        let conversation = conversation();
        let steps: Vec<&Value> = self
            .parts
            .split(',')
            .flat_map(|part| conversation["steps"][part].as_array().expect("a part"))
            .collect();
        let [negotiated, lines @ .., end] = &*self.lines else { panic!("too few lines: {}", self.output) };
        let revision = if self.client == "modern" { MODERN } else { LEGACY };
        assert_eq!(negotiated["version"], revision, "{}", self.output);
        assert_eq!(end["step"], "end", "{}", self.output);
        assert_ne!(
            end.get("by-itself"),
            Some(&json!(false)),
            "the bridge did not exit by itself: {}",
            self.output
        );
        assert_eq!(lines.len(), steps.len(), "{}", self.output);
        for (step, line) in steps.iter().zip(lines) {
            assert_eq!(step["step"], line["step"], "{}", self.output);
            self.check_step(&conversation, step, line);
        }
        lines.len()
    }

    fn check_step(&self, conversation: &Value, step: &Value, line: &Value) {
        let is_modern = self.client == "modern";
        if line["cannot"] == true {
            // This revision has no such notification.
            return self.check_condition(is_modern && step["step"] == "roots changed", line);
        }
        if let Some(asked) = step["asked"].as_array() {
            self.check_condition(line["asked"].as_array().map(Vec::len) == Some(asked.len()), line);
            for key in asked {
                let mut expected_input = conversation["questions"][key.as_str().expect("a key")].clone();
                // One of the two eras does not have it.
                let params = expected_input.get_mut("params").and_then(Value::as_object_mut);
                params.map(|params| params.remove("elicitationId"));
                let asked = line["asked"].as_array().expect("questions");
                self.check_condition(
                    asked.iter().any(|asked| matches_expected(asked, &expected_input)),
                    line,
                );
            }
        }
        if let Some(expected_result) = step.get("said") {
            self.check_condition(matches_expected(&line["result"]["said"], expected_result), line);
            self.check_condition(line["result"]["rounds"] == step["rounds"].as_u64().unwrap_or(1), line);
        } else if step["refused"] == true {
            // If one of the two is modern, the refusal has ended the call.
            let is_one_era = self.client == self.server;
            let error = if is_one_era { &line["result"]["refused"] } else { &line["error"] };
            self.check_condition(error["code"] == -1, line);
            self.check_condition(
                error["message"].as_str().is_some_and(|text| text.contains("not today")),
                line,
            );
        } else if step["timed-out"] == true {
            self.check_condition(line["result"]["timed-out"] == true && line["aborted"] == 1, line);
        } else if step["page-first"] == true {
            self.check_condition(line["error"]["code"] == -32042, line);
        } else if step["given-up"] == true {
            self.check_condition(line["gave-up"].is_string() && line["aborted"] == 1, line);
        } else if step["unfit"] == true {
            // Passed on unchanged: the server checks it.
            let refused = line["result"]["refused"].is_object();
            self.check_condition(refused == (self.server == "legacy"), line);
        } else if step.get("tool").is_some() {
            self.check_condition(line["result"] == json!({}), line);
        }
        if let Some(count) = step["logs"].as_u64().or_else(|| step["logs"][self.client].as_u64()) {
            let all = conversation["logs"].as_array().expect("logs");
            let expected = &all[all.len() - usize::try_from(count).expect("few")..];
            self.check_condition(line["logs"] == json!(expected), line);
        }
        if let Some(changes) = step.get("news") {
            self.check_condition(line["news"] == *changes.get(self.client).unwrap_or(changes), line);
        }
        if let (Some(honoured), Some(expected)) = (line.get("honoured"), step.get("subscribe")) {
            self.check_condition(honoured == expected, line);
        }
        if let Some(diagnostics) = line.get("odd") {
            self.check_condition(*diagnostics == json!([]), line);
        }
    }
}

/// Returns whether `actual` has all members and items of `wanted`.
fn matches_expected(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => expected.iter().all(|(name, expected)| {
            actual.get(name).is_some_and(|actual| matches_expected(actual, expected))
        }),
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, w)| matches_expected(a, w))
        }
        _ => actual == expected,
    }
}

#[test]
fn bridge_carries_conversation_of_legacy_client_with_modern_server() {
    if !is_node_ready() {
        return;
    }
    let count = BridgedConversation::run_legacy_client().check();
    print_line(&format!(
        "interop, TypeScript 1 legacy stdio, bridge, TypeScript 2 modern HTTP: {PARTS} {count}"
    ));
}

#[test]
fn bridge_carries_conversation_of_legacy_client_with_legacy_server() {
    if !is_node_ready() {
        return;
    }
    for parts in LEGACY_PARTS {
        let count = BridgedConversation::run_legacy_pair(parts).check();
        print_line(&format!("interop, TypeScript 1 stdio, bridge, TypeScript 1 HTTP: {parts} {count}"));
    }
}

#[test]
fn bridge_carries_conversation_of_modern_client_with_legacy_server() {
    if !is_node_ready() {
        return;
    }
    let conversation = BridgedConversation::run_modern_client();
    let count = conversation.check();
    print_line(&format!(
        "interop, TypeScript 2 modern HTTP, bridge, TypeScript 1 legacy stdio: {PARTS} {count}"
    ));
}
