//! Suite: a server that reads scripted bytes.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use mcp_proto::model::CallToolResult;
use mcp_proto::{Diagnostic, Limits, Progress, RawJson, RpcError};

use crate::adapter::{
    Answered, Call, Cx, Error, HANDLERS_OVERLAP, handler, handler_fn, impl_handler, serve_handler,
    sleep_until_cancelled, wait, yield_now,
};
use crate::support::{
    DEADLINE, INITIALIZE, ScriptedStream, call_line, response_ids, server_config, with_timeout,
};

handler_fn! {
    /// Answers, after a sleep or progress reports if the name of the tool asks for them.
    pub(crate) fn answer(cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
        match &*call.tool_call()?.name {
            "slow" => thread::sleep(Duration::from_millis(30)),
            "sleeps" => wait!(cx.sleep(Duration::from_millis(20)))?,
            "waits" => wait!(sleep_until_cancelled(cx))?,
            "looks" => cx.checkpoint()?,
            // The prefix of this key is reserved for the protocol.
            "boasts" => {
                let result = r#"{"content":[],"_meta":{"io.modelcontextprotocol/mine":1}}"#;
                return cx.complete_raw(&RawJson::new(result).unwrap());
            }
            "reports" => {
                for n in 0..100 {
                    cx.progress(Progress::new(n.into()))?;
                    wait!(yield_now());
                }
            }
            _ => {}
        }
        cx.complete(&CallToolResult::text("ok"))
    }
}

fn serve_script(limits: Limits, script: &ScriptedStream) -> Result<(), Error> {
    let handler = handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call)));
    serve_handler(server_config().limits(limits), script.clone(), handler)
}

// covers: STDIO-021
#[test]
fn server_answers_requests_before_end_of_input() {
    struct DiagnosticRecorder(Arc<Mutex<Vec<Diagnostic>>>);
    impl_handler! {
        DiagnosticRecorder {
            fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
                wait!(answer(cx, call))
            }
            fn diagnostic(&self, diagnostic: &Diagnostic) {
                self.0.lock().unwrap().push(diagnostic.clone());
            }
        }
    }
    with_timeout(|| {
        // `printf … | server` provides it in pieces or at once, with or without the last newline.
        let (tool, ids) = if HANDLERS_OVERLAP { ("sleeps", [0, 2, 1]) } else { ("any", [0, 1, 2]) };
        let input = format!("{INITIALIZE}{}{}", call_line(1, tool), call_line(2, "looks"));
        for size in [1, 5, 100, 10_000] {
            let script = ScriptedStream::new(input.as_bytes().chunks(size));
            serve_script(Limits::default(), &script).unwrap();
            assert_eq!(response_ids(&script.written()), ids);
        }
        let cut = call_line(2, "any");
        let input = format!("{INITIALIZE}{}not JSON\n\n{}", call_line(1, "any"), cut.trim_end());
        let script = ScriptedStream::new([input.as_bytes()]);
        let diagnostics = Arc::<Mutex<Vec<_>>>::default();
        serve_handler(server_config(), script.clone(), DiagnosticRecorder(diagnostics.clone())).unwrap();
        assert_eq!(response_ids(&script.written()), [0, 1], "an incomplete message is not answered");
        let diagnostics = diagnostics.lock().unwrap();
        let first = diagnostics.first();
        let expected = matches!(first, Some(Diagnostic::Malformed { .. } | Diagnostic::Noise { .. }));
        assert!(expected, "{diagnostics:?}");
    });
}

#[test]
fn requests_read_together_are_answered_in_one_write() {
    with_timeout(|| {
        let batch: String = (1..=64).map(|id| call_line(id, "any")).collect();
        let serve = || {
            let script = ScriptedStream::new([INITIALIZE.as_bytes(), batch.as_bytes(), batch.as_bytes()]);
            serve_script(Limits::default(), &script).unwrap();
            script
        };
        // One for the handshake, and few more. Where something else runs meanwhile, handlers look slow, which splits writes.
        let script = (0..50).map(|_| serve()).find(|script| script.writes().len() <= 6);
        let script = script.expect("few writes, once in fifty times");
        assert_eq!(response_ids(&script.written()).len(), 129);
        // One wait for each read, and no others. Asynchronous streams have none.
        assert_eq!(script.wait_count(), if HANDLERS_OVERLAP { 0 } else { 4 });
    });
}

// covers: PROG-005, PROG-010, PROG-011, PROG-013
#[test]
fn progress_precedes_answer_at_limited_rate() {
    with_timeout(|| {
        let script = ScriptedStream::new([INITIALIZE.as_bytes(), call_line(1, "reports").as_bytes()]);
        serve_script(Limits::default(), &script).unwrap();
        let written = script.written();
        let lines: Vec<&str> = written.lines().skip(1).collect();
        let (answer, progress) = lines.split_last().unwrap();
        assert!(answer.contains("\"id\":1,\"result\""));
        // The burst, and what a slow machine has time for.
        let least = if HANDLERS_OVERLAP { 1 } else { 10 };
        assert!((least..50).contains(&progress.len()), "{} reports", progress.len());
        assert!(progress.iter().all(|line| line.contains("notifications/progress")));
        if !HANDLERS_OVERLAP {
            assert!(script.writes().len() > progress.len(), "each report is written when it is made");
        }
    });
}

// covers: STDIO-021
#[test]
fn server_ends_without_error_when_client_disconnects() {
    with_timeout(|| {
        let batch: String = (1..=8).map(|id| call_line(id, "any")).collect();
        for room in [0, 1, 200, 500] {
            let script = ScriptedStream::new([
                INITIALIZE.as_bytes(),
                batch.as_bytes(),
                call_line(9, "waits").as_bytes(),
            ])
            .with_write_limit(room);
            serve_script(Limits::default(), &script).unwrap();
            assert_eq!(script.written().len(), room);
        }
    });
}

// covers: STDIO-021
#[test]
fn waiting_handler_ends_after_grace_period_of_input_end() {
    with_timeout(|| {
        let mut limits = Limits::default();
        limits.eof_grace_period = Duration::from_millis(20);
        let script = ScriptedStream::new([INITIALIZE.as_bytes(), call_line(1, "waits").as_bytes()]);
        let begun = Instant::now();
        serve_script(limits, &script).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(begun.elapsed() < DEADLINE);
        assert_eq!(response_ids(&script.written()), [0]);
    });
}

#[test]
fn too_many_faulty_messages_close_connection() {
    with_timeout(|| {
        let mut limits = Limits::default();
        limits.max_faulty_messages = Some(3);
        let script = ScriptedStream::new(["{}\n{}\n{}\n{}\n".as_bytes()]);
        let error = serve_script(limits, &script).unwrap_err();
        assert!(matches!(error, Error::Closed(_)), "{error:?}");
        assert!(error.to_string().contains("3 faulty messages in a row"), "{error}");
    });
}

// covers: BATCH-001
#[test]
fn batch_is_answered_as_one_array() {
    with_timeout(|| {
        let opening = INITIALIZE.replace("2025-11-25", "2025-03-26");
        // A member that waits must not split the batch.
        let last = if HANDLERS_OVERLAP { "sleeps" } else { "looks" };
        let members = [call_line(1, "reports"), call_line(2, "any"), call_line(3, last)]
            .map(|call| call.trim_end().to_owned());
        let batch = format!("[{}]\n", members.join(","));
        let script =
            ScriptedStream::new([opening.as_bytes(), batch.as_bytes(), call_line(4, "any").as_bytes()]);
        serve_script(Limits::default(), &script).unwrap();
        let written = script.written();
        let answers = written.lines().find(|line| line.starts_with('[')).expect("one answer");
        let answers: Vec<serde_json::Value> = serde_json::from_str(answers).unwrap();
        assert_eq!(answers.len(), 3);
        assert!(written.contains("\"id\":4"));
        if !HANDLERS_OVERLAP {
            assert!(written.ends_with("}\n"));
        }
    });
}
