//! The credential of a client, and the challenge that the application has to answer.

use super::config::Credential;
use super::exchange::{Challenge, ExchangeId};
use super::exchange_table::ExchangeTable;
use crate::error::UseError;

/// The credential in use, and the open challenge.
#[derive(Debug)]
pub(super) struct Credentials {
    current: Option<Credential>,
    /// Grows with each new credential.
    generation: u32,
    /// The held exchange of the challenge that the application must answer.
    pending: Option<ExchangeId>,
    /// That challenge, until it is polled.
    unpolled: Option<Challenge>,
}

impl Credentials {
    pub(super) const fn new(current: Option<Credential>) -> Self {
        Self { current, generation: 0, pending: None, unpolled: None }
    }

    pub(super) const fn current(&self) -> Option<&Credential> {
        self.current.as_ref()
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Uses another credential from now on.
    pub(super) fn replace(&mut self, credential: Credential) {
        self.current = Some(credential);
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
            let (status, challenges) = (answer.status, answer.challenges.clone());
            self.pending = Some(exchange);
            self.unpolled = Some(Challenge { exchange, status, challenges, credentials_tried });
        }
    }
}
