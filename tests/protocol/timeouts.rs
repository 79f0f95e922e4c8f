//! How long a call may take, in both directions.

use mcp_proto::server::Event;
use mcp_proto::{CallError, CallKey, CallOptions, Diagnostic, Instant, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, discovery, error, note, result};
use mcp_tests::harness::{LoneClient, LoneServer, Pair, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

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

fn call(lone: &mut LoneClient, options: &CallOptions) -> (CallKey, Value) {
    lone.calls("tools/call", &json!({"name": "slow"}), options)
}

fn news(request: &Value, progress: f64) -> Value {
    note("notifications/progress", json!({"progressToken": request["id"], "progress": progress}))
}

/// The call is over for want of an answer, which the server is told
fn out_of_time(lone: &mut LoneClient, key: CallKey, request: &Value, why: &CallError) {
    assert_eq!(lone.done(key).as_ref(), Err(why));
    let told = lone.reply();
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], request["id"]);
    assert!(told["params"]["reason"].is_string());
    lone.still();
}

// covers: TIME-001, TIME-002, TIME-003, CANC-002, CANC-016, STDIO-017, ERR-015, LIFE-020
#[test]
fn without_an_answer_a_call_ends_and_the_server_is_told() {
    every_client(|lone| {
        let (key, request) = call(lone, &CallOptions::new());
        lone.pass(ms(59_999));
        lone.still();
        lone.pass(ms(1));
        out_of_time(lone, key, &request, &CallError::TimedOut);
        // What still comes is ignored.
        lone.tell(&result(&request, json!({"content": []})));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        lone.pass(secs(10_000));
        lone.still();
        lone.works();
    });
}

// covers: TIME-004
#[test]
fn each_call_may_have_its_own_time() {
    every_client(|lone| {
        let (short, first) = call(lone, &CallOptions::new().timeout(ms(10)));
        let (long, second) = call(lone, &CallOptions::new().timeout(secs(300)));
        lone.pass(ms(10));
        out_of_time(lone, short, &first, &CallError::TimedOut);
        lone.pass(secs(299));
        lone.still();
        lone.tell(&result(&second, json!({"content": []})));
        assert!(lone.done(long).is_ok());
        lone.pass(secs(1_000));
        lone.still();
    });
}

// covers: TIME-004, TIME-006
#[test]
fn the_default_times_are_configurable() {
    let limits = limits(|l| {
        l.call_timeout = secs(2);
        l.call_total = secs(5);
    });
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        lone.with_modern(json!({"tools": {}}));
        let (key, request) = call(&mut lone, &CallOptions::new());
        lone.pass(secs(2));
        out_of_time(&mut lone, key, &request, &CallError::TimedOut);
        let (key, request) = call(&mut lone, &CallOptions::new().with_progress());
        for i in 1..=4 {
            lone.pass(secs(1));
            lone.tell(&news(&request, f64::from(i)));
            lone.progress(key);
        }
        lone.pass(secs(1));
        out_of_time(&mut lone, key, &request, &CallError::TotalTimedOut);
        lone.transcript
    });
}

// covers: TIME-005, TIME-006, LIFE-020
#[test]
fn progress_starts_the_time_anew_but_not_the_total() {
    every_client(|lone| {
        let options = CallOptions::new().with_progress().timeout(secs(10)).total(secs(35));
        let (key, request) = call(lone, &options);
        for i in 1..=3 {
            lone.pass(ms(9_999));
            lone.tell(&news(&request, f64::from(i)));
            lone.progress(key);
        }
        // At 30 s; the total ends first.
        lone.pass(ms(5_002));
        lone.still();
        lone.pass(ms(1));
        out_of_time(lone, key, &request, &CallError::TotalTimedOut);
        // Progress that counts for nothing resets nothing.
        let (key, request) = call(lone, &CallOptions::new().with_progress().timeout(secs(10)));
        lone.tell(&news(&request, 5.0));
        lone.progress(key);
        lone.pass(secs(9));
        lone.tell(&news(&request, 5.0));
        assert_eq!(lone.diagnostic(), Diagnostic::ProgressNotIncreasing);
        lone.pass(secs(1));
        out_of_time(lone, key, &request, &CallError::TimedOut);
    });
}

// covers: TIME-005
#[test]
fn progress_need_not_start_the_time_anew() {
    every_client(|lone| {
        let mut options = CallOptions::new().with_progress().timeout(secs(10));
        options.progress_resets = false;
        let (key, request) = call(lone, &options);
        lone.pass(secs(9));
        lone.tell(&news(&request, 1.0));
        lone.progress(key);
        lone.pass(secs(1));
        out_of_time(lone, key, &request, &CallError::TimedOut);
    });
}

// covers: TIME-001, TIME-006
#[test]
fn absurd_times_do_no_harm() {
    every_client(|lone| {
        let never = core::time::Duration::MAX;
        let (forever, request) = call(lone, &CallOptions::new().timeout(never).total(never));
        let (never_begun, second) = call(lone, &CallOptions::new().timeout(ms(0)));
        lone.pass(ms(0));
        out_of_time(lone, never_begun, &second, &CallError::TimedOut);
        lone.pass(secs(1 << 40));
        lone.still();
        lone.tell(&error(&request, 7, "finally", Value::Null));
        assert!(lone.done(forever).is_err());
    });
}

// covers: TIME-004, TIME-006
#[test]
fn the_times_of_a_call_made_early_begin_when_it_goes_out() {
    let options = CallOptions::new().timeout(core::time::Duration::MAX).total(secs(10));
    for options in [options, CallOptions::new().timeout(secs(10)), CallOptions::new().total(secs(10))] {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::MODERN), cut);
            let probe = lone.asked("server/discover");
            lone.pass(secs(20));
            let key = lone.pipe.engine().call(lone.now, "tools/list", &json!({}), &options).expect("queued");
            lone.pass(secs(15));
            lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({"tools": {}}))));
            lone.ready();
            let request = lone.asked("tools/list");
            lone.pass(ms(9_999));
            lone.still();
            lone.pass(ms(1));
            assert!(matches!(lone.done(key), Err(CallError::TimedOut | CallError::TotalTimedOut)));
            assert_eq!(lone.reply()["params"]["requestId"], request["id"]);
            lone.transcript
        });
    }
}

// covers: TIME-001, ERR-015
#[test]
fn an_answer_and_the_deadline_at_the_same_moment_end_the_call_once() {
    every_client(|lone| {
        let (key, request) = call(lone, &CallOptions::new().timeout(secs(1)));
        lone.pass(ms(999));
        lone.now = lone.now + ms(1);
        // The answer is looked at before the deadline.
        lone.tell(&result(&request, json!({"content": []})));
        assert!(lone.done(key).is_ok());
        lone.pass(secs(5));
        lone.still();
    });
}

// covers: TIME-001
#[test]
fn time_never_goes_back() {
    every_client(|lone| {
        lone.pass(secs(100));
        let (key, request) = call(lone, &CallOptions::new().timeout(secs(10)));
        // A clock that jumps back counts as the last time seen.
        let now = lone.now;
        lone.now = Instant::ZERO;
        let (other, second) = call(lone, &CallOptions::new().timeout(secs(10)));
        lone.now = now;
        lone.pass(ms(9_999));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.said().len(), 2);
        let named: Vec<_> = lone.sent().iter().map(|m| m["params"]["requestId"].clone()).collect();
        assert_eq!(named, [request["id"].clone(), second["id"].clone()]);
        assert_ne!(key, other);
    });
}

// covers: TIME-001, TIME-002, TIME-004, TIME-005, TIME-006
#[test]
fn requests_of_a_legacy_server_end_in_time_too() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            lone.open(version);
            let channel = lone.pipe.channel();
            let ask = |lone: &mut LoneServer, options: &CallOptions| {
                let key = lone
                    .pipe
                    .engine()
                    .request(lone.now, channel, "harbor/name", &json!({}), options)
                    .expect("open");
                (key, lone.reply())
            };
            let over = |lone: &mut LoneServer, key: CallKey, request: &Value, why: &CallError| {
                match lone.event() {
                    Event::Done { call, outcome, .. } => {
                        assert_eq!((call, outcome.as_ref()), (key, Err(why)))
                    }
                    other => panic!("{other:?}"),
                }
                assert_eq!(lone.reply()["params"]["requestId"], request["id"]);
                lone.still();
            };
            let (key, request) = ask(&mut lone, &CallOptions::new());
            lone.pass(ms(59_999));
            lone.still();
            lone.pass(ms(1));
            over(&mut lone, key, &request, &CallError::TimedOut);
            let options = CallOptions::new().with_progress().timeout(secs(3)).total(secs(7));
            let (key, request) = ask(&mut lone, &options);
            for i in 1..=3 {
                lone.pass(secs(2));
                lone.tell(&news(&request, f64::from(i)));
            }
            lone.pass(secs(1));
            over(&mut lone, key, &request, &CallError::TotalTimedOut);
            lone.tell(&result(&request, json!({})));
            assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
            lone.transcript
        });
    }
}

// covers: TIME-001, TIME-003, CANC-010, CANC-013
#[test]
fn a_call_out_of_time_is_given_up_on_both_sides() {
    for versions in [VersionSet::MODERN, VersionSet::only(Version::V2025_03_26)] {
        each_cut(|cut| {
            let mut pair = Pair::new(client(versions), server(versions), cut);
            pair.settle();
            let params = json!({"name": "slow", "arguments": {}});
            let options = CallOptions::new().timeout(secs(5));
            pair.app
                .call(pair.now, &mut pair.client, "slow", "tools/call", &params, &options)
                .expect("ready");
            pair.drive_until(|pair| pair.app.outcome("slow").is_some());
            assert_eq!(pair.app.outcome("slow"), Some("not answered: no answer in time"));
            pair.settle();
            assert!(pair.app.open.is_empty());
            (pair.app.client_log.clone(), pair.app.server_log.clone())
        });
    }
}

// covers: PING-005, TIME-001
#[test]
fn a_ping_without_an_answer_is_a_call_out_of_time() {
    every_client(|lone| {
        let key = lone.pipe.engine().ping(lone.now, &CallOptions::new().timeout(secs(3))).expect("ready");
        let ping = lone.reply();
        assert!(ping["method"] == "ping" || ping["method"] == "server/discover");
        lone.pass(secs(3));
        out_of_time(lone, key, &ping, &CallError::TimedOut);
        // The connection is the application's to judge.
        let key = lone.pipe.engine().ping(lone.now, &CallOptions::new()).expect("ready");
        let ping = lone.reply();
        lone.tell(&result(&ping, json!({})));
        assert!(lone.done(key).is_ok());
    });
}
