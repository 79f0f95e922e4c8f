//! Deserializer for named texts: the arguments of prompts and the variables of templates.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};

use super::template::{Values, VariableValue};
use crate::json::deserialize;

/// Decoding error; its message names the argument or variable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextError(String);

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for TextError {}

impl de::Error for TextError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Decodes a struct from named texts; numbers, booleans and unit variants are parsed from their text.
pub(super) fn read<'a, T: DeserializeOwned>(
    texts: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<T, TextError> {
    let texts = texts.map(|(name, text)| (name, TextDeserializer { name, one: Some(text), many: &[] }));
    T::deserialize(TextMapDeserializer(texts))
}

/// Decodes a struct from the variables of a template; a list becomes a sequence.
pub(super) fn read_values<T: DeserializeOwned>(values: &Values<'_>) -> Result<T, TextError> {
    let texts = values.iter().map(|(name, value)| {
        let (one, many): (_, &[_]) = match value {
            VariableValue::Text(text) => (Some(&**text), &[]),
            VariableValue::List(list) => (None, list),
            // Matching produces no pairs.
            VariableValue::Pairs(_) => (None, &[]),
        };
        (name, TextDeserializer { name, one, many })
    });
    T::deserialize(TextMapDeserializer(texts))
}

/// Deserializer for all texts together: a struct, a map, pairs or a unit.
struct TextMapDeserializer<I>(I);

impl<'de, 'a, I: Iterator<Item = (&'a str, TextDeserializer<'a>)>> Deserializer<'de>
    for TextMapDeserializer<I>
{
    type Error = TextError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        MapDeserializer::new(self.0).deserialize_any(visitor)
    }

    /// Deserializes the texts as a sequence of pairs.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        MapDeserializer::new(self.0).deserialize_seq(visitor)
    }

    /// Ignores the texts, as unknown members of a struct are ignored.
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_unit()
    }

    deserialize!(deserialize_unit_struct(self, visitor, &'static str) => visitor.visit_unit());
    deserialize!(deserialize_newtype_struct(self, visitor, &'static str) => visitor.visit_newtype_struct(self));
    deserialize!(deserialize_option(self, visitor) => visitor.visit_some(self));

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Deserializer for one named value: a text, or a list of texts.
#[derive(Clone, Copy)]
struct TextDeserializer<'a> {
    name: &'a str,
    one: Option<&'a str>,
    many: &'a [Cow<'a, str>],
}

impl<'a> TextDeserializer<'a> {
    fn text(&self) -> Result<&'a str, TextError> {
        self.one.ok_or_else(|| TextError(format!("`{}` is a list", self.name)))
    }

    fn with_name(&self, error: &TextError) -> TextError {
        TextError(format!("`{}`: {error}", self.name))
    }
}

impl<'de> IntoDeserializer<'de, TextError> for TextDeserializer<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $what:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
            match self.text()?.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(TextError(format!("`{}` is not {}", self.name, $what))),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for TextDeserializer<'_> {
    type Error = TextError;

    parsed! {
        deserialize_bool visit_bool "`true` or `false`";
        deserialize_i8 visit_i8 "an integer that fits";
        deserialize_i16 visit_i16 "an integer that fits";
        deserialize_i32 visit_i32 "an integer that fits";
        deserialize_i64 visit_i64 "an integer that fits";
        deserialize_u8 visit_u8 "an integer that fits";
        deserialize_u16 visit_u16 "an integer that fits";
        deserialize_u32 visit_u32 "an integer that fits";
        deserialize_u64 visit_u64 "an integer that fits";
        deserialize_f32 visit_f32 "a number";
        deserialize_f64 visit_f64 "a number";
        deserialize_char visit_char "a single character";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        match self.one {
            Some(text) => visitor.visit_str(text).map_err(|e| self.with_name(&e)),
            None => self.deserialize_seq(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_str(self.text()?).map_err(|e| self.with_name(&e))
    }

    deserialize!(deserialize_string(self, visitor) => self.deserialize_str(visitor));
    deserialize!(deserialize_option(self, visitor) => visitor.visit_some(self));
    deserialize!(deserialize_newtype_struct(self, visitor, &'static str) => visitor.visit_newtype_struct(self));

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TextError> {
        let text = StrDeserializer::<TextError>::new(self.text()?);
        text.deserialize_enum(name, variants, visitor).map_err(|e| self.with_name(&e))
    }

    /// Deserializes a single text as a list of one element.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        let Self { name, one, many } = self;
        let texts = one.into_iter().chain(many.iter().map(|text| &**text));
        SeqDeserializer::new(texts.map(|text| TextDeserializer { name, one: Some(text), many: &[] }))
            .deserialize_seq(visitor)
    }

    serde::forward_to_deserialize_any! {
        bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use serde::Deserialize;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum TextColour {
        Red,
        Blue,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct TextOrder {
        name: String,
        count: Option<u32>,
        price: Option<f64>,
        gift: Option<bool>,
        colour: Option<TextColour>,
        #[serde(default)]
        tags: Vec<u8>,
    }

    // covers: PROMPT-011
    #[test]
    fn texts_deserialize_to_field_types() {
        let read = |pairs: &[(&'static str, &'static str)]| read::<TextOrder>(pairs.iter().copied());
        let order =
            read(&[("name", "x"), ("count", "3"), ("price", "1.5"), ("gift", "true"), ("colour", "blue")]);
        let order = order.expect("an order");
        assert_eq!((order.count, order.price, order.gift), (Some(3), Some(1.5), Some(true)));
        assert_eq!((order.colour, order.tags), (Some(TextColour::Blue), Vec::new()));
        for (wrong, message) in [
            (&[("count", "3")][..], "missing field `name`"),
            (&[("name", "x"), ("count", "-3")], "`count` is not an integer that fits"),
            (&[("name", "x"), ("gift", "yes")], "`gift` is not `true` or `false`"),
            (
                &[("name", "x"), ("colour", "green")],
                "`colour`: unknown variant `green`, expected `red` or `blue`",
            ),
        ] {
            assert_eq!(read(wrong).expect_err(message).to_string(), message);
        }
    }

    #[test]
    fn unit_type_ignores_texts() {
        #[derive(Deserialize)]
        struct UnitArguments;
        for pairs in [&[][..], &[("name", "x")]] {
            let texts = || pairs.iter().copied();
            assert_eq!(read::<()>(texts()), Ok(()));
            assert!(read::<UnitArguments>(texts()).is_ok() && read::<Option<()>>(texts()) == Ok(Some(())));
            assert!(read::<u8>(texts()).is_err());
        }
        assert_eq!(read_values::<()>(&Values::new().text("id", "1")), Ok(()));
    }

    #[test]
    fn variable_lists_deserialize_to_sequences() {
        let values = Values::new().text("name", "x").list("tags", ["1", "2"]);
        assert_eq!(read_values::<TextOrder>(&values).expect("an order").tags, [1, 2]);
        let one = Values::new().text("name", "x").text("tags", "7");
        assert_eq!(read_values::<TextOrder>(&one).expect("an order").tags, [7]);
        let wrong = Values::new().list("name", ["x"]);
        assert_eq!(read_values::<TextOrder>(&wrong).expect_err("a list").to_string(), "`name` is a list");
    }

    #[test]
    fn each_type_of_number_names_what_does_not_fit() {
        #[derive(Deserialize, Debug, PartialEq)]
        struct Wrapped(i8);
        #[derive(Deserialize, Debug, PartialEq)]
        struct Numbers {
            a: Wrapped,
            b: (i16, i32),
            c: i64,
            d: (u16, u64),
            e: f32,
            f: char,
        }
        let right = [("a", "-128"), ("c", "-9223372036854775808"), ("e", "0.5"), ("f", "\u{e9}")];
        let values = right.iter().fold(Values::new(), |values, (name, text)| values.text(*name, *text));
        let values = values.list("b", ["-32768", "-2147483648"]).list("d", ["65535", "18446744073709551615"]);
        let numbers = read_values::<Numbers>(&values).expect("numbers");
        let Numbers { a, b, c, d, e, f } = numbers;
        assert_eq!((a, b, c), (Wrapped(i8::MIN), (i16::MIN, i32::MIN), i64::MIN));
        assert_eq!((d, e, f), ((u16::MAX, u64::MAX), 0.5, '\u{e9}'));
        fn refused<T: DeserializeOwned + fmt::Debug>(text: &str) -> String {
            #[derive(Deserialize, Debug)]
            struct One<T> {
                #[serde(rename = "n")]
                _n: T,
            }
            read::<One<T>>([("n", text)].into_iter()).expect_err("no such value").to_string()
        }
        let integers =
            [refused::<i8>("128"), refused::<i16>("1e1"), refused::<i32>(""), refused::<i64>("1.0")];
        assert_eq!(integers, ["`n` is not an integer that fits"; 4]);
        let unsigned =
            [refused::<u8>("256"), refused::<u16>("-1"), refused::<u32>("x"), refused::<u64>(" 1")];
        assert_eq!(unsigned, ["`n` is not an integer that fits"; 4]);
        assert_eq!([refused::<f32>("one"), refused::<f64>("")], ["`n` is not a number"; 2]);
        assert_eq!(refused::<char>("ab"), "`n` is not a single character");
        assert_eq!(refused::<()>("x"), "`n`: invalid type: string \"x\", expected unit");
    }

    #[test]
    fn all_texts_deserialize_to_maps_and_pairs() {
        use alloc::collections::BTreeMap;
        let pairs = [("a", "1"), ("b", "2")];
        let map = read::<BTreeMap<String, u8>>(pairs.into_iter()).expect("a map");
        assert_eq!(map, BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
        let list = read::<Vec<(String, u8)>>(pairs.into_iter()).expect("pairs");
        assert_eq!(list, [("a".into(), 1), ("b".into(), 2)]);
        let any = read::<serde_json::Value>(pairs.into_iter()).expect("any value");
        assert_eq!(any.to_string(), r#"{"a":"1","b":"2"}"#);
        let values = Values::new().text("a", "1").list("b", ["2", "3"]);
        let any = read_values::<serde_json::Value>(&values).expect("any value");
        assert_eq!(any.to_string(), r#"{"a":"1","b":["2","3"]}"#);
    }
}
