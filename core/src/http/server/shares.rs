//! The shares of open exchanges that streams and principals may have, and eviction of quiet streams.

use alloc::boxed::Box;

use super::Server;
use super::admission::overloaded;
use super::exchange::{Kind, ServerExchange};
use super::response::write_empty_event;
use crate::frame::sse::EventHead;
use crate::slab::list::List;
use crate::slab::{Key, Slab};
use crate::tap::ChannelId;

/// Streams without an end of their own: GET streams, subscriptions, and the streams of HTTP+SSE.
#[derive(Debug)]
pub(super) struct OpenEndedStreams {
    count: usize,
    /// The largest number of streams.
    limit: usize,
    /// Those that may end for another one, the quietest one first.
    quietest: List,
}

impl OpenEndedStreams {
    pub(super) const fn new(max_exchanges: usize) -> Self {
        Self { count: 0, limit: share_of_streams(max_exchanges), quietest: List::new() }
    }

    /// Records that a message was sent on a stream.
    pub(super) fn record_activity(&mut self, exchanges: &mut Slab<ServerExchange>, key: Key) {
        let x = exchanges.get(key);
        if x.is_some_and(|x| x.is_open_ended && matches!(x.kind, Kind::Get | Kind::Post)) {
            self.quietest.remove(exchanges, key);
            self.quietest.push(exchanges, key);
        }
    }
}

/// Returns the share of streams: three quarters of `all`, and at least one.
const fn share_of_streams(all: usize) -> usize {
    let share = all - all.div_ceil(4);
    if share == 0 { 1 } else { share }
}

impl Server {
    /// Sets the number of connections that the caller allows, of all shards. Streams may have three quarters of them.
    ///
    /// The share of [`Config::max_exchanges`](super::Config::max_exchanges) holds, too. When it is reached, a new
    /// stream ends the one that has been quiet for longest. Of several shards, each has an equal part of the share; call
    /// this after [`set_shard`](Self::set_shard). With fewer streams than shards, some shards refuse all streams: one for
    /// each shard could take all connections.
    pub fn set_max_connections(&mut self, connections: usize) {
        let all = share_of_streams(connections);
        let part = match self.sessions.shard() {
            Some((shard, shards)) => {
                let (shard, shards) = (usize::from(shard), usize::from(shards).max(1));
                all / shards + usize::from(shard < all % shards)
            }
            None => all,
        };
        self.open_ended.limit = part.min(share_of_streams(self.config.max_exchanges));
    }

    /// Admits one more stream without an end of its own, or refuses it and returns false.
    ///
    /// If the share of such streams is taken, the quietest one ends.
    pub(super) fn admit_open_ended(&mut self, key: Key) -> bool {
        if !self.has_room_for_open_ended() && !self.end_quietest_stream(None) {
            self.refuse(key, &overloaded("too many streams are open"));
            return false;
        }
        self.set_open_ended(key, true);
        true
    }

    pub(super) const fn has_room_for_open_ended(&self) -> bool {
        self.open_ended.count < self.open_ended.limit
    }

    pub(super) fn set_open_ended(&mut self, key: Key, is_open_ended: bool) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let was_open_ended = core::mem::replace(&mut x.is_open_ended, is_open_ended);
        let may_end = matches!(x.kind, Kind::Get | Kind::Post);
        if was_open_ended == is_open_ended {
            return;
        }
        if is_open_ended {
            self.open_ended.count += 1;
        } else {
            self.open_ended.count -= 1;
        }
        if may_end && is_open_ended {
            self.open_ended.quietest.push(&mut self.exchanges, key);
        } else if may_end {
            self.open_ended.quietest.remove(&mut self.exchanges, key);
        }
    }

    /// Ends the GET stream or subscription that has been quiet for longest, of all or of one principal.
    ///
    /// A GET stream can be resumed or opened again after a delay that it names; a subscription gets its final result
    /// (SUB-013). Neither owes a response (HTTP-058). Returns whether there was one.
    fn end_quietest_stream(&mut self, principal: Option<&str>) -> bool {
        let Some(key) = self.next_quietest(principal) else { return false };
        let Some(x) = self.exchanges.get_mut(key) else { return false };
        match (x.kind, x.stream) {
            (Kind::Post, Some(stream)) => {
                // Its result is the last message of the stream, which then ends.
                self.engine.end_subscriptions(self.now, ChannelId(stream));
                self.set_open_ended(key, false);
                self.fill_response(key);
            }
            _ => {
                let retry = Some(self.config.retry.saturating_mul(CROWDED_RETRY));
                x.out.write(|out| write_empty_event(out, &EventHead { retry, ..EventHead::default() }));
                self.finish(key);
            }
        }
        true
    }

    /// Returns the quietest stream that may end, of all or of one principal.
    ///
    /// That of a principal is looked for among all streams. This is needed only beyond the limit of the principal.
    fn next_quietest(&self, principal: Option<&str>) -> Option<Key> {
        let mut all = self.open_ended.quietest.iter(&self.exchanges);
        let is_own = |x: &ServerExchange| principal.is_none() || x.principal.as_deref() == principal;
        all.find(|(_, x)| !x.client_gone && is_own(x)).map(|(key, _)| key)
    }

    /// Counts an exchange for its principal. Returns false if the principal has too many and none of its streams can
    /// end for it.
    pub(super) fn admit_principal(&mut self, key: Key, principal: &str) -> bool {
        let count = self.principal_exchanges.get(principal).copied().unwrap_or(0);
        if count >= self.config.max_exchanges_per_principal && !self.end_quietest_stream(Some(principal)) {
            return false;
        }
        if let Some(x) = self.exchanges.get_mut(key) {
            let principal: Box<str> = principal.into();
            x.principal = Some(principal.clone());
            *self.principal_exchanges.entry(principal).or_default() += 1;
        }
        true
    }

    /// Ends the count of an exchange for its principal.
    pub(super) fn release_principal(&mut self, principal: &str) {
        if let Some(count) = self.principal_exchanges.get_mut(principal) {
            *count -= 1;
            if *count == 0 {
                self.principal_exchanges.remove(principal);
            }
        }
    }
}

/// Factor of the retry time of an evicted GET stream: a client that came back immediately would evict the next stream.
const CROWDED_RETRY: u32 = 10;
