//! `mcp-probe` as a client of SDK servers on stdio.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, thread};

use serde_json::{Value, json};

use crate::hosted_server::HostedServer;
use crate::interop::{LEGACY, MODERN};
use crate::peers::{is_node_ready, node, probe_client};
use crate::run::{DEADLINE, ProcessOutput, print_line, run};

/// Duration of calls that the client cancels. The client must end long before.
const LONG_CALL: Duration = Duration::from_secs(40);

/// An SDK server, as a command for `mcp-probe` to start or as a URL.
pub(crate) struct SdkServer {
    pub(crate) era: &'static str,
    command: Vec<OsString>,
    log: Option<PathBuf>,
    over_http: bool,
}

impl SdkServer {
    fn everything() -> Self {
        let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
        let entry = entry.iter().fold(node(), |path, part| path.join(part));
        Self {
            era: "legacy",
            command: vec!["node".into(), entry.into(), "stdio".into()],
            log: None,
            over_http: false,
        }
    }

    /// Returns the server pinned to the era `served`.
    pub(crate) fn typescript_v2(served: &'static str) -> Self {
        // Named after the test, because tests run side by side in one process.
        let test = thread::current().name().unwrap_or("test").replace(':', "-");
        let log = env::temp_dir().join(format!("mcp-interop-{}-{test}.jsonl", std::process::id()));
        let script = node().join("server-v2.mjs");
        let command =
            vec!["node".into(), script.into(), "--era".into(), served.into(), "--log".into(), (&log).into()];
        Self { era: served, command, log: Some(log), over_http: false }
    }

    pub(crate) fn over_http(mut self) -> Self {
        self.command.extend(["--http".into(), "0".into()]);
        Self { over_http: true, ..self }
    }

    /// Runs `mcp-probe ARGS --era … -- node …` or `… URL`; returns its output and the log of the server.
    pub(crate) fn probe_in_era(&self, era: &str, args: &[&str]) -> (ProcessOutput, Vec<Value>) {
        if let Some(log) = &self.log {
            // The log of an earlier run is removed.
            let _ = fs::remove_file(log);
        }
        let mut client = probe_client();
        client.args(args).args(["--era", era]);
        let done = if self.over_http {
            let mut server = Command::new(&self.command[0]);
            server.args(&self.command[1..]);
            let server = HostedServer::start(server);
            client.arg(&server.url);
            let done = run(client, DEADLINE).expect("mcp-probe starts");
            server.stop();
            done
        } else {
            client.arg("--").args(&self.command);
            run(client, DEADLINE).expect("mcp-probe starts")
        };
        let server_log = self.log.as_ref().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
        if let Some(log) = &self.log {
            let _ = fs::remove_file(log);
        }
        (done, server_log.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect())
    }

    /// Runs `mcp-probe` in the era of the server, which must end by itself at the end of its input.
    fn probe(&self, args: &[&str]) -> ProcessOutput {
        let (done, server_log) = self.probe_in_era(self.era, args);
        if self.log.is_some() {
            assert_eq!(
                server_log.last(),
                Some(&json!({"event": "exit", "code": 0})),
                "the server did not exit by itself: {server_log:?} {done}"
            );
        }
        done
    }

    fn inspect(&self, revision: &str, name: &str) -> Value {
        let seen = self.probe(&["inspect", "--json"]).assert_success().json();
        let keys = [
            "era",
            "revision",
            "server",
            "capabilities",
            "instructions",
            "tools",
            "resources",
            "resourceTemplates",
            "prompts",
        ];
        for key in keys {
            assert!(seen.get(key).is_some(), "inspect --json has no {key}: {seen}");
        }
        assert_eq!(seen["era"], self.era, "{seen}");
        assert_eq!(seen["revision"], revision, "{seen}");
        assert_eq!(seen["server"]["name"], name, "{seen}");
        assert!(seen["capabilities"]["tools"].is_object(), "{seen}");
        assert!(seen["instructions"].as_str().is_some_and(|text| !text.is_empty()), "{seen}");
        seen
    }

    fn call(&self, tool: &str, args: &Value, more_args: &[&str]) -> ProcessOutput {
        let args = args.to_string();
        let mut words = vec!["call", tool, "--args", &args, "--json"];
        words.extend(more_args);
        self.probe(&words)
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

fn occurrences(text: &str, needle: &str) -> usize {
    text.matches(needle).count()
}

/// Checks the tools of `server-v2.mjs`, which are the same in both eras.
pub(crate) fn v2_tools(peer: &SdkServer, revision: &str) -> String {
    let seen = peer.inspect(revision, "peer-server-v2");
    assert_eq!(names(&seen["tools"]), ["echo", "add", "count", "fail"], "{seen}");

    // Characters that reveal wrong escaping on either side.
    let tricky = "plain \"quoted\" \\ \n tab\t ünïcödé \u{2028} \u{1f980} end";
    let result = peer.call("echo", &json!({"text": tricky}), &[]).assert_success().json();
    assert_eq!(text_of(&result), tricky);

    let result = peer.call("add", &json!({"a": 2, "b": 3.5}), &[]).assert_success().json();
    assert_eq!(result["structuredContent"], json!({"sum": 5.5}), "{result}");

    // Without the trace, so that stderr shows the progress as a user sees it.
    let done = peer.call("count", &json!({"to": 5, "delay_ms": 50}), &[]).assert_success();
    assert!(!done.stderr.trim().is_empty(), "no progress on stderr: {done}");
    let done = peer.call("count", &json!({"to": 5, "delay_ms": 50}), &["--trace"]).assert_success();
    let progress = occurrences(&done.stderr, "notifications/progress");
    assert!(progress > 0, "no progress notification: {done}");
    assert_eq!(text_of(&done.json()), "5");

    // One step longer than the timeout of the call. Progress would extend the deadline.
    let endless = json!({"to": 1, "delay_ms": LONG_CALL.as_millis()});
    let args = endless.to_string();
    let words = ["call", "count", "--args", &args, "--json", "--timeout", "0.5", "--trace"];
    let (done, server_log) = peer.probe_in_era(peer.era, &words);
    // The modern era over HTTP has no cancellation message: the client hangs up.
    let hangs_up = peer.over_http && peer.era == "modern";
    let done = if hangs_up { done.assert_failure() } else { assert_gave_up(done) };
    // The SDK aborts a call for a closed pipe too. Only the reason shows that the cancellation was read.
    let aborted = server_log.iter().find(|event| event["event"] == "aborted");
    let reason = aborted.and_then(|event| event["reason"].as_str());
    assert!(
        reason.is_some_and(|reason| hangs_up || !reason.contains("losed")),
        "the server saw no cancellation: {server_log:?} {done}"
    );
    assert_eq!(
        server_log.last(),
        Some(&json!({"event": "exit", "code": 0})),
        "the server did not exit by itself: {server_log:?} {done}"
    );

    let result = peer.call("fail", &json!({}), &[]).assert_failure().json();
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(text_of(&result), "this tool always fails");

    let done = peer
        .call("no-such-tool", &json!({}), &[])
        .assert_failure()
        .assert_stderr_contains("Tool no-such-tool not found");
    // A protocol error has no result to print. An empty object would read as success to a script.
    assert!(done.stdout.trim().is_empty() || done.json().get("content").is_none(), "{done}");

    peer.probe(&["ping"]).assert_success();

    format!(
        "{} {revision}: inspect, call, structured result, {progress} progress notifications, time-out with cancel \
         seen by the server, isError, unknown tool, ping, orderly end",
        peer.era
    )
}

/// Checks that a call that reached `--timeout` was reported, was cancelled at the server, and was not waited for.
fn assert_gave_up(done: ProcessOutput) -> ProcessOutput {
    let done = done.assert_failure().assert_stderr_contains("notifications/cancelled");
    let message = done.stderr.to_lowercase();
    assert!(
        message.contains("timeout") || message.contains("timed out"),
        "the message does not mention a timeout: {done}"
    );
    assert!(done.elapsed < LONG_CALL, "waited for the cancelled call: {done}");
    done
}

// covers: STDIO-001 STDIO-002 STDIO-003 STDIO-008 STDIO-009 LIFE-001 LIFE-002 LIFE-004 LIFE-017 VER-001
// covers: VER-002 PROG-001 PROG-003 TIME-001 TIME-002 TIME-004 CANC-001 CANC-005 PING-001
#[test]
fn own_client_uses_server_everything() {
    if !is_node_ready() {
        return;
    }
    let peer = SdkServer::everything();

    // This server sends `list_changed` right after `initialize`, and declares capabilities outside the specification.
    let seen = peer.inspect(LEGACY, "mcp-servers/everything");
    let tools = names(&seen["tools"]);
    for tool in ["echo", "get-sum", "get-structured-content", "trigger-long-running-operation"] {
        assert!(tools.contains(&tool), "no {tool} in {tools:?}");
    }
    for list in ["resources", "resourceTemplates", "prompts"] {
        assert!(!names(&seen[list]).is_empty(), "no {list}: {}", seen[list]);
    }

    let result = peer.call("echo", &json!({"message": "hello"}), &[]).assert_success().json();
    assert_eq!(text_of(&result), "Echo: hello");
    let result =
        peer.call("get-structured-content", &json!({"location": "Chicago"}), &[]).assert_success().json();
    assert_eq!(result["structuredContent"]["temperature"], 36, "{result}");

    let long = "trigger-long-running-operation";
    let done = peer.call(long, &json!({"duration": 0.5, "steps": 5}), &["--trace"]).assert_success();
    let progress = occurrences(&done.stderr, "notifications/progress");
    assert!(progress > 0, "no progress notification: {done}");
    assert!(text_of(&done.json()).starts_with("Long running operation completed"), "{done}");

    // This server ignores the cancellation, and its timer keeps the process alive after the end of its input. The
    // client has to kill it to end in time.
    let endless = json!({"duration": LONG_CALL.as_secs(), "steps": 1});
    assert_gave_up(peer.call(long, &endless, &["--timeout", "0.5", "--trace"]));

    // Both are results with `isError`: this SDK answers an unknown tool in that way too.
    let result = peer.call("get-sum", &json!({"a": "x", "b": 1}), &[]).assert_failure().json();
    assert_eq!(result["isError"], true, "{result}");
    peer.call("no-such-tool", &json!({}), &[])
        .assert_failure()
        .assert_output_contains("Tool no-such-tool not found");

    peer.probe(&["ping"]).assert_success();

    print_line(&format!(
        "interop, our client, server-everything {LEGACY}: inspect of {} tools, call, structured result, {progress} \
         progress notifications, time-out of a call that cannot be cancelled, isError, unknown tool, ping",
        tools.len()
    ));
}

// covers: STDIO-001 STDIO-002 STDIO-003 STDIO-017 STDIO-020 VER-008 VER-014 VER-024 META-009 META-010
// covers: META-013 PROG-003 TIME-001 TIME-003 TIME-004 CANC-002 CANC-004 CANC-007 CANC-016
#[test]
fn own_client_uses_typescript_2_server_modern() {
    if is_node_ready() {
        print_line(&format!(
            "interop, our client, server 2.4.0, {}",
            v2_tools(&SdkServer::typescript_v2("modern"), MODERN)
        ));
    }
}

// covers: STDIO-001 STDIO-002 STDIO-003 LIFE-001 LIFE-002 LIFE-004 LIFE-017 VER-001 VER-002 PROG-001 PROG-003
// covers: TIME-001 TIME-002 TIME-004 CANC-001 CANC-003 CANC-005 PING-001
#[test]
fn own_client_uses_typescript_2_server_legacy() {
    if is_node_ready() {
        print_line(&format!(
            "interop, our client, server 2.4.0, {}",
            v2_tools(&SdkServer::typescript_v2("legacy"), LEGACY)
        ));
    }
}

// Only servers with one era: the probe of a dual-era server may time out on a slow machine, and the client would then
// correctly use the other era.
// covers: VER-020 VER-024
#[test]
fn own_client_finds_era_of_sdk_servers() {
    if !is_node_ready() {
        return;
    }
    let mut eras = BTreeMap::new();
    for (name, peer) in [
        ("everything", SdkServer::everything()),
        ("v2 legacy", SdkServer::typescript_v2("legacy")),
        ("v2 modern", SdkServer::typescript_v2("modern")),
    ] {
        let (done, _) = peer.probe_in_era("auto", &["inspect", "--json"]);
        let seen = done.assert_success().json();
        assert_eq!(seen["era"], peer.era, "{name}: {seen}");
        eras.insert(name, peer.era);
    }
    print_line(&format!("interop, our client finds the era: {eras:?}"));
}

// covers: VER-028 VER-034 LIFE-020
#[test]
fn own_client_pinned_to_missing_era_is_refused() {
    if !is_node_ready() {
        return;
    }
    for (own_era, peer) in [
        ("legacy", SdkServer::typescript_v2("modern")),
        ("modern", SdkServer::typescript_v2("legacy")),
        ("modern", SdkServer::everything()),
    ] {
        let (done, _) = peer.probe_in_era(own_era, &["inspect", "--json"]);
        // The error names a version that both sides know, so that the user can act on it.
        done.assert_failure().assert_stderr_contains(MODERN);
    }
    print_line("interop, our client, pinned to the other era: refused, with the versions named");
}
