//! A box whose value is dropped through a vtable.

use alloc::boxed::Box;
use core::borrow::BorrowMut;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A boxed value that is accessed and dropped through a vtable.
///
/// Drop code is compiled into each codegen unit that may need it. For an engine with its connections that is ten
/// kilobytes, several times per program. Through a vtable it is compiled once, where the value is created. That place
/// should be a function without type parameters, and the value one that is accessed a few times per turn of the loop.
pub struct ErasedBox<T>(Box<dyn BorrowMut<T> + Send>);

impl<T: Send + 'static> ErasedBox<T> {
    /// Boxes a value.
    pub fn new(value: T) -> Self {
        Self(Box::new(value))
    }
}

impl<T> Deref for ErasedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        (*self.0).borrow()
    }
}

impl<T> DerefMut for ErasedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        (*self.0).borrow_mut()
    }
}

impl<T: fmt::Debug> fmt::Debug for ErasedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
