//! Variables of a test file: values that a step saves and later steps use as `${NAME}`.

use alloc::collections::BTreeMap;

use serde_json::Value;

/// Values by their names.
pub(super) type Saved = BTreeMap<String, Value>;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Part<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Takes a text apart. `$${` stands for `${`.
fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, behind) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([Part::Text(before), Part::Text("${")]);
            rest = &behind[2..];
            continue;
        }
        // One that is not closed is no name.
        let (name, behind) = behind[2..].split_once('}').unwrap_or_default();
        check_name(name)?;
        parts.extend([Part::Text(before), Part::Variable(name)]);
        rest = behind;
    }
    parts.push(Part::Text(rest));
    parts.retain(|part| *part != Part::Text(""));
    Ok(parts)
}

/// Checks the name of a variable.
///
/// # Errors
///
/// Returns what a name has to be.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fits = |(at, c): (usize, char)| {
        c == '_' || if at == 0 { c.is_ascii_alphabetic() } else { c.is_ascii_alphanumeric() }
    };
    match !name.is_empty() && name.char_indices().all(fits) {
        true => Ok(()),
        false => Err("the name of a variable has letters, digits and _, and begins with no digit; $${ is written for ${".into()),
    }
}

/// Returns the names of the variables in the texts of a value.
///
/// # Errors
///
/// Fails if one has no valid name.
pub(super) fn names(value: &Value) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    match value {
        Value::String(text) => {
            for part in parts(text)? {
                if let Part::Variable(name) = part {
                    all.push(name.to_owned());
                }
            }
        }
        Value::Array(elements) => {
            for element in elements {
                all.extend(names(element)?);
            }
        }
        Value::Object(members) => {
            for member in members.values() {
                all.extend(names(member)?);
            }
        }
        _ => {}
    }
    Ok(all)
}

/// Replaces the variables in the texts of a value. A text that is one variable becomes its value.
///
/// # Errors
///
/// Returns the name of a variable that was not saved.
pub(super) fn fill(value: &Value, saved: &Saved) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => {
            let parts = parts(text)?;
            let get = |name: &str| saved.get(name).ok_or_else(|| name.to_owned());
            if let [Part::Variable(name)] = parts[..] {
                return get(name).cloned();
            }
            let mut filled = String::new();
            for part in parts {
                match part {
                    Part::Text(text) => filled.push_str(text),
                    Part::Variable(name) => match get(name)? {
                        Value::String(text) => filled.push_str(text),
                        other => filled.push_str(&other.to_string()),
                    },
                }
            }
            filled.into()
        }
        Value::Array(elements) => {
            elements.iter().map(|element| fill(element, saved)).collect::<Result<_, _>>()?
        }
        Value::Object(members) => {
            let filled = members.iter().map(|(name, value)| Ok((name.clone(), fill(value, saved)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// Replaces the variables in a text.
///
/// # Errors
///
/// As [`fill`].
pub(super) fn fill_text(text: &str, saved: &Saved) -> Result<String, String> {
    Ok(match fill(&text.into(), saved)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_replaced_at_any_depth_and_keep_their_type_alone() {
        let saved = Saved::from([("id".to_owned(), json!(7)), ("b_2".to_owned(), json!("x"))]);
        let value = json!({"a": ["${id}", "n${id}-${b_2}", "$${id}", "$", "${b_2}"], "b": null});
        assert_eq!(names(&value).expect("names"), ["id", "id", "b_2", "b_2"]);
        let want = json!({"a": [7, "n7-x", "${id}", "$", "x"], "b": null});
        assert_eq!(fill(&value, &saved), Ok(want));
        assert_eq!(fill(&json!("${none}"), &saved), Err("none".into()));
        assert_eq!(fill_text("a:${id}", &saved), Ok("a:7".into()));
        for text in ["${}", "${a b}", "${1}", "${open"] {
            assert!(names(&json!(text)).is_err(), "{text}");
        }
    }
}
