//! Faulty and hostile servers, and programs that are not servers, as shell scripts.

use core::time::Duration;

use serde_json::json;

use crate::support::{PROBE, ProbeOutput, probe};

/// Runs `mcp-probe ARGS -- sh -c SCRIPT`, where `$0` is the program under test.
fn run_against(args: &[&str], script: &str) -> ProbeOutput {
    probe(&[args, &["--", "sh", "-c", script, PROBE]].concat())
}

/// Returns a legacy server that answers each request with the next result, then waits for the end of its input.
fn canned_server(results: &[&str]) -> String {
    let mut script =
        String::from("next() { while read -r l; do case $l in *'\"id\":'*) break;; esac; done; ");
    script += "id=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'); }\n";
    for result in results {
        let result = result.replace('\'', "'\\''");
        script += &format!(
            "next; printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{result}'\n"
        );
    }
    script + "cat >/dev/null"
}

const WELCOME: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"canned","version":"1"}}"#;

// covers: STDIO-005, STDIO-011
#[test]
fn banner_on_stdout_is_noted_and_ignored() {
    let done =
        run_against(&["call", "echo", "--args", r#"{"text":"hi"}"#], "echo 'Welcome!'; exec \"$0\" serve")
            .assert_ok();
    assert_eq!(done.stdout, "hi\n");
    done.assert_stderr(&["note: a line on the server's stdout is not a message: Welcome!"]);
}

// covers: STDIO-008
#[test]
fn program_without_mcp_exits_with_3_and_shows_its_output() {
    let done = run_against(
        &["inspect", "--stderr", "capture"],
        "echo 'Usage: tool FILE'; echo 'no \u{1b}[31mfile' >&2; exit 9",
    );
    let done = done.assert_code(3).assert_stderr(&[
        "is not an MCP server",
        "exit status: 9",
        "Usage: tool FILE",
        "the last lines of the server's stderr:\n    | no \\u001b[31mfile",
        "hint: is this the right command",
    ]);
    assert_eq!(done.stdout, "");
    // A program that stays silent and does not end.
    let done = run_against(&["ping", "--connect-timeout", "300ms"], "exec sleep 100").assert_code(3);
    assert!(done.elapsed < Duration::from_secs(20), "{done}");
    done.assert_stderr(&["not be an MCP server", "--connect-timeout"]);
    // A program that writes only noise.
    let done =
        run_against(&["ping", "--connect-timeout", "300ms"], "echo hello; exec sleep 100").assert_code(3);
    done.assert_stderr(&["\"hello\"", "nothing but messages"]);
}

// covers: STDIO-028, STDIO-022
#[test]
fn server_that_dies_during_call_exits_with_3() {
    let script =
        canned_server(&[WELCOME]).replace("cat >/dev/null", "next; echo 'out of memory' >&2; exit 7");
    let done = run_against(&["call", "x", "--era", "legacy", "--stderr", "capture"], &script).assert_code(3);
    done.assert_stderr(&["ended in the middle of the session", "exit status: 7", "| out of memory"]);
}

// covers: LIFE-017, STDIO-020
#[test]
fn server_that_does_not_end_is_terminated_and_noted() {
    let done = run_against(&["ping", "-n", "1"], "\"$0\" serve; sleep 50").assert_ok();
    assert!(done.elapsed < Duration::from_secs(20), "{done}");
    done.assert_stderr(&["note: the server did not end when its input was closed; SIGTERM ended it"]);
}

// covers: LIFE-016
#[test]
fn control_characters_of_server_are_escaped() {
    let evil = "\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7}\r";
    let acts = |c: &char| evil.contains(*c) && !c.is_ascii_graphic();
    let json = serde_json::to_string(evil).expect("JSON");
    let welcome = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}},{json}:{{}}}},"serverInfo":{{"name":{json},"version":{json},"title":{json}}},"instructions":{json}}}"#
    );
    let schema = format!(
        r#"{{"type":"object","properties":{{{json}:{{"type":{json},"description":{json},"default":{json}}}}},"required":[{json}]}}"#
    );
    let tools = format!(
        r#"{{"tools":[{{"name":{json},"title":{json},"description":{json},"inputSchema":{schema},"outputSchema":{schema}}}]}}"#
    );
    let tool_result = format!(
        r#"{{"content":[{{"type":"text","text":{json}}},{{"type":"image","mimeType":{json},"data":"AA"}}],"structuredContent":{{"x":{json}}},"isError":true}}"#
    );
    let welcome =
        welcome.replace(r#""tools":{}"#, r#""tools":{},"resources":{},"prompts":{},"completions":{}"#);
    let (resources, templates) = (
        format!(
            r#"{{"resources":[{{"uri":{json},"name":{json},"description":{json},"annotations":{{"audience":[{json}]}}}},{{"odd":{json}}}]}}"#
        ),
        format!(r#"{{"resourceTemplates":[{{"uriTemplate":{json},"name":{json},"mimeType":{json}}}]}}"#),
    );
    let prompts = format!(
        r#"{{"prompts":[{{"name":{json},"title":{json},"arguments":[{{"name":{json},"description":{json}}}]}}]}}"#
    );
    let resource_result = format!(
        r#"{{"contents":[{{"uri":{json},"mimeType":{json},"text":{json}}},{{"uri":{json},"blob":"AA=="}}]}}"#
    );
    let prompt_result = format!(
        r#"{{"description":{json},"messages":[{{"role":{json},"content":{{"type":"text","text":{json}}}}},{{"role":"user","content":{{"type":"resource_link","uri":{json},"name":{json}}}}}]}}"#
    );
    let completion_result = format!(r#"{{"completion":{{"values":[{json}]}}}}"#);
    let inspect = canned_server(&[&welcome, &tools, &resources, &templates, &prompts]);
    // After the failure of a tool its list is asked for.
    let call = canned_server(&[&welcome, &tool_result, &tools]);
    let read = canned_server(&[&welcome, &resource_result]);
    let prompt = canned_server(&[&welcome, &prompt_result]);
    let complete = canned_server(&[&welcome, &completion_result]);
    let runs: [(&[&str], &str, i32); 10] = [
        (&["read", "x:y"], &read, 0),
        (&["read", "x:y", "--json"], &read, 0),
        (&["prompt", "x"], &prompt, 0),
        (&["prompt", "x", "--json"], &prompt, 0),
        (&["complete", "prompt:x", "y"], &complete, 0),
        (&["complete", "x:{y}", "y", "--json"], &complete, 0),
        (&["inspect"], &inspect, 0),
        (&["inspect", "--json"], &inspect, 0),
        (&["call", "x"], &call, 1),
        (&["call", "x", "--json"], &call, 1),
    ];
    for (args, script, code) in runs {
        let done = run_against(&[args, &["--era", "legacy", "--trace"]].concat(), script).assert_code(code);
        for text in [&done.stdout, &done.stderr] {
            assert_eq!(text.chars().find(acts), None, "{args:?}");
        }
        let done =
            done.assert_stdout(&["\\u202e", "\\u200b", "\\u001b"]).assert_stderr(&["\\u202e", "\\u009b"]);
        if args.contains(&"--json") {
            let value = done.json().to_string();
            assert!(value.contains('\u{202e}'), "the value itself is unharmed");
        }
    }
    // Errors of the server are escaped too.
    let refusal = format!(
        "read -r l; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":-1,\"message\":{json},\"data\":{json}}}}}'; cat >/dev/null"
    );
    let done = run_against(&["ping", "--era", "legacy"], &refusal)
        .assert_code(3)
        .assert_stderr(&["\\u202e", "refused the handshake"]);
    assert_eq!(done.stderr.chars().find(acts), None);
}

// covers: TOOL-037
#[test]
fn malformed_results_are_failures_with_a_reason() {
    let run = |args: &[&str], results: &[&str]| {
        run_against(&[args, &["--era", "legacy"]].concat(), &canned_server(results))
    };
    run(&["call", "x"], &[WELCOME, r#"{"toolResult":1}"#])
        .assert_code(1)
        .assert_stderr(&["not a result of a tool", "content"]);
    let more = WELCOME.replace(r#""tools":{}"#, r#""resources":{},"prompts":{},"completions":{}"#);
    let odd = |args: &[&str], result: &str, wanted: &str| {
        let done = run(args, &[&more, result]).assert_code(1).assert_stderr(&["not a result of", wanted]);
        assert_eq!(done.stdout, "", "{done}");
    };
    odd(&["read", "a:b"], r#"{"contents":[{"uri":"a:b"}]}"#, "contents");
    odd(&["prompt", "x"], r#"{"messages":[{"role":"user","content":[]}]}"#, "messages.content");
    odd(&["complete", "a:{b}", "b"], r#"{"completion":{"values":"x"}}"#, "completion.values");
    run(&["inspect"], &[WELCOME, r#"{"tools":5}"#])
        .assert_code(1)
        .assert_stderr(&["listing tools", "no list `tools`"]);
    // Malformed entries are shown as far as possible.
    let list = r#"{"tools":[5,{},{"name":"bad","inputSchema":7},{"name":"odd","inputSchema":{}}]}"#;
    let done = run(&["inspect"], &[WELCOME, list]).assert_ok();
    done.assert_stdout(&[
        "tools (4)",
        "  (unreadable)  5\n",
        "  (unreadable)  {}\n      missing field `name`",
        "`inputSchema`",
        "  odd\n",
    ]);
    // A template needs no name to be used.
    let resources = WELCOME.replace(r#""tools":{}"#, r#""resources":{}"#);
    let templates = r#"{"resourceTemplates":[{"uriTemplate":"chart://{sea}"},{"name":"no template"}]}"#;
    let done = run(&["inspect"], &[&resources, r#"{"resources":[]}"#, templates]).assert_ok();
    done.assert_stdout(&["resource templates (2)\n", "  chart://{sea}\n", "missing field `uriTemplate`"]);
    // A server without tools gets no request for them.
    let bare =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"bare","version":"1"}}"#;
    run(&["inspect"], &[bare]).assert_ok().assert_stdout(&["bare 1", "capabilities  none"]);
    run(&["call", "x"], &[bare]).assert_code(1).assert_stderr(&["capability `tools`"]);
    run(&["read", "a:b"], &[bare]).assert_code(1).assert_stderr(&["capability `resources`"]);
    run(&["prompt", "x"], &[bare]).assert_code(1).assert_stderr(&["capability `prompts`"]);
    run(&["complete", "prompt:x", "y"], &[bare]).assert_code(1).assert_stderr(&["capability `completions`"]);
}

#[test]
fn inspect_shows_what_it_could_read_and_names_each_part_that_failed() {
    let welcome =
        WELCOME.replace(r#""tools":{}"#, r#""tools":{},"resources":{},"prompts":{},"experimental":{}"#);
    let tools = r#"{"tools":[{"name":"first","inputSchema":{}}],"nextCursor":"2"}"#;
    let resources = r#"{"resources":[{"uri":"a:b","name":"b"}]}"#;
    // The second page of the tools and the prompts are no lists; the templates are not served at all.
    let script = canned_server(&[&welcome, tools, r#"{"tools":7}"#, resources]).replace(
        "cat >/dev/null",
        "next; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"no\"}}\\n' \"$id\"\n\
         next; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-5,\"message\":\"odd\"}}\\n' \"$id\"\n\
         cat >/dev/null",
    );
    let inspect = |more: &[&str]| run_against(&[&["inspect", "--era", "legacy"], more].concat(), &script);
    let done = inspect(&[]).assert_code(1).assert_stdout(&[
        "server        canned 1",
        "\ntools (1, not all)\n  first\n",
        "  (failed)  the result has no list `tools`\n",
        "\nresources (1)\n  a:b",
        "\nresource templates (0)\n",
        "\nprompts (not read)\n  (failed)  the server answered with an error: odd (code -5)\n",
    ]);
    done.assert_stderr(&[
        "note: the server does not list resourceTemplates",
        "error: listing tools: ",
        "| listing prompts: the server answered with an error: odd",
    ]);
    let done = inspect(&["--json"]).assert_code(1);
    let seen = done.json();
    assert_eq!(seen["tools"][0]["name"], "first", "{done}");
    assert_eq!(seen["resources"][0]["uri"], "a:b", "{done}");
    let parts: Vec<_> = seen["failures"].as_array().expect("an array").iter().map(|f| &f["part"]).collect();
    assert_eq!(parts, ["tools", "prompts"], "{done}");
    // After the end of the connection nothing more is asked for.
    let script = canned_server(&[&welcome, r#"{"tools":[]}"#]).replace("cat >/dev/null", "next");
    let done = run_against(&["inspect", "--era", "legacy", "--json"], &script).assert_code(3);
    assert_eq!(done.json()["server"]["name"], "canned", "{done}");
    done.assert_stdout(&["not requested after the failure before it"]).assert_stderr(&[
        "listing resources: ",
        "ended in the middle of the session",
        "| listing prompts: ",
    ]);
}

// covers: LIFE-016
#[test]
fn server_text_cannot_imitate_messages_of_the_program() {
    let refusal = r#"{"code":-1,"message":"bad\nERROR: run rm -rf"}"#;
    let script = canned_server(&[WELCOME]).replace(
        "cat >/dev/null",
        &format!("next; printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}}\\n' \"$id\" '{refusal}'; cat >/dev/null"),
    );
    let done = run_against(&["call", "x", "--era", "legacy", "--timeout", "3s"], &script).assert_code(1);
    assert!(!done.stderr.lines().any(|line| line.starts_with("ERROR")), "{done}");
    done.assert_stderr(&["bad\n    | ERROR: run rm -rf"]);
    // Stderr of the server is escaped by default.
    let script = "\"$0\" serve; printf 'a\\033[31mb\\nlast' >&2";
    let done = run_against(&["ping", "-n", "1"], script).assert_ok();
    assert_eq!(done.stderr, "server: a\\u001b[31mb\nserver: last\n");
    let done = run_against(&["ping", "-n", "1", "--stderr", "inherit"], script).assert_ok();
    assert_eq!(done.stderr, "a\u{1b}[31mb\nlast");
    // Stderr is shown completely, before the error, and once.
    let done = run_against(&["ping", "--era", "legacy"], "echo 'no file' >&2; exit 1").assert_code(3);
    assert!(done.stderr.starts_with("server: no file\nerror: "), "{done}");
    assert_eq!(done.stderr.matches("no file").count(), 1, "{done}");
}

#[test]
fn deviations_that_explain_a_failure_are_printed_with_it() {
    // Twice what is no message of this revision, and then silence.
    let odd = r#"next
        echo '{"jsonrpc":"1.0","method":"x"}'
        echo '{"jsonrpc":"1.0","method":"x"}'
        echo '{"jsonrpc":"2.0","id":99,"result":{}}'
        cat >/dev/null"#;
    let script = canned_server(&[WELCOME]).replace("cat >/dev/null", odd);
    let call = ["call", "x", "--era", "legacy", "--timeout", "2s"];
    let told = "  before that, the server deviated from the protocol:\n    | ";
    let refused = "a message was refused: ";
    let done = run_against(&call, &script).assert_code(4).assert_stderr(&["error: timed out", told, refused]);
    assert_eq!(done.stderr.matches(refused).count(), 1, "{done}");
    // The error tells of this one itself.
    assert_eq!(done.stderr.matches("(id 99)").count(), 1, "{done}");
    let json = run_against(&[&call[..], &["--json"]].concat(), &script).assert_code(4).json();
    let listed = json["error"]["deviations"].as_array().expect("an array");
    assert!(listed.len() == 1 && listed[0].as_str().is_some_and(|text| text.starts_with(refused)), "{json}");
    // A trace has shown them already, and a success needs no explanation.
    let done = run_against(&[&call[..], &["--trace"]].concat(), &script).assert_code(4);
    assert!(!done.stderr.contains(told), "{done}");
    done.assert_stderr(&["note: the server deviated from the protocol: a message was refused: "]);
    let good = canned_server(&[WELCOME, r#"{"content":[]}"#]).replacen(
        "\nnext; printf",
        "\nnext; echo '{\"jsonrpc\":\"1.0\",\"method\":\"x\"}'; printf",
        2,
    );
    assert_eq!(run_against(&["call", "x", "--era", "legacy"], &good).assert_ok().stderr, "");
    // The handshake fails.
    let refusal = r#"read -r l; echo '{"jsonrpc":"2.0","id":99,"result":{}}'; exit 1"#;
    run_against(&["ping"], refusal).assert_code(3).assert_stderr(&[told, "(id 99)"]);
}

// covers: STDIO-022
#[test]
fn truncated_message_is_reported() {
    let script = "read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}'; read -r l; \
                  printf '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}'";
    let done = run_against(&["ping"], script)
        .assert_code(3)
        .assert_stderr(&["did not complete the handshake", "in the middle of a message"]);
    assert!(!done.stderr.contains("without sending a message"), "{done}");
    // An answer is a message, even if the handshake does not succeed.
    let script = script.split(" printf").next().expect("the beginning");
    let done =
        run_against(&["ping"], script).assert_code(3).assert_stderr(&["without agreeing on a revision"]);
    assert!(!done.stderr.contains("is not an MCP server"), "{done}");
}

#[test]
fn name_that_begins_with_a_hyphen_is_no_option() {
    for name in ["-dash", "-5", "--sum", "-"] {
        let tools =
            json!({"tools": [{"name": name, "inputSchema": {"properties": {"a": {"type": "number"}}}}]});
        let script = canned_server(&[WELCOME, &tools.to_string(), r#"{"content":[]}"#]);
        let call = ["call", "--era", "legacy", name, "a=5", "--trace"];
        let called = format!("\"name\":\"{name}\"");
        run_against(&call, &script).assert_ok().assert_stderr(&[&called, "\"arguments\":{\"a\":5}"]);
        let welcome = WELCOME.replace("tools", "prompts");
        let script = canned_server(&[&welcome, r#"{"messages":[]}"#]);
        let prompt = ["prompt", name, "a=5", "--era", "legacy", "--trace"];
        run_against(&prompt, &script).assert_ok().assert_stderr(&[&called]);
    }
    // Known options keep their meaning before the name, and unknown ones behind it are refused.
    run_against(&["call", "--json", "--help"], "").assert_ok().assert_stdout(&["Usage: mcp-probe call"]);
    run_against(&["call", "x", "--jsn"], "").assert_code(2).assert_stderr(&["'--jsn'", "'--json'"]);
    let tip = "tip: `--timeot` is no option of call, and was taken for the name of the tool";
    run_against(&["call", "--timeot", "5s", "x"], "").assert_code(2).assert_stderr(&["'5s'", tip]);
}

#[test]
fn empty_tool_list_is_reported_as_hint() {
    let script = canned_server(&[WELCOME]).replace(
        "cat >/dev/null",
        "next; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1,\"message\":\"no\"}}\\n' \"$id\"; \
         next; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[]}}\\n' \"$id\"; cat >/dev/null",
    );
    let done = run_against(&["call", "x", "--era", "legacy"], &script).assert_code(1);
    done.assert_stderr(&["hint: the server's list of tools is empty"]);
}
