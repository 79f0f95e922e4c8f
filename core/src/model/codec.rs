//! Codecs for members that need more than serde's derived behaviour.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::ser::{self, Serialize, Serializer};

use super::message::MemberKey;
use crate::ascii::AsciiCaseExt as _;
use crate::json::{REREAD_NAME, read_str, read_with};
use crate::raw::{CheckedText, RawJson};

/// Decoder of a `T`.
pub trait Decode<'de, T> {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;
}

/// Encoder of a `T`.
pub trait Encode<T> {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;
}

/// The type's own serde implementation.
pub enum Plain {}

impl<'de, T: Deserialize<'de>> Decode<'de, T> for Plain {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}

impl<T: Serialize> Encode<T> for Plain {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// A list, by the type's own serde implementation.
///
/// `new` of a message (see `message!`) takes the exact type of such a member, not `impl Into`. So the type of a list
/// that is passed by `collect()` can be inferred.
pub type List = Plain;

/// A string that is borrowed if it has no escape; serde's own `Cow` never borrows.
pub enum CowStr {}

impl<'de: 'a, 'a> Decode<'de, Cow<'a, str>> for CowStr {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        MemberKey::deserialize(deserializer).map(|name| name.0)
    }
}

impl Encode<Cow<'_, str>> for CowStr {
    fn write<S: Serializer>(value: &Cow<'_, str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value)
    }
}

/// JSON text that is an object.
pub enum Object {}

impl<'de> Decode<'de, RawJson> for Object {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<RawJson, D::Error> {
        let value = RawJson::deserialize(deserializer)?;
        if value.is_object() { Ok(value) } else { Err(de::Error::custom("not a JSON object")) }
    }
}

impl Encode<RawJson> for Object {
    fn write<S: Serializer>(value: &RawJson, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_object() {
            value.serialize(serializer)
        } else {
            Err(ser::Error::custom("not a JSON object"))
        }
    }
}

/// A number. Whole numbers are written without a fraction, because some peers read them as integers.
pub enum Number {}

impl<'de> Decode<'de, f64> for Number {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }
}

impl Encode<f64> for Number {
    fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if !value.is_finite() {
            return Err(ser::Error::custom("a JSON number must be finite"));
        }
        match exact_integer(*value) {
            Some(whole) => serializer.serialize_i64(whole),
            None => serializer.serialize_f64(*value),
        }
    }
}

/// Returns the integer that equals the number.
///
/// Returns `None` for a fraction, for NaN, and beyond ±2^53, where floats are not exact.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(crate) fn exact_integer(value: f64) -> Option<i64> {
    let int = value as i64;
    (int.unsigned_abs() <= 1 << 53 && int as f64 == value).then_some(int)
}

/// An integer. `1.0` is accepted too, because some peers have floats only (DEC-013).
pub enum Integer {}

struct IntegerVisitor;

impl Visitor<'_> for IntegerVisitor {
    type Value = i128;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }
    fn visit_i64<E>(self, v: i64) -> Result<i128, E> {
        Ok(v.into())
    }
    fn visit_u64<E>(self, v: u64) -> Result<i128, E> {
        Ok(v.into())
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<i128, E> {
        let whole = exact_integer(v).ok_or_else(|| E::invalid_type(de::Unexpected::Float(v), &self))?;
        Ok(whole.into())
    }
}

macro_rules! integer_codec {
    ($type:ty, $method:ident, $what:literal) => {
        impl<'de> Decode<'de, $type> for Integer {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let value = deserializer.deserialize_i64(IntegerVisitor)?;
                <$type>::try_from(value)
                    .map_err(|_| de::Error::custom(format_args!(concat!("`{}` is not ", $what), value)))
            }
        }
        impl Encode<$type> for Integer {
            fn write<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.$method(*value)
            }
        }
    };
}
integer_codec!(i64, serialize_i64, "a 64-bit integer");
integer_codec!(u64, serialize_u64, "a non-negative 64-bit integer");

/// A suggested interval: any number is read, because no task should fail for the pace of its polls.
pub enum Interval {}

struct IntervalVisitor;

impl Visitor<'_> for IntervalVisitor {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of milliseconds")
    }
    fn visit_i64<E>(self, millis: i64) -> Result<u64, E> {
        Ok(u64::try_from(millis).unwrap_or_default())
    }
    fn visit_u64<E>(self, millis: u64) -> Result<u64, E> {
        Ok(millis)
    }
    fn visit_f64<E>(self, millis: f64) -> Result<u64, E> {
        Ok(core::time::Duration::try_from_secs_f64(millis.max(0.0)).map_or(u64::MAX, |time| time.as_secs()))
    }
}

impl<'de> Decode<'de, u64> for Interval {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_u64(IntervalVisitor)
    }
}

impl Encode<u64> for Interval {
    fn write<S: Serializer>(millis: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*millis)
    }
}

/// A value that can be received from a peer, but that the engines refuse to send.
///
/// Each variant is one type that such a member can have; [`serialize_unsendable`] writes it.
#[derive(Clone, Copy)]
pub enum Unsendable<'v> {
    Int(i64),
    Float(f64),
    Text(&'v str),
    Texts(&'v [String]),
    Json(&'v RawJson),
}

super::union::from!(<'v> Unsendable<'v>, value: &'v i64 => Self::Int(*value));
super::union::from!(<'v> Unsendable<'v>, value: &'v f64 => Self::Float(*value));
super::union::from!(<'v> Unsendable<'v>, value: &'v String => Self::Text(value));
super::union::from!(<'v> Unsendable<'v>, value: &'v Vec<String> => Self::Texts(value));
super::union::from!(<'v> Unsendable<'v>, value: &'v RawJson => Self::Json(value));

impl Serialize for Unsendable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => value.serialize(serializer),
            Self::Float(value) => Number::write(value, serializer),
            Self::Text(value) => value.serialize(serializer),
            Self::Texts(value) => value.serialize(serializer),
            Self::Json(value) => value.serialize(serializer),
        }
    }
}

/// Writes a value that the engines refuse to send.
///
/// `what` begins with `$never::`, the marker by which the engines' serializer refuses the value. The rest of `what`
/// names the value in the error. Other serializers ignore `what` and write the value.
///
/// All such values share one type, so that its code is generated once.
#[cold]
#[inline(never)]
pub fn serialize_unsendable<S: Serializer>(
    serializer: S,
    what: &'static str,
    value: Unsendable<'_>,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(what, &value)
}

/// Declares codecs for values that are sent only if they pass a check (`if`).
///
/// A value that fails it is written with `$never`, which begins with the marker of [`serialize_unsendable`].
macro_rules! checked_codecs {
    ($( $(#[$doc:meta])* $name:ident: $type:ty as $inner:ident if |$value:ident| $good:expr, $never:literal; )*) => {$(
        $(#[$doc])*
        pub enum $name {}

        impl<'de> Decode<'de, $type> for $name {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                <$inner as Decode<'de, $type>>::read(deserializer)
            }
        }

        impl Encode<$type> for $name {
            fn write<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = value;
                if $good {
                    <$inner as Encode<$type>>::write(value, serializer)
                } else {
                    serialize_unsendable(serializer, $never, Unsendable::from(value))
                }
            }
        }
    )*};
}

checked_codecs! {
    /// A priority, from 0 to 1 (CONT-004).
    PriorityValue: f64 as Number if |value| (0.0..=1.0).contains(value), "$never::a priority";
    /// A non-negative number of milliseconds (CACHE-002).
    TtlMillis: i64 as Integer if |value| *value >= 0, "$never::`ttlMs`";
    /// A URI with a scheme that icons may have (META-027).
    IconSource: String as Plain if |source| is_icon_source(source), "$never::`src` of an icon";
    /// The values of a completion, at most `MAX_VALUES` (COMP-004).
    CompletionValues: Vec<String> as Plain if |values| values.len() <= MAX_VALUES, "$never::`completion.values`";
}

/// Maximum number of values of a completion (COMP-004).
pub(crate) const MAX_VALUES: usize = 100;

/// Returns whether a URI has one of the schemes `https:`, `http:` and `data:` (META-027).
pub(crate) fn is_icon_source(uri: &str) -> bool {
    let begins = |scheme: &&str| uri.get(..scheme.len()).is_some_and(|s| s.eq_ignore_case(scheme));
    ["https:", "http:", "data:"].iter().any(begins)
}

/// Seed that decodes a member that is present.
pub struct MemberSeed<C, T>(PhantomData<(C, T)>);

#[allow(clippy::new_without_default, reason = "only `message!` makes one")]
impl<C, T> MemberSeed<C, T> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T, C: Decode<'de, T>> DeserializeSeed<'de> for MemberSeed<C, T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        C::read(deserializer)
    }
}

/// Seed that decodes a member that may be `null`, which counts as absent.
pub struct OptionalMemberSeed<C, T>(PhantomData<(C, T)>);

#[allow(clippy::new_without_default, reason = "only `message!` makes one")]
impl<C, T> OptionalMemberSeed<C, T> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T, C: Decode<'de, T>> DeserializeSeed<'de> for OptionalMemberSeed<C, T> {
    type Value = Option<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T, C: Decode<'de, T>> Visitor<'de> for OptionalMemberSeed<C, T> {
    type Value = Option<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }
    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        C::read(deserializer).map(Some)
    }
}

/// Seed that decodes a member which counts as absent if it cannot be read.
pub struct HintSeed<C, T>(PhantomData<(C, T)>);

#[allow(clippy::new_without_default, reason = "only `message!` makes one")]
impl<C, T> HintSeed<C, T> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T, C: for<'text> Decode<'text, T>> DeserializeSeed<'de> for HintSeed<C, T> {
    type Value = Option<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        let CheckedText(text) = CheckedText::deserialize(deserializer)?;
        Ok(read_str::<DecodedWith<C, T>>(text).ok().map(|decoded| decoded.0))
    }
}

/// A type of which the content of a value decides what it is read as.
pub(crate) trait ReadByContent<'de>: Sized {
    /// Reads the value, as often as it takes.
    fn read_by_content<A: SeqAccess<'de>>(value: &mut Rereads<A>) -> Result<Self, A::Error>;

    /// Implements `Deserialize::deserialize`.
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(REREAD_NAME, ByContent(PhantomData))
    }
}

/// A value that can be read more than once; what was read last counts.
pub(crate) struct Rereads<A>(A);

impl<'de, A: SeqAccess<'de>> Rereads<A> {
    pub(crate) fn read<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.0.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &"any JSON value"))
    }
}

struct ByContent<T>(PhantomData<T>);

impl<'de, T: ReadByContent<'de>> DeserializeSeed<'de> for ByContent<T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

impl<'de, T: ReadByContent<'de>> Visitor<'de> for ByContent<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    /// Reads by our own reader.
    fn visit_seq<A: SeqAccess<'de>>(self, value: A) -> Result<T, A::Error> {
        T::read_by_content(&mut Rereads(value))
    }
    /// Takes the text from `serde_json`.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let CheckedText(text) = CheckedText::deserialize(deserializer)?;
        read_with(self, text).map_err(de::Error::custom)
    }
}

/// A value that is deserialized with the codec `C`.
struct DecodedWith<C, T>(T, PhantomData<C>);

impl<'de, T, C: Decode<'de, T>> Deserialize<'de> for DecodedWith<C, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        C::read(deserializer).map(|value| Self(value, PhantomData))
    }
}

/// A value that is serialized with the codec `C`.
pub struct EncodedWith<'v, C, T>(&'v T, PhantomData<C>);

impl<'v, C, T> EncodedWith<'v, C, T> {
    pub const fn new(value: &'v T) -> Self {
        Self(value, PhantomData)
    }
}

impl<T, C: Encode<T>> Serialize for EncodedWith<'_, C, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        C::write(self.0, serializer)
    }
}
