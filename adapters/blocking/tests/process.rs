//! The client and server processes, correct and faulty ones.

use core::time::Duration;
use std::time::Instant;

use crate::support::{
    DEADLINE, ERAS, client_config, example, odd_server, raw_text, short_client, short_timeouts, text,
    version_set, with_timeout,
};
use mcp_blocking::{Client, ConnectionClosed, Error};
use mcp_proto::client::KnownEra;
use mcp_proto::{CallError, CallOptions, Era, Fault, Limit, Limits, UseError, VersionSet};
use mcp_std::process::{Program, ShutdownStage, ShutdownTimeouts, SpawnErrorKind, Stderr};
use serde_json::json;

fn closed_reason(outcome: Result<impl Sized, Error>) -> (ConnectionClosed, String) {
    let error = outcome.err().expect("an end");
    let shown = error.to_string();
    // The text may come from the server, and must be safe to print on a terminal.
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    match error {
        Error::Closed(closed) => (ConnectionClosed::clone(&closed), shown),
        other => panic!("{other:?}"),
    }
}

// covers: STDIO-001, STDIO-020, STDIO-021, LIFE-017, BASE-044
#[test]
fn client_calls_example_server() {
    with_timeout(|| {
        for era in ERAS {
            let program = Program::new(example("echo")).stderr(Stderr::Capture);
            let client = Client::spawn_with(client_config(version_set(era)), &program).unwrap();
            assert_eq!(client.peer().era(), era);
            let tools = client.list_tools().unwrap();
            let names: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
            assert_eq!(names, ["echo", "add"]);
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "\"hello\""})).unwrap()), "\"hello\"");
            let sum = client.call_tool("add", &json!({"a": 20, "b": 22.5})).unwrap();
            assert_eq!(sum.structured_content.unwrap().as_str(), r#"{"sum":42.5}"#);
            let ended = client.close().unwrap().unwrap();
            assert_eq!((ended.stage, &*ended.stderr_tail), (ShutdownStage::Exited, ""));
            assert!(ended.status.unwrap().success());
        }
        // The era is found by a probe.
        let client = Client::spawn(Program::new(example("echo"))).unwrap();
        assert_eq!((client.peer().era(), client.known_era()), (Era::Modern, Some(KnownEra::Modern)));
        // Dropping the client waits for the end of the process.
    });
}

#[test]
fn large_messages_pass_through_pipes() {
    with_timeout(|| {
        let client = Client::spawn(Program::new(example("echo"))).unwrap();
        let large = "0123456789".repeat(300_000);
        let calls =
            [0; 3].map(|_| client.start_tool("echo", &json!({"text": large}), &CallOptions::new()).unwrap());
        for call in calls {
            assert!(raw_text(&client.wait(call).unwrap()) == large);
        }
        client.close().unwrap();
    });
}

// covers: VER-021, VER-023
#[test]
fn server_that_exits_on_probe_is_started_again() {
    with_timeout(|| {
        let (seen, starts) = std::sync::mpsc::channel();
        let program = odd_server("exits-on-unknown").before_spawn(move |_| {
            let _ = seen.send(());
            Ok(())
        });
        let client = short_timeouts().spawn(&program).unwrap();
        assert_eq!((client.peer().era(), client.known_era()), (Era::Legacy, Some(KnownEra::Legacy)));
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        client.close().unwrap();
        assert_eq!(starts.try_iter().count(), 2);
        // With a known era the server is started once.
        let config = config_with_known_era(KnownEra::Legacy);
        Client::options(config).spawn(&program).unwrap().close().unwrap();
        assert_eq!(starts.try_iter().count(), 1);

        // A server that exits again is not started a third time.
        let (end, shown) = closed_reason(short_timeouts().spawn(odd_server("exits-on-anything")));
        assert_eq!((end.fault, end.was_ready, end.exit_status.unwrap().code()), (Fault::Eof, false, Some(4)));
        assert_eq!(end.stderr_tail, "cannot read the configuration");
        assert!(shown.contains("before the connection was ready (exit status: 4)"), "{shown}");
        assert!(shown.contains("cannot read the configuration"), "{shown}");

        // If the other era is excluded, there is no second attempt.
        let (end, shown) = closed_reason(Client::spawn_with(
            client_config(version_set(Era::Modern)),
            odd_server("exits-on-unknown"),
        ));
        assert!(shown.contains(end.fault.untried_handshake().unwrap()), "{shown}");
        assert_eq!(
            (end.fault, end.exit_status.unwrap().code()),
            (Fault::ExitedDuringProbe { legacy: false }, Some(3))
        );
    });
}

fn config_with_known_era(known_era: KnownEra) -> mcp_proto::client::Config {
    client_config(VersionSet::ALL).known_era(Some(known_era))
}

// covers: STDIO-005, STDIO-007, STDIO-008, STDIO-009
#[test]
fn client_tolerates_noise() {
    with_timeout(|| {
        // More stderr output than a pipe holds, before and during calls.
        let client = Client::spawn(odd_server("floods-stderr")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        let ended = client.close().unwrap().unwrap();
        assert!(ended.status.unwrap().success() && ended.stderr_tail.ends_with("!!!"));

        // Stdout output before the first message.
        let client = Client::spawn(odd_server("banner")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        client.close().unwrap();

        // Our own servers send prints of handlers to stderr.
        let client = Client::spawn(odd_server("prints")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        assert_eq!(client.close().unwrap().unwrap().stderr_tail, "a stray line of the handler's");
    });
}

// covers: STDIO-023, STDIO-028, ERR-015
#[test]
fn exit_is_reported_with_status_and_stderr() {
    with_timeout(|| {
        let client = Client::spawn(odd_server("dies-mid-line")).unwrap();
        let calls = [0; 2].map(|_| client.start_tool("any", &json!({}), &CallOptions::new()).unwrap());
        for call in calls {
            let (end, shown) = closed_reason(client.wait(call));
            assert!(end.was_ready);
            assert_eq!(end.exit_status.unwrap().code(), Some(7));
            assert_eq!(end.stderr_tail, "starting\nout of \u{1b}[2Jluck");
            assert!(
                shown.contains("odd_server\" ended in the middle of a message (exit status: 7)"),
                "{shown}"
            );
            assert!(shown.contains("    out of \\u{1b}[2Jluck"), "{shown}");
        }
        let (end, _) = closed_reason(client.call_tool("any", &json!({})));
        assert_eq!(end.exit_status.unwrap().code(), Some(7), "still known");
        let ended = client.close().unwrap().unwrap();
        assert_eq!((ended.stage, ended.status.unwrap().code()), (ShutdownStage::Exited, Some(7)));
    });
}

// covers: STDIO-022, LIFE-018
#[test]
fn client_reports_server_that_exits() {
    with_timeout(|| {
        let client = Client::spawn(odd_server("leaves-politely")).unwrap();
        let (end, shown) = closed_reason(client.call_tool("any", &json!({})));
        assert!(end.exit_status.unwrap().success() && shown.contains("start it again"), "{shown}");
        assert!(client.poll(DEADLINE).unwrap_err().is_closed());
    });
}

// covers: LIFE-017, LIFE-021, STDIO-020
#[test]
fn server_gets_end_of_input_before_it_is_terminated_and_then_killed() {
    with_timeout(|| {
        for (setup, last) in [("", ShutdownStage::Terminated), ("trap '' TERM;", ShutdownStage::Killed)] {
            let script = format!("{setup} exec \"$0\" reports-eof");
            let program = Program::new("sh").arg("-c").arg(script).arg(example("odd_server"));
            let client = short_timeouts().spawn(program.stderr(Stderr::Capture)).unwrap();
            assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
            let ended = client.close().unwrap().unwrap();
            assert_eq!((ended.stage, &*ended.stderr_tail), (last, "end of input"));
        }
    });
}

// covers: LIFE-017, LIFE-021, STDIO-020
#[test]
fn server_that_ignores_end_of_input_is_terminated() {
    with_timeout(|| {
        let client = short_timeouts().spawn(odd_server("ignores-eof")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        assert_eq!(client.close().unwrap().unwrap().stage, ShutdownStage::Terminated);

        let timeouts = ShutdownTimeouts { exit: Duration::ZERO, ..ShutdownTimeouts::IMMEDIATE };
        let client = short_timeouts().shutdown_timeouts(timeouts).spawn(odd_server("ignores-eof")).unwrap();
        let begun = Instant::now();
        drop(client);
        assert!(begun.elapsed() < DEADLINE);
    });
}

// covers: TIME-001, TIME-002, CANC-002
#[test]
fn call_to_server_that_never_reads_times_out() {
    with_timeout(|| {
        let mut limits = Limits::default();
        limits.call_timeout = Duration::from_millis(100);
        let timeouts = ShutdownTimeouts::uniform(Duration::from_secs(2));
        let options =
            Client::options(client_config(VersionSet::ALL).limits(limits)).shutdown_timeouts(timeouts);
        let client = options.spawn(odd_server("never-reads")).unwrap();
        let large = "x".repeat(10_000_000);
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        // The outbox is bounded.
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::Full(Limit::OutboxHighWater))), "{error:?}");
        let ended = client.close().unwrap().unwrap();
        assert_eq!(ended.stage, ShutdownStage::Terminated);
    });
}

// covers: TIME-007, LIFE-009, LIFE-020, LIFE-021, CANC-008
#[test]
fn handshake_with_silent_server_times_out() {
    with_timeout(|| {
        let (end, shown) = closed_reason(Client::options(short_client()).spawn(odd_server("silent")));
        assert!(matches!(end.fault, Fault::HandshakeTimeout { .. }), "{end:?}");
        assert_eq!(end.exit_status, None);
        assert!(shown.contains("did not answer") && shown.contains("`Limits::init_timeout`"), "{shown}");
    });
}

// covers: STDIO-006, STDIO-013
#[test]
fn client_writes_only_complete_messages() {
    with_timeout(|| {
        // The server exits with status 99 at the first line that is not a message.
        let client = short_timeouts().spawn(odd_server("asks")).unwrap();
        let error = client.request("resources/list", &json!({}), &CallOptions::new()).unwrap_err();
        assert!(matches!(error, Error::Use(_)), "refused before it was sent: {error:?}");
        while client.poll(Duration::from_millis(20)).unwrap() {}
        client.call_tool("any\nthing", &json!({"line\n": "\u{2028}\r\n"})).unwrap();
        client.ping().unwrap_err();
        let ended = client.close().unwrap().unwrap();
        assert!(ended.status.unwrap().success(), "{ended}");
    });
}

#[test]
fn spawn_reports_missing_program() {
    let error = Client::spawn(Program::new("no-such-program-anywhere")).unwrap_err();
    assert!(matches!(&error, Error::Spawn(spawn) if spawn.kind() == SpawnErrorKind::NotFound), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains("no-such-program-anywhere") && shown.contains("is it installed"), "{shown}");
}

// covers: LIFE-020
#[test]
fn client_explains_program_that_is_not_a_server() {
    with_timeout(|| {
        let spawn = |program: Program| Client::options(short_client()).spawn(program.stderr(Stderr::Capture));
        // Prints nothing and exits.
        let (end, shown) = closed_reason(spawn(Program::new("true")));
        assert!(end.exit_status.unwrap().success() && !end.was_ready);
        assert!(shown.contains("is this the right command"), "{shown}");
        // Prints text and exits.
        let (end, shown) = closed_reason(spawn(Program::new("echo").arg("usage: echo \u{202e}[OPTIONS]")));
        assert_eq!(end.noise.as_deref(), Some("usage: echo \u{202e}[OPTIONS]"));
        assert!(shown.contains("this is not an MCP server") && shown.contains("usage: echo"), "{shown}");
        // Prints text and keeps running.
        let (end, shown) = closed_reason(spawn(odd_server("garbage")));
        assert!(end.noise.unwrap().starts_with("%PDF-1.0"));
        assert!(shown.contains("this is not an MCP server") && shown.contains("right arguments"), "{shown}");
        // Echoes its input.
        let (end, shown) = closed_reason(spawn(Program::new("cat")));
        assert_eq!(end.fault, Fault::Echo);
        assert!(shown.contains("this is not an MCP server: cat echoes its input"), "{shown}");
    });
}
