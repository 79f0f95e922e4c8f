//! `bench-layers FLAVOUR VARIANT N`: a server of one flavour (`functions`, `futures`) that answers N calls of a tool.
//!
//! Variants: `plain`, `layer` (one that looks at the result), `interceptor` (the same, for all flavours), `rate` (a rate limit
//! by client and tool), `unused` (telemetry, with neither spans nor metrics), and combinations of these words, joined by `+`:
//!
//! - `metrics`: metrics, with instruments that are `bound` or not.
//! - `unsampled`: spans that are refused before they are built. `refused`: by the sampler of the tracer provider, afterwards.
//! - `recorded`: spans that an exporter gets and drops.
//! - `bare-labels`, `bare-bound`, `bare-span`: no telemetry of ours. The tool makes the same measurement with labels or with a
//!   bound instrument, or the same span (with `refused` or `recorded`), by calls of OpenTelemetry and `tracing` alone.
//!
//! Instructions are counted from outside.

use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Instant;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_benches::wire::{RequestLine, WireEra};
use mcp_proto::RawJson;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_runtime::server::Cx;
use mcp_runtime::server::layers::{CallKey, RateLimit};
use mcp_runtime::server::router::{
    EntryRequest, Flavor, HandlerResult, Interceptor, RegisterFunctions, Router, async_layer_fn, layer_fn,
};
use mcp_std::io::{Duplex, Interest, MemoryEnd, Ready, memory_pair};
use mcp_telemetry::Telemetry;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use tracing::field::Empty;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// A stream that gives its input, a line per read, and forgets its output. It is always ready, so that runs are equal.
struct Replay {
    input: Vec<u8>,
    at: usize,
    waker: MemoryEnd,
}

impl Replay {
    fn new(input: Vec<u8>) -> Self {
        Self { input, at: 0, waker: memory_pair(1).0 }
    }
}

impl Duplex for Replay {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let rest = &self.input[self.at..];
        let line = memchr::memchr(b'\n', rest).map_or(rest, |end| &rest[..=end]);
        let read = { line }.read(buf)?;
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

impl AsyncRead for Replay {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Duplex::read(&mut *self, buf))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
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

/// An exporter that drops what it gets.
#[derive(Debug)]
struct Drain;

impl SpanExporter for Drain {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        drop(core::hint::black_box(spans));
        Ok(())
    }
}

impl PushMetricExporter for Drain {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        core::hint::black_box(metrics);
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

/// Words of a variant of telemetry.
#[derive(Clone, Copy)]
struct Words<'a>(&'a str);

impl Words<'_> {
    fn has(self, word: &str) -> bool {
        self.0.split('+').any(|other| other == word)
    }
}

/// Sets up telemetry as an application does, with exporters that cost nothing.
struct Exported {
    meters: SdkMeterProvider,
    _tracers: Option<SdkTracerProvider>,
}

impl Exported {
    fn new(words: Words<'_>) -> Self {
        let meters = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(Drain).build()).build();
        let sampler = if words.has("refused") {
            Some(Sampler::AlwaysOff)
        } else {
            ["unsampled", "recorded"].iter().any(|word| words.has(word)).then_some(Sampler::AlwaysOn)
        };
        let _tracers = sampler.map(|sampler| {
            let tracers =
                SdkTracerProvider::builder().with_simple_exporter(Drain).with_sampler(sampler).build();
            let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer("bench"));
            tracing_subscriber::registry().with(layer).init();
            tracers
        });
        Self { meters, _tracers }
    }

    fn meter(&self) -> Meter {
        self.meters.meter("bench")
    }

    fn telemetry(&self, words: Words<'_>) -> Telemetry {
        let mut telemetry = Telemetry::new().transport("pipe").meter(self.meter());
        if words.has("unsampled") {
            telemetry = telemetry.parent_based_sampler(0.0);
        }
        if words.has("bound") {
            telemetry = telemetry.bind_instruments();
        }
        telemetry
    }

    /// Returns what a tool does that measures itself.
    fn bare(&self, words: Words<'_>) -> Option<Bare> {
        let histogram = self.meter().f64_histogram("tool.duration").with_unit("s").build();
        let labels = [
            KeyValue::new("mcp.method.name", "tools/call"),
            KeyValue::new("mcp.protocol.version", "2026-07-28"),
            KeyValue::new("network.transport", "pipe"),
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", "echo"),
        ];
        if words.has("bare-labels") {
            return Some(Box::new(move |_| {
                let began = Instant::now();
                histogram.record(began.elapsed().as_secs_f64(), &labels);
            }));
        }
        if words.has("bare-bound") {
            let bound = histogram.bind(&labels);
            return Some(Box::new(move |_| {
                let began = Instant::now();
                bound.record(began.elapsed().as_secs_f64());
            }));
        }
        words.has("bare-span").then(|| Box::new(bare_span) as Bare)
    }
}

/// A measurement or span of a tool, with the id of its request.
type Bare = Box<dyn Fn(&str) + Send + Sync>;

/// Makes a span with the attributes of a successful call.
fn bare_span(id: &str) {
    let span = tracing::info_span!(
        "mcp.request",
        otel.name = "tools/call echo",
        otel.kind = "server",
        mcp.method.name = "tools/call",
        mcp.protocol.version = "2026-07-28",
        jsonrpc.request.id = id,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = "echo",
        network.transport = "pipe",
        mcp.request.size = Empty,
        mcp.response.size = Empty,
    );
    span.in_scope(|| core::hint::black_box(id));
    span.record("mcp.request.size", 300);
    span.record("mcp.response.size", 200);
}

fn schema() -> RawJson {
    RawJson::new(r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#)
        .expect("a constant")
}

/// Adds what is the same for all flavours.
fn add<F: Flavor>(router: &mut Router<F>, variant: &str, exported: Option<&Exported>) {
    router.clear_validator();
    let words = Words(variant);
    let bare = exported.and_then(|exported| exported.bare(words));
    let is_bare = bare.is_some();
    RegisterFunctions::tool_with(router, Tool::new("echo", schema()), move |_, arguments: RawJson| {
        if let Some(bare) = &bare {
            bare("7");
        }
        CallToolResult::text(arguments.member("text").and_then(|text| text.string()).unwrap_or_default())
    });
    match variant {
        "interceptor" => _ = router.layer(Look),
        "rate" => {
            let limit = RateLimit::new(u32::MAX, Duration::from_secs(1)).key(CallKey::CLIENT.entry());
            router.layer(limit);
        }
        "unused" => _ = router.observer(Telemetry::new().without_metrics().build()),
        _ => {}
    }
    if let (Some(exported), false) = (exported, is_bare) {
        router.observer(exported.telemetry(words).build());
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
    let is_exported = !matches!(variant.as_str(), "plain" | "layer" | "interceptor" | "rate" | "unused");
    let exported = is_exported.then(|| Exported::new(Words(variant)));
    if flavour == "functions" {
        let mut router = mcp_blocking::Router::new("bench", "1");
        add(&mut router, variant, exported.as_ref());
        if variant == "layer" {
            router.layer(layer_fn(|cx, request, next| {
                let result = next.run(cx, request);
                core::hint::black_box(result.is_ok());
                result
            }));
        }
        router.serve(Replay::new(input)).expect("a stream");
        return ExitCode::SUCCESS;
    }
    let mut router = mcp_smol::Router::new("bench", "1");
    add(&mut router, variant, exported.as_ref());
    if variant == "layer" {
        router.layer(async_layer_fn(async |cx, request, next| {
            let result = next.run(cx, request).await;
            core::hint::black_box(result.is_ok());
            result
        }));
    }
    mcp_smol::block_on(router.serve(Replay::new(input))).expect("a stream");
    ExitCode::SUCCESS
}
