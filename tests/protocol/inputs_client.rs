//! What legacy servers ask for, on the client's side: the same events and answers as in the modern era.

use mcp_proto::client::{self, Input};
use mcp_proto::model::{CreateMessageResult, ElicitParams, ElicitResult, InputRequest, SamplingContent};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Diagnostic, RpcError, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{LEGACY, legacy, note, result};
use mcp_tests::harness::{Chunker, LoneClient, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, secs};

const NEWEST: Version = Version::V2025_11_25;

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

fn lone(version: Version, declared: &[Capability], cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(config(version, declared), cut);
    lone.with_legacy(version, json!({"tools": {}}));
    lone
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

fn asks(lone: &mut LoneClient, id: &str, method: &str, params: Value) -> Input {
    lone.tell(&legacy(id, method, params));
    let input = lone.input();
    assert_eq!((input.call, input.key.as_deref()), (None, None));
    lone.still();
    input
}

/// The server is told why not; nobody is asked
fn refuses(lone: &mut LoneClient, method: &str, params: &Value, code: i64) -> String {
    lone.tell(&legacy("bad", method, params.clone()));
    let answer = lone.reply();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("bad"), &json!(code)),
        "{params}: {answer}"
    );
    lone.still();
    answer["error"]["message"].as_str().expect("a message").to_owned()
}

// covers: ELIC-006, ELIC-008, ELIC-010, ELIC-011, ELIC-018, SAMP-003, SAMP-005, ROOT-002, ROOT-005, ELIC-009, ELIC-034
#[test]
fn an_answer_is_the_response() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = lone(version, &ALL, cut);
            let input = asks(&mut lone, "r", "roots/list", Value::Null);
            assert!(matches!(*input.request, InputRequest::ListRoots(None)));
            for wrong in
                [json!({"action": "accept"}), json!({"roots": [], "resultType": "complete"}), json!([])]
            {
                assert!(lone.pipe.engine().answer(lone.now, input.id, &wrong).is_err(), "{wrong}");
                lone.silent();
            }
            lone.answer(input.id, &json!({"roots": [{"uri": "file:///harbour"}]}));
            let answered = lone.reply();
            assert_eq!(answered, result(&json!({"id": "r"}), json!({"roots": [{"uri": "file:///harbour"}]})));

            let input =
                asks(&mut lone, "s", "sampling/createMessage", json!({"messages": [], "maxTokens": 9}));
            assert!(matches!(&*input.request, InputRequest::CreateMessage(p) if p.max_tokens == 9));
            // Several blocks are one where the revision knows no more.
            let said = vec![SamplingContent::text("Fair"), SamplingContent::text("winds")];
            let (now, engine) = (lone.now, lone.pipe.engine());
            engine.answer(now, input.id, &CreateMessageResult::new("assistant", said, "m")).expect("open");
            let answered = lone.reply();
            assert_eq!(answered["result"]["content"].is_array(), version >= NEWEST, "{answered}");

            if version >= Version::V2025_06_18 {
                let input = asks(&mut lone, "e", "elicitation/create", form());
                assert!(
                    matches!(&*input.request, InputRequest::Elicit(ElicitParams::Form(f)) if f.message == "Who?")
                );
                let (now, engine) = (lone.now, lone.pipe.engine());
                engine.answer(now, input.id, &ElicitResult::accept([("name", "Mara".into())])).expect("open");
                let answered = lone.reply();
                assert_eq!(answered["result"], json!({"action": "accept", "content": {"name": "Mara"}}));
            }
            if version >= NEWEST {
                let input = asks(&mut lone, "u", "elicitation/create", page(&json!({})));
                assert!(matches!(&*input.request, InputRequest::Elicit(ElicitParams::Url(_))));
                lone.answer(input.id, &json!({"action": "accept"}));
                assert_eq!(lone.reply()["result"], json!({"action": "accept"}));
            }
            lone.works();
            lone.transcript
        });
    }
}

// covers: ELIC-003, ELIC-005, ELIC-031, ELIC-009, SAMP-007, SAMP-009, ERR-020, ERR-021, ERR-022, ROOT-006
#[test]
fn what_was_not_declared_is_refused_before_anybody_is_asked() {
    let tools =
        json!({"messages": [], "maxTokens": 9, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
    let choice = json!({"messages": [], "maxTokens": 9, "toolChoice": {"mode": "auto"}});
    for version in LEGACY {
        let mut lone = lone(version, &[Capability::Elicitation, Capability::Sampling], Chunker::Whole);
        refuses(&mut lone, "roots/list", &Value::Null, -32601);
        let modes = if version >= Version::V2025_06_18 { -32602 } else { -32601 };
        refuses(&mut lone, "elicitation/create", &page(&json!({})), modes);
        for params in [&tools, &choice] {
            if version >= NEWEST {
                refuses(&mut lone, "sampling/createMessage", params, -32602);
            } else {
                // Members that this revision does not know.
                let input = asks(&mut lone, "s", "sampling/createMessage", params.clone());
                let known = matches!(&*input.request, InputRequest::CreateMessage(p) if p.tools.is_none() && p.tool_choice.is_none());
                assert!(known, "{:?}", input.request);
                lone.answer(
                    input.id,
                    &json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}}),
                );
                lone.reply();
            }
        }
    }
    // Pages alone: forms are refused (the flow `url-elicitation-required`).
    let mut lone = lone(NEWEST, &[Capability::ElicitationUrl], Chunker::Whole);
    refuses(&mut lone, "elicitation/create", &form(), -32602);
    asks(&mut lone, "u", "elicitation/create", page(&json!({})));
}

// covers: SAMP-004, SAMP-011, SAMP-012, SAMP-014, ELIC-009, ELIC-012
#[test]
fn what_cannot_be_read_is_refused() {
    let mut lone = lone(NEWEST, &ALL, Chunker::Whole);
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
            refuses(&mut lone, method, &params, code);
        }
    }
    lone.works();
}

// covers: SAMP-015, ROOT-006, ERR-013
#[test]
fn a_refusal_is_the_error_that_the_server_gets() {
    each_cut(|cut| {
        let mut lone = lone(NEWEST, &ALL, cut);
        let (key, request) = lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new());
        let input = asks(&mut lone, "s", "sampling/createMessage", json!({"messages": [], "maxTokens": 9}));
        let now = lone.now;
        lone.pipe.engine().refuse(now, input.id, &RpcError::new(-1, "the user said no")).expect("open");
        assert_eq!(lone.reply()["error"], json!({"code": -1, "message": "the user said no"}));
        assert_eq!(lone.pipe.engine().answer(now, input.id, &json!({})), Err(UseError::Stale));
        // The call is the server's to end.
        lone.tell(&result(&request, json!({"content": []})));
        assert!(lone.done(key).is_ok());
        lone.still();
        lone.transcript
    });
}

// covers: CANC-001, CANC-010, CANC-013
#[test]
fn a_server_may_need_it_no_more() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = lone(version, &ALL, cut);
            let input = asks(&mut lone, "r", "roots/list", Value::Null);
            let other = asks(&mut lone, "q", "roots/list", Value::Null);
            lone.tell(&note("notifications/cancelled", json!({"requestId": "r"})));
            lone.gone(input.id);
            lone.still();
            lone.tell(&note("notifications/cancelled", json!({"requestId": "r"})));
            assert!(matches!(lone.diagnostic(), Diagnostic::UnknownCancel(_)));
            lone.answer(other.id, &json!({"roots": []}));
            assert_eq!(lone.reply()["id"], "q");
            lone.transcript
        });
    }
}

// covers: STDIO-028
#[test]
fn the_end_of_the_connection_ends_what_is_asked() {
    each_cut(|cut| {
        let mut lone = lone(NEWEST, &ALL, cut);
        let input = asks(&mut lone, "r", "roots/list", Value::Null);
        lone.eof();
        lone.gone(input.id);
        lone.closed();
        lone.silent();
        lone.transcript
    });
}

// covers: TIME-008, TIME-001, TIME-006
#[test]
fn no_call_times_out_while_the_application_owes_the_server_something() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = lone(version, &ALL, cut);
            let (key, _) = lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new());
            let firm = CallOptions::new().total(secs(1_000));
            let (firm, _) = lone.calls("tools/call", &json!({"name": "b"}), &firm);
            lone.pass(secs(50));
            let input = asks(&mut lone, "r", "roots/list", Value::Null);
            lone.pass(secs(949));
            lone.still();
            // A total that was set holds, whoever is waited for.
            lone.pass(secs(1));
            assert_eq!(lone.done(firm), Err(CallError::TotalTimedOut));
            assert_eq!(lone.reply()["method"], "notifications/cancelled");
            lone.pass(secs(2_000));
            lone.still();
            lone.answer(input.id, &json!({"roots": []}));
            assert_eq!(lone.reply()["id"], "r");
            // From now on the server has its time again, and what was left of the total.
            lone.pass(secs(59));
            lone.still();
            lone.pass(secs(1));
            assert_eq!(lone.done(key), Err(CallError::TimedOut));
            assert_eq!(lone.reply()["method"], "notifications/cancelled");
            lone.still();
            lone.transcript
        });
    }
}

// covers: TIME-006
#[test]
fn a_server_cannot_hold_a_call_by_asking_again_and_again() {
    let mut lone = lone(NEWEST, &ALL, Chunker::Whole);
    let (key, _) = lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new());
    for i in 0..59 {
        lone.pass(secs(10));
        // Answered at once: it is the server that is waited for.
        let input = asks(&mut lone, &format!("r{i}"), "roots/list", Value::Null);
        lone.answer(input.id, &json!({"roots": []}));
        lone.reply();
    }
    lone.pass(secs(9));
    lone.still();
    lone.pass(secs(1));
    assert_eq!(lone.done(key), Err(CallError::TotalTimedOut));
    lone.sent();
    // A call made after long waiting has no more time than others.
    let input = asks(&mut lone, "r", "roots/list", Value::Null);
    lone.pass(secs(2_000));
    lone.answer(input.id, &json!({"roots": []}));
    lone.reply();
    let options = CallOptions::new().timeout(secs(10_000));
    let (key, _) = lone.calls("tools/call", &json!({"name": "a"}), &options);
    lone.pass(secs(599));
    lone.still();
    lone.pass(secs(1));
    assert_eq!(lone.done(key), Err(CallError::TotalTimedOut));
}

// covers: TIME-001
#[test]
fn an_input_that_nobody_answers_is_gone_after_an_hour() {
    each_cut(|cut| {
        let mut lone = lone(NEWEST, &ALL, cut);
        let input = asks(&mut lone, "r", "roots/list", Value::Null);
        lone.pass(secs(3_599));
        lone.still();
        lone.pass(secs(1));
        lone.gone(input.id);
        let answer = lone.reply();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("r"), &json!(-32603)));
        lone.works();
        lone.transcript
    });
}

// covers: BASE-033
#[test]
fn a_server_that_asks_ten_thousand_times_is_told_that_it_is_enough() {
    let config = config(NEWEST, &ALL).limits(limits(|l| l.max_live_calls = 8));
    let mut lone = LoneClient::client(config, Chunker::Whole);
    lone.with_legacy(NEWEST, json!({}));
    let mut open = Vec::new();
    for i in 0..10_000 {
        lone.tell(&legacy(i, "roots/list", Value::Null));
        if i < 8 {
            open.push(lone.input());
        } else {
            assert_eq!(lone.reply()["error"]["code"], -32603);
        }
    }
    for input in open {
        lone.answer(input.id, &json!({"roots": []}));
    }
    assert_eq!(lone.sent().len(), 8);
    lone.still();
}

// covers: BATCH-007, BATCH-008
#[test]
fn answers_to_a_batch_of_questions_are_one_array() {
    each_cut(|cut| {
        let version = Version::V2025_03_26;
        let mut lone = lone(version, &ALL, cut);
        lone.tell(&json!([
            legacy("a", "roots/list", Value::Null),
            legacy("b", "sampling/createMessage", json!({}))
        ]));
        let input = lone.input();
        lone.still();
        lone.answer(input.id, &json!({"roots": []}));
        let batch = lone.reply();
        assert_eq!((&batch[0]["id"], &batch[1]["id"]), (&json!("b"), &json!("a")));
        assert_eq!(batch[0]["error"]["code"], -32602);
        lone.transcript
    });
}

// covers: ROOT-001, ROOT-004
#[test]
fn changed_roots_are_told_where_that_was_promised() {
    for version in LEGACY {
        let mut lone = lone(version, &[Capability::RootsListChanged], Chunker::Whole);
        lone.pipe.engine().roots_changed(lone.now).expect("ready");
        assert_eq!(lone.reply(), note("notifications/roots/list_changed", Value::Null));
    }
    let mut lone = lone(NEWEST, &[Capability::Roots], Chunker::Whole);
    lone.pipe.engine().roots_changed(lone.now).expect("ready");
    lone.still();
    let declared =
        client(VersionSet::ALL).capabilities(Capabilities::new().with(Capability::RootsListChanged));
    let mut lone = LoneClient::client(declared, Chunker::Whole);
    assert_eq!(lone.pipe.engine().roots_changed(lone.now), Err(UseError::NotReady));
    lone.with_modern(json!({}));
    lone.pipe.engine().roots_changed(lone.now).expect("ready");
    lone.still();
}

// covers: ELIC-025, ELIC-027, ELIC-028, ELIC-030
#[test]
fn the_user_is_done_at_pages_that_were_asked_for_and_nowhere_else() {
    each_cut(|cut| {
        let mut lone = lone(NEWEST, &ALL, cut);
        let done = |lone: &mut LoneClient, id: &str| {
            lone.tell(&note("notifications/elicitation/complete", json!({"elicitationId": id})));
        };
        let unknown = |lone: &mut LoneClient, id: &str| {
            done(lone, id);
            assert!(matches!(lone.diagnostic(), Diagnostic::UnwantedNews(_)), "{id}");
            lone.still();
        };
        unknown(&mut lone, "e1");
        let input = asks(&mut lone, "u", "elicitation/create", page(&json!({})));
        lone.answer(input.id, &json!({"action": "accept"}));
        lone.reply();
        unknown(&mut lone, "e2");
        done(&mut lone, "e1");
        assert!(matches!(lone.event(), client::Event::ElicitationComplete(id) if id == "e1"));
        unknown(&mut lone, "e1");
        // A call that is refused for want of a visit names the pages too.
        let (call, sent) = lone.calls("tools/call", &json!({"name": "x"}), &CallOptions::new());
        let data = json!({"elicitations": [page(&json!({"elicitationId": "e3"}))]});
        lone.tell(&json!({"jsonrpc": "2.0", "id": sent["id"],
            "error": {"code": -32042, "message": "first", "data": data}}));
        let Err(CallError::Rpc(refusal)) = lone.done(call) else { panic!("a refusal") };
        assert_eq!(refusal.as_url_elicitation_required().expect("pages").elicitations.len(), 1);
        done(&mut lone, "e3");
        assert!(matches!(lone.event(), client::Event::ElicitationComplete(id) if id == "e3"));
        lone.tell(&note("notifications/elicitation/complete", json!({"elicitationId": 1})));
        assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)));
        // Whoever sends people to page after page has the first ones forgotten.
        for n in 0..100 {
            let input =
                asks(&mut lone, "u", "elicitation/create", page(&json!({"elicitationId": n.to_string()})));
            lone.answer(input.id, &json!({"action": "decline"}));
            lone.reply();
        }
        unknown(&mut lone, "35");
        done(&mut lone, "36");
        assert!(matches!(lone.event(), client::Event::ElicitationComplete(id) if id == "36"));
        lone.works();
        lone.transcript
    });
}

// covers: ELIC-012, ELIC-017
#[test]
fn a_form_that_is_not_quite_right_is_shown_and_one_that_cannot_be_shown_is_not() {
    let mut lone = lone(NEWEST, &ALL, Chunker::Whole);
    let form = |field: Value| json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"a": field}, "required": ["b"]}});
    for field in [
        json!({"type": "string", "format": "email", "default": ""}),
        json!({"type": "string", "enum": ["x", "x"]}),
        json!({"type": "integer", "minimum": 2, "maximum": 1}),
    ] {
        let input = asks(&mut lone, "f", "elicitation/create", form(field));
        lone.answer(input.id, &json!({"action": "decline"}));
        lone.reply();
    }
    let nested = form(json!({"type": "object", "properties": {}}));
    let why = refuses(&mut lone, "elicitation/create", &nested, -32602);
    assert_eq!(why, "`requestedSchema.properties.a`: is of a kind that no form has");
    lone.works();
}
