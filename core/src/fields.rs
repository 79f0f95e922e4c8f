//! Header fields of MCP over HTTP: their names, and the encoding of values that are not plain ASCII.
//!
//! The rules are XHDR-016 to XHDR-023.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::ascii::{AsciiCaseExt as _, is_word};
use crate::head::{FieldLine, values};
use crate::short_base64::{decode_padded, encode_padded};

/// Defines constants for field names.
macro_rules! field_names {
    ($($constant:ident $name:literal)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub const $constant: &str = $name;
    )*};
}

// Fields of MCP, spelt as in the specification; received names match in any case (HTTP-037).
field_names! {
    SESSION_ID "Mcp-Session-Id"
    PROTOCOL_VERSION "MCP-Protocol-Version"
    METHOD "Mcp-Method"
    NAME "Mcp-Name"
    LAST_EVENT_ID "Last-Event-ID"
}

/// The prefix of the fields that repeat tool arguments (XHDR-001).
pub const PARAM_PREFIX: &str = "Mcp-Param-";

// Fields of HTTP to which MCP gives a meaning.
field_names! {
    ACCEPT "Accept"
    ACCEPT_ENCODING "Accept-Encoding"
    ALLOW "Allow"
    AUTHORIZATION "Authorization"
    DPOP "DPoP"
    DPOP_NONCE "DPoP-Nonce"
    CACHE_CONTROL "Cache-Control"
    ETAG "ETag"
    CONTENT_ENCODING "Content-Encoding"
    CONTENT_TYPE "Content-Type"
    HOST "Host"
    IF_NONE_MATCH "If-None-Match"
    LOCATION "Location"
    ORIGIN "Origin"
    RETRY_AFTER "Retry-After"
    USER_AGENT "User-Agent"
    VARY "Vary"
    WWW_AUTHENTICATE "WWW-Authenticate"
    X_ACCEL_BUFFERING "X-Accel-Buffering"
}

// CORS.
field_names! {
    ALLOW_CREDENTIALS "Access-Control-Allow-Credentials"
    ALLOW_HEADERS "Access-Control-Allow-Headers"
    ALLOW_METHODS "Access-Control-Allow-Methods"
    ALLOW_ORIGIN "Access-Control-Allow-Origin"
    EXPOSE_HEADERS "Access-Control-Expose-Headers"
    MAX_AGE "Access-Control-Max-Age"
    REQUEST_HEADERS "Access-Control-Request-Headers"
    REQUEST_METHOD "Access-Control-Request-Method"
}

/// The media type of a body that is one message or a batch.
pub(crate) const JSON: &str = "application/json";
/// The media type of an event stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// The `Accept` value of a client that follows the specification literally.
pub(crate) const JSON_AND_EVENT_STREAM: &str = "application/json, text/event-stream";
/// The query parameter that names an HTTP+SSE session (HTTPSSE-009).
pub(crate) const HTTP_SSE_SESSION: &str = "sessionId";
/// The request fields that pages of other origins may send (CORS); `Mcp-Param-*` fields of tools are added to them.
pub(crate) const CORS_REQUEST_HEADERS: &str = "Accept, Authorization, Content-Type, DPoP, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Session-Id, MCP-Protocol-Version";
/// The request fields that pages of other origins may send for the metadata of a resource (CORS).
pub(crate) const CORS_METADATA_REQUEST_HEADERS: &str = "Accept, Content-Type, MCP-Protocol-Version";
/// The request fields that pages of other origins may send for a public document (CORS).
pub(crate) const CORS_DOCUMENT_REQUEST_HEADERS: &str = "Content-Type, If-None-Match";
/// The response fields that pages of other origins may read (CORS).
pub(crate) const CORS_EXPOSED_HEADERS: &str = "DPoP-Nonce, Mcp-Session-Id, WWW-Authenticate";

/// Returns whether the value of a field must not be shown, because its name suggests a secret (SEC-019).
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 14] = [
        "auth",
        "cookie",
        "session",
        "token",
        "secret",
        "key",
        "dpop",
        "jwt",
        "assertion",
        "passw",
        "credential",
        "oidc",
        "csrf",
        "xsrf",
    ];
    // A challenge is not a secret.
    const CHALLENGES: [&str; 2] = [WWW_AUTHENTICATE, "Proxy-Authenticate"];
    let has = |part: &&str| name.as_bytes().windows(part.len()).any(|w| w.eq_ignore_case(part.as_bytes()));
    PARTS.iter().any(has) && !CHALLENGES.iter().any(|challenge| name.eq_ignore_case(challenge))
}

/// A field that a server evaluates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KnownField {
    Accept,
    Authorization,
    ContentEncoding,
    ContentType,
    Dpop,
    Host,
    LastEventId,
    Method,
    Name,
    Origin,
    /// A field with [`PARAM_PREFIX`].
    Param,
    ProtocolVersion,
    SessionId,
}

impl KnownField {
    /// Number of these fields.
    pub(crate) const COUNT: usize = Self::SessionId as usize + 1;

    /// Returns the field with a name, in any case (HTTP-037).
    ///
    /// Looks at the length first, because most fields are none of these. On targets with short addresses it is compiled once,
    /// because the comparisons are long there.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let name = name.as_bytes();
        match name.len() {
            4 if is_word!(name, HOST) => Some(Self::Host),
            4 if is_word!(name, DPOP) => Some(Self::Dpop),
            6 if is_word!(name, ACCEPT) => Some(Self::Accept),
            6 if is_word!(name, ORIGIN) => Some(Self::Origin),
            8 if is_word!(name, NAME) => Some(Self::Name),
            10 if is_word!(name, METHOD) => Some(Self::Method),
            12 if is_word!(name, CONTENT_TYPE) => Some(Self::ContentType),
            13 if is_word!(name, AUTHORIZATION) => Some(Self::Authorization),
            13 if is_word!(name, LAST_EVENT_ID) => Some(Self::LastEventId),
            14 if is_word!(name, SESSION_ID) => Some(Self::SessionId),
            16 if is_word!(name, CONTENT_ENCODING) => Some(Self::ContentEncoding),
            20 if is_word!(name, PROTOCOL_VERSION) => Some(Self::ProtocolVersion),
            10.. if is_param_field(name) => Some(Self::Param),
            _ => None,
        }
    }
}

/// Returns whether the name begins with `Mcp-`, whether or not the field is known.
pub(crate) fn is_mcp_field(name: &str) -> bool {
    name.get(..4).is_some_and(|start| start.eq_ignore_case("Mcp-"))
}

/// Returns whether a field repeats a tool argument.
#[inline(always)]
fn is_param_field(name: &[u8]) -> bool {
    name.get(..PARAM_PREFIX.len()).is_some_and(|start| is_word!(start, PARAM_PREFIX))
}

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";

/// Encodes a value for a header field.
///
/// A value of printable ASCII is returned unchanged. Another value is written in Base64 between
/// markers; likewise one that begins or ends with a space or looks encoded itself (XHDR-017, XHDR-018, HTTP-035).
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
    // A plain value of this form would be decoded by the peer.
    let marked = value.starts_with(BASE64_PREFIX) && value.ends_with(BASE64_SUFFIX);
    if !ends && !marked && value.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return value;
    }
    let mut out =
        String::with_capacity(BASE64_PREFIX.len() + value.len().div_ceil(3) * 4 + BASE64_SUFFIX.len());
    out.push_str(BASE64_PREFIX);
    encode_padded(value.as_bytes(), &mut out);
    out.push_str(BASE64_SUFFIX);
    out.into()
}

/// Decodes a header field value that [`encode_value`] produced; surrounding whitespace is ignored (HTTP-038).
///
/// Only a value between both markers, spelt exactly, is decoded as Base64. Any other value is taken literally
/// (XHDR-020).
///
/// # Errors
///
/// - [`FieldValueError::Characters`]: the value has characters other than printable ASCII.
/// - [`FieldValueError::Base64`]: the text between the markers is not valid Base64.
/// - [`FieldValueError::Utf8`]: the decoded bytes are not UTF-8.
pub fn decode_value(value: &[u8]) -> Result<Cow<'_, str>, FieldValueError> {
    let value = trim(value);
    if !value.iter().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
        return Err(FieldValueError::Characters);
    }
    let text = core::str::from_utf8(value).map_err(|_| FieldValueError::Characters)?;
    let Some(base64) = text.strip_prefix(BASE64_PREFIX).and_then(|t| t.strip_suffix(BASE64_SUFFIX)) else {
        return Ok(text.into());
    };
    let bytes = decode_padded(base64).ok_or(FieldValueError::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| FieldValueError::Utf8)
}

/// Returns the value of the single field called `name` without surrounding whitespace, or `None` if it is absent.
///
/// # Errors
///
/// [`FieldValueError::Repeated`] if the field occurs several times: two readers may take different values (XHDR-027).
pub fn single_value<'a>(
    fields: &'a [FieldLine<'a>],
    name: &'a str,
) -> Result<Option<&'a [u8]>, FieldValueError> {
    let mut all = values(fields, name);
    let first = all.next();
    if all.next().is_some() { Err(FieldValueError::Repeated) } else { Ok(first.map(trim)) }
}

/// Returns the [decoded](decode_value) value of the single field called `name`, or `None` if it is absent.
///
/// # Errors
///
/// Those of [`single_value`] and [`decode_value`].
pub fn single_decoded_value<'a>(
    fields: &'a [FieldLine<'a>],
    name: &'a str,
) -> Result<Option<Cow<'a, str>>, FieldValueError> {
    single_value(fields, name)?.map(decode_value).transpose()
}

/// Returns the name of an MCP field that occurs more than once, whether or not the field is known (XHDR-027).
#[must_use]
pub fn find_repeated<'a>(fields: &[FieldLine<'a>]) -> Option<&'a str> {
    fields.iter().enumerate().find_map(|(i, (name, _))| {
        let before = fields.get(..i).unwrap_or_default();
        let twice = is_mcp_field(name) && before.iter().any(|(n, _)| n.eq_ignore_case(name));
        twice.then_some(*name)
    })
}

/// Returns a value without surrounding spaces and tabs.
fn trim(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The reason why a field value is unusable; its text follows the name of the field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldValueError {
    /// The field occurs more than once (XHDR-027).
    #[error("is there more than once")]
    Repeated,
    /// The value has characters that need Base64 (XHDR-023).
    #[error("has characters other than printable ASCII")]
    Characters,
    /// The Base64 is invalid: a wrong alphabet or wrong padding (XHDR-022).
    #[error("is not valid Base64")]
    Base64,
    /// The decoded bytes are not UTF-8 (XHDR-022).
    #[error("is not UTF-8")]
    Utf8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: XHDR-017, XHDR-018, XHDR-019, XHDR-021, HTTP-035
    #[test]
    fn values_round_trip_and_only_plain_ascii_is_unencoded() {
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
            // Prefix and suffix share one character.
            ("=?base64?=", "PT9iYXNlNjQ/PQ=="),
        ] {
            let want = format!("=?base64?{base64}?=");
            assert_eq!(encode_value(value), want, "{value:?}");
            assert_eq!(decode_value(want.as_bytes()).as_deref(), Ok(value));
        }
    }

    // covers: XHDR-020, XHDR-022, XHDR-023, HTTP-038
    #[test]
    fn decode_value_refuses_invalid_base64_and_characters() {
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
            assert_eq!(decode_value(value.as_bytes()), Err(FieldValueError::Base64), "{base64}");
        }
        assert_eq!(decode_value(b"=?base64?/w==?="), Err(FieldValueError::Utf8));
        for bad in [&b"\xc3\xb4"[..], b"a\0", b"a\nb", b"\x7f", b"\x1b"] {
            assert_eq!(decode_value(bad), Err(FieldValueError::Characters));
        }
    }

    // covers: XHDR-027
    #[test]
    fn repeated_field_is_refused() {
        let fields: [FieldLine<'_>; 5] = [
            ("mcp-name", b" =?base64?eA==?= "),
            ("Accept", b"a"),
            ("accept", b"b"),
            ("Mcp-Param-X", b"1"),
            ("MCP-PARAM-X", b"1"),
        ];
        assert_eq!(single_value(&fields, NAME), Ok(Some(&b"=?base64?eA==?="[..])));
        assert_eq!(single_decoded_value(&fields, NAME), Ok(Some("x".into())));
        assert_eq!(single_value(&fields, METHOD), Ok(None));
        assert_eq!(single_value(&fields, ACCEPT), Err(FieldValueError::Repeated));
        assert_eq!(find_repeated(&fields), Some("MCP-PARAM-X"));
        assert_eq!(find_repeated(&fields[..4]), None);
    }
}
