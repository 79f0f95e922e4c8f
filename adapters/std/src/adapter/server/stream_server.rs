//! Servers at the address of a byte stream: a thread for each connection.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::handle::Handle;
use crate::Error;
use crate::adapter::poll::{Notifier, PollHandles};
use crate::io::{Socket, StreamAddress, StreamListener, is_resource_exhausted};

/// A server at a TCP or Unix address, whose connections carry one message per line.
///
/// Each connection runs on a thread of its own, with an engine and a handler of its own. At most
/// [`max_connections`](Self::max_connections) are open; another one is accepted and closed at once, so that its client
/// sees the end of the stream and does not wait.
///
/// There is neither encryption nor authorization, and nothing like the `Host` and `Origin` checks of HTTP: everybody who
/// can reach the address can use the server.
///
/// An asynchronous adapter can do without this type: it serves each stream that a listener of its runtime accepts.
pub struct StreamServer {
    listener: StreamListener,
    max_connections: usize,
    shared: Arc<Shared>,
}

impl StreamServer {
    /// Listens at an address, as [`StreamListener::bind`] does.
    ///
    /// # Errors
    ///
    /// As [`StreamListener::bind`].
    pub fn bind(address: &StreamAddress) -> io::Result<Self> {
        let listener = StreamListener::bind(address)?;
        let shared = Shared { notifier: Notifier::new()?, ended: Condvar::new(), state: Mutex::default() };
        Ok(Self { listener, max_connections: DEFAULT_MAX_CONNECTIONS, shared: Arc::new(shared) })
    }

    /// Sets the maximum number of open connections (default 64, at least 1). A connection beyond it is closed at once.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Returns the address that the server is bound to.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn address(&self) -> io::Result<StreamAddress> {
        self.listener.address()
    }

    /// Returns whether other machines can reach the address.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn is_reachable_from_outside(&self) -> io::Result<bool> {
        self.listener.is_reachable_from_outside()
    }

    /// Returns a handle that shuts the server down from any thread.
    #[must_use]
    pub fn handle(&self) -> StreamServerHandle {
        StreamServerHandle(Arc::clone(&self.shared))
    }

    /// Accepts connections, and runs `serve` on a thread for each, until [`StreamServerHandle::shutdown`].
    ///
    /// `serve` makes the handler of its connection and serves the stream to its end. What it registers with
    /// [`StreamConnection::on_shutdown`] or [`StreamConnection::shut_down`] runs when the server shuts down. Its error, or
    /// its panic, ends that connection only.
    ///
    /// After a shutdown no connection is accepted, and the running ones have the grace period. Threads that have not ended
    /// by then are left behind.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the listener fails. A lack of descriptors or threads passes: the connections
    /// wait, or are closed.
    pub fn run(
        self,
        serve: impl Fn(Socket, &StreamConnection) -> Result<(), Error> + Send + Sync + 'static,
    ) -> io::Result<()> {
        let Self { listener, max_connections, shared } = self;
        let serve = Arc::new(serve);
        let grace = loop {
            if let Some(grace) = shared.lock().shutdown {
                break grace;
            }
            let timeout = match listener.accept() {
                Ok(Some(socket)) => {
                    // A refused connection is closed here.
                    if let Some(connection) = Shared::open(&shared, max_connections) {
                        let serve = Arc::clone(&serve);
                        // Without a thread the connection is closed.
                        let _ = thread::Builder::new().name("mcp stream".into()).spawn(move || {
                            // Whoever cares for the error has handled it.
                            let _ = serve(socket, &connection);
                        });
                    }
                    continue;
                }
                Ok(None) => None,
                Err(error) if is_resource_exhausted(&error) => Some(EXHAUSTED_PAUSE),
                Err(error) => return Err(error),
            };
            let read = timeout.is_none().then(|| listener.as_fd());
            let handles = PollHandles { read, notifier: Some(&shared.notifier), ..PollHandles::default() };
            handles.wait(timeout)?;
        };
        // Removes the file of a Unix socket.
        drop(listener);
        shared.wait_for_connections(grace + FINAL_WRITE_TIME);
        Ok(())
    }
}

impl fmt::Debug for StreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamServer")
            .field("listener", &self.listener)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

/// Shuts a [`StreamServer`] down from any thread.
#[derive(Clone)]
pub struct StreamServerHandle(Arc<Shared>);

impl StreamServerHandle {
    /// Stops accepting connections, and gives the running ones `grace` to answer their calls.
    ///
    /// A second call does nothing.
    pub fn shutdown(&self, grace: Duration) {
        let callbacks = {
            let mut state = self.0.lock();
            if state.shutdown.is_some() {
                return;
            }
            state.shutdown = Some(grace);
            core::mem::take(&mut state.callbacks)
        };
        for callback in callbacks.into_values().flatten() {
            callback(grace);
        }
        self.0.notifier.notify();
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.lock().open
    }
}

impl fmt::Debug for StreamServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamServerHandle")
    }
}

/// An open connection of a [`StreamServer`].
pub struct StreamConnection {
    shared: Arc<Shared>,
    id: u64,
}

impl StreamConnection {
    /// Registers what ends the connection when the server shuts down; it gets the grace period.
    ///
    /// It runs at once if the server has been shut down, and otherwise on the thread that shuts down.
    pub fn on_shutdown(&self, callback: impl FnOnce(Duration) + Send + 'static) {
        let mut state = self.shared.lock();
        match state.shutdown {
            Some(grace) => {
                drop(state);
                callback(grace);
            }
            None => state.callbacks.entry(self.id).or_default().push(Box::new(callback)),
        }
    }

    /// Shuts the server of the connection down with the whole.
    pub fn shut_down(&self, server: Handle) {
        self.on_shutdown(move |grace| server.shutdown(grace));
    }
}

impl fmt::Debug for StreamConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamConnection").field(&self.id).finish()
    }
}

impl Drop for StreamConnection {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.open -= 1;
        let callbacks = state.callbacks.remove(&self.id);
        drop(state);
        self.shared.ended.notify_all();
        drop(callbacks);
    }
}

type ShutdownCallback = Box<dyn FnOnce(Duration) + Send>;

/// State that the connections, the handles and the loop share.
struct Shared {
    notifier: Notifier,
    /// Notified at the end of each connection.
    ended: Condvar,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: usize,
    next_id: u64,
    callbacks: BTreeMap<u64, Vec<ShutdownCallback>>,
    /// The grace period after the shutdown began.
    shutdown: Option<Duration>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection; `None` at the limit.
    fn open(this: &Arc<Self>, max_connections: usize) -> Option<StreamConnection> {
        let mut state = this.lock();
        if state.open >= max_connections {
            return None;
        }
        state.open += 1;
        state.next_id += 1;
        Some(StreamConnection { shared: Arc::clone(this), id: state.next_id })
    }

    fn wait_for_connections(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        while state.open > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Default limit of open connections.
const DEFAULT_MAX_CONNECTIONS: usize = 64;
/// Pause before another connection is accepted without free descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Time after the grace period in which connections write their last messages.
const FINAL_WRITE_TIME: Duration = Duration::from_millis(500);
