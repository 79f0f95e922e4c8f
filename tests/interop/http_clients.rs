//! Their clients with our server over HTTP

use std::process::Command;

use crate::hosted::Hosted;
use crate::peers::{node, node_ready, probe, python, python_program, python_ready};
use crate::run::{command, say};
use crate::their_clients::{check_session, everything, performed, used_everything};
use crate::{LEGACY, MODERN};

/// `mcp-probe serve --http …` with further words
fn ours(words: &[&str]) -> Hosted {
    let mut server = Command::new(probe());
    server.args(["serve", "--http", "127.0.0.1:0", "--path", "/mcp"]).args(words);
    Hosted::start(server)
}

/// All steps of a session.
fn session(server: &Hosted, client: &str, args: &[&str], era: &str, revision: &str) {
    let mut words = command(["node", client]);
    words.current_dir(node()).args(args).args(["--", &server.url]);
    let steps = performed(words);
    let progress = &check_session(&steps, era, revision)["progress"];
    let count = steps.len();
    say(&format!("interop over HTTP, {client} {args:?}: {revision}, {count} steps, progress {progress}"));
}

#[test]
fn their_clients_with_our_server_over_http() {
    if !node_ready() {
        return;
    }
    // One server for all of them, as it would be.
    let server = ours(&[]);
    session(&server, "client-v1.mjs", &[], "legacy", LEGACY);
    session(&server, "client-v2.mjs", &["--era", "legacy"], "legacy", LEGACY);
    session(&server, "client-v2.mjs", &["--era", "modern"], "modern", MODERN);
    session(&server, "client-v2.mjs", &["--era", "auto"], "modern", MODERN);
    server.end();
}

#[test]
fn their_clients_with_our_server_over_http_and_sse() {
    if !node_ready() {
        return;
    }
    let mut server = ours(&["--sse"]);
    server.url = server.url.replace("/mcp", "/sse");
    session(&server, "client-v1.mjs", &["--sse"], "legacy", LEGACY);
    session(&server, "client-v2.mjs", &["--era", "legacy", "--sse"], "legacy", LEGACY);
    server.end();
}

#[test]
fn their_clients_use_everything_over_http() {
    let node_ready = node_ready();
    for (client, args, era) in [
        ("client-v1.mjs", &[][..], "legacy"),
        ("client-v2.mjs", &["--era", "legacy"], "legacy"),
        ("client-v2.mjs", &["--era", "modern"], "modern"),
    ] {
        if node_ready {
            // Each has a server of its own, as some of the steps change it.
            let server = ours(&["--everything"]);
            let mut words = command(["node", client]);
            words.current_dir(node()).args(args).arg("--everything").arg(everything());
            words.args(["--", &server.url]);
            let expected = ["end", "everything", "negotiate", "nothing-stray"];
            used_everything(client, args, &performed(words), &expected, era);
        }
    }
    for (mode, era) in [("modern", "modern"), ("legacy", "legacy"), ("auto", "modern")] {
        if python_ready() {
            let server = ours(&["--everything"]);
            let mut words = Command::new(python_program());
            words.current_dir(python()).args(["client.py", "--era", mode]).arg(everything());
            words.args(["--", &server.url]);
            used_everything(
                "client.py",
                &[mode],
                &performed(words),
                &["end", "everything", "negotiate"],
                era,
            );
        }
    }
}
