//! A client and a server engine with telemetry, and the spans and metrics that they record.

use alloc::sync::Arc;
use std::sync::LazyLock;

use mcp_proto::client::{self, Event as ClientEvent};
use mcp_proto::server::{self, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{CallOptions, Capabilities, Capability, Instant, RawJson, RpcError, VersionSet};
use mcp_telemetry::Telemetry;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

/// Exporters in memory.
pub(crate) struct Exported {
    spans: InMemorySpanExporter,
    tracers: SdkTracerProvider,
    metrics: InMemoryMetricExporter,
    meters: SdkMeterProvider,
}

impl Exported {
    pub(crate) fn new() -> Self {
        Self::sampled(Sampler::AlwaysOn)
    }

    pub(crate) fn sampled(sampler: Sampler) -> Self {
        let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
        let tracers =
            SdkTracerProvider::builder().with_simple_exporter(spans.clone()).with_sampler(sampler).build();
        let reader = PeriodicReader::builder(metrics.clone()).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).build();
        Self { spans, tracers, metrics, meters }
    }

    pub(crate) fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let layer = tracing_opentelemetry::layer().with_tracer(self.tracers.tracer("tests"));
        tracing_subscriber::registry().with(layer)
    }

    pub(crate) fn meter(&self) -> Meter {
        self.meters.meter("tests")
    }

    /// Returns the settings of an observer that exports here.
    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry::new().meter(self.meter())
    }

    /// Returns the spans that have ended since the last time, in this order.
    pub(crate) fn spans(&self) -> Vec<SpanData> {
        let spans = self.spans.get_finished_spans().expect("open");
        self.spans.reset();
        spans
    }

    /// Returns each series of all metrics: its name, its labels, and the number of measurements.
    pub(crate) fn series(&self) -> Vec<String> {
        self.meters.force_flush().expect("exported");
        let all = self.metrics.get_finished_metrics().expect("open");
        let mut lines = Vec::new();
        for metric in all.last().expect("metrics").scope_metrics().flat_map(|scope| scope.metrics()) {
            let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
                panic!("{metric:?} is no histogram");
            };
            assert_eq!(metric.unit(), "s");
            for point in histogram.data_points() {
                assert_eq!(point.bounds().next(), Some(0.01));
                assert_eq!(point.bounds().last(), Some(300.0));
                let mut labels: Vec<String> =
                    point.attributes().map(|label| format!("{}={}", label.key, label.value)).collect();
                labels.sort();
                lines.push(format!("{} {{{}}} {}", metric.name(), labels.join(","), point.count()));
            }
        }
        lines.sort();
        lines
    }
}

/// Two subscribers that live as long as the process.
///
/// While there is only one, `tracing` asks the subscriber of the thread that comes first to a span
/// whether anybody wants it, and keeps the answer for all threads. Tests without a subscriber would
/// turn the spans of the others off. With two, it asks all.
static SUBSCRIBERS: LazyLock<[tracing::Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| tracing::Dispatch::new(tracing_subscriber::registry())));

/// Returns the attribute of a span as text.
pub(crate) fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let mut found = span.attributes.iter().filter(|attribute| attribute.key.as_str() == key);
    let value = found.next().map(|attribute| attribute.value.as_str().into_owned());
    assert!(found.next().is_none(), "{key} twice");
    value
}

/// A client and a server that are connected.
pub(crate) struct Pair {
    pub(crate) client: client::Engine,
    pub(crate) server: server::Engine,
    up: ChannelId,
    pub(crate) down: ChannelId,
    pub(crate) now: Instant,
}

impl Pair {
    pub(crate) fn new(versions: VersionSet, at_client: Telemetry, at_server: Telemetry) -> Self {
        LazyLock::force(&SUBSCRIBERS);
        let client_config = client::Config::new("client", "1").versions(versions).observer(at_client.build());
        let capabilities =
            Capabilities::new().with(Capability::Tools).with(Capability::Prompts).with(Capability::Resources);
        let server_config = server::Config::new("server", "1")
            .versions(versions)
            .capabilities(capabilities)
            .observer(at_server.build());
        let mut client = client::Engine::new(Arc::new(client_config));
        let mut server = server::Engine::new(Arc::new(server_config));
        let now = Instant::ZERO;
        let (up, down) = (client.open_channel(now), server.open_channel(now));
        let mut pair = Self { client, server, up, down, now };
        pair.exchange();
        assert!(matches!(pair.client.poll_event(now), Some(ClientEvent::Ready(_))));
        pair
    }

    pub(crate) fn exchange(&mut self) {
        loop {
            let mut moved = false;
            while let Some(message) = self.client.outbox(self.up).and_then(|o| o.pop_message()) {
                self.server.handle_message(self.now, self.down, message);
                moved = true;
            }
            while let Some(message) = self.server.outbox(self.down).and_then(|o| o.pop_message()) {
                self.client.handle_message(self.now, self.up, message);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value, options: &CallOptions) {
        self.client.call(self.now, method, params, options).expect("ready");
        self.exchange();
    }

    /// Makes a call and returns it as the server gets it.
    pub(crate) fn call(&mut self, method: &str, params: &Value, options: &CallOptions) -> server::Call {
        self.send(method, params, options);
        loop {
            match self.server.poll_event(self.now) {
                Some(Event::Call(call)) => return call,
                Some(_) => {}
                None => panic!("the server got no call"),
            }
        }
    }

    pub(crate) fn complete(&mut self, call: &server::Call, result: &Value) {
        self.server.complete(self.now, call.id(), result).expect("open");
        self.exchange();
        while self.client.poll_event(self.now).is_some() {}
    }

    pub(crate) fn fail(&mut self, call: &server::Call, error: &RpcError) {
        self.server.fail(self.now, call.id(), error).expect("open");
        self.exchange();
        while self.client.poll_event(self.now).is_some() {}
    }

    /// Calls a tool, which succeeds.
    pub(crate) fn call_tool(&mut self, name: &str, options: &CallOptions) {
        let call = self.call("tools/call", &json!({"name": name, "arguments": {"secret": "s"}}), options);
        self.complete(&call, &json!({"content": []}));
    }

    pub(crate) fn lose_connection(&mut self) {
        self.client.handle_eof(self.now, self.up);
        self.server.handle_eof(self.now, self.down);
        self.now = self.now + core::time::Duration::from_secs(600);
        self.server.handle_timeout(self.now);
        while self.client.poll_event(self.now).is_some() {}
        while self.server.poll_event(self.now).is_some() {}
    }
}

/// Returns options with this `_meta`.
pub(crate) fn with_meta(meta: &Value) -> CallOptions {
    CallOptions::new().with_meta(RawJson::new(meta.to_string()).expect("JSON"))
}
