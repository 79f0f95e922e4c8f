//! Apps: our client with an official server, and our server with the official code of hosts and pages.

use std::path::PathBuf;

use serde_json::json;

use crate::interop::LEGACY;
use crate::peers::{is_npm_ready, peers, probe, probe_client};
use crate::run::{DEADLINE, command, print_line, run};

fn folder() -> PathBuf {
    peers().join("apps")
}

fn is_ready() -> bool {
    is_npm_ready(&folder(), "interop with the official packages of MCP Apps")
}

// covers: APP-003 APP-005 APP-006 APP-009
#[test]
fn own_client_inspects_and_calls_an_official_app() {
    if !is_ready() {
        return;
    }
    let server = folder().join("node_modules/@modelcontextprotocol/server-basic-vanillajs/dist/index.js");
    let probe_server = |args: &[&str]| {
        let mut client = probe_client();
        client.args(args).arg("--").arg("node").arg(&server).arg("--stdio");
        run(client, DEADLINE).expect("mcp-probe starts").assert_success()
    };
    // This server has a handshake only.
    for version in [LEGACY, "2025-06-18"] {
        let inspected = probe_server(&["inspect", "--json", "--protocol-version", version]).json();
        let [app] = &inspected["apps"].as_array().expect("apps")[..] else { panic!("{inspected}") };
        assert_eq!(
            (&app["tool"], &app["visibility"], &app["page"]["mimeType"], &app["problem"]),
            (&json!("get-time"), &json!(["model", "app"]), &json!("text/html;profile=mcp-app"), &json!(null)),
            "{app}"
        );
        let page = app["resourceUri"].as_str().expect("a page");
        assert!(page.starts_with("ui://"), "{app}");
        let html = probe_server(&["read", page, "--protocol-version", version]).stdout;
        assert!(html.trim_start().to_lowercase().starts_with("<!doctype html>"), "{:.80}", html);
        let called = probe_server(&["call", "get-time", "--protocol-version", version]).stdout;
        assert!(called.contains('T') && called.contains(':'), "{called}");
        print_line(&format!("interop, our client with server-basic-vanillajs in {version}: {app}"));
    }
}

// covers: APP-001 APP-002 APP-003 APP-005 APP-007 APP-009 APP-012 APP-015 APP-016
#[test]
fn official_host_shows_a_page_of_own_server() {
    if !is_ready() {
        return;
    }
    for era in ["modern", "legacy"] {
        let mut host = command(["node", "host.mjs", "show_counter", "raise_counter", "--"]);
        host.current_dir(folder()).arg(probe()).args(["serve", "--everything", "--era", era]);
        let mut report = run(host, DEADLINE).expect("node starts").assert_success().json();
        let extensions =
            report.as_object_mut().and_then(|report| report.remove("server")).expect("extensions");
        assert_eq!(extensions["io.modelcontextprotocol/ui"], json!({}));
        let expected = json!({
            "uri": "ui://counter/page",
            "mimeType": "text/html;profile=mcp-app",
            "html": "<!doctype html>",
            "meta": {"prefersBorder": true, "permissions": {"clipboardWrite": {}}},
            "allow": "clipboard-write",
            "appOnly": ["raise_counter"],
            "shown": "The counter is at 0.",
            "called": "The counter is at 1.",
            "samePage": true,
        });
        assert_eq!(report, expected);
    }
}
