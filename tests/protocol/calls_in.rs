//! Calls that a server gets: ids, places, stale keys, and the end of a connection.

use mcp_proto::server::CancelReason;
use mcp_proto::{
    CallError, CallOptions, Diagnostic, Fault, Progress, RpcError, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{LEGACY, legacy, modern, note, raw};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{limits, ms, secs, server};

fn dual(cut: Chunker) -> LoneServer {
    LoneServer::server(server(VersionSet::ALL), cut)
}

/// A call of the tool `a` with this id, in either era
fn ask(modern_era: bool, id: impl Into<Value>) -> Value {
    let params = json!({"name": "a"});
    if modern_era { modern(id, "tools/call", params) } else { legacy(id, "tools/call", params) }
}

fn nothing() -> Value {
    json!({"content": []})
}

/// Runs `test` with a server that serves calls of the modern era, and of each legacy revision
fn every_era(test: impl Fn(&mut LoneServer, bool)) {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = dual(cut);
            if let Some(version) = version {
                lone.open(version);
            }
            test(&mut lone, version.is_none());
            lone.transcript
        });
    }
}

// covers: BASE-003, BASE-008
#[test]
fn ids_are_repeated_as_they_came() {
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
    every_era(|lone, modern_era| {
        for id in ids {
            let request = ask(modern_era, 4_711).to_string().replace("4711", id);
            lone.feed(request);
            let call = lone.call();
            lone.pipe.engine().complete(lone.now, call.id(), &nothing()).expect("open");
            assert!(lone.pipe.engine().complete(lone.now, call.id(), &nothing()).is_err());
            let answer = lone.reply();
            let sent: Value = serde_json::from_str(id).expect("JSON");
            assert_eq!(answer["id"], sent, "{id}");
        }
    });
}

// covers: BASE-008, BASE-003
#[test]
fn ids_are_compared_by_what_they_mean() {
    every_era(|lone, modern_era| {
        let first = lone.take(&ask(modern_era, 1));
        for same in ["1.0", "1e0", "10e-1"] {
            lone.feed(ask(modern_era, 4_711).to_string().replace("4711", same));
            assert!(matches!(lone.diagnostic(), Diagnostic::DuplicateId(_)), "{same} is 1");
            lone.still();
        }
        // A string is never a number.
        let second = lone.take(&ask(modern_era, "1"));
        lone.feed(ask(modern_era, 4_711).to_string().replace("4711", r#""\u0031""#));
        assert!(matches!(lone.diagnostic(), Diagnostic::DuplicateId(_)));
        assert_eq!(lone.complete(second.id(), &nothing())["id"], "1");
        assert_eq!(lone.complete(first.id(), &nothing())["id"], 1);
    });
}

// covers: BASE-005, BASE-006, BASE-033
#[test]
fn an_id_in_flight_used_twice_is_answered_once() {
    every_era(|lone, modern_era| {
        let first = lone.take(&ask(modern_era, "same"));
        lone.tell(&ask(modern_era, "same"));
        match lone.diagnostic() {
            Diagnostic::DuplicateId(id) => assert_eq!(id.to_string(), "\"same\""),
            other => panic!("{other:?}"),
        }
        lone.still();
        assert_eq!(lone.complete(first.id(), &nothing())["id"], "same");
        lone.still();
        // Once answered, the id may come again.
        let again = lone.take(&ask(modern_era, "same"));
        assert_ne!(again.id(), first.id());
        lone.complete(again.id(), &nothing());
    });
}

// covers: BASE-033, STDIO-010
#[test]
fn calls_are_answered_in_any_order() {
    every_era(|lone, modern_era| {
        let requests: Vec<_> = (0..10).map(|i| ask(modern_era, i)).collect();
        lone.tell_all(&requests);
        let calls: Vec<_> = (0..10).map(|_| lone.call()).collect();
        for i in [7, 2, 9, 0, 1, 8, 3, 6, 4, 5] {
            assert_eq!(lone.complete(calls[i].id(), &nothing())["id"], i);
        }
    });
}

// covers: BASE-009, BASE-016, PROG-011
#[test]
fn keys_of_calls_that_are_over_are_refused() {
    every_era(|lone, modern_era| {
        let done = lone.take(&ask(modern_era, 1)).id();
        lone.complete(done, &nothing());
        let failed = lone.take(&ask(modern_era, 2)).id();
        lone.fail(failed, &RpcError::new(7, "no"));
        let cancelled = lone.take(&ask(modern_era, 3));
        lone.tell(&note("notifications/cancelled", json!({"requestId": 3})));
        lone.cancelled(&cancelled);
        // Another call may have taken a place over; it is never hit.
        let live = lone.take(&ask(modern_era, 4));
        for key in [done, failed, cancelled.id()] {
            let now = lone.now;
            let engine = lone.pipe.engine();
            assert_eq!(engine.complete(now, key, &nothing()), Err(UseError::Stale));
            assert_eq!(engine.complete_raw(now, key, &raw(&nothing())), Err(UseError::Stale));
            assert_eq!(engine.fail(now, key, &RpcError::new(7, "no")), Err(UseError::Stale));
            assert_eq!(engine.progress(now, key, Progress::new(1.0)).map(|_| ()), Err(UseError::Stale));
            lone.still();
        }
        assert_eq!(lone.complete(live.id(), &nothing())["id"], 4);
    });
}

// covers: BASE-010, STDIO-003, ERR-019
#[test]
fn an_answer_that_cannot_be_written_leaves_the_call_open() {
    every_era(|lone, modern_era| {
        let call = lone.take(&ask(modern_era, 1));
        for wrong in [json!([1]), json!("text"), json!(null), json!(1)] {
            let refused = lone.pipe.engine().complete(lone.now, call.id(), &wrong);
            assert!(matches!(refused, Err(UseError::Encode(_))), "{wrong}");
            let refused = lone.pipe.engine().complete_raw(lone.now, call.id(), &raw(&wrong));
            assert!(matches!(refused, Err(UseError::Encode(_))), "{wrong}");
            lone.still();
        }
        // Text with line breaks, inside strings or between members, goes out on one line.
        let pretty = "{\n  \"content\": [\r\n {\"type\": \"text\", \"text\": \"a\\nb\"}]\n}";
        let pretty = mcp_proto::RawJson::new(pretty).expect("JSON");
        lone.pipe.engine().complete_raw(lone.now, call.id(), &pretty).expect("open");
        assert_eq!(lone.reply()["result"]["content"][0]["text"], "a\nb");
    });
}

// covers: STDIO-003, BASE-026, META-018
#[test]
fn large_answers_are_the_same_messages() {
    every_era(|lone, modern_era| {
        let text = "0123456789abcde\n".repeat(3_000);
        let result = json!({"content": [{"type": "text", "text": text}]});
        let mut sent = Vec::new();
        for as_text in [true, false] {
            let call = lone.take(&ask(modern_era, "big"));
            if as_text {
                lone.pipe.engine().complete_raw(lone.now, call.id(), &raw(&result)).expect("open");
                sent.push(lone.reply());
            } else {
                sent.push(lone.complete(call.id(), &result));
            }
        }
        assert_eq!(sent[0], sent[1]);
        assert_eq!(sent[0]["result"]["content"][0]["text"], text.as_str());
    });
}

// covers: ERR-018, ERR-001
#[test]
fn parameters_of_a_tool_call_that_do_not_fit_have_an_error_ready() {
    for params in [
        json!({}),
        json!({"name": 1}),
        json!({"name": null}),
        json!({"name": "a", "arguments": []}),
        json!({"name": "a", "arguments": null}),
    ] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            let call = lone.take(&modern(1, "tools/call", params.clone()));
            let error = call.tool().expect_err("wrong");
            assert_eq!(lone.fail(call.id(), &error)["error"]["code"], -32602, "{params}");
            lone.transcript
        });
    }
    let mut lone = dual(Chunker::Whole);
    let call = lone.take(&modern(1, "tools/call", json!({"name": "add", "arguments": {"a": "one"}})));
    let error = call
        .tool()
        .expect("a name")
        .parse::<alloc::collections::BTreeMap<String, i64>>()
        .expect_err("no number");
    assert_eq!(error.code, -32602);
    assert!(error.message.contains("arguments"), "{error}");
}

// covers: ERR-019, CANC-010
#[test]
fn a_call_that_is_never_answered_ends_by_its_age() {
    let config = || server(VersionSet::ALL).limits(limits(|l| l.max_call_age = secs(90)));
    for modern_era in [true, false] {
        each_cut(|cut| {
            let mut lone = LoneServer::server(config(), cut);
            if !modern_era {
                lone.open(Version::V2025_06_18);
            }
            let call = lone.take(&ask(modern_era, 1));
            lone.pass(ms(89_999));
            lone.still();
            lone.pass(ms(1));
            assert_eq!(lone.cancelled(&call), CancelReason::TooOld);
            let error = &lone.reply()["error"];
            assert_eq!(error["code"], -32603);
            assert_eq!(lone.pipe.engine().complete(lone.now, call.id(), &nothing()), Err(UseError::Stale));
            let call = lone.take(&ask(modern_era, 1));
            lone.complete(call.id(), &nothing());
            lone.pass(secs(200));
            lone.still();
            lone.transcript
        });
    }
}

// covers: STDIO-028, CANC-010
#[test]
fn calls_in_work_get_some_time_when_the_input_ends() {
    every_era(|lone, modern_era| {
        let first = lone.take(&ask(modern_era, 1));
        let second = lone.take(&ask(modern_era, 2));
        let third = lone.take(&ask(modern_era, 3));
        lone.eof();
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.complete(first.id(), &nothing())["id"], 1);
        lone.pass(ms(3_999));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.cancelled(&second), CancelReason::Disconnected);
        assert_eq!(lone.cancelled(&third), CancelReason::Disconnected);
        assert_eq!(lone.closed(), Fault::Eof);
        lone.still();
        lone.pass(secs(100));
        lone.still();
    });
}

// covers: STDIO-028
#[test]
fn requests_that_wait_when_the_time_is_over_are_never_seen() {
    let limits = limits(|l| l.max_live_calls = 1);
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::ALL).limits(limits.clone()), cut);
        let first = lone.take(&ask(true, 1));
        lone.tell_all(&[ask(true, 2), ask(true, 3)]);
        lone.eof();
        lone.still();
        lone.pass(secs(5));
        assert_eq!(lone.cancelled(&first), CancelReason::Disconnected);
        assert_eq!(lone.closed(), Fault::Eof);
        lone.pass(secs(10_000));
        lone.still();
        lone.transcript
    });
    // Those that find a place in time are served.
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::ALL).limits(limits.clone()), cut);
        let first = lone.take(&ask(true, 1));
        lone.tell_all(&[ask(true, 2), ask(true, 3)]);
        lone.eof();
        assert_eq!(lone.complete(first.id(), &nothing())["id"], 1);
        for id in [2, 3] {
            let call = lone.call();
            assert_eq!(lone.complete(call.id(), &nothing())["id"], id);
        }
        assert_eq!(lone.closed(), Fault::Eof);
        lone.transcript
    });
}

// covers: STDIO-028, STDIO-021, STDIO-022
#[test]
fn a_shutdown_answers_what_is_in_work_and_takes_nothing_more() {
    every_era(|lone, modern_era| {
        let first = lone.take(&ask(modern_era, 1));
        let second = lone.take(&ask(modern_era, 2));
        lone.pipe.shutdown(lone.now, secs(3));
        lone.tell(&ask(modern_era, 3));
        lone.still();
        assert_eq!(lone.complete(first.id(), &nothing())["id"], 1);
        lone.pass(secs(3));
        assert_eq!(lone.cancelled(&second), CancelReason::Shutdown);
        assert_eq!(lone.reply()["error"]["code"], -32603);
        assert_eq!(lone.closed(), Fault::Closed);
        let now = lone.now;
        assert_eq!(lone.pipe.engine().complete(now, second.id(), &nothing()), Err(UseError::Stale));
    });
    // Without calls it is over at once.
    let mut lone = dual(Chunker::Whole);
    lone.pipe.shutdown(lone.now, secs(3));
    assert_eq!(lone.closed(), Fault::Closed);
}

// covers: STDIO-028, CANC-010
#[test]
fn an_abort_drops_everything_at_once() {
    every_era(|lone, modern_era| {
        let first = lone.take(&ask(modern_era, 1));
        lone.pipe.abort(lone.now, &Fault::Closed);
        assert_eq!(lone.cancelled(&first), CancelReason::Disconnected);
        assert_eq!(lone.closed(), Fault::Closed);
        lone.silent();
    });
}

// covers: STDIO-028, LIFE-006, STDIO-014, BASE-019
#[test]
fn commands_at_the_wrong_time_are_refused_and_change_nothing() {
    let mut lone = dual(Chunker::Whole);
    let channel = lone.pipe.channel();
    let request = |lone: &mut LoneServer, method: &str| {
        lone.pipe.engine().request(lone.now, channel, method, &json!({}), &CallOptions::new())
    };
    // No session: a modern client is never asked.
    lone.works();
    for method in ["ping", "harbor/name"] {
        assert_eq!(request(&mut lone, method), Err(UseError::NotReady));
    }
    lone.tell(&mcp_tests::harness::build::initialize(0, "2025-11-25"));
    lone.reply();
    // Before `initialized` only ping is allowed.
    assert_eq!(request(&mut lone, "harbor/name"), Err(UseError::NotReady));
    request(&mut lone, "ping").expect("allowed");
    lone.reply();
    lone.tell(&note("notifications/initialized", Value::Null));
    request(&mut lone, "harbor/name").expect("allowed");
    lone.reply();
    for method in ["sampling/createMessage", "tools/call", "initialize"] {
        assert_eq!(request(&mut lone, method), Err(UseError::NotYours(method.into())));
    }
    for method in ["notifications/cancelled", "notifications/message", "ping"] {
        let refused = lone.pipe.engine().notify(lone.now, channel, method, None::<&()>);
        assert_eq!(refused, Err(UseError::NotYours(method.into())));
    }
    lone.said();
    lone.eof();
    let said = lone.said();
    assert!(
        said.iter().filter(|s| s.starts_with("done")).count() == 2
            && said.last().is_some_and(|s| s == "closed: Eof")
    );
    assert_eq!(request(&mut lone, "ping"), Err(UseError::Closed));
    assert_eq!(
        lone.pipe.engine().notify(lone.now, channel, "notifications/x", None::<&()>),
        Err(UseError::Closed)
    );
    lone.still();
}

// covers: STDIO-028, LIFE-020
#[test]
fn requests_to_a_client_that_is_gone_end() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = dual(cut);
            lone.open(version);
            let channel = lone.pipe.channel();
            let options = CallOptions::new();
            let key =
                lone.pipe.engine().request(lone.now, channel, "ping", &json!({}), &options).expect("open");
            lone.reply();
            lone.eof();
            match lone.event() {
                mcp_proto::server::Event::Done { call, outcome } => {
                    assert_eq!((call, outcome), (key, Err(CallError::Closed(Fault::Eof))));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(lone.closed(), Fault::Eof);
            lone.transcript
        });
    }
}
