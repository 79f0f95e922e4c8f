//! Streams that are cut and resumed.

use core::time::Duration;

use mcp_proto::http::server::Config;
use mcp_proto::{Change, Progress};

use super::{ECHO_PARAMS, answer_call, harness, legacy_request, open_session};
use crate::protocol::common::secs;

fn call_request(id: u32) -> String {
    legacy_request(id, "tools/call", &format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":{id}}}"))
}

// covers: SSE-013, SSE-014, SSE-015, SSE-016
#[test]
fn events_have_unique_ids_and_2025_11_25_streams_start_primed() {
    for (version, primed) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, version);
        let named = ("Mcp-Session-Id", &*id);
        let get = web.send_request("GET", "/mcp", &[named], "");
        let mut ids: Vec<String> = web.response(get).events().iter().map(|e| e.id.clone()).collect();
        for n in 2..5 {
            let x = web.post(&[named], &call_request(n));
            let call = web.expect_call();
            web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
            web.transmit_all();
            answer_call(&mut web, &call);
            let events = web.response(x).events();
            assert_eq!(events.first().is_some_and(|e| e.data.is_empty()), primed, "{version}");
            assert_eq!(events.len(), if primed { 3 } else { 2 });
            ids.extend(events.into_iter().map(|e| e.id));
        }
        assert!(ids.iter().all(|id| !id.is_empty()));
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{version}");
    }
}

// covers: SSE-022, SSE-023, HTTP-051
#[test]
fn cut_call_stream_resumes_after_last_event_id() {
    // The client loses the connection after `seen` events.
    for seen in 0..=3 {
        for answered_meanwhile in [false, true] {
            let mut web = harness(Config::new());
            let id = open_session(&mut web, "2025-11-25");
            let named = ("Mcp-Session-Id", &*id);
            let x = web.post(&[named], &call_request(2));
            let other = web.post(&[named], &call_request(3));
            let (a, b) = (web.expect_call(), web.expect_call());
            for n in [1.0, 2.0, 3.0] {
                web.server.engine().progress(web.now, a.id(), Progress::new(n)).expect("open");
                web.server.engine().progress(web.now, b.id(), Progress::new(n)).expect("open");
                web.transmit_all();
            }
            let last = web.response(x).events()[seen].id.clone();
            web.close_exchange(x);
            web.server.engine().progress(web.now, a.id(), Progress::new(4.0)).expect("open");
            if answered_meanwhile {
                answer_call(&mut web, &a);
            }
            let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
            if !answered_meanwhile {
                assert!(!web.response(y).is_complete);
                answer_call(&mut web, &a);
            }
            let reply = web.response(y);
            assert!(reply.is_complete, "seen {seen}, {answered_meanwhile}: {reply:?}");
            let messages = reply.messages();
            assert_eq!(messages.len(), 3 - seen + 2, "seen {seen}, {answered_meanwhile}");
            assert!(messages.iter().all(|m| m["params"]["progressToken"] == 2 || m["id"] == 2));
            assert_eq!(messages.last().map(|m| m["id"].clone()), Some(2.into()));
            answer_call(&mut web, &b);
            assert!(web.response(other).is_complete);
            assert_eq!(web.server.exchange_count(), 0);
            // A second resumption: the call has ended and its events are still kept.
            let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
            assert_eq!(web.response(y).messages().len(), 3 - seen + 2);
            assert!(web.response(y).is_complete);
        }
    }
}

// covers: SSE-022, SSE-024
#[test]
fn unknown_or_expired_last_event_id_is_refused() {
    let mut web = harness(Config::new().replay_bytes(1_000));
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &call_request(2));
    let a = web.expect_call();
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    let known_id = web.response(x).events().pop().expect("an event").id;
    let other = open_session(&mut web, "2025-11-25");
    for (session, event, status) in [
        (&id, "", 200),
        (&id, "nonsense", 400),
        (&id, "1-99", 400),
        (&id, "99-1", 400),
        (&id, "0-1", 400),
        (&id, "1- 1", 400),
        (&other, &*known_id, 400),
        (&id, &*known_id, 200),
    ] {
        let y = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", session), ("Last-Event-ID", event)], "");
        assert_eq!(web.response(y).status, status, "{event:?}");
        if status == 400 {
            assert!(!web.response(x).is_complete, "the stream stays open");
        }
    }
    // Events beyond the budget are gone.
    for n in 2..20 {
        web.advance(Duration::from_secs(1));
        web.server.engine().progress(web.now, a.id(), Progress::new(f64::from(n))).expect("open");
        web.transmit_all();
    }
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &known_id)], "");
    assert_eq!(web.response(y).status, 400);
    // With a budget of 0 events have no ids.
    let mut web = harness(Config::new().replay_bytes(0));
    let id = open_session(&mut web, "2025-11-25");
    let x = web.post(&[("Mcp-Session-Id", &id)], &call_request(2));
    let a = web.expect_call();
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    assert!(web.response(x).events().iter().all(|e| e.id.is_empty()));
    let y = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &id), ("Last-Event-ID", "1-0")], "");
    assert_eq!(web.response(y).status, 400);
}

// covers: SSE-022
#[test]
fn resumption_replaces_the_old_connection() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &call_request(2));
    let a = web.expect_call();
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert!(web.response(x).is_complete && web.response(y).messages().len() == 1);
    answer_call(&mut web, &a);
    assert_eq!(web.response(y).messages().len(), 2);
    assert!(web.response(y).is_complete && web.response(x).messages().len() == 1);
}

/// Encodes pending messages without transmitting any.
fn encode_without_transmitting(web: &mut mcp_tests::harness::HttpServerHarness) {
    web.auto_transmits = false;
    while web.server.poll_ready(web.now).is_some() {}
    web.auto_transmits = true;
}

// covers: HTTP-055, HTTP-056, SSE-022
#[test]
fn untransmitted_messages_move_to_the_resumed_stream() {
    for answered in [false, true] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, "2025-11-25");
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], &call_request(2));
        let a = web.expect_call();
        web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
        web.transmit_all();
        web.server.engine().progress(web.now, a.id(), Progress::new(2.0)).expect("open");
        if answered {
            web.auto_transmits = false;
            answer_call(&mut web, &a);
        }
        encode_without_transmitting(&mut web);
        let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "1-1")], "");
        if !answered {
            answer_call(&mut web, &a);
        }
        assert_eq!(
            (web.response(x).messages().len(), web.response(y).messages().len()),
            (1, 2),
            "{answered}"
        );
        assert!(web.response(x).is_complete && web.response(y).is_complete);
        assert_eq!(web.server.exchange_count(), 0);
    }
    // The same for the GET stream.
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.send_request("GET", "/mcp", &[named], "");
    web.server.engine().publish(web.now, &Change::Tools);
    encode_without_transmitting(&mut web);
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert_eq!((web.response(x).messages().len(), web.response(y).messages().len()), (0, 1));
    assert!(web.response(x).is_complete && !web.response(y).is_complete);
    // A GET without `Last-Event-ID` does not say what the client has seen: queued messages stay with the old stream.
    web.server.engine().publish(web.now, &Change::Tools);
    encode_without_transmitting(&mut web);
    let z = web.send_request("GET", "/mcp", &[named], "");
    web.transmit_exchange(y);
    assert_eq!((web.response(y).messages().len(), web.response(z).messages().len()), (2, 0));
}

// covers: SSE-022, SEC-018
#[test]
fn message_beyond_replay_budget_evicts_nothing_else() {
    let mut web = harness(Config::new().replay_bytes(4_000));
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let (x, y) = (web.post(&[named], &call_request(2)), web.post(&[named], &call_request(3)));
    let (a, b) = (web.expect_call(), web.expect_call());
    for call in [&a, &b] {
        web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    }
    web.transmit_all();
    let large = mcp_proto::model::CallToolResult::text("x".repeat(5_000));
    web.server.engine().complete(web.now, b.id(), &large).expect("open");
    web.transmit_all();
    assert_eq!(web.response(y).messages().len(), 2);
    web.close_exchange(x);
    let again = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert_eq!((web.response(again).status, web.response(again).messages().len()), (200, 1));
    let again = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "2-1")], "");
    assert_eq!(web.response(again).status, 400, "the event is gone and the request is refused");
}

// covers: SSE-022, HTTP-051
#[test]
fn get_stream_resumes_after_last_event_id() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let get = web.send_request("GET", "/mcp", &[named], "");
    let primed = web.response(get).events()[0].id.clone();
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    assert_eq!(web.response(get).messages().len(), 1);
    // The message was sent and never arrived.
    web.close_exchange(get);
    web.server.engine().publish(web.now, &Change::Tools);
    let get = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &primed)], "");
    assert_eq!(web.response(get).messages().len(), 2);
    let last = web.response(get).events().pop().expect("events").id;
    let get = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
    assert_eq!((web.response(get).status, web.response(get).messages().len()), (200, 0));
}

// covers: HTTP-058, HTTP-059, SSE-017, SSE-018
#[test]
fn poll_later_releases_the_connection_of_a_slow_call() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let a = web.expect_call();
    assert!(web.server.poll_later(web.now, a.id(), Some(Duration::from_millis(500))));
    web.transmit_all();
    let reply = web.response(x);
    let events = reply.events();
    assert!(reply.is_complete && events[0].data.is_empty() && !events[0].id.is_empty(), "{reply:?}");
    assert_eq!(events.last().map(|e| &*e.retry), Some("500"));
    assert!(web.poll_event().is_none());
    let last = events[0].id.clone();
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
    assert!(!web.response(y).is_complete);
    assert!(web.server.poll_later(web.now, a.id(), None), "it can be called again");
    web.transmit_all();
    answer_call(&mut web, &a);
    assert!(web.response(y).messages().is_empty());
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
    assert_eq!(web.response(y).message()["id"], 2);
    assert_eq!(web.server.exchange_count(), 0);
    // Nobody is left whose connection it could release.
    let x = web.post(&[named], &legacy_request(3, "tools/call", ECHO_PARAMS));
    let a = web.expect_call();
    web.close_exchange(x);
    assert!(!web.server.poll_later(web.now, a.id(), None));
    answer_call(&mut web, &a);
    assert_eq!(web.server.exchange_count(), 0);
    // Revisions without priming events keep their connection.
    let id = open_session(&mut web, "2025-06-18");
    let x = web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let a = web.expect_call();
    assert!(!web.server.poll_later(web.now, a.id(), None));
    answer_call(&mut web, &a);
    assert!(web.response(x).is_complete);
}

// covers: SEC-018
#[test]
fn replay_memory_stays_within_budget() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    for n in 2..2_000 {
        let x = web.post(&[named], &call_request(n));
        let a = web.expect_call();
        web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
        web.transmit_all();
        if n % 3 == 0 {
            web.close_exchange(x);
        }
        answer_call(&mut web, &a);
    }
    assert_eq!(web.server.exchange_count(), 0);
    // The latest calls can be replayed, and the first cannot.
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "1990-0")], "");
    assert_eq!((web.response(y).status, web.response(y).messages().len()), (200, 2));
    let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert_eq!(web.response(y).status, 400);
    web.advance(secs(1));
}
