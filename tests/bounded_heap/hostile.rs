//! Clients that send much, and read nothing until the server takes no more.

use mcp_proto::pipe::Pipe;
use mcp_proto::server::{Call, Event};
use mcp_proto::{Limits, RpcError, UseError};
use mcp_tests::harness::rounds;
use serde_json::{Value, json};

use crate::{NOW, REFUSED, call, confirm, echo, feed, line, meta, server, small, tiny, within};

/// Messages of a client that may do harm where memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attack {
    Calls,
    Noise,
    UnknownMethods,
    Pings,
    /// Names with escapes, which are copied.
    Escapes,
    Mixed,
    /// Arrays of a call and a request of an unknown method, in a revision that has them.
    Batches,
    /// Subscriptions to many resources.
    Listens,
    /// Parameters of many members.
    Members,
    /// A log level that is none.
    Levels,
    /// A revision that is none.
    Versions,
}

impl Attack {
    const ALL: [Self; 11] = [
        Self::Calls,
        Self::Noise,
        Self::UnknownMethods,
        Self::Pings,
        Self::Escapes,
        Self::Mixed,
        Self::Batches,
        Self::Listens,
        Self::Members,
        Self::Levels,
        Self::Versions,
    ];

    /// Returns a message of `length` bytes, more or less, and whether it gets an answer with its id.
    fn message(self, id: usize, length: usize) -> (Vec<u8>, bool) {
        let request_with = |method: &str, params: &Value| {
            line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
        };
        let request = |method: &str| request_with(method, &json!({ "_meta": meta() }));
        match self {
            Self::Calls => (call(id, "echo", length), true),
            Self::Noise => (line(&json!("x".repeat(length))), false),
            Self::UnknownMethods => (request(&"m".repeat(length)), true),
            Self::Pings => (request("ping"), true),
            Self::Escapes => {
                let text = String::from_utf8(request(&"m".repeat(length / 6))).expect("text");
                (text.replace('m', "\\u006d").into_bytes(), false)
            }
            Self::Mixed => Self::ALL[id % 5].message(id, length),
            Self::Batches => {
                let params = json!({ "name": "echo", "arguments": { "text": "x".repeat(length) } });
                let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                let other = json!({ "jsonrpc": "2.0", "id": format!("o{id}"), "method": "m".repeat(100) });
                (line(&json!([call, other])), true)
            }
            Self::Listens => {
                let uris: Vec<String> = (0..length / 30).map(|n| format!("device://{id}/{n}")).collect();
                let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta() });
                (request_with("subscriptions/listen", &params), false)
            }
            Self::Members => {
                let mut params: serde_json::Map<String, Value> =
                    (0..length / 12).map(|n| (format!("m{n}"), json!(n))).collect();
                params.insert("_meta".to_owned(), meta());
                (request_with("ping", &params.into()), true)
            }
            Self::Levels | Self::Versions => {
                let mut meta = meta();
                let name = if self == Self::Levels { "logLevel" } else { "protocolVersion" };
                meta[format!("io.modelcontextprotocol/{name}")] = json!("v".repeat(length));
                (request_with("tools/call", &json!({ "name": "echo", "_meta": meta })), false)
            }
        }
    }
}

/// How a handler answers: at once, or once nothing else happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    Prompt,
    Slow,
}

/// Sends messages to a server within `budget` bytes, and reads nothing until the server takes no more. Returns its output.
fn attack(limits: &Limits, budget: isize, kind: Attack, handler: Handler, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut server = server(limits.clone());
    let mut output = Vec::with_capacity(1 << 20);
    let mut held: Vec<Call> = Vec::with_capacity(64);
    if kind == Attack::Batches {
        let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let first = json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params });
        feed(&mut server, &line(&first), &mut confirm);
        feed(
            &mut server,
            &line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })),
            &mut confirm,
        );
        server.consume(server.transmit().len());
    }
    let mut input = messages.iter().flat_map(|message| message.chunks(64)).peekable();
    let ((), _) = within(budget, || {
        let mut rng = 1_u32;
        let mut turns = 0;
        loop {
            while let Some(event) = server.poll_event(NOW) {
                match event {
                    Event::Call(call) if handler == Handler::Prompt => echo(&mut server, call),
                    Event::Call(call) => held.push(call),
                    _ => {}
                }
            }
            if let Some(piece) = input.next_if(|_| server.wants_input()) {
                server.handle_input(NOW, piece);
            } else if let Some(call) = held.pop() {
                echo(&mut server, call);
            } else if !server.transmit().is_empty() {
                rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let n = server.transmit().len().min(1 + (rng >> 24) as usize);
                output.extend_from_slice(&server.transmit()[..n]);
                server.consume(n);
            } else if input.peek().is_none() && server.poll_event(NOW).is_none() {
                break;
            }
            turns += 1;
            assert!(turns < 1_000_000, "{kind:?} {handler:?} {budget}: the server is silent");
        }
    });
    output
}

#[test]
fn client_that_reads_no_answers_ends_nothing_and_loses_none() {
    for (name, limits, budgets) in [
        ("tiny", tiny(), (6_000..24_000).step_by(2_000 / rounds(2) as usize)),
        ("small", small(), (10_000..64_000).step_by(8_000 / rounds(2) as usize)),
    ] {
        let mut refusals = 0;
        for kind in Attack::ALL {
            let length = limits.max_frame - 400;
            let all: Vec<_> = (0..60).map(|id| kind.message(id, [length, 10, length / 3][id % 3])).collect();
            let messages: Vec<Vec<u8>> = all.iter().map(|(message, _)| message.clone()).collect();
            for budget in budgets.clone() {
                for handler in [Handler::Prompt, Handler::Slow] {
                    let output = attack(&limits, budget, kind, handler, &messages);
                    let replies: Vec<Value> = output
                        .split(|byte| *byte == b'\n')
                        .filter(|line| !line.is_empty())
                        .map(|line| serde_json::from_slice(line).expect("JSON"))
                        .flat_map(|reply| match reply {
                            Value::Array(replies) => replies,
                            reply => vec![reply],
                        })
                        .collect();
                    let answers = |id: Value| replies.iter().filter(|reply| reply["id"] == id).count();
                    let ids =
                        all.iter().enumerate().filter(|(_, (_, is_answered))| *is_answered).map(|(id, _)| id);
                    // A batch that there is no memory for is refused as a whole, without an id.
                    let of_batches = kind == Attack::Batches;
                    for id in ids {
                        let count = answers(json!(id));
                        assert!(
                            count == 1 || (of_batches && count == 0),
                            "{name} {kind:?} {handler:?} {budget}: {id}: {count}"
                        );
                        if of_batches {
                            assert_eq!(
                                answers(json!(format!("o{id}"))),
                                count,
                                "{name} {handler:?} {budget}: {id}"
                            );
                        }
                    }
                    refusals += usize::from(REFUSED.get() > 0);
                }
            }
        }
        assert!(refusals > 50, "{name}: memory was short in {refusals} runs only");
    }
}

/// Takes all memory that is left in `within`, in blocks that fit into `all`.
fn exhaust(all: &mut Vec<Vec<u8>>) {
    for size in [4_096, 512, 64, 8] {
        while all.len() < all.capacity() {
            let mut block = Vec::new();
            if block.try_reserve_exact(size).is_err() {
                break;
            }
            all.push(block);
        }
    }
}

#[test]
fn batch_and_errors_that_were_owed_are_sent_after_the_end_of_input() {
    for in_batch in [false, true] {
        let count = if in_batch { 3 } else { 8 };
        let mut server = server(small());
        let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let first = json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params });
        feed(&mut server, &line(&first), &mut confirm);
        feed(
            &mut server,
            &line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })),
            &mut confirm,
        );
        server.consume(server.transmit().len());
        let call = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "echo", "arguments": {} } });
        let calls = (0..count).map(call);
        let input =
            if in_batch { line(&calls.collect()) } else { calls.flat_map(|call| line(&call)).collect() };
        let mut held = Vec::with_capacity(count);
        feed(&mut server, &input, &mut |_, call| held.push(call));
        server.handle_eof(NOW);
        while server.poll_event(NOW).is_some() {}
        let (mut blocks, mut output) = (Vec::with_capacity(4_000), Vec::with_capacity(4_000));
        let error =
            RpcError::internal("a message that is longer than what an empty outbox has room for".repeat(4));
        within(30_000, || {
            exhaust(&mut blocks);
            for call in &held {
                server.engine().fail(NOW, call.id(), &error).expect("an open call");
                assert_eq!(server.engine().fail(NOW, call.id(), &error), Err(UseError::Stale));
            }
            assert!(server.poll_event(NOW).is_none() && !server.is_drained(), "answers are owed");
            while !server.transmit().is_empty() {
                output.extend_from_slice(server.transmit());
                server.consume(server.transmit().len());
            }
            blocks.clear();
            for _ in 0..4 {
                while server.poll_event(NOW).is_some() {}
                while !server.transmit().is_empty() {
                    output.extend_from_slice(server.transmit());
                    server.consume(server.transmit().len());
                }
            }
        });
        assert!(server.is_drained());
        let mut ids: Vec<u64> = output
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .flat_map(|reply| match reply {
                Value::Array(replies) => replies,
                reply => vec![reply],
            })
            .map(|reply: Value| reply["id"].as_u64().expect("an id"))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..count as u64).collect::<Vec<_>>(), "in a batch: {in_batch}");
    }
}
