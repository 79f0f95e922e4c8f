//! Open input requests of a legacy server, and the time that they take.
//!
//! They have no deadlines of their own: each is an inbound call, whose age is in the shared heap.

use alloc::vec::Vec;
use core::time::Duration;

use crate::calls::outbound::OutboundCall;
use crate::error::CallError;
use crate::model::TaskId;
use crate::slab::Key;
use crate::time::Instant;

/// Open input requests of a legacy server; see the [module](self).
#[derive(Debug, Default)]
pub(super) struct LegacyInputs {
    /// The requests, by the slots of their calls.
    requests: Vec<Option<LegacyInput>>,
    /// Number of open requests.
    open: usize,
    /// Number of open questions of tasks that the client hosts. They are kept elsewhere, and only their time counts here.
    hosted: usize,
    /// Arrival of the first open request.
    waiting_since: Instant,
    /// End of the last request.
    last_ended: Instant,
    /// Total time with open requests, before `waiting_since`.
    previous_wait: Duration,
}

#[derive(Debug)]
struct LegacyInput {
    key: Key,
    method: &'static str,
    /// The task that the request belongs to (2025-11-25; TASK-023).
    related_task: Option<TaskId>,
}

impl LegacyInputs {
    pub(super) const fn is_empty(&self) -> bool {
        self.open == 0 && self.hosted == 0
    }

    /// Sets the number of open questions of hosted tasks.
    pub(super) fn set_hosted(&mut self, now: Instant, hosted: usize) {
        let was_empty = self.is_empty();
        if hosted < self.hosted {
            self.last_ended = now;
        }
        self.hosted = hosted;
        match (was_empty, self.is_empty()) {
            (true, false) => self.waiting_since = now,
            (false, true) => self.previous_wait += now.saturating_duration_since(self.waiting_since),
            _ => {}
        }
    }

    /// Adds a request.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        request: Key,
        method: &'static str,
        related_task: Option<TaskId>,
    ) {
        if self.is_empty() {
            self.waiting_since = now;
        }
        let slot = request.slot as usize;
        if slot >= self.requests.len() {
            self.requests.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.requests.get_mut(slot) {
            *entry = Some(LegacyInput { key: request, method, related_task });
            self.open += 1;
        }
    }

    /// Returns the method of a request, or `None` if it is not an open input request.
    pub(super) fn method(&self, request: Key) -> Option<&'static str> {
        self.find(request).map(|input| input.method)
    }

    /// Returns the task that a request belongs to.
    pub(super) fn related_task(&self, request: Key) -> Option<&TaskId> {
        self.find(request)?.related_task.as_ref()
    }

    /// Returns whether a request of this task is open.
    pub(super) fn is_open_for(&self, task: Option<&TaskId>) -> bool {
        self.requests.iter().flatten().any(|input| input.related_task.as_ref() == task)
    }

    fn find(&self, request: Key) -> Option<&LegacyInput> {
        let input = self.requests.get(request.slot as usize)?.as_ref()?;
        (input.key == request).then_some(input)
    }

    /// Removes a request; returns false if it is not an input request.
    pub(super) fn end(&mut self, now: Instant, request: Key) -> bool {
        let Some(entry) = self.requests.get_mut(request.slot as usize) else { return false };
        if entry.take_if(|input| input.key == request).is_none() {
            return false;
        }
        self.open -= 1;
        self.last_ended = now;
        if self.is_empty() {
            self.previous_wait += now.saturating_duration_since(self.waiting_since);
        }
        true
    }

    /// Returns the total time with open requests.
    pub(super) fn total_wait(&self, now: Instant) -> Duration {
        let open_since = if self.is_empty() { now } else { self.waiting_since };
        self.previous_wait + now.saturating_duration_since(open_since)
    }

    /// Returns the error of a call whose deadline has passed, or its next deadline.
    ///
    /// The server does not name the call that needs the input, so the timeouts of all calls are suspended (TIME-008).
    /// No call is idle while an input request is open. The total timeout excludes that time, unless it was set for the
    /// call.
    ///
    /// # Errors
    ///
    /// The next deadline, if none has passed.
    pub(super) fn check_deadline(&self, now: Instant, call: &OutboundCall) -> Result<CallError, Instant> {
        let last_activity = if self.is_empty() { self.last_ended } else { now };
        let idle_at = call.idle_deadline.max(last_activity + call.timeout);
        let extension = if call.has_explicit_total { Duration::ZERO } else { self.total_wait(now) };
        let total_at = call.total_deadline + extension;
        match now {
            _ if now >= total_at => Ok(CallError::TotalTimedOut),
            _ if now >= idle_at => Ok(CallError::TimedOut),
            _ => Err(idle_at.min(total_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn key(slot: u32, generation: u32) -> Key {
        Key { slot, generation }
    }

    #[test]
    fn request_is_found_by_its_key_until_it_ends() {
        let mut inputs = LegacyInputs::default();
        inputs.begin(at(1), key(4, 0), "a", None);
        inputs.begin(at(2), key(1, 7), "b", None);
        assert_eq!((inputs.method(key(4, 0)), inputs.method(key(1, 7))), (Some("a"), Some("b")));
        assert_eq!(
            (inputs.method(key(4, 1)), inputs.method(key(0, 0)), inputs.method(key(9, 0))),
            (None, None, None)
        );
        assert!(
            !inputs.end(at(3), key(4, 1)) && inputs.end(at(3), key(4, 0)) && !inputs.end(at(3), key(4, 0))
        );
        inputs.begin(at(4), key(4, 1), "c", None);
        assert_eq!((inputs.method(key(4, 0)), inputs.method(key(4, 1))), (None, Some("c")));
        assert!(!inputs.is_empty() && inputs.end(at(5), key(4, 1)) && inputs.end(at(5), key(1, 7)));
        assert!(inputs.is_empty());
    }

    // covers: TIME-008
    #[test]
    fn total_wait_is_the_time_with_at_least_one_open_request() {
        let mut inputs = LegacyInputs::default();
        assert_eq!(inputs.total_wait(at(9)), Duration::ZERO);
        inputs.begin(at(10), key(0, 0), "a", None);
        inputs.begin(at(12), key(1, 0), "a", None);
        assert!(inputs.end(at(15), key(0, 0)));
        assert_eq!(inputs.total_wait(at(16)), Duration::from_secs(6));
        assert!(inputs.end(at(20), key(1, 0)));
        assert_eq!(inputs.total_wait(at(99)), Duration::from_secs(10));
        inputs.begin(at(100), key(0, 1), "a", None);
        assert_eq!(inputs.total_wait(at(103)), Duration::from_secs(13));
    }
}
