//! Received bytes that are not parsed yet, with the scan state of the head at their front.
//!
//! ```text
//!   buf:  POST / HTTP/1.1\r\nHost: a\r\nConte…
//!                           ^ line_start  ^ scanned
//! ```
//! Invariant: `line_start <= scanned <= buf.len()`. Each byte of a head is searched once for a line end, however the
//! input was cut.

use bytes::{Buf, Bytes, BytesMut};

use super::error::{ConnectionFault, Reason};
use crate::memory;

/// Buffer capacity from which reclaiming the space at its front pays off.
const RECLAIM_THRESHOLD: usize = 256 << 10;

#[derive(Default)]
pub(super) struct ReadBuffer {
    buf: BytesMut,
    /// `buf[..scanned]` was searched for line ends.
    scanned: usize,
    /// Start of the line that contains `scanned`.
    line_start: usize,
    /// Number of lines that end before `scanned`.
    line_count: usize,
    /// Bytes removed since the connection began.
    consumed: u64,
    /// Largest capacity seen for the buffer's allocation.
    capacity: usize,
}

/// The extent of a complete head: its length with the empty line, and the number of lines before that.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadExtent {
    pub(super) length: usize,
    pub(super) lines: usize,
}

/// Omits the content, which may hold tokens and session ids (SEC-019).
impl core::fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReadBuffer")
            .field("len", &self.buf.len())
            .field("consumed", &self.consumed)
            .finish_non_exhaustive()
    }
}

impl ReadBuffer {
    #[inline]
    pub(super) fn push(&mut self, input: &[u8]) {
        if self.buf.is_empty() && self.capacity > RECLAIM_THRESHOLD {
            // Pieces of bodies share the allocation. While one is alive this fails, and the next line allocates.
            let _ = self.buf.try_reclaim(self.capacity);
        }
        self.buf.extend_from_slice(input);
        self.capacity = self.capacity.max(self.buf.capacity());
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.buf.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Returns the bytes that the buffer takes, with those that pieces of a body may share.
    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns whether no byte was received yet.
    pub(super) fn is_unused(&self) -> bool {
        self.consumed == 0 && self.buf.is_empty()
    }

    /// Returns whether there are bytes and none was searched for line ends yet.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.scanned == 0 && !self.buf.is_empty()
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Returns a fault `at` bytes behind the front of the buffer.
    pub(super) fn fault(&self, reason: Reason, at: usize) -> ConnectionFault {
        ConnectionFault::new(reason, self.consumed.wrapping_add(at as u64))
    }

    /// Returns a fault at the end of all received bytes.
    pub(super) fn fault_at_end(&self, reason: Reason) -> ConnectionFault {
        self.fault(reason, self.buf.len())
    }

    /// Removes the first `n` bytes and resets the scan state.
    pub(super) fn advance(&mut self, n: usize) {
        let n = n.min(self.buf.len());
        self.buf.advance(n);
        self.consumed = self.consumed.wrapping_add(n as u64);
        self.rewind();
    }

    /// Resets the scan state, so that a head that was found is found again.
    pub(super) fn rewind(&mut self) {
        (self.scanned, self.line_start, self.line_count) = (0, 0, 0);
    }

    /// Removes and returns the first `n` bytes, or all if there are fewer.
    ///
    /// Keeps the scan state, so it must not be called while a head is searched for.
    pub(super) fn take(&mut self, n: usize) -> Bytes {
        let n = n.min(self.buf.len());
        self.consumed = self.consumed.wrapping_add(n as u64);
        // Nearly all of a block counts as all of it.
        memory::split_front(&mut self.buf, n, self.capacity, self.capacity / 8 * 7).0
    }

    /// Searches the next line end within the first `max` bytes.
    ///
    /// Returns where the line begins and where its content ends. `Ok(None)` means that there is no line end within
    /// `max` bytes yet.
    fn next_line(&mut self, max: usize) -> Result<Option<(usize, usize)>, ConnectionFault> {
        let end = self.buf.len().min(max);
        let fresh = self.buf.get(self.scanned..end).unwrap_or_default();
        let Some(at) = memchr::memchr(b'\n', fresh) else {
            // The position never goes back, also if `max` is smaller than in the last search.
            self.scanned = self.scanned.max(end);
            return Ok(None);
        };
        let newline = self.scanned + at;
        // A bare line feed is refused: a proxy that ignores it would see other fields (RFC 9112, 2.2). The first
        // condition also keeps `newline - 1` from underflow.
        if newline == self.line_start || self.buf.get(newline - 1) != Some(&b'\r') {
            return Err(self.fault(Reason::BareLineFeed, newline));
        }
        let line = (self.line_start, newline - 1);
        self.scanned = newline + 1;
        self.line_start = newline + 1;
        Ok(Some(line))
    }

    /// Searches the end of the head at the front (RFC 9112, 2.1) and checks each line end.
    ///
    /// `long_line` is the reason if not even the first line ends within `max` bytes.
    pub(super) fn find_head(
        &mut self,
        max: usize,
        long_line: Reason,
    ) -> Result<Option<HeadExtent>, ConnectionFault> {
        while let Some((start, end)) = self.next_line(max)? {
            if start == end {
                return Ok(Some(HeadExtent { length: self.line_start, lines: self.line_count }));
            }
            self.line_count += 1;
        }
        // With `max` bytes in the buffer no further input can bring the end in time.
        if self.buf.len() < max {
            return Ok(None);
        }
        let reason = if self.line_count == 0 { long_line } else { Reason::HeadTooLong };
        Err(self.fault(reason, self.line_start))
    }

    /// Returns the length of the next line with its end, at most `max` bytes, without removing it.
    pub(super) fn find_line(
        &mut self,
        max: usize,
        too_long: Reason,
    ) -> Result<Option<usize>, ConnectionFault> {
        if self.next_line(max)?.is_some() {
            return Ok(Some(self.line_start));
        }
        if self.buf.len() < max { Ok(None) } else { Err(self.fault(too_long, 0)) }
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        self.advance(self.buf.len());
    }

    /// Frees the memory if the buffer is empty.
    pub(super) fn trim(&mut self) {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
            self.capacity = 0;
        }
    }
}
