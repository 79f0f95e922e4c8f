//! Messages of JSON-RPC: ids, envelopes, batches, and the recovery of ids, beside `serde_json`.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::for_each_str;
use crate::calls::batch::split_batch;
use crate::internals::Message;
use crate::rpc::envelope::{self, Kind};
use crate::rpc::recover::{IdFinder, RecoveredMessage};
use crate::testing::{exhaustive, for_each_sequence};
use crate::{Limits, RequestId};

/// Returns the value of a decimal number that is an integer.
fn integer(text: &str) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let fraction = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len());
    let mut value: i128 = mantissa.replace('.', "").parse().expect("digits");
    let power = exponent.parse::<i32>().expect("an exponent") - i32::try_from(fraction).expect("few");
    for _ in 0..power.unsigned_abs().min(40) {
        value = match power {
            1.. => value.saturating_mul(10).clamp(-(1 << 90), 1 << 90),
            _ if value % 10 == 0 => value / 10,
            _ => return None,
        };
    }
    Some(value)
}

#[test]
fn exhaustive_ids_are_integers_in_every_spelling() {
    exhaustive(
        "request ids: a number is an id exactly if its value is an integer up to 2^53, returned as it was spelled",
        "numbers of 8 pieces, up to a length of",
        [5, 6, 7],
        |longest| {
            for_each_str(&["-", ".", "e", "E+1", "0", "1", "5", "9"], longest, |text| {
                let Ok(number) = serde_json::from_str::<&RawValue>(text) else { return };
                let expected = integer(number.get()).filter(|value| value.unsigned_abs() <= 1 << 53);
                let id = RequestId::from_json(text.as_bytes(), 64);
                assert_eq!(id.as_ref().and_then(RequestId::as_int).map(i128::from), expected, "{text}");
                if let Some(id) = id {
                    let mut written = Vec::new();
                    id.write(&mut written);
                    assert_eq!(written, text.as_bytes());
                }
                assert!(
                    RequestId::from_json(text.as_bytes(), text.len() - 1).is_none(),
                    "longer than the limit"
                );
            })
        },
    );
}

#[test]
fn exhaustive_order_of_ids_is_that_of_their_values() {
    exhaustive(
        "request ids: equal exactly if their values are, in one total order, and integers before strings",
        "triples of 30 ids, and of numbers of 4 bytes up to a length of",
        [2, 3, 4],
        |longest| {
            let mut texts: Vec<String> = Vec::new();
            for_each_str(&["a", "\\u0061", "b", "1"], 2, |text| texts.push(format!("\"{text}\"")));
            for_each_str(&["-", "1", "0", "e"], longest, |text| texts.push(text.into()));
            let ids: Vec<(RequestId, Value)> = texts
                .iter()
                .filter_map(|text| {
                    let value: Value = serde_json::from_str(text).ok()?;
                    let value = if value.is_number() { (integer(text)? as f64).into() } else { value };
                    Some((RequestId::from_json(text.as_bytes(), 64)?, value))
                })
                .collect();
            for (a, value) in &ids {
                for (b, other) in &ids {
                    assert_eq!(a == b, value == other, "{a} {b}");
                    assert_eq!(a.cmp(b), b.cmp(a).reverse());
                    assert!(!(value.is_number() && other.is_string()) || a < b);
                    for (c, _) in &ids {
                        assert!(!(a <= b && b <= c) || a <= c, "{a} {b} {c}");
                    }
                }
            }
            (ids.len() * ids.len() * ids.len()) as u64
        },
    );
}

/// Returns the kind of a message by JSON-RPC 2.0, with what DESIGN-26 and DEC-004 add; `None` if it is none.
fn kind(text: &str) -> Option<Kind> {
    const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
    let message: Value = serde_json::from_str(text).ok()?;
    // `serde_json` keeps the last of two members.
    let is_repeated = text.matches("\":").count() > message.to_string().matches("\":").count();
    let message = message.as_object()?;
    let has_wrong_case =
        message.keys().any(|key| NAMES.iter().any(|name| key != name && key.eq_ignore_ascii_case(name)));
    if is_repeated || has_wrong_case || message.get("jsonrpc")? != "2.0" {
        return None;
    }
    let (mut result, mut error) = (message.get("result"), message.get("error"));
    match (result, error) {
        (Some(one), Some(other)) if one.is_null() != other.is_null() => {
            (result, error) = (result.filter(|r| !r.is_null()), error.filter(|e| !e.is_null()));
        }
        (Some(_), Some(_)) => return None,
        _ => {}
    }
    let id = message.get("id");
    let has_id = id.is_some_and(|id| id.is_string() || id.is_i64());
    let method = message.get("method");
    let needs_no_id = error.is_some() && method.is_none();
    if !has_id && id.is_some() && !needs_no_id {
        return None;
    }
    let has_error = error.is_none_or(|error| error["code"].is_i64() && error["message"].is_string());
    if result.is_some_and(|result| !result.is_object()) || !has_error {
        return None;
    }
    match (method, result.is_some() || error.is_some()) {
        (Some(method), false) => {
            let has_params = message.get("params").is_none_or(|p| p.is_object() || p.is_null());
            let kind = if has_id { Kind::Request } else { Kind::Notification };
            (method.is_string() && has_params).then_some(kind)
        }
        (None, true) => (has_id || needs_no_id).then_some(Kind::Response),
        _ => None,
    }
}

const MEMBERS: [&str; 18] = [
    r#""jsonrpc":"2.0""#,
    r#""jsonrpc":"1.0""#,
    r#""id":1"#,
    r#""id":"a""#,
    r#""id":null"#,
    r#""id":{}"#,
    r#""method":"m""#,
    r#""method":7"#,
    r#""params":{"x":1}"#,
    r#""params":[]"#,
    r#""params":null"#,
    r#""result":{}"#,
    r#""result":null"#,
    r#""result":3"#,
    r#""error":{"code":1,"message":"x"}"#,
    r#""error":{}"#,
    r#""error":null"#,
    r#""Method":"m""#,
];

#[test]
fn exhaustive_envelopes_are_classified_by_their_members() {
    exhaustive(
        "JSON-RPC envelope: accepted with the kind that the members say, in whatever order they come",
        "sequences of 18 members, alone and behind the version, up to a length of",
        [3, 4, 5],
        |longest| {
            let limits = Limits::default();
            for_each_sequence(MEMBERS.len(), longest, |sequence| {
                let members: Vec<&str> = sequence.iter().map(|member| MEMBERS[*member]).collect();
                let text = format!("{{{}}}", members.join(","));
                let versioned = text.replacen('{', "{\"jsonrpc\":\"2.0\",", 1).replace(",}", "}");
                for text in [text, versioned] {
                    let parsed = envelope::parse(text.as_bytes(), &limits, None).ok();
                    assert_eq!(parsed.map(|envelope| envelope.kind), kind(&text), "{text}");
                }
            }) * 2
        },
    );
}

#[test]
fn exhaustive_parts_of_envelopes_are_those_of_serde_json() {
    const PARTS: [&str; 6] = [
        "",
        " ",
        "1",
        "\"_meta\"",
        "{\"arguments\":[ ]}",
        "{\"_meta\":{\"progressToken\":1},\"name\":\"n\"}",
    ];
    exhaustive(
        "JSON-RPC envelope: method, id, parameters and their members are the texts that serde_json finds, also if `_meta` is known",
        "requests with 3 white spaces, 4 methods, 4 ids, 6 parameters, in orders of",
        [1, 6, 6],
        |orders| {
            let mut count = 0;
            for space in ["", " ", "\r\n\t"] {
                for method in ["m", "a/b", "\\u0061", "\u{e9}"] {
                    for id in ["1", "\"\"", "-7", "\"\\n\""] {
                        for params in PARTS {
                            let mut members = alloc::vec![
                                format!("\"id\"{space}:{space}{id}"),
                                format!("\"jsonrpc\":{space}\"2.0\""),
                                format!("\"method\":{space}\"{method}\"{space}"),
                            ];
                            members.extend(
                                params.starts_with('{').then(|| format!("\"params\":{space}{params}{space}")),
                            );
                            for order in 0..orders {
                                members.rotate_left(1);
                                if order == 3 {
                                    members.reverse();
                                }
                                let text = format!("{{{space}{}}}{space}", members.join(","));
                                let limits = Limits::default();
                                let message = Message::parse(text.as_bytes(), &limits).expect(&text);
                                let whole: Value = serde_json::from_str(&text).expect(&text);
                                assert_eq!(Some(message.method()), whole["method"].as_str());
                                assert_eq!(message.id().as_deref(), Some(id.as_bytes()));
                                let found = message.values().map(|value| {
                                    value.map(|text| serde_json::from_slice::<Value>(text).expect("JSON"))
                                });
                                let params = whole.get("params");
                                let member = |name| params.and_then(|params| params.get(name)).cloned();
                                assert_eq!(
                                    found,
                                    [params.cloned(), member("arguments"), member("_meta"), None]
                                );
                                assert!(message.survives_known_meta(&limits), "{text}");
                                count += 1;
                            }
                        }
                    }
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_names_of_envelopes_count_in_every_spelling() {
    exhaustive(
        "JSON-RPC envelope: a name with escapes is the same name, and a second spelling of it is a duplicate",
        "names of members with every choice of escaped letters, of at most this length:",
        [6, 7, 7],
        |longest| {
            let mut count = 0;
            for name in ["jsonrpc", "id", "method"].into_iter().filter(|name| name.len() <= longest) {
                for escaped in 0..1u32 << name.len() {
                    let spelled: String = name
                        .chars()
                        .enumerate()
                        .map(|(at, c)| {
                            if escaped >> at & 1 == 1 { format!("\\u{:04x}", u32::from(c)) } else { c.into() }
                        })
                        .collect();
                    let text = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#
                        .replace(&format!("\"{name}\""), &format!("\"{spelled}\""));
                    let limits = Limits::default();
                    let parsed = envelope::parse(text.as_bytes(), &limits, None).expect(&text);
                    assert_eq!(
                        (parsed.kind, parsed.id.and_then(|id| id.as_int()), &*parsed.method),
                        (Kind::Request, Some(1), "m")
                    );
                    let twice = text.replacen('{', &format!("{{\"{name}\":0,"), 1);
                    assert!(envelope::parse(twice.as_bytes(), &limits, None).is_err(), "{twice}");
                    count += 2;
                }
            }
            count
        },
    );
}

fn recover<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> RecoveredMessage {
    let mut finder = IdFinder::new();
    pieces.into_iter().for_each(|piece| finder.feed(piece));
    finder.finish()
}

#[test]
fn exhaustive_recovered_ids_are_those_of_the_message() {
    const TOKENS: [&str; 12] =
        ["{", "}", "[", "]", ",", ":", "\"id\"", "\"method\"", "\"\\u0069d\":", "1", "\"a\"", " "];
    exhaustive(
        "recovery of ids: a valid object gives its id, any text the same for every cut, and never what is no string or number",
        "texts of 12 tokens behind a brace, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&TOKENS, longest, |rest| {
                let text = format!("{{{rest}");
                let found = recover([text.as_bytes()]);
                assert_eq!(found, recover(text.as_bytes().chunks(1)), "{text}");
                if let Some(id) = &found.id {
                    let id: Value = serde_json::from_slice(id).expect(&text);
                    assert!(id.is_string() || id.is_number(), "{text}");
                }
                let Ok(Value::Object(message)) = serde_json::from_str::<Value>(&text) else { return };
                // A second id beside the first: it is unknown which of them the peer waits for.
                if !rest.contains(['{', '[']) && message.contains_key("id") {
                    let twice = text.replacen('{', "{\"id\":7,", 1);
                    assert_eq!(recover([twice.as_bytes()]).id, None, "{twice}");
                }
                let ids = text.matches("\"id\":").count() + text.matches("\"\\u0069d\":").count();
                if ids == 1 && message.contains_key("id") {
                    let expected = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
                    assert_eq!(
                        found.id.map(|id| serde_json::from_slice(&id).expect("JSON")),
                        expected,
                        "{text}"
                    );
                }
                assert_eq!(found.has_method, message.contains_key("method"), "{text}");
            })
        },
    );
}

#[test]
fn exhaustive_batches_are_split_as_arrays() {
    let limits = Limits { max_batch: 3, ..Limits::default() };
    exhaustive(
        "batches: the members are the elements that serde_json finds; an empty array, or one beyond the limit, is refused",
        "texts of 10 tokens behind a bracket, up to a length of",
        [5, 6, 7],
        |longest| {
            for_each_str(&["[", "]", ",", "{}", "{\"a\":", "}", "1", "\"],[\"", " ", "\n"], longest, |rest| {
                let text = Bytes::from(format!("[{rest}"));
                let split = split_batch(&text, &limits).ok();
                let elements = serde_json::from_slice::<Vec<&RawValue>>(&text).ok();
                let expected = elements.filter(|elements| (1..=3).contains(&elements.len()));
                let expected: Option<Vec<&[u8]>> = expected
                    .map(|elements| elements.into_iter().map(|element| element.get().as_bytes()).collect());
                assert_eq!(
                    split.as_ref().map(|all| all.iter().map(|one| &**one).collect()),
                    expected,
                    "{text:?}"
                );
            })
        },
    );
}

#[test]
fn exhaustive_batches_with_a_deep_member_lose_that_member_alone() {
    const ELEMENTS: [&str; 6] = ["1", "[[]]", "[[[0]]]", "\"\\\"],[\"", "{\"a\":[{}]}", " {} "];
    let limits = Limits { max_depth: 3, ..Limits::default() };
    exhaustive(
        "batches: a member that is nested too deep costs itself alone, whatever stands beside it",
        "sequences of 6 members, up to a length of",
        [4, 5, 6],
        |longest| {
            let names: BTreeSet<&str> = ELEMENTS.into_iter().collect();
            assert_eq!(names.len(), ELEMENTS.len());
            for_each_sequence(ELEMENTS.len(), longest, |sequence| {
                let members: Vec<&str> = sequence.iter().map(|member| ELEMENTS[*member]).collect();
                let text = Bytes::from(format!("[{}]", members.join(",")));
                let split = split_batch(&text, &limits);
                if members.is_empty() {
                    assert!(split.is_err());
                    return;
                }
                let split = split.expect("every member is balanced");
                let trimmed: Vec<&[u8]> = split.iter().map(|member| member.trim_ascii()).collect();
                assert_eq!(
                    trimmed,
                    members.iter().map(|member| member.trim().as_bytes()).collect::<Vec<_>>()
                );
            })
        },
    );
}
