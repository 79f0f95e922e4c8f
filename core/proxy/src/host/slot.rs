//! The place of a server, where one server follows another.
//!
//! To end a server and to start one takes time, so a thread does it: one after the other, because the next server may need what the
//! last one holds.

use alloc::sync::Arc;
use core::time::Duration;
use std::thread::{self, JoinHandle};

use mcp_proto::client::{Engine, Event, Peer};
use mcp_proto::{Fault, Instant};
use mcp_std::poll::WaitRequest;

use super::client::ClientIdentity;
use super::notice::{Lost, Notice, Operator};
use super::upstream::{Connect, ConnectError, Connection, vacant_engine};

/// A server, or the place where the next one will be.
pub(super) struct UpstreamSlot {
    connector: Arc<dyn Connect>,
    reporter: Reporter,
    identity: ClientIdentity,
    upstream: Option<Connection>,
    /// Stands for the engine while there is no server. It is never connected, and refuses all commands.
    vacant: Engine,
    worker: Option<Worker>,
}

/// A thread that ends a server or starts one.
enum Worker {
    Ending(JoinHandle<()>),
    Starting(JoinHandle<Result<Connection, ConnectError>>),
    /// Ends a server when it has started: its place was given up meanwhile.
    Discarding(JoinHandle<()>),
}

/// What tells of the end of a server, on any thread.
#[derive(Clone)]
struct Reporter {
    name: Option<String>,
    operator: Arc<dyn Operator>,
}

impl Reporter {
    fn close(&self, upstream: Connection) {
        let outcome = upstream.close();
        self.operator.notice(&Notice::Closed { server: self.name.as_deref(), outcome: &outcome });
    }

    /// Waits until no server is left.
    fn wait(&self, worker: Worker) {
        // A panic was reported by the thread.
        match worker {
            Worker::Ending(thread) | Worker::Discarding(thread) => drop(thread.join()),
            // If it cannot be started, its clients are gone, and no failure is reported.
            Worker::Starting(thread) => {
                if let Ok(Ok(mut upstream)) = thread.join() {
                    upstream.show_tap();
                    self.close(upstream);
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
    pub(super) fn open(
        connector: Arc<dyn Connect>,
        operator: Arc<dyn Operator>,
        identity: ClientIdentity,
    ) -> Result<(Self, Peer), ConnectError> {
        let upstream = connector.connect(&identity)?;
        let peer = upstream.peer().clone();
        let mut slot = Self::vacant(None, connector, operator, identity);
        slot.upstream = Some(upstream);
        Ok((slot, peer))
    }

    /// Creates the place of a server that is to be started. Behind a gateway it has a name.
    pub(super) fn vacant(
        name: Option<String>,
        connector: Arc<dyn Connect>,
        operator: Arc<dyn Operator>,
        identity: ClientIdentity,
    ) -> Self {
        let reporter = Reporter { name, operator };
        Self { connector, reporter, identity, upstream: None, vacant: vacant_engine(), worker: None }
    }

    /// Returns how the server is connected to.
    pub(super) fn connector(&self) -> &Arc<dyn Connect> {
        &self.connector
    }

    /// Returns the name of the server behind a gateway.
    pub(super) fn name(&self) -> &str {
        self.reporter.name.as_deref().unwrap_or_default()
    }

    pub(super) const fn upstream(&mut self) -> Option<&mut Connection> {
        self.upstream.as_mut()
    }

    /// Returns the engine that faces the server, and the current time on its clock.
    pub(super) fn engine(&mut self) -> (Instant, &mut Engine) {
        match &mut self.upstream {
            Some(upstream) => (upstream.wire().now(), upstream.wire().engine()),
            None => (Instant::ZERO, &mut self.vacant),
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.upstream.as_mut()?.poll_event()
    }

    /// Returns what to wait for; `None` while there is nothing.
    pub(super) fn wait_request(&mut self) -> Option<WaitRequest<'_>> {
        match (&mut self.upstream, &self.worker) {
            (Some(upstream), _) => Some(upstream.wire().wait_request()),
            (None, Some(Worker::Starting(_))) => Some(WaitRequest::unpollable(None)),
            (None, _) => None,
        }
    }

    /// Closes the connection and ends the server, which has died if there is a fault.
    pub(super) fn end(&mut self, fault: Option<Fault>) {
        let Some(mut upstream) = self.upstream.take() else { return };
        upstream.show_tap();
        let reporter = self.reporter.clone();
        let end = move || {
            if let Some(fault) = fault {
                let exit = upstream.wire().exit_info(EXIT_STATUS_TIMEOUT);
                let server = reporter.name.as_deref();
                reporter.operator.notice(&Notice::Lost { server, cause: &Lost { fault, exit } });
            }
            reporter.close(upstream);
        };
        // Without a thread the server is killed here.
        self.worker = spawn_end(end).map(Worker::Ending);
    }

    /// Gives the place up without waiting: a server that runs is ended, and one that starts will be.
    pub(super) fn leave(&mut self) {
        self.end(None);
        if let Some(starting) = self.worker.take_if(|worker| matches!(worker, Worker::Starting(_))) {
            let reporter = self.reporter.clone();
            // Without a thread the server is killed when it has started.
            self.worker = spawn_end(move || reporter.wait(starting)).map(Worker::Discarding);
        }
    }

    /// Returns whether the server of a place that was given up has ended.
    pub(super) fn has_left(&self) -> bool {
        match &self.worker {
            Some(Worker::Ending(thread) | Worker::Discarding(thread)) => thread.is_finished(),
            other => other.is_none(),
        }
    }

    /// Lets the first server of this place start after the last one of a place that was given up.
    pub(super) fn follow(&mut self, mut other: Self) {
        self.worker = other.worker.take();
    }

    /// Starts the next server.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread for it.
    pub(super) fn start(&mut self) -> Result<(), ConnectError> {
        let (connector, reporter) = (Arc::clone(&self.connector), self.reporter.clone());
        let (identity, before) = (self.identity.clone(), self.worker.take());
        let start = move || {
            if let Some(before) = before {
                reporter.wait(before);
            }
            connector.connect(&identity)
        };
        let thread = thread::Builder::new().name("mcp-start".into()).spawn(start);
        let thread = thread.map_err(|error| ConnectError::new(NO_THREAD, error))?;
        self.worker = Some(Worker::Starting(thread));
        Ok(())
    }

    /// Returns the server that has been started, or why it could not be; `None` if there is no news.
    pub(super) fn poll_started(&mut self) -> Option<Result<Peer, ConnectError>> {
        let worker =
            self.worker.take_if(|worker| matches!(worker, Worker::Starting(thread) if thread.is_finished()));
        let Some(Worker::Starting(thread)) = worker else { return None };
        let opened =
            thread.join().unwrap_or_else(|_| Err(ConnectError::new(NO_THREAD, "the start panicked")));
        Some(opened.map(|upstream| self.upstream.insert(upstream).peer().clone()))
    }

    /// Ends the server, and waits for the end of the last one.
    pub(super) fn close(mut self) {
        if let Some(upstream) = self.upstream.take() {
            self.reporter.close(upstream);
        }
        match self.worker {
            Some(Worker::Ending(last)) => drop(last.join()),
            // What is still being started is not waited for: it is ended when it has started.
            _ => self.leave(),
        }
    }
}

fn spawn_end(end: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    thread::Builder::new().name("mcp-end".into()).spawn(end).ok()
}

/// Why a server cannot be started, as clients are told.
const NO_THREAD: &str = "it cannot be connected to";
/// Time to wait for the exit status of a server that has closed its output.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two looks at a server that is being started.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(10);
