//! Servers at the address of a byte stream: a thread for each connection.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex};
use std::{io, thread};

use mcp_std::io::{Socket, SocketControl, StreamAddress, StreamListener, is_resource_exhausted};
use mcp_std::poll::{Notifier, PollHandles};
use mcp_std::sync::lock;

use super::Handle;
use crate::Error;

/// A server at a TCP or Unix address, whose connections carry one message per line.
///
/// Each connection runs on a thread of its own, with an engine and a handler of its own. At most
/// [`max_connections`](Self::max_connections) are open. A client that sends no line loses its connection after
/// [`first_line_timeout`](Self::first_line_timeout).
///
/// A connection beyond the limit takes the place of another one, which is closed: of the one that has sent no line for
/// longest, at least for a second; or else of the one without a byte in either direction for longest, at least for
/// [`max_idle_time`](Self::max_idle_time). If there is none, the new connection is accepted and closed at once, so that its client
/// sees the end of the stream and does not wait.
///
/// There is neither encryption nor authorization, and nothing like the `Host` and `Origin` checks of HTTP: everybody who
/// can reach the address can use the server.
///
/// In an asynchronous adapter the thread of a connection runs one future. To serve many connections by one thread, an application
/// accepts sockets of its runtime instead.
pub struct StreamServer {
    listener: StreamListener,
    bounds: Bounds,
    shared: Arc<Shared>,
}

/// The connections that may be open, and how long.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    max_connections: usize,
    first_line_timeout: Duration,
    max_idle_time: Duration,
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
        Ok(Self { listener, bounds: DEFAULT_BOUNDS, shared: Arc::new(shared) })
    }

    /// Sets the maximum number of open connections (default 64, at least 1). A connection beyond it takes the place of a silent or
    /// idle one, or is closed at once.
    ///
    /// A handler that blocks runs on after its connection was closed, so up to twice as many threads may exist.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.bounds.max_connections = connections.max(1);
        self
    }

    /// Sets the time in which a client has to send its first line (default 30 s). Then its connection is closed.
    ///
    /// An empty line counts. It stops clients that connect and send nothing, or a byte from time to time.
    #[must_use]
    pub fn first_line_timeout(mut self, timeout: Duration) -> Self {
        self.bounds.first_line_timeout = timeout;
        self
    }

    /// Sets the time without a byte in either direction after which a connection loses its place to a new one, if all places are
    /// taken (default 10 minutes). While there is room, it stays open.
    ///
    /// A call that runs for so long without progress, and a subscription without changes, count as idle. Keep-alive pings
    /// (`server::Config::keep_alive_ping`) keep the connections of legacy clients in use.
    #[must_use]
    pub fn max_idle_time(mut self, time: Duration) -> Self {
        self.bounds.max_idle_time = time;
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
        let Self { listener, bounds, shared } = self;
        let serve = Arc::new(serve);
        let grace = loop {
            if let Some(grace) = lock(&shared.state).shutdown {
                break grace;
            }
            let timeout = match listener.accept() {
                Ok(Some(mut socket)) => {
                    // A refused connection is closed here.
                    if let Some(connection) = Shared::open(&shared, bounds, socket.control()) {
                        let serve = Arc::clone(&serve);
                        // Without a thread the connection is closed.
                        let _ = thread::Builder::new().name("mcp stream".into()).spawn(move || {
                            // `serve` has reported the error if it is to be reported.
                            let _ = serve(socket, &connection);
                        });
                    }
                    continue;
                }
                Ok(None) => None,
                Err(error) if is_resource_exhausted(&error) => {
                    lock(&shared.state).evict_one(bounds);
                    Some(EXHAUSTED_PAUSE)
                }
                Err(error) => return Err(error),
            };
            let read = timeout.is_none().then(|| listener.as_fd());
            let handles = PollHandles { read, notifier: Some(&shared.notifier), ..PollHandles::default() };
            let next_timeout = lock(&shared.state).close_silent(bounds);
            handles.wait(timeout.into_iter().chain(next_timeout).min())?;
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
            .field("bounds", &self.bounds)
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
            let mut state = lock(&self.0.state);
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

    /// Returns the number of connections whose handlers run, including closed ones that have not noticed it yet.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.0.state).open
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
        let mut state = lock(&self.shared.state);
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
        let mut state = lock(&self.shared.state);
        state.open -= 1;
        state.sockets.remove(&self.id);
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
    /// Number of threads that serve a connection.
    open: usize,
    /// The connections that were not closed by the server.
    sockets: BTreeMap<u64, SocketControl>,
    next_id: u64,
    callbacks: BTreeMap<u64, Vec<ShutdownCallback>>,
    /// The grace period after the shutdown began.
    shutdown: Option<Duration>,
}

impl Shared {
    /// Enters a connection, in the place of another one at the limit; `None` if there is no place.
    fn open(this: &Arc<Self>, bounds: Bounds, socket: SocketControl) -> Option<StreamConnection> {
        let mut state = lock(&this.state);
        // A handler that blocks keeps the thread of its connection after that was evicted.
        if state.open >= bounds.max_connections.saturating_mul(2) {
            return None;
        }
        if state.sockets.len() >= bounds.max_connections && !state.evict_one(bounds) {
            return None;
        }
        state.open += 1;
        state.next_id += 1;
        let id = state.next_id;
        state.sockets.insert(id, socket);
        Some(StreamConnection { shared: Arc::clone(this), id })
    }

    fn wait_for_connections(&self, timeout: Duration) {
        drop(self.ended.wait_timeout_while(lock(&self.state), timeout, |state| state.open > 0));
    }
}

impl State {
    /// Closes the connection that was silent for longest, or else the one idle for longest. Returns false if there is none that may
    /// be closed.
    fn evict_one(&mut self, bounds: Bounds) -> bool {
        let victim = longest_unused(self.sockets.iter(), bounds.max_idle_time).copied();
        let victim = victim.and_then(|victim| self.sockets.remove(&victim));
        victim.inspect(SocketControl::close).is_some()
    }

    /// Closes the connections that have sent no line in time. Returns the time until the next one is to be closed.
    fn close_silent(&mut self, bounds: Bounds) -> Option<Duration> {
        let mut next = None::<Duration>;
        self.sockets.retain(|_, socket| {
            let Some(silence) = socket.silence() else { return true };
            let left = bounds.first_line_timeout.saturating_sub(silence);
            if left.is_zero() {
                socket.close();
            } else {
                next = next.into_iter().chain([left]).min();
            }
            !left.is_zero()
        });
        next
    }
}

/// Returns the connection that is closed for a new one if all places are taken: the one that was silent for longest, at least for a second,
/// or else the one idle for longest, at least for `max_idle_time`; `None` if there is none. A server of its own loop that has the bounds of
/// a [`StreamServer`] uses it.
pub fn longest_unused<'s, K>(
    connections: impl Iterator<Item = (K, &'s SocketControl)> + Clone,
    max_idle_time: Duration,
) -> Option<K> {
    // While a connection is silent, newcomers take no more places of idle ones: who connects need not be a client.
    let is_one_silent = connections.clone().any(|(_, socket)| socket.silence().is_some());
    let unused = |socket: &SocketControl| match socket.silence() {
        Some(time) => Some(time).filter(|time| *time >= SILENT_GRACE),
        None => Some(socket.idle_time()).filter(|time| !is_one_silent && *time >= max_idle_time),
    };
    let times = connections.filter_map(|(key, socket)| Some((unused(socket)?, key)));
    times.max_by_key(|(time, _)| *time).map(|(_, key)| key)
}

const DEFAULT_BOUNDS: Bounds = Bounds {
    max_connections: 64,
    first_line_timeout: Duration::from_secs(30),
    max_idle_time: Duration::from_secs(600),
};
/// Time without a line after which a connection loses its place to a new one.
const SILENT_GRACE: Duration = Duration::from_secs(1);
/// Pause before another connection is accepted without free descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Time after the grace period in which connections write their last messages.
const FINAL_WRITE_TIME: Duration = Duration::from_millis(500);
