//! Failing commands: exit codes, and messages that say what happened and what to do.

use core::time::Duration;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::http::{ServingProcess, refusing_server};
#[cfg(unix)]
use crate::shell_server::{ShellServer, error_code_action, method_pattern, result_action};
use crate::support::{PROBE, ProbeOutput, REVISIONS, probe, probe_own_server, run, run_with_input};

// covers: TOOL-021, TOOL-022, TOOL-023, TOOL-024
#[test]
fn failed_call_exits_with_1() {
    for (_, era) in [REVISIONS[3], REVISIONS[4]] {
        let pin = ["--era", era];
        let done = probe_own_server(&["call", "fail", "--json"], &pin).assert_code(1);
        assert_eq!(done.json()["isError"], true, "{done}");
        assert_eq!(done.json()["content"][0]["text"], "this tool always fails");
        done.assert_stderr(&["error: the tool reports an error"]);

        let done = probe_own_server(&["call", "echoo", "--json"], &pin).assert_code(1);
        assert_eq!(done.json()["error"]["kind"], "failed", "{done}");
        done.assert_stderr(&["unknown tool: echoo", "-32602", "there are: echo, add, count, fail"]);

        let done = probe_own_server(&["call", "echo", "--args", r#"{"txt":"x"}"#], &pin).assert_code(1);
        done.assert_stdout(&[
            "The arguments of `echo` are not valid: (root)",
            "'txt' was unexpected",
            "\"text\" is a required",
        ]);
    }
}

// covers: TIME-001, TIME-002, TIME-003, TIME-004, CANC-001, CANC-002, CANC-016
#[test]
fn timed_out_call_exits_with_4() {
    for era in ["modern", "legacy"] {
        let args = r#"{"to":1,"delay_ms":40000}"#;
        let call = ["call", "count", "--args", args, "--timeout", "0.3", "--trace", "--era", era];
        let done = probe_own_server(&call, &[]).assert_code(4);
        assert!(done.elapsed < Duration::from_secs(20), "{done}");
        done.assert_stderr(&[
            "error: timed out: no answer within 0.3s",
            "--timeout",
            "notifications/cancelled",
        ]);
    }
    // Each step is shorter than the timeout, all together are longer: progress restarts the timeout.
    // A step is much shorter, because a busy machine takes seconds for it.
    let args = r#"{"to":40,"delay_ms":100}"#;
    probe_own_server(&["call", "count", "--args", args, "--timeout", "3s"], &[])
        .assert_ok()
        .assert_stdout(&["counted to 40"]);
    // The total timeout is not restarted.
    let done = probe_own_server(&["call", "count", "--args", args, "--timeout", "3s", "--total", "0.5"], &[]);
    done.assert_code(4).assert_stderr(&["timed out: no answer within 0.5s in total", "--total"]);
}

#[test]
fn invalid_command_line_exits_with_2() {
    let server = ["--", "true"];
    let cases: &[(&[&str], &[&str])] = &[
        (&["call", "x", "--args", "{\"a\":1,}"], &["--args", "line 1 column 8"]),
        (&["call", "x", "--args", "[1]"], &["must be an object"]),
        (&["call", "x", "--args", "{} {}"], &["line 1 column 4"]),
        (&["ping", "--timeout", "soon"], &["--timeout", "write 2s, 500ms or 1.5"]),
        (&["ping", "--timeout", "0"], &["longer than 0"]),
        (&["ping", "--protocol-version", "2025-01-01"], &["2025-11-25", "2026-07-28"]),
        (
            &["ping", "--era", "modern", "--protocol-version", "2025-06-18"],
            &["legacy era", "--era is modern"],
        ),
        (&["ping", "--era", "new"], &["possible values: auto, modern, legacy"]),
        (&["ping", "--hide", "token"], &["--trace"]),
        (&["serve", "--max-frame", "3"], &["at least"]),
        (&["serv"], &["serve"]),
        (&["ping", "--stderr", "screen"], &["show", "inherit", "capture", "null"]),
    ];
    for (args, wanted) in cases {
        let serves = args[0].starts_with("serv");
        let args = if serves { args.to_vec() } else { [args, &server[..]].concat() };
        let done = probe(&args).assert_code(2).assert_stderr(wanted);
        assert_eq!(done.stdout, "", "{done}");
    }
    // The server's command is missing.
    probe(&["inspect"]).assert_code(2).assert_stderr(&["CMD"]);
}

#[test]
fn unknown_program_exits_with_3() {
    let done = probe(&["inspect", "--", "no-such-program-anywhere"]).assert_code(3);
    done.assert_stderr(&["cannot start \"no-such-program-anywhere\"", "no such program", "PATH"]);
}

#[test]
fn program_that_does_not_start_is_explained_by_every_command() {
    let directory = TemporaryDirectory::new();
    let spaced = directory.path().join("no such folder").join("my server");
    let spaced = spaced.to_str().expect("UTF-8");
    let (trace, tests) = (
        directory.write("trace", TRACE),
        directory.write("tests.json", "{\"steps\": [{\"list\": \"tools\"}]}"),
    );
    let commands: [&[&str]; 8] = [
        &["inspect"],
        &["ping"],
        &["check"],
        &["call", "x"],
        &["bench", "x", "--for", "1s"],
        &["bridge", "--http", "127.0.0.1:0"],
        &["replay", &trace],
        &["test", &tests],
    ];
    for command in commands {
        for (program, words) in [
            ("~/server", "are replaced by a shell"),
            ("npx -y a-server --key=hunter2", "the whole command line is one word"),
            (spaced, "/no such folder does not exist"),
        ] {
            let file =
                directory.write("mcp.json", &json!({"servers": {"a": {"command": program}}}).to_string());
            for server in [&["--", program][..], &["--config", &file]] {
                let done = probe(&[command, server].concat()).assert_code(3);
                assert!(done.stderr.contains(words) && !done.stderr.contains("hunter2"), "{done}");
            }
        }
    }
}

const TRACE: &str = r#"{"mcpTrace":1,"by":"test 1","unixMillis":0,"command":["server"],"masked":true}
{"t":1,"from":"client","line":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"}
"#;

#[cfg(unix)]
#[test]
fn wrong_names_are_answered_with_near_ones_whatever_the_server_says() {
    // An error of the protocol, and results that report a failure.
    let result =
        |text: &str| result_action(&json!({"content": [{"type": "text", "text": text}], "isError": true}));
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let server = |answer: &str| {
        let server = ShellServer::legacy().with_tool_schema(&schema);
        server.on_line(&method_pattern("tools/call"), answer).script()
    };
    for answer in [error_code_action(-32602), error_code_action(-32603), result("Unknown tool")] {
        let script = server(&answer);
        let call = |words: &[&str]| probe(&[&["call"], words, &["--", "sh", "-c", &script]].concat());
        call(&["eco"]).assert_code(1).assert_stderr(&["there is no tool `eco`", "did you mean `echo`?"]);
        call(&["echo", "--args", r#"{"txt": "x"}"#])
            .assert_code(1)
            .assert_stderr(&["has no argument `txt`, did you mean `text`?, and needs `text`; it takes text"]);
        let right = call(&["echo", "text=x"]).assert_code(1);
        assert!(!right.stderr.contains("by its schema"), "{right}");
    }
}

#[test]
fn inspect_points_to_doctor_and_fits_into_the_terminal() {
    probe(&["inspect", "--", "false"]).assert_code(3).assert_stderr(&["`mcp-probe doctor`"]);
    let server = ["--", PROBE, "serve", "--everything"];
    let done = run(&[&["inspect"], &server[..]].concat(), &[("COLUMNS", "60")]).assert_ok();
    let is_prose = |line: &&str| line.starts_with("      ") && line.split_whitespace().count() > 12;
    let wide: Vec<_> =
        done.stdout.lines().filter(is_prose).filter(|line| line.chars().count() > 60).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

// covers: VER-006, VER-010, VER-028, VER-032, VER-034, LIFE-020
#[test]
fn unsupported_revision_exits_with_3_and_names_revisions() {
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["--era", "modern"], &["--era", "legacy"], &["2026-07-28", "initialize", "--era legacy"]),
        (&["--era", "legacy"], &["--era", "modern"], &["2025-11-25", "2026-07-28", "leave --era"]),
        (
            &["--protocol-version", "2025-06-18"],
            &["--protocol-version", "2025-03-26"],
            &["2025-06-18", "2025-03-26", "leave --era"],
        ),
    ];
    for (client, serve, wanted) in cases {
        probe_own_server(&[&["inspect", "--json"], *client].concat(), serve)
            .assert_code(3)
            .assert_stderr(wanted);
    }
}

/// Words about a server that speaks only revisions with a handshake, for a client that leaves them out.
const HANDSHAKE_ALONE: &str =
    "speaks only revisions with an `initialize` handshake, the client only 2026-07-28";
const MAYBE_HANDSHAKE_ALONE: &str =
    "it may speak only revisions with an `initialize` handshake, which was not tried";
const ERA_HINT: &str = "leave --era and --protocol-version out, or use --era legacy";

// covers: VER-028, VER-034
#[test]
fn modern_client_at_a_legacy_server_is_told_what_to_do_by_each_command() {
    let legacy = ServingProcess::new(&["--era", "legacy"]);
    let (program, url) = ([PROBE, "serve", "--era", "legacy"], [&*legacy.url]);
    let commands: [&[&str]; 10] = [
        &["inspect"],
        &["ping"],
        &["call", "echo", "text=x"],
        &["read", "a:b"],
        &["prompt", "x"],
        &["complete", "prompt:x", "y"],
        &["listen"],
        &["bench", "echo", "--for", "1s"],
        &["generate", "rust"],
        &["doctor"],
    ];
    let is_told = |done: &ProbeOutput| {
        let text = format!("{}{}", done.stdout, done.stderr);
        // Reports are wrapped.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        [HANDSHAKE_ALONE, ERA_HINT].iter().all(|words| text.contains(words))
    };
    for args in commands {
        for server in [&[&["--"], &program[..]].concat()[..], &url] {
            let done = probe(&[args, &["--era", "modern"], server].concat()).assert_code(3);
            assert!(is_told(&done), "{args:?}: {done}");
        }
    }
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let begin = format!("{begin}\n");
    for server in [&[&["--"], &program[..]].concat()[..], &url] {
        let done = run_with_input(&[&["bridge", "--era", "modern"], server].concat(), &[], &begin);
        assert!(is_told(&done.assert_code(3)), "a bridge");
    }
    for server in [&[&["--"], &program[..]].concat()[..], &url] {
        let done = probe(&[&["check", "--era", "modern"], server].concat());
        assert!(done.stdout.contains(MAYBE_HANDSHAKE_ALONE), "{done}");
    }
}

// covers: VER-028, VER-034
#[test]
fn modern_client_at_a_server_that_stays_silent_is_told_what_was_not_tried() {
    for (script, wanted) in
        [("exec sleep 100", "did not answer `server/discover`"), ("read -r l; exit 3", "exit status: 3")]
    {
        for command in ["ping", "inspect"] {
            let wait = [command, "--era", "modern", "--connect-timeout", "300ms", "--", "sh", "-c", script];
            let done = probe(&wait).assert_code(3);
            let text = format!("{}{}", done.stdout, done.stderr);
            for words in [wanted, MAYBE_HANDSHAKE_ALONE, ERA_HINT] {
                assert!(text.contains(words), "{command}: {words}\n{done}");
            }
        }
        // A client of both eras has tried it.
        let done = probe(&["ping", "--connect-timeout", "300ms", "--", "sh", "-c", script]).assert_code(3);
        assert!(!done.stderr.contains("handshake"), "{done}");
    }
    let url = refusing_server(405, "", "");
    let done = probe(&["ping", "--era", "modern", &url]).assert_code(3);
    done.assert_stderr(&["HTTP status 405", MAYBE_HANDSHAKE_ALONE, ERA_HINT]);
}

// covers: STDIO-012
#[test]
fn message_beyond_max_frame_is_refused_with_the_limit() {
    let args = format!("{{\"text\":\"{}\"}}", "x".repeat(5_000));
    let done = probe_own_server(&["call", "echo", "--args", &args], &["--max-frame", "4096"]).assert_code(1);
    done.assert_stderr(&["4096"]);
    probe_own_server(&["call", "echo", "--args", &args], &["--max-frame", "8192"]).assert_ok();
}

// covers: TOOL-021
#[test]
fn json_failure_has_stable_members() {
    let server = ["--", PROBE, "serve"];
    let count = r#"{"to":1,"delay_ms":40000}"#;
    let form =
        [&["call", "test_input_required_result_elicitation", "--json"], &server[..], &["--everything"]]
            .concat();
    let cases: [(&[&str], _, _, _, _, _); 8] = [
        (&["call", "echoo"], "failed", 1, "unknown tool: echoo", "there are: echo, add", json!(-32602)),
        (&["call", "add", "a=x"], "usage", 2, "must be a number", "a:=JSON", Value::Null),
        (
            &["call", "add", "--era", "modern", "--protocol-version", "2025-06-18"],
            "usage",
            2,
            "--era",
            "--help",
            Value::Null,
        ),
        (
            &["call", "count", "--args", count, "--timeout", "0.3"],
            "timeout",
            4,
            "within 0.3s",
            "--timeout",
            Value::Null,
        ),
        (&["read", "a:b"], "failed", 1, "capability", "", Value::Null),
        (&["prompt", "x"], "failed", 1, "capability", "", Value::Null),
        (&["complete", "prompt:x", "y"], "failed", 1, "capability", "", Value::Null),
        (&["ping", "--era", "old"], "usage", 2, "invalid value 'old'", "--help", Value::Null),
    ];
    let lost = ["call", "x", "--json", "--", "false"];
    let runs = cases.into_iter().map(|(args, kind, exit_code, message, hint, code)| {
        ([args, &["--json"], &server].concat(), kind, exit_code, message, hint, code)
    });
    let more = [
        (lost.to_vec(), "connection", 3, "not an MCP server", "right command", Value::Null),
        (form, "unanswered", 5, "the client lacks a capability", "--answer", json!(-32021)),
    ];
    for (args, kind, exit_code, message, hint, code) in runs.chain(more) {
        let done = probe(&args).assert_code(exit_code).assert_stderr(&["error: "]);
        let seen = done.json();
        let error = seen["error"].as_object().expect("an object");
        let keys: Vec<_> = error.keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "data", "exitCode", "hint", "kind", "message", "scopes"], "{done}");
        assert_eq!(
            (&error["kind"], &error["exitCode"], &error["code"]),
            (&json!(kind), &json!(exit_code), &code),
            "{done}"
        );
        assert!(error["message"].as_str().is_some_and(|text| text.contains(message)), "{done}");
        assert!(error["hint"].as_str().unwrap_or_default().contains(hint), "{done}");
    }
    // Text mode leaves stdout empty, and a result is never followed by a second object.
    assert_eq!(probe_own_server(&["call", "echoo"], &[]).assert_code(1).stdout, "");
    let done = probe_own_server(&["call", "fail", "--json"], &[]).assert_code(1);
    assert_eq!(done.stdout.lines().count(), 1, "{done}");
}
