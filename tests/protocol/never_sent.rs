//! What the application gives and the specification forbids: refused with an error that names it, or cut, and never sent.

use mcp_proto::model::*;
use mcp_proto::router::IntoCompletion;
use mcp_proto::{CallId, EncodeError, Instant, RawJson, RpcError, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, legacy, modern, raw};
use mcp_tests::harness::{Chunker, LoneServer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::common::server;

const NOW: Instant = Instant::ZERO;

/// A server of each revision, and what a request is spelt like there
fn each_version(mut check: impl FnMut(&mut LoneServer, Version, CallId)) {
    for version in Version::ALL {
        let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
        let is_legacy = LEGACY.contains(&version);
        if is_legacy {
            lone.open(version);
        }
        let request = if is_legacy { legacy } else { modern };
        // A method of the application's own, whose results may be of any type.
        let call = lone.take(&request(1, "harbor/tide", json!({})));
        check(&mut lone, version, call.id());
        // The call is open, unless it was answered.
        let _ = lone.pipe.engine().fail(NOW, call.id(), &RpcError::internal("m"));
    }
}

fn never<T: Serialize>(what: &'static str, value: &T) {
    each_version(|lone, version, call| {
        let refused = lone.pipe.engine().complete(NOW, call, value);
        assert_eq!(refused, Err(UseError::Encode(EncodeError::NeverSent(what))), "{version}");
        assert!(lone.sent().is_empty(), "{version}: something was sent");
        lone.fail(call, &RpcError::internal("the call is still open"));
    });
}

fn sent<T: Serialize>(value: &T) {
    each_version(|lone, version, call| {
        let done = lone.pipe.engine().complete(NOW, call, value);
        assert_eq!((done, lone.sent().len()), (Ok(()), 1), "{version}");
    });
}

/// What a typed result goes out as
fn completed<T: Serialize>(lone: &mut LoneServer, call: CallId, result: &T) -> Value {
    lone.pipe.engine().complete(NOW, call, result).expect("an open call");
    lone.reply()
}

// covers: COMP-004
#[test]
fn a_completion_has_a_hundred_values_at_most() {
    let values = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
    never("`completion.values`", &CompleteResult::new(Completion::new(values(101))));
    sent(&CompleteResult::new(Completion::new(values(100))));
    let cut = |given: Completion| {
        let cut = CompleteResult::new(given).into_completion().expect("a result").completion;
        (cut.values.len(), cut.total, cut.has_more)
    };
    assert_eq!(cut(Completion::new(values(300))), (100, Some(300), Some(true)));
    // What the application knows better is kept.
    assert_eq!(cut(Completion::new(values(300)).total(1000_u64)), (100, Some(1000), Some(true)));
    assert_eq!(cut(Completion::new(values(300)).total(7_u64).has_more(false)), (100, Some(300), Some(true)));
    assert_eq!(cut(Completion::new(values(100)).total(9_u64)), (100, Some(9), None));
    sent(&CompleteResult::new(Completion::new(values(300))).into_completion().expect("a result"));
}

// covers: CACHE-002
#[test]
fn the_time_to_live_is_never_negative() {
    let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
    let call = lone.take(&modern(1, "tools/list", json!({})));
    let page = |ms: i64| ListToolsResult::new(Vec::new()).ttl_ms(ms);
    for ms in [-5, -1, i64::MIN] {
        let refused = lone.pipe.engine().complete(NOW, call.id(), &page(ms));
        assert_eq!(refused, Err(UseError::Encode(EncodeError::NeverSent("`ttlMs`"))));
        assert!(lone.sent().is_empty());
    }
    let read = ReadResourceResult::new([]).ttl_ms(-5);
    assert!(encode_for(Version::V2026_07_28, &read).is_err());
    let kept = encode_for(Version::V2025_11_25, &read).expect("a revision without the member");
    assert_eq!(kept.as_str(), r#"{"contents":[]}"#);
    assert_eq!(completed(&mut lone, call.id(), &page(0))["result"]["ttlMs"], 0);
}

// covers: CONT-004, CONT-005, CONT-007, META-027
#[test]
fn words_kinds_and_numbers_that_nobody_has_are_not_sent() {
    let block = |text: &'static str| serde_json::from_str::<Content<'_>>(text).expect("kept when read");
    never("the kind of a Content", &CallToolResult::new([block(r#"{"type":"hologram"}"#)].to_vec()));
    let message = |role: Role| GetPromptResult::new([PromptMessage::new(role, Content::text("x"))]);
    never("`role`", &message("system".into()));
    sent(&message(Role::Assistant));
    let noted = |notes: Annotations| {
        let mut text = TextContent::new("x");
        text.annotations = Some(Box::new(notes));
        CallToolResult::new(Content::Text(text))
    };
    never("`role`", &noted(Annotations::new().audience([Role::User, "tool".into()])));
    for priority in [-0.1, 1.01, f64::INFINITY] {
        let refused = encode_for(Version::V2025_11_25, &noted(Annotations::new().priority(priority)));
        assert_eq!(refused, Err(EncodeError::NeverSent("a priority")));
    }
    never("a priority", &noted(Annotations::new().priority(7.0)));
    never("a priority", &noted(Annotations::new().priority(f64::NAN)));
    sent(&noted(Annotations::new().priority(0.0)));
    sent(&noted(Annotations::new().priority(1.0)));

    let tool = |src: &str| Tool::new("t", raw(&json!({"type": "object"}))).icons([Icon::new(src)]);
    for src in ["javascript:alert(1)", "file:///x", "ws://x", "https", "", ":", "/i.png"] {
        for version in [Version::V2025_11_25, Version::V2026_07_28] {
            let refused = encode_for(version, &tool(src));
            assert_eq!(refused, Err(EncodeError::NeverSent("`src` of an icon")), "{src}");
        }
        // Where there are no icons, none can be wrong.
        assert!(encode_for(Version::V2025_06_18, &tool(src)).is_ok(), "{src}");
    }
    for src in ["https://x.example/i", "HTTP://x.example/i", "data:,"] {
        sent(&ListToolsResult::new(vec![tool(src)]));
    }
}

// covers: META-027
#[test]
fn an_identity_goes_out_without_icons_that_must_not_be_sent() {
    let mut info = Implementation::new("tide-server", "2.1.0");
    info.icons = vec![Icon::new("javascript:alert(1)"), Icon::new("data:,")];
    let config = server(VersionSet::ALL).info(info);
    let mut lone = LoneServer::server(config, Chunker::Whole);
    let call = lone.take(&modern(1, "tools/list", json!({})));
    let answer = lone.complete(call.id(), &json!({"tools": []}));
    let sent = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(*sent, json!({"name": "tide-server", "version": "2.1.0", "icons": [{"src": "data:,"}]}));
}

/// Answers typed, as JSON text, and as much JSON text
fn in_each_way(
    lone: &mut LoneServer,
    call: CallId,
    result: &Value,
    mut check: impl FnMut(Result<(), UseError>, &LoneServer),
) {
    let mut large = result.clone();
    large["x"] = json!("x".repeat(40_000));
    let engine = lone.pipe.engine();
    let done = engine.complete(NOW, call, result);
    check(done, lone);
    for text in [raw(result), raw(&large)] {
        let done = lone.pipe.engine().complete_raw(NOW, call, &text);
        check(done, lone);
    }
}

// covers: META-003, META-006, META-007, META-018
#[test]
fn metadata_of_a_result_has_free_keys_only() {
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
        each_version(|lone, version, call| {
            in_each_way(lone, call, &result, |done, _| {
                assert_eq!(done, Err(UseError::ReservedKey(key.into())), "{version}");
            });
            assert!(lone.sent().is_empty(), "{version}: something was sent");
            lone.fail(call, &RpcError::internal("the call is still open"));
        });
    }
    each_version(|lone, version, call| {
        in_each_way(lone, call, &json!({"content": [], "_meta": 5}), |done, _| {
            assert_eq!(done, Err(UseError::Encode(EncodeError::NotAnObject)), "{version}");
        });
    });
    // What says to what the result belongs is for the application to say.
    for own in [
        json!({"traceparent": "x", "com.example/a": 1}),
        json!({"io.modelcontextprotocol/subscriptionId": 1}),
        json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}}),
    ] {
        let typed = CallToolResult::text("x").meta(RawJson::new(own.to_string()).expect("JSON"));
        sent(&typed);
    }
}

// covers: BASE-026, MRTR-005
#[test]
fn a_result_that_asks_for_input_asks_for_something() {
    let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
    let call = lone.take(&modern(1, "tools/call", json!({"name": "a"})));
    let refused = Err(UseError::Encode(EncodeError::NeverSent("`resultType`")));
    for wrong in [
        json!({"content": [], "resultType": "input_required"}),
        json!({"resultType": "input_required", "inputResponses": {}}),
        json!({"content": [], "resultType": 5}),
        json!({"content": [], "resultType": null}),
    ] {
        in_each_way(&mut lone, call.id(), &wrong, |done, _| assert_eq!(done, refused, "{wrong}"));
    }
    let typed = CallToolResult::text("x").result_type(ResultType::InputRequired);
    assert_eq!(lone.pipe.engine().complete(NOW, call.id(), &typed), refused);
    assert_eq!(lone.pipe.engine().complete(NOW, call.id(), &InputRequiredResult::new()), refused);
    assert!(lone.sent().is_empty());
    let asks = InputRequiredResult::new().request_state("s");
    let answer = completed(&mut lone, call.id(), &asks);
    assert_eq!(answer["result"]["resultType"], "input_required");
    let odd = lone.take(&modern(2, "tools/call", json!({"name": "a"})));
    let answer = completed(&mut lone, odd.id(), &CallToolResult::text("x").result_type("org.example/odd"));
    assert_eq!(answer["result"]["resultType"], "org.example/odd", "extensions have types of their own");
}
