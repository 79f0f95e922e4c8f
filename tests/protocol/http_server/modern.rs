//! Modern requests: each stands alone, and its fields are held against it.

use core::time::Duration;

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Asking, Call, CancelReason, Event};
use mcp_proto::{Change, Progress, RpcError, VersionSet};

use super::{CALL, ECHO, answer, legacy, modern, web, web_of};
use crate::common::secs;

// covers: HTTP-021, HTTP-023, HTTP-040, HTTP-041, HTTP-061
#[test]
fn an_answer_is_one_object_and_every_client_begins_at_one() {
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        one_object(web_of(versions, Config::new()));
    }
}

fn one_object(mut web: mcp_tests::harness::Web) {
    let first = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let a = web.call();
    // Nothing of a session is minded or given out.
    let fields: Vec<_> =
        CALL.into_iter().chain([("Mcp-Session-Id", "whatever"), ("Last-Event-ID", "1-1")]).collect();
    let second = web.post(&fields, &modern(1, "tools/call", ECHO));
    let b = web.call();
    answer(&mut web, &b);
    assert!(web.reply(second).finished && !web.reply(first).finished);
    answer(&mut web, &a);
    for x in [first, second] {
        let reply = web.reply(x);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
        assert!(reply.field("mcp-session-id").is_none());
        assert_eq!(reply.message()["result"]["content"][0]["text"], "done");
    }
    assert_eq!(web.server.exchanges(), 0, "nothing is kept");
}

// covers: HTTP-024, HTTP-025, HTTP-027, HTTP-028, HTTP-029, HTTP-031, HTTP-036, HTTP-037, VER-035, BASE-043, VER-040 (1 and 3)
#[test]
fn the_order_of_checks_is_that_of_the_table() {
    let call = modern(1, "tools/call", ECHO);
    let version = "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"";
    let capabilities = "\"io.modelcontextprotocol/clientCapabilities\":{}";
    let future = call.replace("2026-07-28", "2031-01-01");
    let cases: [(&str, String, [&str; 3], u16, i64); 20] = [
        ("right", call.clone(), ["2026-07-28", "tools/call", "echo"], 200, 0),
        ("not JSON", "{".into(), ["2026-07-28", "tools/call", "echo"], 400, -32700),
        ("not UTF-8 is not JSON", "\u{1}".into(), ["2026-07-28", "", ""], 400, -32700),
        ("not JSON-RPC", "{\"id\":1}".into(), ["2026-07-28", "tools/call", "echo"], 400, -32600),
        ("a batch", format!("[{call}]"), ["2026-07-28", "tools/call", "echo"], 400, -32600),
        ("another version in the field", call.clone(), ["2025-11-25", "tools/call", "echo"], 400, -32020),
        (
            "… before anything is missing",
            call.replace(capabilities, "\"x/y\":1"),
            ["2025-11-25", "", ""],
            400,
            -32020,
        ),
        ("no version in the body", call.replace(version, "\"x/y\":1"), ["2026-07-28", "", ""], 400, -32602),
        ("no capabilities", call.replace(capabilities, "\"x/y\":1"), ["2026-07-28", "", ""], 400, -32602),
        ("no metadata at all", legacy(1, "tools/call", ECHO), ["2026-07-28", "", ""], 400, -32602),
        ("an unknown version, before its other fields", future, ["2031-01-01", "", ""], 400, -32022),
        ("no version in the fields", call.clone(), ["", "tools/call", "echo"], 400, -32020),
        ("no method", call.clone(), ["2026-07-28", "", "echo"], 400, -32020),
        ("another method", call.clone(), ["2026-07-28", "tools/list", "echo"], 400, -32020),
        ("a method in other case", call.clone(), ["2026-07-28", "Tools/Call", "echo"], 400, -32020),
        ("no name", call.clone(), ["2026-07-28", "tools/call", ""], 400, -32020),
        ("another name", call.clone(), ["2026-07-28", "tools/call", "Echo"], 400, -32020),
        (
            "another method, before it is unknown",
            modern(1, "no/such", ""),
            ["2026-07-28", "tools/call", ""],
            400,
            -32020,
        ),
        ("an unknown method", modern(1, "no/such", ""), ["2026-07-28", "no/such", ""], 404, -32601),
        (
            "a method of the other era",
            modern(1, "initialize", ""),
            ["2026-07-28", "initialize", ""],
            404,
            -32601,
        ),
    ];
    for (what, body, [version, method, name], status, code) in cases {
        let mut web = web(Config::new());
        let fields = [("mcp-protocol-VERSION", version), ("MCP-METHOD", method), ("mcp-name", name)];
        let x = web.post(&fields, &body);
        if code == 0 {
            let call = web.call();
            answer(&mut web, &call);
        }
        let reply = web.reply(x);
        assert_eq!(reply.status, status, "{what}: {reply:?}");
        if code != 0 {
            let message = reply.message();
            assert_eq!(message["error"]["code"], code, "{what}: {message}");
            while let Some(event) = web.event() {
                assert!(matches!(event, Event::Diagnostic { .. }), "{what}: {event:?}");
            }
        }
        assert_eq!(web.server.exchanges(), 0, "{what}");
    }
}

// covers: XHDR-020, XHDR-021, XHDR-022, XHDR-027
#[test]
fn names_may_be_encoded() {
    let umlaut = "\"name\":\"M\u{fc}ll\",\"arguments\":{}";
    for (name, field, status) in [
        (umlaut, "=?base64?TcO8bGw=?=", 200),
        (umlaut, "M\u{fc}ll", 400),
        (umlaut, "=?base64?TcO8bGw?=", 400),
        (umlaut, "=?base64?TcO8bGx=?=", 400),
        (umlaut, "=?BASE64?TcO8bGw=?=", 400),
        (ECHO, "=?base64?ZWNobw==?=", 200),
        ("\"name\":\"=?base64?x\"", "=?base64?x", 200),
    ] {
        let mut web = web(Config::new());
        let fields = [CALL[0], CALL[1], ("Mcp-Name", field)];
        let x = web.post(&fields, &modern(1, "tools/call", name));
        if status == 200 {
            let call = web.call();
            answer(&mut web, &call);
        }
        assert_eq!(web.reply(x).status, status, "{name} {field}");
    }
    let mut web = web(Config::new());
    let twice: Vec<_> = CALL.into_iter().chain([("Mcp-Name", "echo")]).collect();
    let x = web.post(&twice, &modern(1, "tools/call", ECHO));
    assert_eq!(web.reply(x).status, 400, "a field that is there twice says nothing");
    let x = web.post(
        &[CALL[0], ("Mcp-Method", "resources/read"), ("Mcp-Name", "a:b")],
        &modern(1, "resources/read", "\"uri\":\"a:b\""),
    );
    let call = web.call();
    assert_eq!(call.method(), "resources/read");
    web.server.engine().fail(web.now, call.id(), &RpcError::resource_not_found("a:b")).expect("open");
    web.pull();
    assert_eq!(
        (web.reply(x).status, &web.reply(x).message()["error"]["code"]),
        (200, &serde_json::json!(-32602))
    );
}

// covers: HTTP-017, HTTP-018, HTTP-034
#[test]
fn notifications_are_taken_and_responses_are_not() {
    let mut web = web(Config::new());
    let x = web.post(
        &CALL[..1],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}",
    );
    assert_eq!((web.reply(x).status, &*web.reply(x).body), (202, ""));
    let x = web.post(&CALL[..1], "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    assert_eq!(web.reply(x).status, 400);
    assert_eq!(web.server.exchanges(), 0);
}

// covers: SSE-001, SSE-007, SSE-008, SSE-009, SSE-011, SSE-012, HTTP-061
#[test]
fn what_is_said_before_the_answer_makes_it_a_stream() {
    let mut web = web(Config::new());
    let body = modern(1, "tools/call", ECHO).replace("\"_meta\":{", "\"_meta\":{\"progressToken\":\"t\",");
    let x = web.post(&CALL, &body);
    let call = web.call();
    assert_eq!(web.reply(x).status, 0, "nothing is decided yet");
    for n in [1.0, 2.0] {
        web.server.engine().progress(web.now, call.id(), Progress::new(n)).expect("open");
        web.pull();
    }
    assert_eq!((web.reply(x).status, web.reply(x).messages().len(), web.reply(x).finished), (200, 2, false));
    answer(&mut web, &call);
    let reply = web.reply(x);
    assert!(reply.finished && reply.is_stream());
    assert!(reply.events().iter().all(|e| e.id.is_empty() && e.retry.is_empty() && e.event.is_empty()));
    assert_eq!(reply.messages().last().map(|m| m["id"].clone()), Some(1.into()));
    // All at once is a stream as well.
    let x = web.post(&CALL, &body);
    let call = web.call();
    web.pulls = false;
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    answer(&mut web, &call);
    web.pulls = true;
    web.pull();
    assert_eq!((web.reply(x).messages().len(), web.reply(x).finished), (2, true));
}

// covers: PROG-016, SSE-009
#[test]
fn progress_goes_where_its_call_is_and_news_where_they_were_asked_for() {
    let mut web = web(Config::new());
    let fields = [CALL[0], ("Mcp-Method", "subscriptions/listen")];
    let listen = "\"notifications\":{\"toolsListChanged\":true}";
    let news = web.post(&fields, &modern(1, "subscriptions/listen", listen));
    let body = modern(2, "tools/call", ECHO).replace("\"_meta\":{", "\"_meta\":{\"progressToken\":\"t\",");
    let x = web.post(&CALL, &body);
    let call = web.call();
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    web.server.engine().publish(web.now, &Change::Tools);
    web.pull();
    answer(&mut web, &call);
    let methods = |x| web.reply(x).messages().iter().map(|m| m["method"].clone()).collect::<Vec<_>>();
    assert_eq!(methods(x), ["notifications/progress".into(), serde_json::Value::Null]);
    assert_eq!(
        methods(news),
        ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
    );
}

/// A call of a client that can be asked by a form
fn asked(web: &mut mcp_tests::harness::Web, id: u32) -> (ExchangeId, Call) {
    let can =
        "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{}}},\"progressToken\":1";
    let body =
        modern(id, "tools/call", ECHO).replace("\"io.modelcontextprotocol/clientCapabilities\":{}", can);
    let x = web.post(&CALL, &body);
    (x, web.call())
}

fn who(call: &Call) -> Asking {
    let mut asking = Asking::new();
    let form = ElicitParams::form("who?", ElicitSchema::default());
    asking.ask(call, "who", InputRequest::Elicit(form)).expect_err("not yet");
    asking
}

// covers: MRTR-032, SSE-010, HTTP-061
#[test]
fn what_is_needed_is_an_answer_and_the_end_of_the_stream() {
    let mut web = web(Config::new());
    for streams in [false, true] {
        let (x, call) = asked(&mut web, 1);
        let now = web.now;
        if streams {
            web.server.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
            web.pull();
        }
        web.server.engine().ask(now, &call, &who(&call)).expect("can be asked");
        web.pull();
        // Whatever else is said about it comes too late.
        assert!(web.server.engine().progress(now, call.id(), Progress::new(2.0)).is_err());
        assert!(web.server.engine().complete(now, call.id(), &CallToolResult::text("late")).is_err());
        web.pull();
        let reply = web.reply(x);
        assert!(reply.finished && reply.is_stream() == streams, "{reply:?}");
        let messages = reply.messages();
        assert_eq!(messages.len(), 1 + usize::from(streams));
        assert_eq!(messages.last().map(|m| m["result"]["resultType"].clone()), Some("input_required".into()));
        let asks = |m: &serde_json::Value| m.get("method").is_some() && m.get("id").is_some();
        assert!(!messages.iter().any(asks), "{messages:?}");
        assert_eq!(web.server.exchanges(), 0);
    }
}

// covers: HTTP-026
#[test]
fn a_client_that_lacks_what_is_needed_is_told_in_the_status() {
    let mut web = web(Config::new());
    let x = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let call = web.call();
    web.server.engine().ask(web.now, &call, &who(&call)).expect_err("it cannot be asked");
    web.pull();
    let reply = web.reply(x);
    let error = &reply.message()["error"];
    assert_eq!((reply.status, &error["code"]), (400, &(-32021).into()), "{reply:?}");
    assert!(error["data"]["requiredCapabilities"]["elicitation"].is_object(), "{error}");
    assert_eq!(web.server.exchanges(), 0);
}

// covers: SSE-006
#[test]
fn a_call_that_takes_long_is_shown_to_be_alive() {
    let mut web = web(Config::new());
    let x = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let call = web.call();
    web.advance(secs(4));
    assert_eq!(web.reply(x).status, 0);
    web.advance(secs(2));
    assert_eq!((web.reply(x).status, web.reply(x).is_stream(), &*web.reply(x).body), (200, true, ""));
    web.advance(secs(31));
    assert_eq!(web.reply(x).body, ": \n\n: \n\n");
    answer(&mut web, &call);
    assert_eq!(web.reply(x).message()["result"]["resultType"], "complete");
    assert!(web.reply(x).finished);
    web.advance(secs(100));
    assert_eq!(web.server.poll_timeout(), None, "nothing is left to wait for");
}

// covers: HTTP-042, HTTP-043, CANC-017
#[test]
fn who_goes_away_cancels() {
    let mut web = web(Config::new());
    let stays = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let other = web.call();
    for streams in [false, true] {
        let x = web.post(&CALL, &modern(1, "tools/call", ECHO));
        let call = web.call();
        if streams {
            web.advance(Duration::from_secs(6));
            assert!(web.reply(x).is_stream());
        }
        web.hang_up(x);
        match web.event() {
            Some(Event::Cancelled { call: gone, reason }) => {
                assert_eq!((gone, reason), (call.id(), CancelReason::Disconnected));
            }
            other => panic!("{other:?}"),
        }
        assert!(web.server.engine().fail(web.now, call.id(), &RpcError::internal("late")).is_err());
    }
    answer(&mut web, &other);
    assert!(web.reply(stays).finished);
    assert_eq!(web.server.exchanges(), 0);
}

// covers: HTTP-042, SUB-001, SUB-004, SUB-013, SUB-017, SUB-021
#[test]
fn a_subscription_is_a_stream_until_either_side_ends_it() {
    let mut web = web(Config::new());
    let fields = [CALL[0], ("Mcp-Method", "subscriptions/listen")];
    let listen = modern(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let (a, b) = (web.post(&fields, &listen), web.post(&fields, &listen));
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 2);
    web.pull();
    for x in [a, b] {
        let methods: Vec<_> = web.reply(x).messages().iter().map(|m| m["method"].clone()).collect();
        assert_eq!(methods, ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]);
    }
    web.hang_up(a);
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    web.server.shutdown(web.now, secs(1));
    web.pull();
    let reply = web.reply(b);
    assert!(reply.finished, "{reply:?}");
    let last = reply.messages().pop().expect("messages");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&1.into(), &"complete".into()));
    assert_eq!(web.server.exchanges(), 0);
}

// covers: SUB-013, SUB-014
#[test]
fn all_subscriptions_can_be_ended_while_calls_go_on() {
    let mut web = web(Config::new());
    let fields = [CALL[0], ("Mcp-Method", "subscriptions/listen")];
    let listen = |id| modern(id, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let (a, b) = (web.post(&fields, &listen(1)), web.post(&fields, &listen(2)));
    let x = web.post(&CALL, &modern(3, "tools/call", ECHO));
    let call = web.call();
    web.server.engine().end_all_subscriptions(web.now);
    web.pull();
    for (x, id) in [(a, 1), (b, 2)] {
        let last = web.reply(x).messages().pop().expect("messages");
        assert!(web.reply(x).finished);
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&id.into(), &"complete".into()));
    }
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 0);
    assert!(!web.reply(x).finished);
    answer(&mut web, &call);
    assert!(web.reply(x).finished);
}

// covers: VER-032, VER-033, ERR-006, VER-036 (the second half)
#[test]
fn an_older_client_at_a_modern_server_is_told_what_is_spoken() {
    let mut web = web_of(VersionSet::MODERN, Config::new());
    let x = web.post(&[], &super::initialize("2025-11-25"));
    let error = web.reply(x).message()["error"].clone();
    assert_eq!((web.reply(x).status, &error["code"]), (400, &serde_json::json!(-32020)));
    assert_eq!(error["data"]["supported"], serde_json::json!(["2026-07-28"]));
    assert!(error["message"].as_str().is_some_and(|m| m.contains("2026-07-28")));
    let x = web.post(&[("MCP-Protocol-Version", "2025-11-25")], &super::initialize("2025-11-25"));
    assert_eq!(
        (web.reply(x).status, &web.reply(x).message()["error"]["code"]),
        (400, &serde_json::json!(-32022))
    );
}

// covers: LOG-007
#[test]
fn a_slow_reader_costs_no_more_than_its_share() {
    let mut web = web(Config::new());
    let body = modern(1, "tools/call", ECHO).replace(
        "\"_meta\":{",
        "\"_meta\":{\"progressToken\":1,\"io.modelcontextprotocol/logLevel\":\"debug\",",
    );
    let x = web.post(&CALL, &body);
    let call = web.call();
    web.pulls = false;
    for n in 0..10_000 {
        let now = web.now;
        let text = "x".repeat(1_000);
        let _ = web.server.engine().log(now, call.id(), &LoggingLevel::Info, None, &text);
        let _ = web.server.engine().progress(now, call.id(), Progress::new(f64::from(n)));
        web.advance(Duration::from_millis(100));
    }
    // What the adapter has not asked for is not made.
    web.pulls = true;
    web.pull();
    assert!(web.reply(x).body.len() < (2 << 20), "{}", web.reply(x).body.len());
    answer(&mut web, &call);
    assert!(web.reply(x).finished);
}

#[test]
fn an_application_with_enough_to_do_has_requests_refused_and_nothing_else() {
    let mut web = web(Config::new());
    let x = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let call = web.call();
    web.server.set_overloaded(true);
    for id in 2..4 {
        let refused = web.post(&CALL, &modern(id, "tools/call", ECHO));
        assert_eq!((web.reply(refused).status, web.reply(refused).field("retry-after")), (503, Some("1")));
    }
    // What is in work is answered meanwhile.
    answer(&mut web, &call);
    assert_eq!(web.reply(x).message()["result"]["content"][0]["text"], "done");
    web.server.set_overloaded(false);
    let y = web.post(&CALL, &modern(4, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(y).status, 200);
}

#[test]
fn a_server_that_shuts_down_ends_what_it_has_and_begins_nothing() {
    let mut web = web(Config::new());
    let (x, y) =
        (web.post(&CALL, &modern(1, "tools/call", ECHO)), web.post(&CALL, &modern(2, "tools/call", ECHO)));
    let (done, _left) = (web.call(), web.call());
    web.server.shutdown(web.now, secs(5));
    let refused = web.post(&CALL, &modern(3, "tools/call", ECHO));
    assert_eq!(web.reply(refused).status, 503);
    answer(&mut web, &done);
    assert_eq!(web.reply(x).message()["result"]["content"][0]["text"], "done");
    web.advance(secs(6));
    assert_eq!(web.reply(y).message()["error"]["code"], -32603);
    assert_eq!(web.server.exchanges(), 0);
}

// covers: XHDR-027
#[test]
fn what_is_said_twice_is_refused_wherever_it_is_said() {
    let mut web = web(Config::new());
    for field in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Unknown"] {
        let fields = [
            CALL[0],
            ("Mcp-Method", "tools/list"),
            ("Mcp-Name", "x"),
            ("mcp-param-unknown", "1"),
            (field, if field == "MCP-Protocol-Version" { CALL[0].1 } else { "tools/list" }),
        ];
        let x = web.post(&fields, &modern(1, "tools/list", ""));
        let error = &web.reply(x).message()["error"];
        assert_eq!((web.reply(x).status, &error["code"]), (400, &(-32020).into()), "{field}");
        assert!(error["message"].as_str().is_some_and(|m| m.to_lowercase().contains(&field.to_lowercase())));
    }
    assert!(web.event().is_none());
}

// covers: HTTP-031, HTTP-034, HTTP-036
#[test]
fn what_is_said_about_a_notification_has_to_be_right() {
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}";
    let mut web = web(Config::new());
    for (fields, status) in [
        (&[][..], 202),
        (&[("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "notifications/cancelled")], 202),
        (&[("MCP-Protocol-Version", "2025-11-25")], 400),
        (&[("Mcp-Method", "tools/call")], 400),
        (&[("Mcp-Method", "notifications/cancelled"), ("mcp-method", "notifications/cancelled")], 400),
    ] {
        let x = web.post(fields, notification);
        let reply = web.reply(x);
        assert_eq!(reply.status, status, "{fields:?}");
        if status == 400 {
            let message = reply.message();
            assert_eq!((&message["error"]["code"], message.get("id")), (&(-32020).into(), None));
        }
        while let Some(event) = web.event() {
            assert!(status == 202 && matches!(event, Event::Diagnostic { .. }), "{event:?}");
        }
    }
    assert_eq!(web.server.exchanges(), 0);
}
