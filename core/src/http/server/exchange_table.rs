//! The exchanges of a server and their table: which have output, which are streams, whose they are, their deadlines.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};

use super::admission::Cors;
use super::principals::PrincipalCounts;
use super::protected::{Protected, Scheme};
use super::refusal::{Refusal, no_session};
use super::request_headers::RequestHeaders;
use super::resumption::{
    EventNote, ReplayEntry, UnwrittenEvent, UnwrittenEvents, write_entry, write_event_head,
};
use crate::built::{Authorizing, Part, Sessions};
use crate::deadlines::Deadlines;
use crate::frame::sse::{EVENT_END, EventHead};
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::memory::{Charge, MemoryAccount, STEP};
use crate::outbox::Outbox;
use crate::rpc;
use crate::server::{Authorization, ExchangeBuffers, HttpRequest, ProvenKey};
use crate::slab::list::{List, ListLinks, ListNode};
use crate::slab::tree::{Tree, TreeLinks};
use crate::slab::{Key, Slab, links};
use crate::sync::Arc;
use crate::time::{Instant, TimeoutReason};

/// Delay after which the memory of closed exchanges is released.
const TRIM_DELAY: Duration = Duration::from_secs(1);

/// The exchanges of a server; see the [module](self).
///
/// Invariants: `ready` has each exchange that is marked so, once; `open_ended` and `principals` equal a count; `quietest`
/// has the streams that may end for another one (`table_equals_a_walk_after_every_step`). Every exchange with a stream
/// has an entry in `checks`, until its output is complete.
#[derive(Debug)]
pub(super) struct ExchangeTable {
    slab: Slab<ServerExchange>,
    /// Exchanges with output, in order; removed ones may be among them.
    ready: VecDeque<Key>,
    /// Number of streams without an end of their own: GET streams, subscriptions, and the streams of HTTP+SSE.
    open_ended: usize,
    /// The largest number of them.
    max_open_ended: usize,
    /// Those that may end for another one, the quietest one first.
    quietest: List,
    /// Number of open exchanges of each principal; `None` without tokens.
    principals: Part<Authorizing, PrincipalCounts>,
    checks: Deadlines<Key>,
    /// Memory of closed exchanges, for the next one.
    spare: SpareBuffers,
    /// Time at which that memory is released.
    trim_at: Option<Instant>,
}

impl ExchangeTable {
    /// Creates a table for at most this number of streams without an end of their own.
    pub(super) fn new(max_open_ended: usize) -> Self {
        Self {
            slab: Slab::new(),
            ready: VecDeque::new(),
            open_ended: 0,
            max_open_ended,
            quietest: List::new(),
            principals: Part::NONE,
            checks: Deadlines::new(),
            spare: SpareBuffers::default(),
            trim_at: None,
        }
    }

    /// Counts the exchanges of each principal from now on.
    pub(super) fn count_principals(&mut self) {
        self.principals.get_or_make(PrincipalCounts::default);
    }

    // ---- exchanges -------------------------------------------------------------------------------------------

    pub(super) const fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.slab.iter().map(|(key, _)| key)
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&ServerExchange> {
        self.slab.get(key)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut ServerExchange> {
        self.slab.get_mut(key)
    }

    /// Opens an exchange with the memory of a closed one.
    pub(super) fn open(&mut self, kind: Kind, now: Instant) -> Key {
        // A stream stays open and may never write again, so the spare memory is left to the next request.
        let (headers, out) = match kind {
            Kind::Get | Kind::HttpSse => Default::default(),
            _ => (core::mem::take(&mut self.spare.header_buffer), core::mem::take(&mut self.spare.out)),
        };
        self.slab.insert(ServerExchange::new(kind, now, headers, out))
    }

    /// Opens the exchange of a stream whose client is gone and may resume it.
    pub(super) fn open_detached(&mut self, now: Instant) -> Key {
        // The spare memory is left to the next request: this exchange has no client to write for.
        let mut x = ServerExchange::new(Kind::Post, now, Vec::new(), Outbox::default());
        x.client = ClientPresence::Gone;
        self.slab.insert(x)
    }

    /// Removes an exchange that no index has, and keeps some of its memory.
    pub(super) fn remove(&mut self, now: Instant, key: Key) {
        // The list has its links in the slot, so the stream leaves it before the slot is free.
        self.set_open_ended(key, false);
        let Some(x) = self.slab.get_mut(key) else { return };
        if let (Some(authorization), Some(principals)) = (self.spare.reclaim(x), self.principals.as_mut()) {
            principals.remove(authorization.identity().shared_principal());
        }
        self.slab.discard(key);
        if self.slab.is_empty() && self.trim_at.is_none() {
            self.trim_at = Some(now + TRIM_DELAY);
        }
    }

    /// Returns memory for a stream of the engine.
    pub(super) fn take_stream_buffers(&mut self) -> ExchangeBuffers {
        core::mem::take(&mut self.spare.stream)
    }

    /// Keeps the memory of a stream that ended, for the next one.
    pub(super) fn keep_stream_buffers(&mut self, buffers: ExchangeBuffers) {
        if SpareBuffers::is_kept(buffers.capacity()) {
            self.spare.stream = buffers;
        }
    }

    /// Returns empty fields for a response, with reused memory.
    pub(super) fn take_fields(&mut self) -> Fields {
        core::mem::take(&mut self.spare.fields)
    }

    // ---- output ----------------------------------------------------------------------------------------------

    /// Queues an exchange whose client is there, unless it is queued.
    pub(super) fn mark_ready(&mut self, key: Key) {
        if let Some(x) = self.slab.get_mut(key).filter(|x| x.client == ClientPresence::Here) {
            x.client = ClientPresence::Queued;
            self.ready.push_back(key);
        }
    }

    /// Returns whether an exchange is queued; removed ones may be among them.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next exchange that was queued.
    pub(super) fn pop_ready(&mut self) -> Option<Key> {
        while let Some(key) = self.ready.pop_front() {
            if let Some(x) = self.slab.get_mut(key) {
                if x.client == ClientPresence::Queued {
                    x.client = ClientPresence::Here;
                }
                return Some(key);
            }
        }
        None
    }

    /// Writes an event of a GET stream, which is unwritten until it was consumed; `has_id` if it can be resumed after.
    pub(super) fn write_get_event(
        &mut self,
        now: Instant,
        key: Key,
        entry: ReplayEntry,
        has_id: bool,
        built: Sessions,
    ) {
        let Some(x) = self.slab.get_mut(key) else { return };
        if has_id {
            write_entry(&mut x.out, &entry, None);
        } else {
            x.out.write(|out| write_event_head(out, &EventHead::default()));
            x.out.push_bytes(&entry.message);
            x.out.push(EVENT_END);
        }
        x.idle_since = now;
        let end = x.out.consumed() + x.out.len() as u64;
        let event = UnwrittenEvent { end, number: entry.event, message: entry.message };
        x.unwritten.get_or_insert_default(built).0.push_back(event);
        self.record_activity(key);
        self.mark_ready(key);
    }

    /// Returns whether an exchange is a GET stream, whose unconsumed messages go elsewhere if it breaks.
    pub(super) fn is_get_stream(&self, key: Key) -> bool {
        // A GET that was refused has a response like any other.
        Sessions::IS_BUILT
            && self.get(key).is_some_and(|x| x.kind == Kind::Get && x.form == ResponseForm::EventStream)
    }

    /// Returns whether a request waits for the decision about its token.
    pub(super) fn is_authorizing(&self, key: Key) -> bool {
        self.get(key).is_some_and(|x| x.phase == RequestPhase::Authorizing)
    }

    /// Returns whether a request, or its response, waits for a decision of the application.
    pub(super) fn is_undecided(&self, key: Key) -> bool {
        let waits = |phase| matches!(phase, RequestPhase::Authorizing | RequestPhase::Loading);
        self.get(key).is_some_and(|x| x.is_held || waits(x.phase) || x.repeat == RepeatState::Removing)
    }

    // ---- shares ----------------------------------------------------------------------------------------------

    /// Sets the largest number of streams without an end of their own.
    pub(super) const fn set_max_open_ended(&mut self, max: usize) {
        self.max_open_ended = max;
    }

    pub(super) const fn has_room_for_open_ended(&self) -> bool {
        self.open_ended < self.max_open_ended
    }

    /// Sets whether an exchange is a stream without an end of its own.
    pub(super) fn set_open_ended(&mut self, key: Key, is_open_ended: bool) {
        let Some(x) = self.slab.get_mut(key).filter(|x| x.is_open_ended() != is_open_ended) else { return };
        if is_open_ended {
            x.open_ended = Some(ListLinks::NONE);
            self.open_ended += 1;
            if x.may_end_for_another() {
                self.quietest.push(&mut self.slab, key);
            }
            return;
        }
        self.open_ended -= 1;
        // Before its links are dropped.
        if x.may_end_for_another() {
            self.quietest.remove(&mut self.slab, key);
        }
        if let Some(x) = self.slab.get_mut(key) {
            x.open_ended = None;
        }
    }

    /// Records that a message was sent on a stream.
    pub(super) fn record_activity(&mut self, key: Key) {
        if self.slab.get(key).is_some_and(ServerExchange::may_end_for_another) {
            self.quietest.remove(&mut self.slab, key);
            self.quietest.push(&mut self.slab, key);
        }
    }

    /// Returns the quietest stream that may end for another one, of all or of one principal.
    ///
    /// That of a principal is looked for among all streams. This is needed only beyond the limit of the principal.
    pub(super) fn quietest(&self, principal: Option<&str>) -> Option<Key> {
        let mut all = self.quietest.iter(&self.slab);
        let is_own = |x: &ServerExchange| principal.is_none() || x.principal() == principal;
        all.find(|(_, x)| !x.is_client_gone() && is_own(x)).map(|(key, _)| key)
    }

    /// Returns the number of exchanges of a principal.
    pub(super) fn count_of(&self, principal: &str) -> usize {
        self.principals.as_ref().map_or(0, |principals| principals.of(principal))
    }

    /// Sets the party for which an exchange acts, and when its token expires, once.
    pub(super) fn set_authorization(
        &mut self,
        key: Key,
        authorization: Authorization,
        expires: Option<Instant>,
    ) {
        if let Some(x) = self.slab.get_mut(key).filter(|x| x.authorization.is_none()) {
            // Only the first call counts: `remove` takes back one count for each exchange.
            if let Some(principals) = self.principals.as_mut() {
                principals.add(authorization.identity().shared_principal());
            }
            (x.authorization, x.expires) = (Some(authorization), expires);
        }
    }

    // ---- the index of a session ------------------------------------------------------------------------------

    /// Marks an exchange as an open call of the session with this index.
    pub(super) fn begin_call(&mut self, index: &mut Tree, key: Key) {
        // The tree is ordered by the place, so the exchange leaves it before the place changes.
        self.unindex(Some(index), key);
        if let Some(x) = self.slab.get_mut(key) {
            x.place.is_call = true;
        }
        self.index(index, key);
    }

    /// Marks an exchange as no call any more; `index` is that of its session, unless the session has ended.
    pub(super) fn end_call(&mut self, mut index: Option<&mut Tree>, key: Key) {
        self.unindex(index.as_deref_mut(), key);
        let Some(x) = self.slab.get_mut(key) else { return };
        x.place.is_call = false;
        if let Some(index) = index {
            self.index(index, key);
        }
    }

    /// Adds an exchange to the index of its session, if the index has such ones.
    #[inline]
    pub(super) fn index(&mut self, index: &mut Tree, key: Key) {
        let Some(x) = self.slab.get_mut(key).filter(|x| x.place.is_indexed()) else { return };
        x.is_indexed = true;
        let order = x.place.order();
        let compare = |slot, x: &ServerExchange| (x.place.order(), slot).cmp(&(order, key.slot));
        if let Ok(place) = index.place(&mut self.slab, compare) {
            index.insert(&mut self.slab, place, key);
        }
    }

    /// Removes an exchange from the index of its session, which is `None` if the session has ended.
    #[inline]
    pub(super) fn unindex(&mut self, index: Option<&mut Tree>, key: Key) {
        let Some(x) = self.slab.get_mut(key) else { return };
        if !core::mem::take(&mut x.is_indexed) {
            return;
        }
        let order = x.place.order();
        let compare = |slot, x: &ServerExchange| (x.place.order(), slot).cmp(&(order, key.slot));
        if let Some(index) = index {
            index.remove(&mut self.slab, key, compare);
        }
    }

    /// Returns whether the index of its session has an exchange.
    pub(super) fn is_indexed(&self, key: Key) -> bool {
        self.slab.get(key).is_some_and(|x| x.is_indexed)
    }

    /// Sets the place of an exchange that no index has.
    pub(super) fn set_place(&mut self, key: Key, place: SessionPlace) {
        if let Some(x) = self.slab.get_mut(key).filter(|x| !x.is_indexed) {
            x.place = place;
        }
    }

    /// Returns the exchange of the call whose stream has a number.
    pub(super) fn find_call(&mut self, index: &mut Tree, number: u32) -> Option<Key> {
        index.find(&mut self.slab, |_, x| x.place.order().cmp(&(number, false)))
    }

    /// Returns an exchange whose stream has a number.
    pub(super) fn find_stream(&mut self, index: &mut Tree, number: u32) -> Option<Key> {
        index.find(&mut self.slab, |_, x| x.place.number.cmp(&number))
    }

    /// Returns all exchanges of an index.
    pub(super) fn indexed(&mut self, index: &Tree) -> Vec<Key> {
        index.keys(&mut self.slab)
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Sets the time at which an exchange is to be checked; at the latest when its token expires.
    pub(super) fn schedule_check(&mut self, at: Instant, key: Key) {
        let Self { checks, slab, .. } = self;
        // A call ends by itself. Only a stream without an end could outlive its token.
        let expires = slab.get(key).filter(|x| x.is_open_ended()).and_then(|x| x.expires);
        let at = expires.map_or(at, |expires| at.min(expires));
        checks.arm(at, key);
        checks.sweep(slab.len(), |_, key| slab.get(key).is_some_and(ServerExchange::is_live));
    }

    /// Returns the next exchange that is to be checked by now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Key> {
        self.checks.pop_due(now).map(|(_, key)| key)
    }

    /// Returns the time of the next check, or at which memory is released.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        let Self { checks, slab, .. } = self;
        let check = checks.next(|_, key| slab.get(key).is_some_and(ServerExchange::is_live));
        check.into_iter().chain(self.trim_at).min()
    }

    /// Returns the time of [`next_deadline`](Self::next_deadline) and its reason.
    pub(super) fn timeout_reason(&mut self) -> Option<(Instant, TimeoutReason)> {
        let at = self.next_deadline()?;
        let reason = if self.trim_at == Some(at) { TimeoutReason::Trim } else { TimeoutReason::EventStream };
        Some((at, reason))
    }

    /// Releases the memory of closed exchanges if it is time, and no exchange is open.
    pub(super) fn trim_if_due(&mut self, now: Instant) {
        if self.trim_at.is_none_or(|at| at > now) {
            return;
        }
        self.trim_at = None;
        // An exchange that was opened meanwhile uses this memory.
        if self.slab.is_empty() {
            self.spare = SpareBuffers::default();
            if let Some(principals) = self.principals.as_mut() {
                principals.trim();
            }
            self.slab.trim();
            self.checks = Deadlines::new();
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }
}

// Responses that are decided without the engine: empty ones, refusals, and the metadata document.

impl ExchangeTable {
    /// Responds with a JSON body.
    pub(super) fn answer_with_body(&mut self, key: Key, status: u16, body: &[u8], fields: Fields) {
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
    pub(super) fn answer_with_document(&mut self, key: Key, media_type: &str, body: &[u8], fields: Fields) {
        self.answer_with_typed_body(key, 200, media_type, body, fields);
    }

    /// Responds without a body.
    pub(super) fn answer_empty(&mut self, key: Key, status: u16, fields: Fields) {
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

    pub(super) fn refuse(&mut self, key: Key, refusal: &Refusal) {
        self.refuse_with(key, refusal, Fields::new());
    }

    /// Refuses a request with these fields in the response.
    pub(super) fn refuse_with(&mut self, key: Key, refusal: &Refusal, mut fields: Fields) {
        if refusal.status() == 503 {
            fields.push(fields::RETRY_AFTER, b"1"); // DESIGN-14
        }
        // Some responses are cacheable by default (RFC 9110, 15.1), and the path is the same for all clients.
        fields.push(fields::CACHE_CONTROL, b"no-store");
        let mut body = Vec::new();
        rpc::error(&mut body, None, refusal.error()); // HTTP-005, HTTP-020
        body.pop();
        self.answer_with_body(key, refusal.status(), &body, fields);
    }

    /// Refuses a GET or DELETE without a session id: the id is missing, or the revision has no sessions (HTTP-039).
    pub(super) fn refuse_sessionless(&mut self, key: Key) {
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
    pub(super) fn serve_metadata(&mut self, key: Key, method: &str, protected: &Protected) {
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

// One exchange: its request, its response, its place in a session, and the memory that it leaves to the next one.

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
    /// The application looks for its session.
    Loading,
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

    fn capacity(&self) -> usize {
        match self {
            Self::Many(pieces) => pieces.capacity(),
            one => one.len(),
        }
    }

    /// Returns the bytes that are allocated for one more piece. The first is kept as it is; the second begins a buffer.
    fn growth(&self, piece: usize) -> usize {
        let needed = self.len().saturating_add(piece);
        match self {
            _ if piece == 0 => 0,
            Self::None => 0,
            Self::One(_) => needed.saturating_mul(2),
            Self::Many(pieces) if needed <= pieces.capacity() => 0,
            Self::Many(pieces) => needed.max(pieces.capacity().saturating_mul(2)),
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

/// An exchange: its request and its response.
#[derive(Debug)]
pub(super) struct ServerExchange {
    pub(super) kind: Kind,
    pub(super) phase: RequestPhase,
    pub(super) form: ResponseForm,
    /// The form that the client accepts, if it is one alone.
    pub(super) only_form: Option<ResponseForm>,
    pub(super) headers: RequestHeaders,
    /// The request as its handlers see it, if it can have calls.
    pub(super) request: Option<Arc<HttpRequest>>,
    /// The fault that refuses the request after authorization.
    pub(super) rejection: Option<HeadRejection>,
    /// Set if pages of other origins may read the response.
    pub(super) cors: Option<Cors>,
    body: RequestBody,
    body_charge: Charge,
    /// The whole body was received.
    pub(super) body_complete: bool,
    /// The engine's stream of its messages.
    pub(super) stream: Option<Key>,
    /// The number of the last event on that stream.
    pub(super) last_event: u32,
    /// What the ids of its events say besides, for other processes.
    pub(super) event_note: Option<EventNote>,
    pub(super) session_use: SessionUse,
    pub(super) response: Option<Response>,
    pub(super) out: Outbox,
    /// Nothing will be added to `out`.
    pub(super) output_complete: bool,
    /// The application has found its session, or that there is none.
    pub(super) session_is_loaded: bool,
    /// The response is not shown before the application has stored the session.
    pub(super) is_held: bool,
    /// Whether another process may run its call again, if there are others.
    pub(super) repeat: RepeatState,
    client: ClientPresence,
    /// Events of a GET stream that may not have been written yet.
    pub(super) unwritten: Part<Sessions, UnwrittenEvents>,
    /// Time at which output was sent last, or at which the request was complete.
    pub(super) idle_since: Instant,
    /// The scheme in which the token was presented.
    pub(super) scheme: Option<Scheme>,
    /// Time at which the token expires; a stream without an end of its own ends then.
    pub(super) expires: Option<Instant>,
    authorization: Option<Authorization>,
    place: SessionPlace,
    /// The exchange is in the index of its session.
    is_indexed: bool,
    /// Links of that index.
    links: TreeLinks,
    /// Set for a stream without an end of its own: its links of `ExchangeTable::quietest`.
    open_ended: Option<ListLinks>,
}

/// How the request of an exchange relates to sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SessionUse {
    /// It belongs to one, if there is any.
    Member,
    /// Its response carries the id of a new one.
    Begins,
    /// It is none of theirs: it is modern, or cannot be read.
    Standalone,
}

/// Whether another process may run the call of an exchange again, by its message in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum RepeatState {
    /// It was not asked for.
    #[default]
    None,
    /// The call waits for its message to be stored.
    Storing,
    /// The message is stored.
    Stored,
    /// The answer waits for the message to be removed.
    Removing,
    /// The message is not stored, or not any more.
    Never,
    /// The request resumes the stream of a call whose message is looked for.
    Sought,
}

impl RepeatState {
    /// Takes the state of a call that moves to another exchange, which asks once more for what this one has asked for.
    pub(super) fn take_for_transfer(&mut self) -> Self {
        match core::mem::take(self) {
            Self::Removing => Self::Stored,
            other => other,
        }
    }
}

/// Whether the client of an exchange is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientPresence {
    Here,
    /// It is, and the exchange is in `ExchangeTable::ready`.
    Queued,
    /// It disconnected. The exchange may still be in `ExchangeTable::ready`.
    Gone,
}

/// The place of an exchange in a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionPlace {
    /// The session of the request.
    pub(super) session: Option<SessionKey>,
    /// The number of the stream within the session, for event ids; 0 while it has none.
    pub(super) number: u32,
    /// Counted as an open call of the session.
    pub(super) is_call: bool,
}

impl SessionPlace {
    /// Returns whether the index of the session has the exchange.
    const fn is_indexed(&self) -> bool {
        self.is_call || self.number > 0
    }

    /// Returns what exchanges of a session are ordered by: the call of a number comes first.
    const fn order(&self) -> (u32, bool) {
        (self.number, !self.is_call)
    }
}

links! { ServerExchange: tree links }

impl ListNode for ServerExchange {
    fn list_links(&self) -> ListLinks {
        self.open_ended.unwrap_or(ListLinks::NONE)
    }

    fn set_list_links(&mut self, links: ListLinks) {
        if let Some(own) = &mut self.open_ended {
            *own = links;
        }
    }
}

impl ServerExchange {
    fn new(kind: Kind, now: Instant, header_buffer: Vec<u8>, out: Outbox) -> Self {
        Self {
            kind,
            phase: RequestPhase::ReceivingBody,
            form: ResponseForm::Undecided,
            only_form: None,
            headers: RequestHeaders::new(header_buffer),
            request: None,
            rejection: None,
            cors: None,
            body: RequestBody::None,
            body_charge: Charge::default(),
            body_complete: false,
            stream: None,
            last_event: 0,
            event_note: None,
            session_use: SessionUse::Member,
            response: None,
            out,
            output_complete: false,
            session_is_loaded: false,
            is_held: false,
            repeat: RepeatState::None,
            client: ClientPresence::Here,
            unwritten: Part::NONE,
            idle_since: now,
            authorization: None,
            scheme: None,
            expires: None,
            place: SessionPlace::default(),
            is_indexed: false,
            links: TreeLinks::default(),
            open_ended: None,
        }
    }

    /// Returns the number of received bytes of the body.
    pub(super) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Returns the bytes that the body takes.
    pub(super) fn body_capacity(&self) -> usize {
        self.body.capacity()
    }

    /// Returns the bytes that one more piece of this length makes the body allocate.
    pub(super) fn body_growth(&self, piece: usize) -> usize {
        self.body.growth(piece)
    }

    /// Adds a piece to the body, and charges it.
    #[inline]
    pub(super) fn push_body(&mut self, piece: Bytes, memory: &MemoryAccount) {
        self.body.push(piece);
        if self.body.len() >= STEP {
            self.body_charge.attach(memory);
            self.body_charge.follow(self.body.capacity());
        }
    }

    /// Takes the body.
    #[inline]
    pub(super) fn take_body(&mut self) -> Bytes {
        self.body_charge.follow(0);
        self.body.take()
    }

    /// Returns the party for which the request acts, if it is authenticated.
    pub(super) fn principal(&self) -> Option<&str> {
        self.authorization.as_ref().map(Authorization::principal)
    }

    /// Returns the authenticated party of the request.
    pub(super) const fn authorization(&self) -> Option<&Authorization> {
        self.authorization.as_ref()
    }

    /// Returns whether it is a stream without an end of its own.
    pub(super) const fn is_open_ended(&self) -> bool {
        self.open_ended.is_some()
    }

    /// Returns whether the client disconnected.
    pub(super) const fn is_client_gone(&self) -> bool {
        matches!(self.client, ClientPresence::Gone)
    }

    pub(super) const fn mark_client_gone(&mut self) {
        self.client = ClientPresence::Gone;
    }

    pub(super) const fn place(&self) -> SessionPlace {
        self.place
    }

    pub(super) const fn session(&self) -> Option<SessionKey> {
        self.place.session
    }

    /// Sets the session of a request that has neither a number nor an open call there.
    pub(super) const fn set_session(&mut self, session: Option<SessionKey>) {
        if !self.is_indexed {
            self.place.session = session;
        }
    }

    /// Returns whether more output may follow and the client is still there.
    pub(super) const fn is_live(&self) -> bool {
        !self.is_client_gone() && !self.output_complete
    }

    /// Returns whether the exchange may end for another stream.
    const fn may_end_for_another(&self) -> bool {
        self.is_open_ended() && matches!(self.kind, Kind::Get | Kind::Post)
    }

    /// Sets the response, and adds the fields of every response.
    pub(super) fn respond(&mut self, status: u16, mut fields: Fields, size: BodySize) {
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

/// Memory of closed exchanges, for the next one.
#[derive(Debug, Default)]
struct SpareBuffers {
    header_buffer: Vec<u8>,
    out: Outbox,
    fields: Fields,
    stream: ExchangeBuffers,
}

impl SpareBuffers {
    /// Larger buffers are not kept: one large response must not hold its memory until the server is idle.
    const MAX_CAPACITY: usize = 4 << 10;

    /// Returns whether memory of this capacity takes the place of what is kept.
    const fn is_kept(capacity: usize) -> bool {
        0 < capacity && capacity <= Self::MAX_CAPACITY
    }

    /// Takes the memory of an exchange that closes. Returns its party.
    fn reclaim(&mut self, x: &mut ServerExchange) -> Option<Authorization> {
        let mut header_buffer = x.headers.take_buffer();
        if Self::is_kept(header_buffer.capacity()) {
            header_buffer.clear();
            self.header_buffer = header_buffer;
        }
        if Self::is_kept(x.out.capacity()) {
            core::mem::swap(&mut self.out, &mut x.out);
            self.out.clear_for_reuse();
        }
        let fields = x.response.take().map(|response| response.fields);
        // Fields without lines have no memory.
        if let Some(mut fields) = fields.filter(|fields| !fields.is_empty()) {
            fields.clear();
            self.fields = fields;
        }
        x.authorization.take()
    }
}

#[cfg(test)]
mod tests;
