//! Changes at the server

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::server;
use mcp_proto::{Change, Era, Version};

use super::ends::{Chain, PAIRS};

/// What the client was told of
fn changes(chain: &mut Chain) -> Vec<Change> {
    let changed = chain.news().into_iter().filter_map(|event| match event {
        Event::Changed { change, .. } => Some(change),
        _ => None,
    });
    changed.collect()
}

fn follow(uris: &[&str]) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = Some(true);
    filter.resource_subscriptions = Some(uris.iter().map(|uri| (*uri).to_owned()).collect());
    filter
}

fn resource(uri: &str) -> Change {
    Change::Resource(uri.into())
}

#[test]
fn what_is_followed_is_told_and_nothing_else() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let now = chain.now;
        let key = chain.client.engine().subscribe(now, &follow(&["x:1", "x:2"])).expect("it tells");
        chain.settle();
        changes(&mut chain);
        for change in [resource("x:2"), Change::Tools, resource("x:3"), resource("x:1")] {
            chain.publish(&change);
        }
        let told = changes(&mut chain);
        assert_eq!(told, [resource("x:2"), Change::Tools, resource("x:1")], "{down} {up}");
        // Lists that nobody asked for are told to sessions alone.
        chain.publish(&Change::Prompts);
        assert_eq!(changes(&mut chain).len(), usize::from(down.era() == Era::Legacy));

        chain.client.engine().unsubscribe(now, key).expect("open");
        chain.settle();
        chain.publish(&resource("x:1"));
        assert!(changes(&mut chain).is_empty());
        // Nobody follows it at the server either.
        let ended =
            chain.heard.iter().filter(|event| matches!(event, server::Event::Interest { wanted: false, .. }));
        assert_eq!(ended.count(), 2, "{down} {up}: {:?}", chain.heard);
    }
}

#[test]
fn many_subscriptions_become_one() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let now = chain.now;
        let uris: Vec<String> = (0..20).map(|n| format!("x:{n}")).collect();
        let mut keys = Vec::new();
        for uri in &uris {
            keys.push(chain.client.engine().subscribe(now, &follow(&[uri])).expect("room"));
            chain.settle();
        }
        changes(&mut chain);
        for uri in &uris {
            chain.publish(&resource(uri));
        }
        let mut told = changes(&mut chain);
        told.dedup();
        assert_eq!(told, uris.iter().map(|uri| resource(uri)).collect::<Vec<_>>(), "{down} {up}");
        for key in keys {
            chain.client.engine().unsubscribe(now, key).expect("open");
            chain.settle();
        }
        for uri in &uris {
            chain.publish(&resource(uri));
        }
        assert!(changes(&mut chain).is_empty());
    }
}

#[test]
fn a_server_that_ends_subscriptions_is_asked_again() {
    let mut chain = Chain::new(Version::V2025_11_25, Version::V2026_07_28);
    let now = chain.now;
    chain.client.engine().subscribe(now, &follow(&["x:1"])).expect("it tells");
    chain.settle();
    chain.server.engine().end_all_subscriptions(now);
    chain.settle();
    changes(&mut chain);
    chain.publish(&resource("x:1"));
    assert!(changes(&mut chain).is_empty());
    chain.wait(Duration::from_secs(2));
    changes(&mut chain);
    chain.publish(&resource("x:1"));
    chain.publish(&Change::Tools);
    assert_eq!(changes(&mut chain), [resource("x:1"), Change::Tools]);
}

#[test]
fn the_end_of_subscriptions_is_told_to_who_subscribed() {
    let mut chain = Chain::new(Version::V2026_07_28, Version::V2026_07_28);
    let now = chain.now;
    chain.client.engine().subscribe(now, &follow(&["x:1"])).expect("it tells");
    chain.settle();
    chain.server.engine().end_all_subscriptions(now);
    chain.settle();
    let ended = |event: &Event| matches!(event, Event::SubscriptionEnded { graceful: true, .. });
    assert!(chain.news().iter().any(ended));
}

#[test]
fn changes_of_roots_pass_to_a_legacy_server() {
    let mut chain = Chain::new(Version::V2025_11_25, Version::V2025_06_18);
    let now = chain.now;
    chain.client.engine().roots_changed(now).expect("open");
    chain.settle();
    let told = |event: &server::Event| matches!(event, server::Event::Notification(news) if &*news.method == "notifications/roots/list_changed");
    assert!(chain.heard.iter().any(told), "{:?}", chain.heard);
}

#[test]
fn notifications_of_their_own_pass_both_ways() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let (now, params) = (chain.now, serde_json::json!({"a": 1}));
        chain.client.engine().notify(now, "harbour/tide", Some(&params)).expect("open");
        chain.settle();
        let told = |event: &server::Event| matches!(event, server::Event::Notification(news) if &*news.method == "harbour/tide");
        assert!(chain.heard.iter().any(told), "{down} {up}: {:?}", chain.heard);
        if down.era() == Era::Modern {
            continue;
        }
        let channel = chain.server.channel();
        chain.server.engine().notify(now, channel, "harbour/ebb", Some(&params)).expect("open");
        chain.settle();
        let told =
            |event: &Event| matches!(event, Event::Notification(news) if &*news.method == "harbour/ebb");
        assert!(chain.news().iter().any(told));
    }
}
