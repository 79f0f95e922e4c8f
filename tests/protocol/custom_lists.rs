//! Lists of extensions in the filter of a subscription: who registers them, what is honoured, and when changes arrive.

use mcp_proto::client::{Event, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::pipe::{Client, Server};
use mcp_proto::{
    Capabilities, Capability, Change, CustomList, CustomListError, Diagnostic, Instant, Version, VersionSet,
    client, server,
};
use mcp_tests::harness::build::{LEGACY_VERSIONS, modern_request, notification};
use mcp_tests::harness::{
    Applications, Chunker, ClientHarness, HttpClientHarness, LinkConfig, Pair, ServerHarness,
    for_each_chunker,
};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::protocol::common::{client as client_config, secs, server as server_config};

const ID: &str = "io.modelcontextprotocol/subscriptionId";
const EVENTS: CustomList = CustomList::new("eventsListChanged", "notifications/events/list_changed");
const BERTHS: CustomList = CustomList::new("berthsListChanged", "notifications/berths/list_changed");

fn server_with(lists: &[CustomList]) -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let config = server_config(VersionSet::ALL).capabilities(capabilities);
    lists.iter().fold(config, |config, list| config.custom_list(*list).expect("a free name"))
}

fn client_with(versions: VersionSet, lists: &[CustomList]) -> client::Config {
    let config = client_config(versions);
    lists.iter().fold(config, |config, list| config.custom_list(*list).expect("a free name"))
}

fn filter_of(lists: &[CustomList]) -> SubscriptionFilter {
    lists.iter().fold(SubscriptionFilter::new(), |filter, list| filter.custom_list(*list))
}

// ---- registration ------------------------------------------------------------------------------------------------

#[test]
fn list_with_a_taken_name_and_sixth_list_are_refused() {
    let taken = [
        CustomList::new("toolsListChanged", "notifications/x"),
        CustomList::new("resourceSubscriptions", "notifications/x"),
        CustomList::new("taskIds", "notifications/x"),
        CustomList::new("x", "notifications/resources/updated"),
        CustomList::new("x", "notifications/cancelled"),
        CustomList::new("x", "tools/call"),
        CustomList::new(EVENTS.member(), BERTHS.notification()),
        CustomList::new(BERTHS.member(), EVENTS.notification()),
    ];
    for list in taken {
        let refused = Some(CustomListError::Taken(list));
        assert_eq!(server_with(&[EVENTS]).custom_list(list).err(), refused, "{list:?}");
        assert_eq!(client_with(VersionSet::ALL, &[EVENTS]).custom_list(list).err(), refused, "{list:?}");
    }
    let more = [("a", "n/a"), ("b", "n/b"), ("c", "n/c")].map(|(member, name)| CustomList::new(member, name));
    let config = more.iter().fold(server_with(&[EVENTS, BERTHS]), |config, list| {
        config.custom_list(*list).expect("five lists have room")
    });
    let sixth = CustomList::new("d", "n/d");
    let error = config.clone().custom_list(sixth).expect_err("no room");
    assert_eq!(
        (error, error.to_string().contains("there are 5 others")),
        (CustomListError::Full(sixth), true)
    );
    assert!(config.custom_list(EVENTS).is_ok(), "it is registered");
}

// ---- server ------------------------------------------------------------------------------------------------------

fn listen(id: i64, filter: impl Into<Value>) -> Value {
    modern_request(id, "subscriptions/listen", json!({"notifications": filter.into()}))
}

fn acknowledged(harness: &mut ServerHarness) -> Value {
    let message = harness.expect_reply();
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged");
    message["params"]["notifications"].clone()
}

fn publish(harness: &mut ServerHarness, change: &Change) -> usize {
    let now = harness.now;
    let count = harness.pipe.engine().publish(now, change);
    harness.pump();
    count
}

// covers: SUB-003, SUB-004, SUB-006, SUB-008, SUB-010, SUB-012, EVT-016, EVT-017, EVT-018
#[test]
fn changes_are_announced_while_the_subscription_is_open() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server_with(&[EVENTS, BERTHS]), cut);
        let (events, berths) = (Change::Custom(EVENTS), Change::Custom(BERTHS));
        assert_eq!(publish(&mut harness, &events), 0, "nobody subscribes yet");
        let filter = json!({"eventsListChanged": true, "toolsListChanged": true, "berthsListChanged": false});
        harness.feed_message(&listen(1, filter));
        assert_eq!(acknowledged(&mut harness), json!({"toolsListChanged": true, "eventsListChanged": true}));
        harness.assert_nothing_sent();
        harness.feed_message(&listen(2, json!({"berthsListChanged": true, "eventsListChanged": true})));
        assert_eq!(acknowledged(&mut harness), json!({"eventsListChanged": true, "berthsListChanged": true}));
        assert_eq!((publish(&mut harness, &berths), publish(&mut harness, &events)), (1, 2));
        // They have nothing beside what each message of a subscription has.
        let expected = [(BERTHS, 2), (EVENTS, 1), (EVENTS, 2)].map(|(list, id)| change_of(list, &json!(id)));
        assert_eq!(harness.take_sent(), expected);
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
        assert_eq!((publish(&mut harness, &Change::Tools), publish(&mut harness, &events)), (0, 1));
        assert_eq!(harness.expect_reply()["params"]["_meta"][ID], 2);
        harness.assert_works();
        harness.transcript
    });
}

// covers: SUB-003, SUB-006, SUB-019, EVT-006, EVT-018
#[test]
fn unregistered_list_is_ignored_and_wrong_type_is_refused() {
    let mut harness = ServerHarness::server(server_with(&[BERTHS]), Chunker::Whole);
    // An unknown member may have any value.
    for (id, value) in [json!(true), json!(7), json!(null)].into_iter().enumerate() {
        harness.feed_message(&listen(id as i64, json!({"eventsListChanged": value})));
        assert_eq!(acknowledged(&mut harness), json!({}));
    }
    assert_eq!(publish(&mut harness, &Change::Custom(EVENTS)), 0);
    for value in [json!(1), json!("true"), json!([]), json!({})] {
        let error = harness.expect_error(&listen(9, json!({"berthsListChanged": value})));
        assert_eq!(error["code"], -32602, "{value}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("notifications.berthsListChanged"))
        );
    }
    for absent in [json!(null), json!(false)] {
        harness.feed_message(&listen(10, json!({"berthsListChanged": absent})));
        assert_eq!(acknowledged(&mut harness), json!({}));
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 10})));
    }
    let twice = listen(11, json!({"berthsListChanged": true})).to_string();
    let twice =
        twice.replace(r#""berthsListChanged":true"#, r#""berthsListChanged":true,"berthsListChanged":true"#);
    harness.feed(format!("{twice}\n").as_bytes());
    assert_eq!(harness.expect_reply()["error"]["code"], -32602);
    assert_eq!(publish(&mut harness, &Change::Custom(BERTHS)), 0);
    harness.assert_works();
}

// covers: SUB-008
#[test]
fn equal_changes_that_wait_are_merged() {
    let mut harness = ServerHarness::server(server_with(&[EVENTS, BERTHS]), Chunker::Whole);
    harness.feed_message(&listen(1, json!({"eventsListChanged": true, "berthsListChanged": true})));
    acknowledged(&mut harness);
    harness.is_blocked = true;
    for _ in 0..1_000 {
        publish(&mut harness, &Change::Custom(EVENTS));
        publish(&mut harness, &Change::Custom(BERTHS));
    }
    harness.is_blocked = false;
    harness.pump();
    assert_eq!(harness.take_sent().len(), 2);
    publish(&mut harness, &Change::Custom(EVENTS));
    assert_eq!(harness.take_sent().len(), 1, "the earlier ones were sent, so this one is new");
}

#[test]
fn deferred_change_has_its_notification() {
    let config =
        server_with(&[EVENTS]).limits(crate::protocol::common::limits(|l| l.outbox_high_water = 2_000));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    harness.feed_message(&listen(1, json!({"eventsListChanged": true})));
    acknowledged(&mut harness);
    harness.is_blocked = true;
    let call = harness.expect_call_for(&modern_request(2, "tools/list", json!({})));
    let now = harness.now;
    let long = json!({"tools": [], "note": "x".repeat(3_000)});
    harness.pipe.engine().complete(now, call.id(), &long).expect("open");
    publish(&mut harness, &Change::Custom(EVENTS));
    harness.is_blocked = false;
    harness.pump();
    assert_eq!(harness.take_sent().len(), 1, "the answer");
    harness.advance(secs(1));
    assert_eq!(harness.expect_reply()["method"], EVENTS.notification());
    harness.assert_nothing_sent();
}

// covers: EVT-008
#[test]
fn legacy_session_gets_no_change_of_a_custom_list() {
    for version in LEGACY_VERSIONS {
        let mut harness = ServerHarness::server(server_with(&[EVENTS]), Chunker::Whole);
        harness.open_session(version);
        assert_eq!(publish(&mut harness, &Change::Custom(EVENTS)), 0, "{version}");
        assert_eq!(publish(&mut harness, &Change::Tools), 1);
        assert_eq!(harness.expect_reply()["method"], "notifications/tools/list_changed");
        harness.assert_nothing_sent();
    }
}

// ---- client ------------------------------------------------------------------------------------------------------

fn change_of(list: CustomList, id: &Value) -> Value {
    notification(list.notification(), json!({"_meta": {ID: id}}))
}

fn acknowledgment(id: &Value, honoured: &Value) -> Value {
    notification(
        "notifications/subscriptions/acknowledged",
        json!({"_meta": {ID: id}, "notifications": honoured}),
    )
}

fn client_harness(cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client_with(VersionSet::ALL, &[EVENTS, BERTHS]), cut);
    harness.become_modern(json!({"tools": {}}));
    harness
}

fn start_listening(harness: &mut ClientHarness, filter: &SubscriptionFilter) -> (SubscriptionKey, Value) {
    let key = harness.subscribe(filter);
    (key, harness.expect_request("subscriptions/listen"))
}

fn assert_unsolicited(harness: &mut ClientHarness) {
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnsolicitedNotification(_)));
    harness.assert_idle();
}

// covers: SUB-003, SUB-004, SUB-007, SUB-008, SUB-009, SUB-012, EVT-017, EVT-019
#[test]
fn client_reports_changes_between_acknowledgment_and_unsubscription() {
    for_each_chunker(|cut| {
        let mut harness = client_harness(cut);
        let (key, request) =
            start_listening(&mut harness, &filter_of(&[EVENTS, BERTHS]).tools_list_changed(true));
        let asked = json!({"toolsListChanged": true, "eventsListChanged": true, "berthsListChanged": true});
        assert_eq!(request["params"]["notifications"], asked);
        let id = &request["id"];
        harness.feed_message(&change_of(EVENTS, id));
        assert_unsolicited(&mut harness);
        // One of two is honoured, and one that was not asked for is not.
        let honoured = json!({"eventsListChanged": true, "promptsListChanged": true});
        harness.feed_message(&acknowledgment(id, &honoured));
        let honoured = harness.expect_subscribed(key);
        assert_eq!(honoured, filter_of(&[EVENTS]));
        assert!(honoured.has_custom_list(EVENTS) && !honoured.has_custom_list(BERTHS));
        harness.feed_message(&change_of(EVENTS, id));
        assert_eq!(harness.expect_change(key), Change::Custom(EVENTS));
        for wrong in [
            change_of(BERTHS, id),
            change_of(EVENTS, &json!(99)),
            notification(EVENTS.notification(), Value::Null),
        ] {
            harness.feed_message(&wrong);
            assert_unsolicited(&mut harness);
        }
        let now = harness.now;
        harness.pipe.engine().unsubscribe(now, key).expect("open");
        assert_eq!(harness.expect_reply()["method"], "notifications/cancelled");
        harness.feed_message(&change_of(EVENTS, id));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: SUB-006, SUB-007
#[test]
fn acknowledgment_with_a_list_of_the_wrong_type_is_invalid() {
    let mut harness = client_harness(Chunker::Whole);
    let (key, request) = start_listening(&mut harness, &filter_of(&[EVENTS]));
    harness.feed_message(&acknowledgment(&request["id"], &json!({"eventsListChanged": 1})));
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)));
    harness.feed_message(&acknowledgment(&request["id"], &json!({"eventsListChanged": true, "x": 1})));
    assert_eq!(harness.expect_subscribed(key), filter_of(&[EVENTS]));
}

#[test]
fn unregistered_list_is_asked_for_and_its_notification_is_the_applications() {
    let mut harness = ClientHarness::client(client_with(VersionSet::ALL, &[]), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    let (key, request) = start_listening(&mut harness, &filter_of(&[EVENTS]));
    assert_eq!(request["params"]["notifications"], json!({"eventsListChanged": true}));
    harness.feed_message(&acknowledgment(&request["id"], &json!({"eventsListChanged": true})));
    assert_eq!(harness.expect_subscribed(key), SubscriptionFilter::new());
    harness.feed_message(&change_of(EVENTS, &request["id"]));
    assert!(matches!(harness.expect_event(), Event::Notification(n) if &*n.method == EVENTS.notification()));
}

// covers: EVT-008
#[test]
fn legacy_server_honours_no_custom_list() {
    for version in LEGACY_VERSIONS {
        let config = client_with(VersionSet::only(version), &[EVENTS]);
        let mut harness = ClientHarness::client(config, Chunker::Whole);
        harness.become_legacy(version, json!({"tools": {"listChanged": true}}));
        let key = harness.subscribe(&filter_of(&[EVENTS]).tools_list_changed(true));
        assert_eq!(harness.expect_subscribed(key), SubscriptionFilter::new().tools_list_changed(true));
        // There is no such list in these revisions, so it is a notification as any other.
        harness.feed_message(&notification(EVENTS.notification(), Value::Null));
        assert!(
            matches!(harness.expect_event(), Event::Notification(n) if &*n.method == EVENTS.notification())
        );
        harness.assert_idle();
    }
}

// covers: SUB-015
#[test]
fn renewed_subscription_asks_for_its_custom_list_again() {
    let config = client_with(VersionSet::MODERN, &[EVENTS, BERTHS]);
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    let filter = filter_of(&[BERTHS]);
    let key = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    for round in 0..2 {
        let listen = harness.expect_post("subscriptions/listen");
        assert_eq!(listen.body["params"]["notifications"], json!({"berthsListChanged": true}));
        harness.start_event_stream(listen.id);
        let acknowledgment = acknowledgment(&listen.body["id"], &json!({"berthsListChanged": true}));
        harness.receive_event(listen.id, "", &acknowledgment);
        assert!(matches!(harness.expect_event(), Event::Subscribed { honoured, .. } if honoured == filter));
        if round > 0 {
            // A change between the streams was not announced.
            let event = harness.expect_event();
            let expected = Change::Custom(BERTHS);
            assert!(
                matches!(event, Event::Changed { key: Some(k), change } if k == key && change == expected)
            );
        }
        harness.assert_idle();
        harness.break_connection(listen.id);
        harness.advance(secs(1));
    }
}

// ---- both --------------------------------------------------------------------------------------------------------

/// Keeps what the client is told of its subscriptions.
#[derive(Debug, Default)]
struct Subscriber {
    honoured: Vec<SubscriptionFilter>,
    changes: Vec<Change>,
    others: Vec<Event>,
}

impl Applications for Subscriber {
    fn handle_client_event(&mut self, _: Instant, _: &mut Client, event: Event) {
        match event {
            Event::Ready(_) => {}
            Event::Subscribed { honoured, .. } => self.honoured.push(honoured),
            Event::Changed { change, .. } => self.changes.push(change),
            other => self.others.push(other),
        }
    }

    fn handle_server_event(&mut self, _: Instant, _: &mut Server, _: server::Event) {}
}

fn publish_in(pair: &mut Pair<Subscriber>, change: &Change) -> usize {
    let now = pair.now;
    let count = pair.server.engine().publish(now, change);
    pair.settle();
    count
}

// covers: SUB-003, SUB-006, SUB-007, SUB-012, EVT-008, EVT-017, EVT-018
#[test]
fn both_sides_agree_on_custom_lists_in_every_revision() {
    for version in Version::ALL {
        let is_modern = version == Version::V2026_07_28;
        for (at_server, honoured) in
            [(&[][..], &[][..]), (&[EVENTS], &[EVENTS]), (&[BERTHS, EVENTS], &[EVENTS, BERTHS])]
        {
            for_each_chunker(|cut| {
                let client = client_with(VersionSet::only(version), &[EVENTS, BERTHS]);
                let server = server_with(at_server);
                let mut pair = Pair::with_app(Subscriber::default(), client, server, LinkConfig::from(cut));
                pair.settle();
                let (now, wanted) = (pair.now, filter_of(&[EVENTS, BERTHS]).tools_list_changed(true));
                let key = pair.client.engine().subscribe(now, &wanted).expect("ready");
                // Before the request has arrived nobody subscribes.
                assert_eq!(pair.server.engine().publish(now, &Change::Custom(EVENTS)), 0);
                pair.settle();
                let honoured = if is_modern { honoured } else { &[] };
                assert_eq!(pair.app.honoured, [filter_of(honoured).tools_list_changed(true)], "{version}");
                let mut expected = Vec::new();
                for list in [BERTHS, EVENTS] {
                    let is_honoured = honoured.contains(&list);
                    assert_eq!(publish_in(&mut pair, &Change::Custom(list)), usize::from(is_honoured));
                    expected.extend(is_honoured.then_some(Change::Custom(list)));
                }
                assert_eq!(publish_in(&mut pair, &Change::Tools), 1);
                expected.push(Change::Tools);
                assert_eq!(pair.app.changes, expected, "{version}");
                let now = pair.now;
                pair.client.engine().unsubscribe(now, key).expect("open");
                // What the server sends before it reads of the end is not reported.
                pair.server.engine().publish(now, &Change::Custom(EVENTS));
                pair.settle();
                assert_eq!(publish_in(&mut pair, &Change::Custom(EVENTS)), 0);
                assert_eq!(
                    (&pair.app.changes, pair.app.others.len()),
                    (&expected, 0),
                    "{:?}",
                    pair.app.others
                );
                pair.messages_in(MessageDirection::ServerToClient).cloned().collect::<Vec<_>>()
            });
        }
    }
}
