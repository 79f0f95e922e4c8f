//! Log messages, on the client's side: which are wanted, and those that come.

use mcp_proto::client::{Event, Log};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallOptions, Capability, Diagnostic, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, error, note, result, value};
use mcp_tests::harness::{Chunker, LoneClient, each_cut};
use serde_json::{Value, json};

use crate::common::{client, secs};

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

fn modern(cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
    lone.with_modern(json!({"tools": {}, "logging": {}}));
    lone
}

fn legacy(version: Version, cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::only(version)), cut);
    lone.with_legacy(version, json!({"tools": {}, "logging": {}}));
    lone
}

fn set(lone: &mut LoneClient, level: impl Into<Option<LoggingLevel>>) -> Result<(), UseError> {
    lone.pipe.engine().set_log_level(lone.now, level.into())
}

fn message(params: Value) -> Value {
    note("notifications/message", params)
}

fn log(lone: &mut LoneClient) -> Log {
    match lone.event() {
        Event::Log(log) => log,
        other => panic!("a log message, not {other:?}"),
    }
}

fn wanted(lone: &mut LoneClient, method: &str) -> Value {
    let (_, request) = lone.calls(method, &json!({"name": "a"}), &CallOptions::new().with_progress());
    request["params"]["_meta"].get(LEVEL).cloned().unwrap_or(Value::Null)
}

// covers: LOG-007, META-012
#[test]
fn a_modern_server_is_told_with_each_request() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        assert_eq!(wanted(&mut lone, "tools/call"), Value::Null);
        for (level, name) in [(LoggingLevel::Warning, "warning"), (LoggingLevel::Debug, "debug")] {
            set(&mut lone, level).expect("declared");
            lone.still();
            for method in ["tools/call", "tools/list", "custom/x"] {
                assert_eq!(wanted(&mut lone, method), name);
            }
        }
        // A subscription logs nothing.
        let now = lone.now;
        lone.pipe.engine().subscribe(now, &SubscriptionFilter::new().tools_list_changed(true)).expect("open");
        assert!(lone.asked("subscriptions/listen")["params"]["_meta"].get(LEVEL).is_none());
        set(&mut lone, None).expect("declared");
        assert_eq!(wanted(&mut lone, "tools/call"), Value::Null);
        lone.transcript
    });
}

// covers: LOG-007, MRTR-019
#[test]
fn a_call_that_is_repeated_asks_for_what_is_wanted_then() {
    let mut lone = modern(Chunker::Whole);
    let (_, request) = lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new());
    set(&mut lone, LoggingLevel::Info).expect("declared");
    lone.tell(&result(&request, json!({"resultType": "input_required", "requestState": "s"})));
    assert_eq!(lone.asked("tools/call")["params"]["_meta"][LEVEL], "info");
}

// covers: LOG-004
#[test]
fn a_legacy_server_is_told_at_once() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = legacy(version, cut);
            set(&mut lone, LoggingLevel::Warning).expect("declared");
            let request = lone.asked("logging/setLevel");
            assert_eq!(request["params"], json!({"level": "warning"}));
            lone.tell(&result(&request, json!({})));
            lone.still();
            assert_eq!(lone.pipe.engine().pending_calls(), 0);
            let meta = wanted(&mut lone, "tools/call");
            assert_eq!(meta, Value::Null);
            // A refusal is worth knowing, and changes nothing.
            set(&mut lone, LoggingLevel::Alert).expect("declared");
            let request = lone.asked("logging/setLevel");
            lone.tell(&error(&request, -32602, "no", Value::Null));
            assert!(matches!(lone.diagnostic(), Diagnostic::PeerError(e) if e.code == -32602));
            // So is none at all: it is given up, which the server is told.
            set(&mut lone, LoggingLevel::Alert).expect("declared");
            let request = lone.asked("logging/setLevel");
            lone.pass(secs(60));
            lone.said();
            let told = lone.sent();
            assert!(told.iter().any(|m| m["params"]["requestId"] == request["id"]), "{told:?}");
            lone.transcript
        });
    }
}

// covers: LOG-001, LOG-002, LOG-006, LOG-010, LIFE-010
#[test]
fn a_level_that_cannot_be_set_is_refused() {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        let mut lone = LoneClient::client(client(VersionSet::ALL), Chunker::Whole);
        assert_eq!(set(&mut lone, LoggingLevel::Info), Err(UseError::NotReady));
        match version {
            None => lone.with_modern(json!({"tools": {}})),
            Some(version) => lone.with_legacy(version, json!({"tools": {}})),
        }
        for level in [None, Some(LoggingLevel::Info)] {
            assert_eq!(set(&mut lone, level), Err(UseError::PeerLacks(Capability::Logging)));
        }
        lone.still();
        lone.eof();
        assert_eq!(set(&mut lone, LoggingLevel::Info), Err(UseError::Closed));
    }
    let mut lone = modern(Chunker::Whole);
    let refused = set(&mut lone, LoggingLevel::from("loud"));
    assert!(matches!(refused, Err(UseError::NotInVersion { .. })), "{refused:?}");
    assert_eq!(wanted(&mut lone, "tools/call"), Value::Null);
}

// covers: LOG-002, LOG-003, LOG-008, LOG-016
#[test]
fn messages_come_typed() {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = match version {
                None => modern(cut),
                Some(version) => legacy(version, cut),
            };
            lone.tell(&message(json!({"level": "error", "logger": "db", "data": {"a": [1]}})));
            let heard = log(&mut lone);
            assert_eq!((heard.level, heard.logger.as_deref()), (LoggingLevel::Error, Some("db")));
            assert_eq!((value(&heard.data), heard.call), (json!({"a": [1]}), None));
            // A word of another vocabulary passes; the first logger of none too.
            lone.tell(&message(json!({"level": "loud", "logger": null, "data": null})));
            let heard = log(&mut lone);
            assert_eq!((heard.level, heard.logger), (LoggingLevel::from("loud"), None));
            for wrong in [
                json!({}),
                json!({"level": "info"}),
                json!({"data": 1}),
                json!({"level": 7, "data": 1}),
                json!({"level": "info", "data": 1, "logger": 7}),
            ] {
                lone.tell(&message(wrong.clone()));
                let odd = lone.diagnostic();
                assert_eq!(odd, Diagnostic::InvalidNotification("notifications/message".into()), "{wrong}");
            }
            lone.tell(&message(Value::Null));
            lone.diagnostic();
            lone.still();
            lone.transcript
        });
    }
}

// covers: LOG-005
#[test]
fn what_is_not_wanted_is_dropped() {
    let mut lone = legacy(Version::V2025_11_25, Chunker::Whole);
    let chatter = message(json!({"level": "debug", "data": 1}));
    // Before anything was said the server does as it likes.
    lone.tell(&chatter);
    log(&mut lone);
    set(&mut lone, None).expect("declared");
    // There is no "none" to be said: next to nothing is.
    assert_eq!(lone.asked("logging/setLevel")["params"], json!({"level": "emergency"}));
    lone.tell(&chatter);
    lone.still();
    set(&mut lone, LoggingLevel::Debug).expect("declared");
    lone.asked("logging/setLevel");
    lone.tell(&chatter);
    log(&mut lone);
    let mut lone = modern(Chunker::Whole);
    set(&mut lone, LoggingLevel::Debug).expect("declared");
    lone.tell(&chatter);
    log(&mut lone);
    set(&mut lone, None).expect("declared");
    lone.tell(&chatter);
    lone.still();
}
