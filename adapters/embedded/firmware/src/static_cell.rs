//! Static memory that one owner takes.

use core::cell::{Cell, UnsafeCell};

use critical_section::Mutex;

/// A static value that one owner takes. A large value is never built on the stack.
pub struct StaticCell<T> {
    value: UnsafeCell<T>,
    is_taken: Mutex<Cell<bool>>,
}

// SAFETY: the flag, which critical sections protect, gives the value to one owner.
unsafe impl<T: Send> Sync for StaticCell<T> {}

impl<T> StaticCell<T> {
    /// Creates a value that is not taken.
    pub const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), is_taken: Mutex::new(Cell::new(false)) }
    }

    /// Takes the value. Returns `None` if it was taken before.
    #[expect(clippy::mut_from_ref, reason = "the flag lets one caller get it")]
    pub fn take(&'static self) -> Option<&'static mut T> {
        let is_first = !critical_section::with(|cs| self.is_taken.borrow(cs).replace(true));
        // SAFETY: only the first call gets here, so that there is one reference, for ever.
        is_first.then(|| unsafe { &mut *self.value.get() })
    }
}
