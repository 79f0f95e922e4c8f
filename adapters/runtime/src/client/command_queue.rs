//! Commands from many callers, on other threads or tasks, to one connection.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::sync::{Mutex, OnceLock};

use mcp_proto::client::Peer;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::observe::Observer;
use mcp_proto::{CallKey, Fault, Instant, Limit, RpcError, UseError};
use mcp_std::Clock;
use mcp_std::sync::{Inbox, SendError, Sender, lock};

use super::calls::EngineCommand;
use super::connection::{AcknowledgedSubscription, CallAnswer, Connection};
use super::layers::Layers;
use super::outcome::{OutcomeReceiver, OutcomeSender};
use super::result_cache::ResultCache;
use crate::error::{ConnectionClosed, Error};
use crate::token_rate::TokenRate;

/// The loop's end of the commands to a connection.
///
/// ```text
///   process_commands → turn of the connection → … until it ends or a close is requested → notify_closed
/// ```
#[derive(Debug)]
pub struct CommandQueue {
    inbox: Inbox<ClientCommand>,
    taken: VecDeque<ClientCommand>,
    /// Commands that wait until the server has read most of the output.
    /// The inbox is not emptied while this holds `Limits::max_pending_calls` or more.
    blocked: VecDeque<ClientCommand>,
    /// The time at which all blocked commands fail.
    blocked_deadline: Option<Instant>,
    /// Whether a caller requested the end of the connection.
    close_requested: bool,
    end: Arc<OnceLock<ConnectionExit>>,
}

/// The callers' end. Clones refer to the same connection.
#[derive(Clone)]
pub struct ConnectionHandle {
    sender: Sender<ClientCommand>,
    end: Arc<OnceLock<ConnectionExit>>,
    peer: Arc<Peer>,
    cache: ResultCache,
    observer: Option<Arc<dyn Observer>>,
    layers: Layers,
    max_frame: usize,
    max_waiting: usize,
    max_waiting_bytes: usize,
    clock: Clock,
}

/// A command of a caller.
pub(crate) enum ClientCommand {
    /// Runs a job on the loop.
    Run {
        /// Whether the job runs even while the server is slow to read.
        is_urgent: bool,
        /// The job. It gets the connection, or the reason why it cannot be used.
        job: ClientJob,
    },
    /// Closes the connection.
    Close,
}

/// A job that runs on the loop.
pub type ClientJob = Box<dyn FnOnce(Result<&mut Connection, Error>) + Send>;

/// The end of a connection, for later callers.
#[derive(Debug)]
struct ConnectionExit {
    /// The I/O error that broke the stream, until it is reported once.
    io: Mutex<Option<Error>>,
    closed: Arc<ConnectionClosed>,
}

impl CommandQueue {
    /// Creates both ends for a connection that is ready. `waker` ends the loop's wait when a command arrives.
    #[must_use]
    pub fn new(connection: &mut Connection, peer: Peer, waker: &Waker) -> (Self, ConnectionHandle) {
        let (cache, layers) = (connection.cache.clone(), connection.layers.clone());
        let config = connection.transport.engine().config();
        let limits = config.effective_limits();
        let inbox = Inbox::new(limits.max_pending_calls as usize);
        inbox.register(waker);
        let end = Arc::new(OnceLock::new());
        let handle = ConnectionHandle {
            sender: inbox.sender(),
            end: end.clone(),
            peer: Arc::new(peer),
            cache,
            observer: config.active_observer().cloned(),
            layers,
            max_frame: limits.max_frame,
            max_waiting: limits.max_waiting_requests,
            max_waiting_bytes: limits.max_waiting_bytes,
            clock: Clock::start(),
        };
        let queue = Self {
            inbox,
            taken: VecDeque::new(),
            blocked: VecDeque::new(),
            blocked_deadline: None,
            close_requested: false,
            end,
        };
        (queue, handle)
    }

    /// Runs the queued commands. Commands that are not urgent wait while the server is slow to read.
    pub fn process_commands(&mut self, connection: &mut Connection) {
        // `blocked` is bounded: more commands stay in the inbox, which refuses commands when it is full.
        if self.blocked.len()
            < connection.transport.engine().config().effective_limits().max_pending_calls as usize
        {
            self.inbox.take(&mut self.taken);
        }
        if self.blocked.is_empty() && self.taken.is_empty() {
            return;
        }
        // The oldest first: no command overtakes an earlier one that waits.
        while !self.blocked.is_empty() && has_capacity(connection) {
            self.blocked_deadline = None;
            if let Some(ClientCommand::Run { job, .. }) = self.blocked.pop_front() {
                job(Ok(&mut *connection));
            }
        }
        while let Some(command) = self.taken.pop_front() {
            match command {
                ClientCommand::Close => self.close_requested = true,
                ClientCommand::Run { is_urgent: false, .. }
                    if !self.blocked.is_empty() || !has_capacity(connection) =>
                {
                    self.blocked.push_back(command);
                }
                ClientCommand::Run { job, .. } => job(Ok(&mut *connection)),
            }
        }
        self.fail_expired(connection);
    }

    /// Fails the blocked commands after `Limits::call_timeout`.
    fn fail_expired(&mut self, connection: &mut Connection) {
        if self.blocked.is_empty() {
            self.blocked_deadline = None;
            return;
        }
        let timeout = connection.transport.engine().config().effective_limits().call_timeout;
        let now = connection.transport.tick();
        if *self.blocked_deadline.get_or_insert(now + timeout) <= now {
            self.blocked_deadline = None;
            fail_commands(core::mem::take(&mut self.blocked), || {
                Error::Use(UseError::Full(Limit::OutboxHighWater))
            });
        }
    }

    /// Returns when to call [`process_commands`](Self::process_commands) again without a new command.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<Instant> {
        self.blocked_deadline
    }

    /// Returns whether no command is queued and no close is requested, so that a call may begin without queueing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.blocked.is_empty() && self.taken.is_empty() && self.inbox.is_empty() && !self.close_requested
    }

    /// Returns whether a caller requested the end of the connection.
    #[must_use]
    pub const fn is_close_requested(&self) -> bool {
        self.close_requested
    }

    /// Sends the end of the connection to all present and future callers.
    pub fn notify_closed(&mut self, connection: &mut Connection) {
        connection.notify_closed();
        let mut waiting: VecDeque<_> = core::mem::take(&mut self.blocked);
        waiting.append(&mut self.taken);
        fail_commands(waiting, || connection.closed_error());
        // An I/O error is returned once, and after it the end of the connection.
        let (io, closed) = match connection.closed_error() {
            Error::Closed(closed) => (None, closed),
            io => match connection.closed_error() {
                Error::Closed(closed) => (Some(io), closed),
                _ => (Some(io), Arc::new(ConnectionClosed::unknown(Fault::Closed))),
            },
        };
        // Set the reason before closing the inbox, so that a refused caller finds it.
        let _ = self.end.set(ConnectionExit { io: Mutex::new(io), closed });
        self.inbox.close();
        // Commands that came before the inbox was closed.
        let mut late = VecDeque::new();
        self.inbox.take(&mut late);
        fail_commands(late, || connection.closed_error());
    }
}

/// Returns whether the server has read most of the output, after an attempt to write more.
fn has_capacity(connection: &mut Connection) -> bool {
    if connection.transport.engine().is_congested() {
        connection.flush();
    }
    !connection.transport.engine().is_congested()
}

fn fail_commands(commands: impl IntoIterator<Item = ClientCommand>, mut why: impl FnMut() -> Error) {
    for command in commands {
        if let ClientCommand::Run { job, .. } = command {
            job(Err(why()));
        }
    }
}

impl ConnectionHandle {
    /// Returns the server.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the time since the connection was ready.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the cached results and output schemas of the server.
    #[must_use]
    pub const fn cache(&self) -> &ResultCache {
        &self.cache
    }

    /// Returns the layers around requests.
    #[must_use]
    pub const fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Returns the observer of requests.
    #[must_use]
    pub const fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.observer.as_ref()
    }

    /// Returns the maximum number of bytes of a list, over all of its pages.
    #[must_use]
    pub const fn max_list_bytes(&self) -> usize {
        self.max_frame.saturating_mul(4)
    }

    /// Returns the maximum number of open requests of the server.
    #[must_use]
    pub const fn max_waiting(&self) -> usize {
        self.max_waiting
    }

    /// Maximum number of bytes of callbacks that wait for a handler, from the client's limits.
    pub(crate) const fn max_waiting_bytes(&self) -> usize {
        self.max_waiting_bytes
    }

    /// Queues a call with the command that sends it. `sender` gets its outcome.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`]: the parameters cannot be encoded, or too many commands are queued ([`Limit::PendingCalls`]).
    /// - [`Error::Closed`] or [`Error::Io`]: the connection has ended.
    pub fn call(
        &self,
        sender: OutcomeSender<CallAnswer>,
        command: impl EngineCommand<CallKey>,
    ) -> Result<(), Error> {
        let command = command.detach(self.peer.version, self.observer.as_deref()).map_err(Error::Use)?;
        self.send(move |connection| match connection {
            Ok(connection) => connection.begin_call(sender, command),
            Err(error) => sender.send(Err(error)),
        })
    }

    /// Queues a command that starts no call.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn command(&self, command: impl EngineCommand<()>) -> Result<OutcomeReceiver<()>, Error> {
        let command = command.detach(self.peer.version, self.observer.as_deref()).map_err(Error::Use)?;
        self.run(move |connection| connection.command(command))
    }

    /// Queues a subscription.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn subscribe(
        &self,
        filter: SubscriptionFilter,
    ) -> Result<OutcomeReceiver<AcknowledgedSubscription>, Error> {
        let (sender, receiver) = OutcomeReceiver::new(false);
        self.send(move |connection| match connection {
            Ok(connection) => connection.begin_subscription(sender, &filter),
            Err(error) => sender.send(Err(error)),
        })?;
        Ok(receiver)
    }

    /// Queues a job for the loop, whose result the receiver gets.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<OutcomeReceiver<T>, Error> {
        let (sender, receiver) = OutcomeReceiver::new(false);
        self.send(move |connection| sender.send(connection.and_then(job)))?;
        Ok(receiver)
    }

    /// Queues an urgent job for the loop, beyond the bound of the queue and without a result.
    ///
    /// Use it for jobs whose number is bounded otherwise, for example the end of a call or the answer to an input
    /// request.
    pub fn run_unbounded(&self, job: impl FnOnce(&mut Connection) + Send + 'static) {
        let job: ClientJob = Box::new(move |connection| {
            if let Ok(connection) = connection {
                job(connection);
            }
        });
        // Refused when the connection has ended: there is nothing left to do.
        let _ = self.sender.send_unbounded(ClientCommand::Run { is_urgent: true, job });
    }

    /// Abandons a call: cancels it if it has begun, and prevents it from beginning otherwise.
    pub fn cancel<T>(&self, receiver: &OutcomeReceiver<T>, reason: Option<&str>) {
        if let Some(call) = receiver.abandon() {
            let reason = reason.map(String::from);
            self.run_unbounded(move |connection| {
                connection.cancel(call, reason.as_deref());
            });
        }
    }

    /// Requests the end of the connection, after all earlier commands. Returns `false` if it has ended already.
    pub fn close(&self) -> bool {
        self.sender.send_unbounded(ClientCommand::Close).is_ok()
    }

    fn send(&self, job: impl FnOnce(Result<&mut Connection, Error>) + Send + 'static) -> Result<(), Error> {
        match self.sender.send(ClientCommand::Run { is_urgent: false, job: Box::new(job) }) {
            Ok(()) => Ok(()),
            Err(SendError::Full(_)) => Err(Error::Use(UseError::Full(Limit::PendingCalls))),
            Err(SendError::Closed(_)) => Err(self.closed_error()),
        }
    }

    /// Returns whether the connection has ended and its exit information is known.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    /// Returns the error that describes the end of the connection.
    #[must_use]
    pub fn closed_error(&self) -> Error {
        let Some(end) = self.end.get() else { return Error::closed(Fault::Closed) };
        let io = lock(&end.io).take();
        io.unwrap_or_else(|| Error::Closed(end.closed.clone()))
    }
}

impl fmt::Debug for ClientCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run { .. } => "Run",
            Self::Close => "Close",
        })
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHandle")
            .field("peer", &self.peer)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

// A limit on how often a server is answered.

/// A limit on how often a handler answers its server, for requests that cost money or attention: sampling (SAMP-021),
/// elicitation (ELIC-045). Clones share it.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::RpcError;
/// use mcp_proto::model::{ElicitParams, ElicitResult};
/// use mcp_runtime::RateLimit;
/// use mcp_runtime::client::ClientHandler;
///
/// struct User {
///     limit: RateLimit,
/// }
///
/// impl ClientHandler for User {
///     fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
///         self.limit.check()?;
///         Ok(ElicitResult::decline()) // … or ask the user
///     }
/// }
///
/// let user = User { limit: RateLimit::new(5, Duration::from_secs(60)) };
/// # for _ in 0..5 { user.limit.check()?; }
/// # assert!(user.limit.check().is_err());
/// # Ok::<(), RpcError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    requests: u32,
    period: Duration,
    rate: TokenRate,
    /// The bucket of the rate.
    full_at: Mutex<u64>,
}

impl RateLimit {
    /// Limits to `requests` in each `period`. They may come at once; then one more is permitted after each share of the
    /// period. With no requests, all are refused.
    #[must_use]
    pub fn new(requests: u32, period: Duration) -> Self {
        let rate = TokenRate::new(requests, period, requests);
        Self(Arc::new(Inner { clock: Clock::start(), requests, period, rate, full_at: Mutex::default() }))
    }

    /// Counts a request, if it is permitted now.
    ///
    /// # Errors
    ///
    /// The error that refuses the request and says when another one is permitted. Return it from the handler. It is not
    /// counted.
    pub fn check(&self) -> Result<(), RpcError> {
        self.check_at(self.0.clock.now())
    }

    fn check_at(&self, now: Instant) -> Result<(), RpcError> {
        let Inner { requests, period, rate, full_at, .. } = &*self.0;
        if *requests == 0 {
            return Err(RpcError::internal("the client refuses such requests"));
        }
        let mut full_at = lock(full_at);
        rate.take(&mut full_at, now.as_micros().saturating_mul(1000)).map_err(|after| {
            let seconds = after.as_millis().div_ceil(1000);
            RpcError::internal(format!(
                "the client answers {requests} such requests in {period:?}; try again in {seconds} s"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SAMP-021, ELIC-045
    #[test]
    fn requests_beyond_the_limit_are_refused_until_a_share_has_passed() {
        let limit = RateLimit::new(3, Duration::from_secs(60));
        let start = limit.0.clock.now() + Duration::from_secs(1);
        let check = |seconds| limit.check_at(start + Duration::from_secs(seconds));
        assert_eq!([check(0), check(0), check(0)], [Ok(()), Ok(()), Ok(())]);
        let refused = check(5).unwrap_err();
        assert_eq!(refused.message, "the client answers 3 such requests in 60s; try again in 15 s");
        // A refused request is not counted.
        check(19).unwrap_err();
        check(20).unwrap();
        check(20).unwrap_err();
        // After a pause of the whole period as many may come at once again.
        assert_eq!([check(200), check(200), check(200)], [Ok(()), Ok(()), Ok(())]);
        check(200).unwrap_err();
    }

    #[test]
    fn limit_of_none_refuses_all() {
        let limit = RateLimit::new(0, Duration::from_secs(1));
        assert!(limit.check().is_err());
        let free = RateLimit::new(1, Duration::ZERO);
        assert!(free.check().is_ok() && free.check().is_ok());
    }
}
