//! `serve --chaos`: disturbed messages, what this program's client does about each kind, and that a seed repeats them.

use core::time::Duration;

use serde_json::{Value, json};

use crate::http::ServingProcess;
use crate::support::{ProbeOutput, probe, probe_own_server, run_with_input};

/// Kind, exit code of a call, and words on stderr. The handshake is left alone.
const KINDS: [(&str, i32, &str); 18] = [
    ("late", 4, "timed out: no answer within"),
    ("twice", 0, ""),
    ("cut", 3, "in the middle of a message"),
    ("out-of-order", 4, "timed out"),
    ("wrong-id", 4, "an answer to an unknown request (id 10000"),
    ("huge", 1, "the answer is longer than the limit of 16777216 bytes"),
    ("silent", 4, "timed out: no answer within"),
    ("both", 1, "the answer is malformed"),
    ("string-id", 4, "an answer to an unknown request (id \""),
    ("null-id", 4, "`id` is neither a string nor an integer"),
    ("invalid-utf8", 1, "invalid UTF-8"),
    ("log-line", 0, "is not a message: 2026-01-01T00:00:00Z INFO"),
    ("blank-line", 0, ""),
    ("batch", 4, "batches are not allowed here"),
    ("truncated", 1, "the answer is malformed: invalid JSON"),
    ("late-progress", 0, ""),
    ("big-number", 0, ""),
    ("deep", 1, "nested too deep"),
];

/// Calls a tool of a server that disturbs each message after the first one like this, and waits so long for the answer.
fn call(kind: &str, era: &str, timeout: &str) -> ProbeOutput {
    let serve = ["--chaos", "1", "--chaos-kinds", kind, "--chaos-rate", "100%", "--chaos-after", "1"];
    let serve = [&serve[..], &["--chaos-delay", "3s"]].concat();
    probe_own_server(&["call", "echo", "text=hi", "--timeout", timeout, "--era", era], &serve)
}

// covers: BASE-002, BASE-008, BASE-009, STDIO-011, STDIO-012, STDIO-028, PROG-012
#[test]
fn client_survives_each_kind_of_disturbance() {
    for (at, (kind, code, words)) in KINDS.into_iter().enumerate() {
        // Only what is late may depend on how fast this machine is.
        let timeout = if code == 4 { "1s" } else { "20s" };
        let done = call(kind, ["legacy", "modern"][at % 2], timeout).assert_code(code);
        assert_eq!(done.stdout == "hi\n", code == 0, "{done}");
        assert!(done.elapsed < Duration::from_secs(30), "{done}");
        assert!(done.stderr.contains(&format!("chaos: message 2 (response 65537): {kind}\n")), "{done}");
        done.assert_stderr(&[words]);
    }
}

#[test]
fn client_survives_a_disturbed_handshake() {
    for (kind, _, _) in KINDS {
        let serve = ["--chaos", "1", "--chaos-kinds", kind, "--chaos-rate", "100", "--chaos-delay", "1ms"];
        let args = ["ping", "-n", "1", "--timeout", "1s", "--connect-timeout", "1s"];
        let done = probe_own_server(&args, &serve);
        let code =
            [0, 1, 3, 4].into_iter().find(|code| done.to_string().contains(&format!("exit status: {code}")));
        assert!(code.is_some() && !done.stderr.contains("panicked"), "{done}");
    }
}

#[test]
fn list_has_each_kind_with_its_rules() {
    let rows = probe(&["serve", "--list", "--json"]).assert_ok().json();
    let rows = rows.as_array().expect("an array").clone();
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds, KINDS.map(|(kind, _, _)| kind));
    let text = probe(&["serve", "--list"]).assert_ok().stdout;
    let known = include_str!("../../../../tests/spec-map.tsv");
    for row in &rows {
        for member in ["kind", "does", "client"] {
            assert!(text.contains(row[member].as_str().expect("a string")), "{row}");
        }
        for rule in row["rules"].as_array().expect("an array") {
            assert!(known.contains(&format!("\n{}\t", rule.as_str().expect("an id"))), "{row}");
        }
    }
}

#[test]
fn same_seed_gives_the_same_bytes_on_every_runtime() {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let pings = (1..=40).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    let input: String =
        [initialize, initialized].into_iter().chain(pings).map(|message| format!("{message}\n")).collect();
    // Without those that end the stream, are not text, or are large.
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _, _)| *kind).collect();
    let kinds: Vec<&str> =
        kinds.into_iter().filter(|kind| !["cut", "invalid-utf8", "huge"].contains(kind)).collect();
    let kinds = kinds.join(",");
    let serve = |seed: &str, runtime: &str| {
        let args = ["serve", "--chaos", seed, "--chaos-rate", "50", "--chaos-kinds", &kinds];
        let more = ["--chaos-delay", "5ms", "--runtime", runtime];
        let done = run_with_input(&[&args[..], &more].concat(), &[], &input).assert_ok();
        (done.stdout, done.stderr)
    };
    let (stdout, stderr) = serve("42", "blocking");
    let told = stderr.lines().filter(|line| line.starts_with("chaos: message ")).count();
    assert!((8..=33).contains(&told), "{told}: {stderr}");
    for runtime in ["blocking", "threads", "smol", "tokio"] {
        assert_eq!(serve("42", runtime), (stdout.clone(), stderr.clone()), "{runtime}");
    }
    assert_ne!(serve("43", "blocking").0, stdout);
    // What is left alone is as it was.
    let untouched = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(untouched.filter(|message| message["result"] == json!({})).count() > 10, "{stdout}");
}

#[test]
fn connections_of_a_socket_are_disturbed_each_in_its_own_way() {
    let address = ["serve", "--listen", "tcp://127.0.0.1:0"];
    let chaos = ["--chaos", "9", "--chaos-kinds", "log-line,blank-line,twice", "--chaos-rate", "100"];
    let server = ServingProcess::listening(&address, &chaos);
    for _ in 0..2 {
        probe(&["call", "echo", "text=hi", "--era", "legacy", &server.url])
            .assert_ok()
            .assert_stdout(&["hi"]);
    }
    let stderr = server.stop();
    for connection in
        ["chaos: connection 1, message 1 (response ", "chaos: connection 2, message 1 (response "]
    {
        assert!(stderr.contains(connection), "{stderr}");
    }
}

/// Late messages, each of which would wait for an hour.
#[cfg(unix)]
#[test]
fn end_of_the_input_and_a_signal_end_the_program_without_pauses() {
    use std::io::Write as _;
    use std::process::Stdio;

    use rustix::process::{Pid, Signal, kill_process};

    let pings: String =
        (1..=400).map(|id| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))).collect();
    for signal in [None, Some(Signal::TERM)] {
        let mut command = crate::support::probe_command();
        command.args(["serve", "--chaos", "1", "--chaos-kinds", "late", "--chaos-rate", "100"]);
        command.args(["--chaos-delay", "600s"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("the program under test starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(pings.as_bytes()).expect("it reads");
        std::thread::sleep(Duration::from_secs(1));
        let begun = std::time::Instant::now();
        let kept = match signal {
            None => {
                drop(stdin);
                None
            }
            Some(signal) => {
                kill_process(Pid::from_child(&child), signal).expect("it runs");
                Some(stdin)
            }
        };
        let done = child.wait_with_output().expect("it ends");
        drop(kept);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(done.stdout.iter().filter(|byte| **byte == b'\n').count() > 100, "what was late still comes");
    }
}

#[test]
fn invalid_options_are_usage_errors() {
    let cases: [(&[&str], &str); 5] = [
        (&["--chaos", "1", "--http", "127.0.0.1:0"], "--chaos disturbs streams"),
        (&["--chaos", "1", "--chaos-rate", "101%"], "must be from 0% to 100%"),
        (&["--chaos", "1", "--chaos-kinds", "loud"], "invalid value 'loud'"),
        (&["--chaos-kinds", "late"], "--chaos <SEED>"),
        (&["--json"], "--list"),
    ];
    for (args, words) in cases {
        probe(&[&["serve"], args].concat()).assert_code(2).assert_stderr(&[words]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn session_on_a_terminal_shows_no_control_characters_of_the_client() {
    use crate::terminal::run_on_terminal;

    // The id of a request is told as the client wrote it.
    let typed = "{\"jsonrpc\":\"2.0\",\"id\":\"\\u001b[31m\",\"method\":\"ping\"}\n\x04";
    for columns in [80, 200] {
        let args = ["serve", "--chaos", "1", "--chaos-rate", "100", "--chaos-kinds", "twice"];
        let width = columns.to_string();
        let (code, stdout, shown) = run_on_terminal(&args, &[("COLUMNS", &width)], typed);
        assert_eq!((code, stdout.lines().count()), (Some(0), 2), "{shown}");
        assert!(shown.contains("chaos: message 1 (") && !shown.contains("\u{1b}[31m"), "{shown}");
        let (code, table, _) = run_on_terminal(&["serve", "--list"], &[("COLUMNS", &width)], "");
        assert!(code == Some(0) && table.lines().all(|line| line.len() <= columns), "{table}");
    }
}
