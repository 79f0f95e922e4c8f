//! Servers that start slowly: silence, then answers in any order (`spec-map` 3.1 e), design "Probing tolerates slow
//! starts"), and the handshake's own end of patience.

use mcp_proto::client::Verdict;
use mcp_proto::{CallOptions, Fault, Version, VersionSet};
use mcp_tests::harness::build::{discovery, error, initialized, note, result};
use mcp_tests::harness::{Chunker, LoneClient, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs};

/// A dual-era client whose probe was met with silence for ten seconds: the probe, and the `initialize` that followed
fn after_silence(cut: Chunker) -> (LoneClient, Value, Value) {
    let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
    let probe = lone.asked("server/discover");
    lone.pass(ms(9_999));
    lone.still();
    lone.pass(ms(1));
    // The probe is not cancelled: an old server might choke on that.
    let initialize = lone.asked("initialize");
    (lone, probe, initialize)
}

fn modern() -> Value {
    discovery(&["2026-07-28"], json!({"tools": {}}))
}

fn refusal(request: &Value) -> Value {
    error(request, -32601, "Method not found: initialize", Value::Null)
}

fn legacy_is_ready(lone: &mut LoneClient) {
    assert_eq!(lone.ready().version, Version::V2025_11_25);
    assert_eq!(lone.reply(), note("notifications/initialized", Value::Null));
    assert_eq!(lone.pipe.engine().verdict(), Some(Verdict::Legacy));
}

fn modern_is_ready(lone: &mut LoneClient) {
    assert_eq!(lone.ready().version, Version::V2026_07_28);
    lone.silent();
    assert_eq!(lone.pipe.engine().verdict(), Some(Verdict::Modern));
    lone.works();
}

// covers: VER-020, VER-027, LIFE-004
#[test]
fn silence_leads_to_initialize_whose_success_means_legacy() {
    each_cut(|cut| {
        let (mut lone, _, initialize) = after_silence(cut);
        lone.tell(&result(&initialize, initialized("2025-11-25", json!({}))));
        legacy_is_ready(&mut lone);
        lone.works();
        lone.transcript
    });
}

// covers: VER-027
#[test]
fn a_late_probe_answer_before_the_success_changes_nothing() {
    for late in [modern(), discovery(&["2025-11-25"], json!({})), json!({"odd": true})] {
        each_cut(|cut| {
            let (mut lone, probe, initialize) = after_silence(cut);
            lone.tell(&result(&probe, late.clone()));
            lone.still();
            lone.tell(&result(&initialize, initialized("2025-11-25", json!({}))));
            legacy_is_ready(&mut lone);
            lone.works();
            lone.transcript
        });
    }
}

// covers: VER-027
#[test]
fn a_late_probe_answer_after_the_success_changes_nothing() {
    let answers: [fn(&Value) -> Value; 2] = [|probe| result(probe, modern()), refusal];
    for answer in answers {
        each_cut(|cut| {
            let (mut lone, probe, initialize) = after_silence(cut);
            lone.tell(&result(&initialize, initialized("2025-11-25", json!({}))));
            legacy_is_ready(&mut lone);
            lone.tell(&answer(&probe));
            lone.still();
            lone.works();
            lone.transcript
        });
    }
}

// covers: VER-027
#[test]
fn an_initialize_error_after_a_late_modern_answer_means_modern() {
    each_cut(|cut| {
        let (mut lone, probe, initialize) = after_silence(cut);
        lone.tell(&result(&probe, modern()));
        lone.still();
        lone.tell(&refusal(&initialize));
        modern_is_ready(&mut lone);
        lone.transcript
    });
}

// covers: VER-027
#[test]
fn an_initialize_error_waits_for_the_probe_answer() {
    each_cut(|cut| {
        let (mut lone, probe, initialize) = after_silence(cut);
        lone.tell(&refusal(&initialize));
        lone.pass(secs(30));
        lone.still();
        lone.tell(&result(&probe, modern()));
        modern_is_ready(&mut lone);
        lone.transcript
    });
}

// covers: VER-010, VER-027
#[test]
fn an_unsupported_version_answer_that_comes_late_is_asked_again() {
    for initialize_first in [true, false] {
        each_cut(|cut| {
            let (mut lone, probe, initialize) = after_silence(cut);
            let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            let mut answers = [error(&probe, -32022, "unsupported", data), refusal(&initialize)];
            if initialize_first {
                answers.reverse();
            }
            lone.tell(&answers[0]);
            lone.still();
            lone.tell(&answers[1]);
            let again = lone.asked("server/discover");
            lone.tell(&result(&again, modern()));
            modern_is_ready(&mut lone);
            lone.transcript
        });
    }
}

// covers: VER-027, LIFE-020
#[test]
fn two_refusals_are_the_end_in_any_order() {
    for initialize_first in [true, false] {
        each_cut(|cut| {
            let (mut lone, probe, initialize) = after_silence(cut);
            let mut answers = [error(&probe, -32601, "no such method", Value::Null), refusal(&initialize)];
            if initialize_first {
                answers.reverse();
            }
            lone.tell(&answers[0]);
            lone.still();
            lone.tell(&answers[1]);
            let fault = lone.closed();
            assert!(matches!(&fault, Fault::Refused(e) if e.message.contains("initialize")), "{fault:?}");
            lone.transcript
        });
    }
}

// covers: VER-027, LIFE-020
#[test]
fn a_refusal_without_a_probe_answer_is_the_end_when_time_is_over() {
    each_cut(|cut| {
        let (mut lone, _, initialize) = after_silence(cut);
        lone.tell(&refusal(&initialize));
        lone.pass(ms(59_999));
        lone.still();
        lone.pass(ms(1));
        assert!(matches!(lone.closed(), Fault::Refused(_)));
        lone.silent();
        lone.transcript
    });
}

// covers: CANC-008, LIFE-009, LIFE-020, LIFE-021, TIME-007
#[test]
fn silence_to_initialize_closes_without_cancelling() {
    each_cut(|cut| {
        let (mut lone, _, _) = after_silence(cut);
        lone.pass(ms(59_999));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.closed(), Fault::HandshakeTimeout { method: "initialize" });
        lone.silent();
        lone.transcript
    });
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::LEGACY), cut);
        lone.asked("initialize");
        lone.pass(secs(60));
        assert_eq!(lone.closed(), Fault::HandshakeTimeout { method: "initialize" });
        lone.silent();
        lone.transcript
    });
}

// covers: TIME-007, VER-028
#[test]
fn a_modern_only_client_waits_longer_and_asks_nothing_else() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::MODERN), cut);
        lone.asked("server/discover");
        lone.pass(ms(59_999));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.closed(), Fault::HandshakeTimeout { method: "server/discover" });
        lone.silent();
        lone.transcript
    });
}

// covers: VER-027
#[test]
fn both_waits_are_configurable() {
    let limits = limits(|l| {
        l.probe_timeout = ms(200);
        l.init_timeout = ms(300);
    });
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        lone.asked("server/discover");
        lone.pass(ms(200));
        lone.asked("initialize");
        lone.pass(ms(300));
        assert_eq!(lone.closed(), Fault::HandshakeTimeout { method: "initialize" });
        lone.transcript
    });
}

// covers: VER-021
#[test]
fn a_server_that_leaves_before_any_answer_may_be_an_old_one() {
    each_cut(|cut| {
        let (mut lone, _, _) = after_silence(cut);
        lone.eof();
        let fault = lone.closed();
        assert_eq!(fault, Fault::ExitedDuringProbe { legacy: true });
        assert_eq!(fault.retry_with(), Some(Verdict::Legacy));
        lone.transcript
    });
}

// covers: LIFE-020, VER-021
#[test]
fn a_server_that_refuses_and_leaves_has_said_why() {
    each_cut(|cut| {
        let (mut lone, _, initialize) = after_silence(cut);
        lone.tell(&refusal(&initialize));
        lone.eof();
        assert!(matches!(lone.closed(), Fault::Refused(e) if e.code == -32601));
        lone.transcript
    });
}

// covers: LIFE-004, LIFE-005, TIME-001, TIME-004
#[test]
fn calls_made_early_go_out_in_order_and_their_time_begins_then() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        let probe = lone.asked("server/discover");
        let options = CallOptions::new().timeout(secs(5));
        let call = |lone: &mut LoneClient, name: &str| {
            let params = json!({"name": name});
            lone.pipe.engine().call(lone.now, "tools/call", &params, &options).expect("queued")
        };
        let keys = [call(&mut lone, "a"), call(&mut lone, "b"), call(&mut lone, "c")];
        lone.pass(secs(9));
        // Nobody hears of a call that never went out.
        lone.pipe.engine().cancel(lone.now, keys[1], None).expect("open");
        assert!(lone.done(keys[1]).is_err());
        lone.still();
        lone.tell(&result(&probe, modern()));
        lone.ready();
        let sent = lone.sent();
        let names: Vec<_> = sent.iter().map(|m| m["params"]["name"].clone()).collect();
        assert_eq!(names, ["a", "c"]);
        lone.pass(ms(4_999));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.said().len(), 2, "both are out of time");
        assert_eq!(lone.sent().len(), 2, "both are cancelled");
        lone.transcript
    });
}
