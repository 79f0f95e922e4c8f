use super::*;
use crate::testing::{Rng, rounds};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

fn stream(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    canonical(text.as_bytes(), &mut |part| out.extend_from_slice(part)).expect(text);
    out
}

#[test]
fn equal_values_give_equal_streams() {
    let same: &[&[&str]] = &[
        &["1", "1.0", "1e0", "10E-1", "0.1e1", "1E+0", "1.000", "100e-2", "0.00001e5", "1e-0", "1e00"],
        &["0", "-0", "0.0", "-0.000", "0e5", "0E-99999999999999999999999999999999", "-0.0e+1"],
        &["-120", "-1.2e2", "-0.12E3", "-12e1", "-120.0", "-1200e-1"],
        &["0.001", "1e-3", "0.1e-2", "10e-4", "0.0010", "1000e-6"],
        &["123456789012345678901234567890", "1.2345678901234567890123456789e29"],
        &["1e999999999999999999", "1e+000999999999999999999"],
        &["10e999999999999999998", "1e999999999999999999"],
        &[r#""aé😀\n/""#, r#""\u0061\u00e9\uD83D\ude00\u000A\/""#, r#""\u0061é\ud83d\uDE00\n/""#],
        &[r#"{"a":1,"b":[true,null]}"#, "{ \"b\" : [ true , null ],\r\n\t\"\\u0061\" : 1.0 }"],
        &["[]", " [ ] "],
        &["{}", "\n{\t}\r"],
        &[r#"[{"x":{},"y":[{}]},{}]"#, r#"[ {"y":[{ }],"x":{ }}, { } ]"#],
        &[r#"{"":0,"\u0000":1}"#, r#"{"\u0000":1,"":0}"#],
    ];
    for group in same {
        for text in group.iter().filter(|t| !t.is_empty()) {
            assert_eq!(stream(text), stream(group[0]), "{text} is {}", group[0]);
        }
    }
}

#[test]
fn different_values_give_different_streams() {
    let texts = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "10",
        "0.1",
        "11",
        "1.1",
        "1e1000",
        "1e-1000",
        "-1e1000",
        // These would be equal as floating point.
        "9007199254740993",
        "9007199254740992",
        "0.1000000000000000055511151231257827",
        "1e400",
        "2e400",
        // Numbers with exponents too large for calculations keep their spelling.
        "1e1000000000000000000",
        "1e1000000000000000001",
        "10e1000000000000000000",
        "-1e1000000000000000000",
        "1e-1000000000000000000",
        r#""""#,
        r#""0""#,
        r#""null""#,
        r#""n""#,
        r#""\"""#,
        r#""a""#,
        r#""A""#,
        r#""\u00e9""#,
        r#""e\u0301""#,
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[0]",
        "[0,0]",
        "[[0],0]",
        "[0,[0]]",
        "[[],[]]",
        "[[[]]]",
        "[1,2]",
        "[2,1]",
        r#"["a","b"]"#,
        r#"["ab"]"#,
        r#"["a\"b"]"#,
        r#"["a\u0000b"]"#,
        r#"{"a":0}"#,
        r#"{"a":"0"}"#,
        r#"{"a":null}"#,
        r#"{"a":{}}"#,
        r#"{"a":[]}"#,
        r#"["a",0]"#,
        r#"[{"a":0}]"#,
        r#"{"a":0,"b":0}"#,
        r#"{"a":{"b":0}}"#,
        r#"{"a":{},"b":0}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":2,"b":1}"#,
        // Equal names: their number, their order and each value change the stream.
        r#"{"a":0,"a":0}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":2,"a":1}"#,
        r#"{"a":1}"#,
        r#"{"a":2}"#,
        r#"{"a":1,"a":2,"b":0}"#,
        r#"{"b":0,"\u0061":2,"a":1}"#,
    ];
    let streams: BTreeSet<Vec<u8>> = texts.iter().map(|t| stream(t)).collect();
    assert_eq!(streams.len(), texts.len());
    assert_eq!(stream(r#"{"b":0,"\u0061":2,"a":1}"#), stream(r#"{"a":2,"b":0,"a":1}"#));
    assert_eq!(stream(r#"{"b":[1.50],"a":"x"}"#), b"{\"a\xff\"x\xff\"b\xff[+15e-1\xff]}");
}

#[test]
fn invalid_json_is_refused_before_output() {
    let bad = [
        "",
        " ",
        "1 2",
        "[1",
        "[1,]",
        "[,1]",
        "{",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "]",
        "}",
        "[}",
        "{]",
        "{\"a\":1]",
        "[1}",
        "01",
        "1.",
        ".1",
        "+1",
        "1e",
        "-",
        "nul",
        "\"",
        "\"\\ud800\"",
        "\"\\ude00\\ud800\"",
        "\"\\x\"",
        "\"\n\"",
        "[1] x",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "[1 2]",
        "{\"a\":1,2}",
    ];
    for text in bad {
        let found = canonical(text.as_bytes(), &mut |_| panic!("{text}"));
        assert!(matches!(found, Err(ScanError::Syntax(_))), "{text}: {found:?}");
    }
    let deep = |n: usize, open: &str, close: &str| format!("{}0{}", open.repeat(n), close.repeat(n));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for n in [1, 128, 129, 100_000] {
            let mut opened = 0;
            let mut count = |part: &[u8]| opened += usize::from(part == &open.as_bytes()[..1]);
            assert_eq!(canonical(deep(n, open, close).as_bytes(), &mut count), Ok(()));
            assert_eq!(opened, n, "without recursion");
        }
    }
}

// ---- random values -----------------------------------------------------------------------------------------------

#[derive(Clone, PartialEq, Debug)]
enum JsonValue {
    Word(&'static str),
    /// Sign, digits without zeros at either end, exponent; no digits mean zero.
    Number(bool, String, i64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

struct JsonGenerator(Rng);

impl JsonGenerator {
    fn below(&mut self, end: usize) -> usize {
        self.0.next_high() as usize % end
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn text(&mut self) -> String {
        let letters =
            ["a", "b", "\"", "\\", "/", "\n", "\u{0}", "\u{1f}", "\u{7f}", "é", "\u{2028}", "\u{ffff}", "😀"];
        (0..self.below(4)).map(|_| letters[self.below(letters.len())]).collect()
    }

    fn value(&mut self, depth: usize) -> JsonValue {
        match self.below(if depth == 0 { 3 } else { 5 }) {
            0 => JsonValue::Word(["null", "true", "false"][self.below(3)]),
            1 => {
                let digits: String =
                    (0..self.below(25)).map(|_| (b'0' + self.below(10) as u8) as char).collect();
                let digits = digits.trim_matches('0');
                let exponent = self.below(61) as i64 - 30;
                let exponent = if self.below(9) == 0 { exponent * 10_000_000_000_000_000 } else { exponent };
                let zero = digits.is_empty();
                JsonValue::Number(!zero && self.flag(), digits.into(), if zero { 0 } else { exponent })
            }
            2 => JsonValue::Text(self.text()),
            3 => JsonValue::List((0..self.below(5)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let mut names = BTreeSet::new();
                let mut members = Vec::new();
                for _ in 0..self.below(8) {
                    let name = self.text();
                    // Occasionally a name occurs twice.
                    if names.insert(name.clone()) || self.below(8) == 0 {
                        members.push((name, self.value(depth - 1)));
                    }
                }
                members.sort_by(|a, b| a.0.cmp(&b.0));
                JsonValue::Object(members)
            }
        }
    }

    fn space(&mut self, out: &mut String) {
        if self.below(4) == 0 {
            out.push_str([" ", "\n", "\t\r", "  "][self.below(4)]);
        }
    }

    fn spell(&mut self, value: &JsonValue, out: &mut String) {
        self.space(out);
        match value {
            JsonValue::Word(word) => out.push_str(word),
            JsonValue::Number(negative, digits, exponent) => {
                self.spell_number(*negative, digits, *exponent, out)
            }
            JsonValue::Text(text) => self.spell_text(text, out),
            JsonValue::List(values) => {
                out.push('[');
                for (i, value) in values.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    self.spell(value, out);
                }
                self.space(out);
                out.push(']');
            }
            JsonValue::Object(members) => {
                let mut order: Vec<_> = members.iter().collect();
                for _ in 0..2 * order.len() {
                    let at = self.below(order.len());
                    if order.get(at + 1).is_some_and(|next| next.0 != order[at].0) {
                        order.swap(at, at + 1);
                    }
                }
                out.push('{');
                for (i, (name, value)) in order.into_iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    self.space(out);
                    self.spell_text(name, out);
                    self.space(out);
                    out.push(':');
                    self.spell(value, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    fn spell_number(&mut self, negative: bool, digits: &str, exponent: i64, out: &mut String) {
        let more = self.below(4);
        let digits = format!("{digits}{}", "0".repeat(more));
        let zero = digits.trim_matches('0').is_empty();
        let exponent = if zero { self.below(1000) as i64 } else { exponent - more as i64 };
        let (whole, fraction) = digits.split_at(self.below(digits.len() + 1));
        let whole = if whole.is_empty() || zero { "0" } else { whole };
        let before = if whole == "0" && !zero { self.below(3) } else { 0 };
        let fraction = format!("{}{fraction}", "0".repeat(before));
        let exponent = exponent + fraction.len() as i64;
        out.push_str(if negative || zero && self.flag() { "-" } else { "" });
        out.push_str(whole);
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(&fraction);
        }
        if exponent != 0 || self.flag() {
            out.push(if self.flag() { 'e' } else { 'E' });
            let sign = if exponent < 0 { "-" } else { ["", "+"][self.below(2)] };
            let zeros = "0".repeat(self.below(3));
            out.push_str(&format!("{sign}{zeros}{}", exponent.unsigned_abs()));
        }
    }

    fn spell_text(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for letter in text.chars() {
            let must = matches!(letter, '"' | '\\' | '\0'..='\x1f');
            if must || self.below(3) == 0 {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let hex = if self.flag() { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
                    let short = matches!(letter, '"' | '\\' | '/') && self.flag();
                    out.push_str(if short { "\\" } else { &hex });
                    out.extend(short.then_some(letter));
                }
            } else {
                out.push(letter);
            }
        }
        out.push('"');
    }

    /// Returns a value that differs in one place.
    fn mutate(&mut self, value: &JsonValue) -> JsonValue {
        let mut other = value.clone();
        match &mut other {
            JsonValue::List(values) if !values.is_empty() && self.below(4) > 0 => {
                let at = self.below(values.len());
                values[at] = self.mutate(&values[at]);
            }
            JsonValue::Object(members) if !members.is_empty() && self.below(4) > 0 => {
                let at = self.below(members.len());
                if self.below(3) > 0 {
                    members[at].1 = self.mutate(&members[at].1);
                } else {
                    members[at].0.push('z');
                    members.sort_by(|a, b| a.0.cmp(&b.0));
                }
            }
            JsonValue::List(values) => values.push(self.value(1)),
            JsonValue::Object(members) => members.push(("z".into(), self.value(1))),
            JsonValue::Number(_, digits, exponent) if !digits.is_empty() => match self.below(2) {
                0 => *exponent += 1,
                _ => digits.push('1'),
            },
            JsonValue::Text(text) => text.push_str(["a", "\0", "\u{ff}"][self.below(3)]),
            _ => other = JsonValue::List([value.clone()].into()),
        }
        other
    }
}

/// Decodes a stream, which proves that it is complete.
fn read(from: &mut &[u8]) -> JsonValue {
    let (kind, rest) = from.split_first().expect("a value");
    *from = rest;
    let mut ended = || {
        let end = from.iter().position(|b| *b == 0xff).expect("an end");
        let (text, rest) = from.split_at(end);
        *from = &rest[1..];
        String::from_utf8(text.into()).expect("UTF-8")
    };
    match kind {
        b'n' => JsonValue::Word("null"),
        b't' => JsonValue::Word("true"),
        b'f' => JsonValue::Word("false"),
        b'0' => JsonValue::Number(false, String::new(), 0),
        b'+' | b'-' => {
            let text = ended();
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            JsonValue::Number(*kind == b'-', digits.into(), exponent.parse().expect("an exponent"))
        }
        b'"' => JsonValue::Text(ended()),
        b'[' => {
            let mut values = Vec::new();
            while from[0] != b']' {
                values.push(read(from));
            }
            *from = &from[1..];
            JsonValue::List(values)
        }
        b'{' => {
            let mut members = Vec::new();
            while from[0] != b'}' {
                let JsonValue::Text(name) = read(from) else { panic!("no name") };
                members.push((name, read(from)));
            }
            *from = &from[1..];
            JsonValue::Object(members)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn random_spellings_give_equal_streams_and_mutations_differ() {
    for seed in 1..rounds(4_000) {
        let mut generator = JsonGenerator(Rng::new(seed));
        let depth = 1 + generator.below(5);
        let value = generator.value(depth);
        let [mut first, mut second, mut third] = [const { String::new() }; 3];
        generator.spell(&value, &mut first);
        generator.spell(&value, &mut second);
        let expected = stream(&first);
        assert_eq!(expected, stream(&second), "seed {seed}: {first} is {second}");
        let mut left = &expected[..];
        assert_eq!(read(&mut left), value, "seed {seed}: {first}");
        assert!(left.is_empty());
        let other = generator.mutate(&value);
        generator.spell(&other, &mut third);
        assert_ne!(expected, stream(&third), "seed {seed}: {first} is not {third}");
    }
}

// ---- work bounds -------------------------------------------------------------------------------------------------

#[test]
fn canonical_work_is_bounded_by_sorting() {
    let join = |n: usize, part: &dyn Fn(usize) -> String| {
        let parts: Vec<String> = (0..n).map(part).collect();
        format!("{{{}}}", parts.join(","))
    };
    let prefix = "p".repeat(500);
    let many = rounds(100_000) as usize;
    let hostile = [
        ("backwards", join(many, &|i| format!("\"{}\":0", 1_000_000 - i))),
        ("by chance", join(many, &|i| format!("\"{}\":0", i.wrapping_mul(0x9E37_79B9) % 1_000_003))),
        ("to and fro", join(many, &|i| format!("\"{}\":0", if i % 2 == 0 { i } else { 1_000_000 - i }))),
        ("equal names", join(many, &|_| "\"\":0".into())),
        ("escapes", join(many, &|i| format!("\"\\u0061{}\":0", 1_000_000 - i))),
        ("long alike", join(2_000, &|i| format!("\"{prefix}{}\":0", 1_000_000 - i))),
        ("objects", format!("[{}{{}}]", "{},".repeat(many))),
        ("objects in objects", join(50_000, &|i| format!("\"{}\":{{\"b\":{{}},\"a\":{{}}}}", 1_000_000 - i))),
        (
            "chains",
            format!("[{}0]", format!("{}{},", "{\"a\":".repeat(120) + "0", "}".repeat(120)).repeat(500)),
        ),
        ("numbers", format!("[{}0]", "1e9,".repeat(many))),
        ("one number", format!("{}.{}e{}", "1".repeat(many), "0".repeat(many), "9".repeat(many))),
    ];
    for (what, text) in hostile {
        let (mut steps, mut length) = (0_usize, 0);
        canonical_counted(text.as_bytes(), &mut |part| length += part.len(), &mut steps).expect(what);
        let members = text.matches(':').count() + 2;
        let limit = 2 * text.len() * (1 + members.ilog2() as usize);
        assert!(steps <= limit, "{what}: {} steps of {limit}", steps);
        assert!(length <= 2 * text.len(), "{what}: {length} bytes of {}", text.len());
    }
}

#[test]
fn duplicate_names_keep_their_order_among_many() {
    let pairs = |names: &[&str]| -> String {
        let pairs = (0..2_000).map(|i| format!("\"{}\":{}", names[i % names.len()], i + 1));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    };
    let text = stream(&pairs(&["b", "\\u0061", "a"]));
    let JsonValue::Object(members) = read(&mut &text[..]) else { panic!("no object") };
    let values = |name: &str| -> Vec<u64> {
        let of = members.iter().filter(|m| m.0 == name);
        of.map(|m| match &m.1 {
            // Trailing zeros of the number became part of the exponent.
            JsonValue::Number(_, digits, exponent) => {
                digits.parse::<u64>().expect("digits") * 10u64.pow(*exponent as u32)
            }
            other => panic!("{other:?}"),
        })
        .collect()
    };
    assert_eq!(values("b"), (1..=2_000).step_by(3).collect::<Vec<_>>());
    assert_eq!(values("a"), (1..=2_000).filter(|n| n % 3 != 1).collect::<Vec<_>>());
}

#[test]
fn million_members_are_sorted() {
    let (mut text, mut want) = (String::from("{"), Vec::from(b"{"));
    let count = rounds(1_000_000);
    for i in 0..count {
        // All names have the same number of digits, so the order of names is the order of numbers.
        text.push_str(if i > 0 { ",\"" } else { "\"" });
        text.push_str(itoa::Buffer::new().format(999_999 + count - i));
        text.push_str("\":0");
        want.push(b'"');
        want.extend_from_slice(itoa::Buffer::new().format(1_000_000 + i).as_bytes());
        want.extend_from_slice(b"\xff0");
    }
    text.push('}');
    want.push(b'}');
    let mut steps = 0_usize;
    let mut found = Vec::new();
    canonical_counted(text.as_bytes(), &mut |part| found.extend_from_slice(part), &mut steps).expect("JSON");
    assert!(found == want);
    assert!(steps <= 2 * text.len() * 20, "{} steps", steps);
}
