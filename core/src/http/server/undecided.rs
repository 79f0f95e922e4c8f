//! Requests whose tokens wait for the decision of the application, and when they stop waiting.

use super::Server;
use super::exchange::{ExchangeId, RequestPhase};
use super::exchange_table::ExchangeTable;
use super::refusal::overloaded;
use crate::deadlines::Deadlines;
use crate::slab::Key;
use crate::time::Instant;

/// The deadlines of requests whose tokens wait for a decision; those of decided ones are dropped later.
#[derive(Debug)]
pub(super) struct UndecidedTokens(Deadlines<Key>);

impl UndecidedTokens {
    pub(super) const fn new() -> Self {
        Self(Deadlines::new())
    }

    /// Returns when the next request stops waiting.
    pub(super) fn next_deadline(&mut self, exchanges: &ExchangeTable) -> Option<Instant> {
        self.0.next(|_, key| exchanges.is_authorizing(key))
    }

    /// Releases memory; to be called when no exchange is open.
    pub(super) fn trim(&mut self) {
        self.0.trim(|_, _| false);
    }
}

impl Server {
    /// Returns whether the request of an exchange waits for the decision about its token.
    ///
    /// It stops waiting when its client disconnects, and after [`Config::token_timeout`](super::Config::token_timeout).
    /// A later decision has no effect.
    #[must_use]
    pub fn awaits_token_decision(&self, exchange: ExchangeId) -> bool {
        self.exchanges.is_authorizing(exchange.0)
    }

    /// Makes a request wait for the decision about its token.
    pub(super) fn await_token_decision(&mut self, key: Key) {
        if let Some(x) = self.exchanges.get_mut(key) {
            x.phase = RequestPhase::Authorizing;
        }
        let Self { undecided: UndecidedTokens(deadlines), exchanges, .. } = self;
        deadlines.arm(self.now + self.config.token_timeout, key);
        deadlines.sweep(exchanges.len(), |_, key| exchanges.is_authorizing(key));
    }

    /// Refuses the requests that have waited for too long.
    pub(super) fn refuse_undecided(&mut self) {
        while let Some((_, key)) = self.undecided.0.pop_due(self.now) {
            if self.exchanges.is_authorizing(key) {
                self.exchanges.refuse(key, &overloaded("the token was not validated in time"));
            }
        }
    }
}
