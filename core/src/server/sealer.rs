//! Sealing of the state that a modern client keeps for a call.
//!
//! A trait object, so that a server without keys that never requests input is linked without this code (10 KiB;
//! `core/docs/size.md`).

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

use bytes::Bytes;

use super::event::Call;
use super::receive::RetryContext;
use crate::error::UseError;
use crate::json;
use crate::limits::Limit;
use crate::methods;
use crate::raw::RawJson;
use crate::seal::{Binding, Keys, RequestState, digest};
use crate::sync::{Arc, share};

/// Marks an input request without a response in sealed state. A JSON text is never empty.
pub(super) const UNANSWERED: &str = "";

pub(super) trait StateSealer: fmt::Debug + Send + Sync {
    /// Seals state until `expires` (Unix time in seconds), for the same call by `principal`.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`] if the result exceeds `limit`, [`UseError::Stale`] if the arguments cannot be digested.
    fn seal(
        &self,
        call: &Call,
        principal: Option<&str>,
        record: &RequestState<'_>,
        expires: u64,
        limit: usize,
    ) -> Result<String, UseError>;

    /// Opens sealed state. Returns `None` if it is not valid for this call, principal and time.
    fn open(
        &self,
        call: &Call,
        principal: Option<&str>,
        text: &str,
        now: u64,
        limit: usize,
    ) -> Option<RetryContext>;
}

impl StateSealer for Keys {
    fn seal(
        &self,
        call: &Call,
        principal: Option<&str>,
        record: &RequestState<'_>,
        expires: u64,
        limit: usize,
    ) -> Result<String, UseError> {
        let target = call_target(call);
        let binding = call_binding(call, principal, &target).ok_or(UseError::Stale)?;
        Self::seal(self, &binding, expires, &record.encode(), limit)
            .map_err(|_| UseError::Full(Limit::RequestState))
    }

    fn open(
        &self,
        call: &Call,
        principal: Option<&str>,
        text: &str,
        now: u64,
        limit: usize,
    ) -> Option<RetryContext> {
        let target = call_target(call);
        let payload = Self::open(self, &call_binding(call, principal, &target)?, now, text, limit).ok()?;
        let record = RequestState::decode(&payload).ok()?;
        let mut round =
            RetryContext { attempt: record.attempt, state: record.state.to_vec(), ..RetryContext::default() };
        let requested = round.requested_keys.insert(alloc::vec::Vec::new());
        for (key, text) in record.answers {
            if text == UNANSWERED {
                requested.push(key.into());
            } else {
                let text = RawJson::trusted(Bytes::copy_from_slice(text.as_bytes()));
                round.answers.push((key.into(), Ok(text)));
            }
        }
        Some(round)
    }
}

/// Returns the name of the tool or prompt, or the URI of the resource.
fn call_target(call: &Call) -> Cow<'_, str> {
    // A resource is identified by its URI, even if the request has a member `name` as well.
    let target = match &*call.method {
        methods::RESOURCES_READ => {
            let uri = call.params().and_then(|params| params.member("uri")?.string());
            return Cow::Owned(uri.unwrap_or_default());
        }
        _ => call.params.name.slice(&call.frame),
    };
    target.and_then(json::string).unwrap_or_default()
}

/// Returns the call properties that sealed state is bound to (DESIGN-10).
fn call_binding<'a>(call: &'a Call, principal: Option<&'a str>, target: &'a str) -> Option<Binding<'a>> {
    let arguments = digest(call.params.arguments.slice(&call.frame)).ok()?;
    Some(Binding { principal, method: call.method(), target, arguments })
}

/// Returns the keys that a seed gives.
pub(super) fn sealer_from_seed(seed: &KeySeed) -> Arc<dyn StateSealer> {
    share!(Keys::new(seed.0), dyn StateSealer)
}

/// The seed of sealing keys. Its `Debug` output is redacted.
#[derive(Clone)]
pub(super) struct KeySeed(pub(super) [u8; 32]);

impl fmt::Debug for KeySeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}
