//! Reading of event streams.

use core::hint::black_box;

use mcp_proto::frame::sse::{SseDecoder, SseItem};

use super::{Scenario, TEXT};

/// Number of events of a stream of small events.
const EVENTS: usize = 1_000;

/// A stream and the size of the pieces in which it is read.
#[derive(Debug)]
struct EventInput {
    bytes: Vec<u8>,
    events: usize,
    piece: usize,
}

impl EventInput {
    /// Returns `small-whole`, `small-1460`, `line-7` or `lines-7`: a thousand events, or one with a line of 1 or 2 MB.
    fn by_name(name: &str) -> Option<Self> {
        let (what, piece) = name.split_once('-')?;
        let mut bytes = String::new();
        let events = match what {
            "small" => EVENTS,
            "line" | "lines" => 1,
            _ => return None,
        };
        for id in 0..events {
            let text = "x".repeat(match what {
                "line" => 1_000_000,
                "lines" => 2_000_000,
                _ => TEXT,
            });
            bytes += &format!(
                "event: message\nid: {id}\ndata: {{\"jsonrpc\":\"2.0\",\"id\":12345,\"result\":\
                 {{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"isError\":false}}}}\n\n"
            );
        }
        let piece = if piece == "whole" { bytes.len() } else { piece.parse().ok()? };
        Some(Self { bytes: bytes.into(), events, piece })
    }
}

/// Our reader of event streams; one `run_once` reads a whole stream.
#[derive(Debug)]
pub struct ReadEvents(EventInput);

impl ReadEvents {
    /// Returns the scenario of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        EventInput::by_name(name).map(Self)
    }

    /// Returns the length of the stream in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.bytes.len()
    }
}

impl Scenario for ReadEvents {
    fn run_once(&mut self) {
        let mut decoder = SseDecoder::new(16 << 20);
        let mut events = 0;
        for piece in self.0.bytes.chunks(self.0.piece) {
            decoder.push(black_box(piece));
            while let Some(found) = decoder.next_event() {
                assert!(matches!(black_box(found), SseItem::Event(_)));
                events += 1;
            }
        }
        assert_eq!(events, self.0.events);
    }
}

/// The reader of the floor: lines in one growing buffer, of which only data lines are used.
#[derive(Debug)]
pub struct FloorReadEvents(EventInput);

impl FloorReadEvents {
    /// Returns the scenario of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        EventInput::by_name(name).map(Self)
    }
}

impl Scenario for FloorReadEvents {
    fn run_once(&mut self) {
        let (mut buf, mut data): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
        let (mut events, mut seen) = (0, 0);
        for piece in self.0.bytes.chunks(self.0.piece) {
            buf.extend_from_slice(black_box(piece));
            let mut start = 0;
            while let Some(at) = memchr::memchr(b'\n', &buf[seen..]) {
                let line = &buf[start..seen + at];
                if line.is_empty() {
                    black_box(core::str::from_utf8(&data)).expect("UTF-8");
                    events += usize::from(!data.is_empty());
                    data.clear();
                } else if let Some(value) = line.strip_prefix(b"data:") {
                    data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                }
                seen += at + 1;
                start = seen;
            }
            if start > 0 {
                buf.drain(..start);
            }
            seen = buf.len();
        }
        assert_eq!(events, self.0.events);
    }
}
