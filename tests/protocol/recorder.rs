//! An observer that records requests.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use mcp_proto::Version;
use mcp_proto::observe::{
    Direction, Observation, Observer, RequestEnd, RequestOutcome, RequestStart, SessionEnd, TraceContext,
};

/// Records what it is told, a line each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    pub(crate) sessions: Arc<Mutex<Vec<SessionEnd>>>,
    /// Trace context of each request that is sent.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) is_disabled: Arc<AtomicBool>,
    /// Bytes of the request and of the response, of each that has ended.
    pub(crate) sizes: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Recorder {
    pub(crate) fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.lines.lock().expect("no panic"))
    }

    fn push(&self, line: String) {
        self.lines.lock().expect("no panic").push(line);
    }
}

#[derive(Debug)]
struct Recorded {
    name: String,
    recorder: Recorder,
    ended: Mutex<bool>,
}

impl Observer for Recorder {
    fn is_enabled(&self) -> bool {
        !self.is_disabled.load(Ordering::Relaxed)
    }

    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        assert!(self.is_enabled(), "asked although it is disabled");
        if request.method == "unobserved" {
            return None;
        }
        let sign = if request.direction == Direction::In { "<" } else { ">" };
        let subject = request.subject.as_deref().map_or(String::new(), |subject| format!(" {subject}"));
        let version = request.version.map_or("?", Version::as_str);
        let parent = request.parent.as_ref().and_then(|parent| parent.traceparent.as_deref());
        let parent = parent.unwrap_or("-");
        let name = format!("{sign}{}{subject}", request.method);
        self.push(format!("{name} {version} {parent}"));
        Some(Arc::new(Recorded { name, recorder: self.clone(), ended: Mutex::new(false) }))
    }

    fn session_ended(&self, session: &SessionEnd) {
        self.sessions.lock().expect("no panic").push(session.clone());
    }
}

impl Observation for Recorded {
    fn trace_context(&self) -> Option<TraceContext> {
        self.recorder.trace.clone()
    }

    fn end(&self, end: &RequestEnd<'_>) {
        assert!(!core::mem::replace(&mut *self.ended.lock().expect("no panic"), true), "ended twice");
        let outcome = match end.outcome {
            RequestOutcome::Success => "ok".to_owned(),
            RequestOutcome::ToolError => "tool error".to_owned(),
            RequestOutcome::Failed(error) => format!("{error}"),
            other => panic!("{other:?}"),
        };
        let answered = if end.response_bytes == 0 { " without answer" } else { "" };
        assert!(end.request_bytes > 20, "{end:?}");
        self.recorder.sizes.lock().expect("no panic").push((end.request_bytes, end.response_bytes));
        self.recorder.push(format!("{} = {outcome}{answered}", self.name));
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !*self.ended.lock().expect("no panic") {
            self.recorder.push(format!("{} dropped", self.name));
        }
    }
}
