//! The hand-made flows of `tests/transcripts`, replayed against our server and our client, message by message.
//!
//! Ids and progress tokens are renamed, since each side chooses its own. What this release has no part in (input
//! requests, log messages, news) is left out. What has a type goes through it.

mod at_client;
mod at_server;
mod conversations;

use mcp_proto::{Capabilities, Capability, Implementation, RawJson, Version};
use mcp_tests::harness::build::{discovery, raw, result};
use serde_json::{Map, Value, json};

/// One line of a flow
pub(crate) struct Step {
    /// From the client to the server
    up: bool,
    message: Value,
    /// It arrives too late to count
    ignored: bool,
}

/// What the engines do not send for an application yet, and batches, which no client of ours sends
fn is_left_out(message: &Value) -> bool {
    const LATER: [&str; 7] = [
        "elicitation/create",
        "notifications/message",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/roots/list_changed",
        "roots/list",
        "sampling/createMessage",
    ];
    message.is_array() || message["method"].as_str().is_some_and(|method| LATER.contains(&method))
}

/// A flow without what this release has no part in
pub(crate) fn flow(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut left_out: Vec<Value> = Vec::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let Some(message) = line.get("msg") else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        if is_left_out(message) {
            left_out.extend(message.get("id").cloned());
            continue;
        }
        if method.is_empty() && line["dir"] == "c2s" && left_out.contains(&message["id"]) {
            continue;
        }
        let ignored = line["ignored"] == true;
        steps.push(Step { up: line["dir"] == "c2s", message: message.clone(), ignored });
    }
    assert!(steps.len() > 4, "a flow");
    steps
}

pub(crate) const PLAIN_2024_11_05: &str =
    include_str!("../../transcripts/2024-11-05-stdio-handshake-tool-progress-cancel.jsonl");
pub(crate) const FULL_2025_11_25: &str =
    include_str!("../../transcripts/2025-11-25-stdio-full-session.jsonl");
pub(crate) const DISCOVER_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-stdio-discover-call-progress.jsonl");
pub(crate) const CANCEL_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-cancel-and-logging.jsonl");
pub(crate) const ERRORS_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-version-and-meta-errors.jsonl");
/// A modern flow that begins in the middle, with what came before
pub(crate) fn discovered(mut steps: Vec<Step>) -> Vec<Step> {
    let mut ask = steps[0].message.clone();
    ask["id"] = json!("before");
    ask["method"] = json!("server/discover");
    let mut answer = discovery(&["2026-07-28"], json!({"resources": {}, "prompts": {}, "completions": {}}));
    answer["_meta"] = steps[1].message["result"]["_meta"].clone();
    (answer["ttlMs"], answer["cacheScope"]) = (json!(3_600_000), json!("public"));
    let answer = result(&ask, answer);
    let step = |up, message| Step { up, message, ignored: false };
    steps.splice(0..0, [step(true, ask), step(false, answer)]);
    steps
}

pub(crate) const RESOURCES_2024_11_05: &str =
    include_str!("../../transcripts/2024-11-05-resources-roots-sampling-logging.jsonl");
pub(crate) const STRUCTURED_2025_06_18: &str =
    include_str!("../../transcripts/2025-06-18-structured-output-elicitation.jsonl");
pub(crate) const PAGES_2026_07_28: &str =
    include_str!("../../transcripts/2026-07-28-caching-pagination.jsonl");
pub(crate) const ONE_PROCESS: &str = include_str!("../../transcripts/dual-era-server-one-process.jsonl");
pub(crate) const FALLBACK: &str = include_str!("../../transcripts/dual-era-client-stdio-fallback.jsonl");

/// Names that one side of a flow chose, and those that ours chose
#[derive(Default)]
pub(crate) struct Names(Vec<(Value, Value)>);

impl Names {
    pub(crate) fn add(&mut self, theirs: &Value, ours: &Value) {
        self.0.push((theirs.clone(), ours.clone()));
    }

    /// `message` with the names of our side in it
    pub(crate) fn rename(&self, message: &Value) -> Value {
        let mut message = message.clone();
        for place in ["/id", "/params/requestId", "/params/progressToken", "/params/_meta/progressToken"] {
            let Some(name) = message.pointer_mut(place) else { continue };
            if let Some((_, ours)) = self.0.iter().rev().find(|(theirs, _)| theirs == name) {
                *name = ours.clone();
            }
        }
        message
    }
}

/// A message in a form that can be compared: numbers by value, no empty parameters, capabilities by name alone, and of
/// an error what is not free text
pub(crate) fn normal(message: &Value) -> Value {
    let mut message = numbers(message);
    for place in ["/params/capabilities", "/result/capabilities"] {
        if let Some(Value::Object(members)) = message.pointer_mut(place) {
            members.values_mut().for_each(|value| *value = json!({}));
        }
    }
    let members = message.as_object_mut().expect("an object");
    if members.get("params") == Some(&json!({})) {
        members.remove("params");
    }
    if let Some(Value::Object(error)) = members.get_mut("error") {
        error.remove("message");
    }
    message
}

fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), numbers(v))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// The identity that a flow gives to one side
pub(crate) fn identity(told: &Value) -> Implementation {
    let text = |name: &str| told[name].as_str().map(str::to_owned);
    let mut info = Implementation::new(text("name").expect("a name"), text("version").expect("a version"));
    info.title = text("title");
    info.description = text("description");
    info.website_url = text("websiteUrl");
    info.icons = told.get("icons").map_or_else(Vec::new, |icons| raw(icons).parse().expect("icons"));
    info
}

/// The capabilities that a flow gives to one side
pub(crate) fn capabilities(told: &Value) -> Capabilities {
    let known = [
        ("tools", Capability::Tools),
        ("resources", Capability::ResourceSubscriptions),
        ("prompts", Capability::Prompts),
        ("completions", Capability::Completions),
        ("logging", Capability::Logging),
        ("roots", Capability::Roots),
        ("sampling", Capability::Sampling),
        ("elicitation", Capability::Elicitation),
    ];
    let mut ours = Capabilities::new();
    for (name, value) in told.as_object().expect("an object") {
        ours = match known.iter().find(|(known, _)| known == name) {
            Some((_, capability)) => ours.with(*capability),
            None => ours.with_member(name.clone(), raw(value), Version::V2024_11_05),
        };
    }
    ours
}

/// `value` as our side takes it, none for what is not there
pub(crate) fn given(value: Option<&Value>) -> Option<RawJson> {
    value.map(raw)
}

/// What `$use` makes of JSON as the type that belongs to a method, or as it is where there is none
macro_rules! typed {
    ($method:expr, $json:expr, |$read:ident| $use:expr, $($name:literal $type:ident $(<$life:lifetime>)?;)*) => {{
        let text = mcp_tests::harness::build::raw($json);
        match $method {
            $( $name => {
                let read: $type $(<$life>)? = text.parse().unwrap_or_else(|e| panic!("{}: {e}", $method));
                let $read = &read;
                $use
            } )*
            _ => {
                let $read = $json;
                $use
            }
        }
    }};
}

pub(crate) use at_server::complete;
pub(crate) use typed;
