//! Streams that clients resume at another process than the one that has them.

use alloc::sync::Arc;

use mcp_proto::Progress;
use mcp_proto::http::server::{Config, ExchangeId, SharedSessionEvent};
use mcp_proto::server::{Call, Identity};
use serde_json::json;

use super::super::{ECHO_PARAMS, answer_call, initialize_request, legacy_request};
use super::{Cluster, OK, call, methods, protected, shared_id};
use crate::protocol::common::secs;

pub(super) fn resume(all: &mut Cluster, at: usize, id: &str, after: &str) -> ExchangeId {
    let fields = [("Mcp-Session-Id", id), ("Last-Event-ID", after)];
    let x = all.processes[at].send_request("GET", "/mcp", &fields, "");
    all.settle();
    x
}

/// Begins a call that is an event stream. Returns the call, its exchange, and the id of its first event.
pub(super) fn stream_call(
    all: &mut Cluster,
    at: usize,
    id: &str,
    request: u32,
) -> (Call, ExchangeId, String) {
    let x = all.post(at, id, &legacy_request(request, "tools/call", ECHO_PARAMS));
    let call = call(&mut all.processes[at], &mut |_| {});
    all.processes[at].advance(secs(5));
    let begun = all.processes[at].response(x).events().first().expect("the first event").id.clone();
    (call, x, begun)
}

// covers: SSE-021, SSE-022, HTTP-055
#[test]
fn stream_of_a_call_is_resumed_at_another_process() {
    let mut all = Cluster::new(3, Config::new);
    let id = all.open(0, "2025-11-25");
    // The call runs on; its client has lost the connection, which the process may not know.
    for is_noticed in [false, true] {
        let request = 20 + u32::from(is_noticed);
        let (running, x, begun) = stream_call(&mut all, 1, &id, request);
        if is_noticed {
            all.processes[1].close_exchange(x);
        }
        let first = resume(&mut all, 2, &id, &begun);
        assert!(all.processes[2].response(first).is_event_stream());
        // It moves once more: the first one that was resumed gets nothing.
        let second = resume(&mut all, 0, &id, &begun);
        answer_call(&mut all.processes[1], &running);
        all.settle();
        let response = all.processes[0].response(second);
        let answer = response.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(request), &json!("done"))
        );
        assert!(response.is_complete && all.processes[2].response(first).messages().is_empty());
        let last = response.events().pop().expect("the answer").id;
        // After it is over, it can be read again, anywhere, and its ids tell as before whose it is.
        for at in [0, 1, 2] {
            let again = resume(&mut all, at, &id, &begun);
            let response = all.processes[at].response(again);
            assert_eq!((response.message(), response.is_complete), (answer.clone(), true), "{at}");
            assert_eq!(response.events().pop().map(|event| event.id), Some(last.clone()), "{at}");
        }
    }
}

// covers: SSE-021
#[test]
fn call_of_a_process_that_is_killed_ends_with_an_error_for_who_resumes_it() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    let (_, _, begun) = stream_call(&mut all, 1, &id, 77);
    all.kill(1, 9);
    let x = resume(&mut all, 0, &id, &begun);
    assert_eq!(all.processes[0].response(x).status, 0, "the other process may be slow");
    all.processes[0].advance(secs(2));
    let response = all.processes[0].response(x);
    assert_eq!(
        (&response.message()["id"], &response.message()["error"]["code"]),
        (&json!(77), &json!(-32603))
    );
    assert!(response.is_complete);
    // Nothing comes after it: a client that asks is not told again.
    let last = response.events().pop().expect("the error").id;
    let x = resume(&mut all, 0, &id, &last);
    all.processes[0].advance(secs(2));
    assert_eq!(all.processes[0].response(x).status, 400);
    // A process that ends while it passes a stream on is silent from then on.
    let (_, _, begun) = stream_call(&mut all, 1, &id, 78);
    let x = resume(&mut all, 0, &id, &begun);
    all.kill(1, 10);
    all.processes[0].advance(secs(40));
    let response = all.processes[0].response(x);
    assert!(response.is_complete && response.messages().is_empty(), "its client resumes it again");
    // Ids that no process has issued.
    for after in ["1-1-!", "1-1-", "x", "1-1-e30", &format!("{begun}{begun}")] {
        let x = resume(&mut all, 0, &id, after);
        all.processes[0].advance(secs(2));
        assert_eq!(all.processes[0].response(x).status, 400, "{after}");
    }
}

// covers: SSE-021
#[test]
fn stream_of_a_batch_and_of_a_long_id_is_resumed_at_another_process() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-03-26");
    let long = format!(r#""{}""#, "x".repeat(70));
    let with_long_id = |request: &str| request.replace(r#""id":9"#, &format!(r#""id":{long}"#));
    let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
    let request = with_long_id(&legacy_request(9, "tools/call", &params));
    let batch = format!(
        r#"[{},{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":77}}}}]"#,
        legacy_request(8, "tools/call", &params)
    );
    for body in [request, batch] {
        let x = all.post(1, &id, &body);
        let running = call(&mut all.processes[1], &mut |_| {});
        let web = &mut all.processes[1];
        web.server.engine().progress(web.now, running.id(), Progress::new(1.0)).expect("open");
        web.transmit_all();
        all.settle();
        let events = all.processes[1].response(x).events();
        let begun = events.first().expect("the first event").id.clone();
        let resumed = resume(&mut all, 0, &id, &begun);
        answer_call(&mut all.processes[1], &running);
        all.settle();
        let response = all.processes[0].response(resumed);
        assert!(response.is_complete);
        assert!(format!("{:?}", response.messages()).contains("done"), "{begun}");
    }
}

// covers: CANC-010, BATCH-001
#[test]
fn cancellation_beside_a_request_reaches_the_process_of_the_call() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-03-26");
    let cancelled = all.post(1, &id, &legacy_request(77, "tools/call", ECHO_PARAMS));
    call(&mut all.processes[1], &mut |_| {});
    let batch = format!(
        r#"[{},{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":77}}}}]"#,
        legacy_request(8, "ping", "")
    );
    all.post(0, &id, &batch);
    let mut ended = Vec::new();
    while let Some(event) = all.processes[1].poll_event() {
        ended.push(event);
    }
    assert!(matches!(&*ended, [mcp_proto::server::Event::Cancelled { .. }]), "{ended:?}");
    assert!(all.processes[1].response(cancelled).messages().is_empty());
}

// covers: SSE-021
#[test]
fn time_to_load_the_session_is_not_that_to_find_the_call() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    let (_, _, begun) = stream_call(&mut all, 1, &id, 77);
    let fields = [("Mcp-Session-Id", &*id), ("Last-Event-ID", &begun)];
    let x = all.processes[0].send_request("GET", "/mcp", &fields, "");
    all.kill(1, 9);
    // The store takes four seconds of five, and the other process has two more.
    all.processes[0].advance(secs(4));
    all.settle();
    all.processes[0].advance(secs(1));
    assert_eq!(all.processes[0].response(x).status, 0, "two seconds are not over");
    all.processes[0].advance(secs(1));
    assert_eq!(all.processes[0].response(x).message()["id"], 77);
}

// covers: HTTP-055, SSE-021
#[test]
fn get_stream_of_another_process_begins_anew_with_all_that_was_missed() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    let stream = all.get(0, &id);
    let shared = shared_id(&mut all.processes[0], &id);
    let send = |all: &mut Cluster, name: &str| {
        let web = &mut all.processes[0];
        let message = json!({"jsonrpc": "2.0", "method": format!("notifications/{name}")}).to_string();
        assert!(web.server.shared_sessions().send(web.now, &shared, message.into_bytes().into()));
        web.transmit_all();
        web.response(stream).events().pop().expect("an event").id
    };
    let read = send(&mut all, "read");
    send(&mut all, "unread");
    let x = resume(&mut all, 1, &id, &read);
    let sent = methods(&all.processes[1].response(x).messages());
    assert_eq!(sent, ["notifications/tools/list_changed", "notifications/unread"]);
    // The first process has ended the stream, so nothing is sent there any more.
    assert!(all.processes[0].response(stream).is_complete);
    // After its end nothing can be missed that it had, but all changes are announced.
    all.kill(0, 9);
    let last = all.processes[1].response(x).events().pop().expect("an event").id;
    all.kill(1, 10);
    let x = resume(&mut all, 0, &id, &last);
    assert_eq!(methods(&all.processes[0].response(x).messages()), ["notifications/tools/list_changed"]);
}

// covers: SSE-021
#[test]
fn process_of_a_stream_has_ended_after_two_keep_alives_of_silence() {
    let config = || Config::new().keep_alive(secs(10));
    let mut all = Cluster::new(2, config);
    let id = all.open(0, "2025-11-25");
    let (_, _, begun) = stream_call(&mut all, 1, &id, 77);
    let x = resume(&mut all, 0, &id, &begun);
    let exchange = all.relays[0].3;
    // Twice 10 s, and 2 s for its answer.
    let web = &mut all.processes[0];
    web.advance(secs(2));
    assert_eq!(web.server.poll_timeout(), Some(web.now + secs(20)));
    web.advance(secs(19));
    assert!(web.server.shared_sessions().relay(
        web.now,
        exchange,
        &b": still here\n\n".as_slice().into(),
        false
    ));
    web.advance(secs(21));
    assert!(!web.response(x).is_complete);
    web.advance(secs(1));
    assert!(web.response(x).is_complete && web.response(x).messages().is_empty());
}

// covers: HTTP-055, SSE-021
#[test]
fn own_streams_are_resumed_without_another_process() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    let stream = all.get(1, &id);
    let first = all.processes[1].response(stream).events().pop().expect("an event").id;
    let resumed = resume(&mut all, 1, &id, &first);
    let response = all.processes[1].response(resumed);
    assert!(response.is_event_stream(), "{response:?}");
    let next = response.events().pop().expect("a change, as after each look at the store").id;
    let number = |id: &str| id.split('-').next().map(str::to_owned);
    assert_eq!(number(&next), number(&first), "it is the same stream");
    assert!(all.processes[1].response(stream).is_complete);
    // An own call that never was is unknown at once. The note is that of request 5.
    for after in ["1-1-NQ", "2097151-1-NQ"] {
        let x = resume(&mut all, 0, &id, after);
        assert_eq!(all.processes[0].response(x).status, 400, "{after}");
    }
    // The next number is one of the other process.
    let fields = [("Mcp-Session-Id", &*id), ("Last-Event-ID", "2097152-1-NQ")];
    let web = &mut all.processes[0];
    web.send_request("GET", "/mcp", &fields, "");
    let mut asked = None;
    while let Some((at, event)) = all.next() {
        match event {
            SharedSessionEvent::Resume { process, .. } => asked = Some(process),
            event => all.serve(at, event),
        }
    }
    assert_eq!(asked, Some(1));
}

// covers: HTTP-055, SSE-021
#[test]
fn own_get_stream_of_which_no_event_is_kept_is_resumed_all_the_same() {
    // Less than one event takes.
    let mut all = Cluster::new(2, || Config::new().replay_bytes(100));
    let id = all.open(0, "2025-11-25");
    let stream = all.get(1, &id);
    let last = all.processes[1].response(stream).events().pop().expect("a change").id;
    let resumed = resume(&mut all, 1, &id, &last);
    let response = all.processes[1].response(resumed);
    assert!(response.is_event_stream() && !response.is_complete, "{response:?}");
    assert!(all.processes[1].response(stream).is_complete);
}

#[test]
fn answers_about_streams_leave_other_exchanges_alone() {
    let mut all = Cluster::new(2, Config::new);
    let id = all.open(0, "2025-11-25");
    let x = all.post(0, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    let stream = all.get(0, &id);
    // One that waits for its session.
    let web = &mut all.processes[0];
    let loading =
        web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &id), ("Last-Event-ID", "9-9-NQ")], "");
    for exchange in [x, stream, loading] {
        let (now, bytes) = (web.now, b"data: 1\n\n".as_slice().into());
        let mut sessions = web.server.shared_sessions();
        for is_last in [false, true] {
            assert!(!sessions.relay(now, exchange, &bytes, is_last));
        }
        sessions.event_is_gone(now, exchange);
        sessions.call_is_lost(now, exchange);
        sessions.ask_owner(now, exchange, 1);
        sessions.answer_call(now, exchange, true);
        assert!(!sessions.repeat_call(now, exchange, None) && !sessions.call_kept(now, exchange, true));
        web.transmit_all();
        assert!(!web.response(exchange).is_complete && !web.response(exchange).body.contains("data: 1"));
    }
    all.settle();
    assert_eq!(all.processes[0].response(loading).status, 400, "no stream of its own process");
    answer_call(&mut all.processes[0], &running);
    assert_eq!(all.processes[0].response(x).message()["result"]["content"][0]["text"], "done");
}

// covers: SSE-021, SSE-022
#[test]
fn stream_of_a_principal_is_resumed_by_it_at_another_process() {
    let mut all = Cluster::new(2, || Config::new().protected(protected()));
    for web in &mut all.processes {
        web.server.set_validator(|request| Some(Ok(Arc::new(Identity::new(request.token.reveal())))));
    }
    let alice = ("Authorization", "Bearer alice");
    let send = |all: &mut Cluster, at: usize, fields: &[(&str, &str)], body: &str| {
        let fields = [&[alice], fields].concat();
        let web = &mut all.processes[at];
        let x = if body.is_empty() {
            web.send_request("GET", "/mcp", &fields, "")
        } else {
            web.post(&fields, body)
        };
        all.settle();
        x
    };
    let x = send(&mut all, 0, &[], &initialize_request("2025-11-25"));
    let id = all.processes[0].response(x).field("mcp-session-id").expect("a session").to_owned();
    let session = ("Mcp-Session-Id", &*id);
    send(&mut all, 0, &[session], OK);
    let x = send(&mut all, 0, &[session], &legacy_request(7, "tools/call", ECHO_PARAMS));
    let running = call(&mut all.processes[0], &mut |_| {});
    all.processes[0].advance(secs(5));
    let begun = all.processes[0].response(x).events().first().expect("the first event").id.clone();
    let resumed = send(&mut all, 1, &[session, ("Last-Event-ID", &begun)], "");
    answer_call(&mut all.processes[0], &running);
    all.settle();
    assert_eq!(all.processes[1].response(resumed).message()["id"], 7);
}
