//! Input requests of the server.

use core::time::Duration;

use mcp_proto::model::{
    CreateMessageParams, ElicitParams, ElicitSchema, InputRequest, InputRequests, SamplingMessage,
};
use mcp_proto::server::{self, Call};
use mcp_proto::{CallError, CallKey, CallOptions, Capability, Era, RawJson, RpcError, Version, client};
use serde_json::{Value, json};

use super::harness::{ALL_CAPABILITIES, BridgeHarness, REVISION_PAIRS};
use crate::ClientCount;

fn form_request(message: &str) -> InputRequest<'static> {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let schema: ElicitSchema = serde_json::from_str(&schema.to_string()).expect("a form");
    InputRequest::Elicit(ElicitParams::form(message, schema))
}

#[expect(deprecated, reason = "tested until its removal")]
fn sampling_request() -> InputRequest<'static> {
    InputRequest::CreateMessage(CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100u64))
}

fn url_request() -> InputRequest<'static> {
    let mut page = mcp_proto::model::ElicitUrlParams::new("Pay", "https://harbour.example/pay");
    page.elicitation_id = Some("e-1".into());
    InputRequest::Elicit(page.into())
}

fn input_requests<const N: usize>(asks: [(&str, InputRequest<'static>); N]) -> InputRequests<'static> {
    asks.into_iter().map(|(key, request)| (key.to_owned(), request)).collect()
}

/// Names the kind of a request.
#[expect(deprecated, reason = "tested until its removal")]
fn request_kind(request: &InputRequest<'_>) -> &'static str {
    match request {
        InputRequest::Elicit(ElicitParams::Url(_)) => "page",
        InputRequest::Elicit(_) => "form",
        InputRequest::CreateMessage(_) => "sample",
        _ => "roots",
    }
}

fn fitting_response(request: &InputRequest<'_>) -> Value {
    match request_kind(request) {
        "page" => json!({"action": "accept"}),
        "form" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "sample" => json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "aye"}}),
        _ => json!({"roots": [{"uri": "file:///harbour"}]}),
    }
}

fn need_input(chain: &mut BridgeHarness, call: &Call, asks: &InputRequests<'_>) {
    let now = chain.now;
    chain.server.engine().need_input(now, call, asks, b"step").expect("it may be asked");
    chain.settle();
}

fn answer_to(call: &Call, key: &str) -> Value {
    let answer = call.answer(key).expect("an answer").expect("a result");
    serde_json::from_str(answer.as_str()).expect("JSON")
}

fn done_result() -> Value {
    json!({"content": [{"type": "text", "text": "done"}]})
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn input_requests_and_responses_pass_in_rounds() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(
            &mut chain,
            &call,
            &input_requests([
                ("who", form_request("Who?")),
                ("line", sampling_request()),
                ("where", InputRequest::ListRoots(None)),
            ]),
        );
        let inputs = chain.take_inputs();
        let mut kinds: Vec<_> = inputs.iter().map(|input| request_kind(&input.request)).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["form", "roots", "sample"], "{down} {up}");
        if [down, up] == [Version::V2026_07_28; 2] {
            // Keys pass unchanged if both sides are modern.
            assert!(inputs.iter().any(|input| input.key.as_deref() == Some("who")));
        }
        assert!(!chain.has_server_call());
        for input in &inputs {
            chain.answer_input(input, &fitting_response(&input.request));
        }
        let again = chain.take_server_call();
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"step"[..])), "{down} {up}");
        for (key, request) in [
            ("who", form_request("")),
            ("line", sampling_request()),
            ("where", InputRequest::ListRoots(None)),
        ] {
            assert_eq!(answer_to(&again, key), fitting_response(&request));
        }
        need_input(&mut chain, &again, &input_requests([("more", form_request("More?"))]));
        let inputs = chain.take_inputs();
        assert_eq!(inputs.len(), 1);
        // Declining is an answer.
        chain.answer_input(&inputs[0], &json!({"action": "decline"}));
        let last = chain.take_server_call();
        assert_eq!(answer_to(&last, "more"), json!({"action": "decline"}));
        chain.complete(&last, &done_result());
        assert_eq!(chain.result(key), done_result(), "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn prompts_and_resources_may_request_input() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        for (method, params, result) in [
            ("prompts/get", json!({"name": "p"}), json!({"messages": []})),
            ("resources/read", json!({"uri": "x:1"}), json!({"contents": []})),
        ] {
            let key = chain.call(method, &params);
            let call = chain.take_server_call();
            need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
            let inputs = chain.take_inputs();
            chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
            let again = chain.take_server_call();
            assert_eq!(answer_to(&again, "who"), fitting_response(&form_request("")));
            chain.complete(&again, &result);
            assert_eq!(chain.result(key), result, "{down} {up}");
        }
    }
}

#[test]
fn refused_input_reaches_server_or_ends_call() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
        let inputs = chain.take_inputs();
        let now = chain.now;
        chain.client.engine().refuse(now, inputs[0].id, &RpcError::new(-1, "not today")).expect("asked");
        chain.settle();
        match (down.era(), up.era()) {
            // A modern client ends its call and does not return.
            (Era::Modern, _) => {
                assert!(
                    matches!(chain.outcome(key), Err(CallError::InputRefused(error)) if error.code == -1)
                );
                chain.wait(Duration::from_secs(3_602));
            }
            (Era::Legacy, Era::Legacy) => {
                let again = chain.take_server_call();
                let refusal = again.answer("who").expect("an end").expect_err("a refusal");
                assert!(matches!(refusal, CallError::Rpc(error) if error.code == -1), "{refusal:?}");
                chain.complete(&again, &done_result());
                assert_eq!(chain.result(key), done_result());
            }
            (Era::Legacy, Era::Modern) => {
                assert_eq!(chain.error(key).message, "not today");
            }
        }
        assert_eq!(chain.relay.pending_calls(), 0, "{down} {up}");
    }
}

#[test]
fn client_without_capability_gets_no_input_request() {
    for (down, up) in REVISION_PAIRS {
        // The bridge declared these capabilities, as it does for several clients, but this client lacks them.
        let mut chain = BridgeHarness::with_capabilities(down, up, &[], &ALL_CAPABILITIES, ClientCount::One);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(
            &mut chain,
            &call,
            &input_requests([("line", sampling_request()), ("who", form_request("Who?"))]),
        );
        assert!(chain.take_inputs().is_empty(), "{down} {up}");
        if up.era() == Era::Modern {
            let error = chain.error(key);
            assert!(error.message.contains("does not have the capability `sampling`"), "{error}");
        } else {
            let again = chain.take_server_call();
            for asked in ["line", "who"] {
                assert!(again.answer(asked).expect("an end").is_err());
            }
            chain.complete(&again, &done_result());
            assert_eq!(chain.result(key), done_result());
        }
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn url_elicitation_has_id_only_in_2025_11_25() {
    for (down, up) in REVISION_PAIRS.into_iter().filter(|(down, up)| *down.min(up) >= Version::V2025_11_25) {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(&mut chain, &call, &input_requests([("pay", url_request())]));
        let inputs = chain.take_inputs();
        let InputRequest::Elicit(ElicitParams::Url(page)) = &*inputs[0].request else { panic!("{inputs:?}") };
        assert_eq!(page.url, "https://harbour.example/pay");
        assert_eq!(page.elicitation_id.is_some(), down == Version::V2025_11_25, "{down} {up}");
        chain.answer_input(&inputs[0], &json!({"action": "accept"}));
        let again = chain.take_server_call();
        if [down, up] == [Version::V2025_11_25; 2] {
            let (now, channel) = (chain.now, again.channel());
            chain.server.engine().notify_elicitation_complete(now, channel, "e-1");
            chain.settle();
            let is_received = |event: &client::Event| matches!(event, client::Event::ElicitationComplete(id) if id == "e-1");
            assert!(chain.take_client_events().iter().any(is_received));
        }
        chain.complete(&again, &done_result());
        assert_eq!(chain.result(key), done_result());
    }
}

#[test]
fn suspended_call_cancelled_by_client_is_cancelled_at_server() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
        assert_eq!(chain.take_inputs().len(), 1);
        let now = chain.now;
        chain.client.engine().cancel(now, key, None).expect("open");
        chain.settle();
        // A modern client simply does not return, which only a timeout can detect.
        if down.era() == Era::Modern {
            assert_eq!(chain.relay.pending_calls(), 1);
            chain.wait(Duration::from_secs(3_602));
        }
        assert_eq!(chain.relay.pending_calls(), 0, "{down} {up}");
        if up.era() == Era::Legacy {
            let dropped = |event: &server::Event| matches!(event, server::Event::ParkedCallDropped { .. });
            let late = chain.has_server_call();
            assert!(
                late || chain.server_events.iter().any(dropped),
                "{down} {up}: {:?}",
                chain.server_events
            );
        }
    }
}

#[test]
fn input_withdrawn_by_server_is_withdrawn_from_legacy_client() {
    for (down, up) in REVISION_PAIRS.into_iter().filter(|(_, up)| up.era() == Era::Legacy) {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
        let inputs = chain.take_inputs();
        let now = chain.now;
        assert!(chain.server.engine().withdraw_input(now, b"step", None));
        chain.settle();
        let again = chain.take_server_call();
        chain.complete(&again, &done_result());
        let gone =
            |event: &client::Event| matches!(event, client::Event::InputWithdrawn(id) if *id == inputs[0].id);
        let is_received = chain.take_client_events().iter().any(gone);
        assert_eq!(
            (is_received, chain.has_ended(key)),
            (down.era() == Era::Legacy, down.era() == Era::Legacy)
        );
        if !is_received {
            // A modern client gets the outcome when it returns with its answer.
            chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
        }
        assert_eq!(chain.result(key), done_result(), "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn unanswered_input_moves_to_remaining_call_when_its_call_ends() {
    // The server drops its request without notice when its own deadline has passed.
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2025_11_25);
    let keys = [chain.call_unknown_tool(), chain.call_unknown_tool()];
    let calls = [chain.take_server_call(), chain.take_server_call()];
    need_input(
        &mut chain,
        &calls[0],
        &input_requests([("who", form_request("Who?")), ("where", InputRequest::ListRoots(None))]),
    );
    let inputs = chain.take_inputs();
    assert_eq!(inputs.len(), 2);
    let roots = inputs.iter().find(|input| request_kind(&input.request) == "roots").expect("asked");
    chain.answer_input(roots, &fitting_response(&roots.request));
    // The requests were attached to the other call, which ends here.
    chain.complete(&calls[1], &done_result());
    let ended = keys.map(|key| chain.has_ended(key));
    assert_eq!(ended, [false, true]);
    // The unanswered request is attached to the remaining call.
    let inputs = chain.take_inputs();
    assert_eq!(inputs.iter().map(|input| request_kind(&input.request)).collect::<Vec<_>>(), ["form"]);
    chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
    let again = chain.take_server_call();
    assert_eq!(answer_to(&again, "where"), fitting_response(&InputRequest::ListRoots(None)));
    assert_eq!(answer_to(&again, "who"), fitting_response(&form_request("")));
    chain.complete(&again, &done_result());
    for key in keys {
        assert_eq!(chain.result(key), done_result());
    }
    assert_eq!(chain.relay.pending_calls(), 0);
}

#[test]
fn suspended_call_fails_when_server_ends() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
        let inputs = chain.take_inputs();
        chain.kill_server();
        // A modern client gets the error when it returns with its answers.
        assert_eq!(chain.has_ended(key), down.era() == Era::Legacy);
        if !chain.has_ended(key) {
            chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
        }
        let error = chain.error(key);
        assert!(error.message.contains("the server behind the bridge is gone"), "{error}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn input_responses_after_expiry_are_refused() {
    // The same answers arrive twice, as from a client that repeats a request.
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2026_07_28);
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
    let inputs = chain.take_inputs();
    // All suspended calls expire.
    chain.with_relay(|relay, engines| {
        for (_, relayed) in relay.calls.take_expired(engines.now + Duration::from_secs(4_000)) {
            relay.cancel_upstream(engines, &relayed, "no answer in time");
        }
    });
    chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
    let error = chain.error(key);
    assert!(error.message.contains("nothing waits for these answers"), "{error}");
}

#[test]
fn legacy_input_request_goes_to_the_only_possible_call() {
    // With a single client it does not matter which of its calls carries the request.
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2025_11_25);
    let keys = [chain.call_unknown_tool(), chain.call_unknown_tool()];
    let calls = [chain.take_server_call(), chain.take_server_call()];
    need_input(&mut chain, &calls[0], &input_requests([("who", form_request("Who?"))]));
    let inputs = chain.take_inputs();
    assert_eq!(inputs.len(), 1);
    // The other call ends meanwhile; its outcome waits for the client if necessary.
    chain.complete(&calls[1], &done_result());
    chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
    let again = chain.take_server_call();
    assert_eq!(answer_to(&again, "who"), fitting_response(&form_request("")));
    chain.complete(&again, &done_result());
    for key in keys {
        assert_eq!(chain.result(key), done_result());
    }
    assert_eq!(chain.relay.pending_calls(), 0);

    // With several clients, all calls that run have to be of one of them.
    let mut chain = BridgeHarness::with_capabilities(
        Version::V2026_07_28,
        Version::V2025_11_25,
        &ALL_CAPABILITIES,
        &ALL_CAPABILITIES,
        ClientCount::Many,
    );
    chain.call_unknown_tool();
    chain.call_unknown_tool();
    let calls = [chain.take_server_call(), chain.take_server_call()];
    need_input(&mut chain, &calls[0], &input_requests([("who", form_request("Who?"))]));
    chain.wait(Duration::from_millis(50));
    let inputs = chain.take_inputs();
    assert_eq!(inputs.len(), 1);
    chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
    let again = chain.take_server_call();
    assert_eq!(answer_to(&again, "who"), fitting_response(&form_request("")));
}

#[test]
fn simultaneous_legacy_input_requests_are_sent_in_one_round() {
    let mut chain = BridgeHarness::with_capabilities(
        Version::V2026_07_28,
        Version::V2025_11_25,
        &ALL_CAPABILITIES,
        &ALL_CAPABILITIES,
        ClientCount::Many,
    );
    // A call whose client does not return.
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
    chain.wait(Duration::from_millis(50));
    let inputs = chain.take_inputs();
    let now = chain.now;
    chain.client.engine().refuse(now, inputs[0].id, &RpcError::new(-1, "no")).expect("asked");
    chain.settle();
    assert!(chain.outcome(key).is_err());
    // A call with two requests, one after the other.
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    need_input(&mut chain, &call, &input_requests([("who", form_request("Who?"))]));
    chain.with_relay(|relay, engines| {
        let message = r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#;
        let channel = engines.upstream.open_channel(engines.upstream_now);
        engines.upstream.handle_message(engines.upstream_now, channel, message.into());
        let event = engines.upstream.poll_event(engines.upstream_now).expect("a question");
        relay.handle_client_event(engines, event);
    });
    chain.settle();
    assert!(chain.take_inputs().is_empty());
    chain.wait(Duration::from_millis(50));
    let inputs = chain.take_inputs();
    assert_eq!(inputs.len(), 2);
    for input in &inputs {
        chain.answer_input(input, &fitting_response(&input.request));
    }
    let again = chain.take_server_call();
    assert_eq!(answer_to(&again, "who"), fitting_response(&form_request("")));
    chain.complete(&again, &done_result());
    assert_eq!(chain.result(key), done_result());
}

#[test]
fn legacy_input_request_without_call_waits_for_the_next_call() {
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2025_11_25);
    chain.with_relay(|relay, engines| {
        let message = r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#;
        let channel = engines.upstream.open_channel(engines.upstream_now);
        engines.upstream.handle_message(engines.upstream_now, channel, message.into());
        let event = engines.upstream.poll_event(engines.upstream_now).expect("a question");
        relay.handle_client_event(engines, event);
    });
    chain.settle();
    assert!(chain.take_inputs().is_empty());
    // A list call cannot carry requests and is not delayed.
    let key = chain.call("tools/list", &json!({}));
    let call = chain.take_server_call();
    chain.complete(&call, &json!({"tools": []}));
    assert_eq!(chain.result(key), json!({"tools": []}));
    let key = chain.call_unknown_tool();
    let inputs = chain.take_inputs();
    assert_eq!(request_kind(&inputs[0].request), "roots");
    chain.answer_input(&inputs[0], &fitting_response(&inputs[0].request));
    let call = chain.take_server_call();
    chain.complete(&call, &done_result());
    assert_eq!(chain.result(key), done_result());
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn sampling_context_passes_to_client_that_declares_it() {
    let mut able = ALL_CAPABILITIES.to_vec();
    able.push(Capability::SamplingContext);
    let mut chain = BridgeHarness::with_capabilities(
        Version::V2025_11_25,
        Version::V2026_07_28,
        &able,
        &able,
        ClientCount::One,
    );
    chain.call_unknown_tool();
    let call = chain.take_server_call();
    let mut params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100u64);
    params.include_context = Some(mcp_proto::model::IncludeContext::ThisServer);
    need_input(&mut chain, &call, &input_requests([("line", InputRequest::CreateMessage(params))]));
    let inputs = chain.take_inputs();
    let InputRequest::CreateMessage(params) = &*inputs[0].request else { panic!("{inputs:?}") };
    assert!(params.include_context.is_some());
}

/// Takes the outcome of a request that the server sent.
fn request_outcome(chain: &mut BridgeHarness, key: CallKey) -> Option<Result<RawJson, CallError>> {
    let at = chain
        .server_events
        .iter()
        .position(|event| matches!(event, server::Event::Done { call, .. } if *call == key))?;
    let server::Event::Done { outcome, .. } = chain.server_events.remove(at) else { return None };
    Some(outcome)
}

#[test]
fn custom_requests_of_server_reach_legacy_client() {
    let (down, up) = (Version::V2025_11_25, Version::V2025_06_18);
    let request = |chain: &mut BridgeHarness, method: &str| {
        let (now, channel) = (chain.now, chain.server.channel());
        let (params, options) = (json!({"of": "Ada"}), CallOptions::new());
        let key = chain.server.engine().request(now, channel, method, &params, &options).expect("open");
        chain.settle();
        key
    };
    let asked = |chain: &mut BridgeHarness| {
        chain.take_client_events().into_iter().find_map(|event| match event {
            client::Event::Request(request) => Some(request),
            _ => None,
        })
    };
    let mut chain = BridgeHarness::new(down, up);
    let key = request(&mut chain, "harbour/draught");
    let server_request = asked(&mut chain).expect("a request");
    assert_eq!(&*server_request.method, "harbour/draught");
    assert_eq!(server_request.params.as_ref().expect("parameters").as_str(), r#"{"of":"Ada"}"#);
    let now = chain.now;
    let result = RawJson::encode(&json!({"metres": 2})).expect("an object");
    chain.client.engine().respond(now, server_request.id, &result).expect("open");
    chain.settle();
    assert_eq!(
        request_outcome(&mut chain, key).expect("an end").expect("a result").as_str(),
        r#"{"metres":2}"#
    );

    // Only the client knows its methods.
    let key = request(&mut chain, "harbour/unknown");
    let Some(Err(CallError::Rpc(error))) = request_outcome(&mut chain, key) else { panic!("no error") };
    assert_eq!(error.code, -32601);

    // A cancellation by the server reaches the client.
    let key = request(&mut chain, "harbour/draught");
    let server_request = asked(&mut chain).expect("a request");
    let now = chain.now;
    chain.server.engine().cancel_request(now, key, None).expect("open");
    chain.settle();
    let gone = |event: &client::Event| matches!(event, client::Event::RequestCancelled(id) if *id == server_request.id);
    assert!(chain.take_client_events().iter().any(gone));

    // A modern client gets no requests outside of its calls.
    let mut chain = BridgeHarness::new(Version::V2026_07_28, up);
    let key = request(&mut chain, "harbour/draught");
    let Some(Err(CallError::Rpc(error))) = request_outcome(&mut chain, key) else { panic!("no error") };
    assert!(error.message.contains("no client can be asked this"), "{error}");
}
