//! Resumed and reopened streams, and unexpected events on them.

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, Diagnostic, HttpError, MalformedMessage, VersionSet};
use mcp_tests::harness::build::{error_response, notification, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs};
use crate::protocol::http_client_shared::{
    JSON, V, describe_diagnostic, expect_http_error, legacy_harness, non_retryable, tool_capabilities,
    tool_result,
};

// covers: SSE-021, HTTP-022
#[test]
fn resumed_call_can_be_answered_with_json() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        harness.become_legacy(V, Some("s"), tool_capabilities());
        let resume_call = |harness: &mut HttpClientHarness| {
            let (key, request) = harness.start_wave_call(&non_retryable());
            harness.start_event_stream(request.id);
            harness.receive_body(request.id, "id: 1\ndata:\n\n");
            harness.receive_end(request.id);
            harness.advance(secs(1));
            let get = harness.expect_request();
            assert_eq!((get.method, get.field("last-event-id")), ("GET", Some("1")));
            (key, request, get)
        };
        let (key, request, get) = resume_call(&mut harness);
        harness.respond_with_json(get.id, 200, &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        let wrong_id = r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#;
        for other in ["{}", "[]", "null", wrong_id] {
            let (key, _, get) = resume_call(&mut harness);
            harness.respond(get.id, 200, JSON, other);
            harness.take_diagnostics();
            match harness.expect_done(key) {
                Err(CallError::Malformed(MalformedMessage::WrongId)) => assert_eq!(other, wrong_id),
                done => assert!(matches!(expect_http_error(done), HttpError::Lost { .. }), "{other}"),
            }
            // A message that cannot be parsed is answered with an error (DEC-004).
            for reply in harness.take_requests() {
                assert!(reply.body["error"].is_object(), "{reply:?}");
                harness.respond_with_status(reply.id, 202);
            }
        }
        harness.assert_idle();
        harness.transcript
    });
}

// covers: SSE-022, SSE-024
#[test]
fn get_stream_whose_last_event_has_expired_is_opened_anew() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    harness.receive_event(get, "1", &notification("x/y", Value::Null));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    harness.break_connection(get);
    harness.advance(secs(1));
    let again = harness.expect_request();
    assert_eq!(again.field("last-event-id"), Some("1"));
    harness.respond(again.id, 400, JSON, r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"gone"}}"#);
    assert_eq!(harness.take_diagnostics().len(), 1);
    harness.advance(secs(2));
    let anew = harness.expect_request();
    assert_eq!((anew.method, anew.field("last-event-id")), ("GET", None));
    harness.start_event_stream(anew.id);
    harness.receive_event(anew.id, "1", &notification("x/y", Value::Null));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    // A refusal without an id to forget is final.
    harness.receive_body(anew.id, "id:\ndata:\n\n");
    harness.receive_end(anew.id);
    harness.advance(secs(1));
    let last = harness.expect_request();
    assert_eq!(last.field("last-event-id"), None);
    harness.respond_with_status(last.id, 400);
    assert_eq!(harness.take_diagnostics().len(), 1);
    harness.advance(secs(1_000));
    harness.assert_idle();
}

// covers: SSE-026
#[test]
fn reopening_a_stream_stops_after_five_failures() {
    let mut harness = legacy_harness(Chunker::Whole);
    let mut get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    harness.receive_event(get, "1", &notification("x/y", Value::Null));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    harness.break_connection(get);
    for pause in [1, 2, 4, 8, 16] {
        harness.advance(secs(pause) - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
        get = harness.expect_request().id;
        harness.refuse_connection(get);
    }
    let text = describe_diagnostic(harness.expect_diagnostic());
    assert!(text.contains("not opened again") && text.contains("connection refused"), "{text}");
    harness.advance(secs(1_000));
    harness.assert_idle();
    let mut ended = legacy_harness(Chunker::Whole);
    let mut get = ended.become_legacy_with_get_stream(V, None, tool_capabilities());
    for pause in [1, 2, 4, 8, 16] {
        ended.receive_end(get);
        ended.advance(secs(pause));
        get = ended.expect_request().id;
        ended.start_event_stream(get);
    }
    ended.receive_end(get);
    let text = describe_diagnostic(ended.expect_diagnostic());
    assert_eq!(text, "the GET stream is not opened again: the server ended it");
    // The stream of a call is not reopened forever either.
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.start_event_stream(request.id);
    harness.receive_event(request.id, "1", &notification("x/y", Value::Null));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    harness.break_connection(request.id);
    for pause in [1, 2, 4, 8, 16] {
        harness.advance(secs(pause) - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
        let get = harness.expect_request().id;
        harness.refuse_connection(get);
    }
    assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
}

// covers: SSE-021
#[test]
fn resumption_is_retried_after_409() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.start_event_stream(request.id);
    harness.receive_body(request.id, "id: 1\ndata:\n\n");
    harness.break_connection(request.id);
    for pause in [1, 2] {
        harness.advance(secs(pause));
        let get = harness.expect_request();
        assert_eq!(get.field("last-event-id"), Some("1"));
        harness.respond_with_status(get.id, 409);
    }
    harness.advance(secs(4));
    let get = harness.expect_request();
    harness.start_event_stream(get.id);
    harness.receive_event(get.id, "2", &result_response(&request.body, tool_result()));
    assert_eq!(harness.expect_done(key), Ok(tool_result()));
}

// covers: SSE-021, HTTP-044
#[test]
fn temporary_failure_with_rpc_error_body_is_retried() {
    let respond_with_failure = |status: u16, request: &SentRequest, harness: &mut HttpClientHarness| {
        let body = error_response(&json!({"id": null}), -32603, "in a moment", Value::Null).to_string();
        harness.respond(request.id, status, JSON, &body);
    };
    for status in [408, 429, 500, 502, 503, 504] {
        let mut harness = legacy_harness(Chunker::Whole);
        let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
        harness.break_connection(get);
        harness.advance(secs(1));
        let get = harness.expect_request();
        respond_with_failure(status, &get, &mut harness);
        harness.advance(secs(2));
        let get = harness.expect_request();
        harness.start_event_stream(get.id);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, "id: 1\ndata:\n\n");
        harness.break_connection(request.id);
        harness.advance(secs(1));
        let get = harness.expect_request();
        respond_with_failure(status, &get, &mut harness);
        harness.advance(secs(2));
        let get = harness.expect_request();
        harness.start_event_stream(get.id);
        harness.receive_event(get.id, "2", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        // A call is retried when the status says that it has not run; otherwise the error is its outcome.
        let (key, request) = harness.start_wave_call(&non_retryable().idempotent());
        respond_with_failure(status, &request, &mut harness);
        if matches!(status, 408 | 429 | 503) {
            harness.advance(secs(1));
            let again = harness.expect_post("tools/call");
            harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
            assert_eq!(harness.expect_done(key), Ok(tool_result()));
        } else {
            assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32603));
        }
        harness.assert_idle();
    }
}

// covers: HTTP-049 (a server without a GET stream)
#[test]
fn subscription_without_get_stream_ends_with_an_error() {
    for status in [400, 401, 404, 405] {
        let mut harness = legacy_harness(Chunker::Whole);
        let initialized = harness.initialize_legacy(V, None, json!({"tools": {"listChanged": true}}));
        harness.respond_with_status(initialized.id, 202);
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let early = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
        assert!(matches!(harness.expect_event(), Event::Subscribed { key, .. } if key == early));
        let get = harness.expect_request();
        harness.respond_with_status(get.id, status);
        let expect_subscription_ended =
            |harness: &mut HttpClientHarness, followed| match harness.expect_event() {
                Event::SubscriptionEnded { key, error: Some(error), .. } => {
                    assert!(key == followed && error.to_string().contains(&status.to_string()), "{error}");
                }
                other => panic!("expected the end of the subscription, got {other:?}"),
            };
        expect_subscription_ended(&mut harness, early);
        // A later subscription ends in the same way.
        let late = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
        assert!(matches!(harness.expect_event(), Event::Subscribed { key, .. } if key == late));
        expect_subscription_ended(&mut harness, late);
        // Calls are not affected.
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.assert_idle();
    }
}

// covers: SSE-026, HTTP-049 (405 to one that was open)
#[test]
fn reopening_honours_retry_after_and_stops_at_405() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, None, json!({"tools": {"listChanged": true}}));
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    let followed = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    assert!(matches!(harness.expect_event(), Event::Subscribed { key, .. } if key == followed));
    harness.break_connection(get);
    harness.advance(secs(1));
    let get = harness.expect_request();
    harness.respond_with(get.id, 503, &[("Retry-After", "7")], "");
    harness.advance(secs(7) - ms(1));
    harness.assert_idle();
    harness.advance(ms(1));
    let get = harness.expect_request();
    // A number that is certainly wrong is not taken for decades.
    harness.respond_with(get.id, 503, &[("Retry-After", "999999999")], "");
    harness.advance(secs(3_600) - ms(1));
    harness.assert_idle();
    harness.advance(ms(1));
    let get = harness.expect_request();
    harness.respond_with_status(get.id, 405);
    // The subscription ends with an error instead of waiting forever.
    match harness.expect_event() {
        Event::SubscriptionEnded { key, error: Some(error), .. } => {
            assert!(key == followed && error.to_string().contains("405"), "{error}");
        }
        other => panic!("expected the end of the subscription, got {other:?}"),
    }
    let text = describe_diagnostic(harness.expect_diagnostic());
    assert!(text.contains("405"), "{text}");
    harness.advance(secs(1_000));
    harness.assert_idle();
}

// covers: SSE-014 (broken), SSE-021
#[test]
fn repeated_event_id_does_not_hide_a_message() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        harness.become_legacy(V, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        for id in ["a", "b"] {
            harness.receive_event(request.id, id, &notification("x/y", Value::Null));
            assert!(matches!(harness.expect_event(), Event::Notification(_)));
        }
        harness.receive_event(request.id, "a", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.transcript
    });
}

// covers: SSE-001 (whatever its length)
#[test]
fn oversized_event_of_unknown_type_is_ignored() {
    for_each_chunker(|cut| {
        let config = client(VersionSet::MODERN).limits(limits(|l| l.max_frame = 1_000));
        let mut harness = HttpClientHarness::new(config, HttpClientHarness::default_http_config(), cut);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        let long = "x".repeat(2_000);
        harness
            .receive_body(request.id, format!("event: other\ndata: {{\"id\":1,\"result\":\"{long}\"}}\n\n"));
        harness.assert_idle();
        let done = json!({"resultType": "complete", "content": []});
        harness.receive_event(request.id, "", &result_response(&request.body, done.clone()));
        assert_eq!(harness.expect_done(key), Ok(done));
        harness.transcript
    });
}

// covers: HTTP-051 (broken)
#[test]
fn exchange_is_aborted_when_its_call_is_answered_elsewhere() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
        for streams in [false, true] {
            let (key, request) = harness.start_wave_call(&non_retryable());
            if streams {
                harness.start_event_stream(request.id);
            }
            harness.receive_event(get, "", &result_response(&request.body, tool_result()));
            assert_eq!(harness.expect_done(key), Ok(tool_result()));
            harness.advance(secs(5));
            assert_eq!(harness.expect_aborted(), request.id, "its call has ended");
        }
        harness.assert_idle();
        harness.transcript
    });
}

#[test]
fn oversized_notification_on_the_stream_of_a_call_leaves_the_call_open() {
    for_each_chunker(|cut| {
        let config = client(VersionSet::MODERN).limits(limits(|l| l.max_frame = 1_000));
        let mut harness = HttpClientHarness::new(config, HttpClientHarness::default_http_config(), cut);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_event(request.id, "", &notification("x/y", json!({"text": "x".repeat(2_000)})));
        let reason = MalformedMessage::TooLong { limit: 1_000 };
        assert_eq!(harness.expect_diagnostic(), Diagnostic::Malformed { reason, id: None, answered: false });
        let done = json!({"resultType": "complete", "content": []});
        harness.receive_event(request.id, "", &result_response(&request.body, done.clone()));
        assert_eq!(harness.expect_done(key), Ok(done));
        harness.transcript
    });
}
