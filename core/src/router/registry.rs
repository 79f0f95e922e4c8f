//! The router itself: what is registered, and how it changes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::check::Checks;
use super::entries::Entries;
use super::hooks::{Hook, Scopes};
use super::kinds::{Changed, RegisterError, check_prompt_name, check_tool_name};
use super::page::{CacheHint, Cursors};
use super::template::{Beginnings, MAX_URI, Screen, Template, key};
use crate::change::Change;
use crate::identity::{Capabilities, Implementation};
use crate::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use crate::server::Config;
use crate::validate::SchemaValidator;
use crate::vocab::{Capability, Kind};

/// Tools, resources, templates, prompts and completions by name, each with a handler
///
/// `H` is whatever an adapter calls: a boxed closure, a function that returns a future, a number. The router finds it;
/// it never runs it. `M` is what hooks are; say `Router<H, Arc<dyn Hook + Send + Sync>>` for a router that threads share.
///
/// Entries can come and go while a server runs. Each method that changes a list says so ([`Changed`]); lists keep the
/// order in which entries were registered (TOOL-004).
///
/// Where handlers and hooks can be cloned, a router can: to change the copy while the first one is in use.
///
/// ```
/// use mcp_proto::RawJson;
/// use mcp_proto::model::Tool;
/// use mcp_proto::router::Router;
///
/// let mut router = Router::<fn() -> String>::new("clock", "1.0.0");
/// let schema = RawJson::new(r#"{"type":"object"}"#)?;
/// router.tool(Tool::new("time", schema).description("Says what time it is"), || "noon".into())?;
/// let config = router.config(); // for an engine: says that there are tools
/// # let _ = config;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Router<H, M = Box<dyn Hook>> {
    info: Implementation,
    instructions: Option<String>,
    pub(super) declared: Capabilities,
    pub(super) cursors: Cursors,
    pub(super) page_sizes: [usize; 4],
    pub(super) hints: [Option<CacheHint>; 4],
    validator: Option<Arc<dyn SchemaValidator>>,
    pub(super) scopes: Scopes<M>,
    pub(super) tools: Entries<Tool, H, Checks>,
    pub(super) resources: Entries<Resource, H, Option<CacheHint>>,
    pub(super) templates: Entries<ResourceTemplate, H, Family<H>>,
    pub(super) beginnings: Beginnings,
    pub(super) prompts: Entries<Prompt, H, Completions<H>>,
    /// How often the lists had changed when [`changes`](Self::changes) was asked last
    told: [u64; 4],
    promises: bool,
}

/// Handlers by the names of arguments or variables
pub(super) type Completions<H> = Vec<(Box<str>, H)>;

/// What belongs to a template of resources
#[derive(Clone)]
pub(super) struct Family<H> {
    pub(super) template: Template,
    pub(super) screen: Screen,
    pub(super) cache: Option<CacheHint>,
    pub(super) completions: Completions<H>,
}

impl<H, M: Hook> Router<H, M> {
    /// A router without anything, for a server that is called `name`, in `version`
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let info = Implementation::new(name, version);
        Self {
            cursors: Cursors::new(&info.name, &info.version),
            info,
            instructions: None,
            declared: Capabilities::new(),
            page_sizes: [usize::MAX; 4],
            hints: [None; 4],
            validator: None,
            scopes: Scopes::default(),
            tools: Entries::default(),
            resources: Entries::default(),
            templates: Entries::default(),
            beginnings: Beginnings::default(),
            prompts: Entries::default(),
            told: [0; 4],
            promises: true,
        }
    }

    /// Replaces the identity, with a title, a description and icons
    pub fn info(&mut self, info: Implementation) -> &mut Self {
        self.cursors = Cursors::new(&info.name, &info.version);
        self.info = info;
        self
    }

    /// Tells clients how to use the server, in plain language
    pub fn instructions(&mut self, text: impl Into<String>) -> &mut Self {
        self.instructions = Some(text.into());
        self
    }

    /// Declares what nothing is registered for yet: entries that come later are not seen otherwise
    pub fn declare(&mut self, capability: Capability) -> &mut Self {
        self.declared = core::mem::take(&mut self.declared).with(capability);
        self
    }

    /// Promises no news of its lists: for who does not publish [`changes`](Self::changes), or never changes anything
    pub fn no_list_changed(&mut self) -> &mut Self {
        self.promises = false;
        self
    }

    /// Gives lists out in pages of so many entries (PAGE-001); the default is all at once, since many clients never ask
    /// for a second page
    pub fn page_size(&mut self, entries: usize) -> &mut Self {
        self.page_sizes = [entries.max(1); 4];
        self
    }

    /// As [`page_size`](Self::page_size), for one list: the one that grows
    pub fn page_size_of(&mut self, list: Kind, entries: usize) -> &mut Self {
        if let Some(size) = self.page_sizes.get_mut(list as usize) {
            *size = entries.max(1);
        }
        self
    }

    /// Says how long clients may keep a list, all of its pages alike (CACHE-017)
    pub fn cache_list(&mut self, list: Kind, hint: CacheHint) -> &mut Self {
        if let Some(place) = self.hints.get_mut(list as usize) {
            *place = Some(hint);
        }
        self
    }

    /// Says how long clients may keep what a resource holds, or all of a family, given its URI or template
    pub fn cache_resource(&mut self, uri: &str, hint: CacheHint) -> Result<&mut Self, RegisterError> {
        let normal = key(uri, MAX_URI);
        if let Some((_, cache)) = normal.ok().and_then(|uri| self.resources.extra_mut(&uri)) {
            *cache = Some(hint);
        } else if let Some((_, family)) = self.templates.extra_mut(uri) {
            family.cache = Some(hint);
        } else {
            return Err(unknown(Kind::Resource, uri));
        }
        Ok(self)
    }

    /// Changes what the variables of a template are searched for (RES-022)
    pub fn screen(&mut self, template: &str, screen: Screen) -> Result<&mut Self, RegisterError> {
        let found = self.templates.extra_mut(template);
        let (_, family) = found.ok_or_else(|| unknown(Kind::ResourceTemplate, template))?;
        family.screen = screen;
        Ok(self)
    }

    /// Adds a hook that sees all calls
    pub fn hook(&mut self, hook: M) -> &mut Self {
        self.scopes.add(hook);
        self
    }

    /// Has arguments and results checked against the schemas of tools: those that are there, and those to come
    ///
    /// Fails, without any effect, when a schema that is there cannot be used.
    pub fn validator(
        &mut self,
        validator: impl SchemaValidator + 'static,
    ) -> Result<&mut Self, RegisterError> {
        prepare(&mut self.tools, &validator)?;
        self.validator = Some(Arc::new(validator));
        Ok(self)
    }

    /// Has nothing checked from now on, nor the tools that came with other routers so far
    pub fn no_validator(&mut self) -> &mut Self {
        self.validator = None;
        self.tools.extras_mut().for_each(|checks| *checks = Checks::default());
        self
    }

    /// Prepares the schemas of tools that come from another router, if that has not been done there
    pub(super) fn prepare(&self, inner: &mut Self) -> Result<(), RegisterError> {
        let Some(validator) = self.validator.as_deref().filter(|_| inner.validator.is_none()) else {
            return Ok(());
        };
        prepare(&mut inner.tools, validator)
    }

    /// Registers a tool; its name is checked (TOOL-028), and must be new
    pub fn tool(&mut self, tool: Tool, handler: H) -> Result<Changed, RegisterError> {
        refuse_second(Kind::Tool, &tool.name, self.tools.has(&tool.name))?;
        self.replace_tool(tool, handler)
    }

    /// Registers a tool, in the place of the one of this name if there is one
    pub fn replace_tool(&mut self, tool: Tool, handler: H) -> Result<Changed, RegisterError> {
        check_tool_name(&tool.name).map_err(|why| bad_name(Kind::Tool, &tool.name, why))?;
        let checks = checks_of(&tool, self.validator.as_deref())?;
        let name = tool.name.clone();
        self.tools.put(&name, tool, handler, |_| checks);
        Ok(Changed::of(Kind::Tool))
    }

    /// Registers a resource; its URI is checked (RES-019), and must be new
    ///
    /// URIs that mean the same by RFC 3986 are the same, however they are spelt.
    pub fn resource(&mut self, resource: Resource, handler: H) -> Result<Changed, RegisterError> {
        let taken = self.resources.has(&normal(&resource)?);
        refuse_second(Kind::Resource, &resource.uri, taken)?;
        self.replace_resource(resource, handler)
    }

    /// Registers a resource, in the place of the one of this URI if there is one
    pub fn replace_resource(&mut self, resource: Resource, handler: H) -> Result<Changed, RegisterError> {
        let uri = normal(&resource)?.into_owned();
        self.resources.put(&uri, resource, handler, Option::flatten);
        Ok(Changed::of(Kind::Resource))
    }

    /// Registers a family of resources; its template is checked (RES-009), and must be new
    ///
    /// A URI is one of the family when no resource of that URI is registered, it
    /// [matches](super::template) the template, and does not match another one that begins with a longer literal.
    /// Of several that begin with literals of the same length, the one that was registered first is asked first.
    ///
    /// Variables that could lead out of the family are refused: see [`screen`](Self::screen). The call is then refused
    /// too, and no other template is asked: what one family holds back is not to be had through the next.
    pub fn resource_template(
        &mut self,
        family: ResourceTemplate,
        handler: H,
    ) -> Result<Changed, RegisterError> {
        refuse_second(
            Kind::ResourceTemplate,
            &family.uri_template,
            self.templates.has(&family.uri_template),
        )?;
        self.replace_resource_template(family, handler)
    }

    /// Registers a family of resources, in the place of the one of this template if there is one
    pub fn replace_resource_template(
        &mut self,
        family: ResourceTemplate,
        handler: H,
    ) -> Result<Changed, RegisterError> {
        let name = family.uri_template.clone();
        let template =
            Template::new(&name).map_err(|why| RegisterError::Template { template: name.clone(), why })?;
        let beginning = Box::<str>::from(template.beginning());
        let (number, new) = self.templates.put(&name, family, handler, |old| {
            old.unwrap_or_else(|| Family {
                template,
                screen: Screen::default(),
                cache: None,
                completions: Vec::new(),
            })
        });
        if new {
            self.beginnings.insert(&beginning, number);
        }
        Ok(Changed::of(Kind::ResourceTemplate))
    }

    /// Registers a prompt; its name and those of its arguments are checked, and must be new
    pub fn prompt(&mut self, prompt: Prompt, handler: H) -> Result<Changed, RegisterError> {
        refuse_second(Kind::Prompt, &prompt.name, self.prompts.has(&prompt.name))?;
        self.replace_prompt(prompt, handler)
    }

    /// Registers a prompt, in the place of the one of this name if there is one
    pub fn replace_prompt(&mut self, prompt: Prompt, handler: H) -> Result<Changed, RegisterError> {
        check_prompt_name(&prompt.name).map_err(|why| bad_name(Kind::Prompt, &prompt.name, why))?;
        for (i, argument) in prompt.arguments.iter().enumerate() {
            check_prompt_name(&argument.name).map_err(|why| bad_name(Kind::Prompt, &argument.name, why))?;
            if prompt.arguments.iter().take(i).any(|other| other.name == argument.name) {
                let (of, argument) = (prompt.name.clone(), argument.name.clone());
                return Err(RegisterError::Argument { of, argument, twice: true });
            }
        }
        let name = prompt.name.clone();
        let arguments: Vec<String> = prompt.arguments.iter().map(|a| a.name.clone()).collect();
        self.prompts.put(&name, prompt, handler, |old| {
            let kept = old.into_iter().flatten();
            kept.filter(|(argument, _)| arguments.iter().any(|a| **a == **argument)).collect()
        });
        Ok(Changed::of(Kind::Prompt))
    }

    /// Registers who completes an argument of a prompt, or a variable of a template, in the place of who did before
    ///
    /// The prompt or template must be registered already. Arguments without a handler get no suggestions.
    pub fn completion<'r>(
        &mut self,
        reference: impl Into<CompletionReference<'r>>,
        argument: &str,
        handler: H,
    ) -> Result<(), RegisterError> {
        let (of, found) = match reference.into() {
            CompletionReference::Prompt(prompt) => {
                let found = self.prompts.extra_mut(&prompt.name);
                let (item, completions) = found.ok_or_else(|| unknown(Kind::Prompt, &prompt.name))?;
                let known = item.arguments.iter().any(|a| a.name == argument);
                (prompt.name.into_owned(), known.then_some(completions))
            }
            CompletionReference::Resource(family) => {
                let found = self.templates.extra_mut(&family.uri);
                let (_, extra) = found.ok_or_else(|| unknown(Kind::ResourceTemplate, &family.uri))?;
                let known = extra.template.variables().any(|name| name == argument);
                (family.uri.into_owned(), known.then_some(&mut extra.completions))
            }
            CompletionReference::Other(raw) => return Err(unknown(Kind::Prompt, raw.as_str())),
        };
        let missing = || RegisterError::Argument { of, argument: argument.into(), twice: false };
        let completions = found.ok_or_else(missing)?;
        completions.retain(|(name, _)| **name != *argument);
        completions.push((argument.into(), handler));
        Ok(())
    }

    /// Takes something out, with its completions; nothing has changed when it was not there
    pub fn remove(&mut self, kind: Kind, name: &str) -> Changed {
        let removed = match kind {
            Kind::Tool => self.tools.remove(name).is_some_and(|(_, shown, _)| shown),
            Kind::Resource => {
                let uri = key(name, MAX_URI).unwrap_or_default();
                self.resources.remove(&uri).is_some_and(|(_, shown, _)| shown)
            }
            Kind::ResourceTemplate => self.templates.remove(name).is_some_and(|(number, shown, rest)| {
                self.beginnings.remove(rest.extra.template.beginning(), number);
                shown
            }),
            Kind::Prompt => self.prompts.remove(name).is_some_and(|(_, shown, _)| shown),
        };
        if removed { Changed::of(kind) } else { Changed::NONE }
    }

    /// Hides something as if it was not there, or shows it again in its old place
    pub fn enable(&mut self, kind: Kind, name: &str, enabled: bool) -> Result<Changed, RegisterError> {
        let changed = match kind {
            Kind::Tool => self.tools.enable(name, enabled),
            Kind::Resource => {
                let uri = key(name, MAX_URI).unwrap_or_default();
                self.resources.enable(&uri, enabled)
            }
            Kind::ResourceTemplate => self.templates.enable(name, enabled),
            Kind::Prompt => self.prompts.enable(name, enabled),
        };
        match changed {
            Some(true) => Ok(Changed::of(kind)),
            Some(false) => Ok(Changed::NONE),
            None => Err(unknown(kind, name)),
        }
    }

    /// All tools, hidden or not, in the order of their list
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.items()
    }

    /// What has changed since this was asked the last time: for an engine to
    /// [publish](crate::server::Engine::publish) (TOOL-019, RES-012, PROMPT-009)
    ///
    /// To be asked once before the server runs, when there is nobody to be told, and after whatever may have changed
    /// something.
    pub fn changes(&mut self) -> impl Iterator<Item = Change> + use<H, M> {
        let now = [
            self.tools.catalog.generation(),
            self.resources.catalog.generation(),
            self.templates.catalog.generation(),
            self.prompts.catalog.generation(),
        ];
        let [tools, resources, templates, prompts] = core::array::from_fn(|i| now.get(i) != self.told.get(i));
        self.told = now;
        let changed =
            [(Change::Tools, tools), (Change::Resources, resources || templates), (Change::Prompts, prompts)];
        changed.into_iter().filter(|(_, has)| *has).map(|(change, _)| change)
    }

    /// What the server can do: what something is registered for, hidden or not, news of its lists
    /// ([`changes`](Self::changes)) included, and what was [declared](Self::declare) (TOOL-001, RES-001, PROMPT-001,
    /// COMP-001)
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let resources = !self.resources.is_empty() || !self.templates.is_empty();
        let derived = [
            (Capability::Tools, !self.tools.is_empty()),
            (Capability::Resources, resources),
            (Capability::Prompts, !self.prompts.is_empty()),
            (Capability::ToolsListChanged, self.promises && !self.tools.is_empty()),
            (Capability::ResourcesListChanged, self.promises && resources),
            (Capability::PromptsListChanged, self.promises && !self.prompts.is_empty()),
            (Capability::Completions, self.completes()),
        ];
        let derived = derived.into_iter().filter(|(_, has)| *has);
        derived.fold(self.declared.clone(), |all, (capability, _)| all.with(capability))
    }

    /// Whether anything is completed
    pub(super) fn completes(&self) -> bool {
        self.declared.has(Capability::Completions)
            || self.prompts.extras().any(|completions| !completions.is_empty())
            || self.templates.extras().any(|family| !family.completions.is_empty())
    }

    /// The configuration of a server that serves this
    ///
    /// To be made when everything is registered: capabilities that come later have to be [declared](Self::declare).
    #[must_use]
    pub fn config(&self) -> Config {
        let config = Config::new("", "").info(self.info.clone()).capabilities(self.capabilities());
        match &self.instructions {
            Some(text) => config.instructions(text.clone()),
            None => config,
        }
    }
}

/// Prepares the schemas of all tools, or of none
fn prepare<H>(tools: &mut Entries<Tool, H, Checks>, with: &dyn SchemaValidator) -> Result<(), RegisterError> {
    let checks = tools.items().map(|tool| checks_of(tool, Some(with)));
    let checks: Vec<Checks> = checks.collect::<Result<_, _>>()?;
    tools.extras_mut().zip(checks).for_each(|(old, new)| *old = new);
    Ok(())
}

fn unknown(kind: Kind, name: &str) -> RegisterError {
    RegisterError::Unknown { kind, name: name.into() }
}

fn bad_name(kind: Kind, name: &str, why: &'static str) -> RegisterError {
    RegisterError::Name { kind, name: name.into(), why }
}

pub(super) fn refuse_second(kind: Kind, name: &str, taken: bool) -> Result<(), RegisterError> {
    if taken { Err(RegisterError::Duplicate { kind, name: name.into() }) } else { Ok(()) }
}

fn normal(resource: &Resource) -> Result<alloc::borrow::Cow<'_, str>, RegisterError> {
    key(&resource.uri, MAX_URI).map_err(|why| RegisterError::Uri { uri: resource.uri.clone(), why })
}

fn checks_of(tool: &Tool, validator: Option<&dyn SchemaValidator>) -> Result<Checks, RegisterError> {
    Checks::of(tool, validator).map_err(|(which, why)| RegisterError::Schema {
        tool: tool.name.clone(),
        which,
        why,
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
