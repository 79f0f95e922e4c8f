//! A completer that tasks or threads share, on the clock of the system.

use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Condvar, Mutex};

use mcp_std::sync::lock;

use mcp_proto::client::{Completer, Keystroke, KeystrokeKey};
use mcp_proto::model::{CompleteParams, CompleteResult};
use mcp_proto::{Change, EncodeError, Instant};

use mcp_std::Clock;

/// A [`Completer`] with a clock, for one input field. Clones share it.
///
/// Pass it to `complete_typed` of a client after each keystroke. Pass it the changes of the server, too, so that it forgets what
/// is outdated:
///
/// ```
/// use mcp_proto::Change;
/// use mcp_runtime::SharedCompleter;
/// use mcp_runtime::client::ClientHandler;
///
/// struct Form {
///     completer: SharedCompleter,
/// }
///
/// impl ClientHandler for Form {
///     fn changed(&self, change: &Change) {
///         self.completer.handle_change(change);
///     }
/// }
/// ```
#[derive(Clone)]
pub struct SharedCompleter(Arc<Inner>);

struct Inner {
    clock: Clock,
    state: Mutex<State>,
    /// Notified by each keystroke.
    keystroke: Condvar,
}

struct State {
    completer: Completer,
    /// That of the future of the last keystroke.
    waker: Option<Waker>,
}

impl Default for SharedCompleter {
    fn default() -> Self {
        Self::new(Completer::new())
    }
}

impl SharedCompleter {
    /// Shares `completer`.
    #[must_use]
    pub fn new(completer: Completer) -> Self {
        let state = Mutex::new(State { completer, waker: None });
        Self(Arc::new(Inner { clock: Clock::start(), state, keystroke: Condvar::new() }))
    }

    /// Calls [`Completer::handle_change`].
    pub fn handle_change(&self, change: &Change) {
        lock(&self.0.state).completer.handle_change(change);
    }

    /// Calls [`Completer::clear`].
    pub fn clear(&self) {
        lock(&self.0.state).completer.clear();
    }

    /// Calls [`Completer::handle_keystroke`] with the current time, and ends the waits of earlier keystrokes.
    pub(crate) fn press(&self, params: &CompleteParams<'_>) -> Result<Keystroke, EncodeError> {
        let mut state = lock(&self.0.state);
        let keystroke = state.completer.handle_keystroke(self.now(), params)?;
        let earlier = state.waker.take();
        drop(state);
        self.0.keystroke.notify_all();
        if let Some(earlier) = earlier {
            earlier.wake();
        }
        Ok(keystroke)
    }

    /// Returns the time until the request of `key` is due; `None` if another key was pressed.
    pub(crate) fn time_until_due(&self, key: KeystrokeKey) -> Option<Duration> {
        let state = lock(&self.0.state);
        let due_at = state.completer.poll_timeout().filter(|_| state.completer.is_current(key))?;
        Some(due_at.saturating_duration_since(self.now()))
    }

    /// Marks the request of `key` as sent. Returns whether it is to be sent: it is due, and no other key was pressed.
    pub(crate) fn begin(&self, key: KeystrokeKey) -> bool {
        let mut state = lock(&self.0.state);
        state.completer.is_current(key) && state.completer.poll_request(self.now()).is_some()
    }

    /// Ready when another key was pressed.
    pub(crate) fn poll_replaced(&self, cx: &Context<'_>, key: KeystrokeKey) -> Poll<()> {
        let mut state = lock(&self.0.state);
        if !state.completer.is_current(key) {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Blocks the thread until the request of `key` is due, and marks it as sent. Returns `false` if another key was pressed
    /// meanwhile.
    pub(crate) fn wait_and_begin(&self, key: KeystrokeKey) -> bool {
        while let Some(left) = self.time_until_due(key) {
            if left.is_zero() {
                return self.begin(key);
            }
            let state = lock(&self.0.state);
            // A keystroke before this lock was taken.
            if state.completer.is_current(key) {
                let waited = self.0.keystroke.wait_timeout(state, left);
                drop(waited);
            }
        }
        false
    }

    /// Calls [`Completer::handle_result`] with the current time, or [`Completer::handle_failure`].
    pub(crate) fn finish(&self, key: KeystrokeKey, result: Option<&CompleteResult>) -> bool {
        let now = self.now();
        let mut state = lock(&self.0.state);
        match result {
            Some(result) => state.completer.handle_result(now, key, result),
            None => {
                let is_wanted = state.completer.is_current(key);
                state.completer.handle_failure(key);
                is_wanted
            }
        }
    }

    fn now(&self) -> Instant {
        self.0.clock.now()
    }
}

impl fmt::Debug for SharedCompleter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCompleter")
            .field("completer", &lock(&self.0.state).completer)
            .finish_non_exhaustive()
    }
}
