//! State of calls that a modern client keeps between two rounds: sealed for it, and opened when it retries (MRTR).

use super::channel::ServerEndpoint;
use super::channel::principal;
use super::config::Config;
use super::event::Call;
use super::receive::{CarriedAnswer, RetryContext};
use super::sealer::{StateSealer, UNANSWERED, sealer_from_seed};
use crate::error::UseError;
use crate::json::{self, Span, object_members};
use crate::methods;
use crate::model::{InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::sync::Arc;
use alloc::format;
use alloc::string::String;

/// Seals state, if keys are configured.
#[derive(Debug)]
pub(super) struct Sealing {
    sealer: Option<Arc<dyn StateSealer>>,
}

impl Sealing {
    pub(super) fn new(config: &Config) -> Self {
        Self { sealer: config.sealer.clone() }
    }

    /// Derives the keys that were configured lazily.
    pub(super) fn init(&mut self, config: &Config) {
        if let (None, Some(seed)) = (&self.sealer, &config.seed) {
            self.sealer = Some(sealer_from_seed(seed));
        }
    }

    /// Returns the sealed state for the client, or `None` if there is nothing to seal and no key.
    ///
    /// # Errors
    ///
    /// [`UseError::NoSealKeys`], or an error of the sealer.
    pub(super) fn seal(
        &self,
        endpoint: &ServerEndpoint,
        config: &Config,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
        answers: &[CarriedAnswer<'_>],
    ) -> Result<Option<String>, UseError> {
        let carried = answers.iter().filter_map(|(key, answer)| Some((*key, answer.ok()?.as_str())));
        if let Some(keys) = &self.sealer {
            // The keys of the questions are sealed, too: of a retry, only answers to these are read (MRTR-028).
            let requested = requests.iter().map(|(key, _)| (key, UNANSWERED));
            let answers = carried.chain(requested).collect();
            let record =
                crate::seal::RequestState { attempt: call.attempt().saturating_add(1), state, answers };
            // Rounded up to whole seconds, so that state never expires too early.
            let rounding = core::time::Duration::from_micros(999_999);
            let expires = config.anchor.unix_secs(endpoint.now + endpoint.limits.input_timeout + rounding);
            let principal = principal(endpoint, call.channel.0);
            return keys.seal(call, principal, &record, expires, endpoint.limits.max_request_state).map(Some);
        }
        if state.is_empty() && carried.count() == 0 { Ok(None) } else { Err(UseError::NoSealKeys) }
    }

    /// Returns state and responses of a modern retry; `None` if its method cannot ask for input.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn read_retry(
        &self,
        endpoint: &ServerEndpoint,
        config: &Config,
        call: &Call,
    ) -> Result<Option<RetryContext>, RpcError> {
        let (inputs, state) = (call.params.input_responses, call.params.request_state);
        // In other methods these members mean nothing.
        if !methods::may_need_input(&call.method) {
            return Ok(None);
        }
        let mut round = self.unseal(endpoint, config, call, state)?;
        if let Some(inputs) = inputs.slice(&call.frame) {
            read_responses(call, inputs, endpoint.limits.max_inputs, &mut round)?;
        }
        Ok(Some(round))
    }

    /// Opens the sealed state of an earlier round (MRTR-020, MRTR-021, MRTR-023).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn unseal(
        &self,
        endpoint: &ServerEndpoint,
        config: &Config,
        call: &Call,
        state: Span,
    ) -> Result<RetryContext, RpcError> {
        if state.is_empty() {
            // A server without keys sends no state, so the responses arrive without it.
            return Ok(RetryContext::default());
        }
        let Some(text) = state.slice(&call.frame).and_then(json::string) else {
            return Err(RpcError::invalid_params("`params.requestState` is not a string"));
        };
        let opened = self.open(endpoint, config, call, &text);
        // The message is the same for every reason, so a forger learns nothing.
        opened.ok_or_else(|| RpcError::invalid_params("`params.requestState` is not valid: begin again"))
    }

    fn open(
        &self,
        endpoint: &ServerEndpoint,
        config: &Config,
        call: &Call,
        text: &str,
    ) -> Option<RetryContext> {
        let now = config.anchor.unix_secs(endpoint.now);
        let principal = principal(endpoint, call.channel.0);
        self.sealer.as_ref()?.open(call, principal, text, now, endpoint.limits.max_request_state)
    }
}

/// Adds the input responses of a retry to those that its state carries.
///
/// # Errors
///
/// The error response to send.
fn read_responses(
    call: &Call,
    inputs: &[u8],
    max_inputs: usize,
    round: &mut RetryContext,
) -> Result<(), RpcError> {
    if inputs.first() != Some(&b'{') {
        return Err(RpcError::invalid_params("`params.inputResponses` is not an object")); // MRTR-027
    }
    let mut invalid_key = None;
    // Without sealed state nobody knows what was requested, so each valid key is accepted.
    let requested_keys = round.requested_keys.take();
    object_members(inputs, |key, value| {
        let key = core::str::from_utf8(key).unwrap_or_default();
        // Other keys were never requested; those of kept values are among them.
        if !InputRequest::is_valid_key(key) {
            return;
        }
        if requested_keys.as_ref().is_some_and(|keys| keys.iter().all(|other| **other != *key)) {
            return; // MRTR-028
        }
        if value.first() != Some(&b'{') {
            invalid_key.get_or_insert_with(|| String::from(key));
        } else if round.answers.len() < max_inputs && !round.answers.iter().any(|(k, _)| **k == *key) {
            // The response of an earlier round is not replaced.
            let value = RawJson::trusted(call.frame.slice_ref(value));
            round.answers.push((key.into(), Ok(value)));
        }
    });
    match invalid_key {
        Some(key) => {
            let key = crate::rpc::clip(&key);
            Err(RpcError::invalid_params(format!("`params.inputResponses.{key}` is not an object")))
        }
        None => Ok(()),
    }
}
