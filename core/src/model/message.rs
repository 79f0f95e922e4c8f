//! The macro that typed messages are written in: a struct, how it is made, read and written.
//!
//! Reading is strict on structure and lenient on vocabulary: a member that stands twice, is missing or is of the wrong
//! type is an error that names it; unknown members are kept. Writing goes through a newtype that carries the name of
//! the type, by which the engines' serializer shapes it for a revision ([`shape`](crate::shape)); any other serializer
//! sees a map.

use alloc::string::{String, ToString};
use core::fmt;

use serde::de::{self, Deserialize, MapAccess, Visitor};

use alloc::borrow::Cow;

/// The name of a member, borrowed where it has no escape
pub(crate) struct Name<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(v))
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(String::from(v)))
            }
        }
        deserializer.deserialize_str(Read).map(Name)
    }
}

/// Puts the name of a member in front of what is wrong with it: paths grow from the inside out
///
/// A path is what stands between backticks in front of a colon; whatever else begins with a backtick is no path.
#[cold]
#[inline(never)]
pub(crate) fn within<E: de::Error>(name: &str, error: &E) -> E {
    let text = error.to_string();
    let name = crate::rpc::clip(name);
    let path = text
        .strip_prefix('`')
        .filter(|rest| rest.split_once('`').is_some_and(|(_, behind)| behind.starts_with(": ")));
    match path {
        Some(rest) => E::custom(format_args!("`{name}.{rest}")),
        None => E::custom(format_args!("`{name}`: {text}")),
    }
}

/// The path in front of what is wrong, as [`within`] puts it there, and the rest
pub(crate) fn split(text: &str) -> (&str, &str) {
    text.strip_prefix('`').and_then(|rest| rest.split_once("`: ")).unwrap_or(("", text))
}

/// The value of the member that was announced; an error names it
pub(crate) fn take<'de, A: MapAccess<'de>, S: de::DeserializeSeed<'de>>(
    map: &mut A,
    name: &'static str,
    twice: bool,
    seed: S,
) -> Result<S::Value, A::Error> {
    if twice {
        return Err(de::Error::duplicate_field(name));
    }
    map.next_value_seed(seed).map_err(|e| within(name, &e))
}

/// Declares message types
///
/// ```text
/// Name<'a> ("tag" = "value") by form {
///     required: Type as Codec = "onTheWire", // or the name of a constant
/// } {
///     opt may_be_absent: Type = "mayBeAbsent",
/// }
/// ```
/// The first block holds the members that must be there, the second the others: `opt` members are left out when
/// `None`, and `null` is read as absent; `any` members may hold any JSON, so that `null` is a value; `list` members are
/// vectors, left out when empty. `as` names a codec of [`codec`](super::codec) for what serde would read or write in
/// another way. `by` names a function that chooses the name by which the value is shaped, where that depends on the
/// value.
macro_rules! message {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$life:lifetime>)? $(($tag:literal = $kind_name:literal))? $(by $form:ident)?
        { $($required:tt)* } { $($optional:tt)* }
    )*) => {$(
        $crate::model::message::message! { @one
            [$(#[$doc])*] $name [$($life)?] [$($tag = $kind_name)?] [$($form)?] { $($required)* } { $($optional)* }
        }
    )*};
    (@one $docs:tt $name:ident [] $tag:tt $form:tt $required:tt $optional:tt) => {
        $crate::model::message::message! { @item $docs $name [] [] $tag $form $required $optional }
        impl $crate::model::own::Own for $name {
            type Owned = Self;
            fn own(self) -> Self {
                self
            }
        }
    };
    (@one $docs:tt $name:ident [$life:lifetime] $tag:tt $form:tt $required:tt $optional:tt) => {
        $crate::model::message::message! { @item $docs $name [<$life>] [: $life, $life] $tag $form $required $optional }
        $crate::model::message::message! { @own $name $life $required $optional }
    };
    (@item [$(#[$doc:meta])*] $name:ident [$($own:tt)*] [$($lives:tt)*]
        [$($tag:literal = $kind_name:literal)?] $form:tt
        { $( $(#[$rdoc:meta])* $rm:ident : $rt:ty $(as $rc:ident)? = $rw:tt, )* }
        { $( $(#[$odoc:meta])* $kind:ident $om:ident : $ot:ty $(as $oc:ident)? = $ow:tt, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name $($own)* {
            $( $(#[$rdoc])* pub $rm: $rt, )*
            $( $(#[$odoc])* pub $om: $crate::model::message::message!(@type $kind $ot), )*
            /// Members that this version does not know
            pub extra: $crate::model::Extra,
        }

        impl $($own)* $name $($own)* {
            /// With the members that must be there
            #[must_use]
            pub fn new($($rm: $crate::model::message::message!(@given $rt $(, $rc)?)),*) -> Self {
                Self {
                    $( $rm: $rm.into(), )*
                    $( $om: Default::default(), )*
                    extra: $crate::model::Extra::new(),
                }
            }

            $(
                #[doc = concat!("Sets [`", stringify!($om), "`](#structfield.", stringify!($om), ")")]
                #[must_use]
                pub fn $om(mut self, $om: impl Into<$ot>) -> Self {
                    self.$om = $crate::model::message::message!(@set $kind $om.into());
                    self
                }
            )*
        }

        $crate::model::message::message! { @default [$($own)*] $name { $($rm)* } }

        impl<'de $($lives)*> serde::Deserialize<'de> for $name $($own)* {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read<T>(core::marker::PhantomData<T>);
                impl<'de $($lives)*> serde::de::Visitor<'de> for Read<$name $($own)*> {
                    type Value = $name $($own)*;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str(concat!("a ", stringify!($name), " object"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                        <$name $($own)* as $crate::model::union::Members<'de>>::members(map, false)
                    }
                }
                deserializer.deserialize_map(Read::<Self>(core::marker::PhantomData))
            }
        }

        impl<'de $($lives)*> $crate::model::union::Members<'de> for $name $($own)* {
            #[allow(unused_mut, unused_assignments, unused_variables, reason = "not every type has a tag")]
            fn members<A: serde::de::MapAccess<'de>>(mut map: A, mut tagged: bool) -> Result<Self, A::Error> {
                $( let mut $rm = None; )*
                $( let mut $om = None; )*
                let mut extra = $crate::model::Extra::new();
                while let Some(name) = map.next_key::<$crate::model::message::Name<'de>>()? {
                    match &*name.0 {
                        $( $tag => {
                            let seed = core::marker::PhantomData::<$crate::model::message::Name<'de>>;
                            let kind = $crate::model::message::take(&mut map, $tag, tagged, seed)?;
                            tagged = true;
                            if kind.0 != $kind_name {
                                return Err(serde::de::Error::custom(concat!("`", $tag, "`: it is not `", $kind_name, "`")));
                            }
                        } )?
                        $( $rw => {
                            let seed = $crate::model::codec::Seed::<
                                $crate::model::message::message!(@codec $($rc)?), _>::new();
                            $rm = Some($crate::model::message::take(&mut map, $rw, $rm.is_some(), seed)?);
                        } )*
                        $( $ow => {
                            let seed = $crate::model::message::message!(@seed $kind,
                                $crate::model::message::message!(@codec $($oc)?));
                            $om = Some($crate::model::message::take(&mut map, $ow, $om.is_some(), seed)?);
                        } )*
                        _ => extra.read(&name, &mut map)?,
                    }
                }
                $( if !tagged {
                    return Err(serde::de::Error::missing_field($tag));
                } )?
                Ok(Self {
                    $( $rm: $rm.ok_or_else(|| serde::de::Error::missing_field($rw))?, )*
                    $( $om: $crate::model::message::message!(@take $kind $om), )*
                    extra: extra.distinct()?,
                })
            }
        }

        impl $($own)* serde::Serialize for $name $($own)* {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                struct Content<'m, T>(&'m T);
                impl $($own)* serde::Serialize for Content<'_, $name $($own)*> {
                    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                        use serde::ser::SerializeMap as _;
                        let mut map = serializer.serialize_map(None)?;
                        $( map.serialize_entry($tag, $kind_name)?; )?
                        $( map.serialize_entry($rw, &$crate::model::codec::Via::<
                            $crate::model::message::message!(@codec $($rc)?), _>::new(&self.0.$rm))?; )*
                        $( $crate::model::message::message!(@write $kind self.0.$om, $ow, map,
                            $crate::model::message::message!(@codec $($oc)?)); )*
                        if !self.0.extra.is_empty() {
                            self.0.extra.write(&mut map, &[$($tag,)? $($rw,)* $($ow,)*])?;
                        }
                        map.end()
                    }
                }
                let form = $crate::model::message::message!(@form $name self $form);
                serializer.serialize_newtype_struct(form, &Content(self))
            }
        }
    };
    (@own $name:ident $life:lifetime
        { $( $(#[$rdoc:meta])* $rm:ident : $rt:ty $(as $rc:ident)? = $rw:tt, )* }
        { $( $(#[$odoc:meta])* $kind:ident $om:ident : $ot:ty $(as $oc:ident)? = $ow:tt, )* }
    ) => {
        impl<$life> $crate::model::own::Own for $name<$life> {
            type Owned = $name<'static>;
            fn own(self) -> $name<'static> {
                $name {
                    $( $rm: self.$rm.own(), )*
                    $( $om: self.$om.own(), )*
                    extra: self.extra,
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
    };
    (@default [$($own:tt)*] $name:ident {}) => {
        impl $($own)* Default for $name $($own)* {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    (@default $own:tt $name:ident $required:tt) => {};
    (@form $name:ident $self:ident []) => { concat!("$mcp::", stringify!($name)) };
    (@form $name:ident $self:ident [$form:ident]) => { $self.$form() };
    (@given $type:ty, List) => { $type };
    (@given $type:ty $(, $codec:ident)?) => { impl Into<$type> };
    (@codec) => { $crate::model::codec::Plain };
    (@codec $codec:ident) => { $crate::model::codec::$codec };
    (@seed any, $codec:ty) => { $crate::model::codec::Seed::<$codec, _>::new() };
    (@seed $kind:ident, $codec:ty) => { $crate::model::codec::OptionalSeed::<$codec, _>::new() };
    (@type list $type:ty) => { $type };
    (@type $kind:ident $type:ty) => { Option<$type> };
    (@set list $value:expr) => { $value };
    (@set $kind:ident $value:expr) => { Some($value) };
    (@take any $member:ident) => { $member };
    (@take opt $member:ident) => { $member.flatten() };
    (@take list $member:ident) => { $member.flatten().unwrap_or_default() };
    (@write list $value:expr, $wire:tt, $map:ident, $codec:ty) => {
        if !$value.is_empty() {
            $map.serialize_entry($wire, &$crate::model::codec::Via::<$codec, _>::new(&$value))?;
        }
    };
    (@write $kind:ident $value:expr, $wire:tt, $map:ident, $codec:ty) => {
        if let Some(value) = &$value {
            $map.serialize_entry($wire, &$crate::model::codec::Via::<$codec, _>::new(value))?;
        }
    };
}
pub(crate) use message;
