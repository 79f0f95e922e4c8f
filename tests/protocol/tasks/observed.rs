//! Observers of calls that become tasks, and of requests about tasks.

use alloc::sync::Arc;

use mcp_proto::RpcError;
use mcp_proto::server::CancelReason;

use super::*;
use crate::protocol::recorder::Recorder;

fn observed(is_legacy: bool) -> (ServerHarness, Recorder) {
    let recorder = Recorder::default();
    let config = config().observer(Arc::new(recorder.clone()));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    let now = harness.now;
    harness.pipe.engine().set_tasks(now, table());
    if is_legacy {
        harness.open_session_with(LEGACY, &json!({"elicitation": {}}));
    }
    recorder.take();
    recorder.sizes.lock().expect("no panic").clear();
    (harness, recorder)
}

// covers: TASK-009, TASK-108
#[test]
fn call_ends_for_the_observer_when_its_task_is_created() {
    for is_legacy in [true, false] {
        let (mut harness, recorder) = observed(is_legacy);
        for id in [1, 2] {
            let request = if is_legacy { legacy_call(id) } else { modern_call(id) };
            let call = harness.expect_call_for(&request);
            assert!(call.caller().observation().is_some());
            let now = harness.now;
            harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
            drop(call);
            harness.pump();
            let answer = harness.expect_reply();
            let lines = recorder.take();
            assert!(lines[0].starts_with("<tools/call dredge 202"), "{lines:?}");
            assert_eq!(lines[1..], ["<tools/call dredge = ok"]);
            let sizes = core::mem::take(&mut *recorder.sizes.lock().expect("no panic"));
            assert_eq!(sizes, [(request.to_string().len(), answer.to_string().len())]);
            let run = harness.expect_call();
            assert!(run.caller().observation().is_none(), "the run is no request");
            complete(&mut harness, &run, &dredged());
            drop(harness.take_sent());
            assert_eq!(recorder.take(), [""; 0]);
        }
    }
}

// covers: TASK-019, TASK-020, TASK-028
#[test]
fn requests_about_tasks_end_for_the_observer_with_their_own_answers() {
    let (mut harness, recorder) = observed(true);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    recorder.take();
    // The result is waited for, until another request cancels the task.
    harness.feed_message(&task_request(2, "tasks/result", &id));
    harness.assert_idle();
    assert_eq!(recorder.take(), [format!("<tasks/result {id} 2025-11-25 -")]);
    harness.feed_message(&task_request(3, "tasks/cancel", &id));
    drop(harness.take_sent());
    assert_eq!(harness.expect_cancelled(&run), CancelReason::Client(None));
    let ok = |method: &str| format!("<{method} {id} = ok");
    assert_eq!(
        recorder.take(),
        [
            format!("<tasks/cancel {id} 2025-11-25 -"),
            format!("<tasks/result {id} = the task was cancelled (code -32603)"),
            ok("tasks/cancel"),
        ]
    );
    // What the engine answers at once.
    harness.feed_message(&task_request(4, "tasks/get", &id));
    harness.feed_message(&task_request(5, "tasks/get", "no-such-task"));
    drop(harness.take_sent());
    let lines = recorder.take();
    assert_eq!(lines[1], ok("tasks/get"));
    assert!(lines[3].starts_with("<tasks/get no-such-task = ") && lines[3].contains("-32602"), "{lines:?}");
    // The error of a task is that of the request for its result.
    let (id, run) = begin(&mut harness, &legacy_call(6));
    let now = harness.now;
    harness.pipe.engine().fail(now, run.id(), &RpcError::new(7, "pump broke")).expect("open");
    harness.pump();
    drop(harness.take_sent());
    recorder.take();
    harness.feed_message(&task_request(7, "tasks/result", &id));
    assert_eq!(harness.expect_reply()["error"]["code"], 7);
    assert_eq!(recorder.take()[1], format!("<tasks/result {id} = pump broke (code 7)"));
}
