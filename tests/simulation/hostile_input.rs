//! Lines of a peer: valid, nearly valid, and arbitrary.

use mcp_tests::harness::Rng;
use mcp_tests::harness::build::{
    initialize_request, legacy_request, modern_request, modern_request_with, notification,
};
use serde_json::{Value, json};

/// Mutates a line; the result may be any bytes.
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

/// Returns a line that is not a message, or an extreme one.
pub(crate) fn arbitrary_line(rng: &mut Rng) -> Vec<u8> {
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

/// Returns a message of a client, with `id` if it is a request.
pub(crate) fn client_message(rng: &mut Rng, id: &str) -> Value {
    let params = json!({"name": "a", "arguments": {"x": "y".repeat(rng.below(300))}});
    let token = json!({"progressToken": format!("t-{id}")});
    match rng.below(16) {
        0..=3 => modern_request_with(id, "tools/call", params, &token),
        4 => modern_request(id, "tools/list", json!({})),
        5 => modern_request(id, "server/discover", json!({})),
        6 => modern_request_with(
            id,
            "tools/list",
            json!({}),
            &json!({"io.modelcontextprotocol/protocolVersion": "2"}),
        ),
        7..=9 => {
            let mut params = params;
            params["_meta"] = token;
            legacy_request(id, "tools/call", params)
        }
        10 => legacy_request(id, "ping", Value::Null),
        11 => initialize_request(id, ["2024-11-05", "2025-03-26", "2025-11-25", "?"][rng.below(4)]),
        12 => notification("notifications/initialized", Value::Null),
        13 => legacy_request(id, "unheard/of", json!({})),
        14 => notification("notifications/odd", json!({"x": [1]})),
        _ => {
            let members: Vec<_> = (0..=rng.below(4))
                .map(|i| match rng.below(3) {
                    0 => legacy_request(format!("{id}.{i}"), "ping", Value::Null),
                    1 => notification("notifications/odd", Value::Null),
                    _ => legacy_request(format!("{id}.{i}"), "tools/call", json!({"name": "a"})),
                })
                .collect();
            members.into()
        }
    }
}
