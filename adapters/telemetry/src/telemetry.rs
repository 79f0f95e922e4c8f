//! The settings.

use alloc::sync::Arc;

use mcp_proto::observe::Observer;
use opentelemetry::global;
use opentelemetry::metrics::Meter;

use crate::metrics::Metrics;
use crate::observer::TelemetryObserver;
use crate::sampler::Sampler;
use crate::targets::Targets;

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
    #[cfg(feature = "bound-instruments")]
    is_bound: bool,
    root_ratio: Option<f64>,
    pub(crate) transport: Option<&'static str>,
    has_resource_uris: bool,
    pub(crate) has_error_messages: bool,
    methods: Vec<&'static str>,
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
            #[cfg(feature = "bound-instruments")]
            is_bound: false,
            root_ratio: None,
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

    /// Decides before a span is built whether its request is sampled: as its parent is, or this share of the requests without one.
    ///
    /// The share is from 0 to 1. By default each request has a span, for which the sampler of the tracer provider decides after it
    /// was built, so one that is not sampled costs as much as one that is. Use this with a tracer provider that samples all, or by
    /// the parent. What else a provider's sampler looks at, such as attributes, is not known here.
    ///
    /// A request that is not sampled has no span for any subscriber. Its trace context is sent, and is that of its handler, with
    /// a span id of its own and without the flag `sampled`. So the spans of the handler and of other processes are not sampled
    /// either, if their samplers ask for the parent.
    pub const fn parent_based_sampler(mut self, root_ratio: f64) -> Self {
        self.root_ratio = Some(root_ratio);
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

    /// Binds the histograms of requests that succeed to their labels, so that the SDK looks no labels up for a measurement.
    ///
    /// Experimental, as it is in OpenTelemetry. The meter has to be one of `opentelemetry_sdk`: another may not implement it,
    /// and then records nothing. The SDK keeps a series that is bound as long as the observer exists, with delta temporality, too.
    #[cfg(feature = "bound-instruments")]
    #[cfg_attr(docsrs, doc(cfg(feature = "bound-instruments")))]
    pub const fn bind_instruments(mut self) -> Self {
        self.is_bound = true;
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
            let metrics = Metrics::new(&meter, self.transport);
            #[cfg(feature = "bound-instruments")]
            let metrics = if self.is_bound { metrics.bind() } else { metrics };
            metrics
        });
        let sampler = self.root_ratio.map(Sampler::new);
        let targets = Targets::new(&self.methods, self.has_resource_uris, self.max_names);
        Arc::new(TelemetryObserver::new(self, metrics, sampler, targets))
    }
}
