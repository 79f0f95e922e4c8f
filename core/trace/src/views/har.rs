//! The HTTP exchanges of a trace as an HTTP Archive of version 1.2.

use alloc::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Producer, View};
use crate::{Content, Line, Message, Record, Side, Text, Trace, escape};

/// A trace has no HTTP exchange, so there is no archive of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace has no HTTP exchange: it is of a byte stream, or empty")]
pub struct NoExchange;

/// Most names that a comment or a note lists.
const MAX_NAMES: usize = 20;

/// Returns the HTTP exchanges of a trace as an HTTP Archive of version 1.2, for the tools of browsers.
///
/// # Errors
///
/// [`NoExchange`] if it is of a byte stream.
pub fn har(trace: &Trace, by: Producer<'_>) -> Result<View, NoExchange> {
    let mut exchanges: BTreeMap<u64, Vec<&Record>> = BTreeMap::new();
    for record in &trace.records {
        if let Some(exchange) = record.exchange {
            exchanges.entry(exchange).or_default().push(record);
        }
    }
    if exchanges.is_empty() {
        return Err(NoExchange);
    }
    let (mut entries, mut without_head) = (Vec::new(), Vec::new());
    for (exchange, records) in &exchanges {
        match entry(trace, records) {
            Some(entry) => entries.push(entry),
            None => without_head.push(exchange.to_string()),
        }
    }
    let mut notes = Vec::new();
    if !without_head.is_empty() {
        let names = join_names(&without_head);
        notes.push(format!("exchanges whose request has no head are left out: {names}"));
    }
    let by = json!({ "name": by.name, "version": by.version });
    let comment = format!("recorded by {}", trace.header.by);
    let har = json!({ "log": { "version": "1.2", "creator": by, "entries": entries, "comment": comment } });
    Ok(View { text: format!("{}\n", escape::lines(&har.to_string())), notes })
}

/// Lists names, up to [`MAX_NAMES`].
fn join_names(names: &[String]) -> String {
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    format!("{}{more}", names.get(..MAX_NAMES).unwrap_or(names).join(", "))
}

/// Returns an exchange, or `None` if the head of its request was not recorded.
fn entry(trace: &Trace, records: &[&Record]) -> Option<Value> {
    let of = |side| records.iter().copied().filter(move |record| record.from == side);
    let head = |side| {
        of(side).find_map(|record| match &record.content {
            Content::Head(head) => Some((record.at, head.as_str())),
            _ => None,
        })
    };
    let (begun, request) = head(Side::Client)?;
    let response = head(Side::Server);
    let sent = of(Side::Client).map(last_read).max().unwrap_or(begun).max(begun);
    // A server may answer before it has the whole request.
    let answered = response.map_or(sent, |(at, _)| at).max(begun);
    let sent = sent.min(answered);
    let received = of(Side::Server).map(last_read).max().unwrap_or(answered).max(answered);
    let millis = |from: u64, to: u64| (to - from) as f64 / 1e3;
    let messages: Vec<String> =
        records.iter().flat_map(|record| Message::of(record)).filter_map(|m| title(&m)).collect();
    Some(json!({
        "startedDateTime": date(trace, begun),
        "time": millis(begun, received),
        "request": request_of(request, &Body::new(of(Side::Client))),
        "response": response_of(response.map(|(_, head)| head), &Body::new(of(Side::Server))),
        "cache": {},
        "timings": { "send": millis(begun, sent), "wait": millis(sent, answered), "receive": millis(answered, received) },
        "comment": join_names(&messages),
    }))
}

fn last_read(record: &Record) -> u64 {
    match &record.content {
        Content::Line(Line { cuts, .. }) => cuts.last().map_or(record.at, |cut| cut.at.max(record.at)),
        _ => record.at,
    }
}

fn title(message: &Message) -> Option<String> {
    let method = message.method.clone()?;
    Some(match message.target() {
        Some(target) => format!("{method} {target}"),
        None => method,
    })
}

/// Formats a time of a trace as ISO 8601 with milliseconds.
fn date(trace: &Trace, micros: u64) -> String {
    let millis = trace.header.unix_millis.saturating_add(micros / 1_000);
    let seconds = mcp_proto::iso_8601(millis / 1_000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), millis % 1_000)
}

fn request_of(head: &str, body: &Body<'_>) -> Value {
    let (first, fields) = split_head(head);
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = field(&fields, "host").unwrap_or("localhost");
    let url = if target.contains("://") { target.to_owned() } else { format!("http://{host}{target}") };
    let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        json!({ "name": name, "value": value })
    });
    let mut request = json!({
        "method": method,
        "url": url,
        "httpVersion": words.next().unwrap_or("HTTP/1.1"),
        "cookies": [],
        "headers": headers(&fields),
        "queryString": query.collect::<Vec<_>>(),
        "headersSize": -1,
        "bodySize": body.size(false),
    });
    if !body.is_empty() {
        let mime = field(&fields, "content-type").unwrap_or_default();
        let mut data = json!({ "mimeType": mime, "text": body.text(false) });
        if let Some(comment) = body.comment() {
            data["comment"] = comment.into();
        }
        request["postData"] = data;
    }
    request
}

fn response_of(head: Option<&str>, body: &Body<'_>) -> Value {
    // Nothing came back: browsers write status 0 then.
    let (first, fields) = head.map(split_head).unwrap_or_default();
    let (version, rest) = match first.split_once(' ') {
        Some((version, rest)) if version.starts_with("HTTP/") => (version, rest),
        _ if head.is_some() => ("HTTP/1.1", first),
        _ => ("", ""),
    };
    let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let mime = field(&fields, "content-type").unwrap_or_default();
    let is_event_stream = mime.starts_with("text/event-stream");
    let mut content = json!({ "size": body.size(is_event_stream), "mimeType": mime });
    if body.is_base64() {
        content["encoding"] = "base64".into();
    }
    if let Some(comment) = body.comment() {
        content["comment"] = comment.into();
    }
    if !body.is_empty() {
        content["text"] = body.text(is_event_stream).into();
    }
    json!({
        "status": status.parse::<u16>().unwrap_or(0),
        "statusText": reason,
        "httpVersion": version,
        "cookies": [],
        "headers": headers(&fields),
        "content": content,
        "redirectURL": field(&fields, "location").unwrap_or_default(),
        "headersSize": -1,
        "bodySize": body.size(is_event_stream),
    })
}

type Fields<'a> = Vec<(&'a str, &'a str)>;

/// Splits a head into its first line and its fields.
fn split_head(head: &str) -> (&str, Fields<'_>) {
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let fields =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.trim(), value.trim()));
    (first, fields.collect())
}

fn field<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a str> {
    fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

fn headers(fields: &Fields<'_>) -> Vec<Value> {
    fields.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// What one side said after its head.
struct Body<'a> {
    lines: Vec<&'a Line>,
}

impl<'a> Body<'a> {
    fn new(records: impl Iterator<Item = &'a Record>) -> Self {
        let line = |record: &'a Record| match &record.content {
            Content::Line(line) => Some(line),
            _ => None,
        };
        Self { lines: records.filter_map(line).collect() }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns whether it is one body that is no UTF-8.
    fn is_base64(&self) -> bool {
        matches!(*self.lines, [Line { text: Text::Base64(_), .. }])
    }

    /// Returns its number of bytes, with those that were not recorded.
    fn size(&self, is_event_stream: bool) -> u64 {
        if is_event_stream {
            return self.text(true).len() as u64;
        }
        let size = |line: &&Line| match &line.text {
            Text::Omitted(bytes) => *bytes,
            text => text.to_bytes().map_or(0, |bytes| bytes.len() as u64),
        };
        self.lines.iter().map(size).sum()
    }

    fn comment(&self) -> Option<&'static str> {
        let has = |is: fn(&Text) -> bool| self.lines.iter().any(|line| is(&line.text));
        if has(|text| matches!(text, Text::Omitted(_))) {
            Some("a part was too long to be recorded")
        } else if has(|text| matches!(text, Text::Base64(_))) {
            Some("not UTF-8: in Base64")
        } else {
            None
        }
    }

    fn text(&self, is_event_stream: bool) -> String {
        let mut out = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            let text = match &line.text {
                Text::Base64(text) if self.is_base64() => text.clone(),
                text => text.to_string(),
            };
            if is_event_stream || line.event.is_some() {
                let fields =
                    line.event.iter().flat_map(|event| event.lines()).filter(|field| !field.is_empty());
                fields.for_each(|field| out.push_str(&format!("{field}\n")));
                text.lines().for_each(|data| out.extend(["data: ", data, "\n"]));
                out.push('\n');
            } else {
                out.push_str(if index == 0 { "" } else { "\n" });
                out.push_str(&text);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::Header;

    use super::*;

    const BY: Producer<'_> = Producer { name: "test", version: "1" };

    fn exchanges() -> Trace {
        let text = r#"{"t":1000,"from":"client","exchange":1,"head":"POST /mcp?a=1 HTTP/1.1\nHost: h:80\nContent-Type: application/json"}
{"t":1500,"from":"client","exchange":1,"line":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}"}
{"t":3000,"from":"server","exchange":1,"head":"HTTP/1.1 200 OK\nContent-Type: text/event-stream"}
{"t":4000,"from":"server","exchange":1,"line":"{\"id\":1,\"result\":{}}","event":"id: 7"}
{"t":4500,"from":"server","exchange":1,"end":"end of the body"}
{"t":5000,"from":"client","exchange":2,"head":"GET /mcp HTTP/1.1"}
{"t":6000,"from":"client","exchange":3,"line":"{}"}"#;
        let records = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        Trace::new(Header::new("test", 1_000_000_000_000), records)
    }

    /// The members that the schema of HAR 1.2 requires of an entry, with the types of their values.
    const REQUIRED: [(&str, &str); 26] = [
        ("/startedDateTime", "string"),
        ("/time", "number"),
        ("/cache", "object"),
        ("/timings/send", "number"),
        ("/timings/wait", "number"),
        ("/timings/receive", "number"),
        ("/request/method", "string"),
        ("/request/url", "string"),
        ("/request/httpVersion", "string"),
        ("/request/cookies", "array"),
        ("/request/headers", "array"),
        ("/request/queryString", "array"),
        ("/request/headersSize", "integer"),
        ("/request/bodySize", "integer"),
        ("/response/status", "integer"),
        ("/response/statusText", "string"),
        ("/response/httpVersion", "string"),
        ("/response/cookies", "array"),
        ("/response/headers", "array"),
        ("/response/content", "object"),
        ("/response/content/size", "integer"),
        ("/response/content/mimeType", "string"),
        ("/response/redirectURL", "string"),
        ("/response/headersSize", "integer"),
        ("/response/bodySize", "integer"),
        ("/comment", "string"),
    ];

    #[test]
    fn exchanges_have_all_members_that_har_requires() {
        let archive: Value =
            serde_json::from_str(&har(&exchanges(), BY).expect("exchanges").text).expect("JSON");
        assert_eq!(archive["log"]["version"], "1.2");
        assert!(
            archive["log"]["creator"]["name"].is_string() && archive["log"]["creator"]["version"].is_string()
        );
        let entries = archive["log"]["entries"].as_array().expect("entries");
        assert_eq!(entries.len(), 2);
        for entry in entries {
            for (pointer, kind) in REQUIRED {
                let is_valid = match (kind, entry.pointer(pointer)) {
                    ("string", Some(value)) => value.is_string(),
                    ("number", Some(value)) => value.is_number(),
                    ("integer", Some(value)) => value.is_i64(),
                    ("array", Some(value)) => value.is_array(),
                    ("object", Some(value)) => value.is_object(),
                    _ => false,
                };
                assert!(is_valid, "{pointer} of {entry}");
            }
        }
    }

    #[test]
    fn an_exchange_has_its_bodies_and_times() {
        let notes = har(&exchanges(), BY).expect("exchanges").notes;
        assert_eq!(notes, ["exchanges whose request has no head are left out: 3"]);
        let archive: Value =
            serde_json::from_str(&har(&exchanges(), BY).expect("exchanges").text).expect("JSON");
        let entry = &archive["log"]["entries"][0];
        assert_eq!(entry["startedDateTime"], "2001-09-09T01:46:40.001Z");
        assert_eq!(entry["timings"], json!({ "send": 0.5, "wait": 1.5, "receive": 1.5 }));
        assert_eq!(entry["comment"], "tools/call echo");
        assert_eq!(entry["request"]["url"], "http://h:80/mcp?a=1");
        assert_eq!(entry["request"]["queryString"], json!([{ "name": "a", "value": "1" }]));
        assert_eq!(entry["response"]["status"], 200);
        assert_eq!(entry["response"]["content"]["size"], 34);
        assert_eq!(entry["response"]["content"]["text"], "id: 7\ndata: {\"id\":1,\"result\":{}}\n\n");
        let unanswered = &archive["log"]["entries"][1];
        assert_eq!((&unanswered["response"]["status"], &unanswered["time"]), (&json!(0), &json!(0.0)));
    }

    #[test]
    fn a_byte_stream_has_no_exchanges() {
        assert_eq!(har(&Trace::new(Header::new("test", 0), Vec::new()), BY), Err(NoExchange));
    }
}
