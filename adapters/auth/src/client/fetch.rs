//! The HTTP requests of a flow, sent under their policy.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::sync::OnceLock;

use mcp_oauth::{Fetch, FetchFailure, FetchPolicy, FetchResponse, Network};
use mcp_proto::http::client::Origin;
use mcp_std::http_client::{BodyBound, HttpClient, HttpFailure, HttpRequest};
use mcp_std::sync::{Budget, Ended};
#[cfg(feature = "tls")]
use mcp_std::tls::ClientTls;

use super::interaction::Cancellation;

#[cfg(test)]
mod tests;

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
#[derive(Clone, Default)]
pub struct HttpFetcher {
    client: HttpClient,
    /// Present in a flow.
    network: Option<Arc<FirstNetwork>>,
}

impl HttpFetcher {
    /// Creates a fetcher that trusts the roots of the system and uses its resolver.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the roots that are trusted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.client = self.client.tls(tls);
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
        self.client = self.client.resolver(resolver);
        self
    }

    fn send(
        &self,
        request: &HttpRequest<'_>,
        reachable_from: Option<&Origin>,
        budget: &Budget<'_>,
    ) -> Result<FetchResponse, FetchFailure> {
        let network = self.network.clone().unwrap_or_default();
        let addresses = self.permitted(&network, request.url.origin(), reachable_from, budget)?;
        let response = self.client.send(request, addresses, budget).map_err(failure)?;
        let mut fetched = FetchResponse::default();
        (fetched.status, fetched.fields, fetched.body) = (response.status, response.fields, response.body);
        Ok(fetched)
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
        let Fetch { method, url, fields, body, .. } = fetch;
        let request = HttpRequest { method, url, fields, body, response_body: BodyBound::Refuse(*max_body) };
        self.send(&request, reachable_from.as_ref(), &cancellation.within(*timeout))
    }

    fn for_flow(&self) -> Option<Arc<dyn Fetcher>> {
        Some(Arc::new(Self { network: Some(Arc::default()), ..self.clone() }))
    }
}

impl fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFetcher").finish_non_exhaustive()
    }
}

fn failure(failure: HttpFailure) -> FetchFailure {
    match failure {
        HttpFailure::TooLarge => FetchFailure::TooLarge,
        HttpFailure::Ended(Ended::TimedOut) => FetchFailure::TimedOut,
        other => FetchFailure::Unreachable(alloc::format!("{other}").into()),
    }
}

// The addresses of a host, and which of them a policy permits (SEC-011).

/// The host of the server of a flow, and the network that its first lookup found.
///
/// Whoever runs the server may run its name server, too: a second answer could open another network (SEC-011).
type FirstNetwork = OnceLock<(Box<str>, Network)>;

impl HttpFetcher {
    /// Returns the addresses of `target` that a server at `reachable_from` may refer to.
    fn permitted(
        &self,
        first: &FirstNetwork,
        target: &Origin,
        reachable_from: Option<&Origin>,
        budget: &Budget<'_>,
    ) -> Result<Vec<SocketAddr>, FetchFailure> {
        let look_up = |origin| self.client.look_up(origin, budget).map_err(failure);
        let mut addresses = look_up(target)?;
        if let Some(server) = reachable_from {
            let network = match first.get() {
                Some((host, network)) if *host == server.host => *network,
                _ if server.host == target.host => network_of(&addresses),
                _ => network_of(&look_up(server)?),
            };
            // The requests of a flow are all for one server, one after another.
            let _ = first.set((server.host.clone(), network));
            // SEC-011
            addresses.retain(|address| network.permits(address.ip()));
            if addresses.is_empty() {
                return Err(FetchFailure::Forbidden(target.host.clone()));
            }
        }
        Ok(addresses)
    }
}

/// Returns the network that all addresses are in, or the public one, which permits the fewest targets.
fn network_of(addresses: &[SocketAddr]) -> Network {
    let mut networks = addresses.iter().map(|address| Network::of(address.ip()));
    match networks.next() {
        Some(first) if networks.all(|other| other == first) => first,
        _ => Network::Public,
    }
}
