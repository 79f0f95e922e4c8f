//! Event streams, read by `sse-stream` and `eventsource-parser`, which the official Rust and TypeScript SDKs use,
//! and by the text of the WHATWG standard.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use mcp_proto::frame::sse::{EventHead, SseDecoder, SseItem, write_event};
use sse_stream::SseStream;

use crate::compare::{Comparison, for_each_input};
use crate::process::Process;

/// The events (type, data, and the last event id after each), and the reconnection time in milliseconds.
type Stream = (Vec<(String, String, String)>, Option<u64>);

fn ours(input: &[u8]) -> Stream {
    let mut decoder = SseDecoder::new(1 << 20);
    decoder.push(input);
    let mut events = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a part of UTF-8");
    while let Some(item) = decoder.next_event() {
        let SseItem::Event(event) = item else { panic!("no input is as long") };
        let kind = event.kind.map_or_else(|| "message".into(), |kind| text(&kind));
        events.push((kind, text(&event.data), text(decoder.last_event_id())));
    }
    (events, decoder.retry().map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX)))
}

fn by_sse_stream(text: &str) -> Option<Stream> {
    let body = stream::iter([Ok::<_, Infallible>(hyper::body::Bytes::copy_from_slice(text.as_bytes()))]);
    let blocks = SseStream::from_bytes_stream(body).collect::<Vec<_>>().now_or_never()?;
    let (mut events, mut last_event_id, mut retry) = (Vec::new(), String::new(), None);
    for block in blocks {
        let block = block.ok()?;
        last_event_id = block.id.unwrap_or(last_event_id);
        retry = block.retry.or(retry);
        if let Some(data) = block.data {
            let kind = block.event.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "message".into());
            events.push((kind, data, last_event_id.clone()));
        }
    }
    Some((events, retry))
}

/// The standard, 9.2.6: its steps and the names of its buffers.
fn by_standard(text: &str) -> Stream {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut data, mut event_type, mut last_event_id) = (String::new(), String::new(), String::new());
    let (mut events, mut reconnection_time) = (Vec::new(), None);
    for line in text.split_inclusive('\n') {
        // What the end of the stream ends is no line.
        let Some(line) = line.strip_suffix('\n') else { break };
        if line.is_empty() {
            if let Some(data) = data.strip_suffix('\n') {
                let kind = if event_type.is_empty() { "message" } else { &event_type };
                events.push((kind.to_owned(), data.to_owned(), last_event_id.clone()));
            }
            data.clear();
            event_type.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event_type = value.to_owned(),
            "data" => data.extend([value, "\n"]),
            "id" if !value.contains('\0') => last_event_id = value.to_owned(),
            "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                reconnection_time = Some(value.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    (events, reconnection_time)
}

/// The caller decodes the text and keeps the last id. A carriage return ends a line only for the next character.
const BY_PARSER: &str = "
const { createParser } = require('eventsource-parser');
const read = (data) => {
  const events = [];
  let last = '';
  let retry = null;
  const parser = createParser({
    onEvent(event) {
      last = event.id ?? last;
      if (event.data !== '') events.push([event.event || 'message', event.data, last]);
    },
    onRetry(time) {
      retry = time;
    },
  });
  const text = new TextDecoder().decode(data);
  parser.feed(text.endsWith('\\r') ? `${text}\\n` : text);
  return [events, retry];
};
";

/// Returns our spelling of the events; none if one has a type or id that our writer refuses, as one with NUL.
fn print((events, retry): &Stream) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut retry = retry.map(Duration::from_millis);
    for (kind, data, id) in events {
        let head = EventHead { kind: Some(kind), id: Some(id), retry: retry.take() };
        write_event(&mut text, &head, data.as_bytes()).ok()?;
    }
    Some(text)
}

/// Returns the class of a stream for one reader, by which `differences.tsv` lists it.
fn class(reader: &str, text: &str) -> &'static str {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let is_field = |line: &str, name| line.split(':').next() == Some(name);
    let is_huge =
        |line: &str| is_field(line, "retry") && line.bytes().filter(u8::is_ascii_digit).count() > 15;
    let has = |block: &str, name| block.lines().any(|line| is_field(line, name));
    let mut blocks = text.split("\n\n");
    match reader {
        _ if text.lines().any(is_huge) => "retry beyond 64 bits",
        "sse-stream" if text.rsplit("\n\n").next().is_some_and(|cut| has(cut, "retry")) => {
            "retry in an event without end"
        }
        "eventsource-parser" if blocks.any(|block| has(block, "id") && !has(block, "data")) => {
            "id without data"
        }
        _ => "",
    }
}

#[test]
fn event_stream_is_read_alike_by_two_sdks_and_the_standard() {
    let mut comparison = Comparison::new("event stream");
    let mut parser = Process::npm("eventsource-parser", "sse", BY_PARSER);
    let mut check = |input: &[u8]| {
        // The client refuses data that is not UTF-8.
        let Ok(text) = str::from_utf8(input) else { return };
        let ours = ours(input);
        let Some(()) = comparison.count(input, (!ours.0.is_empty()).then_some(())) else { return };
        if let Some(printed) = print(&ours) {
            let again = self::ours(&printed);
            assert_eq!((&again, print(&again).as_ref()), (&ours, Some(&printed)), "{text:?}");
        }
        let standard = by_standard(text);
        let stream = by_sse_stream(text);
        let class = |reader| class(reader, text);
        parser.ask(input, serde_json::to_value(&ours).expect("JSON"), class("eventsource-parser"));
        // The script leaves them out.
        let with_data = |(mut events, retry): Stream| {
            events.retain(|(_, data, _)| !data.is_empty());
            (events, retry)
        };
        let is_empty = with_data(standard.clone()) != standard;
        comparison.check("standard", input, &ours, Some(&standard), if is_empty { "empty data" } else { "" });
        comparison.check(
            "sse-stream",
            input,
            &ours,
            stream.as_ref(),
            if is_empty { "empty data" } else { class("sse-stream") },
        );
        // Nothing else may differ.
        comparison.check("standard", input, &ours, Some(&with_data(standard)), "");
        comparison.check("sse-stream", input, &ours, stream.map(with_data).as_ref(), class("sse-stream"));
    };
    for_each_input("sse", &EXAMPLES, &PIECES, 4, |input| {
        // The first bytes of a seed are choices of the fuzz target.
        [input, input.get(3..).unwrap_or_default()].iter().for_each(|input| check(input));
        check(&[input, b"\ndata: x\n\n"].concat());
        check(&[b"data: ", input, b"\n\n"].concat());
    });
    parser.compare(&mut comparison);
    comparison.finish(20_000);
}

const EXAMPLES: [&str; 6] = [
    "id: 1\ndata: {\"jsonrpc\":\"2.0\"}\n\n: ping\n\nevent: message\ndata: a\ndata: b\n\n",
    "retry: 3000\r\nid: x\r\ndata:\r\n\r\ndata: \u{e9}\r\r",
    "\u{feff}event: endpoint\ndata: /messages?sessionId=1\n\n",
    "data\n\ndata\ndata\n\ndata:\n",
    "event: a\nevent:\ndata:  two spaces\nid\nid: 2\n\ndata: z\n\n",
    "id: 7\n\ndata: \0\nid: \0\nretry: 18446744073709551616\nretry: 1x\n\n",
];
const PIECES: [&str; 13] =
    ["data", "event", "id", "retry", ":", " ", "\n", "\r", "\r\n", "a", "7", "\u{feff}", "\n\n"];
