//! What a feature leaves out is refused, and the rest is served.

use std::sync::Arc;

use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Config, Event};
use mcp_proto::{Capabilities, Capability, Instant, RawJson, Version, VersionSet};

const CAPABILITIES: [Capability; 3] =
    [Capability::Tools, Capability::ToolsListChanged, Capability::ResourceSubscriptions];

/// Passes one message to a server and returns what it writes. Calls are answered with `{}`.
fn answer(server: &mut Server, message: &str) -> String {
    let now = Instant::from_micros(1);
    server.handle_input(now, message.as_bytes());
    server.handle_input(now, b"\n");
    while let Some(event) = server.poll_event(now) {
        if let Event::Call(call) = event {
            server.engine().complete_raw(now, call.id(), &RawJson::empty_object()).expect("an open call");
        }
    }
    let written = String::from_utf8(server.transmit().to_vec()).expect("UTF-8");
    server.consume(written.len());
    written
}

fn server(versions: VersionSet) -> Server {
    let capabilities = CAPABILITIES.into_iter().fold(Capabilities::new(), Capabilities::with);
    let config = Config::new("test", "1").capabilities(capabilities).versions(versions);
    Server::new(Arc::new(config), Instant::ZERO)
}

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#
);

fn modern(method: &str, params: &str) -> String {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let meta = format!(r#""_meta":{{{version},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{{params}{meta}}}}}"#)
}

#[test]
fn sets_hold_the_revisions_that_are_built() {
    for version in Version::ALL {
        let is_built = match version {
            Version::V2026_07_28 => cfg!(feature = "modern"),
            _ => cfg!(feature = "legacy"),
        };
        assert_eq!(VersionSet::ALL.contains(version), is_built, "{version}");
        assert_eq!(VersionSet::only(version).is_empty(), !is_built, "{version}");
        assert_eq!(VersionSet::NONE.with(version).contains(version), is_built, "{version}");
    }
}

#[cfg(not(feature = "legacy"))]
#[test]
fn modern_server_names_its_revision_to_an_old_client_and_serves_a_new_one() {
    let mut server = server(VersionSet::ALL);
    let refused = answer(&mut server, INITIALIZE);
    assert!(refused.contains(r#""error""#) && refused.contains(r#""supported":["2026-07-28"]"#), "{refused}");
    let refused = answer(&mut server, r#"[{"jsonrpc":"2.0","id":3,"method":"ping"}]"#);
    assert!(refused.contains(r#""error""#), "{refused}");
    let discovered = answer(&mut server, &modern("server/discover", ""));
    assert!(discovered.contains(r#""supportedVersions":["2026-07-28"]"#), "{discovered}");
    let called = answer(&mut server, &modern("tools/call", r#""name":"echo","arguments":{},"#));
    assert!(called.contains(r#""resultType":"complete""#), "{called}");
    // Responses, cancellations and progress without a call are diagnosed, and end nothing.
    for stray in [
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
    ] {
        assert_eq!(answer(&mut server, stray), "", "{stray}");
    }
    assert!(answer(&mut server, &modern("tools/list", "")).contains("result"));
}

#[cfg(not(feature = "modern"))]
#[test]
fn legacy_server_opens_a_session_and_refuses_a_new_client() {
    let mut server = server(VersionSet::ALL);
    let refused = answer(&mut server, &modern("server/discover", ""));
    assert!(refused.contains(r#""error""#), "{refused}");
    let opened = answer(&mut server, INITIALIZE);
    assert!(opened.contains(r#""protocolVersion":"2025-11-25""#), "{opened}");
    answer(&mut server, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let called =
        answer(&mut server, r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo"}}"#);
    assert_eq!(called, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
}

#[test]
fn changes_are_neither_declared_nor_subscribed_to() {
    let mut server = server(VersionSet::ALL);
    let described = match cfg!(feature = "modern") {
        true => answer(&mut server, &modern("server/discover", "")),
        false => answer(&mut server, INITIALIZE),
    };
    assert!(described.contains(r#""tools":{}"#) && !described.contains("listChanged"), "{described}");
    assert!(!described.contains(r#""subscribe""#), "{described}");
    if cfg!(feature = "modern") {
        let filter = r#""notifications":{"toolsListChanged":true},"#;
        let refused = answer(&mut server, &modern("subscriptions/listen", filter));
        assert!(refused.contains("-32601"), "{refused}");
    }
}
