//! Forms and their fields (ELIC-012 to ELIC-016): builders, derivation from types, and checks of answers.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de};

use super::message::message;
use super::string_enum::string_enum;
use crate::json::object_members;
use crate::raw::{RawJson, deserialize_borrowed};

mod build;
mod check;
#[cfg(feature = "schemars")]
mod derive;
mod format;
mod parse;
mod typed;

pub use build::EnumSchema;
#[cfg(feature = "schemars")]
pub(crate) use derive::schema_settings;
pub use parse::ElicitOutcome;

string_enum! {
    /// Format of a text field (ELIC-013).
    StringFormat {
        /// An e-mail address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date: `2026-07-28`.
        Date = "date",
        /// A date and time: `2026-07-28T12:00:00Z`.
        DateTime = "date-time",
    }

    /// Kind of a number field (ELIC-014).
    NumberKind {
        /// Any number.
        Number = "number",
        /// Integers.
        Integer = "integer",
    }
}

message! {
    /// A text field (ELIC-013).
    StringSchema ("type" = "string") {} {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Minimum number of characters.
        opt min_length: u64 as Integer = "minLength",
        /// Maximum number of characters.
        opt max_length: u64 as Integer = "maxLength",
        /// Required format.
        opt format: StringFormat = "format",
        /// Default value (since 2025-11-25).
        opt default: String = "default",
    }

    /// A number field (ELIC-014).
    NumberSchema {
        /// Any number, or integers.
        kind: NumberKind = "type",
    } {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Minimum value.
        opt minimum: f64 as Number = "minimum",
        /// Maximum value.
        opt maximum: f64 as Number = "maximum",
        /// Default value (since 2025-11-25).
        opt default: f64 as Number = "default",
    }

    /// A boolean field (ELIC-014).
    BooleanSchema ("type" = "boolean") {} {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Default value.
        opt default: bool = "default",
    }

    /// A single-select field (ELIC-015, ELIC-016).
    UntitledSingleSelectEnumSchema ("type" = "string") {
        /// The choices.
        values: Vec<String> = "enum",
    } {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Default choice (since 2025-11-25).
        opt default: String = "default",
    }

    /// A single-select field with titled choices (since 2025-11-25; ELIC-016).
    ///
    /// A peer of 2025-06-18 gets a [`LegacyTitledEnumSchema`].
    TitledSingleSelectEnumSchema ("type" = "string") {
        /// The choices.
        one_of: Vec<EnumOption> = "oneOf",
    } {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Default choice.
        opt default: String = "default",
    }

    /// A multi-select field (since 2025-11-25; ELIC-016).
    UntitledMultiSelectEnumSchema ("type" = "array") {
        /// The choices.
        items: UntitledEnumItems = "items",
    } {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Minimum number of choices.
        opt min_items: u64 as Integer = "minItems",
        /// Maximum number of choices.
        opt max_items: u64 as Integer = "maxItems",
        /// Default choices.
        opt default: Vec<String> = "default",
    }

    /// A multi-select field with titled choices (since 2025-11-25; ELIC-016).
    TitledMultiSelectEnumSchema ("type" = "array") {
        /// The choices.
        items: TitledEnumItems = "items",
    } {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Minimum number of choices.
        opt min_items: u64 as Integer = "minItems",
        /// Maximum number of choices.
        opt max_items: u64 as Integer = "maxItems",
        /// Default choices.
        opt default: Vec<String> = "default",
    }

    /// A single-select field with titled choices in the form of 2025-06-18; still accepted (ELIC-015).
    LegacyTitledEnumSchema ("type" = "string") {
        /// The choices.
        values: Vec<String> = "enum",
        /// Titles of the choices, in the same order; without them it is an [`UntitledSingleSelectEnumSchema`].
        enum_names: Vec<String> = "enumNames",
    } {
        /// Name for display.
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Default choice (since 2025-11-25).
        opt default: String = "default",
    }

    /// Choices of a multi-select field.
    UntitledEnumItems ("type" = "string") {
        /// The choices.
        values: Vec<String> = "enum",
    } {}

    /// Titled choices of a multi-select field.
    TitledEnumItems {
        /// The choices.
        any_of: Vec<EnumOption> = "anyOf",
    } {}

    /// A choice with its title.
    EnumOption {
        /// The value.
        value: String = "const",
        /// Title for display.
        title: String = "title",
    } {}
}

/// A field of a form, distinguished by `type` and by the form of its choices (ELIC-012).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PrimitiveSchemaDefinition {
    /// A text field.
    String(StringSchema),
    /// A number field.
    Number(NumberSchema),
    /// A boolean field.
    Boolean(BooleanSchema),
    /// A single-select field.
    SingleSelect(UntitledSingleSelectEnumSchema),
    /// A single-select field with titled choices (since 2025-11-25).
    TitledSingleSelect(TitledSingleSelectEnumSchema),
    /// A multi-select field (since 2025-11-25).
    MultiSelect(UntitledMultiSelectEnumSchema),
    /// A multi-select field with titled choices (since 2025-11-25).
    TitledMultiSelect(TitledMultiSelectEnumSchema),
    /// A single-select field with titled choices in the form of 2025-06-18.
    LegacyTitledEnum(LegacyTitledEnumSchema),
    /// An unknown kind of field, as JSON.
    Other(RawJson),
}

macro_rules! field_kinds {
    ($($kind:ident($type:ty))*) => {
        impl Serialize for PrimitiveSchemaDefinition {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$kind(field) => field.serialize(serializer), )*
                    Self::Other(raw) => raw.serialize(serializer),
                }
            }
        }
        $(
            impl From<$type> for PrimitiveSchemaDefinition {
                fn from(field: $type) -> Self {
                    Self::$kind(field)
                }
            }
        )*
    };
}
field_kinds! {
    String(StringSchema)
    Number(NumberSchema)
    Boolean(BooleanSchema)
    SingleSelect(UntitledSingleSelectEnumSchema)
    TitledSingleSelect(TitledSingleSelectEnumSchema)
    MultiSelect(UntitledMultiSelectEnumSchema)
    TitledMultiSelect(TitledMultiSelectEnumSchema)
    LegacyTitledEnum(LegacyTitledEnumSchema)
}

impl<'de> Deserialize<'de> for PrimitiveSchemaDefinition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = deserialize_borrowed(deserializer)?;
        let (mut kind, mut one_of, mut values, mut names, mut any_of) = (None, false, false, false, false);
        object_members(raw.as_bytes(), |name, value| match name {
            b"type" => kind = Some(value),
            b"oneOf" => one_of = true,
            b"enum" => values = true,
            b"enumNames" => names = true,
            b"items" => _ = object_members(value, |name, _| any_of |= name == b"anyOf"),
            _ => {}
        });
        match kind {
            Some(b"\"string\"") if one_of => serde_json::from_str(raw).map(Self::TitledSingleSelect),
            Some(b"\"string\"") if names => serde_json::from_str(raw).map(Self::LegacyTitledEnum),
            Some(b"\"string\"") if values => serde_json::from_str(raw).map(Self::SingleSelect),
            Some(b"\"string\"") => serde_json::from_str(raw).map(Self::String),
            Some(b"\"number\"" | b"\"integer\"") => serde_json::from_str(raw).map(Self::Number),
            Some(b"\"boolean\"") => serde_json::from_str(raw).map(Self::Boolean),
            Some(b"\"array\"") if any_of => serde_json::from_str(raw).map(Self::TitledMultiSelect),
            Some(b"\"array\"") => serde_json::from_str(raw).map(Self::MultiSelect),
            _ if raw.starts_with('{') => {
                Ok(Self::Other(RawJson::trusted(Bytes::copy_from_slice(raw.as_bytes()))))
            }
            _ => return Err(de::Error::custom("a form field must be an object")),
        }
        .map_err(de::Error::custom)
    }
}

impl NumberSchema {
    /// Creates an integer field.
    #[must_use]
    pub fn integer() -> Self {
        Self::new(NumberKind::Integer)
    }

    /// Creates a number field.
    #[must_use]
    pub fn number() -> Self {
        Self::new(NumberKind::Number)
    }
}

#[cfg(test)]
pub(super) mod tests;
