//! The connection of a client, driven by the tasks that wait for it.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::future::{Future, poll_fn};
use core::task::Poll;
use core::time::Duration;
use std::sync::Mutex;

use crate::Error;
use crate::client::{
    CallAnswer, Callback, ClientBackend, Connection, ConnectionHandle, EngineCommand, Layers,
    OutcomeReceiver, OutcomeSender, OutcomeUpdate, ResultCache,
};
use mcp_proto::client::Peer;
use mcp_proto::observe::Observer;
use mcp_proto::{CallKey, Instant, Progress};

use super::PendingCall;
use super::driver::{ClientShared, ConnectionDriver, LeaderQueue, WaiterGuard};
use super::watch::poll_until;
use crate::runtime::{AsyncTimer, Runtime, timer_after};

/// The connection of a [`Client`](super::Client), shared by its handles and pending calls.
pub struct SharedBackend<R: Runtime>(Arc<ClientHandle<R>>);

impl<R: Runtime> Clone for SharedBackend<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Closes the connection when the last handle is dropped.
struct ClientHandle<R: Runtime> {
    shared: Arc<ClientShared<R>>,
}

impl<R: Runtime> Drop for ClientHandle<R> {
    fn drop(&mut self) {
        // Fails if the connection has ended already.
        let _ = self.shared.caller.close();
    }
}

impl<R: Runtime> SharedBackend<R> {
    pub(super) fn new(
        driver: ConnectionDriver<R>,
        leader_queue: Arc<LeaderQueue>,
        caller: ConnectionHandle,
    ) -> Self {
        let shared = ClientShared { caller, leader_queue, driver: Mutex::new(driver) };
        Self(Arc::new(ClientHandle { shared: Arc::new(shared) }))
    }

    pub(super) fn shared(&self) -> &Arc<ClientShared<R>> {
        &self.0.shared
    }

    /// Starts a call: immediately if no task drives the connection and no command is queued, otherwise by a command.
    fn begin_with(
        &self,
        sender: OutcomeSender<CallAnswer>,
        command: impl EngineCommand<CallKey>,
    ) -> Result<(), Error> {
        match self.begin_now(sender, command) {
            Ok(()) => Ok(()),
            Err((sender, command)) => self.0.shared.caller.call(sender, command),
        }
    }

    /// Starts a call if no task drives the connection and no command is queued. Otherwise returns the command.
    fn begin_now<C: EngineCommand<CallKey>>(
        &self,
        sender: OutcomeSender<CallAnswer>,
        command: C,
    ) -> Result<(), (OutcomeSender<CallAnswer>, C)> {
        let shared = &*self.0.shared;
        let Ok(mut driver) = shared.driver.try_lock() else { return Err((sender, command)) };
        let Some(inner) = driver.state_mut() else { return Err((sender, command)) };
        if !inner.is_idle() {
            return Err((sender, command));
        }
        inner.connection.begin_call(sender, |engine, now| command.run(engine, now));
        let waits = inner.send_queued(&shared.leader_queue);
        drop(driver);
        if !waits {
            shared.leader_queue.wake_by_ref();
        }
        Ok(())
    }

    /// Runs a job on the connection, in the leader's task, and waits for its result.
    pub(super) async fn run_on_loop<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let slot = self.0.shared.caller.run(job)?;
        self.wait_for(&slot).await
    }

    pub(super) async fn wait_for<T>(&self, slot: &OutcomeReceiver<T>) -> Result<T, Error> {
        let shared = &*self.0.shared;
        let mut waiter = WaiterGuard::new(shared.leader_queue.clone(), false);
        poll_fn(|cx| poll_until(shared, &mut waiter, cx, |cx| slot.poll_outcome(cx.waker(), &mut |_| {})))
            .await
    }
}

impl<R: Runtime> ClientBackend for SharedBackend<R> {
    type PendingCall = PendingCall<R>;

    fn begin(&self, progress: bool, command: impl EngineCommand<CallKey>) -> Result<PendingCall<R>, Error> {
        let (sender, slot) = OutcomeReceiver::new(progress);
        self.begin_with(sender, command)?;
        let waiter = WaiterGuard::new(self.0.shared.leader_queue.clone(), false);
        Ok(PendingCall { slot, backend: self.clone(), waiter })
    }

    async fn command(&self, command: impl EngineCommand<()>) -> Result<(), Error> {
        let slot = self.0.shared.caller.command(command)?;
        self.wait_for(&slot).await
    }

    fn result(
        &self,
        mut call: PendingCall<R>,
        mut on_progress: impl FnMut(&Progress),
    ) -> impl Future<Output = Result<CallAnswer, Error>> {
        poll_fn(move |cx| call.poll_answer(cx, &mut on_progress))
    }

    fn open(&self, command: impl EngineCommand<CallKey>) -> Result<OutcomeReceiver<CallAnswer>, Error> {
        let (sender, slot) = OutcomeReceiver::with_notifications();
        self.begin_with(sender, command)?;
        Ok(slot)
    }

    async fn next_update(
        &self,
        call: &OutcomeReceiver<CallAnswer>,
        timeout: Option<Duration>,
    ) -> Result<Option<OutcomeUpdate<CallAnswer>>, Error> {
        let shared = &*self.0.shared;
        let mut timer = timeout.map_or_else(R::Timer::never, timer_after::<R>);
        let mut waiter = WaiterGuard::new(shared.leader_queue.clone(), false);
        // The last leader may have left work.
        shared.leader_queue.wake_by_ref();
        poll_fn(|cx| {
            poll_until(shared, &mut waiter, cx, |cx| match call.poll(cx.waker()) {
                Poll::Ready(update) => Poll::Ready(Ok(Some(update))),
                Poll::Pending if shared.caller.is_over() => Poll::Ready(Err(shared.caller.closed_error())),
                Poll::Pending => timer.poll(cx).map(|()| Ok(None)),
            })
        })
        .await
    }

    fn abandon(&self, call: &OutcomeReceiver<CallAnswer>) {
        self.0.shared.caller.cancel(call, None);
    }

    async fn catch_up(&self) -> Result<(), Error> {
        self.run_on_loop(|connection| {
            connection.catch_up();
            Ok(())
        })
        .await
    }

    fn dispatch(&self, callback: Callback) {
        self.0.shared.caller.run_unbounded(move |connection| connection.dispatch(callback));
    }

    fn result_cache(&self) -> &ResultCache {
        self.0.shared.caller.cache()
    }

    fn layers(&self) -> &Layers {
        self.0.shared.caller.layers()
    }

    fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.0.shared.caller.observer()
    }

    fn peer(&self) -> &Peer {
        self.0.shared.caller.peer()
    }

    fn now(&self) -> Instant {
        self.0.shared.caller.now()
    }

    fn max_list_bytes(&self) -> usize {
        self.0.shared.caller.max_list_bytes()
    }
}

impl<R: Runtime> fmt::Debug for SharedBackend<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBackend").field("caller", &self.0.shared.caller).finish_non_exhaustive()
    }
}
