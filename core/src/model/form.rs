//! Forms and their fields (ELIC-012 to ELIC-016): how they are written, made from types, and answered.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de};

use super::message::message;
use super::words::words;
use crate::json::object_members;
use crate::raw::{RawJson, borrowed};

mod build;
mod check;
mod format;
#[cfg(feature = "schemars")]
mod of;
mod read;

pub use build::EnumSchema;
#[cfg(feature = "schemars")]
pub(crate) use of::settings;
pub use read::Elicited;

words! {
    /// What a text must look like (ELIC-013)
    StringFormat {
        /// An address for mail
        Email = "email",
        /// A URI
        Uri = "uri",
        /// A day: `2026-07-28`
        Date = "date",
        /// A moment: `2026-07-28T12:00:00Z`
        DateTime = "date-time",
    }

    /// Which numbers are meant (ELIC-014)
    NumberKind {
        /// Any number
        Number = "number",
        /// Whole ones
        Integer = "integer",
    }
}

message! {
    /// A text (ELIC-013)
    StringSchema ("type" = "string") {} {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// The fewest characters
        opt min_length: u64 as Integer = "minLength",
        /// The most characters
        opt max_length: u64 as Integer = "maxLength",
        /// What it must look like
        opt format: StringFormat = "format",
        /// What stands there at first (since 2025-11-25)
        opt default: String = "default",
    }

    /// A number (ELIC-014)
    NumberSchema {
        /// Any, or whole ones
        kind: NumberKind = "type",
    } {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// The smallest
        opt minimum: f64 as Number = "minimum",
        /// The largest
        opt maximum: f64 as Number = "maximum",
        /// What stands there at first (since 2025-11-25)
        opt default: f64 as Number = "default",
    }

    /// Yes or no (ELIC-014)
    BooleanSchema ("type" = "boolean") {} {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// What stands there at first
        opt default: bool = "default",
    }

    /// One of several (ELIC-015, ELIC-016)
    UntitledSingleSelectEnumSchema ("type" = "string") {
        /// What can be chosen
        values: Vec<String> = "enum",
    } {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// What is chosen at first (since 2025-11-25)
        opt default: String = "default",
    }

    /// One of several that have names (since 2025-11-25; ELIC-016)
    ///
    /// Goes to 2025-06-18 as a [`LegacyTitledEnumSchema`].
    TitledSingleSelectEnumSchema ("type" = "string") {
        /// What can be chosen
        one_of: Vec<EnumOption> = "oneOf",
    } {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// What is chosen at first
        opt default: String = "default",
    }

    /// Any of several (since 2025-11-25; ELIC-016)
    UntitledMultiSelectEnumSchema ("type" = "array") {
        /// What can be chosen
        items: UntitledEnumItems = "items",
    } {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// The fewest choices
        opt min_items: u64 as Integer = "minItems",
        /// The most choices
        opt max_items: u64 as Integer = "maxItems",
        /// What is chosen at first
        opt default: Vec<String> = "default",
    }

    /// Any of several that have names (since 2025-11-25; ELIC-016)
    TitledMultiSelectEnumSchema ("type" = "array") {
        /// What can be chosen
        items: TitledEnumItems = "items",
    } {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// The fewest choices
        opt min_items: u64 as Integer = "minItems",
        /// The most choices
        opt max_items: u64 as Integer = "maxItems",
        /// What is chosen at first
        opt default: Vec<String> = "default",
    }

    /// One of several that have names, as 2025-06-18 said it; still understood (ELIC-015)
    LegacyTitledEnumSchema ("type" = "string") {
        /// What can be chosen
        values: Vec<String> = "enum",
        /// Their names for people, in the same order; without them it is an [`UntitledSingleSelectEnumSchema`]
        enum_names: Vec<String> = "enumNames",
    } {
        /// Name for people
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// What is chosen at first (since 2025-11-25)
        opt default: String = "default",
    }

    /// What can be chosen
    UntitledEnumItems ("type" = "string") {
        /// The choices
        values: Vec<String> = "enum",
    } {}

    /// What can be chosen, with names
    TitledEnumItems {
        /// The choices
        any_of: Vec<EnumOption> = "anyOf",
    } {}

    /// Something that can be chosen, with its name
    EnumOption {
        /// What is chosen
        value: String = "const",
        /// Its name for people
        title: String = "title",
    } {}
}

/// A field of a form: told apart by `type` and by how choices are written (ELIC-012)
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PrimitiveSchemaDefinition {
    /// A text
    String(StringSchema),
    /// A number
    Number(NumberSchema),
    /// Yes or no
    Boolean(BooleanSchema),
    /// One of several
    SingleSelect(UntitledSingleSelectEnumSchema),
    /// One of several that have names (since 2025-11-25)
    TitledSingleSelect(TitledSingleSelectEnumSchema),
    /// Any of several (since 2025-11-25)
    MultiSelect(UntitledMultiSelectEnumSchema),
    /// Any of several that have names (since 2025-11-25)
    TitledMultiSelect(TitledMultiSelectEnumSchema),
    /// One of several that have names, as 2025-06-18 said it
    LegacyTitledEnum(LegacyTitledEnumSchema),
    /// Something else, as JSON
    Other(RawJson),
}

macro_rules! fields {
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
fields! {
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
        let raw = borrowed(deserializer)?;
        let (mut kind, mut one_of, mut values, mut names, mut any_of) = (None, false, false, false, false);
        object_members(raw.as_bytes(), |name, value| match name {
            b"type" => kind = Some(value),
            b"oneOf" => one_of = true,
            b"enum" => values = true,
            b"enumNames" => names = true,
            b"items" => object_members(value, |name, _| any_of |= name == b"anyOf"),
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
            _ => return Err(de::Error::custom("a field of a form is an object")),
        }
        .map_err(de::Error::custom)
    }
}

impl NumberSchema {
    /// Whole numbers
    #[must_use]
    pub fn integer() -> Self {
        Self::new(NumberKind::Integer)
    }

    /// Any numbers
    #[must_use]
    pub fn number() -> Self {
        Self::new(NumberKind::Number)
    }
}

#[cfg(test)]
pub(super) mod tests;
