//! Responses that are decided without the engine: empty ones, refusals, and the metadata document.

use alloc::vec::Vec;

use super::ExchangeTable;
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::http::server::exchange::RequestPhase;
use crate::http::server::protected::Protected;
use crate::http::server::refusal::{Refusal, no_session};
use crate::rpc::encode;
use crate::slab::Key;
impl ExchangeTable {
    /// Responds with a JSON body.
    pub(in crate::http::server) fn answer_with_body(
        &mut self,
        key: Key,
        status: u16,
        body: &[u8],
        fields: Fields,
    ) {
        self.answer_with_typed_body(key, status, fields::JSON, body, fields);
    }

    fn answer_with_typed_body(
        &mut self,
        key: Key,
        status: u16,
        media_type: &str,
        body: &[u8],
        mut fields: Fields,
    ) {
        fields.push(fields::CONTENT_TYPE, media_type.as_bytes());
        if let Some(x) = self.slab.get_mut(key) {
            x.out.push(body);
        }
        self.answer(key, status, fields, BodySize::Exact(body.len() as u64));
    }

    /// Responds with a document.
    #[cfg(feature = "cards")]
    pub(in crate::http::server) fn answer_with_document(
        &mut self,
        key: Key,
        media_type: &str,
        body: &[u8],
        fields: Fields,
    ) {
        self.answer_with_typed_body(key, 200, media_type, body, fields);
    }

    /// Responds without a body.
    pub(in crate::http::server) fn answer_empty(&mut self, key: Key, status: u16, fields: Fields) {
        let size = if matches!(status, 204 | 304) { BodySize::None } else { BodySize::Exact(0) };
        self.answer(key, status, fields, size);
    }

    fn answer(&mut self, key: Key, status: u16, fields: Fields, size: BodySize) {
        let Some(x) = self.slab.get_mut(key) else { return };
        x.output_complete = true;
        x.phase = RequestPhase::Active;
        x.respond(status, fields, size);
        self.mark_ready(key);
    }

    pub(in crate::http::server) fn refuse(&mut self, key: Key, refusal: &Refusal) {
        self.refuse_with(key, refusal, Fields::new());
    }

    /// Refuses a request with these fields in the response.
    pub(in crate::http::server) fn refuse_with(&mut self, key: Key, refusal: &Refusal, mut fields: Fields) {
        if refusal.status() == 503 {
            fields.push(fields::RETRY_AFTER, b"1"); // DESIGN-14
        }
        // Some responses are cacheable by default (RFC 9110, 15.1), and the path is the same for all clients.
        fields.push(fields::CACHE_CONTROL, b"no-store");
        let mut body = Vec::new();
        encode::error(&mut body, None, refusal.error()); // HTTP-005, HTTP-020
        body.pop();
        self.answer_with_body(key, refusal.status(), &body, fields);
    }

    /// Refuses a GET or DELETE without a session id: the id is missing, or the revision has no sessions (HTTP-039).
    pub(in crate::http::server) fn refuse_sessionless(&mut self, key: Key) {
        if !self.get(key).is_some_and(|x| x.headers.names_modern_revision()) {
            return self.refuse(key, &no_session());
        }
        let mut fields = Fields::new();
        fields.push(fields::ALLOW, b"POST");
        self.refuse_with(key, &Refusal::new(405, "this revision has POST alone"), fields);
    }

    /// Answers a request for the metadata document of a resource, without a token (AUTH-021, AUTH-070).
    ///
    /// Clients in browsers read it from other origins, with `MCP-Protocol-Version` (AUTH-015).
    pub(in crate::http::server) fn serve_metadata(&mut self, key: Key, method: &str, protected: &Protected) {
        let mut fields = Fields::new();
        fields.push(fields::ALLOW_ORIGIN, b"*");
        match method {
            "GET" => {
                fields.push(fields::CACHE_CONTROL, b"public, max-age=3600");
                self.answer_with_body(key, 200, protected.metadata().as_bytes(), fields);
            }
            "OPTIONS" => {
                fields.push(fields::ALLOW_METHODS, b"GET");
                fields.push(fields::ALLOW_HEADERS, fields::CORS_METADATA_REQUEST_HEADERS.as_bytes());
                fields.push(fields::MAX_AGE, b"600");
                self.answer_empty(key, 204, fields);
            }
            _ => {
                fields.push(fields::ALLOW, b"GET");
                let refusal = Refusal::new(405, "the description of a resource can only be read");
                self.refuse_with(key, &refusal, fields);
            }
        }
    }
}
