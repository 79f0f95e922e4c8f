//! The floor: the same parse and print with `serde_json` on borrowed structs, and nothing else.
//!
//! No implementation of the protocol: no life cycle, no ids in flight, no versions, no duplicate members. It marks how
//! little work gives the right answer to the requests of the benches.

use alloc::borrow::Cow;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lines::Lines;

/// A request with its parameters left as text
#[derive(Deserialize)]
pub struct Envelope<'a> {
    /// Must be `2.0`
    #[serde(borrow)]
    pub jsonrpc: Cow<'a, str>,
    /// Absent on notifications
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// The method
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// The parameters
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    result: CallResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'a str>,
    content: [Block<'a>; 1],
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'a str,
    text: &'a str,
}

/// Reads the envelope alone; how long method and parameters are
#[must_use]
pub fn envelope(line: &[u8]) -> Option<(usize, usize)> {
    let read: Envelope<'_> = serde_json::from_slice(line).ok()?;
    Some((read.method.len(), read.params.map_or(0, |p| p.get().len())))
}

/// Answers one line into `out`, line end included; false when nothing is to be said
pub fn answer(line: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(request) = serde_json::from_slice::<Envelope<'_>>(line) else {
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
    let called = request.params.and_then(|p| serde_json::from_str::<Params<'_>>(p.get()).ok());
    let Some(Params { name, arguments: Some(arguments), meta }) = called.filter(|c| c.name == "echo") else {
        return canned(b",\"error\":{\"code\":-32602,\"message\":\"invalid params\"}}\n");
    };
    core::hint::black_box(name);
    let Ok(Arguments { text }) = serde_json::from_str(arguments.get()) else {
        return canned(b",\"error\":{\"code\":-32602,\"message\":\"invalid params\"}}\n");
    };
    let modern = meta.and_then(|m| m.version).is_some_and(|v| v == "2026-07-28");
    let content = [Block { r#type: "text", text: &text }];
    let result = CallResult { result_type: modern.then_some("complete"), content };
    if serde_json::to_writer(&mut *out, &Answer { jsonrpc: "2.0", id, result }).is_err() {
        return false;
    }
    out.push(b'\n');
    true
}

/// Buffers of a server process begin with this size; the capacity of a pipe
const BUFFER: usize = 64 << 10;

/// Answers lines until the input ends: one read, all its lines, one write
pub fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut lines = Lines::new(BUFFER);
    let mut out = Vec::with_capacity(BUFFER);
    while lines.fill(&mut input)? {
        while let Some(line) = lines.take() {
            answer(lines.get(line), &mut out);
        }
        if !out.is_empty() {
            output.write_all(&out)?;
            out.clear();
        }
        if out.capacity() > 1 << 20 {
            out = Vec::with_capacity(BUFFER);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Era, INITIALIZE, INITIALIZED, Request, text};

    #[test]
    fn answers_what_the_benches_ask() {
        let mut out = Vec::new();
        assert!(answer(INITIALIZE, &mut out) && !answer(INITIALIZED, &mut out));
        for era in Era::BOTH {
            out.clear();
            assert!(answer(Request::new(era, 100).line(), &mut out));
            let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(read["result"]["content"][0]["text"], text(100));
        }
    }
}
