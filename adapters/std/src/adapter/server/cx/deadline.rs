//! Time limits of handlers that are functions.

use core::time::Duration;
use std::time::Instant as StdInstant;

use mcp_proto::{Instant, RpcError};

use super::{Backend, CallCx, CallParts, CallState, RunningCall};

/// Time at which a handler has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    /// On the clock of the event loop.
    Loop(Instant),
    /// Away from the event loop. `None` is never.
    Wall(Option<StdInstant>),
}

impl Deadline {
    /// Returns the time that is left; `now` is that of the event loop, on its thread.
    fn time_left(self, now: Option<Instant>) -> Duration {
        match (self, now) {
            (Self::Loop(until), Some(now)) => until.saturating_duration_since(now),
            (Self::Wall(Some(until)), _) => until.saturating_duration_since(StdInstant::now()),
            _ => Duration::MAX,
        }
    }
}

impl<B: RunningCall> CallCx<B> {
    /// Lets the handler fail after `limit`, unless it has to end earlier already. Returns the previous deadline.
    pub(in crate::adapter::server) fn set_deadline(&mut self, limit: Duration) -> Option<Deadline> {
        let CallParts { backend, state, .. } = self.0.parts();
        let (now, deadline) = match backend {
            Backend::Local(server_loop, _) => {
                let now = server_loop.tick();
                (Some(now), Deadline::Loop(now + limit))
            }
            Backend::Remote(_) => (None, Deadline::Wall(StdInstant::now().checked_add(limit))),
        };
        let outer = state.deadline;
        if outer.is_none_or(|outer| limit < outer.time_left(now)) {
            state.deadline = Some(deadline);
        }
        outer
    }

    /// Restores a previous deadline; returns whether that of now has passed.
    pub(in crate::adapter::server) fn restore_deadline(&mut self, outer: Option<Deadline>) -> bool {
        let CallParts { backend, state, .. } = self.0.parts();
        let now = match backend {
            Backend::Local(server_loop, _) => Some(server_loop.tick()),
            Backend::Remote(_) => None,
        };
        core::mem::replace(&mut state.deadline, outer).is_some_and(|inner| inner.time_left(now).is_zero())
    }

    /// Drops the input requests of the handler, and its wish to become a task, so that its error is sent. Values that it keeps
    /// for the next delivery stay: what they record has been done.
    pub(in crate::adapter::server) fn discard_pending(&mut self) {
        let state = self.0.parts().state;
        state.input_required.discard_requests();
        state.begins_task = None;
    }
}

impl CallState {
    /// Returns the time until the deadline, at most `duration`; `now` is that of the event loop, on its thread.
    pub(super) fn limit_to_deadline(&self, duration: Duration, now: Option<Instant>) -> Duration {
        self.deadline.map_or(duration, |deadline| deadline.time_left(now).min(duration))
    }

    /// Checks that the deadline has not passed; `now` is that of the event loop, on its thread.
    pub(super) fn check_deadline(&self, now: Option<Instant>) -> Result<(), RpcError> {
        if self.deadline.is_some_and(|deadline| deadline.time_left(now).is_zero()) {
            return Err(RpcError::internal("the call took too long"));
        }
        Ok(())
    }
}
