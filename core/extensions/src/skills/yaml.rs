//! YAML as JSON: the events of the parser, with the scalars of the core schema of YAML 1.2.

use alloc::borrow::{Cow, ToOwned};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

/// Maximum depth of nested mappings and sequences.
const MAX_DEPTH: usize = 32;

/// A mapping or sequence that has not ended.
enum Container {
    Sequence { is_empty: bool },
    Mapping { keys: BTreeSet<String>, expects_key: bool },
}

/// Converts a YAML document to the text of a JSON object.
///
/// Only what JSON can express is accepted: one mapping with keys that are strings, each once. Aliases, anchors and tags
/// other than `!!str` are refused, so the output is never much larger than the input.
///
/// # Errors
///
/// The reason with its line.
pub(super) fn to_json(yaml: &str) -> Result<String, String> {
    let mut json = String::with_capacity(yaml.len());
    let mut open: Vec<Container> = Vec::new();
    let mut documents = 0;
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|error| describe(error.info(), error.marker().line()))?;
        let refused = |what: &str| Err(describe(what, span.start.line()));
        let anchor = match &event {
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _) => *anchor,
            Event::Alias(_) => return refused("aliases are not accepted"),
            _ => 0,
        };
        if anchor != 0 {
            return refused("anchors are not accepted");
        }
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return refused("there is more than one document");
                }
            }
            Event::MappingStart(_, tag) | Event::SequenceStart(_, tag) if tag.is_some() => {
                return refused("tags are not accepted");
            }
            Event::MappingStart(..) | Event::SequenceStart(..) if open.len() == MAX_DEPTH => {
                return refused(&format!("it is nested more than {MAX_DEPTH} levels deep"));
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let is_mapping = matches!(event, Event::MappingStart(..));
                if open.is_empty() && !is_mapping {
                    return refused("it is not a mapping");
                }
                if !begin_value(&mut json, &mut open) {
                    return refused("a key is not a string");
                }
                json.push(if is_mapping { '{' } else { '[' });
                open.push(if is_mapping {
                    Container::Mapping { keys: BTreeSet::new(), expects_key: true }
                } else {
                    Container::Sequence { is_empty: true }
                });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                json.push(if matches!(event, Event::MappingEnd) { '}' } else { ']' });
                open.pop();
            }
            Event::Scalar(text, style, _, tag) => {
                let value = match resolve(&text, style, tag.as_deref()) {
                    Ok(value) => value,
                    Err(what) => return refused(&what),
                };
                if let Some(Container::Mapping { keys, expects_key: expects_key @ true }) = open.last_mut() {
                    let Value::String(key) = value else {
                        return refused(&format!("the key `{}` is not a string", clip(&text)));
                    };
                    if !keys.insert(key.to_owned()) {
                        return refused(&format!("the key `{}` appears twice", clip(&text)));
                    }
                    json.push_str(if keys.len() == 1 { "" } else { "," });
                    push_string(&mut json, key);
                    json.push(':');
                    *expects_key = false;
                } else if open.is_empty() {
                    return refused("it is not a mapping");
                } else {
                    begin_value(&mut json, &mut open);
                    match value {
                        Value::String(text) => push_string(&mut json, text),
                        Value::Literal(text) => json.push_str(&text),
                    }
                }
            }
            _ => {}
        }
    }
    if json.is_empty() { Err("it is empty".into()) } else { Ok(json) }
}

/// Prepares for a value in the innermost container; returns false if a key is expected there.
fn begin_value(json: &mut String, open: &mut [Container]) -> bool {
    match open.last_mut() {
        None => true,
        Some(Container::Sequence { is_empty }) => {
            json.push_str(if *is_empty { "" } else { "," });
            *is_empty = false;
            true
        }
        Some(Container::Mapping { expects_key, .. }) => !core::mem::replace(expects_key, true),
    }
}

/// A scalar: the content of a string, or the text of another JSON value.
enum Value<'a> {
    String(&'a str),
    Literal(Cow<'a, str>),
}

/// Resolves a scalar by the core schema of YAML 1.2 (10.3.2).
fn resolve<'a>(text: &'a str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value<'a>, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(Value::String(text)),
        Some(_) => return Err("tags other than `!!str` are not accepted".into()),
        None if style != ScalarStyle::Plain => return Ok(Value::String(text)),
        None => {}
    }
    let literal = match text {
        "" | "~" | "null" | "Null" | "NULL" => "null",
        "true" | "True" | "TRUE" => "true",
        "false" | "False" | "FALSE" => "false",
        _ => {
            let special = text.trim_start_matches(['+', '-']).trim_start_matches('.');
            if text.contains('.') && matches!(special, "inf" | "Inf" | "INF" | "nan" | "NaN" | "NAN") {
                return Err(format!("the number `{}` has no form in JSON", clip(text)));
            }
            return Ok(match number(text)? {
                Some(number) => Value::Literal(number.into()),
                None => Value::String(text),
            });
        }
    };
    Ok(Value::Literal(literal.into()))
}

/// Returns the JSON form of a number, or `None` if the text is no number.
fn number(text: &str) -> Result<Option<String>, String> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
                return Ok(None);
            }
            let value = u64::from_str_radix(digits, radix);
            let large = |_| format!("the number `{}` is larger than 64 bits", clip(text));
            return value.map(|value| Some(value.to_string())).map_err(large);
        }
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent_digits = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    let fits = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent_digits.is_none_or(|e| !e.is_empty() && digits(e));
    if !fits {
        return Ok(None);
    }
    let whole = whole.trim_start_matches('0');
    let mut json = format!("{sign}{}", if whole.is_empty() { "0" } else { whole });
    if !fraction.is_empty() {
        json.push('.');
        json.push_str(fraction);
    }
    if let Some(exponent) = exponent {
        json.push('e');
        json.push_str(exponent);
    }
    Ok(Some(json))
}

fn push_string(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\t' => json.push_str("\\t"),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
}

fn clip(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Lines count from the `---` of the file, which is line 1.
fn describe(what: &str, line: usize) -> String {
    format!("line {}: {what}", line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SKILL-009, SKILL-011
    #[test]
    fn yaml_becomes_json() {
        for (yaml, json) in [
            ("name: a\ndescription: b c\n", r#"{"name":"a","description":"b c"}"#),
            ("a: {b: [1, 'x', \"y\\n\"], c: {}}\nd: []", r#"{"a":{"b":[1,"x","y\n"],"c":{}},"d":[]}"#),
            ("a: >\n  b\n  c\n", r#"{"a":"b c\n"}"#),
            ("a: |\n  b\n  \"c\\\n", r#"{"a":"b\n\"c\\\n"}"#),
            ("a:\nb: ~\nc: null\nd: True\ne: yes", r#"{"a":null,"b":null,"c":null,"d":true,"e":"yes"}"#),
            (
                "a: 007\nb: +1\nc: -0.50\nd: 1.\ne: .5e+3\nf: 1e9",
                r#"{"a":7,"b":1,"c":-0.50,"d":1,"e":0.5e+3,"f":1e9}"#,
            ),
            (
                "a: 0x1F\nb: 0o17\nc: 0b1\nd: 1_000\ne: 1.2.3",
                r#"{"a":31,"b":15,"c":"0b1","d":"1_000","e":"1.2.3"}"#,
            ),
            ("a: !!str 1\nb: '1'\nc: 2026-07-28\n'1': x", r#"{"a":"1","b":"1","c":"2026-07-28","1":"x"}"#),
            ("a: e\nb: .\nc: 1e\nd: +", r#"{"a":"e","b":".","c":"1e","d":"+"}"#),
            ("# comment\na: b # more\n", r#"{"a":"b"}"#),
            ("ü: \"\\u0001\\u2028😀\"", "{\"ü\":\"\\u0001\u{2028}😀\"}"),
        ] {
            let found = to_json(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
            assert_eq!(found, json, "{yaml}");
            mcp_proto::RawJson::new(found).expect(yaml);
        }
    }

    // covers: SKILL-009, SEC-018
    #[test]
    fn yaml_that_json_cannot_express_is_refused() {
        let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
        let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n";
        for (yaml, part) in [
            ("", "it is empty"),
            ("# nothing\n", "it is empty"),
            ("- a\n- b\n", "line 2: it is not a mapping"),
            ("text", "it is not a mapping"),
            ("a: b\na: c\n", "line 3: the key `a` appears twice"),
            ("x:\n  a: b\n  'a': c\n", "line 4: the key `a` appears twice"),
            ("1: a\n", "line 2: the key `1` is not a string"),
            ("true: a\n", "the key `true` is not a string"),
            ("? [a]\n: b\n", "a key is not a string"),
            ("? {a: b}\n: c\n", "a key is not a string"),
            ("a: &x b\n", "anchors are not accepted"),
            (bomb, "anchors are not accepted"),
            ("a: *x\n", "line 2"),
            ("a: !!int 1\n", "tags other than"),
            ("a: !secret x\n", "tags other than"),
            ("a: !!set {b}\n", "tags are not accepted"),
            ("a: .inf\n", "has no form in JSON"),
            ("a: -.INF\n", "has no form in JSON"),
            ("a: .nan\n", "has no form in JSON"),
            ("a: 0xfffffffffffffffff\n", "larger than 64 bits"),
            ("a: b\n...\n--- \nc: d\n", "more than one document"),
            ("a: [b\n", "line"),
            ("a: b: c\n", "line 2"),
            ("a: \"b\n", "line"),
            ("a:\n\t- b\n", "line"),
            (&deep, "more than 32 levels deep"),
        ] {
            let error = to_json(yaml).expect_err(yaml);
            assert!(error.contains(part), "{yaml:?}: {error}");
        }
    }

    // covers: SEC-018
    #[test]
    fn large_hostile_yaml_is_refused_or_becomes_json() {
        let size = super::super::MAX_FRONT_MATTER;
        let keys: String = (0..size / 8).map(|n| format!("k{n}: 1\n")).collect();
        for (unit, prefix) in [
            ("[", "a: "),
            ("{", "a: "),
            ("- ", ""),
            ("? ", ""),
            ("a: ", ""),
            ("\"", "a: "),
            ("'", "a: "),
            (" ", "a: b"),
            ("#", ""),
            ("&a ", "a: "),
            ("!", "a: "),
            ("a,", "a: ["),
            ("a: b\n", ""),
            ("- a\n", "a:\n"),
            ("\n", "a: |"),
            ("%", ""),
            ("*a ", "a: "),
        ] {
            let text = format!("{prefix}{}", unit.repeat(size / unit.len()));
            // Accepted text becomes JSON. The sizes test that it returns at all.
            if let Ok(json) = to_json(&text) {
                mcp_proto::RawJson::new(json).expect(unit);
            }
        }
        assert!(to_json(&keys).is_ok());
    }
}
