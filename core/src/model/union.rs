//! Macro `union!`, which declares unions of message types that one member distinguishes.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::message::MemberKey;
use crate::json::{read_with, write_str};
use crate::raw::{CheckedText, RawJson};
use serde::de::{self, DeserializeSeed, MapAccess};

/// Members of an object, some of which were read before its kind was known.
pub(crate) struct RemainingMembers<'de, A> {
    buffered: vec::IntoIter<(MemberKey<'de>, CheckedText<'de>)>,
    value: Option<CheckedText<'de>>,
    map: A,
}

/// Reads up to the member that names the kind, which is nearly always the first.
pub(crate) fn kind<'de, A: MapAccess<'de>>(
    mut map: A,
    tag: &'static str,
) -> Result<(MemberKey<'de>, RemainingMembers<'de, A>), A::Error> {
    let mut early = Vec::new();
    loop {
        match map.next_key::<MemberKey<'de>>()? {
            None => return Err(de::Error::missing_field(tag)),
            Some(name) if name.0 == tag => break,
            // Reading the value later restarts the count of its depth, which this type bounds.
            Some(name) => early.push((name, map.next_value()?)),
        }
    }
    let kind = map.next_value().map_err(|e| super::message::prefix_path(tag, &e))?;
    Ok((kind, RemainingMembers { buffered: early.into_iter(), value: None, map }))
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for RemainingMembers<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some((name, value)) = self.buffered.next() else { return self.map.next_key_seed(seed) };
        self.value = Some(value);
        seed.deserialize(de::value::CowStrDeserializer::new(name.0)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let Some(CheckedText(text)) = self.value.take() else { return self.map.next_value_seed(seed) };
        read_with(seed, text).map_err(|e| de::Error::custom(e.to_string()))
    }
}

/// Reads an object of unknown kind as JSON text (CONT-007).
pub(crate) fn read_unknown<'de, A: MapAccess<'de>>(
    tag: &str,
    kind: &MemberKey<'_>,
    mut map: RemainingMembers<'de, A>,
) -> Result<RawJson, A::Error> {
    let mut text = Vec::new();
    let member = |text: &mut Vec<u8>, name: &str| {
        text.push(if text.is_empty() { b'{' } else { b',' });
        write_str(text, name);
        text.push(b':');
    };
    member(&mut text, tag);
    write_str(&mut text, &kind.0);
    let mut members = super::Extra::new();
    while let Some(name) = map.next_key::<MemberKey<'de>>()? {
        members.read(&name, &mut map)?;
    }
    for (name, value) in members.reject_duplicates::<A::Error>()?.iter() {
        if name == tag {
            return Err(de::Error::custom(format_args!("duplicate field `{tag}`")));
        }
        member(&mut text, name);
        text.extend_from_slice(value.as_bytes());
    }
    text.push(b'}');
    RawJson::new(text).map_err(de::Error::custom)
}

/// Declares a union of message types, distinguished by the member `tag`; other kinds are kept as JSON.
macro_rules! union {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> by $tag:literal {
            $( $(#[$kdoc:meta])* $kind:ident($($type:tt)+) = $word:literal, )*
        }
    ) => {
        $(#[$doc])*
        ///
        /// Unknown kinds are kept as JSON when read.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name<$life> {
            $( $(#[$kdoc])* $kind($($type)+), )*
            /// Another kind, as JSON; no revision has it, so an engine refuses to send it (CONT-007).
            Other($crate::RawJson),
        }

        impl serde::Serialize for $name<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$kind(value) => value.serialize(serializer), )*
                    Self::Other(raw) => $crate::model::codec::serialize_unsendable(
                        serializer,
                        concat!("$never::the kind of a ", stringify!($name)),
                        raw.into(),
                    ),
                }
            }
        }

        impl<'de: $life, $life> serde::Deserialize<'de> for $name<$life> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct UnionVisitor;
                impl<'de> serde::de::Visitor<'de> for UnionVisitor {
                    type Value = $name<'de>;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str(concat!("a ", stringify!($name), " object"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name<'de>, A::Error> {
                        let (kind, rest) = $crate::model::union::kind(map, $tag)?;
                        match &*kind.0 {
                            $( $word => $crate::model::union::union!(@read $($type)+)(rest, true)
                                .map(|read| $name::$kind(read.into())), )*
                            _ => $crate::model::union::read_unknown($tag, &kind, rest).map($name::Other),
                        }
                    }
                }
                deserializer.deserialize_map(UnionVisitor)
            }
        }

        impl $crate::model::base::IntoStatic for $name<'_> {
            type Owned = $name<'static>;
            fn into_static(self) -> $name<'static> {
                match self {
                    $( Self::$kind(value) => $name::$kind(value.into_static()), )*
                    Self::Other(raw) => $name::Other(raw),
                }
            }
        }

        impl $name<'_> {
            /// Converts to a value that borrows nothing.
            #[must_use]
            pub fn into_owned(self) -> $name<'static> {
                $crate::model::base::IntoStatic::into_static(self)
            }
        }

        $( $crate::model::union::union! { @from $name $life $kind $($type)+ } )*
    };
    (@read Box<$type:ident<$inner:lifetime>>) => { $type::from_members };
    (@read $type:ident<$inner:lifetime>) => { $type::from_members };
    (@from $name:ident $life:lifetime $kind:ident Box<$type:ident<$inner:lifetime>>) => {
        impl<$life> From<$type<$life>> for $name<$life> {
            fn from(value: $type<$life>) -> Self {
                Self::$kind(alloc::boxed::Box::new(value))
            }
        }
    };
    (@from $name:ident $life:lifetime $kind:ident $type:ident<$inner:lifetime>) => {
        impl<$life> From<$type<$life>> for $name<$life> {
            fn from(value: $type<$life>) -> Self {
                Self::$kind(value)
            }
        }
    };
}
pub(crate) use union;

/// Implements `From` for a type by an expression.
macro_rules! from {
    (<$life:lifetime> $target:ty, $value:ident: $source:ty => $made:expr) => {
        impl<$life> From<$source> for $target {
            fn from($value: $source) -> Self {
                $made
            }
        }
    };
    ($target:ty, $value:ident: $source:ty => $made:expr) => {
        impl From<$source> for $target {
            fn from($value: $source) -> Self {
                $made
            }
        }
    };
}
pub(crate) use from;

/// Serializes an enum as the value in its variant.
macro_rules! serialize_variants {
    ($target:ty: $($kind:ident)+) => {
        impl serde::Serialize for $target {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$kind(value) => value.serialize(serializer), )+
                }
            }
        }
    };
}
pub(crate) use serialize_variants;
