//! Reading of a submitted form as a Rust type.

use serde::de::value::{BorrowedStrDeserializer, Error, MapAccessDeserializer, SeqDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::json::deserialize;
use crate::model::ValidationError;
use crate::model::codec::exact_integer;
use crate::model::elicitation::{ElicitAction, ElicitResult, ElicitValue};
use crate::model::map::Map;
use crate::model::message::prefix_path;

impl ElicitResult {
    /// Reads the submitted values as `T`.
    ///
    /// It is as strict as `T` is: a number is not a string, and a missing field is an error unless `T` has an `Option`
    /// or a default for it. Values without a field in `T` are ignored, unless `T` has `deny_unknown_fields`. Check
    /// `action` first: only [`Accept`](ElicitAction::Accept) has values.
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
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the field, or `action` if it is not `accept`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ValidationError> {
        if self.action != ElicitAction::Accept {
            return Err(ValidationError::at_member(
                "action",
                "must be `accept`: other answers have no values",
            ));
        }
        static NOTHING: Map<ElicitValue> = Map::new();
        let fields = ContentAccess { members: self.content.as_ref().unwrap_or(&NOTHING).iter(), value: None };
        T::deserialize(MapAccessDeserializer::new(fields))
            .map_err(|e| ValidationError::from_read_error(&e).prefixed("content"))
    }
}

/// Outcome of a form whose values are a `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitOutcome<T> {
    /// The user submitted the form.
    Accepted(T),
    /// The user refused.
    Declined,
    /// The user dismissed the request without an answer.
    Cancelled,
}

impl<T> ElicitOutcome<T> {
    /// Returns the submitted values, if there are any.
    #[must_use]
    pub fn into_accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }

    /// Reads a result.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the field, or `action` if it is unknown.
    pub fn from_result<'a>(result: &'a ElicitResult) -> Result<Self, ValidationError>
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

/// Members of a submitted form.
struct ContentAccess<'m, I> {
    members: I,
    value: Option<(&'m str, &'m ElicitValue)>,
}

impl<'de, I: Iterator<Item = (&'de str, &'de ElicitValue)>> MapAccess<'de> for ContentAccess<'de, I> {
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
        seed.deserialize(FieldDeserializer(value)).map_err(|e: Error| prefix_path(name, &e))
    }
}

/// Deserializer for the value of one field.
struct FieldDeserializer<'de>(&'de ElicitValue);

impl<'de> Deserializer<'de> for FieldDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            ElicitValue::Text(text) => visitor.visit_borrowed_str(text),
            ElicitValue::Integer(int) => visitor.visit_i64(*int),
            // `2.0` is an integer in JSON Schema.
            ElicitValue::Number(number) => match exact_integer(*number) {
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

    deserialize!(deserialize_option(self, visitor) => visitor.visit_some(self));
    deserialize!(deserialize_newtype_struct(self, visitor, &'static str) => visitor.visit_newtype_struct(self));

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
    enum DockSide {
        North,
        South,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct BoatLength(f32);

    #[derive(Deserialize, Debug, PartialEq)]
    struct BerthRequest<'a> {
        boat: &'a str,
        nights: u8,
        pier: DockSide,
        length: BoatLength,
        skipper: Option<String>,
        power: Option<bool>,
        #[serde(default)]
        extras: Vec<DockSide>,
    }

    fn answer(content: &str) -> ElicitResult {
        let text = alloc::format!(r#"{{"action":"accept","content":{content}}}"#);
        serde_json::from_str(&text).expect("an answer")
    }

    // covers: ELIC-018, ELIC-019
    #[test]
    fn answer_parses_as_type() {
        let answer = answer(
            r#"{"boat":"Aline","nights":2.0,"pier":"south","length":7,"power":true,"extras":["north"],"more":1}"#,
        );
        let stay = BerthRequest {
            boat: "Aline",
            nights: 2,
            pier: DockSide::South,
            length: BoatLength(7.0),
            skipper: None,
            power: Some(true),
            extras: alloc::vec![DockSide::North],
        };
        assert_eq!(answer.parse(), Ok(stay));
    }

    // covers: ELIC-018
    #[test]
    fn parse_error_names_field() {
        let right =
            r#"{"boat":"Aline","nights":2,"pier":"south","length":7,"skipper":"x","power":true,"extras":[]}"#;
        assert!(answer(right).parse::<BerthRequest<'_>>().is_ok());
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
            let mismatch = answer(&text).parse::<BerthRequest<'_>>().expect_err(wrong);
            let name = wrong.split('"').nth(1).expect("a name");
            assert_eq!(mismatch.path, alloc::format!("content.{name}"), "{mismatch}");
        }
        let mismatch = answer("{}").parse::<BerthRequest<'_>>().expect_err("nothing there");
        assert_eq!(mismatch.to_string(), "`content`: missing field `boat`");
        let none = ElicitResult::new(ElicitAction::Accept);
        assert_eq!(none.parse::<BerthRequest<'_>>(), Err(mismatch));
        for other in [ElicitResult::decline(), ElicitResult::cancel(), ElicitResult::new("later")] {
            assert_eq!(other.parse::<BerthRequest<'_>>().expect_err("no content").path, "action");
        }
    }
}
