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
//!
//! Instants are those of a clock that never goes back: an older one counts as the last one. The clock of the wall is that of
//! the [`Anchor`].
//!
//! State is in memory. A subscription whose grant is long or has no expiry has to outlive a restart (EVT-084); the application
//! [proves](Deliveries::prove) and subscribes it again from its own store then.
//!
//! [`poll_transmit`]: Deliveries::poll_transmit
//! [`poll_event`]: Deliveries::poll_event
//! [`poll_timeout`]: Deliveries::poll_timeout
//! [`handle_answer`]: Deliveries::handle_answer
//! [`handle_timeout`]: Deliveries::handle_timeout
//! [`subscribe`]: Deliveries::subscribe
//! [`publish`]: Deliveries::publish

mod config;
mod queue;
#[cfg(test)]
mod simulation;
mod subscription;
#[cfg(test)]
mod tests;
mod values;
mod verification;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use mcp_proto::http::Url;
use mcp_proto::{Anchor, Entropy, Instant, RawJson};

pub use config::Config;
pub use values::{
    Delivery, DeliveryId, Event, Failure, Grant, Outcome, PublishError, Stats, Subscribe, Subscribed,
    SubscriptionHandle, Ticket,
};

use crate::webhook::{
    Challenge, MAX_BODY, MAX_CHALLENGE_ANSWER, MEDIA_TYPE, SUBSCRIPTION_ID, SubscriptionKey, WEBHOOK_ID,
    WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, sign,
};
use crate::wire::{
    EventOccurrence, EventsError, MAX_CURSOR, MAX_EVENT_ID, MAX_NAME, Millis, Nullable, Profile,
    TerminatedEnvelope, WebhookIdRule,
};
use queue::{Message, Place, Queue};
use subscription::{Health, State, Subscription, category, message_id};
use verification::{ProofKey, Verifications, places, proof_of};

/// Room in a body for a cursor that may be longer than that of the event.
const CURSOR_ROOM: usize = MAX_CURSOR + 16;

/// A request that is in flight.
struct Attempt {
    purpose: Purpose,
    host: String,
    deadline: Instant,
}

enum Purpose {
    Challenge(ProofKey),
    Message(SubscriptionHandle, Place),
}

#[derive(Default)]
struct Host {
    in_flight: usize,
    /// What waits for an attempt of the host to end, by its turn.
    waiting: BTreeMap<u64, Waiter>,
}

enum Waiter {
    Challenge(ProofKey),
    Message(SubscriptionHandle),
}

/// What [`Deliveries::poll_transmit`] looks at first: each in turn, so that none holds up the others.
#[derive(Clone, Copy)]
enum Lane {
    /// Challenges to send.
    Challenges,
    /// Hosts of which an attempt has ended.
    Released,
    /// Subscriptions with messages that are due.
    Schedule,
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
    lane: Lane,
    challenges_in_flight: usize,
    verifications: Verifications,
    /// Bounded: each is caused by a call, or is the only one of its kind of a subscription.
    events: VecDeque<Event>,
    stats: Stats,
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
            lane: Lane::Challenges,
            challenges_in_flight: 0,
            verifications: Verifications::default(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Ties instants to Unix time anew, after the clock of the machine was set.
    pub const fn set_anchor(&mut self, anchor: Anchor) {
        self.anchor = anchor;
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

    // Commands.

    /// Makes a subscription, or refreshes the one with the same key (EVT-075): a new grant, the secret replaced, deliveries
    /// resumed, and its cursor and profile left as they are (EVT-078).
    ///
    /// # Errors
    ///
    /// The error to answer `events/subscribe` with; no live subscription changed.
    pub fn subscribe(&mut self, now: Instant, request: Subscribe) -> Result<Subscribed, EventsError> {
        let now = self.advance(now);
        let url = self.check(&request)?;
        self.admit(now, request, &url, false)
    }

    /// Grants a subscription, or begins its verification unless it `is_proved`.
    fn admit(
        &mut self,
        now: Instant,
        request: Subscribe,
        url: &Url,
        is_proved: bool,
    ) -> Result<Subscribed, EventsError> {
        if let Some(handle) = self.find(&request.key) {
            if self.subscriptions.get(&handle).is_some_and(|s| s.state != State::Ending) {
                return Ok(Subscribed::Granted(self.refresh(now, handle, request)));
            }
            // Another one begins; the end of this one is not worth telling any more.
            self.remove(handle);
            self.events.push_back(Event::Ended { subscription: handle });
        }
        let waiting = self.verifications.places();
        let limit = |limit, max: usize| EventsError::ResourceExhausted { limit, max: max as u64 };
        if self.subscriptions.len() + waiting >= self.config.subscriptions {
            return Err(limit("serverSubscriptions", self.config.subscriptions));
        }
        let most = self.config.subscriptions_per_principal;
        if self.principals.get(request.key.principal()).is_some_and(|count| *count >= most) {
            return Err(limit("subscriptions", most));
        }
        let proof = proof_of(&request.key);
        if is_proved || self.config.is_verified(url) || self.verifications.is_proved(now, &proof) {
            return Ok(Subscribed::Granted(self.create(now, request, url)));
        }
        let begins = !self.verifications.is_open(&proof);
        if begins {
            let mut nonce = [0; 24];
            self.entropy.fill(&mut nonce);
            let webhook_id = message_id("verification", self.random());
            let challenge = Challenge::new(nonce, now);
            self.verifications.begin(now, &proof, url, (webhook_id, challenge), &self.config)?;
        }
        let ticket = Ticket(self.number());
        if self.verifications.wait(&proof, ticket, request) || begins {
            *self.principals.entry(proof.0).or_default() += 1;
        }
        Ok(Subscribed::Verifying(ticket))
    }

    /// Lets a proof count for a principal and a URL until a Unix time (EVT-116): one from before a restart (EVT-117), or one
    /// that is no challenge, as a document of the receiver (EVT-113).
    ///
    /// Before a subscription that outlives a restart is subscribed again, a proof of a minute is enough. Of more proofs than
    /// [`Config::subscriptions`], the one that ends first is forgotten.
    pub fn prove(&mut self, now: Instant, principal: &str, url: &str, until: u64) {
        let now = self.advance(now);
        let life = Duration::from_secs(until.saturating_sub(self.anchor.unix_secs(now)));
        self.verifications.prove(&(principal.into(), url.into()), now + life, &self.config);
    }

    /// Returns the Unix time until which a proof counts, for the store of [`prove`](Self::prove); `None` if there is none.
    #[must_use]
    pub fn proved_until(&self, principal: &str, url: &str) -> Option<u64> {
        let until = self.verifications.proof(&(principal.into(), url.into()))?;
        Some(self.anchor.unix_secs(until))
    }

    /// Forgets a call that waits for a challenge, after its caller has gone. The last one of a challenge keeps its place of
    /// the principal until the challenge is answered, or dropped unsent.
    pub fn cancel(&mut self, ticket: Ticket) {
        if let Some(principal) = self.verifications.cancel(ticket) {
            self.release(&principal);
        }
    }

    /// Ends a subscription at the wish of its subscriber: nothing more is sent (EVT-130).
    ///
    /// # Errors
    ///
    /// [`EventsError::Forbidden`] without a principal (EVT-070); [`EventsError::SubscriptionNotFound`], unless the profile
    /// takes it as a success.
    pub fn unsubscribe(&mut self, key: &SubscriptionKey, profile: &Profile) -> Result<(), EventsError> {
        check_principal(key)?;
        let calls = self.verifications.calls_of(key);
        for ticket in &calls {
            self.cancel(*ticket);
            self.events
                .push_back(Event::Refused { ticket: *ticket, error: EventsError::SubscriptionNotFound });
        }
        match self.find(key) {
            Some(handle) => {
                self.remove(handle);
                Ok(())
            }
            None if !calls.is_empty() => Ok(()),
            None if profile.unsubscribe_is_idempotent => Ok(()),
            None => Err(EventsError::SubscriptionNotFound),
        }
    }

    /// Puts an event into the queue of a subscription. Its member `cursor` is its own position; what is sent is the
    /// watermark (EVT-099).
    ///
    /// # Errors
    ///
    /// [`PublishError`].
    pub fn publish(
        &mut self,
        now: Instant,
        subscription: SubscriptionHandle,
        event: &EventOccurrence,
    ) -> Result<(), PublishError> {
        let now = self.advance(now);
        let target = self.subscriptions.get(&subscription).ok_or(PublishError::Stale)?;
        if target.state == State::Ending {
            return Err(PublishError::Stale);
        }
        // It becomes a header field.
        let id = &event.event_id;
        if id.is_empty() || id.len() > MAX_EVENT_ID || !id.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(PublishError::EventId);
        }
        let cursor = event.cursor.as_ref().and_then(|cursor| cursor.0.clone());
        if cursor.as_deref().is_some_and(|cursor| !is_cursor(cursor)) {
            return Err(PublishError::Cursor);
        }
        let text = RawJson::encode(&EventOccurrence { cursor: None, ..event.clone() });
        let text = text.map_err(|_| PublishError::Encode)?;
        if text.member("type").is_some() {
            return Err(PublishError::Type);
        }
        if text.as_bytes().len() + CURSOR_ROOM > MAX_BODY {
            return Err(PublishError::TooLarge);
        }
        let webhook_id = match target.profile.webhook_id {
            WebhookIdRule::EventId => id.clone(),
            WebhookIdRule::Message => message_id("event", self.random()),
        };
        if let Some(target) = self.subscriptions.get_mut(&subscription) {
            target.queue.push(Message::Event(text), webhook_id, cursor, now);
            self.stats.published += 1;
        }
        self.bound(now, subscription);
        self.reschedule(subscription);
        Ok(())
    }

    /// Reports events that the application skipped for a subscription: `cursor` is the position to resume from (EVT-104).
    ///
    /// A gap that waits, and that no event follows, takes the cursor over. A profile without control envelopes, and one whose
    /// receiver does not take the gap, is told at the next refresh.
    pub fn report_gap(&mut self, now: Instant, subscription: SubscriptionHandle, cursor: &str) {
        let now = self.advance(now);
        let id = message_id("gap", self.random());
        let Some(target) = self.subscriptions.get_mut(&subscription) else { return };
        if target.state == State::Ending || !is_cursor(cursor) {
            return;
        }
        if target.profile.has_control_envelopes {
            target.queue.push_gap(id, cursor.into(), now);
        } else {
            let watermark = target.queue.watermark.clone();
            target.queue.hold(watermark);
        }
        self.bound(now, subscription);
        self.reschedule(subscription);
    }

    /// Ends a subscription for a cause: access lost, type removed or changed (EVT-020, EVT-104, EVT-162).
    ///
    /// Its events are dropped. `terminated` is sent as other messages are, unless the profile has no control envelopes;
    /// [`Event::Ended`] follows.
    pub fn terminate(&mut self, now: Instant, subscription: SubscriptionHandle, error: &EventsError) {
        let now = self.advance(now);
        let id = message_id("terminated", self.random());
        let Some(target) = self.subscriptions.get_mut(&subscription) else { return };
        if target.state == State::Ending {
            return;
        }
        let envelope = TerminatedEnvelope::new(error.to_object(&target.profile));
        match RawJson::encode(&envelope).ok().filter(|_| target.profile.has_control_envelopes) {
            Some(text) => {
                self.stats.cancelled += target.queue.events();
                // Answers to what is in flight find no place.
                let next = target.queue.successor();
                target.queue = next;
                target.state = State::Ending;
                target.queue.push(Message::Terminated(text), id, None, now);
                self.reschedule(subscription);
            }
            None => {
                self.remove(subscription);
                self.events.push_back(Event::Ended { subscription });
            }
        }
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

    /// Returns the next request that is due.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Delivery> {
        let now = self.advance(now);
        self.expire(now);
        if self.attempts.len() >= self.config.in_flight_total {
            return None;
        }
        for _ in 0..3 {
            let lane = self.lane;
            self.lane = match lane {
                Lane::Challenges => Lane::Released,
                Lane::Released => Lane::Schedule,
                Lane::Schedule => Lane::Challenges,
            };
            let delivery = match lane {
                Lane::Challenges => self.next_unsent(now),
                Lane::Released => self.next_released(now),
                Lane::Schedule => self.next_scheduled(now),
            };
            if delivery.is_some() {
                return delivery;
            }
        }
        None
    }

    fn next_unsent(&mut self, now: Instant) -> Option<Delivery> {
        while self.has_room_for_challenge() {
            let proof = self.verifications.unsent.pop_front()?;
            if let Some(delivery) = self.begin_challenge(now, proof, false) {
                return Some(delivery);
            }
        }
        None
    }

    fn next_released(&mut self, now: Instant) -> Option<Delivery> {
        while let Some(waiter) = self.next_waiting() {
            let delivery = match waiter {
                Waiter::Message(subscription) => self.begin_attempt(now, subscription, true),
                Waiter::Challenge(proof) if self.has_room_for_challenge() => {
                    self.begin_challenge(now, proof, true)
                }
                Waiter::Challenge(proof) => {
                    self.verifications.unsent.push_front(proof);
                    None
                }
            };
            if delivery.is_some() {
                return delivery;
            }
        }
        None
    }

    fn next_scheduled(&mut self, now: Instant) -> Option<Delivery> {
        while let Some((_, subscription)) = self.schedule.first().copied().filter(|(at, _)| *at <= now) {
            if let Some(delivery) = self.begin_attempt(now, subscription, false) {
                return Some(delivery);
            }
        }
        None
    }

    // Subscriptions.

    /// Checks what a subscriber may have chosen wrongly (EVT-070, EVT-071, EVT-110).
    fn check(&self, request: &Subscribe) -> Result<Url, EventsError> {
        check_principal(&request.key)?;
        let name = request.key.name();
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(EventsError::InvalidParams(format!("`name` is not 1 to {MAX_NAME} bytes")));
        }
        let most = self.config.arguments;
        if request.key.arguments().len() > most {
            return Err(EventsError::InvalidParams(format!("`arguments` are longer than {most} bytes")));
        }
        if request.cursor.as_deref().is_some_and(|cursor| !is_cursor(cursor)) {
            return Err(EventsError::InvalidParams(format!("`cursor` is longer than {MAX_CURSOR} bytes")));
        }
        let url = self.config.addresses.check_url(request.key.url());
        url.map_err(|error| EventsError::InvalidParams(format!("`delivery.url`: {error}")))
    }

    /// Returns the time of a grant (EVT-082, EVT-083).
    fn ttl(&self, suggested: Option<Nullable<Millis>>) -> Option<Duration> {
        let config = &self.config;
        let longest = config.max_ttl.max(config.min_ttl);
        match suggested {
            None => Some(config.default_ttl.clamp(config.min_ttl, longest)),
            Some(Nullable(None)) if config.grants_no_expiry => None,
            Some(Nullable(None)) => Some(longest),
            Some(Nullable(Some(Millis(millis)))) => {
                Some(Duration::from_millis(millis).clamp(config.min_ttl, longest))
            }
        }
    }

    fn grant(&mut self, now: Instant, handle: SubscriptionHandle, ttl: Option<Duration>) -> Option<u64> {
        let subscription = self.subscriptions.get_mut(&handle)?;
        if let Some(before) = subscription.expires_at {
            self.expiries.remove(&(before, handle));
        }
        subscription.expires_at = ttl.map(|ttl| now + ttl);
        let expires_at = subscription.expires_at?;
        self.expiries.insert((expires_at, handle));
        Some(self.anchor.unix_secs(expires_at))
    }

    fn create(&mut self, now: Instant, request: Subscribe, url: &Url) -> Grant {
        let ttl = self.ttl(request.ttl);
        let handle = SubscriptionHandle(self.number());
        let Subscribe { key, secret, cursor, truncated, profile, .. } = request;
        *self.principals.entry(key.principal().into()).or_default() += 1;
        self.handles.insert(key.clone(), handle);
        let id = key.id();
        let subscription = Subscription {
            key,
            id: id.clone(),
            host: host_of(url),
            url: url.clone(),
            profile,
            secret,
            older: Vec::new(),
            expires_at: None,
            state: State::Active,
            queue: Queue::new(cursor.clone()),
            in_flight: 0,
            counted: 0,
            scheduled: None,
            waiting: None,
            last_turn: now,
            throttled_until: None,
            health: Health::default(),
        };
        self.subscriptions.insert(handle, subscription);
        let refresh_before = self.grant(now, handle, ttl);
        Grant { subscription: handle, id, refresh_before, cursor, truncated, status: None }
    }

    fn refresh(&mut self, now: Instant, handle: SubscriptionHandle, request: Subscribe) -> Grant {
        let ttl = self.ttl(request.ttl);
        let grace = self.config.rotation_grace;
        let refresh_before = self.grant(now, handle, ttl);
        let mut grant = Grant {
            subscription: handle,
            id: String::new(),
            refresh_before,
            cursor: None,
            truncated: false,
            status: None,
        };
        if let Some(subscription) = self.subscriptions.get_mut(&handle) {
            grant.status = Some(subscription.status(now, &self.anchor));
            subscription.rotate(request.secret, now, grace);
            if let State::Suspended(since) = subscription.state {
                subscription.state = State::Active;
                subscription.health.resume();
                subscription.queue.shift(now.saturating_duration_since(since), now);
            }
            grant.id.clone_from(&subscription.id);
            grant.cursor.clone_from(&subscription.queue.watermark);
            grant.truncated = subscription.queue.tell();
        }
        self.reschedule(handle);
        grant
    }

    /// Removes a subscription; answers to its requests are ignored.
    fn remove(&mut self, handle: SubscriptionHandle) {
        let Some(subscription) = self.subscriptions.remove(&handle) else { return };
        self.handles.remove(&subscription.key);
        self.release(subscription.key.principal());
        if let Some(at) = subscription.scheduled {
            self.schedule.remove(&(at, handle));
        }
        if let Some(at) = subscription.expires_at {
            self.expiries.remove(&(at, handle));
        }
        self.sizes.remove(&(subscription.counted, handle));
        self.queued -= subscription.counted;
        if let Some(host) = self.hosts.get_mut(&subscription.host) {
            subscription.waiting.map(|turn| host.waiting.remove(&turn));
            if host.in_flight == 0 && host.waiting.is_empty() {
                self.hosts.remove(&subscription.host);
            }
        }
        self.stats.cancelled += subscription.queue.events();
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, subscription)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.remove(subscription);
            self.events.push_back(Event::Ended { subscription });
        }
    }

    /// Gives a place of a principal back.
    fn release(&mut self, principal: &str) {
        if let Some(count) = self.principals.get_mut(principal) {
            *count -= 1;
            if *count == 0 {
                self.principals.remove(principal);
            }
        }
    }

    // Challenges.

    fn has_room_for_challenge(&self) -> bool {
        self.challenges_in_flight < self.config.challenges_in_flight()
    }

    /// Sends a challenge, unless nobody waits for it any more, or it has to wait for its host.
    fn begin_challenge(&mut self, now: Instant, proof: ProofKey, is_turn: bool) -> Option<Delivery> {
        let Some(host) = self.verifications.host(&proof) else {
            self.verifications.forget(&proof);
            self.release(&proof.0);
            return None;
        };
        if !is_turn && !self.has_room(&host) {
            self.wait(&host, Waiter::Challenge(proof));
            return None;
        }
        let unix_secs = self.anchor.unix_secs(now);
        let (url, headers, body) = self.verifications.challenge(&proof, unix_secs)?;
        self.challenges_in_flight += 1;
        Some(self.transmit(now, url, host, headers, body, Purpose::Challenge(proof)))
    }

    fn end_verification(&mut self, now: Instant, proof: &ProofKey, outcome: &Outcome<'_>) {
        let Some((failure, url, calls)) = self.verifications.end(now, proof, outcome, &self.config) else {
            return;
        };
        for _ in 0..places(calls.len()) {
            self.release(&proof.0);
        }
        for (ticket, request) in calls {
            let outcome = match &failure {
                Some(failure) => Err(EventsError::CallbackEndpoint(failure.clone())),
                // It is proved for these calls; limits may have been reached meanwhile.
                None => self.admit(now, request, &url, true),
            };
            self.events.extend(match outcome {
                Ok(Subscribed::Granted(grant)) => Some(Event::Verified { ticket, grant }),
                Ok(Subscribed::Verifying(_)) => None,
                Err(error) => Some(Event::Refused { ticket, error }),
            });
        }
    }

    // Attempts.

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

    fn begin_attempt(&mut self, now: Instant, handle: SubscriptionHandle, is_turn: bool) -> Option<Delivery> {
        let has_room =
            is_turn || self.subscriptions.get(&handle).is_some_and(|target| self.has_room(&target.host));
        let subscription = self.subscriptions.get_mut(&handle)?;
        if is_turn {
            subscription.waiting = None;
        }
        if let Some(at) = subscription.scheduled.take() {
            self.schedule.remove(&(at, handle));
        }
        if subscription.next_attempt(self.config.in_flight).is_none_or(|at| at > now) {
            self.reschedule(handle);
            return None;
        }
        if !has_room {
            if subscription.waiting.is_none() {
                let host = subscription.host.clone();
                let turn = self.wait(&host, Waiter::Message(handle));
                self.subscriptions.get_mut(&handle)?.waiting = Some(turn);
            }
            return None;
        }
        let (place, entry, cursor) = subscription.queue.begin(now)?;
        let body = body(&entry.message, cursor);
        let webhook_id = entry.webhook_id.clone();
        let unix_secs = self.anchor.unix_secs(now);
        let signature = sign(subscription.secrets(now), &webhook_id, unix_secs, &body);
        let headers = headers(&webhook_id, unix_secs, signature, &subscription.id);
        subscription.in_flight += 1;
        subscription.last_turn = now;
        let (host, url) = (subscription.host.clone(), subscription.url.clone());
        self.reschedule(handle);
        Some(self.transmit(now, url, host, headers, body, Purpose::Message(handle, place)))
    }

    fn transmit(
        &mut self,
        now: Instant,
        url: Url,
        host: String,
        headers: Headers,
        body: Vec<u8>,
        purpose: Purpose,
    ) -> Delivery {
        let id = DeliveryId(self.number());
        let deadline = now + self.config.attempt_timeout;
        let max_answer = match purpose {
            Purpose::Challenge(_) => MAX_CHALLENGE_ANSWER + 1,
            // Its status tells all.
            Purpose::Message(..) => 0,
        };
        self.hosts.entry(host.clone()).or_default().in_flight += 1;
        self.attempts.insert(id, Attempt { purpose, host, deadline });
        self.deadlines.insert((deadline, id));
        Delivery { id, url, headers, body, deadline, max_answer }
    }

    /// Returns whether an attempt to a host may begin: there is room, and nothing waits for it.
    fn has_room(&self, host: &str) -> bool {
        let most = self.config.in_flight_per_host;
        self.hosts.get(host).is_none_or(|host| host.in_flight < most && host.waiting.is_empty())
    }

    /// Lets something wait for an attempt of a host to end; returns its turn.
    fn wait(&mut self, host: &str, waiter: Waiter) -> u64 {
        let turn = self.number();
        self.hosts.entry(host.into()).or_default().waiting.insert(turn, waiter);
        turn
    }

    fn leave_host(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.in_flight -= 1;
        if !host.waiting.is_empty() {
            self.released.insert(name.into());
        } else if host.in_flight == 0 {
            self.hosts.remove(name);
        }
    }

    /// Returns what waits longest for an attempt of its host to end, if one has.
    fn next_waiting(&mut self) -> Option<Waiter> {
        while let Some(name) = self.released.first() {
            let host =
                self.hosts.get_mut(name).filter(|host| host.in_flight < self.config.in_flight_per_host);
            if let Some((_, next)) = host.and_then(|host| host.waiting.pop_first()) {
                return Some(next);
            }
            // None waits, or as many as allowed are in flight again; the end of one of these releases the next.
            if let Some(name) = self.released.pop_first() {
                if self.hosts.get(&name).is_some_and(|host| host.in_flight == 0 && host.waiting.is_empty()) {
                    self.hosts.remove(&name);
                }
            }
        }
        None
    }

    fn end_attempt(&mut self, now: Instant, handle: SubscriptionHandle, place: Place, outcome: &Outcome<'_>) {
        let (jitter, config) = (self.random(), &self.config);
        let Some(subscription) = self.subscriptions.get_mut(&handle) else { return };
        subscription.in_flight -= 1;
        let Some(entry) = subscription.queue.entry(place) else { return self.reschedule(handle) };
        let mut retry_after = Duration::ZERO;
        let is_done = match outcome {
            Outcome::Answer { status: 200..=299, .. } => {
                subscription.health.succeed(now);
                true
            }
            // EVT-096: final for this message, and no fault of the endpoint.
            Outcome::Answer { status: status @ (410 | 413), .. } => {
                subscription.health.last_error = Some(category(*status));
                true
            }
            Outcome::Answer { status: status @ (429 | 503), retry_after: Some(wait), .. } => {
                // EVT-102: delayed, not failing.
                subscription.health.last_error = Some(category(*status));
                retry_after = (*wait).min(config.max_retry_after);
                let until = now + retry_after;
                subscription.throttled_until = subscription.throttled_until.max(Some(until));
                false
            }
            Outcome::Answer { status, .. } => {
                subscription.health.fail(now, category(*status));
                false
            }
            Outcome::Failed(failure) => {
                subscription.health.fail(now, failure.category());
                false
            }
        };
        let at = usize::try_from(entry.attempts).unwrap_or_default().saturating_sub(1);
        let pause = config.backoff.get(at).or_else(|| config.backoff.last()).copied().unwrap_or_default();
        let due = now + vary(pause, jitter).max(retry_after);
        let is_late = due.saturating_duration_since(entry.since) > config.retry_window;
        if !is_done && entry.attempts < config.attempts && !is_late {
            subscription.queue.retry(place, due);
        } else {
            let acknowledged = matches!(outcome, Outcome::Answer { status: 200..=299, .. });
            if matches!(entry.message, Message::Gap) && !acknowledged {
                // Nobody was told.
                let watermark = subscription.queue.watermark.clone();
                subscription.queue.hold(watermark);
            }
            match subscription.queue.finish(place) {
                Some(Message::Event(_)) if acknowledged => self.stats.acknowledged += 1,
                Some(Message::Event(_)) => self.stats.abandoned += 1,
                _ => {}
            }
            if subscription.state == State::Ending && subscription.queue.is_empty() {
                self.remove(handle);
                self.events.push_back(Event::Ended { subscription: handle });
                return;
            }
        }
        let is_over = subscription.health.is_over(now, config.suspension_attempts, config.suspension_percent);
        if subscription.state == State::Active && is_over {
            subscription.state = State::Suspended(now);
            self.events.push_back(Event::Suspended { subscription: handle });
        }
        self.reschedule(handle);
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

/// Refuses a subscriber without a name (EVT-070).
fn check_principal(key: &SubscriptionKey) -> Result<(), EventsError> {
    if key.principal().is_empty() {
        return Err(EventsError::Forbidden("webhooks need an authenticated principal".into()));
    }
    Ok(())
}

/// Returns whether a cursor fits into every body.
fn is_cursor(cursor: &str) -> bool {
    RawJson::encode(cursor).is_ok_and(|text| text.as_bytes().len() <= MAX_CURSOR + 2)
}

/// Returns the name that attempts to a host are counted by: with and without the dot of the root it is one host.
fn host_of(url: &Url) -> String {
    let host = url.origin().host.to_string();
    host.strip_suffix('.').map(String::from).unwrap_or(host)
}

/// Returns three quarters to five quarters of a duration.
fn vary(pause: Duration, [low, high, ..]: [u8; 16]) -> Duration {
    let random = u32::from(u16::from_le_bytes([low, high]));
    pause * 3 / 4 + pause / 2 * random / u32::from(u16::MAX)
}

/// Returns the body of a message (EVT-099, EVT-103).
fn body(message: &Message, cursor: Option<&str>) -> Vec<u8> {
    // A string is always encoded.
    let cursor = cursor.and_then(|cursor| RawJson::encode(cursor).ok());
    let cursor = cursor.as_ref().map_or("null", RawJson::as_str);
    match message {
        Message::Event(text) => {
            let members = text.as_str().strip_suffix('}').unwrap_or_default();
            format!(r#"{members},"cursor":{cursor}}}"#).into_bytes()
        }
        Message::Gap => format!(r#"{{"type":"gap","cursor":{cursor}}}"#).into_bytes(),
        Message::Terminated(text) => text.as_bytes().into(),
    }
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
