//! Fuzz target for the reader of checked text, compared with serde_json.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use core::fmt::Debug;

use mcp_proto::RawJson;
use mcp_proto::internals::read_unchecked;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::input::FuzzInput;
use super::model::has_exact_numbers;

/// Reads arbitrary text as one type, whether it is JSON or not.
///
/// - What is read is what serde_json reads, and nothing is read that it refuses.
/// - JSON that serde_json reads is read.
pub fn reader(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let which = usize::from(choices.byte());
    let Ok(text) = core::str::from_utf8(choices.rest()) else { return };
    if let Some(compare) = TYPES.get(which % TYPES.len()) {
        compare(text);
    }
}

fn compare<'a, T: Deserialize<'a> + Debug>(text: &'a str) {
    let (ours, theirs) = (read_unchecked::<T>(text), serde_json::from_str::<T>(text));
    if !has_exact_numbers(text) {
        return;
    }
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}"),
        (Ok(ours), Err(error)) => panic!("{text} is read as {ours:?}: {error}"),
        (Err(error), Ok(_)) => assert!(RawJson::new(text.to_owned()).is_err(), "{text}: {error}"),
        (Err(_), Err(_)) => {}
    }
}

/// Members of most kinds.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "printed")]
struct Members<'a> {
    a: Option<u8>,
    #[serde(borrow, default)]
    b: Cow<'a, str>,
    #[serde(borrow, default)]
    c: Option<&'a RawValue>,
    #[serde(default)]
    d: Vec<Self>,
    #[serde(default)]
    e: Option<Kind>,
    #[serde(default)]
    f: (f64, char, ()),
    #[serde(default)]
    g: BTreeMap<i64, Kind>,
}

/// Variants of each kind.
#[derive(Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(dead_code, reason = "printed")]
enum Kind {
    A,
    B(i16),
    C(u64, Option<bool>),
    D { a: Vec<u8> },
}

const TYPES: &[fn(&str)] = &[
    |text| compare::<Members<'_>>(text),
    |text| compare::<Value>(text),
    |text| compare::<Kind>(text),
    |text| compare::<IgnoredAny>(text),
    |text| compare::<&RawValue>(text),
    |text| compare::<RawJson>(text),
    |text| compare::<f64>(text),
    |text| compare::<i64>(text),
    |text| compare::<i128>(text),
    |text| compare::<String>(text),
    |text| compare::<Vec<(u8, &str)>>(text),
    |text| compare::<BTreeMap<Kind, Option<String>>>(text),
    |text| compare::<BTreeMap<u128, Vec<char>>>(text),
    // Alone: for a name that begins with a character of several bytes, serde_json makes an error of a text that is not UTF-8.
    |text| drop(read_unchecked::<BTreeMap<bool, [f32; 2]>>(text)),
];
