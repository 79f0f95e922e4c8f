//! The `listen` command: acknowledged filters, changes, and the end.

use core::time::Duration;

use serde_json::{Value, json};

use crate::support::{PROBE, ProbeOutput, probe};

fn everything(args: &[&str]) -> ProbeOutput {
    probe(&[&["listen"], args, &["--", PROBE, "serve", "--everything"]].concat())
}

// covers: SUB-002, SUB-006, SUB-012, RES-010, RES-011, RES-028
#[test]
fn listen_prints_one_line_per_change() {
    for era in ["modern", "legacy"] {
        let done = everything(&["clock://running", "--count", "2", "--era", era]).assert_ok();
        let want = "listening  tools, prompts, resources, clock://running\nchanged    clock://running\n\
                    changed    clock://running\nended      the requested number of changes has arrived\n";
        assert_eq!((&*done.stdout, &*done.stderr), (want, ""), "{era}");

        let done = everything(&["clock://running", "--count", "1", "--json", "--era", era]).assert_ok();
        let lines: Vec<Value> = done.stdout.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["clock://running"]});
        let want = [
            json!({ "listening": filter }),
            json!({"changed": "resource", "uri": "clock://running"}),
            json!({"ended": "count"}),
        ];
        assert_eq!(lines, want, "{era}");

        let done = everything(&["--for", "300ms", "--era", era]).assert_ok();
        assert!(done.elapsed > Duration::from_millis(300), "{done}");
        assert_eq!(done.stdout, "listening  tools, prompts, resources\nended      the time has elapsed\n");
    }
}

#[test]
fn listen_prints_clock_changes_on_every_runtime() {
    for (runtime, era) in
        [("threads", "modern"), ("threads", "legacy"), ("smol", "modern"), ("smol", "legacy")]
    {
        let server_args = [PROBE, "serve", "--everything", "--runtime", runtime];
        let done = probe(
            &[&["listen", "clock://running", "--count", "2", "--era", era, "--"], &server_args[..]].concat(),
        );
        done.assert_ok()
            .assert_stdout(&["changed    clock://running", "the requested number of changes has arrived"]);
    }
}

#[test]
fn listen_names_the_refused_parts_of_the_filter() {
    for era in ["modern", "legacy"] {
        let done = probe(&["listen", "a:b", "--for", "0.1", "--era", era, "--", PROBE, "serve"]).assert_ok();
        assert_eq!(done.stdout, "listening  tools\nended      the time has elapsed\n");
        assert_eq!(done.stderr, "note: the server does not report changes of prompts, resources, a:b\n");
    }
    for (args, wanted) in [(["--count", "0"], "--count"), (["--for", "0"], "longer than 0")] {
        everything(&args).assert_code(2).assert_stderr(&[wanted]);
    }
}

/// Runs a legacy server that writes these lines after the handshake and then runs `last`.
#[cfg(unix)]
fn run_legacy(capabilities: &str, lines: &[&str], last: &str) -> ProbeOutput {
    let welcome = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"x","version":"1"}}}}}}"#
    );
    let script_lines: String = lines.iter().map(|line| format!("echo '{line}'\n")).collect();
    let script = format!("read -r l; echo '{welcome}'; read -r l\nsleep 0.3\n{script_lines}{last}");
    probe(&["listen", "--for", "20s", "--era", "legacy", "--", "sh", "-c", &script])
}

/// Runs a modern server that answers a listen request with these lines, with its id for ID, and then runs `last`.
#[cfg(unix)]
fn run_modern(lines: &[&str], last: &str) -> ProbeOutput {
    let found = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}}"#;
    let script_lines: String =
        lines.iter().map(|line| format!("printf '%s\\n' '{line}' | sed \"s/ID/$id/g\"\n")).collect();
    let script = format!(
        "read -r l; printf '%s\\n' '{found}'; read -r l\nid=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\n{script_lines}{last}"
    );
    probe(&["listen", "--for", "20s", "--era", "modern", "--", "sh", "-c", &script])
}

#[cfg(unix)]
const TOOLS: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

// covers: TOOL-019, SUB-015, STDIO-028
#[cfg(unix)]
#[test]
fn listen_reports_a_lost_legacy_server() {
    let listens = r#"{"tools":{"listChanged":true}}"#;
    let done = run_legacy(listens, &[TOOLS], "exit 7").assert_code(3);
    assert_eq!(done.stdout, "listening  tools\nchanged    tools\nended      the subscription is lost\n");
    done.assert_stderr(&["ended in the middle of the session", "exit status: 7"]);
    // A server that reports no changes.
    let done = run_legacy("{}", &[], "cat >/dev/null").assert_code(1);
    done.assert_stderr(&["the server does not report changes of any of these: tools, prompts, resources"]);
}

// covers: SUB-003, SUB-006, SUB-013, SUB-015
#[cfg(unix)]
#[test]
fn listen_reports_graceful_end_and_loss_of_modern_subscription() {
    let tagged = r#""_meta":{"io.modelcontextprotocol/subscriptionId":ID}"#;
    let acknowledged = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"toolsListChanged":true}},{tagged}}}}}"#
    );
    let changed =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{tagged}}}}}"#);
    let farewell = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"resultType":"complete",{tagged}}}}}"#);
    let failed = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no more\u001b[2J"}}"#;

    let done = run_modern(&[&acknowledged, &changed, &farewell], "cat >/dev/null").assert_ok();
    let start = "listening  tools\nchanged    tools\n";
    assert_eq!(done.stdout, format!("{start}ended      the server has ended the subscription\n"));
    done.assert_stderr(&["note: the server does not report changes of prompts, resources"]);

    let done = run_modern(&[&acknowledged, &changed, failed], "cat >/dev/null").assert_code(1);
    assert_eq!(done.stdout, format!("{start}ended      the subscription is lost\n"));
    done.assert_stderr(&["error: the subscription is lost: no more\\u001b[2J"]);

    let done = run_modern(&[&acknowledged, &changed], "exit 0").assert_code(3);
    assert_eq!(done.stdout, format!("{start}ended      the subscription is lost\n"));
    done.assert_stderr(&["ended in the middle of the session"]);

    // A refused subscription.
    let done = run_modern(&[failed], "cat >/dev/null").assert_code(1);
    assert_eq!(done.stdout, "");
    done.assert_stderr(&["the server answered with an error: no more"]);
}
