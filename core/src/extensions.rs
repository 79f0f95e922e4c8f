//! Values of the application by their types, attached to a connection, a session, a token or a request.

use alloc::vec::Vec;
use core::any::{Any, TypeId};
use core::fmt;

use crate::sync::{Arc, share};

/// Values by their types: at most one of each type.
///
/// The application attaches them to a connection, a session, a token or a request, and handlers read them
/// ([`Call::extension`](crate::server::Call::extension)). A clone shares the values.
///
/// ```
/// use mcp_proto::Extensions;
///
/// #[derive(Debug, PartialEq)]
/// struct Tenant(u32);
///
/// let mut extensions = Extensions::new();
/// extensions.insert(Tenant(7));
/// assert_eq!(extensions.get(), Some(&Tenant(7)));
/// assert_eq!(extensions.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Extensions(Vec<(TypeId, Arc<dyn Any + Send + Sync>)>);

impl Extensions {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Inserts a value, in place of another of its type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let (id, value) = (TypeId::of::<T>(), share!(value, dyn Any + Send + Sync));
        match self.0.iter_mut().find(|(other, _)| *other == id) {
            Some((_, place)) => *place = value,
            None => self.0.push((id, value)),
        }
    }

    /// Returns the value of a type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_ref()
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Shows the number of values: they belong to the application, and may be secrets.
impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

/// Equal sets share their values: two values of a type cannot be compared.
impl PartialEq for Extensions {
    fn eq(&self, other: &Self) -> bool {
        let is_shared = |(id, value): &(TypeId, Arc<dyn Any + Send + Sync>)| {
            other.0.iter().any(|(other_id, other)| id == other_id && Arc::ptr_eq(value, other))
        };
        self.0.len() == other.0.len() && self.0.iter().all(is_shared)
    }
}

impl Eq for Extensions {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_value() {
        let mut extensions = Extensions::new();
        assert!(extensions.is_empty() && extensions.get::<u8>().is_none());
        extensions.insert(1_u8);
        extensions.insert("text");
        let copy = extensions.clone();
        assert_eq!(copy, extensions);
        extensions.insert(2_u8);
        assert_eq!((extensions.get(), extensions.get()), (Some(&2_u8), Some(&"text")));
        // A clone shares values, not changes.
        assert_eq!(copy.get(), Some(&1_u8));
        assert_ne!(copy, extensions);
        assert_eq!(alloc::format!("{extensions:?}"), "Extensions { len: 2, .. }");
    }
}
