//! The HTTP requests that a flow asks for, and their responses.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::ascii::AsciiCaseExt as _;
use crate::fields;
use crate::head::Fields;
use crate::url::{Origin, Url};

/// The number of a request within its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchId(pub(super) u32);

/// An HTTP request that a flow needs. One is open at a time.
///
/// Send it once, without cookies and without following redirects: the flow follows those that it permits. Add `Host`,
/// `Content-Length` and the fields of the connection.
#[derive(Clone)]
#[non_exhaustive]
pub struct Fetch {
    /// The id for reporting the response.
    pub id: FetchId,
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The URL.
    pub url: Url,
    /// The header fields.
    pub fields: Fields,
    /// The body; empty for `GET`.
    pub body: Vec<u8>,
    /// What the sender has to enforce.
    pub policy: FetchPolicy,
}

/// The bounds of a request that its sender enforces, because a flow resolves no names and reads no clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchPolicy {
    /// The time for the whole exchange, with name resolution and connecting.
    pub timeout: Duration,
    /// The largest body of a response, in bytes. A larger one is a [`FetchFailure::TooLarge`](super::FetchFailure).
    pub max_body: usize,
    /// The origin whose [`Network`](super::Network) decides which addresses the request may go to (SEC-011).
    ///
    /// Resolve both hosts. Connect to an address only if the network of this origin
    /// [permits](super::Network::permits) it; if no address is left, report [`FetchFailure::Forbidden`](super::FetchFailure). If the origin
    /// has addresses in several networks, it counts as public. `None`: the application named the target, and any
    /// address will do.
    pub reachable_from: Option<Origin>,
}

/// The response to a [`Fetch`].
#[derive(Clone, Default)]
pub struct FetchResponse {
    /// The status.
    pub status: u16,
    /// The header fields.
    pub fields: Fields,
    /// The whole body.
    pub body: Vec<u8>,
}

impl FetchPolicy {
    /// Creates the policy of a request to a target that the application named.
    #[must_use]
    pub const fn new(timeout: Duration, max_body: usize) -> Self {
        Self { timeout, max_body, reachable_from: None }
    }

    /// Permits only addresses that a server at this origin may refer to (SEC-011).
    #[must_use]
    pub fn reachable_from(mut self, origin: Origin) -> Self {
        self.reachable_from = Some(origin);
        self
    }
}

/// Returns the fields of a request for JSON that is not encoded: without the second one a server may encode it as it likes
/// (RFC 9110, 12.5.3).
pub(super) fn json_fields() -> Fields {
    let mut fields = Fields::new();
    fields.push(fields::ACCEPT, b"application/json");
    fields.push(fields::ACCEPT_ENCODING, b"identity");
    fields
}

impl Fetch {
    /// Creates a `GET` outside of a flow, for JSON.
    #[must_use]
    pub fn get(url: Url, policy: FetchPolicy) -> Self {
        let fields = json_fields();
        Self { id: FetchId(0), method: "GET", url, fields, body: Vec::new(), policy }
    }

    /// Creates a `POST` of a form outside of a flow, whose answer is JSON.
    #[must_use]
    pub fn post_form(url: Url, form: &str, policy: FetchPolicy) -> Self {
        let mut post = Self::get(url, policy);
        post.method = "POST";
        post.fields.push("Content-Type", b"application/x-www-form-urlencoded");
        post.body = form.as_bytes().to_vec();
        post
    }
}

impl FetchResponse {
    /// Returns the value of a field that is there once, as text.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(other, _)| other.eq_ignore_case(name));
        let (_, value) = values.next()?;
        if values.next().is_some() { None } else { core::str::from_utf8(value).ok() }
    }
}

/// Omits the body and the values of fields, which hold secrets (SEC-019).
impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch")
            .field("id", &self.id)
            .field("method", &self.method)
            .field("url", &self.url)
            .field("fields", &self.fields)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Omits the body and the values of fields, which hold secrets (SEC-019).
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse")
            .field("status", &self.status)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
