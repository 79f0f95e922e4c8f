//! What of the subscriptions outlives a restart: changes as records, and their way back.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Instant, RawJson};

use super::queue::{Message, Queue};
use super::subscription::{Health, OLDER_SECRETS, State, Subscription, message_id};
use super::{Deliveries, SubscriptionHandle, host_of};
use crate::store::{Progress, Record, StoredSubscription};
use crate::wire::CallbackUrl;

/// What a store does not know yet; nothing unless it is tracked.
#[derive(Default)]
pub(super) struct Changes {
    is_tracked: bool,
    /// Ids of subscriptions that have ended.
    ended: BTreeSet<String>,
    /// Subscriptions that were made, refreshed or terminated. Each is open.
    subscriptions: BTreeSet<SubscriptionHandle>,
    /// Subscriptions with other changes. Each is open.
    progress: BTreeSet<SubscriptionHandle>,
}

impl Changes {
    pub(super) fn subscription(&mut self, handle: SubscriptionHandle) {
        if self.is_tracked {
            self.subscriptions.insert(handle);
        }
    }

    pub(super) fn progress(&mut self, handle: SubscriptionHandle) {
        if self.is_tracked {
            self.progress.insert(handle);
        }
    }

    pub(super) fn ended(&mut self, handle: SubscriptionHandle, id: &str) {
        self.subscriptions.remove(&handle);
        self.progress.remove(&handle);
        if self.is_tracked {
            self.ended.insert(id.into());
        }
    }
}

impl Deliveries {
    /// Makes records of changes from now on, for [`poll_change`](Self::poll_change). They are kept until they are taken: take
    /// them after each use of the machine, or ids of subscriptions that have ended pile up.
    pub const fn track_changes(&mut self) {
        self.changes.is_tracked = true;
    }

    /// Returns whether [`poll_change`](Self::poll_change) has records.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        let Changes { ended, subscriptions, progress, .. } = &self.changes;
        !(ended.is_empty() && subscriptions.is_empty() && progress.is_empty())
    }

    /// Returns the record of a change, in the order in which a store has to add them. One of progress stands for all since the
    /// last one of its subscription.
    #[must_use]
    pub fn poll_change(&mut self) -> Option<Record> {
        // One that has ended may have been made again since then.
        if let Some(id) = self.changes.ended.pop_first() {
            return Some(Record::SubscriptionEnded { id });
        }
        if let Some(handle) = self.changes.subscriptions.pop_first() {
            self.changes.progress.remove(&handle);
            return self.stored(handle).map(|stored| Record::Subscription(stored.into()));
        }
        let handle = self.changes.progress.pop_first()?;
        let subscription = self.subscriptions.get(&handle)?;
        Some(Record::Progress { id: subscription.id.clone(), progress: subscription.progress() })
    }

    /// Returns the records of everything that a store keeps of this machine.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let stored = self.subscriptions.keys().filter_map(|handle| self.stored(*handle));
        stored.map(|stored| Record::Subscription(stored.into()))
    }

    fn stored(&self, handle: SubscriptionHandle) -> Option<StoredSubscription> {
        let subscription = self.subscriptions.get(&handle)?;
        let unix_secs = |at: Instant| self.anchor.unix_secs(at);
        let (principal, url) = (subscription.key.principal(), subscription.key.url());
        Some(StoredSubscription {
            principal: principal.into(),
            scopes: subscription.scopes.clone(),
            url: CallbackUrl(url.into()),
            name: subscription.key.name().into(),
            arguments: RawJson::new(subscription.key.arguments().to_string()).ok()?,
            secret: subscription.secret.clone(),
            older: subscription.older.iter().map(|(s, until)| (s.clone(), unix_secs(*until))).collect(),
            granted_at: subscription.granted_at,
            expires_at: subscription.expires_at.map(unix_secs),
            proved_until: self.proved_until(principal, url),
            profile: subscription.profile,
            terminated: subscription.queue.terminated().cloned(),
            progress: subscription.progress(),
        })
    }

    /// Takes a subscription of a store back in, without a challenge: its proof was kept with it (EVT-084, EVT-117). The caller
    /// publishes what its type has behind [`Progress::cursor`], and after that what comes. Not for one that was
    /// [terminated](StoredSubscription::terminated): that is all that is delivered of it.
    ///
    /// Attempts are counted from the beginning, and so is the rate of failures. The time since which every attempt has failed
    /// goes on ([`Config::give_up_after`](super::Config::give_up_after)).
    ///
    /// `None` if it has expired, if its URL or its size is not allowed any more, if limits are reached, or if there is one with
    /// its key; nothing changed then.
    pub fn restore(&mut self, now: Instant, stored: &StoredSubscription) -> Option<SubscriptionHandle> {
        let now = self.advance(now);
        let unix_now = self.anchor.unix_secs(now);
        let left = |until: u64| until.checked_sub(unix_now).filter(|left| *left > 0).map(Duration::from_secs);
        let expires_at = match stored.expires_at {
            // If the clock was set back meanwhile, it lasts as long as it was granted for, and not longer.
            Some(at) => Some(now + left(at)?.min(Duration::from_secs(at.saturating_sub(stored.granted_at)))),
            None => None,
        };
        let key = stored.key()?;
        let url = self.config.addresses.check_url(key.url()).ok()?;
        let of_principal = self.principals.get(key.principal()).copied().unwrap_or_default();
        let is_full = self.subscriptions.len() + self.verifications.places() >= self.config.subscriptions
            || of_principal >= self.config.subscriptions_per_principal;
        let is_wrong = key.principal().is_empty() || key.arguments().len() > self.config.arguments;
        if is_full || is_wrong || self.find(&key).is_some() {
            return None;
        }
        let grace = self.config.rotation_grace;
        let older = stored.older.iter();
        let older =
            older.filter_map(|(secret, until)| Some((secret.clone(), now + left(*until)?.min(grace))));
        let older: Vec<_> = older.take(OLDER_SECRETS).collect();
        let Progress { cursor, starts_truncated, is_suspended, last_delivery_at, last_error, failed_since } =
            stored.progress.clone();
        let truncated_at = cursor.clone().filter(|_| starts_truncated && stored.terminated.is_none());
        let mut queue = Queue::new(cursor);
        let state = match &stored.terminated {
            Some(envelope) => {
                let id = message_id("terminated", self.random());
                queue.push(Message::Terminated(envelope.clone()), id, None, now);
                State::Ending
            }
            None if is_suspended => State::Suspended(now),
            None => State::Active,
        };
        if let Some(until) = stored.proved_until {
            self.prove(now, key.principal(), key.url(), until);
        }
        let subscription = Subscription {
            id: key.id(),
            key,
            scopes: stored.scopes.clone(),
            host: host_of(&url),
            url,
            profile: stored.profile,
            secret: stored.secret.clone(),
            older,
            granted_at: stored.granted_at,
            expires_at: None,
            gives_up_at: None,
            state,
            queue,
            in_flight: 0,
            counted: 0,
            scheduled: None,
            waiting: None,
            last_turn: now,
            throttled_until: None,
            health: Health::restored(last_delivery_at, last_error, failed_since),
        };
        let gives_up_at = failed_since.map(|since| {
            let failing = Duration::from_secs(unix_now.saturating_sub(since.max(stored.granted_at)));
            // The time in which no server ran is no failure of the receiver: it has its attempts first.
            now + self.config.give_up_after.saturating_sub(failing).max(self.config.retry_window)
        });
        let is_watched = expires_at.is_none() && state != State::Ending;
        let handle = self.insert(subscription);
        self.set_end(handle, expires_at, gives_up_at.filter(|_| is_watched));
        if let Some(cursor) = truncated_at {
            self.report_gap(now, handle, &cursor);
        }
        self.reschedule(handle);
        Some(handle)
    }
}
