//! Malformed bytes and messages: each has one clear outcome, and the connection stays open.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::{CallOptions, Diagnostic, Fault, MalformedMessage, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, legacy_request, modern_request, result_response};
use mcp_tests::harness::{Chunker, ClientHarness, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, server};

fn open_session(version: Version, cut: Chunker) -> ServerHarness {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
    harness.open_session(version);
    harness
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn assert_answers_ping(harness: &mut ServerHarness) {
    harness.feed(PING);
    assert_eq!(harness.expect_reply(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    harness.assert_idle();
}

/// Feeds a line and returns the error code and id of the answer, if there is one.
fn error_answer(harness: &mut ServerHarness, line: impl AsRef<[u8]>) -> Option<(i64, Option<Value>)> {
    harness.feed(line);
    let sent = harness.take_sent();
    assert!(sent.len() < 2, "{sent:?}");
    sent.first().map(|m| (m["error"]["code"].as_i64().unwrap_or(0), m.get("id").cloned()))
}

// covers: BASE-001, BASE-003, BASE-004, BASE-007, BASE-009, BASE-013, BASE-015, BASE-016, BASE-017, BATCH-004, ERR-001
// covers: ERR-023, STDIO-004, STDIO-011
#[test]
fn transcript_of_malformed_messages_gets_the_expected_errors() {
    let text = include_str!("../transcripts/malformed-messages.jsonl");
    let lines: Vec<Value> = text.lines().skip(1).map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 20);
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_11_25, cut);
        for line in &lines {
            let case = line["why"].as_str().expect("a reason");
            let got = error_answer(&mut harness, line["raw"].as_str().expect("a line")).map(|(code, _)| code);
            assert_eq!(got, line["expect_error"].as_i64(), "{case}");
            let events = harness.take_event_texts();
            assert!(events.len() <= 1, "{case}: {events:?}");
            assert_answers_ping(&mut harness);
        }
        harness.transcript
    });
}

// covers: BASE-001, BASE-003, BASE-004, BASE-007, BASE-009, BASE-013, BASE-014, BASE-017, ERR-001, ERR-023
#[test]
fn malformed_request_is_answered_with_its_id_when_readable() {
    use MalformedMessage as M;
    let faults: [(&str, M, i64, Option<Value>); 23] = [
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, M::Version, -32600, Some(json!(7))),
        (r#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#, M::Version, -32600, Some(json!(7))),
        (r#"{"id":"x","method":"ping"}"#, M::Version, -32600, Some(json!("x"))),
        (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, M::Method, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":["ping"]}"#, M::Method, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, M::Params, -32602, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":7}"#, M::Params, -32602, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}"#, M::Params, -32602, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, M::Contradictory, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","error":{}}"#, M::Contradictory, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"Method":"ping","method":"ping"}"#, M::WrongCase, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","ID":7,"id":7,"method":"ping"}"#, M::WrongCase, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","PARAMS":{}}"#, M::WrongCase, -32600, Some(json!(7))),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}"#,
            M::DuplicateMember { at: 0 },
            -32600,
            Some(json!(7)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","m\u0065thod":"x"}"#,
            M::DuplicateMember { at: 0 },
            -32600,
            Some(json!(7)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":01}}"#,
            M::Json { at: 0 },
            -32700,
            Some(json!(7)),
        ),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping",}"#, M::Json { at: 0 }, -32700, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"pi"#, M::Json { at: 0 }, -32700, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping"} {}"#, M::Json { at: 0 }, -32700, Some(json!(7))),
        (
            r#"{"jsonrpc":"2.0","method":"ping","id":7,"x":"\ud800"}"#,
            M::Json { at: 0 },
            -32700,
            Some(json!(7)),
        ),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, M::Id, -32600, None),
        (r#"{"jsonrpc":"2.0","id":9e99,"method":"ping"}"#, M::Id, -32600, None),
        (r#"{"jsonrpc":"2.0","id":7,"method":"x","id":8}"#, M::DuplicateMember { at: 0 }, -32600, None),
    ];
    let kind = core::mem::discriminant::<MalformedMessage>;
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = open_session(version, cut);
            for (line, reason, code, id) in &faults {
                let got = error_answer(&mut harness, line);
                // An error without an id exists from 2025-11-25 on.
                let due = id.is_some() || version == Version::V2025_11_25;
                assert_eq!(got, due.then(|| (*code, id.clone())), "{line}");
                match harness.expect_diagnostic() {
                    Diagnostic::Malformed { reason: reported, id: reported_id, answered } => {
                        assert_eq!((kind(&reported), answered), (kind(reason), due), "{line}: {reported:?}");
                        assert_eq!(reported_id.map(|n| n.to_string()), id.as_ref().map(ToString::to_string));
                    }
                    other => panic!("{other:?}"),
                }
                assert_answers_ping(&mut harness);
            }
            harness.transcript
        });
    }
}

// covers: BASE-013, BASE-014, ERR-023
#[test]
fn unreadable_message_before_negotiation_is_not_answered() {
    let unreadable = ["garbage", "{", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "[]", "7"];
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
        for line in unreadable {
            assert_eq!(error_answer(&mut harness, line), None);
            harness.expect_diagnostic();
        }
        // After a modern request the peer is known to accept such errors.
        harness.assert_works();
        for line in unreadable {
            let (_, id) = error_answer(&mut harness, line).expect("answered");
            assert_eq!(id, None);
            harness.expect_diagnostic();
        }
        harness.transcript
    });
    // A modern-only server has no legacy peer.
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::MODERN), cut);
        assert_eq!(error_answer(&mut harness, "garbage"), Some((-32700, None)));
        harness.transcript
    });
    // A legacy-only server has accepted no modern request.
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::LEGACY), cut);
        harness.feed_message(&modern_request(1, "tools/list", json!({})));
        harness.expect_reply();
        assert_eq!(error_answer(&mut harness, "garbage"), None);
        harness.transcript
    });
}

// covers: BASE-014, BATCH-006, BATCH-008, ERR-023
#[test]
fn unreadable_message_of_an_older_session_is_answered_with_null_where_it_is_set() {
    let unreadable = [
        ("{", -32700),
        ("garbage", -32700),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        ("[]", -32600),
        ("7", -32600),
    ];
    for version in LEGACY_VERSIONS {
        for is_set in [true, false] {
            for_each_chunker(|cut| {
                let config = server(VersionSet::ALL).null_id_errors(is_set);
                let mut harness = ServerHarness::server(config, cut);
                harness.observer.allows_null_ids = is_set;
                // Before the handshake no revision is known, and a client may take the error for its answer.
                assert_eq!(error_answer(&mut harness, "garbage"), None);
                harness.expect_diagnostic();
                harness.open_session(version);
                let due = match version {
                    Version::V2025_11_25 => Some(None),
                    _ => is_set.then_some(Some(Value::Null)),
                };
                for (line, code) in unreadable {
                    assert_eq!(error_answer(&mut harness, line), due.clone().map(|id| (code, id)), "{line}");
                    let diagnostic = harness.expect_diagnostic();
                    let Diagnostic::Malformed { answered, .. } = diagnostic else { panic!("{diagnostic:?}") };
                    assert_eq!(answered, due.is_some(), "{line}");
                }
                // What is no request is not answered.
                for line in
                    [r#"{"jsonrpc":"2.0","method":"x","params":7}"#, r#"{"jsonrpc":"2.0","result":{}}"#]
                {
                    assert_eq!(error_answer(&mut harness, line), None, "{line}");
                    harness.expect_diagnostic();
                }
                // In a batch it is answered among the others.
                if version == Version::V2025_03_26 {
                    harness.feed(format!(r#"[7,{PING},{{"jsonrpc":"2.0","id":[],"method":"ping"}}]"#));
                    let batch = harness.expect_reply();
                    let ids: Vec<_> =
                        batch.as_array().expect("an array").iter().map(|m| m["id"].clone()).collect();
                    let null = || Value::Null;
                    assert_eq!(ids, if is_set { vec![null(), json!(1), null()] } else { vec![json!(1)] });
                    harness.take_event_texts();
                    harness.feed("[7,[8]]");
                    assert_eq!(harness.take_sent().len(), usize::from(is_set), "one array");
                    harness.take_event_texts();
                }
                assert_answers_ping(&mut harness);
                harness.transcript
            });
        }
    }
}

// covers: BASE-014
#[test]
fn client_answers_an_unreadable_message_with_null_where_it_is_set() {
    for is_set in [true, false] {
        let config = client(VersionSet::only(Version::V2025_06_18)).null_id_errors(is_set);
        let mut harness = ClientHarness::client(config, Chunker::Whole);
        harness.observer.allows_null_ids = is_set;
        harness.become_legacy(Version::V2025_06_18, json!({"tools": {}}));
        harness.feed(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#);
        harness.expect_diagnostic();
        let sent = harness.take_sent();
        assert_eq!(sent.len(), usize::from(is_set));
        assert!(sent.iter().all(|m| m.get("id") == Some(&Value::Null)), "{sent:?}");
    }
}

// covers: BASE-015, BASE-016, STDIO-011
#[test]
fn invalid_notification_is_never_answered() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = open_session(version, cut);
            harness.assert_works();
            for line in [
                r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":{"a":[1]}}"#,
                r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
                r#"{"jsonrpc":"2.0","method":"initialize","params":{}}"#,
                r#"{"jsonrpc":"2.0","method":""}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":7}"#,
            ] {
                harness.feed(line);
                let events = harness.take_event_texts();
                assert_eq!(events.len(), 1, "one event and no answer: {events:?}");
                harness.assert_nothing_sent();
            }
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: BASE-016, STDIO-012
#[test]
fn oversized_notification_is_not_answered() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::MODERN).limits(limits(|l| l.max_frame = 400));
        let mut harness = ServerHarness::server(config, cut);
        let long = "x".repeat(400);
        harness.feed(format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":"{long}"}}}}"#));
        assert!(matches!(
            harness.expect_diagnostic(),
            Diagnostic::Malformed { reason: MalformedMessage::TooLong { .. }, answered: false, .. }
        ));
        harness.assert_idle();
        harness.assert_works();
        harness.transcript
    });
}

// covers: BASE-009, BASE-011, BASE-017, CANC-014
#[test]
fn unknown_response_is_reported_and_not_answered() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = open_session(version, cut);
            harness.assert_works();
            for line in [
                r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
                r#"{"jsonrpc":"2.0","id":"99","result":{}}"#,
                r#"{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}"#,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
                r#"{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}"#,
                r#"{"jsonrpc":"2.0","id":99,"result":{},"error":{"code":1,"message":"x"}}"#,
                r#"{"jsonrpc":"2.0","id":99,"result":[]}"#,
                r#"{"jsonrpc":"2.0","id":99,"error":{"code":1.5,"message":"x"}}"#,
                r#"{"jsonrpc":"2.0","id":99,"error":{"code":1}}"#,
                r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
                r#"{"jsonrpc":"2.0","id":99}"#,
                r#"{"jsonrpc":"2.0","result":{}}"#,
            ] {
                assert_eq!(error_answer(&mut harness, line), None, "{line}");
                let events = harness.take_event_texts();
                assert!(events.len() == 1 && events[0].starts_with("diagnostic"), "{line}: {events:?}");
            }
            assert_answers_ping(&mut harness);
            harness.transcript
        });
    }
}

// covers: BASE-002, STDIO-004, ERR-023
#[test]
fn invalid_utf8_is_a_parse_error_and_never_repaired() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_11_25, cut);
        let bad: [&[u8]; 6] =
            [b"\xff", b"\xc3\x28", b"\xe2\x82", b"\xf0\x9f\x8c", b"\xc0\x80", b"\xed\xa0\x80"];
        for bytes in bad {
            let line =
                [br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":""#, bytes, br#""}}"#].concat();
            assert_eq!(error_answer(&mut harness, line), Some((-32700, Some(json!(1)))));
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::Utf8 { .. }, .. }
            ));
            let line = [br#"{"jsonrpc":"2.0","id":""#, bytes, br#"","method":"x"}"#].concat();
            assert_eq!(
                error_answer(&mut harness, line),
                Some((-32700, None)),
                "an id that cannot be read is not echoed"
            );
            harness.expect_diagnostic();
        }
        assert_answers_ping(&mut harness);
        harness.transcript
    });
}

// covers: STDIO-002, STDIO-003, STDIO-004, STDIO-011
#[test]
fn blank_lines_and_leading_byte_order_marks_are_ignored() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_06_18, cut);
        harness.feed_bytes(
            format!("\n\r\n  \t \r\n\n{PING}\r\n\u{feff}{PING}\n  {PING}  \n\u{feff}\r\n").as_bytes(),
        );
        assert_eq!(harness.take_sent(), vec![json!({"jsonrpc": "2.0", "id": 1, "result": {}}); 3]);
        harness.assert_idle();
        // A byte order mark is tolerated only at the start of a line.
        assert_eq!(error_answer(&mut harness, format!("{PING}\u{feff}")), Some((-32700, Some(json!(1)))));
        harness.expect_diagnostic();
        assert_eq!(error_answer(&mut harness, format!("\u{feff}\u{feff}{PING}")), None);
        harness.expect_diagnostic();
        // A carriage return does not end a line.
        assert_eq!(error_answer(&mut harness, format!("{PING}\r{PING}")), Some((-32700, Some(json!(1)))));
        harness.expect_diagnostic();
        // Unescaped control characters in strings are not valid JSON.
        assert_eq!(
            error_answer(&mut harness, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}"),
            Some((-32700, Some(json!(1))))
        );
        harness.expect_diagnostic();
        assert_answers_ping(&mut harness);
        harness.transcript
    });
}

// covers: STDIO-012, BASE-013
#[test]
fn oversized_line_costs_no_memory_and_its_id_is_found() {
    let config = || server(VersionSet::ALL).limits(limits(|l| l.max_frame = 1_000));
    for cut in [Chunker::Whole, Chunker::Seeded(5)] {
        let mut harness = ServerHarness::server(config(), cut);
        harness.assert_works();
        harness.feed_bytes(br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":""#);
        for _ in 0..1_000 {
            harness.feed_bytes(&[b'x'; 1_000]);
            assert!(harness.is_small(), "the engine must not buffer the line");
        }
        harness.assert_idle();
        harness.feed_bytes(b"\"},\"id\":\"far behind\"}\n");
        let diagnostic = harness.expect_diagnostic();
        assert!(
            matches!(
                diagnostic,
                Diagnostic::Malformed { reason: MalformedMessage::TooLong { .. }, answered: true, .. }
            ),
            "{diagnostic:?}"
        );
        assert_eq!(harness.expect_reply()["id"], "far behind");
        harness.assert_works();
    }
}

/// A bound on the memory of a connection, as far as `Debug` shows it.
trait AssertSmall {
    fn is_small(&self) -> bool;
}

impl AssertSmall for ServerHarness {
    fn is_small(&self) -> bool {
        format!("{:?}", self.pipe).len() < 20_000
    }
}

// covers: ERR-023, STDIO-011
#[test]
fn a_million_nested_levels_are_one_error() {
    let deep = "[".repeat(1_000_000);
    for cut in [Chunker::Whole, Chunker::Seeded(1)] {
        let mut harness = open_session(Version::V2025_11_25, cut);
        for (open, close) in [("", ""), (r#"{"a":"#, "}")] {
            let levels = if open.is_empty() { deep.clone() } else { open.repeat(1_000_000) };
            let ends = if close.is_empty() { "]".repeat(1_000_000) } else { close.repeat(1_000_000) };
            let middle = if open.is_empty() { "" } else { "1" };
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":5,"method":"x","params":{{"a":{levels}{middle}{ends}}}}}"#);
            assert_eq!(error_answer(&mut harness, line), Some((-32700, Some(json!(5)))));
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::Depth { .. }, .. }
            ));
        }
        assert_eq!(error_answer(&mut harness, &deep), Some((-32700, None)));
        harness.expect_diagnostic();
        assert_answers_ping(&mut harness);
    }
}

// covers: STDIO-028, STDIO-011
#[test]
fn message_truncated_by_eof_is_a_fault() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_11_25, cut);
        harness.feed_bytes(format!("{PING}\n{PING}").as_bytes());
        harness.eof();
        assert_eq!(harness.expect_closed(), Fault::Truncated { bytes: PING.len() });
        assert_eq!(harness.take_sent().len(), 1);
        harness.transcript
    });
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        harness.become_modern(json!({}));
        harness.feed_bytes(br#"{"jsonrpc":"2.0","#);
        harness.eof();
        assert_eq!(harness.expect_closed(), Fault::Truncated { bytes: 17 });
        harness.transcript
    });
}

// covers: BASE-010, BASE-017, META-008
#[test]
fn unknown_members_are_preserved() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_11_25, cut);
        let call = {
            let mut request =
                legacy_request(1, "tools/call", json!({"name": "a", "new": {"x": 1}, "task": {"ttl": 5}}));
            request["extra"] = json!([1, 2]);
            request["jsonrpc "] = "3.0".into();
            harness.expect_call_for(&request)
        };
        assert_eq!(call.params().map(|p| p.to_string().contains(r#""new":{"x":1}"#)), Some(true));
        let answer = harness
            .complete(call.id(), &json!({"content": [{"type": "text", "text": "", "glow": 1}], "new": true}));
        assert_eq!(answer["result"]["new"], true);
        harness.transcript
    });
}

// covers: BASE-001, BASE-017, ERR-023, STDIO-011, BASE-013
#[test]
fn legacy_client_answers_malformed_requests_of_its_server() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness =
                ClientHarness::client(client(VersionSet::only(version)).custom_method("harbor/name"), cut);
            harness.become_legacy(version, json!({}));
            for (line, code) in [
                (r#"{"jsonrpc":"1.0","id":"s","method":"ping"}"#, -32600),
                (r#"{"jsonrpc":"2.0","id":"s","method":7}"#, -32600),
                (r#"{"jsonrpc":"2.0","id":"s","method":"ping","params":[]}"#, -32602),
                (r#"{"jsonrpc":"2.0","id":"s","method":"ping""#, -32700),
            ] {
                harness.feed(line);
                let answer = harness.expect_reply();
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("s"), &json!(code)), "{line}");
                assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { answered: true, .. }));
            }
            let answered = version == Version::V2025_11_25;
            // The last two may be requests: nothing tells that they are not.
            for line in [r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "{", r#"{"level":"info"}"#] {
                harness.feed(line);
                let diagnostic = harness.expect_diagnostic();
                assert!(
                    matches!(diagnostic, Diagnostic::Malformed { answered: a, .. } if a == answered),
                    "{line}: {diagnostic:?}"
                );
                let sent = harness.take_sent();
                assert_eq!(sent.len(), usize::from(answered), "{line}");
                assert!(sent.iter().all(|answer| answer.get("id").is_none() && answer["error"].is_object()));
            }
            // The server has numbered a request like one of the client, which goes on.
            let (call, own) = harness.start_call("harbor/slow", &json!({}), &CallOptions::new());
            harness.feed_message(&json!({"jsonrpc": "1.0", "id": own["id"], "method": "ping"}));
            assert_eq!(harness.expect_reply()["error"]["code"], -32600);
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::Malformed { answered: true, .. }));
            harness.feed_message(&result_response(&own, json!({})));
            assert!(harness.expect_done(call).is_ok());
            // An id of the server that is in flight at the client.
            harness.feed_message(&legacy_request("s", "harbor/name", json!({})));
            let ClientEvent::Request(request) = harness.expect_event() else { panic!("a request") };
            harness.feed_message(&legacy_request("s", "harbor/name", json!({})));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::DuplicateId(_)));
            harness.pipe.engine().respond(harness.now, request.id, &json!({})).expect("open");
            assert_eq!(harness.expect_reply(), result_response(&json!({"id": "s"}), json!({})));
            harness.transcript
        });
    }
}
