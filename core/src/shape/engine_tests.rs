//! Tests that the engines write messages in the shape of their revision.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use crate::model::*;
use crate::pipe::{Client, Pipe, Server};
use crate::{
    CallError, CallId, CallOptions, Capabilities, Capability, Instant, RawJson, RpcError, UseError, Version,
    VersionSet, client, server,
};

const NOW: Instant = Instant::from_micros(1);

fn take(pipe: &mut impl Pipe) -> String {
    let text = String::from_utf8(pipe.transmit().to_vec()).expect("UTF-8");
    pipe.consume(text.len());
    text
}

/// Returns a server that has delivered one `resources/read` call in `version`.
fn server_with_request(version: Version) -> (Server, CallId) {
    let capabilities = Capabilities::new().with(Capability::Resources);
    let mut server = Server::new(Arc::new(server::Config::new("s", "1").capabilities(capabilities)), NOW);
    let mut send = |line: String| server.handle_input(NOW, format!("{line}\n").as_bytes());
    let mut meta = String::new();
    if version == Version::V2026_07_28 {
        meta = format!(
            r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
        );
    } else {
        let info = r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}"#;
        send(format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}",{info}}}}}"#
        ));
        send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into());
    }
    send(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"a:b"{meta}}}}}"#));
    loop {
        if let server::Event::Call(call) = server.poll_event(NOW).expect("a call") {
            let id = call.id();
            take(&mut server);
            return (server, id);
        }
    }
}

// covers: RES-015, RES-016, ERR-009
#[test]
fn server_sends_not_found_code_of_revision() {
    for (version, code) in [(Version::V2025_11_25, "-32002"), (Version::V2026_07_28, "-32602")] {
        let (mut server, call) = server_with_request(version);
        server.engine().fail(NOW, call, &RpcError::resource_not_found("a:b")).expect("open");
        let text = take(&mut server);
        assert!(text.contains(&format!(r#""error":{{"code":{code},"message""#)), "{text}");
        assert!(text.contains(r#""data":{"uri":"a:b"}"#), "{text}");
        assert_eq!(server.engine().fail(NOW, call, &RpcError::internal("")), Err(UseError::Stale));
    }
}

// covers: SCHEMA-011
#[test]
fn server_shapes_results_and_refuses_missing_types() {
    let (mut server, call) = server_with_request(Version::V2024_11_05);
    let needs_input = InputRequiredResult::new().request_state("s");
    let refused = UseError::NotInVersion {
        feature: "a result that asks for input".into(),
        version: Version::V2024_11_05,
    };
    assert_eq!(server.engine().complete(NOW, call, &needs_input), Err(refused));
    assert_eq!(take(&mut server), "", "nothing was sent, and the call is open");
    let mut contents = TextResourceContents::new("a:b", "x");
    contents.meta = RawJson::new("{}").ok();
    let result = ReadResourceResult::new([contents.into()]).ttl_ms(5);
    server.engine().complete(NOW, call, &result).expect("open");
    let text = take(&mut server);
    assert_eq!(
        text,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"contents\":[{\"uri\":\"a:b\",\"text\":\"x\"}]}}\n"
    );

    let (mut server, call) = server_with_request(Version::V2026_07_28);
    server.engine().complete(NOW, call, &result).expect("open");
    let text = take(&mut server);
    assert!(
        text.contains(r#""text":"x","_meta":{}}],"ttlMs":5,"cacheScope":"private","resultType":"complete""#),
        "{text}"
    );
}

/// Returns a client with a completion call queued before the revision was known, and the answer to `initialize`.
fn client_with_completion(version: Version) -> (Client, String) {
    let config = client::Config::new("c", "1").versions(VersionSet::only(version).with(Version::V2025_11_25));
    let config = config.known_era(Some(client::KnownEra::Legacy));
    let mut client = Client::new(Arc::new(config), NOW);
    let params = CompleteParams::new(PromptReference::new("p").title("P"), CompletionArgument::new("a", "b"))
        .context(CompletionContext::new());
    client.engine().call(NOW, "completion/complete", &params, &CallOptions::new()).expect("queued");
    let sampling = CreateMessageParams::new([], 1u32).tools([]);
    client.engine().call(NOW, "x/odd", &sampling, &CallOptions::new()).expect("queued");
    let _ = take(&mut client);
    let answer = format!(
        "{}{version}{}\n",
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":""#,
        r#"","capabilities":{"completions":{}},"serverInfo":{"name":"s","version":"1"}}}"#
    );
    (client, answer)
}

// covers: COMP-002, COMP-006
#[test]
fn call_queued_before_handshake_is_shaped_for_revision() {
    for (version, expected, fits) in [
        (
            Version::V2025_03_26,
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}"#,
            false,
        ),
        (
            Version::V2025_11_25,
            r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":"b"},"context":{}}"#,
            true,
        ),
    ] {
        let (mut client, answer) = client_with_completion(version);
        client.handle_input(NOW, answer.as_bytes());
        let text = take(&mut client);
        let mut refused = false;
        while let Some(event) = client.poll_event(NOW) {
            if let client::Event::Done { outcome: Err(CallError::Refused(reason)), .. } = event {
                assert_eq!(reason, UseError::NotInVersion { feature: "sampling with tools".into(), version });
                refused = true;
            }
        }
        let text = text + &take(&mut client);
        assert!(text.contains(expected), "{version}: {text}");
        assert_eq!((refused, text.contains("x/odd")), (!fits, fits), "{version}: {text}");
    }
}

#[test]
fn call_that_fits_no_revision_is_refused_at_once() {
    let config = client::Config::new("c", "1").versions(VersionSet::only(Version::V2025_06_18));
    let mut client = Client::new(Arc::new(config), NOW);
    let page = ElicitUrlParams::new("m", "u");
    let refused = client.engine().call(NOW, "x/odd", &page, &CallOptions::new());
    assert!(matches!(refused, Err(UseError::NotInVersion { .. })), "{refused:?}");
    assert_eq!(client.engine().pending_calls(), 0);
}
