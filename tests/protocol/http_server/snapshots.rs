//! Sessions that are written down and go on in another process.

use alloc::sync::Arc;

use mcp_proto::http::server::{Config, ExchangeId, Server, SnapshotError};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Call, Event, InputRequired};
use mcp_proto::{Capability, Change, Diagnostic, Entropy, Progress, SendStatus, Version, VersionSet};
use mcp_tests::harness::{HttpServerHarness, Rng, rounds};
use serde_json::{Value, json};

use super::{
    ECHO_PARAMS, answer_call, harness, harness_with_versions, initialize_request, legacy_request,
    open_session, with_capabilities,
};
use crate::protocol::common::{ms, secs, server};

/// Ends the process of a server and starts another one, which takes all sessions. Returns their snapshots.
fn restart(web: &mut HttpServerHarness, http: Config) -> Vec<Vec<u8>> {
    let ids: Vec<String> = web.server.snapshots().ids();
    let saved: Vec<Vec<u8>> =
        ids.iter().map(|id| web.server.snapshots().save(id).expect("a session that is open")).collect();
    web.server = harness(http).server;
    for snapshot in &saved {
        web.server.snapshots().restore(web.now, snapshot).expect("a snapshot");
    }
    saved
}

/// Returns a server with entropy of its own, as each process has.
fn with_entropy(http: Config, seed: u8) -> HttpServerHarness {
    let mut web = harness(Config::new());
    let config = Arc::new(with_capabilities(server(VersionSet::ALL)));
    web.server = Server::new(config, Arc::new(http), Entropy::new([seed; 32], 0));
    web
}

fn post(web: &mut HttpServerHarness, id: &str, body: &str) -> ExchangeId {
    web.post(&[("Mcp-Session-Id", id)], body)
}

fn get(web: &mut HttpServerHarness, id: &str, last_event_id: &str) -> ExchangeId {
    web.send_request("GET", "/mcp", &[("Mcp-Session-Id", id), ("Last-Event-ID", last_event_id)], "")
}

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["method"].as_str()).collect()
}

// covers: HTTP-064, HTTP-071, LIFE-008, LOG-006, RES-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn session_goes_on_after_a_restart() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, version);
        for (n, (method, params)) in
            [("logging/setLevel", r#""level":"error""#), ("resources/subscribe", r#""uri":"tide:1""#)]
                .into_iter()
                .enumerate()
        {
            let x = post(&mut web, &id, &legacy_request(n as u32 + 2, method, params));
            assert_eq!(web.response(x).message()["result"], json!({}));
        }
        while web.poll_event().is_some() {}
        let saved = restart(&mut web, Config::new());
        assert!(saved[0].len() <= 256, "an idle session has {} bytes", saved[0].len());
        assert_eq!(web.server.snapshots().ids(), [&*id]);
        // Written down again before anything happens, it is the same.
        assert_eq!(web.server.snapshots().save(&id).as_ref(), Some(&saved[0]));
        let events: Vec<Event> = core::iter::from_fn(|| web.poll_event()).collect();
        let [Event::SessionOpened { channel, version: reported }, Event::ResourceInterest { uri, .. }] =
            &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((reported.as_str(), &**uri), (version, "tide:1"));

        // Everything may have changed meanwhile.
        let stream = get(&mut web, &id, "");
        let messages = web.response(stream).messages();
        let updated = "notifications/resources/updated";
        assert_eq!(methods(&messages), ["notifications/tools/list_changed", updated]);
        assert_eq!(messages[1]["params"]["uri"], "tide:1");
        // And changes are announced as before.
        web.server.engine().publish(web.now, &Change::Resource("tide:1".into()));
        web.transmit_all();
        assert_eq!(methods(&web.response(stream).messages()[2..]), [updated]);
        // The level that the client set is kept.
        for (level, sent) in
            [(LoggingLevel::Info, SendStatus::Dropped), (LoggingLevel::Error, SendStatus::Queued)]
        {
            let (now, channel) = (web.now, *channel);
            assert_eq!(web.server.engine().log_session(now, channel, &level, None, "x"), Ok(sent));
        }
        // Calls are served, and the client has the capabilities that it declared.
        let x = post(&mut web, &id, &legacy_request(9, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        assert_eq!(call.version().as_str(), version);
        let client = web.server.engine().peer(&call);
        assert!(client.has(Capability::Elicitation));
        assert_eq!(client.info().map(|client| client.name), Some("x".into()));
        answer_call(&mut web, &call);
        assert_eq!(web.response(x).message()["id"], 9);
        // The end is the end.
        web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "");
        assert_eq!(web.server.snapshots().save(&id), None);
        assert_eq!(web.server.snapshots().restore(web.now, &saved[0]), Ok(()), "it is what was written");
    }
}

// covers: BASE-005, SSE-021
#[test]
fn question_and_call_that_are_lost_have_an_end_and_ids_are_not_used_again() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let mut asked = Vec::new();
    for round in 0..4 {
        let x = post(&mut web, &id, &legacy_request(round + 2, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        let mut input = InputRequired::new();
        let form = ElicitParams::form("Sure?", ElicitSchema::default());
        input.request_input(&call, "sure", InputRequest::Elicit(form)).expect_err("not yet");
        let now = web.now;
        web.server.engine().require_input(now, &call, &input).expect("open");
        web.transmit_all();
        let response = web.response(x);
        let (events, messages) = (response.events(), response.messages());
        // The harness checks as well that no id is used twice.
        let question = messages.iter().find(|m| m["method"] == "elicitation/create").expect("a question");
        assert!(!asked.contains(&question["id"]), "{asked:?} {question}");
        asked.push(question["id"].clone());
        let last = events.last().expect("the question").id.clone();

        // Some processes ask nothing.
        (0..=round % 2).for_each(|_| drop(restart(&mut web, Config::new())));
        while web.poll_event().is_some() {}
        // An answer to what the other process asked is too late, and no fault.
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
        let x = post(&mut web, &id, &answer.to_string());
        assert_eq!(web.response(x).status, 202);
        // Who resumes the stream learns that the call is lost.
        let resumed = get(&mut web, &id, &last);
        let messages = web.response(resumed).messages();
        assert!(web.response(resumed).is_complete);
        assert_eq!((messages.len(), &messages[0]["id"]), (1, &json!(round + 2)));
        assert_eq!(messages[0]["error"]["code"], -32603);
        let late = |event| matches!(event, Event::Diagnostic { diagnostic: Diagnostic::LateResponse(_), .. });
        assert!(web.poll_event().is_some_and(late) && web.poll_event().is_none());
    }
}

// covers: HTTP-055, SSE-021, SSE-022
#[test]
fn events_before_a_restart_can_be_resumed_after_it() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let stream = get(&mut web, &id, "");
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    let read = web.response(stream).events().pop().expect("a change").id;
    web.advance(ms(100));
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    let unread = web.response(stream).events().pop().expect("another change");
    assert_ne!(read, unread.id);
    // A call whose stream has ended, but whose client has not read the answer.
    let x = post(&mut web, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(5));
    let begun = web.response(x).events().first().expect("the first event").id.clone();
    answer_call(&mut web, &call);
    let answer = web.response(x).events().pop().expect("the answer");

    restart(&mut web, Config::new());
    let resumed = get(&mut web, &id, &read);
    let events = web.response(resumed).events();
    assert_eq!(events.iter().filter(|event| event.id == unread.id && event.data == unread.data).count(), 1);
    let ids: Vec<&String> = events.iter().map(|event| &event.id).filter(|id| !id.is_empty()).collect();
    assert!(!ids.iter().any(|id| **id == read), "what was read is not sent again: {ids:?}");
    let resumed = get(&mut web, &id, &begun);
    assert!(web.response(resumed).events().contains(&answer));
    assert!(web.response(resumed).is_complete);
    // New streams have new numbers.
    let new = get(&mut web, &id, "");
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    let number = |id: &str| id.split_once('-').map(|(stream, _)| stream.to_owned());
    let first = web.response(new).events().into_iter().find(|event| !event.id.is_empty());
    let first = first.expect("an event").id;
    assert!([read, begun].iter().all(|old| number(old) != number(&first)));
    // Events that were not kept are refused, as before.
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    restart(&mut web, Config::new());
    let x = get(&mut web, &id, "7-1");
    assert_eq!(web.response(x).status, 400);
}

// covers: SSE-021, HTTP-055
#[test]
fn what_a_slow_client_has_not_taken_waits_for_it_after_a_restart() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let x = post(&mut web, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(5));
    let begun = web.response(x).events().first().expect("the first event").id.clone();
    let stream = get(&mut web, &id, "");
    // From here on the client takes nothing: an answer waits in the engine, and a change in the response.
    web.auto_transmits = false;
    let now = web.now;
    web.server.engine().publish(now, &Change::Tools);
    while web.server.poll_ready(now).is_some() {}
    web.server.engine().complete(now, call.id(), &CallToolResult::text("done")).expect("open");
    web.auto_transmits = true;
    restart(&mut web, Config::new());
    let resumed = get(&mut web, &id, &begun);
    let messages = web.response(resumed).messages();
    assert!(web.response(resumed).is_complete);
    assert_eq!((messages.len(), &messages[0]["id"]), (1, &json!(5)));
    assert_eq!(messages[0]["result"]["content"][0]["text"], "done");
    // A new stream gets the change.
    assert!(web.response(stream).messages().is_empty());
    let new = get(&mut web, &id, "");
    assert!(methods(&web.response(new).messages()).contains(&"notifications/tools/list_changed"));
    assert!(web.server.snapshots().save(&id).is_some());
}

/// Logs a text outside of calls, on the session of a call.
#[expect(deprecated, reason = "tested until its removal")]
fn log(web: &mut HttpServerHarness, call: &Call, text: &str) {
    let (now, channel) = (web.now, call.channel());
    let sent = web.server.engine().log_session(now, channel, &LoggingLevel::Info, None, text);
    assert_eq!(sent, Ok(SendStatus::Queued));
    web.transmit_all();
}

// covers: HTTP-055, HTTP-056
#[test]
fn messages_that_no_get_stream_has_taken_are_sent_after_a_restart() {
    // With a stream that has taken the first one, and without a stream.
    for (has_stream, expected) in [(true, &["second", "third"][..]), (false, &["first", "second", "third"])] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, "2025-11-25");
        // A call without events is lost, and no client can resume it.
        post(&mut web, &id, &legacy_request(5, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        if has_stream {
            get(&mut web, &id, "");
        }
        log(&mut web, &call, "first");
        web.auto_transmits = false;
        log(&mut web, &call, "second");
        while web.server.poll_ready(web.now).is_some() {}
        web.server.engine().publish(web.now, &Change::Tools);
        log(&mut web, &call, "third");
        web.auto_transmits = true;
        // Twice: what waits for a stream is written down again.
        (0..2).for_each(|_| drop(restart(&mut web, Config::new())));
        let stream = get(&mut web, &id, "");
        let messages = web.response(stream).messages();
        let texts: Vec<&str> = messages.iter().filter_map(|m| m["params"]["data"].as_str()).collect();
        assert_eq!(texts, expected);
    }
}

// covers: SSE-022, SSE-024
#[test]
fn stream_whose_answer_was_not_kept_is_not_resumed_without_it() {
    for (length, status) in [(10, 200), (2_000, 400)] {
        let mut web = harness(Config::new().replay_bytes(1_000));
        let id = open_session(&mut web, "2025-11-25");
        let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
        let x = post(&mut web, &id, &legacy_request(5, "tools/call", &params));
        let call = web.expect_call();
        web.advance(secs(5));
        let begun = web.response(x).events().first().expect("the first event").id.clone();
        web.auto_transmits = false;
        let now = web.now;
        web.server.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
        let answer = CallToolResult::text("x".repeat(length));
        web.server.engine().complete(now, call.id(), &answer).expect("open");
        web.auto_transmits = true;
        restart(&mut web, Config::new().replay_bytes(1_000));
        let resumed = get(&mut web, &id, &begun);
        assert_eq!(web.response(resumed).status, status);
        if status == 200 {
            assert_eq!(web.response(resumed).messages().len(), 2);
        }
    }
}

#[test]
fn nothing_is_replayed_where_nothing_is_kept() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let stream = get(&mut web, &id, "");
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    let last = web.response(stream).events().pop().expect("a change").id;
    restart(&mut web, Config::new().replay_bytes(0));
    let resumed = get(&mut web, &id, &last);
    assert_eq!(web.response(resumed).status, 400);
    let new = get(&mut web, &id, "");
    assert_eq!(methods(&web.response(new).messages()), ["notifications/tools/list_changed"]);
}

// covers: HTTPSSE-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn session_of_http_sse_ends_with_its_stream_and_is_not_written_down() {
    let mut web = harness(Config::new().http_sse("/sse", "/messages"));
    let stream = web.send_request("GET", "/sse", &[], "");
    let target = web.response(stream).events()[0].data.clone();
    web.send_request("POST", &target, &[], &initialize_request("2024-11-05"));
    let (_, id) = target.split_once('=').expect("an id");
    assert_eq!((web.server.snapshots().ids(), web.server.snapshots().save(id)), (Vec::new(), None));
}

// covers: BATCH-004, BATCH-009
#[test]
fn answers_of_a_batch_that_is_incomplete_are_not_lost() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    let members = [2, 3].map(|n| legacy_request(n, "tools/call", ECHO_PARAMS)).join(",");
    let x = post(&mut web, &id, &format!("[{members}]"));
    let calls = [web.expect_call(), web.expect_call()];
    web.advance(secs(5));
    assert!(web.response(x).is_event_stream());
    answer_call(&mut web, &calls[0]);
    let saved = restart(&mut web, Config::new());
    let text = String::from_utf8_lossy(&saved[0]).into_owned();
    assert!(text.contains(r#"[{"jsonrpc":"2.0","id":2,"result""#), "{text}");
    // Its stream has sent no event that could be resumed: the first one would be the array, then the error of the other.
    let resumed = get(&mut web, &id, "1-0");
    let events: Vec<Value> = web.response(resumed).messages();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((&events[0][0]["id"], &events[1]["id"]), (&json!(2), &json!(3)));
    assert_eq!(events[1]["error"]["code"], -32603);
}

// covers: BATCH-004, SSE-015, SSE-021
#[test]
fn calls_that_are_lost_end_their_own_streams() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    // A batch of two calls, then two of one call each.
    for requests in [&[2, 3][..], &[4], &[5]] {
        let members: Vec<String> =
            requests.iter().map(|n| legacy_request(*n, "tools/call", ECHO_PARAMS)).collect();
        post(&mut web, &id, &format!("[{}]", members.join(",")));
        requests.iter().for_each(|_| drop(web.expect_call()));
    }
    web.advance(secs(5));
    restart(&mut web, Config::new());
    for (stream, requests) in [(1, &[2, 3][..]), (2, &[4]), (3, &[5])] {
        let resumed = get(&mut web, &id, &format!("{stream}-0"));
        let (response, events) = (web.response(resumed), web.response(resumed).events());
        let ids: Vec<String> = (1..=requests.len()).map(|event| format!("{stream}-{event}")).collect();
        assert!(response.is_complete && events.iter().map(|event| &event.id).eq(&ids), "{events:?}");
        let messages = response.messages();
        assert!(messages.iter().map(|message| &message["id"]).eq(requests), "{messages:?}");
        // Who has read all of it has nothing more to come.
        let resumed = get(&mut web, &id, ids.last().expect("an event"));
        assert_eq!((web.response(resumed).status, web.response(resumed).messages()), (200, Vec::new()));
    }
}

#[test]
fn handshake_of_several_lines_is_written_on_one() {
    let mut web = harness(Config::new());
    let body = initialize_request("2025-06-18").replace('{', "{\n ").replace(',', ",\r\n ");
    let x = web.post(&[], &body);
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    restart(&mut web, Config::new());
    post(&mut web, &id, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
}

#[test]
fn session_has_no_second_id_where_it_came_to() {
    let mut web = with_entropy(Config::new(), 9);
    let mut ids: Vec<String> = (0..3).map(|_| open_session(&mut web, "2025-06-18")).collect();
    let id = ids.remove(2);
    let saved = web.server.snapshots().save(&id).expect("open");
    let mut other = with_entropy(Config::new(), 10);
    assert_eq!(other.server.snapshots().restore(other.now, &saved), Ok(()));
    // Its slot there is the first one.
    let alias = format!("AAAA{}", &id[4..]);
    assert!(other.server.snapshots().save(&id).is_some() && other.server.snapshots().save(&alias).is_none());
}

// covers: LIFE-006
#[test]
fn handshake_that_has_begun_goes_on_after_a_restart() {
    let mut web = harness(Config::new());
    let x = web.post(&[], &initialize_request("2025-06-18"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    restart(&mut web, Config::new());
    assert!(web.poll_event().is_none(), "it is no session for the application yet");
    let x = post(&mut web, &id, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_eq!(web.response(x).status, 202);
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { version: Version::V2025_06_18, .. })));
}

#[test]
fn refused_snapshot_says_why_and_changes_nothing() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-06-18");
    let saved = web.server.snapshots().save(&id).expect("open");
    assert_eq!(web.server.snapshots().restore(web.now, &saved), Err(SnapshotError::AlreadyHere));
    assert_eq!(web.server.snapshots().save("AAAAAAAAAAAAAAAAAAAAAAAAAAAA"), None);
    assert_eq!(web.server.snapshots().save(""), None);

    let refused = |mut web: HttpServerHarness, snapshot: &[u8]| {
        let before = web.server.session_count();
        let refused = web.server.snapshots().restore(web.now, snapshot);
        assert!(refused.is_ok() || (web.server.session_count() == before && web.poll_event().is_none()));
        refused
    };
    assert_eq!(refused(harness(Config::new().sessions(false)), &saved), Err(SnapshotError::NoSessions));
    let newer = [&[2], &saved[1..]].concat();
    let error = refused(harness(Config::new()), &newer).expect_err("another format");
    assert_eq!(error.to_string(), "the snapshot has format 2, and this release reads format 1");
    let other = harness_with_versions(VersionSet::only(Version::V2025_11_25), Config::new());
    let error = refused(other, &saved).expect_err("another revision");
    assert_eq!(error.to_string(), "this server does not serve revision 2025-06-18");
    let mut full = with_entropy(Config::new().max_sessions(1, 1), 9);
    open_session(&mut full, "2025-06-18");
    assert_eq!(refused(full, &saved), Err(SnapshotError::Full));
    let mut ending = harness(Config::new());
    ending.server.shutdown(ending.now, secs(1));
    assert_eq!(refused(ending, &saved), Err(SnapshotError::ShuttingDown));
    // The id names a shard that is not this one, and perhaps none of those here.
    for all in [2, 255] {
        let mut sharded = harness(Config::new());
        sharded.server.set_shard(0, all);
        assert!(matches!(refused(sharded, &saved), Err(SnapshotError::OtherShard(_))));
    }
}

/// Returns the snapshot of a session with some of everything.
fn rich_snapshot() -> Vec<u8> {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    post(&mut web, &id, &legacy_request(2, "resources/subscribe", r#""uri":"tide:1""#));
    let stream = get(&mut web, &id, "");
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    web.close_exchange(stream);
    while web.poll_event().is_some() {}
    post(&mut web, &id, &legacy_request(3, "tools/call", ECHO_PARAMS));
    let _call = web.expect_call();
    web.advance(secs(5));
    web.server.snapshots().save(&id).expect("open")
}

#[test]
fn altered_or_cut_snapshot_is_refused_or_is_another_session() {
    let saved = rich_snapshot();
    for end in 0..saved.len() {
        let mut web = harness(Config::new());
        assert!(web.server.snapshots().restore(web.now, &saved[..end]).is_err(), "cut after {end} bytes");
    }
    let mut web = harness(Config::new());
    let longer = [&saved[..], b"0"].concat();
    assert_eq!(web.server.snapshots().restore(web.now, &longer), Err(SnapshotError::Malformed));
    let mut rng = Rng::new(7);
    for round in 0..rounds(2_000) {
        let mut altered = saved.clone();
        for _ in 0..=round % 3 {
            let at = rng.below(altered.len());
            altered[at] = rng.below(256) as u8;
        }
        let mut web = harness(Config::new());
        if web.server.snapshots().restore(web.now, &altered).is_ok() {
            // What was taken can be written down, and works.
            let id = web.server.snapshots().ids().pop().expect("it was taken");
            let again = web.server.snapshots().save(&id).expect("it is open");
            let mut other = harness(Config::new());
            assert_eq!(other.server.snapshots().restore(other.now, &again), Ok(()));
            while web.poll_event().is_some() {}
            get(&mut web, &id, "");
            post(&mut web, &id, &legacy_request(77, "ping", ""));
            web.advance(secs(2));
        }
    }
}

// covers: SEC-005
#[test]
fn sessions_that_move_between_servers_are_found_by_their_id_alone() {
    let mut rng = Rng::new(11);
    for _ in 0..rounds(60) {
        let seed = rng.below(200) as u8;
        let mut servers = [0, 1, 2].map(|n| with_entropy(Config::new(), seed.wrapping_add(n)));
        // The server that each session is in; `None` if it has ended.
        let mut places: Vec<(String, Option<usize>)> = Vec::new();
        for _ in 0..60 {
            match rng.below(4) {
                0 => {
                    let at = rng.below(3);
                    places.push((open_session(&mut servers[at], "2025-06-18"), Some(at)));
                }
                1 | 2 if !places.is_empty() => {
                    let which = rng.below(places.len());
                    let (id, Some(from)) = places[which].clone() else { continue };
                    let to = rng.below(3);
                    let saved = servers[from].server.snapshots().save(&id).expect("it is there");
                    servers[from].send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "");
                    let now = servers[to].now;
                    servers[to].server.snapshots().restore(now, &saved).expect("there is room");
                    places[which].1 = Some(to);
                }
                3 if !places.is_empty() => {
                    let which = rng.below(places.len());
                    if let (id, Some(at)) = places[which].clone() {
                        servers[at].send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "");
                        places[which].1 = None;
                    }
                }
                _ => {}
            }
            for web in &mut servers {
                while web.poll_event().is_some() {}
            }
            for (id, place) in &places {
                for (at, web) in servers.iter_mut().enumerate() {
                    assert_eq!(web.server.snapshots().save(id).is_some(), *place == Some(at), "{id}");
                }
            }
        }
    }
}

#[test]
fn session_that_a_shutdown_ends_is_not_written_down() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    post(&mut web, &id, &legacy_request(2, "tools/call", ECHO_PARAMS));
    let _call = web.expect_call();
    assert!(web.server.snapshots().save(&id).is_some());
    web.server.shutdown(web.now, secs(5));
    assert_eq!(web.server.snapshots().save(&id), None);
}
