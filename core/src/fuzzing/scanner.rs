//! Fuzz target for the JSON scanner, the envelope and the serializer, compared with serde_json.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::input::FuzzInput;
use super::wire::{is_bound, json, shown};
use crate::json::{MAX_DEPTH, ScanError, Scanner, Serializer, append_one_line, object_members, unescape};
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Kind, MalformedMessage};
use crate::{calls::batch, rpc::recover::IdFinder};

/// Scans arbitrary text and checks that serde_json accepts the same text and finds the same message in it.
pub fn scanner(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let limits = Limits {
        max_depth: 1 + 2 * u32::from(choices.byte()),
        max_members: 1 + u32::from(choices.byte()),
        max_id: 32,
        max_batch: 8,
        ..Limits::default()
    };
    let text = choices.rest();
    // These accept text that is not UTF-8 too.
    let mut finder = IdFinder::new();
    finder.feed(text);
    finder.finish();
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
    let mut s = Scanner::new(text, MAX_DEPTH, u32::MAX);
    let scanned = s.value();
    let taken = scanned.is_ok() && s.is_at_end();
    assert_eq!(RawJson::new(Bytes::copy_from_slice(text)).is_ok(), taken, "{}", shown(text));
    match (scanned, is_json(text)) {
        (Err(ScanError::Syntax(_)) | Ok(_), Some(want)) => assert_eq!(taken, want, "{}", shown(text)),
        (Err(ScanError::Depth(at)), _) => {
            assert!(text[..at].iter().filter(|b| matches!(b, b'[' | b'{')).count() >= 128)
        }
        // serde_json reads no further than a number that it has no type for.
        (Err(ScanError::Syntax(_)) | Ok(_), None) => {}
        (Err(e), _) => panic!("{e:?} without a check of members"),
    }
    if taken {
        let mut line = Vec::new();
        append_one_line(&mut line, text);
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        if let (Some(before), Some(after)) = (json(text), json(&line)) {
            assert_eq!(before, after);
            check_written(&before);
        }
    }
}

/// Checks that an encoded value is decoded to an equal one.
fn check_written(value: &Value) {
    let mut value = value.clone();
    check_fractions(&mut value);
    let mut out = Vec::new();
    assert!(Serializer::any(&mut out, &value).is_ok());
    assert_eq!(json(&out), Some(value));
}

/// Checks each fraction and replaces it by `null`, because serde_json does not always decode to the nearest float.
fn check_fractions(value: &mut Value) {
    match value {
        Value::Number(n) if n.is_f64() => {
            let mut out = Vec::new();
            assert!(Serializer::any(&mut out, n).is_ok());
            assert_eq!(shown(&out).parse().ok(), n.as_f64());
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

fn object(text: &[u8], limits: &Limits) {
    let mut found = Vec::new();
    let mut s = Scanner::new(text, MAX_DEPTH, limits.max_members);
    let scanned = s.object(|s, name| {
        let plain = shown(&name.unescaped());
        assert_eq!(unescape(name.raw), plain.as_bytes());
        found.push(plain);
        s.value().map(|_| ())
    });
    let Ok(ObjectNames(expected)) = serde_json::from_slice(text) else { return };
    match scanned {
        Ok(_) if s.is_at_end() => {
            assert!(found == expected && all_differ(&expected), "{}", shown(text));
            let mut again = Vec::new();
            object_members(text, |name, _| again.push(shown(name)));
            assert_eq!(again, found);
        }
        Err(ScanError::Duplicate(_)) => assert!(!all_differ(&expected), "{}", shown(text)),
        Err(ScanError::Members(_)) => assert!(expected.len() > limits.max_members as usize),
        // A lone surrogate in a value, which `IgnoredAny` does not detect, or the depth limit.
        Ok(_) | Err(_) => assert!(is_json(text) != Some(true), "{}", shown(text)),
    }
}

/// Checks that an accepted message has the same content for serde_json.
fn message(text: &[u8], limits: &Limits) {
    let envelope = match envelope::parse(text, limits, None) {
        Ok(envelope) => envelope,
        Err(rejected) => {
            assert!(!(rejected.has_method && rejected.is_response));
            match rejected.reason {
                MalformedMessage::Utf8 { at } => assert!(core::str::from_utf8(&text[..at]).is_ok()),
                MalformedMessage::Json { .. } => assert!(is_json(text) != Some(true), "{}", shown(text)),
                MalformedMessage::NotAnObject => {
                    assert!(serde_json::from_slice::<ObjectNames>(text).is_err())
                }
                _ => {}
            }
            return;
        }
    };
    for span in
        [envelope.params.whole, envelope.params.arguments, envelope.params.meta.whole, envelope.result]
    {
        assert!(span.slice(text).is_none_or(|part| serde_json::from_slice::<IgnoredAny>(part).is_ok()));
    }
    // A message that repeats the `_meta` of an earlier one is decoded alike.
    let meta = envelope.params.meta;
    if let Some(known) = meta.whole.slice(text).filter(|m| m.starts_with(b"{")) {
        let parts = meta.shifted(0u32.wrapping_sub(meta.whole.start));
        let again = envelope::parse(text, limits, Some((known, &parts)));
        let again = again.unwrap_or_else(|r| panic!("refused the second time: {:?}", r.reason));
        assert!(again.has_known_meta && again.params == envelope.params, "{}", shown(text));
    }
    let Some(value) = json(text) else { return };
    assert_eq!(value["jsonrpc"], "2.0");
    assert!(all_differ(&serde_json::from_slice::<ObjectNames>(text).map(|n| n.0).unwrap_or_default()));
    let id = envelope.id.as_ref().map(|id| {
        let mut out = Vec::new();
        id.write(&mut out);
        json(&out)
    });
    assert_eq!(id.unwrap_or_default(), value.get("id").filter(|id| !id.is_null()).cloned());
    assert_eq!(value.get("method").and_then(Value::as_str).unwrap_or_default(), envelope.method);
    assert_eq!(envelope.kind == Kind::Response, value.get("method").is_none());
    let outcome = envelope.outcome(&Bytes::copy_from_slice(text));
    if envelope.kind == Kind::Response {
        assert_eq!(outcome.is_ok(), value.get("result").is_some());
    }
}

/// Checks that a batch has the elements that serde_json finds in it, or one that is not JSON.
fn members(text: &[u8], limits: &Limits) {
    let frame = Bytes::copy_from_slice(text);
    if let Ok(found) = batch::split_batch(&frame, limits) {
        assert!(!found.is_empty() && found.len() <= limits.max_batch);
        match serde_json::from_slice::<Vec<&serde_json::value::RawValue>>(text) {
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
