//! Sessions that several services share.

use futures_lite::future::block_on;
use http::StatusCode;
use mcp_tower::session_store::MemorySessionStore;
use mcp_tower::{Cx, McpService, Router, SessionKeys, SharedSessions};
use serde_json::{Value, json};

use crate::support::{Legacy, answer, json_of, text_of, tool};

fn service(store: &MemorySessionStore) -> McpService {
    let mut router = Router::new("echo", "1");
    router.tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string());
    let sessions = SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).unwrap();
    McpService::builder(router).share_sessions(&sessions).build().unwrap()
}

// covers: HTTP-064, HTTP-071
#[test]
fn session_is_served_by_every_service_and_outlives_each() {
    let store = MemorySessionStore::new();
    let [a, b] = [(); 2].map(|()| service(&store));
    let mut client = Legacy::open(&a, &json!({}));
    for at in [&a, &b, &a, &b] {
        client.service = at;
        let (status, message) = json_of(block_on(client.call("echo")).unwrap());
        assert_eq!((status, text_of(&message)), (200, "{}"));
    }
    let c = service(&store);
    client.service = &c;
    assert_eq!(block_on(client.call("echo")).unwrap().status(), StatusCode::OK);
    assert_eq!(answer(&c, client.request("DELETE", String::new())).status(), StatusCode::NO_CONTENT);
    client.service = &b;
    // The news of the end may still be on its way.
    let ends = (0..1_000).any(|_| block_on(client.call("echo")).unwrap().status() == StatusCode::NOT_FOUND);
    assert!(ends);
}
