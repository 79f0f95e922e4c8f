//! Answers that a server did not ask for, or not like this: none of them does harm, and what was asked stays open.

use mcp_proto::model::{InputRequest, InputRequests};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, Event};
use mcp_proto::{Anchor, CallError, Capabilities, Capability, Diagnostic, UseError, Version, VersionSet};
use mcp_tests::harness::build::{legacy, modern_with, result, value};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{limits, secs, server};

const NEWEST: Version = Version::V2025_11_25;

fn config() -> server::Config {
    server(VersionSet::ALL).capabilities(Capabilities::new().with(Capability::Tools))
}

fn session(config: server::Config, cut: Chunker) -> LoneServer {
    let mut lone = LoneServer::server(config, cut);
    lone.open_with(NEWEST, &json!({"roots": {}}));
    lone
}

fn roots<S: AsRef<str>>(keys: impl IntoIterator<Item = S>) -> InputRequests<'static> {
    let mut requests = InputRequests::new();
    for key in keys {
        requests.insert(key.as_ref(), InputRequest::ListRoots(None));
    }
    requests
}

/// A call that waits for two answers, and the requests for them
fn waiting(lone: &mut LoneServer, id: i64) -> Vec<Value> {
    let call = lone.take(&legacy(id, "tools/call", json!({"name": "book"})));
    lone.need_input(&call, &roots(["a", "b"]), b"").expect("it may be asked");
    lone.sent()
}

fn found(uri: &str) -> Value {
    json!({"roots": [{"uri": uri}]})
}

fn answer(call: &Call, key: &str) -> Value {
    value(call.answer(key).expect("an answer").expect("a result"))
}

fn late(lone: &mut LoneServer, message: &Value) {
    lone.tell(message);
    assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)), "{message}");
    lone.still();
}

#[test]
fn the_first_answer_counts_and_a_second_one_is_late() {
    each_cut(|cut| {
        let mut lone = session(config(), cut);
        let asked = waiting(&mut lone, 1);
        lone.tell(&result(&asked[0], found("file:///first")));
        // While the other question is open, while the call is in work again, and after its end.
        late(&mut lone, &result(&asked[0], found("file:///second")));
        lone.tell(&result(&asked[1], found("file:///b")));
        let call = lone.call();
        assert_eq!(answer(&call, "a"), found("file:///first"));
        for again in &asked {
            late(&mut lone, &result(again, found("file:///third")));
            late(
                &mut lone,
                &json!({"jsonrpc": "2.0", "id": again["id"], "error": {"code": 1, "message": "no"}}),
            );
        }
        lone.complete(call.id(), &json!({"content": []}));
        late(&mut lone, &result(&asked[1], found("file:///fourth")));
        lone.works();
        lone.transcript
    });
}

#[test]
fn answers_to_nothing_are_told_and_change_nothing() {
    each_cut(|cut| {
        let mut lone = session(config(), cut);
        let asked = waiting(&mut lone, 77);
        for id in [json!("s1"), json!(-1), json!(999_999), json!(1.5), json!("")] {
            let stray = json!({"jsonrpc": "2.0", "id": id, "result": found("file:///stray")});
            lone.tell(&stray);
            let diagnostic = lone.diagnostic();
            let odd = matches!(diagnostic, Diagnostic::UnknownResponse(_) | Diagnostic::Malformed { .. });
            assert!(odd, "{id}: {diagnostic:?}");
            lone.still();
        }
        // The id of the client's own request is no question of the server's.
        lone.tell(&json!({"jsonrpc": "2.0", "id": 77, "result": found("file:///own")}));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownResponse(_)));
        for ask in &asked {
            lone.tell(&result(ask, found("file:///x")));
        }
        let call = lone.call();
        assert_eq!((answer(&call, "a"), answer(&call, "b")), (found("file:///x"), found("file:///x")));
        lone.complete(call.id(), &json!({"content": []}));
        lone.works();
        lone.transcript
    });
}

// covers: BASE-017
#[test]
fn a_response_that_is_none_ends_its_question_alone() {
    for odd in [
        json!({"result": 7}),
        json!({"result": null}),
        json!({"result": []}),
        json!({"result": "x"}),
        json!({"error": 7}),
        json!({"error": {"code": "x", "message": "m"}}),
        json!({"result": {}, "error": {"code": 1, "message": "m"}}),
    ] {
        each_cut(|cut| {
            let mut lone = session(config(), cut);
            let asked = waiting(&mut lone, 1);
            let mut wrong = json!({"jsonrpc": "2.0", "id": asked[0]["id"]});
            wrong.as_object_mut().expect("an object").extend(odd.as_object().expect("members").clone());
            lone.tell(&wrong);
            lone.silent();
            let said = lone.said();
            assert!(said.iter().all(|line| line.starts_with("diagnostic")), "{odd}: {said:?}");
            lone.tell(&result(&asked[1], found("file:///b")));
            let call = lone.call();
            assert!(
                matches!(call.answer("a"), Some(Err(CallError::Malformed(_)))),
                "{odd}: {:?}",
                call.answer("a")
            );
            assert_eq!(answer(&call, "b"), found("file:///b"));
            lone.transcript
        });
    }
}

#[test]
fn no_more_is_asked_at_once_than_answers_are_taken() {
    let few = || config().limits(limits(|l| l.max_inputs = 8));
    let many = roots((0..9).map(|n| format!("q{n}")));
    let most = roots((0..8).map(|n| format!("q{n}")));
    let everything = json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}});
    let mut lone = session(few(), Chunker::Whole);
    for request in [
        legacy(1, "tools/call", json!({"name": "book"})),
        modern_with(2, "tools/call", json!({"name": "book"}), &everything),
    ] {
        let call = lone.take(&request);
        assert_eq!(lone.need_input(&call, &many, b""), Err(UseError::Full("max_inputs")));
        lone.silent();
        assert_eq!(lone.need_input(&call, &most, b""), Ok(()));
        lone.sent();
    }
}

// covers: BASE-033
#[test]
fn ten_thousand_calls_that_wait_are_bounded_and_all_of_them_end() {
    let config = config().limits(limits(|l| l.max_pending_calls = 100));
    let mut lone = session(config, Chunker::Whole);
    let mut open = Vec::new();
    let mut refused = 0;
    for id in 0..10_000 {
        let call = lone.take(&legacy(id, "tools/call", json!({"name": "book"})));
        match lone.need_input(&call, &roots(["a"]), b"") {
            Ok(()) => open.push(lone.reply()),
            Err(error) => {
                assert_eq!(error, UseError::Full("max_pending_calls"));
                refused += 1;
                // It is as it was: it can be answered.
                lone.complete(call.id(), &json!({"content": []}));
            }
        }
    }
    assert_eq!((open.len(), refused), (100, 9_900));
    for (n, ask) in open.iter().enumerate() {
        lone.tell(&result(ask, found("file:///x")));
        let call = lone.call();
        assert_eq!(lone.complete(call.id(), &json!({"content": []}))["id"], n);
    }
    lone.works();
    assert_eq!(lone.pipe.engine().live_calls(), 0);
}

// covers: MRTR-025
#[test]
fn ten_thousand_modern_calls_that_wait_are_nowhere() {
    let seals = config()
        .seal(Keys::new([7; 32]), Anchor::default())
        .limits(limits(|l| (l.max_live_calls, l.max_pending_calls) = (1, 1)));
    let mut lone = LoneServer::server(seals, Chunker::Whole);
    let everything = json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}});
    let request = |id: u32, params: Value| modern_with(id, "tools/call", params, &everything);
    let mut last = Value::Null;
    for id in 0..10_000 {
        let call = lone.take(&request(id, json!({"name": "book"})));
        lone.need_input(&call, &roots(["a"]), b"x").expect("it may be asked");
        last = lone.reply()["result"]["requestState"].clone();
        assert_eq!(lone.pipe.engine().live_calls(), 0);
    }
    // Whether any of them comes back is the client's affair.
    let more = json!({"name": "book", "requestState": last, "inputResponses": {"a": {"roots": []}}});
    let call = lone.take(&request(10_000, more));
    assert_eq!((call.attempt(), call.state()), (1, Some(&b"x"[..])));
    lone.complete(call.id(), &json!({"content": []}));
    lone.pass(secs(7_200));
    lone.still();
}

// covers: CANC-010, CANC-013
#[test]
fn answers_to_a_call_that_was_given_up_are_late() {
    each_cut(|cut| {
        let mut lone = session(config(), cut);
        let asked = waiting(&mut lone, 1);
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        lone.tell(&cancel);
        lone.sent();
        for ask in &asked {
            late(&mut lone, &result(ask, found("file:///x")));
        }
        // And what the handler was told when it gave no answer in time is an error that says so.
        let asked = waiting(&mut lone, 2);
        lone.tell(&result(&asked[0], found("file:///x")));
        lone.pass(secs(3_601));
        let call = loop {
            match lone.event() {
                Event::Call(call) => break call,
                Event::Diagnostic { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(call.answer("b"), Some(Err(CallError::TotalTimedOut | CallError::TimedOut))));
        lone.transcript
    });
}
