//! The life of the server behind a bridge: it ends while no client uses it, and is started again when it is needed. One that
//! has died is started again while there are clients.
//!
//! The driver starts the server when [`poll_start`](Relay::poll_start) says so, and lets go of one that is not
//! [running](Relay::is_server_running) any more.

use core::time::Duration;

use mcp_proto::client;
use mcp_proto::model::LoggingLevel;
use mcp_proto::{CallId, Change, Fault, Instant, RpcError};

use super::convert;
use super::relay::{Engines, Relay, server_gone_error};
use super::relayed_call::Delivery;
use super::search::Catalogue;
use super::subscriptions::Notice;

/// Whether the server runs, and since or until when.
#[derive(Debug)]
pub(super) struct ServerLife {
    phase: Phase,
    /// Whether the driver has a server, even if it has ended. The next one is not started beside it.
    is_occupied: bool,
    /// Time without use after which the server is ended; `None` if it never is.
    idle_timeout: Option<Duration>,
    /// Time to wait before the next start, if the server ends before [`STABLE_TIME`].
    delay: Duration,
    /// Why the server is not there.
    reason: String,
}

#[derive(Debug)]
enum Phase {
    Running {
        since: Instant,
        unused_since: Option<Instant>,
    },
    /// No client uses it, so it was ended, or it has died without clients.
    Asleep {
        /// Time until which it is not started, because it has just died.
        not_before: Instant,
    },
    /// To be started at this time.
    Due(Instant),
    /// Being started by the driver.
    Starting,
}

impl ServerLife {
    pub(super) const fn new(now: Instant, idle_timeout: Option<Duration>) -> Self {
        let phase = Phase::Running { since: now, unused_since: None };
        Self { phase, is_occupied: true, idle_timeout, delay: MIN_RESTART_DELAY, reason: String::new() }
    }

    /// Creates the life of a server that is to be started.
    pub(super) fn due(now: Instant, idle_timeout: Option<Duration>) -> Self {
        Self { phase: Phase::Due(now), is_occupied: false, ..Self::new(now, idle_timeout) }
    }

    /// Returns why the server is not there, if that is so for too long to wait.
    pub(super) fn absence(&self, now: Instant) -> Option<&str> {
        self.long_wait(now).map(|_| &*self.reason)
    }

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Returns whether the server is about to be started for the first time.
    pub(super) fn awaits_first_start(&self) -> bool {
        matches!(self.phase, Phase::Due(_) | Phase::Starting) && self.reason.is_empty()
    }

    /// Notes whether a client uses the server, or waits for it.
    fn set_used(&mut self, now: Instant, is_used: bool) {
        match &mut self.phase {
            Phase::Running { unused_since, .. } if is_used => *unused_since = None,
            Phase::Running { unused_since, .. } => _ = unused_since.get_or_insert(now),
            Phase::Asleep { not_before } if is_used => self.phase = Phase::Due(now.max(*not_before)),
            _ => {}
        }
    }

    /// Notes that the server died, or could not be started. It is started again while there are clients.
    fn handle_failure(&mut self, now: Instant, reason: &str, has_clients: bool) {
        self.reason = convert::clip(reason);
        let was_stable = matches!(self.phase, Phase::Running { since, .. } if now.saturating_duration_since(since) >= STABLE_TIME);
        if was_stable {
            self.delay = MIN_RESTART_DELAY;
        }
        let at = now + self.delay;
        self.phase = if has_clients { Phase::Due(at) } else { Phase::Asleep { not_before: at } };
        self.delay = (self.delay * 2).min(MAX_RESTART_DELAY);
    }

    /// Returns the time until the server is started, if that is too long for a call to wait.
    fn long_wait(&self, now: Instant) -> Option<Duration> {
        match self.phase {
            Phase::Due(at) | Phase::Asleep { not_before: at } => {
                Some(at.saturating_duration_since(now)).filter(|wait| *wait > MAX_HOLD)
            }
            _ => None,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running { unused_since, .. } => Some(unused_since? + self.idle_timeout?),
            Phase::Due(at) if !self.is_occupied => Some(at),
            Phase::Due(_) | Phase::Asleep { .. } | Phase::Starting => None,
        }
    }

    /// Ends a server that was not used for long enough.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.is_running() && self.next_deadline().is_some_and(|at| at <= now) {
            self.phase = Phase::Asleep { not_before: now };
        }
    }
}

impl Relay {
    /// Returns whether the server is connected. Otherwise the driver closes the connection to it.
    pub const fn is_server_running(&self) -> bool {
        self.life.is_running()
    }

    /// Returns whether the driver has to start the server now, once. It has taken the fault of the last one before.
    pub fn poll_start(&mut self, now: Instant) -> bool {
        let is_due = !self.life.is_occupied && matches!(self.life.phase, Phase::Due(at) if at <= now);
        if is_due {
            self.life.phase = Phase::Starting;
        }
        is_due
    }

    /// Returns whether clients are connected, even if none uses the server. Modern ones over HTTP are not while they do nothing.
    fn has_clients(&self) -> bool {
        self.has_single_client() || !self.sessions.is_empty()
    }

    /// Notes whether the server is in use, which keeps it running or starts it.
    pub(super) fn update_use(&mut self, now: Instant) {
        let is_used = !self.calls.is_empty()
            || !self.held_calls.is_empty()
            || self.listing > 0
            || self.is_searched
            || !self.upstream_requests.is_empty()
            || !self.unassigned_inputs.is_empty()
            || self.subscriptions.is_following();
        self.life.set_used(now, is_used);
    }

    /// Keeps a call until the server has been started, or refuses it if that takes too long.
    pub(super) fn hold_call(&mut self, engines: &mut Engines<'_>, call: Delivery) {
        let Some(wait) = self.life.long_wait(engines.now) else { return self.held_calls.push(call) };
        let seconds = wait.as_secs_f64().ceil();
        let why = format!("{}; it is started again in {seconds} s", self.life.reason);
        let error = self.named(RpcError::internal(why));
        self.fail_delivery(engines, call.call, call.others, error);
    }

    /// Drops a held call that the client has cancelled. Returns whether there was one.
    pub(super) fn drop_held_call(&mut self, call: CallId) -> bool {
        let before = self.held_calls.len();
        self.held_calls.retain(|held| held.call.id() != call);
        self.held_calls.len() < before
    }

    /// Handles the end of the connection to the server. Its calls have been answered, or are by the next events.
    pub(super) fn handle_server_end(&mut self, engines: &mut Engines<'_>, fault: &Fault) {
        let reason = server_gone_error(fault).message;
        self.life.handle_failure(engines.now, &reason, self.has_clients());
        let news = format!("{}; it is started again, without its state", self.life.reason);
        self.tell_sessions(engines, &news);
        for call in core::mem::take(&mut self.upstream_requests).into_keys() {
            let _ = engines.downstream.cancel_request(engines.now, call, Some("the server is gone"));
        }
        // The next server counts its requests anew.
        self.calls.forget_inputs();
        self.unassigned_inputs.clear();
        self.gather_deadline = None;
        self.fault = Some(fault.clone());
    }

    /// Returns the fault that ended the server that is to be let go of; `None` if no client used it.
    ///
    /// The driver lets go of the server now, so the next one may be started after this.
    pub const fn take_fault(&mut self) -> Option<Fault> {
        self.life.is_occupied = self.life.is_running();
        self.fault.take()
    }

    /// Handles a server that was started in place of the last one.
    pub fn handle_started(&mut self, engines: &mut Engines<'_>, peer: &client::Peer) {
        self.life.phase = Phase::Running { since: engines.now, unused_since: None };
        self.life.is_occupied = true;
        self.set_peer(peer);
        // What the last server offered may be gone, and what happened meanwhile was not heard.
        let followed = self.subscriptions.followed().cloned().map(Change::Resource);
        let changes = [Change::Tools, Change::Prompts, Change::Resources].into_iter().chain(followed);
        self.announce(engines, changes.map(Notice::from).collect());
        for call in core::mem::take(&mut self.held_calls) {
            self.handle_call(engines, call);
        }
        self.with_catalogue(engines, Catalogue::read);
    }

    /// Handles a server that could not be started. The calls that waited for it are refused.
    pub fn handle_start_failure(&mut self, engines: &mut Engines<'_>, reason: &str) {
        let reason = format!("the server behind the bridge cannot be started: {reason}");
        let error = self.named(RpcError::internal(reason.clone()));
        self.life.handle_failure(engines.now, &reason, self.has_clients());
        for call in core::mem::take(&mut self.held_calls) {
            self.fail_delivery(engines, call.call, call.others, error.clone());
        }
        self.catalogue.iter_mut().for_each(Catalogue::handle_start_failure);
    }

    /// Writes a warning to the log of each session, unless a policy may hide the server from some. Modern clients have no log
    /// without a call.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn tell_sessions(&self, engines: &mut Engines<'_>, news: &str) {
        let told = if self.has_policy { &[][..] } else { &*self.sessions };
        let (level, logger) = (LoggingLevel::Warning, self.name.as_deref().unwrap_or("bridge"));
        for session in told {
            // Fails if the server has no log.
            let _ = engines.downstream.log_session(engines.now, *session, &level, Some(logger), news);
        }
    }
}

/// Time after which a server counts as one that works: after its end the next one is started with [`MIN_RESTART_DELAY`].
const STABLE_TIME: Duration = Duration::from_secs(60);
const MIN_RESTART_DELAY: Duration = Duration::from_millis(250);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(60);
/// Longest time until a start for which calls are held. Their number is bounded by [`mcp_proto::Limits::max_live_calls`].
const MAX_HOLD: Duration = Duration::from_secs(5);
