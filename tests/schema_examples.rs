//! Tests of the schema check: it selects the right types and refuses invalid messages.
//!
//! The transcripts are the examples. Without `MCP_SCHEMA_DIR` they are read but not validated.

use alloc::collections::BTreeSet;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use mcp_tests::schema::{MessageDirection, SchemaSet};
use serde_json::{Value, json};

use MessageDirection::{ClientToServer, ServerToClient};

struct TranscriptLine {
    location: String,
    revision: String,
    direction: MessageDirection,
    value: Value,
}

fn transcripts() -> Vec<(String, Vec<Value>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    };
    paths.iter().map(read).collect()
}

/// Returns every line with the member `wanted`.
fn lines(wanted: &str) -> Vec<TranscriptLine> {
    let mut found = Vec::new();
    for (file, lines) in transcripts() {
        for (index, line) in lines.iter().enumerate().skip(1).filter(|(_, line)| line.get(wanted).is_some()) {
            let revision = line.get("rev").unwrap_or_else(|| &lines[0]["revision"]).as_str().unwrap();
            let direction = if line["dir"] == "c2s" { ClientToServer } else { ServerToClient };
            found.push(TranscriptLine {
                location: format!("{file}:{}", index + 1),
                revision: revision.to_owned(),
                direction,
                value: line.clone(),
            });
        }
    }
    found
}

/// Methods that the modern revision removed. The envelope of such a message is still valid.
const REMOVED_METHODS: [&str; 4] = ["initialize", "ping", "resources/subscribe", "tasks/result"];

/// Returns whether the check knows the type of the line only in a looser form or under another name.
fn accepts_looser_form(line: &TranscriptLine, request_method: Option<&str>) -> bool {
    let extension =
        line.revision == "2026-07-28" && request_method.is_some_and(|name| name.starts_with("tasks/"));
    // The result of `tasks/result` is that of the wrapped request, which the check does not know.
    extension || request_method == Some("tasks/result")
}

#[test]
fn check_judges_typed_messages_as_labelled() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    let mut methods: HashMap<(String, MessageDirection, String), String> = HashMap::new();
    let (mut valid, mut invalid) = (0, 0);
    let mut refused_methods = BTreeSet::new();
    for line in lines("t") {
        let (message, name) = (&line.value["msg"], line.value["t"].as_str().unwrap());
        let file = line.location.split(':').next().unwrap().to_owned();
        let id = message.get("id").map(ToString::to_string).unwrap_or_default();
        if let (Some(method), Some(_)) = (message.get("method"), message.get("id")) {
            methods.insert((file.clone(), line.direction, id.clone()), method.as_str().unwrap().to_owned());
        }
        let request_method = methods.get(&(file, line.direction.reverse(), id)).map(String::as_str);
        let outcome = schemas.check(&line.revision, line.direction, message, request_method);

        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        if name == "JSONRPCRequest" && REMOVED_METHODS.contains(&method) {
            assert!(outcome.unwrap_err()[0].contains("has no"), "{}", line.location);
            refused_methods.insert(method.to_owned());
        } else if line.value.get("violation").is_some_and(|id| id == "MRTR-003") {
            // The schema alone would accept it.
            assert!(outcome.unwrap_err()[0].contains("input_required"), "{}", line.location);
        } else if line.value.get("invalid").is_some() {
            assert!(outcome.is_err(), "{} should be invalid", line.location);
            invalid += 1;
            continue;
        } else {
            assert_eq!(outcome, Ok(()), "{}", line.location);
            if message.is_object() && !accepts_looser_form(&line, request_method) {
                let expected =
                    schemas.expected(&line.revision, line.direction, message, request_method).unwrap();
                assert!(
                    expected.iter().any(|expected| expected.name == name),
                    "{}: {expected:?}",
                    line.location
                );
            }
        }
        valid += 1;
    }
    assert_eq!((valid, invalid), (305, 3), "the number of messages changed");
    assert_eq!(refused_methods.len(), REMOVED_METHODS.len());
}

#[test]
fn check_refuses_untyped_messages() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    let untyped: Vec<TranscriptLine> =
        lines("msg").into_iter().filter(|line| line.value.get("t").is_none()).collect();
    assert_eq!(untyped.len(), 5);
    for line in untyped {
        let message = &line.value["msg"];
        assert!(schemas.check(&line.revision, line.direction, message, None).is_err(), "{}", line.location);
        if message.get("error").is_some() {
            assert_eq!(schemas.check_http_body(&line.revision, message, None), Ok(()), "{}", line.location);
        }
    }
}

#[test]
fn check_refuses_malformed_lines() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    // Lines that are invalid for a reason outside the schema, or that are valid.
    let undetectable =
        ["response to an unknown id", "unknown notification: ignored", "duplicate member (project: refuse)"];
    let mut seen = 0;
    for line in lines("why") {
        let why = line.value["why"].as_str().unwrap();
        let Ok(message) = serde_json::from_str(line.value["raw"].as_str().unwrap()) else { continue };
        let outcome = schemas.check(&line.revision, line.direction, &message, None);
        assert_eq!(outcome.is_ok(), undetectable.contains(&why), "{}: {why}: {outcome:?}", line.location);
        seen += 1;
    }
    assert_eq!(seen, 17);
}

/// The known defects of the schemas, each with a message that the published schema refuses.
// covers: BASE-045
#[test]
fn relaxed_schemas_accept_what_the_protocol_allows() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    let form = |value: Value| result(json!({ "action": "accept", "content": { "field": value } }));
    for revision in ["2025-06-18", "2025-11-25"] {
        let check = |value| schemas.check(revision, ClientToServer, &form(value), Some("elicitation/create"));
        assert_eq!(check(json!(0.5)), Ok(()), "{revision}");
        assert!(check(Value::Null).is_err(), "{revision}");
    }
    let modern = |extra: Value| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "experimental": { "x": { "setting": extra } } },
        });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } })
    };
    for setting in [json!(0.5), Value::Null, json!([{ "deep": [null, 1.5] }])] {
        assert_eq!(schemas.check("2026-07-28", ClientToServer, &modern(setting), None), Ok(()));
    }
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let check = |schema: Value| {
            let shape = json!({ "type": "object", "properties": { "any": schema } });
            let tool = json!({ "name": "t", "inputSchema": shape, "outputSchema": shape });
            schemas.check(revision, ServerToClient, &result(json!({ "tools": [tool] })), Some("tools/list"))
        };
        assert_eq!(check(json!(true)), Ok(()), "{revision}");
        assert!(check(json!("text")).is_err(), "{revision}");
    }
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let error = json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "Parse error" } });
        assert_eq!(schemas.check_http_body(revision, &error, None), Ok(()), "{revision}");
        assert!(schemas.check(revision, ServerToClient, &error, None).is_err(), "{revision}");
        let null =
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "Parse error" } });
        assert!(schemas.check_http_body(revision, &null, None).is_err(), "{revision}");
    }
}

#[test]
fn expected_types_follow_method_and_revision() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    let types = |revision: &str, direction, message: Value, request_method: Option<&str>| {
        let expected = schemas.expected(revision, direction, &message, request_method)?;
        Ok::<_, String>(expected.into_iter().map(|expected| expected.name).collect::<Vec<_>>())
    };
    let result = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let answer =
        |revision, request_method| types(revision, ServerToClient, result.clone(), Some(request_method));
    for (revision, method, envelope, name) in [
        ("2024-11-05", "initialize", "JSONRPCResponse", "InitializeResult"),
        ("2025-03-26", "tools/list", "JSONRPCResponse", "ListToolsResult"),
        ("2025-06-18", "resources/templates/list", "JSONRPCResponse", "ListResourceTemplatesResult"),
        ("2025-06-18", "ping", "JSONRPCResponse", "EmptyResult"),
        ("2025-11-25", "logging/setLevel", "JSONRPCResultResponse", "EmptyResult"),
        ("2025-11-25", "resources/subscribe", "JSONRPCResultResponse", "EmptyResult"),
        ("2025-11-25", "resources/unsubscribe", "JSONRPCResultResponse", "EmptyResult"),
        ("2025-11-25", "tasks/result", "JSONRPCResultResponse", "GetTaskPayloadResult"),
        ("2025-11-25", "tasks/cancel", "JSONRPCResultResponse", "CancelTaskResult"),
        ("2026-07-28", "server/discover", "JSONRPCResultResponse", "DiscoverResult"),
        ("2026-07-28", "completion/complete", "JSONRPCResultResponse", "CompleteResult"),
        ("2026-07-28", "subscriptions/listen", "JSONRPCResultResponse", "SubscriptionsListenResult"),
    ] {
        assert_eq!(answer(revision, method).unwrap(), [envelope, name], "{revision} {method}");
    }
    assert_eq!(answer("2025-06-18", "example/custom").unwrap(), ["JSONRPCResponse"]);
    assert!(
        answer("2025-06-18", "server/discover").is_err(),
        "a result to a request that cannot have been sent"
    );
    assert!(
        types("2026-07-28", ClientToServer, result.clone(), None).is_err(),
        "modern clients send no responses"
    );

    let task = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": {} } });
    let names = types("2025-11-25", ServerToClient, task, Some("tools/call")).unwrap();
    assert_eq!(names, ["JSONRPCResultResponse", "CreateTaskResult"]);
    let input = json!({ "jsonrpc": "2.0", "id": 1, "result": { "resultType": "input_required" } });
    let names = types("2026-07-28", ServerToClient, input, Some("prompts/get")).unwrap();
    assert_eq!(names, ["JSONRPCResultResponse", "InputRequiredResult"]);

    let call = |revision, direction, method: &str| {
        types(revision, direction, json!({ "jsonrpc": "2.0", "id": 1, "method": method }), None)
    };
    let notification = |revision, direction, method: &str| {
        types(revision, direction, json!({ "jsonrpc": "2.0", "method": method }), None)
    };
    assert_eq!(call("2024-11-05", ServerToClient, "ping").unwrap(), ["JSONRPCRequest", "PingRequest"]);
    assert_eq!(call("2024-11-05", ClientToServer, "example/x").unwrap(), ["JSONRPCRequest"]);
    assert_eq!(call("2026-07-28", ClientToServer, "example/x").unwrap(), ["JSONRPCRequest", "RequestParams"]);
    assert!(call("2024-11-05", ServerToClient, "tools/list").is_err(), "wrong direction");
    assert!(call("2024-11-05", ServerToClient, "elicitation/create").is_err(), "later revision");
    assert!(call("2026-07-28", ClientToServer, "ping").is_err(), "removed");
    assert!(call("2026-07-28", ServerToClient, "example/x").is_err(), "modern servers send no requests");
    assert!(
        call("2025-06-18", ClientToServer, "notifications/initialized").is_err(),
        "a notification with an id"
    );
    assert!(notification("2025-06-18", ClientToServer, "tools/call").is_err(), "a request without an id");
    assert!(
        notification("2026-07-28", ClientToServer, "notifications/progress").is_err(),
        "only servers send progress"
    );
    let cancelled = ["JSONRPCNotification", "CancelledNotification"];
    assert_eq!(notification("2026-07-28", ClientToServer, "notifications/cancelled").unwrap(), cancelled);

    let error = |revision, code: i64| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "m" } });
        types(revision, ServerToClient, message, None).unwrap()
    };
    assert_eq!(error("2024-11-05", -32022), ["JSONRPCError"]);
    assert_eq!(error("2025-11-25", -32042), ["JSONRPCErrorResponse", "URLElicitationRequiredError"]);
    assert_eq!(error("2026-07-28", -32022), ["JSONRPCErrorResponse", "UnsupportedProtocolVersionError"]);
    assert_eq!(error("2026-07-28", -32021), ["JSONRPCErrorResponse", "MissingRequiredClientCapabilityError"]);
    assert!(schemas.check("2023-01-01", ServerToClient, &json!({}), None).is_err(), "unknown revision");
}

#[test]
fn batches_are_valid_in_one_revision_only() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let check = |revision, batch: Value| schemas.check(revision, ClientToServer, &batch, None);
    assert_eq!(check("2025-03-26", json!([ping, ping])), Ok(()));
    assert_eq!(check("2025-03-26", json!([answer])), Ok(()));
    assert!(check("2025-03-26", json!([ping, answer])).is_err(), "mixed");
    assert!(check("2025-03-26", json!([[ping]])).is_err(), "nested");
    assert!(check("2025-06-18", json!([ping])).is_err(), "batches were removed");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {} });
    let problems = check("2025-03-26", json!([ping, call])).unwrap_err();
    assert!(problems[0].starts_with("[1]: 2025-03-26 CallToolRequest: /params: \"name\""), "{problems:?}");
}

// covers: SCHEMA-012
#[test]
fn each_schema_has_the_dialect_of_its_requirement() {
    if SchemaSet::from_env().is_none() {
        return;
    }
    let dir = std::env::var_os(mcp_tests::schema::SCHEMA_DIR).expect("they were read");
    for revision in mcp_tests::schema::REVISIONS {
        let text = fs::read_to_string(Path::new(&dir).join(revision).join("schema.json")).expect("a schema");
        let schema: Value = serde_json::from_str(&text).expect("JSON");
        let (dialect, types, others) = match revision {
            "2024-11-05" | "2025-03-26" | "2025-06-18" => ("draft-07/schema", "definitions", "$defs"),
            _ => ("draft/2020-12/schema", "$defs", "definitions"),
        };
        let dialect_url = schema["$schema"].as_str().expect("a dialect").trim_end_matches('#');
        assert!(dialect_url.ends_with(dialect), "{revision}: {dialect_url}");
        assert!(schema[types]["Tool"].is_object() && schema.get(others).is_none(), "{revision}");
    }
}
