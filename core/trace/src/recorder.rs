//! The recorder: bytes of both sides in, lines of a trace out.

use core::fmt;
use std::io::{self, Write};

use memchr::memchr;

use crate::mask::Mask;
use crate::record::{Content, Cut, Header, Line, MAX_CUTS, Record, Side, Text};

/// Longest line that is recorded, in bytes. Of a longer one only the length is.
pub const MAX_LINE: usize = 16 << 20;
/// Writes a trace while bytes pass.
///
/// It takes what passes in whatever pieces it comes, finds the lines, masks secrets, and writes each line with the times of its
/// reads once it is complete. Nothing here fails: a writer that does ends the recording ([`failure`](Self::failure)), and what
/// is recorded goes on.
pub struct Recorder<W> {
    out: W,
    mask: Mask,
    client: Partial,
    server: Partial,
    /// Bytes that may still be written.
    room: u64,
    lost: u64,
    failure: Option<io::Error>,
    is_full: bool,
    buffer: Vec<u8>,
}

/// Shows nothing that was recorded: what is not masked yet may be secret.
impl<W> fmt::Debug for Recorder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("failure", &self.failure).finish_non_exhaustive()
    }
}

/// The line of one side that is not complete yet.
#[derive(Debug, Default)]
struct Partial {
    at: u64,
    bytes: Vec<u8>,
    /// Length, also of what is not kept.
    length: u64,
    cuts: Vec<Cut>,
    joined: bool,
}

impl<W: Write> Recorder<W> {
    /// Begins a trace of at most `max_bytes` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the header cannot be written.
    pub fn new(out: W, mut header: Header, mask: Mask, max_bytes: u64) -> io::Result<Self> {
        header.masked = mask.is_active();
        header.command = mask.command(&header.command);
        let (client, server) = (Partial::default(), Partial::default());
        let mut recorder = Self {
            out,
            mask,
            client,
            server,
            room: max_bytes,
            lost: 0,
            failure: None,
            is_full: false,
            buffer: Vec::new(),
        };
        recorder.write(&header);
        match recorder.failure.take() {
            None => Ok(recorder),
            Some(error) => Err(error),
        }
    }

    /// Takes bytes that have passed, at `at` microseconds since the beginning, as one read returned them.
    pub fn bytes(&mut self, at: u64, from: Side, mut bytes: &[u8]) {
        let mut joined = false;
        while !bytes.is_empty() {
            let newline = memchr(b'\n', bytes);
            let (part, rest) = match newline {
                Some(newline) => (bytes.get(..newline), bytes.get(newline + 1..)),
                None => (Some(bytes), None),
            };
            let partial = self.partial(from);
            partial.push(at, part.unwrap_or_default(), joined);
            if newline.is_some() {
                self.end_line(from, false);
                joined = true;
            }
            bytes = rest.unwrap_or_default();
        }
    }

    /// Records the head of an HTTP message: its first line and its fields, separated by newlines.
    ///
    /// Values of fields whose name suggests a secret are masked, and so are those of the query.
    pub fn head(&mut self, at: u64, from: Side, exchange: u64, head: &str) {
        let head = self.mask.head(head);
        self.record(&Record::new(at, from, Content::Head(head)).exchange(exchange));
    }

    /// Records a body of an HTTP message, or the data of an event with its other fields.
    pub fn body(&mut self, at: u64, from: Side, exchange: u64, body: &[u8], event: Option<String>) {
        let text = match body.len() > MAX_LINE {
            true => Text::Omitted(body.len() as u64),
            false => Text::new(&self.mask.message(body).text),
        };
        let event = event.map(|event| self.mask.words(&event));
        let line = Line { event, ..Line::new(text) };
        self.record(&Record::new(at, from, Content::Line(line)).exchange(exchange));
    }

    /// Records that a body, or an event, was too long to be kept.
    pub fn omitted(&mut self, at: u64, from: Side, exchange: u64, bytes: u64) {
        let line = Line::new(Text::Omitted(bytes));
        self.record(&Record::new(at, from, Content::Line(line)).exchange(exchange));
    }

    /// Records the end of what one side says in an exchange, and how it ended.
    pub fn exchange_end(&mut self, at: u64, from: Side, exchange: u64, how: &str) {
        self.record(&Record::new(at, from, Content::End(self.mask.words(how))).exchange(exchange));
    }

    /// Records a line that the server wrote to stderr.
    pub fn stderr(&mut self, at: u64, line: &str) {
        let line = self.mask.message(line.as_bytes());
        let line = String::from_utf8_lossy(&line.text).into_owned();
        self.record(&Record::new(at, Side::Server, Content::Stderr(line)));
    }

    /// Records the end of the stream from one side, and how it ended.
    pub fn end(&mut self, at: u64, from: Side, how: &str) {
        if self.partial(from).length > 0 {
            self.end_line(from, true);
        }
        self.record(&Record::new(at, from, Content::End(self.mask.words(how))));
    }

    /// Returns the error that has ended the recording, once.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns whether the recording has ended because the trace is as long as it may be.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the number of bytes that were not recorded because the recording has ended.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes what is left: lines without an end.
    pub fn finish(mut self) -> W {
        for from in [Side::Client, Side::Server] {
            if self.partial(from).length > 0 {
                self.end_line(from, true);
            }
        }
        self.out
    }

    const fn partial(&mut self, from: Side) -> &mut Partial {
        match from {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn end_line(&mut self, from: Side, open: bool) {
        let partial = core::mem::take(self.partial(from));
        let Partial { at, mut bytes, length, mut cuts, joined } = partial;
        let text = if length > bytes.len() as u64 {
            cuts.clear();
            Text::Omitted(length)
        } else {
            let masked = self.mask.message(&bytes);
            for cut in &mut cuts {
                cut.offset = masked.place(cut.offset);
            }
            Text::new(&masked.text)
        };
        self.record(&Record::new(at, from, Content::Line(Line { text, cuts, joined, open, event: None })));
        // Its memory is for the next line, unless it is much.
        bytes.clear();
        bytes.shrink_to(1 << 16);
        self.partial(from).bytes = bytes;
    }

    fn record(&mut self, record: &Record) {
        if !self.is_full {
            self.write(record);
        }
        // Also what the last line had no room for.
        if self.is_full {
            self.lost += length(record);
        }
    }

    /// Writes one line of the trace at once, so that it is there if this process is killed.
    fn write(&mut self, line: &impl serde::Serialize) {
        self.buffer.clear();
        if serde_json::to_writer(&mut self.buffer, line).is_err() {
            return;
        }
        self.buffer.push(b'\n');
        let length = self.buffer.len() as u64;
        if length > self.room {
            self.is_full = true;
            return;
        }
        self.room -= length;
        if let Err(error) = self.out.write_all(&self.buffer).and_then(|()| self.out.flush()) {
            self.failure = Some(error);
            // No further line may follow the half of one.
            self.is_full = true;
        }
        self.buffer.shrink_to(1 << 16);
    }
}

/// Returns the number of bytes of a record that count as lost.
fn length(record: &Record) -> u64 {
    match &record.content {
        Content::Line(Line { text: Text::Omitted(bytes), .. }) => *bytes,
        Content::Line(Line { text: Text::Utf8(text) | Text::Base64(text), .. })
        | Content::Head(text)
        | Content::Stderr(text) => text.len() as u64,
        Content::End(_) | Content::Lost(_) => 0,
    }
}

impl Partial {
    fn push(&mut self, at: u64, part: &[u8], joined: bool) {
        if self.length == 0 {
            (self.at, self.joined) = (at, joined);
        } else if self.cuts.len() < MAX_CUTS {
            self.cuts.push(Cut { offset: self.bytes.len(), at });
        }
        self.length += part.len() as u64;
        if self.length <= MAX_LINE as u64 {
            self.bytes.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    fn recorder(max: u64) -> Recorder<Vec<u8>> {
        let header = Header::new("test 1", 0).command(["server", "ghp_0123456789012345678901"]);
        Recorder::new(Vec::new(), header, Mask::default(), max).expect("memory")
    }

    fn records(trace: &[u8]) -> Vec<String> {
        let text = core::str::from_utf8(trace).expect("UTF-8");
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_recorded_with_the_cuts_of_their_reads() {
        let mut recorder = recorder(1 << 20);
        recorder.bytes(5, Side::Client, b"{\"a\":1}\n{\"b\"");
        recorder.bytes(6, Side::Server, b"{}\n");
        recorder.bytes(7, Side::Client, b":2}");
        recorder.bytes(8, Side::Client, b"\n\n");
        recorder.end(9, Side::Server, "exit code 0");
        recorder.bytes(10, Side::Client, b"rest");
        let want = [
            r#"{"t":5,"from":"client","line":"{\"a\":1}"}"#,
            r#"{"t":6,"from":"server","line":"{}"}"#,
            r#"{"t":5,"from":"client","line":"{\"b\":2}","cuts":[[4,7],[7,8]],"joined":true}"#,
            r#"{"t":8,"from":"client","line":"","joined":true}"#,
            r#"{"t":9,"from":"server","end":"exit code 0"}"#,
            r#"{"t":10,"from":"client","line":"rest","open":true}"#,
        ];
        assert_eq!(records(&recorder.finish()), want);
    }

    /// Every cut of the input gives the same lines.
    #[test]
    fn lines_do_not_depend_on_the_cuts() {
        let input = b"{\"a\":\"\xc3\xa4\"}\r\n\n{\"password\":\"x\"}\nlast";
        let lines = |first: usize, second: usize| {
            let mut recorder = recorder(1 << 20);
            for part in [&input[..first], &input[first..second], &input[second..]] {
                recorder.bytes(1, Side::Server, part);
            }
            let trace = Trace::read(&*recorder.finish(), u64::MAX).expect("a trace");
            let texts = trace.records.iter().map(|record| match &record.content {
                Content::Line(line) => (line.text.clone(), line.open),
                other => panic!("{other:?}"),
            });
            texts.collect::<Vec<_>>()
        };
        let want = lines(0, input.len());
        assert_eq!(want.len(), 4);
        for first in 0..=input.len() {
            for second in first..=input.len() {
                assert_eq!(lines(first, second), want, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_full_trace_ends_with_a_whole_line_and_what_is_lost_is_counted() {
        let mut recorder = recorder(150);
        for _ in 0..5 {
            recorder.bytes(1, Side::Client, b"0123456789\n");
        }
        assert!(recorder.is_full() && recorder.failure().is_none());
        let lost = recorder.lost();
        let out = recorder.finish();
        assert!(out.len() <= 150 && out.ends_with(b"\n"), "{}", out.len());
        let kept = records(&out).len() as u64;
        assert!(kept > 0 && kept + lost / 10 == 5, "{kept} {lost}");
    }

    /// A disk with room for the header alone.
    #[test]
    fn a_writer_that_fails_ends_the_recording_and_says_so_once() {
        #[derive(Debug)]
        struct Disk(usize);
        impl Write for Disk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut recorder =
            Recorder::new(Disk(100), Header::new("test 1", 0), Mask::default(), u64::MAX).expect("room");
        recorder.bytes(1, Side::Client, &[b'x'; 200]);
        recorder.bytes(1, Side::Client, b"\n");
        assert_eq!(recorder.failure().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        recorder.bytes(2, Side::Client, b"lost\n");
        assert!(recorder.failure().is_none());
        assert!(recorder.lost() > 0);
        Recorder::new(Disk(10), Header::new("test 1", 0), Mask::default(), u64::MAX).expect_err("no room");
    }

    #[test]
    fn a_line_that_is_too_long_is_recorded_by_its_length() {
        let mut recorder = recorder(u64::MAX);
        for _ in 0..=(MAX_LINE >> 20) {
            recorder.bytes(1, Side::Server, &vec![b'x'; 1 << 20]);
        }
        recorder.bytes(2, Side::Server, b"\n{}\n");
        let want = [
            format!(r#"{{"t":1,"from":"server","omitted":{}}}"#, MAX_LINE + (1 << 20)),
            r#"{"t":2,"from":"server","line":"{}","joined":true}"#.to_owned(),
        ];
        assert_eq!(records(&recorder.finish()), want);
    }

    #[test]
    fn exchanges_are_recorded_by_heads_bodies_and_events() {
        let mut recorder = recorder(1 << 20);
        let head = "POST /mcp?token=abc&x=1 HTTP/1.1\nHost: h\nAuthorization: Bearer abc\nMcp-Session-Id: s1";
        recorder.head(1, Side::Client, 7, head);
        recorder.body(2, Side::Client, 7, br#"{"password":"x"}"#, None);
        recorder.body(3, Side::Server, 7, b"{}", Some("id: 4".into()));
        recorder.exchange_end(4, Side::Server, 7, "complete");
        let want = [
            r#"{"t":1,"from":"client","exchange":7,"head":"POST /mcp?token=[masked]&x=1 HTTP/1.1\nHost: h\nAuthorization: [masked]\nMcp-Session-Id: [masked]"}"#,
            r#"{"t":2,"from":"client","exchange":7,"line":"{\"password\":\"[masked]\"}"}"#,
            r#"{"t":3,"from":"server","exchange":7,"line":"{}","event":"id: 4"}"#,
            r#"{"t":4,"from":"server","exchange":7,"end":"complete"}"#,
        ];
        assert_eq!(records(&recorder.finish()), want);
    }

    #[test]
    fn secrets_are_not_recorded_even_if_a_read_cuts_them() {
        let mut recorder = recorder(1 << 20);
        recorder.bytes(1, Side::Client, b"{\"token\":\"abc");
        recorder.bytes(2, Side::Client, b"def\",\"x\":1");
        recorder.bytes(3, Side::Client, b"}\n");
        recorder.stderr(4, "Bearer abcdefghijkl");
        let out = recorder.finish();
        assert!(!String::from_utf8_lossy(&out).contains("ghp_"));
        let want = [
            r#"{"t":1,"from":"client","line":"{\"token\":\"[masked]\",\"x\":1}","cuts":[[10,2],[25,3]]}"#,
            r#"{"t":4,"from":"server","stderr":"Bearer [masked]"}"#,
        ];
        assert_eq!(records(&out), want);
    }
}
