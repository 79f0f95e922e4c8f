//! `call`, `read` and `prompt` when the server asks for something meanwhile, without a terminal; and what it logs

use serde_json::json;

use crate::support::{Done, PROBE, REVISIONS, probe};

/// `mcp-probe ARGS -- mcp-probe serve --everything`
fn everything(args: &[&str]) -> Done {
    probe(&[args, &["--stderr", "null", "--", PROBE, "serve", "--everything"]].concat())
}

fn call(tool: &str, more: &[&str], era: &str) -> Done {
    let tool = format!("test_input_required_result_{tool}");
    everything(&[&["call", &tool, "--era", era], more].concat())
}

// covers: MRTR-012, MRTR-014, ELIC-006, ELIC-017, ELIC-018, SAMP-003, ROOT-002, ROOT-005
#[test]
fn answers_are_given_by_key_or_kind() {
    for era in ["modern", "legacy"] {
        let said = |done: Done, want: &str| {
            let done = done.ok();
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
        // By their kind they are taken in their order.
        let two = ["--answer", r#"elicit={"name":"Al"}"#, "--answer", r#"elicit={"color":"red"}"#];
        said(call("multi_round", &two, era), "Hello, Al! Your colour is red.");
        // What can be answered is all that is declared.
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
fn a_web_page_is_agreed_to_by_a_word() {
    for (revision, era) in REVISIONS.into_iter().filter(|(revision, _)| *revision >= "2025-11-25") {
        let page =
            |said: &str| everything(&["call", "test_elicitation_url", "--era", era, "--answer", said]).ok();
        let done = page("page=accept");
        assert_eq!(done.stdout, "User response: action=accept\n", "{revision}: {done}");
        // Only one revision tells when the page is done with.
        assert_eq!(done.stderr.contains("is done (`harbour-sign-in`)"), era == "legacy", "{done}");
        assert_eq!(page("elicit=decline").stdout, "User response: action=decline\n");
    }
}

// covers: ELIC-001, ELIC-002, ELIC-020, MRTR-031, SAMP-001, SAMP-015, SAMP-027, META-017
#[test]
fn what_cannot_be_answered_exits_with_5() {
    for era in ["modern", "legacy"] {
        // Nothing is declared, so nothing is asked.
        let done = call("elicitation", &[], era).code(5);
        done.complains(&[
            "the client lacks a capability",
            "elicitation",
            "hint: answer with --answer KEY=JSON",
        ]);
        // Something is declared, and something else is asked for.
        let done = call("multiple_inputs", &["--answer", "user_name=decline"], era).code(5);
        assert_eq!(done.stdout, "", "{done}");
        done.complains(&["\"sampling\"", "hint: answer with --answer KEY=JSON"]);
        // The answer does not fit.
        let done = call("elicitation", &["--answer", r#"user_name={"name":7}"#], era).code(5);
        done.complains(&["error: the server asks for", "`content.name`: must be a string"]);
        let done = call("elicitation", &["--answer", r#"user_name={"colour":"x"}"#], era).code(5);
        done.complains(&["the form has no field `colour`"]);
        // A person who says no to a model is no missing answer.
        let done = call("sampling", &["--answer", "sample=decline"], era).code(1);
        done.complains(&["the user rejected the request"]);
    }
    // Legacy questions have no keys; modern ones that nobody has thought of have no answer.
    let args = ["--answer", r#"other={"name":"Alice"}"#];
    assert_eq!(call("elicitation", &args, "legacy").ok().stdout, "Hello, Alice!\n");
    let done = call("elicitation", &args, "modern").code(5);
    done.complains(&["error: the server asks for `user_name` (elicit); there is no answer to that"]);
    assert_eq!(call("elicitation", &["--json", args[0], args[1]], "modern").code(5).stdout, "");
}

#[test]
fn a_wrong_answer_on_the_command_line_exits_with_2() {
    for (args, wanted) in [
        (["--answer", "name"], "KEY=JSON"),
        (["--answer", "name=maybe"], "one of accept, decline, cancel"),
        (["--answer", "name=7"], "an object (a form)"),
        (["--log", "loud"], "there are debug, info, notice"),
    ] {
        call("elicitation", &args, "modern").code(2).complains(&[args[0], wanted]);
    }
}

// covers: LOG-004, LOG-005, LOG-007, LOG-012
#[test]
fn logs_are_shown_when_they_are_asked_for() {
    for era in ["modern", "legacy"] {
        let log =
            |level: &[&str]| everything(&[&["call", "test_logging_tool", "--era", era], level].concat()).ok();
        let (detail, worth) =
            ("log: debug (everything) a detail\n", "log: info (everything) something worth knowing\n");
        assert_eq!(log(&[]).stderr, "", "{era}");
        assert_eq!(log(&["--log", "debug"]).stderr, format!("{detail}{worth}"), "{era}");
        assert_eq!(log(&["--log", "info"]).stderr, worth, "{era}");
        assert_eq!(log(&["--log", "warning"]).stderr, "", "{era}");
        // A server that does not log is no failure.
        let done = probe(&["ping", "-n", "1", "--era", era, "--log", "info", "--", PROBE, "serve"]).ok();
        assert_eq!(done.stderr, "note: the server does not log\n");
    }
}

#[test]
fn what_was_asked_is_seen_in_the_trace() {
    let given = ["--answer", r#"user_name={"name":"Alice"}"#, "--trace", "--json"];
    let done = call("elicitation", &given, "modern").ok();
    assert_eq!(done.json()["content"], json!([{"type": "text", "text": "Hello, Alice!"}]));
    done.complains(&[
        "\"resultType\":\"input_required\"",
        "\"inputResponses\":{\"user_name\":{\"action\":\"accept\"",
    ]);
    let done = call("elicitation", &given, "legacy").ok();
    done.complains(&["\"method\":\"elicitation/create\"", "\"result\":{\"action\":\"accept\""]);
}

/// A legacy server that answers the call of a tool by what this script does, with its id in `$id`
#[cfg(unix)]
fn scripted(script: &str, args: &[&str]) -> Done {
    let welcome = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}"#;
    let script = format!(
        "read -r l; echo '{welcome}'; read -r l; read -r l\nid=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\n{script}\ncat >/dev/null"
    );
    probe(&[&["call", "x", "--era", "legacy"], args, &["--", "sh", "-c", &script]].concat())
}

// covers: ELIC-028, ELIC-029, ELIC-030
#[cfg(unix)]
#[test]
fn pages_that_have_to_be_visited_first_are_named() {
    let data = r#"{"elicitations":[{"mode":"url","elicitationId":"7","message":"Sign in","url":"https://a.example/x"}]}"#;
    let error = format!(r#"{{"code":-32042,"message":"visit a page first","data":{data}}}"#);
    let done =
        scripted(&format!("echo '{{\"jsonrpc\":\"2.0\",\"id\":'$id',\"error\":{error}}}'"), &[]).code(5);
    done.complains(&[
        "visit a page first",
        "hint: visit this first, if you trust it",
        "https://a.example/x (Sign in)",
    ]);
}

#[cfg(unix)]
#[test]
fn a_server_that_asks_for_ever_is_stopped() {
    let form = r#"{"message":"Again?","requestedSchema":{"type":"object","properties":{}}}"#;
    let ask = format!(r#"{{"jsonrpc":"2.0","id":'$n',"method":"elicitation/create","params":{form}}}"#);
    let result = r#"{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}"#;
    let script =
        format!("n=0; while [ $n -lt 105 ]; do n=$((n+1)); echo '{ask}'; read -r l; done; echo '{result}'");
    let done = scripted(&script, &["--answer", "elicit=accept"]).code(5);
    done.complains(&["error: the server asks for more and more: that was 100 questions"]);
}
