//! Our client, as people use it, with their servers over HTTP

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::hosted::Hosted;
use crate::our_client::{Peer, v2_tools};
use crate::peers::{node, node_ready, probe};
use crate::run::{DEADLINE, Done, run, say};
use crate::{LEGACY, MODERN};

/// `mcp-probe ARGS URL`
fn ours(args: &[&str], url: &str) -> Done {
    let mut client = Command::new(probe());
    client.args(args).arg(url);
    run(client, DEADLINE).expect("mcp-probe starts")
}

/// What `inspect` has to say of a server.
fn inspected(args: &[&str], url: &str, revision: &str, tool: &str) -> Value {
    let seen = ours(&[&["inspect", "--json"], args].concat(), url).ok().json();
    assert_eq!(seen["revision"], revision, "{seen}");
    let tools = seen["tools"].as_array().expect("tools");
    assert!(tools.iter().any(|seen| seen["name"] == tool), "no {tool}: {seen}");
    seen
}

#[test]
fn our_client_with_their_server_v2_over_http() {
    if node_ready() {
        for (era, revision) in [("modern", MODERN), ("legacy", LEGACY)] {
            let peer = Peer::v2(era).over_http();
            say(&format!("interop over HTTP, our client, server 2.4.0, {}", v2_tools(&peer, revision)));
            let (done, _) = peer.probe_as("auto", &["inspect", "--json"]);
            assert_eq!(done.ok().json()["era"], era);
        }
    }
}

#[test]
fn our_client_with_their_server_everything_over_http() {
    if !node_ready() {
        return;
    }
    for (mode, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        // It is told where to listen, and does not say where it does.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
        let mut server = Command::new("node");
        server.arg(entry.iter().fold(node(), |path, part| path.join(part))).arg(mode);
        let server = Hosted::at(
            {
                server.env("PORT", port.to_string());
                server
            },
            port,
            path,
        );
        inspected(&[], &server.url, LEGACY, "echo");
        ours(&["call", "echo", "--args", r#"{"message":"hello"}"#], &server.url).ok().says("Echo: hello");
        ours(&["call", "get-roots-list", "--root", "/srv/a b"], &server.url).ok().says("file:///srv/a%20b");
        ours(&["ping"], &server.url).ok();
        say(&format!("interop over HTTP, our client, server-everything {mode}: inspect, call, roots, ping"));
    }
}
