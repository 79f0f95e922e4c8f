//! What works: inspect, call and ping against our own server, in every revision

use serde_json::{Value, json};

use crate::support::{PROBE, REVISIONS, probe, probe_own, run};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(|item| item["name"].as_str()).collect()
}

// covers: LIFE-003, VER-003, VER-011, VER-013, VER-016, TOOL-001, TOOL-002, TOOL-004, TOOL-005, TOOL-007
#[test]
fn inspect_prints_one_object() {
    for (revision, era) in REVISIONS {
        for serve in [&["--protocol-version", revision][..], &[]] {
            let done = probe_own(&["inspect", "--json", "--protocol-version", revision], serve).ok();
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
fn the_era_is_found_out() {
    for (serve, era) in [("auto", "modern"), ("modern", "modern"), ("legacy", "legacy")] {
        let done = probe_own(&["inspect", "--json"], &["--era", serve]).ok();
        assert_eq!(done.json()["era"], era);
    }
}

#[test]
fn inspect_is_good_to_read() {
    let done = probe_own(&["inspect"], &["--era", "legacy"]).ok();
    assert!(!done.stdout.contains('\u{1b}'), "colours in a pipe: {done}");
    let want = [
        "server        mcp-probe ",
        "era           legacy, revision 2025-11-25",
        "capabilities  tools (listChanged)\n",
        "tools (4)\n",
        "  echo  Echo\n      Answers with the text that it is given\n      takes    text  string  What to answer\n",
        "      returns  sum  number  a + b\n",
        "delay_ms?  integer 0..3600000 = 100  Milliseconds",
    ];
    done.says(&want);
}

// covers: TOOL-010, TOOL-013, TOOL-014, TOOL-015
#[test]
fn call_prints_the_answer() {
    for (revision, _) in REVISIONS {
        let pin = ["--protocol-version", revision];
        let tricky = "plain \"quoted\" \\ \n tab\t ünïcödé \u{2028} \u{1f980} end";
        let args = json!({ "text": tricky }).to_string();
        let done = probe_own(&["call", "echo", "--args", &args, "--json"], &pin).ok();
        assert_eq!(done.json()["content"], json!([{ "type": "text", "text": tricky }]), "{done}");

        let done = probe_own(&["call", "add", "--args", r#"{"a":2,"b":3.5}"#, "--json"], &pin).ok();
        // The first two revisions have the text alone.
        let structured = if revision < "2025-06-18" { json!(null) } else { json!({ "sum": 5.5 }) };
        assert_eq!(done.json()["structuredContent"], structured, "{done}");
        assert_eq!(done.json()["content"][0]["text"], r#"{"sum":5.5}"#, "{done}");
    }
    let done = probe_own(&["call", "echo", "--args", r#"{"text":"hello"}"#], &[]).ok();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("hello\n", ""));
    let done = probe_own(&["call", "add", "--args", r#"{"a":20,"b":22}"#], &[]).ok();
    assert_eq!(done.stdout, "{\"sum\":42}\n");
}

// covers: PROG-001, PROG-006, PROG-007
#[test]
fn call_shows_progress_beside_the_answer() {
    for era in ["modern", "legacy"] {
        let args = r#"{"to":3,"delay_ms":10}"#;
        let done = probe_own(&["call", "count", "--args", args, "--era", era], &[]).ok();
        assert_eq!(done.stdout, "counted to 3\n");
        let want = "progress 1/3 (33 %) 1 of 3\nprogress 2/3 (67 %) 2 of 3\nprogress 3/3 (100 %) 3 of 3\n";
        assert_eq!(done.stderr, want);
    }
}

// covers: PING-001, PING-002, PING-006
#[test]
fn ping_measures_round_trips() {
    for era in ["modern", "legacy"] {
        let done = probe_own(&["ping", "-n", "3", "--interval", "10ms", "--json", "--era", era], &[]).ok();
        let seen = done.json();
        assert_eq!((&seen["era"], &seen["sent"]), (&json!(era), &json!(3)));
        let spread: Vec<f64> =
            ["min", "median", "max"].iter().filter_map(|key| seen["milliseconds"][key].as_f64()).collect();
        assert!(spread.len() == 3 && spread.is_sorted(), "{done}");
        let done = probe_own(&["ping", "-n", "2", "--interval", "0", "--era", era], &[]).ok();
        assert_eq!(done.stdout.lines().count(), 3, "{done}");
    }
}

#[test]
fn trace_shows_the_wire_and_hides_what_it_is_told_to() {
    let args = r#"{"text":"hunter2"}"#;
    let call = ["call", "echo", "--args", args, "--era", "legacy", "--trace"];
    let done = probe_own(&call, &[]).ok();
    assert_eq!(done.stdout, "hunter2\n");
    assert_eq!(done.stderr.lines().filter(|line| line.contains(" → {")).count(), 3, "{done}");
    assert_eq!(done.stderr.lines().filter(|line| line.contains(" ← {")).count(), 2, "{done}");
    assert_eq!(done.stderr.matches("hunter2").count(), 2, "{done}");

    // What was sent and what came back, both under this name; the answer itself is not touched.
    let done = probe_own(&[&call[..], &["--hide", "text"]].concat(), &[]).ok();
    assert_eq!(done.stdout, "hunter2\n");
    let done = done.complains(&["\"arguments\":{\"text\":\"[redacted]\"}"]);
    assert!(!done.stderr.contains("hunter2"), "{done}");
}

#[test]
fn the_server_shows_its_side_of_the_wire() {
    let done = probe_own(&["call", "echo", "--args", r#"{"text":"x"}"#], &["--trace", "--hide", "text"]).ok();
    let done = done.complains(&[" ← {\"jsonrpc\"", " → {\"jsonrpc\"", "[redacted]"]);
    assert_eq!(done.stdout, "x\n");
}

#[test]
fn a_server_gets_only_the_variables_that_are_named() {
    let secret = [("PROBE_SECRET", "s3cret"), ("PROBE_TOKEN", "t0ken")];
    let script = "echo \"<$PROBE_SECRET> <$PROBE_TOKEN> <$PROBE_SET>\" >&2; exec \"$0\" serve";
    let server = ["--env", "PROBE_TOKEN", "--env", "PROBE_SET=a=b", "--", "sh", "-c", script, PROBE];
    if cfg!(unix) {
        run(&[&["ping", "-n", "1"], &server[..]].concat(), &secret).ok().complains(&["<> <t0ken> <a=b>"]);
    }
}

#[test]
fn help_explains_itself() {
    for command in ["inspect", "call", "read", "prompt", "complete", "listen", "ping", "serve", "demo"] {
        let done = probe(&[command, "--help"]).ok();
        assert!(!done.stdout.contains("--break"), "hidden: {done}");
    }
    probe(&["--help"]).ok().says(&["Examples:", "Exit codes:", "inspect", "call", "ping", "serve", "demo"]);
    probe(&["call", "--help"]).ok().says(&[
        "--timeout",
        "--trace",
        "--protocol-version",
        "Possible values:",
        "- auto:",
    ]);
}
