//! Changes at the server.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::server;
use mcp_proto::{Change, Era, Version};

use super::harness::{BridgeHarness, REVISION_PAIRS};

/// Takes the changes that the client received.
fn take_changes(chain: &mut BridgeHarness) -> Vec<Change> {
    let changed = chain.take_client_events().into_iter().filter_map(|event| match event {
        Event::Changed { change, .. } => Some(change),
        _ => None,
    });
    changed.collect()
}

fn follow_filter(uris: &[&str]) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = Some(true);
    filter.resource_subscriptions = Some(uris.iter().map(|uri| (*uri).to_owned()).collect());
    filter
}

fn resource_change(uri: &str) -> Change {
    Change::Resource(uri.into())
}

#[test]
fn only_followed_changes_reach_the_client() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let now = chain.now;
        let key = chain.client.engine().subscribe(now, &follow_filter(&["x:1", "x:2"])).expect("it tells");
        chain.settle();
        take_changes(&mut chain);
        for change in [resource_change("x:2"), Change::Tools, resource_change("x:3"), resource_change("x:1")]
        {
            chain.publish(&change);
        }
        let received = take_changes(&mut chain);
        assert_eq!(received, [resource_change("x:2"), Change::Tools, resource_change("x:1")], "{down} {up}");
        // Changes of lists without a subscription are sent only to legacy sessions.
        chain.publish(&Change::Prompts);
        assert_eq!(take_changes(&mut chain).len(), usize::from(down.era() == Era::Legacy));

        chain.client.engine().unsubscribe(now, key).expect("open");
        chain.settle();
        chain.publish(&resource_change("x:1"));
        assert!(take_changes(&mut chain).is_empty());
        // The subscription at the server has ended too.
        let ended = chain
            .server_events
            .iter()
            .filter(|event| matches!(event, server::Event::ResourceInterest { is_subscribed: false, .. }));
        assert_eq!(ended.count(), 2, "{down} {up}: {:?}", chain.server_events);
    }
}

#[test]
fn many_resource_subscriptions_are_merged() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let now = chain.now;
        let uris: Vec<String> = (0..20).map(|n| format!("x:{n}")).collect();
        let mut keys = Vec::new();
        for uri in &uris {
            keys.push(chain.client.engine().subscribe(now, &follow_filter(&[uri])).expect("room"));
            chain.settle();
        }
        take_changes(&mut chain);
        for uri in &uris {
            chain.publish(&resource_change(uri));
        }
        let mut received = take_changes(&mut chain);
        received.dedup();
        assert_eq!(received, uris.iter().map(|uri| resource_change(uri)).collect::<Vec<_>>(), "{down} {up}");
        for key in keys {
            chain.client.engine().unsubscribe(now, key).expect("open");
            chain.settle();
        }
        for uri in &uris {
            chain.publish(&resource_change(uri));
        }
        assert!(take_changes(&mut chain).is_empty());
    }
}

#[test]
fn ended_subscription_is_retried_for_legacy_client() {
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2026_07_28);
    let now = chain.now;
    chain.client.engine().subscribe(now, &follow_filter(&["x:1"])).expect("it tells");
    chain.settle();
    chain.server.engine().end_all_subscriptions(now);
    chain.settle();
    take_changes(&mut chain);
    chain.publish(&resource_change("x:1"));
    assert!(take_changes(&mut chain).is_empty());
    chain.wait(Duration::from_secs(2));
    take_changes(&mut chain);
    chain.publish(&resource_change("x:1"));
    chain.publish(&Change::Tools);
    assert_eq!(take_changes(&mut chain), [resource_change("x:1"), Change::Tools]);
}

#[test]
fn ended_subscription_is_reported_to_modern_client() {
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2026_07_28);
    let now = chain.now;
    chain.client.engine().subscribe(now, &follow_filter(&["x:1"])).expect("it tells");
    chain.settle();
    chain.server.engine().end_all_subscriptions(now);
    chain.settle();
    let ended = |event: &Event| matches!(event, Event::SubscriptionEnded { graceful: true, .. });
    assert!(chain.take_client_events().iter().any(ended));
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn roots_change_reaches_legacy_server() {
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2025_06_18);
    let now = chain.now;
    chain.client.engine().notify_roots_changed(now).expect("open");
    chain.settle();
    let received = |event: &server::Event| matches!(event, server::Event::Notification(notification) if &*notification.method == "notifications/roots/list_changed");
    assert!(chain.server_events.iter().any(received), "{:?}", chain.server_events);
}

#[test]
fn custom_notifications_pass_in_both_directions() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let (now, params) = (chain.now, serde_json::json!({"a": 1}));
        chain.client.engine().notify(now, "harbour/tide", Some(&params)).expect("open");
        chain.settle();
        let received = |event: &server::Event| matches!(event, server::Event::Notification(notification) if &*notification.method == "harbour/tide");
        assert!(chain.server_events.iter().any(received), "{down} {up}: {:?}", chain.server_events);
        if down.era() == Era::Modern {
            continue;
        }
        let channel = chain.server.channel();
        chain.server.engine().notify(now, channel, "harbour/ebb", Some(&params)).expect("open");
        chain.settle();
        let received = |event: &Event| matches!(event, Event::Notification(notification) if &*notification.method == "harbour/ebb");
        assert!(chain.take_client_events().iter().any(received));
    }
}
