//! Errors of HTTP exchanges.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::ascii::AsciiCaseExt as _;
use crate::rpc::{RpcError, clip};

/// The reason why a request over HTTP has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No connection could be made. The request was not sent and so not executed.
    #[error("the server was not reached: {reason}")]
    Unreachable {
        /// Error of the connection.
        reason: Box<str>,
    },
    /// The exchange ended before the answer was complete. The server may have executed the request (HTTP-044).
    #[error("the answer was lost: {reason}")]
    Lost {
        /// Error of the connection.
        reason: Box<str>,
    },
    /// The status is not a success, or the body is not an MCP message.
    #[error(transparent)]
    Response(HttpResponse),
    /// The server accepted the request as a message that needs no answer (HTTP-082), and no GET stream is open on which
    /// a legacy server could answer it.
    #[error("the server accepted the request (HTTP status {status}) but did not answer it")]
    Unanswered {
        /// HTTP status.
        status: u16,
    },
    /// The server redirects to a place that is not safe to follow.
    #[error("the server redirects (HTTP status {status}) to {}, which is not followed",
        if .to.is_empty() { Cow::Borrowed("no valid URL") } else { quoted(.to) })]
    Redirected {
        /// HTTP status.
        status: u16,
        /// Target URL without its query; empty if it is not a valid URL.
        to: String,
    },
    /// The GET stream was refused or is lost for good, so no change notifications arrive.
    ///
    /// Ends the subscriptions of the legacy era.
    #[error("the stream of change notifications is not available: {reason}")]
    GetStreamUnavailable {
        /// Reason why the stream is unavailable.
        reason: Box<str>,
    },
    /// The authorization that the server asked for failed; the request was not executed.
    #[error("{}not authorized: {error}",
        .refusal.as_ref().filter(|refusal| refusal.has_explanation()).map_or_else(String::new, |it| alloc::format!("{it}; ")))]
    Authorization {
        /// Why the authorization failed.
        error: super::AuthorizationError,
        /// The refusal of the server; `None` if the credential was due and nothing was sent.
        ///
        /// Its body may say what the authorization cannot: that the server wants a key in another field.
        refusal: Option<Box<HttpResponse>>,
    },
    /// The server has ended the session, and the request with it.
    #[error("the session has ended at the server")]
    SessionLost,
}

/// An HTTP response that is not an MCP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// HTTP status.
    pub status: u16,
    /// Value of `Content-Type`, as received.
    pub content_type: Option<String>,
    /// Value of `Content-Encoding`, if present. Such a body is not decoded.
    pub content_encoding: Option<String>,
    /// Beginning of the body, if it is text.
    ///
    /// It is untrusted: escape it before it is displayed.
    pub body: String,
    /// JSON-RPC error in the body, if any.
    pub error: Option<RpcError>,
    /// Value of `Retry-After`, if it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// Challenges in `WWW-Authenticate`.
    pub challenges: Vec<AuthChallenge>,
    /// Whether there was a `WWW-Authenticate` or `Retry-After`, whatever it says.
    pub(crate) asks_for_more: bool,
}

impl fmt::Display for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status)?;
        match &self.content_type {
            Some(content_type) => {
                write!(f, " with a body of type `{}`", quoted(clip(content_type).as_ref()))?
            }
            None if self.error.is_some() || !self.body.is_empty() => {
                f.write_str(" with a body of no type")?
            }
            None => f.write_str(" without a body")?,
        }
        if let Some(encoding) = &self.content_encoding {
            write!(f, " that is encoded with `{}`", quoted(clip(encoding).as_ref()))?;
        }
        if (200..300).contains(&self.status) {
            f.write_str(", which is not an MCP message")?;
        }
        match &self.error {
            Some(error) => write!(f, ": {} (code {})", quoted(&error.message), error.code)?,
            None if self.is_text() => write!(f, ": {}", quoted(self.body.trim()))?,
            None => {}
        }
        match self.status {
            413 => f.write_str(": the request is too large for the server")?,
            431 => f.write_str(
                ": the request head is too large for the server; arguments of a tool may be repeated there",
            )?,
            _ => {}
        }
        if let Some(after) = self.retry_after {
            write!(f, "; try again in {} s", after.as_secs())?;
        }
        if let Some(challenge) = self.challenges.first() {
            write!(f, "; the server asks for `{}` authorization", quoted(clip(&challenge.scheme).as_ref()))?;
            for name in ["error", "error_description", "scope"] {
                if let Some(value) = challenge.param(name) {
                    write!(f, ", {name} `{}`", quoted(clip(value).as_ref()))?;
                }
            }
        }
        Ok(())
    }
}

impl HttpResponse {
    /// Returns whether the body explains the status: it is an error or a short text.
    fn has_explanation(&self) -> bool {
        self.error.is_some() || self.is_text()
    }

    /// Returns whether the body is a short human-readable text, as opposed to an HTML page.
    fn is_text(&self) -> bool {
        let content_type = self.content_type.as_deref().unwrap_or("text/plain").as_bytes();
        let is = |name: &[u8]| content_type.get(..name.len()).is_some_and(|k| k.eq_ignore_case(name));
        let is_encoded = self.content_encoding.is_some();
        (is(b"text/plain") || is(b"application/json")) && !is_encoded && !self.body.trim().is_empty()
    }
}

impl core::error::Error for HttpResponse {}

/// Returns the beginning of text from a peer, escaped for one line.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 256;
    let is_plain = |c: char| matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1;
    if text.len() <= MAX_CHARS && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for (i, c) in text.chars().enumerate() {
        if i >= MAX_CHARS {
            shown.push('…');
            break;
        }
        if is_plain(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    Cow::Owned(shown)
}

/// One challenge of a `WWW-Authenticate` field (RFC 9110, section 11.6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthChallenge {
    /// Authentication scheme, for example `Bearer`. Compare it without regard to case.
    pub scheme: String,
    /// Parameters: names in lower case, and values.
    pub params: Vec<(String, String)>,
}

impl AuthChallenge {
    /// Creates a challenge without parameters.
    #[must_use]
    pub const fn new(scheme: String) -> Self {
        Self { scheme, params: Vec::new() }
    }

    /// Returns whether the challenge asks for a bearer token.
    #[must_use]
    pub fn is_bearer(&self) -> bool {
        self.scheme.eq_ignore_case("bearer")
    }

    /// Returns the value of the first parameter with this name (in lower case).
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == name).map(|(_, value)| &**value)
    }
}
