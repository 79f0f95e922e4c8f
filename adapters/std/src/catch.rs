//! Panics of handlers as values

use core::any::Any;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// Runs `f`; when it panics, returns what it said instead of unwinding further
///
/// The panic hook has run by then (by default it printed the message to stderr). What `f` was changing may be
/// half changed: throw it away, or make sure that it does not matter. A program built with `panic = "abort"`
/// ends in `f`.
///
/// # Errors
///
/// [`Panic`] when `f` panicked.
///
/// ```
/// let panic = mcp_std::catch(|| -> u32 { panic!("no route to {}", "host") }).unwrap_err();
/// assert_eq!(panic.message(), "no route to host");
/// ```
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, Panic> {
    // Unwind safety is the caller's promise, as the docs above say.
    catch_unwind(AssertUnwindSafe(f)).map_err(Panic::from_payload)
}

/// A caught panic
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    message: String,
}

impl Panic {
    /// What `panic!` was given, or a stand-in when that was no text; as long as the program made it
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        let message = match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => match payload.downcast_ref::<&'static str>() {
                Some(text) => (*text).to_owned(),
                None => {
                    // A payload of the program's own type may panic when it is dropped; one level of that is
                    // caught, and what that panic carried is leaked rather than given another chance.
                    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                        core::mem::forget(again);
                    }
                    String::from("panic without a message")
                }
            },
        };
        Self { message }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl core::error::Error for Panic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_payload() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        assert_eq!(catch(|| 7), Ok(7));
        assert_eq!(catch(|| panic!("plain")).unwrap_err().message(), "plain");
        assert_eq!(catch(|| panic!("{}", 1)).unwrap_err().message(), "1");
        assert_eq!(catch(|| std::panic::panic_any(3_u8)).unwrap_err().message(), "panic without a message");
        assert_eq!(catch(|| std::panic::panic_any(Bomb)).unwrap_err().message(), "panic without a message");
    }
}
