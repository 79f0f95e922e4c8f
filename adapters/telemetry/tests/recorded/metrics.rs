//! Metrics: their labels, and how many there can be.

use alloc::sync::Arc;

use mcp_proto::{CallOptions, Instant, RpcError, VersionSet, server};
use mcp_telemetry::Telemetry;
use serde_json::json;

use crate::support::{Exported, Pair};

#[test]
fn durations_have_labels_of_the_conventions() {
    let exported = Exported::new();
    let telemetry = || exported.telemetry().transport("tcp");
    let mut pair = Pair::new(VersionSet::LEGACY, telemetry(), telemetry());
    pair.call_tool("add", &CallOptions::new());
    pair.call_tool("add", &CallOptions::new());
    let call = pair.call("tools/call", &json!({"name": "add"}), &CallOptions::new());
    pair.complete(&call, &json!({"content": [], "isError": true}));
    let call = pair.call("resources/read", &json!({"uri": "file:///secret"}), &CallOptions::new());
    pair.fail(&call, &RpcError::new(-32002, "no such resource"));
    let of = |side: &str, rest: &str| {
        let tool = "gen_ai.operation.name=execute_tool,gen_ai.tool.name=add,mcp.method.name=tools/call";
        let version = "mcp.protocol.version=2025-11-25,network.transport=tcp";
        let rest = rest.replace("TOOL", tool).replace("VERSION", version);
        format!("mcp.{side}.{rest}")
    };
    let mut expected = Vec::new();
    for side in ["client", "server"] {
        let error = "error.type=-32002";
        let code = "rpc.response.status_code=-32002";
        expected.extend([
            of(side, "operation.duration {TOOL,VERSION} 2"),
            of(side, "operation.duration {error.type=tool_error,TOOL,VERSION} 1"),
            of(
                side,
                &format!("operation.duration {{{error},mcp.method.name=resources/read,VERSION,{code}}} 1"),
            ),
        ]);
    }
    expected.push(
        "mcp.server.operation.duration {mcp.method.name=initialize,network.transport=tcp} 1".to_owned(),
    );
    expected.sort();
    assert_eq!(exported.series(), expected);
}

#[cfg(feature = "bound-instruments")]
#[test]
fn bound_instruments_record_the_same_series() {
    let series = |is_bound: bool| {
        let exported = Exported::new();
        let telemetry = || {
            let telemetry = exported.telemetry().transport("tcp").max_names(2);
            if is_bound { telemetry.bind_instruments() } else { telemetry }
        };
        for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
            let mut pair = Pair::new(versions, telemetry(), telemetry());
            for name in ["add", "add", "subtract", "divide"] {
                pair.call_tool(name, &CallOptions::new());
            }
            let call = pair.call("tools/call", &json!({"name": "add"}), &CallOptions::new());
            pair.complete(&call, &json!({"content": [], "isError": true}));
            let call = pair.call("tools/list", &json!({}), &CallOptions::new());
            pair.complete(&call, &json!({"tools": []}));
        }
        exported.series()
    };
    let bound = series(true);
    assert!(bound.iter().any(|line| line.contains("gen_ai.tool.name=_OTHER")), "{bound:#?}");
    assert_eq!(bound, series(false));
}

#[test]
fn hostile_peers_add_no_series() {
    let exported = Exported::new();
    let telemetry = || exported.telemetry().max_names(3);
    let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
    let before = exported.series().len();
    for i in 0..50 {
        // Unknown tools, then unknown methods, then unknown codes.
        let call = pair.call("tools/call", &json!({"name": format!("no-{i}")}), &CallOptions::new());
        pair.fail(&call, &RpcError::invalid_params("unknown tool"));
        pair.send(&format!("no/{i}"), &json!({}), &CallOptions::new());
        let call = pair.call("tools/list", &json!({}), &CallOptions::new());
        pair.fail(&call, &RpcError::new(i, "odd"));
    }
    let series = exported.series();
    assert_eq!(series.len() - before, 3 * 2, "{series:#?}");
    assert!(series.iter().all(|line| !line.contains("no-") && !line.contains("no/")), "{series:#?}");
    // Requests that the engine refuses before anything has looked for the tool.
    let config =
        server::Config::new("server", "1").versions(VersionSet::LEGACY).observer(telemetry().build());
    let mut engine = server::Engine::new(Arc::new(config));
    let channel = engine.open_channel(Instant::ZERO);
    for i in 0..50 {
        let request =
            json!({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": format!("no-{i}")}});
        engine.handle_message(Instant::ZERO, channel, request.to_string().into());
        assert!(engine.outbox(channel).and_then(|outbox| outbox.pop_message()).is_some(), "refused");
    }
    let refused = exported.series();
    assert_eq!(refused.len() - series.len(), 1, "{refused:#?}");
    assert!(refused.iter().all(|line| !line.contains("no-")), "{refused:#?}");
    let series = refused;
    // Known tools beyond the limit.
    for i in 0..50 {
        pair.call_tool(&format!("tool-{i}"), &CallOptions::new());
    }
    let named = exported.series();
    assert_eq!(named.len() - series.len(), (3 + 1) * 2, "{named:#?}");
    assert!(named.iter().any(|line| line.contains("gen_ai.tool.name=tool-2,")), "{named:#?}");
    assert!(named.iter().any(|line| line.ends_with(" 47")), "{named:#?}");
}

#[test]
fn custom_methods_have_series_if_they_are_named() {
    let exported = Exported::new();
    let telemetry = exported.telemetry().methods(["example/ask"]);
    let mut pair = Pair::new(VersionSet::MODERN, telemetry, Telemetry::new().without_metrics());
    pair.send("example/ask", &json!({}), &CallOptions::new());
    pair.send("example/other", &json!({}), &CallOptions::new());
    let series = exported.series();
    assert!(series.iter().any(|line| line.contains("mcp.method.name=example/ask")), "{series:#?}");
    assert!(series.iter().any(|line| line.contains("mcp.method.name=_OTHER")), "{series:#?}");
    assert!(series.iter().all(|line| line.starts_with("mcp.client.")), "{series:#?}");
}

#[test]
fn nothing_is_observed_if_nothing_records() {
    let telemetry = || Telemetry::new().without_metrics().without_spans();
    let mut pair = Pair::new(VersionSet::MODERN, telemetry(), telemetry());
    let call = pair.call("tools/list", &json!({}), &CallOptions::new());
    assert!(call.caller().observation().is_none());
    pair.complete(&call, &json!({"tools": []}));
}

#[test]
fn sessions_are_measured_at_their_end() {
    for (versions, version, at_server) in
        [(VersionSet::LEGACY, "2025-11-25", 1), (VersionSet::MODERN, "2026-07-28", 0)]
    {
        let exported = Exported::new();
        let mut pair = Pair::new(versions, exported.telemetry(), exported.telemetry());
        let sessions = || {
            let mut lines = exported.series();
            lines.retain(|line| line.contains("session.duration"));
            lines
        };
        pair.call_tool("add", &CallOptions::new());
        assert!(sessions().is_empty());
        pair.lose_connection();
        let line = |side: &str| format!("mcp.{side}.session.duration {{mcp.protocol.version={version}}} 1");
        // Modern clients have no sessions at a server.
        assert_eq!(sessions(), [line("client"), line("server")][..=at_server]);
    }
}
