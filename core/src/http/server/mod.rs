//! A server of Streamable HTTP, and of HTTP+SSE, exchange by exchange.
//!
//! It does not care who speaks HTTP: our own [`h1`](crate::h1), or any other stack. Each exchange goes like this:
//!
//! 1. [`open`](Server::open) with the head of the request; then [`handle_body`](Server::handle_body) while
//!    [`wants_body`](Server::wants_body), and [`handle_end`](Server::handle_end);
//! 2. events as with [`server::Engine`]: calls are answered at the [`engine`](Server::engine);
//! 3. [`poll_ready`](Server::poll_ready) says which exchange has something to send: its
//!    [`response`](Server::response) once that is decided, then the bytes of its body from
//!    [`transmit`](Server::transmit), as many as can be written, until it [is finished](Server::is_finished); then
//!    [`release`](Server::release);
//! 4. [`handle_gone`](Server::handle_gone) when the client went away before that.
//!
//! [`Connection`] does all of that for one connection of our own HTTP/1.1.
//!
//! What is not taken is not made: a reader that is slow costs its share of the engine's outbox and no more.

mod config;
mod connection;
mod exchange;
mod head;
mod mirror;
mod old;
mod post;
mod pump;
mod replay;
mod session;

pub use config::{Config, Protected};
pub use connection::Connection;
pub use exchange::{ExchangeId, Response};
pub use head::Denial;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use self::exchange::{Exchange, Kind, Parts};
use self::head::shutting_down;
use self::session::Sessions;
use super::fields::{self, Known};
use super::params::HeaderParams;
use crate::entropy::Entropy;
use crate::head::Request;
use crate::server::{self, Engine};
use crate::slab::{Key, Slab};
use crate::time::Instant;

/// Something for the application to act on
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// What the engine tells, as on every transport
    Server(server::Event),
    /// A request came with a token: judge it, then [`grant`](Server::grant) or [`deny`](Server::deny) (AUTH)
    ///
    /// Told only where the server is [protected](Config::protected). The exchange waits.
    Token {
        /// Which exchange
        exchange: ExchangeId,
        /// The token, as it stood in the request
        token: Token,
    },
}

/// A bearer token; shown by nothing but [`reveal`](Self::reveal) (SEC-019)
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<str>);

impl Token {
    /// The token
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A server over HTTP: every revision of Streamable HTTP side by side on one path
///
/// One of these is one shard: it shares nothing with others but its configurations. Several of them behind one address
/// are told [so](Self::is_one_of).
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    config: Arc<Config>,
    entropy: Entropy,
    exchanges: Slab<Exchange>,
    /// How many of them are streams without an end of their own
    standing: usize,
    sessions: Sessions,
    /// Exchanges that have something to send, each once
    ready: VecDeque<Key>,
    events: VecDeque<Event>,
    /// What tools want to see repeated in fields, ordered by name
    tools: Vec<(Box<str>, HeaderParams)>,
    /// Memory of exchanges that are over, for the next one
    spare: Parts,
    now: Instant,
    /// As much waits for handlers as may
    overloaded: bool,
    /// When streams are looked at next …
    tick: Instant,
    /// … and how often
    period: Duration,
}

/// How many bytes of a body are made before some of them are taken
const AHEAD: usize = 16 << 10;

impl Server {
    /// A server without exchanges
    ///
    /// `entropy` is where session ids come from: it must be unpredictable, and differ from that of other servers.
    #[must_use]
    pub fn new(server: Arc<server::Config>, http: Arc<Config>, entropy: Entropy) -> Self {
        let least = http.keep_alive.min(http.sse_after).min(http.session_idle) / 4;
        let period = least.clamp(Duration::from_millis(50), Duration::from_secs(1));
        Self {
            engine: Engine::new(server),
            config: http,
            entropy,
            exchanges: Slab::new(),
            standing: 0,
            sessions: Sessions::default(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            tools: Vec::new(),
            spare: Parts::default(),
            now: Instant::ZERO,
            overloaded: false,
            tick: Instant::FAR,
            period,
        }
    }

    /// Says which shard this is, counted from 0, of how many behind one address; before the first request
    ///
    /// Ids of sessions name their shard then. A request for another one is not [opened](Self::open) by a [`Connection`],
    /// which says [where it belongs](Connection::elsewhere).
    pub const fn is_one_of(&mut self, shard: u8, all: u8) {
        self.sessions.is_one_of(shard, all);
    }

    /// Says whether as many calls wait for handlers as may: as long as they do, more requests are refused with 503, as they
    /// are beyond [`Limits::max_live_calls`](crate::Limits), and told when to come again
    pub const fn set_overloaded(&mut self, overloaded: bool) {
        self.overloaded = overloaded;
    }

    fn is_overloaded(&self) -> bool {
        self.overloaded || self.engine.is_full()
    }

    /// The shard that a request is for, by the session that it names, if that is another one than this
    #[must_use]
    pub fn elsewhere(&self, head: &Request<'_>) -> Option<u8> {
        if !self.sessions.is_sharded() {
            return None;
        }
        let (path, query) = split_target(head.target);
        if self.config.old_paths.as_ref().is_some_and(|(_, post)| post == path) {
            let id = self::query(query, fields::OLD_SESSION)?;
            return self.sessions.elsewhere(id.as_bytes());
        }
        let (_, id) = head.fields.iter().find(|(name, _)| Known::of(name) == Some(Known::SessionId))?;
        self.sessions.elsewhere(id.trim_ascii())
    }

    /// The engine, for answers and other commands
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// The configuration
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Says which parameters of a tool clients repeat in `Mcp-Param-*` fields, by the tool's `inputSchema`; requests are
    /// held against it from now on (XHDR-021 to XHDR-026)
    ///
    /// A schema without `x-mcp-header` takes what was known of the tool away. The error names what is wrong with it.
    pub fn tool_schema(
        &mut self,
        tool: &str,
        schema: &crate::raw::RawJson,
    ) -> Result<(), super::params::BadAnnotation> {
        let found = HeaderParams::of(schema)?;
        self.forget_tool(tool);
        if !found.is_empty() {
            let at = self.tools.partition_point(|(name, _)| **name < *tool);
            self.tools.insert(at, (tool.into(), found));
        }
        Ok(())
    }

    /// Forgets what [`tool_schema`](Self::tool_schema) said of a tool
    pub fn forget_tool(&mut self, tool: &str) {
        if let Ok(at) = self.tools.binary_search_by(|(name, _)| (**name).cmp(tool)) {
            self.tools.remove(at);
        }
    }

    /// The next event
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.tick(now);
        match self.events.pop_front() {
            Some(event) => Some(event),
            None => self.engine.poll_event(self.now).map(Event::Server),
        }
    }

    /// The next exchange that has something new to send: its response, bytes, or the end
    ///
    /// One that was told is told again when there is more after all of it was taken.
    pub fn poll_ready(&mut self, now: Instant) -> Option<ExchangeId> {
        self.tick(now);
        while let Some(owner) = self.engine.next_ready() {
            self.refill(owner);
        }
        while let Some(key) = self.ready.pop_front() {
            if let Some(x) = self.exchanges.get_mut(key) {
                x.marked = false;
                return Some(ExchangeId(key));
            }
        }
        None
    }

    /// The head of the response, once it is decided; until [`release`](Self::release)
    #[must_use]
    pub fn response(&self, exchange: ExchangeId) -> Option<&Response> {
        self.exchanges.get(exchange.0)?.response.as_ref()
    }

    /// Bytes of the body to send next; empty when there are none yet, or none any more
    pub fn transmit(&mut self, now: Instant, exchange: ExchangeId) -> &[u8] {
        self.tick(now);
        self.refill(exchange.0);
        self.exchanges.get(exchange.0).map_or(&[], |x| x.out.transmit())
    }

    /// The next part of the body as an owned segment if it is large: a payload that was never copied
    pub fn transmit_owned(&mut self, now: Instant, exchange: ExchangeId) -> Option<Bytes> {
        self.tick(now);
        self.refill(exchange.0);
        self.exchanges.get_mut(exchange.0)?.out.pop_segment()
    }

    /// Notes that `n` bytes of the body were taken
    pub fn consume(&mut self, exchange: ExchangeId, n: usize) {
        if let Some(x) = self.exchanges.get_mut(exchange.0) {
            x.out.consume(n);
        }
    }

    /// Whether the body ends with the bytes that were taken; also once the exchange is unknown
    #[must_use]
    pub fn is_finished(&self, exchange: ExchangeId) -> bool {
        self.exchanges.get(exchange.0).is_none_or(|x| x.response.is_some() && x.done && x.out.is_empty())
    }

    /// Forgets an exchange whose response was sent
    pub fn release(&mut self, now: Instant, exchange: ExchangeId) {
        self.handle_gone(now, exchange);
    }

    /// Says that the client is gone, or has had its response
    ///
    /// A modern request that was not answered is cancelled by it (HTTP-042); a legacy one goes on, and its client may
    /// come back for what it missed (HTTP-062, SSE-021).
    pub fn handle_gone(&mut self, now: Instant, exchange: ExchangeId) {
        self.tick(now);
        self.disconnect(exchange.0);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let tick = (self.tick < Instant::FAR).then_some(self.tick);
        self.engine.poll_timeout().into_iter().chain(tick).min()
    }

    /// Lets deadlines pass; calling it early or in vain does no harm
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        self.engine.handle_timeout(self.now);
        if self.now >= self.tick {
            self.look_around();
        }
    }

    /// Refuses what is new and ends every stream when its calls are answered, or after `grace`
    pub fn shutdown(&mut self, now: Instant, grace: Duration) {
        self.tick(now);
        self.engine.shutdown(self.now, grace);
        let streams: Vec<Key> = self.exchanges.iter().map(|(key, _)| key).collect();
        for key in streams {
            let Some(x) = self.exchanges.get(key) else { continue };
            match x.kind {
                // Who ends a session may.
                Kind::Other => {}
                _ if x.response.is_none() && x.stream.is_none() => self.refuse(key, &shutting_down()),
                Kind::Get => self.finish(key),
                _ => self.mark(key),
            }
        }
    }

    /// Exchanges under way, those included that wait for a client to come back
    #[must_use]
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    /// Legacy sessions
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    // ---- inside ----------------------------------------------------------------------------------------------

    fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Forgets an exchange, and keeps a little of its memory
    fn remove(&mut self, key: Key) {
        if let Some(x) = self.exchanges.remove(key) {
            self.spare.take(x);
        }
    }

    /// The exchanges of a session's calls
    fn calls_of(&self, session: Key) -> impl Iterator<Item = (Key, &Exchange)> {
        self.exchanges.iter().filter(move |(_, x)| x.counted && x.session == Some(session))
    }

    /// Has an exchange told as ready
    fn mark(&mut self, key: Key) {
        if let Some(x) = self.exchanges.get_mut(key).filter(|x| !x.gone) {
            if !core::mem::replace(&mut x.marked, true) {
                self.ready.push_back(key);
            }
        }
    }

    /// Looks at streams that are silent, at calls that take long, and at sessions that nobody uses
    fn look_around(&mut self) {
        let now = self.now;
        let keys: Vec<Key> = self.exchanges.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.look_at(key);
        }
        self.expire_sessions();
        let busy = self.exchanges.len() > 0;
        if !busy {
            self.spare = Parts::default();
            self.exchanges.trim();
        }
        let idle = self.sessions.len() > 0;
        self.tick = match (busy, idle) {
            (true, _) => now + self.period,
            (false, true) => now + self.config.session_idle / 16,
            (false, false) => Instant::FAR,
        };
    }

    fn begin_ticking(&mut self) {
        let soon = self.now + self.period;
        self.tick = self.tick.min(soon);
    }
}

/// A path and what follows the question mark
fn split_target(target: &str) -> (&str, &str) {
    target.split_once('?').unwrap_or((target, ""))
}

/// The value of a parameter in a query
fn query<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}
