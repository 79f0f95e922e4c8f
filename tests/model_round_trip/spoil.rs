//! Objects with one thing wrong.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use serde_json::{Value, json};

use crate::Row;

/// A member that is missing, or is of another type, is named or does not matter; nothing panics
pub(crate) fn spoil<T: Debug>(
    row: &Row,
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
        for wrong in [json!(null), json!(true), json!(-1.5), json!("x"), json!([[]]), json!({ "x": {} })] {
            let mut spoilt = full.clone();
            spoilt[member] = wrong.clone();
            if let Err(error) = read(&spoilt.to_string()) {
                let error = error.to_string();
                *tolerant = false;
                let named = error.starts_with(&format!("`{member}"));
                assert!(named, "{}: {member}: {wrong} instead of {value}: {error}", row.name);
            }
        }
    }
}

/// An object that has a member twice is refused, whatever the member, and the member is named: readers that take the
/// first and readers that take the last must not see two messages
pub(crate) fn twice<T: Debug>(row: &Row, text: &str, read: &impl Fn(&str) -> serde_json::Result<T>) {
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
