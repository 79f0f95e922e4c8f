//! The webhook subscription of a client, without I/O: subscribes, refreshes before it expires, rotates its secret, and ends.
//!
//! A [`WebhookSubscription`] belongs to one registration of a [`Receiver`], which takes its deliveries in. It registers the secret
//! before the first `events/subscribe`, because the challenge comes before the result (EVT-126), binds the id of the result, sets the
//! time of expiry, and removes the registration with its end. The position that the receiver has confirmed goes with each refresh
//! (EVT-079): a subscription that the server has lost continues from there.
//!
//! The caller does what [`poll_action`](WebhookSubscription::poll_action) says, passes the outcome in, takes events, and waits until
//! [`poll_timeout`](WebhookSubscription::poll_timeout). The receiver is an argument, so it may be behind a lock that the web server
//! shares.
//!
//! | state | input | what follows |
//! |---|---|---|
//! | due | – | `events/subscribe`, with the same key always (EVT-081) |
//! | subscribing | grant | a refresh after half of the time to three quarters of it |
//! | subscribing | grant in the past | [`SubscriptionEvent::ClockSkew`], and a refresh as after a failure |
//! | subscribing | no expiry | a refresh once a day (EVT-086) |
//! | subscribing | lost, passing error, `CallbackEndpointError` | the same again, later and later |
//! | subscribing | `Retry-After` of HTTP | the same again, not before, but within 5 min |
//! | subscribing | `InvalidParams` with a cursor | the same without it, and a gap |
//! | subscribing | `Forbidden`, `NotFound`, `Unsupported`, `InvalidParams`, or HTTP refuses access | the end |
//! | subscribed | `terminated` because of the type | `events/subscribe` without a cursor, and a gap (EVT-023) |
//! | subscribed | `terminated` | the end (EVT-153) |
//! | subscribing | `terminated`, and then a grant | `events/subscribe` after half of the shortest pause: its answer tells which was first; without positions a gap |
//! | any | [`unsubscribe`](WebhookSubscription::unsubscribe) | `events/unsubscribe` once, and the end whatever its outcome |

mod timestamp;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use mcp_proto::{Anchor, Entropy, Instant, RpcError};

use crate::follow::{FollowError, GapReason, Subscription, backoff, random_part};
use crate::receiver::{Receiver, ReceiverError, RegistrationKey};
use crate::webhook::Secret;
use crate::wire::{
    CallbackUrl, DeliveryMode, DeliveryStatus, EventErrorObject, EventsErrorKind, Millis, Nullable,
    SubscribeEventsParams, SubscribeEventsResult, UnsubscribeEventsParams, WebhookDelivery, WebhookTarget,
};
use timestamp::parse_timestamp;

/// Longest pause that a server may ask for by `Retry-After` of HTTP.
const LONGEST_REFUSAL_PAUSE: Duration = Duration::from_secs(300);

/// Bounds and choices of a [`WebhookSubscription`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionConfig {
    /// Time to live that the server is asked for, and the longest that is believed: clocks may differ. `None` asks for no expiry.
    /// Default: 1 h.
    pub time_to_live: Option<Duration>,
    /// Age of the oldest event that is wanted when the server has lost the subscription, in milliseconds (EVT-143). Default: `None`,
    /// all.
    pub max_age_ms: Option<u64>,
    /// Longest time between two refreshes, also without expiry (EVT-086). Default: 1 day.
    pub longest_refresh: Duration,
    /// First pause after a failure; each further one is twice as long. Half of a pause is random. Default: 1 s.
    pub shortest_backoff: Duration,
    /// Longest pause after failures. Default: 1 min.
    pub longest_backoff: Duration,
}

impl Default for SubscriptionConfig {
    fn default() -> Self {
        Self {
            time_to_live: Some(Duration::from_secs(3_600)),
            max_age_ms: None,
            longest_refresh: Duration::from_secs(86_400),
            shortest_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
        }
    }
}

/// What a subscription asks its caller to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SubscriptionAction {
    /// Send `events/subscribe`, and pass its outcome to [`handle_subscribed`](WebhookSubscription::handle_subscribed). The
    /// parameters hold the secret.
    Subscribe(SubscribeEventsParams<'static>),
    /// Send `events/unsubscribe`, and pass its outcome to [`handle_unsubscribed`](WebhookSubscription::handle_unsubscribed).
    Unsubscribe(UnsubscribeEventsParams<'static>),
}

/// What a subscription reports.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// It is granted, or refreshed.
    Granted {
        /// Id of the subscription.
        id: String,
        /// Unix time before which it is refreshed; `None` for no expiry.
        expires_at: Option<u64>,
        /// State of the deliveries, on a refresh. They were suspended if it is not `active`, and go on.
        status: Option<DeliveryStatus>,
    },
    /// Events may be missing (EVT-146).
    Gap(GapReason),
    /// The grant is in the past, so the clocks of both sides differ. It is refreshed, later and later.
    ClockSkew {
        /// Unix time of the grant.
        expires_at: u64,
    },
    /// An error after which the subscription goes on.
    Error(FollowError),
    /// The subscription has ended, and its registration is removed; `None` if it was unsubscribed. It is the last event.
    Ended(Option<FollowError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `events/subscribe` is due then.
    Waiting {
        until: Instant,
    },
    Subscribing,
    /// `events/unsubscribe` is due.
    Leaving,
    Unsubscribing,
    Ended,
}

/// Webhook subscription of a client; see the [module](self).
pub struct WebhookSubscription {
    config: SubscriptionConfig,
    subscription: Subscription,
    url: CallbackUrl,
    secret: Secret,
    registration: RegistrationKey,
    entropy: Entropy,
    anchor: Anchor,
    state: State,
    failures: u32,
    /// Whether the secret of the last request is still that of the registration: a rotation meanwhile is sent after the answer.
    is_secret_sent: bool,
    /// Whether it ends after the answer that is on its way.
    leaves: bool,
    /// Whether the server has granted it before.
    was_granted: bool,
    gap: Option<GapReason>,
    events: VecDeque<SubscriptionEvent>,
}

/// Shows neither the secret nor the query of the URL.
impl fmt::Debug for WebhookSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSubscription")
            .field("name", &self.subscription.name)
            .field("url", &self.url)
            .field("state", &self.state)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl WebhookSubscription {
    /// Creates a subscription, and registers its secret. `cursor` is a position that was stored, or `None` for what happens from now
    /// on. `entropy` makes secrets (EVT-073) and jitter; `anchor` ties instants to Unix time.
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Full`].
    pub fn new(
        config: SubscriptionConfig,
        subscription: Subscription,
        url: impl Into<CallbackUrl>,
        cursor: Option<String>,
        receiver: &mut Receiver,
        mut entropy: Entropy,
        anchor: Anchor,
    ) -> Result<Self, ReceiverError> {
        let secret = new_secret(&mut entropy);
        let registration = receiver.register(secret.clone())?;
        receiver.set_cursor(registration, cursor)?;
        Ok(Self {
            config,
            subscription,
            url: url.into(),
            secret,
            registration,
            entropy,
            anchor,
            state: State::Waiting { until: Instant::ZERO },
            failures: 0,
            is_secret_sent: false,
            leaves: false,
            was_granted: false,
            gap: None,
            events: VecDeque::new(),
        })
    }

    /// Ties instants to Unix time anew. The clock of the machine may be set at any time, so do this before
    /// [`handle_subscribed`](Self::handle_subscribed) and [`rotate`](Self::rotate): a grant is a time of the clock, as it is when
    /// the grant comes.
    pub const fn set_anchor(&mut self, anchor: Anchor) {
        self.anchor = anchor;
    }

    /// Returns the registration, by which the receiver names the subscription of a delivery.
    #[must_use]
    pub const fn registration(&self) -> RegistrationKey {
        self.registration
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SubscriptionEvent> {
        self.events.pop_front()
    }

    /// Returns whether [`SubscriptionEvent::Ended`] is the next event, or was the last one.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Replaces the secret now, and sends the new one with a refresh (EVT-094). The receiver takes the old one for a while.
    pub fn rotate(&mut self, now: Instant, receiver: &mut Receiver) {
        let secret = new_secret(&mut self.entropy);
        if receiver.rotate(self.registration, secret.clone(), self.anchor.unix_secs(now)).is_err() {
            return;
        }
        (self.secret, self.is_secret_sent) = (secret, false);
        if let State::Waiting { until } = &mut self.state {
            *until = (*until).min(now);
        }
    }

    /// Ends the subscription (EVT-130). A request that is on its way is answered first.
    pub const fn unsubscribe(&mut self) {
        match self.state {
            State::Waiting { .. } => self.state = State::Leaving,
            State::Subscribing => self.leaves = true,
            State::Leaving | State::Unsubscribing | State::Ended => {}
        }
    }

    /// Returns what to do now. Its outcome is passed in before the next action. What the server has told the receiver about the end of
    /// the subscription is handled here.
    pub fn poll_action(&mut self, now: Instant, receiver: &mut Receiver) -> Option<SubscriptionAction> {
        // Not while a request is on its way: its answer is needed, too.
        if self.state != State::Subscribing {
            if let Some(error) = receiver.take_end(self.registration) {
                self.terminated(now, receiver, error);
            }
        }
        match self.state {
            State::Waiting { until } if until <= now => {
                (self.state, self.is_secret_sent) = (State::Subscribing, true);
                let _ = receiver.expect_grant(self.registration);
                Some(SubscriptionAction::Subscribe(self.params(receiver)))
            }
            State::Leaving => {
                self.state = State::Unsubscribing;
                let Subscription { name, arguments } = self.subscription.clone();
                let target = WebhookTarget::new(self.url.clone()).mode(DeliveryMode::Webhook);
                let mut params = UnsubscribeEventsParams::new(name, target);
                params.arguments = arguments;
                Some(SubscriptionAction::Unsubscribe(params))
            }
            _ => None,
        }
    }

    /// Returns when to call [`poll_action`](Self::poll_action) again; `None` while a request is on its way, and after the end. Call it
    /// after a delivery of [`Outcome::Terminated`](crate::receiver::Outcome), too.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Leaving => Some(Instant::ZERO),
            State::Subscribing | State::Unsubscribing | State::Ended => None,
        }
    }

    /// Forgets a request whose answer will not come, because the caller gave it up. It is due again.
    pub fn handle_abandoned(&mut self, now: Instant) {
        match self.state {
            State::Subscribing if self.leaves => self.state = State::Leaving,
            State::Subscribing => self.state = State::Waiting { until: now },
            State::Unsubscribing => self.state = State::Leaving,
            _ => {}
        }
    }

    /// Takes the outcome of `events/subscribe`.
    pub fn handle_subscribed(
        &mut self,
        now: Instant,
        receiver: &mut Receiver,
        outcome: Result<SubscribeEventsResult, FollowError>,
    ) {
        if self.state != State::Subscribing {
            return;
        }
        match outcome {
            Ok(result) => self.granted(now, receiver, result),
            Err(FollowError::Server(error)) => self.refused(now, receiver, error),
            Err(error @ FollowError::Refused(_)) => self.end(receiver, Some(error)),
            Err(error) => self.try_again(now, error),
        }
        if self.leaves && !self.has_ended() {
            self.state = State::Leaving;
        }
    }

    /// Takes the outcome of `events/unsubscribe`: it is the end in any case, and an unknown subscription is one that has ended.
    pub fn handle_unsubscribed(&mut self, receiver: &mut Receiver, outcome: Result<(), FollowError>) {
        if self.state != State::Unsubscribing {
            return;
        }
        let is_unknown = |error: &FollowError| match error {
            FollowError::Server(error) => {
                EventsErrorKind::of_code(error.code) == Some(EventsErrorKind::NotFound)
            }
            _ => false,
        };
        if let Err(error) = outcome {
            if !is_unknown(&error) {
                self.events.push_back(SubscriptionEvent::Error(error));
            }
        }
        self.end(receiver, None);
    }

    // ---- what follows ----

    fn params(&self, receiver: &Receiver) -> SubscribeEventsParams<'static> {
        let Subscription { name, arguments } = self.subscription.clone();
        let delivery =
            WebhookDelivery::new(self.url.clone(), self.secret.clone()).mode(DeliveryMode::Webhook);
        let millis = |time: Duration| Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let mut params =
            SubscribeEventsParams::new(name, delivery).ttl_ms(Nullable(self.config.time_to_live.map(millis)));
        params.arguments = arguments;
        params.cursor = receiver.cursor(self.registration).map(Into::into);
        params.max_age_ms = self.config.max_age_ms.filter(|_| params.cursor.is_some());
        params
    }

    fn granted(&mut self, now: Instant, receiver: &mut Receiver, result: SubscribeEventsResult) {
        let expires_at = match &result.refresh_before.0 {
            None => None,
            Some(text) => match parse_timestamp(text) {
                Some(at) => Some(at),
                None => {
                    let text: String = text.chars().take(64).collect();
                    let error = format!("`refreshBefore` is no time: `{text}`");
                    return self.try_again(now, FollowError::Malformed(error));
                }
            },
        };
        // Of this grant, or of the subscription before it: only the server knows.
        let was_terminated = receiver.take_end(self.registration).is_some();
        let cursor = result.cursor.and_then(|Nullable(cursor)| cursor);
        let has_position = cursor.is_some();
        let bound = receiver
            .bind(self.registration, result.id.clone())
            .and_then(|()| receiver.set_expiry(self.registration, expires_at));
        if has_position && bound.is_ok() {
            // It is behind everything that was acknowledged or given up (EVT-099).
            let _ = receiver.set_cursor(self.registration, cursor);
        }
        let truncated = result.truncated == Some(true) && has_position && self.was_granted;
        if let Some(reason) = self.gap.take().or_else(|| truncated.then_some(GapReason::Truncated)) {
            self.events.push_back(SubscriptionEvent::Gap(reason));
        }
        if was_terminated && !has_position {
            // What is published before the next grant does not come again (EVT-146, EVT-147).
            self.gap = Some(GapReason::NoReplay);
        }
        self.was_granted = true;
        let status = result.delivery_status;
        self.events.push_back(SubscriptionEvent::Granted { id: result.id, expires_at, status });
        let unix_secs = self.anchor.unix_secs(now);
        let pause = match expires_at {
            Some(expires_at) if expires_at <= unix_secs => {
                self.events.push_back(SubscriptionEvent::ClockSkew { expires_at });
                self.next_backoff()
            }
            _ => {
                self.failures = 0;
                // Both times are whole seconds, cut off: up to one of the difference may be missing.
                let granted =
                    expires_at.map(|at| Duration::from_secs(at.saturating_sub(unix_secs.saturating_add(1))));
                self.refresh_after(granted)
            }
        };
        let pause = match was_terminated {
            // A rotation that came while the answer was on its way is sent at once.
            _ if !self.is_secret_sent => Duration::ZERO,
            // A server that sends an end in front of each answer makes no storm.
            true => self.config.shortest_backoff / 2,
            false => pause,
        };
        self.state = State::Waiting { until: now + pause };
    }

    /// Returns the time to the refresh: half of the grant to three quarters of it, as one clock may be faster.
    fn refresh_after(&mut self, granted: Option<Duration>) -> Duration {
        let believed = match (granted, self.config.time_to_live) {
            (Some(granted), Some(asked)) => Some(granted.min(asked)),
            (granted, _) => granted,
        };
        let longest = self.config.longest_refresh;
        let Some(believed) = believed else { return longest };
        let pause = believed / 2 + random_part(&mut self.entropy, believed / 4);
        // A server that grants no time makes no storm.
        pause.max(self.config.shortest_backoff / 2).min(longest)
    }

    fn refused(&mut self, now: Instant, receiver: &mut Receiver, error: RpcError) {
        use EventsErrorKind::{Forbidden, InvalidParams, NotFound, Unsupported};
        match EventsErrorKind::of_code(error.code) {
            Some(InvalidParams) if receiver.cursor(self.registration).is_some() => {
                self.begin_anew(now, receiver, GapReason::CursorRefused);
            }
            Some(Forbidden | NotFound | Unsupported | InvalidParams) => {
                self.end(receiver, Some(FollowError::Server(error)));
            }
            None if error.code == mcp_proto::rpc::code::METHOD_NOT_FOUND => {
                self.end(receiver, Some(FollowError::Server(error)));
            }
            _ => self.try_again(now, FollowError::Server(error)),
        }
    }

    fn terminated(&mut self, now: Instant, receiver: &mut Receiver, error: EventErrorObject) {
        if self.has_ended() {
            return;
        }
        match EventsErrorKind::of_code(error.code) {
            Some(EventsErrorKind::NotFound | EventsErrorKind::Unsupported)
                if matches!(self.state, State::Waiting { .. }) =>
            {
                self.begin_anew(now, receiver, GapReason::TypeChanged);
            }
            // It ends with the answer that is on its way.
            _ if self.state == State::Unsubscribing => {}
            _ => {
                let error = RpcError::new(error.code, error.message);
                self.end(receiver, Some(FollowError::Server(error)));
            }
        }
    }

    fn begin_anew(&mut self, now: Instant, receiver: &mut Receiver, reason: GapReason) {
        self.gap.get_or_insert(reason);
        let _ = receiver.set_cursor(self.registration, None);
        self.state = State::Waiting { until: now };
    }

    fn try_again(&mut self, now: Instant, error: FollowError) {
        let asked = error.retry_after().min(LONGEST_REFUSAL_PAUSE);
        self.events.push_back(SubscriptionEvent::Error(error));
        let pause = self.next_backoff().max(asked);
        self.state = State::Waiting { until: now + pause };
    }

    fn end(&mut self, receiver: &mut Receiver, error: Option<FollowError>) {
        receiver.remove(self.registration);
        self.state = State::Ended;
        self.events.push_back(SubscriptionEvent::Ended(error));
    }

    /// Returns the next pause, between half of it and all.
    fn next_backoff(&mut self) -> Duration {
        let pause = backoff(self.failures, self.config.shortest_backoff, self.config.longest_backoff);
        self.failures = self.failures.saturating_add(1);
        pause / 2 + random_part(&mut self.entropy, pause / 2)
    }
}

fn new_secret(entropy: &mut Entropy) -> Secret {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    Secret::from_entropy(bytes)
}
