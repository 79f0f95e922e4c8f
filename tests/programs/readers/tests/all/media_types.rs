//! `Content-Type` of requests, read by `mime` and `mediatype`.

use std::sync::Arc;

use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, Server};
use mcp_proto::testing::for_each_text;
use mcp_proto::{Entropy, Instant, server};
use mediatype::MediaType;

use crate::compare::{Comparison, for_each_input};

const EXAMPLES: [&str; 6] = [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON;charset=\"utf-8\"",
    "application/json ; profile=\"a;b\\\"c\"",
    "application/json;a=b;c=d",
    "text/event-stream",
];
const PIECES: [&str; 14] = [
    "application/json",
    "APPLICATION/json",
    "text/plain",
    ";",
    " ",
    "\t",
    "a=b",
    "charset=utf-8",
    "q=\"",
    "\"",
    "\\",
    ",",
    "/",
    "+json",
];

/// Parameters that all readers know.
const PARAMETERS: [&str; 9] = [
    ";a=b",
    "; charset=utf-8",
    ";charset=\"UTF-8\"",
    ";  Version=1.0",
    ";e=\"\"",
    ";s=\"a b\"",
    "; boundary=\"; x=y\"",
    ";profile=\"http://h/p?q#f\"",
    ";q=\"text/plain\"",
];

/// Returns whether a server accepts a request with this content type.
fn is_accepted(value: &[u8]) -> bool {
    let fields = [("Host", &b"localhost"[..]), ("Content-Type", value), ("Accept", b"*/*")];
    let config = server::Config::new("readers", "1");
    let mut server = Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([1; 32], 0));
    let head = RequestHead { method: "POST", target: "/mcp", fields: &fields };
    let x = server.open(Instant::from_micros(1), &head, None);
    server.response(x).is_none()
}

/// Returns the class of an accepted value by which `differences.tsv` lists it.
fn class(value: &str) -> &'static str {
    let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
    let has_type = MediaType::parse(essence.trim_ascii()).is_ok();
    match () {
        () if has_type && (MediaType::parse(value).is_err() || parameters.contains(',')) => {
            "malformed parameters"
        }
        () if essence.ends_with([' ', '\t']) || value.contains('\t') => "white space",
        () if value.parse::<mime::Mime>().is_err() => "parameters of other tokens",
        () => "",
    }
}

#[test]
fn content_type_that_is_accepted_is_read_alike_by_mime_and_mediatype() {
    let mut comparison = Comparison::new("media type");
    let mut check = |input: &[u8]| {
        // A head has no other values, and none with white space around.
        let is_value = input.iter().all(|b| matches!(b, b'\t' | b' '..=b'~')) && input.trim_ascii() == input;
        let Some(text) = str::from_utf8(input).ok().filter(|_| is_value) else { return };
        if comparison.count(input, is_accepted(input).then_some(())).is_none() {
            return;
        }
        let ours = String::from("application/json");
        let by_mime = text.parse::<mime::Mime>().ok().map(|mime| mime.essence_str().to_owned());
        let by_mediatype =
            MediaType::parse(text).ok().map(|m| format!("{}/{}", m.ty, m.subty).to_ascii_lowercase());
        comparison.check("mime", input, &ours, by_mime.as_ref(), class(text));
        comparison.check("mediatype", input, &ours, by_mediatype.as_ref(), class(text));
    };
    for_each_input("media_types", &EXAMPLES, &PIECES, 4, |input| {
        check(input);
        check(&[b"application/json;a=", input].concat());
    });
    for_each_text(&PARAMETERS.map(str::as_bytes), 4, |parameters| {
        for essence in [&b"application/json"[..], b"Application/JSON"] {
            check(&[essence, parameters].concat());
        }
    });
    comparison.finish(10_000);
}
