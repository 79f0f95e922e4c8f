//! Assertions about message types, as the core makes them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use mcp_proto::RawJson;
use mcp_proto::model::Map;

/// Checks that a value survives a round trip with unknown members, and that duplicates are refused; returns its JSON.
pub(super) fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    assert_borrowed_round_trip(value, |text| serde_json::from_str(text))
}

/// Does the same as [`assert_round_trip`], for types that borrow.
pub(super) fn assert_borrowed_round_trip<T: Serialize + PartialEq + Debug>(
    value: &T,
    read: impl for<'r> Fn(&'r str) -> serde_json::Result<T>,
) -> String {
    let text = serde_json::to_string(value).expect("JSON");
    assert_eq!(RawJson::encode(value).expect("JSON").as_str(), text, "both serializers agree");
    assert_eq!(&read(&text).expect("a value"), value, "{text}");

    let mut comma = if text == "{}" { "" } else { "," };
    let with = |more: &str, comma: &str| format!("{}{comma}{more}}}", &text[..text.len() - 1]);
    let with_unknown = with(r#""x-with_unknown":[1.50,null]"#, comma);
    let kept = serde_json::to_string(&read(&with_unknown).expect("unknown members pass")).expect("JSON");
    assert_eq!(kept, with_unknown, "an unknown member survives");
    let twice = format!("{}{}", r#""x-with_unknown":1,"#, r#""x-with_unknown":2"#);
    let error = read(&with(&twice, comma)).expect_err("twice").to_string();
    assert!(error.contains("duplicate field `x-with_unknown`"), "{error}");

    // Repeats each known member.
    comma = ",";
    let raw = RawJson::new(text.clone()).expect("JSON");
    for (name, value) in raw.parse::<Map<RawJson>>().expect("an object").iter() {
        let error =
            read(&with(&format!("\"{name}\":{}", value.as_str()), comma)).expect_err("twice").to_string();
        assert!(error.contains(&format!("duplicate field `{name}`")), "{name}: {error}");
    }
    text
}

/// Checks that reading `text` fails and names the missing member.
pub(super) fn assert_missing<'de, T: Deserialize<'de> + Debug>(text: &'de str, member: &str) {
    let error = serde_json::from_str::<T>(text).expect_err("something is missing").to_string();
    assert!(error.contains(&format!("missing field `{member}`")), "{error}");
}
