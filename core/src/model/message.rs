//! Macro `message!`, which declares a message type with its constructor and its codec (DESIGN-34).
//!
//! Reading is strict on structure and lenient on vocabulary. A duplicate or missing member, or one of the wrong type,
//! is an error that names it; unknown members are kept. Values are written as a newtype that carries the name of the
//! type. By that name the engines' serializer shapes the value for a revision (`shape`); any other
//! serializer sees a map.

use alloc::string::{String, ToString};
use core::fmt;

use serde::de::{self, Deserialize, MapAccess, Visitor};

use alloc::borrow::Cow;

pub use super::base::IntoStatic;

/// Name of a member; borrowed if it has no escape.
pub struct MemberKey<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for MemberKey<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberKeyVisitor;
        impl<'de> Visitor<'de> for MemberKeyVisitor {
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
            fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
                Ok(Cow::Owned(v))
            }
        }
        deserializer.deserialize_str(MemberKeyVisitor).map(MemberKey)
    }
}

/// Prefixes an error with the name of a member; paths grow from the inside out.
///
/// A path is the text between backticks before a colon. Any other text that begins with a backtick is not a path.
#[cold]
#[inline(never)]
pub(crate) fn prefix_path<E: de::Error>(name: &str, error: &E) -> E {
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

/// Splits an error text into the path that [`prefix_path`] added, and the rest.
pub(crate) fn split_path(text: &str) -> (&str, &str) {
    text.strip_prefix('`').and_then(|rest| rest.split_once("`: ")).unwrap_or(("", text))
}

/// Reads the value of the current member; an error names the member.
pub fn read_member<'de, A: MapAccess<'de>, S: de::DeserializeSeed<'de>>(
    map: &mut A,
    name: &'static str,
    is_duplicate: bool,
    seed: S,
) -> Result<S::Value, A::Error> {
    if is_duplicate {
        return Err(de::Error::duplicate_field(name));
    }
    map.next_value_seed(seed).map_err(|e| prefix_path(name, &e))
}

/// Declares message types with their constructors and codecs, as those of [`model`](crate::model) are.
///
/// For the documents of an extension. `mcp-extensions` declares its messages by it; the crate that uses it has
/// `extern crate alloc` and depends on `serde`. Like the extensions, it may change in a minor release.
///
/// Engines shape a value for a revision by the name of its type. A type of an extension that has the name of a type of
/// [`model`](crate::model) is shaped as that one: give it another name.
///
/// ```text
/// Name<'a> ("tag" = "value") by form {
///     required: Type as Codec = "onTheWire", // or the name of a constant
/// } {
///     opt may_be_absent: Type = "mayBeAbsent",
/// }
/// ```
/// The first block holds the required members, the second one the optional members:
///
/// - A required member `or` another one is read as that one where peers may leave it out.
/// - `opt` members are left out if `None`; `null` is read as absent.
/// - `hint` members are `opt` members that count as absent if their value cannot be read: it costs nothing else.
/// - `any` members hold any JSON, so `null` is a value.
/// - `list` members are vectors that are left out if empty.
///
/// `as` names a codec for members that serde would read or write differently: `Object` for JSON that is an object,
/// `CowStr`, `Integer`, `List` for a vector that `new` takes as it is. `by` names a method that returns the name for
/// shaping, where that depends on the value.
///
/// ```
/// extern crate alloc;
///
/// mcp_proto::message! {
///     /// A mooring.
///     Mooring {
///         /// Its name.
///         name: String = "name",
///     } {
///         /// Its depth in metres.
///         opt depth: u64 as Integer = "depth",
///     }
/// }
/// let json = mcp_proto::RawJson::encode(&Mooring::new("C14").depth(3u64))?;
/// assert_eq!(json.as_str(), r#"{"name":"C14","depth":3}"#);
/// # Ok::<(), mcp_proto::EncodeError>(())
/// ```
#[macro_export]
macro_rules! message {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$life:lifetime>)? $(($tag:literal = $kind_name:literal))? $(by $form:ident)?
        { $($required:tt)* } { $($optional:tt)* }
    )*) => {$(
        $crate::message! { @one
            [$(#[$doc])*] $name [$($life)?] [$($tag = $kind_name)?] [$($form)?] { $($required)* } { $($optional)* }
        }
    )*};
    (@one $docs:tt $name:ident [] $tag:tt $form:tt $required:tt $optional:tt) => {
        $crate::message! { @item $docs $name [] [] $tag $form $required $optional }
        impl $crate::model::message::IntoStatic for $name {
            type Owned = Self;
            fn into_static(self) -> Self {
                self
            }
        }
    };
    (@one $docs:tt $name:ident [$life:lifetime] $tag:tt $form:tt $required:tt $optional:tt) => {
        $crate::message! { @item $docs $name [<$life>] [: $life, $life] $tag $form $required $optional }
        $crate::message! { @own $name $life $required $optional }
    };
    (@item [$(#[$doc:meta])*] $name:ident [$($own:tt)*] [$($lives:tt)*]
        [$($tag:literal = $kind_name:literal)?] $form:tt
        { $( $(#[$rdoc:meta])* $rm:ident : $rt:ty $(as $rc:ident)? = $rw:tt $(or $ro:ident)?, )* }
        { $( $(#[$odoc:meta])* $kind:ident $om:ident : $ot:ty $(as $oc:ident)? = $ow:tt, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name $($own)* {
            $( $(#[$rdoc])* pub $rm: $rt, )*
            $( $(#[$odoc])* pub $om: $crate::message!(@type $kind $ot), )*
            /// Members that this type does not know.
            pub extra: $crate::model::Extra,
        }

        impl $($own)* $name $($own)* {
            /// Creates a value with the required members.
            #[must_use]
            pub fn new($($rm: $crate::message!(@given $rt $(, $rc)?)),*) -> Self {
                Self {
                    $( $rm: $rm.into(), )*
                    $( $om: Default::default(), )*
                    extra: $crate::model::Extra::new(),
                }
            }

            $(
                #[doc = concat!("Sets [`", stringify!($om), "`](#structfield.", stringify!($om), ").")]
                #[must_use]
                pub fn $om(mut self, $om: impl Into<$ot>) -> Self {
                    self.$om = $crate::message!(@set $kind $om.into());
                    self
                }
            )*
        }

        $crate::message! { @default [$($own)*] $name { $($rm)* } }

        impl<'de $($lives)*> serde::Deserialize<'de> for $name $($own)* {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct MessageVisitor<T>(core::marker::PhantomData<T>);
                impl<'de $($lives)*> serde::de::Visitor<'de> for MessageVisitor<$name $($own)*> {
                    type Value = $name $($own)*;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str(concat!("a ", stringify!($name), " object"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                        <$name $($own)*>::from_members(map, false)
                    }
                }
                deserializer.deserialize_map(MessageVisitor::<Self>(core::marker::PhantomData))
            }
        }

        impl<'de $($lives)*> $name $($own)* {
            /// Reads the members; `tagged` says whether the member that names the kind was read already.
            #[allow(unused_mut, unused_assignments, unused_variables, reason = "not every type has a tag")]
            pub(crate) fn from_members<A: serde::de::MapAccess<'de>>(mut map: A, mut tagged: bool) -> Result<Self, A::Error> {
                $( let mut $rm = None; )*
                $( let mut $om = None; )*
                let mut extra = $crate::model::Extra::new();
                while let Some(name) = map.next_key::<$crate::model::message::MemberKey<'de>>()? {
                    match &*name.0 {
                        $( $tag => {
                            let seed = core::marker::PhantomData::<$crate::model::message::MemberKey<'de>>;
                            let kind = $crate::model::message::read_member(&mut map, $tag, tagged, seed)?;
                            tagged = true;
                            if kind.0 != $kind_name {
                                return Err(serde::de::Error::custom(concat!("`", $tag, "`: expected `", $kind_name, "`")));
                            }
                        } )?
                        $( $rw => {
                            let seed = $crate::model::codec::MemberSeed::<
                                $crate::message!(@codec $($rc)?), _>::new();
                            $rm = Some($crate::model::message::read_member(&mut map, $rw, $rm.is_some(), seed)?);
                        } )*
                        $( $ow => {
                            let seed = $crate::message!(@seed $kind,
                                $crate::message!(@codec $($oc)?));
                            $om = Some($crate::model::message::read_member(&mut map, $ow, $om.is_some(), seed)?);
                        } )*
                        _ => extra.read(&name, &mut map)?,
                    }
                }
                $( if !tagged {
                    return Err(serde::de::Error::missing_field($tag));
                } )?
                $( $( let $rm = $rm.or_else(|| $ro.clone()); )? )*
                Ok(Self {
                    $( $rm: $rm.ok_or_else(|| serde::de::Error::missing_field($rw))?, )*
                    $( $om: $crate::message!(@take $kind $om), )*
                    extra: extra.reject_duplicates()?,
                })
            }
        }

        impl $($own)* serde::Serialize for $name $($own)* {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                struct MessageMembers<'m, T>(&'m T);
                impl $($own)* serde::Serialize for MessageMembers<'_, $name $($own)*> {
                    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                        use serde::ser::SerializeMap as _;
                        let mut map = serializer.serialize_map(None)?;
                        $( map.serialize_entry($tag, $kind_name)?; )?
                        $( map.serialize_entry($rw, &$crate::model::codec::EncodedWith::<
                            $crate::message!(@codec $($rc)?), _>::new(&self.0.$rm))?; )*
                        $( $crate::message!(@write $kind self.0.$om, $ow, map,
                            $crate::message!(@codec $($oc)?)); )*
                        if !self.0.extra.is_empty() {
                            self.0.extra.write(&mut map, &[$($tag,)? $($rw,)* $($ow,)*])?;
                        }
                        map.end()
                    }
                }
                let form = $crate::message!(@form $name self $form);
                serializer.serialize_newtype_struct(form, &MessageMembers(self))
            }
        }
    };
    (@own $name:ident $life:lifetime
        { $( $(#[$rdoc:meta])* $rm:ident : $rt:ty $(as $rc:ident)? = $rw:tt $(or $ro:ident)?, )* }
        { $( $(#[$odoc:meta])* $kind:ident $om:ident : $ot:ty $(as $oc:ident)? = $ow:tt, )* }
    ) => {
        impl<$life> $crate::model::message::IntoStatic for $name<$life> {
            type Owned = $name<'static>;
            fn into_static(self) -> $name<'static> {
                $name {
                    $( $rm: self.$rm.into_static(), )*
                    $( $om: self.$om.into_static(), )*
                    extra: self.extra,
                }
            }
        }
        impl $name<'_> {
            /// Converts to a value that borrows nothing.
            #[must_use]
            pub fn into_owned(self) -> $name<'static> {
                $crate::model::message::IntoStatic::into_static(self)
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
    (@seed hint, $codec:ty) => { $crate::model::codec::HintSeed::<$codec, _>::new() };
    (@seed any, $codec:ty) => { $crate::model::codec::MemberSeed::<$codec, _>::new() };
    (@seed $kind:ident, $codec:ty) => { $crate::model::codec::OptionalMemberSeed::<$codec, _>::new() };
    (@type list $type:ty) => { $type };
    (@type $kind:ident $type:ty) => { Option<$type> };
    (@set list $value:expr) => { $value };
    (@set $kind:ident $value:expr) => { Some($value) };
    (@take any $member:ident) => { $member };
    (@take opt $member:ident) => { $member.flatten() };
    (@take hint $member:ident) => { $member.flatten() };
    (@take list $member:ident) => { $member.flatten().unwrap_or_default() };
    (@write list $value:expr, $wire:tt, $map:ident, $codec:ty) => {
        if !$value.is_empty() {
            $map.serialize_entry($wire, &$crate::model::codec::EncodedWith::<$codec, _>::new(&$value))?;
        }
    };
    (@write $kind:ident $value:expr, $wire:tt, $map:ident, $codec:ty) => {
        if let Some(value) = &$value {
            $map.serialize_entry($wire, &$crate::model::codec::EncodedWith::<$codec, _>::new(value))?;
        }
    };
}
pub(crate) use message;
