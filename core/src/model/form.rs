//! Forms and their fields (ELIC-012 to ELIC-016): builders, derivation from types, and checks of answers.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize, de};

use super::ValidationError;
use super::codec::{ReadByContent, Rereads};
use super::elicitation::{ElicitSchema, ElicitValue};
use super::map::Map;
use super::message::{MemberKey, message};
use super::string_enum::string_enum;
use crate::json::{check_and_read, object_members};
use crate::raw::{CheckedText, RawJson};
use check::MAX_EXACT_INTEGER;

mod build;
mod check;
#[cfg(feature = "schemars")]
mod derive;
mod parse;

pub use build::EnumSchema;
#[cfg(feature = "http")]
pub(crate) use check::is_date;
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
        Self::read(deserializer)
    }
}

impl<'de> ReadByContent<'de> for PrimitiveSchemaDefinition {
    fn read_by_content<A: de::SeqAccess<'de>>(value: &mut Rereads<A>) -> Result<Self, A::Error> {
        let FieldKind { kind, one_of, values, names, any_of } = value.read()?;
        match kind.unwrap_or_default() {
            "\"string\"" if one_of => value.read().map(Self::TitledSingleSelect),
            "\"string\"" if names => value.read().map(Self::LegacyTitledEnum),
            "\"string\"" if values => value.read().map(Self::SingleSelect),
            "\"string\"" => value.read().map(Self::String),
            "\"number\"" | "\"integer\"" => value.read().map(Self::Number),
            "\"boolean\"" => value.read().map(Self::Boolean),
            "\"array\"" if any_of => value.read().map(Self::TitledMultiSelect),
            "\"array\"" => value.read().map(Self::MultiSelect),
            _ => {
                // Kept as it is, unless a member occurs twice.
                value.read::<Map<de::IgnoredAny>>()?;
                value.read().map(Self::Other)
            }
        }
    }
}

/// The members of a field that tell its kind.
#[derive(Default)]
struct FieldKind<'de> {
    kind: Option<&'de str>,
    one_of: bool,
    values: bool,
    names: bool,
    any_of: bool,
}

impl<'de> Deserialize<'de> for FieldKind<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldKindVisitor;
        impl<'de> de::Visitor<'de> for FieldKindVisitor {
            type Value = FieldKind<'de>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a form field, which is an object")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<FieldKind<'de>, A::Error> {
                let mut found = FieldKind::default();
                while let Some(name) = map.next_key::<MemberKey<'_>>()? {
                    match &*name.0 {
                        "type" => found.kind = Some(map.next_value::<CheckedText<'_>>()?.0),
                        "items" => {
                            let CheckedText(items) = map.next_value()?;
                            object_members(items.as_bytes(), |name, _| found.any_of |= name == b"anyOf");
                        }
                        other => {
                            found.one_of |= other == "oneOf";
                            found.values |= other == "enum";
                            found.names |= other == "enumNames";
                            map.next_value::<de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(FieldKindVisitor)
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

// Reading of the text that a user typed into one field of a form.

impl ElicitSchema {
    /// Reads the text that a user typed into the field `name`; see [`PrimitiveSchemaDefinition::parse_text`].
    ///
    /// ```
    /// # use mcp_proto::model::{ElicitSchema, ElicitValue, NumberSchema};
    /// let form = ElicitSchema::default().field("nights", NumberSchema::integer().maximum(30));
    /// assert_eq!(form.parse_text("nights", "3"), Ok(ElicitValue::Integer(3)));
    /// let wrong = form.parse_text("nights", "31").unwrap_err();
    /// assert_eq!(wrong.to_string(), "`nights`: must be 30 or less");
    /// ```
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the field, which does not exist, or which the text does not fit.
    pub fn parse_text(&self, name: &str, text: &str) -> Result<ElicitValue, ValidationError> {
        match self.properties.get(name) {
            Some(field) => field.parse_text(text).map_err(|wrong| wrong.prefixed(name)),
            None => Err(ValidationError::at_member(name, "is no field of the form")),
        }
    }
}

impl PrimitiveSchemaDefinition {
    /// Reads a line that a user typed as a value of this field, and [checks](Self::check) it.
    ///
    /// - Text is taken as it is; `""` in quotes is the empty text, which nobody could type otherwise.
    /// - Numbers are decimal; white space around them is ignored. Whole numbers have at most 63 bits.
    /// - Booleans are `y`, `yes`, `true`, `n`, `no` or `false`, in any case.
    /// - A choice is its value, its title in any ASCII case, or its number from 1 on, in this order. Several choices are separated
    ///   by commas, so a value with a comma is chosen by its number.
    /// - A field of unknown kind takes JSON.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that says what the text must be. It does not repeat the text.
    pub fn parse_text(&self, text: &str) -> Result<ElicitValue, ValidationError> {
        let value = self.read_text(text)?;
        self.check(&value)?;
        Ok(value)
    }

    fn read_text(&self, text: &str) -> Result<ElicitValue, ValidationError> {
        let word = text.trim();
        match self {
            Self::String(_) if text == "\"\"" => Ok(ElicitValue::Text(String::new())),
            Self::String(_) => Ok(ElicitValue::Text(text.to_owned())),
            Self::Number(field) => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(integer), _) => Ok(ElicitValue::Integer(integer)),
                // Rounded, it would be another number than the typed one.
                (_, Ok(number)) if field.kind == NumberKind::Integer && number.abs() >= MAX_EXACT_INTEGER => {
                    Err(ValidationError::new("must be a whole number"))
                }
                (_, Ok(number)) => Ok(ElicitValue::Number(number)),
                _ => Err(ValidationError::new("must be a number")),
            },
            Self::Boolean(_) => {
                let is_any = |words: [&str; 3]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
                match (is_any(["y", "yes", "true"]), is_any(["n", "no", "false"])) {
                    (true, _) => Ok(ElicitValue::Boolean(true)),
                    (_, true) => Ok(ElicitValue::Boolean(false)),
                    _ => Err(ValidationError::new("must be y or n")),
                }
            }
            Self::MultiSelect(_) | Self::TitledMultiSelect(_) => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                let choices = words.map(|word| self.find_choice(word)).collect::<Result<Vec<_>, _>>();
                choices.map(ElicitValue::Choices)
            }
            Self::SingleSelect(_) | Self::TitledSingleSelect(_) | Self::LegacyTitledEnum(_) => {
                self.find_choice(word).map(ElicitValue::Text)
            }
            Self::Other(_) => check_and_read(text)
                .map_err(|_| ValidationError::new("must be JSON: a \"text\", a number, true or false")),
        }
    }

    /// Finds a choice by value, title or number.
    fn find_choice(&self, word: &str) -> Result<String, ValidationError> {
        let choices = self.choices();
        let by_value = choices.iter().find(|(value, _)| *value == word);
        let by_title = || choices.iter().find(|(_, title)| title.eq_ignore_ascii_case(word));
        let by_number = || choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
        match by_value.or_else(by_title).or_else(by_number) {
            Some((value, _)) => Ok((*value).to_owned()),
            None => Err(ValidationError::new("must be one of the choices, or its number")),
        }
    }
}

#[cfg(test)]
mod typed_tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::super::{BooleanSchema, EnumSchema, NumberSchema, StringFormat, StringSchema};
    use super::*;

    // covers: ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-020
    #[test]
    fn typed_text_is_read_by_the_kind_of_its_field() {
        use PrimitiveSchemaDefinition as Field;
        let text: Field = StringSchema::new().min_length(2u32).max_length(5u32).into();
        let free: Field = StringSchema::new().into();
        let email: Field = StringSchema::new().format(StringFormat::Email).into();
        let whole: Field = NumberSchema::integer().minimum(1).maximum(9).into();
        let large: Field = NumberSchema::integer().into();
        let number: Field = NumberSchema::number().into();
        let flag: Field = BooleanSchema::new().into();
        let one: Field = EnumSchema::one_of_titled([("n", "North"), ("s", "South")]).into();
        let any: Field = EnumSchema::any_of(["power", "water", "2"]).max_items(2u32).into();
        let other: Field = serde_json::from_str(r#"{"type":"blob"}"#).expect("kept as it is");
        let cases: [(&Field, &str, Result<ElicitValue, &str>); 31] = [
            (&text, "Alice", Ok("Alice".into())),
            (&text, "A", Err("must have 2 characters or more")),
            (&text, "\"\"", Err("must have 2 characters or more")),
            (&text, "Alicia", Err("must have 5 characters or fewer")),
            (&free, "\"\"", Ok("".into())),
            (&free, " a ", Ok(" a ".into())),
            (&email, "a@b.example", Ok("a@b.example".into())),
            (&email, "a", Err("must be an e-mail address")),
            (&whole, " 7 ", Ok(ElicitValue::Integer(7))),
            (&whole, "0", Err("must be 1 or more")),
            (&whole, "1.5", Err("must be a whole number")),
            (&whole, "x", Err("must be a number")),
            (&large, "9223372036854775807", Ok(ElicitValue::Integer(i64::MAX))),
            (&large, "9223372036854775809", Err("must be a whole number")),
            (&large, "9007199254740993.0", Err("must be a whole number")),
            (&number, "1.5", Ok(ElicitValue::Number(1.5))),
            (&number, "NaN", Err("must be a number")),
            (&number, "", Err("must be a number")),
            (&flag, "Yes", Ok(true.into())),
            (&flag, "n", Ok(false.into())),
            (&flag, "maybe", Err("must be y or n")),
            (&one, "s", Ok("s".into())),
            (&one, "south", Ok("s".into())),
            (&one, "1", Ok("n".into())),
            (&one, "0", Err("must be one of the choices, or its number")),
            (&one, "9", Err("must be one of the choices, or its number")),
            (&any, "water, 1", Ok(vec!["water".to_owned(), "power".to_owned()].into())),
            (&any, " ,", Ok(ElicitValue::Choices(vec![]))),
            (&any, "power, water, 2", Err("must have 2 choices or fewer")),
            (&other, "2", Ok(ElicitValue::Integer(2))),
            (&other, "x", Err("must be JSON: a \"text\", a number, true or false")),
        ];
        for (field, typed, want) in cases {
            let found = field.parse_text(typed);
            assert_eq!(
                found.as_ref().map_err(|wrong| &*wrong.reason),
                want.as_ref().map_err(|text| *text),
                "{typed:?}"
            );
            let Err(wrong) = found else { continue };
            let form = ElicitSchema::default().field("pier", field.clone());
            let named = form.parse_text("pier", typed).expect_err("the same");
            assert_eq!((&*named.path, named.reason), ("pier", wrong.reason));
        }
        let unknown = ElicitSchema::default().parse_text("x", "1").expect_err("no field");
        assert_eq!(unknown.to_string(), "`x`: is no field of the form");
    }
}

#[cfg(test)]
pub(super) mod tests;
