//! Parts that a feature leaves out are refused, and the rest is served.

use mcp_eras::{
    INITIALIZE, INITIALIZED, NOW, answer, call, client, last_id, modern, new_server, receive, written,
};
use mcp_proto::client::Event;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, InputRequests, LoggingLevel};
use mcp_proto::pipe::Client;
use mcp_proto::{CallError, CallOptions, Capability, RawJson, UseError, Version, VersionSet};
#[cfg(not(feature = "modern"))]
use mcp_proto::{Diagnostic, MalformedMessage, server};

const CAPABILITIES: &[Capability] = &[
    Capability::Tools,
    Capability::ToolsListChanged,
    Capability::ResourceSubscriptions,
    #[expect(deprecated, reason = "tested until its removal")]
    Capability::Logging,
];

#[expect(deprecated, reason = "tested until its removal")]
const OF_CLIENT: &[Capability] =
    &[Capability::ElicitationUrl, Capability::SamplingTools, Capability::RootsListChanged];

/// Returns a client after its handshake, in the era that is built.
fn connected() -> Client {
    connected_to("2025-11-25")
}

/// Returns a client after its handshake, with a server of this revision unless it is modern.
fn connected_to(legacy: &str) -> Client {
    let mut client = client(OF_CLIENT);
    let opening = written(&mut client);
    for refused in ["elicitation", "sampling", "roots"] {
        assert!(!opening.contains(refused), "{opening}");
    }
    let about = match cfg!(feature = "modern") {
        true => r#""supportedVersions":["2026-07-28"],"resultType":"complete""#.into(),
        false => format!(r#""protocolVersion":"{legacy}","serverInfo":{{"name":"s","version":"1"}}"#),
    };
    let capabilities = r#""capabilities":{"tools":{},"logging":{}}"#;
    let id = last_id(&opening);
    let events = receive(
        &mut client,
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{about},{capabilities}}}}}"#),
    );
    assert!(matches!(&events[..], [Event::Ready(_)]), "{events:?}");
    written(&mut client);
    client
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
fn changes_and_logs_are_neither_declared_nor_subscribed_to() {
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let described = match cfg!(feature = "modern") {
        true => answer(&mut server, &modern("server/discover", "")),
        false => answer(&mut server, INITIALIZE),
    };
    assert!(described.contains(r#""tools":{}"#) && !described.contains("listChanged"), "{described}");
    assert!(!described.contains(r#""subscribe""#) && !described.contains("logging"), "{described}");
    if cfg!(feature = "modern") {
        let filter = r#""notifications":{"toolsListChanged":true},"#;
        let refused = answer(&mut server, &modern("subscriptions/listen", filter));
        assert!(refused.contains("-32601"), "{refused}");
    } else {
        answer(&mut server, INITIALIZED);
        let level = r#"{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"debug"}}"#;
        let refused = answer(&mut server, level);
        assert!(refused.contains("-32601"), "{refused}");
    }
}

/// Batches are refused as in the revisions without them: by a diagnostic, because such an error has no id, and errors
/// without one came later.
#[cfg(not(feature = "modern"))]
#[test]
fn batch_is_refused_in_the_revision_that_has_them() {
    const BATCH: &str = r#"[{"jsonrpc":"2.0","id":3,"method":"ping"}]"#;
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let opened = answer(&mut server, &INITIALIZE.replace("2025-11-25", "2025-03-26"));
    assert!(opened.contains(r#""protocolVersion":"2025-03-26""#), "{opened}");
    answer(&mut server, INITIALIZED);
    let events = receive(&mut server, BATCH);
    assert!(
        matches!(
            &events[..],
            [server::Event::Diagnostic {
                diagnostic: Diagnostic::Malformed { reason: MalformedMessage::Batch, .. },
                ..
            }]
        ),
        "{events:?}"
    );
    assert_eq!(written(&mut server), "");
    assert!(answer(&mut server, r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).contains("result"));

    let mut client = connected_to("2025-03-26");
    let events = receive(&mut client, BATCH);
    assert!(
        matches!(
            &events[..],
            [Event::Diagnostic(Diagnostic::Malformed { reason: MalformedMessage::Batch, .. })]
        ),
        "{events:?}"
    );
    assert_eq!(written(&mut client), "");
    receive(&mut client, r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert!(written(&mut client).contains("result"));
}

/// Returns a call of a tool whose client declares elicitation, and its server.
fn called() -> (mcp_proto::pipe::Server, mcp_proto::server::Call) {
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let request = match cfg!(feature = "modern") {
        true => modern("tools/call", r#""name":"echo","inputResponses":{"pin":{"action":"cancel"}},"#),
        false => {
            answer(
                &mut server,
                &INITIALIZE.replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#),
            );
            answer(&mut server, INITIALIZED);
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}"#.into()
        }
    };
    let call = call(&mut server, &request);
    (server, call)
}

#[test]
fn server_asks_nothing_and_its_call_can_still_be_answered() {
    let (mut server, call) = called();
    assert!(call.answer("pin").is_none(), "it was never asked for");
    let mut requests = InputRequests::new();
    let form = ElicitParams::form("Which pin?", ElicitSchema::default());
    requests.insert("pin", InputRequest::Elicit(form));
    let refused = server.engine().need_input(NOW, &call, &requests, b"");
    assert!(matches!(refused, Err(UseError::MissingPeerCapability(_))), "{refused:?}");
    let refused = server.engine().need_input(NOW, &call, &InputRequests::new(), b"state");
    assert!(matches!(refused, Err(UseError::ReservedMethod(_))), "{refused:?}");
    assert_eq!(written(&mut server), "");
    server.engine().complete_raw(NOW, call.id(), &RawJson::empty_object()).expect("an open call");
    assert!(written(&mut server).contains("result"));
}

#[cfg(feature = "modern")]
#[test]
fn state_that_the_server_cannot_have_sent_is_refused() {
    let mut server = new_server(VersionSet::ALL, CAPABILITIES);
    let refused = answer(&mut server, &modern("tools/call", r#""name":"echo","requestState":"s","#));
    assert!(refused.contains("-32602"), "{refused}");
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn log_message_is_refused_by_the_server_and_the_level_by_the_client() {
    let (mut server, call) = called();
    let refused = server.engine().log(NOW, call.id(), &LoggingLevel::Error, None, "x");
    assert_eq!(refused, Err(UseError::NotDeclared(Capability::Logging)));

    let mut client = connected();
    let refused = client.engine().set_log_level(NOW, Some(LoggingLevel::Debug));
    assert_eq!(refused, Err(UseError::MissingPeerCapability(Capability::Logging)));
    let message =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#;
    let events = receive(&mut client, message);
    assert!(
        matches!(&events[..], [Event::Notification(other)] if &*other.method == "notifications/message"),
        "{events:?}"
    );
    assert_eq!(written(&mut client), "");
}

#[test]
fn client_refuses_requests_of_a_server_and_goes_on() {
    let mut client = connected();
    let call =
        client.engine().call_tool(NOW, "t", &RawJson::empty_object(), &CallOptions::new()).expect("ready");
    let sent = written(&mut client);
    let id = last_id(&sent);
    if cfg!(feature = "modern") {
        let asks = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"s"}}}}"#
        );
        let events = receive(&mut client, &asks);
        assert!(
            matches!(&events[..], [Event::Done { call: ended, outcome: Err(CallError::UnknownResultType(_)), .. }]
                if *ended == call),
            "{events:?}"
        );
        assert_eq!(written(&mut client), "");
        return;
    }
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        let asks = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{}}}}"#);
        let events = receive(&mut client, &asks);
        assert!(events.is_empty(), "{events:?}");
        let refused = written(&mut client);
        assert!(refused.contains("-32601") && refused.contains(r#""id":7"#), "{refused}");
    }
    let events = receive(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert!(matches!(&events[..], [Event::Done { outcome: Ok(_), .. }]), "{events:?}");
}
