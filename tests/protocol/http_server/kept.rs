//! Nothing is lost, nothing is answered twice, and nothing is kept that nobody can have.

use mcp_proto::http::server::Config;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest};
use mcp_proto::server::{Asking, Call, Event};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Fault, UseError, VersionSet};
use mcp_tests::harness::Web;

use super::{CALL, ECHO, answer, initialize, legacy, modern, session, web};
use crate::common::{limits, secs, server};

/// Asks the client of a call for a form
fn ask(web: &mut Web, call: &Call, key: &str) -> Result<(), UseError> {
    let mut asking = Asking::new();
    let form = ElicitParams::form("who?", ElicitSchema::default());
    asking.ask(call, key, InputRequest::Elicit(form)).expect_err("not yet");
    let now = web.now;
    let asked = web.server.engine().ask(now, call, &asking);
    web.pull();
    asked
}

// covers: HTTP-064, SEC-018
#[test]
fn without_a_session_nothing_is_followed() {
    let mut web = web(Config::new().sessions(false));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let x = web.post(&[], &legacy(2, method, "\"uri\":\"a:b\""));
        let reply = web.reply(x);
        assert!(reply.finished, "{method}: {reply:?}");
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (200, &(-32601).into()));
    }
    assert!(web.event().is_none(), "nobody is told of sessions that there are not");
    assert_eq!(web.server.exchanges(), 0);
}

// covers: BASE-010, HTTP-019
#[test]
fn a_faulty_answer_ends_what_was_asked() {
    for faulty in
        ["\"result\":\"text\"", "\"error\":{}", "\"result\":{},\"error\":{\"code\":1,\"message\":\"\"}"]
    {
        let mut web = web(Config::new());
        let id = session(&mut web, "2025-11-25");
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
        let call = web.call();
        ask(&mut web, &call, "who").expect("can be asked");
        let question = web.reply(x).messages().pop().expect("a question");
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{faulty}}}", question["id"]);
        // Of another session it is none.
        let other = session(&mut web, "2025-11-25");
        let y = web.post(&[("Mcp-Session-Id", &other)], &body);
        assert_eq!(web.reply(y).status, 400, "{faulty}");
        assert!(matches!(web.event(), Some(Event::Diagnostic { .. })));
        assert!(web.event().is_none());
        let y = web.post(&[named], &body);
        assert_eq!(web.reply(y).status, 400, "{faulty}");
        let again = loop {
            match web.event() {
                Some(Event::Call(call)) => break call,
                Some(Event::Diagnostic { .. }) => {}
                other => panic!("{faulty}: {other:?}"),
            }
        };
        assert!(matches!(again.answer("who"), Some(Err(CallError::Malformed(_)))), "{faulty}");
        answer(&mut web, &again);
        assert!(web.reply(x).finished);
    }
}

// covers: BATCH-008
#[test]
fn a_faulty_answer_in_a_batch_ends_what_was_asked() {
    let mut web = web(Config::new());
    let x = web.post(&[], &initialize("2025-03-26").replace("\"elicitation\"", "\"roots\""));
    let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    web.post(&[named], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.event(), Some(Event::SessionOpened { .. })));
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    let mut asking = Asking::new();
    asking.ask(&call, "where", InputRequest::ListRoots(None)).expect_err("not yet");
    web.server.engine().ask(web.now, &call, &asking).expect("can be asked");
    web.pull();
    let question = web.reply(x).messages().pop().expect("a question");
    let body = format!("[{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":1}}]", question["id"]);
    let y = web.post(&[named], &body);
    assert_eq!(web.reply(y).status, 202);
    let mut events = Vec::new();
    while let Some(event) = web.event() {
        events.push(event);
    }
    assert!(events.iter().any(|e| matches!(e, Event::Call(call) if call.attempt() == 1)), "{events:?}");
}

// covers: VER-018, VER-040 (1)
#[test]
fn what_belongs_to_tasks_of_older_revisions_makes_nothing_modern() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let related = "\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"t\"}}";
    let x = web.post(&[named], &legacy(2, "tools/call", &format!("{ECHO},{related}")));
    let call = web.call();
    assert_eq!(call.version().as_str(), "2025-11-25");
    // Nor is a notification with it taken out of its session.
    let cancel = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":2,{related}}}}}"
    );
    let y = web.post(&[named], &cancel);
    assert_eq!(web.reply(y).status, 202);
    assert!(matches!(web.event(), Some(Event::Cancelled { .. })));
    assert!(web.reply(x).finished);
    // A key that modern requests alone have does.
    for key in ["clientInfo", "clientCapabilities", "logLevel"] {
        let meta = format!("{ECHO},\"_meta\":{{\"io.modelcontextprotocol/{key}\":{{}}}}");
        let x = web.post(&[named], &legacy(3, "tools/call", &meta));
        let reply = web.reply(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &(-32602).into()), "{key}");
    }
}

// covers: SSE-016, CANC-020
#[test]
fn nobody_is_invited_back_to_a_call_that_was_cancelled() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let _call = web.call();
    web.post(
        &[named],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}",
    );
    let reply = web.reply(x);
    assert!(reply.finished && reply.events().is_empty(), "{reply:?}");
}

// covers: HTTP-062, SEC-018
#[test]
fn what_can_no_longer_be_asked_is_not_waited_for() {
    // Its client has nothing to come back with: neither the question nor the answer can be had by anybody.
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    web.pulls = false;
    ask(&mut web, &call, "who").expect("can be asked");
    web.hang_up(x);
    web.pulls = true;
    web.pull();
    assert_eq!(web.server.exchanges(), 0, "nobody waits for an answer to what nobody was asked");
    let x = web.post(&[named], &legacy(3, "tools/call", ECHO));
    let call = web.call();
    web.hang_up(x);
    assert!(matches!(ask(&mut web, &call, "who"), Err(UseError::Closed)));
    assert_eq!(web.server.exchanges(), 0);
    // Without replay there is no way back either, but what was asked may still be answered.
    let mut web = super::web(Config::new().replay_bytes(0));
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    ask(&mut web, &call, "who").expect("can be asked");
    let question = web.reply(x).messages().pop().expect("a question");
    web.hang_up(x);
    let answered =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"action\":\"decline\"}}}}", question["id"]);
    let y = web.post(&[named], &answered);
    assert_eq!(web.reply(y).status, 202);
    let again = web.call();
    assert!(matches!(ask(&mut web, &again, "more"), Err(UseError::Closed)));
    assert_eq!(web.server.exchanges(), 0);
    // Nor is there where no event has given it an id yet, which begins a stream in the last of these revisions alone.
    let mut web = super::web(Config::new());
    let id = session(&mut web, "2025-06-18");
    let x = web.post(&[("Mcp-Session-Id", &id)], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    web.advance(secs(6));
    assert!(web.reply(x).is_stream() && web.reply(x).events().is_empty());
    web.hang_up(x);
    assert!(matches!(ask(&mut web, &call, "who"), Err(UseError::Closed)));
    // With an id, it is heard of when the client is back.
    let mut web = super::web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    web.advance(secs(6));
    let first = web.reply(x).events()[0].id.clone();
    web.hang_up(x);
    ask(&mut web, &call, "who").expect("can be asked");
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &first)], "");
    assert_eq!(web.reply(y).messages()[0]["method"], "elicitation/create");
}

// covers: BATCH-007, BATCH-010, BASE-005 (as the receiver takes it)
#[test]
fn a_batch_that_repeats_an_id_is_refused_whole() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    let first = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    let (again, ping) = (legacy(2, "tools/call", ECHO), legacy(3, "ping", ""));
    for batch in [
        format!("[{again}]"),
        format!("[{ping},{again}]"),
        format!("[{},{}]", legacy(4, "tools/call", ECHO), legacy(4, "ping", "")),
    ] {
        let x = web.post(&[named], &batch);
        let reply = web.reply(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &(-32600).into()), "{batch}");
        assert!(web.event().is_none(), "nothing of it is done");
    }
    answer(&mut web, &call);
    assert!(web.reply(first).finished && web.reply(first).message()["id"] == 2);
    assert_eq!(web.server.exchanges(), 0);
}

// covers: SEC-018
#[test]
fn batches_take_places_as_calls_do() {
    let mut web = web(Config::new().max_streams_per_session(2));
    let id = session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    for n in 2..4 {
        web.post(&[named], &format!("[{}]", legacy(n, "tools/call", ECHO)));
        web.call();
    }
    let x = web.post(&[named], &format!("[{}]", legacy(4, "tools/call", ECHO)));
    assert_eq!(web.reply(x).status, 503);
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}";
    let x = web.post(&[named], &format!("[{cancel}]"));
    assert_eq!(web.reply(x).status, 202, "what frees a place is taken");
}

// covers: SEC-018
#[test]
fn what_the_application_does_not_take_is_not_piled_up() {
    let config = server(VersionSet::ALL).limits(limits(|l| l.max_events = 3));
    let mut web = Web::new(config, Config::new());
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}";
    for n in 0..5 {
        let x = web.post(&CALL[..1], notification);
        assert_eq!(web.reply(x).status, if n < 3 { 202 } else { 503 });
    }
    for _ in 0..3 {
        assert!(matches!(web.event(), Some(Event::Notification(_))));
    }
    assert!(web.event().is_none());
    let x = web.post(&CALL[..1], notification);
    assert_eq!(web.reply(x).status, 202);
}

// covers: SEC-018
#[test]
fn what_a_session_does_not_fetch_is_bounded() {
    let capabilities = Capabilities::new().with(Capability::Tools);
    let limits = limits(|l| l.outbox_mark = 2_000);
    let config = server(VersionSet::ALL).capabilities(capabilities).limits(limits);
    let mut web = Web::new(config, Config::new());
    let x = web.post(&[], &initialize("2025-11-25"));
    let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
    web.post(&[("Mcp-Session-Id", &id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    let Some(Event::SessionOpened { channel, .. }) = web.event() else { panic!("no session") };
    // It has no stream open: a server that pings it for ever must not remember each of them.
    let (mut sent, mut refused) = (0, 0);
    for _ in 0..100 {
        let now = web.now;
        let nothing = serde_json::json!({});
        let options = CallOptions::new().timeout(secs(1));
        match web.server.engine().request(now, channel, "ping", &nothing, &options) {
            Ok(_) => sent += 1,
            Err(error) => {
                assert!(matches!(error, UseError::Full("outbox_mark")), "{error:?}");
                refused += 1;
            }
        }
        web.advance(secs(2));
        while web.event().is_some() {}
        assert!(web.server.engine().outbox(channel).is_some_and(|o| o.len() < 2_500));
    }
    assert!(sent > 5 && refused > 50, "{sent} {refused}");
    for n in 0..100 {
        let now = web.now;
        web.server.engine().elicitation_complete(now, channel, &format!("page {n}"));
    }
    assert!(web.server.engine().outbox(channel).is_some_and(|o| o.len() < 2_500));
}

// covers: SEC-018
#[test]
fn one_session_cannot_take_all_questions() {
    let config = server(VersionSet::ALL).limits(limits(|l| {
        l.max_pending_calls = 8;
        l.max_inputs = 2;
        l.max_kept_bytes = 4_000;
    }));
    let mut web = Web::new(config, Config::new());
    let (greedy, other) = (session(&mut web, "2025-11-25"), session(&mut web, "2025-11-25"));
    for n in 2..8 {
        web.post(&[("Mcp-Session-Id", &greedy)], &legacy(n, "tools/call", ECHO));
        let call = web.call();
        let asked = ask(&mut web, &call, "who");
        assert_eq!(asked.is_ok(), n < 4, "{n}: {asked:?}");
        if let Err(error) = asked {
            assert!(matches!(error, UseError::Full("max_pending_calls")), "{error:?}");
        }
    }
    web.post(&[("Mcp-Session-Id", &other)], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    ask(&mut web, &call, "who").expect("the other one has its share");
    // Nor all of the memory.
    let long = format!("\"name\":\"echo\",\"arguments\":{{\"text\":\"{}\"}}", "x".repeat(2_000));
    web.post(&[("Mcp-Session-Id", &other)], &legacy(3, "tools/call", &long));
    let call = web.call();
    assert!(matches!(ask(&mut web, &call, "who"), Err(UseError::Full("max_kept_bytes"))));
}

// covers: SEC-018, HTTP-064
#[test]
fn no_id_of_a_session_that_has_gone_is_given_out() {
    let mut web = web(Config::new().max_sessions(1, 1));
    web.pulls = false;
    let first = web.post(&[], &initialize("2025-11-25"));
    let second = web.post(&[], &initialize("2025-11-25"));
    web.pulls = true;
    web.pull();
    assert_eq!((web.reply(first).status, web.reply(first).field("mcp-session-id")), (503, None));
    assert_eq!(web.reply(second).status, 200);
    assert!(web.reply(second).field("mcp-session-id").is_some());
    assert_eq!((web.server.exchanges(), web.server.sessions()), (0, 1));
}

// covers: HTTP-070
#[test]
fn the_end_of_a_session_is_told_once() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    web.server.shutdown(web.now, secs(1));
    assert!(matches!(web.event(), Some(Event::Closed { .. })));
    let x = web.send("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "");
    assert_eq!(web.reply(x).status, 204);
    assert!(web.event().is_none());
}

#[test]
fn a_server_that_shuts_down_still_answers_on_the_streams_of_http_sse() {
    let mut web = web(Config::new().http_sse("/sse", "/messages"));
    let streams = [1, 2, 3].map(|_| web.send("GET", "/sse", &[], ""));
    let said = |web: &Web, x| -> serde_json::Value {
        let last = web.reply(x).events().pop().expect("an answer");
        serde_json::from_str(&last.data).expect("JSON")
    };
    let mut calls = Vec::new();
    for x in &streams[..2] {
        let target = web.reply(*x).events()[0].data.clone();
        web.send("POST", &target, &[], &initialize("2024-11-05"));
        web.send("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        assert!(matches!(web.event(), Some(Event::SessionOpened { .. })));
        web.send("POST", &target, &[], &legacy(2, "tools/call", ECHO));
        calls.push(web.call());
    }
    web.server.shutdown(web.now, secs(5));
    web.pull();
    assert!(web.reply(streams[2]).finished, "nothing is due on it");
    assert!(!web.reply(streams[0]).finished && !web.reply(streams[1]).finished);
    answer(&mut web, &calls[0]);
    let last = said(&web, streams[0]);
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&2.into(), &"done".into()));
    assert!(web.reply(streams[0]).finished);
    web.advance(secs(6));
    let last = said(&web, streams[1]);
    assert_eq!((&last["id"], &last["error"]["code"]), (&2.into(), &(-32603).into()));
    assert!(web.reply(streams[1]).finished);
    assert_eq!((web.server.exchanges(), web.server.sessions()), (0, 0));
}

#[test]
fn a_server_that_shuts_down_refuses_what_has_not_come_whole() {
    use mcp_proto::head::Request;
    let mut web = web(Config::new().http_sse("/sse", "/messages"));
    let fields = [("host", &b"localhost"[..]), ("accept", b"*/*"), ("content-type", b"application/json")];
    let open = |web: &mut Web, target| {
        let head = Request { method: "POST", target, fields: &fields };
        web.server.open(web.now, &head, None)
    };
    let (x, y) = (open(&mut web, "/mcp"), open(&mut web, "/messages?sessionId=x"));
    web.server.shutdown(web.now, secs(1));
    for x in [x, y] {
        assert_eq!(web.server.response(x).map(|r| r.status), Some(503));
        assert!(!web.server.wants_body(x));
    }
    // What was in work goes on.
    let body = modern(1, "tools/call", ECHO);
    web.server.handle_body(web.now, x, body.into());
    web.server.handle_end(web.now, x);
    assert!(web.event().is_none());
}

// covers: BATCH-004
#[test]
fn what_is_modern_is_no_member_of_a_batch() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    let listen = modern(2, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let call = modern(3, "tools/call", ECHO);
    let x = web.post(&[named], &format!("[{listen},{call},{}]", legacy(4, "ping", "")));
    let reply = web.reply(x);
    assert!(reply.finished, "{reply:?}");
    let message = reply.message();
    let codes: Vec<_> = (0..3).map(|n| message[n]["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [Some(-32600), Some(-32600), None], "{message}");
    assert!(web.event().is_none());
    assert_eq!(web.server.exchanges(), 0);
}

// covers: HTTP-070, HTTP-071, SSE-027
#[test]
fn the_application_may_end_a_session() {
    let mut web = web(Config::new());
    let x = web.post(&[], &initialize("2025-11-25"));
    let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    web.post(&[named], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    let Some(Event::SessionOpened { channel, .. }) = web.event() else { panic!("no session") };
    let get = web.send("GET", "/mcp", &[named], "");
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    web.call();
    let now = web.now;
    web.server.engine().close_channel(now, channel, &Fault::Closed);
    web.pull();
    assert!(web.reply(get).finished && web.reply(x).finished);
    assert!(matches!(web.event(), Some(Event::Cancelled { .. })));
    assert!(matches!(web.event(), Some(Event::Closed { .. })));
    for (method, body) in [("POST", legacy(3, "ping", "")), ("GET", String::new()), ("DELETE", String::new())]
    {
        let x = web.send(method, "/mcp", &[named], &body);
        assert_eq!(web.reply(x).status, 404, "{method}");
    }
    assert!(web.event().is_none(), "its end was told");
    assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
}

// covers: SEC-018
#[test]
fn a_session_that_nobody_knows_of_is_none() {
    let mut web = web(Config::new());
    web.pulls = false;
    let x = web.post(&[], &initialize("2025-11-25"));
    assert_eq!(web.server.sessions(), 1);
    web.hang_up(x);
    assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
}
