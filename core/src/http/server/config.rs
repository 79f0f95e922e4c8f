//! What an HTTP server is: its paths, whom it lets in, its sessions and its bounds.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ascii::AnyCase as _;
use crate::raw::RawJson;

/// The configuration of a server over HTTP
///
/// The default serves `/mcp` to programs and pages of this machine alone: a request whose `Origin` or `Host` is no
/// loopback name is refused, which is what keeps a web page from reaching a local server by a name that it controls
/// (HTTP-003, HTTP-008, SEC-017).
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
    pub(super) cors: bool,
    pub(super) sessions: bool,
    pub(super) replay_bytes: usize,
    pub(super) retry: Duration,
    pub(super) keep_alive: Duration,
    pub(super) sse_after: Duration,
    pub(super) session_idle: Duration,
    pub(super) max_exchanges: usize,
    pub(super) max_sessions: usize,
    pub(super) max_sessions_per_principal: usize,
    pub(super) max_streams_per_session: usize,
    pub(super) old_paths: Option<(String, String)>,
    pub(super) protected: Option<Protected>,
}

/// What a protected server tells those who come without a token that is good (AUTH; RFC 6750, RFC 9728)
///
/// Tokens are judged by the application: [`Event::Token`](super::Event::Token).
#[derive(Clone, Debug)]
pub struct Protected {
    pub(super) metadata_url: String,
    pub(super) metadata: Option<(String, RawJson)>,
    pub(super) scope: Option<String>,
}

impl Protected {
    /// `metadata_url` is where the protected-resource metadata is found
    #[must_use]
    pub fn new(metadata_url: impl Into<String>) -> Self {
        Self { metadata_url: metadata_url.into(), metadata: None, scope: None }
    }

    /// Serves the metadata document as well, at `path` (`/.well-known/oauth-protected-resource/mcp` for `/mcp`)
    #[must_use]
    pub fn serve(mut self, path: impl Into<String>, document: RawJson) -> Self {
        self.metadata = Some((path.into(), document));
        self
    }

    /// The scopes that are asked for, separated by spaces
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            path: String::from("/mcp"),
            origins: Vec::new(),
            hosts: Vec::new(),
            any_origin_and_host: false,
            cors: false,
            sessions: true,
            replay_bytes: 64 << 10,
            retry: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
            sse_after: Duration::from_secs(5),
            session_idle: Duration::from_secs(1_800),
            max_exchanges: 4_096,
            max_sessions: 100_000,
            max_sessions_per_principal: 10_000,
            max_streams_per_session: 64,
            old_paths: None,
            protected: None,
        }
    }
}

impl Config {
    /// The defaults
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The path of the endpoint (default `/mcp`); everything else is 404
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Lets in pages of an origin: `https://app.example.com`, as browsers write it (HTTP-004)
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Answers to a name besides those of this machine: `mcp.example.com`, with its port if it is neither 80 nor 443
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Looks at neither `Origin` nor `Host`, which then need not be there
    ///
    /// Right only where something in front of the server does. Without it any web page that a user of this machine
    /// visits can talk to the server (DNS rebinding).
    #[must_use]
    pub const fn dangerously_allow_any_origin_and_host(mut self) -> Self {
        self.any_origin_and_host = true;
        self
    }

    /// Whether pages of the origins that are let in may read answers (CORS; default no)
    #[must_use]
    pub const fn cors(mut self, cors: bool) -> Self {
        self.cors = cors;
        self
    }

    /// Whether legacy clients get sessions (default yes)
    ///
    /// Without them every legacy request stands alone: no news, no questions to the client, no levels of logging
    /// (HTTP-064, DEC-027). `resources/subscribe` and `resources/unsubscribe` are unknown methods then.
    #[must_use]
    pub const fn sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Bytes of events kept per session for clients that come back (default 64 KiB; 0: streams cannot be resumed)
    ///
    /// Reached: the oldest are forgotten, and asking for what came after them is answered with 400 (SSE-024). A message
    /// that is longer than all of it is not kept: a server that has clients [come back for
    /// answers](super::Server::poll_later) gives room for the longest of them.
    #[must_use]
    pub const fn replay_bytes(mut self, bytes: usize) -> Self {
        self.replay_bytes = bytes;
        self
    }

    /// How long a client is asked to wait before it comes back to a stream that the server closed (default 1 s; SSE-018)
    #[must_use]
    pub const fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// How often a silent stream is shown to be alive (default 15 s; SSE-006)
    #[must_use]
    pub const fn keep_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every;
        self
    }

    /// How long a call may be silent before its answer becomes a stream (default 5 s)
    #[must_use]
    pub const fn sse_after(mut self, after: Duration) -> Self {
        self.sse_after = after;
        self
    }

    /// How long a session may be idle, without requests, calls and streams (default 30 min); then it is forgotten, and
    /// its id is answered with 404
    #[must_use]
    pub const fn session_idle(mut self, idle: Duration) -> Self {
        self.session_idle = idle;
        self
    }

    /// Exchanges that are under way at a time, those of clients that went away and may come back included (default
    /// 4,096). Reached: 503.
    ///
    /// Three quarters of them may be streams that have no end of their own: subscriptions, those of GET, and those of
    /// HTTP+SSE. Reached: 503 for one more of these.
    ///
    /// What one can cost at the most is a body of [`Limits::max_frame`](crate::Limits::max_frame), later its answer, or
    /// [`Limits::outbox_mark`](crate::Limits::outbox_mark) of what its client has not fetched; a subscription also
    /// [`Limits::max_followed`](crate::Limits::max_followed) URIs of [`Limits::max_uri`](crate::Limits::max_uri) bytes,
    /// together no longer than its request. A server for everybody lowers these until their product with the number of
    /// exchanges (or of connections, where that is lower) is memory that it has.
    #[must_use]
    pub const fn max_exchanges(mut self, exchanges: usize) -> Self {
        self.max_exchanges = exchanges;
        self
    }

    /// Sessions in all (default 100,000), and of one principal (default 10,000)
    ///
    /// Reached: the oldest session whose handshake was not finished gives way, of the principal's own where those are too
    /// many; or else 503.
    ///
    /// What one can cost at the most: [`replay_bytes`](Self::replay_bytes), [`Limits::outbox_mark`] of what was said to it
    /// while it had no stream open, [`Limits::max_peer_info`], and [`Limits::max_followed`] URIs of [`Limits::max_uri`]
    /// bytes.
    ///
    /// [`Limits::outbox_mark`]: crate::Limits::outbox_mark
    /// [`Limits::max_peer_info`]: crate::Limits::max_peer_info
    /// [`Limits::max_followed`]: crate::Limits::max_followed
    /// [`Limits::max_uri`]: crate::Limits::max_uri
    #[must_use]
    pub const fn max_sessions(mut self, sessions: usize, per_principal: usize) -> Self {
        self.max_sessions = sessions;
        self.max_sessions_per_principal = per_principal;
        self
    }

    /// Calls of one session that are under way at a time, a batch counting as one (default 64). Reached: 503.
    #[must_use]
    pub const fn max_streams_per_session(mut self, streams: usize) -> Self {
        self.max_streams_per_session = streams;
        self
    }

    /// Serves HTTP+SSE of 2024-11-05 beside the endpoint (default no; HTTPSSE-012): the path of the stream and the path
    /// that messages are posted to
    #[must_use]
    pub fn http_sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.old_paths = Some((stream.into(), messages.into()));
        self
    }

    /// Lets in only who has a token that the application finds good (HTTP-007)
    #[must_use]
    pub fn protected(mut self, protected: Protected) -> Self {
        self.protected = Some(protected);
        self
    }

    /// The path of the endpoint
    #[must_use]
    pub fn get_path(&self) -> &str {
        &self.path
    }

    /// Whether a `Host` is one that is answered to, where that is looked at
    pub(super) fn is_host(&self, host: &[u8]) -> bool {
        is_loopback(without_port(host))
            || self.hosts.iter().any(|known| {
                let bare = host.strip_suffix(b":443").or_else(|| host.strip_suffix(b":80"));
                let is = |host: &[u8]| known.as_bytes().eq_any_case(host);
                is(host) || bare.is_some_and(is)
            })
    }

    /// Whether pages of an origin are let in, where that is looked at
    pub(super) fn is_origin(&self, origin: &[u8]) -> bool {
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some_and(|a| is_loopback(without_port(a)))
            || self.origins.iter().any(|known| known.as_bytes().eq_any_case(origin))
    }
}

/// The name in `name`, `name:port`, `[address]` or `[address]:port`; nothing where the port is none
fn without_port(authority: &[u8]) -> &[u8] {
    let at = match authority {
        [.., b']'] => None,
        _ => authority.iter().rposition(|b| *b == b':'),
    };
    let Some((name, port)) = at.and_then(|at| authority.split_at_checked(at)) else { return authority };
    let digits = port.get(1..).unwrap_or_default();
    let is_port = (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    if is_port { name } else { b"" }
}

fn is_loopback(name: &[u8]) -> bool {
    // Other addresses of 127/8 are this machine too, but names that look like them need not be.
    matches!(name, b"127.0.0.1" | b"[::1]") || name.eq_any_case(b"localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HTTP-008, SEC-017
    #[test]
    fn this_machine_and_nobody_else_is_let_in_by_default() {
        let config = Config::new();
        for host in ["localhost", "LocalHost:1", "127.0.0.1:65535", "[::1]", "[::1]:80"] {
            assert!(config.is_host(host.as_bytes()), "{host}");
        }
        let strangers = [
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
        for host in strangers {
            assert!(!config.is_host(host.as_bytes()), "{host}");
        }
        for origin in ["http://localhost", "https://127.0.0.1:3000", "http://[::1]:1"] {
            assert!(config.is_origin(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "null",
            "localhost",
            "http://evil.example",
            "http://localhost.evil.example",
            "file://localhost",
            "",
        ] {
            assert!(!config.is_origin(origin.as_bytes()), "{origin}");
        }
        let config = config.allow_host("mcp.example.com").allow_origin("https://app.example.com");
        assert!(config.is_host(b"MCP.example.com") && config.is_origin(b"https://app.example.com"));
        assert!(
            !config.is_host(b"mcp.example.com:8443")
                && !config.is_origin(b"https://app.example.com.evil.example")
        );
    }
}
