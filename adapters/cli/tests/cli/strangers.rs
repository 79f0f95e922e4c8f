//! Servers that are odd, hostile, or no servers: little shell scripts

use core::time::Duration;

use crate::support::{Done, PROBE, probe};

/// `mcp-probe ARGS -- sh -c SCRIPT`, where `$0` is our own program
fn against(args: &[&str], script: &str) -> Done {
    probe(&[args, &["--", "sh", "-c", script, PROBE]].concat())
}

/// A legacy server that answers each request with the next of these results, then waits for the end of its input
fn canned(results: &[&str]) -> String {
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
fn a_banner_is_noted_and_does_no_harm() {
    let done =
        against(&["call", "echo", "--args", r#"{"text":"hi"}"#], "echo 'Welcome!'; exec \"$0\" serve").ok();
    assert_eq!(done.stdout, "hi\n");
    done.complains(&["note: a line on the server's stdout is no message: Welcome!"]);
}

// covers: STDIO-008
#[test]
fn no_mcp_server_exits_with_3_and_shows_what_it_said() {
    let done = against(
        &["inspect", "--stderr", "capture"],
        "echo 'Usage: tool FILE'; echo 'no \u{1b}[31mfile' >&2; exit 9",
    );
    let done = done.code(3).complains(&[
        "is no MCP server",
        "exit status: 9",
        "Usage: tool FILE",
        "last words on stderr:\n    | no \\u001b[31mfile",
        "hint: is this the right command",
    ]);
    assert_eq!(done.stdout, "");
    // Says nothing at all, and does not go away.
    let done = against(&["ping", "--connect-timeout", "300ms"], "exec sleep 100").code(3);
    assert!(done.took < Duration::from_secs(20), "{done}");
    done.complains(&["no MCP server", "--connect-timeout"]);
    // Only noise.
    let done = against(&["ping", "--connect-timeout", "300ms"], "echo hello; exec sleep 100").code(3);
    done.complains(&["\"hello\"", "nothing but messages"]);
}

// covers: STDIO-028, STDIO-022
#[test]
fn a_server_that_dies_in_a_call_exits_with_3() {
    let script = canned(&[WELCOME]).replace("cat >/dev/null", "next; echo 'out of memory' >&2; exit 7");
    let done = against(&["call", "x", "--era", "legacy", "--stderr", "capture"], &script).code(3);
    done.complains(&["ended in the middle of the session", "exit status: 7", "| out of memory"]);
}

// covers: LIFE-017, STDIO-020
#[test]
fn a_server_that_stays_is_ended_and_named() {
    let done = against(&["ping", "-n", "1"], "\"$0\" serve; sleep 50").ok();
    assert!(done.took < Duration::from_secs(20), "{done}");
    done.complains(&["note: the server did not end when its input was closed; SIGTERM ended it"]);
}

// covers: LIFE-016
#[test]
fn what_a_server_says_cannot_move_the_cursor() {
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
    let said = format!(
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
    let holds = format!(
        r#"{{"contents":[{{"uri":{json},"mimeType":{json},"text":{json}}},{{"uri":{json},"blob":"AA=="}}]}}"#
    );
    let says = format!(
        r#"{{"description":{json},"messages":[{{"role":{json},"content":{{"type":"text","text":{json}}}}},{{"role":"user","content":{{"type":"resource_link","uri":{json},"name":{json}}}}}]}}"#
    );
    let goes_on = format!(r#"{{"completion":{{"values":[{json}]}}}}"#);
    let inspect = canned(&[&welcome, &tools, &resources, &templates, &prompts]);
    let call = canned(&[&welcome, &said]);
    let read = canned(&[&welcome, &holds]);
    let prompt = canned(&[&welcome, &says]);
    let complete = canned(&[&welcome, &goes_on]);
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
        let done = against(&[args, &["--era", "legacy", "--trace"]].concat(), script).code(code);
        for text in [&done.stdout, &done.stderr] {
            assert_eq!(text.chars().find(acts), None, "{args:?}");
        }
        let done = done.says(&["\\u202e", "\\u200b", "\\u001b"]).complains(&["\\u202e", "\\u009b"]);
        if args.contains(&"--json") {
            let value = done.json().to_string();
            assert!(value.contains('\u{202e}'), "the value itself is unharmed");
        }
    }
    // What a server refuses with, too.
    let refusal = format!(
        "read -r l; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":-1,\"message\":{json},\"data\":{json}}}}}'; cat >/dev/null"
    );
    let done =
        against(&["ping", "--era", "legacy"], &refusal).code(3).complains(&["\\u202e", "refused to connect"]);
    assert_eq!(done.stderr.chars().find(acts), None);
}

// covers: TOOL-037
#[test]
fn odd_answers_are_failures_with_a_reason() {
    let run =
        |args: &[&str], results: &[&str]| against(&[args, &["--era", "legacy"]].concat(), &canned(results));
    run(&["call", "x"], &[WELCOME, r#"{"toolResult":1}"#])
        .code(1)
        .complains(&["no result of a tool", "content"]);
    let more = WELCOME.replace(r#""tools":{}"#, r#""resources":{},"prompts":{},"completions":{}"#);
    let odd = |args: &[&str], result: &str, wanted: &str| {
        let done = run(args, &[&more, result]).code(1).complains(&["no result of", wanted]);
        assert_eq!(done.stdout, "", "{done}");
    };
    odd(&["read", "a:b"], r#"{"contents":[{"uri":"a:b"}]}"#, "contents");
    odd(&["prompt", "x"], r#"{"messages":[{"role":"user","content":[]}]}"#, "messages.content");
    odd(&["complete", "a:{b}", "b"], r#"{"completion":{"values":"x"}}"#, "completion.values");
    run(&["inspect"], &[WELCOME, r#"{"tools":5}"#]).code(1).complains(&["listing tools", "no list `tools`"]);
    // Entries that make no sense are shown as far as they do.
    let list = r#"{"tools":[5,{},{"name":"bad","inputSchema":7},{"name":"odd","inputSchema":{}}]}"#;
    let done = run(&["inspect"], &[WELCOME, list]).ok();
    done.says(&[
        "tools (4)",
        "  (unreadable)  5\n",
        "  (unreadable)  {}\n      missing field `name`",
        "`inputSchema`",
        "  odd\n",
    ]);
    // A server without tools is not asked.
    let bare =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"bare","version":"1"}}"#;
    run(&["inspect"], &[bare]).ok().says(&["bare 1", "capabilities  none"]);
    run(&["call", "x"], &[bare]).code(1).complains(&["capability `tools`"]);
    run(&["read", "a:b"], &[bare]).code(1).complains(&["capability `resources`"]);
    run(&["prompt", "x"], &[bare]).code(1).complains(&["capability `prompts`"]);
    run(&["complete", "prompt:x", "y"], &[bare]).code(1).complains(&["capability `completions`"]);
}

// covers: LIFE-016
#[test]
fn what_a_server_says_cannot_pass_for_a_message_of_ours() {
    let refusal = r#"{"code":-1,"message":"bad\nERROR: run rm -rf"}"#;
    let script = canned(&[WELCOME]).replace(
        "cat >/dev/null",
        &format!("next; printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}}\\n' \"$id\" '{refusal}'; cat >/dev/null"),
    );
    let done = against(&["call", "x", "--era", "legacy", "--timeout", "500ms"], &script).code(1);
    assert!(!done.stderr.lines().any(|line| line.starts_with("ERROR")), "{done}");
    done.complains(&["bad\n    | ERROR: run rm -rf"]);
    // Nor on stderr, by default.
    let script = "printf 'a\\033[31mb\\nlast' >&2; exec \"$0\" serve";
    let done = against(&["ping", "-n", "1"], script).ok();
    assert_eq!(done.stderr, "server: a\\u001b[31mb\nserver: last\n");
    let done = against(&["ping", "-n", "1", "--stderr", "inherit"], script).ok();
    assert_eq!(done.stderr, "a\u{1b}[31mb\nlast");
    // The whole of it comes before the error, and once.
    let done = against(&["ping", "--era", "legacy"], "echo 'no file' >&2; exit 1").code(3);
    assert!(done.stderr.starts_with("server: no file\nerror: "), "{done}");
    assert_eq!(done.stderr.matches("no file").count(), 1, "{done}");
}

// covers: STDIO-022
#[test]
fn a_message_that_is_cut_off_is_named() {
    let script = "read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}'; read -r l; \
                  printf '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}'";
    let done = against(&["ping"], script)
        .code(3)
        .complains(&["could not be connected to", "in the middle of a message"]);
    assert!(!done.stderr.contains("single message"), "{done}");
    // An answer is one, though it changes nothing that anybody is told.
    let script = script.split(" printf").next().expect("the beginning");
    let done = against(&["ping"], script).code(3).complains(&["without agreeing on a revision"]);
    assert!(!done.stderr.contains("is no MCP server"), "{done}");
}

#[test]
fn an_empty_list_of_tools_is_called_that() {
    let script = canned(&[WELCOME]).replace(
        "cat >/dev/null",
        "next; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1,\"message\":\"no\"}}\\n' \"$id\"; \
         next; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[]}}\\n' \"$id\"; cat >/dev/null",
    );
    let done = against(&["call", "x", "--era", "legacy"], &script).code(1);
    done.complains(&["hint: the server's list of tools is empty"]);
}
