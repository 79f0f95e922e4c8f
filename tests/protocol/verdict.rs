//! What a client remembers of a server's era, and what it does when that proves wrong.

use mcp_proto::client::Verdict;
use mcp_proto::{CallOptions, Diagnostic, Fault, Version, VersionSet};
use mcp_tests::harness::build::{discovery, error, initialized, note, result};
use mcp_tests::harness::{Chunker, LoneClient, Pair, each_cut};
use serde_json::{Value, json};

use crate::common::{client, ms, secs, server};

fn remembering(verdict: Verdict, cut: Chunker) -> LoneClient {
    LoneClient::client(client(VersionSet::ALL).verdict(Some(verdict)), cut)
}

fn becomes_legacy(lone: &mut LoneClient, initialize: &Value) {
    lone.tell(&result(initialize, initialized("2025-06-18", json!({}))));
    assert_eq!(lone.ready().version, Version::V2025_06_18);
    assert_eq!(lone.reply(), note("notifications/initialized", Value::Null));
    assert_eq!(lone.pipe.engine().verdict(), Some(Verdict::Legacy));
    lone.works();
}

fn becomes_modern(lone: &mut LoneClient, probe: &Value) {
    lone.tell(&result(probe, discovery(&["2026-07-28"], json!({}))));
    assert_eq!(lone.ready().version, Version::V2026_07_28);
    assert_eq!(lone.pipe.engine().verdict(), Some(Verdict::Modern));
    lone.works();
}

// covers: VER-022
#[test]
fn a_verdict_is_found_out_and_survives_as_text() {
    for (theirs, verdict) in [
        (VersionSet::LEGACY, Verdict::Legacy),
        (VersionSet::MODERN, Verdict::Modern),
        (VersionSet::ALL, Verdict::Modern),
    ] {
        let mut pair = Pair::new(client(VersionSet::ALL), server(theirs), Chunker::Whole);
        assert_eq!(pair.client.engine().verdict(), None);
        pair.settle();
        let found = pair.client.engine().verdict().expect("found out");
        assert_eq!(found, verdict);
        assert_eq!(found.to_string().parse(), Ok(found));
        // The next connection, which need not ask.
        let mut pair =
            Pair::new(client(VersionSet::ALL).verdict(Some(found)), server(theirs), Chunker::Whole);
        pair.settle();
        assert_eq!(pair.client.engine().verdict(), Some(verdict));
        let first = pair.watch.messages[0].value["method"].clone();
        assert_eq!(first, if verdict == Verdict::Modern { "server/discover" } else { "initialize" });
    }
}

// covers: VER-022, LIFE-001
#[test]
fn a_remembered_legacy_server_is_not_asked_first() {
    each_cut(|cut| {
        let mut lone = remembering(Verdict::Legacy, cut);
        let initialize = lone.asked("initialize");
        becomes_legacy(&mut lone, &initialize);
        lone.transcript
    });
}

// covers: VER-022
#[test]
fn a_remembered_modern_server_may_take_its_time() {
    each_cut(|cut| {
        let mut lone = remembering(Verdict::Modern, cut);
        let probe = lone.asked("server/discover");
        lone.pass(ms(59_999));
        lone.still();
        becomes_modern(&mut lone, &probe);
        lone.transcript
    });
}

// covers: VER-042
#[test]
fn a_wrong_legacy_verdict_costs_one_question() {
    let refusals: [fn(&Value) -> Value; 3] = [
        |q| error(q, -32022, "no", json!({"supported": ["2026-07-28"], "requested": "2025-11-25"})),
        |q| error(q, -32601, "Method not found", Value::Null),
        |q| error(q, -32602, "`params._meta` is missing", Value::Null),
    ];
    for refusal in refusals {
        each_cut(|cut| {
            let mut lone = remembering(Verdict::Legacy, cut);
            let initialize = lone.asked("initialize");
            lone.tell(&refusal(&initialize));
            let probe = lone.asked("server/discover");
            becomes_modern(&mut lone, &probe);
            lone.transcript
        });
    }
}

// covers: VER-042, LIFE-020
#[test]
fn a_legacy_server_that_refuses_is_reported_with_its_own_words() {
    each_cut(|cut| {
        let mut lone = remembering(Verdict::Legacy, cut);
        let initialize = lone.asked("initialize");
        lone.tell(&error(&initialize, -32603, "the tide gauge is broken", Value::Null));
        let probe = lone.asked("server/discover");
        lone.tell(&error(&probe, -32601, "Method not found", Value::Null));
        let fault = lone.closed();
        assert!(matches!(&fault, Fault::Refused(e) if e.message == "the tide gauge is broken"), "{fault:?}");
        lone.silent();
        lone.transcript
    });
}

// covers: VER-020, VER-042
#[test]
fn a_wrong_modern_verdict_falls_back() {
    each_cut(|cut| {
        let mut lone = remembering(Verdict::Modern, cut);
        let probe = lone.asked("server/discover");
        lone.tell(&error(&probe, -32601, "Method not found", Value::Null));
        let initialize = lone.asked("initialize");
        becomes_legacy(&mut lone, &initialize);
        lone.transcript
    });
    // Silence does the same, after a longer wait.
    each_cut(|cut| {
        let mut lone = remembering(Verdict::Modern, cut);
        lone.asked("server/discover");
        lone.pass(secs(60));
        let initialize = lone.asked("initialize");
        becomes_legacy(&mut lone, &initialize);
        lone.transcript
    });
}

// covers: VER-022
#[test]
fn a_verdict_never_overrules_what_the_client_speaks() {
    for (versions, verdict, first) in [
        (VersionSet::MODERN, Verdict::Legacy, "server/discover"),
        (VersionSet::LEGACY, Verdict::Modern, "initialize"),
    ] {
        let mut lone = LoneClient::client(client(versions).verdict(Some(verdict)), Chunker::Whole);
        lone.asked(first);
        lone.still();
    }
}

// covers: VER-042
#[test]
fn a_modern_error_on_a_legacy_connection_ends_the_verdict() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        lone.with_legacy(Version::V2025_11_25, json!({"tools": {}}));
        let (key, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
        lone.tell(&error(&request, -32022, "Unsupported protocol version", data));
        assert_eq!(lone.diagnostic(), Diagnostic::EraContradicted);
        assert!(lone.done(key).is_err());
        assert_eq!(lone.pipe.engine().verdict(), None);
        // Nothing else is lost.
        lone.works();
        lone.transcript
    });
}

// covers: ERR-017, LIFE-020, VER-006
#[test]
fn a_handshake_that_is_refused_for_its_version_says_which_ones_there_are() {
    let asked = |cut| {
        let mut lone = LoneClient::client(client(VersionSet::LEGACY), cut);
        let initialize = lone.asked("initialize");
        (lone, initialize)
    };
    each_cut(|cut| {
        let (mut lone, initialize) = asked(cut);
        let data = json!({"supported": ["2023-01-01"], "requested": "2025-11-25"});
        lone.tell(&error(&initialize, -32602, "Unsupported protocol version", data));
        let fault = lone.closed();
        let theirs = vec!["2023-01-01".into()];
        assert_eq!(fault, Fault::NoCommonVersion { ours: VersionSet::LEGACY, theirs });
        lone.transcript
    });
    // There is a common one, so nothing else may be claimed; the server's words are passed on.
    each_cut(|cut| {
        let (mut lone, initialize) = asked(cut);
        let data = json!({"supported": ["2024-11-05"], "requested": "2025-11-25"});
        lone.tell(&error(&initialize, -32602, "only 2024-11-05 here", data));
        assert!(matches!(lone.closed(), Fault::Refused(e) if e.message == "only 2024-11-05 here"));
        lone.transcript
    });
}

// covers: BASE-010, LIFE-003, LIFE-020, VER-006
#[test]
fn a_handshake_answer_that_makes_no_sense_is_a_fault_of_its_own() {
    for answer in
        [json!({}), json!({"protocolVersion": 1}), json!({"protocolVersion": null, "capabilities": {}})]
    {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::LEGACY), cut);
            let initialize = lone.asked("initialize");
            lone.tell(&result(&initialize, answer.clone()));
            let fault = lone.closed();
            assert!(matches!(fault, Fault::BadHandshake { method: "initialize", .. }), "{answer}: {fault:?}");
            // No `initialized` goes out.
            lone.silent();
            lone.transcript
        });
    }
}

// covers: VER-005, VER-006, VER-007
#[test]
fn a_server_that_settles_on_what_we_do_not_speak_is_left() {
    for version in ["2026-07-28", "2025-11-25 ", "2024-10-07", "DRAFT-2025-v2", ""] {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::ALL).verdict(Some(Verdict::Legacy)), cut);
            let initialize = lone.asked("initialize");
            lone.tell(&result(&initialize, initialized(version, json!({}))));
            let theirs = vec![version.to_owned()];
            assert_eq!(lone.closed(), Fault::NoCommonVersion { ours: VersionSet::ALL, theirs });
            lone.silent();
            lone.transcript
        });
    }
}

// covers: LIFE-003, LIFE-014, LIFE-015
#[test]
fn a_handshake_answer_may_lack_what_we_can_do_without() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::LEGACY), cut);
        let initialize = lone.asked("initialize");
        let capabilities = json!({"tools": {"listChanged": true, "new": 1}, "harbour": {"deep": [1]}});
        let answer = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "more": []});
        lone.tell(&result(&initialize, answer));
        let peer = lone.ready();
        assert!(peer.info.is_none() && peer.instructions.is_none());
        assert!(peer.has(mcp_proto::Capability::Tools) && !peer.has(mcp_proto::Capability::Prompts));
        // Unknown ones are kept.
        assert_eq!(mcp_tests::harness::build::value(&peer.capabilities), capabilities);
        lone.transcript
    });
}
