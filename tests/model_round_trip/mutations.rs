//! Objects with one error.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use serde_json::{Value, json};

use crate::model_round_trip::TypeRow;

/// Checks members that are missing or have another type: each is accepted, or named in the error. Nothing panics.
pub(crate) fn check_mutations<T: Debug>(
    row: &TypeRow,
    full: &Value,
    read: &impl Fn(&str) -> serde_json::Result<T>,
    tolerant: &mut BTreeMap<(&'static str, String), bool>,
) {
    for (member, value) in full.as_object().expect("an object") {
        let mut without = full.clone();
        without.as_object_mut().expect("an object").remove(member);
        if let Err(error) = read(&without.to_string()) {
            let error = error.to_string();
            assert!(error.contains(&format!("missing field `{member}`")), "{}: {error}", row.name);
        }
        let tolerant = tolerant.entry((row.name, member.clone())).or_insert(true);
        for wrong_value in
            [json!(null), json!(true), json!(-1.5), json!("x"), json!([[]]), json!({ "x": {} })]
        {
            let mut mutated = full.clone();
            mutated[member] = wrong_value.clone();
            if let Err(error) = read(&mutated.to_string()) {
                let error = error.to_string();
                *tolerant = false;
                let is_named = error.starts_with(&format!("`{member}"));
                assert!(is_named, "{}: {member}: {wrong_value} in place of {value} gave: {error}", row.name);
            }
        }
    }
}

/// Checks that a repeated member is refused and named. Otherwise a reader that takes the first and a reader that takes
/// the last would see different messages.
pub(crate) fn check_duplicate_members<T: Debug>(
    row: &TypeRow,
    text: &str,
    read: &impl Fn(&str) -> serde_json::Result<T>,
) {
    let full: Value = serde_json::from_str(text).expect("JSON");
    for (member, value) in full.as_object().expect("an object") {
        let name = json!(member).to_string();
        let doubled = match text.strip_suffix('}') {
            Some(open) => format!("{open},{name}:{value}}}"),
            None => panic!("{text}"),
        };
        let error = read(&doubled).expect_err(&doubled).to_string();
        assert!(error.contains(member.as_str()), "{}: {member}: {error}", row.name);
    }
}
