//! Outgoing bytes: small messages share one buffer, large payloads are segments of their own.
//!
//! ```text
//!   segments: Bytes  Bytes  …   | tail: Vec<u8>
//!   `tail_offset` bytes of the tail are consumed already (0 while there are segments)
//! ```
//! Every message ends in a newline, and no message contains one. A byte stream sends the bytes as they are. A
//! message transport takes whole messages with [`Outbox::pop_message`].

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes, BytesMut};

#[cfg(debug_assertions)]
use crate::driving;
use crate::memory::{self, Charge, MemoryAccount};

/// Size in bytes from which a payload is not copied into the tail.
const MIN_SEGMENT_LEN: usize = 16 << 10;
/// Consumed bytes that may stay in front of the tail.
const MAX_CONSUMED_PREFIX: usize = 4 << 10;
/// Capacity above which an empty tail is released immediately.
const MAX_RETAINED_CAPACITY: usize = 64 << 10;

/// A queue of outgoing bytes with a cursor for short writes.
#[derive(Default)]
pub struct Outbox {
    segments: VecDeque<Bytes>,
    tail: Vec<u8>,
    tail_offset: usize,
    len: usize,
    consumed: u64,
    /// The capacity of the tail. A segment of it is charged by itself.
    charge: Charge,
    /// Bytes that were dropped. The driver may have given them to the system, and report them later as written.
    #[cfg(debug_assertions)]
    dropped: usize,
}

/// Hides the content, which may be secret (SEC-019).
impl core::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Outbox").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Charges what is appended to an account.
    pub(crate) fn charge_to(&mut self, account: &MemoryAccount) {
        self.charge.attach(account);
    }

    /// Returns the number of bytes that are not consumed yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes to write next; empty if there are none.
    #[must_use]
    #[inline]
    pub fn transmit(&self) -> &[u8] {
        match self.segments.front() {
            Some(first) => first,
            None => self.tail.get(self.tail_offset..).unwrap_or_default(),
        }
    }

    /// Iterates over all pending slices in order, for vectored writes.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let tail =
            if self.segments.is_empty() { self.tail.get(self.tail_offset..) } else { Some(&*self.tail) };
        self.segments.iter().map(|b| &**b).chain(tail).filter(|s| !s.is_empty())
    }

    /// Marks `n` bytes as written; a larger number than [`len`](Self::len) counts as all.
    ///
    /// # Panics
    ///
    /// In a debug build, if `n` is larger than the number of bytes that were there to write.
    pub fn consume(&mut self, n: usize) {
        #[cfg(debug_assertions)]
        driving::check_consumed(n, self.len + self.dropped);
        self.discard(n);
    }

    fn discard(&mut self, n: usize) {
        let mut n = n.min(self.len);
        self.len -= n;
        self.consumed = self.consumed.wrapping_add(n as u64);
        while let Some(first) = self.segments.front_mut() {
            if n < first.len() {
                first.advance(n);
                return;
            }
            n -= first.len();
            self.segments.pop_front();
        }
        self.tail_offset += n;
        if self.tail_offset >= self.tail.len() {
            self.tail_offset = 0;
            self.tail.clear();
            // One large message must not keep its buffer alive on an idle connection.
            if self.tail.capacity() > MAX_RETAINED_CAPACITY {
                self.tail = Vec::new();
            }
            self.charge.follow(self.tail.capacity());
        } else if self.tail_offset >= MAX_CONSUMED_PREFIX && self.tail_offset * 2 >= self.tail.len() {
            // A reader that never quite catches up must not keep consumed bytes alive. Each move copies no more
            // than was consumed since the last one, so the cost stays linear.
            self.tail.drain(..self.tail_offset);
            self.tail_offset = 0;
            if self.tail.capacity() > MAX_RETAINED_CAPACITY && self.tail.len() < self.tail.capacity() / 4 {
                self.tail.shrink_to(self.tail.len() * 2);
            }
            self.charge.follow(self.tail.capacity());
        }
    }

    /// Returns the number of bytes consumed since the beginning.
    pub(crate) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the length of the first complete message, its newline excluded.
    fn first_message_len(&self) -> Option<usize> {
        let mut length = 0;
        for s in self.segments() {
            match crate::json::find_newline(s) {
                Some(at) => return Some(length + at),
                None => length += s.len(),
            }
        }
        None
    }

    /// Returns whether exactly one message is left.
    #[cfg(feature = "http")]
    pub(crate) fn has_single_message(&self) -> bool {
        self.first_message_len().is_some_and(|length| length + 1 == self.len)
    }

    /// Removes one complete message, without its newline, for transports that carry messages and not bytes.
    ///
    /// Do not call it while a message that began with [`transmit`](Self::transmit) is partly consumed.
    pub fn pop_message(&mut self) -> Option<Bytes> {
        let length = self.first_message_len()?;
        let message = match self.segments.front_mut() {
            // A small message is copied: a caller that keeps it would keep the whole segment alive.
            Some(first) if first.len() >= length && length >= MIN_SEGMENT_LEN => first.slice(..length),
            _ => {
                let mut whole = BytesMut::with_capacity(length);
                for s in self.segments() {
                    let room = length - whole.len();
                    whole.extend_from_slice(s.get(..room).unwrap_or(s));
                }
                whole.freeze()
            }
        };
        self.consume(length + 1);
        Some(message)
    }

    /// Moves one complete message, without its newline, to the end of another outbox.
    ///
    /// Large parts are not copied. Returns false if there is no complete message.
    #[cfg(feature = "http")]
    pub(crate) fn move_message(&mut self, to: &mut Self) -> bool {
        let Some(length) = self.first_message_len() else { return false };
        let mut left = length;
        while left > 0 {
            let n = match self.segments.front() {
                Some(first) => {
                    let n = left.min(first.len());
                    to.push_bytes(&first.slice(..n));
                    n
                }
                None => {
                    let n = left.min(self.transmit().len());
                    // Without memory for a copy, the text becomes a segment.
                    if !memory::reserve(&mut to.tail, n) && self.seal_tail(0) {
                        continue;
                    }
                    to.push(self.transmit().get(..n).unwrap_or_default());
                    n
                }
            };
            self.consume(n);
            left -= n;
        }
        self.consume(1);
        true
    }

    /// Appends a copy of the bytes.
    #[cfg(feature = "http")]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.len += bytes.len();
        self.charge.follow(self.tail.capacity());
    }

    /// Appends the bytes that `write` appends to the tail.
    #[cfg(feature = "http")]
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mark = self.mark();
        write(&mut self.tail);
        self.commit(mark);
    }

    /// Removes the first segment; returns `None` if all pending bytes are in the tail.
    #[cfg(feature = "http")]
    pub(crate) fn pop_segment(&mut self) -> Option<Bytes> {
        let segment = self.segments.pop_front()?;
        self.len -= segment.len();
        self.consumed = self.consumed.wrapping_add(segment.len() as u64);
        Some(segment)
    }

    /// Returns the buffer to append to; call [`commit`](Self::commit) afterwards.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Returns the offset in the tail at which the next byte is appended.
    pub(crate) fn mark(&self) -> usize {
        self.tail.len()
    }

    /// Counts the bytes that were appended to the tail since `mark`.
    pub(crate) fn commit(&mut self, mark: usize) {
        self.len += self.tail.len().saturating_sub(mark);
        self.charge.follow(self.tail.capacity());
    }

    /// Removes the bytes that were appended to the tail since `mark`, before they are counted.
    pub(crate) fn rollback(&mut self, mark: usize) {
        self.tail.truncate(mark);
        if self.tail.capacity() > MAX_RETAINED_CAPACITY {
            self.tail.shrink_to(mark);
        }
    }

    /// Appends an existing payload; a large one is not copied.
    pub(crate) fn push_bytes(&mut self, payload: &Bytes) {
        self.len += payload.len();
        if payload.len() < MIN_SEGMENT_LEN && memory::reserve(&mut self.tail, payload.len()) {
            self.tail.extend_from_slice(payload);
            self.charge.follow(self.tail.capacity());
            return;
        }
        // What is in the tail comes before the payload.
        self.push_tail();
        self.segments.push_back(payload.clone());
    }

    /// Appends a complete text without a copy. Returns false, and appends nothing, if there is no memory for its entry.
    pub(crate) fn push_text(&mut self, text: &mut Vec<u8>) -> bool {
        if !self.seal_tail(0) || !is_entry_available(&mut self.segments) {
            return false;
        }
        self.len += text.len();
        self.segments.push_back(self.charge.account().hold_text(core::mem::take(text)));
        true
    }

    /// Makes room for `more` bytes in the tail. Returns false if there is no memory for them.
    ///
    /// A tail that cannot grow becomes a segment, so that only the new bytes need memory in one piece.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) -> bool {
        self.has_room(more) || self.grow(more)
    }

    /// Returns whether `more` bytes fit into the tail as it is.
    #[inline]
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.tail.capacity() - self.tail.len() >= more
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        self.tail.drain(..self.tail_offset);
        self.tail_offset = 0;
        // Exactly, because the rest of a small heap is needed elsewhere.
        self.tail.try_reserve_exact(more).is_ok() || (!self.tail.is_empty() && self.seal_tail(more))
    }

    /// Makes the tail a segment, and `room` bytes the capacity of the next one. Returns whether there is memory for that.
    fn seal_tail(&mut self, room: usize) -> bool {
        let mut next = Vec::new();
        // Reserved before the tail is given up: without memory nothing changes.
        if next.try_reserve_exact(room).is_err() {
            return false;
        }
        if !self.tail.is_empty() {
            if !is_entry_available(&mut self.segments) {
                return false;
            }
            self.push_tail();
            self.tail = next;
        }
        true
    }

    /// Makes the tail a segment, if there is something in it.
    fn push_tail(&mut self) {
        if !self.tail.is_empty() {
            let mut pending = self.charge.account().hold_text(core::mem::take(&mut self.tail));
            self.charge.follow(0);
            // With segments in front, the cursor belongs to them and the whole tail is pending.
            if self.segments.is_empty() {
                pending.advance(self.tail_offset);
            }
            self.segments.push_back(pending);
        }
        self.tail_offset = 0;
    }

    /// Makes all pending bytes segments, which can be sent without a copy. Returns false without memory for the entry.
    #[cfg(feature = "http")]
    pub(crate) fn seal(&mut self) -> bool {
        self.seal_tail(0)
    }

    /// Drops all bytes.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            consumed: self.consumed.wrapping_add(self.len as u64),
            #[cfg(debug_assertions)]
            dropped: self.dropped + self.len,
            charge: core::mem::take(&mut self.charge),
            ..Self::default()
        };
        self.charge.follow(0);
    }

    /// Returns the capacity of the tail.
    pub(crate) fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Drops all bytes, keeps a small buffer and resets the counter.
    pub(crate) fn clear_for_reuse(&mut self) {
        self.discard(usize::MAX);
        self.consumed = 0;
    }

    /// Releases the capacity beyond `room` bytes if nothing is pending.
    pub(crate) fn trim(&mut self, room: usize) {
        let mut tail = Vec::new();
        if self.is_empty() && tail.try_reserve_exact(room).is_ok() {
            self.clear();
            self.tail = tail;
            self.charge.follow(self.tail.capacity());
        }
    }
}

/// Returns whether there is memory for one more segment.
fn is_entry_available(segments: &mut VecDeque<Bytes>) -> bool {
    // Beside its place a segment has a small block that counts who shares it.
    segments.try_reserve(1).is_ok() && memory::is_available(4 * size_of::<usize>())
}

#[cfg(test)]
#[path = "exhaustive/tables/queues.rs"]
mod exhaustive_tables;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn append(o: &mut Outbox, b: &[u8]) {
        let m = o.mark();
        o.tail().extend_from_slice(b);
        o.commit(m);
    }

    fn drain(o: &mut Outbox, step: usize) -> Vec<u8> {
        let mut all = vec![];
        while !o.is_empty() {
            let t = o.transmit();
            let n = t.len().min(step);
            all.extend_from_slice(&t[..n]);
            o.consume(n);
        }
        all
    }

    #[test]
    fn order_survives_segments_and_short_writes() {
        let big = Bytes::from(vec![b'x'; MIN_SEGMENT_LEN]);
        for step in [1, 7, 4096, usize::MAX] {
            let mut o = Outbox::default();
            append(&mut o, b"ab");
            o.consume(1);
            o.push_bytes(&big);
            append(&mut o, b"cd");
            o.push_bytes(&big);
            append(&mut o, b"e");
            assert_eq!(o.segments().map(<[u8]>::len).sum::<usize>(), o.len());
            let all = drain(&mut o, step);
            let want = [b"b", &big[..], b"cd", &big[..], b"e"].concat();
            assert!(all == want, "step {step}");
        }
    }

    #[test]
    fn messages_are_popped_whole() {
        let big = Bytes::from(vec![b'x'; MIN_SEGMENT_LEN]);
        let mut o = Outbox::default();
        append(&mut o, b"one\ntwo");
        o.push_bytes(&big);
        append(&mut o, b"\nthree");
        assert_eq!(o.pop_message().as_deref(), Some(&b"one"[..]));
        assert_eq!(o.pop_message().map(|m| m.len()), Some(MIN_SEGMENT_LEN + 3));
        assert_eq!(o.pop_message(), None);
        append(&mut o, b"\n");

        assert_eq!(o.pop_message().as_deref(), Some(&b"three"[..]));
        assert!(o.is_empty());
    }

    #[test]
    fn small_message_is_copied_out_of_segment() {
        let mut o = Outbox::default();
        append(&mut o, b"small\n");
        append(&mut o, &[b'x'; 4 * MIN_SEGMENT_LEN]);
        append(&mut o, b"\n");
        o.push_bytes(&Bytes::from(vec![b'x'; MIN_SEGMENT_LEN]));
        let all = o.transmit().as_ptr_range();
        let (small, large) = (o.pop_message().expect("a message"), o.pop_message().expect("another"));
        assert!(!all.contains(&small.as_ptr()) && all.contains(&large.as_ptr()));
        assert_eq!((&*small, large.len()), (&b"small"[..], 4 * MIN_SEGMENT_LEN));
    }

    #[cfg(feature = "http")]
    #[test]
    fn messages_move_without_their_newlines() {
        let big = Bytes::from(vec![b'x'; MIN_SEGMENT_LEN]);
        let (mut from, mut to) = (Outbox::default(), Outbox::default());
        append(&mut from, b"one\ntwo");
        from.push_bytes(&big);
        append(&mut from, b"-\nthree");
        assert!(!from.has_single_message());
        assert!(from.move_message(&mut to) && from.move_message(&mut to));
        assert!(!from.move_message(&mut to) && from.len() == 5);
        assert!(to.segments().any(|s| s.as_ptr() == big.as_ptr()), "large parts are not copied");
        append(&mut from, b"\n");
        assert!(from.has_single_message());
        assert_eq!(drain(&mut to, 7), [&b"onetwo"[..], &big, b"-"].concat());
    }

    #[test]
    fn slow_reader_keeps_no_consumed_bytes_alive() {
        let mut o = Outbox::default();
        append(&mut o, &[b'x'; 100]);
        for i in 0..100_000 {
            append(&mut o, &[b'y'; 40]);
            o.consume(40);
            assert_eq!(o.len(), 100, "{i}");
            assert!(o.tail.capacity() <= 4 * MAX_CONSUMED_PREFIX, "{}", o.tail.capacity());
        }
        assert_eq!(o.consumed(), 4_000_000);
        assert_eq!(drain(&mut o, 7), [b'y'; 100]);
    }

    #[test]
    fn large_tail_is_released() {
        let mut o = Outbox::default();
        append(&mut o, &vec![b'y'; MAX_RETAINED_CAPACITY + 1]);
        o.consume(o.len());
        assert_eq!(o.tail.capacity(), 0);
    }

    #[test]
    fn debug_shows_the_length_and_not_the_content() {
        let mut o = Outbox::default();
        append(&mut o, b"secret");
        assert_eq!(alloc::format!("{o:?}"), "Outbox { len: 6, .. }");
    }

    #[test]
    fn front_of_the_tail_is_moved_once_half_of_it_and_4_kib_are_consumed() {
        for (length, consumed, moved) in
            [(8_192, 4_095, false), (8_192, 4_096, true), (8_193, 4_096, false), (8_000, 4_000, false)]
        {
            let mut o = Outbox::default();
            append(&mut o, &vec![b'x'; length]);
            o.consume(consumed);
            assert_eq!(o.mark(), if moved { length - consumed } else { length }, "{consumed} of {length}");
            assert_eq!(o.transmit().len(), length - consumed);
        }
    }

    #[test]
    fn tail_keeps_at_most_64_kib_that_it_does_not_need() {
        let max = MAX_RETAINED_CAPACITY;
        for (capacity, left, kept) in [
            (max, 0, max),
            (max + 1, 0, 0),
            (max, 10, max),
            (max + 4, 10, 20),
            (max + 4, max / 4, max / 2),
            (max + 4, max / 4 + 1, max + 4),
            (max + 4, max / 4 + 2, max + 4),
        ] {
            let account = MemoryAccount::new(1 << 20, false);
            let mut o = Outbox::default();
            o.charge_to(&account);
            o.tail().reserve_exact(capacity);
            append(&mut o, &vec![b'x'; left + max / 2]);
            o.consume(max / 2);
            assert_eq!((o.capacity(), o.len()), (kept, left), "{left} left of {capacity}");
            assert!(account.used().abs_diff(kept) < 1 << 10);
        }
        for (capacity, kept) in [(max, max), (max + 1, 5)] {
            let mut o = Outbox::default();
            append(&mut o, b"12345");
            o.tail().reserve_exact(capacity - 5);
            let mark = o.mark();
            o.tail().extend_from_slice(b"refused");
            o.rollback(mark);
            assert_eq!((o.capacity(), o.transmit()), (kept, &b"12345"[..]));
        }
    }

    #[test]
    fn room_in_the_tail_is_exact_and_refused_without_a_change() {
        let mut o = Outbox::default();
        append(&mut o, &[b'x'; 100]);
        o.consume(60);
        assert!(!o.reserve(usize::MAX));
        assert_eq!((o.len(), o.segments().count()), (40, 1));
        assert!(o.reserve(1_000));
        assert_eq!((o.capacity(), o.transmit()), (1_040, &[b'x'; 40][..]));
        assert!(o.has_room(1_000) && !o.has_room(1_001));
    }

    #[test]
    fn pending_bytes_are_charged_until_they_are_dropped() {
        let account = MemoryAccount::new(1 << 20, false);
        let mut o = Outbox::default();
        o.charge_to(&account);
        for _ in 0..2 {
            append(&mut o, &[b'x'; 10_000]);
            assert!(account.used() >= 10_000);
            o.trim(0);
            assert_eq!(o.len(), 10_000, "what is pending stays");
            o.clear();
            assert_eq!((account.used(), o.len()), (0, 0));
        }
        assert_eq!(o.consumed(), 20_000);
        append(&mut o, &[b'x'; 10_000]);
        o.clear_for_reuse();
        assert_eq!((o.consumed(), o.len(), o.capacity()), (0, 0, 10_000));
        o.trim(2_000);
        assert_eq!((o.capacity(), account.used()), (2_000, 2_000));
    }

    #[test]
    fn large_payload_is_a_message_and_a_segment_without_a_copy() {
        let big = Bytes::from(vec![b'x'; MIN_SEGMENT_LEN]);
        let mut o = Outbox::default();
        o.push_bytes(&big);
        append(&mut o, b"\n");
        assert_eq!(o.pop_message().map(|message| message.as_ptr()), Some(big.as_ptr()));
        assert!(o.is_empty());
    }

    #[cfg(feature = "http")]
    #[test]
    fn segment_is_taken_whole_and_a_short_message_leaves_the_tail_as_it_is() {
        let big = Bytes::from(vec![b'x'; MIN_SEGMENT_LEN]);
        let mut o = Outbox::default();
        o.push_bytes(&big);
        append(&mut o, b"one\ntwo\n");
        assert_eq!(o.pop_segment().as_deref(), Some(&big[..]));
        assert_eq!((o.len(), o.consumed()), (8, MIN_SEGMENT_LEN as u64));
        assert_eq!((o.pop_segment(), o.len()), (None, 8));
        let (capacity, mut to) = (o.capacity(), Outbox::default());
        assert!(o.move_message(&mut to) && capacity > 0);
        assert_eq!((o.capacity(), o.transmit(), to.transmit()), (capacity, &b"two\n"[..], &b"one"[..]));
    }
}
