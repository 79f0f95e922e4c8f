//! `KnownEra`: detecting the era of a server, and what happens when the known one is wrong.

use mcp_proto::client::KnownEra;
use mcp_proto::{CallError, CallOptions, Diagnostic, Fault, Version, VersionSet};
use mcp_tests::harness::build::{
    discover_result, error_response, initialize_result, notification, result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, Pair, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs, server};

fn harness_with_known_era(known_era: KnownEra, cut: Chunker) -> ClientHarness {
    ClientHarness::client(client(VersionSet::ALL).known_era(Some(known_era)), cut)
}

fn assert_becomes_legacy(harness: &mut ClientHarness, initialize: &Value) {
    harness.feed_message(&result_response(initialize, initialize_result("2025-06-18", json!({}))));
    assert_eq!(harness.expect_ready().version, Version::V2025_06_18);
    assert_eq!(harness.expect_reply(), notification("notifications/initialized", Value::Null));
    assert_eq!(harness.pipe.engine().known_era(), Some(KnownEra::Legacy));
    harness.assert_works();
}

fn assert_becomes_modern(harness: &mut ClientHarness, probe: &Value) {
    harness.feed_message(&result_response(probe, discover_result(&["2026-07-28"], json!({}))));
    assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
    assert_eq!(harness.pipe.engine().known_era(), Some(KnownEra::Modern));
    harness.assert_works();
}

// covers: VER-022
#[test]
fn known_era_is_detected_and_round_trips_as_text() {
    for (server_versions, known_era) in [
        (VersionSet::LEGACY, KnownEra::Legacy),
        (VersionSet::MODERN, KnownEra::Modern),
        (VersionSet::ALL, KnownEra::Modern),
    ] {
        let mut pair = Pair::new(client(VersionSet::ALL), server(server_versions), Chunker::Whole);
        assert_eq!(pair.client.engine().known_era(), None);
        pair.settle();
        let found = pair.client.engine().known_era().expect("an era");
        assert_eq!(found, known_era);
        assert_eq!(found.to_string().parse(), Ok(found));
        // The next connection needs no detection.
        assert_eq!(client(VersionSet::ALL).known_era(Some(found)).stored_era(), Some(found));
        let mut pair = Pair::new(
            client(VersionSet::ALL).known_era(Some(found)),
            server(server_versions),
            Chunker::Whole,
        );
        pair.settle();
        assert_eq!(pair.client.engine().known_era(), Some(known_era));
        let first = pair.observer.messages[0].value["method"].clone();
        assert_eq!(first, if known_era == KnownEra::Modern { "server/discover" } else { "initialize" });
    }
}

// covers: VER-022, LIFE-001
#[test]
fn known_legacy_server_is_not_probed() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_known_era(KnownEra::Legacy, cut);
        let initialize = harness.expect_request("initialize");
        assert_becomes_legacy(&mut harness, &initialize);
        harness.transcript
    });
}

// covers: VER-022
#[test]
fn known_modern_server_gets_a_longer_probe_timeout() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_known_era(KnownEra::Modern, cut);
        let probe = harness.expect_request("server/discover");
        harness.advance(ms(59_999));
        harness.assert_idle();
        assert_becomes_modern(&mut harness, &probe);
        harness.transcript
    });
}

// covers: VER-042
#[test]
fn wrong_known_legacy_era_falls_back_to_probe() {
    let refusals: [fn(&Value) -> Value; 3] = [
        |q| error_response(q, -32022, "no", json!({"supported": ["2026-07-28"], "requested": "2025-11-25"})),
        |q| error_response(q, -32601, "Method not found", Value::Null),
        |q| error_response(q, -32602, "`params._meta` is missing", Value::Null),
    ];
    for refusal in refusals {
        for_each_chunker(|cut| {
            let mut harness = harness_with_known_era(KnownEra::Legacy, cut);
            let initialize = harness.expect_request("initialize");
            harness.feed_message(&refusal(&initialize));
            let probe = harness.expect_request("server/discover");
            assert_becomes_modern(&mut harness, &probe);
            harness.transcript
        });
    }
}

// covers: VER-006, VER-023
#[test]
fn handshake_without_common_version_disconnects_and_the_next_connection_probes() {
    let own = VersionSet::only(Version::V2024_11_05).with(Version::V2026_07_28);
    let other = VersionSet::only(Version::V2025_03_26).with(Version::V2026_07_28);
    let told = client(own).known_era(KnownEra::Legacy);
    let mut pair = Pair::new(told, server(other), Chunker::Whole);
    pair.settle();
    assert_eq!(pair.app.peer.as_ref().map(|peer| peer.version), None);
    let methods = pair.observer.messages.iter().filter_map(|message| message.value["method"].as_str());
    assert_eq!(
        methods.collect::<Vec<_>>(),
        ["initialize"],
        "no `initialized`, and no probe on this connection"
    );
    let found = pair.client.engine().known_era();
    assert_eq!(found, None);
    let mut pair = Pair::new(client(own).known_era(found), server(other), Chunker::Whole);
    pair.settle();
    assert_eq!(pair.app.peer.as_ref().map(|peer| peer.version), Some(Version::V2026_07_28));
    assert_eq!(pair.client.engine().known_era(), Some(KnownEra::Modern));
}

// covers: VER-042, LIFE-020
#[test]
fn refusal_by_legacy_server_is_reported_with_its_error() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_known_era(KnownEra::Legacy, cut);
        let initialize = harness.expect_request("initialize");
        harness.feed_message(&error_response(&initialize, -32603, "the tide gauge is broken", Value::Null));
        let probe = harness.expect_request("server/discover");
        harness.feed_message(&error_response(&probe, -32601, "Method not found", Value::Null));
        let fault = harness.expect_closed();
        assert!(
            matches!(&fault, Fault::HandshakeRefused(e) if e.message == "the tide gauge is broken"),
            "{fault:?}"
        );
        harness.assert_nothing_sent();
        harness.transcript
    });
}

// covers: VER-020, VER-042
#[test]
fn wrong_known_modern_era_falls_back_to_initialize() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_known_era(KnownEra::Modern, cut);
        let probe = harness.expect_request("server/discover");
        harness.feed_message(&error_response(&probe, -32601, "Method not found", Value::Null));
        let initialize = harness.expect_request("initialize");
        assert_becomes_legacy(&mut harness, &initialize);
        harness.transcript
    });
    // A probe timeout does the same, after a longer wait.
    for_each_chunker(|cut| {
        let mut harness = harness_with_known_era(KnownEra::Modern, cut);
        harness.expect_request("server/discover");
        harness.advance(secs(60));
        let initialize = harness.expect_request("initialize");
        assert_becomes_legacy(&mut harness, &initialize);
        harness.transcript
    });
}

// covers: VER-022
#[test]
fn known_era_never_overrides_the_client_versions() {
    for (versions, known_era, first) in [
        (VersionSet::MODERN, KnownEra::Legacy, "server/discover"),
        (VersionSet::LEGACY, KnownEra::Modern, "initialize"),
    ] {
        let mut harness = ClientHarness::client(client(versions).known_era(Some(known_era)), Chunker::Whole);
        harness.expect_request(first);
        harness.assert_idle();
    }
}

// covers: VER-042
#[test]
fn modern_error_on_a_legacy_connection_clears_the_known_era() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
        harness.feed_message(&error_response(&request, -32022, "Unsupported protocol version", data));
        assert_eq!(harness.expect_diagnostic(), Diagnostic::EraContradicted);
        assert!(harness.expect_done(key).is_err());
        assert_eq!(harness.pipe.engine().known_era(), None);
        // The connection stays usable.
        harness.assert_works();
        harness.transcript
    });
}

// covers: ERR-017, LIFE-020, VER-006
#[test]
fn initialize_refused_for_its_version_reports_offered_versions() {
    let start_initialize = |cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let initialize = harness.expect_request("initialize");
        (harness, initialize)
    };
    for_each_chunker(|cut| {
        let (mut harness, initialize) = start_initialize(cut);
        let data = json!({"supported": ["2023-01-01"], "requested": "2025-11-25"});
        harness.feed_message(&error_response(&initialize, -32602, "Unsupported protocol version", data));
        let fault = harness.expect_closed();
        let offered = vec!["2023-01-01".into()];
        assert_eq!(fault, Fault::NoCommonVersion { supported: VersionSet::LEGACY, offered });
        harness.transcript
    });
    // The server refuses the version in common as well: its error is passed on.
    for_each_chunker(|cut| {
        let (mut harness, initialize) = start_initialize(cut);
        let data = json!({"supported": ["2024-11-05"], "requested": "2025-11-25"});
        harness.feed_message(&error_response(&initialize, -32602, "not that one", data.clone()));
        let again = harness.expect_request("initialize");
        harness.feed_message(&error_response(&again, -32602, "only 2024-11-05 here", data));
        assert!(
            matches!(harness.expect_closed(), Fault::HandshakeRefused(e) if e.message == "only 2024-11-05 here")
        );
        harness.transcript
    });
}

// covers: BASE-010, LIFE-003, LIFE-020, VER-006
#[test]
fn malformed_initialize_result_is_a_bad_handshake() {
    for answer in
        [json!({}), json!({"protocolVersion": 1}), json!({"protocolVersion": null, "capabilities": {}})]
    {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
            let initialize = harness.expect_request("initialize");
            harness.feed_message(&result_response(&initialize, answer.clone()));
            let fault = harness.expect_closed();
            assert!(matches!(fault, Fault::BadHandshake { method: "initialize", .. }), "{answer}: {fault:?}");
            // No `initialized` is sent.
            harness.assert_nothing_sent();
            harness.transcript
        });
    }
}

// covers: ERR-015
#[test]
fn malformed_answer_to_initialize_is_no_refusal_of_the_server() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let initialize = harness.expect_request("initialize");
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}});
        let mut answer = result_response(&initialize, result);
        answer.as_object_mut().expect("an object").remove("jsonrpc");
        harness.feed_message(&answer);
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { .. }));
        let fault = harness.expect_closed();
        let expected = "the server's answer to `initialize` is not valid: `jsonrpc` is not \"2.0\"";
        assert_eq!(fault.to_string(), expected);
        harness.transcript
    });
}

/// Some servers write both members, and `null` for the one that there is not.
#[test]
fn null_beside_a_result_or_an_error_is_absent() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let initialize = harness.expect_request("initialize");
        let result =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}});
        let mut answer = result_response(&initialize, result);
        answer["error"] = Value::Null;
        harness.feed_message(&answer);
        assert_eq!(harness.expect_ready().version, Version::V2025_11_25);
        assert_eq!(harness.expect_reply()["method"], "notifications/initialized");
        let (call, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        let mut refusal = error_response(&request, -32000, "no", Value::Null);
        refusal["result"] = Value::Null;
        harness.feed_message(&refusal);
        assert!(matches!(harness.expect_done(call), Err(CallError::Rpc(error)) if error.code == -32000));
        let (call, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": request["id"], "result": null, "error": null}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { .. }));
        assert!(matches!(harness.expect_done(call), Err(CallError::Malformed(_))));
    });
}

// covers: VER-005, VER-006, VER-007
#[test]
fn initialize_result_with_unsupported_version_closes_the_client() {
    for version in ["2026-07-28", "2025-11-25 ", "2024-10-07", "DRAFT-2025-v2", ""] {
        for_each_chunker(|cut| {
            let mut harness =
                ClientHarness::client(client(VersionSet::ALL).known_era(Some(KnownEra::Legacy)), cut);
            let initialize = harness.expect_request("initialize");
            harness.feed_message(&result_response(&initialize, initialize_result(version, json!({}))));
            let offered = vec![version.to_owned()];
            assert_eq!(
                harness.expect_closed(),
                Fault::NoCommonVersion { supported: VersionSet::ALL, offered }
            );
            harness.assert_nothing_sent();
            harness.transcript
        });
    }
}

// covers: LIFE-003, LIFE-014, LIFE-015
#[test]
fn initialize_result_without_optional_members_is_accepted() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let initialize = harness.expect_request("initialize");
        let capabilities = json!({"tools": {"listChanged": true, "new": 1}, "harbour": {"deep": [1]}});
        let answer = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "more": []});
        harness.feed_message(&result_response(&initialize, answer));
        let peer = harness.expect_ready();
        assert!(peer.info.is_none() && peer.instructions.is_none());
        assert!(peer.has(mcp_proto::Capability::Tools) && !peer.has(mcp_proto::Capability::Prompts));
        // Unknown members are kept.
        assert_eq!(mcp_tests::harness::build::to_value(&peer.capabilities), capabilities);
        harness.transcript
    });
}

/// Refuses the probe, and returns the request by which the client goes on.
fn initialize_after_a_refused_probe(harness: &mut ClientHarness) -> Value {
    let probe = harness.expect_request("server/discover");
    harness.feed_message(&error_response(&probe, -32601, "?", Value::Null));
    harness.expect_request("initialize")
}

#[test]
fn server_that_refuses_all_requests_and_offers_a_known_revision_has_refused_the_handshake() {
    for (offered, is_common) in [("2026-07-28", true), ("2030-01-01", false)] {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
        let initialize = initialize_after_a_refused_probe(&mut harness);
        let data = json!({"supported": [offered], "requested": "2025-11-25"});
        harness.feed_message(&error_response(&initialize, -32602, "Unsupported protocol version", data));
        let fault = harness.expect_closed();
        assert_eq!(matches!(fault, Fault::HandshakeRefused(_)), is_common, "{fault:?}");
    }
}

#[test]
fn instructions_that_are_no_text_are_a_bad_handshake() {
    for (instructions, is_valid) in [(Value::Null, true), (json!("a"), true), (json!(7), false)] {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
        let initialize = initialize_after_a_refused_probe(&mut harness);
        let mut result = initialize_result("2025-11-25", json!({}));
        result["instructions"] = instructions.clone();
        harness.feed_message(&result_response(&initialize, result));
        if is_valid {
            harness.expect_ready();
        } else {
            assert!(matches!(harness.expect_closed(), Fault::BadHandshake { .. }), "{instructions}");
        }
    }
}
