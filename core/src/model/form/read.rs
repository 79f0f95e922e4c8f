//! An answer as a Rust type.

use serde::de::value::{BorrowedStrDeserializer, Error, MapAccessDeserializer, SeqDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::model::Misfit;
use crate::model::codec::whole;
use crate::model::elicitation::{ElicitAction, ElicitResult, ElicitValue};
use crate::model::map::Map;
use crate::model::message::within;

impl ElicitResult {
    /// Reads what was filled in as `T`; an error names the field
    ///
    /// As strict as `T` is: a number is no string, and a missing field is an error where `T` has neither an `Option` nor
    /// a default. What `T` does not have is ignored, unless it says `deny_unknown_fields`. An answer other than
    /// [`Accept`](ElicitAction::Accept) has nothing to read, which is an error too: look at `action` first.
    ///
    /// ```
    /// # use mcp_proto::RawJson;
    /// # use mcp_proto::model::ElicitResult;
    /// #[derive(serde::Deserialize)]
    /// struct Stay<'a> {
    ///     boat: &'a str,
    ///     nights: u8,
    /// }
    /// let raw = RawJson::new(r#"{"action":"accept","content":{"boat":"Aline","nights":2}}"#)?;
    /// let answer: ElicitResult = raw.parse()?;
    /// let stay: Stay = answer.parse()?;
    /// assert_eq!((stay.boat, stay.nights), ("Aline", 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Misfit> {
        if self.action != ElicitAction::Accept {
            return Err(Misfit::at("action", "is not `accept`, so there is nothing to read"));
        }
        static NOTHING: Map<ElicitValue> = Map::new();
        let fields = Fields { members: self.content.as_ref().unwrap_or(&NOTHING).iter(), value: None };
        T::deserialize(MapAccessDeserializer::new(fields)).map_err(|e| Misfit::unread(&e).within("content"))
    }
}

/// An answer to a form that `T` is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// The user has filled it in
    Accepted(T),
    /// The user said no
    Declined,
    /// The user closed the question without an answer
    Cancelled,
}

impl<T> Elicited<T> {
    /// What was filled in, if anything
    #[must_use]
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }

    /// Reads an answer; an error names the field, or the action that nobody knows
    pub fn read<'a>(result: &'a ElicitResult) -> Result<Self, Misfit>
    where
        T: Deserialize<'a>,
    {
        match result.action {
            ElicitAction::Decline => Ok(Self::Declined),
            ElicitAction::Cancel => Ok(Self::Cancelled),
            _ => result.parse().map(Self::Accepted),
        }
    }
}

/// The members of an answer
struct Fields<'m, I> {
    members: I,
    value: Option<(&'m str, &'m ElicitValue)>,
}

impl<'de, I: Iterator<Item = (&'de str, &'de ElicitValue)>> MapAccess<'de> for Fields<'de, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.value = self.members.next();
        let Some((name, _)) = self.value else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((name, value)) = self.value.take() else {
            return Err(serde::de::Error::custom("a value without a name"));
        };
        seed.deserialize(Field(value)).map_err(|e: Error| within(name, &e))
    }
}

/// What was filled into one field
struct Field<'de>(&'de ElicitValue);

impl<'de> Deserializer<'de> for Field<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            ElicitValue::Text(text) => visitor.visit_borrowed_str(text),
            ElicitValue::Integer(int) => visitor.visit_i64(*int),
            // `2.0` is a whole number to JSON Schema.
            ElicitValue::Number(number) => match whole(*number) {
                Some(int) => visitor.visit_i64(int),
                None => visitor.visit_f64(*number),
            },
            ElicitValue::Boolean(boolean) => visitor.visit_bool(*boolean),
            ElicitValue::Choices(choices) => {
                let choices = choices.iter().map(|choice| BorrowedStrDeserializer::new(choice));
                visitor.visit_seq(SeqDeserializer::new(choices))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            ElicitValue::Text(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Pier {
        North,
        South,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct Length(f32);

    #[derive(Deserialize, Debug, PartialEq)]
    struct Stay<'a> {
        boat: &'a str,
        nights: u8,
        pier: Pier,
        length: Length,
        skipper: Option<String>,
        power: Option<bool>,
        #[serde(default)]
        extras: Vec<Pier>,
    }

    fn answer(content: &str) -> ElicitResult {
        let text = alloc::format!(r#"{{"action":"accept","content":{content}}}"#);
        serde_json::from_str(&text).expect("an answer")
    }

    // covers: ELIC-018, ELIC-019
    #[test]
    fn an_answer_is_read_as_a_type() {
        let answer = answer(
            r#"{"boat":"Aline","nights":2.0,"pier":"south","length":7,"power":true,"extras":["north"],"more":1}"#,
        );
        let stay = Stay {
            boat: "Aline",
            nights: 2,
            pier: Pier::South,
            length: Length(7.0),
            skipper: None,
            power: Some(true),
            extras: alloc::vec![Pier::North],
        };
        assert_eq!(answer.parse(), Ok(stay));
    }

    // covers: ELIC-018
    #[test]
    fn an_error_names_the_field() {
        let right =
            r#"{"boat":"Aline","nights":2,"pier":"south","length":7,"skipper":"x","power":true,"extras":[]}"#;
        assert!(answer(right).parse::<Stay<'_>>().is_ok());
        for (field, wrong) in [
            (r#""boat":"Aline""#, r#""boat":1"#),
            (r#""nights":2"#, r#""nights":256"#),
            (r#""nights":2"#, r#""nights":-1"#),
            (r#""nights":2"#, r#""nights":2.5"#),
            (r#""nights":2"#, r#""nights":"2""#),
            (r#""pier":"south""#, r#""pier":"west""#),
            (r#""pier":"south""#, r#""pier":true"#),
            (r#""length":7"#, r#""length":"7""#),
            (r#""skipper":"x""#, r#""skipper":7"#),
            (r#""power":true"#, r#""power":"true""#),
            (r#""extras":[]"#, r#""extras":["west"]"#),
            (r#""extras":[]"#, r#""extras":"north""#),
        ] {
            let text = right.replace(field, wrong);
            assert_ne!(text, right);
            let misfit = answer(&text).parse::<Stay<'_>>().expect_err(wrong);
            let name = wrong.split('"').nth(1).expect("a name");
            assert_eq!(misfit.path, alloc::format!("content.{name}"), "{misfit}");
        }
        let misfit = answer("{}").parse::<Stay<'_>>().expect_err("nothing there");
        assert_eq!(misfit.to_string(), "`content`: missing field `boat`");
        let none = ElicitResult::new(ElicitAction::Accept);
        assert_eq!(none.parse::<Stay<'_>>(), Err(misfit));
        for other in [ElicitResult::decline(), ElicitResult::cancel(), ElicitResult::new("later")] {
            assert_eq!(other.parse::<Stay<'_>>().expect_err("no content").path, "action");
        }
    }
}
