//! `bench`: its numbers agree, an open loop counts waiting, and failures are told by kind.

use serde_json::{Value, json};

use crate::http::ServingProcess;
use crate::json_output::assert_fits;
use crate::shell_server::{ShellServer, complete, method_pattern, result_action};
use crate::support::{PROBE, ProbeOutput, probe, probe_own_server};

/// Runs `mcp-probe bench ARGS --json` on a server, without warm-up.
fn bench(args: &[&str], server: &[&str]) -> ProbeOutput {
    probe(&[&["bench", "--json", "--warm-up", "0"], args, server].concat())
}

/// Checks that the numbers of a report agree, and returns the number of calls.
fn assert_consistent(report: &Value) -> u64 {
    let number = |member: &str| report[member].as_u64().unwrap_or_else(|| panic!("{member}: {report}"));
    let sum = |list: &str| {
        let list = report[list].as_array().expect("an array");
        list.iter().map(|entry| entry["calls"].as_u64().expect("a number")).sum::<u64>()
    };
    assert_eq!(number("calls"), number("succeeded") + number("failed") + number("unanswered"), "{report}");
    assert_eq!((sum("histogram"), sum("errors")), (number("succeeded"), number("failed")), "{report}");
    if number("succeeded") == 0 {
        assert_eq!(report["milliseconds"], Value::Null);
    } else {
        let times = ["min", "p50", "p90", "p99", "p999", "max"];
        let times = times.map(|name| report["milliseconds"][name].as_f64().expect("a number"));
        assert!(times.is_sorted() && times[0] > 0.0, "{report}");
    }
    number("calls")
}

/// Returns a server that answers each call of a tool after 50 ms.
fn slow_server() -> String {
    let result = result_action(&json!({"content": []}));
    ShellServer::legacy().on_line(&method_pattern("tools/call"), &format!("sleep 0.05; {result}")).script()
}

#[test]
fn calls_of_a_closed_loop_are_all_counted() {
    let server = ["--", PROBE, "serve"];
    for (more, connections) in [(&["--connections", "3", "--in-flight", "4"][..], 3), (&[][..], 1)] {
        let report =
            bench(&[&["echo", "text=hi", "--calls", "200"], more].concat(), &server).assert_ok().json();
        assert_eq!((assert_consistent(&report), &report["failed"]), (200, &json!(0)));
        assert_eq!((&report["connections"], &report["rate"]), (&json!(connections), &Value::Null));
        if cfg!(target_os = "linux") {
            let usage = &report["server"];
            assert_eq!(usage["processes"], connections, "{report}");
            for memory in ["peakBytes", "residentBytes"] {
                let [sum, largest] =
                    ["sum", "largest"].map(|member| usage[memory][member].as_u64().unwrap_or(0));
                assert!(largest > 100_000 && sum >= largest && sum <= connections * largest, "{report}");
            }
        }
    }
}

#[test]
fn other_requests_and_servers_can_be_measured() {
    let server = ServingProcess::new(&[]);
    for (args, request) in [
        (&["echo", "text=hi"][..], "tool echo"),
        (&["--method", "tools/list"], "tools/list"),
        (&["--method", "ping", "--era", "legacy"], "ping"),
    ] {
        let report = bench(&[args, &["--calls", "20"]].concat(), &[&server.url]).assert_ok().json();
        assert_eq!((assert_consistent(&report), &report["request"]), (20, &json!(request)));
        assert_eq!(report["server"], Value::Null, "it was not started");
    }
    let report =
        bench(&["--method", "ping", "--era", "legacy", "--for", "300ms"], &[&server.url]).assert_ok().json();
    assert!(assert_consistent(&report) > 0);
}

/// The server needs 50 ms for a call, and one is due every 20 ms: the last one has waited for those before it.
#[test]
fn open_loop_counts_the_time_that_calls_wait() {
    let script = slow_server();
    let server = ["--era", "legacy", "--", "sh", "-c", &script];
    let open = bench(&["any", "--calls", "20", "--rate", "50"], &server).assert_ok().json();
    assert_eq!((assert_consistent(&open), &open["inFlight"]), (20, &Value::Null));
    let most = |report: &Value| report["milliseconds"]["max"].as_f64().expect("a number");
    // 20 calls take 1 s, and the last one was due after 380 ms.
    assert!(most(&open) > 600.0, "{open}");
    // The time of one call is that in which no other is due.
    let one = bench(&["echo", "text=hi", "--calls", "1", "--rate", "2"], &["--", PROBE, "serve"]).assert_ok();
    let one = one.json();
    assert!(one["callsPerSecond"].as_f64().is_some_and(|rate| rate <= 2.0), "{one}");
    let closed = bench(&["any", "--calls", "20"], &server).assert_ok().json();
    assert_eq!(assert_consistent(&closed), 20);
    assert!(closed["milliseconds"]["min"].as_f64().expect("a number") >= 49.9, "{closed}");
}

#[test]
fn failures_are_told_by_kind_with_an_example() {
    let evil = "\u{1b}[2J\u{202e}gone";
    let refusal = json!({"content": [{"type": "text", "text": evil}], "isError": true});
    let script = ShellServer::legacy()
        .on_line("*'\"tools/call\"'*'\"name\":\"tool\"'*", &result_action(&refusal))
        .on_line("*'\"tools/call\"'*'\"name\":\"empty\"'*", &result_action(&json!({})))
        .on_line("*'\"tools/call\"'*'\"name\":\"silent\"'*", ":")
        .on_line("*'\"tools/call\"'*'\"name\":\"dead\"'*", "exit 7")
        .script();
    let server = ["--era", "legacy", "--timeout", "1s", "--", "sh", "-c", &script];
    let cases = [
        ("tool", 3, "toolError", "gone"),
        ("empty", 3, "malformed", "content"),
        ("silent", 3, "timeout", "no answer in time"),
        ("dead", 1, "connection", "exit status: 7"),
        ("other", 3, "error -32602", "no"),
    ];
    for (tool, calls, kind, example) in cases {
        let code = if tool == "dead" { 3 } else { 1 };
        let done = bench(&[tool, "--calls", "3"], &server).assert_code(code);
        let report = done.json();
        assert_eq!((assert_consistent(&report), report["failed"].as_u64()), (calls, Some(calls)), "{done}");
        assert_fits("bench", &report);
        assert_eq!(report["errors"][0]["kind"], kind, "{done}");
        assert!(report["errors"][0]["example"].as_str().is_some_and(|text| text.contains(example)), "{done}");
        assert!(!done.stdout.contains(['\u{1b}', '\u{202e}']), "{done}");
        let words = if tool == "dead" { "ended early" } else { "failed, and --allow-errors allows 0" };
        done.assert_stderr(&[words]);
        let allowed = bench(&[tool, "--calls", "3", "--allow-errors", "3"], &server);
        if tool == "dead" {
            allowed.assert_code(3).assert_stderr(&["1 connection ended early; calls that were not made: 2"]);
        } else {
            allowed.assert_ok();
        }
    }
    // A server that is gone before anything is measured is no success.
    let args = ["bench", "dead", "--calls", "3", "--warm-up", "5s"];
    let done = probe(&[&args[..], &server].concat()).assert_code(3);
    done.assert_stdout(&["1 × connection: ", "exit status: 7"])
        .assert_stderr(&["1 connection ended early; calls that were not made: 2"]);
}

#[test]
fn server_that_cannot_be_started_or_reached_ends_the_command_at_once() {
    probe(&["bench", "echo", "--connections", "4", "--", "/nonexistent/server"]).assert_code(3);
    let cases: [(&[&str], &str); 5] = [
        (&["--rate", "0", "x"], "must be a number of calls in a second"),
        (&["--rate", "5", "--in-flight", "2", "x"], "--in-flight"),
        (&["--method", "ping", "x"], "cannot be used with"),
        (&["--runtime", "threads", "x"], "leave --runtime out"),
        (&[], "<TOOL>"),
    ];
    for (args, words) in cases {
        probe_own_server(&[&["bench"], args].concat(), &[]).assert_code(2).assert_stderr(&[words]);
    }
}

#[test]
fn server_over_http_that_is_gone_is_not_asked_as_fast_as_possible() {
    let server = ServingProcess::new(&[]);
    let url = server.url.clone();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(core::time::Duration::from_millis(1_500));
        server.stop();
    });
    let report =
        bench(&["--method", "ping", "--era", "legacy", "--for", "4s"], &[&url]).assert_code(1).json();
    killer.join().expect("the server ends");
    assert!(report["failed"].as_u64().is_some_and(|failed| (1..200).contains(&failed)), "{report}");
}

#[cfg(target_os = "linux")]
#[test]
fn signal_ends_the_measurement_of_a_server_that_does_not_read() {
    use core::time::Duration;
    use std::process::Stdio;

    use rustix::process::{Pid, Signal, kill_process};

    let script = ShellServer::legacy().on_line(&method_pattern("tools/call"), "sleep 600").script();
    let text = format!("text={}", "x".repeat(100_000));
    let mut command = crate::support::probe_command();
    command.args(["bench", "any", &text, "--json", "--warm-up", "0", "--for", "10m", "--era", "legacy"]);
    command.args(["--rate", "200", "--timeout", "5m", "--", "sh", "-c", &script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the program under test starts");
    std::thread::sleep(Duration::from_secs(4));
    let begun = std::time::Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let done = child.wait_with_output().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let report = serde_json::from_slice::<Value>(&done.stdout).expect("JSON");
    // Those that were due and not started count as well.
    assert_eq!(assert_consistent(&report), report["unanswered"].as_u64().expect("a number"), "{report}");
    assert!(report["unanswered"].as_u64().is_some_and(|calls| calls > 300), "{report}");
}

#[cfg(target_os = "linux")]
#[test]
fn signal_ends_the_measurement_early_and_prints_it() {
    use core::time::Duration;
    use std::process::Stdio;
    use std::thread;

    use rustix::process::{Pid, Signal, kill_process};

    let script = slow_server();
    let begun = ["0", "10m"].map(|warm_up| {
        let mut command = crate::support::probe_command();
        command.args(["bench", "any", "--json", "--warm-up", warm_up, "--for", "10m", "--era", "legacy"]);
        command.args(["--connections", "2", "--", "sh", "-c", &script]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.expect("the program under test starts")
    });
    thread::sleep(Duration::from_secs(3));
    let [measured, warming] = begun.map(|child| {
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let done = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && stderr.contains("ended early by a signal"), "{stderr}");
        let report = serde_json::from_slice::<Value>(&done.stdout).expect("JSON");
        assert_fits("bench", &report);
        assert_eq!(report["interrupted"], true, "{report}");
        report
    });
    assert!(assert_consistent(&measured) > 0, "{measured}");
    assert_eq!(measured["unanswered"], 2, "{measured}");
    // Nothing is measured before the warm-up is over.
    assert_eq!(assert_consistent(&warming), 0, "{warming}");
}

#[cfg(target_os = "linux")]
#[test]
fn session_on_a_terminal_fits_into_its_width() {
    use crate::terminal::run_on_terminal;

    let evil = json!({"content": [{"type": "text", "text": "\u{1b}[2J"}], "isError": true});
    let script =
        ShellServer::modern().on_line("*'\"name\":\"evil\"'*", &result_action(&complete(evil))).script();
    for columns in [80_usize, 200] {
        for (locale, block) in [("en_GB.UTF-8", '█'), ("C", '#')] {
            let width = columns.to_string();
            let environment = [("COLUMNS", &*width), ("LC_ALL", locale)];
            let args = ["bench", "echo", "text=hi", "--calls", "100", "--warm-up", "0", "--", PROBE, "serve"];
            let (code, stdout, shown) = run_on_terminal(&args, &environment, "");
            assert_eq!(code, Some(0), "{shown}");
            assert!(stdout.lines().all(|line| line.chars().count() <= columns), "{stdout}");
            let blocks = stdout.matches(block).count();
            assert!(blocks > columns.min(120) / 3, "{stdout}");
            assert_eq!(stdout.contains('█'), block == '█', "{stdout}");
        }
        let width = columns.to_string();
        let args = ["bench", "evil", "--calls", "2", "--warm-up", "0", "--", "sh", "-c", &script];
        let (code, stdout, shown) = run_on_terminal(&args, &[("COLUMNS", &width)], "");
        assert!(code == Some(1) && stdout.contains("2 × toolError: \\u001b[2J"), "{stdout}{shown}");
    }
}
