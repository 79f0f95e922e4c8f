//! The connection of a client, driven by the thread that calls.

use core::cell::{RefCell, RefMut};
use core::task::{Poll, Waker};
use core::time::Duration;

use mcp_proto::client::Peer;
use mcp_proto::{CallError, CallKey, Instant, Progress};
use mcp_runtime::Error;
use mcp_runtime::client::{
    CallAnswer, Callback, ClientBackend, Connection, EngineCommand, Layers, OutcomeReceiver, OutcomeUpdate,
    ResultCache,
};

/// The connection of a [`Client`](crate::Client). Its operations run on the calling thread.
#[derive(Debug)]
pub struct LocalBackend {
    /// Borrowed while an operation runs, and so in every callback.
    connection: RefCell<Connection>,
    /// The cache of `connection`.
    cache: ResultCache,
    layers: Layers,
    pub(super) peer: Peer,
    max_list_bytes: usize,
}

impl LocalBackend {
    pub(super) fn new(mut connection: Connection, peer: Peer) -> Self {
        let (cache, layers) = (connection.cache.clone(), connection.layers.clone());
        let max_frame = connection.transport.engine().config().effective_limits().max_frame;
        let max_list_bytes = max_frame.saturating_mul(4);
        Self { connection: RefCell::new(connection), cache, layers, peer, max_list_bytes }
    }

    /// Returns the connection, of which no operation runs.
    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.get_mut()
    }

    /// Returns the connection for one operation.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] in a callback.
    pub(super) fn try_connection(&self) -> Result<RefMut<'_, Connection>, Error> {
        self.connection.try_borrow_mut().map_err(|_| Error::Busy)
    }

    /// Waits for the result of a call, and passes its progress to `on_progress`.
    pub(super) fn wait(
        &self,
        call: CallKey,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<CallAnswer, Error> {
        let result = self.try_connection()?.wait_outcome(call, None, &mut Some((call, on_progress)))?;
        result.ok_or(Error::Call(CallError::TimedOut))
    }
}

impl ClientBackend for LocalBackend {
    type PendingCall = CallKey;

    /// Starts a call. While the server is slow to read, blocks for up to [`call_timeout`](mcp_proto::Limits).
    fn begin(&self, _progress: bool, command: impl EngineCommand<CallKey>) -> Result<CallKey, Error> {
        self.try_connection()?.start(|engine, now| command.run(engine, now))
    }

    async fn command(&self, command: impl EngineCommand<()>) -> Result<(), Error> {
        self.try_connection()?.command(|engine, now| command.run(engine, now))
    }

    async fn result(
        &self,
        call: CallKey,
        mut on_progress: impl FnMut(&Progress),
    ) -> Result<CallAnswer, Error> {
        self.wait(call, &mut on_progress)
    }

    fn open(&self, command: impl EngineCommand<CallKey>) -> Result<OutcomeReceiver<CallAnswer>, Error> {
        let (sender, receiver) = OutcomeReceiver::with_notifications();
        let mut connection = self.try_connection()?;
        connection.check_open()?;
        connection.begin_call(sender, |engine, now| command.run(engine, now));
        connection.flush();
        Ok(receiver)
    }

    async fn next_update(
        &self,
        call: &OutcomeReceiver<CallAnswer>,
        timeout: Option<Duration>,
    ) -> Result<Option<OutcomeUpdate<CallAnswer>>, Error> {
        let mut connection = self.try_connection()?;
        let until = timeout.map(|timeout| connection.transport.tick() + timeout);
        loop {
            if let Poll::Ready(update) = call.poll(Waker::noop()) {
                return Ok(Some(update));
            }
            connection.check_open()?;
            if until.is_some_and(|until| until <= connection.transport.now()) {
                return Ok(None);
            }
            connection.turn(until, &mut None);
        }
    }

    fn abandon(&self, call: &OutcomeReceiver<CallAnswer>) {
        // In a callback nothing can be sent: the next notification cancels the call.
        if let (Some(call), Ok(mut connection)) = (call.abandon(), self.try_connection()) {
            connection.cancel(call, None);
            connection.flush();
        }
    }

    async fn catch_up(&self) -> Result<(), Error> {
        let mut connection = self.try_connection()?;
        connection.check_open()?;
        connection.catch_up();
        connection.check_open()
    }

    /// Runs or defers the callback. A callback cannot cause another one, so the connection is free.
    fn dispatch(&self, callback: Callback) {
        if let Ok(mut connection) = self.try_connection() {
            connection.dispatch(callback);
        }
    }

    fn result_cache(&self) -> &ResultCache {
        &self.cache
    }

    fn layers(&self) -> &Layers {
        &self.layers
    }

    fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the time of the connection, which is virtual in tests.
    fn now(&self) -> Instant {
        self.try_connection().map_or(Instant::ZERO, |mut connection| connection.transport.tick())
    }

    fn max_list_bytes(&self) -> usize {
        self.max_list_bytes
    }
}
