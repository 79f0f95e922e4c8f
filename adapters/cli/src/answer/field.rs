//! One field of a form: its description, and parsing of typed values.

use core::fmt::Write;

use mcp_proto::model::{ElicitValue, PrimitiveSchemaDefinition as Field, StringFormat};

use crate::escape;

/// Parses typed text into a value that fits the field.
///
/// # Errors
///
/// Returns why the text does not fit.
pub(super) fn parse_value(field: &Field, typed: &str) -> Result<ElicitValue, String> {
    let value = parse_unchecked(field, typed)?;
    field.check(&value).map_err(|mismatch| mismatch.reason)?;
    Ok(value)
}

fn parse_unchecked(field: &Field, typed: &str) -> Result<ElicitValue, String> {
    match field {
        // The only way to type an empty string.
        Field::String(_) if typed == "\"\"" => Ok(ElicitValue::Text(String::new())),
        Field::String(_) => Ok(ElicitValue::Text(typed.to_owned())),
        Field::Number(_) => match (typed.trim().parse::<i64>(), typed.trim().parse::<f64>()) {
            (Ok(int), _) => Ok(ElicitValue::Integer(int)),
            (_, Ok(number)) => Ok(ElicitValue::Number(number)),
            _ => Err("must be a number".into()),
        },
        Field::Boolean(_) => match &*typed.trim().to_lowercase() {
            "y" | "yes" | "true" => Ok(ElicitValue::Boolean(true)),
            "n" | "no" | "false" => Ok(ElicitValue::Boolean(false)),
            _ => Err("must be y or n".into()),
        },
        Field::MultiSelect(_) | Field::TitledMultiSelect(_) => {
            let words = typed.split(',').map(str::trim).filter(|word| !word.is_empty());
            words
                .map(|word| parse_choice(field, word))
                .collect::<Result<Vec<_>, _>>()
                .map(ElicitValue::Choices)
        }
        Field::SingleSelect(_) | Field::TitledSingleSelect(_) | Field::LegacyTitledEnum(_) => {
            parse_choice(field, typed.trim()).map(ElicitValue::Text)
        }
        // Unknown kind of field: the user writes JSON.
        _ => serde_json::from_str(typed)
            .map_err(|_| "must be JSON: a \"text\", a number, true or false".into()),
    }
}

/// Finds a choice by value, title or number.
fn parse_choice(field: &Field, word: &str) -> Result<String, String> {
    let choices = field.choices();
    let by_number = || word.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let found = choices.iter().find(|(value, _)| *value == word);
    let found = found.or_else(|| choices.iter().find(|(_, title)| title.eq_ignore_ascii_case(word)));
    match found.or_else(by_number) {
        Some((value, _)) => Ok((*value).to_owned()),
        None => Err(format!("must be one of the choices, or its number: {}", escape::line(word))),
    }
}

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
    use mcp_proto::model::{BooleanSchema, EnumSchema, NumberSchema, StringSchema};

    // covers: ELIC-013, ELIC-014, ELIC-016, ELIC-020
    #[test]
    fn typed_text_is_parsed_by_field_kind() {
        let text: Field = StringSchema::new().min_length(2u32).max_length(5u32).into();
        let email: Field = StringSchema::new().format(StringFormat::Email).into();
        let whole: Field = NumberSchema::integer().minimum(1).maximum(9).into();
        let number: Field = NumberSchema::number().into();
        let flag: Field = BooleanSchema::new().into();
        let one: Field = EnumSchema::one_of_titled([("n", "North"), ("s", "South")]).into();
        let any: Field = EnumSchema::any_of(["power", "water", "2"]).max_items(2u32).into();
        let cases: [(&Field, &str, Result<ElicitValue, &str>); 20] = [
            (&text, "Alice", Ok("Alice".into())),
            (&text, "A", Err("must have 2 characters or more")),
            (&text, "\"\"", Err("must have 2 characters or more")),
            (&text, "Alicia", Err("must have 5 characters or fewer")),
            (&email, "a@b.example", Ok("a@b.example".into())),
            (&email, "a", Err("must be an e-mail address")),
            (&whole, " 7 ", Ok(ElicitValue::Integer(7))),
            (&whole, "0", Err("must be 1 or more")),
            (&whole, "1.5", Err("must be a whole number")),
            (&whole, "x", Err("must be a number")),
            (&number, "1.5", Ok(ElicitValue::Number(1.5))),
            (&number, "NaN", Err("must be a number")),
            (&flag, "Yes", Ok(true.into())),
            (&flag, "n", Ok(false.into())),
            (&flag, "maybe", Err("must be y or n")),
            (&one, "s", Ok("s".into())),
            (&one, "south", Ok("s".into())),
            (&one, "1", Ok("n".into())),
            (&any, "water, 1", Ok(vec!["water".to_owned(), "power".to_owned()].into())),
            (&any, "power, water, 2", Err("must have 2 choices or fewer")),
        ];
        for (field, typed, want) in cases {
            assert_eq!(parse_value(field, typed), want.map_err(str::to_owned), "{typed:?}");
        }
        let wrong = parse_value(&one, "9").expect_err("no such choice");
        assert!(wrong.contains("one of the choices"), "{wrong}");
    }

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
