//! One webhook subscription: its grant, secrets, queue, and what is known about its receiver.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use mcp_proto::http::Url;
use mcp_proto::{Instant, iso_8601};

use super::queue::Queue;
use crate::store::Progress;
use crate::webhook::{Secret, SubscriptionKey};
use crate::wire::{CallbackFailure, DeliveryStatus, Nullable, Profile};

/// Number of older secrets that sign; the oldest is forgotten first.
pub(super) const OLDER_SECRETS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Active,
    /// No attempts since then (EVT-100).
    Suspended(Instant),
    /// `terminated` is in the queue, and nothing else.
    Ending,
}

pub(super) struct Subscription {
    pub(super) key: SubscriptionKey,
    pub(super) id: String,
    /// Those of the subscriber, for a store.
    pub(super) scopes: String,
    /// Host of the URL.
    pub(super) host: String,
    pub(super) url: Url,
    pub(super) profile: Profile,
    pub(super) secret: Secret,
    /// The secrets before rotations, the oldest first, and until when each signs, too. At most [`OLDER_SECRETS`].
    pub(super) older: Vec<(Secret, Instant)>,
    /// Unix time of the last grant.
    pub(super) granted_at: u64,
    /// `None` for no expiry.
    pub(super) expires_at: Option<Instant>,
    /// When it ends without an expiry, because its receiver fails.
    pub(super) gives_up_at: Option<Instant>,
    pub(super) state: State,
    pub(super) queue: Queue,
    pub(super) in_flight: usize,
    /// Bytes of the queue, as they are in the order of all queues.
    pub(super) counted: usize,
    /// When it is in the schedule of all.
    pub(super) scheduled: Option<Instant>,
    /// Its turn among what waits for the host.
    pub(super) waiting: Option<u64>,
    /// Start of the last attempt: others that are due have their turn first, however old the next message is.
    pub(super) last_turn: Instant,
    /// No attempts before then, at the request of the receiver.
    pub(super) throttled_until: Option<Instant>,
    pub(super) health: Health,
}

impl Subscription {
    /// Replaces the secret; those before sign during their grace (EVT-094).
    pub(super) fn rotate(&mut self, secret: Secret, now: Instant, grace: Duration) {
        if self.secret == secret {
            return;
        }
        self.older.retain(|(older, until)| now < *until && *older != secret);
        self.older.push((core::mem::replace(&mut self.secret, secret), now + grace));
        if self.older.len() > OLDER_SECRETS {
            self.older.remove(0);
        }
    }

    /// Returns the secrets that sign an attempt, the newest first.
    pub(super) fn secrets(&self, now: Instant) -> impl Iterator<Item = &Secret> {
        let older = self.older.iter().rev().filter(move |(_, until)| now < *until).map(|(secret, _)| secret);
        core::iter::once(&self.secret).chain(older)
    }

    /// Returns when it ends by itself.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.expires_at.or(self.gives_up_at)
    }

    /// Moves the Unix times that are kept, after the clock was set from one time to another.
    pub(super) fn follow_clock(&mut self, from: u64, to: u64) {
        let Health { last_delivery_at, failed_since, .. } = &mut self.health;
        let kept = [Some(&mut self.granted_at), last_delivery_at.as_mut(), failed_since.as_mut()];
        for at in kept.into_iter().flatten() {
            *at = at.saturating_add(to).saturating_sub(from);
        }
    }

    /// Returns when the next attempt is possible.
    pub(super) fn next_attempt(&self, in_flight: usize) -> Option<Instant> {
        if matches!(self.state, State::Suspended(_)) || self.in_flight >= in_flight {
            return None;
        }
        let due = self.queue.next_due()?.max(self.last_turn);
        Some(self.throttled_until.map_or(due, |until| due.max(until)))
    }

    /// Returns what a store keeps beside the grant.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            cursor: self.queue.resume_at().cloned(),
            starts_truncated: self.queue.starts_truncated(),
            is_suspended: matches!(self.state, State::Suspended(_)),
            last_delivery_at: self.health.last_delivery_at,
            last_error: self.health.last_error.clone(),
            failed_since: self.health.failed_since,
        }
    }

    /// Returns the state for the result of a refresh.
    pub(super) fn status(&self, now: Instant) -> DeliveryStatus {
        let time = |unix_secs: Option<u64>| unix_secs.map(iso_8601);
        let status = DeliveryStatus::new(!matches!(self.state, State::Suspended(_)))
            .last_delivery_at(time(self.health.last_delivery_at))
            .last_error(Nullable(self.health.last_error.clone()));
        let status = match time(self.health.failed_since) {
            Some(since) => status.failed_since(since),
            None => status,
        };
        match self.throttled_until.filter(|until| *until > now) {
            Some(until) => {
                let wait = until.saturating_duration_since(now).as_millis();
                status.throttled(true).retry_after_ms(u64::try_from(wait).unwrap_or(u64::MAX))
            }
            None => status,
        }
    }
}

/// Outcomes of the attempts of a subscription.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Unix time in seconds.
    pub(super) last_delivery_at: Option<u64>,
    pub(super) last_error: Option<CallbackFailure>,
    /// Unix time in seconds.
    pub(super) failed_since: Option<u64>,
    /// Attempts and failures of the last hour, by periods of ten minutes: number of the period, attempts, failures.
    periods: [(u64, u32, u32); 6],
}

const PERIOD: Duration = Duration::from_secs(600);

impl Health {
    /// Returns what is known of deliveries before a restart.
    pub(super) fn restored(
        last_delivery_at: Option<u64>,
        last_error: Option<CallbackFailure>,
        failed_since: Option<u64>,
    ) -> Self {
        Self { last_delivery_at, last_error, failed_since, ..Self::default() }
    }

    pub(super) fn succeed(&mut self, now: Instant, unix_secs: u64) {
        self.count(now, 0);
        self.last_delivery_at = Some(unix_secs);
        self.last_error = None;
        self.failed_since = None;
    }

    pub(super) fn fail(&mut self, now: Instant, unix_secs: u64, failure: CallbackFailure) {
        self.count(now, 1);
        self.last_error = Some(failure);
        self.failed_since.get_or_insert(unix_secs);
    }

    fn count(&mut self, now: Instant, failures: u32) {
        let number = period(now);
        let at = usize::try_from(number % 6).unwrap_or_default();
        if let Some(slot) = self.periods.get_mut(at) {
            if slot.0 != number {
                *slot = (number, 0, 0);
            }
            slot.1 = slot.1.saturating_add(1);
            slot.2 = slot.2.saturating_add(failures);
        }
    }

    /// Returns whether at least `attempts` were made in the last hour, and more than `percent` of them failed (EVT-100).
    pub(super) fn is_over(&self, now: Instant, attempts: u32, percent: u32) -> bool {
        let recent = self.periods.iter().filter(|(number, ..)| period(now) - number.min(&period(now)) < 6);
        let (made, failed) =
            recent.fold((0, 0), |(made, failed), (_, a, f)| (made + u64::from(*a), failed + u64::from(*f)));
        made >= u64::from(attempts) && failed * 100 > made * u64::from(percent)
    }

    /// Forgets failures when deliveries go on.
    pub(super) fn resume(&mut self) {
        self.periods = Default::default();
    }
}

const fn period(now: Instant) -> u64 {
    now.as_micros() / (PERIOD.as_secs() * 1_000_000)
}

/// Returns the category of a status that is no success (EVT-101).
pub(super) fn category(status: u16) -> CallbackFailure {
    if status >= 500 { CallbackFailure::Http5xx } else { CallbackFailure::Http4xx }
}

/// Returns an id of a message that is no event: `msg_gap_…` (EVT-091).
pub(super) fn message_id(kind: &str, random: [u8; 16]) -> String {
    let random = URL_SAFE_NO_PAD.encode(random);
    format!("msg_{kind}_{random}")
}
