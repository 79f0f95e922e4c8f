//! Fuzz target for the JSON scanner, the envelope and the serializer, compared with serde_json.

use alloc::collections::BTreeMap;
use core::fmt;

use bytes::Bytes;
use mcp_proto::frame::line::LineDecoder;
use mcp_proto::internals::{Message, split_batch};
use mcp_proto::{Limits, MalformedMessage, RawJson};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::input::FuzzInput;
use super::wire::{is_bound, json, shown};

/// Largest depth of a [`RawJson`].
const MAX_DEPTH: u32 = 128;

/// Scans arbitrary text and checks that serde_json accepts the same text and finds the same message in it.
pub fn scanner(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let mut limits = Limits::default();
    limits.max_depth = 1 + 2 * u32::from(choices.byte());
    limits.max_members = 1 + u32::from(choices.byte());
    limits.max_id = 32;
    limits.max_batch = 8;
    let text = choices.rest();
    // These accept text that is not UTF-8 too.
    let mut too_short = LineDecoder::new(0);
    too_short.push(text);
    while too_short.next_line().is_some() {}
    message(text, &limits);
    members(text, &limits);
    if core::str::from_utf8(text).is_ok() {
        value(text);
        object(text, &limits);
    }
}

/// Returns whether serde_json accepts the text, or `None` if only a limit of serde_json refuses it.
///
/// Decoding to `IgnoredAny` does not check surrogates; decoding to a value has limits on numbers and depth.
fn is_json(text: &[u8]) -> Option<bool> {
    if serde_json::from_slice::<IgnoredAny>(text).is_err() {
        return Some(false);
    }
    match serde_json::from_slice::<Value>(text) {
        Ok(_) => Some(true),
        Err(e) if is_bound(&e) => None,
        Err(_) => Some(false),
    }
}

fn value(text: &[u8]) {
    let taken = RawJson::new(Bytes::copy_from_slice(text));
    // Its own limit of depth is below that of `RawJson`, and it reads no further than a number that it has no type for.
    if let Some(want) = is_json(text) {
        assert_eq!(taken.is_ok(), want, "{}", shown(text));
    }
    let Ok(taken) = taken else { return };
    let line = RawJson::encode(&taken).expect("JSON").into_bytes();
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    if let (Some(before), Some(after)) = (json(text), json(&line)) {
        assert_eq!(before, after);
        check_written(&before);
    }
}

/// Checks that an encoded value is decoded to an equal one.
fn check_written(value: &Value) {
    let mut value = value.clone();
    check_fractions(&mut value);
    let out = RawJson::encode(&value).expect("JSON");
    assert_eq!(json(out.as_bytes()), Some(value));
}

/// Checks each fraction and replaces it by `null`, because serde_json does not always decode to the nearest float.
fn check_fractions(value: &mut Value) {
    match value {
        Value::Number(n) if n.is_f64() => {
            let out = RawJson::encode(n).expect("JSON");
            assert_eq!(out.as_str().parse().ok(), n.as_f64());
            *value = Value::Null;
        }
        Value::Array(elements) => elements.iter_mut().for_each(check_fractions),
        Value::Object(members) => members.values_mut().for_each(check_fractions),
        _ => {}
    }
}

/// Names of an object in order, including duplicates.
pub(super) struct ObjectNames(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for ObjectNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectNamesVisitor;
        impl<'de> Visitor<'de> for ObjectNamesVisitor {
            type Value = ObjectNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectNames, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
                    names.push(name);
                }
                Ok(ObjectNames(names))
            }
        }
        deserializer.deserialize_map(ObjectNamesVisitor)
    }
}

pub(super) fn all_differ(names: &[String]) -> bool {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] != w[1])
}

/// Checks that an object has the members that serde_json finds in it, as the result of a response.
fn object(text: &[u8], limits: &Limits) {
    let Ok(ObjectNames(expected)) = serde_json::from_slice(text) else { return };
    let response = [br#"{"jsonrpc":"2.0","id":1,"result":"#, text, b"}"].concat();
    // Those of the response count too.
    let mut limits = limits.clone();
    limits.max_depth = 1 + MAX_DEPTH;
    limits.max_members = limits.max_members.max(3);
    match Message::parse(&response, &limits).map_err(|refused| refused.reason) {
        Ok(message) => {
            assert!(all_differ(&expected), "{}", shown(text));
            let result = message.outcome().expect("a result");
            let values: BTreeMap<String, &RawValue> = serde_json::from_slice(text).expect("an object");
            for (name, value) in values {
                assert_eq!(result.member(&name).as_ref().map(RawJson::as_str), Some(value.get()), "{name}");
            }
        }
        Err(MalformedMessage::DuplicateMember { .. }) => assert!(!all_differ(&expected), "{}", shown(text)),
        Err(MalformedMessage::Members { .. }) => assert!(expected.len() > limits.max_members as usize),
        // A lone surrogate in a value, which `IgnoredAny` does not detect, or the depth limit.
        Err(_) => assert!(is_json(text) != Some(true), "{}", shown(text)),
    }
}

/// Checks that an accepted message has the same content for serde_json.
fn message(text: &[u8], limits: &Limits) {
    let message = match Message::parse(text, limits) {
        Ok(message) => message,
        Err(refused) => {
            assert!(!(refused.has_method && refused.is_response));
            match refused.reason {
                MalformedMessage::Utf8 { at } => assert!(core::str::from_utf8(&text[..at]).is_ok()),
                MalformedMessage::Json { .. } => assert!(is_json(text) != Some(true), "{}", shown(text)),
                MalformedMessage::Depth { at } => {
                    let brackets = text[..at].iter().filter(|b| matches!(b, b'[' | b'{'));
                    assert!(brackets.count() >= limits.max_depth as usize, "{}", shown(text));
                }
                MalformedMessage::NotAnObject => {
                    assert!(serde_json::from_slice::<ObjectNames>(text).is_err())
                }
                _ => {}
            }
            return;
        }
    };
    for part in message.values().into_iter().flatten() {
        assert!(serde_json::from_slice::<IgnoredAny>(part).is_ok());
    }
    assert!(message.survives_known_meta(limits), "{}", shown(text));
    let Some(value) = json(text) else { return };
    assert_eq!(value["jsonrpc"], "2.0");
    assert!(all_differ(&serde_json::from_slice::<ObjectNames>(text).map(|n| n.0).unwrap_or_default()));
    let known = |name: &str| value.get(name).filter(|value| !value.is_null());
    match message.id() {
        Some(id) => assert_eq!(json(&id).as_ref(), known("id"), "{}", shown(text)),
        // An error may have an id that is none.
        None => assert!(
            known("id").is_none() || (known("error").is_some() && !has_usable_id(text, limits)),
            "{}",
            shown(text)
        ),
    }
    assert_eq!(value.get("method").and_then(Value::as_str).unwrap_or_default(), message.method());
    assert_eq!(message.is_response(), value.get("method").is_none());
    if message.is_response() {
        assert_eq!(message.outcome().is_ok(), known("result").is_some(), "{}", shown(text));
    }
}

/// Returns whether the id of an object is a string or an integer within the limits.
fn has_usable_id(text: &[u8], limits: &Limits) -> bool {
    let id = RawJson::new(Bytes::copy_from_slice(text)).ok().and_then(|object| object.member("id"));
    id.is_some_and(|id| {
        id.as_bytes().len() <= limits.max_id && (id.string().is_some() || id.parse::<i64>().is_ok())
    })
}

/// Checks that a batch has the elements that serde_json finds in it, or one that is not JSON.
fn members(text: &[u8], limits: &Limits) {
    let frame = Bytes::copy_from_slice(text);
    if let Ok(found) = split_batch(&frame, limits) {
        assert!(!found.is_empty() && found.len() <= limits.max_batch);
        match serde_json::from_slice::<Vec<&RawValue>>(text) {
            Ok(expected) => {
                let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
                let found = found.iter().map(|m| shown(m).trim_matches([' ', '\t', '\r', '\n']).to_string());
                assert_eq!(found.collect::<Vec<_>>(), expected);
            }
            // A malformed element gets an error of its own.
            Err(_) => assert!(found.iter().any(|m| is_json(m) != Some(true)), "{}", shown(text)),
        }
    }
}
