//! Cancellations that overtake their requests, each of which has a connection of its own.

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::Event;
use mcp_proto::{Diagnostic, VersionSet};
use mcp_tests::harness::Web;
use mcp_tests::harness::build;
use serde_json::json;

use super::{CALL, ECHO, answer, initialize, legacy, modern, session, web};
use crate::common::{limits, ms, secs, server};

/// Sends something on behalf of a session; by the old transport, whose path names the session, if it has one
fn tell(web: &mut Web, session: &str, body: &str) -> ExchangeId {
    if session.starts_with('/') {
        return web.send("POST", session, &[], body);
    }
    web.post(&[("Mcp-Session-Id", session)], body)
}

fn cancellation(id: u32) -> String {
    build::note("notifications/cancelled", json!({"requestId": id})).to_string()
}

/// Cancels what has not come
fn cancel(web: &mut Web, session: &str, id: u32) {
    let x = tell(web, session, &cancellation(id));
    assert_eq!(web.reply(x).status, 202);
    assert!(
        matches!(diagnostic(web), Diagnostic::UnknownCancel(named) if named.to_string() == id.to_string())
    );
}

fn diagnostic(web: &mut Web) -> Diagnostic {
    match web.event() {
        Some(Event::Diagnostic { diagnostic, .. }) => diagnostic,
        other => panic!("{other:?}"),
    }
}

/// Makes a call; whether somebody works on it, who answers then
fn is_worked_on(web: &mut Web, session: &str, id: u32) -> bool {
    let x = tell(web, session, &legacy(id, "tools/call", ECHO));
    let worked_on = match web.event() {
        Some(Event::Call(call)) => {
            answer(web, &call);
            true
        }
        Some(Event::Diagnostic { diagnostic: Diagnostic::CancelledEarly(named), .. }) => {
            assert_eq!(named.to_string(), id.to_string());
            false
        }
        other => panic!("{other:?}"),
    };
    assert!(web.event().is_none());
    let reply = web.reply(x);
    assert!(reply.finished);
    if session.starts_with('/') {
        assert_eq!((reply.status, &*reply.body), (202, ""));
    } else {
        assert_eq!((reply.status, reply.messages().len()), (200, usize::from(worked_on)), "{reply:?}");
    }
    worked_on
}

// covers: CANC-010, CANC-011, HTTP-021, HTTP-061
#[test]
fn what_was_cancelled_before_it_came_is_worked_on_by_nobody() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut web = web(Config::new());
        let id = session(&mut web, version);
        cancel(&mut web, &id, 7);
        assert!(is_worked_on(&mut web, &id, 6));
        let other = session(&mut web, version);
        assert!(is_worked_on(&mut web, &other, 7), "in another session it is another request");
        assert!(!is_worked_on(&mut web, &id, 7));
        // The end of the call is that of its exchange, and says what that of one cancelled in time does.
        let late = tell(&mut web, &id, &legacy(8, "tools/call", ECHO));
        let _call = web.call();
        tell(&mut web, &id, &cancellation(8));
        assert!(matches!(web.event(), Some(Event::Cancelled { .. })));
        cancel(&mut web, &id, 9);
        let early = tell(&mut web, &id, &legacy(9, "tools/call", ECHO));
        assert!(matches!(diagnostic(&mut web), Diagnostic::CancelledEarly(_)));
        let said = |x| {
            let reply = web.reply(x);
            assert!(reply.finished);
            (reply.status, reply.fields.clone(), reply.body.clone())
        };
        assert_eq!(said(early), said(late));
        assert_eq!((web.server.exchanges(), web.server.engine().live_calls()), (0, 0));
        // What the server answers by itself is not worth it.
        cancel(&mut web, &id, 10);
        let x = tell(&mut web, &id, &legacy(10, "ping", ""));
        assert_eq!(web.reply(x).message()["id"], 10);
    }
}

// covers: CANC-010, HTTPSSE-003
#[test]
fn by_the_old_transport_as_well() {
    let mut web = web(Config::new().http_sse("/sse", "/messages"));
    let stream = web.send("GET", "/sse", &[], "");
    let target = web.reply(stream).events()[0].data.clone();
    tell(&mut web, &target, &initialize("2024-11-05"));
    let said = web.reply(stream).events().len();
    cancel(&mut web, &target, 7);
    assert!(!is_worked_on(&mut web, &target, 7));
    assert_eq!(web.reply(stream).events().len(), said, "it has no answer");
    assert!(is_worked_on(&mut web, &target, 8));
    assert_eq!(web.reply(stream).events().len(), said + 1);
}

// covers: CANC-010, BATCH-007, BATCH-010
#[test]
fn the_other_members_of_a_batch_are_worked_on() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-03-26");
    let batch = |ids: [u32; 2]| {
        let calls = ids.map(|id| legacy(id, "tools/call", ECHO));
        format!("[{}]", calls.join(","))
    };
    cancel(&mut web, &id, 3);
    let x = tell(&mut web, &id, &batch([3, 4]));
    assert!(matches!(diagnostic(&mut web), Diagnostic::CancelledEarly(_)));
    let call = web.call();
    assert!(!web.reply(x).finished);
    answer(&mut web, &call);
    let answers = web.reply(x).message();
    assert_eq!((answers.as_array().map(Vec::len), &answers[0]["id"]), (Some(1), &json!(4)));
    // All of them: there is nothing to say, and no notification that was taken.
    cancel(&mut web, &id, 5);
    cancel(&mut web, &id, 6);
    let x = tell(&mut web, &id, &batch([5, 6]));
    assert!(matches!(diagnostic(&mut web), Diagnostic::CancelledEarly(_)));
    assert!(matches!(diagnostic(&mut web), Diagnostic::CancelledEarly(_)));
    let reply = web.reply(x);
    assert!(reply.finished && reply.messages().is_empty() && reply.status == 200, "{reply:?}");
    assert_eq!(web.server.exchanges(), 0);
}

// covers: CANC-011, CANC-013
#[test]
fn a_cancellation_is_remembered_once_and_for_seconds() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    // What it names had ended; that its id is used again is against the rules, and does no harm for long.
    assert!(is_worked_on(&mut web, &id, 2));
    cancel(&mut web, &id, 2);
    web.advance(ms(4_999));
    assert!(!is_worked_on(&mut web, &id, 2));
    assert!(is_worked_on(&mut web, &id, 2));
    cancel(&mut web, &id, 2);
    web.advance(secs(5));
    assert!(is_worked_on(&mut web, &id, 2));
    // Twice is once, and later.
    cancel(&mut web, &id, 2);
    web.advance(secs(4));
    cancel(&mut web, &id, 2);
    web.advance(secs(4));
    assert!(!is_worked_on(&mut web, &id, 2));
    assert!(is_worked_on(&mut web, &id, 2));
}

// covers: CANC-011
#[test]
fn a_flood_of_cancellations_is_bounded() {
    let config = |most| server(VersionSet::ALL).limits(limits(|l| l.max_early_cancels = most));
    let mut web = Web::new(config(16), Config::new());
    let sessions: Vec<String> = (0..5).map(|_| session(&mut web, "2025-11-25")).collect();
    let (one, others) = sessions.split_first().expect("some");
    for other in others {
        cancel(&mut web, other, 1);
    }
    for id in 2..2_000 {
        cancel(&mut web, one, id);
    }
    // The newest four are a session's share, and it takes nothing from others.
    assert!((2..1_996).all(|id| is_worked_on(&mut web, one, id)));
    assert!((1_996..2_000).all(|id| !is_worked_on(&mut web, one, id)));
    assert!(others.iter().all(|other| !is_worked_on(&mut web, other, 1)));
    // All of them together have so many, and the oldest gives way.
    for session in &sessions {
        (10..14).for_each(|id| cancel(&mut web, session, id));
    }
    assert!((10..14).all(|id| is_worked_on(&mut web, one, id)));
    assert!(others.iter().all(|other| (10..14).all(|id| !is_worked_on(&mut web, other, id))));

    let mut none = Web::new(config(0), Config::new());
    let id = session(&mut none, "2025-11-25");
    cancel(&mut none, &id, 7);
    assert!(is_worked_on(&mut none, &id, 7));
}

// covers: CANC-016, CANC-017
#[test]
fn modern_calls_and_those_of_no_session_mind_no_cancellation() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let cancelled = build::note(
        "notifications/cancelled",
        json!({"requestId": 7, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
    );
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "notifications/cancelled")];
    let x = web.post(&fields, &cancelled.to_string());
    assert_eq!(web.reply(x).status, 202);
    diagnostic(&mut web);
    cancel(&mut web, &id, 7);
    let x = web.post(&CALL, &modern(7, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(x).message()["id"], 7);

    let mut stateless = super::web(Config::new().sessions(false));
    let x = stateless.post(&[], &cancellation(7));
    assert_eq!(stateless.reply(x).status, 202);
    diagnostic(&mut stateless);
    let x = stateless.post(&[], &legacy(7, "tools/call", ECHO));
    let call = stateless.call();
    answer(&mut stateless, &call);
    assert_eq!(stateless.reply(x).message()["id"], 7);
}
