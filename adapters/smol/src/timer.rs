//! The one timer of a loop

use core::pin::Pin;
use core::task::Context;
use core::time::Duration;
use std::time::Instant;

use async_io::Timer;

/// Wakes its future by a deadline that changes often
///
/// It is set anew only when the deadline comes earlier than what it is set to: setting it wakes the reactor, and firing
/// in vain once in a while costs less.
#[derive(Debug)]
pub(crate) struct Deadline {
    timer: Timer,
    at: Option<Instant>,
}

impl Deadline {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { timer: Timer::never(), at: None }
    }

    /// Has the future of `cx` woken in `timeout`, or before; true when that may have passed by now
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, timeout: Option<Duration>) -> bool {
        let Some(at) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) else { return false };
        if self.at.is_none_or(|set| set > at + EXACT) {
            self.timer.set_at(at);
            self.at = Some(at);
        }
        let fired = Pin::new(&mut self.timer).poll(cx).is_ready();
        if fired {
            self.at = None;
        }
        fired
    }
}

/// How late it may be
const EXACT: Duration = Duration::from_millis(1);
