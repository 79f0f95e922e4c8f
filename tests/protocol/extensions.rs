//! Extensions: declared in every revision, and the methods that they gate.

use mcp_proto::pipe::Pipe as _;
use mcp_proto::pipe::{Client, Server};
use mcp_proto::server::CustomMethod;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Instant, RawJson, Version, VersionSet, client, http, server,
};
use mcp_tests::harness::build::{modern_request, notification, raw, to_value};
use mcp_tests::harness::{
    Applications, Chunker, ClientHarness, HttpServerHarness, LinkConfig, Pair, Rng, ServerHarness,
    for_each_chunker,
};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs, server};

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

const FOLLOW: &str = "tides/follow";

fn followed_server(limits: mcp_proto::Limits) -> server::Config {
    server(VersionSet::ALL).limits(limits).custom_method(CustomMethod::new(FOLLOW).long_lived())
}

fn follow(id: u32) -> Value {
    modern_request(id, FOLLOW, json!({}))
}

// covers: SUB-001, CANC-010
#[test]
fn long_lived_call_neither_waits_nor_makes_others_wait() {
    let limits = limits(|l| (l.max_live_calls, l.max_subscriptions) = (1, 2));
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(followed_server(limits.clone()), cut);
        let plain = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
        assert!(harness.pipe.engine().is_full());
        harness.feed_message(&modern_request(2, "tools/list", json!({})));
        harness.assert_idle();
        // The plain call is the only one that may be live, and another one waits.
        let calls = [3, 4].map(|id| harness.expect_call_for(&follow(id)));
        assert_eq!(harness.pipe.engine().live_calls(), 1);
        let error = harness.expect_error(&follow(5));
        assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("too many subscriptions")));
        // Messages of one do not end it, and name what the method says.
        let now = harness.now;
        let engine = harness.pipe.engine();
        let id = engine.request_id(calls[0].id()).expect("an open call").to_string();
        let news =
            json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id.parse::<u32>().expect("3")}});
        engine.notify(now, calls[0].channel(), "notifications/tides", Some(&news)).expect("room");
        let sent = harness.expect_reply();
        assert_eq!((&sent["method"], &sent["params"]), (&json!("notifications/tides"), &news));
        // At its age limit the plain call ends; the waiting one takes its place.
        harness.advance(secs(3_600));
        assert_eq!(harness.expect_reply()["id"], 1);
        harness.expect_cancelled(&plain);
        let waited = harness.expect_call();
        harness.complete(waited.id(), &json!({"tools": []}));
        harness.advance(secs(86_400));
        assert_eq!(harness.pipe.engine().live_calls(), 0);
        // The end of one, by either side, makes room for another.
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 3})));
        harness.expect_cancelled(&calls[0]);
        assert_eq!(harness.pipe.engine().request_id(calls[0].id()), None);
        let again = harness.expect_call_for(&follow(6));
        harness.expect_error(&follow(7));
        let end = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 4}});
        assert_eq!(
            harness.complete(calls[1].id(), &end)["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            4
        );
        let last = harness.expect_call_for(&follow(8));
        for call in [again, last] {
            harness.complete(call.id(), &json!({}));
        }
        assert_eq!(harness.pipe.engine().live_calls(), 0);
        harness.transcript
    });
}

// covers: BATCH-003
#[test]
fn long_lived_call_is_refused_in_batch() {
    let mut harness = ServerHarness::server(followed_server(mcp_proto::Limits::default()), Chunker::Whole);
    harness.open_session(Version::V2025_03_26);
    harness.feed_message(&json!([
        {"jsonrpc": "2.0", "id": 1, "method": FOLLOW},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
    ]));
    let answers = harness.expect_reply();
    let answer =
        |id: u32| answers.as_array().and_then(|all| all.iter().find(|a| a["id"] == id)).expect("one");
    assert_eq!(answer(1)["error"]["code"], -32600, "{answers}");
    assert_eq!(answer(2)["result"], json!({}), "{answers}");
    // Alone it is accepted, and the end of the input ends it.
    let call = harness.expect_call_for(&json!({"jsonrpc": "2.0", "id": 3, "method": FOLLOW}));
    harness.eof();
    harness.expect_cancelled(&call);
}

// covers: SUB-001, LIFE-019
#[test]
fn long_lived_call_is_answered_at_a_shutdown() {
    let mut harness = ServerHarness::server(followed_server(mcp_proto::Limits::default()), Chunker::Whole);
    let call = harness.expect_call_for(&follow(1));
    assert!(!harness.pipe.engine().is_shutting_down());
    let now = harness.now;
    harness.pipe.shutdown(now, secs(5));
    harness.assert_idle();
    assert!(harness.pipe.engine().is_shutting_down());
    assert_eq!(harness.complete(call.id(), &json!({}))["id"], 1);
    while harness.pipe.poll_event(now).is_some() {}
    assert!(harness.pipe.is_drained());
}

// covers: HTTP-014, CANC-014
#[test]
fn long_lived_call_over_http_is_event_stream_until_client_goes() {
    let limits = limits(|l| l.max_live_calls = 1);
    let mut web = HttpServerHarness::new(followed_server(limits), http::server::Config::new());
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", FOLLOW)];
    let exchanges = [1, 2, 3].map(|id| web.post(&fields, &follow(id).to_string()));
    let calls = exchanges.map(|_| web.expect_call());
    let now = web.now;
    for (n, call) in calls.iter().enumerate() {
        let engine = web.server.engine();
        engine.notify(now, call.channel(), "notifications/tides", Some(&json!({"n": n}))).expect("room");
    }
    web.transmit_all();
    for (n, x) in exchanges.iter().enumerate() {
        let response = web.response(*x);
        assert!(response.is_event_stream());
        assert_eq!(response.messages().last().expect("a message")["params"], json!({"n": n}));
    }
    // Far beyond the age limit of other calls.
    web.advance(secs(7_200));
    assert!(web.poll_event().is_none());
    web.close_exchange(exchanges[1]);
    let cancelled = web.poll_event();
    assert!(
        matches!(&cancelled, Some(server::Event::Cancelled { call, .. }) if *call == calls[1].id()),
        "{cancelled:?}"
    );
    let now = web.now;
    web.server.engine().complete(now, calls[2].id(), &json!({})).expect("open");
    web.transmit_all();
    assert_eq!(web.response(exchanges[2]).messages().last().expect("the result")["id"], 3);
    assert_eq!(web.server.engine().live_calls(), 0);
}
