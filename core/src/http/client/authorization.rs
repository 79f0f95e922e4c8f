//! The authorization of a client: challenges, the exchanges held for them, credentials, and proofs of possession.

use alloc::boxed::Box;

use super::binding::Client;
use super::config::Credential;
use super::exchange::{Challenge, ExchangeId, ExchangePurpose};
use super::exchange_table::ClientExchange;
#[cfg(feature = "auth")]
use super::proof::ProofRequest;
use crate::error::{HttpError, HttpResponse, UseError};
use crate::time::Instant;

/// The challenges of a server, and the answers of the application to them.
///
/// There is one challenge at a time. While it is open, the exchanges that need another credential are held.
#[derive(Debug)]
pub struct Authorization<'c> {
    client: &'c mut Client,
}

impl Client {
    /// Returns the challenges of the server, and the answers to them.
    pub const fn authorization(&mut self) -> Authorization<'_> {
        Authorization { client: self }
    }
}

impl Authorization<'_> {
    /// Returns the next challenge if [`Config::handle_challenges`](super::Config::handle_challenges) is set.
    pub fn poll_challenge(&mut self) -> Option<Challenge> {
        self.client.credentials.poll_challenge()
    }

    /// Answers a challenge with a credential.
    ///
    /// All held exchanges are sent with it, and all later ones use it.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if this exchange has no open challenge.
    pub fn authorize(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        credential: Credential,
    ) -> Result<(), UseError> {
        self.resolve(now, exchange)?;
        self.client.credentials.replace(credential, self.client.now);
        for (mut held, since, answer) in self.client.exchanges.take_held() {
            match answer {
                Some(_) => held.retries.credentials += 1,
                None => held.retries.renewals += 1,
            }
            self.resend_held(held, since);
        }
        Ok(())
    }

    /// Uses a credential from now on, without a challenge.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if a challenge is open, which is to be answered instead.
    pub fn set_credential(&mut self, now: Instant, credential: Credential) -> Result<(), UseError> {
        self.client.tick(now);
        if self.client.exchanges.first_held().is_some() {
            return Err(UseError::Stale);
        }
        self.client.credentials.replace(credential, self.client.now);
        Ok(())
    }

    /// Answers a challenge without a credential.
    ///
    /// Held exchanges that the server refused fail. Those that were not sent yet, because the credential is due, are
    /// sent with the one that there is.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if this exchange has no open challenge.
    pub fn refuse(&mut self, now: Instant, exchange: ExchangeId) -> Result<(), UseError> {
        self.resolve(now, exchange)?;
        self.refuse_held();
        self.client.finish_closing();
        Ok(())
    }

    /// Answers a challenge with the reason why there is no credential; all held exchanges fail with it.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if this exchange has no open challenge.
    #[cfg(feature = "auth")]
    pub fn fail(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        error: &crate::auth::Error,
    ) -> Result<(), UseError> {
        self.resolve(now, exchange)?;
        for (held, _, refusal) in self.client.exchanges.take_held() {
            self.client.exchange_failed(held, HttpError::Authorization { error: error.clone(), refusal });
        }
        self.client.finish_closing();
        Ok(())
    }

    /// Returns the next proof to sign, for a [credential that is bound to a key](Credential::dpop).
    ///
    /// The request is sent once it is signed. Answer with [`handle_proof`](Self::handle_proof) or
    /// [`fail_proof`](Self::fail_proof).
    #[cfg(feature = "auth")]
    pub fn poll_proof(&mut self) -> Option<ProofRequest> {
        self.client.credentials.proofs.poll()
    }

    /// Takes the signature of a proof.
    #[cfg(feature = "auth")]
    pub fn handle_proof(&mut self, now: Instant, exchange: ExchangeId, signature: &[u8]) {
        self.client.tick(now);
        let signed = self.client.credentials.proofs.sign(exchange, signature);
        // It may have been cancelled in the meantime.
        if let Some(request) = signed.filter(|_| self.client.exchanges.get(exchange.0).is_some()) {
            self.client.exchanges.push_request(request);
        }
    }

    /// Takes notice that a proof cannot be signed; the exchange fails, as one that was not sent.
    #[cfg(feature = "auth")]
    pub fn fail_proof(&mut self, now: Instant, exchange: ExchangeId, reason: &str) {
        self.client.tick(now);
        if self.client.credentials.proofs.take(exchange).is_none() {
            return;
        }
        if let Some(x) = self.client.remove(exchange.0) {
            self.client.exchange_failed(x, HttpError::Unreachable { reason: reason.into() });
            self.client.finish_closing();
        }
    }

    // ---- held exchanges --------------------------------------------------------------------------------------

    /// Holds an exchange that the server refused until there is a credential; it fails if none will come.
    pub(super) fn hold_refused(&mut self, mut x: ClientExchange, answer: HttpResponse) {
        let may_repeat = x.retries.credentials < self.client.config.max_credentials;
        if may_repeat && x.credential_generation != self.client.credentials.generation() {
            // A newer credential is available already.
            x.retries.credentials += 1;
            self.client.resend(x);
        } else if may_repeat && self.may_wait(&x) {
            self.hold(x, Some(Box::new(answer)));
        } else {
            self.client.exchange_failed(x, HttpError::Response(answer));
        }
    }

    /// Holds an exchange that was not sent if the credential is due; returns it if it can be sent.
    #[inline]
    pub(super) fn hold_due(&mut self, x: ClientExchange) -> Option<ClientExchange> {
        if !self.client.credentials.is_due(self.client.now) || !self.may_wait(&x) {
            return Some(x);
        }
        if x.retries.renewals > 0 {
            // The new credential is due already: the server has to decide, or this would go on without end.
            return Some(x);
        }
        self.hold(x, None);
        None
    }

    /// Returns whether an exchange may wait for the application.
    fn may_wait(&self, x: &ClientExchange) -> bool {
        self.client.config.handles_challenges
            && !self.client.is_closing
            && !matches!(x.purpose(), ExchangePurpose::DeleteSession)
    }

    /// Holds an exchange until the application answers a challenge. `answer` is the refusal if it was sent.
    fn hold(&mut self, x: ClientExchange, answer: Option<Box<HttpResponse>>) {
        let client = &mut *self.client;
        if let Some(id) = x.request_id() {
            client.engine.exchanges().pause_request(client.now, id);
        }
        // The application may have to ask a user.
        let due = client.now + client.engine.config().effective_limits().input_timeout;
        client.exchanges.insert(x.held(client.now, due, answer));
        client.credentials.raise_challenge(&mut client.exchanges);
    }

    /// Ends the wait for a credential: refused exchanges fail, others are sent with the one that is due.
    pub(super) fn refuse_held(&mut self) {
        self.client.credentials.keep_due();
        for (held, since, answer) in self.client.exchanges.take_held() {
            match answer {
                Some(answer) => self.client.exchange_failed(held, HttpError::Response(*answer)),
                None => self.resend_held(held, since),
            }
        }
    }

    fn resolve(&mut self, now: Instant, exchange: ExchangeId) -> Result<(), UseError> {
        self.client.tick(now);
        self.client.credentials.resolve(exchange)
    }

    fn resend_held(&mut self, held: ClientExchange, since: Instant) {
        if let Some(id) = held.request_id() {
            let time = self.client.now.saturating_duration_since(since);
            self.client.engine.exchanges().resume_request(self.client.now, id, time);
        }
        self.client.resend(held);
    }
}
