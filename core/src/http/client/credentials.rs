//! The credential of a client, and the challenge that the application has to answer.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::binding::Client;
use super::config::{Config, Credential};
use super::exchange::{Challenge, ChallengeCause, ExchangeId, OutgoingRequest};
use super::exchange_table::ExchangeTable;
use crate::error::{HttpResponse, UseError};
use crate::fields::is_secret;
use crate::time::Instant;

/// The credential in use, and the open challenge.
#[derive(Debug)]
pub(super) struct Credentials {
    current: Option<Credential>,
    /// The one before it, with which requests may still be in flight.
    previous: Option<Credential>,
    /// Whether the application is asked for a credential before the first request.
    is_awaited: bool,
    /// Grows with each new credential.
    generation: u32,
    /// The held exchange of the challenge that the application must answer.
    pending: Option<ExchangeId>,
    /// That challenge, until it is polled.
    unpolled: Option<Challenge>,
    pub(super) proofs: super::proof::Proofs,
}

impl Credentials {
    pub(super) fn new(config: &Config) -> Self {
        let current = config.credential.clone();
        Self {
            proofs: super::proof::Proofs::new(current.as_ref()),
            is_awaited: config.awaits_credential && current.is_none(),
            current,
            previous: None,
            generation: 0,
            pending: None,
            unpolled: None,
        }
    }

    pub(super) const fn current(&self) -> Option<&Credential> {
        self.current.as_ref()
    }

    /// Returns the credentials that requests in flight may have.
    pub(super) fn sent(&self) -> impl Iterator<Item = &Credential> {
        self.current.iter().chain(&self.previous)
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Uses another credential from now on.
    pub(super) fn replace(&mut self, credential: Credential) {
        self.proofs.replace(Some(&credential));
        self.is_awaited = false;
        self.previous = self.current.replace(credential);
        self.generation += 1;
    }

    /// Returns the challenge that was raised last, once.
    pub(super) const fn poll_challenge(&mut self) -> Option<Challenge> {
        self.unpolled.take()
    }

    /// Returns whether this is the exchange of the open challenge.
    pub(super) fn is_challenged(&self, exchange: ExchangeId) -> bool {
        self.pending == Some(exchange)
    }

    /// Ends the open challenge, which must be that of this exchange.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if it is not.
    pub(super) fn resolve(&mut self, exchange: ExchangeId) -> Result<(), UseError> {
        if !self.is_challenged(exchange) {
            return Err(UseError::Stale);
        }
        self.clear_challenge();
        Ok(())
    }

    /// Forgets the open challenge.
    pub(super) fn clear_challenge(&mut self) {
        (self.pending, self.unpolled) = (None, None);
    }

    /// Raises a challenge for the exchange that was held first, unless one is open.
    pub(super) fn raise_challenge(&mut self, exchanges: &mut ExchangeTable) {
        if self.pending.is_some() {
            return;
        }
        if let Some((exchange, answer, credentials_tried)) = exchanges.first_held() {
            let (cause, challenges) = match answer {
                Some(answer) if answer.status == 403 => {
                    (ChallengeCause::InsufficientScope, answer.challenges.clone())
                }
                Some(answer) => (ChallengeCause::Unauthorized, answer.challenges.clone()),
                None => (ChallengeCause::Due, Vec::new()),
            };
            self.pending = Some(exchange);
            self.unpolled = Some(Challenge { exchange, cause, challenges, credentials_tried });
        }
    }

    /// Returns whether the credential has to be renewed before the next request.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.is_awaited
            || self.current.as_ref().is_some_and(|credential| credential.renew_at.is_some_and(|at| at <= now))
    }

    /// Goes on with a credential that is due, because there is no other.
    pub(super) const fn keep_due(&mut self) {
        self.is_awaited = false;
        if let Some(credential) = &mut self.current {
            credential.renew_at = None;
        }
    }

    /// Keeps a request that needs a proof of possession; returns it if it needs none.
    #[inline]
    pub(super) fn hold_for_proof(&mut self, request: OutgoingRequest) -> Option<OutgoingRequest> {
        self.proofs.hold(request)
    }
}

// Removal of the secrets of a client from what a server sends back.

/// Length of the shortest value that is removed, in bytes; a shorter one may be a part of any text.
const MIN_SECRET: usize = 6;

impl Client {
    /// Removes the credentials and the values of the configured secret fields from a response that fails an exchange: it is
    /// shown and logged, and some servers quote the request in it (SEC-019).
    pub(super) fn redact(&self, answer: &mut HttpResponse) {
        for secret in self.secrets() {
            redact(&mut answer.body, secret);
            answer.content_type.as_mut().into_iter().for_each(|text| redact(text, secret));
            // The others are acted upon.
            let texts = |(name, _): &&mut (String, String)| name == "error_description";
            for challenge in &mut answer.challenges {
                challenge.params.iter_mut().filter(texts).for_each(|(_, value)| redact(value, secret));
            }
            if let Some(error) = &mut answer.error {
                // A borrowed message is a text of this crate.
                if let Cow::Owned(message) = &mut error.message {
                    redact(message, secret);
                }
                // The data goes as a whole, because JSON with a part cut out may be no JSON.
                error.data.take_if(|data| data.as_str().contains(secret));
            }
        }
    }

    /// Removes the same from a text of the server.
    pub(super) fn redact_text(&self, text: &mut String) {
        self.secrets().for_each(|secret| redact(text, secret));
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        let credentials = self.credentials.sent().map(Credential::value);
        let fields = self.config.fields.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value);
        let values = credentials.map(without_scheme).chain(fields);
        let texts = values.filter_map(|value| core::str::from_utf8(value).ok());
        texts.filter(|secret| secret.len() >= MIN_SECRET)
    }
}

/// Returns a credential without the name of its scheme, which is no secret.
fn without_scheme(value: &[u8]) -> &[u8] {
    let scheme = value.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
    value.get(scheme..).unwrap_or(value)
}

/// Replaces a secret in a text. The beginning of one is cut off at the end of the text, because the text itself may have
/// been cut off in the middle of the secret.
fn redact(text: &mut String, secret: &str) {
    if text.contains(secret) {
        *text = text.replace(secret, "…");
    }
    let parts = (MIN_SECRET..secret.len()).rev().filter_map(|length| secret.get(..length));
    if let Some(part) = { parts }.find(|part| text.ends_with(part)) {
        text.truncate(text.len() - part.len());
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let mut text = String::from(text);
        redact(&mut text, "t0ps3cret");
        text
    }

    // covers: SEC-019
    #[test]
    fn secrets_are_replaced_wherever_they_stand() {
        assert_eq!(redacted("no"), "no");
        assert_eq!(redacted("t0ps3cret, Bearer t0ps3cret."), "…, Bearer ….");
        for at in 6..9 {
            assert_eq!(redacted(&alloc::format!("cut off: {}", &"t0ps3cret"[..at])), "cut off: …");
        }
        assert_eq!(redacted("t0ps3"), "t0ps3", "too short to be told from other texts");
    }

    #[test]
    fn schemes_are_no_secret() {
        assert_eq!(without_scheme(b"Bearer abc"), b"abc");
        assert_eq!(without_scheme(b"abc"), b"abc");
    }
}
