//! Fuzz target for snapshots of sessions.

use alloc::sync::Arc;

use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, Server};
use mcp_proto::{Capabilities, Capability, Change, Entropy, Instant, server};

fn new_server(seed: u8) -> Server {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let config = server::Config::new("fuzz", "1").capabilities(capabilities);
    Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([seed; 32], 0))
}

/// Restores arbitrary bytes, and checks the invariants.
///
/// - Bytes that are refused change nothing.
/// - A session that is taken can be written down, and is the same when it has moved again.
/// - Its client can open a stream and resume one, and ends it.
pub fn snapshot(data: &[u8]) {
    let now = Instant::from_micros(1);
    let mut first = new_server(1);
    if first.snapshots().restore(now, data).is_err() {
        assert_eq!((first.session_count(), first.poll_timeout()), (0, None));
        assert!(first.poll_event(now).is_none());
        return;
    }
    let id = first.snapshots().ids().pop().unwrap_or_else(|| panic!("the session is not there"));
    assert!(first.snapshots().restore(now, data).is_err(), "it is here already");
    let saved = first.snapshots().save(&id).unwrap_or_else(|| panic!("it cannot be written down"));
    let mut second = new_server(2);
    assert_eq!(second.snapshots().restore(now, &saved), Ok(()));
    assert_eq!(second.snapshots().save(&id).as_ref(), Some(&saved), "it is another session now");

    second.engine().publish(now, &Change::Tools);
    for (method, last_event) in [("GET", "1-0"), ("GET", ""), ("GET", "2-1"), ("DELETE", "")] {
        let fields = [
            ("Host", &b"localhost"[..]),
            ("Mcp-Session-Id", id.as_bytes()),
            ("Last-Event-ID", last_event.as_bytes()),
        ];
        let fields = if last_event.is_empty() { &fields[..2] } else { &fields };
        let head = RequestHead { method, target: "/mcp", fields };
        let exchange = second.open(now, &head, None);
        second.handle_end(now, exchange);
        while let Some(exchange) = second.poll_ready(now) {
            let length = second.transmit(now, exchange).len();
            second.consume(exchange, length);
        }
    }
    while second.poll_event(now).is_some() {}
}
