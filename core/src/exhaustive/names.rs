//! Names, versions, scopes and records: what a text has to be, beside the rule written down plainly.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::for_each_str;
use crate::meta::{is_extension_id, is_unreserved_key};
use crate::model::StringFormat;
use crate::record::{number, part, put, put_number};
use crate::seal::{Binding, Keys, RequestState, digest};
use crate::tasks::text::TaskBits;
use crate::testing::{exhaustive, for_each_sequence, for_each_text};
use crate::{Era, Scopes, Version, VersionSet, iso_8601};

/// Returns whether a text is a prefix of labels (META-003): letters first, letters or digits last, hyphens between.
fn is_prefix(prefix: &str) -> bool {
    prefix.split('.').all(|label| {
        let ends = label.starts_with(|c: char| c.is_ascii_alphabetic()) && !label.ends_with('-');
        ends && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

/// Returns whether a text is a name (META-004).
fn is_name(name: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    is_edge(name.chars().next())
        && is_edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[test]
fn exhaustive_keys_of_meta_are_free_or_reserved() {
    exhaustive(
        "keys of `_meta`: an application may use a key exactly if its form is right and its prefix not reserved",
        "texts of 9 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            let pieces = ["a", "1", "-", "_", ".", "/", "mcp", "modelcontextprotocol", "progressToken"];
            for_each_str(&pieces, longest, |key| {
                let (prefix, name) =
                    key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
                let labels: Vec<&str> = prefix.unwrap_or_default().split('.').collect();
                let is_reserved =
                    |label: Option<&&str>| matches!(label, Some(&"mcp" | &"modelcontextprotocol"));
                // DEC-009: the second label, or the one before the last.
                let is_taken = is_reserved(labels.get(1))
                    || labels.len() > 1 && is_reserved(labels.get(labels.len() - 2));
                let expected = is_name(name)
                    && prefix.is_none_or(is_prefix)
                    && (prefix.is_some() || !name.is_empty())
                    && key != "progressToken"
                    && !is_taken;
                assert_eq!(is_unreserved_key(key), expected, "{key}");
                let is_id = !name.is_empty() && is_name(name) && prefix.is_some_and(is_prefix);
                assert_eq!(is_extension_id(key), is_id, "{key}");
            })
        },
    );
}

#[test]
fn exhaustive_names_of_revisions_are_exact() {
    exhaustive(
        "revisions: of all texts that differ in one byte, are cut or longer, five names are revisions",
        "one byte of each name, and texts of 6 pieces, up to a length of",
        [3, 4, 5],
        |longest| {
            let names = Version::ALL.map(|version| version.to_string());
            let mut count = 0;
            let mut check = |text: &str| {
                let expected = names.iter().position(|name| name == text).map(|at| Version::ALL[at]);
                assert_eq!(Version::from_name(text), expected, "{text}");
                count += 1;
            };
            for name in &names {
                for at in 0..name.len() {
                    (0..128u8).for_each(|byte| {
                        check(&format!("{}{}{}", &name[..at], char::from(byte), &name[at + 1..]))
                    });
                    check(&name[..at]);
                    check(&name[at..]);
                }
            }
            for_each_str(&["2024-11-05", "2025-", "03-26", "06-18", "-", " "], longest, check) + count
        },
    );
}

#[test]
fn exhaustive_sets_of_revisions_are_sets() {
    exhaustive(
        "sets of revisions: members, eras, order, and both texts are those of a list, for each set",
        "subsets of the revisions, up to number",
        [31, 31, 31],
        |last| {
            for bits in 0..=last {
                let members: Vec<Version> =
                    Version::ALL.into_iter().rev().filter(|v| bits >> (*v as usize) & 1 == 1).collect();
                let members: Vec<Version> =
                    members.into_iter().filter(|version| VersionSet::ALL.contains(*version)).collect();
                let set = members.iter().fold(VersionSet::NONE, |set, version| set.with(*version));
                assert_eq!(set.iter().collect::<Vec<_>>(), members);
                assert_eq!(set.newest(), members.iter().max().copied());
                assert_eq!(set.is_empty(), members.is_empty());
                let names: Vec<String> = members.iter().map(ToString::to_string).collect();
                assert_eq!(set.to_string(), names.join(", "));
                let mut json = Vec::new();
                set.write(&mut json);
                assert_eq!(serde_json::from_slice::<Vec<String>>(&json).ok(), Some(names));
                for era in [Era::Legacy, Era::Modern] {
                    let expected: Vec<Version> = members.iter().copied().filter(|v| v.era() == era).collect();
                    assert_eq!(set.era(era).iter().collect::<Vec<_>>(), expected);
                }
            }
            last as u64 + 1
        },
    );
}

#[test]
fn exhaustive_scopes_are_sets_of_words() {
    exhaustive(
        "scopes: parsed, printed and parsed again they are the words of the text once each, and unions are those of sets",
        "texts of 7 characters, and pairs of those of half the length, up to a length of",
        [5, 5, 6],
        |longest| {
            let mut all: Vec<Scopes> = Vec::new();
            let texts = for_each_str(&["a", "b", "!", " ", "\"", "\\", "\u{e9}"], longest, |text| {
                let mut words: Vec<&str> = Vec::new();
                text.split(' ').filter(|word| !word.is_empty()).for_each(|word| {
                    if !words.contains(&word) {
                        words.push(word);
                    }
                });
                let scopes = Scopes::parse(text).ok();
                let expected = (!text.contains(['"', '\\', '\u{e9}'])).then(|| words.join(" "));
                assert_eq!(scopes.as_ref().map(Scopes::as_str), expected.as_deref(), "{text}");
                if let Some(scopes) = scopes {
                    assert_eq!(Scopes::parse(scopes.as_str()).as_ref(), Ok(&scopes));
                    assert!(
                        words.iter().all(|word| scopes.contains(word))
                            && !scopes.contains("ab!"[..2].repeat(9).as_str())
                    );
                    if text.len() <= longest / 2 {
                        all.push(scopes);
                    }
                }
            });
            for a in &all {
                for b in &all {
                    let union = a.union(b);
                    assert!(union.contains_all(a) && union.contains_all(b));
                    assert!(union.iter().all(|word| a.contains(word) || b.contains(word)));
                    assert_eq!(a.contains_all(b), b.iter().all(|word| a.iter().any(|other| other == word)));
                }
            }
            texts + (all.len() * all.len()) as u64
        },
    );
}

#[test]
fn exhaustive_numbers_of_records_have_one_encoding() {
    const BYTES: [&[u8]; 6] = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\x81", b"\xff"];
    exhaustive(
        "records: what is read as a number or a part is the one encoding of it, and every number is read as it was written",
        "sequences of 6 bytes, and numbers beside powers of two, up to a length of",
        [5, 6, 9],
        |longest| {
            for bit in 0..63 {
                for near in -1i64..=1 {
                    let expected = (1i64 << bit).wrapping_add(near).unsigned_abs();
                    let mut text = Vec::new();
                    put_number(&mut text, expected);
                    assert_eq!(number(&mut &*text), Some(expected));
                }
            }
            for_each_text(&BYTES, longest, |text| {
                let mut rest = text;
                if let Some(read) = number(&mut rest) {
                    let mut again = Vec::new();
                    put_number(&mut again, read);
                    assert_eq!([&again, rest].concat(), text);
                }
                let mut rest = text;
                if let Some(read) = part(&mut rest) {
                    let mut again = Vec::new();
                    put(&mut again, read);
                    assert_eq!([&again, rest].concat(), text);
                }
            }) + 63 * 3
        },
    );
}

#[test]
fn exhaustive_request_states_have_one_encoding() {
    const BYTES: [&[u8]; 6] = [b"\x00", b"\x01", b"\x02", b"a", b"\x80", b"\xc3\xa9"];
    exhaustive(
        "request states: bytes that are read as a state are its one encoding",
        "sequences of 6 pieces behind the version, up to a length of",
        [6, 7, 9],
        |longest| {
            for_each_text(&BYTES, longest, |rest| {
                let text = [&[1], rest].concat();
                if let Ok(state) = RequestState::decode(&text) {
                    assert_eq!(state.encode(), text);
                }
            })
        },
    );
}

#[test]
fn exhaustive_sealed_texts_open_unchanged_alone() {
    let keys = Keys::new([7; 32]);
    let arguments = digest(None).expect("no text");
    let binding = Binding { principal: None, method: "m", target: "t", arguments };
    exhaustive(
        "seals: a text opens for its binding until it expires, and no text that differs in one character does",
        "every other character at every place, and payloads of a length below",
        [2, 4, 20],
        |longest| {
            let mut count = 0;
            for length in 0..longest {
                let payload = alloc::vec![0xa5; length];
                let text = keys.seal(&binding, 9, &payload, 999).expect("short");
                assert_eq!(keys.open(&binding, 8, &text, 999), Ok(payload));
                assert!(keys.open(&binding, 9, &text, 999).is_err());
                for at in 0..text.len() {
                    for other in "AQZaz09-_=+/ ".chars().filter(|c| !text[at..].starts_with(*c)) {
                        let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                        assert!(keys.open(&binding, 8, &changed, 999).is_err(), "{changed}");
                        count += 1;
                    }
                    assert!(keys.open(&binding, 8, &text[..at], 999).is_err());
                }
                // No byte moves from one part of the binding to the next.
                for (method, target) in [("mt", ""), ("", "mt"), ("t", "m")] {
                    assert!(keys.open(&Binding { method, target, ..binding }, 8, &text, 999).is_err());
                }
                assert!(keys.open(&Binding { principal: Some(""), ..binding }, 8, &text, 999).is_err());
            }
            count
        },
    );
}

#[test]
fn exhaustive_digests_of_arguments_are_those_of_values() {
    exhaustive(
        "digests of arguments: equal exactly for the spellings of one value; none, null and {} differ",
        "pairs of valid texts of 9 tokens, up to a length of",
        [4, 5, 6],
        |longest| {
            let mut digests: Vec<([u8; 32], Option<Value>)> =
                alloc::vec![(digest(None).expect("no text"), None)];
            for_each_str(&["{", "}", "[", "]", ",", "\"a\":", "1", "null", " "], longest, |text| {
                if let Ok(value) = serde_json::from_str::<Value>(text) {
                    if value.to_string().matches(':').count() == text.matches(':').count() {
                        digests.push((digest(Some(text.as_bytes())).expect("JSON"), Some(value)));
                    }
                }
            });
            for (digest, value) in &digests {
                for (other_digest, other) in &digests {
                    assert_eq!(digest == other_digest, value == other, "{value:?} {other:?}");
                }
            }
            (digests.len() * digests.len()) as u64
        },
    );
}

#[test]
fn exhaustive_ids_of_tasks_have_one_spelling() {
    exhaustive(
        "task ids: a text is an id exactly if it is the Base64url text of 16 bytes, whatever byte stands at whatever place",
        "every byte at each of the places, which are at most",
        [22, 22, 22],
        |places| {
            let bits = TaskBits([0x5a; 16]);
            let text = bits.text();
            assert_eq!(TaskBits::parse(&text), Some(bits));
            let mut count = 0;
            for at in 0..places {
                assert_eq!(TaskBits::parse(&text[..at]), None);
                for byte in 0..=u8::MAX {
                    let mut other = text;
                    other[at] = byte;
                    let parsed = TaskBits::parse(&other);
                    assert!(parsed.is_none_or(|parsed| parsed.text() == other), "{}", other.escape_ascii());
                    // The last character has four bits that belong to no byte.
                    let is_digit = byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                    assert_eq!(parsed.is_some(), if at < 21 { is_digit } else { b"AQgw".contains(&byte) });
                    count += 1;
                }
            }
            count
        },
    );
}

/// Returns the number of days of a month, by the rule of Gregory XIII.
fn days(year: u64, month: u64) -> u64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[test]
fn exhaustive_days_are_written_as_a_calendar_counts_them() {
    exhaustive(
        "times: each day is written as a calendar that counts days has it, and is a date and a date-time of a form",
        "days from 1970 on, to the year",
        [2010, 2110, 9999],
        |last| {
            let (mut day, mut count) = (0, 0);
            for year in 1970..=last as u64 {
                for month in 1..=12 {
                    for date in 1..=days(year, month) {
                        let second = count * 7 % 86_400;
                        let text = iso_8601(day * 86_400 + second);
                        let (hour, minute) = (second / 3_600, second / 60 % 60);
                        let expected = format!(
                            "{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{:02}Z",
                            second % 60
                        );
                        assert_eq!(text, expected);
                        assert!(
                            StringFormat::DateTime.matches(&text) && StringFormat::Date.matches(&text[..10])
                        );
                        day += 1;
                        count += 1;
                    }
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_dates_of_forms_exist() {
    exhaustive(
        "forms: of all months and days written with two digits, a date is one that a calendar has",
        "months and days 00 to 99 of years in steps of 100 - ",
        [0, 60, 99],
        |finer| {
            let mut count = 0;
            for year in (0..=400).step_by(100 - finer).flat_map(|year| [year, 2000 + year]) {
                for month in 0..100 {
                    for date in 0..100 {
                        let expected = (1..=12).contains(&month) && (1..=days(year, month)).contains(&date);
                        let text = format!("{year:04}-{month:02}-{date:02}");
                        assert_eq!(StringFormat::Date.matches(&text), expected, "{text}");
                        count += 1;
                    }
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_times_of_forms_have_the_form_of_rfc_3339() {
    const PARTS: [&[&str]; 6] = [
        &["2028-02-29", "2027-02-29", "2028-2-9"],
        &["T", "t", " ", ""],
        &["00:00:00", "23:59:60", "23:59:59", "24:00:00", "12:60:00", "1:00:00", "22:58:60", "00:59:60"],
        &["", ".", ".0", ".123456789", ",5"],
        &["Z", "z", "+00:00", "-01:00", "+01:00", "+24:00", "+1:00", "", "+00:60", "ZZ"],
        &["", " "],
    ];
    exhaustive(
        "forms: a date-time is what RFC 3339 writes, and second 60 is one where the time in UTC is 23:59",
        "all combinations of parts of a time, of which there are",
        [6, 6, 6],
        |_| {
            let mut count = 0;
            let most = PARTS.iter().map(|part| part.len()).max().unwrap_or_default();
            for_each_sequence(most, PARTS.len(), |sequence| {
                let chosen: Option<Vec<&str>> =
                    sequence.iter().zip(PARTS).map(|(n, part)| part.get(*n).copied()).collect();
                let Some(chosen) = chosen.filter(|chosen| chosen.len() == PARTS.len()) else { return };
                let is_leap = matches!(
                    (chosen[2], chosen[4]),
                    ("23:59:60", "Z" | "z" | "+00:00") | ("22:58:60", "") | ("00:59:60", "+01:00")
                );
                let expected = chosen[0] == "2028-02-29"
                    && matches!(chosen[1], "T" | "t")
                    && (matches!(chosen[2], "00:00:00" | "23:59:59") || is_leap)
                    && matches!(chosen[3], "" | ".0" | ".123456789")
                    && matches!(chosen[4], "Z" | "z" | "+00:00" | "-01:00" | "+01:00")
                    && chosen[5].is_empty();
                let text = chosen.concat();
                assert_eq!(StringFormat::DateTime.matches(&text), expected, "{text}");
                count += 1;
            });
            count
        },
    );
}
