//! The errors that our side gives by itself: which codes, and what they say.

use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, Fault, Limits, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, legacy, modern, modern_with, raw};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

/// All errors that a server gives by itself when it is treated badly in every way
fn provoked(version: Option<Version>, limits: Limits) -> Vec<Value> {
    let mut lone = LoneServer::server(server(VersionSet::ALL).limits(limits), Chunker::Whole);
    let mut seen = Vec::new();
    if let Some(version) = version {
        lone.open(version);
    } else {
        lone.works();
    }
    let ask = |id: Value, method: &str, params: Value| match version {
        Some(_) => legacy(id, method, params),
        None => modern(id, method, params),
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
        ask(json!(1), "unheard/of", json!({})).to_string(),
        ask(json!(1), &"long".repeat(200), json!({})).to_string(),
        ask(json!(1), "prompts/list", json!({})).to_string(),
        ask(json!(1), "initialize", json!({})).to_string(),
        legacy(1, "server/discover", json!({})).to_string(),
        modern_with(1, "tools/list", json!({}), &json!({"io.modelcontextprotocol/protocolVersion": "1"}))
            .to_string(),
        modern_with(1, "tools/list", json!({}), &json!({"io.modelcontextprotocol/clientCapabilities": 1}))
            .to_string(),
        modern_with(1, "tools/list", json!({}), &json!({"progressToken": []})).to_string(),
    ];
    lines.push(ask(json!("old"), "tools/call", json!({"name": "a"})).to_string());
    for line in lines {
        lone.feed(line);
        seen.extend(lone.sent());
    }
    // One that is never answered.
    lone.pass(secs(3_600));
    seen.extend(lone.sent());
    seen.into_iter().filter_map(|m| m.get("error").cloned()).collect()
}

// covers: ERR-001, ERR-003, ERR-005, ERR-009, ERR-014, ERR-016, ERR-019, BASE-012
#[test]
fn only_codes_with_a_meaning_are_given() {
    let known = [-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022];
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        let errors = provoked(version, limits(|l| l.max_frame = 2_000));
        assert!(errors.len() >= 12, "{errors:#?}");
        for error in &errors {
            let code = error["code"].as_i64().expect("an integer");
            assert!(known.contains(&code), "{error}");
            // One short sentence, which says nothing of what is inside.
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
fn errors_of_the_application_go_out_as_they_are() {
    for version in [None].into_iter().chain(LEGACY.map(Some)) {
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            if let Some(version) = version {
                lone.open(version);
            }
            let request = match version {
                Some(_) => legacy(1, "tools/call", json!({"name": "a"})),
                None => modern(1, "tools/call", json!({"name": "a"})),
            };
            // Resource not found is -32002 in the legacy era alone.
            let not_found = if version.is_some() { -32002 } else { -32602 };
            for (code, data) in
                [(7, Value::Null), (not_found, json!({"uri": "tide://x"})), (-32603, json!([1, null]))]
            {
                let call = lone.take(&request);
                let mut error = RpcError::new(code, "no \"luck\"\nat all");
                if !data.is_null() {
                    error = error.with_data(raw(&data));
                }
                let sent = lone.fail(call.id(), &error)["error"].clone();
                assert_eq!((&sent["code"], &sent["message"]), (&json!(code), &json!("no \"luck\"\nat all")));
                assert_eq!(sent.get("data").cloned().unwrap_or(Value::Null), data);
            }
            lone.transcript
        });
    }
}

// covers: ERR-015, LIFE-020, STDIO-028
#[test]
fn what_arises_here_is_never_dressed_up_as_an_answer() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        lone.with_modern(json!({"tools": {}}));
        let (late, _) = lone.calls("tools/list", &json!({}), &CallOptions::new().timeout(ms(5)));
        lone.pass(ms(5));
        assert_eq!(lone.done(late), Err(CallError::TimedOut));
        let (cancelled, _) = {
            lone.sent();
            lone.calls("tools/list", &json!({}), &CallOptions::new())
        };
        lone.pipe.engine().cancel(lone.now, cancelled, None).expect("open");
        assert_eq!(lone.done(cancelled), Err(CallError::Cancelled));
        lone.sent();
        let (lost, _) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.eof();
        assert_eq!(lone.done(lost), Err(CallError::Closed(Fault::Eof)));
        assert_eq!(lone.closed(), Fault::Eof);
        let refused = lone.pipe.engine().call(lone.now, "tools/list", &json!({}), &CallOptions::new());
        assert_eq!(refused, Err(mcp_proto::UseError::Closed));
        lone.transcript
    });
}
