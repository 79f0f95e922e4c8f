//! A trace as one page, which needs no network.
//!
//! Text of the trace is data: it stands in a block of JSON without `<`, `>` and `&`, and the script shows it as text alone. The
//! policy of the page runs the two parts below, by their hashes, and loads nothing.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::View;
use crate::{Call, Calls, Content, Message, Record, Side, Trace, escape};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Most records of a page.
const MAX_RECORDS: usize = 200_000;
/// Most bytes of the text of one record, and of all.
const MAX_TEXT: usize = 1 << 20;
const MAX_ALL_TEXT: usize = 64 << 20;

/// The data of a page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    by: String,
    unix_millis: u64,
    masked: bool,
    command: String,
    notes: Vec<String>,
    rows: Vec<Row<'a>>,
}

/// A message, or a record that is none. Names are short because there are many.
#[derive(Default, Serialize)]
struct Row<'a> {
    /// Time in microseconds.
    t: u64,
    /// Side: `c` or `s`.
    s: &'static str,
    /// Kind.
    k: &'static str,
    /// HTTP exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<u64>,
    /// Method, of a response that of its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<String>,
    /// Target.
    #[serde(skip_serializing_if = "Option::is_none")]
    g: Option<String>,
    /// Id.
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<String>,
    /// Outcome of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    o: Option<&'static str>,
    /// Duration of the call in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<u64>,
    /// Row of the response to a request, and of the request of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<usize>,
    /// Text.
    b: String,
    #[serde(skip)]
    call: Option<&'a Call>,
}

/// Returns a trace as one HTML page, which needs no network: a timeline of both sides, with filters and the details of each message.
///
/// A page has at most 200,000 records and 64 MiB of their text; it says what it leaves out, and the notes do.
#[must_use]
pub fn html(trace: &Trace) -> View {
    let calls = Calls::new(trace);
    let mut notes = Vec::new();
    let rows = rows(trace, &calls, &mut notes);
    let cut = trace.is_cut.then(|| "The trace ends within a line, and is shown up to there.".to_owned());
    let header = &trace.header;
    let data = Data {
        by: escape::line(&header.by).into_owned(),
        unix_millis: header.unix_millis,
        masked: header.masked,
        command: escape::line(&header.command.join(" ")).into_owned(),
        notes: notes.iter().cloned().chain(cut).collect(),
        rows,
    };
    // Texts and numbers have a JSON form always.
    let json = serde_json::to_string(&data).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    // The data comes last: nothing in it is taken for a place.
    let page = PAGE.replace("{{policy}}", &policy).replace("{{style}}", STYLE).replace("{{script}}", SCRIPT);
    View { text: page.replacen("{{data}}", &within_script(&json), 1), notes }
}

/// Returns the source of a policy that lets this text run.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text)))
}

/// Escapes JSON for a `script` element. These characters occur within strings only.
fn within_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// Returns the rows of a page, up to its bounds, and notes what it leaves out.
fn rows<'a>(trace: &Trace, calls: &'a Calls, notes: &mut Vec<String>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let (mut room, mut shortened) = (MAX_ALL_TEXT, 0_usize);
    let mut shown = 0;
    for (index, record) in trace.records.iter().enumerate() {
        if rows.len() >= MAX_RECORDS || room == 0 {
            break;
        }
        shown = index + 1;
        let text = match &record.content {
            Content::Line(line) => line.text.to_string(),
            Content::Head(text) | Content::End(text) | Content::Stderr(text) => text.clone(),
            Content::Lost(bytes) => format!("{bytes} bytes were not recorded"),
        };
        let begin = rows.len();
        let messages = Message::of(record);
        if messages.is_empty() {
            rows.push(other_row(record));
        }
        rows.extend(
            messages.iter().map(|message| message_row(record, message, calls.call_of(index, message))),
        );
        // The text of a batch is that of each of its messages.
        for row in rows.get_mut(begin..).unwrap_or_default() {
            let text = escape::lines(&text);
            row.b = cut(&text, room.min(MAX_TEXT));
            room -= row.b.len();
            shortened += usize::from(row.b.len() < text.len());
        }
    }
    let left = trace.records.len() - shown;
    if left > 0 {
        notes.push(format!("The page has the first {shown} records: {left} more are left out."));
    }
    if shortened > 0 {
        let texts = if shortened == 1 { "text" } else { "texts" };
        notes.push(format!("{shortened} {texts} cut: a page has at most 1 MiB of one and 64 MiB of all."));
    }
    join(&mut rows);
    rows
}

/// Joins the rows of requests and responses.
fn join(rows: &mut [Row<'_>]) {
    let mut requests: HashMap<(usize, String), usize> = HashMap::new();
    for index in 0..rows.len() {
        let Some(Row { call: Some(call), k, .. }) = rows.get(index) else { continue };
        let key = (call.request, call.id.as_str().to_owned());
        if *k == "request" {
            requests.insert(key, index);
        } else if let Some(request) = requests.remove(&key) {
            for (row, other) in [(index, request), (request, index)] {
                if let Some(row) = rows.get_mut(row) {
                    row.r = Some(other);
                }
            }
        }
    }
}

fn new_row(record: &Record, kind: &'static str) -> Row<'static> {
    let s = if record.from == Side::Client { "c" } else { "s" };
    Row { t: record.at, s, k: kind, x: record.exchange, ..Row::default() }
}

fn other_row(record: &Record) -> Row<'static> {
    let kind = match &record.content {
        Content::Head(_) => "head",
        Content::End(_) => "end",
        Content::Stderr(_) => "stderr",
        Content::Lost(_) => "lost",
        _ => "text",
    };
    new_row(record, kind)
}

fn message_row<'a>(record: &Record, message: &Message, call: Option<&'a Call>) -> Row<'a> {
    let kind = match (message.is_request(), message.is_response()) {
        (true, _) => "request",
        (_, true) => "response",
        _ => "notification",
    };
    let shown = |text: &str| escape::line(text).into_owned();
    let method = call.map(|call| call.method.as_str()).or(message.method.as_deref());
    let target = call.and_then(|call| call.target.clone()).or_else(|| message.target());
    let outcome =
        call.map(|call| call.outcome.name()).or_else(|| message.is_response().then_some("unmatched"));
    Row {
        m: method.map(shown),
        g: target.as_deref().map(shown),
        i: message.id.as_ref().map(|id| shown(id.as_str())),
        o: outcome,
        d: call.and_then(Call::duration),
        call,
        ..new_row(record, kind)
    }
}

/// Cuts a text to so many bytes.
fn cut(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::{Header, Line, Text};

    use super::*;

    fn line(at: u64, from: Side, text: &str) -> Record {
        Record::new(at, from, Content::Line(Line::new(Text::new(text.as_bytes()))))
    }

    fn data(page: &str) -> Value {
        let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
        let (data, _) = data.split_once("</script>").expect("its end");
        serde_json::from_str(data).expect("JSON")
    }

    #[test]
    fn text_of_the_trace_is_data_of_the_page() {
        let hostile = "</script><script>alert(1)</script><!-- & {{policy}} {{data}} {{script}}";
        let text = format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"{hostile}"}}}}"#);
        let header = Header::new(hostile, 5).command([hostile, "\u{202e}"]);
        let records = vec![
            line(10, Side::Client, &text),
            line(35, Side::Server, r#"{"id":1,"result":{"isError":true,"a":"\u2028\u001b"}}"#),
            line(40, Side::Server, &format!("{hostile}\u{2028}\u{200b}\u{1b}[2J")),
            Record::new(50, Side::Server, Content::Stderr(hostile.to_owned())),
        ];
        let page = html(&Trace::new(header, records)).text;
        assert!(!page.contains("alert(1)</script>") && !page.contains("<script>alert"), "{page}");
        let of_page = [PAGE, STYLE, SCRIPT].iter().map(|part| part.matches('<').count()).sum::<usize>();
        assert_eq!(page.matches('<').count(), of_page, "no `<` is of the trace");
        assert!(!page.contains(['\u{2028}', '\u{200b}', '\u{202e}', '\u{1b}']));
        let data = data(&page);
        assert_eq!(data["rows"][0]["b"], *text);
        assert_eq!(data["rows"][0]["g"], hostile);
        assert_eq!(data["rows"][2]["b"], format!("{hostile}\\u2028\\u200b\\u001b[2J"));
        assert_eq!((&data["rows"][0]["r"], &data["rows"][1]["r"]), (&1.into(), &0.into()));
        assert_eq!((&data["rows"][1]["m"], &data["rows"][1]["d"]), (&"tools/call".into(), &25.into()));
        assert_eq!(data["rows"][1]["o"], "tool_error");
    }

    #[test]
    fn policy_has_the_hashes_of_the_parts_of_the_page() {
        let page = html(&Trace::new(Header::new("test", 0), Vec::new())).text;
        for (part, open, close) in [(SCRIPT, "<script>", "</script>"), (STYLE, "<style>", "</style>")] {
            let (_, rest) = page.split_once(open).expect(open);
            let (inner, _) = rest.split_once(close).expect(close);
            assert_eq!(inner, part, "a hash is of all that stands between the tags");
            assert!(page.contains(&format!("'{}'", hash(part))));
        }
        assert!(page.contains("content=\"default-src 'none'; script-src 'sha256-"));
        assert!(!SCRIPT.contains("innerHTML") && !page.contains("http://") && !page.contains("https://"));
    }

    #[test]
    fn what_has_no_room_is_left_out_and_noted() {
        let mut notes = Vec::new();
        let many = vec![line(0, Side::Client, ""); MAX_RECORDS + 5];
        let trace = Trace::new(Header::new("test", 0), many);
        assert_eq!(rows(&trace, &Calls::new(&trace), &mut notes).len(), MAX_RECORDS);
        assert_eq!(notes, ["The page has the first 200000 records: 5 more are left out."]);
        notes.clear();
        let long = vec![line(0, Side::Client, &"ä".repeat(MAX_TEXT)); 1];
        let trace = Trace::new(Header::new("test", 0), long);
        assert_eq!(rows(&trace, &Calls::new(&trace), &mut notes)[0].b.len(), MAX_TEXT);
        assert_eq!(notes.len(), 1);
    }
}
