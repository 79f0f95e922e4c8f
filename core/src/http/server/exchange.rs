//! One exchange: what is known of its request, and what its response is.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::head::Objection;
use super::mirror::Mirror;
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::outbox::Outbox;
use crate::server::exchange::Spare;
use crate::slab::Key;
use crate::time::Instant;

crate::slab::key! {
    /// A request and its response
    ///
    /// Stale once it was [released](super::Server::release); a stale key is ignored and never hits another exchange.
    ExchangeId
}

impl ExchangeId {
    /// Which of those it is that are open: a small number, of another one when it is over
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

/// The head of a response
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Response {
    /// 200 to 503
    pub status: u16,
    /// In no order that matters
    pub fields: Fields,
    /// How the body is delimited
    pub size: BodySize,
}

/// What an exchange is for
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A message to the endpoint
    Post,
    /// The stream of a session that belongs to no call
    Get,
    /// The stream of HTTP+SSE, with everything on it
    Old,
    /// A message to HTTP+SSE
    OldPost,
    /// Everything else is answered by its head
    Other,
}

/// Where an exchange stands
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The application judges its token
    Held,
    /// Its body is coming
    Body,
    /// The engine works on it, or it is a stream
    Open,
}

/// What the answer to a POST looks like
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Undecided,
    Whole,
    Events,
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    pub(super) form: Form,
    pub(super) mirror: Mirror,
    /// What it is refused for once it is known who it is from
    pub(super) objection: Option<Objection>,
    /// Answers may be read by pages of some origins
    pub(super) cors: bool,
    /// It is a stream without an end of its own
    pub(super) standing: bool,
    pub(super) body: Body,
    /// All of the body has come
    pub(super) complete: bool,
    pub(super) principal: Option<Box<str>>,
    /// The session that it belongs to
    pub(super) session: Option<Key>,
    /// Where its messages come from
    pub(super) stream: Option<Key>,
    /// Which of the session's streams it is, for event ids
    pub(super) number: u32,
    /// The last event of that stream
    pub(super) event: u32,
    pub(super) modern: bool,
    /// Its response gives a session's id out
    pub(super) greets: bool,
    pub(super) response: Option<Response>,
    pub(super) out: Outbox,
    /// Memory for the fields of the response
    spare_fields: Fields,
    /// Memory for the stream, or what was left of it
    pub(super) spare: Spare,
    /// It is one of its session's calls
    pub(super) counted: bool,
    /// Nothing will be added to `out`
    pub(super) done: bool,
    /// The client is not there
    pub(super) gone: bool,
    /// It stands in the queue of those with something to send
    pub(super) marked: bool,
    /// When something was sent last, or the request was there
    pub(super) quiet_since: Instant,
}

impl Exchange {
    pub(super) fn new(kind: Kind, now: Instant, parts: &mut Parts) -> Self {
        let parts = core::mem::take(parts);
        Self {
            kind,
            phase: Phase::Body,
            form: Form::Undecided,
            mirror: Mirror::new(parts.text),
            objection: None,
            cors: false,
            standing: false,
            body: Body::None,
            complete: false,
            principal: None,
            session: None,
            stream: None,
            number: 0,
            event: 0,
            modern: false,
            greets: false,
            response: None,
            out: parts.out,
            spare_fields: parts.fields,
            spare: parts.stream,
            counted: false,
            done: false,
            gone: false,
            marked: false,
            quiet_since: now,
        }
    }

    /// Fields to begin a response with
    pub(super) fn fields(&mut self) -> Fields {
        core::mem::take(&mut self.spare_fields)
    }

    /// Decides the response; the fields that every response has are added
    pub(super) fn respond(&mut self, status: u16, mut fields: Fields, size: BodySize) {
        if self.cors {
            // Also where none was named: what is kept of it must not be shown to a page.
            fields.push(fields::VARY, b"Origin");
        }
        if let Some(origin) = self.mirror.cors() {
            fields.push(fields::ALLOW_ORIGIN, origin);
            fields.push(fields::EXPOSE_HEADERS, fields::READ_BY_PAGES.as_bytes());
        }
        self.response = Some(Response { status, fields, size });
    }
}

/// Memory of an exchange that is over, for the next one
#[derive(Debug, Default)]
pub(super) struct Parts {
    text: Vec<u8>,
    out: Outbox,
    fields: Fields,
    stream: Spare,
}

impl Parts {
    /// No more than this is kept of each
    const MOST: usize = 4 << 10;

    pub(super) fn take(&mut self, x: Exchange) {
        let mut text = x.mirror.into_text();
        text.clear();
        let mut fields = x.response.map_or(x.spare_fields, |r| r.fields);
        fields.clear();
        let mut out = x.out;
        out.clear_for_use();
        *self = Self { text, out, fields, stream: x.spare };
        if self.text.capacity() > Self::MOST
            || self.out.capacity() > Self::MOST
            || self.stream.capacity() > Self::MOST
        {
            *self = Self::default();
        }
    }
}

/// A request body as far as it has come
#[derive(Debug)]
pub(super) enum Body {
    None,
    /// One piece, which is most often all
    One(Bytes),
    Many(BytesMut),
}

impl Body {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(piece) => piece.len(),
            Self::Many(pieces) => pieces.len(),
        }
    }

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
