//! Change notices and subscriptions of entries that some principals do not see, in both eras.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, Prompt, Resource, Tool};
use mcp_proto::router::{Route, Router};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Announcement, Audience, Caller, Identity, InputRequired};
use mcp_proto::{Anchor, Capability, Change, EntryKind, RawJson};
use mcp_tests::harness::HttpServerHarness;
use serde_json::Value;

use super::scopes::send;
use super::tokens::protected;
use super::{CALL_FIELDS, ECHO_PARAMS, initialize_request, legacy_request, modern_request};

const LISTEN: [(&str, &str); 2] = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
const FILTER: &str = r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:secret","x:open"]}"#;

fn is_alice(caller: &Caller) -> bool {
    caller.principal() == Some("alice")
}

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("JSON"))
}

/// Returns a router with secrets of alice.
fn router() -> Router<()> {
    let mut router = Router::<()>::new("x", "1");
    router.declare(Capability::ResourceSubscriptions);
    for name in ["open", "echo"] {
        router.tool(tool(name), ()).expect("valid");
    }
    router.prompt(Prompt::new("open"), ()).expect("valid");
    for uri in ["x:open", "x:secret"] {
        router.resource(Resource::new(uri, uri), ()).expect("valid");
    }
    router.visible_to(EntryKind::Resource, "x:secret", is_alice).expect("a resource");
    assert!(router.require_scope(EntryKind::Resource, "x:secret", "secrets"));
    router.tool_entry("echo").visible_to(is_alice).require_scope("echo");
    let _ = router.take_changes().count();
    router
}

fn identity(name: &str, scopes: &str) -> Identity {
    Identity::new(name).scopes(scopes)
}

/// Opens a legacy session with a GET stream; returns its id and the stream.
fn session(web: &mut HttpServerHarness, name: &str) -> (String, ExchangeId) {
    let party = || identity(name, "base secrets");
    let x = send(web, ("POST", "/mcp"), &[], &initialize_request("2025-11-25"), party());
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = [("Mcp-Session-Id", &*id)];
    let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    send(web, ("POST", "/mcp"), &named, ready, party());
    let stream = send(web, ("GET", "/mcp"), &named, "", party());
    for (n, uri) in [(2, "x:secret"), (3, "x:open")] {
        let body = legacy_request(n, "resources/subscribe", &format!("\"uri\":\"{uri}\""));
        let x = send(web, ("POST", "/mcp"), &named, &body, party());
        assert_eq!(web.response(x).message()["result"], serde_json::json!({}), "{name} {uri}");
    }
    (id, stream)
}

fn listen(web: &mut HttpServerHarness, name: &str, scopes: &str) -> ExchangeId {
    let body = modern_request(9, "subscriptions/listen", FILTER);
    send(web, ("POST", "/mcp"), &LISTEN, &body, identity(name, scopes))
}

/// Returns the notifications of changes on a stream so far, in short.
fn notices(web: &mut HttpServerHarness, stream: ExchangeId) -> String {
    let short = |message: Value| {
        let method = message["method"].as_str()?;
        let kind = method.strip_prefix("notifications/")?.to_owned();
        match message["params"]["uri"].as_str() {
            Some(uri) => Some(uri.to_owned()),
            None => kind.strip_suffix("/list_changed").map(str::to_owned),
        }
    };
    web.response(stream).messages().into_iter().filter_map(short).collect::<Vec<_>>().join(" ")
}

fn publish<'a>(web: &mut HttpServerHarness, change: impl Into<Announcement<'a>>) -> usize {
    let now = web.now;
    let count = web.server.engine().publish(now, change);
    web.transmit_all();
    count
}

// covers: TOOL-019, RES-011, RES-012, SUB-003, SUB-008
#[test]
fn changes_of_hidden_entries_reach_those_alone_who_see_them() {
    let mut router = router();
    let mut web = HttpServerHarness::new(router.config(), Config::new().protected(protected()));
    let streams = [
        session(&mut web, "alice").1,
        listen(&mut web, "alice", "secrets"),
        session(&mut web, "bob").1,
        listen(&mut web, "bob", "other"),
    ];
    let all = |web: &mut HttpServerHarness| streams.map(|stream| notices(web, stream));
    assert_eq!(publish(&mut web, &Change::Resource("x:secret".into())), 2);
    assert_eq!(all(&mut web), ["x:secret", "x:secret", "", ""]);
    assert_eq!(publish(&mut web, &Change::Resource("x:open".into())), 4);
    router.tool_entry("echo").title("Echo");
    router.remove(EntryKind::Resource, "x:secret");
    for announcement in router.take_changes() {
        assert_eq!(publish(&mut web, &announcement), 2, "{announcement:?}");
    }
    let of_alice = "x:secret x:open tools resources";
    assert_eq!(all(&mut web), [of_alice, of_alice, "x:open", "x:open"]);
    router.tool_entry("open").title("Open");
    router.prompt(Prompt::new("new"), ()).expect("valid");
    for announcement in router.take_changes() {
        assert_eq!(publish(&mut web, &announcement), 4, "{announcement:?}");
    }
    // An application tells some callers that their rights have changed.
    let to_bob = Audience::matching(|caller| caller.principal() == Some("bob"));
    assert_eq!(publish(&mut web, Announcement::new(Change::Resources).to(to_bob)), 2);
    assert_eq!(publish(&mut web, Announcement::new(Change::Prompts).to(Audience::NOBODY)), 0);
    let of_alice = "x:secret x:open tools resources tools prompts";
    let of_bob = "x:open tools prompts resources";
    assert_eq!(all(&mut web), [of_alice, of_alice, of_bob, of_bob]);
}

// covers: AUTH-054
#[test]
fn subscription_to_a_hidden_resource_answers_as_to_an_unknown_one() {
    let mut web = HttpServerHarness::new(router().config(), Config::new().protected(protected()));
    // Alice sees it, and lacks the scope.
    let x = listen(&mut web, "alice", "other");
    assert_eq!(web.response(x).status, 403);
    let hidden = listen(&mut web, "bob", "other");
    let filter = FILTER.replace("x:secret", "x:nowhere");
    let body = modern_request(9, "subscriptions/listen", &filter);
    let unknown = send(&mut web, ("POST", "/mcp"), &LISTEN, &body, identity("bob", "other"));
    let text = |web: &mut HttpServerHarness, x| {
        assert_eq!(web.response(x).status, 200);
        web.response(x).messages().iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
    };
    let expected = text(&mut web, unknown).replace("x:nowhere", "x:secret");
    assert!(expected.contains("x:secret"), "{expected}");
    assert_eq!(text(&mut web, hidden), expected);
}

// covers: AUTH-054, TOOL-021
#[test]
fn call_of_a_hidden_tool_is_unknown_and_that_of_a_visible_one_is_challenged() {
    let router = router();
    let mut web = HttpServerHarness::new(router.config(), Config::new().protected(protected()));
    let mut call = |name: &str, scopes: &str| {
        let body = modern_request(1, "tools/call", ECHO_PARAMS);
        let x = send(&mut web, ("POST", "/mcp"), &CALL_FIELDS, &body, identity(name, scopes));
        let call = web.expect_call();
        assert_eq!(call.caller().principal(), Some(name));
        let now = web.now;
        match router.route(&call) {
            Route::Refuse(error) => web.server.engine().fail(now, call.id(), &error).expect("open"),
            Route::Handle(_) => super::answer_call(&mut web, &call),
            other => panic!("{other:?}"),
        }
        web.transmit_all();
        let reply = web.response(x);
        (reply.status, reply.field("www-authenticate").is_some(), reply.message()["error"]["code"].as_i64())
    };
    assert_eq!(call("alice", "echo"), (200, false, None));
    assert_eq!(call("alice", "other"), (403, true, Some(-32600)));
    let (_, is_challenged, code) = call("bob", "echo");
    assert_eq!((is_challenged, code), (false, Some(-32602)));
}

// covers: XHDR-021, TOOL-021
#[test]
fn header_fields_of_a_hidden_tool_are_not_compared() {
    let router = router();
    let mut web = HttpServerHarness::new(router.config(), Config::new().protected(protected()));
    let schema = r#"{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}"#;
    web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).expect("valid annotations");
    let mut call = |name: &str, tool: &str| {
        let fields = [CALL_FIELDS[0], CALL_FIELDS[1], ("Mcp-Name", tool)];
        let body = modern_request(1, "tools/call", &ECHO_PARAMS.replace("echo", tool));
        let x = send(&mut web, ("POST", "/mcp"), &fields, &body, identity(name, "echo"));
        if let Some(mcp_proto::server::Event::Call(call)) = web.poll_event() {
            let Route::Refuse(error) = router.route(&call) else { panic!("{name} sees {tool}") };
            let now = web.now;
            web.server.engine().fail(now, call.id(), &error).expect("open");
            web.transmit_all();
        }
        (web.response(x).status, web.response(x).message()["error"].to_string())
    };
    let (status, unknown) = call("bob", "none");
    assert_eq!(call("bob", "echo"), (status, unknown.replace("none", "echo")));
    let (status, mismatch) = call("alice", "echo");
    assert!(status == 400 && mismatch.contains("Mcp-Param-Text"), "{status} {mismatch}");

    // A disabled tool keeps its schema, and no caller sees it.
    let mut router = router;
    router.enable(EntryKind::Tool, "echo", false).expect("a tool");
    let mut web = HttpServerHarness::new(router.config(), Config::new().protected(protected()));
    web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).expect("valid annotations");
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    send(&mut web, ("POST", "/mcp"), &CALL_FIELDS, &body, identity("alice", "echo"));
    let call = web.expect_call();
    assert!(matches!(router.route(&call), Route::Refuse(error) if error.code == -32602));
}

/// A call that goes on after its right has ended passes the check of header fields as any other: for a caller who does not
/// see the tool they are not compared, so one that does not fit is a call of an unknown tool.
// covers: XHDR-021, MRTR-020
#[test]
fn call_that_goes_on_without_its_right_and_its_header_fields_is_unknown() {
    let has_right = Arc::new(AtomicBool::new(true));
    let mut router = Router::<()>::new("x", "1");
    router.tool(tool("echo"), ()).expect("valid");
    let right = has_right.clone();
    router.tool_entry("echo").visible_to(move |_| right.load(Ordering::Relaxed));
    let config = router.config().seal(Keys::new([5; 32]), Anchor::default());
    let mut web = HttpServerHarness::new(config, Config::new().protected(protected()));
    let schema = r#"{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}"#;
    web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).expect("valid annotations");
    let params = r#""name":"echo","arguments":{"text":"hi"}"#;
    let call = |web: &mut HttpServerHarness, params: &str, text: &str| {
        let body = modern_request(1, "tools/call", params)
            .replace("Capabilities\":{}", "Capabilities\":{\"elicitation\":{\"form\":{}}}");
        let fields = [CALL_FIELDS[0], CALL_FIELDS[1], CALL_FIELDS[2], ("Mcp-Param-Text", text)];
        let x = send(web, ("POST", "/mcp"), &fields, &body, identity("bob", "base"));
        (x, web.expect_call())
    };
    let (x, first) = call(&mut web, params, "hi");
    assert!(matches!(router.route(&first), Route::Handle(_)));
    let mut input = InputRequired::new();
    let form = ElicitParams::form("?", ElicitSchema::default());
    let _ = input.request_input(&first, "k", InputRequest::Elicit(form));
    web.server.engine().require_input(web.now, &first, &input).expect("the client answers forms");
    web.transmit_all();
    let state = web.response(x).message()["result"]["requestState"].to_string();
    has_right.store(false, Ordering::Relaxed);
    let retry =
        format!("{params},\"requestState\":{state},\"inputResponses\":{{\"k\":{{\"action\":\"decline\"}}}}");
    let (_, fits) = call(&mut web, &retry, "hi");
    assert!(matches!(router.route(&fits), Route::Handle(_)), "it goes on");
    let (_, other) = call(&mut web, &retry, "other");
    assert!(matches!(router.route(&other), Route::Refuse(error) if error.code == -32602));
}
