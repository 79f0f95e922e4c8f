//! The state of an HTTP server without its handler and dispatcher.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::Mutex;

use mcp_auth::token::TokenValidator;
use mcp_proto::http::server as http;
use mcp_proto::http::server::{Denial, ExchangeId, TokenRequest};
use mcp_proto::server::{Announcement, Config, Engine, Event, Identity};
use mcp_proto::{CallId, Entropy, Instant};
use mcp_std::catch;
use mcp_std::sync::{Inbox, Sender, Workers, lock};

use super::shards::{MAX_SHARD_MESSAGES, ShardMessage};
use crate::Error;
use crate::server::connections::Connections;
use crate::server::handler::Handler;
use crate::server::server_loop::{Backlog, ChangeSet, ServerLoop};
use crate::server::session_sharing::ShareSessions;

/// The state of an HTTP server without its handler and dispatcher.
#[derive(Debug)]
pub(super) struct State {
    pub(super) server: http::Server,
    pub(super) connections: Connections,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<http::Config>,
    pub(super) backlog: Backlog,
    /// Messages of other shards, and senders to all shards by number; empty with one shard.
    pub(super) shard_inbox: Inbox<ShardMessage>,
    pub(super) shard_senders: Vec<Sender<ShardMessage>>,
    pub(super) shard_messages: VecDeque<ShardMessage>,
    /// Exchanges whose tokens wait for validation; at most one per connection.
    pub(super) pending_tokens: VecDeque<(ExchangeId, TokenRequest)>,
    /// Set if other processes serve the same sessions.
    pub(super) sharing: Option<Box<dyn ShareSessions>>,
    /// Names of the tools whose calls may run again in another process.
    pub(super) repeatable_tools: Vec<Box<str>>,
    /// Names of the tools whose schemas the server has.
    pub(super) tool_names: Vec<String>,
    pub(super) tools_changed: bool,
    /// Deadline of the shutdown.
    pub(super) shutdown_deadline: Option<Instant>,
    /// The next step of the end of a server that shares its sessions, and its time.
    pub(super) next_end: Option<(Instant, End)>,
    /// The error that made waiting impossible.
    pub(super) error: Option<io::Error>,
}

impl State {
    pub(super) fn new(
        connections: Connections,
        config: Arc<Config>,
        http: Arc<http::Config>,
        entropy: Entropy,
    ) -> Self {
        let mut state = Self {
            server: http::Server::new(config.clone(), http.clone(), entropy),
            connections,
            config,
            http,
            backlog: Backlog::default(),
            shard_inbox: Inbox::new(MAX_SHARD_MESSAGES),
            shard_senders: Vec::new(),
            shard_messages: VecDeque::new(),
            pending_tokens: VecDeque::new(),
            sharing: None,
            repeatable_tools: Vec::new(),
            tool_names: Vec::new(),
            tools_changed: false,
            shutdown_deadline: None,
            next_end: None,
            error: None,
        };
        state.bound_streams();
        state
    }

    /// Bounds the streams of this shard, so that those of all shards leave connections to requests.
    pub(super) fn bound_streams(&mut self) {
        self.server.set_max_connections(self.connections.max_connections);
    }

    pub(super) fn begin_shutdown(&mut self, grace: Duration) {
        let now = self.connections.tick();
        let end = now + grace;
        let earlier = self.shutdown_deadline.replace(end);
        if self.sharing.is_none() {
            return self.end(End::Engine);
        }
        if let Some(earlier) = earlier {
            // Shards tell each other, and only an earlier end is news.
            self.shutdown_deadline = Some(earlier.min(end));
            self.next_end = self.next_end.map(|(at, step)| (at.min(end), step));
            return;
        }
        // Requests that are on their way would be lost: another process takes those that follow, once nobody listens here.
        self.connections.drain(&mut self.server);
        self.server.shared_sessions().end_streams(now);
        self.next_end = Some((now + DRAIN_TIME.min(grace / 2), End::Connections));
    }

    /// Returns whether a server that shares its sessions has something to do without connections: other shards give it those
    /// that they accept, and clients ask for running calls by other processes.
    pub(super) fn is_ending(&self) -> bool {
        let is_draining = matches!(self.next_end, Some((_, End::Connections)));
        is_draining || self.next_end.is_some() && self.server.exchange_count() > 0
    }

    /// Takes the next step of the end of the server, if it is time.
    pub(super) fn end_if_due(&mut self) {
        let now = self.connections.now();
        if let Some((_, step)) = self.next_end.take_if(|(at, _)| *at <= now) {
            self.end(step);
        }
    }

    fn end(&mut self, step: End) {
        let now = self.connections.now();
        let grace = self.shutdown_deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        self.next_end = None;
        match step {
            End::Connections => {
                self.server.shared_sessions().end_streams(now);
                // Questions of running calls are still answered, by way of another process.
                self.next_end = Some((now + grace - grace / 4, End::Engine));
            }
            End::Engine => self.server.shutdown(now, grace),
        }
        self.connections.close(&mut self.server);
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.backlog.pop().or_else(|| self.poll_event())
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let now = self.connections.now();
        loop {
            match self.server.poll_event(now)? {
                http::Event::Server(event) => return Some(event),
                http::Event::Token { exchange, request } => {
                    self.pending_tokens.push_back((exchange, request))
                }
                http::Event::Shared(event) => {
                    if let Some(sharing) = &mut self.sharing {
                        sharing.handle_event(now, &mut self.server, event);
                    }
                }
                _ => {}
            }
        }
    }

    /// Lets a request whose token was decided about go on.
    pub(super) fn apply_token_outcome(&mut self, exchange: ExchangeId, outcome: TokenOutcome) {
        let (now, server) = (self.connections.tick(), &mut self.server);
        match outcome {
            Ok(identity) => server.grant(now, exchange, identity),
            Err(denial) => server.deny(now, exchange, &denial),
        }
        self.connections.drive(server, exchange);
    }

    /// Does what the store of sessions and other processes have brought. Returns whether there was anything.
    pub(super) fn drive_sharing(&mut self) -> bool {
        let Some(sharing) = &mut self.sharing else { return false };
        let driven = sharing.drive(self.connections.now(), &mut self.server);
        if let Some(changes) = &driven.changes {
            // A condition of the application may panic.
            let _ = catch(|| self.publish_changes(changes));
        }
        driven.any
    }

    /// Returns whether to read while a handler runs on this thread.
    pub(super) fn can_read(&mut self) -> bool {
        !self.backlog.is_full(self.config.effective_limits())
    }

    pub(super) fn wait_until(&mut self, until: Option<Instant>) {
        let reads = self.can_read();
        if let Err(error) = self.connections.wait(&mut self.server, reads, until) {
            self.error.get_or_insert(error);
            self.connections.tick();
        }
    }

    /// Processes the next connection that is ready. Returns `false` if there is none.
    pub(super) fn process_next_connection(&mut self) -> bool {
        let reads = self.can_read();
        self.connections.process_next(&mut self.server, reads)
    }

    /// Processes all connections that are ready and writes their output. Returns whether there were any.
    pub(super) fn process_connections(&mut self) -> bool {
        let mut any = false;
        while self.process_next_connection() {
            any = true;
            self.write();
        }
        any
    }

    /// Registers the schemas of tools, for arguments that are repeated in header fields.
    pub(super) fn register_tools(&mut self, handler: &mut impl Handler) -> Result<(), Error> {
        register_tools(&mut self.server, &mut self.tool_names, |visit| handler.for_each_tool(visit))
    }
}

/// Registers the schemas of the tools that `for_each` visits, and removes those of `names` that it does not name again.
///
/// # Errors
///
/// The schema of a tool cannot be served over HTTP, or `for_each` panics; the others are registered.
pub fn register_tools(
    server: &mut http::Server,
    names: &mut Vec<String>,
    for_each: impl FnOnce(&mut dyn FnMut(&str, &mcp_proto::RawJson)),
) -> Result<(), Error> {
    let mut removed = core::mem::take(names);
    let mut first_error = None;
    let visited = catch(|| {
        for_each(&mut |name, schema| {
            removed.retain(|other| other != name);
            names.push(name.into());
            if let Err(why) = server.set_tool_schema(name, schema) {
                let why = alloc::format!("the schema of the tool `{name}` cannot be served over HTTP: {why}");
                first_error.get_or_insert_with(|| io::Error::new(ErrorKind::InvalidInput, why));
            }
        });
    });
    if let Err(panic) = visited {
        // Keep the previous names, so that their schemas can be removed later.
        names.append(&mut removed);
        first_error.get_or_insert_with(|| io::Error::other(panic.to_string()));
    }
    removed.iter().for_each(|name| server.remove_tool_schema(name));
    first_error.map_or(Ok(()), |error| Err(Error::Io(error)))
}

impl ServerLoop for State {
    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.connections.now()
    }

    fn tick(&mut self) -> Instant {
        self.connections.tick()
    }

    fn set_repeatable_tools(&mut self, names: &[Box<str>]) {
        self.repeatable_tools = names.into();
    }

    fn poll_event_during_call(&mut self) -> Option<Event> {
        self.poll_event()
    }

    fn defer(&mut self, event: Event) {
        self.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        let wrote = self.connections.write(&mut self.server);
        self.forward_connections();
        wrote
    }

    fn wait(&mut self, until: Instant) {
        // Connections that were ready before the handler began come first; then the wait only polls.
        let had_ready = self.process_connections();
        let until = if had_ready { self.connections.now() } else { until };
        self.wait_until(Some(until));
        self.process_connections();
        self.process_shard_messages();
        self.drive_sharing();
    }

    fn publish(&mut self, announcement: &Announcement<'_>) {
        self.publish_to_all(announcement);
    }

    fn publish_resources(&mut self) {
        self.forward_changes(ChangeSet::all_resources);
        self.publish_changes(&ChangeSet::all_resources());
    }

    fn shutdown(&mut self, grace: Duration) {
        // Not bounded: a shard that misses this message would never end.
        self.other_shards().for_each(|other| _ = other.send_unbounded(ShardMessage::Shutdown(grace)));
        self.begin_shutdown(grace);
    }

    fn tells_clients_apart(&self) -> bool {
        self.server.config().tells_clients_apart()
    }

    fn supports_poll_later(&self) -> bool {
        true
    }

    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let now = self.connections.tick();
        self.server.poll_later(now, call, retry)
    }
}

/// A step of the end of a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Connections end when their requests are answered.
    Connections,
    /// Calls that cannot be answered in time end, too.
    Engine,
}

/// Time for which a server that shares its sessions serves the connections that are there when it ends.
const DRAIN_TIME: Duration = Duration::from_secs(1);

// Threads on which tokens are validated, so that no connection waits for another service.

/// A decision about a token.
pub type TokenOutcome = Result<Arc<Identity>, Denial>;

/// The validator of a server, with the threads on which it may block. All shards share it.
#[derive(Clone)]
pub struct TokenWorkers(Arc<Shared>);

struct Shared {
    validator: Arc<dyn TokenValidator>,
    /// Started when the first token waits. The outcome of a job goes to its loop.
    threads: Mutex<Option<Workers<Job, ()>>>,
}

impl Shared {
    /// Drops the tokens that wait for a thread, but those that `keeps` returns true for.
    fn retain(&self, keeps: impl FnMut(&Job) -> bool) {
        if let Some(threads) = &*lock(&self.threads) {
            threads.retain(keeps);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody wants these decisions any more.
        self.retain(|_| false);
    }
}

/// Takes a decision to the loop.
pub type TokenReply = Box<dyn FnOnce(TokenOutcome) + Send>;

/// A token to validate, and where the decision goes.
struct Job {
    request: TokenRequest,
    reply: TokenReply,
    is_wanted: Arc<AtomicBool>,
}

impl TokenWorkers {
    /// Creates the workers of a validator. Threads are started when tokens wait.
    pub fn new(validator: impl TokenValidator + 'static) -> Self {
        Self(Arc::new(Shared { validator: Arc::new(validator), threads: Mutex::default() }))
    }

    /// Decides about a token if that needs no waiting.
    fn validate_now(&self, request: &TokenRequest) -> Option<TokenOutcome> {
        // The panic hook has reported the panic. A token that causes one is not accepted.
        catch(|| self.0.validator.validate_now(request)).unwrap_or(Some(Err(Denial::invalid_token())))
    }

    /// Queues a token, whose decision is passed to `reply`. The returned flag is cleared when nobody wants it any more.
    ///
    /// # Errors
    ///
    /// The decision, if too many tokens wait or no thread can be started.
    fn submit(&self, request: TokenRequest, reply: TokenReply) -> Result<Arc<AtomicBool>, Denial> {
        let mut threads = lock(&self.0.threads);
        let threads = match &mut *threads {
            Some(threads) => threads,
            none => {
                let validator = Arc::clone(&self.0.validator);
                let validate = move |Job { request, reply, .. }: Job| {
                    let outcome = catch(|| validator.validate(&request));
                    reply(outcome.unwrap_or_else(|_| Err(Denial::invalid_token())));
                };
                let started = Workers::start("mcp-tokens", MAX_THREADS, MAX_WAITING, validate);
                none.insert(started.map_err(|_| Denial::Unavailable)?)
            }
        };
        let is_wanted = Arc::new(AtomicBool::new(true));
        let job = Job { request, reply, is_wanted: is_wanted.clone() };
        threads.submit(job).map_err(|_| Denial::Unavailable)?;
        Ok(is_wanted)
    }
}

/// The tokens of one HTTP server that its validator decides about on other threads.
#[derive(Debug)]
pub struct TokenQueue {
    workers: TokenWorkers,
    /// Exchanges that wait, with the flags that the decision is wanted.
    undecided: Vec<(ExchangeId, Arc<AtomicBool>)>,
}

impl TokenQueue {
    /// Sets the validator of a server, which is asked first for what needs no waiting.
    pub fn new(workers: TokenWorkers, server: &mut http::Server) -> Self {
        let quick = workers.clone();
        server.set_validator(move |request| quick.validate_now(request));
        Self { workers, undecided: Vec::new() }
    }

    /// Returns the workers, which other servers may share.
    pub const fn workers(&self) -> &TokenWorkers {
        &self.workers
    }

    /// Queues the token of an exchange, whose decision is passed to `reply`.
    ///
    /// # Errors
    ///
    /// The decision, if too many tokens wait or no thread can be started.
    pub fn submit(
        &mut self,
        exchange: ExchangeId,
        request: TokenRequest,
        reply: TokenReply,
    ) -> Result<(), Denial> {
        let is_wanted = self.workers.submit(request, reply)?;
        self.undecided.push((exchange, is_wanted));
        Ok(())
    }

    /// Forgets the tokens whose clients are gone or were refused meanwhile, so that they take no thread and no place. Call it before
    /// [`submit`](Self::submit).
    pub fn discard(&mut self, server: &http::Server) {
        let before = self.undecided.len();
        self.undecided.retain(|(exchange, is_wanted)| {
            let waits = server.awaits_token_decision(*exchange);
            if !waits {
                is_wanted.store(false, Ordering::Release);
            }
            waits
        });
        if self.undecided.len() < before {
            self.workers.0.retain(|job| job.is_wanted.load(Ordering::Acquire));
        }
    }
}

impl fmt::Debug for TokenWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWorkers").finish_non_exhaustive()
    }
}

/// Maximum number of tokens that wait for a thread; a further one is answered with 503.
const MAX_WAITING: usize = 256;
/// Maximum number of tokens that are validated at a time, apart from those that need no waiting.
const MAX_THREADS: usize = 8;
