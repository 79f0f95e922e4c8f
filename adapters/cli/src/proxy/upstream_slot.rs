//! The place of a server, where one server follows another.
//!
//! To end a server and to start one takes time, so a thread does it: one after the other, because the next server may need what the
//! last one holds.

use alloc::sync::Arc;
use core::time::Duration;
use std::thread::{self, JoinHandle};

use mcp_proto::client::{Config, Engine, Event, Peer};
use mcp_proto::{Fault, Instant};
use mcp_std::poll::WaitRequest;

use super::upstream::{ClientIdentity, Upstream, UpstreamOpener};
use crate::failure::CommandFailure;

/// A server, or the place where the next one will be.
pub(crate) struct UpstreamSlot {
    opener: Arc<UpstreamOpener>,
    identity: ClientIdentity,
    upstream: Option<Upstream>,
    /// Stands for the engine while there is no server. It is never connected, and refuses all commands.
    vacant: Engine,
    worker: Option<Worker>,
}

/// A thread that ends a server or starts one.
enum Worker {
    Ending(JoinHandle<()>),
    Starting(JoinHandle<Result<Upstream, CommandFailure>>),
    /// Starts a server that is to be ended at once: its place was given up meanwhile.
    Discarding(JoinHandle<Result<Upstream, CommandFailure>>),
}

impl Worker {
    /// Waits until no server is left.
    fn wait(self) {
        // A panic was reported by the thread.
        match self {
            Self::Ending(thread) => drop(thread.join()),
            Self::Starting(thread) | Self::Discarding(thread) => {
                if let Ok(Ok(mut upstream)) = thread.join() {
                    upstream.close();
                }
            }
        }
    }
}

impl UpstreamSlot {
    /// Connects to the server as a client of this identity. So do the following servers.
    ///
    /// # Errors
    ///
    /// Fails if no connection is established.
    pub(crate) fn open(
        opener: Arc<UpstreamOpener>,
        identity: ClientIdentity,
    ) -> Result<(Self, Peer), CommandFailure> {
        let upstream = opener.open(&identity)?;
        let peer = upstream.peer.clone();
        let mut slot = Self::vacant(opener, identity);
        slot.upstream = Some(upstream);
        Ok((slot, peer))
    }

    /// Creates the place of a server that is to be started.
    pub(crate) fn vacant(opener: Arc<UpstreamOpener>, identity: ClientIdentity) -> Self {
        Self { opener, identity, upstream: None, vacant: vacant_engine(), worker: None }
    }

    /// Returns the server, and how it is connected to.
    pub(crate) fn opener(&self) -> &UpstreamOpener {
        &self.opener
    }

    /// Returns the name of the server in messages.
    pub(crate) fn name(&self) -> String {
        self.opener.name.as_ref().map_or_else(|| "the server".to_owned(), |name| format!("`{name}`"))
    }

    pub(crate) const fn upstream(&mut self) -> Option<&mut Upstream> {
        self.upstream.as_mut()
    }

    /// Returns the engine that faces the server, and the current time on its clock.
    pub(crate) fn engine(&mut self) -> (Instant, &mut Engine) {
        match &mut self.upstream {
            Some(upstream) => (upstream.wire().now(), upstream.wire().engine()),
            None => (Instant::ZERO, &mut self.vacant),
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.upstream.as_mut()?.poll_event()
    }

    /// Returns what to wait for; `None` while there is nothing.
    pub(crate) fn wait_request(&mut self) -> Option<WaitRequest<'_>> {
        match (&mut self.upstream, &self.worker) {
            (Some(upstream), _) => Some(upstream.wire().wait_request()),
            (None, Some(Worker::Starting(_))) => Some(WaitRequest::unpollable(None)),
            (None, _) => None,
        }
    }

    /// Closes the connection and ends the server, which has died if there is a fault.
    pub(crate) fn end(&mut self, fault: Option<Fault>) {
        let Some(mut upstream) = self.upstream.take() else { return };
        upstream.show_tap();
        let name = self.name();
        let end = move || {
            if let Some(fault) = fault {
                upstream.failure(&fault).print_note(&format!("{name} is started again"));
            }
            upstream.close();
        };
        // Without a thread the server is killed here.
        self.worker = thread::Builder::new().name("probe-end".into()).spawn(end).ok().map(Worker::Ending);
    }

    /// Gives the place up: a server that runs is ended, and one that starts will be.
    pub(crate) fn leave(&mut self) {
        self.end(None);
        self.worker = self.worker.take().map(|worker| match worker {
            Worker::Starting(thread) => Worker::Discarding(thread),
            other => other,
        });
    }

    /// Ends a server that has started after its place was given up. Returns whether none is left.
    pub(crate) fn poll_left(&mut self) -> bool {
        match self.worker.take() {
            None => true,
            Some(Worker::Ending(thread)) if thread.is_finished() => true,
            Some(Worker::Discarding(thread)) if thread.is_finished() => {
                // If it could not be started, its clients are gone, and no failure is reported.
                self.upstream = thread.join().ok().and_then(Result::ok);
                self.end(None);
                self.worker.is_none()
            }
            other => {
                self.worker = other;
                false
            }
        }
    }

    /// Gives the place up without waiting for the end of its server.
    pub(crate) fn abandon(mut self) {
        self.leave();
        let wait = move || {
            while !self.poll_left() {
                thread::sleep(LOOK_INTERVAL);
            }
        };
        // Without a thread the server is killed here, or when it has started.
        let _ = thread::Builder::new().name("probe-end".into()).spawn(wait);
    }

    /// Lets the first server of this place start after the last one of a place that was given up.
    pub(crate) fn follow(&mut self, mut other: Self) {
        self.worker = other.worker.take();
    }

    /// Starts the next server.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread for it.
    pub(crate) fn start(&mut self) -> Result<(), CommandFailure> {
        let (opener, identity, before) =
            (Arc::clone(&self.opener), self.identity.clone(), self.worker.take());
        let start = move || {
            if let Some(before) = before {
                before.wait();
            }
            opener.open(&identity)
        };
        let thread = thread::Builder::new().name("probe-start".into()).spawn(start);
        let thread = thread.map_err(|error| CommandFailure::failed(error.to_string()))?;
        self.worker = Some(Worker::Starting(thread));
        Ok(())
    }

    /// Returns the server that has been started, or why it could not be; `None` if there is no news.
    pub(crate) fn poll_started(&mut self) -> Option<Result<Peer, CommandFailure>> {
        let worker =
            self.worker.take_if(|worker| matches!(worker, Worker::Starting(thread) if thread.is_finished()));
        let Some(Worker::Starting(thread)) = worker else { return None };
        let opened = thread.join().unwrap_or_else(|_| Err(CommandFailure::failed("the start panicked")));
        Some(opened.map(|upstream| self.upstream.insert(upstream).peer.clone()))
    }

    /// Ends the server, and waits for the end of the last one.
    pub(crate) fn close(mut self) {
        if let Some(mut upstream) = self.upstream.take() {
            upstream.close();
        }
        if let Some(Worker::Ending(last)) = self.worker.take() {
            let _ = last.join();
        }
    }
}

/// Returns an engine for a place without a server. It is never connected, and refuses all commands.
pub(crate) fn vacant_engine() -> Engine {
    Engine::new(Arc::new(Config::new("mcp-probe", env!("CARGO_PKG_VERSION"))))
}

/// Time between two looks at a server that is being started.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(10);
