//! Header fields: what may be sent, values that are not plain ASCII, and names, beside RFC 9110 and the crate `base64`.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::for_each_str;
use super::http_heads::is_token;
use crate::fields::{self, FieldValueError, KnownField, decode_value, encode_value};
use crate::head::{FieldLine, Fields};
use crate::http::params::HeaderParams;
use crate::raw::RawJson;
use crate::short_base64::{decode_padded, encode_padded};
use crate::testing::{exhaustive, for_each_sequence, for_each_text};

const FIELD_PIECES: [&str; 9] = ["a", "B-", ":", " ", "\t", "\r\n", "\0", "\u{7f}", "é"];

#[test]
fn exhaustive_fields_that_are_sent_are_the_lines_that_were_pushed() {
    exhaustive(
        "fields: a name or value is refused if it could end its line, and each accepted one is one line and read as pushed",
        "pairs of texts of 9 pieces, each up to a length of",
        [2, 2, 3],
        |longest| {
            let mut texts = Vec::new();
            for_each_str(&FIELD_PIECES, longest, |text| texts.push(text.to_owned()));
            for name in &texts {
                for value in &texts {
                    let mut fields = Fields::new();
                    assert!(fields.push("Before", b"1"));
                    let is_value = value.bytes().all(|b| b == b'\t' || b >= b' ' && b != 0x7f);
                    let expected = is_token(name.as_bytes()) && is_value;
                    assert_eq!(fields.push(name, value.as_bytes()), expected, "{name:?} {value:?}");
                    assert!(fields.push("After", b"2"));
                    let mut all = Vec::from([("Before", &b"1"[..])]);
                    all.extend(expected.then_some((&**name, value.as_bytes())));
                    all.push(("After", b"2"));
                    assert_eq!(fields.iter().collect::<Vec<_>>(), all);
                    let lines = fields.as_lines().split(|b| *b == b'\n').count() - 1;
                    assert_eq!(lines, all.len(), "{name:?} {value:?}");
                }
            }
            (texts.len() * texts.len()) as u64
        },
    );
}

#[test]
fn exhaustive_control_characters_are_found_in_values_of_every_length() {
    exhaustive(
        "fields: of all bytes those of RFC 9110, 5.5 alone are refused in a value, at each place of each length",
        "all bytes at each place of values, up to a length of",
        [18, 40, 100],
        |longest| {
            let mut count = 0;
            for length in 1..=longest {
                let mut value = alloc::vec![b'v'; length];
                for at in 0..length {
                    for byte in 0..=u8::MAX {
                        value[at] = byte;
                        let expected = byte == b'\t' || byte >= b' ' && byte != 0x7f;
                        assert_eq!(Fields::new().push("a", &value), expected, "{length} {at} {byte}");
                        count += 1;
                    }
                    value[at] = b'v';
                }
            }
            count
        },
    );
}

const VALUE_PIECES: [&str; 9] = ["=?base64?", "?=", "eA==", "a", " ", "\t", "\n", "é", "="];

#[test]
fn exhaustive_header_values_are_decoded_as_they_were_encoded() {
    exhaustive(
        "header values: every text is encoded as a field value of printable ASCII without spaces around it, and decoded again",
        "texts of 9 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&VALUE_PIECES, longest, |text| {
                let encoded = encode_value(text);
                assert!(encoded.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text:?}");
                assert_eq!(encoded.trim(), encoded, "{text:?}");
                assert_eq!(decode_value(encoded.as_bytes()).as_deref(), Ok(text));
                let is_plain = text.bytes().all(|b| (b' '..=b'~').contains(&b)) && text.trim() == text;
                let is_marked = text.starts_with("=?base64?") && text.ends_with("?=");
                assert_eq!(encoded == text, is_plain && !is_marked, "{text:?}");
            })
        },
    );
}

#[test]
fn exhaustive_header_values_are_literal_or_base64() {
    const PIECES: [&[u8]; 10] =
        [b"=?base64?", b"?=", b"eA==", b"w6", b"k=", b"/w==", b" ", b"\t", b"\x7f", b"\xc3"];
    exhaustive(
        "header values: what a peer sends is a literal, or Base64 between the markers, or refused for the reason of XHDR-022 and -023",
        "texts of 10 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_text(&PIECES, longest, |text| {
                let mut value = text;
                while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
                    value = rest;
                }
                let expected = (|| {
                    if !value.iter().all(|b| *b == b'\t' || (b' '..=b'~').contains(b)) {
                        return Err(FieldValueError::Characters);
                    }
                    let text = core::str::from_utf8(value).expect("ASCII");
                    // Prefix and suffix do not overlap.
                    let is_marked = text.starts_with("=?base64?") && text.ends_with("?=") && text.len() >= 11;
                    if !is_marked {
                        return Ok(text.to_owned());
                    }
                    let bytes =
                        STANDARD.decode(&text[9..text.len() - 2]).map_err(|_| FieldValueError::Base64)?;
                    String::from_utf8(bytes).map_err(|_| FieldValueError::Utf8)
                })();
                let found = decode_value(text).map(|text| text.into_owned());
                assert_eq!(found, expected, "{}", text.escape_ascii());
            })
        },
    );
}

#[test]
fn exhaustive_base64_texts_are_those_of_the_crate() {
    const CHARACTERS: [&str; 10] = ["A", "Q", "g", "w", "/", "+", "-", "_", "=", "é"];
    exhaustive(
        "Base64: exactly the texts that the crate base64 decodes are decoded, padding and unused bits included",
        "texts of 10 characters, up to a length of",
        [4, 5, 7],
        |longest| {
            for_each_str(&CHARACTERS, longest, |text| {
                assert_eq!(decode_padded(text), STANDARD.decode(text).ok(), "{text:?}");
            })
        },
    );
}

#[test]
fn exhaustive_bytes_are_written_in_base64_as_the_crate_does() {
    const BYTES: [&[u8]; 7] = [b"\x00", b"\x01", b"\x3f", b"\x7f", b"\x80", b"\xfc", b"\xff"];
    exhaustive(
        "Base64: bytes are written as the crate base64 does, and read again",
        "sequences of 7 bytes, up to a length of",
        [4, 5, 7],
        |longest| {
            for_each_text(&BYTES, longest, |bytes| {
                let mut text = String::new();
                encode_padded(bytes, &mut text);
                assert_eq!(text, STANDARD.encode(bytes));
                assert_eq!(decode_padded(&text).as_deref(), Some(bytes));
            })
        },
    );
}

#[test]
fn exhaustive_single_fields_occur_once() {
    const NAMES: [&str; 6] = ["Mcp-Name", "mcp-NAME", "Mcp-Method", "Mcp-Param-X", "MCP-param-x", "Accept"];
    exhaustive(
        "repeated fields: one value is returned if a name occurs once in any case, and the first repeated MCP field is found",
        "sequences of 6 names, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_sequence(NAMES.len(), longest, |sequence| {
                let values: Vec<String> = (0..sequence.len()).map(|at| format!(" {at}\t")).collect();
                let lines: Vec<FieldLine<'_>> = sequence
                    .iter()
                    .zip(&values)
                    .map(|(name, value)| (NAMES[*name], value.as_bytes()))
                    .collect();
                let mut repeated = None;
                for (at, (name, _)) in lines.iter().enumerate() {
                    let same = |end: usize| {
                        lines[..end].iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count()
                    };
                    if repeated.is_none() && same(at) > 0 && *name != "Accept" {
                        repeated = Some(*name);
                    }
                    let found = fields::single_value(&lines, name);
                    let expected = match same(lines.len()) {
                        1 => Ok(Some(at.to_string().into_bytes())),
                        _ => Err(FieldValueError::Repeated),
                    };
                    assert_eq!(found.map(|value| value.map(<[u8]>::to_vec)), expected, "{lines:?}");
                }
                assert_eq!(fields::single_value(&lines, "Absent"), Ok(None));
                assert_eq!(fields::find_repeated(&lines), repeated, "{lines:?}");
            })
        },
    );
}

#[test]
fn exhaustive_names_of_known_fields_match_in_any_case() {
    const NAMES: [(&str, KnownField); 12] = [
        (fields::ACCEPT, KnownField::Accept),
        (fields::AUTHORIZATION, KnownField::Authorization),
        (fields::CONTENT_ENCODING, KnownField::ContentEncoding),
        (fields::CONTENT_TYPE, KnownField::ContentType),
        (fields::DPOP, KnownField::Dpop),
        (fields::HOST, KnownField::Host),
        (fields::LAST_EVENT_ID, KnownField::LastEventId),
        (fields::METHOD, KnownField::Method),
        (fields::NAME, KnownField::Name),
        (fields::ORIGIN, KnownField::Origin),
        (fields::PROTOCOL_VERSION, KnownField::ProtocolVersion),
        (fields::SESSION_ID, KnownField::SessionId),
    ];
    let expected = |name: &str| {
        let found = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, field)| *field);
        let is_param = name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("Mcp-Param-"));
        found.or_else(|| is_param.then_some(KnownField::Param))
    };
    exhaustive(
        "names of fields: of the 13 known ones all spellings that differ in case alone are known, and no other with one or two changes",
        "all ASCII at each place, all prefixes, and all case changes of the last letters, of which there are at most",
        [6, 9, 14],
        |letters| {
            let mut count = 0;
            let mut check = |name: &str| {
                assert_eq!(KnownField::from_name(name), expected(name), "{name}");
                count += 1;
            };
            for known in NAMES.map(|(name, _)| name).into_iter().chain(["Mcp-Param-", "Mcp-Param-Xy"]) {
                for at in 0..known.len() {
                    check(&known[..at]);
                    for byte in 0..128_u8 {
                        let mut name = known.to_owned().into_bytes();
                        name[at] = byte;
                        check(core::str::from_utf8(&name).expect("ASCII"));
                        name.push(b'x');
                        check(core::str::from_utf8(&name).expect("ASCII"));
                    }
                }
                let changed = letters.min(known.len());
                for chosen in 0..1_u32 << changed {
                    let mut name = known.to_owned().into_bytes();
                    let start = name.len() - changed;
                    for at in (0..changed).filter(|at| chosen >> at & 1 == 1) {
                        name[start + at] ^= 0x20;
                    }
                    check(core::str::from_utf8(&name).expect("ASCII"));
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_arguments_match_the_fields_that_repeat_them() {
    const VALUES: [&str; 15] = [
        "", "null", "true", "false", "0", "-0", "7", "7.0", "70e-1", "\"7\"", "\"\"", "\"é\"", "\" x\"",
        "\"true\"", "[]",
    ];
    const TYPES: [&str; 3] = ["string", "integer", "boolean"];
    exhaustive(
        "mirrored arguments: the fields written for arguments are accepted with them, and with no arguments of another value",
        "pairs of objects with 15 values of each property and 3 types, of properties up to",
        [1, 2, 2],
        |properties| {
            let mut count = 0;
            for kind in TYPES {
                let members = |at| format!(r#""p{at}":{{"type":"{kind}","x-mcp-header":"H{at}"}}"#);
                let all: Vec<String> = (0..properties).map(members).collect();
                let schema = format!(r#"{{"type":"object","properties":{{{}}}}}"#, all.join(","));
                let params =
                    HeaderParams::from_schema(&RawJson::new(schema).expect("JSON")).expect("a schema");
                let mut objects: Vec<(String, Vec<Option<String>>)> = Vec::new();
                for_each_sequence(VALUES.len(), properties, |sequence| {
                    if sequence.len() < properties {
                        return;
                    }
                    let members =
                        sequence.iter().enumerate().filter(|(_, value)| !VALUES[**value].is_empty());
                    let members: Vec<String> =
                        members.map(|(at, value)| format!(r#""p{at}":{}"#, VALUES[*value])).collect();
                    // Equal texts are what a field can tell apart: `null` is no value.
                    let texts = sequence.iter().map(|value| match VALUES[*value] {
                        "" | "null" => None,
                        "7" | "7.0" | "70e-1" => Some("7".to_owned()),
                        "0" | "-0" => Some("0".to_owned()),
                        text => Some(text.trim_matches('"').to_owned()),
                    });
                    let texts = texts.collect();
                    objects.push((format!("{{{}}}", members.join(",")), texts));
                });
                for (arguments, texts) in &objects {
                    let written: Vec<_> = params.values(arguments.as_bytes()).collect();
                    let lines: Vec<FieldLine<'_>> =
                        written.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
                    // A list has no field, so nothing can be accepted with it.
                    let has_list = texts.contains(&Some("[]".to_owned()));
                    assert_eq!(params.check(arguments.as_bytes(), &lines).is_ok(), !has_list, "{arguments}");
                    for (other, other_texts) in objects.iter().filter(|_| !has_list) {
                        let is_accepted = params.check(other.as_bytes(), &lines).is_ok();
                        assert_eq!(is_accepted, texts == other_texts, "{kind} {arguments} {other}");
                        count += 1;
                    }
                }
            }
            count
        },
    );
}
