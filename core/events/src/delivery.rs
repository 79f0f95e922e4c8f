//! Deliveries of a server to webhooks: subscriptions, challenges, queues, retries, watermarks.
//!
//! [`Deliveries`] is one state machine for all webhook subscriptions of a server. It makes no request: [`poll_transmit`]
//! returns each request that is due, the caller sends it, and tells the outcome with [`handle_answer`]. The contract is that
//! of the machines of the core:
//!
//! 1. Pass in what happened: commands ([`subscribe`], [`publish`], …), outcomes ([`handle_answer`]), and deadlines that
//!    passed ([`handle_timeout`]), in any order.
//! 2. Take requests ([`poll_transmit`]) and events ([`poll_event`]) until there are none.
//! 3. Wait for a command, an outcome, or the deadline of [`poll_timeout`].
//!
//! For each request the caller resolves the host, checks **all** its addresses with
//! [`AddressPolicy::check_addresses`](crate::address::AddressPolicy::check_addresses), connects to one of them with the name
//! of the URL in `Host` and TLS, follows no redirect, and reads at most [`Delivery::max_answer`] bytes of the body (EVT-111,
//! EVT-112). A blocked address is [`Failure::Blocked`]. The module `post` does this on `std`.
//!
//! - **Nothing is delivered before the owner of the URL has proved that he wants it** (EVT-113): by a challenge,
//!   [`Config::verified_origin`], or [`Deliveries::prove`]. A proof counts for a principal and a URL, and never for another principal (EVT-116).
//! - **Every event is acknowledged, abandoned, skipped, or dropped with its subscription**; [`Stats`] counts each once. What
//!   was skipped is told by a gap, or by `truncated` at the next refresh, unless its type has no positions.
//! - **The cursor never passes an open event** (EVT-099).
//! - **No message is attempted more often than [`Config::attempts`]**; each attempt has its own time and signature (EVT-093).
//! - Nothing of an answer is in an error, a status or an event: only its category (EVT-101).
//! - **No subscription stays for ever because nobody ends it** (EVT-131): one expires, or ends after [`Config::give_up_after`] of
//!   failures. A receiver that only answers 410 or 413, or 429 or 503 with `Retry-After`, never fails (EVT-096, EVT-102): without
//!   an expiry its subscription stays until someone ends it.
//!
//! Instants are those of a clock that never goes back: an older one counts as the last one. The clock of the wall is that of
//! the [`Anchor`].
//!
//! State is in memory. A subscription whose grant is long or has no expiry has to outlive a restart (EVT-084): after
//! [`track_changes`](Deliveries::track_changes) the machine makes records of what a [`store`](crate::store) keeps, and
//! [`restore`](Deliveries::restore) takes a subscription back in.
//!
//! [`poll_transmit`]: Deliveries::poll_transmit
//! [`poll_event`]: Deliveries::poll_event
//! [`poll_timeout`]: Deliveries::poll_timeout
//! [`handle_answer`]: Deliveries::handle_answer
//! [`handle_timeout`]: Deliveries::handle_timeout
//! [`subscribe`]: Deliveries::subscribe
//! [`publish`]: Deliveries::publish

mod attempts;
mod commands;
mod config;
mod queue;
mod restore;
#[cfg(test)]
pub(crate) mod simulation;
mod subscription;
#[cfg(test)]
mod tests;
mod values;
mod verification;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString as _};
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use mcp_proto::http::Url;
use mcp_proto::{Anchor, Entropy, Instant};

pub use config::Config;
pub use values::{
    Delivery, DeliveryId, Event, Failure, Grant, Outcome, PublishError, Stats, Subscribe, Subscribed,
    SubscriptionHandle, Ticket,
};

use crate::webhook::{
    MEDIA_TYPE, SUBSCRIPTION_ID, SubscriptionKey, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP,
};
use attempts::{Attempt, Host, Purpose, Turn};
use restore::Changes;
use subscription::{Subscription, message_id};
use verification::Verifications;

/// Sends the requests of [`Deliveries`], and passes their outcomes and the time in. `post::Deliverer` does it on a thread.
pub trait DriveDeliveries: Send + Sync {
    /// Calls `f` once with the machine and the time of its clock, and sends what is due then. If it does not call it, what was to
    /// be done is refused; a subscription of a store stays there, and goes on when a type is added next.
    fn with_deliveries(&self, f: &mut dyn FnMut(&mut Deliveries, Instant));

    /// Sets the waker that is woken when [`Deliveries::has_events`] or [`Deliveries::has_changes`].
    fn register(&self, waker: &Waker);

    /// Sends what is due until `timeout` has passed, and nothing behind it. Returns whether no message is
    /// [open](Deliveries::has_open_messages).
    fn finish(&self, timeout: Duration) -> bool;
}

/// Webhook deliveries of a server.
pub struct Deliveries {
    config: Config,
    entropy: Entropy,
    anchor: Anchor,
    /// The latest time that was passed in.
    now: Instant,
    /// Number of the next handle, ticket or id.
    next: u64,
    subscriptions: BTreeMap<SubscriptionHandle, Subscription>,
    handles: BTreeMap<SubscriptionKey, SubscriptionHandle>,
    /// Number of subscriptions, and of calls that wait, per principal.
    principals: BTreeMap<String, usize>,
    /// When each subscription has its next attempt. Invariant: `Subscription::scheduled` has the same instant.
    schedule: BTreeSet<(Instant, SubscriptionHandle)>,
    /// When each subscription ends by itself. Invariant: `Subscription::ends_at` is the same instant.
    expiries: BTreeSet<(Instant, SubscriptionHandle)>,
    /// Subscriptions by the bytes of their queues. Invariant: `Subscription::counted` is the same number.
    sizes: BTreeSet<(usize, SubscriptionHandle)>,
    /// Sum of the bytes of all queues.
    queued: usize,
    attempts: BTreeMap<DeliveryId, Attempt>,
    deadlines: BTreeSet<(Instant, DeliveryId)>,
    /// Hosts with attempts or waiters.
    hosts: BTreeMap<String, Host>,
    /// Hosts with waiters of which an attempt has ended.
    released: BTreeSet<String>,
    turn: Turn,
    challenges_in_flight: usize,
    verifications: Verifications,
    /// Bounded: each is caused by a call, or is the only one of its kind of a subscription.
    events: VecDeque<Event>,
    stats: Stats,
    /// What a store does not know yet.
    changes: Changes,
}

/// Shows numbers alone: events and URLs belong to others.
impl fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries")
            .field("subscriptions", &self.subscriptions.len())
            .field("in_flight", &self.attempts.len())
            .field("calls", &self.verifications.calls())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Deliveries {
    /// Creates a machine without subscriptions.
    ///
    /// `entropy` makes nonces, message ids and jitter; `anchor` ties instants to Unix time.
    #[must_use]
    pub fn new(config: Config, entropy: Entropy, anchor: Anchor) -> Self {
        Self {
            config: config.checked(),
            entropy,
            anchor,
            now: Instant::ZERO,
            next: 0,
            subscriptions: BTreeMap::new(),
            handles: BTreeMap::new(),
            principals: BTreeMap::new(),
            schedule: BTreeSet::new(),
            expiries: BTreeSet::new(),
            sizes: BTreeSet::new(),
            queued: 0,
            attempts: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            hosts: BTreeMap::new(),
            released: BTreeSet::new(),
            turn: Turn::Challenges,
            challenges_in_flight: 0,
            verifications: Verifications::default(),
            events: VecDeque::new(),
            stats: Stats::default(),
            changes: Changes::default(),
        }
    }

    /// Ties instants to Unix time anew, after the clock of the machine was set. Grants, proofs and pauses last as long as before;
    /// their Unix times are those of the new clock, also for a [store](crate::store).
    pub fn set_anchor(&mut self, anchor: Anchor) {
        let (from, to) = (self.anchor.unix_secs(self.now), anchor.unix_secs(self.now));
        self.anchor = anchor;
        if from != to {
            for (handle, subscription) in &mut self.subscriptions {
                subscription.follow_clock(from, to);
                self.changes.subscription(*handle);
            }
        }
    }

    /// Returns the bounds and choices.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the numbers of events.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Returns whether there is no subscription.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// Returns the subscription of a key.
    #[must_use]
    pub fn find(&self, key: &SubscriptionKey) -> Option<SubscriptionHandle> {
        self.handles.get(key).copied()
    }

    /// Returns the key of a subscription.
    #[must_use]
    pub fn key(&self, subscription: SubscriptionHandle) -> Option<&SubscriptionKey> {
        self.subscriptions.get(&subscription).map(|subscription| &subscription.key)
    }

    // Inputs.

    /// Takes in the outcome of a request. One that is too late, or of a subscription that has ended, is ignored.
    pub fn handle_answer(&mut self, now: Instant, id: DeliveryId, outcome: &Outcome<'_>) {
        let now = self.advance(now);
        let Some(attempt) = self.attempts.remove(&id) else { return };
        self.deadlines.remove(&(attempt.deadline, id));
        self.leave_host(&attempt.host);
        match attempt.purpose {
            Purpose::Challenge(proof) => {
                self.challenges_in_flight -= 1;
                self.end_verification(now, &proof, outcome);
            }
            Purpose::Message(subscription, place) => self.end_attempt(now, subscription, place, outcome),
        }
    }

    /// Takes in that time has passed: attempts without an answer fail, and subscriptions expire.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.handle_answer(now, id, &Outcome::Failed(Failure::Timeout));
        }
        self.expire(now);
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) next.
    ///
    /// An attempt that is due now and waits for one in flight has no deadline of its own.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = |set: &BTreeSet<(Instant, SubscriptionHandle)>| set.first().map(|(at, _)| *at);
        let is_full = self.attempts.len() >= self.config.in_flight_total;
        let has_challenge = !self.verifications.unsent.is_empty() && self.has_room_for_challenge();
        let is_due = has_challenge || !self.released.is_empty();
        let at_once = is_due.then_some(self.now);
        let attempt = [first(&self.schedule), at_once].into_iter().flatten().min().filter(|_| !is_full);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        [attempt, deadline, first(&self.expiries)].into_iter().flatten().min()
    }

    /// Returns whether no request is in flight, and none is due until then.
    #[must_use]
    pub fn is_idle_until(&self, until: Instant) -> bool {
        let is_due = self.schedule.first().is_some_and(|(at, _)| *at <= until);
        self.attempts.is_empty()
            && self.released.is_empty()
            && self.verifications.unsent.is_empty()
            && !is_due
    }

    /// Returns whether a message is neither acknowledged nor given up: one that waits for its next attempt, or that its
    /// subscription goes on (EVT-098).
    #[must_use]
    pub fn has_open_messages(&self) -> bool {
        self.queued > 0
    }

    /// Returns whether [`poll_event`](Self::poll_event) has news.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the next news.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // Queues.

    /// Puts a subscription into the schedule at the time of its next attempt, after its queue has changed.
    fn reschedule(&mut self, handle: SubscriptionHandle) {
        self.count(handle);
        let Some(subscription) = self.subscriptions.get_mut(&handle) else { return };
        let next = subscription.next_attempt(self.config.in_flight);
        if subscription.scheduled != next {
            if let Some(before) = core::mem::replace(&mut subscription.scheduled, next) {
                self.schedule.remove(&(before, handle));
            }
            self.schedule.extend(next.map(|at| (at, handle)));
        }
    }

    /// Makes room in a queue that is over its bounds, and in the largest ones if all are over theirs (EVT-104).
    fn bound(&mut self, now: Instant, handle: SubscriptionHandle) {
        let (count, bytes) = (self.config.queue_messages, self.config.queue_bytes);
        if self.subscriptions.get(&handle).is_some_and(|s| s.queue.is_over(count, bytes)) {
            self.skip(now, handle, count, bytes);
        }
        self.count(handle);
        let mut at = (usize::MAX, SubscriptionHandle(u64::MAX));
        while self.queued > self.config.queued_bytes {
            // What is in flight stays, so the next one has its turn.
            let Some(largest) = self.sizes.range(..at).next_back().copied() else { break };
            at = largest;
            self.skip(now, largest.1, usize::MAX, largest.0);
            self.reschedule(largest.1);
        }
    }

    /// Skips events until half of the bounds is free.
    fn skip(&mut self, now: Instant, handle: SubscriptionHandle, count: usize, bytes: usize) {
        let id = message_id("gap", self.random());
        let Some(subscription) = self.subscriptions.get_mut(&handle) else { return };
        // A type without positions has no replay, so a gap would not tell what to do (EVT-147).
        let has_positions = subscription.queue.watermark.is_some() || subscription.queue.has_cursor();
        let has_gap = subscription.profile.has_control_envelopes && has_positions;
        let watermark = subscription.queue.watermark.clone();
        let skipped = subscription.queue.skip(count, bytes, has_gap.then_some(id), now);
        self.stats.skipped += skipped;
        if skipped > 0 && has_positions && !has_gap {
            subscription.queue.hold(watermark);
            self.changes.progress(handle);
        }
    }

    /// Takes in that the bytes of a queue have changed.
    fn count(&mut self, handle: SubscriptionHandle) {
        let Some(subscription) = self.subscriptions.get_mut(&handle) else { return };
        let bytes = subscription.queue.bytes();
        let before = core::mem::replace(&mut subscription.counted, bytes);
        if before != bytes {
            self.sizes.remove(&(before, handle));
            self.queued = self.queued + bytes - before;
            self.sizes.extend((bytes > 0).then_some((bytes, handle)));
        }
    }

    // Time, numbers, randomness.

    /// Takes in the time; an instant older than the last one counts as the last one.
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn random(&mut self) -> [u8; 16] {
        let mut random = [0; 16];
        self.entropy.fill(&mut random);
        random
    }
}

/// Returns the name that attempts to a host are counted by: with and without the dot of the root it is one host.
fn host_of(url: &Url) -> String {
    let host = url.origin().host.to_string();
    host.strip_suffix('.').map(String::from).unwrap_or(host)
}

/// The header fields of a request.
type Headers = [(&'static str, String); 5];

/// Returns the header fields of every request (EVT-090).
fn headers(webhook_id: &str, unix_secs: u64, signature: String, id: &str) -> Headers {
    [
        ("Content-Type", MEDIA_TYPE.into()),
        (WEBHOOK_ID, webhook_id.into()),
        (WEBHOOK_TIMESTAMP, unix_secs.to_string()),
        (WEBHOOK_SIGNATURE, signature),
        (SUBSCRIPTION_ID, id.into()),
    ]
}
