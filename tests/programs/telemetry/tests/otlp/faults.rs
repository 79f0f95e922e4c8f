//! Exporters that hang or fail hold up no call.

use std::net::{TcpListener, TcpStream};

use crate::collector::HangingCollector;
use crate::processes::{SERVICES, run_client, success};

/// Spans that wait for the exporter (`OTEL_BSP_MAX_QUEUE_SIZE` of the specification).
const QUEUE: usize = 2_048;

/// Spans of one request of the exporter (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
const BATCH: usize = 512;

/// More calls than wait for the exporter.
const CALLS: usize = 3_000;

/// Returns the numbers after `name=` on stderr.
fn numbers(stderr: &str, name: &str) -> Vec<usize> {
    let mark = format!(" {name}=");
    stderr.split(&mark).skip(1).map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn collector_that_hangs_holds_up_no_call_and_no_end() {
    let collector = HangingCollector::start();
    let variables = [
        // Longer than the test: the exporter of spans never gives up by itself.
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3600000"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "100"),
    ];
    let calls = CALLS.to_string();
    let arguments = ["modern", "look_up", &calls, SERVICES, "server"];
    let (_, stderr) = success(run_client(&collector.url, &variables, &arguments));
    // Those of the server and of the client, which hang from their first request on.
    assert_eq!(collector.requests("/v1/traces"), 2);
    let dropped = numbers(&stderr, "dropped_span_count");
    assert_eq!(dropped.len(), 2, "{stderr}");
    // The server ends first. It has two spans for each call; the client has one more for all.
    for (spans, dropped) in [2 * CALLS, CALLS + 1].into_iter().zip(dropped) {
        // All others wait in the queue or are in the request.
        let kept = spans - dropped;
        assert!((QUEUE + 1..=QUEUE + BATCH).contains(&kept), "{kept} of {spans} are kept");
    }
    for service in ["client", "server"] {
        let note = format!("{service}: not everything was exported: ");
        assert!(stderr.contains(&note), "{stderr}");
    }
}

#[test]
fn collector_that_refuses_fails_no_call() {
    // Nobody can listen at a port that a connection has.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_far, closed) = listener.accept().unwrap();
    let arguments = ["modern", "look_up", "300", SERVICES, "server"];
    let (answer, stderr) = success(run_client(&format!("http://{closed}"), &[], &arguments));
    assert!(answer.contains("traceparent"), "{answer}");
    assert!(stderr.contains("BatchSpanProcessor.ExportError"), "{stderr}");
    assert!(stderr.contains("HTTP export failed: network error"), "{stderr}");
}
