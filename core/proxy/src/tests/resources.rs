//! Resources of several upstreams: owners, completions, subscriptions.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::rpc::code;
use mcp_proto::{Change, EntryKind, Era, RpcError, Version};
use serde_json::{Value, json};

use super::gateway::{BOTH, names, tools};
use super::gateway_harness::GatewayHarness;
use crate::resources::{EntryOwners, Page};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

fn resources(uris: &[&str]) -> Value {
    let all = uris.iter().map(|uri| json!({"uri": uri, "name": "n"}));
    json!({"resources": all.collect::<Vec<_>>()})
}

fn contents(uri: &str) -> Value {
    json!({"contents": [{"uri": uri, "text": "deep"}]})
}

/// Reads a resource, which has to reach this server.
fn read_at(chain: &mut GatewayHarness, uri: &str, index: usize) {
    let key = chain.call("resources/read", &json!({"uri": uri}));
    let call = chain.take_call(index);
    chain.complete(index, &call, &contents(uri));
    assert_eq!(chain.result(key)["contents"], contents(uri)["contents"]);
}

#[test]
fn resources_belong_to_the_first_upstream_that_lists_them() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let lists = [resources(&["x:1", "x:both"]), resources(&["x:both", "x:2"])];
        let listed = chain.list("resources/list", &json!({}), &lists);
        assert_eq!(names(&listed, "resources", "uri"), ["x:1", "x:both", "x:2"]);
        read_at(&mut chain, "x:1", 0);
        read_at(&mut chain, "x:both", 0);
        read_at(&mut chain, "x:2", 1);
        // Other lists change nothing about it.
        chain.list("tools/list", &json!({}), &[tools(&[]), tools(&[])]);
        chain.list("prompts/list", &json!({}), &[json!({"prompts": []}), json!({"prompts": []})]);
        read_at(&mut chain, "x:2", 1);
        let template = |text: &str| json!({"resourceTemplates": [{"name": "n", "uriTemplate": text}]});
        let lists = [template("y:{a}"), template("y:deep/{a}")];
        let listed = chain.list("resources/templates/list", &json!({}), &lists);
        assert_eq!(names(&listed, "resourceTemplates", "uriTemplate"), ["y:{a}", "y:deep/{a}"]);
        read_at(&mut chain, "y:deep/1", 1);
        read_at(&mut chain, "y:flat/1", 0);
        // Completions go to the owner of the template, and to that of the prompt.
        for (reference, index, sent) in [
            (
                json!({"type": "ref/resource", "uri": "y:deep/{a}"}),
                1,
                json!({"type": "ref/resource", "uri": "y:deep/{a}"}),
            ),
            (json!({"type": "ref/prompt", "name": "tide_p"}), 0, json!({"type": "ref/prompt", "name": "p"})),
        ] {
            let argument = json!({"name": "a", "value": ""});
            let key = chain.call("completion/complete", &json!({"ref": reference, "argument": argument}));
            let call = chain.take_call(index);
            let params: Value = call.parse().expect("JSON");
            assert_eq!(params["ref"], sent);
            chain.complete(index, &call, &json!({"completion": {"values": ["1"]}}));
            assert_eq!(chain.result(key)["completion"]["values"], json!(["1"]));
        }
    }
}

// covers: ERR-010, RES-016
#[test]
fn unlisted_resource_is_asked_for_at_one_upstream_after_the_other() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        for is_known in [true, false] {
            let key = chain.call("resources/read", &json!({"uri": "x:new"}));
            let call = chain.take_call(0);
            assert!(!chain.has_call(1));
            chain.fail(0, &call, &RpcError::resource_not_found("x:new"));
            let call = chain.take_call(1);
            if is_known {
                chain.complete(1, &call, &contents("x:new"));
                assert_eq!(chain.result(key)["contents"], contents("x:new")["contents"]);
                continue;
            }
            chain.fail(1, &call, &RpcError::resource_not_found("x:new"));
            let error = chain.error(key);
            let missing = if down.era() == Era::Modern { -32602 } else { -32002 };
            assert_eq!(error.code, missing, "{error}");
        }
        // The one that does not run may have it.
        chain.kill(1, None);
        let key = chain.call("resources/read", &json!({"uri": "x:new"}));
        let call = chain.take_call(0);
        chain.wait(Duration::from_secs(35));
        chain.fail(0, &call, &RpcError::resource_not_found("x:new"));
        let error = chain.error(key);
        assert_eq!(error.code, code::INTERNAL_ERROR);
        assert!(error.message.contains("`dock`"), "{error}");
    }
}

#[test]
fn subscriptions_go_to_the_owner_and_changes_of_all_reach_the_client() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(vec!["x:1".into(), "x:2".into()]);
        filter.tools_list_changed = Some(true);
        let now = chain.now;
        chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
        chain.settle();
        let change = |chain: &mut GatewayHarness, index: usize, change: &Change| {
            chain.sides[index].server.engine().publish(now, change);
            chain.settle();
            let events = core::mem::take(&mut chain.client_events).into_iter();
            let changes = events.filter_map(|event| match event {
                Event::Changed { change, .. } => Some(change),
                _ => None,
            });
            changes.collect::<Vec<_>>()
        };
        // Nobody knows yet whose they are.
        assert!(change(&mut chain, 0, &Change::Resource("x:1".into())).is_empty());
        chain.list("resources/list", &json!({}), &[resources(&["x:1"]), resources(&["x:2"])]);
        chain.client_events.clear();
        for (index, uri) in ["x:1", "x:2"].into_iter().enumerate() {
            let changed = Change::Resource(uri.into());
            assert_eq!(change(&mut chain, index, &changed), core::slice::from_ref(&changed), "{down}");
            assert!(change(&mut chain, 1 - index, &changed).is_empty(), "{down}");
            assert_eq!(change(&mut chain, index, &Change::Tools), [Change::Tools], "{down}");
        }
    }
}

#[test]
fn upstream_that_has_no_resources_is_not_the_last_one_asked() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        chain.sides[0].has_only_tools = true;
        chain.kill(0, Some(MODERN));
        chain.call_tool("tide_book");
        chain.wait(Duration::from_secs(1));
        read_at(&mut chain, "x:new", 1);
    }
}

#[test]
fn first_real_error_answers_for_a_resource_that_nobody_knows() {
    for upstreams in [&BOTH[..], &BOTH[..1]] {
        let mut chain = GatewayHarness::new(MODERN, upstreams);
        let key = chain.call("resources/read", &json!({"uri": "x:new"}));
        let call = chain.take_call(0);
        chain.fail(0, &call, &RpcError::internal("the disk is full"));
        if upstreams.len() > 1 {
            let call = chain.take_call(1);
            chain.fail(1, &call, &RpcError::resource_not_found("x:new"));
        }
        assert_eq!(chain.error(key).message, "the disk is full");
    }
}

#[test]
fn unlisted_resource_is_asked_for_elsewhere_if_its_upstream_is_gone() {
    for is_removed in [true, false] {
        let mut chain = GatewayHarness::new(MODERN, &BOTH);
        if !is_removed {
            chain.kill(0, None);
        }
        let key = chain.call("resources/read", &json!({"uri": "x:new"}));
        if is_removed {
            assert!(chain.has_call(0) && !chain.has_call(1));
            chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 0));
        }
        chain.wait(Duration::from_secs(1));
        let call = chain.take_call(1);
        chain.complete(1, &call, &contents("x:new"));
        assert_eq!(chain.result(key)["contents"], contents("x:new")["contents"]);
    }
}

#[test]
fn followed_resource_moves_to_its_owner() {
    let mut chain = GatewayHarness::new(MODERN, &[]);
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = Some(vec!["x:1".into()]);
    let now = chain.now;
    chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
    chain.settle();
    for (name, version) in BOTH {
        chain.add(name, Some(version));
    }
    let interest = |chain: &GatewayHarness, index: usize| {
        let events = chain.sides[index].events.iter().rev();
        let found = events.filter_map(|event| match event {
            mcp_proto::server::Event::ResourceInterest { is_subscribed, .. } => Some(*is_subscribed),
            _ => None,
        });
        found.into_iter().next().unwrap_or(false)
    };
    assert_eq!([0, 1].map(|index| interest(&chain, index)), [true, false], "tide was there alone");
    chain.list("resources/list", &json!({}), &[resources(&[]), resources(&["x:1"])]);
    assert_eq!([0, 1].map(|index| interest(&chain, index)), [false, true]);
    // It is removed, and another one lists the resource.
    chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 1));
    chain.settle();
    assert!(interest(&chain, 0), "tide is the only one that may have it");
}

#[test]
fn end_of_one_subscription_is_not_that_of_the_client() {
    let mut chain = GatewayHarness::new(MODERN, &[("dock", MODERN), ("tide", MODERN)]);
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = Some(vec!["x:1".into()]);
    filter.tools_list_changed = Some(true);
    chain.list("resources/list", &json!({}), &[resources(&["x:1"]), resources(&[])]);
    let now = chain.now;
    chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
    chain.settle();
    let mut times = Vec::new();
    for _ in 0..5 {
        chain.client_events.clear();
        let now = chain.now;
        chain.sides[0].server.engine().end_all_subscriptions(now);
        chain.settle();
        let has = |chain: &GatewayHarness, wanted: &Change| {
            let is = |event: &Event| matches!(event, Event::Changed { change, .. } if change == wanted);
            chain.client_events.iter().any(is)
        };
        let changed = Change::Resource("x:1".into());
        assert!(!has(&chain, &changed));
        while !has(&chain, &changed) || !has(&chain, &Change::Tools) {
            chain.wait(Duration::from_millis(500));
            assert!(chain.now < now + Duration::from_secs(70), "it is back, and says so");
        }
        times.push((chain.now.saturating_duration_since(now)).as_secs());
        let ended = |event: &Event| matches!(event, Event::SubscriptionEnded { .. });
        assert!(!chain.client_events.iter().any(ended));
    }
    // One that ends its subscriptions each time does not make everybody list again each second.
    assert_eq!(times, [1, 2, 4, 8, 16]);
}

#[test]
fn header_fields_of_a_removed_upstream_are_withdrawn() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let tool = |name: &str| {
        let argument = json!({"type": "string", "x-mcp-header": "Berth"});
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"berth": argument}}})
    };
    let list = json!({"tools": [tool("a"), tool("b")]});
    chain.list("tools/list", &json!({}), &[json!({"tools": []}), list]);
    for name in ["dock_a", "dock_b"] {
        let (polled, schema) = chain.gateway.poll_header_tool().expect("in order");
        assert!(polled == name && schema.as_str().contains("Berth"), "{polled}");
    }
    chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 1));
    let withdrawn: Vec<_> = core::iter::from_fn(|| chain.gateway.poll_header_tool()).collect();
    assert_eq!(withdrawn.len(), 2);
    assert!(withdrawn.iter().all(|(_, schema)| schema.as_str() == "{}"));
}

#[test]
fn cursor_of_a_client_gives_no_upstream_the_resources_of_another() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let cursor = json!({"cursor": json!({"list": "resources", "next": {"dock": ""}}).to_string()});
    let none = Value::Null;
    chain.list("resources/list", &cursor, &[none.clone(), resources(&["x:1"])]);
    let lists = [resources(&["x:1"]), resources(&[])];
    chain.list("resources/list", &json!({}), &lists);
    let now = chain.now;
    chain.sides[0].server.engine().publish(now, &Change::Resources);
    chain.settle();
    chain.list("resources/list", &cursor, &[none, resources(&["x:1"])]);
    read_at(&mut chain, "x:1", 0);
    // It is no longer tide's when tide says so.
    chain.list("resources/list", &json!({}), &[resources(&[]), resources(&["x:1"])]);
    read_at(&mut chain, "x:1", 1);
}

/// Reads a list to its end, each page with those of the upstreams.
fn walk(chain: &mut GatewayHarness, pages: &[[Value; 2]]) {
    let mut params = json!({});
    for page in pages {
        let listed = chain.list("resources/list", &params, page);
        params = json!({"cursor": listed["nextCursor"]});
    }
    assert_eq!(params["cursor"], Value::Null, "to its end");
}

fn page(uri: &str, next: &str) -> Value {
    let mut page = resources(&[uri]);
    page["nextCursor"] = json!(next);
    page
}

/// Returns whether a read goes to `dock` first, as its owner.
fn is_of_dock(chain: &mut GatewayHarness, uri: &str) -> bool {
    let key = chain.call("resources/read", &json!({"uri": uri}));
    let owner = usize::from(!chain.has_call(0));
    let call = chain.take_call(owner);
    chain.complete(owner, &call, &contents(uri));
    chain.result(key);
    owner == 1
}

#[test]
fn complete_walk_forgets_what_is_gone() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let none = || resources(&[]);
    walk(
        &mut chain,
        &[[none(), page("x:1", "2")], [Value::Null, page("x:2", "3")], [Value::Null, resources(&["x:3"])]],
    );
    assert!(["x:1", "x:2", "x:3"].iter().all(|uri| is_of_dock(&mut chain, uri)));
    // Nothing is forgotten before the end, nor what only another page had.
    let first = chain.list("resources/list", &json!({}), &[none(), page("x:1", "2")]);
    let other = chain.list("resources/list", &json!({}), &[none(), page("x:1", "b")]);
    assert!(["x:1", "x:2", "x:3"].iter().all(|uri| is_of_dock(&mut chain, uri)));
    let next = |listed: &Value| json!({"cursor": listed["nextCursor"]});
    chain.list("resources/list", &next(&first), &[Value::Null, resources(&["x:4"])]);
    let owned = ["x:1", "x:2", "x:3", "x:4"].map(|uri| is_of_dock(&mut chain, uri));
    assert_eq!(owned, [true, false, false, true]);
    chain.list("resources/list", &next(&other), &[Value::Null, resources(&["x:5"])]);
    let owned = ["x:1", "x:4", "x:5"].map(|uri| is_of_dock(&mut chain, uri));
    assert_eq!(owned, [true, true, true], "x:4 was listed after this walk had begun");
    // A list that has changed meanwhile was not read whole.
    let first = chain.list("resources/list", &json!({}), &[none(), page("x:1", "2")]);
    let now = chain.now;
    chain.sides[1].server.engine().publish(now, &Change::Resources);
    chain.settle();
    chain.list("resources/list", &next(&first), &[Value::Null, resources(&["x:6"])]);
    assert!(is_of_dock(&mut chain, "x:4") && is_of_dock(&mut chain, "x:6"));
    walk(&mut chain, &[[none(), resources(&["x:6"])]]);
    assert!(!is_of_dock(&mut chain, "x:4") && is_of_dock(&mut chain, "x:6"));
}

#[test]
fn upstream_with_endless_resources_leaves_others_their_share() {
    let only_page = Page { cursor: None, next: Some("more") };
    for (kind, bound) in [(EntryKind::Resource, 65_536), (EntryKind::ResourceTemplate, 1_024)] {
        let mut owners = EntryOwners::default();
        let mut claim = |upstream: usize, upstreams: usize, count: usize| {
            owners.begin_page(kind, upstream, upstreams, only_page);
            for number in 0..count {
                owners.claim(kind, &format!("{upstream}:{number}"), upstream);
            }
            let is_owned =
                |number: &usize| !owners.of_entry(kind, &format!("{upstream}:{number}")).is_empty();
            (0..count).filter(is_owned).count()
        };
        assert_eq!(claim(0, 2, 2 * bound), bound * 3 / 4);
        assert_eq!(claim(1, 2, 2 * bound), bound / 4);
        assert_eq!(claim(0, 2, 2 * bound), bound * 3 / 4, "it is full");
        // What is gone makes room.
        let mut owners = EntryOwners::default();
        for round in 0..3 {
            owners.begin_page(kind, 0, 1, Page { cursor: None, next: None });
            for number in 0..=bound {
                owners.claim(kind, &format!("{round}:{number}"), 0);
            }
            assert_eq!(owners.of_entry(kind, &format!("{round}:{}", bound - 1)), [0]);
            assert!(owners.of_entry(kind, &format!("{round}:{bound}")).is_empty());
        }
    }
}
