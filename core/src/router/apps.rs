//! Apps of a router: pages, tools that name them, and the declaration of the extension (APP).

use alloc::format;
use alloc::string::{String, ToString as _};

use super::hooks::Hook;
use super::registration::{RegisterError, RegisterErrors};
use super::registry::Router;
use super::route::ResourceTarget;
use super::template::{MAX_URI, comparison_key, normalize};
use crate::methods::EntryKind;
use crate::model::{
    ReadResourceResult, Resource, ResourceTemplate, Tool, UI_MIME_TYPE, UiResourceMeta, UiToolMeta,
    complete_contents, has_tool_ui, is_ui_mime_type, is_ui_uri, raw_ui,
};
use crate::raw::RawJson;
use crate::rpc::clip;

impl<H, M: Hook> Router<H, M> {
    /// Checks that what tools say about apps is valid, and that their pages exist (APP-001, APP-002, APP-004).
    ///
    /// `has_other_resources` tells that resources outside of this router exist, those of a fallback for example. A page
    /// that is not registered is not an error then.
    ///
    /// # Errors
    ///
    /// [`RegisterError::App`](super::RegisterError::App) for each tool, hidden or not, whose `_meta.ui` cannot be read, or whose page is not
    /// registered or has another media type than [`UI_MIME_TYPE`](crate::model::UI_MIME_TYPE).
    pub fn check_apps(&self, has_other_resources: bool) -> Result<(), RegisterErrors> {
        let mut errors = RegisterErrors::default();
        for tool in self.tools.items().filter(|tool| has_tool_ui(tool.meta.as_ref())) {
            if let Err(reason) = self.check_tool_page(tool, has_other_resources) {
                errors.push(app_error(EntryKind::Tool, &tool.name, reason));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn check_tool_page(&self, tool: &Tool, has_other_resources: bool) -> Result<(), String> {
        let ui = UiToolMeta::from_tool(tool).map_err(|error| error.to_string())?;
        let Some(page) = ui.resource_uri else { return Ok(()) };
        let quoted = clip(&page);
        match self.page_mime_type(&page) {
            Some(kind) if kind.is_some_and(is_ui_mime_type) => Ok(()),
            Some(_) => Err(format!("its page `{quoted}` is not registered as one (`Resource::app`)")),
            None if has_other_resources => Ok(()),
            None => Err(format!("its page `{quoted}` is not registered")),
        }
    }

    /// Returns the media type of the resource or template that answers `uri`; `None` if there is neither.
    fn page_mime_type(&self, uri: &str) -> Option<Option<&str>> {
        let key = comparison_key(uri, MAX_URI).ok()?;
        if self.resources.contains(&key) {
            // A hidden page may be shown again.
            let page = self.resources.find(&key);
            return Some(page.map_or(Some(UI_MIME_TYPE), |entry| entry.item.mime_type.as_deref()));
        }
        let normal = normalize(uri, MAX_URI).ok()?;
        let (family, _) = self.templates_at(&normal).next()?;
        Some(family.item.mime_type.as_deref())
    }

    /// Returns whether a tool or a resource belongs to an app, so that the extension is declared.
    pub(super) fn has_apps(&self) -> bool {
        self.tools.items().any(|tool| has_tool_ui(tool.meta.as_ref()))
            || self.resources.items().any(|resource| is_ui_uri(&resource.uri))
            || self.templates.items().any(|family| is_ui_uri(&family.uri_template))
    }
}

impl ResourceTarget<'_> {
    /// Adds the registered `_meta.ui` to those contents of a page that have none (APP-009).
    pub fn complete_page(&self, result: &mut ReadResourceResult<'_>) {
        if let Some(ui) = raw_ui(self.page_meta) {
            result.contents.iter_mut().for_each(|contents| complete_contents(contents, &ui));
        }
    }
}

// Rules for the pages of apps (APP-001, APP-002).

/// Checks a resource that is a page by its URI or its media type (APP-001, APP-002).
pub(super) fn check_page(resource: &Resource) -> Result<(), RegisterError> {
    let (uri, kind) = (&resource.uri, resource.mime_type.as_deref());
    check_scheme_and_type(uri, kind).map_err(|reason| app_error(EntryKind::Resource, uri, reason.into()))?;
    match UiResourceMeta::from_resource(resource) {
        Err(error) if is_ui_uri(uri) => Err(app_error(EntryKind::Resource, uri, error.to_string())),
        _ => Ok(()),
    }
}

/// Checks a template whose resources are pages, as [`check_page`] does.
pub(super) fn check_page_template(family: &ResourceTemplate) -> Result<(), RegisterError> {
    let (template, kind) = (&family.uri_template, family.mime_type.as_deref());
    check_scheme_and_type(template, kind)
        .map_err(|reason| app_error(EntryKind::ResourceTemplate, template, reason.into()))
}

fn check_scheme_and_type(uri: &str, kind: Option<&str>) -> Result<(), &'static str> {
    match (is_ui_uri(uri), kind.is_some_and(is_ui_mime_type)) {
        (true, false) => Err("the media type of a page is `text/html;profile=mcp-app`"),
        (false, true) => Err("the URI of a page begins with `ui://`"),
        _ => Ok(()),
    }
}

#[cold]
pub(super) fn app_error(kind: EntryKind, name: &str, reason: String) -> RegisterError {
    RegisterError::App { kind, name: name.into(), reason }
}

/// Returns `_meta` of a resource or template if its media type is that of pages.
pub(super) fn page_meta<'a>(kind: Option<&str>, meta: Option<&'a RawJson>) -> Option<&'a RawJson> {
    meta.filter(|_| kind.is_some_and(is_ui_mime_type))
}
