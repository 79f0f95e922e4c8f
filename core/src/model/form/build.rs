//! Builders for choice fields, and accessors for members that all kinds of fields share.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    EnumOption, PrimitiveSchemaDefinition, TitledEnumItems, TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema, UntitledEnumItems, UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
};
use crate::model::codec::exact_integer;
use crate::model::elicitation::ElicitValue;

/// Constructors of fields with choices (ELIC-016).
///
/// ```
/// use mcp_proto::model::{ElicitSchema, EnumSchema, NumberSchema, StringSchema};
///
/// let form = ElicitSchema::default()
///     .field("name", StringSchema::new().title("Name of the boat").max_length(40u32))
///     .field("nights", NumberSchema::integer().minimum(1).default(1))
///     .field("pier", EnumSchema::one_of_titled([("n", "North"), ("s", "South")]).default("n"))
///     .optional("extras", EnumSchema::any_of(["power", "water"]).max_items(2u32));
/// # form.validate().unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub enum EnumSchema {}

impl EnumSchema {
    /// Creates a single-select field.
    #[must_use]
    pub fn one_of<S: Into<String>>(choices: impl IntoIterator<Item = S>) -> UntitledSingleSelectEnumSchema {
        UntitledSingleSelectEnumSchema::new(choices.into_iter().map(S::into).collect::<Vec<_>>())
    }

    /// Creates a single-select field with a title for each choice.
    #[must_use]
    pub fn one_of_titled<S: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (S, T)>,
    ) -> TitledSingleSelectEnumSchema {
        TitledSingleSelectEnumSchema::new(titled_options(choices))
    }

    /// Creates a multi-select field; each choice may be selected once (since 2025-11-25).
    #[must_use]
    pub fn any_of<S: Into<String>>(choices: impl IntoIterator<Item = S>) -> UntitledMultiSelectEnumSchema {
        let choices = choices.into_iter().map(S::into).collect::<Vec<_>>();
        UntitledMultiSelectEnumSchema::new(UntitledEnumItems::new(choices))
    }

    /// Creates a multi-select field with a title for each choice; each may be selected once (since 2025-11-25).
    #[must_use]
    pub fn any_of_titled<S: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (S, T)>,
    ) -> TitledMultiSelectEnumSchema {
        TitledMultiSelectEnumSchema::new(TitledEnumItems::new(titled_options(choices)))
    }
}

fn titled_options<S: Into<String>, T: Into<String>>(
    choices: impl IntoIterator<Item = (S, T)>,
) -> Vec<EnumOption> {
    choices.into_iter().map(|(value, title)| EnumOption::new(value, title)).collect()
}

fn option_titles(options: &[EnumOption]) -> Vec<(&str, &str)> {
    options.iter().map(|option| (&*option.value, &*option.title)).collect()
}

/// Reads the same member of every kind of field.
macro_rules! member {
    ($field:ident, $member:ident) => {
        match $field {
            Self::String(field) => field.$member.as_deref(),
            Self::Number(field) => field.$member.as_deref(),
            Self::Boolean(field) => field.$member.as_deref(),
            Self::SingleSelect(field) => field.$member.as_deref(),
            Self::TitledSingleSelect(field) => field.$member.as_deref(),
            Self::MultiSelect(field) => field.$member.as_deref(),
            Self::TitledMultiSelect(field) => field.$member.as_deref(),
            Self::LegacyTitledEnum(field) => field.$member.as_deref(),
            Self::Other(_) => None,
        }
    };
}

impl PrimitiveSchemaDefinition {
    /// Returns the name for display.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        member!(self, title)
    }

    /// Returns the description.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        member!(self, description)
    }

    /// Returns the default value (ELIC-017).
    #[must_use]
    pub fn default_value(&self) -> Option<ElicitValue> {
        match self {
            Self::String(field) => field.default.as_deref().map(Into::into),
            Self::Number(field) => {
                field.default.map(|n| exact_integer(n).map_or(ElicitValue::Number(n), Into::into))
            }
            Self::Boolean(field) => field.default.map(Into::into),
            Self::SingleSelect(field) => field.default.as_deref().map(Into::into),
            Self::TitledSingleSelect(field) => field.default.as_deref().map(Into::into),
            Self::LegacyTitledEnum(field) => field.default.as_deref().map(Into::into),
            Self::MultiSelect(field) => field.default.clone().map(Into::into),
            Self::TitledMultiSelect(field) => field.default.clone().map(Into::into),
            Self::Other(_) => None,
        }
    }

    /// Returns the choices, each with its title; empty for fields without choices.
    ///
    /// The title of an untitled choice is its value.
    #[must_use]
    pub fn choices(&self) -> Vec<(&str, &str)> {
        match self {
            Self::SingleSelect(field) => field.values.iter().map(|v| (&**v, &**v)).collect(),
            Self::MultiSelect(field) => field.items.values.iter().map(|v| (&**v, &**v)).collect(),
            Self::TitledSingleSelect(field) => option_titles(&field.one_of),
            Self::TitledMultiSelect(field) => option_titles(&field.items.any_of),
            Self::LegacyTitledEnum(field) => {
                let names = field.enum_names.iter().map(Some).chain(core::iter::repeat(None));
                field.values.iter().zip(names).map(|(v, name)| (&**v, &**name.unwrap_or(v))).collect()
            }
            Self::String(_) | Self::Number(_) | Self::Boolean(_) | Self::Other(_) => Vec::new(),
        }
    }
}
