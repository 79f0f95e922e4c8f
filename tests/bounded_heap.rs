//! Servers and clients whose heap is bounded: what does not fit is refused, and nothing else is lost.
//!
//! The allocator counts the bytes of each thread, and refuses those beyond the budget of the thread. What the core does not
//! ask for in advance ends the test program then.

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use mcp_proto::h1::HttpLimits;
use mcp_proto::http;
use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, EncodeError, Entropy, Instant, Limits, RawJson,
    RpcError, UseError, client,
};
use serde_json::{Value, json};

struct Budgeted;

#[global_allocator]
static ALLOCATOR: Budgeted = Budgeted;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static BUDGET: Cell<isize> = const { Cell::new(isize::MAX) };
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// Counts a change of the live bytes. Returns whether it is within the budget.
fn count(change: isize) -> bool {
    let live = LIVE.get() + change;
    // The report of a failed assertion needs memory.
    if change > 0 && live > BUDGET.get() && !std::thread::panicking() {
        REFUSED.set(REFUSED.get() + 1);
        return false;
    }
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    true
}

// SAFETY: the blocks are those of the system's allocator.
unsafe impl GlobalAlloc for Budgeted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !count(layout.size() as isize) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    // As on a device, an allocation that moves has both blocks for a moment.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the size is not 0, and the alignment is that of the block.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Runs `work` with `bytes` more than are in use now, and returns its outcome and the most bytes that it had in use.
fn within<R>(bytes: isize, work: impl FnOnce() -> R) -> (R, isize) {
    let live = LIVE.get();
    PEAK.set(live);
    REFUSED.set(0);
    BUDGET.set(live.saturating_add(bytes));
    let outcome = work();
    BUDGET.set(isize::MAX);
    (outcome, PEAK.get() - live)
}

const NOW: Instant = Instant::from_micros(1);

fn server(limits: Limits) -> Server {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    Server::new(Arc::new(Config::new("device", "1").capabilities(capabilities).limits(limits)), NOW)
}

/// Returns the limits of a small device, for pointers that are twice as wide as there.
fn small() -> Limits {
    let mut limits = Limits::small();
    limits.memory_reserve *= 2;
    limits
}

/// Returns the limits of a tiny device, as [`small`].
fn tiny() -> Limits {
    let mut limits = Limits::tiny();
    limits.memory_reserve *= 2;
    limits
}

fn line(message: &Value) -> Vec<u8> {
    let mut text = message.to_string().into_bytes();
    text.push(b'\n');
    text
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Returns a call of the tool `name`, with a text of `length` bytes.
fn call(id: usize, name: &str, length: usize) -> Vec<u8> {
    let arguments = json!({ "text": "x".repeat(length) });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta() });
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
}

/// Feeds input as a UART does, in small pieces, and lets `answer` answer each call.
fn feed(server: &mut Server, input: &[u8], answer: &mut dyn FnMut(&mut Server, Call)) {
    for piece in input.chunks(64) {
        server.handle_input(NOW, piece);
        while let Some(event) = server.poll_event(NOW) {
            if let Event::Call(call) = event {
                answer(server, call);
            }
        }
    }
}

/// Returns the messages that the server has written, and consumes them.
fn written(server: &mut Server) -> Vec<Value> {
    let mut all = Vec::new();
    while !server.transmit().is_empty() {
        let n = server.transmit().len();
        all.extend_from_slice(server.transmit());
        server.consume(n);
    }
    all.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

/// Answers with `ok`.
#[allow(clippy::needless_pass_by_value, reason = "a function of `feed`")]
fn confirm(server: &mut Server, call: Call) {
    server.engine().complete(NOW, call.id(), &CallToolResult::text("ok")).expect("an open call");
}

/// Answers with a text as long as that of the call, or with an error if there is no memory for it.
#[allow(clippy::needless_pass_by_value, reason = "a function of `feed`")]
fn echo(server: &mut Server, call: Call) {
    #[derive(serde::Deserialize)]
    struct Arguments<'a> {
        text: &'a str,
    }
    let tool = call.tool_call().expect("a tool call");
    let arguments: Arguments<'_> = tool.parse().expect("a text");
    match server.engine().complete(NOW, call.id(), &CallToolResult::text(arguments.text)) {
        Ok(()) => {}
        Err(UseError::Encode(EncodeError::OutOfMemory)) => {
            server.engine().fail(NOW, call.id(), &RpcError::internal("no memory")).expect("an open call");
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn request_without_memory_is_refused_and_connection_continues() {
    let (mut refused, mut answered) = (0, 0);
    for budget in (3_000..14_000).step_by(100) {
        let mut server = server(small());
        let (large, small) = (call(1, "echo", 2_000), call(2, "echo", 10));
        let ((), _) = within(budget, || {
            feed(&mut server, &large, &mut echo);
            let n = server.transmit().len();
            assert!(n > 0, "the request was not answered with {budget} bytes");
            // Consumed without a copy, which would need memory, too.
            let is_error = server.transmit().windows(7).any(|w| w == b"\"error\"");
            assert!(server.transmit().windows(6).any(|w| w == b"\"id\":1"), "{budget}");
            refused += usize::from(is_error);
            answered += usize::from(!is_error);
            server.consume(n);
        });
        feed(&mut server, &small, &mut echo);
        let replies = written(&mut server);
        assert_eq!(replies.len(), 1, "{budget}");
        assert_eq!(
            (&replies[0]["id"], &replies[0]["result"]["content"][0]["text"]),
            (&json!(2), &json!("xxxxxxxxxx"))
        );
    }
    assert!(
        refused > 10 && answered > 10,
        "{refused} refused, {answered} answered: the budgets do not reach both"
    );
}

#[test]
fn refusal_names_memory_as_its_reason() {
    let mut server = server(small());
    let input = call(7, "echo", 6_000);
    let ((), _) = within(3_500, || feed(&mut server, &input, &mut echo));
    let replies = written(&mut server);
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert_eq!((&replies[0]["id"], &replies[0]["error"]["code"]), (&json!(7), &json!(-32603)));
    assert_eq!(replies[0]["error"]["message"], "not enough memory for the message");
}

#[test]
fn flood_without_memory_loses_no_request() {
    for budget in (3_000..9_000).step_by(500) {
        let mut server = server(small());
        let input: Vec<u8> = (0..200).flat_map(|id| call(id, "echo", (id * 37) % 3_000)).collect();
        let mut answered = 0;
        let ((), _) = within(budget, || {
            for piece in input.chunks(64) {
                feed(&mut server, piece, &mut echo);
                answered += server.transmit().iter().filter(|byte| **byte == b'\n').count();
                server.consume(usize::MAX);
            }
        });
        assert_eq!(answered, 200, "with {budget} bytes");
        assert!(REFUSED.get() > 0, "the budget of {budget} bytes was never reached");
    }
}

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
        server.consume(usize::MAX);
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
        ("tiny", tiny(), (6_000..24_000).step_by(1_000)),
        ("small", small(), (10_000..64_000).step_by(4_000)),
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
        server.consume(usize::MAX);
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
            output.extend_from_slice(server.transmit());
            server.consume(usize::MAX);
            blocks.clear();
            for _ in 0..4 {
                while server.poll_event(NOW).is_some() {}
                output.extend_from_slice(server.transmit());
                server.consume(usize::MAX);
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

/// Makes a call on a connection of its own, within `budget` bytes once its head has arrived. Returns the status and the body
/// of the response.
fn post(
    server: &mut http::server::Server,
    budget: isize,
    length: usize,
    answer: fn(&mut http::server::Server, &Call),
) -> (u16, String) {
    let mut connection = http::server::Connection::new(NOW, HttpLimits::small());
    let body = call(1, "echo", length);
    let fields = "Host: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
                  MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    let head = format!("POST /mcp HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    connection.handle_input(NOW, head.as_bytes());
    connection.drive(NOW, server);
    let ((), _) = within(budget, || {
        // The turns after the last piece send what was owed.
        for piece in body.chunks(512).chain([&[][..]; 3]) {
            connection.handle_input(NOW, piece);
            connection.drive(NOW, server);
            while let Some(event) = server.poll_event(NOW) {
                if let http::server::Event::Server(Event::Call(call)) = event {
                    answer(server, &call);
                }
            }
            while server.poll_ready(NOW).is_some() {}
            connection.drive(NOW, server);
        }
    });
    let mut response = Vec::new();
    connection.segments().for_each(|segment| response.extend_from_slice(segment));
    let response = String::from_utf8(response).expect("text");
    connection.abandon(NOW, server);
    let status = response
        .get(9..12)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{budget}: {response}"));
    (status, response)
}

fn confirm_over_http(server: &mut http::server::Server, call: &Call) {
    answer_over_http(server, call, "ok");
}

/// Answers with a text, or with an error if there is no memory for it.
fn answer_over_http(server: &mut http::server::Server, call: &Call, text: &str) {
    match server.engine().complete(NOW, call.id(), &CallToolResult::text(text)) {
        Ok(()) => {}
        Err(UseError::Encode(EncodeError::OutOfMemory)) => {
            server.engine().fail(NOW, call.id(), &RpcError::internal("no memory")).expect("an open call");
        }
        Err(other) => panic!("{other}"),
    }
}

fn answer_at_length(server: &mut http::server::Server, call: &Call) {
    static TEXT: [u8; 3_000] = [b'z'; 3_000];
    answer_over_http(server, call, core::str::from_utf8(&TEXT).expect("text"));
}

#[test]
fn http_result_without_memory_becomes_an_error_and_later_ones_are_sent() {
    let capabilities = Capabilities::new().with(Capability::Tools);
    let config = Arc::new(Config::new("device", "1").capabilities(capabilities).limits(small()));
    let (mut refused, mut failed, mut answered) = (0, 0, 0);
    for budget in (4_000..16_000).step_by(50) {
        let http = Arc::new(http::server::Config::new());
        let mut server = http::server::Server::new(Arc::clone(&config), http, Entropy::new([7; 32], 0));
        let (status, response) = post(&mut server, budget, 100, answer_at_length);
        match status {
            200 if response.contains("zzz") => answered += 1,
            200 => {
                assert!(response.contains("memory"), "{budget}: {response}");
                failed += 1;
            }
            503 => refused += 1,
            other => panic!("{other} with {budget} bytes: {response}"),
        }
        let (status, response) = post(&mut server, isize::MAX / 2, 100, answer_at_length);
        assert!(status == 200 && response.contains("zzz"), "after {budget} bytes: {response}");
    }
    assert!(failed > 3 && answered > 3, "{refused} refused, {failed} without a result, {answered} answered");
}

#[test]
fn http_request_without_memory_gets_503_and_later_ones_are_served() {
    let capabilities = Capabilities::new().with(Capability::Tools);
    let config = Arc::new(Config::new("device", "1").capabilities(capabilities).limits(small()));
    let new = || {
        let http = Arc::new(http::server::Config::new());
        http::server::Server::new(Arc::clone(&config), http, Entropy::new([7; 32], 0))
    };
    // A body of one piece is asked for before its call is taken, and one of several before they are joined.
    for (length, least) in [(100, 1_600), (3_000, 3_000)] {
        let (mut refused, mut answered) = (0, 0);
        for budget in (least..20_000).step_by(100) {
            let mut server = new();
            let (status, response) = post(&mut server, budget, length, confirm_over_http);
            match status {
                // What the tables of the exchange took may be missing afterwards.
                200 if response.contains("memory") => refused += 1,
                200 => {
                    assert!(response.contains("ok"), "{budget}: {response}");
                    answered += 1;
                }
                503 => {
                    refused += 1;
                    assert!(response.contains("not enough memory for the request"), "{response}");
                    assert!(response.to_ascii_lowercase().contains("\r\nretry-after: "), "{response}");
                }
                other => panic!("{other} with {budget} bytes"),
            }
            assert_eq!(
                post(&mut server, isize::MAX / 2, length, confirm_over_http).0,
                200,
                "after {status} with {budget} bytes"
            );
        }
        assert!(refused > 3 && answered > 3, "{length}: {refused} refused, {answered} answered");
    }
}

#[test]
fn result_without_memory_is_a_use_error_and_changes_nothing() {
    let mut server = server(small());
    let mut calls = Vec::new();
    feed(&mut server, &call(1, "large", 10), &mut |_, call| calls.push(call.id()));
    let values = json!({ "content": [], "structuredContent": { "values": vec![123_456; 2_000] } });
    let text = RawJson::new(values.to_string()).expect("JSON");
    let escaped = "\u{1}".repeat(3_000);
    let numbers: Vec<u64> = vec![123_456_789; 2_000];
    let ((), _) = within(6_000, || {
        let refused = Err(UseError::Encode(EncodeError::OutOfMemory));
        let engine = server.engine();
        assert_eq!(engine.complete(NOW, calls[0], &text), refused);
        assert_eq!(engine.complete(NOW, calls[0], &CallToolResult::text(&*escaped)), refused);
        assert_eq!(
            engine.complete(NOW, calls[0], &[("numbers", &numbers)].into_iter().collect::<Map<'_>>()),
            refused
        );
        assert_eq!(RawJson::encode(&numbers), Err(EncodeError::OutOfMemory));
        engine.complete(NOW, calls[0], &CallToolResult::text("short")).expect("the call is still open");
    });
    let replies = written(&mut server);
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert_eq!(replies[0]["result"]["content"][0]["text"], "short");
}

type Map<'a> = BTreeMap<&'a str, &'a Vec<u64>>;

#[test]
fn answer_without_memory_ends_its_call_alone() {
    let config = client::Config::new("device", "1").limits(Limits::small());
    let mut client = Client::new(Arc::new(config), NOW);
    let key = client.engine().call_tool(NOW, "echo", &json!({}), &CallOptions::new()).expect("a call");
    let sent: Value = serde_json::from_slice(client.transmit()).expect("a probe");
    client.consume(usize::MAX);
    let result = json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "resultType": "complete" });
    client.handle_input(NOW, &line(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": result })));
    while client.poll_event(NOW).is_some() {}
    let sent: Value = serde_json::from_slice(client.transmit()).expect("the call");
    assert_eq!(sent["method"], "tools/call");
    let content = json!([{ "type": "text", "text": "y".repeat(6_000) }]);
    let result = json!({ "content": content, "resultType": "complete" });
    let answer = line(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": result }));
    let mut outcome = None;
    let ((), _) = within(4_000, || {
        for piece in answer.chunks(64) {
            client.handle_input(NOW, piece);
            while let Some(event) = client.poll_event(NOW) {
                if let client::Event::Done { call, outcome: ended, .. } = event {
                    assert_eq!(call, key);
                    outcome = Some(ended);
                }
            }
        }
    });
    assert!(matches!(outcome, Some(Err(CallError::Malformed(_)))), "{outcome:?}");
    client
        .engine()
        .call_tool(NOW, "echo", &json!({}), &CallOptions::new())
        .expect("the connection continues");
}

/// Lets a client do the worst that the limits allow, and returns the most bytes that it took.
fn worst_case(limits: &Limits) -> isize {
    let mut inputs = Vec::new();
    let live = limits.max_live_calls as usize;
    // Subscriptions to as many resources as it may, with URIs of the largest length.
    for listener in 0..limits.max_subscriptions {
        let uris: Vec<String> = (0..limits.max_subscribed_resources / limits.max_subscriptions)
            .map(|n| format!("device://{listener}/{n}/{}", "u".repeat(limits.max_uri - 16)))
            .collect();
        let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta() });
        inputs.push(line(&json!({
            "jsonrpc": "2.0", "id": format!("listen-{listener}"), "method": "subscriptions/listen", "params": params,
        })));
    }
    // Calls that are not answered, with frames of the largest size, and more behind them.
    let head = call(1, "echo", 0).len() + 8;
    for id in 0..live + limits.max_waiting_requests + 4 {
        inputs.push(call(1_000 + id, "echo", limits.max_frame - head));
    }
    let limits = limits.clone();
    let (_, peak) = within(isize::MAX / 2, || {
        let mut server = server(limits);
        let mut calls = Vec::new();
        'input: for input in &inputs {
            for piece in input.chunks(64) {
                if !server.wants_input() {
                    break 'input;
                }
                feed(&mut server, piece, &mut |_, call| calls.push(call));
            }
        }
        assert_eq!(calls.len(), live, "the calls in work reach their limit");
        // Handlers that answer with as much as they got, to a client that reads nothing.
        for call in calls {
            echo(&mut server, call);
        }
        server
    });
    peak
}

#[test]
fn worst_case_of_limits_is_bounded() {
    // Those that the security manual recommends for hostile clients.
    let mut hostile = Limits::default();
    hostile.max_frame = 64 << 10;
    hostile.max_live_calls = 32;
    for (name, limits, bound) in [
        ("tiny", Limits::tiny(), 24 << 10),
        ("small", Limits::small(), 256 << 10),
        ("default, with 32 calls of 64 KiB", hostile, 8 << 20),
    ] {
        let peak = worst_case(&limits);
        println!("worst case of one connection with limits {name}: {peak} bytes, bound {bound}");
        assert!(peak <= bound, "{name}: {peak} bytes, more than {bound}");
        assert!(peak * 2 > bound, "{name}: {peak} bytes: the bound says nothing any more");
    }
}

#[test]
fn ordinary_call_takes_little_beyond_its_payload() {
    let mut server = server(Limits::tiny());
    let input = call(1, "echo", 1_024);
    feed(&mut server, &input, &mut confirm);
    written(&mut server);
    let ((), peak) = within(isize::MAX / 2, || feed(&mut server, &input, &mut confirm));
    println!("peak of a call of 1 KiB on a byte stream: {peak} bytes");
    assert!(peak - 1_024 <= 8 << 10, "{peak}");
}
