//! A client among odd servers: noise on stdout, messages before the handshake is done, requests that nobody expects.

use mcp_proto::client::{Config, Event};
use mcp_proto::model::Icon;
use mcp_proto::{Capabilities, Capability, Diagnostic, Malformed, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, discovery, error, initialized, legacy, note, result, value};
use mcp_tests::harness::{Chunker, LoneClient, Transcript, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits};

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
fn banners_before_the_first_message_are_events_and_nothing_else() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        let probe = lone.asked("server/discover");
        for banner in BANNERS {
            lone.feed(banner);
            match lone.diagnostic() {
                Diagnostic::Noise { line, length } => {
                    assert_eq!((line, length), (String::from_utf8_lossy(banner).into_owned(), banner.len()));
                }
                other => panic!("noise, not {other:?}"),
            }
        }
        lone.feed("");
        lone.feed("   \t");
        lone.feed("\r");
        lone.still();
        lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({}))));
        assert_eq!(lone.ready().version, Version::V2026_07_28);
        lone.transcript
    });
}

// covers: STDIO-011
#[test]
fn noise_between_messages_ends_nothing() {
    for version in LEGACY {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::only(version)), cut);
            lone.with_legacy(version, json!({}));
            for banner in BANNERS {
                lone.feed(banner);
                assert!(matches!(lone.diagnostic(), Diagnostic::Noise { .. }));
                lone.still();
            }
            lone.works();
            lone.transcript
        });
    }
}

// covers: STDIO-004, STDIO-011
#[test]
fn long_noise_is_shown_by_its_beginning() {
    each_cut(|cut| {
        let config = client(VersionSet::ALL).limits(limits(|l| l.max_noise = 5));
        let mut lone = LoneClient::client(config, cut);
        lone.sent();
        lone.feed("Starting harbour server");
        assert_eq!(lone.diagnostic(), Diagnostic::Noise { line: "Start".into(), length: 23 });
        lone.transcript
    });
}

// covers: BASE-001, STDIO-011, BASE-020
#[test]
fn json_that_is_no_message_is_told_and_not_answered_before_the_era_is_known() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        lone.asked("server/discover");
        for (line, why) in [
            (r#"{"level":"info","msg":"started"}"#, Malformed::Version),
            (r#"{"jsonrpc":"2.0"}"#, Malformed::Contradictory),
            (r#"{"jsonrpc":"2.0","id":77,"method":7}"#, Malformed::Method),
            (r#"{"jsonrpc":"2.0","id":"a","method":"x","params":[]}"#, Malformed::Params),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, Malformed::Id),
            (r#"[{"jsonrpc":"2.0","method":"x"}]"#, Malformed::Batch),
        ] {
            lone.feed(line);
            let told = lone.diagnostic();
            assert!(
                matches!(&told, Diagnostic::Malformed { why: w, answered: false, .. } if *w == why),
                "{line}: {told:?}"
            );
            lone.still();
        }
        lone.transcript
    });
}

// covers: PING-001, PING-002, LIFE-005, LIFE-006
#[test]
fn a_ping_before_the_handshake_is_done_is_answered() {
    for silent in [true, false] {
        each_cut(|cut| {
            let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
            let probe = lone.asked("server/discover");
            if silent {
                lone.tell(&legacy("s0", "ping", Value::Null));
                assert_eq!(lone.reply(), json!({"jsonrpc": "2.0", "id": "s0", "result": {}}));
            }
            lone.tell(&error(&probe, -32601, "?", Value::Null));
            let initialize = lone.asked("initialize");
            lone.tell(&legacy("s1", "ping", json!({})));
            assert_eq!(lone.reply(), json!({"jsonrpc": "2.0", "id": "s1", "result": {}}));
            lone.tell(&result(&initialize, initialized("2025-11-25", json!({}))));
            lone.ready();
            assert_eq!(lone.reply(), note("notifications/initialized", Value::Null));
            lone.tell(&legacy("s1", "ping", Value::Null));
            assert_eq!(lone.reply(), json!({"jsonrpc": "2.0", "id": "s1", "result": {}}));
            lone.still();
            lone.transcript
        });
    }
}

// covers: LIFE-006, BASE-016, STDIO-011
#[test]
fn news_before_the_handshake_is_done_is_passed_on() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        let probe = lone.asked("server/discover");
        lone.tell(&note("notifications/message", json!({"level": "info", "data": "warming up"})));
        match lone.event() {
            Event::Log(log) => {
                assert_eq!((log.level, value(&log.data)), ("info".into(), json!("warming up")))
            }
            other => panic!("{other:?}"),
        }
        lone.still();
        lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({}))));
        lone.ready();
        lone.transcript
    });
}

// covers: BASE-020, STDIO-013, PING-006
#[test]
fn a_modern_client_answers_no_request() {
    let requests = [
        legacy("s1", "ping", Value::Null),
        legacy("s2", "roots/list", Value::Null),
        legacy("s3", "harbor/name", json!({})),
        legacy("s4", "unheard/of", json!({"x": 1})),
    ];
    each_cut(|cut| {
        let config = client(VersionSet::ALL).custom_method("harbor/name");
        let mut lone = LoneClient::client(config, cut);
        lone.with_modern(json!({}));
        for request in &requests {
            lone.tell(request);
            match lone.diagnostic() {
                Diagnostic::UnexpectedRequest { method, id } => {
                    assert_eq!(
                        (*method == *request["method"].as_str().unwrap_or(""), id.to_string()),
                        (true, request["id"].to_string())
                    );
                }
                other => panic!("{other:?}"),
            }
            lone.still();
        }
        // Nor a faulty one.
        for line in [
            r#"{"jsonrpc":"2.0","id":"s5","method":7}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            "{",
        ] {
            lone.feed(line);
            assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { answered: false, .. }), "{line}");
            lone.still();
        }
        lone.works();
        lone.transcript
    });
}

// covers: BASE-020, STDIO-013
#[test]
fn a_modern_only_client_answers_no_request_even_before_it_is_ready() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::MODERN).custom_method("harbor/name"), cut);
        let probe = lone.asked("server/discover");
        for method in ["ping", "roots/list", "harbor/name"] {
            lone.tell(&legacy("s1", method, Value::Null));
            assert!(matches!(lone.diagnostic(), Diagnostic::UnexpectedRequest { .. }));
            lone.still();
        }
        lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({}))));
        lone.ready();
        lone.works();
        lone.transcript
    });
}

/// A legacy client with these capabilities
fn legacy_client(version: Version, capabilities: Capabilities, cut: Chunker) -> LoneClient {
    let config: Config =
        client(VersionSet::only(version)).capabilities(capabilities).custom_method("harbor/name");
    let mut lone = LoneClient::client(config, cut);
    lone.with_legacy(version, json!({}));
    lone
}

fn refuses(lone: &mut LoneClient, method: &str) {
    lone.tell(&legacy("s1", method, json!({})));
    let answer = lone.reply();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("s1"), &json!(-32601)),
        "{method}: {answer}"
    );
    lone.still();
}

fn delivers(lone: &mut LoneClient, method: &str) -> mcp_proto::client::Request {
    lone.tell(&legacy("s1", method, json!({"a": 1})));
    match lone.event() {
        Event::Request(request) => {
            assert_eq!(&*request.method, method);
            request
        }
        other => panic!("{other:?}"),
    }
}

// covers: ERR-002, ERR-021, LIFE-010, LIFE-011, LIFE-012, LIFE-013, BASE-018
#[test]
fn a_server_gets_only_what_the_client_declared() {
    let gated = [
        ("roots/list", Capability::Roots, Version::V2024_11_05),
        ("sampling/createMessage", Capability::Sampling, Version::V2024_11_05),
        ("elicitation/create", Capability::Elicitation, Version::V2025_06_18),
    ];
    let params = json!({
        "messages": [], "maxTokens": 9,
        "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    });
    for version in LEGACY {
        each_cut(|cut| -> Vec<Transcript> {
            let run = |capabilities: Capabilities, declared: bool| {
                let mut lone = legacy_client(version, capabilities, cut);
                for (method, _, since) in gated {
                    if declared && version >= since {
                        lone.tell(&legacy("s1", method, params.clone()));
                        let input = lone.input();
                        assert_eq!(input.request.method(), Some(method));
                        let error = RpcError::new(-1, "the user said no");
                        lone.pipe.engine().refuse(lone.now, input.id, &error).expect("open");
                        assert_eq!(lone.reply()["error"], json!({"code": -1, "message": "the user said no"}));
                    } else {
                        refuses(&mut lone, method);
                    }
                }
                refuses(&mut lone, "tools/list");
                refuses(&mut lone, "initialize");
                refuses(&mut lone, "unheard/of");
                let request = delivers(&mut lone, "harbor/name");
                lone.pipe.engine().respond(lone.now, request.id, &json!({"name": "Mara"})).expect("open");
                assert_eq!(lone.reply()["result"], json!({"name": "Mara"}));
                lone.transcript
            };
            let all = gated.iter().fold(Capabilities::new(), |c, (_, gate, _)| c.with(*gate));
            vec![run(Capabilities::new(), false), run(all, true)]
        });
    }
}

// covers: LIFE-002, LIFE-012, LIFE-013, LIFE-022, META-026
#[test]
fn initialize_says_what_the_revision_knows() {
    let mut info = mcp_proto::Implementation::new("harbor-client", "0.3.0");
    info.title = Some("Harbour".into());
    info.description = Some("Example client".into());
    info.website_url = Some("https://harbour.example".into());
    info.icons = vec![Icon::new("https://harbour.example/i.png").sizes(["48x48".into()])];
    let capabilities = || Capabilities::new().with(Capability::Roots).with(Capability::Elicitation);
    for version in LEGACY {
        let config = client(VersionSet::only(version)).capabilities(capabilities()).info(info.clone());
        let mut lone = LoneClient::client(config, Chunker::Whole);
        let params = lone.asked("initialize")["params"].clone();
        assert_eq!(params["protocolVersion"], version.as_str());
        let known = version >= Version::V2025_06_18;
        assert_eq!(
            params["capabilities"],
            if known { json!({"roots": {}, "elicitation": {}}) } else { json!({"roots": {}}) }
        );
        let told = &params["clientInfo"];
        assert_eq!((&told["name"], &told["version"]), (&json!("harbor-client"), &json!("0.3.0")));
        assert_eq!(told.get("title").is_some(), known);
        for member in ["description", "websiteUrl", "icons"] {
            assert_eq!(told.get(member).is_some(), version == Version::V2025_11_25, "{member} in {version}");
        }
    }
}

// covers: META-004, META-008, BASE-046
#[test]
fn what_a_server_sends_comes_through_as_it_is() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        lone.with_modern(json!({}));
        let (key, request) = lone.calls("custom/read", &json!({}), &mcp_proto::CallOptions::new());
        let text = r#"{"lastModified":"2025-01-12T15:00:58+02:00","n":1.50,"_meta":{"io.modelcontextprotocol/x":[1],"mcp.dev/-":null},"é":"\u00e9"}"#;
        lone.feed(format!(r#"{{"result": {text} ,"id":{},"jsonrpc":"2.0"}}"#, request["id"]));
        assert_eq!(lone.done(key).expect("a result").as_str(), text);
        lone.transcript
    });
}
