//! Cancellation in both directions, and its races.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::server::{CancelReason, Event};
use mcp_proto::{CallError, CallOptions, Diagnostic, Progress, UseError, Version, VersionSet};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, legacy_request, modern_request_with, notification, result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, Pair, ServerHarness, for_each_chunker};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

/// A call that asks for progress, in either era.
fn call_request(modern_era: bool, id: impl Into<Value>) -> Value {
    if modern_era {
        return modern_request_with(
            id,
            "tools/call",
            json!({"name": "slow"}),
            &json!({"progressToken": "t"}),
        );
    }
    legacy_request(id, "tools/call", json!({"name": "slow", "_meta": {"progressToken": "t"}}))
}

fn cancel_notification(id: impl Into<Value>) -> Value {
    notification("notifications/cancelled", json!({"requestId": id.into(), "reason": "no longer needed"}))
}

/// Runs `test` with a server that serves modern calls, then once for each legacy revision.
fn for_each_era(test: impl Fn(&mut ServerHarness, bool)) {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            if let Some(version) = version {
                harness.open_session(version);
            }
            test(&mut harness, version.is_none());
            harness.transcript
        });
    }
}

// ---- client cancels, server receives ---------------------------------------------------------------------------

// covers: CANC-010, CANC-020, STDIO-018, STDIO-019, PROG-011
#[test]
fn server_reports_cancelled_call_and_never_answers_it() {
    for_each_era(|harness, modern_era| {
        let call = harness.expect_call_for(&call_request(modern_era, "x"));
        harness.feed_message(&cancel_notification("x"));
        assert_eq!(harness.expect_cancelled(&call), CancelReason::Client(Some("no longer needed".into())));
        let now = harness.now;
        let engine = harness.pipe.engine();
        assert_eq!(engine.complete(now, call.id(), &json!({})), Err(UseError::Stale));
        assert_eq!(engine.progress(now, call.id(), Progress::new(1.0)).map(|_| ()), Err(UseError::Stale));
        harness.advance(secs(10_000));
        harness.assert_idle();
        // The id is free again.
        let call = harness.expect_call_for(&call_request(modern_era, "x"));
        harness.complete(call.id(), &json!({"content": []}));
    });
}

// covers: CANC-020, STDIO-019, PROG-011
#[test]
fn held_back_progress_is_not_sent_after_cancellation() {
    for_each_era(|harness, modern_era| {
        let call = harness.expect_call_for(&call_request(modern_era, 1));
        for i in 1..=20 {
            harness
                .pipe
                .engine()
                .progress(harness.now, call.id(), Progress::new(f64::from(i)))
                .expect("open");
        }
        assert_eq!(harness.take_sent().len(), 10);
        harness.feed_message(&cancel_notification(1));
        harness.expect_cancelled(&call);
        harness.advance(secs(10));
        harness.assert_idle();
    });
}

// covers: CANC-011, CANC-013, CANC-014, STDIO-011
#[test]
fn cancellation_of_unknown_request_is_reported_and_ignored() {
    for_each_era(|harness, modern_era| {
        let call = harness.expect_call_for(&call_request(modern_era, 1));
        harness.complete(call.id(), &json!({"content": []}));
        let other = harness.expect_call_for(&call_request(modern_era, 2));
        // Answered already, never sent, of another type, empty.
        for id in [json!(1), json!(77), json!("2"), json!("")] {
            harness.feed_message(&cancel_notification(id.clone()));
            match harness.expect_diagnostic() {
                Diagnostic::UnknownCancellation(named) => assert_eq!(named.to_string(), id.to_string()),
                diagnostic => panic!("{diagnostic:?}"),
            }
            harness.assert_idle();
        }
        harness.feed_message(&cancel_notification(2));
        harness.expect_cancelled(&other);
        harness.feed_message(&cancel_notification(2));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownCancellation(_)));
        harness.assert_idle();
        // On a byte stream nothing overtakes: an unknown id names no later request.
        let late = harness.expect_call_for(&call_request(modern_era, 77));
        harness.complete(late.id(), &json!({"content": []}));
    });
}

// covers: CANC-005, CANC-006, CANC-007, CANC-014, BASE-016, STDIO-011
#[test]
fn malformed_cancellation_is_reported_and_ignored() {
    for_each_era(|harness, modern_era| {
        let call = harness.expect_call_for(&call_request(modern_era, 1));
        for params in [
            Value::Null,
            json!({}),
            json!({"reason": "which one?"}),
            json!({"requestId": null}),
            json!({"requestId": 1.5}),
            json!({"requestId": {"id": 1}}),
            json!({"requestId": [1]}),
            json!({"requestId": true}),
        ] {
            harness.feed_message(&notification("notifications/cancelled", params.clone()));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)), "{params}");
            harness.assert_idle();
        }
        // A reason that is not a string is ignored.
        harness.feed_message(&notification(
            "notifications/cancelled",
            json!({"requestId": 1, "reason": 7, "more": 1}),
        ));
        assert_eq!(harness.expect_cancelled(&call), CancelReason::Client(None));
    });
}

// covers: CANC-010, CANC-011, STDIO-018
#[test]
fn queued_request_cancelled_before_delivery_never_reaches_application() {
    for modern_era in [true, false] {
        for_each_chunker(|cut| {
            let config = server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 1));
            let mut harness = ServerHarness::server(config, cut);
            if !modern_era {
                harness.open_session(Version::V2025_11_25);
            }
            let first = harness.expect_call_for(&call_request(modern_era, 1));
            harness.feed_messages(&[
                call_request(modern_era, 2),
                call_request(modern_era, 3),
                cancel_notification(2),
            ]);
            harness.assert_idle();
            harness.complete(first.id(), &json!({"content": []}));
            let third = harness.expect_call();
            assert_eq!(harness.complete(third.id(), &json!({"content": []}))["id"], 3);
            harness.assert_idle();
            harness.transcript
        });
    }
}

// ---- client cancels its own calls --------------------------------------------------------------------------------

/// Runs `test` with a ready client, in the modern era and in each legacy revision.
fn for_each_client(test: impl Fn(&mut ClientHarness)) {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness =
                ClientHarness::client(client(VersionSet::ALL).custom_method("harbor/name"), cut);
            match version {
                None => harness.become_modern(json!({"tools": {}})),
                Some(version) => harness.become_legacy(version, json!({"tools": {}})),
            }
            test(&mut harness);
            harness.transcript
        });
    }
}

// covers: CANC-001, CANC-002, CANC-003, CANC-004, CANC-005, CANC-007, CANC-012, CANC-013, CANC-016, STDIO-017
#[test]
fn client_cancel_names_the_request_and_ignores_late_messages() {
    for_each_client(|harness| {
        let (key, request) =
            harness.start_call("tools/call", &json!({"name": "slow"}), &CallOptions::new().with_progress());
        harness.pipe.engine().cancel(harness.now, key, Some("the user left")).expect("open");
        let params = json!({"requestId": request["id"], "reason": "the user left"});
        assert_eq!(harness.expect_reply(), notification("notifications/cancelled", params));
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
        // The race: the server had already answered.
        let token = json!({"progressToken": request["id"], "progress": 1});
        harness.feed_message(&notification("notifications/progress", token));
        assert_eq!(harness.expect_diagnostic(), Diagnostic::UnknownProgress);
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        harness.assert_idle();
        // A second cancellation finds a stale key.
        assert_eq!(harness.pipe.engine().cancel(harness.now, key, None), Err(UseError::Stale));
        harness.advance(secs(1_000));
        harness.assert_idle();
    });
}

// covers: CANC-013, CANC-003, CANC-004
#[test]
fn ended_call_cannot_be_cancelled() {
    for_each_client(|harness| {
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        // The answer has arrived, whether or not it was polled.
        assert_eq!(harness.pipe.engine().cancel(harness.now, key, None), Err(UseError::Stale));
        assert!(harness.expect_done(key).is_ok());
        harness.assert_idle();
        let (key, _) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.pipe.engine().cancel(harness.now, key, None).expect("open");
        assert!(harness.expect_reply()["params"].get("reason").is_none());
    });
}

// covers: CANC-008, LIFE-009, CANC-003
#[test]
fn probe_and_initialize_are_never_cancelled() {
    for versions in [VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN] {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(versions), cut);
            let key = harness
                .pipe
                .engine()
                .call(harness.now, "tools/list", &json!({}), &CallOptions::new())
                .expect("queued");
            harness.advance(secs(5));
            harness.pipe.engine().cancel(harness.now, key, Some("too slow")).expect("open");
            assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
            harness.advance(secs(200));
            let methods: Vec<_> = harness.take_sent().iter().map(|m| m["method"].clone()).collect();
            assert!(methods.iter().all(|m| m == "server/discover" || m == "initialize"), "{methods:?}");
            harness.transcript
        });
    }
}

// ---- server cancels its own requests (legacy) --------------------------------------------------------------------

// covers: CANC-001, CANC-003, CANC-005, CANC-012, CANC-013
#[test]
fn legacy_server_can_cancel_its_own_requests() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            harness.open_session(version);
            let channel = harness.pipe.channel();
            let options = CallOptions::new();
            let key = harness
                .pipe
                .engine()
                .request(harness.now, channel, "harbor/name", &json!({}), &options)
                .expect("open");
            let request = harness.expect_reply();
            harness.pipe.engine().cancel_request(harness.now, key, Some("found out")).expect("open");
            let params = json!({"requestId": request["id"], "reason": "found out"});
            assert_eq!(harness.expect_reply(), notification("notifications/cancelled", params));
            assert!(
                matches!(harness.expect_event(), Event::Done { call, outcome: Err(CallError::Cancelled) } if call == key)
            );
            harness.feed_message(&result_response(&request, json!({"name": "Mara"})));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
            assert_eq!(harness.pipe.engine().cancel_request(harness.now, key, None), Err(UseError::Stale));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: CANC-010, CANC-011, CANC-014, CANC-020
#[test]
fn client_drops_request_that_the_server_cancelled() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let config = client(VersionSet::only(version)).custom_method("harbor/name");
            let mut harness = ClientHarness::client(config, cut);
            harness.become_legacy(version, json!({}));
            harness.feed_message(&legacy_request("s1", "harbor/name", json!({})));
            let ClientEvent::Request(request) = harness.expect_event() else { panic!("a request") };
            harness.feed_message(&cancel_notification("s1"));
            assert!(matches!(harness.expect_event(), ClientEvent::RequestCancelled(id) if id == request.id));
            let now = harness.now;
            assert_eq!(harness.pipe.engine().respond(now, request.id, &json!({})), Err(UseError::Stale));
            let error = mcp_proto::RpcError::new(7, "no");
            assert_eq!(harness.pipe.engine().refuse(now, request.id, &error), Err(UseError::Stale));
            for (params, expected) in
                [(json!({"requestId": "s1"}), "UnknownCancellation"), (json!({}), "InvalidNotification")]
            {
                harness.feed_message(&notification("notifications/cancelled", params));
                assert!(format!("{:?}", harness.expect_diagnostic()).starts_with(expected));
            }
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: CANC-014, STDIO-011
#[test]
fn cancellation_from_modern_server_has_no_effect() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        // The id is that of a request of the client, not of the server.
        harness.feed_message(&cancel_notification(request["id"].clone()));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownCancellation(_)));
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// ---- races between both engines --------------------------------------------------------------------------------

// covers: CANC-012, CANC-013, CANC-020
#[test]
fn call_ends_once_when_cancellation_and_answer_cross() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        for (cancelled, answered) in [(0, 10), (10, 0), (5, 5), (0, 0), (3, 25), (25, 3), (15, 20), (19, 21)]
        {
            let link = mcp_tests::harness::LinkConfig { latency: ms(10), ..Chunker::Whole.into() };
            let mut pair = Pair::new(client(versions), server(versions), link);
            pair.settle();
            let params = json!({"name": "slow", "arguments": {}});
            let key = pair
                .app
                .call(pair.now, &mut pair.client, "slow", "tools/call", &params, &CallOptions::new())
                .expect("ready");
            pair.drive_until(|pair| !pair.app.open_calls.is_empty());
            let start = pair.now;
            let mut steps = [(cancelled, true), (answered, false)];
            steps.sort_unstable();
            for (at, cancels) in steps {
                let span = (start + ms(at)).saturating_duration_since(pair.now);
                pair.drive_bounded(span);
                let now = pair.now;
                if cancels {
                    // Refused when the answer has already arrived.
                    let _ = pair.client.engine().cancel(now, key, None);
                } else if !pair.app.open_calls.is_empty() {
                    pair.app.finish_slow(now, &mut pair.server);
                }
            }
            pair.drive_bounded(secs(1));
            let ends = pair.app.client_log.iter().filter(|l| l.starts_with("slow ended")).count();
            assert_eq!(ends, 1, "{cancelled} {answered}: {:?}", pair.app.client_log);
            let answers = pair
                .messages_in(MessageDirection::ServerToClient)
                .filter(|m| m["result"].get("content").is_some())
                .count();
            let cancellations = pair.app.server_log.iter().filter(|l| l.starts_with("cancelled")).count();
            assert_eq!(
                answers + cancellations,
                1,
                "{cancelled} {answered}: answered or cancelled, never both"
            );
            assert!(pair.app.open_calls.is_empty());
        }
    }
}
