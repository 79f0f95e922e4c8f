//! Calls, notifications about them, and their ends.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::LoggingLevel;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, RawJson, RpcError, Version};
use serde_json::{Value, json};

use super::harness::{BridgeHarness, REVISION_PAIRS};

fn hello_result() -> Value {
    json!({"content": [{"type": "text", "text": "hello"}]})
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn client_sees_identity_and_capabilities_of_server() {
    for (down, up) in REVISION_PAIRS {
        let chain = BridgeHarness::new(down, up);
        let [Event::Ready(peer)] = &chain.client_events[..] else { panic!("{:?}", chain.client_events) };
        assert_eq!(peer.version, down);
        assert_eq!(peer.instructions.as_deref(), Some("Ask at high water."));
        let info = peer.info.as_ref().expect("an identity");
        assert_eq!(info.member("name").and_then(|name| name.string()).as_deref(), Some("tide"));
        assert_eq!(info.member("title").and_then(|name| name.string()).as_deref(), Some("Tides"));
        for capability in [mcp_proto::Capability::Logging, mcp_proto::Capability::ResourceSubscriptions] {
            assert!(peer.has(capability), "{down} {up}: {capability}");
        }
        let settings = peer.extension("org.example/tides").expect("every revision has extensions");
        assert_eq!(settings.as_str(), r#"{"unit":"metres"}"#);
        // The bridge has tasks if the server has them.
        let has_tasks = |version| version >= Version::V2025_11_25;
        let own = [mcp_proto::Capability::TasksExtension, mcp_proto::Capability::ToolTasks];
        let declares = own.iter().any(|capability| peer.has(*capability));
        assert_eq!(declares, has_tasks(down) && has_tasks(up), "{down} {up}");
        assert!(peer.has(mcp_proto::Capability::ToolsListChanged));
    }
}

/// The other revision has other members, so that the bridge has to read the entries.
#[test]
fn unreadable_list_entry_costs_only_itself() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for (down, up) in REVISION_PAIRS.into_iter().filter(|(down, up)| down != up) {
        for (method, list, mut good) in [
            ("tools/list", "tools", json!({"name": "a", "inputSchema": {"type": "object"}})),
            ("resources/list", "resources", json!({"name": "a", "uri": "a:b"})),
            ("resources/templates/list", "resourceTemplates", json!({"name": "a", "uriTemplate": "a:{b}"})),
            ("prompts/list", "prompts", json!({"name": "a"})),
        ] {
            good["_meta"] = json!({"com.example/deep": deep});
            let mut chain = BridgeHarness::new(down, up);
            let key = chain.call(method, &json!({}));
            let call = chain.take_server_call();
            let entries = json!([7, good, {"name": 1}, good, null]);
            chain.complete(&call, &json!({list: entries, "nextCursor": "2"}));
            let result = chain.result(key);
            if (method, down) == ("tools/list", Version::V2025_11_25) {
                good["execution"] = json!({"taskSupport": "optional"});
            }
            assert_eq!(result[list], json!([good, good]), "{method} {down} {up}");
            assert_eq!(result["nextCursor"], "2");
            let found: Vec<String> = chain.relay.take_diagnostics().iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), 3, "{found:?}");
        }
    }
}

/// One row for each code: what a server of a legacy and of the modern era sends, and what clients of both eras get. The last two
/// columns are of 2025-11-25, the only revision with -32042.
// covers: ERR-001, ERR-003, ERR-009, ERR-010, ERR-012, ERR-014, ERR-016, RES-016
#[test]
fn error_codes_are_those_of_the_clients_revision() {
    let uri = json!({"uri": "tide://none"});
    let bridge_refused = code::INTERNAL_ERROR;
    // method, code, data; legacy server: legacy client, modern client; modern server: legacy client, modern client.
    let rows = [
        ("tools/call", -32700, json!(null), [Some((-32700, -32700)), Some((-32700, -32700))]),
        ("tools/call", -32600, json!(null), [Some((-32600, -32600)), Some((-32600, -32600))]),
        ("tools/call", -32601, json!(null), [Some((-32601, -32601)), Some((-32601, -32601))]),
        ("tools/call", -32602, json!(null), [Some((-32602, -32602)), Some((-32602, -32602))]),
        ("tools/call", -32602, uri.clone(), [Some((-32602, -32602)), Some((-32602, -32602))]),
        ("tools/call", -32603, json!(null), [Some((-32603, -32603)), Some((-32603, -32603))]),
        ("resources/read", -32602, json!(null), [Some((-32602, -32602)), Some((-32602, -32602))]),
        // A legacy server means parameters by it.
        ("resources/read", -32602, uri.clone(), [Some((-32602, -32602)), Some((-32002, -32602))]),
        ("resources/read", -32002, uri, [Some((-32002, -32602)), None]),
        ("tools/call", -32000, json!(null), [Some((-32000, -32603)), None]),
        ("tools/call", -32001, json!(null), [Some((-32001, -32603)), None]),
        ("tools/call", -32020, json!(null), [None, Some((bridge_refused, bridge_refused))]),
        ("tools/call", -1, json!(null), [Some((-1, -1)), Some((-1, -1))]),
        ("tools/call", 7, json!({"a": 1}), [Some((7, 7)), Some((7, 7))]),
    ];
    for (down, up) in REVISION_PAIRS {
        for (method, sent, data, expected) in &rows {
            let Some((legacy, modern)) = expected[usize::from(up.era() == mcp_proto::Era::Modern)] else {
                continue;
            };
            let expected = if down.era() == mcp_proto::Era::Modern { modern } else { legacy };
            let mut chain = BridgeHarness::new(down, up);
            let params =
                if *method == "tools/call" { json!({"name": "x"}) } else { json!({"uri": "tide://none"}) };
            let key = chain.call(method, &params);
            let call = chain.take_server_call();
            let mut error = RpcError::new(*sent, "as sent");
            if !data.is_null() {
                error = error.with_data(RawJson::encode(data).expect("JSON"));
            }
            chain.fail(&call, &error);
            if chain.has_server_call() {
                // Called as a task.
                let call = chain.take_server_call();
                chain.fail(&call, &error);
            }
            let got = chain.error(key);
            assert_eq!(got.code, expected, "{down} {up} {method} {sent}: {got}");
            if expected != bridge_refused || *sent == bridge_refused {
                assert_eq!(got.message, "as sent", "{down} {up} {method} {sent}");
                assert_eq!(
                    got.data.map(|data| data.as_str().to_owned()),
                    (!data.is_null()).then(|| data.to_string())
                );
            }
        }
    }
}

#[test]
fn calls_pass_with_parameters_metadata_and_results() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let meta = RawJson::new(r#"{"traceparent":"00-1-2-3","com.example/x":1}"#).expect("JSON");
        let params = json!({"name": "book", "arguments": {"berth": "C14", "deep": {"a": [1.50, null]}}});
        let key = chain.call_with("tools/call", &params, &CallOptions::new().with_meta(meta));
        let call = chain.take_server_call();
        assert_eq!(call.tool_call().expect("a tool").name, "book");
        let sent: Value = serde_json::from_slice(call.tool_call().expect("a tool").arguments).expect("JSON");
        assert_eq!(sent, params["arguments"]);
        let meta = call.meta().expect("metadata");
        assert_eq!(meta.member("traceparent").and_then(|m| m.string()).as_deref(), Some("00-1-2-3"));
        assert!(meta.member("com.example/x").is_some() && !call.wants_progress());
        chain.complete(&call, &json!({"content": [], "isError": true, "_meta": {"com.example/y": 2}}));
        let result = chain.result(key);
        assert_eq!(
            result,
            json!({"content": [], "isError": true, "_meta": {"com.example/y": 2}}),
            "{down} {up}"
        );
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn lists_pass_with_cursors_and_fields_of_the_client_revision() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call("tools/list", &json!({"cursor": "pa ge\u{7}2"}));
        let call = chain.take_server_call();
        let params: Value = call.parse().expect("parameters");
        assert_eq!(params["cursor"], "pa ge\u{7}2");
        let tool = json!({
            "name": "book", "title": "Book", "inputSchema": {"type": "object"},
            "icons": [{"src": "https://x.example/i.png"}], "com.example": true,
        });
        chain.complete(&call, &json!({"tools": [tool], "nextCursor": "3"}));
        let result = chain.result(key);
        assert_eq!(result["nextCursor"], "3");
        assert_eq!(
            (&result["tools"][0]["title"], &result["tools"][0]["com.example"]),
            (&json!("Book"), &json!(true))
        );
        let icons = down >= Version::V2025_11_25;
        assert_eq!(result["tools"][0].get("icons").is_some(), icons, "{down} {up}");
    }
}

#[test]
fn tools_with_header_arguments_are_reported_once_per_change() {
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2026_07_28);
    let mut listed = |schema: Value| {
        chain.call("tools/list", &json!({}));
        let call = chain.take_server_call();
        chain.complete(&call, &json!({"tools": [{"name": "book", "inputSchema": schema}]}));
        let known = chain.relay.poll_header_tool().map(|(name, schema)| (name, schema.to_string()));
        assert!(chain.relay.poll_header_tool().is_none());
        known
    };
    let plain = json!({"type": "object"});
    let marked = json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}});
    assert_eq!(listed(plain.clone()), None);
    assert_eq!(listed(marked.clone()), Some(("book".to_owned(), marked.to_string())));
    assert_eq!(listed(marked), None);
    assert_eq!(listed(plain.clone()), Some(("book".to_owned(), "{}".to_owned())));
    assert_eq!(listed(plain), None);
}

#[test]
fn errors_pass_with_the_code_of_the_client_revision() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        for error in [
            RpcError::new(7, "no luck").with_data(RawJson::new(r#"{"why":[1]}"#).expect("JSON")),
            RpcError::resource_not_found("x:1"),
        ] {
            let key = chain.call("resources/read", &json!({"uri": "x:1"}));
            let call = chain.take_server_call();
            let now = chain.now;
            chain.server.engine().fail(now, call.id(), &error).expect("open");
            chain.settle();
            let received = chain.error(key);
            assert_eq!((&received.message, &received.data), (&error.message, &error.data));
            let modern = down == Version::V2026_07_28;
            let code = if error.code != 7 && modern { code::INVALID_PARAMS } else { error.code };
            assert_eq!(received.code, code, "{down} {up}");
        }
    }
}

#[test]
fn unreadable_result_becomes_an_error() {
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2026_07_28);
    for (result, member) in
        [(json!({"content": "no list"}), "content"), (json!({"content": [], "isError": "yes"}), "isError")]
    {
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        chain.complete(&call, &result);
        let error = chain.error(key);
        assert!(error.message.contains("cannot be passed on") && error.message.contains(member), "{error}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn members_that_are_null_do_not_pass_to_another_revision() {
    // DEC-035
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2026_07_28);
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    let block = json!({"type": "text", "text": "null", "annotations": null});
    chain.complete(&call, &json!({"content": [block], "isError": null}));
    assert_eq!(chain.result(key), json!({"content": [{"type": "text", "text": "null"}]}));
}

#[test]
fn tool_result_that_both_revisions_have_passes_without_what_engines_write() {
    for (down, up) in
        [(Version::V2025_11_25, Version::V2026_07_28), (Version::V2026_07_28, Version::V2025_11_25)]
    {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        let meta = json!({"com.example/y": 2});
        let given = json!({"content": [{"type": "text", "text": "1"}], "structuredContent": {"n": 1}, "_meta": meta, "x": 3});
        chain.complete(&call, &given);
        let mut result = chain.result(key);
        assert_eq!(result["_meta"]["com.example/y"], 2);
        for member in ["resultType", "_meta"] {
            result.as_object_mut().expect("an object").remove(member);
        }
        assert_eq!(result, json!({"content": given["content"], "structuredContent": {"n": 1}, "x": 3}));
    }
    // A value that is no object is a text before 2026-07-28.
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2026_07_28);
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    chain.complete(&call, &json!({"content": [], "structuredContent": 7}));
    assert_eq!(chain.result(key), json!({"content": [{"type": "text", "text": "7"}]}));
}

#[test]
fn progress_is_requested_when_the_client_requests_it() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let params = json!({"name": "book"});
        let key = chain.call_with("tools/call", &params, &CallOptions::new().with_progress());
        let call = chain.take_server_call();
        assert!(call.wants_progress());
        chain.take_client_events();
        for n in 1..=3 {
            chain.progress(&call, f64::from(n));
        }
        let received: Vec<f64> = chain
            .take_client_events()
            .iter()
            .filter_map(|event| match event {
                Event::Progress { call, progress } if *call == key => Some(progress.progress),
                _ => None,
            })
            .collect();
        assert_eq!(received, [1.0, 2.0, 3.0], "{down} {up}");
        chain.complete(&call, &hello_result());
        assert_eq!(chain.result(key), hello_result());
    }
}

#[test]
fn cancelled_call_is_cancelled_at_server() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        let now = chain.now;
        chain.client.engine().cancel(now, key, Some("tired")).expect("open");
        chain.settle();
        assert!(chain.was_cancelled(&call), "{down} {up}: {:?}", chain.server_events);
        assert!(matches!(&chain.server_events[..], [.., mcp_proto::server::Event::Cancelled {
            reason: mcp_proto::server::CancelReason::Client(Some(why)), ..
        }] if why == "tired"));
        assert_eq!(chain.relay.pending_calls(), 0);
        // The next call is independent of the cancelled one.
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        chain.complete(&call, &hello_result());
        assert_eq!(chain.result(key), hello_result());
    }
}

#[test]
fn call_beyond_total_timeout_ends_on_both_sides() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let options =
            CallOptions::new().timeout(Duration::from_secs(3_600)).total_timeout(Duration::from_secs(3_600));
        let key = chain.call_with("tools/call", &json!({"name": "book"}), &options);
        let call = chain.take_server_call();
        // Longer than the total timeout of the bridge itself.
        chain.wait(Duration::from_secs(601));
        let error = chain.error(key);
        assert!(error.message.contains("no answer in time"), "{error}");
        assert!(chain.was_cancelled(&call));
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn calls_are_cancelled_after_the_client_has_left() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        chain.call_unknown_tool();
        let call = chain.take_server_call();
        chain.close_client();
        // The client has left, but its call still has the usual grace period.
        assert!(!chain.was_cancelled(&call));
        chain.wait(Duration::from_secs(6));
        assert!(chain.was_cancelled(&call), "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn completion_is_refused_where_the_server_revision_lacks_its_capability() {
    // The oldest revision has no capability for completion, so the bridge cannot detect it.
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2024_11_05);
    let refused = chain.client.engine().call(
        chain.now,
        "completion/complete",
        &json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
        &CallOptions::new(),
    );
    assert!(refused.is_err());
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    chain.complete(&call, &json!({"content": [{"type": "text", "text": "old"}]}));
    assert_eq!(chain.result(key), json!({"content": [{"type": "text", "text": "old"}]}));
}

/// Takes the log messages that the client received.
#[expect(deprecated, reason = "tested until its removal")]
fn logged_messages(chain: &mut BridgeHarness) -> Vec<(LoggingLevel, Value)> {
    let logs = chain.take_client_events().into_iter().filter_map(|event| match event {
        Event::Log(log) => Some((log.level, serde_json::from_str(log.data.as_str()).expect("JSON"))),
        _ => None,
    });
    logs.collect()
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn logs_pass_from_the_level_set_by_the_client() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let now = chain.now;
        chain.client.engine().set_log_level(now, Some(LoggingLevel::Warning)).expect("it logs");
        chain.settle();
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        for (level, n) in [(LoggingLevel::Debug, 1), (LoggingLevel::Warning, 2), (LoggingLevel::Error, 3)] {
            chain.server.engine().log(now, call.id(), &level, Some("dock"), &n).expect("open");
        }
        chain.settle();
        let wanted = [(LoggingLevel::Warning, json!(2)), (LoggingLevel::Error, json!(3))];
        assert_eq!(logged_messages(&mut chain), wanted, "{down} {up}");
        chain.complete(&call, &hello_result());
        assert_eq!(chain.result(key), hello_result());
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn session_without_log_level_receives_all_logs() {
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2026_07_28);
    chain.call_unknown_tool();
    let (now, call) = (chain.now, chain.take_server_call());
    for (level, n) in [(LoggingLevel::Debug, 1), (LoggingLevel::Info, 2)] {
        chain.server.engine().log(now, call.id(), &level, None, &n).expect("open");
    }
    chain.settle();
    assert_eq!(
        logged_messages(&mut chain),
        [(LoggingLevel::Debug, json!(1)), (LoggingLevel::Info, json!(2))]
    );
}

#[test]
fn late_result_of_cancelled_call_is_dropped() {
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2025_11_25);
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    let now = chain.now;
    chain.client.engine().cancel(now, key, None).expect("open");
    let late = chain.server.engine().complete(now, call.id(), &hello_result());
    assert!(late.is_ok(), "they cross");
    chain.settle();
    assert!(matches!(chain.outcome(key), Err(CallError::Cancelled)));
    assert_eq!(chain.relay.pending_calls(), 0);
}

#[test]
fn custom_requests_of_client_reach_server() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let params = json!({"at": "quay", "task": 3});
        let mut options = CallOptions::new();
        options.meta = Some(RawJson::encode(&json!({"com.example/tag": 1})).expect("an object"));
        let key = chain.call_with("harbour/depth", &params, &options);
        let call = chain.take_server_call();
        assert_eq!(call.method(), "harbour/depth");
        let seen: Value = call.parse().expect("an object");
        assert_eq!((&seen["at"], &seen["task"]), (&"quay".into(), &3.into()), "{down} {up}: {seen}");
        assert_eq!(seen["_meta"]["com.example/tag"], 1, "{down} {up}: {seen}");
        chain.complete(&call, &json!({"metres": 7}));
        assert_eq!(chain.result(key)["metres"], 7, "{down} {up}");
        // Only the server knows its methods.
        let key = chain.call("harbour/unknown", &json!({}));
        assert_eq!(chain.error(key).code, -32601, "{down} {up}");
        // A cancellation by the client reaches the server.
        let key = chain.call("harbour/depth", &json!({}));
        let call = chain.take_server_call();
        let now = chain.now;
        chain.client.engine().cancel(now, key, None).expect("open");
        chain.settle();
        assert!(chain.was_cancelled(&call), "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}
