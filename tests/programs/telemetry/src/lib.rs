//! Exporters of spans and metrics by OTLP over HTTP, for a process with one service.
//!
//! `mcp-otlp` is a client, a bridge and a server that use them. Two things are specific to this workspace: the
//! [client of HTTP](StdClient), and that warnings of the SDK are printed without colours.

#![forbid(unsafe_code)]

mod std_client;

use std::error::Error;
use std::io;
use std::time::Duration;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

pub use std_client::StdClient;

/// The exporters of this process. Each works on a thread of its own.
#[derive(Debug)]
#[must_use = "`shutdown` exports the rest"]
pub struct Exporters {
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
}

/// Exports what this process records, as the variables `OTEL_EXPORTER_OTLP_*` say.
///
/// # Errors
///
/// Fails if a variable is wrong, or if the process has a subscriber of `tracing` already.
pub fn export(service: &'static str) -> Result<Exporters, Box<dyn Error>> {
    let resource = Resource::builder().with_service_name(service).build();

    let spans = SpanExporter::builder().with_http().with_http_client(StdClient::new("TRACES")?).build()?;
    let tracers =
        SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource.clone()).build();
    let metrics =
        MetricExporter::builder().with_http().with_http_client(StdClient::new("METRICS")?).build()?;
    let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics).with_resource(resource).build();

    global::set_meter_provider(meters.clone());
    let spans = tracing_opentelemetry::layer().with_tracer(tracers.tracer(service));
    // The exporters warn when they fail, and when they drop spans.
    let warnings = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(spans.with_filter(LevelFilter::INFO))
        .with(warnings.with_filter(LevelFilter::WARN))
        .try_init()?;
    Ok(Exporters { tracers, meters })
}

impl Exporters {
    /// Exports the rest. Waits at most `timeout` for the spans, and 5 s for the metrics.
    ///
    /// # Errors
    ///
    /// Fails if it was not exported in that time.
    pub fn shutdown(self, timeout: Duration) -> Result<(), Box<dyn Error>> {
        let spans = self.tracers.shutdown_with_timeout(timeout);
        // Also if that has failed.
        let metrics = self.meters.shutdown_with_timeout(timeout);
        spans?;
        Ok(metrics?)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../../adapters/telemetry/README.md")]
struct Readme;
