//! Recorded sessions go through both engines: those of the official SDKs, and the transcripts of the project.

extern crate alloc;

use alloc::sync::Arc;

use std::fs;
use std::path::{Path, PathBuf};

use mcp_proto::model::{InputRequest, InputRequests};
use mcp_proto::pipe::{Pipe as _, Server};
use mcp_proto::server::{Config, Event};
use mcp_proto::{Anchor, Capabilities, Capability, Instant, MemberEdit, RawJson, Version, VersionSet};
use mcp_proto_trace::engine::replay;
use mcp_proto_trace::{Content, Cut, Header, Line, Mask, Record, Recorder, Replayed, Side, Text, Trace};

const SIDES: [Side; 2] = [Side::Server, Side::Client];

fn files(folder: &str, extension: &str) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    let mut found: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| (path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned(), path))
        .collect();
    found.sort();
    found
}

/// Sessions of official SDKs with themselves, or with each other, recorded by `mcp-probe tap` between the programs of `tests/peers`: every
/// kind of input request with every kind of answer.
fn recorded() -> Vec<(String, Trace)> {
    let traces: Vec<_> = files("tests/traces", "ndjson")
        .into_iter()
        .map(|(name, path)| {
            (name, Trace::read(&*fs::read(path).expect("a file"), u64::MAX).expect("a trace"))
        })
        .collect();
    assert_eq!(traces.len(), 7);
    traces
}

fn messages(trace: &Trace, side: Side) -> usize {
    let is_message = |record: &&Record| record.from == side && matches!(record.content, Content::Line(_));
    trace.records.iter().filter(is_message).count()
}

fn assert_same(name: &str, side: Side, trace: &Trace) -> Replayed {
    let outcome = replay(trace, side);
    assert_eq!(outcome.difference(), None, "{name}, {side}");
    assert_eq!(outcome.unplayed, [], "{name}, {side}");
    assert_eq!(outcome.compared(), messages(trace, side), "{name}, {side}");
    outcome
}

#[test]
fn sessions_of_official_sdks_come_out_of_both_engines() {
    for (name, trace) in recorded() {
        for side in SIDES {
            let outcome = assert_same(&name, side, &trace);
            assert!(outcome.compared() > 40, "{name}, {side}: {outcome:?}");
            // Python writes members in the order of this project.
            assert!(name != "python-legacy" || outcome.identical > 20, "{name}, {side}: {outcome:?}");
        }
    }
}

/// What comes out does not depend on the cuts of what goes in.
#[test]
fn other_cuts_of_the_input_change_nothing() {
    for (name, trace) in recorded() {
        for side in SIDES {
            for step in [1, 7, 64] {
                let mut cut = trace.clone();
                for record in cut.records.iter_mut().filter(|record| record.from != side) {
                    let at = record.at;
                    if let Content::Line(line) = &mut record.content {
                        let length = line.text.to_bytes().expect("bytes").len();
                        line.cuts = (step..length).step_by(step).map(|offset| Cut { offset, at }).collect();
                        line.joined = false;
                    }
                }
                assert_same(&name, side, &cut);
            }
        }
    }
}

/// A server that answers with another id, or twice, says what the engine does not: the first such message is found.
#[test]
fn a_wrong_response_is_found_where_it_is() {
    let mut found = 0;
    for (name, trace) in recorded() {
        for (index, record) in trace.records.iter().enumerate() {
            let Content::Line(line) = &record.content else { continue };
            let message = RawJson::new(line.text.to_bytes().expect("bytes")).expect("JSON");
            if record.from != Side::Server || message.member("method").is_some() {
                continue;
            }
            let with_id = |value: &str| {
                let id = RawJson::new(value.to_owned()).expect("JSON");
                let edited = message.edit_members(|name, _| match name {
                    "id" => MemberEdit::Replace(id.clone()),
                    _ => MemberEdit::Keep,
                });
                Content::Line(Line::new(Text::new(edited.expect("an object").as_bytes())))
            };
            let mut other_id = trace.clone();
            other_id.records[index].content = with_id("\"0\"");
            let difference = replay(&other_id, Side::Server).differences;
            assert_eq!(
                difference.first().and_then(|found| found.record),
                Some(index),
                "{name}, {index}: another id"
            );

            let mut twice = trace.clone();
            twice.records.insert(index, record.clone());
            let difference = replay(&twice, Side::Server).differences.remove(0);
            assert_eq!(difference.record, Some(index + 1), "{name}, {index}: twice: {difference}");
            found += 1;
        }
    }
    assert!(found > 150, "{found}");
}

/// Returns a transcript of the project as a trace. Its lines are a millisecond apart.
fn transcript(name: &str) -> Trace {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts").join(format!("{name}.jsonl"));
    let text = fs::read_to_string(path).expect("a transcript");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let records = lines.enumerate().filter_map(|(index, line)| {
        let from = if line["dir"] == "c2s" { Side::Client } else { Side::Server };
        let text = Text::new(line.get("msg")?.to_string().as_bytes());
        Some(Record::new(index as u64 * 1_000, from, Content::Line(Line::new(text))))
    });
    Trace::new(Header::new("transcripts", 0), records.collect())
}

#[test]
fn transcripts_come_out_of_the_engines() {
    let cases = [
        ("2024-11-05-resources-roots-sampling-logging", Side::Client),
        ("2024-11-05-stdio-handshake-tool-progress-cancel", Side::Client),
        ("2025-06-18-structured-output-elicitation", Side::Server),
        ("2025-11-25-sampling-with-tools", Side::Client),
        ("2025-11-25-stdio-full-session", Side::Client),
        ("2025-11-25-tasks", Side::Client),
        ("2026-07-28-caching-pagination", Side::Server),
        ("2026-07-28-caching-pagination", Side::Client),
        ("2026-07-28-cancel-and-logging", Side::Server),
        ("2026-07-28-stdio-discover-call-progress", Side::Server),
        ("2026-07-28-subscriptions-stdio", Side::Client),
    ];
    for (name, side) in cases {
        assert_same(name, side, &transcript(name));
    }
}

/// Returns a trace of a legacy session in which a tool waits for two forms, and then these messages come, each a millisecond after the
/// one before it.
fn waiting_tool(rest: &[(Side, &str)]) -> Trace {
    const BEGIN: [(Side, &str); 6] = [
        (
            Side::Client,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
        ),
        (
            Side::Server,
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#,
        ),
        (Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"book"}}"#),
        (
            Side::Server,
            r#"{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}"#,
        ),
        (
            Side::Server,
            r#"{"jsonrpc":"2.0","id":"b","method":"elicitation/create","params":{"mode":"form","message":"When?","requestedSchema":{"type":"object","properties":{}}}}"#,
        ),
    ];
    let records = BEGIN.iter().chain(rest).enumerate().map(|(index, (from, text))| {
        Record::new(index as u64 * 1_000, *from, Content::Line(Line::new(Text::new(text.as_bytes()))))
    });
    Trace::new(Header::new("a server that waits", 0), records.collect())
}

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#;

/// The client gives up while the answer is on its way.
#[test]
fn answer_that_crosses_the_cancellation_of_a_waiting_call_is_no_difference() {
    let cancels = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    };
    let (call, first, second) = (cancels("2"), cancels("\"a\""), cancels("\"b\""));
    let trace = waiting_tool(&[
        (Side::Client, &call),
        (Side::Server, &first),
        (Side::Server, &second),
        (Side::Server, ANSWER),
    ]);
    let outcome = replay(&trace, Side::Server);
    assert_eq!(outcome.difference(), None, "{outcome:?}");
    let [(record, reason)] = &*outcome.unplayed else { panic!("{outcome:?}") };
    assert_eq!(*record, 9);
    assert!(reason.contains("its call was cancelled"), "{reason}");
}

/// Whichever of its requests a server takes back, its call is answered after that.
#[test]
fn server_that_gives_up_one_of_its_requests_is_replayed() {
    for given_up in ["a", "b"] {
        let answered = if given_up == "a" { "b" } else { "a" };
        let response = format!(r#"{{"jsonrpc":"2.0","id":"{answered}","result":{{"action":"decline"}}}}"#);
        let cancels = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{given_up}","reason":"too late"}}}}"#
        );
        let trace =
            waiting_tool(&[(Side::Client, &response), (Side::Server, &cancels), (Side::Server, ANSWER)]);
        assert_same(given_up, Side::Server, &trace);
    }
}

/// What has no command, or differs, is told with its reason.
#[test]
fn what_an_engine_does_not_say_is_told() {
    let unplayed = |name: &str| replay(&transcript(name), Side::Server).unplayed;
    let outside = unplayed("2025-11-25-stdio-full-session");
    assert!(outside[0].1.contains("`elicitation/create` only for a call that needs it"), "{outside:?}");
    let cancelled = unplayed("2024-11-05-stdio-handshake-tool-progress-cancel");
    assert!(cancelled[0].1.contains("its call was cancelled"), "{cancelled:?}");

    for name in ["2025-11-25-tasks", "2026-07-28-tasks-extension"] {
        let outcome = replay(&transcript(name), Side::Server);
        assert_eq!(outcome.difference(), None, "{name}");
        let of_tasks = outcome.unplayed.iter().filter(|(_, reason)| reason == "tasks are not replayed");
        assert!(of_tasks.count() > 2, "{name}: {:?}", outcome.unplayed);
    }

    let cases = [
        // Refused, because one of two results is missing.
        ("2025-11-25-sampling-with-tools", "must hold one `tool_result` for each `tool_use`"),
    ];
    for (name, reason) in cases {
        let difference = replay(&transcript(name), Side::Server).differences.remove(0);
        assert!(difference.reason.contains(reason), "{name}: {difference}");
    }
}

/// A server that records itself, with the seed of its seals: what it seals comes out with the same bytes, at the same instants.
#[test]
fn sealed_state_comes_out_byte_for_byte() {
    const SEED: [u8; 32] = [9; 32];
    let mut recorder = Recorder::new(
        Vec::new(),
        Header::new("test 1", 1_000_000_000_000).seal_seed(&SEED),
        Mask::default(),
        u64::MAX,
    )
    .expect("memory");
    let anchor = Anchor::new(Instant::ZERO, 1_000_000_000);
    let config = Config::new("harbour", "1.0")
        .capabilities(Capabilities::new().with(Capability::Tools))
        .versions(VersionSet::only(Version::V2026_07_28))
        .seal_lazily(|| Some((SEED, anchor)));
    let mut server = Server::new(Arc::new(config), Instant::ZERO);
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}"#;
    let mut state = String::new();
    for (at, id) in [(1_000_u64, 1), (90_000_000, 2)] {
        let now = Instant::from_micros(at);
        let rest = match id {
            1 => String::new(),
            _ => format!(
                r#","inputResponses":{{"ask":{{"action":"accept","content":{{}}}}}},"requestState":{state}"#
            ),
        };
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"book","_meta":{meta}{rest}}}}}"#
        ) + "\n";
        let (begin, end) = call.as_bytes().split_at(40);
        for part in [begin, end] {
            recorder.bytes(at, Side::Client, part);
            server.handle_input(now, part);
        }
        while let Some(event) = server.poll_event(now) {
            let Event::Call(call) = event else { continue };
            let done = RawJson::new(r#"{"content":[]}"#).expect("JSON");
            match call.state() {
                None => {
                    let mut requests = InputRequests::default();
                    let form = RawJson::new(
                        r#"{"message":"?","mode":"form","requestedSchema":{"type":"object","properties":{}}}"#,
                    );
                    let form = form.expect("JSON");
                    let request =
                        InputRequest::from_parts("elicitation/create", Some(&form)).expect("a form");
                    requests.insert("ask", request.into_owned());
                    server.engine().need_input(now, &call, &requests, b"berth 7").expect("sealed");
                }
                Some(kept) => {
                    assert_eq!(kept, b"berth 7");
                    server.engine().complete_raw(now, call.id(), &done).expect("answered");
                }
            }
        }
        let said = server.transmit().to_vec();
        recorder.bytes(at, Side::Server, &said);
        server.consume(said.len());
        let result = RawJson::new(said).expect("one message").member("result").expect("a result");
        state = result.member("requestState").map(|state| state.as_str().to_owned()).unwrap_or_default();
    }
    let file = recorder.finish();
    let trace = Trace::read(&*file, u64::MAX).expect("a trace");
    let outcome = assert_same("sealed", Side::Server, &trace);
    assert_eq!(outcome.identical, 2, "{outcome:?}");

    // Another seed seals other bytes: they mean the same, and are not the same.
    let mut other = trace;
    other.header = other.header.seal_seed(&[8; 32]);
    assert_eq!(assert_same("sealed otherwise", Side::Server, &other).equal, 1);
}
