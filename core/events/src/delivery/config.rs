//! Bounds and choices of the deliveries of a server.

use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::http::{Origin, Url};

use crate::address::{AddressError, AddressPolicy};
use crate::webhook::MAX_BODY;
use crate::wire::MAX_CURSOR;

const DAY: Duration = Duration::from_secs(86_400);

/// Bounds and choices of [`Deliveries`](super::Deliveries).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Which URLs are subscribed for, and which addresses a caller may connect to (EVT-110, EVT-111).
    pub addresses: AddressPolicy,
    /// Number of subscriptions; a further one is refused with `ResourceExhausted` (EVT-087). Default: 10,000.
    pub subscriptions: usize,
    /// Number of subscriptions of a principal, those being verified included; refused as above. Default: 100.
    pub subscriptions_per_principal: usize,
    /// Bytes of the arguments of a subscription as canonical JSON; longer ones are refused as invalid. Default: 16 KiB.
    pub arguments: usize,
    /// Number of open messages of a subscription; beyond it the oldest become a gap (EVT-104). At least twice
    /// [`in_flight`](Self::in_flight). Default: 1024.
    pub queue_messages: usize,
    /// Bytes of open messages of a subscription, with the same outcome. At least room for what is in flight.
    /// Default: 4 MiB.
    pub queue_bytes: usize,
    /// Bytes of open messages of all subscriptions; beyond it the oldest of the largest queue become a gap. At least twice
    /// the room for what is in flight. Default: 256 MiB.
    pub queued_bytes: usize,
    /// Attempts of a subscription at the same time. Default: 4.
    pub in_flight: usize,
    /// Attempts to a host at the same time; others wait, and are served in the order of their arrival. Default: 16.
    pub in_flight_per_host: usize,
    /// Attempts at the same time; at most a quarter of them, but one, are challenges. Default: 256.
    pub in_flight_total: usize,
    /// Time of an attempt, after which it has failed. Default: 10 s.
    pub attempt_timeout: Duration,
    /// Number of attempts of a message, after which it is abandoned (EVT-097). Default: 5.
    pub attempts: u32,
    /// Times before the second attempt and so on, at most a day, varied by a quarter; the last one repeats. Default: 5 s,
    /// 30 s, 2 min, 5 min.
    pub backoff: Vec<Duration>,
    /// Time from the first to the last attempt of a message. Default: 15 min.
    pub retry_window: Duration,
    /// Longest `Retry-After` that is heeded (EVT-102). Default: 5 min.
    pub max_retry_after: Duration,
    /// Shortest grant (EVT-082). Default: 1 min.
    pub min_ttl: Duration,
    /// Grant without a suggestion. Default: 1 h.
    pub default_ttl: Duration,
    /// Longest grant. Default: 24 h.
    pub max_ttl: Duration,
    /// Whether subscriptions without expiry are granted (EVT-083). They have to outlive a restart then (EVT-084), in a
    /// [`store`](crate::store). Default: no.
    pub grants_no_expiry: bool,
    /// Time in which both secrets sign after a rotation (EVT-094). Default: 15 min.
    pub rotation_grace: Duration,
    /// Time for which the proof of a principal and URL counts (EVT-116). Default: 24 h.
    pub proof_life: Duration,
    /// Number of challenges of a principal in a minute; a further one is refused with `ResourceExhausted`. Default: 30.
    pub challenges_per_principal: u32,
    /// Number of failed challenges of a principal to a host in a minute; refused as above (EVT-118). Default: 10.
    pub failed_challenges: u32,
    /// Number of challenges to a host in a minute, without those that were echoed; refused as above. Many subscribers may
    /// share the host. Default: 600.
    pub challenges_per_host: u32,
    /// Number of attempts within an hour from which on a subscription may be suspended (EVT-100). Default: 100.
    pub suspension_attempts: u32,
    /// Percentage of failed attempts above which it is. Default: 95.
    pub suspension_percent: u32,
    /// Time after which a subscription without expiry ends: from the first of its failures without a success between them, or
    /// from the last refresh, suspended or not (EVT-085, EVT-131). One with an expiry just expires. At least
    /// [`retry_window`](Self::retry_window), which a restart gives it again; `Duration::MAX` for never. Default: 7 days.
    pub give_up_after: Duration,
    /// Origins that need no challenge (EVT-113).
    pub(super) verified: Vec<Origin>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: AddressPolicy::new(),
            subscriptions: 10_000,
            subscriptions_per_principal: 100,
            arguments: 16 << 10,
            queue_messages: 1024,
            queue_bytes: 4 << 20,
            queued_bytes: 256 << 20,
            in_flight: 4,
            in_flight_per_host: 16,
            in_flight_total: 256,
            attempt_timeout: Duration::from_secs(10),
            attempts: 5,
            backoff: [5, 30, 120, 300].map(Duration::from_secs).into(),
            retry_window: Duration::from_secs(15 * 60),
            max_retry_after: Duration::from_secs(300),
            min_ttl: Duration::from_secs(60),
            default_ttl: Duration::from_secs(3_600),
            max_ttl: Duration::from_secs(86_400),
            grants_no_expiry: false,
            rotation_grace: Duration::from_secs(900),
            proof_life: Duration::from_secs(86_400),
            challenges_per_principal: 30,
            failed_challenges: 10,
            challenges_per_host: 600,
            suspension_attempts: 100,
            suspension_percent: 95,
            give_up_after: DAY * 7,
            verified: Vec::new(),
        }
    }
}

impl Config {
    /// Exempts an origin from challenges: the application knows that its owner wants deliveries (EVT-113).
    ///
    /// # Errors
    ///
    /// [`AddressError`] if the text is not a callback URL that [`addresses`](Self::addresses) allows.
    pub fn verified_origin(mut self, url: &str) -> Result<Self, AddressError> {
        let url = self.addresses.check_url(url)?;
        self.verified.push(url.origin().clone());
        Ok(self)
    }

    pub(super) fn is_verified(&self, url: &Url) -> bool {
        self.verified.contains(url.origin())
    }

    /// Number of challenges in flight at the same time.
    pub(super) fn challenges_in_flight(&self) -> usize {
        (self.in_flight_total / 4).max(1)
    }

    /// Raises bounds that would stop everything, and lowers those that would overflow.
    pub(super) fn checked(mut self) -> Self {
        self.in_flight = self.in_flight.max(1);
        self.in_flight_per_host = self.in_flight_per_host.max(1);
        self.in_flight_total = self.in_flight_total.max(1);
        self.attempts = self.attempts.max(1);
        self.queue_messages = self.queue_messages.max(2 * self.in_flight + 2);
        let room = |messages: usize| (2 * messages + 2) * (MAX_BODY + 1024 + MAX_CURSOR);
        self.queue_bytes = self.queue_bytes.max(room(self.in_flight));
        self.queued_bytes = self.queued_bytes.max(room(self.in_flight_total));
        self.give_up_after = self.give_up_after.max(self.retry_window);
        // A jitter is added.
        self.backoff.iter_mut().for_each(|pause| *pause = (*pause).min(DAY));
        self
    }
}
