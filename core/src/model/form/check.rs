//! Validation of forms, and of values against a form (ELIC-017, ELIC-020).

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{NumberKind, NumberSchema, PrimitiveSchemaDefinition, StringFormat, StringSchema};
use crate::json::find_duplicate;
use crate::model::ValidationError;
use crate::model::codec::exact_integer;
use crate::model::elicitation::{ElicitSchema, ElicitValue};
use crate::model::map::Map;
use crate::uri::is_uri;

impl ElicitSchema {
    /// Validates the form itself.
    ///
    /// Every field must be of a known kind, its bounds must permit a value, its choices must differ, and its default
    /// must match. Required fields must exist. A server calls this before it sends the form; a client may be less
    /// strict.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first wrong member.
    pub fn validate(&self) -> Result<(), ValidationError> {
        for (name, field) in self.properties.iter() {
            field.validate().map_err(|m| m.prefixed(name).prefixed("properties"))?;
        }
        let fields = self.properties.index();
        let required = || self.required.iter().flatten().map(|name| &**name);
        if required().any(|name| fields.get(name).is_none()) {
            return Err(ValidationError::at_member("required", "names a field that does not exist"));
        }
        if find_duplicate(required().map(str::as_bytes)).is_some() {
            return Err(ValidationError::at_member("required", "names a field twice"));
        }
        Ok(())
    }

    /// Checks whether the form can be displayed: every field must be of a known kind (ELIC-012).
    pub(crate) fn validate_field_kinds(&self) -> Result<(), ValidationError> {
        let is_unknown =
            |field: &PrimitiveSchemaDefinition| matches!(field, PrimitiveSchemaDefinition::Other(_));
        match self.properties.iter().find(|(_, field)| is_unknown(field)) {
            Some((name, _)) => {
                Err(unknown_field_kind().prefixed(name).prefixed("properties").prefixed("requestedSchema"))
            }
            None => Ok(()),
        }
    }

    /// Checks whether submitted values match the form (ELIC-020).
    ///
    /// Values without a field are accepted, as in JSON Schema. So is any value of a field of unknown kind.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first field whose value does not match.
    pub fn check(&self, content: &Map<ElicitValue>) -> Result<(), ValidationError> {
        let given = content.index();
        for name in self.required.iter().flatten() {
            if given.get(name).is_none() {
                return Err(ValidationError::at_member(name, "must be filled in"));
            }
        }
        for (name, field) in self.properties.iter() {
            if let Some(value) = given.get(name) {
                field.check(value).map_err(|m| m.prefixed(name))?;
            }
        }
        Ok(())
    }

    /// Adds the form's defaults for fields without a value (ELIC-017).
    ///
    /// `fill_defaults(Map::new())` returns the initial values of a form. Do not call it on submitted values if the user
    /// may clear an optional field: it would fill that field again.
    #[must_use]
    pub fn fill_defaults(&self, mut content: Map<ElicitValue>) -> Map<ElicitValue> {
        let given = content.index();
        let open = self.properties.iter().filter(|(name, _)| given.get(name).is_none());
        let defaults = open.filter_map(|(name, field)| Some((String::from(name), field.default_value()?)));
        let defaults: Vec<_> = defaults.collect();
        content.append_new(defaults);
        content
    }
}

fn unknown_field_kind() -> ValidationError {
    ValidationError::new("must be a string, number, boolean or choice field")
}

impl PrimitiveSchemaDefinition {
    /// Checks whether a value matches the field: type, bounds, format and choices (ELIC-013 to ELIC-016).
    ///
    /// Lengths are counted in Unicode scalar values, as in JSON Schema. `2.0` is an integer. A choice that is selected
    /// twice is refused. For formats see [`StringFormat::matches`]. `pattern` is not evaluated (DEC-010).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that says what the value must be.
    pub fn check(&self, value: &ElicitValue) -> Result<(), ValidationError> {
        match (self, value) {
            (Self::String(field), ElicitValue::Text(text)) => field.check(text),
            (Self::String(_), _) => Err(ValidationError::new("must be a string")),
            (Self::Number(field), _) => field.check(value),
            (Self::Boolean(_), ElicitValue::Boolean(_)) | (Self::Other(_), _) => Ok(()),
            (Self::Boolean(_), _) => Err(ValidationError::new("must be true or false")),
            (Self::SingleSelect(_) | Self::TitledSingleSelect(_) | Self::LegacyTitledEnum(_), _) => {
                let ElicitValue::Text(text) = value else {
                    return Err(ValidationError::new("must be a string"));
                };
                let known = self.choices().iter().any(|(choice, _)| choice == text);
                if known { Ok(()) } else { Err(ValidationError::new("must be one of the choices")) }
            }
            (Self::MultiSelect(field), _) => self.check_choices(value, field.min_items, field.max_items),
            (Self::TitledMultiSelect(field), _) => {
                self.check_choices(value, field.min_items, field.max_items)
            }
        }
    }

    /// Checks the value of a multi-select field.
    fn check_choices(
        &self,
        value: &ElicitValue,
        min: Option<u64>,
        max: Option<u64>,
    ) -> Result<(), ValidationError> {
        let ElicitValue::Choices(chosen) = value else {
            return Err(ValidationError::new("must be an array of strings"));
        };
        let choices = self.choices();
        let mut choices: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
        choices.sort_unstable();
        if let Some(at) = chosen.iter().position(|one| choices.binary_search(&&**one).is_err()) {
            return Err(ValidationError::new("must be one of the choices").at_index(at));
        }
        if find_duplicate(chosen.iter().map(|one| one.as_bytes())).is_some() {
            return Err(ValidationError::new("must not repeat a choice"));
        }
        check_length(chosen.len(), min, max, "choices")
    }

    /// Validates the field itself.
    fn validate(&self) -> Result<(), ValidationError> {
        match self {
            Self::String(field) => field.validate(),
            Self::Number(field) => field.validate(),
            Self::MultiSelect(field) => self.validate_choices(field.min_items, field.max_items),
            Self::TitledMultiSelect(field) => self.validate_choices(field.min_items, field.max_items),
            Self::SingleSelect(_) | Self::TitledSingleSelect(_) => self.validate_choices(None, None),
            Self::LegacyTitledEnum(field) if field.enum_names.len() != field.values.len() => {
                Err(ValidationError::at_member("enumNames", "must have one name per choice"))
            }
            Self::LegacyTitledEnum(_) => self.validate_choices(None, None),
            Self::Boolean(_) => Ok(()),
            Self::Other(_) => Err(unknown_field_kind()),
        }?;
        let default = self.default_value();
        default.map_or(Ok(()), |value| self.check(&value).map_err(|m| m.prefixed("default")))
    }

    /// Checks that a valid selection exists.
    fn validate_choices(&self, min: Option<u64>, max: Option<u64>) -> Result<(), ValidationError> {
        let choices = self.choices();
        if choices.is_empty() {
            return Err(ValidationError::new("must have choices"));
        }
        if find_duplicate(choices.iter().map(|(choice, _)| choice.as_bytes())).is_some() {
            return Err(ValidationError::new("must not repeat a choice"));
        }
        let all = choices.len() as u64;
        match min {
            Some(min) if min > max.unwrap_or(all).min(all) => Err(ValidationError::at_member(
                "minItems",
                "must not exceed `maxItems` or the number of choices",
            )),
            _ => Ok(()),
        }
    }
}

impl StringSchema {
    fn check(&self, text: &str) -> Result<(), ValidationError> {
        check_length(text.chars().count(), self.min_length, self.max_length, "characters")?;
        match &self.format {
            Some(format) if !format.matches(text) => Err(ValidationError::new(match format {
                StringFormat::Email => "must be an e-mail address",
                StringFormat::Uri => "must be a URI",
                StringFormat::Date => "must be a date, such as 2026-07-28",
                StringFormat::DateTime => "must be a date and time, such as 2026-07-28T12:00:00Z",
                StringFormat::Other(_) => "must have the right format",
            })),
            _ => Ok(()),
        }
    }

    fn validate(&self) -> Result<(), ValidationError> {
        match (self.min_length, self.max_length) {
            (Some(min), Some(max)) if min > max => {
                Err(ValidationError::at_member("minLength", "must not exceed `maxLength`"))
            }
            _ => Ok(()),
        }
    }
}

impl NumberSchema {
    fn check(&self, value: &ElicitValue) -> Result<(), ValidationError> {
        let integer = self.kind == NumberKind::Integer;
        let fits = match value {
            ElicitValue::Integer(_) => true,
            ElicitValue::Number(n) if integer => {
                n.is_finite() && (exact_integer(*n).is_some() || n.abs() >= MAX_EXACT_INTEGER)
            }
            ElicitValue::Number(n) => n.is_finite(),
            _ => false,
        };
        if !fits {
            return Err(ValidationError::new(if integer {
                "must be a whole number"
            } else {
                "must be a number"
            }));
        }
        let is = |bound: f64, wrong: Ordering| compare(value, bound) == Some(wrong);
        if let Some(min) = self.minimum.filter(|bound| is(*bound, Ordering::Less)) {
            return Err(ValidationError::new(format_args!("must be {min} or more")));
        }
        if let Some(max) = self.maximum.filter(|bound| is(*bound, Ordering::Greater)) {
            return Err(ValidationError::new(format_args!("must be {max} or less")));
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), ValidationError> {
        for (name, bound) in [("minimum", self.minimum), ("maximum", self.maximum), ("default", self.default)]
        {
            if bound.is_some_and(|n| !n.is_finite()) {
                return Err(ValidationError::at_member(name, "must be a number"));
            }
        }
        match (self.minimum, self.maximum) {
            (Some(min), Some(max)) if min > max => {
                Err(ValidationError::at_member("minimum", "must not exceed `maximum`"))
            }
            _ => Ok(()),
        }
    }
}

/// Absolute value from which every float is an integer, but not every integer is a float.
pub(super) const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Compares a number with a bound, without rounding.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "only where both are exact")]
fn compare(value: &ElicitValue, bound: f64) -> Option<Ordering> {
    match value {
        // Below this bound, rounding cannot move an integer across it.
        ElicitValue::Integer(int) if bound.abs() < MAX_EXACT_INTEGER => (*int as f64).partial_cmp(&bound),
        ElicitValue::Integer(int) => Some(i128::from(*int).cmp(&(bound as i128))),
        ElicitValue::Number(number) => number.partial_cmp(&bound),
        _ => None,
    }
}

/// Checks a length against its bounds.
fn check_length(
    length: usize,
    min: Option<u64>,
    max: Option<u64>,
    unit: &str,
) -> Result<(), ValidationError> {
    let length = length as u64;
    match (min, max) {
        (Some(min), _) if length < min => {
            Err(ValidationError::new(format_args!("must have {min} {unit} or more")))
        }
        (_, Some(max)) if length > max => {
            Err(ValidationError::new(format_args!("must have {max} {unit} or fewer")))
        }
        _ => Ok(()),
    }
}

// Checks of text formats (ELIC-013), without regular expressions and in one pass.

impl StringFormat {
    /// Returns whether a text has this format; any text matches an unknown format.
    ///
    /// - `email`: a local part, `@`, and a host. The host consists of names of letters, digits and `-` with dots
    ///   between them, or is an address in brackets. Letters outside of ASCII are accepted on both sides, white space
    ///   only in a quoted local part.
    /// - `uri`: an absolute URI (RFC 3986); letters outside of ASCII must be encoded.
    /// - `date`: an existing day, `2028-02-29` for example (RFC 3339).
    /// - `date-time`: a date, a time with seconds, and an offset or `Z` (RFC 3339). Second 60 is accepted where leap
    ///   seconds can occur.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => is_uri(text),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text.as_bytes()),
            Self::Other(_) => true,
        }
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, host)) = text.rsplit_once('@') else { return false };
    let plain = |c: char| !c.is_whitespace() && !c.is_control();
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let local_fits = match quoted {
        true => !local.chars().any(char::is_control),
        // A second `@` and a quote are permitted only in a quoted local part.
        false => {
            local.split('.').all(|a| !a.is_empty() && a.chars().all(|c| plain(c) && !matches!(c, '@' | '"')))
        }
    };
    let host_fits = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| {
            !address.is_empty()
                && address.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'.'))
        }),
        None => host.split('.').all(is_host_name),
    };
    // RFC 5321, 4.5.3.1, in bytes.
    local.len() <= 64 && host.len() <= 255 && local_fits && host_fits
}

fn is_host_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_alphanumeric() || c == '-')
}

/// Returns whether text is an existing day in the form `YYYY-MM-DD`.
pub(crate) fn is_date(text: &str) -> bool {
    parse_date(text.as_bytes()).is_some_and(<[u8]>::is_empty)
}

/// Parses the date at the beginning of `text` and returns the rest.
fn parse_date(text: &[u8]) -> Option<&[u8]> {
    let (year, rest) = parse_digits(text, 4)?;
    let (month, rest) = parse_digits(strip_any(rest, b"-")?, 2)?;
    let (day, rest) = parse_digits(strip_any(rest, b"-")?, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(rest)
}

fn is_date_time(text: &[u8]) -> bool {
    let is_valid = parse_date(text).and_then(|rest| {
        let (hour, rest) = parse_digits(strip_any(rest, b"Tt")?, 2)?;
        let (minute, rest) = parse_digits(strip_any(rest, b":")?, 2)?;
        let (second, mut rest) = parse_digits(strip_any(rest, b":")?, 2)?;
        if let Some(fraction) = strip_any(rest, b".") {
            let length = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            rest = fraction.get(length.max(1)..).filter(|_| length > 0)?;
        }
        let (offset, rest) = parse_utc_offset(rest)?;
        let utc = (hour * 60 + minute - offset).rem_euclid(24 * 60);
        let leap = second == 60 && utc == 24 * 60 - 1;
        Some(hour < 24 && minute < 60 && (second < 60 || leap) && rest.is_empty())
    });
    is_valid == Some(true)
}

/// Parses an offset; returns the minutes ahead of UTC and the rest.
fn parse_utc_offset(text: &[u8]) -> Option<(i32, &[u8])> {
    if let Some(rest) = strip_any(text, b"Zz") {
        return Some((0, rest));
    }
    let (hours, rest) = parse_digits(strip_any(text, b"+-")?, 2)?;
    let (minutes, rest) = parse_digits(strip_any(rest, b":")?, 2)?;
    let ahead = hours * 60 + minutes;
    let fits = hours < 24 && minutes < 60;
    fits.then_some((if text.first() == Some(&b'-') { -ahead } else { ahead }, rest))
}

/// Removes one of `bytes` from the beginning and returns the rest.
fn strip_any<'a>(text: &'a [u8], bytes: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = text.split_first()?;
    bytes.contains(first).then_some(rest)
}

/// Parses a number of `count` digits and returns the rest too.
fn parse_digits(text: &[u8], count: usize) -> Option<(i32, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    let value = number.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i32::from(b - b'0')))?;
    Some((value, rest))
}

#[cfg(test)]
mod format_tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn check_all(format: &StringFormat, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(format.matches(text), "{format}: {text:?} is one");
        }
        for text in bad {
            assert!(!format.matches(text), "{format}: {text:?} is none");
        }
    }

    // covers: ELIC-013
    #[test]
    fn email_format_matches_addresses_only() {
        let long = |n| "a".repeat(n);
        let (local, label) = (format!("{}@x.example", long(65)), format!("a@{}.example", long(64)));
        let host = format!("a@{}", alloc::vec!["a"; 129].join("."));
        let good = [
            "a@b",
            "first.last+tag@mail.example.org",
            "\"a b@c\"@x.example",
            "ü@bücher.example",
            "a@[127.0.0.1]",
        ];
        let bad = [
            "",
            "a",
            "@",
            "a@",
            "@b",
            "a b@c",
            "a@b c",
            "a@b@c",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a@.b",
            "a@b.",
            "a@-b",
            "a@b-",
            "a@b_c",
            "\"a@b",
            "\"@b",
            "a@[]",
            "a@[x y]",
            "a@[1",
            "a\n@b",
            "a@b\n",
            "\"\u{1}\"@b",
            &local,
            &label,
            &host,
        ];
        check_all(&StringFormat::Email, &good, &bad);
        assert!(StringFormat::Email.matches(&format!("{}@{}.example", long(64), long(63))));
    }

    // covers: ELIC-013
    #[test]
    fn uri_format_matches_absolute_uris_only() {
        let bad =
            ["", "x", "/a", "//h/a", "http:", "a b:c", "https://x.example/a b", "a:%2", "http://é.example"];
        check_all(&StringFormat::Uri, &["https://x.example/a?b#c", "urn:isbn:1", "mailto:a@b"], &bad);
    }

    // covers: ELIC-013
    #[test]
    fn date_and_date_time_formats_match_existing_times_only() {
        let good = ["2026-07-28", "2028-02-29", "2000-02-29", "0000-01-31"];
        let bad = [
            "",
            "2026-7-28",
            "2026-07-28 ",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-04-31",
            "2026-01-00",
            "+026-01-01",
            "2026/01/01",
            "20260101",
            "２026-01-01",
            "2026-07-28T00:00:00Z",
        ];
        check_all(&StringFormat::Date, &good, &bad);
        let good = [
            "2026-07-28T12:00:00Z",
            "2026-07-28t12:00:00z",
            "2026-07-28T23:59:59.123456789+14:00",
            "2026-12-31T23:59:60Z",
            "2026-12-31T15:59:60-08:00",
            "2027-01-01T08:59:60.5+09:00",
        ];
        let bad = [
            "",
            "2026-07-28",
            "2026-07-28T12:00Z",
            "2026-07-28T12:00:00",
            "2026-07-28 12:00:00Z",
            "2026-07-28T24:00:00Z",
            "2026-07-28T12:60:00Z",
            "2026-07-28T12:00:60Z",
            "2026-07-28T12:00:61Z",
            "2026-07-28T12:00:00.Z",
            "2026-07-28T12:00:00+1:00",
            "2026-07-28T12:00:00+24:00",
            "2026-07-28T12:00:00+01:60",
            "2026-07-28T12:00:00+0100",
            "2026-07-28T12:00:00Zx",
            "2026-02-30T12:00:00Z",
            "2026-07-28T12:00:00.1",
        ];
        check_all(&StringFormat::DateTime, &good, &bad);
        assert!(StringFormat::Other(String::from("phone")).matches("anything"));
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
