//! A blocking client and a server of this package, in two threads, in both eras

#![cfg(unix)]

extern crate alloc;

mod support;

use core::time::Duration;

use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use async_io::Async;
use mcp_blocking::{Client, Error};
use mcp_proto::Era;
use mcp_proto::{CallError, CallOptions, UseError};
use mcp_std::Socket;
use serde_json::json;
use support::{DEADLINE, ERAS, Tools, in_time, only, raw_text, server, speaks, text};

/// A client and a server of one era
fn pair(era: Era, handler: Tools) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = UnixStream::pair().unwrap();
    let near = Async::new(near).unwrap();
    let server = thread::spawn(move || async_io::block_on(mcp_smol::serve(server(), near, handler)));
    let client = Client::connect(speaks(only(era)), Socket::unix(far).unwrap()).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}

fn rpc_code<T: core::fmt::Debug>(outcome: Result<T, Error>) -> i64 {
    match outcome {
        Err(Error::Call(CallError::Rpc(error))) => error.code,
        other => panic!("no error of the server: {other:?}"),
    }
}

// covers: STDIO-002, BASE-041, STDIO-027, PING-001
#[test]
fn plain_calls() {
    in_time(|| {
        for era in ERAS {
            {
                let (mut client, server) = pair(era, Tools::new().0);
                assert_eq!(client.list_tools().unwrap().len(), 1);
                assert_eq!(
                    text(&client.call_tool("echo", &json!({"text": "hi \u{1f44b}\n"})).unwrap()),
                    "hi \u{1f44b}\n"
                );
                assert_eq!(text(&client.call_tool("raw", &json!({"text": "raw"})).unwrap()), "raw");
                assert_eq!(text(&client.call_tool("who", &json!({})).unwrap()), "test");
                assert_eq!(rpc_code(client.call_tool("nonsense", &json!({}))), -32602);
                assert_eq!(rpc_code(client.call_tool("echo", &json!({"text": 1}))), -32602);
                assert!(client.ping().unwrap() < DEADLINE);
                assert!(client.verdict().is_some());
                assert!(client.close().unwrap().is_none());
                server.join().unwrap().unwrap();
            }
        }
    });
}

// covers: PROG-001, PROG-006, PROG-007
#[test]
fn progress_is_told() {
    in_time(|| {
        for era in ERAS {
            let (mut client, server) = pair(era, Tools::new().0);
            let mut seen = Vec::new();
            let result =
                client.call_tool_with("count", &json!({"steps": 8}), &CallOptions::new(), &mut |progress| {
                    seen.push((progress.progress, progress.total, progress.message.clone()));
                });
            assert_eq!(text(&result.unwrap()), "counted");
            // Some may be told as one, but the order holds, and the last one stands for all.
            assert!(!seen.is_empty() && seen.len() <= 8 && seen.is_sorted_by(|a, b| a.0 < b.0), "{seen:?}");
            assert_eq!(seen.last().unwrap(), &(8.0, Some(8.0), Some("step 8".into())));

            // Nobody asked, so nothing is sent.
            assert_eq!(text(&client.call_tool("count", &json!({"steps": 100_000})).unwrap()), "counted");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: CANC-002, CANC-010, CANC-012, CANC-020, STDIO-017, STDIO-018, STDIO-019
#[test]
fn the_handler_of_a_cancelled_call_is_dropped() {
    in_time(|| {
        for era in ERAS {
            let (tools, told) = Tools::new();
            let (mut client, server) = pair(era, tools);
            for tool in ["endless", "endless"] {
                let call = client.start_tool(tool, &json!({}), &CallOptions::new()).unwrap();
                assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
                client.cancel(call, Some("enough")).unwrap();
                assert!(matches!(client.wait(call), Err(Error::Use(UseError::Stale))));
                assert!(matches!(client.cancel(call, None), Err(Error::Use(UseError::Stale))));
                assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "dropped");
                // The next answer is that of the next call.
                assert_eq!(text(&client.call_tool("echo", &json!({"text": "next"})).unwrap()), "next");
            }
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: TIME-001, TIME-002, TIME-003, TIME-004
#[test]
fn a_call_that_takes_too_long_is_cancelled() {
    in_time(|| {
        for era in ERAS {
            let (tools, told) = Tools::new();
            let (mut client, server) = pair(era, tools);
            let options = CallOptions::new().timeout(Duration::from_millis(50));
            let error = client.call_tool_with("endless", &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
            assert!(error.to_string().contains("no answer in time"), "{error}");
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "dropped", "the server was told");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: ERR-019
#[test]
fn a_handler_that_fails_breaks_nothing_else() {
    in_time(|| {
        for era in ERAS {
            let (tools, told) = Tools::new();
            let (mut client, server) = pair(era, tools);
            for (tool, reason) in [("panics", "on purpose"), ("unwritable", "the secret reason")] {
                match client.call_tool(tool, &json!({})) {
                    Err(Error::Call(CallError::Rpc(error))) => {
                        assert_eq!(error.code, -32603);
                        assert!(!error.message.contains(reason), "said too much: {error}");
                    }
                    other => panic!("{other:?}"),
                }
                assert!(told.recv_timeout(DEADLINE).unwrap().contains(reason));
            }
            // One answer each, and it is the first one.
            for (tool, answer) in [
                ("answers and panics", "answered"),
                ("answers and errs", "answered"),
                ("answers twice", "first"),
            ] {
                assert_eq!(text(&client.call_tool(tool, &json!({})).unwrap()), answer);
            }
            client.notify("notifications/mine", Some(&json!({"x": 1}))).unwrap();
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "alive"})).unwrap()), "alive");
            assert!(told.iter().any(|news| news == "notifications/mine"));
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: BASE-041
#[test]
fn full_pipes_both_ways() {
    in_time(|| {
        for era in ERAS {
            let (mut client, server) = pair(era, Tools::new().0);
            let large = "0123456789".repeat(1_000_000);
            let calls = [0; 3]
                .map(|_| client.start_tool("echo", &json!({"text": large}), &CallOptions::new()).unwrap());
            for call in calls {
                assert!(raw_text(&client.wait(call).unwrap()) == large);
            }
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}
