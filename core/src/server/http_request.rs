//! The HTTP request of a call, as handlers see it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::ascii::AsciiCaseExt as _;
use crate::extensions::Extensions;
use crate::head::Fields;
use crate::sync::Arc;

/// The HTTP request of a call, as handlers see it ([`Call::http`](super::Call::http)).
///
/// It has neither the query nor fields that are not [chosen](crate::http::server::Config::visible_fields): both may hold
/// secrets (SEC-019). A proxy in front of the server changes what is seen: then the peer is the proxy, and fields such as
/// `X-Forwarded-For` are as trustworthy as the proxy that sets them.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub(crate) path: Arc<str>,
    pub(crate) fields: Fields,
    pub(crate) extensions: Extensions,
    pub(crate) connection: Option<Arc<ConnectionInfo>>,
}

impl HttpRequest {
    #[cfg(feature = "http")]
    pub(crate) const fn new(path: Arc<str>, fields: Fields) -> Self {
        Self { path, fields, extensions: Extensions::new(), connection: None }
    }

    /// Returns the values of the application that are attached to the request ([`Call::extension`](super::Call::extension)).
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Describes the connection.
    pub fn set_connection(&mut self, connection: Arc<ConnectionInfo>) {
        self.connection = Some(connection);
    }

    /// Returns the method: `POST`, because no other request has calls.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        "POST"
    }

    /// Returns the path, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the value of a chosen field, by its name in any case: the first one if it is repeated.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(other, _)| other.eq_ignore_case(name)).map(|(_, value)| value)
    }

    /// Returns the value of a chosen field as text; `None` also if it is not UTF-8.
    #[must_use]
    pub fn field_text(&self, name: &str) -> Option<&str> {
        core::str::from_utf8(self.field(name)?).ok()
    }

    /// Returns the names and values of all chosen fields, in the order received.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter()
    }

    /// Returns the connection, if the transport describes it.
    #[must_use]
    pub fn connection(&self) -> Option<&ConnectionInfo> {
        self.connection.as_deref()
    }

    /// Returns the address of the peer, if the transport says it.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.connection.as_ref()?.peer_addr
    }
}

/// A connection, as its transport describes it.
///
/// ```
/// use mcp_proto::server::ConnectionInfo;
/// let info = ConnectionInfo::new().peer_addr(([127, 0, 0, 1], 4000)).extension("blue");
/// assert!(info.peer().is_some_and(|peer| peer.ip().is_loopback()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConnectionInfo {
    peer_addr: Option<SocketAddr>,
    peer_certificates: Vec<Box<[u8]>>,
    extensions: Extensions,
}

impl ConnectionInfo {
    /// Creates the description of a connection of which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the address of the peer.
    #[must_use]
    pub fn peer_addr(mut self, address: impl Into<SocketAddr>) -> Self {
        self.peer_addr = Some(address.into());
        self
    }

    /// Sets the certificates that the client proved to own (TLS), its own first, each in DER.
    #[must_use]
    pub fn peer_certificates<C: Into<Box<[u8]>>>(mut self, chain: impl IntoIterator<Item = C>) -> Self {
        self.peer_certificates = chain.into_iter().map(Into::into).collect();
        self
    }

    /// Attaches a value for the handlers of all requests of the connection.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Returns the address of the peer.
    #[must_use]
    pub const fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr
    }

    /// Returns the certificates of the client, its own first, each in DER; empty without TLS, and if it has none.
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.peer_certificates.iter().map(|certificate| &**certificate)
    }

    /// Returns the values that were attached.
    #[must_use]
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }
}

#[cfg(feature = "http")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_of_a_request_is_described_as_it_was_set() {
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let chain = [&b"own"[..], b"issuer"];
        let connection = ConnectionInfo::new().peer_addr(address).peer_certificates(chain).extension(7_u8);
        let mut request = HttpRequest::new("/mcp".into(), Fields::default());
        assert!(request.connection().is_none() && request.peer_addr().is_none());
        request.set_connection(Arc::new(connection));
        let connection = request.connection().expect("it was set");
        assert_eq!((connection.peer(), request.peer_addr()), (Some(address), Some(address)));
        assert!(connection.certificates().eq(chain));
        assert_eq!(connection.extensions().get::<u8>(), Some(&7));
        assert_eq!((ConnectionInfo::new().peer(), ConnectionInfo::new().certificates().count()), (None, 0));
    }
}
