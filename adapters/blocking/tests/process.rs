//! The client and real processes: servers that behave, and those that do not

#![cfg(target_os = "linux")]

extern crate alloc;

mod support;

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::{Client, Closed, Error};
use mcp_proto::client::Verdict;
use mcp_proto::{CallError, CallOptions, Era, Fault, Limits, UseError, VersionSet};
use mcp_std::child::{How, Patience, Program, SpawnErrorKind, Stderr};
use serde_json::json;
use support::{DEADLINE, ERAS, example, hasty, in_time, odd, only, raw_text, short_client, speaks, text};

fn closed(outcome: Result<impl Sized, Error>) -> (Closed, String) {
    let error = outcome.err().expect("an end");
    let shown = error.to_string();
    // Whatever the server said, a terminal may show it.
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    match error {
        Error::Closed(closed) => (Closed::clone(&closed), shown),
        other => panic!("{other:?}"),
    }
}

// covers: STDIO-001, STDIO-020, STDIO-021, LIFE-017, BASE-044
#[test]
fn a_server_of_ours() {
    in_time(|| {
        for era in ERAS {
            let program = Program::new(example("echo")).stderr(Stderr::Capture);
            let mut client = Client::spawn_with(speaks(only(era)), &program).unwrap();
            assert_eq!(client.peer().era(), era);
            let tools = client.list_tools().unwrap();
            let names: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
            assert_eq!(names, ["echo", "add"]);
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "\"hello\""})).unwrap()), "\"hello\"");
            let sum = client.call_tool("add", &json!({"a": 20, "b": 22.5})).unwrap();
            assert_eq!(sum.structured_content.unwrap().as_str(), r#"{"sum":42.5}"#);
            let ended = client.close().unwrap().unwrap();
            assert_eq!((ended.how, &*ended.last_words), (How::Exited, ""));
            assert!(ended.status.unwrap().success());
        }
        // And without saying anything beforehand.
        let client = Client::spawn(Program::new(example("echo"))).unwrap();
        assert_eq!((client.peer().era(), client.verdict()), (Era::Modern, Some(Verdict::Modern)));
        // Dropped: the end of the process is waited for.
    });
}

#[test]
fn large_messages_through_real_pipes() {
    in_time(|| {
        let mut client = Client::spawn(Program::new(example("echo"))).unwrap();
        let large = "0123456789".repeat(1_000_000);
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
fn a_server_that_exits_on_the_question_is_started_again() {
    in_time(|| {
        let (seen, starts) = std::sync::mpsc::channel();
        let program = odd("exits-on-unknown").before_spawn(move |_| {
            let _ = seen.send(());
            Ok(())
        });
        let mut client = hasty().spawn(&program).unwrap();
        assert_eq!((client.peer().era(), client.verdict()), (Era::Legacy, Some(Verdict::Legacy)));
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        client.close().unwrap();
        assert_eq!(starts.try_iter().count(), 2);
        // Known beforehand, it is started once.
        let config = client_that_knows(Verdict::Legacy);
        Client::options(config).spawn(&program).unwrap().close().unwrap();
        assert_eq!(starts.try_iter().count(), 1);

        // Twice is enough.
        let (end, shown) = closed(hasty().spawn(odd("exits-on-anything")));
        assert_eq!((end.fault, end.was_ready, end.ended.unwrap().code()), (Fault::Eof, false, Some(4)));
        assert_eq!(end.last_words, "cannot read the configuration");
        assert!(shown.contains("before the connection was ready (exit status: 4)"), "{shown}");
        assert!(shown.contains("cannot read the configuration"), "{shown}");

        // Where the other era is ruled out there is nothing to try again.
        let (end, _) = closed(Client::spawn_with(speaks(only(Era::Modern)), odd("exits-on-unknown")));
        assert_eq!(
            (end.fault, end.ended.unwrap().code()),
            (Fault::ExitedDuringProbe { legacy: false }, Some(3))
        );
    });
}

fn client_that_knows(verdict: Verdict) -> mcp_proto::client::Config {
    speaks(VersionSet::ALL).verdict(Some(verdict))
}

// covers: STDIO-005, STDIO-007, STDIO-008, STDIO-009
#[test]
fn noise_is_survived() {
    in_time(|| {
        // On stderr, more of it than any pipe holds, before and during calls.
        let mut client = Client::spawn(odd("floods-stderr")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        let ended = client.close().unwrap().unwrap();
        assert!(ended.status.unwrap().success() && ended.last_words.ends_with("!!!"));

        // On stdout, before the first message.
        let mut client = Client::spawn(odd("banner")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        client.close().unwrap();

        // A server of ours cannot even make any: what its handler prints goes to stderr.
        let mut client = Client::spawn(odd("prints")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        assert_eq!(client.close().unwrap().unwrap().last_words, "a stray line of the handler's");
    });
}

// covers: STDIO-023, STDIO-028, ERR-015
#[test]
fn a_server_that_dies_is_told_of_with_its_last_words() {
    in_time(|| {
        let mut client = Client::spawn(odd("dies-mid-line")).unwrap();
        let calls = [0; 2].map(|_| client.start_tool("any", &json!({}), &CallOptions::new()).unwrap());
        for call in calls {
            let (end, shown) = closed(client.wait(call));
            assert!(end.was_ready);
            assert_eq!(end.ended.unwrap().code(), Some(7));
            assert_eq!(end.last_words, "starting\nout of \u{1b}[2Jluck");
            assert!(
                shown.contains("odd_server\" ended in the middle of a message (exit status: 7)"),
                "{shown}"
            );
            assert!(shown.contains("    out of \\u{1b}[2Jluck"), "{shown}");
        }
        let (end, _) = closed(client.call_tool("any", &json!({})));
        assert_eq!(end.ended.unwrap().code(), Some(7), "still known");
        let ended = client.close().unwrap().unwrap();
        assert_eq!((ended.how, ended.status.unwrap().code()), (How::Exited, Some(7)));
    });
}

// covers: STDIO-022, LIFE-018
#[test]
fn a_server_may_leave() {
    in_time(|| {
        let mut client = Client::spawn(odd("leaves-politely")).unwrap();
        let (end, shown) = closed(client.call_tool("any", &json!({})));
        assert!(end.ended.unwrap().success() && shown.contains("start it again"), "{shown}");
        assert!(client.poll(DEADLINE).unwrap_err().is_closed());
    });
}

// covers: LIFE-017, LIFE-021, STDIO-020
#[test]
fn a_server_that_does_not_end_is_ended() {
    in_time(|| {
        let mut client = hasty().spawn(odd("ignores-eof")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        assert_eq!(client.close().unwrap().unwrap().how, How::Terminated);

        let patience = Patience { exit: Duration::ZERO, ..Patience::NONE };
        let client = hasty().patience(patience).spawn(odd("ignores-eof")).unwrap();
        let begun = Instant::now();
        drop(client);
        assert!(begun.elapsed() < DEADLINE);
    });
}

// covers: TIME-001, TIME-002, CANC-002
#[test]
fn a_server_that_never_reads_is_waited_for_no_longer_than_said() {
    in_time(|| {
        let mut limits = Limits::default();
        limits.call_timeout = Duration::from_millis(100);
        let patience = Patience::each(Duration::from_millis(200));
        let options = Client::options(speaks(VersionSet::ALL).limits(limits)).patience(patience);
        let mut client = options.spawn(odd("never-reads")).unwrap();
        let large = "x".repeat(10_000_000);
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        // What is still to be written is not added to without end.
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::Full("outbox_mark"))), "{error:?}");
        let ended = client.close().unwrap().unwrap();
        assert_eq!(ended.how, How::Terminated);
    });
}

// covers: TIME-007, LIFE-009, LIFE-020, LIFE-021, CANC-008
#[test]
fn a_server_that_never_answers() {
    in_time(|| {
        let (end, shown) = closed(Client::options(short_client()).spawn(odd("silent")));
        assert!(matches!(end.fault, Fault::HandshakeTimeout { .. }), "{end:?}");
        assert_eq!(end.ended, None);
        assert!(shown.contains("did not answer") && shown.contains("`Limits::init_timeout`"), "{shown}");
    });
}

// covers: STDIO-006, STDIO-013
#[test]
fn nothing_but_messages_is_written_to_a_server() {
    in_time(|| {
        // It ends with status 99 at the first line that is none.
        let mut client = hasty().spawn(odd("asks")).unwrap();
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
fn a_program_that_cannot_be_started() {
    let error = Client::spawn(Program::new("no-such-program-anywhere")).unwrap_err();
    assert!(matches!(&error, Error::Spawn(spawn) if spawn.kind() == SpawnErrorKind::NotFound), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains("no-such-program-anywhere") && shown.contains("is it installed"), "{shown}");
}

// covers: LIFE-020
#[test]
fn programs_that_are_no_servers() {
    in_time(|| {
        let spawn = |program: Program| Client::options(short_client()).spawn(program.stderr(Stderr::Capture));
        // Says nothing, and goes.
        let (end, shown) = closed(spawn(Program::new("true")));
        assert!(end.ended.unwrap().success() && !end.was_ready);
        assert!(shown.contains("is this the right command"), "{shown}");
        // Says something, and goes.
        let (end, shown) = closed(spawn(Program::new("echo").arg("usage: echo \u{202e}[OPTIONS]")));
        assert_eq!(end.noise.as_deref(), Some("usage: echo \u{202e}[OPTIONS]"));
        assert!(shown.contains("this is no MCP server") && shown.contains("usage: echo"), "{shown}");
        // Says something, and stays.
        let (end, shown) = closed(spawn(odd("garbage")));
        assert!(end.noise.unwrap().starts_with("%PDF-1.0"));
        assert!(shown.contains("this is no MCP server") && shown.contains("right arguments"), "{shown}");
        // Says what it is told.
        let (end, shown) = closed(spawn(Program::new("cat")));
        assert_eq!(end.fault, Fault::Echo);
        assert!(shown.contains("this is no MCP server: cat sends back what it is sent"), "{shown}");
    });
}
