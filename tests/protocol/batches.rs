//! Batches: one array in and one array out in 2025-03-26, refused in every other revision.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::server::Call;
use mcp_proto::{CallError, CallOptions, Diagnostic, Malformed, Progress, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, initialize, legacy, modern, note};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, secs, server};

const V: Version = Version::V2025_03_26;

/// A server with a session that knows batches
fn session(cut: Chunker) -> LoneServer {
    let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
    lone.open(V);
    lone
}

fn ask(id: impl Into<Value>) -> Value {
    legacy(id, "tools/call", json!({"name": "a"}))
}

fn ping(id: impl Into<Value>) -> Value {
    legacy(id, "ping", Value::Null)
}

fn cancel(id: impl Into<Value>) -> Value {
    note("notifications/cancelled", json!({"requestId": id.into()}))
}

/// Answers a call that is not the last of its batch
fn complete_silently(lone: &mut LoneServer, call: &Call) {
    lone.pipe.engine().complete(lone.now, call.id(), &json!({"content": []})).expect("open");
    lone.silent();
}

fn ids(batch: &Value) -> Vec<Value> {
    batch.as_array().expect("an array").iter().map(|m| m["id"].clone()).collect()
}

// covers: BATCH-001, BATCH-007, BATCH-013
#[test]
fn a_mixed_batch_gets_one_array_when_all_answers_are_there() {
    each_cut(|cut| {
        let mut lone = session(cut);
        lone.tell(&json!([ask(1), note("notifications/harbor/wind", json!({})), ping("p"), ask(2), ping(3)]));
        let first = lone.call();
        assert!(matches!(lone.event(), mcp_proto::server::Event::Notification(_)));
        let second = lone.call();
        lone.still();
        complete_silently(&mut lone, &second);
        let batch = lone.complete(first.id(), &json!({"content": []}));
        assert_eq!(ids(&batch), [json!("p"), json!(3), json!(2), json!(1)]);
        lone.still();
        lone.transcript
    });
}

// covers: BATCH-007
#[test]
fn a_batch_of_quick_requests_is_answered_at_once_and_one_of_news_not_at_all() {
    each_cut(|cut| {
        let mut lone = session(cut);
        lone.tell(&json!([ping(1), ping(2)]));
        assert_eq!(ids(&lone.reply()), [1, 2]);
        lone.tell(&json!([ping(1)]));
        assert_eq!(
            lone.reply(),
            json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]),
            "one answer, still an array"
        );
        lone.tell(&json!([note("notifications/a", Value::Null), note("notifications/b", Value::Null)]));
        assert_eq!(lone.said().len(), 2);
        lone.silent();
        lone.tell(&json!([json!({"jsonrpc": "2.0", "id": 9, "result": {}})]));
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownResponse(_)));
        lone.still();
        lone.transcript
    });
}

// covers: BATCH-006
#[test]
fn an_empty_batch_is_no_message() {
    each_cut(|cut| {
        let mut lone = session(cut);
        for empty in ["[]", "[ ]", " [\t] "] {
            lone.feed(empty);
            assert!(matches!(
                lone.diagnostic(),
                Diagnostic::Malformed { why: Malformed::Batch, id: None, answered: false }
            ));
            // The revision has no form for an error without an id.
            lone.still();
        }
        lone.transcript
    });
}

// covers: BATCH-008, BASE-014
#[test]
fn a_faulty_member_costs_the_others_nothing() {
    each_cut(|cut| {
        let mut lone = session(cut);
        lone.tell(&json!([
            ping(1),
            {"jsonrpc": "2.0", "id": 2, "method": 3},
            {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": []},
            {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
            7,
            "text",
            null,
            [ping(4)],
            {},
            ask(5),
            {"jsonrpc": "2.0", "id": 6, "method": "unheard/of"},
        ]));
        let said = lone.said();
        assert_eq!(said.iter().filter(|s| s.starts_with("diagnostic Malformed")).count(), 8, "{said:#?}");
        let call = said.iter().position(|s| s.starts_with("call")).expect("the call");
        assert_eq!(call, said.len() - 1, "in order");
        lone.silent();
        lone.tell(&cancel(5));
        let batch = lone.reply();
        assert_eq!(ids(&batch), [1, 2, 3, 6]);
        let codes: Vec<_> =
            batch.as_array().expect("an array")[1..].iter().map(|m| m["error"]["code"].clone()).collect();
        assert_eq!(codes, [-32600, -32602, -32601]);
        lone.transcript
    });
}

// covers: BATCH-003
#[test]
fn initialize_is_never_part_of_a_batch() {
    each_cut(|cut| {
        let mut lone = session(cut);
        lone.tell(&json!([initialize(6, "2024-11-05"), ping(7)]));
        let batch = lone.reply();
        assert_eq!(ids(&batch), [6, 7]);
        assert_eq!(batch[0]["error"]["code"], -32600);
        let call = lone.take(&ask(8));
        assert_eq!(call.version(), V, "nothing has changed");
        lone.transcript
    });
    // Before there is a session there are no batches at all.
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
        lone.tell(&json!([initialize(6, "2025-03-26")]));
        assert!(matches!(
            lone.diagnostic(),
            Diagnostic::Malformed { why: Malformed::Batch, answered: false, .. }
        ));
        lone.still();
        lone.open(V);
        lone.transcript
    });
}

// covers: BATCH-007, CANC-010, CANC-020
#[test]
fn cancelled_members_are_left_out() {
    each_cut(|cut| {
        let mut lone = session(cut);
        lone.tell(&json!([ask(1), ask(2), ask(3)]));
        let calls = [lone.call(), lone.call(), lone.call()];
        lone.tell(&cancel(2));
        lone.cancelled(&calls[1]);
        complete_silently(&mut lone, &calls[0]);
        assert_eq!(ids(&lone.complete(calls[2].id(), &json!({"content": []}))), [1, 3]);
        // All of them: nothing is sent.
        lone.tell(&json!([ask(1), ask(2)]));
        let calls = [lone.call(), lone.call()];
        lone.tell(&json!([cancel(1), cancel(2)]));
        lone.cancelled(&calls[0]);
        lone.cancelled(&calls[1]);
        lone.still();
        lone.transcript
    });
}

// covers: BATCH-001, BATCH-007, CANC-010
#[test]
fn a_batch_may_cancel_its_own_members() {
    each_cut(|cut| {
        let mut lone = session(cut);
        lone.tell(&json!([ask(1), cancel(1), ask(2), ping(3)]));
        let first = lone.call();
        lone.cancelled(&first);
        let second = lone.call();
        lone.still();
        assert_eq!(ids(&lone.complete(second.id(), &json!({"content": []}))), [3, 2]);
        lone.tell(&json!([ask(1), cancel(1)]));
        let first = lone.call();
        lone.cancelled(&first);
        lone.still();
        lone.transcript
    });
}

// covers: BATCH-007, BASE-008
#[test]
fn errors_ids_in_flight_and_progress_in_a_batch() {
    each_cut(|cut| {
        let mut lone = session(cut);
        let with_token = legacy(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": "t"}}));
        lone.tell(&json!([with_token, ask(1), ask("1")]));
        let first = lone.call();
        assert!(matches!(lone.diagnostic(), Diagnostic::DuplicateId(_)));
        let second = lone.call();
        lone.pipe.engine().progress(lone.now, first.id(), Progress::new(1.0)).expect("open");
        assert_eq!(lone.reply()["method"], "notifications/progress", "at once, and by itself");
        lone.pipe.engine().fail(lone.now, first.id(), &RpcError::new(7, "no")).expect("open");
        lone.silent();
        let batch = lone.complete(second.id(), &json!({"content": []}));
        assert_eq!(batch[0]["error"], json!({"code": 7, "message": "no"}));
        assert_eq!(ids(&batch), [json!(1), json!("1")]);
        lone.transcript
    });
}

// covers: BATCH-007, STDIO-028
#[test]
fn a_batch_that_is_never_finished_is_answered_by_age() {
    each_cut(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_call_age = secs(10)));
        let mut lone = LoneServer::server(config, cut);
        lone.open(V);
        lone.tell(&json!([ask(1), ask(2)]));
        let (first, second) = (lone.call(), lone.call());
        complete_silently(&mut lone, &first);
        lone.pass(secs(10));
        lone.cancelled(&second);
        let batch = lone.reply();
        assert_eq!((ids(&batch), &batch[1]["error"]["code"]), (vec![json!(1), json!(2)], &json!(-32603)));
        lone.transcript
    });
}

// covers: BATCH-006, BATCH-001
#[test]
fn the_members_of_a_batch_are_bounded() {
    each_cut(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_batch = 3));
        let mut lone = LoneServer::server(config, cut);
        lone.open(V);
        lone.tell(&json!([ping(1), ping(2), ping(3)]));
        assert_eq!(ids(&lone.reply()), [1, 2, 3]);
        lone.tell(&json!([ping(1), ping(2), ping(3), ping(4)]));
        assert!(matches!(
            lone.diagnostic(),
            Diagnostic::Malformed { why: Malformed::Batch, answered: false, .. }
        ));
        lone.still();
        lone.tell(&ping(1));
        lone.reply();
        lone.transcript
    });
}

// covers: BATCH-001, BATCH-007
#[test]
fn the_answer_to_a_batch_is_bounded() {
    each_cut(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_batch_bytes = 300));
        let mut lone = LoneServer::server(config, cut);
        lone.open(V);
        lone.tell(&json!([ask(1), ask(2), ask(3)]));
        let calls = [lone.call(), lone.call(), lone.call()];
        let long = json!({"content": [{"type": "text", "text": "x".repeat(200)}]});
        for call in &calls[..2] {
            lone.pipe.engine().complete(lone.now, call.id(), &long).expect("open");
        }
        let batch = lone.complete(calls[2].id(), &json!({"content": []}));
        assert_eq!(ids(&batch), [1, 2, 3], "none is without an answer");
        assert!(batch[0].get("result").is_some());
        assert_eq!(batch[1]["error"]["code"], -32603);
        lone.transcript
    });
}

// covers: BASE-033, BATCH-001
#[test]
fn a_batch_does_not_pass_the_limit_of_calls_in_work() {
    each_cut(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 2));
        let mut lone = LoneServer::server(config, cut);
        lone.open(V);
        lone.tell(&json!([ask(1), ask(2), ask(3), ping(4)]));
        let calls = [lone.call(), lone.call()];
        lone.still();
        complete_silently(&mut lone, &calls[0]);
        let batch = lone.complete(calls[1].id(), &json!({"content": []}));
        assert_eq!(ids(&batch), [3, 4, 1, 2]);
        assert_eq!(batch[0]["error"]["code"], -32603);
        lone.transcript
    });
}

// covers: BATCH-004, BATCH-005, BASE-013, BASE-014
#[test]
fn every_other_revision_refuses_arrays() {
    let arrays = [json!([]), json!([ping(1)]), json!([ping(1), ask(2)]), json!([1, [2]])];
    for version in LEGACY.into_iter().filter(|v| *v != V) {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            lone.open(version);
            for array in &arrays {
                lone.tell(array);
                let told = lone.diagnostic();
                // An error without an id exists from 2025-11-25 on.
                let answered = version == Version::V2025_11_25;
                assert_eq!(told, Diagnostic::Malformed { why: Malformed::Batch, id: None, answered });
                if answered {
                    let answer = lone.reply();
                    assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32600), None));
                }
                lone.still();
            }
            lone.transcript
        });
    }
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::MODERN), cut);
        for array in &arrays {
            lone.tell(array);
            lone.diagnostic();
            let answer = lone.reply();
            assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32600), None));
        }
        lone.tell(&json!([modern(1, "tools/list", json!({}))]));
        lone.diagnostic();
        assert_eq!(lone.reply()["error"]["code"], -32600);
        lone.works();
        lone.transcript
    });
}

// ---- the client's side -------------------------------------------------------------------------------------------

fn legacy_client(version: Version, cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::only(version)).custom_method("harbor/name"), cut);
    lone.with_legacy(version, json!({"tools": {}}));
    lone
}

// covers: BATCH-001, BATCH-007, BATCH-013, BATCH-002
#[test]
fn answers_and_news_from_the_server_may_come_in_one_array() {
    each_cut(|cut| {
        let mut lone = legacy_client(V, cut);
        let options = CallOptions::new().with_progress();
        let (first, one) = lone.calls("tools/list", &json!({}), &options);
        let (second, two) = lone.calls("tools/list", &json!({}), &options);
        lone.tell(&json!([
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": one["id"], "progress": 1}},
            {"jsonrpc": "2.0", "id": two["id"], "error": {"code": 7, "message": "no"}},
            {"jsonrpc": "2.0", "id": one["id"], "result": {"tools": []}},
            {"jsonrpc": "2.0", "id": 999, "result": {}},
        ]));
        lone.progress(first);
        assert!(matches!(lone.done(second), Err(CallError::Rpc(_))));
        assert!(lone.done(first).is_ok());
        assert!(matches!(lone.diagnostic(), Diagnostic::UnknownResponse(_)));
        lone.still();
        lone.transcript
    });
}

// covers: BATCH-001, BATCH-007, BATCH-008
#[test]
fn a_client_answers_a_batch_of_requests_with_one_array() {
    each_cut(|cut| {
        let mut lone = legacy_client(V, cut);
        lone.tell(&json!([
            ping("p"),
            legacy("n", "harbor/name", json!({})),
            {"jsonrpc": "2.0", "id": "bad", "method": 7},
            legacy("r", "roots/list", Value::Null),
        ]));
        let ClientEvent::Request(request) = lone.event() else { panic!("a request") };
        lone.diagnostic();
        lone.still();
        lone.pipe.engine().respond(lone.now, request.id, &json!({"name": "Mara"})).expect("open");
        let batch = lone.reply();
        assert_eq!(ids(&batch), ["p", "bad", "r", "n"]);
        lone.transcript
    });
}

// covers: BATCH-004, BATCH-005
#[test]
fn a_client_refuses_arrays_in_every_other_revision() {
    for version in LEGACY.into_iter().filter(|v| *v != V) {
        each_cut(|cut| {
            let mut lone = legacy_client(version, cut);
            let (key, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
            lone.tell(&json!([{"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}}]));
            assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { why: Malformed::Batch, .. }));
            lone.sent();
            lone.tell(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}}));
            assert!(lone.done(key).is_ok(), "the call still waits for its answer");
            lone.transcript
        });
    }
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::MODERN), cut);
        lone.with_modern(json!({}));
        lone.tell(&json!([ping("s")]));
        assert!(matches!(
            lone.diagnostic(),
            Diagnostic::Malformed { why: Malformed::Batch, answered: false, .. }
        ));
        lone.still();
        lone.transcript
    });
}
