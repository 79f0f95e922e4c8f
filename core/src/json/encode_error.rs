//! Errors of the serializer.

use alloc::string::{String, ToString};

use serde::ser;

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
