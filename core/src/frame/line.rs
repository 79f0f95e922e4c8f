//! Newline framing: one message per line (STDIO-002).
//!
//! The cost is linear in the input for any chunking: every byte is searched once for a newline. A line beyond the
//! limit is not stored. While it passes, its top-level `id` is searched, so that the request can be answered.

use bytes::{Buf, Bytes, BytesMut};

use crate::json::find_newline;
use crate::memory::{self, Charge, LONG, MemoryAccount, STEP};
use crate::rpc::recover::{IdFinder, RecoveredMessage};

/// One line of the input.
#[derive(Debug)]
pub enum Line {
    /// The bytes between two newlines, without a trailing carriage return; may be empty.
    Frame(Bytes),
    /// A line that was longer than the limit.
    TooLong(Oversize),
}

/// Length and recovered id of a line, or of an event's data, that was too long to keep.
#[derive(Debug)]
pub struct Oversize {
    /// Length in bytes, the newline at the end excluded.
    pub length: u64,
    /// There was no memory for the line. It may be shorter than the limit.
    pub is_out_of_memory: bool,
    pub(crate) recovered: RecoveredMessage,
}

/// Splits a byte stream into lines.
///
/// ```
/// use mcp_proto::frame::line::{Line, LineDecoder};
/// let mut decoder = LineDecoder::new(1 << 20);
/// decoder.push(b"{\"a\":1}\r\n{\"b\"");
/// assert!(matches!(decoder.next_line(), Some(Line::Frame(f)) if &f[..] == b"{\"a\":1}"));
/// assert!(decoder.next_line().is_none());
/// assert_eq!(decoder.partial(), 4);
/// ```
#[derive(Debug)]
pub struct LineDecoder {
    /// Input of `push_owned`, cut without copying as long as it holds complete lines.
    owned: Bytes,
    buf: BytesMut,
    /// `buf[..scanned]` holds no newline.
    scanned: usize,
    max: usize,
    /// Bytes that have to stay free when the buffer grows. The allocator is not asked in advance if this is 0.
    reserve: usize,
    /// Largest capacity of `buf` seen so far.
    max_capacity: usize,
    skip: Option<SkippedLine>,
    /// The line behind it, for which there was no memory before the first one was reported. Only beside `skip`.
    next_skip: Option<SkippedLine>,
    charge: Charge,
}

/// Capacity from which reclaiming the front of the buffer is worth its cost.
const MIN_RECLAIM_CAPACITY: usize = 256 << 10;

/// A line that passes without being stored.
#[derive(Debug)]
struct SkippedLine {
    finder: IdFinder,
    length: u64,
    done: bool,
    is_out_of_memory: bool,
    /// Bytes at the front of the buffer that came before it.
    behind: usize,
}

impl LineDecoder {
    /// Creates a decoder for lines of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            owned: Bytes::new(),
            buf: BytesMut::new(),
            scanned: 0,
            max,
            reserve: 0,
            max_capacity: 0,
            skip: None,
            next_skip: None,
            charge: Charge::default(),
        }
    }

    /// Sets the number of bytes that have to stay free when the buffer grows (default 0: the allocator is not asked).
    ///
    /// A line for which they are not is skipped as one that is too long.
    #[must_use]
    pub const fn memory_reserve(mut self, bytes: usize) -> Self {
        self.reserve = bytes;
        self
    }

    /// Charges what is stored to an account. A line of 4 KiB or more that the account does not take is skipped.
    pub(crate) fn charge_to(mut self, account: &MemoryAccount) -> Self {
        self.charge.attach(account);
        self
    }

    /// Adds input and copies it once.
    pub fn push(&mut self, mut input: &[u8]) {
        self.merge_owned();
        if self.skip.is_some() {
            let Some(rest) = self.feed_skipped(input) else { return };
            input = rest;
        }
        if self.buf.is_empty() && self.max_capacity > MIN_RECLAIM_CAPACITY {
            // After a large line only the rest of its allocation is free; reclaiming frees the consumed front too.
            let _ = self.buf.try_reclaim(self.max_capacity);
        }
        self.store(input);
        self.skip_if_oversize();
    }

    /// Passes input to the line that is skipped, if its end has not come. Returns the input behind it.
    #[cold]
    fn feed_skipped<'i>(&mut self, input: &'i [u8]) -> Option<&'i [u8]> {
        match self.next_skip.as_mut().or(self.skip.as_mut()).filter(|s| !s.done) {
            Some(skip) => skip.feed(input),
            None => Some(input),
        }
    }

    /// Appends input to the buffer, or begins to skip the line that there is no memory for.
    #[inline]
    fn store(&mut self, mut input: &[u8]) {
        if self.reserve > 0 {
            let Some(rest) = self.make_room(input) else { return };
            input = rest;
        }
        if self.buf.len() >= LONG {
            let Some(rest) = self.admit_long(input) else { return };
            input = rest;
        }
        self.buf.extend_from_slice(input);
        self.max_capacity = self.max_capacity.max(self.buf.capacity());
        self.charge.follow(self.max_capacity);
    }

    /// Begins to skip the unfinished line if it is long, and the account does not take its growth. Returns what is to be stored.
    #[cold]
    fn admit_long<'i>(&mut self, input: &'i [u8]) -> Option<&'i [u8]> {
        let free = self.buf.capacity() - self.buf.len();
        // As the buffer grows: to twice its length.
        let growth = if free >= input.len() { 0 } else { self.buf.len().max(input.len()) };
        if self.charge.account().takes_new(growth) {
            return Some(input);
        }
        let begin = self.buf.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // Short lines of one read may be many: each is judged when it is taken.
        if self.buf.len() - begin < LONG { Some(input) } else { self.skip_without_memory(input) }
    }

    /// Makes room for input if the reserve stays free. Returns what is to be stored, without the lines that are skipped.
    #[cold]
    fn make_room<'i>(&mut self, mut input: &'i [u8]) -> Option<&'i [u8]> {
        while !self.grow(input.len()) {
            input = self.skip_without_memory(input)?;
        }
        Some(input)
    }

    /// Makes room for `more` bytes if the reserve stays free. Returns whether there is room.
    fn grow(&mut self, more: usize) -> bool {
        let (length, capacity) = (self.buf.len(), self.buf.capacity());
        if capacity - length >= more || self.buf.try_reclaim(more) {
            return true;
        }
        let needed = length.saturating_add(more);
        // Twice as much, so that a long line is copied a few times only, but not beyond what a line may have.
        let ample = length.saturating_mul(2).min(self.max.saturating_add(2)).max(needed);
        let is_available = |bytes: usize| memory::is_available(bytes.saturating_add(self.reserve));
        let Some(capacity) = [ample, needed].into_iter().find(|bytes| is_available(*bytes)) else {
            return false;
        };
        // Not by `reserve`, which may take more than was asked for.
        let mut grown = BytesMut::with_capacity(capacity);
        grown.extend_from_slice(&self.buf);
        self.buf = grown;
        true
    }

    /// Skips the line that `input` continues, and returns the input behind it. Complete lines before it stay.
    #[cold]
    fn skip_without_memory<'i>(&mut self, input: &'i [u8]) -> Option<&'i [u8]> {
        let begin = self.buf.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut skip = SkippedLine::new(true);
        skip.feed(self.buf.get(begin..).unwrap_or_default());
        self.buf.truncate(begin);
        // Memory is short, so an empty buffer does not keep its capacity.
        if begin == 0 {
            self.buf = BytesMut::new();
            self.max_capacity = 0;
            self.charge.follow(0);
        }
        // The cut may be before the end of what was scanned.
        self.scanned = self.scanned.min(begin);
        skip.behind = begin;
        let rest = skip.feed(input);
        // A third line before the first one was reported takes the place of the second, which is lost.
        *(if self.skip.is_none() { &mut self.skip } else { &mut self.next_skip }) = Some(skip);
        rest
    }

    /// Adds input; lines that are complete within it are not copied.
    pub fn push_owned(&mut self, input: Bytes) {
        // Earlier bytes have to come first, so the input is joined to what is there.
        if self.owned.is_empty() && self.buf.is_empty() && self.skip.is_none() {
            self.owned = input;
        } else {
            self.push(&input);
        }
    }

    /// Returns the next line, oldest first.
    pub fn next_line(&mut self) -> Option<Line> {
        if self.skip.as_ref().is_some_and(|s| s.done && s.behind == 0) {
            // The line behind it may be one that is skipped, too.
            let skip = core::mem::replace(&mut self.skip, self.next_skip.take())?;
            let SkippedLine { finder, length, is_out_of_memory, .. } = skip;
            return Some(Line::TooLong(Oversize { length, is_out_of_memory, recovered: finder.finish() }));
        }
        if !self.owned.is_empty() {
            if let Some(at) = find_newline(&self.owned) {
                let line = self.owned.split_to(at);
                self.owned.advance(1);
                let line = self.charge.account().hold(line);
                return Some(self.finish_line(line));
            }
            self.merge_owned();
            // `owned` had no newline, so its rest needs no second scan.
            self.scanned = self.buf.len();
            self.skip_if_oversize();
            return None;
        }
        // Asked again after each line, nearly always in vain.
        if self.scanned == self.buf.len() {
            return None;
        }
        let fresh = self.buf.get(self.scanned..).unwrap_or_default();
        let Some(at) = find_newline(fresh) else {
            self.scanned = self.buf.len();
            self.skip_if_oversize();
            return None;
        };
        let length = self.scanned + at;
        // A copy has to leave the reserve. Devices make none.
        let may_copy = self.reserve == 0
            || (cfg!(not(target_os = "none")) && memory::is_available(self.reserve.saturating_add(length)));
        let kept = if may_copy { self.max_capacity / 2 } else { 0 };
        let (line, allocated) = memory::split_front(&mut self.buf, length, self.max_capacity, kept);
        self.buf.advance(1);
        self.scanned = 0;
        if self.skip.is_some() {
            self.count_taken(length + 1);
        }
        if line.len() >= STEP {
            return Some(self.finish_long_line(line, allocated));
        }
        Some(self.finish_line(line))
    }

    /// Counts bytes that were taken from the front of the buffer.
    #[cold]
    fn count_taken(&mut self, taken: usize) {
        for skip in [&mut self.skip, &mut self.next_skip].into_iter().flatten() {
            skip.behind = skip.behind.saturating_sub(taken);
        }
    }

    /// Returns the length of the unfinished last line in bytes. After the end of input, a length above 0 means
    /// truncation.
    #[must_use]
    pub fn partial(&self) -> usize {
        match self.next_skip.as_ref().or(self.skip.as_ref()) {
            Some(skip) if !skip.done => usize::try_from(skip.length).unwrap_or(usize::MAX),
            _ => self.buf.len() + self.owned.len(),
        }
    }

    /// Returns the length limit of a line.
    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of stored bytes.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buf.len() + self.owned.len()
    }

    /// Releases memory that holds no bytes.
    pub fn trim(&mut self) {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
            self.max_capacity = 0;
            self.charge.follow(0);
        }
        if self.owned.is_empty() {
            self.owned = Bytes::new();
        }
    }

    /// Moves the rest of owned input to the end of the buffer.
    #[inline]
    fn merge_owned(&mut self) {
        if !self.owned.is_empty() {
            let owned = core::mem::take(&mut self.owned);
            self.store(&owned);
        }
    }

    /// Stops storing the unfinished line once it is too long. Complete lines must have been taken before.
    #[inline]
    fn skip_if_oversize(&mut self) {
        // One byte more may be the carriage return of a line that just fits.
        if self.buf.len() > self.max.saturating_add(1) && self.skip.is_none() {
            self.skip_oversize();
        }
    }

    /// Does so for more bytes than a line may have, unless a line among them is complete.
    #[cold]
    fn skip_oversize(&mut self) {
        let fresh = self.buf.get(self.scanned..).unwrap_or_default();
        if find_newline(fresh).is_some() {
            return;
        }
        let mut skip = SkippedLine::new(false);
        skip.feed(&self.buf);
        self.skip = Some(skip);
        self.buf = BytesMut::new();
        self.max_capacity = 0;
        self.scanned = 0;
        self.charge.follow(0);
    }

    /// Charges a long line for as long as it is held. The buffer is charged, too, as long as it shares the allocation.
    #[cold]
    fn finish_long_line(&mut self, line: Bytes, allocated: usize) -> Line {
        let account = self.charge.account();
        // It keeps its block also when the buffer has gone on to another.
        let line = account.hold_allocated(line, allocated);
        if self.buf.is_empty() && account.is_short() {
            // The rest of the allocation would stay with the buffer.
            self.buf = BytesMut::new();
            self.max_capacity = 0;
        }
        self.charge.follow(self.max_capacity);
        self.finish_line(line)
    }

    fn finish_line(&self, mut line: Bytes) -> Line {
        let content = line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len);
        if content <= self.max {
            line.truncate(content);
            return Line::Frame(line);
        }
        let mut finder = IdFinder::new();
        finder.feed(&line);
        Line::TooLong(Oversize {
            length: line.len() as u64,
            is_out_of_memory: false,
            recovered: finder.finish(),
        })
    }
}

impl SkippedLine {
    const fn new(is_out_of_memory: bool) -> Self {
        Self { finder: IdFinder::new(), length: 0, done: false, is_out_of_memory, behind: 0 }
    }

    /// Consumes bytes up to the newline; returns the bytes behind it, or `None` if there was no newline.
    fn feed<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let end = find_newline(input);
        let part = end.and_then(|e| input.get(..e)).unwrap_or(input);
        self.finder.feed(part);
        self.length += part.len() as u64;
        self.done = end.is_some();
        end.and_then(|e| input.get(e + 1..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    /// Returns the decoded lines as text, for input in pieces of `step` bytes.
    fn lines(input: &[u8], max: usize, step: usize, owned: bool) -> Vec<String> {
        let mut d = LineDecoder::new(max);
        let mut out = Vec::new();
        for piece in input.chunks(step) {
            if owned {
                d.push_owned(Bytes::copy_from_slice(piece))
            } else {
                d.push(piece)
            }
            while let Some(line) = d.next_line() {
                out.push(match line {
                    Line::Frame(f) => String::from_utf8_lossy(&f).into_owned(),
                    Line::TooLong(o) => format!(
                        "{} bytes, id {:?}",
                        o.length,
                        o.recovered.id.map(|i| String::from_utf8_lossy(&i).into_owned())
                    ),
                });
            }
            assert!(d.buffered() <= max + step, "bounded");
        }
        out.push(format!("partial {}", d.partial()));
        out
    }

    // covers: STDIO-002, STDIO-003, STDIO-012
    #[test]
    fn chunking_does_not_change_lines() {
        let long = format!("{{\"id\":77,\"params\":\"{}\"}}", "x".repeat(100));
        let input = format!("one\r\n\ntwo\n{long}\nthree\n{long}\n\r\nfour{}", "y".repeat(10));
        let want = [
            "one",
            "",
            "two",
            "121 bytes, id Some(\"77\")",
            "three",
            "121 bytes, id Some(\"77\")",
            "",
            "partial 14",
        ];
        for owned in [false, true] {
            for step in 1..=input.len() {
                assert_eq!(lines(input.as_bytes(), 40, step, owned), want, "step {step}, owned {owned}");
            }
        }
    }

    #[test]
    fn endless_line_stays_bounded() {
        let mut d = LineDecoder::new(1000);
        d.push(b"{\"method\":\"x\",\"id\":5,\"p\":\"");
        for _ in 0..10_000 {
            d.push(&[b'a'; 512]);
            assert!(d.next_line().is_none());
            assert!(d.buffered() <= 1512);
        }
        d.push(b"\"}\nnext\n");
        assert!(matches!(d.next_line(), Some(Line::TooLong(o)) if o.recovered.id.as_deref() == Some(b"5")));
        assert!(matches!(d.next_line(), Some(Line::Frame(f)) if &f[..] == b"next"));
    }

    #[test]
    fn line_within_owned_input_is_not_copied() {
        let input = Bytes::from_static(b"first\nsecond\nrest");
        let mut d = LineDecoder::new(100);
        d.push_owned(input.clone());
        let Some(Line::Frame(f)) = d.next_line() else { panic!("a line") };
        assert_eq!(f.as_ptr(), input.as_ptr());
    }

    #[test]
    fn long_line_is_charged_for_as_long_as_it_is_held_with_and_without_a_reserve() {
        for reserve in [0, 1 << 10] {
            let account = MemoryAccount::new(64 << 10, false);
            let mut decoder = LineDecoder::new(1 << 20).memory_reserve(reserve).charge_to(&account);
            decoder.push(&[&[b'x'; 40 << 10][..], b"\n"].concat());
            let held = decoder.next_line();
            drop(decoder);
            assert!(account.used() >= 40 << 10, "{reserve}: {}", account.used());
            drop(held);
            assert_eq!(account.used(), 0, "{reserve}");
        }
    }

    /// Returns the next line as text, or the length of one that was too long and whether memory was short.
    fn next(decoder: &mut LineDecoder) -> Option<Result<String, (u64, bool)>> {
        Some(match decoder.next_line()? {
            Line::Frame(line) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Line::TooLong(line) => Err((line.length, line.is_out_of_memory)),
        })
    }

    fn long(length: usize) -> String {
        "x".repeat(length)
    }

    #[test]
    fn unfinished_input_counts_until_it_is_taken() {
        let mut d = LineDecoder::new(5);
        d.push_owned(Bytes::from_static(b"abc"));
        assert_eq!((d.partial(), d.buffered()), (3, 3));
        assert!(d.next_line().is_none());
        assert_eq!((d.partial(), d.buffered()), (3, 3));
        d.push(b"defgh");
        assert_eq!((d.partial(), d.buffered()), (8, 0), "too long, so only its length is kept");
        d.push(b"\nij");
        assert_eq!((d.partial(), d.buffered()), (2, 2), "the line behind it");
        assert_eq!((next(&mut d), d.next_line().is_none()), (Some(Err((8, false))), true));
    }

    #[test]
    fn empty_decoder_is_trimmed_to_nothing() {
        let account = MemoryAccount::new(64 << 10, false);
        let mut d = LineDecoder::new(10_000).charge_to(&account);
        d.push(b"abc");
        d.trim();
        assert_eq!(d.partial(), 3);
        d.push(&[&b"x".repeat(5_000)[..], b"\n"].concat());
        drop(d.next_line());
        assert!(account.used() >= 5_000);
        d.trim();
        assert_eq!((account.used(), d.buf.capacity()), (0, 0));
    }

    #[test]
    fn consumed_front_of_a_large_buffer_is_used_again() {
        let mut d = LineDecoder::new(1 << 20);
        let largest = 2 * MIN_RECLAIM_CAPACITY;
        d.push((long(largest - 1) + "\n").as_bytes());
        assert_eq!(d.next_line().is_some(), d.buf.is_empty());
        let capacity = d.max_capacity;
        // A line that takes a part of the front, then one that fits into the whole only.
        for length in [largest / 5, largest - 1] {
            let line = long(length) + "\n";
            line.as_bytes().chunks(largest / 50).for_each(|piece| d.push(piece));
            assert_eq!(next(&mut d).map(|line| line.map(|text| text.len())), Some(Ok(length)));
            assert_eq!(d.max_capacity, capacity, "{length}");
        }
    }

    #[test]
    fn long_line_is_stored_as_far_as_the_account_takes_the_growth_of_its_buffer() {
        let account = MemoryAccount::new(80 << 10, false);
        let mut d = LineDecoder::new(1 << 20).charge_to(&account);
        // The last eighth of the account is not for a growing line: 64 KiB fit, and twice that do not.
        d.push(&[b'x'; 16 << 10]);
        for kib in 16..64 {
            assert_eq!((d.buffered(), d.partial()), (kib << 10, kib << 10));
            d.push(&[b'x'; 1 << 10]);
            assert!(account.used() <= 64 << 10, "{}", account.used());
        }
        assert_eq!(d.buffered(), 64 << 10);
        d.push(b"x");
        assert_eq!((d.buffered(), account.used()), (0, 0));
        d.push(b"\nnext\n");
        assert_eq!(next(&mut d), Some(Err(((64 << 10) + 1, true))));
        assert_eq!(next(&mut d), Some(Ok("next".into())));
    }

    #[test]
    fn unfinished_line_is_skipped_from_a_length_on_if_the_account_is_full() {
        let account = MemoryAccount::new(64 << 10, false);
        let mut others = account.open();
        others.set(64 << 10);
        for (length, is_kept) in [(LONG - 1, true), (LONG, false), (LONG + 1, false)] {
            let mut d = LineDecoder::new(1 << 20).charge_to(&account);
            d.push(format!("ab\n{}", long(length)).as_bytes());
            d.push(b"y\nafter\n");
            let want = if is_kept { Ok(long(length) + "y") } else { Err((length as u64 + 1, true)) };
            let lines: Vec<_> = core::iter::from_fn(|| next(&mut d)).collect();
            assert_eq!(lines, [Ok("ab".into()), want, Ok("after".into())], "{length}");
        }
    }

    #[test]
    fn line_behind_a_long_one_stays_while_the_account_is_short() {
        for behind in ["", "behind"] {
            let account = MemoryAccount::new(16 << 10, false);
            let mut d = LineDecoder::new(1 << 20).charge_to(&account);
            d.push(format!("{}\n{behind}", long(9_000)).as_bytes());
            let held = d.next_line();
            assert!(held.is_some() && account.is_short());
            assert_eq!(d.buf.capacity() > 0, !behind.is_empty(), "spare room is released");
            d.push(b"\n");
            assert_eq!(next(&mut d), Some(Ok(behind.into())));
        }
    }

    #[test]
    fn line_without_memory_for_it_is_skipped_and_no_other() {
        const NO_MEMORY: usize = usize::MAX;
        let mut d = LineDecoder::new(1 << 20).memory_reserve(NO_MEMORY);
        d.push(b"abc");
        d.push(b"d\n");
        assert_eq!((d.buffered(), next(&mut d)), (0, Some(Err((4, true)))));

        let mut d = LineDecoder::new(1 << 20).memory_reserve(1);
        d.push((long(5_000) + "\n").as_bytes());
        drop(d.next_line());
        d.reserve = NO_MEMORY;
        d.push(b"one\ntwo");
        assert_eq!(next(&mut d), Some(Ok("one".into())), "in the room of the line before");
        let room = d.buf.capacity() - d.buf.len();
        d.push(&b"x".repeat(room + 5_001));
        d.push(b"\nthree");
        assert_eq!(next(&mut d), Some(Err((room as u64 + 5_004, true))));
    }

    #[test]
    fn short_line_of_a_long_block_is_copied_if_the_reserve_allows_it() {
        for (reserve, length, is_copied) in
            [(0, 100, true), (1, 100, true), (usize::MAX, 100, false), (0, 6_000, false), (1, 6_000, false)]
        {
            let mut d = LineDecoder::new(1 << 20).memory_reserve(reserve.min(1));
            d.push(format!("{}\n{}", long(length), long(9_999 - length)).as_bytes());
            d.reserve = reserve;
            let block = d.buf.as_ptr_range();
            let Some(Line::Frame(line)) = d.next_line() else { panic!("a line") };
            assert_eq!(!block.contains(&line.as_ptr()), is_copied, "reserve {reserve}, length {length}");
        }
    }

    #[test]
    fn lines_without_memory_are_reported_in_their_place() {
        let account = MemoryAccount::new(64 << 10, false);
        let mut others = account.open();
        others.set(64 << 10);
        let mut d = LineDecoder::new(1 << 20).charge_to(&account);
        d.push(format!("1\n2\n{}", long(LONG)).as_bytes());
        d.push(format!("x\n4\n{}", long(LONG)).as_bytes());
        d.push(b"xx\n6\n");
        let lines: Vec<_> = core::iter::from_fn(|| next(&mut d)).collect();
        let text = |line: &str| Ok(String::from(line));
        let short = |more: u64| Err((LONG as u64 + more, true));
        assert_eq!(lines, [text("1"), text("2"), short(1), text("4"), short(2), text("6")]);
    }
}
