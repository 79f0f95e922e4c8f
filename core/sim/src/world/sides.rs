//! The state of clients, servers and links between two steps, as a debugger or a page shows it.

use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::{Instant, TimeoutReason, Version};

use super::participant::ClientSide;
use super::{Connection, Lane, What, World};
use crate::stream::OneWayLink;

/// Phase of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SidePhase {
    /// Its process has died.
    Dead,
    /// No revision is agreed. A server stays here without a session: each request of a modern client names its revision. So does one
    /// over HTTP, whose sessions are many.
    Open,
    /// The server has accepted `initialize`, and waits for its confirmation.
    Handshake,
    /// The revision is agreed.
    Ready,
    /// The server ends as soon as its calls have ended.
    ShuttingDown,
    /// Its connection has ended, and its output is written.
    Ended,
}

/// One end of a connection, and the direction of the link that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Side {
    /// Its participant.
    pub lane: Lane,
    /// Its phase.
    pub phase: SidePhase,
    /// The agreed revision; none for a server over HTTP.
    pub version: Option<Version>,
    /// Calls without an outcome, or requests without an answer.
    pub open_calls: usize,
    /// Bytes that it has for the link; 0 over HTTP, where each exchange has its own.
    pub unsent: usize,
    /// Whether it reads.
    pub reads: bool,
    /// Its next deadline, except for the one at which buffers are freed, and the reason if it is known.
    pub deadline: Option<(Instant, Option<TimeoutReason>)>,
    /// Complete lines, or messages of exchanges, that have arrived at it in this life.
    pub arrived: usize,
    /// Whether nothing arrives at it any more: bytes that were under way are lost.
    pub is_cut_off: bool,
}

/// A message of an exchange over HTTP, from its sender to its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transit {
    /// Index of the entry with which it was sent: that of a message, or of an event that is repeated.
    pub sent: usize,
    /// Its receiver.
    pub to: Lane,
    /// Its end; none while it is under way.
    pub end: Option<TransitEnd>,
}

/// The end of a message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransitEnd {
    /// When.
    pub at: Instant,
    /// Number of the entries before it.
    pub entry: usize,
    /// Whether it was lost, or not read. Otherwise it has arrived.
    pub is_lost: bool,
}

/// Begins the transits of what a server has written for a client, which becomes the log from `entry` on; returns their numbers.
pub(super) fn begin_transits(
    transits: &mut Vec<Transit>,
    client: Lane,
    entry: usize,
    written: &[What],
) -> core::ops::Range<usize> {
    let first = transits.len();
    for (at, what) in written.iter().enumerate() {
        let is_sent = match what {
            What::Sent { .. } => true,
            // The message of an event follows it, unless it was sent before.
            What::Streamed { line, .. } => {
                !line.is_empty() && !matches!(written.get(at + 1), Some(What::Sent { .. }))
            }
            _ => false,
        };
        if is_sent {
            transits.push(Transit { sent: entry + at, to: client, end: None });
        }
    }
    first..transits.len()
}

/// Ends the transits with these numbers.
pub(super) fn end_transits(
    transits: &mut [Transit],
    numbers: impl IntoIterator<Item = usize>,
    at: Instant,
    entry: usize,
    is_lost: bool,
) {
    for number in numbers {
        transits[number].end.get_or_insert(TransitEnd { at, entry, is_lost });
    }
}

/// Returns a side without a process.
const fn dead(lane: Lane, reads: bool, arrived: usize) -> Side {
    Side {
        lane,
        phase: SidePhase::Dead,
        version: None,
        open_calls: 0,
        unsent: 0,
        reads,
        deadline: None,
        arrived,
        is_cut_off: false,
    }
}

fn side<P: Pipe>(lane: Lane, pipe: Option<&mut P>, reads: bool, link: &OneWayLink) -> Side {
    let is_cut_off = link.stream.is_finished();
    let mut side = Side { is_cut_off, ..dead(lane, reads, link.lines_delivered()) };
    if let Some(pipe) = pipe {
        side.phase = if pipe.is_drained() { SidePhase::Ended } else { SidePhase::Open };
        side.unsent = pipe.transmit().len();
        let reason = pipe.timeout_reason().filter(|reason| *reason != TimeoutReason::Trim);
        side.deadline = pipe.poll_timeout_without_trim().map(|at| (at, reason));
    }
    side
}

/// Returns the two sides of a connection on a pipe.
fn pipe_sides(n: usize, c: &mut Connection) -> [Side; 2] {
    let pipe = match &mut c.client {
        Some(ClientSide::Pipe(client)) => Some(&mut **client),
        _ => None,
    };
    let mut client = side(Lane::Client(n), pipe, c.client_reads, &c.to_client);
    show_client(&mut client, c.client.as_mut());
    let mut server = side(Lane::Server(n), c.server.as_mut(), c.server_reads, &c.to_server);
    if let Some((channel, engine)) = c.server.as_mut().map(|s| (s.channel(), Server::engine(s))) {
        let session = engine.session_status(channel);
        server.version = session.map(|session| session.version);
        server.open_calls = engine.live_calls();
        server.phase = match (server.phase, session) {
            (SidePhase::Open, _) if engine.is_shutting_down() => SidePhase::ShuttingDown,
            (SidePhase::Open, Some(session)) if session.is_initialized => SidePhase::Ready,
            (SidePhase::Open, Some(_)) => SidePhase::Handshake,
            (phase, _) => phase,
        };
    }
    [client, server]
}

/// Adds what the engine of a client knows.
fn show_client(side: &mut Side, client: Option<&mut ClientSide>) {
    let Some(engine) = client.map(ClientSide::engine) else { return };
    side.version = engine.peer().map(|peer| peer.version);
    side.open_calls = engine.pending_calls();
    if side.phase == SidePhase::Open && side.version.is_some() {
        side.phase = SidePhase::Ready;
    }
}

impl<A> World<A> {
    /// Returns both sides of each connection: client and server by turns. Over HTTP the servers are one, as each client sees it. To
    /// look changes nothing in the run.
    pub fn sides(&mut self) -> Vec<Side> {
        let Self { connections, network, transits, .. } = self;
        let Some(network) = network else {
            return connections.iter_mut().enumerate().flat_map(|(n, c)| pipe_sides(n, c)).collect();
        };
        let mut sides = Vec::new();
        for c in connections {
            let side = |lane, reads| {
                let is_here =
                    |transit: &&Transit| transit.to == lane && transit.end.is_some_and(|end| !end.is_lost);
                dead(lane, reads, transits.iter().filter(is_here).count())
            };
            let mut client = side(Lane::Client(c.lane), c.client_reads);
            if let Some(ClientSide::Http(http)) = &mut c.client {
                client.phase = if http.is_drained() { SidePhase::Ended } else { SidePhase::Open };
                let reason = http.timeout_reason().filter(|reason| *reason != TimeoutReason::Trim);
                client.deadline = http.poll_timeout_without_trim().map(|at| (at, reason));
            }
            show_client(&mut client, c.client.as_mut());
            let mut server = side(Lane::Server(c.lane), c.server_reads);
            if let Some(http) = &mut network.server {
                let is_ending = http.engine().is_shutting_down();
                server.phase = if is_ending { SidePhase::ShuttingDown } else { SidePhase::Open };
                server.open_calls = c.requests.len();
                let deadline = http.poll_timeout().zip(Some(http.timeout_reason()));
                server.deadline = deadline.filter(|(_, reason)| *reason != Some(TimeoutReason::Trim));
            }
            sides.extend([client, server]);
        }
        sides
    }

    /// Returns the messages of exchanges so far. On a pipe there are none: what arrives there is next in line.
    #[must_use]
    pub fn transits(&self) -> &[Transit] {
        &self.transits
    }

    /// Returns the bytes that the servers hold for their clients.
    #[must_use]
    pub fn memory_in_use(&self) -> usize {
        self.server_config.memory_in_use()
    }
}
