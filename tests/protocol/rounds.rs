//! Modern calls that are answered with what the server needs first, on the client's side: told, gathered, sent again.

use mcp_proto::client::{self, Event, Input};
use mcp_proto::model::{CreateMessageResult, ElicitResult, InputRequest, ListRootsResult, Root};
use mcp_proto::{
    CallError, CallKey, CallOptions, Capabilities, Capability, Diagnostic, Limits, RpcError, UseError,
    VersionSet,
};
use mcp_tests::harness::build::{error, legacy, note, raw, result};
use mcp_tests::harness::{Chunker, LoneClient, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs};

const ALL: [Capability; 4] =
    [Capability::Elicitation, Capability::ElicitationUrl, Capability::Sampling, Capability::Roots];

fn config(declared: &[Capability]) -> client::Config {
    client(VersionSet::ALL)
        .capabilities(declared.iter().copied().fold(Capabilities::new(), Capabilities::with))
}

fn ready(config: client::Config, cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(config, cut);
    lone.with_modern(json!({"tools": {}, "prompts": {}, "resources": {}, "logging": {}}));
    lone
}

fn lone(cut: Chunker) -> LoneClient {
    ready(config(&ALL), cut)
}

fn bounded(change: impl FnOnce(&mut Limits)) -> LoneClient {
    ready(config(&ALL).limits(limits(change)), Chunker::Whole)
}

fn call(lone: &mut LoneClient) -> (CallKey, Value) {
    lone.calls("tools/call", &json!({"name": "book", "arguments": {"boat": "Aline"}}), &CallOptions::new())
}

fn form() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}})
}

fn roots() -> Value {
    json!({"method": "roots/list"})
}

fn needs(request: &Value, members: &Value) -> Value {
    let mut answer = result(request, json!({"resultType": "input_required"}));
    for (name, value) in members.as_object().expect("members") {
        answer["result"][name] = value.clone();
    }
    answer
}

fn done(request: &Value) -> Value {
    result(request, json!({"resultType": "complete", "content": []}))
}

/// The parameters without metadata
fn sent_params(request: &Value) -> Value {
    let mut params = request["params"].clone();
    params.as_object_mut().expect("parameters").remove("_meta");
    params
}

/// A call that waits for the answer to a form
fn asking(lone: &mut LoneClient) -> (CallKey, Value, Input) {
    let (key, request) = call(lone);
    lone.tell(&needs(&request, &json!({"inputRequests": {"who": form()}, "requestState": "s1"})));
    let input = lone.input();
    assert_eq!(input.call, Some(key));
    lone.still();
    (key, request, input)
}

fn accept() -> Value {
    json!({"action": "accept", "content": {"name": "Mara"}})
}

// covers: MRTR-002, MRTR-004, MRTR-006, MRTR-008, MRTR-012, MRTR-014, MRTR-015, MRTR-016, MRTR-018, MRTR-019
// covers: ELIC-002, ELIC-007, SAMP-003, ROOT-003, MRTR-010, MRTR-011, MRTR-026
#[test]
fn a_call_is_repeated_with_what_the_server_needs_and_keeps_its_key() {
    for method in ["tools/call", "prompts/get", "resources/read"] {
        each_cut(|cut| {
            let mut lone = lone(cut);
            let params = json!({"name": "book", "uri": "log://1", "arguments": {"a": "b"}});
            let options = CallOptions::new().with_meta(raw(&json!({"traceparent": "00-1"})));
            let (key, first) = lone.calls(method, &params, &options);
            let model = json!({"messages": [], "maxTokens": 30});
            let requests = json!({
                "who": form(), "dirs": roots(),
                "no\"te": {"method": "sampling/createMessage", "params": model},
            });
            // An odd spelling of the state, to be sent back just so.
            lone.feed(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":"v1.\u0041b=\/","inputRequests":{requests}}}}}"#,
                first["id"]
            ));
            let inputs: Vec<Input> = (0..3).map(|_| lone.input()).collect();
            for input in &inputs {
                assert_eq!(input.call, Some(key));
                lone.still();
                let (now, engine) = (lone.now, lone.pipe.engine());
                match &*input.request {
                    InputRequest::Elicit(_) => {
                        engine.answer(now, input.id, &ElicitResult::accept([("name", "Mara".into())]))
                    }
                    InputRequest::CreateMessage(_) => {
                        let said = CreateMessageResult::new("assistant", "Fair winds!", "m");
                        engine.answer(now, input.id, &said)
                    }
                    _ => engine.answer(
                        now,
                        input.id,
                        &ListRootsResult::new(vec![Root::new("file:///home/mara")]),
                    ),
                }
                .expect("open");
            }
            let second = lone.asked(method);
            assert_ne!(second["id"], first["id"]);
            let mut want = params.clone();
            want["requestState"] = json!("v1.Ab=/");
            want["inputResponses"] = json!({
                "who": {"action": "accept", "content": {"name": "Mara"}},
                "dirs": {"roots": [{"uri": "file:///home/mara"}]},
                "no\"te": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Fair winds!"}},
            });
            assert_eq!(sent_params(&second), want);
            assert_eq!(second["params"]["_meta"], first["params"]["_meta"]);
            let declared = &second["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            let can = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
            assert_eq!(declared, &can);
            assert!(lone.transcript.sent.last().is_some_and(|line| !line.contains("resultType")));
            // A second round without a state: it must not come back.
            lone.tell(&needs(&second, &json!({"inputRequests": {"again": roots()}})));
            let input = lone.input();
            lone.answer(input.id, &json!({"roots": []}));
            let third = lone.asked(method);
            let mut want = params.clone();
            want["inputResponses"] = json!({"again": {"roots": []}});
            assert_eq!(sent_params(&third), want);
            lone.tell(&done(&third));
            assert_eq!(lone.done(key).expect("a result").member("content").expect("content").as_str(), "[]");
            lone.works();
            lone.transcript
        });
    }
}

// covers: MRTR-011, MRTR-014
#[test]
fn the_state_goes_back_as_the_very_text_that_came() {
    let mut lone = lone(Chunker::Whole);
    let (_, first) = call(&mut lone);
    lone.blocked = true;
    lone.feed(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":"\u0041\/é\ud83d\ude00"}}}}"#,
        first["id"]
    ));
    let wire = String::from_utf8(mcp_proto::pipe::Pipe::transmit(&lone.pipe).to_vec()).expect("UTF-8");
    assert!(wire.contains(r#""requestState":"\u0041\/é\ud83d\ude00""#), "{wire}");
    assert!(!wire.contains("inputResponses"), "{wire}");
}

// covers: MRTR-003, MRTR-017
#[test]
fn elsewhere_such_a_result_is_none() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (other, waits) = call(&mut lone);
        for method in ["tools/list", "custom/x", "server/discover", "resources/list"] {
            let (key, request) = lone.calls(method, &json!({}), &CallOptions::new());
            lone.tell(&needs(&request, &json!({"requestState": "x", "inputRequests": {"a": form()}})));
            assert!(matches!(lone.done(key), Err(CallError::ResultType(_))), "{method}");
            lone.still();
        }
        lone.tell(&done(&waits));
        assert!(lone.done(other).is_ok());
        lone.transcript
    });
}

// covers: MRTR-005, MRTR-007, MRTR-008, MRTR-010
#[test]
fn a_need_that_makes_no_sense_ends_the_call() {
    let nothing = json!({"method": "elicitation/create"});
    let many: serde_json::Map<_, _> = (0..10_000).map(|i| (format!("k{i}"), roots())).collect();
    let schema = json!({"type": "object", "properties": {"a": {"type": "object"}}});
    let nested =
        json!({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}});
    for members in [
        json!({}),
        json!({"inputRequests": {}}),
        json!({"inputRequests": null}),
        json!({"inputRequests": null, "requestState": "s"}),
        json!({"inputRequests": [form()]}),
        json!({"inputRequests": "who"}),
        json!({"inputRequests": {"a": null}}),
        json!({"inputRequests": {"a": []}}),
        json!({"inputRequests": {"a": {"params": {}}}}),
        json!({"inputRequests": {"a": {"method": "tools/list"}}}),
        json!({"inputRequests": {"a": {"method": "ping"}}}),
        json!({"inputRequests": {"a": nothing}}),
        json!({"inputRequests": {"a": nested}}),
        json!({"inputRequests": {"a": form(), "b": {"method": 7}}}),
        json!({"inputRequests": many}),
        json!({"requestState": 7}),
        json!({"requestState": null}),
        json!({"requestState": {"a": 1}, "inputRequests": {"a": form()}}),
    ] {
        let mut lone = lone(Chunker::Whole);
        let (key, request) = call(&mut lone);
        lone.tell(&needs(&request, &members));
        let outcome = lone.done(key);
        assert!(matches!(outcome, Err(CallError::BadInputRequest { .. })), "{outcome:?} to {members}");
        lone.still();
        lone.works();
    }
    let mut lone = lone(Chunker::Whole);
    let (key, request) = call(&mut lone);
    let twice = format!(r#""inputRequests":{{"a":{},"\u0061":{}}}"#, roots(), roots());
    lone.feed(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required",{twice}}}}}"#,
        request["id"]
    ));
    assert!(matches!(lone.done(key), Err(CallError::BadInputRequest { .. })));
    lone.still();
}

// covers: MRTR-009, ELIC-005, SAMP-009, SAMP-007, ELIC-003
#[test]
fn what_was_not_declared_ends_the_call_before_anybody_is_asked() {
    let sampling = |more: Value| {
        let mut params = json!({"messages": [], "maxTokens": 1});
        for (name, value) in more.as_object().expect("members") {
            params[name] = value.clone();
        }
        json!({"method": "sampling/createMessage", "params": params})
    };
    let page = json!({"mode": "url", "message": "m", "url": "https://x.example/a"});
    let page = json!({"method": "elicitation/create", "params": page});
    let tool = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
    for (declared, ask, lacks) in [
        (&[Capability::Roots, Capability::Sampling][..], form(), Capability::Elicitation),
        (&[Capability::Elicitation], page.clone(), Capability::ElicitationUrl),
        (&[Capability::ElicitationUrl], form(), Capability::ElicitationForm),
        (&[Capability::Elicitation], sampling(json!({})), Capability::Sampling),
        (&[Capability::Sampling], sampling(json!({"tools": tool})), Capability::SamplingTools),
        (&[Capability::Sampling], sampling(json!({"toolChoice": {}})), Capability::SamplingTools),
        (&[Capability::Sampling], roots(), Capability::Roots),
    ] {
        let mut lone = ready(config(declared), Chunker::Whole);
        let (key, request) = call(&mut lone);
        // Nobody is asked for the rest either.
        lone.tell(&needs(&request, &json!({"inputRequests": {"z": ask.clone()}, "requestState": "s"})));
        assert_eq!(lone.done(key), Err(CallError::NotDeclared(lacks)), "{ask}");
        lone.still();
    }
    let mut lone = ready(config(&[Capability::ElicitationUrl]), Chunker::Whole);
    let (_, request) = call(&mut lone);
    lone.tell(&needs(&request, &json!({"inputRequests": {"z": page}})));
    lone.input();
    lone.still();
}

// covers: MRTR-031, SAMP-027, ROOT-007, MRTR-025
#[test]
fn a_refusal_ends_the_call_and_nothing_is_sent() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (key, request) = call(&mut lone);
        lone.tell(&needs(&request, &json!({"inputRequests": {"a": roots(), "b": form(), "c": roots()}})));
        let inputs: Vec<Input> = (0..3).map(|_| lone.input()).collect();
        lone.answer(inputs[0].id, &json!({"roots": []}));
        let no = RpcError::new(-1, "no");
        let now = lone.now;
        lone.pipe.engine().refuse(now, inputs[1].id, &no).expect("open");
        lone.gone(inputs[2].id);
        assert_eq!(lone.done(key), Err(CallError::InputRefused(no.clone())));
        for input in &inputs {
            assert_eq!(lone.pipe.engine().refuse(now, input.id, &no), Err(UseError::Stale));
        }
        lone.still();
        lone.works();
        lone.transcript
    });
}

// covers: MRTR-031, ELIC-018
#[test]
fn to_decline_or_cancel_a_form_is_an_answer() {
    for action in ["decline", "cancel"] {
        let mut lone = lone(Chunker::Whole);
        let (_, _, input) = asking(&mut lone);
        lone.answer(input.id, &json!({"action": action}));
        let again = lone.asked("tools/call");
        assert_eq!(again["params"]["inputResponses"], json!({"who": {"action": action}}));
    }
}

// covers: MRTR-012, MRTR-018, ELIC-018, ROOT-005
#[test]
fn an_answer_is_given_once_and_is_a_bare_object() {
    let mut lone = lone(Chunker::Whole);
    let (_, request) = call(&mut lone);
    lone.tell(&needs(&request, &json!({"inputRequests": {"a": form(), "b": roots()}})));
    let (a, b) = (lone.input(), lone.input());
    let now = lone.now;
    for wrong in [
        json!(7),
        json!(["a"]),
        json!({}),
        json!({"action": "accept", "resultType": "complete"}),
        json!({"action": "dance"}),
        json!({"action": "decline", "content": {"a": 1}}),
        json!({"roots": []}),
    ] {
        assert!(lone.pipe.engine().answer(now, a.id, &wrong).is_err(), "{wrong}");
    }
    for wrong in [accept(), json!({"roots": [{"uri": "https://x.example"}]})] {
        let refused = lone.pipe.engine().answer(now, b.id, &wrong);
        assert!(matches!(refused, Err(UseError::BadAnswer { .. })), "{refused:?}");
    }
    lone.still();
    lone.answer(a.id, &accept());
    assert_eq!(lone.pipe.engine().answer(now, a.id, &accept()), Err(UseError::Stale));
    lone.still();
    lone.answer(b.id, &json!({"roots": []}));
    let again = lone.asked("tools/call");
    assert_eq!(again["params"]["inputResponses"], json!({"a": accept(), "b": {"roots": []}}));
    assert_eq!(lone.pipe.engine().answer(now, b.id, &accept()), Err(UseError::Stale));
    // Keys are not used again: the next input has one of its own.
    lone.tell(&needs(&again, &json!({"inputRequests": {"a": form()}})));
    let next = lone.input();
    assert!(next.id != a.id && next.id != b.id);
    assert_eq!(lone.pipe.engine().answer(now, b.id, &accept()), Err(UseError::Stale));
    lone.silent();
}

// covers: MRTR-013, MRTR-026
#[test]
fn a_state_alone_is_sent_back_at_once_and_then_ever_later() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (key, mut request) = call(&mut lone);
        for (i, pause) in [0, 250, 500, 1_000, 2_000].into_iter().enumerate() {
            lone.tell(&needs(&request, &json!({"requestState": format!("s{i}")})));
            if pause > 0 {
                lone.still();
                lone.pass(ms(pause - 1));
                lone.still();
                lone.pass(ms(1));
            }
            request = lone.asked("tools/call");
            let want =
                json!({"name": "book", "arguments": {"boat": "Aline"}, "requestState": format!("s{i}")});
            assert_eq!(sent_params(&request), want);
        }
        // What needs an answer begins anew.
        lone.tell(&needs(&request, &json!({"requestState": "t", "inputRequests": {"a": roots()}})));
        let input = lone.input();
        lone.answer(input.id, &json!({"roots": []}));
        request = lone.asked("tools/call");
        lone.tell(&needs(&request, &json!({"requestState": "u", "inputRequests": {}})));
        request = lone.asked("tools/call");
        assert!(request["params"].get("inputResponses").is_none());
        lone.tell(&done(&request));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

// covers: MRTR-026
#[test]
fn a_server_that_asks_for_ever_is_not_answered_for_ever() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (key, mut request) = call(&mut lone);
        for i in 0..10 {
            lone.tell(&needs(&request, &json!({"inputRequests": {"again": roots()}})));
            let input = lone.input();
            assert_eq!(input.call, Some(key), "round {i}");
            lone.answer(input.id, &json!({"roots": []}));
            request = lone.asked("tools/call");
        }
        lone.tell(&needs(&request, &json!({"inputRequests": {"again": roots()}})));
        assert_eq!(lone.done(key), Err(CallError::TooManyRounds { limit: 10 }));
        lone.still();
        lone.works();
        lone.transcript
    });
    let mut lone = bounded(|l| l.max_input_rounds = 0);
    let (key, request) = call(&mut lone);
    lone.tell(&needs(&request, &json!({"requestState": "s"})));
    assert_eq!(lone.done(key), Err(CallError::TooManyRounds { limit: 0 }));
    lone.still();
}

// covers: CANC-002, CANC-004, CANC-016, CANC-012
#[test]
fn a_call_can_be_cancelled_in_every_phase() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let cancel = |lone: &mut LoneClient, key| {
            lone.pipe.engine().cancel(lone.now, key, Some("enough")).expect("open");
        };
        // While something is asked, the server has nothing that could be cancelled.
        let (key, request, input) = asking(&mut lone);
        cancel(&mut lone, key);
        lone.gone(input.id);
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
        lone.still();
        assert_eq!(lone.pipe.engine().cancel(lone.now, key, None), Err(UseError::Stale));
        lone.tell(&done(&request));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        // Once it is out again, it is known by its new id.
        let (key, _, input) = asking(&mut lone);
        lone.answer(input.id, &accept());
        let again = lone.asked("tools/call");
        cancel(&mut lone, key);
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
        assert_eq!(
            lone.reply(),
            note("notifications/cancelled", json!({"requestId": again["id"], "reason": "enough"}))
        );
        lone.tell(&needs(&again, &json!({"inputRequests": {"a": form()}})));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        // And while it waits to be sent again.
        let (key, request) = call(&mut lone);
        lone.tell(&needs(&request, &json!({"requestState": "a"})));
        let again = lone.asked("tools/call");
        lone.tell(&needs(&again, &json!({"requestState": "b"})));
        cancel(&mut lone, key);
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
        lone.pass(secs(1_000));
        lone.still();
        lone.works();
        lone.transcript
    });
}

// covers: TIME-001, TIME-003, TIME-006
#[test]
fn time_stands_still_while_the_application_owes_an_answer() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (key, _, input) = asking(&mut lone);
        // Beyond the call's 60 s, and beyond its 10 min.
        lone.pass(secs(3_000));
        lone.still();
        lone.answer(input.id, &accept());
        let again = lone.asked("tools/call");
        lone.pass(secs(59));
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.done(key), Err(CallError::TimedOut));
        let told = lone.reply();
        assert_eq!(
            (&told["method"], &told["params"]["requestId"]),
            (&json!("notifications/cancelled"), &again["id"])
        );
        lone.works();
        lone.transcript
    });
}

// covers: TIME-006
#[test]
fn an_input_is_gone_after_an_hour_and_the_call_with_it() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (key, _, input) = asking(&mut lone);
        lone.pass(secs(3_599));
        lone.still();
        lone.pass(secs(1));
        lone.gone(input.id);
        assert_eq!(lone.done(key), Err(CallError::InputTimedOut));
        lone.still();
        lone.works();
        lone.transcript
    });
}

// covers: TIME-004, TIME-006
#[test]
fn a_total_that_was_set_for_the_call_counts_all_of_its_time() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let options = CallOptions::new().total(secs(100));
        let (key, request) = lone.calls("tools/call", &json!({"name": "book"}), &options);
        lone.tell(&needs(&request, &json!({"inputRequests": {"who": form()}})));
        let input = lone.input();
        lone.pass(secs(99));
        lone.still();
        lone.pass(secs(1));
        lone.gone(input.id);
        assert_eq!(lone.done(key), Err(CallError::TotalTimedOut));
        lone.still();
        // The same when it is over in a later round.
        let (key, request) = lone.calls("tools/call", &json!({"name": "book"}), &options);
        lone.pass(secs(50));
        lone.tell(&needs(&request, &json!({"requestState": "s"})));
        let again = lone.asked("tools/call");
        lone.pass(secs(49));
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.done(key), Err(CallError::TotalTimedOut));
        assert_eq!(lone.reply()["params"]["requestId"], again["id"]);
        lone.transcript
    });
    // What is left of the default after an hour of waiting is what was left before.
    let mut lone = bounded(|l| (l.call_timeout, l.call_total) = (secs(1_000), secs(600)));
    let (key, request) = call(&mut lone);
    lone.pass(secs(500));
    lone.tell(&needs(&request, &json!({"inputRequests": {"who": form()}})));
    let input = lone.input();
    lone.pass(secs(3_000));
    lone.answer(input.id, &accept());
    lone.asked("tools/call");
    lone.pass(secs(99));
    lone.still();
    lone.pass(secs(1));
    assert_eq!(lone.done(key), Err(CallError::TotalTimedOut));
}

// covers: PROG-004, PROG-006, PROG-007, MRTR-019
#[test]
fn progress_of_any_round_is_the_calls() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let news = |token: &Value, progress: f64| {
            note("notifications/progress", json!({"progressToken": token, "progress": progress}))
        };
        let options = CallOptions::new().with_progress();
        let (key, first) = lone.calls("tools/call", &json!({"name": "book"}), &options);
        lone.tell(&news(&first["id"], 2.0));
        assert_eq!(lone.progress(key).progress.to_bits(), 2f64.to_bits());
        lone.tell(&needs(&first, &json!({"inputRequests": {"a": roots()}})));
        let input = lone.input();
        lone.tell(&news(&first["id"], 3.0));
        assert_eq!(lone.diagnostic(), Diagnostic::UnknownProgress);
        lone.answer(input.id, &json!({"roots": []}));
        let second = lone.asked("tools/call");
        let token = &second["params"]["_meta"]["progressToken"];
        assert_eq!((token, token == &first["id"]), (&second["id"], false));
        // It begins anew there, and goes on here.
        lone.tell(&news(token, 1.0));
        lone.tell(&news(token, 2.0));
        lone.still();
        lone.pass(secs(59));
        lone.tell(&news(token, 2.5));
        assert_eq!(lone.progress(key).progress.to_bits(), 2.5f64.to_bits());
        lone.pass(secs(59));
        lone.still();
        lone.tell(&done(&second));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

// covers: MRTR-016, CANC-013
#[test]
fn what_comes_for_a_round_that_is_over_is_late() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (key, first, input) = asking(&mut lone);
        for late in [
            done(&first),
            needs(&first, &json!({"inputRequests": {"b": form()}})),
            error(&first, -32603, "late", Value::Null),
        ] {
            lone.tell(&late);
            assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
            lone.still();
        }
        lone.answer(input.id, &accept());
        let second = lone.asked("tools/call");
        lone.tell(&done(&first));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        lone.tell(&error(&second, -32602, "expired", Value::Null));
        assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32602));
        lone.still();
        lone.transcript
    });
}

// covers: STDIO-028, MRTR-025
#[test]
fn the_end_of_the_connection_ends_every_phase() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let (asks, _, open) = asking(&mut lone);
        let (out, _, input) = asking(&mut lone);
        lone.answer(input.id, &accept());
        lone.asked("tools/call");
        lone.eof();
        let mut ended = Vec::new();
        let mut gone = Vec::new();
        loop {
            match lone.event() {
                Event::Done { call, outcome: Err(CallError::Closed(_)), .. } => ended.push(call),
                Event::InputGone(id) => gone.push(id),
                Event::Closed(_) => break,
                other => panic!("{other:?}"),
            }
        }
        ended.sort_unstable();
        let mut want = vec![asks, out];
        want.sort_unstable();
        assert_eq!((ended, gone), (want, vec![open.id]));
        assert_eq!(lone.pipe.engine().answer(lone.now, open.id, &accept()), Err(UseError::Stale));
        lone.still();
        lone.transcript
    });
}

// covers: BASE-020, ROOT-003, SAMP-003
#[test]
fn a_request_of_a_modern_server_is_none() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.tell(&legacy("s1", "roots/list", Value::Null));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnexpectedRequest { .. }));
        lone.still();
        lone.transcript
    });
}

#[test]
fn what_is_kept_is_bounded() {
    let mut lone = bounded(|l| l.max_kept_bytes = 1_000);
    let long = json!({"name": "x".repeat(2_000)});
    let (key, request) = lone.calls("tools/call", &long, &CallOptions::new());
    let refused = lone.cannot_call("tools/call", &json!({"name": "y"}), &CallOptions::new());
    assert_eq!(refused, UseError::Full("max_kept_bytes"));
    lone.tell(&done(&request));
    assert!(lone.done(key).is_ok());
    // It counts no more once it is over, however it ends.
    let (key, request) = call(&mut lone);
    lone.tell(&needs(&request, &json!({"requestState": "s".repeat(1_200)})));
    assert!(matches!(lone.done(key), Err(CallError::BadInputRequest { .. })));
    for state in [900, 800, 900] {
        let (key, request) = call(&mut lone);
        lone.tell(&needs(
            &request,
            &json!({"requestState": "s".repeat(state), "inputRequests": {"a": roots()}}),
        ));
        let input = lone.input();
        lone.pipe.engine().cancel(lone.now, key, None).expect("open");
        lone.gone(input.id);
        assert!(lone.done(key).is_err());
    }
    lone.works();
    // Calls that are in some round are calls: they take places, and give them back.
    let mut lone = bounded(|l| l.max_pending_calls = 2);
    let (first, _, a) = asking(&mut lone);
    lone.answer(a.id, &accept());
    let again = lone.asked("tools/call");
    let full = lone.cannot_call("tools/call", &json!({"name": "y"}), &CallOptions::new());
    assert_eq!(full, UseError::Full("max_pending_calls"));
    assert_eq!(lone.pipe.engine().pending_calls(), 1);
    lone.tell(&done(&again));
    assert!(lone.done(first).is_ok());
    lone.works();
}

// covers: LIFE-005, MRTR-014
#[test]
fn a_call_made_before_the_server_was_known_is_repeated_too() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(config(&ALL), cut);
        let probe = lone.asked("server/discover");
        let options = CallOptions::new().with_progress().with_meta(raw(&json!({"baggage": "a=b\nc"})));
        let now = lone.now;
        let key =
            lone.pipe.engine().call(now, "tools/call", &json!({"name": "book"}), &options).expect("queued");
        let discovery = mcp_tests::harness::build::discovery(&["2026-07-28"], json!({"tools": {}}));
        lone.tell(&result(&probe, discovery));
        lone.ready();
        let first = lone.asked("tools/call");
        lone.tell(&needs(&first, &json!({"inputRequests": {"a": roots()}, "requestState": "s"})));
        let input = lone.input();
        lone.answer(input.id, &json!({"roots": []}));
        let second = lone.asked("tools/call");
        let want = json!({"name": "book", "inputResponses": {"a": {"roots": []}}, "requestState": "s"});
        assert_eq!(sent_params(&second), want);
        assert_eq!(second["params"]["_meta"]["baggage"], "a=b\nc");
        assert_eq!(second["params"]["_meta"]["progressToken"], second["id"]);
        lone.tell(&done(&second));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}
