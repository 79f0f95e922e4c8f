//! Values that are dropped by one function

use alloc::boxed::Box;
use core::borrow::BorrowMut;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A value in a box, which is reached and dropped through a table
///
/// What drops a value is compiled anew in every codegen unit that may have to, and for an engine with its connections that
/// is ten kilobytes: all of it in each program, several times. Here it is compiled once, where the value is made. That
/// should be a function without type parameters, and the value one that is reached a few times for each turn of a loop.
pub struct Held<T>(Box<dyn BorrowMut<T> + Send>);

impl<T: Send + 'static> Held<T> {
    /// Holds a value
    pub fn new(value: T) -> Self {
        Self(Box::new(value))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        (*self.0).borrow()
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        (*self.0).borrow_mut()
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
