//! Batches: one array in and one array out in 2025-03-26, refused in every other revision.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::server::Call;
use mcp_proto::{
    CallError, CallOptions, Diagnostic, Fault, MalformedMessage, Progress, RpcError, Version, VersionSet,
};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, initialize_request, legacy_request, modern_request, notification,
};
use mcp_tests::harness::{Chunker, ClientHarness, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs, server};

const V: Version = Version::V2025_03_26;

/// Opens a session of the revision that has batches.
fn open_session(cut: Chunker) -> ServerHarness {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
    harness.open_session(V);
    harness
}

fn call_request(id: impl Into<Value>) -> Value {
    legacy_request(id, "tools/call", json!({"name": "a"}))
}

fn ping_request(id: impl Into<Value>) -> Value {
    legacy_request(id, "ping", Value::Null)
}

fn cancel_notification(id: impl Into<Value>) -> Value {
    notification("notifications/cancelled", json!({"requestId": id.into()}))
}

/// Answers a call that is not the last of its batch.
fn complete_silently(harness: &mut ServerHarness, call: &Call) {
    harness.pipe.engine().complete(harness.now, call.id(), &json!({"content": []})).expect("open");
    harness.assert_nothing_sent();
}

fn response_ids(batch: &Value) -> Vec<Value> {
    batch.as_array().expect("an array").iter().map(|m| m["id"].clone()).collect()
}

// covers: BATCH-008
#[test]
fn batch_whose_faults_end_the_input_is_answered_before_its_channel_closes() {
    let bounded = limits(|l| l.max_faulty_messages = Some(3));
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(bounded.clone()), cut);
        harness.open_session(V);
        let faulty = |id: u32| json!({"jsonrpc": "1.0", "id": id, "method": "ping"});
        harness.feed_message(&json!([faulty(1), faulty(2), faulty(3), ping_request("late")]));
        for _ in 0..3 {
            harness.expect_diagnostic();
        }
        assert_eq!(harness.expect_closed(), Fault::TooManyFaultyMessages { count: 3 });
        assert_eq!(response_ids(&harness.expect_reply()), [1, 2, 3]);
        harness.transcript
    });
}

// covers: BATCH-001, BATCH-007, BATCH-013
#[test]
fn mixed_batch_is_answered_by_one_array_after_its_last_call() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        harness.feed_message(&json!([
            call_request(1),
            notification("notifications/harbor/wind", json!({})),
            ping_request("p"),
            call_request(2),
            ping_request(3)
        ]));
        let first = harness.expect_call();
        assert!(matches!(harness.expect_event(), mcp_proto::server::Event::Notification(_)));
        let second = harness.expect_call();
        harness.assert_idle();
        complete_silently(&mut harness, &second);
        let batch = harness.complete(first.id(), &json!({"content": []}));
        assert_eq!(response_ids(&batch), [json!("p"), json!(3), json!(2), json!(1)]);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-007
#[test]
fn batch_of_pings_is_answered_at_once_and_batch_of_notifications_never() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        harness.feed_message(&json!([ping_request(1), ping_request(2)]));
        assert_eq!(response_ids(&harness.expect_reply()), [1, 2]);
        harness.feed_message(&json!([ping_request(1)]));
        assert_eq!(
            harness.expect_reply(),
            json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]),
            "one answer, still an array"
        );
        harness.feed_message(&json!([
            notification("notifications/a", Value::Null),
            notification("notifications/b", Value::Null)
        ]));
        assert_eq!(harness.take_event_texts().len(), 2);
        harness.assert_nothing_sent();
        harness.feed_message(&json!([json!({"jsonrpc": "2.0", "id": 9, "result": {}})]));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-006
#[test]
fn empty_batch_is_malformed() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        for empty in ["[]", "[ ]", " [\t] "] {
            harness.feed(empty);
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::Batch, id: None, answered: false }
            ));
            // The revision has no form for an error without an id.
            harness.assert_idle();
        }
        harness.transcript
    });
}

// covers: BATCH-008, BASE-014
#[test]
fn malformed_batch_member_does_not_affect_the_others() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        harness.feed_message(&json!([
            ping_request(1),
            {"jsonrpc": "2.0", "id": 2, "method": 3},
            {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": []},
            {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
            7,
            "text",
            null,
            [ping_request(4)],
            {},
            call_request(5),
            {"jsonrpc": "2.0", "id": 6, "method": "unheard/of"},
        ]));
        let events = harness.take_event_texts();
        assert_eq!(events.iter().filter(|s| s.starts_with("diagnostic Malformed")).count(), 8, "{events:#?}");
        let call = events.iter().position(|s| s.starts_with("call")).expect("the call");
        assert_eq!(call, events.len() - 1, "in order");
        harness.assert_nothing_sent();
        harness.feed_message(&cancel_notification(5));
        let batch = harness.expect_reply();
        assert_eq!(response_ids(&batch), [1, 2, 3, 6]);
        let codes: Vec<_> =
            batch.as_array().expect("an array")[1..].iter().map(|m| m["error"]["code"].clone()).collect();
        assert_eq!(codes, [-32600, -32602, -32601]);
        harness.transcript
    });
}

// covers: BATCH-008, BASE-014
#[test]
fn malformed_batch_member_with_an_id_is_answered_with_it() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for_each_chunker(|cut| {
        let mut harness =
            ServerHarness::server(server(VersionSet::ALL).limits(limits(|l| l.max_members = 20)), cut);
        harness.open_session(V);
        // No method at all; the last one might be a response to a request of the server.
        harness
            .feed_message(&json!([{"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": "x", "params": {}}]));
        let batch = harness.expect_reply();
        assert_eq!(response_ids(&batch), [json!(1), json!("x")]);
        assert!(batch.as_array().expect("an array").iter().all(|m| m["error"]["code"] == -32600), "{batch}");
        assert_eq!(harness.take_event_texts().len(), 2);
        // Nested too deep, or with too many members: the others are processed.
        let wide: Vec<String> = (0..21).map(|n| format!("\"m{n}\":1")).collect();
        for bad in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":{deep}}}}}"#),
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"s":"],[\\\",",{}}}}}"#,
                wide.join(",")
            ),
        ] {
            harness.feed(format!(" [{}, {bad} ,{}]", ping_request(6), ping_request(8)));
            let batch = harness.expect_reply();
            assert_eq!(response_ids(&batch), [6, 7, 8], "{batch}");
            assert!(batch[1]["error"]["code"].is_i64() && batch[2]["result"].is_object(), "{batch}");
            assert_eq!(harness.take_event_texts().len(), 1);
        }
        // A response of the client is never answered.
        harness.feed_message(&json!([{"jsonrpc": "2.0", "id": 9, "result": 7}, ping_request(10)]));
        assert_eq!(response_ids(&harness.expect_reply()), [10]);
        harness.take_event_texts();
        harness.transcript
    });
}

// covers: BATCH-003
#[test]
fn batch_with_initialize_is_refused() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        harness.feed_message(&json!([initialize_request(6, "2024-11-05"), ping_request(7)]));
        let batch = harness.expect_reply();
        assert_eq!(response_ids(&batch), [6, 7]);
        assert_eq!(batch[0]["error"]["code"], -32600);
        let call = harness.expect_call_for(&call_request(8));
        assert_eq!(call.version(), V, "nothing has changed");
        harness.transcript
    });
    // Before there is a session, too: its client would wait for ever.
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
        harness.feed_message(&json!([initialize_request(6, "2025-03-26"), {"jsonrpc": "2.0", "id": 7}, 8]));
        let batch = harness.expect_reply();
        assert_eq!(response_ids(&batch), [6, 7]);
        assert!(batch.as_array().expect("an array").iter().all(|m| m["error"]["code"] == -32600), "{batch}");
        harness.take_event_texts();
        harness.assert_idle();
        harness.open_session(V);
        harness.transcript
    });
    // A server that does not speak the revision has no batches.
    for_each_chunker(|cut| {
        let others = VersionSet::only(Version::V2025_06_18);
        let mut harness = ServerHarness::server(server(others), cut);
        harness.feed_message(&json!([initialize_request(6, "2025-03-26")]));
        assert!(matches!(
            harness.expect_diagnostic(),
            Diagnostic::Malformed { reason: MalformedMessage::Batch, answered: true, .. }
        ));
        let answer = harness.expect_reply();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(6), &json!(-32600)));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-007, CANC-010, CANC-020
#[test]
fn cancelled_batch_members_get_no_answer() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        harness.feed_message(&json!([call_request(1), call_request(2), call_request(3)]));
        let calls = [harness.expect_call(), harness.expect_call(), harness.expect_call()];
        harness.feed_message(&cancel_notification(2));
        harness.expect_cancelled(&calls[1]);
        complete_silently(&mut harness, &calls[0]);
        assert_eq!(response_ids(&harness.complete(calls[2].id(), &json!({"content": []}))), [1, 3]);
        // When all members are cancelled, nothing is sent.
        harness.feed_message(&json!([call_request(1), call_request(2)]));
        let calls = [harness.expect_call(), harness.expect_call()];
        harness.feed_message(&json!([cancel_notification(1), cancel_notification(2)]));
        harness.expect_cancelled(&calls[0]);
        harness.expect_cancelled(&calls[1]);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-001, BATCH-007, CANC-010
#[test]
fn batch_can_cancel_its_own_members() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        harness.feed_message(&json!([
            call_request(1),
            cancel_notification(1),
            call_request(2),
            ping_request(3)
        ]));
        let first = harness.expect_call();
        harness.expect_cancelled(&first);
        let second = harness.expect_call();
        harness.assert_idle();
        assert_eq!(response_ids(&harness.complete(second.id(), &json!({"content": []}))), [3, 2]);
        harness.feed_message(&json!([call_request(1), cancel_notification(1)]));
        let first = harness.expect_call();
        harness.expect_cancelled(&first);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-007, BASE-008
#[test]
fn batch_handles_duplicate_ids_errors_and_progress() {
    for_each_chunker(|cut| {
        let mut harness = open_session(cut);
        let with_token =
            legacy_request(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": "t"}}));
        harness.feed_message(&json!([with_token, call_request(1), call_request("1")]));
        let first = harness.expect_call();
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::DuplicateId(_)));
        let second = harness.expect_call();
        harness.pipe.engine().progress(harness.now, first.id(), Progress::new(1.0)).expect("open");
        assert_eq!(harness.expect_reply()["method"], "notifications/progress", "at once, and by itself");
        harness.pipe.engine().fail(harness.now, first.id(), &RpcError::new(7, "no")).expect("open");
        harness.assert_nothing_sent();
        let batch = harness.complete(second.id(), &json!({"content": []}));
        assert_eq!(batch[0]["error"], json!({"code": 7, "message": "no"}));
        assert_eq!(response_ids(&batch), [json!(1), json!("1")]);
        harness.transcript
    });
}

// covers: BATCH-007, STDIO-028
#[test]
fn unfinished_batch_is_answered_at_max_call_age() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_call_age = secs(10)));
        let mut harness = ServerHarness::server(config, cut);
        harness.open_session(V);
        harness.feed_message(&json!([call_request(1), call_request(2)]));
        let (first, second) = (harness.expect_call(), harness.expect_call());
        complete_silently(&mut harness, &first);
        harness.advance(secs(10));
        harness.expect_cancelled(&second);
        let batch = harness.expect_reply();
        assert_eq!(
            (response_ids(&batch), &batch[1]["error"]["code"]),
            (vec![json!(1), json!(2)], &json!(-32603))
        );
        harness.transcript
    });
}

// covers: BATCH-006, BATCH-001
#[test]
fn batch_beyond_max_batch_is_refused() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_batch = 3));
        let mut harness = ServerHarness::server(config, cut);
        harness.open_session(V);
        harness.feed_message(&json!([ping_request(1), ping_request(2), ping_request(3)]));
        assert_eq!(response_ids(&harness.expect_reply()), [1, 2, 3]);
        harness.feed_message(&json!([ping_request(1), ping_request(2), ping_request(3), ping_request(4)]));
        assert!(matches!(
            harness.expect_diagnostic(),
            Diagnostic::Malformed { reason: MalformedMessage::Batch, answered: true, .. }
        ));
        // The first members are answered one by one, as many as a batch may have.
        let sent = harness.take_sent();
        assert_eq!(sent.iter().map(|m| m["id"].clone()).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(sent.iter().all(|m| m["error"]["code"] == -32600), "{sent:?}");
        harness.assert_idle();
        harness.feed_message(&ping_request(1));
        harness.expect_reply();
        harness.transcript
    });
}

// covers: BATCH-001, BATCH-007
#[test]
fn batch_answer_beyond_max_batch_bytes_contains_errors() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_batch_bytes = 300));
        let mut harness = ServerHarness::server(config, cut);
        harness.open_session(V);
        harness.feed_message(&json!([call_request(1), call_request(2), call_request(3)]));
        let calls = [harness.expect_call(), harness.expect_call(), harness.expect_call()];
        let long = json!({"content": [{"type": "text", "text": "x".repeat(200)}]});
        for call in &calls[..2] {
            harness.pipe.engine().complete(harness.now, call.id(), &long).expect("open");
        }
        let batch = harness.complete(calls[2].id(), &json!({"content": []}));
        assert_eq!(response_ids(&batch), [1, 2, 3], "every member is answered");
        assert!(batch[0].get("result").is_some());
        assert_eq!(batch[1]["error"]["code"], -32603);
        harness.transcript
    });
}

// covers: BASE-033, BATCH-001
#[test]
fn batch_beyond_max_live_calls_gets_errors() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 2));
        let mut harness = ServerHarness::server(config, cut);
        harness.open_session(V);
        harness.feed_message(&json!([call_request(1), call_request(2), call_request(3), ping_request(4)]));
        let calls = [harness.expect_call(), harness.expect_call()];
        harness.assert_idle();
        complete_silently(&mut harness, &calls[0]);
        let batch = harness.complete(calls[1].id(), &json!({"content": []}));
        assert_eq!(response_ids(&batch), [3, 4, 1, 2]);
        assert_eq!(batch[0]["error"]["code"], -32603);
        harness.transcript
    });
}

// covers: BATCH-004, BATCH-005, BASE-013, BASE-014
#[test]
fn server_refuses_arrays_in_every_other_revision() {
    // What waits for an answer is answered one by one: requests whose id can be read, malformed ones too.
    let arrays: [(Value, &[Value]); 6] = [
        (json!([]), &[]),
        (json!([1, [2], {"jsonrpc": "2.0", "id": 1.5, "method": "ping"}]), &[]),
        (json!([cancel_notification(9), {"jsonrpc": "2.0", "id": 7, "result": {}}]), &[]),
        (json!([ping_request(1)]), &[json!(1)]),
        (json!([ping_request(1), 7, call_request("b")]), &[json!(1), json!("b")]),
        (json!([{"id": 3, "method": "ping"}, initialize_request(4, "2025-03-26")]), &[json!(3), json!(4)]),
    ];
    let ids = |sent: &[Value]| sent.iter().map(|m| m["id"].clone()).collect::<Vec<_>>();
    for version in LEGACY_VERSIONS.into_iter().filter(|v| *v != V) {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            harness.open_session(version);
            for (array, expected) in &arrays {
                harness.feed_message(array);
                let diagnostic = harness.expect_diagnostic();
                // An error without an id exists from 2025-11-25 on.
                let answered = version == Version::V2025_11_25 || !expected.is_empty();
                assert_eq!(
                    diagnostic,
                    Diagnostic::Malformed { reason: MalformedMessage::Batch, id: None, answered }
                );
                let sent = harness.take_sent();
                assert!(sent.iter().all(|m| m["error"]["code"] == -32600), "{sent:?}");
                match expected {
                    [] => assert_eq!(ids(&sent), vec![Value::Null; usize::from(answered)]),
                    _ => assert_eq!(ids(&sent), *expected),
                }
                harness.assert_idle();
            }
            // A request in flight keeps its own answer.
            harness.feed_message(&call_request(1));
            let call = harness.expect_call();
            harness.feed_message(&json!([ping_request(1), ping_request(2)]));
            harness.expect_diagnostic();
            assert_eq!(ids(&harness.take_sent()), [2]);
            assert!(harness.complete(call.id(), &json!({"content": []})).get("result").is_some());
            // What stands before a fault is readable, too.
            harness.feed(format!("[{},{}", ping_request(5), r#"{"jsonrpc":"2.0","id":6,"#));
            harness.expect_diagnostic();
            let sent = harness.take_sent();
            assert_eq!((ids(&sent), &sent[0]["error"]["code"]), (vec![json!(5)], &json!(-32700)));
            harness.transcript
        });
    }
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::MODERN), cut);
        for (array, expected) in &arrays {
            harness.feed_message(array);
            harness.expect_diagnostic();
            let sent = harness.take_sent();
            assert!(sent.iter().all(|m| m["error"]["code"] == -32600), "{sent:?}");
            assert_eq!(ids(&sent), if expected.is_empty() { vec![Value::Null] } else { expected.to_vec() });
        }
        harness.feed_message(&json!([modern_request(1, "tools/list", json!({}))]));
        harness.expect_diagnostic();
        assert_eq!(harness.expect_reply()["error"]["code"], -32600);
        harness.assert_works();
        harness.transcript
    });
}

// ---- client side -------------------------------------------------------------------------------------------------

fn legacy_client(version: Version, cut: Chunker) -> ClientHarness {
    let mut harness =
        ClientHarness::client(client(VersionSet::only(version)).custom_method("harbor/name"), cut);
    harness.become_legacy(version, json!({"tools": {}}));
    harness
}

// covers: BATCH-001, BATCH-007, BATCH-013, BATCH-002
#[test]
fn client_accepts_responses_and_notifications_in_one_array() {
    for_each_chunker(|cut| {
        let mut harness = legacy_client(V, cut);
        let options = CallOptions::new().with_progress();
        let (first, one) = harness.start_call("tools/list", &json!({}), &options);
        let (second, two) = harness.start_call("tools/list", &json!({}), &options);
        harness.feed_message(&json!([
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": one["id"], "progress": 1}},
            {"jsonrpc": "2.0", "id": two["id"], "error": {"code": 7, "message": "no"}},
            {"jsonrpc": "2.0", "id": one["id"], "result": {"tools": []}},
            {"jsonrpc": "2.0", "id": 999, "result": {}},
        ]));
        harness.expect_progress(first);
        assert!(matches!(harness.expect_done(second), Err(CallError::Rpc(_))));
        assert!(harness.expect_done(first).is_ok());
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-001, BATCH-007, BATCH-008
#[test]
fn client_answers_a_batch_of_requests_with_one_array() {
    for_each_chunker(|cut| {
        let mut harness = legacy_client(V, cut);
        harness.feed_message(&json!([
            ping_request("p"),
            legacy_request("n", "harbor/name", json!({})),
            {"jsonrpc": "2.0", "id": "bad", "method": 7},
            legacy_request("r", "roots/list", Value::Null),
        ]));
        let ClientEvent::Request(request) = harness.expect_event() else { panic!("a request") };
        harness.expect_diagnostic();
        harness.assert_idle();
        harness.pipe.engine().respond(harness.now, request.id, &json!({"name": "Mara"})).expect("open");
        let batch = harness.expect_reply();
        assert_eq!(response_ids(&batch), ["p", "bad", "r", "n"]);
        harness.transcript
    });
}

// covers: BATCH-005
#[test]
fn client_takes_its_answer_in_an_array_in_2024_11_05() {
    for_each_chunker(|cut| {
        let mut harness = legacy_client(Version::V2024_11_05, cut);
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.feed_message(&json!([{"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}}]));
        assert!(harness.expect_done(key).is_ok());
        harness.assert_idle();
        // Arrays are taken and never sent: questions in one are answered one by one.
        harness.feed_message(&json!([
            ping_request("p"),
            legacy_request("n", "harbor/name", json!({})),
            legacy_request("r", "roots/list", Value::Null),
        ]));
        let ClientEvent::Request(request) = harness.expect_event() else { panic!("a request") };
        harness.pipe.engine().respond(harness.now, request.id, &json!({"name": "Mara"})).expect("open");
        let sent = harness.take_sent();
        assert_eq!(sent.iter().map(|m| m["id"].clone()).collect::<Vec<_>>(), ["p", "r", "n"]);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: BATCH-004
#[test]
fn client_refuses_arrays_in_every_other_revision() {
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        for_each_chunker(|cut| {
            let mut harness = legacy_client(version, cut);
            let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
            harness.feed_message(&json!([{"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}}]));
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::Batch, .. }
            ));
            harness.take_sent();
            // Questions whose id can be read are refused one by one.
            harness.feed_message(&json!([ping_request("s"), 7, ping_request("t")]));
            harness.expect_diagnostic();
            let sent = harness.take_sent();
            assert_eq!(sent.iter().map(|m| m["id"].clone()).collect::<Vec<_>>(), ["s", "t"]);
            harness.feed_message(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}}));
            assert!(harness.expect_done(key).is_ok(), "the call still waits for its answer");
            harness.transcript
        });
    }
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::MODERN), cut);
        harness.become_modern(json!({}));
        harness.feed_message(&json!([ping_request("s")]));
        assert!(matches!(
            harness.expect_diagnostic(),
            Diagnostic::Malformed { reason: MalformedMessage::Batch, answered: false, .. }
        ));
        harness.assert_idle();
        harness.transcript
    });
}
