//! Fuzz target for the media types of requests: `Accept` and `Content-Type`.

use alloc::sync::Arc;

use mcp_proto::head::{FieldLine, RequestHead};
use mcp_proto::http::server::{Config, Server};
use mcp_proto::{Entropy, Instant, server};

use super::input::FuzzInput;

/// Opens requests with arbitrary media types and compares the outcome with a simple model.
///
/// - 415 means that the content type is not JSON, and 406 that neither JSON nor event streams are accepted.
/// - It does not matter how a list is divided into fields, nor in which order its entries are.
pub fn media_types(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let n = choices.below(40);
    let content_type = field_value(choices.take(n));
    let accept = field_value(choices.rest());
    let lists: Vec<&[u8]> = accept.split(|b| *b == b'\n').collect();
    let expected = expected_status(&content_type, &lists);
    assert_eq!(status(&content_type, &lists), expected, "{}", String::from_utf8_lossy(data));
    let mut entries: Vec<&[u8]> = lists.iter().flat_map(|list| list.split(|b| *b == b',')).collect();
    assert_eq!(status(&content_type, &entries), expected, "one field for each entry");
    entries.reverse();
    assert_eq!(status(&content_type, &[&entries.join(&b", "[..])]), expected, "one field, reversed");
}

/// Removes the bytes that no field value has; a line feed separates two fields.
fn field_value(bytes: &[u8]) -> Vec<u8> {
    let fits = |b: &u8| matches!(b, b'\t' | b'\n' | b' '..=b'~' | 0x80..);
    bytes.iter().copied().filter(fits).collect()
}

/// Returns the status that the head of a request is refused with, if it is.
fn status(content_type: &[u8], accept: &[&[u8]]) -> Option<u16> {
    let config = server::Config::new("fuzz", "1");
    let mut server = Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([1; 32], 0));
    let mut fields: Vec<FieldLine<'_>> = Vec::from([("Host", &b"localhost"[..])]);
    fields.push(("content-type", content_type));
    fields.extend(accept.iter().map(|list| ("Accept", *list)));
    let head = RequestHead { method: "POST", target: "/mcp", fields: &fields };
    let now = Instant::from_micros(1);
    let x = server.open(now, &head, None);
    let status = server.response(x).map(|response| response.status);
    assert_eq!(server.wants_body(x), status.is_none(), "either a refusal or a body");
    status
}

/// The model: the entry with the most specific range decides, and one that is not refused prevails among equals.
fn expected_status(content_type: &[u8], accept: &[&[u8]]) -> Option<u16> {
    let essence =
        |text: &str| text.split(';').next().unwrap_or_default().trim_matches(WHITESPACE).to_ascii_lowercase();
    if essence(&String::from_utf8_lossy(content_type)) != "application/json" {
        return Some(415);
    }
    let text: Vec<String> = accept.iter().map(|list| String::from_utf8_lossy(list).into_owned()).collect();
    let entries: Vec<&str> = text.iter().flat_map(|list| list.split(',')).collect();
    let is_refused = |entry: &str| {
        entry.split(';').skip(1).any(|parameter| {
            let weight = parameter.trim_matches(WHITESPACE).to_ascii_lowercase();
            weight
                .strip_prefix("q=")
                .is_some_and(|w| !w.is_empty() && w.chars().all(|c| c == '0' || c == '.'))
        })
    };
    let accepts = |ranges: [&str; 3]| {
        let deciding = ranges.iter().find(|range| entries.iter().any(|entry| essence(entry) == **range));
        deciding
            .is_some_and(|range| entries.iter().any(|entry| essence(entry) == **range && !is_refused(entry)))
    };
    let either = accepts(["application/json", "application/*", "*/*"])
        || accepts(["text/event-stream", "text/*", "*/*"]);
    if either { None } else { Some(406) }
}

const WHITESPACE: [char; 3] = [' ', '\t', '\n'];
