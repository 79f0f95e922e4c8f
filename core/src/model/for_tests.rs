//! What the tests of every type ask.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::json::Serializer;
use crate::raw::RawJson;

/// A value is read back as it was written, an unknown member survives, and no member may stand twice; the text
pub(super) fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    borrowed(value, |text| serde_json::from_str(text))
}

/// As [`same`], for types that borrow
pub(super) fn borrowed<T: Serialize + PartialEq + Debug>(
    value: &T,
    read: impl for<'r> Fn(&'r str) -> serde_json::Result<T>,
) -> String {
    let text = serde_json::to_string(value).expect("JSON");
    let mut ours = alloc::vec::Vec::new();
    Serializer::any(&mut ours, value).expect("JSON");
    assert_eq!(String::from_utf8_lossy(&ours), text, "both serializers agree");
    assert_eq!(&read(&text).expect("a value"), value, "{text}");

    let mut comma = if text == "{}" { "" } else { "," };
    let with = |more: &str, comma: &str| format!("{}{comma}{more}}}", &text[..text.len() - 1]);
    let odd = with(r#""x-odd":[1.50,null]"#, comma);
    let kept = serde_json::to_string(&read(&odd).expect("unknown members pass")).expect("JSON");
    assert_eq!(kept, odd, "an unknown member survives");
    let twice = format!("{}{}", r#""x-odd":1,"#, r#""x-odd":2"#);
    let error = read(&with(&twice, comma)).expect_err("twice").to_string();
    assert!(error.contains("duplicate field `x-odd`"), "{error}");

    // Every known member once more.
    comma = ",";
    let raw = RawJson::new(text.clone()).expect("JSON");
    crate::json::object_members(raw.as_bytes(), |name, value| {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        let error = read(&with(&format!("\"{name}\":{value}"), comma)).expect_err("twice").to_string();
        assert!(error.contains(&format!("duplicate field `{name}`")), "{name}: {error}");
    });
    text
}

/// Reading `text` fails and names the member that is missing
pub(super) fn missing<'de, T: Deserialize<'de> + Debug>(text: &'de str, member: &str) {
    let error = serde_json::from_str::<T>(text).expect_err("something is missing").to_string();
    assert!(error.contains(&format!("missing field `{member}`")), "{error}");
}
