//! The server side of Streamable HTTP and HTTP+SSE, at the level of exchanges.
//!
//! [`Server`] works with this crate's [`h1`](crate::h1) or with any other HTTP stack. Each exchange has these steps:
//!
//! 1. Call [`open`](Server::open) with the head of the request. Then call [`handle_body`](Server::handle_body) while
//!    [`wants_body`](Server::wants_body), and [`handle_end`](Server::handle_end).
//! 2. Process the events as with [`server::Engine`]. Calls are answered at the [`engine`](Server::engine).
//! 3. [`poll_ready`](Server::poll_ready) returns an exchange that has output. Send its
//!    [`response`](Server::response) once that exists, then the body from [`transmit`](Server::transmit) in pieces of
//!    any size. When it [is finished](Server::is_finished), call [`release`](Server::release).
//! 4. Call [`handle_gone`](Server::handle_gone) if the client disconnects before that.
//!
//! [`Connection`] performs these steps for one HTTP/1.1 connection.
//!
//! Output is produced on demand only. A slow reader costs its share of the engine's outbox and no more (DESIGN-13).

mod admission;
mod config;
mod connection;
mod documents;
mod exchange_table;
#[cfg(test)]
#[path = "../../exhaustive/tables/http_server.rs"]
mod exhaustive_tables;
mod http_sse;
mod post;
mod principals;
mod protected;
mod refusal;
mod request_headers;
mod response;
mod resumption;
mod session;
mod shared;
mod snapshot;
mod token;

pub use config::Config;
pub use connection::{Admission, Connection};
pub use documents::PublicDocument;
pub use exchange_table::{ExchangeId, Response};
pub use protected::{Dpop, Protected, ProtectedError, Scheme};
pub use request_headers::VisibleFieldError;
pub use shared::{
    KeptCall, OpenedRelay, SealedIdentity, SessionId, SessionRecord, SharedSessionEvent, SharedSessions,
    SubscriptionsNeedStore,
};
pub use snapshot::{SnapshotError, Snapshots};
pub use token::{AccessToken, Denial, TokenRequest};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use self::exchange_table::{ExchangeTable, Kind, ServerExchange, SessionKey};
use self::refusal::shutting_down;
use self::session::{HttpSession, SessionTable};
use self::token::Validator;
use super::fields::KnownField;
use super::params::HeaderParams;
use crate::built::{Part, Sessions};
use crate::driving::{self, BoundEngine as _, DriverCheck};
use crate::entropy::Entropy;
use crate::error::Fault;
use crate::head::RequestHead;
use crate::memory::{Charge, STEP};
use crate::server::{self, Engine, Identity};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::{Instant, TimeoutReason};
use principals::share_of_streams;
use request_headers::{ToolFields, tool_fields};
use shared::Sharing;
use token::UndecidedRequests;

/// An event that the application must process.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An event of the engine, as on every transport.
    Server(server::Event),
    /// A request with a token to validate (AUTH-009, AUTH-010).
    ///
    /// The exchange waits for [`grant`](Server::grant) or [`deny`](Server::deny), at most for
    /// [`Config::token_timeout`]. This event occurs only if the server
    /// is [protected](Config::protected), and not for a token that its [validator](Server::set_validator) decides about.
    Token {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The token, and how it was presented.
        request: TokenRequest,
    },
    /// Something that concerns the sessions of other processes, too; only if they [are shared](SharedSessions::begin).
    Shared(SharedSessionEvent),
}

/// A server over HTTP that speaks all revisions of Streamable HTTP on one path.
///
/// One `Server` is one shard: it shares only its configurations with others. If several shards have one address, call
/// [`set_shard`](Self::set_shard) on each (DESIGN-15).
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    config: Arc<Config>,
    entropy: Entropy,
    /// The path of the endpoint, which requests share.
    path: Arc<str>,
    exchanges: ExchangeTable,
    sessions: SessionTable,
    events: VecDeque<Event>,
    /// The fields of each tool that repeat its arguments, if a schema has named any.
    tool_fields: Option<Box<dyn ToolFields>>,
    now: Instant,
    check: DriverCheck,
    /// The application reported that its queue of calls is full.
    overloaded: bool,
    validator: Option<Validator>,
    /// Memory for the next token.
    spare_token: Vec<u8>,
    undecided: UndecidedRequests,
    /// Set if other processes serve the same sessions.
    sharing: Part<Sessions, Sharing>,
    /// The entries of exchanges and sessions.
    tables: Charge,
}

/// Shortest interval between two checks: settings of zero must not keep `handle_timeout` busy.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes that are charged for an exchange and for a session, with what they hold in pieces that are not charged.
const EXCHANGE_COST: usize = size_of::<ServerExchange>() + STEP;
const SESSION_COST: usize = size_of::<HttpSession>();

/// Number of buffered body bytes at which production pauses until the caller takes some.
const MAX_BUFFERED_BODY: usize = 16 << 10;

impl Server {
    /// Creates a server without exchanges.
    ///
    /// Session ids are drawn from `entropy`. It must be unpredictable and must differ between servers.
    #[must_use]
    pub fn new(server: Arc<server::Config>, http: Arc<Config>, entropy: Entropy) -> Self {
        let mut exchanges = ExchangeTable::new(share_of_streams(http.max_exchanges));
        let mut sessions = SessionTable::default();
        if http.protected_resource().is_some() {
            exchanges.count_principals();
            sessions.count_principals();
        }
        let engine = Engine::new(server);
        let tables = server::memory(&engine).open();
        Self {
            engine,
            entropy,
            exchanges,
            path: Arc::from(&*http.path),
            config: http,
            sessions,
            events: VecDeque::new(),
            tool_fields: None,
            now: Instant::ZERO,
            check: DriverCheck::default(),
            overloaded: false,
            validator: None,
            spare_token: Vec::new(),
            undecided: UndecidedRequests::new(),
            sharing: Part::NONE,
            tables,
        }
    }

    /// Sets the index of this shard, from 0, and the number of shards behind one address.
    ///
    /// Must be called before the first request. Session ids then name their shard. A [`Connection`] does not
    /// [open](Self::open) a request for another shard and returns that shard from
    /// [`take_other_shard`](Connection::take_other_shard).
    pub const fn set_shard(&mut self, shard: u8, all: u8) {
        self.sessions.set_shard(shard, all);
    }

    /// Sets a validator of tokens that is asked while the head of a request is handled, at every request (SEC-004).
    ///
    /// It must not block. It returns `None` for a token about which it cannot decide at once; the token then becomes an
    /// [`Event::Token`], as all do without a validator. A decision has the effect of [`grant`](Self::grant) or
    /// [`deny`](Self::deny), and costs less.
    pub fn set_validator(
        &mut self,
        validator: impl Fn(&TokenRequest) -> Option<Result<Arc<Identity>, Denial>> + Send + Sync + 'static,
    ) {
        self.validator = Some(Validator(Box::new(validator)));
    }

    /// Sets whether the limit of calls that wait for handlers is reached.
    ///
    /// While it is, new requests are refused with 503 and `Retry-After`. The same happens beyond
    /// [`Limits::max_live_calls`](crate::Limits::max_live_calls).
    pub const fn set_overloaded(&mut self, overloaded: bool) {
        self.overloaded = overloaded;
    }

    /// Returns the shard of the session that a request names, if it is not this one.
    #[must_use]
    pub fn other_shard(&self, head: &RequestHead<'_>) -> Option<u8> {
        if !self.sessions.is_sharded() {
            return None;
        }
        let (path, query) = split_target(head.target);
        if self.config.http_sse.as_ref().is_some_and(|sse| sse.messages == path) {
            return self.sessions.other_shard(http_sse::HttpSse::session_id(query)?.as_bytes());
        }
        let (_, id) = head
            .fields
            .iter()
            .find(|(name, _)| KnownField::from_name(name) == Some(KnownField::SessionId))?;
        self.sessions.other_shard(id.trim_ascii())
    }

    /// Returns the engine, for answers and other commands.
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Offers tasks to clients ([`Engine::set_tasks`]).
    ///
    /// Without sessions, and without principals, nothing tells the tasks of one client from those of others: `tasks/list`
    /// is not offered then (TASK-035). A server with tasks is one shard: the tasks of others are unknown to it.
    #[cfg(feature = "tasks")]
    pub fn set_tasks(&mut self, now: Instant, table: server::TaskTable) {
        let table = if self.config.tells_clients_apart() { table } else { table.without_list() };
        self.engine.set_tasks(now, table);
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sets the `inputSchema` of a tool, which defines the `Mcp-Param-*` fields of its calls.
    ///
    /// Later requests are checked against it (XHDR-021 to XHDR-026). A schema without `x-mcp-header` removes the
    /// earlier one.
    ///
    /// # Errors
    ///
    /// [`AnnotationError`](super::params::AnnotationError) if an annotation is invalid; nothing changes then.
    pub fn set_tool_schema(
        &mut self,
        tool: &str,
        schema: &crate::raw::RawJson,
    ) -> Result<(), super::params::AnnotationError> {
        let found = HeaderParams::read(schema, self.engine.config().settings.draft)?;
        if found.is_empty() {
            self.remove_tool_schema(tool);
        } else {
            self.tool_fields.get_or_insert_with(tool_fields).set(tool, found);
        }
        Ok(())
    }

    /// Removes the schema of a tool that [`set_tool_schema`](Self::set_tool_schema) set.
    pub fn remove_tool_schema(&mut self, tool: &str) {
        if let Some(tool_fields) = &mut self.tool_fields {
            tool_fields.remove(tool);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.tick(now);
        self.check.polled();
        match self.events.pop_front() {
            Some(event) => Some(event),
            None => {
                let event = self.engine.poll_event(self.now)?;
                // The engine knows the channel alone: the id and the streams of the session are kept here.
                if let server::Event::Closed { channel, fault: Fault::PingTimeout { .. } } = &event {
                    let session = self.engine.exchanges().session_of(channel.0);
                    if let Some(session) = session.and_then(SessionKey::from_engine) {
                        self.end_session(session); // PING-005
                    }
                }
                Some(Event::Server(event))
            }
        }
    }

    /// Returns the next exchange that has new output: its response, body bytes, or the end.
    ///
    /// An exchange is returned again if more output appears after the caller took all of it.
    pub fn poll_ready(&mut self, now: Instant) -> Option<ExchangeId> {
        self.tick(now);
        self.check.polled();
        // The loop ends, because an exchange is listed again only when more output arrives.
        while let Some(owner) = self.engine.exchanges().next_ready() {
            self.fill_response(owner);
        }
        self.exchanges.pop_ready().map(ExchangeId)
    }

    /// Returns the head of the response once it is decided; available until [`release`](Self::release).
    #[must_use]
    pub fn response(&self, exchange: ExchangeId) -> Option<&Response> {
        self.exchanges.get(exchange.0).filter(|x| !x.is_held)?.response.as_ref()
    }

    /// Returns the body bytes to send next; empty if there are none now, or no more at all.
    pub fn transmit(&mut self, now: Instant, exchange: ExchangeId) -> &[u8] {
        self.tick(now);
        // Output is made when the reader asks for it, so a slow reader holds one piece and no more (DESIGN-13).
        self.fill_response(exchange.0);
        self.exchanges.get(exchange.0).filter(|x| !x.is_held).map_or(&[], |x| x.out.transmit())
    }

    /// Returns the next part of the body as an owned segment if it is large, without a copy; it counts as sent.
    pub fn transmit_owned(&mut self, now: Instant, exchange: ExchangeId) -> Option<Bytes> {
        self.tick(now);
        self.fill_response(exchange.0);
        self.exchanges.get_mut(exchange.0).filter(|x| !x.is_held)?.out.pop_segment()
    }

    /// Records that `n` bytes of the body were sent, from the beginning of [`transmit`](Self::transmit).
    pub fn consume(&mut self, exchange: ExchangeId, n: usize) {
        if let Some(x) = self.exchanges.get_mut(exchange.0) {
            x.out.consume(n);
            // What was taken completely stays with this client. The rest can still go to another stream.
            if let Some(unwritten) = x.unwritten.as_mut() {
                unwritten.discard_written(x.out.consumed());
            }
        }
    }

    /// Returns whether the whole body was taken; also true for an unknown exchange.
    #[must_use]
    pub fn is_finished(&self, exchange: ExchangeId) -> bool {
        self.exchanges
            .get(exchange.0)
            .is_none_or(|x| x.response.is_some() && x.output_complete && x.out.is_empty() && !x.is_held)
    }

    /// Removes an exchange whose response was sent.
    pub fn release(&mut self, now: Instant, exchange: ExchangeId) {
        self.handle_gone(now, exchange);
    }

    /// Records that the client disconnected or has received its response.
    ///
    /// An unanswered modern request is cancelled (HTTP-042). A legacy request continues, and its client may resume the
    /// stream (HTTP-062, SSE-021). Messages of a GET stream that were not [consumed](Self::consume) completely go to
    /// another GET stream of the session, or wait for the next one.
    pub fn handle_gone(&mut self, now: Instant, exchange: ExchangeId) {
        self.tick(now);
        self.disconnect(exchange.0);
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let own = self.exchanges.next_deadline().into_iter().chain(self.sessions.next_deadline());
        let undecided = has_undecided(self).then(|| self.undecided.next_deadline(&self.exchanges));
        own.chain(undecided.flatten()).chain(self.engine.poll_timeout()).min()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        next_deadline(self).map(|(_, reason)| reason)
    }

    /// Advances the time to `now`; an early or spurious call has no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        if cfg!(debug_assertions) {
            let next = next_deadline(self);
            let has_output =
                !self.events.is_empty() || self.engine.has_events() || self.exchanges.has_ready();
            self.check.handle_timeout(self.now, next, has_output);
        }
        self.engine.process_timeouts(self.now);
        // The loop ends: `check_exchange` sets the next time later than `now`.
        while let Some(key) = self.exchanges.pop_due(self.now) {
            self.check_exchange(key);
        }
        if has_undecided(self) {
            token::refuse_undecided(self);
        }
        session::expire_sessions(self);
        self.exchanges.trim_if_due(self.now);
        charge_tables(self);
    }

    /// Refuses new requests, and ends each stream when its calls are answered, or after `grace`.
    pub fn shutdown(&mut self, now: Instant, grace: Duration) {
        self.tick(now);
        self.engine.shutdown(self.now, grace);
        // The keys are collected first, because `finish` removes exchanges from the table.
        let streams: Vec<Key> = self.exchanges.keys().collect();
        for key in streams {
            let Some(x) = self.exchanges.get(key) else { continue };
            match x.kind {
                // A DELETE may still end its session.
                Kind::Other => {}
                // The engine has not seen this request, so nothing else would answer it.
                _ if x.response.is_none() && x.stream.is_none() => {
                    self.exchanges.refuse(key, &shutting_down())
                }
                Kind::Get => self.finish(key),
                _ => self.exchanges.mark_ready(key),
            }
        }
    }

    /// Returns the number of open exchanges, including those that wait for a client to resume.
    #[must_use]
    pub fn exchange_count(&self) -> usize {
        self.exchanges.len()
    }

    /// Returns the number of legacy sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    // ---- internals -------------------------------------------------------------------------------------------

    fn tick(&mut self, now: Instant) {
        driving::check_time(self.now, now);
        self.now = self.now.max(now);
    }

    /// Removes an exchange and keeps some of its memory for reuse.
    fn remove(&mut self, key: Key) {
        // The tree of the session has its links in the slot, so the exchange leaves it before the slot is free.
        self.sessions.remove_exchange(&mut self.exchanges, key);
        self.exchanges.remove(self.now, key);
        charge_tables(self);
    }
}

/// Charges the tables if they have changed by much.
#[inline]
fn charge_tables(server: &mut Server) {
    let bytes = server.exchanges.len() * EXCHANGE_COST + server.sessions.len() * SESSION_COST;
    server.tables.follow_coarsely(bytes);
}

/// Returns whether requests may wait for a decision of the application.
fn has_undecided(server: &Server) -> bool {
    server.config.protected_resource().is_some() || server.sharing.as_ref().is_some()
}

/// Returns the next deadline of a server and its reason.
fn next_deadline(server: &mut Server) -> Option<(Instant, TimeoutReason)> {
    let undecided = has_undecided(server).then(|| server.undecided.next_deadline(&server.exchanges));
    TimeoutReason::earliest([
        server.exchanges.timeout_reason(),
        server.sessions.next_deadline().map(|at| (at, TimeoutReason::Session)),
        undecided.flatten().map(|at| (at, TimeoutReason::TokenDecision)),
        server.engine.next_deadline(),
    ])
}

/// Splits a target into its path and its query.
#[inline]
fn split_target(target: &str) -> (&str, &str) {
    // Most targets are a short path, for which this costs less than a search for a character.
    let at = target.bytes().position(|b| b == b'?').and_then(|at| target.split_at_checked(at));
    at.map_or((target, ""), |(path, query)| (path, query.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1);

    #[test]
    fn exchanges_and_sessions_are_charged_while_they_are_open() {
        let config = Arc::new(server::Config::new("demo", "1.0"));
        let mut server = Server::new(config, Arc::new(Config::new()), Entropy::new([7; 32], 0));
        let fields: [crate::head::FieldLine<'_>; 1] = [("host", b"localhost")];
        let head = RequestHead { method: "GET", target: "/nowhere", fields: &fields };
        let used = |server: &Server| server::memory(&server.engine).used();
        // Changes are followed by steps of 8 KiB.
        let is_about = |used: usize, expected: usize| used.abs_diff(expected) < 16 * STEP;
        let open: Vec<ExchangeId> = (0..1_000).map(|_| server.open(NOW, &head, None)).collect();
        assert!(is_about(used(&server), 1_000 * EXCHANGE_COST), "{}", used(&server));

        let channels: Vec<Key> = (0..1_000).map(|_| server.engine.open_channel(NOW).0).collect();
        let before = used(&server);
        for channel in channels {
            server.begin_session(channel, None, Sessions::get().expect("built"));
        }
        server.handle_timeout(NOW);
        let all = used(&server);
        assert!(is_about(all - before, 1_000 * SESSION_COST), "{before}, then {all}");
        open.into_iter().for_each(|exchange| server.release(NOW, exchange));
        assert!(is_about(all - used(&server), 1_000 * EXCHANGE_COST), "{all}, then {}", used(&server));
    }
}
