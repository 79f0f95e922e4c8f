//! The state of an HTTP server without its handler and dispatcher.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::http::server::{self as http, ExchangeId, TokenRequest};
use mcp_proto::server::{Announcement, Config, Engine, Event};
use mcp_proto::{CallId, Entropy, Instant};

use super::shards::{MAX_SHARD_MESSAGES, ShardMessage};
use super::token_workers::TokenOutcome;
use crate::adapter::server::change_set::ChangeSet;
use crate::adapter::server::connections::Connections;
use crate::adapter::server::handler::Handler;
use crate::adapter::server::server_loop::{Backlog, ServerLoop};
use crate::adapter::sync::{Inbox, Sender};
use crate::{Error, catch};

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
    /// Exchanges whose tokens were given to the threads of the validator, with the flags that the decision is wanted.
    pub(super) undecided_tokens: Vec<(ExchangeId, Arc<AtomicBool>)>,
    /// Names of the tools whose schemas the server has.
    pub(super) tool_names: Vec<String>,
    pub(super) tools_changed: bool,
    /// Deadline of the shutdown.
    pub(super) shutdown_deadline: Option<Instant>,
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
            undecided_tokens: Vec::new(),
            tool_names: Vec::new(),
            tools_changed: false,
            shutdown_deadline: None,
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
        self.server.shutdown(now, grace);
        self.connections.close(&mut self.server);
        self.shutdown_deadline = Some(now + grace);
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
        let mut removed = core::mem::take(&mut self.tool_names);
        let mut first_error = None;
        let visited = catch(|| {
            handler.for_each_tool(&mut |name, schema| {
                removed.retain(|other| other != name);
                self.tool_names.push(name.into());
                if let Err(why) = self.server.set_tool_schema(name, schema) {
                    let why =
                        alloc::format!("the schema of the tool `{name}` cannot be served over HTTP: {why}");
                    first_error.get_or_insert_with(|| io::Error::new(ErrorKind::InvalidInput, why));
                }
            })
        });
        if let Err(panic) = visited {
            // Keep the previous names, so that their schemas can be removed later.
            self.tool_names.append(&mut removed);
            first_error.get_or_insert_with(|| io::Error::other(panic.to_string()));
        }
        removed.iter().for_each(|name| self.server.remove_tool_schema(name));
        first_error.map_or(Ok(()), |error| Err(Error::Io(error)))
    }
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
