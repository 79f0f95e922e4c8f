//! A world: clients and servers with their applications, links and faults.

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use mcp_proto::client::{InputId, SubscriptionKey, TaskRequest};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{Call, CancelReason, TaskOffer};
use mcp_proto::{
    CallId, CallKey, CallOptions, Change, EncodeError, Fault, Instant, Limits, Progress, RawJson, RpcError,
    SendStatus, UseError, client, server,
};

use crate::decisions::{Decisions, Draws};
use crate::entry::{Entry, Lane, What};
use crate::invariants::INVARIANTS;
use crate::messages::Log;
use crate::plan::{Binding, Plan};
use crate::shrink::Quiet;
use crate::stream::{Chunker, OneWayLink};

#[cfg(feature = "events")]
mod events;
mod http;
mod http1;
mod http_sse;
mod inputs;
mod participant;
mod sides;
mod stranger;

use http::Network;
use participant::{ClientSide, ToolCallParts};
pub use sides::{Side, SidePhase, Transit, TransitEnd};

/// Number of turns after which a world that does not come to rest is stopped.
const MAX_TURNS: usize = 200_000;

/// Longest time of a call without an answer or progress.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest total time of a call.
pub(crate) const CALL_TOTAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time in which a connection without faults has sent all that it holds back.
const FLUSH_TIME: Duration = Duration::from_secs(3);

/// Longest life of a request where memory is short.
const LONGEST_CALL: Duration = Duration::from_secs(300);

/// Most bytes that a connection and its engine hold with [`Limits::tiny`].
const TINY_BYTES: usize = 24 << 10;

/// Bytes of one client on a byte stream beyond [`Limits::max_memory`]: the last piece that was read, and refusals of what is in it.
const BEYOND_MAX_MEMORY: usize = 10 << 10;

/// Bytes of one exchange beyond [`Limits::max_memory`]: its entry and that of its connection, a piece of a body, a refusal. Two more of
/// them are for what was read last.
const EXCHANGE_BEYOND_MAX_MEMORY: usize = 2 << 10;

/// Text of the fault that excuses late ends.
pub(crate) const CLOCK_JUMPS: &str = "the clock jumps";

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
    /// Lets the allocator of this thread refuse what is as large as [`Plan::MEMORY_RESERVE`], or no longer
    /// ([`Plan::out_of_memory`](field@Plan::out_of_memory)). Does nothing unless the program has such an allocator, and tells it here.
    /// A program that drops a world before its end tells it that memory is there again.
    fn set_out_of_memory(&mut self, _is_out: bool) {}
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Report {
    /// All that was decided.
    pub decisions: Decisions,
    /// All that happened.
    pub log: Vec<Entry>,
    /// The first violated invariant.
    pub violation: Option<Violation>,
}

/// Returns what the cancellation of a request is in the log.
fn cancelled(request: String, reason: &CancelReason) -> What {
    match reason {
        // The engine has sent an error.
        CancelReason::Expired | CancelReason::Shutdown => What::Answered { request },
        _ => What::Cancelled { request },
    }
}

/// Returns the name of the principal of a client.
pub(crate) fn principal(lane: usize) -> String {
    format!("principal-{lane}")
}

/// A client and its server, in one life of both.
#[derive(Debug)]
struct Connection {
    /// Number of the client, and of the server as it serves this client, in the log.
    lane: usize,
    client: Option<ClientSide>,
    server: Option<Server>,
    to_server: OneWayLink,
    to_client: OneWayLink,
    client_reads: bool,
    server_reads: bool,
    calls: Vec<(CallKey, String)>,
    ended_calls: Vec<(CallKey, String)>,
    requests: Vec<Request>,
    ended_requests: Vec<Request>,
    foreign_call: Option<String>,
    /// Questions of the server, with their messages.
    questions: Vec<(InputId, String)>,
    /// The subscription of a modern client to resources.
    subscription: Option<SubscriptionKey>,
}

impl Connection {
    /// Returns whether the client of a byte stream has not hung up.
    fn is_open(&self) -> bool {
        !self.to_server.stream.is_closed()
    }

    /// Lets the server answer calls that nobody cancels: the client is gone, or the call asks for a task (CANC-009) or runs one.
    fn end_silence(&mut self, is_pipe: bool) {
        for Request { call, is_unanswered, .. } in &mut self.requests {
            *is_unanswered &= is_pipe && call.task_offer() != TaskOffer::Requested && !call.is_task_run();
        }
    }
}

/// A request that a server has received.
#[derive(Clone, Debug)]
struct Request {
    id: CallId,
    call: Arc<Call>,
    lane: Lane,
    name: String,
    answer: Result<RawJson, RpcError>,
    is_unanswered: bool,
    progress: u32,
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
    /// The server of all clients, if the binding is one of HTTP.
    network: Option<Network>,
    /// The messages of exchanges.
    transits: Vec<Transit>,
    log: Vec<Entry>,
    marks: usize,
    lives: u64,
    phase: Phase,
    turns: usize,
    flush_until: Instant,
    #[cfg(feature = "events")]
    events: events::Events,
    /// When clients hang up for which something would go on without end.
    settle_at: Option<Instant>,
    has_hung_up: bool,
    is_out_of_memory: bool,
    most_memory: usize,
    /// Most exchanges that were open at once.
    most_exchanges: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Acting,
    Flushing {
        /// Servers had memory for notifications all the time.
        has_memory: bool,
    },
    Draining,
    Rest,
    Ended,
}

/// What a step does.
#[derive(Clone, Copy)]
enum Action {
    /// Output, links and input of a connection move.
    Turn,
    Call,
    Cancel,
    Answer,
    Progress,
    /// Time passes from deadline to deadline.
    Wait,
    Disconnect,
    Kill,
    /// A side stops or begins to read.
    Stall,
    Inject,
    /// Time passes at once.
    Jump,
    /// A request is never answered.
    Silence,
    Change,
    /// A server asks its client.
    Ask,
    /// A client answers a question.
    Reply,
    /// A request becomes a task.
    BeginTask,
    /// Memory runs out, or is there again.
    MemoryEnds,
    #[cfg(feature = "events")]
    Events,
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
        let (mut client, mut server) = (application.client(), application.server());
        (client, server) = inputs::configure(&plan, client, server);
        #[cfg(feature = "events")]
        {
            server = events::configure(&plan, server);
        }
        if plan.tight || plan.out_of_memory > 0 {
            let mut limits = if plan.tight { Limits::tiny() } else { Limits::default() };
            if plan.out_of_memory > 0 {
                limits.memory_reserve = Plan::MEMORY_RESERVE;
            }
            (client, server) = (client.limits(limits.clone()), server.limits(limits));
        }
        if plan.max_memory > 0 {
            let mut limits = server.effective_limits().clone();
            limits.max_memory = Some(plan.max_memory);
            // What has to wait for memory is tried again every 50 ms for as long as a request may take it.
            limits.max_call_age = LONGEST_CALL;
            server = server.limits(limits);
        }
        let mut world = Self {
            client_config: Arc::new(client),
            server_config: Arc::new(server),
            application,
            plan,
            draws,
            now: Instant::ZERO,
            connections: Vec::new(),
            network: None,
            transits: Vec::new(),
            log: Vec::new(),
            marks: 0,
            lives: 0,
            phase: Phase::Acting,
            turns: 0,
            flush_until: Instant::ZERO,
            #[cfg(feature = "events")]
            events: events::Events::new(&plan),
            settle_at: None,
            has_hung_up: false,
            is_out_of_memory: false,
            most_memory: 0,
            most_exchanges: 0,
        };
        if plan.binding != Binding::Pipe {
            world.network = Some(Network::new(plan.binding, &world.server_config, plan.tasks > 0));
            #[cfg(feature = "events")]
            world.start_event_server(0);
        }
        for n in 0..usize::try_from(plan.clients.max(1)).unwrap_or(1) {
            let connection = world.start(n);
            world.connections.push(connection);
        }
        world
    }

    /// Starts a client, and its server if it has one of its own.
    fn start(&mut self, lane: usize) -> Connection {
        self.lives += 1;
        self.record(Lane::Client(lane), What::Started);
        self.record(Lane::Server(lane), What::Started);
        #[cfg(feature = "events")]
        self.connect_events(lane);
        let capacity = if self.plan.tight { 2_048 } else { usize::MAX };
        let link = || OneWayLink::new(Chunker::Whole, Duration::ZERO, capacity);
        let (client, server) = match self.network {
            Some(_) => {
                let url = http::client_url(self.plan.binding);
                (ClientSide::http(&self.client_config, url, lane, self.now), None)
            }
            None => {
                let mut server = Server::new(Arc::clone(&self.server_config), self.now);
                if self.plan.tasks > 0 {
                    server.engine().set_tasks(self.now, inputs::task_table(self.lives));
                }
                let client = Client::new(Arc::clone(&self.client_config), self.now);
                (ClientSide::Pipe(Box::new(client)), Some(server))
            }
        };
        Connection {
            lane,
            client: Some(client),
            server,
            to_server: link(),
            to_client: link(),
            client_reads: true,
            server_reads: true,
            calls: Vec::new(),
            ended_calls: Vec::new(),
            requests: Vec::new(),
            ended_requests: Vec::new(),
            foreign_call: None,
            questions: Vec::new(),
            subscription: None,
        }
    }

    /// Returns the engine of the server of a client, if it lives.
    fn server_engine(&mut self, n: usize) -> Option<&mut server::Engine> {
        match &mut self.network {
            Some(network) => network.server.as_mut().map(|server| server.engine()),
            None => self.connections[n].server.as_mut().map(Server::engine),
        }
    }

    fn record(&mut self, lane: Lane, what: What) {
        self.note_memory();
        self.log.push(Entry { at: self.now, lane, what });
    }

    /// Returns the bytes that servers may hold for their clients. Over HTTP those who have gone have left sessions.
    fn memory_bound(&self) -> usize {
        let clients = usize::try_from(self.plan.clients.max(1)).unwrap_or(usize::MAX);
        if self.plan.max_memory == 0 && self.plan.tight {
            let held = if self.network.is_some() { self.lives } else { clients as u64 };
            return usize::try_from(held).unwrap_or(usize::MAX).saturating_mul(TINY_BYTES);
        }
        let max = self.server_config.effective_limits().max_memory.unwrap_or(Limits::DEFAULT_MAX_MEMORY);
        let beyond = match self.network {
            Some(_) => self.most_exchanges.saturating_add(2).saturating_mul(EXCHANGE_BEYOND_MAX_MEMORY),
            None => clients.saturating_mul(BEYOND_MAX_MEMORY),
        };
        max.saturating_add(beyond)
    }

    /// Returns whether servers have so little memory that notifications wait.
    fn is_memory_full(&self) -> bool {
        let max = self.plan.max_memory;
        max > 0 && self.server_config.memory_in_use() >= max - max / 8
    }

    fn note_memory(&mut self) {
        self.most_memory = self.most_memory.max(self.server_config.memory_in_use());
        self.most_exchanges =
            self.most_exchanges.max(self.network.as_ref().map_or(0, Network::exchange_count));
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

    /// Runs the world to its end and checks the invariants. A panic violates the invariant `no_panic`, and ends the run.
    #[must_use]
    pub fn run(self) -> Report {
        self.run_and_report(true)
    }

    /// Runs the world to its end. The hook of the process is told of a panic only if `reports_panics`.
    pub(crate) fn run_and_report(mut self, reports_panics: bool) -> Report {
        // A panic that ends the process is its last word.
        let quiet = (!reports_panics && cfg!(panic = "unwind")).then(Quiet::begin);
        let panic = loop {
            match catch_unwind(AssertUnwindSafe(|| self.step())) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(payload) => break Some(payload),
            }
        };
        drop(quiet);
        // After a panic, which may have come meanwhile.
        self.set_out_of_memory(false);
        let violation = match panic {
            Some(payload) => {
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
                let reason = text.unwrap_or("a panic without a text").to_owned();
                Some(Violation { invariant: "no_panic", reason, entry: self.log.len() })
            }
            None => {
                let log = Log::new(&self.log);
                INVARIANTS.iter().find_map(|invariant| {
                    let (entry, reason) = (invariant.check)(&log)?;
                    Some(Violation { invariant: invariant.name, reason, entry })
                })
            }
        };
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
                self.calm_network();
                self.set_out_of_memory(false);
                self.flush_until = self.now + FLUSH_TIME;
                self.phase = Phase::Flushing { has_memory: true };
            }
            Phase::Flushing { has_memory } => {
                let has_memory = has_memory && !self.is_memory_full();
                let mut moved = false;
                for n in 0..self.connections.len() {
                    moved |= self.turn(n, usize::MAX, Duration::ZERO);
                }
                self.phase = Phase::Flushing { has_memory };
                if !moved && !self.skip_to_next(self.flush_until) {
                    self.advance_to(self.flush_until);
                    if has_memory {
                        self.record(Lane::World, What::Flushed);
                    }
                    self.phase = Phase::Draining;
                }
            }
            Phase::Draining => {
                self.turns += 1;
                let mut moved = false;
                for n in 0..self.connections.len() {
                    moved |= self.turn(n, usize::MAX, Duration::ZERO);
                    moved |= self.answer(n, 0) | self.reply(n, 0);
                }
                let is_idle = !moved && !self.report_unanswered();
                #[cfg(feature = "events")]
                let is_idle = is_idle && !self.settle_events();
                if is_idle && !self.wait_for_end() && !self.hang_up() {
                    self.record(Lane::World, What::Rest);
                    self.phase = Phase::Rest;
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
                let (most, bound) = (self.most_memory, self.memory_bound());
                self.record(Lane::World, What::Held { most, bound });
                self.end_network();
                self.connections.clear();
                let memory = self.server_config.memory_in_use();
                self.record(Lane::World, What::Released { memory });
                self.phase = Phase::Ended;
            }
            Phase::Ended => return false,
        }
        true
    }

    /// Lets time pass until the next deadline or arrival; returns false if nothing more happens before the clients hang up.
    fn wait_for_end(&mut self) -> bool {
        // Streams of HTTP are kept alive without end.
        let is_waiting = self.connections.iter().any(|c| c.client.is_some() && !c.calls.is_empty());
        match self.network {
            Some(_) if !is_waiting && self.settle_at.is_none() => {
                self.settle_at = Some(self.now + FLUSH_TIME);
                true
            }
            Some(_) if !is_waiting && !self.has_hung_up => {
                self.skip_to_next(self.settle_at.unwrap_or(self.now))
            }
            // What is announced is tried again as long as open connections take the memory; no request does so for longer.
            None if !is_waiting
                && self.is_memory_full()
                && self.connections.iter().any(Connection::is_open) =>
            {
                let last = self.now + LONGEST_CALL + FLUSH_TIME;
                let settle_at = *self.settle_at.get_or_insert(last);
                self.skip_to_next(settle_at)
            }
            _ => self.skip_to_next(Instant::FAR_FUTURE),
        }
    }

    /// Closes the connections of all clients; returns false if none is open.
    fn hang_up(&mut self) -> bool {
        let open: Vec<_> = match self.network {
            Some(_) => vec![!core::mem::replace(&mut self.has_hung_up, true); self.connections.len()],
            None => self.connections.iter().map(Connection::is_open).collect(),
        };
        if !open.contains(&true) {
            return false;
        }
        self.record(Lane::World, What::Settled);
        for (connection, _) in self.connections.iter_mut().zip(&open).filter(|(_, open)| **open) {
            connection.to_server.stream.close();
            if let Some(ClientSide::Http(client)) = &mut connection.client {
                client.close(self.now);
            }
            connection.end_silence(self.network.is_none());
        }
        if self.plan.binding == Binding::HttpSse {
            // Sessions end with their streams: nothing has to grow old for that.
            while (0..self.connections.len()).any(|n| self.turn(n, usize::MAX, Duration::ZERO)) {}
            self.record_idle();
        }
        true
    }

    /// Chooses one action. The first one has the number 0, to which a reduced run tends.
    fn act(&mut self) {
        let plan = self.plan;
        // A new action stands at the end, where one without weight changes no decision of a test that was kept.
        let weights = [
            (45, Action::Turn),
            (30, Action::Call),
            (5, Action::Cancel),
            (12, Action::Answer),
            (3, Action::Progress),
            // Clients over HTTP wait before they connect again.
            (if plan.binding == Binding::Pipe { 5 } else { 15 }, Action::Wait),
            (plan.reset, Action::Disconnect),
            (plan.death, Action::Kill),
            (plan.stall, Action::Stall),
            (plan.hostile, Action::Inject),
            (plan.clock_jump, Action::Jump),
            (plan.silence, Action::Silence),
            (plan.changes, Action::Change),
            (plan.questions, Action::Ask),
            (2 * plan.questions, Action::Reply),
            (plan.tasks, Action::BeginTask),
            (plan.out_of_memory, Action::MemoryEnds),
            #[cfg(feature = "events")]
            (plan.events, Action::Events),
        ];
        let mut drawn = self.draws.below(weights.iter().map(|(weight, _)| weight).sum());
        let chosen = weights.iter().find(|(weight, _)| match drawn.checked_sub(*weight) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        let n = self.draws.below(plan.clients.max(1)) as usize;
        match chosen.map_or(Action::Turn, |(_, action)| *action) {
            Action::Turn => {
                for _ in 0..=self.draws.below(6) {
                    let limit = match plan.cuts {
                        true => match self.draws.below(4) {
                            0 => usize::MAX,
                            _ => 1 + self.draws.below(200) as usize,
                        },
                        false => usize::MAX,
                    };
                    let delay = Duration::from_millis(self.draws.below(plan.delay.saturating_add(1)).into());
                    // An exchange has more hops than a line: time passes on the way.
                    if !self.turn(n, limit, delay) && plan.binding != Binding::Pipe {
                        self.skip_to_next(self.now + Duration::from_millis(50));
                    }
                }
            }
            Action::Call => self.call(n),
            Action::Cancel => self.cancel(n),
            Action::Answer => {
                let at = self.draws.below(64) as usize;
                self.answer(n, at);
            }
            Action::Progress => self.progress(n),
            Action::Wait => {
                let span = self.draws.below(3_000);
                let until = self.now + Duration::from_millis(span.into());
                self.advance_to(self.now);
                while let Some(at) = self.next_timer().filter(|at| *at > self.now && *at <= until) {
                    self.advance_to(at);
                }
                self.advance_to(until);
            }
            Action::Disconnect => self.disconnect(n),
            Action::Kill => self.kill(n),
            Action::Stall => {
                let connection = &mut self.connections[n];
                match self.draws.below(2) {
                    0 => connection.server_reads = !connection.server_reads,
                    _ => connection.client_reads = !connection.client_reads,
                }
            }
            Action::Inject => self.inject(n),
            Action::Jump => {
                self.record(Lane::World, What::Fault { text: CLOCK_JUMPS.to_owned() });
                let span = self.draws.below(7_200);
                self.advance_to(self.now + Duration::from_secs(span.into()));
            }
            Action::Silence => {
                let at = self.draws.below(64) as usize;
                let requests = &mut self.connections[n].requests;
                if let Some(at) = at.checked_rem(requests.len()) {
                    requests[at].is_unanswered = true;
                }
            }
            Action::Change => self.change(n),
            Action::Ask => self.ask(n),
            Action::Reply => {
                let at = self.draws.below(64) as usize;
                self.reply(n, at);
            }
            Action::BeginTask => self.begin_task(n),
            #[cfg(feature = "events")]
            Action::Events => self.act_on_events(n),
            Action::MemoryEnds => self.set_out_of_memory(!self.is_out_of_memory),
        }
    }

    fn set_out_of_memory(&mut self, is_out: bool) {
        if self.is_out_of_memory != is_out {
            let text = if is_out { "out of memory" } else { "memory is there again" };
            self.record(Lane::World, What::Fault { text: text.to_owned() });
            self.is_out_of_memory = is_out;
            self.application.set_out_of_memory(is_out);
        }
    }

    fn call(&mut self, n: usize) {
        self.restart(n);
        let mark = format!("mark-{}-{}", self.connections[n].lane, self.marks);
        let (method, params) = self.application.request(&mark, &mut self.draws);
        let wants_progress = self.draws.below(2) == 1;
        let as_task = self.plan.tasks > 0 && self.draws.below(2) == 1;
        self.begin_call(n, mark, &method, &params, wants_progress, as_task);
    }

    /// Starts a client and its server again if they have ended.
    fn restart(&mut self, n: usize) {
        let connection = &self.connections[n];
        let is_over = |side: Option<bool>| side.unwrap_or(true);
        let is_client_over = is_over(connection.client.as_ref().map(ClientSide::is_drained));
        if self.network.is_some() {
            self.prepare_network();
            if is_client_over {
                self.restart_client(n);
            }
        } else if is_client_over && is_over(connection.server.as_ref().map(Pipe::is_drained)) {
            if !self.connections[n].requests.is_empty() {
                // Runs of tasks do not end with the connection.
                self.record(Lane::Server(n), What::Died);
            }
            self.connections[n] = self.start(n);
        }
    }

    fn begin_call(
        &mut self,
        n: usize,
        mark: String,
        method: &str,
        params: &RawJson,
        wants_progress: bool,
        as_task: bool,
    ) {
        let mut options = CallOptions::new();
        options.wants_progress = wants_progress;
        options.timeout = Some(CALL_TIMEOUT);
        options.total_timeout = Some(CALL_TOTAL_TIMEOUT);
        let Connection { client: Some(client), lane, .. } = &mut self.connections[n] else { return };
        let lane = Lane::Client(*lane);
        let tool = ToolCallParts::read(method, params).filter(|_| as_task);
        let called = match tool {
            Some(ToolCallParts { name, arguments }) => {
                let task = TaskRequest::followed();
                client.engine().call_tool_as_task(self.now, &name, &arguments, task, &options)
            }
            None => client.engine().call(self.now, method, params, &options),
        };
        if let Ok(key) = called {
            self.marks += 1;
            self.connections[n].calls.push((key, mark.clone()));
            self.record(lane, What::Called { mark });
        }
    }

    /// Publishes a change of one of two resources, or begins or ends a subscription of a session to it.
    fn change(&mut self, n: usize) {
        let lane = self.connections[n].lane;
        let uri = format!("sim://{}/{}", principal(lane), self.draws.below(2));
        let method = match self.draws.below(6) {
            0 => "resources/subscribe",
            1 => "resources/unsubscribe",
            2 => return self.follow(n, uri),
            _ => {
                let now = self.now;
                if let Some(engine) = self.server_engine(n) {
                    engine.publish(now, &Change::Resource(uri));
                }
                return;
            }
        };
        let params = RawJson::new(format!("{{\"uri\":\"{uri}\"}}")).expect("an object");
        self.begin_call(n, format!("change-{lane}-{}", self.marks), method, &params, false, false);
    }

    /// Begins a modern subscription to a resource, or ends the one that the client has.
    fn follow(&mut self, n: usize, uri: String) {
        let Connection { client: Some(client), subscription, .. } = &mut self.connections[n] else { return };
        // Both are refused in a session, and if the subscription has ended.
        match subscription.take() {
            Some(key) => drop(client.engine().unsubscribe(self.now, key)),
            None => {
                let filter = SubscriptionFilter::new().resource_subscriptions(vec![uri]);
                *subscription = client.engine().subscribe(self.now, &filter).ok();
            }
        }
    }

    fn cancel(&mut self, n: usize) {
        let at = self.draws.below(64) as usize;
        let connection = &mut self.connections[n];
        let Some(client) = &mut connection.client else { return };
        if let Some(at) = at.checked_rem(connection.calls.len()) {
            // Refused if its end is an event that was not polled yet.
            let _ = client.engine().cancel(self.now, connection.calls[at].0, None);
        } else if let Some((call, mark)) = connection.ended_calls.last() {
            if client.engine().cancel(self.now, *call, None).is_ok() {
                let (mark, outcome) = (mark.clone(), "cancelled after its end".to_owned());
                let lane = Lane::Client(connection.lane);
                self.record(lane, What::Ended { mark, outcome, mistake: None });
            }
        }
    }

    /// Answers a request, or tries to answer one that has ended if none is open.
    fn answer(&mut self, n: usize, at: usize) -> bool {
        let (now, requests) = (self.now, &self.connections[n].requests);
        let answerable: Vec<_> = (0..requests.len()).filter(|at| !requests[*at].is_unanswered).collect();
        let Some(at) = at.checked_rem(answerable.len()) else {
            // A handler that has not noticed its cancellation.
            if let Some(Request { id, lane, name, answer: Ok(result), .. }) =
                self.connections[n].ended_requests.last().cloned()
            {
                let Some(engine) = self.server_engine(n) else { return false };
                if engine.complete_raw(now, id, &result).is_ok() {
                    self.record(lane, What::Answered { request: name });
                }
            }
            return false;
        };
        let Request { id, answer, .. } = requests[answerable[at]].clone();
        let Some(engine) = self.server_engine(n) else { return false };
        let mut outcome = match &answer {
            Ok(result) => engine.complete_raw(now, id, result),
            Err(error) => engine.fail(now, id, error),
        };
        if outcome == Err(UseError::Encode(EncodeError::OutOfMemory)) {
            outcome = engine.fail(now, id, &RpcError::internal("no memory for the result"));
        }
        if outcome.is_ok() {
            let connection = &mut self.connections[n];
            let ended = connection.requests.remove(answerable[at]);
            let (lane, request) = (ended.lane, ended.name.clone());
            connection.ended_requests.push(ended);
            self.record(lane, What::Answered { request });
        }
        // A refused one was cancelled, and its event comes.
        outcome.is_ok()
    }

    fn progress(&mut self, n: usize) {
        let at = self.draws.below(64) as usize;
        let Some(at) = at.checked_rem(self.connections[n].requests.len()) else { return };
        for _ in 0..=self.draws.below(4) {
            let more = self.draws.below(3);
            self.report(n, at, more);
        }
    }

    fn report(&mut self, n: usize, at: usize, more: u32) {
        let request = &mut self.connections[n].requests[at];
        request.progress += more;
        let (now, value, id) = (self.now, request.progress, request.id);
        let Some(engine) = self.server_engine(n) else { return };
        let status = engine.progress(now, id, Progress::new(value.into()));
        if matches!(status, Ok(SendStatus::Queued | SendStatus::Deferred)) {
            let Request { lane, name: request, .. } = self.connections[n].requests[at].clone();
            self.record(lane, What::Reported { request, value });
        }
    }

    /// Reports progress of the requests that are never answered, and lets some time pass; returns false without one.
    fn report_unanswered(&mut self) -> bool {
        let mut is_any = false;
        for n in 0..self.connections.len() {
            // Without a call the request is of no client, and has no deadline.
            if self.connections[n].client.is_some() && !self.connections[n].calls.is_empty() {
                for at in 0..self.connections[n].requests.len() {
                    // Every second one reports nothing new.
                    self.report(n, at, u32::from(self.turns % 2 == 0));
                    is_any = true;
                }
            }
        }
        is_any && {
            let until = self.now + CALL_TIMEOUT / 4;
            if !self.skip_to_next(until) {
                self.advance_to(until);
            }
            true
        }
    }

    /// Breaks a link, or lets the server abort or shut down.
    fn disconnect(&mut self, n: usize) {
        if self.network.is_some() {
            return self.break_exchanges(n);
        }
        let kind = self.draws.below(4);
        let connection = &mut self.connections[n];
        let text = match (kind, &mut connection.server) {
            (2, Some(server)) => {
                server.abort(self.now, &Fault::Eof);
                format!("server {n} aborts")
            }
            (3, Some(server)) => {
                server.shutdown(self.now, Duration::from_secs(1));
                format!("server {n} shuts down")
            }
            _ => {
                connection.to_server.stream.discard();
                connection.to_client.stream.discard();
                format!("link {n} breaks")
            }
        };
        self.record(Lane::World, What::Fault { text });
    }

    fn kill(&mut self, n: usize) {
        let is_server = self.draws.below(2) == 0;
        if self.network.is_some() {
            return if is_server { self.kill_server() } else { self.kill_client(n) };
        }
        let connection = &mut self.connections[n];
        connection.to_server.stream.discard();
        connection.to_client.stream.discard();
        if is_server {
            connection.server = None;
            connection.requests.clear();
            connection.ended_requests.clear();
            self.record(Lane::Server(n), What::Died);
        } else {
            self.end_client(n);
        }
    }

    /// Ends the process of a client.
    fn end_client(&mut self, n: usize) {
        let connection = &mut self.connections[n];
        let lane = Lane::Client(connection.lane);
        connection.client = None;
        #[cfg(feature = "events")]
        self.lose_followings(n);
        let connection = &mut self.connections[n];
        for (_, mark) in core::mem::take(&mut connection.calls) {
            let outcome = "lost with its client".to_owned();
            self.record(lane, What::Ended { mark, outcome, mistake: None });
        }
        self.record(lane, What::Died);
    }

    fn inject(&mut self, n: usize) {
        if self.network.is_some() {
            return self.send_as_stranger(n);
        }
        const LINES: [&str; 5] = [
            "a banner",
            "{",
            r#"{"jsonrpc":"2.0","id":99999999,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/odd"}"#,
        ];
        const CALL: &str =
            r#""method":"tools/call","params":{"name":"mark","arguments":{"mark":"foreign"}}}"#;
        let foreign = self.log.len();
        let connection = &mut self.connections[n];
        let (line, call) = match self.draws.below(12) {
            5 => (format!(r#"{{"jsonrpc":"2.0","id":"foreign-{foreign}",{CALL}"#), true),
            6 | 7 => (
                format!(
                    r#"[{{"jsonrpc":"2.0","id":"foreign-{foreign}",{CALL},{{"jsonrpc":"2.0","id":"second-{foreign}",{CALL}]"#
                ),
                true,
            ),
            8.. => {
                let Some(id) = connection.foreign_call.take() else { return };
                let params = format!(r#"{{"requestId":"{id}"}}"#);
                (format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#), true)
            }
            other => (LINES[other as usize].to_owned(), false),
        };
        let is_up = call || self.draws.below(2) == 0;
        let link = if is_up { &mut connection.to_server } else { &mut connection.to_client };
        if link.lines.is_at_line_start() && !link.stream.is_closed() {
            link.stream.force(self.now, format!("{line}\n").as_bytes());
            if line.contains("foreign-") && line.contains("tools/call") {
                connection.foreign_call = Some(format!("foreign-{foreign}"));
            }
            self.record(Lane::World, What::Fault { text: format!("foreign line on link {n}: {line}") });
            let lane = if is_up { Lane::Client(n) } else { Lane::Server(n) };
            self.record(lane, What::Injected { line });
        }
    }

    /// Handles all events of one connection; returns whether there was one.
    fn poll(&mut self, n: usize) -> bool {
        let mut moved = false;
        while let Some(event) = self.connections[n].client.as_mut().and_then(|c| c.poll_event(self.now)) {
            self.handle_client_event(n, event);
            moved = true;
        }
        while let Some(event) = self.connections[n].server.as_mut().and_then(|s| s.poll_event(self.now)) {
            self.handle_server_event(n, event);
            moved = true;
        }
        moved |= self.network.is_some() && self.poll_network(n);
        #[cfg(feature = "events")]
        {
            moved |= self.poll_events(n);
        }
        moved
    }

    /// Handles events, output and input of one connection once; returns whether anything moved.
    fn turn(&mut self, n: usize, limit: usize, delay: Duration) -> bool {
        let mut moved = self.poll(n);
        self.note_memory();
        if self.network.is_some() {
            return moved | self.move_exchanges(n, limit, delay);
        }
        let now = self.now;
        let Connection { client, server, to_server, to_client, client_reads, server_reads, .. } =
            &mut self.connections[n];
        // An ended process reads no more: bytes written to it are lost.
        for (link, is_over) in [
            (&mut *to_server, server.as_ref().is_none_or(Pipe::is_drained)),
            (&mut *to_client, client.as_ref().is_none_or(ClientSide::is_drained)),
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
        if let Some(ClientSide::Pipe(client)) = client {
            let client = &mut **client;
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
        #[cfg(feature = "events")]
        let Some(event) = self.take_client_event(n, event) else { return };
        let what = match event {
            client::Event::Done { call, outcome, .. } => {
                let calls = &mut self.connections[n].calls;
                let mark = match calls.iter().position(|(key, _)| *key == call) {
                    Some(at) => {
                        let (key, mark) = calls.remove(at);
                        self.connections[n].ended_calls.push((key, mark.clone()));
                        mark
                    }
                    None => format!("unknown {call:?}"),
                };
                let result = outcome.as_ref().ok().filter(|_| mark.starts_with("mark-"));
                let mistake = result.and_then(|result| self.application.check(&mark, result).err());
                let outcome = outcome.map_or_else(|e| e.to_string(), |result| result.as_str().to_owned());
                What::Ended { mark, outcome, mistake }
            }
            client::Event::Ready(peer) => What::Ready { version: peer.version.as_str() },
            client::Event::Progress { call, .. } => {
                let calls = &self.connections[n].calls;
                let mark = calls.iter().find(|(key, _)| *key == call);
                let mark = mark.map_or_else(|| format!("unknown {call:?}"), |(_, mark)| mark.clone());
                What::Progressed { mark }
            }
            client::Event::Input(input) => {
                self.receive_question(n, &input);
                What::Event { text: format!("{input:?}") }
            }
            client::Event::InputWithdrawn(id) => {
                self.withdraw_question(n, id);
                What::Event { text: format!("{id:?} is withdrawn") }
            }
            client::Event::Closed(fault) => What::Closed { fault: fault.to_string() },
            other => What::Event { text: format!("{other:?}") },
        };
        self.record(Lane::Client(self.connections[n].lane), what);
    }

    fn handle_server_event(&mut self, n: usize, event: server::Event) {
        #[cfg(feature = "events")]
        let Some(event) = self.take_server_event(n, event) else { return };
        let lane = Lane::Server(n);
        let is_dropped = matches!(event, server::Event::ParkedCallDropped { .. });
        let what = match event {
            server::Event::Call(call) => return self.receive(n, lane, call),
            server::Event::Cancelled { call, reason } => {
                let request =
                    self.end_request(n, call).map_or_else(|| format!("unknown {call:?}"), |(name, _)| name);
                cancelled(request, &reason)
            }
            server::Event::Closed { fault, .. } => What::Closed { fault: fault.to_string() },
            other => What::Event { text: format!("{other:?}") },
        };
        // What a run of a task has left is dropped with the task, which outlives its connection.
        let outlives = self.plan.tasks > 0 && is_dropped;
        self.record(if outlives { Lane::World } else { lane }, what);
    }

    /// Takes a call to be answered later.
    fn receive(&mut self, n: usize, lane: Lane, call: Call) {
        let call = Arc::new(call);
        let answer = self.application.answer(&call);
        // It has no id any more if its cancellation is the next event.
        let id = self.server_engine(n).and_then(|engine| engine.request_id(call.id()).cloned());
        let id = id.map_or_else(|| "?".to_owned(), |id| id.to_string());
        let key = format!("({:?} of life {})", call.id(), self.lives);
        let is_run = call.task_id().is_some();
        let name = if is_run { format!("task {key}") } else { format!("request {id} {key}") };
        let mistake = Self::find_mistake(&call);
        let is_reply = call.attempt() > 0;
        let request = Request {
            id: call.id(),
            call,
            lane,
            name: name.clone(),
            answer,
            is_unanswered: false,
            progress: 0,
        };
        self.connections[n].requests.push(request);
        self.record(lane, What::Received { request: name.clone() });
        if is_reply {
            self.record(lane, What::Replied { request: name, mistake });
        }
    }

    /// Ends a request without an answer of the application, and returns its name and its lane.
    fn end_request(&mut self, n: usize, call: CallId) -> Option<(String, Lane)> {
        let connection = &mut self.connections[n];
        let at = connection.requests.iter().position(|request| request.id == call)?;
        let ended = connection.requests.remove(at);
        let found = (ended.name.clone(), ended.lane);
        connection.ended_requests.push(ended);
        Some(found)
    }

    fn advance_to(&mut self, at: Instant) {
        for n in 0..self.connections.len() {
            self.poll(n);
        }
        self.now = self.now.max(at);
        if let Some(network) = &mut self.network {
            network.handle_timeout(self.now);
        }
        for connection in &mut self.connections {
            if let Some(client) = &mut connection.client {
                client.handle_timeout(self.now);
            }
            if let Some(server) = &mut connection.server {
                server.handle_timeout(self.now);
            }
        }
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let network = self.network.as_mut().and_then(Network::poll_timeout);
        let timers = self.connections.iter_mut().flat_map(|c| {
            let client = c.client.as_mut().and_then(ClientSide::poll_timeout);
            [client, c.server.as_mut().and_then(Pipe::poll_timeout)]
        });
        let next = timers.flatten().chain(network).min();
        #[cfg(feature = "events")]
        let next = next.into_iter().chain(self.next_of_events()).min();
        next
    }

    /// Advances to the next deadline or arrival, which is `latest` at the latest; returns false if there is none.
    fn skip_to_next(&mut self, latest: Instant) -> bool {
        let mut next = self.next_timer();
        next = next.into_iter().chain(self.next_arrival()).min();
        for c in &self.connections {
            let due = [
                c.to_client
                    .stream
                    .next_arrival()
                    .filter(|_| c.client.as_ref().is_some_and(ClientSide::wants_input)),
                c.to_server
                    .stream
                    .next_arrival()
                    .filter(|_| c.server.as_ref().is_some_and(Pipe::wants_input)),
            ];
            next = next.into_iter().chain(due.into_iter().flatten()).min();
        }
        next.filter(|at| *at <= latest).is_some_and(|at| {
            self.advance_to(at);
            true
        })
    }
}
