//! Fuzz target for sealed state, and for the canonical form of the arguments that it is bound to.

use mcp_proto::RawJson;
use mcp_proto::seal::{Binding, Keys, RequestState, SealError, digest};
use serde_json::Value;

use super::input::FuzzInput;
use super::wire::json;

const LIMIT: usize = 4 << 10;

/// Seals and opens arbitrary state and checks the invariants.
///
/// - Only state that was sealed for the same call can be opened.
/// - Two texts have the same digest exactly if they have the same value.
pub fn seal(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let keys = Keys::new([choices.byte(); 32]).with_older([choices.byte(); 32]);
    let times = [choices.byte(), choices.byte()].map(u64::from);
    let changes: Vec<(usize, u8)> = (0..choices.below(4))
        .map(|_| (usize::from(choices.byte()) << 8 | usize::from(choices.byte()), choices.byte()))
        .collect();
    let length = choices.below(200);
    let payload = choices.take(length);
    let text = choices.rest();
    record(payload);
    record(text);
    let Ok(text) = core::str::from_utf8(text) else {
        assert!(digest(Some(text)).is_err());
        return;
    };
    let arguments = digest(Some(text.as_bytes())).unwrap_or_default();
    let binding = Binding { principal: Some(text), method: text, target: "", arguments };
    assert!(keys.open(&binding, 0, text, LIMIT).is_err(), "opened invented state: {text}");
    round_trip(&keys, &binding, times, payload, &changes);
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let digests = [first, second].map(digest_of_value);
    if let [Some((a, first)), Some((b, second))] = digests {
        assert_eq!(a == b, first == second, "{text}");
    }
}

fn round_trip(
    keys: &Keys,
    binding: &Binding<'_>,
    [expires, now]: [u64; 2],
    payload: &[u8],
    changes: &[(usize, u8)],
) {
    let text = keys.seal(binding, expires, payload, LIMIT).expect("short enough");
    match keys.open(binding, now, &text, LIMIT) {
        Ok(found) => assert!(now < expires && found == payload),
        Err(error) => assert!(now >= expires && error == SealError::Expired),
    }
    let swapped = Binding { principal: None, target: binding.method, ..*binding };
    assert!(keys.open(&swapped, 0, &text, LIMIT).is_err());
    let mut changed = text.clone().into_bytes();
    for (at, letter) in changes {
        let at = at % changed.len();
        changed[at] = *letter;
    }
    if let Ok(changed) = core::str::from_utf8(&changed) {
        assert_eq!(
            keys.open(binding, 0, changed, LIMIT).is_ok(),
            changed == text && expires > 0,
            "{changed}"
        );
    }
}

/// Checks that a decoded record encodes to the same bytes.
fn record(bytes: &[u8]) {
    if let Ok(record) = RequestState::decode(bytes) {
        assert_eq!(record.encode(), bytes);
    }
}

/// Returns the digest of a text, and its value if serde_json decodes it exactly.
fn digest_of_value(text: &str) -> Option<([u8; 32], Value)> {
    let taken = digest(Some(text.as_bytes()));
    assert_eq!(taken.is_ok(), RawJson::new(text.as_bytes().to_vec()).is_ok(), "{text}");
    let found = taken.ok()?;
    assert_ne!(Ok(found), digest(None), "{text} counts as no arguments");
    let value = json(text.as_bytes())?;
    // Each member adds a name to what is hashed, but two equal names are one member of the value.
    let (members, exact) = value_size(&value);
    if !exact || members != count_names(text) {
        return None;
    }
    let written = serde_json::to_vec(&value).expect("JSON");
    assert_eq!(digest(Some(&written)), Ok(found), "{text}");
    Some((found, value))
}

/// Returns the number of members at all levels, and whether all numbers are exact integers.
fn value_size(value: &Value) -> (usize, bool) {
    let sum = |(a, b): (usize, bool), (c, d): (usize, bool)| (a + c, b && d);
    match value {
        Value::Number(n) => (0, !n.is_f64()),
        Value::Array(elements) => elements.iter().map(value_size).fold((0, true), sum),
        Value::Object(members) => members.values().map(value_size).fold((members.len(), true), sum),
        _ => (0, true),
    }
}

/// Returns the number of colons outside strings.
fn count_names(text: &str) -> usize {
    let (mut inside, mut escaped, mut found) = (false, false, 0);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => found += 1,
            _ => {}
        }
    }
    found
}
