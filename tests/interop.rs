//! Our client and our server against the official TypeScript SDKs, each as its users run it: a process on stdio.
//!
//! The peers are in `peers/node`. Eras are pinned wherever a slow machine could otherwise change the outcome.

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

/// Far above what any run needs: a machine that is busy with other builds must not turn into a failure here.
const DEADLINE: Duration = Duration::from_secs(60);
/// Fetching and unpacking about a hundred packages, possibly over a slow line.
const INSTALL_DEADLINE: Duration = Duration::from_secs(300);
/// A cold build of the probe and all that it depends on.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);

/// How long the calls last that a client gives up on. The client has to be done long before.
const LONG_CALL: Duration = Duration::from_secs(40);

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

// ---- processes ----

/// What a finished process left behind.
struct Done {
    what: String,
    status: ExitStatus,
    stdout: String,
    stderr: String,
    took: Duration,
}

impl Done {
    fn ok(self) -> Self {
        assert!(self.status.success(), "should have succeeded: {self}");
        self
    }

    fn failed(self) -> Self {
        assert!(!self.status.success(), "should have failed: {self}");
        self
    }

    /// The one JSON value that stdout has to be, whatever went to stderr beside it.
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON value ({error}): {self}"))
    }

    fn stderr_has(self, wanted: &str) -> Self {
        assert!(self.stderr.contains(wanted), "no {wanted:?} on stderr: {self}");
        self
    }

    /// For texts of which it is open on which of the two streams a person finds them.
    fn says(self, wanted: &str) -> Self {
        assert!(self.stdout.contains(wanted) || self.stderr.contains(wanted), "no {wanted:?}: {self}");
        self
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, status, stdout, stderr, took } = self;
        write!(f, "{what}\n-- {status} after {took:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}")
    }
}

enum Part {
    Exit(io::Result<ExitStatus>),
    Closed,
}

/// Runs to the end and reads everything, or kills it, and all that it started, when the deadline passes.
///
/// A run is over when the process has ended *and* both of its outputs are closed: a server left behind by its
/// client still holds them, and is found that way.
fn run(mut command: Command, deadline: Duration) -> io::Result<Done> {
    let what = format!("{command:?}");
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that one signal reaches the servers that it starts too.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);

    let mut child = command.spawn()?;
    let pid = child.id();
    let (parts, inbox) = channel();
    let stdout = collect(child.stdout.take().expect("piped above"), parts.clone());
    let stderr = collect(child.stderr.take().expect("piped above"), parts.clone());
    // The standard library cannot wait with a limit, so a thread waits and the limit is on the channel.
    thread::spawn(move || parts.send(Part::Exit(child.wait())));

    let mut status = None;
    for _ in 0..3 {
        let left = deadline.saturating_sub(started.elapsed());
        match inbox.recv_timeout(left) {
            Ok(Part::Exit(exit)) => status = Some(exit?),
            Ok(Part::Closed) => {}
            Err(_) => {
                kill_tree(pid);
                let state = match status {
                    Some(status) => format!("ended with {status}, but something that it started lives on"),
                    None => "did not end".to_owned(),
                };
                let (stdout, stderr) = (taken(&stdout), taken(&stderr));
                panic!("{what}\n-- {state}, after {deadline:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}");
            }
        }
    }
    let status = status.expect("one of the three parts");
    Ok(Done { what, status, stdout: taken(&stdout), stderr: taken(&stderr), took: started.elapsed() })
}

/// Shared rather than returned at the end, so that a run that has to be killed still shows what it said.
fn collect(mut from: impl Read + Send + 'static, parts: Sender<Part>) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&kept);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            into.lock().expect("no panic under this lock").extend_from_slice(&chunk[..read]);
        }
        parts.send(Part::Closed)
    });
    kept
}

fn taken(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock().expect("no panic under this lock")).into_owned()
}

fn kill_tree(pid: u32) {
    let mut killer = if cfg!(windows) {
        let mut killer = Command::new("taskkill");
        killer.args(["/F", "/T", "/PID", &pid.to_string()]);
        killer
    } else {
        let mut killer = Command::new("kill");
        killer.args(["-KILL", "--", &format!("-{pid}")]);
        killer
    };
    // The test fails either way; that the leftovers are gone is only tidiness.
    let _ = killer.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn command(words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut words = words.into_iter().map(Into::into);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// Goes around the test harness, which keeps what passing tests print: what was shown, and above all what was not
/// checked, has to be seen.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

// ---- what has to be there ----

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn peers() -> PathBuf {
    package().join("peers").join("node")
}

/// The `mcp-probe` under test: `MCP_PROBE`, or the one that cargo builds beside this test.
fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        if let Some(given) = env::var_os("MCP_PROBE") {
            return given.into();
        }
        let test = env::current_exe().expect("the path of this test");
        let profile =
            test.parent().and_then(Path::parent).expect("a test binary is in <target>/<profile>/deps");
        let probe = profile.join(format!("mcp-probe{}", env::consts::EXE_SUFFIX));
        // Also when there is one already: cargo builds no binaries of other packages for a test, so the one that
        // lies there may be older than the code. It costs little when there is nothing to do. Without cargo around
        // (the test was started by hand) what lies there has to do.
        let cargo = match env::var_os("CARGO") {
            Some(cargo) => cargo,
            None if probe.exists() => return probe,
            None => "cargo".into(),
        };
        let mut build = Command::new(cargo);
        build.current_dir(package()).args(["build", "--package", "mcp-probe", "--bin", "mcp-probe"]);
        build.arg("--target-dir").arg(profile.parent().expect("a profile is in a target directory"));
        match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => {}
            Some(name) => _ = build.args(["--profile", name]),
        }
        run(build, BUILD_DEADLINE).expect("cargo runs").ok();
        assert!(probe.exists(), "cargo built mcp-probe, but not at {}", probe.display());
        probe
    })
}

/// Whether the peers can be run; if not, says so loudly, and in CI fails.
fn peers_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let ready = READY.get_or_init(prepare_peers);
    if let Err(why) = ready {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("NOT CHECKED: {test} (interop with the official TypeScript SDKs): {why}");
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
        say(&line);
    }
    ready.is_ok()
}

fn prepare_peers() -> Result<(), String> {
    let node = run(command(["node", "--version"]), DEADLINE).map_err(|error| format!("no node: {error}"))?;
    let major =
        node.stdout.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major < 20) {
        return Err(format!("node 20 or later is needed, this is {:?}", node.stdout.trim()));
    }
    if installed() {
        return Ok(());
    }
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    // No scripts of packages: none of these needs one, and a test should not run strangers' install code.
    let mut install = command([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    install.current_dir(peers());
    let done = run(install, INSTALL_DEADLINE).map_err(|error| format!("no npm: {error}"))?;
    match installed() {
        true => Ok(()),
        false => Err(format!("npm ci did not install the peers: {done}")),
    }
}

/// By version, not by presence: an older installation would quietly test other peers than those of the lock file.
fn installed() -> bool {
    let read =
        |path: PathBuf| fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let manifest = read(peers().join("package.json")).expect("package.json of the peers");
    let wanted = manifest["dependencies"].as_object().expect("dependencies");
    wanted.iter().all(|(name, version)| {
        let own = peers().join("node_modules").join(name).join("package.json");
        read(own).is_some_and(|own| own["version"] == *version)
    })
}

// ---- our client, their servers ----

/// A server of theirs, as `mcp-probe` is told to start it.
struct Peer {
    era: &'static str,
    command: Vec<OsString>,
    log: Option<PathBuf>,
}

impl Peer {
    fn everything() -> Self {
        let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
        let entry = entry.iter().fold(peers(), |path, part| path.join(part));
        Self { era: "legacy", command: vec!["node".into(), entry.into(), "stdio".into()], log: None }
    }

    /// `served` is what the server is pinned to.
    fn v2(served: &'static str) -> Self {
        // Named after the test, which run side by side in one process.
        let test = thread::current().name().unwrap_or("test").replace(':', "-");
        let log = env::temp_dir().join(format!("mcp-interop-{}-{test}.jsonl", std::process::id()));
        let script = peers().join("server-v2.mjs");
        let command =
            vec!["node".into(), script.into(), "--era".into(), served.into(), "--log".into(), (&log).into()];
        Self { era: served, command, log: Some(log) }
    }

    /// `mcp-probe ARGS --era … -- node …`, and what the server noted meanwhile.
    fn probe_as(&self, era: &str, args: &[&str]) -> (Done, Vec<Value>) {
        if let Some(log) = &self.log {
            // Each run by itself: what an earlier one noted says nothing of this one.
            let _ = fs::remove_file(log);
        }
        let mut client = Command::new(probe());
        client.args(args).args(["--era", era, "--"]).args(&self.command);
        let done = run(client, DEADLINE).expect("mcp-probe starts");
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
fn v2_tools(peer: &Peer, revision: &str) -> String {
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
    let done = gave_up(done);
    // The SDK aborts a call for a closed pipe too; only the reason shows that the cancellation was understood.
    let aborted = noted.iter().find(|event| event["event"] == "aborted");
    let reason = aborted.and_then(|event| event["reason"].as_str());
    assert!(
        reason.is_some_and(|reason| !reason.contains("losed")),
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
    if !peers_ready() {
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
    if peers_ready() {
        say(&format!("interop, our client, server 2.4.0, {}", v2_tools(&Peer::v2("modern"), MODERN)));
    }
}

// covers: STDIO-001 STDIO-002 STDIO-003 LIFE-001 LIFE-002 LIFE-004 LIFE-017 VER-001 VER-002 PROG-001 PROG-003
// covers: TIME-001 TIME-002 TIME-004 CANC-001 CANC-003 CANC-005 PING-001
#[test]
fn our_client_with_their_server_v2_legacy() {
    if peers_ready() {
        say(&format!("interop, our client, server 2.4.0, {}", v2_tools(&Peer::v2("legacy"), LEGACY)));
    }
}

// Only servers with one era here: at one with both, a probe that times out on a slow machine would rightly end up
// in the other era.
// covers: VER-020 VER-024
#[test]
fn our_client_finds_their_era() {
    if !peers_ready() {
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
    if !peers_ready() {
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

// ---- their clients, our server ----

/// Runs one of their clients on our server and returns its steps by name; every one of them has to be good.
fn steps(client: &str, client_args: &[&str], serve: &[&str]) -> BTreeMap<String, Value> {
    let mut command = command(["node", client]);
    command.current_dir(peers()).args(client_args).arg("--").arg(probe()).arg("serve").args(serve);
    let done = run(command, DEADLINE).expect("node starts").ok();
    let mut steps = BTreeMap::new();
    for line in done.stdout.lines() {
        let step: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}: {done}"));
        assert!(step["ok"] == true || step["ok"] == "peer-cannot", "{step}: {done}");
        steps.insert(step["step"].as_str().expect("a name").to_owned(), step);
    }
    assert!(!steps.is_empty(), "no steps: {done}");
    steps
}

/// All steps of a session, in the era and revision that was to be agreed on.
fn session(client: &str, client_args: &[&str], serve: &[&str], era: &str, revision: &str) {
    let steps = steps(client, client_args, serve);
    let expected = [
        "alive",
        "call",
        "cancel",
        "end",
        "in-flight",
        "list",
        "negotiate",
        "nothing-stray",
        "progress",
        "structured",
        "tool-error",
        "unknown-tool",
    ];
    // By name, so that a step that is skipped by mistake does not pass for a good one.
    assert_eq!(steps.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    let agreed = &steps["negotiate"];
    assert_eq!((agreed["era"].as_str(), agreed["version"].as_str()), (Some(era), Some(revision)), "{agreed}");
    // Optional in the modern era, and the only way there to know whom one talks to.
    assert!(agreed["server"]["name"].is_string(), "{agreed}");
    say(&format!(
        "interop, our server {serve:?}, {client} {client_args:?}: {revision}, {} steps, progress {}",
        steps.len(),
        steps["progress"]["progress"]
    ));
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-021 BASE-008 LIFE-003 VER-003 VER-018 TOOL-001
// covers: TOOL-013 TOOL-015 TOOL-021 TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 PING-002
#[test]
fn their_client_v1_with_our_server() {
    if peers_ready() {
        session("client-v1.mjs", &[], &[], "legacy", LEGACY);
        session("client-v1.mjs", &[], &["--era", "legacy"], "legacy", LEGACY);
    }
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-014 STDIO-018 STDIO-019 STDIO-021 BASE-008 BASE-026
// covers: BASE-027 VER-011 VER-013 VER-018 CACHE-001 META-018 TOOL-001 TOOL-002 TOOL-013 TOOL-015 TOOL-021
// covers: TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 CANC-020
#[test]
fn their_client_v2_modern_with_our_server() {
    if peers_ready() {
        session("client-v2.mjs", &["--era", "modern"], &["--era", "modern"], "modern", MODERN);
        session("client-v2.mjs", &["--era", "modern"], &[], "modern", MODERN);
    }
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-021 BASE-008 LIFE-003 VER-003 VER-018 TOOL-001
// covers: TOOL-013 TOOL-015 TOOL-021 TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 PING-002
#[test]
fn their_client_v2_legacy_with_our_server() {
    if peers_ready() {
        session("client-v2.mjs", &["--era", "legacy"], &["--era", "legacy"], "legacy", LEGACY);
        session("client-v2.mjs", &["--era", "legacy"], &[], "legacy", LEGACY);
    }
}

// This client waits a minute for the answer to its probe, so not even a slow machine sends it into the wrong era.
// covers: VER-011 VER-013 VER-016 VER-018
#[test]
fn their_client_v2_finds_our_era() {
    if peers_ready() {
        session("client-v2.mjs", &["--era", "auto"], &[], "modern", MODERN);
        session("client-v2.mjs", &["--era", "auto"], &["--era", "modern"], "modern", MODERN);
        session("client-v2.mjs", &["--era", "auto"], &["--era", "legacy"], "legacy", LEGACY);
    }
}

// covers: VER-032 VER-033 ERR-008
#[test]
fn their_clients_in_the_era_that_our_server_lacks() {
    if !peers_ready() {
        return;
    }
    for (client, era) in [("client-v1.mjs", &[][..]), ("client-v2.mjs", &["--era", "legacy"])] {
        let mut args = era.to_vec();
        args.push("--expect-refusal");
        let refused = &steps(client, &args, &["--era", "modern"])["refused"];
        assert_eq!(refused["code"], -32022, "{refused}");
        assert_eq!(refused["data"], json!({"supported": [MODERN], "requested": LEGACY}), "{refused}");
        // All that a client of this age can do with it is to show it to somebody.
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(MODERN)), "{refused}");
    }
    steps("client-v2.mjs", &["--era", "modern", "--expect-refusal"], &["--era", "legacy"]);
    say("interop, our server pinned to the other era: their clients are refused, with the versions");
}
