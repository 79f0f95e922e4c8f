//! Arguments read as a type of the application's, and which member is at fault when they do not fit.

use alloc::format;
use alloc::string::{String, ToString};

use serde::Deserialize;
use serde::de::{self, Visitor};

use crate::json::{Scanner, Span, read};
use crate::rpc::clip;

/// How many names a path has at most; what is further inside is told by that much of it
const MOST: usize = 8;

/// Reads a value out of checked JSON; the error names the member that it is about, where that can be told
///
/// Who wants nothing (`()`, a struct without a body) gets it whatever there is.
pub(crate) fn read_arguments<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    read(text).or_else(|error| T::deserialize(Nothing).map_err(|_: de::value::Error| told(text, &error)))
}

/// Holds nothing, and is read as nothing else
struct Nothing;

impl<'de> de::Deserializer<'de> for Nothing {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom(""))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cold]
#[inline(never)]
fn told(text: &[u8], error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    // The place says nothing to who never saw this text.
    let what = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    // A path that the type has given is not made longer: where it begins is not known.
    let has_path = what.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    if line == 0 || has_path.is_some_and(|(_, behind)| behind.starts_with(": ")) {
        return what.into();
    }
    let begins = text.split_inclusive(|b| *b == b'\n').take(line - 1).map(<[u8]>::len).sum::<usize>();
    match path(text, begins + column) {
        path if path.is_empty() => what.into(),
        path => format!("`{path}`: {what}"),
    }
}

/// The names down to the value that stands around a place, or ends there
fn path(text: &[u8], place: usize) -> String {
    let mut path = String::new();
    let (mut inside, mut base) = (text, 0);
    for _ in 0..MOST {
        let mut found: Option<(Span, String)> = None;
        let around = |span: Span| {
            (base + span.start as usize..=base + span.end as usize).contains(&place).then_some(span)
        };
        let mut scanner = Scanner::trusted(inside);
        let mut index = 0usize;
        // Checked before: what goes wrong ends the path.
        let _ = match inside.first() {
            Some(b'{') => scanner
                .members(&mut |s, name| {
                    if let Some(span) = around(s.value()?) {
                        let dot = if path.is_empty() { "" } else { "." };
                        found = Some((span, format!("{dot}{}", clip(&name.into_str().unwrap_or_default()))));
                    }
                    Ok(())
                })
                .map(drop),
            Some(b'[') => scanner.array(|s| {
                if let Some(span) = around(s.value()?) {
                    found = Some((span, format!("[{index}]")));
                }
                index += 1;
                Ok(())
            }),
            _ => break,
        };
        let Some((span, name)) = found else { break };
        path.push_str(&name);
        base += span.start as usize;
        inside = inside.get(span.start as usize..span.end as usize).unwrap_or_default();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    #[derive(Deserialize, Debug)]
    #[allow(dead_code, reason = "only read")]
    struct Order {
        price: f64,
        #[serde(default)]
        lines: Vec<Line>,
        #[serde(default)]
        notes: BTreeMap<String, String>,
        size: Option<Size>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Line {
        count: u8,
    }

    #[derive(Deserialize, Debug)]
    enum Size {
        Small,
    }

    #[test]
    fn an_error_names_the_member() {
        for (text, expected) in [
            ("{}", "missing field `price`"),
            (r#"{"price":"x","size":null}"#, r#"`price`: invalid type: string "x", expected f64"#),
            (r#"{"price":[1],"lines":[]}"#, "`price`: invalid type: sequence, expected f64"),
            (r#"{"price":{}}"#, "`price`: invalid type: map, expected f64"),
            (r#"{ "price" : 1 , "lines":3 }"#, "`lines`: invalid type: integer `3`, expected a sequence"),
            (
                r#"{"price":1,"lines":[{"count":1},{"count":300}]}"#,
                "`lines[1].count`: invalid value: integer `300`, expected u8",
            ),
            (r#"{"price":1,"lines":[{}]}"#, "`lines[0]`: missing field `count`"),
            ("{\"price\":1,\n\"lines\":[\n{}]}", "`lines[0]`: missing field `count`"),
            (r#"{"price":1,"lines":[{"x":1}]}"#, "`lines[0]`: unknown field `x`, expected `count`"),
            (r#"{"price":1,"notes":{"é\"":1}}"#, "`notes.é\"`: invalid type: integer `1`, expected a string"),
            (r#"{"price":1,"size":"Big"}"#, "`size`: unknown variant `Big`, expected `Small`"),
            (r#"{"price":1,"price":1}"#, "duplicate field `price`"),
            ("[]", "invalid length 0, expected struct Order with 4 elements"),
        ] {
            assert_eq!(read_arguments::<Order>(text.as_bytes()).expect_err(text), expected, "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(path(deep.as_bytes(), 100), "[0]".repeat(MOST));
    }

    // covers: TOOL-008
    #[test]
    fn who_wants_nothing_gets_it() {
        #[derive(Deserialize, Debug, PartialEq)]
        struct Unit;
        assert_eq!(read_arguments::<()>(br#"{"x":1}"#), Ok(()));
        assert_eq!(read_arguments::<Unit>(b"{}"), Ok(Unit));
        assert!(read_arguments::<Option<Line>>(br#"{"x":1}"#).is_err());
        assert!(read_arguments::<u8>(b"{}").is_err());
    }
}
