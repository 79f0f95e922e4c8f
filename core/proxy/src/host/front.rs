//! The clients of a proxy with its loop: notices about them, and what ends it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;
use std::time::Instant;

use mcp_proto::client;
use mcp_proto::server::Event;
use mcp_proto::{CallKey, Diagnostic};
use mcp_std::poll::WaitRequest;

use super::downstream::Downstream;
use super::notice::{Notice, Operator};
use super::stop::Stop;
use super::upstream::Connection;
use super::{Error, Options};
use crate::SearchSize;

/// The side of a proxy that faces the clients.
pub(super) struct Front<'s> {
    pub(super) downstream: Box<dyn Downstream>,
    pub(super) operator: Arc<dyn Operator>,
    /// What search saves, as a notice has told.
    search_size: Option<SearchSize>,
    /// When the last progress of calls came, by server, for [`PROGRESS_GAP`].
    progress_at: BTreeMap<(usize, CallKey), Instant>,
    /// Results that wait for this time to be over, each with its end, which is known when the progress is written.
    held_results: Vec<(Option<Instant>, usize, client::Event)>,
    stop: &'s Stop,
    /// Whether the downstream side has been shut down.
    is_shutting_down: bool,
}

impl<'s> Front<'s> {
    pub(super) fn new(options: &Options, downstream: Box<dyn Downstream>, stop: &'s Stop) -> Self {
        Self {
            downstream,
            operator: Arc::clone(&options.operator),
            search_size: None,
            progress_at: BTreeMap::new(),
            held_results: Vec::new(),
            stop,
            is_shutting_down: false,
        }
    }

    pub(super) fn notice(&self, notice: &Notice<'_>) {
        self.operator.notice(notice);
    }

    /// Shuts the downstream side down if that was asked for.
    pub(super) fn heed_stop(&mut self) {
        let Some(grace) = self.stop.grace() else { return };
        if !core::mem::replace(&mut self.is_shutting_down, true) {
            self.downstream.shutdown(grace);
        }
    }

    /// Waits until a client, one of the servers or a signal may have something, at most for `due`.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot wait.
    pub(super) fn wait<'a>(
        &'a mut self,
        reads: bool,
        servers: impl Iterator<Item = WaitRequest<'a>>,
        due: Option<Duration>,
    ) -> Result<(), Error> {
        let held = self.held_results.iter().filter_map(|(at, ..)| *at);
        let due = held.map(|at| at.saturating_duration_since(Instant::now())).chain(due).min();
        let mut requests = self.downstream.wait_requests(reads);
        if !self.is_shutting_down {
            requests.push(self.stop.wait_request());
        }
        requests.extend(servers);
        WaitRequest::wait(&requests, due).map_err(Error::Stopped)
    }

    /// Tells of an event that says that a client deviated from the protocol.
    pub(super) fn note_event(&self, event: &Event) {
        if let Event::Diagnostic { diagnostic, .. } = event {
            self.notice(&Notice::Client(diagnostic));
        }
    }

    /// Returns an event of a server that goes on now. The result of a call goes on later than progress directly before it.
    ///
    /// The TypeScript SDK 1.x loses progress that it reads together with the result of its call.
    pub(super) fn part_progress(&mut self, server: usize, event: client::Event) -> Option<client::Event> {
        let now = Instant::now();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < PROGRESS_GAP;
        match &event {
            client::Event::Progress { call, .. } if self.downstream.is_stream() => {
                self.progress_at.retain(|_, at| is_recent(*at));
                self.progress_at.insert((server, *call), now);
            }
            client::Event::Done { call, .. }
                if self.progress_at.remove(&(server, *call)).is_some_and(is_recent) =>
            {
                self.held_results.push((None, server, event));
                return None;
            }
            _ => {}
        }
        Some(event)
    }

    /// Returns a result that goes on now, with its server. It may be one of a server that has ended.
    pub(super) fn take_result(&mut self) -> Option<(usize, client::Event)> {
        let now = Instant::now();
        let at = self.held_results.iter().position(|(at, ..)| at.is_some_and(|at| at <= now))?;
        let (_, server, event) = self.held_results.remove(at);
        Some((server, event))
    }

    /// Shows what was said on both sides, and writes it. Returns whether anything was written.
    pub(super) fn write<'u>(&mut self, servers: impl Iterator<Item = &'u mut Connection>) -> bool {
        while let Some(record) = self.downstream.engine().poll_tap() {
            self.notice(&Notice::Message(&record));
        }
        let mut moved = self.downstream.write();
        let end = Instant::now() + PROGRESS_GAP;
        self.held_results.iter_mut().for_each(|(at, ..)| _ = at.get_or_insert(end));
        // An event that waits for a client which reads nothing would wake the loop at once.
        let is_congested = self.downstream.is_congested();
        for server in servers {
            server.show_tap();
            server.wire().set_events_paused(is_congested);
            moved |= server.wire().write();
        }
        moved
    }

    /// Tells of entries that a relay left out, and what else it says.
    pub(super) fn note_omissions(&self, diagnostics: &[Diagnostic], notes: &[String]) {
        diagnostics.iter().for_each(|diagnostic| self.notice(&Notice::Omitted(diagnostic)));
        notes.iter().for_each(|note| self.notice(&Notice::Note(note)));
    }

    /// Tells what search saves, when all tools are known or have changed.
    pub(super) fn note_search(&mut self, size: Option<SearchSize>) {
        let Some(size) = size.filter(|size| self.search_size != Some(*size)) else { return };
        self.search_size = Some(size);
        self.notice(&Notice::Search(size));
    }

    /// Ends the proxy after its loop: writes what is left, and closes the servers.
    ///
    /// # Errors
    ///
    /// Fails if the side of the clients broke.
    pub(super) fn finish(self, close_servers: impl FnOnce()) -> Result<(), Error> {
        let Self { mut downstream, .. } = self;
        let flushed = downstream.flush();
        close_servers();
        let error = downstream.take_error();
        let error = error.or_else(|| flushed.err().filter(|error| !mcp_std::io::is_peer_gone(error)));
        error.map_or(Ok(()), |error| Err(Error::Stopped(error)))
    }
}

/// Time between progress and the result that follows it: enough for a client to read the one before the other.
const PROGRESS_GAP: Duration = Duration::from_millis(20);
