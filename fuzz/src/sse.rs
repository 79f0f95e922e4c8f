//! Fuzz target for event streams, compared with a plain implementation of the standard, and for their encoder.

use core::time::Duration;

use bytes::Bytes;
use mcp_proto::frame::sse::{
    EVENT_END, EventHead, MAX_FIELD, SseDecoder, SseItem, write_comment, write_event,
};

use super::input::{Chunking, FuzzInput};

/// An event: its type, its data or the length of oversized data, and the last event id after it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SseEventTrace {
    kind: Vec<u8>,
    data: Result<Vec<u8>, u64>,
    id: Vec<u8>,
}

/// Everything that a stream contains.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct SseStreamTrace {
    events: Vec<SseEventTrace>,
    id: Vec<u8>,
    retry: Option<Duration>,
    cut: bool,
}

/// Decodes an arbitrary stream, or encodes and decodes one, and checks the invariants.
///
/// - The events do not depend on how the stream is cut, and agree with the reference implementation.
/// - At most one event is buffered.
/// - Encoded events are decoded to equal ones.
pub fn sse(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let max = choices.below(96);
    let cuts = Chunking::all(choices.byte());
    if choices.boolean() {
        check_written(choices, &cuts);
        return;
    }
    let input = choices.rest();
    let want = parse_reference(input, max);
    for cut in cuts {
        for owned in [false, true] {
            assert_eq!(read(input, max, cut, owned), want, "{cut:?}, owned {owned}");
        }
    }
}

fn read(input: &[u8], max: usize, cut: Chunking, owned: bool) -> SseStreamTrace {
    let mut decoder = SseDecoder::new(max);
    let mut whole = SseStreamTrace::default();
    for piece in cut.pieces(input) {
        if owned {
            decoder.push_owned(Bytes::copy_from_slice(piece));
        } else {
            decoder.push(piece);
        }
        while let Some(found) = decoder.next_event() {
            let (kind, data) = match found {
                SseItem::Event(event) => (event.kind, Ok(event.data.to_vec())),
                SseItem::TooLong { kind, oversize } => (kind, Err(oversize.length)),
            };
            let kind = kind.map_or_else(|| b"message".to_vec(), |k| k.to_vec());
            whole.events.push(SseEventTrace { kind, data, id: decoder.last_event_id().to_vec() });
        }
        assert!(decoder.buffered() <= max + MAX_FIELD + 1024 + 64, "{} bytes buffered", decoder.buffered());
        decoder.trim();
    }
    assert_eq!(decoder.unusable_ids(), 0, "the input has no room for one");
    whole.id = decoder.last_event_id().to_vec();
    whole.retry = decoder.retry();
    whole.cut = decoder.finish();
    assert_eq!(decoder.buffered(), 0);
    whole
}

/// Decodes a stream by the algorithm of the standard, all lines at once; no line exceeds [`MAX_FIELD`] here.
fn parse_reference(input: &[u8], max: usize) -> SseStreamTrace {
    assert!(input.len() <= MAX_FIELD);
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut lines: Vec<Vec<u8>> = [Vec::new()].into();
    let mut bytes = input.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => lines.push(Vec::new()),
            b'\r' => {
                bytes.next_if_eq(&&b'\n');
                lines.push(Vec::new());
            }
            byte => lines.last_mut().expect("there is one").push(*byte),
        }
    }
    let rest = lines.pop().expect("there is one");
    let mut whole = SseStreamTrace::default();
    let (mut data, mut kind, mut id) = (None::<Vec<u8>>, None::<Vec<u8>>, None::<Vec<u8>>);
    for line in lines {
        if line.is_empty() {
            whole.id = id.take().unwrap_or(whole.id);
            let kind = kind.take().filter(|k| !k.is_empty()).unwrap_or_else(|| b"message".to_vec());
            if let Some(data) = data.take().filter(|d| !d.is_empty()) {
                let data = if data.len() > max { Err(data.len() as u64) } else { Ok(data) };
                whole.events.push(SseEventTrace { kind, data, id: whole.id.clone() });
            }
            continue;
        }
        let (name, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&line[..], &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            b"event" => kind = Some(value.to_vec()),
            b"id" if !value.contains(&0) => id = Some(value.to_vec()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = core::str::from_utf8(value).expect("digits");
                whole.retry = Some(Duration::from_millis(digits.parse().unwrap_or(u64::MAX)));
            }
            _ => {}
        }
    }
    // An `event` field without a value, or with the default type, leaves no type behind.
    let kind = kind.is_some_and(|k| !k.is_empty() && k != b"message");
    whole.cut = data.is_some() || kind || id.is_some() || !matches!(&rest[..], [] | [b':', ..]);
    whole
}

fn check_written(mut choices: FuzzInput<'_>, cuts: &[Chunking]) {
    let (mut stream, mut want) = (Vec::new(), SseStreamTrace::default());
    while !choices.is_empty() {
        let what = choices.byte();
        let mut text = || {
            let length = choices.below(12);
            String::from_utf8_lossy(choices.take(length)).into_owned()
        };
        let (kind, id, data) = (text(), text(), text());
        if what & 8 != 0 {
            write_comment(&mut stream, &data);
        }
        let retry = (what & 1 != 0).then(|| Duration::from_millis(u64::from(what)));
        let head =
            EventHead { kind: (what & 2 != 0).then_some(&*kind), id: (what & 4 != 0).then_some(&*id), retry };
        let before = stream.len();
        let breaks = |text: Option<&str>| text.is_some_and(|t| t.contains(['\n', '\r', '\0']));
        let fits = !breaks(head.kind) && !breaks(head.id);
        if what & 16 != 0 && !data.contains(['\n', '\r']) {
            assert_eq!(head.begin(&mut stream).is_ok(), fits);
            if fits {
                stream.extend_from_slice(data.as_bytes());
                stream.extend_from_slice(EVENT_END);
            }
        } else {
            assert_eq!(write_event(&mut stream, &head, data.as_bytes()).is_ok(), fits);
        }
        if !fits {
            assert_eq!(stream.len(), before, "partial event written");
            continue;
        }
        want.id = head.id.map_or(want.id, |id| id.as_bytes().to_vec());
        want.retry = retry.or(want.retry);
        let data = data.replace("\r\n", "\n").replace('\r', "\n");
        if !data.is_empty() {
            let kind = head.kind.filter(|k| !k.is_empty()).unwrap_or("message").as_bytes().to_vec();
            want.events.push(SseEventTrace { kind, data: Ok(data.into_bytes()), id: want.id.clone() });
        }
    }
    for cut in cuts {
        assert_eq!(read(&stream, 1 << 10, *cut, false), want, "{cut:?}");
    }
}
