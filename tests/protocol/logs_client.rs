//! Log messages at the client: the requested level, and the messages that arrive.

use mcp_proto::client::{Event, LogMessage};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallOptions, Capability, Diagnostic, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, error_response, notification, result_response, to_value};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

fn modern_harness(cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
    harness.become_modern(json!({"tools": {}, "logging": {}}));
    harness
}

fn legacy_harness(version: Version, cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::only(version)), cut);
    harness.become_legacy(version, json!({"tools": {}, "logging": {}}));
    harness
}

#[expect(deprecated, reason = "tested until its removal")]
fn set_log_level(
    harness: &mut ClientHarness,
    level: impl Into<Option<LoggingLevel>>,
) -> Result<(), UseError> {
    harness.pipe.engine().set_log_level(harness.now, level.into())
}

fn log_notification(params: Value) -> Value {
    notification("notifications/message", params)
}

#[expect(deprecated, reason = "tested until its removal")]
fn expect_log(harness: &mut ClientHarness) -> LogMessage {
    match harness.expect_event() {
        Event::Log(log) => log,
        other => panic!("expected a log message, got {other:?}"),
    }
}

fn requested_level(harness: &mut ClientHarness, method: &str) -> Value {
    let (_, request) = harness.start_call(method, &json!({"name": "a"}), &CallOptions::new().with_progress());
    request["params"]["_meta"].get(LEVEL).cloned().unwrap_or(Value::Null)
}

// covers: LOG-007, META-012
#[test]
fn modern_requests_carry_the_log_level() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        assert_eq!(requested_level(&mut harness, "tools/call"), Value::Null);
        for (level, name) in [(LoggingLevel::Warning, "warning"), (LoggingLevel::Debug, "debug")] {
            set_log_level(&mut harness, level).expect("declared");
            harness.assert_idle();
            for method in ["tools/call", "tools/list", "custom/x"] {
                assert_eq!(requested_level(&mut harness, method), name);
            }
        }
        // A subscription requests no log messages.
        let now = harness.now;
        harness
            .pipe
            .engine()
            .subscribe(now, &SubscriptionFilter::new().tools_list_changed(true))
            .expect("open");
        assert!(harness.expect_request("subscriptions/listen")["params"]["_meta"].get(LEVEL).is_none());
        set_log_level(&mut harness, None).expect("declared");
        assert_eq!(requested_level(&mut harness, "tools/call"), Value::Null);
        harness.transcript
    });
}

// covers: LOG-007, MRTR-019
#[test]
fn retried_call_carries_the_current_log_level() {
    let mut harness = modern_harness(Chunker::Whole);
    let (_, request) = harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new());
    set_log_level(&mut harness, LoggingLevel::Info).expect("declared");
    harness.feed_message(&result_response(
        &request,
        json!({"resultType": "input_required", "requestState": "s"}),
    ));
    assert_eq!(harness.expect_request("tools/call")["params"]["_meta"][LEVEL], "info");
}

// covers: LOG-004
#[test]
fn legacy_log_level_is_sent_at_once() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = legacy_harness(version, cut);
            set_log_level(&mut harness, LoggingLevel::Warning).expect("declared");
            let request = harness.expect_request("logging/setLevel");
            assert_eq!(request["params"], json!({"level": "warning"}));
            harness.feed_message(&result_response(&request, json!({})));
            harness.assert_idle();
            assert_eq!(harness.pipe.engine().pending_calls(), 0);
            let meta = requested_level(&mut harness, "tools/call");
            assert_eq!(meta, Value::Null);
            // A refusal is reported and changes nothing.
            set_log_level(&mut harness, LoggingLevel::Alert).expect("declared");
            let request = harness.expect_request("logging/setLevel");
            harness.feed_message(&error_response(&request, -32602, "no", Value::Null));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::PeerError(e) if e.code == -32602));
            // Without an answer the request times out and is cancelled.
            set_log_level(&mut harness, LoggingLevel::Alert).expect("declared");
            let request = harness.expect_request("logging/setLevel");
            harness.advance(secs(60));
            harness.take_event_texts();
            let sent = harness.take_sent();
            assert!(sent.iter().any(|m| m["params"]["requestId"] == request["id"]), "{sent:?}");
            harness.transcript
        });
    }
}

// covers: LOG-001, LOG-002, LOG-006, LOG-010, LIFE-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn unsupported_log_level_is_refused() {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
        assert_eq!(set_log_level(&mut harness, LoggingLevel::Info), Err(UseError::NotReady));
        match version {
            None => harness.become_modern(json!({"tools": {}})),
            Some(version) => harness.become_legacy(version, json!({"tools": {}})),
        }
        for level in [None, Some(LoggingLevel::Info)] {
            assert_eq!(
                set_log_level(&mut harness, level),
                Err(UseError::MissingPeerCapability(Capability::Logging))
            );
        }
        harness.assert_idle();
        harness.eof();
        assert_eq!(set_log_level(&mut harness, LoggingLevel::Info), Err(UseError::Closed));
    }
    let mut harness = modern_harness(Chunker::Whole);
    let refused = set_log_level(&mut harness, LoggingLevel::from("loud"));
    assert!(matches!(refused, Err(UseError::NotInVersion { .. })), "{refused:?}");
    assert_eq!(requested_level(&mut harness, "tools/call"), Value::Null);
}

// covers: LOG-002, LOG-003, LOG-008, LOG-016
#[test]
fn log_messages_are_typed() {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness = match version {
                None => modern_harness(cut),
                Some(version) => legacy_harness(version, cut),
            };
            harness.feed_message(&log_notification(
                json!({"level": "error", "logger": "db", "data": {"a": [1]}}),
            ));
            let received = expect_log(&mut harness);
            assert_eq!((received.level, received.logger.as_deref()), (LoggingLevel::Error, Some("db")));
            assert_eq!((to_value(&received.data), received.call), (json!({"a": [1]}), None));
            // An unknown level is accepted; so is a null logger.
            harness.feed_message(&log_notification(json!({"level": "loud", "logger": null, "data": null})));
            let received = expect_log(&mut harness);
            assert_eq!((received.level, received.logger), (LoggingLevel::from("loud"), None));
            for wrong in [
                json!({}),
                json!({"level": "info"}),
                json!({"data": 1}),
                json!({"level": 7, "data": 1}),
                json!({"level": "info", "data": 1, "logger": 7}),
            ] {
                harness.feed_message(&log_notification(wrong.clone()));
                let diagnostic = harness.expect_diagnostic();
                assert_eq!(
                    diagnostic,
                    Diagnostic::InvalidNotification("notifications/message".into()),
                    "{wrong}"
                );
            }
            harness.feed_message(&log_notification(Value::Null));
            harness.expect_diagnostic();
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: LOG-005
#[test]
fn log_messages_below_the_level_are_dropped() {
    let mut harness = legacy_harness(Version::V2025_11_25, Chunker::Whole);
    let chatter = log_notification(json!({"level": "debug", "data": 1}));
    // Before a level is set the server may send any.
    harness.feed_message(&chatter);
    expect_log(&mut harness);
    set_log_level(&mut harness, None).expect("declared");
    // No level means "none": the client asks for the highest.
    assert_eq!(harness.expect_request("logging/setLevel")["params"], json!({"level": "emergency"}));
    harness.feed_message(&chatter);
    harness.assert_idle();
    set_log_level(&mut harness, LoggingLevel::Debug).expect("declared");
    harness.expect_request("logging/setLevel");
    harness.feed_message(&chatter);
    expect_log(&mut harness);
    let mut harness = modern_harness(Chunker::Whole);
    set_log_level(&mut harness, LoggingLevel::Debug).expect("declared");
    harness.feed_message(&chatter);
    expect_log(&mut harness);
    set_log_level(&mut harness, None).expect("declared");
    harness.feed_message(&chatter);
    harness.assert_idle();
}
