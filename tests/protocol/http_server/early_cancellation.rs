//! Early cancellations: over HTTP a cancellation can overtake its request on another connection.

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::Event;
use mcp_proto::{Diagnostic, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use mcp_tests::harness::build;
use serde_json::json;

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
    open_session,
};
use crate::protocol::common::{limits, ms, secs, server};

/// Posts `body` to a session, given by its id, or by its path over HTTP+SSE.
fn post_to_session(web: &mut HttpServerHarness, session: &str, body: &str) -> ExchangeId {
    if session.starts_with('/') {
        return web.send_request("POST", session, &[], body);
    }
    web.post(&[("Mcp-Session-Id", session)], body)
}

fn cancellation(id: u32) -> String {
    build::notification("notifications/cancelled", json!({"requestId": id})).to_string()
}

/// Cancels a request that has not arrived.
fn cancel(web: &mut HttpServerHarness, session: &str, id: u32) {
    let x = post_to_session(web, session, &cancellation(id));
    assert_eq!(web.response(x).status, 202);
    assert!(
        matches!(expect_diagnostic(web), Diagnostic::UnknownCancellation(named) if named.to_string() == id.to_string())
    );
}

fn expect_diagnostic(web: &mut HttpServerHarness) -> Diagnostic {
    match web.poll_event() {
        Some(Event::Diagnostic { diagnostic, .. }) => diagnostic,
        other => panic!("{other:?}"),
    }
}

/// Makes a call and answers it if it reaches a handler; returns whether it did.
fn reaches_handler(web: &mut HttpServerHarness, session: &str, id: u32) -> bool {
    let x = post_to_session(web, session, &legacy_request(id, "tools/call", ECHO_PARAMS));
    let reached = match web.poll_event() {
        Some(Event::Call(call)) => {
            answer_call(web, &call);
            true
        }
        Some(Event::Diagnostic { diagnostic: Diagnostic::EarlyCancellation(named), .. }) => {
            assert_eq!(named.to_string(), id.to_string());
            false
        }
        other => panic!("{other:?}"),
    };
    assert!(web.poll_event().is_none());
    let reply = web.response(x);
    assert!(reply.is_complete);
    if session.starts_with('/') {
        assert_eq!((reply.status, &*reply.body), (202, ""));
    } else {
        assert_eq!((reply.status, reply.messages().len()), (200, usize::from(reached)), "{reply:?}");
    }
    reached
}

// covers: CANC-010, CANC-011, HTTP-021, HTTP-061
#[test]
fn request_cancelled_before_arrival_reaches_no_handler() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, version);
        cancel(&mut web, &id, 7);
        assert!(reaches_handler(&mut web, &id, 6));
        let other = open_session(&mut web, version);
        assert!(reaches_handler(&mut web, &other, 7), "the same id in another session is another request");
        assert!(!reaches_handler(&mut web, &id, 7));
        // The response is the same as that of a call that was cancelled while it ran.
        let late = post_to_session(&mut web, &id, &legacy_request(8, "tools/call", ECHO_PARAMS));
        let _call = web.expect_call();
        post_to_session(&mut web, &id, &cancellation(8));
        assert!(matches!(web.poll_event(), Some(Event::Cancelled { .. })));
        cancel(&mut web, &id, 9);
        let early = post_to_session(&mut web, &id, &legacy_request(9, "tools/call", ECHO_PARAMS));
        assert!(matches!(expect_diagnostic(&mut web), Diagnostic::EarlyCancellation(_)));
        let reply_parts = |x| {
            let reply = web.response(x);
            assert!(reply.is_complete);
            (reply.status, reply.fields.clone(), reply.body.clone())
        };
        assert_eq!(reply_parts(early), reply_parts(late));
        assert_eq!((web.server.exchange_count(), web.server.engine().live_calls()), (0, 0));
        // Requests that the engine answers itself are not affected.
        cancel(&mut web, &id, 10);
        let x = post_to_session(&mut web, &id, &legacy_request(10, "ping", ""));
        assert_eq!(web.response(x).message()["id"], 10);
    }
}

// covers: CANC-010, HTTPSSE-003
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn request_cancelled_before_arrival_over_http_sse_reaches_no_handler() {
    let mut web = harness(Config::new().http_sse("/sse", "/messages"));
    let stream = web.send_request("GET", "/sse", &[], "");
    let target = web.response(stream).events()[0].data.clone();
    post_to_session(&mut web, &target, &initialize_request("2024-11-05"));
    let event_count = web.response(stream).events().len();
    cancel(&mut web, &target, 7);
    assert!(!reaches_handler(&mut web, &target, 7));
    assert_eq!(web.response(stream).events().len(), event_count, "a cancelled request has no answer");
    assert!(reaches_handler(&mut web, &target, 8));
    assert_eq!(web.response(stream).events().len(), event_count + 1);
}

// covers: CANC-010, BATCH-007, BATCH-010
#[test]
fn early_cancellation_of_batch_member_keeps_the_others() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    let batch = |ids: [u32; 2]| {
        let calls = ids.map(|id| legacy_request(id, "tools/call", ECHO_PARAMS));
        format!("[{}]", calls.join(","))
    };
    cancel(&mut web, &id, 3);
    let x = post_to_session(&mut web, &id, &batch([3, 4]));
    assert!(matches!(expect_diagnostic(&mut web), Diagnostic::EarlyCancellation(_)));
    let call = web.expect_call();
    assert!(!web.response(x).is_complete);
    answer_call(&mut web, &call);
    let answers = web.response(x).message();
    assert_eq!((answers.as_array().map(Vec::len), &answers[0]["id"]), (Some(1), &json!(4)));
    // When all members are cancelled, the response is empty, with status 200 instead of 202.
    cancel(&mut web, &id, 5);
    cancel(&mut web, &id, 6);
    let x = post_to_session(&mut web, &id, &batch([5, 6]));
    assert!(matches!(expect_diagnostic(&mut web), Diagnostic::EarlyCancellation(_)));
    assert!(matches!(expect_diagnostic(&mut web), Diagnostic::EarlyCancellation(_)));
    let reply = web.response(x);
    assert!(reply.is_complete && reply.messages().is_empty() && reply.status == 200, "{reply:?}");
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: CANC-011, CANC-013
#[test]
fn early_cancellation_applies_once_and_expires() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    // The named call had ended. Reuse of its id breaks the rules, and is affected for a short time only.
    assert!(reaches_handler(&mut web, &id, 2));
    cancel(&mut web, &id, 2);
    web.advance(ms(4_999));
    assert!(!reaches_handler(&mut web, &id, 2));
    assert!(reaches_handler(&mut web, &id, 2));
    cancel(&mut web, &id, 2);
    web.advance(secs(5));
    assert!(reaches_handler(&mut web, &id, 2));
    // A second cancellation of one id counts once and restarts the time.
    cancel(&mut web, &id, 2);
    web.advance(secs(4));
    cancel(&mut web, &id, 2);
    web.advance(secs(4));
    assert!(!reaches_handler(&mut web, &id, 2));
    assert!(reaches_handler(&mut web, &id, 2));
}

// covers: CANC-011
#[test]
fn early_cancellations_are_bounded_per_session_and_in_total() {
    let config = |max| server(VersionSet::ALL).limits(limits(|l| l.max_early_cancellations = max));
    let mut web = HttpServerHarness::new(config(16), Config::new());
    let sessions: Vec<String> = (0..5).map(|_| open_session(&mut web, "2025-11-25")).collect();
    let (first, others) = sessions.split_first().expect("some");
    for other in others {
        cancel(&mut web, other, 1);
    }
    for id in 2..2_000 {
        cancel(&mut web, first, id);
    }
    // Each session keeps its four newest, and takes no room from other sessions.
    assert!((2..1_996).all(|id| reaches_handler(&mut web, first, id)));
    assert!((1_996..2_000).all(|id| !reaches_handler(&mut web, first, id)));
    assert!(others.iter().all(|other| !reaches_handler(&mut web, other, 1)));
    // The total is bounded too, and the oldest are evicted.
    for session in &sessions {
        (10..14).for_each(|id| cancel(&mut web, session, id));
    }
    assert!((10..14).all(|id| reaches_handler(&mut web, first, id)));
    assert!(others.iter().all(|other| (10..14).all(|id| !reaches_handler(&mut web, other, id))));

    let mut none = HttpServerHarness::new(config(0), Config::new());
    let id = open_session(&mut none, "2025-11-25");
    cancel(&mut none, &id, 7);
    assert!(reaches_handler(&mut none, &id, 7));
}

// covers: CANC-016, CANC-017
#[test]
fn modern_and_sessionless_calls_ignore_early_cancellations() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let cancelled = build::notification(
        "notifications/cancelled",
        json!({"requestId": 7, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
    );
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "notifications/cancelled")];
    let x = web.post(&fields, &cancelled.to_string());
    assert_eq!(web.response(x).status, 202);
    expect_diagnostic(&mut web);
    cancel(&mut web, &id, 7);
    let x = web.post(&CALL_FIELDS, &modern_request(7, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).message()["id"], 7);

    let mut stateless = harness(Config::new().sessions(false));
    let x = stateless.post(&[], &cancellation(7));
    assert_eq!(stateless.response(x).status, 202);
    expect_diagnostic(&mut stateless);
    let x = stateless.post(&[], &legacy_request(7, "tools/call", ECHO_PARAMS));
    let call = stateless.expect_call();
    answer_call(&mut stateless, &call);
    assert_eq!(stateless.response(x).message()["id"], 7);
}
