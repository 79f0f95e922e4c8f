//! Bytes waiting to be written: small messages run together, large payloads travel as segments of their own.
//!
//! ```text
//!   front: Bytes  Bytes  …   | tail: Vec<u8>
//!   ^ head bytes of the front are written already (of the tail, when there is no front)
//! ```
//! Every message ends in a newline, and no message contains one: a byte stream sends the bytes as they are, a
//! message transport takes whole messages with [`Outbox::pop_message`].

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes, BytesMut};

/// A payload of at least this many bytes is not copied into the tail
const SEGMENT: usize = 16 << 10;
/// So much that was consumed may stay in front of the tail
const SLACK: usize = 4 << 10;
/// A tail above this capacity is given back as soon as it is empty
const KEEP: usize = 64 << 10;

/// A queue of outgoing bytes with a cursor for short writes
#[derive(Default)]
pub struct Outbox {
    front: VecDeque<Bytes>,
    tail: Vec<u8>,
    head: usize,
    len: usize,
    consumed: u64,
}

/// What is in it may be secret (SEC-019)
impl core::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Outbox").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Bytes not yet consumed
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to write
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes to write next; empty when there are none
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        match self.front.front() {
            Some(first) => first,
            None => self.tail.get(self.head..).unwrap_or_default(),
        }
    }

    /// All pending slices in order, for vectored writes
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let tail = if self.front.is_empty() { self.tail.get(self.head..) } else { Some(&*self.tail) };
        self.front.iter().map(|b| &**b).chain(tail).filter(|s| !s.is_empty())
    }

    /// Notes that `n` bytes were written; more than there are counts as all
    pub fn consume(&mut self, n: usize) {
        let mut n = n.min(self.len);
        self.len -= n;
        self.consumed = self.consumed.wrapping_add(n as u64);
        while let Some(first) = self.front.front_mut() {
            if n < first.len() {
                first.advance(n);
                return;
            }
            n -= first.len();
            self.front.pop_front();
        }
        self.head += n;
        if self.head >= self.tail.len() {
            self.head = 0;
            self.tail.clear();
            if self.tail.capacity() > KEEP {
                self.tail = Vec::new();
            }
        } else if self.head >= SLACK && self.head * 2 >= self.tail.len() {
            // A reader that never quite catches up must not keep alive what it has read. Moving no more than was
            // consumed since the last time keeps this linear.
            self.tail.drain(..self.head);
            self.head = 0;
            if self.tail.capacity() > KEEP && self.tail.len() < self.tail.capacity() / 4 {
                self.tail.shrink_to(self.tail.len() * 2);
            }
        }
    }

    /// Bytes consumed since the beginning
    pub(crate) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// How long the first whole message is, without its newline
    fn message_len(&self) -> Option<usize> {
        let mut length = 0;
        for s in self.segments() {
            match crate::json::find_newline(s) {
                Some(at) => return Some(length + at),
                None => length += s.len(),
            }
        }
        None
    }

    /// Whether exactly one message is left
    #[cfg(feature = "http")]
    pub(crate) fn is_one_message(&self) -> bool {
        self.message_len().is_some_and(|length| length + 1 == self.len)
    }

    /// Takes out one whole message without its newline, for transports that carry messages and not bytes
    ///
    /// Not to be mixed with [`transmit`](Self::transmit) in the middle of a message.
    pub fn pop_message(&mut self) -> Option<Bytes> {
        let length = self.message_len()?;
        let message = match self.front.front_mut() {
            // A small one is copied: it may be kept, and would keep all that stands beside it.
            Some(first) if first.len() > length && length >= SEGMENT => first.slice(..length),
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

    /// Moves one whole message without its newline to the end of another outbox; large parts of it are not copied
    #[cfg(feature = "http")]
    pub(crate) fn move_message(&mut self, to: &mut Self) -> bool {
        let Some(length) = self.message_len() else { return false };
        let mut left = length;
        while left > 0 {
            let n = match self.front.front() {
                Some(first) => {
                    let n = left.min(first.len());
                    to.push_bytes(&first.slice(..n));
                    n
                }
                None => {
                    let text = self.transmit();
                    let text = text.get(..left).unwrap_or(text);
                    to.push(text);
                    text.len()
                }
            };
            self.consume(n);
            left -= n;
        }
        self.consume(1);
        true
    }

    /// Appends bytes by copying them
    #[cfg(feature = "http")]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends what `write` appends
    #[cfg(feature = "http")]
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mark = self.mark();
        write(&mut self.tail);
        self.wrote(mark);
    }

    /// Takes out the first segment if it is one that was never copied
    #[cfg(feature = "http")]
    pub(crate) fn pop_segment(&mut self) -> Option<Bytes> {
        let segment = self.front.pop_front()?;
        self.len -= segment.len();
        self.consumed = self.consumed.wrapping_add(segment.len() as u64);
        Some(segment)
    }

    /// The buffer to append to; call [`wrote`](Self::wrote) afterwards
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Where the next byte will be appended, as an offset into the tail
    pub(crate) fn mark(&self) -> usize {
        self.tail.len()
    }

    /// Accounts for what was appended to the tail since `mark`
    pub(crate) fn wrote(&mut self, mark: usize) {
        self.len += self.tail.len().saturating_sub(mark);
    }

    /// Takes back what was appended to the tail since `mark`, before it was accounted for
    pub(crate) fn undo(&mut self, mark: usize) {
        self.tail.truncate(mark);
    }

    /// Appends a payload that exists already, without copying it when it is large
    pub(crate) fn push_bytes(&mut self, payload: &Bytes) {
        self.len += payload.len();
        if payload.len() < SEGMENT {
            self.tail.extend_from_slice(payload);
            return;
        }
        if !self.tail.is_empty() {
            let mut pending = Bytes::from(core::mem::take(&mut self.tail));
            // With segments in front the cursor belongs to them and the whole tail is pending.
            if self.front.is_empty() {
                pending.advance(self.head);
            }
            self.front.push_back(pending);
        }
        self.head = 0;
        self.front.push_back(payload.clone());
    }

    /// Drops everything
    pub(crate) fn clear(&mut self) {
        *self = Self { consumed: self.consumed.wrapping_add(self.len as u64), ..Self::default() };
    }

    /// Bytes that it could hold without asking for more
    #[cfg(feature = "http")]
    pub(crate) fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Drops everything, and keeps a little memory
    #[cfg(feature = "http")]
    pub(crate) fn clear_for_use(&mut self) {
        self.consume(usize::MAX);
        self.front.clear();
        self.consumed = 0;
    }

    /// Gives spare capacity back
    pub(crate) fn trim(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn append(o: &mut Outbox, b: &[u8]) {
        let m = o.mark();
        o.tail().extend_from_slice(b);
        o.wrote(m);
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
        let big = Bytes::from(vec![b'x'; SEGMENT]);
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
    fn messages_come_out_whole() {
        let big = Bytes::from(vec![b'x'; SEGMENT]);
        let mut o = Outbox::default();
        append(&mut o, b"one\ntwo");
        o.push_bytes(&big);
        append(&mut o, b"\nthree");
        assert_eq!(o.pop_message().as_deref(), Some(&b"one"[..]));
        assert_eq!(o.pop_message().map(|m| m.len()), Some(SEGMENT + 3));
        assert_eq!(o.pop_message(), None);
        append(&mut o, b"\n");

        assert_eq!(o.pop_message().as_deref(), Some(&b"three"[..]));
        assert!(o.is_empty());
    }

    #[test]
    fn a_small_message_keeps_nothing_else_alive() {
        let mut o = Outbox::default();
        append(&mut o, b"small\n");
        append(&mut o, &[b'x'; 4 * SEGMENT]);
        append(&mut o, b"\n");
        o.push_bytes(&Bytes::from(vec![b'x'; SEGMENT]));
        let all = o.transmit().as_ptr_range();
        let (small, large) = (o.pop_message().expect("a message"), o.pop_message().expect("another"));
        assert!(!all.contains(&small.as_ptr()) && all.contains(&large.as_ptr()));
        assert_eq!((&*small, large.len()), (&b"small"[..], 4 * SEGMENT));
    }

    #[cfg(feature = "http")]
    #[test]
    fn messages_move_without_their_newlines() {
        let big = Bytes::from(vec![b'x'; SEGMENT]);
        let (mut from, mut to) = (Outbox::default(), Outbox::default());
        append(&mut from, b"one\ntwo");
        from.push_bytes(&big);
        append(&mut from, b"-\nthree");
        assert!(!from.is_one_message());
        assert!(from.move_message(&mut to) && from.move_message(&mut to));
        assert!(!from.move_message(&mut to) && from.len() == 5);
        assert!(to.segments().any(|s| s.as_ptr() == big.as_ptr()), "large parts are not copied");
        append(&mut from, b"\n");
        assert!(from.is_one_message());
        assert_eq!(drain(&mut to, 7), [&b"onetwo"[..], &big, b"-"].concat());
    }

    #[test]
    fn a_reader_that_never_catches_up_keeps_nothing_alive() {
        let mut o = Outbox::default();
        append(&mut o, &[b'x'; 100]);
        for i in 0..100_000 {
            append(&mut o, &[b'y'; 40]);
            o.consume(40);
            assert_eq!(o.len(), 100, "{i}");
            assert!(o.tail.capacity() <= 4 * SLACK, "{}", o.tail.capacity());
        }
        assert_eq!(o.consumed(), 4_000_000);
        assert_eq!(drain(&mut o, 7), [b'y'; 100]);
    }

    #[test]
    fn a_large_tail_is_given_back() {
        let mut o = Outbox::default();
        append(&mut o, &vec![b'y'; KEEP + 1]);
        o.consume(usize::MAX);
        assert_eq!(o.tail.capacity(), 0);
    }
}
