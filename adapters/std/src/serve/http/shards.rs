//! Shards of a server over HTTP: how they come about, and what they tell each other

use alloc::vec::Vec;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::{Change, Entropy};

use super::HttpServer;
use super::state::State;
use super::turns::Loop;
use crate::held::Held;
use crate::inbox::Sender;
use crate::serve::changes::Changes;
use crate::serve::desk::Commands;
use crate::serve::handler::Handler;
use crate::serve::host;
use crate::serve::peer::Moved;
use crate::{Cores, Error, entropy};

/// What goes from one shard to another
#[derive(Debug)]
pub(super) enum Crossing {
    /// A connection whose next request is for a session there, or whose turn it is to be served there
    Connection(Moved),
    /// Something has changed
    Changed(Changes),
    /// The server is told to shut down
    Shutdown(Duration),
    /// Somebody wants to connect, and all places are taken
    Room,
}

impl Crossing {
    /// Adds what has changed, if that is what both are about
    fn merge(&mut self, other: &Self) -> bool {
        let (Self::Changed(changes), Self::Changed(more)) = (self, other) else { return false };
        changes.add(more);
        true
    }
}

impl<H: Handler> HttpServer<H> {
    /// So many more servers behind the same address, to be run by other threads or tasks: each is a shard, with clients and
    /// sessions of its own
    ///
    /// Connections are shared out by this one, which is the first. A request for a session of another shard takes its
    /// connection there. What is published by one is told by all, and when one is told to shut down, all are. To be
    /// called when all else is said, and before it runs.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind); `InvalidInput` if there were more than 255 with this one.
    pub fn shards(&mut self, more: usize) -> Result<Vec<Shard>, Error> {
        self.all.shards(more)
    }

    /// Has each of the [shards](Self::shards) that come from now on [stay](Self::stay) on a core of its own; connections
    /// go to the shard of the core where their packets come in, as long as that keeps shards even
    pub fn pin_shards(&mut self) {
        self.all.state.peers.pin();
    }

    /// Keeps this thread on the core of this shard, if [that was said](Self::pin_shards); the first stays on none
    pub fn stay(&self) {
        self.all.state.peers.stay();
    }

    /// The cores that shards stay on; none unless [that was said](Self::pin_shards)
    #[must_use]
    pub fn cores(&self) -> &Cores {
        self.all.state.peers.cores()
    }
}

/// A shard that has no handler yet
#[derive(Debug)]
pub struct Shard(Held<Loop>);

impl Shard {
    /// The server that it is with `handler`
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a tool's schema asks for header fields that cannot be, or [`Handler::tools`] panics.
    pub fn with<H: Handler>(self, handler: H) -> Result<HttpServer<H>, Error> {
        HttpServer::of(self.0, handler)
    }

    /// For whoever wants something done on its loop
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.0.desk.commands()
    }
}

impl Loop {
    /// So many more shards
    fn shards(&mut self, more: usize) -> Result<Vec<Shard>, Error> {
        let too_many = |_| io::Error::new(ErrorKind::InvalidInput, "there are at most 255 shards");
        let all = u8::try_from(more + 1).map_err(too_many)?;
        let mut others = Vec::new();
        for shard in 1..all {
            let peers = self.state.peers.shard(shard, all)?;
            let entropy = Entropy::new(entropy::seed()?, entropy::nonce());
            let (config, http) = (self.state.config.clone(), self.state.http.clone());
            let mut state = State::new(peers, config, http, entropy);
            state.server.is_one_of(shard, all);
            let mut other = Self::new(state);
            other.desk.limit(self.desk.limits_to());
            others.push(other);
        }
        self.state.server.is_one_of(0, all);
        let loops = core::iter::once(&*self).chain(others.iter().map(|other| &**other));
        let senders: Vec<_> = loops.map(|all| all.state.crossings.sender()).collect();
        for all in core::iter::once(self).chain(others.iter_mut().map(|other| &mut **other)) {
            let waker = all.waker()?;
            all.state.crossings.register(&waker);
            all.state.siblings.clone_from(&senders);
        }
        Ok(others.into_iter().map(Shard).collect())
    }
}

impl State {
    /// Does what other shards ask for; whether they asked for anything
    pub(super) fn cross(&mut self) -> bool {
        if !self.crossings.take(&mut self.crossed) {
            return false;
        }
        self.peers.tick();
        let mut crossed = core::mem::take(&mut self.crossed);
        for crossing in crossed.drain(..) {
            match crossing {
                Crossing::Connection(moved) => self.peers.adopt(&mut self.server, moved),
                Crossing::Changed(changes) => self.tell_all(&changes),
                Crossing::Shutdown(grace) => self.shut_down(grace),
                Crossing::Room => self.peers.make_room(),
            }
        }
        self.crossed = crossed;
        true
    }

    /// Sends other shards what is theirs
    pub(super) fn see_off(&mut self) {
        while let Some((shard, moved)) = self.peers.poll_leaving() {
            if let Some(sibling) = self.siblings.get(usize::from(shard)) {
                // There are no more of them than connections may be open. It is closed if nobody is there any more.
                let _ = sibling.send_due(Crossing::Connection(moved));
            }
        }
        if self.peers.is_crowded() {
            self.send_others(|| Crossing::Room);
        }
    }

    /// Sends something to all other shards, as far as they take it
    fn send_others(&self, make: impl Fn() -> Crossing) {
        self.others().for_each(|sibling| _ = sibling.send(make()));
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Sender<Crossing>> {
        self.siblings.iter().filter(|sibling| !sibling.is_of(&self.crossings))
    }

    /// Tells everybody who wants to know that something has changed; how many that are, in this shard
    pub(super) fn tell(&mut self, change: &Change) -> usize {
        self.tell_others(|| change.clone().into());
        self.tell_own(change)
    }

    /// However much waits there, what has changed is not forgotten
    pub(super) fn tell_others(&self, changes: impl Fn() -> Changes) {
        for sibling in self.others() {
            let _ = sibling.send_or_merge(Crossing::Changed(changes()), Crossing::merge);
        }
    }

    /// Tells of what another shard has said
    pub(super) fn tell_all(&mut self, changes: &Changes) {
        let followed =
            if changes.has_resources() { host::followed(self.server.engine()) } else { Vec::new() };
        changes.things().chain(&followed).for_each(|change| _ = self.tell_own(change));
    }

    fn tell_own(&mut self, change: &Change) -> usize {
        self.tools_changed |= *change == Change::Tools;
        let now = self.peers.tick();
        self.server.engine().publish(now, change)
    }
}

/// Changes and the like that wait for a shard at most; connections come on top
pub(super) const MAX_CROSSINGS: usize = 1024;
