//! Tests of the subscriptions with a server that is simulated by its answers.

use alloc::format;
use alloc::sync::Arc;

use super::*;
use crate::calls::outbound::OutboundCalls;
use crate::change::CustomList;
use crate::client::config::Config;
use crate::client::event::Peer;
use crate::identity::Capabilities;
#[cfg(feature = "http")]
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::testing::rounds;
use crate::version::{Version, VersionSet};

/// Returns the state of a client that is connected to a server of a revision.
fn connected(version: Version) -> CommonState {
    connected_with(Config::new("test", "1"), version)
}

fn connected_with(config: Config, version: Version) -> CommonState {
    let mut common = CommonState::new(Arc::new(config.versions(VersionSet::only(version))));
    common.main_channel =
        Some(common.endpoint.open_channel(crate::calls::endpoint::IdlessErrors::Unsent, ()));
    let capabilities: &[u8] = br#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;
    common.peer = Some(Peer {
        version,
        info: None,
        declared: Capabilities::read(capabilities),
        capabilities: RawJson::trusted(bytes::Bytes::from_static(capabilities)),
        instructions: None,
    });
    common
}

fn resources(uris: &[&str]) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = Some(uris.iter().map(|uri| String::from(*uri)).collect());
    filter
}

/// Compares what is kept with a walk over all subscriptions.
fn check(subs: &Subscriptions) {
    let check_members = |list: &List, topic: Topic| {
        let is_member = |key: &Key| subs.memberships.get(*key).is_some_and(|m| m.topic == topic);
        let members = |sub: &Subscription| sub.memberships.iter().filter(|key| is_member(key)).count();
        let wanting: Vec<Key> =
            subs.slab.iter().flat_map(|(key, sub)| core::iter::repeat_n(key, members(sub))).collect();
        let mut listed: Vec<Key> = list.iter(&subs.memberships).map(|(_, m)| m.subscription).collect();
        listed.sort_unstable();
        assert_eq!(listed, wanting);
    };
    for (key, entry) in subs.resources.iter() {
        check_members(&entry.subscribers, Topic::Resource(key));
    }
    for (at, list) in subs.lists.iter().enumerate() {
        check_members(list, Topic::List(at));
    }
    for (key, sub) in subs.slab.iter() {
        let resources: Vec<Key> = subs.in_resources(sub).map(|(resource, _)| resource).collect();
        assert_eq!(sub.unanswered, resources.iter().filter(|key| is_pending(&subs.resources, **key)).count());
        assert_eq!(sub.is_acknowledged(), sub.unanswered == 0);
        let known: Vec<Key> = sub.uris.iter().map(|uri| subs.by_uri[uri]).collect();
        assert_eq!(known, resources);
        let of_lists = [0, 1, 2]
            .map(|list| (list, sub.lists & 1 << list != 0))
            .into_iter()
            .filter(|(_, wanted)| *wanted);
        let topics = of_lists.map(|(at, _)| Topic::List(at)).chain(known.into_iter().map(Topic::Resource));
        let members = sub.memberships.iter().map(|member| subs.memberships.get(*member).expect("live"));
        assert!(
            members.map(|member| (member.subscription, member.topic)).eq(topics.map(|topic| (key, topic)))
        );
    }
    assert_eq!(subs.memberships.len(), subs.slab.iter().map(|(_, sub)| sub.memberships.len()).sum::<usize>());
    assert_eq!(subs.by_uri.len(), subs.resources.len());
}

#[test]
fn resources_and_subscriptions_agree_after_every_step() {
    let (mut common, mut subs) = (connected(Version::V2025_11_25), Subscriptions::default());
    let (mut keys, mut random) = (Vec::new(), 5_u32);
    for _ in 0..rounds(2_000) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (choice, at) = ((random >> 16) % 8, (random >> 8) as usize);
        match choice {
            0..=2 => {
                let uris: Vec<String> = (0..at % 4).map(|n| format!("a:{}", (at >> 3) % 7 + n)).collect();
                let uris: Vec<&str> = uris.iter().map(|uri| &**uri).collect();
                let mut filter = resources(&uris);
                filter.tools_list_changed = Some(at % 3 == 0);
                keys.extend(subs.subscribe(&mut common, &filter));
            }
            3 | 4 if !keys.is_empty() => {
                let key = keys.swap_remove(at % keys.len());
                assert!(subs.unsubscribe(&mut common, key).is_ok());
                assert_eq!(subs.unsubscribe(&mut common, key), Err(UseError::Stale));
            }
            _ => {
                let calls: Vec<(Key, CallPurpose)> =
                    common.endpoint.outbound.calls.iter().map(|(key, call)| (key, call.purpose)).collect();
                for (call, purpose) in calls.into_iter().filter(|(key, _)| (key.slot as usize + at) % 2 == 0)
                {
                    common.endpoint.outbound.calls.remove(call);
                    if let CallPurpose::Subscribe(resource) = purpose {
                        subs.resource_answered(&mut common, call, resource, at % 5 == 0);
                    }
                }
            }
        }
        check(&subs);
        while common.events.pop_front().is_some() {}
    }
    subs.end_all(&mut common, &CallError::TimedOut);
    assert!(subs.is_empty() && subs.by_uri.is_empty());
}

// covers: RES-011
#[test]
fn covering_resources_are_those_of_a_walk() {
    let mut subs = Subscriptions::default();
    let known = [
        "",
        "a:",
        "a:b",
        "a:b/",
        "a:b/c",
        "a:b/c?d",
        "a:bc",
        "a:b\u{e9}",
        "a:b\u{ea}/x",
        "b:",
        "\u{1f980}",
        "a:b/c/",
    ];
    for uri in known {
        let resource = subs.resources.insert(ResourceSubscription::default());
        subs.by_uri.insert(uri.into(), resource);
    }
    for uri in [
        "a:b/c/d",
        // The URI before it that is known differs behind the slash of one that covers it.
        "a:b/x",
        "a:b/c?d#e",
        "a:b",
        "a:b\u{e9}/x",
        "a:b\u{e8}/x",
        "a:b\u{ea}/x/y",
        "",
        "/x",
        "z",
        "\u{1f981}/",
        "a:b/c/",
    ] {
        let mut found = Vec::new();
        subs.visit_covering(uri, |resource| found.push(resource));
        found.sort_unstable();
        let mut expected: Vec<Key> =
            subs.by_uri.iter().filter(|(known, _)| covers(known, uri)).map(|(_, key)| *key).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{uri}");
    }
}

// covers: RES-013
#[test]
fn change_reaches_each_wanting_subscription_once_in_order() {
    let (mut common, mut subs) = (connected(Version::V2025_11_25), Subscriptions::default());
    let main = common.main_channel.expect("open");
    let mut tools = SubscriptionFilter::new();
    tools.tools_list_changed = Some(true);
    let keys: Vec<SubscriptionKey> =
        [resources(&["a:b", "a:b/c"]), tools, resources(&["a:b/c"]), resources(&["a:x"])]
            .iter()
            .map(|filter| subs.subscribe(&mut common, filter).expect("room"))
            .collect();
    let answers: Vec<(Key, CallPurpose)> =
        common.endpoint.outbound.calls.iter().map(|(key, call)| (key, call.purpose)).collect();
    for (call, purpose) in answers {
        let CallPurpose::Subscribe(resource) = purpose else { panic!("{purpose:?}") };
        subs.resource_answered(&mut common, call, resource, false);
    }
    while common.events.pop_front().is_some() {}
    let mut changed = |method: &str, params: &[u8]| {
        subs.receive_change(&mut common, main, method, params);
        let mut reported = Vec::new();
        while let Some(event) = common.events.pop_front() {
            match event {
                Event::Changed { key, .. } => reported.push(key),
                other => panic!("{other:?}"),
            }
        }
        reported
    };
    let part = changed(methods::RESOURCE_UPDATED, br#"{"uri":"a:b/c/d"}"#);
    assert_eq!(part, [Some(keys[0]), Some(keys[2])]);
    assert_eq!(changed(methods::TOOLS_CHANGED, b"{}"), [Some(keys[1])]);
    assert_eq!(changed(methods::PROMPTS_CHANGED, b"{}"), [None]);
}

// covers: SUB-008, SUB-012
#[test]
fn equal_changes_of_custom_lists_are_merged_until_they_are_polled() {
    let lists =
        [("a", "n/a"), ("b", "n/b")].map(|(member, notification)| CustomList::new(member, notification));
    let config =
        lists.iter().fold(Config::new("test", "1"), |config, list| config.custom_list(*list).expect("room"));
    let (mut common, mut subs) = (connected_with(config, Version::V2026_07_28), Subscriptions::default());
    let main = common.main_channel.expect("open");
    let filter = lists.iter().fold(SubscriptionFilter::new(), |filter, list| filter.custom_list(*list));
    let key = subs.subscribe(&mut common, &filter).expect("room");
    let (listen, _) = common.endpoint.outbound.calls.iter().next().expect("a request");
    let meta =
        format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, OutboundCalls::wire_id(listen));
    let acknowledged = format!(r#"{{"notifications":{{"b":true,"a":true}},{meta}}}"#);
    subs.receive_acknowledged(&mut common, main, acknowledged.as_bytes());
    assert!(
        matches!(common.events.pop_front(), Some(Event::Subscribed { honoured, .. }) if honoured == filter)
    );
    for method in ["n/b", "n/a", "n/b", "n/a", "n/b"] {
        assert!(subs.receive_change(&mut common, main, method, format!("{{{meta}}}").as_bytes()));
    }
    for list in [lists[1], lists[0]] {
        let expected = Change::Custom(list);
        assert!(
            matches!(common.events.pop_front(), Some(Event::Changed { key: Some(k), change }) if k == key && change == expected)
        );
    }
    assert!(common.events.is_empty());
    // Those that wait go with their subscription.
    subs.receive_change(&mut common, main, "n/a", format!("{{{meta}}}").as_bytes());
    subs.unsubscribe(&mut common, key).expect("open");
    assert!(common.events.is_empty());
}

/// A session that is lost is renewed, and there is no memory for the requests.
#[cfg(feature = "http")]
#[test]
fn resource_whose_subscription_is_not_renewed_is_not_acknowledged() {
    let (mut common, mut subs) = (connected(Version::V2025_11_25), Subscriptions::default());
    let main = common.main_channel.expect("open");
    let keys = [resources(&["a:b", "a:c"]), resources(&["a:b"])]
        .map(|filter| subs.subscribe(&mut common, &filter).expect("room"));
    let calls: Vec<(Key, CallPurpose)> =
        common.endpoint.outbound.calls.iter().map(|(key, call)| (key, call.purpose)).collect();
    for (call, purpose) in calls {
        common.endpoint.outbound.calls.remove(call);
        let CallPurpose::Subscribe(resource) = purpose else { panic!("{purpose:?}") };
        subs.resource_answered(&mut common, call, resource, false);
    }
    while common.events.pop_front().is_some() {}
    common.endpoint.limits = Arc::new(Limits::without_memory());
    subs.renew_resources(&mut common, main);
    check(&subs);
    for key in keys {
        match common.events.pop_front() {
            Some(Event::Subscribed { key: told, honoured }) => {
                assert_eq!((told, honoured.resource_subscriptions.unwrap_or_default().len()), (key, 0));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(subs.by_uri.is_empty() && subs.resources.is_empty());
}

// covers: SUB-012
#[test]
fn modern_subscription_ends_with_its_request_and_its_key_stays_stale() {
    let (mut common, mut subs) = (connected(Version::V2026_07_28), Subscriptions::default());
    let first = subs.subscribe(&mut common, &resources(&["a:b"])).expect("room");
    let (listen, _) = common.endpoint.outbound.calls.iter().next().expect("a request");
    subs.listen_ended(&mut common, listen, Ok(()));
    assert!(
        matches!(common.events.pop_front(), Some(Event::SubscriptionEnded { key, graceful: true, .. }) if key == first)
    );
    // Memory was freed in between, so the slot and its generation are used again.
    subs = Subscriptions::default();
    let second = subs.subscribe(&mut common, &resources(&["a:b"])).expect("room");
    assert_eq!(first.slab_key(), second.slab_key());
    assert_eq!(subs.unsubscribe(&mut common, first), Err(UseError::Stale));
    assert_eq!(subs.unsubscribe(&mut common, second), Ok(()));
    assert!(subs.is_empty() && common.endpoint.outbound.calls.is_empty());
}

// covers: RES-011
#[test]
fn resource_covers_only_itself_and_its_parts() {
    for within in ["a:b", "a:b/c", "a:b?c", "a:b#c"] {
        assert!(covers("a:b", within), "{within}");
    }
    for other in ["a:", "a:bc", "a:c", "", "x/a:b"] {
        assert!(!covers("a:b", other), "{other}");
    }
    assert!(covers("a:b/", "a:b/c") && !covers("a:b/", "a:b"));
}
