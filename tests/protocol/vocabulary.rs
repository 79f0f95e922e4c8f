//! What belongs to the vocabulary and needs both a message and its surroundings: capabilities, extensions, pages, and
//! results that ask for more.

use mcp_proto::meta::is_extension_id;
use mcp_proto::model::*;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::router::{CacheHint, Kind, Route, Router};
use mcp_proto::server::Event;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Instant, RawJson, RpcError, UseError, Version,
    VersionSet, client as client_side, server as server_side,
};
use mcp_tests::harness::build::{self, LEGACY, modern, modern_with, raw, value};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer};
use serde_json::{Value, json};

use crate::common::{client, secs, server};

const NOW: Instant = Instant::ZERO;
const UI: &str = "io.modelcontextprotocol/ui";

fn all() -> Capabilities {
    let all = [Capability::Tools, Capability::Resources, Capability::Prompts];
    all.into_iter().fold(Capabilities::new(), Capabilities::with)
}

/// Requests that a modern server may answer with a question
fn questionable() -> [(&'static str, Value); 3] {
    [
        ("tools/call", json!({"name": "t"})),
        ("resources/read", json!({"uri": "a:b"})),
        ("prompts/get", json!({"name": "p"})),
    ]
}

// covers: TOOL-031, RES-007, PROMPT-007, CACHE-004
#[test]
fn a_result_that_asks_for_input_says_nothing_about_keeping_it() {
    let asks = InputRequiredResult::new().request_state("s");
    let mut lone = LoneServer::server(server(VersionSet::ALL).capabilities(all()), Chunker::Whole);
    for (id, (method, params)) in questionable().into_iter().enumerate() {
        // However it is given.
        let as_json = raw(&json!({"resultType": "input_required", "requestState": "s"}));
        let large = raw(&json!({"resultType": "input_required", "requestState": "s".repeat(40_000)}));
        for (n, which) in ["typed", "raw", "large"].into_iter().enumerate() {
            let call = lone.take(&modern(10 * id + n, method, params.clone()));
            let engine = lone.pipe.engine();
            match which {
                "typed" => engine.complete(NOW, call.id(), &asks),
                "raw" => engine.complete_raw(NOW, call.id(), &as_json),
                _ => engine.complete_raw(NOW, call.id(), &large),
            }
            .expect("modern requests may be answered so");
            let answer = lone.reply();
            let result = answer["result"].as_object().expect("a result");
            assert_eq!(result["resultType"], "input_required");
            assert!(!result.contains_key("ttlMs") && !result.contains_key("cacheScope"), "{method} {which}");
        }
    }
    for version in LEGACY {
        let mut lone = LoneServer::server(server(VersionSet::ALL).capabilities(all()), Chunker::Whole);
        lone.open(version);
        for (id, (method, params)) in questionable().into_iter().enumerate() {
            let call = lone.take(&build::legacy(id + 1, method, params));
            let refused = lone.pipe.engine().complete(NOW, call.id(), &asks);
            assert!(matches!(refused, Err(UseError::NotInVersion { version: v, .. }) if v == version));
            assert!(lone.sent().is_empty(), "nothing was sent");
            lone.fail(call.id(), &RpcError::internal("m"));
        }
    }
}

type Entries = Router<()>;

fn many_prompts() -> Entries {
    let mut router = Entries::new("tide-server", "2.1.0");
    router.page_size(3);
    for i in 0..10 {
        router.prompt(Prompt::new(format!("p{i}")), ()).expect("a prompt");
    }
    router
}

/// A client and a server that a router answers for; what the client was told
fn ask(router: &Entries, client: &mut Client, server: &mut Server) -> Vec<client_side::Event> {
    let mut told = Vec::new();
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
            told.push(event);
        }
        if !moved && up.is_empty() && down.is_empty() {
            return told;
        }
    }
}

fn outcome(told: Vec<client_side::Event>) -> Result<RawJson, CallError> {
    let done = told.into_iter().find_map(|event| match event {
        client_side::Event::Done { outcome, .. } => Some(outcome),
        _ => None,
    });
    done.expect("an outcome")
}

// covers: PROMPT-012, PROMPT-003, PAGE-001, PAGE-003, PAGE-005, PAGE-008, PAGE-009, PAGE-013
#[test]
fn a_client_goes_through_the_pages_of_a_router() {
    for version in Version::ALL {
        let router = many_prompts();
        let versions = VersionSet::only(version);
        let mut ours = Client::new(alloc::sync::Arc::new(client(versions)), NOW);
        let mut theirs = Server::new(alloc::sync::Arc::new(router.config().versions(versions)), NOW);
        ask(&router, &mut ours, &mut theirs);
        let (mut names, mut sizes, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
        loop {
            let key = ours.engine().list(NOW, Kind::Prompt, cursor.as_deref(), &CallOptions::new());
            key.expect("the server has prompts");
            let request = value(&RawJson::new(ours.transmit().to_vec()).expect("one message"));
            assert_eq!(request["params"]["cursor"].as_str(), cursor.as_deref());
            assert_eq!(request["params"]["_meta"].is_object(), version == Version::V2026_07_28, "{request}");
            let page = outcome(ask(&router, &mut ours, &mut theirs)).expect("a page");
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
        // Made up: an error that says so, and the connection goes on.
        for odd in ["", "3.00000000", "zzz"] {
            ours.engine().list(NOW, Kind::Prompt, Some(odd), &CallOptions::new()).expect("sent");
            match outcome(ask(&router, &mut ours, &mut theirs)) {
                Err(CallError::Rpc(error)) => assert_eq!(error.code, -32602, "{odd}"),
                other => panic!("{other:?}"),
            }
        }
        ours.engine().list(NOW, Kind::Prompt, None, &CallOptions::new()).expect("sent");
        assert!(outcome(ask(&router, &mut ours, &mut theirs)).is_ok());
    }
}

// covers: PAGE-010, PAGE-011
#[test]
fn a_cursor_of_one_server_means_nothing_to_another() {
    let first = |router: &Entries| {
        let versions = VersionSet::MODERN;
        let mut ours = Client::new(alloc::sync::Arc::new(client(versions)), NOW);
        let mut theirs = Server::new(alloc::sync::Arc::new(router.config()), NOW);
        ask(router, &mut ours, &mut theirs);
        (ours, theirs)
    };
    let (one, mut two) = (many_prompts(), many_prompts());
    two.info(Implementation::new("tide-server", "2.1.1"));
    let (mut ours, mut theirs) = first(&one);
    ours.engine().list(NOW, Kind::Prompt, None, &CallOptions::new()).expect("sent");
    let page = outcome(ask(&one, &mut ours, &mut theirs)).expect("a page");
    let cursor = page.member("nextCursor").and_then(|cursor| cursor.string()).expect("more");
    let (mut ours, mut theirs) = first(&two);
    ours.engine().list(NOW, Kind::Prompt, Some(&cursor), &CallOptions::new()).expect("sent");
    match outcome(ask(&two, &mut ours, &mut theirs)) {
        Err(CallError::Rpc(error)) => assert_eq!(error.code, -32602),
        other => panic!("{other:?}"),
    }
    // One server that is started anew reads what it gave out before, also when all that stood there is gone.
    let mut again = many_prompts();
    for i in 0..9 {
        again.remove(Kind::Prompt, &format!("p{i}"));
    }
    let (mut ours, mut theirs) = first(&again);
    ours.engine().list(NOW, Kind::Prompt, Some(&cursor), &CallOptions::new()).expect("sent");
    let page = outcome(ask(&again, &mut ours, &mut theirs)).expect("a page");
    assert_eq!(page.parse::<ListPromptsResult>().expect("a page").prompts[0].name, "p9");
}

// covers: PROMPT-013, TOOL-001, RES-001, PROMPT-001, COMP-007
#[test]
fn what_was_not_declared_is_neither_asked_for_nor_answered() {
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
        let mut ours = LoneClient::client(client(VersionSet::only(version)), Chunker::Whole);
        let mut theirs = LoneServer::server(
            server(VersionSet::only(version)).capabilities(Capabilities::new().with(Capability::Logging)),
            Chunker::Whole,
        );
        if version == Version::V2026_07_28 {
            ours.with_modern(json!({}));
        } else {
            ours.with_legacy(version, json!({}));
            theirs.open(version);
        }
        for (id, (method, params, capability)) in methods.iter().enumerate() {
            let request = match version {
                Version::V2026_07_28 => modern(id + 1, method, params.clone()),
                _ => build::legacy(id + 1, method, params.clone()),
            };
            // The first revision had no capability for it: one just tries.
            if *method == "completion/complete" && version == Version::V2024_11_05 {
                continue;
            }
            let refused = ours.cannot_call(method, params, &CallOptions::new());
            assert_eq!(refused, UseError::PeerLacks(*capability), "{version} {method}");
            assert_eq!(theirs.refused(&request)["code"], -32601, "{version} {method}");
        }
    }
}

// covers: TOOL-020, CACHE-015
#[test]
fn nobody_is_told_of_changes_that_nobody_was_promised() {
    for version in Version::ALL {
        let mut router = Entries::new("tide-server", "2.1.0");
        let tool = |name: &str| Tool::new(name, raw(&json!({"type": "object"})));
        router.tool(tool("a"), ()).expect("a tool");
        router.no_list_changed();
        router.cache_list(Kind::Tool, CacheHint::public(secs(60)));
        let versions = VersionSet::only(version);
        let mut ours = Client::new(alloc::sync::Arc::new(client(versions)), NOW);
        let mut theirs = Server::new(alloc::sync::Arc::new(router.config().versions(versions)), NOW);
        let told = ask(&router, &mut ours, &mut theirs);
        let peer = told.into_iter().find_map(|event| match event {
            client_side::Event::Ready(peer) => Some(peer),
            _ => None,
        });
        let tools = value(&peer.expect("ready").capabilities)["tools"].clone();
        assert_eq!(tools, json!({}), "no promise");
        router.tool(tool("b"), ()).expect("a tool");
        router.remove(Kind::Tool, "a");
        assert!(ask(&router, &mut ours, &mut theirs).is_empty(), "no news");
        ours.engine().list(NOW, Kind::Tool, None, &CallOptions::new()).expect("sent");
        let list = outcome(ask(&router, &mut ours, &mut theirs)).expect("a list");
        let list = list.parse::<ListToolsResult>().expect("a list");
        assert_eq!(list.tools.len(), 1, "the new one is there for who asks");
        assert_eq!(list.ttl_ms, (version == Version::V2026_07_28).then_some(60_000));
    }
}

// covers: EXT-001, EXT-003, EXT-004, EXT-006, EXT-008, META-017
#[test]
fn an_extension_works_where_both_sides_have_it() {
    let ui = json!({(UI): {"mimeTypes": ["text/html;profile=mcp-app"]}});
    assert!(is_extension_id(UI));
    // Nobody has one without saying so.
    let mut without = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
    without.tell(&modern(1, "server/discover", json!({})));
    assert!(without.reply()["result"]["capabilities"].get("extensions").is_none());
    let mut asks = LoneClient::client(client(VersionSet::MODERN), Chunker::Whole);
    let probe = asks.asked("server/discover");
    let meta = &probe["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*meta, json!({}), "{probe}");

    let capabilities = all().with_member("extensions", raw(&ui), Version::V2026_07_28);
    let config: server_side::Config = server(VersionSet::ALL).capabilities(capabilities);
    let mut lone = LoneServer::server(config, Chunker::Whole);
    lone.tell(&modern(1, "server/discover", json!({})));
    assert_eq!(lone.reply()["result"]["capabilities"]["extensions"], ui);
    let needed = ClientCapabilities::new().extensions([(UI, raw(&json!({})))]);
    // The client says that it has it, without settings; that it does not; that it has another one.
    for (id, (has, answered)) in
        [(json!({(UI): {}}), true), (Value::Null, false), (json!({"com.example/x": {}}), false)]
            .into_iter()
            .enumerate()
    {
        let mut can = json!({});
        if has.is_object() {
            can["extensions"] = has;
        }
        let key = "io.modelcontextprotocol/clientCapabilities";
        let request = modern_with(id + 2, "tools/call", json!({"name": "t"}), &json!({ (key): can }));
        let call = lone.take(&request);
        let peer = lone.pipe.engine().peer(&call);
        let theirs: ClientCapabilities = peer.capabilities.parse().expect("capabilities");
        let shared = theirs.extensions.as_ref().is_some_and(|e| e.get(UI).is_some());
        assert_eq!(shared, answered);
        if shared {
            assert!(lone.complete(call.id(), &json!({"content": []})).get("result").is_some());
        } else {
            let error = RpcError::missing_client_capability(needed.clone()).expect("JSON");
            let refused = lone.fail(call.id(), &error)["error"].clone();
            assert_eq!(refused["code"], -32021);
            assert_eq!(refused["data"]["requiredCapabilities"]["extensions"], json!({(UI): {}}));
        }
    }
}
