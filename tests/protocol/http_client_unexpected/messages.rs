//! Messages that a server does not accept, and subscriptions that end immediately.

use mcp_proto::client::Event;
use mcp_proto::http::client::ExchangeId;
use mcp_proto::model::SubscriptionFilter;
use mcp_tests::harness::build::{legacy_request, notification, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{ms, secs};
use crate::protocol::http_client_shared::{
    V, describe_diagnostic, legacy_harness, modern_harness, non_retryable, tool_capabilities, tool_result,
};

// covers: SUB-004, SUB-015
#[test]
fn subscription_that_ends_at_once_is_requested_with_growing_delay() {
    let mut harness = modern_harness(Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    let mut is_renewed = false;
    let mut acknowledge = |harness: &mut HttpClientHarness| {
        let listen = harness.expect_post("subscriptions/listen");
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.body["id"]});
        harness.start_event_stream(listen.id);
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        harness.receive_event(
            listen.id,
            "",
            &notification("notifications/subscriptions/acknowledged", params),
        );
        assert!(matches!(harness.expect_event(), Event::Subscribed { .. }));
        if core::mem::replace(&mut is_renewed, true) {
            assert!(matches!(harness.expect_event(), Event::Changed { .. }));
        }
        (listen.id, meta)
    };
    for pause in [1, 2, 4, 8, 16, 16, 16, 16] {
        let (listen, _) = acknowledge(&mut harness);
        harness.receive_end(listen);
        harness.advance(secs(pause) - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
    }
    let (listen, meta) = acknowledge(&mut harness);
    harness.receive_event(
        listen,
        "",
        &notification("notifications/tools/list_changed", json!({"_meta": meta})),
    );
    assert!(matches!(harness.expect_event(), Event::Changed { .. }));
    harness.receive_end(listen);
    harness.advance(secs(1));
    // A long-lived stream resets the delay, even without any change.
    for _ in 0..3 {
        let (listen, _) = acknowledge(&mut harness);
        harness.advance(secs(60));
        harness.break_connection(listen);
        harness.advance(secs(1));
    }
    acknowledge(&mut harness);
}

/// Records a ping whose answer was not accepted: it is still open at the server.
fn record_ping(harness: &mut HttpClientHarness, id: i64) {
    let ping = legacy_request(id, "ping", Value::Null).to_string();
    let direction = mcp_tests::schema::MessageDirection::ServerToClient;
    harness.observer.record_fed(harness.now, direction, ping.as_bytes());
}

// covers: HTTP-019
#[test]
fn rejected_message_is_sent_again() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
        harness.receive_event(get, "", &legacy_request(5, "ping", Value::Null));
        let reply = harness.expect_request();
        harness.refuse_connection(reply.id);
        harness.advance(secs(1) - ms(1));
        harness.assert_idle();
        record_ping(&mut harness, 5);
        harness.advance(ms(1));
        let again = harness.expect_request();
        assert_eq!(again.body, reply.body);
        harness.respond_with(again.id, 503, &[("Retry-After", "4")], "");
        harness.advance(secs(4) - ms(1));
        harness.assert_idle();
        record_ping(&mut harness, 5);
        harness.advance(ms(1));
        let again = harness.expect_request();
        assert_eq!(again.body, reply.body);
        harness.respond_with_status(again.id, 202);
        // A notification that may have been accepted is not sent again.
        for status in [None, Some(502), Some(504)] {
            harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
            let notice = harness.expect_post("x/y");
            match status {
                Some(status) => harness.respond_with_status(notice.id, status),
                None => harness.break_connection(notice.id),
            }
            assert!(describe_diagnostic(harness.expect_diagnostic()).contains("did not accept a message"));
            harness.advance(secs(100));
            harness.assert_idle();
        }
        // The number of attempts is bounded.
        harness.receive_event(get, "", &legacy_request(6, "ping", Value::Null));
        for pause in [1, 2, 4, 8, 16] {
            let reply = harness.expect_request();
            harness.refuse_connection(reply.id);
            record_ping(&mut harness, 6);
            harness.advance(secs(pause));
        }
        let reply = harness.expect_request();
        harness.refuse_connection(reply.id);
        assert!(describe_diagnostic(harness.expect_diagnostic()).contains("did not accept a message"));
        harness.advance(secs(100));
        harness.assert_idle();
        harness.transcript
    });
}

/// How the POST of an answer fails.
enum Failure {
    Status(u16),
    Broken,
    Refused,
}

impl Failure {
    fn happen(&self, harness: &mut HttpClientHarness, id: ExchangeId) {
        match self {
            Self::Status(status) => harness.respond_with_status(id, *status),
            Self::Broken => harness.break_connection(id),
            Self::Refused => harness.refuse_connection(id),
        }
    }
}

/// The server waits for the answer, and ignores a second one.
// covers: HTTP-019
#[test]
fn answer_that_may_have_arrived_is_sent_again() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
        let failures = [500, 502, 503, 504].map(Failure::Status);
        for (id, failure) in (10..).zip(failures.into_iter().chain([Failure::Broken, Failure::Refused])) {
            harness.receive_event(get, "", &legacy_request(id, "ping", Value::Null));
            let reply = harness.expect_request();
            assert_eq!(reply.body["id"], id);
            failure.happen(&mut harness, reply.id);
            harness.advance(secs(1) - ms(1));
            harness.assert_idle();
            record_ping(&mut harness, id);
            harness.advance(ms(1));
            let again = harness.expect_request();
            assert_eq!((&again.body, again.field("mcp-session-id")), (&reply.body, Some("s")));
            harness.respond_with_status(again.id, 202);
            harness.advance(secs(100));
            harness.assert_idle();
        }
        // The number of attempts is bounded, whatever fails.
        harness.receive_event(get, "", &legacy_request(30, "ping", Value::Null));
        let failures = [Failure::Status(502), Failure::Broken, Failure::Status(503), Failure::Refused];
        for (pause, failure) in [1, 2, 4, 8, 16].into_iter().zip(failures.iter().cycle()) {
            let reply = harness.expect_request();
            failure.happen(&mut harness, reply.id);
            harness.advance(secs(pause) - ms(1));
            harness.assert_idle();
            record_ping(&mut harness, 30);
            harness.advance(ms(1));
        }
        let reply = harness.expect_request();
        harness.break_connection(reply.id);
        assert!(describe_diagnostic(harness.expect_diagnostic()).contains("did not accept a message"));
        // A refusal that another attempt does not change, or a longer wait than an answer is kept for.
        for (id, status, wait) in [(31, 400, None), (32, 413, None), (33, 502, Some(("Retry-After", "31")))] {
            harness.receive_event(get, "", &legacy_request(id, "ping", Value::Null));
            let reply = harness.expect_request();
            harness.respond_with(reply.id, status, wait.as_slice(), "");
            assert!(describe_diagnostic(harness.expect_diagnostic()).contains("did not accept a message"));
        }
        // The server has read the answer: an error in the body is its own.
        harness.receive_event(get, "", &legacy_request(34, "ping", Value::Null));
        let reply = harness.expect_request();
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "no"}});
        harness.respond_with_json(reply.id, 500, &error);
        assert!(describe_diagnostic(harness.expect_diagnostic()).contains("did not accept a message"));
        harness.advance(secs(100));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: HTTP-019
#[test]
fn notification_that_was_certainly_not_processed_is_sent_again() {
    for failure in [Failure::Refused, Failure::Status(429), Failure::Status(503)] {
        let mut harness = modern_harness(Chunker::Whole);
        harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
        let notice = harness.expect_post("x/y");
        failure.happen(&mut harness, notice.id);
        harness.advance(secs(1) - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
        let again = harness.expect_post("x/y");
        assert_eq!(again.body, notice.body);
        harness.respond_with_status(again.id, 202);
        harness.assert_idle();
    }
}

// covers: HTTP-019
#[test]
fn answer_without_a_session_is_not_sent_again_to_a_server_that_may_be_another_one() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
        for (id, failure) in [(10, Failure::Status(502)), (11, Failure::Broken)] {
            harness.receive_event(get, "", &legacy_request(id, "ping", Value::Null));
            let reply = harness.expect_request();
            failure.happen(&mut harness, reply.id);
            assert!(describe_diagnostic(harness.expect_diagnostic()).contains("did not accept a message"));
            harness.advance(secs(100));
            harness.assert_idle();
        }
        harness.transcript
    });
}

// covers: HTTP-019, SEC-018
#[test]
fn messages_waiting_for_retry_are_bounded_and_block_no_call() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
    for id in 0..200 {
        harness.receive_event(get, "", &legacy_request(id, "ping", Value::Null));
        let pong = harness.expect_request();
        assert_eq!(pong.body["id"], id);
        let wait: &[(&str, &str)] = if id % 2 == 0 { &[] } else { &[("Retry-After", "999999999")] };
        harness.respond_with(pong.id, 503, wait, "");
    }
    // Messages with a long delay and messages beyond the bound are dropped.
    assert_eq!(harness.take_diagnostics().len(), 200 - 64);
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
    assert_eq!(harness.expect_done(key), Ok(tool_result()));
    for id in 0..200 {
        record_ping(&mut harness, id);
    }
    harness.advance(secs(1));
    let again = harness.take_requests();
    assert_eq!(again.len(), 64);
    for request in again {
        harness.respond_with_status(request.id, 202);
    }
    harness.advance(secs(1_000));
    harness.assert_idle();
}

// covers: CANC-003, HTTP-014
#[test]
fn messages_queued_before_close_are_still_sent() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
    harness.receive_event(get, "", &legacy_request(7, "roots/list", Value::Null));
    let Event::Input(input) = harness.expect_event() else { panic!("an input") };
    let engine = harness.client.engine();
    engine.call_tool(harness.now, "wave", &json!({}), &non_retryable()).expect("a call");
    engine.answer(harness.now, input.id, &json!({"roots": []})).expect("answered");
    engine.notify(harness.now, "x/y", None::<&Value>).expect("a notification");
    harness.client.close(harness.now);
    let requests = harness.take_requests();
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert_eq!(requests[0].body["id"], 7);
    assert_eq!(requests[1].body["method"], "x/y");
    assert_eq!(requests[2].method, "DELETE");
    for request in &requests {
        assert_eq!(request.field("mcp-session-id"), Some("s"));
        harness.respond_with_status(request.id, 202);
    }
    harness.expect_aborted();
    assert!(matches!(harness.expect_event(), Event::Done { .. }));
    harness.expect_closed();
    assert!(harness.client.is_drained());

    let mut harness = modern_harness(Chunker::Whole);
    harness.client.engine().notify(harness.now, "x/y", None::<&Value>).expect("a notification");
    harness.client.close(harness.now);
    let notice = harness.expect_post("x/y");
    harness.respond_with_status(notice.id, 202);
    harness.expect_closed();
    assert!(harness.client.is_drained());
}
