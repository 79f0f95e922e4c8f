//! Options for keep-alive pings, rate limits, the audit log, and completion while typing.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::connect::User;
use crate::http::ServingProcess;
use crate::support::{PROBE, ProbeOutput, probe, probe_command, probe_own_server, run_with_input};

const RUNTIMES: [&str; 4] = ["blocking", "threads", "smol", "tokio"];

// covers: TOOL-032
#[test]
fn call_beyond_the_rate_limit_is_refused() {
    for runtime in RUNTIMES {
        let server = ServingProcess::new(&["--rate-limit", "2/10m", "--runtime", runtime]);
        let call = || probe(&["call", "echo", "--args", r#"{"text":"hi"}"#, &server.url]);
        call().assert_ok();
        call().assert_ok();
        call().assert_code(1).assert_stdout(&["try again"]);
        // Lists are not limited.
        probe(&["inspect", &server.url]).assert_ok();
    }
    probe(&["serve", "--rate-limit", "0/1s"]).assert_code(2).assert_stderr(&["write 10, or 100/1m"]);
}

#[test]
fn audit_log_has_a_line_for_each_call() {
    let directory = TemporaryDirectory::new();
    for runtime in RUNTIMES {
        let file = directory.path().join(format!("{runtime}.jsonl"));
        let path = file.to_str().expect("UTF-8");
        let server =
            ServingProcess::new(&["--audit-log", path, "--rate-limit", "2/10m", "--runtime", runtime]);
        probe(&["call", "echo", "text=secret", &server.url]).assert_ok();
        probe(&["call", "fail", &server.url]).assert_code(1);
        probe(&["call", "echo", "text=secret", &server.url]).assert_code(1);
        server.stop();
        let text = std::fs::read_to_string(&file).expect("a file");
        assert!(!text.contains("secret"), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let seen: Vec<_> = lines.iter().map(|line| (&line["entry"], &line["outcome"])).collect();
        let want = [("echo", "completed"), ("fail", "toolFailed"), ("echo", "toolFailed")];
        assert_eq!(seen.len(), want.len(), "{text}");
        for ((entry, outcome), want) in seen.into_iter().zip(want) {
            assert_eq!((entry, outcome), (&want.0.into(), &want.1.into()), "{text}");
        }
        assert_eq!(
            (&lines[0]["method"], &lines[0]["peer"]),
            (&"tools/call".into(), &"127.0.0.1".into()),
            "{text}"
        );
        assert!(lines[0]["time"].is_f64() && lines[0]["milliseconds"].is_f64(), "{text}");
    }
    let folder = directory.path().to_str().expect("UTF-8");
    probe(&["serve", "--audit-log", folder]).assert_code(2).assert_stderr(&["--audit-log", folder]);
}

/// Sends the handshake of a legacy client to a server, and returns its lines but the first.
fn lines_after_handshake(command: &mut Command) -> impl Iterator<Item = String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut lines =
        BufReader::new(child.stdout.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    writeln!(stdin, "{initialize}").expect("it reads");
    assert!(lines.next().is_some_and(|line| line.contains("serverInfo")));
    writeln!(stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).expect("it reads");
    // The input stays open as long as the lines are read.
    lines.inspect(move |_| {
        assert!(stdin.flush().is_ok() && child.try_wait().expect("it can be asked").is_none())
    })
}

// covers: PING-004
#[test]
fn silent_peer_is_pinged() {
    for runtime in RUNTIMES {
        let mut serve = probe_command();
        serve.args(["serve", "--era", "legacy", "--keep-alive", "1s", "--runtime", runtime]);
        let ping = lines_after_handshake(&mut serve).next().expect("a ping");
        assert!(ping.contains(r#""method":"ping""#), "{runtime}: {ping}");
    }
    // A server that does not answer pings.
    let welcome = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"mute","version":"1"}}}"#;
    let script = format!("read -r l; echo '{welcome}'; cat >/dev/null");
    let mute = ["--", "sh", "-c", &script, PROBE];
    let listen = ["listen", "--era", "legacy", "--keep-alive", "1s", "--for", "30s"];
    let done = probe(&[&listen[..], &mute].concat()).assert_code(3);
    assert!(done.elapsed < Duration::from_secs(25), "{done}");
    done.assert_stderr(&["ping"]);
    let mut bridge = probe_command();
    bridge.args(["bridge", "--era", "legacy", "--keep-alive", "1s", "--", "sh", "-c", &script]);
    let line = lines_after_handshake(&mut bridge).next().expect("news of another server");
    assert!(
        line.contains("notifications/tools/list_changed"),
        "a server that does not answer is replaced: {line}"
    );
}

// covers: HTTP-032, HTTP-034, ERR-016, VER-032, VER-033
#[test]
fn drafts_are_followed_by_both_sides_with_the_option() {
    for runtime in RUNTIMES {
        let server = ServingProcess::new(&["--draft", "--runtime", runtime]);
        let with = |args: &[&str]| probe(&[args, &["--runtime", runtime, "--trace", &server.url]].concat());
        for era in ["legacy", "modern"] {
            let call = with(&["call", "echo", "text=hi", "--era", era, "--draft"]).assert_ok();
            call.assert_stderr(&["Mcp-Method: tools/call", "Mcp-Name: echo"]);
            with(&["inspect", "--era", era, "--draft"]).assert_ok();
        }
        let opened = with(&["ping", "--era", "legacy", "--draft"]).assert_ok();
        opened.assert_stderr(&["Mcp-Method: initialize", "Mcp-Method: notifications/initialized"]);
        // A legacy client of the release is told what it lacks.
        let refused = with(&["call", "echo", "text=hi", "--era", "legacy"]).assert_code(3);
        refused.assert_stderr(&["-32001", "Header mismatch: `Mcp-Method` is missing", "hint: --draft"]);
        with(&["call", "echo", "text=hi"]).assert_ok();
    }
    let modern = ServingProcess::new(&["--draft", "--era", "modern"]);
    let refused = probe(&["inspect", "--era", "legacy", "--draft", "--trace", &modern.url]).assert_code(3);
    refused.assert_stderr(&["404", "-32601", "2026-07-28"]);
    let unknown =
        probe_own_server(&["inspect", "--era", "legacy", "--trace"], &["--draft", "--era", "modern"]);
    unknown.assert_code(3).assert_stderr(&["-32601", "2026-07-28"]);
}

// covers: HTTP-032, HTTP-033, XHDR-031
#[test]
fn every_command_of_a_client_follows_drafts_with_the_option() {
    let server = ServingProcess::new(&["--draft", "--era", "legacy"]);
    let (url, user, directory) = (&*server.url, User::new(), TemporaryDirectory::new());
    probe(&["check", "--draft", url]).assert_ok();
    probe(&["check", url]).assert_code(1);
    probe(&["doctor", "--draft", url]).assert_ok();
    probe(&["doctor", url]).assert_code(3).assert_stdout(&["--draft"]);
    probe(&["login", "--draft", url]).assert_ok();
    probe(&["login", url]).assert_code(3).assert_stderr(&["--draft"]);
    let entry = json!({"mcpServers": {"far": {"type": "http", "url": url}}});
    let file = directory.write("mcp.json", &entry.to_string());
    let echo = |tool: &str, front: &[&str]| probe(&[&["call", tool, "text=hi", "--"], front].concat());
    echo("echo", &[PROBE, "bridge", "--draft", url]).assert_ok().assert_stdout(&["hi"]);
    echo("echo", &[PROBE, "bridge", url]).assert_code(3).assert_stderr(&["`draft`"]);
    echo("far_echo", &[PROBE, "gateway", "--draft", "--config", &file]).assert_ok().assert_stdout(&["hi"]);
    user.run(&["connect", "far", "--draft", url]).assert_ok();
    user.run(&["call", "@far", "echo", "text=hi"]).assert_ok().assert_stdout(&["hi"]);
    user.run(&["connect", "off", url]).assert_code(3).assert_stderr(&["`draft`"]);
    let allow = format!("far={url}");
    let asked = json!({"server": "far", "tool": "echo", "arguments": {"text": "hi"}}).to_string();
    let ask = |options: &[&str]| {
        let client = ["call", "call", "--args", &asked, "--", PROBE, "mcp", "--allow", &allow];
        probe(&[&client[..], options].concat())
    };
    ask(&["--draft"]).assert_ok().assert_stdout(&["hi"]);
    ask(&[]).assert_code(1).assert_stdout(&["`draft`"]);
}

fn complete_typed(input: &str, more: &[&str]) -> ProbeOutput {
    let complete = ["complete", "prompt:travel_plan", "country", "--typed", "--trace"];
    run_with_input(&[&complete, more, &["--", PROBE, "serve", "--everything"]].concat(), &[], input)
}

// covers: COMP-010
#[test]
fn typed_text_is_completed_after_a_pause() {
    for runtime in RUNTIMES {
        let done = complete_typed("n\nno\nnor\n", &["--runtime", runtime]).assert_ok();
        assert_eq!(done.stdout, "nor:\nnorway\n", "{done}");
        assert_eq!(
            done.stderr.matches("→ {\"jsonrpc\":\"2.0\",\"id\"").count(),
            2,
            "one beside the probe: {done}"
        );
    }
    let done = complete_typed("po\n", &["--json"]).assert_ok();
    let seen = done.json();
    assert_eq!(
        (&seen["text"], &seen["result"]["completion"]["values"][0]),
        (&"po".into(), &"portugal".into()),
        "{done}"
    );
    assert_eq!(complete_typed("", &[]).assert_ok().stdout, "");
    probe(&["complete", "prompt:x", "y", "z", "--typed", "--", "true"])
        .assert_code(2)
        .assert_stderr(&["--typed"]);
}

#[test]
fn typed_text_that_is_known_is_not_asked_for_again() {
    let complete = ["complete", "prompt:travel_plan", "country", "--typed", "--trace"];
    let mut command = probe_command();
    command.args(complete).args(["--", PROBE, "serve", "--everything"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut lines =
        BufReader::new(child.stdout.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    for text in ["nor", "po", "nor"] {
        writeln!(stdin, "{text}").expect("it reads");
        assert_eq!(lines.next(), Some(format!("{text}:")));
        assert!(lines.next().is_some_and(|value| value.starts_with(text)));
    }
    drop(stdin);
    let done = child.wait_with_output().expect("it ends");
    assert!(done.status.success());
    let trace = String::from_utf8(done.stderr).expect("UTF-8");
    assert_eq!(
        trace.lines().filter(|line| line.contains("→") && line.contains("completion/complete")).count(),
        2
    );
}
