//! Public documents beside the endpoint: the card of the server and the catalog of its host (SEP-2127).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::exchange_table::ExchangeTable;
use super::refusal::Refusal;
use crate::ascii::AsciiCaseExt as _;
use crate::cards::{CARD_MEDIA_TYPE, CARD_SUFFIX, CATALOG_MEDIA_TYPE, CATALOG_PATH, ServerCard};
use crate::head::{FieldLine, Fields};
use crate::http::fields;
use crate::model::ValidationError;
use crate::raw::RawJson;
use crate::slab::Key;

/// A document that everybody may read.
#[derive(Clone, Debug)]
pub(super) struct PublicDocument {
    place: Place,
    media_type: &'static str,
    body: Bytes,
    /// Entity tag, with its quotes.
    etag: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The path of the endpoint with [`CARD_SUFFIX`].
    BesideEndpoint,
    /// [`CATALOG_PATH`].
    WellKnown,
}

impl PublicDocument {
    fn new(place: Place, media_type: &'static str, body: RawJson) -> Self {
        let body = body.into_bytes();
        let digest = Sha256::digest(&body);
        let mut etag = String::from("\"");
        for byte in digest.iter().take(16) {
            etag.push_str(&format!("{byte:02x}"));
        }
        etag.push('"');
        Self { place, media_type, body, etag }
    }

    /// Returns the card of a server, and the catalog with it.
    ///
    /// # Errors
    ///
    /// As [`ServerCard::check`].
    pub(super) fn of_card(card: &ServerCard) -> Result<Vec<Self>, ValidationError> {
        let catalog = card.to_catalog()?.to_json();
        Ok(alloc::vec![
            Self::new(Place::BesideEndpoint, CARD_MEDIA_TYPE, card.to_card()?),
            Self::new(Place::WellKnown, CATALOG_MEDIA_TYPE, catalog),
        ])
    }

    /// Returns whether the document of a server with this endpoint is at a path.
    pub(super) fn is_at(&self, path: &str, endpoint: &str) -> bool {
        match self.place {
            Place::WellKnown => path == CATALOG_PATH,
            Place::BesideEndpoint => {
                path.strip_suffix(CARD_SUFFIX).is_some_and(|path| path == endpoint.trim_end_matches('/'))
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
        fields.push(fields::ALLOW_ORIGIN, b"*");
        fields.push(fields::ALLOW_METHODS, b"GET");
        fields.push(fields::ALLOW_HEADERS, fields::CORS_DOCUMENT_REQUEST_HEADERS.as_bytes());
        fields.push(fields::EXPOSE_HEADERS, fields::ETAG.as_bytes());
        match method {
            "GET" | "HEAD" => {
                fields.push(fields::CACHE_CONTROL, b"public, max-age=3600");
                fields.push(fields::ETAG, document.etag.as_bytes());
                if has_entity_tag(request, &document.etag) {
                    self.answer_empty(key, 304, fields);
                } else {
                    self.answer_with_document(key, document.media_type, &document.body, fields);
                }
            }
            "OPTIONS" => {
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
        .flat_map(|(_, value)| value.split(|b| *b == b','))
        .map(<[u8]>::trim_ascii)
        .any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes())
}
