//! Public documents beside the endpoint, such as the card of the server and the catalog of its host (SEP-2127).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::fmt;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::exchange_table::ExchangeTable;
use super::refusal::Refusal;
use crate::ascii::AsciiCaseExt as _;
use crate::head::{FieldLine, Fields};
use crate::http::fields;
use crate::raw::RawJson;
use crate::slab::Key;
use crate::sync::{Arc, share};

/// A JSON document that is read without a token ([`Config::document`]).
///
/// [`Config::document`]: super::Config::document
#[derive(Clone, Debug)]
pub struct PublicDocument {
    place: Place,
    media_type: Cow<'static, str>,
    content: Content,
}

#[derive(Clone)]
enum Content {
    /// Pages of every origin may read it.
    Fixed {
        body: Bytes,
        /// Entity tag, with its quotes.
        etag: String,
    },
    /// Made for each request.
    Live(Arc<MakeBody>),
}

type MakeBody = dyn Fn() -> RawJson + Send + Sync;

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { etag, .. } => write!(f, "Fixed({etag})"),
            Self::Live(_) => f.write_str("Live"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The path of the endpoint, without slashes at its end, with this suffix.
    BesideEndpoint(Cow<'static, str>),
    /// This path.
    At(Cow<'static, str>),
}

impl PublicDocument {
    /// Creates a document at the path of the endpoint with `suffix` appended, such as `/server-card`.
    ///
    /// `media_type` is the value of `Content-Type`.
    #[must_use]
    pub fn beside_endpoint(
        suffix: impl Into<Cow<'static, str>>,
        media_type: impl Into<Cow<'static, str>>,
        body: RawJson,
    ) -> Self {
        Self::fixed(Place::BesideEndpoint(suffix.into()), media_type.into(), body)
    }

    /// Creates a document at a path of the host, such as `/.well-known/ai-catalog.json`.
    ///
    /// `path` begins with a slash. A document at the path of the endpoint itself hides the endpoint. `media_type` is the value of
    /// `Content-Type`; if it cannot be a field value, there is none.
    #[must_use]
    pub fn at_path(
        path: impl Into<Cow<'static, str>>,
        media_type: impl Into<Cow<'static, str>>,
        body: RawJson,
    ) -> Self {
        Self::fixed(Place::At(path.into()), media_type.into(), body)
    }

    /// Creates a document that is made for each request by `make`, such as the state of a server for a monitor.
    ///
    /// It is not cached, and pages of other origins cannot read it. As for [`at_path()`](Self::at_path) otherwise.
    ///
    /// ```
    /// use mcp_proto::RawJson;
    /// use mcp_proto::http::server::{Config, PublicDocument};
    ///
    /// let health = || RawJson::new(r#"{"status":"ok"}"#).unwrap_or_else(|_| RawJson::empty_object());
    /// let config = Config::new().document(PublicDocument::live("/health", "application/json", health));
    /// ```
    #[must_use]
    pub fn live(
        path: impl Into<Cow<'static, str>>,
        media_type: impl Into<Cow<'static, str>>,
        make: impl Fn() -> RawJson + Send + Sync + 'static,
    ) -> Self {
        let content = Content::Live(share!(make, MakeBody));
        Self { place: Place::At(path.into()), media_type: media_type.into(), content }
    }

    fn fixed(place: Place, media_type: Cow<'static, str>, body: RawJson) -> Self {
        let body = body.into_bytes();
        let digest = Sha256::digest(&body);
        let mut etag = String::from("\"");
        // The tag only tells versions of one document apart, so half of the digest is enough.
        for byte in digest.iter().take(16) {
            etag.push_str(&format!("{byte:02x}"));
        }
        etag.push('"');
        Self { place, media_type, content: Content::Fixed { body, etag } }
    }

    /// Returns whether both have the same place.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        self.place == other.place
    }

    /// Returns whether the document of a server with this endpoint is at a path.
    pub(super) fn is_at(&self, path: &str, endpoint: &str) -> bool {
        match &self.place {
            Place::At(place) => path == place,
            Place::BesideEndpoint(suffix) => {
                path.strip_suffix(&**suffix).is_some_and(|path| path == endpoint.trim_end_matches('/'))
            }
        }
    }
}

impl ExchangeTable {
    /// Answers a request for a public document.
    pub(super) fn serve_document(
        &mut self,
        key: Key,
        method: &str,
        request: &[FieldLine<'_>],
        document: &PublicDocument,
    ) {
        let mut fields = Fields::new();
        if let Content::Fixed { .. } = document.content {
            fields.push(fields::ALLOW_ORIGIN, b"*");
            fields.push(fields::ALLOW_METHODS, b"GET");
            fields.push(fields::ALLOW_HEADERS, fields::CORS_DOCUMENT_REQUEST_HEADERS.as_bytes());
            fields.push(fields::EXPOSE_HEADERS, fields::ETAG.as_bytes());
        }
        match (method, &document.content) {
            ("GET" | "HEAD", Content::Fixed { body, etag }) => {
                fields.push(fields::CACHE_CONTROL, b"public, max-age=3600");
                fields.push(fields::ETAG, etag.as_bytes());
                if has_entity_tag(request, etag) {
                    self.answer_empty(key, 304, fields);
                } else {
                    self.answer_with_document(key, &document.media_type, body, fields);
                }
            }
            ("GET" | "HEAD", Content::Live(make)) => {
                fields.push(fields::CACHE_CONTROL, b"no-store");
                self.answer_with_document(key, &document.media_type, make().as_bytes(), fields);
            }
            ("OPTIONS", Content::Fixed { .. }) => {
                fields.push(fields::MAX_AGE, b"600");
                self.answer_empty(key, 204, fields);
            }
            _ => {
                fields.push(fields::ALLOW, b"GET, HEAD");
                self.refuse_with(key, &Refusal::new(405, "a public document can only be read"), fields);
            }
        }
    }
}

/// Returns whether `If-None-Match` names the entity tag, by weak comparison (RFC 9110, 13.1.2).
fn has_entity_tag(request: &[FieldLine<'_>], etag: &str) -> bool {
    let named =
        request.iter().filter(|(name, _)| name.as_bytes().eq_ignore_case(fields::IF_NONE_MATCH.as_bytes()));
    named
        // A comma may be inside a foreign tag. The own tag has none, so it is found as a whole.
        .flat_map(|(_, value)| value.split(|b| *b == b','))
        .map(<[u8]>::trim_ascii)
        .any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes())
}
