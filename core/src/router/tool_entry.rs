//! Changes to a registered tool that leave its schema and its handler alone.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::entries::EntryMut;
use super::hooks::Hook;
use super::registry::Router;
use super::template::{MAX_URI, comparison_key};
use super::visibility::{VisibilityScopes, rule_of_entry};
use crate::methods::EntryKind;
use crate::model::{Icon, Tool, ToolAnnotations, UiToolMeta};
use crate::raw::RawJson;
use crate::server::Caller;

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
        let scope = scope.into();
        let rules = match kind {
            EntryKind::Tool => self.tools.entry_mut(name).map(|entry| entry.rules),
            EntryKind::Resource => {
                let uri = comparison_key(name, MAX_URI).unwrap_or_default();
                self.resources.entry_mut(&uri).map(|entry| entry.rules)
            }
            EntryKind::ResourceTemplate => self.templates.entry_mut(name).map(|entry| entry.rules),
            EntryKind::Prompt => self.prompts.entry_mut(name).map(|entry| entry.rules),
            EntryKind::Skill => return self.require_scope_of_skill(name, scope),
        };
        rules.map(|rules| rules.required_scopes.push(scope)).is_some()
    }
}
