//! The party for which a request acts, and its scopes.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use super::http_request::HttpRequest;
use crate::extensions::Extensions;
use crate::json::write_str;
use crate::observe::Observation;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::scope::Scopes;
use crate::sync::Arc;

/// The meaning of a valid access token: for whom its bearer acts, and what it may do.
///
/// ```
/// use mcp_proto::server::Identity;
/// let identity = Identity::new("alice").scopes("files:read files:write");
/// assert_eq!(identity.principal(), "alice");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    principal: Arc<str>,
    scopes: Scopes,
    lifetime: Option<Duration>,
    proven_key: Option<ProvenKey>,
    extensions: Extensions,
}

impl Identity {
    /// Creates the identity of a principal without scopes.
    ///
    /// The name is compared byte for byte: sessions, sealed state and shares belong to it (SEC-005). With several
    /// issuers it must also say which issuer named the principal.
    #[must_use]
    pub fn new(principal: impl Into<Arc<str>>) -> Self {
        Self {
            principal: principal.into(),
            scopes: Scopes::default(),
            lifetime: None,
            proven_key: None,
            extensions: Extensions::new(),
        }
    }

    /// Sets the scopes that were granted, separated by spaces.
    #[must_use]
    pub fn scopes(mut self, scopes: &str) -> Self {
        self.scopes = scopes.split(' ').collect();
        self
    }

    /// Sets the time for which the token is still valid (default: no end is known).
    ///
    /// Every request is checked on its own. A stream without an end of its own (GET, subscription, HTTP+SSE) ends with
    /// the token with which it was opened; a call that began continues. The stream of HTTP+SSE carries its calls: it ends
    /// when those that run are answered, and takes no others meanwhile.
    #[must_use]
    pub const fn valid_for(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets the key to which the token is bound, whose proof was verified (default: the token is bound to none).
    ///
    /// A server does not accept a token that was presented with a proof without it, nor one with it that was presented
    /// as a bearer token: whoever decides about tokens cannot forget the proof (RFC 9449, 7).
    #[must_use]
    pub fn proven_key(mut self, key: impl Into<Option<ProvenKey>>) -> Self {
        self.proven_key = key.into();
        self
    }

    /// Attaches a value for the handlers of all requests with the token ([`Call::extension`](super::Call::extension)).
    ///
    /// It is not stored: the run of a task has none after a restart of the server.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Returns the values that were attached.
    #[must_use]
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Returns the key to which the token is bound.
    #[must_use]
    pub fn key(&self) -> Option<&ProvenKey> {
        self.proven_key.as_ref()
    }

    /// Returns the principal.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    pub(crate) const fn shared_principal(&self) -> &Arc<str> {
        &self.principal
    }

    /// Returns the scopes that were granted.
    #[must_use]
    pub const fn granted(&self) -> &Scopes {
        &self.scopes
    }

    /// Returns the time for which the token was still valid when it was checked.
    #[must_use]
    pub const fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }
}

/// Decides whether a scope includes another one.
type Implies = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// The scopes that every request needs, and which scopes include others.
#[derive(Clone, Default)]
pub(crate) struct ScopePolicy {
    pub(crate) required: Scopes,
    pub(crate) implies: Option<Implies>,
}

impl fmt::Debug for ScopePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopePolicy")
            .field("required", &self.required)
            .field("implies", &self.implies.is_some())
            .finish()
    }
}

/// The identity of a request, with the scope hierarchy of its server. Clones share it.
// One pointer: each request and each call has one, mostly none.
#[derive(Clone, Debug)]
pub struct Authorization(Arc<Party>);

/// The content of an [`Authorization`].
#[derive(Debug)]
struct Party {
    identity: Arc<Identity>,
    policy: Option<Arc<ScopePolicy>>,
}

impl Authorization {
    /// Creates an authorization in which no scope includes another one.
    #[must_use]
    pub fn new(identity: impl Into<Arc<Identity>>) -> Self {
        Self(Arc::new(Party { identity: identity.into(), policy: None }))
    }

    /// Returns whether the scopes were granted that every request needs.
    #[cfg(feature = "http")]
    pub(crate) fn has_required_scopes(&self) -> bool {
        let required = self.0.policy.as_ref().map(|policy| &policy.required);
        // Mostly a token has just these.
        required.is_none_or(|required| {
            required == self.scopes() || required.iter().all(|scope| self.has_scope(scope))
        })
    }

    #[cfg(feature = "http")]
    pub(crate) fn with_policy(identity: Arc<Identity>, policy: Arc<ScopePolicy>) -> Self {
        Self(Arc::new(Party { identity, policy: Some(policy) }))
    }

    /// Returns whether this is its scope hierarchy.
    #[cfg(feature = "http")]
    pub(crate) fn has_policy(&self, policy: &Arc<ScopePolicy>) -> bool {
        self.0.policy.as_ref().is_some_and(|own| Arc::ptr_eq(own, policy))
    }

    /// Returns the principal.
    #[must_use]
    pub fn principal(&self) -> &str {
        self.0.identity.principal()
    }

    /// Returns the scopes that were granted.
    #[must_use]
    pub fn scopes(&self) -> &Scopes {
        &self.0.identity.scopes
    }

    /// Returns the identity.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.0.identity
    }

    /// Returns whether a scope was granted, or one that includes it (AUTH-056).
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        let implies = self.0.policy.as_ref().and_then(|policy| policy.implies.as_ref());
        self.scopes().contains(scope)
            || implies.is_some_and(|implies| self.scopes().iter().any(|own| implies(own, scope)))
    }

    /// Checks that all these scopes were granted.
    ///
    /// # Errors
    ///
    /// An error that refuses the call; [`Engine::fail`](super::Engine::fail) describes its answer. It names all scopes
    /// that the operation needs, with those that every request needs (AUTH-055).
    pub fn require<S: AsRef<str>>(&self, scopes: &[S]) -> Result<(), RpcError> {
        if scopes.iter().all(|scope| self.has_scope(scope.as_ref())) {
            return Ok(());
        }
        let base = self.0.policy.iter().flat_map(|policy| policy.required.iter());
        let needed: Scopes = base.chain(scopes.iter().map(AsRef::as_ref)).collect();
        Err(insufficient_scope(&needed))
    }
}

/// Returns the error for a call that needs these scopes.
fn insufficient_scope(scopes: &Scopes) -> RpcError {
    let mut data: Vec<u8> = b"{\"requiredScopes\":[".to_vec();
    for (at, scope) in scopes.iter().enumerate() {
        if at > 0 {
            data.push(b',');
        }
        write_str(&mut data, scope);
    }
    data.extend_from_slice(b"]}");
    let message = format!("insufficient scope: the token has to have `{}`", scopes.as_str());
    let error = RpcError::invalid_request(message).with_data(RawJson::trusted(data.into()));
    RpcError { required_scopes: Some(scopes.as_str().into()), ..error }
}

// The key to which an access token is bound, of which its bearer has given proof.

/// The key to which an access token is bound, after the proof of its possession was verified (DPoP, RFC 9449).
///
/// Only what has verified the proof of a request may create one. `mcp_auth::token::DpopVerifier` does both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenKey {
    thumbprint: Box<str>,
    next_nonce: Option<String>,
}

impl ProvenKey {
    /// Creates the record of a verified proof, with the thumbprint of its key (`cnf.jkt` of the token; RFC 7638).
    #[must_use]
    pub fn new(thumbprint: impl Into<Box<str>>) -> Self {
        Self { thumbprint: thumbprint.into(), next_nonce: None }
    }

    /// Sets a nonce for the next proofs of the client, which the response offers in `DPoP-Nonce` (RFC 9449, 8.2).
    ///
    /// A text that is not one word of visible ASCII is not sent.
    #[must_use]
    pub fn with_next_nonce(mut self, nonce: impl Into<Box<str>>) -> Self {
        self.next_nonce = Some(nonce.into().into());
        self
    }

    /// Returns the thumbprint of the key.
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Returns the nonce for the next proofs, if it is another one than the client used, and can be sent.
    #[must_use]
    pub fn next_nonce(&self) -> Option<&str> {
        // A line break in it would begin another header field.
        self.next_nonce.as_deref().filter(|nonce| is_nonce(nonce))
    }
}

/// Returns whether a text can be sent as a nonce: one word of visible ASCII.
pub(crate) fn is_nonce(nonce: &str) -> bool {
    !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_graphic())
}

// The party that makes a call, with its HTTP request and the values of its session.

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

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AUTH-055, AUTH-056
    #[test]
    fn broader_scope_satisfies_and_refusal_names_all_scopes() {
        let policy = ScopePolicy {
            required: ["base"].into_iter().collect(),
            implies: Some(Arc::new(|broad, narrow| {
                narrow.strip_prefix(broad).is_some_and(|rest| rest.starts_with(':'))
            })),
        };
        let identity = Arc::new(Identity::new("alice").scopes("base files"));
        let plain = Authorization::new(identity.clone());
        assert!(!plain.has_scope("files:read"));
        let authorization = Authorization(Arc::new(Party { identity, policy: Some(Arc::new(policy)) }));
        assert!(authorization.has_scope("files:read") && !authorization.has_scope("filesystem"));
        assert_eq!(authorization.require(&["files:read", "base"]), Ok(()));
        let error = authorization.require(&["files:read", "mail", "bad\"scope"]).expect_err("not granted");
        assert_eq!(error.required_scopes.as_deref(), Some("base files:read mail"));
        assert_eq!(
            error.data.as_ref().map(RawJson::as_str),
            Some(r#"{"requiredScopes":["base","files:read","mail"]}"#)
        );
    }

    #[test]
    fn nonce_is_one_word_of_visible_ascii() {
        for (nonce, is_valid) in
            [("", false), ("a", true), ("!~", true), ("a b", false), ("a\r\nb", false), ("é", false)]
        {
            assert_eq!(is_nonce(nonce), is_valid, "{nonce:?}");
        }
    }

    // covers: AUTH-056
    #[test]
    fn caller_has_the_scopes_of_its_party() {
        let caller = Caller::from(Authorization::new(Identity::new("alice").scopes("files:read")));
        assert!(caller.has_scope("files:read") && !caller.has_scope("files:write"));
        assert!(!Caller::default().has_scope("files:read"));
    }

    #[test]
    fn policy_is_printed_without_its_function() {
        let implies: Option<Implies> = Some(Arc::new(|_, _| true));
        let policy = ScopePolicy { required: ["base"].into_iter().collect(), implies };
        let text = alloc::format!("{policy:?}");
        assert!(text.contains("base") && text.ends_with("implies: true }"), "{text}");
    }
}
