//! Observers of calls that become tasks.

use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::observe::{Observation, Observer, RequestEnd, RequestOutcome, RequestStart};

use super::*;

/// Records how requests end, a line each.
#[derive(Clone, Debug, Default)]
struct Ends(Arc<Mutex<Vec<String>>>);

impl Ends {
    fn push(&self, line: String) {
        self.0.lock().expect("no panic").push(line);
    }

    fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

#[derive(Debug)]
struct Observed(String, Ends, Mutex<bool>);

impl Observer for Ends {
    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        Some(Arc::new(Observed(request.method.to_owned(), self.clone(), Mutex::new(false))))
    }
}

impl Observation for Observed {
    fn end(&self, end: &RequestEnd<'_>) {
        assert!(!core::mem::replace(&mut *self.2.lock().expect("no panic"), true), "ended twice");
        assert!(matches!(end.outcome, RequestOutcome::Success), "{end:?}");
        self.1.push(format!("{} {}", self.0, end.response_bytes));
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if !*self.2.lock().expect("no panic") {
            self.1.push(format!("{} dropped", self.0));
        }
    }
}

// covers: TASK-009, TASK-108
#[test]
fn call_ends_for_the_observer_when_its_task_is_created() {
    for is_legacy in [true, false] {
        let ends = Ends::default();
        let config = config().observer(Arc::new(ends.clone()));
        let mut harness = ServerHarness::server(config, Chunker::Whole);
        let now = harness.now;
        harness.pipe.engine().set_tasks(now, table());
        if is_legacy {
            harness.open_session_with(LEGACY, &json!({"elicitation": {}}));
        }
        ends.take();
        for id in [1, 2] {
            let request = if is_legacy { legacy_call(id) } else { modern_call(id) };
            let call = harness.expect_call_for(&request);
            assert!(call.caller().observation().is_some());
            let now = harness.now;
            harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
            drop(call);
            harness.pump();
            let answer = harness.expect_reply();
            assert_eq!(ends.take(), [format!("tools/call {}", answer.to_string().len())]);
            let run = harness.expect_call();
            assert!(run.caller().observation().is_none(), "the run is no request");
            complete(&mut harness, &run, &dredged());
            drop(harness.take_sent());
            assert_eq!(ends.take(), [""; 0]);
        }
    }
}
