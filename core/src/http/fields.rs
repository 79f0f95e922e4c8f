//! Header fields of MCP over HTTP: their names, and how values are written that a header cannot hold as they are
//! (XHDR-016 to XHDR-023).

use alloc::borrow::Cow;
use alloc::string::String;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::ascii::AnyCase as _;
use crate::head::{Field, values};

/// Constants for names of fields
macro_rules! names {
    ($($constant:ident $name:literal)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub const $constant: &str = $name;
    )*};
}

// Those of MCP, spelt as its specification does (HTTP-037: any case is read).
names! {
    SESSION_ID "Mcp-Session-Id"
    PROTOCOL_VERSION "MCP-Protocol-Version"
    METHOD "Mcp-Method"
    NAME "Mcp-Name"
    LAST_EVENT_ID "Last-Event-ID"
}

/// What the names of fields begin with that repeat arguments of a tool (XHDR-001)
pub const PARAM_PREFIX: &str = "Mcp-Param-";

// Those of HTTP that MCP gives a meaning.
names! {
    ACCEPT "Accept"
    ALLOW "Allow"
    AUTHORIZATION "Authorization"
    CACHE_CONTROL "Cache-Control"
    CONTENT_ENCODING "Content-Encoding"
    CONTENT_TYPE "Content-Type"
    HOST "Host"
    LOCATION "Location"
    ORIGIN "Origin"
    RETRY_AFTER "Retry-After"
    USER_AGENT "User-Agent"
    VARY "Vary"
    WWW_AUTHENTICATE "WWW-Authenticate"
    X_ACCEL_BUFFERING "X-Accel-Buffering"
}

// CORS.
names! {
    ALLOW_CREDENTIALS "Access-Control-Allow-Credentials"
    ALLOW_HEADERS "Access-Control-Allow-Headers"
    ALLOW_METHODS "Access-Control-Allow-Methods"
    ALLOW_ORIGIN "Access-Control-Allow-Origin"
    EXPOSE_HEADERS "Access-Control-Expose-Headers"
    MAX_AGE "Access-Control-Max-Age"
    REQUEST_HEADERS "Access-Control-Request-Headers"
    REQUEST_METHOD "Access-Control-Request-Method"
}

/// The type of a body that is one message, or a batch
pub(crate) const JSON: &str = "application/json";
/// The type of a body that is a stream of events
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// What clients accept that follow the specification to the letter
pub(crate) const JSON_AND_EVENTS: &str = "application/json, text/event-stream";
/// The parameter of a target that names a session of HTTP+SSE (HTTPSSE-009)
pub(crate) const OLD_SESSION: &str = "sessionId";
/// What pages of another origin may send (CORS), besides what tools want repeated …
pub(crate) const SENT_BY_PAGES: &str = "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Session-Id, MCP-Protocol-Version";
/// … and what they may read
pub(crate) const READ_BY_PAGES: &str = "Mcp-Session-Id, WWW-Authenticate";

/// Whether the value of a field is never shown: it opens doors, or is called as if it did (SEC-019)
pub(crate) fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 6] = ["auth", "cookie", "session", "token", "secret", "key"];
    // What is asked for is no secret.
    const ASKED: [&str; 2] = [WWW_AUTHENTICATE, "Proxy-Authenticate"];
    let has = |part: &&str| name.as_bytes().windows(part.len()).any(|w| w.eq_any_case(part.as_bytes()));
    PARTS.iter().any(has) && !ASKED.iter().any(|asked| name.eq_any_case(asked))
}

/// A field that a server goes by
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    Accept,
    Authorization,
    ContentEncoding,
    ContentType,
    Host,
    LastEventId,
    Method,
    Name,
    Origin,
    /// [`PARAM_PREFIX`]
    Param,
    ProtocolVersion,
    SessionId,
}

impl Known {
    /// Which one a name is, in whatever case it is written (HTTP-037); by its length first, as most are none of these
    #[inline]
    pub(crate) fn of(name: &str) -> Option<Self> {
        let is = |known: &str| name == known || name.eq_any_case(known);
        match name.len() {
            4 if is(HOST) => Some(Self::Host),
            6 if is(ACCEPT) => Some(Self::Accept),
            6 if is(ORIGIN) => Some(Self::Origin),
            8 if is(NAME) => Some(Self::Name),
            10 if is(METHOD) => Some(Self::Method),
            12 if is(CONTENT_TYPE) => Some(Self::ContentType),
            13 if is(AUTHORIZATION) => Some(Self::Authorization),
            13 if is(LAST_EVENT_ID) => Some(Self::LastEventId),
            14 if is(SESSION_ID) => Some(Self::SessionId),
            16 if is(CONTENT_ENCODING) => Some(Self::ContentEncoding),
            20 if is(PROTOCOL_VERSION) => Some(Self::ProtocolVersion),
            10.. if is_param(name) => Some(Self::Param),
            _ => None,
        }
    }
}

/// Whether a field is one of MCP's own, be it known or not
pub(crate) fn is_own(name: &str) -> bool {
    name.get(..4).is_some_and(|start| start.eq_any_case("Mcp-"))
}

/// Whether a field repeats an argument of a tool
fn is_param(name: &str) -> bool {
    name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_any_case(PARAM_PREFIX))
}

const BEGIN: &str = "=?base64?";
const END: &str = "?=";

/// A value as a header field holds it: as it is, or in Base64 between markers where it has other characters than printable
/// ASCII, begins or ends with a space, or looks like that itself (XHDR-017, XHDR-018, HTTP-035)
///
/// ```
/// use mcp_proto::http::fields::{decode_value, encode_value};
/// assert_eq!(encode_value("us west 1"), "us west 1");
/// assert_eq!(encode_value("côte"), "=?base64?Y8O0dGU=?=");
/// assert_eq!(decode_value(b"=?base64?Y8O0dGU=?=").unwrap(), "côte");
/// ```
pub fn encode_value<'a>(value: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let value = value.into();
    let ends = value.starts_with(' ') || value.ends_with(' ');
    let marked = value.starts_with(BEGIN) && value.ends_with(END);
    if !ends && !marked && value.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return value;
    }
    let mut out = String::with_capacity(BEGIN.len() + value.len().div_ceil(3) * 4 + END.len());
    out.push_str(BEGIN);
    STANDARD.encode_string(value.as_bytes(), &mut out);
    out.push_str(END);
    out.into()
}

/// What [`encode_value`] was given, read out of a header field; white space around it does not count (HTTP-038)
///
/// Only both markers, as they are spelt, make it Base64; everything else is what it says (XHDR-020).
///
/// # Errors
///
/// [`BadValue`], but for [`Repeated`](BadValue::Repeated).
pub fn decode_value(value: &[u8]) -> Result<Cow<'_, str>, BadValue> {
    let value = trim(value);
    if !value.iter().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
        return Err(BadValue::Characters);
    }
    let text = core::str::from_utf8(value).map_err(|_| BadValue::Characters)?;
    let Some(base64) = text.strip_prefix(BEGIN).and_then(|t| t.strip_suffix(END)) else {
        return Ok(text.into());
    };
    let bytes = STANDARD.decode(base64).map_err(|_| BadValue::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadValue::Text)
}

/// The value of the one field called `name`, as it stands but for white space around it; none when there is none
///
/// # Errors
///
/// [`BadValue::Repeated`] where there are several: two readers of the same request may take different ones (XHDR-027).
pub fn only<'a>(fields: &'a [Field<'a>], name: &'a str) -> Result<Option<&'a [u8]>, BadValue> {
    let mut all = values(fields, name);
    let first = all.next();
    if all.next().is_some() { Err(BadValue::Repeated) } else { Ok(first.map(trim)) }
}

/// [`only`] of it, [decoded](decode_value)
///
/// # Errors
///
/// Any [`BadValue`].
pub fn only_decoded<'a>(fields: &'a [Field<'a>], name: &'a str) -> Result<Option<Cow<'a, str>>, BadValue> {
    only(fields, name)?.map(decode_value).transpose()
}

/// A field of MCP's own that is there twice, be it known or not (XHDR-027)
#[must_use]
pub fn repeated<'a>(fields: &[Field<'a>]) -> Option<&'a str> {
    fields.iter().enumerate().find_map(|(i, (name, _))| {
        let before = fields.get(..i).unwrap_or_default();
        let twice = is_own(name) && before.iter().any(|(n, _)| n.eq_any_case(name));
        twice.then_some(*name)
    })
}

/// A value without the spaces and tabs around it
fn trim(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Why a field says nothing; to be put behind its name
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadValue {
    /// It is there several times (XHDR-027)
    #[error("is there more than once")]
    Repeated,
    /// It has characters that belong into Base64 (XHDR-023)
    #[error("has characters other than printable ASCII")]
    Characters,
    /// Its Base64 is none: another alphabet, or not the padding that belongs to it (XHDR-022)
    #[error("is not valid Base64")]
    Base64,
    /// It is no UTF-8 (XHDR-022)
    #[error("is not UTF-8")]
    Text,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: XHDR-017, XHDR-018, XHDR-019, XHDR-021, HTTP-035
    #[test]
    fn values_come_back_and_only_safe_ones_go_as_they_are() {
        for plain in [
            "",
            "us-west1",
            "us west 1",
            "a\"b",
            "~!",
            "=?base64?",
            "?=",
            "=?base64?x",
            "x?=",
            "=?BASE64?eA==?=",
        ] {
            assert_eq!(encode_value(plain), plain);
            assert_eq!(decode_value(plain.as_bytes()).as_deref(), Ok(plain));
        }
        for (value, base64) in [
            ("Hello, 世界", "SGVsbG8sIOS4lueVjA=="),
            (" lead", "IGxlYWQ="),
            ("trail ", "dHJhaWwg"),
            (" ", "IA=="),
            ("\ttab", "CXRhYg=="),
            ("in\tside", "aW4Jc2lkZQ=="),
            ("line1\nline2", "bGluZTEKbGluZTI="),
            ("\r\n", "DQo="),
            ("\0", "AA=="),
            ("\u{7f}", "fw=="),
            ("=?base64?x?=", "PT9iYXNlNjQ/eD89"),
            ("=?base64??=", "PT9iYXNlNjQ/Pz0="),
            // Begins and ends like that, with a character for both.
            ("=?base64?=", "PT9iYXNlNjQ/PQ=="),
        ] {
            let want = format!("=?base64?{base64}?=");
            assert_eq!(encode_value(value), want, "{value:?}");
            assert_eq!(decode_value(want.as_bytes()).as_deref(), Ok(value));
        }
    }

    // covers: XHDR-020, XHDR-022, XHDR-023, HTTP-038
    #[test]
    fn values_are_read_strictly() {
        for literal in [
            "SGVsbG8=",
            "=?base64?SGVsbG8=",
            "SGVsbG8=?=",
            "=?Base64?SGVsbG8=?=",
            "=?base64?=",
            "=? base64?eA==?=",
        ] {
            assert_eq!(decode_value(literal.as_bytes()).as_deref(), Ok(literal));
        }
        assert_eq!(decode_value(b" \t=?base64?SGVsbG8=?=  ").as_deref(), Ok("Hello"));
        assert_eq!(decode_value(b" \t a b\t ").as_deref(), Ok("a b"));
        assert_eq!(decode_value(b"  ").as_deref(), Ok(""));
        assert_eq!(decode_value(b"=?base64??=").as_deref(), Ok(""));
        for base64 in ["SGVsbG8", "SGVs!!!bG8=", "SGVsbG8==", "SGVsbG9=", "SGVs bG8=", "_-8=", "=", "A"] {
            let value = format!("=?base64?{base64}?=");
            assert_eq!(decode_value(value.as_bytes()), Err(BadValue::Base64), "{base64}");
        }
        assert_eq!(decode_value(b"=?base64?/w==?="), Err(BadValue::Text));
        for bad in [&b"\xc3\xb4"[..], b"a\0", b"a\nb", b"\x7f", b"\x1b"] {
            assert_eq!(decode_value(bad), Err(BadValue::Characters));
        }
    }

    // covers: XHDR-027
    #[test]
    fn what_is_said_twice_is_not_said() {
        let fields: [Field<'_>; 5] = [
            ("mcp-name", b" =?base64?eA==?= "),
            ("Accept", b"a"),
            ("accept", b"b"),
            ("Mcp-Param-X", b"1"),
            ("MCP-PARAM-X", b"1"),
        ];
        assert_eq!(only(&fields, NAME), Ok(Some(&b"=?base64?eA==?="[..])));
        assert_eq!(only_decoded(&fields, NAME), Ok(Some("x".into())));
        assert_eq!(only(&fields, METHOD), Ok(None));
        assert_eq!(only(&fields, ACCEPT), Err(BadValue::Repeated));
        assert_eq!(repeated(&fields), Some("MCP-PARAM-X"));
        assert_eq!(repeated(&fields[..4]), None);
    }
}
