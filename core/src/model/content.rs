//! Content blocks (CONT).

use alloc::borrow::Cow;

use serde::{Deserialize, Serialize};

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
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            #[serde(borrow)]
            text: Option<Cow<'a, str>>,
        }
        // Read twice: once to see the kind, then as what it is; nothing of an unknown kind is lost.
        let raw: &serde_json::value::RawValue = Deserialize::deserialize(deserializer)?;
        let block: Block<'a> = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        match block.text {
            Some(text) if block.r#type == "text" => Ok(Self::Text(text)),
            _ => crate::RawJson::new(bytes::Bytes::copy_from_slice(raw.get().as_bytes()))
                .map(Self::Other)
                .map_err(serde::de::Error::custom),
        }
    }
}
