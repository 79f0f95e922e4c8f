//! The clients of a proxy with its loop: notes about them, the trace, and the signal that ends it.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::time::Instant;

use mcp_proto::server::{Config, Event};
use mcp_proto::{CallKey, Diagnostic, Limits, client};
use mcp_proto_proxy::{SearchSize, server_limits};
use mcp_std::poll::WaitRequest;
use mcp_std::process::terminate_all;

use super::downstream::Downstream;
use super::upstream::Upstream;
use crate::args::ProxyArgs;
use crate::endpoint::refusals::RefusalNotes;
use crate::failure::CommandFailure;
use crate::notes::{self, LimitedNotes, OmissionNotes};
use crate::paint::Paint;
use crate::stop::{self, StopSignal};
use crate::trace;

/// The side of a proxy that faces the clients.
pub(crate) struct Front {
    pub(crate) downstream: Box<dyn Downstream>,
    /// Name of the command, for messages.
    command: &'static str,
    /// Notes about deviations of clients from the protocol.
    client_notes: LimitedNotes,
    refusal_notes: RefusalNotes,
    /// Notes about entries of lists that have no form for the client.
    omission_notes: OmissionNotes,
    /// What search saves, as a note has told.
    search_size: Option<SearchSize>,
    /// When the last progress of calls came, by server, for [`PROGRESS_GAP`].
    progress_at: BTreeMap<(usize, CallKey), Instant>,
    /// Results that wait for this time to be over, each with its end, which is known when the progress is written.
    held_results: Vec<(Option<Instant>, usize, client::Event)>,
    paint: Paint,
    /// Reports that the process should end.
    stop_signal: StopSignal,
    /// Whether the downstream side has been shut down.
    is_shutting_down: bool,
}

impl Front {
    pub(crate) fn new(
        command: &'static str,
        downstream: Box<dyn Downstream>,
        stop_signal: StopSignal,
    ) -> Self {
        Self {
            downstream,
            command,
            client_notes: LimitedNotes(20),
            refusal_notes: RefusalNotes::default(),
            omission_notes: OmissionNotes::default(),
            search_size: None,
            progress_at: BTreeMap::new(),
            held_results: Vec::new(),
            paint: Paint::for_stderr(),
            stop_signal,
            is_shutting_down: false,
        }
    }

    /// Lets signals end the loop instead of the process.
    pub(crate) fn begin_loop(&self) {
        self.stop_signal.set_looping(true);
    }

    /// Shuts the downstream side down after a signal.
    pub(crate) fn heed_signal(&mut self) {
        if self.stop_signal.is_requested() && !core::mem::replace(&mut self.is_shutting_down, true) {
            self.downstream.shutdown(stop::GRACE_PERIOD);
        }
    }

    /// Waits until a client, one of the servers or a signal may have something, at most for `due`.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot wait.
    pub(crate) fn wait<'a>(
        &'a mut self,
        reads: bool,
        servers: impl Iterator<Item = WaitRequest<'a>>,
        due: Option<Duration>,
    ) -> Result<(), CommandFailure> {
        let command = self.command;
        let held = self.held_results.iter().filter_map(|(at, ..)| *at);
        let due = held.map(|at| at.saturating_duration_since(Instant::now())).chain(due).min();
        let mut requests = self.downstream.wait_requests(reads);
        requests.push(self.stop_signal.wait_request());
        requests.extend(servers);
        WaitRequest::wait(&requests, due)
            .map_err(|error| CommandFailure::failed(format!("the {command} stopped: {error}")))
    }

    /// Prints a note about an event that says that a client deviated from the protocol.
    pub(crate) fn note_event(&mut self, event: &Event) {
        if let Event::Diagnostic { diagnostic, .. } = event {
            // Neither side is at fault: a cancellation crossed the response, or overtook its request. A deprecated
            // feature is a matter between the client and its server.
            let usual = matches!(
                diagnostic,
                Diagnostic::UnknownCancellation(_)
                    | Diagnostic::EarlyCancellation(_)
                    | Diagnostic::LateResponse(_)
                    | Diagnostic::DeprecatedFeature { .. }
            );
            if !usual && !self.refusal_notes.note(diagnostic) {
                self.client_notes.note(&format!("the client deviated from the protocol: {diagnostic}"));
            }
        }
    }

    /// Returns an event of a server that goes on now. The result of a call goes on later than progress directly before it.
    ///
    /// The TypeScript SDK 1.x loses progress that it reads together with the result of its call.
    pub(crate) fn part_progress(&mut self, server: usize, event: client::Event) -> Option<client::Event> {
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
    pub(crate) fn take_result(&mut self) -> Option<(usize, client::Event)> {
        let now = Instant::now();
        let at = self.held_results.iter().position(|(at, ..)| at.is_some_and(|at| at <= now))?;
        let (_, server, event) = self.held_results.remove(at);
        Some((server, event))
    }

    /// Shows what was said on both sides, and writes it. Returns whether anything was written.
    pub(crate) fn write<'u>(&mut self, servers: impl Iterator<Item = &'u mut Upstream>) -> bool {
        while let Some(record) = self.downstream.engine().poll_tap() {
            let (client, record) = (self.paint.dim("client"), trace::format_record(&record, self.paint));
            notes::print_stderr(&format!("{client} {record}"));
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

    /// Prints notes about entries that a relay left out, and others of it.
    pub(crate) fn note_omissions(&mut self, diagnostics: &[Diagnostic], notes: &[String]) {
        for diagnostic in diagnostics {
            self.omission_notes.note(diagnostic);
        }
        notes.iter().for_each(|note| self.omission_notes.note_text(note));
    }

    /// Tells what search saves, when all tools are known or have changed.
    pub(crate) fn note_search(&mut self, size: Option<SearchSize>) {
        let Some(size) = size.filter(|size| self.search_size != Some(*size)) else { return };
        self.search_size = Some(size);
        let SearchSize { tools, tokens, shown_tokens, .. } = size;
        notes::print_note(&format!(
            "search: 2 tools of about {shown_tokens} tokens stand for {tools} of about {tokens}"
        ));
    }

    /// Ends the proxy after its loop: writes what is left, and closes the servers.
    ///
    /// # Errors
    ///
    /// Fails if the side of the clients broke.
    pub(crate) fn finish(self, close_servers: impl FnOnce()) -> Result<(), CommandFailure> {
        let Self { mut downstream, stop_signal, command, .. } = self;
        stop_signal.set_looping(false);
        if stop_signal.ends_servers() {
            // The sender of the signal does not wait for a slow server.
            terminate_all(stop::SERVER_END_TIMEOUT);
        }
        let flushed = downstream.flush();
        close_servers();
        let error = downstream.take_error();
        let error = error.or_else(|| flushed.err().filter(|error| !mcp_std::io::is_peer_gone(error)));
        error.map_or(Ok(()), |error| Err(CommandFailure::failed(format!("the {command} stopped: {error}"))))
    }
}

/// Time between progress and the result that follows it: enough for a client to read the one before the other.
const PROGRESS_GAP: Duration = Duration::from_millis(20);

/// Returns the limits of the side that faces the clients.
pub(crate) fn front_limits(args: &ProxyArgs) -> Limits {
    let mut limits = server_limits(Limits::default());
    if args.trace {
        (limits.tap_records, limits.tap_bytes) = (100_000, 64 << 20);
    }
    limits
}

/// Hides the members of `--hide` in the trace.
pub(crate) fn with_hidden_members(config: Config, args: &ProxyArgs) -> Config {
    args.hide.iter().fold(config, |config, member| config.redact_in_tap(member))
}
