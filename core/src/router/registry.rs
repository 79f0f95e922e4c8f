//! The router: its entries, and the methods that change them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::apps::{check_page, check_page_template};
use super::entries::{Entries, EntryRef, RemovedEntry};
use super::hooks::{Hook, HookScopes, ROOT_SCOPE};
use super::page::{CacheHint, CursorCodec};
use super::registration::{ChangedLists, RegisterError, check_prompt_name, check_tool_name};
use super::skills::SkillCatalog;
use super::template::{MAX_URI, PrefixIndex, Template, VariablePolicy, comparison_key};
use super::tool_entry::ToolChecks;
use super::visibility::VisibilityScopes;
use crate::identity::{Capabilities, ExtensionError, Implementation};
use crate::methods::{Capability, EntryKind};
use crate::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool, UI_EXTENSION};
use crate::observe::Observer;
use crate::raw::RawJson;
use crate::server::Config;
use crate::slab::Key;
use crate::sync::{Arc, share};
use crate::validate::SchemaValidator;

/// Tools, resources, templates, prompts and completions by name, each with a handler.
///
/// `H` is the handler type of the adapter: a boxed closure, a function that returns a future, or a number. The router
/// finds the handler and never runs it. `M` is the type of the hooks; use `Router<H, Arc<dyn Hook + Send + Sync>>` for
/// a router that threads share.
///
/// Entries can be added and removed while a server runs. Each method that changes a list returns [`ChangedLists`].
/// Lists keep the order of registration (TOOL-004).
///
/// A router can be cloned if its handlers and hooks can. This allows changing a copy while the original is in use.
///
/// ```
/// use mcp_proto::RawJson;
/// use mcp_proto::model::Tool;
/// use mcp_proto::router::Router;
///
/// let mut router = Router::<fn() -> String>::new("clock", "1.0.0");
/// let schema = RawJson::new(r#"{"type":"object"}"#)?;
/// router.tool(Tool::new("time", schema).description("Returns the current time"), || "noon".into())?;
/// let config = router.config(); // configuration for an engine; declares the tools capability
/// # let _ = config;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Router<H, M = Box<dyn Hook>> {
    info: Implementation,
    instructions: Option<String>,
    pub(super) declared: Capabilities,
    pub(super) cursors: CursorCodec,
    pub(super) page_sizes: [usize; 5],
    pub(super) hints: [Option<CacheHint>; 5],
    validator: Option<Arc<dyn SchemaValidator>>,
    pub(super) scopes: HookScopes<M>,
    pub(super) visibility: VisibilityScopes,
    pub(super) tools: Entries<Tool, H, ToolChecks>,
    pub(super) resources: Entries<Resource, H, Option<CacheHint>>,
    pub(super) templates: Entries<ResourceTemplate, H, TemplateExtra<H>>,
    pub(super) prefixes: PrefixIndex,
    pub(super) prompts: Entries<Prompt, H, CompletionHandlers<H>>,
    /// Boxed, since most servers have none.
    pub(super) skills: Option<Box<SkillCatalog<Self>>>,
    announces_list_changes: bool,
    observer: Option<Arc<dyn Observer>>,
}

/// Completion handlers by name of the argument or variable.
pub(super) type CompletionHandlers<H> = Vec<(Box<str>, H)>;

/// Data of a resource template.
#[derive(Clone)]
pub(super) struct TemplateExtra<H> {
    pub(super) template: Template,
    pub(super) policy: VariablePolicy,
    pub(super) cache: Option<CacheHint>,
    pub(super) completions: CompletionHandlers<H>,
}

/// An enabled resource template, borrowed.
pub(super) type TemplateRef<'r, H> = EntryRef<'r, ResourceTemplate, H, TemplateExtra<H>>;

impl<H, M: Hook> Router<H, M> {
    /// Creates an empty router for the server `name` in version `version`.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let info = Implementation::new(name, version);
        Self {
            cursors: CursorCodec::new(&info.name, &info.version),
            info,
            instructions: None,
            declared: Capabilities::new(),
            page_sizes: [usize::MAX; 5],
            hints: [None; 5],
            validator: None,
            scopes: HookScopes::default(),
            visibility: VisibilityScopes::default(),
            tools: Entries::default(),
            resources: Entries::default(),
            templates: Entries::default(),
            prefixes: PrefixIndex::default(),
            prompts: Entries::default(),
            skills: None,
            announces_list_changes: true,
            observer: None,
        }
    }

    /// Replaces the identity of the server: name, version, title, description and icons.
    pub fn info(&mut self, info: Implementation) -> &mut Self {
        self.cursors = CursorCodec::new(&info.name, &info.version);
        self.info = info;
        self
    }

    /// Sets the instructions: how to use the server, in natural language.
    pub fn instructions(&mut self, text: impl Into<String>) -> &mut Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets an observer of all requests of the server; see [`Config::observer`].
    pub fn observer(&mut self, observer: Arc<dyn Observer>) -> &mut Self {
        self.observer = Some(observer);
        self
    }

    /// Declares a capability before an entry needs it.
    ///
    /// Clients do not see entries of an undeclared capability that are registered later.
    pub fn declare(&mut self, capability: Capability) -> &mut Self {
        self.declared = core::mem::take(&mut self.declared).with(capability);
        self
    }

    /// Declares an extension with its settings, `{}` for none; see [`Capabilities::extension`].
    ///
    /// # Errors
    ///
    /// [`ExtensionError`]; nothing was declared.
    pub fn extension(&mut self, id: &str, settings: RawJson) -> Result<&mut Self, ExtensionError> {
        self.declared = self.declared.clone().extension(id, settings)?;
        Ok(self)
    }

    /// Stops declaring that list changes are announced.
    ///
    /// For a server whose lists never change, or that does not publish [`take_changes`](Self::take_changes).
    pub fn disable_list_changed(&mut self) -> &mut Self {
        self.announces_list_changes = false;
        self
    }

    /// Sets the maximum number of entries per page of all lists (PAGE-001); 0 counts as 1.
    ///
    /// Without it, a list is one page, because many clients never request a second one.
    pub fn page_size(&mut self, entries: usize) -> &mut Self {
        self.page_sizes = [entries.max(1); 5];
        self
    }

    /// Sets the maximum number of entries per page of one list, as [`page_size`](Self::page_size) does for all.
    pub fn page_size_of(&mut self, list: EntryKind, entries: usize) -> &mut Self {
        if let Some(size) = self.page_sizes.get_mut(list as usize) {
            *size = entries.max(1);
        }
        self
    }

    /// Sets the cache hint of a list, for all of its pages (CACHE-017).
    pub fn cache_list(&mut self, list: EntryKind, hint: CacheHint) -> &mut Self {
        if let Some(slot) = self.hints.get_mut(list as usize) {
            *slot = Some(hint);
        }
        self
    }

    /// Sets the cache hint of the content of a resource, or of all resources of a template.
    ///
    /// `uri` is the URI of the resource, or the template.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Unknown`] if neither is registered.
    pub fn cache_resource(&mut self, uri: &str, hint: CacheHint) -> Result<&mut Self, RegisterError> {
        let normal = comparison_key(uri, MAX_URI);
        if let Some((_, cache)) = normal.ok().and_then(|uri| self.resources.extra_mut(&uri)) {
            *cache = Some(hint);
        } else if let Some((_, family)) = self.templates.extra_mut(uri) {
            family.cache = Some(hint);
        } else {
            return Err(unknown_item(EntryKind::Resource, uri));
        }
        Ok(self)
    }

    /// Sets the checks on the values of the variables of a template (RES-022).
    ///
    /// # Errors
    ///
    /// [`RegisterError::Unknown`] if the template is not registered.
    pub fn variable_policy(
        &mut self,
        template: &str,
        policy: VariablePolicy,
    ) -> Result<&mut Self, RegisterError> {
        let found = self.templates.extra_mut(template);
        let (_, family) = found.ok_or_else(|| unknown_item(EntryKind::ResourceTemplate, template))?;
        family.policy = policy;
        Ok(self)
    }

    /// Adds a hook that observes the calls of entries and lists. It does not observe
    /// [`Route::Fallback`](super::Route::Fallback).
    pub fn hook(&mut self, hook: M) -> &mut Self {
        self.scopes.add(hook);
        self
    }

    /// Sets the validator that checks arguments and results against the schemas of all tools, present and future.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Schema`] if the validator cannot use a schema of a registered tool. The router is unchanged
    /// then.
    pub fn validator(
        &mut self,
        validator: impl SchemaValidator + 'static,
    ) -> Result<&mut Self, RegisterError> {
        // First, because a validator that cannot read a schema changes nothing.
        prepare_checks(&mut self.tools, &validator)?;
        self.validator = Some(share!(validator, dyn SchemaValidator));
        Ok(self)
    }

    /// Removes the validator; tools of nested routers are not checked any more either.
    pub fn clear_validator(&mut self) -> &mut Self {
        self.validator = None;
        self.tools.extras_mut().for_each(|checks| *checks = ToolChecks::default());
        self
    }

    /// Prepares the schemas of the tools of `inner`, unless `inner` has a validator of its own.
    pub(super) fn prepare(&self, inner: &mut Self) -> Result<(), RegisterError> {
        let Some(validator) = self.validator.as_deref().filter(|_| inner.validator.is_none()) else {
            return Ok(());
        };
        prepare_checks(&mut inner.tools, validator)
    }

    /// Registers a tool under a new name. A schema of arguments without `properties` gets empty ones.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Name`]: the name is not valid (TOOL-028).
    /// - [`RegisterError::Duplicate`]: a tool with this name is registered already.
    /// - [`RegisterError::Schema`]: a schema of the tool cannot be used.
    pub fn tool(&mut self, tool: Tool, handler: H) -> Result<ChangedLists, RegisterError> {
        refuse_duplicate(EntryKind::Tool, &tool.name, self.tools.contains(&tool.name))?;
        self.replace_tool(tool, handler)
    }

    /// Registers a tool, and replaces the one with the same name.
    ///
    /// # Errors
    ///
    /// As [`tool`](Self::tool), except for `Duplicate`.
    pub fn replace_tool(&mut self, mut tool: Tool, handler: H) -> Result<ChangedLists, RegisterError> {
        check_tool_name(&tool.name).map_err(|reason| invalid_name(EntryKind::Tool, &tool.name, reason))?;
        let checks = compile_checks(&tool, self.validator.as_deref())?;
        if tool.input_schema.member("properties").is_none() {
            // Some clients refuse a schema without them. It has a member: its type (TOOL-007).
            let rest = tool.input_schema.as_str().trim_start_matches('{');
            tool.input_schema = RawJson::trusted(["{\"properties\":{},", rest].concat().into());
        }
        self.tools.put(tool.name.as_str().into(), tool, handler, |_| checks);
        Ok(ChangedLists::from_kind(EntryKind::Tool))
    }

    /// Registers a resource under a new URI.
    ///
    /// URIs that are equivalent by RFC 3986 are the same URI, regardless of their spelling.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Uri`]: the URI is not valid (RES-019).
    /// - [`RegisterError::Duplicate`]: a resource with this URI is registered already.
    /// - [`RegisterError::App`]: the URI or the media type is that of a page of an app, and the other one is not, or its
    ///   `_meta.ui` is not valid.
    pub fn resource(&mut self, resource: Resource, handler: H) -> Result<ChangedLists, RegisterError> {
        let taken = self.resources.contains(&normalized_uri(&resource)?);
        refuse_duplicate(EntryKind::Resource, &resource.uri, taken)?;
        self.replace_resource(resource, handler)
    }

    /// Registers a resource, and replaces the one with the same URI.
    ///
    /// # Errors
    ///
    /// As [`resource`](Self::resource), except for `Duplicate`.
    pub fn replace_resource(
        &mut self,
        resource: Resource,
        handler: H,
    ) -> Result<ChangedLists, RegisterError> {
        let uri = normalized_uri(&resource)?.into();
        check_page(&resource)?;
        self.resources.put(uri, resource, handler, Option::flatten);
        Ok(ChangedLists::from_kind(EntryKind::Resource))
    }

    /// Registers a new resource template: a family of resources with one handler.
    ///
    /// A URI belongs to this template under three conditions. No resource is registered with that URI. The URI
    /// [matches](super::template) the template. No other matching template begins with a longer literal. Among
    /// templates with literals of the same length, the first registered one is tried first.
    ///
    /// A variable value that could lead out of the family is refused, see [`variable_policy`](Self::variable_policy).
    /// The whole call is refused then. No other template is tried, so that a URI refused by one template cannot be read
    /// through another.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Template`]: the template is not valid (RES-009).
    /// - [`RegisterError::Duplicate`]: this template is registered already.
    /// - [`RegisterError::App`]: the template or the media type is that of pages of an app, and the other one is not.
    pub fn resource_template(
        &mut self,
        family: ResourceTemplate,
        handler: H,
    ) -> Result<ChangedLists, RegisterError> {
        refuse_duplicate(
            EntryKind::ResourceTemplate,
            &family.uri_template,
            self.templates.contains(&family.uri_template),
        )?;
        self.replace_resource_template(family, handler)
    }

    /// Registers a resource template, and replaces an equal one.
    ///
    /// # Errors
    ///
    /// As [`resource_template`](Self::resource_template), except for `Duplicate`.
    pub fn replace_resource_template(
        &mut self,
        family: ResourceTemplate,
        handler: H,
    ) -> Result<ChangedLists, RegisterError> {
        let name = family.uri_template.clone();
        let template = Template::new(&name)
            .map_err(|reason| RegisterError::Template { template: name.clone(), reason })?;
        check_page_template(&family)?;
        let prefix = Box::<str>::from(template.literal_prefix());
        let (number, new) = self.templates.put(name.into(), family, handler, |old| {
            // An equal template has the same variables, so its settings and completions stay.
            old.unwrap_or_else(|| TemplateExtra {
                template,
                policy: VariablePolicy::default(),
                cache: None,
                completions: Vec::new(),
            })
        });
        if new {
            self.prefixes.insert(&prefix, number);
        }
        Ok(ChangedLists::from_kind(EntryKind::ResourceTemplate))
    }

    /// Registers a prompt under a new name.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Name`]: the name of the prompt or of an argument is not valid.
    /// - [`RegisterError::Duplicate`]: a prompt with this name is registered already.
    /// - [`RegisterError::Argument`]: two arguments have the same name.
    pub fn prompt(&mut self, prompt: Prompt, handler: H) -> Result<ChangedLists, RegisterError> {
        refuse_duplicate(EntryKind::Prompt, &prompt.name, self.prompts.contains(&prompt.name))?;
        self.replace_prompt(prompt, handler)
    }

    /// Registers a prompt, and replaces the one with the same name.
    ///
    /// Completions of arguments that the new prompt has too are kept.
    ///
    /// # Errors
    ///
    /// As [`prompt`](Self::prompt), except for `Duplicate`.
    pub fn replace_prompt(&mut self, prompt: Prompt, handler: H) -> Result<ChangedLists, RegisterError> {
        check_prompt_name(&prompt.name)
            .map_err(|reason| invalid_name(EntryKind::Prompt, &prompt.name, reason))?;
        for (i, argument) in prompt.arguments.iter().enumerate() {
            check_prompt_name(&argument.name)
                .map_err(|reason| invalid_name(EntryKind::Prompt, &argument.name, reason))?;
            if prompt.arguments.iter().take(i).any(|other| other.name == argument.name) {
                let (owner, argument) = (prompt.name.clone(), argument.name.clone());
                return Err(RegisterError::Argument { owner, argument, is_duplicate: true });
            }
        }
        let arguments: Vec<String> = prompt.arguments.iter().map(|a| a.name.clone()).collect();
        self.prompts.put(prompt.name.as_str().into(), prompt, handler, |old| {
            // Handlers of arguments that the new prompt lacks are dropped.
            let kept = old.into_iter().flatten();
            kept.filter(|(argument, _)| arguments.iter().any(|a| **a == **argument)).collect()
        });
        Ok(ChangedLists::from_kind(EntryKind::Prompt))
    }

    /// Sets the completion handler of an argument of a prompt, or of a variable of a template.
    ///
    /// Arguments without a handler get no suggestions.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Unknown`]: the prompt or template is not registered.
    /// - [`RegisterError::Argument`]: it has no such argument or variable.
    pub fn completion<'r>(
        &mut self,
        reference: impl Into<CompletionReference<'r>>,
        argument: &str,
        handler: H,
    ) -> Result<(), RegisterError> {
        let (owner, found) = match reference.into() {
            CompletionReference::Prompt(prompt) => {
                let found = self.prompts.extra_mut(&prompt.name);
                let (item, completions) =
                    found.ok_or_else(|| unknown_item(EntryKind::Prompt, &prompt.name))?;
                let known = item.arguments.iter().any(|a| a.name == argument);
                (prompt.name.into_owned(), known.then_some(completions))
            }
            CompletionReference::Resource(family) => {
                let found = self.templates.extra_mut(&family.uri);
                let (_, extra) =
                    found.ok_or_else(|| unknown_item(EntryKind::ResourceTemplate, &family.uri))?;
                let known = extra.template.variables().any(|name| name == argument);
                (family.uri.into_owned(), known.then_some(&mut extra.completions))
            }
            CompletionReference::Other(raw) => return Err(unknown_item(EntryKind::Prompt, raw.as_str())),
        };
        let missing = || RegisterError::Argument { owner, argument: argument.into(), is_duplicate: false };
        let completions = found.ok_or_else(missing)?;
        completions.retain(|(name, _)| **name != *argument);
        completions.push((argument.into(), handler));
        Ok(())
    }

    /// Removes an entry and its completions; nothing changes if it is not registered.
    ///
    /// The files of a skill stay registered as resources.
    pub fn remove(&mut self, kind: EntryKind, name: &str) -> ChangedLists {
        let key = &*entry_key(kind, name);
        let removed = match kind {
            EntryKind::Tool => self.tools.remove(key).map(RemovedEntry::into_scopes),
            EntryKind::Resource => self.resources.remove(key).map(RemovedEntry::into_scopes),
            EntryKind::ResourceTemplate => self.templates.remove(key).map(|old| {
                self.prefixes.remove(old.registration.extra.template.literal_prefix(), old.number);
                old.into_scopes()
            }),
            EntryKind::Prompt => self.prompts.remove(key).map(RemovedEntry::into_scopes),
            EntryKind::Skill => self.remove_skill(key).map(|listing| (listing, ROOT_SCOPE)),
        };
        let was_shown = removed.is_some_and(|(listing, scope)| {
            self.scopes.release(scope);
            listing.is_enabled
        });
        if was_shown { ChangedLists::from_kind(kind) } else { ChangedLists::NONE }
    }

    /// Hides an entry as if it were not registered, or shows it again at its old position.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Unknown`] if it is not registered.
    pub fn enable(
        &mut self,
        kind: EntryKind,
        name: &str,
        enabled: bool,
    ) -> Result<ChangedLists, RegisterError> {
        let key = &*entry_key(kind, name);
        let changed = match kind {
            EntryKind::Tool => self.tools.enable(key, enabled),
            EntryKind::Resource => self.resources.enable(key, enabled),
            EntryKind::ResourceTemplate => self.templates.enable(key, enabled),
            EntryKind::Prompt => self.prompts.enable(key, enabled),
            EntryKind::Skill => {
                let changed = self.skills.as_mut().and_then(|skills| skills.entries.enable(key, enabled));
                if changed == Some(true) {
                    self.mark_files_changed();
                }
                changed
            }
        };
        match changed {
            Some(true) => Ok(ChangedLists::from_kind(kind)),
            Some(false) => Ok(ChangedLists::NONE),
            None => Err(unknown_item(kind, name)),
        }
    }

    /// Returns all tools, hidden or not, in the order of their list.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.items()
    }

    /// Returns the names of the tools whose calls [may run again](super::ToolEntry::repeatable), hidden or not.
    pub fn repeatable_tools(&self) -> impl Iterator<Item = &str> {
        self.tools.repeatable()
    }

    /// Returns the capabilities of the server (TOOL-001, RES-001, PROMPT-001, COMP-001).
    ///
    /// These are the capabilities of all entries, hidden or not, and the [declared](Self::declare) ones. List changes
    /// are included unless [`disable_list_changed`](Self::disable_list_changed) was called. The extension
    /// [`UI_EXTENSION`] is declared if a tool or a resource is part of an app.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let resources = !self.resources.is_empty() || !self.templates.is_empty();
        let derived = [
            (Capability::Tools, !self.tools.is_empty()),
            (Capability::Resources, resources),
            (Capability::Prompts, !self.prompts.is_empty()),
            (Capability::ToolsListChanged, self.announces_list_changes && !self.tools.is_empty()),
            (Capability::ResourcesListChanged, self.announces_list_changes && resources),
            (Capability::PromptsListChanged, self.announces_list_changes && !self.prompts.is_empty()),
            (Capability::Completions, self.has_completions()),
        ];
        let derived = derived.into_iter().filter(|(_, has)| *has);
        let all = derived.fold(self.declared.clone(), |all, (capability, _)| all.with(capability));
        if !self.has_apps() || all.has_extension(UI_EXTENSION) {
            return all;
        }
        all.clone().extension(UI_EXTENSION, RawJson::empty_object()).unwrap_or(all)
    }

    /// Returns whether completions are declared, or a completion handler is registered.
    pub(super) fn has_completions(&self) -> bool {
        self.declared.has(Capability::Completions)
            || self.prompts.extras().any(|completions| !completions.is_empty())
            || self.templates.extras().any(|family| !family.completions.is_empty())
    }

    /// Returns the identity of the server, from which an extension describes it (server cards, SEP-2127).
    #[must_use]
    pub const fn implementation(&self) -> &Implementation {
        &self.info
    }

    /// Returns the configuration of a server with these entries.
    ///
    /// Call it after all registrations. Capabilities of later entries have to be [declared](Self::declare) before.
    #[must_use]
    pub fn config(&self) -> Config {
        let config = Config::new("", "").info(self.info.clone()).capabilities(self.capabilities());
        let mut config = self.access_rules().configure(config);
        if let Some(observer) = &self.observer {
            config = config.observer(Arc::clone(observer));
        }
        match &self.instructions {
            Some(text) => config.instructions(text.clone()),
            None => config,
        }
    }
}

/// Prepares the schemas of all tools, or of none if one cannot be used.
fn prepare_checks<H>(
    tools: &mut Entries<Tool, H, ToolChecks>,
    with: &dyn SchemaValidator,
) -> Result<(), RegisterError> {
    tools.try_replace_extras(|tool| compile_checks(tool, Some(with)))
}

/// Returns the key by which entries of a kind find a name; an empty one if it is no valid URI.
pub(super) fn entry_key(kind: EntryKind, name: &str) -> Cow<'_, str> {
    match kind {
        EntryKind::Resource | EntryKind::Skill => comparison_key(name, MAX_URI).unwrap_or_default(),
        _ => Cow::Borrowed(name),
    }
}

pub(super) fn unknown_item(kind: EntryKind, name: &str) -> RegisterError {
    RegisterError::Unknown { kind, name: name.into() }
}

pub(super) fn invalid_name(kind: EntryKind, name: &str, reason: &'static str) -> RegisterError {
    RegisterError::Name { kind, name: name.into(), reason }
}

pub(super) fn refuse_duplicate(kind: EntryKind, name: &str, taken: bool) -> Result<(), RegisterError> {
    if taken { Err(RegisterError::Duplicate { kind, name: name.into() }) } else { Ok(()) }
}

fn normalized_uri(resource: &Resource) -> Result<Cow<'_, str>, RegisterError> {
    comparison_key(&resource.uri, MAX_URI)
        .map_err(|reason| RegisterError::Uri { uri: resource.uri.clone(), reason })
}

fn compile_checks(tool: &Tool, validator: Option<&dyn SchemaValidator>) -> Result<ToolChecks, RegisterError> {
    ToolChecks::compile(tool, validator).map_err(|(which, reason)| RegisterError::Schema {
        tool: tool.name.clone(),
        which,
        reason,
    })
}

impl<H, M> fmt::Debug for Router<H, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("name", &self.info.name)
            .field("tools", &self.tools)
            .field("resources", &self.resources)
            .field("templates", &self.templates)
            .field("prompts", &self.prompts)
            .finish_non_exhaustive()
    }
}

// Keys by number, for numbers that only grow.

/// Most entries of a chunk. A removal moves those of one chunk, and a search looks at few chunks of many entries.
const CHUNK: usize = 64;

/// An index whose new numbers are larger than all others.
///
/// A sorted list in chunks: a tree would be the largest part of a small program. Invariants: the numbers grow within a
/// chunk and from one chunk to the next; no chunk is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberIndex(Vec<Vec<(u64, Key)>>);

impl NumberIndex {
    /// Adds a number, which must be larger than all others.
    pub(super) fn push(&mut self, number: u64, key: Key) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push((number, key)),
            _ => self.0.push(vec![(number, key)]),
        }
    }

    /// Returns the position of the first chunk that reaches a number.
    fn chunk_of(&self, number: u64) -> usize {
        self.0.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| *last < number))
    }

    /// Returns the key of a number.
    pub(super) fn find(&self, number: u64) -> Option<Key> {
        let chunk = self.0.get(self.chunk_of(number))?;
        let at = chunk.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        chunk.get(at).map(|(_, key)| *key)
    }

    /// Removes a number, if it is there.
    pub(super) fn remove(&mut self, number: u64) {
        let at = self.chunk_of(number);
        let Some(chunk) = self.0.get_mut(at) else { return };
        if let Ok(within) = chunk.binary_search_by_key(&number, |(n, _)| *n) {
            chunk.remove(within);
            if chunk.is_empty() {
                // `chunk_of` compares the last entries, so no chunk may be empty.
                self.0.remove(at);
            }
        }
    }

    /// Returns the keys of all numbers above `number`, in order.
    pub(super) fn keys_after(&self, number: u64) -> impl Iterator<Item = Key> {
        let chunks = self.0.get(self.chunk_of(number)..).unwrap_or_default();
        let entries = chunks.iter().flatten().skip_while(move |(n, _)| *n <= number);
        entries.map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn index_equals_an_ordered_map_after_every_step() {
        let (mut index, mut model, mut rng) = (NumberIndex::default(), BTreeMap::new(), Rng::new(7));
        for number in 1..4_000_u64 {
            let key = Key::from(number);
            index.push(number, key);
            model.insert(number, key);
            for _ in 0..rng.below(3) {
                let removed = number.saturating_sub(rng.next_high() % 300);
                index.remove(removed);
                model.remove(&removed);
            }
            let at = number.saturating_sub(rng.next_high() % 400);
            assert_eq!(index.find(at), model.get(&at).copied());
            assert!(index.keys_after(at).eq(model.range(at + 1..).map(|(_, key)| *key)));
            assert!(index.0.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
        }
        assert!(index.0.len() > 1 && index.keys_after(0).count() == model.len());
        assert!(index.keys_after(u64::MAX).next().is_none() && index.find(0).is_none());
    }
}
