//! Log messages at the server: only those requested, at a limited rate.

use mcp_proto::model::LoggingLevel;
use mcp_proto::{
    Capabilities, Capability, Change, Progress, SendStatus, UseError, Version, VersionSet, server,
};
use mcp_tests::harness::build::{legacy_request, modern_request_with};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{limits, ms, secs, server};

#[expect(deprecated, reason = "tested until its removal")]
fn config() -> server::Config {
    server(VersionSet::ALL)
        .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Logging))
}

#[expect(deprecated, reason = "tested until its removal")]
fn log(harness: &mut ServerHarness, call: &server::Call, level: &LoggingLevel, data: &Value) -> SendStatus {
    let now = harness.now;
    let sent = harness.pipe.engine().log(now, call.id(), level, Some("dock"), data).expect("open");
    harness.pump();
    sent
}

fn sent_levels(harness: &mut ServerHarness) -> Vec<String> {
    let level = |m: &Value| {
        assert_eq!(m["method"], "notifications/message");
        m["params"]["level"].as_str().expect("a level").to_owned()
    };
    harness.take_sent().iter().map(level).collect()
}

// covers: LOG-003, LOG-007, LOG-008, LOG-010
#[test]
fn modern_request_sets_its_own_log_level() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(config(), cut);
        let request = |id: i64, level: Value| {
            let meta = json!({"io.modelcontextprotocol/logLevel": level});
            modern_request_with(id, "tools/call", json!({"name": "book"}), &meta)
        };
        let silent = harness.expect_call_for(&request(1, json!(null)));
        assert_eq!(log(&mut harness, &silent, &LoggingLevel::Emergency, &json!(1)), SendStatus::Dropped);
        let call = harness.expect_call_for(&request(2, json!("warning")));
        assert_eq!(log(&mut harness, &call, &LoggingLevel::Notice, &json!(1)), SendStatus::Dropped);
        assert_eq!(log(&mut harness, &call, &LoggingLevel::Warning, &json!({"a": [1]})), SendStatus::Queued);
        let sent = harness.expect_reply();
        assert_eq!(sent["params"], json!({"level": "warning", "logger": "dock", "data": {"a": [1]}}));
        log(&mut harness, &call, &LoggingLevel::Critical, &json!(null));
        assert_eq!(sent_levels(&mut harness), ["critical"]);
        harness.expect_error(&request(3, json!("loud")));
        harness.transcript
    });
}

// covers: LOG-004, LOG-005, LOG-006, LOG-009, LOG-016
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn session_gets_all_log_messages_until_it_sets_a_level() {
    for version in [Version::V2024_11_05, Version::V2025_11_25] {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(config(), cut);
            harness.open_session(version);
            let (now, channel) = (harness.now, harness.pipe.channel());
            let log_session = |harness: &mut ServerHarness, level: LoggingLevel| {
                let sent = harness.pipe.engine().log_session(now, channel, &level, None, "text");
                harness.pump();
                sent.expect("open")
            };
            assert_eq!(log_session(&mut harness, LoggingLevel::Debug), SendStatus::Queued);
            assert_eq!(harness.expect_reply()["params"], json!({"level": "debug", "data": "text"}));
            assert_eq!(harness.pipe.engine().log_level(channel), None);
            harness.feed_message(&legacy_request(1, "logging/setLevel", json!({"level": "error"})));
            assert_eq!(harness.expect_reply()["result"], json!({}));
            assert_eq!(harness.pipe.engine().log_level(channel), Some(LoggingLevel::Error));
            assert_eq!(log_session(&mut harness, LoggingLevel::Warning), SendStatus::Dropped);
            let call = harness.expect_call_for(&legacy_request(2, "tools/call", json!({"name": "book"})));
            assert_eq!(log(&mut harness, &call, &LoggingLevel::Warning, &json!(1)), SendStatus::Dropped);
            log(&mut harness, &call, &LoggingLevel::Error, &json!(1));
            assert_eq!(sent_levels(&mut harness), ["error"]);
            for invalid in [json!("loud"), json!(3), json!(null)] {
                let error = harness.expect_error_after_events(&legacy_request(
                    3,
                    "logging/setLevel",
                    json!({"level": invalid}),
                ));
                assert_eq!(error["code"], -32602);
            }
            harness.transcript
        });
    }
    // A modern client has no session to log to.
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    let (now, channel) = (harness.now, harness.pipe.channel());
    let sent = harness.pipe.engine().log_session(now, channel, &LoggingLevel::Alert, None, "x");
    assert_eq!(sent, Ok(SendStatus::Dropped));
}

// covers: LOG-001
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn server_without_logging_capability_cannot_log() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book"})));
    let now = harness.now;
    let refused = harness.pipe.engine().log(now, call.id(), &LoggingLevel::Alert, None, "x");
    assert_eq!(refused, Err(UseError::NotDeclared(Capability::Logging)));
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book"})));
    let unknown = harness.pipe.engine().log(now, call.id(), &LoggingLevel::from("loud"), None, "x");
    assert!(matches!(unknown, Err(UseError::ReservedMethod(level)) if level == "loud"));
}

// covers: LOG-011, PROG-013
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn logs_and_progress_of_a_call_share_one_rate_limit() {
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    let call = harness.expect_call_for(&legacy_request(
        1,
        "tools/call",
        json!({"name": "book", "_meta": {"progressToken": 1}}),
    ));
    for n in 0..100 {
        log(&mut harness, &call, &LoggingLevel::Info, &json!(n));
    }
    let now = harness.now;
    let held = harness.pipe.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
    assert_eq!(held, SendStatus::Deferred);
    harness.pump();
    assert_eq!(harness.take_sent().len(), 10);
    harness.advance(ms(200));
    let sent = harness.take_sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0]["params"]["data"], 99);
    assert_eq!(sent[1]["method"], "notifications/progress");
    harness.advance(secs(1));
    harness.assert_nothing_sent();
    // The session has a rate limit of its own.
    let (now, channel) = (harness.now, harness.pipe.channel());
    for n in 0..100 {
        harness.pipe.engine().log_session(now, channel, &LoggingLevel::Info, None, &n).expect("open");
    }
    harness.pump();
    assert_eq!(harness.take_sent().len(), 10);
    harness.advance(ms(200));
    let sent = harness.take_sent();
    assert_eq!((sent.len(), &sent[0]["params"]["data"]), (1, &json!(99)));
}

// covers: LOG-011
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn blocked_session_is_rechecked_at_a_bounded_rate() {
    let promised = [Capability::Tools, Capability::Logging, Capability::ToolsListChanged];
    let capabilities = promised.into_iter().fold(Capabilities::new(), Capabilities::with);
    let config =
        server(VersionSet::ALL).capabilities(capabilities).limits(limits(|l| l.outbox_high_water = 2_000));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    harness.is_blocked = true;
    // Enough to pass the high-water mark.
    let call = harness.expect_call_for(&legacy_request(1, "tools/list", json!({})));
    let (now, channel) = (harness.now, harness.pipe.channel());
    let long = json!({"tools": [], "note": "x".repeat(3_000)});
    harness.pipe.engine().complete(now, call.id(), &long).expect("open");
    let held = harness.pipe.engine().log_session(now, channel, &LoggingLevel::Info, None, "last words");
    assert_eq!(held, Ok(SendStatus::Deferred));
    assert_eq!(harness.pipe.engine().publish(now, &Change::Tools), 1);
    // A check may schedule one other check; two would grow exponentially.
    harness.advance(secs(10));
    harness.is_blocked = false;
    harness.pump();
    assert_eq!(harness.take_sent().len(), 1, "the answer");
    harness.advance(ms(100));
    let methods: Vec<_> = harness.take_sent().iter().map(|m| m["method"].clone()).collect();
    assert_eq!(methods, ["notifications/message", "notifications/tools/list_changed"]);
    harness.advance(secs(1));
    harness.assert_nothing_sent();
}
