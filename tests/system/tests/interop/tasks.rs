//! Tasks of our server with SDK clients: the experimental tasks of 2025-11-25, and the extension of 2026-07-28.

use alloc::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::hosted_server::HostedServer;
use crate::interop::sdk_clients::parse_steps;
use crate::peers::{is_node_ready, is_rmcp_ready, node, probe, rmcp_program};
use crate::run::{command, print_line};

/// Runs a client with our server, over both transports, and returns the steps of each.
fn run_client(client: impl Fn() -> Command) -> [BTreeMap<String, Value>; 2] {
    let mut stdio = client();
    stdio.arg("--").arg(probe()).args(["serve", "--everything"]);
    let mut server = Command::new(probe());
    server.args(["serve", "--everything", "--http", "127.0.0.1:0", "--path", "/mcp"]);
    let server = HostedServer::start(server);
    let mut http = client();
    http.args(["--", &server.url]);
    let steps = [parse_steps(stdio), parse_steps(http)];
    server.stop();
    steps
}

// covers: TASK-001, TASK-002, TASK-005, TASK-006, TASK-007, TASK-009, TASK-014, TASK-019, TASK-020, TASK-021, TASK-022
// covers: TASK-003, TASK-018, TASK-023, TASK-026, TASK-027, TASK-028, TASK-031, TASK-032
#[test]
fn typescript_client_uses_tasks_of_own_server() {
    if !is_node_ready() {
        return;
    }
    let client = || {
        let mut client = command(["node", "tasks-client.mjs"]);
        client.current_dir(node());
        client
    };
    for (transport, steps) in ["stdio", "HTTP"].into_iter().zip(run_client(client)) {
        let support = &steps["support"]["support"];
        assert_eq!(
            (&support["slow_compute"], &support["failing_job"], &support["greet"]),
            (&json!("optional"), &json!("required"), &Value::Null)
        );
        assert_eq!(steps["failed"]["text"], "this job always fails");
        assert_eq!(steps["error"]["code"], -32603);
        assert_eq!(steps["input"]["text"], "a.txt was deleted");
        assert_eq!(steps["two-inputs"]["text"], "Alice and Alice");
        let hosted = &steps["hosted"];
        assert_eq!(hosted["text"], "Hello, Alice!");
        let received =
            |method: &str| hosted["received"].as_array().expect("methods").contains(&json!(method));
        assert!(received("elicitation/create"), "{hosted}");
        assert!(received("tasks/get") && received("tasks/result"), "{hosted}");
        assert_eq!(steps["cancel"]["again"], -32602, "{}", steps["cancel"]);
        let refused = &steps["refused"];
        assert_eq!(
            (&refused["plain"], &refused["forbidden"], &refused["unknown"]),
            (&json!(-32601), &json!(-32601), &json!(-32602))
        );
        print_line(&format!(
            "interop of tasks, TypeScript SDK 1 client over {transport}: {} steps",
            steps.len()
        ));
    }
}

// covers: TASK-101, TASK-104, TASK-107, TASK-108, TASK-110, TASK-111, TASK-112, TASK-113, TASK-117, TASK-118, TASK-122
// covers: TASK-123, TASK-124, TASK-128
#[test]
fn rmcp_client_uses_tasks_of_own_server() {
    if !is_rmcp_ready() {
        return;
    }
    let client = || {
        let mut client = Command::new(rmcp_program());
        client.arg("tasks");
        client
    };
    for (transport, steps) in ["stdio", "HTTP"].into_iter().zip(run_client(client)) {
        let text = |step: &str| steps[step]["result"]["content"][0]["text"].clone();
        assert_eq!(text("plain"), "Hello, rmcp!");
        assert_eq!(text("complete"), "computed interop for 1 s");
        assert_eq!(
            (text("failed-tool"), &steps["failed-tool"]["result"]["isError"]),
            (json!("this job always fails"), &json!(true))
        );
        assert_eq!(steps["error"]["error"]["code"], -32603);
        assert_eq!(text("input"), "a.txt was deleted");
        assert_eq!((text("two-inputs"), &steps["two-inputs"]["keys"]), (json!("Alice and Bob"), &json!(2)));
        assert_eq!(text("ask-first"), "Hello, Alice!");
        assert_eq!(steps["cancel"]["status"], "cancelled");
        assert_eq!(steps["unknown"]["code"], -32602);
        print_line(&format!("interop of tasks, rmcp client over {transport}: {} steps", steps.len()));
    }
}
