//! Servers and clients whose heap is bounded, by the allocator of this program: what does not fit is refused, and nothing else is
//! lost.
//!
//! The allocator counts the bytes of each thread, and refuses those beyond the budget of the thread. What the core does not
//! ask for in advance ends the test program then.

extern crate alloc;

#[path = "bounded_heap/asking.rs"]
mod asking;
#[path = "bounded_heap/every_limit.rs"]
mod every_limit;
#[path = "bounded_heap/hostile.rs"]
mod hostile;
#[path = "bounded_heap/max_memory.rs"]
mod max_memory;
#[path = "bounded_heap/over_http.rs"]
mod over_http;
#[path = "bounded_heap/torture.rs"]
mod torture;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, EncodeError, Instant, Limits, RawJson, RpcError,
    UseError, client,
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
    if change > 0 && (live > BUDGET.get() || torture::refuses(change)) && !std::thread::panicking() {
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
                while !server.transmit().is_empty() {
                    answered += server.transmit().iter().filter(|byte| **byte == b'\n').count();
                    server.consume(server.transmit().len());
                }
            }
        });
        assert_eq!(answered, 200, "with {budget} bytes");
        assert!(REFUSED.get() > 0, "the budget of {budget} bytes was never reached");
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
    client.consume(client.transmit().len());
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
