//! Calls that ended before they were sent.

use mcp_proto::{CallError, VersionSet};
use mcp_tests::harness::build::{LEGACY, result};
use mcp_tests::harness::{Chunker, LoneHttp};
use serde_json::json;

use crate::common::{client, secs};
use crate::http_client_shared::{V, can, lone, modern, once, renews};

// covers: HTTP-063, CANC-003, TIME-002 (a request that was not sent is not cancelled)
#[test]
fn what_ended_before_it_was_sent_is_never_executed() {
    for how in ["cancelled", "overdue"] {
        for version in LEGACY {
            let mut lone = lone(Chunker::Whole);
            let said = lone.to_legacy(version, Some("s"), can());
            let key = lone.call("tools/call", &json!({"name": "wave"}), &once().timeout(secs(1)));
            let other = lone.call("tools/list", &json!({}), &once());
            lone.silent();
            if how == "cancelled" {
                lone.client.engine().cancel(lone.now, key, None).expect("a call");
                assert_eq!(lone.done(key), Err(CallError::Cancelled));
            } else {
                lone.pass(secs(1));
                assert_eq!(lone.done(key), Err(CallError::TimedOut));
            }
            lone.status(said.id, 202);
            let get = lone.asked();
            lone.status(get.id, 405);
            // Neither the call nor its cancellation: the server has heard of none.
            let list = lone.posted("tools/list");
            lone.json(list.id, 200, &result(&list.body, json!({"tools": []})));
            assert!(lone.done(other).is_ok());
            lone.still();
            // One that the server has heard of is cancelled.
            let (key, asked) = lone.waves(&once());
            lone.client.engine().cancel(lone.now, key, None).expect("a call");
            assert_eq!(lone.done(key), Err(CallError::Cancelled));
            let said = lone.posted("notifications/cancelled");
            assert_eq!(said.body["params"]["requestId"], asked.body["id"]);
            assert_eq!(lone.aborted(), asked.id);
        }
    }
    let mut lone = modern(Chunker::Whole);
    let engine = lone.client.engine();
    let key = engine.call_tool(lone.now, "wave", &json!({}), &once()).expect("a call");
    engine.cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    lone.still();
}

// covers: HTTP-072, CANC-003
#[test]
fn a_call_that_is_cancelled_while_there_is_no_session_is_not_sent_again() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    let init = lone.asked();
    lone.aborted();
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    let get = renews(&mut lone, &init, "two");
    lone.stream(get.id);
    lone.still();
}

// covers: HTTP-088
#[test]
fn a_call_that_is_cancelled_while_it_is_held_is_not_told_of() {
    let config = LoneHttp::http().asks_for_credentials(true);
    let mut lone = LoneHttp::new(client(VersionSet::LEGACY), config, Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 401);
    lone.challenged();
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    lone.still();
    // Nor while it is on its way again.
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 401);
    let challenge = lone.challenged();
    let token = mcp_proto::http::client::Credential::bearer("x").expect("a token");
    lone.client.authorize(lone.now, challenge.exchange, token).expect("it was asked");
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    lone.still();
}

// covers: MRTR-013, TIME-006, HTTP-088
#[test]
fn a_repeat_that_is_held_has_the_time_of_its_call() {
    for how in ["a round", "lost"] {
        let config = LoneHttp::http().asks_for_credentials(true);
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), config, Chunker::Whole);
        lone.with_modern(json!({"tools": {}}));
        let (key, asked) = lone.waves(&once().repeatable());
        if how == "lost" {
            lone.breaks(asked.id);
            lone.pass(secs(1));
        } else {
            let needs = json!({"resultType": "input_required", "requestState": "x"});
            lone.json(asked.id, 200, &result(&asked.body, needs));
        }
        let again = lone.posted("tools/call");
        lone.status(again.id, 401);
        let challenge = lone.challenged();
        // People take their time.
        lone.pass(secs(1_800));
        lone.still();
        let token = mcp_proto::http::client::Credential::bearer("x").expect("a token");
        lone.client.authorize(lone.now, challenge.exchange, token).expect("it was asked");
        lone.posted("tools/call");
        // What was left of it is left.
        lone.pass(secs(59));
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.done(key), Err(CallError::TimedOut), "{how}");
        lone.aborted();
    }
}
