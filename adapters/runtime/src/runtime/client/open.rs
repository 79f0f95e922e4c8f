//! Connecting a client to its server.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::borrow::Borrow;
use core::fmt;
use core::future::{Future, poll_fn, ready};
use core::pin::{Pin, pin};
#[cfg(feature = "http")]
use core::sync::atomic::AtomicBool;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;

use mcp_proto::client::{Config, Keystroke, SubscriptionKey};
#[cfg(feature = "http")]
use mcp_proto::http::client::Config as HttpConfig;
use mcp_proto::model::{CompleteParams, CompleteResult, SubscriptionFilter};
use mcp_proto::{CallKey, Progress, RawJson, UseError};
use mcp_std::catch;
use mcp_std::io::StreamAddress;
use mcp_std::sync::{Inbox, Sender};

use super::Client;
use super::backend::SharedBackend;
use super::driver::{ConnectionDriver, LeaderQueue, MAX_TURNS_PER_POLL, WaiterGuard};
use super::watch::{AsyncDuplex, ConnectionWatch, Run, poll_until};
use crate::Error;
use crate::client::{
    CallAnswer, Callback, CallbackReply, ClientHandler, ClientSetup, ClientTransport, CommandQueue,
    ConnectionHandle, ConnectionTarget, Connector, HandlerSlot, OutcomeReceiver, RemoteHandler, ServerIo,
    SharedCompleter, StreamConnector, StreamTransport, no_handler_error,
};
#[cfg(feature = "http")]
use crate::client::{ExchangeConnector, ExchangeTransport, StartExchange};
use crate::runtime::{PollStream, Runtime};

/// A client that is connecting. Dropping it shuts down a server process that was started for it.
#[must_use = "nothing happens unless it is awaited"]
pub struct Connecting<'a, R: Runtime>(Pin<Box<dyn Future<Output = Result<Client<R>, Error>> + Send + 'a>>);

impl<R: Runtime> Future for Connecting<'_, R> {
    type Output = Result<Client<R>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R: Runtime> fmt::Debug for Connecting<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

impl<R: Runtime> Connector for Client<R> {
    type Connecting<'a> = Connecting<'a, R>;

    fn default_config() -> Config {
        let (name, version) = R::name_and_version();
        Config::new(name, version)
    }

    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_> {
        Connecting(Box::pin(open(setup, target)))
    }

    fn refuse(error: Error) -> Self::Connecting<'static> {
        Connecting(Box::pin(ready(Err(error))))
    }
}

impl<R: PollStream<S>, S: Send + 'static> StreamConnector<S> for Client<R> {
    fn open_stream(setup: ClientSetup, stream: S) -> Self::Connecting<'static> {
        Connecting(Box::pin(async move {
            let queue = Arc::<LeaderQueue>::default();
            let (duplex, watch) = AsyncDuplex::<R, S>::new(stream, Waker::from(queue.clone()));
            let transport =
                StreamTransport::new(setup.engine_config()?, ServerIo::Stream(Box::new(duplex), None));
            open_transport(setup, Box::new(transport), watch, queue).await.map_err(|(error, _)| error)
        }))
    }
}

#[cfg(feature = "http")]
impl<R: Runtime> ExchangeConnector for Client<R> {
    fn open_exchanges(
        setup: ClientSetup,
        http: HttpConfig,
        start: StartExchange,
    ) -> Self::Connecting<'static> {
        Connecting(Box::pin(async move {
            let queue = Arc::<LeaderQueue>::default();
            let is_abandoned = Arc::<AtomicBool>::default();
            let watch = ConnectionWatch::Exchanges(is_abandoned.clone());
            let (config, waker) = (setup.engine_config()?, Waker::from(queue.clone()));
            let transport = ExchangeTransport::new(config, http, start, waker, is_abandoned);
            open_transport(setup, Box::new(transport), watch, queue).await.map_err(|(error, _)| error)
        }))
    }
}

async fn open<R: Runtime>(setup: ClientSetup, target: ConnectionTarget<'_>) -> Result<Client<R>, Error> {
    let queue = Arc::<LeaderQueue>::default();
    match target {
        ConnectionTarget::Program(program) => {
            let (watch, transport) = (descriptors()?, spawn_program(&setup, &*program)?);
            let (error, retry) = match open_transport(setup, Box::new(transport), watch, queue).await {
                Ok(client) => return Ok(client),
                Err(failed) => failed,
            };
            // The fault has named another era for the server (DESIGN-28). A second failure is final.
            let Some(setup) = retry else { return Err(error) };
            let (watch, transport) = (descriptors()?, spawn_program(&setup, &*program)?);
            open_transport(setup, Box::new(transport), watch, Arc::default())
                .await
                .map_err(|(error, _)| error)
        }
        ConnectionTarget::Stream(address) => {
            let watch = descriptors()?;
            let io = connect::<R>(address, setup.open_timeout()).await?;
            let transport = StreamTransport::new(setup.engine_config()?, io);
            open_transport(setup, Box::new(transport), watch, queue).await.map_err(|(error, _)| error)
        }
        #[cfg(feature = "http")]
        ConnectionTarget::Http(http) => {
            let transport = setup.http_transport(http)?.look_up_on::<R>();
            open_transport(setup, Box::new(transport), descriptors()?, queue)
                .await
                .map_err(|(error, _)| error)
        }
    }
}

/// Opens a byte stream on a thread that may block.
async fn connect<R: Runtime>(address: StreamAddress, timeout: Duration) -> io::Result<ServerIo> {
    let inbox = Inbox::new(1);
    let job = ConnectJob(Some(inbox.sender()));
    R::run_blocking(Box::new(move || job.finish(ServerIo::connect(&address, timeout))));
    let mut received = VecDeque::new();
    poll_fn(|cx| {
        inbox.register(cx.waker());
        inbox.take(&mut received);
        received.pop_front().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Reports the outcome of opening a byte stream, also if a pool that shuts down drops the job.
struct ConnectJob(Option<Sender<io::Result<ServerIo>>>);

impl ConnectJob {
    fn finish(mut self, outcome: io::Result<ServerIo>) {
        if let Some(sender) = self.0.take() {
            // Nobody takes it after the future was dropped; the stream is closed then.
            let _ = sender.send(outcome);
        }
    }
}

impl Drop for ConnectJob {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Err(io::Error::other("the threads for blocking work have ended")));
        }
    }
}

/// Starts a server process.
fn spawn_program(
    setup: &ClientSetup,
    program: &(dyn Borrow<mcp_std::process::Program> + Send + '_),
) -> Result<StreamTransport, Error> {
    Ok(StreamTransport::new(setup.engine_config()?, ServerIo::spawn(program.borrow())?))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "the variant for other platforms fails")]
fn descriptors<R: Runtime>() -> Result<ConnectionWatch<R>, Error> {
    Ok(ConnectionWatch::Descriptors(super::watch::DescriptorWatches::new()))
}

#[cfg(not(unix))]
fn descriptors<R: Runtime>() -> Result<ConnectionWatch<R>, Error> {
    Err(Error::Io(io::ErrorKind::Unsupported.into()))
}

/// Waits until the connection is ready. On failure, returns the setup if the connection should be retried.
async fn open_transport<R: Runtime>(
    mut setup: ClientSetup,
    transport: Box<dyn ClientTransport + Send>,
    watch: ConnectionWatch<R>,
    queue: Arc<LeaderQueue>,
) -> Result<Client<R>, (Error, Option<ClientSetup>)> {
    let waker = Waker::from(queue.clone());
    let mut driver = ConnectionDriver::new(setup.connection(transport), watch, waker.clone());
    let outcome = driver.wait_until_ready(&queue).await;
    let over = || Error::closed(mcp_proto::Fault::Closed);
    let Some(inner) = driver.state_mut() else { return Err((over(), None)) };
    match outcome {
        Ok(peer) => {
            setup.configure_results(&mut inner.connection, &peer);
            let (commands, caller) = CommandQueue::new(&mut inner.connection, peer, &waker);
            inner.accept_calls(commands);
            Ok(Client::new(driver, queue, caller))
        }
        Err(error) => {
            let retry = setup.prepare_retry(&mut inner.connection, &error);
            Err((error, retry.then_some(setup)))
        }
    }
}

// Pending calls and subscriptions, which are cancelled when dropped.

/// A call that was started. Await it, or pass it to [`Client::wait`](super::Client::wait), to get its result.
///
/// Dropping it cancels the call and notifies the server.
#[must_use = "dropping it cancels the call"]
pub struct PendingCall<R: Runtime> {
    pub(super) slot: OutcomeReceiver<CallAnswer>,
    pub(super) backend: SharedBackend<R>,
    pub(super) waiter: WaiterGuard,
}

impl<R: Runtime> PendingCall<R> {
    /// Returns the key under which the handler gets progress of the call; `None` until the call has been sent.
    #[must_use]
    pub fn key(&self) -> Option<CallKey> {
        self.slot.call()
    }

    /// Polls for the result, and passes progress to `on_progress`. The task drives the connection as its leader.
    pub(super) fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Poll<Result<CallAnswer, Error>> {
        let Self { slot, backend, waiter } = self;
        if slot.is_finished() {
            return Poll::Ready(Err(Error::Use(UseError::Stale)));
        }
        // A panic ends only the callback. The panic hook has already reported it.
        let mut on_progress = |progress: &Progress| _ = catch(|| on_progress(progress));
        poll_until(backend.shared(), waiter, cx, |cx| slot.poll_outcome(cx.waker(), &mut on_progress))
    }
}

// Awaiting it is the same as `Client::wait`.
impl<R: Runtime> Future for PendingCall<R> {
    type Output = Result<RawJson, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx, &mut |_| {}).map_ok(|(result, _)| result)
    }
}

impl<R: Runtime> Drop for PendingCall<R> {
    fn drop(&mut self) {
        self.backend.shared().caller.cancel(&self.slot, None);
    }
}

/// A call that is awaited for a limited time. Leaves the leader queue when dropped.
pub(super) struct LeaveOnDrop<'a, R: Runtime>(pub(super) &'a mut PendingCall<R>);

impl<R: Runtime> Drop for LeaveOnDrop<'_, R> {
    fn drop(&mut self) {
        self.0.waiter.leave();
    }
}

impl<R: Runtime> fmt::Debug for PendingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("call", &self.slot.call()).finish_non_exhaustive()
    }
}

/// A pending subscription. Unsubscribes if it is dropped before the caller has the key.
pub(super) struct SubscribeGuard<'a> {
    pub(super) slot: OutcomeReceiver<(SubscriptionKey, SubscriptionFilter)>,
    pub(super) caller: &'a ConnectionHandle,
}

impl Drop for SubscribeGuard<'_> {
    fn drop(&mut self) {
        if let Some(Ok((key, _))) = self.slot.close() {
            self.caller.run_unbounded(move |connection| {
                let _ = connection.command(|engine, now| engine.unsubscribe(now, key));
            });
        }
    }
}

// Completion of a text while it is typed.

impl<R: Runtime> Client<R> {
    /// Completes the text of an input field after a keystroke; `None` if another key was pressed before the result came.
    ///
    /// Call it after each keystroke with the same completer. A request is sent when nothing was typed for the
    /// [delay](mcp_proto::client::Completer::delay) of the completer. A later keystroke ends this future, which cancels its
    /// request; dropping it does so, too. Results are cached.
    ///
    /// # Errors
    ///
    /// As [`send`](crate::client::AsyncCalls::send).
    pub async fn complete_typed(
        &self,
        completer: &SharedCompleter,
        params: &CompleteParams<'_>,
    ) -> Result<Option<CompleteResult>, Error> {
        let key = match completer.press(params).map_err(UseError::Encode)? {
            Keystroke::Known(result) => return Ok(Some(result)),
            Keystroke::Pending(key) => key,
        };
        while let Some(left) = completer.time_until_due(key).filter(|left| !left.is_zero()) {
            // It drives the connection, which may have the cancellation of an earlier request to send.
            let mut waiting = pin!(self.poll(left));
            poll_fn(|cx| match completer.poll_replaced(cx, key) {
                Poll::Ready(()) => Poll::Ready(Ok(true)),
                Poll::Pending => waiting.as_mut().poll(cx),
            })
            .await?;
        }
        if !completer.begin(key) {
            return Ok(None);
        }
        let mut call = pin!(self.send(params));
        let outcome = poll_fn(|cx| match completer.poll_replaced(cx, key) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => call.as_mut().poll(cx).map(Some),
        })
        .await;
        let Some(outcome) = outcome else { return Ok(None) };
        let is_wanted = completer.finish(key, outcome.as_ref().ok());
        if is_wanted { outcome.map(Some) } else { Ok(None) }
    }
}

// `RunWith`: a future that drives a connection and owns the connection's handler.
//
// The handler runs in this future only, also while another task drives the connection. So it need not be `Send`.

/// Future that drives a connection to its end, with a handler of its own; see [`Client::run_with`].
#[must_use = "nothing happens unless it is awaited or spawned"]
pub struct RunWith<R: Runtime, H: ClientHandler> {
    run: Run<R>,
    handler: H,
    callbacks: Arc<HandlerQueue>,
    /// Buffer for `run_callbacks`, kept to reuse its memory.
    callback_buffer: VecDeque<Callback>,
}

/// Callbacks that wait for the handler.
struct HandlerQueue {
    inbox: Inbox<Callback>,
    waiting: AtomicUsize,
    bytes: AtomicUsize,
    max_waiting: usize,
    max_waiting_bytes: usize,
}

impl RemoteHandler for Arc<HandlerQueue> {
    /// Queues the callback for the future that owns the handler.
    fn dispatch(&mut self, callback: Callback) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(callback.cost(), Ordering::Relaxed);
        let _ = self.inbox.sender().send_unbounded(callback);
    }

    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.max_waiting
            || self.bytes.load(Ordering::Relaxed) >= self.max_waiting_bytes
    }
}

impl<R: Runtime, H: ClientHandler> RunWith<R, H> {
    pub(super) fn new(client: &Client<R>, handler: H) -> Self {
        let caller = &client.shared().caller;
        let callbacks = Arc::new(HandlerQueue {
            inbox: Inbox::new(usize::MAX),
            waiting: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_waiting: caller.max_waiting(),
            max_waiting_bytes: caller.max_waiting_bytes(),
        });
        let handler_slot = HandlerSlot::Remote(Box::new(callbacks.clone()));
        caller.run_unbounded(move |connection| connection.set_handler(handler_slot));
        Self { run: client.run(), handler, callbacks, callback_buffer: VecDeque::new() }
    }

    /// Runs or defers the waiting callbacks, and sends all replies that are ready. Returns whether there were any.
    fn run_callbacks(&mut self, cx: &Context<'_>) -> bool {
        self.callbacks.inbox.register(cx.waker());
        let mut taken = core::mem::take(&mut self.callback_buffer);
        let mut any = self.callbacks.inbox.take(&mut taken);
        for callback in taken.drain(..) {
            self.callbacks.waiting.fetch_sub(1, Ordering::Relaxed);
            self.callbacks.bytes.fetch_sub(callback.cost(), Ordering::Relaxed);
            if let Some(reply) = callback.dispatch_or_defer(&mut self.handler, self.callbacks.max_waiting) {
                self.reply(reply);
            }
        }
        self.callback_buffer = taken;
        if any {
            // Reading may have been paused because the queue was full.
            self.run.shared().leader_queue.wake_by_ref();
        }
        while let Some(reply) = self.handler.deferred().and_then(|deferred| deferred.poll(cx.waker())) {
            self.reply(reply);
            any = true;
        }
        any
    }

    fn reply(&self, reply: CallbackReply) {
        self.run.shared().caller.run_unbounded(move |connection| connection.reply(reply));
    }
}

// The handler is never pinned.
impl<R: Runtime, H: ClientHandler> Unpin for RunWith<R, H> {}

impl<R: Runtime, H: ClientHandler> Future for RunWith<R, H> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for _ in 0..MAX_TURNS_PER_POLL {
            if let Poll::Ready(outcome) = Pin::new(&mut self.run).poll(cx) {
                let _ = self.run_callbacks(cx);
                return Poll::Ready(outcome);
            }
            if !self.run_callbacks(cx) {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

// Refuses all open requests, and those that arrive before the connection has replaced the handler.
impl<R: Runtime, H: ClientHandler> Drop for RunWith<R, H> {
    fn drop(&mut self) {
        let open =
            catch(|| self.handler.deferred().map(crate::client::DeferredHandler::cancel_all)).ok().flatten();
        open.into_iter().flatten().for_each(|reply| self.reply(reply));
        let queue = self.callbacks.clone();
        self.run.shared().caller.run_unbounded(move |connection| {
            let mut left = VecDeque::new();
            queue.inbox.take(&mut left);
            let refused = left.into_iter().filter_map(|callback| callback.refuse(no_handler_error()));
            refused.for_each(|reply| connection.reply(reply));
            // The connection still holds its clone of the queue, so no other handler has replaced this one.
            if Arc::strong_count(&queue) > 1 {
                connection.set_handler(HandlerSlot::Local(Box::new(())));
            }
        });
    }
}

impl<R: Runtime, H: ClientHandler> fmt::Debug for RunWith<R, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWith").field("run", &self.run).finish_non_exhaustive()
    }
}
