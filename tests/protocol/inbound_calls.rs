//! Inbound calls of a server: request ids, answers, stale keys, and the end of a connection.

use mcp_proto::server::{BufferedResult, CancelReason};
use mcp_proto::{
    CallError, CallOptions, Diagnostic, Fault, Progress, RpcError, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{LEGACY_VERSIONS, legacy_request, modern_request, notification, raw};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{limits, ms, secs, server};

fn dual_era_harness(cut: Chunker) -> ServerHarness {
    ServerHarness::server(server(VersionSet::ALL), cut)
}

/// A call of the tool `a` with this id, in either era.
fn call_request(modern_era: bool, id: impl Into<Value>) -> Value {
    let params = json!({"name": "a"});
    if modern_era {
        modern_request(id, "tools/call", params)
    } else {
        legacy_request(id, "tools/call", params)
    }
}

fn empty_result() -> Value {
    json!({"content": []})
}

/// Runs `test` with a server that serves modern calls, then once for each legacy revision.
fn for_each_era(test: impl Fn(&mut ServerHarness, bool)) {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            if let Some(version) = version {
                harness.open_session(version);
            }
            test(&mut harness, version.is_none());
            harness.transcript
        });
    }
}

// covers: BASE-003, BASE-008
#[test]
fn response_repeats_the_request_id_unchanged() {
    let ids = [
        "1",
        "0",
        "-1",
        "-0",
        "1.0",
        "1e3",
        "10E-1",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        r#""1""#,
        r#""""#,
        r#""a b""#,
        r#""\u00e9\n\"""#,
        r#""\ud83c\udf0a""#,
        r#""é""#,
    ];
    for_each_era(|harness, modern_era| {
        for id in ids {
            let request = call_request(modern_era, 4_711).to_string().replace("4711", id);
            harness.feed(request);
            let call = harness.expect_call();
            harness.pipe.engine().complete(harness.now, call.id(), &empty_result()).expect("open");
            assert!(harness.pipe.engine().complete(harness.now, call.id(), &empty_result()).is_err());
            let answer = harness.expect_reply();
            let sent: Value = serde_json::from_str(id).expect("JSON");
            assert_eq!(answer["id"], sent, "{id}");
        }
    });
}

// covers: BASE-008, BASE-003
#[test]
fn request_ids_are_compared_by_value_and_type() {
    for_each_era(|harness, modern_era| {
        let first = harness.expect_call_for(&call_request(modern_era, 1));
        for same in ["1.0", "1e0", "10e-1"] {
            harness.feed(call_request(modern_era, 4_711).to_string().replace("4711", same));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::DuplicateId(_)), "{same} is 1");
            harness.assert_idle();
        }
        // A string never equals a number.
        let second = harness.expect_call_for(&call_request(modern_era, "1"));
        harness.feed(call_request(modern_era, 4_711).to_string().replace("4711", r#""\u0031""#));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::DuplicateId(_)));
        assert_eq!(harness.complete(second.id(), &empty_result())["id"], "1");
        assert_eq!(harness.complete(first.id(), &empty_result())["id"], 1);
    });
}

// covers: BASE-005, BASE-006, BASE-033
#[test]
fn duplicate_id_in_flight_is_reported_and_not_answered() {
    for_each_era(|harness, modern_era| {
        let first = harness.expect_call_for(&call_request(modern_era, "same"));
        harness.feed_message(&call_request(modern_era, "same"));
        match harness.expect_diagnostic() {
            Diagnostic::DuplicateId(id) => assert_eq!(id.to_string(), "\"same\""),
            other => panic!("{other:?}"),
        }
        harness.assert_idle();
        assert_eq!(harness.complete(first.id(), &empty_result())["id"], "same");
        harness.assert_idle();
        // Once answered, the id may be used again.
        let again = harness.expect_call_for(&call_request(modern_era, "same"));
        assert_ne!(again.id(), first.id());
        harness.complete(again.id(), &empty_result());
    });
}

// covers: BASE-033, STDIO-010
#[test]
fn calls_are_answered_in_any_order() {
    for_each_era(|harness, modern_era| {
        let requests: Vec<_> = (0..10).map(|i| call_request(modern_era, i)).collect();
        harness.feed_messages(&requests);
        let calls: Vec<_> = (0..10).map(|_| harness.expect_call()).collect();
        for i in [7, 2, 9, 0, 1, 8, 3, 6, 4, 5] {
            assert_eq!(harness.complete(calls[i].id(), &empty_result())["id"], i);
        }
    });
}

// covers: BASE-009, BASE-016, PROG-011
#[test]
fn stale_call_ids_are_refused() {
    for_each_era(|harness, modern_era| {
        let done = harness.expect_call_for(&call_request(modern_era, 1)).id();
        harness.complete(done, &empty_result());
        let failed = harness.expect_call_for(&call_request(modern_era, 2)).id();
        harness.fail(failed, &RpcError::new(7, "no"));
        let cancelled = harness.expect_call_for(&call_request(modern_era, 3));
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 3})));
        harness.expect_cancelled(&cancelled);
        // A new call may reuse a slot; a stale key never reaches it.
        let live = harness.expect_call_for(&call_request(modern_era, 4));
        for key in [done, failed, cancelled.id()] {
            let now = harness.now;
            let engine = harness.pipe.engine();
            assert_eq!(engine.complete(now, key, &empty_result()), Err(UseError::Stale));
            assert_eq!(engine.complete_raw(now, key, &raw(&empty_result())), Err(UseError::Stale));
            assert_eq!(engine.fail(now, key, &RpcError::new(7, "no")), Err(UseError::Stale));
            assert_eq!(engine.progress(now, key, Progress::new(1.0)).map(|_| ()), Err(UseError::Stale));
            harness.assert_idle();
        }
        assert_eq!(harness.complete(live.id(), &empty_result())["id"], 4);
    });
}

// covers: BASE-010, STDIO-003, ERR-019
#[test]
fn unencodable_result_leaves_the_call_open() {
    for_each_era(|harness, modern_era| {
        let call = harness.expect_call_for(&call_request(modern_era, 1));
        for wrong in [json!([1]), json!("text"), json!(null), json!(1)] {
            let refused = harness.pipe.engine().complete(harness.now, call.id(), &wrong);
            assert!(matches!(refused, Err(UseError::Encode(_))), "{wrong}");
            let refused = harness.pipe.engine().complete_raw(harness.now, call.id(), &raw(&wrong));
            assert!(matches!(refused, Err(UseError::Encode(_))), "{wrong}");
            harness.assert_idle();
        }
        // Text with line breaks, inside strings or between members, goes out on one line.
        let pretty = "{\n  \"content\": [\r\n {\"type\": \"text\", \"text\": \"a\\nb\"}]\n}";
        let pretty = mcp_proto::RawJson::new(pretty).expect("JSON");
        harness.pipe.engine().complete_raw(harness.now, call.id(), &pretty).expect("open");
        assert_eq!(harness.expect_reply()["result"]["content"][0]["text"], "a\nb");
    });
}

// covers: STDIO-003, BASE-026, META-018
#[test]
fn large_results_encode_like_small_ones() {
    for_each_era(|harness, modern_era| {
        let text = "0123456789abcde\n".repeat(3_000);
        let result = json!({"content": [{"type": "text", "text": text}]});
        let mut sent = Vec::new();
        for as_text in [true, false] {
            let call = harness.expect_call_for(&call_request(modern_era, "big"));
            if as_text {
                harness.pipe.engine().complete_raw(harness.now, call.id(), &raw(&result)).expect("open");
                sent.push(harness.expect_reply());
            } else {
                sent.push(harness.complete(call.id(), &result));
            }
        }
        assert_eq!(sent[0], sent[1]);
        assert_eq!(sent[0]["result"]["content"][0]["text"], text.as_str());
    });
}

// covers: BASE-010, BASE-026, META-018
#[test]
fn buffered_results_are_sent_like_others_and_once() {
    for_each_era(|harness, modern_era| {
        let mut buffer = BufferedResult::default();
        for length in [1, 1_000, 48_000, 2] {
            let result = json!({"content": [{"type": "text", "text": "x".repeat(length)}]});
            let call = harness.expect_call_for(&call_request(modern_era, "same"));
            let expected = harness.complete(call.id(), &result);
            let call = harness.expect_call_for(&call_request(modern_era, "same"));
            // Empty after the last result was sent, and after one that cannot be: nothing is sent twice or in part.
            for _ in 0..2 {
                let refused = buffer.complete(harness.pipe.engine(), harness.now, call.id());
                assert!(matches!(refused, Err(UseError::Encode(_))), "{length}");
                harness.assert_idle();
                buffer.encode(call.version(), &json!([1])).expect_err("not an object");
            }
            buffer.encode(call.version(), &result).expect("an object");
            buffer.complete(harness.pipe.engine(), harness.now, call.id()).expect("open");
            assert_eq!(harness.expect_reply(), expected, "{length}");
        }
    });
}

// covers: ERR-018, ERR-001
#[test]
fn invalid_tool_call_params_yield_an_error_to_send() {
    for params in [
        json!({}),
        json!({"name": 1}),
        json!({"name": null}),
        json!({"name": "a", "arguments": []}),
        json!({"name": "a", "arguments": null}),
    ] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let call = harness.expect_call_for(&modern_request(1, "tools/call", params.clone()));
            let error = call.tool_call().expect_err("wrong");
            assert_eq!(harness.fail(call.id(), &error)["error"]["code"], -32602, "{params}");
            harness.transcript
        });
    }
    let mut harness = dual_era_harness(Chunker::Whole);
    let call = harness.expect_call_for(&modern_request(
        1,
        "tools/call",
        json!({"name": "add", "arguments": {"a": "one"}}),
    ));
    let error = call
        .tool_call()
        .expect("a name")
        .parse::<alloc::collections::BTreeMap<String, i64>>()
        .expect_err("no number");
    assert_eq!(error.code, -32602);
    assert!(error.message.contains("arguments"), "{error}");
}

// covers: ERR-019, CANC-010
#[test]
fn unanswered_call_expires_at_max_call_age() {
    let config = || server(VersionSet::ALL).limits(limits(|l| l.max_call_age = secs(90)));
    for modern_era in [true, false] {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(config(), cut);
            if !modern_era {
                harness.open_session(Version::V2025_06_18);
            }
            let call = harness.expect_call_for(&call_request(modern_era, 1));
            harness.advance(ms(89_999));
            harness.assert_idle();
            harness.advance(ms(1));
            assert_eq!(harness.expect_cancelled(&call), CancelReason::Expired);
            let error = &harness.expect_reply()["error"];
            assert_eq!(error["code"], -32603);
            assert_eq!(
                harness.pipe.engine().complete(harness.now, call.id(), &empty_result()),
                Err(UseError::Stale)
            );
            let call = harness.expect_call_for(&call_request(modern_era, 1));
            harness.complete(call.id(), &empty_result());
            harness.advance(secs(200));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: STDIO-028, CANC-010
#[test]
fn open_calls_get_a_grace_period_after_eof() {
    for_each_era(|harness, modern_era| {
        let first = harness.expect_call_for(&call_request(modern_era, 1));
        let second = harness.expect_call_for(&call_request(modern_era, 2));
        let third = harness.expect_call_for(&call_request(modern_era, 3));
        harness.eof();
        harness.assert_idle();
        harness.advance(secs(1));
        assert_eq!(harness.complete(first.id(), &empty_result())["id"], 1);
        harness.advance(ms(3_999));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_eq!(harness.expect_cancelled(&second), CancelReason::Disconnected);
        assert_eq!(harness.expect_cancelled(&third), CancelReason::Disconnected);
        assert_eq!(harness.expect_closed(), Fault::Eof);
        harness.assert_idle();
        harness.advance(secs(100));
        harness.assert_idle();
    });
}

// covers: STDIO-028
#[test]
fn queued_requests_are_dropped_when_the_grace_period_ends() {
    let limits = limits(|l| l.max_live_calls = 1);
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(limits.clone()), cut);
        let first = harness.expect_call_for(&call_request(true, 1));
        harness.feed_messages(&[call_request(true, 2), call_request(true, 3)]);
        harness.eof();
        harness.assert_idle();
        harness.advance(secs(5));
        assert_eq!(harness.expect_cancelled(&first), CancelReason::Disconnected);
        assert_eq!(harness.expect_closed(), Fault::Eof);
        harness.advance(secs(10_000));
        harness.assert_idle();
        harness.transcript
    });
    // Requests that get a slot within the grace period are served.
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(limits.clone()), cut);
        let first = harness.expect_call_for(&call_request(true, 1));
        harness.feed_messages(&[call_request(true, 2), call_request(true, 3)]);
        harness.eof();
        assert_eq!(harness.complete(first.id(), &empty_result())["id"], 1);
        for id in [2, 3] {
            let call = harness.expect_call();
            assert_eq!(harness.complete(call.id(), &empty_result())["id"], id);
        }
        assert_eq!(harness.expect_closed(), Fault::Eof);
        harness.transcript
    });
}

// covers: STDIO-028, STDIO-021, STDIO-022
#[test]
fn shutdown_finishes_open_calls_and_takes_no_new_ones() {
    for_each_era(|harness, modern_era| {
        let first = harness.expect_call_for(&call_request(modern_era, 1));
        let second = harness.expect_call_for(&call_request(modern_era, 2));
        harness.pipe.shutdown(harness.now, secs(3));
        harness.feed_message(&call_request(modern_era, 3));
        harness.assert_idle();
        assert_eq!(harness.complete(first.id(), &empty_result())["id"], 1);
        harness.advance(secs(3));
        assert_eq!(harness.expect_cancelled(&second), CancelReason::Shutdown);
        assert_eq!(harness.expect_reply()["error"]["code"], -32603);
        assert_eq!(harness.expect_closed(), Fault::Closed);
        let now = harness.now;
        assert_eq!(harness.pipe.engine().complete(now, second.id(), &empty_result()), Err(UseError::Stale));
    });
    // Without calls it ends immediately.
    let mut harness = dual_era_harness(Chunker::Whole);
    harness.pipe.shutdown(harness.now, secs(3));
    assert_eq!(harness.expect_closed(), Fault::Closed);
}

// covers: STDIO-028, CANC-010
#[test]
fn abort_cancels_all_calls_at_once() {
    for_each_era(|harness, modern_era| {
        let first = harness.expect_call_for(&call_request(modern_era, 1));
        harness.pipe.abort(harness.now, &Fault::Closed);
        assert_eq!(harness.expect_cancelled(&first), CancelReason::Disconnected);
        assert_eq!(harness.expect_closed(), Fault::Closed);
        harness.assert_nothing_sent();
    });
}

// covers: STDIO-028, LIFE-006, STDIO-014, BASE-019
#[test]
fn commands_in_the_wrong_state_are_refused() {
    let mut harness = dual_era_harness(Chunker::Whole);
    let channel = harness.pipe.channel();
    let request = |harness: &mut ServerHarness, method: &str| {
        harness.pipe.engine().request(harness.now, channel, method, &json!({}), &CallOptions::new())
    };
    // Without a session there is no client to send requests to.
    harness.assert_works();
    for method in ["ping", "harbor/name"] {
        assert_eq!(request(&mut harness, method), Err(UseError::NotReady));
    }
    harness.feed_message(&mcp_tests::harness::build::initialize_request(0, "2025-11-25"));
    harness.expect_reply();
    // Before `initialized` only ping is allowed.
    assert_eq!(request(&mut harness, "harbor/name"), Err(UseError::NotReady));
    request(&mut harness, "ping").expect("allowed");
    harness.expect_reply();
    harness.feed_message(&notification("notifications/initialized", Value::Null));
    request(&mut harness, "harbor/name").expect("allowed");
    harness.expect_reply();
    for method in ["sampling/createMessage", "tools/call", "initialize"] {
        assert_eq!(request(&mut harness, method), Err(UseError::ReservedMethod(method.into())));
    }
    for method in ["notifications/cancelled", "notifications/message", "ping"] {
        let refused = harness.pipe.engine().notify(harness.now, channel, method, None::<&()>);
        assert_eq!(refused, Err(UseError::ReservedMethod(method.into())));
    }
    harness.take_event_texts();
    harness.eof();
    let events = harness.take_event_texts();
    assert!(
        events.iter().filter(|s| s.starts_with("done")).count() == 2
            && events.last().is_some_and(|s| s == "closed: Eof")
    );
    assert_eq!(request(&mut harness, "ping"), Err(UseError::Closed));
    assert_eq!(
        harness.pipe.engine().notify(harness.now, channel, "notifications/x", None::<&()>),
        Err(UseError::Closed)
    );
    harness.assert_idle();
}

// covers: STDIO-028, LIFE-020
#[test]
fn requests_to_a_disconnected_client_fail() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            harness.open_session(version);
            let channel = harness.pipe.channel();
            let options = CallOptions::new();
            let key = harness
                .pipe
                .engine()
                .request(harness.now, channel, "ping", &json!({}), &options)
                .expect("open");
            harness.expect_reply();
            harness.eof();
            match harness.expect_event() {
                mcp_proto::server::Event::Done { call, outcome } => {
                    assert_eq!((call, outcome), (key, Err(CallError::Closed(Fault::Eof))));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(harness.expect_closed(), Fault::Eof);
            harness.transcript
        });
    }
}
