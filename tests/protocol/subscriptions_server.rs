//! Subscriptions and change notifications at the server: receivers, order, coalescing and end.

use mcp_proto::server::{self, Event};
use mcp_proto::{Capabilities, Capability, Change, Limits, Version, VersionSet};
use mcp_tests::harness::build::{legacy_request, modern_request, notification};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::protocol::common::{limits, ms, secs, server};

const ADVERTISED: [Capability; 4] = [
    Capability::ToolsListChanged,
    Capability::PromptsListChanged,
    Capability::ResourcesListChanged,
    Capability::ResourceSubscriptions,
];

fn config(promised: &[Capability]) -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Resources);
    server(VersionSet::ALL).capabilities(promised.iter().copied().fold(capabilities, Capabilities::with))
}

fn server_harness(cut: Chunker) -> ServerHarness {
    ServerHarness::server(config(&ADVERTISED), cut)
}

fn harness_with_limits(change: impl FnOnce(&mut Limits)) -> ServerHarness {
    ServerHarness::server(config(&ADVERTISED).limits(limits(change)), Chunker::Whole)
}

fn publish(harness: &mut ServerHarness, change: &Change) -> usize {
    let now = harness.now;
    let count = harness.pipe.engine().publish(now, change);
    harness.pump();
    count
}

fn listen(id: impl Into<Value>, filter: impl Into<Value>) -> Value {
    modern_request(id, "subscriptions/listen", json!({"notifications": filter.into()}))
}

/// Returns the acknowledged filter.
fn expect_acknowledged(harness: &mut ServerHarness, id: &Value) -> Value {
    let message = harness.expect_reply();
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(&message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    message["params"]["notifications"].clone()
}

/// Returns the methods and subscription ids of the change notifications sent.
fn take_changes(harness: &mut ServerHarness) -> Vec<(String, Value)> {
    let change = |m: &Value| {
        let id = m["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
        (m["method"].as_str().expect("a notification").replace("notifications/", ""), id)
    };
    harness.take_sent().iter().map(change).collect()
}

fn resource_change(uri: &str) -> Change {
    Change::Resource(uri.into())
}

// covers: SUB-001, SUB-002, SUB-003, SUB-004, SUB-005, SUB-006, SUB-008, SUB-010, RES-012, RES-013, RES-014
#[test]
fn subscription_is_acknowledged_before_its_changes() {
    for_each_chunker(|cut| {
        let mut harness = server_harness(cut);
        let filter =
            json!({"toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["x:1"]});
        harness.feed_message(&listen("s", filter));
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]});
        assert_eq!(expect_acknowledged(&mut harness, &json!("s")), honoured);
        assert!(
            matches!(harness.expect_event(), Event::ResourceInterest { uri, is_subscribed: true } if uri == "x:1")
        );
        harness.feed_message(&listen(7, json!({"resourcesListChanged": true, "toolsListChanged": true})));
        expect_acknowledged(&mut harness, &json!(7));
        assert_eq!(publish(&mut harness, &Change::Tools), 2);
        let tools = "tools/list_changed".to_owned();
        assert_eq!(take_changes(&mut harness), [(tools.clone(), json!("s")), (tools, json!(7))]);
        assert_eq!(publish(&mut harness, &Change::Prompts), 0);
        assert_eq!(publish(&mut harness, &Change::Resources), 1);
        assert_eq!(take_changes(&mut harness), [("resources/list_changed".into(), json!(7))]);
        assert_eq!(publish(&mut harness, &resource_change("x:2")), 0);
        assert_eq!(publish(&mut harness, &resource_change("x:1")), 1);
        let message = harness.expect_reply();
        assert_eq!(
            (&message["method"], &message["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("x:1"))
        );
        // A subscription takes no slot of running calls.
        assert_eq!(harness.pipe.engine().live_calls(), 0);
        harness.assert_works();
        harness.transcript
    });
}

// covers: SUB-006, SUB-019
#[test]
fn undeclared_changes_are_not_honoured() {
    let mut harness = ServerHarness::server(config(&[Capability::ToolsListChanged]), Chunker::Whole);
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["x:1"]});
    harness.feed_message(&listen(1, all.clone()));
    assert_eq!(expect_acknowledged(&mut harness, &json!(1)), json!({"toolsListChanged": true}));
    let mut undeclared = ServerHarness::server(config(&[]), Chunker::Whole);
    undeclared.feed_message(&listen(1, all));
    assert_eq!(expect_acknowledged(&mut undeclared, &json!(1)), json!({}));
    for malformed in
        [json!(null), json!([]), json!({"toolsListChanged": 1}), json!({"resourceSubscriptions": [1]})]
    {
        assert_eq!(undeclared.expect_error(&listen(2, malformed.clone()))["code"], -32602, "{malformed}");
    }
    assert_eq!(
        undeclared.expect_error(&modern_request(2, "subscriptions/listen", json!({})))["code"],
        -32602
    );
    undeclared.assert_works();
}

// covers: SUB-012, BASE-006
#[test]
fn cancelled_subscription_gets_no_more_changes() {
    for_each_chunker(|cut| {
        let mut harness = server_harness(cut);
        harness.feed_message(&listen(1, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]})));
        harness.expect_reply();
        harness.expect_event();
        // The request id is in flight as long as the subscription is open.
        harness.feed_message(&listen(1, json!({})));
        assert!(matches!(harness.expect_event(), Event::Diagnostic { .. }));
        harness.assert_nothing_sent();
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
        assert!(
            matches!(harness.expect_event(), Event::ResourceInterest { uri, is_subscribed: false } if uri == "x:1")
        );
        assert_eq!(publish(&mut harness, &Change::Tools) + publish(&mut harness, &resource_change("x:1")), 0);
        harness.assert_nothing_sent();
        harness.feed_message(&listen(1, json!({"toolsListChanged": true})));
        expect_acknowledged(&mut harness, &json!(1));
        harness.transcript
    });
}

// covers: SUB-013, SUB-014, SUB-021, CANC-018
#[test]
fn server_ends_subscription_by_result_then_cancellation() {
    let assert_ended = |sent: &[Value], id: &Value| {
        let result = sent.iter().position(|m| &m["id"] == id).expect("a result");
        let body = &sent[result]["result"];
        assert_eq!(body["resultType"], "complete");
        assert_eq!(&body["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        let cancelled = sent.iter().position(|m| &m["params"]["requestId"] == id).expect("a notification");
        assert!(result < cancelled);
    };
    let mut harness = server_harness(Chunker::Whole);
    for id in [1, 2] {
        harness.feed_message(&listen(id, json!({"toolsListChanged": true})));
        harness.expect_reply();
    }
    let (now, channel) = (harness.now, harness.pipe.channel());
    harness.pipe.engine().end_subscriptions(now, channel);
    harness.pump();
    let sent = harness.take_sent();
    assert_eq!(sent.len(), 4);
    assert_ended(&sent, &json!(1));
    assert_ended(&sent, &json!(2));
    assert_eq!(publish(&mut harness, &Change::Tools), 0);
    harness.feed_message(&listen(3, json!({"toolsListChanged": true})));
    harness.expect_reply();
    harness.pipe.engine().shutdown(now, secs(1));
    harness.pump();
    let sent = harness.take_sent();
    assert_ended(&sent, &json!(3));
}

// covers: RES-010, RES-011, RES-012, RES-028, PROMPT-009
#[test]
fn session_gets_declared_list_changes_and_subscribed_resources() {
    for version in [Version::V2024_11_05, Version::V2025_06_18, Version::V2025_11_25] {
        for_each_chunker(|cut| {
            let mut harness = server_harness(cut);
            harness.open_session(version);
            for (change, method) in [
                (Change::Tools, "tools/list_changed"),
                (Change::Prompts, "prompts/list_changed"),
                (Change::Resources, "resources/list_changed"),
            ] {
                assert_eq!(publish(&mut harness, &change), 1);
                let message = harness.expect_reply();
                assert_eq!(message["method"], format!("notifications/{method}"));
                assert!(message.get("params").is_none());
            }
            assert_eq!(publish(&mut harness, &resource_change("x:1")), 0);
            harness.feed_message(&legacy_request(1, "resources/subscribe", json!({"uri": "x:1"})));
            assert_eq!(harness.expect_reply()["result"], json!({}));
            assert!(
                matches!(harness.expect_event(), Event::ResourceInterest { uri, is_subscribed: true } if uri == "x:1")
            );
            assert_eq!(publish(&mut harness, &resource_change("x:1")), 1);
            assert_eq!(harness.expect_reply()["params"], json!({"uri": "x:1"}));
            harness.feed_message(&legacy_request(2, "resources/unsubscribe", json!({"uri": "x:1"})));
            assert_eq!(harness.expect_reply()["result"], json!({}));
            assert!(matches!(harness.expect_event(), Event::ResourceInterest { is_subscribed: false, .. }));
            assert_eq!(publish(&mut harness, &resource_change("x:1")), 0);
            assert_eq!(
                harness.expect_error(&legacy_request(3, "resources/subscribe", json!({})))["code"],
                -32602
            );
            harness.transcript
        });
    }
}

// covers: RES-012
#[test]
fn no_changes_are_sent_before_initialized_or_undeclared() {
    let mut undeclared = ServerHarness::server(config(&[]), Chunker::Whole);
    undeclared.open_session(Version::V2025_11_25);
    assert_eq!(publish(&mut undeclared, &Change::Tools), 0);
    let mut early = server_harness(Chunker::Whole);
    early.feed_message(&mcp_tests::harness::build::initialize_request(0, "2025-11-25"));
    early.expect_reply();
    assert_eq!(publish(&mut early, &Change::Tools), 0);
}

// covers: SUB-008
#[test]
fn unsent_change_notifications_are_coalesced() {
    let mut harness = server_harness(Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    harness.feed_message(&legacy_request(1, "resources/subscribe", json!({"uri": "x:1"})));
    harness.expect_reply();
    harness.is_blocked = true;
    for _ in 0..1_000 {
        publish(&mut harness, &Change::Tools);
        publish(&mut harness, &resource_change("x:1"));
    }
    harness.is_blocked = false;
    harness.pump();
    assert_eq!(harness.take_sent().len(), 2);
    publish(&mut harness, &Change::Tools);
    assert_eq!(harness.take_sent().len(), 1, "the earlier ones were sent, so this one is new");
}

#[test]
fn blocked_client_gets_each_change_once_when_it_reads() {
    let mut harness = harness_with_limits(|l| l.outbox_high_water = 2_000);
    harness.feed_message(&listen(1, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]})));
    harness.expect_reply();
    harness.expect_event();
    harness.is_blocked = true;
    // Enough to pass the high-water mark.
    let call = harness.expect_call_for(&modern_request(2, "tools/list", json!({})));
    let now = harness.now;
    let long = json!({"tools": [], "note": "x".repeat(3_000)});
    harness.pipe.engine().complete(now, call.id(), &long).expect("open");
    for _ in 0..100 {
        publish(&mut harness, &Change::Tools);
        publish(&mut harness, &resource_change("x:1"));
    }
    harness.advance(secs(1));
    harness.is_blocked = false;
    harness.pump();
    assert_eq!(harness.take_sent().len(), 1, "the answer");
    harness.advance(ms(100));
    assert_eq!(take_changes(&mut harness).len(), 2);
    harness.advance(secs(1));
    harness.assert_nothing_sent();
}

// covers: SUB-006
#[test]
fn subscriptions_are_bounded_at_the_server() {
    let mut harness = harness_with_limits(|l| {
        l.max_subscriptions = 2;
        l.max_subscribed_resources = 3;
        l.max_uri = 10;
    });
    let uris = |range: core::ops::Range<u32>| range.map(|n| format!("x:{n}")).collect::<Vec<_>>();
    harness.feed_message(&listen(1, json!({"resourceSubscriptions": ["x:far too long", "x:0", "x:1"]})));
    assert_eq!(expect_acknowledged(&mut harness, &json!(1)), json!({"resourceSubscriptions": uris(0..2)}));
    harness.feed_message(&listen(2, json!({"resourceSubscriptions": uris(0..100_000)})));
    assert_eq!(expect_acknowledged(&mut harness, &json!(2)), json!({"resourceSubscriptions": uris(0..1)}));
    assert_eq!(harness.expect_error_after_events(&listen(3, json!({})))["code"], -32603);
    harness.take_event_texts();
    harness.assert_works();
    let mut harness = harness_with_limits(|l| {
        l.max_subscribed_resources = 1;
        l.max_uri = 10;
    });
    harness.open_session(Version::V2025_11_25);
    let subscribe = |id: i64, uri: &str| legacy_request(id, "resources/subscribe", json!({"uri": uri}));
    harness.feed_message(&subscribe(1, "x:0"));
    harness.expect_reply();
    harness.take_event_texts();
    assert_eq!(harness.expect_error(&subscribe(2, "x:1"))["code"], -32603);
    assert_eq!(harness.expect_error(&subscribe(3, "x:far too long"))["code"], -32602);
}

// covers: SUB-017
#[test]
fn eof_ends_subscriptions() {
    let mut harness = server_harness(Chunker::Whole);
    harness.feed_message(&listen(1, json!({"resourceSubscriptions": ["x:1"]})));
    harness.expect_reply();
    harness.expect_event();
    harness.eof();
    assert!(matches!(harness.expect_event(), Event::ResourceInterest { is_subscribed: false, .. }));
    assert!(matches!(harness.expect_event(), Event::Closed { .. }));
    assert_eq!(publish(&mut harness, &resource_change("x:1")), 0);
    harness.assert_nothing_sent();
}

// covers: SUB-017
#[test]
fn no_subscription_starts_after_eof() {
    for modern_one in [true, false] {
        let mut harness = server_harness(Chunker::Whole);
        let (call, late) = if modern_one {
            let call = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
            (call, listen(2, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]})))
        } else {
            harness.open_session(Version::V2025_11_25);
            let call = harness.expect_call_for(&legacy_request(1, "tools/list", json!({})));
            (call, legacy_request(2, "resources/subscribe", json!({"uri": "x:1"})))
        };
        harness.eof();
        // The connection is still open because of the call.
        let (now, channel) = (harness.now, harness.pipe.channel());
        harness.observer.record_fed(now, MessageDirection::ClientToServer, late.to_string().as_bytes());
        harness.pipe.engine().handle_message(now, channel, late.to_string().into());
        harness.pump();
        harness.take_sent();
        assert_eq!(publish(&mut harness, &Change::Tools) + publish(&mut harness, &resource_change("x:1")), 0);
        harness.complete(call.id(), &json!({"tools": []}));
        assert!(matches!(harness.expect_event(), Event::Closed { .. }), "no event before `Closed`");
    }
}
