//! What the loop of a server over HTTP works on: everything but the handlers

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::http::server::{self as http, ExchangeId, Token};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{CallId, Change, Entropy, Instant};

use super::shards::{Crossing, MAX_CROSSINGS};
use crate::inbox::{Inbox, Sender};
use crate::serve::changes::Changes;
use crate::serve::handler::Handler;
use crate::serve::host::{Backlog, Host};
use crate::serve::peers::Peers;
use crate::{Error, catch};

/// Everything but the handler
#[derive(Debug)]
pub(super) struct State {
    pub(super) server: http::Server,
    pub(super) peers: Peers,
    pub(super) config: Arc<Config>,
    pub(super) http: Arc<http::Config>,
    pub(super) backlog: Backlog,
    /// What comes from other shards, and where to send it, by their numbers; none if there is only one
    pub(super) crossings: Inbox<Crossing>,
    pub(super) siblings: Vec<Sender<Crossing>>,
    pub(super) crossed: VecDeque<Crossing>,
    /// Exchanges that wait for a judgement of their tokens; no more of them than connections
    pub(super) held: VecDeque<(ExchangeId, Token)>,
    /// The tools that the server knows the schemas of
    pub(super) told: Vec<String>,
    pub(super) tools_changed: bool,
    /// When what is left is given up, once it was told to shut down
    pub(super) ends_at: Option<Instant>,
    /// Why nothing can be waited for
    pub(super) error: Option<io::Error>,
}

impl State {
    pub(super) fn new(peers: Peers, config: Arc<Config>, http: Arc<http::Config>, entropy: Entropy) -> Self {
        Self {
            server: http::Server::new(config.clone(), http.clone(), entropy),
            peers,
            config,
            http,
            backlog: Backlog::default(),
            crossings: Inbox::new(MAX_CROSSINGS),
            siblings: Vec::new(),
            crossed: VecDeque::new(),
            held: VecDeque::new(),
            told: Vec::new(),
            tools_changed: false,
            ends_at: None,
            error: None,
        }
    }

    pub(super) fn shut_down(&mut self, grace: Duration) {
        let now = self.peers.tick();
        self.server.shutdown(now, grace);
        self.peers.close(&mut self.server);
        self.ends_at = Some(now + grace);
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.backlog.pop().or_else(|| self.poll_event())
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let now = self.peers.now();
        loop {
            match self.server.poll_event(now)? {
                http::Event::Server(event) => return Some(event),
                http::Event::Token { exchange, token } => self.held.push_back((exchange, token)),
                _ => {}
            }
        }
    }

    /// Whether more is taken in while a handler runs on this thread
    pub(super) fn reads(&mut self) -> bool {
        !self.backlog.is_full(self.config.get_limits())
    }

    pub(super) fn wait_until(&mut self, until: Option<Instant>) {
        let reads = self.reads();
        if let Err(error) = self.peers.wait(&mut self.server, reads, until) {
            self.error.get_or_insert(error);
            self.peers.tick();
        }
    }

    /// Gives the next one its turn for whom there is something; false when there is nobody
    pub(super) fn next_peer(&mut self) -> bool {
        let reads = self.reads();
        self.peers.next(&mut self.server, reads)
    }

    /// Gives all of them their turn, and writes what comes of it; whether there were any
    pub(super) fn each_peer(&mut self) -> bool {
        let mut any = false;
        while self.next_peer() {
            any = true;
            self.write();
        }
        any
    }

    /// Tells the server which arguments of tools are repeated in header fields
    pub(super) fn tell_tools(&mut self, handler: &mut impl Handler) -> Result<(), Error> {
        let mut gone = core::mem::take(&mut self.told);
        let mut refused = None;
        let told = catch(|| {
            handler.tools(&mut |name, schema| {
                gone.retain(|other| other != name);
                self.told.push(name.into());
                if let Err(why) = self.server.tool_schema(name, schema) {
                    let why =
                        alloc::format!("the schema of the tool `{name}` cannot be served over HTTP: {why}");
                    refused.get_or_insert_with(|| io::Error::new(ErrorKind::InvalidInput, why));
                }
            })
        });
        if let Err(panic) = told {
            // What it had before stays known, so that it can be told of no more later.
            self.told.append(&mut gone);
            refused.get_or_insert_with(|| io::Error::other(panic.to_string()));
        }
        gone.iter().for_each(|name| self.server.forget_tool(name));
        refused.map_or(Ok(()), |error| Err(Error::Io(error)))
    }
}

impl Host for State {
    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.peers.now()
    }

    fn tick(&mut self) -> Instant {
        self.peers.tick()
    }

    fn next_meanwhile(&mut self) -> Option<Event> {
        self.poll_event()
    }

    fn defer(&mut self, event: Event) {
        self.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        let moved = self.peers.write(&mut self.server);
        self.see_off();
        moved
    }

    fn wait(&mut self, until: Instant) {
        // Those are first whose turn had not come when the handler began; then it is only seen what there is besides.
        let left = self.each_peer();
        let until = if left { self.peers.now() } else { until };
        self.wait_until(Some(until));
        self.each_peer();
        self.cross();
    }

    fn publish(&mut self, change: &Change) {
        self.tell(change);
    }

    fn publish_resources(&mut self) {
        self.tell_others(Changes::resources);
        self.tell_all(&Changes::resources());
    }

    fn shutdown(&mut self, grace: Duration) {
        // However much waits there: a shard that did not hear of it would go on for ever.
        self.others().for_each(|sibling| _ = sibling.send_due(Crossing::Shutdown(grace)));
        self.shut_down(grace);
    }

    fn polls(&self) -> bool {
        true
    }

    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let now = self.peers.tick();
        self.server.poll_later(now, call, retry)
    }
}
