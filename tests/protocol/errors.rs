//! Errors that an engine produces itself: their codes and messages.

use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, Fault, Limits, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, legacy_request, modern_request, modern_request_with, raw};
use mcp_tests::harness::{Chunker, ClientHarness, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

/// Sends every kind of invalid input to a server and returns the errors that it sends.
fn provoke_errors(version: Option<Version>, limits: Limits) -> Vec<Value> {
    let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(limits), Chunker::Whole);
    let mut seen = Vec::new();
    if let Some(version) = version {
        harness.open_session(version);
    } else {
        harness.assert_works();
    }
    let request = |id: Value, method: &str, params: Value| match version {
        Some(_) => legacy_request(id, method, params),
        None => modern_request(id, method, params),
    };
    let mut lines = vec![
        "garbage".to_owned(),
        "{".to_owned(),
        "[]".to_owned(),
        "[1]".to_owned(),
        "7".to_owned(),
        r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"x":"{}"}}}}"#, "y".repeat(2_000)),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"x":{}{}}}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        ),
        request(json!(1), "unheard/of", json!({})).to_string(),
        request(json!(1), &"long".repeat(200), json!({})).to_string(),
        request(json!(1), "prompts/list", json!({})).to_string(),
        request(json!(1), "initialize", json!({})).to_string(),
        legacy_request(1, "server/discover", json!({})).to_string(),
        modern_request_with(
            1,
            "tools/list",
            json!({}),
            &json!({"io.modelcontextprotocol/protocolVersion": "1"}),
        )
        .to_string(),
        modern_request_with(
            1,
            "tools/list",
            json!({}),
            &json!({"io.modelcontextprotocol/clientCapabilities": 1}),
        )
        .to_string(),
        modern_request_with(1, "tools/list", json!({}), &json!({"progressToken": []})).to_string(),
    ];
    lines.push(request(json!("old"), "tools/call", json!({"name": "a"})).to_string());
    for line in lines {
        harness.feed(line);
        seen.extend(harness.take_sent());
    }
    // One call is never answered.
    harness.advance(secs(3_600));
    seen.extend(harness.take_sent());
    seen.into_iter().filter_map(|m| m.get("error").cloned()).collect()
}

// covers: ERR-001, ERR-003, ERR-005, ERR-009, ERR-014, ERR-016, ERR-019, BASE-012
#[test]
fn engine_errors_use_only_defined_codes() {
    let known = [-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022];
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        let errors = provoke_errors(version, limits(|l| l.max_frame = 2_000));
        assert!(errors.len() >= 12, "{errors:#?}");
        for error in &errors {
            let code = error["code"].as_i64().expect("an integer");
            assert!(known.contains(&code), "{error}");
            // The message is one short sentence without internals.
            let message = error["message"].as_str().expect("text");
            assert!(!message.is_empty() && message.len() < 200 && !message.contains('\n'), "{message}");
            assert!(!message.contains("::") && !message.contains("src/"), "{message}");
        }
        for code in [-32700, -32600, -32601, -32602, -32603] {
            assert!(errors.iter().any(|e| e["code"] == code), "{code} in {version:?}");
        }
    }
    assert_eq!([code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY], [-32020, -32021]);
    assert_eq!(code::UNSUPPORTED_PROTOCOL_VERSION, -32022);
}

// covers: ERR-010, ERR-014, ERR-018, BASE-011
#[test]
fn application_errors_are_sent_unchanged() {
    for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            if let Some(version) = version {
                harness.open_session(version);
            }
            let request = match version {
                Some(_) => legacy_request(1, "tools/call", json!({"name": "a"})),
                None => modern_request(1, "tools/call", json!({"name": "a"})),
            };
            // Resource not found is -32002 only in the legacy era.
            let not_found = if version.is_some() { -32002 } else { -32602 };
            for (code, data) in
                [(7, Value::Null), (not_found, json!({"uri": "tide://x"})), (-32603, json!([1, null]))]
            {
                let call = harness.expect_call_for(&request);
                let mut error = RpcError::new(code, "no \"luck\"\nat all");
                if !data.is_null() {
                    error = error.with_data(raw(&data));
                }
                let sent = harness.fail(call.id(), &error)["error"].clone();
                assert_eq!((&sent["code"], &sent["message"]), (&json!(code), &json!("no \"luck\"\nat all")));
                assert_eq!(sent.get("data").cloned().unwrap_or(Value::Null), data);
            }
            harness.transcript
        });
    }
}

// covers: ERR-015, LIFE-020, STDIO-028
#[test]
fn local_failures_are_not_reported_as_rpc_errors() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL), cut);
        harness.become_modern(json!({"tools": {}}));
        let (late, _) = harness.start_call("tools/list", &json!({}), &CallOptions::new().timeout(ms(5)));
        harness.advance(ms(5));
        assert_eq!(harness.expect_done(late), Err(CallError::TimedOut));
        let (cancelled, _) = {
            harness.take_sent();
            harness.start_call("tools/list", &json!({}), &CallOptions::new())
        };
        harness.pipe.engine().cancel(harness.now, cancelled, None).expect("open");
        assert_eq!(harness.expect_done(cancelled), Err(CallError::Cancelled));
        harness.take_sent();
        let (lost, _) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.eof();
        assert_eq!(harness.expect_done(lost), Err(CallError::Closed(Fault::Eof)));
        assert_eq!(harness.expect_closed(), Fault::Eof);
        let refused = harness.pipe.engine().call(harness.now, "tools/list", &json!({}), &CallOptions::new());
        assert_eq!(refused, Err(mcp_proto::UseError::Closed));
        harness.transcript
    });
}
