//! Rounds of modern calls at the client: `input_required` results, input responses, and the retry.

use mcp_proto::client::{self, Event, Input};
use mcp_proto::model::{CreateMessageResult, ElicitResult, InputRequest, ListRootsResult, Root};
use mcp_proto::{
    CallError, CallKey, CallOptions, Capabilities, Capability, Diagnostic, Limit, Limits, RpcError, UseError,
    VersionSet,
};
use mcp_tests::harness::build::{error_response, legacy_request, notification, raw, result_response};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs};

#[expect(deprecated, reason = "tested until its removal")]
const ALL: [Capability; 4] =
    [Capability::Elicitation, Capability::ElicitationUrl, Capability::Sampling, Capability::Roots];

fn config(declared: &[Capability]) -> client::Config {
    client(VersionSet::ALL)
        .capabilities(declared.iter().copied().fold(Capabilities::new(), Capabilities::with))
}

fn ready_harness(config: client::Config, cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(config, cut);
    harness.become_modern(json!({"tools": {}, "prompts": {}, "resources": {}, "logging": {}}));
    harness
}

fn modern_harness(cut: Chunker) -> ClientHarness {
    ready_harness(config(&ALL), cut)
}

fn harness_with_limits(change: impl FnOnce(&mut Limits)) -> ClientHarness {
    ready_harness(config(&ALL).limits(limits(change)), Chunker::Whole)
}

fn start_call(harness: &mut ClientHarness) -> (CallKey, Value) {
    harness.start_call(
        "tools/call",
        &json!({"name": "book", "arguments": {"boat": "Aline"}}),
        &CallOptions::new(),
    )
}

fn form_request() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}})
}

fn roots_request() -> Value {
    json!({"method": "roots/list"})
}

fn input_required(request: &Value, members: &Value) -> Value {
    let mut answer = result_response(request, json!({"resultType": "input_required"}));
    for (name, value) in members.as_object().expect("members") {
        answer["result"][name] = value.clone();
    }
    answer
}

fn complete_result(request: &Value) -> Value {
    result_response(request, json!({"resultType": "complete", "content": []}))
}

/// Returns the parameters of a request without metadata.
fn sent_params(request: &Value) -> Value {
    let mut params = request["params"].clone();
    params.as_object_mut().expect("parameters").remove("_meta");
    params
}

/// Starts a call that waits for the response to a form.
fn call_needing_input(harness: &mut ClientHarness) -> (CallKey, Value, Input) {
    let (key, request) = start_call(harness);
    harness.feed_message(&input_required(
        &request,
        &json!({"inputRequests": {"who": form_request()}, "requestState": "s1"}),
    ));
    let input = harness.expect_input();
    assert_eq!(input.call, Some(key));
    harness.assert_idle();
    (key, request, input)
}

fn accepted_form() -> Value {
    json!({"action": "accept", "content": {"name": "Mara"}})
}

// covers: MRTR-002, MRTR-004, MRTR-006, MRTR-008, MRTR-012, MRTR-014, MRTR-015, MRTR-016, MRTR-018, MRTR-019
// covers: ELIC-002, ELIC-007, SAMP-003, ROOT-003, MRTR-010, MRTR-011, MRTR-026
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn call_is_retried_with_input_responses_and_keeps_its_key() {
    for method in ["tools/call", "prompts/get", "resources/read"] {
        for_each_chunker(|cut| {
            let mut harness = modern_harness(cut);
            let params = json!({"name": "book", "uri": "log://1", "arguments": {"a": "b"}});
            let options = CallOptions::new().with_meta(raw(&json!({"traceparent": "00-1"})));
            let (key, first) = harness.start_call(method, &params, &options);
            let model = json!({"messages": [], "maxTokens": 30});
            let requests = json!({
                "who": form_request(), "dirs": roots_request(),
                "no\"te": {"method": "sampling/createMessage", "params": model},
            });
            // An unusual spelling of the state, to be sent back unchanged.
            harness.feed(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":"v1.\u0041b=\/","inputRequests":{requests}}}}}"#,
                first["id"]
            ));
            let inputs: Vec<Input> = (0..3).map(|_| harness.expect_input()).collect();
            for input in &inputs {
                assert_eq!(input.call, Some(key));
                harness.assert_idle();
                let (now, engine) = (harness.now, harness.pipe.engine());
                match &*input.request {
                    InputRequest::Elicit(_) => {
                        engine.answer(now, input.id, &ElicitResult::accept([("name", "Mara".into())]))
                    }
                    InputRequest::CreateMessage(_) => {
                        let result = CreateMessageResult::new("assistant", "Fair winds!", "m");
                        engine.answer(now, input.id, &result)
                    }
                    _ => engine.answer(
                        now,
                        input.id,
                        &ListRootsResult::new(vec![Root::new("file:///home/mara")]),
                    ),
                }
                .expect("open");
            }
            let second = harness.expect_request(method);
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
            let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
            assert_eq!(declared, &capabilities);
            assert!(harness.transcript.sent.last().is_some_and(|line| !line.contains("resultType")));
            // The second round has no state: the first one must not be sent again.
            harness.feed_message(&input_required(
                &second,
                &json!({"inputRequests": {"again": roots_request()}}),
            ));
            let input = harness.expect_input();
            harness.answer(input.id, &json!({"roots": []}));
            let third = harness.expect_request(method);
            let mut want = params.clone();
            want["inputResponses"] = json!({"again": {"roots": []}});
            assert_eq!(sent_params(&third), want);
            harness.feed_message(&complete_result(&third));
            assert_eq!(
                harness.expect_done(key).expect("a result").member("content").expect("content").as_str(),
                "[]"
            );
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: MRTR-011, MRTR-014
#[test]
fn request_state_is_sent_back_verbatim() {
    let mut harness = modern_harness(Chunker::Whole);
    let (_, first) = start_call(&mut harness);
    harness.is_blocked = true;
    harness.feed(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":"\u0041\/é\ud83d\ude00"}}}}"#,
        first["id"]
    ));
    let wire = String::from_utf8(mcp_proto::pipe::Pipe::transmit(&harness.pipe).to_vec()).expect("UTF-8");
    assert!(wire.contains(r#""requestState":"\u0041\/é\ud83d\ude00""#), "{wire}");
    assert!(!wire.contains("inputResponses"), "{wire}");
}

// covers: MRTR-003, MRTR-017
#[test]
fn input_required_for_other_methods_fails_the_call() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (other, waits) = start_call(&mut harness);
        for method in ["tools/list", "custom/x", "server/discover", "resources/list"] {
            let (key, request) = harness.start_call(method, &json!({}), &CallOptions::new());
            harness.feed_message(&input_required(
                &request,
                &json!({"requestState": "x", "inputRequests": {"a": form_request()}}),
            ));
            assert!(matches!(harness.expect_done(key), Err(CallError::UnknownResultType(_))), "{method}");
            harness.assert_idle();
        }
        harness.feed_message(&complete_result(&waits));
        assert!(harness.expect_done(other).is_ok());
        harness.transcript
    });
}

// covers: MRTR-005, MRTR-007, MRTR-008, MRTR-010
#[test]
fn malformed_input_required_fails_the_call() {
    let nothing = json!({"method": "elicitation/create"});
    let many: serde_json::Map<_, _> = (0..10_000).map(|i| (format!("k{i}"), roots_request())).collect();
    let schema = json!({"type": "object", "properties": {"a": {"type": "object"}}});
    let nested =
        json!({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}});
    for members in [
        json!({}),
        json!({"inputRequests": {}}),
        json!({"inputRequests": null}),
        json!({"inputRequests": null, "requestState": "s"}),
        json!({"inputRequests": [form_request()]}),
        json!({"inputRequests": "who"}),
        json!({"inputRequests": {"a": null}}),
        json!({"inputRequests": {"a": []}}),
        json!({"inputRequests": {"a": {"params": {}}}}),
        json!({"inputRequests": {"a": {"method": "tools/list"}}}),
        json!({"inputRequests": {"a": {"method": "ping"}}}),
        json!({"inputRequests": {"a": nothing}}),
        json!({"inputRequests": {"a": nested}}),
        json!({"inputRequests": {"a": form_request(), "b": {"method": 7}}}),
        json!({"inputRequests": many}),
        json!({"requestState": 7}),
        json!({"requestState": null}),
        json!({"requestState": {"a": 1}, "inputRequests": {"a": form_request()}}),
    ] {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = start_call(&mut harness);
        harness.feed_message(&input_required(&request, &members));
        let outcome = harness.expect_done(key);
        assert!(matches!(outcome, Err(CallError::InvalidInputRequest { .. })), "{outcome:?} to {members}");
        harness.assert_idle();
        harness.assert_works();
    }
    let mut harness = modern_harness(Chunker::Whole);
    let (key, request) = start_call(&mut harness);
    let twice = format!(r#""inputRequests":{{"a":{},"\u0061":{}}}"#, roots_request(), roots_request());
    harness.feed(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required",{twice}}}}}"#,
        request["id"]
    ));
    assert!(matches!(harness.expect_done(key), Err(CallError::InvalidInputRequest { .. })));
    harness.assert_idle();
}

// covers: MRTR-009, ELIC-005, SAMP-009, SAMP-007, ELIC-003
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn undeclared_input_request_fails_the_call_without_event() {
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
        (&[Capability::Roots, Capability::Sampling][..], form_request(), Capability::Elicitation),
        (&[Capability::Elicitation], page.clone(), Capability::ElicitationUrl),
        (&[Capability::ElicitationUrl], form_request(), Capability::ElicitationForm),
        (&[Capability::Elicitation], sampling(json!({})), Capability::Sampling),
        (&[Capability::Sampling], sampling(json!({"tools": tool})), Capability::SamplingTools),
        (&[Capability::Sampling], sampling(json!({"toolChoice": {}})), Capability::SamplingTools),
        (&[Capability::Sampling], roots_request(), Capability::Roots),
    ] {
        let mut harness = ready_harness(config(declared), Chunker::Whole);
        let (key, request) = start_call(&mut harness);
        // The other input requests of the round raise no event either.
        harness.feed_message(&input_required(
            &request,
            &json!({"inputRequests": {"z": ask.clone()}, "requestState": "s"}),
        ));
        assert_eq!(harness.expect_done(key), Err(CallError::NotDeclared(lacks)), "{ask}");
        harness.assert_idle();
    }
    let mut harness = ready_harness(config(&[Capability::ElicitationUrl]), Chunker::Whole);
    let (_, request) = start_call(&mut harness);
    harness.feed_message(&input_required(&request, &json!({"inputRequests": {"z": page}})));
    harness.expect_input();
    harness.assert_idle();
}

// covers: MRTR-031, SAMP-027, ROOT-007, MRTR-025
#[test]
fn refused_input_fails_the_call_without_retry() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, request) = start_call(&mut harness);
        harness.feed_message(&input_required(
            &request,
            &json!({"inputRequests": {"a": roots_request(), "b": form_request(), "c": roots_request()}}),
        ));
        let inputs: Vec<Input> = (0..3).map(|_| harness.expect_input()).collect();
        harness.answer(inputs[0].id, &json!({"roots": []}));
        let no = RpcError::new(-1, "no");
        let now = harness.now;
        harness.pipe.engine().refuse(now, inputs[1].id, &no).expect("open");
        harness.expect_input_withdrawn(inputs[2].id);
        assert_eq!(harness.expect_done(key), Err(CallError::InputRefused(no.clone())));
        for input in &inputs {
            assert_eq!(harness.pipe.engine().refuse(now, input.id, &no), Err(UseError::Stale));
        }
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: MRTR-031, ELIC-018
#[test]
fn declined_or_cancelled_form_is_sent_as_a_response() {
    for action in ["decline", "cancel"] {
        let mut harness = modern_harness(Chunker::Whole);
        let (_, _, input) = call_needing_input(&mut harness);
        harness.answer(input.id, &json!({"action": action}));
        let again = harness.expect_request("tools/call");
        assert_eq!(again["params"]["inputResponses"], json!({"who": {"action": action}}));
    }
}

// covers: MRTR-012, MRTR-018, ELIC-018, ROOT-005
#[test]
fn input_is_answered_once_with_a_valid_response() {
    let mut harness = modern_harness(Chunker::Whole);
    let (_, request) = start_call(&mut harness);
    harness.feed_message(&input_required(
        &request,
        &json!({"inputRequests": {"a": form_request(), "b": roots_request()}}),
    ));
    let (a, b) = (harness.expect_input(), harness.expect_input());
    let now = harness.now;
    for wrong in [
        json!(7),
        json!(["a"]),
        json!({}),
        json!({"action": "accept", "resultType": "complete"}),
        json!({"action": "dance"}),
        json!({"action": "decline", "content": {"a": 1}}),
        json!({"roots": []}),
    ] {
        assert!(harness.pipe.engine().answer(now, a.id, &wrong).is_err(), "{wrong}");
    }
    for wrong in [accepted_form(), json!({"roots": [{"uri": "https://x.example"}]})] {
        let refused = harness.pipe.engine().answer(now, b.id, &wrong);
        assert!(matches!(refused, Err(UseError::InvalidInputResponse { .. })), "{refused:?}");
    }
    harness.assert_idle();
    harness.answer(a.id, &accepted_form());
    assert_eq!(harness.pipe.engine().answer(now, a.id, &accepted_form()), Err(UseError::Stale));
    harness.assert_idle();
    harness.answer(b.id, &json!({"roots": []}));
    let again = harness.expect_request("tools/call");
    assert_eq!(again["params"]["inputResponses"], json!({"a": accepted_form(), "b": {"roots": []}}));
    assert_eq!(harness.pipe.engine().answer(now, b.id, &accepted_form()), Err(UseError::Stale));
    // Ids are not reused: the next input has a new one.
    harness.feed_message(&input_required(&again, &json!({"inputRequests": {"a": form_request()}})));
    let next = harness.expect_input();
    assert!(next.id != a.id && next.id != b.id);
    assert_eq!(harness.pipe.engine().answer(now, b.id, &accepted_form()), Err(UseError::Stale));
    harness.assert_nothing_sent();
}

// covers: MRTR-013, MRTR-026
#[test]
fn state_only_rounds_are_retried_with_growing_delay() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, mut request) = start_call(&mut harness);
        for (i, pause) in [0, 250, 500, 1_000, 2_000].into_iter().enumerate() {
            harness.feed_message(&input_required(&request, &json!({"requestState": format!("s{i}")})));
            if pause > 0 {
                harness.assert_idle();
                harness.advance(ms(pause - 1));
                harness.assert_idle();
                harness.advance(ms(1));
            }
            request = harness.expect_request("tools/call");
            let want =
                json!({"name": "book", "arguments": {"boat": "Aline"}, "requestState": format!("s{i}")});
            assert_eq!(sent_params(&request), want);
        }
        // A round with input requests resets the delay.
        harness.feed_message(&input_required(
            &request,
            &json!({"requestState": "t", "inputRequests": {"a": roots_request()}}),
        ));
        let input = harness.expect_input();
        harness.answer(input.id, &json!({"roots": []}));
        request = harness.expect_request("tools/call");
        harness.feed_message(&input_required(&request, &json!({"requestState": "u", "inputRequests": {}})));
        request = harness.expect_request("tools/call");
        assert!(request["params"].get("inputResponses").is_none());
        harness.feed_message(&complete_result(&request));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// covers: MRTR-026
#[test]
fn call_fails_after_max_input_rounds() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, mut request) = start_call(&mut harness);
        for i in 0..10 {
            harness.feed_message(&input_required(
                &request,
                &json!({"inputRequests": {"again": roots_request()}}),
            ));
            let input = harness.expect_input();
            assert_eq!(input.call, Some(key), "round {i}");
            harness.answer(input.id, &json!({"roots": []}));
            request = harness.expect_request("tools/call");
        }
        harness
            .feed_message(&input_required(&request, &json!({"inputRequests": {"again": roots_request()}})));
        assert_eq!(harness.expect_done(key), Err(CallError::TooManyRounds { limit: 10 }));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
    let mut harness = harness_with_limits(|l| l.max_input_rounds = 0);
    let (key, request) = start_call(&mut harness);
    harness.feed_message(&input_required(&request, &json!({"requestState": "s"})));
    assert_eq!(harness.expect_done(key), Err(CallError::TooManyRounds { limit: 0 }));
    harness.assert_idle();
}

// covers: CANC-002, CANC-004, CANC-016, CANC-012
#[test]
fn call_can_be_cancelled_in_every_phase() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let cancel = |harness: &mut ClientHarness, key| {
            harness.pipe.engine().cancel(harness.now, key, Some("enough")).expect("open");
        };
        // While an input is open, the server has no call to cancel.
        let (key, request, input) = call_needing_input(&mut harness);
        cancel(&mut harness, key);
        harness.expect_input_withdrawn(input.id);
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
        harness.assert_idle();
        assert_eq!(harness.pipe.engine().cancel(harness.now, key, None), Err(UseError::Stale));
        harness.feed_message(&complete_result(&request));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        // After the retry the call has a new request id.
        let (key, _, input) = call_needing_input(&mut harness);
        harness.answer(input.id, &accepted_form());
        let again = harness.expect_request("tools/call");
        cancel(&mut harness, key);
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
        assert_eq!(
            harness.expect_reply(),
            notification("notifications/cancelled", json!({"requestId": again["id"], "reason": "enough"}))
        );
        harness.feed_message(&input_required(&again, &json!({"inputRequests": {"a": form_request()}})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        // The same while the call waits to be retried.
        let (key, request) = start_call(&mut harness);
        harness.feed_message(&input_required(&request, &json!({"requestState": "a"})));
        let again = harness.expect_request("tools/call");
        harness.feed_message(&input_required(&again, &json!({"requestState": "b"})));
        cancel(&mut harness, key);
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
        harness.advance(secs(1_000));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: TIME-001, TIME-003, TIME-006
#[test]
fn timeouts_pause_while_an_input_is_open() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, _, input) = call_needing_input(&mut harness);
        // Longer than the 60 s timeout and the 10 min total timeout.
        harness.advance(secs(3_000));
        harness.assert_idle();
        harness.answer(input.id, &accepted_form());
        let again = harness.expect_request("tools/call");
        harness.advance(secs(59));
        harness.assert_idle();
        harness.advance(secs(1));
        assert_eq!(harness.expect_done(key), Err(CallError::TimedOut));
        let cancelled = harness.expect_reply();
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["requestId"]),
            (&json!("notifications/cancelled"), &again["id"])
        );
        harness.assert_works();
        harness.transcript
    });
}

// covers: TIME-006
#[test]
fn unanswered_input_fails_the_call_after_an_hour() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, _, input) = call_needing_input(&mut harness);
        harness.advance(secs(3_599));
        harness.assert_idle();
        harness.advance(secs(1));
        harness.expect_input_withdrawn(input.id);
        assert_eq!(harness.expect_done(key), Err(CallError::InputTimedOut));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: TIME-004, TIME-006
#[test]
fn explicit_total_timeout_includes_open_inputs() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let options = CallOptions::new().total_timeout(secs(100));
        let (key, request) = harness.start_call("tools/call", &json!({"name": "book"}), &options);
        harness.feed_message(&input_required(&request, &json!({"inputRequests": {"who": form_request()}})));
        let input = harness.expect_input();
        harness.advance(secs(99));
        harness.assert_idle();
        harness.advance(secs(1));
        harness.expect_input_withdrawn(input.id);
        assert_eq!(harness.expect_done(key), Err(CallError::TotalTimedOut));
        harness.assert_idle();
        // The same when the total timeout ends in a later round.
        let (key, request) = harness.start_call("tools/call", &json!({"name": "book"}), &options);
        harness.advance(secs(50));
        harness.feed_message(&input_required(&request, &json!({"requestState": "s"})));
        let again = harness.expect_request("tools/call");
        harness.advance(secs(49));
        harness.assert_idle();
        harness.advance(secs(1));
        assert_eq!(harness.expect_done(key), Err(CallError::TotalTimedOut));
        assert_eq!(harness.expect_reply()["params"]["requestId"], again["id"]);
        harness.transcript
    });
    // After an hour of waiting the default total timeout has what it had left before.
    let mut harness =
        harness_with_limits(|l| (l.call_timeout, l.call_total_timeout) = (secs(1_000), secs(600)));
    let (key, request) = start_call(&mut harness);
    harness.advance(secs(500));
    harness.feed_message(&input_required(&request, &json!({"inputRequests": {"who": form_request()}})));
    let input = harness.expect_input();
    harness.advance(secs(3_000));
    harness.answer(input.id, &accepted_form());
    harness.expect_request("tools/call");
    harness.advance(secs(99));
    harness.assert_idle();
    harness.advance(secs(1));
    assert_eq!(harness.expect_done(key), Err(CallError::TotalTimedOut));
}

// covers: PROG-004, PROG-006, PROG-007, MRTR-019
#[test]
fn progress_of_every_round_belongs_to_the_call() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let progress_notification = |token: &Value, progress: f64| {
            notification("notifications/progress", json!({"progressToken": token, "progress": progress}))
        };
        let options = CallOptions::new().with_progress();
        let (key, first) = harness.start_call("tools/call", &json!({"name": "book"}), &options);
        harness.feed_message(&progress_notification(&first["id"], 2.0));
        assert_eq!(harness.expect_progress(key).progress.to_bits(), 2f64.to_bits());
        harness.feed_message(&input_required(&first, &json!({"inputRequests": {"a": roots_request()}})));
        let input = harness.expect_input();
        harness.feed_message(&progress_notification(&first["id"], 3.0));
        assert_eq!(harness.expect_diagnostic(), Diagnostic::UnknownProgress);
        harness.answer(input.id, &json!({"roots": []}));
        let second = harness.expect_request("tools/call");
        let token = &second["params"]["_meta"]["progressToken"];
        assert_eq!((token, token == &first["id"]), (&second["id"], false));
        // Values may restart in a new round; the application sees only increasing ones.
        harness.feed_message(&progress_notification(token, 1.0));
        harness.feed_message(&progress_notification(token, 2.0));
        harness.assert_idle();
        harness.advance(secs(59));
        harness.feed_message(&progress_notification(token, 2.5));
        assert_eq!(harness.expect_progress(key).progress.to_bits(), 2.5f64.to_bits());
        harness.advance(secs(59));
        harness.assert_idle();
        harness.feed_message(&complete_result(&second));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// covers: MRTR-016, CANC-013
#[test]
fn messages_for_an_earlier_round_are_late() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, first, input) = call_needing_input(&mut harness);
        for late in [
            complete_result(&first),
            input_required(&first, &json!({"inputRequests": {"b": form_request()}})),
            error_response(&first, -32603, "late", Value::Null),
        ] {
            harness.feed_message(&late);
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
            harness.assert_idle();
        }
        harness.answer(input.id, &accepted_form());
        let second = harness.expect_request("tools/call");
        harness.feed_message(&complete_result(&first));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        harness.feed_message(&error_response(&second, -32602, "expired", Value::Null));
        assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32602));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: STDIO-028, MRTR-025
#[test]
fn eof_ends_calls_in_every_phase() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (awaiting_input, _, open) = call_needing_input(&mut harness);
        let (awaiting_answer, _, input) = call_needing_input(&mut harness);
        harness.answer(input.id, &accepted_form());
        harness.expect_request("tools/call");
        harness.eof();
        let mut ended = Vec::new();
        let mut withdrawn = Vec::new();
        loop {
            match harness.expect_event() {
                Event::Done { call, outcome: Err(CallError::Closed(_)), .. } => ended.push(call),
                Event::InputWithdrawn(id) => withdrawn.push(id),
                Event::Closed(_) => break,
                other => panic!("{other:?}"),
            }
        }
        ended.sort_unstable();
        let mut want = vec![awaiting_input, awaiting_answer];
        want.sort_unstable();
        assert_eq!((ended, withdrawn), (want, vec![open.id]));
        assert_eq!(
            harness.pipe.engine().answer(harness.now, open.id, &accepted_form()),
            Err(UseError::Stale)
        );
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BASE-020, ROOT-003, SAMP-003
#[test]
fn request_from_modern_server_is_reported_and_not_answered() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        harness.feed_message(&legacy_request("s1", "roots/list", Value::Null));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnexpectedRequest { .. }));
        harness.assert_idle();
        harness.transcript
    });
}

#[test]
fn retained_call_data_is_bounded() {
    let mut harness = harness_with_limits(|l| l.max_retained_bytes = 1_000);
    let long = json!({"name": "x".repeat(2_000)});
    let (key, request) = harness.start_call("tools/call", &long, &CallOptions::new());
    let refused = harness.expect_call_refused("tools/call", &json!({"name": "y"}), &CallOptions::new());
    assert_eq!(refused, UseError::Full(Limit::RetainedBytes));
    harness.feed_message(&complete_result(&request));
    assert!(harness.expect_done(key).is_ok());
    // The memory is freed when the call ends, in any way.
    let (key, request) = start_call(&mut harness);
    harness.feed_message(&input_required(&request, &json!({"requestState": "s".repeat(1_200)})));
    assert!(matches!(harness.expect_done(key), Err(CallError::InvalidInputRequest { .. })));
    for state in [900, 800, 900] {
        let (key, request) = start_call(&mut harness);
        harness.feed_message(&input_required(
            &request,
            &json!({"requestState": "s".repeat(state), "inputRequests": {"a": roots_request()}}),
        ));
        let input = harness.expect_input();
        harness.pipe.engine().cancel(harness.now, key, None).expect("open");
        harness.expect_input_withdrawn(input.id);
        assert!(harness.expect_done(key).is_err());
    }
    harness.assert_works();
    // Calls in any round count as pending calls.
    let mut harness = harness_with_limits(|l| l.max_pending_calls = 2);
    let (first, _, a) = call_needing_input(&mut harness);
    harness.answer(a.id, &accepted_form());
    let again = harness.expect_request("tools/call");
    let full = harness.expect_call_refused("tools/call", &json!({"name": "y"}), &CallOptions::new());
    assert_eq!(full, UseError::Full(Limit::PendingCalls));
    assert_eq!(harness.pipe.engine().pending_calls(), 1);
    harness.feed_message(&complete_result(&again));
    assert!(harness.expect_done(first).is_ok());
    harness.assert_works();
}

// covers: LIFE-005, MRTR-014
#[test]
fn call_queued_before_negotiation_is_retried_too() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(config(&ALL), cut);
        let probe = harness.expect_request("server/discover");
        let options = CallOptions::new().with_progress().with_meta(raw(&json!({"baggage": "a=b\nc"})));
        let now = harness.now;
        let key = harness
            .pipe
            .engine()
            .call(now, "tools/call", &json!({"name": "book"}), &options)
            .expect("queued");
        let discovery = mcp_tests::harness::build::discover_result(&["2026-07-28"], json!({"tools": {}}));
        harness.feed_message(&result_response(&probe, discovery));
        harness.expect_ready();
        let first = harness.expect_request("tools/call");
        harness.feed_message(&input_required(
            &first,
            &json!({"inputRequests": {"a": roots_request()}, "requestState": "s"}),
        ));
        let input = harness.expect_input();
        harness.answer(input.id, &json!({"roots": []}));
        let second = harness.expect_request("tools/call");
        let want = json!({"name": "book", "inputResponses": {"a": {"roots": []}}, "requestState": "s"});
        assert_eq!(sent_params(&second), want);
        assert_eq!(second["params"]["_meta"]["baggage"], "a=b\nc");
        assert_eq!(second["params"]["_meta"]["progressToken"], second["id"]);
        harness.feed_message(&complete_result(&second));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// covers: MRTR-008
#[test]
fn a_round_has_as_many_questions_as_the_limit_allows() {
    for (count, is_asked) in [(2, true), (3, false)] {
        let mut harness = harness_with_limits(|limits| limits.max_inputs = 2);
        let (call, request) = start_call(&mut harness);
        let names = ["a", "b", "c"].into_iter().take(count);
        let requests: serde_json::Map<_, _> = names.map(|name| (name.into(), roots_request())).collect();
        harness.feed_message(&input_required(&request, &json!({"inputRequests": requests})));
        if is_asked {
            assert!((0..count).all(|_| harness.expect_input().call == Some(call)));
        } else {
            let error = harness.expect_done(call).expect_err("too many");
            assert!(error.to_string().contains("more than 2 input requests"), "{error}");
        }
        harness.take_sent();
        harness.assert_idle();
    }
}

#[test]
fn names_and_state_of_a_round_are_bounded() {
    // The state counts as JSON text. The parameters of the call do not count: they were there before.
    for (state, is_asked) in [("ss", true), ("sss", false)] {
        let mut harness = harness_with_limits(|limits| limits.max_retained_bytes = 5);
        let (call, request) = start_call(&mut harness);
        let asked = json!({"inputRequests": {"a": roots_request()}, "requestState": state});
        harness.feed_message(&input_required(&request, &asked));
        if is_asked {
            harness.expect_input();
        } else {
            let error = harness.expect_done(call).expect_err("too large");
            assert!(error.to_string().contains("`max_retained_bytes`"), "{error}");
        }
    }
}
