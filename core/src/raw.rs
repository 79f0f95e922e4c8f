//! JSON text that was checked once and is passed on as it is.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use memchr::memchr;
use serde::de::{self, Deserialize};
use serde::ser::{self, Serialize, SerializeStruct as _};
use serde_json::value::RawValue;

use crate::json::{
    CHECKED_TEXT_NAME, CanonicalError, EncodeError, MAX_DEPTH, RAW_VALUE_NAME, Scanner, Serializer, Span,
    check_utf8,
};

/// One valid JSON text: the unit in which payloads pass through the engines.
///
/// Cloning shares the bytes. A `RawJson` of an event shares the allocation of the frame that it arrived in. Call
/// [`compact`](Self::compact) before storing it for long. Invariant: exactly one JSON value, no white space
/// around it, nested at most 128 deep.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Bytes);

/// Edit of one member of an object, for [`RawJson::edit_members`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberEdit {
    /// It stays as it is written.
    Keep,
    /// It is left out.
    Drop,
    /// It gets another value.
    Replace(RawJson),
}

impl RawJson {
    /// Wraps bytes that the scanner has checked already.
    pub(crate) const fn trusted(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Checks `text`: well-formed UTF-8, strict JSON, nested at most 128 deep.
    ///
    /// # Errors
    ///
    /// [`InvalidJson`] with the offset of the first byte that does not fit.
    pub fn new(text: impl Into<Bytes>) -> Result<Self, InvalidJson> {
        let text = text.into();
        check_utf8(&text).map_err(|at| InvalidJson { at })?;
        let mut s = Scanner::new(&text, MAX_DEPTH, u32::MAX);
        let span = s.value().map_err(|e| InvalidJson { at: e.offset() })?;
        if !s.is_at_end() {
            return Err(InvalidJson { at: s.pos() });
        }
        let Span { start, end } = span;
        Ok(Self(text.slice(start as usize..end as usize)))
    }

    /// Encodes `value` as JSON.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if `value` cannot be expressed as JSON.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        let mut out = Vec::new();
        Serializer::any(&mut out, value)?;
        Ok(Self(out.into()))
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    ///
    /// An error of `serde_json` if the text does not match `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        crate::json::read(&self.0)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked when the value was made; `unsafe` is not worth saving the second check.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the text as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the shared bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Returns an independent copy that keeps no larger allocation alive.
    #[must_use]
    pub fn compact(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Returns `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Returns whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Returns the value of member `name`, or `None` if this is not an object or has no such member.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        crate::json::member(&self.0, name).map(|value| Self(self.0.slice_ref(value)))
    }

    /// Returns the object with the members whose names `keep` accepts, each as it is written here, without parsing their values.
    ///
    /// If all are kept, the text is shared. `None` if this is not an object, or if a name occurs twice in it: readers may
    /// disagree about which one counts.
    ///
    /// ```
    /// # use mcp_proto::RawJson;
    /// let object = RawJson::new(r#"{"a":1,"_meta":{},"b": [2]}"#).expect("JSON");
    /// let kept = object.retain_members(|name| name != "_meta");
    /// assert_eq!(kept.expect("an object").as_str(), r#"{"a":1,"b": [2]}"#);
    /// ```
    #[must_use]
    pub fn retain_members(&self, mut keep: impl FnMut(&str) -> bool) -> Option<Self> {
        self.edit_members(|name, _| if keep(name) { MemberEdit::Keep } else { MemberEdit::Drop })
    }

    /// As [`retain_members()`](Self::retain_members), but values can be replaced. `edit` gets the name and the value of each
    /// member.
    ///
    /// ```
    /// # use mcp_proto::{MemberEdit, RawJson};
    /// let call = RawJson::new(r#"{"name":"a_echo","arguments":{"n":1.50}}"#).expect("JSON");
    /// let edited = call.edit_members(|name, _| match name {
    ///     "name" => MemberEdit::Replace(RawJson::new("\"echo\"").expect("JSON")),
    ///     _ => MemberEdit::Keep,
    /// });
    /// assert_eq!(edited.expect("an object").as_str(), r#"{"name":"echo","arguments":{"n":1.50}}"#);
    /// ```
    #[must_use]
    pub fn edit_members(&self, mut edit: impl FnMut(&str, Self) -> MemberEdit) -> Option<Self> {
        let text = &*self.0;
        let (mut kept, mut is_same, mut end) = (Vec::new(), true, 1);
        let is_unambiguous = crate::json::object_members(text, |name, value| {
            let begin = end;
            // The values are parts of the text.
            let at = (value.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
            end = at + value.len();
            let value = Self(self.0.slice_ref(value));
            let edit = core::str::from_utf8(name).map_or(MemberEdit::Drop, |name| edit(name, value));
            is_same &= matches!(edit, MemberEdit::Keep);
            // What precedes the name: white space, and the comma if it is not the first one.
            let member = |end| {
                let member = text.get(begin..end).unwrap_or_default();
                member.get(memchr(b'"', member).unwrap_or_default()..).unwrap_or_default()
            };
            let (member, value) = match &edit {
                MemberEdit::Drop => return,
                MemberEdit::Keep => (member(end), &[][..]),
                MemberEdit::Replace(value) => (member(at), value.as_bytes()),
            };
            if kept.is_empty() {
                kept.reserve(text.len());
                kept.push(b'{');
            } else {
                kept.push(b',');
            }
            kept.extend_from_slice(member);
            kept.extend_from_slice(value);
        });
        if !is_unambiguous {
            return None;
        }
        if is_same {
            return Some(self.clone());
        }
        if kept.is_empty() {
            return Some(Self::empty_object());
        }
        kept.push(b'}');
        Some(Self(kept.into()))
    }

    /// Returns the elements of an array, or `None` for any other value.
    #[must_use]
    pub fn elements(&self) -> Option<Vec<Self>> {
        let mut found = Vec::new();
        let mut s = Scanner::trusted(&self.0);
        s.array(|s| {
            let element = s.value()?.slice(&self.0).unwrap_or_default();
            found.push(Self(self.0.slice_ref(element)));
            Ok(())
        })
        .ok()
        .map(|()| found)
    }

    /// Returns whether both texts have the same value: the order of members and the spelling of strings and numbers do not
    /// count. A text with a duplicate member equals none.
    #[must_use]
    pub fn has_value_of(&self, other: &Self) -> bool {
        let stream = |value: &Self| {
            let mut stream = Vec::new();
            crate::json::canonical(&value.0, &mut |part| stream.extend_from_slice(part)).map(|()| stream)
        };
        matches!((stream(self), stream(other)), (Ok(a), Ok(b)) if a == b)
    }

    /// Returns the text of the value by the JSON Canonicalization Scheme (RFC 8785), as input of a hash that others compute,
    /// too.
    ///
    /// ```
    /// let value = mcp_proto::RawJson::new(r#"{"b": 5.0, "a": "\u0041"}"#)?;
    /// assert_eq!(value.to_canonical()?, r#"{"a":"A","b":5}"#);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] if two members of an object have the same name, or a number is beyond the range of a double.
    pub fn to_canonical(&self) -> Result<String, CanonicalError> {
        crate::json::jcs(self.as_str())
    }

    /// Returns the text of a JSON string, or `None` for any other value.
    #[must_use]
    pub fn string(&self) -> Option<String> {
        crate::json::string(&self.0).map(Cow::into_owned)
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Does the same as `RawValue`, which would have to parse the text once more.
        let mut raw = serializer.serialize_struct(RAW_VALUE_NAME, 1)?;
        raw.serialize_field(RAW_VALUE_NAME, self.as_str())?;
        raw.end()
    }
}

/// Works with JSON only: other formats cannot supply raw text.
impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CheckedText::deserialize(deserializer)
            .map(|CheckedText(text)| Self(Bytes::copy_from_slice(text.as_bytes())))
    }
}

/// The text of a value, checked as [`RawJson`] is, for types that are distinguished by their content.
pub(crate) struct CheckedText<'a>(pub(crate) &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for CheckedText<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CheckedTextVisitor;
        impl<'de> de::Visitor<'de> for CheckedTextVisitor {
            type Value = &'de str;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            /// Takes the text from our own reader.
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<&'de str, A::Error> {
                match map.next_key()? {
                    Some(CHECKED_TEXT_NAME) => map.next_value(),
                    _ => Err(de::Error::invalid_type(de::Unexpected::Map, &self)),
                }
            }
            /// Takes the text from `serde_json`.
            fn visit_newtype_struct<D: de::Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<&'de str, D::Error> {
                let raw: &RawValue = Deserialize::deserialize(deserializer)?;
                let text = raw.get().as_bytes();
                // `serde_json` leaves two checks: lone surrogates, and nesting, for which a short text has no room.
                if text.len() > 2 * MAX_DEPTH as usize || memchr(b'\\', text).is_some() {
                    let checked = Scanner::new(text, MAX_DEPTH, u32::MAX).value();
                    checked.map_err(|e| de::Error::custom(InvalidJson { at: e.offset() }))?;
                }
                Ok(raw.get())
            }
        }
        deserializer.deserialize_newtype_struct(CHECKED_TEXT_NAME, CheckedTextVisitor).map(Self)
    }
}

/// Error for a text that is not valid JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {at}")]
#[non_exhaustive]
pub struct InvalidJson {
    /// Offset of the first byte that does not fit.
    pub at: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn raw_json_keeps_one_value_and_its_text() {
        let v = RawJson::new(" {\"a\": [1, \"x\"]} ").expect("JSON");
        assert_eq!(v.as_str(), "{\"a\": [1, \"x\"]}");
        assert_eq!(v.member("a").expect("member").as_str(), "[1, \"x\"]");
        assert_eq!(RawJson::new("1 2"), Err(InvalidJson { at: 2 }));
        assert_eq!(RawJson::new(&b"\"\xff\""[..]), Err(InvalidJson { at: 1 }));
        assert!(RawJson::new("").is_err());
    }

    #[test]
    fn retained_members_are_copied_as_they_are_written() {
        let object = RawJson::new("{ \"a\" : 1.50 ,\n\"\\u0062\":{\"a\":\"}\"},\"c\":[ ] }").expect("JSON");
        let kept = |names: &[&str]| {
            let kept = object.retain_members(|name| names.contains(&name)).expect("an object");
            // The result is one valid text again.
            assert_eq!(RawJson::new(String::from(kept.as_str())).expect("JSON"), kept);
            String::from(kept.as_str())
        };
        assert_eq!(kept(&["a", "b", "c"]), object.as_str());
        assert_eq!(kept(&["a", "c"]), "{\"a\" : 1.50,\"c\":[ ]}");
        assert_eq!(kept(&["b"]), "{\"\\u0062\":{\"a\":\"}\"}}");
        assert_eq!(kept(&["x"]), "{}");
        let empty = RawJson::new("{ }").expect("JSON");
        assert_eq!(empty.retain_members(|_| true), Some(empty.clone()));
        for other in ["[1]", "7", r#"{"a":1,"a":2}"#, r#"{"b":1,"\u0062":2}"#] {
            let other = RawJson::new(other).expect("JSON");
            assert!(other.retain_members(|_| true).is_none() && other.retain_members(|_| false).is_none());
        }
    }

    #[test]
    fn values_of_members_are_replaced_in_their_place() {
        let object = RawJson::new("{ \"a\" : 1.50 ,\n\"b\" :\n{\"a\":\"}\"} , \"c\":[ ] }").expect("JSON");
        let edit = |name: &str, edit: MemberEdit| {
            let edited =
                object.edit_members(|other, _| if other == name { edit.clone() } else { MemberEdit::Keep });
            let edited = edited.expect("an object");
            assert_eq!(RawJson::new(String::from(edited.as_str())).expect("JSON"), edited);
            String::from(edited.as_str())
        };
        let seven = || MemberEdit::Replace(RawJson::new("7").expect("JSON"));
        assert_eq!(edit("a", seven()), "{\"a\" : 7,\"b\" :\n{\"a\":\"}\"},\"c\":[ ]}");
        assert_eq!(edit("b", seven()), "{\"a\" : 1.50,\"b\" :\n7,\"c\":[ ]}");
        assert_eq!(edit("c", MemberEdit::Drop), "{\"a\" : 1.50,\"b\" :\n{\"a\":\"}\"}}");
        assert_eq!(edit("x", seven()), object.as_str());
        let mut seen = Vec::new();
        let _ = object.edit_members(|_, value| {
            seen.push(String::from(value.as_str()));
            MemberEdit::Keep
        });
        assert_eq!(seen, ["1.50", "{\"a\":\"}\"}", "[ ]"]);
    }

    #[test]
    fn raw_json_passes_through_serde_unchanged() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct RawHolder {
            raw: RawJson,
        }
        let h: RawHolder = serde_json::from_str(r#"{"raw":{"n": 1.50}}"#).expect("JSON");
        assert_eq!(serde_json::to_string(&h).expect("JSON"), r#"{"raw":{"n": 1.50}}"#);
        assert_eq!(format!("{}", RawJson::encode(&h).expect("JSON")), r#"{"raw":{"n": 1.50}}"#);
    }

    #[test]
    fn raw_json_from_serde_is_checked() {
        let read = |text: &str| serde_json::from_str::<RawJson>(text).is_ok();
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(read(&deep(128)) && !read(&deep(129)) && !read(&deep(100_000)));
        assert!(read(r#""\ud83d\ude00""#) && !read(r#""\ud83d""#));
    }
}
