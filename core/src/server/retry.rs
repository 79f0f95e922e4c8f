//! State and input responses that a call brings along when it is delivered again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::calls::inbound::InputOutcome;
use crate::model::InputRequests;

/// State and input responses of a call that was delivered before.
#[derive(Clone, Debug, Default)]
pub(super) struct RetryContext {
    /// Number of earlier deliveries.
    pub(super) attempt: u32,
    pub(super) state: Vec<u8>,
    pub(super) answers: Vec<(Box<str>, InputOutcome)>,
    /// Keys of the input requests in the last round, if they are known.
    pub(super) requested_keys: Option<Vec<Box<str>>>,
}

impl RetryContext {
    /// Returns the responses that are carried into the next round: all except those that are requested again.
    pub(super) fn carried_answers<'a>(
        &'a self,
        requests: &InputRequests<'_>,
    ) -> impl Iterator<Item = &'a (Box<str>, InputOutcome)> {
        let is_requested = |key: &str| requests.iter().any(|(other, _)| other == key);
        self.answers.iter().filter(move |(key, _)| !is_requested(key))
    }
}
