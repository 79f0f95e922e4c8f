//! The token that a connection brought last: mostly its next request brings the same.

use alloc::boxed::Box;

use super::TokenRequest;
use super::protected::{Protected, Scheme};
use crate::server::{Authorization, Identity};
use crate::sync::Arc;

/// What was made of the token that a connection brought last.
///
/// It only saves doing the same again: the validator decides about each request (SEC-004).
#[derive(Debug, Default)]
pub(super) struct RecentToken(Option<Box<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    /// The last accepted request for a decision about a bearer token of a POST to the endpoint. Those of the endpoint
    /// differ in the token alone.
    request: Option<TokenRequest>,
    /// The authorization that was made of an identity last. It has the scopes that every request needs.
    authorization: Option<Authorization>,
}

impl RecentToken {
    /// Returns the request for the decision about a POST to the endpoint, if its `Authorization` field has the token of
    /// the last one.
    pub(super) fn request_of(&self, field: &[u8], protected: &Protected) -> Option<&TokenRequest> {
        let request = self.0.as_deref()?.request.as_ref()?;
        // The duration tells how much of both tokens is equal, but only to the client that sent both.
        let is_same = field.strip_prefix(b"Bearer ")? == request.token.reveal().as_bytes();
        // Another server may drive the connection now.
        (is_same && protected.is_endpoint_url(&request.url)).then_some(request)
    }

    /// Records an accepted request of the endpoint. Returns the request whose memory can be used again.
    pub(super) fn record_request(&mut self, request: TokenRequest) -> Option<TokenRequest> {
        if request.scheme == Scheme::Bearer && request.token.reveal().len() <= MAX_KEPT {
            self.0.get_or_insert_default().request.replace(request)
        } else {
            Some(request)
        }
    }

    /// Returns the authorization of an identity, if it was made of the same object last.
    pub(super) fn authorization_of(
        &self,
        identity: &Arc<Identity>,
        protected: &Protected,
    ) -> Option<&Authorization> {
        let known = self.0.as_deref()?.authorization.as_ref()?;
        (Arc::ptr_eq(known.identity(), identity) && known.has_policy(protected.policy())).then_some(known)
    }

    /// Records the authorization that was made of an identity.
    pub(super) fn record_authorization(&mut self, authorization: Authorization) {
        self.0.get_or_insert_default().authorization = Some(authorization);
    }

    /// Forgets the token.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

/// Largest memory of a token that is kept for the next request, in bytes.
pub(super) const MAX_KEPT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::super::{Config, Connection, Server};
    use super::*;
    use crate::entropy::Entropy;
    use crate::h1::HttpLimits;
    use crate::server::ScopePolicy;
    use crate::time::Instant;
    use alloc::format;

    fn protected() -> Protected {
        Protected::new("https://a.example/mcp", "https://login.example").expect("valid")
    }

    fn request(protected: &Protected, token: &str) -> TokenRequest {
        let url = protected.request_url("/mcp", "/mcp");
        TokenRequest { url, ..TokenRequest::bearer(token, "POST", "") }
    }

    // covers: SEC-004
    #[test]
    fn only_the_same_token_at_the_same_resource_is_known() {
        let (protected, mut recent) = (protected(), RecentToken::default());
        assert!(recent.request_of(b"Bearer first", &protected).is_none());
        assert!(recent.record_request(request(&protected, "first")).is_none());
        let known = |recent: &RecentToken, field: &[u8]| recent.request_of(field, &protected).is_some();
        assert!(known(&recent, b"Bearer first"));
        for other in [&b"Bearer firs"[..], b"Bearer first ", b"Bearer ", b"bearer first", b"first", b""] {
            assert!(!known(&recent, other), "{other:?}");
        }
        let elsewhere = Protected::new("https://a.example/mcp", "https://login.example").expect("valid");
        assert!(recent.request_of(b"Bearer first", &elsewhere).is_none());
        let earlier = recent.record_request(request(&protected, "second")).expect("the first one");
        assert_eq!(earlier.token.reveal(), "first");
        assert!(known(&recent, b"Bearer second") && !known(&recent, b"Bearer first"));
        let large = "x".repeat(MAX_KEPT + 1);
        assert!(recent.record_request(request(&protected, &large)).is_some(), "too large to be kept");
        let bound = TokenRequest { scheme: Scheme::Dpop, ..request(&protected, "bound") };
        assert!(recent.record_request(bound).is_some(), "needs a new proof each time");
        recent.clear();
        assert!(!known(&recent, b"Bearer second"));
    }

    // covers: SEC-019
    #[test]
    fn idle_connection_forgets_the_token() {
        let http = Config::new().protected(protected());
        let server = crate::server::Config::new("demo", "1.0");
        let mut server = Server::new(Arc::new(server), Arc::new(http), Entropy::new([7; 32], 0));
        server.set_validator(|_| Some(Ok(Arc::new(Identity::new("alice")))));
        let (now, limits) = (Instant::from_micros(1), HttpLimits::default());
        let idle = now + limits.idle_trim;
        let mut connection = Connection::new(now, limits);
        connection.handle_input(
            now,
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\nContent-Length: 0\r\n\r\n",
        );
        connection.drive(now, &mut server);
        let kept = connection.recent_token.0.as_ref().and_then(|parts| parts.request.as_ref());
        assert_eq!(kept.map(|request| request.token.reveal()), Some("s3cret"));
        assert!(!format!("{connection:?}").contains("s3cret"));
        connection.consume(connection.transmit().len());
        connection.drive(now, &mut server);
        connection.handle_timeout(idle);
        assert!(connection.recent_token.0.is_none());
    }

    #[test]
    fn only_the_same_identity_under_the_same_policy_is_known() {
        let (protected, mut recent) = (protected(), RecentToken::default());
        let [identity, equal] = [(); 2].map(|()| Arc::new(Identity::new("alice")));
        recent.record_authorization(Authorization::with_policy(identity.clone(), protected.policy().clone()));
        assert!(recent.authorization_of(&identity, &protected).is_some());
        assert!(recent.authorization_of(&equal, &protected).is_none());
        recent.record_authorization(Authorization::with_policy(
            identity.clone(),
            Arc::<ScopePolicy>::default(),
        ));
        assert!(recent.authorization_of(&identity, &protected).is_none());
    }
}
