//! Deviations of a server from the protocol, which may explain a failure that follows.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::Diagnostic;

/// The last deviations, shared between the handler that is told of them and the command that fails.
#[derive(Clone, Default)]
pub(crate) struct Deviations(Arc<Mutex<VecDeque<String>>>);

impl Deviations {
    /// Records a deviation. Of more than [`MAX_DEVIATIONS`] the first ones are dropped.
    pub(crate) fn record(&self, diagnostic: &Diagnostic) {
        // A message that crossed another one is the fault of neither side, and explains nothing.
        if matches!(
            diagnostic,
            Diagnostic::LateResponse(_)
                | Diagnostic::UnknownCancellation(_)
                | Diagnostic::EarlyCancellation(_)
                | Diagnostic::DeprecatedFeature { .. }
        ) {
            return;
        }
        let text = diagnostic.to_string();
        let mut all = mcp_std::sync::lock(&self.0);
        if all.contains(&text) {
            return;
        }
        if all.len() == MAX_DEVIATIONS {
            all.pop_front();
        }
        all.push_back(text);
    }

    /// Takes the deviations so far, in order.
    pub(crate) fn take(&self) -> Vec<String> {
        core::mem::take(&mut *mcp_std::sync::lock(&self.0)).into()
    }
}

/// Maximum number of deviations that are printed with a failure.
const MAX_DEVIATIONS: usize = 5;
