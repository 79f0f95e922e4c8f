//! Input requests of a server: sent, collected, and delivered with the retried or resumed call.

use mcp_proto::model::{
    CreateMessageParams, ElicitFormParams, ElicitParams, ElicitSchema, InputRequest, InputRequests,
    SamplingMessage,
};
use mcp_proto::seal::Keys;
use mcp_proto::server::Call;
use mcp_proto::{
    Anchor, Capabilities, Capability, Limit, Progress, RawJson, SendStatus, UseError, Version, VersionSet,
    server,
};
use mcp_tests::harness::build::{
    legacy_request, modern_request_with, notification, result_response, to_value,
};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{limits, ms, secs, server};

const ALL: &str = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;

pub(super) fn config() -> server::Config {
    let everything = [Capability::Tools, Capability::Prompts, Capability::Resources];
    let capabilities = everything.into_iter().fold(Capabilities::new(), Capabilities::with);
    server(VersionSet::ALL).capabilities(capabilities).seal(Keys::new([7; 32]), Anchor::default())
}

/// A modern request of a client with all capabilities.
fn modern(id: i64, method: &str, params: Value) -> Value {
    let everything: Value = serde_json::from_str(ALL).expect("JSON");
    modern_request_with(
        id,
        method,
        params,
        &json!({"io.modelcontextprotocol/clientCapabilities": everything}),
    )
}

/// Opens a legacy session of a client with all capabilities.
pub(super) fn open_session(config: server::Config, version: Version, cut: Chunker) -> ServerHarness {
    let mut harness = ServerHarness::server(config, cut);
    harness.open_session_with(version, &serde_json::from_str(ALL).expect("JSON"));
    harness
}

fn form_request(message: &str) -> InputRequest<'static> {
    let schema = RawJson::new(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#).expect("JSON");
    InputRequest::Elicit(
        ElicitFormParams::new(message, schema.parse::<ElicitSchema>().expect("a form")).into(),
    )
}

pub(super) fn input_requests<const N: usize>(
    asks: [(&str, InputRequest<'static>); N],
) -> InputRequests<'static> {
    asks.into_iter().map(|(key, request)| (String::from(key), request)).collect()
}

#[expect(deprecated, reason = "tested until its removal")]
fn sampling_request() -> InputRequest<'static> {
    InputRequest::CreateMessage(CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100u64))
}

pub(super) fn input_response(call: &Call, key: &str) -> Value {
    to_value(call.answer(key).expect("an answer").expect("a result"))
}

fn tool(id: i64, more: Value) -> Value {
    let mut params = json!({"name": "book", "arguments": {"berth": "C14", "nights": 2}});
    let Value::Object(more) = more else { panic!("an object, not {more}") };
    params.as_object_mut().expect("an object").extend(more);
    modern(id, "tools/call", params)
}

const ALICE: &str = r#"{"action":"accept","content":{"name":"Alice"}}"#;

fn alice() -> Value {
    serde_json::from_str(ALICE).expect("JSON")
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-007, MRTR-010, MRTR-030, ELIC-007, SAMP-003, ROOT-003
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn modern_call_returns_input_required_and_is_retried_with_responses() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(config(), cut);
        let call = harness.expect_call_for(&tool(1, json!({})));
        assert_eq!((call.attempt(), call.state(), call.answer("who").is_none()), (0, None, true));
        let requests = input_requests([
            ("who", form_request("Who?")),
            ("line", sampling_request()),
            ("where", InputRequest::ListRoots(None)),
        ]);
        harness.need_input(&call, &requests, b"step 1").expect("the client can answer");
        let reply = harness.expect_reply();
        assert_eq!(reply["id"], 1);
        let reply = &reply["result"];
        assert_eq!(reply["resultType"], "input_required");
        assert_eq!(reply["inputRequests"]["who"]["method"], "elicitation/create");
        assert_eq!(reply["inputRequests"]["line"]["method"], "sampling/createMessage");
        assert_eq!(reply["inputRequests"]["where"], json!({"method": "roots/list"}));
        assert!(reply.get("ttlMs").is_none() && reply.get("cacheScope").is_none());
        // The call has ended: no state is left.
        assert_eq!(harness.pipe.engine().live_calls(), 0);
        let now = harness.now;
        assert_eq!(harness.pipe.engine().complete(now, call.id(), &json!({})), Err(UseError::Stale));

        let text = json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"});
        let answers = json!({"who": alice(), "line": text, "where": {"roots": []}});
        let more = json!({"inputResponses": answers, "requestState": reply["requestState"]});
        let again = harness.expect_call_for(&tool(2, more));
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"step 1"[..])));
        assert_ne!(again.id(), call.id());
        assert_eq!(input_response(&again, "who"), alice());
        assert_eq!(input_response(&again, "where"), json!({"roots": []}));
        assert_eq!(harness.complete(again.id(), &json!({"content": []}))["id"], 2);
        harness.transcript
    });
}

// covers: MRTR-021, MRTR-026, MRTR-029
#[test]
fn responses_of_earlier_rounds_are_sealed_and_restored() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(config(), cut);
        let call = harness.expect_call_for(&tool(1, json!({})));
        harness
            .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"")
            .expect("the client can answer");
        let state = harness.expect_reply()["result"]["requestState"].clone();
        let call = harness
            .expect_call_for(&tool(2, json!({"inputResponses": {"who": alice()}, "requestState": state})));
        harness
            .need_input(&call, &input_requests([("color", form_request("Which?"))]), b"2")
            .expect("the client can answer");
        let second = harness.expect_reply()["result"]["requestState"].clone();
        assert_ne!(second, state);
        let color = json!({"action": "accept", "content": {"color": "blue"}});
        let forged = json!({"action": "accept", "content": {"name": "Mallory"}});
        let more = json!({"inputResponses": {"who": forged, "color": color}, "requestState": second});
        let call = harness.expect_call_for(&tool(3, more));
        assert_eq!(
            (call.attempt(), input_response(&call, "who"), input_response(&call, "color")),
            (2, alice(), color)
        );
        // A response whose request is repeated is not restored.
        harness
            .need_input(&call, &input_requests([("who", form_request("Really?"))]), b"")
            .expect("the client can answer");
        let third = harness.expect_reply()["result"]["requestState"].clone();
        let call = harness.expect_call_for(&tool(4, json!({"requestState": third})));
        assert!(call.answer("who").is_none() && call.answer("color").is_some());
        harness.transcript
    });
}

// covers: MRTR-020, MRTR-021, MRTR-023
#[test]
fn request_state_is_bound_to_its_call() {
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    let call = harness.expect_call_for(&tool(1, json!({})));
    harness
        .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"yes")
        .expect("the client can answer");
    let state = harness.expect_reply()["result"]["requestState"].as_str().expect("a string").to_owned();
    let with = |state: &str| json!({"inputResponses": {"who": alice()}, "requestState": state});
    let assert_refused = |harness: &mut ServerHarness, request: &Value, case: &str| {
        let error = harness.expect_error(request);
        assert_eq!(error["code"], -32602, "{case}");
        assert!(!error.to_string().contains("expired"), "{case}: all cases share one message: {error}");
    };
    for at in 0..state.len() {
        let mut other = state.clone().into_bytes();
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        let other = String::from_utf8(other).expect("ASCII");
        assert_refused(&mut harness, &tool(2, with(&other)), "tampered with");
    }
    assert_refused(&mut harness, &tool(2, with(&format!("{state}-TAMPERED"))), "appended");
    assert_refused(&mut harness, &tool(2, with("")), "empty");
    assert_refused(&mut harness, &tool(2, json!({"requestState": 7})), "no string");
    let arguments = json!({"berth": "C15", "nights": 2});
    let mut other = with(&state);
    other["arguments"] = arguments;
    assert_refused(&mut harness, &tool(2, other), "other arguments");
    let mut other = with(&state);
    other["name"] = json!("cancel");
    assert_refused(&mut harness, &tool(2, other), "another tool");
    let mut other = with(&state);
    other["name"] = json!("book");
    assert_refused(&mut harness, &modern(2, "prompts/get", other), "another method");
    // Equal arguments in another spelling are accepted, also by a restarted server that has the key as an older one.
    let mut same = with(&state);
    same["arguments"] = serde_json::from_str(r#"{"nights":2.0,"b\u0065rth":"C14"}"#).expect("JSON");
    let again = harness.expect_call_for(&tool(3, same.clone()));
    assert_eq!(again.state(), Some(&b"yes"[..]));
    harness.complete(again.id(), &json!({"content": []}));
    let newer = Keys::new([8; 32]).with_older([7; 32]);
    let mut later = ServerHarness::server(config().seal(newer, Anchor::default()), Chunker::Whole);
    assert_eq!(later.expect_call_for(&tool(3, same.clone())).state(), Some(&b"yes"[..]));
    let mut stranger =
        ServerHarness::server(config().seal(Keys::new([9; 32]), Anchor::default()), Chunker::Whole);
    assert_refused(&mut stranger, &tool(3, same.clone()), "another key");
    harness.advance(secs(3_600));
    assert_refused(&mut harness, &tool(4, same), "expired");
}

// covers: MRTR-027, MRTR-028, MRTR-029
#[test]
fn malformed_input_responses_are_refused_and_unknown_ones_ignored() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(config(), cut);
        for malformed in [json!(null), json!([]), json!("x"), json!({"who": null}), json!({"who": [1]})] {
            let error = harness.expect_error(&tool(1, json!({"inputResponses": malformed})));
            assert_eq!(error["code"], -32602, "{malformed}");
        }
        // Unknown responses are ignored, and an empty object is accepted.
        let call = harness.expect_call_for(&tool(2, json!({"inputResponses": {"wrong_key": alice()}})));
        assert!(call.answer("who").is_none() && call.answer("wrong_key").is_some());
        let call = harness.expect_call_for(&tool(3, json!({"inputResponses": {}})));
        assert_eq!(call.attempt(), 0);
        // Only three methods can require input: elsewhere these members have no meaning.
        let call = harness.expect_call_for(&modern(
            4,
            "tools/list",
            json!({"inputResponses": {"a": alice()}, "requestState": "x"}),
        ));
        assert!(call.answer("a").is_none());
        assert!(matches!(
            harness.need_input(&call, &input_requests([("who", form_request("Who?"))]), b""),
            Err(UseError::ReservedMethod(method)) if method == "tools/list"
        ));
        harness.assert_works();
        harness.transcript
    });
}

// covers: MRTR-028
#[test]
fn unrequested_input_responses_are_dropped() {
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    let call = harness.expect_call_for(&tool(1, json!({})));
    harness
        .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"")
        .expect("the client can answer");
    let first = harness.expect_reply()["result"]["requestState"].clone();
    let mut answers: serde_json::Map<String, Value> =
        (0..1_000).map(|n| (format!("a{n}"), json!({"action": "accept"}))).collect();
    answers.insert("sure".into(), json!([]));
    answers.insert("who".into(), alice());
    let call = harness.expect_call_for(&tool(2, json!({"inputResponses": answers, "requestState": first})));
    assert_eq!(input_response(&call, "who"), alice());
    assert!(call.answer("sure").is_none() && call.answer("a1").is_none());
    // A request of this round is not answered by an earlier response.
    harness
        .need_input(
            &call,
            &input_requests([("sure", form_request("Sure?")), ("a1", form_request("A?"))]),
            b"",
        )
        .expect("the client can answer");
    let second = harness.expect_reply()["result"]["requestState"].clone();
    assert!(second.as_str().expect("a string").len() < 400, "{second}");
    let answers = json!({"sure": alice(), "a2": alice()});
    let call = harness.expect_call_for(&tool(3, json!({"inputResponses": answers, "requestState": second})));
    assert_eq!((input_response(&call, "who"), input_response(&call, "sure")), (alice(), alice()));
    assert!(call.answer("a1").is_none() && call.answer("a2").is_none());
}

// covers: MRTR-008
#[test]
fn invalid_input_request_is_not_sent() {
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    let call = harness.expect_call_for(&tool(1, json!({})));
    let nowhere = InputRequest::Elicit(ElicitParams::url("m", "nowhere"));
    let what = InputRequest::Other(RawJson::new(r#"{"method":"what/ever"}"#).expect("JSON"));
    for (key, request) in [
        ("", form_request("Who?")),
        ("a\nb", form_request("Who?")),
        (&*"k".repeat(65), form_request("Who?")),
        ("a", nowhere),
        ("a", what),
    ] {
        let outcome = harness.need_input(&call, &input_requests([(key, request)]), b"");
        assert!(matches!(outcome, Err(UseError::InvalidInputRequest { .. })), "{key}: {outcome:?}");
    }
    harness.complete(call.id(), &json!({"content": []}));
}

// covers: MRTR-005, MRTR-009, ELIC-005, SAMP-002, ROOT-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn undeclared_input_request_is_refused_and_call_stays_open() {
    for (request, lacks) in [
        (form_request("Who?"), Capability::ElicitationForm),
        (sampling_request(), Capability::Sampling),
        (InputRequest::ListRoots(None), Capability::Roots),
    ] {
        let mut harness = ServerHarness::server(config(), Chunker::Whole);
        harness.open_session(Version::V2025_11_25);
        let params = json!({"name": "book"});
        let calls = [
            harness.expect_call_for(&mcp_tests::harness::build::modern_request(
                1,
                "tools/call",
                params.clone(),
            )),
            harness.expect_call_for(&legacy_request(2, "tools/call", params)),
        ];
        for call in &calls {
            let requests = input_requests([("a", request.clone())]);
            let outcome = harness.need_input(call, &requests, b"");
            assert_eq!(outcome, Err(UseError::MissingPeerCapability(lacks)));
            let nothing = harness.need_input(call, &InputRequests::new(), b"");
            assert!(nothing.is_err(), "an empty set of input requests is refused");
            harness.complete(call.id(), &json!({"content": []}));
        }
    }
}

// covers: MRTR-026
#[test]
fn input_rounds_are_bounded() {
    let config = config().limits(limits(|l| l.max_input_rounds = 2));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    let mut more = json!({});
    for round in 0..2 {
        let call = harness.expect_call_for(&tool(round, more));
        harness
            .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"")
            .expect("the client can answer");
        more = json!({"requestState": harness.expect_reply()["result"]["requestState"]});
    }
    let call = harness.expect_call_for(&tool(2, more));
    let outcome = harness.need_input(&call, &input_requests([("who", form_request("Who?"))]), b"");
    assert_eq!(outcome, Err(UseError::Full(Limit::InputRounds)));
}

#[test]
fn server_without_seal_keys_allows_one_stateless_round() {
    let plain = server(VersionSet::ALL);
    let mut harness = ServerHarness::server(plain, Chunker::Whole);
    let call = harness.expect_call_for(&tool(1, json!({})));
    let first_round = input_requests([("who", form_request("Who?"))]);
    assert_eq!(harness.need_input(&call, &first_round, b"x"), Err(UseError::NoSealKeys));
    harness.need_input(&call, &first_round, b"").expect("the client can answer");
    assert!(harness.expect_reply()["result"].get("requestState").is_none());
    let call = harness.expect_call_for(&tool(2, json!({"inputResponses": {"who": alice()}})));
    let color = input_requests([("color", form_request("Which?"))]);
    assert_eq!(harness.need_input(&call, &color, b""), Err(UseError::NoSealKeys));
    harness.expect_error(&tool(3, json!({"requestState": "AAAA"})));
}

// covers: ELIC-006, SAMP-003, ROOT-002, MRTR-031
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn legacy_call_is_parked_and_resumes_with_responses() {
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        for_each_chunker(|cut| {
            let mut harness = open_session(config(), version, cut);
            let call = harness.expect_call_for(&legacy_request(
                1,
                "tools/call",
                json!({"name": "book", "arguments": {"a": 1}}),
            ));
            let requests = input_requests([
                ("who", form_request("Who?")),
                ("line", sampling_request()),
                ("where", InputRequest::ListRoots(None)),
            ]);
            harness.need_input(&call, &requests, b"step 1").expect("the client can answer");
            let sent = harness.take_sent();
            let methods: Vec<_> = sent.iter().map(|m| m["method"].as_str().expect("a request")).collect();
            assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
            // The parked call takes no slot of running calls.
            assert_eq!(harness.pipe.engine().live_calls(), 0);
            let now = harness.now;
            assert_eq!(harness.pipe.engine().complete(now, call.id(), &json!({})), Err(UseError::Stale));
            harness.feed_message(&result_response(&sent[2], json!({"roots": []})));
            harness.feed_message(
                &json!({"jsonrpc": "2.0", "id": sent[1]["id"], "error": {"code": -1, "message": "no"}}),
            );
            harness.assert_idle();
            harness.feed_message(&result_response(&sent[0], alice()));
            let again = harness.expect_call();
            assert_ne!(again.id(), call.id());
            assert_eq!((again.attempt(), again.state()), (1, Some(&b"step 1"[..])));
            assert_eq!(again.tool_call().expect("a tool").arguments, b"{\"a\":1}");
            assert_eq!(
                (input_response(&again, "who"), input_response(&again, "where")),
                (alice(), json!({"roots": []}))
            );
            // A refusal reaches the handler.
            assert!(again.answer("line").expect("an end").is_err());
            // A second round has the responses of the first.
            harness
                .need_input(&again, &input_requests([("color", form_request("Which?"))]), b"")
                .expect("the client can answer");
            let ask = harness.expect_reply();
            harness.feed_message(&result_response(&ask, json!({"action": "decline"})));
            let last = harness.expect_call();
            assert_eq!((last.attempt(), input_response(&last, "who")), (2, alice()));
            assert_eq!(harness.complete(last.id(), &json!({"content": []}))["id"], 1);
            harness.transcript
        });
    }
}

// covers: CANC-010, ELIC-021
#[test]
fn ended_legacy_call_cancels_its_input_requests() {
    let waiting = |cut| {
        let mut harness = open_session(config(), Version::V2025_11_25, cut);
        let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book"})));
        harness
            .need_input(&call, &input_requests([("a", form_request("A?")), ("b", form_request("B?"))]), b"")
            .expect("the client can answer");
        let requests = harness.take_sent();
        (harness, requests)
    };
    for_each_chunker(|cut| {
        let (mut harness, requests) = waiting(cut);
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
        let cancels = harness.take_sent();
        let ids: Vec<_> = cancels.iter().map(|m| &m["params"]["requestId"]).collect();
        assert_eq!(ids, [&requests[0]["id"], &requests[1]["id"]]);
        // No handler is running, so no event is due; late responses change nothing.
        harness.assert_idle();
        harness.feed_message(&result_response(&requests[0], alice()));
        assert!(matches!(harness.expect_event(), server::Event::Diagnostic { .. }));
        harness.assert_works();
        harness.transcript
    });
    for_each_chunker(|cut| {
        let (mut harness, _) = waiting(cut);
        harness.eof();
        assert!(harness.take_sent().iter().any(|m| m["id"] == 1 && m["error"]["code"] == -32603));
        harness.transcript
    });
    for_each_chunker(|cut| {
        let (mut harness, requests) = waiting(cut);
        harness.feed_message(&result_response(&requests[0], alice()));
        harness.advance(secs(3_600) + ms(1));
        // At the timeout the handler continues with what has arrived, and the client gets a cancellation.
        let again = harness.expect_call();
        assert_eq!(input_response(&again, "a"), alice());
        assert!(again.answer("b").expect("an end").is_err());
        assert!(harness.take_sent().iter().any(|m| m["method"] == "notifications/cancelled"));
        harness.transcript
    });
}

// covers: CANC-010, ELIC-021
#[test]
fn dropped_parked_call_returns_its_state() {
    let expect_dropped = |harness: &mut ServerHarness| match harness.expect_event() {
        server::Event::ParkedCallDropped { state } => state.to_vec(),
        other => panic!("{other:?}"),
    };
    for state in [&b""[..], b"step 1"] {
        let waiting = || {
            let mut harness = open_session(config(), Version::V2025_11_25, Chunker::Whole);
            let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book"})));
            harness
                .need_input(&call, &input_requests([("a", form_request("A?"))]), state)
                .expect("the client can answer");
            let _ = harness.take_sent();
            harness
        };
        let mut cancelled = waiting();
        cancelled.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
        let mut left = waiting();
        left.eof();
        if state.is_empty() {
            cancelled.pump();
            assert!(!cancelled.transcript.events.iter().any(|event| event.contains("ParkedCallDropped")));
        } else {
            assert_eq!(expect_dropped(&mut cancelled), state);
            assert_eq!(expect_dropped(&mut left), state);
        }
    }
}

// covers: CANC-001, CANC-003, ELIC-021
#[test]
fn withdrawn_input_is_cancelled_at_the_client() {
    let mut harness = open_session(config(), Version::V2025_11_25, Chunker::Whole);
    let withdraw = |harness: &mut ServerHarness, state: &[u8]| {
        let now = harness.now;
        let found = harness.pipe.engine().withdraw_input(now, state, Some("found it"));
        harness.pump();
        found
    };
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book"})));
    assert!(!withdraw(&mut harness, b"step 1") && !withdraw(&mut harness, b""));
    harness
        .need_input(&call, &input_requests([("a", form_request("A?")), ("b", form_request("B?"))]), b"step 1")
        .expect("the client can answer");
    let requests = harness.take_sent();
    harness.feed_message(&result_response(&requests[0], alice()));
    assert!(!withdraw(&mut harness, b"step 2"));
    assert!(withdraw(&mut harness, b"step 1"));
    let cancelled = harness.expect_reply();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]),
        (&json!("notifications/cancelled"), &json!({"requestId": requests[1]["id"], "reason": "found it"}))
    );
    let again = harness.expect_call();
    assert_eq!((again.state(), input_response(&again, "a")), (Some(&b"step 1"[..]), alice()));
    assert_eq!(again.answer("b"), Some(Err(&mcp_proto::CallError::Cancelled)));
    assert!(!withdraw(&mut harness, b"step 1"), "the call is no longer parked");
    // A response after the withdrawal is late.
    harness.feed_message(&result_response(&requests[1], alice()));
    assert!(matches!(harness.expect_event(), server::Event::Diagnostic { .. }));
    assert_eq!(harness.complete(again.id(), &json!({"content": []}))["id"], 1);
    // A modern call is never parked.
    let call = harness.expect_call_for(&tool(2, json!({})));
    harness
        .need_input(&call, &input_requests([("a", form_request("A?"))]), b"step 1")
        .expect("the client can answer");
    assert!(!withdraw(&mut harness, b"step 1"));
}

// covers: ELIC-025, ELIC-032
#[test]
fn elicitation_complete_is_sent_only_in_2025_11_25() {
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        let mut harness = open_session(config(), version, Chunker::Whole);
        let (now, channel) = (harness.now, harness.pipe.channel());
        let is_sent = harness.pipe.engine().notify_elicitation_complete(now, channel, "e-1");
        harness.pump();
        assert_eq!(is_sent, version == Version::V2025_11_25);
        if is_sent {
            let notice = harness.expect_reply();
            assert_eq!(notice["method"], "notifications/elicitation/complete");
            assert_eq!(notice["params"], json!({"elicitationId": "e-1"}));
        }
    }
}

// covers: PROG-013
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn held_back_progress_is_sent_while_the_call_is_parked() {
    let logging = Capabilities::new().with(Capability::Tools).with(Capability::Logging);
    let mut harness = open_session(config().capabilities(logging), Version::V2025_11_25, Chunker::Whole);
    let token = json!({"name": "book", "_meta": {"progressToken": "t"}});
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", token));
    let now = harness.now;
    for n in 1..=11 {
        harness.pipe.engine().progress(now, call.id(), Progress::new(f64::from(n))).expect("open");
    }
    harness.pump();
    assert_eq!(harness.take_sent().len(), 10);
    harness
        .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"")
        .expect("the client can answer");
    let ask = harness.expect_reply();
    assert_eq!(ask["method"], "elicitation/create");
    harness.advance(ms(100));
    assert_eq!(harness.expect_reply()["params"]["progress"], 11.0);
    harness.feed_message(&result_response(&ask, alice()));
    let again = harness.expect_call();
    let now = harness.now;
    let sent = harness.pipe.engine().progress(now, again.id(), Progress::new(12.0));
    assert_eq!(sent, Ok(SendStatus::Queued));
}

// covers: MRTR-021
#[test]
fn request_state_is_bound_to_the_resource_uri() {
    let read = |id: i64, uri: &str, name: Value, more: Value| {
        let mut params = json!({"uri": uri, "name": name});
        let Value::Object(more) = more else { panic!("an object, not {more}") };
        params.as_object_mut().expect("an object").extend(more);
        modern(id, "resources/read", params)
    };
    for name in [json!("x"), json!(5)] {
        let mut harness = ServerHarness::server(config(), Chunker::Whole);
        let call = harness.expect_call_for(&read(1, "file:///mine", name.clone(), json!({})));
        harness
            .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"yes")
            .expect("the client can answer");
        let state = harness.expect_reply()["result"]["requestState"].clone();
        let more = json!({"inputResponses": {"who": alice()}, "requestState": state});
        assert_eq!(
            harness.expect_error(&read(2, "file:///theirs", name.clone(), more.clone()))["code"],
            -32602
        );
        assert_eq!(harness.expect_call_for(&read(3, "file:///mine", name, more)).state(), Some(&b"yes"[..]));
    }
}

#[test]
fn retained_input_responses_are_bounded() {
    let config = config().limits(limits(|l| {
        l.max_frame = 10_000;
        l.max_retained_bytes = 20_000;
    }));
    let mut harness = open_session(config, Version::V2025_11_25, Chunker::Whole);
    let two = input_requests([("a", form_request("A?")), ("b", form_request("B?"))]);
    let book = |id: i64| legacy_request(id, "tools/call", json!({"name": "book"}));
    let long = || json!({"action": "accept", "content": {"name": "x".repeat(9_000)}});
    let mut sent_requests = Vec::new();
    for id in 1..=4 {
        let call = harness.expect_call_for(&book(id));
        harness.need_input(&call, &two, b"").expect("the client can answer");
        sent_requests.push(harness.take_sent());
    }
    // The first response of each call is kept until the second arrives, which it does not.
    for sent in &sent_requests {
        harness.feed_message(&result_response(&sent[0], long()));
    }
    let call = harness.expect_call_for(&book(5));
    assert_eq!(harness.need_input(&call, &two, b""), Err(UseError::Full(Limit::RetainedBytes)));
    // The response beyond the budget was dropped, and its handler sees an error. The earlier ones are there.
    for (n, sent) in sent_requests.iter().enumerate() {
        harness.feed_message(&result_response(&sent[1], alice()));
        let again = harness.expect_call();
        let first = again.answer("a").expect("an end").is_ok();
        assert_eq!(first, n < 3, "{n}");
        assert_eq!(input_response(&again, "b"), alice());
        harness.complete(again.id(), &json!({"content": []}));
    }
    harness.need_input(&call, &two, b"").expect("there is room again");
}

// covers: MRTR-023
#[test]
fn request_state_expires_after_input_timeout() {
    for (start, time) in [(ms(0), ms(500)), (ms(900), secs(1)), (ms(999), ms(1_001))] {
        let config = config().limits(limits(|l| l.input_timeout = time));
        let mut harness = ServerHarness::server(config, Chunker::Whole);
        harness.advance(start);
        let call = harness.expect_call_for(&tool(1, json!({})));
        harness
            .need_input(&call, &input_requests([("who", form_request("Who?"))]), b"yes")
            .expect("the client can answer");
        let more = json!({"requestState": harness.expect_reply()["result"]["requestState"]});
        harness.advance(time - ms(1));
        let again = harness.expect_call_for(&tool(2, more.clone()));
        assert_eq!(again.state(), Some(&b"yes"[..]));
        // The expiry is rounded to seconds.
        harness.advance(ms(1_001));
        assert_eq!(harness.expect_error(&tool(3, more))["code"], -32602);
    }
}
