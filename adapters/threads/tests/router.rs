//! A router whose handlers run side by side

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use mcp_blocking::Client;
use mcp_proto::router::Kind;
use mcp_proto::{CallOptions, client};
use mcp_threads::{self as adapter, Cx, Router};
use serde_json::json;

#[path = "../../blocking/tests/shared/router.rs"]
mod shared;

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(120);

// covers: TOOL-019
#[test]
fn a_change_waits_for_no_handler_and_is_seen_by_whoever_asked_for_it() {
    let (near, far) = mcp_std::memory_pair(4096);
    let (open, gate) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let server = thread::spawn(move || {
        let mut router = Router::new("changes", "1");
        let gate = std::sync::Mutex::new(gate);
        router.tool("slow", "Waits", move |_: &mut Cx<'_>, ()| {
            begun.send(()).unwrap();
            gate.lock().unwrap().recv_timeout(DEADLINE).map_err(|_| "hangs")?;
            Ok::<_, &str>("slow, and there")
        });
        let later = router.later();
        router.tool("replace", "Takes `slow` away, and itself", move |_: &mut Cx<'_>, ()| {
            later.change(|router| {
                router.core().remove(Kind::Tool, "slow");
                router.core().remove(Kind::Tool, "replace");
                router.tool("new", "Is there now", |_: &mut Cx<'_>, ()| "new");
            });
            "replaced"
        });
        router.serve(near)
    });
    let mut client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    let slow = client.start_tool("slow", &json!({}), &CallOptions::default()).unwrap();
    client.poll(Duration::ZERO).unwrap();
    begins.recv_timeout(DEADLINE).unwrap();
    let mut call = |name: &str| match client.call_tool(name, &json!({})) {
        Ok(result) => result.content[0].as_text().unwrap().to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(call("replace"), "replaced");
    // `slow` runs all the time, and is not there any more.
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
fn changes_of_many_handlers_at_once_are_all_made() {
    let (near, far) = mcp_std::memory_pair(1 << 16);
    let server = thread::spawn(move || {
        let mut router = Router::new("changes", "1");
        let later = router.later();
        let next = AtomicUsize::new(0);
        router.tool("add", "Adds a tool", move |_: &mut Cx<'_>, ()| {
            let name = format!("tool-{}", next.fetch_add(1, Ordering::Relaxed));
            let said = name.clone();
            later.change(move |router| {
                let answer = name.clone();
                router.tool(&name, "", move |_: &mut Cx<'_>, ()| answer.clone());
            });
            said
        });
        router.serve(near)
    });
    let mut client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    let calls: Vec<_> =
        (0..100).map(|_| client.start_tool("add", &json!({}), &CallOptions::default()).unwrap()).collect();
    for call in calls {
        client.wait(call).unwrap();
    }
    assert_eq!(client.list_tools().unwrap().len(), 101);
    client.close().unwrap();
    server.join().unwrap().unwrap();
}
