//! stub
use alloc::borrow::Cow;
pub const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
pub const SESSION_ID: &str = "Mcp-Session-Id";
pub const METHOD: &str = "Mcp-Method";
pub const NAME: &str = "Mcp-Name";
pub const ACCEPT: &str = "Accept";
pub const CONTENT_TYPE: &str = "Content-Type";
pub const AUTHORIZATION: &str = "Authorization";
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
pub const RETRY_AFTER: &str = "Retry-After";
pub const LOCATION: &str = "Location";
pub const WWW_AUTHENTICATE: &str = "WWW-Authenticate";
pub const JSON: &str = "application/json";
pub const EVENT_STREAM: &str = "text/event-stream";
pub const ACCEPT_BOTH: &str = "application/json, text/event-stream";
pub fn encode(value: &str) -> Cow<'_, [u8]> { Cow::Borrowed(value.as_bytes()) }
