//! Our tool answers what a server of theirs asks for, and listens to it

use std::process::Command;

use serde_json::Value;

use crate::peers::{node, node_ready, probe};
use crate::run::{DEADLINE, Done, run, say};

/// `mcp-probe ARGS -- node server-everything`
fn everything(args: &[&str]) -> Done {
    let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
    let entry = entry.iter().fold(node(), |path, part| path.join(part));
    let mut client = Command::new(probe());
    client.args(args).args(["--stderr", "null", "--", "node"]).arg(entry).arg("stdio");
    run(client, DEADLINE).expect("mcp-probe starts")
}

/// The JSON that stands in a text behind its heading
fn json_in(text: &str) -> Value {
    let from = text.find('{').unwrap_or_else(|| panic!("no JSON in {text}"));
    serde_json::from_str(&text[from..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

// covers: ELIC-006, ELIC-016, ELIC-017, ELIC-018, SAMP-003, SAMP-005, ROOT-001, ROOT-002, RES-010, LOG-004
#[test]
fn our_tool_answers_what_their_server_everything_asks() {
    if !node_ready() {
        return;
    }
    let ask = ["call", "trigger-elicitation-request"];
    let done = everything(&[&ask[..], &["--answer", r#"elicit={"name":"Ada","check":true}"#]].concat()).ok();
    let seen = json_in(done.stdout.split_once("Raw result:").expect("the result").1);
    assert_eq!(seen["action"], "accept", "{done}");
    assert_eq!(
        (&seen["content"]["name"], &seen["content"]["integer"]),
        (&"Ada".into(), &42.into()),
        "{done}"
    );
    for action in ["decline", "cancel"] {
        let done = everything(&[&ask[..], &["--answer", &format!("elicit={action}")]].concat()).ok();
        assert_eq!(json_in(&done.stdout)["action"], action, "{done}");
    }
    let sample = ["call", "trigger-sampling-request", "--args", r#"{"prompt":"hi"}"#];
    let done = everything(&[&sample[..], &["--answer", r#"sample="Good day""#]].concat()).ok();
    let seen = json_in(&done.stdout);
    assert_eq!(
        (&seen["content"]["text"], &seen["stopReason"]),
        (&"Good day".into(), &"endTurn".into()),
        "{done}"
    );
    let refused = everything(&[&sample[..], &["--answer", "sample=decline"]].concat());
    refused.failed().says("the user rejected the request");
    everything(&["call", "get-roots-list", "--root", "/srv/a b"]).ok().says("file:///srv/a%20b");
    // Without an answer nothing is declared, and this server then has no such tool.
    everything(&ask).failed().says("trigger-elicitation-request");

    let uri = "demo://resource/dynamic/text/1";
    let done = everything(&["listen", uri, "--for", "1s", "--log", "info"]).ok();
    let done = done
        .says(&format!("listening  tools, prompts, resources, {uri}\n"))
        .says("ended      the time is over");
    // It logs what is asked of it.
    done.stderr_has("log: info Received Subscribe Resource request");
    say(
        "interop, our tool, server-everything: a form (3 answers), sampling (2), roots, a subscription, logs",
    );
}
