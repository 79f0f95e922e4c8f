//! Macro `string_enum!`: enums of strings with an open vocabulary; unknown words are kept.

/// Declares enums of strings that keep unknown words, as those of [`model`](crate::model) are.
///
/// `never` names the refusal if unknown words must not be sent; `expects` names a lint that the code of an enum with
/// marked words is expected to trigger. What [`message!`](crate::message) says about its users holds here, too.
#[macro_export]
macro_rules! string_enum {
    ($(
        $(#[$doc:meta])*
        $name:ident $(never $never:literal)? $(expects $lint:ident)? { $( $(#[$wdoc:meta])* $word:ident = $wire:literal, )* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$wdoc])* $word, )*
            /// Another word, kept as it was received.
            Other(alloc::string::String),
        }

        impl $name {
            /// Returns the word on the wire.
            #[must_use]
            $( #[expect($lint, reason = "supported until its removal")] )?
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$word => $wire, )*
                    Self::Other(word) => word,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<&str> for $name {
            $( #[expect($lint, reason = "supported until its removal")] )?
            fn from(word: &str) -> Self {
                match word {
                    $( $wire => Self::$word, )*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $( if let Self::Other(word) = self {
                    return $crate::model::codec::serialize_unsendable(serializer, $never, word.into());
                } )?
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = $crate::model::message::MemberKey::deserialize(deserializer)?;
                Ok(Self::from(&*word.0))
            }
        }

        impl $crate::model::message::IntoStatic for $name {
            type Owned = Self;
            fn into_static(self) -> Self {
                self
            }
        }
    )*};
}
pub(crate) use string_enum;
