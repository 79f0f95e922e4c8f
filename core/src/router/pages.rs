//! Rules for the pages of apps (APP-001, APP-002).

use alloc::string::{String, ToString as _};

use super::registration::RegisterError;
use crate::methods::EntryKind;
use crate::model::{Resource, ResourceTemplate, UiResourceMeta, is_ui_mime_type, is_ui_uri};
use crate::raw::RawJson;

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
