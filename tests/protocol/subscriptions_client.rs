//! Subscriptions and change notifications at the client: what is honoured, what is reported, and how it ends.

use mcp_proto::client::{Event, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::pipe::Pipe;
use mcp_proto::{CallError, CallOptions, Change, Diagnostic, Limit, Limits, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, error_response, notification, result_response};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn modern_harness(cut: Chunker) -> ClientHarness {
    modern_harness_with_limits(Limits::default(), cut)
}

fn modern_harness_with_limits(limits: Limits, cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(limits), cut);
    harness.become_modern(json!({"tools": {}}));
    harness
}

fn all_capabilities() -> Value {
    json!({
        "tools": {"listChanged": true}, "prompts": {"listChanged": false},
        "resources": {"listChanged": true, "subscribe": true}, "logging": {},
    })
}

fn legacy_harness(version: Version, cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::only(version)), cut);
    harness.become_legacy(version, all_capabilities());
    harness
}

fn resource_filter(uris: &[&str]) -> SubscriptionFilter {
    SubscriptionFilter::new()
        .resource_subscriptions(uris.iter().map(|u| String::from(*u)).collect::<Vec<_>>())
}

fn full_filter(uris: &[&str]) -> SubscriptionFilter {
    resource_filter(uris).tools_list_changed(true).prompts_list_changed(true).resources_list_changed(true)
}

fn acknowledged_notification(id: &Value, honoured: &Value) -> Value {
    notification(
        "notifications/subscriptions/acknowledged",
        json!({"_meta": {ID: id}, "notifications": honoured}),
    )
}

fn change_notification(id: &Value, method: &str, uri: Option<&str>) -> Value {
    let mut params = json!({"_meta": {ID: id}});
    if let Some(uri) = uri {
        params["uri"] = json!(uri);
    }
    notification(&format!("notifications/{method}"), params)
}

const TOOLS: &str = "tools/list_changed";
const PROMPTS: &str = "prompts/list_changed";
const RESOURCES: &str = "resources/list_changed";
const UPDATED: &str = "resources/updated";

fn resource_change(uri: &str) -> Change {
    Change::Resource(uri.into())
}

fn start_listening(harness: &mut ClientHarness, filter: &SubscriptionFilter) -> (SubscriptionKey, Value) {
    let key = harness.subscribe(filter);
    (key, harness.expect_request("subscriptions/listen")["id"].clone())
}

/// Subscribes to everything, with everything honoured.
fn listen_and_acknowledge(harness: &mut ClientHarness) -> (SubscriptionKey, Value) {
    let (key, id) = start_listening(harness, &full_filter(&["a:b"]));
    let honoured = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["a:b"],
    });
    harness.feed_message(&acknowledged_notification(&id, &honoured));
    assert_eq!(harness.expect_subscribed(key), full_filter(&["a:b"]));
    (key, id)
}

fn assert_change_ignored(harness: &mut ClientHarness) {
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnsolicitedNotification(_)));
    harness.assert_idle();
}

// ---- modern ------------------------------------------------------------------------------------------------------

// covers: SUB-001, SUB-002, SUB-004, SUB-005, SUB-006, SUB-007, SUB-008, SUB-009, SUB-010, META-020, RES-013
// covers: STDIO-015
#[test]
fn change_notifications_are_matched_by_subscription_id() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let one = harness.subscribe(&full_filter(&["chart://n/1", "chart://n/2"]));
        let request = harness.expect_request("subscriptions/listen");
        assert_eq!(
            request["params"]["notifications"],
            json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["chart://n/1", "chart://n/2"],
            })
        );
        let (two, other) =
            start_listening(&mut harness, &SubscriptionFilter::new().resources_list_changed(true));
        let id = &request["id"];
        assert_ne!((one, id), (two, &other));
        harness.assert_idle();
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["chart://n/1"]});
        harness.feed_message(&acknowledged_notification(id, &honoured));
        assert_eq!(
            harness.expect_subscribed(one),
            resource_filter(&["chart://n/1"]).tools_list_changed(true)
        );
        harness.feed_message(&change_notification(id, TOOLS, None));
        assert_eq!(harness.expect_change(one), Change::Tools);
        harness.feed_message(&acknowledged_notification(
            &other,
            &json!({"resourcesListChanged": true, "toolsListChanged": false}),
        ));
        assert_eq!(harness.expect_subscribed(two), SubscriptionFilter::new().resources_list_changed(true));
        harness.feed_message(&change_notification(id, UPDATED, Some("chart://n/1")));
        assert_eq!(harness.expect_change(one), resource_change("chart://n/1"));
        // A sub-resource of a subscribed one, as only the server can know.
        harness.feed_message(&change_notification(id, UPDATED, Some("chart://n/1x")));
        assert_eq!(harness.expect_change(one), resource_change("chart://n/1x"));
        harness.feed_message(&change_notification(&other, RESOURCES, None));
        assert_eq!(harness.expect_change(two), Change::Resources);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: SUB-003, SUB-006, SUB-007
#[test]
fn honoured_filter_is_limited_to_the_requested_one() {
    let mut harness = modern_harness(Chunker::Whole);
    let (key, id) = start_listening(&mut harness, &resource_filter(&["a", "b"]));
    let surplus =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["b", "c"]});
    harness.feed_message(&acknowledged_notification(&id, &surplus));
    assert_eq!(harness.expect_subscribed(key), resource_filter(&["b"]));
    for (method, uri) in [(TOOLS, None), (PROMPTS, None), (RESOURCES, None)] {
        harness.feed_message(&change_notification(&id, method, uri));
        assert_change_ignored(&mut harness);
    }
    // The server may honour nothing: the subscription exists all the same.
    let (key, id) = start_listening(&mut harness, &full_filter(&["a"]));
    harness.feed_message(&acknowledged_notification(&id, &json!({})));
    assert_eq!(harness.expect_subscribed(key), SubscriptionFilter::new());
    harness.feed_message(&change_notification(&id, UPDATED, Some("a")));
    assert_change_ignored(&mut harness);
    harness.assert_works();
}

// covers: SUB-004, SUB-008, SUB-009
#[test]
fn unsolicited_change_notifications_are_ignored() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (call, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        let (key, id) = start_listening(&mut harness, &full_filter(&["a:b"]));
        for early in [TOOLS, PROMPTS, RESOURCES] {
            harness.feed_message(&change_notification(&id, early, None));
            assert_change_ignored(&mut harness);
        }
        harness.feed_message(&acknowledged_notification(&id, &json!({"toolsListChanged": true})));
        harness.expect_subscribed(key);
        harness.feed_message(&acknowledged_notification(&id, &json!({"promptsListChanged": true})));
        assert_change_ignored(&mut harness);
        for unknown in [json!(99_999), json!("x"), json!(null), json!({}), request["id"].clone()] {
            harness.feed_message(&change_notification(&unknown, TOOLS, None));
            assert_change_ignored(&mut harness);
            for honoured in [json!({}), json!({"toolsListChanged": "not read"})] {
                harness.feed_message(&acknowledged_notification(&unknown, &honoured));
                assert_change_ignored(&mut harness);
            }
        }
        harness.feed_message(&notification("notifications/tools/list_changed", Value::Null));
        assert_change_ignored(&mut harness);
        for wrong in [
            notification("notifications/subscriptions/acknowledged", json!({"_meta": {ID: id}})),
            // What is no acknowledgment at all needs no subscription to be told.
            notification("notifications/subscriptions/acknowledged", json!({"_meta": {ID: "?"}, "x": {}})),
            notification(
                "notifications/subscriptions/acknowledged",
                json!({"_meta": {ID: "?"}, "notifications": 7}),
            ),
            acknowledged_notification(&id, &json!({"toolsListChanged": "yes"})),
            change_notification(&id, UPDATED, None),
        ] {
            harness.feed_message(&wrong);
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)), "{wrong}");
        }
        harness.feed_message(&change_notification(&id, TOOLS, None));
        assert_eq!(harness.expect_change(key), Change::Tools);
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        assert!(harness.expect_done(call).is_ok());
        harness.assert_idle();
        harness.transcript
    });
}

// covers: SUB-018, TIME-001
#[test]
fn subscription_times_out_only_before_acknowledgement() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (slow, id) = start_listening(&mut harness, &full_filter(&[]));
        harness.advance(secs(60));
        assert_eq!(harness.expect_subscription_ended(slow), (false, Some(CallError::TimedOut)));
        let cancelled = harness.expect_reply();
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["requestId"]),
            (&json!("notifications/cancelled"), &id)
        );
        // A late acknowledgement is ignored.
        harness.feed_message(&acknowledged_notification(&id, &json!({})));
        harness.assert_idle();
        let (key, id) = listen_and_acknowledge(&mut harness);
        harness.advance(secs(1_000_000));
        harness.assert_idle();
        assert_eq!(harness.pipe.poll_timeout(), None, "no deadline is left");
        harness.feed_message(&change_notification(&id, TOOLS, None));
        assert_eq!(harness.expect_change(key), Change::Tools);
        harness.transcript
    });
}

// covers: SUB-012, CANC-016, CANC-013
#[test]
fn unsubscribed_changes_are_not_reported() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, id) = listen_and_acknowledge(&mut harness);
        let now = harness.now;
        harness.pipe.engine().unsubscribe(now, key).expect("open");
        assert_eq!(harness.expect_reply(), notification("notifications/cancelled", json!({"requestId": id})));
        assert_eq!(harness.pipe.engine().unsubscribe(now, key), Err(UseError::Stale));
        // Messages that were in flight are ignored.
        harness.feed_message(&change_notification(&id, TOOLS, None));
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": id})));
        harness.assert_idle();
        harness.feed_message(&result_response(
            &json!({"id": id}),
            json!({"resultType": "complete", "_meta": {ID: id}}),
        ));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        // The same before the acknowledgement.
        let (key, id) = start_listening(&mut harness, &full_filter(&[]));
        harness.pipe.engine().unsubscribe(harness.now, key).expect("open");
        assert_eq!(harness.expect_reply()["params"]["requestId"], id);
        harness.feed_message(&acknowledged_notification(&id, &json!({})));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: SUB-012
#[test]
fn unread_events_of_an_ended_subscription_are_dropped() {
    let mut harness = legacy_harness(Version::V2025_11_25, Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    let (now, engine) = (harness.now, harness.pipe.engine());
    let (one, two) =
        (engine.subscribe(now, &filter).expect("open"), engine.subscribe(now, &filter).expect("open"));
    engine.unsubscribe(now, one).expect("open");
    harness.expect_subscribed(two);
    harness.assert_idle();
}

// covers: SUB-013, SUB-014, SUB-015, SUB-021, CANC-018, CANC-019
#[test]
fn subscription_ends_by_result_or_cancellation() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let graceful = |id: &Value| {
            result_response(&json!({"id": id}), json!({"resultType": "complete", "_meta": {ID: id}}))
        };
        let cancelled = |id: &Value| {
            notification("notifications/cancelled", json!({"requestId": id, "reason": "shutting down"}))
        };
        let (key, id) = listen_and_acknowledge(&mut harness);
        harness.feed_messages(&[graceful(&id), cancelled(&id)]);
        assert_eq!(harness.expect_subscription_ended(key), (true, None));
        harness.assert_idle();
        let (key, id) = listen_and_acknowledge(&mut harness);
        harness.feed_message(&cancelled(&id));
        assert_eq!(harness.expect_subscription_ended(key), (true, None));
        harness.assert_idle();
        harness.feed_message(&graceful(&id));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        // A result without a subscription id is matched by its request id.
        let (key, id) = listen_and_acknowledge(&mut harness);
        harness.feed_message(&result_response(&json!({"id": id}), json!({"resultType": "complete"})));
        assert_eq!(harness.expect_subscription_ended(key), (true, None));
        // A listen request cannot require input.
        let (key, id) = listen_and_acknowledge(&mut harness);
        harness.feed_message(&result_response(
            &json!({"id": id}),
            json!({"resultType": "input_required", "requestState": "s"}),
        ));
        assert!(matches!(
            harness.expect_subscription_ended(key),
            (false, Some(CallError::UnknownResultType(_)))
        ));
        // The subscription ends before its acknowledgement.
        let (key, id) = start_listening(&mut harness, &full_filter(&[]));
        harness.feed_message(&graceful(&id));
        assert_eq!(harness.expect_subscription_ended(key), (true, None));
        let (key, id) = start_listening(&mut harness, &full_filter(&[]));
        harness.feed_message(&error_response(&json!({"id": id}), -32601, "Method not found", Value::Null));
        assert!(
            matches!(harness.expect_subscription_ended(key), (false, Some(CallError::Rpc(e))) if e.code == -32601)
        );
        let (key, id) = start_listening(&mut harness, &full_filter(&[]));
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": id, "result": 7}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { .. }));
        assert!(matches!(harness.expect_subscription_ended(key), (false, Some(CallError::Malformed(_)))));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: SUB-015, SUB-017
#[test]
fn eof_ends_every_subscription() {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let (mut harness, key) = match version {
                None => {
                    let mut harness = modern_harness(cut);
                    let (key, _) = listen_and_acknowledge(&mut harness);
                    (harness, key)
                }
                Some(version) => {
                    let mut harness = legacy_harness(version, cut);
                    let key = harness.subscribe(&SubscriptionFilter::new());
                    harness.expect_subscribed(key);
                    (harness, key)
                }
            };
            harness.eof();
            assert!(matches!(harness.expect_subscription_ended(key), (false, Some(CallError::Closed(_)))));
            harness.expect_closed();
            let now = harness.now;
            assert_eq!(harness.pipe.engine().subscribe(now, &full_filter(&[])), Err(UseError::Closed));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// ---- legacy ------------------------------------------------------------------------------------------------------

/// Answers all requests of `method` and returns their URIs.
fn answer_and_list_uris(harness: &mut ClientHarness, method: &str) -> Vec<String> {
    let requests = harness.take_sent();
    let serve = |request: &Value| {
        assert_eq!(request["method"], method, "{request}");
        harness.feed_message(&result_response(request, json!({})));
        request["params"]["uri"].as_str().expect("a URI").to_owned()
    };
    requests.iter().map(serve).collect()
}

// covers: RES-010, RES-012, SUB-007
#[test]
fn legacy_client_subscribes_to_each_resource_once() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(version, cut);
            let one = harness.subscribe(&full_filter(&["a:b", "a:a", "a:b"]));
            harness.pump();
            assert!(harness.has_no_events(), "no acknowledgement before the server has answered");
            assert_eq!(answer_and_list_uris(&mut harness, "resources/subscribe"), ["a:a", "a:b"]);
            // The server does not declare `listChanged` for prompts.
            let honoured =
                resource_filter(&["a:a", "a:b"]).tools_list_changed(true).resources_list_changed(true);
            assert_eq!(harness.expect_subscribed(one), honoured);
            let two = harness.subscribe(&resource_filter(&["a:b", "a:c"]));
            assert_eq!(answer_and_list_uris(&mut harness, "resources/subscribe"), ["a:c"]);
            assert_eq!(harness.expect_subscribed(two), resource_filter(&["a:b", "a:c"]));
            // Every resource is subscribed already: no request is needed.
            let three = harness.subscribe(&resource_filter(&["a:b"]));
            harness.assert_nothing_sent();
            assert_eq!(harness.expect_subscribed(three), resource_filter(&["a:b"]));
            assert_eq!(harness.pipe.engine().pending_calls(), 0);
            let now = harness.now;
            harness.pipe.engine().unsubscribe(now, one).expect("open");
            assert_eq!(answer_and_list_uris(&mut harness, "resources/unsubscribe"), ["a:a"]);
            harness.pipe.engine().unsubscribe(now, two).expect("open");
            assert_eq!(answer_and_list_uris(&mut harness, "resources/unsubscribe"), ["a:c"]);
            harness.pipe.engine().unsubscribe(now, three).expect("open");
            assert_eq!(answer_and_list_uris(&mut harness, "resources/unsubscribe"), ["a:b"]);
            assert_eq!(harness.pipe.engine().unsubscribe(now, three), Err(UseError::Stale));
            let four = harness.subscribe(&resource_filter(&["a:b"]));
            assert_eq!(answer_and_list_uris(&mut harness, "resources/subscribe"), ["a:b"]);
            harness.expect_subscribed(four);
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: RES-010, SUB-006, SUB-007, LIFE-010
#[test]
fn refused_or_undeclared_legacy_subscription_is_not_honoured() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(Version::V2025_11_25, cut);
        let one = harness.subscribe(&resource_filter(&["a", "b"]));
        let two = harness.subscribe(&resource_filter(&["b"]));
        let requests = harness.take_sent();
        harness.feed_message(&result_response(&requests[0], json!({})));
        harness.assert_idle();
        harness.feed_message(&error_response(&requests[1], -32002, "Resource not found", Value::Null));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::PeerError(e) if e.code == -32002));
        assert_eq!(harness.expect_subscribed(one), resource_filter(&["a"]));
        assert_eq!(harness.expect_subscribed(two), SubscriptionFilter::new());
        harness.feed_message(&notification("notifications/resources/updated", json!({"uri": "b"})));
        assert_change_ignored(&mut harness);
        // Without an answer nothing is honoured, and the request is cancelled.
        let three = harness.subscribe(&resource_filter(&["c"]));
        let request = harness.expect_request("resources/subscribe");
        harness.advance(secs(60));
        assert_eq!(harness.expect_subscribed(three), SubscriptionFilter::new());
        assert_eq!(harness.expect_reply()["params"]["requestId"], request["id"]);
        harness.feed_message(&result_response(&request, json!({})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        // Unsubscribed before the server has answered.
        let four = harness.subscribe(&resource_filter(&["d"]));
        let request = harness.expect_request("resources/subscribe");
        harness.pipe.engine().unsubscribe(harness.now, four).expect("open");
        assert_eq!(answer_and_list_uris(&mut harness, "resources/unsubscribe"), ["d"]);
        harness.feed_message(&result_response(&request, json!({})));
        harness.assert_idle();
        harness.transcript
    });
    let mut harness = ClientHarness::client(client(VersionSet::LEGACY), Chunker::Whole);
    harness.become_legacy(
        Version::V2025_11_25,
        json!({"tools": {}, "resources": {}, "prompts": {"listChanged": true}}),
    );
    let key = harness.subscribe(&full_filter(&["a"]));
    assert_eq!(harness.expect_subscribed(key), SubscriptionFilter::new().prompts_list_changed(true));
    harness.assert_idle();
}

// covers: RES-011, RES-012, RES-028
#[test]
fn legacy_changes_reach_every_matching_subscription() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(version, cut);
            let list = |name: &str| notification(&format!("notifications/{name}"), Value::Null);
            let updated = |uri: &str| notification("notifications/resources/updated", json!({"uri": uri}));
            // Without a subscription a change is reported once, without a key.
            let expect_unsolicited = |harness: &mut ClientHarness, change: &Change| {
                assert!(
                    matches!(harness.expect_event(), Event::Changed { key: None, change: received } if received == *change)
                );
            };
            harness.feed_messages(&[list(TOOLS), list(PROMPTS), list(RESOURCES)]);
            for change in [Change::Tools, Change::Prompts, Change::Resources] {
                expect_unsolicited(&mut harness, &change);
            }
            harness.assert_idle();
            let tools = harness.subscribe(&SubscriptionFilter::new().tools_list_changed(true));
            harness.expect_subscribed(tools);
            let both = harness
                .subscribe(&resource_filter(&["f:///a"]).tools_list_changed(true).prompts_list_changed(true));
            // A subscription gets no changes before its acknowledgement.
            let request = harness.expect_request("resources/subscribe");
            harness.feed_message(&list(TOOLS));
            assert_eq!(harness.expect_change(tools), Change::Tools);
            harness.assert_idle();
            harness.feed_message(&result_response(&request, json!({})));
            harness.expect_subscribed(both);
            harness.feed_message(&list(TOOLS));
            assert_eq!(
                (harness.expect_change(tools), harness.expect_change(both)),
                (Change::Tools, Change::Tools)
            );
            harness.feed_messages(&[list(PROMPTS), list(RESOURCES)]);
            expect_unsolicited(&mut harness, &Change::Prompts);
            expect_unsolicited(&mut harness, &Change::Resources);
            harness.assert_idle();
            for uri in ["f:///a", "f:///a/b"] {
                harness.feed_message(&updated(uri));
                assert_eq!(harness.expect_change(both), resource_change(uri));
            }
            harness.feed_message(&updated("f:///ab"));
            assert_change_ignored(&mut harness);
            harness.feed_message(&notification("notifications/resources/updated", json!({})));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// ---- both --------------------------------------------------------------------------------------------------------

// covers: SUB-001
#[test]
fn subscriptions_are_bounded_at_the_client() {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
    assert_eq!(harness.pipe.engine().subscribe(harness.now, &full_filter(&[])), Err(UseError::NotReady));
    let tight = limits(|l| (l.max_subscriptions, l.max_subscribed_resources, l.max_uri) = (2, 2, 3));
    let mut harness = modern_harness_with_limits(tight.clone(), Chunker::Whole);
    let subscribe = |harness: &mut ClientHarness, uris: &[&str]| {
        let now = harness.now;
        harness.pipe.engine().subscribe(now, &resource_filter(uris))
    };
    assert_eq!(subscribe(&mut harness, &["a", "b", "c"]), Err(UseError::Full(Limit::SubscribedResources)));
    assert_eq!(subscribe(&mut harness, &["abcd"]), Err(UseError::Full(Limit::UriLength)));
    harness.assert_idle();
    let key = subscribe(&mut harness, &["a", "abc"]).expect("open");
    subscribe(&mut harness, &["a", "a", "b"]).expect("open");
    assert_eq!(subscribe(&mut harness, &[]), Err(UseError::Full(Limit::Subscriptions)));
    harness.pipe.engine().unsubscribe(harness.now, key).expect("open");
    subscribe(&mut harness, &[]).expect("open");
    harness.take_sent();
    // A legacy server gets one request for each resource, so all of them must fit.
    let few = limits(|l| l.max_pending_calls = 2);
    let config = client(VersionSet::LEGACY).limits(few);
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, all_capabilities());
    assert_eq!(subscribe(&mut harness, &["a", "b", "c"]), Err(UseError::Full(Limit::PendingCalls)));
    harness.assert_idle();
    let key = subscribe(&mut harness, &["a", "b"]).expect("open");
    let requests = harness.take_sent();
    assert_eq!(harness.pipe.engine().unsubscribe(harness.now, key), Err(UseError::Full(Limit::PendingCalls)));
    harness.assert_nothing_sent();
    for request in &requests {
        harness.feed_message(&result_response(request, json!({})));
    }
    harness.expect_subscribed(key);
    harness.pipe.engine().unsubscribe(harness.now, key).expect("open");
    assert_eq!(harness.take_sent().len(), 2);
}

// covers: SUB-005, SUB-009
#[test]
fn unpolled_equal_changes_are_coalesced() {
    use alloc::sync::Arc;
    let now = mcp_proto::Instant::ZERO;
    // Messages without a byte stream arrive without back-pressure.
    let config = client(VersionSet::only(Version::V2025_11_25));
    let mut engine = mcp_proto::client::Engine::new(Arc::new(config));
    let channel = engine.open_channel(now);
    let initialize = engine.outbox(channel).and_then(|o| o.pop_message()).expect("a request");
    let initialize: Value = serde_json::from_slice(&initialize).expect("JSON");
    let opened = mcp_tests::harness::build::initialize_result("2025-11-25", all_capabilities());
    let feed = |engine: &mut mcp_proto::client::Engine, message: &Value| {
        engine.handle_message(now, channel, message.to_string().into_bytes().into());
    };
    feed(&mut engine, &result_response(&initialize, opened));
    let filter = SubscriptionFilter::new().tools_list_changed(true).resources_list_changed(true);
    let key = engine.subscribe(now, &filter).expect("open");
    for _ in 0..10_000 {
        feed(&mut engine, &notification("notifications/tools/list_changed", Value::Null));
        feed(&mut engine, &notification("notifications/resources/list_changed", Value::Null));
    }
    let mut changes = Vec::new();
    while let Some(event) = engine.poll_event(now) {
        if let Event::Changed { key: event_key, change } = event {
            assert_eq!(event_key, Some(key));
            changes.push(change);
        }
    }
    assert_eq!(changes, [Change::Tools, Change::Resources]);
    feed(&mut engine, &notification("notifications/tools/list_changed", Value::Null));
    assert!(matches!(engine.poll_event(now), Some(Event::Changed { change: Change::Tools, .. })));
}
