//! Suite: calls whose results are decoded into types, against correct and faulty servers.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::EntryKind;
use mcp_proto::client::{SchemaError, SchemaValidator, Validate, Violations};
use mcp_proto::model::{
    CallToolParams, CompleteParams, CompletionArgument, CompletionContext, PromptReference,
    ReadResourceParams, RequestParams, ResourceContents, ResourceTemplateReference,
};
use mcp_proto::{CallError, CallOptions, Diagnostic, RawJson, UseError};
use mcp_runtime::client::ClientHandler;
use serde::Serialize;
use serde_json::{Value, json};

use super::scripted_server::{ScriptedReply, connect_scripted};
use crate::adapter::{Client, Error, Options, poll_client};
use crate::support::{ERAS, NoteLog, with_timeout};

/// Records skipped entries and unusable schemas.
struct SkippedLog(NoteLog);

impl ClientHandler for SkippedLog {
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        match diagnostic {
            Diagnostic::UnreadableEntry { list, index, reason } => {
                self.0.record(format!("{list} {index}: {reason}"));
            }
            other => self.0.record(other.to_string()),
        }
    }

    fn unusable_schema(&self, tool: &str, why: &SchemaError) {
        self.0.record(format!("{tool}: {why}"));
    }
}

/// Polls until `lines` notes are recorded. Fails if there are more.
fn wait_for_notes(client: &mut Client, notes: &NoteLog, lines: usize) -> Vec<String> {
    let mut lines_read = notes.take();
    while lines_read.len() < lines {
        poll_client(client);
        lines_read.append(&mut notes.take());
    }
    assert_eq!(lines_read.len(), lines, "{lines_read:?}");
    lines_read
}

fn finish((client, serving): (Client, std::thread::JoinHandle<()>)) {
    client.close().unwrap();
    serving.join().unwrap();
}

// covers: TOOL-005, TOOL-006, TOOL-010, RES-003, RES-004, RES-005, PROMPT-003, PROMPT-004, COMP-002, COMP-006
#[test]
fn client_decodes_each_kind_of_result() {
    with_timeout(|| {
        for era in ERAS {
            let requests = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&requests);
            let (client, serving) = connect_scripted(
                era,
                |o| o,
                move |method, params| {
                    let mut params = params.clone();
                    params.as_object_mut().expect("parameters").remove("_meta");
                    seen.lock().unwrap().push(format!("{method} {params}"));
                    ScriptedReply::from(match method {
                        "tools/list" => {
                            json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}]})
                        }
                        "resources/list" => json!({"resources": [{"uri": "note://1", "name": "one"}]}),
                        "resources/templates/list" => {
                            json!({"resourceTemplates": [{"uriTemplate": "note://{n}", "name": "any"}]})
                        }
                        "prompts/list" => {
                            json!({"prompts": [{"name": "plan", "arguments": [{"name": "to"}]}]})
                        }
                        "tools/call" => json!({"content": [], "structuredContent": {"sum": 3}}),
                        "resources/read" => json!({"contents": [{"uri": "note://1", "text": "milk"}]}),
                        "prompts/get" => {
                            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Go"}}]})
                        }
                        "completion/complete" => {
                            json!({"completion": {"values": ["Cork"], "hasMore": false}})
                        }
                        other => panic!("{other}"),
                    })
                },
            );
            assert_eq!(client.list_tools().unwrap()[0].name, "add");
            assert_eq!(client.list_resources().unwrap()[0].uri, "note://1");
            assert_eq!(client.list_resource_templates().unwrap()[0].uri_template, "note://{n}");
            assert_eq!(client.list_prompts().unwrap()[0].arguments[0].name, "to");
            let sum: Value =
                client.call_tool("add", &json!({"a": 1, "b": 2})).unwrap().parse_structured().unwrap();
            assert_eq!(sum, json!({"sum": 3}));
            let read = client.read_resource("note://1").unwrap();
            assert!(matches!(&read.contents[..], [ResourceContents::Text(text)] if text.text == "milk"));
            let got = client.get_prompt("plan", &json!({"to": "Cork"})).unwrap();
            assert_eq!(got.messages[0].content.as_text(), Some("Go"));
            client.get_prompt("plan", &()).unwrap();
            let done = client.complete(PromptReference::new("plan"), "to", "C").unwrap();
            assert_eq!(
                (&*done.completion.values, done.completion.has_more),
                (&["Cork".into()][..], Some(false))
            );
            client.complete(ResourceTemplateReference::new("note://{n}"), "n", "").unwrap();
            let context = CompletionContext::new().arguments([("from", "Brest".into())]);
            let argument = CompletionArgument::new("to", "");
            client
                .send(&CompleteParams::new(PromptReference::new("plan"), argument).context(context))
                .unwrap();
            let read = ReadResourceParams::new("note://2");
            client.send_with(&read, &CallOptions::new(), &mut |_| {}).unwrap();
            finish((client, serving));
            let expected = [
                r"tools/list {}",
                r"resources/list {}",
                r"resources/templates/list {}",
                r"prompts/list {}",
                r#"tools/call {"arguments":{"a":1,"b":2},"name":"add"}"#,
                r#"resources/read {"uri":"note://1"}"#,
                r#"prompts/get {"arguments":{"to":"Cork"},"name":"plan"}"#,
                r#"prompts/get {"name":"plan"}"#,
                r#"completion/complete {"argument":{"name":"to","value":"C"},"ref":{"name":"plan","type":"ref/prompt"}}"#,
                r#"completion/complete {"argument":{"name":"n","value":""},"ref":{"type":"ref/resource","uri":"note://{n}"}}"#,
                r#"completion/complete {"argument":{"name":"to","value":""},"context":{"arguments":{"from":"Brest"}},"ref":{"name":"plan","type":"ref/prompt"}}"#,
                r#"resources/read {"uri":"note://2"}"#,
            ];
            let progress_token = |line: &String| line.replace(r#""progressToken":1,"#, "");
            let requests: Vec<String> = requests.lock().unwrap().iter().map(progress_token).collect();
            let values = |lines: &[String]| -> Vec<(String, Value)> {
                let split = |line: &String| {
                    let (method, params) = line.split_once(' ').unwrap();
                    (method.to_owned(), params.parse().unwrap())
                };
                lines.iter().map(split).collect()
            };
            assert_eq!(values(&requests), values(&expected.map(str::to_owned)));
        }
    });
}

// covers: TOOL-006, PAGE-009
#[test]
fn list_skips_unreadable_entry() {
    with_timeout(|| {
        for era in ERAS {
            let notes = NoteLog::default();
            let handler = SkippedLog(notes.clone());
            let (mut client, serving) = connect_scripted(
                era,
                |o| o.handler(handler),
                |_, params| {
                    let good = |name| json!({"name": name, "inputSchema": {"type": "object"}, "new": [1]});
                    ScriptedReply::from(match params["cursor"].as_str() {
                        None => json!({
                            "tools": [
                                good("a"), 7, null, [], {}, {"name": "no schema"}, {"name": 1, "inputSchema": {}},
                                {"name": "x", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}},
                                {"name": "x", "inputSchema": {}, "icons": [{"src": 1}]}, good("b"),
                            ],
                            "nextCursor": "more",
                        }),
                        Some(_) => json!({"tools": [good("c")]}),
                    })
                },
            );
            let tools = client.list_tools().unwrap();
            assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["a", "x", "b", "c"]);
            assert_eq!(
                tools[1].annotations.as_ref().unwrap().read_only_hint,
                None,
                "an annotation costs itself"
            );
            assert!(tools[0].extra.get("new").is_some());
            let recorded = wait_for_notes(&mut client, &notes, 7);
            assert!(recorded[0].starts_with("tool 1: invalid type: integer"), "{}", recorded[0]);
            assert!(recorded[4].contains("missing field `inputSchema`"), "{}", recorded[4]);
            assert!(recorded[6].starts_with("tool 8: ") && recorded[6].contains("`icons"), "{}", recorded[6]);
            assert_eq!(client.list(EntryKind::Tool).unwrap().len(), 11, "as they came");
            assert!(notes.take().is_empty());
            finish((client, serving));
        }
    });
}

// covers: TOOL-037, PAGE-012
#[test]
fn unreadable_result_is_reported_with_its_path() {
    with_timeout(|| {
        for era in ERAS {
            let (client, serving) = connect_scripted(
                era,
                |o| o,
                |method, params| {
                    ScriptedReply::from(
                        match (method, params["name"].as_str().or_else(|| params["uri"].as_str())) {
                            ("tools/call", Some("no content")) => json!({"more": {}}),
                            ("tools/call", Some("odd content")) => {
                                json!({"content": [{"type": "text", "text": []}]})
                            }
                            ("tools/call", Some("odd flag")) => json!({"content": [], "isError": 1}),
                            ("tools/call", _) => {
                                json!({"content": [{"type": "hologram", "beam": 1}], "more": true})
                            }
                            ("resources/read", _) => {
                                json!({"contents": [{"uri": "a:b", "text": "", "mimeType": 1}]})
                            }
                            ("prompts/get", _) => json!({"messages": {"role": "user"}}),
                            ("completion/complete", _) => {
                                json!({"completion": {"values": [], "total": "many"}})
                            }
                            ("prompts/list", _) => json!({"prompts": {}}),
                            _ => json!({}),
                        },
                    )
                },
            );
            let why = |error: Error| match error {
                Error::UnexpectedResult(why) => why,
                other => panic!("{other:?}"),
            };
            let call = |name| why(client.call_tool(name, &json!({})).unwrap_err());
            assert!(call("no content").contains("`tools/call` cannot be read: missing field `content`"));
            assert!(call("odd content").contains("`content.text`: invalid type"));
            assert!(call("odd flag").contains("`isError`: invalid type"));
            let read = why(client.read_resource("a:b").unwrap_err());
            assert!(read.contains("`contents.mimeType`: invalid type"), "{read}");
            assert!(why(client.get_prompt("p", &()).unwrap_err()).contains("`messages`: invalid type"));
            let completed = client.complete(PromptReference::new("p"), "a", "").unwrap_err();
            assert!(why(completed).contains("`completion.total`: invalid type"));
            assert!(why(client.list_prompts().unwrap_err()).contains("no list `prompts`"));
            assert!(why(client.list_resources().unwrap_err()).contains("no list `resources`"));
            // The undecoded result stays available.
            let raw = client.request("tools/call", &json!({"name": "no content"}), &CallOptions::new());
            assert!(raw.unwrap().member("more").is_some());
            let odd = client.call_tool("fine", &json!({})).unwrap();
            assert!(odd.content[0].as_text().is_none() && odd.extra.get("more").is_some());
            finish((client, serving));
        }
    });
}

// covers: TOOL-037, PAGE-012, CONT-004
#[test]
fn client_reads_what_a_lenient_reader_can_and_reports_it() {
    with_timeout(|| {
        for era in ERAS {
            let notes = NoteLog::default();
            let handler = SkippedLog(notes.clone());
            let (mut client, serving) = connect_scripted(
                era,
                |o| o.handler(handler),
                |method, params| {
                    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                    ScriptedReply::from(match (method, params["cursor"].as_str()) {
                        ("tools/call", _) => json!({"structuredContent": {"sum": 42}}),
                        // The server ignores the cursor.
                        ("prompts/list", _) => {
                            json!({"prompts": [{"name": "a"}, {"name": "b"}], "nextCursor": "1"})
                        }
                        ("tools/list", None) => {
                            let annotations = json!({"readOnlyHint": "yes", "title": "First"});
                            let mut odd = tool("a");
                            odd["annotations"] = annotations;
                            json!({"tools": [odd], "nextCursor": "1"})
                        }
                        // The last page names its own cursor.
                        ("tools/list", _) => {
                            let mut odd = tool("b");
                            odd["annotations"] = json!("none");
                            json!({"tools": [odd], "nextCursor": "1"})
                        }
                        _ => json!({}),
                    })
                },
            );
            let result = client.call_tool("sum", &json!({})).unwrap();
            assert!(result.content.is_empty());
            assert_eq!(result.structured_content.unwrap().as_str(), r#"{"sum":42}"#);
            assert_eq!(
                wait_for_notes(&mut client, &notes, 1),
                ["the result of the tool `sum` has no `content`"]
            );
            let names: Vec<String> =
                client.list_prompts().unwrap().into_iter().map(|prompt| prompt.name).collect();
            assert_eq!(names, ["a", "b"], "no doubles");
            let ended = |list: &str| format!("the list `{list}` names a cursor again and ends there");
            assert_eq!(wait_for_notes(&mut client, &notes, 1), [ended("prompts")]);
            let tools = client.list_tools().unwrap();
            assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["a", "b"]);
            let annotations = tools[0].annotations.as_ref().unwrap();
            assert_eq!((annotations.title.as_deref(), annotations.read_only_hint), (Some("First"), None));
            assert!(tools[1].annotations.is_none());
            assert_eq!(wait_for_notes(&mut client, &notes, 1), [ended("tools")]);
            finish((client, serving));
        }
    });
}

/// Parameters that cannot be encoded.
struct UnwritableParams;

impl Serialize for UnwritableParams {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not today"))
    }
}

impl RequestParams for UnwritableParams {
    const METHOD: &'static str = ReadResourceParams::METHOD;
    type Result = ();
    fn read(_: &RawJson) -> Result<(), serde_json::Error> {
        Ok(())
    }
}

#[test]
fn unencodable_parameters_are_not_sent() {
    with_timeout(|| {
        for era in ERAS {
            let (client, serving) = connect_scripted(era, |o| o, |method, _| panic!("{method} was sent"));
            let refused = |error: Error| match error {
                Error::Use(UseError::Encode(why)) => why.to_string(),
                other => panic!("{other:?}"),
            };
            let prompt = refused(client.get_prompt("p", &json!({"days": 3})).unwrap_err());
            assert!(prompt.contains("`days`: invalid type: integer"), "{prompt}");
            assert!(refused(client.get_prompt("p", &7).unwrap_err()).contains("arguments of a prompt"));
            assert!(refused(client.send(&UnwritableParams).unwrap_err()).contains("not today"));
            finish((client, serving));
        }
    });
}

/// A validator of `{"type":T}`. It refuses all other schemas.
struct TypeValidator;

struct TypeSchema(String);

impl SchemaValidator for TypeValidator {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        if let Some(dialect) = schema.member("$schema").and_then(|name| name.string()) {
            return Err(SchemaError::Dialect(dialect));
        }
        let name = schema.member("type").and_then(|name| name.string());
        Ok(Box::new(TypeSchema(name.ok_or(SchemaError::Shape("has no type"))?)))
    }
}

impl Validate for TypeSchema {
    fn validate(&self, value: &[u8]) -> Result<(), Violations> {
        let value: Value = serde_json::from_slice(value).expect("JSON");
        let is = match value {
            Value::Object(_) => "object",
            Value::Number(_) => "number",
            _ => "other",
        };
        if is == self.0 {
            return Ok(());
        }
        let mut violations = Violations::new();
        violations.push("", &format!("is {is}, not {}", self.0));
        Err(violations)
    }
}

// covers: TOOL-015, TOOL-016, SCHEMA-004
#[test]
fn client_validates_results_against_listed_output_schemas() {
    with_timeout(|| {
        for era in ERAS {
            let notes = NoteLog::default();
            let handler = SkippedLog(notes.clone());
            let options = |options: Options| options.handler(handler).validator(TypeValidator);
            let (mut client, serving) = connect_scripted(era, options, |method, params| {
                let tool = |name, schema: Value| json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema});
                ScriptedReply::from(match (method, params["name"].as_str()) {
                    ("tools/list", _) => json!({"tools": [
                        tool("kept", json!({"type": "object"})),
                        tool("broken", json!({"type": "object"})),
                        tool("silent", json!({"type": "object"})),
                        tool("fails", json!({"type": "object"})),
                        tool("foreign", json!({"$schema": "http://json-schema.org/draft-04/schema#"})),
                    ]}),
                    (_, Some("silent")) => json!({"content": []}),
                    (_, Some("fails")) => json!({"content": [], "structuredContent": 7, "isError": true}),
                    (_, Some("kept")) => json!({"content": [], "structuredContent": {}}),
                    _ => json!({"content": [{"type": "text", "text": "7"}], "structuredContent": 7}),
                })
            });
            // The tools are not listed yet, so their output schemas are unknown.
            client.call_tool("broken", &json!({})).unwrap();
            assert_eq!(client.list_tools().unwrap().len(), 5);
            client.call_tool("kept", &json!({})).unwrap();
            for (name, reason) in
                [("broken", "is number, not object"), ("silent", "there is no structured result")]
            {
                let error = client.call_tool(name, &json!({})).unwrap_err();
                assert!(error.to_string().contains(reason), "{error}");
                let Error::OutputSchemaViolation(bad) = error else { panic!("{error:?}") };
                assert_eq!(
                    (&*bad.tool, bad.violations.iter().collect::<Vec<_>>()),
                    (name, vec![("", reason)])
                );
                assert_eq!(
                    bad.result.content.first().and_then(|block| block.as_text()).is_some(),
                    name == "broken"
                );
            }
            assert!(client.call_tool("fails", &json!({})).unwrap().is_failure());
            client.call_tool("unlisted", &json!({})).unwrap();
            assert!(notes.take().is_empty());
            client.call_tool("foreign", &json!({})).unwrap();
            client.call_tool("foreign", &json!({})).unwrap();
            let recorded = wait_for_notes(&mut client, &notes, 1);
            assert!(recorded[0].contains("foreign: is of the dialect"), "{recorded:?}");
            // A call by `send` is not checked: the client does not know its tool.
            client.send(&CallToolParams::new("broken")).unwrap();
            client.set_validator(TypeValidator);
            client.call_tool("broken", &json!({})).unwrap();
            client.list(EntryKind::Tool).unwrap();
            assert!(matches!(client.call_tool("broken", &json!({})), Err(Error::OutputSchemaViolation(_))));
            finish((client, serving));
        }
    });
}

#[cfg(feature = "validate")]
// covers: TOOL-016, SCHEMA-001
#[test]
fn built_in_validator_reports_path_of_violation() {
    with_timeout(|| {
        for era in ERAS {
            let (client, serving) = connect_scripted(
                era,
                |o| o,
                |method, _| {
                    ScriptedReply::from(match method {
                        "tools/list" => json!({"tools": [{
                            "name": "add", "inputSchema": {"type": "object"},
                            "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}},
                        }]}),
                        _ => json!({"content": [], "structuredContent": {"sum": "three"}}),
                    })
                },
            );
            client.list_tools().unwrap();
            let error = client.call_tool("add", &json!({})).unwrap_err();
            assert!(error.to_string().contains("`add`") && error.to_string().contains("/sum: "), "{error}");
            finish((client, serving));
        }
    });
}

#[test]
fn client_passes_on_error_codes_of_server() {
    with_timeout(|| {
        for era in ERAS {
            let (client, serving) = connect_scripted(era, |o| o, |_, _| ScriptedReply::from(-32602));
            let code = |error: Error| match error {
                Error::Call(CallError::Rpc(error)) => error.code,
                other => panic!("{other:?}"),
            };
            assert_eq!(code(client.list_tools().unwrap_err()), -32602);
            assert_eq!(code(client.read_resource("a:b").unwrap_err()), -32602);
            assert_eq!(code(client.call_tool("t", &json!({})).unwrap_err()), -32602);
            finish((client, serving));
        }
    });
}
