//! Performs steps described in JSON against a server, through the typed calls of the client.
//!
//! | step | action |
//! |---|---|
//! | `list` with `has` or `lacks` | lists `tools`, `resources`, `templates` or `prompts`, and looks for an entry |
//! | `tool`, `prompt`, each with `arguments`; `read` | calls, gets, reads |
//! | `complete` with `argument`, `value`, `context` | completes for `{"prompt":…}` or `{"template":…}` |
//! | `leave` with `why` | names an entry that is not used |
//!
//! The expected outcome is `result` or, by era, the code of an `error` with its `data`, and also `progress`.

use alloc::collections::BTreeSet;

use mcp_blocking::{Client, Error};
use mcp_proto::model::{
    CallToolParams, CompleteParams, CompletionArgument, CompletionContext, CompletionReference,
    GetPromptParams, Map, PromptReference, ReadResourceParams, RequestParams, ResourceTemplateReference,
};
use mcp_proto::{CallError, CallOptions, Capability, RawJson};
use serde::Serialize;
use serde_json::{Value, json};

/// A session in which steps are performed.
pub(crate) struct StepRunner {
    pub(crate) client: Client,
    era: String,
    /// Names of entries that were used, or left out with a reason.
    used_names: BTreeSet<String>,
}

impl StepRunner {
    pub(crate) fn new(client: Client) -> Self {
        let era = client.peer().era().to_string();
        Self { client, era, used_names: BTreeSet::new() }
    }

    /// Performs all steps. Afterwards every entry must have been used, and every resource must be readable.
    pub(crate) fn perform(&mut self, steps: &[Value]) {
        steps.iter().for_each(|step| self.step(step));
        let lists = [
            ("tools", "name", Capability::Tools),
            ("prompts", "name", Capability::Prompts),
            ("resources", "uri", Capability::Resources),
        ];
        for (list, member, capability) in lists {
            if !self.client.peer().has(capability) {
                continue;
            }
            for entry in self.list(list) {
                let name = entry[member].as_str().expect("a name");
                if list == "resources" {
                    let read = self.client.read_resource(name).expect("readable");
                    assert_eq!(read.contents[0].uri(), name);
                    assert_eq!(read.contents[0].mime_type(), entry["mimeType"].as_str());
                } else {
                    assert!(self.used_names.contains(&format!("{list} {name}")), "{name} is not tried");
                }
            }
        }
    }

    /// Returns a list, parsed into the types of the model and encoded again.
    pub(crate) fn list(&mut self, of: &str) -> Vec<Value> {
        fn to_values<T: Serialize>(entries: Result<Vec<T>, Error>) -> Vec<Value> {
            let entries = entries.expect("a list");
            entries.iter().map(|entry| serde_json::to_value(entry).expect("JSON")).collect()
        }
        match of {
            "tools" => to_values(self.client.list_tools()),
            "resources" => to_values(self.client.list_resources()),
            "templates" => to_values(self.client.list_resource_templates()),
            "prompts" => to_values(self.client.list_prompts()),
            other => panic!("no list {other}"),
        }
    }

    fn send<R: RequestParams>(&mut self, params: &R, progress: &mut Vec<Value>) -> Result<Value, Error>
    where
        R::Result: Serialize,
    {
        let result = self.client.send_with(params, &CallOptions::new(), &mut |report| {
            progress.push(json!([report.progress, report.total]));
        })?;
        Ok(serde_json::to_value(&result).expect("JSON"))
    }

    /// Sends the request of a step.
    pub(crate) fn perform_request(
        &mut self,
        step: &Value,
        progress: &mut Vec<Value>,
    ) -> Result<Value, Error> {
        let given = step.get("arguments");
        if let Some(name) = step["tool"].as_str() {
            self.used_names.insert(format!("tools {name}"));
            let mut params = CallToolParams::new(name);
            params.arguments = given.map(|given| RawJson::encode(given).expect("JSON"));
            self.send(&params, progress)
        } else if let Some(uri) = step["read"].as_str() {
            self.used_names.insert(format!("resources {uri}"));
            self.send(&ReadResourceParams::new(uri), progress)
        } else if let Some(name) = step["prompt"].as_str() {
            self.used_names.insert(format!("prompts {name}"));
            let mut params = GetPromptParams::new(name);
            params.arguments = given.map(text_members);
            self.send(&params, progress)
        } else {
            self.send(&complete_params(step), progress)
        }
    }

    fn step(&mut self, step: &Value) {
        if let Some(left_out) = step["leave"].as_str() {
            assert!(step["why"].is_string(), "{step}");
            self.used_names.insert(left_out.to_owned());
            return;
        }
        if let Some(of) = step["list"].as_str() {
            let list = self.list(of);
            let found = |wanted: &Value| list.iter().any(|entry| matches(entry, wanted));
            match (step.get("has"), step.get("lacks")) {
                (Some(wanted), _) => assert!(found(wanted), "{step}: not in {list:?}"),
                (_, Some(wanted)) => assert!(!found(wanted), "{step}"),
                _ => panic!("{step}"),
            }
            return;
        }
        let mut progress = Vec::new();
        let outcome = self.perform_request(step, &mut progress);
        match (outcome, step.get("error")) {
            (Ok(result), None) => assert!(matches(&result, &step["result"]), "{step}: {result}"),
            (Err(Error::Call(CallError::Rpc(error))), Some(codes)) => {
                assert_eq!(json!(error.code), codes[&self.era], "{step}: {error}");
                if let Some(wanted) = step.get("data") {
                    let data: Value = error.data.as_ref().expect("data").parse().expect("JSON");
                    assert!(matches(&data, wanted), "{step}: {error:?}");
                }
            }
            (outcome, _) => panic!("{step}: {outcome:?}"),
        }
        if let Some(wanted) = step["progress"].as_array() {
            assert!(reports_match(&progress, wanted), "{step}: {progress:?}");
        }
    }
}

fn complete_params(step: &Value) -> CompleteParams<'_> {
    let text = |value: &'static str| step[value].as_str().unwrap_or_else(|| panic!("{step}"));
    let of: CompletionReference<'_> = match step["complete"]["prompt"].as_str() {
        Some(name) => PromptReference::new(name).into(),
        None => {
            ResourceTemplateReference::new(step["complete"]["template"].as_str().expect("a template")).into()
        }
    };
    let params = CompleteParams::new(of, CompletionArgument::new(text("argument"), text("value")));
    match step.get("context") {
        Some(known) => params.context(CompletionContext::new().arguments(text_members(known))),
        None => params,
    }
}

fn text_members(value: &Value) -> Map<String> {
    serde_json::from_value(value.clone()).expect("texts")
}

/// Returns whether progress reports are some of those wanted, in their order, and end with the last of them.
///
/// A report replaces one that still waits to be sent or read (PROG-013), so on a slow machine some are not seen.
fn reports_match(reports: &[Value], wanted: &[Value]) -> bool {
    let mut wanted = wanted.iter();
    let in_order = reports.iter().all(|report| wanted.any(|wanted| matches(report, wanted)));
    in_order && !reports.is_empty() && wanted.next().is_none()
}

/// Returns whether a value matches: objects may have more members, and a text may continue at a final `*`.
fn matches(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::String(text), Value::String(open)) if open.ends_with('*') => {
            let beginning = open.trim_end_matches('*');
            text.starts_with(beginning) && text.len() > beginning.len()
        }
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| matches(value, wanted)))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len()
                && value.iter().zip(wanted).all(|(value, wanted)| matches(value, wanted))
        }
        (Value::Number(value), Value::Number(wanted)) => value.as_f64() == wanted.as_f64(),
        _ => value == wanted,
    }
}
