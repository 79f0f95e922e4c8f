//! The shares of open exchanges that streams and principals may have, and eviction of quiet streams.

use core::time::Duration;

use super::Server;
use super::events::write_empty_event;
use super::exchange::Kind;
use super::refusal::{Refusal, overloaded};
use crate::frame::sse::EventHead;
use crate::server::Authorization;
use crate::slab::Key;
use crate::tap::ChannelId;

/// Returns the share of streams: three quarters of `all`, and at least one.
pub(super) const fn share_of_streams(all: usize) -> usize {
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
        self.exchanges.set_max_open_ended(part.min(share_of_streams(self.config.max_exchanges)));
    }

    /// Admits one more stream without an end of its own, or refuses it and returns false.
    ///
    /// If the share of such streams is taken, the quietest one ends.
    pub(super) fn admit_open_ended(&mut self, key: Key) -> bool {
        if !self.exchanges.has_room_for_open_ended() && !self.end_quietest_stream(None) {
            self.exchanges.refuse(key, &overloaded("too many streams are open"));
            return false;
        }
        self.exchanges.set_open_ended(key, true);
        true
    }

    /// Ends the GET stream or subscription that has been quiet for longest, of all or of one principal.
    ///
    /// A GET stream can be resumed or opened again after a delay that it names; a subscription gets its final result
    /// (SUB-013). Neither owes a response (HTTP-058). Returns whether there was one.
    fn end_quietest_stream(&mut self, principal: Option<&str>) -> bool {
        let Some(key) = self.exchanges.quietest(principal) else { return false };
        self.end_stream(key, self.config.retry.saturating_mul(CROWDED_RETRY));
        true
    }

    /// Ends a GET stream, whose client may come back after `retry`, or a subscription.
    pub(super) fn end_stream(&mut self, key: Key, retry: Duration) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        match (x.kind, x.stream) {
            (Kind::Post, Some(stream)) => {
                // Its result is the last message of the stream, which then ends.
                self.engine.end_subscriptions(self.now, ChannelId(stream));
                self.exchanges.set_open_ended(key, false);
                self.fill_response(key);
            }
            _ => {
                let head = EventHead { retry: Some(retry), ..EventHead::default() };
                x.out.write(|out| write_empty_event(out, &head));
                self.finish(key);
            }
        }
    }
}

/// Lets a request act for a principal, unless too many of its requests are in work. One of its streams may end for that.
pub(super) fn admit_as(
    server: &mut Server,
    key: Key,
    authorization: Authorization,
) -> Result<(), Option<Refusal>> {
    // A stream that is resumed takes the place of a call that is polled; DELETE and the like are answered at once.
    let needs_room = server.exchanges.get(key).is_some_and(|x| match x.kind {
        Kind::Other => false,
        Kind::Get => x.headers.last_event_id() == Ok(None),
        _ => true,
    });
    let (principal, max) = (authorization.principal(), server.config.max_exchanges_per_principal);
    // Mostly there are fewer exchanges in all than one principal may have; the one to admit is among them.
    let has_room = server.exchanges.len() <= max || server.exchanges.count_of(principal) < max;
    if needs_room && !has_room && !server.end_quietest_stream(Some(principal)) {
        return Err(Some(overloaded("too many requests of this principal are in work")));
    }
    let expires = authorization.identity().lifetime().map(|lifetime| server.now + lifetime);
    server.exchanges.set_authorization(key, authorization, expires);
    Ok(())
}

/// Factor of the retry time of an evicted GET stream: a client that came back immediately would evict the next stream.
const CROWDED_RETRY: u32 = 10;
