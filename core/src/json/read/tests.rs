//! The reader beside `serde_json`: the same values and the same messages.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Debug;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Number as JsonNumber, Value};

use super::*;
use crate::model::{CallToolResult, Content, ElicitSchema, InputRequest, InputResponse, ListToolsResult};
use crate::raw::RawJson;
use crate::testing::{Rng, rounds};

#[derive(Deserialize, Debug)]
struct Unit;

#[derive(Deserialize, Debug, PartialEq)]
struct Newtype(u8);

#[derive(Deserialize, Debug)]
#[allow(dead_code, reason = "printed")]
struct Pair(i32, String);

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "printed")]
struct Strict {
    a: u8,
    b: Option<Box<Self>>,
}

#[derive(Deserialize, Debug)]
#[allow(dead_code, reason = "printed")]
struct Lenient<'a> {
    a: Option<f64>,
    #[serde(borrow, default)]
    s: Option<Text<'a>>,
    #[serde(default)]
    raw: Option<&'a RawValue>,
    #[serde(default)]
    list: Vec<Self>,
}

#[derive(Deserialize, Debug)]
#[allow(dead_code, reason = "printed")]
struct Flat {
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
    a: i8,
}

#[derive(Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Kind {
    A,
    B(u8),
    Two(u8, String),
    S { a: bool },
    N(Option<u8>),
}

#[derive(Deserialize, Debug)]
#[serde(tag = "a")]
#[allow(dead_code, reason = "printed")]
enum Tagged {
    B { s: String },
    C,
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
#[allow(dead_code, reason = "printed")]
enum Untagged {
    Number(u8),
    Float(f64),
    Text(String),
    List(Vec<Self>),
}

#[derive(Deserialize, Debug)]
#[serde(try_from = "u8")]
struct Even;

impl TryFrom<u8> for Even {
    type Error = &'static str;
    fn try_from(value: u8) -> Result<Self, &'static str> {
        if value % 2 == 0 { Ok(Self) } else { Err("odd") }
    }
}

/// A string, and whether it was borrowed.
#[derive(Debug, PartialEq)]
enum Text<'a> {
    Borrowed(&'a str),
    Copied(String),
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text::Copied(text.into()))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Bytes, as `serde_bytes` reads them.
#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
struct Octets(Vec<u8>);

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OctetsVisitor;
        impl<'de> Visitor<'de> for OctetsVisitor {
            type Value = Octets;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Octets, E> {
                Ok(Octets(bytes.into()))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Octets, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(Octets(bytes))
            }
        }
        deserializer.deserialize_byte_buf(OctetsVisitor)
    }
}

/// A type that fails in the middle of an object or an array.
#[derive(Debug)]
struct Refusing;

impl<'de> Deserialize<'de> for Refusing {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RefusingVisitor;
        impl<'de> Visitor<'de> for RefusingVisitor {
            type Value = Refusing;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nothing")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Refusing, A::Error> {
                map.next_key::<String>()?;
                Err(A::Error::custom("refused"))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Refusing, A::Error> {
                seq.next_element::<IgnoredAny>()?.map_or(Ok(Refusing), |_| Err(A::Error::custom("refused")))
            }
        }
        deserializer.deserialize_any(RefusingVisitor)
    }
}

/// Errors whose position differs: a list whose type fails between two elements, and numbers that are read no further.
const OTHER_POSITIONS: [&str; 4] = ["refused", "odd", "trailing characters", "number out of range"];

/// Returns whether two errors are the same.
fn are_same(ours: &str, theirs: &str) -> bool {
    let message = |text: &str| {
        text.rsplit_once(" at line ").map_or_else(|| text.to_string(), |(text, _)| text.to_string())
    };
    let (our_message, their_message) = (message(ours), message(theirs));
    let may_move = OTHER_POSITIONS.contains(&&*our_message)
        || our_message.starts_with("invalid type: unit variant")
        // Of the fields of a form `serde_json` takes the text, so their positions begin with the field.
        || our_message.starts_with("`properties.");
    ours == theirs || may_move && (our_message == their_message || their_message == "expected value")
}

/// Compares one type: value or error, and the message of the error if the text is JSON and `has_same_messages`.
fn compare<'a, T: Deserialize<'a> + Debug>(text: &'a str, has_same_messages: bool) {
    let what = core::any::type_name::<T>();
    let is_json = RawJson::new(text.to_string()).is_ok();
    match (read_str::<T>(text), serde_json::from_str::<T>(text)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{what}: {text}"),
        (Err(ours), Err(theirs)) if is_json && has_same_messages => {
            let (ours, theirs) = (ours.to_string(), theirs.to_string());
            assert!(are_same(&ours, &theirs), "{what}: {text}: {ours} and {theirs}");
        }
        (Err(_), Err(_)) => {}
        // `serde_json` skips strings without a look at surrogates.
        (Err(_), Ok(_)) if !is_json => {}
        (ours, theirs) => panic!("{what}: {text}: {ours:?} and {theirs:?}"),
    }
}

/// Compares `f32`, which `serde_json` rounds twice as here, or once and within its range if a crate of the program has turned on
/// its feature `float_roundtrip`.
fn compare_single_precision(text: &str) {
    match (read_str::<f32>(text), serde_json::from_str::<f32>(text)) {
        (Ok(ours), Ok(theirs)) => {
            assert!(ours == theirs || (ours - theirs).abs() <= ours.abs() * f32::EPSILON, "{text}: {theirs}");
        }
        (Ok(ours), Err(theirs)) => assert!(ours.is_infinite(), "{text}: {ours} and {theirs}"),
        (Err(ours), Ok(theirs)) => panic!("{text}: {ours} and {theirs}"),
        (Err(_), Err(_)) => {}
    }
}

/// Compares all types.
fn compare_all(text: &str) {
    compare_single_precision(text);
    // Alone: `serde_json` panics over a boolean name that begins with a character of several bytes.
    drop(read_str::<BTreeMap<bool, u8>>(text));
    macro_rules! compare {
        ($has_same_messages:literal: $($type:ty),* $(,)?) => {
            $(compare::<$type>(text, $has_same_messages);)*
        };
    }
    compare![true:
        bool, i8, i16, i32, i64, u8, u16, u32, u64, f64, char, String, (), Unit, Newtype, Pair, Strict, Flat, Kind,
        Tagged, Untagged, Even, Octets, Refusing, IgnoredAny, Value, JsonNumber, Box<RawValue>, RawJson, Option<u8>,
        Option<()>, Option<Option<Even>>, Vec<u8>, Vec<Option<String>>, Vec<Even>, Vec<Refusing>, Vec<Value>, (u8, u8),
        [Kind; 2], Vec<Kind>, BTreeMap<String, Value>, BTreeMap<String, Refusing>, BTreeMap<String, Even>,
        BTreeMap<char, u8>, BTreeMap<Kind, u8>, BTreeMap<Option<String>, u8>, BTreeMap<(), u8>, BTreeMap<Vec<u8>, u8>,
        BTreeMap<String, Vec<Strict>>, serde_json::Map<String, Value>, Lenient<'_>, Text<'_>, &RawValue,
        BTreeMap<&str, Text<'_>>, BTreeMap<Cow<'_, str>, &RawValue>, Vec<(&str, &RawValue)>, CallToolResult<'_>, ListToolsResult, ElicitSchema,
        InputRequest<'_>, InputResponse<'_>, Vec<Content<'_>>,
    ];
    compare![false:
        i128, u128, BTreeMap<u8, u8>, BTreeMap<i64, Value>, BTreeMap<i128, Value>, BTreeMap<u128, IgnoredAny>,
    ];
}

#[rustfmt::skip]
const TEXTS: &[&str] = &[
    // Numbers.
    "0",
    "-0",
    "-0.0",
    "0.0",
    "1",
    "-1",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "65536",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073709551620",
    "100000000000000000000",
    "170141183460469231731687303715884105727",
    "170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105729",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "1.5",
    "-1.5",
    "1e3",
    "1E+3",
    "1e-3",
    "0e5",
    "1e308",
    "-1e308",
    "1e309",
    "-1e400",
    "1e-400",
    "0e99999999999",
    "1e99999999999",
    "1e-99999999999",
    "2.0",
    "1.0e2",
    "01",
    "-01",
    "00",
    "-",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "0x1",
    "1a",
    "--1",
    "-a",
    "NaN",
    "Infinity",
    "1 2",
    " 1 ",
    "\n\t1\r\n",
    // Strings.
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"a\\nb\"",
    "\"\\u0041\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\"\\udc00\"",
    "\"é\"",
    "\"\\x\"",
    "\"a",
    "\"",
    "\"\u{1}\"",
    "\"1\"",
    "\"true\"",
    "\"b\"",
    "\"two\"",
    "\"s\"",
    "\"n\"",
    " \"a\" ",
    "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u00e9\\u20ac\"",
    "\"\\u00\"",
    "\"a\" \"b\"",
    // Literals.
    "null",
    "true",
    "false",
    " null ",
    "nul",
    "nulL",
    "tru",
    "truex",
    "fals",
    "n",
    "t",
    "",
    " ",
    "\0",
    "\u{feff}1",
    // Arrays.
    "[]",
    "[ ]",
    "[1]",
    "[1,2]",
    "[ 1 , 2 ]",
    "[1,2,3]",
    "[1,]",
    "[,]",
    "[",
    "]",
    "[1",
    "[1,",
    "[1 2]",
    "[1}",
    "[[1],[2]]",
    "[null]",
    "[\"a\",null]",
    "[300]",
    "[1,300]",
    "[1,\"a\"]",
    "[1,{\"a\":1}]",
    "[\n  300\n]",
    "[\"a\",\"n\"]",
    "[[\"a\",1],[\"b\",[2]]]",
    "[[\"a\\n\",1]]",
    "[3]",
    "[2,4]",
    "[{}]",
    "[[]]",
    "[{\"a\":1,\"b\":null}]",
    "[-1.5,\"x\",[7]]",
    "[{\"b\":1},\"a\"]",
    "[{\"b\":1},\"c\"]",
    "[\"b\"]",
    "[{\"two\":[1,\"x\"]},{\"s\":{\"a\":true}}]",
    // Objects.
    "{}",
    "{ }",
    "{\"a\":1}",
    "{ \"a\" : 1 }",
    "{\"a\":1,}",
    "{,}",
    "{",
    "}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\" 1}",
    "{a:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1]",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"b\":{\"a\":2}}",
    "{\"a\":1,\"b\":{\"a\":300}}",
    "{\"a\":1,\"b\":{\"c\":1}}",
    "{\"a\":1,\"c\":1}",
    "{\"a\":1,\"b\":{}}",
    "{\"a\":1,\n\"b\":{\n\"a\":true\n}\n}",
    "{\"b\":null}",
    "{\"b\":1}",
    "{\"b\":300}",
    "{\"b\":[1]}",
    "{\"two\":[1,\"x\"]}",
    "{\"two\":[1]}",
    "{\"two\":[1,\"x\",2]}",
    "{\"s\":{\"a\":true}}",
    "{\"s\":{}}",
    "{\"s\":[true]}",
    "{\"n\":null}",
    "{\"n\":1}",
    "{\"a\":null}",
    "{\"b\":1,\"a\":2}",
    "{\"x\":1}",
    "{1:1}",
    "{\"1\":1}",
    "{\"-1\":1}",
    "{\"300\":1}",
    "{\"1.5\":1}",
    "{\"1 \":1}",
    "{\" 1\":1}",
    "{\"01\":1}",
    "{\"\":1}",
    "{\"true\":1}",
    "{\"false\":0}",
    "{\"\\u0031\":1}",
    "{\"\\u0061\":1}",
    "{\"null\":1}",
    "{\"99999999999999999999\":1}",
    "{\"1\":1,\"2\":true}",
    "{\"a\":\"B\",\"s\":\"x\"}",
    "{\"s\":\"x\",\"a\":\"B\"}",
    "{\"a\":\"C\"}",
    "{\"a\":\"D\"}",
    "{\"a\":1.5,\"s\":\"t\",\"raw\":[1, {\"x\" :2}],\"list\":[{\"s\":\"\\n\"}]}",
    "{\"a\":[1,2],\"b\":{\"c\":[{}]}}",
    "{\"a\":{\"x\":1}}",
    "{\"a\":[1]}",
    "{\"a\":\"x\",\"a\":\"y\"}",
    "{\"$serde_json::private::RawValue\":\"[1]\"}",
    "{\"$mcp::checked\":\"[\"}",
    "{ \"1\" : 1 , \"2\" : 2 }", "{ \"true\" : 1 ,\n\"false\" : 2 }", "{ \"a\" : 1 , \"b\" : null }", "{\"a\":1}x",
    "{\"a\":1}{}",
    "[]]",
    "{\"a\":\u{1}1}",
    "\u{1}1",
    // Messages.
    r#"{"content":[{"type":"text","text":"a"},{"text":"b\n","type":"text"},{"x":[[]],"type":"new"}],"isError":false}"#,
    r#"[{"type":"text","text":1}]"#,
    r#"[{"text":1,"type":"text"}]"#,
    r#"[{"type":1}]"#,
    r#"[{"text":"a"}]"#,
    r#"{"content":[{"type":"text"}]}"#,
    r#"{"content":[{"type":"text","text":"a","type":"text"}]}"#,
    r#"{"content":{}}"#,
    r#"{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}],"nextCursor":"c"}"#,
    r#"{"tools":[{"name":"a","inputSchema":[]}]}"#,
    r#"{"tools":[{"name":1}]}"#,
    r#"{"tools":[{"inputSchema":{}}]}"#,
    r#"{"tools":[],"ttlMs":1.0}"#,
    r#"{"tools":[],"ttlMs":"x"}"#,
    r#"{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#,
    r#"{"params":{"message":1},"method":"elicitation/create"}"#,
    r#"{"method":"roots/list"}"#,
    r#"{"method":"x","params":1}"#,
    r#"{"method":"elicitation/create","params":{"mode":1}}"#,
    r#"{"method":"elicitation/create","params":{"mode":"new"}}"#,
    r#"{"action":"accept","content":{"a":"b"}}"#,
    r#"{"action":"accept","content":{"a":{}}}"#,
    r#"{"roots":[{"uri":"file:///"}]}"#,
    r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"anyOf":[]}},"c":{"type":"x"}}}"#,
    r#"{"type":"object","properties":{"a":{"type":"number","minimum":"x"}}}"#,
    r#"{"type":"object","properties":{"a":1}}"#,
];

#[test]
fn reader_agrees_with_serde_json_on_all_texts_and_types() {
    for text in TEXTS {
        compare_all(text);
        compare_all(&format!("[{text}]"));
        compare_all(&format!("{{\"a\":{text}}}"));
        compare_all(&format!("{{\"b\" : [\n{text} , {text}]\n}}"));
    }
}

/// Returns one of some texts.
fn any(random: &mut Rng, texts: &[&'static str]) -> &'static str {
    random.pick::<&str>(texts)
}

/// Appends a value; its numbers are short enough for `serde_json` to find the nearest float.
fn generate(random: &mut Rng, depth: u32, out: &mut String) {
    let space = |random: &mut Rng, out: &mut String| {
        if random.percent(10) {
            out.push_str(any(random, &[" ", "\n", "\t \r\n"]));
        }
    };
    space(random, out);
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => out.push_str(any(random, &["null", "true", "false"])),
        1 => out.push_str(&((random.next() >> random.below(64)) as i64).to_string()),
        2 => out.push_str(&(random.next() >> random.below(64)).to_string()),
        3 => {
            let (whole, part) = (random.below(2_000) as i64 - 1_000, random.below(1_000));
            let exponent = any(random, &["", "", "e1", "E-3", "e+12"]);
            out.push_str(&format!("{whole}.{part}{exponent}"));
        }
        4 | 5 => {
            let texts = [
                "",
                "a",
                "b",
                "s",
                "text",
                "type",
                "x y",
                "\\n",
                "\\u00e9",
                "é",
                "😀",
                "\\ud83d\\ude00",
                "longer than 16 bytes",
            ];
            out.push('"');
            for _ in 0..random.below(3) {
                out.push_str(any(random, &texts));
            }
            out.push('"');
        }
        kind => {
            let is_object = kind < 8;
            out.push(if is_object { '{' } else { '[' });
            for n in 0..random.below(4) {
                if n > 0 {
                    out.push(',');
                }
                space(random, out);
                if is_object {
                    let names =
                        ["a", "b", "s", "raw", "list", "two", "n", "type", "content", "1", "-7", "\\u0061"];
                    out.push_str(&format!("\"{}\"", any(random, &names)));
                    space(random, out);
                    out.push(':');
                }
                generate(random, depth - 1, out);
            }
            out.push(if is_object { '}' } else { ']' });
        }
    }
    space(random, out);
}

/// Returns whether `serde_json` finds the nearest float for each number, which it guarantees for short ones only.
fn has_short_numbers(text: &str) -> bool {
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    text.split(|c| !in_number(c)).all(|run| match run.split_once(['e', 'E']) {
        Some((_, exponent)) => run.len() < 16 && exponent.trim_start_matches(['+', '-']).len() < 2,
        None => run.len() < 16,
    })
}

#[test]
fn reader_agrees_with_serde_json_on_generated_texts() {
    let mut random = Rng::new(39);
    for _ in 0..rounds(20_000) {
        let mut text = String::new();
        generate(&mut random, 4, &mut text);
        compare_all(&text);
        // And text that is not JSON, most of the time.
        let at = random.below(text.len());
        if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
            text.replace_range(
                at..=at,
                any(
                    &mut random,
                    &["", "\"", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "n", "\\", "é", "\0"],
                ),
            );
        }
        let end = random.below(text.len());
        for text in [&*text, text.get(..end).unwrap_or_default()] {
            if has_short_numbers(text) {
                compare_all(text);
            }
        }
    }
}

#[test]
fn float_is_the_nearest_one() {
    let mut random = Rng::new(64);
    for _ in 0..rounds(100_000) {
        let digits = random.next().to_string().repeat(1 + random.below(2));
        let text =
            format!("{}.{digits}e{}", random.next() >> random.below(64), random.below(700) as i64 - 350);
        let expected: f64 = text.parse().expect("a number");
        assert_eq!(read_str(&text).ok(), Some(expected).filter(|value| value.is_finite()), "{text}");
    }
    assert_eq!(read_str::<f64>("-0").map(f64::to_bits).ok(), Some((-0.0f64).to_bits()));
}

#[test]
fn depth_is_bounded_where_types_recurse() {
    let nested = |open: &str, n: usize, close: &str| format!("{}1{}", open.repeat(n), close.repeat(n));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for n in [126, 127, 128, 129, 1_000] {
            compare_all(&nested(open, n, close));
        }
        let deep = nested(open, 100_000, close);
        assert!(read_str::<IgnoredAny>(&deep).is_ok() && read_str::<&RawValue>(&deep).is_ok());
        assert!(read_str::<Value>(&deep).is_err() && read_str::<RawJson>(&deep).is_err());
        // Checked text may be as deep as any, wherever it is.
        let inside = |n| read_str::<Vec<RawJson>>(&format!("[{}]", nested(open, n, close))).is_ok();
        assert!(inside(128) && !inside(129));
    }
}

#[test]
fn text_that_nobody_checked_is_checked() {
    assert_eq!(check_and_read::<Vec<u8>>(" [1] ").ok(), Some([1].into()));
    for (text, error) in [
        ("", "expected JSON at line 1 column 0"),
        ("[1,\n2", "expected JSON at line 2 column 1"),
        ("1 2", "expected JSON at line 1 column 3"),
        (r#""\ud800""#, "expected JSON at line 1 column 8"),
        ("[\n\"a\"]", "invalid type: string \"a\", expected u8 at line 2 column 3"),
    ] {
        assert_eq!(check_and_read::<Vec<u8>>(text).expect_err(text).to_string(), error);
    }
}

/// Reads the first element or member and leaves the others.
#[derive(Debug)]
struct First;

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FirstVisitor;
        impl<'de> Visitor<'de> for FirstVisitor {
            type Value = First;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a container")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<First, A::Error> {
                seq.next_element::<IgnoredAny>().map(|_| First)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<First, A::Error> {
                map.next_entry::<IgnoredAny, IgnoredAny>().map(|_| First)
            }
        }
        deserializer.deserialize_any(FirstVisitor)
    }
}

#[test]
fn unread_rest_of_a_container_is_an_error_at_its_place() {
    for (text, column) in [
        ("[1]", None),
        (r#"{"a":1}"#, None),
        ("[1, 2]", Some(5)),
        ("[1 2]", Some(4)),
        (r#"{"a":1 , "b":2}"#, Some(8)),
        (r#"{"a":1 "b":2}"#, Some(8)),
    ] {
        let read = read_str::<First>(text).map(drop).map_err(|error| error.to_string());
        let error = column.map(|column| format!("trailing characters at line 1 column {column}"));
        assert_eq!(read.err(), error, "{text}");
    }
}

/// The name of a member, as it is spelled.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spelling(String);

impl<'de> Deserialize<'de> for Spelling {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get().to_string()))
    }
}

#[test]
fn name_is_read_as_it_is_spelled() {
    compare::<BTreeMap<Spelling, u8>>(r#"{"a":1, "\u0062" :2}"#, true);
    let read = read_str::<BTreeMap<RawName, u8>>(r#"{"\u0062" :2}"#).expect("an object");
    assert_eq!(read.into_keys().next().map(|name| name.0), Some(r#""\u0062""#.into()));
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RawName(String);

impl<'de> Deserialize<'de> for RawName {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawJson::deserialize(deserializer).map(|raw| Self(raw.as_str().into()))
    }
}
