//! The connection of a client, which a thread of its own drives.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, ready};
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant as StdInstant;

use mcp_proto::client::Peer;
use mcp_proto::{CallKey, Instant, Progress, UseError};
use mcp_runtime::Error;
use mcp_runtime::client::{
    CallAnswer, Callback, ClientBackend, ClientHandler, CommandQueue, Connection, ConnectionHandle,
    EngineCommand, HandlerSlot, Layers, OutcomeReceiver, OutcomeUpdate, ReadyConnection, RemoteHandler,
    ResultCache,
};
use mcp_std::catch;
use mcp_std::process::ShutdownReport;

use super::PendingCall;
use super::callback_queue::CallbackQueue;
use super::wait::{wait_for_slot, wait_for_update};

/// The connection of a [`Client`](crate::Client). Its operations run on the thread that moves the bytes.
#[derive(Clone)]
pub struct LoopBackend(Arc<ClientHandle>);

/// State that all handles share.
struct ClientHandle {
    caller: ConnectionHandle,
    callbacks: CallbackQueue,
    loop_thread: Mutex<LoopThread>,
    loop_thread_id: ThreadId,
}

/// The thread that moves the bytes.
enum LoopThread {
    Running(JoinHandle<Result<Option<ShutdownReport>, Error>>),
    /// The thread has ended; this is how the server process ended.
    Finished(Option<ShutdownReport>),
}

impl TryFrom<ReadyConnection> for LoopBackend {
    type Error = Error;

    fn try_from(ReadyConnection { mut connection, peer }: ReadyConnection) -> Result<Self, Error> {
        let waker = connection.transport.waker().map_err(Error::Io)?;
        let handler = connection.take_handler();
        let limits = connection.transport.engine().config().effective_limits();
        let callbacks =
            CallbackQueue::new(limits.max_waiting_requests, limits.max_waiting_bytes, waker.clone());
        connection.handler = HandlerSlot::Remote(Box::new(callbacks.clone()));
        let (commands, caller) = CommandQueue::new(&mut connection, peer, &waker);
        callbacks.spawn_thread(handler, caller.clone())?;
        let loop_callbacks = callbacks.clone();
        let thread = thread::Builder::new().name("mcp-client".into());
        let thread = thread
            .spawn(move || run_loop(commands, connection, &loop_callbacks))
            .inspect_err(|_| callbacks.close())?;
        let thread_id = thread.thread().id();
        let thread = Mutex::new(LoopThread::Running(thread));
        Ok(Self(Arc::new(ClientHandle { caller, callbacks, loop_thread: thread, loop_thread_id: thread_id })))
    }
}

/// Runs the loop until the connection has ended. Returns how the server process ended.
fn run_loop(
    mut commands: CommandQueue,
    mut connection: Connection,
    callbacks: &CallbackQueue,
) -> Result<Option<ShutdownReport>, Error> {
    let result = catch(|| {
        loop {
            commands.process_commands(&mut connection);
            if commands.is_close_requested() || connection.is_over() {
                break;
            }
            connection.turn(commands.next_deadline(), &mut None);
        }
    });
    if let Err(panic) = result {
        // A stream that the program provided has panicked: do not use it again, and fail all calls.
        connection.abort_unclean(io::Error::other(panic.to_string()));
    }
    commands.notify_closed(&mut connection);
    let ended = connection.finish();
    callbacks.close();
    ended
}

impl LoopBackend {
    pub(super) fn caller(&self) -> &ConnectionHandle {
        &self.0.caller
    }

    pub(super) fn set_handler(&self, handler: Box<dyn ClientHandler + Send>) {
        self.0.callbacks.set_handler(handler);
    }

    /// Closes the connection, and waits for the callbacks that it leaves.
    pub(super) fn close(&self) -> Result<Option<ShutdownReport>, Error> {
        let ended = self.0.close();
        self.0.callbacks.wait_until_ended();
        ended
    }

    /// Runs a job on the loop's thread and waits for its result.
    pub(super) fn run_on_loop<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.wait_for(&self.0.caller.run(job)?)
    }

    pub(super) fn wait_for<T>(&self, slot: &OutcomeReceiver<T>) -> Result<T, Error> {
        wait_for_slot(slot, None, &mut |_| {}).unwrap_or_else(|| Err(self.0.caller.closed_error()))
    }

    /// Waits for the result of a call, and passes its progress to `on_progress`.
    #[expect(clippy::needless_pass_by_value, reason = "a call has one result")]
    pub(super) fn wait(
        &self,
        call: PendingCall,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<CallAnswer, Error> {
        if call.slot.is_finished() {
            return Err(Error::Use(UseError::Stale));
        }
        wait_for_slot(&call.slot, None, on_progress).unwrap_or_else(|| Err(self.0.caller.closed_error()))
    }
}

impl ClientBackend for LoopBackend {
    type PendingCall = PendingCall;

    fn begin(&self, progress: bool, command: impl EngineCommand<CallKey>) -> Result<PendingCall, Error> {
        let (sender, slot) = OutcomeReceiver::new(progress);
        self.0.caller.call(sender, command)?;
        Ok(PendingCall { slot, backend: self.clone() })
    }

    fn command(&self, command: impl EngineCommand<()>) -> impl Future<Output = Result<(), Error>> {
        ready(self.0.caller.command(command).and_then(|slot| self.wait_for(&slot)))
    }

    fn result(
        &self,
        call: PendingCall,
        mut on_progress: impl FnMut(&Progress),
    ) -> impl Future<Output = Result<CallAnswer, Error>> {
        ready(self.wait(call, &mut on_progress))
    }

    fn open(&self, command: impl EngineCommand<CallKey>) -> Result<OutcomeReceiver<CallAnswer>, Error> {
        let (sender, slot) = OutcomeReceiver::with_notifications();
        self.0.caller.call(sender, command)?;
        Ok(slot)
    }

    fn next_update(
        &self,
        call: &OutcomeReceiver<CallAnswer>,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<Option<OutcomeUpdate<CallAnswer>>, Error>> {
        // A time that is too far away is no limit.
        let until = timeout.and_then(|timeout| StdInstant::now().checked_add(timeout));
        ready(Ok(wait_for_update(call, until)))
    }

    fn abandon(&self, call: &OutcomeReceiver<CallAnswer>) {
        self.0.caller.cancel(call, None);
    }

    fn catch_up(&self) -> impl Future<Output = Result<(), Error>> {
        ready(self.run_on_loop(|connection| {
            connection.catch_up();
            Ok(())
        }))
    }

    fn dispatch(&self, callback: Callback) {
        self.0.callbacks.clone().dispatch(callback);
    }

    fn result_cache(&self) -> &ResultCache {
        self.0.caller.cache()
    }

    fn layers(&self) -> &Layers {
        self.0.caller.layers()
    }

    fn peer(&self) -> &Peer {
        self.0.caller.peer()
    }

    fn now(&self) -> Instant {
        self.0.caller.now()
    }

    fn max_list_bytes(&self) -> usize {
        self.0.caller.max_list_bytes()
    }
}

impl ClientHandle {
    /// Closes the connection and joins the loop's thread, unless this is the loop's thread.
    fn close(&self) -> Result<Option<ShutdownReport>, Error> {
        let _ = self.caller.close();
        if thread::current().id() == self.loop_thread_id {
            return Ok(None);
        }
        let mut thread = self.loop_thread.lock().unwrap_or_else(PoisonError::into_inner);
        match core::mem::replace(&mut *thread, LoopThread::Finished(None)) {
            LoopThread::Running(running) => {
                let ended = running.join().unwrap_or(Ok(None))?;
                *thread = LoopThread::Finished(ended.clone());
                Ok(ended)
            }
            LoopThread::Finished(ended) => {
                *thread = LoopThread::Finished(ended.clone());
                Ok(ended)
            }
        }
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl fmt::Debug for LoopBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopBackend").field("caller", &self.0.caller).finish_non_exhaustive()
    }
}
