//! A server of `mcp-blocking` that reads bytes: what it reads and writes when, and how it ends.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::support::{
    DEADLINE, INITIALIZE, ScriptedStream, call_line, cancel_line, response_ids, server_config, with_timeout,
};
use crate::wire_suite::answer;
use mcp_blocking::{Answered, Call, Cx, Error, Handler, Server, serve};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Limits, RpcError};
use mcp_std::io::{Duplex, Interest, memory_pair};

#[test]
fn result_with_reserved_key_becomes_error() {
    with_timeout(|| {
        let (near, mut far) = memory_pair(1 << 16);
        far.write(format!("{INITIALIZE}{}{}", call_line(1, "boasts"), call_line(2, "x")).as_bytes()).unwrap();
        far.shutdown_write().unwrap();
        serve(server_config(), near, answer).unwrap();
        let mut buf = [0; 1 << 14];
        let n = far.read(&mut buf).unwrap();
        let written = core::str::from_utf8(&buf[..n]).unwrap();
        assert_eq!(response_ids(written), [0, 1, 2], "{written}");
        assert!(written.contains("\"id\":1,\"error\":{\"code\":-32603"), "{written}");
    });
}

#[test]
fn response_is_written_before_next_slow_handler() {
    with_timeout(|| {
        let batch: String = (1..=4).map(|id| call_line(id, "slow")).collect();
        let script = ScriptedStream::new([INITIALIZE.as_bytes(), batch.as_bytes()]);
        serve(server_config(), script.clone(), answer).unwrap();
        assert_eq!(script.writes().len(), 5, "one write per response");
    });
}

// covers: CANC-010, CANC-011, CANC-013, CANC-014, CANC-020, STDIO-019
#[test]
fn cancellation_is_read_while_handler_waits() {
    with_timeout(|| {
        let pieces = [
            INITIALIZE.to_owned(),
            // Call 3 is cancelled while it waits for call 1, which is then cancelled too.
            call_line(1, "waits") + &call_line(2, "any"),
            call_line(3, "any") + &cancel_line(3),
            cancel_line(1),
            // Cancellations of an answered call and of an unknown one are ignored.
            cancel_line(2) + &cancel_line(77) + &call_line(4, "any"),
        ];
        let script = ScriptedStream::new(pieces.iter().map(String::as_bytes));
        serve(server_config(), script.clone(), answer).unwrap();
        assert_eq!(response_ids(&script.written()), [0, 2, 4]);
    });
}

/// Calls that wait for a handler are bounded. Reading pauses at the limit and resumes when the handler returns.
#[test]
fn flood_during_handler_pauses_reading() {
    with_timeout(|| {
        let (near, mut far) = memory_pair(16 << 10);
        let mut limits = Limits::default();
        limits.max_waiting_requests = 10;
        limits.max_waiting_bytes = 2_000;
        let serving = thread::spawn(move || {
            let mut notifications = 0;
            struct NotificationCounter<'a>(&'a mut u32);
            impl Handler for NotificationCounter<'_> {
                fn call(&mut self, cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
                    cx.sleep(Duration::from_millis(100))?;
                    cx.complete(&CallToolResult::text("ok"))
                }
                fn notification(&mut self, _: &mcp_proto::server::Notification) {
                    *self.0 += 1;
                }
            }
            serve(server_config().limits(limits), near, NotificationCounter(&mut notifications)).unwrap();
            notifications
        });
        let notification =
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mine\",\"params\":{\"x\":1}}\n".repeat(20_000);
        let input = format!("{INITIALIZE}{}{notification}{}", call_line(1, "any"), call_line(2, "any"));
        let (mut out, mut answers, mut buf) = (input.as_bytes(), Vec::new(), vec![0; 4096]);
        loop {
            let ready = far.wait(Interest { read: true, write: !out.is_empty() }, Some(DEADLINE)).unwrap();
            assert!(!ready.is_empty(), "no readiness before the deadline");
            if ready.writable {
                out = &out[far.write(out).unwrap()..];
                if out.is_empty() {
                    far.shutdown_write().unwrap();
                }
            }
            if ready.readable {
                match far.read(&mut buf).unwrap() {
                    0 => break,
                    n => answers.extend_from_slice(&buf[..n]),
                }
            }
        }
        assert_eq!(response_ids(&String::from_utf8(answers).unwrap()), [0, 1, 2]);
        assert_eq!(serving.join().unwrap(), 20_000, "none is lost");
    });
}

#[test]
fn shutdown_abandons_client_that_does_not_read() {
    with_timeout(|| {
        let (near, mut far) = memory_pair(1 << 10);
        let large = "x".repeat(100_000);
        let mut server = Server::new(server_config(), near, |cx: &mut Cx<'_>, _: &Call| {
            cx.complete(&CallToolResult::text(&large))
        });
        far.write(format!("{INITIALIZE}{}", call_line(1, "any")).as_bytes()).unwrap();
        for _ in 0..5 {
            assert!(server.poll(Duration::from_millis(1)).unwrap());
        }
        let begun = Instant::now();
        server.shutdown(Duration::from_millis(20));
        while server.poll(Duration::from_secs(1)).unwrap() {}
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(!server.poll(Duration::ZERO).unwrap(), "the server stays ended");
    });
}

/// Starts a server with so many waiting calls that it has stopped reading.
fn congested_server(grace: Duration) -> (mcp_std::io::MemoryEnd, thread::JoinHandle<Result<(), Error>>) {
    let (near, mut far) = memory_pair(64 << 10);
    let mut limits = Limits::default();
    limits.max_waiting_requests = 10;
    limits.eof_grace_period = grace;
    let serving = thread::spawn(move || serve(server_config().limits(limits), near, answer));
    let calls: String = (1..100).map(|id| call_line(id, "waits")).collect();
    far.write(format!("{INITIALIZE}{calls}").as_bytes()).unwrap();
    // The response to the handshake shows that the server has begun to read.
    assert!(far.wait(Interest::READ, Some(DEADLINE)).unwrap().readable);
    thread::sleep(Duration::from_millis(50));
    (far, serving)
}

// covers: STDIO-021
#[test]
fn disconnect_is_noticed_while_reading_is_paused() {
    with_timeout(|| {
        let begun = Instant::now();
        let (far, serving) = congested_server(DEADLINE * 2);
        drop(far);
        serving.join().unwrap().unwrap();
        assert!(begun.elapsed() < DEADLINE);
        // The client closes only its write direction.
        let (mut far, serving) = congested_server(Duration::from_millis(100));
        far.shutdown_write().unwrap();
        serving.join().unwrap().unwrap();
    });
}

// covers: STDIO-021
#[test]
fn unread_output_is_abandoned_after_end_of_input() {
    with_timeout(|| {
        for outbox_mark in [1_000, 1 << 20] {
            let (near, mut far) = memory_pair(64 << 10);
            let mut limits = Limits::default();
            limits.outbox_high_water = outbox_mark;
            limits.eof_grace_period = Duration::from_millis(100);
            let large = "x".repeat(10_000);
            let calls: String = (1..100).map(|id| call_line(id, "any")).collect();
            far.write(format!("{INITIALIZE}{calls}").as_bytes()).unwrap();
            far.shutdown_write().unwrap();
            serve(server_config().limits(limits), near, |cx: &mut Cx<'_>, _: &Call| {
                cx.complete(&CallToolResult::text(&large))
            })
            .unwrap();
            drop(far);
        }
    });
}
