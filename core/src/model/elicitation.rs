//! `elicitation/create`: a server asks the client's user (since 2025-06-18; ELIC).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize, de};

use super::base::{IntoStatic, TaskMetadata};
use super::codec::{Encode, Number, ReadByContent, Rereads, exact_integer};
use super::form::PrimitiveSchemaDefinition;
use super::map::Map;
use super::message::message;
use super::string_enum::string_enum;
use crate::json::member;
use crate::raw::{CheckedText, RawJson};

string_enum! {
    /// Way in which the user is asked (since 2025-11-25; ELIC-009).
    ElicitMode {
        /// By a form; the meaning of a missing `mode` (ELIC-010).
        Form = "form",
        /// By a web page.
        Url = "url",
    }

    /// Action of the user (ELIC-018).
    ElicitAction {
        /// Submitted the form, or agreed to open the page (ELIC-034).
        Accept = "accept",
        /// Refused.
        Decline = "decline",
        /// Dismissed the request without an answer.
        Cancel = "cancel",
    }
}

message! {
    /// A form for the user (ELIC-008, ELIC-009).
    ///
    /// Do not request secrets with a form; use a web page ([`ElicitUrlParams`]; ELIC-022, ELIC-023).
    ElicitFormParams {
        /// Explanation for the user.
        message: String = "message",
        /// The fields of the form.
        requested_schema: ElicitSchema = "requestedSchema",
    } {
        /// `form`, or absent (since 2025-11-25; ELIC-011).
        opt mode: ElicitMode = "mode",
        /// Request to run it as a task (2025-11-25 only; TASK-008).
        opt task: TaskMetadata = "task",
        /// Metadata (up to and including 2025-11-25).
        opt meta: RawJson as Object = "_meta",
    }

    /// A web page for the user (since 2025-11-25; ELIC-009).
    ElicitUrlParams ("mode" = "url") by shape_name {
        /// Explanation for the user.
        message: String = "message",
        /// URL of the page; it must hold no secrets and grant no access by itself (ELIC-036).
        url: String = "url",
    } {
        /// Id that `notifications/elicitation/complete` refers to (2025-11-25 only, required there; ELIC-025,
        /// ELIC-032).
        opt elicitation_id: String = "elicitationId",
        /// Request to run it as a task (2025-11-25 only; TASK-008).
        opt task: TaskMetadata = "task",
        /// Metadata (2025-11-25 only).
        opt meta: RawJson as Object = "_meta",
    }

    /// Fields of a form: a flat object (ELIC-012).
    ElicitSchema ("type" = "object") {
        /// The fields by name, in display order.
        properties: Map<PrimitiveSchemaDefinition> = "properties",
    } {
        /// Dialect of the schema (since 2025-11-25).
        opt schema: String = "$schema",
        /// Names of the required fields.
        opt required: Vec<String> = "required",
    }

    /// Result of `elicitation/create` (ELIC-018).
    ElicitResult {
        /// Action of the user.
        action: ElicitAction = "action",
    } {
        /// Values of the fields by name: only with `accept`, and only for a form.
        opt content: Map<ElicitValue> = "content",
        /// Metadata (up to and including 2025-11-25).
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/elicitation/complete` (2025-11-25 only; ELIC-025).
    ElicitationCompleteParams {
        /// Id of the elicitation that is complete.
        elicitation_id: String = "elicitationId",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }
}

/// Parameters of `elicitation/create`, distinguished by `mode` (since 2025-06-18; ELIC-009).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form.
    Form(ElicitFormParams),
    /// A web page (since 2025-11-25).
    Url(ElicitUrlParams),
    /// An unknown mode, as JSON.
    Other(RawJson),
}

impl ElicitParams {
    /// Creates the parameters of a form.
    #[must_use]
    pub fn form(message: impl Into<String>, schema: ElicitSchema) -> Self {
        Self::Form(ElicitFormParams::new(message, schema))
    }

    /// Creates the parameters of a web page.
    #[must_use]
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrlParams::new(message, url))
    }
}

super::union::from!(ElicitParams, form: ElicitFormParams => Self::Form(form));
super::union::from!(ElicitParams, url: ElicitUrlParams => Self::Url(url));

impl IntoStatic for ElicitParams {
    type Owned = Self;
    fn into_static(self) -> Self {
        self
    }
}

super::union::serialize_variants! { ElicitParams: Form Url Other }

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de> ReadByContent<'de> for ElicitParams {
    fn read_by_content<A: de::SeqAccess<'de>>(value: &mut Rereads<A>) -> Result<Self, A::Error> {
        // Nearly always a form, and then its mode is not looked for before.
        let form = value.read::<ElicitFormParams>();
        if matches!(&form, Ok(form) if matches!(form.mode, None | Some(ElicitMode::Form))) {
            return form.map(Self::Form);
        }
        let CheckedText(text) = value.read()?;
        match member(text.as_bytes(), "mode").unwrap_or(b"\"form\"") {
            b"\"form\"" | b"null" => form.map(Self::Form),
            b"\"url\"" => value.read().map(Self::Url),
            [b'"', ..] => {
                // Kept as it is, unless a member occurs twice.
                value.read::<Map<de::IgnoredAny>>()?;
                value.read().map(Self::Other)
            }
            _ => Err(de::Error::custom("`mode`: expected a string")),
        }
    }
}

impl ElicitUrlParams {
    fn shape_name(&self) -> &'static str {
        if self.elicitation_id.is_some() {
            "$mcp::ElicitUrlParams"
        } else {
            "$mcp::ElicitUrlParams+anonymous"
        }
    }
}

impl ElicitSchema {
    /// Adds an optional field.
    #[must_use]
    pub fn optional(mut self, name: impl Into<String>, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        self.properties.insert(name, field.into());
        self
    }

    /// Adds a required field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        let name = name.into();
        self.required.get_or_insert_default().push(name.clone());
        self.optional(name, field)
    }
}

impl Default for ElicitSchema {
    /// Creates a form without fields.
    fn default() -> Self {
        Self::new(Map::new())
    }
}

impl ElicitResult {
    /// Creates the result for a submitted form.
    #[must_use]
    pub fn accept(content: impl Into<Map<ElicitValue>>) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// Creates the result for a refusal.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Creates the result for a dismissed request.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

/// Value of a form field (ELIC-018).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitValue {
    /// A text, or the choice of a single-select field.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number (ELIC-019).
    Number(f64),
    /// A boolean.
    Boolean(bool),
    /// The choices of a multi-select field (since 2025-11-25).
    Choices(Vec<String>),
}

macro_rules! value_from {
    ($($type:ty => $kind:ident)*) => {$(
        impl From<$type> for ElicitValue {
            fn from(value: $type) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}
value_from!(&str => Text String => Text i64 => Integer i32 => Integer f64 => Number bool => Boolean Vec<String> => Choices);

impl Serialize for ElicitValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Integer(int) => serializer.serialize_i64(*int),
            Self::Number(number) => Number::write(number, serializer),
            Self::Boolean(boolean) => serializer.serialize_bool(*boolean),
            // It has a name for the shaping serializer, because not every revision has lists of choices.
            Self::Choices(choices) => serializer.serialize_newtype_struct("$mcp::ElicitChoices", choices),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElicitValueVisitor;
        impl<'de> de::Visitor<'de> for ElicitValueVisitor {
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
                // Normalized as `Number` writes it, so that each value has one form.
                Ok(exact_integer(number).map_or(ElicitValue::Number(number), ElicitValue::Integer))
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
        deserializer.deserialize_any(ElicitValueVisitor)
    }
}

#[cfg(test)]
mod tests;
