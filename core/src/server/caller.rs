//! The party that makes a call, with its HTTP request and the values of its session.

use core::net::IpAddr;

use super::authorization::Authorization;
use super::http_request::HttpRequest;
use crate::extensions::Extensions;
use crate::observe::Observation;
use crate::sync::Arc;

/// The origin of a call: the party for which it is made, its HTTP request, and the values of its session.
///
/// A caller on a byte stream, or on a server that is not protected, has no principal. [`Call::caller`](super::Call::caller)
/// returns that of a call. That of a subscription has the request that opened it; that of a session has no request.
///
/// ```
/// use mcp_proto::server::{Authorization, Caller, Identity};
/// let caller = Caller::from(Authorization::new(Identity::new("alice").scopes("files:read")));
/// assert_eq!(caller.principal(), Some("alice"));
/// assert!(caller.has_scope("files:read") && !Caller::default().has_scope("files:read"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The party as it was when the request arrived; that of the channel may be another one by now.
    pub(super) authorization: Option<Authorization>,
    pub(super) http: Option<Arc<HttpRequest>>,
    /// Those of the session or byte stream.
    pub(super) extensions: Option<Arc<Extensions>>,
    /// Whether the call was delivered before and goes on: the run of a task, or a call that waited for input, here or with
    /// sealed state at its client.
    pub(super) is_resumed: bool,
    pub(super) observation: Option<Arc<dyn Observation>>,
    /// For the run of a task: the address from which it was created.
    pub(super) creator_ip: Option<IpAddr>,
}

impl Caller {
    /// Returns the party, if it is authenticated.
    #[must_use]
    pub const fn authorization(&self) -> Option<&Authorization> {
        self.authorization.as_ref()
    }

    /// Returns the principal, if the party is authenticated.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.authorization().map(Authorization::principal)
    }

    /// Returns whether a scope was granted, or one that includes it (AUTH-056).
    ///
    /// Without authorization none was, so a server on a byte stream decides by
    /// [`authorization`](Self::authorization) first.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.authorization().is_some_and(|party| party.has_scope(scope))
    }

    /// Returns the HTTP request; see [`Call::http`](super::Call::http).
    #[must_use]
    pub fn http(&self) -> Option<&HttpRequest> {
        self.http.as_deref()
    }

    /// Returns the value of a type: of the request, of its token, of the session, or of the connection; see
    /// [`Call::extension`](super::Call::extension).
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let connection = || self.http.as_ref()?.connection.as_ref()?.extensions().get();
        let session = || self.extensions.as_ref()?.get();
        let token = || self.authorization.as_ref()?.identity().extensions().get();
        let own = self.http.as_ref().and_then(|http| http.extensions.get());
        own.or_else(token).or_else(session).or_else(connection)
    }

    /// Returns the observation of the request, if there is one.
    ///
    /// Run the handler in its [scope](Observation::in_scope), as the adapters do.
    #[must_use]
    pub fn observation(&self) -> Option<&Arc<dyn Observation>> {
        self.observation.as_ref()
    }

    /// Returns the IP address of the peer, over HTTP. The run of a task has that of the request that created it, unless the
    /// server was restarted since.
    #[must_use]
    pub fn peer_ip(&self) -> Option<IpAddr> {
        let peer = self.http().and_then(HttpRequest::peer_addr).map(|address| address.ip());
        peer.or(self.creator_ip)
    }

    /// Returns whether the call was delivered before and goes on.
    pub(crate) const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns the origin of later deliveries of the call.
    pub(super) fn to_resumed(&self) -> Self {
        Self { is_resumed: true, ..self.clone() }
    }
}

impl From<Authorization> for Caller {
    fn from(authorization: Authorization) -> Self {
        Self { authorization: Some(authorization), ..Self::default() }
    }
}
