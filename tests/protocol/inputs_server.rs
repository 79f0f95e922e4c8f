//! A handler that needs something first, on the server's side: asked, gathered, delivered with the call again.

use mcp_proto::model::{
    CreateMessageParams, ElicitFormParams, ElicitParams, ElicitSchema, InputRequest, InputRequests,
    SamplingMessage,
};
use mcp_proto::seal::Keys;
use mcp_proto::server::Call;
use mcp_proto::{
    Anchor, Capabilities, Capability, Progress, RawJson, Sent, UseError, Version, VersionSet, server,
};
use mcp_tests::harness::build::{legacy, modern_with, note, result, value};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{limits, ms, secs, server};

const ALL: &str = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;

fn config() -> server::Config {
    let everything = [Capability::Tools, Capability::Prompts, Capability::Resources];
    let capabilities = everything.into_iter().fold(Capabilities::new(), Capabilities::with);
    server(VersionSet::ALL).capabilities(capabilities).seal(Keys::new([7; 32]), Anchor::default())
}

/// A modern request of a client that can do everything
fn modern(id: i64, method: &str, params: Value) -> Value {
    let everything: Value = serde_json::from_str(ALL).expect("JSON");
    modern_with(id, method, params, &json!({"io.modelcontextprotocol/clientCapabilities": everything}))
}

/// A legacy session of a client that can do everything
fn session(config: server::Config, version: Version, cut: Chunker) -> LoneServer {
    let mut lone = LoneServer::server(config, cut);
    lone.open_with(version, &serde_json::from_str(ALL).expect("JSON"));
    lone
}

fn form(message: &str) -> InputRequest<'static> {
    let schema = RawJson::new(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#).expect("JSON");
    InputRequest::Elicit(
        ElicitFormParams::new(message, schema.parse::<ElicitSchema>().expect("a form")).into(),
    )
}

fn asks<const N: usize>(asks: [(&str, InputRequest<'static>); N]) -> InputRequests<'static> {
    asks.into_iter().map(|(key, request)| (String::from(key), request)).collect()
}

fn sample() -> InputRequest<'static> {
    InputRequest::CreateMessage(CreateMessageParams::new(vec![SamplingMessage::user("hi")], 100u64))
}

fn answer(call: &Call, key: &str) -> Value {
    value(call.answer(key).expect("an answer").expect("a result"))
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
fn a_modern_call_is_answered_with_what_it_needs_and_comes_again_with_the_answers() {
    each_cut(|cut| {
        let mut lone = LoneServer::server(config(), cut);
        let call = lone.take(&tool(1, json!({})));
        assert_eq!((call.attempt(), call.state(), call.answer("who").is_none()), (0, None, true));
        let requests =
            asks([("who", form("Who?")), ("line", sample()), ("where", InputRequest::ListRoots(None))]);
        lone.need_input(&call, &requests, b"step 1").expect("it may be asked");
        let said = lone.reply();
        assert_eq!(said["id"], 1);
        let said = &said["result"];
        assert_eq!(said["resultType"], "input_required");
        assert_eq!(said["inputRequests"]["who"]["method"], "elicitation/create");
        assert_eq!(said["inputRequests"]["line"]["method"], "sampling/createMessage");
        assert_eq!(said["inputRequests"]["where"], json!({"method": "roots/list"}));
        assert!(said.get("ttlMs").is_none() && said.get("cacheScope").is_none());
        // The call is over: nothing is kept of it.
        assert_eq!(lone.pipe.engine().live_calls(), 0);
        let now = lone.now;
        assert_eq!(lone.pipe.engine().complete(now, call.id(), &json!({})), Err(UseError::Stale));

        let text = json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"});
        let answers = json!({"who": alice(), "line": text, "where": {"roots": []}});
        let more = json!({"inputResponses": answers, "requestState": said["requestState"]});
        let again = lone.take(&tool(2, more));
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"step 1"[..])));
        assert_ne!(again.id(), call.id());
        assert_eq!(answer(&again, "who"), alice());
        assert_eq!(answer(&again, "where"), json!({"roots": []}));
        assert_eq!(lone.complete(again.id(), &json!({"content": []}))["id"], 2);
        lone.transcript
    });
}

// covers: MRTR-021, MRTR-026, MRTR-029
#[test]
fn answers_of_earlier_rounds_come_back_and_cannot_be_changed() {
    each_cut(|cut| {
        let mut lone = LoneServer::server(config(), cut);
        let call = lone.take(&tool(1, json!({})));
        lone.need_input(&call, &asks([("who", form("Who?"))]), b"").expect("it may be asked");
        let state = lone.reply()["result"]["requestState"].clone();
        let call = lone.take(&tool(2, json!({"inputResponses": {"who": alice()}, "requestState": state})));
        lone.need_input(&call, &asks([("color", form("Which?"))]), b"2").expect("it may be asked");
        let second = lone.reply()["result"]["requestState"].clone();
        assert_ne!(second, state);
        let color = json!({"action": "accept", "content": {"color": "blue"}});
        let forged = json!({"action": "accept", "content": {"name": "Mallory"}});
        let more = json!({"inputResponses": {"who": forged, "color": color}, "requestState": second});
        let call = lone.take(&tool(3, more));
        assert_eq!((call.attempt(), answer(&call, "who"), answer(&call, "color")), (2, alice(), color));
        // What is asked anew is not carried on.
        lone.need_input(&call, &asks([("who", form("Really?"))]), b"").expect("it may be asked");
        let third = lone.reply()["result"]["requestState"].clone();
        let call = lone.take(&tool(4, json!({"requestState": third})));
        assert!(call.answer("who").is_none() && call.answer("color").is_some());
        lone.transcript
    });
}

// covers: MRTR-020, MRTR-021, MRTR-023
#[test]
fn a_state_serves_the_call_that_it_was_made_for_and_no_other() {
    let mut lone = LoneServer::server(config(), Chunker::Whole);
    let call = lone.take(&tool(1, json!({})));
    lone.need_input(&call, &asks([("who", form("Who?"))]), b"yes").expect("it may be asked");
    let state = lone.reply()["result"]["requestState"].as_str().expect("a string").to_owned();
    let with = |state: &str| json!({"inputResponses": {"who": alice()}, "requestState": state});
    let refused = |lone: &mut LoneServer, request: &Value, why: &str| {
        let error = lone.refused(request);
        assert_eq!(error["code"], -32602, "{why}");
        assert!(!error.to_string().contains("expired"), "{why}: one text for all: {error}");
    };
    for at in 0..state.len() {
        let mut other = state.clone().into_bytes();
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        let other = String::from_utf8(other).expect("ASCII");
        refused(&mut lone, &tool(2, with(&other)), "tampered with");
    }
    refused(&mut lone, &tool(2, with(&format!("{state}-TAMPERED"))), "appended");
    refused(&mut lone, &tool(2, with("")), "empty");
    refused(&mut lone, &tool(2, json!({"requestState": 7})), "no string");
    let arguments = json!({"berth": "C15", "nights": 2});
    let mut other = with(&state);
    other["arguments"] = arguments;
    refused(&mut lone, &tool(2, other), "other arguments");
    let mut other = with(&state);
    other["name"] = json!("cancel");
    refused(&mut lone, &tool(2, other), "another tool");
    let mut other = with(&state);
    other["name"] = json!("book");
    refused(&mut lone, &modern(2, "prompts/get", other), "another method");
    // The same in another spelling is the same, also for a server that was started anew with its key as an older one.
    let mut same = with(&state);
    same["arguments"] = serde_json::from_str(r#"{"nights":2.0,"b\u0065rth":"C14"}"#).expect("JSON");
    let again = lone.take(&tool(3, same.clone()));
    assert_eq!(again.state(), Some(&b"yes"[..]));
    lone.complete(again.id(), &json!({"content": []}));
    let newer = Keys::new([8; 32]).older([7; 32]);
    let mut later = LoneServer::server(config().seal(newer, Anchor::default()), Chunker::Whole);
    assert_eq!(later.take(&tool(3, same.clone())).state(), Some(&b"yes"[..]));
    let mut stranger =
        LoneServer::server(config().seal(Keys::new([9; 32]), Anchor::default()), Chunker::Whole);
    refused(&mut stranger, &tool(3, same.clone()), "another key");
    lone.pass(secs(3_600));
    refused(&mut lone, &tool(4, same), "expired");
}

// covers: MRTR-027, MRTR-028, MRTR-029
#[test]
fn odd_answers_are_refused_or_ignored_and_cost_nothing_else() {
    each_cut(|cut| {
        let mut lone = LoneServer::server(config(), cut);
        for odd in [json!(null), json!([]), json!("x"), json!({"who": null}), json!({"who": [1]})] {
            let error = lone.refused(&tool(1, json!({"inputResponses": odd})));
            assert_eq!(error["code"], -32602, "{odd}");
        }
        // Answers to what nobody asked do no harm, and neither does it when there are none.
        let call = lone.take(&tool(2, json!({"inputResponses": {"wrong_key": alice()}})));
        assert!(call.answer("who").is_none() && call.answer("wrong_key").is_some());
        let call = lone.take(&tool(3, json!({"inputResponses": {}})));
        assert_eq!(call.attempt(), 0);
        // Only three methods can need something: elsewhere such members mean nothing.
        let call = lone.take(&modern(
            4,
            "tools/list",
            json!({"inputResponses": {"a": alice()}, "requestState": "x"}),
        ));
        assert!(call.answer("a").is_none());
        assert!(matches!(
            lone.need_input(&call, &asks([("who", form("Who?"))]), b""),
            Err(UseError::NotYours(method)) if method == "tools/list"
        ));
        lone.works();
        lone.transcript
    });
}

// covers: MRTR-028
#[test]
fn answers_to_what_was_not_asked_are_neither_given_nor_carried_on() {
    let mut lone = LoneServer::server(config(), Chunker::Whole);
    let call = lone.take(&tool(1, json!({})));
    lone.need_input(&call, &asks([("who", form("Who?"))]), b"").expect("it may be asked");
    let first = lone.reply()["result"]["requestState"].clone();
    let mut answers: serde_json::Map<String, Value> =
        (0..1_000).map(|n| (format!("a{n}"), json!({"action": "accept"}))).collect();
    answers.insert("sure".into(), json!([]));
    answers.insert("who".into(), alice());
    let call = lone.take(&tool(2, json!({"inputResponses": answers, "requestState": first})));
    assert_eq!(answer(&call, "who"), alice());
    assert!(call.answer("sure").is_none() && call.answer("a1").is_none());
    // What is asked now was not answered in advance.
    lone.need_input(&call, &asks([("sure", form("Sure?")), ("a1", form("A?"))]), b"")
        .expect("it may be asked");
    let second = lone.reply()["result"]["requestState"].clone();
    assert!(second.as_str().expect("a string").len() < 400, "{second}");
    let answers = json!({"sure": alice(), "a2": alice()});
    let call = lone.take(&tool(3, json!({"inputResponses": answers, "requestState": second})));
    assert_eq!((answer(&call, "who"), answer(&call, "sure")), (alice(), alice()));
    assert!(call.answer("a1").is_none() && call.answer("a2").is_none());
}

// covers: MRTR-008
#[test]
fn a_question_that_is_not_right_is_not_asked() {
    let mut lone = LoneServer::server(config(), Chunker::Whole);
    let call = lone.take(&tool(1, json!({})));
    let nowhere = InputRequest::Elicit(ElicitParams::url("m", "nowhere"));
    let what = InputRequest::Other(RawJson::new(r#"{"method":"what/ever"}"#).expect("JSON"));
    for (key, request) in [
        ("", form("Who?")),
        ("a\nb", form("Who?")),
        (&*"k".repeat(65), form("Who?")),
        ("a", nowhere),
        ("a", what),
    ] {
        let outcome = lone.need_input(&call, &asks([(key, request)]), b"");
        assert!(matches!(outcome, Err(UseError::BadQuestion { .. })), "{key}: {outcome:?}");
    }
    lone.complete(call.id(), &json!({"content": []}));
}

// covers: MRTR-005, MRTR-009, ELIC-005, SAMP-002, ROOT-010
#[test]
fn what_the_client_did_not_declare_is_not_asked_and_the_call_stays_open() {
    for (request, lacks) in [
        (form("Who?"), Capability::ElicitationForm),
        (sample(), Capability::Sampling),
        (InputRequest::ListRoots(None), Capability::Roots),
    ] {
        let mut lone = LoneServer::server(config(), Chunker::Whole);
        lone.open(Version::V2025_11_25);
        let params = json!({"name": "book"});
        let calls = [
            lone.take(&mcp_tests::harness::build::modern(1, "tools/call", params.clone())),
            lone.take(&legacy(2, "tools/call", params)),
        ];
        for call in &calls {
            let requests = asks([("a", request.clone())]);
            let outcome = lone.need_input(call, &requests, b"");
            assert_eq!(outcome, Err(UseError::PeerLacks(lacks)));
            let nothing = lone.need_input(call, &InputRequests::new(), b"");
            assert!(nothing.is_err(), "nothing to ask");
            lone.complete(call.id(), &json!({"content": []}));
        }
    }
}

// covers: MRTR-026
#[test]
fn rounds_have_an_end() {
    let config = config().limits(limits(|l| l.max_input_rounds = 2));
    let mut lone = LoneServer::server(config, Chunker::Whole);
    let mut more = json!({});
    for round in 0..2 {
        let call = lone.take(&tool(round, more));
        lone.need_input(&call, &asks([("who", form("Who?"))]), b"").expect("it may be asked");
        more = json!({"requestState": lone.reply()["result"]["requestState"]});
    }
    let call = lone.take(&tool(2, more));
    let outcome = lone.need_input(&call, &asks([("who", form("Who?"))]), b"");
    assert_eq!(outcome, Err(UseError::Full("max_input_rounds")));
}

#[test]
fn without_keys_one_round_is_possible_and_nothing_is_kept() {
    let plain = server(VersionSet::ALL);
    let mut lone = LoneServer::server(plain, Chunker::Whole);
    let call = lone.take(&tool(1, json!({})));
    let who = asks([("who", form("Who?"))]);
    assert_eq!(lone.need_input(&call, &who, b"x"), Err(UseError::NoKeys));
    lone.need_input(&call, &who, b"").expect("it may be asked");
    assert!(lone.reply()["result"].get("requestState").is_none());
    let call = lone.take(&tool(2, json!({"inputResponses": {"who": alice()}})));
    let color = asks([("color", form("Which?"))]);
    assert_eq!(lone.need_input(&call, &color, b""), Err(UseError::NoKeys));
    lone.refused(&tool(3, json!({"requestState": "AAAA"})));
}

// covers: ELIC-006, SAMP-003, ROOT-002, MRTR-031
#[test]
fn a_legacy_call_waits_for_the_answers_and_comes_again() {
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        each_cut(|cut| {
            let mut lone = session(config(), version, cut);
            let call = lone.take(&legacy(1, "tools/call", json!({"name": "book", "arguments": {"a": 1}})));
            let requests =
                asks([("who", form("Who?")), ("line", sample()), ("where", InputRequest::ListRoots(None))]);
            lone.need_input(&call, &requests, b"step 1").expect("it may be asked");
            let sent = lone.sent();
            let methods: Vec<_> = sent.iter().map(|m| m["method"].as_str().expect("a request")).collect();
            assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
            // It waits, and does not stand in the way of others.
            assert_eq!(lone.pipe.engine().live_calls(), 0);
            let now = lone.now;
            assert_eq!(lone.pipe.engine().complete(now, call.id(), &json!({})), Err(UseError::Stale));
            lone.tell(&result(&sent[2], json!({"roots": []})));
            lone.tell(
                &json!({"jsonrpc": "2.0", "id": sent[1]["id"], "error": {"code": -1, "message": "no"}}),
            );
            lone.still();
            lone.tell(&result(&sent[0], alice()));
            let again = lone.call();
            assert_ne!(again.id(), call.id());
            assert_eq!((again.attempt(), again.state()), (1, Some(&b"step 1"[..])));
            assert_eq!(again.tool().expect("a tool").arguments, b"{\"a\":1}");
            assert_eq!((answer(&again, "who"), answer(&again, "where")), (alice(), json!({"roots": []})));
            // A refusal reaches the handler.
            assert!(again.answer("line").expect("an end").is_err());
            // A second round has the answers of the first.
            lone.need_input(&again, &asks([("color", form("Which?"))]), b"").expect("it may be asked");
            let ask = lone.reply();
            lone.tell(&result(&ask, json!({"action": "decline"})));
            let last = lone.call();
            assert_eq!((last.attempt(), answer(&last, "who")), (2, alice()));
            assert_eq!(lone.complete(last.id(), &json!({"content": []}))["id"], 1);
            lone.transcript
        });
    }
}

// covers: CANC-010, ELIC-021
#[test]
fn a_legacy_call_that_ends_takes_its_questions_back() {
    let waiting = |cut| {
        let mut lone = session(config(), Version::V2025_11_25, cut);
        let call = lone.take(&legacy(1, "tools/call", json!({"name": "book"})));
        lone.need_input(&call, &asks([("a", form("A?")), ("b", form("B?"))]), b"").expect("it may be asked");
        let asked = lone.sent();
        (lone, asked)
    };
    each_cut(|cut| {
        let (mut lone, asked) = waiting(cut);
        lone.tell(&note("notifications/cancelled", json!({"requestId": 1})));
        let cancels = lone.sent();
        let ids: Vec<_> = cancels.iter().map(|m| &m["params"]["requestId"]).collect();
        assert_eq!(ids, [&asked[0]["id"], &asked[1]["id"]]);
        // Nobody worked on it, so nobody has to be told; late answers change nothing.
        lone.still();
        lone.tell(&result(&asked[0], alice()));
        assert!(matches!(lone.event(), server::Event::Diagnostic { .. }));
        lone.works();
        lone.transcript
    });
    each_cut(|cut| {
        let (mut lone, _) = waiting(cut);
        lone.eof();
        assert!(lone.sent().iter().any(|m| m["id"] == 1 && m["error"]["code"] == -32603));
        lone.transcript
    });
    each_cut(|cut| {
        let (mut lone, asked) = waiting(cut);
        lone.tell(&result(&asked[0], alice()));
        lone.pass(secs(3_600) + ms(1));
        // The time is over: the handler goes on with what there is, and the client is told.
        let again = lone.call();
        assert_eq!(answer(&again, "a"), alice());
        assert!(again.answer("b").expect("an end").is_err());
        assert!(lone.sent().iter().any(|m| m["method"] == "notifications/cancelled"));
        lone.transcript
    });
}

// covers: CANC-010, ELIC-021
#[test]
fn a_handler_that_keeps_something_is_told_that_its_call_does_not_come_again() {
    let dropped = |lone: &mut LoneServer| match lone.event() {
        server::Event::Dropped { state } => state.to_vec(),
        other => panic!("{other:?}"),
    };
    for kept in [&b""[..], b"step 1"] {
        let waiting = || {
            let mut lone = session(config(), Version::V2025_11_25, Chunker::Whole);
            let call = lone.take(&legacy(1, "tools/call", json!({"name": "book"})));
            lone.need_input(&call, &asks([("a", form("A?"))]), kept).expect("it may be asked");
            let _ = lone.sent();
            lone
        };
        let mut cancelled = waiting();
        cancelled.tell(&note("notifications/cancelled", json!({"requestId": 1})));
        let mut left = waiting();
        left.eof();
        if kept.is_empty() {
            cancelled.pump();
            assert!(!cancelled.transcript.events.iter().any(|event| event.contains("Dropped")));
        } else {
            assert_eq!(dropped(&mut cancelled), kept);
            assert_eq!(dropped(&mut left), kept);
        }
    }
}

// covers: CANC-001, CANC-003, ELIC-021
#[test]
fn a_question_that_is_no_longer_needed_is_taken_back() {
    let mut lone = session(config(), Version::V2025_11_25, Chunker::Whole);
    let recall = |lone: &mut LoneServer, state: &[u8]| {
        let now = lone.now;
        let found = lone.pipe.engine().recall(now, state, Some("found it"));
        lone.pump();
        found
    };
    let call = lone.take(&legacy(1, "tools/call", json!({"name": "book"})));
    assert!(!recall(&mut lone, b"step 1") && !recall(&mut lone, b""));
    lone.need_input(&call, &asks([("a", form("A?")), ("b", form("B?"))]), b"step 1")
        .expect("it may be asked");
    let asked = lone.sent();
    lone.tell(&result(&asked[0], alice()));
    assert!(!recall(&mut lone, b"step 2"));
    assert!(recall(&mut lone, b"step 1"));
    let cancelled = lone.reply();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]),
        (&json!("notifications/cancelled"), &json!({"requestId": asked[1]["id"], "reason": "found it"}))
    );
    let again = lone.call();
    assert_eq!((again.state(), answer(&again, "a")), (Some(&b"step 1"[..]), alice()));
    assert_eq!(again.answer("b"), Some(Err(&mcp_proto::CallError::Cancelled)));
    assert!(!recall(&mut lone, b"step 1"), "it waits no more");
    // Too late.
    lone.tell(&result(&asked[1], alice()));
    assert!(matches!(lone.event(), server::Event::Diagnostic { .. }));
    assert_eq!(lone.complete(again.id(), &json!({"content": []}))["id"], 1);
    // A modern call waits nowhere.
    let call = lone.take(&tool(2, json!({})));
    lone.need_input(&call, &asks([("a", form("A?"))]), b"step 1").expect("it may be asked");
    assert!(!recall(&mut lone, b"step 1"));
}

// covers: ELIC-025, ELIC-032
#[test]
fn the_end_of_a_page_is_told_where_the_revision_has_it() {
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        let mut lone = session(config(), version, Chunker::Whole);
        let (now, channel) = (lone.now, lone.pipe.channel());
        let told = lone.pipe.engine().elicitation_complete(now, channel, "e-1");
        lone.pump();
        assert_eq!(told, version == Version::V2025_11_25);
        if told {
            let said = lone.reply();
            assert_eq!(said["method"], "notifications/elicitation/complete");
            assert_eq!(said["params"], json!({"elicitationId": "e-1"}));
        }
    }
}

// covers: PROG-013
#[test]
fn what_was_held_back_of_a_call_goes_out_while_it_waits_and_more_after_it() {
    let logging = Capabilities::new().with(Capability::Tools).with(Capability::Logging);
    let mut lone = session(config().capabilities(logging), Version::V2025_11_25, Chunker::Whole);
    let token = json!({"name": "book", "_meta": {"progressToken": "t"}});
    let call = lone.take(&legacy(1, "tools/call", token));
    let now = lone.now;
    for n in 1..=11 {
        lone.pipe.engine().progress(now, call.id(), Progress::new(f64::from(n))).expect("open");
    }
    lone.pump();
    assert_eq!(lone.sent().len(), 10);
    lone.need_input(&call, &asks([("who", form("Who?"))]), b"").expect("it may be asked");
    let ask = lone.reply();
    assert_eq!(ask["method"], "elicitation/create");
    lone.pass(ms(100));
    assert_eq!(lone.reply()["params"]["progress"], 11.0);
    lone.tell(&result(&ask, alice()));
    let again = lone.call();
    let now = lone.now;
    let sent = lone.pipe.engine().progress(now, again.id(), Progress::new(12.0));
    assert_eq!(sent, Ok(Sent::Queued));
}

// covers: MRTR-021
#[test]
fn a_state_is_bound_to_the_resource_whatever_else_stands_in_the_request() {
    let read = |id: i64, uri: &str, name: Value, more: Value| {
        let mut params = json!({"uri": uri, "name": name});
        let Value::Object(more) = more else { panic!("an object, not {more}") };
        params.as_object_mut().expect("an object").extend(more);
        modern(id, "resources/read", params)
    };
    for name in [json!("x"), json!(5)] {
        let mut lone = LoneServer::server(config(), Chunker::Whole);
        let call = lone.take(&read(1, "file:///mine", name.clone(), json!({})));
        lone.need_input(&call, &asks([("who", form("Who?"))]), b"yes").expect("it may be asked");
        let state = lone.reply()["result"]["requestState"].clone();
        let more = json!({"inputResponses": {"who": alice()}, "requestState": state});
        assert_eq!(lone.refused(&read(2, "file:///theirs", name.clone(), more.clone()))["code"], -32602);
        assert_eq!(lone.take(&read(3, "file:///mine", name, more)).state(), Some(&b"yes"[..]));
    }
}

#[test]
fn a_legacy_client_cannot_have_more_and_more_kept() {
    let config = config().limits(limits(|l| {
        l.max_frame = 10_000;
        l.max_kept_bytes = 20_000;
    }));
    let mut lone = session(config, Version::V2025_11_25, Chunker::Whole);
    let two = asks([("a", form("A?")), ("b", form("B?"))]);
    let book = |id: i64| legacy(id, "tools/call", json!({"name": "book"}));
    let long = || json!({"action": "accept", "content": {"name": "x".repeat(9_000)}});
    let mut asked = Vec::new();
    for id in 1..=4 {
        let call = lone.take(&book(id));
        lone.need_input(&call, &two, b"").expect("it may be asked");
        asked.push(lone.sent());
    }
    // The first answer to each is kept until the second one has come, which never does.
    for sent in &asked {
        lone.tell(&result(&sent[0], long()));
    }
    let call = lone.take(&book(5));
    assert_eq!(lone.need_input(&call, &two, b""), Err(UseError::Full("max_kept_bytes")));
    // What was too much did not stay; the handler learns that, and what came before it is there.
    for (n, sent) in asked.iter().enumerate() {
        lone.tell(&result(&sent[1], alice()));
        let again = lone.call();
        let first = again.answer("a").expect("an end").is_ok();
        assert_eq!(first, n < 3, "{n}");
        assert_eq!(answer(&again, "b"), alice());
        lone.complete(again.id(), &json!({"content": []}));
    }
    lone.need_input(&call, &two, b"").expect("there is room again");
}

// covers: MRTR-023
#[test]
fn a_state_is_good_for_as_long_as_was_promised() {
    for (begun, time) in [(ms(0), ms(500)), (ms(900), secs(1)), (ms(999), ms(1_001))] {
        let config = config().limits(limits(|l| l.input_timeout = time));
        let mut lone = LoneServer::server(config, Chunker::Whole);
        lone.pass(begun);
        let call = lone.take(&tool(1, json!({})));
        lone.need_input(&call, &asks([("who", form("Who?"))]), b"yes").expect("it may be asked");
        let more = json!({"requestState": lone.reply()["result"]["requestState"]});
        lone.pass(time - ms(1));
        let again = lone.take(&tool(2, more.clone()));
        assert_eq!(again.state(), Some(&b"yes"[..]));
        // Time is counted in seconds.
        lone.pass(ms(1_001));
        assert_eq!(lone.refused(&tool(3, more))["code"], -32602);
    }
}
