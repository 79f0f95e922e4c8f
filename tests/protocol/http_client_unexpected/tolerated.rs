//! Deviations of servers that the client tolerates.

use mcp_proto::{CallError, Diagnostic, Fault, VersionSet};
use mcp_tests::harness::build::{error_response, initialize_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs};
use crate::protocol::http_client_shared::{
    JSON, V, legacy_harness, modern_harness, non_retryable, tool_capabilities, tool_result,
};

// covers: HTTP-064, HTTP-067, HTTP-040 (client side)
#[test]
fn session_id_is_taken_only_from_initialize() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("s"), tool_capabilities());
    for _ in 0..2 {
        let (key, request) = harness.start_wave_call(&non_retryable());
        assert_eq!(request.field("mcp-session-id"), Some("s"));
        let fields = [("content-type", JSON), ("mcp-session-id", "other")];
        harness.respond_with(
            request.id,
            200,
            &fields,
            &result_response(&request.body, tool_result()).to_string(),
        );
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
    }
    let mut harness = modern_harness(Chunker::Whole);
    for _ in 0..2 {
        let (key, request) = harness.start_wave_call(&non_retryable());
        assert_eq!(request.field("mcp-session-id"), None);
        let fields = [("content-type", JSON), ("mcp-session-id", "s")];
        let done = json!({"resultType": "complete", "content": []});
        harness.respond_with(request.id, 200, &fields, &result_response(&request.body, done).to_string());
        assert!(harness.expect_done(key).is_ok());
    }
    harness.client.close(harness.now);
    harness.expect_closed();
    harness.assert_nothing_sent();
}

// covers: HTTP-022, SSE-002
#[test]
fn content_types_and_byte_order_marks_are_read_leniently() {
    for (content_type, text) in [
        ("Application/JSON ; charset=UTF-8", "MESSAGE"),
        ("TEXT/Event-Stream;x=y", "data: MESSAGE\n\n"),
        ("text/event-stream", "\u{feff}event: message\rdata:MESSAGE\r\r"),
        (JSON, "\u{feff} \r\n\tMESSAGE \n"),
    ] {
        for_each_chunker(|cut| {
            let mut harness = modern_harness(cut);
            let (key, request) = harness.start_wave_call(&non_retryable());
            let done = json!({"resultType": "complete", "content": []});
            let text = text.replace("MESSAGE", &result_response(&request.body, done.clone()).to_string());
            harness.respond(request.id, 200, content_type, &text);
            assert_eq!(harness.expect_done(key), Ok(done), "{content_type}");
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: HTTP-082
#[test]
fn any_success_accepts_a_notification_and_no_other_media_type_is_read_as_a_message() {
    for (status, content_type, body) in [
        (200, JSON, "{}"),
        (200, "text/html", "<p>ok"),
        (201, "", ""),
        (202, JSON, "null"),
        (204, "", ""),
        (299, "", "x"),
    ] {
        let mut harness = legacy_harness(Chunker::Whole);
        let initialized = harness.initialize_legacy(V, None, tool_capabilities());
        harness.respond(initialized.id, status, content_type, body);
        let get = harness.expect_request();
        harness.respond_with_status(get.id, 405);
        harness.assert_idle();
    }
    for content_type in
        ["application/json-seq", "application/jsonp", "application/x-json", "text/event-streams", "json"]
    {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = harness.start_wave_call(&non_retryable());
        let message = result_response(&request.body, json!({"resultType": "complete", "content": []}));
        harness.respond(request.id, 200, content_type, &format!("data: {message}\n\n"));
        assert!(harness.expect_done(key).is_err(), "{content_type}");
    }
}

// covers: TIME-001, TIME-002
#[test]
fn endless_response_ends_at_the_call_timeout() {
    for response in ["silent", "json", "comments", "page"] {
        let mut harness = legacy_harness(Chunker::Whole);
        harness.become_legacy(V, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        match response {
            "json" => harness.receive_head(request.id, 200, &[("content-type", JSON)]),
            "page" => harness.receive_head(request.id, 500, &[("content-type", "text/html")]),
            "comments" => harness.start_event_stream(request.id),
            _ => {}
        }
        for _ in 0..59 {
            match response {
                "json" | "page" => harness.receive_body(request.id, " "),
                "comments" => harness.receive_body(request.id, ": still there\n\n"),
                _ => {}
            }
            harness.advance(secs(1));
        }
        harness.assert_idle();
        harness.advance(secs(1));
        assert_eq!(harness.expect_done(key), Err(CallError::TimedOut), "{response}");
        assert_eq!(
            harness.expect_post("notifications/cancelled").body["params"]["requestId"],
            request.body["id"]
        );
        assert_eq!(harness.expect_aborted(), request.id);
    }
}

// covers: HTTPSSE-002, HTTPSSE-013
#[test]
fn only_the_first_endpoint_event_counts() {
    let mut harness = legacy_harness(Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let request = harness.expect_post(method);
        harness.respond_with_status(request.id, 405);
    }
    let get = harness.expect_request();
    harness.start_event_stream(get.id);
    harness.receive_body(get.id, "event: endpoint\ndata: http://tide.example:3000/one?x=1\n\n");
    let request = harness.expect_post("initialize");
    harness.receive_body(get.id, "event: endpoint\ndata: http://evil.example/two\n\n");
    harness.respond_with_status(request.id, 202);
    harness.receive_event(
        get.id,
        "",
        &result_response(&request.body, initialize_result("2024-11-05", tool_capabilities())),
    );
    harness.expect_ready();
    assert_eq!(harness.expect_post("notifications/initialized").url.target(), "/one?x=1");
}

// covers: HTTP-073, LIFE-019
#[test]
fn close_works_in_every_phase() {
    let assert_drains = |mut harness: HttpClientHarness| {
        harness.advance(secs(5));
        assert!(harness.client.is_drained(), "{:?}", harness.client);
        harness.advance(secs(100));
    };
    // During the probe.
    let mut opening = legacy_harness(Chunker::Whole);
    let probe = opening.expect_post("server/discover");
    opening.client.close(opening.now);
    assert_eq!(opening.expect_aborted(), probe.id);
    opening.expect_closed();
    opening.assert_nothing_sent();
    assert_drains(opening);
    // During `initialize`.
    let mut making = legacy_harness(Chunker::Whole);
    let probe = making.expect_post("server/discover");
    making.respond_with_status(probe.id, 404);
    let init = making.expect_post("initialize");
    making.receive_head(init.id, 200, &[("content-type", JSON), ("mcp-session-id", "s")]);
    making.client.close(making.now);
    assert_eq!(making.expect_aborted(), init.id);
    making.expect_closed();
    assert_eq!(
        making.expect_request().field("mcp-session-id"),
        Some("s"),
        "the session is ended at the server"
    );
    assert_drains(making);
    // While calls wait for the GET stream.
    let mut waiting = legacy_harness(Chunker::Whole);
    let initialized = waiting.initialize_legacy(V, Some("s"), tool_capabilities());
    let key = waiting.call("tools/list", &json!({}), &non_retryable());
    waiting.client.close(waiting.now);
    assert_eq!(waiting.expect_done(key), Err(CallError::Closed(Fault::Closed)));
    waiting.expect_closed();
    assert_eq!(waiting.expect_request().method, "DELETE");
    waiting.respond_with_status(initialized.id, 202);
    waiting.assert_nothing_sent();
    assert_drains(waiting);
    // During the renewal of the session.
    let mut renewing = legacy_harness(Chunker::Whole);
    renewing.become_legacy(V, Some("s"), tool_capabilities());
    let (key, request) = renewing.start_wave_call(&non_retryable());
    renewing.respond_with_status(request.id, 404);
    let init = renewing.expect_post("initialize");
    renewing.client.engine().notify(renewing.now, "x/y", None::<&Value>).expect("a notification");
    renewing.client.close(renewing.now);
    assert_eq!(renewing.expect_aborted(), init.id);
    assert_eq!(renewing.expect_done(key), Err(CallError::Closed(Fault::Closed)));
    renewing.expect_closed();
    renewing.assert_nothing_sent();
    assert_drains(renewing);
}

// covers: CANC-012 (an answer that comes twice)
#[test]
fn second_response_is_ignored() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_event(request.id, "1", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.receive_event(request.id, "2", &error_response(&request.body, -32000, "no", Value::Null));
        harness.assert_idle();
        harness.receive_event(get, "3", &result_response(&request.body, tool_result()));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        harness.receive_end(request.id);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: HTTP-081
#[test]
fn interim_response_is_ignored() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, request) = harness.start_wave_call(&non_retryable());
        for status in [100, 103, 199] {
            harness.receive_head(request.id, status, &[("Link", "</style.css>; rel=preload")]);
        }
        let done = json!({"resultType": "complete", "content": []});
        harness.respond_with_json(request.id, 200, &result_response(&request.body, done.clone()));
        assert_eq!(harness.expect_done(key), Ok(done));
        harness.transcript
    });
}

#[test]
fn body_is_not_wanted_while_more_than_two_frames_wait_or_events_are_not_taken() {
    let config = client(VersionSet::MODERN).limits(limits(|l| l.max_frame = 1_000));
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    let (_, request) = harness.start_wave_call(&non_retryable());
    assert!(harness.client.wants_body(request.id), "there is no stream");
    harness.start_event_stream(request.id);
    let now = harness.now;
    for (length, wants_more) in [(2_000, true), (1, false)] {
        harness.client.handle_body(now, request.id, &vec![b':'; length]);
        assert_eq!(harness.client.wants_body(request.id), wants_more);
    }
    harness.receive_body(request.id, "\n");
    assert!(harness.client.wants_body(request.id), "it was a comment");
}

#[test]
fn deadline_of_a_call_is_told_without_that_for_idle_buffers() {
    let mut harness = modern_harness(Chunker::Whole);
    assert_eq!(harness.client.poll_timeout_without_trim(), None);
    assert!(harness.client.poll_timeout().is_some(), "buffers are freed later");
    harness.start_wave_call(&non_retryable().timeout(secs(7)));
    assert_eq!(harness.client.poll_timeout_without_trim(), Some(harness.now + secs(7)));
}
