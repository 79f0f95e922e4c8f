//! Suite: a blocking client and a server in two threads, in both eras.
//!
//! `crate::adapter` names the adapter of the server.

use core::time::Duration;

use mcp_blocking::Error;
use mcp_proto::{CallError, CallOptions, UseError};
use serde_json::json;

use crate::adapter::CANCELLED_BY_CLIENT;
use crate::pair::pair;
use crate::support::{DEADLINE, ERAS, Tools, raw_text, text, with_timeout};

/// Repetitions of ten bytes in a large message, which is more than a socket buffers. Three of them together are less
/// than a client keeps of its open calls: whether the first call has ended when the last one starts is up to the system.
const LARGE_REPEATS: usize = 300_000;

fn rpc_code<T: core::fmt::Debug>(outcome: Result<T, Error>) -> i64 {
    match outcome {
        Err(Error::Call(CallError::Rpc(error))) => error.code,
        other => panic!("no error of the server: {other:?}"),
    }
}

// covers: STDIO-002, BASE-041, STDIO-027, PING-001
#[test]
fn client_and_server_exchange_plain_calls() {
    with_timeout(|| {
        for era in ERAS {
            // A capacity of 7 bytes splits each message.
            for capacity in [7, 64 << 10] {
                let (client, server) = pair(era, capacity, Tools::new().0);
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
                assert!(client.known_era().is_some());
                assert!(client.close().unwrap().is_none());
                server.join().unwrap().unwrap();
            }
        }
    });
}

// covers: PROG-001, PROG-006, PROG-007
#[test]
fn progress_reaches_client_in_order() {
    with_timeout(|| {
        for era in ERAS {
            let (client, server) = pair(era, 1 << 10, Tools::new().0);
            let mut seen = Vec::new();
            let result =
                client.call_tool_with("count", &json!({"steps": 8}), &CallOptions::new(), &mut |progress| {
                    seen.push((progress.progress, progress.total, progress.message.clone()));
                });
            assert_eq!(text(&result.unwrap()), "counted");
            // Reports may be coalesced, but their order holds and the last one is always delivered.
            assert!(!seen.is_empty() && seen.len() <= 8 && seen.is_sorted_by(|a, b| a.0 < b.0), "{seen:?}");
            assert_eq!(seen.last().unwrap(), &(8.0, Some(8.0), Some("step 8".into())));

            // Without a progress callback there is no progress token, so the server sends no reports.
            assert_eq!(text(&client.call_tool("count", &json!({"steps": 100_000})).unwrap()), "counted");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: CANC-002, CANC-010, CANC-012, CANC-020, STDIO-017, STDIO-018, STDIO-019
#[test]
fn running_handler_notices_cancellation() {
    with_timeout(|| {
        for era in ERAS {
            let (tools, events) = Tools::new();
            let (client, server) = pair(era, 1 << 10, tools);
            for tool in ["endless", "stubborn", "endless"] {
                let call = client.start_tool(tool, &json!({}), &CallOptions::new()).unwrap();
                assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
                client.cancel(call, Some("enough")).unwrap();
                assert!(matches!(client.wait(call), Err(Error::Use(UseError::Stale))));
                assert!(matches!(client.cancel(call, None), Err(Error::Use(UseError::Stale))));
                if tool == "endless" {
                    assert_eq!(events.recv_timeout(DEADLINE).unwrap(), CANCELLED_BY_CLIENT);
                }
                // The next response belongs to the next call.
                assert_eq!(text(&client.call_tool("echo", &json!({"text": "next"})).unwrap()), "next");
            }
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: TIME-001, TIME-002, TIME-003, TIME-004
#[test]
fn call_timeout_cancels_handler() {
    with_timeout(|| {
        for era in ERAS {
            let (tools, events) = Tools::new();
            let (client, server) = pair(era, 1 << 10, tools);
            let options = CallOptions::new().timeout(Duration::from_millis(50));
            let error = client.call_tool_with("endless", &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
            assert!(error.to_string().contains("no answer in time"), "{error}");
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), CANCELLED_BY_CLIENT, "the server is notified");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: ERR-019
#[test]
fn failing_handler_fails_only_its_call() {
    with_timeout(|| {
        for era in ERAS {
            let (tools, events) = Tools::new();
            let (client, server) = pair(era, 1 << 10, tools);
            for (tool, reason) in [("panics", "on purpose"), ("unwritable", "the secret reason")] {
                match client.call_tool(tool, &json!({})) {
                    Err(Error::Call(CallError::Rpc(error))) => {
                        assert_eq!(error.code, -32603);
                        assert!(!error.message.contains(reason), "the reason is revealed: {error}");
                    }
                    other => panic!("{other:?}"),
                }
                assert!(events.recv_timeout(DEADLINE).unwrap().contains(reason));
            }
            // Each call gets one response, the first.
            for (tool, answer) in [
                ("answers and panics", "answered"),
                ("answers and errs", "answered"),
                ("answers twice", "first"),
            ] {
                assert_eq!(text(&client.call_tool(tool, &json!({})).unwrap()), answer);
            }
            client.notify("notifications/mine", Some(&json!({"x": 1}))).unwrap();
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "alive"})).unwrap()), "alive");
            assert!(events.iter().any(|event| event == "notifications/mine"));
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: BASE-041
#[test]
fn large_messages_pass_in_both_directions() {
    with_timeout(|| {
        for era in ERAS {
            let (client, server) = pair(era, 4 << 10, Tools::new().0);
            let large = "0123456789".repeat(LARGE_REPEATS);
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
