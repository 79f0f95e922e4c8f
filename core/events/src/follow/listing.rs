//! The list of types: when a follower asks for it, and what follows from the description of its type.

use core::time::Duration;

use mcp_proto::{Instant, RpcError};

use super::{FollowError, Follower, GapReason, State};
use crate::wire::{DeliveryMode, EventType};

/// Times that the list is looked at without success before it is the end.
pub(super) const MAX_LISTS: u32 = 4;

impl Follower {
    /// Notes that the list of types has changed (EVT-019): it is asked for beside what goes on.
    ///
    /// If the type has lost the mode of this follower and has another one, that takes over, from the same position. If the type is not
    /// listed any more, or has no mode for this client, that is an error after which everything goes on: the server ends the
    /// subscription itself (EVT-020), with the last events in front of the end.
    ///
    /// The list is asked for at the times of a [`ListPace`](mcp_proto::client::ListPace), however often it changes.
    pub fn handle_list_changed(&mut self, now: Instant) {
        self.recheck_at.get_or_insert_with(|| self.list_pace.earliest().max(now));
    }

    /// Returns whether the list is to be asked for now because it has changed. It counts as asked for then.
    pub(super) fn takes_recheck(&mut self, now: Instant) -> bool {
        let is_due = self.next_recheck().is_some_and(|at| at <= now);
        // A poll, and a stream that is being opened, are answered first.
        if !is_due || !matches!(self.state, State::Pausing { .. } | State::Live { .. }) {
            return false;
        }
        self.is_rechecking = true;
        self.record_list(now);
        true
    }

    /// Returns when the list is to be asked for because it has changed. A refusal asks for it in any case.
    pub(super) fn next_recheck(&self) -> Option<Instant> {
        self.recheck_at.filter(|_| !self.is_rechecking && self.refusal.is_none())
    }

    /// Notes that the list is asked for. A change that comes from now on is not in the answer.
    pub(super) fn record_list(&mut self, now: Instant) {
        self.recheck_at = None;
        self.list_pace.note_read(now);
    }

    /// Takes the description of the type from the list; `None` if it is not there.
    pub fn handle_listed(&mut self, now: Instant, outcome: Result<Option<EventType>, FollowError>) {
        if core::mem::take(&mut self.is_rechecking) {
            if !self.has_ended() {
                self.rechecked(now, outcome);
            }
            return;
        }
        if self.state != State::Listing {
            return;
        }
        let described = match outcome {
            Err(error) => return self.request_failed(now, error),
            Ok(described) => described.filter(|_| self.lists_in_vain < MAX_LISTS),
        };
        let refusal = self.refusal.take();
        let Some(described) = described else {
            return self.end(refusal.map_or(FollowError::NoMode, FollowError::Server));
        };
        let Some(mode) = mode(&described, self.has_streams) else { return self.end(FollowError::NoMode) };
        (self.mode, self.has_polls) = (mode, has_polls(&described));
        self.lists_in_vain += 1;
        self.begin_anew(GapReason::TypeChanged);
        let pause = if self.lists_in_vain > 1 { self.next_backoff() } else { Duration::ZERO };
        self.wait_until(now + pause);
    }

    /// Takes the description after a change of the list.
    fn rechecked(&mut self, now: Instant, outcome: Result<Option<EventType>, FollowError>) {
        match outcome {
            Ok(Some(described)) => match mode(&described, self.has_streams) {
                Some(mode) => {
                    self.has_polls = has_polls(&described);
                    self.switch(now, mode);
                }
                None => self.fail(FollowError::NoMode),
            },
            Ok(None) => self.fail(FollowError::Unlisted),
            Err(error) => {
                // What the server answers is its last word; anything else may be better later.
                if !matches!(error, FollowError::Server(_) | FollowError::Refused(_)) {
                    let pause = error.retry_after().min(self.config.longest_poll);
                    let pause = pause.max(self.config.longest_backoff);
                    self.recheck_at.get_or_insert(now + pause);
                }
                self.fail(error);
            }
        }
    }

    /// Goes on in another mode, from the same position.
    fn switch(&mut self, now: Instant, mode: DeliveryMode) {
        if self.mode == mode {
            return;
        }
        self.mode = mode;
        if self.cursor.is_none() && self.has_begun {
            self.gap.get_or_insert(GapReason::NoReplay);
        }
        // A pause goes on: it may be one after a failure.
        if let State::Live { .. } = self.state {
            self.closes = true;
            self.wait_until(now);
        }
    }

    /// Asks for the list because the server has refused the type.
    pub(super) fn list(&mut self, now: Instant, refusal: RpcError) {
        self.refusal = Some(refusal);
        self.wait_until(now);
    }
}

/// Returns the mode in which a client gets the events of a type, without a receiver.
pub(super) fn mode(described: &EventType, has_streams: bool) -> Option<DeliveryMode> {
    let offers = |mode: &DeliveryMode| described.delivery.contains(mode);
    [DeliveryMode::Push, DeliveryMode::Poll]
        .into_iter()
        .filter(|mode| has_streams || *mode != DeliveryMode::Push)
        .find(offers)
}

/// Returns whether a type has polls.
pub(super) fn has_polls(described: &EventType) -> bool {
    described.delivery.contains(&DeliveryMode::Poll)
}
