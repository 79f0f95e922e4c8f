use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Describes an item as text: type, data, and the last event id after it.
fn describe(found: SseItem, id: &[u8]) -> String {
    let kind = |kind: Option<Bytes>| kind.map_or_else(|| "message".to_string(), |k| text(&k));
    match found {
        SseItem::Event(event) => format!("{}|{}|{}", kind(event.kind), text(&event.data), text(id)),
        SseItem::TooLong { kind: k, oversize } => {
            let found = oversize.recovered.id.map_or_else(|| "-".to_string(), |id| text(&id));
            format!("{}|{} bytes, {found}|{}", kind(k), oversize.length, text(id))
        }
    }
}

/// Decodes a stream in the given pieces; the last entry holds the id, `retry` and how the stream ended.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, max: usize, owned: bool) -> Vec<String> {
    let mut decoder = SseDecoder::new(max);
    let mut out = Vec::new();
    for piece in pieces {
        if owned {
            decoder.push_owned(Bytes::copy_from_slice(piece));
        } else {
            decoder.push(piece);
        }
        while let Some(found) = decoder.next_event() {
            out.push(describe(found, decoder.last_event_id()));
        }
        assert!(decoder.buffered() <= 2 * max + MAX_FIELD + 1024, "bounded");
    }
    let id = text(decoder.last_event_id());
    let retry = decoder.retry().map_or(-1, |r| i128::try_from(r.as_millis()).expect("fits"));
    let cut = decoder.finish();
    assert_eq!(decoder.buffered(), 0);
    out.push(format!("id {id} retry {retry} cut {cut} unusable {}", decoder.unusable_ids()));
    out
}

/// Decodes the stream whole, in pieces of each length, and cut in two at each offset; all must agree.
fn read_all_ways(input: &[u8], max: usize) -> Vec<String> {
    let want = read([input].into_iter(), max, false);
    for owned in [false, true] {
        for step in (1..=input.len().min(40)).chain([input.len().max(1)]) {
            assert_eq!(read(input.chunks(step), max, owned), want, "step {step}, owned {owned}");
        }
        for at in 0..=input.len() {
            let (a, b) = input.split_at(at);
            assert_eq!(read([a, b].into_iter(), max, owned), want, "cut at {at}, owned {owned}");
        }
    }
    want
}

const REST: &str = "id  retry -1 cut false unusable 0";

/// Streams and their items; the first ones are the examples of the standard.
#[rustfmt::skip]
const STREAMS: &[(&str, &[&str])] = &[
    ("data: This is the first message.\n\ndata: This is the second message, it\ndata: has two lines.\n\ndata: This is the third message.\n\n",
        &["message|This is the first message.|", "message|This is the second message, it\nhas two lines.|", "message|This is the third message.|", REST]),
    ("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
        &["add|73857293|", "remove|2153|", "add|113411|", REST]),
    ("data: YHOO\ndata: +2\ndata: 10\n\n", &["message|YHOO\n+2\n10|", REST]),
    (": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &["message|first event|1", "message|second event|", "message| third event|", REST]),
    // One empty line of data counts as no data here, unlike in the standard; two are a line end in both.
    ("data\n\ndata\ndata\n\ndata:", &["message|\n|", "id  retry -1 cut true unusable 0"]),
    ("data:test\n\ndata: test\n\n", &["message|test|", "message|test|", REST]),
    // All kinds of line ends side by side.
    ("data: a\rdata: b\r\ndata: c\n\r\ndata: d\r\rdata: e\r\n\ndata: f\n\rdata: g\r\r\n",
        &["message|a\nb\nc|", "message|d|", "message|e|", "message|f|", "message|g|", REST]),
    ("\r\n\r\n\n\n\r\r:\r\ndata: x\r\n\r\n\r\n\r\n", &["message|x|", REST]),
    // A byte order mark counts once, at the very beginning.
    ("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: \u{feff}c\n\n", &["message|a|", "message|\u{feff}c|", REST]),
    ("\u{feff}\u{feff}data: a\n\ndata: b\n\n", &["message|b|", REST]),
    ("\u{feff}\ndata: a\n\n", &["message|a|", REST]),
    ("\u{feff}: comment\ndata: a\n\n", &["message|a|", REST]),
    ("\u{feff}", &[REST]),
    // Field names are complete, in lower case, with nothing before them.
    ("Data: a\n data: b\ndat: c\ndataa: d\ndata : e\n: data: f\ndata\u{0}: g\ndata: h\n\n", &["message|h|", REST]),
    ("x: data: y\nhello\n\ndata: a\nretry\nevents: b\nidx: 5\n\n", &["message|a|", REST]),
    ("data::a\n\ndata: :b\n\ndata:\tc\n\n", &["message|:a|", "message|:b|", "message|\tc|", REST]),
    // The type belongs to one event, with or without data; the last one counts.
    ("event: a\n\ndata: x\n\nevent: a\nevent: b\ndata: y\n\nevent: b\nevent\ndata: z\n\nevent: message\ndata: m\n\n",
        &["message|x|", "b|y|", "message|z|", "message|m|", REST]),
    // An id lasts from event to event and takes effect without data; an id with NUL is ignored.
    ("id: 1\ndata: a\n\ndata: b\n\nid: 2\n\nid: x\0y\ndata: c\n\nid: 3\nid: \0\n\n",
        &["message|a|1", "message|b|1", "message|c|2", "id 3 retry -1 cut false unusable 0"]),
    ("id: 7\ndata: \n\n", &["id 7 retry -1 cut false unusable 0"]),
    ("id: 7\nretry: 20\ndata:\n\nid: 8\nretry: 30", &["id 7 retry 20 cut true unusable 0"]),
    ("id: 7\n\nid:  8\n\n", &["id  8 retry -1 cut false unusable 0"]),
    // `retry` consists of digits only.
    ("retry: 500\n", &["id  retry 500 cut false unusable 0"]),
    ("retry: 1500\nretry: 15 0\nretry: -1\nretry: +1\nretry: 1.5\nretry:\nretry\nretry: 0x1\nretry: ٣\nretry:  2\n\n",
        &["id  retry 1500 cut false unusable 0"]),
    ("retry: 99999999999999999999999\n", &["id  retry 18446744073709551615 cut false unusable 0"]),
    // Places where a stream may end.
    ("", &[REST]),
    ("data: a", &["id  retry -1 cut true unusable 0"]),
    ("data: a\n", &["id  retry -1 cut true unusable 0"]),
    ("event: a\n", &["id  retry -1 cut true unusable 0"]),
    ("id: a\n", &["id  retry -1 cut true unusable 0"]),
    ("data: a\r", &["id  retry -1 cut true unusable 0"]),
    ("data: a\r\r", &["message|a|", REST]),
    (": nothing", &[REST]),
    ("data: a\n\nd", &["message|a|", "id  retry -1 cut true unusable 0"]),
];

// covers: SSE-002, SSE-003, SSE-004, SSE-005, SSE-025
#[test]
fn decoder_follows_standard_for_any_chunking() {
    for (input, want) in STREAMS {
        assert_eq!(read_all_ways(input.as_bytes(), 1000), *want, "{input:?}");
    }
}

// covers: SSE-003
#[test]
fn decoder_keeps_invalid_utf8() {
    let input = b"id: \xff\ndata: \xe4\xb8\n\ndata: \xb8\xad\n\n";
    let mut decoder = SseDecoder::new(100);
    decoder.push(input);
    let mut next = || match decoder.next_event() {
        Some(SseItem::Event(event)) => event.data,
        other => panic!("{other:?}"),
    };
    assert_eq!((&next()[..], &next()[..]), (&b"\xe4\xb8"[..], &b"\xb8\xad"[..]));
    assert_eq!(decoder.last_event_id(), b"\xff");
}

// covers: SSE-004
#[test]
fn event_without_data_updates_last_event_id() {
    let mut decoder = SseDecoder::new(100);
    decoder.push(b"id: 41\ndata: \n");
    assert!(decoder.next_event().is_none());
    assert_eq!(decoder.last_event_id(), b"", "it is not complete");
    decoder.push(b"\n");
    assert!(decoder.next_event().is_none());
    assert_eq!(decoder.last_event_id(), b"41");
}

#[test]
fn oversize_event_is_reported_once_and_others_survive() {
    let long = format!("{{\"id\":77,\"params\":\"{}\"}}", "x".repeat(100));
    let fits = "y".repeat(40);
    let input = format!(
        "data: one\n\nid: 5\nevent: big\ndata: {long}\nretry: 9\nfoo: {long}\n\ndata: two\n\n\
         data: {{\"id\":78,\ndata: \"result\":\r\ndata: \"{}\"}}\n\nid: 6\ndata: {fits}\n\ndata: {fits}\ndata\n\ndata: three\n\n",
        "z".repeat(30)
    );
    let want = [
        "message|one|",
        "big|121 bytes, 77|5",
        "message|two|5",
        "message|53 bytes, 78|5",
        &format!("message|{fits}|6"),
        "message|41 bytes, -|6",
        "message|three|6",
        "id 6 retry 9 cut false unusable 0",
    ];
    assert_eq!(read_all_ways(input.as_bytes(), 40), want);
    let none = "\u{feff}data: x\n\ndata:\ndata\n\ndata: \n\n";
    assert_eq!(read_all_ways(none.as_bytes(), 0), ["message|1 bytes, -|", "message|1 bytes, -|", REST]);
}

#[test]
fn overlong_field_lines_are_skipped() {
    let long = "l".repeat(MAX_FIELD);
    let just = "j".repeat(MAX_FIELD - 4);
    let input = format!(
        "\u{feff}:{long}\nid: {just}\ndata: a\n\nid: {long}\ndata: b\n\nevent: {long}\ndata: c\n\nretry: {long}\n:{long}\ndata: d\n\n"
    );
    let want = [
        format!("message|a|{just}"),
        format!("message|b|{just}"),
        format!("message|1 bytes, -|{just}"),
        format!("message|d|{just}"),
        format!("id {just} retry -1 cut false unusable 1"),
    ];
    for step in [1, 7, 100, 4000, input.len()] {
        for owned in [false, true] {
            assert_eq!(read(input.as_bytes().chunks(step), 10, owned), want, "step {step}, owned {owned}");
        }
    }
}

#[test]
fn endless_line_stays_bounded() {
    let starts: [&[u8]; 5] = [b"data: {\"id\":5,\"p\":\"", b":", b"id: ", b"unknown", b"\xef\xbb\xbfevent:"];
    for start in starts {
        let mut decoder = SseDecoder::new(1000);
        decoder.push(start);
        for _ in 0..1000 {
            decoder.push(&[b'a'; 512]);
            assert!(decoder.next_event().is_none());
            assert!(decoder.buffered() <= 512 + MAX_FIELD);
        }
        decoder.push(b"\"}\n\ndata: next\n\n");
        let mut last = None;
        while let Some(found) = decoder.next_event() {
            last = Some(found);
        }
        assert!(matches!(last, Some(SseItem::Event(e)) if e.data == "next"), "{}", text(start));
    }
    // The lines between the data and the end of its event are bounded too.
    let mut decoder = SseDecoder::new(1000);
    decoder.push(b"data: a\n");
    for _ in 0..10_000 {
        decoder.push(b": still here\nunknown\n\r\n".get(..21).expect("short"));
        assert!(decoder.next_event().is_none());
        assert!(decoder.buffered() <= 1100);
    }
    decoder.push(b"\n");
    assert!(matches!(decoder.next_event(), Some(SseItem::Event(e)) if e.data == "a"));
}

#[test]
fn single_data_line_is_not_copied() {
    let input = Bytes::from_static(b"id: 1\nevent: x\ndata: payload\nretry: 5\n\nrest");
    let mut decoder = SseDecoder::new(100);
    decoder.push_owned(input.clone());
    let Some(SseItem::Event(event)) = decoder.next_event() else { panic!("an event") };
    assert_eq!(event.data, "payload");
    assert_eq!(event.data.as_ptr(), input.slice(21..).as_ptr());
}

#[test]
fn decoder_is_reusable_after_finish() {
    let mut decoder = SseDecoder::new(100);
    decoder.push("\u{feff}id: 1\nretry: 7\ndata: a\n\nid: 2\nevent: x\ndata: b\n: lost\nda".as_bytes());
    assert!(decoder.next_event().is_some() && decoder.next_event().is_none());
    assert!(decoder.finish());
    decoder.push("\u{feff}data: c\n\n".as_bytes());
    assert!(
        matches!(decoder.next_event(), Some(SseItem::Event(Event { kind: None, data })) if data == "c"),
        "nothing of the lost event, and a byte order mark again"
    );
    assert_eq!((decoder.last_event_id(), decoder.retry()), (&b"1"[..], Some(Duration::from_millis(7))));
    assert!(!decoder.finish());
}

#[test]
fn written_events_round_trip() {
    let heads = [
        EventHead::default(),
        EventHead { id: Some(" spaced: id"), ..EventHead::default() },
        EventHead { kind: Some("endpoint"), id: Some(""), retry: Some(Duration::from_micros(1_500_999)) },
    ];
    for data in [
        "x",
        " x",
        ":x",
        "a\nb",
        "a\rb\r\nc",
        "\n",
        "\n\n",
        "\r",
        "a\n",
        "id: 5\n\nretry: 7\n\ndata: forged",
        "{}",
    ] {
        for head in &heads {
            let mut out = Vec::new();
            write_comment(&mut out, "still\nhere\r\n\r\ndata: forged\n\n");
            write_event(&mut out, head, data.as_bytes()).expect("good fields");
            write_comment(&mut out, "");
            let joined = data.replace("\r\n", "\n").replace('\r', "\n");
            let id = head.id.unwrap_or_default();
            let retry = if head.retry.is_some() { 1500 } else { -1 };
            let want = [
                format!("{}|{joined}|{id}", head.kind.unwrap_or("message")),
                format!("id {id} retry {retry} cut false unusable 0"),
            ];
            assert_eq!(read_all_ways(&out, 1000), want, "{data:?} {head:?}");
        }
    }
}

#[test]
fn field_with_line_end_is_refused() {
    for bad in ["a\nb", "a\rb", "\0", "\n"] {
        let id = EventHead { id: Some(bad), kind: Some("good"), retry: None };
        let kind = EventHead { id: Some("good"), kind: Some(bad), retry: None };
        for (head, name) in [(id, "id"), (kind, "type")] {
            let mut out = Vec::new();
            assert_eq!(write_event(&mut out, &head, b"x").map_err(|e| e.name), Err(name));
            assert_eq!(out, b"");
        }
    }
}

#[test]
fn priming_event_carries_id_and_retry() {
    let mut out = Vec::new();
    let head = EventHead { id: Some("s1:0"), retry: Some(Duration::from_secs(3)), kind: None };
    write_event(&mut out, &head, b"").expect("good fields");
    assert_eq!(text(&out), "id: s1:0\nretry: 3000\ndata: \n\n");
    assert_eq!(read_all_ways(&out, 100), ["id s1:0 retry 3000 cut false unusable 0"]);
}

#[test]
fn stored_bytes_are_counted_wherever_they_are() {
    let mut d = SseDecoder::new(100);
    d.push_owned(Bytes::from_static(b"data: a\ndata: bb\ndata: c"));
    assert_eq!(d.buffered(), 24, "as input");
    assert!(d.next_event().is_none());
    assert_eq!(d.buffered(), "a\nbb".len() + "data: c".len(), "joined, with the rest of the input");
    d.push(b"\n\n");
    assert!(d.next_event().is_some());
    assert_eq!(d.buffered(), 0);
    d.trim();
    assert_eq!((d.buf.capacity(), d.owned.len()), (0, 0));
}

#[test]
fn unfinished_line_of_data_is_stored_up_to_the_limit_and_no_byte_more() {
    // Ten bytes more than a field of another kind may have, with 60 of them on a line before.
    let max = MAX_FIELD + 10;
    for before in [0, 60] {
        let mut d = SseDecoder::new(max);
        let room = if before == 0 { max } else { max - before - 1 };
        if before > 0 {
            d.push(format!("data: {}\n", "b".repeat(before)).as_bytes());
        }
        d.push(b"data: ");
        for length in 1..=room {
            d.push(b"x");
            assert!(d.next_event().is_none());
            assert!(d.buffered() >= length, "{length} bytes behind {before}");
        }
        let mut whole = SseDecoder::new(max);
        whole.push(&d.buf);
        whole.push(b"\n\n");
        assert!(matches!(whole.next_event(), Some(SseItem::Event(_))), "as much as fits");
        d.push(b"y");
        assert!(d.next_event().is_none());
        assert_eq!(d.buffered(), 0, "one byte more than fits behind {before}");
        d.push(b"\n\n");
        assert!(matches!(d.next_event(), Some(SseItem::TooLong { .. })));
    }
}

#[test]
fn lines_behind_the_data_are_kept_up_to_a_bound() {
    for (behind, stored) in [(MAX_TRAILING_BYTES, MAX_TRAILING_BYTES + 1), (MAX_TRAILING_BYTES + 1, 1)] {
        let mut d = SseDecoder::new(100);
        // With the line end of the data and that of the comment.
        d.push(format!("data: x\n:{}\n", "c".repeat(behind - 3)).as_bytes());
        assert!(d.next_event().is_none());
        assert_eq!(d.buffered(), stored, "{behind}");
        d.push(b"\n");
        assert!(matches!(d.next_event(), Some(SseItem::Event(event)) if event.data == b"x"[..]));
    }
}
