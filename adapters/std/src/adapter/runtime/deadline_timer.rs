//! The timer of a loop.

use alloc::boxed::Box;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Context;
use core::time::Duration;
use std::time::Instant;

use super::{AsyncTimer, Runtime};

/// Wakes its future at a deadline that changes often.
///
/// The timer is set anew only for an earlier deadline. Setting it wakes the reactor, which costs more than an
/// occasional spurious wake-up.
#[derive(Debug)]
pub(super) struct DeadlineTimer<T> {
    timer: T,
    armed_for: Option<Instant>,
}

impl<T: AsyncTimer> DeadlineTimer<T> {
    pub(super) fn new() -> Self {
        Self { timer: T::never(), armed_for: None }
    }

    /// Wakes the future of `cx` after `timeout` at the latest. Returns whether `timeout` may have passed already.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, timeout: Option<Duration>) -> bool {
        let Some(at) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) else { return false };
        if self.armed_for.is_none_or(|set| set > at + TOLERANCE) {
            self.timer.reset(at);
            self.armed_for = Some(at);
        }
        let fired = self.timer.poll(cx).is_ready();
        if fired {
            self.armed_for = None;
        }
        fired
    }
}

/// Accepted delay of a deadline.
const TOLERANCE: Duration = Duration::from_millis(1);

/// Completes after `duration`.
pub(super) async fn sleep<R: Runtime>(duration: Duration) {
    let mut timer = timer_after::<R>(duration);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Returns a timer that is set. For a duration that has no end, it is not.
pub(super) fn timer_after<R: Runtime>(duration: Duration) -> R::Timer {
    let mut timer = R::Timer::never();
    if let Some(at) = Instant::now().checked_add(duration) {
        timer.reset(at);
    }
    timer
}

/// Starts a timer of the runtime, or one on virtual time in tests.
pub(super) fn start_timer<R: Runtime>(duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    super::virtual_time::sleep(duration).unwrap_or_else(|| Box::pin(sleep::<R>(duration)))
}
