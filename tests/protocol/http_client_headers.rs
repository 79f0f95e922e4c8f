//! HTTP client: header fields that repeat parts of the body, and the `Mcp-Param-*` fields that tools ask for.

use mcp_proto::{CallError, CallOptions, Diagnostic, VersionSet};
use mcp_tests::harness::build::{error_response, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};

pub(super) fn modern_harness(cut: Chunker) -> HttpClientHarness {
    let mut harness =
        HttpClientHarness::new(client(VersionSet::MODERN), HttpClientHarness::default_http_config(), cut);
    let extensions = json!({"io.modelcontextprotocol/tasks": {}});
    harness.become_modern(
        json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "extensions": extensions}),
    );
    harness
}

fn non_retryable() -> CallOptions {
    CallOptions::new()
}

fn tool_result() -> Value {
    json!({"resultType": "complete", "content": []})
}

/// Returns a page of tools with the given schema properties.
pub(super) fn tools_page(tools: &[(&str, Value)], next: Option<&str>) -> Value {
    let tool = |(name, properties): &(&str, Value)| json!({"name": name, "description": "é", "inputSchema": {"type": "object", "properties": properties}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let mut page = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    page
}

pub(super) fn schema_with_header(header: &str) -> Value {
    json!({"type": "string", "x-mcp-header": header})
}

/// Lists tools with `page` as the response; returns the names that the application gets.
pub(super) fn list_tools(
    harness: &mut HttpClientHarness,
    cursor: Option<&str>,
    page: &Value,
    as_event_stream: bool,
) -> Vec<String> {
    let key = harness.client.engine().list_tools(harness.now, cursor, &non_retryable()).expect("a list");
    let request = harness.expect_post("tools/list");
    assert_eq!(request.field("mcp-method"), Some("tools/list"));
    if as_event_stream {
        harness.start_event_stream(request.id);
        harness.receive_event(request.id, "", &result_response(&request.body, page.clone()));
        harness.receive_end(request.id);
    } else {
        harness.respond_with_json(request.id, 200, &result_response(&request.body, page.clone()));
    }
    let diagnostics: Vec<Diagnostic> = harness.take_diagnostics();
    let found = harness.expect_done(key).expect("a page");
    assert_eq!(found["nextCursor"], page["nextCursor"]);
    let names: Vec<String> = found["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|t| t["name"].as_str().expect("a name").into())
        .collect();
    let invalid_count = diagnostics.iter().filter(|d| matches!(d, Diagnostic::InvalidTool { .. })).count();
    assert_eq!(names.len() + invalid_count, page["tools"].as_array().expect("tools").len());
    names
}

fn param_headers(request: &SentRequest) -> Vec<(&str, &str)> {
    let param = |(name, value): &'_ (String, String)| {
        name.starts_with("Mcp-Param-").then(|| (name.clone(), value.clone()))
    };
    request.fields.iter().filter(|f| param(f).is_some()).map(|(n, v)| (&**n, &**v)).collect()
}

// covers: HTTP-030, HTTP-032, HTTP-033, HTTP-034, HTTP-035, XHDR-031, XHDR-032, XHDR-036
#[test]
fn request_headers_repeat_method_and_name() {
    let mut harness = modern_harness(Chunker::Whole);
    for (method, params, name) in [
        ("tools/call", json!({"name": "my-hyphenated-tool", "arguments": {}}), Some("my-hyphenated-tool")),
        ("tools/call", json!({"name": "a b"}), Some("a b")),
        ("tools/call", json!({"name": " é\n"}), Some("=?base64?IMOpCg==?=")),
        ("tools/call", json!({"arguments": {"name": "x"}, "name": "\u{1F30A}"}), Some("=?base64?8J+Mig==?=")),
        ("tools/call", json!({"name": "=?base64?eA==?="}), Some("=?base64?PT9iYXNlNjQ/ZUE9PT89?=")),
        ("prompts/get", json!({"name": "p"}), Some("p")),
        (
            "resources/read",
            json!({"uri": "file:///path/to/file%20name.txt"}),
            Some("file:///path/to/file%20name.txt"),
        ),
        (
            "resources/read",
            json!({"uri": "https://example.com/resource?id=123"}),
            Some("https://example.com/resource?id=123"),
        ),
        ("tasks/get", json!({"taskId": "7"}), Some("7")),
        ("tasks/cancel", json!({"taskId": "7"}), Some("7")),
        ("tools/list", json!({}), None),
        ("x/y", json!({"name": "x"}), None),
        ("x/é", json!({}), None),
    ] {
        let key = harness.call(method, &params, &non_retryable());
        let request = harness.expect_request();
        let sent = if method == "x/é" { "=?base64?eC/DqQ==?=" } else { method };
        assert_eq!(request.field("Mcp-Method"), Some(sent));
        assert_eq!(request.field("Mcp-Name"), name);
        assert_eq!(request.field("MCP-Protocol-Version"), Some("2026-07-28"));
        assert_eq!(request.field("Mcp-Session-Id"), None);
        harness.client.engine().cancel(harness.now, key, None).expect("a call");
        harness.expect_aborted();
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    }
    harness.client.engine().notify(harness.now, "x/news", Some(&json!({"name": "x"}))).expect("sent");
    let request = harness.expect_request();
    assert_eq!((request.field("Mcp-Method"), request.field("Mcp-Name")), (Some("x/news"), None));
    assert_eq!(request.field("MCP-Protocol-Version"), Some("2026-07-28"));
    harness.respond_with_status(request.id, 202);
    harness.assert_idle();
}

// covers: HTTP-040
#[test]
fn session_id_of_modern_server_is_ignored() {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::ALL),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    let probe = harness.expect_post("server/discover");
    let found = mcp_tests::harness::build::discover_result(&["2026-07-28"], json!({"tools": {}}));
    let fields = [("content-type", "application/json"), ("mcp-session-id", "s")];
    harness.respond_with(probe.id, 200, &fields, &result_response(&probe.body, found).to_string());
    harness.expect_ready();
    let (key, request) = harness.start_wave_call(&non_retryable());
    assert_eq!(request.field("mcp-session-id"), None);
    harness.respond_with_status(request.id, 404);
    assert!(harness.expect_done(key).is_err());
    harness.client.close(harness.now);
    harness.assert_nothing_sent();
}

// covers: XHDR-002, XHDR-014, XHDR-015, XHDR-016, XHDR-017, XHDR-018, XHDR-019, XHDR-030, XHDR-031
#[test]
fn param_headers_repeat_arguments_that_the_tool_schema_marks() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let properties = json!({
            "region": schema_with_header("Region"),
            "empty": schema_with_header("Empty"),
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "on": {"type": "boolean", "x-mcp-header": "On"},
            "deep": {"type": "object", "properties": {"er": schema_with_header("Deep")}},
            "plain": {"type": "string"},
        });
        let arguments = json!({"region": "côte", "empty": "", "count": -7, "on": false, "deep": {"er": " x"},
            "plain": "y", "unknown": 1});
        let call = |harness: &mut HttpClientHarness, arguments: &Value| {
            let key = harness
                .client
                .engine()
                .call_tool(harness.now, "tide", arguments, &non_retryable())
                .expect("a call");
            let request = harness.expect_post("tools/call");
            harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
            assert!(harness.expect_done(key).is_ok());
            request
        };
        // The tool has not been listed: no fields.
        assert!(param_headers(&call(&mut harness, &arguments)).is_empty());
        list_tools(
            &mut harness,
            None,
            &tools_page(&[("other", json!({})), ("tide", properties)], None),
            false,
        );
        let request = call(&mut harness, &arguments);
        let mut found = param_headers(&request);
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("Mcp-Param-Count", "-7"),
                ("Mcp-Param-Deep", "=?base64?IHg=?="),
                ("Mcp-Param-Empty", ""),
                ("Mcp-Param-On", "false"),
                ("Mcp-Param-Region", "=?base64?Y8O0dGU=?="),
            ]
        );
        assert!(param_headers(&call(&mut harness, &json!({"region": null}))).is_empty());
        // The newest schema counts, in either form of response.
        list_tools(
            &mut harness,
            Some("2"),
            &tools_page(&[("tide", json!({"plain": schema_with_header("Plain")}))], None),
            true,
        );
        assert_eq!(param_headers(&call(&mut harness, &arguments)), [("Mcp-Param-Plain", "y")]);
        list_tools(&mut harness, None, &tools_page(&[("tide", json!({}))], None), true);
        assert!(param_headers(&call(&mut harness, &arguments)).is_empty());
        harness.transcript
    });
}

// covers: XHDR-003, XHDR-004, XHDR-006, XHDR-007, XHDR-010, XHDR-011, XHDR-012, TOOL-030
#[test]
fn tools_with_invalid_param_headers_are_left_out() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let bad = |ty: &str| json!({"a": {"type": ty, "x-mcp-header": "A"}});
        let tools = [
            ("empty", json!({"a": schema_with_header("")})),
            ("first", json!({"a": schema_with_header("A")})),
            ("object", bad("object")),
            ("array", bad("array")),
            ("null", bad("null")),
            ("number", bad("number")),
            ("twice", json!({"a": schema_with_header("A"), "b": schema_with_header("a")})),
            ("space", json!({"a": schema_with_header("A B")})),
            ("colon", json!({"a": schema_with_header("A:B")})),
            ("foreign", json!({"a": schema_with_header("É")})),
            ("control", json!({"a": schema_with_header("A\n")})),
            ("items", json!({"a": {"type": "array", "items": schema_with_header("A")}})),
            ("last", json!({"a": {"type": "string"}})),
        ];
        for events in [false, true] {
            let names = list_tools(&mut harness, None, &tools_page(&tools, Some("next")), events);
            assert_eq!(names, ["first", "last"]);
        }
        assert_eq!(
            list_tools(&mut harness, Some("next"), &tools_page(&tools[..1], None), false),
            Vec::<String>::new()
        );
        // The schema of a tool that is now invalid is forgotten.
        list_tools(&mut harness, None, &tools_page(&[("first", bad("number"))], None), false);
        let key = harness
            .client
            .engine()
            .call_tool(harness.now, "first", &json!({"a": "x"}), &non_retryable())
            .expect("a call");
        let request = harness.expect_post("tools/call");
        assert!(param_headers(&request).is_empty());
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

// covers: XHDR-013
#[test]
fn legacy_tools_with_invalid_param_headers_are_kept() {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::LEGACY),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    harness.become_legacy(mcp_proto::Version::V2025_11_25, None, json!({"tools": {}}));
    let key = harness.client.engine().list_tools(harness.now, None, &non_retryable()).expect("a list");
    let request = harness.expect_post("tools/list");
    let tools = json!({"tools": [{"name": "a", "inputSchema": {"type": "object", "properties": {"a": schema_with_header("")}}}]});
    harness.respond_with_json(request.id, 200, &result_response(&request.body, tools.clone()));
    assert_eq!(harness.expect_done(key), Ok(tools));
}

fn header_mismatch(request: &SentRequest) -> Value {
    error_response(&request.body, -32020, "Mcp-Param-Region is missing", Value::Null)
}

// covers: XHDR-029
#[test]
fn call_with_header_mismatch_is_retried_once_after_listing_tools() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let arguments = json!({"region": "us-west1"});
        let key = harness
            .client
            .engine()
            .call_tool(harness.now, "tide", &arguments, &non_retryable())
            .expect("a call");
        let request = harness.expect_post("tools/call");
        harness.respond_with_json(request.id, 400, &header_mismatch(&request));
        // The client lists the tools by itself.
        let first = harness.expect_post("tools/list");
        assert_eq!(first.body["params"].get("cursor"), None);
        assert_eq!(first.field("MCP-Protocol-Version"), Some("2026-07-28"));
        harness.respond_with_json(
            first.id,
            200,
            &result_response(&first.body, tools_page(&[("other", json!({}))], Some("p\"2"))),
        );
        let second = harness.expect_post("tools/list");
        assert_eq!(second.body["params"]["cursor"], "p\"2");
        harness.start_event_stream(second.id);
        let found = tools_page(
            &[
                ("bad", json!({"a": schema_with_header("")})),
                ("tide", json!({"region": schema_with_header("Region")})),
            ],
            Some("3"),
        );
        harness.receive_event(second.id, "", &result_response(&second.body, found));
        harness.receive_end(second.id);
        let again = harness.expect_post("tools/call");
        assert_ne!(again.body["id"], request.body["id"]);
        assert_eq!(param_headers(&again), [("Mcp-Param-Region", "us-west1")]);
        assert_eq!(again.body["params"]["arguments"], arguments);
        harness.respond_with_json(again.id, 400, &header_mismatch(&again));
        assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32020));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: XHDR-029
#[test]
fn header_mismatch_is_reported_when_tool_lookup_fails() {
    for how in ["500", "broken", "page", "error", "202", "gone"] {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_json(request.id, 400, &header_mismatch(&request));
        let list = harness.expect_post("tools/list");
        match how {
            "broken" => harness.break_connection(list.id),
            "page" => harness.respond(list.id, 200, "text/html", "<p>"),
            "error" => harness.respond_with_json(
                list.id,
                200,
                &error_response(&list.body, -32603, "no", Value::Null),
            ),
            "gone" => {
                // Cancelled meanwhile: the lookup ends with the call.
                harness.client.engine().cancel(harness.now, key, None).expect("a call");
                assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
                assert_eq!(harness.expect_aborted(), list.id);
                harness.assert_idle();
                continue;
            }
            status => harness.respond_with_status(list.id, status.parse().expect("a number")),
        }
        assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32020), "{how}");
        harness.advance(secs(60));
        harness.assert_idle();
    }
}

// covers: XHDR-029, XHDR-011, XHDR-012
#[test]
fn missing_or_invalid_tool_is_looked_up_but_not_called_again() {
    let schema = json!({"region": schema_with_header("Region")});
    for how in ["gone", "null", "invalid"] {
        let mut harness = modern_harness(Chunker::Whole);
        list_tools(&mut harness, None, &tools_page(&[("tide", schema.clone())], None), false);
        let arguments = json!({"region": "us-west1"});
        let key = harness
            .client
            .engine()
            .call_tool(harness.now, "tide", &arguments, &non_retryable())
            .expect("a call");
        let request = harness.expect_post("tools/call");
        assert_eq!(param_headers(&request), [("Mcp-Param-Region", "us-west1")]);
        harness.respond_with_json(request.id, 400, &header_mismatch(&request));
        let list = harness.expect_post("tools/list");
        assert!(
            list.body["id"].as_i64().is_some_and(|id| id < 0),
            "ids of internal requests are negative: {}",
            list.body
        );
        let mut found = tools_page(&[("other", json!({}))], None);
        match how {
            "gone" => {}
            // A null cursor means that there is no other page.
            "null" => found["nextCursor"] = Value::Null,
            _ => {
                found = tools_page(&[("tide", json!({"region": schema_with_header("no token")}))], Some("2"))
            }
        }
        harness.respond_with_json(list.id, 200, &result_response(&list.body, found));
        let diagnostics = harness.take_diagnostics();
        assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32020), "{how}");
        let is_reported =
            diagnostics.iter().any(|d| matches!(d, Diagnostic::InvalidTool { name, .. } if name == "tide"));
        assert_eq!(is_reported, how == "invalid", "{diagnostics:?}");
        harness.assert_idle();
        // The fields of the former schema are no longer sent.
        let key = harness
            .client
            .engine()
            .call_tool(harness.now, "tide", &arguments, &non_retryable())
            .expect("a call");
        let request = harness.expect_post("tools/call");
        assert!(param_headers(&request).is_empty(), "{how}");
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert!(harness.expect_done(key).is_ok());
    }
}

// covers: HTTP-081
#[test]
fn oversized_request_error_names_the_cause() {
    for (status, cause) in [(413, "the request is too large"), (431, "the request head is too large")] {
        let mut harness = modern_harness(Chunker::Whole);
        list_tools(
            &mut harness,
            None,
            &tools_page(&[("tide", json!({"region": schema_with_header("Region")}))], None),
            false,
        );
        let arguments = json!({"region": "x".repeat(100_000)});
        let key = harness
            .client
            .engine()
            .call_tool(harness.now, "tide", &arguments, &non_retryable())
            .expect("a call");
        let request = harness.expect_post("tools/call");
        harness.respond(request.id, status, "text/html", "<h1>no</h1>");
        let error = harness.expect_done(key).expect_err("refused");
        assert!(error.to_string().contains(cause), "{error}");
        harness.assert_idle();
    }
}

// covers: HTTP-082
#[test]
fn content_encoded_response_fails_the_call() {
    for (encoding, fails) in [("gzip", true), ("br, gzip", true), ("identity", false), ("", false)] {
        for content_type in ["application/json", "text/event-stream"] {
            let mut harness = modern_harness(Chunker::Whole);
            let (key, request) = harness.start_wave_call(&non_retryable());
            let message = result_response(&request.body, tool_result());
            let text = if content_type.starts_with('t') {
                format!("data: {message}\n\n")
            } else {
                message.to_string()
            };
            harness.respond_with(
                request.id,
                200,
                &[("Content-Type", content_type), ("content-encoding", encoding)],
                &text,
            );
            match harness.expect_done(key) {
                Ok(_) => assert!(!fails, "{encoding} {content_type}"),
                Err(error) => {
                    assert!(fails && error.to_string().contains(&format!("encoded with `{encoding}`")))
                }
            }
            harness.assert_idle();
        }
    }
}

// covers: SEC-018
#[test]
fn schema_of_tool_with_overlong_name_is_not_cached() {
    let mut harness = modern_harness(Chunker::Whole);
    let names = ["x".repeat(1024), "x".repeat(1025)];
    let schema = json!({"region": schema_with_header("Region")});
    list_tools(
        &mut harness,
        None,
        &tools_page(&names.each_ref().map(|n| (&**n, schema.clone())), None),
        false,
    );
    for name in &names {
        let arguments = json!({"region": "eu"});
        let key = harness
            .client
            .engine()
            .call_tool(harness.now, name, &arguments, &non_retryable())
            .expect("a call");
        let request = harness.expect_post("tools/call");
        assert_eq!(param_headers(&request).len(), usize::from(name.len() == 1024));
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert!(harness.expect_done(key).is_ok());
    }
}
