//! The macro that unions are written in: kinds of objects that a member tells apart.

use alloc::string::ToString;
use alloc::vec::{self, Vec};

use serde::de::{self, DeserializeSeed, MapAccess};
use serde_json::value::RawValue;

use super::message::Name;
use crate::json::{MAX_DEPTH, Scanner, write_str};
use crate::raw::RawJson;

/// A type that can be read from members alone
pub(crate) trait Members<'de>: Sized {
    /// `tagged` says that the member which names the kind was read before
    fn members<A: MapAccess<'de>>(map: A, tagged: bool) -> Result<Self, A::Error>;
}

/// The members of an object of which some were read before its kind was known
pub(crate) struct Rest<'de, A> {
    early: vec::IntoIter<(Name<'de>, &'de RawValue)>,
    value: Option<&'de RawValue>,
    map: A,
}

/// Reads up to the member that names the kind: nearly always the first
pub(crate) fn kind<'de, A: MapAccess<'de>>(
    mut map: A,
    tag: &'static str,
) -> Result<(Name<'de>, Rest<'de, A>), A::Error> {
    let mut early = Vec::new();
    loop {
        match map.next_key::<Name<'de>>()? {
            None => return Err(de::Error::missing_field(tag)),
            Some(name) if name.0 == tag => break,
            Some(name) => {
                let value: &'de RawValue = map.next_value()?;
                // Reading it later starts counting depth anew.
                let mut scanner = Scanner::new(value.get().as_bytes(), MAX_DEPTH, u32::MAX);
                scanner.value().map_err(|_| de::Error::custom("invalid or nested too deeply"))?;
                early.push((name, value));
            }
        }
    }
    let kind = map.next_value().map_err(|e| super::message::within(tag, &e))?;
    Ok((kind, Rest { early: early.into_iter(), value: None, map }))
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some((name, value)) = self.early.next() else { return self.map.next_key_seed(seed) };
        self.value = Some(value);
        seed.deserialize(de::value::CowStrDeserializer::new(name.0)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let Some(value) = self.value.take() else { return self.map.next_value_seed(seed) };
        // From `str`, as all else is read, so that no code is made twice.
        seed.deserialize(&mut serde_json::Deserializer::from_str(value.get()))
            .map_err(|e| de::Error::custom(e.to_string()))
    }
}

/// An object of a kind that is not known, as JSON text (CONT-007)
pub(crate) fn unknown<'de, A: MapAccess<'de>>(
    tag: &str,
    kind: &Name<'_>,
    mut map: Rest<'de, A>,
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
    while let Some(name) = map.next_key::<Name<'de>>()? {
        members.read(&name, &mut map)?;
    }
    for (name, value) in members.distinct::<A::Error>()?.iter() {
        if name == tag {
            return Err(de::Error::custom(format_args!("duplicate field `{tag}`")));
        }
        member(&mut text, name);
        text.extend_from_slice(value.as_bytes());
    }
    text.push(b'}');
    RawJson::new(text).map_err(de::Error::custom)
}

/// Declares a union of message types, told apart by the member `tag`; other kinds are kept as JSON
macro_rules! union {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> by $tag:literal {
            $( $(#[$kdoc:meta])* $kind:ident($($type:tt)+) = $word:literal, )*
        }
    ) => {
        $(#[$doc])*
        ///
        /// Kinds that this version does not know are kept as JSON when read.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name<$life> {
            $( $(#[$kdoc])* $kind($($type)+), )*
            /// Another kind, as JSON; no revision has it, so an engine refuses to send it (CONT-007)
            Other($crate::RawJson),
        }

        impl serde::Serialize for $name<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$kind(value) => value.serialize(serializer), )*
                    Self::Other(raw) => $crate::model::codec::never(
                        serializer,
                        concat!("$never::the kind of a ", stringify!($name)),
                        raw.into(),
                    ),
                }
            }
        }

        impl<'de: $life, $life> serde::Deserialize<'de> for $name<$life> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read;
                impl<'de> serde::de::Visitor<'de> for Read {
                    type Value = $name<'de>;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str(concat!("a ", stringify!($name), " object"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name<'de>, A::Error> {
                        use $crate::model::union::Members as _;
                        let (kind, rest) = $crate::model::union::kind(map, $tag)?;
                        match &*kind.0 {
                            $( $word => $crate::model::union::union!(@read $($type)+)(rest, true)
                                .map(|read| $name::$kind(read.into())), )*
                            _ => $crate::model::union::unknown($tag, &kind, rest).map($name::Other),
                        }
                    }
                }
                deserializer.deserialize_map(Read)
            }
        }

        impl $crate::model::own::Own for $name<'_> {
            type Owned = $name<'static>;
            fn own(self) -> $name<'static> {
                match self {
                    $( Self::$kind(value) => $name::$kind(value.own()), )*
                    Self::Other(raw) => $name::Other(raw),
                }
            }
        }

        impl $name<'_> {
            /// The same, borrowing from nothing
            #[must_use]
            pub fn into_owned(self) -> $name<'static> {
                $crate::model::own::Own::own(self)
            }
        }

        $( $crate::model::union::union! { @from $name $life $kind $($type)+ } )*
    };
    (@read Box<$type:ident<$inner:lifetime>>) => { $type::members };
    (@read $type:ident<$inner:lifetime>) => { $type::members };
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
