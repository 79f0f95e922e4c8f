//! Our client, as people use it, with their servers

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, thread};

use serde_json::{Value, json};

use crate::hosted::Hosted;
use crate::peers::{node, node_ready, probe};
use crate::run::{DEADLINE, Done, run, say};
use crate::{LEGACY, MODERN};

/// How long the calls last that a client gives up on. The client has to be done long before.
const LONG_CALL: Duration = Duration::from_secs(40);

/// A server of theirs, as `mcp-probe` is told to start it, or to find it.
pub(crate) struct Peer {
    pub(crate) era: &'static str,
    command: Vec<OsString>,
    log: Option<PathBuf>,
    over_http: bool,
}

impl Peer {
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

    /// `served` is what the server is pinned to.
    pub(crate) fn v2(served: &'static str) -> Self {
        // Named after the test, which run side by side in one process.
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

    /// `mcp-probe ARGS --era … -- node …`, or `… URL`, and what the server noted meanwhile.
    pub(crate) fn probe_as(&self, era: &str, args: &[&str]) -> (Done, Vec<Value>) {
        if let Some(log) = &self.log {
            // Each run by itself: what an earlier one noted says nothing of this one.
            let _ = fs::remove_file(log);
        }
        let mut client = Command::new(probe());
        client.args(args).args(["--era", era]);
        let done = if self.over_http {
            let mut server = Command::new(&self.command[0]);
            server.args(&self.command[1..]);
            let server = Hosted::start(server);
            client.arg(&server.url);
            let done = run(client, DEADLINE).expect("mcp-probe starts");
            server.end();
            done
        } else {
            client.arg("--").args(&self.command);
            run(client, DEADLINE).expect("mcp-probe starts")
        };
        let noted = self.log.as_ref().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
        if let Some(log) = &self.log {
            let _ = fs::remove_file(log);
        }
        (done, noted.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect())
    }

    /// As above in the server's own era, and the server has to have ended by itself when its input was closed.
    fn probe(&self, args: &[&str]) -> Done {
        let (done, noted) = self.probe_as(self.era, args);
        if self.log.is_some() {
            assert_eq!(
                noted.last(),
                Some(&json!({"event": "exit", "code": 0})),
                "not ended by itself: {noted:?} {done}"
            );
        }
        done
    }

    fn inspect(&self, revision: &str, name: &str) -> Value {
        let seen = self.probe(&["inspect", "--json"]).ok().json();
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

    fn call(&self, tool: &str, args: &Value, more: &[&str]) -> Done {
        let args = args.to_string();
        let mut words = vec!["call", tool, "--args", &args, "--json"];
        words.extend(more);
        self.probe(&words)
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

fn occurrences(text: &str, of: &str) -> usize {
    text.matches(of).count()
}

/// The tools of `server-v2.mjs`, which are the same in both eras.
pub(crate) fn v2_tools(peer: &Peer, revision: &str) -> String {
    let seen = peer.inspect(revision, "peer-server-v2");
    assert_eq!(names(&seen["tools"]), ["echo", "add", "count", "fail"], "{seen}");

    // What breaks first when escaping is wrong on either side.
    let tricky = "plain \"quoted\" \\ \n tab\t ünïcödé \u{2028} \u{1f980} end";
    let result = peer.call("echo", &json!({"text": tricky}), &[]).ok().json();
    assert_eq!(text_of(&result), tricky);

    let result = peer.call("add", &json!({"a": 2, "b": 3.5}), &[]).ok().json();
    assert_eq!(result["structuredContent"], json!({"sum": 5.5}), "{result}");

    // Without the trace, so that what is on stderr is what a person sees of the progress.
    let done = peer.call("count", &json!({"to": 5, "delay_ms": 50}), &[]).ok();
    assert!(!done.stderr.trim().is_empty(), "progress is not shown: {done}");
    let done = peer.call("count", &json!({"to": 5, "delay_ms": 50}), &["--trace"]).ok();
    let progress = occurrences(&done.stderr, "notifications/progress");
    assert!(progress > 0, "no progress on the wire: {done}");
    assert_eq!(text_of(&done.json()), "5");

    // One step that is longer than the call may take: progress would put the deadline off.
    let endless = json!({"to": 1, "delay_ms": LONG_CALL.as_millis()});
    let args = endless.to_string();
    let words = ["call", "count", "--args", &args, "--json", "--timeout", "0.5", "--trace"];
    let (done, noted) = peer.probe_as(peer.era, &words);
    // Over HTTP the modern era has no word for it: a client hangs up.
    let hangs_up = peer.over_http && peer.era == "modern";
    let done = if hangs_up { done.failed() } else { gave_up(done) };
    // The SDK aborts a call for a closed pipe too; only the reason shows that the cancellation was understood.
    let aborted = noted.iter().find(|event| event["event"] == "aborted");
    let reason = aborted.and_then(|event| event["reason"].as_str());
    assert!(
        reason.is_some_and(|reason| hangs_up || !reason.contains("losed")),
        "the server saw no cancel: {noted:?} {done}"
    );
    assert_eq!(
        noted.last(),
        Some(&json!({"event": "exit", "code": 0})),
        "not ended by itself: {noted:?} {done}"
    );

    let result = peer.call("fail", &json!({}), &[]).failed().json();
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(text_of(&result), "this tool always fails");

    let done = peer.call("no-such-tool", &json!({}), &[]).failed().stderr_has("Tool no-such-tool not found");
    // A protocol error has no result to print; an empty object there would read as success to a script.
    assert!(done.stdout.trim().is_empty() || done.json().get("content").is_none(), "{done}");

    peer.probe(&["ping"]).ok();

    format!(
        "{} {revision}: inspect, call, structured result, {progress} progress notifications, time-out with cancel \
         seen by the server, isError, unknown tool, ping, orderly end",
        peer.era
    )
}

/// A call that ran into `--timeout`: said so, told the server, and did not wait for it.
fn gave_up(done: Done) -> Done {
    let done = done.failed().stderr_has("notifications/cancelled");
    let message = done.stderr.to_lowercase();
    assert!(
        message.contains("timeout") || message.contains("timed out"),
        "the message names no time-out: {done}"
    );
    assert!(done.took < LONG_CALL, "waited for the call that it gave up on: {done}");
    done
}

// covers: STDIO-001 STDIO-002 STDIO-003 STDIO-008 STDIO-009 LIFE-001 LIFE-002 LIFE-004 LIFE-017 VER-001
// covers: VER-002 PROG-001 PROG-003 TIME-001 TIME-002 TIME-004 CANC-001 CANC-005 PING-001
#[test]
fn our_client_with_their_server_everything() {
    if !node_ready() {
        return;
    }
    let peer = Peer::everything();

    // This server sends `list_changed` the moment it is initialised, and declares more than we know.
    let seen = peer.inspect(LEGACY, "mcp-servers/everything");
    let tools = names(&seen["tools"]);
    for tool in ["echo", "get-sum", "get-structured-content", "trigger-long-running-operation"] {
        assert!(tools.contains(&tool), "no {tool} in {tools:?}");
    }
    for list in ["resources", "resourceTemplates", "prompts"] {
        assert!(!names(&seen[list]).is_empty(), "no {list}: {}", seen[list]);
    }

    let result = peer.call("echo", &json!({"message": "hello"}), &[]).ok().json();
    assert_eq!(text_of(&result), "Echo: hello");
    let result = peer.call("get-structured-content", &json!({"location": "Chicago"}), &[]).ok().json();
    assert_eq!(result["structuredContent"]["temperature"], 36, "{result}");

    let long = "trigger-long-running-operation";
    let done = peer.call(long, &json!({"duration": 0.5, "steps": 5}), &["--trace"]).ok();
    let progress = occurrences(&done.stderr, "notifications/progress");
    assert!(progress > 0, "no progress on the wire: {done}");
    assert!(text_of(&done.json()).starts_with("Long running operation completed"), "{done}");

    // This one goes on with its work whatever it is told, and its timer keeps the process alive after its input is
    // closed: to be done in time the client has to end it the hard way.
    let endless = json!({"duration": LONG_CALL.as_secs(), "steps": 1});
    gave_up(peer.call(long, &endless, &["--timeout", "0.5", "--trace"]));

    // Both reach us as results with `isError`: this SDK answers an unknown tool that way too.
    let result = peer.call("get-sum", &json!({"a": "x", "b": 1}), &[]).failed().json();
    assert_eq!(result["isError"], true, "{result}");
    peer.call("no-such-tool", &json!({}), &[]).failed().says("Tool no-such-tool not found");

    peer.probe(&["ping"]).ok();

    say(&format!(
        "interop, our client, server-everything {LEGACY}: inspect of {} tools, call, structured result, {progress} \
         progress notifications, time-out of a call that cannot be cancelled, isError, unknown tool, ping",
        tools.len()
    ));
}

// covers: STDIO-001 STDIO-002 STDIO-003 STDIO-017 STDIO-020 VER-008 VER-014 VER-024 META-009 META-010
// covers: META-013 PROG-003 TIME-001 TIME-003 TIME-004 CANC-002 CANC-004 CANC-007 CANC-016
#[test]
fn our_client_with_their_server_v2_modern() {
    if node_ready() {
        say(&format!("interop, our client, server 2.4.0, {}", v2_tools(&Peer::v2("modern"), MODERN)));
    }
}

// covers: STDIO-001 STDIO-002 STDIO-003 LIFE-001 LIFE-002 LIFE-004 LIFE-017 VER-001 VER-002 PROG-001 PROG-003
// covers: TIME-001 TIME-002 TIME-004 CANC-001 CANC-003 CANC-005 PING-001
#[test]
fn our_client_with_their_server_v2_legacy() {
    if node_ready() {
        say(&format!("interop, our client, server 2.4.0, {}", v2_tools(&Peer::v2("legacy"), LEGACY)));
    }
}

// Only servers with one era here: at one with both, a probe that times out on a slow machine would rightly end up
// in the other era.
// covers: VER-020 VER-024
#[test]
fn our_client_finds_their_era() {
    if !node_ready() {
        return;
    }
    let mut found = BTreeMap::new();
    for (name, peer) in [
        ("everything", Peer::everything()),
        ("v2 legacy", Peer::v2("legacy")),
        ("v2 modern", Peer::v2("modern")),
    ] {
        let (done, _) = peer.probe_as("auto", &["inspect", "--json"]);
        let seen = done.ok().json();
        assert_eq!(seen["era"], peer.era, "{name}: {seen}");
        found.insert(name, peer.era);
    }
    say(&format!("interop, our client, era by itself: {found:?}"));
}

// covers: VER-028 VER-034 LIFE-020
#[test]
fn our_client_pinned_to_the_era_that_their_server_lacks() {
    if !node_ready() {
        return;
    }
    for (ours, peer) in
        [("legacy", Peer::v2("modern")), ("modern", Peer::v2("legacy")), ("modern", Peer::everything())]
    {
        let (done, _) = peer.probe_as(ours, &["inspect", "--json"]);
        // One version that either side would have taken: without it the message is no help.
        done.failed().stderr_has(MODERN);
    }
    say("interop, our client, pinned to the other era: refused, with the versions");
}
