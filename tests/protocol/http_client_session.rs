//! Over HTTP to a legacy server: sessions, the GET stream, streams that break and go on, sessions that are lost.

use mcp_proto::client::Event;
use mcp_proto::http::client::Reconnect;
use mcp_proto::model::LoggingLevel;
use mcp_proto::{CallError, Diagnostic, Fault, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, initialized, legacy, note, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{client, ms, secs};
use crate::http_client_shared::{V, answer, can, http, lone, once};

fn is_get(asked: &Asked) -> &Asked {
    assert_eq!((asked.method, asked.field("Accept")), ("GET", Some("text/event-stream")));
    assert!(asked.body.is_null() && asked.field("content-type").is_none());
    asked
}

// covers: HTTP-014, HTTP-015, HTTP-067, HTTP-076, VER-039, BATCH-009 (none is sent)
#[test]
fn requests_carry_session_and_version_as_the_revision_wants() {
    for version in LEGACY {
        for session in [None, Some("s-1!~")] {
            let mut lone = lone(Chunker::Whole);
            let said = lone.to_legacy(version, session, can());
            let named = (version >= Version::V2025_06_18).then_some(version.as_str());
            let check = |asked: &Asked| {
                assert_eq!(asked.field("mcp-session-id"), session);
                assert_eq!(asked.field("mcp-protocol-version"), named);
                assert!(asked.field("mcp-method").is_none() && asked.field("mcp-name").is_none());
                assert!(asked.field("last-event-id").is_none());
            };
            check(&said);
            lone.status(said.id, 202);
            let get = lone.asked();
            check(is_get(&get));
            lone.status(get.id, 405);
            let (key, asked) = lone.waves(&once());
            check(&asked);
            assert_eq!(asked.field("accept"), Some("application/json, text/event-stream"));
            lone.json(asked.id, 200, &result(&asked.body, answer()));
            assert_eq!(lone.done(key), Ok(answer()));
            lone.client.close(lone.now);
            assert_eq!(lone.closed(), Fault::Closed);
            match session {
                None => lone.silent(),
                Some(_) => {
                    let end = lone.asked();
                    assert_eq!((end.method, end.field("accept")), ("DELETE", None));
                    check(&end);
                    assert!(!lone.client.is_drained());
                    lone.status(end.id, 405);
                }
            }
            assert!(lone.client.is_drained());
        }
    }
}

// covers: HTTP-068, SEC-019
#[test]
fn the_session_id_is_not_shown() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("s3cret"), can());
    let shown = format!("{:?}", lone.client);
    assert!(!shown.contains("s3cret") && !shown.contains(&format!("{:?}", b"s3cret")), "{shown}");
}

// covers: HTTP-066 (as the client takes it)
#[test]
fn a_session_id_that_is_none_is_not_repeated() {
    for bad in ["", "a b", "\u{e9}", &"x".repeat(2_000)] {
        let mut lone = lone(Chunker::Whole);
        let probe = lone.asked();
        lone.status(probe.id, 404);
        let asked = lone.posted("initialize");
        let body = result(&asked.body, initialized("2025-11-25", json!({}))).to_string();
        lone.watch.fed(lone.now, mcp_tests::schema::Direction::ServerToClient, body.as_bytes());
        let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", bad)];
        lone.answer_with(asked.id, 200, &fields, &body);
        assert!(matches!(lone.diagnosed(), Diagnostic::Http(_)));
        lone.ready();
        assert_eq!(lone.posted("notifications/initialized").field("mcp-session-id"), None);
    }
}

// covers: LIFE-004, HTTP-047, HTTP-048, HTTP-050 (as the client takes it)
#[test]
fn calls_wait_for_the_stream_on_which_they_may_be_asked_something() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let said = lone.to_legacy(V, Some("s"), can());
        let key = lone.call("tools/call", &json!({"name": "wave", "arguments": {}}), &once());
        lone.silent();
        lone.status(said.id, 202);
        let get = lone.asked();
        is_get(&get);
        lone.silent();
        lone.stream(get.id);
        let asked = lone.posted("tools/call");
        // What is needed for it comes on the other stream.
        lone.event(get.id, "", &legacy(7, "roots/list", Value::Null));
        let Event::Input(input) = lone.next_event() else { panic!("an input") };
        lone.client.engine().answer(lone.now, input.id, &json!({"roots": []})).expect("answered");
        let told = lone.asked();
        assert_eq!(told.body, json!({"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}));
        assert_eq!(told.field("mcp-session-id"), Some("s"));
        lone.status(told.id, 202);
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.still();
        lone.transcript
    });
}

// covers: HTTP-049 (405, as the client takes it)
#[test]
fn a_stream_that_is_not_offered_keeps_nobody_waiting() {
    for how in ["404", "405", "400", "500", "broken", "silent", "page"] {
        each_cut(|cut| {
            let mut lone = lone(cut);
            let said = lone.to_legacy(V, Some("s"), can());
            lone.status(said.id, 200);
            let get = lone.asked();
            is_get(&get);
            lone.call("tools/list", &json!({}), &once());
            match how {
                "broken" => lone.breaks(get.id),
                "silent" => {
                    lone.pass(secs(2) - ms(1));
                    lone.silent();
                    lone.pass(ms(1));
                }
                "page" => lone.answer(get.id, 200, "text/html", "<p>"),
                status => lone.status(get.id, status.parse().expect("a number")),
            }
            lone.posted("tools/list");
            lone.pass(ms(1));
            lone.still();
            lone.transcript
        });
    }
}

#[test]
fn the_stream_can_be_done_without() {
    let mut lone = LoneHttp::new(client(VersionSet::LEGACY), LoneHttp::http().listen(false), Chunker::Whole);
    let said = lone.to_legacy(V, None, can());
    lone.status(said.id, 202);
    lone.still();
    lone.waves(&once());
}

// covers: HTTP-019
#[test]
fn an_initialized_that_is_not_accepted_is_told_and_changes_nothing() {
    let mut lone = lone(Chunker::Whole);
    let said = lone.to_legacy(V, None, can());
    lone.status(said.id, 500);
    assert!(matches!(lone.diagnosed(), Diagnostic::Http(_)));
    let get = lone.asked();
    lone.status(get.id, 405);
    lone.waves(&once());
}

// covers: HTTP-063, CANC-003
#[test]
fn a_call_that_is_cancelled_is_said_and_then_given_up() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once());
    lone.stream(asked.id);
    lone.client.engine().cancel(lone.now, key, None).expect("a call");
    assert_eq!(lone.done(key), Err(CallError::Cancelled));
    let said = lone.all_asked();
    assert_eq!(said[0].body["method"], "notifications/cancelled");
    assert_eq!(said[0].body["params"]["requestId"], asked.body["id"]);
    assert_eq!(lone.aborted(), asked.id);
    lone.status(said[0].id, 202);
    lone.still();
}

// covers: BATCH-001
#[test]
fn an_answer_in_an_array_is_one_in_the_revision_that_has_batches() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.with_legacy(Version::V2025_03_26, None, can());
        let (key, asked) = lone.waves(&once());
        lone.json(asked.id, 200, &json!([result(&asked.body, answer())]));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.still();
        lone.transcript
    });
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once());
    lone.json(asked.id, 200, &json!([result(&asked.body, answer())]));
    lone.odd();
    assert_eq!(http(lone.done(key)), HttpError::Unanswered { status: 200 });
}

// ---- streams that break --------------------------------------------------------------------------------------

// covers: SSE-004, SSE-019, SSE-020, SSE-021
#[test]
fn a_polled_call_goes_on_where_its_stream_ended() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.with_stream(V, Some("s"), can());
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.body(asked.id, "id: 1-0\nretry: 500\ndata: \n\n");
        lone.end(asked.id);
        lone.still();
        for (id, next) in [("1-0", "1-1"), ("1-1", "1-2"), ("1-2", "1-3")] {
            lone.pass(ms(499));
            lone.still();
            lone.pass(ms(1));
            let get = lone.asked();
            is_get(&get);
            assert_eq!(get.field("last-event-id"), Some(id));
            assert_eq!(get.field("mcp-session-id"), Some("s"));
            lone.stream(get.id);
            if next == "1-3" {
                lone.event(get.id, next, &result(&asked.body, answer()));
                assert_eq!(lone.done(key), Ok(answer()));
                lone.end(get.id);
            } else {
                lone.body(get.id, format!("id: {next}\ndata:\n\n"));
                if next == "1-1" { lone.end(get.id) } else { lone.breaks(get.id) }
            }
        }
        lone.pass(secs(60));
        lone.still();
        lone.transcript
    });
}

// covers: SSE-021, SSE-026
#[test]
fn a_stream_cut_at_any_byte_is_resumed_or_lost() {
    let head = "id: a\ndata:\n\n";
    let told = "id: b\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}\n\n";
    for cut in 0..=head.len() + told.len() {
        let mut lone = lone(Chunker::Whole);
        lone.with_legacy(V, None, can());
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.body(asked.id, &format!("{head}{told}")[..cut]);
        lone.breaks(asked.id);
        let told_all = cut == head.len() + told.len();
        if told_all {
            assert!(matches!(lone.next_event(), Event::Notification(_)));
        }
        if cut < head.len() {
            assert!(matches!(http(lone.done(key)), HttpError::Lost { .. }), "{cut}");
            continue;
        }
        lone.still();
        lone.pass(secs(1));
        let get = lone.asked();
        assert_eq!(get.field("last-event-id"), Some(if told_all { "b" } else { "a" }));
        lone.stream(get.id);
        // What was received comes again in spite of that: it is dropped.
        lone.body(get.id, told);
        if !told_all {
            assert!(matches!(lone.next_event(), Event::Notification(_)));
        }
        lone.still();
        lone.event(get.id, "", &note("x/z", Value::Null));
        assert!(matches!(lone.next_event(), Event::Notification(_)), "an event without an id is always new");
        lone.event(get.id, "c", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
    }
}

// covers: SSE-026
#[test]
fn what_cannot_be_resumed_is_lost() {
    for how in ["400", "404", "405", "page", "empty", "down"] {
        each_cut(|cut| {
            let mut lone = lone(cut);
            lone.with_legacy(V, None, can());
            let (key, asked) = lone.waves(&once());
            lone.stream(asked.id);
            lone.body(asked.id, "id: 1\ndata:\n\n");
            lone.breaks(asked.id);
            lone.pass(secs(1));
            let mut get = lone.asked();
            match how {
                "page" => lone.answer(get.id, 200, "text/html", "<p>"),
                "empty" | "down" => {
                    for pause in [2, 4, 8, 16] {
                        if how == "down" {
                            lone.unreachable(get.id);
                        } else {
                            // As some servers do that have forgotten it: a stream that ends at once.
                            lone.stream(get.id);
                            lone.end(get.id);
                        }
                        lone.still();
                        lone.pass(secs(pause));
                        get = lone.asked();
                        assert_eq!(get.field("last-event-id"), Some("1"));
                    }
                    lone.stream(get.id);
                    lone.end(get.id);
                }
                status => lone.status(get.id, status.parse().expect("a number")),
            }
            assert!(matches!(http(lone.done(key)), HttpError::Lost { .. }));
            lone.pass(secs(100));
            lone.still();
            lone.transcript
        });
    }
}

// covers: SSE-019
#[test]
fn an_answer_that_comes_otherwise_ends_the_waiting() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, None, can());
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.body(asked.id, "id: 1\ndata:\n\n");
        lone.end(asked.id);
        lone.event(get, "2", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        // Nothing is opened for a call that has its answer.
        lone.pass(secs(60));
        lone.still();
        // Nor after the end.
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.body(asked.id, "id: 3\ndata:\n\n");
        lone.end(asked.id);
        lone.client.close(lone.now);
        assert_eq!(lone.aborted(), get);
        assert_eq!(lone.done(key), Err(CallError::Closed(Fault::Closed)));
        lone.closed();
        lone.pass(secs(60));
        lone.still();
        assert!(lone.client.is_drained());
        lone.transcript
    });
}

// covers: SSE-020, SSE-021, SSE-026
#[test]
fn the_stream_is_opened_again_while_that_brings_something() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let mut get = lone.with_stream(V, None, can());
        for round in 0..8 {
            lone.event(get, &format!("e{round}"), &note("x/y", Value::Null));
            assert!(matches!(lone.next_event(), Event::Notification(_)));
            if round % 2 == 0 {
                lone.breaks(get)
            } else {
                lone.end(get)
            }
            lone.pass(secs(1));
            let again = lone.asked();
            assert_eq!(again.field("last-event-id"), Some(&*format!("e{round}")));
            lone.stream(again.id);
            get = again.id;
        }
        // Priming events alone are nothing (a server that lost its memory may send them for ever).
        lone.body(get, "id: p0\ndata:\n\n");
        lone.end(get);
        for (round, pause) in [2, 4, 8, 16].into_iter().enumerate() {
            lone.pass(secs(pause) - ms(1));
            lone.still();
            lone.pass(ms(1));
            let again = lone.asked();
            assert_eq!(again.field("last-event-id"), Some(&*format!("p{round}")));
            lone.stream(again.id);
            lone.body(again.id, format!("id: p{}\ndata:\n\n", round + 1));
            lone.end(again.id);
        }
        assert!(matches!(lone.diagnosed(), Diagnostic::Http(_)), "it is told once");
        lone.pass(secs(1_000));
        lone.still();
        lone.waves(&once());
        lone.transcript
    });
}

#[test]
fn a_stream_that_lives_long_may_be_quiet() {
    let mut lone = lone(Chunker::Whole);
    let mut get = lone.with_stream(V, None, can());
    for _ in 0..20 {
        // As behind a proxy that cuts what is quiet for a minute.
        lone.pass(secs(60));
        lone.breaks(get);
        lone.pass(secs(1));
        get = lone.asked().id;
        lone.stream(get);
    }
    let mut lone = LoneHttp::new(
        client(VersionSet::LEGACY),
        LoneHttp::http().reconnect(Reconnect { tries: 0, ..Reconnect::default() }),
        Chunker::Whole,
    );
    let get = lone.with_stream(V, None, can());
    lone.breaks(get);
    assert!(matches!(lone.diagnosed(), Diagnostic::Http(_)));
    lone.pass(secs(100));
    lone.still();
}

// covers: HTTP-009
#[test]
fn a_legacy_call_that_may_be_repeated_is() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once().repeatable());
    lone.breaks(asked.id);
    lone.pass(secs(1));
    let again = lone.posted("tools/call");
    assert_ne!(again.body["id"], asked.body["id"]);
    assert_eq!(again.body["params"], asked.body["params"]);
    lone.json(again.id, 200, &result(&again.body, answer()));
    assert_eq!(lone.done(key), Ok(answer()));
    // Whatever it is called, and with nothing to say.
    for method in ["x/y", "resources/list", "x/\u{e9}"] {
        let (key, asked) = lone.calls(method, &json!({}), &once().repeatable());
        assert_eq!(asked.body.get("params"), None);
        lone.breaks(asked.id);
        lone.pass(secs(1));
        let again = lone.posted(method);
        assert_eq!(again.body.get("params"), None);
        lone.json(again.id, 200, &result(&again.body, json!({"resources": []})));
        assert!(lone.done(key).is_ok());
    }
    let (key, asked) = lone.calls("x/\"y", &json!({}), &once().repeatable());
    lone.breaks(asked.id);
    lone.pass(secs(1));
    assert!(matches!(http(lone.done(key)), HttpError::Lost { .. }));
}

// ---- sessions that are lost ----------------------------------------------------------------------------------

/// The client opens another session, to where its GET stream is open
fn renews(lone: &mut LoneHttp, asked: &Asked, session: &str) {
    assert_eq!(asked.body["method"], "initialize");
    assert_eq!((asked.field("mcp-session-id"), asked.field("mcp-protocol-version")), (None, None));
    let body = result(&asked.body, initialized(V.as_str(), can())).to_string();
    let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", session)];
    lone.answer_with(asked.id, 200, &fields, &body);
    let said = lone.posted("notifications/initialized");
    assert_eq!(said.field("mcp-session-id"), Some(session));
    lone.status(said.id, 202);
    let get = lone.asked();
    assert_eq!(get.field("mcp-session-id"), Some(session));
    assert_eq!(is_get(&get).field("last-event-id"), None);
    lone.stream(get.id);
}

// covers: HTTP-072
#[test]
fn a_lost_session_is_made_anew_and_what_was_not_executed_is_sent_again() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, Some("one"), can());
        let (first, one) = lone.waves(&once());
        let (second, two) = lone.waves(&once());
        lone.status(one.id, 404);
        let init = lone.asked();
        assert_eq!(lone.aborted(), get);
        lone.status(two.id, 404);
        // What is asked for meanwhile waits.
        let third = lone.call("tools/list", &json!({}), &once());
        lone.silent();
        renews(&mut lone, &init, "two");
        let mut asked = lone.all_asked();
        assert_eq!(asked.len(), 3, "{asked:?}");
        for a in &asked {
            assert_eq!(a.field("mcp-session-id"), Some("two"));
        }
        assert_eq!((&asked[0].body, &asked[1].body), (&one.body, &two.body));
        let list = asked.pop().expect("three");
        lone.json(asked[0].id, 200, &result(&one.body, answer()));
        lone.json(asked[1].id, 200, &result(&two.body, answer()));
        lone.json(list.id, 200, &result(&list.body, json!({"tools": []})));
        for key in [first, second] {
            assert_eq!(lone.done(key), Ok(answer()));
        }
        assert!(lone.done(third).is_ok());
        lone.still();
        lone.transcript
    });
}

#[test]
fn calls_wait_until_the_server_knows_the_level_of_logging() {
    let said = |lone: &mut LoneHttp| {
        lone.client.engine().set_log_level(lone.now, Some(LoggingLevel::Error)).expect("logging");
        let level = lone.posted("logging/setLevel");
        let key = lone.call("tools/list", &json!({}), &once());
        lone.silent();
        (level, key)
    };
    let answered = |lone: &mut LoneHttp, key| {
        let asked = lone.posted("tools/list");
        lone.json(asked.id, 200, &result(&asked.body, json!({"tools": []})));
        assert!(lone.done(key).is_ok());
    };
    // Each message goes its own way over HTTP: one that is sent later may be there first.
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let (level, key) = said(&mut lone);
    lone.json(level.id, 200, &result(&level.body, json!({})));
    answered(&mut lone, key);
    // However it ends.
    let (level, key) = said(&mut lone);
    lone.status(level.id, 500);
    answered(&mut lone, key);
    // For ever it is not waited for.
    let (_, key) = said(&mut lone);
    lone.pass(secs(2));
    answered(&mut lone, key);
}

// covers: HTTP-072
#[test]
fn a_new_session_is_told_what_the_old_one_knew() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let filter = mcp_proto::model::SubscriptionFilter::new().resource_subscriptions(["a:b".into()]);
    lone.client.engine().subscribe(lone.now, &filter).expect("a subscription");
    lone.client.engine().set_log_level(lone.now, Some(LoggingLevel::Error)).expect("logging");
    for asked in lone.all_asked() {
        lone.json(asked.id, 200, &result(&asked.body, json!({})));
    }
    assert!(matches!(lone.next_event(), Event::Subscribed { .. }));
    let (_, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    let init = lone.asked();
    lone.aborted();
    renews(&mut lone, &init, "two");
    let methods: Vec<String> = lone.all_asked().iter().map(|a| a.body["method"].to_string()).collect();
    for method in ["\"resources/subscribe\"", "\"logging/setLevel\"", "\"tools/call\""] {
        assert!(methods.contains(&method.to_string()), "{methods:?}");
    }
    lone.still();
}

// covers: HTTP-072
#[test]
fn what_may_have_been_executed_is_not_sent_again() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        lone.with_stream(V, Some("one"), can());
        let (running, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.body(asked.id, "id: 1\ndata:\n\n");
        lone.event(asked.id, "2", &legacy(9, "roots/list", Value::Null));
        let Event::Input(input) = lone.next_event() else { panic!("an input") };
        lone.breaks(asked.id);
        lone.pass(secs(1));
        let resume = lone.asked();
        lone.status(resume.id, 404);
        assert!(matches!(lone.next_event(), Event::InputGone(id) if id == input.id));
        assert_eq!(http(lone.done(running)), HttpError::SessionLost);
        let init = lone.asked();
        lone.aborted();
        renews(&mut lone, &init, "two");
        lone.still();
        lone.transcript
    });
}

// covers: HTTP-072
#[test]
fn sessions_are_not_made_without_end() {
    let mut lone = lone(Chunker::Whole);
    lone.with_stream(V, Some("one"), can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    let init = lone.asked();
    lone.aborted();
    renews(&mut lone, &init, "two");
    let again = lone.posted("tools/call");
    lone.status(again.id, 404);
    assert_eq!(http(lone.done(key)), HttpError::SessionLost);
    assert!(matches!(lone.closed(), Fault::Http(e) if *e == HttpError::SessionLost));

    for status in [400, 404, 500] {
        let mut lone = self::lone(Chunker::Whole);
        lone.with_legacy(V, Some("one"), can());
        let (key, asked) = lone.waves(&once());
        lone.status(asked.id, 404);
        let init = lone.posted("initialize");
        lone.status(init.id, status);
        assert!(matches!(lone.diagnosed(), Diagnostic::Http(_)));
        assert_eq!(http(lone.done(key)), HttpError::SessionLost);
        assert!(matches!(lone.closed(), Fault::Http(_)));
        lone.silent();
    }
}

// covers: HTTP-072 (and only then)
#[test]
fn a_404_without_a_session_is_just_a_404() {
    let mut lone = lone(Chunker::Whole);
    let said = lone.to_legacy(V, Some("s"), can());
    lone.status(said.id, 202);
    // Nor is one to the first GET the end of a session.
    let get = lone.asked();
    lone.answer(get.id, 404, "text/html", "Cannot GET /mcp");
    lone.still();

    let mut lone = self::lone(Chunker::Whole);
    lone.with_legacy(V, None, can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    assert!(matches!(http(lone.done(key)), HttpError::Answer(a) if a.status == 404));
    lone.still();
}

// covers: HTTP-073, HTTP-074, HTTP-075, LIFE-019
#[test]
fn the_session_is_ended_whatever_becomes_of_that() {
    for how in ["204", "404", "405", "500", "broken", "silent"] {
        let mut lone = lone(Chunker::Whole);
        let get = lone.with_stream(V, Some("s"), can());
        lone.client.close(lone.now);
        assert_eq!(lone.aborted(), get);
        lone.closed();
        let end = lone.asked();
        assert_eq!((end.method, end.field("mcp-session-id")), ("DELETE", Some("s")));
        match how {
            "broken" => lone.breaks(end.id),
            "silent" => {
                lone.pass(secs(5));
                assert_eq!(lone.aborted(), end.id);
            }
            status => lone.status(end.id, status.parse().expect("a number")),
        }
        assert!(lone.client.is_drained(), "{how}");
        lone.pass(secs(60));
        lone.still();
    }
}
