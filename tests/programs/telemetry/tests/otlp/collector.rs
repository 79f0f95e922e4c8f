//! Receivers of OTLP over HTTP: one that works, and one that never answers.

use std::fmt::{self, Debug};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// A span with the name of its service.
pub(crate) struct ReceivedSpan {
    pub(crate) service: String,
    pub(crate) span: Span,
}

impl Debug for ReceivedSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { span_id, parent_span_id, name, .. } = &self.span;
        write!(f, "{}: {name} {span_id:?} in {parent_span_id:?}", self.service)
    }
}

/// A histogram with the name of its service, and the number of its measurements of sessions or calls of tools.
#[derive(Debug)]
pub(crate) struct ReceivedMetric {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) count: u64,
}

/// All that has been received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) metrics: Vec<ReceivedMetric>,
}

/// A receiver that is there until the process ends.
pub(crate) struct Collector {
    pub(crate) url: String,
    received: Arc<Mutex<Received>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let received = Arc::new(Mutex::new(Received::default()));
        let kept = Arc::clone(&received);
        let url = listen(move |mut stream| {
            let (path, body) = read_request(&mut stream);
            // Before the answer: the spans of a process are here when it ends.
            kept.lock().unwrap().add(&path, &body);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        Self { url, received }
    }

    /// Takes all that has been received, without the requests that adapters make by themselves. Each is a trace of its own.
    pub(crate) fn take(&self) -> Received {
        let mut received = std::mem::take(&mut *self.received.lock().unwrap());
        let own = ["initialize", "server/discover", "subscriptions/listen"];
        received.spans.retain(|received| !own.contains(&&*received.span.name));
        received
    }
}

/// A receiver that reads requests and never answers.
pub(crate) struct HangingCollector {
    pub(crate) url: String,
    /// Paths of the requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl HangingCollector {
    pub(crate) fn start() -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, mut open) = (Arc::clone(&requests), Vec::new());
        let url = listen(move |mut stream| {
            kept.lock().unwrap().push(read_request(&mut stream).0);
            open.push(stream);
        });
        Self { url, requests }
    }

    /// Returns the number of requests for a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| *request == path).count()
    }
}

/// Handles each connection on one thread until the process ends. Returns the URL.
fn listen(mut handle: impl FnMut(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            handle(stream.unwrap());
        }
    });
    url
}

fn read_request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let path = head.strip_prefix("POST ").and_then(|rest| rest.split(' ').next()).expect("a request line");
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    assert_eq!(field("content-type: "), "application/x-protobuf");
    let mut body = vec![0; field("content-length: ").parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (path.to_owned(), body)
}

impl Received {
    fn add(&mut self, path: &str, body: &[u8]) {
        match path {
            "/v1/traces" => {
                for resource in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                    let service = service_name(resource.resource.as_ref());
                    for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                        self.spans.push(ReceivedSpan { service: service.clone(), span });
                    }
                }
            }
            "/v1/metrics" => {
                for resource in ExportMetricsServiceRequest::decode(body).unwrap().resource_metrics {
                    let service = service_name(resource.resource.as_ref());
                    for metric in resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
                        assert_eq!(metric.unit, "s");
                        let points = histogram.data_points.iter().filter(|point| {
                            text(&point.attributes, "mcp.method.name").is_none_or(|name| name == "tools/call")
                        });
                        let count = points.map(|point| point.count).sum();
                        let (service, name) = (service.clone(), metric.name);
                        self.metrics.push(ReceivedMetric { service, name, count });
                    }
                }
            }
            _ => panic!("a request for {path}"),
        }
    }
}

fn service_name(resource: Option<&Resource>) -> String {
    text(&resource.expect("a resource").attributes, "service.name").expect("a name")
}

/// Returns the value of an attribute.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}
