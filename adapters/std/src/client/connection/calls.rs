//! Calls and subscriptions: begun, waited for here or elsewhere, given up

use alloc::vec::Vec;

use mcp_proto::client::Engine;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Instant, UseError};

use super::{Answer, Connection, Honoured, Place, Subscribing, Watch};
use crate::client::slot::Teller;
use crate::error::Error;

impl Connection {
    /// Tells the engine something that has no outcome, and writes what comes of it
    pub fn command(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError>,
    ) -> Result<(), Error> {
        self.check_open()?;
        let now = self.wire.tick();
        command(self.wire.engine(), now).map_err(Error::Use)?;
        self.flush();
        Ok(())
    }

    /// Begins a call, with what `command` tells the engine
    pub fn start(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Result<CallKey, Error> {
        self.make_room()?;
        let now = self.wire.tick();
        let engine = self.wire.engine();
        // Outcomes that nobody takes count too.
        if self.calls.len() >= engine.config().get_limits().max_pending_calls as usize {
            return Err(Error::Use(UseError::Full("max_pending_calls")));
        }
        let call = command(engine, now).map_err(Error::Use)?;
        self.calls.insert(call, Place::Here(None));
        self.flush();
        Ok(call)
    }

    /// Waits until the server has taken most of what was written before, so that a server which does not read cannot
    /// make us keep more and more
    fn make_room(&mut self) -> Result<(), Error> {
        let patience = self.wire.engine().config().get_limits().call_timeout;
        let mut until = None;
        loop {
            self.check_open()?;
            if !self.wire.engine().is_congested() {
                return Ok(());
            }
            let now = self.wire.tick();
            let until = *until.get_or_insert(now + patience);
            if now >= until {
                return Err(Error::Use(UseError::Full("outbox_mark")));
            }
            self.turn(Some(until), &mut None);
        }
    }

    /// Waits for the outcome of a call, at most until `until`; its result, and whether the server needed something first
    pub fn outcome(
        &mut self,
        call: CallKey,
        until: Option<Instant>,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Answer>, Error> {
        loop {
            let Some(Place::Here(place)) = self.calls.get_mut(&call) else {
                return Err(Error::Use(UseError::Stale));
            };
            if let Some((outcome, again)) = place.take() {
                self.calls.remove(&call);
                return match outcome {
                    Err(CallError::Closed(_)) => Err(self.gone()),
                    Err(error) => Err(Error::Call(error)),
                    Ok(result) => Ok(Some((result, again))),
                };
            }
            self.check_open()?;
            if until.is_some_and(|at| at <= self.wire.now()) {
                return Ok(None);
            }
            self.turn(until, watch);
        }
    }

    /// Begins a subscription, and waits for what the server honours of it
    pub fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<Honoured, Error> {
        self.make_room()?;
        let now = self.wire.tick();
        let key = self.wire.engine().subscribe(now, filter).map_err(Error::Use)?;
        self.subscribing.push((key, Subscribing::Here(None)));
        loop {
            let at = self.subscribing.iter().position(|(other, _)| *other == key);
            let told =
                at.filter(|at| matches!(self.subscribing.get(*at), Some((_, Subscribing::Here(Some(_))))));
            if let Some((_, Subscribing::Here(Some(outcome)))) =
                told.map(|at| self.subscribing.swap_remove(at))
            {
                return match outcome {
                    Ok(honoured) => Ok((key, honoured)),
                    Err(Some(CallError::Closed(_))) => Err(self.gone()),
                    Err(error) => Err(unwanted(error)),
                };
            }
            if let (Err(error), Some(at)) = (self.check_open(), at) {
                self.subscribing.swap_remove(at);
                return Err(error);
            }
            self.turn(None, &mut None);
        }
    }

    /// Forgets a call; false when it is not known
    pub fn forget(&mut self, call: CallKey) -> bool {
        self.calls.remove(&call).is_some()
    }

    /// Gives a call up: nobody is told what came of it. False when it is not known
    pub fn cancel(&mut self, call: CallKey, reason: Option<&str>) -> bool {
        let known = self.forget(call);
        if known {
            let now = self.wire.tick();
            // Refused when it has ended already; nobody needs to be told then.
            let _ = self.wire.engine().cancel(now, call, reason);
        }
        known
    }

    /// Reads what has come already, so that no result is given that was kept and of which the server has said since that
    /// it does not hold any more
    pub fn catch_up(&mut self) {
        for _ in 0..CATCH_UP {
            let (seen, now) = (self.seen, self.wire.tick());
            self.turn(Some(now), &mut None);
            if self.seen == seen || self.fault.is_some() {
                return;
            }
        }
    }

    // ---- for those who wait elsewhere ------------------------------------------------------------------------

    /// Begins a call as [`start`](Self::start) does, without waiting for room, for somebody who waits elsewhere
    pub fn begin(
        &mut self,
        teller: Teller<Answer>,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) {
        if teller.is_abandoned() {
            return;
        }
        let now = self.wire.tick();
        match command(self.wire.engine(), now) {
            Ok(call) if teller.begun(call) => {
                self.calls.insert(call, Place::Away(teller));
            }
            Ok(call) => {
                let _ = self.wire.engine().cancel(now, call, None);
            }
            // Its end has not been handled yet.
            Err(UseError::Closed) => self.lost.push(teller),
            Err(error) => teller.tell(Err(Error::Use(error))),
        }
    }

    /// Begins a subscription for somebody who waits elsewhere
    pub fn begin_subscription(&mut self, teller: Teller<Honoured>, filter: &SubscriptionFilter) {
        let now = self.wire.tick();
        match self.wire.engine().subscribe(now, filter) {
            Ok(key) => self.subscribing.push((key, Subscribing::Away(teller))),
            Err(UseError::Closed) => self.lost_subscribing.push(teller),
            Err(error) => teller.tell(Err(Error::Use(error))),
        }
    }

    /// Tells everybody who waits elsewhere that it is over
    pub fn tell_end(&mut self) {
        let calls = core::mem::take(&mut self.calls);
        let still = calls.into_iter().filter_map(|(_, place)| match place {
            Place::Here(_) => None,
            Place::Away(teller) => Some(teller),
        });
        let lost: Vec<_> = core::mem::take(&mut self.lost).into_iter().chain(still).collect();
        lost.into_iter().for_each(|teller| teller.tell(Err(self.gone())));
        let subscribing = core::mem::take(&mut self.subscribing).into_iter().filter_map(|(_, to)| match to {
            Subscribing::Here(_) => None,
            Subscribing::Away(teller) => Some(teller),
        });
        let lost: Vec<_> =
            core::mem::take(&mut self.lost_subscribing).into_iter().chain(subscribing).collect();
        lost.into_iter().for_each(|teller| teller.tell(Err(self.gone())));
    }
}

/// What comes of a subscription that does not begin
pub(super) fn unwanted(error: Option<CallError>) -> Error {
    // One that ends in good order before it has begun was not wanted there.
    Error::Call(error.unwrap_or(CallError::Cancelled))
}

/// How often it is looked for news at most, before a result is given that was kept
const CATCH_UP: u32 = 64;
