//! Bytes that came and were not read yet, with what is known of the head at their front.
//!
//! ```text
//!   buf:  POST / HTTP/1.1\r\nHost: a\r\nConte…
//!                           ^ line      ^ scanned
//! ```
//! `line <= scanned <= buf.len()`. Every byte of a head is looked at once for its line end, however it came.

use bytes::{Buf, Bytes, BytesMut};

use super::error::{Fault, Reason};

/// A buffer of this size is worth the trouble of using it from its beginning again
const KEEP: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Inbox {
    buf: BytesMut,
    /// `buf[..scanned]` was searched for line ends
    scanned: usize,
    /// Where the line begins that `scanned` is in
    line: usize,
    /// Lines that end before `scanned`
    lines: usize,
    /// Bytes taken out since the connection began
    taken: u64,
    /// Size of the buffer's allocation, as far as it was ever seen
    whole: usize,
}

/// A head that is complete: its length with the empty line, and how many lines stand before that
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) length: usize,
    pub(super) lines: usize,
}

/// There are tokens and ids of sessions in it (SEC-019)
impl core::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Inbox")
            .field("len", &self.buf.len())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn push(&mut self, input: &[u8]) {
        if self.buf.is_empty() && self.whole > KEEP {
            let _ = self.buf.try_reclaim(self.whole);
        }
        self.buf.extend_from_slice(input);
        self.whole = self.whole.max(self.buf.capacity());
    }

    pub(super) fn len(&self) -> usize {
        self.buf.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Whether there is something that nobody has looked at for line ends
    pub(super) fn is_fresh(&self) -> bool {
        self.scanned == 0 && !self.buf.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// The fault of something that begins `at` bytes from here
    pub(super) fn fault(&self, reason: Reason, at: usize) -> Fault {
        Fault::new(reason, self.taken.wrapping_add(at as u64))
    }

    /// The fault of what did not come: behind all that did
    pub(super) fn fault_at_end(&self, reason: Reason) -> Fault {
        self.fault(reason, self.buf.len())
    }

    /// Drops the first `n` bytes, and what was known of a head
    pub(super) fn advance(&mut self, n: usize) {
        let n = n.min(self.buf.len());
        self.buf.advance(n);
        self.taken = self.taken.wrapping_add(n as u64);
        (self.scanned, self.line, self.lines) = (0, 0, 0);
    }

    /// Takes out the first `n` bytes, or what there is; only where no head is being looked for
    pub(super) fn take(&mut self, n: usize) -> Bytes {
        let n = n.min(self.buf.len());
        self.taken = self.taken.wrapping_add(n as u64);
        self.buf.split_to(n).freeze()
    }

    /// Looks for the next line end within the first `max` bytes: where the line begins and where its content ends
    ///
    /// `Ok(None)`: it has not come yet, or does not come within `max`.
    fn next_line(&mut self, max: usize) -> Result<Option<(usize, usize)>, Fault> {
        let end = self.buf.len().min(max);
        let fresh = self.buf.get(self.scanned..end).unwrap_or_default();
        let Some(at) = memchr::memchr(b'\n', fresh) else {
            self.scanned = self.scanned.max(end);
            return Ok(None);
        };
        let newline = self.scanned + at;
        if newline == self.line || self.buf.get(newline - 1) != Some(&b'\r') {
            return Err(self.fault(Reason::BareLineFeed, newline));
        }
        let line = (self.line, newline - 1);
        self.scanned = newline + 1;
        self.line = newline + 1;
        Ok(Some(line))
    }

    /// Looks for the end of the head at the front (RFC 9112, 2.1); every line of it ends as it must
    ///
    /// `long_line` is the reason when not even its first line ends within `max`.
    pub(super) fn find_head(&mut self, max: usize, long_line: Reason) -> Result<Option<Found>, Fault> {
        while let Some((start, end)) = self.next_line(max)? {
            if start == end {
                return Ok(Some(Found { length: self.line, lines: self.lines }));
            }
            self.lines += 1;
        }
        if self.buf.len() < max {
            return Ok(None);
        }
        let reason = if self.lines == 0 { long_line } else { Reason::HeadTooLong };
        Err(self.fault(reason, self.line))
    }

    /// The length of the next line with its end, which stays where it is; a line with its end has at most `max` bytes
    pub(super) fn find_line(&mut self, max: usize, too_long: Reason) -> Result<Option<usize>, Fault> {
        if self.next_line(max)?.is_some() {
            return Ok(Some(self.line));
        }
        if self.buf.len() < max { Ok(None) } else { Err(self.fault(too_long, 0)) }
    }

    /// Drops what there is
    pub(super) fn clear(&mut self) {
        self.advance(self.buf.len());
    }

    /// Gives memory back when nothing is kept
    pub(super) fn trim(&mut self) {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
            self.whole = 0;
        }
    }
}
