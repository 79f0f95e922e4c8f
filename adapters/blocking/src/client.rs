//! A client: plain calls that return when they are answered

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::time::Duration;

use mcp_proto::client::{Config, Engine, OutputSchemas, Peer, SchemaValidator, SubscriptionKey, Verdict};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Instant, Progress, RawJson, UseError};
use mcp_std::Duplex;
use mcp_std::child::{Ended, Program};
use serde::Serialize;

use mcp_std::Error;
use mcp_std::client::{
    Answer, ClientHandler, Connection, Ears, Heard, Memory, Opened, Opens, OpensStream, Setup, Way,
};

use crate::Options;

/// A connection to one server, ready for calls
///
/// Nothing happens behind its back: bytes move only while one of its methods runs. A program that pauses between calls
/// should [`poll`](Self::poll) now and then, so that the server's requests are answered and its output does not pile
/// up.
///
/// Dropping it ends the server as [`close`](Self::close) does, and keeps quiet about how that went.
///
/// ```no_run
/// use mcp_blocking::Client;
/// use mcp_std::child::Program;
///
/// let mut client = Client::spawn(Program::new("my-server").arg("--stdio"))?;
/// let result = client.call_tool("add", &serde_json::json!({"a": 20, "b": 22}))?;
/// for block in result.content.iter() {
///     println!("{block:?}");
/// }
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    peer: Peer,
}

impl From<Opened> for Client {
    fn from(Opened { connection, peer }: Opened) -> Self {
        Self { connection, peer }
    }
}

impl Opens for Client {
    type Opening<'a> = Result<Self, Error>;

    fn open(setup: Setup, way: Way<'_>) -> Self::Opening<'_> {
        setup.open(way).map(Self::from)
    }

    fn refuse(error: Error) -> Self::Opening<'static> {
        Err(error)
    }
}

impl<D: Duplex + Send + 'static> OpensStream<D> for Client {
    fn open_stream(setup: Setup, stream: D) -> Self::Opening<'static> {
        setup.open_stream(stream).map(Self::from)
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
    /// spoken to as such a one is. [`options`](Self::options) has callbacks that are there from the beginning.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] when it cannot be started, [`Error::Closed`] when it ended, did not answer in time, or is no MCP
    /// server; nothing is left running then.
    pub fn spawn_with(config: Config, program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::new(config).spawn(program)
    }

    /// Speaks over any byte stream, and waits until the server is ready
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
    /// [`Error::Url`] when it is none that can be connected to: `https` is refused without the feature `tls`;
    /// [`Error::Closed`] when there is no server, it is no MCP server, or does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_url(url: &str) -> Result<Self, Error> {
        Options::new(Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))).connect_url(url)
    }

    /// What may be set before the connection is made, beside `config`
    #[must_use]
    pub fn options(config: Config) -> Options {
        Options::new(config)
    }

    /// Says who handles what comes from the server from now on
    pub fn set_handler(&mut self, handler: impl ClientHandler + Send + 'static) {
        self.connection.ears = Ears::Here(Box::new(handler));
    }

    /// Checks structured results against output schemas from now on, as far as lists of tools are seen from now on; see
    /// [`Options::validator`]
    pub fn set_validator(&mut self, validator: impl SchemaValidator + 'static) {
        self.connection.memory.set_schemas(Some(OutputSchemas::new(validator)));
    }

    /// Asks for lists and contents of resources anew, when they are wanted next: forgets what is kept of this server,
    /// for other clients with the same cache, too
    pub fn forget_kept(&mut self) {
        self.connection.memory.forget();
    }

    /// The server: revision in use, identity, capabilities, instructions
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What was found out about the server's era, to be stored for the next connection; none after it proved wrong
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.connection.verdict
    }

    mcp_std::client_calls!(
        self,
        [&mut self],
        [],
        [],
        CallKey,
        dyn FnMut(&Progress),
        "# let mut client = mcp_blocking::Client::spawn(mcp_blocking::Program::new(\"my-server\"))?;",
        "# Ok::<(), mcp_blocking::Error>(())"
    );

    // ---- what these stand on -----------------------------------------------------------------------------------

    /// The engine is always at hand
    fn begin_here(
        &mut self,
        progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Option<Result<CallKey, Error>> {
        Some(self.begin(progress, command))
    }

    /// Waits only while the server has not taken most of what was written before
    fn begin(
        &mut self,
        _progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Result<CallKey, Error> {
        self.connection.start(command)
    }

    fn command(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError>,
    ) -> Result<(), Error> {
        self.connection.command(command)
    }

    /// The result of a call, and whether the server needed something first
    fn result(
        &mut self,
        call: CallKey,
        on_progress: Option<&mut dyn FnMut(&Progress)>,
    ) -> Result<Answer, Error> {
        let mut watch = on_progress.map(|told| (call, told));
        let result = self.connection.outcome(call, None, &mut watch)?;
        result.ok_or(Error::Call(CallError::TimedOut))
    }

    fn catch_up(&mut self) -> Result<(), Error> {
        self.connection.check_open()?;
        self.connection.catch_up();
        self.connection.check_open()
    }

    /// As it is: it is written where it goes
    #[expect(clippy::unnecessary_wraps, reason = "other clients write it here")]
    fn written<'a, T: Serialize + ?Sized>(&self, value: &'a T) -> Result<&'a T, Error> {
        Ok(value)
    }

    const fn name(name: &str) -> &str {
        name
    }

    const fn memory(&self) -> &Memory {
        &self.connection.memory
    }

    fn hear(&mut self, heard: Heard) {
        self.connection.hear(heard);
    }

    fn most_of_a_list(&mut self) -> usize {
        self.connection.wire.engine().config().get_limits().max_frame.saturating_mul(4)
    }

    // ---- calls under way ---------------------------------------------------------------------------------------

    /// Waits for the result of a call that was begun; others may be answered in the meantime
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request); `Use(Stale)` when the result was fetched before, or the call cancelled.
    pub fn wait(&mut self, call: CallKey) -> Result<RawJson, Error> {
        self.wait_with(call, &mut |_| {})
    }

    /// Waits as [`wait`](Self::wait) does, with progress told to `on_progress`
    ///
    /// Progress comes only if the options of the call asked for it.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_with(
        &mut self,
        call: CallKey,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<RawJson, Error> {
        self.result(call, Some(on_progress)).map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, but at most for `timeout`: none when there is no result by then, and the call
    /// goes on
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, call: CallKey, timeout: Duration) -> Result<Option<RawJson>, Error> {
        let until = self.now() + timeout;
        let outcome = self.connection.outcome(call, Some(until), &mut None)?;
        Ok(outcome.map(|(result, _)| result))
    }

    /// Gives a call up: the server is told, and its result is not wanted any more, even if it is there already
    ///
    /// # Errors
    ///
    /// `Use(Stale)` when its result was fetched before, or it was cancelled.
    pub fn cancel(&mut self, call: CallKey, reason: Option<&str>) -> Result<(), Error> {
        if !self.connection.cancel(call, reason) {
            return Err(Error::Use(UseError::Stale));
        }
        self.connection.flush();
        Ok(())
    }

    // ---- in between --------------------------------------------------------------------------------------------

    /// Waits until something happens, at most for `timeout`, and lets the callbacks handle it; whether anything did
    ///
    /// Answers that come are kept for the `wait` methods.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the connection is over.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.now() + timeout;
        let seen = self.connection.seen;
        loop {
            self.connection.check_open()?;
            self.connection.turn(Some(until), &mut None);
            if self.connection.seen != seen {
                return self.connection.check_open().map(|()| true);
            }
            if self.connection.wire.now() >= until {
                return Ok(false);
            }
        }
    }

    /// Asks to be told of changes, and waits until the server has said what of it it honours
    ///
    /// From then on changes come to [`ClientHandler::changed`], whenever something is waited for here: between calls,
    /// [`poll`](Self::poll) does. What changed before is not told, so this is the moment to read what is followed. In the
    /// legacy era a server may honour less than it says.
    ///
    /// ```no_run
    /// # fn example(client: &mut mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    /// use mcp_proto::model::SubscriptionFilter;
    ///
    /// let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(["file:///log".into()]);
    /// let (subscription, honoured) = client.subscribe(&filter)?;
    /// while client.poll(std::time::Duration::from_secs(60))? {}
    /// client.unsubscribe(subscription)?;
    /// # let _ = honoured;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Use`] when there are too many, or URIs that are too long; [`Error::Call`] when the server refuses or does
    /// not answer in time; otherwise as [`start`](Self::start).
    pub fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        self.connection.subscribe(filter)
    }

    /// The engine, for what has no method here; what its commands write goes out with the next [`poll`](Self::poll), and
    /// the outcomes of calls that they make are dropped
    pub fn engine(&mut self) -> &mut Engine {
        self.connection.wire.engine()
    }

    /// The time, for the engine's commands
    pub fn now(&mut self) -> Instant {
        self.connection.wire.tick()
    }

    /// Ends the connection, and the server if it was started here: its stdin is closed, then it gets `SIGTERM`, then
    /// `SIGKILL`, each after the wait that [`Options::patience`] says
    ///
    /// How it ended; none if it is no process of ours.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a stream that is no process of ours could not be ended properly.
    pub fn close(mut self) -> Result<Option<Ended>, Error> {
        self.connection.finish()
    }
}
