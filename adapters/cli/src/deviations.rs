//! Deviations of a server from the protocol, which may explain a failure that follows.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

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
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

/// Maximum number of deviations that are printed with a failure.
const MAX_DEVIATIONS: usize = 5;
