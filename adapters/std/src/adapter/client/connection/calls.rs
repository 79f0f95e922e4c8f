//! Calls and subscriptions of a connection, for local and for remote callers.

use alloc::vec::Vec;

use mcp_proto::client::Engine;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Instant, Limit, UseError};

use super::{AcknowledgedSubscription, CallAnswer, CallSink, Connection, ProgressWatch, SubscriptionSink};
use crate::adapter::client::outcome::OutcomeSender;
use crate::error::Error;

impl Connection {
    /// Runs a command of the engine that has no outcome, and writes its output.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if the engine refuses the command; [`Error::Closed`] or [`Error::Io`] if the connection ended.
    pub fn command(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError>,
    ) -> Result<(), Error> {
        self.check_open()?;
        let now = self.transport.tick();
        command(self.transport.engine(), now).map_err(Error::Use)?;
        self.flush();
        Ok(())
    }

    /// Starts a call with the command that sends it.
    ///
    /// Waits while the server is slow to read, for up to [`call_timeout`](mcp_proto::Limits).
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if a limit is reached or the engine refuses the command, [`Error::Closed`] or [`Error::Io`] if
    /// the connection has ended.
    pub fn start(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Result<CallKey, Error> {
        self.wait_for_capacity()?;
        let now = self.transport.tick();
        let engine = self.transport.engine();
        // Outcomes that are not taken count, too.
        if self.calls.len() >= engine.config().effective_limits().max_pending_calls as usize {
            return Err(Error::Use(UseError::Full(Limit::PendingCalls)));
        }
        let call = command(engine, now).map_err(Error::Use)?;
        self.calls.insert(call, CallSink::Local(None));
        self.flush();
        Ok(call)
    }

    /// Waits until the server has read most of the output, so that a server that does not read cannot grow the outbox.
    fn wait_for_capacity(&mut self) -> Result<(), Error> {
        let timeout = self.transport.engine().config().effective_limits().call_timeout;
        let mut deadline = None;
        loop {
            self.check_open()?;
            if !self.transport.engine().is_congested() {
                return Ok(());
            }
            let now = self.transport.tick();
            let deadline = *deadline.get_or_insert(now + timeout);
            if now >= deadline {
                return Err(Error::Use(UseError::Full(Limit::OutboxHighWater)));
            }
            self.turn(Some(deadline), &mut None);
        }
    }

    /// Waits for the outcome of a call until `until` at most. Returns `None` if that time passes.
    ///
    /// # Errors
    ///
    /// - [`Error::Call`]: the call failed.
    /// - [`Error::Use`] with [`UseError::Stale`]: the call is unknown or its outcome was taken.
    /// - [`Error::Closed`] or [`Error::Io`]: the connection has ended.
    pub fn wait_outcome(
        &mut self,
        call: CallKey,
        until: Option<Instant>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Option<CallAnswer>, Error> {
        loop {
            let Some(CallSink::Local(slot)) = self.calls.get_mut(&call) else {
                return Err(Error::Use(UseError::Stale));
            };
            if let Some((outcome, retried)) = slot.take() {
                self.calls.remove(&call);
                return match outcome {
                    Err(CallError::Closed(_)) => Err(self.closed_error()),
                    Err(error) => Err(Error::Call(error)),
                    Ok(result) => Ok(Some((result, retried))),
                };
            }
            self.check_open()?;
            if until.is_some_and(|at| at <= self.transport.now()) {
                return Ok(None);
            }
            self.turn(until, watch);
        }
    }

    /// Starts a subscription and waits for its acknowledgement.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] if the engine refuses it, [`Error::Call`] if the server does, [`Error::Closed`] or [`Error::Io`]
    /// if the connection has ended.
    pub fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<AcknowledgedSubscription, Error> {
        self.wait_for_capacity()?;
        let now = self.transport.tick();
        let key = self.transport.engine().subscribe(now, filter).map_err(Error::Use)?;
        self.pending_subscriptions.push((key, SubscriptionSink::Local(None)));
        loop {
            let at = self.pending_subscriptions.iter().position(|(other, _)| *other == key);
            let completed = at.filter(|at| {
                matches!(self.pending_subscriptions.get(*at), Some((_, SubscriptionSink::Local(Some(_)))))
            });
            if let Some((_, SubscriptionSink::Local(Some(outcome)))) =
                completed.map(|at| self.pending_subscriptions.swap_remove(at))
            {
                return match outcome {
                    Ok(honoured) => Ok((key, honoured)),
                    Err(Some(CallError::Closed(_))) => Err(self.closed_error()),
                    Err(error) => Err(subscription_error(error)),
                };
            }
            if let (Err(error), Some(at)) = (self.check_open(), at) {
                self.pending_subscriptions.swap_remove(at);
                return Err(error);
            }
            self.turn(None, &mut None);
        }
    }

    /// Forgets a call. Returns `false` if it is unknown.
    pub fn forget(&mut self, call: CallKey) -> bool {
        self.calls.remove(&call).is_some()
    }

    /// Cancels a call and drops its outcome. Returns `false` if the call is unknown.
    pub fn cancel(&mut self, call: CallKey, reason: Option<&str>) -> bool {
        let known = self.forget(call);
        if known {
            let now = self.transport.tick();
            // A call that has ended already cannot be cancelled, and need not be.
            let _ = self.transport.engine().cancel(now, call, reason);
        }
        known
    }

    /// Handles input that has arrived, so that a cached result is not returned after the server invalidated it.
    pub fn catch_up(&mut self) {
        for _ in 0..MAX_CATCH_UP_TURNS {
            let (event_count, now) = (self.event_count, self.transport.tick());
            self.turn(Some(now), &mut None);
            if self.event_count == event_count || self.fault.is_some() {
                return;
            }
        }
    }

    // ---- remote callers --------------------------------------------------------------------------------------

    /// Starts a call for a remote caller, without waiting for capacity.
    pub fn begin_call(
        &mut self,
        sender: OutcomeSender<CallAnswer>,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) {
        if sender.is_abandoned() {
            return;
        }
        let now = self.transport.tick();
        match command(self.transport.engine(), now) {
            Ok(call) if sender.set_call(call) => {
                self.calls.insert(call, CallSink::Remote(sender));
            }
            Ok(call) => {
                let _ = self.transport.engine().cancel(now, call, None);
            }
            // The end of the connection has not been handled yet.
            Err(UseError::Closed) => self.closed_calls.push(sender),
            Err(error) => sender.send(Err(Error::Use(error))),
        }
    }

    /// Starts a subscription for a remote caller.
    pub fn begin_subscription(
        &mut self,
        sender: OutcomeSender<AcknowledgedSubscription>,
        filter: &SubscriptionFilter,
    ) {
        let now = self.transport.tick();
        match self.transport.engine().subscribe(now, filter) {
            Ok(key) => self.pending_subscriptions.push((key, SubscriptionSink::Remote(sender))),
            Err(UseError::Closed) => self.closed_subscriptions.push(sender),
            Err(error) => sender.send(Err(Error::Use(error))),
        }
    }

    /// Sends the end of the connection to all remote callers.
    pub fn notify_closed(&mut self) {
        let calls = core::mem::take(&mut self.calls);
        let pending = calls.into_iter().filter_map(|(_, sink)| match sink {
            CallSink::Local(_) => None,
            CallSink::Remote(sender) => Some(sender),
        });
        let lost: Vec<_> = core::mem::take(&mut self.closed_calls).into_iter().chain(pending).collect();
        lost.into_iter().for_each(|sender| sender.send(Err(self.closed_error())));
        let pending =
            core::mem::take(&mut self.pending_subscriptions).into_iter().filter_map(|(_, sink)| match sink {
                SubscriptionSink::Local(_) => None,
                SubscriptionSink::Remote(sender) => Some(sender),
            });
        let lost: Vec<_> =
            core::mem::take(&mut self.closed_subscriptions).into_iter().chain(pending).collect();
        lost.into_iter().for_each(|sender| sender.send(Err(self.closed_error())));
    }
}

/// Returns the error of a subscription that does not begin.
pub(super) fn subscription_error(error: Option<CallError>) -> Error {
    // A graceful end before the acknowledgement means that the server does not want it.
    Error::Call(error.unwrap_or(CallError::Cancelled))
}

/// Maximum number of turns that read pending input before a cached result is returned.
const MAX_CATCH_UP_TURNS: u32 = 64;
