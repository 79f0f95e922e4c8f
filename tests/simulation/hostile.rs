//! Lines that a peer may write: good, nearly good, and mad.

use mcp_tests::harness::Rng;
use mcp_tests::harness::build::{initialize, legacy, modern, modern_with, note};
use serde_json::{Value, json};

/// Changes a line somewhere, which may make it anything
pub(crate) fn mutate(rng: &mut Rng, line: &str) -> Vec<u8> {
    let mut bytes = line.as_bytes().to_vec();
    for _ in 0..=rng.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => drop(bytes.remove(at)),
            1 => bytes[at] = *rng.pick(b"{}[]\",:0\\ x\xff\x00\x1f"),
            2 => bytes.insert(at, *rng.pick(b"{}[]\",:1\\ e\xc3")),
            3 => bytes.truncate(at),
            4 => {
                let end = at + rng.below(bytes.len() - at);
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => bytes.swap(at, 0),
        }
    }
    bytes.retain(|b| *b != b'\n');
    bytes
}

/// A line that is mad from the start
pub(crate) fn mad(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":".repeat(1 + rng.below(300)),
        1 => b"[".repeat(rng.below(6_000)),
        2 => vec![b'x'; rng.below(12_000)],
        3 => (0..rng.below(200)).map(|_| (rng.next() % 255) as u8).filter(|b| *b != b'\n').collect(),
        4 => format!(
            r#"{{"jsonrpc":"2.0","id":"late","method":"x","p":"{}","id":2}}"#,
            "y".repeat(rng.below(6_000))
        )
        .into_bytes(),
        5 => format!(r#"[{}]"#, vec!["1"; rng.below(40)].join(",")).into_bytes(),
        6 => b"\xef\xbb\xbf{}".to_vec(),
        _ => br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{"a":1,"a":2}}"#.to_vec(),
    }
}

/// Something that a client may say, with `id` for a request
pub(crate) fn from_client(rng: &mut Rng, id: &str) -> Value {
    let params = json!({"name": "a", "arguments": {"x": "y".repeat(rng.below(300))}});
    let token = json!({"progressToken": format!("t-{id}")});
    match rng.below(16) {
        0..=3 => modern_with(id, "tools/call", params, &token),
        4 => modern(id, "tools/list", json!({})),
        5 => modern(id, "server/discover", json!({})),
        6 => {
            modern_with(id, "tools/list", json!({}), &json!({"io.modelcontextprotocol/protocolVersion": "2"}))
        }
        7..=9 => {
            let mut params = params;
            params["_meta"] = token;
            legacy(id, "tools/call", params)
        }
        10 => legacy(id, "ping", Value::Null),
        11 => initialize(id, ["2024-11-05", "2025-03-26", "2025-11-25", "?"][rng.below(4)]),
        12 => note("notifications/initialized", Value::Null),
        13 => legacy(id, "unheard/of", json!({})),
        14 => note("notifications/odd", json!({"x": [1]})),
        _ => {
            let members: Vec<_> = (0..=rng.below(4))
                .map(|i| match rng.below(3) {
                    0 => legacy(format!("{id}.{i}"), "ping", Value::Null),
                    1 => note("notifications/odd", Value::Null),
                    _ => legacy(format!("{id}.{i}"), "tools/call", json!({"name": "a"})),
                })
                .collect();
            members.into()
        }
    }
}
