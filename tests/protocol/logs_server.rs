//! Log messages, on the server's side: only what was asked for, and not too fast.

use mcp_proto::model::LoggingLevel;
use mcp_proto::{Capabilities, Capability, Change, Progress, Sent, UseError, Version, VersionSet, server};
use mcp_tests::harness::build::{legacy, modern_with};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{limits, ms, secs, server};

fn config() -> server::Config {
    server(VersionSet::ALL)
        .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Logging))
}

fn log(lone: &mut LoneServer, call: &server::Call, level: &LoggingLevel, data: &Value) -> Sent {
    let now = lone.now;
    let sent = lone.pipe.engine().log(now, call.id(), level, Some("dock"), data).expect("open");
    lone.pump();
    sent
}

fn levels(lone: &mut LoneServer) -> Vec<String> {
    let level = |m: &Value| {
        assert_eq!(m["method"], "notifications/message");
        m["params"]["level"].as_str().expect("a level").to_owned()
    };
    lone.sent().iter().map(level).collect()
}

// covers: LOG-003, LOG-007, LOG-008, LOG-010
#[test]
fn a_modern_request_says_itself_what_it_wants_to_be_told() {
    each_cut(|cut| {
        let mut lone = LoneServer::server(config(), cut);
        let ask = |id: i64, level: Value| {
            let meta = json!({"io.modelcontextprotocol/logLevel": level});
            modern_with(id, "tools/call", json!({"name": "book"}), &meta)
        };
        let silent = lone.take(&ask(1, json!(null)));
        assert_eq!(log(&mut lone, &silent, &LoggingLevel::Emergency, &json!(1)), Sent::Dropped);
        let call = lone.take(&ask(2, json!("warning")));
        assert_eq!(log(&mut lone, &call, &LoggingLevel::Notice, &json!(1)), Sent::Dropped);
        assert_eq!(log(&mut lone, &call, &LoggingLevel::Warning, &json!({"a": [1]})), Sent::Queued);
        let said = lone.reply();
        assert_eq!(said["params"], json!({"level": "warning", "logger": "dock", "data": {"a": [1]}}));
        log(&mut lone, &call, &LoggingLevel::Critical, &json!(null));
        assert_eq!(levels(&mut lone), ["critical"]);
        lone.refused(&ask(3, json!("loud")));
        lone.transcript
    });
}

// covers: LOG-004, LOG-005, LOG-006, LOG-009, LOG-016
#[test]
fn a_session_says_what_it_wants_to_be_told_and_hears_all_until_then() {
    for version in [Version::V2024_11_05, Version::V2025_11_25] {
        each_cut(|cut| {
            let mut lone = LoneServer::server(config(), cut);
            lone.open(version);
            let (now, channel) = (lone.now, lone.pipe.channel());
            let session = |lone: &mut LoneServer, level: LoggingLevel| {
                let sent = lone.pipe.engine().log_session(now, channel, &level, None, "text");
                lone.pump();
                sent.expect("open")
            };
            assert_eq!(session(&mut lone, LoggingLevel::Debug), Sent::Queued);
            assert_eq!(lone.reply()["params"], json!({"level": "debug", "data": "text"}));
            assert_eq!(lone.pipe.engine().log_level(channel), None);
            lone.tell(&legacy(1, "logging/setLevel", json!({"level": "error"})));
            assert_eq!(lone.reply()["result"], json!({}));
            assert_eq!(lone.pipe.engine().log_level(channel), Some(LoggingLevel::Error));
            assert_eq!(session(&mut lone, LoggingLevel::Warning), Sent::Dropped);
            let call = lone.take(&legacy(2, "tools/call", json!({"name": "book"})));
            assert_eq!(log(&mut lone, &call, &LoggingLevel::Warning, &json!(1)), Sent::Dropped);
            log(&mut lone, &call, &LoggingLevel::Error, &json!(1));
            assert_eq!(levels(&mut lone), ["error"]);
            for odd in [json!("loud"), json!(3), json!(null)] {
                let error = lone.refused_later(&legacy(3, "logging/setLevel", json!({"level": odd})));
                assert_eq!(error["code"], -32602);
            }
            lone.transcript
        });
    }
    // Nobody asked: a modern client has no session.
    let mut lone = LoneServer::server(config(), Chunker::Whole);
    let (now, channel) = (lone.now, lone.pipe.channel());
    let sent = lone.pipe.engine().log_session(now, channel, &LoggingLevel::Alert, None, "x");
    assert_eq!(sent, Ok(Sent::Dropped));
}

// covers: LOG-001
#[test]
fn who_did_not_declare_it_cannot_log() {
    let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
    lone.open(Version::V2025_11_25);
    let call = lone.take(&legacy(1, "tools/call", json!({"name": "book"})));
    let now = lone.now;
    let refused = lone.pipe.engine().log(now, call.id(), &LoggingLevel::Alert, None, "x");
    assert_eq!(refused, Err(UseError::NotDeclared(Capability::Logging)));
    let mut lone = LoneServer::server(config(), Chunker::Whole);
    lone.open(Version::V2025_11_25);
    let call = lone.take(&legacy(1, "tools/call", json!({"name": "book"})));
    let unknown = lone.pipe.engine().log(now, call.id(), &LoggingLevel::from("loud"), None, "x");
    assert!(matches!(unknown, Err(UseError::NotYours(level)) if level == "loud"));
}

// covers: LOG-011, PROG-013
#[test]
fn logs_and_progress_of_a_call_share_one_pace_and_the_latest_is_kept() {
    let mut lone = LoneServer::server(config(), Chunker::Whole);
    lone.open(Version::V2025_11_25);
    let call = lone.take(&legacy(1, "tools/call", json!({"name": "book", "_meta": {"progressToken": 1}})));
    for n in 0..100 {
        log(&mut lone, &call, &LoggingLevel::Info, &json!(n));
    }
    let now = lone.now;
    let held = lone.pipe.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
    assert_eq!(held, Sent::Held);
    lone.pump();
    assert_eq!(lone.sent().len(), 10);
    lone.pass(ms(200));
    let sent = lone.sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0]["params"]["data"], 99);
    assert_eq!(sent[1]["method"], "notifications/progress");
    lone.pass(secs(1));
    lone.silent();
    // The session has a pace of its own.
    let (now, channel) = (lone.now, lone.pipe.channel());
    for n in 0..100 {
        lone.pipe.engine().log_session(now, channel, &LoggingLevel::Info, None, &n).expect("open");
    }
    lone.pump();
    assert_eq!(lone.sent().len(), 10);
    lone.pass(ms(200));
    let sent = lone.sent();
    assert_eq!((sent.len(), &sent[0]["params"]["data"]), (1, &json!(99)));
}

// covers: LOG-011
#[test]
fn a_session_that_does_not_read_is_looked_at_once_in_a_while_however_much_waits_for_it() {
    let promised = [Capability::Tools, Capability::Logging, Capability::ToolsListChanged];
    let capabilities = promised.into_iter().fold(Capabilities::new(), Capabilities::with);
    let config = server(VersionSet::ALL).capabilities(capabilities).limits(limits(|l| l.outbox_mark = 2_000));
    let mut lone = LoneServer::server(config, Chunker::Whole);
    lone.open(Version::V2025_11_25);
    lone.blocked = true;
    // Enough to pass the mark.
    let call = lone.take(&legacy(1, "tools/list", json!({})));
    let (now, channel) = (lone.now, lone.pipe.channel());
    let long = json!({"tools": [], "note": "x".repeat(3_000)});
    lone.pipe.engine().complete(now, call.id(), &long).expect("open");
    let held = lone.pipe.engine().log_session(now, channel, &LoggingLevel::Info, None, "last words");
    assert_eq!(held, Ok(Sent::Held));
    assert_eq!(lone.pipe.engine().publish(now, &Change::Tools), 1);
    // Each look may lead to one other look: two of them would be a million after a second.
    lone.pass(secs(10));
    lone.blocked = false;
    lone.pump();
    assert_eq!(lone.sent().len(), 1, "the answer");
    lone.pass(ms(100));
    let methods: Vec<_> = lone.sent().iter().map(|m| m["method"].clone()).collect();
    assert_eq!(methods, ["notifications/message", "notifications/tools/list_changed"]);
    lone.pass(secs(1));
    lone.silent();
}
