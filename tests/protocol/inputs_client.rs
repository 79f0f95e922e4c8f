//! Input requests of legacy servers at the client: the same events and answers as in the modern era.

use mcp_proto::client::{self, Input};
use mcp_proto::model::{CreateMessageResult, ElicitParams, ElicitResult, InputRequest, SamplingContent};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Diagnostic, RpcError, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{LEGACY_VERSIONS, legacy_request, notification, result_response};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs};

const NEWEST: Version = Version::V2025_11_25;

#[expect(deprecated, reason = "tested until its removal")]
const ALL: [Capability; 5] = [
    Capability::Elicitation,
    Capability::ElicitationUrl,
    Capability::Sampling,
    Capability::SamplingTools,
    Capability::Roots,
];

fn config(version: Version, declared: &[Capability]) -> client::Config {
    client(VersionSet::only(version))
        .capabilities(declared.iter().copied().fold(Capabilities::new(), Capabilities::with))
}

fn legacy_harness(version: Version, declared: &[Capability], cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(config(version, declared), cut);
    harness.become_legacy(version, json!({"tools": {}}));
    harness
}

fn form() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"message": "Who?", "requestedSchema": schema})
}

fn page(more: &Value) -> Value {
    let mut page =
        json!({"mode": "url", "message": "m", "url": "https://x.example/a", "elicitationId": "e1"});
    for (name, value) in more.as_object().expect("members") {
        page[name] = value.clone();
    }
    page
}

fn request_input(harness: &mut ClientHarness, id: &str, method: &str, params: Value) -> Input {
    harness.feed_message(&legacy_request(id, method, params));
    let input = harness.expect_input();
    assert_eq!((input.call, input.key.as_deref()), (None, None));
    harness.assert_idle();
    input
}

/// Sends a request that the client refuses without an event; returns the error message.
fn assert_refused(harness: &mut ClientHarness, method: &str, params: &Value, code: i64) -> String {
    harness.feed_message(&legacy_request("bad", method, params.clone()));
    let answer = harness.expect_reply();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("bad"), &json!(code)),
        "{params}: {answer}"
    );
    harness.assert_idle();
    answer["error"]["message"].as_str().expect("a message").to_owned()
}

// covers: ELIC-006, ELIC-008, ELIC-010, ELIC-011, ELIC-018, SAMP-003, SAMP-005, ROOT-002, ROOT-005, ELIC-009, ELIC-034
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn input_answer_is_sent_as_the_response() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(version, &ALL, cut);
            let input = request_input(&mut harness, "r", "roots/list", Value::Null);
            assert!(matches!(*input.request, InputRequest::ListRoots(None)));
            for wrong in
                [json!({"action": "accept"}), json!({"roots": [], "resultType": "complete"}), json!([])]
            {
                assert!(harness.pipe.engine().answer(harness.now, input.id, &wrong).is_err(), "{wrong}");
                harness.assert_nothing_sent();
            }
            harness.answer(input.id, &json!({"roots": [{"uri": "file:///harbour"}]}));
            let response = harness.expect_reply();
            assert_eq!(
                response,
                result_response(&json!({"id": "r"}), json!({"roots": [{"uri": "file:///harbour"}]}))
            );

            let input = request_input(
                &mut harness,
                "s",
                "sampling/createMessage",
                json!({"messages": [], "maxTokens": 9}),
            );
            assert!(matches!(&*input.request, InputRequest::CreateMessage(p) if p.max_tokens == 9));
            // Several blocks are joined where the revision allows only one.
            let blocks = vec![SamplingContent::text("Fair"), SamplingContent::text("winds")];
            let (now, engine) = (harness.now, harness.pipe.engine());
            engine.answer(now, input.id, &CreateMessageResult::new("assistant", blocks, "m")).expect("open");
            let response = harness.expect_reply();
            assert_eq!(response["result"]["content"].is_array(), version >= NEWEST, "{response}");

            if version >= Version::V2025_06_18 {
                let input = request_input(&mut harness, "e", "elicitation/create", form());
                assert!(
                    matches!(&*input.request, InputRequest::Elicit(ElicitParams::Form(f)) if f.message == "Who?")
                );
                let (now, engine) = (harness.now, harness.pipe.engine());
                engine.answer(now, input.id, &ElicitResult::accept([("name", "Mara".into())])).expect("open");
                let response = harness.expect_reply();
                assert_eq!(response["result"], json!({"action": "accept", "content": {"name": "Mara"}}));
            }
            if version >= NEWEST {
                let input = request_input(&mut harness, "u", "elicitation/create", page(&json!({})));
                assert!(matches!(&*input.request, InputRequest::Elicit(ElicitParams::Url(_))));
                harness.answer(input.id, &json!({"action": "accept"}));
                assert_eq!(harness.expect_reply()["result"], json!({"action": "accept"}));
            }
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: ELIC-003, ELIC-005, ELIC-031, ELIC-009, SAMP-007, SAMP-009, ERR-020, ERR-021, ERR-022, ROOT-006
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn undeclared_input_request_is_refused_without_event() {
    let tools =
        json!({"messages": [], "maxTokens": 9, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
    let choice = json!({"messages": [], "maxTokens": 9, "toolChoice": {"mode": "auto"}});
    for version in LEGACY_VERSIONS {
        let mut harness =
            legacy_harness(version, &[Capability::Elicitation, Capability::Sampling], Chunker::Whole);
        assert_refused(&mut harness, "roots/list", &Value::Null, -32601);
        let code = if version >= Version::V2025_06_18 { -32602 } else { -32601 };
        assert_refused(&mut harness, "elicitation/create", &page(&json!({})), code);
        for params in [&tools, &choice] {
            if version >= NEWEST {
                assert_refused(&mut harness, "sampling/createMessage", params, -32602);
            } else {
                // The revision does not know these members.
                let input = request_input(&mut harness, "s", "sampling/createMessage", params.clone());
                let known = matches!(&*input.request, InputRequest::CreateMessage(p) if p.tools.is_none() && p.tool_choice.is_none());
                assert!(known, "{:?}", input.request);
                harness.answer(
                    input.id,
                    &json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}}),
                );
                harness.expect_reply();
            }
        }
    }
    // With URL elicitation alone, forms are refused (the flow `url-elicitation-required`).
    let mut harness = legacy_harness(NEWEST, &[Capability::ElicitationUrl], Chunker::Whole);
    assert_refused(&mut harness, "elicitation/create", &form(), -32602);
    request_input(&mut harness, "u", "elicitation/create", page(&json!({})));
}

// covers: SAMP-004, SAMP-011, SAMP-012, SAMP-014, ELIC-009, ELIC-012
#[test]
fn malformed_input_request_is_refused() {
    let mut harness = legacy_harness(NEWEST, &ALL, Chunker::Whole);
    let user = json!({"role": "user", "content": {"type": "text", "text": "x"}});
    let used = json!({"type": "tool_use", "id": "u1", "name": "depth", "input": {}});
    let result = json!({"type": "tool_result", "toolUseId": "u1", "content": []});
    let used = json!({"role": "assistant", "content": [used]});
    let mixed = json!({"role": "user", "content": [{"type": "text", "text": "see"}, result]});
    for (method, params) in [
        ("elicitation/create", Value::Null),
        ("elicitation/create", json!({})),
        ("elicitation/create", json!({"message": "m"})),
        ("elicitation/create", json!({"message": "m", "requestedSchema": {"type": "array"}})),
        ("elicitation/create", json!({"mode": "dance", "message": "m"})),
        ("elicitation/create", page(&json!({"elicitationId": null}))),
        ("elicitation/create", page(&json!({"url": 7}))),
        ("sampling/createMessage", Value::Null),
        ("sampling/createMessage", json!({"messages": []})),
        ("sampling/createMessage", json!({"messages": {}, "maxTokens": 1})),
        ("sampling/createMessage", json!({"messages": [user, used], "maxTokens": 1})),
        ("sampling/createMessage", json!({"messages": [used, user], "maxTokens": 1})),
        ("sampling/createMessage", json!({"messages": [used, mixed], "maxTokens": 1})),
        ("roots/list", json!({"_meta": 7})),
    ] {
        let code = -32602;
        if method != "roots/list" {
            assert_refused(&mut harness, method, &params, code);
        }
    }
    harness.assert_works();
}

// covers: SAMP-015, ROOT-006, ERR-013
#[test]
fn refused_input_is_sent_as_an_error() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(NEWEST, &ALL, cut);
        let (key, request) = harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new());
        let input = request_input(
            &mut harness,
            "s",
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 9}),
        );
        let now = harness.now;
        harness.pipe.engine().refuse(now, input.id, &RpcError::new(-1, "the user said no")).expect("open");
        assert_eq!(harness.expect_reply()["error"], json!({"code": -1, "message": "the user said no"}));
        assert_eq!(harness.pipe.engine().answer(now, input.id, &json!({})), Err(UseError::Stale));
        // The server decides how the call ends.
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.assert_idle();
        harness.transcript
    });
}

// covers: CANC-001, CANC-010, CANC-013
#[test]
fn server_can_withdraw_an_input_request() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(version, &ALL, cut);
            let input = request_input(&mut harness, "r", "roots/list", Value::Null);
            let other = request_input(&mut harness, "q", "roots/list", Value::Null);
            harness.feed_message(&notification("notifications/cancelled", json!({"requestId": "r"})));
            harness.expect_input_withdrawn(input.id);
            harness.assert_idle();
            harness.feed_message(&notification("notifications/cancelled", json!({"requestId": "r"})));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownCancellation(_)));
            harness.answer(other.id, &json!({"roots": []}));
            assert_eq!(harness.expect_reply()["id"], "q");
            harness.transcript
        });
    }
}

// covers: STDIO-028
#[test]
fn eof_withdraws_open_input_requests() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(NEWEST, &ALL, cut);
        let input = request_input(&mut harness, "r", "roots/list", Value::Null);
        harness.eof();
        harness.expect_input_withdrawn(input.id);
        harness.expect_closed();
        harness.assert_nothing_sent();
        harness.transcript
    });
}

// covers: TIME-008, TIME-001, TIME-006
#[test]
fn call_timeout_pauses_while_an_input_is_open() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(version, &ALL, cut);
            let (key, _) = harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new());
            let firm = CallOptions::new().total_timeout(secs(1_000));
            let (firm, _) = harness.start_call("tools/call", &json!({"name": "b"}), &firm);
            harness.advance(secs(50));
            let input = request_input(&mut harness, "r", "roots/list", Value::Null);
            harness.advance(secs(949));
            harness.assert_idle();
            // An explicit total timeout is not paused.
            harness.advance(secs(1));
            assert_eq!(harness.expect_done(firm), Err(CallError::TotalTimedOut));
            assert_eq!(harness.expect_reply()["method"], "notifications/cancelled");
            harness.advance(secs(2_000));
            harness.assert_idle();
            harness.answer(input.id, &json!({"roots": []}));
            assert_eq!(harness.expect_reply()["id"], "r");
            // From here on the timeout and the rest of the default total run again.
            harness.advance(secs(59));
            harness.assert_idle();
            harness.advance(secs(1));
            assert_eq!(harness.expect_done(key), Err(CallError::TimedOut));
            assert_eq!(harness.expect_reply()["method"], "notifications/cancelled");
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: TIME-006
#[test]
fn repeated_input_requests_do_not_extend_the_total_timeout() {
    let mut harness = legacy_harness(NEWEST, &ALL, Chunker::Whole);
    let (key, _) = harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new());
    for i in 0..59 {
        harness.advance(secs(10));
        // Answered immediately: the client waits for the server.
        let input = request_input(&mut harness, &format!("r{i}"), "roots/list", Value::Null);
        harness.answer(input.id, &json!({"roots": []}));
        harness.expect_reply();
    }
    harness.advance(secs(9));
    harness.assert_idle();
    harness.advance(secs(1));
    assert_eq!(harness.expect_done(key), Err(CallError::TotalTimedOut));
    harness.take_sent();
    // Time spent on earlier inputs does not extend later calls.
    let input = request_input(&mut harness, "r", "roots/list", Value::Null);
    harness.advance(secs(2_000));
    harness.answer(input.id, &json!({"roots": []}));
    harness.expect_reply();
    let options = CallOptions::new().timeout(secs(10_000));
    let (key, _) = harness.start_call("tools/call", &json!({"name": "a"}), &options);
    harness.advance(secs(599));
    harness.assert_idle();
    harness.advance(secs(1));
    assert_eq!(harness.expect_done(key), Err(CallError::TotalTimedOut));
}

// covers: TIME-001
#[test]
fn unanswered_input_expires_after_an_hour() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(NEWEST, &ALL, cut);
        let input = request_input(&mut harness, "r", "roots/list", Value::Null);
        harness.advance(secs(3_599));
        harness.assert_idle();
        harness.advance(secs(1));
        harness.expect_input_withdrawn(input.id);
        let answer = harness.expect_reply();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("r"), &json!(-32603)));
        harness.assert_works();
        harness.transcript
    });
}

// covers: BASE-033
#[test]
fn input_requests_beyond_max_live_calls_are_refused() {
    let config = config(NEWEST, &ALL).limits(limits(|l| l.max_live_calls = 8));
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_legacy(NEWEST, json!({}));
    let mut open = Vec::new();
    for i in 0..1_000 {
        harness.feed_message(&legacy_request(i, "roots/list", Value::Null));
        if i < 8 {
            open.push(harness.expect_input());
        } else {
            assert_eq!(harness.expect_reply()["error"]["code"], -32603);
        }
    }
    for input in open {
        harness.answer(input.id, &json!({"roots": []}));
    }
    assert_eq!(harness.take_sent().len(), 8);
    harness.assert_idle();
}

// covers: BATCH-007, BATCH-008
#[test]
fn batch_of_input_requests_is_answered_with_one_array() {
    for_each_chunker(|cut| {
        let version = Version::V2025_03_26;
        let mut harness = legacy_harness(version, &ALL, cut);
        harness.feed_message(&json!([
            legacy_request("a", "roots/list", Value::Null),
            legacy_request("b", "sampling/createMessage", json!({}))
        ]));
        let input = harness.expect_input();
        harness.assert_idle();
        harness.answer(input.id, &json!({"roots": []}));
        let batch = harness.expect_reply();
        assert_eq!((&batch[0]["id"], &batch[1]["id"]), (&json!("b"), &json!("a")));
        assert_eq!(batch[0]["error"]["code"], -32602);
        harness.transcript
    });
}

// covers: ROOT-001, ROOT-004
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn roots_changed_is_sent_only_when_declared() {
    for version in LEGACY_VERSIONS {
        let mut harness = legacy_harness(version, &[Capability::RootsListChanged], Chunker::Whole);
        harness.pipe.engine().notify_roots_changed(harness.now).expect("ready");
        assert_eq!(harness.expect_reply(), notification("notifications/roots/list_changed", Value::Null));
    }
    let mut harness = legacy_harness(NEWEST, &[Capability::Roots], Chunker::Whole);
    harness.pipe.engine().notify_roots_changed(harness.now).expect("ready");
    harness.assert_idle();
    let declared =
        client(VersionSet::ALL).capabilities(Capabilities::new().with(Capability::RootsListChanged));
    let mut harness = ClientHarness::client(declared, Chunker::Whole);
    assert_eq!(harness.pipe.engine().notify_roots_changed(harness.now), Err(UseError::NotReady));
    harness.become_modern(json!({}));
    harness.pipe.engine().notify_roots_changed(harness.now).expect("ready");
    harness.assert_idle();
}

// covers: ELIC-025, ELIC-027, ELIC-028, ELIC-030
#[test]
fn elicitation_complete_is_accepted_only_for_requested_pages() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(NEWEST, &ALL, cut);
        let done = |harness: &mut ClientHarness, id: &str| {
            harness.feed_message(&notification(
                "notifications/elicitation/complete",
                json!({"elicitationId": id}),
            ));
        };
        let unknown = |harness: &mut ClientHarness, id: &str| {
            done(harness, id);
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnsolicitedNotification(_)), "{id}");
            harness.assert_idle();
        };
        unknown(&mut harness, "e1");
        let input = request_input(&mut harness, "u", "elicitation/create", page(&json!({})));
        harness.answer(input.id, &json!({"action": "accept"}));
        harness.expect_reply();
        unknown(&mut harness, "e2");
        done(&mut harness, "e1");
        assert!(matches!(harness.expect_event(), client::Event::ElicitationComplete(id) if id == "e1"));
        unknown(&mut harness, "e1");
        // An error that requires URL elicitations names the pages too.
        let (call, sent) = harness.start_call("tools/call", &json!({"name": "x"}), &CallOptions::new());
        let data = json!({"elicitations": [page(&json!({"elicitationId": "e3"}))]});
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": sent["id"],
            "error": {"code": -32042, "message": "first", "data": data}}));
        let Err(CallError::Rpc(refusal)) = harness.expect_done(call) else { panic!("a refusal") };
        assert_eq!(refusal.as_url_elicitation_required().expect("pages").elicitations.len(), 1);
        done(&mut harness, "e3");
        assert!(matches!(harness.expect_event(), client::Event::ElicitationComplete(id) if id == "e3"));
        harness
            .feed_message(&notification("notifications/elicitation/complete", json!({"elicitationId": 1})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)));
        // Only the newest 64 pages are remembered.
        for n in 0..100 {
            let input = request_input(
                &mut harness,
                "u",
                "elicitation/create",
                page(&json!({"elicitationId": n.to_string()})),
            );
            harness.answer(input.id, &json!({"action": "decline"}));
            harness.expect_reply();
        }
        unknown(&mut harness, "35");
        done(&mut harness, "36");
        assert!(matches!(harness.expect_event(), client::Event::ElicitationComplete(id) if id == "36"));
        harness.assert_works();
        harness.transcript
    });
}

// covers: ELIC-012, ELIC-017
#[test]
fn tolerable_form_is_shown_and_unusable_form_refused() {
    let mut harness = legacy_harness(NEWEST, &ALL, Chunker::Whole);
    let form = |field: Value| json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"a": field}, "required": ["b"]}});
    for field in [
        json!({"type": "string", "format": "email", "default": ""}),
        json!({"type": "string", "enum": ["x", "x"]}),
        json!({"type": "integer", "minimum": 2, "maximum": 1}),
    ] {
        let input = request_input(&mut harness, "f", "elicitation/create", form(field));
        harness.answer(input.id, &json!({"action": "decline"}));
        harness.expect_reply();
    }
    let nested = form(json!({"type": "object", "properties": {}}));
    let message = assert_refused(&mut harness, "elicitation/create", &nested, -32602);
    assert_eq!(message, "`requestedSchema.properties.a`: must be a string, number, boolean or choice field");
    harness.assert_works();
}

/// It exists since 2025-11-25, whatever the client declares.
// covers: ELIC-009
#[test]
fn elicitation_by_url_of_an_older_server_is_refused() {
    for version in LEGACY_VERSIONS {
        let mut harness = legacy_harness(version, &ALL, Chunker::Whole);
        harness.feed_message(&legacy_request("a", "elicitation/create", page(&json!({}))));
        if version == NEWEST {
            harness.expect_input();
        } else {
            assert!(harness.expect_reply()["error"]["code"].is_i64(), "{version}");
        }
        harness.assert_idle();
    }
}
