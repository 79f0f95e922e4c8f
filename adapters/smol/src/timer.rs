//! The timer of a loop.

use alloc::boxed::Box;
use core::pin::Pin;
use core::task::Context;
use core::time::Duration;
use std::time::Instant;

use async_io::Timer;

/// Wakes its future at a deadline that changes often.
///
/// The timer is set anew only for an earlier deadline. Setting it wakes the reactor, which costs more than an
/// occasional spurious wake-up.
#[derive(Debug)]
pub(crate) struct DeadlineTimer {
    timer: Timer,
    armed_for: Option<Instant>,
}

impl DeadlineTimer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { timer: Timer::never(), armed_for: None }
    }

    /// Wakes the future of `cx` after `timeout` at the latest. Returns whether `timeout` may have passed already.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, timeout: Option<Duration>) -> bool {
        let Some(at) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) else { return false };
        if self.armed_for.is_none_or(|set| set > at + TOLERANCE) {
            self.timer.set_at(at);
            self.armed_for = Some(at);
        }
        let fired = Pin::new(&mut self.timer).poll(cx).is_ready();
        if fired {
            self.armed_for = None;
        }
        fired
    }
}

/// Accepted delay of a deadline.
const TOLERANCE: Duration = Duration::from_millis(1);

/// Starts a timer of the reactor, or one on virtual time in tests.
pub(crate) fn start_timer(duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match crate::testing::sleep(duration) {
        Some(sleep) => Box::pin(sleep),
        None => Box::pin(async move { _ = Timer::after(duration).await }),
    }
}
