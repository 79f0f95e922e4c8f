//! Deserialization of arguments, with errors that name the member at fault.

use alloc::format;
use alloc::string::{String, ToString};

use serde::Deserialize;
use serde::de::{self, Visitor};

use crate::json::{self, Scanner, Span};
use crate::raw::RawJson;
use crate::rpc::{RpcError, clip};

/// Maximum number of names in a path; deeper errors are reported with its beginning.
const MAX_PATH_DEPTH: usize = 8;

/// Deserializes a value from valid JSON.
///
/// A type without content (`()`, a unit struct) accepts any value.
///
/// # Errors
///
/// The message, with the path of the member at fault where it is known.
pub(crate) fn read_arguments<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    json::read(text).or_else(|error| {
        // Only a type without content can be made of nothing, and it accepts any value.
        T::deserialize(EmptyDeserializer).map_err(|_: de::value::Error| describe_error(text, &error))
    })
}

/// Reads the arguments of a call, as those of a tool are read: for methods of an application that have some.
///
/// A type without content (`()`) takes any object.
///
/// # Errors
///
/// The error response for the client. It names the argument that does not fit.
pub fn parse_arguments<'a, T: Deserialize<'a>>(arguments: &'a RawJson) -> Result<T, RpcError> {
    read_arguments(arguments.as_bytes())
        .map_err(|error| RpcError::invalid_params(alloc::format!("`params.arguments`: {error}")))
}

/// A deserializer that has only a unit.
struct EmptyDeserializer;

impl<'de> de::Deserializer<'de> for EmptyDeserializer {
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
fn describe_error(text: &[u8], error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    // The position means nothing to a client that sent other text around these arguments.
    let reason = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    // The type reported a path of its own, and its starting point is unknown.
    let has_path = reason.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    if line == 0 || has_path.is_some_and(|(_, rest)| rest.starts_with(": ")) {
        return reason.into();
    }
    let line_start = text.split_inclusive(|b| *b == b'\n').take(line - 1).map(<[u8]>::len).sum::<usize>();
    match member_path(text, line_start + column) {
        path if path.is_empty() => reason.into(),
        path => format!("`{path}`: {reason}"),
    }
}

/// Returns the path to the innermost value around `offset`.
fn member_path(text: &[u8], offset: usize) -> String {
    let mut path = String::new();
    let (mut inside, mut base) = (text, 0);
    for _ in 0..MAX_PATH_DEPTH {
        let mut found: Option<(Span, String)> = None;
        let around = |span: Span| {
            (base + span.start as usize..=base + span.end as usize).contains(&offset).then_some(span)
        };
        let mut scanner = Scanner::trusted(inside);
        let mut index = 0usize;
        // The text is valid JSON, so an error only ends the path.
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
    #[allow(dead_code, reason = "only deserialized")]
    struct Order {
        price: f64,
        #[serde(default)]
        lines: Vec<OrderLine>,
        #[serde(default)]
        notes: BTreeMap<String, String>,
        size: Option<OrderSize>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only deserialized")]
    struct OrderLine {
        count: u8,
    }

    #[derive(Deserialize, Debug)]
    enum OrderSize {
        Small,
    }

    #[test]
    fn argument_error_names_the_member() {
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
        assert_eq!(member_path(deep.as_bytes(), 100), "[0]".repeat(MAX_PATH_DEPTH));
    }

    #[test]
    fn argument_error_of_the_type_itself_is_passed_on() {
        struct Strict<const POSITION: bool>;
        impl<'de, const POSITION: bool> Deserialize<'de> for Strict<POSITION> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                // Only an error of the parser itself has a position.
                if POSITION {
                    serde_json::from_slice::<u8>(b"x")
                        .map_err(|_| de::Error::custom("`a.b`: own path at line 1 column 4"))?;
                }
                BTreeMap::<String, u8>::deserialize(from)?;
                Err(de::Error::custom("neither even nor odd"))
            }
        }
        let text = br#"{"a":{"b":1}}"#;
        assert_eq!(read_arguments::<Strict<true>>(text).err().as_deref(), Some("`a.b`: own path"));
        assert_eq!(read_arguments::<Strict<false>>(b"{}").err().as_deref(), Some("neither even nor odd"));
    }

    // covers: TOOL-008
    #[test]
    fn type_without_content_accepts_any_arguments() {
        #[derive(Deserialize, Debug, PartialEq)]
        struct EmptyArguments;
        assert_eq!(read_arguments::<()>(br#"{"x":1}"#), Ok(()));
        assert_eq!(read_arguments::<EmptyArguments>(b"{}"), Ok(EmptyArguments));
        assert!(read_arguments::<Option<OrderLine>>(br#"{"x":1}"#).is_err());
        assert!(read_arguments::<u8>(b"{}").is_err());
    }
}
