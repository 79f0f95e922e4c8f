//! `serve --everything` with the steps of `everything.json`, in both eras and on every adapter.
//!
//! `tests/system/tests/interop` holds the clients of other implementations to the same file.

use mcp_blocking::{Client, Program};
use mcp_proto::{CallOptions, Version, VersionSet, client};
use serde_json::{Value, json};

use crate::steps::StepRunner;
use crate::support::PROBE;

// covers: TOOL-004, TOOL-006, TOOL-010, TOOL-013, TOOL-014, TOOL-015, TOOL-018, TOOL-021, TOOL-022, TOOL-023, TOOL-029
// covers: RES-003, RES-004, RES-005, RES-009, RES-015, RES-016, RES-020, PROMPT-003, PROMPT-004, PROMPT-005, PROMPT-010
// covers: COMP-002, COMP-003, COMP-004, COMP-006, CONT-001, CONT-002, CONT-003, CONT-004, META-017, ERR-007, PAGE-001
// covers: PAGE-003, PAGE-008, PROG-006, PROG-007, SCHEMA-002, SCHEMA-003
#[test]
fn everything_works_in_both_eras_on_blocking() {
    works_on("blocking");
}

#[test]
fn everything_works_in_both_eras_on_threads() {
    works_on("threads");
}

#[test]
fn everything_works_in_both_eras_on_smol() {
    works_on("smol");
}

fn works_on(runtime: &str) {
    let steps: Vec<Value> = serde_json::from_str(include_str!("everything.json")).expect("JSON");
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let config = client::Config::new("everything", "1").versions(VersionSet::only(version));
        let program = Program::new(PROBE).args(["serve", "--everything", "--runtime", runtime]);
        let mut session = StepRunner::new(Client::spawn_with(config, program).expect("a connection"));
        session.perform(&steps);

        let client = &mut session.client;
        let first = client.request("resources/list", &json!({}), &CallOptions::new()).expect("a page");
        assert_eq!(
            first.member("resources").and_then(|page| page.elements()).map(|page| page.len()),
            Some(10)
        );
        assert!(first.member("nextCursor").is_some(), "{first}");
        let tools = client.list_tools().expect("tools");
        assert!(tools.iter().all(|tool| tool.description.as_ref().is_some_and(|text| !text.is_empty())));
        let prompts = client.list_prompts().expect("prompts");
        assert!(
            prompts.iter().all(|prompt| prompt.description.as_ref().is_some_and(|text| !text.is_empty()))
        );

        let ended = session.client.close().expect("an end").expect("a process");
        assert!(ended.status.is_some_and(|status| status.success()), "{ended:?}");
    }
}
