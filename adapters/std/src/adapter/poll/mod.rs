//! Waiting for descriptors, and ending such a wait from another thread.

#[cfg(unix)]
mod current;
mod interest;
#[cfg(unix)]
mod notifier;
#[cfg(unix)]
mod poller;
#[cfg(unix)]
mod readiness;
#[cfg(unix)]
mod selector;
#[cfg(not(unix))]
#[path = "selector_other.rs"]
mod selector;
mod wait_request;

#[cfg(unix)]
pub use current::{block_on_poller, current_poller, current_poller_id};
#[cfg(unix)]
pub use interest::Descriptors;
pub use interest::{HungUp, Interest, Ready};
#[cfg(unix)]
pub(crate) use notifier::{LazyNotifier, Notifier};
#[cfg(unix)]
pub use poller::Poller;
#[cfg(unix)]
pub use readiness::is_ready;
#[cfg(unix)]
pub(crate) use readiness::{MAX_TIMEOUT, PollHandles, hung_up, wait_any, wait_stream};
pub use selector::Selector;
pub use wait_request::WaitRequest;

/// Returns `None`: a thread has no poller here.
#[cfg(not(unix))]
#[must_use]
pub const fn current_poller_id() -> Option<usize> {
    None
}
