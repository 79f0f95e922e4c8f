//! `mcp-probe` answers the input requests of an SDK server and follows its changes.

use serde_json::Value;

use crate::peers::{is_node_ready, node, probe_client};
use crate::run::{DEADLINE, ProcessOutput, print_line, run};

/// Runs `mcp-probe ARGS -- node server-everything`.
fn everything(args: &[&str]) -> ProcessOutput {
    let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
    let entry = entry.iter().fold(node(), |path, part| path.join(part));
    let mut client = probe_client();
    client.args(args).args(["--stderr", "null", "--", "node"]).arg(entry).arg("stdio");
    run(client, DEADLINE).expect("mcp-probe starts")
}

/// Returns the JSON after the heading of a text.
fn json_in(text: &str) -> Value {
    let from = text.find('{').unwrap_or_else(|| panic!("no JSON in {text}"));
    serde_json::from_str(&text[from..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

// covers: ELIC-006, ELIC-016, ELIC-017, ELIC-018, SAMP-003, SAMP-005, ROOT-001, ROOT-002, RES-010, LOG-004
#[test]
fn probe_answers_input_requests_of_server_everything() {
    if !is_node_ready() {
        return;
    }
    let arguments = ["call", "trigger-elicitation-request"];
    let done = everything(&[&arguments[..], &["--answer", r#"elicit={"name":"Ada","check":true}"#]].concat())
        .assert_success();
    let seen = json_in(done.stdout.split_once("Raw result:").expect("the result").1);
    assert_eq!(seen["action"], "accept", "{done}");
    assert_eq!(
        (&seen["content"]["name"], &seen["content"]["integer"]),
        (&"Ada".into(), &42.into()),
        "{done}"
    );
    for action in ["decline", "cancel"] {
        let done = everything(&[&arguments[..], &["--answer", &format!("elicit={action}")]].concat())
            .assert_success();
        assert_eq!(json_in(&done.stdout)["action"], action, "{done}");
    }
    let sample = ["call", "trigger-sampling-request", "--args", r#"{"prompt":"hi"}"#];
    let done = everything(&[&sample[..], &["--answer", r#"sample="Good day""#]].concat()).assert_success();
    let seen = json_in(&done.stdout);
    assert_eq!(
        (&seen["content"]["text"], &seen["stopReason"]),
        (&"Good day".into(), &"endTurn".into()),
        "{done}"
    );
    let refused = everything(&[&sample[..], &["--answer", "sample=decline"]].concat());
    refused.assert_failure().assert_output_contains("the user rejected the request");
    everything(&["call", "get-roots-list", "--root", "/srv/a b"])
        .assert_success()
        .assert_output_contains("file:///srv/a%20b");
    // Without an answer the capability is not declared, and this server then hides the tool.
    everything(&arguments).assert_failure().assert_output_contains("trigger-elicitation-request");

    let uri = "demo://resource/dynamic/text/1";
    let done = everything(&["listen", uri, "--for", "1s", "--log", "info"]).assert_success();
    let done = done
        .assert_output_contains(&format!("listening  tools, prompts, resources, {uri}\n"))
        .assert_output_contains("ended      the time has elapsed");
    // The server logs each request to subscribe.
    done.assert_stderr_contains("log: info Received Subscribe Resource request");
    print_line(
        "interop, our tool, server-everything: a form (3 answers), sampling (2), roots, a subscription, logs",
    );
}
