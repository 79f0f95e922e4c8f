//! A client: asynchronous calls, driven by whoever awaits one of them

mod asked;
mod drive;
mod open;
mod pending;
mod turns;
mod waiting;
mod watch;
mod with;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use async_io::Timer;
use futures_lite::future::or;
use futures_lite::io::{AsyncRead, AsyncWrite};
use mcp_proto::client::{Config, Engine, OutputSchemas, Peer, SchemaValidator, SubscriptionKey, Verdict};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Instant, Progress, RawJson, UseError};
use mcp_std::Error;
use mcp_std::child::{Ended, Program};
use mcp_std::client::{Answer, Caller, ClientHandler, Connection, Ears, Heard, Memory, Slot};
use serde::Serialize;

use crate::Options;
use drive::Core;
use pending::{Awaited, Subscribing};
use turns::{Place, Turns};
use waiting::{Waiting, poll_until};

pub use asked::{AsyncClientHandler, asynchronous};
pub use open::Connecting;
pub use pending::Pending;
pub use waiting::Run;
pub use with::RunWith;

/// A handle of a connection to one server, ready for calls from any task
///
/// Clones are handles of the same connection. Nothing is spawned: of all tasks that await a call, one at a time moves the
/// bytes for all, and another one takes over when that has its answer. Nothing moves while nobody awaits anything here; a
/// program that pauses between calls spawns [`run`](Self::run), or should [`poll`](Self::poll) now and then, so that the
/// server's requests are answered and its output does not pile up. It works under any executor, as `async-io` brings a
/// reactor of its own.
///
/// Dropping the future of a call gives the call up: the server is told, by whoever drives next. A future that was polled and
/// is not to be awaited any more should be dropped, not kept: it may be its turn to drive, and the others wait for it.
///
/// When the last handle is dropped the server is ended as [`close`](Self::close) does, and how that went is not said: by
/// the future of `run` if there is one, otherwise by a thread that is started for it, unless it is over at once.
///
/// ```no_run
/// use mcp_smol::{Client, Program};
///
/// # mcp_smol::block_on(async {
/// let client = Client::spawn(Program::new("my-server").arg("--stdio")).await?;
/// let result = client.call_tool("add", &serde_json::json!({"a": 20, "b": 22})).await?;
/// for block in result.content.iter() {
///     println!("{block:?}");
/// }
/// # Ok::<(), mcp_smol::Error>(())
/// # })?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
#[derive(Clone)]
pub struct Client(Arc<Handle>);

/// What is closed when nobody holds it any more
struct Handle {
    shared: Arc<Shared>,
}

/// What handles and [`Run`] share
struct Shared {
    caller: Caller,
    turns: Arc<Turns>,
    /// Locked by who has the turn
    core: Mutex<Core>,
}

impl Shared {
    /// Whether it was ended here, and not by itself
    fn is_closed(&self) -> bool {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        core.inner().is_none_or(|inner| inner.closes)
    }
}

impl Client {
    fn new(core: Core, turns: Arc<Turns>, caller: Caller) -> Self {
        let shared = Shared { caller, turns, core: Mutex::new(core) };
        Self(Arc::new(Handle { shared: Arc::new(shared) }))
    }

    /// Starts a server and waits until it is ready; [`spawn_with`](Self::spawn_with) for a client that speaks every
    /// revision and can do nothing for servers
    ///
    /// # Errors
    ///
    /// As [`spawn_with`](Self::spawn_with).
    pub async fn spawn(program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Self::spawn_with(Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")), program).await
    }

    /// Starts a server and waits until it is ready, or for the time-outs in [`Limits`](mcp_proto::Limits)
    ///
    /// A server that exits when it is asked which revisions it speaks, as some old ones do, is started once more and
    /// spoken to as such a one is. [`options`](Self::options) has callbacks that are there from the beginning.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] when it cannot be started, [`Error::Closed`] when it ended, did not answer in time, or is no MCP
    /// server; nothing is left running then. Dropped before it
    /// is ready, it ends the server as dropping a client does.
    pub async fn spawn_with(config: Config, program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::new(config).spawn(program).await
    }

    /// Speaks over any byte stream, and waits until the server is ready
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn_with`](Self::spawn_with).
    pub async fn connect<S>(config: Config, stream: S) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Options::new(config).connect(stream).await
    }

    /// Speaks HTTP to the server at `url`, `http://127.0.0.1:8080/mcp` for instance, and waits until it is ready
    ///
    /// Finds out which revision and which of the transports over HTTP the server speaks. [`options`](Self::options) has
    /// callbacks, tokens ([`Options::connect_http`]) and the rest.
    ///
    /// Connections are made when they are needed; names are looked up by a thread. Where a name has several addresses they
    /// are tried in turn, one family after the other. On Linux only, so far: elsewhere it is refused as unsupported.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] when it is none that can be connected to; [`Error::Closed`] when there is no server, it is no MCP
    /// server, or does not answer in time.
    #[cfg(feature = "http")]
    pub async fn connect_url(url: &str) -> Result<Self, Error> {
        Options::new(Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))).connect_url(url).await
    }

    /// What may be set before the connection is made, beside `config`
    #[must_use]
    pub fn options(config: Config) -> Options {
        Options::new(config)
    }

    /// Says who handles what comes from the server from now on
    ///
    /// Its methods run in the task that drives, and must not take long: what does is for one that
    /// [`asynchronous`](crate::asynchronous) makes, or is left open and [answered](Self::answer) later. What one of those has
    /// open when another takes its place is refused.
    pub fn set_handler(&self, handler: impl ClientHandler + Send + 'static) {
        self.0.shared.caller.run_due(move |connection| connection.set_ears(Ears::Here(Box::new(handler))));
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
        self.0.shared.caller.peer()
    }

    /// What was found out about the server's era, to be stored for the next connection; none after it proved wrong, or
    /// when the connection is over
    pub async fn verdict(&self) -> Option<Verdict> {
        self.on_loop(|connection| Ok(connection.verdict)).await.ok().flatten()
    }

    mcp_std::client_calls!(
        self,
        [&self],
        [async],
        [.await],
        Pending,
        (dyn FnMut(&Progress) + Send),
        "# mcp_smol::block_on(async { let client = mcp_smol::Client::spawn(mcp_smol::Program::new(\"my-server\")).await?;",
        "# Ok::<(), mcp_smol::Error>(()) })?; Ok::<(), mcp_smol::Error>(())"
    );

    // ---- calls under way ---------------------------------------------------------------------------------------

    /// Waits for the result of a call that was begun
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), and what [`start`](Self::start) could not know: what this server cannot be asked.
    pub async fn wait(&self, call: Pending) -> Result<RawJson, Error> {
        call.await
    }

    /// Waits as [`wait`](Self::wait) does, with progress told to `on_progress`
    ///
    /// Progress comes only if the options of the call asked for it. Of what comes faster than it is told, the newest
    /// is kept.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn wait_with(
        &self,
        call: Pending,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<RawJson, Error> {
        call.slot.watch();
        self.result(call, Some(on_progress)).await.map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, but at most for `timeout`: none when there is no result by then, and the call
    /// goes on
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); `Use(Stale)` when the result was fetched before.
    pub async fn wait_timeout(
        &self,
        call: &mut Pending,
        timeout: Duration,
    ) -> Result<Option<RawJson>, Error> {
        let call = Awaited(call);
        or(async { (&mut *call.0).await.map(Some) }, async {
            Timer::after(timeout).await;
            Ok(None)
        })
        .await
    }

    /// Gives a call up: the server is told, and its result is not wanted any more, even if it is there already
    ///
    /// # Errors
    ///
    /// None, so far: it is a `Result` as that of other clients is.
    pub fn cancel(&self, call: Pending, reason: Option<&str>) -> Result<(), Error> {
        self.0.shared.caller.cancel(&call.slot, reason);
        drop(call);
        Ok(())
    }

    // ---- in between --------------------------------------------------------------------------------------------

    /// Drives the connection to its end, whether or not anybody awaits a call: a future to be spawned
    ///
    /// It does not keep the connection open: when the last handle is dropped it ends the server, and is over.
    ///
    /// ```no_run
    /// # mod async_executor { pub struct Executor<'a>(&'a ()); impl Executor<'_> {
    /// #     pub fn spawn<F: Future + Send + 'static>(&self, _: F) -> Task { Task } } pub struct Task;
    /// #     impl Task { pub fn detach(self) {} } }
    /// # async fn example(executor: &async_executor::Executor<'static>) -> Result<(), mcp_smol::Error> {
    /// let client = mcp_smol::Client::spawn(mcp_smol::Program::new("my-server")).await?;
    /// executor.spawn(client.run()).detach();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when it ended otherwise than by being closed here.
    pub fn run(&self) -> Run {
        self.0.shared.turns.wake_by_ref();
        Run::new(self.0.shared.clone())
    }

    /// Drives the connection as [`run`](Self::run) does, with a handler that stays in this future: it need not be `Send`,
    /// nor need what an [`asynchronous`](crate::asynchronous) one has under way
    ///
    /// From now on it hears of what comes from the server, and nothing is answered while this is not polled. Of what it has
    /// yet to hear so much waits as [`Limits::max_waiting`](mcp_proto::Limits) and
    /// [`max_waiting_bytes`](mcp_proto::Limits) say; with more, nothing is read from the server until it has come so far.
    /// When this is dropped, what is open is refused, and nobody hears until there is another handler.
    ///
    /// ```no_run
    /// use std::cell::Cell;
    ///
    /// use mcp_proto::{RpcError, model::ListRootsResult};
    /// use mcp_smol::{AsyncClientHandler, asynchronous};
    ///
    /// struct Counts(Cell<u32>);
    ///
    /// impl AsyncClientHandler for Counts {
    ///     async fn roots(&self) -> Result<ListRootsResult, RpcError> {
    ///         self.0.set(self.0.get() + 1);
    ///         Ok(ListRootsResult::new(Vec::new()))
    ///     }
    /// }
    ///
    /// # async fn example(client: mcp_smol::Client) -> Result<(), mcp_smol::Error> {
    /// let calls = async { client.list_tools().await.map(drop) };
    /// futures_lite::future::or(client.run_with(asynchronous(Counts(Cell::new(0)))), calls).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_with<H: ClientHandler>(&self, handler: H) -> RunWith<H> {
        RunWith::new(self, handler)
    }

    /// Waits until something happens, at most for `timeout`, and lets the callbacks handle it; whether anything did
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the connection is over.
    pub async fn poll(&self, timeout: Duration) -> Result<bool, Error> {
        let shared = &*self.0.shared;
        let mut timer = Timer::after(timeout);
        let mut place = Place::new(shared.turns.clone(), true);
        let seen = shared.turns.seen();
        // Whoever drove last may have left something.
        shared.turns.wake_by_ref();
        poll_fn(|cx| {
            poll_until(shared, &mut place, cx, |cx| {
                if shared.caller.is_over() {
                    return Some(Err(shared.caller.gone()));
                }
                if shared.turns.seen() != seen {
                    return Some(Ok(true));
                }
                Pin::new(&mut timer).poll(cx).is_ready().then_some(Ok(false))
            })
        })
        .await
    }

    /// Asks to be told of changes, and waits until the server has said what of it it honours
    ///
    /// From then on changes come to [`ClientHandler::changed`], whenever something is awaited here: between calls,
    /// [`run`](Self::run) does. What changed before is not told, so this is the moment to read what is followed. In the
    /// legacy era a server may honour less than it says.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] when there are too many, or URIs that are too long; [`Error::Call`] when the server refuses or does
    /// not answer in time; otherwise as [`start`](Self::start).
    pub async fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        let caller = &self.0.shared.caller;
        let subscribing = Subscribing { slot: caller.subscribe(filter.clone())?, caller };
        self.told(&subscribing.slot).await
    }

    /// Ends the connection for all handles, and the server if it was started here: its stdin is closed, then it gets
    /// `SIGTERM`, then `SIGKILL`, each after the wait that [`Options::patience`] says
    ///
    /// Calls that are awaited end with [`Error::Closed`]. How the server ended; none if it is no process of ours.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a stream that is no process of ours could not be ended properly.
    pub async fn close(self) -> Result<Option<Ended>, Error> {
        let _ = self.0.shared.caller.close();
        let mut run = self.run();
        // Why it ended, if by itself, was told to those who called.
        let _ = (&mut run).await;
        run.ended()
    }

    /// Whether calls can still be made, as far as is known: nothing moves here
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the connection is over, with all that is known about that.
    pub fn check_open(&self) -> Result<(), Error> {
        let caller = &self.0.shared.caller;
        if caller.is_over() { Err(caller.gone()) } else { Ok(()) }
    }

    // ---- what these stand on -----------------------------------------------------------------------------------

    /// Begins a call at once when nobody drives and nobody stands in line
    fn begin_here(
        &self,
        progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Option<Result<Pending, Error>> {
        let shared = &*self.0.shared;
        let mut core = shared.core.try_lock().ok()?;
        let inner = core.inner()?;
        if !inner.is_idle() {
            return None;
        }
        let (teller, slot) = Slot::new(progress);
        inner.connection.begin(teller, command);
        let waits = inner.send(&shared.turns);
        drop(core);
        if !waits {
            shared.turns.wake_by_ref();
        }
        let place = Place::new(shared.turns.clone(), false);
        Some(Ok(Pending { slot, client: self.clone(), place }))
    }

    fn begin(
        &self,
        progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError> + Send + 'static,
    ) -> Result<Pending, Error> {
        let slot = self.0.shared.caller.call(progress, command)?;
        let place = Place::new(self.0.shared.turns.clone(), false);
        Ok(Pending { slot, client: self.clone(), place })
    }

    async fn command(
        &self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError> + Send + 'static,
    ) -> Result<(), Error> {
        self.on_loop(|connection| connection.command(command)).await
    }

    /// Has something run by who drives, and waits for it
    async fn on_loop<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let slot = self.0.shared.caller.run(job)?;
        self.told(&slot).await
    }

    async fn told<T>(&self, slot: &Slot<T>) -> Result<T, Error> {
        Waiting::new(&self.0.shared, slot, None).await
    }

    async fn result(
        &self,
        call: Pending,
        on_progress: Option<&mut (dyn FnMut(&Progress) + Send)>,
    ) -> Result<Answer, Error> {
        if call.slot.is_taken() {
            return Err(Error::Use(UseError::Stale));
        }
        Waiting::new(&self.0.shared, &call.slot, on_progress).await
    }

    async fn catch_up(&self) -> Result<(), Error> {
        self.on_loop(|connection| {
            connection.catch_up();
            Ok(())
        })
        .await
    }

    fn written<T: Serialize + ?Sized>(&self, value: &T) -> Result<RawJson, Error> {
        self.0.shared.caller.written(value)
    }

    fn name(name: &str) -> Box<str> {
        name.into()
    }

    fn memory(&self) -> &Memory {
        self.0.shared.caller.memory()
    }

    fn hear(&self, heard: Heard) {
        self.0.shared.caller.run_due(move |connection| connection.hear(heard));
    }

    fn most_of_a_list(&self) -> usize {
        self.0.shared.caller.most_of_a_list()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // One that has ended by itself is over.
        let _ = self.shared.caller.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("caller", &self.0.shared.caller).finish_non_exhaustive()
    }
}
