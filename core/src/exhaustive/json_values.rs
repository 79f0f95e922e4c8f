//! Values of JSON: what is written, canonical forms, and edits of text, beside `serde_json`.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::for_each_str;
use crate::json::{Serializer, append_one_line, canonical};
use crate::testing::{exhaustive, for_each_sequence};
use crate::{MemberEdit, RawJson};

/// Returns every valid text of at most `longest` of these tokens without a repeated member, with its value.
fn values(tokens: &[&str], longest: usize) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for_each_str(tokens, longest, |text| {
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            // `serde_json` keeps the last of two members, so a text with both has more colons than its value.
            if value.to_string().matches(':').count() == text.matches(':').count() {
                found.push((text.into(), value));
            }
        }
    });
    found
}

/// Returns whether two values are equal; numbers are compared by value.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

const TOKENS: [&str; 11] = ["{", "}", "[", "]", ",", "\"a\":", "\"b\":", "\"b\"", "1", "null", " "];

#[test]
fn exhaustive_values_are_written_as_serde_json_writes_them() {
    exhaustive(
        "JSON writer: a value is written as serde_json writes it, and as itself again after it was read",
        "values of 11 tokens, up to",
        [5, 6, 7],
        |longest| {
            let values = values(&TOKENS, longest);
            for (text, value) in &values {
                let written = RawJson::encode(value).expect("JSON");
                assert_eq!(written.as_str(), value.to_string(), "{text}");
                assert_eq!(RawJson::encode(&written.parse::<Value>().expect("JSON")).as_ref(), Ok(&written));
            }
            values.len() as u64
        },
    );
}

#[test]
fn exhaustive_numbers_are_read_as_they_were_written() {
    exhaustive(
        "JSON writer: a number is read as the number that was written, by the standard library, too",
        "mantissas up to 300 with every exponent, and integers beside powers of two, in steps of 32 - ",
        [0, 24, 31],
        |finer| {
            let mut count = 0;
            let mut check = |number: f64| {
                let written = RawJson::encode(&number).expect("JSON");
                // Not by `serde_json`, which may read the double beside it.
                assert_eq!(
                    written.as_str().parse::<f64>().map(f64::to_bits),
                    Ok(number.to_bits()),
                    "{written}"
                );
                assert_eq!(written.parse::<f64>().ok(), Some(number), "{written}");
                count += 1;
            };
            for exponent in (-325..=308).step_by(32 - finer) {
                for mantissa in -300..300 {
                    let number: f64 = format!("{mantissa}e{exponent}").parse().expect("a number");
                    check(if number.is_finite() { number } else { f64::MAX });
                }
            }
            for bit in 0..63 {
                for near in -2..=2i64 {
                    let integer = (1i64 << bit).wrapping_add(near);
                    assert_eq!(RawJson::encode(&integer).expect("JSON").as_str(), integer.to_string());
                    check(integer as f64);
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_one_line_has_the_value_of_all_lines() {
    exhaustive(
        "JSON text on one line: no line end, the same length, and the same value",
        "texts of 8 pieces with line ends, up to a length of",
        [5, 6, 7],
        |longest| {
            for_each_str(&["[", "]", ",", "\n", "\r", "\"a\\n\"", "{\"b\":", "}"], longest, |text| {
                let Ok(value) = serde_json::from_str::<Value>(text) else { return };
                let mut line = Vec::new();
                append_one_line(&mut line, text.as_bytes());
                assert!(line.len() == text.len() && !line.iter().any(|b| matches!(b, b'\n' | b'\r')));
                assert_eq!(serde_json::from_slice::<Value>(&line).ok(), Some(value), "{text:?}");
                // The writer does the same to a raw value.
                let mut raw = Vec::new();
                Serializer::any(&mut raw, &RawJson::new(String::from(text)).expect("JSON")).expect("JSON");
                assert_eq!(raw, line.trim_ascii());
            })
        },
    );
}

/// Texts of values that differ in spelling, in order and in content.
const SPELLINGS: [&str; 13] =
    ["{", "}", "[", "]", ",", "\"a\":", "\"\\u0061\"", "\"a\"", "\"b\":", "1 ", "1.0 ", "10e-1 ", "-0 "];

#[test]
fn exhaustive_canonical_streams_are_equal_for_equal_values_alone() {
    exhaustive(
        "canonical JSON: two texts have the same stream exactly if their values are equal, and so has `has_value_of`",
        "pairs of valid texts of 13 tokens, up to a length of",
        [4, 5, 5],
        |longest| {
            let values = values(&SPELLINGS, longest);
            let streams: Vec<Vec<u8>> = values
                .iter()
                .map(|(text, _)| {
                    let mut stream = Vec::new();
                    canonical(text.as_bytes(), &mut |part| stream.extend_from_slice(part)).expect(text);
                    stream
                })
                .collect();
            for (a, (text, value)) in values.iter().enumerate() {
                for (b, (other_text, other)) in values.iter().enumerate().skip(a) {
                    let expected = is_same(value, other);
                    assert_eq!(streams[a] == streams[b], expected, "{text} and {other_text}");
                    if expected {
                        let [one, two] =
                            [text, other_text].map(|text| RawJson::new(text.clone()).expect("JSON"));
                        assert!(one.has_value_of(&two) && two.has_value_of(&one));
                    }
                }
            }
            (values.len() * (values.len() + 1) / 2) as u64
        },
    );
}

#[test]
fn exhaustive_canonical_text_is_one_for_each_value() {
    exhaustive(
        "RFC 8785: the canonical text has the value of the text, is its own canonical text, and is that of equal values",
        "pairs of valid texts of 13 tokens, up to a length of",
        [4, 5, 5],
        |longest| {
            let values = values(&SPELLINGS, longest);
            let texts: Vec<String> = values
                .iter()
                .map(|(text, value)| {
                    let canonical = RawJson::new(text.clone()).expect("JSON").to_canonical().expect(text);
                    let read: Value = serde_json::from_str(&canonical).expect(&canonical);
                    assert!(is_same(&read, value), "{text}");
                    let again = RawJson::new(canonical.clone()).expect("JSON").to_canonical();
                    assert_eq!(again.as_ref(), Ok(&canonical));
                    canonical
                })
                .collect();
            for (a, (text, value)) in values.iter().enumerate() {
                for (b, (_, other)) in values.iter().enumerate().skip(a) {
                    assert_eq!(texts[a] == texts[b], is_same(value, other), "{text} {}", texts[b]);
                }
            }
            (values.len() * (values.len() + 1) / 2) as u64
        },
    );
}

/// Returns a decimal number as digits without zeros at either end, and the power of ten of the last one.
fn decimal(text: &str) -> (bool, i128, i32) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let fraction = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len());
    let mut digits: i128 = mantissa.replace('.', "").parse().expect("digits");
    let mut power: i32 =
        exponent.parse::<i32>().expect("an exponent") - i32::try_from(fraction).expect("few");
    while digits != 0 && digits % 10 == 0 {
        (digits, power) = (digits / 10, power + 1);
    }
    if digits == 0 { (false, 0, 0) } else { (digits < 0, digits, power) }
}

#[test]
fn exhaustive_canonical_numbers_are_decimals() {
    exhaustive(
        "canonical JSON: two numbers have the same stream exactly if they are the same decimal",
        "pairs of numbers of 6 bytes, up to a length of",
        [4, 4, 5],
        |longest| {
            let mut numbers: Vec<(Vec<u8>, (bool, i128, i32))> = Vec::new();
            for_each_str(&["-", ".", "e", "0", "1", "2"], longest, |text| {
                if serde_json::from_str::<Value>(text).is_ok() {
                    let mut stream = Vec::new();
                    canonical(text.as_bytes(), &mut |part| stream.extend_from_slice(part)).expect(text);
                    numbers.push((stream, decimal(text)));
                }
            });
            for (stream, number) in &numbers {
                for (other_stream, other) in &numbers {
                    assert_eq!(stream == other_stream, number == other, "{number:?} {other:?}");
                }
            }
            (numbers.len() * numbers.len()) as u64
        },
    );
}

#[test]
fn exhaustive_canonical_doubles_are_the_shortest() {
    exhaustive(
        "RFC 8785: a double is written with the fewest digits that read back as it, in the notation of ECMAScript",
        "mantissas up to 99 with every exponent and the doubles beside them, in steps of 16 - ",
        [0, 8, 15],
        |finer| {
            let mut count = 0;
            for exponent in (-324..=306).step_by(16 - finer) {
                for mantissa in 1..100 {
                    let near: f64 = format!("{mantissa}e{exponent}").parse().expect("a number");
                    for bits in [near.to_bits(), near.to_bits() + 1] {
                        let number = f64::from_bits(bits);
                        let text = RawJson::new(format!("{number:e}"))
                            .expect("JSON")
                            .to_canonical()
                            .expect("finite");
                        assert_eq!(text.parse(), Ok(number), "{text}");
                        let digits = |text: &str| {
                            let mantissa = text.split('e').next().unwrap_or_default().replace('.', "");
                            mantissa.trim_matches('0').len()
                        };
                        assert!(number == 0.0 || digits(&text) == digits(&format!("{number:e}")), "{text}");
                        // ECMA-262, 6.1.6.1.20: an exponent from 1e21 on and below 1e-6 alone.
                        let has_exponent = number >= 1e21 || (number != 0.0 && number < 1e-6);
                        assert_eq!(text.contains('e'), has_exponent, "{text}");
                        count += 1;
                    }
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_canonical_members_are_sorted_by_utf_16() {
    exhaustive(
        "RFC 8785: the members of the canonical text are in the order of their names in UTF-16",
        "sequences of the 30 names of two of 5 characters, up to a length of",
        [2, 2, 3],
        |longest| {
            let mut names = Vec::new();
            for_each_str(&["a", "\u{e9}", "\u{e000}", "\u{ffff}", "\u{10000}"], 2, |name| {
                names.push(String::from(name))
            });
            for_each_sequence(names.len(), longest, |sequence| {
                let mut chosen: Vec<&String> = sequence.iter().map(|name| &names[*name]).collect();
                let members: Vec<String> = chosen.iter().map(|name| format!("\"{name}\":0")).collect();
                let text = RawJson::new(format!("{{{}}}", members.join(","))).expect("JSON").to_canonical();
                chosen.sort_by_key(|name| name.encode_utf16().collect::<Vec<u16>>());
                let sorted: Vec<String> = chosen.iter().map(|name| format!("\"{name}\":0")).collect();
                chosen.dedup();
                let expected = (chosen.len() == sorted.len()).then(|| format!("{{{}}}", sorted.join(",")));
                assert_eq!(text.ok(), expected);
            })
        },
    );
}

#[test]
fn exhaustive_members_and_elements_are_those_of_serde_json() {
    exhaustive(
        "RawJson: members and elements are those that serde_json finds, each a valid text",
        "valid texts of 11 tokens, up to a length of",
        [5, 6, 7],
        |longest| {
            let values = values(&TOKENS, longest);
            for (text, value) in &values {
                let raw = RawJson::new(text.clone()).expect("JSON");
                let parsed = |raw: &RawJson| serde_json::from_str::<Value>(raw.as_str()).expect("JSON");
                for name in ["a", "b", "c"] {
                    let expected = value.as_object().and_then(|object| object.get(name)).cloned();
                    assert_eq!(raw.member(name).as_ref().map(parsed), expected, "{text}");
                }
                let elements = raw.elements().map(|all| all.iter().map(parsed).collect::<Vec<_>>());
                assert_eq!(elements.as_ref(), value.as_array(), "{text}");
                assert_eq!(raw.is_object(), value.is_object());
                assert_eq!(raw.string().as_deref(), value.as_str());
            }
            values.len() as u64
        },
    );
}

#[test]
fn exhaustive_edits_of_members_are_those_of_a_map() {
    const SPACES: [&str; 3] = ["", " ", "\n\t"];
    exhaustive(
        "RawJson: members are kept, dropped and replaced as in a map, and the text stays valid",
        "objects with each of 3 white spaces and every sequence of 3 edits, up to a number of members of",
        [3, 5, 8],
        |longest| {
            for_each_sequence(3, longest, |edits| {
                for space in SPACES {
                    let members: Vec<String> = (0..edits.len())
                        .map(|n| format!("{space}\"m{n}\"{space}:{space}[{n}, \"}},\"]{space}"))
                        .collect();
                    let text = format!("{{{}}}", members.join(","));
                    let mut at = 0..edits.len();
                    let edited = RawJson::new(text.clone()).expect("JSON").edit_members(|_, _| {
                        match edits[at.next().expect("a member")] {
                            0 => MemberEdit::Keep,
                            1 => MemberEdit::Drop,
                            _ => MemberEdit::Replace(RawJson::empty_object()),
                        }
                    });
                    let expected: Map<String, Value> = edits
                        .iter()
                        .enumerate()
                        .filter(|(_, edit)| **edit != 1)
                        .map(|(n, edit)| {
                            let kept = Value::from(alloc::vec![Value::from(n), "},".into()]);
                            (format!("m{n}"), if *edit == 0 { kept } else { Map::new().into() })
                        })
                        .collect();
                    let edited = edited.expect("an object");
                    assert_eq!(
                        serde_json::from_str::<Value>(edited.as_str()).ok(),
                        Some(expected.into()),
                        "{text}"
                    );
                    assert!(edits.iter().any(|edit| *edit != 0) || edited.as_str() == text);
                }
            }) * 3
        },
    );
}
