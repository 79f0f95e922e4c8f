//! URI templates, beside the pseudo-code of RFC 6570 and a search for matches without any cleverness.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::for_each_str;
use crate::router::template::{Template, Values, VariablePolicy};
use crate::testing::{exhaustive, for_each_sequence};

/// The table of RFC 6570, appendix A: first, separator, whether named, text for an empty value, whether reserved is kept.
fn operator(symbol: &str) -> (&'static str, &'static str, bool, &'static str, bool) {
    match symbol {
        "+" => ("", ",", false, "", true),
        "#" => ("#", ",", false, "", true),
        "." => (".", ".", false, "", false),
        "/" => ("/", "/", false, "", false),
        ";" => (";", ";", true, "", false),
        "?" => ("?", "&", true, "=", false),
        "&" => ("&", "&", true, "=", false),
        _ => ("", ",", false, "", false),
    }
}

fn encode(text: &str, keeps_reserved: bool) -> String {
    let (mut out, mut at) = (String::new(), 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let c = char::from(*byte);
        let hex = text.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let is_unreserved = c.is_ascii_alphanumeric() || "-._~".contains(c);
        let is_kept = ":/?#[]@!$&'()*+,;=".contains(c) || c == '%' && hex.is_some();
        if is_unreserved || keeps_reserved && is_kept {
            out.push(c);
        } else {
            out += &format!("%{byte:02X}");
        }
        at += 1;
    }
    out
}

enum Value {
    Text(&'static str),
    List(&'static [&'static str]),
    Pairs(&'static [(&'static str, &'static str)]),
}

const VARIABLES: [(&str, Value); 7] = [
    ("x", Value::Text("ab")),
    ("r", Value::Text("é/%41%")),
    ("e", Value::Text("")),
    ("l", Value::List(&["1", "", "/"])),
    ("n", Value::List(&[])),
    ("p", Value::Pairs(&[("k", "v;"), ("é", "")])),
    ("m", Value::Pairs(&[])),
];

/// Expands one expression, as RFC 6570, 3.2.1 and appendix A describe it.
fn expand(symbol: &str, specs: &[&str]) -> Option<String> {
    let (first, separator, is_named, if_empty, keeps) = operator(symbol);
    let named = |name: &str, text: String| match (is_named, text.is_empty()) {
        (false, _) => text,
        (true, true) => format!("{name}{if_empty}"),
        (true, false) => format!("{name}={text}"),
    };
    let mut items = Vec::new();
    for spec in specs {
        let (name, explode) = spec.strip_suffix('*').map_or((*spec, false), |name| (name, true));
        let (name, prefix) = name.split_once(':').map_or((name, None), |(name, n)| (name, n.parse().ok()));
        let value = VARIABLES.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        match value {
            None | Some(Value::List([]) | Value::Pairs([])) => {
                if prefix.is_some() && value.is_some() {
                    return None;
                }
            }
            Some(Value::Text(text)) => {
                let text: String = text.chars().take(prefix.unwrap_or(usize::MAX)).collect();
                items.push(named(name, encode(&text, keeps)));
            }
            Some(_) if prefix.is_some() => return None,
            Some(Value::List(list)) => {
                let mut all = list.iter().map(|item| encode(item, keeps));
                match explode {
                    true => items.extend(all.map(|item| named(name, item))),
                    false => {
                        let joined = all.by_ref().collect::<Vec<_>>().join(",");
                        items.push(named(name, joined));
                    }
                }
            }
            Some(Value::Pairs(pairs)) => {
                let all = pairs.iter().map(|(key, value)| (encode(key, keeps), encode(value, keeps)));
                match explode {
                    true if is_named => items.extend(all.map(|(key, value)| named(&key, value))),
                    true => items.extend(all.map(|(key, value)| format!("{key}={value}"))),
                    false => {
                        let joined = all.map(|(key, value)| format!("{key},{value}")).collect::<Vec<_>>();
                        items.push(named(name, joined.join(",")));
                    }
                }
            }
        }
    }
    Some(if items.is_empty() { String::new() } else { format!("{first}{}", items.join(separator)) })
}

const OPERATORS: [&str; 8] = ["", "+", "#", ".", "/", ";", "?", "&"];

#[test]
fn exhaustive_templates_are_expanded_as_the_standard_says() {
    const SPECS: [&str; 14] =
        ["x", "x:1", "x*", "r", "r:1", "r:4", "e", "e*", "l", "l*", "l:1", "n", "p", "p*"];
    let mut values = Values::new();
    for (name, value) in VARIABLES {
        values = match value {
            Value::Text(text) => values.text(name, text),
            Value::List(list) => values.list(name, list.iter().copied()),
            Value::Pairs(pairs) => values.pairs(name, pairs.iter().copied()),
        };
    }
    exhaustive(
        "templates: expressions with all operators, modifiers and kinds of values are expanded as the pseudo-code of RFC 6570 does",
        "8 operators with sequences of 14 kinds of variables and one that is undefined, up to a length of",
        [2, 3, 4],
        |longest| {
            for_each_sequence(SPECS.len() + 2, longest, |sequence| {
                if sequence.is_empty() {
                    return;
                }
                let specs: Vec<&str> = sequence
                    .iter()
                    .map(|spec| SPECS.get(*spec).copied().unwrap_or_else(|| ["u", "m"][*spec - 14]))
                    .collect();
                for symbol in OPERATORS {
                    let text = format!("{{{symbol}{}}}", specs.join(","));
                    let template = Template::new(&text).expect("a template");
                    // A prefix counts a triplet that is kept as one character.
                    let is_counted = operator(symbol).4 && specs.contains(&"r:4");
                    let expected = expand(symbol, &specs).map(|text| match is_counted {
                        true => text.replace("%C3%A9/%254", "%C3%A9/%41%25"),
                        false => text,
                    });
                    assert_eq!(template.expand(&values).ok(), expected, "{text}");
                }
            }) * 8
        },
    );
}

/// Returns whether a text is a template (RFC 6570, 2).
fn is_template(text: &str) -> bool {
    let is_triplets = |text: &str| {
        text.split('%')
            .skip(1)
            .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
    };
    let is_literal =
        |text: &str| is_triplets(text) && !text.chars().any(|c| " \"<>\\^`{|}".contains(c) || c.is_control());
    let is_name = |name: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_%".contains(c);
        is_triplets(name)
            && name.split('.').all(|part| !part.is_empty() && part.chars().all(fits))
            && !name.split('.').any(|part| part.ends_with('%'))
    };
    let is_spec = |spec: &str| match (spec.strip_suffix('*'), spec.split_once(':')) {
        (Some(name), _) => is_name(name),
        (None, Some((name, digits))) => {
            let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            is_name(name) && is_number && !digits.starts_with('0')
        }
        (None, None) => is_name(spec),
    };
    let mut parts = text.split('{');
    parts.next().is_some_and(is_literal)
        && parts.all(|part| {
            let Some((inner, literal)) = part.split_once('}') else { return false };
            let specs = inner.strip_prefix(['+', '#', '.', '/', ';', '?', '&']).unwrap_or(inner);
            specs.split(',').all(is_spec) && is_literal(literal)
        })
}

#[test]
fn exhaustive_texts_are_templates_by_the_grammar() {
    const PIECES: [&str; 14] = ["{", "}", "a", ".", "%41", "%", "*", ":", "1", "0", ",", "+", "|", "é"];
    exhaustive(
        "templates: a text is one exactly if the grammar of RFC 6570, 2 has it",
        "texts of 14 pieces, bare and as an expression, up to a length of",
        [3, 4, 5],
        |longest| {
            for_each_str(&PIECES, longest, |text| {
                for text in [text.to_owned(), format!("a{{{text}}}")] {
                    assert_eq!(Template::new(&text).is_ok(), is_template(&text), "{text}");
                }
            }) * 2
        },
    );
}

/// A part of a template: a literal, or the operator of an expression of one variable.
#[derive(Clone, Copy, Debug)]
enum Part {
    Literal(&'static str),
    Variable(&'static str),
}

const PARTS: [Part; 9] = [
    Part::Literal("a"),
    Part::Literal("/"),
    Part::Variable(""),
    Part::Variable("+"),
    Part::Variable("#"),
    Part::Variable("."),
    Part::Variable("/"),
    Part::Variable(";"),
    Part::Variable("?"),
];

/// Returns the values of a match by trying all pieces, the longest first, in the order of the parts; `units` are characters.
///
/// The rules are those of `router::template`.
fn search(parts: &[Part], at: usize, units: &[&str]) -> Option<Vec<(usize, String)>> {
    let Some(part) = parts.get(at) else { return units.is_empty().then(Vec::new) };
    let symbol = match part {
        Part::Literal(text) => {
            let (first, rest) = units.split_first()?;
            return if first == text { search(parts, at + 1, rest) } else { None };
        }
        Part::Variable(symbol) => *symbol,
    };
    let (first, separator, is_named, ..) = operator(symbol);
    // The first characters of the expansion behind it, and of later queries and fragments, end a value.
    let firsts = |part: &Part| match part {
        Part::Variable(symbol) => operator(symbol).0,
        Part::Literal(_) => "",
    };
    let later = parts.get(at + 1..).unwrap_or_default();
    let stops = later.iter().enumerate().map(|(n, part)| (n, firsts(part)));
    let stops: Vec<&str> =
        stops.filter(|(n, first)| *n == 0 || ["?", "#"].contains(first)).map(|(_, f)| f).collect();
    let fits = |unit: &str| match symbol {
        _ if stops.contains(&unit) => false,
        "+" | "#" => true,
        "?" => unit != "#",
        "/" | ";" if unit == separator => false,
        _ => !["/", "?", "#"].contains(&unit),
    };
    let mut found = None;
    let value_begins = match (first, units.first()) {
        ("", _) => Some(0),
        (first, Some(unit)) if first == *unit => Some(1),
        _ => None,
    };
    if let Some(mut begin) = value_begins {
        let mut has_value = true;
        if is_named {
            has_value = units.get(2) == Some(&"=");
            let is_name = units.get(1) == Some(&"v");
            begin = if is_name { 2 + usize::from(has_value) } else { usize::MAX };
        }
        let rest = units.get(begin..).unwrap_or_default();
        let longest = if has_value { rest.iter().take_while(|unit| fits(unit)).count() } else { 0 };
        let shortest = usize::from(first.is_empty());
        let is_there = begin <= units.len();
        found = (shortest..=longest).rev().filter(|_| is_there).find_map(|length| {
            let mut values = search(parts, at + 1, &rest[length..])?;
            values.push((at, rest[..length].concat().replace("%C3%A9", "é")));
            Some(values)
        });
    }
    // All but the plain ones may be absent.
    found.or_else(|| if first.is_empty() { None } else { search(parts, at + 1, units) })
}

#[test]
fn exhaustive_matches_are_those_of_a_search() {
    const UNITS: [&str; 9] = ["a", "/", ".", "?", "#", ";", "=", "v", "%C3%A9"];
    exhaustive(
        "templates: a URI matches with the values that a search finds which tries the longest pieces first",
        "templates of up to 2 of 9 parts, and all URIs of 9 characters, up to a length of",
        [3, 4, 5],
        |longest| {
            let mut count = 0;
            for_each_sequence(PARTS.len(), 2, |sequence| {
                let parts: Vec<Part> = sequence.iter().map(|part| PARTS[*part]).collect();
                // Variables with names in the URI are called `v`; two of one name have one value.
                let mut text = "x:".to_owned();
                let name = |at: usize| match parts[at] {
                    Part::Variable(";" | "?") => "v".to_owned(),
                    _ => at.to_string(),
                };
                for (at, part) in parts.iter().enumerate() {
                    text += &match part {
                        Part::Literal(literal) => (*literal).to_owned(),
                        Part::Variable(symbol) => format!("{{{symbol}{}}}", name(at)),
                    };
                }
                if text.matches('v').count() > 1 {
                    return;
                }
                let template = Template::new(&text).expect("a template");
                count += for_each_sequence(UNITS.len(), longest, |sequence| {
                    let units: Vec<&str> = sequence.iter().map(|unit| UNITS[*unit]).collect();
                    let uri = format!("x:{}", units.concat());
                    let mut expected = search(&parts, 0, &units);
                    if let Some(values) = &mut expected {
                        values.sort();
                    }
                    let found = template.match_uri(&uri, VariablePolicy::dangerously_off()).ok();
                    let found = found.map(|values| {
                        let all = (0..parts.len()).filter(|at| matches!(parts[*at], Part::Variable(_)));
                        all.filter_map(|at| Some((at, values.get(&name(at))?.to_owned()))).collect::<Vec<_>>()
                    });
                    assert_eq!(found, expected, "{text} {uri}");
                });
            });
            count
        },
    );
}
