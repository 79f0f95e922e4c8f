//! Bodies: what delimits them, read and written.

use alloc::vec::Vec;

use bytes::Bytes;

use super::error::{Fault, Reason, Refused};
use super::fields::is_field;
use super::inbox::Inbox;
use super::limits::Limits;
use crate::ascii::AnyCase as _;
use crate::outbox::Outbox;

/// How the body of a message that came is delimited (RFC 9112, 6.3)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is none
    None,
    /// So many bytes
    Exact(u64),
    /// In chunks
    Chunked,
    /// By the end of the connection; responses only
    UntilClose,
}

/// What reading on gave
#[derive(Debug)]
pub(super) enum Progress {
    /// Some of the body
    Data(Bytes),
    /// It is complete
    End,
    /// More has to come
    More,
}

/// Reads one body
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    state: State,
    /// Bytes that may still come
    room: u64,
    /// Bytes of extensions that were skipped
    extensions: usize,
    /// Bytes and lines of the trailer section so far
    trailers: (usize, usize),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Exact(u64),
    UntilClose,
    /// Within the size of a chunk
    Size {
        digits: u8,
        size: u32,
    },
    /// Behind the size: extensions up to the carriage return
    Extension {
        size: u32,
    },
    /// Behind the carriage return of the size
    SizeEnd {
        size: u32,
    },
    Chunk(u32),
    /// Behind the content of a chunk
    ChunkEnd,
    /// Behind the last chunk
    Trailers,
}

const SIZE: State = State::Size { digits: 0, size: 0 };

impl Reader {
    pub(super) const fn new(framing: Framing, limits: &Limits) -> Self {
        let state = match framing {
            Framing::None => State::Exact(0),
            Framing::Exact(n) => State::Exact(n),
            Framing::Chunked => SIZE,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, room: limits.max_body, extensions: 0, trailers: (0, 0) }
    }

    /// Whether its end is that of the connection
    pub(super) const fn is_until_close(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Whether there is nothing left to wait for
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Exact(0))
    }

    /// Whether its length was told
    pub(super) const fn is_exact(&self) -> bool {
        matches!(self.state, State::Exact(_))
    }

    /// Reads on; how the input was cut has no part in what comes of it but the size of the pieces
    pub(super) fn read(&mut self, inbox: &mut Inbox, limits: &Limits) -> Result<Progress, Fault> {
        loop {
            // Faults at a byte: where it stands, relative to what was taken before.
            let first = inbox.bytes().first().copied();
            match (self.state, first) {
                (State::Exact(0), _) => return Ok(Progress::End),
                (State::Trailers, _) => return self.trailers(inbox, limits),
                (_, None) => return Ok(Progress::More),
                (State::Exact(left), _) => {
                    let data = inbox.take(usize::try_from(left).unwrap_or(usize::MAX));
                    self.state = State::Exact(left - data.len() as u64);
                    return Ok(Progress::Data(data));
                }
                (State::UntilClose, _) => {
                    if self.room == 0 {
                        return Err(inbox.fault(Reason::BodyTooLong, 0));
                    }
                    let data = inbox.take(usize::try_from(self.room).unwrap_or(usize::MAX));
                    self.room -= data.len() as u64;
                    return Ok(Progress::Data(data));
                }
                (State::Chunk(left), _) => {
                    let data = inbox.take(left as usize);
                    let left = left - data.len() as u32;
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Ok(Progress::Data(data));
                }
                (State::ChunkEnd, _) => {
                    match inbox.bytes() {
                        [b'\r', b'\n', ..] => inbox.advance(2),
                        [b'\r'] => return Ok(Progress::More),
                        _ => return Err(inbox.fault(Reason::ChunkEnd, 0)),
                    }
                    self.state = SIZE;
                }
                (state, Some(byte)) => {
                    self.state = self.size_line(state, byte, limits).map_err(|r| inbox.fault(r, 0))?;
                    inbox.advance(1);
                }
            }
        }
    }

    /// One byte of the line that tells the size of a chunk (RFC 9112, 7.1)
    fn size_line(&mut self, state: State, byte: u8, limits: &Limits) -> Result<State, Reason> {
        Ok(match (state, byte) {
            (State::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                if digits == 8 {
                    return Err(Reason::ChunkSize);
                }
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    _ => (byte | 0x20) - b'a' + 10,
                };
                State::Size { digits: digits + 1, size: size << 4 | u32::from(digit) }
            }
            (State::Size { digits: 1.., size }, b'\r') => State::SizeEnd { size },
            (State::Size { digits: 1.., size }, b';') => State::Extension { size },
            (State::Size { .. }, _) => return Err(Reason::ChunkSize),
            (State::Extension { size }, b'\r') => State::SizeEnd { size },
            (State::Extension { .. }, b'\t' | b' '..=b'~') if self.extensions < limits.max_extensions => {
                self.extensions += 1;
                state
            }
            (State::Extension { .. }, _) => return Err(Reason::ChunkExtension),
            (State::SizeEnd { size: 0 }, b'\n') => State::Trailers,
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

    /// Fields behind the last chunk are held to the rules and dropped: nobody may take them for those of the head, and
    /// those that say where a message ends or goes may not stand there (RFC 9110, 6.5.1)
    fn trailers(&mut self, inbox: &mut Inbox, limits: &Limits) -> Result<Progress, Fault> {
        let (mut length, mut lines) = self.trailers;
        loop {
            let max = limits.max_head.saturating_sub(length);
            let Some(line) = inbox.find_line(max, Reason::Trailer)? else { return Ok(Progress::More) };
            let whole = inbox.bytes().get(..line).unwrap_or_default();
            let content = whole.strip_suffix(b"\r\n").unwrap_or(whole);
            let last = content.is_empty();
            if !last && (lines == limits.max_fields || !is_field(content) || has_framing(whole, true)) {
                return Err(inbox.fault(Reason::Trailer, 0));
            }
            inbox.advance(line);
            if last {
                return Ok(Progress::End);
            }
            (length, lines) = (length + line, lines + 1);
            self.trailers = (length, lines);
        }
    }
}

/// Writes one body
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    /// So many bytes are left
    Exact(u64),
    Chunked,
    UntilClose,
    /// What there is of it is not sent: the answer to a `HEAD`
    Mute(u64),
}

impl Writer {
    fn admit(&mut self, n: usize) -> Result<(), Refused> {
        match self {
            Self::Exact(left) | Self::Mute(left) => {
                *left = left.checked_sub(n as u64).ok_or(Refused::Length)?;
            }
            Self::Chunked | Self::UntilClose => {}
        }
        Ok(())
    }

    pub(super) fn body(&mut self, out: &mut Outbox, data: &[u8]) -> Result<(), Refused> {
        self.admit(data.len())?;
        if data.is_empty() || matches!(self, Self::Mute(_)) {
            return Ok(());
        }
        append(out, |tail| {
            if *self == Self::Chunked {
                put_size(tail, data.len());
            }
            tail.extend_from_slice(data);
            if *self == Self::Chunked {
                tail.extend_from_slice(b"\r\n");
            }
        });
        Ok(())
    }

    pub(super) fn body_owned(&mut self, out: &mut Outbox, data: &Bytes) -> Result<(), Refused> {
        self.admit(data.len())?;
        if data.is_empty() || matches!(self, Self::Mute(_)) {
            return Ok(());
        }
        if *self == Self::Chunked {
            append(out, |tail| put_size(tail, data.len()));
        }
        out.push_bytes(data);
        if *self == Self::Chunked {
            append(out, |tail| tail.extend_from_slice(b"\r\n"));
        }
        Ok(())
    }

    /// Ends it; refused while bytes that were announced are missing
    pub(super) fn end(self, out: &mut Outbox) -> Result<(), Refused> {
        match self {
            Self::Exact(1..) => return Err(Refused::Length),
            Self::Chunked => append(out, |tail| tail.extend_from_slice(b"0\r\n\r\n")),
            Self::Exact(0) | Self::UntilClose | Self::Mute(_) => {}
        }
        Ok(())
    }
}

/// Appends to what is to be written
pub(super) fn append(out: &mut Outbox, write: impl FnOnce(&mut Vec<u8>)) {
    let mark = out.mark();
    write(out.tail());
    out.wrote(mark);
}

fn put_size(tail: &mut Vec<u8>, n: usize) {
    let mut shift = (usize::BITS - n.leading_zeros()).div_ceil(4).max(1) * 4;
    while shift > 0 {
        shift -= 4;
        let digit = (n >> shift) as u8 & 0xf;
        tail.push(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit });
    }
    tail.extend_from_slice(b"\r\n");
}

/// Whether there is a field among `lines` that says where a message ends or goes, or what comes after it
pub(super) fn has_framing(lines: &[u8], host_too: bool) -> bool {
    let mut rest = lines;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        let is = |name: &[u8]| {
            line.get(name.len()) == Some(&b':') && line.get(..name.len()).is_some_and(|n| n.eq_any_case(name))
        };
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
