//! The engine of a shard with its clock, as handlers and the dispatcher see it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::http::server::{self as http, ExchangeId, TokenRequest};
use mcp_proto::server::{Announcement, Engine, Event};
use mcp_proto::{CallId, Change, Instant};
use mcp_runtime::Error;
use mcp_runtime::server::{
    ChangeSet, ServerLoop, ShareSessions, register_tools, subscribed_resource_changes,
};
use mcp_std::catch;

use crate::Timer;
use crate::handler::Application;

/// The engine of a shard and its clock.
pub(super) struct Host {
    pub(super) server: http::Server,
    timer: Arc<dyn Timer>,
    now: Instant,
    /// Exchanges with tokens that the validator was not asked about.
    pub(super) tokens: VecDeque<(ExchangeId, TokenRequest)>,
    /// Set if other processes serve the same sessions.
    pub(super) sharing: Option<Box<dyn ShareSessions>>,
    /// Whether there are other shards, and so changes are kept for them.
    pub(super) is_sharded: bool,
    /// Changes of this shard that the others do not know.
    pub(super) unshared: Option<ChangeSet>,
    /// A shutdown that the others do not know.
    pub(super) unshared_shutdown: Option<Duration>,
    pub(super) shutdown_deadline: Option<Instant>,
    /// Names of the tools whose calls may run again in another process.
    pub(super) repeatable_tools: Vec<Box<str>>,
    pub(super) tools_changed: bool,
    /// Names of the tools whose schemas the server has.
    tool_names: Vec<String>,
}

impl Host {
    pub(super) fn new(server: http::Server, timer: Arc<dyn Timer>) -> Self {
        Self {
            server,
            now: now(&*timer),
            timer,
            tokens: VecDeque::new(),
            sharing: None,
            is_sharded: false,
            unshared: None,
            unshared_shutdown: None,
            shutdown_deadline: None,
            repeatable_tools: Vec::new(),
            tools_changed: false,
            tool_names: Vec::new(),
        }
    }

    /// Returns the next event of the engine.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        loop {
            match self.server.poll_event(self.now)? {
                http::Event::Server(event) => return Some(event),
                http::Event::Token { exchange, request } => self.tokens.push_back((exchange, request)),
                http::Event::Shared(event) => {
                    if let Some(sharing) = &mut self.sharing {
                        sharing.handle_event(self.now, &mut self.server, event);
                    }
                }
                _ => {}
            }
        }
    }

    /// Publishes changes of another shard, or of this one.
    pub(super) fn publish_here(&mut self, changes: &ChangeSet) {
        let resources = if changes.includes_all_resources() {
            subscribed_resource_changes(self.server.engine())
        } else {
            Vec::new()
        };
        let resources = resources.iter().map(Announcement::from);
        for announcement in changes.iter().chain(resources) {
            self.tools_changed |= announcement == Change::Tools;
            // A condition of the application may panic.
            let _ = catch(|| self.server.engine().publish(self.now, &announcement));
        }
    }

    /// Does what the store of sessions and other processes have brought. Returns whether there was anything.
    pub(super) fn drive_sharing(&mut self) -> bool {
        let Some(sharing) = &mut self.sharing else { return false };
        let driven = sharing.drive(self.now, &mut self.server);
        if let Some(changes) = &driven.changes {
            self.publish_here(changes);
        }
        driven.any
    }

    fn share(&mut self, changes: &ChangeSet) {
        if let Some(sharing) = &mut self.sharing {
            sharing.publish(changes);
        }
        if self.is_sharded {
            self.unshared.get_or_insert_default().merge(changes);
        }
    }

    /// Registers the schemas of tools, for arguments that are repeated in header fields.
    pub(super) fn register_tools(&mut self, application: &dyn Application) -> Result<(), Error> {
        register_tools(&mut self.server, &mut self.tool_names, |visit| application.for_each_tool(visit))
    }
}

impl ServerLoop for Host {
    fn set_repeatable_tools(&mut self, names: &[Box<str>]) {
        self.repeatable_tools = names.into();
    }

    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn tick(&mut self) -> Instant {
        self.now = self.now.max(now(&*self.timer));
        self.now
    }

    fn publish(&mut self, announcement: &Announcement<'_>) {
        self.tick();
        let changes = ChangeSet::from(announcement);
        self.share(&changes);
        self.publish_here(&changes);
    }

    fn publish_resources(&mut self) {
        let changes = ChangeSet::all_resources();
        self.share(&changes);
        self.publish_here(&changes);
    }

    fn shutdown(&mut self, grace: Duration) {
        let at = self.tick() + grace;
        // Shards tell each other, and only an earlier end is news.
        if self.shutdown_deadline.is_some_and(|earlier| earlier <= at) {
            return;
        }
        self.server.shutdown(self.now, grace);
        self.shutdown_deadline = Some(at);
        self.unshared_shutdown = self.is_sharded.then_some(grace);
    }

    fn tells_clients_apart(&self) -> bool {
        self.server.config().tells_clients_apart()
    }

    fn supports_poll_later(&self) -> bool {
        true
    }

    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let now = self.tick();
        self.server.poll_later(now, call, retry)
    }
}

/// Returns the time of a clock as an instant of the core.
pub(crate) fn now(timer: &dyn Timer) -> Instant {
    Instant::from_micros(u64::try_from(timer.now().as_micros()).unwrap_or(u64::MAX))
}
