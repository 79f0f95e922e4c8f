//! Parts that a feature leaves out are refused, and the rest is served.

use std::sync::Arc;

use mcp_eras::{INITIALIZE, INITIALIZED, answer, modern, new_server};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::Config;
use mcp_proto::{Capability, Instant, Limits, Version, VersionSet, client};

const CAPABILITIES: &[Capability] =
    &[Capability::Tools, Capability::ToolsListChanged, Capability::ResourceSubscriptions];

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
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
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
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let refused = answer(&mut server, &modern("server/discover", ""));
    assert!(refused.contains(r#""error""#), "{refused}");
    let opened = answer(&mut server, INITIALIZE);
    assert!(opened.contains(r#""protocolVersion":"2025-11-25""#), "{opened}");
    answer(&mut server, INITIALIZED);
    let called =
        answer(&mut server, r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo"}}"#);
    assert_eq!(called, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
}

#[test]
fn changes_are_neither_declared_nor_subscribed_to() {
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let described = match cfg!(feature = "modern") {
        true => answer(&mut server, &modern("server/discover", "")),
        false => answer(&mut server, INITIALIZE),
    };
    assert!(described.contains(r#""tools":{}"#) && !described.contains("listChanged"), "{described}");
    assert!(!described.contains(r#""subscribe""#), "{described}");
    let refused = if cfg!(feature = "modern") {
        let filter = r#""notifications":{"toolsListChanged":true},"#;
        answer(&mut server, &modern("subscriptions/listen", filter))
    } else {
        answer(&mut server, INITIALIZED);
        let uri = r#"{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"a:b"}}"#;
        answer(&mut server, uri)
    };
    assert!(refused.contains("-32601"), "{refused}");
}

#[cfg(feature = "modern")]
#[test]
fn state_that_the_server_cannot_have_sent_is_refused() {
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let refused = answer(&mut server, &modern("tools/call", r#""name":"echo","requestState":"s","#));
    assert!(refused.contains("-32602"), "{refused}");
}

#[test]
fn tasks_are_unknown_to_the_server_and_not_declared_by_the_client() {
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let get = match cfg!(feature = "modern") {
        true => modern("tasks/get", r#""taskId":"t","#),
        false => {
            let opened = answer(&mut server, INITIALIZE);
            assert!(!opened.contains("tasks"), "{opened}");
            answer(&mut server, INITIALIZED);
            r#"{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t"}}"#.into()
        }
    };
    let refused = answer(&mut server, &get);
    assert!(refused.contains(r#""error""#) && refused.contains("-32601"), "{refused}");
    assert!(server.engine().tasks(Instant::from_micros(1)).is_empty());

    let mut client = Client::new(Arc::new(client::Config::new("test", "1")), Instant::ZERO);
    let opening = String::from_utf8(client.transmit().to_vec()).expect("UTF-8");
    assert!(!opening.contains("tasks"), "{opening}");
    assert!(!client.engine().config().has_tasks());
}

#[test]
fn messages_are_not_recorded() {
    let mut limits = Limits::default();
    limits.tap_records = 8;
    let config = Config::new("test", "1").limits(limits);
    let mut server = Server::new(Arc::new(config), Instant::ZERO);
    let discover = if cfg!(feature = "modern") { modern("server/discover", "") } else { INITIALIZE.into() };
    assert!(answer(&mut server, &discover).contains("result"));
    assert!(server.engine().poll_tap().is_none());
}
