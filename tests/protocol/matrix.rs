//! Version negotiation over stdio: each pair of client and server versions (VER rules of `tests/spec-map.tsv`).

use mcp_proto::{CallOptions, Fault, Version, VersionSet};
use mcp_tests::harness::{Chunker, Pair, for_each_chunker};
use mcp_tests::schema::MessageDirection;
use serde_json::json;

use crate::protocol::common::{client, server};

const MODERN: VersionSet = VersionSet::MODERN;
const LEGACY: VersionSet = VersionSet::LEGACY;
const DUAL: VersionSet = VersionSet::ALL;

/// Connects a pair and makes a call, which is sent as soon as possible.
fn connect(client_versions: VersionSet, server_versions: VersionSet, cut: Chunker) -> Pair {
    let mut pair = Pair::new(client(client_versions), server(server_versions), cut);
    let (params, options) = (json!({"name": "echo", "arguments": {"text": "ahoy"}}), CallOptions::new());
    pair.app.call(pair.now, &mut pair.client, "echo", "tools/call", &params, &options).expect("queued");
    pair.settle();
    pair
}

/// Returns the agreed revision and the methods that the client sent.
fn expect_agreement(client_versions: VersionSet, server_versions: VersionSet) -> (Version, Vec<String>) {
    for_each_chunker(|cut| {
        let pair = connect(client_versions, server_versions, cut);
        let peer = pair.app.peer.as_ref().expect("ready");
        let echoed = pair.app.outcome("echo").expect("answered");
        assert_eq!(echoed, r#"{"content":[{"text":"ahoy","type":"text"}]}"#);
        (peer.version, sent_methods(&pair))
    })
}

/// Returns the fault of a pair that cannot agree and the methods that the client sent.
fn expect_failure(client_versions: VersionSet, server_versions: VersionSet) -> (Fault, Vec<String>) {
    for_each_chunker(|cut| {
        let pair = connect(client_versions, server_versions, cut);
        assert!(pair.app.peer.is_none());
        let outcome = pair.app.outcome("echo").expect("ended");
        assert!(outcome.starts_with("not answered: the connection ended before the answer"), "{outcome}");
        (pair.app.client_fault.clone().expect("a fault"), sent_methods(&pair))
    })
}

fn sent_methods(pair: &Pair) -> Vec<String> {
    let method = |m: &serde_json::Value| m["method"].as_str().map(str::to_owned);
    pair.messages_in(MessageDirection::ClientToServer).filter_map(method).collect()
}

/// Returns the error that the server sent to the only request of the client.
fn expect_single_error(client_versions: VersionSet, server_versions: VersionSet) -> serde_json::Value {
    let pair = connect(client_versions, server_versions, Chunker::Whole);
    let answers: Vec<_> = pair.messages_in(MessageDirection::ServerToClient).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0]["error"].clone()
}

// ---- eras ------------------------------------------------------------------------------------------------------

// covers: VER-011, VER-014, VER-024, VER-028
#[test]
fn modern_client_with_modern_server_agrees() {
    let (version, sent) = expect_agreement(MODERN, MODERN);
    assert_eq!(version, Version::V2026_07_28);
    assert_eq!(sent, ["server/discover", "tools/call"]);
}

// covers: VER-028, VER-034
#[test]
fn modern_client_with_legacy_server_fails_cleanly() {
    let (fault, sent) = expect_failure(MODERN, LEGACY);
    assert!(
        matches!(&fault, Fault::LegacyServer { supported, error: Some(_) } if *supported == MODERN),
        "{fault:?}"
    );
    let text = fault.to_string();
    assert!(text.contains("2026-07-28") && text.contains("initialize"), "{text}");
    assert!(fault.retry_with().is_none());
    // The probe alone: a legacy server has nothing to execute.
    assert_eq!(sent, ["server/discover"]);
}

// covers: VER-011, VER-014, VER-016, VER-024
#[test]
fn dual_era_client_with_modern_server_stays_modern() {
    let (version, sent) = expect_agreement(DUAL, MODERN);
    assert_eq!(version, Version::V2026_07_28);
    assert_eq!(sent, ["server/discover", "tools/call"]);
}

// covers: VER-016, VER-020, VER-024, VER-025, LIFE-001, LIFE-004
#[test]
fn dual_era_client_with_legacy_server_falls_back_to_initialize() {
    let (version, sent) = expect_agreement(DUAL, LEGACY);
    assert_eq!(version, Version::V2025_11_25);
    assert_eq!(sent, ["server/discover", "initialize", "notifications/initialized", "tools/call"]);
}

// covers: VER-005, VER-032, VER-033, LIFE-024
#[test]
fn legacy_client_with_modern_server_fails_and_names_the_versions() {
    let (fault, sent) = expect_failure(LEGACY, MODERN);
    assert_eq!(fault, Fault::NoCommonVersion { supported: LEGACY, offered: vec!["2026-07-28".into()] });
    assert!(fault.to_string().contains("2026-07-28"), "{fault}");
    assert_eq!(sent, ["initialize"]);
    let error = expect_single_error(LEGACY, MODERN);
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert!(error["message"].as_str().is_some_and(|m| m.contains("2026-07-28")), "{error}");
}

// covers: VER-003, VER-005, VER-016, VER-018, LIFE-001
#[test]
fn legacy_client_with_dual_era_server_agrees_on_the_legacy_version() {
    let (version, sent) = expect_agreement(LEGACY, DUAL);
    assert_eq!(version, Version::V2025_11_25);
    assert_eq!(sent, ["initialize", "notifications/initialized", "tools/call"]);
    for version in [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18] {
        assert_eq!(expect_agreement(VersionSet::only(version), DUAL).0, version);
    }
}

// covers: BASE-022, LIFE-001, VER-003
#[test]
fn legacy_client_with_legacy_server_agrees() {
    let (version, sent) = expect_agreement(LEGACY, LEGACY);
    assert_eq!(version, Version::V2025_11_25);
    assert_eq!(sent, ["initialize", "notifications/initialized", "tools/call"]);
}

// ---- legacy revisions ------------------------------------------------------------------------------------------

/// Returns the revisions up to `newest`.
fn versions_up_to(newest: Version) -> VersionSet {
    let known = Version::ALL.into_iter().filter(|v| *v <= newest);
    known.fold(VersionSet::NONE, VersionSet::with)
}

/// Checks one row: a client of `requested` at servers up to each legacy revision, with their answers in order.
fn assert_matrix_row(requested: Version, answers: [Version; 4]) {
    for (newest, answer) in mcp_tests::harness::build::LEGACY_VERSIONS.into_iter().zip(answers) {
        let server_versions = versions_up_to(newest);
        // A client that speaks the older revisions too accepts the offer.
        assert_eq!(
            expect_agreement(versions_up_to(requested), server_versions).0,
            answer,
            "{requested} at {server_versions}"
        );
        let offered = connect(versions_up_to(requested), server_versions, Chunker::Whole);
        let answered = offered.messages_in(MessageDirection::ServerToClient).next().expect("an answer");
        assert_eq!(answered["result"]["protocolVersion"], answer.as_str());
        // A client that speaks only `requested` disconnects without `initialized`.
        if answer != requested {
            let client_versions = VersionSet::only(requested);
            let (fault, sent) = expect_failure(client_versions, server_versions);
            assert_eq!(
                fault,
                Fault::NoCommonVersion { supported: client_versions, offered: vec![answer.to_string()] }
            );
            assert_eq!(sent, ["initialize"]);
        } else {
            assert_eq!(expect_agreement(VersionSet::only(requested), server_versions).0, requested);
        }
    }
}

// covers: VER-001, VER-002, VER-003
#[test]
fn client_of_2024_11_05_agrees_per_matrix_row() {
    assert_matrix_row(Version::V2024_11_05, [Version::V2024_11_05; 4]);
}

// covers: VER-001, VER-002, VER-003, VER-004, VER-005, VER-006
#[test]
fn client_of_2025_03_26_agrees_per_matrix_row() {
    use Version::{V2024_11_05, V2025_03_26};
    assert_matrix_row(V2025_03_26, [V2024_11_05, V2025_03_26, V2025_03_26, V2025_03_26]);
}

// covers: VER-001, VER-002, VER-003, VER-004, VER-005, VER-006
#[test]
fn client_of_2025_06_18_agrees_per_matrix_row() {
    use Version::{V2024_11_05, V2025_03_26, V2025_06_18};
    assert_matrix_row(V2025_06_18, [V2024_11_05, V2025_03_26, V2025_06_18, V2025_06_18]);
}

// covers: VER-001, VER-002, VER-003, VER-004, VER-005, VER-006
#[test]
fn client_of_2025_11_25_agrees_per_matrix_row() {
    use Version::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
    assert_matrix_row(V2025_11_25, [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25]);
}

// covers: VER-004, VER-005
#[test]
fn server_without_the_requested_version_offers_its_newest() {
    use Version::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
    // Sets with gaps: the answer may be newer than the request.
    let server_versions = VersionSet::only(V2024_11_05).with(V2025_11_25);
    assert_eq!(
        expect_agreement(VersionSet::only(V2025_06_18).with(V2025_11_25), server_versions).0,
        V2025_11_25
    );
    let client_versions = VersionSet::only(V2025_03_26);
    let (fault, _) = expect_failure(client_versions, server_versions);
    assert_eq!(
        fault,
        Fault::NoCommonVersion { supported: client_versions, offered: vec![V2025_11_25.to_string()] }
    );
}
