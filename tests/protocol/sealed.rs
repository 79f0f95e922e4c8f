//! The state that a client carries from round to round, at the engine: what it is good for, and what it is not.
//!
//! The seal itself is tested where it is made, byte by byte (`mcp_proto::seal`); answers that come with a state in
//! `inputs_server`.

use alloc::sync::Arc;

use mcp_proto::model::{CallToolResult, InputRequest, InputRequests};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call};
use mcp_proto::{Anchor, CallOptions, Capabilities, Capability, Instant, Version, VersionSet};
use mcp_tests::harness::build::{modern_with, value};
use mcp_tests::harness::{Chunker, LoneServer};
use serde_json::{Value, json};

use crate::common::{client, secs, server};

/// When the first process of a test began
const BORN: u64 = 1_800_000_000;

fn sealing(keys: Keys, born: u64) -> server::Config {
    let serves = [Capability::Tools, Capability::Prompts, Capability::Resources];
    server(VersionSet::ALL)
        .capabilities(serves.into_iter().fold(Capabilities::new(), Capabilities::with))
        .seal(keys, Anchor::new(Instant::ZERO, born))
}

fn start(keys: Keys, born: u64) -> LoneServer {
    LoneServer::server(sealing(keys, born), Chunker::Whole)
}

fn keys() -> Keys {
    Keys::new([7; 32])
}

/// A modern request of a client that can say where its roots are
fn request(id: i64, method: &str, params: Value) -> Value {
    modern_with(id, method, params, &json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}))
}

fn book(id: i64, more: &Value) -> Value {
    let mut params = json!({"name": "book", "arguments": {"berth": "C14"}});
    for (name, value) in more.as_object().expect("members") {
        params[name] = value.clone();
    }
    request(id, "tools/call", params)
}

fn roots(key: &str) -> InputRequests<'static> {
    let mut requests = InputRequests::new();
    requests.insert(key, InputRequest::ListRoots(None));
    requests
}

/// Asks for roots under `key`; the state that the client is to send back
fn ask(lone: &mut LoneServer, call: &Call, key: &str, state: &[u8]) -> String {
    lone.need_input(call, &roots(key), state).expect("it may be asked");
    lone.reply()["result"]["requestState"].as_str().expect("a state").to_owned()
}

fn with(state: &str) -> Value {
    json!({"inputResponses": {"a": {"roots": []}}, "requestState": state})
}

fn refused(lone: &mut LoneServer, request: &Value, why: &str) {
    let error = lone.refused(request);
    assert_eq!(error["code"], -32602, "{why}");
    let message = "`params.requestState` is not valid: begin again";
    assert_eq!((&error["message"], error.get("data")), (&json!(message), None), "{why}: one text for all");
}

// covers: MRTR-021, MRTR-023, ELIC-035
#[test]
fn a_state_is_good_for_the_principal_that_it_was_made_for() {
    let principals = [None, Some(""), Some("alice"), Some("alicia")];
    let as_principal = |principal: Option<&str>| {
        let mut lone = start(keys(), BORN);
        let channel = lone.pipe.channel();
        lone.pipe.engine().set_principal(channel, principal);
        lone
    };
    for ours in principals {
        let mut lone = as_principal(ours);
        let call = lone.take(&book(1, &json!({})));
        let state = ask(&mut lone, &call, "a", b"approved");
        for theirs in principals {
            // The same server, another connection.
            let mut other = as_principal(theirs);
            if ours == theirs {
                assert_eq!(other.take(&book(2, &with(&state))).state(), Some(&b"approved"[..]));
            } else {
                refused(&mut other, &book(2, &with(&state)), &format!("{ours:?} for {theirs:?}"));
            }
        }
        // Nor when it changes while the connection lasts.
        let channel = lone.pipe.channel();
        lone.pipe.engine().set_principal(channel, Some("mallory"));
        refused(&mut lone, &book(3, &with(&state)), "now it is somebody else");
    }
}

// covers: MRTR-020, MRTR-021
#[test]
fn a_state_of_a_later_round_cannot_be_changed_either() {
    let mut lone = start(keys(), BORN);
    let call = lone.take(&book(1, &json!({})));
    let first = ask(&mut lone, &call, "a", b"one");
    let call = lone.take(&book(2, &with(&first)));
    let second = ask(&mut lone, &call, "b", b"two");
    // It carries the answer of the first round, so each letter of it matters.
    assert!(second.len() > first.len());
    for at in 0..second.len() {
        for letter in ["A", "z", "-", "=", "."] {
            if second[at..].starts_with(letter) {
                continue;
            }
            let other = format!("{}{letter}{}", &second[..at], &second[at + 1..]);
            refused(&mut lone, &book(3, &with(&other)), &format!("{letter} at {at}"));
        }
        // The head of one and the tail of another.
        let spliced = format!("{}{}", &first[..at.min(first.len())], &second[at..]);
        if spliced != second {
            refused(&mut lone, &book(3, &with(&spliced)), &format!("spliced at {at}"));
        }
    }
    let call = lone.take(&book(4, &with(&second)));
    assert_eq!((call.attempt(), call.state()), (2, Some(&b"two"[..])));
}

// covers: MRTR-023
#[test]
fn a_state_is_bound_to_prompts_and_resources_too() {
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
    let mut lone = start(keys(), BORN);
    let call = lone.take(&prompt(1, "tour", &json!({})));
    let of_prompt = ask(&mut lone, &call, "a", b"");
    let call = lone.take(&resource(2, "tide://1", &json!({})));
    let of_resource = ask(&mut lone, &call, "a", b"");

    refused(&mut lone, &prompt(3, "trip", &with(&of_prompt)), "another prompt");
    let mut other = prompt(3, "tour", &with(&of_prompt));
    other["params"]["arguments"]["port"] = json!("Oslo");
    refused(&mut lone, &other, "other arguments");
    refused(&mut lone, &prompt(3, "tour", &with(&of_resource)), "a resource's");
    refused(&mut lone, &resource(3, "tide://2", &with(&of_resource)), "another resource");
    refused(&mut lone, &resource(3, "tour", &with(&of_prompt)), "a prompt's");
    let mut none = prompt(3, "tour", &with(&of_prompt));
    none["params"].as_object_mut().expect("an object").remove("arguments");
    refused(&mut lone, &none, "no arguments");

    assert_eq!(lone.take(&prompt(4, "tour", &with(&of_prompt))).attempt(), 1);
    assert_eq!(lone.take(&resource(5, "tide://1", &with(&of_resource))).attempt(), 1);
}

// covers: MRTR-023
#[test]
fn a_state_is_good_for_an_hour_in_whichever_process() {
    let mut lone = start(keys(), BORN);
    let call = lone.take(&book(1, &json!({})));
    lone.pass(secs(100));
    let state = ask(&mut lone, &call, "a", b"x");
    lone.pass(secs(3_599));
    assert_eq!(lone.take(&book(2, &with(&state))).attempt(), 1);
    lone.pass(secs(1));
    refused(&mut lone, &book(3, &with(&state)), "expired");
    // A process that began later counts from its own beginning.
    for (born, good) in [(BORN, true), (BORN + 3_699, true), (BORN + 3_700, false)] {
        let mut later = start(keys(), born);
        if good {
            assert_eq!(later.take(&book(2, &with(&state))).state(), Some(&b"x"[..]));
        } else {
            refused(&mut later, &book(2, &with(&state)), "expired");
        }
    }
}

// covers: MRTR-020, MRTR-024
#[test]
fn a_state_that_comes_again_is_the_same_call_again() {
    let mut lone = start(keys(), BORN);
    let call = lone.take(&book(1, &json!({})));
    let first = ask(&mut lone, &call, "a", b"one");
    // It is no ticket: what must happen once is the application's to remember.
    for id in 2..5 {
        let call = lone.take(&book(id, &with(&first)));
        assert_eq!((call.attempt(), call.state()), (1, Some(&b"one"[..])));
        let second = ask(&mut lone, &call, "b", b"two");
        // An older one leads back, and brings nothing along of what came after it.
        let again = lone.take(&book(id + 10, &with(&second)));
        assert!(again.answer("a").is_some() && again.attempt() == 2);
        lone.complete(again.id(), &json!({"content": []}));
    }
}

// covers: MRTR-021
#[test]
fn without_its_state_a_call_begins_anew() {
    let mut lone = start(keys(), BORN);
    let call = lone.take(&book(1, &json!({})));
    let state = ask(&mut lone, &call, "a", b"approved");
    let call = lone.take(&book(2, &json!({"inputResponses": {"a": {"roots": []}}})));
    assert_eq!((call.attempt(), call.state()), (0, None));
    lone.complete(call.id(), &json!({"content": []}));
    for odd in [json!(null), json!(7), json!({}), json!([state.clone()]), json!(true)] {
        let error = lone.refused(&book(3, &json!({"requestState": odd})));
        assert_eq!(error["code"], -32602, "{odd}");
    }
    // A server that seals nothing takes no state, whoever made it.
    let plain = server(VersionSet::ALL);
    let mut plain = LoneServer::server(plain, Chunker::Whole);
    refused(&mut plain, &book(3, &with(&state)), "nobody sealed here");
}

// covers: MRTR-021
#[test]
fn keys_are_exchanged_while_calls_are_on_their_way() {
    let (old, new) = ([1; 32], [2; 32]);
    let mut before = start(Keys::new(old), BORN);
    let call = before.take(&book(1, &json!({})));
    let state = ask(&mut before, &call, "a", b"one");
    // The new key seals what the old one opened.
    let mut between = start(Keys::new(new).older(old), BORN);
    let call = between.take(&book(2, &with(&state)));
    let newer = ask(&mut between, &call, "b", b"two");
    let mut after = start(Keys::new(new), BORN);
    refused(&mut after, &book(3, &with(&state)), "its key is gone");
    let call = after.take(&book(3, &with(&newer)));
    assert_eq!((call.attempt(), call.state()), (2, Some(&b"two"[..])));
    assert_eq!(value(call.answer("a").expect("carried").expect("a result")), json!({"roots": []}));
    refused(&mut before, &book(4, &with(&newer)), "a key of later");
}

/// A tool that asks three times and says how often it was called and what it kept
fn serve(server: &mut Server, now: Instant) {
    while let Some(event) = server.poll_event(now) {
        let server::Event::Call(call) = event else { continue };
        let engine = server.engine();
        let kept = String::from_utf8(call.state().unwrap_or_default().to_vec()).expect("text");
        let answers = ["0", "1", "2"].map(|key| call.answer(key).is_some());
        let so_far = format!("{kept}{}{answers:?} ", call.attempt());
        match call.attempt() {
            3 => engine.complete(now, call.id(), &CallToolResult::text(so_far)).expect("open"),
            n => engine.need_input(now, &call, &roots(&n.to_string()), so_far.as_bytes()).expect("declared"),
        }
    }
}

/// A call of three rounds, before each of which the server may be another process
fn talk(restarts: bool) -> (String, u32) {
    let ours = client(VersionSet::only(Version::V2026_07_28))
        .capabilities(Capabilities::new().with(Capability::Roots));
    // Each process counts from its own beginning.
    let (mut now, mut begun) = (Instant::ZERO, Instant::ZERO);
    let since = |now: Instant, begun| Instant::ZERO + now.saturating_duration_since(begun);
    let mut client = Client::new(Arc::new(ours), now);
    let mut server = Server::new(Arc::new(sealing(keys(), BORN)), Instant::ZERO);
    client
        .engine()
        .call_tool(now, "book", &json!({"berth": "C14", "nights": 2}), &CallOptions::new())
        .expect("queued");
    let mut restarted = 0;
    loop {
        let (up, down) = (client.transmit().to_vec(), server.transmit().to_vec());
        client.consume(up.len());
        server.consume(down.len());
        server.handle_input(since(now, begun), &up);
        client.handle_input(now, &down);
        serve(&mut server, since(now, begun));
        while let Some(event) = client.poll_event(now) {
            match event {
                mcp_proto::client::Event::Input(input) => {
                    now = now + secs(60);
                    if restarts {
                        // Whoever holds the connection has another process take it over: between two rounds nothing is
                        // left at the first.
                        assert!(server.transmit().is_empty() && server.engine().live_calls() == 0);
                        restarted += 1;
                        begun = now;
                        let unix = BORN + now.as_micros() / 1_000_000;
                        server = Server::new(Arc::new(sealing(keys(), unix)), Instant::ZERO);
                    }
                    client.engine().answer(now, input.id, &json!({"roots": []})).expect("open");
                }
                mcp_proto::client::Event::Done { outcome, .. } => {
                    let result = value(&outcome.expect("a result"));
                    return (result["content"][0]["text"].as_str().expect("a text").to_owned(), restarted);
                }
                _ => {}
            }
        }
    }
}

// covers: MRTR-021, MRTR-026
#[test]
fn a_restart_of_the_server_between_two_rounds_changes_nothing() {
    let (told, none) = talk(false);
    let want = "0[false, false, false] 1[true, false, false] 2[true, true, false] 3[true, true, true] ";
    assert_eq!((told.as_str(), none), (want, 0));
    assert_eq!(talk(true), (told, 3));
}
