//! What a server takes a message for: `spec-map` 3.4 and the decisions of the design page.

use mcp_proto::server::{Call, Event};
use mcp_proto::{Capabilities, Capability, Diagnostic, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, initialize, legacy, modern, modern_meta, modern_with, note, value};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::server;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

fn dual(cut: Chunker) -> LoneServer {
    LoneServer::server(server(VersionSet::ALL), cut)
}

fn only(versions: VersionSet, cut: Chunker) -> LoneServer {
    LoneServer::server(server(versions), cut)
}

fn in_version(call: &Call, version: Version) {
    assert_eq!(call.version(), version, "{call:?}");
}

// covers: VER-012, VER-018, META-015, BASE-032
#[test]
fn a_modern_request_needs_nothing_before_it() {
    each_cut(|cut| {
        let mut lone = dual(cut);
        let call = lone.take(&modern(1, "tools/list", json!({})));
        in_version(&call, Version::V2026_07_28);
        let answer = lone.complete(call.id(), &json!({"tools": []}));
        let result = json!({
            "tools": [], "ttlMs": 0, "cacheScope": "private", "resultType": "complete",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tide-server", "version": "2.1.0"}},
        });
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": result}));
        lone.transcript
    });
}

// covers: VER-017, VER-018, META-015, BASE-032
#[test]
fn both_eras_live_in_one_process_and_see_nothing_of_each_other() {
    each_cut(|cut| {
        let mut lone = dual(cut);
        let session = json!({"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "old", "version": "1"}});
        lone.tell(&legacy(1, "initialize", session));
        assert_eq!(lone.reply()["result"]["protocolVersion"], "2025-06-18");
        lone.tell(&note("notifications/initialized", Value::Null));
        assert!(matches!(lone.event(), Event::SessionOpened { version: Version::V2025_06_18, .. }));
        let call = lone.take(&legacy(2, "tools/list", Value::Null));
        in_version(&call, Version::V2025_06_18);
        let peer = lone.pipe.engine().peer(&call);
        assert_eq!(
            (value(&peer.info.expect("told")), value(&peer.capabilities)),
            (json!({"name": "old", "version": "1"}), json!({"roots": {}}))
        );
        assert_eq!(lone.complete(call.id(), &json!({"tools": []}))["result"], json!({"tools": []}));
        // A modern request inside the session knows nothing of it.
        let call = lone.take(&modern(3, "tools/list", json!({})));
        in_version(&call, Version::V2026_07_28);
        let peer = lone.pipe.engine().peer(&call);
        assert_eq!(value(&peer.capabilities), json!({}));
        assert_eq!(lone.complete(call.id(), &json!({"tools": []}))["result"]["resultType"], "complete");
        // And the session goes on.
        let call = lone.take(&legacy(4, "tools/list", json!({"_meta": {"progressToken": 4}})));
        in_version(&call, Version::V2025_06_18);
        lone.complete(call.id(), &json!({"tools": []}));
        lone.tell(&legacy(5, "ping", Value::Null));
        assert_eq!(lone.reply()["result"], json!({}));
        lone.transcript
    });
}

// covers: VER-018, LIFE-001
#[test]
fn a_session_can_begin_after_modern_requests() {
    each_cut(|cut| {
        let mut lone = dual(cut);
        lone.works();
        lone.open(Version::V2025_11_25);
        let call = lone.take(&legacy(1, "tools/list", json!({})));
        in_version(&call, Version::V2025_11_25);
        lone.works();
        lone.transcript
    });
}

// covers: VER-007, VER-009, ERR-008
#[test]
fn an_unknown_version_is_answered_with_those_that_are_served() {
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        for asked in ["2030-01-01", "2025-11-25", "", "DRAFT-2026-v1", "2026-07-28 "] {
            for method in ["tools/list", "server/discover", "initialize", "harbor/unknown", "ping"] {
                each_cut(|cut| {
                    let mut lone = only(versions, cut);
                    let error =
                        lone.refused(&modern_with(1, method, json!({}), &json!({VERSION_KEY: asked})));
                    assert_eq!(error["code"], -32022, "{method}");
                    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": asked}));
                    lone.works();
                    lone.transcript
                });
            }
        }
    }
}

// covers: VER-009, ERR-008
#[test]
fn the_version_is_looked_at_before_anything_that_another_one_may_want_otherwise() {
    let changes =
        json!({VERSION_KEY: "2030-01-01", CAPABILITIES_KEY: null, "io.modelcontextprotocol/logLevel": 7});
    each_cut(|cut| {
        let mut lone = dual(cut);
        assert_eq!(lone.refused(&modern_with(1, "tools/list", json!({}), &changes))["code"], -32022);
        lone.transcript
    });
}

// covers: VER-015, VER-017, ERR-008
#[test]
fn both_lists_of_versions_are_the_same_list() {
    for (list_legacy, want) in [
        (false, json!(["2026-07-28"])),
        (true, json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])),
    ] {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL).list_legacy(list_legacy), cut);
            lone.tell(&modern(1, "server/discover", json!({})));
            assert_eq!(lone.reply()["result"]["supportedVersions"], want);
            let error =
                lone.refused(&modern_with(2, "tools/list", json!({}), &json!({VERSION_KEY: "2030-01-01"})));
            assert_eq!(error["data"]["supported"], want);
            lone.transcript
        });
    }
}

// covers: VER-011, VER-013, META-018, BASE-026
#[test]
fn discovery_says_what_the_server_is() {
    each_cut(|cut| {
        let config = server(VersionSet::ALL).instructions("One harbour at a time.");
        let config = config.capabilities(Capabilities::new().with(Capability::ResourceSubscriptions));
        let mut lone = LoneServer::server(config, cut);
        lone.tell(&modern("d", "server/discover", json!({})));
        let answer = lone.reply();
        assert_eq!(answer["id"], "d");
        let result = &answer["result"];
        assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(result["capabilities"], json!({"resources": {"subscribe": true}}));
        assert_eq!(result["instructions"], "One harbour at a time.");
        assert_eq!(result["resultType"], "complete");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
        let info = json!({"name": "tide-server", "version": "2.1.0"});
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], info);
        lone.still();
        lone.transcript
    });
}

// covers: VER-032, VER-033, LIFE-024
#[test]
fn initialize_at_a_modern_only_server_names_the_versions() {
    each_cut(|cut| {
        let mut lone = only(VersionSet::MODERN, cut);
        for asked in ["2025-11-25", "2024-11-05", "2026-07-28"] {
            let error = lone.refused(&initialize(1, asked));
            assert_eq!(error["code"], -32022);
            assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": asked}));
            assert!(error["message"].as_str().is_some_and(|m| m.contains("2026-07-28")), "{error}");
        }
        let error = lone.refused(&legacy(2, "initialize", Value::Null));
        assert_eq!((&error["code"], &error["data"]["supported"]), (&json!(-32022), &json!(["2026-07-28"])));
        // With modern metadata it is a method like any other that does not exist.
        assert_eq!(lone.refused(&modern(3, "initialize", json!({})))["code"], -32601);
        lone.tell(&note("notifications/initialized", Value::Null));
        assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)));
        lone.works();
        lone.transcript
    });
}

// covers: META-013, META-014, LIFE-024
#[test]
fn a_modern_only_server_says_what_every_other_request_lacks() {
    each_cut(|cut| {
        let mut lone = only(VersionSet::MODERN, cut);
        for method in
            ["ping", "tools/list", "server/discover", "harbor/tide", "unheard/of", "logging/setLevel"]
        {
            for params in
                [Value::Null, json!({}), json!({"_meta": {}}), json!({"_meta": {"progressToken": 1}})]
            {
                let error = lone.refused(&legacy(1, method, params));
                assert_eq!(error["code"], -32602, "{method}");
                let message = error["message"].as_str().unwrap_or_default();
                assert!(message.contains(VERSION_KEY) && message.contains(CAPABILITIES_KEY), "{message}");
            }
        }
        lone.works();
        lone.transcript
    });
}

// covers: META-002, META-010, META-014, LOG-010
#[test]
fn metadata_that_is_missing_or_ill_typed_is_named() {
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
            each_cut(|cut| {
                let mut lone = only(versions, cut);
                let error = lone.refused(&modern_with(1, "tools/call", json!({"name": "echo"}), change));
                assert_eq!(error["code"], -32602, "{change}");
                assert!(error["message"].as_str().is_some_and(|m| m.contains(named)), "{change}: {error}");
                lone.works();
                lone.transcript
            });
        }
    }
}

// covers: META-012, META-014
#[test]
fn metadata_that_may_be_missing_or_is_not_known_passes() {
    for change in [
        json!({"io.modelcontextprotocol/clientInfo": null}),
        json!({"io.modelcontextprotocol/logLevel": "debug"}),
        json!({"io.modelcontextprotocol/logLevel": "emergency"}),
        json!({"io.modelcontextprotocol/new": [1], "com.example/x": null, "plain": 1}),
        json!({"progressToken": "p"}),
        json!({CAPABILITIES_KEY: {"unknown": [], "roots": 7}}),
    ] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            let request = modern_with(1, "tools/call", json!({"name": "echo"}), &change);
            let call = lone.take(&request);
            assert_eq!(value(&call.meta().expect("metadata")), request["params"]["_meta"]);
            lone.complete(call.id(), &json!({"content": []}));
            lone.transcript
        });
    }
}

// covers: META-014, LIFE-007
#[test]
fn a_key_of_the_protocol_without_the_version_is_a_modern_request_that_lacks_it() {
    for key in ["clientCapabilities", "clientInfo", "logLevel", "anything"] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            let name = format!("io.modelcontextprotocol/{key}");
            let error = lone.refused(&legacy(1, "tools/list", json!({"_meta": {name: {}}})));
            assert_eq!(error["code"], -32602);
            assert!(error["message"].as_str().is_some_and(|m| m.contains(VERSION_KEY)), "{error}");
            lone.transcript
        });
    }
}

// covers: VER-018, META-014
#[test]
fn a_discovery_without_metadata_is_a_modern_request_that_lacks_it() {
    for session in [None, Some(Version::V2025_11_25)] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            if let Some(version) = session {
                lone.open(version);
            }
            for params in [Value::Null, json!({}), json!({"_meta": {}})] {
                let error = lone.refused(&legacy("d", "server/discover", params));
                assert_eq!(error["code"], -32602);
                assert!(error["message"].as_str().is_some_and(|m| m.contains(VERSION_KEY)), "{error}");
            }
            lone.transcript
        });
    }
}

// covers: LIFE-007, PING-001, BASE-024
#[test]
fn a_request_before_initialize_is_refused_but_for_ping() {
    for versions in [VersionSet::ALL, VersionSet::LEGACY] {
        each_cut(|cut| {
            let mut lone = only(versions, cut);
            for method in ["tools/list", "tools/call", "harbor/tide", "logging/setLevel", "unheard/of"] {
                assert_eq!(lone.refused(&legacy(1, method, json!({})))["code"], -32600, "{method}");
            }
            lone.tell(&legacy(2, "ping", Value::Null));
            assert_eq!(lone.reply()["result"], json!({}));
            // A legacy-only server knows no modern metadata; such a request is one before `initialize`.
            if versions == VersionSet::LEGACY {
                for method in ["server/discover", "tools/list"] {
                    assert_eq!(lone.refused(&modern(3, method, json!({})))["code"], -32600);
                }
            }
            lone.open(Version::V2025_11_25);
            lone.transcript
        });
    }
}

// covers: LIFE-006, LIFE-007, BASE-024
#[test]
fn requests_between_initialize_and_initialized_are_served() {
    for version in LEGACY {
        each_cut(|cut| {
            let config = server(VersionSet::ALL)
                .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Logging));
            let mut lone = LoneServer::server(config, cut);
            lone.tell(&initialize(0, version.as_str()));
            lone.reply();
            lone.tell(&legacy(1, "ping", json!({})));
            assert_eq!(lone.reply()["result"], json!({}));
            lone.tell(&legacy(2, "logging/setLevel", json!({"level": "info"})));
            assert_eq!(lone.reply()["result"], json!({}));
            let call = lone.take(&legacy(3, "tools/list", json!({})));
            assert_eq!((call.method(), call.version()), ("tools/list", version));
            lone.complete(call.id(), &json!({"tools": []}));
            lone.tell(&note("notifications/initialized", json!({})));
            assert!(matches!(lone.event(), Event::SessionOpened { version: v, .. } if v == version));
            // Told once, however often it is said.
            lone.tell(&note("notifications/initialized", Value::Null));
            lone.still();
            lone.transcript
        });
    }
}

// covers: LIFE-008, LIFE-012
#[test]
fn a_second_initialize_is_refused_and_changes_nothing() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = dual(cut);
            lone.open(version);
            let asked = if version == Version::V2024_11_05 { "2025-11-25" } else { "2024-11-05" };
            assert_eq!(lone.refused(&initialize(1, asked))["code"], -32600);
            let call = lone.take(&legacy(2, "tools/list", Value::Null));
            in_version(&call, version);
            lone.transcript
        });
    }
}

// covers: VER-004, VER-005, VER-007
#[test]
fn initialize_with_an_unknown_version_gets_the_newest_legacy_one_offered() {
    for asked in ["2026-07-28", "2030-01-01", "2023-01-01", "", "2025-11-25 "] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            lone.tell(&initialize(1, asked));
            assert_eq!(lone.reply()["result"]["protocolVersion"], "2025-11-25");
            lone.transcript
        });
    }
}

// covers: LIFE-002, ERR-001, ERR-018
#[test]
fn initialize_with_wrong_parameters_opens_nothing() {
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
    each_cut(|cut| {
        let mut lone = dual(cut);
        for params in &wrong {
            assert_eq!(lone.refused(&legacy(1, "initialize", params.clone()))["code"], -32602, "{params}");
        }
        assert_eq!(lone.refused(&legacy(2, "tools/list", Value::Null))["code"], -32600, "no session");
        lone.open(Version::V2025_11_25);
        lone.transcript
    });
}

// covers: LIFE-024, PING-006, ERR-002, ERR-001
#[test]
fn methods_that_the_modern_era_removed_do_not_exist_there() {
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
        each_cut(|cut| {
            let config =
                server(versions).capabilities(every.iter().fold(Capabilities::new(), |c, e| c.with(*e)));
            let mut lone = LoneServer::server(config, cut);
            for method in removed {
                assert_eq!(lone.refused(&modern(1, method, json!({})))["code"], -32601, "{method}");
            }
            lone.works();
            lone.transcript
        });
    }
}

// covers: ERR-002, LIFE-010, LIFE-011, LIFE-014, LIFE-023
#[test]
fn a_feature_that_was_not_declared_is_not_served() {
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
    for version in LEGACY {
        each_cut(|cut| {
            let mut said = Vec::new();
            for (method, gate) in gated {
                // Completions had no capability of their own in the first revision.
                let free = gate == Capability::Completions && version == Version::V2024_11_05;
                let mut lone =
                    LoneServer::server(server(VersionSet::ALL).capabilities(Capabilities::new()), cut);
                lone.open(version);
                if free {
                    assert_eq!(lone.take(&legacy(1, method, json!({}))).method(), method);
                } else {
                    assert_eq!(lone.refused(&legacy(1, method, json!({})))["code"], -32601, "{method}");
                }
                let config = server(VersionSet::ALL).capabilities(Capabilities::new().with(gate));
                let mut lone = LoneServer::server(config, cut);
                lone.open(version);
                // The engine answers these two itself.
                if matches!(method, "logging/setLevel" | "resources/subscribe") {
                    let params = json!({"level": "info", "uri": "x:1"});
                    lone.tell(&legacy(1, method, params));
                    assert_eq!(lone.reply()["result"], json!({}), "{method}");
                } else {
                    assert_eq!(lone.take(&legacy(1, method, json!({}))).method(), method);
                }
                said.push(lone.transcript);
            }
            said
        });
    }
}

// covers: META-015, META-016, META-017, ERR-007
#[test]
fn capabilities_are_those_of_the_request_itself() {
    each_cut(|cut| {
        let mut lone = dual(cut);
        let with = json!({CAPABILITIES_KEY: {"elicitation": {}}});
        let call = lone.take(&modern_with(1, "tools/call", json!({"name": "ask"}), &with));
        assert_eq!(value(&lone.pipe.engine().peer(&call).capabilities), json!({"elicitation": {}}));
        lone.complete(call.id(), &json!({"content": []}));
        // The next one declares nothing, so nothing is known.
        let call = lone.take(&modern(2, "tools/call", json!({"name": "ask"})));
        assert_eq!(value(&lone.pipe.engine().peer(&call).capabilities), json!({}));
        let data = mcp_tests::harness::build::raw(&json!({"requiredCapabilities": {"elicitation": {}}}));
        let code = mcp_proto::rpc::code::MISSING_CLIENT_CAPABILITY;
        let error = mcp_proto::RpcError::new(code, "needs elicitation").with_data(data);
        let answer = lone.fail(call.id(), &error);
        assert_eq!(answer["error"]["code"], -32021);
        assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"elicitation": {}}}));
        assert_eq!(modern_meta()[CAPABILITIES_KEY], json!({}));
        lone.transcript
    });
}
