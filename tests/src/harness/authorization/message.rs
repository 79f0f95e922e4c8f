//! Requests and responses of the fake world, and what is inside them: forms and JSON Web Tokens.

use alloc::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mcp_oauth::{Fetch, FetchFailure, FetchResponse};
use mcp_proto::head::Fields;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A request that a flow asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The whole URL.
    pub url: String,
    /// Header fields.
    pub fields: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// The parameters of a form, decoded.
    pub params: BTreeMap<String, String>,
    /// The server whose network has to reach the URL.
    pub reachable_from: Option<String>,
}

impl Request {
    pub(super) fn new(fetch: &Fetch) -> Self {
        let fields = fetch.fields.iter();
        let fields: Vec<(String, String)> =
            fields.map(|(n, v)| (n.into(), String::from_utf8_lossy(v).into_owned())).collect();
        let body = String::from_utf8_lossy(&fetch.body).into_owned();
        let url = format!("{}{}", fetch.url.origin(), fetch.url.target());
        let reachable_from = fetch.policy.reachable_from.as_ref().map(ToString::to_string);
        let params = BTreeMap::new();
        let mut request = Self { method: fetch.method, url, fields, body, params, reachable_from };
        if request.field("content-type") == Some("application/x-www-form-urlencoded") {
            request.params = form(&request.body).into_iter().collect();
        }
        request
    }

    /// Returns the value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Returns a parameter of the form; empty if it is missing.
    #[must_use]
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", |value| value)
    }

    /// Returns the URL without its query.
    #[must_use]
    pub fn place(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    /// Returns the grant type; empty for other requests.
    #[must_use]
    pub fn grant(&self) -> &str {
        self.param("grant_type").rsplit(':').next().unwrap_or_default()
    }

    /// Returns the user name and the password of `Authorization: Basic`, decoded.
    pub(super) fn basic(&self) -> Option<(String, String)> {
        let text = STANDARD.decode(self.field("authorization")?.strip_prefix("Basic ")?).ok()?;
        let text = String::from_utf8(text).ok()?;
        let (id, secret) = text.split_once(':')?;
        Some((decoded(id), decoded(secret)))
    }
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A response.
    Response {
        /// The status.
        status: u16,
        /// Header fields.
        fields: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// The sender reports a failure.
    Failure(FetchFailure),
    /// Nothing until the flow gives up.
    Silence,
}

impl Reply {
    /// Returns a JSON response.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Response { status, fields: Vec::new(), body: body.to_string().into_bytes() }
    }

    /// Returns a response with this text as its body.
    #[must_use]
    pub fn text(status: u16, body: &str) -> Self {
        Self::Response { status, fields: Vec::new(), body: body.as_bytes().to_vec() }
    }

    /// Returns an error of a token endpoint.
    #[must_use]
    pub fn error(code: &str) -> Self {
        Self::json(400, &serde_json::json!({ "error": code }))
    }

    /// Returns a redirect.
    #[must_use]
    pub fn redirect(to: &str) -> Self {
        Self::Response { status: 302, fields: vec![("Location".into(), to.into())], body: Vec::new() }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: &str) -> Self {
        if let Self::Response { fields, .. } = &mut self {
            fields.push((name.into(), value.into()));
        }
        self
    }

    /// Changes the JSON body.
    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        if let Self::Response { body, .. } = self {
            let mut value: Value = serde_json::from_slice(body).expect("a JSON body");
            change(&mut value);
            *body = value.to_string().into_bytes();
        }
    }

    /// Returns the JSON object of a successful response.
    pub(super) fn document(&self) -> Option<Value> {
        match self {
            Self::Response { status: 200..=299, body, .. } => serde_json::from_slice(body).ok(),
            _ => None,
        }
    }
}

pub(super) fn response(status: u16, fields: &[(String, String)], body: &[u8]) -> FetchResponse {
    let mut lines = Fields::new();
    for (name, value) in fields {
        lines.push(name, value.as_bytes());
    }
    FetchResponse { status, fields: lines, body: body.to_vec() }
}

/// Returns the decoded parameters of a form or a query.
#[must_use]
pub fn form(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let (mut out, bytes, mut at) = (Vec::new(), text.as_bytes(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => {
                let hex = text.get(at + 1..at + 3).expect("a whole escape");
                out.push(u8::from_str_radix(hex, 16).expect("an escape"));
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8(out).expect("UTF-8")
}

/// Encodes a value for a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Returns the Base64url text of the SHA-256 digest of a text.
pub(super) fn digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

/// Returns the header and the claims of a JSON Web Token with a signature.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn jwt(text: &str) -> (Value, Value) {
    let parts: Vec<&str> = text.split('.').collect();
    assert!(parts.len() == 3 && !parts[2].is_empty(), "not a signed token: {text}");
    let part = |at: usize| {
        let bytes = URL_SAFE_NO_PAD.decode(parts[at]).expect("Base64url");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    (part(0), part(1))
}
