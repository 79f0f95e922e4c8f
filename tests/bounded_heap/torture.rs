//! A tour of calls in memory, in which the n-th read, write, timer, access of the store or allocation goes wrong, or the heap is full at
//! the n-th call of an engine, for every n.
//!
//! Both engines share a thread and virtual time. `tests/programs/torture` does the same to the calls of the system of each adapter.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::cell::Cell;
use core::time::Duration;

use mcp_proto::client::{self, SubscriptionKey, TaskPolling, TaskRequest};
use mcp_proto::model::{
    CallToolResult, ElicitFormParams, ElicitSchema, InputRequest, InputRequests, SubscriptionFilter,
};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, StoreEffect, TaskOffer, TaskOptions, TaskTable};
use mcp_proto::{
    Anchor, CallError, CallId, CallKey, CallOptions, Capabilities, Capability, Change, Entropy, Instant,
    Limits, Progress, RawJson, RpcError, UseError, VersionSet,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{LIVE, small, within};

thread_local! {
    /// Calls of engines in a tour.
    static STEPS: Cell<usize> = const { Cell::new(0) };
    /// The one in which the heap has only [`LAST_ROOM`].
    static FULL_AT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Allocations of engines of [`LAST_ROOM`] and more, for all of which they ask.
    static ASKED: Cell<usize> = const { Cell::new(0) };
    /// The one that is refused, while an engine runs.
    static REFUSED_AT: Cell<usize> = const { Cell::new(usize::MAX) };
    static IS_IN_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// `Limits::memory_reserve` of the tour: tables of tasks and questions grow without asking.
const LAST_ROOM: usize = 8 << 10;

/// Returns whether the allocator refuses these bytes because of [`REFUSED_AT`].
pub(super) fn refuses(bytes: isize) -> bool {
    IS_IN_ENGINE.get() && bytes >= LAST_ROOM as isize && {
        let nth = ASKED.get();
        ASKED.set(nth + 1);
        nth == REFUSED_AT.get()
    }
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Kind of an operation whose n-th one fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Read,
    Write,
    Timer,
    Store,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Half of the bytes arrive, and then the end.
    ReadCut,
    /// Bytes under way are lost, and both sides read the end.
    ReadReset,
    /// One byte arrives.
    ReadShort,
    /// The bytes arrive a day later.
    ReadLate,
    /// One byte is taken.
    WriteShort,
    /// Nothing is taken for a day.
    WriteFull,
    /// The write fails, so that its side gives the connection up.
    WriteFails,
    /// A deadline is handled an hour late.
    TimerLate,
    /// The deadlines are looked at once more, before the next one.
    TimerEarly,
    /// The store cannot save a task.
    StoreFails,
}

const FAULTS: [(Fault, Class); 10] = [
    (Fault::ReadCut, Class::Read),
    (Fault::ReadReset, Class::Read),
    (Fault::ReadShort, Class::Read),
    (Fault::ReadLate, Class::Read),
    (Fault::WriteShort, Class::Write),
    (Fault::WriteFull, Class::Write),
    (Fault::WriteFails, Class::Write),
    (Fault::TimerLate, Class::Timer),
    (Fault::TimerEarly, Class::Timer),
    (Fault::StoreFails, Class::Store),
];

impl Fault {
    /// Returns whether no call of the tour may notice it.
    const fn is_invisible(self) -> bool {
        matches!(self, Self::ReadShort | Self::WriteShort | Self::TimerEarly)
    }
}

/// One direction of the connection.
#[derive(Default)]
struct Link {
    bytes: Vec<u8>,
    is_closed: bool,
    is_end_read: bool,
    full_until: Instant,
}

/// Calls that a tour has made and how many of them have succeeded, and what was counted in it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Summary {
    calls: usize,
    succeeded: usize,
    changes: usize,
    counts: [usize; 4],
    steps: usize,
    asked: usize,
}

struct Tour {
    now: Instant,
    client: Client,
    server: Server,
    /// To the server, and to the client.
    links: [Link; 2],
    fault: Option<(Fault, Class, usize)>,
    summary: Summary,
    /// Calls of the client without an outcome.
    calls: BTreeMap<CallKey, &'static str>,
    /// Calls at the server without an answer or an end.
    open: BTreeSet<CallId>,
    subscription: Option<SubscriptionKey>,
    is_closed: bool,
}

/// Runs what an engine does: only its own allocations are refused.
fn engine<R>(work: impl FnOnce() -> R) -> R {
    STEPS.set(STEPS.get() + 1);
    let room = if STEPS.get() == FULL_AT.get() { LAST_ROOM as isize } else { isize::MAX };
    IS_IN_ENGINE.set(true);
    let outcome = within(room, work).0;
    IS_IN_ENGINE.set(false);
    outcome
}

fn server_config(has_keys: bool) -> server::Config {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::Prompts)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let config = server::Config::new("tour", "1")
        .capabilities(capabilities)
        .custom_method("tour/tide")
        .limits(limits());
    if has_keys { config.seal(Keys::new([7; 32]), Anchor::default()) } else { config }
}

/// Returns the limits of a device that serves tasks.
fn limits() -> Limits {
    let mut limits = small();
    limits.max_frame = 16 << 10;
    limits.memory_reserve = LAST_ROOM;
    limits
}

fn question() -> InputRequests<'static> {
    let schema = RawJson::new(r#"{"type":"object","properties":{"go":{"type":"boolean"}}}"#).expect("JSON");
    let form = ElicitFormParams::new("Go on?", schema.parse::<ElicitSchema>().expect("a form"));
    [("go", InputRequest::Elicit(form.into()))].into_iter().collect()
}

impl Tour {
    fn new(versions: VersionSet, config: &server::Config, fault: Option<(Fault, Class, usize)>) -> Self {
        let client = client::Config::new("tourist", "1")
            .versions(versions)
            .limits(limits())
            .capabilities(Capabilities::new().with(Capability::Elicitation))
            .task_polling(TaskPolling::new().interval_range(Duration::from_secs(1), Duration::from_secs(2)));
        let now = Instant::ZERO;
        let mut server = Server::new(Arc::new(config.clone()), now);
        server.engine().set_tasks(now, TaskTable::new(Entropy::new([9; 32], 0), Anchor::default()).stored());
        Self {
            now,
            client: Client::new(Arc::new(client), now),
            server,
            links: [Link::default(), Link::default()],
            fault,
            summary: Summary::default(),
            calls: BTreeMap::new(),
            open: BTreeSet::new(),
            subscription: None,
            is_closed: false,
        }
    }

    /// Counts an operation. Returns the fault if it is the one that was chosen.
    fn strike(&mut self, class: Class) -> Option<Fault> {
        let number = self.summary.counts[class as usize];
        self.summary.counts[class as usize] += 1;
        self.fault.filter(|(_, of, nth)| *of == class && *nth == number).map(|(fault, ..)| fault)
    }

    fn is_disturbed(&self) -> bool {
        self.fault.is_some() || FULL_AT.get().min(REFUSED_AT.get()) < usize::MAX
    }

    // ---- the loop --------------------------------------------------------------------------------------------

    /// Does once what is possible now. Returns whether there was anything.
    fn turn(&mut self) -> bool {
        let mut moved = false;
        while let Some(event) = engine(|| self.client.poll_event(self.now)) {
            self.handle_client_event(event);
            moved = true;
        }
        while let Some(event) = engine(|| self.server.poll_event(self.now)) {
            self.handle_server_event(event);
            moved = true;
        }
        moved |= self.work_for_store();
        for side in 0..2 {
            moved |= self.write(side);
        }
        for side in 0..2 {
            moved |= self.read(side);
        }
        moved
    }

    fn work_for_store(&mut self) -> bool {
        let mut moved = false;
        while let Some(effect) = engine(|| self.server.engine().tasks(self.now).poll_store()) {
            moved = true;
            let is_ok = self.strike(Class::Store).is_none();
            let mut tasks = self.server.engine().tasks(self.now);
            engine(|| match effect {
                StoreEffect::Save { id, version, .. } => tasks.handle_saved(&id, version, is_ok),
                StoreEffect::Delete { id, version } => tasks.handle_deleted(&id, version, is_ok),
                other => panic!("{other:?}"),
            });
        }
        moved
    }

    fn pipe(&mut self, side: usize) -> &mut dyn Side {
        if side == 0 { &mut self.client } else { &mut self.server }
    }

    /// Writes the output of a side: 0 is the client.
    fn write(&mut self, side: usize) -> bool {
        let mut moved = false;
        // Nobody reads it any more.
        if self.pipe(1 - side).has_ended() && !self.links[side].is_closed {
            self.links[side].bytes.clear();
            self.links[side].is_closed = true;
            moved = true;
        }
        while self.links[side].full_until <= self.now {
            let length = self.pipe(side).output().len();
            if length == 0 {
                let ends = self.pipe(side).has_ended() && !self.links[side].is_closed;
                self.links[side].is_closed |= ends;
                return moved || ends;
            }
            let taken = match self.strike(Class::Write) {
                Some(Fault::WriteFull) => {
                    self.links[side].full_until = self.now + DAY;
                    return moved;
                }
                Some(Fault::WriteFails) => {
                    self.break_links();
                    return true;
                }
                Some(_) => 1,
                None => length,
            };
            let bytes = self.pipe(side).output()[..taken].to_vec();
            if !self.links[side].is_closed {
                self.links[side].bytes.extend(bytes);
            }
            let pipe = self.pipe(side);
            engine(|| pipe.take(taken));
            moved = true;
        }
        moved
    }

    fn break_links(&mut self) {
        for link in &mut self.links {
            link.bytes.clear();
            link.is_closed = true;
        }
    }

    /// Reads the input of the other side.
    fn read(&mut self, side: usize) -> bool {
        if !self.pipe(1 - side).wants_more() {
            return false;
        }
        if self.links[side].bytes.is_empty() {
            let link = &mut self.links[side];
            let ends = link.is_closed && !core::mem::replace(&mut link.is_end_read, true);
            if ends {
                let (now, pipe) = (self.now, self.pipe(1 - side));
                engine(|| pipe.end(now));
            }
            return ends;
        }
        let length = self.links[side].bytes.len();
        let read = match self.strike(Class::Read) {
            Some(Fault::ReadReset) => {
                self.break_links();
                return true;
            }
            Some(Fault::ReadLate) => {
                self.advance_to(self.now + DAY);
                length
            }
            Some(Fault::ReadCut) => {
                let half = length / 2;
                self.links[side].bytes.truncate(half);
                self.links[side].is_closed = true;
                half
            }
            Some(_) => 1,
            None => length,
        };
        let bytes: Vec<u8> = self.links[side].bytes.drain(..read).collect();
        let (now, pipe) = (self.now, self.pipe(1 - side));
        engine(|| pipe.input(now, &bytes));
        true
    }

    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        engine(|| self.client.handle_timeout(self.now));
        engine(|| self.server.handle_timeout(self.now));
    }

    /// Advances to the next deadline until `until`. Returns whether there is one.
    fn skip(&mut self, until: Instant) -> bool {
        let full = self.links.iter().map(|link| link.full_until).filter(|at| *at > self.now).min();
        let due = [self.client.poll_timeout(), self.server.poll_timeout(), full];
        let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= until) else { return false };
        match self.strike(Class::Timer) {
            Some(Fault::TimerLate) => self.advance_to(at + Duration::from_secs(3_600)),
            Some(_) => {
                self.advance_to(self.now);
                self.advance_to(at);
            }
            None => self.advance_to(at),
        }
        true
    }

    fn settle(&mut self) {
        while self.turn() {}
    }

    /// Runs until every call of the client has ended.
    fn finish_calls(&mut self) {
        let until = self.now + DAY + DAY;
        while self.turn() || (!self.calls.is_empty() && self.skip(until)) {}
    }

    // ---- both applications -----------------------------------------------------------------------------------

    #[expect(deprecated, reason = "tested until its removal")]
    fn handle_client_event(&mut self, event: client::Event) {
        assert!(!self.is_closed, "after the end: {event:?}");
        match event {
            client::Event::Done { call, outcome, .. } => {
                let name =
                    self.calls.remove(&call).unwrap_or_else(|| panic!("{call:?} ends twice: {outcome:?}"));
                let is_right = match name {
                    "fail" => matches!(outcome, Err(CallError::Rpc(_))),
                    "cancelled" => matches!(outcome, Err(CallError::Cancelled)),
                    "endless" => matches!(outcome, Err(CallError::TimedOut)),
                    "open" => true,
                    _ => outcome.is_ok(),
                };
                assert!(is_right || self.is_disturbed(), "{name}: {outcome:?}");
                self.summary.succeeded += usize::from(is_right);
            }
            client::Event::Input(input) => {
                let answer = json!({"action": "accept", "content": {"go": true}});
                // Without memory for the answer its call ends by its timeout.
                let answered = engine(|| self.client.engine().answer(self.now, input.id, &answer));
                assert!(answered.is_ok() || self.is_disturbed(), "{answered:?}");
            }
            client::Event::Changed { .. } => self.summary.changes += 1,
            client::Event::SubscriptionEnded { .. } => self.subscription = None,
            client::Event::Closed(_) => self.is_closed = true,
            client::Event::Request(request) => {
                let _ = engine(|| self.client.engine().respond(self.now, request.id, &json!({})));
            }
            client::Event::Ready(_)
            | client::Event::Progress { .. }
            | client::Event::Task { .. }
            | client::Event::Subscribed { .. }
            | client::Event::Notification(_)
            | client::Event::InputWithdrawn(_)
            | client::Event::Diagnostic(_)
            | client::Event::Log(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn handle_server_event(&mut self, event: server::Event) {
        match event {
            server::Event::Call(call) => {
                assert!(self.open.insert(call.id()), "{call:?} begins twice");
                self.handle_call(&call);
            }
            server::Event::Cancelled { call, .. } => {
                assert!(self.open.remove(&call), "{call:?} ends twice");
            }
            _ => {}
        }
    }

    fn handle_call(&mut self, call: &Call) {
        let (now, id) = (self.now, call.id());
        if call.method() != "tools/call" {
            let result = match call.method() {
                "tools/list" => {
                    json!({"tools": [
                        {"name": "echo", "inputSchema": {"type": "object"}},
                        {"name": "task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
                    ]})
                }
                "prompts/list" => json!({"prompts": []}),
                "resources/read" => json!({"contents": [{"uri": "tour:news", "text": "none"}]}),
                _ => json!({}),
            };
            return self.answer(id, &result);
        }
        let name = engine(|| call.tool_call().map(|tool| tool.name.to_string()));
        let name = match name {
            Ok(name) => name,
            Err(error) => return self.refuse(id, &error),
        };
        let (engine_of, given) = (self.server.engine(), question());
        match name.as_str() {
            "count" => {
                for step in 1..=3 {
                    let _ = engine(|| engine_of.progress(now, id, Progress::new(f64::from(step))));
                }
                self.answer(id, &CallToolResult::text("counted"));
            }
            "fail" => self.refuse(id, &RpcError::new(7, "no luck")),
            "endless" => {}
            "ask" if call.answer("go").is_none() => {
                match engine(|| engine_of.need_input(now, call, &given, b"state")) {
                    // The engine has it, and delivers it again.
                    Ok(()) => _ = self.open.remove(&id),
                    Err(error) => self.refuse(id, &RpcError::internal(error.to_string())),
                }
            }
            "task" if call.task_offer() != TaskOffer::None => {
                match engine(|| engine_of.tasks(now).begin(call, TaskOptions::new()).map(drop)) {
                    Ok(()) => _ = self.open.remove(&id),
                    Err(error) => self.refuse(id, &RpcError::internal(error.to_string())),
                }
            }
            _ => self.answer(id, &CallToolResult::text("x".repeat(1_000))),
        }
    }

    fn answer<T: Serialize + ?Sized>(&mut self, id: CallId, result: &T) {
        match engine(|| self.server.engine().complete(self.now, id, result)) {
            Ok(()) => _ = self.open.remove(&id),
            // Its cancellation is the next event.
            Err(UseError::Stale) => {}
            Err(error) => self.refuse(id, &RpcError::internal(error.to_string())),
        }
    }

    fn refuse(&mut self, id: CallId, error: &RpcError) {
        match engine(|| self.server.engine().fail(self.now, id, error)) {
            Ok(()) => _ = self.open.remove(&id),
            Err(UseError::Stale) => {}
            Err(error) => panic!("{error}"),
        }
    }

    // ---- the steps -------------------------------------------------------------------------------------------

    fn begin(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut client::Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Option<CallKey> {
        self.summary.calls += 1;
        match engine(|| work(self.client.engine(), self.now)) {
            Ok(key) => {
                self.calls.insert(key, name);
                Some(key)
            }
            Err(error) => {
                assert!(self.is_disturbed(), "{name}: {error}");
                None
            }
        }
    }

    fn call(
        &mut self,
        name: &'static str,
        method: &str,
        params: &Value,
        options: &CallOptions,
    ) -> Option<CallKey> {
        self.begin(name, |engine, now| engine.call(now, method, params, options))
    }

    fn tool(&mut self, name: &'static str, options: &CallOptions) -> Option<CallKey> {
        let tool = if matches!(name, "cancelled" | "open") { "endless" } else { name };
        self.call(
            name,
            "tools/call",
            &json!({"name": tool, "arguments": {"text": "x".repeat(1_000)}}),
            options,
        )
    }

    /// Takes the whole tour, ends the connection, and checks that nothing is left.
    fn run(mut self) -> Summary {
        let options = CallOptions::new();
        for (name, method, params) in [
            ("list", "tools/list", json!({})),
            ("prompts", "prompts/list", json!({})),
            ("read", "resources/read", json!({"uri": "tour:news"})),
            ("custom", "tour/tide", json!({"harbour": "Brest"})),
        ] {
            self.call(name, method, &params, &options);
            self.finish_calls();
        }
        for name in ["echo", "fail", "ask", "echo"] {
            self.tool(name, &options);
            self.finish_calls();
        }
        self.tool("count", &CallOptions::new().with_progress());
        self.finish_calls();
        self.begin("ping", |engine, now| engine.ping(now, &CallOptions::new()));
        self.finish_calls();
        self.begin("task", |engine, now| {
            let (text, options) = (json!({"text": "x"}), CallOptions::new());
            engine.call_tool_as_task(now, "task", &text, TaskRequest::followed(), &options)
        });
        self.finish_calls();
        self.follow_resource();
        // Three at once.
        for name in ["echo", "ask", "count"] {
            self.tool(name, &options);
        }
        self.finish_calls();
        if let Some(call) = self.tool("cancelled", &options) {
            self.settle();
            // It has ended if the fault ended it.
            let _ = engine(|| self.client.engine().cancel(self.now, call, Some("changed my mind")));
        }
        self.finish_calls();
        self.tool("endless", &CallOptions::new().timeout(Duration::from_secs(5)));
        self.finish_calls();
        self.tool("echo", &options);
        self.finish_calls();
        self.tool("open", &options);
        self.settle();
        self.end()
    }

    fn follow_resource(&mut self) {
        let filter = SubscriptionFilter::new().resource_subscriptions(["tour:news".to_owned()]);
        let made = engine(|| self.client.engine().subscribe(self.now, &filter));
        assert!(made.is_ok() || self.is_disturbed(), "{made:?}");
        self.subscription = made.ok();
        self.settle();
        engine(|| self.server.engine().publish(self.now, &Change::Resource("tour:news".into())));
        self.settle();
        if let Some(subscription) = self.subscription.take() {
            let ended = engine(|| self.client.engine().unsubscribe(self.now, subscription));
            assert!(ended.is_ok() || self.is_disturbed(), "{ended:?}");
        }
        self.settle();
    }

    /// Ends the connection.
    fn end(mut self) -> Summary {
        self.links[0].is_closed = true;
        self.settle();
        // A server may answer after the end of its input.
        for id in core::mem::take(&mut self.open) {
            self.open.insert(id);
            self.answer(id, &CallToolResult::text("at last"));
        }
        let until = self.now + 4 * DAY;
        while self.turn() || self.skip(until) {}
        assert_eq!((self.calls.len(), self.open.len()), (0, 0), "{:?} {:?}", self.calls, self.open);
        assert!(self.is_closed && self.client.is_drained() && self.server.is_drained());
        assert_eq!(self.server.engine().live_calls(), 0);
        (self.summary.steps, self.summary.asked) = (STEPS.get(), ASKED.get());
        self.summary
    }
}

/// What the loop needs of either end.
trait Side {
    fn output(&self) -> &[u8];
    fn take(&mut self, count: usize);
    fn input(&mut self, now: Instant, bytes: &[u8]);
    fn end(&mut self, now: Instant);
    fn wants_more(&self) -> bool;
    fn has_ended(&self) -> bool;
}

impl<P: Pipe> Side for P {
    fn output(&self) -> &[u8] {
        self.transmit()
    }

    fn take(&mut self, count: usize) {
        self.consume(count);
    }

    fn input(&mut self, now: Instant, bytes: &[u8]) {
        self.handle_input(now, bytes);
    }

    fn end(&mut self, now: Instant) {
        self.handle_eof(now);
    }

    fn wants_more(&self) -> bool {
        self.wants_input()
    }

    fn has_ended(&self) -> bool {
        self.is_drained()
    }
}

/// Takes a tour, and checks that it leaves no memory behind.
fn tour(
    versions: VersionSet,
    config: &server::Config,
    fault: Option<(Fault, Class, usize)>,
    full_at: usize,
) -> Summary {
    let before = LIVE.get();
    STEPS.set(0);
    ASKED.set(0);
    FULL_AT.set(full_at);
    let summary = Tour::new(versions, config, fault).run();
    FULL_AT.set(usize::MAX);
    let refused = REFUSED_AT.get();
    let left = (LIVE.get(), config.memory_in_use());
    assert_eq!(left, (before, 0), "left by {fault:?}, heap full at {full_at}, refused at {refused}");
    summary
}

const ERAS: [VersionSet; 2] = [VersionSet::LEGACY, VersionSet::MODERN];

#[test]
fn tour_in_memory_survives_each_fault_at_each_place() {
    for versions in ERAS {
        let config = server_config(true);
        let clean = tour(versions, &config, None, usize::MAX);
        assert_eq!(clean.succeeded, clean.calls, "{versions:?}");
        assert_eq!(clean.changes, 1, "{versions:?}");
        let mut places = 0;
        for (fault, class) in FAULTS {
            let count = clean.counts[class as usize];
            assert!(count > 0, "{class:?} has no place in {versions:?}");
            for nth in 0..count {
                let seen = tour(versions, &config, Some((fault, class, nth)), usize::MAX);
                if fault.is_invisible() {
                    assert_eq!((seen.succeeded, seen.changes), (clean.succeeded, 1), "{fault:?} at {nth}");
                }
                assert_eq!(tour(versions, &config, None, usize::MAX), clean, "after {fault:?} at {nth}");
                places += 1;
            }
        }
        println!("{versions:?}: {places} places, {} calls, {:?}", clean.calls, clean.counts);
    }
}

#[test]
fn tour_without_keys_refuses_what_needs_them_and_nothing_else() {
    let (with, without) = (server_config(true), server_config(false));
    for versions in ERAS {
        let clean = tour(versions, &with, None, usize::MAX);
        // As a fault that is never reached: what fails is allowed to.
        let seen = tour(versions, &without, Some((Fault::StoreFails, Class::Store, usize::MAX)), usize::MAX);
        let questions = if versions == VersionSet::MODERN { 2 } else { 0 };
        assert_eq!(seen.succeeded + questions, clean.succeeded, "{versions:?}");
    }
}

#[test]
fn tour_in_memory_survives_a_full_heap_at_each_call_of_an_engine() {
    for versions in ERAS {
        let config = server_config(true);
        let clean = tour(versions, &config, None, usize::MAX);
        let mut noticed = 0;
        for nth in 1..=clean.steps {
            let seen = tour(versions, &config, None, nth);
            noticed += usize::from(seen.succeeded < clean.succeeded);
        }
        assert_eq!(tour(versions, &config, None, usize::MAX), clean);
        println!("{versions:?}: {} calls of engines, {noticed} tours with a failed call", clean.steps);
        assert!(noticed > 0, "the heap is never full");
    }
}

#[test]
fn tour_in_memory_survives_each_refused_allocation() {
    for versions in ERAS {
        let config = server_config(true);
        let clean = tour(versions, &config, None, usize::MAX);
        let mut noticed = 0;
        for nth in 0..clean.asked {
            REFUSED_AT.set(nth);
            let seen = tour(versions, &config, None, usize::MAX);
            REFUSED_AT.set(usize::MAX);
            assert!(seen.asked > nth, "allocation {nth} was not reached");
            noticed += usize::from(seen.succeeded < clean.succeeded);
            assert_eq!(tour(versions, &config, None, usize::MAX), clean, "after allocation {nth}");
        }
        println!("{versions:?}: {} allocations, {noticed} tours with a failed call", clean.asked);
        assert!(noticed > 0, "no call needs memory");
    }
}
