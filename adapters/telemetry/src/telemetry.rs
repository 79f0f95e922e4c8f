//! The settings.

use alloc::sync::Arc;

use mcp_proto::observe::Observer;
use opentelemetry::global;
use opentelemetry::metrics::Meter;

use crate::labels::Names;
use crate::metrics::Metrics;
use crate::observer::TelemetryObserver;

/// Target of the spans, for filters of [`tracing`].
pub const TARGET: &str = "mcp";

/// Distinct names of tools, and of prompts, that label metrics.
const DEFAULT_MAX_NAMES: usize = 200;

/// Settings of an observer that reports requests as spans and metrics.
///
/// ```
/// use mcp_telemetry::Telemetry;
///
/// // Spans alone, for an HTTP server with tools whose URIs are secret.
/// let observer = Telemetry::new().transport("tcp").without_metrics().without_resource_uris().build();
/// # let _ = observer;
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is built"]
pub struct Telemetry {
    pub(crate) has_spans: bool,
    has_metrics: bool,
    meter: Option<Meter>,
    pub(crate) transport: Option<&'static str>,
    pub(crate) has_resource_uris: bool,
    pub(crate) has_error_messages: bool,
    pub(crate) methods: Vec<&'static str>,
    max_names: usize,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl Telemetry {
    /// Creates settings with spans and metrics.
    pub const fn new() -> Self {
        Self {
            has_spans: true,
            has_metrics: true,
            meter: None,
            transport: None,
            has_resource_uris: true,
            has_error_messages: false,
            methods: Vec::new(),
            max_names: DEFAULT_MAX_NAMES,
        }
    }

    /// Records no spans. Trace context is handed on.
    pub const fn without_spans(mut self) -> Self {
        self.has_spans = false;
        self
    }

    /// Records no metrics.
    pub const fn without_metrics(mut self) -> Self {
        self.has_metrics = false;
        self
    }

    /// Sets the meter of the metrics. The default is one of the global provider, as it is when [`build`](Self::build) is called.
    pub fn meter(mut self, meter: Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Sets `network.transport` of spans and metrics: `pipe` for stdio, `tcp` for HTTP/1.1 and HTTP/2, `quic` for HTTP/3, `unix`.
    pub const fn transport(mut self, transport: &'static str) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Leaves `mcp.resource.uri` out of spans, for URIs that are secret. Metrics never have it.
    pub const fn without_resource_uris(mut self) -> Self {
        self.has_resource_uris = false;
        self
    }

    /// Makes the message of a failed request the description of the status of its span, up to 512 bytes.
    ///
    /// The conventions recommend it. It is off because such messages may quote arguments.
    pub const fn error_messages(mut self) -> Self {
        self.has_error_messages = true;
        self
    }

    /// Adds custom methods, which are reported under their names. Others are `_OTHER`.
    pub fn methods(mut self, methods: impl IntoIterator<Item = &'static str>) -> Self {
        self.methods.extend(methods);
        self
    }

    /// Sets the largest number of distinct names of tools in metrics, and that of prompts. The default is 200 each.
    ///
    /// Reached: further names are reported as `_OTHER`, and the names of their spans are the method alone.
    pub const fn max_names(mut self, max: usize) -> Self {
        self.max_names = max;
        self
    }

    /// Returns the observer. One can be shared by several clients and servers.
    #[must_use]
    pub fn build(self) -> Arc<dyn Observer> {
        let metrics = self.has_metrics.then(|| {
            let meter = self.meter.clone().unwrap_or_else(|| global::meter("mcp-telemetry"));
            Metrics::new(&meter)
        });
        let [tools, prompts] = [(); 2].map(|()| Names::new(self.max_names));
        Arc::new(TelemetryObserver::new(self, metrics, tools, prompts))
    }
}
