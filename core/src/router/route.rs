//! From a call to who answers it.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, Serializer};

use super::check::{BadArguments, BadResult, Checks};
use super::entries::Catalog;
use super::hooks::{Asked, Hook, Outcome, ROOT, Subject};
use super::page::{CacheHint, Page, Place};
use super::params::{completion_params, member, prompt_arguments, text};
use super::registry::Router;
use super::template::{MAX_URI, Mismatch, UriError, Values, key, lower_host, normalize};
use crate::model::{
    CallToolResult, CompleteParams, CompleteResult, CompletionReference, Map, Prompt, Resource,
    ResourceTemplate, Tool,
};
use crate::rpc::{RpcError, clip};
use crate::server::{Call, read_arguments};
use crate::vocab::{self, Kind};

/// What is to be done about a call
#[derive(Debug)]
#[non_exhaustive]
pub enum Route<'a, H> {
    /// Complete it with this: lists are the router's own to answer
    Answer(Answer<'a>),
    /// Run a handler; tell the router [how that ended](Router::done)
    Handle(Work<'a, H>),
    /// Fail it with this
    Refuse(RpcError),
    /// It is no business of a router: a method of the application's own, or one that this server does not have
    Other,
}

/// A call for a handler
#[derive(Debug)]
pub struct Work<'a, H> {
    /// Who is to answer it
    pub handler: &'a H,
    /// What it is about
    pub target: Target<'a>,
    asked: Asked<'a>,
}

impl<'a, H> Work<'a, H> {
    /// The call as the hooks see it, for [`Router::done`]
    #[must_use]
    pub const fn asked(&self) -> Asked<'a> {
        self.asked
    }
}

/// What a handler is asked for
#[derive(Debug)]
#[non_exhaustive]
pub enum Target<'a> {
    /// `tools/call`
    Tool(ToolTarget<'a>),
    /// `resources/read`
    Resource(ResourceTarget<'a>),
    /// `prompts/get`
    Prompt(PromptTarget<'a>),
    /// `completion/complete`
    Completion(CompletionTarget<'a>),
}

/// A tool to call
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolTarget<'a> {
    /// The tool as it is registered
    pub tool: &'a Tool,
    /// The argument object as JSON; it fits the schema if the router has a validator
    pub arguments: &'a [u8],
    checks: &'a Checks,
}

impl<'a> ToolTarget<'a> {
    /// Reads the arguments; the error becomes the result to complete the call with (TOOL-022)
    ///
    /// It names the member that does not fit, such as `lines[0].count`, where that can be told. `()` takes no arguments,
    /// and ignores those that are sent.
    pub fn parse<T: serde::Deserialize<'a>>(&self) -> Result<T, BadArguments> {
        read_arguments(self.arguments).map_err(|e| BadArguments::new(&self.tool.name, &e))
    }

    /// Whether a result is what the tool promises with its output schema (TOOL-015)
    pub fn check(&self, result: &CallToolResult<'_>) -> Result<(), BadResult> {
        self.checks.result(self.tool, result)
    }
}

/// A resource to read
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceTarget<'a> {
    /// The URI as the client spelt it
    pub uri: String,
    /// The variables of the template; none for a resource that is registered by its URI
    pub variables: Values<'a>,
    /// The media type that is registered for it
    pub mime_type: Option<&'a str>,
    /// How long what it holds may be kept
    pub cache: Option<CacheHint>,
}

/// A prompt to get
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptTarget<'a> {
    /// The prompt as it is registered
    pub prompt: &'a Prompt,
    /// What is filled in; all that is required is there (PROMPT-010)
    pub arguments: Map<String>,
}

impl PromptTarget<'_> {
    /// Reads the arguments; the error is the answer to give
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        super::texts::read(self.arguments.iter().map(|(name, value)| (name, &**value)))
            .map_err(|e| RpcError::invalid_params(format!("`params.arguments`: {e}")))
    }
}

impl ResourceTarget<'_> {
    /// Reads the variables; the error is the answer to give
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        super::texts::read_values(&self.variables)
            .map_err(|e| RpcError::invalid_params(format!("`params.uri`: {e}")))
    }
}

/// An argument or a variable to complete
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompletionTarget<'a> {
    /// What was asked; members that this version does not know are in [`Call::params`] only
    pub params: CompleteParams<'a>,
}

impl CompletionTarget<'_> {
    /// The name of the argument or variable
    #[must_use]
    pub fn argument(&self) -> &str {
        &self.params.argument.name
    }

    /// What was typed so far
    #[must_use]
    pub fn value(&self) -> &str {
        &self.params.argument.value
    }

    /// What another argument or variable was filled in with, if that is known (COMP-006)
    #[must_use]
    pub fn known(&self, name: &str) -> Option<&str> {
        self.params.context.as_ref()?.arguments.as_ref()?.get(name).map(|value| &**value)
    }
}

/// A result that the router gives by itself
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// A page of `tools/list`
    Tools(Page<'a, Tool>),
    /// A page of `resources/list`
    Resources(Page<'a, Resource>),
    /// A page of `resources/templates/list`
    ResourceTemplates(Page<'a, ResourceTemplate>),
    /// A page of `prompts/list`
    Prompts(Page<'a, Prompt>),
    /// No suggestions
    Completion(CompleteResult),
    /// A tool was called with arguments that do not fit its schema (TOOL-022)
    BadArguments(CallToolResult<'static>),
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tools(page) => page.serialize(serializer),
            Self::Resources(page) => page.serialize(serializer),
            Self::ResourceTemplates(page) => page.serialize(serializer),
            Self::Prompts(page) => page.serialize(serializer),
            Self::Completion(result) => result.serialize(serializer),
            Self::BadArguments(result) => result.serialize(serializer),
        }
    }
}

/// What was found for a call, before any hook has seen it
struct Found<'a, H> {
    subject: Subject<'a>,
    scope: usize,
    way: Way<'a, H>,
}

enum Way<'a, H> {
    Answer(Answer<'a>),
    Handle(&'a H, Target<'a>),
    Refuse(RpcError),
}

impl<'a, H> Found<'a, H> {
    const fn refuse(error: RpcError) -> Self {
        Self { subject: Subject::Unknown, scope: ROOT, way: Way::Refuse(error) }
    }

    const fn list(kind: Kind, way: Way<'a, H>) -> Self {
        Self { subject: Subject::List(kind), scope: ROOT, way }
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Says what is to be done about a call
    ///
    /// Work is bounded by the call and by what is registered. Hooks are asked before anything is checked but names.
    pub fn route<'a>(&'a self, call: &'a Call) -> Route<'a, H> {
        let found = match call.method() {
            vocab::TOOLS_CALL => self.find_tool(call),
            vocab::TOOLS_LIST => self.list(call, Kind::Tool, &self.tools.catalog, Answer::Tools),
            vocab::RESOURCES_READ => self.find_resource(call),
            vocab::RESOURCES_LIST => {
                self.list(call, Kind::Resource, &self.resources.catalog, Answer::Resources)
            }
            vocab::TEMPLATES_LIST => {
                self.list(call, Kind::ResourceTemplate, &self.templates.catalog, Answer::ResourceTemplates)
            }
            vocab::PROMPTS_GET => self.find_prompt(call),
            vocab::PROMPTS_LIST => self.list(call, Kind::Prompt, &self.prompts.catalog, Answer::Prompts),
            vocab::COMPLETE if self.completes() => self.find_completion(call),
            _ => return Route::Other,
        };
        let asked = Asked { call, subject: found.subject, scope: found.scope };
        if let Err(error) = self.scopes.before(&asked) {
            return Route::Refuse(error);
        }
        match checked(found.way) {
            Way::Handle(handler, target) => Route::Handle(Work { handler, target, asked }),
            Way::Answer(answer) => {
                let failed = matches!(answer, Answer::BadArguments(_));
                self.done(asked, if failed { Outcome::ToolFailed } else { Outcome::Completed });
                Route::Answer(answer)
            }
            Way::Refuse(error) => {
                self.done(asked, Outcome::Failed(&error));
                Route::Refuse(error)
            }
        }
    }

    /// Tells the hooks how a call ended that a handler was found for; each call once
    pub fn done(&self, asked: Asked<'_>, outcome: Outcome<'_>) {
        self.scopes.after(&asked, outcome);
    }

    fn list<'a, T>(
        &'a self,
        call: &Call,
        kind: Kind,
        catalog: &'a Catalog<T>,
        answer: impl FnOnce(Page<'a, T>) -> Answer<'a>,
    ) -> Found<'a, H> {
        match self.place(call, kind, catalog.last()) {
            Ok(place) => Found::list(kind, Way::Answer(answer(Page { catalog, place }))),
            Err(error) => Found::list(kind, Way::Refuse(error)),
        }
    }

    /// Which page is asked for (PAGE-008, PAGE-011), of a list in which no number above `last` was given out
    fn place(&self, call: &Call, kind: Kind, last: u64) -> Result<Place, RpcError> {
        let mut after = 0;
        if let Some(cursor) = member(call, "cursor").filter(|c| c.as_bytes() != b"null") {
            let text =
                cursor.string().ok_or_else(|| RpcError::invalid_params("`params.cursor` is not a string"))?;
            let number = self.cursors.read(kind, &text).filter(|number| *number <= last);
            let wrong = || RpcError::invalid_params("the cursor is not valid: begin again without one");
            after = number.ok_or_else(wrong)?;
        }
        let hint = self.hints.get(kind as usize).copied().flatten();
        let size = self.page_sizes.get(kind as usize).copied().unwrap_or(usize::MAX);
        Ok(Place { kind, after, size, cursors: self.cursors, hint })
    }

    fn find_tool<'a>(&'a self, call: &'a Call) -> Found<'a, H> {
        let asked = match call.tool() {
            Ok(asked) => asked,
            Err(error) => return Found::refuse(error),
        };
        let Some(entry) = self.tools.find(&asked.name) else {
            // TOOL-021, TOOL-024
            let error = RpcError::invalid_params(format!("unknown tool: {}", clip(&asked.name)));
            return Found::refuse(error);
        };
        let (tool, arguments, checks) = (entry.item, asked.arguments, entry.extra);
        let target = Target::Tool(ToolTarget { tool, arguments, checks });
        Found {
            subject: Subject::Tool(&tool.name),
            scope: entry.scope,
            way: Way::Handle(entry.handler, target),
        }
    }

    fn find_resource<'a>(&'a self, call: &Call) -> Found<'a, H> {
        let uri = match text(call, "uri") {
            Ok(uri) => uri,
            Err(error) => return Found::refuse(error),
        };
        let normal = match normalize(&uri, MAX_URI) {
            Ok(normal) => normal,
            Err(why) => return Found::refuse(bad_uri(&uri, why)),
        };
        if let Some(entry) = self.resources.find(&lower_host(Cow::Borrowed(&*normal))) {
            let resource = entry.item;
            let mime_type = resource.mime_type.as_deref();
            let variables = Values::new();
            let target = Target::Resource(ResourceTarget { uri, variables, mime_type, cache: *entry.extra });
            let subject = Subject::Resource(&resource.uri);
            return Found { subject, scope: entry.scope, way: Way::Handle(entry.handler, target) };
        }
        for number in self.beginnings.of(&normal) {
            let Some(entry) = self.templates.numbered(number) else { continue };
            let family = entry.extra;
            let way = match family.template.matches_normalized(&normal, family.screen) {
                Err(Mismatch::Different) => continue,
                Err(why) => Way::Refuse(with_uri(RpcError::invalid_params(format!("{why}")), &uri)),
                Ok(variables) => {
                    let mime_type = entry.item.mime_type.as_deref();
                    let cache = family.cache;
                    let target = Target::Resource(ResourceTarget { uri, variables, mime_type, cache });
                    Way::Handle(entry.handler, target)
                }
            };
            let subject = Subject::ResourceTemplate(&entry.item.uri_template);
            return Found { subject, scope: entry.scope, way };
        }
        // RES-015, RES-016, RES-017
        Found::refuse(RpcError::resource_not_found(&uri))
    }

    fn find_prompt<'a>(&'a self, call: &Call) -> Found<'a, H> {
        let name = match text(call, "name") {
            Ok(name) => name,
            Err(error) => return Found::refuse(error),
        };
        let Some(entry) = self.prompts.find(&name) else {
            return Found::refuse(RpcError::invalid_params(format!("unknown prompt: {}", clip(&name))));
        };
        let prompt = entry.item;
        let way = match prompt_arguments(call, prompt) {
            Ok(arguments) => Way::Handle(entry.handler, Target::Prompt(PromptTarget { prompt, arguments })),
            Err(error) => Way::Refuse(error),
        };
        Found { subject: Subject::Prompt(&prompt.name), scope: entry.scope, way }
    }

    fn find_completion<'a>(&'a self, call: &'a Call) -> Found<'a, H> {
        let params = match completion_params(call) {
            Ok(params) => params,
            Err(error) => return Found::refuse(error),
        };
        let argument = &*params.argument.name;
        let (subject, scope, completions, known) = match &params.reference {
            CompletionReference::Prompt(prompt) => match self.prompts.find(&prompt.name) {
                Some(entry) => {
                    let known = entry.item.arguments.iter().any(|a| a.name == argument);
                    (Subject::Completion(&entry.item.name), entry.scope, &**entry.extra, known)
                }
                // COMP-007
                None => return refuse_reference("prompt", &prompt.name),
            },
            CompletionReference::Resource(family) => match self.templates.find(&family.uri) {
                Some(entry) => {
                    let known = entry.extra.template.variables().any(|name| name == argument);
                    let subject = Subject::Completion(&entry.item.uri_template);
                    (subject, entry.scope, &*entry.extra.completions, known)
                }
                None if key(&family.uri, MAX_URI).is_ok_and(|uri| self.resources.find(&uri).is_some()) => {
                    // It is there, and has nothing to fill in.
                    (Subject::Unknown, ROOT, &[][..], true)
                }
                None => return refuse_reference("resource template", &family.uri),
            },
            CompletionReference::Other(_) => {
                return Found::refuse(RpcError::invalid_params("`params.ref.type` is not known"));
            }
        };
        let handler = completions.iter().find(|(name, _)| **name == *argument).map(|(_, handler)| handler);
        let way = match handler {
            Some(handler) => Way::Handle(handler, Target::Completion(CompletionTarget { params })),
            None if known => Way::Answer(Answer::Completion(CompleteResult::first(Vec::new()))),
            None => {
                let message = format!("there is no argument `{}`", clip(argument));
                Way::Refuse(RpcError::invalid_params(message))
            }
        };
        Found { subject, scope, way }
    }
}

/// Arguments are checked after the hooks have agreed: who may not call a tool learns nothing about it
fn checked<'a, H>(way: Way<'a, H>) -> Way<'a, H> {
    if let Way::Handle(_, Target::Tool(target)) = &way {
        let checked = target.checks.input.as_ref().map_or(Ok(()), |input| input.validate(target.arguments));
        if let Err(violations) = checked {
            let bad = BadArguments::new(&target.tool.name, &violations);
            return Way::Answer(Answer::BadArguments(bad.into_result()));
        }
    }
    way
}

fn refuse_reference<'a, H>(what: &str, name: &str) -> Found<'a, H> {
    Found::refuse(RpcError::invalid_params(format!("unknown {what}: {}", clip(name))))
}

fn bad_uri(uri: &str, why: UriError) -> RpcError {
    let error = RpcError::invalid_params(format!("`params.uri`: {why}"));
    // What is too long is not sent back.
    if matches!(why, UriError::TooLong { .. }) { error } else { with_uri(error, uri) }
}

fn with_uri(error: RpcError, uri: &str) -> RpcError {
    RpcError { data: RpcError::resource_not_found(uri).data, ..error }
}
