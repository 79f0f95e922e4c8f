//! Timeouts of calls, in both directions.

use mcp_proto::server::Event;
use mcp_proto::{CallError, CallKey, CallOptions, Diagnostic, Instant, Version, VersionSet};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, discover_result, error_response, notification, result_response,
};
use mcp_tests::harness::{ClientHarness, Pair, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

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

fn start_call(harness: &mut ClientHarness, options: &CallOptions) -> (CallKey, Value) {
    harness.start_call("tools/call", &json!({"name": "slow"}), options)
}

fn progress_notification(request: &Value, progress: f64) -> Value {
    notification("notifications/progress", json!({"progressToken": request["id"], "progress": progress}))
}

/// Checks that the call timed out and was cancelled at the server.
fn assert_timed_out(harness: &mut ClientHarness, key: CallKey, request: &Value, error: &CallError) {
    assert_eq!(harness.expect_done(key).as_ref(), Err(error));
    let cancelled = harness.expect_reply();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    assert!(cancelled["params"]["reason"].is_string());
    harness.assert_idle();
}

// covers: TIME-001, TIME-002, TIME-003, CANC-002, CANC-016, STDIO-017, ERR-015, LIFE-020
#[test]
fn unanswered_call_times_out_and_is_cancelled() {
    for_each_client(|harness| {
        let (key, request) = start_call(harness, &CallOptions::new());
        harness.advance(ms(59_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_timed_out(harness, key, &request, &CallError::TimedOut);
        // Later input is ignored.
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        harness.advance(secs(10_000));
        harness.assert_idle();
        harness.assert_works();
    });
}

// covers: BASE-013
#[test]
fn call_that_times_out_tells_of_the_error_that_named_no_request() {
    let error = |id: Option<Value>, message: &str| {
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": message}});
        if let Some(id) = id {
            error["id"] = id;
        }
        error
    };
    for_each_client(|harness| {
        for id in [None, Some(json!(null)), Some(json!("")), Some(json!("server-error")), Some(json!(99_999))]
        {
            // One that came before the call was sent is none of its own.
            harness.feed_message(&error(id.clone(), "early"));
            assert!(harness.expect_diagnostic().to_string().contains("early"), "{id:?}");
            harness.advance(ms(1));
            let (plain, request) = start_call(harness, &CallOptions::new().timeout(ms(10)));
            harness.advance(ms(10));
            assert_timed_out(harness, plain, &request, &CallError::TimedOut);

            let (key, request) = start_call(harness, &CallOptions::new().timeout(ms(10)));
            harness.feed_message(&error(id, "no tools today"));
            let told = harness.expect_diagnostic();
            assert!(told.to_string().contains("no tools today"), "{told}");
            harness.assert_idle();
            harness.advance(ms(10));
            assert_timed_out(harness, key, &request, &CallError::Misaddressed(Box::new(told)));
        }
        // So is a result that names none.
        let (key, request) = start_call(harness, &CallOptions::new().timeout(ms(10)));
        harness.feed_message(&json!({"jsonrpc": "2.0", "result": {}}));
        let told = harness.expect_diagnostic();
        assert!(matches!(told, Diagnostic::Malformed { id: None, .. }), "{told:?}");
        harness.advance(ms(10));
        assert_timed_out(harness, key, &request, &CallError::Misaddressed(Box::new(told)));
        // A message that is no answer does no harm to a call that is answered. Nor do its digits as a string.
        let (key, request) = start_call(harness, &CallOptions::new());
        harness.feed_message(&error(None, "what?"));
        harness.expect_diagnostic();
        let digits = json!(request["id"].to_string());
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": digits, "result": {}}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.assert_works();
    });
}

// covers: BASE-010, BASE-017
#[test]
fn answer_with_neither_result_nor_error_ends_its_call_at_once() {
    for_each_client(|harness| {
        for members in [json!({}), json!({"result": null, "error": null}), json!({"extra": 1})] {
            let (key, request) = start_call(harness, &CallOptions::new());
            let mut answer = json!({"jsonrpc": "2.0", "id": request["id"]});
            for (name, value) in members.as_object().expect("an object") {
                answer[name] = value.clone();
            }
            harness.feed_message(&answer);
            harness.expect_diagnostic();
            let done = harness.expect_done(key);
            assert!(matches!(done, Err(CallError::Malformed(_))), "{answer}: {done:?}");
            harness.assert_idle();
        }
        harness.assert_works();
    });
}

// covers: TIME-004
#[test]
fn timeout_can_be_set_per_call() {
    for_each_client(|harness| {
        let (short, first) = start_call(harness, &CallOptions::new().timeout(ms(10)));
        let (long, second) = start_call(harness, &CallOptions::new().timeout(secs(300)));
        harness.advance(ms(10));
        assert_timed_out(harness, short, &first, &CallError::TimedOut);
        harness.advance(secs(299));
        harness.assert_idle();
        harness.feed_message(&result_response(&second, json!({"content": []})));
        assert!(harness.expect_done(long).is_ok());
        harness.advance(secs(1_000));
        harness.assert_idle();
    });
}

// covers: TIME-004, TIME-006
#[test]
fn default_timeouts_are_configurable() {
    let limits = limits(|l| {
        l.call_timeout = secs(2);
        l.call_total_timeout = secs(5);
    });
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = start_call(&mut harness, &CallOptions::new());
        harness.advance(secs(2));
        assert_timed_out(&mut harness, key, &request, &CallError::TimedOut);
        let (key, request) = start_call(&mut harness, &CallOptions::new().with_progress());
        for i in 1..=4 {
            harness.advance(secs(1));
            harness.feed_message(&progress_notification(&request, f64::from(i)));
            harness.expect_progress(key);
        }
        harness.advance(secs(1));
        assert_timed_out(&mut harness, key, &request, &CallError::TotalTimedOut);
        harness.transcript
    });
}

// covers: TIME-005, TIME-006, LIFE-020
#[test]
fn progress_resets_the_timeout_but_not_the_total() {
    for_each_client(|harness| {
        let options = CallOptions::new().with_progress().timeout(secs(10)).total_timeout(secs(35));
        let (key, request) = start_call(harness, &options);
        for i in 1..=3 {
            harness.advance(ms(9_999));
            harness.feed_message(&progress_notification(&request, f64::from(i)));
            harness.expect_progress(key);
        }
        // At 30 s; the total timeout comes first.
        harness.advance(ms(5_002));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_timed_out(harness, key, &request, &CallError::TotalTimedOut);
        // Progress that does not increase does not reset the timeout.
        let (key, request) = start_call(harness, &CallOptions::new().with_progress().timeout(secs(10)));
        harness.feed_message(&progress_notification(&request, 5.0));
        harness.expect_progress(key);
        harness.advance(secs(9));
        harness.feed_message(&progress_notification(&request, 5.0));
        assert_eq!(harness.expect_diagnostic(), Diagnostic::ProgressNotIncreasing);
        harness.advance(secs(1));
        assert_timed_out(harness, key, &request, &CallError::TimedOut);
    });
}

// covers: TIME-001, TIME-005
#[test]
fn time_of_a_call_without_a_progress_token_ends_whatever_progress_is_sent() {
    for_each_client(|harness| {
        let (key, request) = start_call(harness, &CallOptions::new().timeout(secs(10)));
        assert!(request["params"]["_meta"].get("progressToken").is_none(), "{request}");
        harness.advance(secs(9));
        harness.feed_message(&progress_notification(&request, 1.0));
        harness.expect_diagnostic();
        harness.advance(secs(1));
        assert_timed_out(harness, key, &request, &CallError::TimedOut);
    });
}

// covers: TIME-005
#[test]
fn progress_reset_of_the_timeout_can_be_disabled() {
    for_each_client(|harness| {
        let mut options = CallOptions::new().with_progress().timeout(secs(10));
        options.progress_resets_timeout = false;
        let (key, request) = start_call(harness, &options);
        harness.advance(secs(9));
        harness.feed_message(&progress_notification(&request, 1.0));
        harness.expect_progress(key);
        harness.advance(secs(1));
        assert_timed_out(harness, key, &request, &CallError::TimedOut);
    });
}

// covers: TIME-001, TIME-006
#[test]
fn extreme_timeouts_are_accepted() {
    for_each_client(|harness| {
        let never = core::time::Duration::MAX;
        let (forever, request) = start_call(harness, &CallOptions::new().timeout(never).total_timeout(never));
        let (zero_timeout, second) = start_call(harness, &CallOptions::new().timeout(ms(0)));
        harness.advance(ms(0));
        assert_timed_out(harness, zero_timeout, &second, &CallError::TimedOut);
        harness.advance(secs(1 << 40));
        harness.assert_idle();
        harness.feed_message(&error_response(&request, 7, "finally", Value::Null));
        assert!(harness.expect_done(forever).is_err());
    });
}

// covers: TIME-004, TIME-006
#[test]
fn timeouts_of_a_queued_call_start_when_it_is_sent() {
    let options = CallOptions::new().timeout(core::time::Duration::MAX).total_timeout(secs(10));
    for options in [options, CallOptions::new().timeout(secs(10)), CallOptions::new().total_timeout(secs(10))]
    {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(VersionSet::MODERN), cut);
            let probe = harness.expect_request("server/discover");
            harness.advance(secs(20));
            let key =
                harness.pipe.engine().call(harness.now, "tools/list", &json!({}), &options).expect("queued");
            harness.advance(secs(15));
            harness.feed_message(&result_response(
                &probe,
                discover_result(&["2026-07-28"], json!({"tools": {}})),
            ));
            harness.expect_ready();
            let request = harness.expect_request("tools/list");
            harness.advance(ms(9_999));
            harness.assert_idle();
            harness.advance(ms(1));
            assert!(matches!(harness.expect_done(key), Err(CallError::TimedOut | CallError::TotalTimedOut)));
            assert_eq!(harness.expect_reply()["params"]["requestId"], request["id"]);
            harness.transcript
        });
    }
}

// covers: TIME-001, ERR-015
#[test]
fn response_at_the_deadline_ends_the_call_once() {
    for_each_client(|harness| {
        let (key, request) = start_call(harness, &CallOptions::new().timeout(secs(1)));
        harness.advance(ms(999));
        harness.now = harness.now + ms(1);
        // The response is processed before the deadline.
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.advance(secs(5));
        harness.assert_idle();
    });
}

// covers: TIME-001
#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "time does not go back"))]
fn time_never_goes_back() {
    for_each_client(|harness| {
        harness.advance(secs(100));
        let (key, request) = start_call(harness, &CallOptions::new().timeout(secs(10)));
        // A clock that jumps back counts as the last time seen.
        let now = harness.now;
        harness.now = Instant::ZERO;
        let (other, second) = start_call(harness, &CallOptions::new().timeout(secs(10)));
        harness.now = now;
        harness.advance(ms(9_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_eq!(harness.take_event_texts().len(), 2);
        let named: Vec<_> = harness.take_sent().iter().map(|m| m["params"]["requestId"].clone()).collect();
        assert_eq!(named, [request["id"].clone(), second["id"].clone()]);
        assert_ne!(key, other);
    });
}

// covers: TIME-001, TIME-002, TIME-004, TIME-005, TIME-006
#[test]
fn requests_of_a_legacy_server_time_out_too() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            harness.open_session(version);
            let channel = harness.pipe.channel();
            let send_request = |harness: &mut ServerHarness, options: &CallOptions| {
                let key = harness
                    .pipe
                    .engine()
                    .request(harness.now, channel, "harbor/name", &json!({}), options)
                    .expect("open");
                (key, harness.expect_reply())
            };
            let assert_timed_out_at_server =
                |harness: &mut ServerHarness, key: CallKey, request: &Value, error: &CallError| {
                    match harness.expect_event() {
                        Event::Done { call, outcome, .. } => {
                            assert_eq!((call, outcome.as_ref()), (key, Err(error)))
                        }
                        other => panic!("{other:?}"),
                    }
                    assert_eq!(harness.expect_reply()["params"]["requestId"], request["id"]);
                    harness.assert_idle();
                };
            let (key, request) = send_request(&mut harness, &CallOptions::new());
            harness.advance(ms(59_999));
            harness.assert_idle();
            harness.advance(ms(1));
            assert_timed_out_at_server(&mut harness, key, &request, &CallError::TimedOut);
            let options = CallOptions::new().with_progress().timeout(secs(3)).total_timeout(secs(7));
            let (key, request) = send_request(&mut harness, &options);
            for i in 1..=3 {
                harness.advance(secs(2));
                harness.feed_message(&progress_notification(&request, f64::from(i)));
            }
            harness.advance(secs(1));
            assert_timed_out_at_server(&mut harness, key, &request, &CallError::TotalTimedOut);
            harness.feed_message(&result_response(&request, json!({})));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
            harness.transcript
        });
    }
}

// covers: TIME-001, TIME-003, CANC-010, CANC-013
#[test]
fn timed_out_call_ends_on_both_sides() {
    for versions in [VersionSet::MODERN, VersionSet::only(Version::V2025_03_26)] {
        for_each_chunker(|cut| {
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
            assert!(pair.app.open_calls.is_empty());
            (pair.app.client_log.clone(), pair.app.server_log.clone())
        });
    }
}

// covers: PING-003, TIME-001
#[test]
fn unanswered_ping_of_application_times_out_like_a_call() {
    for_each_client(|harness| {
        let key =
            harness.pipe.engine().ping(harness.now, &CallOptions::new().timeout(secs(3))).expect("ready");
        let ping = harness.expect_reply();
        assert!(ping["method"] == "ping" || ping["method"] == "server/discover");
        harness.advance(secs(3));
        assert_timed_out(harness, key, &ping, &CallError::TimedOut);
        // The connection stays open: the application decides about its own pings. Only keep-alive pings end it.
        let key = harness.pipe.engine().ping(harness.now, &CallOptions::new()).expect("ready");
        let ping = harness.expect_reply();
        harness.feed_message(&result_response(&ping, json!({})));
        assert!(harness.expect_done(key).is_ok());
    });
}
