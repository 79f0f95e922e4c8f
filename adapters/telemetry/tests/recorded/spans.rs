//! Spans: names, attributes, parents, and text of hostile peers.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::observe::{Observation, Observer, TraceContext};
use mcp_proto::{CallOptions, RpcError, VersionSet};
use mcp_telemetry::Telemetry;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::{Sampler, SpanData};
use serde_json::json;

use crate::support::{Exported, Pair, attribute, with_meta};

const ERAS: [(VersionSet, &str); 2] =
    [(VersionSet::MODERN, "2026-07-28"), (VersionSet::LEGACY, "2025-11-25")];
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Runs a test with a client and a server whose spans are exported.
fn recorded(versions: VersionSet, run: impl FnOnce(&Exported, &mut Pair)) {
    let exported = Exported::new();
    tracing::subscriber::with_default(exported.subscriber(), || {
        let telemetry = || exported.telemetry().transport("pipe");
        let mut pair = Pair::new(versions, telemetry(), telemetry());
        exported.spans();
        run(&exported, &mut pair);
    });
}

/// Returns the spans of the server and of the client.
fn two(exported: &Exported) -> [SpanData; 2] {
    let mut spans = exported.spans();
    spans.sort_by_key(|span| span.span_kind == SpanKind::Client);
    spans.try_into().unwrap_or_else(|spans| panic!("{spans:?}"))
}

// covers: META-021
#[test]
fn call_has_one_span_on_each_side_with_attributes_of_the_conventions() {
    for (versions, version) in ERAS {
        recorded(versions, |exported, pair| {
            pair.call_tool("add", &CallOptions::new());
            let [server, client] = two(exported);
            assert_eq!((&server.span_kind, &client.span_kind), (&SpanKind::Server, &SpanKind::Client));
            assert_eq!(server.parent_span_id, client.span_context.span_id());
            assert!(server.parent_span_is_remote);
            assert_eq!(server.span_context.trace_id(), client.span_context.trace_id());
            assert_eq!(client.parent_span_id, SpanId::INVALID);
            for span in [&server, &client] {
                assert_eq!(span.name, "tools/call add");
                assert_eq!(span.status, Status::Unset);
                let of = |key| attribute(span, key);
                assert_eq!(of("mcp.method.name").as_deref(), Some("tools/call"));
                assert_eq!(of("mcp.protocol.version").as_deref(), Some(version));
                assert_eq!(of("gen_ai.tool.name").as_deref(), Some("add"));
                assert_eq!(of("gen_ai.operation.name").as_deref(), Some("execute_tool"));
                assert_eq!(of("network.transport").as_deref(), Some("pipe"));
                assert!(of("jsonrpc.request.id").is_some());
                assert!(
                    of("mcp.request.size").is_some_and(|size| size.parse::<u64>().expect("a number") > 40)
                );
                assert!(
                    of("mcp.response.size").is_some_and(|size| size.parse::<u64>().expect("a number") > 20)
                );
                assert_eq!((of("error.type"), of("rpc.response.status_code")), (None, None));
                assert!(!format!("{span:?}").contains("secret"), "no arguments");
            }
            assert_eq!(attribute(&server, "jsonrpc.request.id"), attribute(&client, "jsonrpc.request.id"));
        });
    }
}

#[test]
fn prompts_and_resources_have_their_names() {
    recorded(VersionSet::MODERN, |exported, pair| {
        let call = pair.call("prompts/get", &json!({"name": "greet"}), &CallOptions::new());
        pair.complete(&call, &json!({"messages": []}));
        let [server, client] = two(exported);
        assert_eq!((&*server.name, &*client.name), ("prompts/get greet", "prompts/get greet"));
        assert_eq!(attribute(&server, "gen_ai.prompt.name").as_deref(), Some("greet"));
        assert_eq!(attribute(&server, "gen_ai.operation.name"), None);
        let call = pair.call("resources/read", &json!({"uri": "file:///a"}), &CallOptions::new());
        pair.complete(&call, &json!({"contents": []}));
        let [server, _] = two(exported);
        assert_eq!(server.name, "resources/read", "URIs are too many");
        assert_eq!(attribute(&server, "mcp.resource.uri").as_deref(), Some("file:///a"));
        let mut pair = Pair::new(VersionSet::LEGACY, exported.telemetry(), exported.telemetry());
        exported.spans();
        let request = json!({"jsonrpc": "2.0", "id": 9, "method": "resources/subscribe", "params": {"uri": "file:///b"}});
        pair.server.handle_message(pair.now, pair.down, request.to_string().into());
        let spans = exported.spans();
        assert_eq!((spans.len(), &*spans[0].name), (1, "resources/subscribe"));
        assert_eq!(attribute(&spans[0], "mcp.resource.uri").as_deref(), Some("file:///b"));
    });
}

#[test]
fn secret_uris_are_left_out() {
    let exported = Exported::new();
    tracing::subscriber::with_default(exported.subscriber(), || {
        let telemetry = || Telemetry::new().without_resource_uris();
        let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
        exported.spans();
        let call = pair.call("resources/read", &json!({"uri": "file:///secret"}), &CallOptions::new());
        pair.complete(&call, &json!({"contents": []}));
        let spans = two(&exported);
        assert!(!format!("{spans:?}").contains("file:"));
    });
}

#[test]
fn failures_have_error_types() {
    for (messages, description) in [(false, ""), (true, "disk full (code -32603)")] {
        let exported = Exported::new();
        tracing::subscriber::with_default(exported.subscriber(), || {
            let telemetry = || if messages { Telemetry::new().error_messages() } else { Telemetry::new() };
            let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
            exported.spans();
            let params = json!({"name": "add"});
            let call = pair.call("tools/call", &params, &CallOptions::new());
            pair.complete(&call, &json!({"content": [], "isError": true}));
            for span in two(&exported) {
                assert_eq!(attribute(&span, "error.type").as_deref(), Some("tool_error"));
                assert_eq!(attribute(&span, "rpc.response.status_code"), None);
                assert_eq!(span.status, Status::error(""));
            }
            let call = pair.call("tools/call", &params, &CallOptions::new());
            pair.fail(&call, &RpcError::new(-32603, "disk full"));
            for span in two(&exported) {
                assert_eq!(attribute(&span, "error.type").as_deref(), Some("-32603"));
                assert_eq!(attribute(&span, "rpc.response.status_code").as_deref(), Some("-32603"));
                assert_eq!(span.status, Status::error(description));
            }
            // The client waits no longer, which ends the call at the server, too.
            let options = CallOptions::new().timeout(Duration::from_secs(5));
            pair.call("tools/call", &params, &options);
            pair.now = pair.now + Duration::from_secs(6);
            pair.client.handle_timeout(pair.now);
            pair.exchange();
            let [server, client] = two(&exported);
            assert_eq!(attribute(&client, "error.type").as_deref(), Some("timeout"));
            assert_eq!(attribute(&server, "error.type").as_deref(), Some("cancelled"));
            assert_eq!(attribute(&client, "mcp.response.size"), None);
            // Lost with the connection.
            pair.call("tools/call", &params, &CallOptions::new());
            pair.lose_connection();
            let [_, client] = two(&exported);
            assert_eq!(attribute(&client, "error.type").as_deref(), Some("connection_closed"));
        });
    }
}

#[test]
fn request_that_is_given_up_ends_its_span_as_cancelled() {
    recorded(VersionSet::MODERN, |exported, pair| {
        let call = pair.call("tools/call", &json!({"name": "add"}), &CallOptions::new());
        drop(call);
        let telemetry = Telemetry::new();
        *pair = Pair::new(VersionSet::MODERN, telemetry.clone(), telemetry);
        let spans = exported.spans();
        let given_up: Vec<_> =
            spans.iter().filter(|s| attribute(s, "error.type").as_deref() == Some("cancelled")).collect();
        assert_eq!(given_up.len(), 2, "{spans:?}");
    });
}

// covers: META-021, META-022
#[test]
fn context_of_application_is_the_parent_and_malformed_ones_are_ignored() {
    for (versions, _) in ERAS {
        recorded(versions, |exported, pair| {
            let meta = json!({"traceparent": PARENT, "tracestate": "rojo=1", "baggage": "user=7"});
            let call = pair.call("tools/list", &json!({}), &with_meta(&meta));
            let sent: serde_json::Value =
                serde_json::from_str(call.params().expect("an object").as_str()).expect("JSON");
            assert_eq!(sent["_meta"]["baggage"], "user=7");
            assert_eq!(sent["_meta"]["tracestate"], "rojo=1");
            pair.complete(&call, &json!({"tools": []}));
            let [server, client] = two(exported);
            assert_eq!(client.parent_span_id.to_string(), "00f067aa0ba902b7");
            assert_eq!(client.span_context.trace_id().to_string(), TRACE);
            assert_eq!(server.parent_span_id, client.span_context.span_id());
            assert_eq!(server.span_context.trace_state().header(), "rojo=1");
            let call = pair.call("tools/list", &json!({}), &with_meta(&json!({"traceparent": "00-zz"})));
            pair.complete(&call, &json!({"tools": []}));
            let [_, client] = two(exported);
            assert_eq!(client.parent_span_id, SpanId::INVALID);
        });
    }
}

#[test]
fn handler_runs_in_the_span_of_its_request() {
    recorded(VersionSet::MODERN, |exported, pair| {
        let observer = exported.telemetry().build();
        assert_eq!(observer.current_context(), None);
        let call = pair.call("tools/call", &json!({"name": "add"}), &CallOptions::new());
        let observation = call.caller().observation().expect("observed").clone();
        let mut inside = None;
        let mut runs = 0;
        for _ in 0..2 {
            observation.in_scope(&mut || {
                runs += 1;
                inside = observer.current_context();
                tracing::info_span!("work").in_scope(|| {});
            });
        }
        drop(observation);
        assert_eq!((runs, observer.current_context()), (2, None));
        pair.complete(&call, &json!({"content": []}));
        drop(call);
        let mut spans = exported.spans();
        let work: Vec<_> = spans.extract_if_named("work");
        spans.sort_by_key(|span| span.span_kind == SpanKind::Client);
        let server = &spans[0].span_context;
        assert_eq!(work.len(), 2);
        assert!(work.iter().all(|span| span.parent_span_id == server.span_id()));
        let expected = format!("00-{}-{}-01", server.trace_id(), server.span_id());
        assert_eq!(inside, Some(TraceContext::new().traceparent(expected)));
        assert!(spans[0].end_time >= work[1].end_time, "it ends with its answer, not when it was left");
    });
}

/// Takes spans out by name.
trait ExtractNamed {
    fn extract_if_named(&mut self, name: &str) -> Vec<SpanData>;
}

impl ExtractNamed for Vec<SpanData> {
    fn extract_if_named(&mut self, name: &str) -> Vec<SpanData> {
        let (taken, left) = core::mem::take(self).into_iter().partition(|span| span.name == name);
        *self = left;
        taken
    }
}

#[test]
fn running_span_is_the_parent_or_a_link() {
    recorded(VersionSet::MODERN, |exported, pair| {
        tracing::info_span!("application").in_scope(|| pair.call_tool("add", &CallOptions::new()));
        let mut spans = exported.spans();
        let application = spans.extract_if_named("application").remove(0).span_context;
        spans.sort_by_key(|span| span.span_kind == SpanKind::Client);
        let [server, client] = <[SpanData; 2]>::try_from(spans).expect("two");
        assert_eq!(client.parent_span_id, application.span_id());
        assert_eq!(server.parent_span_id, client.span_context.span_id());
        let links: Vec<_> = server.links.iter().map(|link| link.span_context.span_id()).collect();
        assert_eq!(links, [application.span_id()], "the server was driven in that span");
        assert!(client.links.is_empty());
    });
}

#[test]
fn hostile_text_neither_names_spans_nor_controls_terminals() {
    recorded(VersionSet::MODERN, |exported, pair| {
        let name = format!("\u{1b}[31m\n{}", "x".repeat(10_000));
        let call = pair.call("tools/call", &json!({"name": name}), &CallOptions::new());
        pair.fail(&call, &RpcError::invalid_params("unknown tool"));
        for span in two(exported) {
            assert_eq!(span.name, "tools/call", "an unknown tool");
            let tool = attribute(&span, "gen_ai.tool.name").expect("for those who look for the reason");
            assert!(tool.starts_with("\u{fffd}[31m\u{fffd}xx") && tool.ends_with('…'), "{tool:?}");
            assert!(tool.len() < 300, "{}", tool.len());
        }
        pair.send("no/such\n", &json!({"name": "x"}), &CallOptions::new());
        for span in two(exported) {
            assert_eq!(span.name, "_OTHER");
            assert_eq!(attribute(&span, "mcp.method.name").as_deref(), Some("_OTHER"));
            assert_eq!(attribute(&span, "error.type").as_deref(), Some("-32601"));
        }
    });
}

#[test]
fn unsampled_spans_hand_their_decision_on() {
    let exported = Exported::sampled(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)));
    tracing::subscriber::with_default(exported.subscriber(), || {
        let mut pair = Pair::new(VersionSet::MODERN, exported.telemetry(), exported.telemetry());
        let call = pair.call("tools/list", &json!({}), &CallOptions::new());
        let observation = call.caller().observation().expect("observed").clone();
        let observer: Arc<dyn Observer> = exported.telemetry().build();
        let mut inside = None;
        observation.in_scope(&mut || inside = observer.current_context());
        let inside = inside.and_then(|context| context.traceparent).expect("a context");
        assert!(inside.ends_with("-00"), "{inside}");
        pair.complete(&call, &json!({"tools": []}));
        assert!(exported.spans().is_empty());
        // The parent of the application has decided otherwise.
        pair.call_tool("add", &with_meta(&json!({"traceparent": PARENT})));
        assert_eq!(exported.spans().len(), 2);
    });
}

/// Returns the fields of the trace context that a handler hands on.
fn handed_on(observer: &dyn Observer, observation: &dyn Observation) -> [String; 3] {
    let mut inside = None;
    observation.in_scope(&mut || inside = observer.current_context());
    let text = inside.and_then(|context| context.traceparent).expect("a context");
    let fields: Vec<_> = text.split('-').map(str::to_owned).collect();
    let [version, trace, span, flags] = <[String; 4]>::try_from(fields).expect("four fields");
    assert_eq!(version, "00");
    [trace, span, flags]
}

#[test]
fn unsampled_requests_have_no_span_and_hand_their_context_on() {
    recorded(VersionSet::MODERN, |exported, _| {
        let telemetry = || exported.telemetry().parent_based_sampler(0.0);
        let observer = telemetry().build();
        let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
        let unsampled = PARENT.replace("-01", "-00");
        for meta in
            [json!({}), json!({"traceparent": unsampled, "tracestate": "rojo=1", "baggage": "user=7"})]
        {
            let call = pair.call("tools/list", &json!({}), &with_meta(&meta));
            let sent: serde_json::Value =
                serde_json::from_str(call.params().expect("an object").as_str()).expect("JSON");
            let sent = &sent["_meta"];
            let parent = sent["traceparent"].as_str().expect("a context").to_owned();
            assert_eq!((&sent["tracestate"], &sent["baggage"]), (&meta["tracestate"], &meta["baggage"]));
            let observation = call.caller().observation().expect("observed").clone();
            // The HTTP request that brought it may have a span.
            let [trace, span, flags] =
                tracing::info_span!("ambient").in_scope(|| handed_on(&*observer, &*observation));
            let mut fields = parent.split('-').skip(1);
            assert_eq!(fields.next(), Some(&*trace));
            if meta["traceparent"].is_string() {
                assert_eq!(trace, TRACE);
            }
            let client = fields.next().expect("a span id");
            assert!(client != "00f067aa0ba902b7" && client != span, "{client} {span}");
            assert_eq!((fields.next(), &*flags), (Some("00"), "00"));
            observation.in_scope(&mut || tracing::info_span!("work").in_scope(|| {}));
            pair.complete(&call, &json!({"tools": []}));
            let spans = exported.spans();
            let names: Vec<_> =
                spans.iter().map(|span| (&*span.name, span.parent_span_id.to_string())).collect();
            assert_eq!(names, [("ambient", SpanId::INVALID.to_string()), ("work", span)], "{spans:#?}");
            assert_eq!(spans[1].span_context.trace_id().to_string(), trace);
        }
        assert!(exported.series().iter().any(|line| line.contains("mcp.method.name=tools/list")));
    });
}

#[test]
fn sampled_parents_and_all_roots_have_spans_if_asked_for() {
    recorded(VersionSet::MODERN, |exported, _| {
        for (root_ratio, parent, count) in [
            (0.0, Some(PARENT.to_owned()), 2),
            (1.0, Some(PARENT.to_owned()), 2),
            (1.0, Some(PARENT.replace("-01", "-00")), 0),
            (1.0, None, 2),
        ] {
            let telemetry = || exported.telemetry().parent_based_sampler(root_ratio);
            let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
            exported.spans();
            let options = parent.as_ref().map(|parent| with_meta(&json!({"traceparent": parent})));
            pair.call_tool("add", &options.unwrap_or_default());
            assert_eq!(exported.spans().len(), count, "{root_ratio} {parent:?}");
        }
        // The running span is a parent, too.
        let telemetry = || exported.telemetry().parent_based_sampler(0.0);
        let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
        tracing::info_span!("application").in_scope(|| pair.call_tool("add", &CallOptions::new()));
        assert_eq!(exported.spans().len(), 3);
    });
}

#[test]
fn context_of_peer_is_handed_on_without_spans() {
    let exported = Exported::new();
    let telemetry = || exported.telemetry().without_spans();
    let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
    let observer = telemetry().build();
    let meta = json!({"traceparent": PARENT, "tracestate": "rojo=1"});
    let call = pair.call("tools/call", &json!({"name": "add"}), &with_meta(&meta));
    let mut inside = None;
    let observation = call.caller().observation().expect("observed").clone();
    observation.in_scope(&mut || inside = observer.current_context());
    assert_eq!(inside, Some(TraceContext::new().traceparent(PARENT).tracestate("rojo=1")));
    assert_eq!(observer.current_context(), None);
    pair.complete(&call, &json!({"content": []}));
    assert!(exported.spans().is_empty());
}
