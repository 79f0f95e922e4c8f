//! Going on with streams, and what comes on them.

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, HttpError, VersionSet};
use mcp_tests::harness::build::{error, note, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs};
use crate::http_client_shared::{JSON, V, answer, can, http, lone, once, told};

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
