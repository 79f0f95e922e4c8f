//! The calls of a trace as spans, in the JSON encoding of OTLP.

use core::fmt::Write as _;
use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Producer, View};
use crate::{Call, Calls, Content, Message, Outcome, Record, Side, Trace, escape};

/// Kind of a span that sends a request and waits for the response.
const KIND_CLIENT: u8 = 3;
/// Status of a span that failed.
const STATUS_ERROR: u8 = 2;

/// Returns the calls of a trace as spans of OpenTelemetry, in OTLP/JSON: one resource for the spans of each side.
///
/// One span for each request, with the names and attributes of the semantic conventions for MCP. Its parent is that of
/// `traceparent` in the request's `_meta`, if there is one. A call without a response ends with the trace.
#[must_use]
pub fn otlp(trace: &Trace, by: Producer<'_>) -> View {
    let calls = Calls::new(trace);
    let digest = digest(trace);
    let facts = Facts::of(trace, digest);
    let (mut of_client, mut of_server) = (Vec::new(), Vec::new());
    for (index, call) in calls.calls.iter().enumerate() {
        let spans = if call.from == Side::Client { &mut of_client } else { &mut of_server };
        spans.push(facts.span(trace, index, call));
    }
    let scope = json!({ "name": by.name, "version": by.version });
    let sides = [
        (facts.client.as_deref().unwrap_or("mcp-client"), of_client),
        (facts.server.as_deref().unwrap_or("mcp-server"), of_server),
    ];
    let resources = sides.into_iter().filter(|(_, spans)| !spans.is_empty()).map(|(service, spans)| {
        json!({
            "resource": { "attributes": [attribute("service.name", service)] },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        })
    });
    let document = json!({ "resourceSpans": resources.collect::<Vec<_>>() });
    View { text: format!("{}\n", escape::lines(&document.to_string())), notes: Vec::new() }
}

/// Returns a digest of the whole trace: equal traces have equal ids.
fn digest(trace: &Trace) -> Sha256 {
    struct Hashed(Sha256);
    impl Write for Hashed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut hashed = Hashed(Sha256::new());
    // A digest takes all bytes.
    let _ = trace.write(&mut hashed);
    hashed.0
}

/// What spans have in common.
struct Facts<'a> {
    digest: Sha256,
    /// Heads of each HTTP exchange, that of the request first.
    heads: HashMap<u64, Vec<&'a str>>,
    /// Names of both programs.
    client: Option<String>,
    server: Option<String>,
    /// Revision of the handshake.
    revision: Option<String>,
    /// Time at which the trace ends.
    end: u64,
}

impl<'a> Facts<'a> {
    fn of(trace: &'a Trace, digest: Sha256) -> Self {
        let mut facts =
            Self { digest, heads: HashMap::new(), client: None, server: None, revision: None, end: 0 };
        for record in &trace.records {
            facts.end = facts.end.max(record.at);
            if let (Content::Head(head), Some(exchange)) = (&record.content, record.exchange) {
                facts.heads.entry(exchange).or_default().push(head);
            }
            if facts.client.is_some() && facts.server.is_some() && facts.revision.is_some() {
                continue;
            }
            for message in Message::of(record) {
                let name = |of: &mcp_proto::RawJson, member| of.member(member)?.member("name")?.string();
                let meta = message.params.as_ref().and_then(|params| params.member("_meta"));
                let of_meta = meta.and_then(|meta| name(&meta, "io.modelcontextprotocol/clientInfo"));
                let of_params = message.params.as_ref().and_then(|params| name(params, "clientInfo"));
                let of_result = message.result.as_ref().and_then(|result| name(result, "serverInfo"));
                let revision = message.result.as_ref().and_then(|result| result.member("protocolVersion"));
                facts.client = facts.client.take().or(of_params).or(of_meta);
                facts.server = facts.server.take().or(of_result);
                facts.revision = facts.revision.take().or_else(|| revision?.string());
            }
        }
        facts
    }

    /// Returns so many bytes of an id, in hexadecimal digits.
    fn id(&self, of: &str, bytes: usize) -> String {
        let digest = self.digest.clone().chain_update(of).finalize();
        digest.iter().take(bytes).fold(String::new(), |mut out, byte| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:02x}");
            out
        })
    }

    fn span(&self, trace: &Trace, index: usize, call: &Call) -> Value {
        let request = trace.records.get(call.request);
        let messages = request.map(Message::of).unwrap_or_default();
        let message =
            messages.iter().find(|message| message.is_request() && message.id.as_ref() == Some(&call.id));
        let parent = message.and_then(|message| message.meta("traceparent"));
        let parent = parent.as_deref().and_then(parse_parent);
        // All spans without a parent are of one trace.
        let trace_id = parent.map_or_else(|| self.id("trace", 16), |(trace, _)| trace.to_owned());
        let nanos = |micros: u64| {
            let micros = trace.header.unix_millis.saturating_mul(1_000).saturating_add(micros);
            micros.saturating_mul(1_000).to_string()
        };
        let mut span = json!({
            "traceId": trace_id,
            "spanId": self.id(&format!("span-{index}"), 8),
            "name": span_name(call),
            "kind": KIND_CLIENT,
            "startTimeUnixNano": nanos(call.start),
            "endTimeUnixNano": nanos(call.end.unwrap_or(self.end).max(call.start)),
            "attributes": self.attributes(call, message, request),
        });
        if let Some((_, parent)) = parent {
            span["parentSpanId"] = parent.into();
        }
        match &call.outcome {
            Outcome::Succeeded => {}
            Outcome::Failed { message, .. } => {
                span["status"] = json!({ "code": STATUS_ERROR, "message": message })
            }
            _ => span["status"] = json!({ "code": STATUS_ERROR }),
        }
        span
    }

    fn attributes(&self, call: &Call, message: Option<&Message>, request: Option<&Record>) -> Vec<Value> {
        let is_tool = call.method == "tools/call";
        let name = match &*call.method {
            "tools/call" => Some("gen_ai.tool.name"),
            "prompts/get" => Some("gen_ai.prompt.name"),
            method if method.starts_with("resources/") => Some("mcp.resource.uri"),
            _ => None,
        };
        let exchange = request.and_then(|request| request.exchange);
        let field = |name: &str| {
            let heads = exchange.and_then(|exchange| self.heads.get(&exchange));
            heads?.iter().find_map(|head| head_field(head, name))
        };
        let revision = message.and_then(|message| message.meta("io.modelcontextprotocol/protocolVersion"));
        let revision = revision.or_else(|| field("mcp-protocol-version")).or_else(|| self.revision.clone());
        let error = match &call.outcome {
            Outcome::Succeeded => None,
            Outcome::Failed { code: Some(code), .. } => Some(code.to_string()),
            Outcome::Failed { .. } => Some("_OTHER".to_owned()),
            other => Some(other.name().to_owned()),
        };
        let code = match &call.outcome {
            Outcome::Failed { code: Some(code), .. } => Some(code.to_string()),
            _ => None,
        };
        let id = call.id.string().unwrap_or_else(|| call.id.as_str().to_owned());
        let texts = [
            ("mcp.method.name", Some(call.method.clone())),
            ("mcp.protocol.version", revision),
            ("mcp.session.id", field("mcp-session-id")),
            ("jsonrpc.request.id", Some(id)),
            ("gen_ai.operation.name", is_tool.then(|| "execute_tool".to_owned())),
            (name.unwrap_or_default(), name.and_then(|_| call.target.clone())),
            ("network.transport", Some(if exchange.is_some() { "tcp" } else { "pipe" }.to_owned())),
            ("network.protocol.name", exchange.map(|_| "http".to_owned())),
            ("error.type", error),
            ("rpc.response.status_code", code),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| Some(attribute(name, &text?)));
        let sizes = [
            ("mcp.request.size", Some(call.request_bytes)),
            ("mcp.response.size", call.response.map(|_| call.response_bytes)),
        ];
        // 64-bit numbers are strings in the JSON of protobuf.
        let size = |(name, size): (&str, Option<usize>)| {
            Some(json!({ "key": name, "value": { "intValue": size?.to_string() } }))
        };
        texts.chain(sizes.into_iter().filter_map(size)).collect()
    }
}

fn attribute(name: &str, text: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": text } })
}

fn span_name(call: &Call) -> String {
    match &call.target {
        Some(target) if matches!(&*call.method, "tools/call" | "prompts/get") => {
            format!("{} {target}", call.method)
        }
        _ => call.method.clone(),
    }
}

fn head_field(head: &str, name: &str) -> Option<String> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields
        .find(|(field, _)| field.trim().eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
}

/// Returns the trace and the span of a `traceparent`.
fn parse_parent(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, length| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && (version != "00" || parts.next().is_none())
        && is_hex(flags, 2)
        && [(trace, 32), (span, 16)]
            .iter()
            .all(|(part, length)| is_hex(part, *length) && part.bytes().any(|b| b != b'0'));
    is_valid.then_some((trace, span))
}

#[cfg(test)]
mod tests {
    use crate::Header;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn spans(lines: &[&str]) -> Value {
        let records = lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
        let trace = Trace::new(Header::new("test", 1_700_000_000_000), records);
        let by = Producer { name: "test", version: "1" };
        let text = otlp(&trace, by).text;
        assert_eq!(text, otlp(&trace, by).text, "ids are the same each time");
        serde_json::from_str(&text).expect("JSON")
    }

    fn value<'a>(span: &'a Value, name: &str) -> Option<&'a str> {
        let attributes = span["attributes"].as_array().expect("attributes");
        let found = attributes.iter().find(|attribute| attribute["key"] == name)?;
        found["value"]["stringValue"].as_str().or_else(|| found["value"]["intValue"].as_str())
    }

    #[test]
    fn calls_are_spans_with_the_attributes_of_the_conventions() {
        let document = spans(&[
            r#"{"t":0,"from":"client","line":"{\"id\":0,\"method\":\"initialize\",\"params\":{\"clientInfo\":{\"name\":\"editor\"}}}"}"#,
            r#"{"t":9,"from":"server","line":"{\"id\":0,\"result\":{\"protocolVersion\":\"2025-11-25\",\"serverInfo\":{\"name\":\"demo\"}}}"}"#,
            &r#"{"t":10,"from":"client","line":"{\"id\":\"x\",\"method\":\"tools/call\",\"params\":{\"name\":\"add\",\"_meta\":{\"traceparent\":\"PARENT\"}}}"}"#
                .replace("PARENT", PARENT),
            r#"{"t":11,"from":"server","line":"{\"id\":5,\"method\":\"roots/list\"}"}"#,
            r#"{"t":30,"from":"server","line":"{\"id\":\"x\",\"error\":{\"code\":-32602,\"message\":\"no\"}}"}"#,
            r#"{"t":50,"from":"server","end":"exit code 0"}"#,
        ]);
        let of = |side: usize| &document["resourceSpans"][side];
        let services =
            [0, 1].map(|side| of(side)["resource"]["attributes"][0]["value"]["stringValue"].clone());
        assert_eq!(services, ["editor", "demo"]);
        let client = &of(0)["scopeSpans"][0]["spans"];
        let add = &client[1];
        assert_eq!(add["name"], "tools/call add");
        assert_eq!(add["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(add["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!(add["startTimeUnixNano"], "1700000000000010000");
        assert_eq!(add["endTimeUnixNano"], "1700000000000030000");
        assert_eq!(add["status"], json!({ "code": 2, "message": "no" }));
        let want = [
            ("mcp.method.name", "tools/call"),
            ("mcp.protocol.version", "2025-11-25"),
            ("jsonrpc.request.id", "x"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "add"),
            ("network.transport", "pipe"),
            ("error.type", "-32602"),
            ("rpc.response.status_code", "-32602"),
        ];
        for (name, text) in want {
            assert_eq!(value(add, name), Some(text), "{name}");
        }
        assert!(value(add, "mcp.response.size").is_some());
        assert!(client[0].get("status").is_none() && client[0].get("parentSpanId").is_none());
        // It has no response: it ends with the trace.
        let roots = &of(1)["scopeSpans"][0]["spans"][0];
        assert_eq!(value(roots, "error.type"), Some("unanswered"));
        assert_eq!(roots["endTimeUnixNano"], "1700000000000050000");
        assert_eq!(roots["traceId"], client[0]["traceId"]);
        assert_ne!(roots["spanId"], client[0]["spanId"]);
    }

    #[test]
    fn spans_of_http_have_the_session_of_their_heads() {
        let document = spans(&[
            r#"{"t":0,"from":"client","exchange":4,"head":"POST /mcp\nMCP-Session-Id: s1\nMCP-Protocol-Version: 2025-06-18"}"#,
            r#"{"t":1,"from":"client","exchange":4,"line":"{\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"file:///a\"}}"}"#,
        ]);
        let span = &document["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let want = [
            ("mcp.session.id", "s1"),
            ("mcp.protocol.version", "2025-06-18"),
            ("mcp.resource.uri", "file:///a"),
            ("network.transport", "tcp"),
            ("network.protocol.name", "http"),
        ];
        for (name, text) in want {
            assert_eq!(value(span, name), Some(text), "{name}");
        }
    }

    #[test]
    fn malformed_parents_are_ignored() {
        assert!(parse_parent(PARENT).is_some());
        for wrong in [
            "",
            "00-1-2-01",
            &PARENT.replace("4bf", "4BF"),
            &format!("{PARENT}-x"),
            &PARENT.replace("00-4", "ff-4"),
        ] {
            assert_eq!(parse_parent(wrong), None, "{wrong}");
        }
    }
}
