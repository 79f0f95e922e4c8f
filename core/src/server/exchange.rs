//! What a transport that carries each message apart does with an engine: opens streams, feeds and empties them.

use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::Session;
use super::engine::Engine;
use super::event::{CancelReason, Event};
use super::receive::Source;
use super::said::Said;
use crate::calls::inbound::CallId;
use crate::error::Fault;
use crate::outbox::Outbox;
use crate::rpc::envelope::{Envelope, Rejected};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// How far a stream has come
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Something will still be sent
    pub(crate) open: bool,
    /// The request was refused before anybody worked on it
    pub(crate) refused: bool,
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
        let over = Progress { open: false, refused: false, code: None };
        self.link.channels.get(key).map_or(over, |c| {
            let stream = &c.extra.stream;
            let open = stream.open > 0 || !c.extra.listeners.is_empty();
            let code = (stream.code != 0).then_some(i64::from(stream.code));
            Progress { open, refused: stream.refused, code }
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
            session.initialized = true;
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
            self.events.push_back(Event::Closed { channel: ChannelId(key), fault: Fault::Eof });
        }
        let Some(c) = self.link.channels.remove(key) else { return Spare::default() };
        let (mut outbox, mut live) = (c.outbox, c.live);
        outbox.clear_for_use();
        live.clear();
        Spare { outbox, live }
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
