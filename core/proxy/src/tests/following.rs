//! Followed resources: which upstreams are told, and which clients learn of changes.

use alloc::collections::BTreeSet;
use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::server;
use mcp_proto::{Change, EntryKind, Version};
use serde_json::{Value, json};

use super::gateway::BOTH;
use super::gateway_harness::GatewayHarness;
use crate::{Access, ClientCount, Decision, Gateway};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

fn resources(uris: &[&str]) -> Value {
    let all = uris.iter().map(|uri| json!({"uri": uri, "name": "n"}));
    json!({"resources": all.collect::<Vec<_>>()})
}

fn follow(chain: &mut GatewayHarness, uris: &[&str]) {
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = Some(uris.iter().map(|uri| (*uri).to_owned()).collect());
    let now = chain.now;
    chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
    chain.settle();
    take_changed(chain);
}

/// Takes the URIs of the resources that the client was told of.
fn take_changed(chain: &mut GatewayHarness) -> Vec<String> {
    let events = core::mem::take(&mut chain.client_events).into_iter();
    let changed = events.filter_map(|event| match event {
        Event::Changed { change: Change::Resource(uri), .. } => Some(uri),
        _ => None,
    });
    changed.collect()
}

/// Changes a resource at an upstream, and returns what the client is told.
fn changed_at(chain: &mut GatewayHarness, index: usize, uri: &str) -> Vec<String> {
    let now = chain.now;
    chain.sides[index].server.engine().publish(now, &Change::Resource(uri.into()));
    chain.settle();
    take_changed(chain)
}

/// Alice may use all, anyone else nothing that is secret.
fn decide(access: &Access<'_>) -> Decision {
    match access.kind {
        EntryKind::Resource
            if access.name.contains("secret") && access.caller.principal() != Some("alice") =>
        {
            assert!(!access.is_use || access.payload.as_str().contains(access.name));
            Decision::Hide
        }
        _ => Decision::Allow,
    }
}

/// A resource is hidden when it changes, when its subscription is renewed, and when its server is started again.
#[test]
fn changes_of_a_hidden_resource_are_kept_back() {
    for (down, up) in [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)] {
        let gateway = Gateway::new(ClientCount::One).policy(decide);
        let mut chain = GatewayHarness::with_gateway(down, &[("tide", up), ("dock", up)], gateway);
        chain.list("resources/list", &json!({}), &[resources(&["x:open"]), resources(&["x:secret"])]);
        chain.authorize("bob");
        follow(&mut chain, &["x:open", "x:secret"]);
        assert_eq!(changed_at(&mut chain, 0, "x:open"), ["x:open"], "{down} {up}");
        for (principal, told) in [("bob", &[][..]), ("alice", &["x:secret"]), ("bob", &[])] {
            chain.authorize(principal);
            assert_eq!(changed_at(&mut chain, 1, "x:secret"), told, "{down} {up} {principal}");
            if up == MODERN {
                let now = chain.now;
                chain.sides[1].server.engine().end_all_subscriptions(now);
                chain.wait(Duration::from_secs(70));
                assert_eq!(take_changed(&mut chain), told, "{down} {up} {principal}: subscribed again");
            }
            chain.kill(1, Some(up));
            chain.wait(Duration::from_secs(2));
            assert!(chain.gateway.is_running(1));
            let mut changed = take_changed(&mut chain);
            changed.dedup();
            assert_eq!(changed, told, "{down} {up} {principal}: started again");
        }
    }
}

#[test]
fn hidden_part_of_a_followed_resource_causes_no_notice() {
    let gateway = Gateway::new(ClientCount::One).policy(decide);
    let mut chain = GatewayHarness::with_gateway(MODERN, &[("dock", MODERN)], gateway);
    follow(&mut chain, &["x:dir/"]);
    let report = |chain: &mut GatewayHarness, part: &str| {
        let change = Change::Resource(part.into());
        let event = Event::Changed { key: None, change };
        chain.with_gateway_of(|gateway, engines| gateway.handle_client_event(engines, 0, event));
        chain.settle();
        take_changed(chain)
    };
    for (principal, told) in [("bob", &[][..]), ("alice", &["x:dir/"])] {
        chain.authorize(principal);
        assert_eq!(report(&mut chain, "x:dir/open"), ["x:dir/"], "{principal}");
        assert_eq!(report(&mut chain, "x:dir/secret"), told, "{principal}");
    }
}

#[test]
fn client_is_told_by_the_owner_that_it_sees() {
    for down in [LEGACY, MODERN] {
        let hide_tide = |access: &Access<'_>| match (access.upstream, access.caller.principal()) {
            ("tide", Some("bob")) => Decision::Hide,
            _ => Decision::Allow,
        };
        let gateway = Gateway::new(ClientCount::One).policy(hide_tide);
        let mut chain = GatewayHarness::with_gateway(down, &BOTH, gateway);
        chain.list("resources/list", &json!({}), &[resources(&["x:both"]), resources(&["x:both"])]);
        follow(&mut chain, &["x:both"]);
        for (principal, own) in [("bob", 1), ("alice", 0)] {
            chain.authorize(principal);
            assert_eq!(changed_at(&mut chain, own, "x:both"), ["x:both"], "{down} {principal}");
            assert!(changed_at(&mut chain, 1 - own, "x:both").is_empty(), "{down} {principal}");
        }
        // The one that does not list it any more is not its owner.
        chain.list("resources/list", &json!({}), &[resources(&[]), resources(&["x:both"])]);
        take_changed(&mut chain);
        assert_eq!(changed_at(&mut chain, 1, "x:both"), ["x:both"], "{down}");
    }
}

/// Reports that the first client follows resources, or that none does any more, in one batch of events.
fn set_followed(chain: &mut GatewayHarness, uris: impl Iterator<Item = usize>, is_subscribed: bool) {
    chain.with_gateway_of(|gateway, engines| {
        for uri in uris {
            let event = server::Event::ResourceInterest { uri: format!("x:{uri:04}"), is_subscribed };
            gateway.handle_server_event(engines, event);
        }
    });
    chain.settle();
}

/// Returns the resources that a server is asked for, by its events.
fn asked_for(chain: &GatewayHarness, index: usize) -> BTreeSet<&str> {
    let mut asked = BTreeSet::new();
    for event in &chain.sides[index].events {
        match event {
            server::Event::ResourceInterest { uri, is_subscribed: true } => _ = asked.insert(&**uri),
            server::Event::ResourceInterest { uri, .. } => _ = asked.remove(&**uri),
            _ => {}
        }
    }
    asked
}

#[test]
fn more_resources_than_one_subscription_has_are_followed() {
    for up in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(MODERN, &[("dock", up)]);
        // Many at once, and many one by one.
        set_followed(&mut chain, 0..2_500, true);
        chain.wait(Duration::from_secs(5));
        for uri in 2_500..2_600 {
            set_followed(&mut chain, uri..=uri, true);
        }
        chain.wait(Duration::from_secs(5));
        assert_eq!(asked_for(&chain, 0).len(), 2_600, "{up}");
        set_followed(&mut chain, 0..1_024, false);
        chain.wait(Duration::from_secs(5));
        assert_eq!(asked_for(&chain, 0).len(), 2_600 - 1_024, "{up}: the first subscription has ended");
        for first in (1_024..2_600).step_by(100) {
            set_followed(&mut chain, first..(first + 100).min(2_600), false);
        }
        chain.wait(Duration::from_secs(5));
        assert!(asked_for(&chain, 0).is_empty(), "{up}: {:?}", asked_for(&chain, 0));
        assert_eq!(chain.gateway.unfollowed_resources(0), 0);
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn resources_beyond_the_bound_are_left_out_loudly_until_there_is_room() {
    let mut chain = GatewayHarness::new(LEGACY, &[("dock", MODERN)]);
    chain.sides[0].limits.max_subscribed_resources = 4;
    chain.kill(0, Some(MODERN));
    chain.wait(Duration::from_secs(2));
    chain.client_events.clear();
    set_followed(&mut chain, 0..64, true);
    assert!(chain.client_events.is_empty() && chain.gateway.unfollowed_resources(0) == 0);
    set_followed(&mut chain, 64..67, true);
    set_followed(&mut chain, 67..70, true);
    assert_eq!(asked_for(&chain, 0).len(), 64);
    assert_eq!(chain.gateway.unfollowed_resources(0), 6);
    let logs = chain.client_events.iter().filter_map(|event| match event {
        Event::Log(log) => Some((log.logger.as_deref(), log.data.as_str())),
        _ => None,
    });
    let news = "\"changes of 3 followed resources are not announced: there are too many\"";
    assert_eq!(logs.collect::<Vec<_>>(), [(Some("dock"), news)], "said once");
    // Two subscriptions end.
    set_followed(&mut chain, 0..8, false);
    assert_eq!(chain.gateway.unfollowed_resources(0), 0);
    let asked = asked_for(&chain, 0);
    assert!((64..70).all(|uri| asked.contains(&*format!("x:{uri:04}"))), "{asked:?}");
}

#[test]
fn unsubscribing_does_not_wait_until_subscribing_is_tried_again() {
    let mut chain = GatewayHarness::new(MODERN, &[("dock", MODERN)]);
    // One for lists and two for resources.
    chain.sides[0].limits.max_subscriptions = 3;
    chain.kill(0, Some(MODERN));
    chain.wait(Duration::from_secs(2));
    for uri in 1..=3 {
        set_followed(&mut chain, uri..=uri, true);
    }
    assert_eq!(asked_for(&chain, 0), ["x:0001", "x:0002"].into());
    set_followed(&mut chain, 1..=1, false);
    assert_eq!(asked_for(&chain, 0), ["x:0002"].into());
    chain.wait(Duration::from_secs(1));
    assert_eq!(asked_for(&chain, 0), ["x:0002", "x:0003"].into());
}

#[test]
fn followed_resources_are_routed_one_by_one_and_all_of_them_once_after_a_batch() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let routed = |chain: &mut GatewayHarness| core::mem::take(&mut chain.gateway.routed);
    routed(&mut chain);
    set_followed(&mut chain, 0..500, true);
    assert_eq!(routed(&mut chain), 500);
    set_followed(&mut chain, 400..500, false);
    assert_eq!(routed(&mut chain), 0);
    // Two lists in one batch, of which the second changes nothing.
    for (uri, count) in [("x:0007", 400), ("x:0007", 0), ("x:0009", 400)] {
        let calls = [0, 1].map(|_| chain.call("resources/list", &json!({})));
        for index in [0, 1, 0, 1] {
            let (now, call) = (chain.now, chain.take_call(index));
            let listed = if index == 0 { resources(&[]) } else { resources(&[uri]) };
            chain.sides[index].server.engine().complete(now, call.id(), &listed).expect("it is open");
        }
        chain.settle();
        assert!(calls.into_iter().all(|call| chain.has_ended(call)));
        assert_eq!(routed(&mut chain), count, "{uri}");
        assert!(asked_for(&chain, 1).contains(uri));
    }
}
