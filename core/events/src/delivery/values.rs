//! What callers pass to the deliveries of a server, and get from them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use mcp_proto::http::Url;
use mcp_proto::{Instant, iso_8601};

use crate::webhook::{Secret, SubscriptionKey};
use crate::wire::{
    CallbackFailure, DeliveryStatus, EventsError, MAX_CURSOR, Millis, Nullable, Profile,
    SubscribeEventsResult,
};

/// Key of a subscription of [`Deliveries`](super::Deliveries).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionHandle(pub(super) u64);

/// Key of a request that [`Deliveries::poll_transmit`](super::Deliveries::poll_transmit) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub(super) u64);

/// Key of a call of [`Deliveries::subscribe`](super::Deliveries::subscribe) that waits for a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// A subscription to make or to refresh.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// Principal, URL, name and arguments; the caller has checked the permission for them (EVT-088).
    pub key: SubscriptionKey,
    /// The secret of `delivery.secret`.
    pub secret: Secret,
    /// The suggestion of `ttlMs`.
    pub ttl: Option<Nullable<Millis>>,
    /// Position from which the caller will publish, if this is a new subscription (EVT-078).
    pub cursor: Option<String>,
    /// Whether events before that position were skipped, if this is a new subscription (EVT-144).
    ///
    /// The answer tells it, and so does a `gap`, or the next refresh of a profile without control envelopes: the answer may be lost.
    pub truncated: bool,
    /// What is written to this subscriber, if this is a new subscription.
    pub profile: Profile,
    /// Scopes of the caller, separated by spaces: a store keeps them, so that the permission can be checked after a restart.
    pub scopes: String,
}

/// Outcome of [`Deliveries::subscribe`](super::Deliveries::subscribe).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Subscribed {
    /// It is active.
    Granted(Grant),
    /// A challenge goes out first; [`Event::Verified`] or [`Event::Refused`] follows.
    Verifying(Ticket),
}

/// A granted subscription.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Grant {
    /// Its key.
    pub subscription: SubscriptionHandle,
    /// Its id on the wire (EVT-076).
    pub id: String,
    /// Unix time at which it expires; `None` for no expiry.
    pub refresh_before: Option<u64>,
    /// Watermark (EVT-099).
    pub cursor: Option<String>,
    /// Whether events were skipped.
    pub truncated: bool,
    /// State of the deliveries before this refresh; `None` for a new subscription, whose events the caller publishes from
    /// [`Subscribe::cursor`] on.
    pub status: Option<DeliveryStatus>,
}

impl Grant {
    /// Returns the result of `events/subscribe` (EVT-080).
    #[must_use]
    pub fn to_result(&self) -> SubscribeEventsResult {
        let result = SubscribeEventsResult::new(self.id.as_str(), self.refresh_before.map(iso_8601))
            .cursor(self.cursor.clone())
            .truncated(self.truncated);
        match &self.status {
            Some(status) => result.delivery_status(status.clone()),
            None => result,
        }
    }
}

/// A request to make.
#[derive(Clone)]
#[non_exhaustive]
pub struct Delivery {
    /// For [`Deliveries::handle_answer`](super::Deliveries::handle_answer).
    pub id: DeliveryId,
    /// The URL, checked by [`AddressPolicy::check_url`](crate::address::AddressPolicy::check_url); POST.
    pub url: Url,
    /// The header fields apart from those that HTTP itself needs (EVT-090).
    pub headers: [(&'static str, String); 5],
    /// The body; what is signed are these bytes.
    pub body: Vec<u8>,
    /// When the attempt has failed without an answer.
    pub deadline: Instant,
    /// Number of bytes of the body of the answer to read; the rest is ignored, and need not come. Zero if the status is
    /// all that counts.
    pub max_answer: usize,
}

/// Omits the query of the URL and the body.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("id", &self.id)
            .field("url", &self.url)
            .field("body_bytes", &self.body.len())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// An answer came; a redirect is an answer, too.
    Answer {
        /// The status.
        status: u16,
        /// `Retry-After`, if it is there in seconds.
        retry_after: Option<Duration>,
        /// The first bytes of the body.
        body: &'a [u8],
    },
    /// None came.
    Failed(Failure),
}

/// Reason why no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The policy does not allow an address of the host; subscribers see `connection_refused`.
    Blocked,
    /// The host has no address, or no connection was made, or it broke.
    Connection,
    /// The deadline passed.
    Timeout,
    /// TLS failed.
    Tls,
}

impl Failure {
    /// Returns what a subscriber is told (EVT-101).
    pub(super) const fn category(self) -> CallbackFailure {
        match self {
            Self::Blocked | Self::Connection => CallbackFailure::ConnectionRefused,
            Self::Timeout => CallbackFailure::Timeout,
            Self::Tls => CallbackFailure::TlsError,
        }
    }
}

/// News for the application.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The owner of the URL echoed the challenge: answer the call with the grant.
    Verified {
        /// The call.
        ticket: Ticket,
        /// The grant.
        grant: Grant,
    },
    /// He did not, or the subscription is refused for another reason: answer the call with the error (EVT-115).
    Refused {
        /// The call.
        ticket: Ticket,
        /// The error.
        error: EventsError,
    },
    /// Too many attempts failed: nothing is sent until the subscriber refreshes (EVT-100).
    ///
    /// It expires then, or ends as one that is given up does.
    Suspended {
        /// The subscription.
        subscription: SubscriptionHandle,
    },
    /// A subscription without expiry ends, because its receiver has failed for [`Config::give_up_after`] and nobody has refreshed
    /// it (EVT-085, EVT-131): it gets no more events. `terminated` with `CallbackEndpointError` is attempted, unless its profile
    /// has no control envelopes; [`Event::Ended`] follows, whatever the outcome is.
    ///
    /// [`Config::give_up_after`]: super::Config::give_up_after
    GivenUp {
        /// The subscription.
        subscription: SubscriptionHandle,
    },
    /// The subscription has expired, or its termination is delivered or given up: its handle is stale.
    Ended {
        /// The subscription.
        subscription: SubscriptionHandle,
    },
}

/// Reason why an event was not taken; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// There is no such subscription, or it is ending.
    #[error("the subscription has ended")]
    Stale,
    /// The event id is empty, longer than 256 bytes, or has characters that a header field cannot have.
    #[error("the event id is not 1 to 256 visible ASCII characters")]
    EventId,
    /// The cursor has more than [`MAX_CURSOR`] bytes as JSON.
    #[error("the cursor is longer than {MAX_CURSOR} bytes")]
    Cursor,
    /// The body would be larger than [`MAX_BODY`](crate::webhook::MAX_BODY) (EVT-095).
    #[error("the event is larger than a delivery may be")]
    TooLarge,
    /// There is a member `type` beside `data`, which would make it a control envelope (EVT-034).
    #[error("the event has a member `type`, which marks control envelopes")]
    Type,
    /// A member cannot be written.
    #[error("the event cannot be encoded")]
    Encode,
}

/// Numbers of events since the start: each published event is in exactly one of the others, or is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Taken by [`Deliveries::publish`](super::Deliveries::publish).
    pub published: u64,
    /// Answered with 2xx.
    pub acknowledged: u64,
    /// Given up after the last attempt, or answered with 410 or 413.
    pub abandoned: u64,
    /// Skipped because the queue was full.
    pub skipped: u64,
    /// Dropped with their subscription.
    pub cancelled: u64,
}
