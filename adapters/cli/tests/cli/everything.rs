//! `serve --everything`, used by our own client: all that `everything.json` says, in both eras
//!
//! The same file is what the clients of others are held to (`tests/interop` of the repository).

use std::collections::BTreeSet;

use mcp_blocking::{Client, Error, Program};
use mcp_proto::model::{
    CallToolParams, CompleteParams, CompletionArgument, CompletionContext, CompletionReference,
    GetPromptParams, Map, PromptReference, ReadResourceParams, Request, ResourceTemplateReference,
};
use mcp_proto::{CallError, CallOptions, RawJson, Version, VersionSet, client};
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::PROBE;

struct Session {
    client: Client,
    era: &'static str,
    used: BTreeSet<String>,
}

impl Session {
    fn new(version: Version) -> Self {
        let config = client::Config::new("everything", "1").versions(VersionSet::only(version));
        let program = Program::new(PROBE).args(["serve", "--everything"]);
        let client = Client::spawn_with(config, program).expect("a connection");
        let era = if version == Version::V2026_07_28 { "modern" } else { "legacy" };
        Self { client, era, used: BTreeSet::new() }
    }

    /// A list, read as the model's types and written again
    fn list(&mut self, of: &str) -> Vec<Value> {
        fn values<T: Serialize>(entries: Result<Vec<T>, Error>) -> Vec<Value> {
            let entries = entries.expect("a list");
            entries.iter().map(|entry| serde_json::to_value(entry).expect("JSON")).collect()
        }
        match of {
            "tools" => values(self.client.list_tools()),
            "resources" => values(self.client.list_resources()),
            "templates" => values(self.client.list_resource_templates()),
            "prompts" => values(self.client.list_prompts()),
            other => panic!("no list {other}"),
        }
    }

    fn send<R: Request>(&mut self, params: &R, progress: &mut Vec<Value>) -> Result<Value, Error>
    where
        R::Result: Serialize,
    {
        let result = self.client.send_with(params, &CallOptions::new(), &mut |report| {
            progress.push(json!([report.progress, report.total]));
        })?;
        Ok(serde_json::to_value(&result).expect("JSON"))
    }

    fn step(&mut self, step: &Value) {
        if let Some(of) = step["list"].as_str() {
            let list = self.list(of);
            let found = |wanted: &Value| list.iter().any(|entry| fits(entry, wanted));
            match (step.get("has"), step.get("lacks")) {
                (Some(wanted), _) => assert!(found(wanted), "{step}: not in {list:?}"),
                (_, Some(wanted)) => assert!(!found(wanted), "{step}"),
                _ => panic!("{step}"),
            }
            return;
        }
        let mut progress = Vec::new();
        let given = step.get("arguments");
        let outcome = if let Some(name) = step["tool"].as_str() {
            self.used.insert(format!("tools {name}"));
            let mut params = CallToolParams::new(name);
            params.arguments = given.map(|given| RawJson::encode(given).expect("JSON"));
            self.send(&params, &mut progress)
        } else if let Some(uri) = step["read"].as_str() {
            self.used.insert(format!("resources {uri}"));
            self.send(&ReadResourceParams::new(uri), &mut progress)
        } else if let Some(name) = step["prompt"].as_str() {
            self.used.insert(format!("prompts {name}"));
            let mut params = GetPromptParams::new(name);
            params.arguments = given.map(texts);
            self.send(&params, &mut progress)
        } else {
            self.send(&completion(step), &mut progress)
        };
        match (outcome, step.get("error")) {
            (Ok(result), None) => assert!(fits(&result, &step["result"]), "{step}: {result}"),
            (Err(Error::Call(CallError::Rpc(error))), Some(codes)) => {
                assert_eq!(json!(error.code), codes[self.era], "{step}: {error}");
                if let Some(uri) = step["read"].as_str() {
                    let missing = error.as_resource_not_found().expect("says which one");
                    assert_eq!(missing.uri, uri);
                }
            }
            (outcome, _) => panic!("{step}: {outcome:?}"),
        }
        if let Some(wanted) = step["progress"].as_array() {
            assert!(fits(&json!(progress), &json!(wanted)), "{step}: {progress:?}");
        }
    }
}

fn completion(step: &Value) -> CompleteParams<'_> {
    let text = |value: &'static str| step[value].as_str().unwrap_or_else(|| panic!("{step}"));
    let of: CompletionReference<'_> = match step["complete"]["prompt"].as_str() {
        Some(name) => PromptReference::new(name).into(),
        None => {
            ResourceTemplateReference::new(step["complete"]["template"].as_str().expect("a template")).into()
        }
    };
    let params = CompleteParams::new(of, CompletionArgument::new(text("argument"), text("value")));
    match step.get("context") {
        Some(known) => params.context(CompletionContext::new().arguments(texts(known))),
        None => params,
    }
}

fn texts(value: &Value) -> Map<String> {
    serde_json::from_value(value.clone()).expect("texts")
}

/// Whether a value has all that is wanted of it: objects may have more members, `"*"` is any text that is not empty
fn fits(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::String(text), Value::String(any)) if any == "*" => !text.is_empty(),
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| fits(value, wanted)))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len() && value.iter().zip(wanted).all(|(value, wanted)| fits(value, wanted))
        }
        (Value::Number(value), Value::Number(wanted)) => value.as_f64() == wanted.as_f64(),
        _ => value == wanted,
    }
}

// covers: TOOL-004, TOOL-006, TOOL-010, TOOL-013, TOOL-014, TOOL-015, TOOL-018, TOOL-021, TOOL-022, TOOL-023, TOOL-029
// covers: RES-003, RES-004, RES-005, RES-009, RES-015, RES-016, RES-020, PROMPT-003, PROMPT-004, PROMPT-005, PROMPT-010
// covers: COMP-002, COMP-003, COMP-004, COMP-006, CONT-001, CONT-002, CONT-003, CONT-004, META-017, ERR-007, PAGE-001
// covers: PAGE-003, PAGE-008, PROG-006, PROG-007, SCHEMA-002, SCHEMA-003
#[test]
fn everything_that_is_offered_works_in_both_eras() {
    let steps: Vec<Value> = serde_json::from_str(include_str!("everything.json")).expect("JSON");
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let mut session = Session::new(version);
        steps.iter().for_each(|step| session.step(step));
        let first = session.client.request("resources/list", &json!({}), &CallOptions::new()).expect("a page");
        assert_eq!(first.member("resources").and_then(|page| page.elements()).map(|page| page.len()), Some(10));
        assert!(first.member("nextCursor").is_some(), "{first}");
        // Nothing is offered that no step has used; resources at least can be read.
        for (list, member) in [("tools", "name"), ("prompts", "name"), ("resources", "uri")] {
            for entry in session.list(list) {
                let name = entry[member].as_str().expect("a name");
                if list == "resources" {
                    let read = session.client.read_resource(name).expect("readable");
                    assert_eq!(read.contents[0].uri(), name);
                    assert_eq!(read.contents[0].mime_type(), entry["mimeType"].as_str());
                } else {
                    assert!(session.used.contains(&format!("{list} {name}")), "{name} is not tried");
                }
                if list != "resources" {
                    assert!(entry["description"].as_str().is_some_and(|text| !text.is_empty()), "{entry}");
                }
            }
        }
        let ended = session.client.close().expect("an end").expect("a process");
        assert!(ended.status.is_some_and(|status| status.success()), "{ended:?}");
    }
}
