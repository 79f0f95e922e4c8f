//! What a policy allows, hides, rewrites and refuses.

use mcp_proto::pipe::Pipe;
use mcp_proto::{EntryKind, RawJson, RpcError, Version};
use serde_json::{Value, json};

use super::gateway::{BOTH, names, tools};
use super::gateway_harness::GatewayHarness;
use crate::{Access, ClientCount, Decision, Gateway};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

/// Alice may do all, anyone else reads and sees little.
fn decide(access: &Access<'_>) -> Decision {
    if access.caller.principal() == Some("alice") {
        return Decision::Allow;
    }
    match (access.upstream, access.kind, access.name) {
        ("dock", EntryKind::Tool | EntryKind::Prompt | EntryKind::Resource, "secret" | "x:secret") => {
            Decision::Hide
        }
        ("tide", EntryKind::Tool, "pay") => Decision::Refuse(RpcError::invalid_request("ask alice")),
        ("tide", EntryKind::Tool, "book") if access.is_use => {
            let arguments = json!({"name": "pay", "arguments": {"berth": "A1"}});
            Decision::Rewrite(RawJson::encode(&arguments).expect("JSON"))
        }
        ("tide", EntryKind::Tool, "book") => {
            let tool = json!({"name": "pay", "title": "Berth A1", "inputSchema": {"type": "object"}});
            Decision::Rewrite(RawJson::encode(&tool).expect("JSON"))
        }
        _ => Decision::Allow,
    }
}

#[test]
fn policy_hides_rewrites_and_refuses_by_principal() {
    for down in [LEGACY, MODERN] {
        let gateway = Gateway::new(ClientCount::One).policy(decide);
        let mut chain = GatewayHarness::with_gateway(down, &BOTH, gateway);
        let lists = [tools(&["book", "pay"]), tools(&["secret", "open"])];
        chain.authorize("alice");
        let listed = chain.list("tools/list", &json!({}), &lists);
        assert_eq!(names(&listed, "tools", "name"), ["tide_book", "tide_pay", "dock_secret", "dock_open"]);
        chain.authorize("bob");
        let listed = chain.list("tools/list", &json!({}), &lists);
        assert_eq!(names(&listed, "tools", "name"), ["tide_book", "dock_open"]);
        assert_eq!(listed["tools"][0]["title"], "Berth A1");

        // A hidden tool is as one that is not there, but for its name.
        let (hidden, unknown) = (chain.call_tool("dock_secret"), chain.call_tool("none_secret"));
        let (hidden, unknown) = (chain.error(hidden), chain.error(unknown));
        assert_eq!(hidden.code, unknown.code);
        assert_eq!(hidden.message.replace("dock", "none"), unknown.message);
        assert!(!chain.has_call(1));
        let key = chain.call_tool("tide_pay");
        assert_eq!(chain.error(key).message, "ask alice");
        // A rewritten call stays one of its tool.
        chain.call_tool("tide_book");
        let call = chain.take_call(0);
        let params: Value = call.parse().expect("JSON");
        assert_eq!((&params["name"], &params["arguments"]["berth"]), (&json!("book"), &json!("A1")));
        chain.authorize("alice");
        chain.call_tool("dock_secret");
        assert!(chain.has_call(1));
    }
}

#[test]
fn hidden_resource_is_not_found_wherever_it_is() {
    let gateway = Gateway::new(ClientCount::One).policy(decide);
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH, gateway);
    let key = chain.call("resources/read", &json!({"uri": "x:secret"}));
    let call = chain.take_call(0);
    chain.fail(0, &call, &RpcError::resource_not_found("x:secret"));
    let unlisted = chain.error(key);
    let list = json!({"resources": [{"uri": "x:secret", "name": "n"}, {"uri": "x:1", "name": "n"}]});
    let listed = chain.list("resources/list", &json!({}), &[json!({"resources": []}), list]);
    assert_eq!(names(&listed, "resources", "uri"), ["x:1"]);
    // Others are asked as for one that nobody has listed.
    let key = chain.call("resources/read", &json!({"uri": "x:secret"}));
    let call = chain.take_call(0);
    chain.fail(0, &call, &RpcError::resource_not_found("x:secret"));
    assert_eq!(chain.error(key), unlisted);
    assert!(!chain.has_call(1));
}

#[test]
fn custom_methods_do_not_pass_a_policy() {
    let gateway = Gateway::new(ClientCount::One).policy(decide);
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH[1..], gateway);
    let key = chain.call("harbour/depth", &json!({}));
    assert_eq!(chain.error(key).code, mcp_proto::rpc::code::METHOD_NOT_FOUND);
    let now = chain.now;
    chain.client.engine().notify(now, "harbour/tide", None::<&Value>).expect("open");
    chain.settle();
    assert!(
        !chain.sides[0].events.iter().any(|event| matches!(event, mcp_proto::server::Event::Notification(_)))
    );
}

#[test]
fn name_that_occurs_twice_does_not_pass_a_policy() {
    for (first, second) in [("dock_open", "dock_secret"), ("dock_secret", "dock_open")] {
        let gateway = Gateway::new(ClientCount::One).policy(decide);
        let mut chain = GatewayHarness::with_gateway(LEGACY, &BOTH, gateway);
        let now = chain.now;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tools/call\",\"params\":{{\"name\":\"{first}\",\"n\\u0061me\":\"{second}\"}}}}\n"
        );
        chain.downstream.handle_input(now, line.as_bytes());
        chain.settle();
        assert!(!chain.has_call(0));
        if chain.has_call(1) {
            let call = chain.take_call(1);
            assert_ne!(call.tool_call().expect("parameters").name, "secret", "{first} {second}");
        }
        let uri = |name: &str| name.replace("dock_", "x:");
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"y\",\"method\":\"resources/read\",\"params\":{{\"uri\":\"{}\",\"uri\":\"{}\"}}}}\n",
            uri(first),
            uri(second)
        );
        chain.downstream.handle_input(now, line.as_bytes());
        chain.settle();
        if chain.has_call(0) {
            let call = chain.take_call(0);
            chain.fail(0, &call, &RpcError::resource_not_found("x:1"));
        }
        if chain.has_call(1) {
            let call = chain.take_call(1);
            let params = call.params().expect("parameters");
            assert!(!params.as_str().contains("secret"), "{params:?}");
        }
    }
}

#[test]
fn resource_of_several_is_that_of_the_first_that_the_principal_sees() {
    let hide_tide = |access: &Access<'_>| match (access.upstream, access.caller.principal()) {
        ("tide", Some("bob")) => Decision::Hide,
        _ => Decision::Allow,
    };
    let gateway = Gateway::new(ClientCount::Many).policy(hide_tide);
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH, gateway);
    let list = json!({"resources": [{"uri": "x:both", "name": "n"}]});
    for (principal, index) in [("bob", 1), ("alice", 0), ("bob", 1)] {
        chain.authorize(principal);
        let listed = chain.list("resources/list", &json!({}), &[list.clone(), list.clone()]);
        assert_eq!(names(&listed, "resources", "uri"), ["x:both"], "{principal}");
        let key = chain.call("resources/read", &json!({"uri": "x:both"}));
        let call = chain.take_call(index);
        let contents = json!([{"uri": "x:both", "text": "deep"}]);
        chain.complete(index, &call, &json!({"contents": contents, "ttlMs": 9, "cacheScope": "public"}));
        let result = chain.result(key);
        assert_eq!(result["contents"], contents);
        assert_eq!(result["cacheScope"], "private", "a policy decides who may see it");
    }
    // Who does not see an upstream does not learn that it is left out.
    chain.kill(0, None);
    for (principal, is_named) in [("bob", false), ("alice", true)] {
        chain.authorize(principal);
        let key = chain.call("tools/list", &json!({}));
        let call = chain.take_call(1);
        chain.complete(1, &call, &tools(&["open"]));
        chain.wait(crate::LIST_TIMEOUT);
        let result = chain.result(key);
        assert_eq!(result["_meta"][crate::UNAVAILABLE].get("tide").is_some(), is_named, "{principal}");
    }
}
