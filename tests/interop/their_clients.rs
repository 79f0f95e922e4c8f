//! Their clients with our server

use alloc::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::peers::{node, node_ready, package, probe, python, python_program, python_ready};
use crate::run::{DEADLINE, command, run, say};
use crate::{LEGACY, MODERN};

/// Runs one of their clients on our server and returns its steps by name; every one of them has to be good.
fn steps(client: &str, client_args: &[&str], serve: &[&str]) -> BTreeMap<String, Value> {
    let mut command = command(["node", client]);
    command.current_dir(node()).args(client_args);
    reported(command, serve)
}

/// The steps of a client that is yet to be told the server.
fn reported(mut client: Command, serve: &[&str]) -> BTreeMap<String, Value> {
    client.arg("--").arg(probe()).arg("serve").args(serve);
    performed(client)
}

/// The steps that a client has performed, all of them well.
pub(crate) fn performed(client: Command) -> BTreeMap<String, Value> {
    let done = run(client, DEADLINE).expect("the client starts").ok();
    let mut steps = BTreeMap::new();
    for line in done.stdout.lines() {
        let step: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}: {done}"));
        assert!(step["ok"] == true || step["ok"] == "peer-cannot", "{step}: {done}");
        steps.insert(step["step"].as_str().expect("a name").to_owned(), step);
    }
    assert!(!steps.is_empty(), "no steps: {done}");
    steps
}

/// All steps of a session, in the era and revision that was to be agreed on.
fn session(client: &str, client_args: &[&str], serve: &[&str], era: &str, revision: &str) {
    let steps = steps(client, client_args, serve);
    let progress = &check_session(&steps, era, revision)["progress"];
    let count = steps.len();
    say(&format!(
        "interop, our server {serve:?}, {client} {client_args:?}: {revision}, {count} steps, progress {progress}"
    ));
}

/// All steps were performed, in the era and revision that was to be agreed on; what came of progress.
pub(crate) fn check_session<'a>(steps: &'a BTreeMap<String, Value>, era: &str, revision: &str) -> &'a Value {
    let expected = [
        "alive",
        "call",
        "cancel",
        "end",
        "in-flight",
        "list",
        "negotiate",
        "nothing-stray",
        "progress",
        "structured",
        "tool-error",
        "unknown-tool",
    ];
    // By name, so that a step that is skipped by mistake does not pass for a good one.
    assert_eq!(steps.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    let agreed = &steps["negotiate"];
    assert_eq!((agreed["era"].as_str(), agreed["version"].as_str()), (Some(era), Some(revision)), "{agreed}");
    // Optional in the modern era, and the only way there to know whom one talks to.
    assert!(agreed["server"]["name"].is_string(), "{agreed}");
    &steps["progress"]
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-021 BASE-008 LIFE-003 VER-003 VER-018 TOOL-001
// covers: TOOL-013 TOOL-015 TOOL-021 TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 PING-002
#[test]
fn their_client_v1_with_our_server() {
    if node_ready() {
        session("client-v1.mjs", &[], &[], "legacy", LEGACY);
        session("client-v1.mjs", &[], &["--era", "legacy"], "legacy", LEGACY);
    }
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-014 STDIO-018 STDIO-019 STDIO-021 BASE-008 BASE-026
// covers: BASE-027 VER-011 VER-013 VER-018 CACHE-001 META-018 TOOL-001 TOOL-002 TOOL-013 TOOL-015 TOOL-021
// covers: TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 CANC-020
#[test]
fn their_client_v2_modern_with_our_server() {
    if node_ready() {
        session("client-v2.mjs", &["--era", "modern"], &["--era", "modern"], "modern", MODERN);
        session("client-v2.mjs", &["--era", "modern"], &[], "modern", MODERN);
    }
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-021 BASE-008 LIFE-003 VER-003 VER-018 TOOL-001
// covers: TOOL-013 TOOL-015 TOOL-021 TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 PING-002
#[test]
fn their_client_v2_legacy_with_our_server() {
    if node_ready() {
        session("client-v2.mjs", &["--era", "legacy"], &["--era", "legacy"], "legacy", LEGACY);
        session("client-v2.mjs", &["--era", "legacy"], &[], "legacy", LEGACY);
    }
}

// This client waits a minute for the answer to its probe, so not even a slow machine sends it into the wrong era.
// covers: VER-011 VER-013 VER-016 VER-018
#[test]
fn their_client_v2_finds_our_era() {
    if node_ready() {
        session("client-v2.mjs", &["--era", "auto"], &[], "modern", MODERN);
        session("client-v2.mjs", &["--era", "auto"], &["--era", "modern"], "modern", MODERN);
        session("client-v2.mjs", &["--era", "auto"], &["--era", "legacy"], "legacy", LEGACY);
    }
}

// covers: VER-032 VER-033 ERR-008
#[test]
fn their_clients_in_the_era_that_our_server_lacks() {
    if !node_ready() {
        return;
    }
    for (client, era) in [("client-v1.mjs", &[][..]), ("client-v2.mjs", &["--era", "legacy"])] {
        let mut args = era.to_vec();
        args.push("--expect-refusal");
        let refused = &steps(client, &args, &["--era", "modern"])["refused"];
        assert_eq!(refused["code"], -32022, "{refused}");
        assert_eq!(refused["data"], json!({"supported": [MODERN], "requested": LEGACY}), "{refused}");
        // All that a client of this age can do with it is to show it to somebody.
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(MODERN)), "{refused}");
    }
    steps("client-v2.mjs", &["--era", "modern", "--expect-refusal"], &["--era", "legacy"]);
    say("interop, our server pinned to the other era: their clients are refused, with the versions");
}

/// What `serve --everything` offers and what comes of it; our own client is held to the same.
pub(crate) fn everything() -> PathBuf {
    ["..", "adapters", "cli", "tests", "cli", "everything.json"]
        .iter()
        .fold(package().to_owned(), |path, part| path.join(part))
}

/// A client that used all of it, in the era and revision that was to be agreed on.
pub(crate) fn used_everything(
    client: &str,
    args: &[&str],
    steps: &BTreeMap<String, Value>,
    expected: &[&str],
    era: &str,
) {
    assert_eq!(steps.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    let agreed = &steps["negotiate"];
    let revision = if era == "modern" { MODERN } else { LEGACY };
    assert_eq!((agreed["era"].as_str(), agreed["version"].as_str()), (Some(era), Some(revision)), "{agreed}");
    let counts = &steps["everything"]["counts"];
    for kind in ["list", "tool", "read", "prompt", "complete"] {
        assert!(counts[kind].as_u64().is_some_and(|count| count > 0), "{kind}: {counts}");
    }
    say(&format!("interop, our server --everything, {client} {args:?}: {revision}, {counts}"));
}

// covers: TOOL-004, TOOL-005, TOOL-006, TOOL-007, TOOL-013, TOOL-014, TOOL-015, TOOL-018, TOOL-022, RES-003, RES-004
// covers: RES-005, RES-006, RES-015, RES-016, RES-020, PROMPT-003, PROMPT-004, PROMPT-006, PROMPT-010, COMP-002, COMP-004
// covers: COMP-006, CONT-001, CONT-002, CONT-003, PAGE-001, PAGE-003, PAGE-008, CACHE-001, META-017, ERR-007
#[test]
fn their_node_clients_use_everything_that_our_server_offers() {
    if !node_ready() {
        return;
    }
    let file = everything();
    let file = file.to_str().expect("a path in UTF-8");
    for (client, args, era) in [
        ("client-v1.mjs", &[][..], "legacy"),
        ("client-v2.mjs", &["--era", "modern"], "modern"),
        ("client-v2.mjs", &["--era", "legacy"], "legacy"),
    ] {
        let steps = steps(client, &[args, &["--everything", file]].concat(), &["--everything"]);
        used_everything(client, args, &steps, &["end", "everything", "negotiate", "nothing-stray"], era);
    }
}

// covers: TOOL-004, TOOL-005, TOOL-006, TOOL-007, TOOL-013, TOOL-014, TOOL-015, TOOL-018, TOOL-022, RES-003, RES-004
// covers: RES-005, RES-006, RES-015, RES-016, RES-020, PROMPT-003, PROMPT-004, PROMPT-006, PROMPT-010, COMP-002, COMP-004
// covers: COMP-006, CONT-001, CONT-002, CONT-003, PAGE-001, PAGE-003, PAGE-008, CACHE-001, META-017, ERR-007, VER-018
#[test]
fn their_python_client_uses_everything_that_our_server_offers() {
    if !python_ready() {
        return;
    }
    for (mode, era) in [("modern", "modern"), ("legacy", "legacy"), ("auto", "modern")] {
        let mut client = Command::new(python_program());
        client.current_dir(python()).args(["client.py", "--era", mode]).arg(everything());
        let steps = reported(client, &["--everything"]);
        used_everything("client.py", &[mode], &steps, &["end", "everything", "negotiate"], era);
    }
}
