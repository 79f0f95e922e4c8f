//! The probe of a client and every answer to it (VER rules of `tests/spec-map.tsv`).

use mcp_proto::client::{Config, KnownEra};
use mcp_proto::{CallError, CallOptions, Diagnostic, Era, Fault, Version, VersionSet};
use mcp_tests::harness::build::{
    discover_result, error_response, initialize_result, notification, result_response, to_value,
};
use mcp_tests::harness::{Chunker, ClientHarness, Transcript, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};

/// Returns a client that has sent its probe, and the probe.
fn probing_harness(config: Config, cut: Chunker) -> (ClientHarness, Value) {
    let mut harness = ClientHarness::client(config, cut);
    let probe = harness.expect_request("server/discover");
    (harness, probe)
}

fn dual_era_config() -> Config {
    client(VersionSet::ALL)
}

/// Checks that the client falls back to `initialize`, answers it, and checks that the client is ready.
fn assert_falls_back(mut harness: ClientHarness, requested: Version) -> Transcript {
    let initialize = harness.expect_request("initialize");
    assert_eq!(initialize["params"]["protocolVersion"], requested.as_str());
    assert!(initialize["params"].get("_meta").is_none(), "a legacy request: {initialize}");
    harness.feed_message(&result_response(&initialize, initialize_result(requested.as_str(), json!({}))));
    assert_eq!(harness.expect_ready().era(), Era::Legacy);
    assert_eq!(harness.expect_reply(), notification("notifications/initialized", Value::Null));
    assert_eq!(harness.pipe.engine().known_era(), Some(KnownEra::Legacy));
    harness.assert_works();
    harness.transcript
}

/// Checks that the client closes without another request.
fn assert_gives_up(mut harness: ClientHarness, check: impl FnOnce(&Fault)) -> Transcript {
    let fault = harness.expect_closed();
    check(&fault);
    harness.assert_nothing_sent();
    assert_eq!(harness.pipe.engine().known_era(), None);
    harness.advance(secs(600));
    harness.assert_idle();
    harness.transcript
}

// covers: VER-008, VER-024, META-009, META-010, META-011, META-013, STDIO-016
#[test]
fn probe_carries_the_preferred_modern_version() {
    for_each_chunker(|cut| {
        let (harness, probe) = probing_harness(dual_era_config(), cut);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "harbor-client", "version": "0.3.0"},
        });
        assert_eq!(probe["params"], json!({"_meta": meta}));
        harness.transcript
    });
}

#[test]
fn identity_that_is_not_complete_is_kept_as_json_alone() {
    let (mut harness, probe) = probing_harness(dual_era_config(), Chunker::Whole);
    let mut found = discover_result(&["2026-07-28"], json!({}));
    found["_meta"]["io.modelcontextprotocol/serverInfo"] = json!({"name": "half"});
    harness.feed_message(&result_response(&probe, found));
    let peer = harness.expect_ready();
    assert!(peer.info().is_none());
    assert_eq!(peer.info.map(|info| to_value(&info)), Some(json!({"name": "half"})));
}

// covers: VER-013, VER-014, VER-015, VER-022
#[test]
fn discover_result_with_common_modern_version_is_accepted() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        let mut found =
            discover_result(&["2025-11-25", "2026-07-28", "2030-01-01"], json!({"tools": {}, "x": 1}));
        found["instructions"] = "Be kind.".into();
        harness.feed_message(&result_response(&probe, found));
        let peer = harness.expect_ready();
        // A legacy entry in the list, first or not, is never taken for a modern one.
        assert_eq!(peer.version, Version::V2026_07_28);
        assert_eq!(peer.instructions.as_deref(), Some("Be kind."));
        let info = peer.info().expect("an identity");
        assert_eq!((&*info.name, &*info.version), ("tide-server", "2.1.0"));
        assert_eq!(
            to_value(&peer.info.expect("an identity")),
            json!({"name": "tide-server", "version": "2.1.0"})
        );
        assert_eq!(to_value(&peer.capabilities), json!({"tools": {}, "x": 1}));
        assert_eq!(harness.pipe.engine().known_era(), Some(KnownEra::Modern));
        harness.assert_nothing_sent();
        harness.assert_works();
        harness.transcript
    });
}

// covers: VER-015
#[test]
fn discover_result_with_only_legacy_in_common_falls_back() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        harness.feed_message(&result_response(
            &probe,
            discover_result(&["2030-01-01", "2025-06-18"], json!({})),
        ));
        assert_falls_back(harness, Version::V2025_11_25)
    });
}

// covers: VER-010, VER-015
#[test]
fn discover_result_without_common_version_closes_the_client() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        harness.feed_message(&result_response(
            &probe,
            discover_result(&["2030-01-01", "DRAFT-2027"], json!({})),
        ));
        assert_gives_up(harness, |fault| {
            let offered = vec!["2030-01-01".into(), "DRAFT-2027".into()];
            assert_eq!(*fault, Fault::NoCommonVersion { supported: VersionSet::ALL, offered });
        })
    });
}

fn unsupported_version_error(probe: &Value, code: i64, data: Value) -> Value {
    error_response(probe, code, "Unsupported protocol version", data)
}

// covers: VER-010, VER-019, VER-026, VER-041
#[test]
fn unsupported_version_error_naming_ours_is_retried_once() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
        harness.feed_message(&unsupported_version_error(&probe, -32022, data.clone()));
        let again = harness.expect_request("server/discover");
        assert_ne!(again["id"], probe["id"]);
        harness.feed_message(&result_response(&again, discover_result(&["2026-07-28"], json!({}))));
        assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
        harness.transcript
    });
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
        harness.feed_message(&unsupported_version_error(&probe, -32022, data.clone()));
        let again = harness.expect_request("server/discover");
        harness.feed_message(&unsupported_version_error(&again, -32022, data));
        assert_gives_up(harness, |fault| {
            assert!(matches!(fault, Fault::HandshakeRefused(e) if e.code == -32022), "{fault:?}")
        })
    });
}

// covers: VER-010, VER-015, VER-026
#[test]
fn unsupported_version_error_with_only_legacy_in_common_falls_back() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        let data = json!({"supported": ["2030-01-01", "2024-11-05"], "requested": "2026-07-28"});
        harness.feed_message(&unsupported_version_error(&probe, -32022, data));
        assert_falls_back(harness, Version::V2025_11_25)
    });
}

// covers: VER-010, VER-026
#[test]
fn unsupported_version_error_without_common_version_closes_the_client() {
    for supported in [json!(["2030-01-01"]), json!([])] {
        for_each_chunker(|cut| {
            let (mut harness, probe) = probing_harness(dual_era_config(), cut);
            let data = json!({"supported": supported, "requested": "2026-07-28"});
            harness.feed_message(&unsupported_version_error(&probe, -32022, data));
            assert_gives_up(harness, |fault| {
                assert!(matches!(fault, Fault::NoCommonVersion { .. }), "{fault:?}")
            })
        });
    }
}

// covers: ERR-004, ERR-016, VER-041
#[test]
fn unsupported_version_error_is_recognized_by_its_data() {
    for code in [-32004, -32602, -32000, -32601, 1] {
        for_each_chunker(|cut| {
            let (mut harness, probe) = probing_harness(dual_era_config(), cut);
            let data = json!({"supported": ["2030-01-01"], "requested": "2026-07-28", "more": 1});
            harness.feed_message(&unsupported_version_error(&probe, code, data));
            assert_gives_up(harness, |fault| {
                assert!(matches!(fault, Fault::NoCommonVersion { .. }), "{code}: {fault:?}")
            })
        });
    }
}

// covers: VER-041
#[test]
fn released_code_needs_no_requested_member() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        // An official server sometimes answers like this.
        harness.feed_message(&unsupported_version_error(
            &probe,
            -32022,
            json!({"supported": ["2030-01-01"]}),
        ));
        assert_gives_up(harness, |fault| assert!(matches!(fault, Fault::NoCommonVersion { .. }), "{fault:?}"))
    });
}

// covers: ERR-004, VER-020, VER-041
#[test]
fn malformed_unsupported_version_error_means_legacy_server() {
    for (code, data) in [
        (-32022, Value::Null),
        (-32022, json!({"supported": "2026-07-28", "requested": "2026-07-28"})),
        (-32022, json!({"supported": [1], "requested": "2026-07-28"})),
        (-32022, json!(["2026-07-28"])),
        (-32004, json!({"supported": ["2026-07-28"]})),
        (-32004, json!({"supported": ["2026-07-28"], "requested": 7})),
        (-32004, Value::Null),
        (-32021, Value::Null),
        (-32021, json!({"requiredCapabilities": ["roots"]})),
        (-32003, json!({"requiredCapabilities": ["roots"]})),
        (-32003, Value::Null),
        (-32001, Value::Null),
    ] {
        for_each_chunker(|cut| {
            let (mut harness, probe) = probing_harness(dual_era_config(), cut);
            harness.feed_message(&unsupported_version_error(&probe, code, data.clone()));
            assert_falls_back(harness, Version::V2025_11_25)
        });
    }
}

// covers: VER-019, VER-026, VER-041, ERR-007
#[test]
fn other_modern_error_closes_the_client_without_fallback() {
    for (code, data) in [
        (-32020, Value::Null),
        (-32020, json!({"anything": 1})),
        (-32021, json!({"requiredCapabilities": {"elicitation": {}}})),
        (-32003, json!({"requiredCapabilities": {"elicitation": {}}})),
    ] {
        for_each_chunker(|cut| {
            let (mut harness, probe) = probing_harness(dual_era_config(), cut);
            harness.feed_message(&error_response(&probe, code, "no", data.clone()));
            assert_gives_up(harness, |fault| {
                assert!(matches!(fault, Fault::HandshakeRefused(e) if e.code == code), "{fault:?}")
            })
        });
    }
}

// covers: VER-020, VER-025
#[test]
fn any_other_error_falls_back_on_the_same_connection() {
    let codes =
        [-32700, -32600, -32601, -32602, -32603, -32002, -32042, -32000, -32019, -32099, -1, 0, 7, 1 << 40];
    for code in codes {
        for_each_chunker(|cut| {
            let (mut harness, probe) = probing_harness(dual_era_config(), cut);
            harness.feed_message(&error_response(&probe, code, "not initialized yet", Value::Null));
            assert_falls_back(harness, Version::V2025_11_25)
        });
    }
}

// covers: VER-020, VER-034, VER-028
#[test]
fn modern_only_client_reports_its_versions_and_the_server_error() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(client(VersionSet::MODERN), cut);
        harness.feed_message(&error_response(&probe, -32601, "Method not found", Value::Null));
        assert_gives_up(harness, |fault| {
            assert!(
                matches!(fault, Fault::LegacyServer { error: Some(e), .. } if e.code == -32601),
                "{fault:?}"
            );
            let text = fault.to_string();
            assert!(text.contains("2026-07-28") && text.contains("Method not found"), "{text}");
            assert_eq!(fault.retry_with(), None);
        })
    });
}

// covers: VER-020, VER-034, BASE-017
#[test]
fn malformed_answer_to_the_probe_of_a_modern_only_client_is_no_error_of_the_server() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(client(VersionSet::MODERN), cut);
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": probe["id"], "error": 7}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { .. }));
        assert_gives_up(harness, |fault| {
            assert!(matches!(fault, Fault::LegacyServer { error: None, .. }), "{fault:?}");
        })
    });
}

// covers: VER-034, VER-028
#[test]
fn modern_only_client_says_what_it_did_not_try_at_a_server_without_an_answer() {
    for ends in [true, false] {
        for (versions, is_untried) in [(VersionSet::MODERN, true), (VersionSet::ALL, false)] {
            let (mut harness, _) = probing_harness(client(versions), Chunker::Whole);
            if ends {
                harness.eof();
            } else {
                harness.advance(secs(200));
            }
            let fault = harness.expect_closed();
            assert_eq!(fault.untried_handshake().is_some(), is_untried, "{fault:?}");
            assert_eq!(
                fault.to_string().contains("only revisions with an `initialize` handshake"),
                is_untried
            );
        }
    }
}

// covers: VER-021, STDIO-023
#[test]
fn server_exit_during_probe_suggests_legacy_retry() {
    for_each_chunker(|cut| {
        let (mut harness, _) = probing_harness(dual_era_config(), cut);
        let options = CallOptions::new();
        let key =
            harness.pipe.engine().call(harness.now, "tools/list", &json!({}), &options).expect("queued");
        harness.eof();
        let fault = Fault::ExitedDuringProbe { legacy: true };
        assert_eq!(harness.expect_done(key), Err(CallError::Closed(fault.clone())));
        assert_gives_up(harness, |actual| assert_eq!(*actual, fault));
        let known_era = fault.retry_with();
        assert_eq!(known_era, Some(KnownEra::Legacy));
        // The new connection that an adapter makes.
        assert_falls_back(
            ClientHarness::client(dual_era_config().known_era(known_era), cut),
            Version::V2025_11_25,
        )
    });
}

// covers: VER-021
#[test]
fn server_exit_during_probe_suggests_no_retry_to_modern_only_client() {
    for_each_chunker(|cut| {
        let (mut harness, _) = probing_harness(client(VersionSet::MODERN), cut);
        harness.eof();
        assert_gives_up(harness, |fault| {
            assert_eq!(*fault, Fault::ExitedDuringProbe { legacy: false });
            assert_eq!(fault.retry_with(), None);
        })
    });
}

// covers: VER-001, VER-002, VER-024, LIFE-001, LIFE-002
#[test]
fn legacy_client_opens_with_initialize() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let initialize = harness.expect_request("initialize");
        let info = json!({"name": "harbor-client", "version": "0.3.0"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        assert_eq!(initialize["params"], params);
        harness.transcript
    });
}

// covers: VER-020, BASE-009, BASE-010, BASE-011, ERR-023
#[test]
fn malformed_probe_response_means_legacy_server() {
    let answers: [fn(&Value) -> Value; 10] = [
        |probe| result_response(probe, json!({})),
        |probe| result_response(probe, json!({"supportedVersions": "2026-07-28"})),
        |probe| result_response(probe, json!({"supportedVersions": [20260728]})),
        |probe| result_response(probe, json!({"supportedVersions": null})),
        |probe| result_response(probe, json!([])),
        |probe| result_response(probe, Value::Null),
        |probe| json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": "x", "message": "y"}}),
        |probe| json!({"jsonrpc": "2.0", "id": probe["id"], "error": "no"}),
        |probe| json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": 1, "message": "y"}, "result": {}}),
        |probe| json!({"jsonrpc": "1.0", "id": probe["id"], "result": {}}),
    ];
    for answer in answers {
        for_each_chunker(|cut| {
            let (mut harness, probe) = probing_harness(dual_era_config(), cut);
            harness.feed_message(&answer(&probe));
            let events = harness.take_event_texts();
            assert!(events.iter().all(|event| event.starts_with("diagnostic Malformed")), "{events:?}");
            assert_falls_back(harness, Version::V2025_11_25)
        });
    }
}

// covers: BASE-008, STDIO-011, ERR-023
#[test]
fn unrelated_responses_are_reported_and_the_probe_continues() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        let text = probe["id"].to_string();
        harness.feed_message(
            &json!({"jsonrpc": "2.0", "id": text, "result": discover_result(&["2026-07-28"], json!({}))}),
        );
        assert!(
            matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }),
            "the id of the response is a string"
        );
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        harness.feed_message(
            &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}),
        );
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::PeerError(e) if e.code == -32700));
        harness.feed_message(&json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::PeerError(_)));
        harness.assert_idle();
        harness.feed_message(&result_response(&probe, discover_result(&["2026-07-28"], json!({}))));
        assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
        harness.transcript
    });
}

// covers: BASE-031, META-018
#[test]
fn draft_discover_result_without_result_type_is_accepted() {
    for_each_chunker(|cut| {
        let (mut harness, probe) = probing_harness(dual_era_config(), cut);
        let info = json!({"name": "draft", "version": "0"});
        let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": info});
        harness.feed_message(&result_response(&probe, found));
        let peer = harness.expect_ready();
        assert_eq!(peer.info.map(|i| to_value(&i)), Some(info));
        harness.transcript
    });
}
