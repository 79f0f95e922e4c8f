//! Checks of the driver of a state machine, in debug builds alone.
//!
//! Wrong driving has a defined outcome in a release build: a time that goes back counts as the last one, bytes beyond the
//! output are not consumed, a deadline waits for the next poll. Nothing tells the author of a loop that it is wrong, so a
//! debug build panics. Each message names a rule of `docs/contract.md`.

use super::time::TimeoutReason;
use crate::time::Instant;

/// Number of deadlines that may pass while something waits to be polled and nothing is. An application may be slow for a
/// while, so it is not told at once.
#[cfg(debug_assertions)]
const MAX_UNPOLLED: u32 = 32;

/// Number of calls of `handle_timeout` at one instant and before the same deadline, without input or output, after which the
/// clock of the driver counts as standing still. A loop over many connections makes a few such calls per tick of a coarse clock.
#[cfg(debug_assertions)]
const MAX_CALLS_IN_VAIN: u32 = 10_000;

/// Panics if the time goes back.
#[inline]
#[track_caller]
pub(crate) fn check_time(last: Instant, now: Instant) {
    debug_assert!(
        now >= last,
        "`now` is {now} after {last}: time does not go back (`mcp_proto::guide::contract`, rule \"Time\")"
    );
}

/// Panics if more bytes are consumed than there are.
#[cfg(debug_assertions)]
#[track_caller]
pub(crate) fn check_consumed(consumed: usize, available: usize) {
    assert!(
        consumed <= available,
        "{consumed} bytes were consumed and only {available} were there to write: consume what was written \
         (`mcp_proto::guide::contract`, rule \"Output\")"
    );
}

/// An engine, as its bindings drive it.
pub(crate) trait BoundEngine {
    /// Processes the deadlines of a byte stream; `has_input` if there is input that was not decoded.
    fn handle_timeout_with(&mut self, now: Instant, has_input: bool);

    /// Processes the deadlines for a binding that checks its driver itself.
    fn process_timeouts(&mut self, now: Instant);

    /// Returns the next deadline and its reason.
    fn next_deadline(&mut self) -> Option<(Instant, TimeoutReason)>;

    /// Returns whether an event waits to be polled.
    fn has_events(&self) -> bool;

    /// Returns the check of the driver.
    fn driver_check(&mut self) -> &mut DriverCheck;

    /// Returns whether the buffers of the idle engine have been freed.
    fn is_idle(&self) -> bool;
}

/// Record of the calls of a driver. It is empty in a release build.
#[derive(Debug, Default)]
pub(crate) struct DriverCheck {
    /// Number of deadlines that have passed since the last poll, each with something to poll.
    #[cfg(debug_assertions)]
    unpolled: u32,
    /// The deadline that passed last, if nothing was polled since.
    #[cfg(all(debug_assertions, feature = "http"))]
    passed: Option<Instant>,
    /// The last time and the deadline that was still to come, and how often that was so.
    #[cfg(debug_assertions)]
    in_vain: Option<(Instant, Instant, u32)>,
}

impl DriverCheck {
    /// Records a call of `handle_timeout` while `next` is the next deadline; `has_output` if there is something to poll.
    ///
    /// Panics if there was at many deadlines and nothing was polled.
    #[inline]
    #[track_caller]
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        next: Option<(Instant, TimeoutReason)>,
        has_output: bool,
    ) {
        #[cfg(debug_assertions)]
        if let Some((at, reason)) = next.filter(|(at, _)| *at <= now) {
            self.unpolled += u32::from(has_output);
            assert!(
                self.unpolled < MAX_UNPOLLED,
                "{MAX_UNPOLLED} deadlines have passed, the last one at {at} ({reason}), and nothing was polled \
                 meanwhile: poll until there is nothing before you wait (`mcp_proto::guide::contract`, rule \"Order\")"
            );
            self.in_vain = None;
        }
        #[cfg(not(debug_assertions))]
        let _ = (now, next, has_output);
    }

    /// Records a call of `handle_timeout` before the next deadline, on a byte stream.
    ///
    /// Panics if the time does not advance and nothing else happens either.
    #[inline]
    #[track_caller]
    pub(crate) fn call_in_vain(&mut self, now: Instant, next: Option<(Instant, TimeoutReason)>) {
        #[cfg(debug_assertions)]
        if let Some((at, reason)) = next.filter(|(at, _)| *at > now) {
            let calls = match self.in_vain {
                Some((time, deadline, calls)) if (time, deadline) == (now, at) => calls + 1,
                _ => 0,
            };
            assert!(
                calls < MAX_CALLS_IN_VAIN,
                "`handle_timeout` is called again and again at {now} before the deadline {at} ({reason}): read the \
                 clock after each wait, and round waits up (`mcp_proto::guide::contract`, rule \"Deadlines\")"
            );
            self.in_vain = Some((now, at, calls));
        }
        #[cfg(not(debug_assertions))]
        let _ = (now, next);
    }

    /// Records that output or events were polled.
    #[inline]
    pub(crate) fn polled(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.unpolled = 0;
        }
        #[cfg(all(debug_assertions, feature = "http"))]
        {
            self.passed = None;
        }
    }

    /// Records that something was received, sent or written.
    #[inline]
    pub(crate) fn progressed(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.in_vain = None;
        }
    }
}
