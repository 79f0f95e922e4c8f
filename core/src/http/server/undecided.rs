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

    /// Makes a request wait for the decision about its token, until a time.
    pub(super) fn add(&mut self, exchanges: &mut ExchangeTable, key: Key, until: Instant) {
        if let Some(x) = exchanges.get_mut(key) {
            x.phase = RequestPhase::Authorizing;
        }
        self.0.arm(until, key);
        self.0.sweep(exchanges.len(), |_, key| exchanges.is_authorizing(key), |_| false);
    }

    /// Returns when the next request stops waiting.
    pub(super) fn next_deadline(&mut self, exchanges: &ExchangeTable) -> Option<Instant> {
        self.0.next(|_, key| exchanges.is_authorizing(key))
    }

    /// Refuses the requests that have waited until now, and releases memory if no exchange is open.
    pub(super) fn handle_timeout(&mut self, exchanges: &mut ExchangeTable, now: Instant) {
        while let Some((_, key)) = self.0.pop_due(now) {
            if exchanges.is_authorizing(key) {
                exchanges.refuse(key, &overloaded("the token was not validated in time"));
            }
        }
        if exchanges.len() == 0 {
            self.0.trim(|_, _| false);
        }
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
}
