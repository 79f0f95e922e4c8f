//! The table of the exchanges of a server: which have output, which are streams, whose they are, and their deadlines.

mod answers;
mod server_exchange;

pub(super) use self::server_exchange::{ServerExchange, SessionPlace};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use self::server_exchange::SpareBuffers;
use super::events::{write_entry, write_event_head};
use super::exchange::{Kind, RequestPhase, ResponseForm};
use super::get_streams::UnwrittenEvent;
use super::principals::ExchangeCounts;
use super::replay::ReplayEntry;
use crate::built::{Part, Resuming};
use crate::deadlines::Deadlines;
use crate::frame::sse::{EVENT_END, EventHead};
use crate::server::Authorization;
use crate::slab::list::List;
use crate::slab::tree::Tree;
use crate::slab::{Key, Slab};
use crate::time::Instant;
use crate::timeout_reason::TimeoutReason;

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
    principals: Option<Box<dyn ExchangeCounts>>,
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
            principals: None,
            checks: Deadlines::new(),
            spare: SpareBuffers::default(),
            trim_at: None,
        }
    }

    /// Counts the exchanges of each principal from now on.
    pub(super) fn count_principals(&mut self, counts: impl FnOnce() -> Box<dyn ExchangeCounts>) {
        self.principals.get_or_insert_with(counts);
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
        self.slab.insert(ServerExchange::new(kind, now, &mut self.spare))
    }

    /// Opens the exchange of a stream whose client is gone and may resume it.
    pub(super) fn open_detached(&mut self, now: Instant) -> Key {
        let mut x = ServerExchange::new(Kind::Post, now, &mut SpareBuffers::default());
        x.client_gone = true;
        self.slab.insert(x)
    }

    /// Removes an exchange that no index has, and keeps some of its memory.
    pub(super) fn remove(&mut self, now: Instant, key: Key) {
        self.set_open_ended(key, false);
        let Some(x) = self.slab.remove(key) else { return };
        if let (Some(authorization), Some(principals)) = (self.spare.reclaim(x), &mut self.principals) {
            principals.remove(authorization.identity().shared_principal());
        }
        if self.slab.is_empty() && self.trim_at.is_none() {
            self.trim_at = Some(now + TRIM_DELAY);
        }
    }

    // ---- output ----------------------------------------------------------------------------------------------

    /// Queues an exchange whose client is there, unless it is queued.
    pub(super) fn mark_ready(&mut self, key: Key) {
        if let Some(x) = self.slab.get_mut(key).filter(|x| !x.client_gone) {
            if !core::mem::replace(&mut x.is_marked_ready, true) {
                self.ready.push_back(key);
            }
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
                x.is_marked_ready = false;
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
        resuming: Resuming,
    ) {
        let Some(x) = self.slab.get_mut(key) else { return };
        if has_id {
            write_entry(&mut x.out, &entry);
        } else {
            x.out.write(|out| write_event_head(out, &EventHead::default()));
            x.out.push_bytes(&entry.message);
            x.out.push(EVENT_END);
        }
        x.idle_since = now;
        let end = x.out.consumed() + x.out.len() as u64;
        let event = UnwrittenEvent { end, number: entry.event, message: entry.message };
        x.unwritten.get_or_insert_with(|| Part::new(resuming, Box::default())).0.push_back(event);
        self.record_activity(key);
        self.mark_ready(key);
    }

    /// Returns whether an exchange is a GET stream, whose unconsumed messages go elsewhere if it breaks.
    pub(super) fn is_get_stream(&self, key: Key) -> bool {
        // A GET that was refused has a response like any other.
        Resuming::IS_BUILT
            && self.get(key).is_some_and(|x| x.kind == Kind::Get && x.form == ResponseForm::EventStream)
    }

    /// Returns whether a request waits for the decision about its token.
    pub(super) fn is_authorizing(&self, key: Key) -> bool {
        self.get(key).is_some_and(|x| x.phase == RequestPhase::Authorizing)
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
        let Some(x) = self.slab.get_mut(key).filter(|x| x.is_open_ended != is_open_ended) else { return };
        let may_end = x.may_end_for_another();
        x.is_open_ended = is_open_ended;
        if is_open_ended {
            self.open_ended += 1;
            if x.may_end_for_another() {
                self.quietest.push(&mut self.slab, key);
            }
        } else {
            self.open_ended -= 1;
            if may_end {
                self.quietest.remove(&mut self.slab, key);
            }
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
        all.find(|(_, x)| !x.client_gone && is_own(x)).map(|(key, _)| key)
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
            if let Some(principals) = &mut self.principals {
                principals.add(authorization.identity().shared_principal());
            }
            (x.authorization, x.expires) = (Some(authorization), expires);
        }
    }

    // ---- the index of a session ------------------------------------------------------------------------------

    /// Marks an exchange as an open call of the session with this index.
    pub(super) fn begin_call(&mut self, index: &mut Tree, key: Key) {
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
        if let Some(index) = index.filter(|_| x.place.number > 0) {
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
        let expires = slab.get(key).filter(|x| x.is_open_ended).and_then(|x| x.expires);
        let at = expires.map_or(at, |expires| at.min(expires));
        checks.arm(at, key);
        checks.sweep(slab.len(), |_, key| slab.get(key).is_some_and(ServerExchange::is_live), |_| false);
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
        if self.slab.is_empty() {
            self.spare = SpareBuffers::default();
            if let Some(principals) = &mut self.principals {
                principals.trim();
            }
            self.slab.trim();
            self.checks.trim(|_, _| false);
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }
}

#[cfg(test)]
mod tests;
