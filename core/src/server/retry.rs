//! State and input responses that a call brings along when it is delivered again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::calls::inbound::InputOutcome;
use crate::model::InputRequests;
use crate::raw::RawJson;

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

/// Begins the keys of values that a handler keeps. No input request has such a key.
const KEPT: char = '\u{1}';

/// Returns the key among the answers of a value that a handler keeps.
pub(super) fn kept_key(key: &str) -> Box<str> {
    alloc::format!("{KEPT}{key}").into()
}

/// Returns what is carried into the next round of a call: the responses that are not requested again, and the values
/// that its handler keeps.
pub(super) fn carried_answers(
    retry: Option<&RetryContext>,
    requests: &InputRequests<'_>,
    kept: &[(Box<str>, RawJson)],
) -> Vec<(Box<str>, InputOutcome)> {
    let is_requested = |key: &str| requests.iter().any(|(other, _)| other == key);
    let earlier = retry.into_iter().flat_map(|round| &round.answers);
    let carried = earlier.filter(|(key, _)| !is_requested(key)).cloned();
    carried.chain(kept.iter().map(|(key, value)| (key.clone(), Ok(value.clone())))).collect()
}
