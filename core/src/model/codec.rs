//! How members are read and written where serde's own way does not do.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, Visitor};
use serde::ser::{self, Serialize, Serializer};

use super::message::Name;
use crate::ascii::AnyCase as _;
use crate::raw::RawJson;

/// Reads a `T`
pub(crate) trait Read<'de, T> {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;
}

/// Writes a `T`
pub(crate) trait Write<T> {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;
}

/// As the type says
pub(crate) enum Plain {}

impl<'de, T: Deserialize<'de>> Read<'de, T> for Plain {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}

impl<T: Serialize> Write<T> for Plain {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}

/// As the type says; `new` takes the very type, so that it can be inferred where a list is collected
pub(crate) type List = Plain;

/// A string, borrowed where it has no escape; serde's own `Cow` never borrows
pub(crate) enum Text {}

impl<'de: 'a, 'a> Read<'de, Cow<'a, str>> for Text {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        Name::deserialize(deserializer).map(|name| name.0)
    }
}

impl Write<Cow<'_, str>> for Text {
    fn write<S: Serializer>(value: &Cow<'_, str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value)
    }
}

/// JSON text that is an object
pub(crate) enum Object {}

impl<'de> Read<'de, RawJson> for Object {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<RawJson, D::Error> {
        let value = RawJson::deserialize(deserializer)?;
        if value.is_object() { Ok(value) } else { Err(de::Error::custom("is not a JSON object")) }
    }
}

impl Write<RawJson> for Object {
    fn write<S: Serializer>(value: &RawJson, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_object() {
            value.serialize(serializer)
        } else {
            Err(ser::Error::custom("there is something else where a JSON object has to be"))
        }
    }
}

/// A number: whole ones are written without a fraction, since some peers read them as integers
pub(crate) enum Number {}

impl<'de> Read<'de, f64> for Number {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }
}

impl Write<f64> for Number {
    fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if !value.is_finite() {
            return Err(ser::Error::custom("JSON has no such number"));
        }
        match whole(*value) {
            Some(whole) => serializer.serialize_i64(whole),
            None => serializer.serialize_f64(*value),
        }
    }
}

/// The integer that a number is; beyond 2^53 a float is not exact
#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(crate) fn whole(value: f64) -> Option<i64> {
    let int = value as i64;
    (int.unsigned_abs() <= 1 << 53 && int as f64 == value).then_some(int)
}

/// An integer; `1.0` is one too, since some peers know floats only (DEC-013)
pub(crate) enum Integer {}

struct ReadInteger;

impl Visitor<'_> for ReadInteger {
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
        let whole = whole(v).ok_or_else(|| E::invalid_type(de::Unexpected::Float(v), &self))?;
        Ok(whole.into())
    }
}

macro_rules! integer {
    ($type:ty, $method:ident, $what:literal) => {
        impl<'de> Read<'de, $type> for Integer {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let value = deserializer.deserialize_i64(ReadInteger)?;
                <$type>::try_from(value)
                    .map_err(|_| de::Error::custom(format_args!(concat!("`{}` is not ", $what), value)))
            }
        }
        impl Write<$type> for Integer {
            fn write<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.$method(*value)
            }
        }
    };
}
integer!(i64, serialize_i64, "an integer of 64 bits");
integer!(u64, serialize_u64, "an integer from 0 on");

/// A value that came from a peer, and must not be sent
#[derive(Clone, Copy)]
pub(crate) enum Kept<'v> {
    Int(i64),
    Float(f64),
    Text(&'v str),
    Texts(&'v [String]),
    Json(&'v RawJson),
}

macro_rules! kept {
    ($($kind:ident($type:ty) = |$value:ident| $kept:expr;)*) => {$(
        impl<'v> From<&'v $type> for Kept<'v> {
            fn from($value: &'v $type) -> Self {
                Self::$kind($kept)
            }
        }
    )*};
}

kept! {
    Int(i64) = |value| *value;
    Float(f64) = |value| *value;
    Text(String) = |value| value;
    Texts(Vec<String>) = |value| value;
    Json(RawJson) = |value| value;
}

impl Serialize for Kept<'_> {
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

/// Writes what the engines refuse to send; `what` begins as their serializer wants it (`$never::`)
///
/// One type for all such values, so that the code for it is made once.
#[cold]
#[inline(never)]
pub(crate) fn never<S: Serializer>(
    serializer: S,
    what: &'static str,
    value: Kept<'_>,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(what, &value)
}

/// Declares codecs for values that must not be sent unless they are good
macro_rules! checked {
    ($( $(#[$doc:meta])* $name:ident: $type:ty as $inner:ident if $good:expr, $never:literal; )*) => {$(
        $(#[$doc])*
        pub(crate) enum $name {}

        impl<'de> Read<'de, $type> for $name {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                <$inner as Read<'de, $type>>::read(deserializer)
            }
        }

        impl Write<$type> for $name {
            fn write<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let good: fn(&$type) -> bool = $good;
                if good(value) {
                    <$inner as Write<$type>>::write(value, serializer)
                } else {
                    never(serializer, $never, Kept::from(value))
                }
            }
        }
    )*};
}

checked! {
    /// From 0 to 1 (CONT-004)
    Share: f64 as Number if |value| (0.0..=1.0).contains(value), "$never::a priority";
    /// Milliseconds from 0 on (CACHE-002)
    Millis: i64 as Integer if |value| *value >= 0, "$never::`ttlMs`";
    /// A URI that an icon may have (META-027)
    IconSource: String as Plain if |source| is_icon_source(source), "$never::`src` of an icon";
    /// No more values than a completion may have (COMP-004)
    Hundred: Vec<String> as Plain if |values| values.len() <= MAX_VALUES, "$never::`completion.values`";
}

/// The most values that a completion may have (COMP-004)
pub(crate) const MAX_VALUES: usize = 100;

/// Whether a URI has one of the schemes `https:`, `http:` and `data:` (META-027)
pub(crate) fn is_icon_source(uri: &str) -> bool {
    let begins = |scheme: &&str| uri.get(..scheme.len()).is_some_and(|s| s.eq_any_case(scheme));
    ["https:", "http:", "data:"].iter().any(begins)
}

/// Reads a member that is there
pub(crate) struct Seed<C, T>(PhantomData<(C, T)>);

impl<C, T> Seed<C, T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T, C: Read<'de, T>> DeserializeSeed<'de> for Seed<C, T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        C::read(deserializer)
    }
}

/// Reads a member that may be `null`, which counts as absent
pub(crate) struct OptionalSeed<C, T>(PhantomData<(C, T)>);

impl<C, T> OptionalSeed<C, T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T, C: Read<'de, T>> DeserializeSeed<'de> for OptionalSeed<C, T> {
    type Value = Option<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T, C: Read<'de, T>> Visitor<'de> for OptionalSeed<C, T> {
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

/// Writes a value by its codec
pub(crate) struct Via<'v, C, T>(&'v T, PhantomData<C>);

impl<'v, C, T> Via<'v, C, T> {
    pub(crate) const fn new(value: &'v T) -> Self {
        Self(value, PhantomData)
    }
}

impl<T, C: Write<T>> Serialize for Via<'_, C, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        C::write(self.0, serializer)
    }
}
