//! One exchange: its request, its response, its place in a session, and the memory that it leaves to the next one.

use alloc::vec::Vec;

use crate::built::{Part, Resuming};
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::http::server::cors::Cors;
use crate::http::server::exchange::{
    HeadRejection, Kind, RequestBody, RequestPhase, Response, ResponseForm, SessionKey,
};
use crate::http::server::get_streams::UnwrittenEvents;
use crate::http::server::protected::Scheme;
use crate::http::server::request_headers::RequestHeaders;
use crate::outbox::Outbox;
use crate::server::{Authorization, ExchangeBuffers, HttpRequest, ProvenKey};
use crate::slab::Key;
use crate::slab::list::{ListLinks, ListNode};
use crate::slab::tree::{TreeLinks, TreeNode};
use crate::sync::Arc;
use crate::time::Instant;
/// An exchange: its request and its response.
#[derive(Debug)]
pub(in crate::http::server) struct ServerExchange {
    pub(in crate::http::server) kind: Kind,
    pub(in crate::http::server) phase: RequestPhase,
    pub(in crate::http::server) form: ResponseForm,
    pub(in crate::http::server) headers: RequestHeaders,
    /// The request as its handlers see it, if it can have calls.
    pub(in crate::http::server) request: Option<Arc<HttpRequest>>,
    /// The fault that refuses the request after authorization.
    pub(in crate::http::server) rejection: Option<HeadRejection>,
    /// Set if pages of other origins may read the response.
    pub(in crate::http::server) cors: Option<Cors>,
    pub(in crate::http::server) body: RequestBody,
    /// The whole body was received.
    pub(in crate::http::server) body_complete: bool,
    /// The engine's stream of its messages.
    pub(in crate::http::server) stream: Option<Key>,
    /// The number of the last event on that stream.
    pub(in crate::http::server) last_event: u32,
    pub(in crate::http::server) is_modern: bool,
    /// The response carries the id of a new session.
    pub(in crate::http::server) announces_session: bool,
    pub(in crate::http::server) response: Option<Response>,
    pub(in crate::http::server) out: Outbox,
    /// Memory for the fields of the response.
    spare_fields: Fields,
    /// Memory for a stream of the engine.
    pub(in crate::http::server) spare: ExchangeBuffers,
    /// Nothing will be added to `out`.
    pub(in crate::http::server) output_complete: bool,
    /// The client disconnected.
    pub(in crate::http::server) client_gone: bool,
    /// Events of a GET stream that may not have been written yet.
    pub(in crate::http::server) unwritten: Option<Part<Resuming, UnwrittenEvents>>,
    /// Time at which output was sent last, or at which the request was complete.
    pub(in crate::http::server) idle_since: Instant,
    /// The scheme in which the token was presented.
    pub(in crate::http::server) scheme: Option<Scheme>,
    /// Time at which the token expires; a stream without an end of its own ends then.
    pub(in crate::http::server) expires: Option<Instant>,
    pub(super) authorization: Option<Authorization>,
    pub(super) place: SessionPlace,
    /// The exchange is in the index of its session.
    pub(super) is_indexed: bool,
    /// Links of that index.
    links: TreeLinks,
    /// A stream without an end of its own.
    pub(super) is_open_ended: bool,
    /// Links of `ExchangeTable::quietest`.
    quiet_links: ListLinks,
    /// The exchange is in `ExchangeTable::ready`.
    pub(super) is_marked_ready: bool,
}

/// The place of an exchange in a session.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::http::server) struct SessionPlace {
    /// The session of the request.
    pub(in crate::http::server) session: Option<SessionKey>,
    /// The number of the stream within the session, for event ids; 0 while it has none.
    pub(in crate::http::server) number: u32,
    /// Counted as an open call of the session.
    pub(in crate::http::server) is_call: bool,
}

impl SessionPlace {
    /// Returns whether the index of the session has the exchange.
    pub(super) const fn is_indexed(&self) -> bool {
        self.is_call || self.number > 0
    }

    /// Returns what exchanges of a session are ordered by: the call of a number comes first.
    pub(super) const fn order(&self) -> (u32, bool) {
        (self.number, !self.is_call)
    }
}

impl TreeNode for ServerExchange {
    fn tree_links(&mut self) -> &mut TreeLinks {
        &mut self.links
    }
}

impl ListNode for ServerExchange {
    fn list_links(&self) -> ListLinks {
        self.quiet_links
    }

    fn set_list_links(&mut self, links: ListLinks) {
        self.quiet_links = links;
    }
}

impl ServerExchange {
    pub(super) fn new(kind: Kind, now: Instant, parts: &mut SpareBuffers) -> Self {
        let parts = core::mem::take(parts);
        Self {
            kind,
            phase: RequestPhase::ReceivingBody,
            form: ResponseForm::Undecided,
            headers: RequestHeaders::new(parts.header_buffer),
            request: None,
            rejection: None,
            cors: None,
            body: RequestBody::None,
            body_complete: false,
            stream: None,
            last_event: 0,
            is_modern: false,
            announces_session: false,
            response: None,
            out: parts.out,
            spare_fields: parts.fields,
            spare: parts.stream,
            output_complete: false,
            client_gone: false,
            unwritten: None,
            idle_since: now,
            authorization: None,
            scheme: None,
            expires: None,
            place: SessionPlace::default(),
            is_indexed: false,
            links: TreeLinks::default(),
            is_open_ended: false,
            quiet_links: ListLinks::NONE,
            is_marked_ready: false,
        }
    }

    /// Returns the party for which the request acts, if it is authenticated.
    pub(in crate::http::server) fn principal(&self) -> Option<&str> {
        self.authorization.as_ref().map(Authorization::principal)
    }

    /// Returns the authenticated party of the request.
    pub(in crate::http::server) const fn authorization(&self) -> Option<&Authorization> {
        self.authorization.as_ref()
    }

    /// Returns whether it is a stream without an end of its own.
    pub(in crate::http::server) const fn is_open_ended(&self) -> bool {
        self.is_open_ended
    }

    pub(in crate::http::server) const fn place(&self) -> SessionPlace {
        self.place
    }

    pub(in crate::http::server) const fn session(&self) -> Option<SessionKey> {
        self.place.session
    }

    /// Sets the session of a request that has neither a number nor an open call there.
    pub(in crate::http::server) const fn set_session(&mut self, session: Option<SessionKey>) {
        if !self.is_indexed {
            self.place.session = session;
        }
    }

    /// Returns whether more output may follow and the client is still there.
    pub(super) const fn is_live(&self) -> bool {
        !self.client_gone && !self.output_complete
    }

    /// Returns whether the exchange may end for another stream.
    pub(super) const fn may_end_for_another(&self) -> bool {
        self.is_open_ended && matches!(self.kind, Kind::Get | Kind::Post)
    }

    /// Returns empty fields for a response, with reused memory.
    pub(in crate::http::server) fn fields(&mut self) -> Fields {
        core::mem::take(&mut self.spare_fields)
    }

    /// Sets the response, and adds the fields of every response.
    pub(in crate::http::server) fn respond(&mut self, status: u16, mut fields: Fields, size: BodySize) {
        if let Some(cors) = self.cors {
            cors.append_fields(&self.headers, &mut fields);
        }
        // RFC 9449, 8.2
        let key = self.authorization.as_ref().and_then(|party| party.identity().key());
        if let Some(nonce) = key.and_then(ProvenKey::next_nonce) {
            fields.push(fields::DPOP_NONCE, nonce.as_bytes());
        }
        self.response = Some(Response { status, fields, size });
    }
}

/// Memory of a closed exchange, for the next one.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers {
    header_buffer: Vec<u8>,
    out: Outbox,
    fields: Fields,
    stream: ExchangeBuffers,
}

impl SpareBuffers {
    /// Larger buffers are not kept.
    const MAX_CAPACITY: usize = 4 << 10;

    /// Takes the memory of a closed exchange. Returns its party.
    pub(super) fn reclaim(&mut self, x: ServerExchange) -> Option<Authorization> {
        let mut header_buffer = x.headers.into_buffer();
        header_buffer.clear();
        let mut fields = x.response.map_or(x.spare_fields, |r| r.fields);
        fields.clear();
        let mut out = x.out;
        out.clear_for_reuse();
        *self = Self { header_buffer, out, fields, stream: x.spare };
        if self.header_buffer.capacity() > Self::MAX_CAPACITY
            || self.out.capacity() > Self::MAX_CAPACITY
            || self.stream.capacity() > Self::MAX_CAPACITY
        {
            *self = Self::default();
        }
        x.authorization
    }
}
