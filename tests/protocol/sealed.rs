//! The sealed `requestState` at the engine: what it is bound to, and when it is refused.
//!
//! The seal itself is tested in `mcp_proto::seal`, byte by byte. Input responses together with a state are tested in
//! `inputs_server`.

use alloc::sync::Arc;

use mcp_proto::model::{CallToolResult, InputRequest, InputRequests};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call};
use mcp_proto::server::{Authorization, Identity};
use mcp_proto::{Anchor, CallOptions, Capabilities, Capability, Instant, Version, VersionSet};
use mcp_tests::harness::build::{modern_request_with, to_value};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs, server};

/// Unix time at the start of the first process of a test.
const START_TIME: u64 = 1_800_000_000;

fn sealed_config(keys: Keys, start_time: u64) -> server::Config {
    let capabilities = [Capability::Tools, Capability::Prompts, Capability::Resources];
    server(VersionSet::ALL)
        .capabilities(capabilities.into_iter().fold(Capabilities::new(), Capabilities::with))
        .seal(keys, Anchor::new(Instant::ZERO, start_time))
}

fn start_harness(keys: Keys, start_time: u64) -> ServerHarness {
    ServerHarness::server(sealed_config(keys, start_time), Chunker::Whole)
}

fn keys() -> Keys {
    Keys::new([7; 32])
}

/// A modern request of a client with the roots capability.
fn request(id: i64, method: &str, params: Value) -> Value {
    modern_request_with(
        id,
        method,
        params,
        &json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}),
    )
}

fn call_request(id: i64, more: &Value) -> Value {
    let mut params = json!({"name": "book", "arguments": {"berth": "C14"}});
    for (name, value) in more.as_object().expect("members") {
        params[name] = value.clone();
    }
    request(id, "tools/call", params)
}

#[expect(deprecated, reason = "tested until its removal")]
fn roots(key: &str) -> InputRequests<'static> {
    let mut requests = InputRequests::new();
    requests.insert(key, InputRequest::ListRoots(None));
    requests
}

/// Requests roots under `key` and returns the sealed state.
fn request_input(harness: &mut ServerHarness, call: &Call, key: &str, state: &[u8]) -> String {
    harness.need_input(call, &roots(key), state).expect("the client can answer");
    harness.expect_reply()["result"]["requestState"].as_str().expect("a state").to_owned()
}

fn retry_params(state: &str) -> Value {
    json!({"inputResponses": {"a": {"roots": []}}, "requestState": state})
}

fn assert_refused(harness: &mut ServerHarness, request: &Value, case: &str) {
    let error = harness.expect_error(request);
    assert_eq!(error["code"], -32602, "{case}");
    let message = "`params.requestState` is not valid: begin again";
    assert_eq!(
        (&error["message"], error.get("data")),
        (&json!(message), None),
        "{case}: all cases share one message"
    );
}

fn party(principal: &str) -> Authorization {
    Authorization::new(Identity::new(principal))
}

// covers: MRTR-021, MRTR-023, ELIC-035
#[test]
fn request_state_is_bound_to_its_principal() {
    let principals = [None, Some(""), Some("alice"), Some("alicia")];
    let as_principal = |principal: Option<&str>| {
        let mut harness = start_harness(keys(), START_TIME);
        let channel = harness.pipe.channel();
        harness.pipe.engine().set_authorization(channel, principal.map(party));
        harness
    };
    for principal in principals {
        let mut harness = as_principal(principal);
        let call = harness.expect_call_for(&call_request(1, &json!({})));
        let state = request_input(&mut harness, &call, "a", b"approved");
        for retry_principal in principals {
            // The same server, another connection.
            let mut other = as_principal(retry_principal);
            if principal == retry_principal {
                assert_eq!(
                    other.expect_call_for(&call_request(2, &retry_params(&state))).state(),
                    Some(&b"approved"[..])
                );
            } else {
                assert_refused(
                    &mut other,
                    &call_request(2, &retry_params(&state)),
                    &format!("{principal:?} for {retry_principal:?}"),
                );
            }
        }
        // A principal that changes on one connection invalidates the state too.
        let channel = harness.pipe.channel();
        harness.pipe.engine().set_authorization(channel, Some(party("mallory")));
        assert_refused(&mut harness, &call_request(3, &retry_params(&state)), "the principal has changed");
    }
}

// covers: MRTR-020, MRTR-021
#[test]
fn request_state_of_a_later_round_is_tamper_proof() {
    let mut harness = start_harness(keys(), START_TIME);
    let call = harness.expect_call_for(&call_request(1, &json!({})));
    let first = request_input(&mut harness, &call, "a", b"one");
    let call = harness.expect_call_for(&call_request(2, &retry_params(&first)));
    let second = request_input(&mut harness, &call, "b", b"two");
    // The state carries the response of the first round, so every byte of it matters.
    assert!(second.len() > first.len());
    for at in 0..second.len() {
        for letter in ["A", "z", "-", "=", "."] {
            if second[at..].starts_with(letter) {
                continue;
            }
            let other = format!("{}{letter}{}", &second[..at], &second[at + 1..]);
            assert_refused(
                &mut harness,
                &call_request(3, &retry_params(&other)),
                &format!("{letter} at {at}"),
            );
        }
        // The head of one state and the tail of another.
        let spliced = format!("{}{}", &first[..at.min(first.len())], &second[at..]);
        if spliced != second {
            assert_refused(
                &mut harness,
                &call_request(3, &retry_params(&spliced)),
                &format!("spliced at {at}"),
            );
        }
    }
    let call = harness.expect_call_for(&call_request(4, &retry_params(&second)));
    assert_eq!((call.attempt(), call.state()), (2, Some(&b"two"[..])));
}

// covers: MRTR-023
#[test]
fn request_state_is_bound_to_its_prompt_or_resource() {
    let prompt = |id: i64, name: &str, more: &Value| {
        let mut params = json!({"name": name, "arguments": {"port": "Bergen"}});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
        request(id, "prompts/get", params)
    };
    let resource = |id: i64, uri: &str, more: &Value| {
        let mut params = json!({"uri": uri});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
        request(id, "resources/read", params)
    };
    let mut harness = start_harness(keys(), START_TIME);
    let call = harness.expect_call_for(&prompt(1, "tour", &json!({})));
    let of_prompt = request_input(&mut harness, &call, "a", b"");
    let call = harness.expect_call_for(&resource(2, "tide://1", &json!({})));
    let of_resource = request_input(&mut harness, &call, "a", b"");

    assert_refused(&mut harness, &prompt(3, "trip", &retry_params(&of_prompt)), "another prompt");
    let mut other = prompt(3, "tour", &retry_params(&of_prompt));
    other["params"]["arguments"]["port"] = json!("Oslo");
    assert_refused(&mut harness, &other, "other arguments");
    assert_refused(&mut harness, &prompt(3, "tour", &retry_params(&of_resource)), "the state of a resource");
    assert_refused(&mut harness, &resource(3, "tide://2", &retry_params(&of_resource)), "another resource");
    assert_refused(&mut harness, &resource(3, "tour", &retry_params(&of_prompt)), "the state of a prompt");
    let mut none = prompt(3, "tour", &retry_params(&of_prompt));
    none["params"].as_object_mut().expect("an object").remove("arguments");
    assert_refused(&mut harness, &none, "no arguments");

    assert_eq!(harness.expect_call_for(&prompt(4, "tour", &retry_params(&of_prompt))).attempt(), 1);
    assert_eq!(harness.expect_call_for(&resource(5, "tide://1", &retry_params(&of_resource))).attempt(), 1);
}

// covers: MRTR-023
#[test]
fn request_state_expires_after_an_hour_in_any_process() {
    let mut harness = start_harness(keys(), START_TIME);
    let call = harness.expect_call_for(&call_request(1, &json!({})));
    harness.advance(secs(100));
    let state = request_input(&mut harness, &call, "a", b"x");
    harness.advance(secs(3_599));
    assert_eq!(harness.expect_call_for(&call_request(2, &retry_params(&state))).attempt(), 1);
    harness.advance(secs(1));
    assert_refused(&mut harness, &call_request(3, &retry_params(&state)), "expired");
    // Another process has another start time.
    for (start_time, is_valid) in
        [(START_TIME, true), (START_TIME + 3_699, true), (START_TIME + 3_700, false)]
    {
        let mut later = start_harness(keys(), start_time);
        if is_valid {
            assert_eq!(
                later.expect_call_for(&call_request(2, &retry_params(&state))).state(),
                Some(&b"x"[..])
            );
        } else {
            assert_refused(&mut later, &call_request(2, &retry_params(&state)), "expired");
        }
    }
}

// covers: MRTR-020, MRTR-024
#[test]
fn replayed_request_state_repeats_the_same_attempt() {
    let mut harness = start_harness(keys(), START_TIME);
    let call = harness.expect_call_for(&call_request(1, &json!({})));
    let first = request_input(&mut harness, &call, "a", b"one");
    // The state is not a one-time ticket: the application must record what may happen only once.
    for id in 2..5 {
        let call = harness.expect_call_for(&call_request(id, &retry_params(&first)));
        assert_eq!((call.attempt(), call.state()), (1, Some(&b"one"[..])));
        let second = request_input(&mut harness, &call, "b", b"two");
        // An older state leads back to its round and restores nothing of later rounds.
        let again = harness.expect_call_for(&call_request(id + 10, &retry_params(&second)));
        assert!(again.answer("a").is_some() && again.attempt() == 2);
        harness.complete(again.id(), &json!({"content": []}));
    }
}

// covers: MRTR-021
#[test]
fn call_without_request_state_starts_over() {
    let mut harness = start_harness(keys(), START_TIME);
    let call = harness.expect_call_for(&call_request(1, &json!({})));
    let state = request_input(&mut harness, &call, "a", b"approved");
    let call = harness.expect_call_for(&call_request(2, &json!({"inputResponses": {"a": {"roots": []}}})));
    assert_eq!((call.attempt(), call.state()), (0, None));
    harness.complete(call.id(), &json!({"content": []}));
    for malformed in [json!(null), json!(7), json!({}), json!([state.clone()]), json!(true)] {
        let error = harness.expect_error(&call_request(3, &json!({"requestState": malformed})));
        assert_eq!(error["code"], -32602, "{malformed}");
    }
    // A server without seal keys refuses every state.
    let plain = server(VersionSet::ALL);
    let mut plain = ServerHarness::server(plain, Chunker::Whole);
    assert_refused(&mut plain, &call_request(3, &retry_params(&state)), "a server without seal keys");
}

// covers: MRTR-021
#[test]
fn seal_keys_can_be_rotated_between_rounds() {
    let (old, new) = ([1; 32], [2; 32]);
    let mut before = start_harness(Keys::new(old), START_TIME);
    let call = before.expect_call_for(&call_request(1, &json!({})));
    let state = request_input(&mut before, &call, "a", b"one");
    // The new key seals the state that the old key opened.
    let mut between = start_harness(Keys::new(new).with_older(old), START_TIME);
    let call = between.expect_call_for(&call_request(2, &retry_params(&state)));
    let newer = request_input(&mut between, &call, "b", b"two");
    let mut after = start_harness(Keys::new(new), START_TIME);
    assert_refused(&mut after, &call_request(3, &retry_params(&state)), "its key was removed");
    let call = after.expect_call_for(&call_request(3, &retry_params(&newer)));
    assert_eq!((call.attempt(), call.state()), (2, Some(&b"two"[..])));
    assert_eq!(
        to_value(call.answer("a").expect("a restored response").expect("a result")),
        json!({"roots": []})
    );
    assert_refused(&mut before, &call_request(4, &retry_params(&newer)), "an unknown newer key");
}

/// A tool that requires input three times and returns its attempts and its state.
fn serve(server: &mut Server, now: Instant) {
    while let Some(event) = server.poll_event(now) {
        let server::Event::Call(call) = event else { continue };
        let engine = server.engine();
        let state = String::from_utf8(call.state().unwrap_or_default().to_vec()).expect("text");
        let answers = ["0", "1", "2"].map(|key| call.answer(key).is_some());
        let so_far = format!("{state}{}{answers:?} ", call.attempt());
        match call.attempt() {
            3 => engine.complete(now, call.id(), &CallToolResult::text(so_far)).expect("open"),
            n => engine.need_input(now, &call, &roots(&n.to_string()), so_far.as_bytes()).expect("declared"),
        }
    }
}

/// Runs a call of three rounds; with `restarts` the server is replaced before each round.
#[expect(deprecated, reason = "tested until its removal")]
fn run_with_restarts(restarts: bool) -> (String, u32) {
    let config = client(VersionSet::only(Version::V2026_07_28))
        .capabilities(Capabilities::new().with(Capability::Roots));
    // Each process counts from its own start.
    let (mut now, mut process_start) = (Instant::ZERO, Instant::ZERO);
    let since = |now: Instant, process_start| Instant::ZERO + now.saturating_duration_since(process_start);
    let mut client = Client::new(Arc::new(config), now);
    let mut server = Server::new(Arc::new(sealed_config(keys(), START_TIME)), Instant::ZERO);
    client
        .engine()
        .call_tool(now, "book", &json!({"berth": "C14", "nights": 2}), &CallOptions::new())
        .expect("queued");
    let mut restarted = 0;
    loop {
        let (up, down) = (client.transmit().to_vec(), server.transmit().to_vec());
        client.consume(up.len());
        server.consume(down.len());
        server.handle_input(since(now, process_start), &up);
        client.handle_input(now, &down);
        serve(&mut server, since(now, process_start));
        while let Some(event) = client.poll_event(now) {
            match event {
                mcp_proto::client::Event::Input(input) => {
                    now = now + secs(60);
                    if restarts {
                        // Another process takes over the connection: between two rounds the first one holds no state.
                        assert!(server.transmit().is_empty() && server.engine().live_calls() == 0);
                        restarted += 1;
                        process_start = now;
                        let unix = START_TIME + now.as_micros() / 1_000_000;
                        server = Server::new(Arc::new(sealed_config(keys(), unix)), Instant::ZERO);
                    }
                    client.engine().answer(now, input.id, &json!({"roots": []})).expect("open");
                }
                mcp_proto::client::Event::Done { outcome, .. } => {
                    let result = to_value(&outcome.expect("a result"));
                    return (result["content"][0]["text"].as_str().expect("a text").to_owned(), restarted);
                }
                _ => {}
            }
        }
    }
}

// covers: MRTR-021, MRTR-026
#[test]
fn server_restart_between_rounds_changes_nothing() {
    let (text, restarted) = run_with_restarts(false);
    let want = "0[false, false, false] 1[true, false, false] 2[true, true, false] 3[true, true, true] ";
    assert_eq!((text.as_str(), restarted), (want, 0));
    assert_eq!(run_with_restarts(true), (text, 3));
}
