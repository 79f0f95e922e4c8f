//! Registered tools: changes, calls that may become tasks, and checks of schemas, arguments and results.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::entries::EntryMut;
use super::hooks::Hook;
use super::registration::{RegisterError, RegisterErrors};
use super::registry::{Router, entry_key};
use super::results::{Failure, HandlerError};
use super::visibility::{VisibilityScopes, rule_of_entry};
use crate::methods::EntryKind;
use crate::model::{CallToolResult, Icon, TaskSupport, Tool, ToolAnnotations, ToolExecution, UiToolMeta};
use crate::raw::RawJson;
use crate::rpc::{RpcError, clip};
use crate::server::{Call, Caller, TaskOffer};
use crate::sync::Arc;
use crate::validate::{SchemaError, SchemaValidator, Validate, Violations, check_structured_result};
use crate::version::Version;

/// A registered tool, for setting the members that describe it.
///
/// The schema of a tool belongs to its handler, so it is not among them.
///
/// ```
/// use mcp_proto::RawJson;
/// use mcp_proto::model::{Tool, ToolAnnotations};
/// use mcp_proto::router::Router;
///
/// let mut router = Router::<fn() -> String>::new("clock", "1.0.0");
/// router.tool(Tool::new("time", RawJson::new(r#"{"type":"object"}"#)?), || "noon".into())?;
/// router
///     .tool_entry("time")
///     .title("Time of day")
///     .description("Returns the current time")
///     .annotations(ToolAnnotations::new().read_only_hint(true));
/// assert_eq!(router.tools().next().unwrap().title.as_deref(), Some("Time of day"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ToolEntry<'r> {
    /// `None` if the tool is not registered.
    pub(super) tool: Option<EntryMut<'r, Tool>>,
    /// `None` if the tool is not registered.
    visibility: Option<&'r mut VisibilityScopes>,
}

impl fmt::Debug for ToolEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolEntry").field(&self.tool.as_ref().map(|entry| &*entry.item)).finish()
    }
}

impl ToolEntry<'_> {
    /// Returns an entry that stands for no tool. Setting its members has no effect.
    #[must_use]
    pub const fn none() -> Self {
        Self { tool: None, visibility: None }
    }

    /// Sets the name for display (since 2025-06-18; META-035).
    pub fn title(self, title: impl Into<String>) -> Self {
        self.set(|tool| tool.title = Some(title.into()))
    }

    /// Sets the description for a model.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.set(|tool| tool.description = Some(description.into()))
    }

    /// Sets the hints about the behaviour (since 2025-03-26).
    ///
    /// Clients do not trust the hints of a server that they do not trust (TOOL-026).
    pub fn annotations(self, annotations: ToolAnnotations) -> Self {
        self.set(|tool| tool.annotations = Some(annotations))
    }

    /// Sets the icons (since 2025-11-25; META-026).
    pub fn icons(self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.set(|tool| tool.icons = icons.into_iter().collect())
    }

    /// Sets the metadata, an object (since 2025-06-18).
    pub fn meta(self, meta: RawJson) -> Self {
        self.set(|tool| tool.meta = Some(meta))
    }

    /// Sets `_meta.ui`: the page of the tool and who may call it (extension `io.modelcontextprotocol/ui`, APP-005).
    ///
    /// The other metadata is kept. [`Router::check_apps`] checks that the page exists. Clients that do not show apps see
    /// the same tool, so its results need a text for them (APP-014).
    ///
    /// ```
    /// use mcp_proto::RawJson;
    /// use mcp_proto::model::{Resource, Tool, UiToolMeta};
    /// use mcp_proto::router::Router;
    ///
    /// let mut router = Router::<fn() -> String>::new("clock", "1.0.0");
    /// router.resource(Resource::app("ui://clock/face", "face"), || "<!doctype html>…".into())?;
    /// router.tool(Tool::new("time", RawJson::new(r#"{"type":"object"}"#)?), || "noon".into())?;
    /// router.tool_entry("time").ui(UiToolMeta::new().resource_uri("ui://clock/face"));
    /// router.check_apps(false)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ui(self, ui: impl Into<UiToolMeta>) -> Self {
        self.set(|tool| tool.set_ui(&ui.into()))
    }

    /// Adds a scope that the token of a call needs (AUTH-054); see [`Call::require_scopes`].
    ///
    /// It is checked after the hooks, and before the arguments. A tool that is registered again under its name keeps
    /// its scopes.
    ///
    /// [`Call::require_scopes`]: crate::server::Call::require_scopes
    pub fn require_scope(mut self, scope: impl Into<Box<str>>) -> Self {
        if let Some(entry) = &mut self.tool {
            entry.rules.required_scopes.push(scope.into());
        }
        self
    }

    /// Adds a function that decides which callers see the tool. For all others it is as if it were not registered; see
    /// [`Visibility`](super::Visibility).
    ///
    /// All functions have to agree, also those of the router. They are asked before scopes are checked. A tool that is
    /// registered again under its name keeps them.
    pub fn visible_to(mut self, is_visible: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        if let (Some(entry), Some(visibility)) = (&mut self.tool, &mut self.visibility) {
            entry.add_rule(rule_of_entry(is_visible));
            visibility.mark_entry_rule();
        }
        self
    }

    /// Lets a call run again, in another process, if the one that it came to has ended before it has answered. Servers that
    /// share sessions do so for a client that resumes the stream of the call; without this, it gets an error.
    ///
    /// The handler may run twice with the same arguments then, also at the same time, if a process only seemed to have ended. It
    /// asks its questions anew, and sends no progress the second time. Its request shows no header fields then
    /// (`visible_fields` of the server over HTTP): they are not stored, so a handler that decides by one must
    /// expect that it is missing. The client gets one answer.
    ///
    /// A server takes what is set when it begins: a tool that is registered later is not repeated. A process whose tool with the name
    /// is not repeatable does not run its calls again; they are lost there.
    ///
    /// This is a decision of the server, and not told to clients. It does not follow from
    /// [`ToolAnnotations::idempotent_hint`], which tells a client that a repeated call has no further effect on the environment: such a
    /// call may still be too costly to repeat, or rely on what its process had, and a call without the hint may be safe to repeat
    /// when its handler recognizes it. A tool that is read-only or idempotent is mostly repeatable, too.
    ///
    /// A tool that is registered again under its name keeps this.
    pub fn repeatable(mut self) -> Self {
        if let Some(entry) = &mut self.tool {
            entry.rules.is_repeatable = true;
        }
        self
    }

    pub(super) fn set(mut self, change: impl FnOnce(&mut Tool)) -> Self {
        if let Some(entry) = &mut self.tool {
            change(entry.item);
        }
        self
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Returns a registered tool, hidden or not, to change how it is described. The list of tools counts as changed.
    ///
    /// If no tool has this name, setting the members has no effect.
    pub fn tool_entry(&mut self, name: &str) -> ToolEntry<'_> {
        ToolEntry { tool: self.tools.entry_mut(name), visibility: Some(&mut self.visibility) }
    }

    /// Adds a scope that the token of each call of an entry needs; otherwise as [`ToolEntry::require_scope`].
    ///
    /// The token of a subscription to such a resource needs it, too ([`access_rules`](Self::access_rules)).
    ///
    /// A skill stands for everything in its folder, also for what a template serves there and for files that are registered
    /// later: a client without the scope reads none of it, and sees neither the skill nor its directories.
    ///
    /// Returns whether there is an entry with this name, URI or URI template. The URI may have any spelling that
    /// finds the resource.
    pub fn require_scope(&mut self, kind: EntryKind, name: &str, scope: impl Into<Box<str>>) -> bool {
        let (key, scope) = (&*entry_key(kind, name), scope.into());
        let rules = match kind {
            EntryKind::Tool => self.tools.entry_mut(key).map(|entry| entry.rules),
            EntryKind::Resource => self.resources.entry_mut(key).map(|entry| entry.rules),
            EntryKind::ResourceTemplate => self.templates.entry_mut(key).map(|entry| entry.rules),
            EntryKind::Prompt => self.prompts.entry_mut(key).map(|entry| entry.rules),
            EntryKind::Skill => return self.require_scope_of_skill(key, scope),
        };
        rules.map(|rules| rules.required_scopes.push(scope)).is_some()
    }
}

// Tools whose calls may become tasks.

impl ToolEntry<'_> {
    /// Sets whether calls become tasks (`execution.taskSupport`; default forbidden).
    ///
    /// | | client that asks for a task, or allows it | other client |
    /// |---|---|---|
    /// | `forbidden` | error -32601 in 2025-11-25 (TASK-005), otherwise a plain call | a plain call |
    /// | `optional` | a task (TASK-006, TASK-103) | a plain call |
    /// | `required` | a task | error -32601 until 2025-11-25 (TASK-007), then -32021 (TASK-104) |
    ///
    /// A client of 2025-11-25 asks for a task in the call, later ones allow it by declaring the extension
    /// ([`Call::task_offer`]). The arguments are checked before a task is created. Before 2025-11-25 there are no tasks.
    ///
    /// The server needs tasks for that: by the method `tasks` of the router of an adapter, or by `Engine::set_tasks`.
    pub fn task_support(self, support: TaskSupport) -> Self {
        self.set(|tool| {
            let execution = tool.execution.get_or_insert_with(|| Box::new(ToolExecution::new()));
            execution.task_support = Some(support);
        })
    }

    /// Lets the handler decide when a call becomes a task: it first runs in the call itself, and may ask there for the
    /// input that a task should not wait for (TASK-110).
    ///
    /// In 2025-11-25 a client that asks for a task gets one at once, and the handler asks in the task.
    ///
    /// A tool that is registered again under its name keeps this.
    pub fn defer_task(mut self) -> Self {
        if let Some(entry) = &mut self.tool {
            entry.rules.defers_task = true;
        }
        self
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Adds an error for each tool that requires tasks, for a server without them.
    pub fn check_tools_without_tasks(&self, errors: &mut RegisterErrors) {
        for tool in self.tools.items().filter(|tool| support_of(tool) == &TaskSupport::Required) {
            errors.push(RegisterError::NoTasks { tool: tool.name.clone() });
        }
    }
}

/// Returns the names of the tools without a description, by which models choose (TOOL-006).
pub fn undescribed_tools<H, M>(router: &Router<H, M>) -> impl Iterator<Item = &str> {
    let is_bare = |tool: &&Tool| tool.description.as_deref().unwrap_or_default().trim().is_empty();
    router.tools.items().filter(is_bare).map(|tool| &*tool.name)
}

/// The decision about a call of a tool.
pub(super) enum TaskDecision {
    /// Its handler runs.
    Run,
    /// It becomes a task, whose handler runs later.
    Begin,
    Refuse(RpcError),
}

/// Decides whether a call becomes a task.
pub(super) fn decide(call: &Call, tool: &Tool, defers_task: bool) -> TaskDecision {
    // The call has become a task before, and this is its run.
    if call.is_task_run() {
        return TaskDecision::Run;
    }
    let is_asked = call.task_offer() == TaskOffer::Requested;
    match (call.task_offer(), support_of(tool)) {
        (TaskOffer::None, TaskSupport::Required) => TaskDecision::Refuse(call.task_required_error()),
        (TaskOffer::None, _) => TaskDecision::Run,
        (_, TaskSupport::Optional | TaskSupport::Required) if is_asked || !defers_task => TaskDecision::Begin,
        (_, TaskSupport::Optional | TaskSupport::Required) => TaskDecision::Run,
        // TASK-005
        _ if is_asked => TaskDecision::Refuse(call.task_forbidden_error()),
        _ => TaskDecision::Run,
    }
}

/// Returns whether calls of a tool may become tasks.
fn support_of(tool: &Tool) -> &TaskSupport {
    let declared = tool.execution.as_ref().and_then(|execution| execution.task_support.as_ref());
    declared.unwrap_or(&TaskSupport::Forbidden)
}

// Checks of tool schemas, arguments and results (SCHEMA-010).

/// Error for tool arguments that do not match the schema or the type of the handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidArguments {
    message: String,
    version: Version,
}

impl InvalidArguments {
    pub(super) fn new(tool: &str, version: Version, what: &dyn fmt::Display) -> Self {
        let message = alloc::format!("The arguments of `{}` are not valid: {what}", clip(tool));
        Self { message, version }
    }

    /// Returns the result of the call: since 2025-11-25 a failure that the model can read and act on (TOOL-022,
    /// DEC-028).
    ///
    /// # Errors
    ///
    /// Up to and including 2025-06-18 error -32602, with which the call is to be answered.
    pub fn into_result(self) -> Result<CallToolResult<'static>, HandlerError> {
        if self.version >= Version::V2025_11_25 {
            Ok(CallToolResult::error(self.message))
        } else {
            Err(RpcError::invalid_params(self.message).into())
        }
    }
}

/// As [`into_result`](InvalidArguments::into_result), before it becomes a result.
impl From<InvalidArguments> for HandlerError {
    fn from(invalid: InvalidArguments) -> Self {
        if invalid.version >= Version::V2025_11_25 {
            Failure::new(&invalid).into()
        } else {
            RpcError::invalid_params(invalid.message).into()
        }
    }
}

/// Error for a result that violates the output schema of its tool (TOOL-015).
///
/// It is meant for the author of the handler. The client receives only [`to_rpc_error`](Self::to_rpc_error).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result of the tool `{tool}` does not fit its outputSchema: {violations}")]
#[non_exhaustive]
pub struct InvalidToolOutput {
    /// Name of the tool.
    pub tool: String,
    /// Violations of the schema.
    pub violations: Violations,
}

impl InvalidToolOutput {
    /// Returns the error that the client receives.
    #[must_use]
    pub fn to_rpc_error(&self) -> RpcError {
        RpcError::internal("the result of the tool is not what it promises")
    }
}

/// Compiled schemas of a tool.
#[derive(Clone, Default)]
pub(super) struct ToolChecks {
    pub(super) input: Option<Arc<dyn Validate>>,
    pub(super) output: Option<Arc<dyn Validate>>,
}

impl ToolChecks {
    /// Checks the basic form of the schemas of a tool, and compiles them if there is a validator.
    ///
    /// # Errors
    ///
    /// The name of the member (`inputSchema` or `outputSchema`) and the reason why its schema cannot be used.
    pub(super) fn compile(
        tool: &Tool,
        validator: Option<&dyn SchemaValidator>,
    ) -> Result<Self, (&'static str, SchemaError)> {
        let (input, output) = ("inputSchema", "outputSchema");
        let kind = tool.input_schema.member("type");
        if kind.is_none_or(|kind| kind.as_bytes() != b"\"object\"") {
            return Err((input, SchemaError::Shape("has no `\"type\":\"object\"`")));
        }
        if tool.output_schema.as_ref().is_some_and(|s| !s.is_object()) {
            return Err((output, SchemaError::Shape("is not a JSON object")));
        }
        let Some(validator) = validator else { return Ok(Self::default()) };
        Ok(Self {
            input: Some(validator.compile(&tool.input_schema).map_err(|reason| (input, reason))?.into()),
            output: match &tool.output_schema {
                Some(schema) => Some(validator.compile(schema).map_err(|reason| (output, reason))?.into()),
                None => None,
            },
        })
    }

    /// Checks a result against the output schema; tool failures are exempt (TOOL-015).
    pub(super) fn check_result(
        &self,
        tool: &Tool,
        result: &CallToolResult<'_>,
    ) -> Result<(), InvalidToolOutput> {
        if tool.output_schema.is_none() || result.is_failure() {
            return Ok(());
        }
        let checked = check_structured_result(result.structured_content.as_ref(), self.output.as_deref());
        checked.map_err(|violations| InvalidToolOutput { tool: tool.name.clone(), violations })
    }
}

impl fmt::Debug for ToolChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = |check: &Option<Arc<dyn Validate>>| check.is_some();
        f.debug_struct("ToolChecks")
            .field("input", &prepared(&self.input))
            .field("output", &prepared(&self.output))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawJson;

    // covers: TOOL-007
    #[test]
    fn input_schema_without_object_type_is_refused_without_validator() {
        let raw = |text: &'static str| RawJson::new(text).expect("JSON");
        for schema in ["{}", "true", "null", r#"{"type":"string"}"#, r#"{"type":["object"]}"#] {
            let error = ToolChecks::compile(&Tool::new("t", raw(schema)), None).expect_err(schema);
            assert_eq!(error.0, "inputSchema");
        }
        let tool = Tool::new("t", raw(r#"{"type":"object"}"#));
        assert!(ToolChecks::compile(&tool, None).is_ok());
        assert!(ToolChecks::compile(&tool.output_schema(raw("true")), None).is_err());
    }
}
