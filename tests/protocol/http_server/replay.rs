//! Streams that are cut and taken up again.

use core::time::Duration;

use mcp_proto::http::server::Config;
use mcp_proto::{Change, Progress};

use super::{ECHO, answer, legacy, session, web};
use crate::common::secs;

fn call(id: u32) -> String {
    legacy(id, "tools/call", &format!("{ECHO},\"_meta\":{{\"progressToken\":{id}}}"))
}

// covers: SSE-013, SSE-014, SSE-015, SSE-016
#[test]
fn events_have_ids_and_a_stream_begins_with_one() {
    for (version, primed) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let mut web = web(Config::new());
        let id = session(&mut web, version);
        let named = ("Mcp-Session-Id", &*id);
        let get = web.send("GET", "/mcp", &[named], "");
        let mut ids: Vec<String> = web.reply(get).events().iter().map(|e| e.id.clone()).collect();
        for n in 2..5 {
            let x = web.post(&[named], &call(n));
            let call = web.call();
            web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
            web.pull();
            answer(&mut web, &call);
            let events = web.reply(x).events();
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
fn a_stream_that_was_cut_goes_on_where_it_was() {
    // Where the client lost the connection: behind so many events.
    for seen in 0..=3 {
        for answered_meanwhile in [false, true] {
            let mut web = web(Config::new());
            let id = session(&mut web, "2025-11-25");
            let named = ("Mcp-Session-Id", &*id);
            let x = web.post(&[named], &call(2));
            let other = web.post(&[named], &call(3));
            let (a, b) = (web.call(), web.call());
            for n in [1.0, 2.0, 3.0] {
                web.server.engine().progress(web.now, a.id(), Progress::new(n)).expect("open");
                web.server.engine().progress(web.now, b.id(), Progress::new(n)).expect("open");
                web.pull();
            }
            let last = web.reply(x).events()[seen].id.clone();
            web.hang_up(x);
            web.server.engine().progress(web.now, a.id(), Progress::new(4.0)).expect("open");
            if answered_meanwhile {
                answer(&mut web, &a);
            }
            let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
            if !answered_meanwhile {
                assert!(!web.reply(y).finished);
                answer(&mut web, &a);
            }
            let reply = web.reply(y);
            assert!(reply.finished, "seen {seen}, {answered_meanwhile}: {reply:?}");
            let messages = reply.messages();
            assert_eq!(messages.len(), 3 - seen + 2, "seen {seen}, {answered_meanwhile}");
            assert!(messages.iter().all(|m| m["params"]["progressToken"] == 2 || m["id"] == 2));
            assert_eq!(messages.last().map(|m| m["id"].clone()), Some(2.into()));
            answer(&mut web, &b);
            assert!(web.reply(other).finished);
            assert_eq!(web.server.exchanges(), 0);
            // Once more: it is over, and still known.
            let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
            assert_eq!(web.reply(y).messages().len(), 3 - seen + 2);
            assert!(web.reply(y).finished);
        }
    }
}

// covers: SSE-022, SSE-024
#[test]
fn ids_that_cannot_be_gone_on_from_are_refused() {
    let mut web = web(Config::new().replay_bytes(1_000));
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &call(2));
    let a = web.call();
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.pull();
    let known = web.reply(x).events().pop().expect("an event").id;
    let other = session(&mut web, "2025-11-25");
    for (session, event, status) in [
        (&id, "", 200),
        (&id, "nonsense", 400),
        (&id, "1-99", 400),
        (&id, "99-1", 400),
        (&id, "0-1", 400),
        (&id, "1- 1", 400),
        (&other, &*known, 400),
        (&id, &*known, 200),
    ] {
        let y = web.send("GET", "/mcp", &[("Mcp-Session-Id", session), ("Last-Event-ID", event)], "");
        assert_eq!(web.reply(y).status, status, "{event:?}");
        if status == 400 {
            assert!(!web.reply(x).finished, "the stream goes on");
        }
    }
    // What fell out of the budget is gone.
    for n in 2..20 {
        web.advance(Duration::from_secs(1));
        web.server.engine().progress(web.now, a.id(), Progress::new(f64::from(n))).expect("open");
        web.pull();
    }
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &known)], "");
    assert_eq!(web.reply(y).status, 400);
    // Nothing is kept where nothing is to be: then events have no ids either.
    let mut web = super::web(Config::new().replay_bytes(0));
    let id = session(&mut web, "2025-11-25");
    let x = web.post(&[("Mcp-Session-Id", &id)], &call(2));
    let a = web.call();
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.pull();
    assert!(web.reply(x).events().iter().all(|e| e.id.is_empty()));
    let y = web.send("GET", "/mcp", &[("Mcp-Session-Id", &id), ("Last-Event-ID", "1-0")], "");
    assert_eq!(web.reply(y).status, 400);
}

// covers: SSE-022
#[test]
fn coming_back_supersedes_the_connection_that_was_thought_to_live() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &call(2));
    let a = web.call();
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.pull();
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert!(web.reply(x).finished && web.reply(y).messages().len() == 1);
    answer(&mut web, &a);
    assert_eq!(web.reply(y).messages().len(), 2);
    assert!(web.reply(y).finished && web.reply(x).messages().len() == 1);
}

/// Has what there is to send made, and takes none of it
fn make(web: &mut mcp_tests::harness::Web) {
    web.pulls = false;
    while web.server.poll_ready(web.now).is_some() {}
    web.pulls = true;
}

// covers: HTTP-055, HTTP-056, SSE-022
#[test]
fn what_was_not_taken_goes_out_where_the_stream_was_taken_up_and_only_there() {
    for answered in [false, true] {
        let mut web = web(Config::new());
        let id = session(&mut web, "2025-11-25");
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], &call(2));
        let a = web.call();
        web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
        web.pull();
        web.server.engine().progress(web.now, a.id(), Progress::new(2.0)).expect("open");
        if answered {
            web.pulls = false;
            answer(&mut web, &a);
        }
        make(&mut web);
        let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "1-1")], "");
        if !answered {
            answer(&mut web, &a);
        }
        assert_eq!((web.reply(x).messages().len(), web.reply(y).messages().len()), (1, 2), "{answered}");
        assert!(web.reply(x).finished && web.reply(y).finished);
        assert_eq!(web.server.exchanges(), 0);
    }
    // The same for the stream of no call.
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.send("GET", "/mcp", &[named], "");
    web.server.engine().publish(web.now, &Change::Tools);
    make(&mut web);
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "0-0")], "");
    assert_eq!((web.reply(x).messages().len(), web.reply(y).messages().len()), (0, 1));
    assert!(web.reply(x).finished && !web.reply(y).finished);
    // Who begins anew does not say what he has seen: then it stays where it was.
    web.server.engine().publish(web.now, &Change::Tools);
    make(&mut web);
    let z = web.send("GET", "/mcp", &[named], "");
    assert_eq!((web.reply(y).messages().len(), web.reply(z).messages().len()), (2, 0));
}

// covers: SSE-022, SEC-018
#[test]
fn a_message_beyond_the_budget_takes_nothing_else_away() {
    let mut web = web(Config::new().replay_bytes(4_000));
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let (x, y) = (web.post(&[named], &call(2)), web.post(&[named], &call(3)));
    let (a, b) = (web.call(), web.call());
    for call in [&a, &b] {
        web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    }
    web.pull();
    let large = mcp_proto::model::CallToolResult::text("x".repeat(5_000));
    web.server.engine().complete(web.now, b.id(), &large).expect("open");
    web.pull();
    assert_eq!(web.reply(y).messages().len(), 2);
    web.hang_up(x);
    let again = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert_eq!((web.reply(again).status, web.reply(again).messages().len()), (200, 1));
    let again = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "2-1")], "");
    assert_eq!(web.reply(again).status, 400, "it is gone, and that is said");
}

// covers: SSE-022, HTTP-051
#[test]
fn the_stream_of_no_call_can_be_taken_up_as_well() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let get = web.send("GET", "/mcp", &[named], "");
    let primed = web.reply(get).events()[0].id.clone();
    web.server.engine().publish(web.now, &Change::Tools);
    web.pull();
    assert_eq!(web.reply(get).messages().len(), 1);
    // It was sent, and the client never saw it.
    web.hang_up(get);
    web.server.engine().publish(web.now, &Change::Tools);
    let get = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &primed)], "");
    assert_eq!(web.reply(get).messages().len(), 2);
    let last = web.reply(get).events().pop().expect("events").id;
    let get = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
    assert_eq!((web.reply(get).status, web.reply(get).messages().len()), (200, 0));
}

// covers: HTTP-058, HTTP-059, SSE-017, SSE-018
#[test]
fn a_call_that_takes_long_need_not_hold_a_connection() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let a = web.call();
    assert!(web.server.poll_later(web.now, a.id(), Some(Duration::from_millis(500))));
    web.pull();
    let reply = web.reply(x);
    let events = reply.events();
    assert!(reply.finished && events[0].data.is_empty() && !events[0].id.is_empty(), "{reply:?}");
    assert_eq!(events.last().map(|e| &*e.retry), Some("500"));
    assert!(web.event().is_none());
    let last = events[0].id.clone();
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
    assert!(!web.reply(y).finished);
    assert!(web.server.poll_later(web.now, a.id(), None), "as often as it likes");
    web.pull();
    answer(&mut web, &a);
    assert!(web.reply(y).messages().is_empty());
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", &last)], "");
    assert_eq!(web.reply(y).message()["id"], 2);
    assert_eq!(web.server.exchanges(), 0);
    // Others stay as they are.
    let id = session(&mut web, "2025-06-18");
    let x = web.post(&[("Mcp-Session-Id", &id)], &legacy(2, "tools/call", ECHO));
    let a = web.call();
    assert!(!web.server.poll_later(web.now, a.id(), None));
    answer(&mut web, &a);
    assert!(web.reply(x).finished);
}

// covers: SEC-018
#[test]
fn what_is_kept_of_calls_stays_within_its_budget() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    for n in 2..2_000 {
        let x = web.post(&[named], &call(n));
        let a = web.call();
        web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
        web.pull();
        if n % 3 == 0 {
            web.hang_up(x);
        }
        answer(&mut web, &a);
    }
    assert_eq!(web.server.exchanges(), 0);
    // The last ones can still be had, and the first ones cannot.
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "1990-0")], "");
    assert_eq!((web.reply(y).status, web.reply(y).messages().len()), (200, 2));
    let y = web.send("GET", "/mcp", &[named, ("Last-Event-ID", "1-0")], "");
    assert_eq!(web.reply(y).status, 400);
    web.advance(secs(1));
}
