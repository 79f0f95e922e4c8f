//! Who holds sessions, for how long, and who has to give way.

use mcp_proto::http::server::Config;
use mcp_proto::http::server::{Event, ExchangeId, Protected};
use mcp_tests::harness::Web;

use super::{ECHO, answer, initialize, legacy, session, web};
use crate::common::secs;

fn is_there(web: &mut Web, id: &str) -> bool {
    let x = web.post(&[("Mcp-Session-Id", id)], &legacy(9, "ping", ""));
    match web.reply(x).status {
        200 => true,
        404 => false,
        other => panic!("{other}"),
    }
}

// covers: HTTP-070, HTTP-062
#[test]
fn a_session_is_idle_from_the_end_of_what_it_was_used_for() {
    let mut web = web(Config::new().session_idle(secs(100)));
    let (calls, listens) = (session(&mut web, "2025-11-25"), session(&mut web, "2025-11-25"));
    let x = web.post(&[("Mcp-Session-Id", &calls)], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    let get = web.send("GET", "/mcp", &[("Mcp-Session-Id", &listens)], "");
    web.advance(secs(300));
    answer(&mut web, &call);
    assert!(web.reply(x).finished);
    web.hang_up(get);
    // A person takes a moment to read what took so long, and a connection to be made anew.
    web.advance(secs(50));
    assert!(is_there(&mut web, &calls) && is_there(&mut web, &listens));
    web.advance(secs(150));
    assert_eq!(web.server.sessions(), 0);
}

/// Sends a request on behalf of somebody
fn send_as(web: &mut Web, principal: &str, fields: &[(&str, &str)], body: &str) -> ExchangeId {
    let fields: Vec<_> = fields.iter().copied().chain([("Authorization", "Bearer good")]).collect();
    let x = web.post(&fields, body);
    let Some(Event::Token { exchange, .. }) = web.server.poll_event(web.now) else { panic!("no token") };
    web.server.grant(web.now, exchange, principal);
    web.body(x, body);
    x
}

// covers: SEC-018
#[test]
fn who_has_too_many_sessions_gives_up_his_own_and_nobody_elses() {
    let protected = Protected::new("https://example.com/.well-known/x");
    let mut web = web(Config::new().protected(protected).max_sessions(10, 3));
    let open = |web: &mut Web, who: &str| {
        let x = send_as(web, who, &[], &initialize("2025-11-25"));
        let reply = web.reply(x);
        assert_eq!(reply.status == 503, reply.field("mcp-session-id").is_none());
        reply.field("mcp-session-id").map(str::to_owned)
    };
    let is_there = |web: &mut Web, who: &str, id: &str| {
        let x = send_as(web, who, &[("Mcp-Session-Id", id)], &legacy(9, "ping", ""));
        web.reply(x).status == 200
    };
    let other = open(&mut web, "other").expect("a session");
    let many: Vec<String> =
        (0..20).map(|_| open(&mut web, "greedy").expect("the oldest gives way")).collect();
    assert_eq!(web.server.sessions(), 4);
    assert!(is_there(&mut web, "other", &other), "it was the oldest of all");
    let kept: Vec<bool> = many.iter().map(|id| is_there(&mut web, "greedy", id)).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 3);
    assert!(kept[17..].iter().all(|kept| *kept));
    // Once they are in use there is nothing to give way.
    for id in &many[17..] {
        let done = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        send_as(&mut web, "greedy", &[("Mcp-Session-Id", id)], done);
        assert!(web.server.poll_event(web.now).is_some());
    }
    assert_eq!(open(&mut web, "greedy"), None);
    assert!(open(&mut web, "other").is_some());
}
