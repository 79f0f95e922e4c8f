//! Sending deliveries on `std`: HTTPS requests, and a thread that drives [`Deliveries`] (feature `post`).
//!
//! A [`Poster`] makes the requests of [`Deliveries`], each under these rules:
//!
//! - The host is resolved once; **all** its addresses have to pass the [`AddressPolicy`], and only these are connected to, one
//!   after another until one accepts. `Host` and TLS have the name of the URL (EVT-111). A second answer of the name server
//!   replaces nothing, and no connection is kept for a later request.
//! - A redirect is not followed; it is an answer with its status (EVT-112). There are no proxies, also none of the
//!   environment, and no cookies.
//! - [`Delivery::deadline`] bounds lookup, connection, TLS, writing and reading together.
//! - Of the body of an answer no more than [`Delivery::max_answer`] bytes are read and kept (EVT-114).
//!
//! A [`Deliverer`] is the thread for one [`Deliveries`], with a thread for each request in flight.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mcp_events::delivery::{Config, Deliveries, Event, Subscribe, Subscribed};
//! use mcp_events::post::{Clock, Deliverer, Poster, entropy};
//! use mcp_events::webhook::{Secret, SubscriptionKey};
//! use mcp_events::wire::{EventOccurrence, Profile};
//! use mcp_proto::{Entropy, RawJson};
//!
//! let clock = Clock::start();
//! let entropy = Entropy::new(entropy::seed()?, entropy::nonce());
//! let deliveries = Deliveries::new(Config::default(), entropy, clock.anchor());
//! let deliverer = Deliverer::start(deliveries, clock, Poster::new())?;
//!
//! // `events/subscribe` of an authenticated client:
//! let url = "https://hooks.example/mcp/a1";
//! let request = Subscribe {
//!     key: SubscriptionKey::new("alice", url, "build.finished", &RawJson::new("{}")?)?,
//!     secret: Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?,
//!     ttl: None,
//!     cursor: None,
//!     truncated: false,
//!     profile: Profile::SEP,
//!     scopes: String::new(),
//! };
//! let grant = match deliverer.with(|deliveries, now| deliveries.subscribe(now, request)) {
//!     Ok(Subscribed::Granted(grant)) => grant,
//!     Err(error) => panic!("answer with {error:?}"),
//!     // A challenge goes to the URL; a server answers the call later, and does not wait.
//!     Ok(_) => match deliverer.wait_event(Duration::from_secs(20)) {
//!         Some(Event::Verified { grant, .. }) => grant,
//!         other => panic!("{other:?}"),
//!     },
//! };
//!
//! // Something happens:
//! let data = RawJson::new(r#"{"build":7,"ok":true}"#)?;
//! let event = EventOccurrence::new("evt-7", "build.finished", "2026-11-25T10:00:00Z", data);
//! deliverer.with(|deliveries, now| deliveries.publish(now, grant.subscription, &event))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Deliveries`]: crate::delivery::Deliveries

mod deliverer;
#[cfg(test)]
pub(crate) mod tests;

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;

use mcp_proto::head::Fields;
use mcp_proto::http::{Origin, fields};
use mcp_std::http_client::{BodyBound, HttpClient, HttpFailure, HttpRequest, HttpResponse};
use mcp_std::sync::Budget;

use crate::address::{AddressError, AddressPolicy};
use crate::delivery::{Delivery, DeliveryId, Failure, Outcome};

pub use deliverer::Deliverer;
pub use mcp_std::tls::ClientTls;
pub use mcp_std::{Clock, entropy};

/// A sender of the requests of [`Deliveries`](crate::delivery::Deliveries).
///
/// A name is resolved on a thread of its own. If the resolver of the system hangs, that thread outlives the request: with the
/// C library of Linux for the times of `resolv.conf`, by default ten seconds for each name server.
#[derive(Clone)]
pub struct Poster {
    client: HttpClient,
    on_failure: OnFailure,
}

/// Receives the reasons of failures.
type OnFailure = Arc<dyn Fn(&Origin, &str) + Send + Sync>;

/// Outcome of a request.
pub struct Posted {
    /// The request.
    pub id: DeliveryId,
    result: Result<HttpResponse, Failure>,
}

/// Reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum PostError {
    #[error("{0}")]
    Blocked(AddressError),
    #[error("{0}")]
    Http(HttpFailure),
    #[error("the request has a malformed field")]
    Field,
}

impl Poster {
    /// Creates a sender that trusts the roots of the system and uses its resolver.
    #[must_use]
    pub fn new() -> Self {
        let on_failure = Arc::new(|origin: &Origin, why: &str| std::eprintln!("webhook at {origin}: {why}"));
        Self { client: HttpClient::new(), on_failure }
    }

    /// Sets the roots that are trusted.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.client = self.client.tls(tls);
        self
    }

    /// Replaces the resolver of the system by a function of a host name and a port.
    ///
    /// It is called on a thread of its own, and neither for IP addresses nor for `localhost` and the names below it. The
    /// policy applies to the addresses that it returns; their ports are taken as they are.
    #[must_use]
    pub fn resolver<F>(mut self, resolver: F) -> Self
    where
        F: Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    {
        self.client = self.client.resolver(resolver);
        self
    }

    /// Sets a callback for the reason why a request had no answer, for logs: certificates, addresses, timeouts. Default: a line on
    /// stderr, without the path and the query of the URL, which may be secret.
    ///
    /// It runs on the thread of the request. The text is for the operator, not for subscribers, who are told a category
    /// (EVT-101): it may name addresses of a private network.
    #[must_use]
    pub fn on_failure(mut self, on_failure: impl Fn(&Origin, &str) + Send + Sync + 'static) -> Self {
        self.on_failure = Arc::new(on_failure);
        self
    }

    /// Makes a request, and waits for its outcome, at most `time`.
    #[must_use]
    pub fn post(&self, delivery: &Delivery, addresses: &AddressPolicy, time: Duration) -> Posted {
        let result = self.send(delivery, addresses, &Budget::new(time)).map_err(|error| {
            (self.on_failure)(delivery.url.origin(), &error.to_string());
            match error {
                PostError::Blocked(_) => Failure::Blocked,
                PostError::Http(HttpFailure::Ended(_)) => Failure::Timeout,
                PostError::Http(HttpFailure::Tls(_)) => Failure::Tls,
                PostError::Http(_) | PostError::Field => Failure::Connection,
            }
        });
        Posted { id: delivery.id, result }
    }

    fn send(
        &self,
        delivery: &Delivery,
        addresses: &AddressPolicy,
        budget: &Budget<'_>,
    ) -> Result<HttpResponse, PostError> {
        let mut fields = Fields::new();
        if !delivery.headers.iter().all(|(name, value)| fields.push(name, value.as_bytes())) {
            return Err(PostError::Field);
        }
        let found = self.client.look_up(delivery.url.origin(), budget).map_err(PostError::Http)?;
        let all: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        // EVT-111: one forbidden address is enough, and only these are connected to.
        addresses.check_addresses(&delivery.url, &all).map_err(PostError::Blocked)?;
        let request = HttpRequest {
            method: "POST",
            url: &delivery.url,
            fields: &fields,
            body: &delivery.body,
            response_body: BodyBound::Cut(delivery.max_answer),
        };
        self.client.send(&request, found, budget).map_err(PostError::Http)
    }
}

impl Default for Poster {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").finish_non_exhaustive()
    }
}

impl Posted {
    /// Returns what [`Deliveries::handle_answer`](crate::delivery::Deliveries::handle_answer) takes.
    #[must_use]
    pub fn outcome(&self) -> Outcome<'_> {
        match &self.result {
            Ok(response) => Outcome::Answer {
                status: response.status,
                retry_after: retry_after(&response.fields),
                body: &response.body,
            },
            Err(failure) => Outcome::Failed(*failure),
        }
    }
}

/// Shows nothing of the answer (EVT-101).
impl fmt::Debug for Posted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.result.as_ref().map(|response| response.status);
        f.debug_struct("Posted").field("id", &self.id).field("status", &status).finish_non_exhaustive()
    }
}

/// Returns `Retry-After` if it is there once, and in seconds.
fn retry_after(all: &Fields) -> Option<Duration> {
    let mut found = all.iter().filter(|(name, _)| name.eq_ignore_ascii_case(fields::RETRY_AFTER));
    let ((_, value), None) = (found.next()?, found.next()) else { return None };
    let digits = core::str::from_utf8(value).ok()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).map(Duration::from_secs)
}
