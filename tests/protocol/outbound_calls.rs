//! Outbound calls of a client: what may be called, what is sent, and what is received.

use mcp_proto::{
    CallError, CallOptions, Capability, Diagnostic, MalformedMessage, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, discover_result, error_response, initialize_result, raw, result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs};

fn modern_harness(cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
    harness.become_modern(json!({"tools": {}}));
    harness
}

fn legacy_harness(version: Version, capabilities: Value, cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(client(VersionSet::only(version)), cut);
    harness.become_legacy(version, capabilities);
    harness
}

fn default_options() -> CallOptions {
    CallOptions::new()
}

// covers: BASE-003, BASE-005, BASE-006, PROG-004, STDIO-010
#[test]
fn request_ids_and_progress_tokens_are_never_reused() {
    for modern_era in [true, false] {
        let mut harness = match modern_era {
            true => modern_harness(Chunker::Whole),
            false => legacy_harness(Version::V2025_11_25, json!({"tools": {}}), Chunker::Whole),
        };
        let mut ids: Vec<Value> =
            harness.observer.messages.iter().filter_map(|m| m.value.get("id").cloned()).collect();
        ids.dedup();
        for round in 0..50 {
            let calls: Vec<_> = (0..3)
                .map(|_| {
                    harness.start_call(
                        "tools/call",
                        &json!({"name": "a"}),
                        &default_options().with_progress(),
                    )
                })
                .collect();
            for (key, request) in calls {
                assert_eq!(request["params"]["_meta"]["progressToken"], request["id"]);
                assert!(request["id"].is_i64() && !ids.contains(&request["id"]), "{request}");
                ids.push(request["id"].clone());
                harness.feed_message(&result_response(&request, json!({"content": []})));
                assert!(harness.expect_done(key).is_ok());
            }
            // Tables that are released while idle bring no id back.
            harness.advance(secs(round % 3));
        }
    }
}

// covers: BASE-007, BASE-015, META-013
#[test]
fn empty_params_are_omitted_where_allowed() {
    let mut harness = legacy_harness(Version::V2025_06_18, json!({"tools": {}}), Chunker::Whole);
    assert!(harness.start_call("tools/list", &json!({}), &default_options()).1.get("params").is_none());
    let (_, request) = harness.start_call("tools/list", &json!({"cursor": "c"}), &default_options());
    assert_eq!(request["params"], json!({"cursor": "c"}));
    let (_, request) = harness.start_call("tools/list", &json!({}), &default_options().with_progress());
    assert_eq!(request["params"], json!({"_meta": {"progressToken": request["id"]}}));
    let mut harness = modern_harness(Chunker::Whole);
    assert!(
        harness.start_call("tools/list", &json!({}), &default_options()).1["params"]["_meta"].is_object()
    );
}

// covers: META-002, META-003, META-004, META-006, META-007, META-021
#[test]
fn reserved_metadata_keys_are_refused() {
    let mut harness = modern_harness(Chunker::Whole);
    for key in [
        "progressToken",
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/anything",
        "mcp.dev/x",
        "tools.mcp.com/x",
        "com.mcp.tools/x",
        "bad key",
        "-x",
        "a/b/c",
    ] {
        let options = default_options().with_meta(raw(&json!({key: 1})));
        assert_eq!(
            harness.expect_call_refused("tools/list", &json!({}), &options),
            UseError::ReservedKey(key.into())
        );
    }
    for options in
        [default_options().with_meta(raw(&json!([]))), default_options().with_meta(raw(&json!("x")))]
    {
        assert!(matches!(
            harness.expect_call_refused("tools/list", &json!({}), &options),
            UseError::Encode(_)
        ));
    }
    for member in ["_meta", "inputResponses", "requestState"] {
        let refused =
            harness.expect_call_refused("tools/call", &json!({"name": "a", member: {}}), &default_options());
        assert_eq!(refused, UseError::ReservedKey(member.into()));
    }
    for params in [json!([1]), json!(null), json!(1)] {
        assert!(matches!(
            harness.expect_call_refused("tools/list", &params, &default_options()),
            UseError::Encode(_)
        ));
    }
    let own = json!({"traceparent": "x", "tracestate": "y", "baggage": "z", "com.example/": 1, "com.example.mcp/y": 2});
    let (_, request) = harness.start_call("tools/list", &json!({}), &default_options().with_meta(raw(&own)));
    for (key, value) in own.as_object().expect("an object") {
        assert_eq!(request["params"]["_meta"][key], *value);
    }
}

// covers: LIFE-001, LIFE-009, CANC-008, CANC-003, PROG-010
#[test]
fn methods_of_the_engine_are_refused() {
    let mut harness = modern_harness(Chunker::Whole);
    for method in ["initialize", "notifications/cancelled", "notifications/progress", "subscriptions/listen"]
    {
        assert_eq!(
            harness.expect_call_refused(method, &json!({}), &default_options()),
            UseError::ReservedMethod(method.into())
        );
    }
    assert_eq!(
        harness.expect_call_refused("roots/list", &json!({}), &default_options()),
        UseError::ReservedMethod("roots/list".into())
    );
    for method in
        ["notifications/cancelled", "notifications/initialized", "notifications/progress", "tools/list"]
    {
        let refused = harness.pipe.engine().notify(harness.now, method, Some(&json!({})));
        assert_eq!(refused, Err(UseError::ReservedMethod(method.into())));
    }
    harness.assert_idle();
}

// covers: LIFE-010, LIFE-011, LIFE-012, LIFE-014
#[test]
fn call_needs_the_capability_of_the_server() {
    let gated = [
        ("tools/list", Capability::Tools, json!({"tools": {}})),
        ("resources/read", Capability::Resources, json!({"resources": {}})),
        ("prompts/get", Capability::Prompts, json!({"prompts": {}})),
        ("completion/complete", Capability::Completions, json!({"completions": {}})),
    ];
    // The parameters that a valid request of each method needs.
    let params = json!({
        "uri": "tide://brest", "name": "a", "level": "info",
        "ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "a", "value": "b"},
    });
    for version in LEGACY_VERSIONS {
        for (method, gate, declared) in &gated {
            let free = *gate == Capability::Completions && version == Version::V2024_11_05;
            let mut harness =
                legacy_harness(version, json!({"resources": {"subscribe": "yes"}}), Chunker::Whole);
            if free {
                harness.start_call(method, &params, &default_options());
            } else if *gate != Capability::Resources {
                assert_eq!(
                    harness.expect_call_refused(method, &params, &default_options()),
                    UseError::MissingPeerCapability(*gate),
                    "{version}"
                );
            }
            let mut harness = legacy_harness(version, declared.clone(), Chunker::Whole);
            harness.start_call(method, &params, &default_options());
        }
        // Only the engine sends methods whose state it tracks.
        let mut harness =
            legacy_harness(version, json!({"resources": {"subscribe": true}, "logging": {}}), Chunker::Whole);
        for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"] {
            let refused = harness.expect_call_refused(method, &params, &default_options());
            assert_eq!(refused, UseError::ReservedMethod(method.into()));
        }
    }
}

// covers: LIFE-024, PING-006, LIFE-010, LIFE-011
#[test]
fn call_of_a_method_unknown_to_the_revision_is_refused() {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
    harness.become_modern(json!({"resources": {"subscribe": true}, "logging": {}}));
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        let refused = harness.expect_call_refused(method, &json!({}), &default_options());
        assert_eq!(refused, UseError::NotInVersion { feature: method.into(), version: Version::V2026_07_28 });
    }
    let mut harness = legacy_harness(Version::V2025_11_25, json!({}), Chunker::Whole);
    let refused = harness.expect_call_refused("server/discover", &json!({}), &default_options());
    assert_eq!(
        refused,
        UseError::NotInVersion { feature: "server/discover".into(), version: Version::V2025_11_25 }
    );
}

// covers: LIFE-005, LIFE-010, LIFE-020
#[test]
fn queued_call_is_refused_when_the_server_cannot_serve_it() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        let probe = harness.expect_request("server/discover");
        let mut early = |method: &str| {
            harness.pipe.engine().call(harness.now, method, &json!({}), &default_options()).expect("queued")
        };
        let keys = ["prompts/list", "ping", "roots/list", "tools/list"].map(&mut early);
        assert!(
            harness.pipe.engine().ping(harness.now, &default_options()).is_err(),
            "the revision is not known yet"
        );
        assert!(harness.pipe.engine().notify(harness.now, "notifications/x", None::<&()>).is_err());
        harness.assert_idle();
        harness
            .feed_message(&result_response(&probe, discover_result(&["2026-07-28"], json!({"tools": {}}))));
        harness.expect_ready();
        let refused = [
            UseError::MissingPeerCapability(Capability::Prompts),
            UseError::NotInVersion { feature: "ping".into(), version: Version::V2026_07_28 },
            UseError::ReservedMethod("roots/list".into()),
        ];
        for (key, error) in keys.into_iter().zip(refused) {
            assert_eq!(harness.expect_done(key), Err(CallError::Refused(error)));
        }
        harness.expect_request("tools/list");
        harness.assert_idle();
        harness.transcript
    });
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::LEGACY), cut);
        let initialize = harness.expect_request("initialize");
        let key = harness
            .pipe
            .engine()
            .call(harness.now, "tools/list", &json!({}), &default_options())
            .expect("queued");
        harness.assert_idle();
        harness.feed_message(&result_response(
            &initialize,
            initialize_result("2025-11-25", json!({"tools": {}})),
        ));
        harness.expect_ready();
        let sent = harness.take_sent();
        let methods: Vec<_> = sent.iter().map(|m| m["method"].clone()).collect();
        assert_eq!(methods, ["notifications/initialized", "tools/list"], "in this order");
        harness.feed_message(&result_response(&sent[1], json!({"tools": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// covers: BASE-009, BASE-010, BASE-011, BASE-001, BASE-008, STDIO-011
#[test]
fn malformed_response_fails_only_its_call() {
    let answers: [(&str, MalformedMessage); 6] = [
        (r#"{"jsonrpc":"2.0","id":ID,"result":[]}"#, MalformedMessage::Result),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":"y"}}"#, MalformedMessage::Error),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1}}"#, MalformedMessage::Error),
        (
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"y"},"result":{}}"#,
            MalformedMessage::Contradictory,
        ),
        (r#"{"id":ID,"result":{}}"#, MalformedMessage::Version),
        (r#"{"jsonrpc":"2.0","id":ID,"Result":{},"result":{}}"#, MalformedMessage::WrongCase),
    ];
    for (answer, reason) in answers {
        for modern_era in [true, false] {
            for_each_chunker(|cut| {
                let mut harness = match modern_era {
                    true => modern_harness(cut),
                    false => legacy_harness(Version::V2025_06_18, json!({"tools": {}}), cut),
                };
                let (key, request) = harness.start_call("tools/list", &json!({}), &default_options());
                let (other, second) = harness.start_call("tools/list", &json!({}), &default_options());
                harness.feed(answer.replace("ID", &request["id"].to_string()));
                assert!(
                    matches!(harness.expect_diagnostic(), Diagnostic::Malformed { reason: w, answered: false, .. } if w == reason)
                );
                assert_eq!(harness.expect_done(key), Err(CallError::Malformed(reason)));
                harness.assert_idle();
                harness.feed_message(&result_response(&second, json!({"tools": []})));
                assert!(harness.expect_done(other).is_ok());
                harness.transcript
            });
        }
    }
}

// covers: BASE-028, BASE-029, BASE-030, BASE-031
#[test]
fn result_of_unknown_type_fails_the_call() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        for (sent_type, is_accepted) in [
            (json!("complete"), true),
            (Value::Null, false),
            (json!("input_required"), false),
            (json!("task"), false),
            (json!(1), false),
        ] {
            let (key, request) = harness.start_call("tools/list", &json!({"name": "a"}), &default_options());
            harness.feed_message(&result_response(&request, json!({"content": [], "resultType": sent_type})));
            match harness.expect_done(key) {
                Ok(_) => assert!(is_accepted, "{sent_type}"),
                Err(CallError::UnknownResultType(result_type)) => {
                    assert_eq!((result_type.to_string(), is_accepted), (sent_type.to_string(), false))
                }
                other => panic!("{other:?}"),
            }
        }
        // Older servers omit the member.
        let (key, request) = harness.start_call("tools/call", &json!({"name": "a"}), &default_options());
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
    // In the legacy era the member has no meaning.
    let mut harness = legacy_harness(Version::V2025_11_25, json!({"tools": {}}), Chunker::Whole);
    let (key, request) = harness.start_call("tools/call", &json!({"name": "a"}), &default_options());
    harness.feed_message(&result_response(&request, json!({"content": [], "resultType": "mine"})));
    assert!(harness.expect_done(key).is_ok());
}

// covers: ERR-004, ERR-010, ERR-011, ERR-015, BASE-011
#[test]
fn server_errors_keep_code_and_data() {
    for code in [-32002, -32000, -32019, -32042, -32099, 7, i64::MIN] {
        for_each_chunker(|cut| {
            let mut harness = modern_harness(cut);
            let (key, request) = harness.start_call("custom/read", &json!({}), &default_options());
            harness.feed_message(&error_response(
                &request,
                code,
                "no",
                json!({"uri": "tide://x", "n": [1.5]}),
            ));
            match harness.expect_done(key) {
                Err(CallError::Rpc(e)) => {
                    assert_eq!((e.code, &*e.message), (code, "no"));
                    assert_eq!(e.data.map(|d| d.to_string()), Some(r#"{"n":[1.5],"uri":"tide://x"}"#.into()));
                }
                other => panic!("{other:?}"),
            }
            harness.transcript
        });
    }
}

// covers: CANC-012, STDIO-010
#[test]
fn late_and_unknown_responses_are_reported_and_dropped() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, request) = harness.start_call("tools/list", &json!({}), &default_options());
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        for id in [json!(0), json!(-1), json!("x"), json!(1i64 << 52), json!(request["id"].to_string())] {
            harness.feed_message(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
            assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }), "{id}");
        }
        // Another spelling of the same number is the same id.
        let (key, request) = harness.start_call("tools/list", &json!({}), &default_options());
        harness.feed(format!(r#"{{"jsonrpc":"2.0","id":{}.0,"result":{{"tools":[]}}}}"#, request["id"]));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// covers: STDIO-012
#[test]
fn response_beyond_max_frame_fails_its_call() {
    let config = || client(VersionSet::ALL).limits(limits(|l| l.max_frame = 1_000));
    let long = "x".repeat(1_000);
    for text in [
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"text":"{long}"}}}}"#),
        format!(r#"{{"result":{{"text":"{long}"}},"jsonrpc":"2.0","id":ID}}"#),
        format!(r#"{{"error":{{"code":1,"message":"{long}"}},"jsonrpc":"2.0","id":ID}}"#),
    ] {
        for_each_chunker(|cut| {
            let mut harness = ClientHarness::client(config(), cut);
            harness.become_modern(json!({"tools": {}}));
            let (key, request) = harness.start_call("tools/list", &json!({}), &default_options());
            harness.feed(text.replace("ID", &request["id"].to_string()));
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::TooLong { .. }, .. }
            ));
            assert_eq!(harness.expect_done(key), Err(CallError::TooLarge { limit: 1_000 }));
            harness.assert_works();
            harness.transcript
        });
    }
}

#[test]
fn tool_arguments_that_are_no_object_are_refused() {
    let mut ready = modern_harness(Chunker::Whole);
    let mut early = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
    early.pump();
    early.take_sent();
    for harness in [&mut ready, &mut early] {
        for invalid in [json!(7), json!(null), json!(["a"]), json!("{}")] {
            let now = harness.now;
            let refused = harness.pipe.engine().call_tool(now, "book", &invalid, &default_options());
            assert!(matches!(refused, Err(UseError::Encode(_))), "{invalid}: {refused:?}");
        }
        harness.pump();
        harness.assert_nothing_sent();
    }
    let now = ready.now;
    ready.pipe.engine().call_tool(now, "book", &json!({}), &default_options()).expect("an object");
}
