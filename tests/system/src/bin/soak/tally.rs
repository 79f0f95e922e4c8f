//! Records of the server about its calls.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Diagnostic, RawJson, RpcError};
use serde::{Deserialize, Serialize};

use crate::memory;

/// Arguments of the tool `work`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WorkArguments {
    pub(crate) number: usize,
    pub(crate) micros: u64,
}

/// Arguments of the tool `tally`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct NoArguments {}

/// Result of the tool `tally`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerReport {
    /// Number of handlers that began.
    pub(crate) begun: usize,
    /// Number of handlers that still run.
    pub(crate) running: usize,
    /// The first problems.
    pub(crate) problems: Vec<String>,
    /// Resident memory in KiB.
    pub(crate) resident: i64,
}

/// Record of the begun calls, shared by all handlers.
#[derive(Clone, Debug)]
pub(crate) struct ServerTally(Arc<TallyState>);

#[derive(Debug)]
struct TallyState {
    /// Whether each call has not begun, by number.
    not_begun: Mutex<Vec<bool>>,
    begun: AtomicUsize,
    running: AtomicUsize,
    problems: Mutex<Vec<String>>,
}

/// Guard of a running handler, which ends when it is dropped for any reason.
#[derive(Debug)]
pub(crate) struct RunningGuard(Arc<TallyState>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerTally {
    pub(crate) fn new(calls: usize) -> Self {
        let (not_begun, problems) = (Mutex::new(vec![true; calls]), Mutex::new(Vec::new()));
        Self(Arc::new(TallyState {
            not_begun,
            begun: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            problems,
        }))
    }

    /// Records the begin of a handler.
    pub(crate) fn begin(&self, work: WorkArguments) -> Result<RunningGuard, RpcError> {
        let mut not_begun = self.0.not_begun.lock().unwrap_or_else(PoisonError::into_inner);
        let slot =
            not_begun.get_mut(work.number).ok_or_else(|| RpcError::invalid_params("unknown number"))?;
        if !core::mem::take(slot) {
            self.add_problem(format!("call {} ran twice", work.number));
        }
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.running.fetch_add(1, Ordering::Relaxed);
        Ok(RunningGuard(Arc::clone(&self.0)))
    }

    /// Records a diagnostic. A cancellation that crosses the response is expected; all others are problems.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic) {
        if !matches!(diagnostic, Diagnostic::UnknownCancellation(_) | Diagnostic::EarlyCancellation(_)) {
            self.add_problem(diagnostic.to_string());
        }
    }

    fn add_problem(&self, problem: String) {
        let mut problems = self.0.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < 10 {
            problems.push(problem);
        }
    }

    pub(crate) fn report_result(&self) -> Result<CallToolResult<'static>, RpcError> {
        let problems = self.0.problems.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let load = |n: &AtomicUsize| n.load(Ordering::Relaxed);
        let (begun, running) = (load(&self.0.begun), load(&self.0.running));
        structured_result(&ServerReport { begun, running, problems, resident: memory::resident() })
    }
}

/// Returns the result of the tool `work`: its own arguments.
pub(crate) fn work_result(work: WorkArguments) -> Result<CallToolResult<'static>, RpcError> {
    structured_result(&work)
}

fn structured_result<T: Serialize>(value: &T) -> Result<CallToolResult<'static>, RpcError> {
    let value = RawJson::encode(value).map_err(|error| RpcError::internal(error.to_string()))?;
    Ok(CallToolResult::structured(value))
}

pub(crate) fn tools() -> ListToolsResult {
    let schema = || RawJson::new(r#"{"type":"object"}"#).expect("a constant");
    ListToolsResult::new(vec![Tool::new("work", schema()), Tool::new("tally", schema())])
}

pub(crate) fn config() -> Config {
    Config::new("soak", "1.0").capabilities(Capabilities::new().with(Capability::Tools))
}
