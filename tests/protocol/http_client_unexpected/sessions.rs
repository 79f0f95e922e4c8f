//! Lost sessions, and the calls and subscriptions that depended on them.

use mcp_proto::client::Event;
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallError, Change, Diagnostic, Fault, HttpError};
use mcp_tests::harness::build::{
    error_response, initialize_result, legacy_request, notification, result_response,
};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::secs;
use crate::protocol::http_client_shared::{
    V, describe_diagnostic, expect_http_error, expect_session_renewed, legacy_harness, non_retryable,
    tool_capabilities, tool_result,
};

// covers: HTTP-072, SSE-023
#[test]
fn call_stream_of_lost_session_is_not_resumed_in_the_new_one() {
    for (options, again) in [(non_retryable(), false), (non_retryable().idempotent(), true)] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
        let (running, first) = harness.start_wave_call(&options);
        harness.start_event_stream(first.id);
        harness.receive_body(first.id, "id: 1\ndata:\n\n");
        let (refused, second) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(second.id, 404);
        let init = harness.expect_request();
        harness.expect_aborted();
        let get = expect_session_renewed(&mut harness, &init, "two");
        harness.start_event_stream(get.id);
        let sent = harness.expect_post("tools/call");
        harness.respond_with_json(sent.id, 200, &result_response(&sent.body, tool_result()));
        assert_eq!(harness.expect_done(refused), Ok(tool_result()));
        harness.break_connection(first.id);
        if again {
            harness.advance(secs(1));
            let sent = harness.expect_post("tools/call");
            assert_ne!(sent.body["id"], first.body["id"]);
        } else {
            assert_eq!(expect_http_error(harness.expect_done(running)), HttpError::SessionLost);
        }
        harness.advance(secs(10));
        harness.assert_idle();
    }
}

// covers: HTTP-072, SEC-016
#[test]
fn requests_of_lost_session_are_not_answered_in_the_new_one() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let (running, first) = harness.start_wave_call(&non_retryable());
    harness.start_event_stream(first.id);
    let (_, second) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(second.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    harness.expect_post("tools/call");
    // Request ids of both sessions start at 0.
    harness.receive_event(first.id, "", &legacy_request(0, "roots/list", Value::Null));
    harness.receive_event(first.id, "", &legacy_request(0, "ping", Value::Null));
    harness.assert_idle();
    harness.receive_event(get.id, "", &legacy_request(0, "roots/list", Value::Null));
    assert!(matches!(harness.expect_event(), Event::Input(_)));
    harness.receive_event(first.id, "", &notification("x/y", Value::Null));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    harness.receive_event(first.id, "", &result_response(&first.body, tool_result()));
    assert_eq!(harness.expect_done(running), Ok(tool_result()));
}

// covers: HTTP-072, SEC-016
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn unsent_answers_are_dropped_with_their_session() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    harness.client.engine().set_log_level(harness.now, Some(LoggingLevel::Error)).expect("logging");
    let level = harness.expect_post("logging/setLevel");
    // Nothing is sent until `setLevel` is answered.
    harness.receive_event(get, "", &legacy_request(0, "ping", Value::Null));
    harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
    harness.assert_nothing_sent();
    harness.respond_with_status(level.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    let requests: Vec<SentRequest> = harness.take_requests();
    assert!(requests.iter().all(|a| !a.body["method"].is_null()), "{requests:?}");
    assert!(requests.iter().any(|a| a.body["method"] == "x/y"), "{requests:?}");
}

// covers: HTTP-072, HTTP-057
#[test]
fn renewal_accepts_messages_before_the_initialize_response() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(request.id, 404);
        let init = harness.expect_request();
        harness.expect_aborted();
        let head = [("content-type", "text/event-stream"), ("mcp-session-id", "two")];
        harness.receive_head(init.id, 200, &head);
        harness.receive_event(init.id, "", &notification("x/y", Value::Null));
        assert!(matches!(harness.expect_event(), Event::Notification(_)));
        harness.receive_event(
            init.id,
            "",
            &result_response(&init.body, initialize_result(V.as_str(), tool_capabilities())),
        );
        harness.receive_end(init.id);
        let initialized = harness.expect_post("notifications/initialized");
        // A rejected `initialized` does not end the session either.
        harness.respond_with_status(initialized.id, 500);
        assert!(describe_diagnostic(harness.expect_diagnostic()).contains("500"));
        let get = harness.expect_request();
        harness.respond_with_status(get.id, 405);
        let again = harness.expect_post("tools/call");
        assert_eq!(again.field("mcp-session-id"), Some("two"));
        harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.transcript
    });
}

// covers: HTTP-072
#[test]
fn failed_session_renewal_is_reported_with_its_reason() {
    for status in [200, 400, 503] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, Some("one"), tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(request.id, 404);
        let init = harness.expect_post("initialize");
        harness.respond_with_json(
            init.id,
            status,
            &error_response(&init.body, -32000, "no more of them", Value::Null),
        );
        let text = describe_diagnostic(harness.expect_diagnostic());
        assert!(text.contains("a new session could not be opened"), "{text}");
        assert!(status == 200 || text.contains("no more of them"), "{text}");
        assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost);
        harness.expect_closed();
    }
}

// covers: HTTP-072
#[test]
fn listening_client_renews_its_session_when_the_server_loses_it() {
    let mut harness = legacy_harness(Chunker::Whole);
    let mut get = harness.become_legacy_with_get_stream(V, Some("0"), tool_capabilities());
    let lose = |harness: &mut HttpClientHarness, get| {
        harness.break_connection(get);
        harness.advance(secs(1));
        let again = harness.expect_request();
        harness.respond_with_status(again.id, 404);
    };
    for round in 1..5 {
        lose(&mut harness, get);
        let init = harness.expect_request();
        let next = expect_session_renewed(&mut harness, &init, &round.to_string());
        harness.start_event_stream(next.id);
        get = next.id;
        harness.assert_idle();
        harness.advance(secs(600));
    }
    lose(&mut harness, get);
    let init = harness.expect_request();
    let next = expect_session_renewed(&mut harness, &init, "5");
    harness.start_event_stream(next.id);
    lose(&mut harness, next.id);
    assert!(matches!(harness.expect_closed(), Fault::Http(e) if *e == HttpError::SessionLost));
}

// covers: HTTP-049, HTTP-072 (and only then)
#[test]
fn status_404_for_get_stream_that_never_opened_keeps_the_session() {
    for status in [404, 409] {
        let mut harness = legacy_harness(Chunker::Whole);
        let initialized = harness.initialize_legacy(V, Some("s"), tool_capabilities());
        harness.respond_with_status(initialized.id, 202);
        let get = harness.expect_request();
        harness.respond_with_status(get.id, 503);
        harness.advance(secs(1));
        let get = harness.expect_request();
        harness.respond_with_status(get.id, status);
        harness.advance(secs(100));
        harness.assert_nothing_sent();
    }
}

// covers: HTTP-072
#[test]
fn call_refused_after_renewal_waits_for_the_get_stream() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let (_, one) = harness.start_wave_call(&non_retryable());
    let (_, two) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(one.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.respond_with_status(two.id, 404);
    harness.assert_nothing_sent();
    harness.start_event_stream(get.id);
    assert_eq!(harness.take_requests().len(), 2);
}

// covers: HTTP-072
#[test]
fn notification_is_sent_again_in_the_new_session() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
    let notice = harness.expect_post("x/y");
    // Responses to requests of the old session are not sent again.
    harness.receive_event(get, "", &legacy_request(0, "ping", Value::Null));
    let pong = harness.expect_request();
    harness.receive_event(get, "", &legacy_request(1, "ping", Value::Null));
    let waits = harness.expect_request();
    harness.respond_with_status(waits.id, 502);
    harness.respond_with_status(notice.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    harness.respond_with_status(pong.id, 404);
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    let again = harness.expect_post("x/y");
    assert_eq!(again.field("mcp-session-id"), Some("two"));
    harness.respond_with_status(again.id, 202);
    harness.advance(secs(100));
    harness.assert_idle();
}

// covers: HTTP-072, SUB-015
#[test]
fn subscription_is_acknowledged_again_in_the_new_session() {
    for refused in [false, true] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
        let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
        let key = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
        let request = harness.expect_post("resources/subscribe");
        harness.respond_with_json(request.id, 200, &result_response(&request.body, json!({})));
        assert!(matches!(harness.expect_event(), Event::Subscribed { .. }));
        let (call, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(request.id, 404);
        let init = harness.expect_request();
        harness.expect_aborted();
        let get = expect_session_renewed(&mut harness, &init, "two");
        harness.start_event_stream(get.id);
        for request in harness.take_requests() {
            if request.body["method"] == "resources/subscribe" {
                if refused {
                    harness.respond_with_status(request.id, 500);
                } else {
                    harness.respond_with_json(request.id, 200, &result_response(&request.body, json!({})));
                }
            } else {
                harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
                assert_eq!(harness.expect_done(call), Ok(tool_result()));
            }
        }
        // Change notifications may have been lost: the event lets the application look again.
        match harness.expect_event() {
            Event::Subscribed { key: k, honoured } => {
                assert_eq!(k, key);
                assert_eq!(honoured.resource_subscriptions.is_some(), !refused);
            }
            other => panic!("{other:?}"),
        }
        if !refused {
            let Event::Changed { key: Some(k), change } = harness.expect_event() else { panic!("no change") };
            assert_eq!((k, change), (key, Change::Resource("a:b".into())));
        }
        harness.assert_idle();
    }
}

// covers: HTTP-072, LOG-004
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn restored_requests_are_sent_once_in_the_new_session() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
    harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    harness.client.engine().set_log_level(harness.now, Some(LoggingLevel::Error)).expect("logging");
    let requests = harness.take_requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    harness.respond_with_status(requests[0].id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    harness.respond_with_status(requests[1].id, 404);
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    let mut methods = Vec::new();
    for _ in 0..3 {
        for request in harness.take_requests() {
            methods.push(request.body["method"].as_str().unwrap_or_default().to_owned());
            harness.respond_with_json(request.id, 200, &result_response(&request.body, json!({})));
        }
    }
    methods.sort();
    assert_eq!(methods, ["logging/setLevel", "resources/subscribe"]);
    assert!(matches!(harness.expect_event(), Event::Subscribed { .. }));
    harness.assert_idle();
}

// covers: HTTP-072, RES-010
#[test]
fn unconfirmed_subscription_is_made_in_the_new_session() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
    harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    let request = harness.expect_post("resources/subscribe");
    harness.start_event_stream(request.id);
    harness.receive_body(request.id, "id: 1\ndata:\n\n");
    harness.receive_end(request.id);
    let (_, call) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(call.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    harness.assert_idle();
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    let mut requests = harness.take_requests();
    requests.retain(|a| a.body["method"] == "resources/subscribe");
    assert_eq!(requests.len(), 1, "{requests:?}");
    harness.assert_idle();
    harness.respond_with_json(requests[0].id, 200, &result_response(&requests[0].body, json!({})));
    match harness.expect_event() {
        Event::Subscribed { honoured, .. } => assert!(honoured.resource_subscriptions.is_some()),
        other => panic!("{other:?}"),
    }
    harness.assert_idle();
}

// covers: HTTP-072
#[test]
fn cancellation_of_a_lost_session_is_not_sent_in_the_new_one() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    let cancellation = harness.expect_post("notifications/cancelled");
    assert_eq!(harness.expect_aborted(), request.id);
    harness.respond_with_status(cancellation.id, 404);
    let init = harness.expect_post("initialize");
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    harness.assert_idle();
}

// covers: HTTP-072
#[test]
fn renewal_whose_response_does_not_end_is_reported_as_one_without_an_answer() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable().timeout(secs(1_000)));
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_post("initialize");
    harness.receive_head(init.id, 200, &[("Content-Type", "application/json")]);
    harness.receive_body(init.id, "{");
    harness.advance(secs(60));
    let text = describe_diagnostic(harness.expect_diagnostic());
    assert!(text.contains("no answer in time"), "{text}");
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost);
}

// covers: HTTP-072
#[test]
fn renewal_ends_with_the_first_response_on_its_stream_even_if_that_is_malformed() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_post("initialize");
    harness.start_event_stream(init.id);
    harness.receive_body(init.id, "data: {\"jsonrpc\":\"2.0\",\"method\":3}\n\n");
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { .. }), "it is none");
    harness.assert_idle();
    harness.receive_body(init.id, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n\n");
    let text = describe_diagnostic(harness.expect_diagnostic());
    assert!(text.contains("did not answer with the same revision"), "{text}");
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost);
}

// covers: HTTP-049, HTTP-072
#[test]
fn subscription_stays_in_a_new_session_whose_get_stream_opens() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), json!({"tools": {"listChanged": true}}));
    let (_, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_post("initialize");
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    harness.expect_post("tools/call");
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    assert!(matches!(harness.expect_event(), Event::Subscribed { .. }));
    harness.assert_idle();
}
