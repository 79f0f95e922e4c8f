//! SDK clients with our server over HTTP.

use std::process::Command;

use crate::hosted_server::HostedServer;
use crate::interop::sdk_clients::{assert_used_everything, check_session, everything, parse_steps};
use crate::interop::{LEGACY, MODERN};
use crate::peers::{is_node_ready, is_python_ready, node, probe, python, python_program};
use crate::run::{command, print_line};

/// Starts `mcp-probe serve --http …` with further arguments.
fn start_own_server(words: &[&str]) -> HostedServer {
    let mut server = Command::new(probe());
    server.args(["serve", "--http", "127.0.0.1:0", "--path", "/mcp"]).args(words);
    HostedServer::start(server)
}

/// Checks all steps of a session.
fn assert_session(server: &HostedServer, client: &str, args: &[&str], era: &str, revision: &str) {
    let mut words = command(["node", client]);
    words.current_dir(node()).args(args).args(["--", &server.url]);
    let steps = parse_steps(words);
    let progress = &check_session(&steps, era, revision)["progress"];
    let count = steps.len();
    print_line(&format!(
        "interop over HTTP, {client} {args:?}: {revision}, {count} steps, progress {progress}"
    ));
}

#[test]
fn sdk_clients_use_own_server_over_http() {
    if !is_node_ready() {
        return;
    }
    // One server for all clients.
    let server = start_own_server(&[]);
    assert_session(&server, "client-v1.mjs", &[], "legacy", LEGACY);
    assert_session(&server, "client-v2.mjs", &["--era", "legacy"], "legacy", LEGACY);
    assert_session(&server, "client-v2.mjs", &["--era", "modern"], "modern", MODERN);
    assert_session(&server, "client-v2.mjs", &["--era", "auto"], "modern", MODERN);
    server.stop();
}

#[test]
fn sdk_clients_use_own_server_over_http_sse() {
    if !is_node_ready() {
        return;
    }
    let mut server = start_own_server(&["--sse"]);
    server.url = server.url.replace("/mcp", "/sse");
    assert_session(&server, "client-v1.mjs", &["--sse"], "legacy", LEGACY);
    assert_session(&server, "client-v2.mjs", &["--era", "legacy", "--sse"], "legacy", LEGACY);
    server.stop();
}

#[test]
fn sdk_clients_use_all_features_over_http() {
    let node_ready = is_node_ready();
    for (client, args, era) in [
        ("client-v1.mjs", &[][..], "legacy"),
        ("client-v2.mjs", &["--era", "legacy"], "legacy"),
        ("client-v2.mjs", &["--era", "modern"], "modern"),
    ] {
        if node_ready {
            // One server per client, because some steps change its state.
            let server = start_own_server(&["--everything"]);
            let mut words = command(["node", client]);
            words.current_dir(node()).args(args).arg("--everything").arg(everything());
            words.args(["--", &server.url]);
            let expected = ["end", "everything", "negotiate", "nothing-stray"];
            assert_used_everything(client, args, &parse_steps(words), &expected, era);
        }
    }
    for (mode, era) in [("modern", "modern"), ("legacy", "legacy"), ("auto", "modern")] {
        if is_python_ready() {
            let server = start_own_server(&["--everything"]);
            let mut words = Command::new(python_program());
            words.current_dir(python()).args(["client.py", "--era", mode]).arg(everything());
            words.args(["--", &server.url]);
            assert_used_everything(
                "client.py",
                &[mode],
                &parse_steps(words),
                &["end", "everything", "negotiate"],
                era,
            );
        }
    }
}
