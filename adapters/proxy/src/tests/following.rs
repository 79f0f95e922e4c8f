//! Followed resources: which upstreams are told, and which clients learn of changes.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
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
