//! The HTTP requests that a flow asks for, and their responses.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use mcp_proto::fields;
use mcp_proto::head::Fields;
use mcp_proto::http::{Origin, Url};

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
        let mut values = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
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

// `application/x-www-form-urlencoded`: the bodies of token requests and the queries of redirects.

/// Parameters of a form, in order.
#[derive(Default)]
pub struct Form {
    text: String,
}

impl Form {
    /// Adds a parameter.
    #[inline(never)]
    pub fn push(&mut self, name: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        encode_form(&mut self.text, name);
        self.text.push('=');
        encode_form(&mut self.text, value);
    }

    /// Returns whether there is a parameter of this name, which needs no encoding.
    pub(super) fn has(&self, name: &str) -> bool {
        self.text.split('&').any(|part| part.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    }

    /// Returns the encoded text.
    pub fn into_string(self) -> String {
        self.text
    }
}

/// Appends `text` in the encoding of a form: a space becomes `+`.
#[inline(never)]
pub(super) fn encode_form(out: &mut String, text: &str) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or('0');
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push(digit(byte >> 4));
                out.push(digit(byte & 15));
            }
        }
    }
}

/// Calls `visit` with the name and value of each parameter of a query, decoded; `None` if an escape is malformed or a
/// text is not UTF-8.
pub fn parse_form(query: &str, visit: &mut dyn FnMut(String, String)) -> Option<()> {
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if !part.is_empty() {
            visit(decode(name)?, decode(value)?);
        }
    }
    Some(())
}

#[inline(never)]
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16).and_then(|d| u8::try_from(d).ok());
                (digit()? << 4) | digit()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned as _;

    fn read(text: &str) -> Option<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        parse_form(text, &mut |name, value| pairs.push((name, value)))?;
        Some(pairs)
    }

    #[test]
    fn a_form_is_read_as_it_was_written() {
        let pairs = [("a b", "c&d=e"), ("é", "+%\u{0}\n"), ("empty", ""), ("url", "https://h:1/p?q#f")];
        let mut form = Form::default();
        pairs.iter().for_each(|(name, value)| form.push(name, value));
        let text = form.into_string();
        assert!(text.starts_with("a+b=c%26d%3De&%C3%A9="), "{text}");
        let read = read(&text).expect("a form");
        assert_eq!(read, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    // covers: SEC-019
    #[test]
    fn debug_output_omits_bodies_and_values_of_fields() {
        let url = Url::parse("https://as/token").expect("a URL");
        let mut fetch = Fetch::post_form(url, "code=s3cret", FetchPolicy::new(Duration::from_secs(1), 9));
        fetch.fields.push("Authorization", b"s3cret");
        let (fields, body) = (fetch.fields.clone(), b"s3cret".to_vec());
        let response = FetchResponse { status: 200, fields, body };
        let shown = alloc::format!("{fetch:?} {response:?}");
        assert!(
            shown.starts_with("Fetch { id: ") && shown.contains("} FetchResponse { status: 200"),
            "{shown}"
        );
        assert!(shown.contains("Authorization") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn malformed_escapes_are_refused() {
        for bad in ["a=%", "a=%4", "a=%zz", "%ff=x", "a=%+1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read("&&a&"), Some([("a".to_owned(), String::new())].to_vec()));
    }
}
