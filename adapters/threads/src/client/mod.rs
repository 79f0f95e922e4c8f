//! A client: plain calls from any thread, one thread that moves the bytes, one on which callbacks run

mod callbacks;
mod waiting;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant as StdInstant;

use mcp_proto::client::{Config, Engine, OutputSchemas, Peer, SchemaValidator, SubscriptionKey, Verdict};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Instant, Progress, RawJson, UseError};
use mcp_std::child::{Ended, Program};
use mcp_std::client::{
    Answer, Caller, ClientHandler, Connection, Ears, Heard, Hub, Listener, Memory, Opened, Opens,
    OpensStream, Setup, Slot, Way,
};
use mcp_std::{Duplex, Error, catch};
use serde::Serialize;

use crate::Options;
use callbacks::Callbacks;
use waiting::wait;

/// A handle of a connection to one server, ready for calls from any thread
///
/// Clones are handles of the same connection. A call waits for its own answer and for no other one.
///
/// Two threads stand behind it. One moves the bytes: it answers the server's pings and lets time-outs pass whether or not
/// anybody calls. The other one runs the callbacks ([`ClientHandler`]), in order: a user may take an hour to fill in a
/// form, and everything else goes on meanwhile, except for other callbacks. Of those so many wait as
/// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits) say; with more to tell,
/// nothing more is read from the server until the handler has come so far, and calls wait, until their time-outs at most.
///
/// When the last handle is dropped the server is ended as [`close`](Self::close) does, which may take a while; how that
/// went is not said. A handler that holds a handle keeps the connection open.
///
/// ```no_run
/// use mcp_threads::{Client, Program};
///
/// let client = Client::spawn(Program::new("my-server").arg("--stdio"))?;
/// std::thread::scope(|scope| {
///     for n in 0..8 {
///         let client = &client;
///         scope.spawn(move || {
///             let result = client.call_tool("add", &serde_json::json!({"a": n, "b": 22}))?;
///             println!("{:?}", result.content);
///             Ok::<(), mcp_threads::Error>(())
///         });
///     }
/// });
/// # Ok::<(), mcp_threads::Error>(())
/// ```
#[derive(Clone)]
pub struct Client(Arc<Handle>);

/// What handles share
struct Handle {
    caller: Caller,
    callbacks: Callbacks,
    thread: Mutex<Thread>,
    thread_id: ThreadId,
}

/// The thread that moves the bytes
enum Thread {
    Running(JoinHandle<Result<Option<Ended>, Error>>),
    /// It is over, and how the server ended
    Over(Option<Ended>),
}

/// A call that was begun: [`Client::wait`] fetches what comes of it
///
/// Dropping it gives the call up: the server is told.
#[must_use = "dropping it cancels the call"]
pub struct Pending {
    slot: Slot<Answer>,
    client: Client,
}

impl Pending {
    /// By what handlers are told of the call; none as long as it has not been sent
    #[must_use]
    pub fn key(&self) -> Option<CallKey> {
        self.slot.call()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.client.0.caller.cancel(&self.slot, None);
    }
}

impl TryFrom<Opened> for Client {
    type Error = Error;

    fn try_from(Opened { mut connection, peer }: Opened) -> Result<Self, Error> {
        let waker = connection.wire.waker().map_err(Error::Io)?;
        let handler = connection.take_handler();
        let limits = connection.wire.engine().config().get_limits();
        let callbacks = Callbacks::new(limits.max_waiting, limits.max_waiting_bytes, waker.clone());
        connection.ears = Ears::Away(Box::new(callbacks.clone()));
        let (hub, caller) = Hub::new(&mut connection, peer, &waker);
        callbacks.run(handler, caller.clone())?;
        let told = callbacks.clone();
        let thread = thread::Builder::new().name("mcp-client".into());
        let thread = thread.spawn(move || run(hub, connection, &told)).inspect_err(|_| callbacks.close())?;
        let thread_id = thread.thread().id();
        let thread = Mutex::new(Thread::Running(thread));
        Ok(Self(Arc::new(Handle { caller, callbacks, thread, thread_id })))
    }
}

/// Moves the bytes until it is over; how the server ended
fn run(mut hub: Hub, mut connection: Connection, callbacks: &Callbacks) -> Result<Option<Ended>, Error> {
    let turned = catch(|| {
        loop {
            hub.take_in(&mut connection);
            if hub.closes() || connection.is_over() {
                break;
            }
            connection.turn(hub.due(), &mut None);
        }
    });
    if let Err(panic) = turned {
        // A stream of the program's: it is not touched any more, and nobody waits for it.
        connection.give_up(io::Error::other(panic.to_string()));
    }
    hub.tell_end(&mut connection);
    let ended = connection.finish();
    callbacks.close();
    ended
}

impl Opens for Client {
    type Opening<'a> = Result<Self, Error>;

    fn open(setup: Setup, way: Way<'_>) -> Self::Opening<'_> {
        setup.open(way).and_then(Self::try_from)
    }

    fn refuse(error: Error) -> Self::Opening<'static> {
        Err(error)
    }
}

impl<D: Duplex + Send + 'static> OpensStream<D> for Client {
    fn open_stream(setup: Setup, stream: D) -> Self::Opening<'static> {
        setup.open_stream(stream).and_then(Self::try_from)
    }
}

impl Client {
    /// Starts a server and waits until it is ready; [`spawn_with`](Self::spawn_with) for a client that speaks every
    /// revision and can do nothing for servers
    ///
    /// # Errors
    ///
    /// As [`spawn_with`](Self::spawn_with).
    pub fn spawn(program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Self::spawn_with(Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")), program)
    }

    /// Starts a server and waits until it is ready, or for the time-outs in [`Limits`](mcp_proto::Limits)
    ///
    /// A server that exits when it is asked which revisions it speaks, as some old ones do, is started once more and
    /// spoken to as such a one is. [`options`](Self::options) has callbacks that are there from the beginning; until the
    /// server is ready they run on the thread that waits for it.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] when it cannot be started, [`Error::Closed`] when it ended, did not answer in time, or is no MCP
    /// server; nothing is left running then. [`Error::Io`] when there is no thread to be had.
    pub fn spawn_with(config: Config, program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::new(config).spawn(program)
    }

    /// Speaks over any byte stream that has a [waker](Duplex::waker), and waits until the server is ready
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn_with`](Self::spawn_with).
    pub fn connect<D: Duplex + Send + 'static>(config: Config, stream: D) -> Result<Self, Error> {
        Options::new(config).connect(stream)
    }

    /// Speaks HTTP to the server at `url`, `http://127.0.0.1:8080/mcp` for instance, and waits until it is ready
    ///
    /// Finds out which revision and which of the transports over HTTP the server speaks. [`options`](Self::options) has
    /// callbacks, tokens ([`Options::connect_http`]) and the rest.
    ///
    /// Connections are made when they are needed: looking up a name may take 10 s, and nothing else moves meanwhile.
    /// Where a name has several addresses they are tried in turn, one family after the other.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] when it is none that can be connected to; [`Error::Closed`] when there is no server, it is no MCP
    /// server, or does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_url(url: &str) -> Result<Self, Error> {
        Options::new(Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))).connect_url(url)
    }

    /// What may be set before the connection is made, beside `config`
    #[must_use]
    pub fn options(config: Config) -> Options {
        Options::new(config)
    }

    /// Says who handles what comes from the server from now on; what has come already goes to the one before
    pub fn set_handler(&self, handler: impl ClientHandler + Send + 'static) {
        self.0.callbacks.set_handler(Box::new(handler));
    }

    /// Checks structured results against output schemas from now on, as far as lists of tools are seen from now on; see
    /// [`Options::validator`]
    pub fn set_validator(&self, validator: impl SchemaValidator + 'static) {
        self.memory().set_schemas(Some(OutputSchemas::new(validator)));
    }

    /// Asks for lists and contents of resources anew, when they are wanted next: forgets what is kept of this server,
    /// for other clients with the same cache, too
    pub fn forget_kept(&self) {
        self.memory().forget();
    }

    /// The server: revision in use, identity, capabilities, instructions
    #[must_use]
    pub fn peer(&self) -> &Peer {
        self.0.caller.peer()
    }

    /// What was found out about the server's era, to be stored for the next connection; none after it proved wrong, or
    /// when the connection is over
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.run(|connection| Ok(connection.verdict)).ok().flatten()
    }

    mcp_std::client_calls!(
        self,
        [&self],
        [],
        [],
        Pending,
        dyn FnMut(&Progress),
        "# let client = mcp_threads::Client::spawn(mcp_threads::Program::new(\"my-server\"))?;",
        "# Ok::<(), mcp_threads::Error>(())"
    );

    // ---- calls under way ---------------------------------------------------------------------------------------

    /// Waits for the result of a call that was begun
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), and what [`start`](Self::start) could not know: what this server cannot be asked.
    pub fn wait(&self, call: Pending) -> Result<RawJson, Error> {
        self.result(call, None).map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, with progress told to `on_progress`, on this thread
    ///
    /// Progress comes only if the options of the call asked for it. Of what comes faster than it is told, the newest
    /// is kept.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_with(&self, call: Pending, on_progress: &mut dyn FnMut(&Progress)) -> Result<RawJson, Error> {
        call.slot.watch();
        self.result(call, Some(on_progress)).map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, but at most for `timeout`: none when there is no result by then, and the call
    /// goes on
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); `Use(Stale)` when the result was fetched before.
    pub fn wait_timeout(&self, call: &mut Pending, timeout: Duration) -> Result<Option<RawJson>, Error> {
        if call.slot.is_taken() {
            return Err(Error::Use(UseError::Stale));
        }
        let until = StdInstant::now().checked_add(timeout);
        let outcome = wait(&call.slot, until, &mut |_| {}).transpose()?;
        Ok(outcome.map(|(result, _)| result))
    }

    /// Gives a call up: the server is told, and its result is not wanted any more, even if it is there already
    ///
    /// # Errors
    ///
    /// None, so far: it is a `Result` as that of other clients is.
    pub fn cancel(&self, call: Pending, reason: Option<&str>) -> Result<(), Error> {
        self.0.caller.cancel(&call.slot, reason);
        drop(call);
        Ok(())
    }

    // ---- in between --------------------------------------------------------------------------------------------

    /// Asks to be told of changes, and waits until the server has said what of it it honours
    ///
    /// From then on changes come to [`ClientHandler::changed`]. What changed before is not told, so this is the moment
    /// to read what is followed. In the legacy era a server may honour less than it says.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] when there are too many, or URIs that are too long; [`Error::Call`] when the server refuses or does
    /// not answer in time; otherwise as [`start`](Self::start).
    pub fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        self.told(&self.0.caller.subscribe(filter.clone())?)
    }

    /// Ends the connection for all handles, and the server if it was started here: its stdin is closed, then it gets
    /// `SIGTERM`, then `SIGKILL`, each after the wait that [`Options::patience`] says
    ///
    /// Calls that are waited for end with [`Error::Closed`]. How the server ended; none if it is no process of ours.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a stream that is no process of ours could not be ended properly.
    pub fn close(self) -> Result<Option<Ended>, Error> {
        self.0.close()
    }

    /// Whether calls can still be made
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the connection is over, with all that is known about that.
    pub fn check_open(&self) -> Result<(), Error> {
        if self.0.caller.is_over() { Err(self.0.caller.gone()) } else { Ok(()) }
    }

    // ---- what these stand on -----------------------------------------------------------------------------------

    /// The engine is another thread's
    #[expect(clippy::unused_self, reason = "other clients have it at hand")]
    fn begin_here(
        &self,
        _progress: bool,
        _command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Option<Result<Pending, Error>> {
        None
    }

    fn begin(
        &self,
        progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError> + Send + 'static,
    ) -> Result<Pending, Error> {
        let slot = self.0.caller.call(progress, command)?;
        Ok(Pending { slot, client: self.clone() })
    }

    fn command(
        &self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError> + Send + 'static,
    ) -> Result<(), Error> {
        self.run(|connection| connection.command(command))
    }

    /// Has something run on the loop, and waits for it
    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.told(&self.0.caller.run(job)?)
    }

    fn told<T>(&self, slot: &Slot<T>) -> Result<T, Error> {
        wait(slot, None, &mut |_| {}).unwrap_or_else(|| Err(self.0.caller.gone()))
    }

    #[expect(clippy::needless_pass_by_value, reason = "nothing more comes of it")]
    fn result(&self, call: Pending, on_progress: Option<&mut dyn FnMut(&Progress)>) -> Result<Answer, Error> {
        if call.slot.is_taken() {
            return Err(Error::Use(UseError::Stale));
        }
        let outcome = match on_progress {
            Some(on_progress) => wait(&call.slot, None, on_progress),
            None => wait(&call.slot, None, &mut |_| {}),
        };
        outcome.unwrap_or_else(|| Err(self.0.caller.gone()))
    }

    fn catch_up(&self) -> Result<(), Error> {
        self.run(|connection| {
            connection.catch_up();
            Ok(())
        })
    }

    fn written<T: Serialize + ?Sized>(&self, value: &T) -> Result<RawJson, Error> {
        self.0.caller.written(value)
    }

    fn name(name: &str) -> Box<str> {
        name.into()
    }

    fn memory(&self) -> &Memory {
        self.0.caller.memory()
    }

    fn hear(&self, heard: Heard) {
        self.0.callbacks.clone().hear(heard);
    }

    fn most_of_a_list(&self) -> usize {
        self.0.caller.most_of_a_list()
    }
}

impl Handle {
    /// Ends the connection, and waits for that unless it is the thread itself that would have to wait
    fn close(&self) -> Result<Option<Ended>, Error> {
        let _ = self.caller.close();
        if thread::current().id() == self.thread_id {
            return Ok(None);
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        match core::mem::replace(&mut *thread, Thread::Over(None)) {
            Thread::Running(running) => {
                let ended = running.join().unwrap_or(Ok(None))?;
                *thread = Thread::Over(ended.clone());
                Ok(ended)
            }
            Thread::Over(ended) => {
                *thread = Thread::Over(ended.clone());
                Ok(ended)
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("caller", &self.0.caller).finish_non_exhaustive()
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("call", &self.slot.call()).finish_non_exhaustive()
    }
}
