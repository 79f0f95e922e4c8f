//! A router of closures that may change what they hold

extern crate alloc;

use alloc::rc::Rc;
use core::cell::Cell;

use mcp_blocking::{self as adapter, Client, Cx, Router};
use mcp_proto::model::Tool;
use mcp_proto::{RawJson, client};
use serde_json::{Value, json};

#[path = "shared/router.rs"]
mod shared;

#[test]
fn handlers_hold_what_no_other_thread_could() {
    let (near, far) = mcp_std::memory_pair(4096);
    let server = std::thread::spawn(move || {
        let (mut own, shared) = (0, Rc::new(Cell::new(0)));
        let mut router = Router::new("counts", "1");
        let tool = Tool::new("count", RawJson::new(r#"{"type":"object"}"#).unwrap());
        router.tool_with(tool, move |_: &mut Cx<'_>, _: Value| {
            own += 1;
            shared.set(shared.get() + own);
            shared.get()
        });
        router.serve(near)
    });
    let mut client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    for sum in ["1", "3", "6"] {
        assert_eq!(client.call_tool("count", &json!({})).unwrap().content[0].as_text(), Some(sum));
    }
    client.close().unwrap();
    server.join().unwrap().unwrap();
}
