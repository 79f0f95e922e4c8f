//! Which client gets along with which server: both tables of `spec-map` 3.5, stdio column, a test for each row.

use mcp_proto::{CallOptions, Fault, Version, VersionSet};
use mcp_tests::harness::{Chunker, Pair, each_cut};
use mcp_tests::schema::Direction;
use serde_json::json;

use crate::common::{client, server};

const MODERN: VersionSet = VersionSet::MODERN;
const LEGACY: VersionSet = VersionSet::LEGACY;
const DUAL: VersionSet = VersionSet::ALL;

/// Connects the two and makes a call, which goes out as soon as it can
fn connect(ours: VersionSet, theirs: VersionSet, cut: Chunker) -> Pair {
    let mut pair = Pair::new(client(ours), server(theirs), cut);
    let (params, options) = (json!({"name": "echo", "arguments": {"text": "ahoy"}}), CallOptions::new());
    pair.app.call(pair.now, &mut pair.client, "echo", "tools/call", &params, &options).expect("queued");
    pair.settle();
    pair
}

/// The revision that a pair settles on, and the methods that the client sent on the way
fn settled(ours: VersionSet, theirs: VersionSet) -> (Version, Vec<String>) {
    each_cut(|cut| {
        let pair = connect(ours, theirs, cut);
        let peer = pair.app.peer.as_ref().expect("ready");
        let echoed = pair.app.outcome("echo").expect("answered");
        assert_eq!(echoed, r#"{"content":[{"text":"ahoy","type":"text"}]}"#);
        (peer.version, methods(&pair))
    })
}

/// Why a pair does not come together, and the methods that the client sent until then
fn failed(ours: VersionSet, theirs: VersionSet) -> (Fault, Vec<String>) {
    each_cut(|cut| {
        let pair = connect(ours, theirs, cut);
        assert!(pair.app.peer.is_none());
        let outcome = pair.app.outcome("echo").expect("ended");
        assert!(outcome.starts_with("not answered: the connection ended before the answer"), "{outcome}");
        (pair.app.client_end.clone().expect("over"), methods(&pair))
    })
}

fn methods(pair: &Pair) -> Vec<String> {
    let method = |m: &serde_json::Value| m["method"].as_str().map(str::to_owned);
    pair.went(Direction::ClientToServer).filter_map(method).collect()
}

/// The error that the server gave to the client's only question
fn only_error(ours: VersionSet, theirs: VersionSet) -> serde_json::Value {
    let pair = connect(ours, theirs, Chunker::Whole);
    let answers: Vec<_> = pair.went(Direction::ServerToClient).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0]["error"].clone()
}

// ---- first table: eras -----------------------------------------------------------------------------------------

// covers: VER-011, VER-014, VER-024, VER-028
#[test]
fn a_modern_client_and_a_modern_server_work() {
    let (version, sent) = settled(MODERN, MODERN);
    assert_eq!(version, Version::V2026_07_28);
    assert_eq!(sent, ["server/discover", "tools/call"]);
}

// covers: VER-028, VER-034
#[test]
fn a_modern_client_and_a_legacy_server_fail_cleanly() {
    let (fault, sent) = failed(MODERN, LEGACY);
    assert!(matches!(&fault, Fault::LegacyServer { ours, answer: Some(_) } if *ours == MODERN), "{fault:?}");
    let text = fault.to_string();
    assert!(text.contains("2026-07-28") && text.contains("initialize"), "{text}");
    assert!(fault.retry_with().is_none());
    // The question alone: nothing that an old server could execute.
    assert_eq!(sent, ["server/discover"]);
}

// covers: VER-011, VER-014, VER-016, VER-024
#[test]
fn a_dual_era_client_and_a_modern_server_stay_modern() {
    let (version, sent) = settled(DUAL, MODERN);
    assert_eq!(version, Version::V2026_07_28);
    assert_eq!(sent, ["server/discover", "tools/call"]);
}

// covers: VER-016, VER-020, VER-024, VER-025, LIFE-001, LIFE-004
#[test]
fn a_dual_era_client_and_a_legacy_server_fall_back_to_initialize() {
    let (version, sent) = settled(DUAL, LEGACY);
    assert_eq!(version, Version::V2025_11_25);
    assert_eq!(sent, ["server/discover", "initialize", "notifications/initialized", "tools/call"]);
}

// covers: VER-005, VER-032, VER-033, LIFE-024
#[test]
fn a_legacy_client_and_a_modern_server_fail_with_the_versions_named() {
    let (fault, sent) = failed(LEGACY, MODERN);
    assert_eq!(fault, Fault::NoCommonVersion { ours: LEGACY, theirs: vec!["2026-07-28".into()] });
    assert!(fault.to_string().contains("2026-07-28"), "{fault}");
    assert_eq!(sent, ["initialize"]);
    let error = only_error(LEGACY, MODERN);
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert!(error["message"].as_str().is_some_and(|m| m.contains("2026-07-28")), "{error}");
}

// covers: VER-003, VER-005, VER-016, VER-018, LIFE-001
#[test]
fn a_legacy_client_and_a_dual_era_server_work_at_the_legacy_version() {
    let (version, sent) = settled(LEGACY, DUAL);
    assert_eq!(version, Version::V2025_11_25);
    assert_eq!(sent, ["initialize", "notifications/initialized", "tools/call"]);
    for version in [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18] {
        assert_eq!(settled(VersionSet::only(version), DUAL).0, version);
    }
}

// covers: BASE-022, LIFE-001, VER-003
#[test]
fn a_legacy_client_and_a_legacy_server_work() {
    let (version, sent) = settled(LEGACY, LEGACY);
    assert_eq!(version, Version::V2025_11_25);
    assert_eq!(sent, ["initialize", "notifications/initialized", "tools/call"]);
}

// ---- second table: legacy revisions ----------------------------------------------------------------------------

/// The revisions up to `newest`
fn up_to(newest: Version) -> VersionSet {
    let known = Version::ALL.into_iter().filter(|v| *v <= newest);
    known.fold(VersionSet::NONE, VersionSet::with)
}

/// One row: a client that asks for `asked`, at servers that go up to each legacy revision; the answers in order
fn row(asked: Version, answers: [Version; 4]) {
    for (newest, answer) in mcp_tests::harness::build::LEGACY.into_iter().zip(answers) {
        let theirs = up_to(newest);
        // A client that speaks the older revisions too takes what is offered.
        assert_eq!(settled(up_to(asked), theirs).0, answer, "{asked} at {theirs}");
        let offered = connect(up_to(asked), theirs, Chunker::Whole);
        let answered = offered.went(Direction::ServerToClient).next().expect("an answer");
        assert_eq!(answered["result"]["protocolVersion"], answer.as_str());
        // One that speaks nothing else disconnects, without `initialized`.
        if answer != asked {
            let ours = VersionSet::only(asked);
            let (fault, sent) = failed(ours, theirs);
            assert_eq!(fault, Fault::NoCommonVersion { ours, theirs: vec![answer.to_string()] });
            assert_eq!(sent, ["initialize"]);
        } else {
            assert_eq!(settled(VersionSet::only(asked), theirs).0, asked);
        }
    }
}

// covers: VER-001, VER-002, VER-003
#[test]
fn a_client_that_asks_for_2024_11_05() {
    row(Version::V2024_11_05, [Version::V2024_11_05; 4]);
}

// covers: VER-001, VER-002, VER-003, VER-004, VER-005, VER-006
#[test]
fn a_client_that_asks_for_2025_03_26() {
    use Version::{V2024_11_05, V2025_03_26};
    row(V2025_03_26, [V2024_11_05, V2025_03_26, V2025_03_26, V2025_03_26]);
}

// covers: VER-001, VER-002, VER-003, VER-004, VER-005, VER-006
#[test]
fn a_client_that_asks_for_2025_06_18() {
    use Version::{V2024_11_05, V2025_03_26, V2025_06_18};
    row(V2025_06_18, [V2024_11_05, V2025_03_26, V2025_06_18, V2025_06_18]);
}

// covers: VER-001, VER-002, VER-003, VER-004, VER-005, VER-006
#[test]
fn a_client_that_asks_for_2025_11_25() {
    use Version::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
    row(V2025_11_25, [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25]);
}

// covers: VER-004, VER-005
#[test]
fn a_server_without_the_version_asked_for_offers_its_latest() {
    use Version::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
    // Not only sets without gaps: the answer may be newer than the question.
    let theirs = VersionSet::only(V2024_11_05).with(V2025_11_25);
    assert_eq!(settled(VersionSet::only(V2025_06_18).with(V2025_11_25), theirs).0, V2025_11_25);
    let ours = VersionSet::only(V2025_03_26);
    let (fault, _) = failed(ours, theirs);
    assert_eq!(fault, Fault::NoCommonVersion { ours, theirs: vec![V2025_11_25.to_string()] });
}
