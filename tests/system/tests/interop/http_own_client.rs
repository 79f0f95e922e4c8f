//! `mcp-probe` as a client of SDK servers over HTTP.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::hosted_server::HostedServer;
use crate::interop::own_client::{SdkServer, v2_tools};
use crate::interop::{LEGACY, MODERN};
use crate::peers::{is_node_ready, node, probe};
use crate::run::{DEADLINE, ProcessOutput, print_line, run};

/// Runs `mcp-probe ARGS URL`.
fn run_probe(args: &[&str], url: &str) -> ProcessOutput {
    let mut client = Command::new(probe());
    client.args(args).arg(url);
    run(client, DEADLINE).expect("mcp-probe starts")
}

/// Runs `inspect` and checks the revision and one tool.
fn inspect(args: &[&str], url: &str, revision: &str, tool: &str) -> Value {
    let seen = run_probe(&[&["inspect", "--json"], args].concat(), url).assert_success().json();
    assert_eq!(seen["revision"], revision, "{seen}");
    let tools = seen["tools"].as_array().expect("tools");
    assert!(tools.iter().any(|seen| seen["name"] == tool), "no {tool}: {seen}");
    seen
}

#[test]
fn own_client_uses_typescript_2_server_over_http() {
    if is_node_ready() {
        for (era, revision) in [("modern", MODERN), ("legacy", LEGACY)] {
            let peer = SdkServer::typescript_v2(era).over_http();
            print_line(&format!(
                "interop over HTTP, our client, server 2.4.0, {}",
                v2_tools(&peer, revision)
            ));
            let (done, _) = peer.probe_in_era("auto", &["inspect", "--json"]);
            assert_eq!(done.assert_success().json()["era"], era);
        }
    }
}

#[test]
fn own_client_uses_server_everything_over_http() {
    if !is_node_ready() {
        return;
    }
    for (mode, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        // This server is given a port and does not print its address.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
        let mut server = Command::new("node");
        server.arg(entry.iter().fold(node(), |path, part| path.join(part))).arg(mode);
        let server = HostedServer::start_at(
            {
                server.env("PORT", port.to_string());
                server
            },
            port,
            path,
        );
        inspect(&[], &server.url, LEGACY, "echo");
        run_probe(&["call", "echo", "--args", r#"{"message":"hello"}"#], &server.url)
            .assert_success()
            .assert_output_contains("Echo: hello");
        run_probe(&["call", "get-roots-list", "--root", "/srv/a b"], &server.url)
            .assert_success()
            .assert_output_contains("file:///srv/a%20b");
        run_probe(&["ping"], &server.url).assert_success();
        print_line(&format!(
            "interop over HTTP, our client, server-everything {mode}: inspect, call, roots, ping"
        ));
    }
}
