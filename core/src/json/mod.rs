//! JSON text: a strict scanner over borrowed bytes, and a serializer for compact text.
//!
//! The scanner finds positions and builds no tree; the writer is a serde `Serializer`. Both process plain string bytes
//! eight at a time.

mod canonical;
mod jcs;
mod member_names;
mod read;
mod scan;
mod shape;
mod swar;
mod text;
mod write;

pub(crate) use canonical::canonical;
pub use jcs::CanonicalError;
pub(crate) use jcs::jcs;
pub(crate) use member_names::find_duplicate;
pub(crate) use read::{CHECKED_TEXT_NAME, REREAD_NAME, check_and_read, read_str, read_with};
pub(crate) use scan::{
    KnownMember, MAX_DEPTH, ScanError, Scanner, Span, StringToken, member, object_members, unescape,
};
pub(crate) use shape::{AddedMember, RevisionMask, ShapeRule, ShapeTable, Substitute};
#[cfg(test)]
pub(crate) use swar::plain_prefix;
pub(crate) use swar::{check_utf8, find_newline};
pub(crate) use text::{append_one_line, escaped_len, max_escaped_len, room, write_int, write_str};
pub(crate) use write::{OBJECT_MARKER, RAW_VALUE_NAME, Serializer, TopLevelMembers};

use alloc::borrow::Cow;
use alloc::string::{String, ToString};

use serde::{Deserialize, ser};

// Errors of the serializer.

/// Reason why a value cannot be encoded as JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The `Serialize` implementation of a value failed with this message.
    #[error("{0}")]
    Custom(String),
    /// A map key is neither a string nor a number nor a boolean.
    #[error("a JSON object needs string keys")]
    Key,
    /// The value has to be a JSON object and is not.
    #[error("the value is not a JSON object")]
    NotAnObject,
    /// The revision lacks the feature, and there is no substitute.
    #[error("`{what}` does not exist in {revision}")]
    NotInVersion {
        /// Method or feature.
        what: &'static str,
        /// Revision that the value was to be encoded for.
        revision: &'static str,
    },
    /// A member has a value that no revision allows; such values are received and kept, but never sent.
    #[error("{0} has a value that must not be sent")]
    NeverSent(&'static str),
    /// The allocator has no memory for the text.
    #[error("not enough memory")]
    OutOfMemory,
}

impl ser::Error for EncodeError {
    fn custom<T: core::fmt::Display>(msg: T) -> Self {
        Self::Custom(msg.to_string())
    }
}

// Decoding of values from text that the scanner has checked.

/// A method of a `Deserializer` that one expression implements.
macro_rules! deserialize {
    ($method:ident($self:ident, $visitor:ident $(, $unused:ty)*) => $read:expr) => {
        #[inline]
        fn $method<V: serde::de::Visitor<'de>>(
            $self,
            $(_: $unused,)*
            $visitor: V,
        ) -> Result<V::Value, Self::Error> {
            $read
        }
    };
}
pub(crate) use deserialize;

/// Decodes a value.
///
/// The text is read as `str`, not as bytes. UTF-8 is then checked once instead of once per string, and each decoder is
/// compiled once.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, serde_json::Error> {
    read_str(core::str::from_utf8(text).unwrap_or_default())
}

/// Decodes a string, or returns `None` for any other value.
pub(crate) fn string(text: &[u8]) -> Option<Cow<'_, str>> {
    Scanner::trusted(text).string().ok()?.into_str()
}
