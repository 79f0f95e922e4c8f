//! Reading and writing of bodies.

use alloc::vec::Vec;

use bytes::Bytes;

use super::HttpLimits;
use super::error::{ConnectionFault, Reason, WriteError};
use super::fields::is_field;
use super::read_buffer::ReadBuffer;
use crate::ascii::AsciiCaseExt as _;
use crate::outbox::Outbox;

/// Most bytes that the coding adds to a piece: a chunk size of 16 digits, and two line ends.
pub(super) const MAX_CODING: usize = 20;

/// The outcome of one read.
#[derive(Debug)]
pub(super) enum BodyRead {
    /// A piece of the body.
    Data(Bytes),
    /// The end of the body.
    End,
    /// More input is needed.
    Incomplete,
}

/// The reader of one body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyReader {
    state: State,
    /// Bytes that `max_body` still allows.
    room: u64,
    /// Bytes of chunk extensions skipped so far.
    extensions: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Exact(u64),
    UntilClose,
    /// In a chunk size.
    Size {
        digits: u8,
        size: u32,
    },
    /// Behind the chunk size: extensions up to the carriage return.
    Extension {
        size: u32,
    },
    /// Behind the carriage return of the chunk size line.
    SizeEnd {
        size: u32,
    },
    Chunk(u32),
    /// Behind the content of a chunk.
    ChunkEnd,
    /// Behind the last chunk, with the bytes and lines of trailers so far.
    Trailers {
        length: usize,
        lines: usize,
    },
}

const CHUNK_SIZE_START: State = State::Size { digits: 0, size: 0 };

impl BodyReader {
    #[inline]
    pub(super) const fn new(framing: Framing, limits: &HttpLimits) -> Self {
        let state = match framing {
            Framing::None => State::Exact(0),
            Framing::Exact(n) => State::Exact(n),
            Framing::Chunked => CHUNK_SIZE_START,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, room: limits.max_body, extensions: 0 }
    }

    /// Returns whether the end of the connection ends the body.
    pub(super) const fn is_until_close(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Returns whether no more bytes are expected.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Exact(0))
    }

    /// Returns whether the length is known.
    pub(super) const fn is_exact(&self) -> bool {
        matches!(self.state, State::Exact(_))
    }

    /// Reads the next piece of the body.
    ///
    /// The cutting of the input changes only the sizes of the pieces.
    pub(super) fn read(
        &mut self,
        inbox: &mut ReadBuffer,
        limits: &HttpLimits,
    ) -> Result<BodyRead, ConnectionFault> {
        loop {
            // A fault at a byte is reported relative to the front of the buffer.
            let first = inbox.bytes().first().copied();
            match (self.state, first) {
                // An empty body ends without a byte, so this arm comes before that of the empty buffer.
                (State::Exact(0), _) => return Ok(BodyRead::End),
                (State::Trailers { length, lines }, _) => {
                    return self.read_trailers(length, lines, inbox, limits);
                }
                (_, None) => return Ok(BodyRead::Incomplete),
                (State::Exact(left), _) => {
                    // A length beyond `usize` is larger than any buffer, so all of the buffer is taken.
                    let data = inbox.take(usize::try_from(left).unwrap_or(usize::MAX));
                    self.state = State::Exact(left - data.len() as u64);
                    return Ok(BodyRead::Data(data));
                }
                (State::UntilClose, _) => {
                    // Only a byte beyond the limit is a fault: a body of exactly `max_body` bytes has no byte left
                    // here.
                    if self.room == 0 {
                        return Err(inbox.fault(Reason::BodyTooLong, 0));
                    }
                    let data = inbox.take(usize::try_from(self.room).unwrap_or(usize::MAX));
                    self.room -= data.len() as u64;
                    return Ok(BodyRead::Data(data));
                }
                (State::Chunk(left), _) => {
                    let data = inbox.take(left as usize);
                    // `take` returns at most `left` bytes, so neither the cast nor the subtraction loses anything.
                    let left = left - data.len() as u32;
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Ok(BodyRead::Data(data));
                }
                (State::ChunkEnd, _) => {
                    match inbox.bytes() {
                        [b'\r', b'\n', ..] => inbox.advance(2),
                        // Input may be cut inside the line end. Both bytes are removed together, so no state between
                        // them is needed.
                        [b'\r'] => return Ok(BodyRead::Incomplete),
                        _ => return Err(inbox.fault(Reason::ChunkEnd, 0)),
                    }
                    self.state = CHUNK_SIZE_START;
                }
                (state, Some(byte)) => {
                    self.state = self.read_size_byte(state, byte, limits).map_err(|r| inbox.fault(r, 0))?;
                    inbox.advance(1);
                }
            }
        }
    }

    /// Processes one byte of the line with a chunk size (RFC 9112, 7.1).
    fn read_size_byte(&mut self, state: State, byte: u8, limits: &HttpLimits) -> Result<State, Reason> {
        Ok(match (state, byte) {
            (State::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                // Eight digits fill `size`. A ninth would push the first one out, and a proxy would see another body
                // end.
                if digits == 8 {
                    return Err(Reason::ChunkSize);
                }
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    // The guard leaves letters only, and this bit makes them lower-case.
                    _ => (byte | 0x20) - b'a' + 10,
                };
                State::Size { digits: digits + 1, size: size << 4 | u32::from(digit) }
            }
            // At least one digit is required: an empty size must not count as zero, which ends the body.
            (State::Size { digits: 1.., size }, b'\r') => State::SizeEnd { size },
            (State::Size { digits: 1.., size }, b';') => State::Extension { size },
            (State::Extension { size }, b'\r') => State::SizeEnd { size },
            // The count spans the whole body. Otherwise each chunk of one byte could bring the full length of
            // extensions.
            (State::Extension { .. }, b'\t' | b' '..=b'~') if self.extensions < limits.max_extensions => {
                self.extensions += 1;
                state
            }
            (State::Extension { .. }, _) => return Err(Reason::ChunkExtension),
            (State::SizeEnd { size: 0 }, b'\n') => State::Trailers { length: 0, lines: 0 },
            // The announced size decides, before content arrives, so the cutting of the input does not change the
            // outcome.
            (State::SizeEnd { size }, b'\n') if u64::from(size) > self.room => {
                return Err(Reason::BodyTooLong);
            }
            (State::SizeEnd { size }, b'\n') => {
                self.room -= u64::from(size);
                State::Chunk(size)
            }
            _ => return Err(Reason::ChunkSize),
        })
    }

    /// Checks and drops the trailer fields.
    ///
    /// They must not be mistaken for fields of the head. Fields that control framing or routing are not allowed here
    /// (RFC 9110, 6.5.1).
    fn read_trailers(
        &mut self,
        mut length: usize,
        mut lines: usize,
        inbox: &mut ReadBuffer,
        limits: &HttpLimits,
    ) -> Result<BodyRead, ConnectionFault> {
        loop {
            // All trailers together get the bound of one head: they are dropped line by line, but a peer could send
            // them without end.
            let max = limits.max_head.saturating_sub(length);
            let Some(line) = inbox.find_line(max, Reason::Trailer)? else { return Ok(BodyRead::Incomplete) };
            let whole = inbox.bytes().get(..line).unwrap_or_default();
            let content = whole.strip_suffix(b"\r\n").unwrap_or(whole);
            let last = content.is_empty();
            // `has_framing_field` needs the line feed to see a line, so it gets the line with its end.
            if !last && (lines == limits.max_fields || !is_field(content) || has_framing_field(whole, true)) {
                return Err(inbox.fault(Reason::Trailer, 0));
            }
            inbox.advance(line);
            if last {
                return Ok(BodyRead::End);
            }
            (length, lines) = (length + line, lines + 1);
            // The counts outlive this call. Trailers that arrive in pieces would otherwise start again from zero.
            self.state = State::Trailers { length, lines };
        }
    }
}

/// The writer of one body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyWriter {
    /// This number of bytes is left.
    Exact(u64),
    Chunked,
    UntilClose,
    /// The body is counted but not sent: a response to `HEAD`.
    Suppressed(u64),
}

impl BodyWriter {
    fn reserve(&mut self, n: usize) -> Result<(), WriteError> {
        match self {
            Self::Exact(left) | Self::Suppressed(left) => {
                *left = left.checked_sub(n as u64).ok_or(WriteError::Length)?;
            }
            Self::Chunked | Self::UntilClose => {}
        }
        Ok(())
    }

    pub(super) fn write(&mut self, out: &mut Outbox, data: &[u8]) -> Result<(), WriteError> {
        self.reserve(data.len())?;
        // A chunk of size zero is the last one: an empty piece would end the body.
        if data.is_empty() || matches!(self, Self::Suppressed(_)) {
            return Ok(());
        }
        append_output(out, |tail| {
            if *self == Self::Chunked {
                put_chunk_size(tail, data.len());
            }
            tail.extend_from_slice(data);
            if *self == Self::Chunked {
                tail.extend_from_slice(b"\r\n");
            }
        });
        Ok(())
    }

    pub(super) fn write_owned(&mut self, out: &mut Outbox, data: &Bytes) -> Result<(), WriteError> {
        self.reserve(data.len())?;
        // As in `write`: a chunk of size zero would end the body.
        if data.is_empty() || matches!(self, Self::Suppressed(_)) {
            return Ok(());
        }
        if *self == Self::Chunked {
            append_output(out, |tail| put_chunk_size(tail, data.len()));
        }
        out.push_bytes(data);
        if *self == Self::Chunked {
            append_output(out, |tail| tail.extend_from_slice(b"\r\n"));
        }
        Ok(())
    }

    /// Ends the body; refused while announced bytes are missing.
    #[inline]
    pub(super) fn end(self, out: &mut Outbox) -> Result<(), WriteError> {
        match self {
            Self::Exact(1..) => return Err(WriteError::Length),
            Self::Chunked => append_output(out, |tail| tail.extend_from_slice(b"0\r\n\r\n")),
            Self::Exact(0) | Self::UntilClose | Self::Suppressed(_) => {}
        }
        Ok(())
    }
}

/// Appends output that `write` produces.
pub(super) fn append_output(out: &mut Outbox, write: impl FnOnce(&mut Vec<u8>)) {
    let mark = out.mark();
    write(out.tail());
    out.commit(mark);
}

/// Appends the field that announces the length of a body.
#[inline]
pub(super) fn put_length(tail: &mut Vec<u8>, n: u64) {
    tail.extend_from_slice(b"Content-Length: ");
    tail.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    tail.extend_from_slice(b"\r\n");
}

fn put_chunk_size(tail: &mut Vec<u8>, n: usize) {
    let mut shift = (usize::BITS - n.leading_zeros()).div_ceil(4).max(1) * 4;
    while shift > 0 {
        shift -= 4;
        let digit = (n >> shift) as u8 & 0xf;
        tail.push(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit });
    }
    tail.extend_from_slice(b"\r\n");
}

/// Returns whether `lines` contain a field that controls framing, routing or the life of the connection.
pub(super) fn has_framing_field(lines: &[u8], host_too: bool) -> bool {
    let mut rest = lines;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        let is = |name: &[u8]| {
            line.get(name.len()) == Some(&b':')
                && line.get(..name.len()).is_some_and(|n| n.eq_ignore_case(name))
        };
        // The first letter rules out most fields before a whole name is compared.
        let found = match line.first() {
            Some(b'c' | b'C') => is(b"content-length") || is(b"connection"),
            Some(b't' | b'T') => is(b"transfer-encoding"),
            Some(b'h' | b'H') => host_too && is(b"host"),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

// The framing of a received message, as its head announces it.

/// Framing of the body of a received message (RFC 9112, 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// No body.
    #[default]
    None,
    /// This number of bytes.
    Exact(u64),
    /// The chunked transfer coding.
    Chunked,
    /// The end of the connection; responses only.
    UntilClose,
}

impl Framing {
    /// Returns the length of the body in bytes, if it is known beforehand.
    pub(crate) const fn body_len(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Exact(length) => Some(length),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}

/// Properties of a request body that the fields alone do not show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestBodyInfo {
    /// Framing of the body.
    pub framing: Framing,
    /// The client waits for `100 Continue`.
    ///
    /// It is sent when the caller polls for the body before it has responded.
    pub expects_continue: bool,
    /// The request is HTTP/1.0, so a [stream](crate::head::BodySize::Stream) in the response ends with the connection.
    pub is_http10: bool,
}
