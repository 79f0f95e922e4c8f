//! The floor: parsing and printing by `serde_json` with borrowed structs, and nothing else.
//!
//! It does not implement the protocol: it has no life cycle, no ids in flight, no versions and no check for duplicate
//! members. It shows the least work that answers the requests of the benches correctly.

use alloc::borrow::Cow;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lines::LineBuffer;

/// A request whose parameters are kept as text.
#[derive(Deserialize)]
pub struct JsonEnvelope<'a> {
    /// Must be `2.0`.
    #[serde(borrow)]
    pub jsonrpc: Cow<'a, str>,
    /// Absent in notifications.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// Method.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// Parameters.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<CallMeta<'a>>,
}

#[derive(Deserialize)]
struct CallMeta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct CallResponse<'a> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    result: EchoResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EchoResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'a str>,
    content: [TextBlock<'a>; 1],
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'a str,
    text: &'a str,
}

/// Reads only the envelope; returns the lengths of method and parameters.
#[must_use]
pub fn envelope(line: &[u8]) -> Option<(usize, usize)> {
    let read: JsonEnvelope<'_> = serde_json::from_slice(line).ok()?;
    Some((read.method.len(), read.params.map_or(0, |p| p.get().len())))
}

/// Answers one line into `out`, with a line end; returns `false` if no answer is due.
pub fn answer(line: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(request) = serde_json::from_slice::<JsonEnvelope<'_>>(line) else {
        out.extend_from_slice(
            b"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"parse error\"}}\n",
        );
        return true;
    };
    let Some(id) = request.id.filter(|_| request.jsonrpc == "2.0") else { return false };
    let mut canned = |rest: &[u8]| {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(id.get().as_bytes());
        out.extend_from_slice(rest);
        true
    };
    match &*request.method {
        "tools/call" => {}
        "initialize" => {
            return canned(
                b",\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\
                  \"serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}}}\n",
            );
        }
        _ => return canned(b",\"error\":{\"code\":-32601,\"message\":\"method not found\"}}\n"),
    }
    let called = request.params.and_then(|p| serde_json::from_str::<CallParams<'_>>(p.get()).ok());
    let Some(CallParams { name, arguments: Some(arguments), meta }) = called.filter(|c| c.name == "echo")
    else {
        return canned(b",\"error\":{\"code\":-32602,\"message\":\"invalid params\"}}\n");
    };
    core::hint::black_box(name);
    let Ok(EchoArguments { text }) = serde_json::from_str(arguments.get()) else {
        return canned(b",\"error\":{\"code\":-32602,\"message\":\"invalid params\"}}\n");
    };
    let modern = meta.and_then(|m| m.version).is_some_and(|v| v == "2026-07-28");
    let content = [TextBlock { r#type: "text", text: &text }];
    let result = EchoResult { result_type: modern.then_some("complete"), content };
    if serde_json::to_writer(&mut *out, &CallResponse { jsonrpc: "2.0", id, result }).is_err() {
        return false;
    }
    out.push(b'\n');
    true
}

/// Initial size of the buffers of a server process: the capacity of a pipe.
const BUFFER_SIZE: usize = 64 << 10;

/// Answers lines until the end of the input: one read, all its lines, one write.
///
/// # Errors
///
/// Those of `input` and `output`.
pub fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut lines = LineBuffer::new(BUFFER_SIZE);
    let mut out = Vec::with_capacity(BUFFER_SIZE);
    while lines.fill(&mut input)? {
        while let Some(line) = lines.take() {
            answer(lines.get(line), &mut out);
        }
        if !out.is_empty() {
            output.write_all(&out)?;
            out.clear();
        }
        if out.capacity() > 1 << 20 {
            out = Vec::with_capacity(BUFFER_SIZE);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{INITIALIZE, INITIALIZED, RequestLine, WireEra, text};

    #[test]
    fn floor_answers_requests_of_the_benches() {
        let mut out = Vec::new();
        assert!(answer(INITIALIZE, &mut out) && !answer(INITIALIZED, &mut out));
        for era in WireEra::BOTH {
            out.clear();
            assert!(answer(RequestLine::new(era, 100).line(), &mut out));
            let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(read["result"]["content"][0]["text"], text(100));
        }
    }
}
