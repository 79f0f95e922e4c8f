//! Why an authorization failed, without the types of whoever tried it.

use alloc::boxed::Box;
use alloc::string::ToString as _;

use crate::sync::Arc;

/// Why an authorization failed, by whom made it: for example `Error` of `mcp-oauth`. A clone is cheap.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct AuthorizationError {
    // In a box, because the `Arc` of a target without compare-and-swap holds no trait object.
    error: Arc<Box<dyn core::error::Error + Send + Sync>>,
    is_passing: bool,
}

impl AuthorizationError {
    /// Creates one. With `is_passing` the same request may be authorized a moment later: nobody has refused it.
    pub fn new(error: impl core::error::Error + Send + Sync + 'static, is_passing: bool) -> Self {
        Self { error: Arc::new(Box::new(error)), is_passing }
    }

    /// Returns whether the same request may be authorized a moment later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// Returns the error, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: core::error::Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

// Nobody changes an error.
impl core::panic::UnwindSafe for AuthorizationError {}
impl core::panic::RefUnwindSafe for AuthorizationError {}

/// Errors with the same text are equal.
impl PartialEq for AuthorizationError {
    fn eq(&self, other: &Self) -> bool {
        self.is_passing == other.is_passing && self.error.to_string() == other.error.to_string()
    }
}

impl Eq for AuthorizationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_its_type_and_is_equal_by_its_text() {
        fn assert_unwind_safe<T: core::panic::UnwindSafe + core::panic::RefUnwindSafe + Send + Sync>() {}
        assert_unwind_safe::<crate::HttpError>();
        let [one, same] = [0, 1].map(|_| AuthorizationError::new(core::fmt::Error, false));
        assert_eq!((&one, one.to_string()), (&same, core::fmt::Error.to_string()));
        assert_ne!(one, AuthorizationError::new(core::fmt::Error, true));
        assert_ne!(one, AuthorizationError::new(crate::UseError::Stale, false));
        assert!(one.downcast_ref::<core::fmt::Error>().is_some());
        assert!(one.downcast_ref::<crate::UseError>().is_none());
    }
}
