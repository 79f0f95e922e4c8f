//! The router of `mcp-threads`, whose handlers run in parallel.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use crate::support::DEADLINE;
use mcp_blocking::Client;
use mcp_proto::EntryKind;
use mcp_proto::{CallOptions, client};
use mcp_threads::{Cx, Router};
use serde_json::json;

// covers: TOOL-019
#[test]
fn update_applies_while_removed_tool_still_runs() {
    let (near, far) = mcp_std::io::memory_pair(4096);
    let (open, gate) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let server = thread::spawn(move || {
        let mut router = Router::new("changes", "1");
        let gate = std::sync::Mutex::new(gate);
        router
            .tool("slow", move |_: &mut Cx<'_>, ()| {
                begun.send(()).unwrap();
                gate.lock().unwrap().recv_timeout(DEADLINE).map_err(|_| "the gate stays closed")?;
                Ok::<_, &str>("slow, and there")
            })
            .description("Waits");
        let updates = router.updates();
        router
            .tool("replace", move |_: &mut Cx<'_>, ()| {
                updates.schedule(|router| {
                    router.core().remove(EntryKind::Tool, "slow");
                    router.core().remove(EntryKind::Tool, "replace");
                    router.tool("new", |_: &mut Cx<'_>, ()| "new").description("Is there now");
                });
                "replaced"
            })
            .description("Takes `slow` away, and itself");
        router.serve(near)
    });
    let client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    let slow = client.start_tool("slow", &json!({}), &CallOptions::default()).unwrap();
    client.poll(Duration::ZERO).unwrap();
    begins.recv_timeout(DEADLINE).unwrap();
    let call = |name: &str| match client.call_tool(name, &json!({})) {
        Ok(result) => result.content[0].as_text().unwrap().to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(call("replace"), "replaced");
    // The handler of `slow` still runs, although the tool is removed.
    assert_eq!(call("new"), "new");
    assert!(call("slow").contains("unknown tool") && call("replace").contains("unknown tool"));
    let tools: Vec<_> = client.list_tools().unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(tools, ["new"]);
    open.send(()).unwrap();
    assert!(client.wait(slow).unwrap().as_str().contains("slow, and there"));
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

#[test]
fn concurrent_updates_are_all_applied() {
    let (near, far) = mcp_std::io::memory_pair(1 << 16);
    let server = thread::spawn(move || {
        let mut router = Router::new("changes", "1");
        let updates = router.updates();
        let next = AtomicUsize::new(0);
        router
            .tool("add", move |_: &mut Cx<'_>, ()| {
                let name = format!("tool-{}", next.fetch_add(1, Ordering::Relaxed));
                let added = name.clone();
                updates.schedule(move |router| {
                    let answer = name.clone();
                    router.tool(&name, move |_: &mut Cx<'_>, ()| answer.clone());
                });
                added
            })
            .description("Adds a tool");
        router.serve(near)
    });
    let client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    let calls: Vec<_> =
        (0..100).map(|_| client.start_tool("add", &json!({}), &CallOptions::default()).unwrap()).collect();
    for call in calls {
        client.wait(call).unwrap();
    }
    assert_eq!(client.list_tools().unwrap().len(), 101);
    client.close().unwrap();
    server.join().unwrap().unwrap();
}
