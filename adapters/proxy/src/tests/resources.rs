//! Resources of several upstreams: owners, completions, subscriptions.

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::rpc::code;
use mcp_proto::{Change, Era, RpcError, Version};
use serde_json::{Value, json};

use super::gateway::{BOTH, names};
use super::gateway_harness::GatewayHarness;

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
        chain.wait(core::time::Duration::from_secs(35));
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
