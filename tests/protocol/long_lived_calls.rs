//! Long-lived calls of a client: which notifications belong to them, how long they stay open, and how they end.

use mcp_proto::client::Event;
use mcp_proto::http::client::ExchangeClass;
use mcp_proto::{CallError, CallKey, CallOptions, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{notification, result_response, to_value};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};
use crate::protocol::http_client_shared::{expect_http_error, modern_harness as http_harness};

const ID: &str = "io.modelcontextprotocol/subscriptionId";
const FOLLOW: &str = "harbour/follow";

fn options() -> CallOptions {
    CallOptions::new().long_lived()
}

fn modern_harness(cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
    harness.become_modern(json!({}));
    harness
}

fn tide(id: Option<&Value>, height: u32) -> Value {
    let mut params = json!({"height": height});
    if let Some(id) = id {
        params["_meta"] = json!({ID: id});
    }
    notification("harbour/tide", params)
}

/// Returns the height that was reported, and the call that it was reported for.
fn expect_tide(event: Event) -> (Option<CallKey>, Value) {
    let (call, notification) = match event {
        Event::CallNotification { call, notification } => (Some(call), notification),
        Event::Notification(notification) => (None, notification),
        other => panic!("{other:?}"),
    };
    assert_eq!(&*notification.method, "harbour/tide");
    (call, to_value(&notification.params.expect("parameters"))["height"].clone())
}

#[test]
fn notifications_belong_to_the_call_that_their_subscription_id_names() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (one, first) = harness.start_call(FOLLOW, &json!({"berth": 1}), &options());
        let (two, second) = harness.start_call(FOLLOW, &json!({"berth": 2}), &options());
        let (plain, third) = harness.start_call(FOLLOW, &json!({"berth": 3}), &CallOptions::new());
        for (height, (id, call)) in
            [(&second["id"], Some(two)), (&first["id"], Some(one)), (&third["id"], None), (&json!(99), None)]
                .into_iter()
                .enumerate()
        {
            harness.feed_message(&tide(Some(id), height as u32));
            assert_eq!(expect_tide(harness.expect_event()), (call, json!(height)));
        }
        harness.feed_message(&tide(None, 4));
        assert_eq!(expect_tide(harness.expect_event()), (None, json!(4)));
        // What the engine knows of the id is not the text of another type.
        harness.feed_message(&tide(Some(&json!(first["id"].to_string())), 5));
        assert_eq!(expect_tide(harness.expect_event()), (None, json!(5)));
        for (call, request) in [(one, &first), (two, &second), (plain, &third)] {
            harness.feed_message(&result_response(request, json!({})));
            assert!(harness.expect_done(call).is_ok());
        }
        // It was sent before the end of the call.
        harness.feed_message(&tide(Some(&first["id"]), 6));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: EVT-058
#[test]
fn call_has_the_timeout_until_its_first_notification() {
    let mut harness = modern_harness(Chunker::Whole);
    let (silent, _) = harness.start_call(FOLLOW, &json!({}), &options().timeout(secs(10)));
    let (open, request) =
        harness.start_call(FOLLOW, &json!({}), &options().timeout(secs(10)).with_progress());
    let (bounded, other) = harness.start_call(FOLLOW, &json!({}), &options().total_timeout(secs(100)));
    harness.feed_message(&tide(Some(&request["id"]), 1));
    harness.feed_message(&tide(Some(&other["id"]), 2));
    assert_eq!(expect_tide(harness.expect_event()), (Some(open), json!(1)));
    assert_eq!(expect_tide(harness.expect_event()), (Some(bounded), json!(2)));
    harness.advance(secs(11));
    assert_eq!(harness.expect_done(silent), Err(CallError::TimedOut));
    assert_eq!(harness.expect_reply()["method"], "notifications/cancelled");
    let token = request["params"]["_meta"]["progressToken"].clone();
    harness.feed_message(&notification(
        "notifications/progress",
        json!({"progressToken": token, "progress": 1}),
    ));
    harness.expect_progress(open);
    harness.advance(secs(100));
    assert_eq!(harness.expect_done(bounded), Err(CallError::TotalTimedOut));
    assert_eq!(harness.expect_reply()["method"], "notifications/cancelled");
    harness.advance(secs(30 * 86_400));
    harness.feed_message(&tide(Some(&request["id"]), 3));
    assert_eq!(expect_tide(harness.expect_event()), (Some(open), json!(3)));
    harness.pipe.engine().cancel(harness.now, open, None).expect("it is open");
    harness.pump();
    assert_eq!(harness.expect_reply()["params"]["requestId"], request["id"]);
    assert_eq!(harness.expect_done(open), Err(CallError::Cancelled));
}

#[test]
fn legacy_server_names_the_call_in_the_same_way() {
    let mut harness = ClientHarness::client(client(VersionSet::only(Version::V2025_11_25)), Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, json!({}));
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &options());
    harness.feed_message(&tide(Some(&request["id"]), 1));
    assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(1)));
}

#[test]
fn call_over_http_has_a_stream_of_its_own_and_takes_what_arrives_there() {
    for_each_chunker(|cut| {
        let mut harness = http_harness(cut);
        let (call, request) = harness.start_call(FOLLOW, &json!({}), &options());
        let (plain, other) = harness.start_call(FOLLOW, &json!({}), &CallOptions::new());
        assert_eq!((request.class, other.class), (ExchangeClass::Stream, ExchangeClass::Request));
        harness.start_event_stream(request.id);
        harness.start_event_stream(other.id);
        harness.receive_event(request.id, "", &tide(None, 1));
        assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(1)));
        harness.receive_event(other.id, "", &tide(None, 2));
        assert_eq!(expect_tide(harness.expect_event()), (None, json!(2)));
        // The id in the message counts before the place where it arrives.
        harness.receive_event(other.id, "", &tide(Some(&request.body["id"]), 3));
        assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(3)));
        harness.receive_event(other.id, "", &result_response(&other.body, json!({})));
        assert!(harness.expect_done(plain).is_ok());
        harness.receive_end(other.id);
        harness.advance(secs(30 * 86_400));
        harness.receive_event(request.id, "", &tide(None, 4));
        assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(4)));
        // It is not opened again: only its owner knows where to go on.
        harness.break_connection(request.id);
        let error = expect_http_error(harness.expect_done(call));
        assert!(matches!(error, HttpError::Lost { .. }), "{error:?}");
        harness.advance(secs(60));
        harness.assert_idle();
        harness.transcript
    });
}

#[test]
fn cancelled_call_over_http_ends_its_exchange() {
    let mut harness = http_harness(Chunker::Whole);
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &options());
    harness.start_event_stream(request.id);
    harness.receive_event(request.id, "", &tide(Some(&request.body["id"]), 1));
    expect_tide(harness.expect_event());
    harness.client.engine().cancel(harness.now, call, None).expect("it is open");
    harness.pump();
    assert_eq!(harness.expect_aborted(), request.id);
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    harness.assert_nothing_sent();
}

// covers: CANC-016
#[test]
fn cancelled_call_ends_its_exchange_although_notifications_wait_in_its_stream() {
    let mut harness = http_harness(Chunker::Whole);
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &options());
    harness.start_event_stream(request.id);
    let events: String =
        (1..=3).map(|n| format!("data: {}\n\n", tide(Some(&request.body["id"]), n))).collect();
    harness.client.handle_body(harness.now, request.id, events.as_bytes());
    let first = harness.client.poll_event(harness.now).expect("a notification");
    assert_eq!(expect_tide(first), (Some(call), json!(1)));
    harness.client.engine().cancel(harness.now, call, None).expect("it is open");
    harness.pump();
    // Its connection is not read to an end that does not come.
    assert_eq!(harness.expect_aborted(), request.id);
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    harness.assert_idle();
}
