//! Cancellation in both directions, and its races.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::server::{CancelReason, Event};
use mcp_proto::{CallError, CallOptions, Diagnostic, Progress, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, legacy, modern_with, note, result};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer, Pair, each_cut};
use mcp_tests::schema::Direction;
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

/// A call that asks for progress, in either era
fn ask(modern_era: bool, id: impl Into<Value>) -> Value {
    if modern_era {
        return modern_with(id, "tools/call", json!({"name": "slow"}), &json!({"progressToken": "t"}));
    }
    legacy(id, "tools/call", json!({"name": "slow", "_meta": {"progressToken": "t"}}))
}

fn cancel(id: impl Into<Value>) -> Value {
    note("notifications/cancelled", json!({"requestId": id.into(), "reason": "nobody waits"}))
}

/// Runs `test` with a server that serves calls of the modern era, and of each legacy revision
fn every_era(test: impl Fn(&mut LoneServer, bool)) {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            if let Some(version) = version {
                lone.open(version);
            }
            test(&mut lone, version.is_none());
            lone.transcript
        });
    }
}

// ---- the client cancels, the server gets it --------------------------------------------------------------------

// covers: CANC-010, CANC-020, STDIO-018, STDIO-019, PROG-011
#[test]
fn a_cancelled_call_is_told_and_never_answered() {
    every_era(|lone, modern_era| {
        let call = lone.take(&ask(modern_era, "x"));
        lone.tell(&cancel("x"));
        assert_eq!(lone.cancelled(&call), CancelReason::Client(Some("nobody waits".into())));
        let now = lone.now;
        let engine = lone.pipe.engine();
        assert_eq!(engine.complete(now, call.id(), &json!({})), Err(UseError::Stale));
        assert_eq!(engine.progress(now, call.id(), Progress::new(1.0)).map(|_| ()), Err(UseError::Stale));
        lone.pass(secs(10_000));
        lone.still();
        // The id is free again.
        let call = lone.take(&ask(modern_era, "x"));
        lone.complete(call.id(), &json!({"content": []}));
    });
}

// covers: CANC-020, STDIO-019, PROG-011
#[test]
fn progress_that_was_held_back_is_not_sent_after_a_cancellation() {
    every_era(|lone, modern_era| {
        let call = lone.take(&ask(modern_era, 1));
        for i in 1..=20 {
            lone.pipe.engine().progress(lone.now, call.id(), Progress::new(f64::from(i))).expect("open");
        }
        assert_eq!(lone.sent().len(), 10);
        lone.tell(&cancel(1));
        lone.cancelled(&call);
        lone.pass(secs(10));
        lone.still();
    });
}

// covers: CANC-011, CANC-013, CANC-014, STDIO-011
#[test]
fn cancelling_what_is_not_running_is_told_and_ignored() {
    every_era(|lone, modern_era| {
        let call = lone.take(&ask(modern_era, 1));
        lone.complete(call.id(), &json!({"content": []}));
        let other = lone.take(&ask(modern_era, 2));
        // Answered already, never asked, of another type, and twice.
        for id in [json!(1), json!(77), json!("2"), json!("")] {
            lone.tell(&cancel(id.clone()));
            match lone.diagnostic() {
                Diagnostic::UnknownCancel(named) => assert_eq!(named.to_string(), id.to_string()),
                told => panic!("{told:?}"),
            }
            lone.still();
        }
        lone.tell(&cancel(2));
        lone.cancelled(&other);
        lone.tell(&cancel(2));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownCancel(_)));
        lone.still();
        // On a stream nothing overtakes: it was meant for nothing that is still to come.
        let late = lone.take(&ask(modern_era, 77));
        lone.complete(late.id(), &json!({"content": []}));
    });
}

// covers: CANC-005, CANC-006, CANC-007, CANC-014, BASE-016, STDIO-011
#[test]
fn malformed_cancellations_are_told_and_ignored() {
    every_era(|lone, modern_era| {
        let call = lone.take(&ask(modern_era, 1));
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
            lone.tell(&note("notifications/cancelled", params.clone()));
            assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)), "{params}");
            lone.still();
        }
        // A reason that is no text is none.
        lone.tell(&note("notifications/cancelled", json!({"requestId": 1, "reason": 7, "more": 1})));
        assert_eq!(lone.cancelled(&call), CancelReason::Client(None));
    });
}

// covers: CANC-010, CANC-011, STDIO-018
#[test]
fn a_waiting_request_can_be_cancelled_before_anybody_sees_it() {
    for modern_era in [true, false] {
        each_cut(|cut| {
            let config = server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 1));
            let mut lone = LoneServer::server(config, cut);
            if !modern_era {
                lone.open(Version::V2025_11_25);
            }
            let first = lone.take(&ask(modern_era, 1));
            lone.tell_all(&[ask(modern_era, 2), ask(modern_era, 3), cancel(2)]);
            lone.still();
            lone.complete(first.id(), &json!({"content": []}));
            let third = lone.call();
            assert_eq!(lone.complete(third.id(), &json!({"content": []}))["id"], 3);
            lone.still();
            lone.transcript
        });
    }
}

// ---- the client cancels its own ----------------------------------------------------------------------------------

/// A client that is ready, in the modern era and in each legacy revision
fn every_client(test: impl Fn(&mut LoneClient)) {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::ALL).custom_method("harbor/name"), cut);
            match version {
                None => lone.with_modern(json!({"tools": {}})),
                Some(version) => lone.with_legacy(version, json!({"tools": {}})),
            }
            test(&mut lone);
            lone.transcript
        });
    }
}

// covers: CANC-001, CANC-002, CANC-003, CANC-004, CANC-005, CANC-007, CANC-012, CANC-013, CANC-016, STDIO-017
#[test]
fn a_client_cancels_by_naming_the_request_and_ignores_what_still_comes() {
    every_client(|lone| {
        let (key, request) =
            lone.calls("tools/call", &json!({"name": "slow"}), &CallOptions::new().with_progress());
        lone.pipe.engine().cancel(lone.now, key, Some("the user left")).expect("open");
        let params = json!({"requestId": request["id"], "reason": "the user left"});
        assert_eq!(lone.reply(), note("notifications/cancelled", params));
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
        // The race: the server was done already.
        let token = json!({"progressToken": request["id"], "progress": 1});
        lone.tell(&note("notifications/progress", token));
        assert_eq!(lone.diagnostic(), Diagnostic::UnknownProgress);
        lone.tell(&result(&request, json!({"content": []})));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        lone.still();
        // Twice is once.
        assert_eq!(lone.pipe.engine().cancel(lone.now, key, None), Err(UseError::Stale));
        lone.pass(secs(1_000));
        lone.still();
    });
}

// covers: CANC-013, CANC-003, CANC-004
#[test]
fn a_call_that_has_ended_cannot_be_cancelled() {
    every_client(|lone| {
        let (key, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.tell(&result(&request, json!({"tools": []})));
        // The answer is here, whether or not it was looked at.
        assert_eq!(lone.pipe.engine().cancel(lone.now, key, None), Err(UseError::Stale));
        assert!(lone.done(key).is_ok());
        lone.still();
        let (key, _) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.pipe.engine().cancel(lone.now, key, None).expect("open");
        assert!(lone.reply()["params"].get("reason").is_none());
    });
}

// covers: CANC-008, LIFE-009, CANC-003
#[test]
fn neither_the_probe_nor_the_handshake_is_ever_cancelled() {
    for versions in [VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN] {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(versions), cut);
            let key = lone
                .pipe
                .engine()
                .call(lone.now, "tools/list", &json!({}), &CallOptions::new())
                .expect("queued");
            lone.pass(secs(5));
            lone.pipe.engine().cancel(lone.now, key, Some("too slow")).expect("open");
            assert_eq!(lone.done(key), Err(CallError::Cancelled));
            lone.pass(secs(200));
            let methods: Vec<_> = lone.sent().iter().map(|m| m["method"].clone()).collect();
            assert!(methods.iter().all(|m| m == "server/discover" || m == "initialize"), "{methods:?}");
            lone.transcript
        });
    }
}

// ---- the server cancels what it asked (legacy) ------------------------------------------------------------------

// covers: CANC-001, CANC-003, CANC-005, CANC-012, CANC-013
#[test]
fn a_legacy_server_cancels_its_own_requests() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            lone.open(version);
            let channel = lone.pipe.channel();
            let options = CallOptions::new();
            let key = lone
                .pipe
                .engine()
                .request(lone.now, channel, "harbor/name", &json!({}), &options)
                .expect("open");
            let request = lone.reply();
            lone.pipe.engine().cancel_request(lone.now, key, Some("found out")).expect("open");
            let params = json!({"requestId": request["id"], "reason": "found out"});
            assert_eq!(lone.reply(), note("notifications/cancelled", params));
            assert!(
                matches!(lone.event(), Event::Done { call, outcome: Err(CallError::Cancelled) } if call == key)
            );
            lone.tell(&result(&request, json!({"name": "Mara"})));
            assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
            assert_eq!(lone.pipe.engine().cancel_request(lone.now, key, None), Err(UseError::Stale));
            lone.still();
            lone.transcript
        });
    }
}

// covers: CANC-010, CANC-011, CANC-014, CANC-020
#[test]
fn a_client_stops_working_on_what_the_server_cancelled() {
    for version in LEGACY {
        each_cut(|cut| {
            let config = client(VersionSet::only(version)).custom_method("harbor/name");
            let mut lone = LoneClient::client(config, cut);
            lone.with_legacy(version, json!({}));
            lone.tell(&legacy("s1", "harbor/name", json!({})));
            let ClientEvent::Request(request) = lone.event() else { panic!("a request") };
            lone.tell(&cancel("s1"));
            assert!(matches!(lone.event(), ClientEvent::RequestCancelled(id) if id == request.id));
            let now = lone.now;
            assert_eq!(lone.pipe.engine().respond(now, request.id, &json!({})), Err(UseError::Stale));
            let error = mcp_proto::RpcError::new(7, "no");
            assert_eq!(lone.pipe.engine().refuse(now, request.id, &error), Err(UseError::Stale));
            for (params, odd) in
                [(json!({"requestId": "s1"}), "UnknownCancel"), (json!({}), "InvalidNotification")]
            {
                lone.tell(&note("notifications/cancelled", params));
                assert!(format!("{:?}", lone.diagnostic()).starts_with(odd));
            }
            lone.still();
            lone.transcript
        });
    }
}

// covers: CANC-014, STDIO-011
#[test]
fn a_modern_client_has_nothing_that_a_server_could_cancel() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        lone.with_modern(json!({"tools": {}}));
        let (key, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        // It names a request of the client, not of the server.
        lone.tell(&cancel(request["id"].clone()));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownCancel(_)));
        lone.tell(&result(&request, json!({"tools": []})));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

// ---- races, with both sides ours -------------------------------------------------------------------------------

// covers: CANC-012, CANC-013, CANC-020
#[test]
fn wherever_cancellation_and_answer_cross_the_call_ends_once() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        for (cancelled, answered) in [(0, 10), (10, 0), (5, 5), (0, 0), (3, 25), (25, 3), (15, 20), (19, 21)]
        {
            let line = mcp_tests::harness::Line { latency: ms(10), ..Chunker::Whole.into() };
            let mut pair = Pair::new(client(versions), server(versions), line);
            pair.settle();
            let params = json!({"name": "slow", "arguments": {}});
            let key = pair
                .app
                .call(pair.now, &mut pair.client, "slow", "tools/call", &params, &CallOptions::new())
                .expect("ready");
            pair.drive_until(|pair| !pair.app.open.is_empty());
            let start = pair.now;
            let mut steps = [(cancelled, true), (answered, false)];
            steps.sort_unstable();
            for (at, cancels) in steps {
                let span = (start + ms(at)).saturating_duration_since(pair.now);
                pair.drive_bounded(span);
                let now = pair.now;
                if cancels {
                    // Refused when the answer is here already.
                    let _ = pair.client.engine().cancel(now, key, None);
                } else if !pair.app.open.is_empty() {
                    pair.app.finish_slow(now, &mut pair.server);
                }
            }
            pair.drive_bounded(secs(1));
            let ends = pair.app.client_log.iter().filter(|l| l.starts_with("slow ended")).count();
            assert_eq!(ends, 1, "{cancelled} {answered}: {:?}", pair.app.client_log);
            let answers =
                pair.went(Direction::ServerToClient).filter(|m| m["result"].get("content").is_some()).count();
            let told = pair.app.server_log.iter().filter(|l| l.starts_with("cancelled")).count();
            assert_eq!(answers + told, 1, "{cancelled} {answered}: answered or told, never both");
            assert!(pair.app.open.is_empty());
        }
    }
}
