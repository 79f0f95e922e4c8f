//! The instruments.

use core::time::Duration;

use mcp_proto::Version;
use mcp_proto::observe::Direction;
use opentelemetry::KeyValue;
#[cfg(feature = "bound-instruments")]
use opentelemetry::metrics::BoundHistogram;
use opentelemetry::metrics::{Histogram, Meter};

use crate::labels::{self, ErrorType};
use crate::targets::Target;

/// Buckets of the conventions, in seconds.
const BOUNDARIES: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The histograms of one role.
#[derive(Debug)]
struct Role {
    operations: Histogram<f64>,
    sessions: Histogram<f64>,
}

impl Role {
    fn new(meter: &Meter, operations: [&'static str; 2], sessions: [&'static str; 2]) -> Self {
        let [operations, sessions] = [operations, sessions].map(|[name, description]| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(description)
                .with_boundaries(BOUNDARIES.to_vec())
                .build()
        });
        Self { operations, sessions }
    }
}

/// One time series of a histogram.
#[derive(Debug)]
pub(crate) enum Series {
    /// The SDK looks the labels up for each measurement.
    Labels(Box<[KeyValue]>),
    /// The SDK has looked them up.
    #[cfg(feature = "bound-instruments")]
    Bound(BoundHistogram<f64>),
}

#[derive(Debug)]
pub(crate) struct Metrics {
    client: Role,
    server: Role,
    /// `network.transport`.
    transport: Option<&'static str>,
    #[cfg(feature = "bound-instruments")]
    is_bound: bool,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter, transport: Option<&'static str>) -> Self {
        let client = Role::new(
            meter,
            [
                "mcp.client.operation.duration",
                "The duration of the MCP request or notification as observed on the sender from the time it was sent until \
                 the response or ack is received.",
            ],
            ["mcp.client.session.duration", "The duration of the MCP session as observed on the MCP client."],
        );
        let server = Role::new(
            meter,
            [
                "mcp.server.operation.duration",
                "MCP request or notification duration as observed on the receiver from the time it was received until \
                 the result or ack is sent.",
            ],
            ["mcp.server.session.duration", "The duration of the MCP session as observed on the MCP server."],
        );
        Self {
            client,
            server,
            transport,
            #[cfg(feature = "bound-instruments")]
            is_bound: false,
        }
    }

    /// Binds the series that are recorded from now on.
    #[cfg(feature = "bound-instruments")]
    pub(crate) fn bind(self) -> Self {
        Self { is_bound: true, ..self }
    }

    const fn role(&self, direction: Direction) -> &Role {
        match direction {
            Direction::In => &self.server,
            Direction::Out => &self.client,
        }
    }

    /// Records a request.
    #[inline]
    pub(crate) fn record_operation(
        &self,
        direction: Direction,
        version: Option<Version>,
        target: &Target,
        error: Option<ErrorType>,
        duration: Duration,
    ) {
        let (histogram, seconds) = (&self.role(direction).operations, duration.as_secs_f64());
        match (error, target.series(direction, version)) {
            (None, Some(series)) => {
                match series.get_or_init(|| self.series(histogram, &self.labels(target, version))) {
                    Series::Labels(labels) => histogram.record(seconds, labels),
                    #[cfg(feature = "bound-instruments")]
                    Series::Bound(bound) => bound.record(seconds),
                }
            }
            _ => {
                let mut labels = self.labels(target, version);
                labels.push_error(error);
                histogram.record(seconds, labels.as_slice());
            }
        }
    }

    #[cfg_attr(
        not(feature = "bound-instruments"),
        allow(clippy::unused_self, reason = "the histogram is bound with that feature")
    )]
    fn series(&self, histogram: &Histogram<f64>, labels: &Labels) -> Series {
        #[cfg(feature = "bound-instruments")]
        if self.is_bound {
            return Series::Bound(histogram.bind(labels.as_slice()));
        }
        #[cfg(not(feature = "bound-instruments"))]
        let _ = histogram;
        Series::Labels(labels.as_slice().into())
    }

    /// Returns the labels of requests that succeed.
    fn labels(&self, target: &Target, version: Option<Version>) -> Labels {
        let mut labels = Labels::new(KeyValue::new("mcp.method.name", target.method));
        labels.push(version.map(|version| KeyValue::new("mcp.protocol.version", version.as_str())));
        labels.push(self.transport.map(|transport| KeyValue::new("network.transport", transport)));
        labels.push(target.is_tool_call().then(|| KeyValue::new("gen_ai.operation.name", "execute_tool")));
        labels.push(target.label().map(|name| KeyValue::new(target.name_attribute(), name)));
        labels
    }

    /// Records a session that has ended, by a fault or in order.
    pub(crate) fn record_session(
        &self,
        direction: Direction,
        version: Version,
        is_fault: bool,
        duration: Duration,
    ) {
        let mut labels = Labels::new(KeyValue::new("mcp.protocol.version", version.as_str()));
        labels.push(self.transport.map(|transport| KeyValue::new("network.transport", transport)));
        labels.push(is_fault.then(|| KeyValue::new("error.type", "connection_closed")));
        self.role(direction).sessions.record(duration.as_secs_f64(), labels.as_slice());
    }
}

/// Labels of a measurement, without an allocation.
struct Labels {
    all: [KeyValue; 7],
    length: usize,
}

impl Labels {
    fn new(first: KeyValue) -> Self {
        let empty = || KeyValue::new("", false);
        Self { all: [first, empty(), empty(), empty(), empty(), empty(), empty()], length: 1 }
    }

    fn push(&mut self, label: Option<KeyValue>) {
        if let (Some(label), Some(place)) = (label, self.all.get_mut(self.length)) {
            *place = label;
            self.length += 1;
        }
    }

    fn push_error(&mut self, error: Option<ErrorType>) {
        match error {
            None => {}
            Some(ErrorType::Code(code)) => {
                let code = labels::code_label(code);
                self.push(Some(KeyValue::new("error.type", code.clone())));
                self.push(Some(KeyValue::new("rpc.response.status_code", code)));
            }
            Some(ErrorType::Named(name)) => self.push(Some(KeyValue::new("error.type", name))),
        }
    }

    fn as_slice(&self) -> &[KeyValue] {
        self.all.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

    use super::*;

    #[test]
    fn sessions_have_a_histogram_for_each_role() {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let metrics = |transport| Metrics::new(&provider.meter("tests"), transport);
        let record = |metrics: &Metrics, direction, is_fault| {
            metrics.record_session(direction, Version::V2025_11_25, is_fault, Duration::from_secs(90));
        };
        let piped = metrics(Some("pipe"));
        record(&piped, Direction::In, false);
        record(&piped, Direction::In, true);
        record(&metrics(None), Direction::Out, false);
        provider.force_flush().expect("exported");
        let exported = exporter.get_finished_metrics().expect("open");
        let mut lines = Vec::new();
        for metric in exported.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics()) {
            let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
                panic!("{metric:?} is no histogram");
            };
            for point in histogram.data_points() {
                let mut labels: Vec<String> =
                    point.attributes().map(|label| format!("{}={}", label.key, label.value)).collect();
                labels.sort();
                lines.push(format!("{} {} {}", metric.name(), labels.join(","), point.sum()));
            }
        }
        lines.sort();
        assert_eq!(
            lines,
            [
                "mcp.client.session.duration mcp.protocol.version=2025-11-25 90",
                "mcp.server.session.duration error.type=connection_closed,mcp.protocol.version=2025-11-25,\
                 network.transport=pipe 90",
                "mcp.server.session.duration mcp.protocol.version=2025-11-25,network.transport=pipe 90",
            ]
        );
    }
}
