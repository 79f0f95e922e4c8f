//! One field of a form, as it is shown: its kind, its choices, its value.

use core::fmt::Write;

use mcp_proto::model::{ElicitValue, PrimitiveSchemaDefinition as Field, StringFormat};

use crate::escape;

/// Describes the kind of value that a field takes.
pub(super) fn describe_kind(field: &Field) -> String {
    match field {
        Field::String(text) => {
            let format = match &text.format {
                Some(StringFormat::Email) => "an e-mail address",
                Some(StringFormat::Uri) => "a URI",
                Some(StringFormat::Date) => "a date, for example 2026-07-28",
                Some(StringFormat::DateTime) => "a time, for example 2026-07-28T12:00:00Z",
                _ => "text",
            };
            format!("{format}{}", describe_range(text.min_length, text.max_length, "characters"))
        }
        Field::Number(number) => {
            let bound = |bound: Option<f64>| bound.map(|bound| bound.to_string());
            let bounds = match (bound(number.minimum), bound(number.maximum)) {
                (Some(minimum), Some(maximum)) => format!(", {minimum} to {maximum}"),
                (Some(minimum), None) => format!(", {minimum} or more"),
                (None, Some(maximum)) => format!(", {maximum} or less"),
                (None, None) => String::new(),
            };
            let whole = number.kind == mcp_proto::model::NumberKind::Integer;
            format!("{}{bounds}", if whole { "a whole number" } else { "a number" })
        }
        Field::Boolean(_) => "y or n".into(),
        Field::MultiSelect(several) => describe_any_of(several.min_items, several.max_items),
        Field::TitledMultiSelect(several) => describe_any_of(several.min_items, several.max_items),
        Field::SingleSelect(_) | Field::TitledSingleSelect(_) | Field::LegacyTitledEnum(_) => {
            "one of these".into()
        }
        _ => "JSON".into(),
    }
}

fn describe_any_of(minimum: Option<u64>, maximum: Option<u64>) -> String {
    format!("any of these, separated by commas{}", describe_range(minimum, maximum, "choices"))
}

fn describe_range(minimum: Option<u64>, maximum: Option<u64>, what: &str) -> String {
    match (minimum, maximum) {
        (Some(minimum), Some(maximum)) => format!(", {minimum} to {maximum} {what}"),
        (Some(minimum), None) => format!(", {minimum} {what} or more"),
        (None, Some(maximum)) => format!(", {maximum} {what} at most"),
        (None, None) => String::new(),
    }
}

/// Formats the choices with their numbers.
pub(super) fn format_choices(field: &Field) -> String {
    let choices = field.choices();
    let mut out = String::new();
    for (number, (value, title)) in choices.iter().enumerate().take(MAX_CHOICES_SHOWN) {
        let named = if value == title { String::new() } else { format!("  {}", escape::line(title)) };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "       {:>2}  {}{named}", number + 1, escape::line(value));
    }
    if choices.len() > MAX_CHOICES_SHOWN {
        let _ = writeln!(out, "       and {} more", choices.len() - MAX_CHOICES_SHOWN);
    }
    out
}

/// Formats a value for display, in a form that could be typed.
pub(super) fn format_value(value: &ElicitValue) -> String {
    let text = match value {
        ElicitValue::Text(text) if text.is_empty() => "\"\"".into(),
        ElicitValue::Text(text) => text.clone(),
        ElicitValue::Boolean(true) => "y".into(),
        ElicitValue::Boolean(false) => "n".into(),
        ElicitValue::Choices(choices) => choices.join(", "),
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    escape::line(&text).into_owned()
}

/// Maximum number of choices shown.
const MAX_CHOICES_SHOWN: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::model::{EnumSchema, NumberSchema, StringSchema};

    #[test]
    fn field_description_names_kind_and_bounds() {
        let kinds = [
            (StringSchema::new().min_length(2u32).into(), "text, 2 characters or more"),
            (
                StringSchema::new().format(StringFormat::Uri).max_length(9u32).into(),
                "a URI, 9 characters at most",
            ),
            (NumberSchema::integer().minimum(1).maximum(9).into(), "a whole number, 1 to 9"),
            (NumberSchema::number().into(), "a number"),
            (
                EnumSchema::any_of(["a"]).min_items(1u32).into(),
                "any of these, separated by commas, 1 choices or more",
            ),
        ];
        for (field, want) in kinds {
            let field: Field = field;
            assert_eq!(describe_kind(&field), want);
        }
        let evil: Field = EnumSchema::one_of_titled([("a", "\u{1b}[2J")]).into();
        assert_eq!(format_choices(&evil), "        1  a  \\u001b[2J\n");
    }
}
