//! Values of the application that the specification forbids: refused with an error that names them, or cut, never sent.

use mcp_proto::model::*;
use mcp_proto::router::IntoCompletion;
use mcp_proto::{CallId, EncodeError, Instant, RawJson, RpcError, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, legacy_request, modern_request, raw};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::common::server;

const NOW: Instant = Instant::ZERO;

/// Runs `check` with an open call at a server of each revision.
fn for_each_version(mut check: impl FnMut(&mut ServerHarness, Version, CallId)) {
    for version in Version::ALL {
        let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
        let is_legacy = LEGACY_VERSIONS.contains(&version);
        if is_legacy {
            harness.open_session(version);
        }
        let request = if is_legacy { legacy_request } else { modern_request };
        // A custom method, whose results may be of any type.
        let call = harness.expect_call_for(&request(1, "harbor/tide", json!({})));
        check(&mut harness, version, call.id());
        // Ends the call unless it was answered.
        let _ = harness.pipe.engine().fail(NOW, call.id(), &RpcError::internal("m"));
    }
}

fn assert_rejected<T: Serialize>(field: &'static str, value: &T) {
    for_each_version(|harness, version, call| {
        let refused = harness.pipe.engine().complete(NOW, call, value);
        assert_eq!(refused, Err(UseError::Encode(EncodeError::NeverSent(field))), "{version}");
        assert!(harness.take_sent().is_empty(), "{version}: something was sent");
        harness.fail(call, &RpcError::internal("the call is still open"));
    });
}

fn assert_encodable<T: Serialize>(value: &T) {
    for_each_version(|harness, version, call| {
        let done = harness.pipe.engine().complete(NOW, call, value);
        assert_eq!((done, harness.take_sent().len()), (Ok(()), 1), "{version}");
    });
}

/// Completes the call and returns the message that is sent.
fn complete_call<T: Serialize>(harness: &mut ServerHarness, call: CallId, result: &T) -> Value {
    harness.pipe.engine().complete(NOW, call, result).expect("an open call");
    harness.expect_reply()
}

// covers: COMP-004
#[test]
fn completion_of_more_than_a_hundred_values_is_refused() {
    let values = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_rejected("`completion.values`", &CompleteResult::new(Completion::new(values(101))));
    assert_encodable(&CompleteResult::new(Completion::new(values(100))));
    let cut = |completion: Completion| {
        let cut = CompleteResult::new(completion).into_completion().expect("a result").completion;
        (cut.values.len(), cut.total, cut.has_more)
    };
    assert_eq!(cut(Completion::new(values(300))), (100, Some(300), Some(true)));
    // Values that the application set are kept.
    assert_eq!(cut(Completion::new(values(300)).total(1000_u64)), (100, Some(1000), Some(true)));
    assert_eq!(cut(Completion::new(values(300)).total(7_u64).has_more(false)), (100, Some(300), Some(true)));
    assert_eq!(cut(Completion::new(values(100)).total(9_u64)), (100, Some(9), None));
    assert_encodable(&CompleteResult::new(Completion::new(values(300))).into_completion().expect("a result"));
}

// covers: CACHE-002
#[test]
fn negative_ttl_is_refused() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    let call = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
    let page = |ms: i64| ListToolsResult::new(Vec::new()).ttl_ms(ms);
    for ms in [-5, -1, i64::MIN] {
        let refused = harness.pipe.engine().complete(NOW, call.id(), &page(ms));
        assert_eq!(refused, Err(UseError::Encode(EncodeError::NeverSent("`ttlMs`"))));
        assert!(harness.take_sent().is_empty());
    }
    let read = ReadResourceResult::new([]).ttl_ms(-5);
    assert!(encode_for(Version::V2026_07_28, &read).is_err());
    let encoded = encode_for(Version::V2025_11_25, &read).expect("a revision without the member");
    assert_eq!(encoded.as_str(), r#"{"contents":[]}"#);
    assert_eq!(complete_call(&mut harness, call.id(), &page(0))["result"]["ttlMs"], 0);
}

// covers: CONT-004, CONT-005, CONT-007, META-027
#[test]
fn unknown_roles_kinds_and_icon_sources_are_refused() {
    let block = |text: &'static str| serde_json::from_str::<Content<'_>>(text).expect("kept when read");
    assert_rejected(
        "the kind of a Content",
        &CallToolResult::new([block(r#"{"type":"hologram"}"#)].to_vec()),
    );
    let message = |role: Role| GetPromptResult::new([PromptMessage::new(role, Content::text("x"))]);
    assert_rejected("`role`", &message("system".into()));
    assert_encodable(&message(Role::Assistant));
    let annotated = |annotations: Annotations| {
        let mut text = TextContent::new("x");
        text.annotations = Some(Box::new(annotations));
        CallToolResult::new(Content::Text(text))
    };
    assert_rejected("`role`", &annotated(Annotations::new().audience([Role::User, "tool".into()])));
    for priority in [-0.1, 1.01, f64::INFINITY] {
        let refused = encode_for(Version::V2025_11_25, &annotated(Annotations::new().priority(priority)));
        assert_eq!(refused, Err(EncodeError::NeverSent("a priority")));
    }
    assert_rejected("a priority", &annotated(Annotations::new().priority(7.0)));
    assert_rejected("a priority", &annotated(Annotations::new().priority(f64::NAN)));
    assert_encodable(&annotated(Annotations::new().priority(0.0)));
    assert_encodable(&annotated(Annotations::new().priority(1.0)));

    let tool = |src: &str| Tool::new("t", raw(&json!({"type": "object"}))).icons([Icon::new(src)]);
    for src in ["javascript:alert(1)", "file:///x", "ws://x", "https", "", ":", "/i.png"] {
        for version in [Version::V2025_11_25, Version::V2026_07_28] {
            let refused = encode_for(version, &tool(src));
            assert_eq!(refused, Err(EncodeError::NeverSent("`src` of an icon")), "{src}");
        }
        // A revision without icons cannot have a wrong one.
        assert!(encode_for(Version::V2025_06_18, &tool(src)).is_ok(), "{src}");
    }
    for src in ["https://x.example/i", "HTTP://x.example/i", "data:,"] {
        assert_encodable(&ListToolsResult::new(vec![tool(src)]));
    }
}

// covers: META-027
#[test]
fn server_info_is_sent_without_forbidden_icons() {
    let mut info = Implementation::new("tide-server", "2.1.0");
    info.icons = vec![Icon::new("javascript:alert(1)"), Icon::new("data:,")];
    let config = server(VersionSet::ALL).info(info);
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    let call = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
    let answer = harness.complete(call.id(), &json!({"tools": []}));
    let sent = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(*sent, json!({"name": "tide-server", "version": "2.1.0", "icons": [{"src": "data:,"}]}));
}

/// Completes the call with a typed value, with JSON text, and with large JSON text.
fn assert_in_each_form(
    harness: &mut ServerHarness,
    call: CallId,
    result: &Value,
    mut check: impl FnMut(Result<(), UseError>, &ServerHarness),
) {
    let mut large = result.clone();
    large["x"] = json!("x".repeat(40_000));
    let engine = harness.pipe.engine();
    let done = engine.complete(NOW, call, result);
    check(done, harness);
    for text in [raw(result), raw(&large)] {
        let done = harness.pipe.engine().complete_raw(NOW, call, &text);
        check(done, harness);
    }
}

// covers: META-003, META-006, META-007, META-018
#[test]
fn reserved_metadata_keys_in_results_are_refused() {
    for key in [
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/x",
        "mcp.dev/x",
        "com.mcp.tools/x",
        "tools.mcp.com/x",
        "progressToken",
        "",
        "a b",
        "1com/x",
    ] {
        let result =
            json!({"content": [], "_meta": {"com.example/a": 1, key: {"name": "n", "version": "v"}}});
        for_each_version(|harness, version, call| {
            assert_in_each_form(harness, call, &result, |done, _| {
                assert_eq!(done, Err(UseError::ReservedKey(key.into())), "{version}");
            });
            assert!(harness.take_sent().is_empty(), "{version}: something was sent");
            harness.fail(call, &RpcError::internal("the call is still open"));
        });
    }
    for_each_version(|harness, version, call| {
        assert_in_each_form(harness, call, &json!({"content": [], "_meta": 5}), |done, _| {
            assert_eq!(done, Err(UseError::Encode(EncodeError::NotAnObject)), "{version}");
        });
    });
    // Metadata that relates the result to something else belongs to the application.
    for own in [
        json!({"traceparent": "x", "com.example/a": 1}),
        json!({"io.modelcontextprotocol/subscriptionId": 1}),
        json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}}),
    ] {
        let typed = CallToolResult::text("x").meta(RawJson::new(own.to_string()).expect("JSON"));
        assert_encodable(&typed);
    }
}

// covers: BASE-026, MRTR-005
#[test]
fn input_required_result_without_requests_is_refused() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    let call = harness.expect_call_for(&modern_request(1, "tools/call", json!({"name": "a"})));
    let refused = Err(UseError::Encode(EncodeError::NeverSent("`resultType`")));
    for wrong in [
        json!({"content": [], "resultType": "input_required"}),
        json!({"resultType": "input_required", "inputResponses": {}}),
        json!({"content": [], "resultType": 5}),
        json!({"content": [], "resultType": null}),
    ] {
        assert_in_each_form(&mut harness, call.id(), &wrong, |done, _| assert_eq!(done, refused, "{wrong}"));
    }
    let typed = CallToolResult::text("x").result_type(ResultType::InputRequired);
    assert_eq!(harness.pipe.engine().complete(NOW, call.id(), &typed), refused);
    assert_eq!(harness.pipe.engine().complete(NOW, call.id(), &InputRequiredResult::new()), refused);
    assert!(harness.take_sent().is_empty());
    let input_required = InputRequiredResult::new().request_state("s");
    let answer = complete_call(&mut harness, call.id(), &input_required);
    assert_eq!(answer["result"]["resultType"], "input_required");
    let call = harness.expect_call_for(&modern_request(2, "tools/call", json!({"name": "a"})));
    let answer =
        complete_call(&mut harness, call.id(), &CallToolResult::text("x").result_type("org.example/odd"));
    assert_eq!(answer["result"]["resultType"], "org.example/odd", "extensions have types of their own");
}
