//! The official TypeScript clients with the server in C.

use std::path::Path;

use serde_json::Value;

use crate::build::{Linked, compile, example, is_installed};
use crate::peers::{is_node_ready, node};
use crate::run::{DEADLINE, command, run};

/// Runs a client with the server, and checks its steps.
fn check(client: &str, args: &[&str], server: &Path, era: &str, revision: &str) {
    let mut command = command(["node", client]);
    command.current_dir(node()).args(args).arg("--").arg(server);
    let done = run(command, DEADLINE).expect("node starts").assert_success();
    let steps: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("a step")).collect();
    assert_eq!(steps.len(), 12, "{done}");
    for step in &steps {
        assert!(step["ok"] == true || step["ok"] == "peer-cannot", "{step}: {done}");
    }
    let negotiated = steps.iter().find(|step| step["step"] == "negotiate").expect("a step");
    assert_eq!((&negotiated["era"], &negotiated["version"]), (&era.into(), &revision.into()), "{done}");
}

#[test]
fn typescript_clients_use_c_server_in_both_eras() {
    if is_installed("gcc") && is_node_ready() {
        let server = compile("gcc", &example("server.c"), Linked::Static);
        check("client-v1.mjs", &[], &server, "legacy", "2025-11-25");
        check("client-v2.mjs", &["--era", "legacy"], &server, "legacy", "2025-11-25");
        check("client-v2.mjs", &["--era", "modern"], &server, "modern", "2026-07-28");
    }
}
