//! A mocked server from a trace.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::model::{
    CallToolParams, CallToolResult, GetPromptParams, GetPromptResult, Implementation, Prompt,
    ReadResourceParams, ReadResourceResult, RequestParams as _, Resource, ResourceTemplate, Tool,
};
use mcp_proto::router::Router;
use mcp_proto::router::template::{Template, VariablePolicy};
use mcp_proto::{EntryKind, MemberEdit, RawJson, RpcError};
use mcp_proto_trace::{Call, Calls, Message, Side, Trace};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::definition::{Answers, Condition, Definition, Reply};

impl Definition {
    /// Returns the server of a trace: its lists, results and errors. Answers come after the recorded times if `has_delays`. The second
    /// value is the number of entries and results that cannot be read and are left out.
    ///
    /// Also left out: what has no answer, errors for what was not listed, questions to the client, notifications and completions.
    #[must_use]
    pub fn from_trace(trace: &Trace, has_delays: bool) -> (Self, usize) {
        let mut recorded = Recorded { has_delays, ..Recorded::default() };
        for call in Calls::new(trace).calls.iter().filter(|call| call.from == Side::Client) {
            recorded.add(trace, call);
        }
        recorded.into_definition()
    }
}

/// What a trace has of a server.
#[derive(Default)]
struct Recorded {
    has_delays: bool,
    info: Option<Implementation>,
    instructions: Option<String>,
    tools: Entries<Tool, CallToolResult<'static>>,
    resources: Entries<Resource, ReadResourceResult<'static>>,
    templates: Entries<ResourceTemplate, ReadResourceResult<'static>>,
    prompts: Entries<Prompt, GetPromptResult<'static>>,
    /// Number of entries and results that are none.
    unreadable: usize,
}

/// Entries of a kind by their names, as they were listed last, and their answers.
struct Entries<E, T> {
    /// Names in the order in which they were listed.
    order: Vec<String>,
    listed: BTreeMap<String, E>,
    answers: BTreeMap<String, Answers<T>>,
}

impl<E, T> Default for Entries<E, T> {
    fn default() -> Self {
        Self { order: Vec::new(), listed: BTreeMap::new(), answers: BTreeMap::new() }
    }
}

impl<E, T: Clone> Entries<E, T> {
    fn list(&mut self, name: String, entry: E) {
        if self.listed.insert(name.clone(), entry).is_none() {
            self.order.push(name);
        }
    }

    fn answers(&mut self, kind: EntryKind, name: &str) -> &mut Answers<T> {
        let new = || Answers::new(format!("the {kind} `{name}`"));
        self.answers.entry(name.to_owned()).or_insert_with(new)
    }

    /// Returns the entries with their answers: those that were listed, then those that were only used with success.
    fn into_pairs(mut self, kind: EntryKind, unlisted: impl Fn(&str) -> E) -> Vec<(E, Arc<Answers<T>>)> {
        let mut pairs = Vec::new();
        for name in &core::mem::take(&mut self.order) {
            self.answers(kind, name);
            let (entry, answers) = (self.listed.remove(name), self.answers.remove(name));
            pairs.extend(entry.zip(answers.map(Arc::new)));
        }
        let used = self.answers.into_iter().filter(|(_, answers)| answers.has_result());
        pairs.extend(used.map(|(name, answers)| (unlisted(&name), Arc::new(answers))));
        pairs
    }
}

impl Recorded {
    fn add(&mut self, trace: &Trace, call: &Call) {
        let message = |record: Option<usize>, is_request: bool| {
            let record = trace.records.get(record?)?;
            let mut messages = Message::of(record).into_iter();
            messages
                .find(|message| message.is_request() == is_request && message.id.as_ref() == Some(&call.id))
        };
        let request = message(Some(call.request), true);
        let (Some(request), Some(response)) = (request, message(call.response, false)) else { return };
        let params = request.params.unwrap_or_else(RawJson::empty_object);
        let outcome = match (response.result, response.error) {
            (Some(result), _) => Ok(result),
            (None, Some(error)) => Err(error_of(&error)),
            (None, None) => return,
        };
        if let Ok(result) = &outcome {
            self.identify(&call.method, result);
            // The request is sent again with the answers of the client, and then it has its result.
            if result
                .member("resultType")
                .and_then(|kind| kind.string())
                .is_some_and(|kind| kind != "complete")
            {
                return;
            }
        }
        if let Some(kind) = EntryKind::ALL.into_iter().find(|kind| kind.list_method() == call.method) {
            let entries = outcome.ok().and_then(|page| page.member(kind.list_member())?.elements());
            for entry in entries.unwrap_or_default() {
                self.list(kind, &entry);
            }
            return;
        }
        let after = Duration::from_micros(call.duration().filter(|_| self.has_delays).unwrap_or_default());
        let name = |member: &str| params.member(member).and_then(|name| name.string()).unwrap_or_default();
        let arguments = params.member("arguments").and_then(|arguments| arguments.parse().ok());
        let arguments = || arguments.clone().unwrap_or_else(|| json!({}));
        if call.method == CallToolParams::METHOD {
            if let Some(reply) = self.reply(outcome, after, owned_tool_result) {
                self.tools.answers(EntryKind::Tool, &name("name")).add(Condition::Exact(arguments()), reply);
            }
        } else if call.method == GetPromptParams::METHOD {
            if let Some(reply) = self.reply(outcome, after, owned_prompt_result) {
                let answers = self.prompts.answers(EntryKind::Prompt, &name("name"));
                answers.add(Condition::Exact(arguments()), reply);
            }
        } else if call.method == ReadResourceParams::METHOD {
            if let Some(reply) = self.reply(outcome, after, owned_read_result) {
                let uri = name("uri");
                let condition = Condition::Exact(json!({ "uri": uri }));
                self.resources.answers(EntryKind::Resource, &uri).add(condition, reply);
            }
        }
    }

    /// Takes the identity of the server from a result, if it has it.
    fn identify(&mut self, method: &str, result: &RawJson) {
        let meta = || result.member("_meta")?.member("io.modelcontextprotocol/serverInfo");
        if self.info.is_none() {
            let info = result.member("serverInfo").or_else(meta);
            self.info = info.and_then(|info| info.parse().ok());
        }
        if matches!(method, "initialize" | "server/discover") {
            self.instructions = result.member("instructions").and_then(|text| text.string());
        }
    }

    fn list(&mut self, kind: EntryKind, entry: &RawJson) {
        let is_read = match kind {
            EntryKind::Tool => parsed(entry).map(|mut tool: Tool| {
                // A mock has no tasks.
                tool.execution = None;
                self.tools.list(tool.name.clone(), tool);
            }),
            EntryKind::Resource => {
                parsed(entry).map(|resource: Resource| self.resources.list(resource.uri.clone(), resource))
            }
            EntryKind::ResourceTemplate => parsed(entry).map(|template: ResourceTemplate| {
                self.templates.list(template.uri_template.clone(), template);
            }),
            EntryKind::Prompt => {
                parsed(entry).map(|prompt: Prompt| self.prompts.list(prompt.name.clone(), prompt))
            }
            _ => Some(()),
        };
        self.unreadable += usize::from(is_read.is_none());
    }

    fn reply<T>(
        &mut self,
        outcome: Result<RawJson, RpcError>,
        after: Duration,
        read: fn(&RawJson) -> Option<T>,
    ) -> Option<Reply<T>> {
        let outcome = match outcome {
            Ok(result) => read(&without_reserved(&result)).map(Ok),
            Err(error) => Some(Err(error)),
        };
        self.unreadable += usize::from(outcome.is_none());
        Some(Reply { outcome: outcome?, after })
    }

    /// Returns the definition, and how many entries and results are left out.
    fn into_definition(mut self) -> (Definition, usize) {
        let version = env!("CARGO_PKG_VERSION");
        let mut definition =
            Definition::new(self.info.unwrap_or_else(|| Implementation::new("mock", version)));
        definition.instructions = self.instructions;
        let schema =
            || RawJson::encode(&json!({ "type": "object" })).unwrap_or_else(|_| RawJson::empty_object());
        definition.tools = self.tools.into_pairs(EntryKind::Tool, |name| Tool::new(name, schema()));
        definition.prompts = self.prompts.into_pairs(EntryKind::Prompt, |name| Prompt::new(name));
        let templates = self
            .templates
            .into_pairs(EntryKind::ResourceTemplate, |text| ResourceTemplate::new(text, text))
            .into_iter();
        let mut matches_left = MAX_MATCHES;
        definition.templates =
            templates.map(|(template, _)| self.resources.move_to(template, &mut matches_left)).collect();
        definition.resources = self.resources.into_pairs(EntryKind::Resource, |uri| Resource::new(uri, uri));
        let left_out = retain_valid(&mut definition);
        (definition, self.unreadable + left_out)
    }
}

impl Entries<Resource, ReadResourceResult<'static>> {
    /// Gives the answers of the resources that a template matches, and that are not listed, to it.
    fn move_to(
        &mut self,
        template: ResourceTemplate,
        matches_left: &mut usize,
    ) -> (ResourceTemplate, Arc<Answers<ReadResourceResult<'static>>>) {
        let mut answers = Answers::new(format!("the template `{}`", template.uri_template));
        if let Ok(parsed) = Template::new(&template.uri_template) {
            let (prefix, _) = template.uri_template.split_once('{').unwrap_or((&template.uri_template, ""));
            let answered = self.answers.range(prefix.to_owned()..).map(|(uri, _)| uri);
            let mut uris = Vec::new();
            for uri in answered.take_while(|uri| uri.starts_with(prefix)).take(*matches_left) {
                *matches_left -= 1;
                let is_listed = self.listed.contains_key(uri);
                if !is_listed && parsed.match_uri(uri, VariablePolicy::default()).is_ok() {
                    uris.push(uri.clone());
                }
            }
            for uri in uris {
                if let Some(of_uri) = self.answers.remove(&uri) {
                    answers.append(of_uri);
                }
            }
        }
        (template, Arc::new(answers))
    }
}

/// Leaves out the entries that no server can have, such as a tool with an invalid name. Returns how many there were.
fn retain_valid(definition: &mut Definition) -> usize {
    let number = |definition: &Definition| {
        let Definition { tools, resources, templates, prompts, .. } = definition;
        tools.len() + resources.len() + templates.len() + prompts.len()
    };
    let before = number(definition);
    let mut router = Router::<()>::new("", "");
    definition.tools.retain(|(tool, _)| router.tool(tool.clone(), ()).is_ok());
    definition.resources.retain(|(resource, _)| router.resource(resource.clone(), ()).is_ok());
    definition.templates.retain(|(template, _)| router.resource_template(template.clone(), ()).is_ok());
    definition.prompts.retain(|(prompt, _)| router.prompt(prompt.clone(), ()).is_ok());
    before - number(definition)
}

/// Returns a result without the metadata that each server writes itself.
fn without_reserved(result: &RawJson) -> RawJson {
    let edited = result.edit_members(|name, value| {
        let meta =
            (name == "_meta").then(|| value.retain_members(|key| !key.starts_with(RESERVED))).flatten();
        match meta {
            Some(meta) if meta.compact().as_str() == "{}" => MemberEdit::Drop,
            Some(meta) => MemberEdit::Replace(meta),
            None => MemberEdit::Keep,
        }
    });
    edited.unwrap_or_else(|| result.clone())
}

fn parsed<T: DeserializeOwned>(entry: &RawJson) -> Option<T> {
    entry.parse().ok()
}

fn owned_tool_result(result: &RawJson) -> Option<CallToolResult<'static>> {
    result.parse::<CallToolResult<'_>>().ok().map(CallToolResult::into_owned)
}

fn owned_prompt_result(result: &RawJson) -> Option<GetPromptResult<'static>> {
    result.parse::<GetPromptResult<'_>>().ok().map(GetPromptResult::into_owned)
}

fn owned_read_result(result: &RawJson) -> Option<ReadResourceResult<'static>> {
    result.parse::<ReadResourceResult<'_>>().ok().map(ReadResourceResult::into_owned)
}

/// Returns a recorded error.
fn error_of(error: &RawJson) -> RpcError {
    let code = error.member("code").and_then(|code| code.parse().ok()).unwrap_or(-32_603);
    let message = error.member("message").and_then(|message| message.string()).unwrap_or_default();
    let response = RpcError::new(code, message);
    match error.member("data") {
        Some(data) => response.with_data(data),
        None => response,
    }
}

/// Beginning of the names of metadata of the protocol.
const RESERVED: &str = "io.modelcontextprotocol/";
/// How often a read resource is compared with a template. Further ones are resources of their own.
const MAX_MATCHES: usize = 1_000_000;
