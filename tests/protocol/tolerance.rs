//! A client with misbehaving servers: noise on stdout, early messages, and unexpected requests.

use mcp_proto::client::{Config, Event};
use mcp_proto::model::Icon;
use mcp_proto::{
    CallOptions, Capabilities, Capability, Diagnostic, Fault, MalformedMessage, RpcError, Version, VersionSet,
};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, discover_result, error_response, initialize_result, legacy_request, notification,
    result_response, to_value,
};
use mcp_tests::harness::{Chunker, ClientHarness, Transcript, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits};

const BANNERS: [&[u8]; 8] = [
    b"Starting harbour server v2 ...",
    b"[INFO] listening on stdio",
    b"[12:00:01] ready",
    b"\x1b[32m\xe2\x9c\x94\x1b[0m compiled",
    b"not UTF-8: \xff\xfe",
    b"\"just a string\"",
    b"42",
    b"null",
];

// covers: STDIO-011, ERR-023, VER-020
#[test]
fn noise_before_the_first_message_is_reported_and_ignored() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        let probe = harness.expect_request("server/discover");
        for banner in BANNERS {
            harness.feed(banner);
            match harness.expect_diagnostic() {
                Diagnostic::Noise { line, length } => {
                    assert_eq!((line, length), (String::from_utf8_lossy(banner).into_owned(), banner.len()));
                }
                other => panic!("expected noise, got {other:?}"),
            }
        }
        harness.feed("");
        harness.feed("   \t");
        harness.feed("\r");
        harness.assert_idle();
        harness.feed_message(&result_response(&probe, discover_result(&["2026-07-28"], json!({}))));
        assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
        harness.transcript
    });
}

// covers: STDIO-011
#[test]
fn noise_between_messages_is_reported_and_ignored() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(VersionSet::only(version)), cut);
            harness.become_legacy(version, json!({}));
            for banner in BANNERS {
                harness.feed(banner);
                assert!(matches!(harness.expect_diagnostic(), Diagnostic::Noise { .. }));
                harness.assert_idle();
            }
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: STDIO-004, STDIO-011
#[test]
fn long_noise_is_truncated() {
    for_each_chunker(|cut| {
        let config = client(VersionSet::ALL).limits(limits(|l| l.max_noise_bytes = 5));
        let mut harness = ClientHarness::client(config, cut);
        harness.take_sent();
        harness.feed("Starting harbour server");
        assert_eq!(harness.expect_diagnostic(), Diagnostic::Noise { line: "Start".into(), length: 23 });
        harness.transcript
    });
}

// covers: BASE-001, STDIO-011, BASE-020
#[test]
fn malformed_message_before_negotiation_is_reported_and_not_answered() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        harness.expect_request("server/discover");
        for (line, reason) in [
            (r#"{"level":"info","msg":"started"}"#, MalformedMessage::Version),
            (r#"{"jsonrpc":"2.0"}"#, MalformedMessage::Contradictory),
            (r#"{"jsonrpc":"2.0","id":77,"method":7}"#, MalformedMessage::Method),
            (r#"{"jsonrpc":"2.0","id":"a","method":"x","params":[]}"#, MalformedMessage::Params),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, MalformedMessage::Id),
            (r#"[{"jsonrpc":"2.0","method":"x"}]"#, MalformedMessage::Batch),
        ] {
            harness.feed(line);
            let diagnostic = harness.expect_diagnostic();
            assert!(
                matches!(&diagnostic, Diagnostic::Malformed { reason: w, answered: false, .. } if *w == reason),
                "{line}: {diagnostic:?}"
            );
            harness.assert_idle();
        }
        harness.transcript
    });
}

/// Both sides number their requests, so a server may have the ids of the client.
#[test]
fn own_request_that_comes_back_ends_the_connection_and_requests_with_its_id_do_not() {
    for versions in [VersionSet::ALL, VersionSet::only(Version::V2025_11_25)] {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(versions), cut);
            let sent = harness.expect_reply();
            harness.feed_message(&legacy_request(sent["id"].clone(), "ping", Value::Null));
            assert_eq!(harness.expect_reply(), result_response(&sent, json!({})));
            for method in ["initialize", "server/discover"] {
                harness.feed_message(&legacy_request("s1", method, json!({})));
                assert_eq!(harness.expect_reply()["error"]["code"], -32601, "{method}");
            }
            harness.feed_message(&sent);
            assert_eq!(harness.expect_closed(), Fault::Echo);
            harness.transcript
        });
    }
    // A server that has answered is one.
    let mut harness = legacy_client(Version::V2025_11_25, Capabilities::new(), Chunker::Whole);
    let (key, request) = harness.start_call("custom/slow", &json!({}), &CallOptions::new());
    harness.feed_message(&legacy_request(request["id"].clone(), "initialize", json!({})));
    assert_eq!(harness.expect_reply()["error"]["code"], -32601);
    harness.feed_message(&result_response(&request, json!({})));
    assert!(harness.expect_done(key).is_ok());
}

// covers: PING-001, PING-002, LIFE-005, LIFE-006
#[test]
fn ping_before_end_of_handshake_is_answered() {
    for silent in [true, false] {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
            let probe = harness.expect_request("server/discover");
            if silent {
                harness.feed_message(&legacy_request("s0", "ping", Value::Null));
                assert_eq!(harness.expect_reply(), json!({"jsonrpc": "2.0", "id": "s0", "result": {}}));
            }
            harness.feed_message(&error_response(&probe, -32601, "?", Value::Null));
            let initialize = harness.expect_request("initialize");
            harness.feed_message(&legacy_request("s1", "ping", json!({})));
            assert_eq!(harness.expect_reply(), json!({"jsonrpc": "2.0", "id": "s1", "result": {}}));
            harness.feed_message(&result_response(&initialize, initialize_result("2025-11-25", json!({}))));
            harness.expect_ready();
            assert_eq!(harness.expect_reply(), notification("notifications/initialized", Value::Null));
            harness.feed_message(&legacy_request("s1", "ping", Value::Null));
            assert_eq!(harness.expect_reply(), json!({"jsonrpc": "2.0", "id": "s1", "result": {}}));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: LIFE-006, BASE-016, STDIO-011
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn notification_before_end_of_handshake_is_reported() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        let probe = harness.expect_request("server/discover");
        harness.feed_message(&notification(
            "notifications/message",
            json!({"level": "info", "data": "warming up"}),
        ));
        match harness.expect_event() {
            Event::Log(log) => {
                assert_eq!((log.level, to_value(&log.data)), ("info".into(), json!("warming up")))
            }
            other => panic!("{other:?}"),
        }
        harness.assert_idle();
        harness.feed_message(&result_response(&probe, discover_result(&["2026-07-28"], json!({}))));
        harness.expect_ready();
        harness.transcript
    });
}

// covers: BASE-020, STDIO-013, PING-006
#[test]
fn modern_client_answers_no_request() {
    let requests = [
        legacy_request("s1", "ping", Value::Null),
        legacy_request("s2", "roots/list", Value::Null),
        legacy_request("s3", "harbor/name", json!({})),
        legacy_request("s4", "unheard/of", json!({"x": 1})),
    ];
    for_each_chunker(|cut| {
        let config = client(VersionSet::ALL).custom_method("harbor/name");
        let mut harness = ClientHarness::client(config, cut);
        harness.become_modern(json!({}));
        for request in &requests {
            harness.feed_message(request);
            match harness.expect_diagnostic() {
                Diagnostic::UnexpectedRequest { method, id } => {
                    assert_eq!(
                        (*method == *request["method"].as_str().unwrap_or(""), id.to_string()),
                        (true, request["id"].to_string())
                    );
                }
                other => panic!("{other:?}"),
            }
            harness.assert_idle();
        }
        // Malformed requests are not answered either.
        for line in [
            r#"{"jsonrpc":"2.0","id":"s5","method":7}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            "{",
        ] {
            harness.feed(line);
            assert!(
                matches!(harness.expect_diagnostic(), Diagnostic::Malformed { answered: false, .. }),
                "{line}"
            );
            harness.assert_idle();
        }
        harness.assert_works();
        harness.transcript
    });
}

// covers: BASE-020, STDIO-013
#[test]
fn modern_only_client_answers_no_request_before_ready() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::MODERN).custom_method("harbor/name"), cut);
        let probe = harness.expect_request("server/discover");
        for method in ["ping", "roots/list", "harbor/name"] {
            harness.feed_message(&legacy_request("s1", method, Value::Null));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnexpectedRequest { .. }));
            harness.assert_idle();
        }
        harness.feed_message(&result_response(&probe, discover_result(&["2026-07-28"], json!({}))));
        harness.expect_ready();
        harness.assert_works();
        harness.transcript
    });
}

/// Returns a ready legacy client with these capabilities.
fn legacy_client(version: Version, capabilities: Capabilities, cut: Chunker) -> ClientHarness {
    let config: Config =
        client(VersionSet::only(version)).capabilities(capabilities).custom_method("harbor/name");
    let mut harness = ClientHarness::client(config, cut);
    harness.become_legacy(version, json!({}));
    harness
}

fn assert_refuses(harness: &mut ClientHarness, method: &str) {
    harness.feed_message(&legacy_request("s1", method, json!({})));
    let answer = harness.expect_reply();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("s1"), &json!(-32601)),
        "{method}: {answer}"
    );
    harness.assert_idle();
}

fn expect_request(harness: &mut ClientHarness, method: &str) -> mcp_proto::client::ServerRequest {
    harness.feed_message(&legacy_request("s1", method, json!({"a": 1})));
    match harness.expect_event() {
        Event::Request(request) => {
            assert_eq!(&*request.method, method);
            request
        }
        other => panic!("{other:?}"),
    }
}

// covers: ERR-002, ERR-021, LIFE-010, LIFE-011, LIFE-012, LIFE-013, BASE-018
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn client_answers_only_declared_requests() {
    let gated = [
        ("roots/list", Capability::Roots, Version::V2024_11_05),
        ("sampling/createMessage", Capability::Sampling, Version::V2024_11_05),
        ("elicitation/create", Capability::Elicitation, Version::V2025_06_18),
    ];
    let params = json!({
        "messages": [], "maxTokens": 9,
        "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    });
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| -> Vec<Transcript> {
            let run = |capabilities: Capabilities, declared: bool| {
                let mut harness = legacy_client(version, capabilities, cut);
                for (method, _, since) in gated {
                    if declared && version >= since {
                        harness.feed_message(&legacy_request("s1", method, params.clone()));
                        let input = harness.expect_input();
                        assert_eq!(input.request.method(), Some(method));
                        let error = RpcError::new(-1, "the user said no");
                        harness.pipe.engine().refuse(harness.now, input.id, &error).expect("open");
                        assert_eq!(
                            harness.expect_reply()["error"],
                            json!({"code": -1, "message": "the user said no"})
                        );
                    } else {
                        assert_refuses(&mut harness, method);
                    }
                }
                assert_refuses(&mut harness, "tools/list");
                assert_refuses(&mut harness, "initialize");
                assert_refuses(&mut harness, "unheard/of");
                let request = expect_request(&mut harness, "harbor/name");
                harness
                    .pipe
                    .engine()
                    .respond(harness.now, request.id, &json!({"name": "Mara"}))
                    .expect("open");
                assert_eq!(harness.expect_reply()["result"], json!({"name": "Mara"}));
                harness.transcript
            };
            let all = gated.iter().fold(Capabilities::new(), |c, (_, gate, _)| c.with(*gate));
            vec![run(Capabilities::new(), false), run(all, true)]
        });
    }
}

// covers: LIFE-002, LIFE-012, LIFE-013, LIFE-022, META-026
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn initialize_params_contain_only_members_of_the_revision() {
    let mut info = mcp_proto::Implementation::new("harbor-client", "0.3.0");
    info.title = Some("Harbour".into());
    info.description = Some("Example client".into());
    info.website_url = Some("https://harbour.example".into());
    info.icons = vec![Icon::new("https://harbour.example/i.png").sizes(["48x48".into()])];
    let capabilities = || Capabilities::new().with(Capability::Roots).with(Capability::Elicitation);
    for version in LEGACY_VERSIONS {
        let config = client(VersionSet::only(version)).capabilities(capabilities()).info(info.clone());
        let mut harness = ClientHarness::client(config, Chunker::Whole);
        let params = harness.expect_request("initialize")["params"].clone();
        assert_eq!(params["protocolVersion"], version.as_str());
        let known = version >= Version::V2025_06_18;
        assert_eq!(
            params["capabilities"],
            if known { json!({"roots": {}, "elicitation": {}}) } else { json!({"roots": {}}) }
        );
        let client_info = &params["clientInfo"];
        assert_eq!(
            (&client_info["name"], &client_info["version"]),
            (&json!("harbor-client"), &json!("0.3.0"))
        );
        assert_eq!(client_info.get("title").is_some(), known);
        for member in ["description", "websiteUrl", "icons"] {
            assert_eq!(
                client_info.get(member).is_some(),
                version == Version::V2025_11_25,
                "{member} in {version}"
            );
        }
    }
}

// covers: META-004, META-008, BASE-046
#[test]
fn results_reach_the_application_unchanged() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        harness.become_modern(json!({}));
        let (key, request) = harness.start_call("custom/read", &json!({}), &CallOptions::new());
        let text = r#"{"lastModified":"2025-01-12T15:00:58+02:00","n":1.50,"_meta":{"io.modelcontextprotocol/x":[1],"mcp.dev/-":null},"é":"\u00e9"}"#;
        harness.feed(format!(r#"{{"result": {text} ,"id":{},"jsonrpc":"2.0"}}"#, request["id"]));
        assert_eq!(harness.expect_done(key).expect("a result").as_str(), text);
        harness.transcript
    });
}
