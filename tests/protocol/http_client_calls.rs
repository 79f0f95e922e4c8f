//! Calls over HTTP to a modern server: both kinds of answers, answers that are none, streams that break, repeats.

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallOptions, Diagnostic, HttpError, VersionSet};
use mcp_tests::harness::build::{error, note, result};
use mcp_tests::harness::{Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs};

const JSON: &str = "application/json";

fn modern(cut: Chunker) -> LoneHttp {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), cut);
    lone.with_modern(
        json!({"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}}),
    );
    lone
}

fn once() -> CallOptions {
    CallOptions::new()
}

fn answer() -> Value {
    json!({"resultType": "complete", "content": []})
}

fn http(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => HttpError::clone(&error),
        other => panic!("{other:?}"),
    }
}

// covers: HTTP-022, SSE-001, SSE-002, SSE-003, SSE-005
#[test]
fn calls_end_with_either_kind_of_answer() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (key, asked) = lone.waves(&once());
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.still();

        let (key, asked) = lone.waves(&once().with_progress());
        lone.stream(asked.id);
        lone.body(asked.id, ": keep-alive\n\n");
        let told = json!({"progressToken": asked.body["id"], "progress": 1});
        lone.event(asked.id, "", &note("notifications/progress", told));
        assert!(matches!(lone.next_event(), Event::Progress { .. }));
        lone.body(asked.id, "event: other\ndata: {\"jsonrpc\":\"2.0\",\"id\":1}\n\n");
        lone.still();
        lone.event(asked.id, "", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        // What follows is of no interest (SSE-011).
        lone.body(asked.id, format!("data: {}\n\n", result(&asked.body, answer())));
        lone.end(asked.id);
        lone.still();
        lone.transcript
    });
}

#[test]
fn an_error_in_the_body_is_the_outcome_whatever_the_status() {
    for status in [200, 400, 404, 413, 500] {
        each_cut(|cut| {
            let mut lone = modern(cut);
            let (key, asked) = lone.waves(&once());
            lone.json(asked.id, status, &error(&asked.body, -32601, "no such thing", Value::Null));
            assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32601));
            lone.still();
            lone.transcript
        });
    }
    // Without an id it is about this request all the same.
    let mut lone = modern(Chunker::Whole);
    let (key, asked) = lone.waves(&once());
    lone.answer(asked.id, 400, JSON, r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}"#);
    assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32700));
}

// covers: HTTP-082
#[test]
fn an_answer_that_is_none_ends_the_call_and_says_what_came() {
    let page = "<!DOCTYPE html>";
    for (status, kind, body) in [
        (200, "text/html", page),
        (200, "text/plain", ""),
        (200, JSON, "not json"),
        (200, JSON, ""),
        (200, JSON, "{}"),
        (200, JSON, "[]"),
        (200, "", ""),
        (201, "image/png", "\u{1}"),
        (202, "", ""),
        (204, "", ""),
        (400, "", ""),
        (403, "text/html", page),
        (404, "text/html", page),
        (406, JSON, "{}"),
        (413, "text/html", page),
        (418, "application/jsonp", page),
        (431, "", ""),
        (500, "text/html", page),
        (503, JSON, "{\"error\":\"busy\"}"),
        (599, "", ""),
    ] {
        each_cut(|cut| {
            let mut lone = modern(cut);
            let (key, asked) = lone.waves(&once());
            if kind.is_empty() {
                lone.status(asked.id, status);
            } else {
                lone.answer(asked.id, status, kind, body);
            }
            lone.odd();
            let error = http(lone.done(key));
            assert!(error.to_string().contains(&status.to_string()), "{error}");
            match &error {
                HttpError::Answer(a) => {
                    assert_eq!((a.status, a.content_type.as_deref().unwrap_or_default()), (status, kind));
                    assert!(kind.is_empty() || error.to_string().contains(kind), "{error}");
                    assert!(status == 200 || a.body == body || a.error.is_some(), "{error:?}");
                }
                HttpError::Unanswered { .. } => assert!(status < 300, "{error}"),
                other => panic!("{other:?}"),
            }
            lone.still();
            lone.transcript
        });
    }
}

// covers: BASE-005
#[test]
fn an_answer_to_another_request_is_none() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (first, one) = lone.waves(&once());
        let (second, two) = lone.waves(&once());
        // Ids live in an exchange: that of a neighbour's request is unknown here.
        lone.json(one.id, 200, &result(&two.body, answer()));
        assert!(matches!(lone.diagnosed(), Diagnostic::UnknownResponse(_)));
        assert_eq!(http(lone.done(first)), HttpError::Unanswered { status: 200 });
        lone.stream(two.id);
        lone.event(two.id, "", &result(&one.body, answer()));
        assert!(matches!(lone.diagnosed(), Diagnostic::UnknownResponse(_)));
        lone.event(two.id, "", &result(&two.body, answer()));
        assert_eq!(lone.done(second), Ok(answer()));
        lone.transcript
    });
}

// covers: HTTP-044, SSE-012
#[test]
fn a_broken_stream_loses_the_request_at_every_byte() {
    let text = |id: &Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": answer()});
        format!("id: 1\nretry: 10\ndata:\n\nid: 2\ndata: {message}\n\n")
    };
    let whole = text(&json!(2)).len();
    for cut in 0..=whole {
        let mut lone = modern(Chunker::Whole);
        let (key, asked) = lone.waves(&once());
        let body = text(&asked.body["id"]);
        assert!(body.len() >= whole);
        lone.stream(asked.id);
        lone.body(asked.id, &body[..cut]);
        if cut % 2 == 0 {
            lone.breaks(asked.id);
        } else {
            lone.end(asked.id);
        }
        match lone.done(key) {
            Ok(result) => assert!(result == answer() && cut >= body.len()),
            Err(CallError::Http(e)) => {
                assert!(matches!(*e, HttpError::Lost { .. }) && cut < body.len(), "{e:?} {cut}");
            }
            other => panic!("{other:?}"),
        }
        lone.pass(secs(60));
        lone.still();
    }
}

// covers: HTTP-044
#[test]
fn a_call_that_may_be_repeated_is_under_a_new_id() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (key, asked) = lone.waves(&once().repeatable());
        let mut ids = vec![asked.body["id"].clone()];
        let mut last = asked;
        for pause in [1, 2, 4, 8, 16] {
            match pause {
                1 => lone.breaks(last.id),
                2 => lone.unreachable(last.id),
                4 => {
                    lone.stream(last.id);
                    lone.end(last.id);
                }
                8 => lone.answer(last.id, 503, "text/plain", "busy"),
                _ => lone.answer_with(last.id, 429, &[("Retry-After", "16")], ""),
            }
            lone.pass(secs(pause) - ms(1));
            lone.still();
            lone.pass(ms(1));
            last = lone.posted("tools/call");
            assert!(!ids.contains(&last.body["id"]), "{ids:?}");
            ids.push(last.body["id"].clone());
        }
        lone.breaks(last.id);
        assert!(matches!(http(lone.done(key)), HttpError::Lost { .. }));
        lone.pass(secs(100));
        lone.still();
        lone.transcript
    });
    // The answer to the second one is that of the call; one to the first would be late.
    let mut lone = modern(Chunker::Whole);
    let (key, asked) = lone.calls("resources/list", &json!({}), &once().repeatable());
    lone.breaks(asked.id);
    lone.pass(secs(1));
    let again = lone.posted("resources/list");
    let found = json!({"resultType": "complete", "resources": [], "ttlMs": 0, "cacheScope": "private"});
    lone.json(again.id, 200, &result(&again.body, found.clone()));
    assert_eq!(lone.done(key), Ok(found));
}

#[test]
fn retry_after_is_handed_on() {
    for (value, seconds) in
        [("7", Some(7)), ("0", Some(0)), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("-1", None)]
    {
        let mut lone = modern(Chunker::Whole);
        let (key, asked) = lone.waves(&once());
        lone.answer_with(asked.id, 503, &[("retry-after", value)], "");
        let HttpError::Answer(answer) = http(lone.done(key)) else { panic!("a status") };
        assert_eq!(answer.retry_after.map(|d| d.as_secs()), seconds);
        lone.pass(secs(60));
        lone.still();
    }
}

// covers: CANC-016
#[test]
fn a_cancelled_call_is_an_aborted_exchange() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.client.engine().cancel(lone.now, key, Some("enough")).expect("a call");
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
        assert_eq!(lone.aborted(), asked.id);
        // What still comes is ignored.
        lone.body(asked.id, format!("data: {}\n\n", result(&asked.body, answer())));
        lone.end(asked.id);
        lone.still();

        let (key, asked) = lone.waves(&once().timeout(secs(5)));
        lone.pass(secs(5));
        assert_eq!(lone.done(key), Err(CallError::TimedOut));
        assert_eq!(lone.aborted(), asked.id);
        lone.still();

        // While it waits to be repeated there is nothing to abort.
        let (key, asked) = lone.waves(&once().repeatable());
        lone.breaks(asked.id);
        lone.client.engine().cancel(lone.now, key, None).expect("a call");
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
        lone.pass(secs(10));
        lone.still();
        lone.transcript
    });
}

#[test]
fn an_answer_that_is_too_long_ends_the_call() {
    each_cut(|cut| {
        let limits = limits(|l| l.max_frame = 1_000);
        let mut lone = LoneHttp::new(client(VersionSet::MODERN).limits(limits), LoneHttp::http(), cut);
        lone.with_modern(json!({"tools": {}}));
        let long =
            json!({"resultType": "complete", "content": [{"type": "text", "text": "x".repeat(2_000)}]});
        let (key, asked) = lone.waves(&once());
        lone.head(asked.id, 200, &[("Content-Type", JSON)]);
        lone.body(asked.id, result(&asked.body, long.clone()).to_string());
        assert_eq!(lone.done(key), Err(CallError::TooLarge { limit: 1_000 }));
        assert_eq!(lone.aborted(), asked.id);

        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.event(asked.id, "", &result(&asked.body, long));
        assert_eq!(lone.done(key), Err(CallError::TooLarge { limit: 1_000 }));
        assert_eq!(lone.aborted(), asked.id);
        lone.still();
        lone.transcript
    });
}

// ---- redirects -----------------------------------------------------------------------------------------------

#[test]
fn redirects_within_the_origin_are_followed_three_times() {
    for status in [307, 308] {
        each_cut(|cut| {
            let mut lone = modern(cut);
            let (key, asked) = lone.waves(&once());
            let mut last = asked;
            for to in ["/a", "b?c", "http://tide.example:3000/d"] {
                lone.answer_with(last.id, status, &[("Location", to)], "moved");
                let next = lone.posted("tools/call");
                assert_eq!(next.body, last.body);
                assert_eq!(next.field("mcp-name"), Some("wave"));
                last = next;
            }
            assert_eq!(last.url.target(), "/d");
            lone.answer_with(last.id, status, &[("Location", "/e")], "moved");
            assert!(matches!(http(lone.done(key)), HttpError::Redirected { .. }));
            lone.still();
            lone.transcript
        });
    }
}

// covers: SEC-019
#[test]
fn other_redirects_are_not_followed() {
    for (status, to) in [
        (307, "http://evil.example/mcp"),
        (308, "https://tide.example:3000/mcp"),
        (307, "http://tide.example/mcp"),
        (307, "//evil.example:3000/mcp?token=secret"),
        (307, "javascript:alert(1)"),
        (307, ""),
        (301, "/a"),
        (302, "/a"),
        (303, "/a"),
        (304, "/a"),
    ] {
        let config = LoneHttp::http().field("authorization", b"Bearer secret").expect("a field");
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), config, Chunker::Whole);
        lone.with_modern(json!({"tools": {}}));
        let (key, asked) = lone.waves(&once());
        assert_eq!(asked.field("Authorization"), Some("Bearer secret"));
        let fields: &[(&str, &str)] = if to.is_empty() && status == 307 { &[] } else { &[("Location", to)] };
        lone.answer_with(asked.id, status, fields, "moved");
        let error = http(lone.done(key));
        assert!(matches!(error, HttpError::Redirected { status: s, .. } if s == status), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        lone.still();
    }
}

// ---- subscriptions -------------------------------------------------------------------------------------------

// covers: SUB-015
#[test]
fn a_subscription_that_breaks_is_asked_for_again() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let key = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
        let mut listen = lone.posted("subscriptions/listen");
        for round in 0..3 {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.body["id"]});
            lone.stream(listen.id);
            let told = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
            lone.event(listen.id, "", &note("notifications/subscriptions/acknowledged", told));
            assert!(matches!(lone.next_event(), Event::Subscribed { key: k, .. } if k == key));
            let told = note("notifications/tools/list_changed", json!({"_meta": meta}));
            lone.event(listen.id, "", &told);
            assert!(matches!(lone.next_event(), Event::Changed { key: Some(k), .. } if k == key));
            if round % 2 == 0 {
                lone.breaks(listen.id)
            } else {
                lone.end(listen.id)
            }
            lone.still();
            lone.pass(secs(1));
            let again = lone.posted("subscriptions/listen");
            assert_ne!(again.body["id"], listen.body["id"]);
            assert_eq!(again.body["params"]["notifications"], json!({"toolsListChanged": true}));
            listen = again;
        }
        // What brings nothing is given up.
        for pause in [2, 4, 8, 16] {
            lone.unreachable(listen.id);
            lone.pass(secs(pause));
            listen = lone.posted("subscriptions/listen");
        }
        lone.unreachable(listen.id);
        match lone.next_event() {
            Event::SubscriptionEnded { key: k, graceful: false, error: Some(CallError::Http(_)) } => {
                assert_eq!(k, key);
            }
            other => panic!("{other:?}"),
        }
        lone.pass(secs(60));
        lone.still();
        lone.transcript
    });
}

// covers: SUB-012, SUB-013
#[test]
fn a_subscription_that_ends_is_over() {
    let mut lone = modern(Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    let key = lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    let listen = lone.posted("subscriptions/listen");
    lone.stream(listen.id);
    lone.client.engine().unsubscribe(lone.now, key).expect("given up");
    assert_eq!(lone.aborted(), listen.id);
    lone.still();

    lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    let listen = lone.posted("subscriptions/listen");
    lone.breaks(listen.id);
    lone.client.engine().close(lone.now);
    lone.pump();
    assert!(matches!(lone.next_event(), Event::SubscriptionEnded { graceful: false, .. }));
    assert!(matches!(lone.next_event(), Event::Closed(_)));
    lone.pass(secs(60));
    lone.still();
    assert!(lone.client.is_drained());
}
