//! The arguments of the demonstration tools, and what to say about wrong ones

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Echo<'a> {
    #[serde(borrow)]
    pub(super) text: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    pub(super) a: Number,
    pub(super) b: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Count {
    #[serde(deserialize_with = "whole")]
    pub(super) to: u32,
    #[serde(deserialize_with = "whole", default = "Count::default_delay")]
    pub(super) delay_ms: u32,
}

impl Count {
    const fn default_delay() -> u32 {
        100
    }

    /// Within the bounds that the schema names
    pub(super) const fn is_bounded(&self) -> bool {
        self.to <= 1_000_000 && self.delay_ms <= 3_600_000
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A whole number however it is spelt: `5`, `5.0` and `5e0` are the same number in JSON
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        // In range and whole, so nothing is lost.
        Ok(number as u32)
    } else {
        Err(serde::de::Error::custom("not a whole number in range"))
    }
}

/// The sum; none when it is no number that JSON has
pub(super) fn sum(a: &Number, b: &Number) -> Option<Number> {
    let exact = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    exact.map(Number::from).or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?))
}

/// Why `arguments` do not fit `schema`, in a sentence for a model to learn from
///
/// Only asked when they were refused already, so that it may take its time. `reason` is what the parser said, for
/// what is not found here.
pub(super) fn complaint(tool: &str, schema: &str, arguments: &[u8], reason: &str) -> String {
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow, default)]
        properties: BTreeMap<&'a str, Property<'a>>,
        #[serde(default)]
        required: Vec<&'a str>,
    }
    #[derive(Deserialize)]
    struct Property<'a> {
        r#type: &'a str,
        minimum: Option<f64>,
        maximum: Option<f64>,
    }
    let read = serde_json::from_str::<Schema<'_>>(schema).ok();
    let Some((schema, given)) = read.zip(serde_json::from_slice::<BTreeMap<String, Value>>(arguments).ok())
    else {
        return format!("the arguments of {tool} cannot be read: {reason}");
    };
    for (name, property) in &schema.properties {
        let Some(value) = given.get(*name) else {
            if schema.required.contains(name) {
                return format!(
                    "the argument `{name}` of {tool} is missing; it has to be {}",
                    a(property.r#type)
                );
            }
            continue;
        };
        let number = value.as_f64();
        let fits = match property.r#type {
            "string" => value.is_string(),
            "integer" => number.is_some_and(|number| number.fract() == 0.0),
            _ => number.is_some(),
        };
        if !fits {
            return format!(
                "the argument `{name}` of {tool} has to be {}, not {}",
                a(property.r#type),
                kind(value)
            );
        }
        let (least, most) = (property.minimum.unwrap_or(f64::MIN), property.maximum.unwrap_or(f64::MAX));
        if number.is_some_and(|number| !(least..=most).contains(&number)) {
            return format!("the argument `{name}` of {tool} has to lie between {least} and {most}");
        }
    }
    if let Some(unknown) = given.keys().find(|name| !schema.properties.contains_key(name.as_str())) {
        let unknown: String = unknown.chars().take(64).collect();
        let known = schema.properties.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "takes none".into() } else { format!("takes {known}") };
        return format!("there is no argument `{unknown}`; {tool} {known}");
    }
    format!("the arguments of {tool} do not fit: {reason}")
}

fn a(kind: &str) -> &str {
    match kind {
        "string" => "a string",
        "integer" => "a whole number",
        _ => "a number",
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number of another kind",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tools::{ADD, COUNT, ECHO, FAIL, Spec};
    use super::*;

    // covers: TOOL-022
    #[test]
    fn a_complaint_names_the_argument() {
        let cases: &[(&Spec, &str, &str)] = &[
            (&ECHO, "{}", "the argument `text` of echo is missing; it has to be a string"),
            (
                &ECHO,
                r#"{"text":5}"#,
                "the argument `text` of echo has to be a string, not a number of another kind",
            ),
            (&ECHO, r#"{"text":null}"#, "the argument `text` of echo has to be a string, not null"),
            (&ECHO, r#"{"text":"x","loud":true}"#, "there is no argument `loud`; echo takes `text`"),
            (&ADD, r#"{"a":1,"b":"2"}"#, "the argument `b` of add has to be a number, not a string"),
            (&COUNT, r#"{"to":-1}"#, "the argument `to` of count has to lie between 0 and 1000000"),
            (
                &COUNT,
                r#"{"to":1.5}"#,
                "the argument `to` of count has to be a whole number, not a number of another kind",
            ),
            (&COUNT, r#"{"to":5,"delay":1}"#, "there is no argument `delay`; count takes `delay_ms`, `to`"),
            (&FAIL, r#"{"x":1}"#, "there is no argument `x`; fail takes none"),
        ];
        for (spec, arguments, want) in cases {
            assert_eq!(complaint(spec.name, spec.input, arguments.as_bytes(), "no reason"), *want);
        }
    }

    #[test]
    fn sums_are_exact_where_they_can_be() {
        let number = |text: &str| serde_json::from_str::<Number>(text).expect("a number");
        let cases = [
            ("20", "22", Some("42")),
            ("2", "3.5", Some("5.5")),
            ("9007199254740993", "0", Some("9007199254740993")),
            ("9223372036854775807", "1", Some("9223372036854775808.0")),
            ("1e308", "1e308", None),
        ];
        for (a, b, want) in cases {
            assert_eq!(sum(&number(a), &number(b)), want.map(number), "{a} + {b}");
        }
    }

    #[test]
    fn whole_numbers_may_be_spelt_in_any_way() {
        let to = |text: &str| serde_json::from_str::<Count>(&format!("{{\"to\":{text}}}")).ok().map(|c| c.to);
        assert_eq!([to("5"), to("5.0"), to("5e0")], [Some(5); 3]);
        assert_eq!([to("-1"), to("1.5"), to("1e300"), to("\"5\"")], [None; 4]);
    }
}
