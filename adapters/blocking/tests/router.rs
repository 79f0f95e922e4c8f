//! The router of `mcp-blocking`, whose handlers may share state that is not `Send`.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;

use crate::adapter::serve;
use crate::suites::observer::{Measuring, SLOW, slow_router};
use mcp_blocking::{Client, Cx, Options, Router};
use mcp_proto::model::Tool;
use mcp_proto::{RawJson, client};
use serde_json::{Value, json};

#[test]
fn handler_holds_state_that_is_not_send() {
    let (near, far) = mcp_std::io::memory_pair(4096);
    let server = std::thread::spawn(move || {
        let (own, shared) = (Cell::new(0), Rc::new(Cell::new(0)));
        let mut router = Router::new("counts", "1");
        let tool = Tool::new("count", RawJson::new(r#"{"type":"object"}"#).unwrap());
        router.tool_with(tool, move |_: &mut Cx<'_>, _: Value| {
            own.set(own.get() + 1);
            shared.set(shared.get() + own.get());
            shared.get()
        });
        mcp_blocking::serve(router.config().unwrap(), near, router)
    });
    let client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    for sum in ["1", "3", "6"] {
        assert_eq!(client.call_tool("count", &json!({})).unwrap().content[0].as_text(), Some(sum));
    }
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

#[test]
fn clock_is_read_at_the_end_of_a_call_only_for_an_observation_that_needs_it() {
    for needs_end_time in [true, false] {
        let measuring = Measuring { needs_end_time, durations: Arc::default() };
        let observer = measuring.clone();
        let (client, serving) = serve(move || slow_router(&observer), Options::default());
        client.call_tool("slow", &json!({})).unwrap();
        client.close().unwrap();
        serving.join().unwrap().unwrap();
        let durations = measuring.durations.lock().unwrap();
        assert_eq!(durations[0] >= SLOW / 2, needs_end_time, "{durations:?}");
    }
}
