//! The `Mcp-*` header fields: their names, and how values are written and read (XHDR).
use alloc::borrow::Cow;

pub(crate) const HOST: &str = "host";
pub(crate) const ORIGIN: &str = "origin";
pub(crate) const VARY: &str = "vary";
pub(crate) const ALLOW: &str = "allow";
pub(crate) const ACCEPT: &str = "accept";
pub(crate) const AUTHORIZATION: &str = "authorization";
pub(crate) const WWW_AUTHENTICATE: &str = "www-authenticate";
pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const CACHE_CONTROL: &str = "cache-control";
pub(crate) const ACCEL_BUFFERING: &str = "x-accel-buffering";
pub(crate) const RETRY_AFTER: &str = "retry-after";
pub(crate) const ALLOW_ORIGIN: &str = "access-control-allow-origin";
pub(crate) const ALLOW_METHODS: &str = "access-control-allow-methods";
pub(crate) const ALLOW_HEADERS: &str = "access-control-allow-headers";
pub(crate) const EXPOSE_HEADERS: &str = "access-control-expose-headers";
pub(crate) const MAX_AGE: &str = "access-control-max-age";
pub(crate) const SESSION_ID: &str = "mcp-session-id";
pub(crate) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
pub(crate) const METHOD: &str = "mcp-method";
pub(crate) const NAME: &str = "mcp-name";
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";
/// The parameter that names a session of HTTP+SSE
pub(crate) const OLD_SESSION: &str = "sessionId";
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// Whose values are never shown (SEC-019)
pub(crate) const SECRET: [&str; 5] =
    [AUTHORIZATION, SESSION_ID, "cookie", "set-cookie", "proxy-authorization"];
/// What pages may send …
pub(crate) const ALLOWED: &str = "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Session-Id, MCP-Protocol-Version";
/// … and read
pub(crate) const EXPOSED: &str = "Mcp-Session-Id, WWW-Authenticate";

pub(crate) fn is_param(name: &str) -> bool {
    name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-"))
}

pub(crate) fn decode_value(value: &[u8]) -> Result<Cow<'_, str>, ()> {
    core::str::from_utf8(value).map(Cow::Borrowed).map_err(|_| ())
}
