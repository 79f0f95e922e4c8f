//! Followers over a connection: a machine of [`follow`](crate::follow), and the calls that it asks for.

use core::fmt;
use core::time::Duration;

use alloc::string::ToString as _;

use mcp_proto::{CallError, CallOptions, Instant, UseError};
use mcp_runtime::client::{BlockingCalls, CallUpdate, ClientBackend, LongLivedCall};

use super::{Error, EventsClient, FollowOptions, entropy};
use crate::follow::{FollowAction, FollowError, FollowEvent, Follower, Subscription};
use crate::wire::{self, DeliveryMode, EventType};

/// Follower of an event type, on a client of futures. Dropping it ends its stream.
#[must_use = "it does nothing unless `next` is awaited"]
pub struct EventFollower<'a, B: ClientBackend> {
    events: EventsClient<'a, B>,
    machine: Follower,
    stream: Option<LongLivedCall<'a, B>>,
    /// Number of changes of the list of types that the machine knows of.
    list_changes: u64,
}

impl<'a, B: ClientBackend> EventFollower<'a, B> {
    pub(super) fn new(
        events: EventsClient<'a, B>,
        described: &EventType,
        subscription: Subscription,
        options: FollowOptions,
    ) -> Result<Self, Error> {
        let FollowOptions { config, cursor, only_polls } = options;
        let has_streams = events.has_streams() && !only_polls;
        let machine = Follower::new(config, subscription, described, has_streams, cursor, entropy()?)?;
        let list_changes = events.list_changes();
        Ok(Self { events, machine, stream: None, list_changes })
    }

    /// Returns the position behind everything that [`next`](Self::next) has returned, to be stored when that was handled, and given
    /// to a later follower ([`FollowOptions::cursor`]). `None` if nothing is to be stored, and what is stored stays: in the middle of
    /// the events of a poll, and if the type has no positions (EVT-141).
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.machine.cursor()
    }

    /// Sets the largest number of events of the next polls, as [`Follower::set_max_events`] does.
    pub fn set_max_events(&mut self, max_events: Option<u64>) {
        self.machine.set_max_events(max_events);
    }

    /// Returns how events come: [`DeliveryMode::Push`] or [`DeliveryMode::Poll`].
    #[must_use]
    pub const fn mode(&self) -> &DeliveryMode {
        self.machine.mode()
    }

    /// Waits for what happens next. Returns `None` after [`FollowEvent::Ended`].
    ///
    /// If the client subscribes to changes of [`EVENTS_LIST`](wire::EVENTS_LIST), they are noticed with the next message or request, and
    /// the list is read again (EVT-019); see [`Follower::handle_list_changed`].
    ///
    /// Dropping the future loses nothing. Between two calls the connection holds a bounded number of events
    /// ([`Limits::max_events`](mcp_proto::Limits)); beyond that the stream is opened anew, from the last position.
    ///
    /// # Errors
    ///
    /// [`Error::Client`] if the connection has ended, or does not take a call.
    pub async fn next(&mut self) -> Result<Option<FollowEvent>, Error> {
        self.next_until(None).await
    }

    /// Waits as [`next`](Self::next) does, for `time` at most. Returns `None` if that passes, too: see [`has_ended`](Self::has_ended).
    ///
    /// A request that was sent is awaited to its end, within the timeout of calls.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn next_within(&mut self, time: Duration) -> Result<Option<FollowEvent>, Error> {
        let until = self.events.calls.backend().now() + time;
        self.next_until(Some(until)).await
    }

    /// Returns whether [`FollowEvent::Ended`] was returned.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.machine.has_ended()
    }

    async fn next_until(&mut self, until: Option<Instant>) -> Result<Option<FollowEvent>, Error> {
        let backend = self.events.calls.backend();
        if self.stream.is_none() {
            // The future of an earlier call was dropped, and its request with it.
            self.machine.handle_abandoned(backend.now());
        }
        loop {
            if let Some(event) = self.machine.poll_event() {
                return Ok(Some(event));
            }
            if self.machine.has_ended() {
                self.stream = None;
                return Ok(None);
            }
            let now = backend.now();
            let list_changes = self.events.list_changes();
            if core::mem::replace(&mut self.list_changes, list_changes) != list_changes {
                self.machine.handle_list_changed(now);
            }
            if let Some(action) = self.machine.poll_action(now) {
                self.act(action).await?;
                continue;
            }
            if until.is_some_and(|until| until <= now) {
                return Ok(None);
            }
            let due = self.machine.poll_timeout();
            let wait = due.into_iter().chain(until).min().map(|at| at.saturating_duration_since(now));
            match (&mut self.stream, due.and(wait)) {
                (Some(stream), _) => {
                    let update = stream.next(wait).await;
                    self.handle_update(update)?;
                }
                (None, Some(wait)) => backend.pause(wait).await?,
                // A request that has no stream is awaited when it is sent.
                (None, None) => self.machine.handle_abandoned(now),
            }
            self.machine.handle_timeout(backend.now());
        }
    }

    async fn act(&mut self, action: FollowAction) -> Result<(), Error> {
        let calls = self.events.calls;
        match action {
            FollowAction::Poll(params) => {
                let outcome = calls.request(wire::POLL, &params, &CallOptions::new()).await;
                self.machine.handle_polled(calls.backend().now(), outcome_of(outcome.map_err(Error::from))?);
            }
            FollowAction::Open(params) => match calls.open(wire::STREAM, &params, &CallOptions::new()) {
                Ok(stream) => self.stream = Some(stream),
                Err(error) => {
                    self.machine.handle_stream_end(calls.backend().now(), Err(passing(error)?));
                }
            },
            FollowAction::List => {
                let name = self.machine.subscription().name.clone();
                let outcome = outcome_of(self.events.find(&name).await)?;
                self.machine.handle_listed(calls.backend().now(), outcome);
            }
            FollowAction::Close => self.stream = None,
        }
        Ok(())
    }

    fn handle_update(&mut self, update: Result<Option<CallUpdate>, mcp_runtime::Error>) -> Result<(), Error> {
        let now = self.events.calls.backend().now();
        match update {
            Ok(Some(CallUpdate::Notification(notification))) => {
                self.machine.handle_notification(now, &notification.method, notification.params.as_ref());
            }
            Ok(Some(CallUpdate::Ended(_))) => {
                self.stream = None;
                self.machine.handle_stream_end(now, Ok(()));
            }
            Ok(_) => {}
            Err(error) => {
                let error = passing(error)?;
                self.stream = None;
                self.machine.handle_stream_end(now, Err(error));
            }
        }
        Ok(())
    }
}

/// Returns what a call means for a subscription.
///
/// # Errors
///
/// An error after which no other call can succeed.
pub(super) fn outcome_of<T>(outcome: Result<T, Error>) -> Result<Result<T, FollowError>, Error> {
    match outcome {
        Ok(result) => Ok(Ok(result)),
        Err(Error::Client(error)) => Ok(Err(passing(error)?)),
        Err(error) => Err(error),
    }
}

/// Returns what a failed call means for a follower.
///
/// # Errors
///
/// The error itself, if no other call can succeed.
fn passing(error: mcp_runtime::Error) -> Result<FollowError, mcp_runtime::Error> {
    match error {
        mcp_runtime::Error::Call(CallError::Rpc(error)) => Ok(FollowError::Server(error)),
        mcp_runtime::Error::Call(error) if error.is_access_refused() => {
            Ok(FollowError::Refused(error.to_string()))
        }
        mcp_runtime::Error::Call(error) => Ok(match error.retry_after() {
            Some(retry_after) => FollowError::Busy { reason: error.to_string(), retry_after },
            None => FollowError::Lost(error.to_string()),
        }),
        mcp_runtime::Error::Use(UseError::Full(limit)) => {
            Ok(FollowError::Lost(UseError::Full(limit).to_string()))
        }
        mcp_runtime::Error::UnexpectedResult(text) => Ok(FollowError::Malformed(text)),
        other => Err(other),
    }
}

impl<B: ClientBackend> fmt::Debug for EventFollower<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFollower").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// Follower of an event type, on a client that blocks. As an iterator it returns what [`next_event`](Self::next_event) does.
/// Dropping it ends its stream.
#[must_use = "it does nothing unless it is asked for events"]
pub struct BlockingEventFollower<'a, B: ClientBackend> {
    calls: &'a BlockingCalls<B>,
    follower: EventFollower<'a, B>,
}

impl<'a, B: ClientBackend> BlockingEventFollower<'a, B> {
    pub(super) const fn new(calls: &'a BlockingCalls<B>, follower: EventFollower<'a, B>) -> Self {
        Self { calls, follower }
    }

    /// Returns the position, as [`EventFollower::cursor`] does.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.follower.cursor()
    }

    /// Sets the largest number of events of the next polls, as [`Follower::set_max_events`] does.
    pub fn set_max_events(&mut self, max_events: Option<u64>) {
        self.follower.set_max_events(max_events);
    }

    /// Returns how events come: [`DeliveryMode::Push`] or [`DeliveryMode::Poll`].
    #[must_use]
    pub const fn mode(&self) -> &DeliveryMode {
        self.follower.mode()
    }

    /// Waits for what happens next, as [`EventFollower::next`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next_event(&mut self) -> Result<Option<FollowEvent>, Error> {
        self.calls.block_on(self.follower.next())
    }

    /// Waits for what happens next, for `time` at most, as [`EventFollower::next_within`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next_event_within(&mut self, time: Duration) -> Result<Option<FollowEvent>, Error> {
        self.calls.block_on(self.follower.next_within(time))
    }

    /// Returns whether [`FollowEvent::Ended`] was returned.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.follower.has_ended()
    }
}

impl<B: ClientBackend> Iterator for BlockingEventFollower<'_, B> {
    type Item = Result<FollowEvent, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

impl<B: ClientBackend> fmt::Debug for BlockingEventFollower<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.follower.fmt(f)
    }
}
