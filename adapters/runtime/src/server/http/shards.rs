//! Shards of an HTTP server: creation, and messages between them.

use alloc::vec::Vec;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::http::server::ExchangeId;
use mcp_proto::server::Announcement;
use mcp_proto::{Change, Entropy};
use mcp_std::sync::Sender;
use mcp_std::task_store::TasksError;
use mcp_std::{catch, entropy};

use super::HttpServer;
use super::event_loop::HttpLoop;
use super::state::{State, TokenOutcome};
use crate::Error;
use crate::inline_map::ErasedBox;
use crate::server::Cores;
use crate::server::connection::MigratedConnection;
use crate::server::dispatcher::CommandSender;
use crate::server::handler::Handler;
use crate::server::server_loop::{self, ChangeSet};

/// A message from one shard to another.
#[derive(Debug)]
pub(super) enum ShardMessage {
    /// A connection that the other shard serves from now on: new, or with a request for a session there.
    Connection(MigratedConnection),
    /// Something has changed.
    Changed(ChangeSet),
    /// Shuts the server down.
    Shutdown(Duration),
    /// A connection waits for a permit, and one shard should release one.
    EvictOne,
    /// A token was decided about. Not from another shard, but from a thread of the validator.
    Token(ExchangeId, TokenOutcome),
}

impl ShardMessage {
    /// Merges the changes of another message into this one. Returns `false` unless both carry changes.
    fn merge(&mut self, other: &Self) -> bool {
        let (Self::Changed(changes), Self::Changed(more)) = (self, other) else { return false };
        changes.merge(more);
        true
    }
}

impl<H: Handler> HttpServer<H> {
    /// Creates `more` servers behind the same address, for other threads or tasks. Each is a shard with its own clients
    /// and sessions.
    ///
    /// This server is the first shard. It distributes new connections. A request for a session of another shard moves
    /// its connection there. A change that one shard publishes reaches the subscribers of all shards. Shutting down one
    /// shard shuts down all. Call this after all other settings, and before the server runs.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind); [`InvalidInput`](io::ErrorKind::InvalidInput) for more than 255 shards including this
    /// one; [`Error::Tasks`] if the server has tasks, which the other shards would not know.
    pub fn shards(&mut self, more: usize) -> Result<Vec<Shard>, Error> {
        self.inner.shards(more)
    }

    /// Pins each [shard](Self::shards) that is created from now on to a core.
    ///
    /// Connections go to the shard of the core that receives their packets, while that keeps the shards even. The
    /// thread of a shard must call [`pin_thread`](Self::pin_thread).
    pub fn pin_shards(&mut self) {
        self.inner.state.connections.pin_shards();
    }

    /// Pins this thread to the core of this shard, if shards [are pinned](Self::pin_shards). The first shard is never
    /// pinned.
    pub fn pin_thread(&self) {
        self.inner.state.connections.pin_thread();
    }

    /// Returns the cores of the shards; empty unless shards [are pinned](Self::pin_shards).
    #[must_use]
    pub fn cores(&self) -> &Cores {
        self.inner.state.connections.cores()
    }
}

/// A shard without a handler.
#[derive(Debug)]
pub struct Shard(ErasedBox<HttpLoop>);

impl Shard {
    /// Creates the server of this shard.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the schema of a tool has invalid header parameters, or [`Handler::for_each_tool`] panics.
    pub fn with_handler<H: Handler>(self, handler: H) -> Result<HttpServer<H>, Error> {
        HttpServer::from_loop(self.0, handler)
    }

    /// Returns a handle that sends commands to the event loop of the shard from any thread.
    #[must_use]
    pub fn commands(&self) -> CommandSender {
        self.0.dispatcher.commands()
    }
}

impl HttpLoop {
    /// Creates `more` shards.
    fn shards(&mut self, more: usize) -> Result<Vec<Shard>, Error> {
        // A task store belongs to one engine (DESIGN-49).
        if more > 0 && self.dispatcher.has_tasks() {
            return Err(TasksError::Shards.into());
        }
        let too_many = |_| io::Error::new(ErrorKind::InvalidInput, "a server has at most 255 shards");
        let all = u8::try_from(more + 1).map_err(too_many)?;
        let mut others = Vec::new();
        for shard in 1..all {
            let connections = self.state.connections.shard(shard, all)?;
            // A secret and a nonce of its own, so that no two shards draw the same session id (DESIGN-07).
            let entropy = Entropy::new(entropy::seed()?, entropy::nonce());
            let (config, http) = (self.state.config.clone(), self.state.http.clone());
            let mut state = State::new(connections, config, http, entropy);
            state.server.set_shard(shard, all);
            state.bound_streams();
            let mut other = Self::new(state);
            other.dispatcher.set_max_running(self.dispatcher.max_running());
            if let Some(tokens) = &self.tokens {
                other.set_tokens(tokens.workers().clone());
            }
            if let Some(sharing) = &self.state.sharing {
                let sharing = sharing.for_shard(&mut other.state.server)?;
                other.state.repeatable_tools.clone_from(&self.state.repeatable_tools);
                other.set_sharing(sharing)?;
            }
            others.push(other);
        }
        self.state.server.set_shard(0, all);
        self.state.bound_streams();
        let loops = core::iter::once(&*self).chain(others.iter().map(|other| &**other));
        let senders: Vec<_> = loops.map(|shard| shard.state.shard_inbox.sender()).collect();
        for shard in core::iter::once(self).chain(others.iter_mut().map(|other| &mut **other)) {
            let waker = shard.waker()?;
            shard.state.shard_inbox.register(&waker);
            shard.state.shard_senders.clone_from(&senders);
        }
        Ok(others.into_iter().map(Shard).collect())
    }
}

impl State {
    /// Applies messages of other shards. Returns whether there were any.
    pub(super) fn process_shard_messages(&mut self) -> bool {
        if !self.shard_inbox.take(&mut self.shard_messages) {
            return false;
        }
        self.connections.tick();
        let mut messages = core::mem::take(&mut self.shard_messages);
        for message in messages.drain(..) {
            match message {
                ShardMessage::Connection(connection) => self.connections.adopt(&mut self.server, connection),
                // A condition of the application may panic.
                ShardMessage::Changed(changes) => _ = catch(|| self.publish_changes(&changes)),
                ShardMessage::Shutdown(grace) => self.begin_shutdown(grace),
                ShardMessage::Token(exchange, outcome) => self.apply_token_outcome(exchange, outcome),
                ShardMessage::EvictOne => self.connections.evict_for_first_shard(&mut self.server),
            }
        }
        self.shard_messages = messages;
        true
    }

    /// Sends connections to the shards that serve them.
    pub(super) fn forward_connections(&mut self) {
        while let Some((shard, connection)) = self.connections.poll_migrating() {
            if let Some(other) = self.shard_senders.get(usize::from(shard)) {
                // Bounded by the number of open connections. If that shard has ended, the connection is closed.
                let _ = other.send_unbounded(ShardMessage::Connection(connection));
            }
        }
        if self.connections.take_at_capacity() {
            self.broadcast(|| ShardMessage::EvictOne);
        }
    }

    /// Sends a message to all other shards. A full inbox drops it.
    fn broadcast(&self, make: impl Fn() -> ShardMessage) {
        self.other_shards().for_each(|other| _ = other.send(make()));
    }

    pub(super) fn other_shards(&self) -> impl Iterator<Item = &Sender<ShardMessage>> {
        self.shard_senders.iter().filter(|other| !other.is_sender_of(&self.shard_inbox))
    }

    /// Publishes a change to its audience in all shards. Returns the number of subscribers in this shard.
    pub(super) fn publish_to_all(&mut self, announcement: &Announcement<'_>) -> usize {
        self.forward_changes(|| announcement.into());
        self.publish_locally(announcement)
    }

    /// Sends changes to all other shards and processes. A full inbox merges them instead of dropping them.
    pub(super) fn forward_changes(&mut self, changes: impl Fn() -> ChangeSet) {
        if let Some(sharing) = &mut self.sharing {
            sharing.publish(&changes());
        }
        for other in self.other_shards() {
            // A shard that has ended has no subscribers.
            let _ = other.send_or_merge(ShardMessage::Changed(changes()), ShardMessage::merge);
        }
    }

    /// Publishes changes of another shard.
    pub(super) fn publish_changes(&mut self, changes: &ChangeSet) {
        let resources = if changes.includes_all_resources() {
            server_loop::subscribed_resource_changes(self.server.engine())
        } else {
            Vec::new()
        };
        changes.iter().for_each(|announcement| _ = self.publish_locally(&announcement));
        resources.iter().for_each(|change| _ = self.publish_locally(&change.into()));
    }

    fn publish_locally(&mut self, announcement: &Announcement<'_>) -> usize {
        self.tools_changed |= *announcement == Change::Tools;
        let now = self.connections.tick();
        self.server.engine().publish(now, announcement)
    }
}

/// Maximum number of waiting messages of a shard. Connections are not counted.
pub(super) const MAX_SHARD_MESSAGES: usize = 1024;
