//! The scanner, the reader and the strings of JSON, beside `serde_json` and the grammar of RFC 8259.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::Value;

use super::for_each_str;
use crate::RawJson;
use crate::json::{
    MAX_DEPTH, ScanError, Scanner, Span, check_and_read, escaped_len, find_duplicate, max_escaped_len,
    plain_prefix, read_str, write_str,
};
use crate::testing::{exhaustive, for_each_sequence, for_each_text};

fn scan(text: &[u8], max_depth: u32, max_members: u32) -> Result<Span, ScanError> {
    let mut scanner = Scanner::new(text, max_depth, max_members);
    let span = scanner.value()?;
    if scanner.is_at_end() { Ok(span) } else { scanner.fail() }
}

/// Why a text is not JSON, by the grammar.
#[derive(PartialEq, Eq, Debug)]
enum Fault {
    /// It is the beginning of a JSON text.
    Incomplete,
    /// No JSON text has this byte there.
    At(usize),
}

/// The grammar of RFC 8259 without escapes, as recursive descent. A word is one token.
fn grammar(text: &[u8], at: &mut usize) -> Result<(), Fault> {
    let next = |at: &mut usize| {
        *at += text[*at..].iter().take_while(|b| b" \t\r\n".contains(b)).count();
        text.get(*at).copied().ok_or(Fault::Incomplete)
    };
    let digits = |at: &mut usize| {
        let count = text[*at..].iter().take_while(|b| b.is_ascii_digit()).count();
        *at += count;
        let fault = if *at == text.len() { Fault::Incomplete } else { Fault::At(*at) };
        if count == 0 { Err(fault) } else { Ok(()) }
    };
    match next(at)? {
        open @ (b'[' | b'{') => {
            *at += 1;
            if next(at)? == open + 2 {
                *at += 1;
                return Ok(());
            }
            loop {
                if open == b'{' {
                    if next(at)? != b'"' {
                        return Err(Fault::At(*at));
                    }
                    grammar(text, at)?;
                    if next(at)? != b':' {
                        return Err(Fault::At(*at));
                    }
                    *at += 1;
                }
                grammar(text, at)?;
                match next(at)? {
                    b',' => *at += 1,
                    close if close == open + 2 => break,
                    _ => return Err(Fault::At(*at)),
                }
            }
            *at += 1;
        }
        b'"' => {
            let end = text[*at + 1..].iter().position(|b| *b == b'"').ok_or(Fault::Incomplete)?;
            *at += end + 2;
        }
        b'-' | b'0'..=b'9' => {
            *at += usize::from(text[*at] == b'-');
            if text.get(*at) == Some(&b'0') {
                *at += 1
            } else {
                digits(at)?
            }
            if text.get(*at) == Some(&b'.') {
                *at += 1;
                digits(at)?;
            }
            if matches!(text.get(*at), Some(b'e' | b'E')) {
                *at += 1;
                *at += usize::from(matches!(text.get(*at), Some(b'+' | b'-')));
                digits(at)?;
            }
        }
        _ => {
            let word =
                [&b"true"[..], b"false", b"null"].into_iter().find(|word| text[*at..].starts_with(word));
            *at += word.ok_or(Fault::At(*at))?.len();
        }
    }
    Ok(())
}

/// Returns whether a text is JSON by the grammar.
fn by_grammar(text: &[u8]) -> Result<(), Fault> {
    let mut at = 0;
    grammar(text, &mut at)?;
    let rest = text[at..].iter().position(|b| !b" \t\r\n".contains(b));
    rest.map_or(Ok(()), |rest| Err(Fault::At(at + rest)))
}

#[test]
fn exhaustive_scanner_accepts_what_serde_json_accepts() {
    const STRUCTURE: [&[u8]; 9] = [b"{", b"}", b"[", b"]", b",", b":", b"\"", b"1", b" "];
    exhaustive(
        "JSON scanner: accepts a text exactly if serde_json does, and returns the range of its value",
        "texts of 9 structural bytes, up to a length of",
        [5, 6, 8],
        |longest| {
            for_each_text(&STRUCTURE, longest, |text| {
                let scanned = scan(text, MAX_DEPTH, u32::MAX).ok().map(|span| span.slice(text));
                let expected = serde_json::from_slice::<Value>(text).ok().map(|_| Some(text.trim_ascii()));
                assert_eq!(scanned, expected, "{}", text.escape_ascii());
            })
        },
    );
}

#[test]
fn exhaustive_scanner_fails_at_the_first_byte_that_does_not_fit() {
    const STRUCTURE: [&[u8]; 12] = [b"{", b"}", b"[", b"]", b",", b":", b"\"", b"0", b"1", b"-", b".", b"e"];
    exhaustive(
        "RawJson: an error names the first byte that no JSON text has there, or the end of the text",
        "texts of 12 bytes of structure and numbers, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_text(&STRUCTURE, longest, |text| {
                let found = RawJson::new(text.to_vec()).map(|_| ()).map_err(|error| error.at);
                let expected = by_grammar(text).map_err(|fault| match fault {
                    Fault::Incomplete => text.len(),
                    Fault::At(at) => at,
                });
                assert_eq!(found, expected, "{}", text.escape_ascii());
            })
        },
    );
}

/// Every beginning of a JSON text is extended by every byte; what follows a fault is not tried, as a scan goes from left to right.
#[test]
fn exhaustive_scanner_follows_every_beginning_of_a_text() {
    fn extend(text: &mut Vec<u8>, longest: usize) -> u64 {
        let mut count = 1;
        let expected = by_grammar(text);
        assert_eq!(scan(text, MAX_DEPTH, u32::MAX).is_ok(), expected.is_ok(), "{}", text.escape_ascii());
        if !matches!(expected, Err(Fault::At(_))) && text.len() < longest {
            for byte in *b"{}[],:\"0 " {
                text.push(byte);
                count += extend(text, longest);
                text.pop();
            }
        }
        count
    }
    exhaustive(
        "JSON scanner: goes on exactly after a beginning of a JSON text, and ends exactly where a text may end",
        "beginnings of texts of 9 structural bytes with one more byte, up to a length of",
        [6, 8, 10],
        |longest| extend(&mut Vec::new(), longest),
    );
}

#[test]
fn exhaustive_scanner_accepts_the_numbers_of_the_grammar() {
    const PARTS: [&[u8]; 8] = [b"-", b"+", b".", b"e", b"E", b"0", b"1", b"9"];
    exhaustive(
        "JSON numbers: accepted exactly if the grammar has them, and read as f64, i64 and u64 as serde_json reads them",
        "texts of 8 bytes of numbers, up to a length of",
        [5, 6, 8],
        |longest| {
            for_each_text(&PARTS, longest, |text| {
                let text = core::str::from_utf8(text).expect("ASCII");
                let is_number = by_grammar(text.as_bytes()).is_ok();
                assert_eq!(scan(text.as_bytes(), 1, 1).is_ok(), is_number, "{text}");
                if is_number {
                    let shown = |error: serde_json::Error| error.to_string();
                    // `serde_json` may read the double beside the nearest one.
                    match (
                        read_str::<f64>(text).map_err(shown),
                        serde_json::from_str::<f64>(text).map_err(shown),
                    ) {
                        (Ok(read), Ok(other)) => {
                            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(read.to_bits()), "{text}");
                            assert!(read.to_bits().abs_diff(other.to_bits()) <= 1, "{text}");
                        }
                        (read, expected) => assert_eq!(read, expected, "{text}"),
                    }
                    assert_eq!(read_str::<i64>(text).ok(), serde_json::from_str::<i64>(text).ok(), "{text}");
                    assert_eq!(read_str::<u64>(text).ok(), serde_json::from_str::<u64>(text).ok(), "{text}");
                }
            })
        },
    );
}

#[test]
fn exhaustive_scanner_accepts_three_words() {
    exhaustive(
        "JSON words: of all texts of their letters, true, false and null are values",
        "texts of 8 letters, up to a length of",
        [5, 5, 6],
        |longest| {
            for_each_str(&["t", "r", "u", "e", "f", "a", "l", "ns"], longest, |text| {
                assert_eq!(scan(text.as_bytes(), 1, 1).is_ok(), text == "true", "{text}");
            }) + for_each_str(&["f", "a", "l", "s", "e", "n", "u", "ll"], longest, |text| {
                assert_eq!(scan(text.as_bytes(), 1, 1).is_ok(), matches!(text, "false" | "null"), "{text}");
            })
        },
    );
}

#[test]
fn exhaustive_white_space_is_four_bytes() {
    exhaustive(
        "JSON white space: of all bytes, four may stand before, between and behind tokens, any number of times",
        "bytes in each of 12 gaps, repeated up to",
        [1, 2, 9],
        |most| {
            let tokens: Vec<&[u8]> =
                "{ \"a\" : [ 1 , true ] , \"b\" : -0 }".split(' ').map(str::as_bytes).collect();
            let mut count = 0;
            for (gap, byte, times) in (0..=tokens.len())
                .flat_map(|gap| (0..=u8::MAX).map(move |byte| (gap, byte)))
                .flat_map(|(gap, byte)| (1..=most).map(move |times| (gap, byte, times)))
            {
                let mut text = tokens[..gap].concat();
                text.extend(core::iter::repeat_n(byte, times));
                text.extend(tokens[gap..].concat());
                // A digit beside a number is a part of it.
                let is_accepted = scan(&text, 9, 9).is_ok();
                let expected = b" \t\r\n".contains(&byte) || serde_json::from_slice::<Value>(&text).is_ok();
                assert_eq!(is_accepted, expected, "{}", text.escape_ascii());
                count += 1;
            }
            count
        },
    );
}

#[test]
fn exhaustive_depth_is_the_number_of_open_brackets() {
    exhaustive(
        "JSON depth: a valid text is refused exactly if more brackets are open than the limit, whatever their kinds",
        "texts of 6 pieces with limits 0 to 5, up to a length of",
        [5, 6, 8],
        |longest| {
            for_each_str(&["[", "]", "{\"\":", "}", ",", "0"], longest, |text| {
                let is_valid = by_grammar(text.as_bytes()).is_ok();
                let (mut open, mut deepest) = (0i32, 0);
                for byte in text.bytes() {
                    open += i32::from(matches!(byte, b'[' | b'{')) - i32::from(matches!(byte, b']' | b'}'));
                    deepest = deepest.max(open);
                }
                for limit in 0..=5 {
                    let scanned = scan(text.as_bytes(), limit, u32::MAX);
                    let fits = i64::from(deepest) <= i64::from(limit);
                    assert_eq!(scanned.is_ok(), is_valid && fits, "{text} {limit}");
                    if is_valid && !fits {
                        assert!(matches!(scanned, Err(ScanError::Depth(_))), "{text} {limit}");
                    }
                }
            }) * 6
        },
    );
}

#[test]
fn exhaustive_repeated_members_are_found_in_every_spelling() {
    // Spellings of five names; behind 12 of them the set of names is another one.
    const NAMES: [(&str, &str); 8] = [
        ("a", "a"),
        ("\\u0061", "a"),
        ("b", "b"),
        ("", ""),
        ("ab", "ab"),
        ("\\u0061\\u0062", "ab"),
        ("a/b", "a/b"),
        ("a\\/b", "a/b"),
    ];
    exhaustive(
        "JSON members: an object with two names that are equal without escapes is refused, and one with more than the limit",
        "sequences of 8 spellings, alone and behind 11 others, up to a length of",
        [3, 4, 6],
        |longest| {
            let before: String = (0..11).map(|n| format!("\"other {n}\":0,")).collect();
            for_each_sequence(NAMES.len(), longest, |sequence| {
                let members: Vec<String> =
                    sequence.iter().map(|name| format!("\"{}\":0", NAMES[*name].0)).collect();
                let mut names: Vec<&str> = sequence.iter().map(|name| NAMES[*name].1).collect();
                let is_repeated = find_duplicate(names.iter().map(|name| name.as_bytes())).is_some();
                let count = names.len();
                names.sort_unstable();
                names.dedup();
                assert_eq!(is_repeated, names.len() < count, "{members:?}");
                for (others, before) in [(0, ""), (11, &*before)] {
                    let text = format!("{{{before}{}}}", members.join(",")).replace(",}", "}");
                    for limit in [others + count, others + count.saturating_sub(1)] {
                        let mut scanner =
                            Scanner::new(text.as_bytes(), 9, u32::try_from(limit).expect("few"));
                        let scanned = scanner.members(&mut |s, _| s.value().map(drop));
                        let is_too_many = limit < others + count;
                        assert_eq!(scanned.is_ok(), !is_repeated && !is_too_many, "{text} {limit}");
                    }
                }
            }) * 4
        },
    );
}

#[test]
fn exhaustive_strings_are_unescaped_as_serde_json_does() {
    exhaustive(
        "JSON strings: accepted and unescaped as serde_json does",
        "contents of 10 pieces of escapes, up to a length of",
        [4, 5, 6],
        |longest| {
            let pieces = ["\\", "u", "\"", "/", "n", "0", "d83d", "dc0a", "\u{e9}", "\u{1f}"];
            for_each_str(&pieces, longest, |content| {
                let text = format!("\"{content}\"");
                let expected = serde_json::from_str::<String>(&text).ok();
                let scanned = scan(text.as_bytes(), 1, 1).ok();
                assert_eq!(
                    scanned.and_then(|_| crate::json::string(text.as_bytes())).as_deref(),
                    expected.as_deref()
                );
            })
        },
    );
}

#[test]
fn exhaustive_unicode_escapes_are_all_characters() {
    const EDGES: [u32; 10] = [0, 0x20, 0xd7ff, 0xd800, 0xd801, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xffff];
    exhaustive(
        "JSON escapes: each code unit alone, and each pair, is the character that UTF-16 says, or refused",
        "all code units, and pairs of 10 edges with units in steps of 1 << (15 -",
        [0, 6, 15],
        |bits| {
            let read = |text: &str| {
                scan(text.as_bytes(), 1, 1)
                    .ok()
                    .and_then(|_| crate::json::string(text.as_bytes()))
                    .map(String::from)
            };
            let mut count = 0;
            for unit in 0..=u16::MAX {
                let expected = String::from_utf16(&[unit]).ok();
                assert_eq!(read(&format!("\"\\u{unit:04x}\"")), expected);
                assert_eq!(read(&format!("\"\\u{unit:04X}\"")), expected);
                count += 2;
            }
            for edge in EDGES {
                for unit in (0..=0xffff).step_by(1 << (15 - bits)).chain(EDGES) {
                    let pair = [edge, unit].map(|unit| u16::try_from(unit).expect("16 bits"));
                    let text = format!("\"\\u{edge:04x}\\u{unit:04x}\"");
                    assert_eq!(read(&text), String::from_utf16(&pair).ok(), "{text}");
                    count += 1;
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_bytes_of_strings_are_utf_8_without_controls() {
    exhaustive(
        "RawJson: two bytes within a string are accepted exactly if they are UTF-8 without controls, quotes and lone escapes",
        "pairs of bytes, the first in steps of 4 - ",
        [0, 3, 3],
        |finer| {
            let mut count = 0;
            for first in (0..=u8::MAX).step_by(4 - finer) {
                for second in 0..=u8::MAX {
                    let text = [b'"', first, second, b'"'];
                    let expected = serde_json::from_slice::<String>(&text).is_ok();
                    assert_eq!(RawJson::new(text.to_vec()).is_ok(), expected, "{}", text.escape_ascii());
                    count += 1;
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_word_search_stops_at_the_first_special_byte() {
    const BYTES: [u8; 6] = [b'a', b'"', b'\\', 0x1f, b'!', 0xa2];
    exhaustive(
        "JSON word search: stops at the first quote, backslash or control, behind every number of plain bytes",
        "sequences of 6 bytes behind 0, 3, 8, 13 and 260 others, up to a length of",
        [5, 6, 8],
        |longest| {
            let mut text = alloc::vec![b'x'; 260];
            for_each_sequence(BYTES.len(), longest, |sequence| {
                text.truncate(260);
                text.extend(sequence.iter().map(|byte| BYTES[*byte]));
                let plain =
                    sequence.iter().take_while(|byte| matches!(BYTES[**byte], b'a' | b'!' | 0xa2)).count();
                for before in [0, 3, 8, 13, 260] {
                    assert_eq!(plain_prefix(&text[260 - before..]), before + plain, "{sequence:?} {before}");
                }
            }) * 5
        },
    );
}

#[test]
fn exhaustive_written_strings_are_those_of_serde_json() {
    exhaustive(
        "JSON writer: a string is written as serde_json writes it, and not longer than was reserved",
        "all characters below U+0100, and texts of 8 characters, up to a length of",
        [4, 5, 6],
        |longest| {
            let check = |text: &str| {
                let mut written = Vec::new();
                write_str(&mut written, text);
                assert_eq!(written, serde_json::to_vec(text).expect("a string"), "{text:?}");
                let content = written.len() - 2;
                assert!(content <= escaped_len(text.as_bytes()) && content <= max_escaped_len(text.len()));
            };
            (0..256).filter_map(char::from_u32).for_each(|c| check(&String::from(c)));
            256 + for_each_str(
                &["a", "\"", "\\", "\n", "\u{8}", "\u{1f}", "\u{7f}", "\u{1f600}"],
                longest,
                check,
            )
        },
    );
}

#[test]
fn exhaustive_every_character_is_read_as_it_was_written() {
    exhaustive(
        "JSON strings: every character is read as it was written",
        "characters, in steps of 64 - ",
        [0, 56, 63],
        |finer| {
            let mut count = 0;
            for c in (0..=0x10_ffff).step_by(64 - finer).filter_map(char::from_u32) {
                let text = String::from(c);
                let mut written = Vec::new();
                write_str(&mut written, &text);
                assert_eq!(
                    read_str::<String>(core::str::from_utf8(&written).expect("UTF-8")).ok(),
                    Some(text)
                );
                count += 1;
            }
            count
        },
    );
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Record {
    a: u8,
    #[serde(default)]
    b: Option<Value>,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
enum Choice {
    A,
    B(u8),
}

const TOKENS: [&str; 13] =
    ["{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "1 ", "-1 ", "300 ", "1.5 ", "null"];

#[test]
fn exhaustive_reader_decides_as_serde_json_does() {
    fn compare<T: for<'a> Deserialize<'a> + PartialEq + core::fmt::Debug>(text: &str) {
        let (mut read, expected) = (
            read_str::<T>(text).map_err(|error| error.to_string()),
            serde_json::from_str::<T>(text).map_err(|error| (error.line(), error.to_string())),
        );
        // `serde_json` does not say where the variant of an enum is that has no content.
        if let (Err(error), Err((0, _))) = (&mut read, &expected) {
            error.truncate(error.find(" at line ").unwrap_or(error.len()));
        }
        assert_eq!(read, expected.map_err(|(_, error)| error), "{text} as {}", core::any::type_name::<T>());
    }
    exhaustive(
        "JSON reader: a valid text has the value, or the error with its position, that it has with serde_json",
        "texts of 13 tokens as 12 types, up to a length of",
        [4, 5, 7],
        |longest| {
            let mut valid = 0;
            for_each_str(&TOKENS, longest, |text| {
                if serde_json::from_str::<Value>(text).is_err() {
                    return;
                }
                valid += 12;
                compare::<Value>(text);
                compare::<u8>(text);
                compare::<i64>(text);
                compare::<f64>(text);
                compare::<bool>(text);
                compare::<String>(text);
                compare::<Option<u8>>(text);
                compare::<Vec<u8>>(text);
                compare::<(u8,)>(text);
                compare::<BTreeMap<String, Value>>(text);
                compare::<Record>(text);
                compare::<Choice>(text);
            });
            valid
        },
    );
}

#[test]
fn exhaustive_checked_reader_accepts_what_serde_json_accepts() {
    exhaustive(
        "JSON reader: an unchecked text never panics, and a checked one is read exactly if serde_json reads it",
        "texts of 13 tokens, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&TOKENS, longest, |text| {
                let expected = serde_json::from_str::<Value>(text).ok();
                assert_eq!(check_and_read::<Value>(text).ok(), expected, "{text}");
                let unchecked = read_str::<Value>(text).ok();
                assert!(expected.is_none() || unchecked == expected, "{text}");
                let _ = (read_str::<Record>(text), read_str::<Choice>(text), read_str::<Vec<u8>>(text));
            })
        },
    );
}
