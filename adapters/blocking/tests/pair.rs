//! A client and a server of `mcp-blocking`, in two threads, in both eras.

use core::time::Duration;

pub(crate) use crate::support::pair;
use crate::support::{DEADLINE, ERAS, Tools, raw_text, with_timeout};
use mcp_blocking::Error;
use mcp_proto::{CallKey, CallOptions, UseError};
use serde_json::json;

// covers: BASE-033, STDIO-010
#[test]
fn calls_during_handler_are_answered_after_it() {
    with_timeout(|| {
        for era in ERAS {
            let (tools, events) = Tools::new();
            let (client, server) = pair(era, 1 << 10, tools);
            let endless = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            events.recv_timeout(DEADLINE).unwrap();
            // More than the pipe holds, so the waiting handler has to read it.
            let long = "x".repeat(1_000);
            let calls: Vec<CallKey> = (0..50)
                .map(|n| {
                    client
                        .start_tool("echo", &json!({"text": format!("{n}{long}")}), &CallOptions::new())
                        .unwrap()
                })
                .collect();
            assert!(client.wait_timeout(calls[0], Duration::from_millis(20)).unwrap().is_none());
            client.cancel(calls[7], None).unwrap();
            client.cancel(endless, None).unwrap();
            // Results are fetched in reverse order.
            for (n, call) in calls.iter().enumerate().rev().filter(|(n, _)| *n != 7) {
                assert_eq!(raw_text(&client.wait(*call).unwrap()), format!("{n}{long}"));
            }
            assert!(matches!(client.wait(calls[0]), Err(Error::Use(UseError::Stale))));
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}
