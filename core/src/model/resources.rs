//! Resources: lists, templates, contents, change notifications (RES).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use super::base::{Annotations, CacheScope, Cursor, Icon, IntoStatic, ResultType};
use super::input::InputResponses;
use super::message::message;
use crate::raw::RawJson;

message! {
    /// A resource of a server (RES-008).
    Resource {
        /// URI by which it is read (RES-019).
        uri: String = "uri",
        /// Name for programs.
        name: String = "name",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description for a model.
        opt description: String = "description",
        /// Media type.
        opt mime_type: String = "mimeType",
        /// Size in bytes, before any encoding.
        opt size: u64 as Integer = "size",
        /// Audience and importance.
        hint annotations: Annotations = "annotations",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
        /// Metadata (since 2025-06-18).
        opt meta: RawJson as Object = "_meta",
    }

    /// A template for the URIs of resources (RES-009).
    ResourceTemplate {
        /// URI template (RFC 6570).
        uri_template: String = "uriTemplate",
        /// Name for programs; of a server that leaves it out, the template.
        name: String = "name" or uri_template,
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description for a model.
        opt description: String = "description",
        /// Media type of all matching resources; `None` if they differ.
        opt mime_type: String = "mimeType",
        /// Audience and importance.
        hint annotations: Annotations = "annotations",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
        /// Metadata (since 2025-06-18).
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `resources/list`: one page (RES-003).
    ListResourcesResult {
        /// The resources.
        resources: Vec<Resource> as List = "resources",
    } {
        /// Cursor of the next page; absent on the last page (PAGE-003, PAGE-004).
        opt next_cursor: Cursor = "nextCursor",
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `resources/templates/list`: one page (RES-004).
    ListResourceTemplatesResult {
        /// The templates.
        resource_templates: Vec<ResourceTemplate> as List = "resourceTemplates",
    } {
        /// Cursor of the next page; absent on the last page (PAGE-003, PAGE-004).
        opt next_cursor: Cursor = "nextCursor",
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `resources/read` (RES-005).
    ReadResourceParams<'a> {
        /// URI of the resource.
        uri: Cow<'a, str> as CowStr = "uri",
    } {
        /// Input responses (since 2026-07-28; MRTR-014); a client's engine adds them.
        opt input_responses: InputResponses<'a> = "inputResponses",
        /// `requestState` that came with the input requests (since 2026-07-28; MRTR-014).
        opt request_state: Cow<'a, str> as CowStr = "requestState",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `resources/read` (RES-005).
    ReadResourceResult<'a> {
        /// Contents of the resource; a folder may have several (RES-006).
        contents: Vec<ResourceContents<'a>> = "contents",
    } {
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Contents of a resource as text (CONT-003).
    TextResourceContents<'a> {
        /// URI of the resource.
        uri: Cow<'a, str> as CowStr = "uri",
        /// The text.
        text: Cow<'a, str> as CowStr = "text",
    } {
        /// Media type.
        opt mime_type: Cow<'a, str> as CowStr = "mimeType",
        /// Metadata (since 2025-06-18; CONT-006).
        opt meta: RawJson as Object = "_meta",
    }

    /// Contents of a resource as bytes (CONT-003, RES-020).
    BlobResourceContents<'a> {
        /// URI of the resource.
        uri: Cow<'a, str> as CowStr = "uri",
        /// Bytes in Base64 with the standard alphabet.
        blob: Cow<'a, str> as CowStr = "blob",
    } {
        /// Media type.
        opt mime_type: Cow<'a, str> as CowStr = "mimeType",
        /// Metadata (since 2025-06-18; CONT-006).
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `resources/subscribe` and `resources/unsubscribe` (up to and including 2025-11-25; RES-010).
    SubscribeParams {
        /// URI of the resource.
        uri: String = "uri",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/resources/updated` (RES-011, RES-013).
    ResourceUpdatedParams {
        /// URI of the changed resource; may be a part of the subscribed one.
        uri: String = "uri",
    } {
        /// Metadata; since 2026-07-28 it names the subscription ([`NotificationMeta`](super::NotificationMeta)).
        opt meta: RawJson as Object = "_meta",
    }
}

/// Contents of a resource, distinguished by the member `text` or `blob` (CONT-003).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResourceContents<'a> {
    /// Text.
    Text(TextResourceContents<'a>),
    /// Bytes.
    Blob(BlobResourceContents<'a>),
}

impl Resource {
    /// Media type of a directory (SKILL-041).
    pub const DIRECTORY: &str = "inode/directory";

    /// Returns whether this is a directory, whose content a method of an extension lists (SKILL-041).
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.mime_type.as_deref() == Some(Self::DIRECTORY)
    }
}

impl<'a> ResourceContents<'a> {
    /// Creates text contents.
    #[must_use]
    pub fn text(uri: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(TextResourceContents::new(uri, text))
    }

    /// Creates binary contents from Base64.
    #[must_use]
    pub fn blob(uri: impl Into<Cow<'a, str>>, blob: impl Into<Cow<'a, str>>) -> Self {
        Self::Blob(BlobResourceContents::new(uri, blob))
    }

    /// Creates binary contents from bytes.
    #[must_use]
    pub fn blob_bytes(uri: impl Into<Cow<'a, str>>, bytes: &[u8]) -> Self {
        Self::blob(uri, super::content::base64(bytes))
    }

    /// Returns the URI.
    #[must_use]
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(text) => &text.uri,
            Self::Blob(blob) => &blob.uri,
        }
    }

    /// Returns the media type, if it is known.
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.mime_type.as_deref(),
            Self::Blob(blob) => blob.mime_type.as_deref(),
        }
    }

    /// Returns the text of text contents, or `None` for binary ones.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            Self::Blob(_) => None,
        }
    }

    /// Converts to a value that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> ResourceContents<'static> {
        self.into_static()
    }
}

super::union::from!(<'a> ResourceContents<'a>, text: TextResourceContents<'a> => Self::Text(text));
super::union::from!(<'a> ResourceContents<'a>, blob: BlobResourceContents<'a> => Self::Blob(blob));

impl IntoStatic for ResourceContents<'_> {
    type Owned = ResourceContents<'static>;
    fn into_static(self) -> ResourceContents<'static> {
        match self {
            Self::Text(text) => ResourceContents::Text(text.into_static()),
            Self::Blob(blob) => ResourceContents::Blob(blob.into_static()),
        }
    }
}

super::union::serialize_variants! { ResourceContents<'_>: Text Blob }

#[allow(dead_code, unreachable_pub, reason = "read and never made")]
mod either {
    use super::{Cow, RawJson, message};

    message! {
        /// Contents whose kind is not known yet.
        Contents<'a> {
            /// In both kinds.
            uri: Cow<'a, str> as CowStr = "uri",
        } {
            /// In text contents.
            opt text: Cow<'a, str> as CowStr = "text",
            /// In binary contents.
            opt blob: Cow<'a, str> as CowStr = "blob",
            /// In both kinds.
            opt mime_type: Cow<'a, str> as CowStr = "mimeType",
            /// In both kinds.
            opt meta: RawJson as Object = "_meta",
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ResourceContents<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let either::Contents { uri, text, blob, mime_type, meta, mut extra } =
            either::Contents::deserialize(deserializer)?;
        match (text, blob) {
            (Some(text), blob) => {
                if let Some(blob) = blob {
                    extra.insert("blob", RawJson::encode(&*blob).map_err(D::Error::custom)?);
                }
                Ok(Self::Text(TextResourceContents { uri, text, mime_type, meta, extra }))
            }
            (None, Some(blob)) => Ok(Self::Blob(BlobResourceContents { uri, blob, mime_type, meta, extra })),
            (None, None) => Err(D::Error::missing_field("text")),
        }
    }
}

#[cfg(test)]
mod tests;
