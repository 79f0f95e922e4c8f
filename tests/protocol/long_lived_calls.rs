//! Long-lived calls of a client: which notifications belong to them, how long they stay open, and how they end.

use mcp_proto::client::Event;
use mcp_proto::http::client::{Credential, ExchangeClass, ReconnectPolicy};
use mcp_proto::{CallError, CallKey, CallOptions, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{notification, result_response, to_value};
use mcp_tests::harness::{Chunker, ClientHarness, HttpClientHarness, SentRequest, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs};
use crate::protocol::http_client_shared::{V, expect_http_error, modern_harness as http_harness};

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

#[test]
fn notification_about_an_ended_call_is_kept_unless_it_was_long_lived() {
    let mut harness = modern_harness(Chunker::Whole);
    let (plain, request) = harness.start_call(FOLLOW, &json!({}), &CallOptions::new());
    harness.feed_message(&result_response(&request, json!({})));
    assert!(harness.expect_done(plain).is_ok());
    harness.feed_message(&tide(Some(&request["id"]), 1));
    assert_eq!(expect_tide(harness.expect_event()), (None, json!(1)));
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &options());
    harness.feed_message(&tide(Some(&request["id"]), 2));
    assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(2)));
    harness.feed_message(&result_response(&request, json!({})));
    assert!(harness.expect_done(call).is_ok());
    harness.feed_message(&tide(Some(&request["id"]), 3));
    harness.assert_idle();
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

// ---- calls that are sent again -----------------------------------------------------------------------------------

/// Waits for the next request, within the longest pause.
fn expect_sent(harness: &mut HttpClientHarness) -> SentRequest {
    for _ in 0..400 {
        harness.advance(ms(100));
        let mut sent = harness.take_requests();
        assert!(sent.len() <= 1, "{sent:?}");
        if let Some(request) = sent.pop() {
            return request;
        }
    }
    panic!("nothing was sent");
}

/// Opens the stream of a request, and lets it bring one notification.
fn bring_tide(harness: &mut HttpClientHarness, call: CallKey, request: &SentRequest, height: u32) {
    assert_eq!((request.method, request.class), ("POST", ExchangeClass::Stream));
    harness.start_event_stream(request.id);
    harness.receive_event(request.id, "", &tide(Some(&request.body["id"]), height));
    assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(height)));
}

// covers: HTTP-044
#[test]
fn idempotent_call_is_sent_again_as_long_as_its_streams_are_productive() {
    let most = ReconnectPolicy::default().max_attempts;
    let mut harness = http_harness(Chunker::Whole);
    let (call, mut request) = harness.start_call(FOLLOW, &json!({}), &options().idempotent());
    // A lost connection each day, for a year.
    for height in 0..365 {
        bring_tide(&mut harness, call, &request, height);
        harness.advance(secs(86_400));
        harness.break_connection(request.id);
        let again = expect_sent(&mut harness);
        assert_ne!(again.body["id"], request.body["id"]);
        assert_eq!(again.body["params"]["_meta"], request.body["params"]["_meta"]);
        request = again;
    }
    // Streams that open and bring nothing are counted.
    let mut attempts = 1;
    while attempts < most {
        harness.start_event_stream(request.id);
        harness.break_connection(request.id);
        request = expect_sent(&mut harness);
        attempts += 1;
    }
    // One notification begins the count anew.
    bring_tide(&mut harness, call, &request, 1_000);
    for _ in 0..most {
        harness.break_connection(request.id);
        request = expect_sent(&mut harness);
    }
    harness.refuse_connection(request.id);
    let error = expect_http_error(harness.expect_done(call));
    assert!(matches!(error, HttpError::Unreachable { .. }), "{error:?}");
    harness.advance(secs(600));
    harness.assert_idle();
}

// covers: HTTP-044
#[test]
fn call_that_is_sent_again_waits_an_hour_at_most_for_the_server() {
    let mut harness = http_harness(Chunker::Whole);
    let patient = options().idempotent().timeout(secs(7_200)).total_timeout(secs(7_200));
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &patient);
    harness.respond_with(request.id, 503, &[("Retry-After", "999999999")], "");
    harness.advance(secs(3_600) - ms(1));
    harness.assert_idle();
    harness.advance(ms(1));
    let again = harness.expect_request();
    bring_tide(&mut harness, call, &again, 1);
}

// covers: EVT-058
#[test]
fn call_that_is_sent_again_has_the_timeout_until_its_next_notification() {
    let mut harness = http_harness(Chunker::Whole);
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &options().idempotent().timeout(secs(10)));
    bring_tide(&mut harness, call, &request, 1);
    harness.advance(secs(3_600));
    harness.break_connection(request.id);
    let again = expect_sent(&mut harness);
    bring_tide(&mut harness, call, &again, 2);
    harness.advance(secs(3_600));
    harness.break_connection(again.id);
    let silent = expect_sent(&mut harness);
    harness.start_event_stream(silent.id);
    harness.advance(secs(11));
    assert_eq!(harness.expect_done(call), Err(CallError::TimedOut));
    assert_eq!(harness.expect_aborted(), silent.id);
}

// covers: SSE-021, HTTP-079
#[test]
fn open_call_whose_stream_waits_for_a_credential_gets_no_timeout() {
    let config = HttpClientHarness::default_http_config().handle_challenges(true);
    let mut harness = HttpClientHarness::new(client(VersionSet::ALL), config, Chunker::Whole);
    harness.become_legacy(V, Some("s"), json!({}));
    let (call, request) = harness.start_call(FOLLOW, &json!({}), &options().timeout(secs(10)));
    harness.start_event_stream(request.id);
    harness.receive_event(request.id, "e1", &tide(Some(&request.body["id"]), 1));
    assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(1)));
    harness.break_connection(request.id);
    let get = expect_sent(&mut harness);
    assert_eq!((get.method, get.field("last-event-id")), ("GET", Some("e1")));
    harness.respond_with(get.id, 401, &[("WWW-Authenticate", "Bearer")], "");
    let challenge = harness.expect_challenge();
    harness.advance(secs(120));
    let credential = Credential::bearer("t").expect("a token");
    let mut authorization = harness.client.authorization();
    authorization.authorize(harness.now, challenge.exchange, credential).expect("an open challenge");
    let get = harness.expect_request();
    harness.start_event_stream(get.id);
    // It is as silent as it was before.
    harness.advance(secs(3_600));
    harness.receive_event(get.id, "e2", &tide(Some(&request.body["id"]), 2));
    assert_eq!(expect_tide(harness.expect_event()), (Some(call), json!(2)));
}
