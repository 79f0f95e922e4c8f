//! Lines and event streams, beside plain splitters by STDIO-002 and the WHATWG HTML standard.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::{for_each_str, pieces};
use crate::frame::line::{Line, LineDecoder};
use crate::frame::sse::{EVENT_END, EventHead, SseDecoder, SseItem, write_comment, write_event};
use crate::testing::{exhaustive, for_each_cut, for_each_sequence, for_each_text};

/// A line, or the length of one that is too long.
type Split = Vec<Result<Vec<u8>, u64>>;

/// Splits at every line feed; a line ends before one carriage return. The rest is returned, too.
fn split(text: &[u8], max: usize) -> (Split, usize) {
    let mut lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
    let rest = lines.pop().expect("at least one").len();
    let line = |line: &[u8]| {
        let content = line.strip_suffix(b"\r").unwrap_or(line);
        if content.len() <= max { Ok(content.to_owned()) } else { Err(line.len() as u64) }
    };
    (lines.into_iter().map(line).collect(), rest)
}

/// Decodes pieces; `owned` says which of them, as bits, are passed as shared bytes.
fn decode<'p>(pieces: impl IntoIterator<Item = &'p [u8]>, max: usize, owned: usize) -> (Split, usize) {
    let (mut decoder, mut found) = (LineDecoder::new(max), Vec::new());
    for (n, piece) in pieces.into_iter().enumerate() {
        if owned >> n & 1 == 1 {
            decoder.push_owned(Bytes::copy_from_slice(piece))
        } else {
            decoder.push(piece)
        }
        while let Some(line) = decoder.next_line() {
            found.push(match line {
                Line::Frame(frame) => Ok(frame.to_vec()),
                Line::TooLong(oversize) => Err(oversize.length),
            });
        }
        assert!(decoder.buffered() <= max.saturating_add(piece.len().max(1)), "{} bytes", decoder.buffered());
    }
    (found, decoder.partial())
}

const LINE_BYTES: [&[u8]; 4] = [b"a", b"\r", b"\n", b"\""];

#[test]
fn exhaustive_lines_are_the_same_for_every_cut() {
    exhaustive(
        "lines: split at line feeds alone, for every text and every cut of it",
        "texts of 4 bytes with all their cuts, up to a length of",
        [5, 6, 8],
        |longest| {
            let mut count = 0;
            for_each_text(&LINE_BYTES, longest, |text| {
                let expected = split(text, usize::MAX);
                count += for_each_cut(text.len(), |ends| {
                    assert_eq!(
                        decode(pieces(text, ends), usize::MAX, 0),
                        expected,
                        "{} {ends:?}",
                        text.escape_ascii()
                    );
                });
            });
            count
        },
    );
}

#[test]
fn exhaustive_long_lines_are_skipped_and_not_stored() {
    exhaustive(
        "lines: with each limit the lines within it are kept and the others counted, and no more than limit and piece is stored",
        "texts of 3 bytes with all their cuts and the limits 0 to 3, up to a length of",
        [5, 6, 8],
        |longest| {
            let mut count = 0;
            for_each_text(&LINE_BYTES[..3], longest, |text| {
                for max in 0..=3 {
                    let expected = split(text, max);
                    count += for_each_cut(text.len(), |ends| {
                        assert_eq!(
                            decode(pieces(text, ends), max, 0),
                            expected,
                            "{} {ends:?}",
                            text.escape_ascii()
                        );
                    });
                }
            });
            count
        },
    );
}

#[test]
fn exhaustive_shared_and_copied_input_give_the_same_lines() {
    exhaustive(
        "lines: shared and copied pieces, in every order, give the lines of the whole",
        "texts of 3 bytes as up to 4 pieces of each kind, limits 1 and 9, up to a length of",
        [4, 5, 7],
        |longest| {
            let mut count = 0;
            for_each_text(&LINE_BYTES[..3], longest, |text| {
                for_each_cut(text.len(), |ends| {
                    for owned in (0..1 << (ends.len() + 1)).filter(|_| ends.len() < 4) {
                        for max in [1, 9] {
                            assert_eq!(
                                decode(pieces(text, ends), max, owned),
                                split(text, max),
                                "{} {ends:?}",
                                text.escape_ascii()
                            );
                            count += 1;
                        }
                    }
                });
            });
            count
        },
    );
}

#[test]
fn exhaustive_ids_of_long_lines_are_recovered_for_every_two_cuts() {
    exhaustive(
        "lines: the id of a line beyond the limit is found for every limit and every two cuts",
        "3 messages with each limit in steps of 8 - ",
        [0, 4, 7],
        |finer| {
            let mut count = 0;
            for (message, id) in [
                (r#"{"jsonrpc":"2.0","id":"a\"b","method":"x"}"#, Some(r#""a\"b""#)),
                (r#"{"params":{"id":8,"a":["}"]}, "id" : 12 }"#, Some("12")),
                (r#"{"params":{"id":8},"method":"}\n","a":[]}"#, None),
            ] {
                let text = format!("{message}\r\nnext\n");
                for max in (4..message.len()).step_by(8 - finer) {
                    for first in 0..message.len() {
                        for second in first..message.len() {
                            let mut decoder = LineDecoder::new(max);
                            let mut found = Vec::new();
                            for piece in pieces(text.as_bytes(), &[first, second]) {
                                decoder.push(piece);
                                found.extend(core::iter::from_fn(|| decoder.next_line()));
                            }
                            let [Line::TooLong(long), Line::Frame(next)] = &*found else {
                                panic!("{found:?}")
                            };
                            assert_eq!(
                                long.recovered.id.as_deref(),
                                id.map(str::as_bytes),
                                "{first} {second}"
                            );
                            assert_eq!((long.length, &next[..]), (message.len() as u64 + 1, &b"next"[..]));
                            count += 1;
                        }
                    }
                }
            }
            count
        },
    );
}

/// What a reader knows after a stream: types and data of events, the last id, the retry time.
#[derive(PartialEq, Eq, Debug, Default)]
struct Stream {
    events: Vec<(Vec<u8>, Vec<u8>)>,
    id: Vec<u8>,
    retry: Option<Duration>,
}

/// Reads a stream by 9.2.6 of the standard, except that an event whose data is one empty line is none (SSE-004).
fn interpret(text: &[u8]) -> Stream {
    let mut found = Stream::default();
    let (mut kind, mut data, mut next_id) = (Vec::new(), Vec::new(), None);
    let mut rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    while let Some(at) = rest.iter().position(|b| matches!(b, b'\r' | b'\n')) {
        let line = &rest[..at];
        rest = rest[at..].strip_prefix(b"\r\n").unwrap_or_else(|| &rest[at + 1..]);
        if line.is_empty() {
            found.id = next_id.take().unwrap_or(found.id);
            if data.len() > 1 {
                data.pop();
                found.events.push((kind.clone(), data.clone()));
            }
            kind.clear();
            data.clear();
            continue;
        }
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => kind = if value == b"message" { Vec::new() } else { value.to_owned() },
            b"data" => data.extend(value.iter().copied().chain([b'\n'])),
            b"id" if !value.contains(&0) => next_id = Some(value.to_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = core::str::from_utf8(value).expect("digits");
                found.retry = Some(Duration::from_millis(digits.parse().expect("few digits")));
            }
            _ => {}
        }
    }
    found
}

fn read<'p>(pieces: impl IntoIterator<Item = &'p [u8]>, owned: usize) -> Stream {
    let mut decoder = SseDecoder::new(1 << 10);
    let mut found = Stream::default();
    for (n, piece) in pieces.into_iter().enumerate() {
        if owned >> n & 1 == 1 {
            decoder.push_owned(Bytes::copy_from_slice(piece))
        } else {
            decoder.push(piece)
        }
        while let Some(item) = decoder.next_event() {
            let SseItem::Event(event) = item else { panic!("too long: {item:?}") };
            found.events.push((event.kind.unwrap_or_default().to_vec(), event.data.to_vec()));
        }
    }
    Stream { id: decoder.last_event_id().to_owned(), retry: decoder.retry(), ..found }
}

const LINES: [&str; 11] = [
    "",
    "data: a",
    "data",
    "data:b",
    "id: 1",
    "id",
    "event: x",
    "event:message",
    "retry: 5",
    ": c",
    "datax: d",
];

#[test]
fn exhaustive_event_streams_are_read_as_the_standard_says() {
    exhaustive(
        "event streams: events, last id and retry time are those of the WHATWG algorithm, for each kind of line end",
        "sequences of 11 lines with 3 line ends, up to a length of",
        [4, 4, 6],
        |longest| {
            for_each_sequence(LINES.len(), longest, |sequence| {
                for end in ["\n", "\r", "\r\n"] {
                    let mut text = String::new();
                    sequence.iter().for_each(|line| text.extend([LINES[*line], end]));
                    text.push_str(end);
                    assert_eq!(read([text.as_bytes()], 0), interpret(text.as_bytes()), "{text:?}");
                }
            }) * 3
        },
    );
}

#[test]
fn exhaustive_line_ends_of_event_streams_mix() {
    exhaustive(
        "event streams: lines with line ends of every mixture are read as the standard says",
        "sequences of 15 lines with their line ends, up to a length of",
        [3, 4, 5],
        |longest| {
            let mut lines: Vec<String> = Vec::new();
            for line in ["", "data:a", "data", "id:1", "event:x"] {
                lines.extend(["\n", "\r", "\r\n"].map(|end| format!("{line}{end}")));
            }
            let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
            for_each_str(&lines, longest, |text| {
                assert_eq!(read([text.as_bytes()], 0), interpret(text.as_bytes()), "{text:?}");
            })
        },
    );
}

const SSE_PIECES: [&[u8]; 7] = [b"data:", b"id", b":", b"a", b"\r", b"\n", b"\xef\xbb\xbf"];

#[test]
fn exhaustive_event_streams_are_the_same_for_every_cut() {
    exhaustive(
        "event streams: every text gives the same whole, byte by byte, and cut at each place, shared and copied",
        "texts of 7 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            let mut count = 0;
            for_each_text(&SSE_PIECES, longest, |text| {
                let expected = interpret(text);
                let check = |found: Stream| assert_eq!(found, expected, "{}", text.escape_ascii());
                check(read([text], 0));
                check(read([text], 1));
                check(read(text.chunks(1), 0));
                check(read(text.chunks(1), usize::MAX));
                for at in 1..text.len() {
                    check(read(pieces(text, &[at]), 1));
                    check(read(pieces(text, &[at]), 2));
                    count += 2;
                }
                count += 4;
            });
            count
        },
    );
}

#[test]
fn exhaustive_two_events_are_the_same_for_every_way_to_cut_them() {
    exhaustive(
        "event streams: two events with mixed line ends are the same for every way to cut them",
        "all cuts of a stream, of its last bytes:",
        [13, 16, 22],
        |bytes| {
            let text = b"\xef\xbb\xbfid:7\revent:e\ndata:a\r\ndata:\r\rdata:b\n\r\n:\n";
            let expected = interpret(text);
            assert_eq!(expected.events.len(), 2);
            let begin = text.len() - bytes;
            for_each_cut(bytes, |ends| {
                let mut all = alloc::vec![begin];
                all.extend(ends.iter().map(|end| begin + end));
                assert_eq!(read(pieces(text, &all), 0), expected, "{all:?}");
            })
        },
    );
}

#[test]
fn exhaustive_names_of_fields_are_exact() {
    exhaustive(
        "event streams: of all texts of their letters the four names alone are fields",
        "lines of 9 pieces of names, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&["d", "a", "ta", "i", "even", "t", "retry", ":", " 1"], longest, |line| {
                let text = format!("{line}\ndata:x\n\n");
                assert_eq!(read([text.as_bytes()], 0), interpret(text.as_bytes()), "{text:?}");
            })
        },
    );
}

#[test]
fn exhaustive_values_of_id_and_retry_are_taken_or_ignored() {
    exhaustive(
        "event streams: a retry of digits and an id without NUL are taken, all others ignored",
        "values of 7 characters in both fields, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&["0", "9", "-", " ", "a", "\0", ":"], longest, |value| {
                let text = format!("id:0\nid:{value}\nretry:3\nretry:{value}\n\n");
                assert_eq!(read([text.as_bytes()], 0), interpret(text.as_bytes()), "{text:?}");
            })
        },
    );
}

#[test]
fn exhaustive_long_events_are_skipped_alone() {
    exhaustive(
        "event streams: an event with more data than the limit is counted, all others are as they were, for every cut",
        "3 events of 0 to 4 lines or bytes, limits 1 to 4, cut at each place, of at most so many events:",
        [2, 2, 3],
        |events| {
            const DATA: [&[u8]; 7] = [b"a", b"ab", b"abc", b"abcde", b"a\nb", b"a\nb\nc", b"\n\n"];
            let mut count = 0;
            for_each_sequence(DATA.len(), events, |sequence| {
                let mut text = Vec::new();
                for data in sequence {
                    write_event(&mut text, &EventHead::default(), DATA[*data]).expect("no field");
                }
                for max in 1..=4 {
                    let expected: Vec<Result<&[u8], u64>> = sequence
                        .iter()
                        .map(|data| {
                            if DATA[*data].len() <= max {
                                Ok(DATA[*data])
                            } else {
                                Err(DATA[*data].len() as u64)
                            }
                        })
                        .collect();
                    for at in 0..text.len() {
                        let mut decoder = SseDecoder::new(max);
                        let mut found = Vec::new();
                        for piece in pieces(&text, &[at]) {
                            decoder.push(piece);
                            while let Some(item) = decoder.next_event() {
                                found.push(match item {
                                    SseItem::Event(event) => Ok(event.data),
                                    SseItem::TooLong { oversize, .. } => Err(oversize.length),
                                });
                            }
                        }
                        let found: Vec<Result<&[u8], u64>> =
                            found.iter().map(|item| item.as_deref().map_err(|length| *length)).collect();
                        assert_eq!(found, expected, "{} {at} {max}", text.escape_ascii());
                        count += 1;
                    }
                }
            });
            count
        },
    );
}

#[test]
fn exhaustive_events_are_read_as_they_were_written() {
    exhaustive(
        "event streams: data is read as it was written with its line ends as line feeds, and so are type and id",
        "data of 7 characters with and without fields, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&["a", "\r", "\n", ":", " ", "\u{feff}", "data:"], longest, |data| {
                for head in [
                    EventHead::default(),
                    EventHead { kind: Some(" x:"), id: Some(""), retry: Some(Duration::from_millis(7)) },
                ] {
                    let mut text = Vec::new();
                    write_event(&mut text, &head, data.as_bytes()).expect("no line end");
                    let data = data.replace("\r\n", "\n").replace('\r', "\n");
                    let found = read([&*text], 0);
                    let kind = head.kind.unwrap_or_default().as_bytes().to_owned();
                    let expected =
                        if data.is_empty() { Vec::new() } else { alloc::vec![(kind, data.into_bytes())] };
                    assert_eq!(found, Stream { events: expected, id: Vec::new(), retry: head.retry });
                }
            }) * 2
        },
    );
}

#[test]
fn exhaustive_fields_of_events_cannot_break_out_of_their_line() {
    exhaustive(
        "event streams: a type or an id is refused with a line end or NUL, and read as it was written otherwise",
        "types and ids of 7 characters, up to a length of",
        [3, 4, 5],
        |longest| {
            for_each_str(&["a", "\r", "\n", "\0", ":", " ", "\u{e9}"], longest, |value| {
                let is_written = !value.contains(['\r', '\n', '\0']);
                for head in [
                    EventHead { kind: Some(value), ..EventHead::default() },
                    EventHead { id: Some(value), ..EventHead::default() },
                ] {
                    let mut text = Vec::new();
                    assert_eq!(head.begin(&mut text).is_ok(), is_written, "{value:?}");
                    assert!(is_written || text.is_empty());
                    text.extend_from_slice(b"d");
                    text.extend_from_slice(EVENT_END);
                    let found = read([&*text], 0);
                    if is_written {
                        let kind = head.kind.unwrap_or_default().as_bytes().to_owned();
                        assert_eq!(found.events, [(kind, b"d".to_vec())], "{value:?}");
                        assert_eq!(found.id, head.id.unwrap_or_default().as_bytes());
                    }
                }
            }) * 2
        },
    );
}

#[test]
fn exhaustive_comments_are_no_events() {
    exhaustive(
        "event streams: a comment of any text changes nothing for its reader",
        "comments of 6 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&["\r", "\n", "data: x", "id: 9", ":", "\u{feff}"], longest, |comment| {
                let mut text = b"data: before\n\n".to_vec();
                write_comment(&mut text, comment);
                let found = read([&*text], 0);
                let events = alloc::vec![(Vec::new(), b"before".to_vec())];
                assert_eq!(found, Stream { events, ..Stream::default() }, "{comment:?}");
            })
        },
    );
}

#[test]
fn exhaustive_streams_begin_anew_after_the_end_of_one() {
    exhaustive(
        "event streams: after `finish` a stream is read as a first one, apart from id and retry, wherever the last one ended",
        "texts of 7 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            const NEXT: &[u8] = b"\xef\xbb\xbfdata: n\r\n\r\n";
            for_each_text(&SSE_PIECES, longest, |text| {
                let mut decoder = SseDecoder::new(64);
                decoder.push(text);
                while decoder.next_event().is_some() {}
                let id = decoder.last_event_id().to_owned();
                decoder.finish();
                assert_eq!((decoder.buffered(), decoder.last_event_id()), (0, &*id));
                decoder.push(NEXT);
                let Some(SseItem::Event(event)) = decoder.next_event() else {
                    panic!("{}", text.escape_ascii())
                };
                assert_eq!((event.kind, &event.data[..]), (None, &b"n"[..]));
                assert!(decoder.next_event().is_none() && decoder.last_event_id() == id);
            })
        },
    );
}
