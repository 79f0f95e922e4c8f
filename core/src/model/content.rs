//! Content blocks (CONT).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize};

use super::base::{Annotations, Icon, IntoStatic};
use super::message::message;
use super::resources::ResourceContents;
use super::union::{from, union};
use crate::raw::RawJson;

message! {
    /// Plain text (CONT-001).
    TextContent<'a> ("type" = "text") {
        /// The text.
        text: Cow<'a, str> as CowStr = "text",
    } {
        /// Audience and importance.
        hint annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006).
        opt meta: RawJson as Object = "_meta",
    }

    /// An image (CONT-001).
    ImageContent<'a> ("type" = "image") {
        /// Bytes in Base64 with the standard alphabet (CONT-002).
        data: Cow<'a, str> as CowStr = "data",
        /// Media type (`image/png`, for example).
        mime_type: Cow<'a, str> as CowStr = "mimeType",
    } {
        /// Audience and importance.
        hint annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006).
        opt meta: RawJson as Object = "_meta",
    }

    /// Audio (since 2025-03-26; CONT-001).
    ///
    /// A peer of 2024-11-05 gets a text block that says what was left out (CONT-008).
    AudioContent<'a> ("type" = "audio") {
        /// Bytes in Base64 with the standard alphabet (CONT-002).
        data: Cow<'a, str> as CowStr = "data",
        /// Media type (`audio/wav`, for example).
        mime_type: Cow<'a, str> as CowStr = "mimeType",
    } {
        /// Audience and importance.
        hint annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006).
        opt meta: RawJson as Object = "_meta",
    }

    /// Link to a resource that can be read; it need not be in the list of resources (since 2025-06-18; TOOL-018).
    ///
    /// A peer of an older revision gets a text block with the name, the URI and the description (CONT-008).
    ResourceLink<'a> ("type" = "resource_link") {
        /// URI of the resource.
        uri: Cow<'a, str> as CowStr = "uri",
        /// Name for programs.
        name: Cow<'a, str> as CowStr = "name",
    } {
        /// Name for display.
        opt title: Cow<'a, str> as CowStr = "title",
        /// Description for a model.
        opt description: Cow<'a, str> as CowStr = "description",
        /// Media type.
        opt mime_type: Cow<'a, str> as CowStr = "mimeType",
        /// Size in bytes, before any encoding.
        opt size: u64 as Integer = "size",
        /// Audience and importance.
        hint annotations: Box<Annotations> = "annotations",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
        /// Metadata (CONT-006).
        opt meta: RawJson as Object = "_meta",
    }

    /// A resource with its contents (CONT-003).
    EmbeddedResource<'a> ("type" = "resource") {
        /// Contents of the resource.
        resource: ResourceContents<'a> = "resource",
    } {
        /// Audience and importance.
        hint annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006).
        opt meta: RawJson as Object = "_meta",
    }
}

union! {
    /// One content block of a tool result or a prompt (`ContentBlock`; CONT-001).
    Content<'a> by "type" {
        /// Plain text.
        Text(TextContent<'a>) = "text",
        /// An image.
        Image(ImageContent<'a>) = "image",
        /// Audio (since 2025-03-26).
        Audio(AudioContent<'a>) = "audio",
        /// A link to a resource (since 2025-06-18).
        ResourceLink(Box<ResourceLink<'a>>) = "resource_link",
        /// A resource with its contents.
        Resource(Box<EmbeddedResource<'a>>) = "resource",
    }
}

impl<'a> Content<'a> {
    /// Creates a text block.
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Creates an image from Base64.
    #[must_use]
    pub fn image(data: impl Into<Cow<'a, str>>, mime_type: impl Into<Cow<'a, str>>) -> Self {
        Self::Image(ImageContent::new(data, mime_type))
    }

    /// Creates audio from Base64.
    #[must_use]
    pub fn audio(data: impl Into<Cow<'a, str>>, mime_type: impl Into<Cow<'a, str>>) -> Self {
        Self::Audio(AudioContent::new(data, mime_type))
    }

    /// Returns the text of a text block, or `None` for any other block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl Content<'static> {
    /// Creates an image from bytes.
    #[must_use]
    pub fn image_bytes(bytes: &[u8], mime_type: impl Into<Cow<'static, str>>) -> Self {
        Self::image(base64(bytes), mime_type)
    }

    /// Creates audio from bytes.
    #[must_use]
    pub fn audio_bytes(bytes: &[u8], mime_type: impl Into<Cow<'static, str>>) -> Self {
        Self::audio(base64(bytes), mime_type)
    }
}

/// Encodes bytes in Base64 as the protocol requires (CONT-002, RES-020).
pub(crate) fn base64(bytes: &[u8]) -> alloc::string::String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

from!(<'a> Content<'a>, text: &'a str => Self::text(text));
from!(<'a> Content<'a>, text: alloc::string::String => Self::text(text));

/// A list of content blocks; a single block needs no allocation.
#[derive(Clone, Debug)]
pub enum ContentBlocks<'a> {
    /// Exactly one block.
    One([Content<'a>; 1]),
    /// Any number of blocks.
    Many(Vec<Content<'a>>),
}

impl ContentBlocks<'_> {
    /// Converts to a value that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> ContentBlocks<'static> {
        self.into_static()
    }
}

impl PartialEq for ContentBlocks<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Default for ContentBlocks<'_> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

from!(<'a> ContentBlocks<'a>, blocks: Vec<Content<'a>> => Self::Many(blocks));
from!(<'a> ContentBlocks<'a>, block: Content<'a> => Self::One([block]));

impl<'a> core::ops::Deref for ContentBlocks<'a> {
    type Target = [Content<'a>];

    fn deref(&self) -> &[Content<'a>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl core::ops::DerefMut for ContentBlocks<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl IntoStatic for ContentBlocks<'_> {
    type Owned = ContentBlocks<'static>;
    fn into_static(self) -> ContentBlocks<'static> {
        match self {
            Self::One([one]) => ContentBlocks::One([one.into_static()]),
            Self::Many(many) => ContentBlocks::Many(many.into_static()),
        }
    }
}

impl Serialize for ContentBlocks<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.len()))?;
        for block in &**self {
            seq.serialize_element(block)?;
        }
        seq.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ContentBlocks<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentBlocksVisitor;
        impl<'de> serde::de::Visitor<'de> for ContentBlocksVisitor {
            type Value = ContentBlocks<'de>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("an array of content")
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<ContentBlocks<'de>, A::Error> {
                let Some(first) = seq.next_element()? else { return Ok(ContentBlocks::default()) };
                let Some(second) = seq.next_element()? else { return Ok(ContentBlocks::One([first])) };
                let mut many = alloc::vec![first, second];
                while let Some(block) = seq.next_element()? {
                    many.push(block);
                }
                Ok(ContentBlocks::Many(many))
            }
        }
        deserializer.deserialize_seq(ContentBlocksVisitor)
    }
}

#[cfg(test)]
pub(super) mod tests;
