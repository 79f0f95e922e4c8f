//! MCP Apps, the extension `io.modelcontextprotocol/ui`: what tools and resources say about their pages (APP).
//!
//! An app is an HTML page of a server that a host shows in a sandbox. A tool names its page in `_meta.ui`, and the page is
//! a resource with a `ui://` URI. The types here are those members; showing pages is the task of hosts.
//!
//! `_meta` of tools and resources exists since 2025-06-18, so clients of earlier revisions see tools without apps.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::errors::ValidationError;
use super::map::Map;
use super::message::message;
use super::resources::{Resource, ResourceContents, ResourceTemplate};
use super::string_enum::string_enum;
use super::tools::Tool;
use crate::meta;
use crate::raw::RawJson;

/// Identifier of the extension.
pub const UI_EXTENSION: &str = meta::UI_EXTENSION;

/// Media type of the page of an app (APP-002).
pub const UI_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Beginning of the URI of a page (APP-001).
pub const UI_SCHEME: &str = "ui://";

/// Member of `_meta` that holds the types of this module.
const UI: &str = "ui";

const VISIBILITY: &str = "visibility";

/// Key of `_meta` of a tool that older servers use for `ui.resourceUri` (APP-006).
const DEPRECATED_RESOURCE_URI: &str = "ui/resourceUri";

string_enum! {
    /// A party that may see and call a tool (APP-007).
    UiToolVisibility {
        /// The model: the tool is in its list.
        Model = "model",
        /// Apps of the same server: their pages may call the tool.
        App = "app",
    }
}

message! {
    /// `_meta.ui` of a tool: its page, and who may call it (APP-005, APP-007).
    ///
    /// ```
    /// use mcp_proto::RawJson;
    /// use mcp_proto::model::{Tool, UiToolMeta, UiToolVisibility};
    ///
    /// let schema = RawJson::new(r#"{"type":"object"}"#)?;
    /// let ui = UiToolMeta::new().resource_uri("ui://clock/face").visibility([UiToolVisibility::App]);
    /// let tool = Tool::new("set_alarm", schema).ui(ui);
    /// assert_eq!(tool.meta.as_ref().unwrap().as_str(), r#"{"ui":{"resourceUri":"ui://clock/face","visibility":["app"]}}"#);
    /// assert!(!tool.is_visible_to(&UiToolVisibility::Model)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    UiToolMeta {} {
        /// URI of the page that shows the results.
        opt resource_uri: String = "resourceUri",
        /// Parties that may call the tool; absent means the model and apps.
        opt visibility: Vec<UiToolVisibility> = VISIBILITY,
    }

    /// `_meta.ui` of a page: what its sandbox has to permit (APP-009).
    ///
    /// Hosts read it from the contents that `resources/read` returns; in a list it helps to review pages early.
    UiResourceMeta {} {
        /// Origins that the page uses.
        opt csp: UiResourceCsp = "csp",
        /// Features of the browser that the page uses.
        opt permissions: UiResourcePermissions = "permissions",
        /// Origin for the page, in the form that the host documents.
        opt domain: String = "domain",
        /// True if the host should draw a border and a background; `None` leaves it to the host.
        opt prefers_border: bool = "prefersBorder",
    }

    /// Origins that a page uses, for its Content Security Policy (APP-010); an empty list permits none.
    UiResourceCsp {} {
        /// Origins for requests: `connect-src`.
        list connect_domains: Vec<String> = "connectDomains",
        /// Origins for scripts, styles, images, fonts and media; `https://*.example.com` matches subdomains.
        list resource_domains: Vec<String> = "resourceDomains",
        /// Origins for nested frames: `frame-src`.
        list frame_domains: Vec<String> = "frameDomains",
        /// Base URIs of the document: `base-uri`; without any, its own origin.
        list base_uri_domains: Vec<String> = "baseUriDomains",
    }

    /// Features of the browser that a page asks for; the host may refuse them (APP-011).
    ///
    /// A feature is an object without members: `Map::new()`.
    UiResourcePermissions {} {
        /// The camera.
        opt camera: Map<RawJson> = "camera",
        /// The microphone.
        opt microphone: Map<RawJson> = "microphone",
        /// The location of the user.
        opt geolocation: Map<RawJson> = "geolocation",
        /// Writing to the clipboard.
        opt clipboard_write: Map<RawJson> = "clipboardWrite",
    }

    /// Settings of the extension, declared by a client (APP-012).
    ///
    /// ```
    /// use mcp_proto::client::Config;
    /// use mcp_proto::model::{UI_EXTENSION, UiClientCapabilities};
    ///
    /// let config = Config::new("host", "1.0").extension(UI_EXTENSION, UiClientCapabilities::html().to_settings())?;
    /// # let _ = config;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    UiClientCapabilities {
        /// Media types of the pages that the client can show.
        mime_types: Vec<String> as List = "mimeTypes",
    } {}
}

impl UiToolMeta {
    /// Reads what a tool says; absent members are `None`, also those of a tool without `_meta.ui`.
    ///
    /// The deprecated key `ui/resourceUri` is read if `ui.resourceUri` is absent (APP-006).
    ///
    /// # Errors
    ///
    /// The path and the reason, if a member has a wrong type or the URI does not begin with `ui://` (APP-001).
    pub fn from_tool(tool: &Tool) -> Result<Self, ValidationError> {
        let mut ui: Self = read_ui(tool.meta.as_ref())?.unwrap_or_default();
        let mut path = "_meta.ui.resourceUri";
        let flat = || tool.meta.as_ref().and_then(|meta| meta.member(DEPRECATED_RESOURCE_URI));
        if let (None, Some(uri)) = (&ui.resource_uri, flat()) {
            path = "_meta.ui/resourceUri";
            let Some(uri) = uri.string() else {
                return Err(ValidationError::at_member(path, "must be a string"));
            };
            ui.resource_uri = Some(uri);
        }
        match &ui.resource_uri {
            Some(uri) if !is_ui_uri(uri) => {
                Err(ValidationError::at_member(path, "the URI of a page begins with `ui://`"))
            }
            _ => Ok(ui),
        }
    }

    /// Returns whether a party may see and call the tool (APP-007).
    #[must_use]
    pub fn is_visible_to(&self, party: &UiToolVisibility) -> bool {
        self.visibility.as_ref().map_or_else(|| is_known(party), |parties| parties.contains(party))
    }
}

/// Returns whether the party may call tools that name no parties.
const fn is_known(party: &UiToolVisibility) -> bool {
    matches!(party, UiToolVisibility::Model | UiToolVisibility::App)
}

impl Tool {
    /// Sets `_meta.ui`: the page of the tool and who may call it (extension `io.modelcontextprotocol/ui`).
    ///
    /// Other members of [`meta`](#structfield.meta) are kept.
    #[must_use]
    pub fn ui(mut self, ui: impl Into<UiToolMeta>) -> Self {
        self.set_ui(&ui.into());
        self
    }

    /// Sets `_meta.ui`.
    pub(crate) fn set_ui(&mut self, ui: &UiToolMeta) {
        self.meta = Some(with_ui(self.meta.as_ref(), &encode(ui)));
    }

    /// Returns whether a party may see and call the tool (APP-007); other members of `_meta.ui` are not read.
    ///
    /// A `_meta.ui` that is not an object says nothing: the tool is visible to the model and to apps.
    ///
    /// # Errors
    ///
    /// The path and the reason, if `visibility` is not a list of strings. Treat the tool as invisible then.
    pub fn is_visible_to(&self, party: &UiToolVisibility) -> Result<bool, ValidationError> {
        let ui = self.meta.as_ref().and_then(|meta| meta.member(UI)).filter(RawJson::is_object);
        let Some(ui) = ui else { return Ok(is_known(party)) };
        let members: Map<RawJson> =
            ui.parse().map_err(|error| at_ui(ValidationError::from_read_error(&error)))?;
        let Some(parties) = members.get(VISIBILITY) else { return Ok(is_known(party)) };
        let parties: Option<Vec<UiToolVisibility>> = parties
            .parse()
            .map_err(|error| at_ui(ValidationError::from_read_error(&error).prefixed(VISIBILITY)))?;
        Ok(parties.map_or_else(|| is_known(party), |parties| parties.contains(party)))
    }
}

impl UiResourceMeta {
    /// Reads `_meta.ui` of a listed page; `None` if it has none.
    ///
    /// # Errors
    ///
    /// The path and the reason, if a member has a wrong type.
    pub fn from_resource(resource: &Resource) -> Result<Option<Self>, ValidationError> {
        read_ui(resource.meta.as_ref())
    }

    /// Reads `_meta.ui` of the contents of a page, which is what a host obeys; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The path and the reason, if a member has a wrong type.
    pub fn from_contents(contents: &ResourceContents<'_>) -> Result<Option<Self>, ValidationError> {
        read_ui(match contents {
            ResourceContents::Text(text) => text.meta.as_ref(),
            ResourceContents::Blob(blob) => blob.meta.as_ref(),
        })
    }
}

impl Resource {
    /// Creates the page of an app: a resource with the media type [`UI_MIME_TYPE`]; `uri` begins with `ui://`.
    ///
    /// A router refuses another URI when the page is registered.
    ///
    /// ```
    /// use mcp_proto::model::{Resource, UiResourceCsp, UiResourceMeta};
    ///
    /// let csp = UiResourceCsp::new().connect_domains(["https://tides.example".into()]);
    /// let page = Resource::app("ui://harbour/tide", "tide").ui(UiResourceMeta::new().csp(csp).prefers_border(true));
    /// assert_eq!(page.mime_type.as_deref(), Some("text/html;profile=mcp-app"));
    /// ```
    #[must_use]
    pub fn app(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(uri, name).mime_type(UI_MIME_TYPE)
    }

    /// Sets `_meta.ui`, which a router also adds to the contents of the page. Other members of `_meta` are kept.
    #[must_use]
    pub fn ui(mut self, ui: impl Into<UiResourceMeta>) -> Self {
        self.meta = Some(with_ui(self.meta.as_ref(), &encode(&ui.into())));
        self
    }
}

impl ResourceTemplate {
    /// Sets `_meta.ui`, which a router adds to the contents of the pages. Other members of `_meta` are kept.
    #[must_use]
    pub fn ui(mut self, ui: impl Into<UiResourceMeta>) -> Self {
        self.meta = Some(with_ui(self.meta.as_ref(), &encode(&ui.into())));
        self
    }
}

impl UiClientCapabilities {
    /// Creates the settings of a client that shows HTML pages, the only kind so far.
    #[must_use]
    pub fn html() -> Self {
        Self::new(Vec::from([String::from(UI_MIME_TYPE)]))
    }

    /// Reads the settings of the extension; `settings` is the value of [`UI_EXTENSION`] in `extensions`.
    ///
    /// # Errors
    ///
    /// The path and the reason, if `mimeTypes` is missing or not a list of strings (APP-012).
    pub fn from_settings(settings: &RawJson) -> Result<Self, ValidationError> {
        settings.parse().map_err(|error| ValidationError::from_read_error(&error))
    }

    /// Returns the settings for the declaration of the extension.
    #[must_use]
    pub fn to_settings(&self) -> RawJson {
        encode(self)
    }

    /// Returns whether the client shows HTML pages.
    #[must_use]
    pub fn supports_html(&self) -> bool {
        self.mime_types.iter().any(|kind| is_ui_mime_type(kind))
    }

    /// Returns whether the extension settings of a client, if any, say that it shows HTML pages (APP-013).
    ///
    /// Settings that cannot be read count as no. The settings are in [`Peer::extension`](crate::server::Peer::extension).
    #[must_use]
    pub fn is_html_supported(settings: Option<&RawJson>) -> bool {
        settings.and_then(|settings| Self::from_settings(settings).ok()).is_some_and(|ui| ui.supports_html())
    }
}

/// Returns whether a URI is that of a page; schemes are compared without regard to case (RFC 3986).
#[must_use]
pub fn is_ui_uri(uri: &str) -> bool {
    uri.get(..UI_SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(UI_SCHEME))
}

/// Returns whether a media type is [`UI_MIME_TYPE`], in any case and with any space around the `;` (RFC 9110).
#[must_use]
pub fn is_ui_mime_type(text: &str) -> bool {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
    kind && parts.any(|parameter| {
        parameter.split_once('=').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("profile") && value.trim_matches('"') == "mcp-app"
        })
    })
}

/// Adds `ui`, the encoded `_meta.ui` of a page, to contents that have the media type of pages and none of their own.
pub(crate) fn complete_contents(contents: &mut ResourceContents<'_>, ui: &RawJson) {
    let (kind, meta) = match contents {
        ResourceContents::Text(text) => (&text.mime_type, &mut text.meta),
        ResourceContents::Blob(blob) => (&blob.mime_type, &mut blob.meta),
    };
    let has_ui = meta.as_ref().is_some_and(|meta| meta.member(UI).is_some());
    if !has_ui && kind.as_deref().is_some_and(is_ui_mime_type) {
        *meta = Some(with_ui(meta.as_ref(), ui));
    }
}

/// Returns the raw `_meta.ui` of a tool or a resource.
pub(crate) fn raw_ui(meta: Option<&RawJson>) -> Option<RawJson> {
    meta?.member(UI)
}

/// Returns whether `_meta` of a tool speaks of apps, in either form.
pub(crate) fn has_tool_ui(meta: Option<&RawJson>) -> bool {
    meta.is_some_and(|meta| meta.member(UI).is_some() || meta.member(DEPRECATED_RESOURCE_URI).is_some())
}

fn read_ui<T: serde::de::DeserializeOwned>(meta: Option<&RawJson>) -> Result<Option<T>, ValidationError> {
    match raw_ui(meta) {
        Some(ui) => ui.parse().map(Some).map_err(|error| at_ui(ValidationError::from_read_error(&error))),
        None => Ok(None),
    }
}

#[cold]
fn at_ui(error: ValidationError) -> ValidationError {
    error.prefixed(UI).prefixed("_meta")
}

/// Encodes a type of this module, which has nothing that JSON cannot express.
fn encode<T: serde::Serialize>(ui: &T) -> RawJson {
    RawJson::encode(ui).unwrap_or_else(|_| RawJson::empty_object())
}

/// Returns `meta` with the member `ui`. Anything but an object is replaced, as it can hold no members.
fn with_ui(meta: Option<&RawJson>, ui: &RawJson) -> RawJson {
    let mut members: Map<RawJson> = meta.and_then(|meta| meta.parse().ok()).unwrap_or_default();
    members.insert(UI, ui.clone());
    RawJson::encode(&members)
        .unwrap_or_else(|_| RawJson::trusted(format!("{{\"{UI}\":{}}}", ui.as_str()).into_bytes().into()))
}

#[cfg(test)]
mod tests;
