//! Records of the client: one outcome per call, at most one response per request.

use alloc::sync::Arc;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_blocking::ClientHandler;
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{Diagnostic, Limits};
use serde::Deserialize;

use crate::BoxError;
use crate::tally::ServerReport;

/// Outcome of a call at the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SoakOutcome {
    Answered,
    Cancelled,
}

/// Record of all calls, shared by the callers and the tap.
#[derive(Clone, Debug)]
pub(crate) struct CallLedger(Arc<Mutex<LedgerState>>);

#[derive(Debug)]
struct LedgerState {
    /// Whether each call is open, by number.
    open: Vec<bool>,
    answered: usize,
    cancelled: usize,
    /// Sent requests, by id.
    requests: HashMap<u64, ObservedRequest>,
    late: usize,
    server: Option<ServerReport>,
    /// The first problems.
    problems: Vec<String>,
}

/// A sent request.
#[derive(Clone, Copy, Default, Debug)]
struct ObservedRequest {
    answered: bool,
    cancelled: bool,
}

/// Totals of a ledger.
#[derive(Debug)]
pub(crate) struct CallCounts {
    answered: usize,
    cancelled: usize,
    late: usize,
    begun: usize,
}

impl core::fmt::Display for CallCounts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { answered, cancelled, late, begun } = self;
        write!(
            f,
            "{answered} answered, {cancelled} cancelled ({late} answers too late), {begun} handlers ran"
        )
    }
}

impl CallLedger {
    pub(crate) fn new(calls: usize) -> Self {
        // Full capacity from the beginning: growth would look like a leak.
        let requests = HashMap::with_capacity(calls + 1_000);
        let open = vec![true; calls];
        let problems = Vec::new();
        let state =
            LedgerState { open, answered: 0, cancelled: 0, requests, late: 0, server: None, problems };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Records the end of call `number`; returns the number of ended calls.
    pub(crate) fn record_end(&self, number: usize, outcome: SoakOutcome) -> usize {
        let mut state = self.lock();
        if !state.open.get_mut(number).is_some_and(core::mem::take) {
            state.add_problem(format!("call {number} ended twice"));
        }
        match outcome {
            SoakOutcome::Answered => state.answered += 1,
            SoakOutcome::Cancelled => state.cancelled += 1,
        }
        state.answered + state.cancelled
    }

    /// Records the final report of the server.
    pub(crate) fn record_server_report(&self, report: ServerReport) {
        self.lock().server = Some(report);
    }

    /// Returns the handler that observes all messages, under [`tap_limits`].
    pub(crate) fn tap(&self) -> LedgerTap {
        LedgerTap(self.clone())
    }

    pub(crate) fn check(&self) -> Result<CallCounts, BoxError> {
        let mut state = self.lock();
        let open = state.open.iter().filter(|open| **open).count();
        // One whose exchange ended is cancelled without a message (CANC-016).
        let unanswered = state.requests.values().filter(|r| !r.answered || r.cancelled).count();
        let server = state.server.take().ok_or("the server sent no report")?;
        let (answered, cancelled, late, begun) = (state.answered, state.cancelled, state.late, server.begun);
        if open > 0 {
            state.add_problem(format!("{open} calls have no outcome"));
        }
        if unanswered > cancelled {
            let others = unanswered - cancelled;
            state.add_problem(format!("{others} requests have no answer and were not cancelled"));
        }
        if server.running > 0 {
            state.add_problem(format!("{} handlers are still running", server.running));
        }
        // A cancelled call may have been cancelled before its handler began.
        if begun < answered || begun > answered + cancelled {
            state.add_problem(format!(
                "{begun} handlers ran, {answered} were answered, {cancelled} cancelled"
            ));
        }
        server.problems.iter().for_each(|problem| state.add_problem(format!("server: {problem}")));
        if !state.problems.is_empty() {
            return Err(state.problems.join("\n").into());
        }
        Ok(CallCounts { answered, cancelled, late, begun })
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerState {
    fn add_problem(&mut self, problem: String) {
        if self.problems.len() < 10 {
            self.problems.push(problem);
        }
    }

    fn is_cancelled(&self, id: &str) -> bool {
        let request = id.parse().ok().and_then(|id: u64| self.requests.get(&id));
        request.is_some_and(|request| request.cancelled)
    }

    fn record_sent(&mut self, message: &TappedMessage) {
        if let (Some(id), true) = (message.id, message.method) {
            if self.requests.insert(id, ObservedRequest::default()).is_some() {
                self.add_problem(format!("the id {id} was used twice"));
            }
        } else if let Some(TappedParams { request: Some(id) }) = message.params {
            self.requests.entry(id).or_default().cancelled = true;
        }
    }

    fn record_received(&mut self, message: &TappedMessage) {
        let (Some(id), false) = (message.id, message.method) else { return };
        let Some(request) = self.requests.get_mut(&id) else {
            return self.add_problem(format!("a response to {id}, which is not open"));
        };
        if core::mem::replace(&mut request.answered, true) {
            self.add_problem(format!("{id} was answered twice"));
        }
    }
}

/// Returns limits under which the tap shows every message.
pub(crate) fn tap_limits() -> Limits {
    let mut limits = Limits::default();
    limits.tap_records = 10_000;
    limits.tap_bytes = 16 << 20;
    limits
}

/// Handler that observes all messages.
#[derive(Debug)]
pub(crate) struct LedgerTap(CallLedger);

impl ClientHandler for LedgerTap {
    fn tap(&self, record: &TapRecord) {
        let mut state = self.0.lock();
        match serde_json::from_slice(&record.bytes) {
            Ok(message) if record.direction == Direction::Out => state.record_sent(&message),
            Ok(message) => state.record_received(&message),
            Err(error) => state.add_problem(format!("{error}: {}", String::from_utf8_lossy(&record.bytes))),
        }
    }

    /// Records a diagnostic. A response that crosses its cancellation is expected; all others are problems.
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let mut state = self.0.lock();
        match diagnostic {
            Diagnostic::LateResponse(id) if state.is_cancelled(&id.to_string()) => state.late += 1,
            other => state.add_problem(format!("client: {other}")),
        }
    }
}

/// The observed members of a message.
#[derive(Deserialize)]
struct TappedMessage {
    /// Request id; our ids are numbers.
    id: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    method: bool,
    params: Option<TappedParams>,
}

#[derive(Deserialize)]
struct TappedParams {
    #[serde(rename = "requestId")]
    request: Option<u64>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(begun: usize) -> ServerReport {
        ServerReport { begun, running: 0, problems: Vec::new(), resident: 0 }
    }

    /// Returns a ledger of two calls: the first is answered, the second is cancelled and answered too late.
    fn sample_ledger() -> CallLedger {
        let ledger = CallLedger::new(2);
        ledger.record_server_report(report(2));
        ledger.record_end(0, SoakOutcome::Answered);
        ledger.record_end(1, SoakOutcome::Cancelled);
        let mut state = ledger.lock();
        for line in [
            r#"{"id":1,"method":"m"}"#,
            r#"{"id":2,"method":"m"}"#,
            r#"{"method":"c","params":{"requestId":2}}"#,
        ] {
            state.record_sent(&serde_json::from_str(line).expect("a message"));
        }
        for line in [r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{}}"#] {
            state.record_received(&serde_json::from_str(line).expect("a message"));
        }
        drop(state);
        ledger
    }

    #[track_caller]
    fn assert_fails(ledger: &CallLedger, expected: &str) {
        let error = ledger.check().expect_err("a problem").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn check_requires_one_end_per_call() {
        assert!(sample_ledger().check().is_ok());
        let twice = sample_ledger();
        twice.record_end(0, SoakOutcome::Answered);
        assert_fails(&twice, "call 0 ended");
        let open = CallLedger::new(3);
        open.record_server_report(report(0));
        assert_fails(&open, "3 calls have no outcome");
    }

    #[test]
    fn check_requires_one_response_per_request() {
        for (line, expected) in
            [(r#"{"id":1,"result":{}}"#, "answered twice"), (r#"{"id":3,"error":{}}"#, "not open")]
        {
            let ledger = sample_ledger();
            ledger.lock().record_received(&serde_json::from_str(line).expect("a message"));
            assert_fails(&ledger, expected);
        }
        for (line, expected) in
            [(r#"{"id":1,"method":"m"}"#, "used twice"), (r#"{"id":4,"method":"m"}"#, "no answer")]
        {
            let ledger = sample_ledger();
            ledger.lock().record_sent(&serde_json::from_str(line).expect("a message"));
            assert_fails(&ledger, expected);
        }
    }

    #[test]
    fn check_includes_problems_of_the_server() {
        let with = |change: fn(&mut ServerReport)| {
            let ledger = sample_ledger();
            let mut report = report(2);
            change(&mut report);
            ledger.record_server_report(report);
            ledger
        };
        assert_fails(&with(|report| report.begun = 3), "3 handlers ran");
        assert_fails(&with(|report| report.begun = 0), "0 handlers ran");
        assert_fails(&with(|report| report.running = 1), "1 handlers are still running");
        assert_fails(&with(|report| report.problems.push("call 1 ran twice".into())), "ran twice");
        let unasked = CallLedger::new(0);
        assert_fails(&unasked, "no report");
    }

    #[test]
    fn only_cancelled_calls_may_be_answered_late() {
        let ledger = sample_ledger();
        let tap = ledger.tap();
        tap.diagnostic(&Diagnostic::LateResponse(2.into()));
        assert_eq!(ledger.check().expect("no problem").late, 1);
        ledger.record_server_report(report(2));
        tap.diagnostic(&Diagnostic::LateResponse(1.into()));
        assert_fails(&ledger, "too late");
    }
}
