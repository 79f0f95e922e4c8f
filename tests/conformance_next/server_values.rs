//! Server leg, values: results that are no objects, encoded names, and header fields of parameters that are absent.
//!
//! `sep-2243-server-reject-missing-required` wants an error, or a status from 400 on, for a call that lacks a required argument. The
//! specification wants a result with `isError` since 2025-11-25 (TOOL-022, DEC-028): the model that made the call can correct it. No
//! header rule is broken either, because a parameter without a value has no field (XHDR-025). We follow the specification.

use mcp_proto::http::server::Config;
use mcp_proto::model::{CallToolResult, Prompt, Resource, Tool};
use mcp_proto::router::{Route, Router};
use mcp_proto::{RawJson, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use mcp_tests::harness::build::{legacy_request, modern_request, raw, to_value};
use serde_json::{Value, json};

use super::server_core::open_session;
use crate::protocol::common::server;

const V: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");

/// Answers a request with what the router says, and calls with `value`.
fn answer(web: &mut HttpServerHarness, router: &Router<Value>) {
    let call = web.expect_call();
    let now = web.now;
    let engine = web.server.engine();
    match router.route(&call) {
        Route::Answer(answer) => engine.complete(now, call.id(), &answer),
        Route::Handle(routed) => {
            engine.complete(now, call.id(), &CallToolResult::structured(raw(routed.handler)))
        }
        route => panic!("{route:?}"),
    }
    .expect("open");
    web.transmit_all();
}

/// Scenario `sep-2106-structured-content`: arrays and numbers, with their schemas. It opens with `initialize` and the version of a
/// draft, which a server of 2026-07-28 refuses, so these are plain requests of that revision.
// covers: TOOL-009, TOOL-013
#[test]
fn structured_content_may_be_an_array_or_a_number() {
    let mut router = Router::<Value>::new("next", "1");
    let tools = [
        (
            "sep_2106_array_output_tool",
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a", "b"]),
        ),
        ("sep_2106_primitive_output_tool", json!({"type": "number"}), json!(42.5)),
    ];
    for (name, output, value) in &tools {
        let tool = Tool::new(*name, raw(&json!({"type": "object"}))).output_schema(raw(output));
        router.tool(tool, value.clone()).expect("a tool");
    }
    let mut web = HttpServerHarness::new(router.config(), Config::new());
    let x =
        web.post(&[V, ("Mcp-Method", "tools/list")], &modern_request(1, "tools/list", json!({})).to_string());
    answer(&mut web, &router);
    let listed = web.response(x).message()["result"]["tools"].clone();
    for (n, (name, output, value)) in tools.iter().enumerate() {
        assert_eq!((&listed[n]["name"], &listed[n]["outputSchema"]), (&json!(name), output));
        let fields = [V, ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
        let params = json!({"name": name, "arguments": {}});
        let x = web.post(&fields, &modern_request(2, "tools/call", params).to_string());
        answer(&mut web, &router);
        assert_eq!(&web.response(x).message()["result"]["structuredContent"], value, "{name}");
    }
    // Earlier revisions know objects alone.
    let id = open_session(&mut web, "2025-11-25");
    let session = ("Mcp-Session-Id", &*id);
    let x = web.post(&[session], &legacy_request(2, "tools/list", json!({})).to_string());
    answer(&mut web, &router);
    assert!(web.response(x).message()["result"]["tools"][0].get("outputSchema").is_none());
}

/// Check `sep-2243-server-not-expect-null`: a parameter without a value needs no header field, whether it is `null` or absent.
// covers: XHDR-025
#[test]
fn parameter_without_a_value_needs_no_header_field() {
    let schema = json!({"type": "object", "required": ["region"], "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "depth": {"type": "integer", "x-mcp-header": "Depth"},
    }});
    let schema: RawJson = raw(&schema);
    let region = ("Mcp-Param-Region", "north");
    for (arguments, fields, status) in [
        (json!({"region": "north"}), &[region][..], 200),
        (json!({"region": "north", "depth": null}), &[region], 200),
        (json!({"region": "north", "depth": 3}), &[region, ("Mcp-Param-Depth", "3")], 200),
        (json!({"region": "north", "depth": 3}), &[region], 400),
        (json!({"region": "north"}), &[], 400),
        (json!({"region": "north"}), &[region, ("Mcp-Param-Depth", "3")], 400),
        // Without the required one the call is well-formed, and its handler says what is missing.
        (json!({}), &[], 200),
    ] {
        let mut web = HttpServerHarness::new(server(VersionSet::ALL), Config::new());
        web.server.set_tool_schema("tide", &schema).expect("valid annotations");
        // The name may be encoded although it needs no encoding: `sep-2243-server-decode-base64-mcp-name`.
        let mut all = vec![V, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?dGlkZQ==?=")];
        all.extend_from_slice(fields);
        let params = json!({"name": "tide", "arguments": arguments});
        let x = web.post(&all, &modern_request(1, "tools/call", params).to_string());
        if status == 200 {
            let call = web.expect_call();
            assert_eq!(to_value(&call.params().expect("an object"))["arguments"], arguments);
            let now = web.now;
            web.server.engine().complete(now, call.id(), &CallToolResult::text("x")).expect("open");
            web.transmit_all();
        }
        assert_eq!(web.response(x).status, status, "{arguments} {fields:?}");
    }
}

/// Scenario `server-sessionless`: the lists do not depend on what was asked before.
// covers: TOOL-003, RES-002, PROMPT-002
#[test]
fn lists_are_the_same_for_every_request() {
    let mut router = Router::<Value>::new("next", "1");
    router.page_size(2);
    for n in 0..5 {
        let name = format!("n{n}");
        router.tool(Tool::new(&*name, raw(&json!({"type": "object"}))), Value::Null).expect("a tool");
        router.prompt(Prompt::new(&*name), Value::Null).expect("a prompt");
        router.resource(Resource::new(format!("x:{n}"), &*name), Value::Null).expect("a resource");
    }
    let mut web = HttpServerHarness::new(router.config(), Config::new());
    let mut ask = |method: &str, params: Value| {
        let fields = [V, ("Mcp-Method", method)];
        let x = web.post(&fields, &modern_request(1, method, params).to_string());
        answer(&mut web, &router);
        web.response(x).message()["result"].clone()
    };
    let mut read = |method: &str, member: &str| {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let page = ask(method, params);
            let entries = page[member].as_array().expect("entries");
            names.extend(entries.iter().map(|entry| entry["name"].to_string()));
            let Some(cursor) = page["nextCursor"].as_str() else { break names };
            params = json!({"cursor": cursor});
        }
    };
    let lists = [("tools/list", "tools"), ("resources/list", "resources"), ("prompts/list", "prompts")];
    let first = lists.map(|(method, member)| read(method, member));
    assert!(first.iter().all(|names| names.len() == 5), "{first:?}");
    // In another order, and again.
    for (n, (method, member)) in lists.into_iter().enumerate().rev() {
        assert_eq!(read(method, member), first[n]);
    }
}
