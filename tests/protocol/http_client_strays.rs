//! Over HTTP: what servers, proxies and gateways do that they should not, and calls that end at the wrong moment.

use mcp_proto::client::Event;
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Diagnostic, Era, Fault, HttpError, Version, VersionSet,
};
use mcp_tests::harness::build::{LEGACY, error, initialized, legacy, note, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs};

const V: Version = Version::V2025_11_25;
const JSON: &str = "application/json";
const BOM: &str = "\u{feff}";

fn lone(cut: Chunker) -> LoneHttp {
    let config = client(VersionSet::ALL)
        .capabilities(Capabilities::new().with(Capability::Elicitation).with(Capability::Roots));
    LoneHttp::new(config, LoneHttp::http(), cut)
}

fn modern(cut: Chunker) -> LoneHttp {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), cut);
    lone.with_modern(json!({"tools": {}}));
    lone
}

fn can() -> Value {
    json!({"tools": {}, "logging": {}, "resources": {"subscribe": true}})
}

fn once() -> CallOptions {
    CallOptions::new()
}

fn answer() -> Value {
    json!({"content": []})
}

fn http(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => *error,
        other => panic!("{other:?}"),
    }
}

fn told(diagnostic: Diagnostic) -> String {
    match diagnostic {
        Diagnostic::Http(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The answer to the `initialize` of another session, up to its GET
fn renews(lone: &mut LoneHttp, init: &Asked, session: &str) -> Asked {
    assert_eq!(init.body["method"], "initialize");
    let body = result(&init.body, initialized(V.as_str(), can())).to_string();
    let fields = [("Content-Type", JSON), ("Mcp-Session-Id", session)];
    lone.answer_with(init.id, 200, &fields, &body);
    let said = lone.posted("notifications/initialized");
    lone.status(said.id, 202);
    let get = lone.asked();
    assert_eq!((get.method, get.field("mcp-session-id")), ("GET", Some(session)));
    get
}

// ---- calls that ended before they were sent ------------------------------------------------------------------

// covers: HTTP-063, CANC-003, TIME-002 (a request that was not sent is not cancelled)
#[test]
fn what_ended_before_it_was_sent_is_never_executed() {
    for how in ["cancelled", "overdue"] {
        for version in LEGACY {
            let mut lone = lone(Chunker::Whole);
            let said = lone.to_legacy(version, Some("s"), can());
            let key = lone.call("tools/call", &json!({"name": "wave"}), &once().timeout(secs(1)));
            let other = lone.call("tools/list", &json!({}), &once());
            lone.silent();
            if how == "cancelled" {
                lone.client.engine().cancel(lone.now, key, None).expect("a call");
                assert_eq!(lone.done(key), Err(CallError::Cancelled));
            } else {
                lone.pass(secs(1));
                assert_eq!(lone.done(key), Err(CallError::TimedOut));
            }
            lone.status(said.id, 202);
            let get = lone.asked();
            lone.status(get.id, 405);
            // Neither the call nor its cancellation: the server has heard of none.
            let list = lone.posted("tools/list");
            lone.json(list.id, 200, &result(&list.body, json!({"tools": []})));
            assert!(lone.done(other).is_ok());
            lone.still();
            // One that the server has heard of is cancelled.
            let (key, asked) = lone.waves(&once());
            lone.client.engine().cancel(lone.now, key, None).expect("a call");
            assert_eq!(lone.done(key), Err(CallError::Cancelled));
            let said = lone.posted("notifications/cancelled");
            assert_eq!(said.body["params"]["requestId"], asked.body["id"]);
            assert_eq!(lone.aborted(), asked.id);
        }
    }
    let mut lone = modern(Chunker::Whole);
    let engine = lone.client.engine();
    let key = engine.call_tool(lone.now, "wave", &json!({}), &once()).expect("a call");
    engine.cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    lone.still();
}

// covers: HTTP-072, CANC-003
#[test]
fn a_call_that_is_cancelled_while_there_is_no_session_is_not_sent_again() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    let init = lone.asked();
    lone.aborted();
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    lone.still();
}

// covers: HTTP-088
#[test]
fn a_call_that_is_cancelled_while_it_is_held_is_not_told_of() {
    let config = LoneHttp::http().asks_for_credentials(true);
    let mut lone = LoneHttp::new(client(VersionSet::LEGACY), config, Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 401);
    lone.challenged();
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    lone.still();
    // Nor while it is on its way again.
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 401);
    let challenge = lone.challenged();
    let token = mcp_proto::http::client::Credential::bearer("x").expect("a token");
    lone.client.authorize(lone.now, challenge.exchange, token).expect("it was asked");
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    lone.still();
}

// covers: MRTR-013, TIME-006, HTTP-088
#[test]
fn a_repeat_that_is_held_has_the_time_of_its_call() {
    for how in ["a round", "lost"] {
        let config = LoneHttp::http().asks_for_credentials(true);
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), config, Chunker::Whole);
        lone.with_modern(json!({"tools": {}}));
        let (key, asked) = lone.waves(&once().repeatable());
        if how == "lost" {
            lone.breaks(asked.id);
            lone.pass(secs(1));
        } else {
            let needs = json!({"resultType": "input_required", "requestState": "x"});
            lone.json(asked.id, 200, &result(&asked.body, needs));
        }
        let again = lone.posted("tools/call");
        lone.status(again.id, 401);
        let challenge = lone.challenged();
        // People take their time.
        lone.pass(secs(1_800));
        lone.still();
        let token = mcp_proto::http::client::Credential::bearer("x").expect("a token");
        lone.client.authorize(lone.now, challenge.exchange, token).expect("it was asked");
        lone.posted("tools/call");
        // What was left of it is left.
        lone.pass(secs(59));
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.done(key), Err(CallError::TimedOut), "{how}");
        lone.aborted();
    }
}

// ---- going on with streams -----------------------------------------------------------------------------------

// covers: SSE-021, HTTP-022
#[test]
fn a_resumed_call_may_be_answered_in_json() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.with_legacy(V, Some("s"), can());
        let primed = |lone: &mut LoneHttp| {
            let (key, asked) = lone.waves(&once());
            lone.stream(asked.id);
            lone.body(asked.id, "id: 1\ndata:\n\n");
            lone.end(asked.id);
            lone.pass(secs(1));
            let get = lone.asked();
            assert_eq!((get.method, get.field("last-event-id")), ("GET", Some("1")));
            (key, asked, get)
        };
        let (key, asked, get) = primed(&mut lone);
        lone.json(get.id, 200, &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        for other in ["{}", "[]", "null", r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#] {
            let (key, _, get) = primed(&mut lone);
            lone.answer(get.id, 200, JSON, other);
            lone.odd();
            assert!(matches!(http(lone.done(key)), HttpError::Lost { .. }), "{other}");
            // What could not be read is answered with an error (DEC-004).
            for told in lone.all_asked() {
                assert!(told.body["error"].is_object(), "{told:?}");
                lone.status(told.id, 202);
            }
        }
        lone.still();
        lone.transcript
    });
}

// covers: SSE-026
#[test]
fn a_stream_that_was_good_once_is_not_asked_for_again_for_ever() {
    let mut lone = lone(Chunker::Whole);
    let mut get = lone.with_stream(V, None, can());
    lone.event(get, "1", &note("x/y", Value::Null));
    assert!(matches!(lone.next_event(), Event::Notification(_)));
    lone.breaks(get);
    for pause in [1, 2, 4, 8, 16] {
        lone.pass(secs(pause) - ms(1));
        lone.still();
        lone.pass(ms(1));
        get = lone.asked().id;
        lone.unreachable(get);
    }
    let text = told(lone.diagnosed());
    assert!(text.contains("not opened again") && text.contains("connection refused"), "{text}");
    lone.pass(secs(1_000));
    lone.still();
    // Nor is that of a call.
    let (key, asked) = lone.waves(&once());
    lone.stream(asked.id);
    lone.event(asked.id, "1", &note("x/y", Value::Null));
    assert!(matches!(lone.next_event(), Event::Notification(_)));
    lone.breaks(asked.id);
    for pause in [1, 2, 4, 8, 16] {
        lone.pass(secs(pause) - ms(1));
        lone.still();
        lone.pass(ms(1));
        let get = lone.asked().id;
        lone.unreachable(get);
    }
    assert!(matches!(http(lone.done(key)), HttpError::Lost { .. }));
}

// covers: SSE-021
#[test]
fn a_server_that_has_not_seen_that_a_stream_broke_is_asked_again() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once());
    lone.stream(asked.id);
    lone.body(asked.id, "id: 1\ndata:\n\n");
    lone.breaks(asked.id);
    for pause in [1, 2] {
        lone.pass(secs(pause));
        let get = lone.asked();
        assert_eq!(get.field("last-event-id"), Some("1"));
        lone.status(get.id, 409);
    }
    lone.pass(secs(4));
    let get = lone.asked();
    lone.stream(get.id);
    lone.event(get.id, "2", &result(&asked.body, answer()));
    assert_eq!(lone.done(key), Ok(answer()));
}

// covers: SSE-021, HTTP-044
#[test]
fn an_error_in_the_body_of_a_passing_trouble_changes_nothing() {
    let trouble = |status: u16, asked: &Asked, lone: &mut LoneHttp| {
        let body = error(&json!({"id": null}), -32603, "in a moment", Value::Null).to_string();
        lone.answer(asked.id, status, JSON, &body);
    };
    for status in [408, 429, 500, 502, 503, 504] {
        let mut lone = lone(Chunker::Whole);
        let get = lone.with_stream(V, None, can());
        lone.breaks(get);
        lone.pass(secs(1));
        let get = lone.asked();
        trouble(status, &get, &mut lone);
        lone.pass(secs(2));
        let get = lone.asked();
        lone.stream(get.id);
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.body(asked.id, "id: 1\ndata:\n\n");
        lone.breaks(asked.id);
        lone.pass(secs(1));
        let get = lone.asked();
        trouble(status, &get, &mut lone);
        lone.pass(secs(2));
        let get = lone.asked();
        lone.stream(get.id);
        lone.event(get.id, "2", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        // A call, too, where that says that it was not made; otherwise the error is its outcome.
        let (key, asked) = lone.waves(&once().repeatable());
        trouble(status, &asked, &mut lone);
        if matches!(status, 408 | 429 | 503) {
            lone.pass(secs(1));
            let again = lone.posted("tools/call");
            lone.json(again.id, 200, &result(&again.body, answer()));
            assert_eq!(lone.done(key), Ok(answer()));
        } else {
            assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32603));
        }
        lone.still();
    }
}

// covers: HTTP-049 (nothing is followed where nothing is said)
#[test]
fn who_would_follow_a_server_that_says_nothing_unasked_is_told() {
    for status in [400, 401, 404, 405] {
        let mut lone = lone(Chunker::Whole);
        let initialized = lone.to_legacy(V, None, json!({"tools": {"listChanged": true}}));
        lone.status(initialized.id, 202);
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let early = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
        assert!(matches!(lone.next_event(), Event::Subscribed { key, .. } if key == early));
        let get = lone.asked();
        lone.status(get.id, status);
        let ends = |lone: &mut LoneHttp, followed| match lone.next_event() {
            Event::SubscriptionEnded { key, error: Some(error), .. } => {
                assert!(key == followed && error.to_string().contains(&status.to_string()), "{error}");
            }
            other => panic!("the end of the subscription, not {other:?}"),
        };
        ends(&mut lone, early);
        // And so is who comes later.
        let late = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
        assert!(matches!(lone.next_event(), Event::Subscribed { key, .. } if key == late));
        ends(&mut lone, late);
        // Calls do not care.
        let (key, asked) = lone.waves(&once());
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.still();
    }
}

// covers: SSE-026, HTTP-049 (405 to one that was open)
#[test]
fn who_is_asked_to_wait_waits_and_a_refusal_is_the_end() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, None, json!({"tools": {"listChanged": true}}));
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    let followed = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    assert!(matches!(lone.next_event(), Event::Subscribed { key, .. } if key == followed));
    lone.breaks(get);
    lone.pass(secs(1));
    let get = lone.asked();
    lone.answer_with(get.id, 503, &[("Retry-After", "7")], "");
    lone.pass(secs(7) - ms(1));
    lone.still();
    lone.pass(ms(1));
    let get = lone.asked();
    lone.status(get.id, 405);
    // Whoever waits for changes is told, and not left to wait.
    match lone.next_event() {
        Event::SubscriptionEnded { key, error: Some(error), .. } => {
            assert!(key == followed && error.to_string().contains("405"), "{error}");
        }
        other => panic!("the end of the subscription, not {other:?}"),
    }
    let text = told(lone.diagnosed());
    assert!(text.contains("405"), "{text}");
    lone.pass(secs(1_000));
    lone.still();
}

// covers: SSE-014 (broken), SSE-021
#[test]
fn an_id_that_a_server_uses_twice_hides_nothing() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.with_legacy(V, None, can());
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        for id in ["a", "b"] {
            lone.event(asked.id, id, &note("x/y", Value::Null));
            assert!(matches!(lone.next_event(), Event::Notification(_)));
        }
        lone.event(asked.id, "a", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.transcript
    });
}

// covers: SSE-001 (whatever its length)
#[test]
fn a_long_event_of_another_type_is_nothing() {
    each_cut(|cut| {
        let config = client(VersionSet::MODERN).limits(limits(|l| l.max_frame = 1_000));
        let mut lone = LoneHttp::new(config, LoneHttp::http(), cut);
        lone.with_modern(json!({"tools": {}}));
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        let long = "x".repeat(2_000);
        lone.body(asked.id, format!("event: other\ndata: {{\"id\":1,\"result\":\"{long}\"}}\n\n"));
        lone.still();
        let done = json!({"resultType": "complete", "content": []});
        lone.event(asked.id, "", &result(&asked.body, done.clone()));
        assert_eq!(lone.done(key), Ok(done));
        lone.transcript
    });
}

// covers: HTTP-051 (broken)
#[test]
fn the_exchange_of_a_call_that_is_answered_elsewhere_is_left() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, None, can());
        for streams in [false, true] {
            let (key, asked) = lone.waves(&once());
            if streams {
                lone.stream(asked.id);
            }
            lone.event(get, "", &result(&asked.body, answer()));
            assert_eq!(lone.done(key), Ok(answer()));
            lone.pass(secs(5));
            assert_eq!(lone.aborted(), asked.id, "nobody waits for it");
        }
        lone.still();
        lone.transcript
    });
}

// ---- sessions ------------------------------------------------------------------------------------------------

// covers: HTTP-072, SSE-023
#[test]
fn a_stream_of_the_old_session_is_not_gone_on_with_in_the_new_one() {
    for (options, again) in [(once(), false), (once().repeatable(), true)] {
        let mut lone = lone(Chunker::Whole);
        lone.with_stream(V, Some("one"), can());
        let (running, first) = lone.waves(&options);
        lone.stream(first.id);
        lone.body(first.id, "id: 1\ndata:\n\n");
        let (refused, second) = lone.waves(&once());
        lone.status(second.id, 404);
        let init = lone.asked();
        lone.aborted();
        let get = renews(&mut lone, &init, "two");
        lone.stream(get.id);
        let sent = lone.posted("tools/call");
        lone.json(sent.id, 200, &result(&sent.body, answer()));
        assert_eq!(lone.done(refused), Ok(answer()));
        lone.breaks(first.id);
        if again {
            lone.pass(secs(1));
            let sent = lone.posted("tools/call");
            assert_ne!(sent.body["id"], first.body["id"]);
        } else {
            assert_eq!(http(lone.done(running)), HttpError::SessionLost);
        }
        lone.pass(secs(10));
        lone.still();
    }
}

// covers: HTTP-072, SEC-016
#[test]
fn what_the_old_session_asks_is_not_answered_in_the_new_one() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let (running, first) = lone.waves(&once());
    lone.stream(first.id);
    let (_, second) = lone.waves(&once());
    lone.status(second.id, 404);
    let init = lone.asked();
    lone.aborted();
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    lone.posted("tools/call");
    // Both sessions count from 0.
    lone.event(first.id, "", &legacy(0, "roots/list", Value::Null));
    lone.event(first.id, "", &legacy(0, "ping", Value::Null));
    lone.still();
    lone.event(get.id, "", &legacy(0, "roots/list", Value::Null));
    assert!(matches!(lone.next_event(), Event::Input(_)));
    lone.event(first.id, "", &note("x/y", Value::Null));
    assert!(matches!(lone.next_event(), Event::Notification(_)));
    lone.event(first.id, "", &result(&first.body, answer()));
    assert_eq!(lone.done(running), Ok(answer()));
}

// covers: HTTP-072, SEC-016
#[test]
fn an_answer_that_was_not_sent_yet_goes_with_the_session() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, Some("one"), can());
    lone.client.engine().set_log_level(lone.now, Some(LoggingLevel::Error)).expect("logging");
    let level = lone.posted("logging/setLevel");
    // Nothing goes out until the level is known.
    lone.event(get, "", &legacy(0, "ping", Value::Null));
    lone.client.engine().notify(lone.now, "x/y", None::<&Value>).expect("a notification");
    lone.silent();
    lone.status(level.id, 404);
    let init = lone.asked();
    lone.aborted();
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    let said: Vec<Asked> = lone.all_asked();
    assert!(said.iter().all(|a| !a.body["method"].is_null()), "{said:?}");
    assert!(said.iter().any(|a| a.body["method"] == "x/y"), "{said:?}");
}

// covers: HTTP-072, HTTP-057
#[test]
fn what_is_said_before_the_answer_is_not_the_end_of_the_session() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.with_stream(V, Some("one"), can());
        let (key, asked) = lone.waves(&once());
        lone.status(asked.id, 404);
        let init = lone.asked();
        lone.aborted();
        let head = [("content-type", "text/event-stream"), ("mcp-session-id", "two")];
        lone.head(init.id, 200, &head);
        lone.event(init.id, "", &note("x/y", Value::Null));
        assert!(matches!(lone.next_event(), Event::Notification(_)));
        lone.event(init.id, "", &result(&init.body, initialized(V.as_str(), can())));
        lone.end(init.id);
        let said = lone.posted("notifications/initialized");
        // Nor does it end when the server does not care for being told.
        lone.status(said.id, 500);
        assert!(told(lone.diagnosed()).contains("500"));
        let get = lone.asked();
        lone.status(get.id, 405);
        let again = lone.posted("tools/call");
        assert_eq!(again.field("mcp-session-id"), Some("two"));
        lone.json(again.id, 200, &result(&again.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.transcript
    });
}

// covers: HTTP-072
#[test]
fn a_session_that_cannot_be_made_anew_says_why() {
    for status in [200, 400, 503] {
        let mut lone = lone(Chunker::Whole);
        lone.with_legacy(V, Some("one"), can());
        let (key, asked) = lone.waves(&once());
        lone.status(asked.id, 404);
        let init = lone.posted("initialize");
        lone.json(init.id, status, &error(&init.body, -32000, "no more of them", Value::Null));
        let text = told(lone.diagnosed());
        assert!(text.contains("no other session"), "{text}");
        assert!(status == 200 || text.contains("no more of them"), "{text}");
        assert_eq!(http(lone.done(key)), HttpError::SessionLost);
        lone.closed();
    }
}

// covers: HTTP-072
#[test]
fn a_client_that_only_listens_survives_its_server() {
    let mut lone = lone(Chunker::Whole);
    let mut get = lone.with_stream(V, Some("0"), can());
    let lose = |lone: &mut LoneHttp, get| {
        lone.breaks(get);
        lone.pass(secs(1));
        let again = lone.asked();
        lone.status(again.id, 404);
    };
    for round in 1..5 {
        lose(&mut lone, get);
        let init = lone.asked();
        let next = renews(&mut lone, &init, &round.to_string());
        lone.stream(next.id);
        get = next.id;
        lone.still();
        lone.pass(secs(600));
    }
    lose(&mut lone, get);
    let init = lone.asked();
    let next = renews(&mut lone, &init, "5");
    lone.stream(next.id);
    lose(&mut lone, next.id);
    assert!(matches!(lone.closed(), Fault::Http(e) if *e == HttpError::SessionLost));
}

// covers: HTTP-049, HTTP-072 (and only then)
#[test]
fn a_stream_that_never_was_is_no_session_that_ended() {
    for status in [404, 409] {
        let mut lone = lone(Chunker::Whole);
        let said = lone.to_legacy(V, Some("s"), can());
        lone.status(said.id, 202);
        let get = lone.asked();
        lone.status(get.id, 503);
        lone.pass(secs(1));
        let get = lone.asked();
        lone.status(get.id, status);
        lone.pass(secs(100));
        lone.silent();
    }
}

// covers: HTTP-072
#[test]
fn a_call_that_is_refused_late_waits_for_the_stream_too() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let (_, one) = lone.waves(&once());
    let (_, two) = lone.waves(&once());
    lone.status(one.id, 404);
    let init = lone.asked();
    lone.aborted();
    let get = renews(&mut lone, &init, "two");
    lone.status(two.id, 404);
    lone.silent();
    lone.stream(get.id);
    assert_eq!(lone.all_asked().len(), 2);
}

// covers: HTTP-072
#[test]
fn what_the_application_says_is_said_in_the_new_session() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, Some("one"), can());
    lone.client.engine().notify(lone.now, "x/y", None::<&Value>).expect("a notification");
    let said = lone.posted("x/y");
    // What belongs to the old session is not.
    lone.event(get, "", &legacy(0, "ping", Value::Null));
    let pong = lone.asked();
    lone.status(said.id, 404);
    let init = lone.asked();
    lone.aborted();
    lone.status(pong.id, 404);
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    let again = lone.posted("x/y");
    assert_eq!(again.field("mcp-session-id"), Some("two"));
    lone.status(again.id, 202);
    lone.still();
}

// covers: HTTP-072, SUB-015
#[test]
fn a_subscription_in_a_new_session_is_acknowledged_anew() {
    for refused in [false, true] {
        let mut lone = lone(Chunker::Whole);
        lone.with_stream(V, Some("one"), can());
        let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
        let key = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
        let asked = lone.posted("resources/subscribe");
        lone.json(asked.id, 200, &result(&asked.body, json!({})));
        assert!(matches!(lone.next_event(), Event::Subscribed { .. }));
        let (call, asked) = lone.waves(&once());
        lone.status(asked.id, 404);
        let init = lone.asked();
        lone.aborted();
        let get = renews(&mut lone, &init, "two");
        lone.stream(get.id);
        for asked in lone.all_asked() {
            if asked.body["method"] == "resources/subscribe" {
                if refused {
                    lone.status(asked.id, 500);
                } else {
                    lone.json(asked.id, 200, &result(&asked.body, json!({})));
                }
            } else {
                lone.json(asked.id, 200, &result(&asked.body, answer()));
                assert_eq!(lone.done(call), Ok(answer()));
            }
        }
        // News may have been lost: the application is to look.
        match lone.next_event() {
            Event::Subscribed { key: k, honoured } => {
                assert_eq!(k, key);
                assert_eq!(honoured.resource_subscriptions.is_some(), !refused);
            }
            other => panic!("{other:?}"),
        }
        lone.still();
    }
}

// covers: HTTP-072, LOG-004
#[test]
fn what_a_new_session_is_told_anyway_is_told_once() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
    lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    lone.client.engine().set_log_level(lone.now, Some(LoggingLevel::Error)).expect("logging");
    let asked = lone.all_asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    lone.status(asked[0].id, 404);
    let init = lone.asked();
    lone.aborted();
    lone.status(asked[1].id, 404);
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    let mut methods = Vec::new();
    for _ in 0..3 {
        for asked in lone.all_asked() {
            methods.push(asked.body["method"].as_str().unwrap_or_default().to_owned());
            lone.json(asked.id, 200, &result(&asked.body, json!({})));
        }
    }
    methods.sort();
    assert_eq!(methods, ["logging/setLevel", "resources/subscribe"]);
    assert!(matches!(lone.next_event(), Event::Subscribed { .. }));
    lone.still();
}

// covers: HTTP-072, RES-010
#[test]
fn a_subscription_that_goes_under_with_its_session_is_made_in_the_next() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
    lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    let asked = lone.posted("resources/subscribe");
    lone.stream(asked.id);
    lone.body(asked.id, "id: 1\ndata:\n\n");
    lone.end(asked.id);
    let (_, call) = lone.waves(&once());
    lone.status(call.id, 404);
    let init = lone.asked();
    lone.aborted();
    lone.still();
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    let mut asked = lone.all_asked();
    asked.retain(|a| a.body["method"] == "resources/subscribe");
    assert_eq!(asked.len(), 1, "{asked:?}");
    lone.still();
    lone.json(asked[0].id, 200, &result(&asked[0].body, json!({})));
    match lone.next_event() {
        Event::Subscribed { honoured, .. } => assert!(honoured.resource_subscriptions.is_some()),
        other => panic!("{other:?}"),
    }
    lone.still();
}

// ---- subscriptions -------------------------------------------------------------------------------------------

// covers: SUB-004, SUB-015
#[test]
fn a_subscription_that_only_ever_begins_is_asked_for_less_and_less() {
    let mut lone = modern(Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    let acknowledges = |lone: &mut LoneHttp| {
        let listen = lone.posted("subscriptions/listen");
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.body["id"]});
        lone.stream(listen.id);
        let told = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        lone.event(listen.id, "", &note("notifications/subscriptions/acknowledged", told));
        assert!(matches!(lone.next_event(), Event::Subscribed { .. }));
        (listen.id, meta)
    };
    for pause in [1, 2, 4, 8, 16, 16, 16, 16] {
        let (listen, _) = acknowledges(&mut lone);
        lone.end(listen);
        lone.pass(secs(pause) - ms(1));
        lone.still();
        lone.pass(ms(1));
    }
    let (listen, meta) = acknowledges(&mut lone);
    lone.event(listen, "", &note("notifications/tools/list_changed", json!({"_meta": meta})));
    assert!(matches!(lone.next_event(), Event::Changed { .. }));
    lone.end(listen);
    lone.pass(secs(1));
    // One that lived long is as good, though nothing happened.
    for _ in 0..3 {
        let (listen, _) = acknowledges(&mut lone);
        lone.pass(secs(60));
        lone.breaks(listen);
        lone.pass(secs(1));
    }
    acknowledges(&mut lone);
}

// ---- messages ------------------------------------------------------------------------------------------------

// covers: HTTP-019
#[test]
fn a_message_that_the_server_did_not_take_is_sent_again() {
    // What was not taken leaves the question open.
    let open = |lone: &mut LoneHttp, id: i64| {
        let ping = legacy(id, "ping", Value::Null).to_string();
        lone.watch.fed(lone.now, mcp_tests::schema::Direction::ServerToClient, ping.as_bytes());
    };
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, Some("s"), can());
        lone.event(get, "", &legacy(5, "ping", Value::Null));
        let said = lone.asked();
        lone.unreachable(said.id);
        lone.pass(secs(1) - ms(1));
        lone.still();
        open(&mut lone, 5);
        lone.pass(ms(1));
        let again = lone.asked();
        assert_eq!(again.body, said.body);
        lone.answer_with(again.id, 503, &[("Retry-After", "4")], "");
        lone.pass(secs(4) - ms(1));
        lone.still();
        open(&mut lone, 5);
        lone.pass(ms(1));
        let again = lone.asked();
        assert_eq!(again.body, said.body);
        // What may have been taken is not sent twice.
        lone.breaks(again.id);
        assert!(told(lone.diagnosed()).contains("not accepted"));
        lone.pass(secs(100));
        lone.still();
        // Nor is it tried without end.
        lone.event(get, "", &legacy(6, "ping", Value::Null));
        for pause in [1, 2, 4, 8, 16] {
            let said = lone.asked();
            lone.unreachable(said.id);
            open(&mut lone, 6);
            lone.pass(secs(pause));
        }
        let said = lone.asked();
        lone.unreachable(said.id);
        assert!(told(lone.diagnosed()).contains("not accepted"));
        lone.pass(secs(100));
        lone.still();
        lone.transcript
    });
}

// covers: HTTP-019, SEC-018
#[test]
fn messages_that_wait_to_be_taken_hold_nothing_up() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, Some("s"), can());
    for id in 0..200 {
        lone.event(get, "", &legacy(id, "ping", Value::Null));
        let pong = lone.asked();
        assert_eq!(pong.body["id"], id);
        let wait: &[(&str, &str)] = if id % 2 == 0 { &[] } else { &[("Retry-After", "999999999")] };
        lone.answer_with(pong.id, 503, wait, "");
    }
    // Those that would have to wait for long, and those that are too many, are given up.
    assert_eq!(lone.odd().len(), 200 - 64);
    let (key, asked) = lone.waves(&once());
    lone.json(asked.id, 200, &result(&asked.body, answer()));
    assert_eq!(lone.done(key), Ok(answer()));
    for id in 0..200 {
        let ping = legacy(id, "ping", Value::Null).to_string();
        lone.watch.fed(lone.now, mcp_tests::schema::Direction::ServerToClient, ping.as_bytes());
    }
    lone.pass(secs(1));
    let again = lone.all_asked();
    assert_eq!(again.len(), 64);
    for asked in again {
        lone.status(asked.id, 202);
    }
    lone.pass(secs(1_000));
    lone.still();
}

// covers: CANC-003, HTTP-014
#[test]
fn what_was_said_before_the_end_still_goes_out() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, Some("s"), can());
    lone.event(get, "", &legacy(7, "roots/list", Value::Null));
    let Event::Input(input) = lone.next_event() else { panic!("an input") };
    let engine = lone.client.engine();
    engine.call_tool(lone.now, "wave", &json!({}), &once()).expect("a call");
    engine.answer(lone.now, input.id, &json!({"roots": []})).expect("answered");
    engine.notify(lone.now, "x/y", None::<&Value>).expect("a notification");
    lone.client.close(lone.now);
    let said = lone.all_asked();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0].body["id"], 7);
    assert_eq!(said[1].body["method"], "x/y");
    assert_eq!(said[2].method, "DELETE");
    for asked in &said {
        assert_eq!(asked.field("mcp-session-id"), Some("s"));
        lone.status(asked.id, 202);
    }
    lone.aborted();
    assert!(matches!(lone.next_event(), Event::Done { .. }));
    lone.closed();
    assert!(lone.client.is_drained());

    let mut lone = modern(Chunker::Whole);
    lone.client.engine().notify(lone.now, "x/y", None::<&Value>).expect("a notification");
    lone.client.close(lone.now);
    let said = lone.posted("x/y");
    lone.status(said.id, 202);
    lone.closed();
    assert!(lone.client.is_drained());
}

// ---- the first questions -------------------------------------------------------------------------------------

// covers: VER-020, VER-021
#[test]
fn a_stream_that_ends_without_an_answer_is_an_old_server_and_one_that_breaks_is_none() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let probe = lone.posted("server/discover");
        lone.stream(probe.id);
        lone.body(probe.id, ": nothing\n\nid: 1\ndata:\n\n");
        lone.end(probe.id);
        let asked = lone.posted("initialize");
        lone.json(asked.id, 200, &result(&asked.body, initialized("2025-11-25", json!({}))));
        assert_eq!(lone.ready().era(), Era::Legacy);
        lone.transcript
    });
    let mut lone = lone(Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.stream(probe.id);
    lone.breaks(probe.id);
    assert!(matches!(lone.closed(), Fault::Http(e) if matches!(*e, HttpError::Lost { .. })));
}

// covers: HTTPSSE-013, VER-031
#[test]
fn a_stream_that_names_no_endpoint_is_not_waited_for_without_saying_what_was_tried() {
    for how in ["silent", "stream", "comments"] {
        let mut lone = lone(Chunker::Whole);
        for method in ["server/discover", "initialize"] {
            let asked = lone.posted(method);
            lone.json(asked.id, 400, &error(&asked.body, -32000, "who are you?", Value::Null));
        }
        let get = lone.asked();
        if how != "silent" {
            lone.stream(get.id);
        }
        if how == "comments" {
            lone.body(get.id, ": hello\n\n");
        }
        lone.pass(secs(30) - ms(1));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.aborted(), get.id);
        let fault = lone.closed();
        assert!(matches!(&fault, Fault::NoServer { attempts } if attempts.len() == 3), "{fault:?}");
        assert!(fault.to_string().contains("who are you?"), "{fault}");
    }
    // One that does may be quiet afterwards.
    let mut lone = lone(Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let asked = lone.posted(method);
        lone.status(asked.id, 404);
    }
    let get = lone.asked();
    lone.stream(get.id);
    lone.body(get.id, "event: endpoint\ndata: /messages\n\n");
    let asked = lone.posted("initialize");
    lone.status(asked.id, 202);
    lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", json!({}))));
    lone.ready();
    let said = lone.posted("notifications/initialized");
    lone.status(said.id, 202);
    lone.pass(secs(1_000));
    lone.still();
}

// covers: HTTPSSE-004, HTTPSSE-007
#[test]
fn what_becomes_of_a_post_that_was_answered_on_the_stream_is_of_no_interest() {
    for how in ["202", "404", "500", "breaks", "unreachable"] {
        let mut lone = lone(Chunker::Whole);
        for method in ["server/discover", "initialize"] {
            let asked = lone.posted(method);
            lone.status(asked.id, 404);
        }
        let get = lone.asked();
        lone.stream(get.id);
        lone.body(get.id, "event: endpoint\ndata: /messages\n\n");
        let ends = |lone: &mut LoneHttp, x| match how {
            "breaks" => lone.breaks(x),
            "unreachable" => lone.unreachable(x),
            status => lone.status(x, status.parse().expect("a number")),
        };
        let asked = lone.posted("initialize");
        lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", can())));
        lone.ready();
        let said = lone.posted("notifications/initialized");
        ends(&mut lone, asked.id);
        lone.status(said.id, 202);
        let (key, asked) = lone.waves(&once());
        lone.event(get.id, "", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        ends(&mut lone, asked.id);
        lone.still();
    }
}

// covers: SEC-018 (the errors that are kept for people), VER-031
#[test]
fn what_a_server_says_is_quoted_in_part_and_never_raw() {
    let mut lone = lone(Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.stream(probe.id);
    let loud = format!("\u{1b}[31m\u{202e}{}", "x".repeat(100_000));
    for id in 0..100 {
        lone.event(probe.id, "", &error(&json!({"id": 900_000 + id}), -32000, &loud, Value::Null));
    }
    lone.end(probe.id);
    lone.odd();
    let asked = lone.posted("initialize");
    lone.json(asked.id, 404, &error(&asked.body, -32000, &loud, Value::Null));
    let get = lone.asked();
    lone.answer(get.id, 404, "text/plain", &loud);
    let fault = lone.closed();
    let text = fault.to_string();
    assert!(text.len() < 8_000, "{}", text.len());
    assert!(text.contains("xxxxxxxx") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
    assert!(matches!(&fault, Fault::NoServer { attempts } if attempts.len() < 16), "{fault:?}");
}

// ---- answers that are errors ---------------------------------------------------------------------------------

// covers: HTTP-020, VER-030
#[test]
fn an_error_is_found_in_a_body_of_any_type() {
    for kind in ["text/html; charset=utf-8", "text/plain", "application/problem+json", "", JSON] {
        for id in [json!(null), json!("server-error"), json!(4_000_000)] {
            for mark in ["", BOM, " \r\n"] {
                each_cut(|cut| {
                    let mut lone = lone(cut);
                    let probe = lone.posted("server/discover");
                    let fields: &[(&str, &str)] =
                        if kind.is_empty() { &[] } else { &[("content-type", kind)] };
                    let data = json!({"supported": ["2025-06-18"], "requested": "2026-07-28"});
                    let body = |code, data| {
                        format!("{mark}{}", error(&json!({"id": id}), code, "it is closed", data))
                    };
                    lone.answer_with(probe.id, 400, fields, &body(-32022, data));
                    let asked = lone.posted("initialize");
                    lone.json(asked.id, 200, &result(&asked.body, initialized("2025-06-18", can())));
                    lone.ready();
                    let said = lone.posted("notifications/initialized");
                    lone.status(said.id, 202);
                    let get = lone.asked();
                    lone.status(get.id, 405);
                    for status in [400, 404, 500] {
                        let (key, asked) = lone.waves(&once());
                        lone.answer_with(asked.id, status, fields, &body(-32000, Value::Null));
                        let outcome = lone.done(key);
                        assert!(
                            matches!(&outcome, Err(CallError::Rpc(e)) if e.message == "it is closed"),
                            "{outcome:?}"
                        );
                    }
                    let (key, asked) = lone.waves(&once());
                    lone.answer_with(asked.id, 401, fields, &body(-32000, Value::Null));
                    assert!(matches!(http(lone.done(key)), HttpError::Answer(a) if a.status == 401));
                    lone.still();
                    lone.transcript
                });
            }
        }
    }
}

// covers: HTTP-072
#[test]
fn a_byte_order_mark_changes_nothing() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, Some("one"), can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    let init = lone.asked();
    let body = result(&init.body, initialized(V.as_str(), can()));
    lone.answer_with(init.id, 200, &[("content-type", JSON)], &format!("{BOM}{body}"));
    let said = lone.posted("notifications/initialized");
    lone.status(said.id, 202);
    let get = lone.asked();
    lone.status(get.id, 405);
    let again = lone.posted("tools/call");
    lone.answer(again.id, 200, JSON, &format!("{BOM}{}", result(&again.body, answer())));
    assert_eq!(lone.done(key), Ok(answer()));
}

// covers: HTTP-082
#[test]
fn an_answer_that_is_none_is_described_as_it_is() {
    for (status, kind, body, says) in [
        (
            400,
            "text/plain; charset=utf-8",
            "session id is missing\n",
            "HTTP status 400 with a body of type `text/plain; charset=utf-8`: session id is missing",
        ),
        (
            400,
            JSON,
            "{\"detail\":\"no\"}",
            "HTTP status 400 with a body of type `application/json`: {\"detail\":\"no\"}",
        ),
        (502, "text/html", "<h1>Bad gateway</h1>", "HTTP status 502 with a body of type `text/html`"),
        (400, "", "go\u{7}away", "HTTP status 400 with a body of no type: go\\u{7}away"),
        (200, "", "{}", "HTTP status 200 with a body of no type, which is no MCP message: {}"),
        (500, "", "", "HTTP status 500 without a body"),
    ] {
        let mut lone = modern(Chunker::Whole);
        let (key, asked) = lone.waves(&once());
        let fields: &[(&str, &str)] = if kind.is_empty() { &[] } else { &[("content-type", kind)] };
        lone.answer_with(asked.id, status, fields, body);
        assert_eq!(http(lone.done(key)).to_string(), says);
    }
}

// ---- odd, and borne ------------------------------------------------------------------------------------------

// covers: HTTP-064, HTTP-067, HTTP-040 (as the client takes it)
#[test]
fn only_initialize_gives_a_session() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, Some("s"), can());
    for _ in 0..2 {
        let (key, asked) = lone.waves(&once());
        assert_eq!(asked.field("mcp-session-id"), Some("s"));
        let fields = [("content-type", JSON), ("mcp-session-id", "other")];
        lone.answer_with(asked.id, 200, &fields, &result(&asked.body, answer()).to_string());
        assert_eq!(lone.done(key), Ok(answer()));
    }
    let mut lone = modern(Chunker::Whole);
    for _ in 0..2 {
        let (key, asked) = lone.waves(&once());
        assert_eq!(asked.field("mcp-session-id"), None);
        let fields = [("content-type", JSON), ("mcp-session-id", "s")];
        let done = json!({"resultType": "complete", "content": []});
        lone.answer_with(asked.id, 200, &fields, &result(&asked.body, done).to_string());
        assert!(lone.done(key).is_ok());
    }
    lone.client.close(lone.now);
    lone.closed();
    lone.silent();
}

// covers: HTTP-022, SSE-002
#[test]
fn types_and_marks_are_read_as_they_are_meant() {
    for (kind, text) in [
        ("Application/JSON ; charset=UTF-8", "MESSAGE"),
        ("TEXT/Event-Stream;x=y", "data: MESSAGE\n\n"),
        ("text/event-stream", "\u{feff}event: message\rdata:MESSAGE\r\r"),
        (JSON, "\u{feff} \r\n\tMESSAGE \n"),
    ] {
        each_cut(|cut| {
            let mut lone = modern(cut);
            let (key, asked) = lone.waves(&once());
            let done = json!({"resultType": "complete", "content": []});
            let text = text.replace("MESSAGE", &result(&asked.body, done.clone()).to_string());
            lone.answer(asked.id, 200, kind, &text);
            assert_eq!(lone.done(key), Ok(done), "{kind}");
            lone.still();
            lone.transcript
        });
    }
}

// covers: TIME-001, TIME-002
#[test]
fn an_answer_without_end_ends_with_its_time() {
    for how in ["silent", "json", "comments", "page"] {
        let mut lone = lone(Chunker::Whole);
        lone.with_legacy(V, None, can());
        let (key, asked) = lone.waves(&once());
        match how {
            "json" => lone.head(asked.id, 200, &[("content-type", JSON)]),
            "page" => lone.head(asked.id, 500, &[("content-type", "text/html")]),
            "comments" => lone.stream(asked.id),
            _ => {}
        }
        for _ in 0..59 {
            match how {
                "json" | "page" => lone.body(asked.id, " "),
                "comments" => lone.body(asked.id, ": still there\n\n"),
                _ => {}
            }
            lone.pass(secs(1));
        }
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.done(key), Err(CallError::TimedOut), "{how}");
        assert_eq!(lone.posted("notifications/cancelled").body["params"]["requestId"], asked.body["id"]);
        assert_eq!(lone.aborted(), asked.id);
    }
}

// covers: HTTPSSE-002, HTTPSSE-013
#[test]
fn the_first_endpoint_is_the_one() {
    let mut lone = lone(Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let asked = lone.posted(method);
        lone.status(asked.id, 405);
    }
    let get = lone.asked();
    lone.stream(get.id);
    lone.body(get.id, "event: endpoint\ndata: http://tide.example:3000/one?x=1\n\n");
    let asked = lone.posted("initialize");
    lone.body(get.id, "event: endpoint\ndata: http://evil.example/two\n\n");
    lone.status(asked.id, 202);
    lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", can())));
    lone.ready();
    assert_eq!(lone.posted("notifications/initialized").url.target(), "/one?x=1");
}

// covers: HTTP-073, LIFE-019
#[test]
fn the_end_may_come_at_any_time() {
    let drained = |mut lone: LoneHttp| {
        lone.pass(secs(5));
        assert!(lone.client.is_drained(), "{:?}", lone.client);
        lone.pass(secs(100));
    };
    // While it is asked what the server speaks.
    let mut opening = lone(Chunker::Whole);
    let probe = opening.posted("server/discover");
    opening.client.close(opening.now);
    assert_eq!(opening.aborted(), probe.id);
    opening.closed();
    opening.silent();
    drained(opening);
    // While a session is made.
    let mut making = lone(Chunker::Whole);
    let probe = making.posted("server/discover");
    making.status(probe.id, 404);
    let init = making.posted("initialize");
    making.head(init.id, 200, &[("content-type", JSON), ("mcp-session-id", "s")]);
    making.client.close(making.now);
    assert_eq!(making.aborted(), init.id);
    making.closed();
    assert_eq!(making.asked().field("mcp-session-id"), Some("s"), "it is ended at the server");
    drained(making);
    // While calls wait for the stream.
    let mut waiting = lone(Chunker::Whole);
    let said = waiting.to_legacy(V, Some("s"), can());
    let key = waiting.call("tools/list", &json!({}), &once());
    waiting.client.close(waiting.now);
    assert_eq!(waiting.done(key), Err(CallError::Closed(Fault::Closed)));
    waiting.closed();
    assert_eq!(waiting.asked().method, "DELETE");
    waiting.status(said.id, 202);
    waiting.silent();
    drained(waiting);
    // While there is no session.
    let mut renewing = lone(Chunker::Whole);
    renewing.with_legacy(V, Some("s"), can());
    let (key, asked) = renewing.waves(&once());
    renewing.status(asked.id, 404);
    let init = renewing.posted("initialize");
    renewing.client.engine().notify(renewing.now, "x/y", None::<&Value>).expect("a notification");
    renewing.client.close(renewing.now);
    assert_eq!(renewing.aborted(), init.id);
    assert_eq!(renewing.done(key), Err(CallError::Closed(Fault::Closed)));
    renewing.closed();
    renewing.silent();
    drained(renewing);
}

// covers: CANC-012 (an answer that comes twice)
#[test]
fn a_second_answer_is_none() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, None, can());
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.event(asked.id, "1", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.event(asked.id, "2", &error(&asked.body, -32000, "no", Value::Null));
        lone.still();
        lone.event(get, "3", &result(&asked.body, answer()));
        assert!(matches!(lone.diagnosed(), Diagnostic::LateResponse(_)));
        lone.end(asked.id);
        lone.still();
        lone.transcript
    });
}
