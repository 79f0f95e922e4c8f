//! Servers that start slowly: a probe timeout, late responses in any order, and the timeout of `initialize`
//! (VER-020, VER-021, VER-027).

use mcp_proto::client::KnownEra;
use mcp_proto::{CallOptions, Fault, Version, VersionSet};
use mcp_tests::harness::build::{
    discover_result, error_response, initialize_result, notification, result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs};

/// Returns a dual-era client after the probe timeout of ten seconds, with the probe and the `initialize` request.
fn after_probe_timeout(cut: Chunker) -> (ClientHarness, Value, Value) {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
    let probe = harness.expect_request("server/discover");
    harness.advance(ms(9_999));
    harness.assert_idle();
    harness.advance(ms(1));
    // The probe is not cancelled: a legacy server might fail on the notification.
    let initialize = harness.expect_request("initialize");
    (harness, probe, initialize)
}

fn modern_discovery() -> Value {
    discover_result(&["2026-07-28"], json!({"tools": {}}))
}

fn method_not_found(request: &Value) -> Value {
    error_response(request, -32601, "Method not found: initialize", Value::Null)
}

fn assert_legacy_ready(harness: &mut ClientHarness) {
    assert_eq!(harness.expect_ready().version, Version::V2025_11_25);
    assert_eq!(harness.expect_reply(), notification("notifications/initialized", Value::Null));
    assert_eq!(harness.pipe.engine().known_era(), Some(KnownEra::Legacy));
}

fn assert_modern_ready(harness: &mut ClientHarness) {
    assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
    harness.assert_nothing_sent();
    assert_eq!(harness.pipe.engine().known_era(), Some(KnownEra::Modern));
    harness.assert_works();
}

// covers: VER-020, VER-027, LIFE-004
#[test]
fn probe_timeout_falls_back_and_initialize_success_means_legacy() {
    for_each_chunker(|cut| {
        let (mut harness, _, initialize) = after_probe_timeout(cut);
        harness.feed_message(&result_response(&initialize, initialize_result("2025-11-25", json!({}))));
        assert_legacy_ready(&mut harness);
        harness.assert_works();
        harness.transcript
    });
}

// covers: VER-027
#[test]
fn late_probe_response_before_initialize_result_is_ignored() {
    for late in [modern_discovery(), discover_result(&["2025-11-25"], json!({})), json!({"odd": true})] {
        for_each_chunker(|cut| {
            let (mut harness, probe, initialize) = after_probe_timeout(cut);
            harness.feed_message(&result_response(&probe, late.clone()));
            harness.assert_idle();
            harness.feed_message(&result_response(&initialize, initialize_result("2025-11-25", json!({}))));
            assert_legacy_ready(&mut harness);
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: VER-027
#[test]
fn late_probe_response_after_initialize_result_is_ignored() {
    let answers: [fn(&Value) -> Value; 2] =
        [|probe| result_response(probe, modern_discovery()), method_not_found];
    for answer in answers {
        for_each_chunker(|cut| {
            let (mut harness, probe, initialize) = after_probe_timeout(cut);
            harness.feed_message(&result_response(&initialize, initialize_result("2025-11-25", json!({}))));
            assert_legacy_ready(&mut harness);
            harness.feed_message(&answer(&probe));
            harness.assert_idle();
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: VER-027
#[test]
fn initialize_error_after_late_discover_result_means_modern() {
    for_each_chunker(|cut| {
        let (mut harness, probe, initialize) = after_probe_timeout(cut);
        harness.feed_message(&result_response(&probe, modern_discovery()));
        harness.assert_idle();
        harness.feed_message(&method_not_found(&initialize));
        assert_modern_ready(&mut harness);
        harness.transcript
    });
}

// covers: VER-027
#[test]
fn initialize_error_waits_for_the_probe_response() {
    for_each_chunker(|cut| {
        let (mut harness, probe, initialize) = after_probe_timeout(cut);
        harness.feed_message(&method_not_found(&initialize));
        harness.advance(secs(30));
        harness.assert_idle();
        harness.feed_message(&result_response(&probe, modern_discovery()));
        assert_modern_ready(&mut harness);
        harness.transcript
    });
}

// covers: VER-010, VER-027
#[test]
fn late_unsupported_version_error_is_retried() {
    for initialize_first in [true, false] {
        for_each_chunker(|cut| {
            let (mut harness, probe, initialize) = after_probe_timeout(cut);
            let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            let mut answers =
                [error_response(&probe, -32022, "unsupported", data), method_not_found(&initialize)];
            if initialize_first {
                answers.reverse();
            }
            harness.feed_message(&answers[0]);
            harness.assert_idle();
            harness.feed_message(&answers[1]);
            let again = harness.expect_request("server/discover");
            harness.feed_message(&result_response(&again, modern_discovery()));
            assert_modern_ready(&mut harness);
            harness.transcript
        });
    }
}

// covers: VER-027, LIFE-020
#[test]
fn two_errors_close_the_client_in_any_order() {
    for initialize_first in [true, false] {
        for_each_chunker(|cut| {
            let (mut harness, probe, initialize) = after_probe_timeout(cut);
            let mut answers = [
                error_response(&probe, -32601, "no such method", Value::Null),
                method_not_found(&initialize),
            ];
            if initialize_first {
                answers.reverse();
            }
            harness.feed_message(&answers[0]);
            harness.assert_idle();
            harness.feed_message(&answers[1]);
            let fault = harness.expect_closed();
            assert!(
                matches!(&fault, Fault::HandshakeRefused(e) if e.message.contains("initialize")),
                "{fault:?}"
            );
            harness.transcript
        });
    }
}

// covers: VER-027, LIFE-020
#[test]
fn initialize_error_without_probe_response_closes_at_the_timeout() {
    for_each_chunker(|cut| {
        let (mut harness, _, initialize) = after_probe_timeout(cut);
        harness.feed_message(&method_not_found(&initialize));
        harness.advance(ms(59_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert!(matches!(harness.expect_closed(), Fault::HandshakeRefused(_)));
        harness.assert_nothing_sent();
        harness.transcript
    });
}

// covers: CANC-008, LIFE-009, LIFE-020, LIFE-021, TIME-007
#[test]
fn initialize_timeout_closes_without_cancelling() {
    for_each_chunker(|cut| {
        let (mut harness, _, _) = after_probe_timeout(cut);
        harness.advance(ms(59_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_eq!(harness.expect_closed(), Fault::HandshakeTimeout { method: "initialize", stray: None });
        harness.assert_nothing_sent();
        harness.transcript
    });
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        harness.expect_request("initialize");
        harness.advance(secs(60));
        assert_eq!(harness.expect_closed(), Fault::HandshakeTimeout { method: "initialize", stray: None });
        harness.assert_nothing_sent();
        harness.transcript
    });
}

// covers: ERR-017
#[test]
fn initialize_refused_with_other_revisions_is_retried_once_with_the_newest_in_common() {
    let refusal = |request: &Value, supported: Value| {
        let data = json!({"supported": supported, "requested": "2025-11-25"});
        error_response(request, -32602, "Unsupported protocol version", data)
    };
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let first = harness.expect_request("initialize");
        assert_eq!(first["params"]["protocolVersion"], "2025-11-25");
        harness.feed_message(&refusal(&first, json!(["2024-11-05", "2025-03-26"])));
        let second = harness.expect_request("initialize");
        assert_eq!(second["params"]["protocolVersion"], "2025-03-26");
        harness.feed_message(&result_response(&second, initialize_result("2025-03-26", json!({}))));
        assert_eq!(harness.expect_ready().version, Version::V2025_03_26);
        harness.transcript
    });
    // Once; never with the same revision; and not with one that this client does not speak.
    for (supported, is_retried) in [
        (json!(["2024-11-05"]), true),
        (json!(["2025-11-25"]), false),
        (json!(["2026-07-28"]), false),
        (json!([]), false),
        (json!("2024-11-05"), false),
    ] {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
            let first = harness.expect_request("initialize");
            harness.feed_message(&refusal(&first, supported.clone()));
            if is_retried {
                let second = harness.expect_request("initialize");
                harness.feed_message(&refusal(&second, json!(["2025-03-26"])));
            }
            let fault = harness.expect_closed();
            let expected = matches!(fault, Fault::HandshakeRefused(_) | Fault::NoCommonVersion { .. });
            assert!(expected, "{supported}: {fault:?}");
            harness.assert_nothing_sent();
            harness.transcript
        });
    }
}

// covers: BASE-013
#[test]
fn handshake_that_times_out_tells_of_the_error_that_named_no_request() {
    for versions in [VersionSet::LEGACY, VersionSet::MODERN, VersionSet::ALL] {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(versions), cut);
            harness.take_sent();
            harness.feed_message(
                &json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no key"}}),
            );
            let told = harness.expect_diagnostic();
            harness.advance(secs(120));
            let fault = harness.expect_closed();
            assert!(fault.to_string().contains("no key"), "{fault}");
            assert!(matches!(fault, Fault::HandshakeTimeout { stray: Some(stray), .. } if *stray == told));
            harness.transcript
        });
    }
}

// covers: TIME-007, VER-028
#[test]
fn modern_only_client_waits_longer_and_sends_nothing_else() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::MODERN), cut);
        harness.expect_request("server/discover");
        harness.advance(ms(59_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_eq!(
            harness.expect_closed(),
            Fault::HandshakeTimeout { method: "server/discover", stray: None }
        );
        harness.assert_nothing_sent();
        harness.transcript
    });
}

// covers: VER-027
#[test]
fn probe_and_init_timeouts_are_configurable() {
    let limits = limits(|l| {
        l.probe_timeout = ms(200);
        l.init_timeout = ms(300);
    });
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        harness.expect_request("server/discover");
        harness.advance(ms(200));
        harness.expect_request("initialize");
        harness.advance(ms(300));
        assert_eq!(harness.expect_closed(), Fault::HandshakeTimeout { method: "initialize", stray: None });
        harness.transcript
    });
}

// covers: VER-021
#[test]
fn server_exit_after_probe_timeout_suggests_legacy_retry() {
    for_each_chunker(|cut| {
        let (mut harness, _, _) = after_probe_timeout(cut);
        harness.eof();
        let fault = harness.expect_closed();
        assert_eq!(fault, Fault::ExitedDuringProbe { legacy: true });
        assert_eq!(fault.retry_with(), Some(KnownEra::Legacy));
        harness.transcript
    });
}

// covers: LIFE-020, VER-021
#[test]
fn server_exit_after_initialize_error_reports_that_error() {
    for_each_chunker(|cut| {
        let (mut harness, _, initialize) = after_probe_timeout(cut);
        harness.feed_message(&method_not_found(&initialize));
        harness.eof();
        assert!(matches!(harness.expect_closed(), Fault::HandshakeRefused(e) if e.code == -32601));
        harness.transcript
    });
}

// covers: LIFE-004, LIFE-005, TIME-001, TIME-004
#[test]
fn queued_calls_are_sent_in_order_and_their_timeouts_start_then() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        let probe = harness.expect_request("server/discover");
        let options = CallOptions::new().timeout(secs(5));
        let call = |harness: &mut ClientHarness, name: &str| {
            let params = json!({"name": name});
            harness.pipe.engine().call(harness.now, "tools/call", &params, &options).expect("queued")
        };
        let keys = [call(&mut harness, "a"), call(&mut harness, "b"), call(&mut harness, "c")];
        harness.advance(secs(9));
        // A call that was never sent is not cancelled at the server.
        harness.pipe.engine().cancel(harness.now, keys[1], None).expect("open");
        assert!(harness.expect_done(keys[1]).is_err());
        harness.assert_idle();
        harness.feed_message(&result_response(&probe, modern_discovery()));
        harness.expect_ready();
        let sent = harness.take_sent();
        let names: Vec<_> = sent.iter().map(|m| m["params"]["name"].clone()).collect();
        assert_eq!(names, ["a", "c"]);
        harness.advance(ms(4_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_eq!(harness.take_event_texts().len(), 2, "both calls timed out");
        assert_eq!(harness.take_sent().len(), 2, "both are cancelled");
        harness.transcript
    });
}
