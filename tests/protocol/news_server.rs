//! Subscriptions and news, on the server's side: who is told, when, how often, and when no more.

use mcp_proto::server::{self, Event};
use mcp_proto::{Capabilities, Capability, Change, Limits, Version, VersionSet};
use mcp_tests::harness::build::{legacy, modern, note};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use mcp_tests::schema::Direction;
use serde_json::{Value, json};

use crate::common::{limits, ms, secs, server};

const PROMISED: [Capability; 4] = [
    Capability::ToolsListChanged,
    Capability::PromptsListChanged,
    Capability::ResourcesListChanged,
    Capability::ResourceSubscriptions,
];

fn config(promised: &[Capability]) -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Resources);
    server(VersionSet::ALL).capabilities(promised.iter().copied().fold(capabilities, Capabilities::with))
}

fn lone(cut: Chunker) -> LoneServer {
    LoneServer::server(config(&PROMISED), cut)
}

fn bounded(change: impl FnOnce(&mut Limits)) -> LoneServer {
    LoneServer::server(config(&PROMISED).limits(limits(change)), Chunker::Whole)
}

fn publish(lone: &mut LoneServer, change: &Change) -> usize {
    let now = lone.now;
    let told = lone.pipe.engine().publish(now, change);
    lone.pump();
    told
}

fn listen(id: impl Into<Value>, filter: impl Into<Value>) -> Value {
    modern(id, "subscriptions/listen", json!({"notifications": filter.into()}))
}

/// What was acknowledged
fn acknowledged(lone: &mut LoneServer, id: &Value) -> Value {
    let said = lone.reply();
    assert_eq!(said["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(&said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    said["params"]["notifications"].clone()
}

/// The methods and subscriptions of the news that was sent
fn news(lone: &mut LoneServer) -> Vec<(String, Value)> {
    let told = |m: &Value| {
        let id = m["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
        (m["method"].as_str().expect("a notification").replace("notifications/", ""), id)
    };
    lone.sent().iter().map(told).collect()
}

fn resource(uri: &str) -> Change {
    Change::Resource(uri.into())
}

// covers: SUB-001, SUB-002, SUB-003, SUB-004, SUB-005, SUB-006, SUB-008, SUB-010, RES-012, RES-013, RES-014
#[test]
fn a_subscription_is_acknowledged_first_and_told_what_it_asked_for() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let filter =
            json!({"toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["x:1"]});
        lone.tell(&listen("s", filter));
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]});
        assert_eq!(acknowledged(&mut lone, &json!("s")), honoured);
        assert!(matches!(lone.event(), Event::Interest { uri, wanted: true } if uri == "x:1"));
        lone.tell(&listen(7, json!({"resourcesListChanged": true, "toolsListChanged": true})));
        acknowledged(&mut lone, &json!(7));
        assert_eq!(publish(&mut lone, &Change::Tools), 2);
        let tools = "tools/list_changed".to_owned();
        assert_eq!(news(&mut lone), [(tools.clone(), json!("s")), (tools, json!(7))]);
        assert_eq!(publish(&mut lone, &Change::Prompts), 0);
        assert_eq!(publish(&mut lone, &Change::Resources), 1);
        assert_eq!(news(&mut lone), [("resources/list_changed".into(), json!(7))]);
        assert_eq!(publish(&mut lone, &resource("x:2")), 0);
        assert_eq!(publish(&mut lone, &resource("x:1")), 1);
        let said = lone.reply();
        assert_eq!(
            (&said["method"], &said["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("x:1"))
        );
        // It stands in nobody's way.
        assert_eq!(lone.pipe.engine().live_calls(), 0);
        lone.works();
        lone.transcript
    });
}

// covers: SUB-006, SUB-019
#[test]
fn what_was_not_promised_is_not_honoured() {
    let mut lone = LoneServer::server(config(&[Capability::ToolsListChanged]), Chunker::Whole);
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["x:1"]});
    lone.tell(&listen(1, all.clone()));
    assert_eq!(acknowledged(&mut lone, &json!(1)), json!({"toolsListChanged": true}));
    let mut mute = LoneServer::server(config(&[]), Chunker::Whole);
    mute.tell(&listen(1, all));
    assert_eq!(acknowledged(&mut mute, &json!(1)), json!({}));
    for odd in [json!(null), json!([]), json!({"toolsListChanged": 1}), json!({"resourceSubscriptions": [1]})]
    {
        assert_eq!(mute.refused(&listen(2, odd.clone()))["code"], -32602, "{odd}");
    }
    assert_eq!(mute.refused(&modern(2, "subscriptions/listen", json!({})))["code"], -32602);
    mute.works();
}

// covers: SUB-012, BASE-006
#[test]
fn a_client_ends_a_subscription_and_hears_no_more() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.tell(&listen(1, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]})));
        lone.reply();
        lone.event();
        // Its id is in flight as long as it lasts.
        lone.tell(&listen(1, json!({})));
        assert!(matches!(lone.event(), Event::Diagnostic { .. }));
        lone.silent();
        lone.tell(&note("notifications/cancelled", json!({"requestId": 1})));
        assert!(matches!(lone.event(), Event::Interest { uri, wanted: false } if uri == "x:1"));
        assert_eq!(publish(&mut lone, &Change::Tools) + publish(&mut lone, &resource("x:1")), 0);
        lone.silent();
        lone.tell(&listen(1, json!({"toolsListChanged": true})));
        acknowledged(&mut lone, &json!(1));
        lone.transcript
    });
}

// covers: SUB-013, SUB-014, SUB-021, CANC-018
#[test]
fn a_server_ends_subscriptions_in_good_order() {
    let farewell = |sent: &[Value], id: &Value| {
        let result = sent.iter().position(|m| &m["id"] == id).expect("a result");
        let body = &sent[result]["result"];
        assert_eq!(body["resultType"], "complete");
        assert_eq!(&body["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        let cancelled = sent.iter().position(|m| &m["params"]["requestId"] == id).expect("a notification");
        assert!(result < cancelled);
    };
    let mut lone = lone(Chunker::Whole);
    for id in [1, 2] {
        lone.tell(&listen(id, json!({"toolsListChanged": true})));
        lone.reply();
    }
    let (now, channel) = (lone.now, lone.pipe.channel());
    lone.pipe.engine().end_subscriptions(now, channel);
    lone.pump();
    let sent = lone.sent();
    assert_eq!(sent.len(), 4);
    farewell(&sent, &json!(1));
    farewell(&sent, &json!(2));
    assert_eq!(publish(&mut lone, &Change::Tools), 0);
    lone.tell(&listen(3, json!({"toolsListChanged": true})));
    lone.reply();
    lone.pipe.engine().shutdown(now, secs(1));
    lone.pump();
    let sent = lone.sent();
    farewell(&sent, &json!(3));
}

// covers: RES-010, RES-011, RES-012, RES-028, PROMPT-009
#[test]
fn a_session_is_told_what_was_promised_and_what_it_subscribed_to() {
    for version in [Version::V2024_11_05, Version::V2025_06_18, Version::V2025_11_25] {
        each_cut(|cut| {
            let mut lone = lone(cut);
            lone.open(version);
            for (change, method) in [
                (Change::Tools, "tools/list_changed"),
                (Change::Prompts, "prompts/list_changed"),
                (Change::Resources, "resources/list_changed"),
            ] {
                assert_eq!(publish(&mut lone, &change), 1);
                let said = lone.reply();
                assert_eq!(said["method"], format!("notifications/{method}"));
                assert!(said.get("params").is_none());
            }
            assert_eq!(publish(&mut lone, &resource("x:1")), 0);
            lone.tell(&legacy(1, "resources/subscribe", json!({"uri": "x:1"})));
            assert_eq!(lone.reply()["result"], json!({}));
            assert!(matches!(lone.event(), Event::Interest { uri, wanted: true } if uri == "x:1"));
            assert_eq!(publish(&mut lone, &resource("x:1")), 1);
            assert_eq!(lone.reply()["params"], json!({"uri": "x:1"}));
            lone.tell(&legacy(2, "resources/unsubscribe", json!({"uri": "x:1"})));
            assert_eq!(lone.reply()["result"], json!({}));
            assert!(matches!(lone.event(), Event::Interest { wanted: false, .. }));
            assert_eq!(publish(&mut lone, &resource("x:1")), 0);
            assert_eq!(lone.refused(&legacy(3, "resources/subscribe", json!({})))["code"], -32602);
            lone.transcript
        });
    }
}

// covers: RES-012
#[test]
fn nothing_is_told_before_a_session_is_open_nor_without_a_promise() {
    let mut quiet = LoneServer::server(config(&[]), Chunker::Whole);
    quiet.open(Version::V2025_11_25);
    assert_eq!(publish(&mut quiet, &Change::Tools), 0);
    let mut early = lone(Chunker::Whole);
    early.tell(&mcp_tests::harness::build::initialize(0, "2025-11-25"));
    early.reply();
    assert_eq!(publish(&mut early, &Change::Tools), 0);
}

// covers: SUB-008
#[test]
fn news_that_has_not_left_yet_is_not_said_twice() {
    let mut lone = lone(Chunker::Whole);
    lone.open(Version::V2025_11_25);
    lone.tell(&legacy(1, "resources/subscribe", json!({"uri": "x:1"})));
    lone.reply();
    lone.blocked = true;
    for _ in 0..1_000 {
        publish(&mut lone, &Change::Tools);
        publish(&mut lone, &resource("x:1"));
    }
    lone.blocked = false;
    lone.pump();
    assert_eq!(lone.sent().len(), 2);
    publish(&mut lone, &Change::Tools);
    assert_eq!(lone.sent().len(), 1, "it has left: what is said now is new");
}

#[test]
fn who_does_not_read_is_told_once_when_there_is_room() {
    let mut lone = bounded(|l| l.outbox_mark = 2_000);
    lone.tell(&listen(1, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]})));
    lone.reply();
    lone.event();
    lone.blocked = true;
    // Enough to pass the mark.
    let call = lone.take(&modern(2, "tools/list", json!({})));
    let now = lone.now;
    let long = json!({"tools": [], "note": "x".repeat(3_000)});
    lone.pipe.engine().complete(now, call.id(), &long).expect("open");
    for _ in 0..100 {
        publish(&mut lone, &Change::Tools);
        publish(&mut lone, &resource("x:1"));
    }
    lone.pass(secs(1));
    lone.blocked = false;
    lone.pump();
    assert_eq!(lone.sent().len(), 1, "the answer");
    lone.pass(ms(100));
    assert_eq!(news(&mut lone).len(), 2);
    lone.pass(secs(1));
    lone.silent();
}

// covers: SUB-006
#[test]
fn one_client_cannot_subscribe_without_end() {
    let mut lone = bounded(|l| {
        l.max_subscriptions = 2;
        l.max_followed = 3;
        l.max_uri = 10;
    });
    let uris = |range: core::ops::Range<u32>| range.map(|n| format!("x:{n}")).collect::<Vec<_>>();
    lone.tell(&listen(1, json!({"resourceSubscriptions": ["x:far too long", "x:0", "x:1"]})));
    assert_eq!(acknowledged(&mut lone, &json!(1)), json!({"resourceSubscriptions": uris(0..2)}));
    lone.tell(&listen(2, json!({"resourceSubscriptions": uris(0..100_000)})));
    assert_eq!(acknowledged(&mut lone, &json!(2)), json!({"resourceSubscriptions": uris(0..1)}));
    assert_eq!(lone.refused_later(&listen(3, json!({})))["code"], -32603);
    lone.said();
    lone.works();
    let mut lone = bounded(|l| {
        l.max_followed = 1;
        l.max_uri = 10;
    });
    lone.open(Version::V2025_11_25);
    let subscribe = |id: i64, uri: &str| legacy(id, "resources/subscribe", json!({"uri": uri}));
    lone.tell(&subscribe(1, "x:0"));
    lone.reply();
    lone.said();
    assert_eq!(lone.refused(&subscribe(2, "x:1"))["code"], -32603);
    assert_eq!(lone.refused(&subscribe(3, "x:far too long"))["code"], -32602);
}

// covers: SUB-017
#[test]
fn the_end_of_the_input_ends_subscriptions() {
    let mut lone = lone(Chunker::Whole);
    lone.tell(&listen(1, json!({"resourceSubscriptions": ["x:1"]})));
    lone.reply();
    lone.event();
    lone.eof();
    assert!(matches!(lone.event(), Event::Interest { wanted: false, .. }));
    assert!(matches!(lone.event(), Event::Closed { .. }));
    assert_eq!(publish(&mut lone, &resource("x:1")), 0);
    lone.silent();
}

// covers: SUB-017
#[test]
fn no_subscription_begins_after_the_end_of_the_input() {
    for modern_one in [true, false] {
        let mut lone = lone(Chunker::Whole);
        let (call, late) = if modern_one {
            let call = lone.take(&modern(1, "tools/list", json!({})));
            (call, listen(2, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]})))
        } else {
            lone.open(Version::V2025_11_25);
            let call = lone.take(&legacy(1, "tools/list", json!({})));
            (call, legacy(2, "resources/subscribe", json!({"uri": "x:1"})))
        };
        lone.eof();
        // It is still open, for the sake of the call.
        let (now, channel) = (lone.now, lone.pipe.channel());
        lone.watch.fed(now, Direction::ClientToServer, late.to_string().as_bytes());
        lone.pipe.engine().handle_message(now, channel, late.to_string().into());
        lone.pump();
        lone.sent();
        assert_eq!(publish(&mut lone, &Change::Tools) + publish(&mut lone, &resource("x:1")), 0);
        lone.complete(call.id(), &json!({"tools": []}));
        assert!(matches!(lone.event(), Event::Closed { .. }), "and nothing else");
    }
}
