//! Content blocks (CONT).

use alloc::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::json::{Scanner, Text};

/// A piece of what a tool says
///
/// Kinds that this version does not know are kept as [`Content::Other`] when read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content<'a> {
    /// Plain text
    Text(Cow<'a, str>),
    /// A block of another kind, as JSON
    Other(crate::RawJson),
}

impl<'a> Content<'a> {
    /// A text block
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// The text, if this is a text block
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text<'a> {
            r#type: &'a str,
            text: &'a str,
        }
        match self {
            Self::Text(text) => Text { r#type: "text", text }.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Seen as text first and then as what its `type` says, so that nothing of an unknown kind is lost.
        let raw: &'de serde_json::value::RawValue = Deserialize::deserialize(deserializer)?;
        let (mut is_text, mut text) = (false, None);
        let mut scanner = Scanner::trusted(raw.get().as_bytes());
        let _ = scanner.object(|s, name| {
            match (name.raw, s.peek()) {
                (b"type", b'"') => is_text = s.string()?.raw == b"text",
                (b"text", b'"') => text = Some(s.string()?),
                _ => {
                    s.value()?;
                }
            }
            Ok(())
        });
        if let Some(text) = text.filter(|_| is_text).and_then(Text::into_str) {
            return Ok(Self::Text(text));
        }
        crate::RawJson::new(bytes::Bytes::copy_from_slice(raw.get().as_bytes()))
            .map(Self::Other)
            .map_err(serde::de::Error::custom)
    }
}
