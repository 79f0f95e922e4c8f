//! The configuration of an HTTP server: paths, access, sessions and limits.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::admission::Cors;
use super::documents::PublicDocument;
use super::http_sse::HttpSse;
use super::protected::Protected;
use crate::ascii::AsciiCaseExt as _;
use crate::built::{Authorizing, Sessions};
use crate::sync::Arc;
use crate::url::strip_loopback_name;

/// The configuration of a server over HTTP.
///
/// The default serves `/mcp` to programs and pages of the local machine only. A request is refused if its `Origin` or
/// `Host` is not a loopback name. This prevents a web page from reaching a local server through a name that the page
/// controls (HTTP-003, HTTP-008, SEC-017).
///
/// ```
/// use mcp_proto::http::server::Config;
/// let local = Config::new();
/// let public = Config::new().allow_host("mcp.example.com").allow_origin("https://app.example.com").cors(true);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) path: String,
    pub(super) origins: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) any_origin_and_host: bool,
    pub(super) cors: Option<Cors>,
    pub(super) sessions: bool,
    pub(super) replay_bytes: usize,
    pub(super) retry: Duration,
    pub(super) keep_alive: Duration,
    pub(super) event_stream_delay: Duration,
    pub(super) session_idle_timeout: Duration,
    pub(super) max_exchanges: usize,
    pub(super) max_exchanges_per_principal: usize,
    pub(super) max_sessions: usize,
    pub(super) max_sessions_per_principal: usize,
    pub(super) max_streams_per_session: usize,
    pub(super) max_get_streams_per_session: usize,
    pub(super) http_sse: Option<HttpSse>,
    pub(super) protected: Option<Arc<Protected>>,
    pub(super) token_timeout: Duration,
    pub(super) store_timeout: Duration,
    /// Names of fields that handlers may see.
    pub(super) visible_fields: Vec<String>,
    pub(super) documents: Vec<PublicDocument>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            path: String::from("/mcp"),
            origins: Vec::new(),
            hosts: Vec::new(),
            any_origin_and_host: false,
            cors: None,
            sessions: true,
            replay_bytes: 64 << 10,
            retry: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
            event_stream_delay: Duration::from_secs(5),
            session_idle_timeout: Duration::from_secs(1_800),
            max_exchanges: 4_096,
            max_exchanges_per_principal: 1_024,
            max_sessions: 100_000,
            max_sessions_per_principal: 10_000,
            max_streams_per_session: 64,
            max_get_streams_per_session: 4,
            http_sse: None,
            protected: None,
            token_timeout: Duration::from_secs(10),
            store_timeout: Duration::from_secs(5),
            visible_fields: Vec::new(),
            documents: Vec::new(),
        }
    }
}

impl Config {
    /// Creates the default configuration.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the path of the endpoint (default `/mcp`); other paths get 404.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Allows pages of an origin, in the form that browsers send: `https://app.example.com` (HTTP-004).
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Allows a `Host` in addition to the loopback names.
    ///
    /// The port is part of the name unless it is 80 or 443: `mcp.example.com`, `mcp.example.com:8443`.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Disables the checks of `Origin` and `Host`; both fields may then be absent.
    ///
    /// Use this only behind a proxy that performs these checks. Otherwise any web page that a user of this machine
    /// visits can talk to the server (DNS rebinding).
    #[must_use]
    pub const fn dangerously_allow_any_origin_and_host(mut self) -> Self {
        self.any_origin_and_host = true;
        self
    }

    /// Sets whether pages of the allowed origins may read responses (CORS; default no).
    #[must_use]
    pub const fn cors(mut self, cors: bool) -> Self {
        self.cors = if cors { Some(Cors::new()) } else { None };
        self
    }

    /// Sets whether legacy clients get sessions (default yes).
    ///
    /// Without sessions each legacy request is independent. There are no change notifications, input requests and log
    /// levels (HTTP-064, DEC-027). `resources/subscribe` and `resources/unsubscribe` are then unknown methods. Without the
    /// feature `sessions` of this crate there are none.
    #[must_use]
    pub const fn sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Sets the bytes of events that are kept per session for resumption (default 64 KiB; 0 disables it).
    ///
    /// Without the feature `sessions` of this crate there are no sessions, and none are kept: GET gets 405.
    ///
    /// Reached: the oldest events are evicted, and resuming before them gets 400 (SSE-024). A message larger than the
    /// whole budget is not kept. A server that uses [`poll_later`](super::Server::poll_later) needs room for its
    /// largest answer.
    #[must_use]
    pub const fn replay_bytes(mut self, bytes: usize) -> Self {
        self.replay_bytes = bytes;
        self
    }

    /// Sets how long clients wait before they reconnect to a stream that the server closed (default 1 s; SSE-018).
    #[must_use]
    pub const fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the interval of keep-alive comments on an idle event stream (default 15 s; SSE-006).
    #[must_use]
    pub const fn keep_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every;
        self
    }

    /// Sets how long a call may be silent before its response becomes an event stream (default 5 s).
    #[must_use]
    pub const fn event_stream_delay(mut self, after: Duration) -> Self {
        self.event_stream_delay = after;
        self
    }

    /// Sets the idle timeout of a session without requests, calls and streams (default 30 min).
    ///
    /// Reached: the session is removed, and its id gets 404.
    #[must_use]
    pub const fn session_idle_timeout(mut self, idle: Duration) -> Self {
        self.session_idle_timeout = idle;
        self
    }

    /// Sets the largest number of open exchanges (default 4,096).
    ///
    /// Exchanges of disconnected clients that may resume count too. Reached: 503.
    ///
    /// Three quarters of them may be streams without an end of their own: subscriptions, GET streams and those of
    /// HTTP+SSE. Reached: the GET stream or subscription that has been quiet for longest ends. The client of a GET
    /// stream is told to come back after ten times [`retry`](Self::retry); a subscription gets its final result. If
    /// there is none: 503.
    ///
    /// An exchange costs at most a body of [`Limits::max_frame`](crate::Limits::max_frame), and later its answer, or
    /// [`Limits::outbox_high_water`](crate::Limits::outbox_high_water) of unread output. A subscription also costs
    /// [`Limits::max_subscribed_resources`](crate::Limits::max_subscribed_resources) URIs of
    /// [`Limits::max_uri`](crate::Limits::max_uri) bytes, together no longer than its request. A public server should
    /// lower these limits. Their product with the number of exchanges, or of connections if that is lower, must fit
    /// into memory.
    #[must_use]
    pub const fn max_exchanges(mut self, exchanges: usize) -> Self {
        self.max_exchanges = exchanges;
        self
    }

    /// Sets the largest number of open exchanges of one principal (default 1,024; SEC-018).
    ///
    /// It has an effect on a [protected](Self::protected) server only. Reached: the GET stream or subscription of that
    /// principal that has been quiet for longest ends. If there is none: 503.
    #[must_use]
    pub const fn max_exchanges_per_principal(mut self, exchanges: usize) -> Self {
        self.max_exchanges_per_principal = exchanges;
        self
    }

    /// Sets the largest number of sessions in all (default 100,000) and of one principal (default 10,000).
    ///
    /// Reached: the oldest session whose handshake is unfinished is evicted. If the limit of a principal is reached, it
    /// is one of that principal. If there is none: 503.
    ///
    /// A session costs at most [`replay_bytes`](Self::replay_bytes), [`Limits::outbox_high_water`] of messages queued
    /// while no stream was open, [`Limits::max_peer_info`], and [`Limits::max_subscribed_resources`] URIs of
    /// [`Limits::max_uri`] bytes.
    ///
    /// [`Limits::outbox_high_water`]: crate::Limits::outbox_high_water
    /// [`Limits::max_peer_info`]: crate::Limits::max_peer_info
    /// [`Limits::max_subscribed_resources`]: crate::Limits::max_subscribed_resources
    /// [`Limits::max_uri`]: crate::Limits::max_uri
    #[must_use]
    pub const fn max_sessions(mut self, sessions: usize, per_principal: usize) -> Self {
        self.max_sessions = sessions;
        self.max_sessions_per_principal = per_principal;
        self
    }

    /// Sets the largest number of open calls of one session (default 64); a batch counts as one.
    ///
    /// Reached: 503.
    #[must_use]
    pub const fn max_streams_per_session(mut self, streams: usize) -> Self {
        self.max_streams_per_session = streams;
        self
    }

    /// Sets the largest number of open GET streams of one session (default 4; 0 counts as 1; HTTP-054).
    ///
    /// Reached: the next one is opened, and the oldest one ends, because its connection may have broken unnoticed. The
    /// same happens if [`max_exchanges`](Self::max_exchanges) leaves no room for one more. As many closed streams can be
    /// resumed; an older one gets 400 (SSE-024).
    ///
    /// An open stream costs at most 16 KiB and one message of unread output. It is kept for another stream if the
    /// connection breaks.
    #[must_use]
    pub const fn max_get_streams_per_session(mut self, streams: usize) -> Self {
        self.max_get_streams_per_session = streams;
        self
    }

    /// Serves HTTP+SSE of 2024-11-05 beside the endpoint (default no; HTTPSSE-012, DESIGN-29).
    ///
    /// `stream` is the path of the event stream, `messages` the path for POST. Without the feature `sessions` this has no
    /// effect.
    #[deprecated(note = "MCP SEP-2596; earliest removal: three months after SEP-2596 reaches Final")]
    #[must_use]
    pub fn http_sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.http_sse = Sessions::get().map(|_| HttpSse::new(stream.into(), messages.into()));
        self
    }

    /// Requires a token that the application accepts, and describes where to get one (HTTP-007).
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn protected(mut self, protected: Protected) -> Self {
        self.protected = Some(Arc::new(protected));
        self
    }

    /// Sets for how long a request waits for the decision about its token (default 10 s).
    ///
    /// Reached: 503 with `Retry-After`. It has no effect where a [validator](super::Server::set_validator) decides at
    /// once.
    #[must_use]
    pub const fn token_timeout(mut self, timeout: Duration) -> Self {
        self.token_timeout = timeout;
        self
    }

    /// Returns for how long a store keeps the record of a session that nobody uses: longer than each process keeps its copy.
    #[must_use]
    pub fn record_lifetime(&self) -> Duration {
        self.session_idle_timeout.saturating_add(self.session_idle_timeout / 8)
    }

    /// Sets for how long a request waits for the store of sessions that [are shared](super::SharedSessions::begin)
    /// (default 5 s).
    ///
    /// Reached: 503 with `Retry-After`.
    #[must_use]
    pub const fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout;
        self
    }

    /// Returns the protected resource that the server is, if it requires tokens.
    #[must_use]
    pub fn protected_resource(&self) -> Option<&Protected> {
        // Without the feature the compiler sees that there is none.
        if Authorizing::IS_BUILT { self.protected.as_deref() } else { None }
    }

    /// Returns whether clients are told apart, by sessions or by principals, so that each may list its tasks.
    #[must_use]
    pub const fn tells_clients_apart(&self) -> bool {
        self.has_sessions() || (Authorizing::IS_BUILT && self.protected.is_some())
    }

    /// Returns the path of the endpoint.
    #[must_use]
    pub fn endpoint_path(&self) -> &str {
        &self.path
    }

    /// Returns the marker of sessions if legacy clients get them.
    pub(super) fn sessions_marker(&self) -> Option<Sessions> {
        Sessions::get().filter(|_| self.sessions)
    }

    /// Returns whether legacy clients get sessions.
    pub(super) const fn has_sessions(&self) -> bool {
        Sessions::IS_BUILT && self.sessions
    }

    /// Returns the bytes of events that are kept per session.
    pub(super) const fn replay_budget(&self) -> usize {
        if Sessions::IS_BUILT { self.replay_bytes } else { 0 }
    }

    /// Returns whether a `Host` is allowed; not called if the check is disabled.
    pub(super) fn allows_host(&self, host: &[u8]) -> bool {
        is_loopback(host)
            || self.hosts.iter().any(|known| {
                // Behind a proxy the scheme is unknown, so the default ports of both count as no port.
                let bare = host.strip_suffix(b":443").or_else(|| host.strip_suffix(b":80"));
                let is = |host: &[u8]| known.as_bytes().eq_ignore_case(host);
                is(host) || bare.is_some_and(is)
            })
    }

    /// Returns whether an `Origin` is allowed; not called if the check is disabled.
    pub(super) fn allows_origin(&self, origin: &[u8]) -> bool {
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some_and(is_loopback)
            || self.origins.iter().any(|known| known.as_bytes().eq_ignore_case(origin))
    }
}

/// Returns whether an authority is a name of this machine, with or without a port.
fn is_loopback(authority: &[u8]) -> bool {
    let port = strip_loopback_name(authority);
    port.is_some_and(|port| match port {
        [] => true,
        [b':', digits @ ..] => (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    })
}

impl Config {
    /// Serves a public document, such as the card of a server (SEP-2127; DESIGN-47): `mcp_extensions::cards` makes it.
    ///
    /// It is read without a token, by pages of every origin, too. The check of `Host` stays on. It answers to GET, HEAD and
    /// conditional requests (`ETag`), and is fresh for an hour; one that is [made for each request](PublicDocument::live) is not
    /// cached, and only for the own origin. A document for the same place is replaced.
    ///
    /// ```
    /// use mcp_proto::RawJson;
    /// use mcp_proto::http::server::{Config, PublicDocument};
    ///
    /// let tides = RawJson::new(r#"{"port":"Brest"}"#)?;
    /// let document = PublicDocument::at_path("/.well-known/port.json", "application/json", tides);
    /// let config = Config::new().allow_host("tides.example.com").document(document);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn document(mut self, document: PublicDocument) -> Self {
        self.documents.retain(|known| !known.replaces(&document));
        self.documents.push(document);
        self
    }

    /// Returns the public document at a path.
    #[inline]
    pub(super) fn document_at(&self, path: &str) -> Option<&PublicDocument> {
        self.documents.iter().find(|document| document.is_at(path, &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HTTP-008, SEC-017
    #[test]
    fn default_config_allows_loopback_only() {
        let config = Config::new();
        for host in ["localhost", "LocalHost:1", "127.0.0.1:65535", "[::1]", "[::1]:80"] {
            assert!(config.allows_host(host.as_bytes()), "{host}");
        }
        let foreign_hosts = [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:80",
            "127.0.0.1:",
            "127.0.0.1:x",
            "[::1]:",
            "localhost:80:80",
            "::1",
            "0.0.0.0",
            "127.0.0.2",
            "localhost.",
            "a@localhost",
        ];
        for host in foreign_hosts {
            assert!(!config.allows_host(host.as_bytes()), "{host}");
        }
        for origin in ["http://localhost", "https://127.0.0.1:3000", "http://[::1]:1"] {
            assert!(config.allows_origin(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "null",
            "localhost",
            "http://evil.example",
            "http://localhost.evil.example",
            "file://localhost",
            "",
        ] {
            assert!(!config.allows_origin(origin.as_bytes()), "{origin}");
        }
        let config = config.allow_host("mcp.example.com").allow_origin("https://app.example.com");
        assert!(config.allows_host(b"MCP.example.com") && config.allows_origin(b"https://app.example.com"));
        assert!(
            !config.allows_host(b"mcp.example.com:8443")
                && !config.allows_origin(b"https://app.example.com.evil.example")
        );
    }
}
