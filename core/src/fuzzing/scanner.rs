//! The scanner, the envelope and the writer against serde_json.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::dice::Dice;
use super::wire::{is_bound, json, shown};
use crate::json::{MAX_DEPTH, ScanError, Scanner, Serializer, append_one_line, object_members, unescape};
use crate::limits::Limits;
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Kind, Malformed};
use crate::{calls::batch, rpc::recover::Finder};

/// What we take is JSON, what we refuse as no JSON is none, and a message means to us what it means to others
pub fn scanner(data: &[u8]) {
    let mut dice = Dice::new(data);
    let limits = Limits {
        max_depth: 1 + dice.byte() % MAX_DEPTH,
        max_members: 1 + u32::from(dice.byte()),
        max_id: 32,
        max_batch: 8,
        ..Limits::default()
    };
    let text = dice.rest();
    // These take what is no UTF-8 too.
    let mut finder = Finder::new();
    finder.feed(text);
    finder.finish();
    message(text, &limits);
    members(text, &limits);
    if core::str::from_utf8(text).is_ok() {
        value(text);
        object(text, &limits);
    }
}

/// Whether serde_json takes the text; none where only a bound of its own stands against it
///
/// Reading it as nothing checks no surrogates, reading it as a value has bounds on numbers and depth.
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
    let taken = scanned.is_ok() && s.at_end();
    assert_eq!(RawJson::new(Bytes::copy_from_slice(text)).is_ok(), taken, "{}", shown(text));
    match (scanned, is_json(text)) {
        (Err(ScanError::Syntax(_)) | Ok(_), Some(want)) => assert_eq!(taken, want, "{}", shown(text)),
        (Err(ScanError::Depth(at)), _) => {
            assert!(text[..at].iter().filter(|b| matches!(b, b'[' | b'{')).count() >= 128)
        }
        (Err(e), _) => panic!("{e:?} without a check of members"),
        (_, None) => {}
    }
    if taken {
        let mut line = Vec::new();
        append_one_line(&mut line, text);
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        if let (Some(before), Some(after)) = (json(text), json(&line)) {
            assert_eq!(before, after);
            written(&before);
        }
    }
}

/// What we write is read as what it was
fn written(value: &Value) {
    let mut value = value.clone();
    fractions(&mut value);
    let mut out = Vec::new();
    assert!(Serializer::any(&mut out, &value).is_ok());
    assert_eq!(json(&out), Some(value));
}

/// Checks each fraction and replaces it: serde_json's own reading of one is not always the nearest
fn fractions(value: &mut Value) {
    match value {
        Value::Number(n) if n.is_f64() => {
            let mut out = Vec::new();
            assert!(Serializer::any(&mut out, n).is_ok());
            assert_eq!(shown(&out).parse().ok(), n.as_f64());
            *value = Value::Null;
        }
        Value::Array(elements) => elements.iter_mut().for_each(fractions),
        Value::Object(members) => members.values_mut().for_each(fractions),
        _ => {}
    }
}

/// The names in an object, in order, repeated ones too
pub(super) struct Names(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

pub(super) fn all_differ(names: &[String]) -> bool {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] != w[1])
}

fn object(text: &[u8], limits: &Limits) {
    let mut ours = Vec::new();
    let mut s = Scanner::new(text, MAX_DEPTH, limits.max_members);
    let scanned = s.object(|s, name| {
        let plain = shown(&name.bytes());
        assert_eq!(unescape(name.raw), plain.as_bytes());
        ours.push(plain);
        s.value().map(|_| ())
    });
    let Ok(Names(theirs)) = serde_json::from_slice(text) else { return };
    match scanned {
        Ok(_) if s.at_end() => {
            assert!(ours == theirs && all_differ(&theirs), "{}", shown(text));
            let mut again = Vec::new();
            object_members(text, |name, _| again.push(shown(name)));
            assert_eq!(again, ours);
        }
        Err(ScanError::Duplicate(_)) => assert!(!all_differ(&theirs), "{}", shown(text)),
        Err(ScanError::Members(_)) => assert!(theirs.len() > limits.max_members as usize),
        // A lone surrogate in a value, which reading it as nothing overlooks; depth.
        Ok(_) | Err(_) => assert!(is_json(text) != Some(true), "{}", shown(text)),
    }
}

/// An accepted message says to others what it says to us
fn message(text: &[u8], limits: &Limits) {
    let envelope = match envelope::parse(text, limits, None) {
        Ok(envelope) => envelope,
        Err(rejected) => {
            assert!(!(rejected.asks && rejected.answers));
            match rejected.why {
                Malformed::Utf8 { at } => assert!(core::str::from_utf8(&text[..at]).is_ok()),
                Malformed::Json { .. } => assert!(is_json(text) != Some(true), "{}", shown(text)),
                Malformed::NotAnObject => assert!(serde_json::from_slice::<Names>(text).is_err()),
                _ => {}
            }
            return;
        }
    };
    for span in
        [envelope.params.whole, envelope.params.arguments, envelope.params.meta.whole, envelope.result]
    {
        assert!(span.of(text).is_none_or(|part| serde_json::from_slice::<IgnoredAny>(part).is_ok()));
    }
    // A message that repeats the metadata of an earlier one is read alike.
    let meta = envelope.params.meta;
    if let Some(known) = meta.whole.of(text).filter(|m| m.starts_with(b"{")) {
        let parts = meta.shifted(0u32.wrapping_sub(meta.whole.start));
        let again = envelope::parse(text, limits, Some((known, &parts)));
        let again = again.unwrap_or_else(|r| panic!("refused the second time: {:?}", r.why));
        assert!(again.meta_known && again.params == envelope.params, "{}", shown(text));
    }
    let Some(value) = json(text) else { return };
    assert_eq!(value["jsonrpc"], "2.0");
    assert!(all_differ(&serde_json::from_slice::<Names>(text).map(|n| n.0).unwrap_or_default()));
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

/// A batch has the elements that others see in it
fn members(text: &[u8], limits: &Limits) {
    let frame = Bytes::copy_from_slice(text);
    if let Ok(ours) = batch::members(&frame, limits) {
        assert!(!ours.is_empty() && ours.len() <= limits.max_batch);
        let theirs: Vec<&serde_json::value::RawValue> = serde_json::from_slice(text).unwrap_or_default();
        let theirs: Vec<String> = theirs.iter().map(ToString::to_string).collect();
        assert_eq!(ours.iter().map(|m| shown(m)).collect::<Vec<_>>(), theirs);
    }
}
