//! Bytes that are no messages, and messages that are none: one clear outcome each, and the connection goes on.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::{Diagnostic, Fault, Malformed, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, legacy, modern, result};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, server};

fn session(version: Version, cut: Chunker) -> LoneServer {
    let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
    lone.open(version);
    lone
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn pong(lone: &mut LoneServer) {
    lone.feed(PING);
    assert_eq!(lone.reply(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    lone.still();
}

/// What a line leads to: the error code and id of the answer, if there is one
fn answer(lone: &mut LoneServer, line: impl AsRef<[u8]>) -> Option<(i64, Option<Value>)> {
    lone.feed(line);
    let sent = lone.sent();
    assert!(sent.len() < 2, "{sent:?}");
    sent.first().map(|m| (m["error"]["code"].as_i64().unwrap_or(0), m.get("id").cloned()))
}

// covers: BASE-001, BASE-003, BASE-004, BASE-007, BASE-009, BASE-013, BASE-015, BASE-016, BASE-017, BATCH-004, ERR-001
// covers: ERR-023, STDIO-004, STDIO-011
#[test]
fn the_transcript_of_malformed_messages() {
    let text = include_str!("../transcripts/malformed-messages.jsonl");
    let lines: Vec<Value> = text.lines().skip(1).map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 20);
    each_cut(|cut| {
        let mut lone = session(Version::V2025_11_25, cut);
        for line in &lines {
            let why = line["why"].as_str().expect("a reason");
            let got = answer(&mut lone, line["raw"].as_str().expect("a line")).map(|(code, _)| code);
            assert_eq!(got, line["expect_error"].as_i64(), "{why}");
            let said = lone.said();
            assert!(said.len() <= 1, "{why}: {said:?}");
            pong(&mut lone);
        }
        lone.transcript
    });
}

// covers: BASE-001, BASE-003, BASE-004, BASE-007, BASE-009, BASE-013, BASE-014, BASE-017, ERR-001, ERR-023
#[test]
fn faulty_requests_are_answered_with_their_id_where_one_can_be_made_out() {
    use Malformed as M;
    let faults: [(&str, M, i64, Option<Value>); 23] = [
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, M::Version, -32600, Some(json!(7))),
        (r#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#, M::Version, -32600, Some(json!(7))),
        (r#"{"id":"x","method":"ping"}"#, M::Version, -32600, Some(json!("x"))),
        (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, M::Method, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":["ping"]}"#, M::Method, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, M::Params, -32602, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":null}"#, M::Params, -32602, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}"#, M::Params, -32602, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, M::Contradictory, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","error":{}}"#, M::Contradictory, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"Method":"ping","method":"ping"}"#, M::MisCased, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","ID":7,"id":7,"method":"ping"}"#, M::MisCased, -32600, Some(json!(7))),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","PARAMS":{}}"#, M::MisCased, -32600, Some(json!(7))),
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
    let kind = core::mem::discriminant::<Malformed>;
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = session(version, cut);
            for (line, why, code, id) in &faults {
                let got = answer(&mut lone, line);
                // An error without an id exists from 2025-11-25 on.
                let due = id.is_some() || version == Version::V2025_11_25;
                assert_eq!(got, due.then(|| (*code, id.clone())), "{line}");
                match lone.diagnostic() {
                    Diagnostic::Malformed { why: told, id: named, answered } => {
                        assert_eq!((kind(&told), answered), (kind(why), due), "{line}: {told:?}");
                        assert_eq!(named.map(|n| n.to_string()), id.as_ref().map(ToString::to_string));
                    }
                    other => panic!("{other:?}"),
                }
                pong(&mut lone);
            }
            lone.transcript
        });
    }
}

// covers: BASE-013, BASE-014, ERR-023
#[test]
fn before_anything_is_settled_what_cannot_be_read_is_not_answered() {
    let unreadable = ["garbage", "{", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "[]", "7"];
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
        for line in unreadable {
            assert_eq!(answer(&mut lone, line), None);
            lone.diagnostic();
        }
        // With one modern request accepted the stream is one that knows such errors.
        lone.works();
        for line in unreadable {
            let (_, id) = answer(&mut lone, line).expect("answered");
            assert_eq!(id, None);
            lone.diagnostic();
        }
        lone.transcript
    });
    // Unless nobody old can be there.
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::MODERN), cut);
        assert_eq!(answer(&mut lone, "garbage"), Some((-32700, None)));
        lone.transcript
    });
    // A legacy-only server has accepted no modern request.
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::LEGACY), cut);
        lone.tell(&modern(1, "tools/list", json!({})));
        lone.reply();
        assert_eq!(answer(&mut lone, "garbage"), None);
        lone.transcript
    });
}

// covers: BASE-015, BASE-016, STDIO-011
#[test]
fn notifications_are_never_answered() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = session(version, cut);
            lone.works();
            for line in [
                r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":{"a":[1]}}"#,
                r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
                r#"{"jsonrpc":"2.0","method":"initialize","params":{}}"#,
                r#"{"jsonrpc":"2.0","method":""}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":null}"#,
            ] {
                lone.feed(line);
                let said = lone.said();
                assert_eq!(said.len(), 1, "told, and nothing more: {said:?}");
                lone.silent();
            }
            lone.works();
            lone.transcript
        });
    }
}

// covers: BASE-016, STDIO-012
#[test]
fn notifications_beyond_the_limit_are_not_answered_either() {
    each_cut(|cut| {
        let config = server(VersionSet::MODERN).limits(limits(|l| l.max_frame = 400));
        let mut lone = LoneServer::server(config, cut);
        let long = "x".repeat(400);
        lone.feed(format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":"{long}"}}}}"#));
        assert!(matches!(
            lone.diagnostic(),
            Diagnostic::Malformed { why: Malformed::TooLong { .. }, answered: false, .. }
        ));
        lone.still();
        lone.works();
        lone.transcript
    });
}

// covers: BASE-009, BASE-011, BASE-017, CANC-014
#[test]
fn responses_to_nothing_are_told_and_not_answered() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = session(version, cut);
            lone.works();
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
                assert_eq!(answer(&mut lone, line), None, "{line}");
                let said = lone.said();
                assert!(said.len() == 1 && said[0].starts_with("diagnostic"), "{line}: {said:?}");
            }
            pong(&mut lone);
            lone.transcript
        });
    }
}

// covers: BASE-002, STDIO-004, ERR-023
#[test]
fn invalid_utf8_is_a_parse_error_and_never_repaired() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_11_25, cut);
        let bad: [&[u8]; 6] =
            [b"\xff", b"\xc3\x28", b"\xe2\x82", b"\xf0\x9f\x8c", b"\xc0\x80", b"\xed\xa0\x80"];
        for bytes in bad {
            let line =
                [br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":""#, bytes, br#""}}"#].concat();
            assert_eq!(answer(&mut lone, line), Some((-32700, Some(json!(1)))));
            assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { why: Malformed::Utf8 { .. }, .. }));
            let line = [br#"{"jsonrpc":"2.0","id":""#, bytes, br#"","method":"x"}"#].concat();
            assert_eq!(
                answer(&mut lone, line),
                Some((-32700, None)),
                "an id that cannot be read is not echoed"
            );
            lone.diagnostic();
        }
        pong(&mut lone);
        lone.transcript
    });
}

// covers: STDIO-002, STDIO-003, STDIO-004, STDIO-011
#[test]
fn line_ends_blank_lines_and_byte_order_marks() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_06_18, cut);
        lone.feed_bytes(
            format!("\n\r\n  \t \r\n\n{PING}\r\n\u{feff}{PING}\n  {PING}  \n\u{feff}\r\n").as_bytes(),
        );
        assert_eq!(lone.sent(), vec![json!({"jsonrpc": "2.0", "id": 1, "result": {}}); 3]);
        lone.still();
        // A mark is tolerated at the beginning alone.
        assert_eq!(answer(&mut lone, format!("{PING}\u{feff}")), Some((-32700, Some(json!(1)))));
        lone.diagnostic();
        assert_eq!(answer(&mut lone, format!("\u{feff}\u{feff}{PING}")), None);
        lone.diagnostic();
        // A carriage return is not the end of a line.
        assert_eq!(answer(&mut lone, format!("{PING}\r{PING}")), Some((-32700, Some(json!(1)))));
        lone.diagnostic();
        // Unescaped control characters in strings are no JSON.
        assert_eq!(
            answer(&mut lone, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}"),
            Some((-32700, Some(json!(1))))
        );
        lone.diagnostic();
        pong(&mut lone);
        lone.transcript
    });
}

// covers: STDIO-012, BASE-013
#[test]
fn a_line_without_end_costs_no_memory_and_its_id_is_found() {
    let config = || server(VersionSet::ALL).limits(limits(|l| l.max_frame = 1_000));
    for cut in [Chunker::Whole, Chunker::Seeded(5)] {
        let mut lone = LoneServer::server(config(), cut);
        lone.works();
        lone.feed_bytes(br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":""#);
        for _ in 0..1_000 {
            lone.feed_bytes(&[b'x'; 1_000]);
            assert!(lone.still_small(), "a megabyte has no place here");
        }
        lone.still();
        lone.feed_bytes(b"\"},\"id\":\"far behind\"}\n");
        let told = lone.diagnostic();
        assert!(
            matches!(told, Diagnostic::Malformed { why: Malformed::TooLong { .. }, answered: true, .. }),
            "{told:?}"
        );
        assert_eq!(lone.reply()["id"], "far behind");
        lone.works();
    }
}

/// What a connection holds, as far as it can be seen
trait StillSmall {
    fn still_small(&self) -> bool;
}

impl StillSmall for LoneServer {
    fn still_small(&self) -> bool {
        format!("{:?}", self.pipe).len() < 20_000
    }
}

// covers: ERR-023, STDIO-011
#[test]
fn a_million_levels_of_nesting_are_one_error() {
    let deep = "[".repeat(1_000_000);
    for cut in [Chunker::Whole, Chunker::Seeded(1)] {
        let mut lone = session(Version::V2025_11_25, cut);
        for (open, close) in [("", ""), (r#"{"a":"#, "}")] {
            let levels = if open.is_empty() { deep.clone() } else { open.repeat(1_000_000) };
            let ends = if close.is_empty() { "]".repeat(1_000_000) } else { close.repeat(1_000_000) };
            let middle = if open.is_empty() { "" } else { "1" };
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":5,"method":"x","params":{{"a":{levels}{middle}{ends}}}}}"#);
            assert_eq!(answer(&mut lone, line), Some((-32700, Some(json!(5)))));
            assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { why: Malformed::Depth { .. }, .. }));
        }
        assert_eq!(answer(&mut lone, &deep), Some((-32700, None)));
        lone.diagnostic();
        pong(&mut lone);
    }
}

// covers: STDIO-028, STDIO-011
#[test]
fn a_message_cut_off_by_the_end_is_not_a_message() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_11_25, cut);
        lone.feed_bytes(format!("{PING}\n{PING}").as_bytes());
        lone.eof();
        assert_eq!(lone.closed(), Fault::Truncated { bytes: PING.len() });
        assert_eq!(lone.sent().len(), 1);
        lone.transcript
    });
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        lone.with_modern(json!({}));
        lone.feed_bytes(br#"{"jsonrpc":"2.0","#);
        lone.eof();
        assert_eq!(lone.closed(), Fault::Truncated { bytes: 17 });
        lone.transcript
    });
}

// covers: BASE-010, BASE-017, META-008
#[test]
fn unknown_members_and_vocabulary_pass() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_11_25, cut);
        let call = {
            let mut request =
                legacy(1, "tools/call", json!({"name": "a", "new": {"x": 1}, "task": {"ttl": 5}}));
            request["extra"] = json!([1, 2]);
            request["jsonrpc "] = "3.0".into();
            lone.take(&request)
        };
        assert_eq!(call.params().map(|p| p.to_string().contains(r#""new":{"x":1}"#)), Some(true));
        let answer = lone
            .complete(call.id(), &json!({"content": [{"type": "text", "text": "", "glow": 1}], "new": true}));
        assert_eq!(answer["result"]["new"], true);
        lone.transcript
    });
}

// covers: BASE-001, BASE-017, ERR-023, STDIO-011, BASE-013
#[test]
fn a_legacy_client_answers_faulty_requests_of_its_server() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone =
                LoneClient::client(client(VersionSet::only(version)).custom_method("harbor/name"), cut);
            lone.with_legacy(version, json!({}));
            for (line, code) in [
                (r#"{"jsonrpc":"1.0","id":"s","method":"ping"}"#, -32600),
                (r#"{"jsonrpc":"2.0","id":"s","method":7}"#, -32600),
                (r#"{"jsonrpc":"2.0","id":"s","method":"ping","params":[]}"#, -32602),
                (r#"{"jsonrpc":"2.0","id":"s","method":"ping""#, -32700),
            ] {
                lone.feed(line);
                let answer = lone.reply();
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("s"), &json!(code)), "{line}");
                assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { answered: true, .. }));
            }
            lone.feed(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#);
            let answered = version == Version::V2025_11_25;
            assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { answered: a, .. } if a == answered));
            assert_eq!(lone.sent().len(), usize::from(answered));
            // An id of the server's that is in flight here.
            lone.tell(&legacy("s", "harbor/name", json!({})));
            let ClientEvent::Request(request) = lone.event() else { panic!("a request") };
            lone.tell(&legacy("s", "harbor/name", json!({})));
            assert!(matches!(lone.diagnostic(), Diagnostic::DuplicateId(_)));
            lone.pipe.engine().respond(lone.now, request.id, &json!({})).expect("open");
            assert_eq!(lone.reply(), result(&json!({"id": "s"}), json!({})));
            lone.transcript
        });
    }
}
