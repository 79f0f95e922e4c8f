//! The client's first question and every answer that it may get: `spec-map` 3.1, S1 to S2 a)–d), f) and g).

use mcp_proto::client::{Config, Verdict};
use mcp_proto::{CallError, CallOptions, Diagnostic, Era, Fault, Version, VersionSet};
use mcp_tests::harness::build::{discovery, error, initialized, note, result, value};
use mcp_tests::harness::{Chunker, LoneClient, Transcript, each_cut};
use serde_json::{Value, json};

use crate::common::{client, secs};

/// A client that has asked its first question, which is returned
fn asking(config: Config, cut: Chunker) -> (LoneClient, Value) {
    let mut lone = LoneClient::client(config, cut);
    let probe = lone.asked("server/discover");
    (lone, probe)
}

fn dual() -> Config {
    client(VersionSet::ALL)
}

/// The client has turned to `initialize`; answers it and sees it become ready
fn falls_back(mut lone: LoneClient, asked: Version) -> Transcript {
    let initialize = lone.asked("initialize");
    assert_eq!(initialize["params"]["protocolVersion"], asked.as_str());
    assert!(initialize["params"].get("_meta").is_none(), "a legacy request: {initialize}");
    lone.tell(&result(&initialize, initialized(asked.as_str(), json!({}))));
    assert_eq!(lone.ready().era(), Era::Legacy);
    assert_eq!(lone.reply(), note("notifications/initialized", Value::Null));
    assert_eq!(lone.pipe.engine().verdict(), Some(Verdict::Legacy));
    lone.works();
    lone.transcript
}

/// The client has given up without another question
fn gives_up(mut lone: LoneClient, check: impl FnOnce(&Fault)) -> Transcript {
    let fault = lone.closed();
    check(&fault);
    lone.silent();
    assert_eq!(lone.pipe.engine().verdict(), None);
    lone.pass(secs(600));
    lone.still();
    lone.transcript
}

// covers: VER-008, VER-024, META-009, META-010, META-011, META-013, STDIO-016
#[test]
fn the_first_question_carries_the_preferred_modern_version() {
    each_cut(|cut| {
        let (lone, probe) = asking(dual(), cut);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "harbor-client", "version": "0.3.0"},
        });
        assert_eq!(probe["params"], json!({"_meta": meta}));
        lone.transcript
    });
}

// covers: VER-013, VER-014, VER-015, VER-022
#[test]
fn a_discovery_with_a_common_modern_version_settles_it() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        let mut found = discovery(&["2025-11-25", "2026-07-28", "2030-01-01"], json!({"tools": {}, "x": 1}));
        found["instructions"] = "Be kind.".into();
        lone.tell(&result(&probe, found));
        let peer = lone.ready();
        // A legacy entry beside it, first or not, is never taken for a modern one.
        assert_eq!(peer.version, Version::V2026_07_28);
        assert_eq!(peer.instructions.as_deref(), Some("Be kind."));
        assert_eq!(
            value(&peer.info.expect("an identity")),
            json!({"name": "tide-server", "version": "2.1.0"})
        );
        assert_eq!(value(&peer.capabilities), json!({"tools": {}, "x": 1}));
        assert_eq!(lone.pipe.engine().verdict(), Some(Verdict::Modern));
        lone.silent();
        lone.works();
        lone.transcript
    });
}

// covers: VER-015
#[test]
fn a_discovery_with_only_a_legacy_version_in_common_leads_to_initialize() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        lone.tell(&result(&probe, discovery(&["2030-01-01", "2025-06-18"], json!({}))));
        falls_back(lone, Version::V2025_11_25)
    });
}

// covers: VER-010, VER-015
#[test]
fn a_discovery_without_a_common_version_is_the_end() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        lone.tell(&result(&probe, discovery(&["2030-01-01", "DRAFT-2027"], json!({}))));
        gives_up(lone, |fault| {
            let theirs = vec!["2030-01-01".into(), "DRAFT-2027".into()];
            assert_eq!(*fault, Fault::NoCommonVersion { ours: VersionSet::ALL, theirs });
        })
    });
}

fn unsupported(probe: &Value, code: i64, data: Value) -> Value {
    error(probe, code, "Unsupported protocol version", data)
}

// covers: VER-010, VER-019, VER-026, VER-041
#[test]
fn an_unsupported_version_answer_that_names_ours_is_asked_again_once() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
        lone.tell(&unsupported(&probe, -32022, data.clone()));
        let again = lone.asked("server/discover");
        assert_ne!(again["id"], probe["id"]);
        lone.tell(&result(&again, discovery(&["2026-07-28"], json!({}))));
        assert_eq!(lone.ready().version, Version::V2026_07_28);
        lone.transcript
    });
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
        lone.tell(&unsupported(&probe, -32022, data.clone()));
        let again = lone.asked("server/discover");
        lone.tell(&unsupported(&again, -32022, data));
        gives_up(lone, |fault| assert!(matches!(fault, Fault::Refused(e) if e.code == -32022), "{fault:?}"))
    });
}

// covers: VER-010, VER-015, VER-026
#[test]
fn an_unsupported_version_answer_with_only_legacy_in_common_leads_to_initialize() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        let data = json!({"supported": ["2030-01-01", "2024-11-05"], "requested": "2026-07-28"});
        lone.tell(&unsupported(&probe, -32022, data));
        falls_back(lone, Version::V2025_11_25)
    });
}

// covers: VER-010, VER-026
#[test]
fn an_unsupported_version_answer_without_a_common_version_never_leads_to_initialize() {
    for supported in [json!(["2030-01-01"]), json!([])] {
        each_cut(|cut| {
            let (mut lone, probe) = asking(dual(), cut);
            let data = json!({"supported": supported, "requested": "2026-07-28"});
            lone.tell(&unsupported(&probe, -32022, data));
            gives_up(lone, |fault| assert!(matches!(fault, Fault::NoCommonVersion { .. }), "{fault:?}"))
        });
    }
}

// covers: ERR-004, ERR-016, VER-041
#[test]
fn an_unsupported_version_answer_is_known_by_its_shape_whatever_the_code() {
    for code in [-32004, -32602, -32000, -32601, 1] {
        each_cut(|cut| {
            let (mut lone, probe) = asking(dual(), cut);
            let data = json!({"supported": ["2030-01-01"], "requested": "2026-07-28", "more": 1});
            lone.tell(&unsupported(&probe, code, data));
            gives_up(lone, |fault| {
                assert!(matches!(fault, Fault::NoCommonVersion { .. }), "{code}: {fault:?}")
            })
        });
    }
}

// covers: VER-041
#[test]
fn the_released_code_needs_no_requested_member() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        // As an official server answers at times.
        lone.tell(&unsupported(&probe, -32022, json!({"supported": ["2030-01-01"]})));
        gives_up(lone, |fault| assert!(matches!(fault, Fault::NoCommonVersion { .. }), "{fault:?}"))
    });
}

// covers: ERR-004, VER-020, VER-041
#[test]
fn what_only_looks_like_an_unsupported_version_answer_is_an_old_server() {
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
        (-32003, json!({"requiredCapabilities": {"roots": {}}})),
        (-32001, Value::Null),
    ] {
        each_cut(|cut| {
            let (mut lone, probe) = asking(dual(), cut);
            lone.tell(&unsupported(&probe, code, data.clone()));
            falls_back(lone, Version::V2025_11_25)
        });
    }
}

// covers: VER-019, VER-026, VER-041, ERR-007
#[test]
fn a_modern_refusal_is_reported_and_never_leads_to_initialize() {
    for (code, data) in [
        (-32020, Value::Null),
        (-32020, json!({"anything": 1})),
        (-32021, json!({"requiredCapabilities": {"elicitation": {}}})),
    ] {
        each_cut(|cut| {
            let (mut lone, probe) = asking(dual(), cut);
            lone.tell(&error(&probe, code, "no", data.clone()));
            gives_up(lone, |fault| assert!(matches!(fault, Fault::Refused(e) if e.code == code), "{fault:?}"))
        });
    }
}

// covers: VER-020, VER-025
#[test]
fn any_other_error_leads_to_initialize_on_the_same_connection() {
    let codes =
        [-32700, -32600, -32601, -32602, -32603, -32002, -32042, -32000, -32019, -32099, -1, 0, 7, 1 << 40];
    for code in codes {
        each_cut(|cut| {
            let (mut lone, probe) = asking(dual(), cut);
            lone.tell(&error(&probe, code, "not initialized yet", Value::Null));
            falls_back(lone, Version::V2025_11_25)
        });
    }
}

// covers: VER-020, VER-034, VER-028
#[test]
fn a_modern_only_client_says_what_it_speaks_and_what_the_server_said() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(client(VersionSet::MODERN), cut);
        lone.tell(&error(&probe, -32601, "Method not found", Value::Null));
        gives_up(lone, |fault| {
            assert!(
                matches!(fault, Fault::LegacyServer { answer: Some(e), .. } if e.code == -32601),
                "{fault:?}"
            );
            let text = fault.to_string();
            assert!(text.contains("2026-07-28") && text.contains("Method not found"), "{text}");
            assert_eq!(fault.retry_with(), None);
        })
    });
}

// covers: VER-021, STDIO-023
#[test]
fn a_server_that_leaves_during_the_question_is_started_again_as_legacy() {
    each_cut(|cut| {
        let (mut lone, _) = asking(dual(), cut);
        let options = CallOptions::new();
        let key = lone.pipe.engine().call(lone.now, "tools/list", &json!({}), &options).expect("queued");
        lone.eof();
        let fault = Fault::ExitedDuringProbe { legacy: true };
        assert_eq!(lone.done(key), Err(CallError::Closed(fault.clone())));
        gives_up(lone, |end| assert_eq!(*end, fault));
        let verdict = fault.retry_with();
        assert_eq!(verdict, Some(Verdict::Legacy));
        // The fresh connection, which an adapter makes.
        falls_back(LoneClient::client(dual().verdict(verdict), cut), Version::V2025_11_25)
    });
}

// covers: VER-021
#[test]
fn a_modern_only_client_has_nothing_to_try_again() {
    each_cut(|cut| {
        let (mut lone, _) = asking(client(VersionSet::MODERN), cut);
        lone.eof();
        gives_up(lone, |fault| {
            assert_eq!(*fault, Fault::ExitedDuringProbe { legacy: false });
            assert_eq!(fault.retry_with(), None);
        })
    });
}

// covers: VER-001, VER-002, VER-024, LIFE-001, LIFE-002
#[test]
fn a_legacy_client_opens_with_initialize() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::LEGACY), cut);
        let initialize = lone.asked("initialize");
        let info = json!({"name": "harbor-client", "version": "0.3.0"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        assert_eq!(initialize["params"], params);
        lone.transcript
    });
}

// covers: VER-020, BASE-009, BASE-010, BASE-011, ERR-023
#[test]
fn answers_that_are_none_come_from_an_old_server() {
    let answers: [fn(&Value) -> Value; 10] = [
        |probe| result(probe, json!({})),
        |probe| result(probe, json!({"supportedVersions": "2026-07-28"})),
        |probe| result(probe, json!({"supportedVersions": [20260728]})),
        |probe| result(probe, json!({"supportedVersions": null})),
        |probe| result(probe, json!([])),
        |probe| result(probe, Value::Null),
        |probe| json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": "x", "message": "y"}}),
        |probe| json!({"jsonrpc": "2.0", "id": probe["id"], "error": "no"}),
        |probe| json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": 1, "message": "y"}, "result": {}}),
        |probe| json!({"jsonrpc": "1.0", "id": probe["id"], "result": {}}),
    ];
    for answer in answers {
        each_cut(|cut| {
            let (mut lone, probe) = asking(dual(), cut);
            lone.tell(&answer(&probe));
            let oddities = lone.said();
            assert!(oddities.iter().all(|said| said.starts_with("diagnostic Malformed")), "{oddities:?}");
            falls_back(lone, Version::V2025_11_25)
        });
    }
}

// covers: BASE-008, STDIO-011, ERR-023
#[test]
fn what_answers_nothing_is_told_and_waited_over() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        let text = probe["id"].to_string();
        lone.tell(&json!({"jsonrpc": "2.0", "id": text, "result": discovery(&["2026-07-28"], json!({}))}));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownResponse(_)), "the id is a string there");
        lone.tell(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownResponse(_)));
        lone.tell(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}));
        assert!(matches!(lone.diagnostic(), Diagnostic::PeerError(e) if e.code == -32700));
        lone.tell(&json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}}));
        assert!(matches!(lone.diagnostic(), Diagnostic::PeerError(_)));
        lone.still();
        lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({}))));
        assert_eq!(lone.ready().version, Version::V2026_07_28);
        lone.transcript
    });
}

// covers: BASE-031, META-018
#[test]
fn a_draft_discovery_without_stamps_is_good_enough() {
    each_cut(|cut| {
        let (mut lone, probe) = asking(dual(), cut);
        let info = json!({"name": "draft", "version": "0"});
        let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": info});
        lone.tell(&result(&probe, found));
        let peer = lone.ready();
        assert_eq!(peer.info.map(|i| value(&i)), Some(info));
        lone.transcript
    });
}
