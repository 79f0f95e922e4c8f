//! `elicitation/create`: a server asks the client's user (since 2025-06-18; ELIC).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de};

use super::codec::{Number, Write, whole};
use super::form::PrimitiveSchemaDefinition;
use super::map::Map;
use super::message::message;
use super::own::Own;
use super::words::words;
use crate::json::object_members;
use crate::raw::{RawJson, borrowed};

words! {
    /// How the user is asked (since 2025-11-25; ELIC-009)
    ElicitMode {
        /// By a form; what a missing one means (ELIC-010)
        Form = "form",
        /// By a web page
        Url = "url",
    }

    /// What the user did (ELIC-018)
    ElicitAction {
        /// Filled in the form, or agreed to open the page (ELIC-034)
        Accept = "accept",
        /// Said no
        Decline = "decline",
        /// Closed the question without an answer
        Cancel = "cancel",
    }
}

message! {
    /// A form for the user (ELIC-008, ELIC-009)
    ///
    /// Not for secrets: those are asked for by a web page ([`ElicitUrlParams`]; ELIC-022, ELIC-023).
    ElicitFormParams {
        /// What it is about, for people
        message: String = "message",
        /// What is to be filled in
        requested_schema: ElicitSchema = "requestedSchema",
    } {
        /// `form`, or absent (since 2025-11-25; ELIC-011)
        opt mode: ElicitMode = "mode",
        /// Metadata (until 2025-11-25)
        opt meta: RawJson as Object = "_meta",
    }

    /// A web page for the user (since 2025-11-25; ELIC-009)
    ElicitUrlParams ("mode" = "url") by form {
        /// What it is about, for people
        message: String = "message",
        /// The page: without secrets and without access of its own (ELIC-036)
        url: String = "url",
    } {
        /// By which the end of the matter is told (2025-11-25 only, where it must be there; ELIC-025, ELIC-032)
        opt elicitation_id: String = "elicitationId",
        /// Metadata (2025-11-25 only)
        opt meta: RawJson as Object = "_meta",
    }

    /// What is to be filled in: a flat object (ELIC-012)
    ElicitSchema ("type" = "object") {
        /// The fields by name, in the order in which they are to be shown
        properties: Map<PrimitiveSchemaDefinition> = "properties",
    } {
        /// The dialect of the schema (since 2025-11-25)
        opt schema: String = "$schema",
        /// The names of the fields that must be filled in
        opt required: Vec<String> = "required",
    }

    /// The answer to `elicitation/create` (ELIC-018)
    ElicitResult {
        /// What the user did
        action: ElicitAction = "action",
    } {
        /// The fields by name: only with `accept`, and only for a form
        opt content: Map<ElicitValue> = "content",
        /// Metadata (until 2025-11-25)
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `notifications/elicitation/complete` (2025-11-25 only; ELIC-025)
    ElicitationCompleteParams {
        /// Which one
        elicitation_id: String = "elicitationId",
    } {
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }
}

/// The parameters of `elicitation/create`, told apart by `mode` (since 2025-06-18; ELIC-009)
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form
    Form(ElicitFormParams),
    /// A web page (since 2025-11-25)
    Url(ElicitUrlParams),
    /// A mode that this version does not know, as JSON
    Other(RawJson),
}

impl ElicitParams {
    /// A form
    #[must_use]
    pub fn form(message: impl Into<String>, schema: ElicitSchema) -> Self {
        Self::Form(ElicitFormParams::new(message, schema))
    }

    /// A web page
    #[must_use]
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrlParams::new(message, url))
    }
}

impl From<ElicitFormParams> for ElicitParams {
    fn from(form: ElicitFormParams) -> Self {
        Self::Form(form)
    }
}

impl From<ElicitUrlParams> for ElicitParams {
    fn from(url: ElicitUrlParams) -> Self {
        Self::Url(url)
    }
}

impl Own for ElicitParams {
    type Owned = Self;
    fn own(self) -> Self {
        self
    }
}

impl Serialize for ElicitParams {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Form(form) => form.serialize(serializer),
            Self::Url(url) => url.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(borrowed(deserializer)?).map_err(de::Error::custom)
    }
}

impl ElicitParams {
    /// The same, of a text that was checked
    pub(crate) fn of(text: &str) -> Result<Self, serde_json::Error> {
        let mut mode = &b"\"form\""[..];
        object_members(text.as_bytes(), |name, value| {
            if name == b"mode" {
                mode = value;
            }
        });
        match mode {
            b"\"form\"" | b"null" => serde_json::from_str(text).map(Self::Form),
            b"\"url\"" => serde_json::from_str(text).map(Self::Url),
            [b'"', ..] => Ok(Self::Other(RawJson::trusted(Bytes::copy_from_slice(text.as_bytes())))),
            _ => Err(de::Error::custom("`mode`: it is not a string")),
        }
    }
}

impl ElicitUrlParams {
    fn form(&self) -> &'static str {
        if self.elicitation_id.is_some() {
            "$mcp::ElicitUrlParams"
        } else {
            "$mcp::ElicitUrlParams+anonymous"
        }
    }
}

impl ElicitSchema {
    /// Adds a field that may be left empty
    #[must_use]
    pub fn optional(mut self, name: impl Into<String>, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        self.properties.insert(name, field.into());
        self
    }

    /// Adds a field that must be filled in
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        let name = name.into();
        self.required.get_or_insert_default().push(name.clone());
        self.optional(name, field)
    }
}

impl Default for ElicitSchema {
    /// Nothing to fill in yet
    fn default() -> Self {
        Self::new(Map::new())
    }
}

impl ElicitResult {
    /// The user filled in the form
    #[must_use]
    pub fn accept(content: impl Into<Map<ElicitValue>>) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// The user said no
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The user closed the question
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

/// What was filled into a field (ELIC-018)
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitValue {
    /// A text, or the one choice of an enum
    Text(String),
    /// A whole number
    Integer(i64),
    /// A number (ELIC-019)
    Number(f64),
    /// Yes or no
    Boolean(bool),
    /// The choices of an enum that allows several (since 2025-11-25)
    Choices(Vec<String>),
}

macro_rules! values {
    ($($type:ty => $kind:ident)*) => {$(
        impl From<$type> for ElicitValue {
            fn from(value: $type) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}
values!(&str => Text String => Text i64 => Integer i32 => Integer f64 => Number bool => Boolean Vec<String> => Choices);

impl Serialize for ElicitValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Integer(int) => serializer.serialize_i64(*int),
            Self::Number(number) => Number::write(number, serializer),
            Self::Boolean(boolean) => serializer.serialize_bool(*boolean),
            // A name of its own, since not every revision has them.
            Self::Choices(choices) => serializer.serialize_newtype_struct("$mcp::ElicitChoices", choices),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> de::Visitor<'de> for Read {
            type Value = ElicitValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number, a boolean or an array of strings")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ElicitValue, E> {
                Ok(ElicitValue::Text(text.into()))
            }
            fn visit_i64<E: de::Error>(self, int: i64) -> Result<ElicitValue, E> {
                Ok(ElicitValue::Integer(int))
            }
            fn visit_u64<E: de::Error>(self, int: u64) -> Result<ElicitValue, E> {
                Ok(i64::try_from(int).map_or(ElicitValue::Number(int as f64), ElicitValue::Integer))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<ElicitValue, E> {
                // As it is written: one value has one form.
                Ok(whole(number).map_or(ElicitValue::Number(number), ElicitValue::Integer))
            }
            fn visit_bool<E: de::Error>(self, boolean: bool) -> Result<ElicitValue, E> {
                Ok(ElicitValue::Boolean(boolean))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<ElicitValue, A::Error> {
                let mut choices = Vec::new();
                while let Some(choice) = seq.next_element()? {
                    choices.push(choice);
                }
                Ok(ElicitValue::Choices(choices))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests;
