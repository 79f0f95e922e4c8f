//! Suite: a client whose server is a process, shared by many tasks.
//!
//! `crate::futures::client` has the helpers, and `crate::adapter` names the adapter under test.

use core::pin::pin;
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use futures_lite::future::{or, poll_once};
use mcp_proto::{CallError, CallOptions, Era, Limit, Limits, UseError, client};
use mcp_std::process::{ShutdownStage, ShutdownTimeouts};
use serde_json::json;

use crate::adapter::package::{Client, Error, Program};
use crate::adapter::{EXAMPLE, block_on_reactor as block_on, sleep};
use crate::futures::client::{BoxFuture, TaskSet, pair};
#[cfg(target_os = "linux")]
use crate::suites::client_support::{child_with, command_lines_with, is_running, odd_server_after};
use crate::suites::client_support::{odd_server, short_timeouts, tool_handler};
use crate::support::{example, text, with_timeout};

// covers: STDIO-023, STDIO-028, ERR-015
#[test]
fn server_exit_fails_all_waiting_calls() {
    with_timeout(|| {
        let client = block_on(Client::spawn(odd_server("dies-mid-line"))).unwrap();
        let calls = (0..16).map(|_| {
            let client = client.clone();
            Box::pin(async move {
                let Err(Error::Closed(end)) = client.call_tool("any", &json!({})).await else {
                    panic!("no end")
                };
                assert_eq!(end.exit_status.unwrap().code(), Some(7), "{end:?}");
                assert_eq!(end.stderr_tail, "starting\nout of \u{1b}[2Jluck");
            }) as BoxFuture
        });
        TaskSet::new(calls.collect()).run();
        // Later calls fail immediately.
        let Err(Error::Closed(end)) = block_on(client.ping()) else { panic!("no end") };
        assert_eq!(end.exit_status.unwrap().code(), Some(7));
        let ended = block_on(client.close()).unwrap().unwrap();
        assert_eq!((ended.stage, ended.status.unwrap().code()), (ShutdownStage::Exited, Some(7)));
    });
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn last_handle_ends_server_process() {
    // By an argument of its own: other tests have servers at the same time.
    let own_server = |mode| odd_server(mode).arg("of-last-handle");
    with_timeout(move || {
        for mode in ["ignores-eof", "banner"] {
            let client = block_on(short_timeouts().spawn(own_server(mode))).unwrap();
            let id = child_with("of-last-handle").unwrap();
            let (other, call) = (client.clone(), client.start_tool("any", &json!({}), &CallOptions::new()));
            drop(client);
            assert_eq!(text(&block_on(other.call_tool("any", &json!({}))).unwrap()), "ok");
            drop(other);
            assert!(is_running(id), "a call under way holds it");
            drop(call);
            // The process ends in the background, although no task drives the client.
            while is_running(id) {
                thread::yield_now();
            }
        }
        // A connect that is dropped before it completes.
        let mut connecting = pin!(short_timeouts().spawn(own_server("silent")));
        assert!(block_on(poll_once(&mut connecting)).is_none());
        let id = child_with("of-last-handle").unwrap();
        block_on(or(async { drop(connecting.as_mut().await) }, async {
            sleep(Duration::from_millis(5)).await;
        }));
        connecting.set(short_timeouts().spawn(Program::new("no-such-program-anywhere")));
        while is_running(id) {
            thread::yield_now();
        }
        assert!(matches!(block_on(connecting), Err(Error::Spawn(_))));
    });
}

// covers: LIFE-017, LIFE-021, VER-021, STDIO-005, STDIO-007
#[test]
fn client_tolerates_odd_servers() {
    with_timeout(|| {
        block_on(async {
            for mode in ["floods-stderr", "banner", "exits-on-unknown", "ignores-eof"] {
                let client = short_timeouts()
                    .spawn(odd_server(mode))
                    .await
                    .unwrap_or_else(|error| panic!("{mode}: {error}"));
                assert_eq!(text(&client.call_tool("any", &json!({})).await.unwrap()), "ok", "{mode}");
                let ended = client.close().await.unwrap().unwrap();
                assert_eq!(
                    ended.stage,
                    if mode == "ignores-eof" { ShutdownStage::Terminated } else { ShutdownStage::Exited },
                    "{mode}"
                );
            }
            let Err(Error::Closed(end)) = short_timeouts().spawn(odd_server("exits-on-anything")).await
            else {
                panic!("opened")
            };
            assert_eq!((end.was_ready, end.exit_status.unwrap().code()), (false, Some(4)));
            assert_eq!(end.stderr_tail, "cannot read the configuration");
            let mut limits = Limits::default();
            (limits.probe_timeout, limits.init_timeout) =
                (Duration::from_millis(100), Duration::from_millis(300));
            let config = client::Config::new("test", "1").limits(limits);
            let silent = Client::options(config)
                .shutdown_timeouts(ShutdownTimeouts::uniform(Duration::from_millis(200)));
            let error = silent.spawn(odd_server("silent")).await.unwrap_err();
            assert!(error.to_string().contains("did not answer"), "{error}");
        });
    });
}

// covers: TIME-001, TIME-002
#[test]
fn call_to_server_that_never_reads_times_out() {
    with_timeout(|| {
        block_on(async {
            let mut limits = Limits::default();
            limits.call_timeout = Duration::from_millis(100);
            let options = Client::options(client::Config::new("test", "1").limits(limits));
            let options = options.shutdown_timeouts(ShutdownTimeouts::uniform(Duration::from_secs(2)));
            let client = options.spawn(odd_server("never-reads")).await.unwrap();
            let large = "x".repeat(10_000_000);
            let error = client.call_tool(&large, &json!({})).await.unwrap_err();
            assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
            let error = client.call_tool(&large, &json!({})).await.unwrap_err();
            assert!(matches!(error, Error::Use(UseError::Full(Limit::OutboxHighWater))), "{error:?}");
            assert_eq!(client.close().await.unwrap().unwrap().stage, ShutdownStage::Terminated);
        });
    });
}

// covers: BASE-041
#[test]
fn large_messages_pass_in_both_directions() {
    with_timeout(|| {
        let large = "0123456789".repeat(300_000);
        block_on(async {
            let (client, server) = pair(Era::Modern, tool_handler(mpsc::channel().0)).await;
            let calls = [0; 3]
                .map(|_| client.start_tool("echo", &json!({"text": large}), &CallOptions::new()).unwrap());
            for call in calls {
                let result = call.await.unwrap();
                assert!(text(&result.parse().unwrap()) == large);
            }
            client.close().await.unwrap();
            server.join().unwrap().unwrap();
            let client = Client::spawn(Program::new(example(EXAMPLE))).await.unwrap();
            assert!(text(&client.call_tool("echo", &json!({"text": large})).await.unwrap()) == large);
            client.close().await.unwrap();
        });
    });
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn close_leaves_no_process_of_server() {
    with_timeout(|| {
        // A server that ignores SIGTERM.
        let client =
            block_on(short_timeouts().spawn(odd_server_after("trap '' TERM;", "ignores-eof"))).unwrap();
        assert_eq!(text(&block_on(client.call_tool("any", &json!({}))).unwrap()), "ok");
        let ended = block_on(client.close()).unwrap().unwrap();
        assert_eq!(ended.stage, ShutdownStage::Killed, "{ended}");
        // A server that leaves a process of its group behind.
        let client = block_on(short_timeouts().spawn(odd_server_after("sleep 86399.2 &", "banner"))).unwrap();
        assert_eq!(text(&block_on(client.call_tool("any", &json!({}))).unwrap()), "ok");
        let ended = block_on(client.close()).unwrap().unwrap();
        assert!(ended.had_stragglers && ended.status.unwrap().success(), "{ended:?}");
        assert_eq!(command_lines_with("86399.2"), Vec::<String>::new());
    });
}
