//! The `bridge` command between a client and a server, in all combinations of eras and transports.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Instant;

use crate::http::ServingProcess;
use crate::support::{ClosedAddress, PROBE, ProbeOutput, probe, probe_command};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Runs `mcp-probe ARGS -- mcp-probe bridge BRIDGE`.
fn run_through_bridge(args: &[&str], bridge: &[&str]) -> ProbeOutput {
    probe(&[args, &["--", PROBE, "bridge"], bridge].concat())
}

/// Tries something of every kind with a client that runs through `ask`.
pub(crate) fn assert_all_features(ask: &dyn Fn(&[&str]) -> ProbeOutput, client: &str) {
    let era = ["--era", client];
    let done = ask(&[&["inspect", "--json"], &era[..]].concat()).assert_ok();
    let seen = done.json();
    assert_eq!((&seen["era"], &seen["server"]["name"]), (&client.into(), &"mcp-probe".into()), "{done}");
    assert!(seen["tools"].as_array().is_some_and(|tools| tools.len() > 10), "{done}");
    let done = ask(&[&["call", "count", "--args", r#"{"to":3}"#], &era[..]].concat()).assert_ok();
    let done = done.assert_stdout(&["counted to 3"]);
    // A slow machine merges reports, but the last one arrives (PROG-013).
    let reports: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("progress ")).collect();
    assert!(
        reports.is_sorted() && reports.last().is_some_and(|last| last.starts_with("progress 3/3")),
        "{done}"
    );
    // One that may run as a task, and one that has to.
    let task = ["call", "slow_compute", "--args", r#"{"seconds":1,"label":"keel"}"#];
    ask(&[&task, &era[..]].concat()).assert_ok().assert_stdout(&["computed keel for 1 s"]);
    ask(&[&["call", "failing_job"], &era[..]].concat())
        .assert_code(1)
        .assert_stdout(&["this job always fails"]);
    let guest =
        ["call", "sign", "--answer", r#"guest={"name":"Ada"}"#, "--answer", r#"elicit={"name":"Ada"}"#];
    ask(&[&guest, &era[..]].concat()).assert_ok().assert_stdout(&["Hello, Ada!"]);
    ask(&[&["read", "test://static-text"], &era[..]].concat()).assert_ok();
    ask(&[&["complete", "prompt:travel_plan", "country", "n"], &era[..]].concat())
        .assert_ok()
        .assert_stdout(&["norway"]);
    let logs = ["call", "test_logging_tool", "--log", "info"];
    ask(&[&logs, &era[..]].concat()).assert_ok().assert_stderr(&["log: info"]);
    let follow = ["listen", "clock://running", "--count", "2", "--for", "30s"];
    let listened = ask(&[&follow, &era[..]].concat())
        .assert_ok()
        .assert_stdout(&["the requested number of changes has arrived"]);
    assert_eq!(listened.stdout.matches("changed    clock://running").count(), 2, "{listened}");
    ask(&[&["call", "fail"], &era[..]].concat()).assert_code(1);
}

/// Clients of the TypeScript SDK 1.x lose progress that they read together with the result.
#[test]
fn result_is_written_later_than_the_progress_before_it() {
    let welcome = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    // Progress and the result in one write.
    let script = r#"while read -r line; do id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); case $line in
        *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":WELCOME}\n' "$id";;
        *discover*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
        *tools/call*) t=$(printf %s "$line" | sed 's/.*"progressToken":\([^,}]*\).*/\1/')
            p='{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}\n'
            printf "$p$p"'{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$t" 1 "$t" 2 "$id";;
        esac; done"#;
    let mut bridge = probe_command()
        .args(["bridge", "--era", "legacy", "--", "sh", "-c", &script.replace("WELCOME", welcome)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let (mut input, mut output) = (bridge.stdin.take().expect("piped"), bridge.stdout.take().expect("piped"));
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let mut chunk = vec![0; 1 << 16];
    writeln!(input, "{hello}").expect("a bridge");
    let _ = output.read(&mut chunk).expect("an answer");
    writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).expect("a bridge");
    for id in 1..=5 {
        let params = format!(r#"{{"name":"a","arguments":{{}},"_meta":{{"progressToken":{id}}}}}"#);
        writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
            .expect("a bridge");
        let mut read = String::new();
        while !read.contains("\"progress\":2") {
            let n = output.read(&mut chunk).expect("progress");
            read.push_str(&String::from_utf8_lossy(&chunk[..n]));
        }
        assert!(!read.contains("\"result\""), "{read}");
        let n = output.read(&mut chunk).expect("a result");
        assert!(String::from_utf8_lossy(&chunk[..n]).contains("\"result\""));
    }
    drop(input);
    bridge.wait().expect("an end");
}

/// The time between progress and a result is that of one call, and not of the bridge.
#[test]
#[cfg(unix)]
fn results_of_many_calls_wait_for_their_progress_side_by_side() {
    const CALLS: usize = 200;
    let welcome = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    // Progress and results of all calls in one write.
    let script = r#"n=0; all=; while read -r line; do case $line in
        *'"initialize"'*) i=${line#*'"id":'}; printf '{"jsonrpc":"2.0","id":%s,"result":WELCOME}\n' "${i%%,*}";;
        *tools/call*) i=${line#*'"id":'}; t=${line#*'"progressToken":'}; t=${t%%[,\}]*}
            all="$all{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$t,\"progress\":1}}
{\"jsonrpc\":\"2.0\",\"id\":${i%%,*},\"result\":{\"content\":[]}}
"; n=$((n + 1)); [ $n = CALLS ] && printf '%s' "$all";;
        esac; done"#;
    let script = script.replace("WELCOME", welcome).replace("CALLS", &CALLS.to_string());
    let mut bridge = BridgeProcess::new(&["--era", "legacy", "--", "sh", "-c", &script]);
    for id in 2..2 + CALLS {
        let params = format!(r#"{{"name":"a","arguments":{{}},"_meta":{{"progressToken":{id}}}}}"#);
        bridge
            .send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#));
    }
    let first = bridge.read_line();
    assert!(first.contains("\"progress\":1"), "{first}");
    let begun = Instant::now();
    let mut results = 0;
    while results < CALLS {
        let line = bridge.read_line();
        assert!(!line.is_empty(), "{results}");
        results += usize::from(line.contains("\"result\""));
    }
    // One after the other they would take four seconds.
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(bridge.close().0, Some(0));
}

#[test]
fn bridge_connects_stdio_client_to_http_server() {
    for server in ERAS {
        let serving = ServingProcess::new(&["--everything", "--era", server]);
        for client in ERAS {
            assert_all_features(&|args| run_through_bridge(args, &[&serving.url]), client);
        }
    }
}

#[test]
fn bridge_connects_http_client_to_stdio_server() {
    for server in ERAS {
        let bridge = ServingProcess::bridge(&["--", PROBE, "serve", "--everything", "--era", server]);
        for client in ERAS {
            assert_all_features(&|args| probe(&[args, &[&bridge.url]].concat()), client);
        }
    }
}

#[test]
fn bridge_connects_eras_on_one_transport() {
    for (client, server) in [("legacy", "modern"), ("modern", "legacy")] {
        assert_all_features(
            &|args| run_through_bridge(args, &["--", PROBE, "serve", "--everything", "--era", server]),
            client,
        );
        let serving = ServingProcess::new(&["--everything", "--era", server]);
        let bridge = ServingProcess::bridge(&[&serving.url]);
        assert_all_features(&|args| probe(&[args, &[&bridge.url]].concat()), client);
    }
}

#[test]
fn bridge_restricts_clients_to_an_era() {
    let done = run_through_bridge(
        &["inspect", "--json"],
        &["--client-era", "legacy", "--", PROBE, "serve", "--era", "modern"],
    );
    assert_eq!(done.assert_ok().json()["era"], "legacy");
}

#[test]
fn bridge_names_unreachable_server() {
    let begin = |args: &[&str]| {
        let mut child = probe_command()
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
    let closed = ClosedAddress::new();
    let unreachable = format!("http://{closed}/mcp");
    let done = begin(&[&unreachable]);
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(3) && stderr.contains(&closed.to_string()), "{stderr}");
    let done = begin(&["--", "/nowhere/at/all"]);
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(3) && stderr.contains("/nowhere/at/all"), "{stderr}");
    // The client is told, too.
    let answer: serde_json::Value = serde_json::from_slice(&done.stdout).expect("one answer");
    let told = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(answer["id"] == 1 && told.contains("cannot be started") && told.contains("/nowhere"), "{answer}");
    // Neither it nor the operator is told a secret of the server.
    let done = begin(&["--", "sh", "-c", "echo token=hunter2hunter"]);
    let [told, stderr] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(told.contains("token=[masked]") && !(told + &stderr).contains("hunter2"), "{stderr}");
    // Mistakes on the command line.
    probe(&["bridge", "--bearer", "x", "--http", "127.0.0.1:0", "--", "true"])
        .assert_code(2)
        .assert_stderr(&["--bearer"]);
    probe(&["bridge"]).assert_code(2);
    probe(&["bridge", "--http", "nonsense", "--", "true"])
        .assert_code(2)
        .assert_stderr(&["cannot listen at nonsense"]);
    // Stdin is empty, so there is no client and nothing to do.
    probe(&["bridge", &unreachable]).assert_ok();
}

/// A bridge or a gateway on stdio, driven line by line.
pub(crate) struct BridgeProcess {
    child: std::process::Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl BridgeProcess {
    fn new(bridge: &[&str]) -> Self {
        Self::start(&[&["bridge"], bridge].concat())
    }

    /// Starts `mcp-probe ARGS`, and initializes a session.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = probe_command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut bridge_process = Self { child, lines };
        bridge_process.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#);
        assert!(bridge_process.read_line().contains("\"serverInfo\""));
        bridge_process.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        bridge_process
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
    }

    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("UTF-8");
        line
    }

    pub(crate) fn close(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut stderr = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), stderr)
    }
}

#[test]
fn bridge_starts_a_server_that_died_again() {
    let flag = FlagFolder::new("stdio");
    let mut bridge_process =
        BridgeProcess::new(&["--era", "legacy", "--", "sh", "-c", MORTAL_SERVER, PROBE, &flag.0]);
    bridge_process.send_line(
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#,
    );
    let error = bridge_process.read_line();
    assert!(error.contains("\"id\":2") && error.contains("the server behind the bridge is gone"), "{error}");
    // It waits for the next server, which may offer other tools.
    bridge_process.send_line(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#,
    );
    let change = bridge_process.read_line();
    assert!(change.contains("notifications/tools/list_changed"), "{change}");
    let answer = bridge_process.read_line();
    assert!(answer.contains("\"id\":3,\"result\""), "{answer}");
    let (code, stderr) = bridge_process.close();
    let told = "the server is started again: \"sh\" ended in the middle of the session";
    assert!(code == Some(0) && stderr.contains(told), "{code:?} {stderr}");
}

#[test]
fn bridge_over_http_outlives_its_server() {
    let flag = FlagFolder::new("http");
    let bridge =
        ServingProcess::bridge(&["--era", "legacy", "--", "sh", "-c", MORTAL_SERVER, PROBE, &flag.0]);
    let call = ["call", "echo", "--args", r#"{"text":"x"}"#, "--era", "modern", &bridge.url];
    // Its list of tools fails with the first server, and the call itself waits for the second one.
    probe(&call).assert_ok().assert_stdout(&["x"]);
    let stderr = bridge.stop();
    assert!(stderr.contains("the server is started again: \"sh\" ended"), "{stderr}");
}

#[test]
fn server_that_cannot_be_started_again_fails_calls() {
    let flag = FlagFolder::new("broken");
    let script = format!("[ -d \"$1\" ] && exit 1; {MORTAL_SERVER}");
    let bridge = ServingProcess::bridge(&["--era", "legacy", "--", "sh", "-c", &script, PROBE, &flag.0]);
    let call = ["call", "echo", "--args", r#"{"text":"x"}"#, "--era", "modern", &bridge.url];
    probe(&call).assert_code(1).assert_stderr(&["the server behind the bridge cannot be started: "]);
    let stderr = bridge.stop();
    assert!(stderr.contains("the server cannot be started again: \"sh\" is not an MCP server"), "{stderr}");
}

#[test]
fn bridge_answers_running_calls_after_end_of_input() {
    let mut bridge_process = BridgeProcess::new(&["--", PROBE, "serve", "--era", "modern"]);
    bridge_process.send_line(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":2,"delay_ms":100}}}"#);
    drop(bridge_process.child.stdin.take());
    let answer = bridge_process.read_line();
    assert!(answer.contains("counted to 2"), "{answer}");
    let begun = Instant::now();
    let (code, stderr) = bridge_process.close();
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
#[cfg(target_os = "linux")]
fn client_that_ends_while_its_server_still_connects_leaves_nothing() {
    // With the output of the bridge its client is gone for certain. Else it has the time of calls that run.
    for (reads_on, limit) in [(false, 5), (true, 15)] {
        let file =
            std::env::temp_dir().join(format!("mcp-bridge-connecting-{reads_on}-{}", std::process::id()));
        let mut bridge = probe_command()
            .args(["bridge", "--connect-timeout", "120s", "--", "sh", "-c"])
            .args(["echo $$ > \"$0\"; exec sleep 600", file.to_str().expect("UTF-8")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program under test starts");
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        writeln!(bridge.stdin.as_mut().expect("piped"), "{initialize}").expect("it reads");
        let begun = Instant::now();
        let id = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.ends_with('\n') {
                break text.trim().to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no server was started");
            std::thread::sleep(Duration::from_millis(20));
        };
        drop(bridge.stdin.take());
        let mut output = bridge.stdout.take().filter(|_| reads_on);
        let begun = Instant::now();
        assert_eq!(bridge.wait().expect("it ends").code(), Some(0));
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(limit), "{taken:?}");
        assert!(!reads_on || taken > Duration::from_secs(4), "its last calls have no time: {taken:?}");
        let mut told = String::new();
        if let Some(output) = &mut output {
            output.read_to_string(&mut told).expect("text");
        }
        assert!(!reads_on || told.contains(r#""id":1,"error""#), "{told}");
        assert!(crate::signals::has_exited(&id), "the server {id} goes on");
        let _ = std::fs::remove_file(&file);
    }
}

#[test]
fn idle_bridge_uses_no_cpu() {
    let bridge = ServingProcess::bridge(&["--", PROBE, "serve"]);
    probe(&["ping", &bridge.url]).assert_ok();
    // The end of the client may still take some, on a busy machine.
    let is_idle = |_| {
        let Some(before) = bridge.cpu_ticks() else { return true };
        std::thread::sleep(Duration::from_secs(1));
        bridge.cpu_ticks().expect("it runs") - before <= 5
    };
    assert!((0..10).any(is_idle), "it uses CPU without work");
}

/// A folder that the first server makes, so that the next one lives on.
pub(crate) struct FlagFolder(pub(crate) String);

impl FlagFolder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-bridge-{name}-{}", std::process::id()));
        Self(path.to_str().expect("UTF-8").to_owned())
    }
}

impl Drop for FlagFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Script of a server that answers the handshake and dies of the first call, unless the folder is there already.
pub(crate) const MORTAL_SERVER: &str = r#"if mkdir "$1"; then
    { for i in 1 2; do read -r l; printf '%s\n' "$l"; done; read -r l; kill -9 $$; } | "$0" serve --era legacy
else exec "$0" serve --era legacy; fi"#;
