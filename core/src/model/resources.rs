//! Resources: lists, templates, what they hold, news about them (RES).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::base::{Annotations, CacheScope, Cursor, Icon, ResultType};
use super::input::InputResponses;
use super::message::message;
use super::own::Own;
use crate::raw::RawJson;

message! {
    /// A resource that a server offers (RES-008)
    Resource {
        /// What it is read by (RES-019)
        uri: String = "uri",
        /// Name for programs
        name: String = "name",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: String = "title",
        /// What it is, for a model to read
        opt description: String = "description",
        /// Its media type
        opt mime_type: String = "mimeType",
        /// Its size in bytes, before any encoding
        opt size: u64 as Integer = "size",
        /// For whom it is and how much it matters
        opt annotations: Annotations = "annotations",
        /// Pictures for it (since 2025-11-25; META-026)
        list icons: Vec<Icon> = "icons",
        /// Metadata (since 2025-06-18)
        opt meta: RawJson as Object = "_meta",
    }

    /// A family of resources (RES-009)
    ResourceTemplate {
        /// What their URIs look like: a template of RFC 6570
        uri_template: String = "uriTemplate",
        /// Name for programs
        name: String = "name",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: String = "title",
        /// What they are, for a model to read
        opt description: String = "description",
        /// The media type that all of them share; none when they differ
        opt mime_type: String = "mimeType",
        /// For whom they are and how much they matter
        opt annotations: Annotations = "annotations",
        /// Pictures for them (since 2025-11-25; META-026)
        list icons: Vec<Icon> = "icons",
        /// Metadata (since 2025-06-18)
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `resources/list`: one page (RES-003)
    ListResourcesResult {
        /// The resources
        resources: Vec<Resource> as List = "resources",
    } {
        /// Where the next page begins; absent on the last (PAGE-003, PAGE-004)
        opt next_cursor: Cursor = "nextCursor",
        /// How long it may be kept, in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006)
        opt ttl_ms: i64 as Millis = "ttlMs",
        /// Who may be given it while it is kept (since 2026-07-28)
        opt cache_scope: CacheScope = "cacheScope",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `resources/templates/list`: one page (RES-004)
    ListResourceTemplatesResult {
        /// The templates
        resource_templates: Vec<ResourceTemplate> as List = "resourceTemplates",
    } {
        /// Where the next page begins; absent on the last (PAGE-003, PAGE-004)
        opt next_cursor: Cursor = "nextCursor",
        /// How long it may be kept, in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006)
        opt ttl_ms: i64 as Millis = "ttlMs",
        /// Who may be given it while it is kept (since 2026-07-28)
        opt cache_scope: CacheScope = "cacheScope",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `resources/read` (RES-005)
    ReadResourceParams<'a> {
        /// Which resource
        uri: Cow<'a, str> as Text = "uri",
    } {
        /// Answers to what the server asked for (since 2026-07-28; MRTR-014); a client's engine adds them
        opt input_responses: InputResponses<'a> = "inputResponses",
        /// The state that the server gave along with its questions (since 2026-07-28; MRTR-014)
        opt request_state: Cow<'a, str> as Text = "requestState",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `resources/read` (RES-005)
    ReadResourceResult<'a> {
        /// What the resource holds; several when it is a folder, for instance (RES-006)
        contents: Vec<ResourceContents<'a>> = "contents",
    } {
        /// How long it may be kept, in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006)
        opt ttl_ms: i64 as Millis = "ttlMs",
        /// Who may be given it while it is kept (since 2026-07-28)
        opt cache_scope: CacheScope = "cacheScope",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// What a resource holds, as text (CONT-003)
    TextResourceContents<'a> {
        /// Its URI
        uri: Cow<'a, str> as Text = "uri",
        /// The text
        text: Cow<'a, str> as Text = "text",
    } {
        /// Its media type
        opt mime_type: Cow<'a, str> as Text = "mimeType",
        /// Metadata (since 2025-06-18; CONT-006)
        opt meta: RawJson as Object = "_meta",
    }

    /// What a resource holds, as bytes (CONT-003, RES-020)
    BlobResourceContents<'a> {
        /// Its URI
        uri: Cow<'a, str> as Text = "uri",
        /// The bytes, in Base64 with the standard alphabet
        blob: Cow<'a, str> as Text = "blob",
    } {
        /// Its media type
        opt mime_type: Cow<'a, str> as Text = "mimeType",
        /// Metadata (since 2025-06-18; CONT-006)
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `resources/subscribe` and `resources/unsubscribe` (until 2025-11-25; RES-010)
    SubscribeParams {
        /// Which resource
        uri: String = "uri",
    } {
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `notifications/resources/updated` (RES-011, RES-013)
    ResourceUpdatedParams {
        /// What has changed; possibly a part of what was subscribed to
        uri: String = "uri",
    } {
        /// Metadata; since 2026-07-28 it names the subscription ([`NotificationMeta`](super::NotificationMeta))
        opt meta: RawJson as Object = "_meta",
    }
}

/// What a resource holds: told apart by which of `text` and `blob` is there (CONT-003)
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResourceContents<'a> {
    /// Text
    Text(TextResourceContents<'a>),
    /// Bytes
    Blob(BlobResourceContents<'a>),
}

impl<'a> ResourceContents<'a> {
    /// Text at `uri`
    #[must_use]
    pub fn text(uri: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(TextResourceContents::new(uri, text))
    }

    /// Bytes at `uri`, given in Base64
    #[must_use]
    pub fn blob(uri: impl Into<Cow<'a, str>>, blob: impl Into<Cow<'a, str>>) -> Self {
        Self::Blob(BlobResourceContents::new(uri, blob))
    }

    /// Bytes at `uri`, given as such
    #[cfg(feature = "base64")]
    #[must_use]
    pub fn blob_bytes(uri: impl Into<Cow<'a, str>>, bytes: &[u8]) -> Self {
        Self::blob(uri, super::content::base64(bytes))
    }

    /// The URI
    #[must_use]
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(text) => &text.uri,
            Self::Blob(blob) => &blob.uri,
        }
    }

    /// The media type, if it is said
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.mime_type.as_deref(),
            Self::Blob(blob) => blob.mime_type.as_deref(),
        }
    }

    /// The text, if it is text
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            Self::Blob(_) => None,
        }
    }

    /// The same, borrowing from nothing
    #[must_use]
    pub fn into_owned(self) -> ResourceContents<'static> {
        self.own()
    }
}

impl<'a> From<TextResourceContents<'a>> for ResourceContents<'a> {
    fn from(text: TextResourceContents<'a>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<BlobResourceContents<'a>> for ResourceContents<'a> {
    fn from(blob: BlobResourceContents<'a>) -> Self {
        Self::Blob(blob)
    }
}

impl Own for ResourceContents<'_> {
    type Owned = ResourceContents<'static>;
    fn own(self) -> ResourceContents<'static> {
        match self {
            Self::Text(text) => ResourceContents::Text(text.own()),
            Self::Blob(blob) => ResourceContents::Blob(blob.own()),
        }
    }
}

impl Serialize for ResourceContents<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Blob(blob) => blob.serialize(serializer),
        }
    }
}

#[allow(dead_code, unreachable_pub, reason = "read and never made")]
mod either {
    use super::{Cow, RawJson, message};

    message! {
        /// Contents before it is known which they are
        Contents<'a> {
            /// As in both
            uri: Cow<'a, str> as Text = "uri",
        } {
            /// There in one
            opt text: Cow<'a, str> as Text = "text",
            /// There in the other
            opt blob: Cow<'a, str> as Text = "blob",
            /// As in both
            opt mime_type: Cow<'a, str> as Text = "mimeType",
            /// As in both
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
