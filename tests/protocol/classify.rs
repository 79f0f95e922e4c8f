//! How a server classifies a message by era and revision (VER, META and LIFE rules of `tests/spec-map.tsv`).

use mcp_proto::server::{Call, Event};
use mcp_proto::{Capabilities, Capability, Diagnostic, Version, VersionSet};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, initialize_request, legacy_request, modern_meta, modern_request, modern_request_with,
    notification, to_value,
};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::server;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

fn dual_era_harness(cut: Chunker) -> ServerHarness {
    ServerHarness::server(server(VersionSet::ALL), cut)
}

fn harness_with_versions(versions: VersionSet, cut: Chunker) -> ServerHarness {
    ServerHarness::server(server(versions), cut)
}

fn assert_version(call: &Call, version: Version) {
    assert_eq!(call.version(), version, "{call:?}");
}

// covers: VER-012, VER-018, META-015, BASE-032
#[test]
fn modern_request_is_served_without_handshake() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        let call = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
        assert_version(&call, Version::V2026_07_28);
        let answer = harness.complete(call.id(), &json!({"tools": []}));
        let result = json!({
            "tools": [], "ttlMs": 0, "cacheScope": "private", "resultType": "complete",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tide-server", "version": "2.1.0"}},
        });
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": result}));
        harness.transcript
    });
}

// covers: VER-017, VER-018, META-015, BASE-032
#[test]
fn both_eras_work_on_one_connection_independently() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        let session = json!({"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "old", "version": "1"}});
        harness.feed_message(&legacy_request(1, "initialize", session));
        assert_eq!(harness.expect_reply()["result"]["protocolVersion"], "2025-06-18");
        harness.feed_message(&notification("notifications/initialized", Value::Null));
        assert!(matches!(harness.expect_event(), Event::SessionOpened { version: Version::V2025_06_18, .. }));
        let call = harness.expect_call_for(&legacy_request(2, "tools/list", Value::Null));
        assert_version(&call, Version::V2025_06_18);
        let peer = harness.pipe.engine().peer(&call);
        let info = peer.info().expect("client info");
        assert_eq!((&*info.name, &*info.version), ("old", "1"));
        assert_eq!(
            (to_value(&peer.info.expect("client info")), to_value(&peer.capabilities)),
            (json!({"name": "old", "version": "1"}), json!({"roots": {}}))
        );
        assert_eq!(harness.complete(call.id(), &json!({"tools": []}))["result"], json!({"tools": []}));
        // A modern request inside the session is independent of it.
        let call = harness.expect_call_for(&modern_request(3, "tools/list", json!({})));
        assert_version(&call, Version::V2026_07_28);
        let peer = harness.pipe.engine().peer(&call);
        assert_eq!(to_value(&peer.capabilities), json!({}));
        assert_eq!(harness.complete(call.id(), &json!({"tools": []}))["result"]["resultType"], "complete");
        // The session is still open.
        let call =
            harness.expect_call_for(&legacy_request(4, "tools/list", json!({"_meta": {"progressToken": 4}})));
        assert_version(&call, Version::V2025_06_18);
        harness.complete(call.id(), &json!({"tools": []}));
        harness.feed_message(&legacy_request(5, "ping", Value::Null));
        assert_eq!(harness.expect_reply()["result"], json!({}));
        harness.transcript
    });
}

// covers: VER-018, LIFE-001
#[test]
fn session_can_open_after_modern_requests() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        harness.assert_works();
        harness.open_session(Version::V2025_11_25);
        let call = harness.expect_call_for(&legacy_request(1, "tools/list", json!({})));
        assert_version(&call, Version::V2025_11_25);
        harness.assert_works();
        harness.transcript
    });
}

// covers: VER-007, VER-009, ERR-008
#[test]
fn request_with_unknown_version_gets_the_supported_versions() {
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        for requested in ["2030-01-01", "2025-11-25", "", "DRAFT-2026-v1", "2026-07-28 "] {
            for method in ["tools/list", "server/discover", "initialize", "harbor/unknown", "ping"] {
                for_each_chunker(|cut| {
                    let mut harness = harness_with_versions(versions, cut);
                    let error = harness.expect_error(&modern_request_with(
                        1,
                        method,
                        json!({}),
                        &json!({VERSION_KEY: requested}),
                    ));
                    assert_eq!(error["code"], -32022, "{method}");
                    let supported: Vec<&str> = versions.iter().map(Version::as_str).collect();
                    assert_eq!(error["data"], json!({"supported": supported, "requested": requested}));
                    harness.assert_works();
                    harness.transcript
                });
            }
        }
    }
}

// covers: VER-009, ERR-008
#[test]
fn version_is_checked_before_other_metadata() {
    let changes =
        json!({VERSION_KEY: "2030-01-01", CAPABILITIES_KEY: null, "io.modelcontextprotocol/logLevel": 7});
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        assert_eq!(
            harness.expect_error(&modern_request_with(1, "tools/list", json!({}), &changes))["code"],
            -32022
        );
        harness.transcript
    });
}

// covers: VER-015, VER-017, ERR-008
#[test]
fn discover_and_version_error_list_the_same_versions() {
    let all = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    let config = || server(VersionSet::ALL);
    for (config, want) in [
        (config(), all.clone()),
        (config().advertise_legacy(true), all),
        (config().advertise_legacy(false), json!(["2026-07-28"])),
        (server(VersionSet::MODERN), json!(["2026-07-28"])),
    ] {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(config.clone(), cut);
            harness.feed_message(&modern_request(1, "server/discover", json!({})));
            assert_eq!(harness.expect_reply()["result"]["supportedVersions"], want);
            let error = harness.expect_error(&modern_request_with(
                2,
                "tools/list",
                json!({}),
                &json!({VERSION_KEY: "2030-01-01"}),
            ));
            assert_eq!(error["data"]["supported"], want);
            harness.transcript
        });
    }
}

// covers: VER-011, VER-013, META-018, BASE-026
#[test]
fn discover_result_describes_the_server() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::ALL).instructions("One harbour at a time.");
        let config = config.capabilities(Capabilities::new().with(Capability::ResourceSubscriptions));
        let mut harness = ServerHarness::server(config, cut);
        harness.feed_message(&modern_request("d", "server/discover", json!({})));
        let answer = harness.expect_reply();
        assert_eq!(answer["id"], "d");
        let result = &answer["result"];
        assert_eq!(result["supportedVersions"][0], "2026-07-28");
        assert_eq!(result["capabilities"], json!({"resources": {"subscribe": true}}));
        assert_eq!(result["instructions"], "One harbour at a time.");
        assert_eq!(result["resultType"], "complete");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
        let info = json!({"name": "tide-server", "version": "2.1.0"});
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], info);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: VER-032, VER-033, LIFE-024
#[test]
fn modern_only_server_refuses_initialize_and_names_its_versions() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_versions(VersionSet::MODERN, cut);
        for requested in ["2025-11-25", "2024-11-05", "2026-07-28"] {
            let error = harness.expect_error(&initialize_request(1, requested));
            assert_eq!(error["code"], -32022);
            assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": requested}));
            assert!(error["message"].as_str().is_some_and(|m| m.contains("2026-07-28")), "{error}");
        }
        let error = harness.expect_error(&legacy_request(2, "initialize", Value::Null));
        assert_eq!((&error["code"], &error["data"]["supported"]), (&json!(-32022), &json!(["2026-07-28"])));
        // With modern metadata it is an unknown method.
        assert_eq!(harness.expect_error(&modern_request(3, "initialize", json!({})))["code"], -32601);
        harness.feed_message(&notification("notifications/initialized", Value::Null));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)));
        harness.assert_works();
        harness.transcript
    });
}

// covers: META-013, META-014, LIFE-024
#[test]
fn modern_only_server_names_missing_metadata_of_legacy_requests() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_versions(VersionSet::MODERN, cut);
        for method in
            ["ping", "tools/list", "server/discover", "harbor/tide", "unheard/of", "logging/setLevel"]
        {
            for params in
                [Value::Null, json!({}), json!({"_meta": {}}), json!({"_meta": {"progressToken": 1}})]
            {
                let error = harness.expect_error(&legacy_request(1, method, params));
                assert_eq!(error["code"], -32602, "{method}");
                let message = error["message"].as_str().unwrap_or_default();
                assert!(message.contains(VERSION_KEY) && message.contains(CAPABILITIES_KEY), "{message}");
            }
        }
        harness.assert_works();
        harness.transcript
    });
}

// covers: META-002, META-010, META-014, LOG-010
#[test]
fn missing_or_ill_typed_metadata_is_named_in_the_error() {
    let cases = [
        (json!({CAPABILITIES_KEY: null}), CAPABILITIES_KEY),
        (json!({VERSION_KEY: null}), VERSION_KEY),
        (json!({VERSION_KEY: 20260728}), VERSION_KEY),
        (json!({VERSION_KEY: ["2026-07-28"]}), VERSION_KEY),
        (json!({CAPABILITIES_KEY: []}), CAPABILITIES_KEY),
        (json!({CAPABILITIES_KEY: "{}"}), CAPABILITIES_KEY),
        (
            json!({"io.modelcontextprotocol/clientInfo": "harbor-client"}),
            "io.modelcontextprotocol/clientInfo",
        ),
        (json!({"io.modelcontextprotocol/logLevel": "loud"}), "log level"),
        (json!({"io.modelcontextprotocol/logLevel": 3}), "log level"),
        (json!({"progressToken": 1.5}), "progressToken"),
        (json!({"progressToken": true}), "progressToken"),
        (json!({"progressToken": {}}), "progressToken"),
    ];
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        for (change, named) in &cases {
            for_each_chunker(|cut| {
                let mut harness = harness_with_versions(versions, cut);
                let error = harness.expect_error(&modern_request_with(
                    1,
                    "tools/call",
                    json!({"name": "echo"}),
                    change,
                ));
                assert_eq!(error["code"], -32602, "{change}");
                assert!(error["message"].as_str().is_some_and(|m| m.contains(named)), "{change}: {error}");
                harness.assert_works();
                harness.transcript
            });
        }
    }
}

// covers: META-012, META-014
#[test]
fn optional_or_unknown_metadata_is_accepted() {
    for change in [
        json!({"io.modelcontextprotocol/clientInfo": null}),
        json!({"io.modelcontextprotocol/logLevel": "debug"}),
        json!({"io.modelcontextprotocol/logLevel": "emergency"}),
        json!({"io.modelcontextprotocol/new": [1], "com.example/x": null, "plain": 1}),
        json!({"progressToken": "p"}),
        json!({CAPABILITIES_KEY: {"unknown": [], "roots": 7}}),
    ] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let request = modern_request_with(1, "tools/call", json!({"name": "echo"}), &change);
            let call = harness.expect_call_for(&request);
            assert_eq!(to_value(&call.meta().expect("metadata")), request["params"]["_meta"]);
            harness.complete(call.id(), &json!({"content": []}));
            harness.transcript
        });
    }
}

// covers: META-014, LIFE-007
#[test]
fn protocol_metadata_key_without_version_is_refused() {
    for key in ["clientCapabilities", "clientInfo", "logLevel", "anything"] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let name = format!("io.modelcontextprotocol/{key}");
            let error = harness.expect_error(&legacy_request(1, "tools/list", json!({"_meta": {name: {}}})));
            assert_eq!(error["code"], -32602);
            assert!(error["message"].as_str().is_some_and(|m| m.contains(VERSION_KEY)), "{error}");
            harness.transcript
        });
    }
}

// covers: VER-018, META-014
#[test]
fn discover_without_metadata_is_refused() {
    for session in [None, Some(Version::V2025_11_25)] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            if let Some(version) = session {
                harness.open_session(version);
            }
            for params in [Value::Null, json!({}), json!({"_meta": {}})] {
                let error = harness.expect_error(&legacy_request("d", "server/discover", params));
                assert_eq!(error["code"], -32602);
                assert!(error["message"].as_str().is_some_and(|m| m.contains(VERSION_KEY)), "{error}");
            }
            harness.transcript
        });
    }
}

// covers: LIFE-007, PING-001, BASE-024
#[test]
fn request_before_initialize_is_refused_except_ping() {
    for versions in [VersionSet::ALL, VersionSet::LEGACY] {
        for_each_chunker(|cut| {
            let mut harness = harness_with_versions(versions, cut);
            for method in ["tools/list", "tools/call", "harbor/tide", "logging/setLevel", "unheard/of"] {
                assert_eq!(
                    harness.expect_error(&legacy_request(1, method, json!({})))["code"],
                    -32600,
                    "{method}"
                );
            }
            harness.feed_message(&legacy_request(2, "ping", Value::Null));
            assert_eq!(harness.expect_reply()["result"], json!({}));
            // A legacy-only server knows no modern metadata: such a request is one before `initialize`.
            if versions == VersionSet::LEGACY {
                for method in ["server/discover", "tools/list"] {
                    assert_eq!(harness.expect_error(&modern_request(3, method, json!({})))["code"], -32600);
                }
            }
            harness.open_session(Version::V2025_11_25);
            harness.transcript
        });
    }
}

// covers: LIFE-006, LIFE-007, BASE-024
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn requests_between_initialize_and_initialized_are_served() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let config = server(VersionSet::ALL)
                .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Logging));
            let mut harness = ServerHarness::server(config, cut);
            harness.feed_message(&initialize_request(0, version.as_str()));
            harness.expect_reply();
            harness.feed_message(&legacy_request(1, "ping", json!({})));
            assert_eq!(harness.expect_reply()["result"], json!({}));
            harness.feed_message(&legacy_request(2, "logging/setLevel", json!({"level": "info"})));
            assert_eq!(harness.expect_reply()["result"], json!({}));
            let call = harness.expect_call_for(&legacy_request(3, "tools/list", json!({})));
            assert_eq!((call.method(), call.version()), ("tools/list", version));
            harness.complete(call.id(), &json!({"tools": []}));
            harness.feed_message(&notification("notifications/initialized", json!({})));
            assert!(
                matches!(harness.expect_event(), Event::SessionOpened { version: v, .. } if v == version)
            );
            // The event is emitted once, however often the notification arrives.
            harness.feed_message(&notification("notifications/initialized", Value::Null));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: LIFE-008, LIFE-012
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn second_initialize_on_a_byte_stream_negotiates_anew() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let config = server(VersionSet::ALL)
                .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Logging));
            let mut harness = ServerHarness::server(config, cut);
            harness.open_session(version);
            let before = harness.expect_call_for(&legacy_request(1, "tools/list", Value::Null));
            let requested =
                if version == Version::V2024_11_05 { Version::V2025_11_25 } else { Version::V2024_11_05 };
            harness.feed_message(&initialize_request(2, requested.as_str()));
            assert_eq!(harness.expect_reply()["result"]["protocolVersion"], requested.as_str());
            // What was in flight ends as it began.
            assert_version(&before, version);
            assert_eq!(harness.complete(before.id(), &json!({"tools": []}))["id"], 1);
            let after = harness.expect_call_for(&legacy_request(3, "tools/list", Value::Null));
            assert_version(&after, requested);
            harness.complete(after.id(), &json!({"tools": []}));
            harness.feed_message(&notification("notifications/initialized", json!({})));
            assert!(
                matches!(harness.expect_event(), Event::SessionOpened { version, .. } if version == requested)
            );
            // One that fails changes nothing.
            let failed = json!({"protocolVersion": version.as_str(), "capabilities": [], "clientInfo": {}});
            assert_eq!(harness.expect_error(&legacy_request(4, "initialize", failed))["code"], -32602);
            let call = harness.expect_call_for(&legacy_request(5, "tools/list", Value::Null));
            assert_version(&call, requested);
            harness.transcript
        });
    }
}

// covers: VER-004, VER-005, VER-007
#[test]
fn initialize_with_unknown_version_is_offered_the_newest_legacy_one() {
    for requested in ["2026-07-28", "2030-01-01", "2023-01-01", "", "2025-11-25 "] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            harness.feed_message(&initialize_request(1, requested));
            assert_eq!(harness.expect_reply()["result"]["protocolVersion"], "2025-11-25");
            harness.transcript
        });
    }
}

// covers: LIFE-002, ERR-001, ERR-018
#[test]
fn initialize_with_invalid_params_opens_no_session() {
    let client = json!({"name": "x", "version": "1"});
    let wrong = [
        Value::Null,
        json!({}),
        json!({"protocolVersion": 1, "capabilities": {}, "clientInfo": client}),
        json!({"protocolVersion": "2025-11-25", "clientInfo": client}),
        json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
        json!({"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": client}),
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": "x"}),
    ];
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        for params in &wrong {
            assert_eq!(
                harness.expect_error(&legacy_request(1, "initialize", params.clone()))["code"],
                -32602,
                "{params}"
            );
        }
        assert_eq!(
            harness.expect_error(&legacy_request(2, "tools/list", Value::Null))["code"],
            -32600,
            "no session"
        );
        harness.open_session(Version::V2025_11_25);
        harness.transcript
    });
}

// covers: LIFE-024, PING-006, ERR-002, ERR-001
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn methods_removed_in_the_modern_era_are_unknown() {
    let every = [
        Capability::Tools,
        Capability::ResourceSubscriptions,
        Capability::Prompts,
        Capability::Completions,
        Capability::Logging,
    ];
    let removed = [
        "ping",
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "unheard/of",
        "",
    ];
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        for_each_chunker(|cut| {
            let config =
                server(versions).capabilities(every.iter().fold(Capabilities::new(), |c, e| c.with(*e)));
            let mut harness = ServerHarness::server(config, cut);
            for method in removed {
                assert_eq!(
                    harness.expect_error(&modern_request(1, method, json!({})))["code"],
                    -32601,
                    "{method}"
                );
            }
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: ERR-002, LIFE-010, LIFE-011, LIFE-014, LIFE-023
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn undeclared_feature_is_method_not_found() {
    let gated = [
        ("tools/list", Capability::Tools),
        ("tools/call", Capability::Tools),
        ("resources/list", Capability::Resources),
        ("resources/read", Capability::Resources),
        ("prompts/list", Capability::Prompts),
        ("prompts/get", Capability::Prompts),
        ("completion/complete", Capability::Completions),
        ("logging/setLevel", Capability::Logging),
        ("resources/subscribe", Capability::ResourceSubscriptions),
    ];
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut transcripts = Vec::new();
            for (method, gate) in gated {
                // Completions had no capability of their own in the first revision.
                let free = gate == Capability::Completions && version == Version::V2024_11_05;
                let mut harness =
                    ServerHarness::server(server(VersionSet::ALL).capabilities(Capabilities::new()), cut);
                harness.open_session(version);
                if free {
                    assert_eq!(
                        harness.expect_call_for(&legacy_request(1, method, json!({}))).method(),
                        method
                    );
                } else {
                    assert_eq!(
                        harness.expect_error(&legacy_request(1, method, json!({})))["code"],
                        -32601,
                        "{method}"
                    );
                }
                let config = server(VersionSet::ALL).capabilities(Capabilities::new().with(gate));
                let mut harness = ServerHarness::server(config, cut);
                harness.open_session(version);
                // The engine answers these two itself.
                if matches!(method, "logging/setLevel" | "resources/subscribe") {
                    let params = json!({"level": "info", "uri": "x:1"});
                    harness.feed_message(&legacy_request(1, method, params));
                    assert_eq!(harness.expect_reply()["result"], json!({}), "{method}");
                } else {
                    assert_eq!(
                        harness.expect_call_for(&legacy_request(1, method, json!({}))).method(),
                        method
                    );
                }
                transcripts.push(harness.transcript);
            }
            transcripts
        });
    }
}

// covers: META-015, META-016, META-017, ERR-007
#[test]
fn client_capabilities_come_from_each_modern_request() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        let with = json!({CAPABILITIES_KEY: {"elicitation": {}}});
        let call =
            harness.expect_call_for(&modern_request_with(1, "tools/call", json!({"name": "ask"}), &with));
        assert_eq!(to_value(&harness.pipe.engine().peer(&call).capabilities), json!({"elicitation": {}}));
        harness.complete(call.id(), &json!({"content": []}));
        // The next request declares nothing, so nothing is known.
        let call = harness.expect_call_for(&modern_request(2, "tools/call", json!({"name": "ask"})));
        assert_eq!(to_value(&harness.pipe.engine().peer(&call).capabilities), json!({}));
        let data = mcp_tests::harness::build::raw(&json!({"requiredCapabilities": {"elicitation": {}}}));
        let code = mcp_proto::rpc::code::MISSING_CLIENT_CAPABILITY;
        let error = mcp_proto::RpcError::new(code, "needs elicitation").with_data(data);
        let answer = harness.fail(call.id(), &error);
        assert_eq!(answer["error"]["code"], -32021);
        assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"elicitation": {}}}));
        assert_eq!(modern_meta()[CAPABILITIES_KEY], json!({}));
        harness.transcript
    });
}
