//! Input requests during `call`, `read` and `prompt` without a terminal, and log messages.

use serde_json::json;

use crate::support::{PROBE, ProbeOutput, REVISIONS, probe};

/// Runs `mcp-probe ARGS -- mcp-probe serve --everything`.
fn everything(args: &[&str]) -> ProbeOutput {
    probe(&[args, &["--stderr", "null", "--", PROBE, "serve", "--everything"]].concat())
}

fn call(tool: &str, more: &[&str], era: &str) -> ProbeOutput {
    let tool = format!("test_input_required_result_{tool}");
    everything(&[&["call", &tool, "--era", era], more].concat())
}

// covers: MRTR-012, MRTR-014, ELIC-006, ELIC-017, ELIC-018, SAMP-003, ROOT-002, ROOT-005
#[test]
fn preset_answers_are_used_by_key_or_kind() {
    for era in ["modern", "legacy"] {
        let said = |done: ProbeOutput, want: &str| {
            let done = done.assert_ok();
            assert_eq!((&*done.stdout, &*done.stderr), (&*format!("{want}\n"), ""), "{era}");
        };
        let name = r#"user_name={"name":"Alice"}"#;
        said(call("elicitation", &["--answer", name], era), "Hello, Alice!");
        said(call("elicitation", &["--answer", r#"elicit={"name":"Bob"}"#], era), "Hello, Bob!");
        let whole = r#"user_name={"action":"accept","content":{"name":"Eve"}}"#;
        said(call("elicitation", &["--answer", whole], era), "Hello, Eve!");
        for action in ["decline", "cancel"] {
            let given = format!("user_name={action}");
            let want = format!("User response: action={action}");
            said(call("elicitation", &["--answer", &given], era), &want);
        }
        said(call("sampling", &["--answer", r#"sample="Paris""#], era), "LLM response: Paris");
        said(call("list_roots", &["--root", "/tmp/a b"], era), "Roots: file:///tmp/a%20b");
        said(call("list_roots", &["--answer", r#"roots=["file:///x"]"#], era), "Roots: file:///x");
        let all = ["--answer", name, "--answer", r#"greeting="Good day.""#, "--root", "/r"];
        said(call("multiple_inputs", &all, era), "Hello, Alice! Good day. Roots: file:///r");
        let two = ["--answer", r#"step1={"name":"Al"}"#, "--answer", r#"step2={"color":"red"}"#];
        said(call("multi_round", &two, era), "Hello, Al! Your colour is red.");
        // Answers by kind are used in order.
        let two = ["--answer", r#"elicit={"name":"Al"}"#, "--answer", r#"elicit={"color":"red"}"#];
        said(call("multi_round", &two, era), "Hello, Al! Your colour is red.");
        // Only the kinds that can be answered are declared.
        said(call("capabilities", &["--answer", r#"sample="x""#], era), "LLM response: x");
        said(call("capabilities", &[], era), "The client declares nothing to ask for");

        let defaults = everything(&[
            "call",
            "test_elicitation_sep1034_defaults",
            "--era",
            era,
            "--answer",
            r#"profile={"age":31}"#,
        ]);
        let want = r#"User response: action=accept, content={"age":31,"name":"John Doe","score":95.5,"status":"active","verified":true}"#;
        said(defaults, want);
        let prompt = everything(&[
            "prompt",
            "test_input_required_result_prompt",
            "--era",
            era,
            "--answer",
            r#"user_context={"context":"boats"}"#,
        ]);
        said(prompt, "user          Use the following context: boats");
    }
}

// covers: ELIC-009, ELIC-018, ELIC-025, ELIC-032, ELIC-034
#[test]
fn url_elicitation_is_accepted_or_declined_by_a_word() {
    for (revision, era) in REVISIONS.into_iter().filter(|(revision, _)| *revision >= "2025-11-25") {
        let page = |said: &str| {
            everything(&["call", "test_elicitation_url", "--era", era, "--answer", said]).assert_ok()
        };
        let done = page("page=accept");
        assert_eq!(done.stdout, "User response: action=accept\n", "{revision}: {done}");
        // Only one revision notifies the client when the elicitation is complete.
        assert_eq!(done.stderr.contains("is complete (`harbour-sign-in`)"), era == "legacy", "{done}");
        assert_eq!(page("elicit=decline").stdout, "User response: action=decline\n");
        // Nobody agrees to a page without seeing which.
        done.assert_stderr(&["the server asks you to open http"]);
    }
}

// covers: ELIC-001, ELIC-002, ELIC-020, MRTR-031, SAMP-001, SAMP-015, SAMP-027, META-017
#[test]
fn unanswered_input_request_exits_with_5() {
    for era in ["modern", "legacy"] {
        // Nothing is declared, so nothing is requested.
        let done = call("elicitation", &[], era).assert_code(5);
        done.assert_stderr(&[
            "the client lacks a capability",
            "elicitation",
            "hint: answer with --answer KEY=JSON",
        ]);
        // One capability is declared, and another one is needed.
        let done = call("multiple_inputs", &["--answer", "user_name=decline"], era).assert_code(5);
        assert_eq!(done.stdout, "", "{done}");
        done.assert_stderr(&["\"sampling\"", "hint: answer with --answer KEY=JSON"]);
        // The answer does not fit.
        let done = call("elicitation", &["--answer", r#"user_name={"name":7}"#], era).assert_code(5);
        done.assert_stderr(&["error: the server requests input", "`content.name`: must be a string"]);
        let done = call("elicitation", &["--answer", r#"user_name={"colour":"x"}"#], era).assert_code(5);
        done.assert_stderr(&["the form has no field `colour`"]);
        // A user who rejects a sampling request has answered it.
        let done = call("sampling", &["--answer", "sample=decline"], era).assert_code(1);
        done.assert_stderr(&["the user rejected the request"]);
    }
    // Legacy requests have no key. A modern request with another key has no answer.
    let args = ["--answer", r#"other={"name":"Alice"}"#];
    assert_eq!(call("elicitation", &args, "legacy").assert_ok().stdout, "Hello, Alice!\n");
    let done = call("elicitation", &args, "modern").assert_code(5);
    done.assert_stderr(&["error: the server requests input `user_name` (elicit); no answer is available"]);
    let done = call("elicitation", &["--json", args[0], args[1]], "modern").assert_code(5);
    assert_eq!(done.json()["error"]["kind"], "unanswered", "{done}");
}

#[test]
fn invalid_answer_option_exits_with_2() {
    for (args, wanted) in [
        (["--answer", "name"], "KEY=JSON"),
        (["--answer", "name=maybe"], "one of accept, decline, cancel"),
        (["--answer", "name=7"], "an object (a form)"),
        (["--log", "loud"], "write one of debug, info, notice"),
    ] {
        call("elicitation", &args, "modern").assert_code(2).assert_stderr(&[args[0], wanted]);
    }
}

// covers: LOG-004, LOG-005, LOG-007, LOG-012
#[test]
fn logs_are_shown_from_the_requested_level() {
    for era in ["modern", "legacy"] {
        let log = |level: &[&str]| {
            everything(&[&["call", "test_logging_tool", "--era", era], level].concat()).assert_ok()
        };
        let (detail, worth) =
            ("log: debug (everything) a detail\n", "log: info (everything) something worth knowing\n");
        assert_eq!(log(&[]).stderr, "", "{era}");
        assert_eq!(log(&["--log", "debug"]).stderr, format!("{detail}{worth}"), "{era}");
        assert_eq!(log(&["--log", "info"]).stderr, worth, "{era}");
        assert_eq!(log(&["--log", "warning"]).stderr, "", "{era}");
        // A server without logging is not a failure.
        let done =
            probe(&["ping", "-n", "1", "--era", era, "--log", "info", "--", PROBE, "serve"]).assert_ok();
        assert_eq!(done.stderr, "note: the server does not support logging\n");
    }
}

#[test]
fn trace_shows_input_requests_and_responses() {
    let given = ["--answer", r#"user_name={"name":"Alice"}"#, "--trace", "--json"];
    let done = call("elicitation", &given, "modern").assert_ok();
    assert_eq!(done.json()["content"], json!([{"type": "text", "text": "Hello, Alice!"}]));
    done.assert_stderr(&[
        "\"resultType\":\"input_required\"",
        "\"inputResponses\":{\"user_name\":{\"action\":\"accept\"",
    ]);
    let done = call("elicitation", &given, "legacy").assert_ok();
    done.assert_stderr(&["\"method\":\"elicitation/create\"", "\"result\":{\"action\":\"accept\""]);
}

/// Runs a legacy server whose script answers a tool call; `$id` is the id of the call.
#[cfg(unix)]
fn run_scripted(script: &str, args: &[&str]) -> ProbeOutput {
    let welcome = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}"#;
    let script = format!(
        "read -r l; echo '{welcome}'; read -r l; read -r l\nid=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\n{script}\ncat >/dev/null"
    );
    probe(&[&["call", "x", "--era", "legacy"], args, &["--", "sh", "-c", &script]].concat())
}

// covers: ELIC-028, ELIC-029, ELIC-030
#[cfg(unix)]
#[test]
fn required_url_elicitations_are_named() {
    let data = r#"{"elicitations":[{"mode":"url","elicitationId":"7","message":"Sign in","url":"https://a.example/x"}]}"#;
    let error = format!(r#"{{"code":-32042,"message":"visit a page first","data":{data}}}"#);
    let done = run_scripted(&format!("echo '{{\"jsonrpc\":\"2.0\",\"id\":'$id',\"error\":{error}}}'"), &[])
        .assert_code(5);
    done.assert_stderr(&[
        "visit a page first",
        "hint: visit this page first, if you trust it",
        "https://a.example/x (Sign in)",
    ]);
}

#[cfg(unix)]
#[test]
fn endless_input_requests_are_refused() {
    let form = r#"{"message":"Again?","requestedSchema":{"type":"object","properties":{}}}"#;
    let ask = format!(r#"{{"jsonrpc":"2.0","id":'$n',"method":"elicitation/create","params":{form}}}"#);
    let result = r#"{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}"#;
    let script =
        format!("n=0; while [ $n -lt 105 ]; do n=$((n+1)); echo '{ask}'; read -r l; done; echo '{result}'");
    let done = run_scripted(&script, &["--answer", "elicit=accept"]).assert_code(5);
    done.assert_stderr(&["error: the server sent more than 100 input requests"]);
}
