//! Over HTTP: what the head of a request repeats of its body, and what tools ask for in it.

use mcp_proto::{CallError, CallOptions, Diagnostic, VersionSet};
use mcp_tests::harness::build::{error, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{client, secs};

fn modern(cut: Chunker) -> LoneHttp {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), cut);
    lone.with_modern(json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}}));
    lone
}

fn once() -> CallOptions {
    CallOptions::new()
}

fn answer() -> Value {
    json!({"resultType": "complete", "content": []})
}

/// A page of tools with these properties each
fn page(tools: &[(&str, Value)], next: Option<&str>) -> Value {
    let tool = |(name, properties): &(&str, Value)| json!({"name": name, "description": "é", "inputSchema": {"type": "object", "properties": properties}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let mut page = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    page
}

fn text(header: &str) -> Value {
    json!({"type": "string", "x-mcp-header": header})
}

/// The client lists tools and gets this page; the names of those that it is told of
fn lists(lone: &mut LoneHttp, cursor: Option<&str>, page: &Value, events: bool) -> Vec<String> {
    let key = lone.client.engine().list_tools(lone.now, cursor, &once()).expect("a list");
    let asked = lone.posted("tools/list");
    assert_eq!(asked.field("mcp-method"), Some("tools/list"));
    if events {
        lone.stream(asked.id);
        lone.event(asked.id, "", &result(&asked.body, page.clone()));
        lone.end(asked.id);
    } else {
        lone.json(asked.id, 200, &result(&asked.body, page.clone()));
    }
    let odd: Vec<Diagnostic> = lone.odd();
    let found = lone.done(key).expect("a page");
    assert_eq!(found["nextCursor"], page["nextCursor"]);
    let names: Vec<String> = found["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|t| t["name"].as_str().expect("a name").into())
        .collect();
    let told = odd.iter().filter(|d| matches!(d, Diagnostic::InvalidTool { .. })).count();
    assert_eq!(names.len() + told, page["tools"].as_array().expect("tools").len());
    names
}

fn params(asked: &Asked) -> Vec<(&str, &str)> {
    let of = |(name, value): &'_ (String, String)| {
        name.starts_with("Mcp-Param-").then(|| (name.clone(), value.clone()))
    };
    asked.fields.iter().filter(|f| of(f).is_some()).map(|(n, v)| (&**n, &**v)).collect()
}

// covers: HTTP-030, HTTP-032, HTTP-033, HTTP-034, HTTP-035, XHDR-031, XHDR-032, XHDR-036
#[test]
fn method_and_name_are_repeated() {
    let mut lone = modern(Chunker::Whole);
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
        let key = lone.call(method, &params, &once());
        let asked = lone.asked();
        let sent = if method == "x/é" { "=?base64?eC/DqQ==?=" } else { method };
        assert_eq!(asked.field("Mcp-Method"), Some(sent));
        assert_eq!(asked.field("Mcp-Name"), name);
        assert_eq!(asked.field("MCP-Protocol-Version"), Some("2026-07-28"));
        assert_eq!(asked.field("Mcp-Session-Id"), None);
        lone.client.engine().cancel(lone.now, key, None).expect("a call");
        lone.aborted();
        assert_eq!(lone.done(key), Err(CallError::Cancelled));
    }
    lone.client.engine().notify(lone.now, "x/news", Some(&json!({"name": "x"}))).expect("sent");
    let asked = lone.asked();
    assert_eq!((asked.field("Mcp-Method"), asked.field("Mcp-Name")), (Some("x/news"), None));
    assert_eq!(asked.field("MCP-Protocol-Version"), Some("2026-07-28"));
    lone.status(asked.id, 202);
    lone.still();
}

// covers: HTTP-040
#[test]
fn a_session_id_of_a_modern_server_is_ignored() {
    let mut lone = LoneHttp::new(client(VersionSet::ALL), LoneHttp::http(), Chunker::Whole);
    let probe = lone.posted("server/discover");
    let found = mcp_tests::harness::build::discovery(&["2026-07-28"], json!({"tools": {}}));
    let fields = [("content-type", "application/json"), ("mcp-session-id", "s")];
    lone.answer_with(probe.id, 200, &fields, &result(&probe.body, found).to_string());
    lone.ready();
    let (key, asked) = lone.waves(&once());
    assert_eq!(asked.field("mcp-session-id"), None);
    lone.status(asked.id, 404);
    assert!(lone.done(key).is_err());
    lone.client.close(lone.now);
    lone.silent();
}

// covers: XHDR-002, XHDR-014, XHDR-015, XHDR-016, XHDR-017, XHDR-018, XHDR-019, XHDR-030, XHDR-031
#[test]
fn arguments_are_repeated_as_the_tool_asks() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let properties = json!({
            "region": text("Region"),
            "empty": text("Empty"),
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "on": {"type": "boolean", "x-mcp-header": "On"},
            "deep": {"type": "object", "properties": {"er": text("Deep")}},
            "plain": {"type": "string"},
        });
        let arguments = json!({"region": "côte", "empty": "", "count": -7, "on": false, "deep": {"er": " x"},
            "plain": "y", "unknown": 1});
        let call = |lone: &mut LoneHttp, arguments: &Value| {
            let key = lone.client.engine().call_tool(lone.now, "tide", arguments, &once()).expect("a call");
            let asked = lone.posted("tools/call");
            lone.json(asked.id, 200, &result(&asked.body, answer()));
            assert!(lone.done(key).is_ok());
            asked
        };
        // Never seen: nothing.
        assert!(params(&call(&mut lone, &arguments)).is_empty());
        lists(&mut lone, None, &page(&[("other", json!({})), ("tide", properties)], None), false);
        let asked = call(&mut lone, &arguments);
        let mut found = params(&asked);
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
        assert!(params(&call(&mut lone, &json!({"region": null}))).is_empty());
        // The newest schema counts, wherever it comes from.
        lists(&mut lone, Some("2"), &page(&[("tide", json!({"plain": text("Plain")}))], None), true);
        assert_eq!(params(&call(&mut lone, &arguments)), [("Mcp-Param-Plain", "y")]);
        lists(&mut lone, None, &page(&[("tide", json!({}))], None), true);
        assert!(params(&call(&mut lone, &arguments)).is_empty());
        lone.transcript
    });
}

// covers: XHDR-003, XHDR-004, XHDR-006, XHDR-007, XHDR-010, XHDR-011, XHDR-012, TOOL-030
#[test]
fn tools_that_ask_for_what_cannot_be_are_left_out() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let bad = |ty: &str| json!({"a": {"type": ty, "x-mcp-header": "A"}});
        let tools = [
            ("empty", json!({"a": text("")})),
            ("first", json!({"a": text("A")})),
            ("object", bad("object")),
            ("array", bad("array")),
            ("null", bad("null")),
            ("number", bad("number")),
            ("twice", json!({"a": text("A"), "b": text("a")})),
            ("space", json!({"a": text("A B")})),
            ("colon", json!({"a": text("A:B")})),
            ("foreign", json!({"a": text("É")})),
            ("control", json!({"a": text("A\n")})),
            ("items", json!({"a": {"type": "array", "items": text("A")}})),
            ("last", json!({"a": {"type": "string"}})),
        ];
        for events in [false, true] {
            let names = lists(&mut lone, None, &page(&tools, Some("next")), events);
            assert_eq!(names, ["first", "last"]);
        }
        assert_eq!(lists(&mut lone, Some("next"), &page(&tools[..1], None), false), Vec::<String>::new());
        // What was usable and is not any more is forgotten.
        lists(&mut lone, None, &page(&[("first", bad("number"))], None), false);
        let key =
            lone.client.engine().call_tool(lone.now, "first", &json!({"a": "x"}), &once()).expect("a call");
        let asked = lone.posted("tools/call");
        assert!(params(&asked).is_empty());
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

// covers: XHDR-013
#[test]
fn a_legacy_server_is_not_held_to_it() {
    let mut lone = LoneHttp::new(client(VersionSet::LEGACY), LoneHttp::http(), Chunker::Whole);
    lone.with_legacy(mcp_proto::Version::V2025_11_25, None, json!({"tools": {}}));
    let key = lone.client.engine().list_tools(lone.now, None, &once()).expect("a list");
    let asked = lone.posted("tools/list");
    let tools =
        json!({"tools": [{"name": "a", "inputSchema": {"type": "object", "properties": {"a": text("")}}}]});
    lone.json(asked.id, 200, &result(&asked.body, tools.clone()));
    assert_eq!(lone.done(key), Ok(tools));
}

fn mismatch(asked: &Asked) -> Value {
    error(&asked.body, -32020, "Mcp-Param-Region is missing", Value::Null)
}

// covers: XHDR-029
#[test]
fn a_call_refused_for_its_headers_is_made_again_once() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let arguments = json!({"region": "us-west1"});
        let key = lone.client.engine().call_tool(lone.now, "tide", &arguments, &once()).expect("a call");
        let asked = lone.posted("tools/call");
        lone.json(asked.id, 400, &mismatch(&asked));
        // The list is looked through, without the application.
        let first = lone.posted("tools/list");
        assert_eq!(first.body["params"].get("cursor"), None);
        assert_eq!(first.field("MCP-Protocol-Version"), Some("2026-07-28"));
        lone.json(first.id, 200, &result(&first.body, page(&[("other", json!({}))], Some("p\"2"))));
        let second = lone.posted("tools/list");
        assert_eq!(second.body["params"]["cursor"], "p\"2");
        lone.stream(second.id);
        let found =
            page(&[("bad", json!({"a": text("")})), ("tide", json!({"region": text("Region")}))], Some("3"));
        lone.event(second.id, "", &result(&second.body, found));
        lone.end(second.id);
        let again = lone.posted("tools/call");
        assert_ne!(again.body["id"], asked.body["id"]);
        assert_eq!(params(&again), [("Mcp-Param-Region", "us-west1")]);
        assert_eq!(again.body["params"]["arguments"], arguments);
        lone.json(again.id, 400, &mismatch(&again));
        assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32020));
        lone.still();
        lone.transcript
    });
}

// covers: XHDR-029
#[test]
fn a_list_that_does_not_help_leaves_the_call_with_its_refusal() {
    for how in ["500", "broken", "page", "error", "202", "gone"] {
        let mut lone = modern(Chunker::Whole);
        let (key, asked) = lone.waves(&once());
        lone.json(asked.id, 400, &mismatch(&asked));
        let list = lone.posted("tools/list");
        match how {
            "broken" => lone.breaks(list.id),
            "page" => lone.answer(list.id, 200, "text/html", "<p>"),
            "error" => lone.json(list.id, 200, &error(&list.body, -32603, "no", Value::Null)),
            "gone" => {
                // Given up meanwhile, and the look-up with it.
                lone.client.engine().cancel(lone.now, key, None).expect("a call");
                assert_eq!(lone.done(key), Err(CallError::Cancelled));
                assert_eq!(lone.aborted(), list.id);
                lone.still();
                continue;
            }
            status => lone.status(list.id, status.parse().expect("a number")),
        }
        assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32020), "{how}");
        lone.pass(secs(60));
        lone.still();
    }
}

// covers: XHDR-029, XHDR-011, XHDR-012
#[test]
fn a_tool_that_cannot_be_called_is_looked_up_and_not_called_again() {
    let schema = json!({"region": text("Region")});
    for how in ["gone", "null", "invalid"] {
        let mut lone = modern(Chunker::Whole);
        lists(&mut lone, None, &page(&[("tide", schema.clone())], None), false);
        let arguments = json!({"region": "us-west1"});
        let key = lone.client.engine().call_tool(lone.now, "tide", &arguments, &once()).expect("a call");
        let asked = lone.posted("tools/call");
        assert_eq!(params(&asked), [("Mcp-Param-Region", "us-west1")]);
        lone.json(asked.id, 400, &mismatch(&asked));
        let list = lone.posted("tools/list");
        assert!(list.body["id"].as_i64().is_some_and(|id| id < 0), "no other request has it: {}", list.body);
        let mut found = page(&[("other", json!({}))], None);
        match how {
            "gone" => {}
            // No cursor, so there is no other page.
            "null" => found["nextCursor"] = Value::Null,
            _ => found = page(&[("tide", json!({"region": text("no token")}))], Some("2")),
        }
        lone.json(list.id, 200, &result(&list.body, found));
        let odd = lone.odd();
        assert!(matches!(lone.done(key), Err(CallError::Rpc(e)) if e.code == -32020), "{how}");
        let told = odd.iter().any(|d| matches!(d, Diagnostic::InvalidTool { name, .. } if name == "tide"));
        assert_eq!(told, how == "invalid", "{odd:?}");
        lone.still();
        // What it wanted before is not sent any more.
        let key = lone.client.engine().call_tool(lone.now, "tide", &arguments, &once()).expect("a call");
        let asked = lone.posted("tools/call");
        assert!(params(&asked).is_empty(), "{how}");
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert!(lone.done(key).is_ok());
    }
}

// covers: HTTP-081
#[test]
fn what_is_too_long_for_the_server_is_said() {
    for (status, told) in [(413, "the request is too long"), (431, "head of the request is too long")] {
        let mut lone = modern(Chunker::Whole);
        lists(&mut lone, None, &page(&[("tide", json!({"region": text("Region")}))], None), false);
        let arguments = json!({"region": "x".repeat(100_000)});
        let key = lone.client.engine().call_tool(lone.now, "tide", &arguments, &once()).expect("a call");
        let asked = lone.posted("tools/call");
        lone.answer(asked.id, status, "text/html", "<h1>no</h1>");
        let error = lone.done(key).expect_err("refused");
        assert!(error.to_string().contains(told), "{error}");
        lone.still();
    }
}

// covers: HTTP-082
#[test]
fn what_is_packed_is_not_read() {
    for (encoding, told) in [("gzip", true), ("br, gzip", true), ("identity", false), ("", false)] {
        for kind in ["application/json", "text/event-stream"] {
            let mut lone = modern(Chunker::Whole);
            let (key, asked) = lone.waves(&once());
            let message = result(&asked.body, answer());
            let text =
                if kind.starts_with('t') { format!("data: {message}\n\n") } else { message.to_string() };
            lone.answer_with(asked.id, 200, &[("Content-Type", kind), ("content-encoding", encoding)], &text);
            match lone.done(key) {
                Ok(_) => assert!(!told, "{encoding} {kind}"),
                Err(error) => {
                    assert!(told && error.to_string().contains(&format!("packed with `{encoding}`")))
                }
            }
            lone.still();
        }
    }
}

// covers: SEC-018
#[test]
fn a_name_beyond_all_measure_is_not_remembered() {
    let mut lone = modern(Chunker::Whole);
    let names = ["x".repeat(1024), "x".repeat(1025)];
    let schema = json!({"region": text("Region")});
    lists(&mut lone, None, &page(&names.each_ref().map(|n| (&**n, schema.clone())), None), false);
    for name in &names {
        let arguments = json!({"region": "eu"});
        let key = lone.client.engine().call_tool(lone.now, name, &arguments, &once()).expect("a call");
        let asked = lone.posted("tools/call");
        assert_eq!(params(&asked).len(), usize::from(name.len() == 1024));
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert!(lone.done(key).is_ok());
    }
}
