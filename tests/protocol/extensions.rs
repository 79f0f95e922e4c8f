//! Extensions: declared in every revision, and the methods that they gate.

use mcp_proto::pipe::{Client, Server};
use mcp_proto::server::CustomMethod;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Instant, RawJson, Version, VersionSet, client, http, server,
};
use mcp_tests::harness::build::{modern_request, raw, to_value};
use mcp_tests::harness::{
    Applications, Chunker, ClientHarness, HttpServerHarness, LinkConfig, Pair, Rng, ServerHarness,
    for_each_chunker,
};
use serde_json::{Value, json};

use crate::protocol::common::{client, server};

const UI: &str = "io.modelcontextprotocol/ui";
const TASKS: &str = "io.modelcontextprotocol/tasks";

fn declaring(ids: &[&str]) -> Capabilities {
    ids.iter().fold(Capabilities::new(), |all, id| {
        all.extension(id, raw(&json!({"of": *id}))).expect("an identifier")
    })
}

fn server_config(ids: &[&str], versions: VersionSet) -> server::Config {
    server(versions)
        .capabilities(declaring(ids))
        .custom_method(CustomMethod::new("ui/open").of_extension(UI))
        .custom_method(CustomMethod::new("ui/show").of_extension(UI).requires_client())
        .custom_method(CustomMethod::new("work/state").of_extension(TASKS))
        .custom_method("free")
}

fn client_config(ids: &[&str], versions: VersionSet) -> client::Config {
    client(versions).capabilities(declaring(ids))
}

// covers: EXT-001, EXT-003, EXT-008, EXT-009, TASK-130
#[test]
fn both_sides_declare_extensions_in_every_revision() {
    for version in Version::ALL {
        let only = VersionSet::only(version);
        let modern = version == Version::V2026_07_28;
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server_config(&[UI, TASKS], only), cut);
            let extensions = json!({(UI): {"of": UI}, (TASKS): {}});
            let sent = if modern {
                harness.feed_message(&modern_request(1, "server/discover", json!({})));
                harness.expect_reply()
            } else {
                let mut initialize = mcp_tests::harness::build::initialize_request(1, version.as_str());
                initialize["params"]["capabilities"] = json!({"extensions": extensions});
                harness.feed_message(&initialize);
                harness.expect_reply()
            };
            let declared = &sent["result"]["capabilities"]["extensions"];
            assert_eq!(declared[UI], json!({"of": UI}), "{version}");
            assert_eq!(declared.get(TASKS).is_some(), modern, "{version}");
            harness.transcript
        });
        let mut harness = ClientHarness::client(client_config(&[UI, TASKS], only), Chunker::Whole);
        let opening = harness.expect_request(if modern { "server/discover" } else { "initialize" });
        let declared = if modern {
            &opening["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        } else {
            &opening["params"]["capabilities"]["extensions"]
        };
        assert_eq!(declared[UI], json!({"of": UI}), "{version}");
        assert_eq!(declared.get(TASKS).is_some(), modern, "{version}");
    }
}

/// A server that answers every call, and a client that keeps the last outcome.
#[derive(Debug, Default)]
struct Answering {
    outcome: Option<Result<RawJson, CallError>>,
}

impl Applications for Answering {
    fn handle_client_event(&mut self, _: Instant, _: &mut Client, event: client::Event) {
        if let client::Event::Done { outcome, .. } = event {
            self.outcome = Some(outcome);
        }
    }

    fn handle_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        if let server::Event::Call(call) = event {
            server.engine().complete(now, call.id(), &json!({})).expect("open");
        }
    }
}

/// Calls a custom method on a new connection; returns the error code, or 0 if the handler was reached.
fn call(version: Version, of_server: &[&str], of_client: &[&str], method: &str) -> (i64, Option<Value>) {
    let only = VersionSet::only(version);
    let (client, server) = (client_config(of_client, only), server_config(of_server, VersionSet::ALL));
    let mut pair = Pair::with_app(Answering::default(), client, server, LinkConfig::default());
    pair.settle();
    let peer = pair.client.engine().peer().expect("ready").clone();
    for (id, tasks) in [(UI, false), (TASKS, true)] {
        let expected = of_server.contains(&id) && (!tasks || version == Version::V2026_07_28);
        assert_eq!(peer.extension(id).is_some(), expected, "{version} {id}");
    }
    let now = pair.now;
    pair.client.engine().call(now, method, &json!({}), &CallOptions::new()).expect("sent");
    pair.settle();
    match pair.app.outcome.take() {
        Some(Err(CallError::Rpc(error))) => (error.code, error.data.as_ref().map(to_value)),
        Some(Ok(_)) => (0, None),
        other => panic!("{other:?}"),
    }
}

// covers: EXT-004, EXT-006, ERR-007, META-017, TASK-130
#[test]
fn custom_method_is_gated_as_its_extension_says() {
    for version in Version::ALL {
        let modern = version == Version::V2026_07_28;
        for (of_server, of_client) in [(&[][..], &[UI][..]), (&[UI], &[]), (&[UI], &[UI])] {
            let is_offered = !of_server.is_empty();
            let unknown = (-32601, None);
            let free = (0, None);
            assert_eq!(call(version, of_server, of_client, "free"), free);
            let open = call(version, of_server, of_client, "ui/open");
            assert_eq!(open, if is_offered { free.clone() } else { unknown.clone() }, "{version}");
            let show = call(version, of_server, of_client, "ui/show");
            let expected = match (is_offered, of_client.is_empty()) {
                (false, _) => unknown,
                (true, false) => free,
                (true, true) if modern => {
                    (-32021, Some(json!({"requiredCapabilities": {"extensions": {(UI): {}}}})))
                }
                (true, true) => unknown,
            };
            assert_eq!(show, expected, "{version} {of_server:?} {of_client:?}");
        }
        // Tasks do not exist before 2026-07-28, whatever both sides declare.
        let (code, _) = call(version, &[TASKS], &[TASKS], "work/state");
        assert_eq!(code, if modern { 0 } else { -32601 }, "{version}");
    }
}

// covers: EXT-004, ERR-007, META-017
#[test]
fn undeclared_extension_over_http_has_status_400() {
    let mut web = HttpServerHarness::new(server_config(&[UI], VersionSet::ALL), http::server::Config::new());
    for (method, status, code) in [("ui/show", 400, -32021), ("ui/other", 404, -32601)] {
        let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        let x = web.post(&fields, &modern_request(1, method, json!({})).to_string());
        let reply = web.response(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (status, &json!(code)), "{method}");
    }
}

// covers: EXT-001, EXT-009
/// Repeated metadata takes a faster path; a declaration of another request must not hold there.
#[test]
fn declaration_holds_for_its_request_alone() {
    let declared = |ext: &str, extra: &str| {
        format!(
            r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{{ext}}}{extra}}}"#
        )
    };
    let metas: Vec<(String, bool)> = [
        (r#""extensions":{"io.modelcontextprotocol/ui":{}}"#, true),
        ("", false),
        (r#""extensions":{"io.modelcontextprotocol/ui":5}"#, false),
        (r#""extensions":{"io.modelcontextprotocol/ui":null}"#, false),
        (r#""extensions":[]"#, false),
        (r#""extensions":{"io.modelcontextprotocol/u":{},"io.modelcontextprotocol/ui2":{}}"#, false),
        (r#""extensions":{"IO.modelcontextprotocol/ui":{}}"#, false),
        (r#""\u0065xtensions":{"io.modelcontextprotocol\/ui" : { } }"#, true),
        (r#""other":{"extensions":{"io.modelcontextprotocol/ui":{}}}"#, false),
        (r#""extensions":"io.modelcontextprotocol/ui""#, false),
    ]
    .iter()
    .flat_map(|(ext, ok)| {
        [
            (declared(ext, ""), *ok),
            (declared(ext, r#","progressToken":1"#), *ok),
            (declared(ext, r#","io.modelcontextprotocol/logLevel":"info""#), *ok),
        ]
    })
    .collect();
    let mut web = HttpServerHarness::new(server_config(&[UI], VersionSet::ALL), http::server::Config::new());
    let mut pipe = ServerHarness::server(server_config(&[UI], VersionSet::ALL), Chunker::Whole);
    let mut random = Rng::new(7);
    for n in 0..1_000 {
        let (meta, ok) = &metas[random.next_high() as usize % metas.len()];
        let space = if random.next_high() % 2 == 0 { " " } else { "" };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{n},"method":"ui/show","params":{{"a":1,"_meta":{space}{meta}{space}}}}}"#
        );
        let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "ui/show")];
        let x = web.post(&fields, &body);
        match web.poll_event() {
            Some(server::Event::Call(call)) => {
                assert!(*ok, "{body}");
                let now = web.now;
                web.server.engine().complete(now, call.id(), &json!({})).expect("open");
                web.transmit_all();
                assert_eq!(web.response(x).status, 200);
            }
            None => {
                assert!(!*ok, "{body}");
                assert_eq!(web.response(x).message()["error"]["code"], -32021);
            }
            other => panic!("{other:?}"),
        }
        pipe.feed(&body);
        if *ok {
            let call = pipe.expect_call();
            pipe.complete(call.id(), &json!({}));
        } else {
            assert_eq!(pipe.expect_reply()["error"]["code"], -32021, "{body}");
        }
    }
}
