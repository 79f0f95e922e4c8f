//! The router of `mcp-blocking`, whose handlers may share state that is not `Send`.

use alloc::rc::Rc;
use core::cell::Cell;

use mcp_blocking::{Client, Cx, Router};
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
