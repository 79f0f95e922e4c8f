//! Sessions that are lost, and what goes under with them.

use mcp_proto::client::Event;
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{Fault, HttpError};
use mcp_tests::harness::build::{error, initialized, legacy, note, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::secs;
use crate::http_client_shared::{V, answer, can, http, lone, once, renews, told};

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
