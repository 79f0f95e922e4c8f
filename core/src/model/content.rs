//! Content blocks (CONT).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize};

use super::base::{Annotations, Icon};
use super::message::message;
use super::own::Own;
use super::resources::ResourceContents;
use super::union::union;
use crate::raw::RawJson;

message! {
    /// Plain text (CONT-001)
    TextContent<'a> ("type" = "text") {
        /// The text
        text: Cow<'a, str> as Text = "text",
    } {
        /// For whom it is and how much it matters
        opt annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006)
        opt meta: RawJson = "_meta",
    }

    /// A picture (CONT-001)
    ImageContent<'a> ("type" = "image") {
        /// The bytes, in Base64 with the standard alphabet (CONT-002)
        data: Cow<'a, str> as Text = "data",
        /// Its media type, `image/png` for instance
        mime_type: Cow<'a, str> as Text = "mimeType",
    } {
        /// For whom it is and how much it matters
        opt annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006)
        opt meta: RawJson = "_meta",
    }

    /// Sound (since 2025-03-26; CONT-001)
    ///
    /// A peer of 2024-11-05 gets a text that says what was left out (CONT-008).
    AudioContent<'a> ("type" = "audio") {
        /// The bytes, in Base64 with the standard alphabet (CONT-002)
        data: Cow<'a, str> as Text = "data",
        /// Its media type, `audio/wav` for instance
        mime_type: Cow<'a, str> as Text = "mimeType",
    } {
        /// For whom it is and how much it matters
        opt annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006)
        opt meta: RawJson = "_meta",
    }

    /// Where a resource can be read; it need not stand in the list of resources (since 2025-06-18; TOOL-018)
    ///
    /// An older peer gets a text with the name, the URI and the description (CONT-008).
    ResourceLink<'a> ("type" = "resource_link") {
        /// The URI to read it by
        uri: Cow<'a, str> as Text = "uri",
        /// Name for programs
        name: Cow<'a, str> as Text = "name",
    } {
        /// Name for people
        opt title: Cow<'a, str> as Text = "title",
        /// What it is, for a model to read
        opt description: Cow<'a, str> as Text = "description",
        /// Its media type
        opt mime_type: Cow<'a, str> as Text = "mimeType",
        /// Its size in bytes, before any encoding
        opt size: u64 as Integer = "size",
        /// For whom it is and how much it matters
        opt annotations: Box<Annotations> = "annotations",
        /// Pictures for it (since 2025-11-25; META-026)
        list icons: Vec<Icon> = "icons",
        /// Metadata (CONT-006)
        opt meta: RawJson = "_meta",
    }

    /// A resource, there and then (CONT-003)
    EmbeddedResource<'a> ("type" = "resource") {
        /// What the resource holds
        resource: ResourceContents<'a> = "resource",
    } {
        /// For whom it is and how much it matters
        opt annotations: Box<Annotations> = "annotations",
        /// Metadata (since 2025-06-18; CONT-006)
        opt meta: RawJson = "_meta",
    }
}

union! {
    /// A piece of what a tool or a prompt says (`ContentBlock`; CONT-001)
    Content<'a> by "type" {
        /// Plain text
        Text(TextContent<'a>) = "text",
        /// A picture
        Image(ImageContent<'a>) = "image",
        /// Sound (since 2025-03-26)
        Audio(AudioContent<'a>) = "audio",
        /// Where a resource can be read (since 2025-06-18)
        ResourceLink(Box<ResourceLink<'a>>) = "resource_link",
        /// A resource itself
        Resource(Box<EmbeddedResource<'a>>) = "resource",
    }
}

impl<'a> Content<'a> {
    /// A text block
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// A picture, given in Base64
    #[must_use]
    pub fn image(data: impl Into<Cow<'a, str>>, mime_type: impl Into<Cow<'a, str>>) -> Self {
        Self::Image(ImageContent::new(data, mime_type))
    }

    /// The text, if this is a text block
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl<'a> From<&'a str> for Content<'a> {
    fn from(text: &'a str) -> Self {
        Self::text(text)
    }
}

impl From<alloc::string::String> for Content<'_> {
    fn from(text: alloc::string::String) -> Self {
        Self::text(text)
    }
}

/// Content blocks: the one that most results have stands without an allocation
#[derive(Clone, Debug)]
pub enum Blocks<'a> {
    /// Exactly one
    One([Content<'a>; 1]),
    /// Any number
    Many(Vec<Content<'a>>),
}

impl Blocks<'_> {
    /// The same, borrowing from nothing
    #[must_use]
    pub fn into_owned(self) -> Blocks<'static> {
        self.own()
    }
}

impl PartialEq for Blocks<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Default for Blocks<'_> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<'a> From<Vec<Content<'a>>> for Blocks<'a> {
    fn from(blocks: Vec<Content<'a>>) -> Self {
        Self::Many(blocks)
    }
}

impl<'a> From<Content<'a>> for Blocks<'a> {
    fn from(block: Content<'a>) -> Self {
        Self::One([block])
    }
}

impl<'a> core::ops::Deref for Blocks<'a> {
    type Target = [Content<'a>];

    fn deref(&self) -> &[Content<'a>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl Own for Blocks<'_> {
    type Owned = Blocks<'static>;
    fn own(self) -> Blocks<'static> {
        match self {
            Self::One([one]) => Blocks::One([one.own()]),
            Self::Many(many) => Blocks::Many(many.own()),
        }
    }
}

impl Serialize for Blocks<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.len()))?;
        for block in &**self {
            seq.serialize_element(block)?;
        }
        seq.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> serde::de::Visitor<'de> for Read {
            type Value = Blocks<'de>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("an array of content")
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Blocks<'de>, A::Error> {
                let Some(first) = seq.next_element()? else { return Ok(Blocks::default()) };
                let Some(second) = seq.next_element()? else { return Ok(Blocks::One([first])) };
                let mut many = alloc::vec![first, second];
                while let Some(block) = seq.next_element()? {
                    many.push(block);
                }
                Ok(Blocks::Many(many))
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

#[cfg(test)]
pub(super) mod tests;
