//! Handlers in the scope of the observation of their call.

use mcp_proto::server::Call;

/// Runs a function in the scope of the observation of a call, if it has one.
///
/// # Panics
///
/// If the function panics, or if the observer calls it and does not return after that.
#[inline]
pub(in crate::adapter::server) fn in_scope<T>(call: &Call, run: impl FnOnce() -> T) -> T {
    let Some(observation) = call.caller().observation() else { return run() };
    let (mut run, mut outcome) = (Some(run), None);
    observation.in_scope(&mut || {
        if let Some(run) = run.take() {
            outcome = Some(run());
        }
    });
    match (outcome, run) {
        (Some(outcome), _) => outcome,
        // The observer has not called it. A handler runs all the same.
        (None, Some(run)) => run(),
        (None, None) => panic!("the observer lost the outcome of a handler"),
    }
}
