//! Successful commands: `inspect`, `call` and `ping` against the demonstration server, in every revision.

use serde_json::{Value, json};

use crate::support::{PROBE, REVISIONS, probe, probe_own_server, run};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(|item| item["name"].as_str()).collect()
}

// covers: LIFE-003, VER-003, VER-011, VER-013, VER-016, TOOL-001, TOOL-002, TOOL-004, TOOL-005, TOOL-007
#[test]
fn inspect_json_prints_one_object() {
    for (revision, era) in REVISIONS {
        for serve in [&["--protocol-version", revision][..], &[]] {
            let done =
                probe_own_server(&["inspect", "--json", "--protocol-version", revision], serve).assert_ok();
            let seen = done.json();
            let keys: Vec<_> = seen.as_object().expect("an object").keys().map(String::as_str).collect();
            let wanted = [
                "capabilities",
                "era",
                "instructions",
                "prompts",
                "resourceTemplates",
                "resources",
                "revision",
                "server",
                "tools",
            ];
            assert_eq!(keys, wanted);
            assert_eq!((&seen["era"], &seen["revision"]), (&json!(era), &json!(revision)));
            assert_eq!(seen["server"]["name"], "mcp-probe");
            assert!(seen["capabilities"]["tools"].is_object() && seen["instructions"].is_string(), "{done}");
            assert_eq!(names(&seen["tools"]), ["echo", "add", "count", "fail"]);
            for tool in seen["tools"].as_array().expect("a list") {
                assert_eq!(tool["inputSchema"]["type"], "object");
            }
            for list in ["resources", "resourceTemplates", "prompts"] {
                assert_eq!(seen[list], json!([]), "{done}");
            }
        }
    }
}

// covers: VER-018, VER-020, VER-024
#[test]
fn inspect_detects_the_era() {
    for (serve, era) in [("auto", "modern"), ("modern", "modern"), ("legacy", "legacy")] {
        let done = probe_own_server(&["inspect", "--json"], &["--era", serve]).assert_ok();
        assert_eq!(done.json()["era"], era);
    }
}

#[test]
fn inspect_prints_aligned_text_without_colours() {
    let done = probe_own_server(&["inspect"], &["--era", "legacy"]).assert_ok();
    assert!(!done.stdout.contains('\u{1b}'), "colours in a pipe: {done}");
    let want = [
        "server        mcp-probe ",
        "era           legacy, revision 2025-11-25",
        "capabilities  tools (listChanged)\n",
        "tools (4)\n",
        "  echo  Echo\n      Returns the given text\n      takes    text  string  Text to answer with.\n",
        "      returns  sum  number  The sum of `a` and `b`.\n",
        "delay_ms?  integer 0..3600000 = 100  Milliseconds",
    ];
    done.assert_stdout(&want);
}

// covers: TOOL-010, TOOL-013, TOOL-014, TOOL-015
#[test]
fn call_prints_the_result() {
    for (revision, _) in REVISIONS {
        let pin = ["--protocol-version", revision];
        let tricky = "plain \"quoted\" \\ \n tab\t ünïcödé \u{2028} \u{1f980} end";
        let args = json!({ "text": tricky }).to_string();
        let done = probe_own_server(&["call", "echo", "--args", &args, "--json"], &pin).assert_ok();
        assert_eq!(done.json()["content"], json!([{ "type": "text", "text": tricky }]), "{done}");

        let done =
            probe_own_server(&["call", "add", "--args", r#"{"a":2,"b":3.5}"#, "--json"], &pin).assert_ok();
        // The first two revisions have only the text.
        let structured = if revision < "2025-06-18" { json!(null) } else { json!({ "sum": 5.5 }) };
        assert_eq!(done.json()["structuredContent"], structured, "{done}");
        assert_eq!(done.json()["content"][0]["text"], r#"{"sum":5.5}"#, "{done}");
    }
    let done = probe_own_server(&["call", "echo", "--args", r#"{"text":"hello"}"#], &[]).assert_ok();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("hello\n", ""));
    let done = probe_own_server(&["call", "add", "--args", r#"{"a":20,"b":22}"#], &[]).assert_ok();
    assert_eq!(done.stdout, "{\"sum\":42}\n");
}

// covers: PROG-001, PROG-006, PROG-007
#[test]
fn call_shows_progress_on_stderr() {
    for era in ["modern", "legacy"] {
        let args = r#"{"to":3,"delay_ms":10}"#;
        let done = probe_own_server(&["call", "count", "--args", args, "--era", era], &[]).assert_ok();
        assert_eq!(done.stdout, "counted to 3\n");
        let want = "progress 1/3 (33 %) 1 of 3\nprogress 2/3 (67 %) 2 of 3\nprogress 3/3 (100 %) 3 of 3\n";
        assert_eq!(done.stderr, want);
    }
}

// covers: PING-001, PING-002, PING-006
#[test]
fn ping_measures_round_trips() {
    for era in ["modern", "legacy"] {
        let done = probe_own_server(&["ping", "-n", "3", "--interval", "10ms", "--json", "--era", era], &[])
            .assert_ok();
        let seen = done.json();
        assert_eq!((&seen["era"], &seen["sent"]), (&json!(era), &json!(3)));
        let spread: Vec<f64> =
            ["min", "median", "max"].iter().filter_map(|key| seen["milliseconds"][key].as_f64()).collect();
        assert!(spread.len() == 3 && spread.is_sorted(), "{done}");
        let done = probe_own_server(&["ping", "-n", "2", "--interval", "0", "--era", era], &[]).assert_ok();
        assert_eq!(done.stdout.lines().count(), 3, "{done}");
    }
}

#[test]
fn client_trace_shows_messages_and_hides_named_members() {
    let args = r#"{"text":"hunter2"}"#;
    let call = ["call", "echo", "--args", args, "--era", "legacy", "--trace"];
    let done = probe_own_server(&call, &[]).assert_ok();
    assert_eq!(done.stdout, "hunter2\n");
    assert_eq!(done.stderr.lines().filter(|line| line.contains(" → {")).count(), 3, "{done}");
    assert_eq!(done.stderr.lines().filter(|line| line.contains(" ← {")).count(), 2, "{done}");
    assert_eq!(done.stderr.matches("hunter2").count(), 2, "{done}");

    // The argument and the echoed text are hidden; the printed result is not.
    let done = probe_own_server(&[&call[..], &["--hide", "text"]].concat(), &[]).assert_ok();
    assert_eq!(done.stdout, "hunter2\n");
    let done = done.assert_stderr(&["\"arguments\":{\"text\":\"[redacted]\"}"]);
    assert!(!done.stderr.contains("hunter2"), "{done}");
}

#[test]
fn server_trace_shows_messages_and_hides_named_members() {
    let done =
        probe_own_server(&["call", "echo", "--args", r#"{"text":"x"}"#], &["--trace", "--hide", "text"])
            .assert_ok();
    let done = done.assert_stderr(&[" ← {\"jsonrpc\"", " → {\"jsonrpc\"", "[redacted]"]);
    assert_eq!(done.stdout, "x\n");
}

#[test]
fn server_gets_only_named_environment_variables() {
    let secret = [("PROBE_SECRET", "s3cret"), ("PROBE_TOKEN", "t0ken")];
    let script = "echo \"<$PROBE_SECRET> <$PROBE_TOKEN> <$PROBE_SET>\" >&2; exec \"$0\" serve";
    let server = ["--env", "PROBE_TOKEN", "--env", "PROBE_SET=a=b", "--", "sh", "-c", script, PROBE];
    if cfg!(unix) {
        run(&[&["ping", "-n", "1", "--stderr", "inherit"], &server[..]].concat(), &secret)
            .assert_ok()
            .assert_stderr(&["<> <t0ken> <a=b>"]);
    }
}

#[test]
fn help_lists_commands_and_options() {
    for command in ["inspect", "call", "read", "prompt", "complete", "listen", "ping", "serve", "demo"] {
        let done = probe(&[command, "--help"]).assert_ok();
        assert!(!done.stdout.contains("--break"), "hidden: {done}");
    }
    probe(&["--help"]).assert_ok().assert_stdout(&[
        "Examples",
        "Exit codes:",
        "inspect",
        "call",
        "ping",
        "serve",
        "demo",
    ]);
    probe(&["call", "--help"]).assert_ok().assert_stdout(&[
        "--timeout",
        "--trace",
        "--protocol-version",
        "Possible values:",
        "- auto:",
    ]);
}
