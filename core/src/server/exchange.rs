//! What a transport that carries each message apart does with an engine: opens streams, feeds and empties them.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::Session;
use super::engine::Engine;
use super::event::{CancelReason, Event};
use super::receive::Source;
use super::said::Said;
use crate::calls::batch;
use crate::calls::inbound::CallId;
use crate::error::Fault;
use crate::outbox::Outbox;
use crate::rpc::RequestId;
use crate::rpc::envelope::{Envelope, Kind, Rejected};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// How far a stream has come
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Something will still be sent
    pub(crate) open: bool,
    /// Nothing can be sent on its channel any more
    pub(crate) closed: bool,
    /// The request was refused before anybody worked on it
    pub(crate) refused: bool,
    /// The request was cancelled before it came
    pub(crate) cancelled: bool,
    /// The last answer was this error
    pub(crate) code: Option<i64>,
}

/// Memory of a stream that is over, for the next one
#[derive(Debug, Default)]
pub(crate) struct Spare {
    outbox: Outbox,
    live: Vec<Key>,
}

impl Spare {
    pub(crate) fn capacity(&self) -> usize {
        self.outbox.capacity()
    }
}

impl Engine {
    /// Opens a stream: of a session, or with ids of its own
    pub(crate) fn open_stream(&mut self, now: Instant, home: Option<Key>, owner: Key, spare: Spare) -> Key {
        let key = self.open_channel(now).0;
        if let Some(c) = self.link.channels.get_mut(key) {
            (c.outbox, c.live) = (spare.outbox, spare.live);
            // What cannot be read is answered in the exchange that it came in, whoever sent it.
            c.idless = true;
            c.extra.stream.home = home;
            c.extra.stream.owner = Some(owner);
        }
        key
    }

    /// Says who wants to know of what is to be sent on a channel
    pub(crate) fn own_stream(&mut self, key: Key, owner: Option<Key>) {
        if let Some(c) = self.link.channels.get_mut(key) {
            c.extra.stream.owner = owner;
            c.extra.stream.marked = false;
        }
    }

    /// The next owner of a stream with something to send, or that is over
    pub(crate) fn next_ready(&mut self) -> Option<Key> {
        self.link.shared.0.pop_front()
    }

    /// Has the owner told again when there is something new
    pub(crate) fn rearm(&mut self, key: Key) {
        if let Some(c) = self.link.channels.get_mut(key) {
            c.extra.stream.marked = false;
        }
    }

    /// How far a stream has come
    pub(crate) fn stream_progress(&self, key: Key) -> Progress {
        let over = Progress { open: false, closed: true, refused: false, cancelled: false, code: None };
        self.link.channels.get(key).map_or(over, |c| {
            let stream = &c.extra.stream;
            let open = stream.open > 0 || !c.extra.listeners.is_empty();
            let code = (stream.code != 0).then_some(i64::from(stream.code));
            let (refused, cancelled) = (stream.refused, stream.cancelled);
            Progress { open, closed: c.closed, refused, cancelled, code }
        })
    }

    /// Takes the one message of a stream
    pub(crate) fn handle_on_stream(
        &mut self,
        now: Instant,
        key: Key,
        frame: &Bytes,
        envelope: Result<Envelope<'_>, Rejected>,
        said: &dyn Said,
    ) {
        self.link.tick(now);
        self.link.touch();
        self.link.received(key, frame);
        match envelope {
            Ok(envelope) => {
                let home = self.link.home(key);
                let source = Source { channel: key, home, batch: None, waited: false, said: Some(said) };
                self.receive_parsed(source, frame, envelope);
            }
            Err(rejected) => self.reject(key, None, rejected),
        }
    }

    /// Takes the batch of a stream (2025-03-26)
    pub(crate) fn handle_batch_on_stream(&mut self, now: Instant, key: Key, frame: &Bytes) {
        self.link.tick(now);
        self.link.touch();
        self.link.received(key, frame);
        self.receive_batch(key, frame);
    }

    /// Begins a session without a handshake, of a client about which nothing is known (a stateless server)
    pub(crate) fn presume_session(&mut self, key: Key, version: Version) {
        if let Some(c) = self.link.channels.get_mut(key) {
            let session = c.extra.session.insert(alloc::boxed::Box::new(Session::new(version, b"", b"{}")));
            (session.initialized, session.passing) = (true, true);
        }
    }

    /// The revision of the session of a channel, and whether its handshake is done
    pub(crate) fn session_version(&self, key: Key) -> Option<(Version, bool)> {
        self.session(key).map(|s| (s.version, s.initialized))
    }

    /// Forgets a stream or a session at once; calls on it are cancelled. What of it can be used again is given back.
    pub(crate) fn drop_stream(&mut self, now: Instant, key: Key) -> Spare {
        self.link.tick(now);
        let home = self.link.home(key);
        let on_it = |call: &Key| {
            home == key || self.link.inbound.calls.get(*call).is_some_and(|record| record.channel == key)
        };
        let calls: Vec<Key> = match self.link.channels.get(home) {
            Some(c) => c.live.iter().copied().filter(on_it).collect(),
            None => Vec::new(),
        };
        for call in calls {
            let parked = self.unpark(call, "the call is over");
            if self.link.drop_call(call).is_some() && !parked {
                let reason = CancelReason::Disconnected;
                self.events.push_back(Event::Cancelled { call: CallId(call), reason });
            }
        }
        self.end_listeners(key);
        if home == key && self.session(key).is_some() {
            for request in self.link.ours(key) {
                self.finish_out(request, Err(crate::error::CallError::Closed(Fault::Eof)));
            }
            // The end of a request that stood alone is told with its call, and that of a session is told once.
            let told = self.is_exchange(key) || self.link.channels.get(key).is_none_or(|c| c.closed);
            if !told {
                self.events.push_back(Event::Closed { channel: ChannelId(key), fault: Fault::Eof });
            }
        }
        let Some(c) = self.link.channels.remove(key) else { return Spare::default() };
        let (mut outbox, mut live) = (c.outbox, c.live);
        outbox.clear_for_use();
        live.clear();
        Spare { outbox, live }
    }

    /// Notes that nobody can have what is sent on a stream from now on, nor what was sent before if `nothing` of it has
    /// left
    ///
    /// Its calls go on (HTTP-062), but nothing can be asked for them any more.
    pub(crate) fn deafen(&mut self, now: Instant, key: Key, nothing: bool) {
        self.link.tick(now);
        let Some(c) = self.link.channels.get_mut(key) else { return };
        c.extra.stream.deaf = true;
        if nothing {
            self.fail_parked(key, "the client went away before it was asked");
        }
    }

    /// Whether more is waiting for the application than it should be
    pub(crate) fn is_behind(&self) -> bool {
        self.events.len() >= self.link.limits.max_events
    }

    /// Looks through a batch before anything of it is done: whether it has requests, and whether one of them repeats an
    /// id that is in work on `home`, or in the batch
    ///
    /// One that is no batch has none; what is wrong with it is told when it is taken.
    pub(crate) fn survey(&self, home: Option<Key>, frame: &Bytes) -> (bool, bool) {
        let members = batch::members(frame, &self.link.limits).unwrap_or_default();
        // A heap sorts as well as `sort_unstable`, by a tenth of its code.
        let ids: BinaryHeap<RequestId> =
            members.iter().filter_map(|member| self.request_id(member)).collect();
        let ids = ids.into_sorted_vec();
        let twice = ids.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
        let in_work = |id| home.is_some_and(|home| self.in_flight(home, id));
        (!ids.is_empty(), twice || ids.iter().any(in_work))
    }

    fn request_id(&self, member: &Bytes) -> Option<RequestId> {
        self.parse(member).ok().filter(|envelope| envelope.kind == Kind::Request)?.id
    }

    /// Whether new requests are refused
    pub(crate) const fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// The session that a stream is one of
    pub(crate) fn home_of(&self, key: Key) -> Option<Key> {
        self.link.channels.get(key)?.extra.stream.home
    }

    /// Whoever owns the stream that a call is answered on
    pub(crate) fn owner_of(&self, call: CallId) -> Option<Key> {
        let stream = self.link.inbound.calls.get(call.0)?.channel;
        self.link.channels.get(stream)?.extra.stream.owner
    }
}
