//! A world: clients and servers with their applications, links and faults.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::Call;
use mcp_proto::{CallId, CallKey, CallOptions, Instant, Progress, RawJson, RpcError, client, server};

use crate::decisions::{Decisions, Draws};
use crate::invariants::INVARIANTS;
use crate::stream::{Chunker, OneWayLink};

/// Number of turns after which a world that does not come to rest is stopped.
const MAX_TURNS: usize = 200_000;

/// Size and faults of a world. A fault has a weight: how often it is chosen, while all else together has 100; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of clients. Each has a server process of its own.
    pub clients: u32,
    /// Number of steps before the world is left to come to rest.
    pub steps: usize,
    /// Most milliseconds by which bytes are late.
    pub delay: u32,
    /// Whether writes are cut at any byte.
    pub cuts: bool,
    /// Weight of a link that breaks: bytes under way are lost, and both sides see the end.
    pub reset: u32,
    /// Weight of the death of a server, or of a client. Both are started again with the next call.
    pub death: u32,
    /// Weight of a side that stops or begins to read.
    pub stall: u32,
    /// Weight of a line that none of the sides has written.
    pub hostile: u32,
    /// Weight of a clock that jumps forward, by up to two hours.
    pub clock_jump: u32,
}

impl Plan {
    /// Two clients without faults.
    pub const CALM: Self = Self {
        clients: 2,
        steps: 120,
        delay: 0,
        cuts: false,
        reset: 0,
        death: 0,
        stall: 0,
        hostile: 0,
        clock_jump: 0,
    };
    /// Three clients with every fault.
    pub const STORM: Self = Self {
        clients: 3,
        steps: 200,
        delay: 40,
        cuts: true,
        reset: 2,
        death: 3,
        stall: 4,
        hostile: 3,
        clock_jump: 1,
    };
}

/// The programs in a world. A mark is the name of a call: a result that has another one came from another call.
pub trait Application {
    /// Returns the configuration of a client.
    fn client(&self) -> client::Config;
    /// Returns the configuration of a server.
    fn server(&self) -> server::Config;
    /// Returns the method and the parameters of the call `mark`.
    fn request(&mut self, mark: &str, draws: &mut Draws) -> (String, RawJson);
    /// Returns the answer of the server to a call.
    ///
    /// # Errors
    ///
    /// The error response.
    fn answer(&mut self, call: &Call) -> Result<RawJson, RpcError>;
    /// Checks the result of the call `mark`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be the result of this call.
    fn check(&self, mark: &str, result: &RawJson) -> Result<(), String>;
}

/// One participant, as a column of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The network and the clock.
    World,
    /// The client with this number.
    Client(usize),
    /// Its server.
    Server(usize),
}

/// An entry of the log of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time of the entry.
    pub at: Instant,
    /// Its participant.
    pub lane: Lane,
    /// What happened.
    pub what: What,
}

/// What happened to a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A process was started.
    Started,
    /// A process died; all that it had open is lost.
    Died,
    /// A client made a call.
    Called {
        /// Mark of the call.
        mark: String,
    },
    /// A call of a client ended.
    Ended {
        /// Mark of the call.
        mark: String,
        /// Its outcome.
        outcome: String,
        /// The reason why the result is of another call.
        mistake: Option<String>,
    },
    /// A server received a request.
    Received {
        /// Name of the request.
        request: String,
    },
    /// A server answered a request.
    Answered {
        /// Name of the request.
        request: String,
    },
    /// A request was cancelled.
    Cancelled {
        /// Name of the request.
        request: String,
    },
    /// A side wrote a message.
    Sent {
        /// The line.
        line: String,
    },
    /// A side reported another event.
    Event {
        /// The event.
        text: String,
    },
    /// A side reported the end of its connection.
    Closed {
        /// The reason.
        fault: String,
    },
    /// A fault.
    Fault {
        /// The fault.
        text: String,
    },
    /// All has ended, and only time passes from here on.
    Rest,
    /// All processes have ended.
    Released {
        /// Bytes that the servers still hold for their clients.
        memory: usize,
    },
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// The reason.
    pub reason: String,
    /// Index of the entry that violates it, or the length of the log.
    pub entry: usize,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// All that was decided.
    pub decisions: Decisions,
    /// All that happened.
    pub log: Vec<Entry>,
    /// The first violated invariant.
    pub violation: Option<Violation>,
}

/// A client and its server, in one life of both.
#[derive(Debug)]
struct Connection {
    client: Option<Client>,
    server: Option<Server>,
    to_server: OneWayLink,
    to_client: OneWayLink,
    client_reads: bool,
    server_reads: bool,
    calls: Vec<(CallKey, String)>,
    requests: Vec<(CallId, String, Result<RawJson, RpcError>)>,
}

/// Clients and servers on virtual time. Equal seeds give equal runs.
#[derive(Debug)]
pub struct World<A> {
    application: A,
    plan: Plan,
    draws: Draws,
    now: Instant,
    client_config: Arc<client::Config>,
    server_config: Arc<server::Config>,
    connections: Vec<Connection>,
    log: Vec<Entry>,
    marks: usize,
    lives: usize,
    phase: Phase,
    turns: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Acting,
    Draining,
    Rest,
    Ended,
}

impl<A: Application> World<A> {
    /// Creates the world of a seed.
    #[must_use]
    pub fn new(seed: u64, plan: Plan, application: A) -> Self {
        Self::with_draws(Draws::from_seed(seed, plan.steps), plan, application)
    }

    /// Creates the world of decisions that were made before.
    #[must_use]
    pub fn replay(decisions: Decisions, plan: Plan, application: A) -> Self {
        Self::with_draws(Draws::replay(decisions), plan, application)
    }

    fn with_draws(draws: Draws, plan: Plan, application: A) -> Self {
        let mut world = Self {
            client_config: Arc::new(application.client()),
            server_config: Arc::new(application.server()),
            application,
            plan,
            draws,
            now: Instant::ZERO,
            connections: Vec::new(),
            log: Vec::new(),
            marks: 0,
            lives: 0,
            phase: Phase::Acting,
            turns: 0,
        };
        for n in 0..usize::try_from(plan.clients.max(1)).unwrap_or(1) {
            let connection = world.start(n);
            world.connections.push(connection);
        }
        world
    }

    fn start(&mut self, n: usize) -> Connection {
        self.lives += 1;
        self.record(Lane::Client(n), What::Started);
        self.record(Lane::Server(n), What::Started);
        let link = || OneWayLink::new(Chunker::Whole, Duration::ZERO, usize::MAX);
        Connection {
            client: Some(Client::new(Arc::clone(&self.client_config), self.now)),
            server: Some(Server::new(Arc::clone(&self.server_config), self.now)),
            to_server: link(),
            to_client: link(),
            client_reads: true,
            server_reads: true,
            calls: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn record(&mut self, lane: Lane, what: What) {
        self.log.push(Entry { at: self.now, lane, what });
    }

    /// Returns what has happened so far.
    #[must_use]
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// Returns the virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Runs the world to its end and checks the invariants.
    #[must_use]
    pub fn run(mut self) -> Report {
        while self.step() {}
        let violation = INVARIANTS.iter().find_map(|invariant| {
            let (entry, reason) = (invariant.check)(&self.log)?;
            Some(Violation { invariant: invariant.name, reason, entry })
        });
        Report { decisions: self.draws.recorded().clone(), log: self.log, violation }
    }

    /// Makes one step; returns false after the last one.
    pub fn step(&mut self) -> bool {
        match self.phase {
            Phase::Acting if self.draws.begin_step() => self.act(),
            Phase::Acting => {
                for n in 0..self.connections.len() {
                    (self.connections[n].client_reads, self.connections[n].server_reads) = (true, true);
                }
                self.phase = Phase::Draining;
            }
            Phase::Draining => {
                self.turns += 1;
                let mut moved = false;
                for n in 0..self.connections.len() {
                    moved |= self.turn(n, usize::MAX, Duration::ZERO);
                    moved |= self.answer(n, 0);
                }
                if !moved && !self.skip_to_next() {
                    let open: Vec<_> =
                        self.connections.iter().map(|c| !c.to_server.stream.is_closed()).collect();
                    // Nothing is left to do: the clients hang up.
                    for (connection, _) in self.connections.iter_mut().zip(&open).filter(|(_, open)| **open) {
                        connection.to_server.stream.close();
                    }
                    if !open.contains(&true) {
                        self.record(Lane::World, What::Rest);
                        self.phase = Phase::Rest;
                    }
                }
                if self.turns > MAX_TURNS {
                    self.phase = Phase::Ended;
                }
            }
            Phase::Rest => {
                self.advance_to(self.now + Duration::from_secs(3_600));
                for n in 0..self.connections.len() {
                    self.turn(n, usize::MAX, Duration::ZERO);
                }
                self.connections.clear();
                let memory = self.server_config.memory_in_use();
                self.record(Lane::World, What::Released { memory });
                self.phase = Phase::Ended;
            }
            Phase::Ended => return false,
        }
        true
    }

    /// Chooses one action. The first one has the number 0, to which a reduced run tends.
    fn act(&mut self) {
        let plan = self.plan;
        let weights =
            [45, 30, 5, 12, 3, 5, plan.reset, plan.death, plan.stall, plan.hostile, plan.clock_jump];
        let mut drawn = self.draws.below(weights.iter().sum());
        let action = weights.iter().position(|weight| match drawn.checked_sub(*weight) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        let n = self.draws.below(plan.clients.max(1)) as usize;
        match action.unwrap_or(0) {
            0 => {
                for _ in 0..=self.draws.below(6) {
                    let limit = match plan.cuts {
                        true => match self.draws.below(4) {
                            0 => usize::MAX,
                            _ => 1 + self.draws.below(200) as usize,
                        },
                        false => usize::MAX,
                    };
                    let delay = Duration::from_millis(self.draws.below(plan.delay + 1).into());
                    self.turn(n, limit, delay);
                }
            }
            1 => self.call(n),
            2 => self.cancel(n),
            3 => {
                let at = self.draws.below(64) as usize;
                self.answer(n, at);
            }
            4 => self.progress(n),
            5 => {
                let span = self.draws.below(3_000);
                self.advance_to(self.now + Duration::from_millis(span.into()));
            }
            6 => {
                self.record(Lane::World, What::Fault { text: format!("link {n} breaks") });
                self.connections[n].to_server.stream.discard();
                self.connections[n].to_client.stream.discard();
            }
            7 => self.kill(n),
            8 => {
                let connection = &mut self.connections[n];
                match self.draws.below(2) {
                    0 => connection.server_reads = !connection.server_reads,
                    _ => connection.client_reads = !connection.client_reads,
                }
            }
            9 => self.inject(n),
            _ => {
                self.record(Lane::World, What::Fault { text: "the clock jumps".to_owned() });
                let span = self.draws.below(7_200);
                self.advance_to(self.now + Duration::from_secs(span.into()));
            }
        }
    }

    fn call(&mut self, n: usize) {
        let connection = &self.connections[n];
        let is_over = |side: Option<bool>| side.unwrap_or(true);
        if is_over(connection.client.as_ref().map(Pipe::is_drained))
            && is_over(connection.server.as_ref().map(Pipe::is_drained))
        {
            self.connections[n] = self.start(n);
        }
        let mark = format!("mark-{n}-{}", self.marks);
        let (method, params) = self.application.request(&mark, &mut self.draws);
        let mut options = CallOptions::new();
        options.wants_progress = self.draws.below(2) == 1;
        let Some(client) = &mut self.connections[n].client else { return };
        if let Ok(key) = client.engine().call(self.now, &method, &params, &options) {
            self.marks += 1;
            self.connections[n].calls.push((key, mark.clone()));
            self.record(Lane::Client(n), What::Called { mark });
        }
    }

    fn cancel(&mut self, n: usize) {
        let at = self.draws.below(64) as usize;
        let connection = &mut self.connections[n];
        let Some(at) = at.checked_rem(connection.calls.len()) else { return };
        if let Some(client) = &mut connection.client {
            // Refused if its end is an event that was not polled yet.
            let _ = client.engine().cancel(self.now, connection.calls[at].0, None);
        }
    }

    fn answer(&mut self, n: usize, at: usize) -> bool {
        let connection = &mut self.connections[n];
        let Some(at) = at.checked_rem(connection.requests.len()) else { return false };
        let Some(server) = &mut connection.server else { return false };
        let (id, _, answer) = &connection.requests[at];
        let outcome = match answer {
            Ok(result) => server.engine().complete_raw(self.now, *id, result),
            Err(error) => server.engine().fail(self.now, *id, error),
        };
        if outcome.is_ok() {
            let (_, request, _) = connection.requests.remove(at);
            self.record(Lane::Server(n), What::Answered { request });
        }
        // A refused one was cancelled, and its event comes.
        outcome.is_ok()
    }

    fn progress(&mut self, n: usize) {
        let at = self.draws.below(64) as usize;
        let connection = &mut self.connections[n];
        let Some(at) = at.checked_rem(connection.requests.len()) else { return };
        if let Some(server) = &mut connection.server {
            let _ = server.engine().progress(self.now, connection.requests[at].0, Progress::new(1.0));
        }
    }

    fn kill(&mut self, n: usize) {
        let is_server = self.draws.below(2) == 0;
        let connection = &mut self.connections[n];
        connection.to_server.stream.discard();
        connection.to_client.stream.discard();
        if is_server {
            connection.server = None;
            connection.requests.clear();
            self.record(Lane::Server(n), What::Died);
        } else {
            connection.client = None;
            let calls = core::mem::take(&mut connection.calls);
            for (_, mark) in calls {
                let outcome = "lost with its client".to_owned();
                self.record(Lane::Client(n), What::Ended { mark, outcome, mistake: None });
            }
            self.record(Lane::Client(n), What::Died);
        }
    }

    fn inject(&mut self, n: usize) {
        const LINES: [&str; 5] = [
            "a banner",
            "{",
            r#"{"jsonrpc":"2.0","id":99999999,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/odd"}"#,
        ];
        let line = LINES[self.draws.below(5) as usize];
        let is_up = self.draws.below(2) == 0;
        let connection = &mut self.connections[n];
        let link = if is_up { &mut connection.to_server } else { &mut connection.to_client };
        if link.lines.is_at_line_start() && !link.stream.is_closed() {
            link.stream.force(self.now, format!("{line}\n").as_bytes());
            self.record(Lane::World, What::Fault { text: format!("foreign line on link {n}: {line}") });
        }
    }

    /// Handles events, output and input of one connection once; returns whether anything moved.
    fn turn(&mut self, n: usize, limit: usize, delay: Duration) -> bool {
        let mut moved = false;
        while let Some(event) = self.connections[n].client.as_mut().and_then(|c| c.poll_event(self.now)) {
            self.handle_client_event(n, event);
            moved = true;
        }
        while let Some(event) = self.connections[n].server.as_mut().and_then(|s| s.poll_event(self.now)) {
            self.handle_server_event(n, event);
            moved = true;
        }
        let now = self.now;
        let Connection { client, server, to_server, to_client, client_reads, server_reads, .. } =
            &mut self.connections[n];
        // An ended process reads no more: bytes written to it are lost.
        for (link, is_over) in [
            (&mut *to_server, server.as_ref().is_none_or(Pipe::is_drained)),
            (&mut *to_client, client.as_ref().is_none_or(Pipe::is_drained)),
        ] {
            if is_over && !link.stream.is_closed() {
                link.stream.discard();
                moved = true;
            }
        }
        let mut sent = Vec::new();
        let mut take = |lane: Lane, line: &[u8]| {
            let line = String::from_utf8_lossy(line).into_owned();
            sent.push(Entry { at: now, lane, what: What::Sent { line } });
        };
        if let Some(client) = client {
            moved |= to_server.pull_from(now + delay, client, limit, |line| take(Lane::Client(n), line));
            moved |= *client_reads && to_client.deliver_to(now, client);
        }
        if let Some(server) = server {
            moved |= to_client.pull_from(now + delay, server, limit, |line| take(Lane::Server(n), line));
            moved |= *server_reads && to_server.deliver_to(now, server);
        }
        self.log.append(&mut sent);
        moved
    }

    fn handle_client_event(&mut self, n: usize, event: client::Event) {
        let what = match event {
            client::Event::Done { call, outcome, .. } => {
                let calls = &mut self.connections[n].calls;
                let mark = match calls.iter().position(|(key, _)| *key == call) {
                    Some(at) => calls.remove(at).1,
                    None => format!("unknown {call:?}"),
                };
                let result = outcome.as_ref().ok();
                let mistake = result.and_then(|result| self.application.check(&mark, result).err());
                let outcome = outcome.map_or_else(|e| e.to_string(), |result| result.as_str().to_owned());
                What::Ended { mark, outcome, mistake }
            }
            client::Event::Closed(fault) => What::Closed { fault: fault.to_string() },
            other => What::Event { text: format!("{other:?}") },
        };
        self.record(Lane::Client(n), what);
    }

    fn handle_server_event(&mut self, n: usize, event: server::Event) {
        let what = match event {
            server::Event::Call(call) => {
                let request = format!("{:?} of life {}", call.id(), self.lives);
                let answer = self.application.answer(&call);
                self.connections[n].requests.push((call.id(), request.clone(), answer));
                What::Received { request }
            }
            server::Event::Cancelled { call, .. } => {
                let requests = &mut self.connections[n].requests;
                let request = match requests.iter().position(|(id, ..)| *id == call) {
                    Some(at) => requests.remove(at).1,
                    None => format!("unknown {call:?}"),
                };
                What::Cancelled { request }
            }
            server::Event::Closed { fault, .. } => What::Closed { fault: fault.to_string() },
            other => What::Event { text: format!("{other:?}") },
        };
        self.record(Lane::Server(n), what);
    }

    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        for connection in &mut self.connections {
            if let Some(client) = &mut connection.client {
                client.handle_timeout(self.now);
            }
            if let Some(server) = &mut connection.server {
                server.handle_timeout(self.now);
            }
        }
    }

    /// Advances to the next deadline or arrival; returns false if there is none.
    fn skip_to_next(&mut self) -> bool {
        let mut next: Option<Instant> = None;
        for c in &mut self.connections {
            let due = [
                c.client.as_mut().and_then(Pipe::poll_timeout),
                c.server.as_mut().and_then(Pipe::poll_timeout),
                c.to_client
                    .stream
                    .next_arrival()
                    .filter(|_| c.client.as_ref().is_some_and(Pipe::wants_input)),
                c.to_server
                    .stream
                    .next_arrival()
                    .filter(|_| c.server.as_ref().is_some_and(Pipe::wants_input)),
            ];
            next = next.into_iter().chain(due.into_iter().flatten()).min();
        }
        next.is_some_and(|at| {
            self.advance_to(at);
            true
        })
    }
}
