//! Opaque handles: one caller at a time, and no panic leaves the library.

use core::any::Any;
use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::catch_unwind;

use crate::slice::{copy_text, is_wild, output};
use crate::status::{Failure, mcp_status};

/// The state behind a kind of handle.
pub(crate) trait State: Sized {
    /// The type that C has pointers to.
    type Opaque;
    /// A number that tells this kind of handle from others.
    const TAG: usize;
}

/// The memory behind a handle. The tag comes first in every kind, so that a handle of another kind is noticed.
#[repr(C)]
struct Handle<S> {
    tag: usize,
    /// True while a function uses the handle.
    busy: AtomicBool,
    /// Only the function that has set `busy` uses it.
    cell: UnsafeCell<Guarded<S>>,
}

struct Guarded<S> {
    state: S,
    poisoned: bool,
    /// Message of the last error.
    message: String,
}

/// Makes a state a handle, and gives it to C.
///
/// # Safety
///
/// If `place` is not null, it is writable as a pointer.
pub(crate) unsafe fn create<S: State>(
    place: *mut *mut S::Opaque,
    make: impl FnOnce() -> Result<S, Failure>,
) -> mcp_status {
    guard(|| {
        crate::slice::check_output(place)?;
        let state = make()?;
        let guarded = Guarded { state, poisoned: false, message: String::new() };
        let handle = Handle { tag: S::TAG, busy: AtomicBool::new(false), cell: UnsafeCell::new(guarded) };
        // SAFETY: the requirement of this function.
        unsafe { output(place, Box::into_raw(Box::new(handle)).cast()) }?;
        Ok(mcp_status::MCP_OK)
    })
}

/// Returns the memory behind a handle, if it is one of this kind.
///
/// # Safety
///
/// `handle` is null, or a handle of this library that was not freed.
unsafe fn find<'a, S: State>(handle: *const S::Opaque) -> Option<&'a Handle<S>> {
    let handle = handle.cast::<Handle<S>>();
    if is_wild(handle) {
        return None;
    }
    // SAFETY: a handle of any kind begins with a `usize`.
    if unsafe { handle.cast::<usize>().read() } != S::TAG {
        return None;
    }
    // SAFETY: the tag says that this kind of handle was made, and it was not freed. Only shared references to it exist.
    Some(unsafe { &*handle })
}

impl<S> Handle<S> {
    /// Runs `act` as the only one that uses the handle, or returns `None` if another one does.
    fn lock<R>(&self, act: impl FnOnce(&mut Guarded<S>) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `busy` was false, so there is no other reference to the cell, and none is made until it is false again,
        // which is after the last use of this one.
        let result = act(unsafe { &mut *self.cell.get() });
        self.busy.store(false, Ordering::Release);
        Some(result)
    }

    fn run(&self, act: impl FnOnce(&mut S) -> Result<mcp_status, Failure>) -> mcp_status {
        self.lock(|guarded| guarded.run(act)).unwrap_or(mcp_status::MCP_ERROR_BUSY)
    }
}

impl<S> Guarded<S> {
    fn run(&mut self, act: impl FnOnce(&mut S) -> Result<mcp_status, Failure>) -> mcp_status {
        if self.poisoned {
            return mcp_status::MCP_ERROR_POISONED;
        }
        let state = &mut self.state;
        // Whatever a panic leaves behind is never used again, because the handle is poisoned.
        match catch_unwind(AssertUnwindSafe(|| act(state))) {
            Ok(Ok(status)) => status,
            Ok(Err(failure)) => {
                self.message = failure.message;
                failure.status
            }
            Err(panic) => {
                self.poisoned = true;
                self.message = describe_panic(panic);
                mcp_status::MCP_ERROR_PANIC
            }
        }
    }
}

pub(crate) fn guard(act: impl FnOnce() -> Result<mcp_status, Failure>) -> mcp_status {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(outcome) => outcome.unwrap_or_else(|failure| failure.status),
        Err(panic) => {
            discard(panic);
            mcp_status::MCP_ERROR_PANIC
        }
    }
}

/// Drops the payload of a panic, which could panic again.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(again);
    }
}

/// Returns the message of a panic.
fn describe_panic(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    discard(panic);
    format!("a defect of the library: {text}")
}

/// Runs a function on the state of a handle.
///
/// # Safety
///
/// `handle` is null, or a handle of this library that was not freed.
pub(crate) unsafe fn enter<S: State>(
    handle: *const S::Opaque,
    act: impl FnOnce(&mut S) -> Result<mcp_status, Failure>,
) -> mcp_status {
    // SAFETY: the requirement of this function.
    match unsafe { find::<S>(handle) } {
        Some(handle) => handle.run(act),
        None => mcp_status::MCP_ERROR_INVALID_ARGUMENT,
    }
}

/// Reads something of the state of a handle; `otherwise` if that is not possible.
///
/// # Safety
///
/// `handle` is null, or a handle of this library that was not freed.
pub(crate) unsafe fn read<S: State, R>(
    handle: *const S::Opaque,
    otherwise: R,
    read: impl FnOnce(&mut S) -> R,
) -> R {
    let mut found = otherwise;
    // SAFETY: the requirement of this function.
    unsafe {
        enter::<S>(handle, |state| {
            found = read(state);
            Ok(mcp_status::MCP_OK)
        })
    };
    found
}

/// Copies the message of the last error into a buffer of the caller.
///
/// # Safety
///
/// `handle` is null, or a handle of this library that was not freed. If they are not null, `buffer` is writable for
/// `capacity` bytes, and `length` as a `size_t`.
pub(crate) unsafe fn last_error<S: State>(
    handle: *const S::Opaque,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> mcp_status {
    // SAFETY: the requirement of this function.
    let Some(handle) = (unsafe { find::<S>(handle) }) else {
        return mcp_status::MCP_ERROR_INVALID_ARGUMENT;
    };
    // The message of a poisoned handle can be read, too.
    let copied = handle.lock(|guarded| {
        // SAFETY: the requirement of this function.
        unsafe { copy_text(&guarded.message, buffer, capacity, length) }
    });
    copied.map_or(mcp_status::MCP_ERROR_BUSY, |copied| copied.unwrap_or_else(|failure| failure.status))
}

/// Frees a handle. A null pointer is ignored.
///
/// # Safety
///
/// `handle` is null, or a handle of this library that was not freed and is not used again.
pub(crate) unsafe fn free<S: State>(handle: *mut S::Opaque) -> mcp_status {
    if handle.is_null() {
        return mcp_status::MCP_OK;
    }
    // SAFETY: the requirement of this function.
    let Some(found) = (unsafe { find::<S>(handle) }) else {
        return mcp_status::MCP_ERROR_INVALID_ARGUMENT;
    };
    // It stays busy, so that a thread that is late does not enter.
    if found.busy.swap(true, Ordering::Acquire) {
        return mcp_status::MCP_ERROR_BUSY;
    }
    let handle = handle.cast::<Handle<S>>();
    // SAFETY: `create` made it by `Box::into_raw`, it was not freed, and no function uses it.
    let owned = unsafe { Box::from_raw(handle) };
    guard(|| {
        drop(owned);
        Ok(mcp_status::MCP_OK)
    })
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;
    use core::ptr;

    use super::*;

    struct Number(i32);
    struct Letter;
    struct OpaqueNumber;
    struct OpaqueLetter;

    impl State for Number {
        type Opaque = OpaqueNumber;
        const TAG: usize = 1;
    }

    impl State for Letter {
        type Opaque = OpaqueLetter;
        const TAG: usize = 2;
    }

    fn number() -> *mut OpaqueNumber {
        let mut handle = ptr::null_mut();
        // SAFETY: the place is a local variable.
        let status = unsafe { create(&raw mut handle, || Ok(Number(1))) };
        assert_eq!(status, mcp_status::MCP_OK);
        handle
    }

    fn message(handle: *const OpaqueNumber) -> String {
        let (mut buffer, mut length) = ([0 as c_char; 100], 0);
        // SAFETY: the handle is alive, and the buffer is as long as it says.
        unsafe {
            let status = last_error::<Number>(handle, buffer.as_mut_ptr(), buffer.len(), &raw mut length);
            assert_eq!(status, mcp_status::MCP_OK);
            let text = CStr::from_ptr(buffer.as_ptr()).to_str().expect("UTF-8");
            assert_eq!(text.len(), length);
            text.to_owned()
        }
    }

    #[test]
    fn panic_poisons_handle_and_leaves_its_message() {
        let handle = number();
        // SAFETY: the handle is alive until it is freed, which is last.
        unsafe {
            assert_eq!(enter::<Number>(handle, |_| panic!("odd")), mcp_status::MCP_ERROR_PANIC);
            assert_eq!(message(handle), "a defect of the library: odd");
            let entered = enter::<Number>(handle, |_| unreachable!("the handle is poisoned"));
            assert_eq!(entered, mcp_status::MCP_ERROR_POISONED);
            assert_eq!(read::<Number, _>(handle, 7, |number| number.0), 7);
            assert_eq!(free::<Number>(handle), mcp_status::MCP_OK);
        }
    }

    #[test]
    fn second_caller_is_refused_and_cannot_free() {
        let handle = number();
        // SAFETY: the handle is alive until it is freed, which is last.
        unsafe {
            let status = enter::<Number>(handle, |number| {
                number.0 += 1;
                assert_eq!(enter::<Number>(handle, |_| Ok(mcp_status::MCP_OK)), mcp_status::MCP_ERROR_BUSY);
                assert_eq!(free::<Number>(handle), mcp_status::MCP_ERROR_BUSY);
                let refused = last_error::<Number>(handle, ptr::null_mut(), 0, ptr::null_mut());
                assert_eq!(refused, mcp_status::MCP_ERROR_BUSY);
                Ok(mcp_status::MCP_OK)
            });
            assert_eq!(status, mcp_status::MCP_OK);
            assert_eq!(read::<Number, _>(handle, 0, |number| number.0), 2);
            assert_eq!(free::<Number>(handle), mcp_status::MCP_OK);
        }
    }

    #[test]
    fn threads_exclude_each_other() {
        let handle = number() as usize;
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut done = 0;
                    while done < 100 {
                        // SAFETY: the handle is freed after all threads have ended.
                        let status = unsafe {
                            enter::<Number>(handle as *const OpaqueNumber, |number| {
                                number.0 += 1;
                                Ok(mcp_status::MCP_OK)
                            })
                        };
                        done += i32::from(status == mcp_status::MCP_OK);
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let handle = handle as *mut OpaqueNumber;
        // SAFETY: the handle is alive until it is freed, which is last.
        unsafe {
            assert_eq!(read::<Number, _>(handle, 0, |number| number.0), 401);
            assert_eq!(free::<Number>(handle), mcp_status::MCP_OK);
        }
    }

    #[test]
    fn null_and_handle_of_other_kind_are_refused() {
        let handle = number();
        // SAFETY: the handle is alive until it is freed, which is last.
        unsafe {
            let other = handle.cast::<OpaqueLetter>();
            let invalid = mcp_status::MCP_ERROR_INVALID_ARGUMENT;
            assert_eq!(enter::<Letter>(other, |_| unreachable!("another kind")), invalid);
            assert_eq!(free::<Letter>(other), invalid);
            assert_eq!(enter::<Number>(ptr::null(), |_| unreachable!("null")), invalid);
            assert_eq!(create::<Number>(ptr::null_mut(), || unreachable!("no place")), invalid);
            assert_eq!(free::<Number>(ptr::null_mut()), mcp_status::MCP_OK);
            assert_eq!(free::<Number>(handle), mcp_status::MCP_OK);
        }
    }

    #[test]
    fn failure_keeps_handle_usable_and_panic_in_constructor_is_caught() {
        let handle = number();
        // SAFETY: the handle is alive until it is freed, which is last.
        unsafe {
            let status = enter::<Number>(handle, |_| Err(Failure::argument("no number")));
            assert_eq!(
                (status, message(handle)),
                (mcp_status::MCP_ERROR_INVALID_ARGUMENT, "no number".into())
            );
            assert_eq!(enter::<Number>(handle, |_| Ok(mcp_status::MCP_DONE)), mcp_status::MCP_DONE);
            assert_eq!(free::<Number>(handle), mcp_status::MCP_OK);
            let mut place = ptr::null_mut();
            assert_eq!(create::<Number>(&raw mut place, || panic!("odd")), mcp_status::MCP_ERROR_PANIC);
            assert!(place.is_null());
        }
    }
}
