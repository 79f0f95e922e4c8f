//! Three services are one trace (META-021, META-022).

use mcp_blocking::mcp_proto::{CallOptions, RawJson, VersionSet, client};
use mcp_blocking::{Client, Program};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use crate::collector::{Collector, Received, ReceivedSpan, text};
use crate::processes::{SERVICES, probe, run_client, success};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Returns the only span of a service with this kind.
fn only<'a>(received: &'a Received, service: &str, kind: SpanKind) -> &'a ReceivedSpan {
    let mut found = received.spans.iter().filter(|s| s.service == service && s.span.kind == kind as i32);
    let span = found.next().unwrap_or_else(|| panic!("no {kind:?} of {service}: {received:?}"));
    assert!(found.next().is_none(), "two {kind:?} of {service}: {received:?}");
    span
}

/// Checks that these spans are all, from the root to the leaf.
fn assert_path(received: &Received, path: &[&ReceivedSpan]) {
    assert_eq!(received.spans.len(), path.len(), "{received:?}");
    assert!(path[0].span.parent_span_id.is_empty());
    for pair in path.windows(2) {
        let [parent, child] = [&pair[0].span, &pair[1].span];
        assert_eq!(child.parent_span_id, parent.span_id, "{} is the parent of {}", parent.name, child.name);
        assert_eq!(child.trace_id, parent.trace_id);
    }
}

/// Checks the attributes of the spans of a call.
fn assert_call(spans: &[&ReceivedSpan], tool: &str, era: &str) {
    for ReceivedSpan { span, .. } in spans {
        assert_eq!(span.name, format!("tools/call {tool}"));
        let attribute = |key| text(&span.attributes, key);
        assert_eq!(attribute("mcp.method.name").as_deref(), Some("tools/call"));
        assert_eq!(attribute("gen_ai.operation.name").as_deref(), Some("execute_tool"));
        assert_eq!(attribute("gen_ai.tool.name").as_deref(), Some(tool));
        assert_eq!(attribute("network.transport").as_deref(), Some("pipe"));
        let version = if era == "modern" { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(attribute("mcp.protocol.version").as_deref(), Some(version));
        assert_eq!(attribute("error.type"), None);
        assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    }
}

/// Returns the metrics, each as `SERVICE NAME COUNT`.
fn metrics(received: &Received) -> Vec<String> {
    let all = received.metrics.iter();
    let mut lines: Vec<_> = all.map(|m| format!("{} {} {}", m.service, m.name, m.count)).collect();
    lines.sort();
    lines
}

#[test]
fn client_bridge_and_server_are_one_trace() {
    for era in ERAS {
        let collector = Collector::start();
        let arguments = [era, "ask", "1", SERVICES, "bridge", era, SERVICES, "server"];
        success(run_client(&collector.url, &[], &arguments));
        let received = collector.take();

        let asking = [("client", SpanKind::Client), ("bridge", SpanKind::Server)];
        let asking = asking.map(|(service, kind)| only(&received, service, kind));
        let looking_up = [("bridge", SpanKind::Client), ("server", SpanKind::Server)];
        let looking_up = looking_up.map(|(service, kind)| only(&received, service, kind));
        assert_call(&asking, "ask", era);
        assert_call(&looking_up, "look_up", era);
        // Spans of the applications: around the calls, and within a handler.
        let root = only(&received, "client", SpanKind::Internal);
        let leaf = only(&received, "server", SpanKind::Internal);
        assert_eq!([&*root.span.name, &*leaf.span.name], ["conversation", "read the index"]);
        assert_path(&received, &[root, asking[0], asking[1], looking_up[0], looking_up[1], leaf]);

        let mut expected = vec![
            "bridge mcp.client.operation.duration 1",
            "bridge mcp.client.session.duration 1",
            "bridge mcp.server.operation.duration 1",
            "client mcp.client.operation.duration 1",
            "client mcp.client.session.duration 1",
            "server mcp.server.operation.duration 1",
        ];
        if era == "legacy" {
            expected.extend(["bridge mcp.server.session.duration 1", "server mcp.server.session.duration 1"]);
            expected.sort_unstable();
        }
        assert_eq!(metrics(&received), expected);
    }
}

#[test]
fn trace_passes_mcp_probe_bridge() {
    for client_era in ERAS {
        for server_era in ERAS {
            let collector = Collector::start();
            let bridge = [probe(), "bridge", "--no-cache", "--era", server_era];
            let server = ["--env", "OTEL_EXPORTER_OTLP_ENDPOINT", "--", SERVICES, "server"];
            let arguments = [&[client_era, "look_up", "1"][..], &bridge, &server].concat();
            success(run_client(&collector.url, &[], &arguments));
            let received = collector.take();

            let client = only(&received, "client", SpanKind::Client);
            let server = only(&received, "server", SpanKind::Server);
            assert_call(&[client], "look_up", client_era);
            assert_call(&[server], "look_up", server_era);
            // The bridge of mcp-probe has no spans.
            let root = only(&received, "client", SpanKind::Internal);
            let leaf = only(&received, "server", SpanKind::Internal);
            assert_path(&received, &[root, client, server, leaf]);
        }
    }
}

#[test]
fn mcp_probe_bridge_leaves_trace_context_unchanged() {
    let context = json!({
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        "baggage": "user=alice,region=eu",
    });
    let options = CallOptions::new().with_meta(RawJson::encode(&context).unwrap());
    for versions in [VersionSet::LEGACY, VersionSet::MODERN] {
        let collector = Collector::start();
        let bridge =
            ["bridge", "--no-cache", "--env", "OTEL_EXPORTER_OTLP_ENDPOINT", "--", SERVICES, "server"];
        let program = Program::new(probe()).args(bridge).env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
        let config = client::Config::new("client", "1.0.0").versions(versions);
        let client = Client::spawn_with(config, program).unwrap();
        let result = client.call_tool_with("look_up", &json!({}), &options, &mut |_| {}).unwrap();
        client.close().unwrap();

        let meta = result.content.first().and_then(|content| content.as_text()).unwrap();
        let meta: Value = serde_json::from_str(meta).unwrap();
        for (key, value) in context.as_object().unwrap() {
            assert_eq!(&meta[key], value, "{key}");
        }
        let received = collector.take();
        let ReceivedSpan { span, .. } = only(&received, "server", SpanKind::Server);
        assert_eq!(span.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
        assert_eq!(span.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
        assert_eq!(span.trace_state, context["tracestate"]);
    }
}
