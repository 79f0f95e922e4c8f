//! The server against bytes: what is read and written when, and how it ends

extern crate alloc;

mod support;

use core::time::Duration;
use std::thread;
use std::time::Instant;

use mcp_blocking::{Answered, Call, Cx, Error, Handler, Server, serve};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Diagnostic, Limits, Progress, RpcError};
use mcp_std::{Duplex, Interest, memory_pair};
use support::{DEADLINE, Script, in_time, server};

const OPENING: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
                       \"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n\
                       {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

fn call(id: u32, tool: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"_meta\":{{\"progressToken\":{id}}}}}}}\n"
    )
}

fn cancel(id: u32) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
    )
}

/// The ids of the answers, in order
fn ids(written: &str) -> Vec<i64> {
    let ids =
        written.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_i64());
    ids.flatten().collect()
}

/// Answers at once, or does what the name of the tool says before
fn handler(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
    match &*call.tool()?.name {
        "slow" => thread::sleep(Duration::from_millis(30)),
        "waits" => cx.sleep(DEADLINE * 2)?,
        "looks" => cx.checkpoint()?,
        // What only the protocol may say.
        "boasts" => {
            let result = r#"{"content":[],"_meta":{"io.modelcontextprotocol/mine":1}}"#;
            return cx.complete_raw(&mcp_proto::RawJson::new(result).unwrap());
        }
        "reports" => {
            for n in 0..100 {
                cx.progress(Progress::new(n.into()))?;
            }
        }
        _ => {}
    }
    cx.complete(&CallToolResult::text("ok"))
}

#[test]
fn a_result_that_may_not_be_sent_is_answered_with_an_error() {
    in_time(|| {
        let (near, mut far) = memory_pair(1 << 16);
        far.write(format!("{OPENING}{}{}", call(1, "boasts"), call(2, "x")).as_bytes()).unwrap();
        far.shutdown_write().unwrap();
        serve(server(), near, handler).unwrap();
        let mut buf = [0; 1 << 14];
        let n = far.read(&mut buf).unwrap();
        let written = core::str::from_utf8(&buf[..n]).unwrap();
        assert_eq!(ids(written), [0, 1, 2], "{written}");
        assert!(written.contains("\"id\":1,\"error\":{\"code\":-32603"), "{written}");
    });
}

// covers: STDIO-021
#[test]
fn what_came_before_the_end_of_input_is_answered() {
    in_time(|| {
        // As `printf … | server` gives it: in pieces or at once, with or without the last newline.
        let input = format!("{OPENING}{}{}", call(1, "any"), call(2, "looks"));
        for size in [1, 5, 100, 10_000] {
            let script = Script::new(input.as_bytes().chunks(size));
            serve(server(), script.clone(), handler).unwrap();
            assert_eq!(ids(&script.written()), [0, 1, 2]);
        }
        struct Notes<'a>(&'a mut Vec<Diagnostic>);
        impl Handler for Notes<'_> {
            fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
                handler(cx, call)
            }
            fn diagnostic(&mut self, diagnostic: &Diagnostic) {
                self.0.push(diagnostic.clone());
            }
        }
        let cut = call(2, "any");
        let input = format!("{OPENING}{}not JSON\n\n{}", call(1, "any"), cut.trim_end());
        let script = Script::new([input.as_bytes()]);
        let mut odd = Vec::new();
        serve(server(), script.clone(), Notes(&mut odd)).unwrap();
        assert_eq!(ids(&script.written()), [0, 1], "half a message is none");
        assert!(matches!(odd[0], Diagnostic::Malformed { .. } | Diagnostic::Noise { .. }), "{odd:?}");
    });
}

#[test]
fn requests_that_are_read_together_are_answered_in_one_write() {
    in_time(|| {
        let batch: String = (1..=64).map(|id| call(id, "any")).collect();
        let script = Script::new([OPENING.as_bytes(), batch.as_bytes(), batch.as_bytes()]);
        serve(server(), script.clone(), handler).unwrap();
        let writes = script.writes();
        // One for the handshake; the machine may be slow enough to take it for a slow handler, so it may be a few.
        assert!(writes.len() <= 6, "{} writes", writes.len());
        assert_eq!(ids(&script.written()).len(), 129);
        // One wait for each read, and none besides.
        assert_eq!(script.waits(), 4);
    });
}

#[test]
fn an_answer_does_not_wait_for_slow_handlers() {
    in_time(|| {
        let batch: String = (1..=4).map(|id| call(id, "slow")).collect();
        let script = Script::new([OPENING.as_bytes(), batch.as_bytes()]);
        serve(server(), script.clone(), handler).unwrap();
        assert_eq!(script.writes().len(), 5, "each by itself");
    });
}

// covers: CANC-010, CANC-011, CANC-013, CANC-014, CANC-020, STDIO-019
#[test]
fn a_cancellation_is_read_while_the_handler_runs() {
    in_time(|| {
        let pieces = [
            OPENING.to_owned(),
            // The third is cancelled while it waits for the first to end, which is cancelled too.
            call(1, "waits") + &call(2, "any"),
            call(3, "any") + &cancel(3),
            cancel(1),
            // Of what was answered already, and of nothing at all.
            cancel(2) + &cancel(77) + &call(4, "any"),
        ];
        let script = Script::new(pieces.iter().map(String::as_bytes));
        serve(server(), script.clone(), handler).unwrap();
        assert_eq!(ids(&script.written()), [0, 2, 4]);
    });
}

// covers: PROG-005, PROG-010, PROG-011, PROG-013
#[test]
fn progress_leaves_before_the_answer_and_at_a_limited_rate() {
    in_time(|| {
        let script = Script::new([OPENING.as_bytes(), call(1, "reports").as_bytes()]);
        serve(server(), script.clone(), handler).unwrap();
        let written = script.written();
        let lines: Vec<&str> = written.lines().skip(1).collect();
        let (answer, progress) = lines.split_last().unwrap();
        assert!(answer.contains("\"id\":1,\"result\""));
        // The burst, and what a slow machine gives time for.
        assert!((10..50).contains(&progress.len()), "{} reports", progress.len());
        assert!(progress.iter().all(|line| line.contains("notifications/progress")));
        assert!(script.writes().len() > progress.len(), "each report went out when it was made");
    });
}

// covers: STDIO-021
#[test]
fn a_client_that_is_gone_is_no_error() {
    in_time(|| {
        let batch: String = (1..=8).map(|id| call(id, "any")).collect();
        for room in [0, 1, 200, 500] {
            let script =
                Script::new([OPENING.as_bytes(), batch.as_bytes(), call(9, "waits").as_bytes()]).takes(room);
            serve(server(), script.clone(), handler).unwrap();
            assert_eq!(script.written().len(), room);
        }
    });
}

// covers: STDIO-021
#[test]
fn a_handler_that_waits_ends_soon_after_the_input() {
    in_time(|| {
        let mut limits = Limits::default();
        limits.eof_grace = Duration::from_millis(20);
        let script = Script::new([OPENING.as_bytes(), call(1, "waits").as_bytes()]);
        let begun = Instant::now();
        serve(server().limits(limits), script.clone(), handler).unwrap();
        assert!(begun.elapsed() < DEADLINE);
        assert_eq!(ids(&script.written()), [0]);
    });
}

#[test]
fn too_much_garbage_is_an_error_that_says_so() {
    in_time(|| {
        let mut limits = Limits::default();
        limits.max_faulty = Some(3);
        let script = Script::new(["{}\n{}\n{}\n{}\n".as_bytes()]);
        let error = serve(server().limits(limits), script, handler).unwrap_err();
        assert!(matches!(error, Error::Closed(_)), "{error:?}");
        assert!(error.to_string().contains("3 faulty messages in a row"), "{error}");
    });
}

// covers: BATCH-001
#[test]
fn a_batch_is_answered_whole_even_if_a_handler_looks_around_in_it() {
    in_time(|| {
        let opening = OPENING.replace("2025-11-25", "2025-03-26");
        let members =
            [call(1, "reports"), call(2, "any"), call(3, "looks")].map(|call| call.trim_end().to_owned());
        let batch = format!("[{}]\n", members.join(","));
        let script = Script::new([opening.as_bytes(), batch.as_bytes(), call(4, "any").as_bytes()]);
        serve(server(), script.clone(), handler).unwrap();
        let written = script.written();
        let answers = written.lines().find(|line| line.starts_with('[')).expect("one answer");
        let answers: Vec<serde_json::Value> = serde_json::from_str(answers).unwrap();
        assert_eq!(answers.len(), 3);
        assert!(written.ends_with("}\n") && written.contains("\"id\":4"));
    });
}

/// What waits for a handler is bounded: reading pauses, and goes on when it has returned
#[test]
fn a_flood_during_a_handler_pauses_reading() {
    in_time(|| {
        let (near, mut far) = memory_pair(16 << 10);
        let mut limits = Limits::default();
        limits.max_waiting = 10;
        limits.max_waiting_bytes = 2_000;
        let serving = thread::spawn(move || {
            let mut notifications = 0;
            struct Flooded<'a>(&'a mut u32);
            impl Handler for Flooded<'_> {
                fn call(&mut self, cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
                    cx.sleep(Duration::from_millis(100))?;
                    cx.complete(&CallToolResult::text("ok"))
                }
                fn notification(&mut self, _: &mcp_proto::server::Notification) {
                    *self.0 += 1;
                }
            }
            serve(server().limits(limits), near, Flooded(&mut notifications)).unwrap();
            notifications
        });
        let notification =
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mine\",\"params\":{\"x\":1}}\n".repeat(20_000);
        let input = format!("{OPENING}{}{notification}{}", call(1, "any"), call(2, "any"));
        let (mut out, mut answers, mut buf) = (input.as_bytes(), Vec::new(), vec![0; 4096]);
        loop {
            let ready = far.wait(Interest { read: true, write: !out.is_empty() }, Some(DEADLINE)).unwrap();
            assert!(!ready.is_empty(), "hangs");
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
        assert_eq!(ids(&String::from_utf8(answers).unwrap()), [0, 1, 2]);
        assert_eq!(serving.join().unwrap(), 20_000, "none is lost");
    });
}

#[test]
fn a_server_that_is_told_to_stop_does_not_wait_for_a_client_that_does_not_read() {
    in_time(|| {
        let (near, mut far) = memory_pair(1 << 10);
        let large = "x".repeat(100_000);
        let mut server = Server::new(server(), near, |cx: &mut Cx<'_>, _: &Call| {
            cx.complete(&CallToolResult::text(&large))
        });
        far.write(format!("{OPENING}{}", call(1, "any")).as_bytes()).unwrap();
        for _ in 0..5 {
            assert!(server.poll(Duration::from_millis(1)).unwrap());
        }
        server.shutdown(Duration::from_millis(20));
        let begun = Instant::now();
        while server.poll(Duration::from_secs(1)).unwrap() {}
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(!server.poll(Duration::ZERO).unwrap(), "it stays over");
    });
}

/// Calls that wait in greater number than are taken in, so that nothing more is read
fn congested(grace: Duration) -> (mcp_std::MemoryEnd, thread::JoinHandle<Result<(), Error>>) {
    let (near, mut far) = memory_pair(64 << 10);
    let mut limits = Limits::default();
    limits.max_waiting = 10;
    limits.eof_grace = grace;
    let serving = thread::spawn(move || serve(server().limits(limits), near, handler));
    let calls: String = (1..100).map(|id| call(id, "waits")).collect();
    far.write(format!("{OPENING}{calls}").as_bytes()).unwrap();
    // Its answer to the handshake says that it has read something.
    assert!(far.wait(Interest::READ, Some(DEADLINE)).unwrap().readable);
    thread::sleep(Duration::from_millis(50));
    (far, serving)
}

// covers: STDIO-021
#[test]
fn a_client_that_leaves_is_noticed_though_nothing_is_read() {
    in_time(|| {
        let begun = Instant::now();
        let (far, serving) = congested(DEADLINE * 2);
        drop(far);
        serving.join().unwrap().unwrap();
        assert!(begun.elapsed() < DEADLINE);
        // It ends its direction only.
        let (mut far, serving) = congested(Duration::from_millis(100));
        far.shutdown_write().unwrap();
        serving.join().unwrap().unwrap();
    });
}

// covers: STDIO-021
#[test]
fn output_that_nobody_takes_after_the_end_of_input_is_given_up() {
    in_time(|| {
        for outbox_mark in [1_000, 1 << 20] {
            let (near, mut far) = memory_pair(64 << 10);
            let mut limits = Limits::default();
            limits.outbox_mark = outbox_mark;
            limits.eof_grace = Duration::from_millis(100);
            let large = "x".repeat(10_000);
            let calls: String = (1..100).map(|id| call(id, "any")).collect();
            far.write(format!("{OPENING}{calls}").as_bytes()).unwrap();
            far.shutdown_write().unwrap();
            serve(server().limits(limits), near, |cx: &mut Cx<'_>, _: &Call| {
                cx.complete(&CallToolResult::text(&large))
            })
            .unwrap();
            drop(far);
        }
    });
}
