//! Attempts: which request is next, to a host at a time, and what its outcome means.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::http::Url;
use mcp_proto::{Instant, RawJson};

use super::queue::{Message, Place};
use super::subscription::{State, category};
use super::verification::{ProofKey, places};
use super::{
    Deliveries, Delivery, DeliveryId, Event, Headers, Outcome, Subscribed, SubscriptionHandle, headers,
};
use crate::webhook::{MAX_CHALLENGE_ANSWER, sign};
use crate::wire::EventsError;

/// A request that is in flight.
pub(super) struct Attempt {
    pub(super) purpose: Purpose,
    pub(super) host: String,
    pub(super) deadline: Instant,
}

pub(super) enum Purpose {
    Challenge(ProofKey),
    Message(SubscriptionHandle, Place),
}

#[derive(Default)]
pub(super) struct Host {
    pub(super) in_flight: usize,
    /// What waits for an attempt of the host to end, by its turn.
    pub(super) waiting: BTreeMap<u64, Waiter>,
}

pub(super) enum Waiter {
    Challenge(ProofKey),
    Message(SubscriptionHandle),
}

/// What [`Deliveries::poll_transmit`] looks at first: each in turn, so that none holds up the others.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// Challenges to send.
    Challenges,
    /// Hosts of which an attempt has ended.
    Released,
    /// Subscriptions with messages that are due.
    Schedule,
}

impl Deliveries {
    /// Returns the next request that is due.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Delivery> {
        let now = self.advance(now);
        self.expire(now);
        if self.attempts.len() >= self.config.in_flight_total {
            return None;
        }
        for _ in 0..3 {
            let turn = self.turn;
            self.turn = match turn {
                Turn::Challenges => Turn::Released,
                Turn::Released => Turn::Schedule,
                Turn::Schedule => Turn::Challenges,
            };
            let delivery = match turn {
                Turn::Challenges => self.next_unsent(now),
                Turn::Released => self.next_released(now),
                Turn::Schedule => self.next_scheduled(now),
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

    // Challenges.

    pub(super) fn has_room_for_challenge(&self) -> bool {
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

    pub(super) fn end_verification(&mut self, now: Instant, proof: &ProofKey, outcome: &Outcome<'_>) {
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

    // Messages.

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

    pub(super) fn leave_host(&mut self, name: &str) {
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

    pub(super) fn end_attempt(
        &mut self,
        now: Instant,
        handle: SubscriptionHandle,
        place: Place,
        outcome: &Outcome<'_>,
    ) {
        let acknowledged = matches!(outcome, Outcome::Answer { status: 200..=299, .. });
        // Randomness costs as much as a signature of a short body.
        let jitter = if acknowledged { [0; 16] } else { self.random() };
        let config = &self.config;
        let unix_secs = self.anchor.unix_secs(now);
        let Some(subscription) = self.subscriptions.get_mut(&handle) else { return };
        subscription.in_flight -= 1;
        self.changes.progress(handle);
        let Some(entry) = subscription.queue.entry(place) else { return self.reschedule(handle) };
        let mut retry_after = Duration::ZERO;
        let is_done = match outcome {
            Outcome::Answer { status: 200..=299, .. } => {
                subscription.health.succeed(now, unix_secs);
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
                subscription.health.fail(now, unix_secs, category(*status));
                false
            }
            Outcome::Failed(failure) => {
                subscription.health.fail(now, unix_secs, failure.category());
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
            match entry.message {
                Message::Gap if acknowledged => subscription.queue.acknowledge_gap(place),
                Message::Gap => {
                    // Nobody was told.
                    let watermark = subscription.queue.watermark.clone();
                    subscription.queue.hold(watermark);
                }
                _ => {}
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
        // Not by a success, which may be the last attempt of an hour that had failures.
        let is_over = subscription.health.failed_since.is_some()
            && subscription.health.is_over(now, config.suspension_attempts, config.suspension_percent);
        if subscription.state == State::Active && is_over {
            subscription.state = State::Suspended(now);
            self.events.push_back(Event::Suspended { subscription: handle });
        }
        self.follow_failures(now, handle);
        self.reschedule(handle);
    }
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
