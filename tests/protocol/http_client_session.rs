//! HTTP client with a legacy server: sessions, the GET stream, broken and resumed streams, lost sessions.

use mcp_proto::client::Event;
use mcp_proto::http::client::{Credential, ReconnectPolicy};
use mcp_proto::model::LoggingLevel;
use mcp_proto::{CallError, CallOptions, Diagnostic, Fault, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, initialize_result, legacy_request, notification, result_response,
};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs};
use crate::protocol::http_client_shared::{
    V, expect_http_error, legacy_harness, non_retryable, tool_capabilities, tool_result,
};

fn assert_get(request: &SentRequest) -> &SentRequest {
    assert_eq!((request.method, request.field("Accept")), ("GET", Some("text/event-stream")));
    assert!(request.body.is_null() && request.field("content-type").is_none());
    request
}

// covers: HTTP-014, HTTP-015, HTTP-067, HTTP-076, VER-039, BATCH-009 (none is sent)
#[test]
fn requests_carry_session_and_version_headers_of_their_revision() {
    for version in LEGACY_VERSIONS {
        for session in [None, Some("s-1!~")] {
            let mut harness = legacy_harness(Chunker::Whole);
            let initialized = harness.initialize_legacy(version, session, tool_capabilities());
            let version_header = (version >= Version::V2025_06_18).then_some(version.as_str());
            let check = |request: &SentRequest| {
                assert_eq!(request.field("mcp-session-id"), session);
                assert_eq!(request.field("mcp-protocol-version"), version_header);
                assert!(request.field("mcp-method").is_none() && request.field("mcp-name").is_none());
                assert!(request.field("last-event-id").is_none());
            };
            check(&initialized);
            harness.respond_with_status(initialized.id, 202);
            let get = harness.expect_request();
            check(assert_get(&get));
            harness.respond_with_status(get.id, 405);
            let (key, request) = harness.start_wave_call(&non_retryable());
            check(&request);
            assert_eq!(request.field("accept"), Some("application/json, text/event-stream"));
            harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
            assert_eq!(harness.expect_done(key), Ok(tool_result()));
            harness.client.close(harness.now);
            assert_eq!(harness.expect_closed(), Fault::Closed);
            match session {
                None => harness.assert_nothing_sent(),
                Some(_) => {
                    let end = harness.expect_request();
                    assert_eq!((end.method, end.field("accept")), ("DELETE", None));
                    check(&end);
                    assert!(!harness.client.is_drained());
                    harness.respond_with_status(end.id, 405);
                }
            }
            assert!(harness.client.is_drained());
        }
    }
}

// covers: HTTP-068, SEC-019
#[test]
fn session_id_is_hidden_in_debug_output() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("s3cret"), tool_capabilities());
    let shown = format!("{:?}", harness.client);
    assert!(shown.contains("SessionId(…)"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains(&format!("{:?}", b"s3cret")), "{shown}");
}

// covers: HTTP-066 (client side)
#[test]
fn invalid_session_id_is_not_sent_back() {
    for bad in ["", "a b", "\u{e9}", &"x".repeat(2_000)] {
        let mut harness = legacy_harness(Chunker::Whole);
        let probe = harness.expect_request();
        harness.respond_with_status(probe.id, 404);
        let request = harness.expect_post("initialize");
        let body = result_response(&request.body, initialize_result("2025-11-25", json!({}))).to_string();
        harness.observer.record_fed(
            harness.now,
            mcp_tests::schema::MessageDirection::ServerToClient,
            body.as_bytes(),
        );
        let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", bad)];
        harness.respond_with(request.id, 200, &fields, &body);
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)));
        harness.expect_ready();
        assert_eq!(harness.expect_post("notifications/initialized").field("mcp-session-id"), None);
    }
}

// covers: LIFE-004, HTTP-047, HTTP-048, HTTP-050 (client side)
#[test]
fn calls_wait_until_the_get_stream_is_open() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let initialized = harness.initialize_legacy(V, Some("s"), tool_capabilities());
        let key = harness.call("tools/call", &json!({"name": "wave", "arguments": {}}), &non_retryable());
        harness.assert_nothing_sent();
        harness.respond_with_status(initialized.id, 202);
        let get = harness.expect_request();
        assert_get(&get);
        harness.assert_nothing_sent();
        harness.start_event_stream(get.id);
        let request = harness.expect_post("tools/call");
        // The input request for the call arrives on the GET stream.
        harness.receive_event(get.id, "", &legacy_request(7, "roots/list", Value::Null));
        let Event::Input(input) = harness.expect_event() else { panic!("an input") };
        harness.client.engine().answer(harness.now, input.id, &json!({"roots": []})).expect("answered");
        let reply = harness.expect_request();
        assert_eq!(reply.body, json!({"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}));
        assert_eq!(reply.field("mcp-session-id"), Some("s"));
        harness.respond_with_status(reply.id, 202);
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: HTTP-049 (405, client side)
#[test]
fn missing_get_stream_does_not_block_calls() {
    for failure in ["404", "405", "400", "500", "broken", "silent", "page"] {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(cut);
            let initialized = harness.initialize_legacy(V, Some("s"), tool_capabilities());
            harness.respond_with_status(initialized.id, 200);
            let get = harness.expect_request();
            assert_get(&get);
            harness.call("tools/list", &json!({}), &non_retryable());
            match failure {
                "broken" => harness.break_connection(get.id),
                "silent" => {
                    harness.advance(secs(2) - ms(1));
                    harness.assert_nothing_sent();
                    harness.advance(ms(1));
                }
                "page" => harness.respond(get.id, 200, "text/html", "<p>"),
                status => harness.respond_with_status(get.id, status.parse().expect("a number")),
            }
            harness.expect_post("tools/list");
            harness.advance(ms(1));
            harness.assert_idle();
            harness.transcript
        });
    }
}

#[test]
fn get_stream_can_be_disabled() {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::LEGACY),
        HttpClientHarness::default_http_config().open_get_stream(false),
        Chunker::Whole,
    );
    let initialized = harness.initialize_legacy(V, None, tool_capabilities());
    harness.respond_with_status(initialized.id, 202);
    harness.assert_idle();
    harness.start_wave_call(&non_retryable());
}

// covers: HTTP-019
#[test]
fn rejected_initialized_is_reported_and_ignored() {
    let mut harness = legacy_harness(Chunker::Whole);
    let initialized = harness.initialize_legacy(V, None, tool_capabilities());
    harness.respond_with_status(initialized.id, 500);
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)));
    let get = harness.expect_request();
    harness.respond_with_status(get.id, 405);
    harness.start_wave_call(&non_retryable());
}

// covers: HTTP-063, CANC-003
#[test]
fn cancelled_call_is_announced_and_its_exchange_aborted() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.start_event_stream(request.id);
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    let requests = harness.take_requests();
    assert_eq!(requests[0].body["method"], "notifications/cancelled");
    assert_eq!(requests[0].body["params"]["requestId"], request.body["id"]);
    assert_eq!(harness.expect_aborted(), request.id);
    harness.respond_with_status(requests[0].id, 202);
    harness.assert_idle();
}

// covers: BATCH-001
#[test]
fn response_in_an_array_is_accepted_only_in_2025_03_26() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        harness.become_legacy(Version::V2025_03_26, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_json(request.id, 200, &json!([result_response(&request.body, tool_result())]));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.assert_idle();
        harness.transcript
    });
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_json(request.id, 200, &json!([result_response(&request.body, tool_result())]));
    harness.take_diagnostics();
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::Unanswered { status: 200 });
}

// ---- streams that break --------------------------------------------------------------------------------------

// covers: SSE-004, SSE-019, SSE-020, SSE-021
#[test]
fn polled_call_resumes_from_last_event_id() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, "id: 1-0\nretry: 500\ndata: \n\n");
        harness.receive_end(request.id);
        harness.assert_idle();
        for (id, next) in [("1-0", "1-1"), ("1-1", "1-2"), ("1-2", "1-3")] {
            harness.advance(ms(499));
            harness.assert_idle();
            harness.advance(ms(1));
            let get = harness.expect_request();
            assert_get(&get);
            assert_eq!(get.field("last-event-id"), Some(id));
            assert_eq!(get.field("mcp-session-id"), Some("s"));
            harness.start_event_stream(get.id);
            if next == "1-3" {
                harness.receive_event(get.id, next, &result_response(&request.body, tool_result()));
                assert_eq!(harness.expect_done(key), Ok(tool_result()));
                harness.receive_end(get.id);
            } else {
                harness.receive_body(get.id, format!("id: {next}\ndata:\n\n"));
                if next == "1-1" { harness.receive_end(get.id) } else { harness.break_connection(get.id) }
            }
        }
        harness.advance(secs(60));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: SSE-021, SSE-026
#[test]
fn call_stream_cut_at_any_byte_is_resumed_or_lost() {
    let head = "id: a\ndata:\n\n";
    let event = "id: b\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}\n\n";
    for cut in 0..=head.len() + event.len() {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, &format!("{head}{event}")[..cut]);
        harness.break_connection(request.id);
        let is_complete = cut == head.len() + event.len();
        if is_complete {
            assert!(matches!(harness.expect_event(), Event::Notification(_)));
        }
        if cut < head.len() {
            assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }), "{cut}");
            continue;
        }
        harness.assert_idle();
        harness.advance(secs(1));
        let get = harness.expect_request();
        assert_eq!(get.field("last-event-id"), Some(if is_complete { "b" } else { "a" }));
        harness.start_event_stream(get.id);
        // The server sends the received event again: the client drops it.
        harness.receive_body(get.id, event);
        if !is_complete {
            assert!(matches!(harness.expect_event(), Event::Notification(_)));
        }
        harness.assert_idle();
        harness.receive_event(get.id, "", &notification("x/z", Value::Null));
        assert!(
            matches!(harness.expect_event(), Event::Notification(_)),
            "an event without an id is always new"
        );
        harness.receive_event(get.id, "c", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
    }
}

// covers: SSE-026
#[test]
fn call_is_lost_when_resumption_fails() {
    for failure in ["400", "404", "405", "page", "empty", "down"] {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(cut);
            harness.become_legacy(V, None, tool_capabilities());
            let (key, request) = harness.start_wave_call(&non_retryable());
            harness.start_event_stream(request.id);
            harness.receive_body(request.id, "id: 1\ndata:\n\n");
            harness.break_connection(request.id);
            harness.advance(secs(1));
            let mut get = harness.expect_request();
            match failure {
                "page" => harness.respond(get.id, 200, "text/html", "<p>"),
                "empty" | "down" => {
                    for pause in [2, 4, 8, 16] {
                        if failure == "down" {
                            harness.refuse_connection(get.id);
                        } else {
                            // Servers that have lost the stream may answer with one that ends immediately.
                            harness.start_event_stream(get.id);
                            harness.receive_end(get.id);
                        }
                        harness.assert_idle();
                        harness.advance(secs(pause));
                        get = harness.expect_request();
                        assert_eq!(get.field("last-event-id"), Some("1"));
                    }
                    harness.start_event_stream(get.id);
                    harness.receive_end(get.id);
                }
                status => harness.respond_with_status(get.id, status.parse().expect("a number")),
            }
            assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
            harness.advance(secs(100));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: SSE-019
#[test]
fn call_waiting_to_resume_completes_when_answered_elsewhere() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, "id: 1\ndata:\n\n");
        harness.receive_end(request.id);
        harness.receive_event(get, "2", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        // No stream is opened for a call that has been answered.
        harness.advance(secs(60));
        harness.assert_idle();
        // None is opened after close either.
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, "id: 3\ndata:\n\n");
        harness.receive_end(request.id);
        harness.client.close(harness.now);
        assert_eq!(harness.expect_aborted(), get);
        assert_eq!(harness.expect_done(key), Err(CallError::Closed(Fault::Closed)));
        harness.expect_closed();
        harness.advance(secs(60));
        harness.assert_idle();
        assert!(harness.client.is_drained());
        harness.transcript
    });
}

// covers: SSE-020, SSE-021, SSE-026
#[test]
fn get_stream_is_reopened_while_it_delivers_messages() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let mut get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
        for round in 0..8 {
            harness.receive_event(get, &format!("e{round}"), &notification("x/y", Value::Null));
            assert!(matches!(harness.expect_event(), Event::Notification(_)));
            if round % 2 == 0 {
                harness.break_connection(get)
            } else {
                harness.receive_end(get)
            }
            harness.advance(secs(1));
            let again = harness.expect_request();
            assert_eq!(again.field("last-event-id"), Some(&*format!("e{round}")));
            harness.start_event_stream(again.id);
            get = again.id;
        }
        // Priming events alone do not count: a server that lost its state may send them forever.
        harness.receive_body(get, "id: p0\ndata:\n\n");
        harness.receive_end(get);
        for (round, pause) in [2, 4, 8, 16].into_iter().enumerate() {
            harness.advance(secs(pause) - ms(1));
            harness.assert_idle();
            harness.advance(ms(1));
            let again = harness.expect_request();
            assert_eq!(again.field("last-event-id"), Some(&*format!("p{round}")));
            harness.start_event_stream(again.id);
            harness.receive_body(again.id, format!("id: p{}\ndata:\n\n", round + 1));
            harness.receive_end(again.id);
        }
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)), "reported once");
        harness.advance(secs(1_000));
        harness.assert_idle();
        harness.start_wave_call(&non_retryable());
        harness.transcript
    });
}

#[test]
fn long_lived_silent_get_stream_is_reopened() {
    let mut harness = legacy_harness(Chunker::Whole);
    let mut get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    for _ in 0..20 {
        // A proxy may cut streams that are silent for a minute.
        harness.advance(secs(60));
        harness.break_connection(get);
        harness.advance(secs(1));
        get = harness.expect_request().id;
        harness.start_event_stream(get);
    }
    let mut harness = HttpClientHarness::new(
        client(VersionSet::LEGACY),
        HttpClientHarness::default_http_config()
            .reconnect(ReconnectPolicy { max_attempts: 0, ..ReconnectPolicy::default() }),
        Chunker::Whole,
    );
    let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    harness.break_connection(get);
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)));
    harness.advance(secs(100));
    harness.assert_idle();
}

// covers: HTTP-009
#[test]
fn idempotent_legacy_call_is_retried() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable().idempotent());
    harness.break_connection(request.id);
    harness.advance(secs(1));
    let again = harness.expect_post("tools/call");
    assert_ne!(again.body["id"], request.body["id"]);
    assert_eq!(again.body["params"], request.body["params"]);
    harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
    assert_eq!(harness.expect_done(key), Ok(tool_result()));
    // Any method is retried, also without params.
    for method in ["x/y", "resources/list", "x/\u{e9}"] {
        let (key, request) = harness.start_call(method, &json!({}), &non_retryable().idempotent());
        assert_eq!(request.body.get("params"), None);
        harness.break_connection(request.id);
        harness.advance(secs(1));
        let again = harness.expect_post(method);
        assert_eq!(again.body.get("params"), None);
        harness.respond_with_json(again.id, 200, &result_response(&again.body, json!({"resources": []})));
        assert!(harness.expect_done(key).is_ok());
    }
    let (key, request) = harness.start_call("x/\"y", &json!({}), &non_retryable().idempotent());
    harness.break_connection(request.id);
    harness.advance(secs(1));
    assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
}

// covers: SSE-021
#[test]
fn stream_is_not_resumed_after_an_id_that_does_not_fit_into_a_field() {
    for (id, fits) in
        [("a b", true), ("~!", true), ("a\u{1}", false), ("a\u{7f}", false), (" a", false), ("a ", false)]
    {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, format!("id: {id}\ndata:\n\n"));
        harness.break_connection(request.id);
        if fits {
            harness.advance(secs(1));
            assert_eq!(harness.expect_request().field("last-event-id"), Some(id));
        } else {
            assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }), "{id:?}");
        }
    }
}

// covers: SSE-014, SSE-021
#[test]
fn events_that_are_sent_again_on_a_resumed_stream_are_reported_once() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    let receive = |harness: &mut HttpClientHarness, get, ids: &[&str]| {
        for id in ids {
            harness.receive_event(get, id, &notification("x/y", json!({"id": id})));
        }
    };
    receive(&mut harness, get, &["a", "b", "c"]);
    harness.break_connection(get);
    harness.advance(secs(1));
    let get = harness.expect_request().id;
    harness.start_event_stream(get);
    receive(&mut harness, get, &["a", "b", "c", "d"]);
    let events: Vec<_> = (0..4).map(|_| harness.expect_event()).collect();
    assert!(events.iter().all(|event| matches!(event, Event::Notification(_))), "{events:?}");
    harness.assert_idle();
}

#[test]
fn call_whose_streams_break_is_repeated_five_times_whatever_they_bring() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, mut request) = harness.start_wave_call(&non_retryable().idempotent());
    for pause in [1, 2, 4, 8, 16, 0] {
        harness.start_event_stream(request.id);
        harness.receive_event(request.id, "", &notification("x/y", Value::Null));
        assert!(matches!(harness.expect_event(), Event::Notification(_)));
        harness.break_connection(request.id);
        if pause > 0 {
            harness.advance(secs(pause) - ms(1));
            harness.assert_idle();
            harness.advance(ms(1));
            request = harness.expect_post("tools/call");
        }
    }
    assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
    harness.assert_idle();
}

#[test]
fn call_whose_stream_cannot_be_resumed_is_repeated_five_times() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (key, mut request) = harness.start_wave_call(&non_retryable().idempotent().same_session());
    for pause in [1, 2, 4, 8, 16, 0] {
        harness.start_event_stream(request.id);
        harness.receive_event(request.id, "a", &notification("x/y", Value::Null));
        assert!(matches!(harness.expect_event(), Event::Notification(_)));
        harness.break_connection(request.id);
        harness.advance(secs(1));
        let get = harness.expect_request();
        assert_eq!((get.method, get.field("last-event-id")), ("GET", Some("a")));
        harness.respond_with_status(get.id, 400);
        if pause > 0 {
            harness.advance(secs(pause) - ms(1));
            harness.assert_idle();
            harness.advance(ms(1));
            let again = harness.expect_post("tools/call");
            assert_ne!(again.body["id"], request.body["id"]);
            request = again;
        }
    }
    assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
    harness.assert_idle();
}

// ---- lost sessions -------------------------------------------------------------------------------------------

/// Answers the `initialize` of a new session and opens its GET stream.
fn expect_session_renewed(harness: &mut HttpClientHarness, request: &SentRequest, session: &str) {
    assert_eq!(request.body["method"], "initialize");
    assert_eq!((request.field("mcp-session-id"), request.field("mcp-protocol-version")), (None, None));
    let body = result_response(&request.body, initialize_result(V.as_str(), tool_capabilities())).to_string();
    let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", session)];
    harness.respond_with(request.id, 200, &fields, &body);
    let initialized = harness.expect_post("notifications/initialized");
    assert_eq!(initialized.field("mcp-session-id"), Some(session));
    harness.respond_with_status(initialized.id, 202);
    let get = harness.expect_request();
    assert_eq!(get.field("mcp-session-id"), Some(session));
    assert_eq!(assert_get(&get).field("last-event-id"), None);
    harness.start_event_stream(get.id);
}

// covers: HTTP-072
#[test]
fn lost_session_is_renewed_and_unexecuted_calls_are_sent_again() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
        let (first, one) = harness.start_wave_call(&non_retryable());
        let (second, two) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(one.id, 404);
        let init = harness.expect_request();
        assert_eq!(harness.expect_aborted(), get);
        harness.respond_with_status(two.id, 404);
        // A call made meanwhile waits.
        let third = harness.call("tools/list", &json!({}), &non_retryable());
        harness.assert_nothing_sent();
        expect_session_renewed(&mut harness, &init, "two");
        let mut requests = harness.take_requests();
        assert_eq!(requests.len(), 3, "{requests:?}");
        for a in &requests {
            assert_eq!(a.field("mcp-session-id"), Some("two"));
        }
        assert_eq!((&requests[0].body, &requests[1].body), (&one.body, &two.body));
        let list = requests.pop().expect("three");
        harness.respond_with_json(requests[0].id, 200, &result_response(&one.body, tool_result()));
        harness.respond_with_json(requests[1].id, 200, &result_response(&two.body, tool_result()));
        harness.respond_with_json(list.id, 200, &result_response(&list.body, json!({"tools": []})));
        for key in [first, second] {
            assert_eq!(harness.expect_done(key), Ok(tool_result()));
        }
        assert!(harness.expect_done(third).is_ok());
        harness.assert_idle();
        harness.transcript
    });
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn calls_wait_until_set_level_is_answered() {
    let set_level_and_call = |harness: &mut HttpClientHarness| {
        harness.client.engine().set_log_level(harness.now, Some(LoggingLevel::Error)).expect("logging");
        let level = harness.expect_post("logging/setLevel");
        let key = harness.call("tools/list", &json!({}), &non_retryable());
        harness.advance(ms(1));
        harness.assert_nothing_sent();
        (level, key)
    };
    let assert_answered = |harness: &mut HttpClientHarness, key| {
        let request = harness.expect_post("tools/list");
        harness.respond_with_json(request.id, 200, &result_response(&request.body, json!({"tools": []})));
        assert!(harness.expect_done(key).is_ok());
    };
    // Over HTTP each message is its own exchange: a later one may arrive first.
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let (level, key) = set_level_and_call(&mut harness);
    harness.respond_with_json(level.id, 200, &result_response(&level.body, json!({})));
    assert_answered(&mut harness, key);
    // A failed `setLevel` releases the call too.
    let (level, key) = set_level_and_call(&mut harness);
    harness.respond_with_status(level.id, 500);
    assert_answered(&mut harness, key);
    // The wait is bounded by a timeout.
    let (_, key) = set_level_and_call(&mut harness);
    harness.advance(secs(2));
    assert_answered(&mut harness, key);
}

// covers: HTTP-072
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn renewed_session_restores_subscriptions_and_log_level() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let filter = mcp_proto::model::SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
    harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    harness.client.engine().set_log_level(harness.now, Some(LoggingLevel::Error)).expect("logging");
    for request in harness.take_requests() {
        harness.respond_with_json(request.id, 200, &result_response(&request.body, json!({})));
    }
    assert!(matches!(harness.expect_event(), Event::Subscribed { .. }));
    let (_, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    expect_session_renewed(&mut harness, &init, "two");
    let methods: Vec<String> = harness.take_requests().iter().map(|a| a.body["method"].to_string()).collect();
    for method in ["\"resources/subscribe\"", "\"logging/setLevel\"", "\"tools/call\""] {
        assert!(methods.contains(&method.to_string()), "{methods:?}");
    }
    harness.assert_idle();
}

// covers: HTTP-072
#[test]
fn possibly_executed_call_is_not_sent_again_in_renewed_session() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
        let (running, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, "id: 1\ndata:\n\n");
        harness.receive_event(request.id, "2", &legacy_request(9, "roots/list", Value::Null));
        let Event::Input(input) = harness.expect_event() else { panic!("an input") };
        harness.break_connection(request.id);
        harness.advance(secs(1));
        let resume = harness.expect_request();
        harness.respond_with_status(resume.id, 404);
        assert!(matches!(harness.expect_event(), Event::InputWithdrawn(id) if id == input.id));
        assert_eq!(expect_http_error(harness.expect_done(running)), HttpError::SessionLost);
        let init = harness.expect_request();
        harness.expect_aborted();
        expect_session_renewed(&mut harness, &init, "two");
        harness.assert_idle();
        harness.transcript
    });
}

// covers: HTTP-072
#[test]
fn session_is_renewed_at_most_once_per_call() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    expect_session_renewed(&mut harness, &init, "two");
    let again = harness.expect_post("tools/call");
    harness.respond_with_status(again.id, 404);
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost);
    assert!(matches!(harness.expect_closed(), Fault::Http(e) if *e == HttpError::SessionLost));

    for status in [400, 404, 500] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, Some("one"), tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(request.id, 404);
        let init = harness.expect_post("initialize");
        harness.respond_with_status(init.id, status);
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)));
        assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost);
        assert!(matches!(harness.expect_closed(), Fault::Http(_)));
        harness.assert_nothing_sent();
    }
}

// covers: HTTP-072
#[test]
fn call_and_notification_are_sent_in_one_more_session_however_productive_that_is() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
    let notice = harness.expect_post("x/y");
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_request();
    harness.respond_with_status(notice.id, 404);
    expect_session_renewed(&mut harness, &init, "two");
    let again = harness.take_requests();
    assert_eq!(again.iter().map(|got| &got.body).collect::<Vec<_>>(), [&request.body, &notice.body]);
    let (other, answered) = harness.start_wave_call(&non_retryable());
    harness.respond_with_json(answered.id, 200, &result_response(&answered.body, tool_result()));
    assert_eq!(harness.expect_done(other), Ok(tool_result()));
    harness.respond_with_status(again[0].id, 404);
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost);
    let init = harness.expect_request();
    harness.respond_with_status(again[1].id, 404);
    harness.expect_aborted();
    expect_session_renewed(&mut harness, &init, "three");
    harness.assert_nothing_sent();
}

// covers: HTTP-073
#[test]
fn message_in_flight_may_arrive_for_a_while_after_the_client_was_closed() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
    let notice = harness.expect_post("x/y");
    harness.client.close(harness.now);
    harness.advance(secs(5) - ms(1));
    harness.assert_nothing_sent();
    harness.advance(ms(1));
    assert_eq!(harness.expect_aborted(), notice.id);
}

// covers: HTTP-072 (and only then)
#[test]
fn status_404_without_a_session_fails_only_the_call() {
    let mut harness = legacy_harness(Chunker::Whole);
    let initialized = harness.initialize_legacy(V, Some("s"), tool_capabilities());
    harness.respond_with_status(initialized.id, 202);
    // A 404 to the first GET does not end the session.
    let get = harness.expect_request();
    harness.respond(get.id, 404, "text/html", "Cannot GET /mcp");
    harness.assert_idle();

    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Response(a) if a.status == 404));
    harness.assert_idle();
}

// covers: HTTP-067, HTTP-073
#[test]
fn delete_follows_redirects_in_its_session() {
    for status in [307, 308] {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(cut);
            harness.become_legacy(V, Some("s"), tool_capabilities());
            harness.client.close(harness.now);
            harness.expect_closed();
            let delete = harness.expect_request();
            assert_eq!((delete.method, delete.url.target()), ("DELETE", "/mcp"));
            harness.respond_with(delete.id, status, &[("Location", "/moved")], "moved");
            assert!(!harness.client.is_drained());
            let again = harness.expect_request();
            assert_eq!((again.method, again.url.target()), ("DELETE", "/moved"));
            assert_eq!(again.field("mcp-session-id"), Some("s"));
            assert_eq!(again.field("mcp-protocol-version"), Some("2025-11-25"));
            harness.respond_with_status(again.id, 204);
            assert_eq!(harness.client.poll_closing_diagnostic(), None);
            assert!(harness.client.is_drained());
            harness.transcript
        });
    }
}

// covers: HTTP-073, HTTP-074, HTTP-075, LIFE-019
#[test]
fn close_sends_delete_and_ignores_its_outcome() {
    for delete_outcome in ["204", "404", "405", "401", "307", "500", "broken", "silent"] {
        let mut harness = legacy_harness(Chunker::Whole);
        let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
        harness.client.close(harness.now);
        assert_eq!(harness.expect_aborted(), get);
        harness.expect_closed();
        let end = harness.expect_request();
        assert_eq!((end.method, end.field("mcp-session-id")), ("DELETE", Some("s")));
        match delete_outcome {
            "broken" => harness.break_connection(end.id),
            "silent" => {
                harness.advance(secs(5));
                assert_eq!(harness.expect_aborted(), end.id);
            }
            status => harness.respond_with_status(end.id, status.parse().expect("a number")),
        }
        assert!(harness.client.is_drained(), "{delete_outcome}");
        // A refusal is worth a word.
        let said = harness.client.poll_closing_diagnostic().map(|said| said.to_string());
        assert_eq!(said.is_some(), matches!(delete_outcome, "401" | "307" | "500"), "{delete_outcome}");
        assert!(said.is_none_or(|said| said.contains(delete_outcome)));
        assert_eq!(harness.client.poll_closing_diagnostic(), None);
        harness.advance(secs(60));
        harness.assert_idle();
    }
}

// covers: HTTP-075
#[test]
fn refusal_of_a_call_is_none_of_the_end_of_the_session() {
    for session in [None, Some("s")] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, session, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(request.id, 500);
        assert!(harness.expect_done(key).is_err());
        harness.client.close(harness.now);
        harness.expect_closed();
        if session.is_some() {
            let end = harness.expect_request();
            harness.break_connection(end.id);
        }
        assert!(harness.client.is_drained());
        assert_eq!(harness.client.poll_closing_diagnostic(), None, "{session:?}");
    }
}

// covers: HTTP-072
#[test]
fn call_that_is_meant_for_one_session_is_not_sent_in_the_next_one() {
    for options in [CallOptions::new(), CallOptions::new().idempotent()] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, Some("one"), tool_capabilities());
        assert_eq!(harness.client.engine().exchanges().lost_sessions(), 0);
        let (bound, first) = harness.start_wave_call(&options.clone().same_session());
        let (free, second) = harness.start_wave_call(&options);
        harness.respond_with_status(first.id, 404);
        harness.respond_with_status(second.id, 404);
        assert_eq!(expect_http_error(harness.expect_done(bound)), HttpError::SessionLost);
        let init = harness.expect_request();
        expect_session_renewed(&mut harness, &init, "two");
        let again = harness.expect_post("tools/call");
        assert_eq!((&again.body["id"], again.field("mcp-session-id")), (&second.body["id"], Some("two")));
        harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
        assert_eq!(harness.expect_done(free), Ok(tool_result()));
        assert_eq!(harness.client.engine().exchanges().lost_sessions(), 1);
        harness.assert_idle();
    }
    // One whose answer was lost is sent again in its session, but not in another one.
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (call, request) = harness.start_wave_call(&CallOptions::new().idempotent().same_session());
    let (other, second) = harness.start_wave_call(&CallOptions::new());
    harness.break_connection(request.id);
    harness.respond_with_status(second.id, 404);
    let init = harness.expect_request();
    expect_session_renewed(&mut harness, &init, "two");
    let again = harness.expect_post("tools/call");
    assert_eq!(again.body["id"], second.body["id"]);
    harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
    assert_eq!(harness.expect_done(other), Ok(tool_result()));
    harness.advance(secs(60));
    assert_eq!(expect_http_error(harness.expect_done(call)), HttpError::SessionLost);
    harness.assert_idle();
}

// covers: HTTP-072, HTTP-079
#[test]
fn call_that_is_meant_for_one_session_is_not_sent_in_the_next_one_after_a_wait_or_a_redirect() {
    let config = HttpClientHarness::default_http_config().handle_challenges(true);
    let mut harness = HttpClientHarness::new(client(VersionSet::LEGACY), config, Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let options = CallOptions::new();
    let (bound, first) = harness.start_wave_call(&options.clone().same_session());
    let (free, second) = harness.start_wave_call(&options);
    let (moved, third) = harness.start_wave_call(&options.clone().same_session());
    let (other, fourth) = harness.start_wave_call(&options);
    for request in [&first, &second] {
        harness.respond_with(request.id, 401, &[("WWW-Authenticate", "Bearer")], "");
    }
    let challenge = harness.expect_challenge();
    harness.respond_with_status(fourth.id, 404);
    let init = harness.expect_request();
    expect_session_renewed(&mut harness, &init, "two");
    let again = harness.expect_post("tools/call");
    harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
    assert_eq!(harness.expect_done(other), Ok(tool_result()));
    harness.respond_with(third.id, 307, &[("Location", "/moved")], "");
    assert_eq!(expect_http_error(harness.expect_done(moved)), HttpError::SessionLost);
    let credential = Credential::bearer("t").expect("a token");
    let mut authorization = harness.client.authorization();
    authorization.authorize(harness.now, challenge.exchange, credential).expect("an open challenge");
    assert_eq!(expect_http_error(harness.expect_done(bound)), HttpError::SessionLost);
    let again = harness.expect_post("tools/call");
    assert_eq!((&again.body["id"], again.field("mcp-session-id")), (&second.body["id"], Some("two")));
    harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
    assert_eq!(harness.expect_done(free), Ok(tool_result()));
    harness.assert_idle();
    // In its own session it is sent again.
    let (bound, request) = harness.start_wave_call(&options.same_session());
    harness.respond_with(request.id, 307, &[("Location", "/moved")], "");
    let again = harness.expect_post("tools/call");
    assert_eq!((again.url.target(), again.field("mcp-session-id")), ("/moved", Some("two")));
    harness.respond_with_json(again.id, 200, &result_response(&again.body, tool_result()));
    assert_eq!(harness.expect_done(bound), Ok(tool_result()));
}
