//! Commands of the application: subscriptions begin, are refreshed, get events, and end.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::http::Url;
use mcp_proto::{Instant, RawJson};

use super::queue::{Message, Queue};
use super::subscription::{Health, State, Subscription, message_id};
use super::verification::proof_of;
use super::{
    Deliveries, Event, Grant, PublishError, Subscribe, Subscribed, SubscriptionHandle, Ticket, host_of,
};
use crate::webhook::{Challenge, MAX_BODY, SubscriptionKey};
use crate::wire::{
    CallbackFailure, EventOccurrence, EventsError, MAX_CURSOR, MAX_EVENT_ID, MAX_NAME, Millis, Nullable,
    Profile, TerminatedEnvelope, WebhookIdRule,
};

/// Room in a body for a cursor that may be longer than that of the event.
const CURSOR_ROOM: usize = MAX_CURSOR + 16;

impl Deliveries {
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
    pub(super) fn admit(
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

    /// Lets a proof count for a principal and a URL until a Unix time (EVT-116): one that is no challenge, as a document of the
    /// receiver, or an agreement with its owner (EVT-113).
    ///
    /// Of more proofs than [`Config::subscriptions`](super::Config::subscriptions), the one that ends first is forgotten.
    pub fn prove(&mut self, now: Instant, principal: &str, url: &str, until: u64) {
        let now = self.advance(now);
        let life = Duration::from_secs(until.saturating_sub(self.anchor.unix_secs(now)));
        self.verifications.prove(&(principal.into(), url.into()), now + life, &self.config);
    }

    /// Returns the Unix time until which a proof counts; `None` if there is none.
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

    /// Takes in that nothing up to a position is for a subscription but what was published: its watermark goes on in quiet
    /// times, too.
    pub fn pass(&mut self, subscription: SubscriptionHandle, cursor: &str) {
        let Some(target) = self.subscriptions.get_mut(&subscription) else { return };
        if target.state != State::Ending && is_cursor(cursor) && target.queue.pass(cursor) {
            self.changes.progress(subscription);
            self.count(subscription);
        }
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
        target.queue.note_gap();
        if target.profile.has_control_envelopes {
            target.queue.push_gap(id, cursor.into(), now);
        } else {
            let watermark = target.queue.watermark.clone();
            target.queue.hold(watermark);
            self.changes.progress(subscription);
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
                self.follow_failures(now, subscription);
                self.changes.subscription(subscription);
                self.reschedule(subscription);
            }
            None => {
                self.remove(subscription);
                self.events.push_back(Event::Ended { subscription });
            }
        }
    }

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

    /// Grants a subscription for a time, or without expiry. Returns the Unix time of the expiry.
    fn grant(&mut self, now: Instant, handle: SubscriptionHandle, ttl: Option<Duration>) -> Option<u64> {
        self.subscriptions.get_mut(&handle)?.granted_at = self.anchor.unix_secs(now);
        let expires_at = ttl.map(|ttl| now + ttl);
        // There is a subscriber: his receiver has the whole time again.
        self.set_end(handle, expires_at, None);
        self.follow_failures(now, handle);
        expires_at.map(|at| self.anchor.unix_secs(at))
    }

    /// Sets when a subscription ends by itself.
    pub(super) fn set_end(
        &mut self,
        handle: SubscriptionHandle,
        expires_at: Option<Instant>,
        gives_up_at: Option<Instant>,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(&handle) else { return };
        if let Some(before) = subscription.ends_at() {
            self.expiries.remove(&(before, handle));
        }
        (subscription.expires_at, subscription.gives_up_at) = (expires_at, gives_up_at);
        self.expiries.extend(subscription.ends_at().map(|at| (at, handle)));
    }

    /// Lets a subscription without expiry end after a time of failures, and go on after a success (EVT-131).
    pub(super) fn follow_failures(&mut self, now: Instant, handle: SubscriptionHandle) {
        let Some(subscription) = self.subscriptions.get(&handle) else { return };
        let is_watched = subscription.expires_at.is_none() && subscription.state != State::Ending;
        let fails = is_watched && subscription.health.failed_since.is_some();
        let limit = self.config.give_up_after;
        let gives_up_at = fails.then(|| subscription.gives_up_at.unwrap_or(now + limit));
        if subscription.gives_up_at != gives_up_at {
            self.set_end(handle, subscription.expires_at, gives_up_at);
        }
    }

    fn create(&mut self, now: Instant, request: Subscribe, url: &Url) -> Grant {
        let ttl = self.ttl(request.ttl);
        let Subscribe { key, secret, cursor, truncated, profile, scopes, .. } = request;
        let id = key.id();
        let subscription = Subscription {
            key,
            id: id.clone(),
            scopes,
            host: host_of(url),
            url: url.clone(),
            profile,
            secret,
            older: Vec::new(),
            granted_at: 0,
            expires_at: None,
            gives_up_at: None,
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
        let handle = self.insert(subscription);
        self.changes.subscription(handle);
        let refresh_before = self.grant(now, handle, ttl);
        if let Some(cursor) = cursor.as_deref().filter(|_| truncated) {
            // The answer may be lost, and a refresh does not know what the first one has said (EVT-144).
            self.report_gap(now, handle, cursor);
        }
        Grant { subscription: handle, id, refresh_before, cursor, truncated, status: None }
    }

    /// Adds a subscription, which is found by its key and counted for its principal.
    pub(super) fn insert(&mut self, subscription: Subscription) -> SubscriptionHandle {
        let handle = SubscriptionHandle(self.number());
        let key = &subscription.key;
        *self.principals.entry(key.principal().into()).or_default() += 1;
        self.handles.insert(key.clone(), handle);
        self.subscriptions.insert(handle, subscription);
        handle
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
            grant.status = Some(subscription.status(now));
            subscription.rotate(request.secret, now, grace);
            subscription.scopes = request.scopes;
            if let State::Suspended(since) = subscription.state {
                subscription.state = State::Active;
                subscription.health.resume();
                subscription.queue.shift(now.saturating_duration_since(since), now);
            }
            grant.id.clone_from(&subscription.id);
            grant.cursor.clone_from(&subscription.queue.watermark);
            grant.truncated = subscription.queue.tell();
        }
        self.changes.subscription(handle);
        self.reschedule(handle);
        grant
    }

    /// Removes a subscription; answers to its requests are ignored.
    pub(super) fn remove(&mut self, handle: SubscriptionHandle) {
        let Some(subscription) = self.subscriptions.remove(&handle) else { return };
        self.handles.remove(&subscription.key);
        self.changes.ended(handle, &subscription.id);
        self.release(subscription.key.principal());
        if let Some(at) = subscription.scheduled {
            self.schedule.remove(&(at, handle));
        }
        if let Some(at) = subscription.ends_at() {
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

    /// Ends the subscriptions whose time has passed: silently by their expiry, and told if their receivers failed.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, subscription)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            let Some(target) = self.subscriptions.get(&subscription) else { return };
            if target.expires_at.is_some() {
                self.remove(subscription);
                self.events.push_back(Event::Ended { subscription });
                continue;
            }
            // EVT-085: what its last attempt failed by; nothing else is known of the receiver.
            let failure = target.health.last_error.clone().unwrap_or(CallbackFailure::Timeout);
            self.events.push_back(Event::GivenUp { subscription });
            self.terminate(now, subscription, &EventsError::CallbackEndpoint(failure));
        }
    }

    /// Gives a place of a principal back.
    pub(super) fn release(&mut self, principal: &str) {
        if let Some(count) = self.principals.get_mut(principal) {
            *count -= 1;
            if *count == 0 {
                self.principals.remove(principal);
            }
        }
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
