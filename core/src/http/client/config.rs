//! The configuration of a client over HTTP.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::ascii::AsciiCaseExt as _;
use crate::head::{Fields, is_token};
use crate::http::fields;
use crate::sync::Arc;
use crate::time::Instant;
use crate::url::{Url, UrlError};

/// The value of an `Authorization` field; secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    value: Arc<[u8]>,
    pub(super) renew_at: Option<Instant>,
    /// Whether each request needs a proof of possession of its key.
    pub(super) is_bound: bool,
}

impl Credential {
    /// Creates a bearer token (HTTP-079).
    ///
    /// # Errors
    ///
    /// [`RequestFieldError::Value`] if the token is empty or not visible ASCII.
    pub fn bearer(token: &str) -> Result<Self, RequestFieldError> {
        let fits = |b: u8| b.is_ascii_graphic();
        if token.is_empty() || !token.bytes().all(fits) {
            return Err(RequestFieldError::Value);
        }
        Self::new(&[b"Bearer ", token.as_bytes()].concat())
    }

    /// Creates a credential from the complete value of the field.
    ///
    /// # Errors
    ///
    /// [`RequestFieldError::Value`] if the value has control characters.
    pub fn new(value: &[u8]) -> Result<Self, RequestFieldError> {
        if !Fields::new().push(fields::AUTHORIZATION, value) {
            return Err(RequestFieldError::Value);
        }
        Ok(Self { value: value.into(), renew_at: None, is_bound: false })
    }

    /// Creates an access token that is bound to a key (DPoP, RFC 9449).
    ///
    /// Each request then gets a proof, which the application makes ([`poll_proof`](super::Authorization::poll_proof)), for example by
    /// `DpopProofs` of `mcp-oauth`.
    ///
    /// # Errors
    ///
    /// [`RequestFieldError::Value`] if the token is empty or not visible ASCII.
    pub fn dpop(token: &str) -> Result<Self, RequestFieldError> {
        // The same rules as for a bearer token.
        Self::bearer(token)?;
        Ok(Self { is_bound: true, ..Self::new(&[b"DPoP ", token.as_bytes()].concat())? })
    }

    /// Sets the time at which the credential has to be renewed, shortly before it expires.
    ///
    /// From then on requests wait for the answer to a [`Challenge`](super::Challenge) whose cause is
    /// [`Due`](super::ChallengeCause::Due), if [`Config::handle_challenges`] is set. If there is no other credential,
    /// they are sent with this one.
    #[must_use]
    pub fn renew_at(self, at: Option<Instant>) -> Self {
        Self { renew_at: at, ..self }
    }

    /// Returns the value without its scheme, if it has one.
    pub(super) fn token(&self) -> &str {
        let value = core::str::from_utf8(&self.value).unwrap_or_default();
        value.split_once(' ').map_or(value, |(_, token)| token)
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// Omits the value (SEC-019).
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// The reason why a field cannot be added to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestFieldError {
    /// The name is not a token.
    #[error("the field name is not a token")]
    Name,
    /// The value has control characters, or the bearer token is invalid.
    #[error("the field value has characters that are not allowed in a field")]
    Value,
    /// The client or the HTTP implementation sets this field.
    #[error("the client sets this field itself")]
    Reserved,
}

/// The delays between attempts to reconnect a broken event stream, and to send again what a server did not take: a call that may be
/// made twice, a message that it did not process, an answer to its request. A server may ask for more (`Retry-After`), up to an
/// hour, and for a message or an answer up to `max_delay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectPolicy {
    /// The first delay, unless the server names one (default 1 s; SSE-026).
    pub initial_delay: Duration,
    /// The limit up to which the delay doubles (default 30 s).
    ///
    /// A connection that stayed open for this time counts as productive.
    pub max_delay: Duration,
    /// Consecutive unproductive attempts (default 5; 0 disables reconnecting).
    pub max_attempts: u32,
}

impl Default for ReconnectPolicy {
    fn default() -> Self {
        Self { initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(30), max_attempts: 5 }
    }
}

/// The configuration of a client over HTTP; immutable and shared.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) endpoint: Arc<Url>,
    pub(super) fields: Fields,
    pub(super) credential: Option<Credential>,
    pub(super) handles_challenges: bool,
    pub(super) awaits_credential: bool,
    pub(super) allows_cleartext_credential: bool,
    pub(super) opens_get_stream: bool,
    pub(super) mirrors_in_legacy_sessions: bool,
    pub(super) get_stream_timeout: Duration,
    pub(super) reconnect: ReconnectPolicy,
    pub(super) max_credentials: u32,
    pub(super) max_tools: usize,
    pub(super) close_timeout: Duration,
    confinement: Option<Arc<str>>,
}

impl Config {
    /// Creates the default configuration for the server at `endpoint`.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `endpoint` is not a valid `http` or `https` URL.
    pub fn new(endpoint: &str) -> Result<Self, UrlError> {
        Ok(Self {
            endpoint: Arc::new(Url::parse(endpoint)?),
            fields: Fields::new(),
            credential: None,
            handles_challenges: false,
            awaits_credential: false,
            allows_cleartext_credential: false,
            opens_get_stream: true,
            mirrors_in_legacy_sessions: false,
            get_stream_timeout: Duration::from_secs(2),
            reconnect: ReconnectPolicy::default(),
            max_credentials: 3,
            max_tools: 4096,
            close_timeout: Duration::from_secs(5),
            confinement: None,
        })
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    /// Adds a field to every request; `Authorization` becomes the [`credential`](Self::credential).
    ///
    /// # Errors
    ///
    /// - [`RequestFieldError::Name`]: the name is not a token.
    /// - [`RequestFieldError::Value`]: the value has control characters.
    /// - [`RequestFieldError::Reserved`]: the client or the HTTP implementation sets this field.
    pub fn field(mut self, name: &str, value: &[u8]) -> Result<Self, RequestFieldError> {
        if !is_token(name.as_bytes()) {
            return Err(RequestFieldError::Name);
        }
        if name.eq_ignore_case(fields::AUTHORIZATION) {
            self.credential = Some(Credential::new(value)?);
            return Ok(self);
        }
        if is_reserved(name) {
            return Err(RequestFieldError::Reserved);
        }
        if self.fields.push(name, value) { Ok(self) } else { Err(RequestFieldError::Value) }
    }

    /// Sets the credential of all requests until [`authorize`](super::Authorization::authorize) replaces it (HTTP-079).
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = Some(credential);
        self
    }

    /// Sets whether the application answers [`Challenge`](super::Challenge)s (default no).
    ///
    /// If not, a request that is refused with 401 or 403 ends immediately.
    #[must_use]
    pub const fn handle_challenges(mut self, handle: bool) -> Self {
        self.handles_challenges = handle;
        self
    }

    /// Sets whether the first request waits for the answer to a [`Challenge`](super::Challenge) whose cause is
    /// [`Due`](super::ChallengeCause::Due) (default no).
    ///
    /// A credential that is stored elsewhere is then used from the first request on. It requires
    /// [`handle_challenges`](Self::handle_challenges).
    #[must_use]
    pub const fn await_credential(mut self, wait: bool) -> Self {
        self.awaits_credential = wait;
        self
    }

    /// Allows the [`credential`](Self::credential) on a connection without TLS to another machine, where everybody on
    /// the way can read it.
    ///
    /// Otherwise [`exposes_credential`](Self::exposes_credential) is true for such an endpoint, and adapters refuse to
    /// connect.
    #[must_use]
    pub const fn dangerously_allow_cleartext_credential(mut self) -> Self {
        self.allows_cleartext_credential = true;
        self
    }

    /// Returns whether a credential is set.
    #[must_use]
    pub const fn has_credential(&self) -> bool {
        self.credential.is_some()
    }

    /// Returns whether the credential would be sent without TLS to another machine than this one, without permission.
    #[must_use]
    pub fn exposes_credential(&self) -> bool {
        let origin = self.endpoint.origin();
        self.credential.is_some()
            && !origin.secure
            && !self.allows_cleartext_credential
            && !origin.is_loopback()
    }

    /// Sets whether to open the GET stream of a legacy server (default yes; HTTP-047).
    #[must_use]
    pub const fn open_get_stream(mut self, open: bool) -> Self {
        self.opens_get_stream = open;
        self
    }

    /// Sets whether `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` are sent in legacy sessions, too (default no).
    ///
    /// Gateways then see method and name of every request after `initialize`. No legacy revision defines these fields:
    /// an intermediary that acts on them refuses them under such a revision (HTTP-046), and other ones ignore them. A
    /// tool with invalid annotations stays callable, without `Mcp-Param-*`. A call that is refused because its tool has
    /// changed ends with that error until tools are listed again. HTTP+SSE is not affected.
    #[must_use]
    pub const fn mirror_in_legacy_sessions(mut self, mirror: bool) -> Self {
        self.mirrors_in_legacy_sessions = mirror;
        self
    }

    /// Sets how long calls wait for the GET stream to open, or for the log level to be set (default 2 s).
    #[must_use]
    pub const fn get_stream_timeout(mut self, timeout: Duration) -> Self {
        self.get_stream_timeout = timeout;
        self
    }

    /// Sets when broken event streams are reconnected.
    #[must_use]
    pub const fn reconnect(mut self, reconnect: ReconnectPolicy) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// Sets how many credentials are tried for one request (default 3).
    #[must_use]
    pub const fn max_credentials(mut self, tries: u32) -> Self {
        self.max_credentials = tries;
        self
    }

    /// Sets how many tools with `x-mcp-header` are remembered (default 4,096).
    ///
    /// Reached: calls of further tools are sent without `Mcp-Param-*` fields.
    #[must_use]
    pub const fn max_tools(mut self, tools: usize) -> Self {
        self.max_tools = tools;
        self
    }

    /// Refuses redirects, and URLs for messages of HTTP+SSE, that lead to another path than this one (default: any of the origin).
    ///
    /// A path that ends with `/*` stands for all that begin so and have no spelling that a server may take for another path.
    #[must_use]
    pub fn confine_to(mut self, path: &str) -> Self {
        self.confinement = Some(path.into());
        self
    }

    /// Returns whether the server may lead the client to a URL. Another origin must not see what is sent.
    pub(super) fn may_lead_to(&self, url: &Url) -> bool {
        let Some(allowed) = self.confinement.as_deref() else {
            return url.origin() == self.endpoint.origin();
        };
        let path = url.target().split('?').next().unwrap_or_default();
        let is_within = match allowed.strip_suffix('*').filter(|prefix| prefix.ends_with('/')) {
            Some(prefix) => path.starts_with(prefix) && !path.contains(['%', '\\']) && !path.contains("/."),
            None => without_last_slash(url.target()) == without_last_slash(allowed),
        };
        url.origin() == self.endpoint.origin() && is_within
    }
}

/// Returns path and query without a `/` at the end of the path: servers lead from `/mcp` to `/mcp/`, and back.
fn without_last_slash(target: &str) -> (&str, &str) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (path.strip_suffix('/').unwrap_or(path), query)
}

/// Returns whether the application must not set a field.
fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        // Responses are neither decoded nor requested in ranges.
        fields::ACCEPT_ENCODING,
        "range",
        fields::ACCEPT,
        fields::CONTENT_TYPE,
        fields::LAST_EVENT_ID,
    ];
    let is = |other: &&str| name.eq_ignore_case(other);
    NAMES.iter().any(is) || fields::is_mcp_field(name)
}

/// Returns a field value as text for messages.
pub(super) fn lossy_text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

pub(super) type FailureReason = Box<str>;
