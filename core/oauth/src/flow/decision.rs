//! The decision about stored tokens: hand them out, refresh them, or ask a user.
//!
//! It is a pure function, [`decide`]. What surrounds it is a fixed order, which holds for any number of processes with one store:
//!
//! ```text
//! load ─► lock ─► load ─► mark ─► token request ─► replace the marked record, or remove it ─► unlock
//! ```
//!
//! The three writes replace a record that is known and nothing else (compare and set). The mark is a text that no other
//! attempt has, so it does three things: a store that cannot be written is found out before the refresh token is used; a
//! process that was held up until its lock was another's cannot replace what that one writes; and the record shows that
//! its refresh token may be used up.
//!
//! That it may be used up changes no decision. The process that sent it has ended and its new token is lost, or its request
//! never arrived: only another request tells which. A server that knows no grace then ends the grant, and a login cannot be
//! avoided. `invalid_grant` can be avoided in every other case, and the tests below show that it is.

use alloc::string::String;

use super::super::record::{RefusedToken, TokenRecord};
use super::facts::Facts;
use super::{Event, Flow, State, Trigger, random};
use crate::error::{Error, ErrorKind, Step};
use crate::token::Secret;

/// Changes by others that one flow tolerates. There are none while the lock excludes everybody.
pub(super) const MAX_CHANGES: u8 = 3;

/// The state of the stored tokens, in the eyes of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoredTokens {
    /// An access token that is not due, and not the one that failed.
    Usable,
    /// A refresh token.
    Refreshable,
    /// Nothing that helps.
    Unusable,
}

/// How a flow has come to know the stored tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    /// Read without the lock.
    Loaded,
    /// Read under the lock.
    Locked,
    /// Found by a write that was to replace another record. The flow no longer counts on its lock.
    Changed {
        /// How often that has happened in this flow.
        times: u8,
    },
}

/// What a flow does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Decision {
    /// Hands out the stored access token.
    HandOut,
    /// Takes the lock and reads again.
    Lock,
    /// Marks the record, then presents its refresh token.
    Refresh,
    /// Ends without a token, or gets another authorization.
    Ask,
    /// Fails: others go on changing the record.
    GiveUp,
}

/// Decides what to do about the stored tokens.
pub(super) const fn decide(sight: Sight, stored: StoredTokens) -> Decision {
    match (sight, stored) {
        (_, StoredTokens::Usable) => Decision::HandOut,
        (_, StoredTokens::Unusable) => Decision::Ask,
        (Sight::Locked, StoredTokens::Refreshable) => Decision::Refresh,
        (Sight::Loaded, StoredTokens::Refreshable) => Decision::Lock,
        (Sight::Changed { times }, StoredTokens::Refreshable) if times < MAX_CHANGES => Decision::Lock,
        (Sight::Changed { .. }, StoredTokens::Refreshable) => Decision::GiveUp,
    }
}

impl Flow {
    /// Goes on with the record as it is in the store.
    pub(super) fn record_read(&mut self, sight: Sight, value: Option<&Secret>) {
        match sight {
            Sight::Loaded => {}
            Sight::Locked => self.is_locked = true,
            // A login that found the lock taken for too long has stored its tokens without it, or the lock has ended.
            Sight::Changed { .. } => {
                self.unlock();
                self.changes = self.changes.saturating_add(1);
            }
        }
        if let Err(error) = self.facts.read_record(value) {
            return self.end_with(error);
        }
        match (&self.facts.trigger, sight) {
            (Trigger::LogIn { .. }, _) => return self.discover(),
            (Trigger::LogOut, Sight::Locked) => return self.log_out(),
            // A refresh of another process would store its tokens afterwards.
            (Trigger::LogOut, _) if self.facts.record.is_some() => return self.lock_record(),
            (Trigger::LogOut, _) => return self.end(Event::NoToken),
            _ => {}
        }
        match (decide(sight, self.facts.stored_tokens(sight, self.unix_secs())), sight, &self.facts.trigger) {
            (Decision::HandOut, ..) => self.hand_out(),
            (Decision::Lock, _, trigger) => {
                if sight == Sight::Loaded && matches!(trigger, Trigger::Unauthorized { .. }) {
                    self.facts.refused = Some(RefusedToken::Used);
                }
                self.lock_record();
            }
            (Decision::Refresh, ..) => match self.facts.mark_record(random(&mut self.entropy)) {
                Some(marked) => self.replace_record(State::MarkingAttempt, Some(marked)),
                None => self.removed(),
            },
            (Decision::GiveUp, ..) => {
                let why = "other processes go on changing the stored tokens";
                self.fail_at(Step::Store, ErrorKind::Locked(why.into()), "");
            }
            (Decision::Ask, Sight::Loaded, Trigger::Connect) => self.end(Event::NoToken),
            (Decision::Ask, Sight::Loaded, Trigger::InsufficientScope { .. }) => self.step_up(),
            (Decision::Ask, Sight::Loaded, _) => self.discover(),
            // The scopes were not stored; a login since then has asked for its own.
            (Decision::Ask, _, Trigger::InsufficientScope { .. }) => {
                self.end_with(self.facts.login_required());
            }
            (Decision::Ask, ..) => self.removed(),
        }
    }
}

impl Facts {
    /// Marks the record before its refresh token is used, and returns its text.
    fn mark_record(&mut self, mark: String) -> Option<Secret> {
        let record = self.record.as_mut()?;
        record.attempt = Some(mark);
        Some(record.to_secret())
    }

    /// Reads the stored record.
    pub(super) fn read_record(&mut self, value: Option<&Secret>) -> Result<(), Error> {
        self.stored = value.cloned();
        let record = value.map(TokenRecord::parse).transpose();
        let record = record.map_err(|why| self.damaged("the stored tokens for this server are", &why))?;
        // Whoever logs out means what is stored, of whatever client it is.
        let is_any = matches!(self.trigger, Trigger::LogOut);
        self.record = record.filter(|record| is_any || self.fits(record));
        Ok(())
    }

    /// Returns what the stored tokens are for this flow at a Unix time.
    fn stored_tokens(&self, sight: Sight, unix_secs: u64) -> StoredTokens {
        if self.has_usable_token(unix_secs) {
            return StoredTokens::Usable;
        }
        let is_due = self.record.as_ref().is_some_and(|record| record.is_due(unix_secs));
        // Without the lock, a token that is not due is discussed with the server first; other scopes need a user.
        let may_refresh =
            (is_due || sight != Sight::Loaded) && !matches!(self.trigger, Trigger::InsufficientScope { .. });
        match self.refresh_request().filter(|_| may_refresh) {
            Some(_) => StoredTokens::Refreshable,
            None => StoredTokens::Unusable,
        }
    }

    /// Returns whether there is a stored token that is not the one that failed.
    fn has_usable_token(&self, unix_secs: u64) -> bool {
        let Some(record) = self.record.as_ref().filter(|record| !record.is_due(unix_secs)) else {
            return false;
        };
        let is_other = |failed: &Secret| *failed != record.access_token;
        match &self.trigger {
            Trigger::Connect => true,
            Trigger::Unauthorized { rejected, .. } => rejected.as_ref().is_none_or(is_other),
            Trigger::Due(token) => is_other(token),
            // Another flow may have stepped up in the meantime.
            Trigger::InsufficientScope { rejected, .. } => {
                let asked = self.challenged_scopes().ok().flatten();
                is_other(rejected) && asked.is_some_and(|scopes| record.granted.contains_all(&scopes))
            }
            Trigger::LogIn { .. } | Trigger::LogOut => false,
        }
    }
}

#[cfg(test)]
mod tests;
