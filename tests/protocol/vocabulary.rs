//! Model types in context: capabilities, extensions, pages, and results that require input.

use mcp_proto::EntryKind;
use mcp_proto::meta::is_extension_id;
use mcp_proto::model::*;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::router::{CacheHint, Route, Router};
use mcp_proto::server::Event;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Instant, RawJson, RpcError, UseError, Version,
    VersionSet, client as client_side, server as server_side,
};
use mcp_tests::harness::build::{self, LEGACY_VERSIONS, modern_request, modern_request_with, raw, to_value};
use mcp_tests::harness::{Chunker, ClientHarness, ServerHarness};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs, server};

const NOW: Instant = Instant::ZERO;
const UI: &str = "io.modelcontextprotocol/ui";

fn all_capabilities() -> Capabilities {
    let all = [Capability::Tools, Capability::Resources, Capability::Prompts];
    all.into_iter().fold(Capabilities::new(), Capabilities::with)
}

/// Requests that a modern server may answer with `input_required`.
fn input_requiring_methods() -> [(&'static str, Value); 3] {
    [
        ("tools/call", json!({"name": "t"})),
        ("resources/read", json!({"uri": "a:b"})),
        ("prompts/get", json!({"name": "p"})),
    ]
}

// covers: TOOL-031, RES-007, PROMPT-007, CACHE-004
#[test]
fn input_required_result_has_no_cache_members() {
    let input_required = InputRequiredResult::new().request_state("s");
    let mut harness =
        ServerHarness::server(server(VersionSet::ALL).capabilities(all_capabilities()), Chunker::Whole);
    for (id, (method, params)) in input_requiring_methods().into_iter().enumerate() {
        // In each form of the result.
        let as_json = raw(&json!({"resultType": "input_required", "requestState": "s"}));
        let large = raw(&json!({"resultType": "input_required", "requestState": "s".repeat(40_000)}));
        for (n, form) in ["typed", "raw", "large"].into_iter().enumerate() {
            let call = harness.expect_call_for(&modern_request(10 * id + n, method, params.clone()));
            let engine = harness.pipe.engine();
            match form {
                "typed" => engine.complete(NOW, call.id(), &input_required),
                "raw" => engine.complete_raw(NOW, call.id(), &as_json),
                _ => engine.complete_raw(NOW, call.id(), &large),
            }
            .expect("a modern request can require input");
            let answer = harness.expect_reply();
            let result = answer["result"].as_object().expect("a result");
            assert_eq!(result["resultType"], "input_required");
            assert!(!result.contains_key("ttlMs") && !result.contains_key("cacheScope"), "{method} {form}");
        }
    }
    for version in LEGACY_VERSIONS {
        let mut harness =
            ServerHarness::server(server(VersionSet::ALL).capabilities(all_capabilities()), Chunker::Whole);
        harness.open_session(version);
        for (id, (method, params)) in input_requiring_methods().into_iter().enumerate() {
            let call = harness.expect_call_for(&build::legacy_request(id + 1, method, params));
            let refused = harness.pipe.engine().complete(NOW, call.id(), &input_required);
            assert!(matches!(refused, Err(UseError::NotInVersion { version: v, .. }) if v == version));
            assert!(harness.take_sent().is_empty(), "nothing was sent");
            harness.fail(call.id(), &RpcError::internal("m"));
        }
    }
}

type UnitRouter = Router<()>;

fn many_prompts() -> UnitRouter {
    let mut router = UnitRouter::new("tide-server", "2.1.0");
    router.page_size(3);
    for i in 0..10 {
        router.prompt(Prompt::new(format!("p{i}")), ()).expect("a prompt");
    }
    router
}

/// Drives a client and a server with a router until both are idle; returns the events of the client.
fn list_pages(router: &UnitRouter, client: &mut Client, server: &mut Server) -> Vec<client_side::Event> {
    let mut events = Vec::new();
    loop {
        let mut moved = false;
        let up = client.transmit().to_vec();
        client.consume(up.len());
        server.handle_input(NOW, &up);
        while let Some(event) = server.poll_event(NOW) {
            let Event::Call(call) = event else { continue };
            match router.route(&call) {
                Route::Answer(page) => server.engine().complete(NOW, call.id(), &page),
                Route::Refuse(error) => server.engine().fail(NOW, call.id(), &error),
                other => panic!("{other:?}"),
            }
            .expect("open");
        }
        let down = server.transmit().to_vec();
        server.consume(down.len());
        client.handle_input(NOW, &down);
        while let Some(event) = client.poll_event(NOW) {
            moved = true;
            events.push(event);
        }
        if !moved && up.is_empty() && down.is_empty() {
            return events;
        }
    }
}

fn expect_outcome(events: Vec<client_side::Event>) -> Result<RawJson, CallError> {
    let done = events.into_iter().find_map(|event| match event {
        client_side::Event::Done { outcome, .. } => Some(outcome),
        _ => None,
    });
    done.expect("an outcome")
}

// covers: PROMPT-012, PROMPT-003, PAGE-001, PAGE-003, PAGE-005, PAGE-008, PAGE-009, PAGE-013
#[test]
fn client_can_list_all_pages_of_a_router() {
    for version in Version::ALL {
        let router = many_prompts();
        let versions = VersionSet::only(version);
        let mut client_end = Client::new(alloc::sync::Arc::new(client(versions)), NOW);
        let mut server_end = Server::new(alloc::sync::Arc::new(router.config().versions(versions)), NOW);
        list_pages(&router, &mut client_end, &mut server_end);
        let (mut names, mut sizes, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
        loop {
            let key =
                client_end.engine().list(NOW, EntryKind::Prompt, cursor.as_deref(), &CallOptions::new());
            key.expect("the server has prompts");
            let request = to_value(&RawJson::new(client_end.transmit().to_vec()).expect("one message"));
            assert_eq!(request["params"]["cursor"].as_str(), cursor.as_deref());
            assert_eq!(request["params"]["_meta"].is_object(), version == Version::V2026_07_28, "{request}");
            let page = expect_outcome(list_pages(&router, &mut client_end, &mut server_end)).expect("a page");
            let page = page.parse::<ListPromptsResult>().expect("a page");
            sizes.push(page.prompts.len());
            names.extend(page.prompts.into_iter().map(|p| p.name));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [3, 3, 3, 1]);
        assert_eq!(names, (0..10).map(|i| format!("p{i}")).collect::<Vec<_>>());
        // An invalid cursor is an error, and the connection stays usable.
        for invalid in ["", "3.00000000", "zzz"] {
            client_end
                .engine()
                .list(NOW, EntryKind::Prompt, Some(invalid), &CallOptions::new())
                .expect("sent");
            match expect_outcome(list_pages(&router, &mut client_end, &mut server_end)) {
                Err(CallError::Rpc(error)) => assert_eq!(error.code, -32602, "{invalid}"),
                other => panic!("{other:?}"),
            }
        }
        client_end.engine().list(NOW, EntryKind::Prompt, None, &CallOptions::new()).expect("sent");
        assert!(expect_outcome(list_pages(&router, &mut client_end, &mut server_end)).is_ok());
    }
}

// covers: PAGE-010, PAGE-011
#[test]
fn cursor_of_another_server_is_refused() {
    let connect = |router: &UnitRouter| {
        let versions = VersionSet::MODERN;
        let mut client_end = Client::new(alloc::sync::Arc::new(client(versions)), NOW);
        let mut server_end = Server::new(alloc::sync::Arc::new(router.config()), NOW);
        list_pages(router, &mut client_end, &mut server_end);
        (client_end, server_end)
    };
    let (one, mut two) = (many_prompts(), many_prompts());
    two.info(Implementation::new("tide-server", "2.1.1"));
    let (mut client_end, mut server_end) = connect(&one);
    client_end.engine().list(NOW, EntryKind::Prompt, None, &CallOptions::new()).expect("sent");
    let page = expect_outcome(list_pages(&one, &mut client_end, &mut server_end)).expect("a page");
    let cursor = page.member("nextCursor").and_then(|cursor| cursor.string()).expect("more");
    let (mut client_end, mut server_end) = connect(&two);
    client_end.engine().list(NOW, EntryKind::Prompt, Some(&cursor), &CallOptions::new()).expect("sent");
    match expect_outcome(list_pages(&two, &mut client_end, &mut server_end)) {
        Err(CallError::Rpc(error)) => assert_eq!(error.code, -32602),
        other => panic!("{other:?}"),
    }
    // A restarted server accepts its earlier cursors, even when the entries before it are gone.
    let mut again = many_prompts();
    for i in 0..9 {
        again.remove(EntryKind::Prompt, &format!("p{i}"));
    }
    let (mut client_end, mut server_end) = connect(&again);
    client_end.engine().list(NOW, EntryKind::Prompt, Some(&cursor), &CallOptions::new()).expect("sent");
    let page = expect_outcome(list_pages(&again, &mut client_end, &mut server_end)).expect("a page");
    assert_eq!(page.parse::<ListPromptsResult>().expect("a page").prompts[0].name, "p9");
}

// covers: PROMPT-013, TOOL-001, RES-001, PROMPT-001, COMP-007
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn undeclared_capability_is_refused_on_both_sides() {
    let methods = [
        ("tools/list", json!({}), Capability::Tools),
        ("tools/call", json!({"name": "t"}), Capability::Tools),
        ("resources/list", json!({}), Capability::Resources),
        ("resources/templates/list", json!({}), Capability::Resources),
        ("resources/read", json!({"uri": "a:b"}), Capability::Resources),
        ("prompts/list", json!({}), Capability::Prompts),
        ("prompts/get", json!({"name": "p"}), Capability::Prompts),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
            Capability::Completions,
        ),
    ];
    for version in Version::ALL {
        let mut client_end = ClientHarness::client(client(VersionSet::only(version)), Chunker::Whole);
        let mut server_end = ServerHarness::server(
            server(VersionSet::only(version)).capabilities(Capabilities::new().with(Capability::Logging)),
            Chunker::Whole,
        );
        if version == Version::V2026_07_28 {
            client_end.become_modern(json!({}));
        } else {
            client_end.become_legacy(version, json!({}));
            server_end.open_session(version);
        }
        for (id, (method, params, capability)) in methods.iter().enumerate() {
            let request = match version {
                Version::V2026_07_28 => modern_request(id + 1, method, params.clone()),
                _ => build::legacy_request(id + 1, method, params.clone()),
            };
            // The first revision had no capability for completions: the client just tries.
            if *method == "completion/complete" && version == Version::V2024_11_05 {
                continue;
            }
            let refused = client_end.expect_call_refused(method, params, &CallOptions::new());
            assert_eq!(refused, UseError::MissingPeerCapability(*capability), "{version} {method}");
            assert_eq!(server_end.expect_error(&request)["code"], -32601, "{version} {method}");
        }
    }
}

// covers: TOOL-020, CACHE-015
#[test]
fn disabled_list_changed_sends_no_notifications() {
    for version in Version::ALL {
        let mut router = UnitRouter::new("tide-server", "2.1.0");
        let tool = |name: &str| Tool::new(name, raw(&json!({"type": "object"})));
        router.tool(tool("a"), ()).expect("a tool");
        router.disable_list_changed();
        router.cache_list(EntryKind::Tool, CacheHint::public(secs(60)));
        let versions = VersionSet::only(version);
        let mut client_end = Client::new(alloc::sync::Arc::new(client(versions)), NOW);
        let mut server_end = Server::new(alloc::sync::Arc::new(router.config().versions(versions)), NOW);
        let events = list_pages(&router, &mut client_end, &mut server_end);
        let peer = events.into_iter().find_map(|event| match event {
            client_side::Event::Ready(peer) => Some(peer),
            _ => None,
        });
        let tools = to_value(&peer.expect("ready").capabilities)["tools"].clone();
        assert_eq!(tools, json!({}), "`listChanged` is not declared");
        router.tool(tool("b"), ()).expect("a tool");
        router.remove(EntryKind::Tool, "a");
        assert!(
            list_pages(&router, &mut client_end, &mut server_end).is_empty(),
            "no change notification is sent"
        );
        client_end.engine().list(NOW, EntryKind::Tool, None, &CallOptions::new()).expect("sent");
        let list = expect_outcome(list_pages(&router, &mut client_end, &mut server_end)).expect("a list");
        let list = list.parse::<ListToolsResult>().expect("a list");
        assert_eq!(list.tools.len(), 1, "a list request returns the new tool");
        assert_eq!(list.ttl_ms, (version == Version::V2026_07_28).then_some(60_000));
    }
}

// covers: EXT-001, EXT-003, EXT-004, EXT-006, EXT-008, META-017
#[test]
fn extension_works_when_both_sides_declare_it() {
    let ui = json!({(UI): {"mimeTypes": ["text/html;profile=mcp-app"]}});
    assert!(is_extension_id(UI));
    // Extensions are declared only explicitly.
    let mut without = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    without.feed_message(&modern_request(1, "server/discover", json!({})));
    assert!(without.expect_reply()["result"]["capabilities"].get("extensions").is_none());
    let mut plain_client = ClientHarness::client(client(VersionSet::MODERN), Chunker::Whole);
    let probe = plain_client.expect_request("server/discover");
    let meta = &probe["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*meta, json!({}), "{probe}");

    let capabilities = all_capabilities().extension(UI, raw(&ui[UI])).expect("an identifier");
    let config: server_side::Config = server(VersionSet::ALL).capabilities(capabilities);
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    harness.feed_message(&modern_request(1, "server/discover", json!({})));
    assert_eq!(harness.expect_reply()["result"]["capabilities"]["extensions"], ui);
    let needed = ClientCapabilities::new().extensions([(UI, raw(&json!({})))]);
    // The client declares the extension without settings, declares nothing, or declares another one.
    for (id, (has, answered)) in
        [(json!({(UI): {}}), true), (Value::Null, false), (json!({"com.example/x": {}}), false)]
            .into_iter()
            .enumerate()
    {
        let mut capabilities = json!({});
        if has.is_object() {
            capabilities["extensions"] = has;
        }
        let key = "io.modelcontextprotocol/clientCapabilities";
        let request =
            modern_request_with(id + 2, "tools/call", json!({"name": "t"}), &json!({ (key): capabilities }));
        let call = harness.expect_call_for(&request);
        let peer = harness.pipe.engine().peer(&call);
        let declared: ClientCapabilities = peer.capabilities.parse().expect("capabilities");
        let shared = declared.extensions.as_ref().is_some_and(|e| e.get(UI).is_some());
        assert_eq!(shared, answered);
        if shared {
            assert!(harness.complete(call.id(), &json!({"content": []})).get("result").is_some());
        } else {
            let error = RpcError::missing_client_capability(needed.clone()).expect("JSON");
            let refused = harness.fail(call.id(), &error)["error"].clone();
            assert_eq!(refused["code"], -32021);
            assert_eq!(refused["data"]["requiredCapabilities"]["extensions"], json!({(UI): {}}));
        }
    }
}
