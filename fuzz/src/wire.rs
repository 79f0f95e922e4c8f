//! Checks that hold for all bytes that an engine sends.

use alloc::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Decodes text that must be JSON; `None` if it exceeds a limit of serde_json (huge numbers, deep nesting).
pub(super) fn json(text: &[u8]) -> Option<Value> {
    match serde_json::from_slice(text) {
        Ok(value) => Some(value),
        Err(e) if is_bound(&e) => {
            assert!(
                serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok(),
                "not JSON: {}",
                shown(text)
            );
            None
        }
        Err(e) => panic!("not JSON ({e}): {}", shown(text)),
    }
}

/// Returns whether serde_json refused valid JSON because of its own limits.
pub(super) fn is_bound(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    text.starts_with("number out of range") || text.starts_with("recursion limit exceeded")
}

pub(super) fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Checks that `sent` consists of messages, one per line, and returns them; batches are split.
pub(super) fn messages(sent: &[u8]) -> Vec<Value> {
    let mut messages = Vec::new();
    for line in sent.split_inclusive(|b| *b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or_else(|| panic!("an unfinished line: {}", shown(line)));
        assert!(!text.contains(&b'\r'), "a carriage return: {}", shown(text));
        match json(text) {
            Some(Value::Array(members)) => {
                assert!(!members.is_empty(), "an empty batch");
                messages.extend(members);
            }
            Some(message) => messages.push(message),
            None => {}
        }
    }
    for message in &messages {
        assert!(message.is_object() && message["jsonrpc"] == "2.0", "not a message: {message}");
        let has = |name| message.get(name).is_some();
        let kinds = [has("method"), has("result"), has("error")];
        assert_eq!(kinds.iter().filter(|k| **k).count(), 1, "ambiguous kind of message: {message}");
        assert!(!has("result") || has("id"), "a result without an id: {message}");
        assert!(message.get("id").is_none_or(|id| id.is_number() || id.is_string()), "an odd id: {message}");
    }
    messages
}

/// Returns the ids of the messages in a received text, which is a batch or a single message; `None` if it is not JSON.
///
/// Other members are not decoded, because the engine answers messages with numbers that no `Value` can hold.
pub(super) fn ids(text: &[u8]) -> Option<Vec<Value>> {
    let single = || serde_json::from_slice::<&RawValue>(text).map(|message| [message].into());
    let messages: Vec<&RawValue> = serde_json::from_slice(text).or_else(|_| single()).ok()?;
    let id = |message: &&RawValue| {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(message.get()).ok()?;
        serde_json::from_str(members.get("id")?.get()).ok()
    };
    Some(messages.iter().filter_map(id).collect())
}

/// Returns the number of responses per id.
pub(super) fn answers(messages: &[Value]) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for message in messages.iter().filter(|m| m.get("method").is_none()) {
        if let Some(id) = message.get("id") {
            *answers.entry(id.to_string()).or_default() += 1;
        }
    }
    answers
}
