//! Sessions whose ids carry their identity, so that each process takes them up without a store.

use alloc::sync::Arc;

use mcp_proto::http::server::{
    Config, ExchangeId, SealedIdentity, Server, SharedSessionEvent, SnapshotError, SubscriptionsNeedStore,
};
use mcp_proto::server::{Event, Identity};
use mcp_proto::{Capabilities, Capability, Entropy, Fault, Instant, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use serde_json::json;

use super::super::{ECHO_PARAMS, answer_call, initialize_request, legacy_request, modern_request};
use super::{OK, call, protected};
use crate::protocol::common::{secs, server};

fn engine() -> mcp_proto::server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    server(VersionSet::ALL).capabilities(capabilities)
}

fn process(number: u8, http: Config) -> HttpServerHarness {
    let mut web = HttpServerHarness::new(engine(), Config::new());
    web.server = Server::new(Arc::new(engine()), Arc::new(http), Entropy::new([number; 32], 0));
    web.server.shared_sessions().begin_in_ids(number.into()).expect("no subscriptions");
    web.has_other_processes = true;
    web
}

/// When all ids expire.
const EXPIRES: Instant = Instant::from_micros(1_000_000_000);

/// What stands for a seal here: the identity as hexadecimal digits.
fn seal(identity: &[u8]) -> Option<SealedIdentity> {
    SealedIdentity::new(identity.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn open(sealed: &str) -> Option<Vec<u8>> {
    let digits = (0..sealed.len() / 2).map(|n| u8::from_str_radix(sealed.get(2 * n..2 * n + 2)?, 16).ok());
    digits.collect()
}

/// Serves what the process asks for. Returns what became of the identities.
fn settle(web: &mut HttpServerHarness) -> Vec<Result<(), SnapshotError>> {
    let mut taken = Vec::new();
    while let Some(event) = web.poll_shared() {
        let now = web.now;
        let mut sessions = web.server.shared_sessions();
        match event {
            SharedSessionEvent::Begun { exchange, id } => {
                let record = sessions.save(&id).expect("it is here");
                let sealed = seal(&record.bytes);
                sessions.send_id(now, exchange, sealed.as_ref().map(|sealed| (sealed, EXPIRES)));
            }
            SharedSessionEvent::TakeUp { exchange, identity } => {
                let opened = open(identity.reveal());
                taken.push(sessions.take_up(
                    now,
                    exchange,
                    opened.as_deref().map(|opened| (opened, EXPIRES)),
                ));
            }
            other => panic!("{other:?}"),
        }
    }
    web.transmit_all();
    taken
}

fn post(web: &mut HttpServerHarness, id: &str, body: &str) -> ExchangeId {
    let x = web.post(&[("Mcp-Session-Id", id)], body);
    settle(web);
    x
}

fn get(web: &mut HttpServerHarness, id: &str, after: &[(&str, &str)]) -> ExchangeId {
    let fields = [&[("Mcp-Session-Id", id)], after].concat();
    let x = web.send_request("GET", "/mcp", &fields, "");
    settle(web);
    x
}

/// Begins a session, and returns its id.
fn begin(web: &mut HttpServerHarness, version: &str) -> String {
    let x = web.post(&[], &initialize_request(version));
    assert_eq!(web.response(x).status, 0, "the id is not complete before the identity is sealed");
    assert_eq!(settle(web), []);
    assert_eq!(web.response(x).status, 200);
    web.response(x).field("mcp-session-id").expect("a session").to_owned()
}

fn status_of_ping(web: &mut HttpServerHarness, id: &str) -> u16 {
    let x = post(web, id, &legacy_request(2, "ping", ""));
    web.response(x).status
}

fn complete_call(web: &mut HttpServerHarness, id: &str, request: u32) -> Vec<Event> {
    let x = post(web, id, &legacy_request(request, "tools/call", ECHO_PARAMS));
    let mut before = Vec::new();
    let running = call(web, &mut |event| before.push(event));
    answer_call(web, &running);
    assert_eq!(web.response(x).message()["result"]["content"][0]["text"], "done");
    before
}

// covers: HTTP-064, HTTP-066, HTTP-071, LIFE-006
#[test]
fn session_is_taken_up_by_each_process_from_its_id() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let [mut a, mut b, mut c] = [0, 1, 2].map(|n| process(n, Config::new()));
        let id = begin(&mut a, version);
        assert!(id.len() <= 1024 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{}", id.len());
        // The handshake ends at another process than it began at.
        let x = post(&mut b, &id, OK);
        assert_eq!(b.response(x).status, 202);
        for web in [&mut b, &mut c, &mut a] {
            let before = complete_call(web, &id, 5);
            assert!(matches!(&*before, [Event::SessionOpened { .. }]), "once at each: {before:?}");
            assert!(complete_call(web, &id, 6).is_empty());
            assert_eq!(web.server.session_count(), 1);
        }
        // Whoever has the session asks for nothing.
        let x = c.post(&[("Mcp-Session-Id", &id)], &legacy_request(7, "ping", ""));
        assert!(c.poll_shared().is_none());
        assert_eq!(c.response(x).status, 200);
        // A process that begins later goes on with it, first with a stream.
        let mut late = process(7, Config::new());
        let stream = get(&mut late, &id, &[]);
        assert!(late.response(stream).is_event_stream());
        assert_eq!(late.response(stream).messages()[0]["method"], "notifications/tools/list_changed");
        complete_call(&mut late, &id, 8);
    }
}

// covers: HTTP-064, BATCH-007, BATCH-010
#[test]
fn batch_takes_a_session_up_and_ends_its_handshake() {
    let [mut a, mut b] = [0, 1].map(|n| process(n, Config::new()));
    let id = begin(&mut a, "2025-03-26");
    let ping = legacy_request(5, "ping", "");
    let x = post(&mut b, &id, &format!("[{ping},{}]", legacy_request(6, "tools/call", ECHO_PARAMS)));
    // The notification of the other process is not waited for.
    let running =
        call(&mut b, &mut |event| assert!(matches!(event, Event::SessionOpened { .. }), "{event:?}"));
    answer_call(&mut b, &running);
    let response = b.response(x);
    let answers = response.message();
    let mut ids: Vec<_> = answers.as_array().into_iter().flatten().filter_map(|m| m["id"].as_u64()).collect();
    ids.sort_unstable();
    assert!(response.is_complete && ids == [5, 6], "{response:?}");
    assert!(complete_call(&mut b, &id, 7).is_empty());
}

// covers: HTTP-075
#[test]
fn client_cannot_end_a_session_that_other_processes_would_go_on_with() {
    let [mut a, mut b] = [0, 1].map(|n| process(n, Config::new()));
    let id = begin(&mut a, "2025-11-25");
    for web in [&mut a, &mut b] {
        let x = web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "");
        settle(web);
        assert_eq!((web.response(x).status, web.response(x).field("allow")), (405, Some("POST, GET")));
        complete_call(web, &id, 3);
    }
    let fields = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", "2026-07-28")];
    let x = a.send_request("DELETE", "/mcp", &fields, "");
    settle(&mut a);
    assert_eq!(a.response(x).status, 405);
    // In the other era there are no sessions, and the id means nothing.
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")];
    let mut c = process(2, Config::new());
    let x =
        c.post(&[fields[0], fields[1], ("Mcp-Session-Id", &id)], &modern_request(1, "server/discover", ""));
    assert!(c.poll_shared().is_none());
    assert_eq!((c.response(x).status, c.server.session_count()), (200, 0));
}

// covers: HTTP-070, HTTP-071
#[test]
fn session_that_has_ended_or_expired_is_over_in_its_process_too() {
    let mut a = process(0, Config::new().session_idle_timeout(secs(100_000)));
    let [id, ended] = [(); 2].map(|()| begin(&mut a, "2025-11-25"));
    let mut channels = Vec::new();
    for id in [&id, &ended] {
        post(&mut a, id, OK);
        channels.extend(core::iter::from_fn(|| a.poll_event()).filter_map(|event| match event {
            Event::SessionOpened { channel, .. } => Some(channel),
            _ => None,
        }));
    }
    a.server.engine().close_channel(a.now, channels[1], &Fault::Closed);
    for _ in 0..2 {
        assert_eq!((status_of_ping(&mut a, &ended), status_of_ping(&mut a, &id)), (404, 200));
    }
    a.advance(secs(999));
    assert_eq!(status_of_ping(&mut a, &id), 200);
    a.advance(secs(1));
    assert_eq!(status_of_ping(&mut a, &id), 404);
    assert_eq!(a.server.session_count(), 0);
}

// covers: HTTP-071, SEC-005, SEC-019
#[test]
fn id_that_was_altered_is_that_of_no_session() {
    let mut a = process(0, Config::new());
    let [id, other] = [(); 2].map(|()| begin(&mut a, "2025-11-25"));
    let (own, identity) = id.split_once('.').expect("an identity");
    let (_, foreign) = other.split_once('.').expect("an identity");
    let long = "A".repeat(SealedIdentity::MAX_LEN + 1);
    let mut altered = identity.to_owned().into_bytes();
    altered[1] ^= 1;
    let altered = String::from_utf8(altered).expect("ASCII");
    let half = &identity[..identity.len() / 2];
    let texts = [
        own.to_owned(),
        format!("{own}."),
        format!("{own}.."),
        format!("{own}{identity}"),
        format!("{own}~{identity}"),
        format!("{own}.{foreign}"),
        format!("{own}.{altered}"),
        format!("{own}.{half}"),
        format!("{own}.zz"),
        format!("{own}.{identity}.{identity}"),
        format!("{own}.{long}"),
        format!(".{identity}"),
        identity.to_owned(),
        format!("{}.{identity}", "A".repeat(28)),
        format!("{}.{identity}", &own[..27]),
    ];
    for text in &texts {
        let mut web = process(7, Config::new());
        assert_eq!(status_of_ping(&mut web, text), 404, "{text}");
        assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0), "{text}");
        let x = get(&mut web, text, &[]);
        assert_eq!(web.response(x).status, 404, "{text}");
        // Its client begins anew, and the right id is that of a session still.
        let new = begin(&mut web, "2025-11-25");
        assert_eq!((status_of_ping(&mut web, &new), status_of_ping(&mut web, &id)), (200, 200));
        // Nothing that comes later ends it.
        assert_eq!(web.server.session_count(), 2);
        assert!([200, 404].contains(&status_of_ping(&mut web, text)));
        assert_eq!((web.server.session_count(), status_of_ping(&mut web, &id)), (2, 200), "{text}");
    }
    // What is told to the application shows neither.
    let mut web = process(7, Config::new());
    web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "ping", ""));
    let shown = format!("{:?}", web.poll_shared().expect("an identity"));
    assert!(!shown.contains(&identity[..8]) && !shown.contains(&own[..8]), "{shown}");
    assert!(shown.contains("SealedIdentity"), "{shown}");
    assert!(SealedIdentity::new(String::new()).is_none() && SealedIdentity::new("a b".into()).is_none());
}

// covers: SEC-005
#[test]
fn id_of_another_principal_takes_up_nothing() {
    let protected_process = |n| {
        let mut web = process(n, Config::new().protected(protected()));
        web.server.set_validator(|request| Some(Ok(Arc::new(Identity::new(request.token.reveal())))));
        web
    };
    let mut a = protected_process(0);
    let x = a.post(&[("Authorization", "Bearer alice")], &initialize_request("2025-06-18"));
    settle(&mut a);
    let id = a.response(x).field("mcp-session-id").expect("a session").to_owned();
    let mut b = protected_process(1);
    for (token, status, sessions) in [("eve", 404, 0), ("alice", 200, 1), ("eve", 404, 1)] {
        let token = format!("Bearer {token}");
        let fields = [("Mcp-Session-Id", &*id), ("Authorization", &token)];
        let x = b.post(&fields, &legacy_request(2, "ping", ""));
        let taken = settle(&mut b);
        assert!(taken.iter().all(|taken| taken.is_ok() == (status == 200)), "{taken:?}");
        assert_eq!((b.response(x).status, b.server.session_count()), (status, sessions), "{token}");
    }
}

#[test]
fn session_without_a_sealed_identity_belongs_to_its_process() {
    let [mut a, mut b] = [0, 1].map(|n| process(n, Config::new()));
    let x = a.post(&[], &initialize_request("2025-11-25"));
    let Some(SharedSessionEvent::Begun { exchange, .. }) = a.poll_shared() else { panic!("a session") };
    a.server.shared_sessions().send_id(a.now, exchange, None);
    a.transmit_all();
    let id = a.response(x).field("mcp-session-id").expect("a session").to_owned();
    assert_eq!(id.len(), 28);
    assert_eq!((status_of_ping(&mut a, &id), status_of_ping(&mut b, &id)), (200, 404));
}

#[test]
fn subscriptions_to_resources_need_a_store() {
    let config = engine().capabilities(Capabilities::new().with(Capability::ResourceSubscriptions));
    let mut server = Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([1; 32], 0));
    assert_eq!(server.shared_sessions().begin_in_ids(1), Err(SubscriptionsNeedStore));
}

// covers: SSE-021
#[test]
fn stream_of_another_process_ends_with_an_error_or_begins_anew() {
    let [mut a, mut b] = [0, 1].map(|n| process(n, Config::new()));
    let id = begin(&mut a, "2025-11-25");
    let x = post(&mut a, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
    let running = call(&mut a, &mut |_| {});
    a.advance(secs(5));
    let begun = a.response(x).events().first().expect("the first event").id.clone();
    // No process can ask the other one for the stream, so the call counts as lost, at once.
    let resumed = get(&mut b, &id, &[("Last-Event-ID", &begun)]);
    let response = b.response(resumed);
    assert_eq!(
        (&response.message()["id"], &response.message()["error"]["code"]),
        (&json!(5), &json!(-32603))
    );
    assert!(response.is_complete);
    // At its own process it goes on.
    let resumed = get(&mut a, &id, &[("Last-Event-ID", &begun)]);
    answer_call(&mut a, &running);
    assert_eq!(a.response(resumed).message()["result"]["content"][0]["text"], "done");
    // A GET stream begins anew.
    let stream = get(&mut a, &id, &[]);
    let last = a.response(stream).events().pop().expect("a priming event").id;
    let resumed = get(&mut b, &id, &[("Last-Event-ID", &last)]);
    assert!(b.response(resumed).is_event_stream());
}

#[test]
fn identity_that_nobody_seals_or_opens_is_waited_for_until_the_time_limit() {
    let config = || Config::new().store_timeout(secs(2));
    let mut a = process(0, config());
    let id = begin(&mut a, "2025-11-25");
    let mut web = process(1, config());
    let fields = [("Mcp-Session-Id", &*id)];
    let handshake = web.post(&[], &initialize_request("2025-11-25"));
    let ping = web.post(&fields, &legacy_request(2, "ping", ""));
    let stream = web.send_request("GET", "/mcp", &fields, "");
    web.advance(secs(1));
    assert!([handshake, ping, stream].iter().all(|x| web.response(*x).status == 0));
    web.advance(secs(5));
    for x in [handshake, ping, stream] {
        assert_eq!((web.response(x).status, web.response(x).is_complete), (503, true));
    }
    // Late answers have no effect.
    let identity = open(id.split_once('.').expect("an identity").1).expect("digits");
    for x in [handshake, ping, stream] {
        assert_eq!(web.server.shared_sessions().take_up(web.now, x, Some((&identity, EXPIRES))), Ok(()));
        web.server.shared_sessions().send_id(web.now, x, seal(b"x").as_ref().map(|sealed| (sealed, EXPIRES)));
    }
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}

#[test]
fn sessions_that_find_no_room_are_refused_for_now() {
    let mut a = process(0, Config::new());
    let id = begin(&mut a, "2025-11-25");
    let mut full = process(2, Config::new().max_sessions(1, 1).session_idle_timeout(secs(160)));
    let taken = begin(&mut full, "2025-11-25");
    post(&mut full, &taken, OK);
    assert_eq!(status_of_ping(&mut full, &id), 503);
    full.advance(secs(400));
    assert_eq!(full.server.session_count(), 0, "it was idle");
    assert_eq!(status_of_ping(&mut full, &id), 200);
    // The idle one would be taken up again, too.
    full.advance(secs(400));
    assert_eq!(status_of_ping(&mut full, &taken), 200);
}

#[test]
fn shard_of_a_session_takes_it_up() {
    let config = || {
        let mut web = process(1, Config::new());
        web.server.set_shard(1, 2);
        web
    };
    let (mut a, mut b) = (config(), config());
    let id = begin(&mut a, "2025-11-25");
    let head = |server: &Server, id: &str| {
        let fields = [("Mcp-Session-Id", id.as_bytes())];
        server.other_shard(&mcp_proto::head::RequestHead { method: "POST", target: "/mcp", fields: &fields })
    };
    assert_eq!((head(&b.server, &id), status_of_ping(&mut b, &id)), (None, 200));
    let mut other = process(2, Config::new());
    other.server.set_shard(0, 2);
    assert_eq!(head(&other.server, &id), Some(1), "its connection moves there");
    assert_eq!(status_of_ping(&mut other, &id), 404);
}

// covers: SSE-015
#[test]
fn numbers_of_streams_tell_the_process_modulo_1024() {
    for (number, expected) in [(0, 0), (1, 1), (1_023, 1_023), (1_024, 0), (1_027, 3)] {
        let mut web = process(0, Config::new());
        web.server = Server::new(Arc::new(engine()), Arc::new(Config::new()), Entropy::new([1; 32], 0));
        web.server.shared_sessions().begin_in_ids(number).expect("no subscriptions");
        let id = begin(&mut web, "2025-11-25");
        let stream = get(&mut web, &id, &[]);
        let event = web.response(stream).events().first().expect("a priming event").id.clone();
        let (stream, _) = event.split_once('-').expect("a number");
        assert_eq!(stream.parse(), Ok((expected << 21) + 1_u32), "{number}");
    }
}
