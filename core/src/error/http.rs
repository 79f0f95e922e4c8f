//! What can go wrong with one HTTP exchange.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::ascii::AnyCase as _;
use crate::rpc::{RpcError, clip};

/// Why a request over HTTP has no answer
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Nothing of the request was sent, so it was not executed
    #[error("the server was not reached: {why}")]
    Unreachable {
        /// What the connection failed with
        why: Box<str>,
    },
    /// The exchange broke off, or ended, before the answer was there; whether the request was executed is not known
    /// (HTTP-044)
    #[error("the answer was lost: {why}")]
    Lost {
        /// What the connection failed with
        why: Box<str>,
    },
    /// A status that is no success, or a success that carries no message
    #[error(transparent)]
    Answer(HttpAnswer),
    /// The server took the request for something that needs no answer (HTTP-082)
    #[error("the server accepted the request (HTTP status {status}) and did not answer it")]
    Unanswered {
        /// The status
        status: u16,
    },
    /// The server points somewhere else, and going there is not safe
    #[error("the server redirects (HTTP status {status}) to {}, which is not followed",
        if .to.is_empty() { Cow::Borrowed("nowhere") } else { quoted(.to) })]
    Redirected {
        /// The status
        status: u16,
        /// The URL that it points to, without its query; empty where that is none
        to: String,
    },
    /// What the server says unasked does not come: its stream for that was refused, or is gone for good. Ends
    /// subscriptions of the legacy era.
    #[error("nothing is heard of changes: {why}")]
    Unheard {
        /// What became of the stream
        why: Box<str>,
    },
    /// The session has ended at the server, and the request with it
    #[error("the session has ended at the server")]
    SessionLost,
}

/// An answer that is none
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpAnswer {
    /// The HTTP status
    pub status: u16,
    /// `Content-Type`, as it came
    pub content_type: Option<String>,
    /// `Content-Encoding`, where there is one: such a body cannot be read
    pub content_encoding: Option<String>,
    /// The beginning of the body, where it is text: untrusted, and perhaps not fit to be shown as it is
    pub body: String,
    /// The error in the body, where there is one
    pub error: Option<RpcError>,
    /// `Retry-After`, where it is a number of seconds
    pub retry_after: Option<Duration>,
    /// What `WWW-Authenticate` asks for
    pub challenges: Vec<AuthChallenge>,
}

impl fmt::Display for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status)?;
        match &self.content_type {
            Some(kind) => write!(f, " with a body of type `{}`", quoted(clip(kind).as_ref()))?,
            None if self.error.is_some() || !self.body.is_empty() => {
                f.write_str(" with a body of no type")?
            }
            None => f.write_str(" without a body")?,
        }
        if let Some(encoding) = &self.content_encoding {
            write!(f, " that is packed with `{}`", quoted(clip(encoding).as_ref()))?;
        }
        if (200..300).contains(&self.status) {
            f.write_str(", which is no MCP message")?;
        }
        match &self.error {
            Some(error) => write!(f, ": {} (code {})", quoted(&error.message), error.code)?,
            None if self.is_text() => write!(f, ": {}", quoted(self.body.trim()))?,
            None => {}
        }
        match self.status {
            413 => f.write_str(": the request is too long for it")?,
            431 => f.write_str(
                ": the head of the request is too long for it, where arguments are repeated that a tool wants there",
            )?,
            _ => {}
        }
        if let Some(after) = self.retry_after {
            write!(f, "; try again in {} s", after.as_secs())?;
        }
        if let Some(challenge) = self.challenges.first() {
            write!(f, "; it asks for `{}` authorization", quoted(clip(&challenge.scheme).as_ref()))?;
            for name in ["error", "error_description", "scope"] {
                if let Some(value) = challenge.param(name) {
                    write!(f, ", {name} `{}`", quoted(clip(value).as_ref()))?;
                }
            }
        }
        Ok(())
    }
}

impl HttpAnswer {
    /// Whether the body is written for people, and short, as some servers say what is wrong; a page is neither
    fn is_text(&self) -> bool {
        let kind = self.content_type.as_deref().unwrap_or("text/plain").as_bytes();
        let is = |name: &[u8]| kind.get(..name.len()).is_some_and(|k| k.eq_any_case(name));
        (is(b"text/plain") || is(b"application/json")) && !self.body.trim().is_empty()
    }
}

impl core::error::Error for HttpAnswer {}

/// The beginning of something that a peer sent, fit to be shown on one line
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    const MOST: usize = 256;
    let plain = |c: char| matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1;
    if text.len() <= MOST && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for (at, c) in text.chars().enumerate() {
        if at >= MOST {
            shown.push('…');
            break;
        }
        if plain(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    Cow::Owned(shown)
}

/// One challenge of a `WWW-Authenticate` field (RFC 9110, 11.6.1)
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthChallenge {
    /// `Bearer`, …; compare it without regard to case
    pub scheme: String,
    /// Name, in small letters, and value of each parameter
    pub params: Vec<(String, String)>,
}

impl AuthChallenge {
    /// One without parameters
    #[must_use]
    pub const fn new(scheme: String) -> Self {
        Self { scheme, params: Vec::new() }
    }

    /// Whether it asks for a bearer token
    #[must_use]
    pub fn is_bearer(&self) -> bool {
        self.scheme.eq_any_case("bearer")
    }

    /// The first parameter of this name
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == name).map(|(_, value)| &**value)
    }
}
