//! What is said by the way: messages that a server does not take, subscriptions that only begin.

use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_tests::harness::build::{legacy, note, result};
use mcp_tests::harness::{Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{ms, secs};
use crate::http_client_shared::{V, answer, can, lone, modern, once, told};

// covers: SUB-004, SUB-015
#[test]
fn a_subscription_that_only_ever_begins_is_asked_for_less_and_less() {
    let mut lone = modern(Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    let acknowledges = |lone: &mut LoneHttp| {
        let listen = lone.posted("subscriptions/listen");
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.body["id"]});
        lone.stream(listen.id);
        let told = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        lone.event(listen.id, "", &note("notifications/subscriptions/acknowledged", told));
        assert!(matches!(lone.next_event(), Event::Subscribed { .. }));
        (listen.id, meta)
    };
    for pause in [1, 2, 4, 8, 16, 16, 16, 16] {
        let (listen, _) = acknowledges(&mut lone);
        lone.end(listen);
        lone.pass(secs(pause) - ms(1));
        lone.still();
        lone.pass(ms(1));
    }
    let (listen, meta) = acknowledges(&mut lone);
    lone.event(listen, "", &note("notifications/tools/list_changed", json!({"_meta": meta})));
    assert!(matches!(lone.next_event(), Event::Changed { .. }));
    lone.end(listen);
    lone.pass(secs(1));
    // One that lived long is as good, though nothing happened.
    for _ in 0..3 {
        let (listen, _) = acknowledges(&mut lone);
        lone.pass(secs(60));
        lone.breaks(listen);
        lone.pass(secs(1));
    }
    acknowledges(&mut lone);
}

// covers: HTTP-019
#[test]
fn a_message_that_the_server_did_not_take_is_sent_again() {
    // What was not taken leaves the question open.
    let open = |lone: &mut LoneHttp, id: i64| {
        let ping = legacy(id, "ping", Value::Null).to_string();
        lone.watch.fed(lone.now, mcp_tests::schema::Direction::ServerToClient, ping.as_bytes());
    };
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, Some("s"), can());
        lone.event(get, "", &legacy(5, "ping", Value::Null));
        let said = lone.asked();
        lone.unreachable(said.id);
        lone.pass(secs(1) - ms(1));
        lone.still();
        open(&mut lone, 5);
        lone.pass(ms(1));
        let again = lone.asked();
        assert_eq!(again.body, said.body);
        lone.answer_with(again.id, 503, &[("Retry-After", "4")], "");
        lone.pass(secs(4) - ms(1));
        lone.still();
        open(&mut lone, 5);
        lone.pass(ms(1));
        let again = lone.asked();
        assert_eq!(again.body, said.body);
        // What may have been taken is not sent twice.
        lone.breaks(again.id);
        assert!(told(lone.diagnosed()).contains("not accepted"));
        lone.pass(secs(100));
        lone.still();
        // Nor is it tried without end.
        lone.event(get, "", &legacy(6, "ping", Value::Null));
        for pause in [1, 2, 4, 8, 16] {
            let said = lone.asked();
            lone.unreachable(said.id);
            open(&mut lone, 6);
            lone.pass(secs(pause));
        }
        let said = lone.asked();
        lone.unreachable(said.id);
        assert!(told(lone.diagnosed()).contains("not accepted"));
        lone.pass(secs(100));
        lone.still();
        lone.transcript
    });
}

// covers: HTTP-019, SEC-018
#[test]
fn messages_that_wait_to_be_taken_hold_nothing_up() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, Some("s"), can());
    for id in 0..200 {
        lone.event(get, "", &legacy(id, "ping", Value::Null));
        let pong = lone.asked();
        assert_eq!(pong.body["id"], id);
        let wait: &[(&str, &str)] = if id % 2 == 0 { &[] } else { &[("Retry-After", "999999999")] };
        lone.answer_with(pong.id, 503, wait, "");
    }
    // Those that would have to wait for long, and those that are too many, are given up.
    assert_eq!(lone.odd().len(), 200 - 64);
    let (key, asked) = lone.waves(&once());
    lone.json(asked.id, 200, &result(&asked.body, answer()));
    assert_eq!(lone.done(key), Ok(answer()));
    for id in 0..200 {
        let ping = legacy(id, "ping", Value::Null).to_string();
        lone.watch.fed(lone.now, mcp_tests::schema::Direction::ServerToClient, ping.as_bytes());
    }
    lone.pass(secs(1));
    let again = lone.all_asked();
    assert_eq!(again.len(), 64);
    for asked in again {
        lone.status(asked.id, 202);
    }
    lone.pass(secs(1_000));
    lone.still();
}

// covers: CANC-003, HTTP-014
#[test]
fn what_was_said_before_the_end_still_goes_out() {
    let mut lone = lone(Chunker::Whole);
    let get = lone.with_stream(V, Some("s"), can());
    lone.event(get, "", &legacy(7, "roots/list", Value::Null));
    let Event::Input(input) = lone.next_event() else { panic!("an input") };
    let engine = lone.client.engine();
    engine.call_tool(lone.now, "wave", &json!({}), &once()).expect("a call");
    engine.answer(lone.now, input.id, &json!({"roots": []})).expect("answered");
    engine.notify(lone.now, "x/y", None::<&Value>).expect("a notification");
    lone.client.close(lone.now);
    let said = lone.all_asked();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0].body["id"], 7);
    assert_eq!(said[1].body["method"], "x/y");
    assert_eq!(said[2].method, "DELETE");
    for asked in &said {
        assert_eq!(asked.field("mcp-session-id"), Some("s"));
        lone.status(asked.id, 202);
    }
    lone.aborted();
    assert!(matches!(lone.next_event(), Event::Done { .. }));
    lone.closed();
    assert!(lone.client.is_drained());

    let mut lone = modern(Chunker::Whole);
    lone.client.engine().notify(lone.now, "x/y", None::<&Value>).expect("a notification");
    lone.client.close(lone.now);
    let said = lone.posted("x/y");
    lone.status(said.id, 202);
    lone.closed();
    assert!(lone.client.is_drained());
}
