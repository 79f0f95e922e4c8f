//! JSON values: compared, and shown in messages.

use alloc::collections::BTreeMap;

use serde_json::{Number, Value};

/// Returns whether both are the same value: 1 is 1.0, and the order of members does not count.
#[must_use]
pub fn is_equal(one: &Value, other: &Value) -> bool {
    canonical(one) == canonical(other)
}

/// Returns the whole number that a number is, however it is written.
fn integer(number: &Number) -> Option<i128> {
    let whole = |float: &f64| float.fract() == 0.0 && float.abs() < 1e38;
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| number.as_f64().filter(whole).map(|float| float as i128))
}

/// Returns a value as a text that is the same for all values that are [equal](is_equal) to it.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => {
            integer(number).map_or_else(|| number.to_string(), |whole| whole.to_string())
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let member = |(name, value): (&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), canonical(value))
            };
            format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Returns whether a value is equal to another one, or an object that has all of its members and perhaps more.
pub fn includes(found: &Value, part: &Value) -> bool {
    match (found, part) {
        (Value::Object(members), Value::Object(part)) => {
            part.iter().all(|(name, part)| members.get(name).is_some_and(|found| includes(found, part)))
        }
        _ => is_equal(found, part),
    }
}

/// Formats a value for a message.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

/// Maximum number of characters of a value that is shown.
pub const MAX_SHOWN: usize = 300;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_by_value_and_parts_at_any_depth() {
        let whole = json!({"a": [1, 2.0], "b": {"c": null, "d": "x"}});
        assert!(is_equal(&whole, &json!({"b": {"d": "x", "c": null}, "a": [1.0, 2]})));
        assert!(!is_equal(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64)));
        for (one, other) in
            [(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)), (json!(1), json!(1.5))]
        {
            assert!(!is_equal(&one, &other) && !is_equal(&other, &one), "{one} {other}");
            assert_ne!(canonical(&one), canonical(&other));
        }
        let again = json!({"b": {"d": "x", "c": null}, "a": [1.0, 2]});
        assert_eq!(canonical(&whole), canonical(&again));
        for part in [json!({}), json!({"b": {"c": null}}), json!({"a": [1, 2]}), whole.clone()] {
            assert!(includes(&whole, &part), "{part}");
        }
        for part in [json!({"a": [1]}), json!({"b": {"e": null}}), json!([]), json!({"b": "x"})] {
            assert!(!includes(&whole, &part), "{part}");
        }
        assert_eq!(shown(&json!("é".repeat(400))).chars().count(), MAX_SHOWN + 2);
    }
}
