//! Panics of handlers as values.

use core::any::Any;
use core::fmt;
use core::future::poll_fn;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::Poll;
use std::panic::catch_unwind;

/// Runs `f` and returns its panic as an error instead of unwinding further.
///
/// The panic hook has already run; by default it printed the message to stderr. Data that `f` was changing may be
/// inconsistent: discard it, or make sure that it does not matter. A program built with `panic = "abort"` ends in
/// `f` (DESIGN-21).
///
/// # Errors
///
/// [`Panic`] if `f` panicked.
///
/// ```
/// let panic = mcp_std::catch(|| -> u32 { panic!("no route to {}", "host") }).unwrap_err();
/// assert_eq!(panic.message(), "no route to host");
/// ```
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, Panic> {
    // The caller is responsible for unwind safety, as documented above.
    catch_unwind(AssertUnwindSafe(f)).map_err(Panic::from_payload)
}

/// Runs a future and returns its output or its panic; otherwise as [`catch`].
///
/// # Errors
///
/// [`Panic`] if the future panicked.
pub async fn catch_async<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// A caught panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    message: String,
}

impl Panic {
    /// Returns the message given to `panic!`, or a placeholder if the payload was not text. Its length is not bounded.
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
                    // A custom payload may panic again when dropped. One level is caught, and that payload is leaked.
                    if let Err(nested) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                        core::mem::forget(nested);
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
    fn catch_any_payload_kind_returns_a_message() {
        struct PanickingPayload;
        impl Drop for PanickingPayload {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        assert_eq!(catch(|| 7), Ok(7));
        assert_eq!(catch(|| panic!("plain")).unwrap_err().message(), "plain");
        assert_eq!(catch(|| panic!("{}", 1)).unwrap_err().message(), "1");
        assert_eq!(catch(|| std::panic::panic_any(3_u8)).unwrap_err().message(), "panic without a message");
        assert_eq!(
            catch(|| std::panic::panic_any(PanickingPayload)).unwrap_err().message(),
            "panic without a message"
        );
    }
}
