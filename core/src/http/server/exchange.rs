//! The state of one exchange: its request and its response.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::get_streams::UnwrittenEvents;
use super::request_headers::RequestHeaders;
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::outbox::Outbox;
use crate::server::ExchangeBuffers;
use crate::slab::Key;
use crate::slab::list::{ListLinks, ListNode};
use crate::slab::tree::{TreeLinks, TreeNode};
use crate::time::Instant;

crate::slab::key! {
    /// The id of an exchange: one request and its response.
    ///
    /// It is stale after [`release`](super::Server::release). A stale id is ignored and never refers to another
    /// exchange.
    ExchangeId
}

impl ExchangeId {
    /// Returns the slot of the exchange: a small number, unique among the open exchanges and reused later.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

/// The head of a response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Response {
    /// The status code, 200 to 503.
    pub status: u16,
    /// The field lines; their order has no meaning.
    pub fields: Fields,
    /// Framing of the body.
    pub size: BodySize,
}

/// The purpose of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A message to the endpoint.
    Post,
    /// A GET stream of a session, for messages outside of calls.
    Get,
    /// The event stream of HTTP+SSE, for all messages of a session.
    HttpSse,
    /// A message to HTTP+SSE.
    HttpSsePost,
    /// Any other request; its head decides the response.
    Other,
}

/// A fault in the head for which a request is refused after authorization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadRejection {
    ContentType,
    ContentEncoding,
    Accept,
    AcceptEvents,
    BodyTooLong,
}

/// The phase of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestPhase {
    /// The application validates its token.
    Authorizing,
    /// Its body is being received.
    ReceivingBody,
    /// The engine processes it, or it is an event stream.
    Active,
}

/// The form of the response to a POST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ResponseForm {
    Undecided,
    Json,
    EventStream,
}

#[derive(Debug)]
pub(super) struct ServerExchange {
    pub(super) kind: Kind,
    pub(super) phase: RequestPhase,
    pub(super) form: ResponseForm,
    pub(super) headers: RequestHeaders,
    /// The fault that refuses the request after authorization.
    pub(super) rejection: Option<HeadRejection>,
    /// CORS is enabled, so `Vary: Origin` is needed.
    pub(super) cors_enabled: bool,
    /// A stream without an end of its own.
    pub(super) is_open_ended: bool,
    pub(super) body: RequestBody,
    /// The whole body was received.
    pub(super) body_complete: bool,
    pub(super) principal: Option<Box<str>>,
    /// The session of the request.
    pub(super) session: Option<Key>,
    /// The engine's stream of its messages.
    pub(super) stream: Option<Key>,
    /// The number of the stream within the session, for event ids.
    pub(super) stream_number: u32,
    /// The number of the last event on that stream.
    pub(super) last_event: u32,
    pub(super) is_modern: bool,
    /// The response carries the id of a new session.
    pub(super) announces_session: bool,
    pub(super) response: Option<Response>,
    pub(super) out: Outbox,
    /// Memory for the fields of the response.
    spare_fields: Fields,
    /// Memory for a stream of the engine.
    pub(super) spare: ExchangeBuffers,
    /// Counted in `call_count` of the session.
    pub(super) counts_as_call: bool,
    /// Nothing will be added to `out`.
    pub(super) output_complete: bool,
    /// The client disconnected.
    pub(super) client_gone: bool,
    /// The exchange is in `Server::ready`.
    pub(super) is_marked_ready: bool,
    /// Events of a GET stream that may not have been written yet.
    pub(super) unwritten: Option<Box<UnwrittenEvents>>,
    /// Time at which output was sent last, or at which the request was complete.
    pub(super) idle_since: Instant,
    /// The exchange is in the index of its session.
    pub(super) is_indexed: bool,
    /// Links of that index.
    links: TreeLinks,
    /// Links of the streams without an end of their own.
    quiet_links: ListLinks,
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
            rejection: None,
            cors_enabled: false,
            is_open_ended: false,
            body: RequestBody::None,
            body_complete: false,
            principal: None,
            session: None,
            stream: None,
            stream_number: 0,
            last_event: 0,
            is_modern: false,
            announces_session: false,
            response: None,
            out: parts.out,
            spare_fields: parts.fields,
            spare: parts.stream,
            counts_as_call: false,
            output_complete: false,
            client_gone: false,
            is_marked_ready: false,
            unwritten: None,
            idle_since: now,
            is_indexed: false,
            links: TreeLinks::default(),
            quiet_links: ListLinks::NONE,
        }
    }

    /// Returns empty fields for a response, with reused memory.
    pub(super) fn fields(&mut self) -> Fields {
        core::mem::take(&mut self.spare_fields)
    }

    /// Sets the response, and adds the fields of every response.
    pub(super) fn respond(&mut self, status: u16, mut fields: Fields, size: BodySize) {
        if self.cors_enabled {
            // Also without an origin: a cached response must not be shown to a page.
            fields.push(fields::VARY, b"Origin");
        }
        if let Some(origin) = self.headers.cors_origin() {
            fields.push(fields::ALLOW_ORIGIN, origin);
            fields.push(fields::EXPOSE_HEADERS, fields::CORS_EXPOSED_HEADERS.as_bytes());
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

    /// Takes the memory of a closed exchange. Returns its principal.
    pub(super) fn reclaim(&mut self, x: ServerExchange) -> Option<Box<str>> {
        let mut text = x.headers.into_buffer();
        text.clear();
        let mut fields = x.response.map_or(x.spare_fields, |r| r.fields);
        fields.clear();
        let mut out = x.out;
        out.clear_for_reuse();
        *self = Self { header_buffer: text, out, fields, stream: x.spare };
        if self.header_buffer.capacity() > Self::MAX_CAPACITY
            || self.out.capacity() > Self::MAX_CAPACITY
            || self.stream.capacity() > Self::MAX_CAPACITY
        {
            *self = Self::default();
        }
        x.principal
    }
}

/// The received part of a request body.
#[derive(Debug)]
pub(super) enum RequestBody {
    None,
    /// A single piece, the usual case.
    One(Bytes),
    Many(BytesMut),
}

impl RequestBody {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(piece) => piece.len(),
            Self::Many(pieces) => pieces.len(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        *self = match core::mem::replace(self, Self::None) {
            Self::None => Self::One(piece),
            Self::One(first) => {
                let mut all = BytesMut::with_capacity((first.len() + piece.len()).saturating_mul(2));
                all.extend_from_slice(&first);
                all.extend_from_slice(&piece);
                Self::Many(all)
            }
            Self::Many(mut all) => {
                all.extend_from_slice(&piece);
                Self::Many(all)
            }
        };
    }

    pub(super) fn take(&mut self) -> Bytes {
        match core::mem::replace(self, Self::None) {
            Self::None => Bytes::new(),
            Self::One(piece) => piece,
            Self::Many(pieces) => pieces.freeze(),
        }
    }
}
