//! Routing: finds the entry that a call addresses, and its handler.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::apps::page_meta;
use super::entries::Catalog;
use super::hooks::{Hook, HookContext, HookOutcome, ROOT_SCOPE, Subject};
use super::page::{CacheHint, CatalogPage, CursorCodec, PagePosition, Selection};
use super::params::{check_required_arguments, completion_params, param, prompt_arguments, text_param};
use super::pending::Listed;
use super::registry::{Router, TemplateRef};
use super::skills::{SkillAnswer, SkillResolution};
use super::template::{MAX_URI, TemplateMismatch, UriError, Values, comparison_key, lower_host, normalize};
use super::tool_entry::{InvalidArguments, InvalidToolOutput, TaskDecision, ToolChecks, decide};
use crate::methods::{self, EntryKind};
use crate::model::{
    CacheScope, CallToolResult, CompleteParams, CompleteResult, CompletionReference, Map, Prompt,
    ReadResourceResult, Resource, ResourceTemplate, Tool,
};
use crate::raw::RawJson;
use crate::rpc::{RpcError, clip};
use crate::server::{Call, read_arguments};
use crate::version::Version;

/// Action that answers a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Route<'a, H> {
    /// Complete the call with this answer of the router.
    Answer(RouterAnswer<'a>),
    /// Run the handler, then report the outcome with [`Router::finish`].
    Handle(RoutedCall<'a, H>),
    /// Make the call a task by `Tasks::begin`; it is routed again when it runs.
    BeginTask,
    /// Fail the call with this error.
    Refuse(RpcError),
    /// Leave the call to the application: the method is not one of the router, or nothing serves it here.
    Fallback,
}

/// A call for a handler.
#[derive(Debug)]
pub struct RoutedCall<'a, H> {
    /// Handler that answers the call.
    pub handler: &'a H,
    /// The entry that the call addresses, and its parameters.
    pub target: CallTarget<'a>,
    context: HookContext<'a>,
}

impl<'a, H> RoutedCall<'a, H> {
    /// Returns the call as hooks see it, for [`Router::finish`].
    #[must_use]
    pub const fn context(&self) -> HookContext<'a> {
        self.context
    }
}

/// The entry that a handler is called for, by request method.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallTarget<'a> {
    /// Target of `tools/call`.
    Tool(ToolTarget<'a>),
    /// Target of `resources/read`.
    Resource(ResourceTarget<'a>),
    /// Target of `prompts/get`.
    Prompt(PromptTarget<'a>),
    /// Target of `completion/complete`.
    Completion(CompletionTarget<'a>),
}

/// Call of a tool.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolTarget<'a> {
    /// The registered tool.
    pub tool: &'a Tool,
    /// The arguments, a JSON object. They match the schema if the router has a validator.
    pub arguments: &'a [u8],
    version: Version,
    checks: &'a ToolChecks,
    defers_task: bool,
}

impl<'a> ToolTarget<'a> {
    /// Decodes the arguments.
    ///
    /// `()` takes no arguments and ignores those that were sent.
    ///
    /// # Errors
    ///
    /// [`InvalidArguments`], which becomes the answer of the call (TOOL-022, DEC-028). Where possible it names the member
    /// that does not fit, for example `lines[0].count`.
    pub fn parse<T: serde::Deserialize<'a>>(&self) -> Result<T, InvalidArguments> {
        read_arguments(self.arguments).map_err(|e| InvalidArguments::new(&self.tool.name, self.version, &e))
    }

    /// Returns the arguments as JSON.
    #[must_use]
    pub fn raw_arguments(&self) -> RawJson {
        RawJson::trusted(Bytes::copy_from_slice(self.arguments))
    }

    /// Returns the call with other arguments, which were checked against the schema of the tool.
    ///
    /// # Errors
    ///
    /// [`InvalidArguments`]: `arguments` is not an object, or violates the schema.
    pub fn with_arguments<'b>(&self, arguments: &'b RawJson) -> Result<ToolTarget<'b>, InvalidArguments>
    where
        'a: 'b,
    {
        let invalid = |what: &dyn fmt::Display| InvalidArguments::new(&self.tool.name, self.version, what);
        if !arguments.is_object() {
            return Err(invalid(&"they are not an object"));
        }
        let arguments = arguments.as_bytes();
        let checked = self.checks.input.as_ref().map_or(Ok(()), |input| input.validate(arguments));
        checked.map_err(|violations| invalid(&violations))?;
        Ok(ToolTarget { arguments, ..*self })
    }

    /// Checks a result against the output schema of the tool (TOOL-015).
    ///
    /// # Errors
    ///
    /// [`InvalidToolOutput`] if the result violates the schema.
    pub fn check(&self, result: &CallToolResult<'_>) -> Result<(), InvalidToolOutput> {
        self.checks.check_result(self.tool, result)
    }
}

/// Read of a resource.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceTarget<'a> {
    /// The URI in the spelling of the client.
    pub uri: String,
    /// Values of the variables of the template; empty for a resource that is registered by its URI.
    pub variables: Values<'a>,
    /// The registered media type.
    pub mime_type: Option<&'a str>,
    /// Cache hint for the content.
    pub cache: Option<CacheHint>,
    /// The registered `_meta`, if this is the page of an app.
    pub(super) page_meta: Option<&'a RawJson>,
    /// Whether other callers could read something else at the URI, or nothing.
    is_restricted: bool,
}

impl<'a> ResourceTarget<'a> {
    /// `described` are media type and `_meta` of the entry, `hint` its cache hint.
    fn new(
        uri: String,
        variables: Values<'a>,
        (mime_type, meta): (Option<&'a str>, Option<&'a RawJson>),
        hint: Option<CacheHint>,
        is_restricted: bool,
    ) -> Self {
        // A shared cache would show it to callers who may not read it.
        let cache = hint.map(|hint| if is_restricted { hint.to_private() } else { hint });
        Self { uri, variables, mime_type, cache, page_meta: page_meta(mime_type, meta), is_restricted }
    }
}

/// Request for a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptTarget<'a> {
    /// The registered prompt.
    pub prompt: &'a Prompt,
    /// The arguments; every required one is present (PROMPT-010).
    pub arguments: Map<String>,
}

impl PromptTarget<'_> {
    /// Returns the request with other arguments.
    ///
    /// # Errors
    ///
    /// The [`RpcError`] for a client, if a required argument is missing (PROMPT-010).
    pub fn with_arguments(&self, arguments: Map<String>) -> Result<Self, RpcError> {
        check_required_arguments(self.prompt, &arguments)?;
        Ok(Self { prompt: self.prompt, arguments })
    }

    /// Decodes the arguments.
    ///
    /// # Errors
    ///
    /// The [`RpcError`] that answers the call, if an argument does not fit `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        super::text_deserializer::read(self.arguments.iter().map(|(name, value)| (name, &**value)))
            .map_err(|e| RpcError::invalid_params(format!("`params.arguments`: {e}")))
    }
}

impl ResourceTarget<'_> {
    /// Keeps a result from shared caches if other callers could read something else at the URI, or nothing: `public`
    /// becomes `private` (CACHE-012, CACHE-019).
    pub fn limit_sharing(&self, result: &mut ReadResourceResult<'_>) {
        if self.is_restricted && result.cache_scope == Some(CacheScope::Public) {
            result.cache_scope = Some(CacheScope::Private);
        }
    }

    /// Decodes the variables of the template.
    ///
    /// # Errors
    ///
    /// The [`RpcError`] that answers the call, if a variable does not fit `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        super::text_deserializer::read_values(&self.variables)
            .map_err(|e| RpcError::invalid_params(format!("`params.uri`: {e}")))
    }
}

/// Completion of an argument or a variable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompletionTarget<'a> {
    /// The parameters. Members unknown to this library are only in [`Call::params`].
    pub params: CompleteParams<'a>,
}

impl CompletionTarget<'_> {
    /// Returns the name of the argument or variable.
    #[must_use]
    pub fn argument(&self) -> &str {
        &self.params.argument.name
    }

    /// Returns the text that the user has typed.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.params.argument.value
    }

    /// Returns the value of another argument or variable, if the client sent it (COMP-006).
    #[must_use]
    pub fn other_argument(&self, name: &str) -> Option<&str> {
        self.params.context.as_ref()?.arguments.as_ref()?.get(name).map(|value| &**value)
    }
}

/// A result that the router makes itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum RouterAnswer<'a> {
    /// A page of `tools/list`.
    Tools(CatalogPage<'a, Tool>),
    /// A page of `resources/list`.
    Resources(CatalogPage<'a, Resource>),
    /// A page of `resources/templates/list`.
    ResourceTemplates(CatalogPage<'a, ResourceTemplate>),
    /// A page of `prompts/list`.
    Prompts(CatalogPage<'a, Prompt>),
    /// Skills, an entry of a skill, or the content of a directory.
    Skills(SkillAnswer),
    /// An empty list of suggestions.
    Completion(CompleteResult),
    /// Failure of a tool call whose arguments do not match the schema (since 2025-11-25; TOOL-022).
    InvalidArguments(CallToolResult<'static>),
}

crate::model::union::serialize_variants! { RouterAnswer<'_>: Tools Resources ResourceTemplates Prompts Skills Completion InvalidArguments }

/// Result of the lookup for a call, before the hooks run.
struct Resolution<'a, H> {
    subject: Subject<'a>,
    scope: usize,
    /// Scopes that the token of the call needs.
    required_scopes: Cow<'a, [Box<str>]>,
    action: RouteAction<'a, H>,
}

enum RouteAction<'a, H> {
    Answer(RouterAnswer<'a>),
    Handle(&'a H, CallTarget<'a>),
    BeginTask,
    Refuse(RpcError),
}

impl<'a, H> Resolution<'a, H> {
    const fn refuse(error: RpcError) -> Self {
        Self {
            subject: Subject::Unknown,
            scope: ROOT_SCOPE,
            required_scopes: Cow::Borrowed(&[]),
            action: RouteAction::Refuse(error),
        }
    }

    const fn list(kind: EntryKind, action: RouteAction<'a, H>) -> Self {
        Self { subject: Subject::List(kind), scope: ROOT_SCOPE, required_scopes: Cow::Borrowed(&[]), action }
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Finds the action that answers a call.
    ///
    /// The work is bounded by the size of the call and of the router. Hooks run after the lookup by name and before all
    /// other checks.
    pub fn route<'a>(&'a self, call: &'a Call) -> Route<'a, H> {
        let found = match call.method() {
            methods::TOOLS_CALL => self.resolve_tool(call),
            methods::TOOLS_LIST => {
                self.resolve_list(call, EntryKind::Tool, &self.tools.catalog, RouterAnswer::Tools)
            }
            methods::RESOURCES_READ => self.resolve_resource(call),
            methods::RESOURCES_LIST => {
                self.resolve_list(call, EntryKind::Resource, &self.resources.catalog, RouterAnswer::Resources)
            }
            methods::TEMPLATES_LIST => self.resolve_list(
                call,
                EntryKind::ResourceTemplate,
                &self.templates.catalog,
                RouterAnswer::ResourceTemplates,
            ),
            methods::PROMPTS_GET => self.resolve_prompt(call),
            methods::PROMPTS_LIST => {
                self.resolve_list(call, EntryKind::Prompt, &self.prompts.catalog, RouterAnswer::Prompts)
            }
            methods::COMPLETE if self.has_completions() => self.resolve_completion(call),
            _ => match self.skills.as_deref().and_then(|skills| (skills.resolve)(self, call)) {
                Some(Ok(SkillResolution { subject, scope, required_scopes, answer })) => {
                    let action = RouteAction::Answer(RouterAnswer::Skills(answer));
                    Resolution { subject, scope, required_scopes, action }
                }
                Some(Err(error)) => Resolution::refuse(error),
                None => return Route::Fallback,
            },
        };
        let context = HookContext { call, subject: found.subject, scope: found.scope };
        if let Err(error) = self.scopes.before_call(&context) {
            return Route::Refuse(error);
        }
        // After the hooks, which see this refusal, too.
        if let Err(error) = call.require_scopes(&found.required_scopes) {
            self.finish(context, HookOutcome::Failed(&error));
            return Route::Refuse(error); // AUTH-054
        }
        match check_tool_call(call, found.action) {
            RouteAction::Handle(handler, target) => Route::Handle(RoutedCall { handler, target, context }),
            RouteAction::BeginTask => {
                self.finish(context, HookOutcome::TaskBegun);
                Route::BeginTask
            }
            RouteAction::Answer(answer) => {
                let failed = matches!(answer, RouterAnswer::InvalidArguments(_));
                self.finish(context, if failed { HookOutcome::ToolFailed } else { HookOutcome::Completed });
                Route::Answer(answer)
            }
            RouteAction::Refuse(error) => {
                self.finish(context, HookOutcome::Failed(&error));
                Route::Refuse(error)
            }
        }
    }

    /// Reports the outcome of a call to the hooks.
    ///
    /// Call it exactly once for each call that [`route`](Self::route) gave to a handler.
    pub fn finish(&self, context: HookContext<'_>, outcome: HookOutcome<'_>) {
        self.scopes.after_call(&context, outcome);
    }

    fn resolve_list<'a, T: Listed>(
        &'a self,
        call: &'a Call,
        kind: EntryKind,
        catalog: &'a Catalog<T>,
        answer: impl FnOnce(CatalogPage<'a, T>) -> RouterAnswer<'a>,
    ) -> Resolution<'a, H> {
        match self.page_position(call, kind, catalog.last_number()) {
            Ok(position) => {
                let selection = if self.is_restricted(kind) {
                    Selection::new(catalog, &position, self.gate(), call.caller())
                } else {
                    Selection::All
                };
                let page = CatalogPage { catalog, position, selection };
                Resolution::list(kind, RouteAction::Answer(answer(page)))
            }
            Err(error) => Resolution::list(kind, RouteAction::Refuse(error)),
        }
    }

    /// Returns the requested page (PAGE-008, PAGE-011) of a list whose largest assigned number is `last`.
    pub(super) fn page_position(
        &self,
        call: &Call,
        kind: EntryKind,
        last: u64,
    ) -> Result<PagePosition, RpcError> {
        let is_restricted = self.is_restricted(kind);
        // The bound would tell how many entries there are, hidden ones included.
        let after = read_cursor(call, self.cursors, kind, if is_restricted { u64::MAX } else { last })?;
        let hint = self.hints.get(kind as usize).copied().flatten();
        let hint = hint.map(|hint| if is_restricted { hint.to_private() } else { hint }); // CACHE-019
        let size = self.page_sizes.get(kind as usize).copied().unwrap_or(usize::MAX);
        // Cursors that were made up are told apart by nothing, so they share a remembered page.
        Ok(PagePosition { kind, after: after.min(last), size, cursors: self.cursors, hint })
    }

    fn resolve_tool<'a>(&'a self, call: &'a Call) -> Resolution<'a, H> {
        let tool_call = match call.tool_call() {
            Ok(tool_call) => tool_call,
            Err(error) => return Resolution::refuse(error),
        };
        let entry = self.tools.find(&tool_call.name);
        let entry = entry.filter(|entry| self.shows(call, entry.listing, entry.item.subject()));
        let Some(entry) = entry else {
            // TOOL-021, TOOL-024
            let error = RpcError::invalid_params(format!("unknown tool: {}", clip(&tool_call.name)));
            return Resolution::refuse(error);
        };
        let (tool, arguments, checks) = (entry.item, tool_call.arguments, entry.extra);
        let (version, defers_task) = (call.version(), entry.rules.defers_task);
        let target = CallTarget::Tool(ToolTarget { tool, arguments, version, checks, defers_task });
        Resolution {
            subject: Subject::Tool(&tool.name),
            scope: entry.hook_scope,
            required_scopes: Cow::Borrowed(&entry.rules.required_scopes),
            action: RouteAction::Handle(entry.handler, target),
        }
    }

    fn resolve_resource<'a>(&'a self, call: &Call) -> Resolution<'a, H> {
        let uri = match text_param(call, "uri") {
            Ok(uri) => uri,
            Err(error) => return Resolution::refuse(error),
        };
        let normal = match normalize(&uri, MAX_URI) {
            Ok(normal) => normal,
            Err(reason) => return Resolution::refuse(invalid_uri(&uri, reason)),
        };
        let key = lower_host(Cow::Borrowed(&*normal));
        let (gate, caller) = (self.gate(), call.caller());
        // Before the entries: for this caller the folder is empty, whatever is registered in it (DESIGN-54).
        if !gate.shows_folder(caller, &key) {
            return Resolution::refuse(RpcError::resource_not_found(&uri));
        }
        // Whether others could read something else at this URI, or nothing.
        let mut is_restricted = gate.restricts_folder(&key);
        let found = self.resources.find(&key);
        is_restricted |= found.as_ref().is_some_and(|entry| gate.restricts(entry.listing));
        if let Some(entry) = found.filter(|e| gate.scopes.allow(caller, e.listing, e.item.subject())) {
            let resource = entry.item;
            let required_scopes = self.with_folder_scopes(&key, &entry.rules.required_scopes);
            let described = (resource.mime_type.as_deref(), resource.meta.as_ref());
            let target = ResourceTarget::new(uri, Values::new(), described, *entry.extra, is_restricted);
            let subject = Subject::Resource(&resource.uri);
            return Resolution {
                subject,
                scope: entry.hook_scope,
                required_scopes,
                action: RouteAction::Handle(entry.handler, CallTarget::Resource(target)),
            };
        }
        let template = self.templates_at(&normal).find(|(entry, _)| {
            // Before an error about the values, which would tell that the template is there (DESIGN-54).
            let is_seen = gate.scopes.allow(caller, entry.listing, entry.item.subject());
            // Who sees the template reads something else at this URI.
            is_restricted |= !is_seen;
            is_seen
        });
        // RES-015, RES-016, RES-017
        let Some((entry, matched)) = template else {
            return Resolution::refuse(RpcError::resource_not_found(&uri));
        };
        let required_scopes = self.with_folder_scopes(&key, &entry.rules.required_scopes);
        let action = match matched {
            Err(reason) => RouteAction::Refuse(with_uri(RpcError::invalid_params(format!("{reason}")), &uri)),
            Ok(variables) => {
                is_restricted |= gate.restricts(entry.listing);
                let described = (entry.item.mime_type.as_deref(), entry.item.meta.as_ref());
                let target = ResourceTarget::new(uri, variables, described, entry.extra.cache, is_restricted);
                RouteAction::Handle(entry.handler, CallTarget::Resource(target))
            }
        };
        let subject = Subject::ResourceTemplate(&entry.item.uri_template);
        Resolution { subject, scope: entry.hook_scope, required_scopes, action }
    }

    /// Returns the enabled templates that a normalized URI belongs to, in the order of a read, each with the values of its
    /// variables, or why they are refused.
    pub(super) fn templates_at<'r>(
        &'r self,
        normal: &str,
    ) -> impl Iterator<Item = (TemplateRef<'r, H>, Result<Values<'r>, TemplateMismatch>)> {
        self.prefixes.find(normal).into_iter().filter_map(move |number| {
            let entry = self.templates.find_by_number(number)?;
            let matched = entry.extra.template.match_normalized(normal, entry.extra.policy);
            (!matches!(matched, Err(TemplateMismatch::Different))).then_some((entry, matched))
        })
    }

    fn resolve_prompt<'a>(&'a self, call: &Call) -> Resolution<'a, H> {
        let name = match text_param(call, "name") {
            Ok(name) => name,
            Err(error) => return Resolution::refuse(error),
        };
        let entry = self.prompts.find(&name);
        let entry = entry.filter(|entry| self.shows(call, entry.listing, entry.item.subject()));
        let Some(entry) = entry else {
            return Resolution::refuse(RpcError::invalid_params(format!("unknown prompt: {}", clip(&name))));
        };
        let prompt = entry.item;
        let action = match prompt_arguments(call, prompt) {
            Ok(arguments) => {
                RouteAction::Handle(entry.handler, CallTarget::Prompt(PromptTarget { prompt, arguments }))
            }
            Err(error) => RouteAction::Refuse(error),
        };
        Resolution {
            subject: Subject::Prompt(&prompt.name),
            scope: entry.hook_scope,
            required_scopes: Cow::Borrowed(&entry.rules.required_scopes),
            action,
        }
    }

    fn resolve_completion<'a>(&'a self, call: &'a Call) -> Resolution<'a, H> {
        let params = match completion_params(call) {
            Ok(params) => params,
            Err(error) => return Resolution::refuse(error),
        };
        let argument = &*params.argument.name;
        let (subject, scope, required_scopes, completions, known) = match &params.reference {
            CompletionReference::Prompt(prompt) => match self.prompts.find(&prompt.name) {
                Some(entry) if self.shows(call, entry.listing, entry.item.subject()) => {
                    let known = entry.item.arguments.iter().any(|a| a.name == argument);
                    (
                        Subject::Completion(&entry.item.name),
                        entry.hook_scope,
                        Cow::Borrowed(&*entry.rules.required_scopes),
                        &**entry.extra,
                        known,
                    )
                }
                // COMP-007
                _ => return refuse_reference("prompt", &prompt.name),
            },
            CompletionReference::Resource(family) => match self.templates.find(&family.uri) {
                Some(entry) if self.shows(call, entry.listing, entry.item.subject()) => {
                    let known = entry.extra.template.variables().any(|name| name == argument);
                    let subject = Subject::Completion(&entry.item.uri_template);
                    let prefix = entry.extra.template.literal_prefix();
                    let scopes = self.with_folder_scopes(prefix, &entry.rules.required_scopes);
                    (subject, entry.hook_scope, scopes, &*entry.extra.completions, known)
                }
                _ if comparison_key(&family.uri, MAX_URI)
                    .is_ok_and(|uri| self.find_resource(call.caller(), &uri).is_some()) =>
                {
                    // The resource exists and has no variables, so there are no suggestions.
                    (Subject::Unknown, ROOT_SCOPE, Cow::Borrowed(&[][..]), &[][..], true)
                }
                _ => return refuse_reference("resource template", &family.uri),
            },
            CompletionReference::Other(_) => {
                return Resolution::refuse(RpcError::invalid_params("`params.ref.type` is not known"));
            }
        };
        let handler = completions.iter().find(|(name, _)| **name == *argument).map(|(_, handler)| handler);
        let action = match handler {
            Some(handler) => {
                RouteAction::Handle(handler, CallTarget::Completion(CompletionTarget { params }))
            }
            None if known => {
                RouteAction::Answer(RouterAnswer::Completion(CompleteResult::from_suggestions(Vec::new())))
            }
            None => {
                let message = format!("there is no argument `{}`", clip(argument));
                RouteAction::Refuse(RpcError::invalid_params(message))
            }
        };
        // Suggestions reveal what the entry holds.
        Resolution { subject, scope, required_scopes, action }
    }
}

/// Returns the number in the cursor of a call, at most `last`; 0 without a cursor.
pub(super) fn read_cursor(
    call: &Call,
    cursors: CursorCodec,
    kind: EntryKind,
    last: u64,
) -> Result<u64, RpcError> {
    let Some(cursor) = param(call, "cursor").filter(|c| c.as_bytes() != b"null") else { return Ok(0) };
    let text = cursor.string().ok_or_else(|| RpcError::invalid_params("`params.cursor` is not a string"))?;
    let number = cursors.decode(kind, &text).filter(|number| *number <= last);
    number.ok_or_else(|| RpcError::invalid_params("the cursor is not valid: begin again without one"))
}

/// Checks the arguments of a tool call against its schema, and decides whether it becomes a task.
///
/// This happens after the hooks, so that a refused caller learns nothing about the tool.
fn check_tool_call<'a, H>(call: &Call, action: RouteAction<'a, H>) -> RouteAction<'a, H> {
    let RouteAction::Handle(_, CallTarget::Tool(target)) = &action else { return action };
    let decision = decide(call, target.tool, target.defers_task);
    if let TaskDecision::Refuse(error) = decision {
        return RouteAction::Refuse(error);
    }
    let checked = target.checks.input.as_ref().map_or(Ok(()), |input| input.validate(target.arguments));
    if let Err(violations) = checked {
        let bad = InvalidArguments::new(&target.tool.name, target.version, &violations);
        return match bad.into_result() {
            Ok(result) => RouteAction::Answer(RouterAnswer::InvalidArguments(result)),
            Err(error) => RouteAction::Refuse(error.into_rpc_error()),
        };
    }
    // A call whose arguments are refused creates no task.
    if matches!(decision, TaskDecision::Begin) { RouteAction::BeginTask } else { action }
}

fn refuse_reference<'a, H>(what: &str, name: &str) -> Resolution<'a, H> {
    Resolution::refuse(RpcError::invalid_params(format!("unknown {what}: {}", clip(name))))
}

pub(super) fn invalid_uri(uri: &str, reason: UriError) -> RpcError {
    let error = RpcError::invalid_params(format!("`params.uri`: {reason}"));
    // An overlong URI is not echoed.
    if matches!(reason, UriError::TooLong { .. }) { error } else { with_uri(error, uri) }
}

fn with_uri(error: RpcError, uri: &str) -> RpcError {
    RpcError { data: RpcError::resource_not_found(uri).data, ..error }
}
