//! The parts of an exchange: its id, the key of its session, its response, its phases, and the body of its request.

use bytes::{Bytes, BytesMut};

use crate::built::Sessions;
use crate::head::{BodySize, Fields};
use crate::slab::Key;

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

/// The key of a session. Without the feature `sessions` there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SessionKey {
    pub(super) key: Key,
    _built: Sessions,
}

impl SessionKey {
    pub(super) const fn new(key: Key, built: Sessions) -> Self {
        Self { key, _built: built }
    }

    /// Returns the key of a session that the engine knows.
    pub(super) fn from_engine(key: Key) -> Option<Self> {
        Sessions::get().map(|built| Self::new(key, built))
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
        // An empty piece would cause a copy of the only other one.
        if piece.is_empty() {
            return;
        }
        *self = match core::mem::replace(self, Self::None) {
            Self::None => Self::One(piece),
            Self::One(first) => {
                // `handle_body` has checked that there is memory for exactly this capacity.
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
