//! Progress in both directions: its token, its values and its rate.

use alloc::sync::Arc;

use mcp_proto::pipe::Pipe as _;
use mcp_proto::server::Event;
use mcp_proto::{
    CallId, CallOptions, Diagnostic, Instant, Limits, Outbox, Progress, SendStatus, Version, VersionSet,
};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, discover_result, legacy_request, modern_request_with, notification, result_response,
};
use mcp_tests::harness::{ClientHarness, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

/// A call that asks for progress under `token`, unless that is null.
fn call_request(modern_era: bool, id: i64, token: &Value) -> Value {
    if modern_era {
        return modern_request_with(id, "tools/call", json!({"name": "a"}), &json!({"progressToken": token}));
    }
    let meta = if token.is_null() { json!({}) } else { json!({"progressToken": token}) };
    legacy_request(id, "tools/call", json!({"name": "a", "_meta": meta}))
}

/// Runs `test` with a server that serves modern calls, then once for each legacy revision.
fn for_each_era(limits: &Limits, test: impl Fn(&mut ServerHarness, Option<Version>)) {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(limits.clone()), cut);
            if let Some(version) = version {
                harness.open_session(version);
            }
            test(&mut harness, version);
            harness.transcript
        });
    }
}

fn report_progress(harness: &mut ServerHarness, call: CallId, progress: Progress) -> SendStatus {
    harness.pipe.engine().progress(harness.now, call, progress).expect("open")
}

fn progress_values(sent: &[Value]) -> Vec<f64> {
    sent.iter().map(|m| m["params"]["progress"].as_f64().expect("a number")).collect()
}

// covers: PROG-001, PROG-003, PROG-006, PROG-008, PROG-009, PROG-010, BASE-021
#[test]
fn progress_carries_the_token_of_its_request() {
    for token in [json!("t"), json!(0), json!(-5), json!(""), json!("\u{e9}\n\"")] {
        for_each_era(&Limits::default(), |harness, version| {
            let call = harness.expect_call_for(&call_request(version.is_none(), 1, &token));
            assert!(call.wants_progress());
            let progress = Progress::new(0.5).with_total(2.25).with_message("half a tide\n\"higher\"");
            assert_eq!(report_progress(harness, call.id(), progress), SendStatus::Queued);
            let mut params = json!({"progressToken": token, "progress": 0.5, "total": 2.25});
            // The first revision has no message.
            if version != Some(Version::V2024_11_05) {
                params["message"] = "half a tide\n\"higher\"".into();
            }
            assert_eq!(harness.expect_reply(), notification("notifications/progress", params));
            report_progress(harness, call.id(), Progress::new(1.0));
            assert_eq!(harness.expect_reply()["params"], json!({"progressToken": token, "progress": 1}));
            harness.complete(call.id(), &json!({"content": []}));
        });
    }
}

// covers: PROG-001, PROG-005, PROG-010
#[test]
fn progress_without_token_is_dropped() {
    for_each_era(&Limits::default(), |harness, version| {
        let call = harness.expect_call_for(&call_request(version.is_none(), 1, &Value::Null));
        assert!(!call.wants_progress());
        assert_eq!(report_progress(harness, call.id(), Progress::new(1.0)), SendStatus::Dropped);
        harness.advance(secs(1));
        harness.assert_idle();
        harness.complete(call.id(), &json!({"content": []}));
    });
}

// covers: PROG-007, PROG-008
#[test]
fn progress_must_increase() {
    for_each_era(&Limits::default(), |harness, version| {
        let call = harness.expect_call_for(&call_request(version.is_none(), 1, &json!("t"))).id();
        for (value, sent) in [
            (-3.0, SendStatus::Queued),
            (-3.0, SendStatus::Dropped),
            (-4.0, SendStatus::Dropped),
            (f64::NAN, SendStatus::Dropped),
            (f64::INFINITY, SendStatus::Dropped),
            (f64::NEG_INFINITY, SendStatus::Dropped),
            (0.0, SendStatus::Queued),
            (-0.0, SendStatus::Dropped),
            (1e-300, SendStatus::Queued),
            (1e300, SendStatus::Queued),
        ] {
            assert_eq!(report_progress(harness, call, Progress::new(value)), sent, "{value}");
        }
        let sent = harness.take_sent();
        assert_eq!(progress_values(&sent), [-3.0, 0.0, 1e-300, 1e300]);
        // A total that cannot be encoded is omitted.
        for total in [f64::NAN, f64::INFINITY] {
            report_progress(
                harness,
                call,
                Progress::new(if total.is_nan() { 1.1e300 } else { 1.2e300 }).with_total(total),
            );
            assert!(harness.expect_reply()["params"].get("total").is_none());
        }
    });
}

// covers: PROG-011, PROG-010
#[test]
fn no_progress_is_sent_after_the_answer() {
    for_each_era(&Limits::default(), |harness, version| {
        let call = harness.expect_call_for(&call_request(version.is_none(), 1, &json!("t"))).id();
        for i in 0..15 {
            report_progress(harness, call, Progress::new(f64::from(i)));
        }
        harness.pipe.engine().complete(harness.now, call, &json!({"content": []})).expect("open");
        let sent = harness.take_sent();
        assert_eq!(sent.len(), 11);
        assert!(sent[10].get("result").is_some(), "the answer is the last message");
        assert!(harness.pipe.engine().progress(harness.now, call, Progress::new(99.0)).is_err());
        harness.advance(secs(10));
        harness.assert_idle();
    });
}

// covers: PROG-013, PROG-007
#[test]
fn progress_is_rate_limited_and_the_latest_is_kept() {
    for_each_era(&Limits::default(), |harness, version| {
        let call = harness.expect_call_for(&call_request(version.is_none(), 1, &json!("t"))).id();
        let outcomes: Vec<_> =
            (1..=30).map(|i| report_progress(harness, call, Progress::new(f64::from(i)))).collect();
        assert!(outcomes[..10].iter().all(|o| *o == SendStatus::Queued));
        assert!(outcomes[10..].iter().all(|o| *o == SendStatus::Deferred));
        assert_eq!(progress_values(&harness.take_sent()), (1..=10).map(f64::from).collect::<Vec<_>>());
        harness.advance(ms(49));
        harness.assert_nothing_sent();
        harness.advance(ms(1));
        assert_eq!(progress_values(&harness.take_sent()), [30.0], "the latest of the deferred values");
        harness.advance(secs(1));
        harness.assert_nothing_sent();
        // A thousand reports in a second: no more are sent than the rate allows.
        let mut next = 31.0;
        let start = harness.now;
        while harness.now < start + secs(1) {
            report_progress(harness, call, Progress::new(next));
            next += 1.0;
            harness.advance(ms(1));
        }
        let sent = progress_values(&harness.take_sent());
        assert!((25..=31).contains(&sent.len()), "{} in a second", sent.len());
        assert!(sent.windows(2).all(|w| w[0] < w[1]));
        harness.advance(secs(1));
        assert_eq!(progress_values(&harness.take_sent()), [next - 1.0], "the last value is not lost");
    });
}

// covers: PROG-013
#[test]
fn progress_limits_are_per_call_and_configurable() {
    let limits = limits(|l| {
        l.progress_burst = 2;
        l.progress_rate = 0;
    });
    for_each_era(&limits, |harness, version| {
        let calls =
            [1, 2].map(|id| harness.expect_call_for(&call_request(version.is_none(), id, &json!(id))).id());
        for call in calls {
            for (i, sent) in
                [SendStatus::Queued, SendStatus::Queued, SendStatus::Deferred, SendStatus::Deferred]
                    .into_iter()
                    .enumerate()
            {
                let value = f64::from(u8::try_from(i).expect("few"));
                assert_eq!(report_progress(harness, call, Progress::new(value)), sent);
            }
        }
        assert_eq!(harness.take_sent().len(), 4);
        harness.advance(secs(1_000));
        harness.assert_idle();
    });
}

// covers: PROG-013
#[test]
fn blocked_peer_gets_the_latest_progress_when_it_reads() {
    let limits = limits(|l| l.outbox_high_water = 500);
    for_each_era(&limits, |harness, version| {
        let call = harness.expect_call_for(&call_request(version.is_none(), 1, &json!("t"))).id();
        harness.is_blocked = true;
        let mut held = 0;
        for i in 1..=9 {
            let text = "x".repeat(200);
            held += usize::from(
                report_progress(harness, call, Progress::new(f64::from(i)).with_message(text))
                    == SendStatus::Deferred,
            );
        }
        // The first revision has no messages, so more reports fit.
        assert!(held > 0 || version == Some(Version::V2024_11_05));
        let others: Vec<_> =
            (10..=200).map(|i| report_progress(harness, call, Progress::new(f64::from(i)))).collect();
        assert_eq!(others.last(), Some(&SendStatus::Deferred));
        harness.advance(secs(20));
        assert!(!harness.pipe.wants_input(), "reading is paused too");
        harness.is_blocked = false;
        harness.advance(ms(100));
        let sent = progress_values(&harness.take_sent());
        assert_eq!(sent.last(), Some(&200.0), "{sent:?}");
        assert!(sent.len() <= 11, "{sent:?}");
        harness.complete(call, &json!({"content": []}));
    });
}

// ---- at the client ---------------------------------------------------------------------------------------------

fn progress_notification(token: impl Into<Value>, progress: f64) -> Value {
    notification("notifications/progress", json!({"progressToken": token.into(), "progress": progress}))
}

/// Runs `test` with a ready client, in the modern era and in each legacy revision.
fn for_each_client(test: impl Fn(&mut ClientHarness)) {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
            match version {
                None => harness.become_modern(json!({"tools": {}})),
                Some(version) => harness.become_legacy(version, json!({"tools": {}})),
            }
            test(&mut harness);
            harness.transcript
        });
    }
}

// covers: PROG-001, PROG-002, PROG-004, PROG-006, PROG-008, PROG-009
#[test]
fn client_reports_progress_of_its_call() {
    for_each_client(|harness| {
        let (key, request) =
            harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new().with_progress());
        let token = &request["params"]["_meta"]["progressToken"];
        let params =
            json!({"progressToken": token, "progress": 0.5, "total": 2, "message": "half", "more": []});
        harness.feed_message(&notification("notifications/progress", params));
        assert_eq!(harness.expect_progress(key), Progress::new(0.5).with_total(2.0).with_message("half"));
        harness.feed_message(&progress_notification(token.clone(), 1.0));
        assert_eq!(harness.expect_progress(key), Progress::new(1.0));
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.feed_message(&progress_notification(token.clone(), 2.0));
        assert_eq!(harness.expect_diagnostic(), Diagnostic::UnknownProgress);
        harness.assert_idle();
    });
}

// covers: PROG-007, PROG-012, BASE-016, STDIO-011
#[test]
fn invalid_progress_is_reported_and_dropped() {
    for_each_client(|harness| {
        let (key, first) =
            harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new().with_progress());
        let (_, second) = harness.start_call("tools/call", &json!({"name": "b"}), &CallOptions::new());
        harness.feed_message(&progress_notification(first["id"].clone(), 5.0));
        assert_eq!(harness.expect_progress(key), Progress::new(5.0));
        for value in [5.0, 4.0, -1.0] {
            harness.feed_message(&progress_notification(first["id"].clone(), value));
            assert_eq!(harness.expect_diagnostic(), Diagnostic::ProgressNotIncreasing, "{value}");
        }
        // Unknown, of another type, and of a call that did not ask for progress.
        for token in [json!(99), json!("t"), json!(first["id"].to_string()), second["id"].clone()] {
            harness.feed_message(&progress_notification(token.clone(), 9.0));
            assert_eq!(harness.expect_diagnostic(), Diagnostic::UnknownProgress, "{token}");
        }
        for params in [
            Value::Null,
            json!({}),
            json!({"progressToken": first["id"]}),
            json!({"progress": 9}),
            json!({"progressToken": first["id"], "progress": "9"}),
            json!({"progressToken": first["id"], "progress": null}),
            json!({"progressToken": 1.5, "progress": 9}),
            json!({"progressToken": null, "progress": 9}),
        ] {
            harness.feed_message(&notification("notifications/progress", params.clone()));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)), "{params}");
        }
        harness.feed(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1e999}}}}"#,
            first["id"]
        ));
        harness.expect_diagnostic();
        harness.assert_idle();
        harness.feed_message(&progress_notification(first["id"].clone(), 6.0));
        assert_eq!(harness.expect_progress(key), Progress::new(6.0));
        harness.assert_idle();
    });
}

// covers: PROG-001, PROG-010, PROG-012, PROG-013
#[test]
fn legacy_client_can_report_progress_on_server_requests() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let config = client(VersionSet::only(version)).custom_method("harbor/name");
            let mut harness = ClientHarness::client(config, cut);
            harness.become_legacy(version, json!({}));
            harness.feed_message(&legacy_request(
                "s1",
                "harbor/name",
                json!({"_meta": {"progressToken": "st"}}),
            ));
            let mcp_proto::client::Event::Request(request) = harness.expect_event() else {
                panic!("a request")
            };
            for i in 1..=12 {
                harness
                    .pipe
                    .engine()
                    .progress(harness.now, request.id, Progress::new(f64::from(i)))
                    .expect("open");
            }
            assert_eq!(harness.take_sent().len(), 10);
            harness.advance(ms(50));
            assert_eq!(harness.expect_reply()["params"], json!({"progressToken": "st", "progress": 12}));
            harness.pipe.engine().respond(harness.now, request.id, &json!({})).expect("open");
            assert_eq!(harness.expect_reply()["id"], "s1");
            harness.transcript
        });
        // At the server, progress extends the timeout of its request.
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            harness.open_session(version);
            let channel = harness.pipe.channel();
            let options = CallOptions::new().with_progress();
            let key = harness
                .pipe
                .engine()
                .request(harness.now, channel, "harbor/name", &json!({}), &options)
                .expect("open");
            let request = harness.expect_reply();
            for i in 1..=3 {
                harness.advance(secs(50));
                harness.feed_message(&progress_notification(
                    request["params"]["_meta"]["progressToken"].clone(),
                    f64::from(i),
                ));
                harness.assert_idle();
            }
            harness.feed_message(&progress_notification("unknown", 1.0));
            assert_eq!(harness.expect_diagnostic(), Diagnostic::UnknownProgress);
            harness.feed_message(&result_response(&request, json!({})));
            assert!(matches!(harness.expect_event(), Event::Done { call, outcome: Ok(_) } if call == key));
            harness.transcript
        });
    }
}

// covers: PROG-013, PROG-002
#[test]
fn unpolled_progress_keeps_only_the_newest() {
    use mcp_proto::client::{Engine, Event};

    // At the level of messages, where nothing limits the input.
    let now = Instant::ZERO;
    let mut engine = Engine::new(Arc::new(client(VersionSet::MODERN)));
    let channel = engine.open_channel(now);
    let sent = |engine: &mut Engine| -> Value {
        let message = engine.outbox(channel).and_then(Outbox::pop_message).expect("a message");
        serde_json::from_slice(&message).expect("JSON")
    };
    let probe = sent(&mut engine);
    let found = result_response(&probe, discover_result(&["2026-07-28"], json!({"tools": {}})));
    engine.handle_message(now, channel, found.to_string().into());
    assert!(matches!(engine.poll_event(now), Some(Event::Ready(_))));
    let options = CallOptions::new().with_progress();
    let key = engine.call(now, "tools/call", &json!({"name": "a"}), &options).expect("ready");
    let token = sent(&mut engine)["params"]["_meta"]["progressToken"].clone();
    for i in 1..=1_000 {
        let message = progress_notification(token.clone(), f64::from(i)).to_string();
        engine.handle_message(now, channel, message.into());
    }
    match engine.poll_event(now) {
        Some(Event::Progress { call, progress }) => {
            assert_eq!((call, progress), (key, Progress::new(1_000.0)))
        }
        other => panic!("{other:?}"),
    }
    assert!(engine.poll_event(now).is_none());
}
