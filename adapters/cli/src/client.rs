//! A client of any adapter, for commands that wait for each answer.

use core::time::Duration;

use mcp_blocking::{ClientHandler, Error};
#[cfg(feature = "events")]
use mcp_events::client::Error as EventsError;
use mcp_extensions::pins::Pins;
use mcp_extensions::skills::{Skill, SkillContent};
use mcp_proto::EntryKind;
use mcp_proto::client::{Config, Paginator, Peer, StartedTask, SubscriptionKey, TaskHandle};
use mcp_proto::draft::Draft;
use mcp_proto::model::{CallToolResult, LoggingLevel, Prompt, ReadResourceResult, SubscriptionFilter, Tool};
use mcp_proto::{CallKey, CallOptions, Diagnostic, Era, Limits, Progress, RawJson, VersionSet};
use mcp_runtime::client::Options;
#[cfg(feature = "events")]
use mcp_runtime::client::{AsyncCalls, ClientBackend};
use mcp_std::process::{ShutdownReport, ShutdownTimeouts};
use serde::Serialize;

use crate::args::Runtime;
use crate::era_cache::probe_timeout;
use crate::failure::CommandFailure;
#[cfg(not(feature = "runtimes"))]
use crate::features::Feature;
use crate::server::ServerSpec;
#[cfg(feature = "runtimes")]
use crate::tokio_runtime;
#[cfg(feature = "runtimes")]
use smol::block_on;

/// A client on the selected adapter.
pub(crate) enum Client {
    Blocking(Box<mcp_blocking::Client>),
    #[cfg(feature = "runtimes")]
    Threads(mcp_threads::Client),
    #[cfg(feature = "runtimes")]
    Smol(mcp_smol::Client),
    #[cfg(feature = "runtimes")]
    Tokio(mcp_tokio::Client),
}

/// Evaluates an expression with the client of whichever adapter is in use.
macro_rules! with_client {
    ($self:ident, $client:ident => $call:expr) => {
        match $self {
            Client::Blocking($client) => $call,
            #[cfg(feature = "runtimes")]
            Client::Threads($client) => $call,
            #[cfg(feature = "runtimes")]
            Client::Smol($client) => block_on($call),
            #[cfg(feature = "runtimes")]
            Client::Tokio($client) => tokio_runtime::block_on($call),
        }
    };
}

/// Functions of the client of whichever adapter is in use.
macro_rules! forward {
    ($(
        $(#[$doc:meta])* fn $name:ident $(<$type:ident: $bound:ident>)? ($($arg:ident: $of:ty),*) -> $result:ty;
    )+) => {
        impl Client {
            $($(#[$doc])*
            pub(crate) fn $name $(<$type: $bound>)? (&mut self, $($arg: $of),*) -> Result<$result, Error> {
                with_client!(self, client => client.$name($($arg),*))
            })+
        }
    };
}

forward! {
    /// Calls a tool and returns its result undecoded.
    ///
    /// # Errors
    ///
    /// See [`Self::request()`].
    fn call_tool_raw(
        name: &str, arguments: &RawJson, options: &CallOptions, on_progress: &mut (dyn FnMut(&Progress) + Send)
    ) -> RawJson;
    fn call_tool<T: Serialize>(name: &str, arguments: &T) -> CallToolResult<'static>;
    fn call_tool_with<T: Serialize>(
        name: &str, arguments: &T, options: &CallOptions, on_progress: &mut (dyn FnMut(&Progress) + Send)
    ) -> CallToolResult<'static>;
    /// Waits for the result of a task.
    ///
    /// # Errors
    ///
    /// See [`Self::request()`]; also if the task is cancelled, expires or is lost.
    fn wait_task(task: &TaskHandle) -> CallToolResult<'static>;
    fn list_tools() -> Vec<Tool>;
    fn read_resource(uri: &str) -> ReadResourceResult<'static>;
    fn get_skill(uri: &str) -> Skill;
    fn read_skill_file(skill: &Skill, file: &str) -> SkillContent;
    fn list(kind: EntryKind) -> Vec<RawJson>;
    fn list_prompts() -> Vec<Prompt>;
    fn ping() -> Duration;
    fn subscribe(filter: &SubscriptionFilter) -> (SubscriptionKey, SubscriptionFilter);
    fn unsubscribe(subscription: SubscriptionKey) -> ();
}

/// Starts a call with the client of whichever adapter is in use.
macro_rules! start {
    ($self:ident, $client:ident => $call:expr) => {
        Ok(match $self {
            Client::Blocking($client) => StartedCall::Blocking($call?),
            #[cfg(feature = "runtimes")]
            Client::Threads($client) => StartedCall::Threads($call?),
            #[cfg(feature = "runtimes")]
            Client::Smol($client) => StartedCall::Smol($call?),
            #[cfg(feature = "runtimes")]
            Client::Tokio($client) => StartedCall::Tokio($call?),
        })
    };
}

impl Client {
    /// Starts the server or connects to it.
    ///
    /// # Errors
    ///
    /// The outer error reports a mistake on the command line, the inner one a failed connection.
    pub(crate) fn open(
        runtime: Runtime,
        spec: &ServerSpec<'_>,
        config: Config,
        handler: impl ClientHandler + Send + 'static,
        timeouts: ShutdownTimeouts,
    ) -> Result<Result<Self, Error>, CommandFailure> {
        // Each adapter has options of its own type.
        macro_rules! options {
            () => {
                Options::new(config).handler(handler).shutdown_timeouts(timeouts)
            };
        }
        Ok(match runtime {
            Runtime::Blocking => spec.connect(options!())?.map(|client| Self::Blocking(Box::new(client))),
            #[cfg(feature = "runtimes")]
            Runtime::Threads => spec.connect(options!())?.map(Self::Threads),
            #[cfg(feature = "runtimes")]
            Runtime::Smol => spec.connect_by(options!(), block_on)?.map(Self::Smol),
            #[cfg(feature = "runtimes")]
            Runtime::Tokio => spec.connect_by(options!(), tokio_runtime::block_on)?.map(Self::Tokio),
            #[cfg(not(feature = "runtimes"))]
            Runtime::Threads | Runtime::Smol | Runtime::Tokio => {
                return Err(Feature::Runtimes.missing("--runtime"));
            }
        })
    }

    pub(crate) fn peer(&self) -> &Peer {
        match self {
            Self::Blocking(client) => client.peer(),
            #[cfg(feature = "runtimes")]
            Self::Threads(client) => client.peer(),
            #[cfg(feature = "runtimes")]
            Self::Smol(client) => client.peer(),
            #[cfg(feature = "runtimes")]
            Self::Tokio(client) => client.peer(),
        }
    }

    /// Sends a request and returns its result undecoded.
    ///
    /// # Errors
    ///
    /// Fails if the request cannot be sent, is answered with an error, times out, or loses its connection.
    pub(crate) fn request<T: Serialize>(
        &mut self,
        method: &str,
        params: &T,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<RawJson, Error> {
        with_client!(self, client => client.request_with(method, params, options, on_progress))
    }

    /// Calls a tool as a task, if the server can do that.
    ///
    /// # Errors
    ///
    /// See [`Self::request()`].
    pub(crate) fn start_task<T: Serialize>(
        &mut self,
        name: &str,
        arguments: &T,
    ) -> Result<StartedTask, Error> {
        with_client!(self, client => client.start_task(name, arguments, None))
    }

    /// Starts a tool call without waiting for its result.
    ///
    /// # Errors
    ///
    /// Fails if the request cannot be sent.
    pub(crate) fn start_tool<T: Serialize>(
        &mut self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<StartedCall, Error> {
        start!(self, client => client.start_tool(name, arguments, options))
    }

    /// Starts a request without waiting for its result.
    ///
    /// # Errors
    ///
    /// Fails if the request cannot be sent.
    pub(crate) fn start<T: Serialize>(
        &mut self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<StartedCall, Error> {
        start!(self, client => client.start(method, params, options))
    }

    /// Waits for the result of a call, at most for `timeout`. Returns `None` if there is none by then.
    ///
    /// # Errors
    ///
    /// See [`Self::request()`].
    pub(crate) fn wait_timeout(
        &mut self,
        call: &mut StartedCall,
        timeout: Duration,
    ) -> Result<Option<RawJson>, Error> {
        match (self, call) {
            (Self::Blocking(client), StartedCall::Blocking(call)) => client.wait_timeout(*call, timeout),
            #[cfg(feature = "runtimes")]
            (Self::Threads(client), StartedCall::Threads(call)) => client.wait_timeout(call, timeout),
            #[cfg(feature = "runtimes")]
            (Self::Smol(client), StartedCall::Smol(call)) => block_on(client.wait_timeout(call, timeout)),
            #[cfg(feature = "runtimes")]
            (Self::Tokio(client), StartedCall::Tokio(call)) => {
                tokio_runtime::block_on(client.wait_timeout(call, timeout))
            }
            #[cfg(feature = "runtimes")]
            _ => Err(Error::Use(mcp_proto::UseError::Stale)),
        }
    }

    pub(crate) fn wait(&mut self, mut call: StartedCall) -> Result<RawJson, Error> {
        loop {
            if let Some(result) = self.wait_timeout(&mut call, Duration::from_secs(3_600))? {
                return Ok(result);
            }
        }
    }

    pub(crate) fn cancel(&mut self, call: StartedCall, reason: &str) -> Result<(), Error> {
        match (self, call) {
            (Self::Blocking(client), StartedCall::Blocking(call)) => client.cancel(call, Some(reason)),
            #[cfg(feature = "runtimes")]
            (Self::Threads(client), StartedCall::Threads(call)) => client.cancel(call, Some(reason)),
            #[cfg(feature = "runtimes")]
            (Self::Smol(client), StartedCall::Smol(call)) => client.cancel(call, Some(reason)),
            #[cfg(feature = "runtimes")]
            (Self::Tokio(client), StartedCall::Tokio(call)) => client.cancel(call, Some(reason)),
            #[cfg(feature = "runtimes")]
            _ => Err(Error::Use(mcp_proto::UseError::Stale)),
        }
    }

    /// Reads the pages of a list up to the first one that cannot be had.
    pub(crate) fn read_pages(&mut self, kind: EntryKind) -> ListPages {
        self.read_pages_with(kind, CallOptions::new)
    }

    /// Reads the pages of a list, each with the options that it gets when it is requested.
    pub(crate) fn read_pages_with(
        &mut self,
        kind: EntryKind,
        options: impl Fn() -> CallOptions,
    ) -> ListPages {
        let mut pages = Paginator::new(kind, MAX_LIST_BYTES);
        let request =
            |params: &PageParams<'_>| self.request(kind.list_method(), params, &options(), &mut |_| {});
        let error = take_pages(&mut pages, request, Error::UnexpectedResult).err();
        let diagnostic = pages.diagnostic();
        ListPages { is_cut: pages.is_cut(), entries: pages.into_entries(), diagnostic, error }
    }

    /// Reads the definitions of the server.
    ///
    /// # Errors
    ///
    /// See [`Self::request()`].
    pub(crate) fn read_pins(&mut self) -> Result<Pins, Error> {
        let peer = self.peer().clone();
        with_client!(self, client => client.read_pins(&peer))
    }

    /// Returns the method of [`ping`](Self::ping), for a request with options of its own.
    pub(crate) fn ping_method(&self) -> &'static str {
        match self.peer().era() {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        }
    }

    #[expect(deprecated, reason = "supported until its removal")]
    pub(crate) fn set_log_level(&mut self, level: LoggingLevel) -> Result<(), Error> {
        with_client!(self, client => client.set_log_level(Some(level)))
    }

    /// Processes incoming messages and runs callbacks for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub(crate) fn poll(&mut self, timeout: Duration) -> Result<(), Error> {
        match self {
            Self::Blocking(client) => client.poll(timeout).map(drop),
            #[cfg(feature = "runtimes")]
            Self::Threads(client) => {
                // Callbacks run on a thread of their own; only the end of the connection is left to detect.
                let until = std::time::Instant::now() + timeout;
                loop {
                    client.check_open()?;
                    let left = until.saturating_duration_since(std::time::Instant::now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    std::thread::sleep(left.min(POLL_INTERVAL));
                }
            }
            #[cfg(feature = "runtimes")]
            Self::Smol(client) => block_on(client.poll(timeout)).map(drop),
            #[cfg(feature = "runtimes")]
            Self::Tokio(client) => tokio_runtime::block_on(client.poll(timeout)).map(drop),
        }
    }

    /// Runs an operation on the calls of whichever adapter is in use, and waits for it.
    ///
    /// # Errors
    ///
    /// Those of the operation.
    #[cfg(feature = "events")]
    pub(crate) fn run<O: ClientOperation>(&self, operation: O) -> Result<O::Value, EventsError> {
        match self {
            Self::Blocking(client) => client.block_on(operation.run(client.as_async())),
            #[cfg(feature = "runtimes")]
            Self::Threads(client) => client.block_on(operation.run(client.as_async())),
            #[cfg(feature = "runtimes")]
            Self::Smol(client) => block_on(operation.run(client)),
            #[cfg(feature = "runtimes")]
            Self::Tokio(client) => tokio_runtime::block_on(operation.run(client)),
        }
    }

    pub(crate) fn close(self) -> Result<Option<ShutdownReport>, Error> {
        with_client!(self, client => client.close())
    }
}

/// Several calls about events that belong together, on the calls of any adapter.
#[cfg(feature = "events")]
pub(crate) trait ClientOperation {
    type Value;

    async fn run<B: ClientBackend>(self, calls: &AsyncCalls<B>) -> Result<Self::Value, EventsError>;
}

/// Parameters of a page of a list.
#[derive(Serialize)]
pub(crate) struct PageParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

/// Requests the pages of a list until its end.
///
/// # Errors
///
/// Fails as `request` does, and as `unreadable` says of a page without the list. The pages before it are taken.
pub(crate) fn take_pages<E>(
    pages: &mut Paginator,
    mut request: impl FnMut(&PageParams<'_>) -> Result<RawJson, E>,
    unreadable: impl Fn(String) -> E,
) -> Result<(), E> {
    loop {
        let page = request(&PageParams { cursor: pages.cursor() })?;
        if !pages.take(&page).map_err(|missing| unreadable(missing.to_string()))? {
            return Ok(());
        }
    }
}

/// The pages of a list, as far as they can be read.
pub(crate) struct ListPages {
    pub(crate) entries: Vec<RawJson>,
    /// Whether the list was given up before its end.
    pub(crate) is_cut: bool,
    /// What was wrong with the end of the list, if anything.
    pub(crate) diagnostic: Option<Diagnostic>,
    /// Why there are no more entries, if a page cannot be had.
    pub(crate) error: Option<Error>,
}

/// Creates the configuration of a client of these revisions, and of what it follows of drafts.
pub(crate) fn client_config(
    (versions, draft): (VersionSet, Draft),
    timeout: Duration,
    connect_timeout: Duration,
    tap: bool,
) -> Config {
    let mut limits = Limits::default();
    limits.call_timeout = timeout;
    limits.call_total_timeout = limits.call_total_timeout.max(timeout);
    // With both eras enabled, the handshake may follow a probe that timed out; together they take `connect_timeout`.
    let dual = !versions.era(Era::Legacy).is_empty() && !versions.era(Era::Modern).is_empty();
    limits.probe_timeout = probe_timeout(connect_timeout);
    limits.init_timeout = if dual { connect_timeout - limits.probe_timeout } else { connect_timeout };
    if tap {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    Config::new("mcp-probe", env!("CARGO_PKG_VERSION")).versions(versions).draft(draft).limits(limits)
}

/// Shutdown timeouts: long enough for an orderly server, short enough for a waiting user.
pub(crate) const SHUTDOWN_TIMEOUTS: ShutdownTimeouts = ShutdownTimeouts {
    exit: Duration::from_secs(2),
    terminate: Duration::from_secs(2),
    kill: Duration::from_secs(2),
    stragglers: Duration::from_secs(1),
};
/// Interval at which the end of a connection is checked.
#[cfg(feature = "runtimes")]
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of a list in bytes. The page that exceeds it is the last one.
const MAX_LIST_BYTES: usize = 64 << 20;

/// A call that has been started.
pub(crate) enum StartedCall {
    Blocking(CallKey),
    #[cfg(feature = "runtimes")]
    Threads(mcp_threads::PendingCall),
    #[cfg(feature = "runtimes")]
    Smol(mcp_smol::PendingCall),
    #[cfg(feature = "runtimes")]
    Tokio(mcp_tokio::PendingCall),
}
