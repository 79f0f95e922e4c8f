//! Progress in both directions: who gets it, what it must say, and how much of it there may be.

use alloc::sync::Arc;

use mcp_proto::pipe::Pipe as _;
use mcp_proto::server::Event;
use mcp_proto::{
    CallId, CallOptions, Diagnostic, Instant, Limits, Outbox, Progress, Sent, Version, VersionSet,
};
use mcp_tests::harness::build::{LEGACY, discovery, legacy, modern_with, note, result};
use mcp_tests::harness::{LoneClient, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

/// A call that asks for progress under `token`, unless that is null
fn ask(modern_era: bool, id: i64, token: &Value) -> Value {
    if modern_era {
        return modern_with(id, "tools/call", json!({"name": "a"}), &json!({"progressToken": token}));
    }
    let meta = if token.is_null() { json!({}) } else { json!({"progressToken": token}) };
    legacy(id, "tools/call", json!({"name": "a", "_meta": meta}))
}

/// Runs `test` with a server that serves calls of the modern era, and of each legacy revision
fn every_era(limits: &Limits, test: impl Fn(&mut LoneServer, Option<Version>)) {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL).limits(limits.clone()), cut);
            if let Some(version) = version {
                lone.open(version);
            }
            test(&mut lone, version);
            lone.transcript
        });
    }
}

fn report(lone: &mut LoneServer, call: CallId, progress: Progress) -> Sent {
    lone.pipe.engine().progress(lone.now, call, progress).expect("open")
}

fn values(sent: &[Value]) -> Vec<f64> {
    sent.iter().map(|m| m["params"]["progress"].as_f64().expect("a number")).collect()
}

// covers: PROG-001, PROG-003, PROG-006, PROG-008, PROG-009, PROG-010, BASE-021
#[test]
fn progress_names_the_token_of_its_request() {
    for token in [json!("t"), json!(0), json!(-5), json!(""), json!("\u{e9}\n\"")] {
        every_era(&Limits::default(), |lone, version| {
            let call = lone.take(&ask(version.is_none(), 1, &token));
            assert!(call.wants_progress());
            let progress = Progress::new(0.5).of(2.25).saying("half a tide\n\"higher\"");
            assert_eq!(report(lone, call.id(), progress), Sent::Queued);
            let mut params = json!({"progressToken": token, "progress": 0.5, "total": 2.25});
            // The first revision has no message.
            if version != Some(Version::V2024_11_05) {
                params["message"] = "half a tide\n\"higher\"".into();
            }
            assert_eq!(lone.reply(), note("notifications/progress", params));
            report(lone, call.id(), Progress::new(1.0));
            assert_eq!(lone.reply()["params"], json!({"progressToken": token, "progress": 1}));
            lone.complete(call.id(), &json!({"content": []}));
        });
    }
}

// covers: PROG-001, PROG-005, PROG-010
#[test]
fn progress_that_nobody_asked_for_is_dropped() {
    every_era(&Limits::default(), |lone, version| {
        let call = lone.take(&ask(version.is_none(), 1, &Value::Null));
        assert!(!call.wants_progress());
        assert_eq!(report(lone, call.id(), Progress::new(1.0)), Sent::Dropped);
        lone.pass(secs(1));
        lone.still();
        lone.complete(call.id(), &json!({"content": []}));
    });
}

// covers: PROG-007, PROG-008
#[test]
fn progress_only_goes_up() {
    every_era(&Limits::default(), |lone, version| {
        let call = lone.take(&ask(version.is_none(), 1, &json!("t"))).id();
        for (value, sent) in [
            (-3.0, Sent::Queued),
            (-3.0, Sent::Dropped),
            (-4.0, Sent::Dropped),
            (f64::NAN, Sent::Dropped),
            (f64::INFINITY, Sent::Dropped),
            (f64::NEG_INFINITY, Sent::Dropped),
            (0.0, Sent::Queued),
            (-0.0, Sent::Dropped),
            (1e-300, Sent::Queued),
            (1e300, Sent::Queued),
        ] {
            assert_eq!(report(lone, call, Progress::new(value)), sent, "{value}");
        }
        let sent = lone.sent();
        assert_eq!(values(&sent), [-3.0, 0.0, 1e-300, 1e300]);
        // A total that cannot be written is left out.
        for total in [f64::NAN, f64::INFINITY] {
            report(lone, call, Progress::new(if total.is_nan() { 1.1e300 } else { 1.2e300 }).of(total));
            assert!(lone.reply()["params"].get("total").is_none());
        }
    });
}

// covers: PROG-011, PROG-010
#[test]
fn there_is_no_progress_after_the_answer() {
    every_era(&Limits::default(), |lone, version| {
        let call = lone.take(&ask(version.is_none(), 1, &json!("t"))).id();
        for i in 0..15 {
            report(lone, call, Progress::new(f64::from(i)));
        }
        lone.pipe.engine().complete(lone.now, call, &json!({"content": []})).expect("open");
        let sent = lone.sent();
        assert_eq!(sent.len(), 11);
        assert!(sent[10].get("result").is_some(), "the answer is the last");
        assert!(lone.pipe.engine().progress(lone.now, call, Progress::new(99.0)).is_err());
        lone.pass(secs(10));
        lone.still();
    });
}

// covers: PROG-013, PROG-007
#[test]
fn ten_at_once_then_twenty_a_second_and_the_latest_always() {
    every_era(&Limits::default(), |lone, version| {
        let call = lone.take(&ask(version.is_none(), 1, &json!("t"))).id();
        let outcomes: Vec<_> = (1..=30).map(|i| report(lone, call, Progress::new(f64::from(i)))).collect();
        assert!(outcomes[..10].iter().all(|o| *o == Sent::Queued));
        assert!(outcomes[10..].iter().all(|o| *o == Sent::Held));
        assert_eq!(values(&lone.sent()), (1..=10).map(f64::from).collect::<Vec<_>>());
        lone.pass(ms(49));
        lone.silent();
        lone.pass(ms(1));
        assert_eq!(values(&lone.sent()), [30.0], "of those held back the latest");
        lone.pass(secs(1));
        lone.silent();
        // A thousand in a second, and no more than the rate allows.
        let mut next = 31.0;
        let start = lone.now;
        while lone.now < start + secs(1) {
            report(lone, call, Progress::new(next));
            next += 1.0;
            lone.pass(ms(1));
        }
        let sent = values(&lone.sent());
        assert!((25..=31).contains(&sent.len()), "{} in a second", sent.len());
        assert!(sent.windows(2).all(|w| w[0] < w[1]));
        lone.pass(secs(1));
        assert_eq!(values(&lone.sent()), [next - 1.0], "the last one is not lost");
    });
}

// covers: PROG-013
#[test]
fn the_limits_of_progress_are_each_calls_own_and_configurable() {
    let limits = limits(|l| {
        l.progress_burst = 2;
        l.progress_rate = 0;
    });
    every_era(&limits, |lone, version| {
        let calls = [1, 2].map(|id| lone.take(&ask(version.is_none(), id, &json!(id))).id());
        for call in calls {
            for (i, sent) in [Sent::Queued, Sent::Queued, Sent::Held, Sent::Held].into_iter().enumerate() {
                let value = f64::from(u8::try_from(i).expect("few"));
                assert_eq!(report(lone, call, Progress::new(value)), sent);
            }
        }
        assert_eq!(lone.sent().len(), 4);
        lone.pass(secs(1_000));
        lone.still();
    });
}

// covers: PROG-013
#[test]
fn a_peer_that_does_not_read_gets_the_latest_when_it_reads_again() {
    let limits = limits(|l| l.outbox_mark = 500);
    every_era(&limits, |lone, version| {
        let call = lone.take(&ask(version.is_none(), 1, &json!("t"))).id();
        lone.blocked = true;
        let mut held = 0;
        for i in 1..=9 {
            let text = "x".repeat(200);
            held += usize::from(report(lone, call, Progress::new(f64::from(i)).saying(text)) == Sent::Held);
        }
        // The first revision has no messages, so more of them fit.
        assert!(held > 0 || version == Some(Version::V2024_11_05));
        let others: Vec<_> = (10..=200).map(|i| report(lone, call, Progress::new(f64::from(i)))).collect();
        assert_eq!(others.last(), Some(&Sent::Held));
        lone.pass(secs(20));
        assert!(!lone.pipe.wants_input(), "nor is more taken from it");
        lone.blocked = false;
        lone.pass(ms(100));
        let sent = values(&lone.sent());
        assert_eq!(sent.last(), Some(&200.0), "{sent:?}");
        assert!(sent.len() <= 11, "{sent:?}");
        lone.complete(call, &json!({"content": []}));
    });
}

// ---- the client gets it ----------------------------------------------------------------------------------------

fn news(token: impl Into<Value>, progress: f64) -> Value {
    note("notifications/progress", json!({"progressToken": token.into(), "progress": progress}))
}

/// A client that is ready, in the modern era and in each legacy revision
fn every_client(test: impl Fn(&mut LoneClient)) {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
            match version {
                None => lone.with_modern(json!({"tools": {}})),
                Some(version) => lone.with_legacy(version, json!({"tools": {}})),
            }
            test(&mut lone);
            lone.transcript
        });
    }
}

// covers: PROG-001, PROG-002, PROG-004, PROG-006, PROG-008, PROG-009
#[test]
fn a_client_is_told_how_far_its_call_is() {
    every_client(|lone| {
        let (key, request) =
            lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new().with_progress());
        let token = &request["params"]["_meta"]["progressToken"];
        let params =
            json!({"progressToken": token, "progress": 0.5, "total": 2, "message": "half", "more": []});
        lone.tell(&note("notifications/progress", params));
        assert_eq!(lone.progress(key), Progress::new(0.5).of(2.0).saying("half"));
        lone.tell(&news(token.clone(), 1.0));
        assert_eq!(lone.progress(key), Progress::new(1.0));
        lone.tell(&result(&request, json!({"content": []})));
        assert!(lone.done(key).is_ok());
        lone.tell(&news(token.clone(), 2.0));
        assert_eq!(lone.diagnostic(), Diagnostic::UnknownProgress);
        lone.still();
    });
}

// covers: PROG-007, PROG-012, BASE-016, STDIO-011
#[test]
fn progress_that_makes_no_sense_is_told_and_dropped() {
    every_client(|lone| {
        let (asked, first) =
            lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new().with_progress());
        let (_, second) = lone.calls("tools/call", &json!({"name": "b"}), &CallOptions::new());
        lone.tell(&news(first["id"].clone(), 5.0));
        assert_eq!(lone.progress(asked), Progress::new(5.0));
        for value in [5.0, 4.0, -1.0] {
            lone.tell(&news(first["id"].clone(), value));
            assert_eq!(lone.diagnostic(), Diagnostic::ProgressNotIncreasing, "{value}");
        }
        // Unknown, of another type, and of a call that did not ask.
        for token in [json!(99), json!("t"), json!(first["id"].to_string()), second["id"].clone()] {
            lone.tell(&news(token.clone(), 9.0));
            assert_eq!(lone.diagnostic(), Diagnostic::UnknownProgress, "{token}");
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
            lone.tell(&note("notifications/progress", params.clone()));
            assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)), "{params}");
        }
        lone.feed(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1e999}}}}"#,
            first["id"]
        ));
        lone.diagnostic();
        lone.still();
        lone.tell(&news(first["id"].clone(), 6.0));
        assert_eq!(lone.progress(asked), Progress::new(6.0));
        lone.still();
    });
}

// covers: PROG-001, PROG-010, PROG-012, PROG-013
#[test]
fn a_legacy_client_reports_on_what_it_was_asked() {
    for version in LEGACY {
        each_cut(|cut| {
            let config = client(VersionSet::only(version)).custom_method("harbor/name");
            let mut lone = LoneClient::client(config, cut);
            lone.with_legacy(version, json!({}));
            lone.tell(&legacy("s1", "harbor/name", json!({"_meta": {"progressToken": "st"}})));
            let mcp_proto::client::Event::Request(request) = lone.event() else { panic!("a request") };
            for i in 1..=12 {
                lone.pipe.engine().progress(lone.now, request.id, Progress::new(f64::from(i))).expect("open");
            }
            assert_eq!(lone.sent().len(), 10);
            lone.pass(ms(50));
            assert_eq!(lone.reply()["params"], json!({"progressToken": "st", "progress": 12}));
            lone.pipe.engine().respond(lone.now, request.id, &json!({})).expect("open");
            assert_eq!(lone.reply()["id"], "s1");
            lone.transcript
        });
        // And the server, whose request it was, waits longer for it.
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            lone.open(version);
            let channel = lone.pipe.channel();
            let options = CallOptions::new().with_progress();
            let key = lone
                .pipe
                .engine()
                .request(lone.now, channel, "harbor/name", &json!({}), &options)
                .expect("open");
            let request = lone.reply();
            for i in 1..=3 {
                lone.pass(secs(50));
                lone.tell(&news(request["params"]["_meta"]["progressToken"].clone(), f64::from(i)));
                lone.still();
            }
            lone.tell(&news("unknown", 1.0));
            assert_eq!(lone.diagnostic(), Diagnostic::UnknownProgress);
            lone.tell(&result(&request, json!({})));
            assert!(matches!(lone.event(), Event::Done { call, outcome: Ok(_) } if call == key));
            lone.transcript
        });
    }
}

// covers: PROG-013, PROG-002
#[test]
fn only_the_newest_report_is_kept_for_a_client_that_does_not_look() {
    use mcp_proto::client::{Engine, Event};

    // At the level of messages, where nothing paces what comes in.
    let now = Instant::ZERO;
    let mut engine = Engine::new(Arc::new(client(VersionSet::MODERN)));
    let channel = engine.open_channel(now);
    let sent = |engine: &mut Engine| -> Value {
        let message = engine.outbox(channel).and_then(Outbox::pop_message).expect("a message");
        serde_json::from_slice(&message).expect("JSON")
    };
    let probe = sent(&mut engine);
    let found = result(&probe, discovery(&["2026-07-28"], json!({"tools": {}})));
    engine.handle_message(now, channel, found.to_string().into());
    assert!(matches!(engine.poll_event(now), Some(Event::Ready(_))));
    let options = CallOptions::new().with_progress();
    let key = engine.call(now, "tools/call", &json!({"name": "a"}), &options).expect("ready");
    let token = sent(&mut engine)["params"]["_meta"]["progressToken"].clone();
    for i in 1..=1_000 {
        let message = news(token.clone(), f64::from(i)).to_string();
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
