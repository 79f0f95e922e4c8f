//! Text that must not be shown: tokens, keys, client secrets.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// A secret text. `Debug` omits it (SEC-019).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself.
    #[must_use]
    pub const fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    #[inline(never)]
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    #[inline(never)]
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
