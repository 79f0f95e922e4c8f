//! What the server needs of the client

use core::time::Duration;

use mcp_proto::model::{
    CreateMessageParams, ElicitParams, ElicitSchema, InputRequest, InputRequests, SamplingMessage,
};
use mcp_proto::server::{self, Call};
use mcp_proto::{CallError, CallKey, CallOptions, Capability, Era, RawJson, RpcError, Version, client};
use serde_json::{Value, json};

use super::ends::{ABLE, Chain, PAIRS};
use crate::bridge::relay::Clients;

fn form(message: &str) -> InputRequest<'static> {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let schema: ElicitSchema = serde_json::from_str(&schema.to_string()).expect("a form");
    InputRequest::Elicit(ElicitParams::form(message, schema))
}

fn sample() -> InputRequest<'static> {
    InputRequest::CreateMessage(CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100u64))
}

fn page() -> InputRequest<'static> {
    let mut page = mcp_proto::model::ElicitUrlParams::new("Pay", "https://harbour.example/pay");
    page.elicitation_id = Some("e-1".into());
    InputRequest::Elicit(page.into())
}

fn asks<const N: usize>(asks: [(&str, InputRequest<'static>); N]) -> InputRequests<'static> {
    asks.into_iter().map(|(key, request)| (key.to_owned(), request)).collect()
}

/// What it is that is asked, shortly
fn kind(request: &InputRequest<'_>) -> &'static str {
    match request {
        InputRequest::Elicit(ElicitParams::Url(_)) => "page",
        InputRequest::Elicit(_) => "form",
        InputRequest::CreateMessage(_) => "sample",
        _ => "roots",
    }
}

fn fitting(request: &InputRequest<'_>) -> Value {
    match kind(request) {
        "page" => json!({"action": "accept"}),
        "form" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "sample" => json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "aye"}}),
        _ => json!({"roots": [{"uri": "file:///harbour"}]}),
    }
}

fn need(chain: &mut Chain, call: &Call, asks: &InputRequests<'_>) {
    let now = chain.now;
    chain.server.engine().need_input(now, call, asks, b"step").expect("it may be asked");
    chain.settle();
}

fn answered(call: &Call, key: &str) -> Value {
    let answer = call.answer(key).expect("an answer").expect("a result");
    serde_json::from_str(answer.as_str()).expect("JSON")
}

fn done() -> Value {
    json!({"content": [{"type": "text", "text": "done"}]})
}

#[test]
fn questions_pass_in_rounds_and_their_answers_come_back() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let key = chain.book();
        let call = chain.taken();
        need(
            &mut chain,
            &call,
            &asks([("who", form("Who?")), ("line", sample()), ("where", InputRequest::ListRoots(None))]),
        );
        let inputs = chain.asked();
        let mut kinds: Vec<_> = inputs.iter().map(|input| kind(&input.request)).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["form", "roots", "sample"], "{down} {up}");
        if [down, up] == [Version::V2026_07_28; 2] {
            // Names pass where both sides have them.
            assert!(inputs.iter().any(|input| input.key.as_deref() == Some("who")));
        }
        assert!(!chain.any_call());
        for input in &inputs {
            chain.answer(input, &fitting(&input.request));
        }
        let again = chain.taken();
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"step"[..])), "{down} {up}");
        for (key, request) in
            [("who", form("")), ("line", sample()), ("where", InputRequest::ListRoots(None))]
        {
            assert_eq!(answered(&again, key), fitting(&request));
        }
        need(&mut chain, &again, &asks([("more", form("More?"))]));
        let inputs = chain.asked();
        assert_eq!(inputs.len(), 1);
        // That somebody declines is an answer.
        chain.answer(&inputs[0], &json!({"action": "decline"}));
        let last = chain.taken();
        assert_eq!(answered(&last, "more"), json!({"action": "decline"}));
        chain.complete(&last, &done());
        assert_eq!(chain.result(key), done(), "{down} {up}");
        assert_eq!(chain.relay.pending(), 0);
    }
}

#[test]
fn prompts_and_resources_may_ask_too() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        for (method, params, result) in [
            ("prompts/get", json!({"name": "p"}), json!({"messages": []})),
            ("resources/read", json!({"uri": "x:1"}), json!({"contents": []})),
        ] {
            let key = chain.call(method, &params);
            let call = chain.taken();
            need(&mut chain, &call, &asks([("who", form("Who?"))]));
            let inputs = chain.asked();
            chain.answer(&inputs[0], &fitting(&inputs[0].request));
            let again = chain.taken();
            assert_eq!(answered(&again, "who"), fitting(&form("")));
            chain.complete(&again, &result);
            assert_eq!(chain.result(key), result, "{down} {up}");
        }
    }
}

#[test]
fn a_refusal_reaches_the_server_or_ends_the_call() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let key = chain.book();
        let call = chain.taken();
        need(&mut chain, &call, &asks([("who", form("Who?"))]));
        let inputs = chain.asked();
        let now = chain.now;
        chain.client.engine().refuse(now, inputs[0].id, &RpcError::new(-1, "not today")).expect("asked");
        chain.settle();
        match (down.era(), up.era()) {
            // A modern client ends its call, and does not come again.
            (Era::Modern, _) => {
                assert!(
                    matches!(chain.outcome(key), Err(CallError::InputRefused(error)) if error.code == -1)
                );
                chain.wait(Duration::from_secs(3_602));
            }
            (Era::Legacy, Era::Legacy) => {
                let again = chain.taken();
                let refusal = again.answer("who").expect("an end").expect_err("a refusal");
                assert!(matches!(refusal, CallError::Rpc(error) if error.code == -1), "{refusal:?}");
                chain.complete(&again, &done());
                assert_eq!(chain.result(key), done());
            }
            (Era::Legacy, Era::Modern) => {
                assert_eq!(chain.error(key).message, "not today");
            }
        }
        assert_eq!(chain.relay.pending(), 0, "{down} {up}");
    }
}

#[test]
fn a_client_that_lacks_something_is_not_asked() {
    for (down, up) in PAIRS {
        // Declared to the server, as by a bridge with several clients, though this one has it not.
        let mut chain = Chain::with(down, up, &[], &ABLE, Clients::One);
        let key = chain.book();
        let call = chain.taken();
        need(&mut chain, &call, &asks([("line", sample()), ("who", form("Who?"))]));
        assert!(chain.asked().is_empty(), "{down} {up}");
        if up.era() == Era::Modern {
            let error = chain.error(key);
            assert!(error.message.contains("does not have the capability `sampling`"), "{error}");
        } else {
            let again = chain.taken();
            for asked in ["line", "who"] {
                assert!(again.answer(asked).expect("an end").is_err());
            }
            chain.complete(&again, &done());
            assert_eq!(chain.result(key), done());
        }
        assert_eq!(chain.relay.pending(), 0);
    }
}

#[test]
fn a_page_has_a_name_where_the_revision_wants_one() {
    for (down, up) in PAIRS.into_iter().filter(|(down, up)| *down.min(up) >= Version::V2025_11_25) {
        let mut chain = Chain::new(down, up);
        let key = chain.book();
        let call = chain.taken();
        need(&mut chain, &call, &asks([("pay", page())]));
        let inputs = chain.asked();
        let InputRequest::Elicit(ElicitParams::Url(page)) = &*inputs[0].request else { panic!("{inputs:?}") };
        assert_eq!(page.url, "https://harbour.example/pay");
        assert_eq!(page.elicitation_id.is_some(), down == Version::V2025_11_25, "{down} {up}");
        chain.answer(&inputs[0], &json!({"action": "accept"}));
        let again = chain.taken();
        if [down, up] == [Version::V2025_11_25; 2] {
            let (now, channel) = (chain.now, again.channel());
            chain.server.engine().elicitation_complete(now, channel, "e-1");
            chain.settle();
            let told = |event: &client::Event| matches!(event, client::Event::ElicitationComplete(id) if id == "e-1");
            assert!(chain.news().iter().any(told));
        }
        chain.complete(&again, &done());
        assert_eq!(chain.result(key), done());
    }
}

#[test]
fn a_call_that_is_cancelled_while_its_client_is_asked_is_cancelled_at_the_server() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let key = chain.book();
        let call = chain.taken();
        need(&mut chain, &call, &asks([("who", form("Who?"))]));
        assert_eq!(chain.asked().len(), 1);
        let now = chain.now;
        chain.client.engine().cancel(now, key, None).expect("open");
        chain.settle();
        // A modern client just does not come again, which only time can tell.
        if down.era() == Era::Modern {
            assert_eq!(chain.relay.pending(), 1);
            chain.wait(Duration::from_secs(3_602));
        }
        assert_eq!(chain.relay.pending(), 0, "{down} {up}");
        if up.era() == Era::Legacy {
            let dropped = |event: &server::Event| matches!(event, server::Event::Dropped { .. });
            let late = chain.any_call();
            assert!(late || chain.heard.iter().any(dropped), "{down} {up}: {:?}", chain.heard);
        }
    }
}

#[test]
fn a_question_that_the_server_takes_back_is_taken_back_from_a_legacy_client() {
    for (down, up) in PAIRS.into_iter().filter(|(_, up)| up.era() == Era::Legacy) {
        let mut chain = Chain::new(down, up);
        let key = chain.book();
        let call = chain.taken();
        need(&mut chain, &call, &asks([("who", form("Who?"))]));
        let inputs = chain.asked();
        let now = chain.now;
        assert!(chain.server.engine().recall(now, b"step", None));
        chain.settle();
        let again = chain.taken();
        chain.complete(&again, &done());
        let gone =
            |event: &client::Event| matches!(event, client::Event::InputGone(id) if *id == inputs[0].id);
        let told = chain.news().iter().any(gone);
        assert_eq!((told, chain.has_ended(key)), (down.era() == Era::Legacy, down.era() == Era::Legacy));
        if !told {
            // A modern one learns it when it comes with its answer.
            chain.answer(&inputs[0], &fitting(&inputs[0].request));
        }
        assert_eq!(chain.result(key), done(), "{down} {up}");
        assert_eq!(chain.relay.pending(), 0);
    }
}

#[test]
fn a_call_that_ends_while_its_client_is_asked_is_told_of_at_once_where_that_can_be() {
    // The server gives up what it asked without a word, when its own time is over.
    let mut chain = Chain::new(Version::V2025_11_25, Version::V2025_11_25);
    let keys = [chain.book(), chain.book()];
    let calls = [chain.taken(), chain.taken()];
    need(&mut chain, &calls[0], &asks([("who", form("Who?")), ("where", InputRequest::ListRoots(None))]));
    let inputs = chain.asked();
    assert_eq!(inputs.len(), 2);
    let roots = inputs.iter().find(|input| kind(&input.request) == "roots").expect("asked");
    chain.answer(roots, &fitting(&roots.request));
    // They went along with the other call, which is done.
    chain.complete(&calls[1], &done());
    let ended = keys.map(|key| chain.has_ended(key));
    assert_eq!(ended, [false, true]);
    // What was not answered is asked along with the call that is left.
    let inputs = chain.asked();
    assert_eq!(inputs.iter().map(|input| kind(&input.request)).collect::<Vec<_>>(), ["form"]);
    chain.answer(&inputs[0], &fitting(&inputs[0].request));
    let again = chain.taken();
    assert_eq!(answered(&again, "where"), fitting(&InputRequest::ListRoots(None)));
    assert_eq!(answered(&again, "who"), fitting(&form("")));
    chain.complete(&again, &done());
    for key in keys {
        assert_eq!(chain.result(key), done());
    }
    assert_eq!(chain.relay.pending(), 0);
}

#[test]
fn the_end_of_the_server_is_told_to_who_is_being_asked() {
    for (down, up) in PAIRS {
        let mut chain = Chain::new(down, up);
        let key = chain.book();
        let call = chain.taken();
        need(&mut chain, &call, &asks([("who", form("Who?"))]));
        let inputs = chain.asked();
        chain.kill_server();
        // A modern client learns it when it comes with its answers.
        assert_eq!(chain.has_ended(key), down.era() == Era::Legacy);
        if !chain.has_ended(key) {
            chain.answer(&inputs[0], &fitting(&inputs[0].request));
        }
        let error = chain.error(key);
        assert!(error.message.contains("the server behind the bridge is gone"), "{error}");
        assert_eq!(chain.relay.pending(), 0);
    }
}

#[test]
fn answers_that_nothing_waits_for_are_refused() {
    // The same answers twice, as of a client that repeats a request.
    let mut chain = Chain::new(Version::V2026_07_28, Version::V2026_07_28);
    let key = chain.book();
    let call = chain.taken();
    need(&mut chain, &call, &asks([("who", form("Who?"))]));
    let inputs = chain.asked();
    let now = chain.now;
    // Everything that waits is given up.
    chain.bridge(|relay, ends| {
        ends.now = now + Duration::from_secs(4_000);
        relay.handle_timeout(ends);
    });
    chain.answer(&inputs[0], &fitting(&inputs[0].request));
    let error = chain.error(key);
    assert!(error.message.contains("nothing waits for these answers"), "{error}");
}

#[test]
fn a_legacy_question_goes_to_who_can_only_be_meant() {
    // Alone, whichever of its calls it goes along with.
    let mut chain = Chain::new(Version::V2026_07_28, Version::V2025_11_25);
    let keys = [chain.book(), chain.book()];
    let calls = [chain.taken(), chain.taken()];
    need(&mut chain, &calls[0], &asks([("who", form("Who?"))]));
    let inputs = chain.asked();
    assert_eq!(inputs.len(), 1);
    // The other one is done meanwhile, and waits for its client if need be.
    chain.complete(&calls[1], &done());
    chain.answer(&inputs[0], &fitting(&inputs[0].request));
    let again = chain.taken();
    assert_eq!(answered(&again, "who"), fitting(&form("")));
    chain.complete(&again, &done());
    for key in keys {
        assert_eq!(chain.result(key), done());
    }
    assert_eq!(chain.relay.pending(), 0);

    // One of several, nobody.
    let mut chain = Chain::with(Version::V2026_07_28, Version::V2025_11_25, &ABLE, &ABLE, Clients::Many);
    chain.book();
    chain.book();
    let calls = [chain.taken(), chain.taken()];
    need(&mut chain, &calls[0], &asks([("who", form("Who?"))]));
    assert!(chain.asked().is_empty());
    let again = chain.taken();
    assert!(
        matches!(again.answer("who"), Some(Err(CallError::Rpc(error))) if error.message.contains("which of its clients"))
    );
}

#[test]
fn what_a_legacy_server_asks_at_once_is_asked_at_once() {
    let mut chain = Chain::with(Version::V2026_07_28, Version::V2025_11_25, &ABLE, &ABLE, Clients::Many);
    // One whose client does not come again.
    let key = chain.book();
    let call = chain.taken();
    need(&mut chain, &call, &asks([("who", form("Who?"))]));
    chain.wait(Duration::from_millis(50));
    let inputs = chain.asked();
    let now = chain.now;
    chain.client.engine().refuse(now, inputs[0].id, &RpcError::new(-1, "no")).expect("asked");
    chain.settle();
    assert!(chain.outcome(key).is_err());
    // Another one, whose questions come one after the other.
    let key = chain.book();
    let call = chain.taken();
    need(&mut chain, &call, &asks([("who", form("Who?"))]));
    chain.bridge(|relay, ends| {
        let message = r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#;
        let channel = ends.up.open_channel(ends.up_now);
        ends.up.handle_message(ends.up_now, channel, message.into());
        let event = ends.up.poll_event(ends.up_now).expect("a question");
        relay.client_event(ends, event);
    });
    chain.settle();
    assert!(chain.asked().is_empty());
    chain.wait(Duration::from_millis(50));
    let inputs = chain.asked();
    assert_eq!(inputs.len(), 2);
    for input in &inputs {
        chain.answer(input, &fitting(&input.request));
    }
    let again = chain.taken();
    assert_eq!(answered(&again, "who"), fitting(&form("")));
    chain.complete(&again, &done());
    assert_eq!(chain.result(key), done());
}

#[test]
fn a_legacy_question_beside_all_calls_goes_along_with_the_next_one() {
    let mut chain = Chain::new(Version::V2026_07_28, Version::V2025_11_25);
    chain.bridge(|relay, ends| {
        let message = r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#;
        let channel = ends.up.open_channel(ends.up_now);
        ends.up.handle_message(ends.up_now, channel, message.into());
        let event = ends.up.poll_event(ends.up_now).expect("a question");
        relay.client_event(ends, event);
    });
    chain.settle();
    assert!(chain.asked().is_empty());
    // Completion cannot ask, and is not held up.
    let key = chain.call("tools/list", &json!({}));
    let call = chain.taken();
    chain.complete(&call, &json!({"tools": []}));
    assert_eq!(chain.result(key), json!({"tools": []}));
    let key = chain.book();
    let inputs = chain.asked();
    assert_eq!(kind(&inputs[0].request), "roots");
    chain.answer(&inputs[0], &fitting(&inputs[0].request));
    let call = chain.taken();
    chain.complete(&call, &done());
    assert_eq!(chain.result(key), done());
}

#[test]
fn context_that_a_client_does_not_give_is_left_out() {
    let mut able = ABLE.to_vec();
    able.push(Capability::SamplingContext);
    let mut chain = Chain::with(Version::V2025_11_25, Version::V2026_07_28, &able, &able, Clients::One);
    chain.book();
    let call = chain.taken();
    let mut params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100u64);
    params.include_context = Some(mcp_proto::model::IncludeContext::ThisServer);
    need(&mut chain, &call, &asks([("line", InputRequest::CreateMessage(params))]));
    let inputs = chain.asked();
    let InputRequest::CreateMessage(params) = &*inputs[0].request else { panic!("{inputs:?}") };
    assert!(params.include_context.is_some());
}

/// What the server was told of a request of its own
fn told(chain: &mut Chain, key: CallKey) -> Option<Result<RawJson, CallError>> {
    let at = chain
        .heard
        .iter()
        .position(|event| matches!(event, server::Event::Done { call, .. } if *call == key))?;
    let server::Event::Done { outcome, .. } = chain.heard.remove(at) else { return None };
    Some(outcome)
}

#[test]
fn requests_of_their_own_pass_to_a_legacy_client() {
    let (down, up) = (Version::V2025_11_25, Version::V2025_06_18);
    let request = |chain: &mut Chain, method: &str| {
        let (now, channel) = (chain.now, chain.server.channel());
        let (params, options) = (json!({"of": "Ada"}), CallOptions::new());
        let key = chain.server.engine().request(now, channel, method, &params, &options).expect("open");
        chain.settle();
        key
    };
    let asked = |chain: &mut Chain| {
        chain.news().into_iter().find_map(|event| match event {
            client::Event::Request(request) => Some(request),
            _ => None,
        })
    };
    let mut chain = Chain::new(down, up);
    let key = request(&mut chain, "harbour/draught");
    let theirs = asked(&mut chain).expect("a request");
    assert_eq!(&*theirs.method, "harbour/draught");
    assert_eq!(theirs.params.as_ref().expect("parameters").as_str(), r#"{"of":"Ada"}"#);
    let now = chain.now;
    let result = RawJson::encode(&json!({"metres": 2})).expect("an object");
    chain.client.engine().respond(now, theirs.id, &result).expect("open");
    chain.settle();
    assert_eq!(told(&mut chain, key).expect("an end").expect("a result").as_str(), r#"{"metres":2}"#);

    // Who knows a method is the client.
    let key = request(&mut chain, "harbour/unknown");
    let Some(Err(CallError::Rpc(error))) = told(&mut chain, key) else { panic!("no error") };
    assert_eq!(error.code, -32601);
    let key = request(&mut chain, "tasks/list");
    let Some(Err(CallError::Rpc(error))) = told(&mut chain, key) else { panic!("no error") };
    assert!(error.message.contains("tasks do not pass"), "{error}");

    // One that the server takes back is taken back.
    let key = request(&mut chain, "harbour/draught");
    let theirs = asked(&mut chain).expect("a request");
    let now = chain.now;
    chain.server.engine().cancel_request(now, key, None).expect("open");
    chain.settle();
    let gone =
        |event: &client::Event| matches!(event, client::Event::RequestCancelled(id) if *id == theirs.id);
    assert!(chain.news().iter().any(gone));

    // A modern client is asked nothing outside of its calls.
    let mut chain = Chain::new(Version::V2026_07_28, up);
    let key = request(&mut chain, "harbour/draught");
    let Some(Err(CallError::Rpc(error))) = told(&mut chain, key) else { panic!("no error") };
    assert!(error.message.contains("no client can be asked this"), "{error}");
}
