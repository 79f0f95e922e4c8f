//! Subscriptions and news, on the client's side: what is honoured, what is told, how it ends.

use mcp_proto::client::{Event, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::pipe::Pipe;
use mcp_proto::{CallError, CallOptions, Change, Diagnostic, Limits, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, error, note, result};
use mcp_tests::harness::{Chunker, LoneClient, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, secs};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn modern(cut: Chunker) -> LoneClient {
    modern_within(Limits::default(), cut)
}

fn modern_within(limits: Limits, cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::ALL).limits(limits), cut);
    lone.with_modern(json!({"tools": {}}));
    lone
}

fn promises() -> Value {
    json!({
        "tools": {"listChanged": true}, "prompts": {"listChanged": false},
        "resources": {"listChanged": true, "subscribe": true}, "logging": {},
    })
}

fn legacy(version: Version, cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::only(version)), cut);
    lone.with_legacy(version, promises());
    lone
}

fn follow(uris: &[&str]) -> SubscriptionFilter {
    SubscriptionFilter::new()
        .resource_subscriptions(uris.iter().map(|u| String::from(*u)).collect::<Vec<_>>())
}

fn all(uris: &[&str]) -> SubscriptionFilter {
    follow(uris).tools_list_changed(true).prompts_list_changed(true).resources_list_changed(true)
}

fn acknowledge(id: &Value, honoured: &Value) -> Value {
    note("notifications/subscriptions/acknowledged", json!({"_meta": {ID: id}, "notifications": honoured}))
}

fn news(id: &Value, method: &str, uri: Option<&str>) -> Value {
    let mut params = json!({"_meta": {ID: id}});
    if let Some(uri) = uri {
        params["uri"] = json!(uri);
    }
    note(&format!("notifications/{method}"), params)
}

const TOOLS: &str = "tools/list_changed";
const PROMPTS: &str = "prompts/list_changed";
const RESOURCES: &str = "resources/list_changed";
const UPDATED: &str = "resources/updated";

fn resource(uri: &str) -> Change {
    Change::Resource(uri.into())
}

fn listen(lone: &mut LoneClient, filter: &SubscriptionFilter) -> (SubscriptionKey, Value) {
    let key = lone.subscribe(filter);
    (key, lone.asked("subscriptions/listen")["id"].clone())
}

/// Subscribed to all, with all of it honoured
fn listening(lone: &mut LoneClient) -> (SubscriptionKey, Value) {
    let (key, id) = listen(lone, &all(&["a:b"]));
    let honoured = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["a:b"],
    });
    lone.tell(&acknowledge(&id, &honoured));
    assert_eq!(lone.subscribed(key), all(&["a:b"]));
    (key, id)
}

fn unwanted(lone: &mut LoneClient) {
    assert!(matches!(lone.diagnostic(), Diagnostic::UnwantedNews(_)));
    lone.still();
}

// ---- modern ------------------------------------------------------------------------------------------------------

// covers: SUB-001, SUB-002, SUB-004, SUB-005, SUB-006, SUB-007, SUB-008, SUB-009, SUB-010, META-020, RES-013
// covers: STDIO-015
#[test]
fn news_is_told_apart_by_the_id_of_the_request() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let one = lone.subscribe(&all(&["chart://n/1", "chart://n/2"]));
        let request = lone.asked("subscriptions/listen");
        assert_eq!(
            request["params"]["notifications"],
            json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["chart://n/1", "chart://n/2"],
            })
        );
        let (two, other) = listen(&mut lone, &SubscriptionFilter::new().resources_list_changed(true));
        let id = &request["id"];
        assert_ne!((one, id), (two, &other));
        lone.still();
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["chart://n/1"]});
        lone.tell(&acknowledge(id, &honoured));
        assert_eq!(lone.subscribed(one), follow(&["chart://n/1"]).tools_list_changed(true));
        lone.tell(&news(id, TOOLS, None));
        assert_eq!(lone.changed(one), Change::Tools);
        lone.tell(&acknowledge(&other, &json!({"resourcesListChanged": true, "toolsListChanged": false})));
        assert_eq!(lone.subscribed(two), SubscriptionFilter::new().resources_list_changed(true));
        lone.tell(&news(id, UPDATED, Some("chart://n/1")));
        assert_eq!(lone.changed(one), resource("chart://n/1"));
        // Part of what is followed, as only the server knows.
        lone.tell(&news(id, UPDATED, Some("chart://n/1x")));
        assert_eq!(lone.changed(one), resource("chart://n/1x"));
        lone.tell(&news(&other, RESOURCES, None));
        assert_eq!(lone.changed(two), Change::Resources);
        lone.still();
        lone.transcript
    });
}

// covers: SUB-003, SUB-006, SUB-007
#[test]
fn what_is_honoured_is_never_more_than_was_asked_for() {
    let mut lone = modern(Chunker::Whole);
    let (key, id) = listen(&mut lone, &follow(&["a", "b"]));
    let surplus =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["b", "c"]});
    lone.tell(&acknowledge(&id, &surplus));
    assert_eq!(lone.subscribed(key), follow(&["b"]));
    for (method, uri) in [(TOOLS, None), (PROMPTS, None), (RESOURCES, None)] {
        lone.tell(&news(&id, method, uri));
        unwanted(&mut lone);
    }
    // Nothing at all may be honoured, and the subscription is one all the same.
    let (key, id) = listen(&mut lone, &all(&["a"]));
    lone.tell(&acknowledge(&id, &json!({})));
    assert_eq!(lone.subscribed(key), SubscriptionFilter::new());
    lone.tell(&news(&id, UPDATED, Some("a")));
    unwanted(&mut lone);
    lone.works();
}

// covers: SUB-004, SUB-008, SUB-009
#[test]
fn news_that_belongs_nowhere_is_ignored() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (call, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        let (key, id) = listen(&mut lone, &all(&["a:b"]));
        for early in [TOOLS, PROMPTS, RESOURCES] {
            lone.tell(&news(&id, early, None));
            unwanted(&mut lone);
        }
        lone.tell(&acknowledge(&id, &json!({"toolsListChanged": true})));
        lone.subscribed(key);
        lone.tell(&acknowledge(&id, &json!({"promptsListChanged": true})));
        unwanted(&mut lone);
        for nobody in [json!(99_999), json!("x"), json!(null), json!({}), request["id"].clone()] {
            lone.tell(&news(&nobody, TOOLS, None));
            unwanted(&mut lone);
            lone.tell(&acknowledge(&nobody, &json!({})));
            unwanted(&mut lone);
        }
        lone.tell(&note("notifications/tools/list_changed", Value::Null));
        unwanted(&mut lone);
        for wrong in [
            note("notifications/subscriptions/acknowledged", json!({"_meta": {ID: id}})),
            acknowledge(&id, &json!({"toolsListChanged": "yes"})),
            news(&id, UPDATED, None),
        ] {
            lone.tell(&wrong);
            assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)), "{wrong}");
        }
        lone.tell(&news(&id, TOOLS, None));
        assert_eq!(lone.changed(key), Change::Tools);
        lone.tell(&result(&request, json!({"tools": []})));
        assert!(lone.done(call).is_ok());
        lone.still();
        lone.transcript
    });
}

// covers: SUB-018, TIME-001
#[test]
fn only_the_acknowledgement_is_waited_for() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (slow, id) = listen(&mut lone, &all(&[]));
        lone.pass(secs(60));
        assert_eq!(lone.subscription_ended(slow), (false, Some(CallError::TimedOut)));
        let told = lone.reply();
        assert_eq!((&told["method"], &told["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
        // It came too late: nobody minds.
        lone.tell(&acknowledge(&id, &json!({})));
        lone.still();
        let (key, id) = listening(&mut lone);
        lone.pass(secs(1_000_000));
        lone.still();
        assert_eq!(lone.pipe.poll_timeout(), None, "nothing is waited for");
        lone.tell(&news(&id, TOOLS, None));
        assert_eq!(lone.changed(key), Change::Tools);
        lone.transcript
    });
}

// covers: SUB-012, CANC-016, CANC-013
#[test]
fn what_is_given_up_is_told_no_more() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (key, id) = listening(&mut lone);
        let now = lone.now;
        lone.pipe.engine().unsubscribe(now, key).expect("open");
        assert_eq!(lone.reply(), note("notifications/cancelled", json!({"requestId": id})));
        assert_eq!(lone.pipe.engine().unsubscribe(now, key), Err(UseError::Stale));
        // What was under way is ignored.
        lone.tell(&news(&id, TOOLS, None));
        lone.tell(&note("notifications/cancelled", json!({"requestId": id})));
        lone.still();
        lone.tell(&result(&json!({"id": id}), json!({"resultType": "complete", "_meta": {ID: id}})));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        // Before it was acknowledged, too.
        let (key, id) = listen(&mut lone, &all(&[]));
        lone.pipe.engine().unsubscribe(lone.now, key).expect("open");
        assert_eq!(lone.reply()["params"]["requestId"], id);
        lone.tell(&acknowledge(&id, &json!({})));
        lone.still();
        lone.works();
        lone.transcript
    });
}

// covers: SUB-012
#[test]
fn unread_news_of_what_is_given_up_is_dropped() {
    let mut lone = legacy(Version::V2025_11_25, Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    let (now, engine) = (lone.now, lone.pipe.engine());
    let (one, two) =
        (engine.subscribe(now, &filter).expect("open"), engine.subscribe(now, &filter).expect("open"));
    engine.unsubscribe(now, one).expect("open");
    lone.subscribed(two);
    lone.still();
}

// covers: SUB-013, SUB-014, SUB-015, SUB-021, CANC-018, CANC-019
#[test]
fn a_server_ends_a_subscription_in_either_way_or_both() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let graceful =
            |id: &Value| result(&json!({"id": id}), json!({"resultType": "complete", "_meta": {ID: id}}));
        let cancelled =
            |id: &Value| note("notifications/cancelled", json!({"requestId": id, "reason": "shutting down"}));
        let (key, id) = listening(&mut lone);
        lone.tell_all(&[graceful(&id), cancelled(&id)]);
        assert_eq!(lone.subscription_ended(key), (true, None));
        lone.still();
        let (key, id) = listening(&mut lone);
        lone.tell(&cancelled(&id));
        assert_eq!(lone.subscription_ended(key), (true, None));
        lone.still();
        lone.tell(&graceful(&id));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        // A result that does not say whose it is: its id does.
        let (key, id) = listening(&mut lone);
        lone.tell(&result(&json!({"id": id}), json!({"resultType": "complete"})));
        assert_eq!(lone.subscription_ended(key), (true, None));
        // Nothing can be asked for there.
        let (key, id) = listening(&mut lone);
        lone.tell(&result(&json!({"id": id}), json!({"resultType": "input_required", "requestState": "s"})));
        assert!(matches!(lone.subscription_ended(key), (false, Some(CallError::ResultType(_)))));
        // Never acknowledged.
        let (key, id) = listen(&mut lone, &all(&[]));
        lone.tell(&graceful(&id));
        assert_eq!(lone.subscription_ended(key), (true, None));
        let (key, id) = listen(&mut lone, &all(&[]));
        lone.tell(&error(&json!({"id": id}), -32601, "Method not found", Value::Null));
        assert!(matches!(lone.subscription_ended(key), (false, Some(CallError::Rpc(e))) if e.code == -32601));
        let (key, id) = listen(&mut lone, &all(&[]));
        lone.tell(&json!({"jsonrpc": "2.0", "id": id, "result": 7}));
        assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { .. }));
        assert!(matches!(lone.subscription_ended(key), (false, Some(CallError::Malformed(_)))));
        lone.still();
        lone.works();
        lone.transcript
    });
}

// covers: SUB-015, SUB-017
#[test]
fn the_end_of_the_connection_is_the_end_of_every_subscription() {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let (mut lone, key) = match version {
                None => {
                    let mut lone = modern(cut);
                    let (key, _) = listening(&mut lone);
                    (lone, key)
                }
                Some(version) => {
                    let mut lone = legacy(version, cut);
                    let key = lone.subscribe(&SubscriptionFilter::new());
                    lone.subscribed(key);
                    (lone, key)
                }
            };
            lone.eof();
            assert!(matches!(lone.subscription_ended(key), (false, Some(CallError::Closed(_)))));
            lone.closed();
            let now = lone.now;
            assert_eq!(lone.pipe.engine().subscribe(now, &all(&[])), Err(UseError::Closed));
            lone.still();
            lone.transcript
        });
    }
}

// ---- legacy ------------------------------------------------------------------------------------------------------

/// The resources in requests of this method, all of them answered
fn served(lone: &mut LoneClient, method: &str) -> Vec<String> {
    let asked = lone.sent();
    let serve = |request: &Value| {
        assert_eq!(request["method"], method, "{request}");
        lone.tell(&result(request, json!({})));
        request["params"]["uri"].as_str().expect("a URI").to_owned()
    };
    asked.iter().map(serve).collect()
}

// covers: RES-010, RES-012, SUB-007
#[test]
fn a_legacy_server_is_asked_to_follow_each_resource_once() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = legacy(version, cut);
            let one = lone.subscribe(&all(&["a:b", "a:a", "a:b"]));
            lone.pump();
            assert!(lone.is_quiet(), "not before the server has agreed");
            assert_eq!(served(&mut lone, "resources/subscribe"), ["a:a", "a:b"]);
            // It promised nothing of prompts.
            let honoured = follow(&["a:a", "a:b"]).tools_list_changed(true).resources_list_changed(true);
            assert_eq!(lone.subscribed(one), honoured);
            let two = lone.subscribe(&follow(&["a:b", "a:c"]));
            assert_eq!(served(&mut lone, "resources/subscribe"), ["a:c"]);
            assert_eq!(lone.subscribed(two), follow(&["a:b", "a:c"]));
            // Known already: nothing is to be asked.
            let three = lone.subscribe(&follow(&["a:b"]));
            lone.silent();
            assert_eq!(lone.subscribed(three), follow(&["a:b"]));
            assert_eq!(lone.pipe.engine().pending_calls(), 0);
            let now = lone.now;
            lone.pipe.engine().unsubscribe(now, one).expect("open");
            assert_eq!(served(&mut lone, "resources/unsubscribe"), ["a:a"]);
            lone.pipe.engine().unsubscribe(now, two).expect("open");
            assert_eq!(served(&mut lone, "resources/unsubscribe"), ["a:c"]);
            lone.pipe.engine().unsubscribe(now, three).expect("open");
            assert_eq!(served(&mut lone, "resources/unsubscribe"), ["a:b"]);
            assert_eq!(lone.pipe.engine().unsubscribe(now, three), Err(UseError::Stale));
            let four = lone.subscribe(&follow(&["a:b"]));
            assert_eq!(served(&mut lone, "resources/subscribe"), ["a:b"]);
            lone.subscribed(four);
            lone.still();
            lone.transcript
        });
    }
}

// covers: RES-010, SUB-006, SUB-007, LIFE-010
#[test]
fn what_a_legacy_server_refuses_or_never_promised_is_not_honoured() {
    each_cut(|cut| {
        let mut lone = legacy(Version::V2025_11_25, cut);
        let one = lone.subscribe(&follow(&["a", "b"]));
        let two = lone.subscribe(&follow(&["b"]));
        let asked = lone.sent();
        lone.tell(&result(&asked[0], json!({})));
        lone.still();
        lone.tell(&error(&asked[1], -32002, "Resource not found", Value::Null));
        assert!(matches!(lone.diagnostic(), Diagnostic::PeerError(e) if e.code == -32002));
        assert_eq!(lone.subscribed(one), follow(&["a"]));
        assert_eq!(lone.subscribed(two), SubscriptionFilter::new());
        lone.tell(&note("notifications/resources/updated", json!({"uri": "b"})));
        unwanted(&mut lone);
        // No answer is a refusal too; the server is told not to bother.
        let three = lone.subscribe(&follow(&["c"]));
        let asked = lone.asked("resources/subscribe");
        lone.pass(secs(60));
        assert_eq!(lone.subscribed(three), SubscriptionFilter::new());
        assert_eq!(lone.reply()["params"]["requestId"], asked["id"]);
        lone.tell(&result(&asked, json!({})));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        // Gone before the server has agreed.
        let four = lone.subscribe(&follow(&["d"]));
        let asked = lone.asked("resources/subscribe");
        lone.pipe.engine().unsubscribe(lone.now, four).expect("open");
        assert_eq!(served(&mut lone, "resources/unsubscribe"), ["d"]);
        lone.tell(&result(&asked, json!({})));
        lone.still();
        lone.transcript
    });
    let mut lone = LoneClient::client(client(VersionSet::LEGACY), Chunker::Whole);
    lone.with_legacy(
        Version::V2025_11_25,
        json!({"tools": {}, "resources": {}, "prompts": {"listChanged": true}}),
    );
    let key = lone.subscribe(&all(&["a"]));
    assert_eq!(lone.subscribed(key), SubscriptionFilter::new().prompts_list_changed(true));
    lone.still();
}

// covers: RES-011, RES-012, RES-028
#[test]
fn legacy_news_goes_to_everyone_who_wants_it() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = legacy(version, cut);
            let list = |name: &str| note(&format!("notifications/{name}"), Value::Null);
            let updated = |uri: &str| note("notifications/resources/updated", json!({"uri": uri}));
            // Sent unasked, as servers do: for nobody's subscription, and once.
            let unasked = |lone: &mut LoneClient, change: &Change| {
                assert!(
                    matches!(lone.event(), Event::Changed { key: None, change: told } if told == *change)
                );
            };
            lone.tell_all(&[list(TOOLS), list(PROMPTS), list(RESOURCES)]);
            for change in [Change::Tools, Change::Prompts, Change::Resources] {
                unasked(&mut lone, &change);
            }
            lone.still();
            let tools = lone.subscribe(&SubscriptionFilter::new().tools_list_changed(true));
            lone.subscribed(tools);
            let both =
                lone.subscribe(&follow(&["f:///a"]).tools_list_changed(true).prompts_list_changed(true));
            // Not before it was acknowledged.
            let asked = lone.asked("resources/subscribe");
            lone.tell(&list(TOOLS));
            assert_eq!(lone.changed(tools), Change::Tools);
            lone.still();
            lone.tell(&result(&asked, json!({})));
            lone.subscribed(both);
            lone.tell(&list(TOOLS));
            assert_eq!((lone.changed(tools), lone.changed(both)), (Change::Tools, Change::Tools));
            lone.tell_all(&[list(PROMPTS), list(RESOURCES)]);
            unasked(&mut lone, &Change::Prompts);
            unasked(&mut lone, &Change::Resources);
            lone.still();
            for uri in ["f:///a", "f:///a/b"] {
                lone.tell(&updated(uri));
                assert_eq!(lone.changed(both), resource(uri));
            }
            lone.tell(&updated("f:///ab"));
            unwanted(&mut lone);
            lone.tell(&note("notifications/resources/updated", json!({})));
            assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)));
            lone.still();
            lone.transcript
        });
    }
}

// ---- both --------------------------------------------------------------------------------------------------------

// covers: SUB-001
#[test]
fn subscriptions_are_bounded() {
    let mut lone = LoneClient::client(client(VersionSet::ALL), Chunker::Whole);
    assert_eq!(lone.pipe.engine().subscribe(lone.now, &all(&[])), Err(UseError::NotReady));
    let tight = limits(|l| (l.max_subscriptions, l.max_followed, l.max_uri) = (2, 2, 3));
    let mut lone = modern_within(tight.clone(), Chunker::Whole);
    let subscribe = |lone: &mut LoneClient, uris: &[&str]| {
        let now = lone.now;
        lone.pipe.engine().subscribe(now, &follow(uris))
    };
    assert_eq!(subscribe(&mut lone, &["a", "b", "c"]), Err(UseError::Full("max_followed")));
    assert_eq!(subscribe(&mut lone, &["abcd"]), Err(UseError::Full("max_uri")));
    lone.still();
    let key = subscribe(&mut lone, &["a", "b"]).expect("open");
    subscribe(&mut lone, &["a", "a", "b"]).expect("open");
    assert_eq!(subscribe(&mut lone, &[]), Err(UseError::Full("max_subscriptions")));
    lone.pipe.engine().unsubscribe(lone.now, key).expect("open");
    subscribe(&mut lone, &[]).expect("open");
    lone.sent();
    // A legacy server is asked for each resource, so there must be room for all of them.
    let few = limits(|l| l.max_pending_calls = 2);
    let config = client(VersionSet::LEGACY).limits(few);
    let mut lone = LoneClient::client(config, Chunker::Whole);
    lone.with_legacy(Version::V2025_11_25, promises());
    assert_eq!(subscribe(&mut lone, &["a", "b", "c"]), Err(UseError::Full("max_pending_calls")));
    lone.still();
    let key = subscribe(&mut lone, &["a", "b"]).expect("open");
    let asked = lone.sent();
    assert_eq!(lone.pipe.engine().unsubscribe(lone.now, key), Err(UseError::Full("max_pending_calls")));
    lone.silent();
    for request in &asked {
        lone.tell(&result(request, json!({})));
    }
    lone.subscribed(key);
    lone.pipe.engine().unsubscribe(lone.now, key).expect("open");
    assert_eq!(lone.sent().len(), 2);
}

// covers: SUB-005, SUB-009
#[test]
fn equal_news_that_nobody_has_read_is_one() {
    use alloc::sync::Arc;
    let now = mcp_proto::Instant::ZERO;
    // Messages without a stream: they come whether anybody reads or not.
    let config = client(VersionSet::only(Version::V2025_11_25));
    let mut engine = mcp_proto::client::Engine::new(Arc::new(config));
    let channel = engine.open_channel(now);
    let initialize = engine.outbox(channel).and_then(|o| o.pop_message()).expect("a question");
    let initialize: Value = serde_json::from_slice(&initialize).expect("JSON");
    let opened = mcp_tests::harness::build::initialized("2025-11-25", promises());
    let tell = |engine: &mut mcp_proto::client::Engine, message: &Value| {
        engine.handle_message(now, channel, message.to_string().into_bytes().into());
    };
    tell(&mut engine, &result(&initialize, opened));
    let filter = SubscriptionFilter::new().tools_list_changed(true).resources_list_changed(true);
    let key = engine.subscribe(now, &filter).expect("open");
    for _ in 0..10_000 {
        tell(&mut engine, &note("notifications/tools/list_changed", Value::Null));
        tell(&mut engine, &note("notifications/resources/list_changed", Value::Null));
    }
    let mut changes = Vec::new();
    while let Some(event) = engine.poll_event(now) {
        if let Event::Changed { key: whose, change } = event {
            assert_eq!(whose, Some(key));
            changes.push(change);
        }
    }
    assert_eq!(changes, [Change::Tools, Change::Resources]);
    tell(&mut engine, &note("notifications/tools/list_changed", Value::Null));
    assert!(matches!(engine.poll_event(now), Some(Event::Changed { change: Change::Tools, .. })));
}
