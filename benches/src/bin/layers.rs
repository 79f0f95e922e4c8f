//! `bench-layers FLAVOUR VARIANT N`: a server of one flavour (`functions`, `futures`) that answers N calls of a tool.
//!
//! Variants: `plain`, `layer` (one that looks at the result), `interceptor` (the same, for all flavours), `rate` (a rate limit
//! by client and tool). Instructions are counted from outside.

use core::ops::ControlFlow;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;

use mcp_benches::wire::{RequestLine, WireEra};
use mcp_proto::RawJson;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_std::adapter::server::Cx;
use mcp_std::adapter::server::layers::{CallKey, RateLimit};
use mcp_std::adapter::server::router::{
    EntryRequest, Flavor, HandlerResult, Interceptor, RegisterFunctions, Router,
};
use mcp_std::io::{Duplex, Interest, MemoryEnd, Ready, memory_pair};

/// A stream that gives its input and forgets its output.
struct Replay {
    input: Vec<u8>,
    at: usize,
    waker: MemoryEnd,
}

impl Duplex for Replay {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = (&self.input[self.at..]).read(buf)?;
        self.at += read;
        Ok(read)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn wait(&mut self, _: Interest, _: Option<Duration>) -> io::Result<Ready> {
        Ok(Ready { readable: true, writable: true })
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.waker.waker()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Look;

impl Interceptor for Look {
    type State = ();

    fn before(&self, _: &mut Cx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult> {
        ControlFlow::Continue(())
    }

    fn after(&self, _: &mut Cx<'_>, _: &EntryRequest<'_>, (): (), result: HandlerResult) -> HandlerResult {
        core::hint::black_box(result.is_ok());
        result
    }
}

fn schema() -> RawJson {
    RawJson::new(r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#)
        .expect("a constant")
}

/// Adds what is the same for all flavours.
fn add<F: Flavor>(router: &mut Router<F>, variant: &str) {
    router.clear_validator();
    RegisterFunctions::tool_with(router, Tool::new("echo", schema()), |_, arguments: RawJson| {
        CallToolResult::text(arguments.member("text").and_then(|text| text.string()).unwrap_or_default())
    });
    match variant {
        "interceptor" => _ = router.intercept(Look),
        "rate" => {
            let limit = RateLimit::new(u32::MAX, Duration::from_secs(1)).key(CallKey::CLIENT.entry());
            router.intercept(limit);
        }
        _ => {}
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [flavour, variant, n] = &args[..] else { return ExitCode::from(2) };
    let mut request = RequestLine::new(WireEra::Modern, 100);
    let mut input = Vec::new();
    for _ in 0..n.parse().unwrap_or(1_usize) {
        input.extend_from_slice(request.advance());
    }
    if flavour == "functions" {
        let mut router = mcp_blocking::Router::new("bench", "1");
        add(&mut router, variant);
        if variant == "layer" {
            router.layer(|cx, request, next| {
                let result = next.run(cx, request);
                core::hint::black_box(result.is_ok());
                result
            });
        }
        router.serve(Replay { input, at: 0, waker: memory_pair(1).0 }).expect("a stream");
        return ExitCode::SUCCESS;
    }
    let mut router = mcp_smol::Router::new("bench", "1");
    add(&mut router, variant);
    if variant == "layer" {
        router.layer(async |cx, request, next| {
            let result = next.run(cx, request).await;
            core::hint::black_box(result.is_ok());
            result
        });
    }
    let (near, far) = UnixStream::pair().expect("a pair");
    let mut reader = far.try_clone().expect("a stream");
    thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
    thread::spawn(move || {
        let mut far = far;
        far.write_all(&input).and_then(|()| far.shutdown(std::net::Shutdown::Write))
    });
    near.set_nonblocking(true).expect("a stream");
    let stream = async_io::Async::new(near).expect("a stream");
    mcp_smol::block_on(router.serve(stream)).expect("a stream");
    ExitCode::SUCCESS
}
