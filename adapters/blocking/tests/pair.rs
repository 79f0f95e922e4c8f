//! Client and server of this package, in two threads, in both eras

extern crate alloc;

#[path = "shared/pair.rs"]
mod shared;
mod support;

use core::time::Duration;

use mcp_blocking::Error;
use mcp_proto::{CallKey, CallOptions, UseError};
use serde_json::json;
use support::{DEADLINE, ERAS, Tools, in_time, pair, raw_text};

mod adapter {
    pub(crate) use crate::support::pair;
}

// covers: BASE-033, STDIO-010
#[test]
fn calls_that_come_while_a_handler_runs_are_answered_after_it() {
    in_time(|| {
        for era in ERAS {
            let (tools, told) = Tools::new();
            let (mut client, server) = pair(era, 1 << 10, tools);
            let endless = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            told.recv_timeout(DEADLINE).unwrap();
            // More than fits the pipe, so the handler's waiting has to read it.
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
            // Fetched in another order than they come in.
            for (n, call) in calls.iter().enumerate().rev().filter(|(n, _)| *n != 7) {
                assert_eq!(raw_text(&client.wait(*call).unwrap()), format!("{n}{long}"));
            }
            assert!(matches!(client.wait(calls[0]), Err(Error::Use(UseError::Stale))));
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}
