//! Strings of which the protocol knows some: the vocabulary is open, so others are kept as they came.

/// Declares enums of strings; where only the words that are known may be sent, `never` names the refusal
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident $(never $never:literal)? { $( $(#[$wdoc:meta])* $word:ident = $wire:literal, )* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$wdoc])* $word, )*
            /// Another word, kept as it came
            Other(alloc::string::String),
        }

        impl $name {
            /// The word on the wire
            #[must_use]
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
                    return $crate::model::codec::never(serializer, $never, word.into());
                } )?
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = $crate::model::message::Name::deserialize(deserializer)?;
                Ok(Self::from(&*word.0))
            }
        }

        impl $crate::model::own::Own for $name {
            type Owned = Self;
            fn own(self) -> Self {
                self
            }
        }
    )*};
}
pub(crate) use words;
