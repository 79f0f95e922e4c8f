//! SDK clients with our server on stdio.

use alloc::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::interop::{LEGACY, MODERN};
use crate::peers::{is_node_ready, node, peers, probe};
use crate::run::{DEADLINE, command, print_line, run};

/// Runs an SDK client with our server and returns its steps by name, all of them successful.
fn run_client(client: &str, client_args: &[&str], serve: &[&str]) -> BTreeMap<String, Value> {
    let mut command = command(["node", client]);
    command.current_dir(node()).args(client_args);
    run_reporting_client(command, serve)
}

/// Runs a client whose command lacks the server, and returns its steps.
fn run_reporting_client(mut client: Command, serve: &[&str]) -> BTreeMap<String, Value> {
    client.arg("--").arg(probe()).arg("serve").args(serve);
    parse_steps(client)
}

/// Runs a client and returns its steps by name, all of them successful.
pub(crate) fn parse_steps(client: Command) -> BTreeMap<String, Value> {
    let done = run(client, DEADLINE).expect("the client starts").assert_success();
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

/// Checks all steps of a session, its era and its revision.
fn assert_session(client: &str, client_args: &[&str], serve: &[&str], era: &str, revision: &str) {
    let steps = run_client(client, client_args, serve);
    let progress = &check_session(&steps, era, revision)["progress"];
    let count = steps.len();
    print_line(&format!(
        "interop, our server {serve:?}, {client} {client_args:?}: {revision}, {count} steps, progress {progress}"
    ));
}

/// Checks that all steps were performed in the given era and revision; returns the step of progress.
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
    // Compared by name, so that a skipped step is noticed.
    assert_eq!(steps.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    let negotiated = &steps["negotiate"];
    assert_eq!(
        (negotiated["era"].as_str(), negotiated["version"].as_str()),
        (Some(era), Some(revision)),
        "{negotiated}"
    );
    // Optional in the modern era, and the only identification of the server there.
    assert!(negotiated["server"]["name"].is_string(), "{negotiated}");
    &steps["progress"]
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-021 BASE-008 LIFE-003 VER-003 VER-018 TOOL-001
// covers: TOOL-013 TOOL-015 TOOL-021 TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 PING-002
#[test]
fn typescript_1_client_uses_own_server() {
    if is_node_ready() {
        assert_session("client-v1.mjs", &[], &[], "legacy", LEGACY);
        assert_session("client-v1.mjs", &[], &["--era", "legacy"], "legacy", LEGACY);
    }
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-014 STDIO-018 STDIO-019 STDIO-021 BASE-008 BASE-026
// covers: BASE-027 VER-011 VER-013 VER-018 CACHE-001 META-018 TOOL-001 TOOL-002 TOOL-013 TOOL-015 TOOL-021
// covers: TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 CANC-020
#[test]
fn typescript_2_modern_client_uses_own_server() {
    if is_node_ready() {
        assert_session("client-v2.mjs", &["--era", "modern"], &["--era", "modern"], "modern", MODERN);
        assert_session("client-v2.mjs", &["--era", "modern"], &[], "modern", MODERN);
    }
}

// covers: STDIO-002 STDIO-003 STDIO-005 STDIO-010 STDIO-021 BASE-008 LIFE-003 VER-003 VER-018 TOOL-001
// covers: TOOL-013 TOOL-015 TOOL-021 TOOL-023 ERR-018 PROG-006 PROG-007 PROG-010 PROG-011 CANC-010 PING-002
#[test]
fn typescript_2_legacy_client_uses_own_server() {
    if is_node_ready() {
        assert_session("client-v2.mjs", &["--era", "legacy"], &["--era", "legacy"], "legacy", LEGACY);
        assert_session("client-v2.mjs", &["--era", "legacy"], &[], "legacy", LEGACY);
    }
}

// This client waits a minute for the answer to its probe, so a slow machine cannot change the era.
// covers: VER-011 VER-013 VER-016 VER-018
#[test]
fn typescript_2_client_finds_era_of_own_server() {
    if is_node_ready() {
        assert_session("client-v2.mjs", &["--era", "auto"], &[], "modern", MODERN);
        assert_session("client-v2.mjs", &["--era", "auto"], &["--era", "modern"], "modern", MODERN);
        assert_session("client-v2.mjs", &["--era", "auto"], &["--era", "legacy"], "legacy", LEGACY);
    }
}

// covers: VER-032 VER-033 ERR-008
#[test]
fn sdk_clients_pinned_to_missing_era_are_refused() {
    if !is_node_ready() {
        return;
    }
    for (client, era) in [("client-v1.mjs", &[][..]), ("client-v2.mjs", &["--era", "legacy"])] {
        let mut args = era.to_vec();
        args.push("--expect-refusal");
        let refused = &run_client(client, &args, &["--era", "modern"])["refused"];
        assert_eq!(refused["code"], -32022, "{refused}");
        assert_eq!(refused["data"], json!({"supported": [MODERN], "requested": LEGACY}), "{refused}");
        // A client of this age can only show the message to its user.
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(MODERN)), "{refused}");
    }
    run_client("client-v2.mjs", &["--era", "modern", "--expect-refusal"], &["--era", "legacy"]);
    print_line("interop, our server pinned to the other era: their clients are refused, with the versions");
}

/// Returns the file of everything that `serve --everything` offers, with the expected results. Our client uses it too.
pub(crate) fn everything() -> PathBuf {
    ["..", "..", "adapters", "cli", "tests", "cli", "everything.json"]
        .iter()
        .fold(peers(), |path, part| path.join(part))
}

/// Checks that a client used everything, in the given era and revision.
pub(crate) fn assert_used_everything(
    client: &str,
    args: &[&str],
    steps: &BTreeMap<String, Value>,
    expected: &[&str],
    era: &str,
) {
    assert_eq!(steps.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    let negotiated = &steps["negotiate"];
    let revision = if era == "modern" { MODERN } else { LEGACY };
    assert_eq!(
        (negotiated["era"].as_str(), negotiated["version"].as_str()),
        (Some(era), Some(revision)),
        "{negotiated}"
    );
    let counts = &steps["everything"]["counts"];
    for kind in ["list", "tool", "read", "prompt", "complete"] {
        assert!(counts[kind].as_u64().is_some_and(|count| count > 0), "{kind}: {counts}");
    }
    print_line(&format!("interop, our server --everything, {client} {args:?}: {revision}, {counts}"));
}

// covers: TOOL-004, TOOL-005, TOOL-006, TOOL-007, TOOL-013, TOOL-014, TOOL-015, TOOL-018, TOOL-022, RES-003, RES-004
// covers: RES-005, RES-006, RES-015, RES-016, RES-020, PROMPT-003, PROMPT-004, PROMPT-006, PROMPT-010, COMP-002, COMP-004
// covers: COMP-006, CONT-001, CONT-002, CONT-003, PAGE-001, PAGE-003, PAGE-008, CACHE-001, META-017, ERR-007
#[test]
fn typescript_clients_use_all_features_of_own_server() {
    if !is_node_ready() {
        return;
    }
    let file = everything();
    let file = file.to_str().expect("a path in UTF-8");
    for (client, args, era) in [
        ("client-v1.mjs", &[][..], "legacy"),
        ("client-v2.mjs", &["--era", "modern"], "modern"),
        ("client-v2.mjs", &["--era", "legacy"], "legacy"),
    ] {
        let steps = run_client(client, &[args, &["--everything", file]].concat(), &["--everything"]);
        assert_used_everything(
            client,
            args,
            &steps,
            &["end", "everything", "negotiate", "nothing-stray"],
            era,
        );
    }
}

// covers: TOOL-004, TOOL-005, TOOL-006, TOOL-007, TOOL-013, TOOL-014, TOOL-015, TOOL-018, TOOL-022, RES-003, RES-004
// covers: RES-005, RES-006, RES-015, RES-016, RES-020, PROMPT-003, PROMPT-004, PROMPT-006, PROMPT-010, COMP-002, COMP-004
// covers: COMP-006, CONT-001, CONT-002, CONT-003, PAGE-001, PAGE-003, PAGE-008, CACHE-001, META-017, ERR-007, VER-018
#[cfg(feature = "every-peer")]
#[test]
fn python_client_uses_all_features_of_own_server() {
    use crate::peers::{is_python_ready, python, python_program};

    if !is_python_ready() {
        return;
    }
    for (mode, era) in [("modern", "modern"), ("legacy", "legacy"), ("auto", "modern")] {
        let mut client = Command::new(python_program());
        client.current_dir(python()).args(["client.py", "--era", mode]).arg(everything());
        let steps = run_reporting_client(client, &["--everything"]);
        assert_used_everything("client.py", &[mode], &steps, &["end", "everything", "negotiate"], era);
    }
}
