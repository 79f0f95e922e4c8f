//! The HTTP requests of a flow, sent under their policy.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use mcp_proto::auth::{Fetch, FetchFailure, FetchPolicy, FetchResponse};
use mcp_proto::head::Fields;
use mcp_proto::http::client::{Origin, Url};

use super::cancellation::{Budget, Cancellation, Ended};
#[cfg(feature = "tls")]
use crate::tls::ClientTls;

mod exchange;
mod resolve;
#[cfg(test)]
mod tests;

use resolve::{FirstNetwork, Resolver};

/// A sender of the requests of a flow.
///
/// An implementation enforces the [policy](FetchPolicy) of each request, sends it once, without cookies, and returns
/// a redirect like any other response.
pub trait Fetcher: Send + Sync {
    /// Sends a request and waits for the whole response.
    ///
    /// # Errors
    ///
    /// [`FetchFailure`] if there is no whole response. No part of it may contain the query of the URL, a field or a
    /// body, because these hold secrets (SEC-019).
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure>;

    /// Does the same, and ends early when `cancellation` is cancelled.
    ///
    /// The default ignores `cancellation`: the request then ends by its timeout.
    ///
    /// # Errors
    ///
    /// The same as [`fetch`](Self::fetch); [`FetchFailure::Unreachable`] for a cancelled request.
    fn fetch_cancellable(
        &self,
        fetch: &Fetch,
        cancellation: &Cancellation,
    ) -> Result<FetchResponse, FetchFailure> {
        let _ = cancellation;
        self.fetch(fetch)
    }

    /// Returns the sender of the requests of one flow, which may keep what it decides for its first request; `None`,
    /// the default, if this one serves all flows alike.
    fn for_flow(&self) -> Option<Arc<dyn Fetcher>> {
        None
    }
}

/// A [`Fetcher`] with the HTTP/1.1 client of [`mcp_proto::h1`], on Unix.
///
/// Each request has a connection of its own. There are no redirects, cookies or proxies, and nothing is cached.
/// `https` needs the feature `tls`.
///
/// The host of a request is resolved once, and only addresses that the policy permits are connected to, so that a
/// second answer of the name server cannot replace a checked one (SEC-011). `localhost` and the names below it are
/// `127.0.0.1` and `::1`, whatever a name server says (RFC 6761, 6.3).
///
/// The network of the server, which decides what the policy permits, is that of the first lookup of its host
/// [in a flow](Fetcher::for_flow): otherwise its name server could open another one in the middle of it. Requests
/// outside of a flow decide each for itself.
///
/// A name is resolved on a thread of its own. If the resolver of the system hangs, that thread outlives the request.
///
/// A cancelled request is [`FetchFailure::Unreachable`] with the text `cancelled`.
#[derive(Clone)]
pub struct HttpFetcher {
    #[cfg(feature = "tls")]
    tls: ClientTls,
    resolver: Resolver,
    /// Present in a flow.
    network: Option<Arc<FirstNetwork>>,
}

/// The parts of a request that are sent, with its policy.
struct Outgoing<'a> {
    method: &'a str,
    url: &'a Url,
    fields: &'a Fields,
    body: &'a [u8],
    policy: Bounds<'a>,
}

/// The bounds of a [`FetchPolicy`].
struct Bounds<'a> {
    timeout: Duration,
    max_body: usize,
    reachable_from: Option<&'a Origin>,
}

impl HttpFetcher {
    /// Creates a fetcher that trusts the roots of the system and uses its resolver.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
            resolver: resolve::system(),
            network: None,
        }
    }

    /// Sets the roots that are trusted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Replaces the resolver of the system by a function of a host name and a port.
    ///
    /// It is called on a thread of its own, and neither for IP addresses nor for `localhost`. The policy applies to
    /// what it returns.
    #[must_use]
    pub fn resolver<F>(mut self, resolver: F) -> Self
    where
        F: Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    {
        self.resolver = Arc::new(resolver);
        self
    }

    fn send(
        &self,
        outgoing: &Outgoing<'_>,
        cancellation: &Cancellation,
    ) -> Result<FetchResponse, FetchFailure> {
        let origin = outgoing.url.origin();
        if origin.secure && cfg!(not(feature = "tls")) {
            let why = "`https` needs the feature `tls`, which is not enabled";
            return Err(FetchFailure::Unreachable(why.into()));
        }
        let budget = Budget::new(outgoing.policy.timeout, cancellation);
        let network = self.network.clone().unwrap_or_default();
        let from = outgoing.policy.reachable_from;
        let addresses = resolve::permitted(&self.resolver, &network, origin, from, &budget)?;
        let mut stream = self.connect(origin, addresses, &budget)?;
        let outcome = exchange::run(&mut stream, outgoing, &budget);
        stream.close();
        outcome
    }
}

impl Fetcher for HttpFetcher {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        self.fetch_cancellable(fetch, &Cancellation::new())
    }

    fn fetch_cancellable(
        &self,
        fetch: &Fetch,
        cancellation: &Cancellation,
    ) -> Result<FetchResponse, FetchFailure> {
        let FetchPolicy { timeout, max_body, reachable_from, .. } = &fetch.policy;
        let policy =
            Bounds { timeout: *timeout, max_body: *max_body, reachable_from: reachable_from.as_ref() };
        let Fetch { method, url, fields, body, .. } = fetch;
        self.send(&Outgoing { method, url, fields, body, policy }, cancellation)
    }

    fn for_flow(&self) -> Option<Arc<dyn Fetcher>> {
        Some(Arc::new(Self { network: Some(Arc::default()), ..self.clone() }))
    }
}

impl Default for HttpFetcher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFetcher").finish_non_exhaustive()
    }
}

impl From<Ended> for FetchFailure {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::TimedOut => Self::TimedOut,
            Ended::Cancelled => Self::Unreachable("cancelled".into()),
        }
    }
}

/// Returns the failure of a step on the way to a host.
fn unreachable(what: &str, error: &dyn fmt::Display) -> FetchFailure {
    FetchFailure::Unreachable(format!("{what}: {error}").into())
}
