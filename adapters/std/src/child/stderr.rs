//! The last words of a server: a bounded tail of its stderr

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::io;
use std::process::ChildStderr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::StderrLines;

/// A server's captured stderr: what came last is kept, the rest is read and forgotten
///
/// Clones share one tail. Only adapters with a loop of their own need this type; [`ChildIo`](super::ChildIo)
/// reads it along.
#[derive(Debug, Clone)]
pub struct CapturedStderr {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    #[cfg(unix)]
    pipe: ChildStderr,
    tail: Mutex<Tail>,
}

impl CapturedStderr {
    /// The end of what the server wrote to stderr, at most 8 KiB of it
    ///
    /// Reads what is there first. Bytes that are no UTF-8 become U+FFFD, white space at the end goes, and so
    /// does a line whose beginning was forgotten. Control characters are left in: escape them before showing
    /// them.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.drain();
        self.tail().to_text()
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.shared.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
impl CapturedStderr {
    pub(super) fn new(pipe: ChildStderr, lines: Option<StderrLines>) -> io::Result<Self> {
        // The reading end is ours alone, so its flags are too.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { shared: Arc::new(Shared { pipe, tail: Tail::shown_to(lines) }) })
    }

    /// Reads what is there now, at most 1 MiB, without waiting; false once the pipe has ended
    ///
    /// To be called when the handle (`AsFd`) is readable.
    pub fn drain(&self) -> bool {
        let mut buf = [0; 8 * 1024];
        for _ in 0..DRAIN / buf.len() {
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.shared.pipe, &mut buf)) {
                Ok(0) => {
                    self.tail().end_line();
                    return false;
                }
                Ok(n) => self.tail().push(&buf[..n]),
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
    /// Starts the thread that reads; it ends with the pipe
    pub(super) fn new(mut pipe: ChildStderr, lines: Option<StderrLines>) -> io::Result<Self> {
        let captured = Self { shared: Arc::new(Shared { tail: Tail::shown_to(lines) }) };
        let reader = captured.clone();
        std::thread::Builder::new().name("mcp-std stderr".into()).spawn(move || {
            let mut buf = [0; 8 * 1024];
            while let Ok(n @ 1..) = crate::duplex::uninterrupted(|| io::Read::read(&mut pipe, &mut buf)) {
                reader.tail().push(&buf[..n]);
            }
            reader.tail().end_line();
        })?;
        Ok(captured)
    }

    /// Does nothing here, as a thread reads the pipe; true
    pub fn drain(&self) -> bool {
        true
    }
}

/// The last bytes of a stream; `bytes.len() <= KEPT`
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// Something was dropped in front of `bytes`
    cut: bool,
    /// Who is shown each line
    lines: Option<StderrLines>,
    /// The beginning of a line that has not been shown; `line.len() < LINE`
    line: Vec<u8>,
}

impl Tail {
    fn shown_to(lines: Option<StderrLines>) -> Mutex<Self> {
        Mutex::new(Self { lines, ..Self::default() })
    }

    fn push(&mut self, new: &[u8]) {
        let shown = if self.lines.is_some() { new } else { &[] };
        for piece in shown.split_inclusive(|byte| *byte == b'\n') {
            let (whole, piece) = match piece.strip_suffix(b"\n") {
                Some(piece) => (true, piece),
                None => (false, piece),
            };
            for &byte in piece {
                self.line.push(byte);
                if self.line.len() >= LINE {
                    self.end_line();
                }
            }
            if whole {
                self.end_line();
            }
        }
        let kept = &new[new.len().saturating_sub(KEPT)..];
        let excess = (self.bytes.len() + kept.len()).saturating_sub(KEPT);
        self.cut |= excess > 0 || kept.len() < new.len();
        self.bytes.drain(..excess);
        self.bytes.extend(kept);
    }

    fn end_line(&mut self) {
        let line = core::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if let (Some(lines), false) = (&self.lines, line.is_empty()) {
            (lines.0)(&String::from_utf8_lossy(line));
        }
    }

    fn to_text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let mut kept = bytes.trim_ascii_end();
        if self.cut {
            // One endless line is better shown without its beginning than not at all.
            let whole = kept.iter().position(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
            kept = &kept[whole..];
        }
        String::from_utf8_lossy(kept).into_owned()
    }
}

/// Bytes of stderr that are kept
const KEPT: usize = 8 * 1024;
/// Bytes of a line that are shown at once
const LINE: usize = 4 * 1024;
/// Bytes read in one go: more than a pipe holds, little enough to come back soon from a flood
#[cfg(unix)]
const DRAIN: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_as_they_come() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&seen);
        let lines = StderrLines(Arc::new(move |line: &str| {
            shown.lock().unwrap().push(line.to_owned());
        }));
        let tail = Tail::shown_to(Some(lines));
        let mut tail = tail.lock().unwrap();
        tail.push(b"a\r\n\nb");
        tail.push(b"c\nd");
        assert_eq!(*seen.lock().unwrap(), ["a", "bc"]);
        tail.end_line();
        tail.push(&[b'x'; LINE + 1]);
        assert_eq!(seen.lock().unwrap()[2..], ["d".to_owned(), "x".repeat(LINE)]);
        assert_eq!(tail.line.len(), 1);
    }

    #[test]
    fn keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(b"first\nsecond \xff\n\n");
        assert_eq!(tail.to_text(), "first\nsecond \u{fffd}");
        tail.push(&[b'x'; KEPT]);
        tail.push(b"\nlast\n");
        assert_eq!(tail.to_text(), "last");
        assert_eq!(tail.bytes.len(), KEPT);
        tail.push(&[b'y'; 3 * KEPT]);
        assert_eq!(tail.to_text(), "y".repeat(KEPT));
    }
}
