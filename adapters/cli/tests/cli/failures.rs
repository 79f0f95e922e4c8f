//! What goes wrong: exit codes, and messages that say what happened and what to do

use core::time::Duration;

use crate::support::{REVISIONS, probe, probe_own};

// covers: TOOL-021, TOOL-022, TOOL-023, TOOL-024
#[test]
fn failing_calls_exit_with_1() {
    for (_, era) in [REVISIONS[3], REVISIONS[4]] {
        let pin = ["--era", era];
        let done = probe_own(&["call", "fail", "--json"], &pin).code(1);
        assert_eq!(done.json()["isError"], true, "{done}");
        assert_eq!(done.json()["content"][0]["text"], "this tool always fails");
        done.complains(&["error: the tool reports an error"]);

        let done = probe_own(&["call", "echoo", "--json"], &pin).code(1);
        // There is no result; an empty object would read as success to a script.
        assert_eq!(done.stdout, "", "{done}");
        done.complains(&["unknown tool: echoo", "-32602", "there are: echo, add, count, fail"]);

        let done = probe_own(&["call", "echo", "--args", r#"{"txt":"x"}"#], &pin).code(1);
        done.says(&[
            "The arguments of `echo` are not valid: (root)",
            "'txt' was unexpected",
            "\"text\" is a required",
        ]);
    }
}

// covers: TIME-001, TIME-002, TIME-003, TIME-004, CANC-001, CANC-002, CANC-016
#[test]
fn a_call_that_takes_too_long_exits_with_4() {
    for era in ["modern", "legacy"] {
        let args = r#"{"to":1,"delay_ms":40000}"#;
        let call = ["call", "count", "--args", args, "--timeout", "0.3", "--trace", "--era", era];
        let done = probe_own(&call, &[]).code(4);
        assert!(done.took < Duration::from_secs(20), "{done}");
        done.complains(&["error: timed out: no answer within 0.3s", "--timeout", "notifications/cancelled"]);
    }
    // Each step is shorter than the limit, all of them are longer: progress starts it anew.
    let args = r#"{"to":4,"delay_ms":400}"#;
    probe_own(&["call", "count", "--args", args, "--timeout", "1s"], &[]).ok().says(&["counted to 4"]);
    // Unless there is a limit on all of them.
    let done = probe_own(&["call", "count", "--args", args, "--timeout", "1s", "--total", "0.5"], &[]);
    done.code(4).complains(&["timed out: no answer within 0.5s in all", "--total"]);
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let server = ["--", "true"];
    let cases: &[(&[&str], &[&str])] = &[
        (&["call", "x", "--args", "{\"a\":1,}"], &["--args", "line 1 column 8"]),
        (&["call", "x", "--args", "[1]"], &["has to be an object"]),
        (&["call", "x", "--args", "{} {}"], &["line 1 column 4"]),
        (&["ping", "--timeout", "soon"], &["--timeout", "write 2s, 500ms or 1.5"]),
        (&["ping", "--timeout", "0"], &["longer than nothing"]),
        (&["ping", "--protocol-version", "2025-01-01"], &["2025-11-25", "2026-07-28"]),
        (
            &["ping", "--era", "modern", "--protocol-version", "2025-06-18"],
            &["legacy era", "--era says modern"],
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
        let done = probe(&args).code(2).complains(wanted);
        assert_eq!(done.stdout, "", "{done}");
    }
    // The server's command is missing.
    probe(&["inspect"]).code(2).complains(&["CMD"]);
}

#[test]
fn a_program_that_cannot_be_started_exits_with_3() {
    let done = probe(&["inspect", "--", "no-such-program-anywhere"]).code(3);
    done.complains(&["cannot start \"no-such-program-anywhere\"", "no such program", "PATH"]);
}

// covers: VER-006, VER-010, VER-028, VER-032, VER-034, LIFE-020
#[test]
fn a_pin_to_what_the_server_lacks_exits_with_3_and_names_versions() {
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
        probe_own(&[&["inspect", "--json"], *client].concat(), serve).code(3).complains(wanted);
    }
}

// covers: STDIO-012
#[test]
fn a_message_beyond_the_servers_limit_is_refused_and_named() {
    let args = format!("{{\"text\":\"{}\"}}", "x".repeat(5_000));
    let done = probe_own(&["call", "echo", "--args", &args], &["--max-frame", "4096"]).code(1);
    done.complains(&["4096"]);
    probe_own(&["call", "echo", "--args", &args], &["--max-frame", "8192"]).ok();
}
