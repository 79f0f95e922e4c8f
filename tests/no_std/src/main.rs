//! What a device would run: a server, a client, or both, on bytes from somewhere.
//!
//! It has an entry point of its own, no standard library and a panic handler, so that it does not link if anything
//! below it needs `std`. It is built and measured, never run.

#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::hint::black_box;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Hands out memory once and never takes it back
struct Bump {
    memory: UnsafeCell<[u8; SIZE]>,
    used: AtomicUsize,
}

const SIZE: usize = 64 << 10;

// SAFETY: bytes are handed out once, by an atomic counter.
unsafe impl Sync for Bump {}

// SAFETY: what is handed out lies within `memory`, is aligned, and overlaps nothing that was handed out before.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let begin = self.memory.get().cast::<u8>();
        let room = layout.size() + layout.align();
        let at = self.used.fetch_add(room, Ordering::Relaxed);
        if at + room > SIZE {
            return core::ptr::null_mut();
        }
        let start = begin.wrapping_add(at);
        start.wrapping_add(start.align_offset(layout.align()))
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Bump = Bump { memory: UnsafeCell::new([0; SIZE]), used: AtomicUsize::new(0) };

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Where the precompiled `core` can unwind it refers to this, though nothing here unwinds
#[cfg(not(target_os = "none"))]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // Without any of the parts this measures what the program itself costs.
    let memory = alloc::vec![0u8; black_box(64)];
    black_box(&memory[..]);
    #[cfg(feature = "server")]
    server();
    #[cfg(feature = "client")]
    client();
    #[cfg(feature = "crypto")]
    crypto();
    loop {
        core::hint::spin_loop();
    }
}

#[cfg(feature = "crypto")]
fn crypto() {
    use mcp_proto::seal::{Binding, Keys, Record, digest};

    let mut key = [0; 32];
    mcp_proto::Entropy::new(black_box([7; 32]), 1).fill(&mut key);
    let keys = Keys::new(key);
    let Ok(arguments) = digest(Some(black_box(b"{}"))) else { return };
    let binding = Binding { principal: None, method: "tools/call", target: "echo", arguments };
    let record = Record { attempt: 2, state: black_box(b"step 1"), answers: alloc::vec::Vec::new() };
    let Ok(text) = keys.seal(&binding, 60, &record.encode(), 1 << 10) else { return };
    let payload = keys.open(&binding, black_box(0), &text, 1 << 10);
    black_box(payload.as_deref().map(Record::decode).is_ok());
}

/// Bytes that the compiler knows nothing about
#[cfg(any(feature = "server", feature = "client"))]
fn receive() -> &'static [u8] {
    black_box(b"")
}

#[cfg(feature = "server")]
fn server() {
    use alloc::sync::Arc;
    use mcp_proto::model::CallToolResult;
    use mcp_proto::pipe::{Pipe, Server};
    use mcp_proto::server::{Config, Event};
    use mcp_proto::{Capabilities, Capability, Instant, Limits, RpcError};

    #[derive(serde::Deserialize)]
    struct Echo<'a> {
        text: &'a str,
    }

    let now = Instant::from_micros(black_box(0));
    let config = Config::new("device", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let mut server = Server::new(Arc::new(config.limits(Limits::small())), now);
    server.handle_input(now, receive());
    while let Some(event) = server.poll_event(now) {
        let Event::Call(call) = event else { continue };
        let tool = call.tool().and_then(|tool| tool.parse::<Echo<'_>>());
        let done = match (call.method(), tool) {
            ("tools/call", Ok(echo)) => {
                server.engine().complete(now, call.id(), &CallToolResult::text(echo.text))
            }
            ("tools/call", Err(error)) => server.engine().fail(now, call.id(), &error),
            (method, _) => server.engine().fail(now, call.id(), &RpcError::method_not_found(method)),
        };
        black_box(done.is_ok());
    }
    let sent = black_box(server.transmit()).len();
    server.consume(sent);
    server.handle_timeout(now);
    black_box(server.poll_timeout());
}

#[cfg(feature = "client")]
fn client() {
    use alloc::sync::Arc;
    use mcp_proto::client::{Config, Event};
    use mcp_proto::pipe::{Client, Pipe};
    use mcp_proto::{CallOptions, Instant, Limits};

    #[derive(serde::Serialize)]
    struct Echo<'a> {
        text: &'a str,
    }

    let now = Instant::from_micros(black_box(0));
    let mut client = Client::new(Arc::new(Config::new("device", "1").limits(Limits::small())), now);
    let call = client.engine().call_tool(now, "echo", &Echo { text: black_box("hi") }, &CallOptions::new());
    black_box(call.is_ok());
    client.handle_input(now, receive());
    while let Some(event) = client.poll_event(now) {
        if let Event::Done { outcome: Ok(result), .. } = event {
            black_box(result.member("content"));
        }
    }
    let sent = black_box(client.transmit()).len();
    client.consume(sent);
    client.handle_timeout(now);
    black_box(client.poll_timeout());
}
