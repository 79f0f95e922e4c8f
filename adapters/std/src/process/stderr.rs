//! The captured stderr of a server, as a bounded tail.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::io;
use std::process::ChildStderr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::StderrLineHandler;

/// Captured stderr of a server: the last bytes are kept, the rest is read and discarded.
///
/// Clones share one tail. Only adapters with a loop of their own need this type, as [`ChildIo`](super::ChildIo) reads
/// it during its waits.
#[derive(Debug, Clone)]
pub struct CapturedStderr {
    shared: Arc<CapturedStderrInner>,
}

#[derive(Debug)]
struct CapturedStderrInner {
    #[cfg(unix)]
    pipe: ChildStderr,
    tail: Mutex<StderrTail>,
}

impl CapturedStderr {
    /// Returns the end of the server's stderr, at most 8 KiB.
    ///
    /// It first reads what is available. Invalid UTF-8 becomes U+FFFD. White space at the end, and a line whose
    /// beginning was discarded, are removed. Control characters are kept: escape them before showing the text.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        self.drain();
        self.lock_tail().to_text()
    }

    fn lock_tail(&self) -> MutexGuard<'_, StderrTail> {
        self.shared.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
impl CapturedStderr {
    pub(super) fn new(pipe: ChildStderr, handler: Option<StderrLineHandler>) -> io::Result<Self> {
        // This process holds the only reading end, so its flags affect no other process.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self {
            shared: Arc::new(CapturedStderrInner { pipe, tail: StderrTail::with_line_handler(handler) }),
        })
    }

    /// Reads what is available, at most 1 MiB, without waiting; returns `false` once the pipe has ended.
    ///
    /// Call it when the handle (`AsFd`) is readable.
    pub fn drain(&self) -> bool {
        let mut buf = [0; 8 * 1024];
        for _ in 0..MAX_DRAIN_BYTES / buf.len() {
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.shared.pipe, &mut buf)) {
                Ok(0) => {
                    self.lock_tail().end_line();
                    return false;
                }
                Ok(n) => self.lock_tail().push(&buf[..n]),
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for CapturedStderr {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.shared.pipe.as_fd()
    }
}

#[cfg(not(unix))]
impl CapturedStderr {
    /// Starts the reading thread, which ends with the pipe.
    pub(super) fn new(mut pipe: ChildStderr, handler: Option<StderrLineHandler>) -> io::Result<Self> {
        let captured =
            Self { shared: Arc::new(CapturedStderrInner { tail: StderrTail::with_line_handler(handler) }) };
        let reader = captured.clone();
        std::thread::Builder::new().name("mcp-std stderr".into()).spawn(move || {
            let mut buf = [0; 8 * 1024];
            while let Ok(n @ 1..) = crate::io::retry_on_interrupt(|| io::Read::read(&mut pipe, &mut buf)) {
                reader.lock_tail().push(&buf[..n]);
            }
            reader.lock_tail().end_line();
        })?;
        Ok(captured)
    }

    /// Does nothing on this platform, as a thread reads the pipe; returns `true`.
    pub fn drain(&self) -> bool {
        true
    }
}

/// The last bytes of a stream. Invariants: `bytes.len() <= MAX_TAIL_BYTES`, `partial_line.len() < MAX_LINE_BYTES`.
#[derive(Debug, Default)]
struct StderrTail {
    bytes: VecDeque<u8>,
    /// Whether bytes were discarded in front of `bytes`.
    truncated: bool,
    /// Receiver of each line.
    line_handler: Option<StderrLineHandler>,
    /// Beginning of a line that has not been delivered.
    partial_line: Vec<u8>,
}

impl StderrTail {
    fn with_line_handler(handler: Option<StderrLineHandler>) -> Mutex<Self> {
        Mutex::new(Self { line_handler: handler, ..Self::default() })
    }

    fn push(&mut self, new: &[u8]) {
        let delivered = if self.line_handler.is_some() { new } else { &[] };
        for piece in delivered.split_inclusive(|byte| *byte == b'\n') {
            let (whole, piece) = match piece.strip_suffix(b"\n") {
                Some(piece) => (true, piece),
                None => (false, piece),
            };
            for &byte in piece {
                self.partial_line.push(byte);
                // A line without an end must not make the buffer grow.
                if self.partial_line.len() >= MAX_LINE_BYTES {
                    self.end_line();
                }
            }
            if whole {
                self.end_line();
            }
        }
        let kept = &new[new.len().saturating_sub(MAX_TAIL_BYTES)..];
        let excess = (self.bytes.len() + kept.len()).saturating_sub(MAX_TAIL_BYTES);
        self.truncated |= excess > 0 || kept.len() < new.len();
        self.bytes.drain(..excess);
        self.bytes.extend(kept);
    }

    fn end_line(&mut self) {
        let line = core::mem::take(&mut self.partial_line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if let (Some(handler), false) = (&self.line_handler, line.is_empty()) {
            (handler.0)(&String::from_utf8_lossy(line));
        }
    }

    fn to_text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let mut kept = bytes.trim_ascii_end();
        if self.truncated {
            // Drops the truncated first line, unless it is the only one.
            let whole = kept.iter().position(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
            kept = &kept[whole..];
        }
        String::from_utf8_lossy(kept).into_owned()
    }
}

/// Bytes of stderr that are kept.
const MAX_TAIL_BYTES: usize = 8 * 1024;
/// Bytes of a line that are delivered at once.
const MAX_LINE_BYTES: usize = 4 * 1024;
/// Bytes of one drain: more than a pipe holds, few enough to return soon during a flood.
#[cfg(unix)]
const MAX_DRAIN_BYTES: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_handler_gets_each_line_when_it_is_read() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&seen);
        let handler = StderrLineHandler(Arc::new(move |line: &str| {
            shown.lock().unwrap().push(line.to_owned());
        }));
        let tail = StderrTail::with_line_handler(Some(handler));
        let mut tail = tail.lock().unwrap();
        tail.push(b"a\r\n\nb");
        tail.push(b"c\nd");
        assert_eq!(*seen.lock().unwrap(), ["a", "bc"]);
        tail.end_line();
        tail.push(&[b'x'; MAX_LINE_BYTES + 1]);
        assert_eq!(seen.lock().unwrap()[2..], ["d".to_owned(), "x".repeat(MAX_LINE_BYTES)]);
        assert_eq!(tail.partial_line.len(), 1);
    }

    #[test]
    fn stderr_tail_keeps_the_last_bytes() {
        let mut tail = StderrTail::default();
        tail.push(b"first\nsecond \xff\n\n");
        assert_eq!(tail.to_text(), "first\nsecond \u{fffd}");
        tail.push(&[b'x'; MAX_TAIL_BYTES]);
        tail.push(b"\nlast\n");
        assert_eq!(tail.to_text(), "last");
        assert_eq!(tail.bytes.len(), MAX_TAIL_BYTES);
        tail.push(&[b'y'; 3 * MAX_TAIL_BYTES]);
        assert_eq!(tail.to_text(), "y".repeat(MAX_TAIL_BYTES));
    }
}
