//! State and input responses that a call brings along when it is delivered again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::calls::inbound::InputOutcome;
use crate::error::CallError;
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

/// An input response or a kept value of an earlier round, by its key.
pub(super) type CarriedAnswer<'a> = (&'a str, Result<&'a RawJson, &'a CallError>);

/// Returns what is carried into the next round of a call: the responses that are not requested again, and the values
/// that its handler keeps.
pub(super) fn carried_answers<'a>(
    retry: Option<&'a RetryContext>,
    requests: &InputRequests<'_>,
    kept: &'a [(Box<str>, RawJson)],
) -> Vec<CarriedAnswer<'a>> {
    let is_requested = |key: &str| requests.iter().any(|(other, _)| other == key);
    let earlier = retry.into_iter().flat_map(|round| &round.answers);
    let carried =
        earlier.map(|(key, answer)| (&**key, answer.as_ref())).filter(|(key, _)| !is_requested(key));
    carried.chain(kept.iter().map(|(key, value)| (&**key, Ok(value)))).collect()
}
